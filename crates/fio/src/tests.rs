//! From text to operations: the streams must issue the operations that fio's options request.

use super::testing::around;
use super::*;
use OpKind::*;
use engine::sim::SimulatedDrive;
use load::plan::{Arrival, Plan};
use load::testing::{cases, count, planned};
use load::workload::{CannotRun, DeviceShape, RunPlan, Workload};
use results::assert_contains;
use std::collections::HashSet;
use sys::op::{OpKind, Outcome, WriteBack, WriteSync};

mod order;

fn read(text: &str) -> Result<(Vec<FioLoad>, Vec<String>), String> {
    let lines =
        |problems: Vec<Problem>| problems.iter().map(ToString::to_string).collect::<Vec<_>>();
    let mut warnings = Vec::new();
    let around = around(&|_| Err("nothing".to_owned()));
    let sections =
        job_file("a.fio", text, &around, &mut warnings).map_err(|p| lines(p).join("\n"))?;
    let loads = jobs(&sections, &around, &mut warnings)
        .and_then(runs)
        .map_err(|p| lines(p).join("\n"))?;
    Ok((loads, lines(warnings)))
}

fn build(load: &FioLoad, size_bytes: u64, shards_max: u32) -> Result<RunPlan, CannotRun> {
    let shape = DeviceShape::new("sim:", 0, size_bytes, 512);
    Ok(planned(load, &[shape], shards_max)?.0)
}

/// The plan of the only run of a job on 1 MiB, with the options `lines`.
fn plan(lines: &str) -> Plan {
    plan_on("sim:", lines)
}

fn plan_on(device: &str, lines: &str) -> Plan {
    let text = format!(
        "[a]\nfilename={device}\ndirect=1\n{}",
        lines.replace(' ', "\n")
    );
    build_on(&read(&text).unwrap().0[0], device)
        .shards
        .remove(0)
}

/// Kind, offset and length of the first operations of the `lane`-th lane, at most `most` of them.
fn operations(lines: &str, lane: usize, most: usize) -> Vec<(OpKind, u64, u32)> {
    operations_of(plan(lines), lane, most)
}

fn operations_of(mut plan: Plan, lane: usize, most: usize) -> Vec<(OpKind, u64, u32)> {
    let mut stream = plan.lanes.remove(lane).stream;
    let mut follower = None;
    std::iter::from_fn(|| {
        let request = follower.take().or_else(|| stream.next())?;
        follower = stream.on_completion(&request, Outcome::Done);
        Some((request.kind, request.offset, request.len))
    })
    .take(most)
    .collect()
}

#[test]
fn a_sequential_job_starts_over_at_its_end_until_io_size_or_runtime_is_reached() {
    let seen = operations("rw=read bs=4k offset=64k size=16k", 0, 99);
    assert_eq!(
        seen,
        [0, 1, 2, 3].map(|block| (Read, 65_536 + block * 4_096, 4_096))
    );
    let seen = operations("rw=write bs=8k size=20k runtime=1 time_based", 0, 7);
    let offsets: Vec<_> = seen
        .iter()
        .map(|(_, offset, len)| (*offset, *len))
        .collect();
    assert_eq!(
        offsets[..4],
        [(0, 8_192), (8_192, 8_192), (0, 8_192), (8_192, 8_192)],
        "whole blocks"
    );
    let seen = operations("rw=read bs=4k size=16k io_size=24k", 0, 99);
    assert_eq!((seen.len(), seen[4].1), (6, 0));
    let found = operations("rw=read bs=4k size=16k loops=3", 0, 99).len();
    assert_eq!(found, 12);
    assert_eq!(operations("rw=read bs=4k number_ios=5", 0, 99).len(), 5);
    let found = operations("rw=read bs=4k number_ios=5 loops=3", 0, 99).len();
    assert_eq!(found, 15);
    assert_eq!(
        operations("rw=trim bs=64k", 0, 99).last(),
        Some(&(Deallocate, 15 << 16, 65_536))
    );
}

#[test]
fn sequences_can_skip_or_run_backwards_and_can_start_at_random_offsets() {
    let blocks = |lines: &str| -> Vec<u64> {
        operations(lines, 0, 8)
            .into_iter()
            .map(|(_, offset, _)| offset / 4_096)
            .collect()
    };
    // The offsets that fio 3.33 logs for the same jobs on a file of 32 KiB; on a larger file, time_based begins again.
    assert_eq!(blocks("rw=read:-8k size=32k"), [0, 6, 5, 4, 3, 2, 1, 0]);
    let found = blocks("rw=write:4k size=32k runtime=1 time_based");
    assert_eq!(found, [0, 2, 4, 6, 0, 2, 4, 6]);
    let found = blocks("rw=write:12k size=32k runtime=1 time_based");
    assert_eq!(found, [0, 4, 0, 4, 0, 4, 0, 4]);
    for lines in ["rw=randread:4", "rw=randread:4 norandommap"] {
        let seen = operations(lines, 0, 200);
        let follows = |pair: usize| usize::from(seen[pair + 1].1 == seen[pair].1 + 4_096);
        let by_place: Vec<usize> = (0..4)
            .map(|place| (0..49).map(|run| follows(4 * run + place)).sum())
            .collect();
        // A few runs begin too near the end, or where the previous run ended.
        assert!(
            by_place[..3].iter().all(|count| *count >= 45) && by_place[3] < 15,
            "{lines}: {by_place:?}"
        );
    }
    let found = blocks("rw=randread percentage_random=0");
    assert_eq!(found, [0, 1, 2, 3, 4, 5, 6, 7]);
    let seen = operations(
        "rw=randread percentage_random=25 norandommap runtime=1 time_based",
        0,
        4_000,
    );
    let follow = seen
        .windows(2)
        .filter(|pair| pair[1].1 == pair[0].1 + 4_096)
        .count();
    assert!(
        (2_900..3_120).contains(&follow),
        "{follow} of 4,000, not about 3,000"
    );
}

#[test]
fn options_turned_off_are_accepted_unsupported_values_refused_and_file_names_add_up() {
    let off = "verify=0\ndo_verify=1\nzonemode=none\nmax_open_zones=0\nread_beyond_wp=0\nunified_rw_reporting=none\nrw_sequencer=sequential\nnuma_mem_policy=local\nflow=0\nreplay_align=0\nreplay_time_scale=100\nss_interval=1\nlatency_run=0";
    assert!(read(&format!("[a]\nfilename=sim:\n{off}")).is_ok());
    for (option, says) in [
        ("numa_cpu_nodes=1023", "no NUMA node 1023"),
        ("numa_mem_policy=round", "interleave"),
        ("exec_prerun=true", "run them yourself before and after"),
        ("steadystate_duration=10", "need a criterion"),
        (
            "read_iolog=/nonexistent/log",
            "cannot replay the log \"/nonexistent/log\"",
        ),
        ("flow=2", "without shares between jobs"),
        ("verify=md5", "simulated drives store no data"),
        ("verify_policy=fsynced", "all completed writes are compared"),
        ("nfs_url=x", "another of fio's engines"),
        ("writefua=1", "without FUA"),
    ] {
        let error = read(&format!("[a]\nfilename=sim:\n{option}")).unwrap_err();
        assert!(error.contains(says), "{error}");
    }
    let (loads, _) =
        read("[a]\nfilename_format=d/$jobname-$filenum\nnrfiles=2\nnumjobs=3\nsize=1m").unwrap();
    let names: Vec<_> = loads[0].devices.iter().map(ToString::to_string).collect();
    assert_eq!(names, ["d/a-0", "d/a-1"], "all clones have the same files");
    // As in fio, names add up.
    let (loads, _) =
        read("[global]\nfilename=x\n[a]\nfilename=y:x\nfilename=z\nsize=1m\n[b]\nsize=1m").unwrap();
    let names: Vec<_> = loads[0].jobs().map(|job| job.names(0)).collect();
    assert_eq!(names, [["x", "y", "x", "z"].as_slice(), &["x"]]);
}

#[test]
fn a_job_named_after_a_device_uses_the_device_and_clones_use_directories_in_turn() {
    let names = |text: &str| -> Vec<String> {
        let (loads, _) = read(text).unwrap();
        loads[0].devices.iter().map(ToString::to_string).collect()
    };
    assert_eq!(names("[/dev/sdb]\nnumjobs=2"), ["/dev/sdb"]);
    assert_eq!(names("[/dev/sdb]\ndirectory=d"), ["/dev/sdb"]);
    assert_eq!(names("[/dev/sdb]\nfilename=x"), ["x"]);
    // As in fio, the section names device and files, and `name` only the job in reports.
    assert_eq!(names("[/dev/sdb]\nname=a"), ["/dev/sdb"]);
    let found = names("[a]\nname=x\nsize=1m\n[b]\nname=x\nfilename_format=$jobname\nsize=1m");
    assert_eq!(found, ["a.0.0", "b"]);
    let (loads, _) = read("[global]\nname=all\n[/dev/sdb]\n[a]\nname=x").unwrap();
    let reported: Vec<_> = loads[0].jobs().map(|job| job.name.clone()).collect();
    assert_eq!(reported, ["/dev/sdb", "x"]);
    assert_eq!(names("[/dev/sdc]"), ["/dev/sdc.0.0"]);
    let found = names("[/dev/sdb]\nnrfiles=2");
    assert_eq!(found, ["/dev/sdb.0.0", "/dev/sdb.0.1"]);
    let found = names("[a]\ndirectory=m1:m2/\nnumjobs=3\nsize=1m");
    assert_eq!(found, ["m1/a.0.0", "m2/a.1.0", "m1/a.2.0"]);
    let found = names("[a]\ndirectory=m1:m2\nnumjobs=3\nfilename=f\nsize=1m");
    assert_eq!(found, ["m1/f"]);
}

#[test]
fn jobs_with_the_same_cpus_share_issuing_threads_on_these_cpus() {
    // For each issuing thread: its CPUs, and the jobs whose operations it issues.
    let shards = |text: &str, device: &str| -> Vec<(Vec<u32>, Vec<String>)> {
        let text = format!("[global]\nfilename={device}\nsize=1m\n{text}");
        let (loads, _) = read(&text).unwrap();
        let (of_clone, cpus) = loads[0].shards(2);
        let clones = |at: usize| {
            loads[0]
                .threads
                .iter()
                .zip(&of_clone)
                .filter(move |(_, shard)| **shard == at)
        };
        let names = |at| {
            clones(at)
                .map(|(thread, _)| thread.job.name.clone())
                .collect()
        };
        cpus.into_iter()
            .enumerate()
            .map(|(at, shard)| (shard.cpus, names(at)))
            .collect()
    };
    let names = |list: &str| -> Vec<String> { list.split(' ').map(str::to_owned).collect() };
    let text = "numjobs=3\n[a]\ncpus_allowed=1\n[b]\n[c]\ncpumask=14\n[d]\ncpus_allowed=1";
    assert_eq!(
        shards(text, "/dev/none"),
        [
            (vec![1], names("a a a d d d")),
            (vec![], names("b b")),
            (vec![], names("b")),
            (vec![1, 2, 3], names("c")),
            (vec![1, 2, 3], names("c")),
            (vec![1, 2, 3], names("c")),
        ]
    );
    let split = "cpus_allowed=0,4-5\ncpus_allowed_policy=split\nnumjobs=4\n[a]";
    assert_eq!(
        shards(split, "/dev/none"),
        [
            (vec![0], names("a a")),
            (vec![4], names("a")),
            (vec![5], names("a"))
        ]
    );
    assert!(
        shards(text, "sim:").iter().all(|(cpus, _)| cpus.is_empty()),
        "a simulated drive needs no CPUs"
    );
    for wrong in [
        "cpus_allowed=",
        "cpus_allowed=1-0",
        "cpus_allowed=a",
        "cpus_allowed=1024",
        "cpumask=0",
    ] {
        assert!(
            read(&format!("[a]\nfilename=sim:\n{wrong}"))
                .unwrap_err()
                .contains("CPU"),
            "{wrong}"
        );
    }
}

#[test]
fn each_clone_with_a_synchronous_engine_has_an_issuing_thread() {
    let shards = |device: &str| -> (Vec<usize>, Vec<bool>) {
        let text = "rw=read\nsize=1m\n[calls]\nioengine=sync\nnumjobs=3\n[queue]\nioengine=io_uring\nnumjobs=5";
        let (loads, _) = read(&format!("[global]\nfilename={device}\n{text}")).unwrap();
        let (shard_of, shards) = loads[0].shards(2);
        (
            shard_of,
            shards.into_iter().map(|shard| shard.synchronous).collect(),
        )
    };
    assert_eq!(
        shards("/dev/x"),
        (
            vec![0, 1, 2, 3, 4, 3, 4, 3],
            vec![true, true, true, false, false]
        )
    );
    assert_eq!(
        shards("sim:"),
        (vec![0, 1, 0, 1, 0, 1, 0, 1], vec![false; 2]),
        "virtual time needs no threads"
    );
    let synchronous = |text: &str| read(text).unwrap().0[0].spec().synchronous;
    assert!(synchronous("[a]\nfilename=/dev/x\nioengine=psync"));
    assert!(
        !synchronous("[a]\nfilename=/dev/x\nioengine=psync\n[b]\nfilename=/dev/x"),
        "job b has a queue"
    );
    assert!(!synchronous("[a]\nfilename=sim:\nioengine=psync"));
}

#[test]
fn threads_are_pinned_if_there_is_one_closed_loop_per_cpu() {
    let anywhere = Vec::<u32>::new();
    let spread = |lines: &str, shards_max: u32| -> Vec<Vec<u32>> {
        let (loads, _) = read(&format!(
            "[a]\nfilename=sim:\ndirect=1\nrw=randread\nnumjobs=4\n{lines}"
        ))
        .unwrap();
        let mut plan = build(&loads[0], 1 << 20, shards_max).unwrap();
        plan.spread(&[3, 5]);
        plan.shards.into_iter().map(|plan| plan.cpus).collect()
    };
    assert_eq!(spread("", 2), [[3], [5]]);
    let open = spread("rate_iops=100\ntime_based\nruntime=1", 2);
    assert_eq!(
        open,
        vec![anywhere.clone(); 2],
        "an open loop waits for no CPU"
    );
    let found = spread("", 4);
    assert_eq!(found, vec![anywhere.clone(); 4], "more threads than CPUs");
    assert_eq!(spread("", 1), [anywhere], "a CPU is left to choose");
}

#[test]
fn each_job_of_a_run_begins_and_ends_at_its_own_time() {
    let text = "[global]\nfilename=sim:\ndirect=1\nrate_iops=100\ntime_based\n[a]\nruntime=2\n[b]\nstartdelay=1\nruntime=3\n[c]\nrate_iops=0,\nnumber_ios=7\nruntime=1";
    let (loads, _) = read(text).unwrap();
    assert_eq!(loads[0].spec().duration_sec, 4);
    let plan = build(&loads[0], 1 << 30, 1).unwrap();
    let (_, counts) = count(plan, 4, || {
        SimulatedDrive::new(
            &"sim:channels=1+read-us=1000+jitter-pct=0+read-mbps=0"
                .parse()
                .unwrap(),
            1,
        )
        .unwrap()
    });
    assert_eq!(counts[..2], [200, 300]);
    assert!(
        (800..1_001).contains(&counts[2]),
        "a closed loop of a second beside them: {counts:?}"
    );
    let error = read("[a]\nfilename=sim:\nrate_iops=9\nrate_process=poisson\nruntime=5\n[b]\nfilename=sim:\nruntime=9")
        .unwrap_err();
    assert_contains!(error, "give all of them the same runtime");
}

#[test]
fn each_block_is_used_once_without_norandommap() {
    let seen = operations("rw=randrw bs=4k rwmixread=75", 0, 9_999);
    let places: HashSet<_> = seen.iter().map(|(_, offset, _)| *offset).collect();
    assert_eq!((seen.len(), places.len()), (256, 256));
    let reads = seen.iter().filter(|(kind, ..)| *kind == Read).count();
    assert!((170..215).contains(&reads), "{reads} of 256, not about 192");
    let again = operations("rw=randrw bs=4k rwmixread=75", 0, 9_999);
    assert_eq!(seen, again, "the same places each time");
    let seen = operations("rw=randread bs=4k norandommap", 0, 9_999);
    let places: HashSet<_> = seen.iter().map(|(_, offset, _)| *offset).collect();
    assert!(
        seen.len() == 256 && (130..190).contains(&places.len()),
        "{}",
        places.len()
    );
    // Reads and writes of different sizes have separate maps, so no operation is truncated.
    let seen = operations(
        "rw=randrw bs=4k,8k rwmixread=50 size=512k io_size=640k",
        0,
        9_999,
    );
    for (kind, bytes) in [(Read, 4_096), (Write, 8_192)] {
        let of_kind = seen.iter().filter(|(of, ..)| *of == kind);
        let places: HashSet<_> = of_kind.clone().map(|(_, offset, _)| *offset).collect();
        assert!(
            of_kind
                .clone()
                .all(|(_, offset, len)| (offset % bytes, *len) == (0, bytes as u32)),
            "{seen:?}"
        );
        assert!(
            places.iter().all(|offset| offset + bytes <= 512 << 10),
            "{seen:?}"
        );
        assert!(
            places.len() > 25 && places.len() == of_kind.count(),
            "{seen:?}"
        );
    }
    // With several sizes, the unit of the map is the smallest: no byte is visited twice.
    let seen = operations("rw=randwrite bssplit=4k/50:16k/50", 0, 9_999);
    let mut bytes = vec![false; 1 << 20];
    for (_, offset, len) in &seen {
        for byte in &mut bytes[*offset as usize..*offset as usize + *len as usize] {
            assert!(!std::mem::replace(byte, true));
        }
    }
    assert!(bytes.iter().all(|seen| *seen) && seen.iter().any(|(_, _, len)| *len == 16_384));
}

#[test]
fn the_number_of_operations_follows_from_the_sizes() {
    let operations = |line: &str| {
        read(&format!("\u{feff}[a]\nfilename=sim:\n{line}\n"))
            .unwrap()
            .0[0]
            .spec()
            .operations
    };
    assert_eq!(operations("rw=randrw\nbs=4k\nsize=1m"), Some(256));
    let found = operations("rw=read\nbs=4k\nsize=1m\nio_size=2m\nnumjobs=3");
    assert_eq!(found, Some(1_536));
    let found = operations("rw=read\nbs=4k\nsize=1m\nnumber_ios=10\nloops=3");
    assert_eq!(found, Some(30));
    // The number is unknown in advance if it depends on the device, chance, flushes or time.
    for more in [
        "bs=4k",
        "bsrange=4k-8k\nsize=1m",
        "bs=4k\nsize=50%",
        "bs=4k\nsize=1m\nruntime=5",
        "bs=4k\nsize=1m\nfsync=1",
    ] {
        assert_eq!(operations(&format!("rw=randwrite\n{more}")), None, "{more}");
    }
}

#[test]
fn a_shard_has_histogram_cells_only_for_the_files_of_its_clones() {
    let cells = |engine: &str| -> Vec<Vec<u32>> {
        let text = format!("[a]\nrw=randrw\nsize=1m\nnumjobs=3\nioengine={engine}");
        let load = &read(&text).unwrap().0[0];
        let shapes: Vec<_> = (0..3)
            .map(|clone| DeviceShape::new(format!("a.{clone}.0"), clone, 1 << 20, 512))
            .collect();
        let plans = planned(load, &shapes, 2).unwrap().0.shards;
        plans.into_iter().flat_map(|plan| plan.cells).collect()
    };
    // Each clone has a stream of reads and a stream of writes, with a cell for each of the three files.
    assert_eq!(cells("psync"), [[0, 3], [7, 10], [14, 17]]);
    assert_eq!(cells("libaio"), [vec![0, 3, 14, 17], vec![7, 10]]);
}

#[test]
fn flushes_and_synchronous_writes_follow_the_options() {
    let kinds_of = |lines: &str, most| -> Vec<OpKind> {
        operations(lines, 0, most)
            .into_iter()
            .map(|(kind, ..)| kind)
            .collect()
    };
    let kinds = kinds_of("rw=write bs=64k fdatasync=4", 11);
    assert_eq!(kinds.iter().filter(|kind| **kind == Flush).count(), 2);
    assert_eq!((kinds[4], kinds[9]), (Flush, Flush));
    let written = operations("rw=randtrimwrite bs=64k", 0, 99);
    let is_pair = |pair: &[(OpKind, u64, u32)]| {
        (pair[0].0, pair[1].0) == (Deallocate, Write)
            && (pair[0].1, pair[0].2) == (pair[1].1, pair[1].2)
    };
    assert!(
        written.len() == 32 && written.chunks(2).all(is_pair),
        "what is trimmed is written: {written:?}"
    );
    let write = Write;
    let flush = Flush;
    let found = kinds_of("rw=write bs=512k end_fsync=1", 9);
    assert_eq!(found, [write, write, FlushFile]);
    let both = kinds_of("rw=write bs=64k fsync=4 fdatasync=2", 12);
    assert_eq!(
        both[..9],
        [
            write, write, flush, write, write, FlushFile, write, write, flush
        ]
    );
    let steps = WriteBack {
        wait_before: true,
        write: true,
        ..WriteBack::default()
    };
    let ranges = plan_on(
        "/dev/x",
        "rw=write:64k bs=64k offset=128k sync_file_range=wait_before,write:3",
    );
    let ranges = operations_of(ranges, 0, 7);
    assert_eq!(
        ranges[3],
        (WriteBack(steps), 128 << 10, 5 * (64 << 10)),
        "from the first to the last byte"
    );
    let next = &ranges[4..];
    assert!(next.iter().all(|(kind, ..)| *kind == Write), "{next:?}");
    for wrong in ["wait", "write:0", "write:x", ""] {
        let error = read(&format!(
            "[a]\nfilename=x\nrw=write\nsync_file_range={wrong}"
        ))
        .unwrap_err();
        assert!(error.contains("sync_file_range="), "{error}");
    }
    let error = read("[a]\nfilename=sim:\nrw=write\nsync_file_range=write").unwrap_err();
    assert_contains!(error, "which simulated drives do not have");
    let sync = |options: &str| plan(options).lanes[0].stream.next().unwrap().sync;
    assert_eq!(sync("rw=write sync=dsync"), WriteSync::Data);
    assert_eq!(sync("rw=write sync=sync"), WriteSync::File);
    assert_eq!(sync("rw=write"), WriteSync::No);
}

#[test]
fn each_direction_with_a_rate_has_a_lane_at_that_rate() {
    let rated = plan("rw=randrw rate_iops=1000,250 iodepth=16 bs=8k,32k");
    assert_eq!(rated.lanes.len(), 2);
    assert_eq!(rated.limits.len(), 1);
    assert_eq!(rated.limits[0].slots, 16);
    assert!(rated.limits[0].configured);
    let per_sec = |lane: usize| match &rated.lanes[lane].arrival {
        Arrival::Scheduled(schedule) => schedule.clone().count_before(1_000_000_000),
        Arrival::Closed { .. } => 0,
    };
    assert_eq!((per_sec(0), per_sec(1)), (1_000, 250));
    // Reads and writes share 1 MiB in proportion to their bytes per second, which are 8,192,000 for each.
    let found = operations("rw=randrw rate_iops=1000,250 bs=8k,32k", 0, 999).len();
    assert_eq!(found, 64);
    let found = operations("rw=randrw rate_iops=1000,250 bs=8k,32k", 1, 999).len();
    assert_eq!(found, 16);
    let by_bytes = plan("rw=read rate=4m bssplit=4k/50:12k/50");
    let Arrival::Scheduled(schedule) = &by_bytes.lanes[0].arrival else {
        panic!("a closed loop")
    };
    let found = schedule.clone().count_before(1_000_000_000);
    assert_eq!(found, 512, "4 MiB/s of 8 KiB on average");
    let half = plan("rw=randrw rate_iops=,250 iodepth=4");
    assert!(matches!(
        half.lanes[0].arrival,
        Arrival::Closed { depth: 4, .. }
    ));
    assert_eq!(plan("rw=read thinktime=50 iodepth=8").limits[0].slots, 1);
    assert_eq!(
        plan("rw=read thinktime=50 thinktime_blocks=6 iodepth=8").limits[0].slots,
        6
    );
    assert_eq!(
        plan("rw=read thinktime=50 thinktime_iotime=1 iodepth=8").limits[0].slots,
        8
    );
    assert_eq!(plan("rw=read ioengine=psync iodepth=8").limits[0].slots, 1);
}

#[test]
fn a_run_does_the_same_operations_on_any_number_of_threads() {
    let text = "[global]\nfilename=sim:\ndirect=1\nruntime=3\ntime_based\nrw=randread\n\
                [paced]\nrate_iops=500\nnumjobs=3\ngroup_reporting\niodepth=4\n[poisson]\nrate_iops=2000\nrate_process=poisson\niodepth=64";
    let (loads, warnings) = read(text).unwrap();
    assert!(loads.len() == 1 && warnings.is_empty(), "{warnings:?}");
    for shards in [1, 4] {
        let plan = build(&loads[0], 1 << 30, shards).unwrap();
        assert_eq!(plan.shards.len(), shards as usize);
        let names: Vec<_> = plan
            .layout
            .streams
            .iter()
            .map(|stream| (stream.name.clone(), stream.offered_iops))
            .collect();
        // Each clone has its own stream, even if the clones are reported together.
        let paced = (1..=3).map(|clone| (format!("paced-reads~{clone}"), 500.0));
        assert_eq!(
            names,
            paced
                .chain([("poisson-reads".to_owned(), 2_000.0)])
                .collect::<Vec<_>>()
        );
        let drive = || SimulatedDrive::new(&"sim:".parse().unwrap(), 1).unwrap();
        let (_, counts) = count(plan, 3, drive);
        assert_eq!(counts[..3], [1_500; 3]);
        assert!(
            counts[3].abs_diff(6_000) < 5 * 78,
            "{}: five standard deviations",
            counts[3]
        );
    }
}

#[test]
fn a_stonewall_begins_a_run_and_groups_have_fios_numbers() {
    let text = "[global]\nfilename=sim:\n[a]\n[b]\nnew_group\n[c]\nstonewall\nnumjobs=2\n[d]\n";
    let (loads, _) = read(text).unwrap();
    let entries = |load: &FioLoad| {
        load.entries
            .iter()
            .map(|entry| (entry.job.name.clone(), entry.group))
            .collect::<Vec<_>>()
    };
    let named = |name: &str, group| (name.to_owned(), group);
    assert_eq!(entries(&loads[0]), [named("a", 0), named("b", 1)]);
    let found = entries(&loads[1]);
    assert_eq!(found, [named("c", 2), named("c", 2), named("d", 2)]);
    assert_eq!(
        loads[1]
            .threads
            .iter()
            .map(|thread| thread.number)
            .collect::<Vec<_>>(),
        [3, 4, 5]
    );
    let streams: Vec<_> = loads[1]
        .stream_infos()
        .into_iter()
        .map(|stream| stream.name)
        .collect();
    assert_eq!(streams, ["c-reads~1", "c-reads~2", "d-reads"]);
}

#[test]
fn mistakes_in_options_are_reported_and_nothing_runs() {
    let job = "[a]\nfilename=sim:\n";
    for (options, says) in cases(include_str!("../tests/data/mistakes.txt")) {
        let error = read(&format!("{job}{options}"))
            .err()
            .unwrap_or_else(|| panic!("{options} is taken"));
        assert!(error.contains(says), "{options}: {error}");
        assert!(error.lines().count() == 1, "{error}");
    }
    assert!(read("").unwrap_err().contains("there is no job"));
    let dashes = "1-".repeat(60_000);
    assert!(
        read(&format!("{job}bs={dashes}1"))
            .unwrap_err()
            .contains("the value is a range"),
        "no stack overflow"
    );
    assert_contains!(read("[a]\nnumjobs=4096\n[b]").unwrap_err(), "at most 4096");
    // Only random offsets are aligned to ba.
    let aligned = "[a]\nfilename=x\nsize=1m\nbs=8k\nba=4k\nverify=crc32c";
    assert!(read(&format!("{aligned}\nrw=write")).is_ok());
    assert!(read(&format!("{aligned}\nrw=randwrite\nnorandommap")).is_err());
    let (_, warnings) = read(&format!("{job}thread\nrefill_buffers")).unwrap();
    assert_eq!(
        warnings,
        ["a.fio:3: thread has no effect: the option changes only how fio itself runs or counts"]
    );
}

#[test]
fn jobs_that_do_not_fit_a_device_are_refused() {
    for (options, says) in cases(include_str!("../tests/data/mistakes_on_1_mib.txt")) {
        let (loads, _) = read(&format!("[a]\nfilename=sim:\n{options}")).unwrap();
        let error = build(&loads[0], 1 << 20, 1).unwrap_err().to_string();
        assert!(
            error.contains(says) && error.contains(" - "),
            "{options}: {error}"
        );
    }
    let (loads, _) = read("[a]\nfilename=sim:\nsize=25%\noffset=50%\nbs=1000\n").unwrap();
    let mut plan = build(&loads[0], 1 << 20, 1).unwrap();
    let first = plan.shards[0].lanes[0].stream.next().unwrap();
    assert_eq!(
        (first.offset, first.len),
        (525_000, 1_000),
        "the page cache takes any size; whole operations"
    );
}

#[test]
fn command_lines_of_published_articles_are_accepted() {
    // The line is from an article on how to characterise a drive, with the article's dashes.
    let line = "--filename=/dev/xvdf --direct=1 --rw=randrw –rwmixwrite=5 --refill_buffers --norandommap --randrepeat=0 \
                --ioengine=libaio --bs=128k --rate_iops=1280  --iodepth=16 --numjobs=1 --time_based --runtime=86400 \
                --group_reporting –-name=benchtest";
    let words: Vec<_> = line.split_whitespace().map(str::to_owned).collect();
    let line = command_line(&words).unwrap();
    assert_eq!(line.warnings.len(), 2);
    let mut warnings = Vec::new();
    let loads = jobs(&line.sections, &ParseContext::default(), &mut warnings)
        .and_then(runs)
        .unwrap();
    let job = &loads[0].threads[0].job;
    assert_eq!(
        (job.name.as_str(), job.read_pct, job.depth, job.unit_bytes()),
        ("benchtest", 95, 16, 131_072)
    );
    assert_eq!(loads[0].spec().duration_sec, 86_400);
    assert_eq!(loads[0].spec().seed, None);
    assert!(warnings.is_empty(), "{warnings:?}");
}

#[test]
fn appending_writes_begin_at_the_end_of_the_file() {
    let (mut loads, _) =
        read("[a]\nfilename=x\nrw=write\nsize=16k\noffset=64k\nfile_append=1").unwrap();
    let load = &mut loads[0];
    load.appended.insert("x".into(), 8_192);
    assert_eq!(load.required_file_bytes(&load.devices[0]), Some(24_576));
    let plan = planned(load, &[DeviceShape::new("x", 0, 24_576, 512)], 1)
        .unwrap()
        .0
        .shards
        .remove(0);
    let offsets: Vec<_> = operations_of(plan, 0, 99)
        .into_iter()
        .map(|(_, offset, _)| offset)
        .collect();
    assert_eq!(offsets, [8_192, 12_288, 16_384, 20_480]);
    // A device has no end to append to.
    let of_device = operations("rw=write size=16k offset=64k file_append=1", 0, 99);
    assert_eq!((of_device.len(), of_device[0].1), (4, 65_536));
}

#[test]
fn invalidate_and_pre_read_choose_the_cached_range() {
    let kept = |lines: &str| {
        let (loads, _) = read(&format!("[a]\nfilename=x\n{}", lines.replace(' ', "\n"))).unwrap();
        loads[0].cached_range(&loads[0].devices[0], 4 << 20)
    };
    assert_eq!(kept("rw=read"), None);
    assert_eq!(kept("rw=read invalidate=0"), Some(0..0));
    assert_eq!(kept("rw=write pre_read=1"), Some(0..4 << 20));
    let found = kept("rw=read pre_read=1 offset=1m size=25%");
    assert_eq!(found, Some(1 << 20..2 << 20));
    let found = kept("rw=read pre_read=1 offset=3m size=8m");
    assert_eq!(found, Some(3 << 20..4 << 20));
    assert_contains!(
        read("[a]\nfilename=sim:\npre_read=1").unwrap_err(),
        "which simulated drives do not have"
    );
}

#[test]
fn mapped_jobs_always_use_the_page_cache() {
    for (direct, rw) in [(true, "randread"), (false, "read")] {
        let text = format!(
            "[a]\nfilename=x\nioengine=mmap\nrw={rw}\ndirect={}\niodepth=8",
            u8::from(direct)
        );
        let (loads, _) = read(&text).unwrap();
        let plan = build_on(&loads[0], "x").shards.remove(0);
        assert!(loads[0].is_buffered(&loads[0].devices[0]) && plan.synchronous);
        let mapping = plan.mapping.unwrap();
        assert_eq!(mapping.targets, vec![0]);
        assert_eq!(mapping.access.random, direct);
        assert_eq!(mapping.access.syncs, direct);
        assert_eq!(plan.limits[0].slots, 1);
    }
    let (loads, _) = read("[a]\nfilename=x\nioengine=psync").unwrap();
    assert_eq!(build_on(&loads[0], "x").shards[0].mapping, None);
}

fn build_on(load: &FioLoad, device: &str) -> RunPlan {
    planned(load, &[DeviceShape::new(device, 0, 1 << 20, 512)], 1)
        .unwrap()
        .0
}

#[test]
fn rw_with_an_offset_step_ends_or_begins_again_at_the_end_of_the_file() {
    let offsets = |lines: &str| {
        operations(lines, 0, 999)
            .iter()
            .map(|(_, offset, _)| offset >> 10)
            .collect::<Vec<_>>()
    };
    // 0, 96, ... 960 KiB: the next step leads to 1,056 KiB, beyond the end, so the sequence begins again.
    let seen = offsets("rw=read:32k bs=64k");
    assert!(
        seen[..11] == [0, 96, 192, 288, 384, 480, 576, 672, 768, 864, 960]
            && seen[11] == 0
            && seen.len() == 16
    );
    // The operation at 990 KiB does not fit.
    assert_eq!(
        offsets("rw=read:35k bs=64k direct=0").last(),
        Some(&891),
        "{seen:?}"
    );
    assert_eq!(offsets("rw=read:35k bs=64k direct=0 loops=2").len(), 20);
    assert_eq!(offsets("rw=read:35k bs=64k direct=0 io_size=1m").len(), 16);
}

#[test]
fn lfsr_uses_each_block_once_even_with_norandommap() {
    let distinct = |more: &str| {
        let seen = operations(&format!("rw=randread bs=4k {more}"), 0, 999);
        (
            seen.len(),
            seen.iter()
                .map(|(_, offset, _)| *offset)
                .collect::<HashSet<_>>()
                .len(),
        )
    };
    assert_eq!(distinct("norandommap random_generator=lfsr"), (256, 256));
    let (ops, distinct) = distinct("norandommap");
    assert!(ops == 256 && distinct < 200, "{distinct}");
}

#[test]
fn zero_turns_off_the_options_that_it_turns_off_in_fio() {
    let job = |lines: &str| {
        let (loads, _) = read(&format!(
            "[a]\nfilename=sim:\ndirect=1\n{}",
            lines.replace(' ', "\n")
        ))
        .unwrap();
        format!(
            "{:?}",
            Job {
                given_options: Vec::new(),
                ..(*loads[0].threads[0].job).clone()
            }
        )
    };
    for (given, off) in [
        ("number_ios=0 loops=0 size=0 io_size=0 rate_cycle=1000", ""),
        ("rate=0 rate_iops=0 rate_min=0 rate_iops_min=0", ""),
        ("rate=1m rate_iops=0", "rate=1m"),
        ("rate_iops=0 rate=1m", "rate=1m"),
        ("rate_iops=100,0", "rate_iops=100,"),
        ("iodepth=8 iodepth_low=0", "iodepth=8"),
        ("thinktime=5 thinktime_blocks=0", "thinktime=5"),
        (
            "runtime=0 max_latency=0 verify_interval=0 latency_target=0",
            "",
        ),
    ] {
        assert_eq!(job(given), job(off), "{given}");
    }
}

#[test]
fn sizes_and_zones_have_fios_meaning() {
    let sizes = |lines: &str| {
        operations(lines, 0, 9_999)
            .iter()
            .map(|(_, _, len)| *len)
            .collect::<Vec<_>>()
    };
    assert!(
        sizes("rw=randread bsrange=4k:16k")
            .iter()
            .all(|len| (4_096..=16_384).contains(len))
    );
    // Sizes that are not multiples of the smallest: gaps of 2 KiB follow some operations.
    let split = sizes("rw=randread bssplit=6ki/50:10ki/50 size=1Mi");
    assert!(
        split.contains(&10_240) && split.contains(&6_144),
        "{split:?}"
    );
    let text = "[a]\nfilename=x\nfilesize=2m-6m\nrw=write\nnrfiles=1";
    let bytes = read(text).unwrap().0[0]
        .required_file_bytes(&"x".parse().unwrap())
        .unwrap();
    assert!(
        (2 << 20..=6 << 20).contains(&bytes) && bytes.is_multiple_of(4_096),
        "{bytes}"
    );
    // Half of the reads in the first 5 %, half of the writes in the first tenth.
    let line = "rw=randrw size=1m random_distribution=zoned:50/5:30/15:20/,50/10:50/90";
    let seen = operations(line, 0, 4_000);
    assert_eq!(seen.len(), 256);
    let share = |kind, end: u64| {
        let of_kind = || seen.iter().filter(|(of, ..)| *of == kind);
        of_kind().filter(|(_, offset, _)| *offset < end).count() as f64 / of_kind().count() as f64
    };
    let reads = share(Read, 12 * 4_096);
    let writes = share(Write, 25 * 4_096);
    assert!(
        (0.35..0.65).contains(&reads) && (0.35..0.65).contains(&writes),
        "{reads} {writes}"
    );
}

#[test]
fn thinktime_pauses_a_job_with_a_rate() {
    let (loads, _) = read(
        "[a]\nfilename=sim:\nrw=read\nrate_iops=100\nthinktime=50ms\nthinktime_blocks=2\niodepth=8",
    )
    .unwrap();
    let iops = |more: &str| {
        let text = format!("[a]\nfilename=sim:\nrw=read\nrate_iops=100\nthinktime=50ms\n{more}");
        read(&text).unwrap().0[0].stream_infos()[0].offered_iops
    };
    assert_eq!(iops("thinktime_blocks=2"), 40.0, "two operations in 50 ms");
    let found = iops("thinktime_blocks=10");
    assert_eq!(found, 100.0, "ten operations in 100 ms: the job catches up");
    for (limits, ops) in [
        ("thinktime_blocks=10", 10.0),
        ("thinktime_iotime=25ms", 3.0),
        ("thinktime_blocks=10\nthinktime_iotime=20ms", 2.0),
        ("thinktime_blocks=2\nthinktime_iotime=1s", 2.0),
    ] {
        let offered = iops(&format!("{limits}\nrate_ignore_thinktime=1"));
        assert!(
            (offered - ops / (ops / 100.0 + 0.05)).abs() < 0.01,
            "{limits}: {offered}"
        );
    }
    let plan = build(&loads[0], 1 << 20, 1).unwrap().shards.remove(0);
    assert!(matches!(plan.lanes[0].arrival, Arrival::Scheduled(_)) && plan.limits[0].slots == 8);
}

#[test]
fn mistakes_that_fio_only_warns_about_are_warnings_here() {
    let job = |lines: &str| {
        let (loads, warnings) =
            read(&format!("[a]\nfilename=sim:\n{}", lines.replace(' ', "\n"))).unwrap();
        ((*loads[0].threads[0].job).clone(), warnings.join("\n"))
    };
    for (lines, says) in [
        (
            "direct=1 time_based",
            "time_based has no effect without a runtime",
        ),
        ("direct=0 buffered=0", "the last one given counts"),
        (
            "direct=1 write_hist_log=h",
            "write_hist_log has no effect without log_hist_msec",
        ),
        ("direct=1 nice=-10", "nice has no effect"),
        (
            "direct=1 ioengine=null verify=md5",
            "verify has no effect with ioengine=null",
        ),
    ] {
        let (job, warnings) = job(lines);
        assert!(warnings.contains(says), "{lines}: {warnings}");
        assert!(
            job.direct && !job.time_based && job.log.hist_prefix.is_none() && !job.verifies(),
            "{lines}"
        );
    }
    let found = job("ioengine=aio").0.engine.is_synchronous();
    assert_eq!(found, job("ioengine=libaio").0.engine.is_synchronous());
    // Targets of the operations on three files of two blocks each.
    let stream = |more: &str| {
        let (loads, _) = read(&format!("[a]\nsize=24k\nnrfiles=3\nrw=read\n{more}")).unwrap();
        let shapes: Vec<_> = loads[0]
            .devices
            .iter()
            .zip(0..)
            .map(|(name, at)| DeviceShape::new(name.as_str(), at, 8_192, 512))
            .collect();
        planned(&loads[0], &shapes, 1)
            .unwrap()
            .0
            .shards
            .remove(0)
            .lanes
            .remove(0)
            .stream
    };
    let files = |more: &str| {
        let mut stream = stream(more);
        std::iter::from_fn(|| stream.next())
            .map(|request| request.target)
            .collect::<Vec<_>>()
    };
    assert_eq!(files(""), [0, 1, 2, 0, 1, 2]);
    assert_eq!(files("file_service_type=roundrobin:2"), [0, 0, 1, 1, 2, 2]);
    let found = files("file_service_type=sequential\nbs=4k");
    assert_eq!(found, [0, 0, 1, 1, 2, 2]);
    // Operations that are due wait for the file that is in use.
    let mut one_by_one = stream("file_service_type=sequential\nbs=4k");
    for cell in [0, 0, 1, 1, 2] {
        let mut seen = Vec::new();
        one_by_one.expect(1, &mut |cell, count| seen.push((cell, count)));
        assert_eq!(seen, [(cell, 1)]);
        assert_eq!(one_by_one.next().map(|request| request.cell), Some(cell));
    }
    assert!(
        files("file_service_type=random:3")[..3]
            .windows(2)
            .all(|pair| pair[0] == pair[1])
    );
}
