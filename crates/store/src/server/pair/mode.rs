//! Modes of a node towards the other, and how it follows the other's.
//!
//! Contents of this node's devices at the start, and the mode that follows from them.
//!
//! The record of the mode names the devices for which it was written. So devices that were formatted later are known as
//! new, and losses that were accepted later are noticed, however often the node crashes before it records its mode
//! again.
//!
//! ```text
//! sets of the devices u64 | write blocks lost in the record's store u64 | in the others u64 | mode u8       big-endian
//! ```
//!
//! Earlier versions wrote the mode in the last of 8 bytes.

/// State of a node towards the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Mode {
    /// Answers for nothing: the other node may be ahead.
    Starting,
    /// Each node has all records, and answers for its partitions.
    Paired,
    /// Answers for all partitions: the other node may lack records.
    Ahead,
    /// May lack records of the other node: answers for nothing.
    Behind,
    /// Starting, without any record.
    Fresh,
    /// Starting, after damage in which records were lost. It was paired before.
    Damaged,
    /// Ahead, and the other node has all records now: writes wait until it has its partitions back.
    Handing,
    /// Told by a node that is ahead, or behind, before that is recorded.
    Deciding,
    /// Starting, with new devices of some namespaces. In these it has no records; in the others it has all that were
    /// acknowledged while it was paired.
    New,
    /// As [`Self::New`], but it was ahead: in the other namespaces it has all records.
    NewAhead,
    /// Starting, and lacks records by damage or a replaced device. It was ahead, or may have been: its recorded mode
    /// may be lost, too.
    MaybeAhead,
}

impl Mode {
    pub(in crate::server) fn of(number: u8) -> Option<Self> {
        use Mode::*;
        let all = [Starting, Paired, Ahead, Behind, Fresh, Damaged, Handing, Deciding, New, NewAhead, MaybeAhead];
        all.get(usize::from(number)).copied()
    }

    /// True for a node that answers for nothing until the other has said its mode.
    pub(in crate::server) fn is_starting(self) -> bool {
        matches!(self, Mode::Starting | Mode::Fresh | Mode::Damaged | Mode::New | Mode::NewAhead | Mode::MaybeAhead)
    }

    /// New mode of a node that hears the mode `other`; `None`: no change. `is_first`: this node is the first of the
    /// list. `is_new`: another process of the other node was heard before. `own`: in each namespace where this node has
    /// no records, the other has none either; `others`: the other way round.
    pub(super) fn next(self, other: Self, is_first: bool, is_new: bool, [own, others]: [bool; 2]) -> Option<Self> {
        use Mode::*;
        Some(match (self, other) {
            // Not if this node was certainly ahead: then both took over.
            (Starting | Paired | Fresh | Damaged | New | MaybeAhead, Ahead) => Behind,
            // Each has all that was acknowledged.
            (Fresh, Fresh) if is_first => Ahead,
            // The node that gets ahead has records in every namespace in which the other has some.
            (Starting, Starting) | (New, New) if own && (is_first || !others) => Ahead,
            (NewAhead, New | Starting) if own => Ahead,
            (Starting, Fresh | Damaged | New | Behind) | (Damaged | New | NewAhead | MaybeAhead, Fresh) => Ahead,
            // A new process may have writes on its device that it never acknowledged.
            (Paired, Starting | Fresh | Damaged | New | Behind) if is_new => Ahead,
            // The second node takes over only from a process that is gone.
            (Paired, MaybeAhead) if is_first => Ahead,
            // The other node took over without this node's knowledge, or may have.
            (Paired, NewAhead | MaybeAhead) => Starting,
            // The other node says so only when this node has all records.
            (Behind, Paired) => Paired,
            _ => return None,
        })
    }

    /// True for two nodes that wait for each other for ever, because each lacks records.
    pub(in crate::server) fn is_stuck(self, other: Self, covers: [bool; 2]) -> bool {
        use Mode::*;
        match (self, other) {
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

/// A node's mode as it tells it, and the number of its mode changes before, modulo 4096. The number orders messages
/// that overtake each other on several connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Word {
    pub mode: Mode,
    pub changes: u16,
}

impl Word {
    pub(in crate::server) fn of(number: u16) -> Option<Self> {
        Some(Self { mode: Mode::of(number as u8 & 15)?, changes: number >> 4 })
    }

    pub(in crate::server) fn number(self) -> u16 {
        self.changes << 4 | self.mode as u16
    }

    pub(super) fn next(self, mode: Mode) -> Self {
        Self { mode, changes: (self.changes + 1) & 4095 }
    }

    /// True if it was said before `other`, by the same process.
    pub(super) fn is_before(self, other: Self) -> bool {
        // `Deciding` is told until the mode is recorded.
        let was_deciding = self.mode == Mode::Deciding && other.mode != Mode::Deciding;
        is_earlier(self.changes, other.changes) || self.changes == other.changes && was_deciding
    }
}

/// True if the first of two numbers of changes, modulo 4096, is the lower.
pub(super) fn is_earlier(changes: u16, other: u16) -> bool {
    changes.wrapping_sub(other) & 4095 >= 2048
}

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
    /// Bits of the namespaces with records.
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
            // A node without any record cannot lack some of them.
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
