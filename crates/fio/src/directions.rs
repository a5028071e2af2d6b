//! The directions of operations, and the kinds of operations that are counted separately.

use sys::op::OpKind;

/// Reads, writes, trims.
pub(super) const DIRECTIONS: usize = 3;

pub const READS: usize = 0;
pub(super) const WRITES: usize = 1;
pub(super) const TRIMS: usize = 2;

/// Kinds of operations that are counted separately: the directions, and flushes.
pub const KINDS: usize = DIRECTIONS + 1;

pub const FLUSHES: usize = DIRECTIONS;

/// Index of commits, after the operations: a commit is a write and its sync, which are counted separately as well.
pub(super) const COMMITS: usize = KINDS;

pub(super) const KIND_OF: [OpKind; KINDS] = [
    OpKind::Read,
    OpKind::Write,
    OpKind::Deallocate,
    OpKind::Flush,
];

/// The direction of an operation, or [`FLUSHES`].
#[inline]
pub(super) fn kind_number(kind: OpKind) -> usize {
    match kind {
        OpKind::Read => READS,
        OpKind::Write => WRITES,
        OpKind::Deallocate => TRIMS,
        _ => FLUSHES,
    }
}
