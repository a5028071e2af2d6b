//! Changes of a translation with their reasons, one line each.

use super::super::dialect::Quoted;
use thiserror::Error;

/// A difference between an old file and its translation.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Change {
    #[error("was num-queues: {queues} x threads-per-queue: {threads}; ACT 6 dropped the queues")]
    QueuesToThreads {
        queues: u32,
        /// Threads per queue.
        threads: u32,
    },
    #[error(
        "was queue-per-device: yes with {threads} threads for each of {devices} devices; today the bound is on all \
         devices together, so a slow one can take more than its part of it: that cannot be kept"
    )]
    QueuePerDevice {
        devices: u32,
        /// Threads per queue.
        threads: u32,
    },
    /// The old default depends on the machine.
    #[error(
        "not given: ACT {act} takes {threads_per_cpu} for each CPU of its machine, flashproof bounds each device instead, \
         and that bound is not kept unless --cpus N writes it out"
    )]
    ThreadsByCpu {
        /// Major number of the release.
        act: u8,
        /// Default threads per CPU.
        threads_per_cpu: u32,
    },
    /// The same, for a number of CPUs that the user gave.
    #[error("was left to ACT {act}: {threads_per_cpu} for each CPU, of which there were {cpus}")]
    ThreadsForCpus {
        /// Major number of the release.
        act: u8,
        /// Default threads per CPU.
        threads_per_cpu: u32,
        /// Number of CPUs, as given.
        cpus: u32,
    },
    /// Service threads of ACT 5.
    #[error(
        "service-threads: {} of ACT 5 was dropped: it counted the threads that made requests; those that did them are \
         today's service-threads",
        .0.bare()
    )]
    RequestThreads(Quoted),
    /// Size of a read in ACT 2.
    #[error("was read-req-num-512-blocks: {0}, in units of 512 bytes")]
    RecordFromBlocks(u32),
    /// ACT 2's rate of large blocks.
    #[error(
        "was large-block-ops-per-sec: {rate}: as many records fill exactly that many large blocks, {per_block} in each, \
         with defrag-lwm-pct: {lwm_pct}"
    )]
    WritesFromLargeBlocks {
        /// Large blocks a second.
        rate: u32,
        /// Records per block.
        per_block: u32,
        /// The threshold that goes with it, in percent.
        lwm_pct: u32,
    },
    /// ACT 2 wrote zeros.
    #[error("was num-write-buffers: 0, {}: ACT 2 then wrote zeros", if *.given { "as given" } else { "its default" })]
    WroteZeros {
        /// True if the file asked for it.
        given: bool,
    },
    /// ACT 2 wrote a few blocks over and over.
    #[error(
        "num-write-buffers: {0} was dropped: that many random blocks were written over and over, today each write is \
         random; only a drive that deduplicates can tell"
    )]
    RandomBuffers(u32),
    /// Records were stored in larger steps.
    #[error("was {0}: ACT 3 and 4 stored records in steps of 128 bytes, which keeps the large blocks as they were")]
    RoundedTo128(u32),
    /// Both ends of a range became one size.
    #[error("was {0}: as ACT 3 and 4 stored them, in steps of 128 bytes, all records had one size")]
    RangeClosed(u32),
    /// Devices were opened without `O_DSYNC`.
    #[error("ACT 1 to 4 opened devices without O_DSYNC; remove this line to ask for durable writes, as ACT 5 and 6 do")]
    WithoutOdsync,
    /// The same where it cannot be.
    #[error(
        "ACT 4 opened devices without O_DSYNC, which is refused today beside commit-to-device: yes: writes are now \
         durable before they count as done, so they take longer"
    )]
    CommitsNowDurable,
    /// A key without a successor that changed no load.
    #[error("{key}: {} was dropped: {why}", .value.bare())]
    Dropped { key: &'static str, value: Quoted, why: &'static str },
    /// A key that the release did not know.
    #[error(
        "{}: {} was dropped: ACT {act} did not know that key and ignored it{}",
        .key.bare(), .value.bare(),
        .meant.map(|meant| format!("; if {meant} was meant, set that")).unwrap_or_default()
    )]
    Ignored {
        key: Quoted,
        value: Quoted,
        /// Major number of the release.
        act: u8,
        /// The key that it resembles, where the file does not have that.
        meant: Option<&'static str>,
    },
    /// A renamed key.
    #[error("was called {0}")]
    Renamed(&'static str),
    /// The queues were a limit, too.
    #[error(
        "{limit} requests waiting in the queues stopped ACT {act}; today a test stops that is behind by max-lag-sec: the \
         old limit cannot be kept"
    )]
    QueueLimit {
        limit: u32,
        /// Major number of the release.
        act: u8,
    },
    /// ACT 5 allowed no lag at all.
    #[error(
        "was 0, which let ACT 5 stop at the first lag; today 0 is no limit, and 1 s the smallest one: that cannot be kept"
    )]
    NoLagAllowed,
    /// ACT set the scheduler unasked.
    #[error(
        "ACT up to 6.4 set the I/O scheduler of the devices to noop when not told otherwise; it is left alone today"
    )]
    SchedulerWasNoop,
}
