//! `verify`: reads back and compares the writes of this job, or of an earlier one.
//!
//! ```text
//! options.rs   the options
//! overlap.rs   writers that overwrite each other's blocks
//! method.rs    digests
//! formats.rs   fio's header on the medium, and fio's state file
//! block.rs     a block: written, checked, explained; damage.rs: the difference to the right block
//! written.rs   the last write to each block, and whether it was read back
//! counts.rs    counts for reports and for the state file
//! ```
//!
//! Each write has a number. The seed of a block's data follows from that number and the block's offset, so a few bytes
//! of memory per block are enough to compute the expected data.

mod block;
pub(super) mod counts;
pub(super) mod damage;
pub(super) mod formats;
pub(super) mod method;
pub(super) mod options;
pub(super) mod overlap;
mod written;

use super::progress::Progress;
use super::thread::JobClone;
use block::{BlockAddress, BlockCodec, WriteOrigin};
use damage::Damage;
use formats::VerifyState;
use results::format::{self, count};
use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use sys::random::Random;
use written::WriteTable;

/// Bytes of memory for each block that is read back.
pub(super) const ENTRY_BYTES: u64 = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OpAddress {
    pub(super) area: usize,
    /// First byte of the operation, relative to the area.
    pub(super) area_offset: u64,
    /// First byte of the operation on the device.
    pub(super) offset: u64,
}

#[derive(Debug)]
pub(super) struct Verify {
    blocks: BlockCodec,
    /// Blocks to read back; `None`: all reads are checked.
    write_table: Option<WriteTable>,
    seed: u64,
    writes: u64,
    backlog: ReadBackBacklog,
    /// Loaded state of an earlier run's writes (`verify_state_load`), and the number of the next write to check.
    state: Option<(VerifyState, u64)>,
    progress: Arc<Progress>,
}

/// Writes that are read back before all writes are done (`verify_backlog`).
#[derive(Debug, Default)]
struct ReadBackBacklog {
    /// Writes done since the last batch was read back.
    writes_since_batch: u64,
    reads_left: u64,
    /// Area, first block, number of blocks. Writes for which there is no room here are read back at the end.
    unread_writes: VecDeque<(usize, usize, usize)>,
}

impl Verify {
    /// The verification of a stream of `thread` on areas of these sizes. Error: the state cannot be loaded.
    pub(super) fn new(
        thread: &JobClone,
        seed: u64,
        areas: impl Iterator<Item = u64>,
    ) -> Result<Self, String> {
        let job = &thread.job;
        let progress = thread.progress.clone();
        let mut state = None;
        if job.verify.loads_state && job.checks_reads() {
            let name = VerifyState::file_name(&job.name, thread.number);
            let loaded = VerifyState::load(Path::new(&name)).map_err(|why| {
                format!(
                    "cannot load the verify state from {} - {why} - leave out verify_state_load",
                    format::quoted(&name)
                )
            })?;
            state = Some((loaded, 0));
        }
        if job.writes_blocks() {
            progress.verify.expect_writes(job.in_flight_max());
        }
        let since_1970 = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let keeps_backlog = job.verify.backlog > 0 && job.reads_back();
        let backlog_capacity = if keeps_backlog {
            job.verify.backlog.max(job.verify.batch) * 2 + job.in_flight_max()
        } else {
            0
        };
        Ok(Self {
            blocks: BlockCodec::new(
                job.clone(),
                thread.number as u16,
                since_1970.as_secs() as u32,
            ),
            write_table: job
                .reads_back()
                .then(|| WriteTable::new(job.size_divisor(), areas)),
            // The seed differs from run to run, so that data of an earlier run is not accepted.
            seed: seed ^ since_1970.as_nanos() as u64,
            writes: 0,
            backlog: ReadBackBacklog {
                unread_writes: VecDeque::with_capacity(backlog_capacity as usize),
                ..ReadBackBacklog::default()
            },
            state,
            progress,
        })
    }

    /// Write number `write`, with its data seed for the block at `offset`.
    fn origin_of(seed: u64, write: u64, offset: u64) -> WriteOrigin {
        WriteOrigin {
            write,
            seed: Random::for_part(seed ^ offset, write).next_u64(),
        }
    }

    pub(super) fn fill(&mut self, address: OpAddress, data: &mut [u8]) {
        let write = self.writes;
        self.writes += 1;
        self.progress.verify.writes_begun.set(self.writes);
        if let Some(write_table) = &mut self.write_table {
            write_table.begin(
                address.area,
                write_table.blocks(address.area_offset, data.len()),
                write,
            );
        }
        for (number, block) in data.chunks_exact_mut(self.blocks.len).enumerate() {
            let offset_in_op = number * self.blocks.len;
            let offset = address.offset + offset_in_op as u64;
            self.blocks.put(
                block,
                BlockAddress {
                    offset,
                    offset_in_op,
                },
                Self::origin_of(self.seed, write, offset),
            );
        }
    }

    pub(super) fn trim(&mut self, address: OpAddress, len: usize) {
        if let Some(write_table) = &mut self.write_table {
            let blocks = write_table.blocks(address.area_offset, len);
            write_table.forget(address.area, blocks);
        }
    }

    pub(super) fn on_write_completed(&mut self, address: OpAddress, len: usize, is_done: bool) {
        if is_done {
            self.progress
                .verify
                .end_write(address.area as u64, address.offset);
        }
        let Some(write_table) = &mut self.write_table else {
            return;
        };
        let blocks = write_table.blocks(address.area_offset, len);
        write_table.end(address.area, blocks.clone(), is_done);
        let backlog = &mut self.backlog;
        let options = &self.blocks.job.verify;
        if options.backlog > 0 && is_done {
            if backlog.unread_writes.len() == backlog.unread_writes.capacity() {
                backlog.unread_writes.pop_front();
            }
            backlog
                .unread_writes
                .push_back((address.area, blocks.start, blocks.len()));
            backlog.writes_since_batch += 1;
            if backlog.writes_since_batch >= options.backlog {
                (backlog.writes_since_batch, backlog.reads_left) = (0, options.batch);
            }
        }
        self.publish_counts();
    }

    fn publish_counts(&self) {
        if let Some(WriteTable {
            due_blocks: due,
            unknown_blocks: unknown,
            grain,
            ..
        }) = &self.write_table
        {
            self.progress.verify.due_bytes.set(due * grain);
            self.progress.verify.unknown_bytes.set(unknown * grain);
        }
    }

    /// The next read-back of the backlog that is due now: area, first byte in the area, number of bytes.
    pub(super) fn next_of_backlog(&mut self) -> Option<(usize, u64, u32)> {
        let write_table = self.write_table.as_mut()?;
        while self.backlog.reads_left > 0 {
            self.backlog.reads_left -= 1;
            let (area, block, blocks) = self.backlog.unread_writes.pop_front()?;
            let blocks_to_read = write_table.read(area, block, blocks);
            if blocks_to_read > 0 {
                return Some((
                    area,
                    block as u64 * write_table.grain,
                    (blocks_to_read as u64 * write_table.grain) as u32,
                ));
            }
        }
        None
    }

    /// The next read-back at the end of a job or loop: area, first byte in the area, number of bytes.
    pub(super) fn next_of_all(&mut self) -> Option<(usize, u64, u32)> {
        let write_table = self.write_table.as_mut()?;
        let job = &self.blocks.job;
        let blocks_max = job.written_max_bytes() / write_table.grain;
        let (area, block, blocks) = write_table.next(blocks_max as usize)?;
        Some((
            area,
            block as u64 * write_table.grain,
            (blocks as u64 * write_table.grain) as u32,
        ))
    }

    /// Begins to read back all blocks that are due.
    pub(super) fn rewind(&mut self) {
        self.backlog.unread_writes.clear();
        if let Some(write_table) = &mut self.write_table {
            write_table.rewind();
        }
    }

    /// Compares the data of a read. Errors: a block is wrong; the text describes the damage.
    pub(super) fn check(&mut self, address: OpAddress, data: &[u8]) -> Result<(), String> {
        let Self {
            blocks,
            write_table,
            seed,
            progress,
            ..
        } = self;
        let grain = write_table
            .as_ref()
            .map_or(data.len() as u64, |write_table| write_table.grain);
        let len = blocks.len;
        let mut first_damage = None;
        let mut wrong_blocks = 0;
        let mut right_bytes = 0;
        for (chunk, chunk_offset) in data
            .chunks(grain as usize)
            .zip((0..).map(|number| number * grain))
        {
            let index = ((address.area_offset + chunk_offset) / grain) as usize;
            let write = match write_table
                .as_mut()
                .map(|write_table| write_table.was_read(address.area, index))
            {
                // This block is not being read back, or was overwritten meanwhile.
                Some(None) => continue,
                read_back => read_back.flatten(),
            };
            for (block, number) in chunk.chunks(len).zip(0..) {
                let offset_in_op = chunk_offset as usize + number * len;
                let offset = address.offset + offset_in_op as u64;
                let origin = write.map(|write| Self::origin_of(*seed, write, offset));
                match blocks.check(
                    block,
                    BlockAddress {
                        offset,
                        offset_in_op,
                    },
                    origin,
                ) {
                    Ok(()) => right_bytes += block.len() as u64,
                    Err(damage) => {
                        wrong_blocks += 1;
                        first_damage.get_or_insert_with(|| damage.text.clone());
                        let dumps = blocks.job.verify.dumps;
                        progress.verify.add_wrong(dumps.then_some(Damage {
                            file: address.area,
                            ..*damage
                        }));
                    }
                }
            }
        }
        self.progress.verify.checked_bytes.add(right_bytes);
        self.publish_counts();
        match first_damage {
            None => Ok(()),
            Some(text) if wrong_blocks == 1 => Err(text),
            Some(text) => Err(format!(
                "{text} (and {} of this read)",
                count(wrong_blocks - 1, "more block")
            )),
        }
    }

    /// Counts the next operation of a job that only reads. True if the loaded state lists the operation as written.
    pub(super) fn is_next_written(&mut self, area: usize, offset: u64) -> bool {
        self.state.as_mut().is_none_or(|(state, number)| {
            *number += 1;
            state.was_written(*number - 1, area as u64, offset)
        })
    }

    /// True if the loaded state lists no further writes.
    pub(super) fn is_past_state(&self) -> bool {
        self.state
            .as_ref()
            .is_some_and(|(state, number)| *number >= state.writes)
    }

    pub(super) fn not_read(&mut self, address: OpAddress, len: usize) {
        if let Some(write_table) = &mut self.write_table {
            let blocks = write_table.blocks(address.area_offset, len);
            write_table.not_read(address.area, blocks);
        }
    }

    pub(super) fn is_fatal(&self) -> bool {
        self.blocks.job.verify.is_fatal && self.progress.verify.wrong_blocks.get() > 0
    }
}
