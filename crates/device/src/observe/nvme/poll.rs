//! Asks a drive for its health now and then, on a thread of its own.
//!
//! A drive that hangs holds up whoever asks it, for as long as a minute; here that is a thread that nobody
//! waits for. What it brings is taken once by [`Poller::take`], and in between there is nothing new.

use super::{Controller, LogPageError, OcpSmart, Smart};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// Time between two questions. The counters move slowly, heat takes tens of seconds to build up, and some
/// drives answer at the expense of reads and writes: so ten seconds, and not each interval.
pub(in crate::observe) const POLL_INTERVAL: Duration = Duration::from_secs(10);

/// What a drive told.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::observe) struct Reading {
    /// Its SMART log, unless it did not answer.
    pub(in crate::observe) smart: Option<Smart>,
    /// OCP's log, if it has one and answered.
    pub(in crate::observe) ocp: Option<OcpSmart>,
}

/// Whoever can be asked for both logs.
pub(in crate::observe) trait Drive: Send + 'static {
    /// The SMART log.
    fn smart(&self) -> Result<Smart, LogPageError>;
    /// OCP's, `None` if the page is something else.
    fn ocp_smart(&self) -> Result<Option<OcpSmart>, LogPageError>;
}

impl Drive for Controller {
    fn smart(&self) -> Result<Smart, LogPageError> {
        Controller::smart(self)
    }

    fn ocp_smart(&self) -> Result<Option<OcpSmart>, LogPageError> {
        Controller::ocp_smart(self)
    }
}

/// A drive that is asked again and again.
#[derive(Debug)]
pub(in crate::observe) struct Poller {
    latest: Arc<Mutex<Option<Reading>>>,
    /// Whether the drive has OCP's log.
    pub(in crate::observe) has_ocp: bool,
    /// Dropping it sends the thread home.
    _stop: Option<Sender<()>>,
}

impl Poller {
    /// Asks `drive` for the first time, which shows what it has, and then at every `interval`; `None` if it
    /// does not give its SMART log. A drive without OCP's log is not asked for it again.
    pub(in crate::observe) fn start(drive: impl Drive, interval: Duration) -> Option<Self> {
        let smart = drive.smart().ok()?;
        let ocp = drive.ocp_smart().ok().flatten();
        let has_ocp = ocp.is_some();
        let latest = Arc::new(Mutex::new(Some(Reading { smart: Some(smart), ocp })));
        let (stop, stopped) = channel::<()>();
        let told = Arc::clone(&latest);
        let poll = move || {
            while stopped.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
                let ocp = if has_ocp { drive.ocp_smart().ok().flatten() } else { None };
                let reading = Reading { smart: drive.smart().ok(), ocp };
                *told.lock().unwrap_or_else(PoisonError::into_inner) = Some(reading);
            }
        };
        // Without a thread the first answer stays the only one; the run goes on.
        let spawned = thread::Builder::new().name("smart".to_owned()).spawn(poll);
        Some(Self { latest, has_ocp, _stop: spawned.is_ok().then_some(stop) })
    }

    /// What came since this was last asked; empty if nothing did.
    pub(in crate::observe) fn take(&mut self) -> Reading {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner).take().unwrap_or_default()
    }
}

#[cfg(test)]
pub(in crate::observe) mod tests {
    use super::super::{ocp, smart};
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// A drive that answers from recorded pages and counts how often it was asked.
    #[derive(Default)]
    pub(in crate::observe) struct FakeDrive {
        pub(in crate::observe) with_ocp: bool,
        pub(in crate::observe) asked: Arc<AtomicU32>,
        pub(in crate::observe) asked_ocp: Arc<AtomicU32>,
    }

    impl Drive for FakeDrive {
        fn smart(&self) -> Result<Smart, LogPageError> {
            self.asked.fetch_add(1, Ordering::Relaxed);
            Ok(Smart::parse(smart::tests::PAGE))
        }

        fn ocp_smart(&self) -> Result<Option<OcpSmart>, LogPageError> {
            self.asked_ocp.fetch_add(1, Ordering::Relaxed);
            if self.with_ocp { Ok(OcpSmart::parse(ocp::tests::PAGE)) } else { Err(LogPageError::Status(0x4009)) }
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
            fn smart(&self) -> Result<Smart, LogPageError> {
                Err(LogPageError::Status(1))
            }
            fn ocp_smart(&self) -> Result<Option<OcpSmart>, LogPageError> {
                Ok(None)
            }
        }
        assert!(Poller::start(Mute, POLL_INTERVAL).is_none());
    }
}
