//! Messages put aside while something else is read: the first ones, and how many more there were.
//!
//! A test on a dying device can print more of them within one report than a reader wants to keep.

use std::collections::VecDeque;

/// What messages that wait may take, bytes: some ten thousand of ACT's.
const WAITING_BYTES_MAX: usize = 1 << 20;

/// What a line that is kept takes beside its text, bytes: the string, its place in a list and in the
/// heap, roughly.
pub(super) const LINE_OVERHEAD_BYTES: usize = 64;

/// Messages in the order in which they were printed.
#[derive(Debug, Default)]
pub(super) struct Messages {
    waiting: VecDeque<String>,
    bytes: usize,
    left_out: u64,
}

impl Messages {
    /// Keeps a message, or counts it when too much waits.
    pub(super) fn push(&mut self, text: String) {
        let bytes = self.bytes + text.len() + LINE_OVERHEAD_BYTES;
        if bytes > WAITING_BYTES_MAX {
            self.left_out += 1;
        } else {
            self.bytes = bytes;
            self.waiting.push_back(text);
        }
    }

    /// Takes the oldest.
    pub(super) fn pop(&mut self) -> Option<String> {
        let text = self.waiting.pop_front()?;
        self.bytes -= text.len() + LINE_OVERHEAD_BYTES;
        Some(text)
    }

    /// The oldest.
    pub(super) fn first(&self) -> Option<&str> {
        self.waiting.front().map(String::as_str)
    }

    /// Forgets those that wait.
    pub(super) fn clear(&mut self) {
        self.waiting.clear();
        self.bytes = 0;
    }

    /// How many were counted and not kept.
    pub(super) fn left_out(&self) -> u64 {
        self.left_out
    }
}
