//! Damage that a cold start finds. A store with damage does not open until its owner accepts the losses: a damaged
//! record may have been the newest version of its key, and an older version must not be served in its place.
//!
//! ```text
//! unreadable part of a block:  all records of the block were obsolete -> harmless
//!                              the part was certainly durable (by seals, marks) -> damage
//!                              else -> a crash interrupted its write: logged, and the store opens
//! ```
//!
//! All damaged and incomplete blocks get an empty header once their records are moved. Therefore a later cold start,
//! which may have different evidence, does not judge these blocks again.

use super::Store;
use crate::index::IndexEntry;
use crate::seal::NUMBER_LAST;
use crate::volume::blocks::{Block, BlockState};
use crate::write_block::{FIRST_BYTE, UnreadablePart};
use crate::{Losses, StoreDisk};
use results::format::{Grouped, count};
use std::collections::BTreeSet;

/// Maximum number of damaged blocks of a device that are logged.
const NAMED_MAX: u64 = 20;

/// A block with a valid header, but with an unreadable part or without a complete last piece.
#[derive(Debug, Clone, Default)]
pub(super) struct IncompleteBlock {
    pub(super) block: u32,
    pub(super) sequence: u64,
    /// Start and end of the last intact piece, bytes.
    pub(super) last_seal: u32,
    pub(super) pieces_end: u32,
    pub(super) flaws: Vec<UnreadablePart>,
    pub(super) records: Vec<IndexEntry>,
    /// The part behind the last intact piece.
    pub(super) end: Option<UnreadablePart>,
    /// True if the part behind the last intact piece holds records.
    pub(super) is_torn: bool,
}

/// Result of a volume's cold start.
#[derive(Debug, Clone, Default)]
pub(super) struct DamageVerdict {
    pub(super) losses: Losses,
    /// Blocks that get an empty header.
    blocks_to_renew: BTreeSet<u32>,
}

impl Store {
    /// Judges the suspect blocks of a volume, once all blocks were read.
    pub(super) fn judge(&mut self, number: usize) {
        let Some(mut scan) = self.scan.take() else {
            return;
        };
        let progress = &mut scan.volumes[number];
        let mut verdict = DamageVerdict::default();
        let volume = &self.volumes[number];
        let block_bytes = volume.block_bytes as u32;
        progress.used = progress.used.max(progress.evidence.certain);
        let mut unfinished = Losses::default();
        for suspect in &mut progress.suspects {
            let IncompleteBlock {
                block,
                sequence,
                last_seal,
                ..
            } = *suspect;
            verdict.blocks_to_renew.insert(block);
            if progress.evidence.has_ended(block, sequence) {
                continue;
            }
            self.take_records(&mut std::mem::take(&mut suspect.records));
            let durable = progress.evidence.durable_bytes(sequence, block_bytes);
            let inner = suspect
                .flaws
                .iter()
                .map(|flaw| (*flaw, flaw.at < last_seal.max(durable)));
            let end = suspect
                .end
                .map(|flaw| match durable.saturating_sub(flaw.at) {
                    0 => (flaw, false),
                    bytes => {
                        let sure = UnreadablePart::unsealed(
                            flaw.at as usize,
                            bytes.min(flaw.bytes) as usize,
                        );
                        (
                            UnreadablePart {
                                records: sure.records.max(1),
                                ..sure
                            },
                            true,
                        )
                    }
                });
            // Without records in the part behind the last piece, no write to that part was interrupted.
            let end = end.filter(|(_, is_sure)| *is_sure || suspect.is_torn);
            let mut certain_flaws = Vec::new();
            for (flaw, is_sure) in inner.chain(end) {
                if is_sure {
                    certain_flaws.push(flaw)
                } else {
                    unfinished += Losses {
                        blocks: 1,
                        bytes: flaw.bytes.into(),
                        records: flaw.records.into(),
                    }
                }
            }
            self.add(number, block, &mut verdict.losses, &certain_flaws);
        }
        for block in 0..progress.used {
            let Block { sequence, live, .. } = *self.volumes[number].blocks.get(block);
            // According to seals this use of the block has ended, but newer copies of its records are lost. The block's
            // records are copied before the block is renewed.
            if live > 0 && progress.evidence.has_ended(block, sequence) {
                verdict.blocks_to_renew.insert(block);
            }
            let is_lost = match self.volumes[number].blocks.get(block).state {
                BlockState::Stuck | BlockState::Bad => true,
                BlockState::Pristine if block < progress.evidence.certain => {
                    self.volumes[number].blocks.damaged(block);
                    true
                }
                _ => false,
            };
            if is_lost {
                verdict.blocks_to_renew.insert(block);
                let flaw = UnreadablePart::unsealed(FIRST_BYTE, block_bytes as usize - FIRST_BYTE);
                self.add(
                    number,
                    block,
                    &mut verdict.losses,
                    &[UnreadablePart {
                        at: 0,
                        bytes: block_bytes,
                        ..flaw
                    }],
                );
            }
        }
        let no_marks = progress.mark.is_none() && progress.used > 0;
        let damaged_marks = if no_marks { 2 } else { progress.damaged_marks };
        self.log_findings(number, damaged_marks, &verdict.losses, &unfinished);
        progress.verdict = Some(verdict);
        self.scan = Some(scan);
    }

    fn add(&mut self, number: usize, block: u32, losses: &mut Losses, flaws: &[UnreadablePart]) {
        let Some(first) = flaws.first() else { return };
        let bytes = flaws.iter().map(|flaw| u64::from(flaw.bytes)).sum();
        let records = flaws.iter().map(|flaw| u64::from(flaw.records)).sum();
        *losses += Losses {
            blocks: 1,
            bytes,
            records,
        };
        if losses.blocks <= NAMED_MAX {
            let at = Grouped(first.at.into());
            let bytes = count(bytes, "byte");
            let records = count(records, "record");
            let lost = format!("{bytes} that held up to {records} cannot be read");
            self.remark(
                Some(number),
                format!("write block {block} is damaged from byte {at} on: {lost}"),
            );
        }
    }

    fn log_findings(
        &mut self,
        number: usize,
        damaged_marks: usize,
        losses: &Losses,
        unfinished: &Losses,
    ) {
        if damaged_marks > 0 {
            let why = "are missing or damaged - damage to the last writes cannot be distinguished from a crash";
            self.remark(
                Some(number),
                format!("{damaged_marks} of the 2 end-of-log marks {why}"),
            );
        }
        if losses.blocks > NAMED_MAX {
            let unnamed = count(losses.blocks - NAMED_MAX, "write block");
            self.remark(
                Some(number),
                format!("{unnamed} are damaged but not listed"),
            );
        }
        if losses.blocks > 0 {
            self.remark(Some(number), losses.to_string());
        }
        if unfinished.blocks > 0 {
            let what =
                "the last writes before the store ended are incomplete, as after a power failure";
            let records = count(unfinished.records, "record");
            let bytes = count(unfinished.bytes, "byte");
            self.remark(
                Some(number),
                format!("{what}: up to {records} in {bytes} are missing"),
            );
        }
    }

    /// Losses that keep the store from opening; `None` while devices are read, without losses, or once accepted.
    pub fn damage(&self) -> Option<Losses> {
        let scan = self.scan.as_ref().filter(|scan| !scan.is_accepted)?;
        let mut losses = Losses::default();
        for progress in &scan.volumes {
            losses += progress.verdict.as_ref()?.losses;
        }
        (losses.blocks > 0).then_some(losses)
    }

    /// Opens the store in spite of its [`Self::damage`]. The losses stay in the statistics.
    pub fn accept_losses(&mut self, disk: &mut impl StoreDisk) {
        if let Some(scan) = &mut self.scan {
            scan.is_accepted = true;
        }
        self.drive_scan(disk);
    }

    pub(super) fn start(&mut self, disk: &mut impl StoreDisk) {
        let Some(mut scan) = self.scan.take() else {
            return;
        };
        for (number, progress) in scan.volumes.iter_mut().enumerate() {
            let Some(verdict) = progress.verdict.as_ref().filter(|_| !progress.is_started) else {
                continue;
            };
            progress.is_started = true;
            let volume = &mut self.volumes[number];
            volume.start(
                (progress.mark, progress.damaged_marks),
                &progress.evidence,
                progress.used,
                &verdict.blocks_to_renew,
            );
            if verdict.losses.blocks > 0 {
                volume.accept(verdict.losses);
            }
            let losses = volume.losses();
            if self.version.max(volume.number_max()) >= NUMBER_LAST {
                volume.refuses_writes = true;
                let what = "which only damage can cause - writes are refused - read the records that you need, then erase the device";
                let text = format!(
                    "a record, block or mark has a number of at least {NUMBER_LAST}, {what}"
                );
                self.remark(Some(number), text);
            }
            if losses.blocks > 0 {
                self.remark(Some(number), format!("losses were accepted: {losses}"));
            }
            self.flush_device(number, 0, disk);
        }
        self.scan = Some(scan);
    }
}
