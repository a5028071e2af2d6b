//! Strided zones: fio's `zonemode=strided`. After `zonesize` bytes in a window the window moves on.
//!
//! Source: fio's `setup_strided_zone_mode()`.

use super::value::Size;

/// Options of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ZoneOptions {
    /// True for `zonemode=strided`.
    pub strided: bool,
    /// Bytes of operations in each window.
    pub size: Option<Size>,
    /// Bytes of the window; by default as many as `size`.
    pub range: Option<Size>,
    /// Bytes between the end of a window and the next.
    pub skip: Option<Size>,
}

/// The window of an area that operations are in now.
#[derive(Debug, Clone)]
pub(super) struct Zones {
    size: u64,
    step: u64,
    /// Start of the first window, and end of the device or file.
    first: u64,
    end: u64,
    done: u64,
}

impl ZoneOptions {
    /// Length of a window of a device with `whole` bytes, and its zones from `first` on. Errors: sizes that do not fit.
    pub(super) fn of(self, first: u64, whole: u64) -> Result<Option<(u64, Zones)>, String> {
        if !self.strided {
            return Ok(None);
        }
        let size = self.size.map_or(0, |size| size.of(whole));
        let range = self.range.map_or(size, |range| range.of(whole));
        let skip = self.skip.map_or(0, |skip| skip.of(whole));
        let room = whole.saturating_sub(first);
        match range.min(size) {
            0 => Err("zonemode=strided moves on after zonesize bytes - give zonesize".into()),
            _ if range > room => {
                Err(format!("a zone of {range} bytes is larger than the {room} bytes there are - lower zonerange"))
            }
            _ => Ok(Some((range, Zones { size, step: range.saturating_add(skip), first, end: whole, done: 0 }))),
        }
    }
}

impl Zones {
    /// Counts `len` bytes; `Some`: start of the window after the one at `start`, which they end.
    pub(super) fn next_start(&mut self, start: u64, len: u64, window: u64) -> Option<u64> {
        self.done += len;
        if self.done < self.size {
            return None;
        }
        self.done = 0;
        // fio cuts the last window short; here one that does not fit begins again at the first.
        let next = start.checked_add(self.step);
        next.filter(|next| next.checked_add(window).is_some_and(|end| end <= self.end)).or(Some(self.first))
    }
}
