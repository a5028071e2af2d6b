//! Zones: a zoned drive accepts all operations, and their number is the same as in fio.

use super::*;
use device::target::{Zone, Zones};
use std::collections::HashMap;
use std::sync::Arc;
use sys::random::Random;

const KIB: u64 = 1024;

/// Kind and offset of each operation, such as `w16 r0 t128`, with offsets in KiB.
fn places(lines: &str) -> String {
    let seen = operations(&format!("zonemode=zbd zonesize=128k {lines}"), 0, 999);
    let letter = |kind| match kind {
        OpKind::Read => 'r',
        OpKind::Write => 'w',
        _ => 't',
    };
    seen.iter().map(|(kind, offset, _)| format!("{}{} ", letter(*kind), offset / KIB)).collect()
}

#[test]
fn emulated_zones_are_written_as_fio_writes_them() {
    // The offsets that fio 3.33 logs for the same job on a file of 1 MiB.
    let lap = "w0 w16 w32 w48 w64 w80 w128 w144 w160 w176 w192 w208 w256 w272 w288 w304 w320 w336 w384 w400 w416 w432 w448 w464 \
               w512 w528 w544 w560 w576 w592 w640 w656 w672 w688 w704 w720 w768 w784 w800 w816 w832 w848 w896 w912 w928 w944 \
               w960 w976 ";
    assert_eq!(places("rw=write bs=16k zonecapacity=96k loops=2"), lap.repeat(2));
    assert_eq!(places("rw=write bs=16k zonecapacity=96k io_size=1536k").split_whitespace().count(), 96);
    // A partial zone is left out.
    assert_eq!(places("rw=write bs=64k offset=100k size=1000k").split_whitespace().count(), 14);
    assert_eq!(places("rw=write bs=64k offset=6z size=2z"), "w768 w832 w896 w960 ");
    assert_eq!(places("rw=write bs=96k size=256k"), "w0 w128 w0 ", "the rest of a zone is too small for a write");
    assert_eq!(places("rw=trim bs=128k size=256k"), "t0 t128 ");
    // Empty zones have nothing to read; with read_beyond_wp all of a zone is read.
    assert_eq!(places("rw=randread bs=16k"), "");
    assert_eq!(places("rw=read bs=64k read_beyond_wp=1 size=256k"), "r0 r64 r128 r192 ");
}

#[test]
fn zones_keep_what_an_earlier_job_of_the_same_call_wrote() {
    let text = "[global]\nfilename=sim:\ndirect=1\nzonemode=zbd\nzonesize=128k\nbs=16k\n[a]\nrw=write\nio_size=192k\n[b]\nstonewall\nrw=read\n\
                [c]\nstonewall\nrw=randread\n[d]\nstonewall\nrw=randtrim\nbs=128k\n[e]\nstonewall\nrw=randread\n";
    let (loads, _) = read(text).unwrap();
    let mut counts = Vec::new();
    for load in &loads {
        let plan = build(load, 1 << 20, 1).unwrap().shards.remove(0);
        let seen = operations_of(plan, 0, 999);
        assert!(seen.iter().all(|(_, offset, len)| offset + u64::from(*len) <= 256 * KIB), "{seen:?}");
        counts.push(seen.len());
    }
    // The counts of fio 3.33.
    assert_eq!(counts, [12, 12, 64, 2, 0]);
    loads[0].forget_zones();
}

/// A drive whose zones take writes at their write pointers only, one after the other.
struct Drive {
    zones: Vec<Zone>,
    /// By zone: reads, writes and resets in flight.
    busy: Vec<[u32; 3]>,
    open_max: usize,
}

impl Drive {
    fn new(zones: Vec<Zone>, open_max: usize) -> Self {
        Self { busy: vec![[0; 3]; zones.len()], zones, open_max }
    }

    fn begin(&mut self, (kind, offset, len): (OpKind, u64, u64)) {
        if kind.is_flush() {
            return;
        }
        let at = (offset / self.zones[0].len) as usize;
        let (zone, busy) = (&mut self.zones[at], &mut self.busy[at]);
        assert!(offset + len <= zone.start + zone.len, "{kind} of {len} at {offset} crosses a zone");
        if !zone.is_sequential {
            assert_ne!(kind, OpKind::ResetZone);
            return;
        }
        assert!(zone.is_usable, "{kind} in zone {at}");
        match kind {
            OpKind::Read => {
                assert!(offset + len <= zone.start + zone.written, "read of {len} at {offset} of {zone:?}");
                assert_eq!(busy[2], 0, "zone {at} is reset meanwhile");
                busy[0] += 1;
            }
            OpKind::Write => {
                assert_eq!((offset, busy[1], busy[2]), (zone.start + zone.written, 0, 0), "write in {zone:?}");
                assert!(zone.written + len <= zone.capacity, "write of {len} in {zone:?}");
                busy[1] += 1;
            }
            OpKind::ResetZone => {
                assert_eq!((offset, len, *busy), (zone.start, zone.len, [0; 3]), "reset of {zone:?}");
                busy[2] += 1;
            }
            other => panic!("{other}"),
        }
        let is_open = |(zone, busy): (&Zone, &[u32; 3])| {
            zone.is_sequential && zone.written + u64::from(busy[1]) > 0 && zone.written < zone.capacity
        };
        let open = self.zones.iter().zip(&self.busy).filter(|both| is_open(*both)).count();
        assert!(open <= self.open_max, "{open} zones are open");
    }

    fn end(&mut self, (kind, offset, len): (OpKind, u64, u64)) {
        let at = (offset / self.zones[0].len) as usize;
        let (zone, busy) = (&mut self.zones[at], &mut self.busy[at]);
        match kind {
            _ if !zone.is_sequential || kind.is_flush() => {}
            OpKind::Read => busy[0] -= 1,
            OpKind::Write => (zone.written, busy[1]) = (zone.written + len, 0),
            _ => (zone.written, busy[2]) = (0, 0),
        }
    }
}

/// Zones of 128 KiB with 96 KiB that can be written: a conventional zone, zones with data, and an offline zone.
fn zones() -> Vec<Zone> {
    let zone = |number: u64| Zone {
        start: number * 128 * KIB,
        len: 128 * KIB,
        capacity: 96 * KIB,
        written: 0,
        is_sequential: true,
        is_active: false,
        is_usable: true,
    };
    let mut zones: Vec<_> = (0..12).map(zone).collect();
    zones[0] = Zone { is_sequential: false, written: 96 * KIB, ..zones[0] };
    zones[3].written = 96 * KIB;
    zones[5] = Zone { written: 32 * KIB, is_active: true, ..zones[5] };
    zones[8].is_usable = false;
    zones
}

fn shape(zones: &[Zone], open_max: Option<u32>) -> DeviceShape {
    let zoned = Zones { zones: zones.to_vec(), open_max, active_max: open_max };
    DeviceShape { zoned: Some(Ok(Arc::new(zoned))), ..DeviceShape::new("/dev/zoned", 0, 12 * 128 * KIB, 512) }
}

/// Runs the jobs of `text` together until `most` operations are done. Returns the number of operations by kind.
fn run(text: &str, most: usize) -> HashMap<String, usize> {
    let (loads, _) = read(&format!("[global]\nfilename=/dev/zoned\ndirect=1\nzonemode=zbd\n{text}")).unwrap();
    let mut drive = Drive::new(zones(), 3);
    let plan = planned(&loads[0], &[shape(&drive.zones, Some(3))], 1).unwrap().0;
    let mut lanes: Vec<_> = plan.shards.into_iter().flat_map(|plan| plan.lanes).map(|lane| lane.stream).collect();
    let (mut random, mut in_flight, mut counts, mut idle) = (Random::new(7), Vec::new(), HashMap::new(), 0);
    while counts.values().sum::<usize>() < most && idle < 1_000 {
        idle += 1;
        let lane = random.below(lanes.len() as u64) as usize;
        let own = in_flight.iter().filter(|(of, _)| *of == lane).count();
        let next = match own < 4 && random.below(2) == 0 {
            true => lanes[lane].next().map(|request| (lane, request)),
            false if in_flight.is_empty() => None,
            false => {
                let (lane, request): (usize, crate::stream::Request) =
                    in_flight.swap_remove(random.below(in_flight.len() as u64) as usize);
                drive.end((request.kind, request.offset, request.len.into()));
                *counts.entry(request.kind.to_string()).or_default() += 1;
                idle = 0;
                lanes[lane].on_completion(&request, Outcome::Done).map(|next| (lane, next))
            }
        };
        if let Some((lane, request)) = next {
            drive.begin((request.kind, request.offset, request.len.into()));
            if request.kind == OpKind::Write {
                lanes[lane].fill(&request, &mut vec![0; request.len as usize]);
            }
            in_flight.push((lane, request));
        }
    }
    counts
}

#[test]
fn a_zoned_drive_takes_all_operations_of_jobs_that_share_its_zones() {
    let of = |counts: &HashMap<String, usize>, kind: &str| counts.get(kind).copied().unwrap_or(0);
    for text in [
        "bs=16k\ntime_based\nruntime=9\niodepth=4\n[a]\nrw=randwrite\nnumjobs=3\njob_max_open_zones=2",
        "bs=16k\ntime_based\nruntime=9\niodepth=4\n[a]\nrw=randrw\n[b]\nrw=randread\n[c]\nrw=rw",
        "bs=32k\ntime_based\nruntime=9\niodepth=4\nmax_open_zones=2\n[a]\nrw=write\n[b]\nrw=randrw\noffset=640k",
        "time_based\nruntime=9\niodepth=4\n[a]\nrw=randwrite\nbs=16k\n[b]\nrw=randtrim\nbs=128k",
        "bs=16k\ntime_based\nruntime=9\niodepth=4\n[a]\nrw=randwrite\nzone_reset_threshold=0.3\nzone_reset_frequency=0.25",
    ] {
        let counts = run(text, 4_000);
        assert_eq!(counts.values().sum::<usize>(), 4_000, "{text} ended early: {counts:?}");
        assert!(of(&counts, "write") > 500 && of(&counts, "zone reset") > 50, "{text}: {counts:?}");
    }
    // A sequential job writes to several zones. One of them is full, and is reset first.
    let counts = run("bs=16k\niodepth=4\n[a]\nrw=write\nsize=1m", 999);
    assert_eq!((of(&counts, "write"), of(&counts, "zone reset")), (8 + 7 * 6 - 2, 1), "{counts:?}");
    // Verified data is written to empty zones, and no zone with verified data is reset.
    let counts = run("bs=16k\niodepth=4\n[a]\nrw=randwrite\nverify=crc32c\noffset=128k", 999);
    assert_eq!((of(&counts, "write"), of(&counts, "zone reset")), (10 * 6, 2), "{counts:?}");
    let line = "rw=randwrite\nverify=crc32c\noffset=1152k\nzone_reset_threshold=0\nzone_reset_frequency=1";
    let counts = run(&format!("bs=16k\niodepth=4\n[a]\n{line}"), 999);
    assert_eq!((of(&counts, "write"), of(&counts, "zone reset")), (3 * 6, 0), "{counts:?}");
    // Reads of empty zones wait for the first writes.
    let counts = run("bs=16k\niodepth=4\n[a]\nrw=randrw\noffset=1152k\ntime_based\nruntime=9", 500);
    assert!(of(&counts, "write") > 100 && of(&counts, "read") > 100, "{counts:?}");
    let counts = run("bs=16k\niodepth=1\n[a]\nrw=randwrite\nrate_iops=100\ntime_based\nruntime=9", 500);
    assert!(of(&counts, "write") > 300, "{counts:?}");
}

#[test]
fn jobs_that_do_not_fit_the_zones_are_refused_with_the_remedy() {
    for (lines, says) in [
        ("zonesize=1m\nrw=write", "zonesize differs from the zones of the device, 131072 bytes"),
        ("rw=write\nbs=64k", "the capacity of a zone is not a multiple of bs"),
        ("rw=write\nbssplit=8k/50:12k/50", "give bssplit multiples of its smallest size"),
        ("rw=randread\nbs=256k", "a zone is smaller than an operation"),
        ("rw=trim\nbs=64k", "give bs the size of a zone (zones of 131072 bytes"),
        ("rw=write\nsize=100k", "hold no whole zone"),
        ("rw=write\nmax_open_zones=4", "max_open_zones is 4, but the device allows at most 3"),
        ("rw=write\ndirect=0", "give direct=1"),
        ("zonemode=none\nrw=write", "give zonemode=zbd"),
    ] {
        let (loads, _) = read(&format!("[a]\nfilename=/dev/zoned\ndirect=1\nzonemode=zbd\n{lines}")).unwrap();
        let error = planned(&loads[0], &[shape(&zones(), Some(3))], 1).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(says), "{lines}: {error}");
    }
    let mut half_full = zones();
    half_full.iter_mut().skip(9).for_each(|zone| (zone.written, zone.is_active) = (16 * KIB, true));
    for lines in ["rw=write", "rw=write\noffset=128k\nsize=256k"] {
        let (loads, _) = read(&format!("[a]\nfilename=/dev/zoned\ndirect=1\nzonemode=zbd\n{lines}")).unwrap();
        let error = planned(&loads[0], &[shape(&half_full, Some(3))], 1).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains("are open or half full, but at most 3 zones can be"), "{lines}: {error}");
    }
    let (loads, _) = read("[a]\nfilename=sim:\nzonemode=zbd").unwrap();
    assert!(build(&loads[0], 1 << 20, 1).map(|_| ()).unwrap_err().to_string().contains("give zonesize"));
    for (lines, says) in [
        ("zonemode=zbd\nsize=8z", "the suffix z counts zones of zonesize"),
        ("zonesize=1m", "give zonemode=zbd"),
        ("zonemode=zbd\nrw=trimwrite", "cannot be combined with rw=trimwrite"),
        ("zonemode=zbd\nrw=randrw\nrate_iops=10", "nothing to read before the first write"),
        ("zonemode=zbd\nnumjobs=2\nrate_iops=10", "cannot share its devices"),
        ("zone_reset_frequency=2", "the value must be 0 to 1"),
        ("ioengine=io_uring_cmd\nprio=2", "no I/O priorities"),
        ("ioengine=io_uring_cmd\ncmd_type=scsi", "the value must be one of nvme"),
    ] {
        let error = read(&format!("[a]\nfilename=/dev/zoned\n{lines}")).unwrap_err();
        assert!(error.contains(says), "{lines}: {error}");
    }
}
