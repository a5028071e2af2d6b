//! Compares the model with closed forms and with its own counters.

use super::*;
use crate::sim::SimEngine;
use crate::sim::testing::{reap_all, reap_next};
use crate::{IoEngine, Wait};
use OpKind::*;
use sys::buffer::Buf;
use sys::op::Outcome;
use sys::op::Placement;

/// A drive with one die and negligible transfer time, so that reads form a queue with one server.
const ONE_DIE: &str =
    "channels=1+dies=1+planes=1+read-us=50+bus-mbps=1000000+controller-us=10+superblock=1MiB";

/// A drive with four dies and without suspension, on which only programs and erases take time.
const FLASH_OF_WRITES: &str = "capacity=1GiB+op=20%+superblock=4MiB+precondition=3+channels=4+dies=1+read-us=0\
    +program-us=500+erase-us=5000+bus-mbps=1000000+suspend-us=off+controller-us=0.1";

fn engine(parameters: &str) -> SimEngine<FtlModel> {
    let text = format!("sim:ftl+{parameters}");
    let drive: DriveSpec = text.parse().unwrap_or_else(|error| panic!("{error}"));
    SimEngine::new(vec![
        FtlModel::new(&drive, drive.ftl.as_ref().unwrap(), 1).unwrap(),
    ])
}

fn model(engine: &SimEngine<FtlModel>) -> &FtlModel {
    &engine.drives[0]
}

fn op(kind: OpKind, offset: u64, len: u32, token: u32) -> Op {
    Op {
        token,
        ..Op::new(kind, offset, len, Buf::empty())
    }
}

#[derive(Debug, Default, PartialEq)]
struct Run {
    reads_ns: Vec<u64>,
    writes_ns: Vec<u64>,
    end_ns: u64,
}

impl Run {
    fn read_quantile_us(&mut self, quantile: f64) -> u64 {
        self.reads_ns.sort_unstable();
        self.reads_ns[(self.reads_ns.len() as f64 * quantile) as usize] / 1_000
    }
}

/// Submits operations at the given times after now, in ascending order, as an open loop.
fn open_loop(
    engine: &mut SimEngine<FtlModel>,
    arrivals: impl Iterator<Item = (u64, OpKind, u64, u32)>,
) -> Run {
    open_loop_with(engine, arrivals, |_| None)
}

fn open_loop_with(
    engine: &mut SimEngine<FtlModel>,
    arrivals: impl Iterator<Item = (u64, OpKind, u64, u32)>,
    placement: impl Fn(u64) -> Option<Placement>,
) -> Run {
    let mut run = Run::default();
    let mut out = Vec::new();
    let mut kinds = Vec::new();
    let begun_ns = engine.now();
    let mut free: Vec<u32> = Vec::new();
    let mut reap = |engine: &mut SimEngine<FtlModel>,
                    kinds: &[OpKind],
                    free: &mut Vec<u32>,
                    until_ns,
                    completions| {
        engine
            .reap(
                Wait {
                    until_ns,
                    completions,
                },
                &mut out,
            )
            .unwrap();
        for done in out.drain(..) {
            assert!(done.outcome.is_done(), "{:?}", done.outcome);
            let ns = done.completed_ns - done.issued_ns;
            match kinds[done.token as usize] {
                Read => run.reads_ns.push(ns),
                _ => run.writes_ns.push(ns),
            }
            run.end_ns = done.completed_ns;
            free.push(done.token);
        }
    };
    for (at_ns, kind, offset, len) in arrivals {
        while engine.now() < begun_ns + at_ns {
            reap(engine, &kinds, &mut free, begun_ns + at_ns, u32::MAX);
        }
        let token = free.pop().unwrap_or_else(|| {
            kinds.push(kind);
            kinds.len() as u32 - 1
        });
        kinds[token as usize] = kind;
        engine.submit(Op {
            placement: placement(offset),
            ..op(kind, offset, len, token)
        });
    }
    while engine.in_flight() > 0 {
        reap(engine, &kinds, &mut free, u64::MAX, 1);
    }
    run
}

fn poisson(count: usize, per_s: f64, seed: u64) -> impl Iterator<Item = u64> {
    let mut random = Random::new(seed);
    let mut at_ns = 0.0;
    (0..count).map(move |_| {
        at_ns -= (1.0 - random.unit()).ln() * 1e9 / per_s;
        at_ns as u64
    })
}

/// Random 4 KiB reads and writes, each with Poisson arrivals; `operations` in all.
fn mixed(
    operations: usize,
    reads_per_s: f64,
    writes_per_s: f64,
    pages: u64,
) -> impl Iterator<Item = (u64, OpKind, u64, u32)> {
    let mut random = Random::new(7);
    let write_share = writes_per_s / (reads_per_s + writes_per_s);
    poisson(operations, reads_per_s + writes_per_s, 3).map(move |at_ns| {
        let kind = if random.unit() < write_share {
            Write
        } else {
            Read
        };
        (at_ns, kind, random.below(pages) * 4096, 4096)
    })
}

fn counter(engine: &SimEngine<FtlModel>, column: Column) -> u64 {
    model(engine)
        .counters()
        .into_iter()
        .find(|(of, _)| *of == column)
        .unwrap()
        .1
}

fn waf(engine: &SimEngine<FtlModel>) -> f64 {
    counter(engine, Column::SimMbmw) as f64 / counter(engine, Column::SimHbmw) as f64
}

#[test]
fn reads_of_one_die_wait_as_long_as_in_an_m_d_1_queue() {
    let mut engine = engine(&format!("{ONE_DIE}+capacity=64MiB+op=50%+precondition=1"));
    let pages = (64 << 20) / 4096;
    let mut random = Random::new(5);
    // The transfer of 4096 bytes at a million MB/s takes 4 ns.
    let service_us = 50.004;
    for load in [0.3, 0.7, 0.85] {
        let count = 200_000;
        let arrivals = poisson(count, load * 1e6 / service_us, 11);
        let run = open_loop(
            &mut engine,
            arrivals.map(|at| (at, Read, random.below(pages) * 4096, 4096)),
        );
        let mean_us = run.reads_ns.iter().sum::<u64>() as f64 / count as f64 / 1e3;
        let wait_us = mean_us - service_us - 10.0;
        let expected_us = load * service_us / (2.0 * (1.0 - load));
        // The waits of adjacent reads are correlated, more so at a higher load, so the effective sample is smaller.
        assert!(
            (wait_us / expected_us - 1.0).abs() < 0.04,
            "load {load}: {wait_us} us, not {expected_us}"
        );
    }
}

#[test]
fn reads_at_fixed_intervals_wait_exactly_as_long_as_in_a_d_d_c_queue() {
    // Four dies on separate channels, read in rotation.
    let mut engine = engine(
        "capacity=64MiB+op=50%+precondition=1+channels=4+dies=1+planes=1+read-us=50+bus-mbps=1000000+controller-us=10\
         +superblock=1MiB",
    );
    let stripe = |n: u64| (n % (64 << 20 >> 14)) << 14;
    let latency_ns = 10_000 + 50_000 + 4;
    let at_most = |engine: &mut _, gap_ns: u64| {
        open_loop(
            engine,
            (0..400).map(|n| (n * gap_ns, Read, stripe(n), 4096)),
        )
        .reads_ns
    };
    assert!(
        at_most(&mut engine, 12_501)
            .iter()
            .all(|ns| *ns == latency_ns),
        "below what four dies can"
    );
    // A die gets a read every 40,000 ns but needs 50,004 ns: its n-th read waits n times the difference.
    let over = at_most(&mut engine, 10_000);
    let expected: Vec<_> = (0..400)
        .map(|n| latency_ns + n / 4 * (50_004 - 40_000))
        .collect();
    assert_eq!(over, expected);
}

#[test]
fn dies_on_one_channel_transfer_their_data_one_after_the_other() {
    // 64 KiB at 1000 MB/s take 65.536 us. Two dies read in parallel and share the channel.
    let text = "capacity=64MiB+op=50%+precondition=1+channels=1+dies=2+read-us=50+bus-mbps=1000+controller-us=10+superblock=1MiB";
    let mut engine = engine(text);
    let reads = (0..2).map(|n| (0, Read, n * (64 << 10), 64 << 10));
    assert_eq!(open_loop(&mut engine, reads).reads_ns, [125_536, 191_072]);
    let both = std::iter::once((0, Read, 0, 128 << 10));
    assert_eq!(open_loop(&mut engine, both).reads_ns, [191_072]);
}

#[test]
fn a_die_does_not_occupy_its_channel_while_it_reads_its_flash_array() {
    let mut engine = engine(
        "capacity=64MiB+op=50%+channels=1+dies=2+read-us=50+bus-mbps=1000+controller-us=10+superblock=1MiB",
    );
    open_loop(&mut engine, std::iter::once((0, Write, 0, 64 << 10)));
    engine
        .reap(Wait::first(1_000_000_000), &mut Vec::new())
        .unwrap();
    // The other die's program holds the channel from 5 to 70.536 us. The read, ready at 60 us, transfers 4.096 us.
    let both = [(0, Read, 0, 4096), (5_000, Write, 64 << 10, 64 << 10)];
    assert_eq!(open_loop(&mut engine, both.into_iter()).reads_ns, [74_632]);
}

#[test]
fn operations_without_flash_access_take_only_the_controller() {
    let mut engine = engine("capacity=1GiB+controller-us=10");
    let at = |kind, offset, len| std::iter::once((0, kind, offset, len));
    assert_eq!(
        open_loop(&mut engine, at(Read, 0, 1 << 20)).reads_ns,
        [10_000],
        "never written"
    );
    assert_eq!(
        open_loop(&mut engine, at(Write, 0, 4096)).writes_ns,
        [10_000]
    );
    assert_eq!(
        open_loop(&mut engine, at(Read, 0, 4096)).reads_ns,
        [10_000],
        "in the buffer: no stripe is full"
    );
    assert_eq!(
        open_loop(&mut engine, at(Flush, 0, 0)).writes_ns,
        [10_000],
        "the buffer outlives the power"
    );
    // Fills the stripe, so that it is programmed.
    open_loop(&mut engine, at(Write, 4096, 60 << 10));
    engine
        .reap(Wait::first(1_000_000_000), &mut Vec::new())
        .unwrap();
    assert_eq!(
        open_loop(&mut engine, at(Read, 0, 4096)).reads_ns,
        [10_000 + 50_000 + 2_560]
    );
    assert_eq!(
        open_loop(&mut engine, at(Deallocate, 100, 64 << 10)).writes_ns,
        [10_000]
    );
    let reads = [
        (0, 62_560),
        (4096, 10_000),
        (60 << 10, 10_000),
        (64 << 10, 10_000),
    ];
    for (offset, ns) in reads {
        let run = open_loop(&mut engine, at(Read, offset, 4096));
        assert_eq!(
            run.reads_ns,
            [ns],
            "at {offset}: units that were deallocated in part are still there"
        );
    }
    model(&engine).check().unwrap();
}

#[test]
fn a_partial_write_of_a_unit_reads_the_unit_first() {
    let mut engine = engine("capacity=1GiB+precondition=1");
    let parts = [(512, 512), (8192 + 512, 4096), (16384, 4096)];
    open_loop(
        &mut engine,
        parts
            .into_iter()
            .map(|(offset, len)| (0, Write, offset, len)),
    );
    let found = counter(&engine, Column::SimHbmw);
    assert_eq!(found, 512 + 4096 + 4096, "what the host wrote");
    assert_eq!(counter(&engine, Column::SimMbmw), 4 * 4096, "whole units");
    assert_eq!(counter(&engine, Column::SimCollectionReadBytes), 3 * 4096);
}

#[test]
fn a_full_buffer_limits_writes_to_the_program_rate_of_the_dies() {
    let mut engine = engine("capacity=1GiB+channels=4+dies=1+buffer=1MiB+suspend-us=off");
    // Four dies program 64 KiB each in 500 us, after 41 us of transfer: 484.6 MB/s. The load writes at twice that rate.
    let total: u64 = 256 << 20;
    let writes = (0..total >> 17).map(|n| (n * 135_000, Write, n << 17, 1 << 17));
    let run = open_loop(&mut engine, writes);
    let expected_ns = (total - (1 << 20)) as f64 / (4.0 * 65_536.0) * 540_960.0;
    assert!(
        (run.end_ns as f64 / expected_ns - 1.0).abs() < 0.002,
        "{} ns, not {expected_ns}",
        run.end_ns
    );
    assert_eq!(
        run.writes_ns[..8],
        [8_000; 8],
        "the buffer has room for the first"
    );
    assert!(
        *run.writes_ns.last().unwrap() > run.end_ns / 3,
        "the last waited for all others"
    );
    assert_eq!(waf(&engine), 1.0, "nothing was collected");
    model(&engine).check().unwrap();
}

#[test]
fn sustained_write_bandwidth_is_that_of_the_dies_divided_by_the_write_amplification() {
    for append in ["separate", "shared"] {
        let mut engine = engine(&format!("{FLASH_OF_WRITES}+append={append}+buffer=4MiB"));
        let mut random = Random::new(9);
        let mut run = |writes| {
            let before = busy_ns(&engine);
            let all = (0..writes).map(|_| (0, Write, random.below(1 << 18) << 12, 4096));
            let begun_ns = engine.now();
            let end_ns = open_loop(&mut engine, all).end_ns;
            ((end_ns - begun_ns) as f64, busy_ns(&engine) - before)
        };
        // Warm-up, until the buffer is full and collection lags by its maximum.
        run(20_000);
        let (took_ns, busy_ns) = run(200_000);
        let ratio = took_ns / busy_ns;
        assert!(
            (ratio - 1.0).abs() < 0.01,
            "{append}: {ratio} of the time that dies are busy by the counters"
        );
        model(&engine).check().unwrap();
    }
}

/// Time for which each die programs and erases, from the counters of a drive with [`FLASH_OF_WRITES`].
fn busy_ns(engine: &SimEngine<FtlModel>) -> f64 {
    let programs = counter(engine, Column::SimMbmw) as f64 / 65_536.0;
    let erases = counter(engine, Column::SimMbe) as f64 / f64::from(4 << 20);
    programs * 500_000.0 / 4.0 + erases * 5_000_000.0
}

#[test]
fn the_share_of_reads_that_wait_equals_the_busy_share_of_the_dies_by_the_counters() {
    let mut tails = Vec::new();
    for writes_per_s in [500.0, 2_000.0, 8_000.0] {
        let mut engine = engine(FLASH_OF_WRITES);
        let mut run = open_loop(&mut engine, mixed(300_000, 40_000.0, writes_per_s, 1 << 18));
        let waited =
            run.reads_ns.iter().filter(|ns| **ns > 110).count() as f64 / run.reads_ns.len() as f64;
        let busy = busy_ns(&engine) / run.end_ns as f64;
        assert!(
            (waited / busy - 1.0).abs() < 0.03,
            "{waited} of the reads waited for dies that are {busy} busy"
        );
        tails.push((busy, run.read_quantile_us(0.99)));
        model(&engine).check().unwrap();
    }
    assert!(
        tails.is_sorted_by(|less, more| less.0 * 2.0 < more.0 && less.1 < more.1),
        "busy, p99 in us: {tails:?}"
    );
}

#[test]
fn write_amplification_is_the_same_with_and_without_timing() {
    for parameters in [
        "op=20%",
        "op=7%+reserve=6",
        "op=12%+victim=fifo+append=shared",
    ] {
        let parameters = format!(
            "capacity=512MiB+superblock=1MiB+precondition=3+channels=4+dies=1+{parameters}"
        );
        let drive = format!("sim:ftl+{parameters}")
            .parse::<DriveSpec>()
            .unwrap()
            .ftl
            .unwrap();
        let units = 1 << 17;
        let overwritten = || {
            let mut random = Random::new(4);
            (0..units).map(move |_| random.below(units))
        };

        let mut untimed = Ftl::new(&drive.spec, 1).unwrap();
        precondition(&mut untimed, 3, &mut Random::for_part(1, 1));
        let before = untimed.counters();
        overwritten().for_each(|unit| untimed.write(unit, 1, 0));
        let expected = untimed.counters().since(before).unwrap().waf().unwrap();

        // A write every microsecond, faster than the drive; then a write every 200 us.
        for gap_ns in [1_000, 200_000] {
            let mut engine = engine(&parameters);
            let all = (0..)
                .zip(overwritten())
                .map(|(n, unit)| (n * gap_ns, Write, unit << 12, 4096));
            open_loop(&mut engine, all);
            let waf = waf(&engine);
            assert!(
                (waf / expected - 1.0).abs() < 0.02,
                "{parameters}, {gap_ns} ns: {waf}, without time {expected}"
            );
        }
    }
}

#[test]
fn a_handle_does_not_wait_longer_for_a_superblock_when_other_handles_have_room() {
    // All data has the same lifetime, so handles gain nothing and only cost open superblocks.
    let run = |placement: fn(u64) -> Option<Placement>| {
        let text = "capacity=512MiB+op=25%+superblock=1MiB+precondition=3+channels=4+dies=1+handles=4+append=per-handle";
        let mut engine = engine(text);
        let mut random = Random::new(2);
        let mut writes = |count| {
            let all =
                poisson(count, 6_000.0, 1).map(|at| (at, Write, random.below(1 << 17) << 12, 4096));
            open_loop_with(&mut engine, all, placement).writes_ns
        };
        // Warm-up, because collection has not prepared the first superblock of each handle.
        writes(20_000);
        let mut writes_ns = writes(100_000);
        writes_ns.sort_unstable();
        [0.99, 0.999]
            .map(|quantile| writes_ns[(writes_ns.len() as f64 * quantile) as usize] / 1_000)
    };
    let one = run(|_| None);
    let four = run(|offset| Some(Placement((offset >> 27) as u16 + 1)));
    assert!(
        one[0] == four[0] && four[1] < 5_000,
        "p99 and p99.9 in us: {one:?}, with handles {four:?}"
    );
}

#[test]
fn suspension_shortens_the_read_tail() {
    let tail_us = |suspend: &str| {
        let text = "capacity=1GiB+op=7%+channels=4+dies=2+superblock=4MiB+precondition=2";
        let mut engine = engine(&format!("{text}+suspend-us={suspend}"));
        let mut run = open_loop(&mut engine, mixed(60_000, 20_000.0, 5_000.0, 1 << 18));
        (run.read_quantile_us(0.9), run.read_quantile_us(0.99))
    };
    let off = tail_us("off");
    let slow = tail_us("100");
    let fast = tail_us("10");
    assert!(
        off.0 > 2 * fast.0 && off.1 > 3 * fast.1,
        "p90 and p99 in us without it {off:?}, with it {fast:?}"
    );
    assert!(slow.0 > fast.0 && slow.1 < off.1, "at 100 us {slow:?}");
}

#[test]
fn the_same_seed_gives_the_same_run_and_another_seed_another_run() {
    let run = |seed: u64| {
        let text = format!(
            "capacity=256MiB+op=10%+channels=2+dies=2+superblock=1MiB+precondition=2+seed={seed}"
        );
        let mut engine = engine(&text);
        let run = open_loop(&mut engine, mixed(30_000, 10_000.0, 10_000.0, 1 << 16));
        (run, model(&engine).counters())
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn handles_separate_streams_and_unknown_handles_are_refused() {
    let write = |placement: Option<u16>, token| Op {
        placement: placement.map(Placement),
        ..op(Write, u64::from(token) << 12, 4096, token)
    };
    let outcomes = |parameters: &str, placements: &[Option<u16>]| {
        let mut engine = engine(parameters);
        placements
            .iter()
            .zip(0..)
            .for_each(|(placement, token)| engine.submit(write(*placement, token)));
        let mut out = reap_all(&mut engine);
        out.sort_unstable_by_key(|done| done.token);
        (
            out.iter().map(|done| done.outcome).collect::<Vec<_>>(),
            engine,
        )
    };
    let refused = Outcome::Errno;
    let (one, _) = outcomes("capacity=1GiB", &[None, Some(1)]);
    assert_eq!(one, [Outcome::Done, refused(libc::EOPNOTSUPP)]);
    let (four, engine) = outcomes(
        "capacity=1GiB+handles=4",
        &[None, Some(1), Some(4), Some(5), Some(0)],
    );
    assert_eq!(
        four,
        [
            Outcome::Done,
            Outcome::Done,
            Outcome::Done,
            refused(libc::EINVAL),
            refused(libc::EINVAL)
        ]
    );
    let ftl = &model(&engine).ftl;
    let superblock = |unit| ftl.locate(unit).unwrap().superblock;
    assert!(superblock(0) == superblock(1) && superblock(0) != superblock(2));
    assert_eq!(counter(&engine, Column::SimFailed), 2);
}

#[test]
fn bad_sectors_invalid_offsets_and_a_disconnected_drive_fail_operations() {
    let mut engine = engine("capacity=1GiB+bad=1MiB-2MiB+gone-at-s=1+controller-us=10");
    let ends = |engine: &mut SimEngine<FtlModel>, operation: Op| {
        engine.submit(operation);
        let mut out = Vec::new();
        reap_next(engine, &mut out);
        (out[0].outcome, out[0].completed_ns - out[0].issued_ns)
    };
    let errno = Outcome::Errno;
    let read = |offset, len| op(Read, offset, len, 0);
    let found = ends(&mut engine, read(1 << 20, 4096));
    assert_eq!(found, (errno(libc::EIO), 10_000));
    let found = ends(&mut engine, read((1 << 30) - 512, 1024));
    assert_eq!(found, (errno(libc::EINVAL), 0));
    let found = ends(&mut engine, read(u64::MAX, 1024));
    assert_eq!(found, (errno(libc::EINVAL), 0));
    engine
        .reap(Wait::first(999_999_000), &mut Vec::new())
        .unwrap();
    let found = ends(&mut engine, read(0, 4096));
    assert_eq!(found, (errno(libc::ENODEV), 10_000), "gone before it ended");
    assert_eq!(ends(&mut engine, read(0, 4096)), (errno(libc::ENODEV), 0));
    assert_eq!(counter(&engine, Column::SimReads), 0);
    assert_eq!(counter(&engine, Column::SimFailed), 5);
}
