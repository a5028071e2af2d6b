//! A job on a simulated drive: a closed loop at a queue depth, or reads and writes at rates.
//!
//! The job has a small run loop of its own, without threads, buffers and histograms, so that the fit of a simulated
//! drive to a real one can afford thousands of jobs.

use engine::sim::{DriveModel, DriveSpec, QueueModel};
use std::collections::VecDeque;
use sys::buffer::Buf;
use sys::op::{Op, OpKind};
use sys::random::Random;

const NS_PER_SEC: f64 = 1e9;

/// Bounds on the operations of a job. The minimum is enough for a 99th percentile; rare stalls or windows need more.
const OPS_MIN: usize = 4_000;
const OPS_MAX: usize = 20_000;
/// Unmeasured operations at the start of a job: in a mix, the slower direction fills the queue meanwhile. At most
/// [`OPS_MIN`], because a job may end after that number.
const WARM_UP_OPS: usize = OPS_MIN;
/// A job covers at least this many stall periods, or rate-limit windows, unless [`OPS_MAX`] or its duration ends it.
const PERIODS: u64 = 4;
pub const PERCENTS: [f64; 5] = [10.0, 50.0, 90.0, 99.0, 99.9];

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct JobResults {
    pub iops: f64,
    /// Latencies at [`PERCENTS`], microseconds; `None` if there are too few operations for a percentile.
    pub times_us: [Option<f64>; PERCENTS.len()],
}

impl JobResults {
    fn from_times(mut times_ns: Vec<u64>, seconds: f64) -> Option<Self> {
        times_ns.sort_unstable();
        let last = times_ns.len().checked_sub(1)?;
        Some(Self {
            iops: times_ns.len() as f64 / seconds,
            times_us: PERCENTS.map(|percent: f64| {
                Some(times_ns[(last as f64 * percent / 100.0).round() as usize] as f64 / 1e3)
            }),
        })
    }
}

/// Operations of one size in each direction, reads first.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelJob {
    pub depth: u32,
    pub read_share: f64,
    pub bytes: [u32; 2],
    /// Operations per second; `None`: closed loop.
    pub offered_iops: Option<[f64; 2]>,
    pub poisson: bool,
    /// Measured time, nanoseconds.
    pub duration_ns: u64,
}

impl ModelJob {
    pub fn is_closed(&self) -> bool {
        self.offered_iops.is_none()
    }

    /// Runs the job on `drive`. Returns the results of reads and of writes.
    pub fn run(&self, drive: &DriveSpec) -> [Option<JobResults>; 2] {
        let period_ns = drive.stalls.every_ns.max(drive.window_ns).max(1);
        let mut periods = 0;
        // Whole periods: a fraction of a period has more or less than its share of stalls, or of a window's operations.
        let whole_periods_ns =
            |every_ns: u64| (self.duration_ns + every_ns / 2) / every_ns * every_ns;
        let duration_ns = match period_ns {
            every_ns if (1..=self.duration_ns).contains(&every_ns) => whole_periods_ns(every_ns),
            _ => self.duration_ns,
        };
        // With stalls or windows there is no warm-up, because their periods count from the start of the job.
        let warm_up_ops = if period_ns == 1 { WARM_UP_OPS } else { 0 };
        let (times_ns, seconds) = Running::new(self, drive).run(warm_up_ops, |ops, now_ns| {
            let period_ended =
                std::mem::replace(&mut periods, now_ns / period_ns) < now_ns / period_ns;
            ops >= OPS_MAX
                || now_ns >= duration_ns
                || (period_ended && ops >= OPS_MIN && now_ns / period_ns >= PERIODS)
        });
        times_ns.map(|times_ns| JobResults::from_times(times_ns, seconds))
    }

    /// Runs for `at_least_ns`. Returns the latencies of reads and of writes, ns, ascending, and the elapsed seconds.
    pub fn all(&self, drive: &DriveSpec, at_least_ns: u64) -> ([Vec<u64>; 2], f64) {
        let (mut times_ns, seconds) =
            Running::new(self, drive).run(0, |_, now_ns| now_ns >= at_least_ns);
        times_ns
            .iter_mut()
            .for_each(|times_ns| times_ns.sort_unstable());
        (times_ns, seconds)
    }
}

struct Running<'a> {
    job: &'a ModelJob,
    model: QueueModel,
    /// Start of the job: between two stalls, so that n periods contain n stalls.
    begin_ns: u64,
    random: Random,
    /// Direction and scheduled time of each operation in flight.
    in_flight: Vec<(usize, u64)>,
    times_ns: [Vec<u64>; 2],
}

impl<'a> Running<'a> {
    fn new(job: &'a ModelJob, drive: &DriveSpec) -> Self {
        let random = Random::new(1);
        let model = QueueModel::new(drive, 1);
        let times_ns = Default::default();
        let begin_ns = drive.stalls.every_ns / 2;
        Self {
            job,
            model,
            begin_ns,
            random,
            in_flight: vec![(0, 0); 2 * job.depth as usize],
            times_ns,
        }
    }

    fn submit(&mut self, token: u32, direction: usize, intended_ns: u64, now_ns: u64) {
        let kind = [OpKind::Read, OpKind::Write][direction];
        let len = self.job.bytes[direction];
        let buf = Buf::empty();
        self.in_flight[token as usize] = (direction, intended_ns);
        self.model.submit(
            &Op {
                token,
                ..Op::new(kind, 0, len, buf)
            },
            now_ns,
        );
    }

    /// Runs until `enough` returns true. The arguments of `enough`: the number of finished operations and the elapsed
    /// time, both without the first `warm_up_ops` operations. In an open loop each direction has its own `depth` slots.
    fn run(
        mut self,
        mut warm_up_ops: usize,
        mut enough: impl FnMut(usize, u64) -> bool,
    ) -> ([Vec<u64>; 2], f64) {
        let depth = self.job.depth;
        let mut begin_ns = self.begin_ns;
        let is_closed = self.job.is_closed();
        let offered = self.job.offered_iops.unwrap_or_default();
        let mut free_tokens: [Vec<u32>; 2] = [(0..depth).collect(), (depth..2 * depth).collect()];
        let mut waiting: [VecDeque<u64>; 2] = Default::default();
        let mut next_ns = offered.map(|iops| {
            if iops > 0.0 {
                NS_PER_SEC / iops
            } else {
                f64::INFINITY
            }
        });
        // Writes start a quarter of their period early: otherwise reads and writes at equal rates would coincide.
        next_ns[1] *= 0.75;
        next_ns = next_ns.map(|ns| ns + begin_ns as f64);
        let mut ops = 0;
        let mut now_ns = begin_ns;
        if is_closed {
            (0..depth).for_each(|token| self.submit_next(token, now_ns));
        }
        while !enough(ops, now_ns.saturating_sub(begin_ns)) {
            let direction = usize::from(next_ns[1] < next_ns[0]);
            if next_ns[direction] <= self.model.next_event_ns() as f64 {
                now_ns = next_ns[direction] as u64;
                let gap_factor = if self.job.poisson {
                    -(1.0 - self.random.unit()).ln()
                } else {
                    1.0
                };
                next_ns[direction] += gap_factor * NS_PER_SEC / offered[direction];
                match free_tokens[direction].pop() {
                    Some(token) => self.submit(token, direction, now_ns, now_ns),
                    // The model cannot sustain these rates.
                    None if waiting[direction].len() >= OPS_MAX => break,
                    None => waiting[direction].push_back(now_ns),
                }
                continue;
            }
            now_ns = self.model.next_event_ns();
            if let Some(completion) = self.model.advance() {
                let (direction, intended_ns) = self.in_flight[completion.token as usize];
                self.times_ns[direction].push(now_ns - intended_ns);
                ops += 1;
                if ops == warm_up_ops {
                    self.times_ns = Default::default();
                    (ops, begin_ns, warm_up_ops) = (0, now_ns, 0);
                }
                match waiting[direction].pop_front() {
                    _ if is_closed => self.submit_next(completion.token, now_ns),
                    Some(intended_ns) => {
                        self.submit(completion.token, direction, intended_ns, now_ns)
                    }
                    None => free_tokens[direction].push(completion.token),
                }
            }
        }
        (
            self.times_ns,
            now_ns.saturating_sub(begin_ns) as f64 / NS_PER_SEC,
        )
    }

    fn submit_next(&mut self, token: u32, now_ns: u64) {
        let direction = usize::from(self.random.unit() >= self.job.read_share);
        self.submit(token, direction, now_ns, now_ns);
    }
}
