//! A drive's baseline: chooses the next fio job, given the results of the earlier ones.
//!
//! ```text
//! BaselineRequest (duration, sizes) -> positions in the plan: saturation, depths, profiles, rates, grid
//!                                      position + points so far -> Job (options as fio takes them)
//! ```
//!
//! The one idea: the plan has no state. The job at a position follows from the request and the earlier points. So a
//! killed baseline can resume from its `series.json`, which also explains every job.

mod job;

pub use job::Job;

use conclusions::baseline::{JobPurpose, PTS_ROUNDS_MAX, Point, Pts, highest, knee, saturated_at};
use results::format::span;
use results::steady::ROUNDS_IN_WINDOW;

/// Size of the database's large blocks, as in the profiles and the grid.
pub const LARGE_BYTES: u64 = 128 << 10;

/// Operation size that every drive supports, bytes.
const PAGE_BYTES: u64 = 4 << 10;

/// Percent of reads in each profile.
const MIXES: [u32; 4] = [0, 50, 95, 100];

/// Rates at which latency is measured, percent of the highest rate. `FEW_RATES`: the rates of a short baseline.
const RATES: [u32; 10] = [10, 20, 30, 40, 50, 60, 70, 80, 90, 95];
const FEW_RATES: [u32; 4] = [25, 50, 75, 95];

/// Steps of the grid for reads and writes, percent of the highest rates. `SMALL_GRID`: for a short baseline.
const GRID: [u32; 5] = [0, 20, 40, 60, 80];
const SMALL_GRID: [u32; 3] = [0, 40, 80];

/// Baselines shorter than this, seconds, have fewer rates and a smaller grid. In real time they have no watch (a
/// long job at a light load, which measures stalls).
const FULL_SEC: u64 = 600;

/// The saturation gets the total time divided by this.
const SATURATION_PART: u64 = 5;

/// Maximum rounds of the saturation: SNIA's maximum for a test.
const SATURATION_ROUNDS: u64 = PTS_ROUNDS_MAX as u64;

const SATURATION_DEPTH: u32 = 32;

/// Number of clones of a job in SNIA's tests, and queue depth of each clone. SNIA lets the tester choose both.
pub const PTS_THREADS: u32 = 4;
pub const PTS_DEPTH: u32 = 32;

/// SNIA's write saturation ends when it is steady, when this multiple of the drive's capacity was written, or after
/// 1,440 rounds: a day of rounds of a minute.
const PTS_WRITTEN_MAX: f64 = 4.0;
const PTS_SATURATION_ROUNDS: usize = 1_440;

/// Rounds of a job for the test of steadiness.
const ROUNDS: u64 = 10;

/// Maximum ramp before a job counts, seconds. The ramp is a tenth of the job's time.
const RAMP_SEC_MAX: u64 = 30;
/// Jobs of at least this many seconds have a ramp of at least 1 s. The ramp of a shorter job is the fractional part of
/// its time.
const RAMPED_SEC_MIN: u64 = 4;

/// Maximum length of a job or the saturation on virtual time, seconds: more time would not change the result.
const SIMULATED_SEC_MAX: u64 = 5;
const SIMULATED_SATURATION_SEC_MAX: u64 = 50;

/// The first watch takes the total time divided by [`WATCH_PART`]. On virtual time it takes the total time multiplied
/// by [`SIMULATED_WATCH`], up to a maximum in seconds.
const WATCH_PART: u64 = 10;
const SIMULATED_WATCH: u64 = 60;
const SIMULATED_WATCH_SEC_MAX: u64 = 6 * 3_600;
/// The second watch gets the first one's time divided by this; on virtual time, [`SIMULATED_LATER_WATCH_SEC`].
const LATER_WATCH_PART: u64 = 4;
const SIMULATED_LATER_WATCH_SEC: u64 = 60;
/// Small reads and large writes per second in a watch: light for most drives, and frequent enough to hit a stall of 10
/// ms. A drive with fewer than [`WATCHED_IOPS`] writes per second gets proportionally lower rates.
const WATCH_RATES: [u64; 2] = [200, 10];
const WATCHED_IOPS: f64 = 2_000.0;
/// Queue depth of a watch: high enough that a stall of a second does not reduce the load.
const WATCH_DEPTH: u32 = 256;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BaselineRequest {
    /// Total time under load, seconds.
    pub seconds: u64,
    pub simulated: bool,
    pub read_only: bool,
    /// Sizes of the database's operations, bytes; depths, rates and grid use the first.
    pub block_sizes: Vec<u64>,
    /// The largest depth of the sweep, also used for jobs with a rate.
    pub depth_max: u32,
    /// SNIA's tests to run; if there are any, nothing else is run.
    pub pts: Vec<Pts>,
    /// Length of a job of SNIA's tests, seconds: 60 in the specification.
    pub pts_sec: u64,
    /// Maximum threads that share a job's operations in flight, a power of two: one thread is limited by its core.
    pub threads: u32,
    /// Smallest operation that the drives support, bytes; SNIA's smaller operations are left out.
    pub min_io_bytes: u64,
}

impl BaselineRequest {
    /// The shortest time in which every job gets a second, seconds.
    pub fn seconds_min(&self) -> u64 {
        let shortest = Self {
            seconds: 0,
            ..self.clone()
        };
        let saturation_sec = if self.read_only { 0 } else { SATURATION_ROUNDS };
        shortest.planned(&[]).len() as u64 + saturation_sec
    }

    /// Lower bound of the jobs per drive. Each part with rounds counts as five rounds. An operation size of SNIA's
    /// tests counts only if every drive supports this size.
    pub fn jobs_min(&self) -> usize {
        if let Some(jobs) = self.jobs() {
            let saturation = if self.read_only { 0 } else { ROUNDS_IN_WINDOW };
            return jobs + saturation;
        }
        let mut jobs = 0;
        for test in &self.pts {
            jobs += match test {
                // This test can also end by the bytes written, after its first job.
                Pts::Saturation => 1,
                _ => {
                    let of_round = test.jobs();
                    let supported = of_round.iter().filter(|(_, bytes)| *bytes >= PAGE_BYTES);
                    ROUNDS_IN_WINDOW * supported.count()
                }
            };
        }
        jobs
    }

    /// Number of jobs, without the rounds of a saturation; `None` if the number depends on when drives are steady.
    pub fn jobs(&self) -> Option<usize> {
        self.pts.is_empty().then(|| self.planned(&[]).len())
    }

    /// The jobs and their time, as a phrase.
    pub fn text(&self) -> String {
        let Some(jobs) = self.jobs() else {
            return "by tests of SNIA's PTS 2.0.2, each run to steady state".to_owned();
        };
        let saturation = if self.read_only {
            ""
        } else {
            " and the rounds of a saturation"
        };
        format!(
            "in {jobs} jobs{saturation}, {} under load",
            span(self.seconds)
        )
    }

    /// The first SNIA test whose tracking variable needs operations smaller than the drive supports.
    pub fn untracked(&self) -> Option<Pts> {
        self.pts.iter().copied().find(|test| {
            test.tracked()
                .iter()
                .any(|(bytes, _)| *bytes < self.min_io_bytes)
        })
    }

    /// The next job of a drive of `capacity_bytes`, whose measurements so far are `points`; `None` at the end.
    pub fn next(&self, points: &[Point], capacity_bytes: u64) -> Option<Job> {
        if !self.pts.is_empty() {
            return self.next_of_pts(points, capacity_bytes);
        }
        let rounds = points
            .iter()
            .filter(|point| point.part == JobPurpose::Saturation)
            .count();
        if !self.read_only && (rounds as u64) < SATURATION_ROUNDS && saturated_at(points).is_none()
        {
            return Some(self.saturation(rounds));
        }
        let index = points.len() - rounds;
        let job = self.planned(points).into_iter().nth(index)?;
        Some(
            self.timed(Job {
                position: (1, index),
                ..job
            })
            .among(self.threads),
        )
    }

    /// The next job of SNIA's tests: a job of the first test that is not over.
    fn next_of_pts(&self, points: &[Point], capacity_bytes: u64) -> Option<Job> {
        self.pts
            .iter()
            .enumerate()
            .find_map(|(number, test): (usize, &Pts)| {
                let test_points: Vec<_> = points.iter().filter(|point| test.has(point)).collect();
                let jobs: Vec<_> = test
                    .jobs()
                    .into_iter()
                    .filter(|(_, bytes)| *bytes >= self.min_io_bytes)
                    .collect();
                let round = test_points.len().checked_div(jobs.len())?;
                let job_index = test_points.len() % jobs.len();
                let bytes_per_sec_sum: f64 = test_points
                    .iter()
                    .filter_map(|point| point.writes.as_ref())
                    .map(|done| done.mbps * 1e6)
                    .sum();
                let is_over = match test {
                    Pts::Saturation => {
                        let bytes_written = bytes_per_sec_sum * self.pts_sec as f64;
                        let is_full = bytes_written >= PTS_WRITTEN_MAX * capacity_bytes as f64;
                        is_full
                            || round >= PTS_SATURATION_ROUNDS
                            || test.steady_at(points).is_some()
                    }
                    _ => {
                        job_index == 0
                            && (round >= PTS_ROUNDS_MAX || test.steady_at(points).is_some())
                    }
                };
                let (read_pct, bytes) = jobs[job_index];
                (!is_over).then(|| {
                    self.pts_job(*test, round, (number, test_points.len()), read_pct, bytes)
                })
            })
    }

    fn pts_job(
        &self,
        test: Pts,
        round: usize,
        position: (usize, usize),
        read_pct: u32,
        bytes: u64,
    ) -> Job {
        let (depth, numjobs) = match test {
            Pts::Latency => (1, 1),
            // A single clone: several sequential clones would access the same offsets one after the other.
            Pts::Throughput | Pts::Throughput128 => (PTS_DEPTH, 1),
            Pts::Iops | Pts::Saturation => (PTS_DEPTH, PTS_THREADS),
        };
        Job {
            name: format!(
                "{} test, round {}: {}",
                test.option_name(),
                round + 1,
                mix(read_pct, bytes)
            ),
            part: test.part(),
            random: test.part() != JobPurpose::PtsThroughput,
            read_pct,
            bytes: [bytes; 2],
            depth,
            numjobs,
            round: round as u32,
            seconds: self.pts_sec,
            round_sec: self.pts_sec,
            position,
            ..Job::default()
        }
    }

    fn saturation(&self, round: usize) -> Job {
        let max_sec = if self.simulated {
            SIMULATED_SATURATION_SEC_MAX
        } else {
            u64::MAX
        };
        let seconds = ((self.seconds / SATURATION_PART).min(max_sec) / SATURATION_ROUNDS).max(1);
        Job {
            name: format!("saturation, round {}", round + 1),
            part: JobPurpose::Saturation,
            bytes: [self.block_sizes[0]; 2],
            depth: SATURATION_DEPTH,
            round: round as u32,
            seconds,
            round_sec: seconds,
            position: (0, round),
            ..Job::default()
        }
        .among(self.threads)
    }

    /// Jobs after the saturation, in order, without durations. Depths and rates follow from `points`, where measured.
    fn planned(&self, points: &[Point]) -> Vec<Job> {
        let (read_sweep, write_sweep): (Vec<&Point>, Vec<&Point>) = points
            .iter()
            .filter(|point| point.part == JobPurpose::Depth)
            .partition(|point| point.reads.is_some());
        let sweeps = [read_sweep, write_sweep];
        let knees = [0, 1].map(|way: usize| knee(&sweeps[way]).map_or(1, |point| point.depth));
        let highest = [0, 1].map(|way: usize| highest(&sweeps[way]).unwrap_or(1.0).max(1.0));
        let large_writes = points.iter().rev().find_map(|point| {
            let writes = point
                .writes
                .as_ref()
                .filter(|writes| writes.bytes_each == LARGE_BYTES as f64)?;
            (point.part == JobPurpose::Profile && point.reads.is_none()).then_some(writes.iops)
        });
        let is_short = self.seconds < FULL_SEC;
        let block_bytes = self.block_sizes[0];
        let directions: &[bool] = if self.read_only {
            &[true]
        } else {
            &[true, false]
        };

        let mut jobs: Vec<_> = self.watch(0, points).into_iter().collect();
        for reads in directions {
            let depths = (0..u32::BITS)
                .map(|power| 1 << power)
                .take_while(|depth| *depth <= self.depth_max);
            jobs.extend(depths.map(|depth| Job {
                depth,
                ..self.single_direction(&format!("depth {depth}"), JobPurpose::Depth, *reads)
            }));
        }
        let mut sizes = self.block_sizes.clone();
        sizes.extend((!sizes.contains(&LARGE_BYTES)).then_some(LARGE_BYTES));
        // Large random writes undo the effect of the saturation, so they run after the jobs that depend on that effect.
        let (large, small): (Vec<u64>, Vec<u64>) = sizes
            .into_iter()
            .partition(|bytes| *bytes == LARGE_BYTES && *bytes != block_bytes);
        for bytes in small {
            jobs.extend(self.profiles(bytes, knees));
        }
        let rates: &[u32] = if is_short { &FEW_RATES } else { &RATES };
        for reads in directions {
            jobs.extend(rates.iter().map(|pct| Job {
                depth: self.depth_max,
                rates: Some(highest.map(|highest| rate_at(*pct, highest))),
                ..self.single_direction(
                    &format!("{pct} % of their highest rate"),
                    JobPurpose::Rate,
                    *reads,
                )
            }));
        }
        for bytes in large {
            jobs.extend(self.profiles(bytes, knees));
        }
        let grid: &[u32] = if self.read_only {
            &[]
        } else if is_short {
            &SMALL_GRID
        } else {
            &GRID
        };
        let cells = grid
            .iter()
            .flat_map(|writes_pct| grid.iter().map(move |reads_pct| (*reads_pct, *writes_pct)));
        jobs.extend(
            cells
                .filter(|cell| *cell != (0, 0))
                .map(|(reads_pct, writes_pct)| {
                    let rates @ [reads, writes] = [
                        rate_at(reads_pct, highest[0]),
                        rate_at(writes_pct, large_writes.unwrap_or(1.0)),
                    ];
                    Job {
                        name: format!(
                            "reads at {reads_pct} % beside {} writes at {writes_pct} %",
                            size(LARGE_BYTES)
                        ),
                        part: JobPurpose::Grid,
                        read_pct: match (reads_pct, writes_pct) {
                            (_, 0) => 100,
                            (0, _) => 0,
                            // fio takes a whole number; the rates determine the mix.
                            _ => (reads * 100 / (reads + writes)).clamp(1, 99) as u32,
                        },
                        bytes: [block_bytes, LARGE_BYTES],
                        depth: self.depth_max,
                        rates: Some(rates),
                        ..Job::default()
                    }
                }),
        );
        jobs.extend(self.watch(1, points));
        jobs
    }

    /// Reads alone or writes alone. `load`: depth or rate, for the job's name.
    fn single_direction(&self, load: &str, part: JobPurpose, reads: bool) -> Job {
        Job {
            name: format!("{} at {load}", if reads { "reads" } else { "writes" }),
            part,
            read_pct: if reads { 100 } else { 0 },
            bytes: [self.block_sizes[0]; 2],
            ..Job::default()
        }
    }

    /// Closed loops of `bytes` with each mix of reads and writes. `knees`: depth at the knee of reads and of writes.
    fn profiles(&self, bytes: u64, knees: [u32; 2]) -> impl Iterator<Item = Job> {
        MIXES
            .into_iter()
            .filter(|read_pct| *read_pct == 100 || !self.read_only)
            .map(move |read_pct| Job {
                name: mix(read_pct, bytes),
                part: JobPurpose::Profile,
                read_pct,
                bytes: [bytes; 2],
                depth: match read_pct {
                    0 => knees[1],
                    100 => knees[0],
                    _ => knees[0].max(knees[1]),
                },
                ..Job::default()
            })
    }

    /// The watch before all other jobs (`round` 0) or after them (1); `None` if there is no time for a watch.
    fn watch(&self, round: u32, points: &[Point]) -> Option<Job> {
        let saturated = points
            .iter()
            .rfind(|point| point.part == JobPurpose::Saturation)
            .map_or(0.0, Point::iops);
        let light = (saturated / WATCHED_IOPS).min(1.0);
        self.has_watch().then(|| Job {
            name: if round == 0 {
                "watch"
            } else {
                "watch after the jobs"
            }
            .to_owned(),
            part: JobPurpose::Watch,
            read_pct: (WATCH_RATES[0] * 100 / WATCH_RATES.iter().sum::<u64>()) as u32,
            bytes: [self.block_sizes[0], LARGE_BYTES],
            depth: WATCH_DEPTH.min(self.depth_max),
            rates: Some(WATCH_RATES.map(|rate| ((rate as f64 * light) as u64).max(1))),
            poisson: true,
            round,
            ..Job::default()
        })
    }

    /// Adds duration and ramp to a job that follows the saturation.
    fn timed(&self, job: Job) -> Job {
        let total_ms = self.job_ms();
        let (seconds, ramp_ms) = match (job.part, job.round) {
            // No ramp: a stall in the first seconds counts.
            (JobPurpose::Watch, 0) => (self.watch_sec(), 0),
            (JobPurpose::Watch, _) => (self.later_watch_sec(), 0),
            _ => {
                // The ramp excludes a burst after a pause, and writes still in a buffer. A rate limit of the kernel
                // admits the operations of 0.2 s at once: a tenth of a job of 2 s.
                let ramp_ms = match total_ms / 1_000 {
                    ..RAMPED_SEC_MIN => total_ms % 1_000,
                    seconds => (seconds / 10).clamp(1, RAMP_SEC_MAX) * 1_000,
                };
                ((total_ms - ramp_ms) / 1_000, ramp_ms)
            }
        };
        Job {
            seconds,
            ramp_ms,
            round_sec: (seconds / ROUNDS).max(1),
            ..job
        }
    }

    /// True if there is time for a watch. Read-only baselines need none: nothing is predicted from them.
    fn has_watch(&self) -> bool {
        !self.read_only && (self.simulated || self.seconds >= FULL_SEC)
    }

    fn watch_sec(&self) -> u64 {
        if self.simulated {
            (self.seconds * SIMULATED_WATCH).clamp(1, SIMULATED_WATCH_SEC_MAX)
        } else {
            (self.seconds / WATCH_PART).max(1)
        }
    }

    /// Length of the watch after all jobs, seconds. This watch only checks if the drive is unchanged.
    fn later_watch_sec(&self) -> u64 {
        if self.simulated {
            SIMULATED_LATER_WATCH_SEC
        } else {
            (self.watch_sec() / LATER_WATCH_PART).max(1)
        }
    }

    /// Length of a baseline whose watch lasts `watch_sec`, seconds; `None` if no baseline has such a long watch.
    pub fn seconds_for_watch(simulated: bool, watch_sec: u64) -> Option<u64> {
        if simulated {
            (watch_sec <= SIMULATED_WATCH_SEC_MAX).then(|| watch_sec.div_ceil(SIMULATED_WATCH))
        } else {
            Some(watch_sec.saturating_mul(WATCH_PART))
        }
    }

    /// Time of each job other than saturation and watches, milliseconds.
    fn job_ms(&self) -> u64 {
        let max_ms = if self.simulated {
            SIMULATED_SEC_MAX * 1_000
        } else {
            u64::MAX
        };
        let saturation_sec = if self.read_only {
            0
        } else {
            (self.seconds / SATURATION_PART).max(SATURATION_ROUNDS)
        };
        let is_real = !self.simulated && self.has_watch();
        let watch_sec = if is_real {
            self.watch_sec() + self.later_watch_sec()
        } else {
            0
        };
        let left_sec = self.seconds.saturating_sub(saturation_sec + watch_sec);
        let others = self
            .planned(&[])
            .iter()
            .filter(|job| job.part != JobPurpose::Watch)
            .count();
        (left_sec.saturating_mul(1_000) / others.max(1) as u64)
            .min(max_ms)
            .max(1_000)
    }
}

/// `pct` percent of the rate `highest`, at least 1.
fn rate_at(pct: u32, highest: f64) -> u64 {
    ((f64::from(pct) / 100.0 * highest) as u64).max(1)
}

/// A mix as text: `95/5 of 128k`.
fn mix(read_pct: u32, bytes: u64) -> String {
    match read_pct {
        0 => format!("writes of {}", size(bytes)),
        100 => format!("reads of {}", size(bytes)),
        _ => format!("{read_pct}/{} of {}", 100 - read_pct, size(bytes)),
    }
}

/// A size as fio takes it: `4k`.
pub fn size(bytes: u64) -> String {
    match bytes {
        bytes if bytes.is_multiple_of(1 << 20) => format!("{}m", bytes >> 20),
        bytes if bytes.is_multiple_of(1 << 10) => format!("{}k", bytes >> 10),
        bytes => bytes.to_string(),
    }
}

#[cfg(test)]
mod tests;
