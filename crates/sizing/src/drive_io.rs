//! The I/O that reaches a drive, in the four iostat numbers by which loads are compared.

use serde::{Deserialize, Serialize};
use std::iter::Sum;

/// Serialized under iostat's names, whose kB are 1,024 bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct DriveIo {
    #[serde(rename = "r/s")]
    pub reads_per_sec: f64,
    /// Without flushes, except in iostat's own counts ([`DeviceRates`](crate::iostat::DeviceRates)).
    #[serde(rename = "w/s")]
    pub writes_per_sec: f64,
    #[serde(rename = "rkB/s")]
    pub read_kib_per_sec: f64,
    #[serde(rename = "wkB/s")]
    pub written_kib_per_sec: f64,
}

pub const NAMES: [&str; 4] = ["r/s", "w/s", "rkB/s", "wkB/s"];

impl DriveIo {
    /// The four numbers, in the order of [`NAMES`].
    pub fn numbers(&self) -> [f64; 4] {
        [
            self.reads_per_sec,
            self.writes_per_sec,
            self.read_kib_per_sec,
            self.written_kib_per_sec,
        ]
    }

    pub fn map(self, change: impl FnMut(f64) -> f64) -> Self {
        self.numbers().map(change).into()
    }

    /// Mean KiB of a write; `None` without writes.
    pub fn write_kib(&self) -> Option<f64> {
        (self.writes_per_sec > 0.0).then(|| self.written_kib_per_sec / self.writes_per_sec)
    }
}

impl From<[f64; 4]> for DriveIo {
    fn from(
        [
            reads_per_sec,
            writes_per_sec,
            read_kib_per_sec,
            written_kib_per_sec,
        ]: [f64; 4],
    ) -> Self {
        Self {
            reads_per_sec,
            writes_per_sec,
            read_kib_per_sec,
            written_kib_per_sec,
        }
    }
}

impl Sum for DriveIo {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, io| {
            let sum = sum.numbers();
            let io = io.numbers();
            std::array::from_fn(|n| sum[n] + io[n]).into()
        })
    }
}
