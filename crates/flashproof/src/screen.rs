//! The last line of a terminal, drawn again and again, that never holds anybody up.
//!
//! A terminal can be slow without being gone: stopped by Ctrl-S, or at the far end of a connection that
//! broke and does not know it yet. Its kernel buffer fills, and the next write waits, for hours if need
//! be. So a thread of its own writes, and what comes while it waits is left out.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

/// How long the end waits for the last line to be on the screen.
const PATIENCE: Duration = Duration::from_millis(200);

/// Columns of a terminal that does not say. Source: termcap's default, and what most are at least.
const COLUMNS: usize = 80;

/// A line on standard error.
pub struct Screen {
    lines: SyncSender<String>,
    /// Hears when everything is written and the thread ended.
    ended: Receiver<()>,
}

impl Screen {
    /// A screen; `None` when no thread can be had, and then there is no progress to see.
    pub fn new() -> Option<Self> {
        let (lines, wanted) = sync_channel::<String>(1);
        let (ends, ended) = sync_channel(1);
        let write = move || {
            // Who closed the terminal does not want to hear of it.
            wanted.iter().for_each(|text| {
                let mut out = io::stderr();
                let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
            });
            let _ = ends.send(());
        };
        thread::Builder::new().name("screen".into()).spawn(write).ok()?;
        Some(Self { lines, ended })
    }

    /// Shows `text`, or leaves it out when the one before is not on the screen yet.
    pub fn show(&self, text: String) {
        let _ = self.lines.try_send(text);
    }

    /// Ends. What is on its way to a terminal that does not take it is left behind.
    pub fn end(self, last: &str) {
        let Self { lines, ended } = self;
        let _ = lines.try_send(last.to_owned());
        drop(lines);
        let _ = ended.recv_timeout(PATIENCE);
    }
}

/// Columns that a line on `terminal` may have without being broken in two, as it is now.
pub fn columns(terminal: impl AsFd) -> usize {
    let size = rustix::termios::tcgetwinsize(terminal);
    let columns = size.ok().map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0);
    // A line as wide as the terminal puts the cursor on the next one on some of them.
    columns.unwrap_or(COLUMNS) - 1
}

/// The parts that fit into `columns`, joined by two blanks, in their order. Each has a weight: the
/// lightest are left out first; what is still too long is cut.
pub fn fitted(parts: &[(u8, String)], columns: usize) -> String {
    let mut kept: Vec<&(u8, String)> = parts.iter().filter(|(_, text)| !text.is_empty()).collect();
    let length = |kept: &[&(u8, String)]| kept.iter().map(|(_, text)| text.chars().count() + 2).sum::<usize>();
    while kept.len() > 1 && length(&kept) > columns + 2 {
        let lightest = kept.iter().map(|(weight, _)| *weight).min();
        let index = kept.iter().rposition(|(weight, _)| Some(*weight) == lightest);
        kept.remove(index.unwrap_or(0));
    }
    let line = kept.iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>().join("  ");
    line.chars().take(columns).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_narrow_terminal_loses_the_least_important_first() {
        let parts = [(9, "00:00:02"), (5, "4 ops/s"), (1, ""), (2, "lag 1 ms"), (8, "00:59:58 left")];
        let parts = parts.map(|(weight, text)| (weight, text.to_owned()));
        assert_eq!(fitted(&parts, 80), "00:00:02  4 ops/s  lag 1 ms  00:59:58 left");
        assert_eq!(fitted(&parts, 42), "00:00:02  4 ops/s  lag 1 ms  00:59:58 left");
        assert_eq!(fitted(&parts, 41), "00:00:02  4 ops/s  00:59:58 left");
        assert_eq!(fitted(&parts, 31), "00:00:02  00:59:58 left");
        assert_eq!(fitted(&parts, 22), "00:00:02");
        assert_eq!(fitted(&parts, 5), "00:00");
    }
}
