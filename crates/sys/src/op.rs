//! An operation on a target, and what became of it.

use crate::buffer::Buf;
use std::fmt;

/// Index of a target in its engine.
pub type TargetId = u16;

/// What an operation does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Reads into the operation's buffer.
    Read,
    /// Writes the operation's buffer.
    Write,
}

/// Where a drive that takes hints should put a write: an NVMe FDP placement identifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placement(pub u16);

/// One operation: it owns its buffer from the moment it is made until its completion gives it back,
/// so nothing else can touch the bytes while the kernel has them.
#[derive(Debug)]
pub struct Op {
    /// The target in this engine.
    pub target: TargetId,
    /// Read or write.
    pub kind: Kind,
    /// First byte on the target.
    pub offset: u64,
    /// Bytes to move, at most the buffer's length.
    pub len: u32,
    /// Forces this write to the medium (FUA) where the target was not opened with `O_DSYNC`.
    pub sync: bool,
    /// Placement hint of a write.
    pub placement: Option<Placement>,
    /// The bytes. A simulated drive takes an empty buffer: it keeps no data.
    pub buf: Buf,
    /// The issuer's own number; comes back unchanged.
    pub token: u64,
}

/// How an operation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// All bytes were moved.
    Done,
    /// Fewer bytes than asked for, and no error: the end of the device or file.
    Short(u32),
    /// The kernel's error number.
    Errno(i32),
    /// An NVMe status, from passthrough, which has no error number.
    Nvme {
        /// Status code type.
        sct: u8,
        /// Status code.
        sc: u8,
    },
}

impl Outcome {
    /// Whether all bytes were moved.
    pub fn is_done(self) -> bool {
        self == Self::Done
    }

    /// Whether the target itself is gone, so that no later operation can succeed either.
    pub fn is_gone(self) -> bool {
        matches!(self, Self::Errno(libc::ENODEV | libc::ENXIO | libc::ESHUTDOWN | libc::EBADF | libc::ENOMEDIUM))
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done => f.write_str("done"),
            Self::Short(bytes) => write!(f, "only {bytes} bytes moved"),
            Self::Errno(errno) => write!(f, "{}", std::io::Error::from_raw_os_error(*errno)),
            Self::Nvme { sct, sc } => write!(f, "NVMe status type {sct:#x} code {sc:#04x}"),
        }
    }
}

/// A finished operation.
#[derive(Debug)]
pub struct Completion {
    /// The operation as it was submitted, its buffer included.
    pub op: Op,
    /// How it ended.
    pub outcome: Outcome,
    /// When it was handed to the kernel or the simulator, on the engine's clock.
    pub issued_ns: u64,
    /// When it was seen to be complete, on the engine's clock.
    pub completed_ns: u64,
    /// How long before `completed_ns` it can have been complete without being seen.
    pub unseen_ns: u64,
}
