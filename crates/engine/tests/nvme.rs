//! Passthrough and placement on an emulated controller with FDP: what reached the drive is asked of the drive. To be run in a
//! virtual machine whose drive has the serial number FDP0: everything on it is erased. The variable `FLASHPROOF_TEST_FDP` names
//! its node (`/dev/nvme0n1`), and no other drive is opened for writing, whatever is named: it must be QEMU's, of that serial.

use device::discover::{DeviceFacts, Roots, discover};
use device::generic::Generic;
use device::guard::{Answers, Guard, Request};
use device::observe::nvme::Controller;
use device::observe::nvme::fdp::Fdp;
use device::target::Target;
use engine::passthrough::Passthrough;
use engine::uring::Uring;
use engine::{BlockEngine, IoEngine, Wait};
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;
use sys::op::{Op, OpKind, Outcome, Placement};

const BLOCK: u32 = 64 << 10;
const SERIAL: &str = "FDP0";

fn device() -> Option<String> {
    let device = std::env::var("FLASHPROOF_TEST_FDP").ok();
    if device.is_none() {
        let _ = writeln!(std::io::stderr(), "skipped: FLASHPROOF_TEST_FDP names no drive with FDP to be erased");
    }
    device
}

fn facts(device: &str) -> DeviceFacts {
    discover(device, &Roots::default()).unwrap()
}

fn writable(device: &str) -> Arc<Target> {
    let state = tempfile::tempdir().unwrap();
    let guard = Guard::new(Some(state.path().to_owned()));
    let request = Request { odsync: false, ..Request::new(device, "test") };
    let facts = facts(device);
    let who = (facts.model.as_deref().map(str::trim), facts.serial.as_deref().map(str::trim));
    assert_eq!(who, (Some("QEMU NVMe Ctrl"), Some(SERIAL)), "not the drive of the virtual machine");
    let consents = guard.consent(&[request], &mut Answers::named([SERIAL.to_owned()]));
    Arc::new(Target::writable(consents.unwrap_or_else(|refused| panic!("{refused}")).remove(0)))
}

fn fdp(device: &str) -> Fdp {
    let number = facts(device).number.unwrap();
    let controller = Controller::find(Path::new("/"), (number.major, number.minor)).unwrap();
    let disk = facts(device).partition.map_or(device.to_owned(), |part| format!("/dev/{}", part.disk));
    let fdp = controller.fdp(&File::open(disk).unwrap()).unwrap().expect("the drive has FDP");
    assert_eq!(fdp.unknown, Vec::<String>::new());
    fdp
}

/// Blocks left in the reclaim unit of each handle, of which each write takes some.
fn blocks_left(device: &str) -> Vec<u64> {
    fdp(device).placement.iter().map(|handle| handle.reclaim_unit_blocks_left).collect()
}

fn perform<E: BlockEngine>(engine: &mut E, op: impl FnOnce(sys::buffer::Buf) -> Op) -> (Outcome, Vec<u8>) {
    let buf = engine.buffer(BLOCK as usize).expect("memory for a few");
    engine.submit(op(buf));
    let mut out = Vec::new();
    while out.is_empty() {
        let until_ns = engine.now() + 1_000_000_000;
        engine.reap(Wait { until_ns, completions: 1 }, &mut out).unwrap();
    }
    assert_eq!((out.len(), engine.in_flight()), (1, 0));
    (out[0].outcome, out[0].buf.to_vec())
}

fn op(kind: OpKind, offset: u64, buf: sys::buffer::Buf) -> Op {
    Op { target: 0, kind, offset, len: BLOCK, sync: false, placement: None, buf, token: 3 }
}

fn write<E: BlockEngine>(engine: &mut E, offset: u64, fill: u8, placement: Option<Placement>) -> Outcome {
    let of = |mut buf: sys::buffer::Buf| {
        buf.fill(fill);
        Op { placement, ..op(OpKind::Write, offset, buf) }
    };
    perform(engine, of).0
}

fn passthrough(target: &Arc<Target>) -> Passthrough {
    let generic = Arc::new(Generic::open(target).unwrap_or_else(|error| panic!("{error}")));
    Passthrough::new(vec![target.clone()], vec![generic], 8, 16 << 20, Instant::now(), 0).unwrap().0
}

#[test]
fn commands_reach_the_drive_and_bring_its_own_status() {
    let Some(device) = device() else { return };
    let target = writable(&device);
    let mut engine = passthrough(&target);
    let (first, last) = (u64::from(BLOCK), target.size_bytes() - u64::from(BLOCK));
    for (offset, fill) in [(first, 0x5a), (last, 0xa5)] {
        assert_eq!(write(&mut engine, offset, fill, None), Outcome::Done);
        let (outcome, bytes) = perform(&mut engine, |buf| op(OpKind::Read, offset, buf));
        assert_eq!((outcome, bytes == vec![fill; BLOCK as usize]), (Outcome::Done, true));
    }
    assert_eq!(perform(&mut engine, |buf| op(OpKind::Flush, 0, buf)).0, Outcome::Done);
    // Asked of the block device, which knows nothing of the other door.
    let mut bytes = vec![0; BLOCK as usize];
    File::open(&device).unwrap().read_exact_at(&mut bytes, last).unwrap();
    assert!(bytes.iter().all(|byte| *byte == 0xa5));
    // What the emulated drive forgets is zeros.
    assert_eq!(perform(&mut engine, |buf| op(OpKind::Deallocate, first, buf)).0, Outcome::Done);
    let (outcome, bytes) = perform(&mut engine, |buf| op(OpKind::Read, first, buf));
    assert_eq!((outcome, bytes == vec![0; BLOCK as usize]), (Outcome::Done, true));
}

#[test]
fn nothing_leaves_its_bounds() {
    let Some(device) = device() else { return };
    let target = writable(&device);
    let mut engine = passthrough(&target);
    let size = target.size_bytes();
    let refused = |engine: &mut Passthrough, at: Op| {
        let mut at = Some(at);
        perform(engine, |_| at.take().unwrap()).0
    };
    let mut with = |change: &dyn Fn(Op) -> Op| {
        let buf = engine.buffer(BLOCK as usize).unwrap();
        refused(&mut engine, change(op(OpKind::Write, 0, buf)))
    };
    assert_eq!(with(&|op| Op { offset: size - 512, ..op }), Outcome::Errno(libc::ENOSPC));
    assert_eq!(with(&|op| Op { offset: u64::MAX - 511, ..op }), Outcome::Errno(libc::ENOSPC));
    assert_eq!(with(&|op| Op { offset: 100, ..op }), Outcome::Errno(libc::EINVAL));
    assert_eq!(with(&|op| Op { len: 0, ..op }), Outcome::Errno(libc::EINVAL));
    assert_eq!(with(&|op| Op { len: BLOCK + 512, ..op }), Outcome::Errno(libc::EINVAL));
    assert_eq!(with(&|op| Op { placement: Some(Placement(0)), ..op }), Outcome::Errno(libc::EOPNOTSUPP));
    assert_eq!(with(&|op| Op { placement: Some(Placement(9)), ..op }), Outcome::Errno(libc::EOPNOTSUPP));
    drop((engine, target));
    let target = Arc::new(Target::read_only(&device, 0).unwrap());
    let mut engine = passthrough(&target);
    assert_eq!(write(&mut engine, 0, 1, None), Outcome::Errno(libc::EBADF), "root could");
    assert_eq!(perform(&mut engine, |buf| op(OpKind::Deallocate, 0, buf)).0, Outcome::Errno(libc::EBADF));
    assert_eq!(perform(&mut engine, |buf| op(OpKind::Read, 0, buf)).0, Outcome::Done);
}

/// Writes one block more by each further handle, and sees each arrive at its own.
fn arrives_at_its_handle<E: BlockEngine>(device: &str, engine: &mut E, handles: usize) {
    for place in 1..=handles {
        let before = (blocks_left(device), fdp(device).statistics.unwrap());
        assert!(before.0.iter().all(|left| *left > 8192), "a reclaim unit is nearly full: {:?}", before.0);
        for _ in 0..place {
            assert_eq!(write(engine, 0, 1, Some(Placement(place as u16))), Outcome::Done);
        }
        let mut expected = before.0.clone();
        expected[place - 1] -= place as u64 * u64::from(BLOCK / 512);
        assert_eq!(blocks_left(device), expected, "placement {place}");
        let written = place as u64 * u64::from(BLOCK);
        let counted = fdp(device).statistics.unwrap().since(before.1).unwrap();
        assert_eq!((counted.host, counted.media), (written, written));
    }
}

#[test]
fn each_placement_arrives_at_its_handle_by_directives() {
    let Some(device) = device() else { return };
    arrives_at_its_handle(&device, &mut passthrough(&writable(&device)), 8);
}

#[test]
fn each_placement_arrives_at_its_handle_by_write_streams() {
    let Some(device) = device() else { return };
    let target = writable(&device);
    if target.write_streams() == 0 {
        let _ = writeln!(std::io::stderr(), "skipped: the kernel has no write streams of {device}");
        return;
    }
    assert_eq!(target.write_streams(), 8);
    let (mut engine, _) = Uring::new(vec![target], 8, 16 << 20, Instant::now(), 0).unwrap();
    arrives_at_its_handle(&device, &mut engine, 8);
}

#[test]
fn a_hint_of_the_inode_is_the_handle_of_every_write_and_gone_with_the_target() {
    use engine::threads::Threads;
    let Some(device) = device() else { return };
    let target = writable(&device);
    if target.write_streams() == 0 {
        let _ = writeln!(std::io::stderr(), "skipped: the kernel has no write streams of {device}");
        return;
    }
    let place = Some(Placement(5));
    let left = || blocks_left(&device)[4];
    let mut without = Threads::new(1, std::slice::from_ref(&target), 8, 1 << 20, Instant::now(), 0).unwrap();
    assert_eq!(write(&mut without, 0, 1, place), Outcome::Errno(libc::EOPNOTSUPP));
    target.set_write_hint(5).unwrap();
    let mut engine = Threads::new(1, std::slice::from_ref(&target), 8, 1 << 20, Instant::now(), 0).unwrap();
    let before = left();
    assert_eq!(write(&mut engine, 0, 1, place), Outcome::Done);
    assert_eq!(before - left(), u64::from(BLOCK / 512));
    assert_eq!(write(&mut engine, 0, 1, Some(Placement(2))), Outcome::Errno(libc::EOPNOTSUPP));
    assert!(target.set_write_hint(6).is_err());
    drop((engine, without, target));
    let before = left();
    let mut engine = Threads::new(1, &[writable(&device)], 8, 1 << 20, Instant::now(), 0).unwrap();
    assert_eq!(write(&mut engine, 0, 1, None), Outcome::Done);
    assert_eq!(left(), before, "the next program's writes go where they always went");
}
