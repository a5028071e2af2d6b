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
    /// Starting, after damage in which records were lost.
    Damaged,
    /// Ahead, and the other node has all records now: writes wait until it has its partitions back.
    Handing,
    /// Told by a node that is ahead, or behind, before that is recorded.
    Deciding,
}

impl Mode {
    pub(in crate::server) fn of(number: u8) -> Option<Self> {
        use Mode::*;
        [Starting, Paired, Ahead, Behind, Fresh, Damaged, Handing, Deciding].get(usize::from(number)).copied()
    }

    /// Mode of a node that hears `other`, if that changes. `is_first`: it is the first of the list. `is_new`: another
    /// process of the other node said something before.
    pub(super) fn next(self, other: Self, is_first: bool, is_new: bool) -> Option<Self> {
        use Mode::*;
        Some(match (self, other) {
            (Starting | Paired | Fresh | Damaged, Ahead) => Behind,
            // Each has all that was acknowledged.
            (Starting, Starting) | (Fresh, Fresh) if is_first => Ahead,
            (Starting, Fresh | Damaged | Behind) | (Damaged, Fresh) => Ahead,
            // A new process has writes on its device, perhaps, that it never acknowledged.
            (Paired, Starting | Fresh | Damaged | Behind) if is_new => Ahead,
            // It is told so when it has all records.
            (Behind, Paired) => Paired,
            _ => return None,
        })
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
