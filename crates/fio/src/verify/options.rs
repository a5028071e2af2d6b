//! The options of `verify`, contradictions between them, and a check for writers of one run that overwrite each other's
//! blocks, which would look like damage.

use super::super::content::BytePattern;
use super::super::job::{Job, READS, TRIMS, WRITES};
use super::super::text::Problem;
use super::super::thread::JobClone;
use super::method::Method;
use load::choice::with_defaults;
use results::units::greatest_divisor;
use results::units::quoted;
use std::collections::HashMap;
use std::ops::Range;

with_defaults! {
    /// The options of `verify`.
    #[derive(Debug, Clone, PartialEq)]
    pub struct VerifyOptions {
        pub method: Method = Method::None,
        pub pattern: Option<BytePattern> = None,
        /// Bytes of a block, which has its own header.
        pub interval: Option<u64> = None,
        /// True if writes are read back.
        pub reads_back: bool = true,
        /// True if the job writes nothing, and reads the writes of an earlier job.
        pub only: bool = false,
        /// True if the job ends at the first wrong block.
        pub is_fatal: bool = false,
        /// True if wrong blocks are written to files.
        pub dumps: bool = false,
        /// Number of writes after which a batch is read back; 0: all writes are read back at the end.
        pub backlog: u64 = 0,
        /// Number of writes in a batch.
        pub batch: u64 = 0,
        /// True if the state of the writes is saved; `None`: only if the job ends early.
        pub saves_state: Option<bool> = None,
        pub loads_state: bool = false,
    }
}

impl Job {
    /// Turns a write job with `verify_only` into a job that reads the same blocks.
    pub(in super::super) fn apply_verify_only(&mut self) {
        if self.verify.only && self.verifies() && self.does == [false, true, false] {
            self.does = [true, false, false];
            self.sizes.swap(READS, WRITES);
            self.align.swap(READS, WRITES);
            self.distribution.swap(READS, WRITES);
            self.random_pct.swap(READS, WRITES);
            self.rates.swap(READS, WRITES);
        }
    }

    /// True if data is compared.
    pub fn verifies(&self) -> bool {
        self.verify.method.compares()
    }

    /// True if the job checks all its reads.
    pub(in super::super) fn checks_reads(&self) -> bool {
        self.verifies() && self.does == [true, false, false]
    }

    /// True if writes carry blocks of `verify`.
    pub(in super::super) fn writes_blocks(&self) -> bool {
        self.verifies() && self.does[WRITES]
    }

    /// True if the job reads its writes back.
    pub fn reads_back(&self) -> bool {
        self.writes_blocks() && self.verify.reads_back
    }

    /// True if the job reads all its writes back at the end. As in fio, a `time_based` job does not.
    pub fn reads_back_at_end(&self) -> bool {
        self.reads_back() && !self.time_based
    }

    /// True if the job reads before the read-back at its end.
    pub fn reads_meanwhile(&self) -> bool {
        self.does[READS] || self.verify.backlog > 0
    }

    /// Direction whose sizes the writes have: a write after a trim has the size of the trim.
    pub(in super::super) fn write_size_direction(&self) -> usize {
        if self.trim_write { TRIMS } else { WRITES }
    }

    /// Greatest common divisor of all sizes of the job's writes, or of its reads if there are no writes.
    pub(in super::super) fn size_divisor(&self) -> u64 {
        let sizes = &self.sizes[if self.does[WRITES] {
            self.write_size_direction()
        } else {
            READS
        }];
        sizes
            .each()
            .into_iter()
            .fold(sizes.min_bytes(), greatest_divisor)
    }

    /// Bytes of a block, which has its own header. As in fio, the size of each operation is a multiple of this size.
    pub(in super::super) fn block_bytes(&self) -> u64 {
        let grain = self.size_divisor();
        self.verify
            .interval
            .filter(|interval| grain.is_multiple_of(*interval))
            .unwrap_or(grain)
    }

    /// Finds contradictions among the options of `verify`.
    pub(in super::super) fn check_verify(&self) -> impl Iterator<Item = String> {
        let verify = &self.verify;
        let name = self.verify.method.name();
        let grain = self.size_divisor();
        let block = self.block_bytes();
        let head = verify.method.head_bytes();
        let has_pattern = matches!(verify.method, Method::Pattern | Method::PatternHeader);
        let is_of_one_size = |of: usize| self.sizes[of].min_bytes() == self.sizes[of].max_bytes();
        let has_offsets = verify
            .pattern
            .as_ref()
            .is_some_and(|pattern| !pattern.offsets.is_empty());
        let is_unaligned = |bytes: u64| !bytes.is_multiple_of(grain);
        let cuts_blocks = self.align[self.write_size_direction()].is_some_and(is_unaligned)
            || is_unaligned(self.skip.unsigned_abs());
        let rules = [
            (self.iolog.is_some() || self.zones.is_strided())
                .then(|| "verify tracks writes by their offset in one fixed range - leave out read_iolog and zonemode=strided, or leave out verify".into()),
            (verify.only && !self.checks_reads())
                .then(|| "verify_only reads back the writes of an earlier job - give rw=write or rw=randwrite like that job, or rw=read".into()),
            (has_pattern && verify.pattern.is_none())
                .then(|| "verify=pattern needs a pattern to compare with - give verify_pattern".into()),
            (block <= head)
                .then(|| format!("a block of {block} bytes does not hold the {head} bytes of the header of verify={name} - raise bs or verify_interval")),
            (has_offsets && !self.directions().all(is_of_one_size))
                .then(|| "verify_pattern with %o has the offset of the operation, which is unknown at the read-back if operations have several sizes - give a single bs".into()),
            (self.reads_back() && self.has_rates())
                .then(|| "the read-back of verify has no rate, so it cannot follow writes with a rate - give do_verify=0, and verify in a later job with stonewall, verify_only=1 and no rate".into()),
            (self.reads_back() && cuts_blocks)
                .then(|| format!("ba, or the step after the colon of rw, is not a multiple of {grain} bytes, so writes would overwrite parts of verified blocks - give a multiple of {grain}")),
        ];
        rules
            .into_iter()
            .flatten()
            .filter(|_: &String| self.verifies())
    }
}

/// The first job of `threads` that overwrites blocks of another job.
pub(in super::super) fn overlapping(threads: &[JobClone]) -> Option<Problem> {
    if !threads.iter().any(|thread| thread.job.reads_back()) {
        return None;
    }
    let mut writers: HashMap<String, Vec<(Range<u64>, &JobClone)>> = HashMap::new();
    for thread in threads.iter().filter(|thread| thread.job.writes()) {
        let range = range(thread);
        for name in thread.names() {
            let of_name = writers.entry(name.clone()).or_default();
            let overlapping = of_name.iter().find(|(other_range, writer)| {
                let overlaps = other_range.start < range.end && range.start < other_range.end;
                overlaps && (writer.job.reads_back() || thread.job.reads_back())
            });
            if let Some((_, writer)) = overlapping {
                let writer_name = quoted(&writer.job.name);
                let name = quoted(&name);
                let note = thread.job.io_size.map_or(
                    "",
                    |_| "; io_size limits the number of bytes, not the range",
                );
                let what = format!(
                    "the job and job {writer_name} write to the same range of {name}, so each would read back blocks of the other{note} - give each job its own range (offset, offset_increment and size) or its own file"
                );
                return Some(Problem::of_job(&thread.job.name, what));
            }
            of_name.push((range.clone(), thread));
        }
    }
    None
}

/// Byte range that a clone uses of each of its files, as far as known before the files are opened.
fn range(thread: &JobClone) -> Range<u64> {
    let start = thread.start_bytes();
    let part = start
        .zip(thread.part_bytes())
        .filter(|_| !thread.job.zones.is_strided());
    start.unwrap_or(0)..part.map_or(u64::MAX, |(start, bytes)| start.saturating_add(bytes))
}
