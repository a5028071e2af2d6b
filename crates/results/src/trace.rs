//! Samples of the block layer: how long the kernel kept requests and how long the devices took.

/// Requests of this many bytes and more are large.
const LARGE_BYTES: u64 = 64 << 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TraceKind {
    Read,
    Write,
}

impl TraceKind {
    pub const ALL: [Self; 2] = [Self::Read, Self::Write];

    /// Name in trace.csv.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
        }
    }
}

/// Size class of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TraceSize {
    /// Less than 64 KiB.
    Small,
    Large,
}

impl TraceSize {
    pub const ALL: [Self; 2] = [Self::Small, Self::Large];

    /// The class of a request of `bytes` bytes.
    pub fn of(bytes: u64) -> Self {
        if bytes < LARGE_BYTES { Self::Small } else { Self::Large }
    }

    /// Name in trace.csv.
    pub fn name(self) -> &'static str {
        match self {
            Self::Small => "small",
            Self::Large => "large",
        }
    }
}

/// Distribution of times, nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spread {
    pub p50_ns: u64,
    pub p99_ns: u64,
    pub max_ns: u64,
}

/// Requests of one device, kind and size in one sample.
#[derive(Debug, Clone, PartialEq)]
pub struct TraceLine {
    /// Beginning of the sample, seconds since the run began.
    pub at_sec: f64,
    /// Length of the sample, milliseconds: requests that were queued within it are counted.
    pub length_ms: u64,
    /// Number of the device, in the manifest's order.
    pub device: usize,
    pub kind: TraceKind,
    pub size: TraceSize,
    /// Requests that completed.
    pub requests: u64,
    /// Events of the whole sample, all devices, that the kernel lost: then requests are missing.
    pub lost: u64,
    /// From block_bio_queue to block_rq_issue: with the kernel.
    pub queue: Spread,
    /// From block_rq_issue to block_rq_complete: with the device.
    pub device_time: Spread,
    /// Requests whose time with the kernel reached each threshold of the SLA.
    pub queue_over: Vec<u64>,
    /// Requests whose time with the device reached each threshold of the SLA.
    pub device_over: Vec<u64>,
    /// Requests whose total time reached each threshold of the SLA.
    pub total_over: Vec<u64>,
}
