//! Polls a drive's health logs on a separate thread.
//!
//! A query of a hung drive blocks for up to a minute. Only the polling thread waits for the query, and no other thread
//! waits for the polling thread. [`Poller::take`] returns each reading once.

use super::{Controller, OcpSmart, Smart};
use results::bytes_written::WrittenBytes;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// Time between two queries, longer than a report interval: the counters and the temperature change slowly (tens of
/// seconds), and on some drives a query delays reads and writes.
pub(in crate::observe) const POLL_INTERVAL: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::observe) struct Reading {
    /// `None` if the query failed.
    pub(in crate::observe) smart: Option<Smart>,
    /// `None` without the log, or if the query failed.
    pub(in crate::observe) ocp: Option<OcpSmart>,
    /// `None` if FDP is off, or if the query failed.
    pub(in crate::observe) fdp: Option<WrittenBytes>,
}

impl Reading {
    /// Reads the SMART log of `drive`; with `ocp`, also OCP's log; with `fdp`, also FDP's counters.
    pub(in crate::observe) fn from_drive(drive: &Controller, ocp: bool, fdp: bool) -> Self {
        Self {
            smart: drive.smart().ok(),
            ocp: ocp.then(|| drive.ocp_smart().ok().flatten()).flatten(),
            fdp: fdp.then(|| drive.fdp_statistics().ok().flatten()).flatten(),
        }
    }
}

#[derive(Debug)]
pub(in crate::observe) struct Poller {
    latest: Arc<Mutex<Option<Reading>>>,
    pub(in crate::observe) has_ocp: bool,
    pub(in crate::observe) has_fdp: bool,
    /// Requests an immediate query, with a sender for the reply at its end. Dropping `request_sender` ends the thread.
    request_sender: Option<Sender<SyncSender<()>>>,
}

impl Poller {
    /// Calls `read` once for all logs, to learn which logs the drive has; then every `interval`, for these logs.
    /// Parameters of `read`: first, true to read OCP's log; second, true to read FDP's counters. Returns `None` if the
    /// drive does not return its SMART log.
    pub(in crate::observe) fn start(
        read: impl Fn(bool, bool) -> Reading + Send + 'static,
        interval: Duration,
    ) -> Option<Self> {
        let first_reading = Some(read(true, true)).filter(|first| first.smart.is_some())?;
        let has_ocp = first_reading.ocp.is_some();
        let has_fdp = first_reading.fdp.is_some();
        let latest = Arc::new(Mutex::new(Some(first_reading)));
        let (request_sender, request_receiver) = channel::<SyncSender<()>>();
        let latest_of_thread = Arc::clone(&latest);
        // If no thread can be started, the first reading remains the only one, and the run continues.
        let spawned = thread::Builder::new()
            .name("smart".to_owned())
            .spawn(move || {
                loop {
                    let answer_sender = match request_receiver.recv_timeout(interval) {
                        Ok(asked_by) => Some(asked_by),
                        Err(RecvTimeoutError::Timeout) => None,
                        Err(RecvTimeoutError::Disconnected) => break,
                    };
                    let reading = read(has_ocp, has_fdp);
                    *latest_of_thread
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner) = Some(reading);
                    // The error is ignored, because the receiver may have timed out.
                    let _ = answer_sender.map(|asked_by| asked_by.try_send(()));
                }
            });
        Some(Self {
            latest,
            has_ocp,
            has_fdp,
            request_sender: spawned.is_ok().then_some(request_sender),
        })
    }

    /// Starts the last query at once; the thread then ends. The receiver gets a message when the drive has answered.
    pub(in crate::observe) fn ask_last(&mut self) -> Receiver<()> {
        let (answer_sender, answer_receiver) = sync_channel(1);
        if let Some(request_sender) = self.request_sender.take() {
            // Send errors are ignored: if the thread has ended, the receiver is disconnected.
            let _ = request_sender.send(answer_sender);
        }
        answer_receiver
    }

    /// The latest reading; empty if there was no new reading since the last call.
    pub(in crate::observe) fn take(&mut self) -> Reading {
        self.latest
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
            .unwrap_or_default()
    }
}

#[cfg(test)]
pub(in crate::observe) mod tests {
    use super::super::smart;
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// A drive that answers from recorded pages and counts the queries.
    #[derive(Default)]
    pub(in crate::observe) struct FakeDrive {
        pub(in crate::observe) with_ocp: bool,
        pub(in crate::observe) with_fdp: bool,
        pub(in crate::observe) asked: Arc<AtomicU32>,
        pub(in crate::observe) asked_ocp: Arc<AtomicU32>,
    }

    impl FakeDrive {
        pub(in crate::observe) fn reading(&self, ocp: bool, fdp: bool) -> Reading {
            self.asked.fetch_add(1, Ordering::Relaxed);
            self.asked_ocp.fetch_add(ocp.into(), Ordering::Relaxed);
            Reading {
                smart: Some(Smart::parse(smart::tests::PAGE)),
                ocp: OcpSmart::parse(smart::ocp_tests::PAGE).filter(|_| ocp && self.with_ocp),
                fdp: (fdp && self.with_fdp).then_some(WrittenBytes {
                    host: 4096,
                    media: 5120,
                    erased: 1 << 24,
                }),
            }
        }

        fn poll(self, interval: Duration) -> Poller {
            Poller::start(move |ocp, fdp| self.reading(ocp, fdp), interval).unwrap()
        }
    }

    fn until(what: &str, done: impl Fn() -> bool) {
        for _ in 0..10_000 {
            if done() {
                return;
            }
            thread::sleep(Duration::from_millis(1));
        }
        panic!("not within 10 s: {what}");
    }

    #[test]
    fn ocps_log_is_queried_only_once_if_the_drive_lacks_it() {
        let drive = FakeDrive::default();
        let asked = Arc::clone(&drive.asked);
        let asked_ocp = Arc::clone(&drive.asked_ocp);
        let poller = drive.poll(Duration::from_millis(1));
        assert!(!poller.has_ocp);
        until("it is asked again", || asked.load(Ordering::Relaxed) >= 3);
        assert_eq!(asked_ocp.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn each_reading_is_returned_once() {
        let mut poller = FakeDrive {
            with_ocp: true,
            ..FakeDrive::default()
        }
        .poll(POLL_INTERVAL);
        let first = poller.take();
        assert!(poller.has_ocp && first.smart.is_some() && first.ocp.is_some());
        assert_eq!(poller.take(), Reading::default());
    }

    #[test]
    fn after_the_last_query_its_reading_is_returned_and_the_thread_ends() {
        let drive = FakeDrive {
            with_fdp: true,
            ..FakeDrive::default()
        };
        let asked = Arc::clone(&drive.asked);
        let mut poller = drive.poll(POLL_INTERVAL);
        poller.take();
        assert_eq!(poller.ask_last().recv(), Ok(()));
        assert!(poller.take().fdp.is_some());
        assert!(poller.ask_last().recv().is_err());
        assert_eq!(poller.take(), Reading::default());
        until("the thread lets go of the drive", || {
            Arc::strong_count(&asked) == 1
        });
    }

    #[test]
    fn the_thread_ends_with_the_poller() {
        let drive = FakeDrive::default();
        let asked = Arc::clone(&drive.asked);
        drop(drive.poll(POLL_INTERVAL));
        until("the thread lets go of the drive", || {
            Arc::strong_count(&asked) == 1
        });
    }

    #[test]
    fn a_drive_that_gives_no_smart_log_is_not_polled() {
        assert!(Poller::start(|_, _| Reading::default(), POLL_INTERVAL).is_none());
    }
}
