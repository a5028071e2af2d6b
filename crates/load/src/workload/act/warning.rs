//! What a file without mistakes still deserves to be told, above all about keys of ACT 4.

use thiserror::Error;

/// What became of a key that does not mean what its writer may think.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Warning {
    /// ACT 4's commit-min-bytes is in force.
    #[error(
        "commit-min-bytes is a key of ACT 4 that ACT 6 dropped: commit writes are rounded to {}",
        if *.0 == 0 { "the device's minimum I/O size, as without it".into() }
        else { format!("{} bytes, or to the device's minimum I/O size where that is larger", .0) }
    )]
    CommitMinBytes(u32),
    /// ACT 4's commit-min-bytes without commits.
    #[error("commit-min-bytes is a key of ACT 4 that ACT 6 dropped: it has no effect, because commit-to-device is no")]
    CommitMinBytesUnused,
    /// ACT 4's queues became threads.
    #[error(
        "num-queues and threads-per-queue are keys of ACT 4: {queues} x {threads} became service-threads: \
         {service_threads}"
    )]
    QueuesBecameServiceThreads {
        /// `num-queues`.
        queues: u32,
        /// `threads-per-queue`.
        threads: u32,
        /// Their product.
        service_threads: u32,
    },
    /// ACT 4's queues beside service-threads.
    #[error(
        "{key} is a key of ACT 4: it is ignored, because service-threads: {service_threads} is given too; if the file is \
         of ACT 5.1 to 5.3, flashproof config FILE translates it"
    )]
    QueuesOverruled {
        /// `num-queues` or `threads-per-queue`.
        key: &'static str,
        /// What is used.
        service_threads: u32,
    },
    /// One of ACT 4's two without the other.
    #[error("{key} is a key of ACT 4: it is ignored, because it says nothing without {other}; give service-threads")]
    HalfOfQueues {
        /// The key that is there.
        key: &'static str,
        /// The key that is not.
        other: &'static str,
    },
    /// ACT 4's scheduler-mode.
    #[error("scheduler-mode is a key of ACT 4: it is ignored, the device's I/O scheduler is recorded and left alone")]
    SchedulerModeIgnored,
    /// There will be one report only.
    #[error(
        "report-interval-sec: {report_interval_sec} s is longer than the test of {test_duration_sec} s: the only \
         report is the one at its end"
    )]
    OneReportOnly {
        /// The interval, in seconds.
        report_interval_sec: u32,
        /// The test, in seconds.
        test_duration_sec: u32,
    },
}
