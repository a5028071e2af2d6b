//! fio's logs: a line for each direction and each time over which it is the mean.

use super::{Kind, Point};
use std::fmt::Write;

/// Which log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Log {
    /// KiB a second.
    Bandwidth,
    /// Completion latency, nanoseconds.
    Latency,
    /// Operations a second.
    Iops,
}

impl Log {
    /// What the names of its files end in, before the number of the job.
    pub fn endings(self) -> &'static [&'static str] {
        match self {
            Self::Bandwidth => &["bw"],
            Self::Latency => &["clat", "lat"],
            Self::Iops => &["iops"],
        }
    }

    fn value(self, ops: u64, bytes: u64, latency_ns: f64, length_ms: u64) -> u64 {
        let length_ms = length_ms.max(1);
        match self {
            Self::Bandwidth => (u128::from(bytes) * 1_000 / 1_024 / u128::from(length_ms)) as u64,
            Self::Latency => (latency_ns / ops.max(1) as f64) as u64,
            Self::Iops => (u128::from(ops) * 1_000 / u128::from(length_ms)) as u64,
        }
    }
}

/// The lines of a log of `kinds`, by direction, each over `every_ms`.
pub fn logs(log: Log, kinds: &[Option<&Kind>], every_ms: u64) -> String {
    let mut lines = Vec::new();
    for (direction, kind) in kinds.iter().enumerate().take(3) {
        let points = kind.map_or(&[][..], |kind| &kind.points);
        let mut at = 0;
        while let Some(first) = points.get(at) {
            // The last may be shorter.
            let until_ms = (first.end_ms - first.length_ms) / every_ms.max(1) * every_ms + every_ms;
            let count = points[at..].iter().take_while(|point| point.end_ms <= until_ms).count().max(1);
            let part = &points[at..at + count];
            let sum = |of: &dyn Fn(&Point) -> u64| part.iter().map(of).sum::<u64>();
            let (ops, latency_ns) = (sum(&|point| point.ops), part.iter().map(|point| point.latency_ns).sum());
            if ops > 0 {
                let value = log.value(ops, sum(&|point| point.bytes), latency_ns, sum(&|point| point.length_ms));
                lines.push((part[count - 1].end_ms, direction, value));
            }
            at += count;
        }
    }
    lines.sort_unstable();
    let mut text = String::new();
    for (end_ms, direction, value) in lines {
        let _ = writeln!(text, "{end_ms}, {value}, {direction}, 0, 0");
    }
    text
}
