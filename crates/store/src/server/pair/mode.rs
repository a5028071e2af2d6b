//! Modes of a node in a pair, and the changes of mode that the other node's mode causes. Also the contents of this
//! node's devices at the start, and the mode that follows from them.
//!
//! The record of the mode is a note in the marks of the devices. It identifies the devices for which it was written. So
//! a starting node recognises devices that were formatted after the mode was recorded, and losses that were accepted
//! after that, even if the node crashes several times before it records its mode again.
//!
//! ```text
//! sets of the devices u64 | lost write blocks u64 | pairings u64 | mode u8                                little-endian
//! ```

use crate::NOTE_BYTES;
use crate::record::u64_at;
use std::cmp::Ordering;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum PairMode {
    /// Serves no partition: the other node may be ahead.
    Starting,
    /// Each node has all records, and serves its partitions.
    Paired,
    /// Serves all partitions: the other node may lack records.
    Ahead,
    /// May lack records of the other node: serves no partition.
    Behind,
    /// Starting, without any record.
    Fresh,
    /// Starting, after a loss of records by damage. The node was not ahead, or acknowledged nothing while ahead.
    Damaged,
    /// Ahead, and the other node has all records: writes wait until the other node has its partitions back.
    Handing,
    /// Reported by a node that is ahead or behind, but has not recorded this mode yet.
    Deciding,
    /// Starting, with new devices of some namespaces. In these namespaces the node has no records. In all other
    /// namespaces it has all records that were acknowledged while it was paired.
    New,
    /// As [`Self::New`], but the node was ahead: in the other namespaces it has all records.
    NewAhead,
    /// Starting, and lacks records because of damage or a replaced device. The node was ahead, or may have been,
    /// because its recorded mode may be lost, too.
    MaybeAhead,
    /// Ends, because of a signal or because its drive fails: serves no partition, and the other node takes over.
    Leaving,
    /// Recorded by a node that took over and acknowledged nothing since: the other node has all records, too.
    AheadUnused,
}

impl PairMode {
    pub(in crate::server) fn from_number(number: u8) -> Option<Self> {
        use PairMode::*;
        let all = [
            Starting,
            Paired,
            Ahead,
            Behind,
            Fresh,
            Damaged,
            Handing,
            Deciding,
            New,
            NewAhead,
            MaybeAhead,
            Leaving,
            AheadUnused,
        ];
        all.get(usize::from(number)).copied()
    }

    /// True for a node that serves no partition until it knows the other node's mode.
    pub(in crate::server) fn is_starting(self) -> bool {
        matches!(
            self,
            PairMode::Starting
                | PairMode::Fresh
                | PairMode::Damaged
                | PairMode::New
                | PairMode::NewAhead
                | PairMode::MaybeAhead
        )
    }

    /// True for a node that lacks records of the other node, or may lack them.
    pub(in crate::server) fn lacks_records(self) -> bool {
        matches!(
            self,
            PairMode::Behind
                | PairMode::Damaged
                | PairMode::New
                | PairMode::NewAhead
                | PairMode::MaybeAhead
        )
    }

    /// New mode of this node after the other node reported the mode `peer_mode`; `None`: no change. `is_first`: this
    /// node is the first of the list. `is_new`: the other node has restarted. `own_covers`: the other node also lacks
    /// records in every namespace in which this node has no records; `peer_covers`: the same with the nodes exchanged.
    /// `age`: `Less` if this node's devices hold an older state than the other node's, `Greater` if a newer state.
    pub(super) fn next(
        self,
        peer_mode: Self,
        is_first: bool,
        is_new: bool,
        [own_covers, peer_covers]: [bool; 2],
        age: Ordering,
    ) -> Option<Self> {
        use PairMode::*;
        // An older copy of a node's devices must not win over newer records.
        let wins = age.is_gt() || age.is_eq() && is_first;
        Some(match (self, peer_mode) {
            (_, Ahead) if age.is_gt() => return None,
            (AheadUnused, Starting) if age.is_lt() => Starting,
            (_, Starting | Damaged | New | Behind) if age.is_lt() => return None,
            // A node that was certainly ahead does not become behind: in that case both nodes took over.
            (Starting | Paired | Fresh | Damaged | New | MaybeAhead, Ahead) => Behind,
            // Each node has all acknowledged records.
            (Fresh, Fresh) if is_first => Ahead,
            // A node becomes ahead only if it has records in every namespace in which the other node has records.
            (Starting, Starting) | (New, New) if own_covers && (wins || !peer_covers) => Ahead,
            (NewAhead, New | Starting) if own_covers => Ahead,
            (Starting, Fresh | Damaged | New | Behind)
            | (Damaged | New | NewAhead | MaybeAhead, Fresh) => Ahead,
            // A new process may have writes on its device that were never acknowledged.
            (Paired, Starting | Fresh | Damaged | New | Behind) if is_new => Ahead,
            // The other node answers no request any more.
            (Paired | Handing, Leaving) => Ahead,
            // The second node takes over only from a process that is gone.
            (Paired, MaybeAhead) if is_first => Ahead,
            // The other node took over, or may have, without this node's knowledge.
            (Paired, NewAhead | MaybeAhead) => Starting,
            // The other node reports `Paired` only when this node has all records.
            (Behind, Paired) => Paired,
            _ => return None,
        })
    }

    /// True if two nodes in these modes wait for each other for ever: each lacks records. `age`: see [`Self::next`].
    pub(in crate::server) fn is_stuck(
        self,
        peer_mode: Self,
        covers: [bool; 2],
        age: Ordering,
    ) -> bool {
        use PairMode::*;
        match (self, peer_mode) {
            // The node with the older state answers requests, or the node with the newer state lacks records.
            (Ahead, Starting | Damaged | New) if age.is_lt() => true,
            (Starting | Damaged | New, Ahead) if age.is_gt() => true,
            (Starting, Damaged | New | Behind) if age.is_lt() => true,
            (Damaged | New | Behind, Starting) if age.is_gt() => true,
            (Starting, Starting) | (New, New) => covers == [false; 2],
            (NewAhead, New | Starting) => !covers[0],
            (New | Starting, NewAhead) => !covers[1],
            (MaybeAhead, Starting) | (Starting, MaybeAhead) => true,
            (Damaged | MaybeAhead, Damaged | MaybeAhead | New | NewAhead | Behind) => true,
            (New | NewAhead | Behind, Damaged | MaybeAhead) => true,
            (Behind, New | NewAhead) | (New | NewAhead, Behind) => true,
            _ => false,
        }
    }
}

/// A node's mode as reported to the other node, and the node's number of mode changes, modulo 4096. The number orders
/// messages that overtake each other on different connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModeVersion {
    pub mode: PairMode,
    pub changes: u16,
}

impl ModeVersion {
    pub(in crate::server) fn from_number(number: u16) -> Option<Self> {
        Some(Self {
            mode: PairMode::from_number(number as u8 & 15)?,
            changes: number >> 4,
        })
    }

    pub(in crate::server) fn number(self) -> u16 {
        self.changes << 4 | self.mode as u16
    }

    pub(super) fn next(self, mode: PairMode) -> Self {
        Self {
            mode,
            changes: (self.changes + 1) & 4095,
        }
    }

    /// True if the same process reported this mode before the mode `other`.
    pub(super) fn is_before(self, other: Self) -> bool {
        // `Deciding` is reported until the mode is recorded, with the same number of changes.
        let was_deciding = self.mode == PairMode::Deciding && other.mode != PairMode::Deciding;
        is_earlier(self.changes, other.changes) || self.changes == other.changes && was_deciding
    }
}

/// Compares numbers of mode changes, modulo 4096: true if `changes` is less than `other`.
pub(super) fn is_earlier(changes: u16, other: u16) -> bool {
    changes.wrapping_sub(other) & 4095 >= 2048
}

/// Identity of the devices of all namespaces with two copies of each record.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(in crate::server) struct DeviceIdentity {
    /// The sets of all namespaces, XORed. Formatting the devices of a namespace changes this number.
    pub(in crate::server) device_sets: u64,
    /// Number of write blocks with accepted losses.
    pub(in crate::server) lost_blocks: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::server) struct ModeRecord {
    pub(in crate::server) mode: PairMode,
    pub(in crate::server) devices: DeviceIdentity,
    /// Number of times that the nodes were paired. The greater of two nodes' numbers belongs to the newer state.
    pub(in crate::server) pairings: u64,
}

impl ModeRecord {
    /// Used in place of a lost record.
    pub(in crate::server) const LOST: Self = Self {
        mode: PairMode::MaybeAhead,
        devices: DeviceIdentity {
            device_sets: 0,
            lost_blocks: 0,
        },
        pairings: 0,
    };

    pub(in crate::server) fn read(text: &[u8; NOTE_BYTES]) -> Option<Self> {
        let device_sets = u64_at(text, 0);
        let lost_blocks = u64_at(text, 8);
        let pairings = u64_at(text, 16);
        Some(Self {
            mode: PairMode::from_number(text[24])?,
            devices: DeviceIdentity {
                device_sets,
                lost_blocks,
            },
            pairings,
        })
    }

    pub(in crate::server) fn to_text(self) -> [u8; NOTE_BYTES] {
        let mut text = [0; NOTE_BYTES];
        let numbers = [
            self.devices.device_sets,
            self.devices.lost_blocks,
            self.pairings,
        ]
        .map(u64::to_le_bytes);
        text[..24].copy_from_slice(numbers.as_flattened());
        text[24] = self.mode as u8;
        text
    }
}

/// Contents of this node's devices at the start, of namespaces with two copies of each record.
#[derive(Debug, Default, Clone, Copy)]
pub(in crate::server) struct DeviceContents {
    pub(in crate::server) recorded: Option<ModeRecord>,
    pub(in crate::server) devices: DeviceIdentity,
    /// Bits of the namespaces with two copies of each record. The first of these namespaces has the record of the mode.
    pub(in crate::server) replicated: u32,
    /// Bits of the namespaces that have records.
    pub(in crate::server) nonempty: u32,
}

impl DeviceContents {
    pub(super) fn empty(&self) -> u32 {
        self.replicated & !self.nonempty
    }

    /// Mode that the node has at the start; `None` for [`PairMode::Starting`].
    pub(super) fn mode(&self) -> Option<PairMode> {
        let DeviceIdentity {
            device_sets,
            lost_blocks,
        } = self
            .recorded
            .map_or(DeviceIdentity::default(), |of| of.devices);
        // A new namespace gets no records before the mode is recorded together with the namespace's set.
        let has_new = self.empty() != 0 && device_sets != self.devices.device_sets;
        let is_damaged = lost_blocks != self.devices.lost_blocks;
        // New devices of the first namespace have no record of the mode.
        let has_lost_mode = self.recorded.is_none()
            && self.nonempty & self.replicated & self.replicated.wrapping_neg() == 0;
        match self.recorded.map(|of| of.mode) {
            // A node without any record cannot serve outdated records.
            None | Some(PairMode::Behind) if self.nonempty == 0 && !is_damaged => {
                Some(PairMode::Fresh)
            }
            _ if has_lost_mode => Some(PairMode::MaybeAhead),
            Some(mode @ (PairMode::Behind | PairMode::MaybeAhead | PairMode::Damaged)) => {
                Some(mode)
            }
            Some(PairMode::Ahead | PairMode::NewAhead) if is_damaged => Some(PairMode::MaybeAhead),
            _ if is_damaged => Some(PairMode::Damaged),
            Some(mode @ (PairMode::New | PairMode::NewAhead)) => Some(mode),
            Some(PairMode::Ahead) if has_new => Some(PairMode::NewAhead),
            Some(PairMode::Ahead) => Some(PairMode::Ahead),
            Some(_) if has_new => Some(PairMode::New),
            Some(PairMode::AheadUnused) => Some(PairMode::Ahead),
            _ => None,
        }
    }
}
