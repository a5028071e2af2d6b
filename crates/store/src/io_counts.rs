//! I/O counters of stores, readable from other threads: iostat's numbers, for the stores alone.

use std::sync::atomic::{AtomicU64, Ordering};
use sys::op::OpKind;

/// I/O of stores, all cores together.
#[derive(Debug, Default)]
pub struct IoCounts {
    reads: AtomicU64,
    read_bytes: AtomicU64,
    writes: AtomicU64,
    write_bytes: AtomicU64,
    service_ns: AtomicU64,
}

/// [`IoCounts`] at an instant, or between two.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct IoCounted {
    /// Operations that read, and their bytes.
    pub reads: u64,
    /// Bytes of those operations.
    pub read_bytes: u64,
    /// Operations that wrote, and their bytes.
    pub writes: u64,
    /// Bytes of those operations.
    pub write_bytes: u64,
    /// Sum of service times, ns.
    pub service_ns: u64,
}

impl IoCounts {
    /// Current counts.
    pub fn now(&self) -> IoCounted {
        let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
        IoCounted {
            reads: get(&self.reads),
            read_bytes: get(&self.read_bytes),
            writes: get(&self.writes),
            write_bytes: get(&self.write_bytes),
            service_ns: get(&self.service_ns),
        }
    }

    /// Counts an operation that is done.
    pub(crate) fn add(&self, kind: OpKind, bytes: u32, service_ns: u64) {
        let (count, moved) = match kind {
            OpKind::Read => (&self.reads, &self.read_bytes),
            OpKind::Write => (&self.writes, &self.write_bytes),
            OpKind::Flush | OpKind::FlushFile | OpKind::WriteBack(_) => return,
            OpKind::Deallocate | OpKind::ResetZone => return,
        };
        count.fetch_add(1, Ordering::Relaxed);
        moved.fetch_add(bytes.into(), Ordering::Relaxed);
        self.service_ns.fetch_add(service_ns, Ordering::Relaxed);
    }
}

impl IoCounted {
    /// Difference to `earlier`.
    pub fn since(&self, earlier: &Self) -> Self {
        self.with(earlier, |now, then| now - then)
    }

    /// Sum.
    pub fn plus(&self, other: &Self) -> Self {
        self.with(other, |a, b| a + b)
    }

    fn with(&self, other: &Self, of: fn(u64, u64) -> u64) -> Self {
        Self {
            reads: of(self.reads, other.reads),
            read_bytes: of(self.read_bytes, other.read_bytes),
            writes: of(self.writes, other.writes),
            write_bytes: of(self.write_bytes, other.write_bytes),
            service_ns: of(self.service_ns, other.service_ns),
        }
    }
}
