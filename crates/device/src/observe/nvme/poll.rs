//! Polls a drive's health logs on a thread of its own.
//!
//! A drive that hangs blocks its caller for up to a minute; here that is a thread that nobody waits for.
//! [`Poller::take`] returns each reading once.

use super::{Controller, OcpSmart, QueryError, Smart};
use results::waf::Bytes;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// Time between two questions. The counters move slowly, heat takes tens of seconds to build up, and some
/// drives answer at the expense of reads and writes: so ten seconds, and not each interval.
pub(in crate::observe) const POLL_INTERVAL: Duration = Duration::from_secs(10);

/// Logs read from a drive.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::observe) struct Reading {
    /// `None` if the query failed.
    pub(in crate::observe) smart: Option<Smart>,
    /// OCP's log, if it has one and answered.
    pub(in crate::observe) ocp: Option<OcpSmart>,
    /// FDP statistics, if FDP is on and the query succeeded.
    pub(in crate::observe) fdp: Option<Bytes>,
}

/// Source of the logs.
pub(in crate::observe) trait Drive: Send + 'static {
    fn smart(&self) -> Result<Smart, QueryError>;
    /// OCP's log, `None` if the page has another meaning.
    fn ocp_smart(&self) -> Result<Option<OcpSmart>, QueryError>;
    /// FDP's counters, `None` without FDP.
    fn fdp_statistics(&self) -> Result<Option<Bytes>, QueryError>;
}

impl Drive for Controller {
    fn smart(&self) -> Result<Smart, QueryError> {
        Controller::smart(self)
    }

    fn ocp_smart(&self) -> Result<Option<OcpSmart>, QueryError> {
        Controller::ocp_smart(self)
    }

    fn fdp_statistics(&self) -> Result<Option<Bytes>, QueryError> {
        Controller::fdp_statistics(self)
    }
}

/// A drive that is polled.
#[derive(Debug)]
pub(in crate::observe) struct Poller {
    latest: Arc<Mutex<Option<Reading>>>,
    /// True if the drive has OCP's log.
    pub(in crate::observe) has_ocp: bool,
    /// True if FDP is on.
    pub(in crate::observe) has_fdp: bool,
    /// Triggers a query at once; the thread replies when it is done. Dropping it ends the thread.
    ask: Option<Sender<SyncSender<()>>>,
}

impl Poller {
    /// Queries `drive` once, which shows its logs, and then at every `interval`; `None` if it does not return its SMART
    /// log. Logs that it lacks are not queried again.
    pub(in crate::observe) fn start(drive: impl Drive, interval: Duration) -> Option<Self> {
        let smart = drive.smart().ok()?;
        let ocp = drive.ocp_smart().ok().flatten();
        let fdp = drive.fdp_statistics().ok().flatten();
        let (has_ocp, has_fdp) = (ocp.is_some(), fdp.is_some());
        let latest = Arc::new(Mutex::new(Some(Reading { smart: Some(smart), ocp, fdp })));
        let (ask, asked) = channel::<SyncSender<()>>();
        let told = Arc::clone(&latest);
        let poll = move || {
            loop {
                let asked_by = match asked.recv_timeout(interval) {
                    Ok(asked_by) => Some(asked_by),
                    Err(RecvTimeoutError::Timeout) => None,
                    Err(RecvTimeoutError::Disconnected) => break,
                };
                let ocp = if has_ocp { drive.ocp_smart().ok().flatten() } else { None };
                let fdp = if has_fdp { drive.fdp_statistics().ok().flatten() } else { None };
                let reading = Reading { smart: drive.smart().ok(), ocp, fdp };
                *told.lock().unwrap_or_else(PoisonError::into_inner) = Some(reading);
                // After a long time nobody waits any more.
                let _ = asked_by.map(|asked_by| asked_by.try_send(()));
            }
        };
        // Without a thread the first reading stays the only one; the run continues.
        let spawned = thread::Builder::new().name("smart".to_owned()).spawn(poll);
        Some(Self { latest, has_ocp, has_fdp, ask: spawned.is_ok().then_some(ask) })
    }

    /// Has the drive asked now, for the last time. Something is received when it has answered.
    pub(in crate::observe) fn ask_last(&mut self) -> Receiver<()> {
        let (answer, answered) = sync_channel(1);
        if let Some(ask) = self.ask.take() {
            // Of a thread that is gone nothing will be received.
            let _ = ask.send(answer);
        }
        answered
    }

    /// The reading since the last call; empty if there is none.
    pub(in crate::observe) fn take(&mut self) -> Reading {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner).take().unwrap_or_default()
    }
}

#[cfg(test)]
pub(in crate::observe) mod tests {
    use super::super::smart;
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};
    use sys::nvme::Status;

    /// A drive that answers from recorded pages and counts how often it was asked.
    #[derive(Default)]
    pub(in crate::observe) struct FakeDrive {
        pub(in crate::observe) with_ocp: bool,
        pub(in crate::observe) with_fdp: bool,
        pub(in crate::observe) asked: Arc<AtomicU32>,
        pub(in crate::observe) asked_ocp: Arc<AtomicU32>,
    }

    impl Drive for FakeDrive {
        fn smart(&self) -> Result<Smart, QueryError> {
            self.asked.fetch_add(1, Ordering::Relaxed);
            Ok(Smart::parse(smart::tests::PAGE))
        }

        fn ocp_smart(&self) -> Result<Option<OcpSmart>, QueryError> {
            self.asked_ocp.fetch_add(1, Ordering::Relaxed);
            if self.with_ocp {
                Ok(OcpSmart::parse(smart::ocp_tests::PAGE))
            } else {
                Err(QueryError::Status(Status { sct: 1, sc: 9 }))
            }
        }

        fn fdp_statistics(&self) -> Result<Option<Bytes>, QueryError> {
            let statistics = Bytes { host: 4096, media: 5120, erased: 1 << 24 };
            Ok(self.with_fdp.then_some(statistics))
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
    fn a_drive_without_ocps_log_is_asked_for_it_once() {
        let drive = FakeDrive::default();
        let (asked, asked_ocp) = (Arc::clone(&drive.asked), Arc::clone(&drive.asked_ocp));
        let poller = Poller::start(drive, Duration::from_millis(1)).unwrap();
        assert!(!poller.has_ocp);
        until("it is asked again", || asked.load(Ordering::Relaxed) >= 3);
        assert_eq!(asked_ocp.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn an_answer_is_given_once() {
        let mut poller = Poller::start(FakeDrive { with_ocp: true, ..FakeDrive::default() }, POLL_INTERVAL).unwrap();
        let first = poller.take();
        assert!(poller.has_ocp && first.smart.is_some() && first.ocp.is_some());
        assert_eq!(poller.take(), Reading::default());
    }

    #[test]
    fn the_last_answer_is_of_now_and_no_other_follows() {
        let drive = FakeDrive { with_fdp: true, ..FakeDrive::default() };
        let asked = Arc::clone(&drive.asked);
        let mut poller = Poller::start(drive, POLL_INTERVAL).unwrap();
        poller.take();
        assert_eq!(poller.ask_last().recv(), Ok(()));
        assert!(poller.take().fdp.is_some());
        assert!(poller.ask_last().recv().is_err());
        assert_eq!(poller.take(), Reading::default());
        until("the thread lets go of the drive", || Arc::strong_count(&asked) == 1);
    }

    #[test]
    fn the_thread_ends_with_the_poller() {
        let drive = FakeDrive::default();
        let asked = Arc::clone(&drive.asked);
        drop(Poller::start(drive, POLL_INTERVAL));
        until("the thread lets go of the drive", || Arc::strong_count(&asked) == 1);
    }

    #[test]
    fn a_drive_that_gives_no_smart_log_is_not_polled() {
        struct Mute;
        impl Drive for Mute {
            fn smart(&self) -> Result<Smart, QueryError> {
                Err(QueryError::Status(Status { sct: 0, sc: 1 }))
            }
            fn ocp_smart(&self) -> Result<Option<OcpSmart>, QueryError> {
                Ok(None)
            }
            fn fdp_statistics(&self) -> Result<Option<Bytes>, QueryError> {
                Ok(None)
            }
        }
        assert!(Poller::start(Mute, POLL_INTERVAL).is_none());
    }
}
