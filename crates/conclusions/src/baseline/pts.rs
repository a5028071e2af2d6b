//! SNIA's Performance Test Specification: the jobs of a round, the steady-state rule, and the result tables.
//!
//! A round runs each job of a test once. Some jobs are tracked from round to round. The drive is steady if, over five
//! rounds, each tracked value meets two conditions: its range is at most 20 % of its average, and its best straight
//! line rises or falls by at most 10 % of the average. The tables are averages over these five rounds. Nobody has
//! certified that these results conform to the specification.
//!
//! Source: SNIA SSS PTS 2.0.2, definition of steady state, and the sections on IOPS, throughput, latency and write
//! saturation.

use super::point::{JobPurpose, Point};
use results::steady::{ROUNDS_IN_WINDOW, RoundSpread};
use std::collections::BTreeMap;

/// Maximum number of rounds of a test that does not become steady.
pub const PTS_ROUNDS_MAX: usize = 25;

const KIB: u64 = 1024;

/// Write saturation changes slowly, so only one minute out of 31 is tracked.
const SATURATION_TRACKED: usize = 31;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pts {
    /// Random operations: seven mixes of reads and writes, each with eight sizes.
    Iops,
    /// Sequential reads and writes of 1024 KiB.
    Throughput,
    /// Sequential reads and writes of 128 KiB: a separate test, which also begins with a purge.
    Throughput128,
    /// Random operations, one at a time.
    Latency,
    /// Random writes, beginning on an empty drive.
    Saturation,
}

/// Results of each job over five rounds.
#[derive(Debug, Clone, PartialEq)]
pub struct PtsTable {
    pub test: Pts,
    pub rounds: usize,
    /// Round, from 1, at whose end the drive was steady; `None`: not steady, and the table has the last five rounds.
    pub steady_at: Option<usize>,
    /// Key: size of an operation (bytes), percent of reads. Value: average IOPS or MB/s, and 0; for [`Pts::Latency`],
    /// the mean and the maximum latency, microseconds.
    pub cells: BTreeMap<(u64, u32), [f64; 2]>,
}

impl Pts {
    /// All tests, in the order in which they are run.
    pub const ALL: [Self; 5] = [
        Self::Iops,
        Self::Throughput,
        Self::Throughput128,
        Self::Latency,
        Self::Saturation,
    ];

    /// Name on the command line; tests with the same name run together.
    pub fn option_name(self) -> &'static str {
        match self {
            Self::Iops => "iops",
            Self::Throughput | Self::Throughput128 => "throughput",
            Self::Latency => "latency",
            Self::Saturation => "saturation",
        }
    }

    pub fn part(self) -> JobPurpose {
        match self {
            Self::Iops => JobPurpose::PtsIops,
            Self::Throughput | Self::Throughput128 => JobPurpose::PtsThroughput,
            Self::Latency => JobPurpose::PtsLatency,
            Self::Saturation => JobPurpose::PtsSaturation,
        }
    }

    /// Percent of reads and size of an operation (bytes) of each job of a round, in order.
    pub fn jobs(self) -> Vec<(u32, u64)> {
        let (mixes, sizes): (&[u32], &[u64]) = match self {
            Self::Iops => (
                &[100, 95, 65, 50, 35, 5, 0],
                &[
                    1024 * KIB,
                    128 * KIB,
                    64 * KIB,
                    32 * KIB,
                    16 * KIB,
                    8 * KIB,
                    4 * KIB,
                    512,
                ],
            ),
            Self::Throughput => (&[100, 0], &[1024 * KIB]),
            Self::Throughput128 => (&[100, 0], &[128 * KIB]),
            Self::Latency => (&[100, 65, 0], &[8 * KIB, 4 * KIB, 512]),
            Self::Saturation => (&[0], &[4 * KIB]),
        };
        mixes
            .iter()
            .flat_map(|read_pct| sizes.iter().map(move |bytes| (*read_pct, *bytes)))
            .collect()
    }

    pub fn has(self, point: &Point) -> bool {
        let (bytes, read_pct) = key(point);
        point.part == self.part() && self.jobs().contains(&(read_pct, bytes))
    }

    /// Jobs tracked from round to round: size of an operation (bytes), percent of reads.
    pub fn tracked(self) -> &'static [(u64, u32)] {
        match self {
            Self::Iops => &[(4 * KIB, 0), (64 * KIB, 65), (1024 * KIB, 100)],
            Self::Throughput => &[(1024 * KIB, 0)],
            Self::Throughput128 => &[(128 * KIB, 0)],
            Self::Latency | Self::Saturation => &[(4 * KIB, 0)],
        }
    }

    /// Value of a job in this test: IOPS or MB/s, and 0; for latency, mean and maximum, microseconds.
    fn value(self, point: &Point) -> [f64; 2] {
        let sides = || [&point.reads, &point.writes].into_iter().flatten();
        match self {
            Self::Iops | Self::Saturation => [point.iops(), 0.0],
            Self::Throughput | Self::Throughput128 => [sides().map(|done| done.mbps).sum(), 0.0],
            Self::Latency => {
                let ops: u64 = sides().map(|done| done.ops).sum();
                let sum: f64 = sides()
                    .map(|done| done.service.mean_us * done.ops as f64)
                    .sum();
                [
                    if ops > 0 { sum / ops as f64 } else { 0.0 },
                    sides().map(|done| done.service.max_us).fold(0.0, f64::max),
                ]
            }
        }
    }

    /// Number of the round, from 1, at whose end the tracked jobs were first steady over five tracked rounds; `None`:
    /// not yet. Incomplete rounds do not count.
    pub fn steady_at(self, points: &[Point]) -> Option<usize> {
        let stride = if self == Self::Saturation {
            SATURATION_TRACKED
        } else {
            1
        };
        steady_at(
            &self
                .tracked()
                .iter()
                .map(|job: &(u64, u32)| -> Vec<f64> {
                    let own = points
                        .iter()
                        .filter(|point| point.part == self.part() && key(point) == *job);
                    own.map(|point| self.value(point)[0])
                        .skip(stride - 1)
                        .step_by(stride)
                        .collect()
                })
                .collect::<Vec<_>>(),
        )
        .map(|tracked| tracked * stride)
    }

    /// The result table of `points` of a drive; `None` before the fifth round.
    pub fn table(self, points: &[Point]) -> Option<PtsTable> {
        let steady_at = self.steady_at(points);
        let test_points = points.iter().filter(|point| self.has(point));
        let mut by_job: BTreeMap<(u64, u32), Vec<[f64; 2]>> = BTreeMap::new();
        test_points.for_each(|point| {
            by_job
                .entry(key(point))
                .or_default()
                .push(self.value(point))
        });
        let rounds = by_job.values().map(Vec::len).min().unwrap_or(0);
        let end = steady_at.unwrap_or(rounds).min(rounds);
        let first = end.checked_sub(ROUNDS_IN_WINDOW)?;
        Some(PtsTable {
            test: self,
            rounds,
            steady_at,
            cells: by_job
                .into_iter()
                .map(|(job, values): (_, Vec<[f64; 2]>)| {
                    let window = &values[first..end];
                    let mean =
                        window.iter().map(|value| value[0]).sum::<f64>() / window.len() as f64;
                    (
                        job,
                        [
                            mean,
                            window.iter().map(|value| value[1]).fold(0.0, f64::max),
                        ],
                    )
                })
                .collect(),
        })
    }
}

/// Number of the saturation round, from 1, at whose end the rate was first steady over five rounds, by SNIA's rule.
pub fn saturated_at(points: &[Point]) -> Option<usize> {
    let rounds = points
        .iter()
        .filter(|point| point.part == JobPurpose::Saturation);
    steady_at(&[rounds.map(Point::iops).collect()])
}

/// Number of the round, from 1, at whose end all `series` were first steady over five rounds.
fn steady_at(series: &[Vec<f64>]) -> Option<usize> {
    let rounds = series.iter().map(Vec::len).min().unwrap_or(0);
    (ROUNDS_IN_WINDOW..=rounds).find(|end| {
        series.iter().all(|values| {
            let spread = RoundSpread::from_values(&values[end - ROUNDS_IN_WINDOW..*end]);
            spread.average > 0.0 && spread.is_steady()
        })
    })
}

/// Size of an operation (bytes), and percent of reads.
fn key(point: &Point) -> (u64, u32) {
    let done = point.writes.as_ref().or(point.reads.as_ref());
    (
        done.map_or(0, |done| done.bytes_each.round() as u64),
        point.read_pct.round() as u32,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::point;

    /// Rounds of a test whose 4 KiB writes have these rates.
    fn rounds(test: Pts, iops: &[f64]) -> Vec<Point> {
        let done = |iops: &f64| Some((4_096.0, None, *iops, 1e6 / iops));
        iops.iter()
            .map(|iops| point(test.part(), 1, None, done(iops)))
            .collect()
    }

    #[test]
    fn five_rounds_are_steady_up_to_the_limits_of_range_and_slope_and_not_beyond() {
        let at = |values: &[f64]| steady_at(&[values.to_vec()]);
        // A range of exactly 20 % of the average, with a slope of 8 %.
        assert_eq!(at(&[90.0, 100.0, 110.0, 100.0, 100.0]), Some(5));
        assert_eq!(at(&[89.9, 100.0, 110.0, 100.0, 100.0]), None, "over 20 %");
        // Lines that rise by exactly 10 % of their average, and by more.
        assert_eq!(at(&[95.0, 97.5, 100.0, 102.5, 105.0]), Some(5));
        assert_eq!(
            at(&[94.9, 97.4, 100.0, 102.6, 105.1]),
            None,
            "its slope is over 10 %"
        );
        assert_eq!(at(&[95.0, 97.5, 100.0, 102.5]), None, "four rounds");
        assert_eq!(
            at(&[500.0, 300.0, 100.0, 100.0, 100.0, 100.0, 100.0]),
            Some(7),
            "the window moves on"
        );
        assert_eq!(at(&[0.0; 5]), None, "nothing was done");
        assert_eq!(
            steady_at(&[vec![100.0; 5], vec![100.0, 100.0, 100.0, 100.0, 150.0]]),
            None,
            "all of them must be"
        );
    }

    #[test]
    fn exactly_the_jobs_that_the_specification_names_decide_if_a_test_is_steady() {
        // Five rounds in which all jobs have the same rate, except that `wild` has half of this rate in the last round.
        let but = |test: Pts, wild: (u32, u64)| {
            let of = |round: u32, (read_pct, bytes): (u32, u64)| {
                let is_wild = (read_pct, bytes) == wild && round == 4;
                let done = |does: bool| {
                    does.then_some((bytes as f64, None, if is_wild { 50.0 } else { 100.0 }, 80.0))
                };
                let made = point(test.part(), 1, done(read_pct > 0), done(read_pct < 100));
                Point {
                    read_pct: read_pct.into(),
                    round,
                    ..made
                }
            };
            (0..5)
                .flat_map(|round| test.jobs().into_iter().map(move |job| of(round, job)))
                .collect::<Vec<_>>()
        };
        let tracked = |test: Pts| {
            let jobs = test.jobs().into_iter();
            jobs.filter(|job| test.steady_at(&but(test, *job)).is_none())
                .collect::<Vec<_>>()
        };
        assert_eq!(
            tracked(Pts::Iops),
            [(100, 1 << 20), (65, 64 << 10), (0, 4 << 10)]
        );
        assert_eq!(
            (tracked(Pts::Throughput), tracked(Pts::Throughput128)),
            (vec![(0, 1 << 20)], vec![(0, 128 << 10)])
        );
    }

    #[test]
    fn write_saturation_is_tracked_in_every_31st_minute() {
        // Rates that alternate from minute to minute, except in the tracked minutes.
        let iops: Vec<f64> = (1..=5 * 31)
            .map(|minute| {
                if minute % 31 == 0 {
                    100.0
                } else {
                    f64::from(50 + minute % 2 * 100)
                }
            })
            .collect();
        let points = rounds(Pts::Saturation, &iops);
        assert_eq!(Pts::Saturation.steady_at(&points), Some(155));
        assert_eq!(Pts::Saturation.steady_at(&points[..154]), None);
        assert_eq!(
            Pts::Saturation.steady_at(&rounds(Pts::Saturation, &[100.0; 100])),
            None,
            "only three rounds are tracked"
        );
    }

    #[test]
    fn a_table_averages_the_five_rounds_in_which_the_drive_was_steady() {
        let iops = [500.0, 100.0, 102.0, 98.0, 100.0, 101.0, 900.0];
        let mut points = rounds(Pts::Latency, &iops);
        for (point, iops) in points.iter_mut().zip(iops) {
            point.writes.as_mut().unwrap().service.mean_us = iops;
        }
        let table = Pts::Latency.table(&points).unwrap();
        assert_eq!((table.rounds, table.steady_at), (7, Some(6)));
        assert!(
            (table.cells[&(4_096, 0)][0] - 100.2).abs() < 1e-9,
            "{table:?}"
        );
        let wild = rounds(Pts::Saturation, &[500.0, 100.0, 500.0, 100.0, 500.0, 100.0]);
        let table = Pts::Saturation.table(&wild).unwrap();
        assert_eq!(
            (table.steady_at, table.cells[&(4_096, 0)][0]),
            (None, 260.0),
            "the last five"
        );
        assert_eq!(Pts::Saturation.table(&wild[..4]), None);
        assert_eq!(Pts::Iops.table(&points), None, "of another test");
    }

    #[test]
    fn a_round_has_the_jobs_of_the_specification() {
        assert_eq!(Pts::ALL.map(|test| test.jobs().len()), [56, 2, 2, 9, 1]);
        assert_eq!(
            (Pts::Iops.jobs()[0], Pts::Iops.jobs()[55]),
            ((100, 1 << 20), (0, 512))
        );
    }
}
