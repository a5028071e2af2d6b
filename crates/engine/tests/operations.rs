//! Tests each kind of operation on a loop device and a file, by io_uring, AIO, threads and system calls. The backing
//! file of the device shows the bytes, the device's counters show the operations.

#![allow(clippy::disallowed_methods, reason = "tests make files of their own")]

use OpKind::*;
use device::guard::{EraseAnswers, Guard, WriteRequest};
use device::target::Target;
use engine::EngineSetup;
use engine::aio::Aio;
use engine::calls::Calls;
use engine::threads::{Threads, WORKERS_MAX};
use engine::uring::Uring;
use engine::{BlockEngine, Wait};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use sys::buffer::Buf;
use sys::op::{Op, OpKind, Outcome, Placement, WriteBack, WriteSync};

const SIZE: u64 = 32 << 20;
const BLOCK: u32 = 64 << 10;
const OUT_MAX: usize = 8;
const MEMORY: usize = 4 << 20;

/// A loop device on a file, or only the file; removed when dropped.
struct Bench {
    dir: tempfile::TempDir,
    device: Option<String>,
    /// Path of the file, if it is not in `dir`.
    at: Option<PathBuf>,
    cached: bool,
}

impl Bench {
    fn file() -> Self {
        let dir = tempfile::tempdir().unwrap();
        File::create(dir.path().join("image"))
            .unwrap()
            .set_len(SIZE)
            .unwrap();
        Self {
            dir,
            device: None,
            at: None,
            cached: false,
        }
    }

    /// `None`, with a message, if no loop device can be created.
    fn device() -> Option<Self> {
        let mut bench = Self::file();
        // Two concurrent searches for a free loop device can find the same device.
        static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
        let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let made = Command::new("losetup")
            .args(["-f", "--show"])
            .arg(bench.image())
            .output();
        match made {
            Ok(made) if made.status.success() => {
                bench.device = Some(String::from_utf8(made.stdout).unwrap().trim().to_owned());
                Some(bench)
            }
            _ => {
                let _ = writeln!(
                    std::io::stderr(),
                    "skipped: a loop device needs root and losetup"
                );
                None
            }
        }
    }

    /// A device whose operations go through the page cache.
    fn cached_device() -> Option<Self> {
        let mut bench = Self::device()?;
        bench.cached = true;
        Some(bench)
    }

    fn image(&self) -> PathBuf {
        self.at
            .clone()
            .unwrap_or_else(|| self.dir.path().join("image"))
    }

    fn path(&self) -> String {
        self.device
            .clone()
            .unwrap_or_else(|| self.image().to_str().unwrap().to_owned())
    }

    fn writable(&self) -> Arc<Target> {
        let file_size_bytes =
            self.device
                .is_none()
                .then_some(if self.at.is_some() { SIZE / 2 } else { SIZE });
        let request = WriteRequest {
            file_size_bytes,
            odsync: false,
            ..WriteRequest::new(self.path(), "test")
        };
        let guard = Guard::new(Some(self.dir.path().join("state")));
        let consents = guard.consent(&[request], &mut EraseAnswers::named([self.path()]));
        let target = Target::writable(
            consents
                .unwrap_or_else(|refused| panic!("{refused}"))
                .remove(0),
        );
        if self.cached {
            target.use_page_cache(true).unwrap();
        }
        Arc::new(target)
    }

    fn allocated_bytes(&self) -> u64 {
        let file = File::open(self.image()).unwrap();
        file.sync_all().unwrap();
        file.metadata().unwrap().blocks() * 512
    }

    fn byte_of_block(&self, offset: u64) -> u8 {
        let mut bytes = vec![0; BLOCK as usize];
        File::open(self.image())
            .unwrap()
            .read_exact_at(&mut bytes, offset)
            .unwrap();
        assert!(
            bytes.iter().all(|byte| *byte == bytes[0]),
            "the block at {offset} is mixed"
        );
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
    /// Performs `op` with a buffer that is filled with `fill`.
    fn carry_out(&mut self, op: Op, fill: u8) -> Outcome;

    fn perform(
        &mut self,
        kind: OpKind,
        offset: u64,
        fill: u8,
        placement: Option<Placement>,
    ) -> Outcome {
        let len = if kind.is_flush() { 0 } else { BLOCK };
        self.carry_out(
            Op {
                placement,
                ..Op::new(kind, offset, len, Buf::empty())
            },
            fill,
        )
    }

    fn write_durable(&mut self, offset: u64, sync: WriteSync) {
        let write = Op {
            sync,
            ..Op::new(Write, offset, BLOCK, Buf::empty())
        };
        assert_eq!(self.carry_out(write, 1), Outcome::Done);
    }

    fn write(&mut self, offset: u64, fill: u8) {
        assert_eq!(self.perform(Write, offset, fill, None), Outcome::Done);
    }
}

impl<E: BlockEngine> Perform for E {
    fn carry_out(&mut self, op: Op, fill: u8) -> Outcome {
        let kind = op.kind;
        let offset = op.offset;
        let mut buf = self
            .buffer(if kind.moves_data() { BLOCK as usize } else { 0 })
            .expect("memory for a few");
        buf.fill(fill);
        self.submit(Op {
            token: 3,
            buf,
            ..op
        });
        let mut out = Vec::new();
        while out.is_empty() {
            let until_ns = self.now() + 1_000_000_000;
            self.reap(Wait::first(until_ns), &mut out).unwrap();
        }
        let done = &out[0];
        assert_eq!((out.len(), done.token, self.in_flight()), (1, 3, 0));
        assert!(
            done.issued_ns <= done.completed_ns
                && done.unseen_ns <= done.completed_ns - done.issued_ns
        );
        if kind == Read && done.outcome.is_done() {
            assert!(
                done.buf.iter().all(|byte| *byte == 0),
                "read {} at {offset}",
                done.buf[0]
            );
        }
        done.outcome
    }
}

/// Calls `test` with each engine, each on a target of its own.
fn with_each(bench: impl Fn() -> Option<Bench>, test: impl Fn(&Bench, &mut dyn Perform)) {
    let setup = EngineSetup::new(OUT_MAX, MEMORY);
    if let Some(bench) = bench() {
        test(
            &bench,
            &mut Calls::new([bench.writable()].into(), setup).unwrap(),
        );
    }
    if let Some(bench) = bench() {
        let mut engine = Threads::new(WORKERS_MAX, &[bench.writable()], setup).unwrap();
        test(&bench, &mut engine);
    }
    if let Some(bench) = bench() {
        match Aio::new(vec![bench.writable()], setup) {
            Ok(mut engine) => test(&bench, &mut engine),
            Err(error) => _ = writeln!(std::io::stderr(), "skipped: no AIO: {error}"),
        }
    }
    if let Some(bench) = bench() {
        match Uring::new(vec![bench.writable()], setup) {
            Ok((mut engine, _)) => test(&bench, &mut engine),
            Err(error) => _ = writeln!(std::io::stderr(), "skipped: no io_uring: {error}"),
        }
    }
}

fn deallocated_blocks_are_zero_and_take_no_place(bench: &Bench, engine: &mut dyn Perform) {
    let block = u64::from(BLOCK);
    (0..4).for_each(|n| engine.write(n * block, 0x11 * (n as u8 + 1)));
    assert_eq!(engine.perform(Flush, 0, 0, None), Outcome::Done);
    let before = bench.allocated_bytes();
    assert_eq!(engine.perform(Deallocate, block, 0, None), Outcome::Done);
    let bytes: Vec<_> = (0..4).map(|n| bench.byte_of_block(n * block)).collect();
    assert_eq!(
        bytes,
        [0x11, 0, 0x33, 0x44],
        "the one that was named, and none beside it"
    );
    assert_eq!(before - bench.allocated_bytes(), block);
    assert_eq!(engine.perform(Read, block, 1, None), Outcome::Done);
}

#[test]
fn deallocated_blocks_of_a_loop_device_read_as_zeros_and_take_no_space() {
    with_each(Bench::device, deallocated_blocks_are_zero_and_take_no_place);
}

#[test]
fn deallocation_punches_a_hole_into_a_file() {
    with_each(
        || Some(Bench::file()),
        deallocated_blocks_are_zero_and_take_no_place,
    );
}

fn flushes(device: &str) -> u64 {
    counter(device, 16)
}

/// Bytes written to a device. Flushes count as writes of 0 bytes.
fn bytes_written(device: &str) -> u64 {
    counter(device, 7) * 512
}

/// A field of a device's statistics, from 1 (Documentation/admin-guide/iostats.rst).
fn counter(device: &str, field: usize) -> u64 {
    let name = Path::new(device).file_name().unwrap().to_str().unwrap();
    let text = fs::read_to_string("/proc/diskstats").unwrap();
    let line = text
        .lines()
        .find(|line| line.split_ascii_whitespace().nth(2) == Some(name))
        .unwrap();
    line.split_ascii_whitespace()
        .nth(field + 2)
        .unwrap()
        .parse()
        .unwrap()
}

#[test]
fn a_flush_reaches_the_device_and_plain_writes_cause_no_flush() {
    with_each(Bench::device, |bench, engine| {
        let device = bench.device.as_deref().unwrap();
        let before = flushes(device);
        (0..5).for_each(|n| engine.write(n * u64::from(BLOCK), 1));
        assert_eq!(flushes(device), before);
        (0..3).for_each(|_| assert_eq!(engine.perform(Flush, 0, 0, None), Outcome::Done));
        assert_eq!(flushes(device), before + 3);
        assert_eq!(engine.perform(FlushFile, 0, 0, None), Outcome::Done);
        assert_eq!(flushes(device), before + 4);
        for sync in [WriteSync::Data, WriteSync::File] {
            let before = flushes(device);
            engine.write_durable(0, sync);
            assert!(
                flushes(device) > before,
                "a loop device has no FUA: a flush follows {sync:?}"
            );
        }
    });
}

#[test]
fn sync_file_range_writes_a_range_back_without_a_flush() {
    let steps = WriteBack {
        write: true,
        wait_after: true,
        ..WriteBack::default()
    };
    with_each(Bench::cached_device, |bench, engine| {
        let device = bench.device.as_deref().unwrap();
        engine.write(0, 0x11);
        engine.write(u64::from(BLOCK), 0x22);
        let before = flushes(device);
        let found = engine.perform(WriteBack(steps), u64::from(BLOCK), 0, None);
        assert_eq!(found, Outcome::Done);
        assert_eq!(bench.byte_of_block(u64::from(BLOCK)), 0x22);
        assert_eq!(flushes(device), before);
    });
}

/// An ext4 file system on a loop device, unmounted when dropped.
struct Mounted {
    place: PathBuf,
    below: Bench,
}

impl Mounted {
    fn new() -> Option<Self> {
        let below = Bench::device()?;
        let device = below.device.clone()?;
        let place = below.dir.path().join("mounted");
        fs::create_dir(&place).unwrap();
        let done = |command: &mut Command| command.status().is_ok_and(|status| status.success());
        // A long commit interval: the journal is written only on request.
        let is_mounted = done(Command::new("mkfs.ext4").args(["-q", &device]))
            && done(
                Command::new("mount")
                    .args(["-o", "commit=600,noinit_itable", &device])
                    .arg(&place),
            );
        if !is_mounted {
            let _ = writeln!(std::io::stderr(), "skipped: no ext4 can be mounted");
            return None;
        }
        Some(Self { place, below })
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // A lazy unmount, because after a failure an engine may still have the file open.
        let _ = Command::new("umount").arg("-l").arg(&self.place).status();
    }
}

#[test]
fn fsync_writes_the_times_of_a_file_and_fdatasync_does_not() {
    let Some(mounted) = Mounted::new() else {
        return;
    };
    let device = mounted.below.device.as_deref().unwrap();
    with_each(
        || {
            let image = mounted.place.join("image");
            File::create(&image).unwrap().set_len(SIZE / 2).unwrap();
            Some(Bench {
                dir: tempfile::tempdir().unwrap(),
                device: None,
                at: Some(image),
                cached: false,
            })
        },
        |bench, engine| {
            engine.write(0, 1);
            assert_eq!(engine.perform(FlushFile, 0, 0, None), Outcome::Done);
            let mut touched = std::time::UNIX_EPOCH;
            let mut written_by = |act: &mut dyn FnMut()| {
                touched += std::time::Duration::from_secs(1_000);
                File::options()
                    .write(true)
                    .open(bench.image())
                    .unwrap()
                    .set_modified(touched)
                    .unwrap();
                let before = bytes_written(device);
                act();
                bytes_written(device) - before
            };
            let mut flush = |kind| assert_eq!(engine.perform(kind, 0, 0, None), Outcome::Done);
            let found = written_by(&mut || flush(Flush));
            assert_eq!(found, 0, "fdatasync leaves the journal");
            assert!(written_by(&mut || flush(FlushFile)) > 0, "fsync writes it");
            let found = written_by(&mut || engine.write_durable(0, WriteSync::Data));
            assert_eq!(found, u64::from(BLOCK), "the data alone");
            assert!(
                written_by(&mut || engine.write_durable(0, WriteSync::File)) > u64::from(BLOCK),
                "and the journal"
            );
        },
    );
}

#[test]
fn an_unsupported_placement_fails_and_writes_nothing() {
    with_each(Bench::device, |bench, engine| {
        engine.write(0, 0x11);
        let outcome = engine.perform(Write, 0, 0x22, Some(Placement(1)));
        assert_eq!(outcome, Outcome::Errno(libc::EOPNOTSUPP));
        assert_eq!(engine.perform(Flush, 0, 0, None), Outcome::Done);
        assert_eq!(bench.byte_of_block(0), 0x11);
    });
}

#[test]
fn a_target_open_for_reading_is_neither_written_nor_deallocated() {
    let Some(bench) = Bench::device() else { return };
    let image = File::options().write(true).open(bench.image()).unwrap();
    image.write_all_at(&[0x55; BLOCK as usize], 0).unwrap();
    let target = Arc::new(Target::read_only(&bench.path(), 0).unwrap());
    let setup = EngineSetup::new(OUT_MAX, MEMORY);
    let refused = |engine: &mut dyn Perform| {
        let found = engine.perform(Write, 0, 1, None);
        assert_eq!(found, Outcome::Errno(libc::EBADF));
        let found = engine.perform(Deallocate, 0, 0, None);
        assert_eq!(found, Outcome::Errno(libc::EBADF));
        assert_eq!(bench.byte_of_block(0), 0x55);
    };
    refused(&mut Calls::new([target.clone()].into(), setup).unwrap());
    refused(&mut Threads::new(WORKERS_MAX, std::slice::from_ref(&target), setup).unwrap());
    if let Ok(mut engine) = Aio::new(vec![target.clone()], setup) {
        refused(&mut engine);
    }
    if let Ok((mut engine, _)) = Uring::new(vec![target], setup) {
        refused(&mut engine);
    }
}
