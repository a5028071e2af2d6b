//! Progress line of a run: rate, lag, p99, errors, time left.

use crate::console::{self, columns, fitted};

use results::cell::{Interval, Latencies, Layout, add_latencies, latencies};
use results::format::{self, clock};
use results::run_dir::{Manifest, time_left};
use std::io;
use std::time::{Duration, Instant};

const NS_PER_SEC: u64 = 1_000_000_000;

/// Refresh interval of the line on a terminal: simulated intervals pass faster than anyone can read.
pub const REFRESH_INTERVAL: Duration = Duration::from_millis(200);

/// Interval between progress lines if standard error is not a terminal.
pub const PROGRESS_INTERVAL: Duration = Duration::from_secs(10);

/// Interval between progress lines of a step of a series, if standard error is not a terminal. Steps shorter than this
/// interval print only their result line.
const ADD_IN_SERIES: Duration = Duration::from_secs(600);

pub struct RunProgress {
    layout: Layout,
    /// Prefix of each line: `stage 2 of 4, ends about 14:05 UTC`.
    heading: Option<String>,
    duration_ns: u64,
    /// Number of operations after which the run ends; `None`: only the duration ends the run.
    operations: Option<u64>,
    done_ops: u64,
    /// True if standard error is a terminal, on which one line is redrawn.
    is_terminal: bool,
    is_simulated: bool,
    is_quiet: bool,
    printed_at: Option<Instant>,
    since_last_line: SinceLastLine,
    errors: u64,
}

struct SinceLastLine {
    from_ns: u64,
    ops: u64,
    lag: Latencies,
    judged: Latencies,
}

impl SinceLastLine {
    fn from(from_ns: u64) -> Self {
        Self {
            from_ns,
            ops: 0,
            lag: latencies(),
            judged: latencies(),
        }
    }
}

impl RunProgress {
    /// Progress of the run of `manifest`, with the `heading` of a step before each line.
    pub fn new(manifest: &Manifest, is_quiet: bool, heading: Option<String>) -> Self {
        let is_terminal = console::stderr_is_terminal();
        Self {
            layout: manifest.layout(),
            duration_ns: manifest.duration_sec.saturating_mul(NS_PER_SEC),
            operations: manifest.operations,
            done_ops: 0,
            is_terminal,
            is_simulated: manifest.simulated,
            is_quiet,
            printed_at: (heading.is_some() && !is_terminal).then(Instant::now),
            heading,
            since_last_line: SinceLastLine::from(0),
            errors: 0,
        }
    }

    /// True for a step of a series. The series prints the result of the step, and the directory of all steps.
    pub fn is_step(&self) -> bool {
        self.heading.is_some()
    }

    pub fn interval(&mut self, interval: &Interval) {
        if self.is_quiet {
            return;
        }
        self.add(interval);
        let pause = if self.is_terminal {
            REFRESH_INTERVAL
        } else if self.is_step() {
            ADD_IN_SERIES
        } else {
            PROGRESS_INTERVAL
        };
        if self
            .printed_at
            .is_some_and(|printed_at| printed_at.elapsed() < pause)
        {
            return;
        }
        self.printed_at = Some(Instant::now());
        show(self.is_terminal, |columns| {
            self.line(interval.end_ns, columns)
        });
        self.since_last_line = SinceLastLine::from(interval.end_ns);
    }

    fn add(&mut self, interval: &Interval) {
        let devices = self.layout.devices.len();
        for (index, cell) in interval
            .cells
            .iter()
            .enumerate()
            .filter(|(_, cell)| cell.counts.counted_ops() > 0)
        {
            let stream = &self.layout.streams[index / devices];
            if !stream.commits {
                self.since_last_line.ops += cell.counts.ops;
                self.errors += cell.counts.errors;
                self.done_ops += cell.counts.ops + cell.counts.errors;
            }
            add_latencies(&mut self.since_last_line.lag, &cell.lag);
            if stream.judged {
                add_latencies(&mut self.since_last_line.judged, &cell.service);
            }
        }
    }

    fn line(&self, end_ns: u64, columns: usize) -> String {
        let seconds = (end_ns - self.since_last_line.from_ns) as f64 / 1e9;
        let rate = if seconds > 0.0 {
            self.since_last_line.ops as f64 / seconds
        } else {
            0.0
        };
        let p99 = |of: &Latencies| format!("{:.3} ms", of.value_at_quantile(0.99) as f64 / 1e6);
        let errors = if self.errors > 0 {
            format::count(self.errors, "error")
        } else {
            String::new()
        };
        let (done_text, left_ns) = match self.operations {
            None => (String::new(), Some(self.duration_ns.saturating_sub(end_ns))),
            Some(total_ops) => (
                format!(
                    "{} of {}",
                    format::Grouped(self.done_ops),
                    format::Grouped(total_ops)
                ),
                time_left(total_ops, self.done_ops, end_ns as f64)
                    .map(|ns| (ns as u64).min(self.duration_ns.saturating_sub(end_ns))),
            ),
        };
        let left_text = left_ns.map_or_else(|| "--:--:--".to_owned(), |ns| clock(ns / NS_PER_SEC));
        let parts = [
            (4, self.heading.clone().unwrap_or_default()),
            (4, clock(end_ns / NS_PER_SEC)),
            (4, done_text),
            (3, format!("{rate:.0} ops/s")),
            (
                2,
                format!("service p99 {}", p99(&self.since_last_line.judged)),
            ),
            (1, format!("lag p99 {}", p99(&self.since_last_line.lag))),
            (6, errors),
            (
                5,
                format!(
                    "{left_text} left{}",
                    if self.is_simulated {
                        ", of simulated time"
                    } else {
                        ""
                    }
                ),
            ),
        ];
        fitted(&parts, columns)
    }

    /// Ends the line, so that the next text starts on a new line. Erases the line of a step, for the step's result.
    pub fn end(&mut self) {
        if self.printed_at.take().is_none() || !self.is_terminal {
            return;
        }
        if self.is_step() {
            console::draw("\r\x1b[K".to_owned(), true);
        } else {
            console::note("");
        }
    }
}

/// Redraws the line on a terminal, no wider than the terminal; elsewhere, prints the whole line.
fn show(is_terminal: bool, line: impl Fn(usize) -> String) {
    if is_terminal {
        console::draw(format!("\r{}\x1b[K", line(columns(io::stderr()))), false)
    } else {
        console::note(&line(usize::MAX - 2))
    }
}

pub struct WriteProgress {
    label: String,
    total_bytes: u64,
    done_bytes: u64,
    began: Instant,
    printed_at: Instant,
    is_terminal: bool,
}

impl WriteProgress {
    /// The clock is read after each further 8 MiB, not after each write.
    const LOOK_BYTES: u64 = 8 << 20;

    pub fn new(label: String, total_bytes: u64) -> Self {
        let began = Instant::now();
        Self {
            label,
            total_bytes,
            done_bytes: 0,
            began,
            printed_at: began,
            is_terminal: console::stderr_is_terminal(),
        }
    }

    pub fn add(&mut self, bytes: u64) {
        let looks = |bytes| bytes / Self::LOOK_BYTES;
        let before = self.done_bytes;
        self.done_bytes += bytes;
        let pause = if self.is_terminal {
            REFRESH_INTERVAL
        } else {
            PROGRESS_INTERVAL
        };
        if looks(before) == looks(self.done_bytes)
            || console::is_quiet()
            || self.printed_at.elapsed() < pause
        {
            return;
        }
        self.printed_at = Instant::now();
        let rate = self.done_bytes as f64 / self.began.elapsed().as_secs_f64();
        let left_sec = self.total_bytes.saturating_sub(self.done_bytes) as f64 / rate;
        let line = format!(
            "{}: {} % of {} written, {}/s, about {} left",
            self.label,
            (u128::from(self.done_bytes) * 100 / u128::from(self.total_bytes.max(1))).min(100),
            format::bytes(self.total_bytes as f64),
            format::bytes(rate),
            format::span_about(left_sec)
        );
        show(self.is_terminal, |columns| {
            line.chars().take(columns).collect()
        });
    }

    pub fn end(&self) {
        if self.is_terminal && self.printed_at > self.began {
            console::note("");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use results::testing::layout;
    use results::times::Times;
    use results::{assert_ends_with, assert_starts_with};

    #[test]
    fn the_progress_line_shows_rate_p99_lag_errors_and_time_left() {
        let layout = Layout {
            thresholds_ns: [1_000_000].into(),
            ..layout(&[("reads", true)], 2.0, ["x"])
        };
        let manifest = Manifest {
            duration_sec: 3_600,
            ..Manifest::new(&layout, "5%>1ms".parse().unwrap())
        };
        let mut progress = RunProgress::new(&manifest, true, None);
        let mut interval = Interval::new(&layout);
        interval.end_ns = 2_000_000_000;
        for _ in 0..8 {
            interval.cells[0].record(&Times::new(0, 0, 50_000, 1_050_000), 0, 512);
        }
        interval.cells[0].record_errors(1, 0);
        progress.add(&interval);
        assert_eq!(
            progress.line(interval.end_ns, 100),
            "00:00:02  4 ops/s  service p99 1.004 ms  lag p99 0.050 ms  1 error  00:59:58 left"
        );
        let found = progress.line(interval.end_ns, 40);
        assert_eq!(found, "00:00:02  1 error  00:59:58 left");

        // 9 of 90 operations took 2 s, so the other 81 take 18 s, whatever the duration limit is.
        progress.operations = Some(90);
        assert_starts_with!(
            progress.line(interval.end_ns, 100),
            "00:00:02  9 of 90  4 ops/s"
        );
        assert_ends_with!(progress.line(interval.end_ns, 100), "00:00:18 left");
        progress.done_ops = 0;
        assert!(
            progress
                .line(interval.end_ns, 100)
                .ends_with("--:--:-- left"),
            "nothing says how long it takes"
        );
    }
}
