//! What a drive is like inside.

/// A drive, as far as its flash translation layer is concerned.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Spec {
    /// Bytes that the host sees (U).
    pub logical_bytes: u64,
    /// Bytes of a mapping unit, the smallest that is written and moved: 4 KiB to 64 KiB.
    pub unit_bytes: u32,
    /// Over-provisioning, (T - U) / U, where T is all of the flash. Above 0.
    pub over_provisioning: f64,
    /// Bytes of a superblock (NVMe: a reclaim unit), which is erased as a whole.
    pub superblock_bytes: u64,
    /// Which superblock is collected next.
    pub victim: Victim,
    /// Where garbage collection writes what it moves.
    pub append: Append,
    /// Reclaim unit handles, at least 1. A write without a handle takes the first.
    pub handles: u16,
    /// What becomes of the separation of handles in garbage collection.
    pub isolation: Isolation,
    /// Superblocks that are kept free for garbage collection, at least 1.
    pub reserve_superblocks: u32,
    /// Wear levelling: erases of the most and of the least worn superblock may differ by this; none: no levelling.
    pub wear_gap: Option<u32>,
}

/// Which superblock garbage collection takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub enum Victim {
    /// That with the fewest valid units.
    Greedy,
    /// That which was filled first.
    Fifo,
    /// That with the greatest (1 - u) / 2u x age, where u is its share of valid units (Rosenblum, Ousterhout 1992).
    CostBenefit,
    /// The one with the fewest valid units of so many that are drawn at random (Van Houdt 2013).
    Choices(u32),
}

/// Where garbage collection writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub enum Append {
    /// Behind the host's writes.
    Shared,
    /// Into superblocks of its own, of all handles together.
    Separate,
    /// Into superblocks of its own for each handle.
    PerHandle,
}

/// NVMe's reclaim unit handle types.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub enum Isolation {
    /// Initially isolated: garbage collection may mix what was written by different handles.
    Initially,
    /// Persistently isolated: it never does.
    Persistently,
}
