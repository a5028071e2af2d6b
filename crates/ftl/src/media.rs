//! Observer of flash operations: a model of its time, or of its wear.

/// Origin of the data of a program or read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// The host's, as it writes it.
    Host,
    /// Garbage collection's or wear levelling's.
    Collection,
}

/// Units that lie one behind the other in a superblock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Number of the superblock, from 0.
    pub superblock: u32,
    /// The first unit in it, from 0.
    pub first: u32,
    pub units: u32,
}

/// Is told what is done to the flash, in order. `()` is nobody, and costs nothing.
pub trait Media {
    /// False if no operation is observed: then garbage collection does not compute the extents that it reads.
    const LISTENS: bool = true;

    /// Units are programmed.
    fn program(&mut self, at: Extent, cause: Cause);

    /// Valid units are read to be moved.
    fn read(&mut self, at: Extent);

    /// A superblock is erased.
    fn erase(&mut self, superblock: u32);
}

impl Media for () {
    const LISTENS: bool = false;

    fn program(&mut self, _: Extent, _: Cause) {}

    fn read(&mut self, _: Extent) {}

    fn erase(&mut self, _: u32) {}
}
