//! Passthrough and placement, block by block, verified by the drive's own data. These tests run in the guest:
//! [`super::placement`] runs the test program there. They erase only a drive of QEMU with the serial number FDP0.

use device::discover::{DeviceFacts, DiskWithPartitions, discover, list};
use device::guard::{EraseAnswers, Guard, WriteRequest};
use device::nvme_generic::NvmeGeneric;
use device::observe::nvme::Controller;
use device::observe::nvme::fdp::Fdp;
use device::target::Target;
use engine::EngineSetup;
use engine::passthrough::Passthrough;
use engine::uring::Uring;
use engine::{BlockEngine, Wait};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use sys::op::{Op, OpKind, Outcome, Placement};

const BLOCK: u32 = 64 << 10;

/// The guest's drive with the serial number `serial`, which the tests erase.
fn drive(serial: &str) -> DiskWithPartitions {
    let (drives, _) = list(Path::new("/"));
    drives
        .into_iter()
        .find(|drive: &DiskWithPartitions| {
            let facts = facts(&drive.disk);
            let is =
                |name: Option<String>, expected| name.is_some_and(|name| name.trim() == expected);
            is(facts.model, "QEMU NVMe Ctrl") && is(facts.serial, serial)
        })
        .unwrap_or_else(|| panic!("no drive {serial} of QEMU's: this runs in the guest"))
}

fn fdp_drive() -> String {
    drive("FDP0").disk
}

/// The first partition of the drive with blocks of 4,096 bytes.
fn partition() -> String {
    drive("PART0").partitions.remove(0)
}

fn facts(device: &str) -> DeviceFacts {
    discover(device, Path::new("/")).unwrap()
}

fn writable(device: &str) -> Arc<Target> {
    let state = tempfile::tempdir().unwrap();
    let guard = Guard::new(Some(state.path().to_owned()));
    let request = WriteRequest {
        odsync: false,
        ..WriteRequest::new(device, "test")
    };
    let consents = guard.consent(
        &[request],
        &mut EraseAnswers::named([device, "FDP0", "PART0-part1"].map(str::to_owned)),
    );
    Arc::new(Target::writable(
        consents
            .unwrap_or_else(|refused| panic!("{refused}"))
            .remove(0),
    ))
}

fn fdp(device: &str) -> Fdp {
    let number = facts(device).number.unwrap();
    let controller = Controller::find(Path::new("/"), number).unwrap();
    let disk = facts(device)
        .partition
        .map_or(device.to_owned(), |part| format!("/dev/{}", part.disk));
    let fdp = controller
        .fdp(&File::open(disk).unwrap())
        .unwrap()
        .expect("the drive has FDP");
    assert_eq!(fdp.unknown, Vec::<String>::new());
    fdp
}

/// Blocks left in the reclaim unit of each handle.
fn blocks_left(device: &str) -> Vec<u64> {
    fdp(device)
        .placement
        .iter()
        .map(|handle| handle.reclaim_unit_blocks_left)
        .collect()
}

fn perform<E: BlockEngine>(
    engine: &mut E,
    op: impl FnOnce(sys::buffer::Buf) -> Op,
) -> (Outcome, Vec<u8>) {
    let buf = engine.buffer(BLOCK as usize).expect("memory for a few");
    engine.submit(op(buf));
    let mut out = Vec::new();
    while out.is_empty() {
        let until_ns = engine.now() + 1_000_000_000;
        engine.reap(Wait::first(until_ns), &mut out).unwrap();
    }
    assert_eq!((out.len(), engine.in_flight()), (1, 0));
    (out[0].outcome, out[0].buf.to_vec())
}

fn op(kind: OpKind, offset: u64, buf: sys::buffer::Buf) -> Op {
    Op {
        token: 3,
        ..Op::new(kind, offset, BLOCK, buf)
    }
}

fn write<E: BlockEngine>(
    engine: &mut E,
    offset: u64,
    fill: u8,
    placement: Option<Placement>,
) -> Outcome {
    perform(engine, |mut buf: sys::buffer::Buf| {
        buf.fill(fill);
        Op {
            placement,
            ..op(OpKind::Write, offset, buf)
        }
    })
    .0
}

fn passthrough(target: &Arc<Target>) -> Passthrough {
    let generic = Arc::new(NvmeGeneric::open(target).unwrap_or_else(|error| panic!("{error}")));
    Passthrough::new(
        vec![target.clone()],
        vec![generic],
        EngineSetup::new(8, 16 << 20),
    )
    .unwrap()
    .0
}

#[test]
#[ignore = "runs in the guest"]
fn passthrough_writes_reads_flushes_and_deallocates_the_addressed_blocks() {
    for device in [fdp_drive(), partition()] {
        let target = writable(&device);
        let mut engine = passthrough(&target);
        let last = target.size_bytes() - u64::from(BLOCK);
        for (offset, fill) in [(0, 0x5a), (last, 0xa5)] {
            assert_eq!(write(&mut engine, offset, fill, None), Outcome::Done);
            let (outcome, bytes) = perform(&mut engine, |buf| op(OpKind::Read, offset, buf));
            assert_eq!(
                (outcome, bytes == vec![fill; BLOCK as usize]),
                (Outcome::Done, true)
            );
            // Read through the block device, independently of the NVMe character device.
            let mut bytes = vec![0; BLOCK as usize];
            File::open(&device)
                .unwrap()
                .read_exact_at(&mut bytes, offset)
                .unwrap();
            assert!(
                bytes.iter().all(|byte| *byte == fill),
                "{device} at {offset}"
            );
        }
        assert_eq!(
            perform(&mut engine, |buf| op(OpKind::Flush, 0, buf)).0,
            Outcome::Done
        );
        // The emulated drive returns zeros for deallocated blocks.
        assert_eq!(
            perform(&mut engine, |buf| op(OpKind::Deallocate, 0, buf)).0,
            Outcome::Done
        );
        let (outcome, bytes) = perform(&mut engine, |buf| op(OpKind::Read, 0, buf));
        assert_eq!(
            (outcome, bytes == vec![0; BLOCK as usize]),
            (Outcome::Done, true)
        );
    }
}

#[test]
#[ignore = "runs in the guest"]
fn passthrough_refuses_operations_out_of_range_misaligned_or_not_permitted() {
    for (device, block) in [(fdp_drive(), 512), (partition(), 4096)] {
        let target = writable(&device);
        let size = target.size_bytes();
        let mut engine = passthrough(&target);
        let mut with = |change: &dyn Fn(Op) -> Op| {
            perform(&mut engine, |buf| change(op(OpKind::Write, 0, buf))).0
        };
        assert_eq!(
            with(&|op| Op {
                offset: size - block,
                ..op
            }),
            Outcome::Errno(libc::ENOSPC)
        );
        assert_eq!(
            with(&|op| Op {
                offset: u64::MAX - (block - 1),
                ..op
            }),
            Outcome::Errno(libc::ENOSPC)
        );
        assert_eq!(
            with(&|op| Op {
                offset: block - 412,
                ..op
            }),
            Outcome::Errno(libc::EINVAL)
        );
        assert_eq!(
            with(&|op| Op { len: 0, ..op }),
            Outcome::Errno(libc::EINVAL)
        );
        assert_eq!(
            with(&|op| Op {
                len: BLOCK + block as u32,
                ..op
            }),
            Outcome::Errno(libc::EINVAL)
        );
        assert_eq!(
            with(&|op| Op {
                placement: Some(Placement(0)),
                ..op
            }),
            Outcome::Errno(libc::EOPNOTSUPP)
        );
        assert_eq!(
            with(&|op| Op {
                placement: Some(Placement(9)),
                ..op
            }),
            Outcome::Errno(libc::EOPNOTSUPP)
        );
        drop((engine, target));
        let target = Arc::new(Target::read_only(&device, 0).unwrap());
        let mut engine = passthrough(&target);
        assert_eq!(
            write(&mut engine, 0, 1, None),
            Outcome::Errno(libc::EBADF),
            "root could"
        );
        assert_eq!(
            perform(&mut engine, |buf| op(OpKind::Deallocate, 0, buf)).0,
            Outcome::Errno(libc::EBADF)
        );
        assert_eq!(
            perform(&mut engine, |buf| op(OpKind::Read, 0, buf)).0,
            Outcome::Done
        );
    }
}

/// Writes through each handle, one block more each time, and checks that the blocks arrive at this handle.
fn arrives_at_its_handle<E: BlockEngine>(device: &str, engine: &mut E, handles: usize) {
    for place in 1..=handles {
        let before = (blocks_left(device), fdp(device).statistics.unwrap());
        assert!(
            before.0.iter().all(|left| *left > 8192),
            "a reclaim unit is nearly full: {:?}",
            before.0
        );
        for _ in 0..place {
            assert_eq!(
                write(engine, 0, 1, Some(Placement(place as u16))),
                Outcome::Done
            );
        }
        let mut expected = before.0.clone();
        expected[place - 1] -= place as u64 * u64::from(BLOCK / 512);
        assert_eq!(blocks_left(device), expected, "placement {place}");
        let bytes_written = place as u64 * u64::from(BLOCK);
        let counted = fdp(device).statistics.unwrap().since(before.1).unwrap();
        assert_eq!(
            (counted.host, counted.media),
            (bytes_written, bytes_written)
        );
    }
}

#[test]
#[ignore = "runs in the guest"]
fn nvme_directives_write_to_the_reclaim_unit_of_the_requested_placement_handle() {
    let device = fdp_drive();
    arrives_at_its_handle(&device, &mut passthrough(&writable(&device)), 8);
}

#[test]
#[ignore = "runs in the guest"]
fn io_uring_write_streams_write_to_the_reclaim_unit_of_the_requested_placement_handle() {
    let device = fdp_drive();
    let target = writable(&device);
    assert_eq!(target.write_streams(), 8);
    let (mut engine, _) = Uring::new(vec![target], EngineSetup::new(8, 16 << 20)).unwrap();
    arrives_at_its_handle(&device, &mut engine, 8);
}

#[test]
#[ignore = "runs in the guest"]
fn an_inodes_write_hint_selects_the_handle_and_is_cleared_when_the_target_closes() {
    use engine::threads::Threads;
    let device = fdp_drive();
    let target = writable(&device);
    let place = Some(Placement(5));
    let left = || blocks_left(&device)[4];
    let mut without = Threads::new(
        1,
        std::slice::from_ref(&target),
        EngineSetup::new(8, 1 << 20),
    )
    .unwrap();
    assert_eq!(
        write(&mut without, 0, 1, place),
        Outcome::Errno(libc::EOPNOTSUPP)
    );
    target.set_write_hint(5).unwrap();
    let mut engine = Threads::new(
        1,
        std::slice::from_ref(&target),
        EngineSetup::new(8, 1 << 20),
    )
    .unwrap();
    let before = left();
    assert_eq!(write(&mut engine, 0, 1, place), Outcome::Done);
    assert_eq!(before - left(), u64::from(BLOCK / 512));
    assert_eq!(
        write(&mut engine, 0, 1, Some(Placement(2))),
        Outcome::Errno(libc::EOPNOTSUPP)
    );
    assert!(target.set_write_hint(6).is_err());
    drop((engine, without, target));
    let before = left();
    let mut engine = Threads::new(1, &[writable(&device)], EngineSetup::new(8, 1 << 20)).unwrap();
    assert_eq!(write(&mut engine, 0, 1, None), Outcome::Done);
    assert_eq!(
        left(),
        before,
        "the next program's writes go where they always went"
    );
}
