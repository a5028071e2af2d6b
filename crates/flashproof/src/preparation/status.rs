//! Progress of a preparation, and its display: a bar per device, periodic lines, or ACT's plain lines.
//!
//! The job's thread reports, not the issuing thread, so that a sync delays no write.

use super::ledger::Ledger;
use device::guard::PreparationRecord;
use load::run::{FailedOperation, Sink, SinkError};
use results::cell::Interval;
use results::format::{clock, printable};
use session::console::{self, columns};
use session::failure::Failure;
use session::progress::PROGRESS_INTERVAL;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Weight of the newest interval in the rate: the rate covers about the last two seconds.
const NEWEST: f64 = 0.05;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum PrepStep {
    #[default]
    Waiting,
    Discard,
    Zeros,
    /// Writing random data; the number of the random fill, from 1 on.
    Salt(u32),
    ReadBack,
    Done,
    /// Ended early by a failure or by the user.
    BrokenOff,
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Status {
    pub step: PrepStep,
    /// Bytes of this step: done, and in total.
    pub done_bytes: u64,
    pub step_bytes: u64,
    /// Bytes of later steps.
    pub later_bytes: u64,
    /// Bytes per second; none before the first interval.
    pub rate: Option<f64>,
}

impl Status {
    /// Seconds until all steps are done, at the current rate.
    pub(super) fn left_s(&self) -> Option<u64> {
        let left_bytes =
            (self.step_bytes.saturating_sub(self.done_bytes) + self.later_bytes) as f64;
        self.rate
            .filter(|rate| *rate > 0.0)
            .map(|rate| (left_bytes / rate) as u64)
    }

    /// Share of this step that is done, percent, rounded down.
    pub(super) fn pct(&self) -> u64 {
        (u128::from(self.done_bytes) * 100)
            .checked_div(self.step_bytes.into())
            .map_or(0, |pct| pct.min(100) as u64)
    }
}

/// Status written by the job's thread and read by others.
#[derive(Debug, Clone, Default)]
pub(super) struct SharedStatus(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    current: Status,
    /// Steps begun, in order.
    begun_steps: Vec<PrepStep>,
}

impl SharedStatus {
    /// Begins a step of `step_bytes`, of which `done_bytes` are done. `later_bytes`: bytes of later steps.
    pub(super) fn begin(&self, step: PrepStep, step_bytes: u64, done_bytes: u64, later_bytes: u64) {
        let mut inner = self.lock();
        inner.current = Status {
            step,
            done_bytes,
            step_bytes,
            later_bytes,
            rate: None,
        };
        inner.begun_steps.push(step);
    }

    pub(super) fn add(&self, bytes: u64, ns: u64) {
        let status = &mut self.lock().current;
        status.done_bytes = status.step_bytes.min(status.done_bytes + bytes);
        if ns > 0 {
            let newest = bytes as f64 * 1e9 / ns as f64;
            status.rate = Some(
                status
                    .rate
                    .map_or(newest, |rate| rate + (newest - rate) * NEWEST),
            );
        }
    }

    pub(super) fn set_done(&self, done_bytes: u64) {
        self.lock().current.done_bytes = done_bytes;
    }

    pub(super) fn end(&self, is_done: bool) {
        self.lock().current.step = if is_done {
            PrepStep::Done
        } else {
            PrepStep::BrokenOff
        };
    }

    pub(super) fn now(&self) -> Status {
        self.lock().current
    }

    pub(super) fn begun(&self) -> Vec<PrepStep> {
        self.lock().begun_steps.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Cells of a bar.
const WIDTH: u64 = 24;

/// Longest name shown without truncation.
const NAME_MAX: usize = 28;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgressStyle {
    Quiet,
    /// Bars on standard error; lines if standard error is not a terminal.
    Bars,
    /// Plain lines on standard output: each step, and each tenth of a step.
    Plain,
}

impl ProgressStyle {
    pub fn from_quiet(quiet: bool) -> Self {
        if quiet { Self::Quiet } else { Self::Bars }
    }
}

pub(super) struct ProgressBars {
    style: ProgressStyle,
    is_terminal: bool,
    is_simulated: bool,
    names: Vec<String>,
    status: Vec<SharedStatus>,
    /// Number of lines that the next drawing overwrites.
    drawn_lines: usize,
    last_print: Option<Instant>,
    /// For each device, the number of steps printed and the last tenth printed.
    printed: Vec<(usize, u64)>,
}

impl ProgressBars {
    /// Bars for devices by name. If `is_simulated`, times are marked as simulated time.
    pub(super) fn new(
        style: ProgressStyle,
        names: &[String],
        status: Vec<SharedStatus>,
        is_simulated: bool,
    ) -> Self {
        let terminal = console::stderr_is_terminal();
        let printed = vec![(0, 0); names.len()];
        Self {
            style,
            is_terminal: terminal,
            is_simulated,
            names: names.to_vec(),
            status,
            drawn_lines: 0,
            last_print: None,
            printed,
        }
    }

    pub(super) fn draw(&mut self) {
        match self.style {
            ProgressStyle::Quiet => {}
            ProgressStyle::Plain => self.print_plain(),
            ProgressStyle::Bars if self.is_terminal => self.redraw(),
            ProgressStyle::Bars => {
                if self
                    .last_print
                    .is_none_or(|added| added.elapsed() >= PROGRESS_INTERVAL)
                {
                    // There is no rate yet at the first call.
                    if self.last_print.replace(Instant::now()).is_some() {
                        self.lines().iter().for_each(|line| console::note(line));
                    }
                }
            }
        }
    }

    fn redraw(&mut self) {
        let mut text = String::new();
        if self.drawn_lines > 0 {
            text += &format!("\x1b[{}A", self.drawn_lines);
        }
        let lines = self.lines();
        // Lines are truncated, because a wrapped line would still count as one line.
        let width = columns(io::stderr());
        for line in &lines {
            text.push('\r');
            text.extend(printable(line).chars().take(width));
            text.push_str("\x1b[K\n");
        }
        console::draw(text, self.drawn_lines == 0);
        self.drawn_lines = lines.len();
    }

    fn lines(&self) -> Vec<String> {
        let width = self
            .names
            .iter()
            .map(|name| name.len().min(NAME_MAX))
            .max()
            .unwrap_or(0);
        let lines = self.names.iter().zip(&self.status);
        lines
            .map(|(name, status)| line(name, width, &status.now(), self.is_simulated))
            .collect()
    }

    /// Prints new steps and tenths on standard output.
    fn print_plain(&mut self) {
        for ((name, status), printed) in self.names.iter().zip(&self.status).zip(&mut self.printed)
        {
            let current = status.now();
            let begun_steps = status.begun();
            let mut text = String::new();
            for action in begun_steps[printed.0..]
                .iter()
                .filter_map(|step| doing(*step))
            {
                text += &format!("{action} device {name}\n");
                printed.1 = 0;
            }
            printed.0 = begun_steps.len();
            let tenth = current.pct() / 10;
            if let Some(action) = doing(current.step).filter(|_| tenth > printed.1) {
                printed.1 = tenth;
                text += &format!("{action} device {name}: {} %\n", tenth * 10);
            }
            // An output error must not leave a device half prepared.
            let _ = console::result(&text);
        }
    }
}

/// Name of a step in ACT's output.
fn doing(step: PrepStep) -> Option<&'static str> {
    Some(match step {
        PrepStep::Waiting | PrepStep::Done | PrepStep::BrokenOff => return None,
        PrepStep::Discard => "discarding",
        PrepStep::Zeros => "cleaning",
        PrepStep::Salt(_) => "salting",
        PrepStep::ReadBack => "checking",
    })
}

fn line(name: &str, width: usize, status: &Status, is_simulated: bool) -> String {
    let tail = name.len().saturating_sub(NAME_MAX);
    let name = name.get(tail..).unwrap_or(name);
    let step = match status.step {
        PrepStep::Waiting => "waiting".to_owned(),
        PrepStep::Done => return format!("{name:width$}  done"),
        PrepStep::BrokenOff => return format!("{name:width$}  ended early"),
        PrepStep::Discard => "discard".to_owned(),
        PrepStep::Zeros => "zeros".to_owned(),
        PrepStep::Salt(number) => format!("fill {number}"),
        PrepStep::ReadBack => "read back".to_owned(),
    };
    let pct = status.pct();
    let full = (pct * WIDTH / 100) as usize;
    let bar = format!("{}{}", "#".repeat(full), ".".repeat(WIDTH as usize - full));
    let rate = status
        .rate
        .map_or_else(|| "-".to_owned(), |rate| format!("{:.0}", rate / 1e6));
    let left = status.left_s().map_or_else(|| "--:--:--".to_owned(), clock);
    let clock_note = if is_simulated {
        ", of simulated time"
    } else {
        ""
    };
    format!("{name:width$}  {step:9}  [{bar}] {pct:3} %  {rate:>6} MB/s  {left} left{clock_note}")
}

/// Receives the results of a run: progress for the screen and the record, and the first failure.
pub(super) struct Tracker<'a> {
    pub prepared: &'a mut PreparationRecord,
    pub ledger: &'a Ledger,
    pub status: &'a SharedStatus,
    /// Bytes of the pass that are written so far, for the record; `None`: nothing is recorded.
    pub mark: Option<&'a AtomicU64>,
    pub last_record: Instant,
    /// End of the last interval, by the run's clock.
    pub ended_ns: u64,
    pub failure: Option<String>,
    pub record_error: Option<Failure>,
}

impl Sink for Tracker<'_> {
    fn interval(&mut self, interval: &Interval) -> Result<(), SinkError> {
        let bytes = interval.cells.iter().map(|cell| cell.counts.bytes).sum();
        self.status
            .add(bytes, interval.end_ns.saturating_sub(self.ended_ns));
        self.ended_ns = interval.end_ns;
        let Some(mark) = self.mark.map(|mark| mark.load(Ordering::Acquire)) else {
            return Ok(());
        };
        if self.last_record.elapsed() < self.ledger.checkpoint_interval
            || self.ledger.target.is_none()
        {
            return Ok(());
        }
        // Data before the mark are written; this call syncs them before it records the mark.
        let result = self.ledger.checkpoint(self.prepared, mark);
        self.last_record = Instant::now();
        result.map_err(|broken| {
            let why = broken.message.clone();
            self.record_error = Some(broken);
            why.into()
        })
    }

    fn failure(&mut self, failure: &FailedOperation) {
        let FailedOperation {
            kind,
            offset,
            len,
            error,
            ..
        } = failure;
        let kind = format!("{kind:?}").to_lowercase();
        self.failure.get_or_insert_with(|| {
            format!(
                "{kind} of {len} bytes at byte {offset} of {} failed: {error}",
                self.prepared.path
            )
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_includes_the_later_passes() {
        let shared = SharedStatus::default();
        shared.begin(PrepStep::Zeros, 1_000, 200, 1_000);
        assert_eq!(shared.now().left_s(), None, "no rate yet");
        shared.add(300, 3_000_000_000);
        let now = shared.now();
        assert_eq!(
            (now.done_bytes, now.pct(), now.rate, now.left_s()),
            (500, 50, Some(100.0), Some(15))
        );
        shared.add(0, 1_000_000_000);
        assert_eq!(shared.now().rate, Some(95.0));
    }

    #[test]
    fn the_progress_bar_shows_the_step_the_percentage_the_rate_and_the_time_left() {
        let status = Status {
            step: PrepStep::Salt(2),
            done_bytes: 25,
            step_bytes: 100,
            later_bytes: 100,
            rate: Some(1.0),
        };
        let line = |status| line("/dev/x", 8, &status, false);
        assert_eq!(
            line(status),
            "/dev/x    fill 2     [######..................]  25 %       0 MB/s  00:02:55 left"
        );
        let begun = Status {
            rate: None,
            done_bytes: 0,
            step: PrepStep::Zeros,
            ..status
        };
        assert_eq!(
            line(begun),
            "/dev/x    zeros      [........................]   0 %       - MB/s  --:--:-- left"
        );
        assert_eq!(
            line(Status {
                step: PrepStep::Done,
                ..status
            }),
            "/dev/x    done"
        );
        assert_eq!(
            line(Status {
                step: PrepStep::BrokenOff,
                ..status
            }),
            "/dev/x    ended early"
        );
    }
}
