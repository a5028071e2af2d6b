//! The options of `verify` and of the contents of writes.

use super::super::content::DedupeMode;
use super::super::filler::Filler;
use super::super::job::{Job, READS, TRIMS, WRITES};
use super::super::parse::word;
use super::super::value::{Unit, number};
use super::method::Method;
use crate::choice::with_defaults;
use results::units::greatest_divisor;

with_defaults! {
    /// The options of `verify`.
    #[derive(Debug, Clone, PartialEq)]
    pub struct VerifyOptions {
        pub method: Method = Method::None,
        pub pattern: Option<Filler> = None,
        /// Bytes of a block with a header of its own.
        pub interval: Option<u64> = None,
        /// Byte of a block at which its header is.
        pub header_at: u64 = 0,
        /// True if writes are read back.
        pub reads_back: bool = true,
        /// True if nothing is written, but what an earlier job wrote is read.
        pub only: bool = false,
        /// True if the job ends at the first wrong block.
        pub is_fatal: bool = false,
        /// True if wrong blocks are written to files.
        pub dumps: bool = false,
        /// Writes after which some are read back; 0: at the end.
        pub backlog: u64 = 0,
        /// How many; 0: as many.
        pub batch: u64 = 0,
        /// True if the state of the writes is saved; `None`: if they were ended early.
        pub saves_state: Option<bool> = None,
        pub loads_state: bool = false,
    }
}

impl Job {
    /// Sets an option of `verify` or of the contents of writes. False if `name` is none.
    pub(in super::super) fn set_verify(&mut self, name: &str, text: &str) -> Result<bool, String> {
        let kilo = Unit::Kilo(self.kb_base);
        let yes = || match number(text, Unit::Plain)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err("it is 0 or 1".to_owned()),
        };
        let count = |most: u64| match number(text, kilo)? {
            value if value > most => Err(format!("it is more than {most}")),
            value => Ok(value),
        };
        let (verify, content) = (&mut self.verify, &mut self.content);
        match name {
            "verify" => verify.method = Method::parse(text)?,
            "verify_pattern" => {
                verify.pattern = Some(Filler::parse(text, true)?);
                if verify.method == Method::None {
                    verify.method = Method::PatternHeader;
                }
            }
            "verify_interval" => verify.interval = Some(count(1 << 30)?).filter(|bytes| *bytes > 0),
            "verify_offset" => verify.header_at = count(1 << 30)?,
            "do_verify" => verify.reads_back = yes()?,
            "verify_only" => verify.only = yes()?,
            "verify_fatal" => verify.is_fatal = yes()?,
            "verify_dump" => verify.dumps = yes()?,
            "verify_backlog" => verify.backlog = count(1 << 24)?,
            "verify_backlog_batch" => verify.batch = count(1 << 24)?,
            "verify_state_save" => verify.saves_state = Some(yes()?),
            "verify_state_load" => verify.loads_state = yes()?,
            "zero_buffers" => (content.zeros, content.pattern) = (yes()?, None),
            "buffer_pattern" => (content.zeros, content.pattern) = (false, Some(Filler::parse(text, false)?)),
            "buffer_compress_percentage" => content.compress_pct = count(100)?,
            "buffer_compress_chunk" => content.chunk_bytes = count(1 << 30)?,
            "dedupe_percentage" => content.dedupe_pct = count(100)?,
            "dedupe_mode" => {
                word(text, &["repeat", "working_set"])?;
                content.dedupe_mode = if text == "repeat" { DedupeMode::Repeat } else { DedupeMode::WorkingSet };
            }
            "dedupe_working_set_percentage" => content.working_set_pct = count(100)?,
            "dedupe_global" => content.dedupe_global = yes()?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Makes a job that only verifies one that reads what it would have written.
    pub(in super::super) fn apply_verify_only(&mut self) {
        if self.verify.only && self.verifies() && self.does == [false, true, false] {
            self.does = [true, false, false];
            self.sizes.swap(READS, WRITES);
            self.align.swap(READS, WRITES);
            self.distribution.swap(READS, WRITES);
            self.random_pct.swap(READS, WRITES);
            self.wanted.swap(READS, WRITES);
        }
    }

    /// True if data is compared.
    pub fn verifies(&self) -> bool {
        self.verify.method.compares()
    }

    /// True if all that is read is checked.
    pub(in super::super) fn checks_reads(&self) -> bool {
        self.verifies() && self.does == [true, false, false]
    }

    /// True if writes carry blocks of `verify`.
    pub(in super::super) fn writes_blocks(&self) -> bool {
        self.verifies() && self.does[WRITES]
    }

    /// True if what was written is read back.
    pub fn reads_back(&self) -> bool {
        self.writes_blocks() && self.verify.reads_back
    }

    /// True if all that was written is read back at the end. As in fio not if its runtime ends the job.
    pub(in super::super) fn reads_back_at_end(&self) -> bool {
        self.reads_back() && !self.time_based
    }

    /// Kind whose sizes its writes have: those behind a trim have the size of the trim.
    pub(in super::super) fn written_as(&self) -> usize {
        if self.trim_write { TRIMS } else { WRITES }
    }

    /// The largest divisor of all sizes of its writes, or of its reads if it has none.
    pub(in super::super) fn grain(&self) -> u64 {
        let sizes = &self.sizes[if self.does[WRITES] { self.written_as() } else { READS }];
        sizes.each().into_iter().fold(sizes.min_bytes(), greatest_divisor)
    }

    /// Bytes of a block with a header of its own. As in fio each operation is a multiple.
    pub(in super::super) fn block_bytes(&self) -> u64 {
        let grain = self.grain();
        self.verify.interval.filter(|interval| grain.is_multiple_of(*interval)).unwrap_or(grain)
    }

    /// Finds contradictions among the options of `verify`.
    pub(in super::super) fn check_verify(&self, wrong: &mut Vec<String>) {
        let verify = &self.verify;
        if !self.verifies() {
            return;
        }
        if self.iolog.is_some() || self.zones.strided {
            wrong.push(
                "verify knows what a job wrote by its place in one range - leave out read_iolog and zones, or verify"
                    .into(),
            );
        }
        let (grain, block) = (self.grain(), self.block_bytes());
        let head = verify.method.head_bytes();
        if verify.only && !self.checks_reads() {
            wrong.push("verify_only reads what rw=write or rw=randwrite wrote - give one of these, or rw=read".into());
        }
        if matches!(verify.method, Method::Pattern | Method::PatternHeader) && verify.pattern.is_none() {
            wrong.push("verify=pattern compares with verify_pattern - give it".into());
        }
        if block <= head {
            wrong.push(format!(
                "a block of {block} bytes does not hold the {head} bytes of the header of verify={} - raise bs or verify_interval",
                verify.method.name()
            ));
        }
        if verify.header_at > 0 && (verify.header_at < head || verify.header_at + head > block) {
            wrong.push(format!(
                "verify_offset is from {head}, the bytes of a header, to {}, so that the header fits into a block of {block} bytes",
                block.saturating_sub(head)
            ));
        }
        let is_of_one_size = |sizes: &super::super::pattern::Sizes| sizes.min_bytes() == sizes.max_bytes();
        let has_offsets = verify.pattern.as_ref().is_some_and(Filler::has_offsets);
        if has_offsets && !self.directions().all(|direction| is_of_one_size(&self.sizes[direction])) {
            wrong.push("verify_pattern with %o is the offset of an operation, which is not known again when they have several sizes - give one bs".into());
        }
        if !self.reads_back() {
            return;
        }
        if self.has_rates() {
            wrong.push("what is read back has no rate, and cannot follow writes that have one - give do_verify=0, and a job behind it with stonewall, verify_only=1 and no rate".into());
        }
        let strays = |bytes: u64| !bytes.is_multiple_of(grain);
        if self.align[self.written_as()].is_some_and(strays) || strays(self.skip.unsigned_abs()) {
            wrong.push(format!(
                "ba, or what rw skips, is no multiple of {grain}, so that writes would cover parts of blocks that are to be verified - make it one"
            ));
        }
    }
}
