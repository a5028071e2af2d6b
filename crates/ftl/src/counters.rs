//! What a drive counts.

/// Since the drive was made; as in NVMe's FDP statistics log page (22h).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Host Bytes with Metadata Written.
    pub hbmw: u64,
    /// Media Bytes with Metadata Written: those of the host, of garbage collection and of wear levelling.
    pub mbmw: u64,
    /// Media Bytes Erased.
    pub mbe: u64,
}

impl Counters {
    /// What was counted since `earlier`.
    pub fn since(self, earlier: Self) -> Self {
        Self { hbmw: self.hbmw - earlier.hbmw, mbmw: self.mbmw - earlier.mbmw, mbe: self.mbe - earlier.mbe }
    }

    /// Write amplification factor: bytes on the media for each of the host's; none where the host wrote nothing.
    pub fn waf(self) -> Option<f64> {
        (self.hbmw > 0).then(|| self.mbmw as f64 / self.hbmw as f64)
    }
}
