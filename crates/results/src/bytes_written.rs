//! Bytes that a drive has written, by the counters of the drive.

use schemars::JsonSchema;
use serde::Serialize;
use thiserror::Error;

/// Counters from a drive's FDP statistics (NVMe), over the drive's life or between two moments.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Bytes")]
pub struct WrittenBytes {
    /// Bytes written by hosts (HBMW, host bytes with metadata written).
    pub host: u64,
    /// Bytes written to the media by hosts, garbage collection and wear levelling (MBMW).
    pub media: u64,
    /// Bytes of the media erased (MBE).
    pub erased: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "the drive's count of {counter} went back from {before} to {now} bytes: the drive was reset or replaced, or its firmware was changed, between the two readings"
)]
pub struct WentBack {
    pub counter: &'static str,
    pub before: u64,
    pub now: u64,
}

impl WrittenBytes {
    /// Difference to `before`. Errors: a counter has fallen, so the difference is unknown.
    pub fn since(self, before: Self) -> Result<Self, WentBack> {
        Ok(Self {
            host: difference("bytes written by hosts", before.host, self.host)?,
            media: difference("bytes written to the media", before.media, self.media)?,
            erased: difference("bytes erased", before.erased, self.erased)?,
        })
    }

    /// Write amplification factor; `None` without host bytes.
    pub fn waf(self) -> Option<f64> {
        (self.host > 0).then(|| self.media as f64 / self.host as f64)
    }
}

fn difference(counter: &'static str, before: u64, now: u64) -> Result<u64, WentBack> {
    now.checked_sub(before).ok_or(WentBack {
        counter,
        before,
        now,
    })
}

impl std::iter::Sum for WrittenBytes {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, one| Self {
            host: sum.host + one.host,
            media: sum.media + one.media,
            erased: sum.erased + one.erased,
        })
    }
}
