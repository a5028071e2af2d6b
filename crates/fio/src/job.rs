//! A job: the option values of its section and of the global sections before it.

use super::NS_PER_SEC;
use super::offsets::ZoneOptions;
use super::closed_loop::{LatencyTarget, ThinkTime};
use super::content::ContentOptions;
use super::early_end::SteadyOptions;
use super::iolog::{Iolog, ReplayOptions};
use super::pattern::{Distribution, Sizes};
use super::priority::PriorityOptions;
use super::text::{COMMAND_LINE, ParseContext, Problem, Section};
use super::value::Size;
use super::verify::{Method, VerifyOptions};
use load::choice::with_defaults;
use load::rate::Rate;
use load::schedule::Pauses;
use results::cell::Arrivals;
use results::units;
use std::sync::Arc;
use sys::op::{OpKind, WriteBack, WriteSync};
use sys::random::Random;

/// Maximum number of clones of a job, and of all jobs together.
pub(super) const JOBS_MAX: u64 = 4_096;

/// Maximum queue depth of a job: the capacity of a ring.
pub(super) const DEPTH_MAX: u64 = 32_768;

/// Percentiles that a report has by default.
const PERCENTILES: [f64; 17] = [
    1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95,
    99.99,
];

/// Seed of a job that makes the same random choices in each run.
const REPEATED_SEED: u64 = 0x89;

/// Maximum duration of a run without a runtime, seconds: space for its records is reserved. The run ends earlier if its
/// jobs have ended.
const UNTIL_DONE_SEC: u64 = 2 * 86_400;

/// Reads, writes, trims.
pub(super) const DIRECTIONS: usize = 3;

/// Indices of the directions.
pub const READS: usize = 0;
pub(super) const WRITES: usize = 1;
pub(super) const TRIMS: usize = 2;

/// Kinds of operations that are counted separately: the directions, and flushes.
pub const KINDS: usize = DIRECTIONS + 1;

/// Index of flushes, after the directions.
pub const FLUSHES: usize = DIRECTIONS;

/// Index of commits, after the operations: a commit is a write and its sync, which are counted separately as well.
pub(super) const COMMITS: usize = KINDS;

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

/// The operation of each kind.
pub(super) const KIND_OF: [OpKind; KINDS] = [
    OpKind::Read,
    OpKind::Write,
    OpKind::Deallocate,
    OpKind::Flush,
];

/// The direction of an operation, or [`FLUSHES`].
#[inline]
pub(super) fn kind_number(kind: OpKind) -> usize {
    match kind {
        OpKind::Read => READS,
        OpKind::Write => WRITES,
        OpKind::Deallocate => TRIMS,
        _ => FLUSHES,
    }
}

/// Rate target of a direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RateTarget {
    /// As fast as possible.
    #[default]
    Unlimited,
    /// Operations per second.
    Iops(u64),
    /// Bytes per second.
    Bytes(u64),
}

impl RateTarget {
    /// Rate of operations that have `mean_bytes` on average; `None` if unlimited.
    pub fn rate(self, mean_bytes: f64) -> Option<Rate> {
        match self {
            Self::Unlimited => None,
            Self::Iops(iops) => Some(Rate::per_sec(iops)),
            // A mean size needs no more precision than thousandths of a byte.
            Self::Bytes(bytes) => {
                Rate::new(u128::from(bytes) * 1_000, (mean_bytes * 1_000.0) as u128)
            }
        }
    }
}

/// Choice of the file of an operation (`file_service_type`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileOrder {
    InTurn,
    Random,
    /// The next file when the one before is done.
    OneByOne,
}

/// The jobs that `exitall` ends (`exit_what`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitWhat {
    /// Jobs of the same group.
    Group,
    /// Jobs that run at the same time.
    Stonewall,
    /// Jobs that run at the same time, and all later jobs.
    All,
}

with_defaults! {
    /// A job with the values of all options. Options that were not given have fio's defaults.
    #[derive(Debug, Clone)]
    pub struct Job {
        pub name: String = String::new(),
        /// Free text of the user.
        pub description: String = String::new(),
        /// True for each direction that the job does.
        pub does: [bool; DIRECTIONS] = [true, false, false],
        /// True if each trim is followed by a write of the same range.
        pub trim_write: bool = false,
        /// True for random offsets.
        pub random: bool = false,
        /// Percent of reads among reads and writes.
        pub read_pct: u64 = 50,
        /// Files or devices; empty: the job has its own files.
        pub filenames: Vec<String> = Vec::new(),
        /// Directory of the job's own files.
        pub directory: String = String::new(),
        /// Number of the job's own files.
        pub nrfiles: u64 = 1,
        /// Choice of the next file, after this number of operations.
        pub file_order: FileOrder = FileOrder::InTurn,
        pub file_ops: u64 = 1,
        /// Sizes of operations.
        pub sizes: [Sizes; DIRECTIONS] = std::array::from_fn(|_| Sizes::same(4096)),
        /// Alignment of offsets, bytes.
        pub align: [Option<u64>; DIRECTIONS] = [None; DIRECTIONS],
        /// Bytes used of each device or file.
        pub size: Option<Size> = None,
        /// Smallest and largest size of new files.
        pub filesize: Option<[u64; 2]> = None,
        /// Offset of the first byte used.
        pub offset: Size = Size::Bytes(0),
        /// Increment of `offset` for each further clone.
        pub offset_increment: Size = Size::Bytes(0),
        /// Bytes to transfer.
        pub io_size: Option<Size> = None,
        /// Number of operations.
        pub number_ios: Option<u64> = None,
        /// Number of repetitions.
        pub loops: u64 = 1,
        pub rates: [RateTarget; DIRECTIONS] = [RateTarget::Unlimited; DIRECTIONS],
        /// True for exponentially distributed gaps between operations.
        pub poisson: bool = false,
        /// Queue depth.
        pub depth: u64 = 1,
        /// `ioengine` as given.
        pub ioengine: Option<String> = None,
        /// True for a synchronous engine: system calls, one at a time.
        pub is_sync_engine: bool = false,
        /// True for NVMe commands that bypass the block layer (`io_uring_cmd`).
        pub is_passthrough: bool = false,
        /// True if the files are mapped into memory, and operations are page faults of a synchronous engine.
        pub is_mapped: bool = false,
        /// True if the pages of each mapped operation are written back at once.
        pub syncs_mapped: bool = false,
        /// CPUs of the issuing threads; empty: any.
        pub cpus: Vec<u32> = Vec::new(),
        /// True if each clone gets one of the CPUs.
        pub splits_cpus: bool = false,
        /// Number of clones.
        pub numjobs: u64 = 1,
        /// Time after which the job ends.
        pub runtime_ns: Option<u64> = None,
        /// True if the job repeats until its runtime is over.
        pub time_based: bool = false,
        /// Ramp time before the measurement.
        pub ramp_ns: u64 = 0,
        /// True for direct I/O.
        pub direct: bool = false,
        /// True if cached pages of the files are kept at the start.
        pub keeps_cache: bool = false,
        /// True if the used range of each file is read into the page cache before the job begins.
        pub pre_reads: bool = false,
        /// True if writes append to each file.
        pub appends: bool = false,
        /// True if the job only creates its files.
        pub creates_only: bool = false,
        /// True if missing files are written once before the job begins.
        pub overwrite: bool = false,
        /// True if the writes allocate the blocks of new files.
        pub sparse: bool = false,
        /// Minimum time between the operations of a closed loop with a depth of 1; 0: none. Not an option of fio.
        pub pace_ns: u64 = 0,
        /// True if the file grows with the writes. Not an option of fio.
        pub grows: bool = false,
        /// Durability of each write.
        pub sync: WriteSync = WriteSync::No,
        /// For fsync, fdatasync and sync_file_range: number of writes between two calls; 0: no calls.
        pub flush_every: [u64; 3] = [0; 3],
        /// The commits of the job; `None`: they are not counted. Not an option of fio.
        pub commit: Option<CommitParts> = None,
        /// Flags of sync_file_range.
        pub write_back: WriteBack = WriteBack::default(),
        /// Contents of writes.
        pub content: ContentOptions = ContentOptions::default(),
        /// Options of `verify`.
        pub verify: VerifyOptions = VerifyOptions::default(),
        /// True if random offsets may repeat before every block was visited.
        pub norandommap: bool = false,
        /// True for `random_generator=lfsr`, which visits every block once even with `norandommap`.
        pub lfsr: bool = false,
        /// Distribution of random offsets.
        pub distribution: [Distribution; DIRECTIONS] = std::array::from_fn(|_| Distribution::Uniform),
        /// True if each run makes the same random choices.
        pub randrepeat: bool = true,
        /// Seed of random offsets.
        pub randseed: Option<u64> = None,
        /// Pauses of a job without a rate: `thinktime` and `thinktime_spin`, nanoseconds.
        pub think_ns: [u64; 2] = [0, 0],
        /// Operations between two pauses.
        pub think_blocks: Option<u64> = None,
        /// Time between two pauses; 0: not limited by time.
        pub think_work_ns: u64 = 0,
        /// True if each pause delays all later operations of a rate; false if the job then catches up.
        pub rate_ignores_thinktime: bool = false,
        /// Latency target of the search for a depth.
        pub latency_target: LatencyTarget = LatencyTarget { latency_ns: 0, window_ns: 0, percentile: 100.0 },
        /// Maximum latency of each direction: a slower operation ends the job.
        pub latency_max_ns: [u64; DIRECTIONS] = [u64::MAX; DIRECTIONS],
        /// Bytes skipped between sequential operations; negative: backwards.
        pub skip: i64 = 0,
        /// Number of operations in each sequential run that begins at a random offset.
        pub run_length: u64 = 1,
        /// Percent of the operations of a random job that have random offsets.
        pub random_pct: [u64; DIRECTIONS] = [100; DIRECTIONS],
        /// Delay before the job starts.
        pub start_delay_ns: u64 = 0,
        /// True if files are flushed at the end.
        pub end_flush: bool = false,
        /// True if other jobs end when this job ends.
        pub exit_all: bool = false,
        /// True if other jobs end when this job fails.
        pub exit_all_on_error: bool = false,
        pub exit_what: ExitWhat = ExitWhat::Group,
        /// True if the job writes until the device is full.
        pub fills_device: bool = false,
        /// Pattern for the names of the job's own files.
        pub filename_format: String = "$jobname.$jobnum.$filenum".into(),
        /// True if log lines have the operation's offset.
        pub log_offset: bool = false,
        /// True if log lines have the operation's priority.
        pub log_prio: bool = false,
        /// Minimum rate of each direction, checked in each cycle.
        pub min_rates: [RateTarget; DIRECTIONS] = [RateTarget::Unlimited; DIRECTIONS],
        /// Length of a cycle.
        pub rate_cycle_ns: u64 = NS_PER_SEC,
        /// True if the job is reported together with the other jobs of its group.
        pub group_reporting: bool = false,
        /// True if the job waits until earlier jobs have ended.
        pub stonewall: bool = false,
        /// True if the job begins a group.
        pub new_group: bool = false,
        /// Name prefixes of the logs of bandwidth, latency and operations.
        pub logs: [Option<String>; 3] = [None, None, None],
        /// True if names of log files contain the job's number.
        pub per_job_logs: bool = true,
        /// Averaging period of log lines, milliseconds.
        pub log_avg_msec: u64 = 0,
        /// For completion latency and for total latency: true if percentiles are reported.
        pub percentiles_of: [bool; 2] = [true, false],
        pub percentiles: Vec<f64> = PERCENTILES.to_vec(),
        /// Value of the suffix `k`.
        pub kb_base: u64 = 1024,
        /// True for `ioengine=null`: no data are moved; a simulated drive answers in a microsecond.
        pub is_null: bool = false,
        /// Number of completions after which a closed loop that reached its depth issues again
        /// (`iodepth_batch_complete_min`).
        pub refill_after: u64 = 1,
        /// Number of operations in flight at which a closed loop that reached its depth issues again (`iodepth_low`).
        pub refill_low: u64 = u64::MAX,
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
        /// Log of histograms: prefix; period, milliseconds; number of bins that are merged, as a power of two.
        pub hist_log: Option<String> = None,
        pub log_hist_msec: u64 = 0,
        pub log_hist_coarseness: u64 = 0,
        /// True if log lines have the time since 1970.
        pub log_unix_epoch: bool = false,
        /// True if lines of latency logs have the mean, and the maximum, of their period.
        pub log_values: [bool; 2] = [true, false],
        /// True if lines of latency logs have the time of the operation's issue.
        pub log_issue_time: bool = false,
        /// Name of the jobs that must end before this job begins.
        pub waits_for: Option<String> = None,
        /// Options as given in the job's own section.
        pub given_options: Vec<(String, String)> = Vec::new(),
    }
}

impl Job {
    /// fio's `rw` value.
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

    /// True if the job writes or trims.
    pub fn writes(&self) -> bool {
        self.does[WRITES] || self.does[TRIMS]
    }

    /// True if the job reads or writes.
    pub(super) fn moves_data(&self) -> bool {
        self.does[READS] || self.does[WRITES]
    }

    /// True if the job does operations of a kind.
    pub(super) fn has_kind(&self, kind: usize) -> bool {
        match kind {
            FLUSHES if self.iolog.is_some() => self
                .iolog
                .as_ref()
                .is_some_and(|log| log.of_kind(FLUSHES).0 > 0),
            FLUSHES => (self.flushes() || self.end_flush || self.reads_back()) && self.does[WRITES],
            COMMITS => self.commit.is_some(),
            READS => self.does[READS] || self.reads_back(),
            direction => self.does[direction],
        }
    }

    /// True if the job's end or an error ends other jobs.
    pub(super) fn can_end_others(&self) -> bool {
        self.exit_all || self.exit_all_on_error
    }

    /// True if flush calls (fsync, fdatasync, sync_file_range) follow some of the job's writes.
    pub(super) fn flushes(&self) -> bool {
        self.flush_every != [0; 3]
    }

    /// The flush call that follows write number `write`, counted from 1. As in fio, at most one call follows a write:
    /// the first that is due.
    #[inline]
    pub(super) fn flush_after(&self, write: u64) -> Option<OpKind> {
        let kinds = [
            OpKind::FlushFile,
            OpKind::Flush,
            OpKind::WriteBack(self.write_back),
        ];
        let mut all = self.flush_every.iter().zip(kinds);
        all.find(|(every, _)| **every > 0 && write.is_multiple_of(**every))
            .map(|(_, kind)| kind)
    }

    /// Operations per second of a kind; `None` for a closed loop.
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
            // The operations that were due in a pause are due at its end, but no more than the next pause allows.
            (false, 1..) => iops.min(ops as f64 / pause),
            (false, 0) => iops,
        })
    }

    /// Writes of each commit, or of each arrival of a job without commits.
    pub(super) fn writes_per_commit(&self) -> u64 {
        self.commit
            .map_or(1, |commit| commit.writes + u64::from(commit.has_meta))
    }

    /// When the operations of a kind are due.
    pub(super) fn arrivals(&self, kind: usize) -> Arrivals {
        match self.iops(kind) {
            None => Arrivals::Unknown,
            Some(_) if self.iolog.is_some() || self.trim_write || self.rate_pauses().is_some() => {
                Arrivals::Given
            }
            Some(_) if kind == WRITES && self.commit.is_some_and(|commit| !commit.is_plain()) => {
                Arrivals::Given
            }
            Some(_) if self.poisson => Arrivals::Random,
            Some(_) => Arrivals::Even,
        }
    }

    /// Operations per second of a direction; `None` if unlimited.
    pub(super) fn rate(&self, direction: usize) -> Option<Rate> {
        self.rates[direction].rate(self.sizes[direction].mean_bytes())
    }

    /// Alignment of random offsets of a direction, bytes.
    pub(super) fn align_bytes(&self, direction: usize) -> u64 {
        self.align[direction].unwrap_or_else(|| self.sizes[direction].min_bytes())
    }

    /// Maximum number of operations in flight.
    pub fn in_flight_max(&self) -> u64 {
        match self.think_time() {
            _ if self.is_sync_engine => 1,
            Some(think) if think.blocks > 0 => self.depth.min(think.blocks),
            _ => self.depth,
        }
    }

    /// Pauses of a closed loop, if any.
    pub fn think_time(&self) -> Option<ThinkTime> {
        self.any_think_time().filter(|_| !self.has_rates())
    }

    /// Pauses of a job with a rate, if any.
    pub(super) fn rate_pauses(&self) -> Option<Pauses> {
        let ThinkTime {
            pause_ns,
            blocks,
            work_ns,
        } = self.any_think_time().filter(|_| self.has_rates())?;
        Some(Pauses {
            pause_ns,
            ops: blocks,
            work_ns,
            delays_rest: self.rate_ignores_thinktime,
        })
    }

    fn any_think_time(&self) -> Option<ThinkTime> {
        let pause_ns = self
            .think_ns
            .into_iter()
            .max()
            .filter(|_| self.think_ns[0] > 0)?;
        // Default: one operation, then a pause, unless a time is given.
        let blocks = self
            .think_blocks
            .unwrap_or(u64::from(self.think_work_ns == 0));
        Some(ThinkTime {
            pause_ns,
            blocks,
            work_ns: self.think_work_ns,
        })
    }

    /// Number of operations in flight to which a full queue drains before more are issued; `None`: the queue does not
    /// drain.
    pub(super) fn refill_at(&self) -> Option<u32> {
        let slots = self.in_flight_max();
        let at = self
            .refill_low
            .max(1)
            .min(slots.saturating_sub(self.refill_after.max(1)));
        (at + 1 < slots).then_some(at as u32)
    }

    /// Latency target, if the job searches for a depth.
    pub fn target(&self) -> Option<LatencyTarget> {
        Some(self.latency_target).filter(|target| target.latency_ns > 0)
    }

    /// True if any direction has a rate.
    pub fn has_rates(&self) -> bool {
        let is_timed = self.iolog.as_ref().is_some_and(|log| !log.at_ns.is_empty());
        is_timed
            || self
                .directions()
                .any(|direction| self.rates[direction] != RateTarget::Unlimited)
    }

    /// Directions that the job does: reads (0), writes (1), trims (2).
    pub fn directions(&self) -> impl Iterator<Item = usize> + Clone + use<> {
        let does = self.does;
        (0..DIRECTIONS).filter(move |direction| does[*direction])
    }

    /// Largest write, bytes.
    pub(super) fn written_max_bytes(&self) -> u64 {
        self.sizes[self.write_size_direction()].max_bytes()
    }

    /// Directions of each lane. With rates, each direction has its own lane; without rates, one lane has all
    /// directions. Writes that follow trims have no lane.
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

    /// Number of operations of a clone, if the options determine this number: a single size, no additional operations,
    /// and no time limit.
    pub fn operations(&self) -> Option<u64> {
        let unit = self.unit_bytes();
        let largest = self.largest_bytes();
        let Some(Size::Bytes(bytes)) = self.io_size.or(self.size) else {
            return None;
        };
        let has_others = self.flushes()
            || self.end_flush
            || self.trim_write
            || self.reads_back()
            || self.skip != 0;
        if self.runtime_ns.is_some() || self.time_based || unit != largest || has_others {
            return None;
        }
        let once = (bytes / unit.max(1)).min(self.number_ios.unwrap_or(u64::MAX));
        Some(once.saturating_mul(self.loops))
    }

    /// Bytes of a sequence with steps in a range of `len` bytes, `room` bytes before the end of the device or file. As in
    /// fio the sequence ends where the next operation does not fit. If a step leads to the end of the device or file
    /// or beyond, the sequence begins again instead, and has `len` bytes: `None`.
    pub(super) fn stepped_bytes(&self, len: u64, room: u64) -> Option<u64> {
        let unit = self.unit_bytes();
        let skip = u64::try_from(self.skip).ok().filter(|skip| *skip > 0)?;
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
            .all(|direction| self.distribution[direction] == Distribution::Uniform);
        self.random && (!self.norandommap || self.lfsr) && uniform
    }

    /// True if `directions` share one map: a block visited by any of them counts as visited.
    pub(super) fn shares_map(&self, directions: &[usize]) -> bool {
        let unit = |direction: usize| self.sizes[direction].min_bytes();
        directions
            .iter()
            .all(|direction| unit(*direction) == unit(directions[0]))
    }

    /// Size of the job's new files: drawn once from the range of `filesize`, in whole operations.
    pub(super) fn file_bytes(&self) -> Option<u64> {
        let [min, max] = self.filesize?;
        let drawn = min
            + Random::new(self.seed().unwrap_or(REPEATED_SEED))
                .below((max - min).saturating_add(1));
        Some((drawn / self.unit_bytes() * self.unit_bytes()).max(min))
    }

    /// Names of the targets of the clone `number`.
    pub fn names(&self, number: u64) -> Vec<String> {
        let own = (0..self.nrfiles).map(|file| {
            let of_job = self.filename_format.replace("$jobname", &self.name);
            of_job
                .replace("$jobnum", &number.to_string())
                .replace("$filenum", &file.to_string())
        });
        if self.is_null {
            return (0..self.nrfiles)
                .map(|file| self.null_drive(number, file))
                .collect();
        }
        if let Some(log) = &self.iolog {
            return log.files.clone();
        }
        let names = if self.filenames.is_empty() {
            own.collect()
        } else {
            self.filenames.clone()
        };
        names
            .into_iter()
            .map(|name| {
                let is_absolute =
                    name.starts_with('/') || name.starts_with(engine::sim::SIM_PREFIX);
                if is_absolute || self.directory.is_empty() {
                    name
                } else {
                    format!("{}/{name}", self.directory.trim_end_matches('/'))
                }
            })
            .collect()
    }

    /// Takes the operations from a log, overriding all options that choose operations.
    fn replay_log(&mut self, log: Iolog) {
        for direction in 0..DIRECTIONS {
            let (count, bytes) = log.of_kind(direction);
            (self.does[direction], self.sizes[direction]) = (count > 0, Sizes::same(bytes.max(1)));
        }
        (self.random, self.trim_write, self.fills_device) = (false, false, false);
        (self.size, self.io_size, self.filesize, self.offset) = (None, None, None, Size::Bytes(0));
        (self.offset_increment, self.skip, self.number_ios) = (Size::Bytes(0), 0, None);
        if self.is_null {
            self.nrfiles = log.files.len() as u64
        } else {
            // Clones share the files of the log.
            self.filenames = log.files.clone()
        }
        self.iolog = Some(Arc::new(log));
    }

    /// A simulated drive that answers each operation after a microsecond.
    fn null_drive(&self, clone: u64, file: u64) -> String {
        let name: String = self
            .name
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

    /// Finds contradictions among the options.
    fn check(&self) -> Vec<String> {
        let zones = self.zones;
        let [reads, writes, trims] = self.does;
        let has_rates = self.has_rates();
        let has_log = self.iolog.is_some();
        let thinks = self.any_think_time().is_some();
        let searches = self.target().is_some();
        let writes_alone = writes && !reads && !trims;
        let paces =
            self.time_based || self.loops > 1 || self.rates != [RateTarget::Unlimited; DIRECTIONS];
        let has_others = paces || self.flushes() || self.end_flush || zones.is_strided() || thinks;
        let can_append = writes_alone
            && matches!(self.size, Some(Size::Bytes(_)))
            && !has_log
            && !self.fills_device;
        let rules = [
            (thinks && has_rates && self.directions().count() > 1)
                .then_some("thinktime pauses each direction of a job with rates at its own times, which fio does not - give each direction its own job"),
            (searches && (has_rates || thinks))
                .then_some("latency_target searches for a queue depth, but a rate or thinktime bounds the load instead - leave one of them out"),
            (self.refill_at().is_some() && (has_rates || thinks || searches))
                .then_some("iodepth_low and iodepth_batch_complete_min cannot be combined with a rate, thinktime or latency_target - leave them out, or leave out rate, thinktime and latency_target"),
            (self.waits_for.is_some() && self.stonewall)
                .then_some("wait_for and stonewall contradict each other - leave one out"),
            (has_log && has_others)
                .then_some("read_iolog takes the operations and their times from the log - leave out rates, time_based, loops, thinktime, zonemode and flushes"),
            (!zones.is_strided() && zones.size.or(zones.range).or(zones.skip).is_some())
                .then_some("zonesize, zonerange and zoneskip need zonemode=strided and a zonesize - give both, or leave all of them out"),
            (self.is_passthrough && (self.flush_every[2] > 0 || self.priority != PriorityOptions::default()))
                .then_some("ioengine=io_uring_cmd has no page cache and no I/O priorities - leave out sync_file_range, prio and cmdprio"),
            (self.is_mapped && self.sync.is_on())
                .then_some("with ioengine=mmap the kernel decides when pages are written back - leave out sync; fsync=1 or direct=1 writes pages back after each operation"),
            (self.pre_reads && self.direct)
                .then_some("pre_read fills the page cache, but direct=1 bypasses it - leave one out"),
            (self.appends && (!can_append || zones.is_strided()))
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
            format!("{} operations per second are more than one per nanosecond, the resolution of flashproof's clock - give a lower rate", units::number(rate))
        }));
        if self.fills_device && (self.random || !writes_alone) {
            wrong.push(
                "fill_device is for sequential writes - give rw=write, or leave fill_device out"
                    .into(),
            );
        }
        let above_rate =
            self.directions()
                .find_map(|of| match (self.min_rates[of], self.rates[of]) {
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
}

/// The jobs of all `sections`, in their order. Errors: every mistake in them.
pub fn jobs(
    sections: &[Section],
    context: &ParseContext<'_>,
    warnings: &mut Vec<Problem>,
) -> Result<Vec<Job>, Vec<Problem>> {
    let mut global = Job::default();
    let mut jobs = Vec::new();
    let mut problems = Vec::new();
    for section in sections {
        if section.is_global() {
            global.apply_section(section, &mut problems, warnings);
            continue;
        }
        let mut job = Job {
            name: section.name.clone(),
            ..global.clone()
        };
        job.apply_section(section, &mut problems, warnings);
        // NVMe passthrough bypasses the page cache; mapped pages are always in the page cache.
        job.direct |= job.is_passthrough;
        if job.is_mapped {
            (job.syncs_mapped, job.direct) = (job.direct, false);
        }
        if job.is_null {
            (job.nrfiles, job.filenames) =
                (job.nrfiles.max(job.filenames.len() as u64), Vec::new());
        }
        if let Some(path) = job.replay.file.clone() {
            match Iolog::read(&job.replay, &path, context) {
                Ok(log) => job.replay_log(log),
                Err(why) => problems.push(Problem::of_job(&job.name, why)),
            }
        }
        if job.fills_device {
            (job.size, job.io_size) = (None, None);
        }
        if job.verify.batch == 0 {
            job.verify.batch = job.verify.backlog;
        }
        job.apply_verify_only();
        if job.time_based && job.runtime_ns.is_none() {
            job.time_based = false;
            let why = "time_based has no effect without a runtime: as in fio, the job ends when its size is done";
            warnings.push(Problem::of_job(&job.name, why));
        }
        if job.log_hist_msec == 0 && job.hist_log.take().is_some() {
            let why = "write_hist_log has no effect without log_hist_msec - give log_hist_msec=1000 or the like";
            warnings.push(Problem::of_job(&job.name, why));
        }
        if job.is_null && job.verifies() {
            job.verify.method = Method::None;
            let why = "verify has no effect with ioengine=null, which stores no data";
            warnings.push(Problem::of_job(&job.name, why));
        }
        if job.reads_back() && job.time_based && job.verify.backlog == 0 {
            let why = "verify will not read any write back, because a time_based job ends at its runtime - give verify_backlog, or leave out time_based";
            warnings.push(Problem::of_job(&job.name, why));
        }
        job.numbers_iolog = jobs
            .iter()
            .any(|earlier: &Job| earlier.write_iolog == job.write_iolog);
        problems.extend(
            job.check()
                .into_iter()
                .map(|what| Problem::of_job(&job.name, what)),
        );
        if context.readonly && job.writes() {
            problems.push(Problem::of_job(
                &job.name,
                "the job writes or trims, which --readonly forbids - leave out --readonly, or give rw=read",
            ));
        }
        jobs.push(job);
    }
    let clones: u64 = jobs.iter().map(|job| job.numjobs).sum();
    if problems.is_empty() && jobs.is_empty() {
        let why = "there is no job - give --name=NAME with its options, or a job file";
        problems.push(Problem::new(COMMAND_LINE, why));
    }
    if clones > JOBS_MAX {
        let why = format!("{clones} jobs in all, but at most {JOBS_MAX} can run - lower numjobs");
        problems.push(Problem::new("numjobs", why));
    }
    if problems.is_empty() {
        Ok(jobs)
    } else {
        Err(problems)
    }
}
