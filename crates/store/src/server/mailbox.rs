//! Messages between the threads of cores: a lock-free queue, and a wake-up if the receiver sleeps.

use crossbeam_queue::SegQueue;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use sys::net::Waker;

/// Messages for one thread.
#[derive(Debug)]
pub(super) struct Mailbox<T> {
    queue: SegQueue<T>,
    asleep: AtomicBool,
    waker: OnceLock<Waker>,
}

impl<T> Mailbox<T> {
    pub(super) fn new() -> Self {
        Self { queue: SegQueue::new(), asleep: AtomicBool::new(false), waker: OnceLock::new() }
    }

    /// Sets the waker of its thread. Called once, by that thread.
    pub(super) fn set_waker(&self, waker: Waker) {
        let _ = self.waker.set(waker);
    }

    /// Leaves a message; [`Self::wake`] after the last of several.
    pub(super) fn push(&self, message: T) {
        self.queue.push(message);
    }

    /// Wakes the thread if it sleeps, or is about to.
    pub(super) fn wake(&self) {
        // With the fence of `may_sleep`: either this sees that it sleeps, or that sees the message.
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) && self.asleep.swap(false, Ordering::AcqRel) {
            self.waker.get().inspect(|waker| waker.wake());
        }
    }

    pub(super) fn take(&self) -> Option<T> {
        self.queue.pop()
    }

    /// Announces that its thread will sleep; `false` if it must not, because there are messages.
    pub(super) fn may_sleep(&self) -> bool {
        self.asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        self.queue.is_empty()
    }

    /// Announces that its thread is awake.
    pub(super) fn is_awake(&self) {
        self.asleep.store(false, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn who_is_told_to_sleep_has_no_message_and_later_ones_wake() {
        let mailbox = Arc::new(Mailbox::new());
        mailbox.push(1);
        assert!(!mailbox.may_sleep());
        assert_eq!((mailbox.take(), mailbox.take()), (Some(1), None));
        assert!(mailbox.may_sleep());
        mailbox.push(2);
        mailbox.wake();
        assert!(!mailbox.asleep.load(Ordering::Relaxed), "only the first message wakes");
    }
}
