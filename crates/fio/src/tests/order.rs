//! Jobs that run together or one after the other, windows, refills, and operations of a log.

use super::super::parse::cpus_of_nodes;
use super::*;
use results::{assert_contains, assert_starts_with};
use std::sync::Arc;

#[test]
fn strided_zones_keep_operations_in_a_zone_that_advances() {
    let blocks = |lines: &str| -> Vec<u64> {
        operations(lines, 0, 99)
            .into_iter()
            .map(|(_, offset, _)| offset >> 16)
            .collect()
    };
    // These are the offsets that fio 3.33 logs for the same job. The job transfers as many bytes as without zones.
    let seen = blocks("rw=read bs=64k size=1m zonemode=strided zonesize=128k zoneskip=384k");
    assert_eq!(seen, [0, 1, 8, 9, 0, 1, 8, 9, 0, 1, 8, 9, 0, 1, 8, 9]);
    let found = blocks("rw=read bs=64k offset=512k zonemode=strided zonesize=256k zoneskip=25%");
    assert_eq!(found, [8, 9, 10, 11, 8, 9, 10, 11]);
    let seen =
        blocks("rw=randread bs=64k zonemode=strided zonesize=128k zonerange=256k zoneskip=256k");
    assert_eq!(seen.len(), 16);
    for (pair, window) in seen.chunks(2).zip([0, 8].into_iter().cycle()) {
        assert!(
            pair.iter()
                .all(|block| (window..window + 4).contains(block))
                && pair[0] != pair[1],
            "{seen:?}"
        );
    }
    // As in fio, zonesize alone means zonemode=strided.
    let seen = blocks("rw=read bs=64k size=512k zonesize=128k zoneskip=384k");
    assert_eq!(seen, [0, 1, 8, 9, 0, 1, 8, 9]);
    let found = blocks("rw=read bs=64k size=256k zonemode=none");
    assert_eq!(found, [0, 1, 2, 3]);
    // Steps within a window.
    let seen = blocks("rw=read:64k bs=64k size=1m zonesize=256k");
    assert_eq!(seen, [0, 2, 0, 2, 4, 6, 4, 6, 8, 10, 8, 10, 12, 14, 12, 14]);
    for (lines, says) in [
        ("zonemode=strided", "give zonesize"),
        ("zonesize=2m", "is larger than"),
    ] {
        let (loads, _) = read(&format!("[a]\nfilename=sim:\n{lines}")).unwrap();
        let error = build(&loads[0], 1 << 20, 1).map(|_| ()).unwrap_err();
        assert!(error.to_string().contains(says), "{error}");
    }
}

#[test]
fn a_job_larger_than_its_device_does_as_many_operations_as_in_fio() {
    // Each job does as many operations as in fio 3.33, on a device of 1 MiB.
    for (lines, most) in [
        ("rw=read", 16),
        ("rw=randwrite", 16),
        ("rw=read offset=512k", 8),
        ("rw=randread norandommap", 32),
    ] {
        let found = operations(&format!("{lines} bs=64k size=2m"), 0, 99).len();
        assert_eq!(found, most, "{lines}");
    }
}

#[test]
fn jobs_with_wait_for_begin_after_the_named_jobs() {
    let runs = |text: &str| -> Result<Vec<Vec<String>>, String> {
        let (loads, _) = read(&format!("[global]\nfilename=sim:\nrw=write\n{text}"))?;
        Ok(loads
            .iter()
            .map(|load| load.jobs().map(|job| job.name.clone()).collect())
            .collect())
    };
    let chain = "[w]\nnumjobs=2\n[r]\nwait_for=w\n[s]\nwait_for=w\n[t]\nstonewall\n[u]\nwait_for=w\n[v]\nwait_for=t";
    assert_eq!(
        runs(&chain.replace("[u]\nwait_for=w", "[u]\nwait_for=t")).unwrap(),
        [vec!["w"], vec!["r", "s"], vec!["t"], vec!["u", "v"]]
    );
    let error = runs(chain).unwrap_err();
    assert!(
        error.contains("cannot wait for \"t\" alone, because \"u\" runs together with \"t\""),
        "{error}"
    );
    let error = runs("[a]\nwait_for=b\n[b]").unwrap_err();
    assert!(error.contains("no earlier job has this name"), "{error}");
}

/// Start delays of the jobs behind a stonewall, in seconds, if the first run took `elapsed_sec`.
fn delays_after(elapsed_sec: u64, jobs: &str) -> Vec<u64> {
    let (mut loads, _) = read(&format!("[global]\nfilename=sim:\n[a]\n{jobs}")).unwrap();
    let load = &mut loads[1];
    load.begin_after(elapsed_sec * NS_PER_SEC);
    for thread in &load.threads {
        assert!(
            Arc::ptr_eq(&thread.job, &load.entries[thread.entry].job),
            "clones share their job"
        );
    }
    load.jobs()
        .map(|job| job.start_delay_ns / NS_PER_SEC)
        .collect()
}

#[test]
fn a_start_delay_counts_from_the_first_run_also_after_a_stonewall() {
    let alone = "[b]\nstonewall\nnumjobs=2\nstartdelay=3";
    assert_eq!(delays_after(1, alone), [2]);
    assert_eq!(delays_after(5, alone), [0]);
    let found = delays_after(2, "[b]\nstonewall\nstartdelay=3\n[c]\nstartdelay=1");
    assert_eq!(found, [1, 0]);
    let ramps = "[b]\nstonewall\nstartdelay=2\nramp_time=3\n[c]\nstartdelay=1\nramp_time=4";
    assert_eq!(delays_after(5, ramps), [1, 0], "the ramps end together");
}

#[test]
fn a_job_that_fio_may_start_before_an_earlier_job_is_reported() {
    for (jobs, says) in [
        (
            "[a]\nstartdelay=2\n[b]\nstonewall",
            "job \"b\": fio may start this job before job \"a\", whose startdelay of 2 s is longer",
        ),
        (
            "[a]\n[b]\nstonewall\nstartdelay=2\n[c]",
            "job \"c\": fio may start this job before job \"b\"",
        ),
        (
            "[a]\nstartdelay=1\n[b]\nstonewall\nstartdelay=2\n[c]\nstonewall\nstartdelay=3",
            "",
        ),
        ("[a]\nstartdelay=2\n[b]\n[c]\nstonewall", ""),
        ("[a]\nstartdelay=2\n[b]\nwait_for=a", ""),
    ] {
        let (loads, _) = read(&format!("[global]\nfilename=sim:\n{jobs}")).unwrap();
        let warnings: Vec<_> = overtaking(&loads).iter().map(ToString::to_string).collect();
        assert_starts_with!(warnings.join("; "), says);
        assert_eq!(warnings.len(), usize::from(!says.is_empty()), "{jobs}");
    }
}

#[test]
fn a_full_queue_drains_before_it_is_refilled() {
    let refill_at = |lines: &str| {
        let (loads, _) = read(&format!("[a]\nfilename=sim:\niodepth=32\n{lines}")).unwrap();
        loads[0].threads[0].job.refill_at()
    };
    assert_eq!(refill_at(""), None);
    assert_eq!(refill_at("iodepth_low=4"), Some(4));
    assert_eq!(refill_at("iodepth_batch_complete=8"), Some(24));
    let found = refill_at("iodepth_batch_complete_min=8\niodepth_low=10");
    assert_eq!(found, Some(10));
    let found = refill_at("iodepth_batch_complete_min=99\nioengine=psync");
    assert_eq!(found, None, "a depth of one");
    let mut stream = plan("rw=randread iodepth=8 iodepth_low=3")
        .lanes
        .remove(0)
        .stream;
    let mut requests: Vec<_> = (0..8).filter_map(|_| stream.next()).collect();
    let mut widths = Vec::new();
    while let Some(request) = requests.pop() {
        stream.on_completion(&request, Outcome::Done);
        widths.push(stream.width(0).0);
    }
    assert_eq!(widths, [7, 6, 5, 4, u32::MAX, u32::MAX, u32::MAX, u32::MAX]);
    assert!(read("[a]\nfilename=sim:\niodepth=8\niodepth_low=2\nrate_iops=5").is_err());
}

#[test]
fn fractions_of_seconds_priorities_and_cpus_are_parsed() {
    let (loads, _) =
        read("[a]\nfilename=sim:\nruntime=1.5\n[b]\nfilename=sim:\nruntime=250ms").unwrap();
    let ends: Vec<_> = loads[0]
        .jobs()
        .map(|job| job.end_ns() / 1_000_000)
        .collect();
    assert_eq!(&ends[..], &[1_500, 250][..]);
    assert_eq!(loads[0].spec().duration_sec, 2);
    let mut stream = plan("rw=randread prioclass=2 prio=3 cmdprio_percentage=100 cmdprio=1")
        .lanes
        .remove(0)
        .stream;
    let found = stream.next().map(|request| request.priority.value());
    assert_eq!(found, Some(0x2001));
    let mut stream = plan("rw=write prioclass=3 fsync=1").lanes.remove(0).stream;
    let write = stream.next().unwrap();
    let flush = stream.on_completion(&write, Outcome::Done).unwrap();
    assert_eq!(
        [write, flush].map(|request| request.priority.value()),
        [0x6000; 2]
    );
    let about = |file: &str| (file == "node1/cpulist").then(|| "4-5,8\n".to_owned());
    assert_eq!(cpus_of_nodes("1", about), Ok(vec![4, 5, 8]));
    assert_contains!(cpus_of_nodes("0-1", about).unwrap_err(), "no NUMA node 0");
}

#[test]
fn a_null_engine_needs_no_device() {
    let (loads, _) = read("[a]\nioengine=null\nsize=1g\nnumjobs=2\nfilename=/dev/nvme0n1").unwrap();
    assert!(
        loads[0].is_simulated() && loads[0].devices.len() == 2,
        "{:?}",
        loads[0].devices
    );
    assert!(loads[0].devices.iter().all(|device| {
        device
            .drive()
            .is_some_and(|drive| drive.capacity_bytes == 1 << 30)
    }));
}

#[test]
fn a_replayed_log_keeps_its_order_and_times() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let log = "fio version 3 iolog\n0 sim: read 4096 512\n1000 sim: write 8192 4096\n2000 sim: sync 0 0\n3000 sim: read 0 512\n";
    std::fs::write(&path, log).unwrap();
    let (loads, _) = read(&format!(
        "[a]\nrw=randwrite\nsize=1k\nread_iolog={}",
        path.display()
    ))
    .unwrap();
    let mut run = build(&loads[0], 1 << 20, 1).unwrap();
    let Plan { lanes, .. } = run.shards.remove(0);
    let Arrival::Scheduled(mut schedule) = lanes[0].arrival.clone() else {
        panic!("the log has times")
    };
    let at: Vec<_> = std::iter::from_fn(|| schedule.next_ns())
        .map(|ns| ns / 1_000_000)
        .collect();
    assert_eq!(at, [0, 1, 2, 3, 3], "the last time ends the job");
    let seen = operations_of(
        Plan {
            lanes,
            ..Plan::default()
        },
        0,
        99,
    );
    assert_eq!(
        seen,
        [
            (OpKind::Read, 4_096, 512),
            (OpKind::Write, 8_192, 4_096),
            (OpKind::FlushFile, 0, 0),
            (OpKind::Read, 0, 512)
        ]
    );
    let found = loads[0].stream_names();
    assert_eq!(found, ["a-reads", "a-writes", "a-flushes"]);
    let error = build(&loads[0], 8_192, 1).map(|_| ()).unwrap_err();
    assert_contains!(error, "write of 4096 bytes at 8192, beyond the 8192 bytes");
}

#[test]
fn with_exitall_on_error_a_failed_operation_ends_other_jobs_and_a_lost_one_does_not() {
    for (exit_what, ends_later_runs) in [("stonewall", false), ("all", true)] {
        let text = format!(
            "[a]\nfilename=sim:\nrw=randrw\nnumber_ios=9\nexitall_on_error=1\nexit_what={exit_what}\n[b]\nfilename=sim:"
        );
        let (loads, _) = read(&text).unwrap();
        let mut stream = build(&loads[0], 1 << 20, 1)
            .unwrap()
            .shards
            .remove(0)
            .lanes
            .remove(0)
            .stream;
        let mut lost_ops = 0;
        for _ in 0..2 {
            stream.lose(4, &mut |_, count| lost_ops += count);
        }
        assert_eq!((lost_ops, loads[0].threads[1].ended_ns()), (8, u64::MAX));
        let last = stream.next().unwrap();
        stream.on_completion(&last, Outcome::Short(0));
        assert_eq!(loads[0].threads[1].ended_ns(), 0);
        assert_eq!(loads[0].ends_all_runs(), ends_later_runs);
    }
}
