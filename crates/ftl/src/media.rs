//! Observer of flash operations, such as a model of their time or wear.

/// Origin of the data of a program or read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// Host write.
    Host,
    /// Garbage collection or wear levelling.
    Collection,
}

/// Consecutive units of a superblock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Number of the superblock, from 0.
    pub superblock: u32,
    /// First unit in the superblock, from 0.
    pub first: u32,
    pub units: u32,
}

/// Receives the flash operations, in order. `()` ignores them at no cost.
pub trait Media {
    /// False if no operation is observed: then garbage collection does not compute the extents that it reads.
    const LISTENS: bool = true;

    /// Units were programmed.
    fn program(&mut self, at: Extent, cause: Cause);

    /// Valid units were read to be moved.
    fn read(&mut self, at: Extent);

    /// A superblock was erased.
    fn erase(&mut self, superblock: u32);
}

impl Media for () {
    const LISTENS: bool = false;

    fn program(&mut self, _: Extent, _: Cause) {}

    fn read(&mut self, _: Extent) {}

    fn erase(&mut self, _: u32) {}
}
