//! An operation on a target, its result, and a queue of operations in the kernel.

use crate::buffer::Buf;
use crate::nvme::NvmeStatus;
use std::{fmt, io};

/// Index of a target in its engine.
pub type TargetId = u16;

/// Type of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpKind {
    /// Reads into the operation's buffer.
    Read,
    /// Writes the operation's buffer.
    Write,
    /// Flushes the drive's write cache (fdatasync(2)): completed writes become durable. No offset, length or data.
    Flush,
    /// As [`Self::Flush`], and writes all metadata of the file (fsync(2)). On a device, the same as a flush.
    FlushFile,
    /// Starts or waits for the write-back of a range of the page cache (sync_file_range(2)); length 0: to the end. The
    /// drive's write cache is not flushed, so nothing becomes durable.
    WriteBack(WriteBack),
    /// Deallocates a range: a discard (TRIM, NVMe deallocate) on a block device, a punched hole in a file. Has no data.
    /// Later reads return zeros in a file; on a device the drive determines the data.
    Deallocate,
}

impl OpKind {
    /// True if the operation transfers bytes between its buffer and the target.
    pub fn moves_data(self) -> bool {
        matches!(self, Self::Read | Self::Write)
    }

    /// True if the operation makes all writes that completed before it durable.
    pub fn is_flush(self) -> bool {
        matches!(self, Self::Flush | Self::FlushFile)
    }
}

impl fmt::Display for OpKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Flush => "flush",
            Self::FlushFile => "fsync",
            Self::WriteBack(_) => "sync_file_range",
            Self::Deallocate => "deallocate",
        })
    }
}

/// Steps of a write-back: flags of sync_file_range(2), in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WriteBack {
    /// Waits for the write-back in progress.
    pub wait_before: bool,
    /// Starts the write-back of all modified pages.
    pub write: bool,
    /// Waits for the write-back that `write` started.
    pub wait_after: bool,
    /// Instead of these steps, drops the target's clean pages from the page cache (posix_fadvise(2)).
    pub drop_cache: bool,
}

impl WriteBack {
    /// The flags of sync_file_range(2) and of io_uring's entry.
    pub fn flags(self) -> u32 {
        [
            (self.wait_before, libc::SYNC_FILE_RANGE_WAIT_BEFORE),
            (self.write, libc::SYNC_FILE_RANGE_WRITE),
            (self.wait_after, libc::SYNC_FILE_RANGE_WAIT_AFTER),
        ]
        .into_iter()
        .filter_map(|(is_on, flag)| is_on.then_some(flag))
        .sum()
    }
}

/// Durability of a single write, on a target opened without `O_DSYNC` and `O_SYNC`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WriteSync {
    /// The data may stay in the drive's write cache.
    #[default]
    No,
    /// The data is on the medium when the write completes, as with `O_DSYNC` (FUA).
    Data,
    /// The data and all metadata of the file are on the medium when the write completes, as with `O_SYNC`.
    File,
}

impl WriteSync {
    /// True if the write is on the medium when it completes.
    pub fn is_on(self) -> bool {
        self != Self::No
    }

    /// Flags of pwritev2(2), io_uring and AIO.
    pub fn flags(self) -> i32 {
        match self {
            Self::No => 0,
            Self::Data => libc::RWF_DSYNC,
            Self::File => libc::RWF_SYNC,
        }
    }
}

/// Placement hint of a write, counted from 1: a write stream of the block layer; with NVMe FDP, a placement handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placement(pub u16);

/// I/O priority as for ioprio_set(2): class, hint and level; 0: the priority of the issuing thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Priority(u16);

impl Priority {
    /// `class`: 1 real-time, 2 best-effort, 3 idle. `level`: 0 (highest) to 7. `hint`: 0 to 1,023 (linux/ioprio.h).
    pub fn new(class: u16, level: u16, hint: u16) -> Self {
        Self((class & 7) << 13 | (hint & 0x3ff) << 3 | (level & 7))
    }

    /// Number for the kernel.
    pub fn value(self) -> u16 {
        self.0
    }
}

/// An operation. Owns its buffer until completion: nothing else accesses the bytes while the kernel does.
#[derive(Debug)]
pub struct Op {
    /// Target of the operation.
    pub target: TargetId,
    /// Type of the operation.
    pub kind: OpKind,
    /// Offset of the first byte on the target.
    pub offset: u64,
    /// Bytes to transfer or deallocate; for a read or write, at most the length of the buffer.
    pub len: u32,
    /// Durability of this write.
    pub sync: WriteSync,
    /// Placement hint of a write; without placement support the write fails with `EOPNOTSUPP`, never silently.
    pub placement: Option<Placement>,
    /// I/O priority of a read or write. pread(2) and pwrite(2) have no such parameter: set the thread's priority first.
    pub priority: Priority,
    /// Data of the operation; empty for a simulated drive that stores no data.
    pub buf: Buf,
    /// Number chosen by the issuer, with which issuer and engine index their tables: below the engine's limit of
    /// operations in flight, and unique among the operations in flight.
    pub token: u32,
}

impl Op {
    /// An operation on the first target, with token 0 and default durability, placement and priority.
    pub fn new(kind: OpKind, offset: u64, len: u32, buf: Buf) -> Self {
        let sync = WriteSync::No;
        let priority = Priority::default();
        Self {
            target: 0,
            kind,
            offset,
            len,
            sync,
            placement: None,
            priority,
            buf,
            token: 0,
        }
    }
}

/// Result of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the comment of a variant describes its fields")]
pub enum Outcome {
    /// All bytes were transferred.
    Done,
    /// Fewer bytes than requested, without an error: the end of the device or file.
    Short(u32),
    /// Error number of the kernel.
    Errno(i32),
    /// NVMe status of a passthrough command, which has no error number.
    Nvme(NvmeStatus),
    /// Result code of a database server, other than 0.
    Result(u8),
    /// A read returned a record that none of its writes can have produced. `key`: the record's key in a batch of reads.
    Wrong { key: u64, wrong: WrongRecord },
}

/// Errors that a verifying reader finds in a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the comment of a variant describes its fields")]
pub enum WrongRecord {
    /// The complete value of write `found` (0: of an earlier run), which is older than the last acknowledged write.
    Old { acknowledged: u32, found: u32 },
    /// No record, although write `acknowledged` was acknowledged; 0: this run has not written the record.
    Missing { acknowledged: u32 },
    /// A value of another key, or a value that this client never wrote.
    Foreign,
    /// A mix of two writes, or a write with corrupted bytes. `bin`: number of the bin, from 1; `at`: offset of the
    /// first wrong byte in its value; `found`: that byte, `None` if the value ends before it.
    Torn {
        bin: u16,
        at: u32,
        expected: u8,
        found: Option<u8>,
    },
}

impl Outcome {
    /// Outcome of a read whose data differ from the data written.
    pub const WRONG_DATA: Self = Self::Errno(libc::EILSEQ);

    /// Result of `op` for which the kernel returned `result`: the bytes moved, or a negative error number.
    pub(crate) fn from_result(result: i64, op: &Op) -> Self {
        let expected_bytes = if op.kind.moves_data() { op.len } else { 0 };
        match result {
            errno if errno < 0 => Self::Errno(-errno as i32),
            bytes if bytes == i64::from(expected_bytes) => Self::Done,
            bytes => Self::Short(bytes as u32),
        }
    }

    /// True if all bytes were transferred.
    #[inline]
    pub fn is_done(self) -> bool {
        self == Self::Done
    }

    /// True if the data read differ from the data written.
    pub fn is_wrong_data(self) -> bool {
        matches!(self, Self::Wrong { .. })
    }

    /// True if the target itself is gone, so that all later operations will fail, too.
    pub fn is_gone(self) -> bool {
        matches!(
            self,
            Self::Errno(
                libc::ENODEV | libc::ENXIO | libc::ESHUTDOWN | libc::EBADF | libc::ENOMEDIUM
            )
        )
    }

    /// True for an error of a drive that lost its power or link. A powered drive can also return some of these errors.
    pub fn is_of_vanished_drive(self) -> bool {
        use libc::{EIO, ENODEV, ENOLINK, ENOMEDIUM, ENXIO, EREMOTEIO, ESHUTDOWN, ETIMEDOUT};
        let errnos = [
            EIO, ENODEV, ENXIO, ETIMEDOUT, ENOMEDIUM, ENOLINK, EREMOTEIO, ESHUTDOWN,
        ];
        matches!(self, Self::Errno(errno) if errnos.contains(&errno))
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done => f.write_str("done"),
            Self::Short(bytes) => write!(f, "only {bytes} bytes moved"),
            Self::Errno(errno) => write!(f, "{}", io::Error::from_raw_os_error(*errno)),
            Self::Nvme(status) => write!(f, "{status}"),
            Self::Result(code) => match result_word(*code) {
                Some(word) => write!(f, "result code {code}: {word}"),
                None => write!(f, "result code {code}"),
            },
            Self::Wrong { wrong, .. } => write!(f, "{wrong}"),
        }
    }
}

impl fmt::Display for WrongRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Old {
                acknowledged,
                found: 0,
            } => {
                write!(
                    f,
                    "old: a write of an earlier run, although write {acknowledged} of this run was acknowledged"
                )
            }
            Self::Old {
                acknowledged,
                found,
            } => {
                write!(
                    f,
                    "old: write {found} of this record, although write {acknowledged} was acknowledged"
                )
            }
            Self::Missing { acknowledged: 0 } => {
                f.write_str("missing: no such record; this run has not written it")
            }
            Self::Missing { acknowledged } => {
                write!(
                    f,
                    "missing: no such record, although write {acknowledged} was acknowledged"
                )
            }
            Self::Foreign => f.write_str(
                "foreign: a value of another key, or a value that this client never wrote",
            ),
            Self::Torn {
                bin,
                at,
                expected,
                found: Some(found),
            } => {
                write!(
                    f,
                    "torn: byte {at} of bin {bin} is 0x{found:02x}, not 0x{expected:02x} as expected from the bytes before it"
                )
            }
            Self::Torn {
                bin,
                at,
                expected,
                found: None,
            } => {
                write!(
                    f,
                    "torn: bin {bin} ends before its byte {at}, which was written as 0x{expected:02x}"
                )
            }
        }
    }
}

/// Meaning of a result code of Aerospike's protocol, for codes of single-record transactions; `None` for others.
pub fn result_word(code: u8) -> Option<&'static str> {
    Some(match code {
        0 => "done",
        1 => "server error",
        2 => "no such record",
        3 => "generation mismatch",
        4 => "bad parameter",
        5 => "the record exists",
        8 => "out of space: writes have stopped",
        9 => "timed out at the server",
        11 => "partition unavailable on this node",
        12 => "bin of another type",
        13 => "record too big",
        14 => "hot key: too many transactions wait for the record",
        16 => "not supported by the server",
        18 => "device overload",
        20 => "no such namespace",
        21 => "bin name too long",
        22 => "operation forbidden now",
        26 => "operation not applicable to the value",
        80 => "not authenticated",
        _ => return None,
    })
}

/// A completed operation.
#[derive(Debug)]
pub struct Completion {
    /// Token of the operation.
    pub token: u32,
    /// Buffer of the operation.
    pub buf: Buf,
    /// Result of the operation.
    pub outcome: Outcome,
    /// Time of submission to the kernel or the simulator, on the engine's clock.
    pub issued_ns: u64,
    /// Time at which the engine saw the completion, on the engine's clock.
    pub completed_ns: u64,
    /// Upper bound of the time between the completion and its detection at `completed_ns`, nanoseconds.
    pub unseen_ns: u64,
}

/// A completion of a [`Queue`].
pub struct Reaped<Op, Outcome> {
    /// Token of the operation.
    pub token: u32,
    /// The operation with its buffer; `None`: the operation is multishot, and more completions follow.
    pub op: Option<Op>,
    /// Result of the operation, or one event of a multishot operation.
    pub outcome: Outcome,
    /// Time of submission to the kernel, on the clock of [`Queue::enter`].
    pub issued_ns: u64,
}

/// Limits of a wait for completions.
#[derive(Debug, Clone, Copy)]
pub struct Wait {
    /// Latest end, on the clock of [`Queue::enter`]. For an instant in the past, engines poll without a sleep.
    pub until_ns: u64,
    /// Number of completions that end the wait; at least 1.
    pub completions: u32,
}

impl Wait {
    /// A wait for the next completion.
    pub const fn first(until_ns: u64) -> Self {
        Self {
            until_ns,
            completions: 1,
        }
    }
}

/// A queue of operations in the kernel: io_uring or Linux AIO. The queue owns operations until it returns their buffers
/// with the completions: exactly as long as the kernel may access the bytes. Tokens are below the maximum number of
/// operations in flight.
pub trait Queue {
    /// Operation type.
    type Op;

    /// Result type of a completion.
    type Outcome;

    /// Cuts a buffer from the queue's memory.
    fn buffer(&mut self, len: usize) -> Option<Buf>;

    /// Operations pushed and not yet reaped.
    fn in_flight(&self) -> usize;

    /// Entries pushed and not yet submitted.
    fn pushed(&self) -> usize;

    /// Queues an operation for the next [`Self::enter`]. Returns the operation if the queue has no room for all of its
    /// entries. Panics if the operation's token is out of range or already in flight.
    fn push(&mut self, op: Self::Op) -> Result<(), Self::Op>;

    /// Submits the pushed operations as issued at `now_ns`, makes the kernel post completions, and waits if `sleep` is
    /// given. A wait for one completion can end early, without one. Entries that the kernel does not take (out of
    /// memory, or after a rejected entry) stay pushed for a later call.
    fn enter(&mut self, now_ns: u64, sleep: Option<Wait>) -> io::Result<()>;

    /// True if completions are available, or if [`Self::enter`] would make some available.
    fn is_ready(&mut self) -> bool;

    /// True if completions are available without a system call.
    fn has_completions(&mut self) -> bool;

    /// Returns all operations with completions, and the events of multishot operations.
    fn reap(&mut self, on_reaped: impl FnMut(Reaped<Self::Op, Self::Outcome>));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_have_the_values_of_the_kernel() {
        // Source of the numbers: linux/fs.h.
        let steps = |wait_before, write, wait_after| {
            WriteBack {
                wait_before,
                write,
                wait_after,
                drop_cache: false,
            }
            .flags()
        };
        assert_eq!(steps(true, false, false), 1);
        assert_eq!(steps(false, true, false), 2);
        assert_eq!(steps(false, false, true), 4);
        assert_eq!(steps(true, true, true), 7);
        assert_eq!(steps(false, false, false), 0);
        assert_eq!(
            [WriteSync::No, WriteSync::Data, WriteSync::File].map(WriteSync::flags),
            [0, 2, 4]
        );
    }

    #[test]
    fn an_answer_of_a_record_engine_is_described_in_words() {
        for (outcome, text) in [
            (Outcome::Result(18), "result code 18: device overload"),
            (Outcome::Result(200), "result code 200"),
            (
                Outcome::Wrong {
                    key: 7,
                    wrong: WrongRecord::Old {
                        acknowledged: 3,
                        found: 2,
                    },
                },
                "old: write 2 of this record, although write 3 was acknowledged",
            ),
            (
                Outcome::Wrong {
                    key: 7,
                    wrong: WrongRecord::Torn {
                        bin: 2,
                        at: 9,
                        expected: 0x41,
                        found: Some(0),
                    },
                },
                "torn: byte 9 of bin 2 is 0x00, not 0x41 as expected from the bytes before it",
            ),
        ] {
            assert_eq!(outcome.to_string(), text);
        }
    }
}
