//! Finds the period of steady load.
//!
//! The counters of a log are sampled every [`CELL_SEC`]. A window is steady if the minimum of each rate is within
//! [`BAND`] of the rate's maximum; the statistical scatter of small counts is allowed in addition. Among all windows
//! that are long enough and cannot be extended, the busiest is taken, because a drive is sized for the peak; among
//! equally busy windows, the longest. No window contains a restart, because counters are reset there.
//!
//! A load that begins is not steady at once: blocks fill before they are defragmented. The parts of the window's start
//! and end that worsen its mean are cut off, by the marginal standard error rule (MSER; White, "An effective truncation
//! heuristic for bias reduction in simulation output", Simulation 69, 1997).

use crate::server_log::clock_steps::is_between;
use crate::server_log::{ServerLog, Start};
use jiff::{SignedDuration, Timestamp};
use results::format::span;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::ops::Range;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadWindow {
    pub from: Timestamp,
    pub to: Timestamp,
}

impl LoadWindow {
    pub fn seconds(&self) -> f64 {
        self.to.duration_since(self.from).as_secs_f64()
    }

    /// True if `timestamp` is within the window, ends included.
    pub fn contains(&self, timestamp: Timestamp) -> bool {
        (self.from..=self.to).contains(&timestamp)
    }
}

impl ServerLog {
    /// The server's last start before the end of `window`; `None`: it is not in the log.
    pub fn start_of(&self, window: LoadWindow) -> Option<&Start> {
        self.starts
            .iter()
            .rev()
            .find(|start| start.timestamp < window.to)
    }
}

/// Length of a cell, seconds: drv_ssd lines come every 20 s.
const CELL_SEC: i64 = 20;

/// Maximum drop of a rate within a steady window, from its maximum to its minimum, as a fraction of the maximum.
const BAND: f64 = 0.2;

/// A window chosen by the user is unsteady if a rate falls by more than this fraction of its maximum.
const UNSTEADY: f64 = 0.4;

/// Seconds without a line of a series that count as a hole in the log, unless [`LINES_MISSING`] gives a longer time.
const HOLE_SEC: i64 = 60;

/// The same limit as a multiple of the usual distance between the lines of the series.
const LINES_MISSING: i32 = 3;

/// Counts that differ by at most this many standard deviations have equal rates: 2 below the mean to 2 above.
const SCATTER: f64 = 4.0;

/// Windows with at least this fraction of the busiest window's load count as equally busy.
const AS_BUSY: f64 = 0.95;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WindowError {
    #[error(
        "{log}: no load counter was logged twice without a restart in between{left_out} - a rate needs two lines, \
         and the server logs them every 10 s: give a longer log"
    )]
    NoCounters { log: String, left_out: String },
    #[error(
        "{log}: no steady window of at least {requested} - the longest was {longest} - choose a window with --from and \
         --to, or {or}"
    )]
    NotSteady {
        log: String,
        requested: String,
        longest: String,
        or: String,
    },
    #[error(
        "{log}: the server was restarted at {restart}, between {from} and {to} - \
         a restart resets the counters: choose a window before or after the restart"
    )]
    Restarted {
        log: String,
        restart: Timestamp,
        from: Timestamp,
        to: Timestamp,
    },
    #[error(
        "the window ends at {to}, but begins only at {from} - give --to a later time than --from"
    )]
    Backwards { from: Timestamp, to: Timestamp },
    #[error(
        "{log}: covers {first} to {last}, but {from} to {to} was requested - choose a window within the log"
    )]
    OutsideLog {
        log: String,
        first: Timestamp,
        last: Timestamp,
        from: Timestamp,
        to: Timestamp,
    },
}

/// Remedy of a log that is too short for a window.
const GIVE_LONGER: &str = "give a longer log";

struct CounterSeries {
    name: String,
    points: Vec<(Timestamp, u64)>,
}

/// The busiest steady window of `log` of at least `at_least_sec`, among the lines within `bounds`, by the counters of
/// `namespaces`. `name`: the log's name in messages.
pub fn find(
    log: &ServerLog,
    name: &str,
    namespaces: &[String],
    at_least_sec: u32,
    bounds: (Option<Timestamp>, Option<Timestamp>),
) -> Result<LoadWindow, WindowError> {
    let series = series(log, namespaces);
    let instants = series
        .iter()
        .flat_map(|series| &series.points)
        .map(|(at, _)| *at)
        .filter(|at| bounds.0.is_none_or(|from| *at >= from))
        .filter(|at| bounds.1.is_none_or(|to| *at <= to));
    let no_counters = || WindowError::NoCounters {
        log: name.to_owned(),
        left_out: log.left_out(),
    };
    let (Some(first), Some(last)) = (instants.clone().min(), instants.max()) else {
        return Err(no_counters());
    };
    // Histograms of sizes are required but can be turned on and off: only the period that has them is searched.
    let sized = series
        .iter()
        .filter(|series| series.name.ends_with("-size"));
    let first = sized
        .clone()
        .filter_map(|series| series.points.first())
        .map(|(at, _)| *at)
        .fold(first, Timestamp::max);
    let last = sized
        .filter_map(|series| series.points.last())
        .map(|(at, _)| *at)
        .fold(last, Timestamp::min);
    // The last lines of a drive may be missing: its rate is then unknown, not 0.
    let last = needed(&series)
        .filter_map(|series| series.points.last())
        .map(|(at, _)| *at)
        .filter(|at| last.duration_since(*at).as_secs() >= CELL_SEC)
        .fold(last, Timestamp::min);
    let stretches = whole_stretches(&series, &log.restarts, first, last);
    let mut windows: Vec<_> = stretches
        .iter()
        .flat_map(|(begin, end)| steady_windows(&series, *begin, *end))
        .collect();
    // The first of equally long windows.
    let longest = windows
        .iter()
        .rev()
        .max_by_key(|steady| steady.cells)
        .cloned();
    let Some(longest) = longest else {
        let longest = stretches
            .iter()
            .max_by_key(|(begin, end)| end.duration_since(*begin));
        return Err(longest.map_or_else(no_counters, |stretch| {
            too_short(log, name, at_least_sec, *stretch)
        }));
    };
    windows.retain(|steady| steady.cells as i64 * CELL_SEC >= i64::from(at_least_sec));
    let busiest = windows
        .iter()
        .map(|steady| steady.ops_per_sec)
        .fold(0.0, f64::max);
    let longest_busy = windows
        .into_iter()
        .filter(|steady| steady.ops_per_sec >= AS_BUSY * busiest)
        .max_by_key(|s| s.cells);
    longest_busy
        .map(|steady| steady.settled(&series, at_least_sec))
        .ok_or_else(|| {
            let seconds = longest.cells as i64 * CELL_SEC;
            let end_text = longest
                .ended_by
                .map_or_else(String::new, |(series, before, after)| {
                    format!(", until {series} changed from {before:.0} to {after:.0} per second")
                });
            WindowError::NotSteady {
                log: name.to_owned(),
                requested: span(at_least_sec.into()),
                longest: format!(
                    "{} from {}{end_text}",
                    span(seconds as u64),
                    longest.window.from
                ),
                or: if has_two_lines(&series, longest.window) {
                    format!("allow shorter windows with --at-least {seconds}s")
                } else {
                    GIVE_LONGER.to_owned()
                },
            }
        })
}

/// The error of a log whose longest `stretch` is shorter than a cell.
fn too_short(
    log: &ServerLog,
    name: &str,
    at_least_sec: u32,
    stretch: (Timestamp, Timestamp),
) -> WindowError {
    let (begin, end) = stretch;
    let seconds = end.duration_since(begin).as_secs().unsigned_abs();
    WindowError::NotSteady {
        log: name.to_owned(),
        requested: span(at_least_sec.into()),
        longest: format!("{} from {begin}{}", span(seconds), log.left_out()),
        or: GIVE_LONGER.to_owned(),
    }
}

/// The part of `window` that `log` covers. Errors: the window ends before it begins, the log covers none of it, or the
/// window contains a restart.
pub fn check(log: &ServerLog, name: &str, window: LoadWindow) -> Result<LoadWindow, WindowError> {
    let (LoadWindow { from, to }, log_name) = (window, name.to_owned());
    let restart = log
        .restarts
        .iter()
        .copied()
        .find(|restart| *restart > from && *restart <= to);
    match (log.span, restart) {
        (None, _) => Err(WindowError::NoCounters {
            log: log_name,
            left_out: log.left_out(),
        }),
        _ if from >= to => Err(WindowError::Backwards { from, to }),
        (Some((first, last)), _) if to <= first || from >= last => Err(WindowError::OutsideLog {
            log: log_name,
            first,
            last,
            from,
            to,
        }),
        (_, Some(restart)) => Err(WindowError::Restarted {
            log: log_name,
            restart,
            from,
            to,
        }),
        (Some((first, last)), None) => Ok(LoadWindow {
            from: from.max(first),
            to: to.min(last),
        }),
    }
}

/// Describes a change in `window` that makes it unsteady, see [`UNSTEADY`].
pub fn unsteady(
    log: &ServerLog,
    name: &str,
    namespaces: &[String],
    window: LoadWindow,
) -> Option<String> {
    series(log, namespaces).into_iter().find_map(|series| {
        // Before the first and after the last line of the series, its rate is unknown, not 0.
        let from = window.from.max(series.points.first()?.0);
        let to = window.to.min(series.points.last()?.0);
        let sec = to.duration_since(from).as_secs();
        let rates = rates(&series, from, (sec.max(0) / CELL_SEC) as usize);
        let series_name = &series.name;
        let lowest = rates.iter().copied().fold(f64::INFINITY, f64::min);
        let largest = rates.iter().copied().fold(0.0, f64::max);
        (largest - lowest > UNSTEADY * largest + scatter(largest)).then(|| {
            format!(
                "node {name}: the window is not steady: {series_name} varied between {lowest:.0} and {largest:.0} per second - \
                 choose a steady window, or omit --from and --to to search for one"
            )
        })
    })
}

/// Counters that must be steady: record reads and writes by namespace, blocks written and read by device.
fn series(log: &ServerLog, namespaces: &[String]) -> Vec<CounterSeries> {
    let mut all_series = Vec::new();
    for namespace in namespaces {
        for histogram in ["device-read-size", "device-write-size", "read", "write"] {
            let name = format!("{{{namespace}}}-{histogram}");
            if let Some(dumps) = log.histograms.get(&name) {
                let points = dumps
                    .iter()
                    .map(|dump| (dump.timestamp, dump.total))
                    .collect();
                all_series.push(CounterSeries {
                    name,
                    points: without_steps(points, &log.clock_steps),
                });
            }
        }
    }
    for ((namespace, device), lines) in &log.drives {
        if namespaces.contains(namespace) || namespace.is_empty() {
            let lines = lines.iter();
            let writes = lines.clone().map(|line| (line.timestamp, line.writes));
            all_series.push(CounterSeries {
                name: format!("write of {device}"),
                points: without_steps(writes.collect(), &log.clock_steps),
            });
            let defrag_reads = lines.map(|line| (line.timestamp, line.defrag_reads));
            all_series.push(CounterSeries {
                name: format!("defrag-read of {device}"),
                points: without_steps(defrag_reads.collect(), &log.clock_steps),
            });
        }
    }
    all_series.retain(|series| series.points.len() > 1);
    all_series
}

/// Points as if the counter had grown across each clock step at the rate before the step: no rate spans a step.
fn without_steps(mut points: Vec<(Timestamp, u64)>, steps: &[Timestamp]) -> Vec<(Timestamp, u64)> {
    let mut rate = None;
    let mut previous = points.first().copied();
    let mut grown_by = 0.0;
    for point in points.iter_mut().skip(1) {
        let (previous_time, previous_value) = previous.replace(*point).unwrap_or(*point);
        let seconds = point.0.duration_since(previous_time).as_secs_f64();
        let grown = point.1 as f64 - previous_value as f64;
        match rate {
            Some(rate) if is_between(steps, previous_time, point.0) => {
                grown_by += rate * seconds - grown
            }
            _ => rate = Some((grown / seconds).max(0.0)),
        }
        point.1 = (point.1 as f64 + grown_by).round() as u64;
    }
    points
}

/// The stretches of time between `first` and `last` without a restart and without missing lines in any series.
fn whole_stretches(
    series: &[CounterSeries],
    restarts: &[Timestamp],
    first: Timestamp,
    last: Timestamp,
) -> Vec<(Timestamp, Timestamp)> {
    let mut holes: Vec<(Timestamp, Timestamp)> = restarts.iter().map(|at| (*at, *at)).collect();
    for series in series {
        let pairs = || series.points.windows(2).map(|pair| (pair[0].0, pair[1].0));
        let mut distances: Vec<_> = pairs()
            .map(|(one, other)| other.duration_since(one))
            .collect();
        distances.sort_unstable();
        // The usual distance depends on the server's ticker-interval, by default 10 s.
        let usual = distances
            .get(distances.len() / 2)
            .copied()
            .unwrap_or_default();
        let longest = (usual * LINES_MISSING).max(SignedDuration::from_secs(HOLE_SEC));
        holes.extend(pairs().filter(|(one, other)| other.duration_since(*one) > longest));
    }
    holes.sort_unstable();
    let mut stretches = Vec::new();
    let mut begin = first;
    for (from, to) in holes {
        if from > begin {
            stretches.push((begin, from.min(last)));
        }
        begin = begin.max(to);
    }
    stretches.push((begin, last));
    stretches.retain(|(begin, end)| begin < end);
    stretches
}

#[derive(Debug, Clone)]
struct SteadyWindow {
    window: LoadWindow,
    cells: usize,
    /// Sum of all rates.
    ops_per_sec: f64,
    /// Why the window could not be extended: the series that changed, its last rate in the window, and its next rate.
    ended_by: Option<(String, f64, f64)>,
}

impl SteadyWindow {
    /// The window of these `cells`, counted from `begin`.
    fn from_rates(rates: &[Vec<f64>], begin: Timestamp, cells: Range<usize>) -> Self {
        let cell = SignedDuration::from_secs(CELL_SEC);
        let mean = |rates: &Vec<f64>| rates[cells.clone()].iter().sum::<f64>() / cells.len() as f64;
        Self {
            window: LoadWindow {
                from: begin + cell * cells.start as i32,
                to: begin + cell * cells.end as i32,
            },
            cells: cells.len(),
            ops_per_sec: rates.iter().map(mean).sum(),
            ended_by: None,
        }
    }

    /// The window without its unsettled start and end, but never shorter than `at_least_sec`, and never without the two
    /// lines of each series that a rate needs.
    fn settled(&self, series: &[CounterSeries], at_least_sec: u32) -> LoadWindow {
        let spare_cells = self
            .cells
            .saturating_sub(at_least_sec.div_ceil(CELL_SEC as u32) as usize);
        let mut rates: Vec<Vec<f64>> = series
            .iter()
            .map(|series| rates(series, self.window.from, self.cells))
            .collect();
        let begin = unsettled_of_all(&rates, spare_cells.min(self.cells / 2));
        rates.iter_mut().for_each(|rates| rates.reverse());
        let end = unsettled_of_all(&rates, (spare_cells - begin).min(self.cells / 4));
        let cell = SignedDuration::from_secs(CELL_SEC);
        let settled = LoadWindow {
            from: self.window.from + cell * begin as i32,
            to: self.window.from + cell * (self.cells - end) as i32,
        };
        if has_two_lines(series, settled) {
            settled
        } else {
            self.window
        }
    }
}

/// The largest number of [`unsettled`] among the rates of all series.
fn unsettled_of_all(rates: &[Vec<f64>], count_max: usize) -> usize {
    let counts = rates.iter().map(|rates| unsettled(rates, count_max));
    counts.max().unwrap_or(0)
}

/// Number of leading values (at most `count_max`) to leave out: minimises the squared standard error of the mean.
fn unsettled(values: &[f64], count_max: usize) -> usize {
    let last = count_max.min(values.len().saturating_sub(2));
    let mut sum = 0.0;
    let mut squares = 0.0;
    let mut best = (f64::INFINITY, 0);
    for (cut, value) in values.iter().enumerate().rev() {
        (sum, squares) = (sum + value, squares + value * value);
        let n = (values.len() - cut) as f64;
        let error = (squares - sum * sum / n).max(0.0) / (n * n);
        if cut <= last && error <= best.0 {
            best = (error, cut);
        }
    }
    best.1
}

/// All steady windows between `begin` and `end` that cannot be extended.
fn steady_windows(series: &[CounterSeries], begin: Timestamp, end: Timestamp) -> Vec<SteadyWindow> {
    let cells = (end.duration_since(begin).as_secs() / CELL_SEC) as usize;
    let rates: Vec<Vec<f64>> = series
        .iter()
        .map(|series| rates(series, begin, cells))
        .collect();
    let mut bands: Vec<Band> = rates.iter().map(|rates| Band::new(rates)).collect();
    let mut windows = Vec::new();
    let mut first_cell = 0;
    for end_cell in 0..cells {
        bands.iter_mut().for_each(|band| band.push(end_cell));
        let mut left = bands.iter().position(|band| !band.holds());
        if let Some(left) = left.filter(|_| end_cell > first_cell) {
            let ended_by = (
                series[left].name.clone(),
                rates[left][end_cell - 1],
                rates[left][end_cell],
            );
            windows.push(SteadyWindow {
                ended_by: Some(ended_by),
                ..SteadyWindow::from_rates(&rates, begin, first_cell..end_cell)
            });
        }
        while left.is_some() {
            first_cell += 1;
            bands
                .iter_mut()
                .for_each(|band| band.drop_before(first_cell));
            left = bands.iter().position(|band| !band.holds());
        }
    }
    if cells > first_cell {
        let mut last = SteadyWindow::from_rates(&rates, begin, first_cell..cells);
        // The last line may be within a cell.
        last.window.to = end;
        windows.push(last);
    }
    windows
}

/// The rate of a series in each of `cells` from `begin`, interpolated linearly between lines.
fn rates(series: &CounterSeries, begin: Timestamp, cells: usize) -> Vec<f64> {
    let mut points = series
        .points
        .iter()
        .map(|(at, value)| (at.duration_since(begin).as_secs_f64(), *value as f64));
    let mut before = points.next().unwrap_or_default();
    let mut after = points.next().unwrap_or_default();
    let mut values = Vec::new();
    for edge in 0..=cells {
        let second = (edge as i64 * CELL_SEC) as f64;
        while after.0 < second
            && let Some(next) = points.next()
        {
            (before, after) = (after, next);
        }
        let share = ((second - before.0) / (after.0 - before.0)).clamp(0.0, 1.0);
        // Counters go back only at a restart, which is an edge of the searched period.
        values.push(before.1 + share * (after.1 - before.1).max(0.0));
    }
    values
        .windows(2)
        .map(|pair| (pair[1] - pair[0]).max(0.0) / CELL_SEC as f64)
        .collect()
}

/// Random error of a rate in a cell.
fn scatter(rate: f64) -> f64 {
    SCATTER * (rate * CELL_SEC as f64).sqrt() / CELL_SEC as f64
}

/// Minimum and maximum rate of a sliding window, each at the front of a queue sorted by rate.
struct Band<'a> {
    rates: &'a [f64],
    least: VecDeque<usize>,
    largest: VecDeque<usize>,
}

impl<'a> Band<'a> {
    fn new(rates: &'a [f64]) -> Self {
        Self {
            rates,
            least: VecDeque::new(),
            largest: VecDeque::new(),
        }
    }

    fn push(&mut self, cell: usize) {
        let rate = self.rates[cell];
        let rates = self.rates;
        // A later rate that is at least as extreme replaces earlier rates.
        let stays = self.least.partition_point(|other| rates[*other] < rate);
        self.least.truncate(stays);
        let stays = self.largest.partition_point(|other| rates[*other] > rate);
        self.largest.truncate(stays);
        self.least.push_back(cell);
        self.largest.push_back(cell);
    }

    fn drop_before(&mut self, cell: usize) {
        for queue in [&mut self.least, &mut self.largest] {
            let gone = queue.partition_point(|other| *other < cell);
            queue.drain(..gone);
        }
    }

    fn holds(&self) -> bool {
        let rate = |queue: &VecDeque<usize>| queue.front().map_or(0.0, |cell| self.rates[*cell]);
        let least = rate(&self.least);
        let largest = rate(&self.largest);
        largest - least <= BAND * largest + scatter(largest)
    }
}

/// Series without which there is no load.
fn needed(series: &[CounterSeries]) -> impl Iterator<Item = &CounterSeries> {
    series.iter().filter(|series| !is_of_clients(series))
}

/// True if each needed series has at least two lines within `window`: a rate is the difference of two.
fn has_two_lines(series: &[CounterSeries], window: LoadWindow) -> bool {
    needed(series).all(|series| {
        let inside = |point: &&(Timestamp, u64)| window.contains(point.0);
        series.points.iter().filter(inside).count() > 1
    })
}

/// True for a histogram of clients, which is logged only from the first transaction after a start on.
fn is_of_clients(series: &CounterSeries) -> bool {
    series.name.ends_with("}-read") || series.name.ends_with("}-write")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server_log::{Dump, HistogramUnit};

    /// A log with one histogram, dumped every 10 s. `phases`: rates per second, each with its duration in seconds.
    fn log(phases: &[(u64, i64)]) -> ServerLog {
        let mut total = 0;
        let mut second = 0;
        let mut dumps = Vec::new();
        let mut dump = |second: i64, total: u64| {
            let at = Timestamp::from_second(second).unwrap();
            dumps.push(Dump {
                timestamp: at,
                unit: HistogramUnit::Bytes,
                total,
                buckets: vec![0, total],
            });
        };
        for (rate, seconds) in phases {
            for _ in 0..seconds / 10 {
                dump(second, total);
                (total, second) = (total + rate * 10, second + 10);
            }
        }
        dump(second, total);
        let span = Some((
            Timestamp::UNIX_EPOCH,
            Timestamp::from_second(second).unwrap(),
        ));
        let histograms = [("{test}-device-read-size".to_owned(), dumps)].into();
        ServerLog {
            histograms,
            span,
            ..ServerLog::default()
        }
    }

    fn found(log: &ServerLog, at_least_sec: u32) -> Result<(i64, i64), WindowError> {
        let window = find(
            log,
            "a.log",
            &["test".to_owned()],
            at_least_sec,
            (None, None),
        )?;
        Ok((window.from.as_second(), window.to.as_second()))
    }

    #[test]
    fn the_busiest_window_that_is_long_enough_is_taken() {
        let day = log(&[
            (100, 600),
            (9000, 100),
            (5000, 400),
            (4900, 300),
            (1000, 1000),
        ]);
        assert_eq!(
            found(&day, 180),
            Ok((700, 1400)),
            "not the longest, and not the short burst"
        );
        assert_eq!(
            found(&day, 60),
            Ok((600, 700)),
            "the burst, if that is long enough"
        );
        assert_eq!(found(&day, 900), Ok((1400, 2400)));
    }

    #[test]
    fn a_changing_load_has_no_window_and_the_error_names_the_change() {
        let rises: Vec<_> = (1..20).map(|n| (1000 * n, 20)).collect();
        let error = found(&log(&rises), 180).unwrap_err().to_string();
        assert!(
            error.contains("no steady window of at least 3 min")
                && error.contains("{test}-device-read-size"),
            "{error}"
        );
        assert!(error.contains("--at-least"), "{error}");
        assert!(matches!(
            found(&log(&[(5, 0)]), 60),
            Err(WindowError::NoCounters { .. })
        ));
    }

    #[test]
    fn the_unsettled_start_of_a_window_is_cut_off() {
        let steady = [10.0, 10.2, 9.8, 10.1, 9.9, 10.0, 10.2, 9.8];
        assert_eq!(unsettled(&[&[7.0, 9.0], &steady[..]].concat(), 5), 2);
        assert_eq!(
            unsettled(&[&[7.0, 9.0], &steady[..]].concat(), 1),
            1,
            "at most count_max"
        );
        assert_eq!(unsettled(&[5.0; 9], 4), 0);
        assert_eq!(unsettled(&[], 4), 0);
        let slow_start = log(&[(850, 60), (1000, 600)]);
        assert_eq!(found(&slow_start, 180), Ok((60, 660)));
    }

    #[test]
    fn two_lines_far_apart_make_a_window_and_two_lines_close_together_are_too_short() {
        let two_lines = |seconds: i64| {
            let mut log = log(&[(13, 20)]);
            let dumps = log.histograms.values_mut().next().unwrap();
            dumps.truncate(2);
            dumps[1].timestamp = Timestamp::from_second(seconds).unwrap();
            dumps[1].total = 3531;
            log
        };
        for seconds in [240, 245, 7001] {
            assert_eq!(found(&two_lines(seconds), 180), Ok((0, seconds)));
        }
        let error = found(&two_lines(10), 180).unwrap_err().to_string();
        assert!(
            error.contains(
                "at least 3 min - the longest was 10 s from 1970-01-01T00:00:00Z - choose"
            ),
            "{error}"
        );
    }

    #[test]
    fn the_scatter_of_small_counts_does_not_make_a_window_unsteady() {
        // At three blocks a second, a cell has 40 to 80 blocks by chance.
        assert_eq!(
            found(&log(&[(2, 60), (4, 60), (3, 100), (2, 60), (4, 60)]), 180),
            Ok((0, 340))
        );
    }

    #[test]
    fn a_hole_in_the_log_is_not_steady() {
        let mut holed = log(&[(1000, 300), (5000, 900), (1000, 300)]);
        // A rotated file with 600 s of the 900 s is missing.
        let dumps = holed.histograms.values_mut().next().unwrap();
        dumps.retain(|dump| !(400..1000).contains(&dump.timestamp.as_second()));
        let (from, to) = found(&holed, 180).unwrap();
        assert!(to <= 390 || from >= 1000, "{from} to {to}");
        let mut far = log(&[(1000, 300)]);
        let dumps = far.histograms.values_mut().next().unwrap();
        let mut last = dumps.last().unwrap().clone();
        last.timestamp = "9026-01-01T00:00:00Z".parse().unwrap();
        dumps.push(last);
        assert_eq!(
            found(&far, 180),
            Ok((0, 300)),
            "a hole of seven thousand years is skipped"
        );
    }

    #[test]
    fn no_window_contains_a_restart() {
        let mut twice = log(&[(1000, 800)]);
        let restart = Timestamp::from_second(505).unwrap();
        twice.restarts.push(restart);
        let dumps = twice.histograms.values_mut().next().unwrap();
        dumps
            .iter_mut()
            .filter(|dump| dump.timestamp > restart)
            .for_each(|dump| dump.total -= 500_000);
        let (from, to) = found(&twice, 180).unwrap();
        assert!(to <= 505 && to - from >= 460, "{from} to {to}");
        let across = LoadWindow {
            from: Timestamp::UNIX_EPOCH,
            to: Timestamp::from_second(700).unwrap(),
        };
        let error = check(&twice, "a.log", across).unwrap_err().to_string();
        assert!(error.contains("was restarted at"), "{error}");
        let later = |second| Timestamp::from_second(second).unwrap();
        assert!(
            check(
                &twice,
                "a.log",
                LoadWindow {
                    from: later(510),
                    to: later(700)
                }
            )
            .is_ok()
        );
        let beyond = check(
            &twice,
            "a.log",
            LoadWindow {
                from: later(510),
                to: later(5000),
            },
        )
        .unwrap();
        assert_eq!(beyond.to, twice.span.unwrap().1, "the log ends there");
        let elsewhere = LoadWindow {
            from: later(5000),
            to: later(6000),
        };
        assert!(matches!(
            check(&twice, "a.log", elsewhere),
            Err(WindowError::OutsideLog { .. })
        ));
    }
}
