//! Windows of `zonemode=strided`: operations stay in a window, which advances after `zonesize` bytes of operations.
//!
//! Source: fio's `setup_strided_zone_mode()`.

use super::value::Size;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ZoneOptions {
    /// True for `zonemode=strided`, false for `zonemode=none`; `None`: strided if `zonesize` is given, as in fio.
    pub mode_is_strided: Option<bool>,
    /// Bytes of operations before the window advances.
    pub size: Option<Size>,
    /// Bytes of the window; default: `size`.
    pub range: Option<Size>,
    /// Bytes between two windows.
    pub skip: Option<Size>,
}

#[derive(Debug, Clone)]
pub(super) struct StridedWindows {
    size: u64,
    step_bytes: u64,
    /// Start of the first window, and end of the device or file.
    first_start: u64,
    end: u64,
    done_bytes: u64,
}

impl ZoneOptions {
    pub(super) fn is_strided(self) -> bool {
        self.mode_is_strided.unwrap_or(self.size.is_some())
    }

    /// Length of a window, and its movement over a device of `device_bytes` bytes from byte `start` on.
    /// `None` without `zonemode=strided`. Errors: sizes that do not fit.
    pub(super) fn windows(
        self,
        start: u64,
        device_bytes: u64,
    ) -> Result<Option<(u64, StridedWindows)>, String> {
        if !self.is_strided() {
            return Ok(None);
        }
        let size = self.size.map_or(0, |size| size.bytes_of(device_bytes));
        let range = self
            .range
            .map_or(size, |range| range.bytes_of(device_bytes));
        let skip = self.skip.map_or(0, |skip| skip.bytes_of(device_bytes));
        let room = device_bytes.saturating_sub(start);
        match range.min(size) {
            0 => Err("zonemode=strided moves its window after zonesize bytes of operations, but zonesize is missing - give zonesize".into()),
            _ if range > room => {
                Err(format!("a window of {range} bytes is larger than the {room} bytes of the range - lower zonerange or zonesize"))
            }
            _ => Ok(Some((range, StridedWindows { size, step_bytes: range.saturating_add(skip), first_start: start, end: device_bytes, done_bytes: 0 }))),
        }
    }
}

impl StridedWindows {
    /// Counts `len` bytes in the window at `start`. Returns the next window's start once `zonesize` bytes are done.
    pub(super) fn next_start(&mut self, start: u64, len: u64, window: u64) -> Option<u64> {
        self.done_bytes += len;
        if self.done_bytes < self.size {
            return None;
        }
        self.done_bytes = 0;
        // fio shortens the last window. Here a window that does not fit is skipped, and the first window follows.
        let next = start.checked_add(self.step_bytes);
        next.filter(|next| next.checked_add(window).is_some_and(|end| end <= self.end))
            .or(Some(self.first_start))
    }
}
