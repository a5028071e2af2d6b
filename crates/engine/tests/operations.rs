//! Every kind of operation on real targets: a loop device and a file, by io_uring and by threads. The file behind the
//! device shows the bytes, the device's counters show the operations.

use device::guard::{Answers, Guard, Request};
use device::target::Target;
use engine::aio::Aio;
use engine::threads::{Threads, WORKERS_MAX};
use engine::uring::Uring;
use engine::{BlockEngine, Wait};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use sys::op::{Op, OpKind, Outcome, Placement, WriteSync};

const SIZE: u64 = 32 << 20;
const BLOCK: u32 = 64 << 10;
const OUT_MAX: usize = 8;
const MEMORY: usize = 4 << 20;

/// A loop device on a file, or the file itself, gone when dropped.
struct Bench {
    dir: tempfile::TempDir,
    device: Option<String>,
}

impl Bench {
    fn file() -> Self {
        let dir = tempfile::tempdir().unwrap();
        File::create(dir.path().join("image")).unwrap().set_len(SIZE).unwrap();
        Self { dir, device: None }
    }

    /// `None` where there are no loop devices to be had, which is said aloud.
    fn device() -> Option<Self> {
        let mut bench = Self::file();
        // Two that look for a free device at once find the same one.
        static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
        let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let made = Command::new("losetup").args(["-f", "--show"]).arg(bench.image()).output();
        match made {
            Ok(made) if made.status.success() => {
                bench.device = Some(String::from_utf8(made.stdout).unwrap().trim().to_owned());
                Some(bench)
            }
            _ => {
                let _ = writeln!(std::io::stderr(), "skipped: a loop device needs root and losetup");
                None
            }
        }
    }

    fn image(&self) -> PathBuf {
        self.dir.path().join("image")
    }

    fn path(&self) -> String {
        self.device.clone().unwrap_or_else(|| self.image().to_str().unwrap().to_owned())
    }

    fn writable(&self) -> Arc<Target> {
        let file_size_bytes = self.device.is_none().then_some(SIZE);
        let request = Request { file_size_bytes, odsync: false, ..Request::new(self.path(), "test") };
        let guard = Guard::new(Some(self.dir.path().join("state")));
        let consents = guard.consent(&[request], &mut Answers::named([self.path()]));
        Arc::new(Target::writable(consents.unwrap_or_else(|refused| panic!("{refused}")).remove(0)))
    }

    /// Bytes that the file behind has a place for.
    fn allocated_bytes(&self) -> u64 {
        let file = File::open(self.image()).unwrap();
        file.sync_all().unwrap();
        file.metadata().unwrap().blocks() * 512
    }

    /// The byte that all of the block at `offset` of the file behind holds.
    fn byte_of_block(&self, offset: u64) -> u8 {
        let mut bytes = vec![0; BLOCK as usize];
        File::open(self.image()).unwrap().read_exact_at(&mut bytes, offset).unwrap();
        assert!(bytes.iter().all(|byte| *byte == bytes[0]), "the block at {offset} is mixed");
        bytes[0]
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        if let Some(device) = &self.device {
            let _ = Command::new("losetup").args(["-d", device]).status();
        }
    }
}

/// An engine that performs one operation at a time. Reads must return zeros.
trait Perform {
    fn perform(&mut self, kind: OpKind, offset: u64, fill: u8, placement: Option<Placement>) -> Outcome;

    fn write(&mut self, offset: u64, fill: u8) {
        assert_eq!(self.perform(OpKind::Write, offset, fill, None), Outcome::Done);
    }
}

impl<E: BlockEngine> Perform for E {
    fn perform(&mut self, kind: OpKind, offset: u64, fill: u8, placement: Option<Placement>) -> Outcome {
        let mut buf = self.buffer(if kind.moves_data() { BLOCK as usize } else { 0 }).expect("memory for a few");
        buf.fill(fill);
        let len = if kind == OpKind::Flush { 0 } else { BLOCK };
        self.submit(Op { target: 0, kind, offset, len, sync: WriteSync::No, placement, buf, token: 3 });
        let mut out = Vec::new();
        while out.is_empty() {
            let until_ns = self.now() + 1_000_000_000;
            self.reap(Wait { until_ns, completions: 1 }, &mut out).unwrap();
        }
        let done = &out[0];
        assert_eq!((out.len(), done.token, self.in_flight()), (1, 3, 0));
        assert!(done.issued_ns <= done.completed_ns && done.unseen_ns <= done.completed_ns - done.issued_ns);
        if kind == OpKind::Read && done.outcome.is_done() {
            assert!(done.buf.iter().all(|byte| *byte == 0), "read {} at {offset}", done.buf[0]);
        }
        done.outcome
    }
}

/// Does `test` with each engine on a target of its own.
fn with_each(bench: impl Fn() -> Option<Bench>, test: impl Fn(&Bench, &mut dyn Perform)) {
    let epoch = Instant::now();
    if let Some(bench) = bench() {
        let mut engine = Threads::new(WORKERS_MAX, &[bench.writable()], OUT_MAX, MEMORY, epoch, 0).unwrap();
        test(&bench, &mut engine);
    }
    if let Some(bench) = bench() {
        match Aio::new(vec![bench.writable()], OUT_MAX, MEMORY, epoch, 0) {
            Ok(mut engine) => test(&bench, &mut engine),
            Err(error) => {
                let _ = writeln!(std::io::stderr(), "skipped: no AIO: {error}");
            }
        }
    }
    if let Some(bench) = bench() {
        match Uring::new(vec![bench.writable()], OUT_MAX, MEMORY, epoch, 0) {
            Ok((mut engine, _)) => test(&bench, &mut engine),
            Err(error) => {
                let _ = writeln!(std::io::stderr(), "skipped: no io_uring: {error}");
            }
        }
    }
}

fn deallocated_blocks_are_zero_and_take_no_place(bench: &Bench, engine: &mut dyn Perform) {
    let block = u64::from(BLOCK);
    (0..4).for_each(|n| engine.write(n * block, 0x11 * (n as u8 + 1)));
    assert_eq!(engine.perform(OpKind::Flush, 0, 0, None), Outcome::Done);
    let before = bench.allocated_bytes();
    assert_eq!(engine.perform(OpKind::Deallocate, block, 0, None), Outcome::Done);
    let bytes: Vec<_> = (0..4).map(|n| bench.byte_of_block(n * block)).collect();
    assert_eq!(bytes, [0x11, 0, 0x33, 0x44], "the one that was named, and none beside it");
    assert_eq!(before - bench.allocated_bytes(), block);
    assert_eq!(engine.perform(OpKind::Read, block, 1, None), Outcome::Done);
}

#[test]
fn a_loop_device_forgets_what_is_deallocated() {
    with_each(Bench::device, deallocated_blocks_are_zero_and_take_no_place);
}

#[test]
fn a_file_gets_a_hole_where_it_is_deallocated() {
    with_each(|| Some(Bench::file()), deallocated_blocks_are_zero_and_take_no_place);
}

/// Flushes that a device has carried out (Documentation/admin-guide/iostats.rst, field 16).
fn flushes(device: &str) -> u64 {
    let name = Path::new(device).file_name().unwrap().to_str().unwrap();
    let text = fs::read_to_string("/proc/diskstats").unwrap();
    let line = text.lines().find(|line| line.split_ascii_whitespace().nth(2) == Some(name)).unwrap();
    line.split_ascii_whitespace().nth(18).unwrap().parse().unwrap()
}

#[test]
fn a_flush_reaches_the_device_and_plain_writes_bring_none_along() {
    with_each(Bench::device, |bench, engine| {
        let device = bench.device.as_deref().unwrap();
        let before = flushes(device);
        (0..5).for_each(|n| engine.write(n * u64::from(BLOCK), 1));
        assert_eq!(flushes(device), before);
        (0..3).for_each(|_| assert_eq!(engine.perform(OpKind::Flush, 0, 0, None), Outcome::Done));
        assert_eq!(flushes(device), before + 3);
    });
}

#[test]
fn a_placement_that_a_device_does_not_take_fails_and_writes_nothing() {
    with_each(Bench::device, |bench, engine| {
        engine.write(0, 0x11);
        let outcome = engine.perform(OpKind::Write, 0, 0x22, Some(Placement(1)));
        assert_eq!(outcome, Outcome::Errno(libc::EOPNOTSUPP));
        assert_eq!(engine.perform(OpKind::Flush, 0, 0, None), Outcome::Done);
        assert_eq!(bench.byte_of_block(0), 0x11);
    });
}

#[test]
fn what_was_opened_for_reading_is_neither_written_nor_deallocated() {
    let Some(bench) = Bench::device() else { return };
    let image = File::options().write(true).open(bench.image()).unwrap();
    image.write_all_at(&[0x55; BLOCK as usize], 0).unwrap();
    let target = Arc::new(Target::read_only(&bench.path(), 0).unwrap());
    let epoch = Instant::now();
    let refused = |engine: &mut dyn Perform| {
        assert_eq!(engine.perform(OpKind::Write, 0, 1, None), Outcome::Errno(libc::EBADF));
        assert_eq!(engine.perform(OpKind::Deallocate, 0, 0, None), Outcome::Errno(libc::EBADF));
        assert_eq!(bench.byte_of_block(0), 0x55);
    };
    refused(&mut Threads::new(WORKERS_MAX, std::slice::from_ref(&target), OUT_MAX, MEMORY, epoch, 0).unwrap());
    if let Ok(mut engine) = Aio::new(vec![target.clone()], OUT_MAX, MEMORY, epoch, 0) {
        refused(&mut engine);
    }
    if let Ok((mut engine, _)) = Uring::new(vec![target], OUT_MAX, MEMORY, epoch, 0) {
        refused(&mut engine);
    }
}
