//! Writes standard error on a separate thread, so that a stuck terminal blocks no other thread.
//!
//! A terminal can be stuck without being closed: stopped by Ctrl-S, or behind a broken connection that has not timed
//! out yet. Its kernel buffer fills, and the next write blocks, possibly for hours. Therefore one thread writes one
//! queue, in order. A caller waits briefly for its text to be written, and not at all while the terminal is known to be
//! stuck. Drawings (progress) never wait; a drawing replaces the drawing just before it in the queue.

use results::format;
use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// Maximum wait of a caller for its text to be written.
const PATIENCE: Duration = Duration::from_millis(200);

/// Maximum number of queued bytes, so that a stopped terminal does not fill the memory.
const WAITING_BYTES_MAX: usize = 1 << 20;

/// A queue of texts for standard error, and the thread that writes them.
pub(crate) struct StderrWriter {
    shared: Arc<StderrQueue>,
    /// True if the thread was started. Otherwise no run begins, and the error message is written directly.
    works: bool,
}

#[derive(Default)]
struct StderrQueue {
    state: Mutex<QueueState>,
    /// Signalled when text was added or written.
    changed: Condvar,
}

#[derive(Default)]
struct QueueState {
    waiting: VecDeque<QueuedText>,
    waiting_bytes: usize,
    writing: bool,
    /// True if a caller's wait has timed out since the thread's last write.
    stuck: bool,
    /// Texts dropped because the queue was full.
    left_out: u64,
}

struct QueuedText {
    text: String,
    /// True for a drawing, which a drawing that follows directly in the queue replaces.
    is_drawing: bool,
}

impl StderrWriter {
    pub(crate) fn new(output: impl Write + Send + 'static) -> Self {
        let shared = Arc::new(StderrQueue::default());
        let writer_shared = shared.clone();
        let spawned = thread::Builder::new()
            .name("screen".into())
            .spawn(move || writer_shared.write(output));
        Self {
            shared,
            works: spawned.is_ok(),
        }
    }

    /// Writes `text` after all text that was queued earlier.
    pub(crate) fn print_text(&self, text: String) {
        if !self.works {
            let _ = io::stderr().write_all(text.as_bytes());
            return;
        }
        let mut state = self.shared.lock();
        state.add(QueuedText {
            text,
            is_drawing: false,
        });
        let was_stuck = state.stuck;
        drop(state);
        self.shared.changed.notify_all();
        if !was_stuck {
            self.flush(PATIENCE);
        }
    }

    /// Queues a drawing without waiting. Replaces the last queued text if that is a drawing too.
    pub(crate) fn draw(&self, text: String) {
        self.shared.lock().add(QueuedText {
            text,
            is_drawing: true,
        });
        self.shared.changed.notify_all();
    }

    pub(crate) fn flush(&self, patience: Duration) {
        if !self.works {
            return;
        }
        let waited =
            self.shared
                .changed
                .wait_timeout_while(self.shared.lock(), patience, |state| !state.is_done());
        let (mut state, wait_result) = waited.unwrap_or_else(PoisonError::into_inner);
        state.stuck |= wait_result.timed_out();
    }
}

impl StderrQueue {
    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, mut output: impl Write) {
        let mut state = self.lock();
        loop {
            let Some(text) = state.take() else {
                state = self
                    .changed
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            drop(state);
            // Write errors are ignored: the terminal may be closed.
            let _ = output
                .write_all(text.as_bytes())
                .and_then(|()| output.flush());
            state = self.lock();
            (state.writing, state.stuck) = (false, false);
            self.changed.notify_all();
        }
    }
}

impl QueueState {
    fn add(&mut self, queued: QueuedText) {
        let is_replaced =
            queued.is_drawing && self.waiting.back().is_some_and(|before| before.is_drawing);
        if is_replaced && let Some(replaced) = self.waiting.pop_back() {
            self.waiting_bytes -= replaced.text.len();
        }
        if self.waiting_bytes + queued.text.len() > WAITING_BYTES_MAX {
            self.left_out += u64::from(!queued.is_drawing);
            return;
        }
        self.waiting_bytes += queued.text.len();
        self.waiting.push_back(queued);
    }

    fn take(&mut self) -> Option<String> {
        let text = match self.waiting.pop_front() {
            Some(queued) => {
                self.waiting_bytes -= queued.text.len();
                queued.text
            }
            None if self.left_out > 0 => {
                let left_out = format::count(std::mem::take(&mut self.left_out), "message");
                format!("({left_out} dropped: the terminal accepted no output)\n")
            }
            None => return None,
        };
        self.writing = true;
        Some(text)
    }

    fn is_done(&self) -> bool {
        self.waiting.is_empty() && !self.writing && self.left_out == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Receiver, Sender, channel};

    /// A terminal that accepts one write per token and stores what it received.
    struct Terminal {
        tokens: Receiver<()>,
        taken: Arc<Mutex<String>>,
    }

    impl Write for Terminal {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            // Once the sender of tokens is dropped, every write succeeds.
            let _ = self.tokens.recv();
            self.taken
                .lock()
                .unwrap()
                .push_str(&String::from_utf8_lossy(bytes));
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn terminal() -> (StderrWriter, Sender<()>, Arc<Mutex<String>>) {
        let (hand, tokens) = channel();
        let taken: Arc<Mutex<String>> = Arc::default();
        (
            StderrWriter::new(Terminal {
                tokens,
                taken: taken.clone(),
            }),
            hand,
            taken,
        )
    }

    #[test]
    fn a_stuck_terminal_blocks_no_caller_and_later_gets_all_text_in_order() {
        let (writer, hand, taken) = terminal();
        writer.print_text("begins\n".into());
        writer.draw("\r1 %".into());
        writer.draw("\r2 %".into());
        writer.print_text("\nPASS\n".into());
        writer.draw("\r3 %".into());
        assert_eq!(*taken.lock().unwrap(), "");
        drop(hand);
        writer.flush(Duration::from_secs(60));
        assert_eq!(*taken.lock().unwrap(), "begins\n\r2 %\nPASS\n\r3 %");
    }

    #[test]
    fn text_is_written_when_the_call_returns() {
        let (writer, hand, taken) = terminal();
        drop(hand);
        // On a machine too slow to write within `PATIENCE`, the text is written during this flush.
        writer.print_text("one\n".into());
        writer.flush(Duration::from_secs(60));
        assert_eq!(*taken.lock().unwrap(), "one\n");
    }

    #[test]
    fn dropped_messages_are_counted_and_reported() {
        let (writer, hand, taken) = terminal();
        for _ in 0..5 {
            writer.print_text("x".repeat(WAITING_BYTES_MAX / 3));
        }
        drop(hand);
        writer.flush(Duration::from_secs(60));
        let taken = taken.lock().unwrap();
        // The thread is writing the first text, the queue has room for three, and the fifth is dropped.
        assert!(
            taken.ends_with("x(1 message dropped: the terminal accepted no output)\n"),
            "{}",
            taken.len()
        );
    }
}
