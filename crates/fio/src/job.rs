//! A job: the option values of its section and of the global sections before it.

use super::NS_PER_SEC;
use super::closed_loop::{LatencyTargetOptions, RefillOptions, ThinkTime, ThinkTimeOptions};
use super::content::ContentOptions;
use super::directions::{COMMITS, DIRECTIONS, FLUSHES, READS, TRIMS, WRITES};
use super::early_end::SteadyOptions;
use super::engine_kind::EngineKind;
use super::exit::ExitOptions;
use super::files::FileOptions;
use super::flush::FlushOptions;
use super::iolog::{Iolog, ReplayOptions};
use super::parse::ReadWrite;
use super::pattern::{Distribution, OrderOptions, Sizes};
use super::priority::PriorityOptions;
use super::rates::{RateOptions, RateTarget};
use super::samples::LogOptions;
use super::value::Size;
use super::verify::options::VerifyOptions;
use super::zones::ZoneOptions;
use load::choice::with_defaults;
use load::rate::Rate;
use load::schedule::Pauses;
use results::cell::Arrivals;
use results::format::greatest_divisor;
use std::sync::Arc;
use sys::op::WriteSync;
use sys::random::Random;

/// Maximum number of clones of a job, and of all jobs together.
pub(super) const JOBS_MAX: u64 = 4_096;

/// Maximum queue depth of a job: the capacity of a ring.
pub(super) const DEPTH_MAX: u64 = 32_768;

const PERCENTILES: [f64; 17] = [
    1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95,
    99.99,
];

/// Seed of a job that makes the same random choices in each run.
const REPEATED_SEED: u64 = 0x89;

/// Maximum duration of a job without a runtime, seconds. A run needs free space for the records of this time, but ends
/// as soon as its jobs have ended.
const UNTIL_DONE_SEC: u64 = 2 * 86_400;

/// A commit: the operations from the issue of its first write to the return of its last sync.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommitParts {
    /// Writes before the sync.
    pub writes: u64,
    /// True if a write at the start of the file and one more sync follow.
    pub has_meta: bool,
}

impl CommitParts {
    /// True if the commit is one write, alone or with one sync.
    pub(super) fn is_plain(self) -> bool {
        self == Self {
            writes: 1,
            has_meta: false,
        }
    }
}

with_defaults! {
    /// A job with the values of all options. Options that were not given have fio's defaults.
    #[derive(Debug, Clone)]
    pub struct Job {
        pub name: String = String::new(),
        /// Name of the section, for the default device and files: as in fio, the option `name` changes only the reports.
        pub section: String = String::new(),
        pub description: String = String::new(),
        /// True for each direction that the job does.
        pub does: [bool; DIRECTIONS] = [true, false, false],
        /// True if each trim is followed by a write of the same range.
        pub trim_write: bool = false,
        pub random: bool = false,
        /// Percent of reads among reads and writes.
        pub read_pct: u64 = 50,
        pub files: FileOptions = FileOptions::default(),
        pub sizes: [Sizes; DIRECTIONS] = std::array::from_fn(|_| Sizes::same(4096)),
        pub order: OrderOptions = OrderOptions::default(),
        /// Bytes used of each device or file.
        pub size: Option<Size> = None,
        /// Offset of the first byte used.
        pub offset: Size = Size::Bytes(0),
        /// Increment of `offset` for each further clone.
        pub offset_increment: Size = Size::Bytes(0),
        pub io_size: Option<Size> = None,
        pub number_ios: Option<u64> = None,
        pub loops: u64 = 1,
        pub rates: RateOptions = RateOptions::default(),
        pub depth: u64 = 1,
        /// `ioengine` as given.
        pub ioengine: Option<String> = None,
        pub engine: EngineKind = EngineKind::Queued,
        /// True if the pages of each mapped operation are written back at once.
        pub syncs_mapped: bool = false,
        /// CPUs of the issuing threads; empty: any.
        pub cpus: Vec<u32> = Vec::new(),
        /// True if each clone gets one of the CPUs.
        pub splits_cpus: bool = false,
        pub numjobs: u64 = 1,
        pub runtime_ns: Option<u64> = None,
        /// True if the job repeats until its runtime is over.
        pub time_based: bool = false,
        pub ramp_ns: u64 = 0,
        pub direct: bool = false,
        /// Minimum time between the operations of a closed loop with a depth of 1; 0: none. Not an option of fio.
        pub pace_ns: u64 = 0,
        pub sync: WriteSync = WriteSync::No,
        pub flush: FlushOptions = FlushOptions::default(),
        /// The commits of the job; `None`: they are not counted. Not an option of fio.
        pub commit: Option<CommitParts> = None,
        /// True if the latencies of reads that return only zeros are counted apart. Not an option of fio.
        pub counts_zeros: bool = false,
        pub content: ContentOptions = ContentOptions::default(),
        pub verify: VerifyOptions = VerifyOptions::default(),
        /// True if each run makes the same random choices.
        pub randrepeat: bool = true,
        pub randseed: Option<u64> = None,
        pub think: ThinkTimeOptions = ThinkTimeOptions::default(),
        pub latency_target: LatencyTargetOptions = LatencyTargetOptions::default(),
        /// Maximum latency of each direction: a slower operation ends the job.
        pub latency_max_ns: [u64; DIRECTIONS] = [u64::MAX; DIRECTIONS],
        pub start_delay_ns: u64 = 0,
        pub exit: ExitOptions = ExitOptions::default(),
        /// True if the job writes until the device is full.
        pub fills_device: bool = false,
        /// True if the job is reported together with the other jobs of its group.
        pub group_reporting: bool = false,
        /// True if the job waits until earlier jobs have ended.
        pub stonewall: bool = false,
        /// True if the job begins a group.
        pub new_group: bool = false,
        /// For completion latency and for total latency: true if percentiles are reported.
        pub percentiles_of: [bool; 2] = [true, false],
        pub percentiles: Vec<f64> = PERCENTILES.to_vec(),
        pub log: LogOptions = LogOptions::default(),
        /// Value of the suffix `k`.
        pub kb_base: u64 = 1024,
        pub refill: RefillOptions = RefillOptions::default(),
        pub steady: SteadyOptions = SteadyOptions::default(),
        pub zones: ZoneOptions = ZoneOptions::default(),
        pub priority: PriorityOptions = PriorityOptions::default(),
        pub replay: ReplayOptions = ReplayOptions::default(),
        /// The operations, if the job replays a log.
        pub iolog: Option<Arc<Iolog>> = None,
        /// File for a log of the operations.
        pub write_iolog: Option<String> = None,
        /// True if an earlier job writes its operations to a file of this name, so that this job's files are numbered.
        pub numbers_iolog: bool = false,
        /// Name of the jobs that must end before this job begins.
        pub waits_for: Option<String> = None,
        /// Options as given in the job's own section.
        pub given_options: Vec<(String, String)> = Vec::new(),
    }
}

impl Job {
    pub fn rw(&self) -> String {
        let kinds = match self.does {
            [true, true, _] => "rw",
            [_, true, true] => "trimwrite",
            [true, ..] => "read",
            [_, true, _] => "write",
            _ => "trim",
        };
        format!("{}{kinds}", if self.random { "rand" } else { "" })
    }

    /// End of the ramp time that the job asks for, nanoseconds of its run; 0: no ramp time.
    pub fn ramp_end_ns(&self) -> u64 {
        if self.ramp_ns > 0 {
            self.start_delay_ns.saturating_add(self.ramp_ns)
        } else {
            0
        }
    }

    /// Start of the job, nanoseconds after the ramp time.
    pub fn from_ns(&self) -> u64 {
        self.start_delay_ns.saturating_sub(self.ramp_end_ns())
    }

    /// Latest end of the job, nanoseconds of its run.
    pub(super) fn end_ns(&self) -> u64 {
        let runtime_ns = self.runtime_ns.unwrap_or(UNTIL_DONE_SEC * NS_PER_SEC);
        self.start_delay_ns
            .saturating_add(self.ramp_ns)
            .saturating_add(runtime_ns)
    }

    pub(super) fn seed(&self) -> Option<u64> {
        self.randseed.or(self.randrepeat.then_some(REPEATED_SEED))
    }

    pub fn writes(&self) -> bool {
        self.does[WRITES] || self.does[TRIMS]
    }

    pub(super) fn moves_data(&self) -> bool {
        self.does[READS] || self.does[WRITES]
    }

    pub fn has_kind(&self, kind: usize) -> bool {
        match kind {
            FLUSHES if self.iolog.is_some() => self
                .iolog
                .as_ref()
                .is_some_and(|log| log.of_kind(FLUSHES).0 > 0),
            FLUSHES => {
                (self.flush.follow_writes() || self.flush.at_end || self.reads_back())
                    && self.does[WRITES]
            }
            COMMITS => self.commit.is_some(),
            READS => self.does[READS] || self.reads_back(),
            direction => self.does[direction],
        }
    }

    /// `None` for a closed loop.
    pub(super) fn iops(&self, kind: usize) -> Option<f64> {
        if let Some(log) = &self.iolog {
            return log.iops(kind);
        }
        // Flushes after writes have no separate rate.
        if kind == FLUSHES {
            return None;
        }
        let direction = match kind {
            COMMITS => WRITES,
            _ if self.trim_write => TRIMS,
            _ => kind,
        };
        let mut iops = self.rate(direction)?.per_sec_f64();
        if kind == WRITES {
            iops *= self.writes_per_commit() as f64;
        }
        let Some(Pauses {
            pause_ns,
            ops,
            work_ns,
            delays_rest,
        }) = self.rate_pauses()
        else {
            return Some(iops);
        };
        let pause = pause_ns as f64 / 1e9;
        // Operations between two pauses: the limit that is reached first.
        let ops_of_work = if work_ns > 0 {
            (work_ns as f64 * iops / 1e9).ceil()
        } else {
            f64::INFINITY
        };
        let cycle_ops = if ops > 0 {
            ops_of_work.min(ops as f64)
        } else {
            ops_of_work
        };
        Some(match (delays_rest, ops) {
            (true, _) => cycle_ops / (cycle_ops / iops + pause),
            // After a pause the job catches up, but begins at most `ops` operations before the next pause.
            (false, 1..) => iops.min(ops as f64 / pause),
            (false, 0) => iops,
        })
    }

    /// Writes of each commit, or of each arrival of a job without commits.
    pub(super) fn writes_per_commit(&self) -> u64 {
        self.commit
            .map_or(1, |commit| commit.writes + u64::from(commit.has_meta))
    }

    pub(super) fn arrivals(&self, kind: usize) -> Arrivals {
        match self.iops(kind) {
            None => Arrivals::Unknown,
            Some(_) if self.iolog.is_some() || self.trim_write || self.rate_pauses().is_some() => {
                Arrivals::Given
            }
            Some(_) if kind == WRITES && self.commit.is_some_and(|commit| !commit.is_plain()) => {
                Arrivals::Given
            }
            Some(_) if self.rates.poisson => Arrivals::Random,
            Some(_) => Arrivals::Even,
        }
    }

    /// Operations per second of a direction; `None` if unlimited.
    pub(super) fn rate(&self, direction: usize) -> Option<Rate> {
        self.rates.targets[direction].rate(self.sizes[direction].mean_bytes())
    }

    /// Alignment of random offsets of a direction, bytes.
    pub(super) fn align_bytes(&self, direction: usize) -> u64 {
        self.order.align[direction].unwrap_or_else(|| self.sizes[direction].min_bytes())
    }

    pub fn in_flight_max(&self) -> u64 {
        match self.think_time() {
            _ if self.engine.is_synchronous() => 1,
            Some(think) if think.blocks > 0 => self.depth.min(think.blocks),
            _ => self.depth,
        }
    }

    pub fn think_time(&self) -> Option<ThinkTime> {
        self.think.think_time().filter(|_| !self.has_rates())
    }

    pub(super) fn rate_pauses(&self) -> Option<Pauses> {
        let ThinkTime {
            pause_ns,
            blocks,
            work_ns,
        } = self.think.think_time().filter(|_| self.has_rates())?;
        Some(Pauses {
            pause_ns,
            ops: blocks,
            work_ns,
            delays_rest: self.rates.ignores_thinktime,
        })
    }

    /// Operations in flight at which a full queue is refilled; `None`: each completion is replaced at once.
    pub(super) fn refill_at(&self) -> Option<u32> {
        self.refill.refill_at(self.in_flight_max())
    }

    /// `None` unless the job searches for a depth.
    pub fn target(&self) -> Option<LatencyTargetOptions> {
        Some(self.latency_target).filter(|target| target.latency_ns > 0)
    }

    pub fn has_rates(&self) -> bool {
        let is_timed = self.iolog.as_ref().is_some_and(|log| !log.at_ns.is_empty());
        is_timed
            || self
                .directions()
                .any(|direction| self.rates.targets[direction] != RateTarget::Unlimited)
    }

    /// Directions that the job does: reads (0), writes (1), trims (2).
    pub fn directions(&self) -> impl Iterator<Item = usize> + Clone + use<> {
        let does = self.does;
        (0..DIRECTIONS).filter(move |direction| does[*direction])
    }

    pub(super) fn written_max_bytes(&self) -> u64 {
        self.sizes[self.write_size_direction()].max_bytes()
    }

    /// With rates, one lane for each direction; otherwise one lane for all. Writes that follow trims have no lane.
    pub(super) fn lanes(&self) -> Vec<Vec<usize>> {
        if self.trim_write {
            vec![vec![TRIMS]]
        } else if self.has_rates() && self.iolog.is_none() {
            self.directions().map(|direction| vec![direction]).collect()
        } else {
            vec![self.directions().collect()]
        }
    }

    /// Bytes of the smallest operation, which is the unit of the random map and of `size`.
    pub fn unit_bytes(&self) -> u64 {
        self.directions()
            .map(|direction| self.sizes[direction].min_bytes())
            .min()
            .unwrap_or(4096)
    }

    /// Largest buffer of an operation, bytes. A trim has no buffer.
    pub fn buffer_bytes(&self) -> u64 {
        let sizes = self
            .directions()
            .filter(|direction| *direction != TRIMS || self.trim_write);
        sizes
            .map(|direction| self.sizes[direction].max_bytes())
            .max()
            .unwrap_or(0)
    }

    pub fn largest_bytes(&self) -> u64 {
        self.directions()
            .map(|direction| self.sizes[direction].max_bytes())
            .max()
            .unwrap_or(0)
    }

    /// Operations of a clone, if the options determine them: a single size, no additional operations, no time limit.
    pub fn operations(&self) -> Option<u64> {
        let unit = self.unit_bytes();
        let largest = self.largest_bytes();
        let Some(Size::Bytes(bytes)) = self.io_size.or(self.size) else {
            return None;
        };
        let has_others = self.flush.follow_writes()
            || self.flush.at_end
            || self.trim_write
            || self.reads_back()
            || self.files.sizes.is_some()
            || self.order.skip != 0;
        if self.runtime_ns.is_some() || self.time_based || unit != largest || has_others {
            return None;
        }
        let once = (bytes / unit.max(1)).min(self.number_ios.unwrap_or(u64::MAX));
        Some(once.saturating_mul(self.loops))
    }

    /// Bytes of a sequence with steps in a range of `len` bytes that begins `room` bytes before the end of the device
    /// or file. As in fio, the sequence ends where the next operation does not fit. `None` if a step leads to the end
    /// of the device or file or beyond: the sequence then begins again, and has `len` bytes.
    pub(super) fn stepped_bytes(&self, len: u64, room: u64) -> Option<u64> {
        let unit = self.unit_bytes();
        let skip = u64::try_from(self.order.skip)
            .ok()
            .filter(|skip| *skip > 0)?;
        let step = unit
            .checked_add(skip)
            .filter(|_| unit == self.largest_bytes())?;
        let ops = len.checked_sub(unit)? / step + 1;
        (ops.saturating_mul(step) < room).then_some(ops * unit)
    }

    /// True if each block is visited once before any is visited again.
    pub fn has_map(&self) -> bool {
        let uniform = self
            .directions()
            .all(|direction| self.order.distribution[direction] == Distribution::Uniform);
        self.random && (!self.order.norandommap || self.order.lfsr) && uniform
    }

    /// True if `directions` share one map: a block visited in any of these directions counts as visited.
    pub(super) fn shares_map(&self, directions: &[usize]) -> bool {
        let unit = |direction: usize| self.sizes[direction].min_bytes();
        directions
            .iter()
            .all(|direction| unit(*direction) == unit(directions[0]))
    }

    /// Size of the job's new files: drawn once from the range of `filesize`, in whole operations.
    pub(super) fn file_bytes(&self) -> Option<u64> {
        let [min, max] = self.files.sizes?;
        let drawn = min
            + Random::new(self.seed().unwrap_or(REPEATED_SEED))
                .below((max - min).saturating_add(1));
        Some((drawn / self.unit_bytes() * self.unit_bytes()).max(min))
    }

    /// Names of the targets of the clone `number`.
    pub fn names(&self, number: u64) -> Vec<String> {
        let own = (0..self.files.count).map(|file| {
            let of_job = self.files.name_format.replace("$jobname", &self.section);
            of_job
                .replace("$jobnum", &number.to_string())
                .replace("$filenum", &file.to_string())
        });
        if self.engine == EngineKind::Null {
            return (0..self.files.count)
                .map(|file| self.null_drive(number, file))
                .collect();
        }
        if let Some(log) = &self.iolog {
            return log.files.clone();
        }
        let directories = &self.files.directories;
        let mut directory = directories.first();
        let mut names = self.files.names.clone();
        if names.is_empty() {
            names = own.collect();
            directory = directories.iter().cycle().nth(number as usize);
        }
        names
            .into_iter()
            .map(|name| {
                let is_absolute =
                    name.starts_with('/') || name.starts_with(engine::sim::SIM_PREFIX);
                match directory {
                    Some(directory) if !is_absolute => {
                        format!("{}/{name}", directory.trim_end_matches('/'))
                    }
                    _ => name,
                }
            })
            .collect()
    }

    /// Replaces all options that determine the operations.
    pub(super) fn replay_log(&mut self, log: Iolog) {
        for direction in 0..DIRECTIONS {
            let (count, bytes) = log.of_kind(direction);
            (self.does[direction], self.sizes[direction]) = (count > 0, Sizes::same(bytes.max(1)));
        }
        (self.random, self.trim_write, self.fills_device) = (false, false, false);
        (self.size, self.io_size, self.files.sizes, self.offset) =
            (None, None, None, Size::Bytes(0));
        (self.offset_increment, self.order.skip, self.number_ios) = (Size::Bytes(0), 0, None);
        if self.engine == EngineKind::Null {
            self.files.count = log.files.len() as u64
        } else {
            // Clones share the files of the log.
            self.files.names = log.files.clone()
        }
        self.iolog = Some(Arc::new(log));
    }

    /// A simulated drive that answers each operation after a microsecond.
    fn null_drive(&self, clone: u64, file: u64) -> String {
        let name: String = self
            .section
            .chars()
            .filter(char::is_ascii_alphanumeric)
            .collect();
        let bytes = match self.size.or(self.file_bytes().map(Size::Bytes)) {
            Some(Size::Bytes(bytes)) => bytes
                .saturating_add(self.offset.bytes_of(0))
                .clamp(1 << 20, 1 << 50),
            _ => 1 << 40,
        };
        let speed = "channels=4096+read-us=1+write-us=1+jitter-pct=0+read-mbps=0+write-mbps=0";
        format!(
            "{}name=null-{name}-{clone}-{file}+capacity={bytes}+{speed}",
            engine::sim::SIM_PREFIX
        )
    }

    pub fn verifies(&self) -> bool {
        self.verify.method.compares()
    }

    pub(super) fn checks_reads(&self) -> bool {
        self.verifies() && self.does == [true, false, false]
    }

    /// True if writes carry blocks of `verify`.
    pub(super) fn writes_blocks(&self) -> bool {
        self.verifies() && self.does[WRITES]
    }

    pub fn reads_back(&self) -> bool {
        self.writes_blocks() && self.verify.reads_back
    }

    /// True if the job reads all its writes back at the end. A `time_based` job does not, as with fio's synchronous
    /// engines; with asynchronous engines, fio reads back after each pass over `size`.
    pub fn reads_back_at_end(&self) -> bool {
        self.reads_back() && !self.time_based
    }

    /// True if the job reads before the read-back at its end.
    pub fn reads_meanwhile(&self) -> bool {
        self.does[READS] || self.verify.backlog > 0
    }

    /// Direction whose sizes the writes have: a write after a trim has the size of the trim.
    pub(super) fn write_size_direction(&self) -> usize {
        if self.trim_write { TRIMS } else { WRITES }
    }

    /// Greatest common divisor of all sizes of the job's writes, or of its reads if there are no writes.
    pub(super) fn size_divisor(&self) -> u64 {
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

    /// Bytes of a verified block. As in fio, the size of each operation is a multiple of this size.
    pub(super) fn block_bytes(&self) -> u64 {
        let grain = self.size_divisor();
        self.verify
            .interval
            .filter(|interval| grain.is_multiple_of(*interval))
            .unwrap_or(grain)
    }

    pub(super) fn set_read_write(&mut self, given: ReadWrite) {
        (self.does, self.random, self.trim_write) = (given.does, given.random, given.trim_write);
        (self.order.skip, self.order.run_length) = (given.skip, given.run_length);
    }
}
