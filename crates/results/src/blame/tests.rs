//! Runs with a known cause: the injected cause must be blamed.

use super::*;
use crate::cell::{Interval, Layout, StreamInfo};
use crate::counts::Backlog;
use crate::judge::{End, IntervalCounts, Judge, JudgePlan, Sla, TestedObject};
use crate::telemetry::{TimeDistribution, TraceKind, TraceLine, TraceSize};
use crate::testing::layout;
use crate::times::Times;
use crate::{assert_contains, assert_ends_with, assert_starts_with};
use Cause::*;

const US: u64 = 1_000;
const MS: u64 = 1_000_000;
const SEC: u64 = 1_000_000_000;

struct Run {
    layout: Layout,
    judge: Judge,
    blamer: Blamer,
    next: u64,
}

fn times(wait_ns: u64, lag_ns: u64, service_ns: u64) -> Times {
    Times::new(0, wait_ns, wait_ns + lag_ns, wait_ns + lag_ns + service_ns)
}

impl Run {
    /// `columns`: names of telemetry columns, separated by blanks. The kernel calls the devices nvme0n1, nvme1n1...
    fn new(devices: usize, slice_sec: u64, simulated: bool, columns: &str) -> Self {
        Self::of_full(devices, slice_sec, simulated, columns, None)
    }

    /// Each device holds at most `requests_max` requests at once.
    fn of_full(
        devices: usize,
        slice_sec: u64,
        simulated: bool,
        columns: &str,
        requests_max: Option<u64>,
    ) -> Self {
        let layout = layout(
            &[("reads", true)],
            1000.0,
            (0..devices).map(|device| format!("/dev/d{device}")),
        );
        let plan = JudgePlan {
            simulated,
            ..JudgePlan::new(&layout, Sla::default(), 1, slice_sec, 3600)
        };
        let columns: Vec<_> = columns.split_whitespace().map(str::to_owned).collect();
        let kernel_names: Vec<_> = (0..devices)
            .map(|device| Some(format!("nvme{device}n1")))
            .collect();
        let blamer = Blamer::new(&plan, &columns, &kernel_names, &vec![requests_max; devices]);
        Self {
            judge: Judge::new(plan),
            layout,
            blamer,
            next: 0,
        }
    }

    /// Appends a second with these operations (count, times) on device 0, and a telemetry row.
    fn second(&mut self, ops: &[(u64, Times)], telemetry: &[f64]) -> &mut Self {
        self.second_with(telemetry, |interval| {
            for (count, times) in ops {
                (0..*count).for_each(|_| interval.cells[0].record(times, 0, 1536));
            }
        })
    }

    fn second_with(&mut self, telemetry: &[f64], fill: impl FnOnce(&mut Interval)) -> &mut Self {
        let mut interval = Interval::new(&self.layout);
        (interval.index, interval.end_ns) = (self.next, (self.next + 1) * SEC);
        self.next += 1;
        fill(&mut interval);
        let mut counts = IntervalCounts::default();
        counts.set(&interval, MS);
        self.judge.add_counts(&counts);
        let row: Vec<_> = telemetry.iter().map(f64::to_string).collect();
        self.blamer.interval(&counts, &row);
        self
    }

    /// Adds a trace sample of half a second, in the second `second`, with 1,000 small reads of device 0.
    fn sample(&mut self, second: u64, device_over: u64, total_over: u64) -> &mut Self {
        let over = |count| vec![count, 0, 0];
        self.blamer.trace(&TraceLine {
            at_sec: second as f64 + 0.25,
            length_ms: 500,
            device: 0,
            kind: TraceKind::Read,
            size: TraceSize::Small,
            requests: 1_000,
            lost: 0,
            queue: TimeDistribution {
                p50_ns: 5 * US,
                p99_ns: 9 * US,
                max_ns: MS,
            },
            device_time: TimeDistribution {
                p50_ns: 90 * US,
                p99_ns: 4_200 * US,
                max_ns: 9 * MS,
            },
            queue_over: over(0),
            device_over: over(device_over),
            total_over: over(total_over),
        });
        self
    }

    fn blame(&self) -> Vec<Blame> {
        self.blamer.blame(&self.judge)
    }

    fn only(&self) -> Blame {
        let mut blame = self.blame();
        assert_eq!(blame.len(), 1, "{blame:#?}");
        blame.remove(0)
    }
}

fn causes(blame: &Blame) -> Vec<(Cause, Option<u64>)> {
    blame
        .parts
        .iter()
        .map(|part| {
            (
                part.cause,
                part.share.map(|share| (share * 100.0).round() as u64),
            )
        })
        .collect()
}

const FAST: (u64, u64, u64) = (0, 0, 100 * US);

fn fast() -> Times {
    times(FAST.0, FAST.1, FAST.2)
}

#[test]
fn a_slice_below_every_limit_has_no_blame() {
    let mut run = Run::new(1, 1, false, "");
    run.second(&[(960, fast()), (40, times(0, 0, 5 * MS))], &[]);
    assert_eq!(run.blame(), []);
}

#[test]
fn each_stage_of_an_operation_gets_its_share_of_the_time() {
    let mut run = Run::new(1, 1, true, "");
    run.second(
        &[
            (900, fast()),
            (100, times(1_800 * US, 900 * US, 900 * US)),
            (10, times(0, 0, 90 * US)),
        ],
        &[],
    );
    let blame = run.only();
    assert_eq!(
        causes(&blame),
        [(SlotWait, Some(50)), (OurLag, Some(25)), (Device, Some(25))]
    );
    assert_eq!(
        (blame.over, blame.scheduled, blame.slice, blame.threshold_ns),
        (100, 1010, 1, MS)
    );
}

#[test]
fn slow_service_of_a_simulated_drive_is_blamed_on_the_device_in_a_sentence_with_numbers() {
    let mut run = Run::new(1, 2, true, "");
    run.second(&[(1000, fast())], &[])
        .second(&[(1000, fast())], &[]);
    run.second(&[(900, fast())], &[])
        .second(&[(900, fast()), (200, times(0, 0, 5 * MS))], &[]);
    assert_eq!(
        run.only().sentence,
        "slice 2: 10.0 % of reads over 1 ms (limit 5 %): 100 % of the time in the device (a simulated \
         device has no kernel before it, so all service time is the device's: 5 ms on average in 200 operations)"
    );
}

#[test]
fn too_few_slots_before_a_fast_device_are_blamed_as_slot_wait() {
    let mut run = Run::new(1, 1, true, "");
    run.second(&[(900, fast()), (1000, times(7 * MS, 0, 200 * US))], &[]);
    let blame = run.only();
    assert_eq!(causes(&blame), [(SlotWait, Some(97)), (Device, Some(3))]);
    assert_contains!(
        blame.sentence,
        "97 % of the time waiting for a slot (7 ms on average"
    );
}

#[test]
fn a_stall_that_fills_all_slots_is_blamed_on_the_device_although_most_operations_only_waited() {
    let mut run = Run::new(1, 1, true, "");
    let victims: Vec<_> = (0..992).map(|n| (1, times(n * MS, 0, 100 * US))).collect();
    run.second(
        &[vec![(8, times(0, 0, 1000 * MS)), (5_000, fast())], victims].concat(),
        &[],
    );
    assert_eq!(run.blame().len(), 3, "all three limits");
    for blame in run.blame() {
        assert_eq!(causes(&blame), [(Device, Some(100))], "{}", blame.sentence);
        assert_contains!(blame.sentence, " spent waiting (");
    }
}

#[test]
fn the_operations_with_most_of_the_slot_time_held_the_slots_even_if_they_were_few() {
    // Ten slots, 3,000/s in ten bursts: one operation in thirty holds its slot for `in_use_ms`, the others for 0.5 ms.
    let throttled = |in_use_ms| {
        let mut run = Run::new(1, 1, true, "");
        run.second(
            &[
                (100, times(2_500 * MS, 0, in_use_ms * MS)),
                (2_900, times(2_500 * MS, 0, MS / 2)),
            ],
            &[],
        );
        causes(&run.blame()[0])[0].0
    };
    assert_eq!(throttled(100), Device);
    assert_eq!(
        throttled(9),
        SlotWait,
        "nine tenths of a second in slots, and the others had 1.5"
    );
}

#[test]
fn failed_operations_get_no_blame_and_unissued_operations_get_the_cause_of_the_others() {
    let mut run = Run::new(1, 1, true, "");
    run.second_with(&[], |interval| {
        let cell = &mut interval.cells[0];
        (0..100).for_each(|_| cell.record(&times(7 * MS, 0, 0), 0, 1536));
        cell.record_errors(100, 0);
        cell.record_unissued(200, 0);
    });
    let blame = run
        .blame()
        .into_iter()
        .find(|blame| blame.threshold_ns == MS)
        .unwrap();
    assert_eq!(blame.over, 300);
    assert_eq!(causes(&blame), vec![(SlotWait, Some(100))]);
    let said = "200 of the operations were never issued or never completed";
    assert!(
        blame.sentence.contains(said) && !blame.sentence.contains("failed"),
        "{}",
        blame.sentence
    );
    let mut run = Run::new(1, 1, true, "");
    run.second_with(&[], |interval| {
        (0..900).for_each(|_| interval.cells[0].record(&fast(), 0, 1536));
        interval.cells[0].record_errors(100, 0);
    });
    assert_eq!(run.blame(), [], "only failures are over the limit");
}

#[test]
fn a_stream_that_holds_the_slots_for_which_another_stream_waits_is_named() {
    // Reads wait 20 ms for slots that writes hold, and then complete quickly.
    let slots_used_by_writes = |in_flight| {
        let mut run = Run::new(1, 1, true, "");
        let writes = StreamInfo {
            name: "writes".into(),
            judged: false,
            ..run.layout.streams[0].clone()
        };
        run.layout.streams.push(writes);
        let plan = JudgePlan {
            simulated: true,
            ..JudgePlan::new(&run.layout, Sla::default(), 1, 1, 3600)
        };
        run.blamer = Blamer::new(&plan, &[], &[None], &[None]);
        run.judge = Judge::new(plan);
        run.second_with(&[], |interval| {
            (0..1_000).for_each(|_| interval.cells[0].record(&times(20 * MS, 0, MS / 10), 0, 1536));
            interval.cells[0].counts.backlog = Backlog {
                in_flight: 4,
                waiting: 500,
                late: 0,
            };
            interval.cells[1].counts.backlog.in_flight = in_flight;
        });
        run.blame()[0].sentence.clone()
    };
    let sentence = slots_used_by_writes(396);
    assert_contains!(sentence, "and writes held the slots: 99");
    assert!(
        !slots_used_by_writes(3).contains("held the slots"),
        "their own"
    );
}

#[test]
fn own_lag_is_blamed_if_it_alone_exceeds_the_limit_and_completions_seen_late_are_own_lag() {
    let mut run = Run::new(1, 1, false, "");
    run.second(&[(900, fast()), (100, times(0, 3 * MS, 100 * US))], &[]);
    let blame = run.only();
    assert_eq!((blame.parts[0].cause, blame.over), (OurLag, 100));
    assert_eq!(blame.reached_without, []);
    let said = "slice 1: 10.0 % of reads over 1 ms, with this program's own lag (limit 5 %): 97 % of the \
                time in this program (issued 3 ms late on average)";
    assert!(blame.sentence.starts_with(said), "{}", blame.sentence);
    let mut run = Run::new(1, 1, false, "");
    run.second_with(&[], |interval| {
        (0..100).for_each(|_| interval.cells[0].record(&times(0, 0, 4 * MS), 3 * MS, 1536));
    });
    let found = causes(&run.only());
    assert_eq!(found, [(OurLag, Some(75)), (Unknown, Some(25))]);
}

#[test]
fn a_run_on_a_server_blames_neither_kernel_nor_device() {
    let mut run = Run::new(1, 1, false, "");
    let plan = JudgePlan {
        tested: TestedObject::Server,
        ..run.judge.plan().clone()
    };
    (run.blamer, run.judge) = (Blamer::new(&plan, &[], &[None], &[None]), Judge::new(plan));
    run.second_with(&[], |interval| {
        (0..900).for_each(|_| interval.cells[0].record(&times(0, 0, MS / 10), 0, 1536));
        (0..99).for_each(|_| interval.cells[0].record(&times(0, 0, 4 * MS), 0, 1536));
        interval.cells[0].record_errors(1, 0);
    });
    let blame = run.blame().remove(0);
    assert_eq!(causes(&blame), [(Server, Some(100))]);
    let said =
        "100 % of the time in the server (including the network: 4 ms on average in 99 operations)";
    assert!(blame.sentence.ends_with(said), "{}", blame.sentence);
}

#[test]
fn the_sentence_says_if_the_limit_is_reached_even_without_the_largest_cause() {
    let mut run = Run::new(1, 1, true, "");
    run.second(
        &[
            (901, fast()),
            (98, times(0, 0, 2 * MS)),
            (1, times(0, 10 * SEC, MS / 2)),
        ],
        &[],
    );
    let blame = &run.blame()[0];
    assert_eq!(causes(blame)[0], (OurLag, Some(98)));
    assert_eq!(blame.reached_without, [OurLag, SlotWait]);
    let words = "late on average; even without this delay, 9.80 % of the operations would take over 1 ms, which reaches the limit)";
    assert!(blame.sentence.contains(words), "{}", blame.sentence);
}

#[test]
fn without_trace_and_statistics_the_split_of_device_and_kernel_is_reported_as_unknown() {
    let mut run = Run::new(1, 1, false, "");
    run.second(&[(900, fast()), (100, times(0, 0, 2 * MS))], &[]);
    let blame = run.only();
    assert_eq!(causes(&blame), [(Unknown, Some(100))]);
    let words = "100 % of the time in the device or in the kernel queue, which cannot be told apart because no trace sample has requests of this stream";
    assert!(blame.sentence.ends_with(words), "{}", blame.sentence);
}

#[test]
fn a_trace_separates_time_in_the_device_from_time_before_and_in_the_scheduler() {
    for (device_over, total_over, expected) in [
        (100, 100, [100, 0]),
        (0, 100, [0, 100]),
        (0, 0, [0, 100]),
        (60, 60, [60, 40]),
    ] {
        let mut run = Run::new(1, 4, false, "");
        for second in 0..4 {
            run.sample(second, device_over, total_over);
            run.second(&[(900, fast()), (100, times(0, 0, 20 * MS))], &[]);
        }
        let blame = run
            .blame()
            .into_iter()
            .find(|blame| blame.threshold_ns == MS)
            .unwrap();
        let share = |cause| {
            let part = blame.parts.iter().find(|part| part.cause == cause);
            part.and_then(|part| part.share)
                .map_or(0, |share| (share * 100.0).round() as u64)
        };
        assert_eq!(
            [share(Device), share(KernelQueue)],
            expected,
            "{}",
            blame.sentence
        );
    }
}

#[test]
fn trace_samples_explain_only_the_intervals_in_which_they_were_taken() {
    let mut run = Run::new(1, 4, false, "");
    run.sample(0, 0, 0);
    run.second(&[(1000, fast())], &[])
        .second(&[(1000, times(0, 0, 200 * MS))], &[]);
    run.second(&[(1000, fast())], &[])
        .second(&[(1000, fast())], &[]);
    let blame = &run.blame()[0];
    assert_eq!(causes(blame), [(Unknown, Some(100))]);
    assert_contains!(
        blame.sentence,
        "no slow operation fell into the trace (1 sample)"
    );
}

#[test]
fn a_sample_that_arrives_late_is_still_compared_and_a_very_old_one_is_skipped() {
    let mut run = Run::new(1, 20, false, "");
    for _ in 0..20 {
        run.second(&[(900, fast()), (100, times(0, 0, 2 * MS))], &[]);
    }
    run.sample(0, 100, 100);
    assert_eq!(run.only().parts[0].cause, Unknown);
    run.sample(18, 100, 100);
    assert_eq!(run.only().parts[0].cause, Device);
}

#[test]
fn service_time_missing_from_the_kernel_s_statistics_was_spent_before_requests_existed() {
    let columns = "nvme0n1.r/s nvme0n1.r_await";
    let throttled = [(1000, times(0, 0, 80 * MS))];
    // The kernel reports 0.1 ms per request; this program measured 80 ms of service time.
    let blame = Run::new(1, 1, false, columns)
        .second(&throttled, &[1000.0, 0.1])
        .blame();
    assert_eq!(causes(&blame[0])[0], (KernelQueue, Some(100)));
    let words = "over 99 % (lower bound) of the 80 s of service time passed before";
    assert!(blame[0].sentence.contains(words), "{}", blame[0].sentence);
    // Neither disabled statistics nor statistics that contain the time prove anything.
    for row in [[0.0, 0.0], [1000.0, 79.0]] {
        let blame = Run::new(1, 1, false, columns)
            .second(&throttled, &row)
            .blame();
        assert_eq!(causes(&blame[0]), [(Unknown, Some(100))]);
    }
}

#[test]
fn operations_completed_after_the_end_are_assumed_to_be_like_the_others() {
    let columns = "nvme0n1.r/s nvme0n1.r_await";
    for (await_ms, expected) in [(0.1, KernelQueue), (79.0, Unknown)] {
        let mut run = Run::new(1, 1, false, columns);
        run.second_with(&[100.0, await_ms], |interval| {
            (0..400).for_each(|_| interval.cells[0].record(&times(0, 0, 80 * MS), 0, 1536));
            interval.cells[0].counts.overtime = 301;
        });
        assert_eq!(run.blame()[0].parts[0].cause, expected, "{await_ms} ms");
    }
}

const FULL: &str = "nvme0n1.r/s nvme0n1.r_await nvme0n1.aqu-sz nvme0n1.in_flight";

/// A stall of a second: 128 operations are in the device, 1,000 wait behind them.
fn stalled(requests_max: Option<u64>, ends: [f64; 2], queue_means: [f64; 2]) -> Vec<Blame> {
    let mut run = Run::of_full(1, 2, false, FULL, requests_max);
    run.second(&[(1000, fast())], &[1000.0, 0.1, queue_means[0], ends[0]]);
    run.second_with(&[2128.0, 60.2, queue_means[1], ends[1]], |interval| {
        (0..1000).for_each(|_| interval.cells[0].record(&fast(), 0, 1536));
        (0..1128).for_each(|_| interval.cells[0].record(&times(0, 0, 1000 * MS), 0, 1536));
        interval.in_flight_max = 1128;
    });
    run.blame()
}

#[test]
fn waits_behind_a_full_device_are_charged_to_the_device() {
    for ends in [[128.0, 1.0], [0.0, 122.0], [0.0, 0.0]] {
        let blame = stalled(Some(128), ends, [0.1, 128.0]);
        let found = causes(&blame[0]);
        assert_eq!(found, [(Device, Some(89)), (Unknown, Some(11))], "{ends:?}");
        let words = "of the time in the device (89 % (upper bound) of the 1,128 s of service time passed before the kernel \
                     created requests, while the device held its maximum of 128 requests)";
        assert!(blame[0].sentence.contains(words), "{}", blame[0].sentence);
    }
}

#[test]
fn time_before_requests_exist_is_charged_to_the_kernel_unless_the_device_is_full() {
    for (requests_max, queue_mean, end) in [
        (Some(1023), 128.0, 128.0),
        (None, 128.0, 128.0),
        (Some(128), 0.1, 128.0),
        (Some(128), 40.0, 40.0),
    ] {
        let blame = stalled(requests_max, [0.0, end], [0.1, queue_mean]);
        assert_eq!(
            blame[0].parts[0].cause, KernelQueue,
            "{requests_max:?} {queue_mean} {end}"
        );
    }
}

const HOST: &str = "host.cpu_steal_pct host.cpu_busy_pct host.cpu_busiest_pct process.runqueue_wait_pct \
                    nvme0n1.irq.cpu_max_share_pct nvme0n1.irq/s";

#[test]
fn the_host_is_blamed_by_its_telemetry_in_the_intervals_with_slow_operations() {
    let slow = [(900, fast()), (100, times(0, 2 * MS, 2 * MS))];
    let of = |row: [f64; 6]| {
        let mut run = Run::new(1, 2, false, HOST);
        // A calm second afterwards halves every mean over time, but changes nothing here.
        run.second(&slow, &row).second(&[(100, fast())], &[0.0; 6]);
        run.only().parts.into_iter().find(|part| part.cause == Host)
    };
    for (row, words) in [
        (
            [12.0, 20.0, 30.0, 0.0, 0.0, 0.0],
            "the hypervisor stole 12 % of the CPU time",
        ),
        ([0.0, 95.0, 99.0, 0.0, 0.0, 0.0], "all CPUs were 95 % busy"),
        (
            [0.0, 50.0, 99.0, 45.0, 0.0, 0.0],
            "waited for a CPU during 45 % of the time",
        ),
        (
            [0.0, 50.0, 99.0, 0.0, 100.0, 90_000.0],
            "100 % of the device's interrupts went to one CPU while the busiest CPU was 99 % busy",
        ),
    ] {
        let host = of(row).unwrap_or_else(|| panic!("{words}"));
        assert!(
            host.share.is_none() && host.evidence.contains(words),
            "{}",
            host.evidence
        );
    }
    // Rows without evidence: little steal and one CPU kept busy by this program; interrupts on a CPU with idle time;
    // hardly any interrupts.
    for row in [
        [1.0, 50.0, 100.0, 1.0, 50.0, 90_000.0],
        [0.0, 50.0, 60.0, 0.0, 100.0, 90_000.0],
        [0.0, 50.0, 99.0, 0.0, 100.0, 5.0],
    ] {
        assert_eq!(of(row), None, "{row:?}");
    }
}

const HEAT: &str =
    "nvme0n1.smart.temperature_celsius nvme0n1.smart.throttle_count nvme0n1.smart.throttle_seconds";

#[test]
fn a_drive_that_throttles_itself_is_named_with_its_temperature() {
    let mut run = Run::new(1, 2, false, HEAT);
    run.second(&[(1000, fast())], &[60.0, 3.0, 10.0])
        .second(&[(1000, fast())], &[70.0, 3.0, 10.0]);
    run.second(
        &[(900, fast()), (100, times(0, 0, 2 * MS))],
        &[78.0, 9.0, 11.0],
    );
    run.second(
        &[(900, fast()), (100, times(0, 0, 2 * MS))],
        &[78.0, 15.0, 12.0],
    );
    let blame = run.only();
    assert_eq!(causes(&blame), [(Unknown, Some(100)), (Heat, None)]);
    assert_ends_with!(
        blame.sentence,
        "; drive at 78 C, throttled 12 times, throttled for 2 s"
    );
}

#[test]
fn heat_is_evidence_only_if_service_slowed_down_and_the_drive_is_hot_enough_to_throttle() {
    let slow = [(900, fast()), (100, times(0, 0, 2 * MS))];
    type Row<'a> = (&'a [(u64, Times)], f64, f64);
    let heat = |rows: &[Row<'_>]| {
        let mut run = Run::new(1, 1, false, HEAT);
        rows.iter().for_each(|(ops, celsius, count)| {
            run.second(ops, &[*celsius, *count, 0.0]);
        });
        run.blame()
            .into_iter()
            .flat_map(|blame| blame.parts)
            .find(|part| part.cause == Heat)
    };
    let calm = [(1000, fast())];
    let hot = heat(&[(&calm, 55.0, 0.0), (&slow, 82.0, 0.0)]).expect("hot while slow");
    assert_starts_with!(
        hot.evidence,
        "drive at 82 C while operations were slow and "
    );
    let found = heat(&[(&calm, 82.0, 0.0), (&slow, 82.0, 0.0)]);
    assert_eq!(found, None, "as hot while all was fast");
    let found = heat(&[(&calm, 35.0, 0.0), (&slow, 50.0, 0.0)]);
    assert_eq!(found, None, "warmer, but no drive throttles there");
    let found = heat(&[(&slow, 60.0, 0.0), (&slow, 60.0, 2.0)]);
    assert_eq!(found, None, "as slow before it throttled itself");
    let found = heat(&[(&calm, 60.0, 7.0), (&slow, 60.0, 7.0)]);
    assert_eq!(found, None, "its counter stands at a number of long ago");
    let waited = [(900, fast()), (100, times(9 * MS, 0, 200 * US))];
    let found = heat(&[(&calm, 55.0, 0.0), (&waited, 82.0, 5.0)]);
    assert_eq!(found, None, "it was not service that grew");
}

#[test]
fn a_bad_device_and_all_devices_together_are_blamed_the_worst_first() {
    let mut run = Run::new(2, 1, true, "");
    run.second_with(&[], |interval| {
        for (device, slow) in [(0, 500), (1, 10)] {
            (0..1000 - slow).for_each(|_| interval.cells[device].record(&fast(), 0, 1536));
            (0..slow).for_each(|_| interval.cells[device].record(&times(0, 0, 2 * MS), 0, 1536));
        }
    });
    let blame = run.blame();
    let of: Vec<_> = blame
        .iter()
        .map(|blame| (blame.device.as_deref(), blame.over))
        .collect();
    assert_eq!(of, [(Some("/dev/d0"), 500), (None, 510)]);
    assert_starts_with!(
        blame[1].sentence,
        "slice 1 on all devices together: 25.5 % of reads"
    );
}

#[test]
fn the_text_of_the_verdict_has_the_first_blame_sentences_and_the_outcome_is_unchanged() {
    let mut run = Run::new(1, 1, true, "");
    for _ in 0..5 {
        run.second(&[(900, fast()), (100, times(0, 0, 2 * MS))], &[]);
    }
    let bare = run.judge.verdict(&End::Completed);
    let mut verdict = bare.clone();
    verdict.blame = run.blame();
    assert!(verdict.agrees_with(&bare));
    let text = verdict.to_string();
    let found = text.matches("  where the time went: slice ").count();
    assert_eq!(found, 3, "{text}");
    assert_contains!(text, "  where the time went: 2 more in verdict.json\n");
}
