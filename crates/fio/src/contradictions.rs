//! Contradictions among the options of a section, and among the options of a job.

use super::directions::DIRECTIONS;
use super::engine_kind::EngineKind;
use super::job::Job;
use super::options::{Support, find};
use super::priority::PriorityOptions;
use super::rates::RateTarget;
use super::text::{GivenOption, JobSection, Problem};
use super::value::{NumberUnit, Size, number};
use super::verify::method::Method;
use load::rate::Rate;
use results::format;

pub(super) fn check_section(
    section: &JobSection,
    problems: &mut Vec<Problem>,
    warnings: &mut Vec<Problem>,
) {
    if let Some((reads, writes, given)) = both_given(section, "rwmixread", "rwmixwrite")
        && reads.saturating_add(writes) != 100
    {
        let why = "rwmixread and rwmixwrite contradict each other - leave one out";
        problems.push(Problem::new(&given.position, why));
    }
    if let Some((rate, iops, given)) = both_given(section, "rate", "rate_iops")
        && rate > 0
        && iops > 0
    {
        let why = "rate and rate_iops contradict each other - leave one out";
        problems.push(Problem::new(&given.position, why));
    }
    if let Some((direct, buffered, given)) = both_given(section, "direct", "buffered")
        && direct == buffered
    {
        let why =
            "direct and buffered contradict each other: the last one given counts - leave one out";
        warnings.push(Problem::new(&given.position, why));
    }
}

/// Values of two options, and the second option; `None` unless the section has both options.
fn both_given<'s>(
    section: &'s JobSection,
    first_name: &str,
    second_name: &str,
) -> Option<(u64, u64, &'s GivenOption)> {
    let (first, _) = last_number(section, first_name)?;
    let (second, given) = last_number(section, second_name)?;
    Some((first, second, given))
}

/// The last option `name` of the section, and its value; `u64::MAX`: the value is not a number.
fn last_number<'s>(section: &'s JobSection, name: &str) -> Option<(u64, &'s GivenOption)> {
    let given = section.options.iter().rfind(
        |given| matches!(find(&given.name), Some(Support::Known(known)) if known.name == name),
    )?;
    let text = given.value.as_deref().unwrap_or("1");
    Some((number(text, NumberUnit::Plain).unwrap_or(u64::MAX), given))
}

impl Job {
    pub(super) fn check(&self) -> Vec<String> {
        let zones = self.zones;
        let [reads, writes, trims] = self.does;
        let has_rates = self.has_rates();
        let has_log = self.iolog.is_some();
        let thinks = self.think.think_time().is_some();
        let searches = self.target().is_some();
        let writes_alone = writes && !reads && !trims;
        let paces = self.time_based
            || self.loops > 1
            || self.rates.targets != [RateTarget::Unlimited; DIRECTIONS];
        let has_others = paces
            || self.flush.follow_writes()
            || self.flush.at_end
            || zones.is_strided()
            || thinks;
        let can_append = writes_alone
            && matches!(self.size, Some(Size::Bytes(_)))
            && !has_log
            && !self.fills_device;
        let rules = [
            (thinks && has_rates && self.directions().count() > 1)
                .then_some("with rates, flashproof would pause each direction of a job at its own times (thinktime), but fio pauses all directions together - give each direction its own job"),
            (searches && (has_rates || thinks))
                .then_some("latency_target searches for a queue depth, but a rate or thinktime bounds the load instead - leave one of them out"),
            (self.refill_at().is_some() && (has_rates || thinks || searches))
                .then_some("iodepth_low and iodepth_batch_complete_min cannot be combined with a rate, thinktime or latency_target - leave out iodepth_low and iodepth_batch_complete_min, or leave out rate, thinktime and latency_target"),
            (self.waits_for.is_some() && self.stonewall)
                .then_some("wait_for and stonewall contradict each other - leave one out"),
            (has_log && has_others)
                .then_some("read_iolog takes the operations and their times from the log - leave out rates, time_based, loops, thinktime, zonemode and flushes"),
            (!zones.is_strided() && zones.size.or(zones.range).or(zones.skip).is_some())
                .then_some("zonesize, zonerange and zoneskip need zonemode=strided and a zonesize - give both, or leave all of them out"),
            (self.engine == EngineKind::Passthrough && (self.flush.every[2] > 0 || self.priority != PriorityOptions::default()))
                .then_some("ioengine=io_uring_cmd has no page cache and no I/O priorities - leave out sync_file_range, prio and cmdprio"),
            (self.engine == EngineKind::Mapped && self.sync.is_on())
                .then_some("with ioengine=mmap the kernel decides when pages are written back - leave out sync; fsync=1 or direct=1 writes pages back after each operation"),
            (self.files.pre_reads && self.direct)
                .then_some("pre_read fills the page cache, but direct=1 bypasses it - leave one out"),
            (self.files.appends && (!can_append || zones.is_strided()))
                .then_some("with file_append, size is the number of bytes added to the end of each file - give rw=write or rw=randwrite, and size in bytes; leave out zonemode, fill_device and read_iolog"),
        ];
        let broken = rules
            .into_iter()
            .chain([self.steady.check(), self.priority.check()])
            .flatten();
        let mut wrong: Vec<_> = broken.map(str::to_owned).collect();
        let rates = self
            .directions()
            .filter_map(|direction| self.rate(direction))
            .map(Rate::per_sec_f64);
        wrong.extend(rates.filter(|rate| *rate > Rate::MAX_PER_SEC).map(|rate| {
            format!("{} operations per second are more than one per nanosecond, the resolution of flashproof's clock - give a lower rate", format::number(rate))
        }));
        if self.fills_device && (self.random || !writes_alone) {
            wrong.push(
                "fill_device is for sequential writes - give rw=write, or leave fill_device out"
                    .into(),
            );
        }
        let above_rate =
            self.directions()
                .find_map(|of| match (self.rates.min[of], self.rates.targets[of]) {
                    (RateTarget::Iops(min), RateTarget::Iops(rate)) if min > rate => {
                        Some(format!("rate_iops_min={min} is above rate_iops={rate}"))
                    }
                    (RateTarget::Bytes(min), RateTarget::Bytes(rate)) if min > rate => {
                        Some(format!("rate_min={min} is above rate={rate}"))
                    }
                    _ => None,
                });
        wrong.extend(above_rate.map(|what| {
            format!("{what}, so the job would end at its first check - lower the minimum")
        }));
        let uneven = self
            .directions()
            .find(|of| self.align_bytes(*of) != self.sizes[*of].min_bytes());
        wrong.extend(uneven.filter(|_| self.has_map()).map(|direction| {
            let unit = self.sizes[direction].min_bytes();
            format!("ba differs from the smallest bs, {unit} bytes, which is the unit of the random map - leave ba out, or add norandommap")
        }));
        wrong.extend(self.check_verify());
        wrong
    }

    fn check_verify(&self) -> impl Iterator<Item = String> {
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
        // Only random offsets are aligned to ba, and only sequential offsets have a step.
        let align = self.order.align[self.write_size_direction()].filter(|_| self.random);
        let cuts_blocks =
            align.is_some_and(is_unaligned) || is_unaligned(self.order.skip.unsigned_abs());
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
