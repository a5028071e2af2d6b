//! Charts of the candidates over time: p99.9 and achieved rate of the judged stream. All runs start at 0.
//!
//! The charts show p99.9, because ACT's strictest limit is for 0.1 % of the reads: a stall that fails a run may leave
//! p99 unchanged.
//!
//! A series is drawn by its representative run. The directory of this run is read only for a page, because reading the
//! intervals of a day takes long.

use super::{Candidate, ValueOrReason};
use crate::charts::latency::quantile_line;
use crate::charts::timeline::{BinStatistic, Timeline};
use crate::charts::windows::{P99_9, Windows};
use crate::charts::{Axis, Chart, ChartResolution, Line, Points};
use crate::words::unique;
use conclusions::grouped;
use results::format;
use results::run_dir::{self, HlogKind, RunDirError};

/// More lines in one chart hide each other.
const LINES_MAX: usize = 8;

/// Charts of the first [`LINES_MAX`] candidates with a run; empty without such a candidate.
pub(super) fn charts(candidates: &[Candidate]) -> Vec<Chart> {
    let with_run = candidates.iter().filter(|of| of.p99.value().is_some());
    let detail = ChartResolution::of_runs(with_run.count().min(LINES_MAX));
    let mut drawn = Vec::new();
    let mut not_drawn = Vec::new();
    for (index, candidate) in candidates.iter().enumerate() {
        let read = match &candidate.p99 {
            ValueOrReason::Missing { why_not } => Err(why_not.clone()),
            _ if drawn.len() == LINES_MAX => Err(format!(
                "only {LINES_MAX} candidates are drawn; to draw others, name them first"
            )),
            ValueOrReason::Value(p99) => {
                lines(candidate, index, &p99.stream, detail).map_err(|error| error.to_string())
            }
        };
        match read {
            Ok(lines) => drawn.extend(lines),
            Err(why) => not_drawn.push((why, candidate.name.as_str())),
        }
    }
    if drawn.is_empty() {
        return Vec::new();
    }
    let rest = grouped(not_drawn).into_iter();
    let rest = rest.map(|(why, names)| format!(" Not drawn: {}: {why}.", names.join(", ")));
    let rest: String = rest.collect();
    let (p99_9, rates): (Vec<Line>, Vec<Line>) = drawn.into_iter().unzip();
    let y = Axis::log("service time", "ms");
    let mut latency = Chart::over_time("p99-9-over-time", "p99.9 over time", y);
    let (ms, place) = highest(&p99_9, 1.0);
    latency.key = format!("Longest: {}{place}", format::milliseconds(ms));
    latency.caption = format!("Each point is the p99.9 of {}.{rest}", spans(&p99_9));
    latency.lines = p99_9;
    let y = Axis::linear("operations per second", "/s");
    let mut rate = Chart::over_time("rate-over-time", "Achieved rate over time", y);
    let (per_sec, place) = highest(&rates, -1.0);
    rate.key = format!("Lowest: {}/s{place}", format::number(per_sec));
    rate.caption = format!("Each point is the mean of {}.{rest}", spans(&rates));
    rate.lines = rates;
    latency.wide = true;
    rate.wide = true;
    vec![latency, rate]
}

/// The lines of p99.9 and of the achieved rate of `stream`.
fn lines(
    candidate: &Candidate,
    index: usize,
    stream: &str,
    detail: ChartResolution,
) -> Result<Option<(Line, Line)>, RunDirError> {
    let Candidate { name, run_dir, .. } = candidate;
    let manifest = run_dir::manifest(run_dir)?;
    let timeline = Timeline::read(run_dir, &manifest, detail)?;
    let ran_sec = candidate.test.value().map_or(0.0, |test| test.ran_sec);
    let layout = manifest.layout();
    let windows = Windows::read(run_dir, &layout, HlogKind::Service, ran_sec, detail, false);
    let mut streams = manifest.streams.iter();
    let judged = streams.position(|known| known.name == stream);
    Ok(judged.map(|judged| {
        let durations = &windows.streams[judged];
        let achieved = timeline.streams[judged].achieved.values(BinStatistic::Mean);
        let latency = quantile_line(name, P99_9, index, &windows, durations);
        (latency, timeline.line(name, achieved, index))
    }))
}

/// The value for which `value * sign` is highest, and its candidate and time.
fn highest(lines: &[Line], sign: f64) -> (f64, String) {
    let points = lines.iter().flat_map(|line| {
        let numbered = line.y.iter().enumerate();
        numbered.filter_map(move |(at, value)| Some(((*value)?, line, at)))
    });
    // Reversed, because `max_by` returns the last of equal values, and the first counts.
    let highest = points
        .rev()
        .max_by(|a, b| (a.0 * sign).total_cmp(&(b.0 * sign)));
    highest.map_or_else(Default::default, |(value, line, at)| {
        let at = format::span_of(step_sec(line) * (at + 1) as f64);
        (value, format!(" of {}, at {at}.", line.name))
    })
}

fn step_sec(line: &Line) -> f64 {
    match line.x {
        Points::Even { step, .. } => step,
        Points::Each(_) => 0.0,
    }
}

/// Time per chart point: `10 s`, or `10 s or 30 s` if runs of different lengths are compared.
fn spans(lines: &[Line]) -> String {
    unique(lines.iter().map(|line| format::span_of(step_sec(line)))).join(" or ")
}
