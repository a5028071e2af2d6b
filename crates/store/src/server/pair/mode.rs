//! Modes of a node towards the other, and how it follows the other's.

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
    /// Starting, with new devices of some namespaces: there it has no records, in the others all that were acknowledged
    /// while it was paired.
    New,
    /// The same, but in the others it has all records, as it was ahead.
    NewAhead,
    /// Starting, and lacks records by damage or a replaced device. It was ahead, or may have been: its recorded mode may
    /// be lost, too.
    MaybeAhead,
}

/// The two nodes, as one of them knows them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sides {
    /// This node is the first of the list.
    pub(super) is_first: bool,
    /// Another process of the other node said something before.
    pub(super) is_new: bool,
    /// In each namespace without records here the other node has none either; and the other way round.
    pub(super) covers: [bool; 2],
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

    /// Mode of a node that hears `other`, if that changes.
    pub(super) fn next(self, other: Self, Sides { is_first, is_new, covers: [own, others] }: Sides) -> Option<Self> {
        use Mode::*;
        Some(match (self, other) {
            // Not if this one was ahead for certain: then both took over.
            (Starting | Paired | Fresh | Damaged | New | MaybeAhead, Ahead) => Behind,
            // Each has all that was acknowledged.
            (Fresh, Fresh) if is_first => Ahead,
            // No namespace of the one that is ahead is without records that the other has.
            (Starting, Starting) | (New, New) if own && (is_first || !others) => Ahead,
            (NewAhead, New | Starting) if own => Ahead,
            (Starting, Fresh | Damaged | New | Behind) | (Damaged | New | NewAhead | MaybeAhead, Fresh) => Ahead,
            // A new process has writes on its device, perhaps, that it never acknowledged.
            (Paired, Starting | Fresh | Damaged | New | Behind) if is_new => Ahead,
            // The second node takes over only from a process that is gone.
            (Paired, MaybeAhead) if is_first => Ahead,
            // The other took over without this one's knowledge, or may have.
            (Paired, NewAhead | MaybeAhead) => Starting,
            // The other node is told so when it has all records.
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

/// A node's mode as it tells it, with the number of changes before, modulo 4096: messages on several connections may
/// overtake each other.
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
        // Told until the mode is recorded.
        let was_deciding = self.mode == Mode::Deciding && other.mode != Mode::Deciding;
        is_earlier(self.changes, other.changes) || self.changes == other.changes && was_deciding
    }
}

/// True if the first of two numbers of changes, modulo 4096, is the lower.
pub(super) fn is_earlier(changes: u16, other: u16) -> bool {
    changes.wrapping_sub(other) & 4095 >= 2048
}
