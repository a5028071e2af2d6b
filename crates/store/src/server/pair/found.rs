//! Contents of this node's devices at the start, and the mode that follows from them.
//!
//! The record of the mode tells of which devices it was recorded. So devices that were formatted later are known as new,
//! and losses that were accepted later as such, however often the node crashes before it records its mode again.
//!
//! ```text
//! sets of the devices u64 | write blocks lost in the record's store u64 | in the others u64 | mode u8          big-endian
//! ```
//!
//! Earlier versions wrote the mode in the last of 8 bytes.

use super::Mode;

const BYTES: usize = 25;

/// Devices of the namespaces with two copies of each record.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(in crate::server) struct Devices {
    /// The sets of all namespaces, XORed: another number once one of them is formatted.
    pub(in crate::server) sets: u64,
    /// Write blocks whose losses were accepted: in the store that has the record of the mode, and in the others.
    pub(in crate::server) lost: [u64; 2],
}

/// The record of a mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::server) struct Recorded {
    pub(in crate::server) mode: Mode,
    pub(in crate::server) devices: Devices,
}

impl Recorded {
    pub(in crate::server) fn read(bytes: &[u8]) -> Option<Self> {
        let mode = Mode::of(*bytes.last()?)?;
        let Some(bytes) = bytes.first_chunk::<BYTES>() else { return Some(Self { mode, devices: Devices::default() }) };
        let [sets, here, elsewhere] =
            [0, 8, 16].map(|at| bytes[at..at + 8].iter().fold(0, |number, byte| number << 8 | u64::from(*byte)));
        Some(Self { mode, devices: Devices { sets, lost: [here, elsewhere] } })
    }

    pub(in crate::server) fn to_bytes(self) -> [u8; BYTES] {
        let [here, elsewhere] = self.devices.lost;
        let mut bytes = [self.mode as u8; BYTES];
        let numbers = [self.devices.sets, here, elsewhere].map(u64::to_be_bytes);
        bytes[..BYTES - 1].copy_from_slice(numbers.as_flattened());
        bytes
    }
}

/// Contents of this node's devices at the start, of namespaces with two copies of each record.
#[derive(Debug, Default, Clone, Copy)]
pub(in crate::server) struct Found {
    pub(in crate::server) recorded: Option<Recorded>,
    pub(in crate::server) devices: Devices,
    /// Bits of the namespaces; the first has the record of the mode.
    pub(in crate::server) copied: u32,
    /// Bits of those with records.
    pub(in crate::server) full: u32,
}

impl Found {
    /// Bits of the namespaces without records.
    pub(super) fn empty(&self) -> u32 {
        self.copied & !self.full
    }

    /// Mode of the node, unless that is [`Mode::Starting`].
    pub(super) fn mode(&self) -> Option<Mode> {
        let Devices { sets, lost } = self.recorded.map_or(Devices::default(), |of| of.devices);
        // A new namespace has no records before the mode is recorded with it.
        let has_new = self.empty() != 0 && sets != self.devices.sets;
        let is_damaged = lost != self.devices.lost;
        let is_first_empty = self.full & self.copied & self.copied.wrapping_neg() == 0;
        // An older record of the mode may be left of a damaged store.
        let has_lost_mode = lost[0] != self.devices.lost[0] || self.recorded.is_none() && is_first_empty;
        match self.recorded.map(|of| of.mode) {
            // Nobody who has none lacks any.
            None | Some(Mode::Behind) if self.full == 0 && !is_damaged => Some(Mode::Fresh),
            _ if has_lost_mode => Some(Mode::MaybeAhead),
            Some(mode @ (Mode::Behind | Mode::MaybeAhead | Mode::Damaged)) => Some(mode),
            Some(Mode::Ahead | Mode::NewAhead) if is_damaged => Some(Mode::MaybeAhead),
            _ if is_damaged => Some(Mode::Damaged),
            Some(mode @ (Mode::New | Mode::NewAhead)) => Some(mode),
            Some(Mode::Ahead) if has_new => Some(Mode::NewAhead),
            Some(Mode::Ahead) => Some(Mode::Ahead),
            Some(_) if has_new => Some(Mode::New),
            _ => None,
        }
    }
}
