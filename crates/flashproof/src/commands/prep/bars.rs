//! The screen of a preparation: a bar a device, a line now and then, or ACT's plain lines.

use super::status::{Shared, Status, Step};
use crate::console;
use crate::screen::columns;
use results::units::clock;
use results::units::printable;
use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

/// How often lines are added where standard error is no terminal.
const ADD: Duration = Duration::from_secs(10);

/// Cells of a bar.
const WIDTH: u64 = 24;

/// Longest name shown whole.
const NAME_MAX: usize = 28;

/// How progress is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// Not at all.
    Quiet,
    /// Bars on standard error, or lines where that is no terminal.
    Bars,
    /// Plain lines on standard output: each step, and each tenth of it.
    Plain,
}

/// Shows how the devices go.
pub struct Bars {
    style: Style,
    terminal: bool,
    simulated: bool,
    names: Vec<String>,
    status: Vec<Shared>,
    /// Lines that the next drawing goes over.
    drawn: usize,
    added: Option<Instant>,
    /// Of each device, how many steps were told, and the last tenth.
    told: Vec<(usize, u64)>,
}

impl Bars {
    /// Bars for devices by name. Time passes faster on `simulated` drives.
    pub fn new(style: Style, names: &[String], status: Vec<Shared>, simulated: bool) -> Self {
        let terminal = io::stderr().is_terminal();
        let told = vec![(0, 0); names.len()];
        Self { style, terminal, simulated, names: names.to_vec(), status, drawn: 0, added: None, told }
    }

    /// Shows what there is to show now.
    pub fn draw(&mut self) {
        match self.style {
            Style::Quiet => {}
            Style::Plain => self.tell(),
            Style::Bars if self.terminal => self.redraw(),
            Style::Bars => {
                if self.added.is_none_or(|added| added.elapsed() >= ADD) {
                    // Nothing is known of the first moment.
                    if self.added.replace(Instant::now()).is_some() {
                        self.lines().iter().for_each(|line| console::note(line));
                    }
                }
            }
        }
    }

    fn redraw(&mut self) {
        let mut text = String::new();
        if self.drawn > 0 {
            text += &format!("\x1b[{}A", self.drawn);
        }
        let lines = self.lines();
        // A line that is broken in two would be counted as one.
        let width = columns(io::stderr());
        for line in &lines {
            text.push('\r');
            text.extend(printable(line).chars().take(width));
            text.push_str("\x1b[K\n");
        }
        console::draw(text, self.drawn == 0);
        self.drawn = lines.len();
    }

    fn lines(&self) -> Vec<String> {
        let width = self.names.iter().map(|name| name.len().min(NAME_MAX)).max().unwrap_or(0);
        let lines = self.names.iter().zip(&self.status);
        lines.map(|(name, status)| line(name, width, &status.now(), self.simulated)).collect()
    }

    /// Tells steps and tenths that are new, on standard output.
    fn tell(&mut self) {
        for ((name, status), told) in self.names.iter().zip(&self.status).zip(&mut self.told) {
            let (now, begun) = (status.now(), status.begun());
            let mut text = String::new();
            for what in begun[told.0..].iter().filter_map(|step| doing(*step)) {
                text += &format!("{what} device {name}\n");
                told.1 = 0;
            }
            told.0 = begun.len();
            let tenth = now.pct() / 10;
            if let Some(what) = doing(now.step).filter(|_| tenth > told.1) {
                told.1 = tenth;
                text += &format!("{what} device {name}: {} %\n", tenth * 10);
            }
            // What cannot be printed is no reason to leave a device half prepared.
            let _ = console::result(&text);
        }
    }
}

/// What a step does, in ACT's way of speaking.
fn doing(step: Step) -> Option<&'static str> {
    Some(match step {
        Step::Waiting | Step::Done | Step::BrokenOff => return None,
        Step::Discard => "discarding",
        Step::Zeros => "cleaning",
        Step::Salt(_) => "salting",
        Step::ReadBack => "checking",
    })
}

fn line(name: &str, width: usize, status: &Status, simulated: bool) -> String {
    let tail = name.len().saturating_sub(NAME_MAX);
    let name = name.get(tail..).unwrap_or(name);
    let step = match status.step {
        Step::Waiting => "waiting".to_owned(),
        Step::Done => return format!("{name:width$}  done"),
        Step::BrokenOff => return format!("{name:width$}  broken off"),
        Step::Discard => "discard".to_owned(),
        Step::Zeros => "zeros".to_owned(),
        Step::Salt(number) => format!("salt {number}"),
        Step::ReadBack => "read back".to_owned(),
    };
    let pct = status.pct();
    let full = (pct * WIDTH / 100) as usize;
    let bar = format!("{}{}", "#".repeat(full), ".".repeat(WIDTH as usize - full));
    let rate = status.rate.map_or_else(|| "-".to_owned(), |rate| format!("{:.0}", rate / 1e6));
    let left = status.left_s().map_or_else(|| "--:--:--".to_owned(), clock);
    let of = if simulated { ", of simulated time" } else { "" };
    format!("{name:width$}  {step:9}  [{bar}] {pct:3} %  {rate:>6} MB/s  {left} left{of}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_has_step_share_rate_and_time_left() {
        let status = Status { step: Step::Salt(2), done: 25, of: 100, later: 100, rate: Some(1.0) };
        let line = |status| line("/dev/x", 8, &status, false);
        assert_eq!(line(status), "/dev/x    salt 2     [######..................]  25 %       0 MB/s  00:02:55 left");
        let begun = Status { rate: None, done: 0, step: Step::Zeros, ..status };
        assert_eq!(line(begun), "/dev/x    zeros      [........................]   0 %       - MB/s  --:--:-- left");
        assert_eq!(line(Status { step: Step::Done, ..status }), "/dev/x    done");
        assert_eq!(line(Status { step: Step::BrokenOff, ..status }), "/dev/x    broken off");
    }
}
