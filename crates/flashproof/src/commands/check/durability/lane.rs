//! The writes of a lane, and the errors that end the lane.

use super::state::{LaneError, Shared, Stop};
use super::{file_name, new_file_name, one_buffer, perform};
use conclusions::durability::examine::{put_secret, stamp};
use conclusions::durability::session::{BATCH_MAX, DurabilityMethod, WriteLane};
use device::target::Target;
use results::files::{Dir, PRIVATE};
use session::failure::Failure;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::{Arc, PoisonError};
use sys::buffer::Buf;
use sys::op::{OpKind, Outcome, WriteSync};
use sys::random::Random;

pub(super) struct Worker {
    shared: Arc<Shared>,
    lane: WriteLane,
    number: usize,
    target: Arc<Target>,
    writer: Writer,
    random: Random,
    buf: Buf,
    /// Sequence number of the last issued write.
    sequence: u64,
}

enum Writer {
    /// The target itself.
    Direct,
    /// Writes to the target through the page cache.
    Cached(File),
    /// Files in a directory, and the directory's descriptor for fsync.
    Files(Dir, File),
}

impl Worker {
    pub(super) fn new(
        shared: Arc<Shared>,
        number: usize,
        target: &Arc<Target>,
        dir: Option<&Dir>,
    ) -> Result<Self, Failure> {
        let lane = shared.session.lanes[number].clone();
        let failed =
            |error| Failure::environment(format!("cannot open {} - {error}", target.name()));
        let writer = match (lane.mode, dir) {
            (DurabilityMethod::Fdatasync | DurabilityMethod::Fua, _) => Writer::Direct,
            (DurabilityMethod::Rename, Some(dir)) => {
                Writer::Files(dir.clone(), dir.open_to_sync().map_err(failed)?)
            }
            (mode, _) => Writer::Cached(
                target
                    .cached_writer(mode == DurabilityMethod::Dsync)
                    .map_err(failed)?,
            ),
        };
        let random = Random::for_part(shared.session.id.0 as u64, number as u64);
        let buf = one_buffer(lane.write_bytes as usize)?;
        Ok(Self {
            shared,
            lane,
            number,
            target: target.clone(),
            writer,
            random,
            buf,
            sequence: 0,
        })
    }

    pub(super) fn run(&mut self) {
        let shared = self.shared.clone();
        let mut state = shared.lock();
        loop {
            let room = state.confirmed[self.number] + self.lane.window() - self.sequence;
            if let Some(stop) = &state.stop {
                let has_device_failed = matches!(stop, Stop::Device);
                drop(state);
                if has_device_failed {
                    self.read_back();
                }
                return;
            }
            if room == 0 || state.is_changing || !shared.is_turn_of(self.lane.mode, state.phase) {
                state = shared
                    .changed
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            state.busy += 1;
            drop(state);
            let batch_result = self.batch(room);
            state = shared.lock();
            state.busy -= 1;
            match batch_result {
                Ok(()) => state.durable[self.number] = self.sequence,
                Err(error) => {
                    state.errors.push(error);
                    state.stop.get_or_insert(Stop::Device);
                }
            }
            shared.changed.notify_all();
        }
    }

    /// Reads a block after a lane failed, to learn if the drive still answers. A file system whose drive vanished may
    /// answer writes with EROFS, and a lane that waited for its phase has no error of its own.
    fn read_back(&mut self) {
        let outcome = perform(
            self.target.fd(),
            OpKind::Read,
            self.lane.at,
            &mut self.buf,
            WriteSync::No,
        );
        let error = self.error(
            format!("{} at byte {}", OpKind::Read, self.lane.at),
            outcome,
        );
        let mut state = self.shared.lock();
        match outcome {
            Outcome::Done => state.answered += 1,
            _ => state.errors.push(error),
        }
    }

    fn error(&self, operation: String, outcome: Outcome) -> LaneError {
        LaneError {
            lane: self.number,
            mode: self.lane.mode,
            operation,
            outcome,
        }
    }

    /// Writes some blocks, and returns when all are durable.
    fn batch(&mut self, room: u64) -> Result<(), LaneError> {
        let writes = if self.lane.mode.is_alone() {
            1
        } else {
            1 + self.random.below(BATCH_MAX.min(room))
        };
        for _ in 0..writes {
            self.sequence += 1;
            let slot = self.lane.slot(self.sequence);
            fill(&mut self.buf, &mut self.random);
            put_secret(&mut self.buf, self.shared.secret);
            stamp(
                &mut self.buf,
                self.shared.session.id,
                self.number as u32,
                &self.lane,
                slot,
                self.sequence,
            );
            let offset = self.lane.offset(slot);
            let sync = if self.lane.mode == DurabilityMethod::Fua {
                WriteSync::Data
            } else {
                WriteSync::No
            };
            match &self.writer {
                Writer::Files(dir, handle) => {
                    replace(dir, handle, self.number as u32, slot, &self.buf).map_err(|error| {
                        self.error("replacing a file".to_owned(), outcome_of(&error))
                    })?
                }
                Writer::Direct | Writer::Cached(_) => {
                    self.carry_out(OpKind::Write, offset, sync)?
                }
            }
        }
        match self.lane.mode {
            DurabilityMethod::Fdatasync => self.carry_out(OpKind::Flush, 0, WriteSync::No),
            DurabilityMethod::Fsync => self.carry_out(OpKind::FlushFile, 0, WriteSync::No),
            DurabilityMethod::Fua | DurabilityMethod::Dsync | DurabilityMethod::Rename => Ok(()),
        }
    }

    /// Performs an operation on the target. A write transfers the whole buffer.
    fn carry_out(&mut self, kind: OpKind, offset: u64, sync: WriteSync) -> Result<(), LaneError> {
        let fd = match &self.writer {
            Writer::Cached(file) => file.as_fd(),
            Writer::Direct | Writer::Files(..) => self.target.fd(),
        };
        let mut none = Buf::empty();
        let buf = if kind == OpKind::Write {
            &mut self.buf
        } else {
            &mut none
        };
        match perform(fd, kind, offset, buf, sync) {
            Outcome::Done => Ok(()),
            outcome => Err(self.error(format!("{kind} at byte {offset}"), outcome)),
        }
    }
}

/// Content that no drive can compress.
pub(super) fn fill(buf: &mut [u8], random: &mut Random) {
    buf.chunks_exact_mut(8)
        .for_each(|word| word.copy_from_slice(&random.next_u64().to_le_bytes()));
}

/// Replaces the file of a slot as databases do: write, fsync, rename, fsync of the directory.
fn replace(dir: &Dir, handle: &File, number: u32, slot: u64, bytes: &[u8]) -> io::Result<()> {
    let new_name = new_file_name(number);
    let mut file = dir.create_new(new_name.as_ref(), PRIVATE)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    dir.rename(new_name.as_ref(), file_name(number, slot).as_ref())?;
    handle.sync_all()?;
    // If a commit of another lane with this rename failed before the fsync began, ext4 has nothing to commit, and the
    // fsync succeeds on a drive that is gone. A new file shows it, because its creation fails once the journal is
    // aborted; it flushes nothing.
    drop(dir.create_new(new_name.as_ref(), PRIVATE)?);
    dir.remove_file(new_name.as_ref())
}

fn outcome_of(error: &io::Error) -> Outcome {
    // An error without an errno is a short write (`write_all`).
    error
        .raw_os_error()
        .map_or(Outcome::Short(0), Outcome::Errno)
}
