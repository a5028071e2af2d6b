//! Reasons not to write to a device, each with numbers and a remedy.

use super::evidence::Evidence;
use super::processes::Opener;
use crate::discover::DiscoverError;
use std::io;
use thiserror::Error;

/// All objections to a device, as text of one line.
#[derive(Debug, Error)]
#[error("refusing to write to {device} - {}", numbered(.reasons))]
pub struct Refusal {
    pub device: String,
    /// At least one reason.
    pub reasons: Vec<RefusalReason>,
}

/// All refused devices of a run, one line each.
#[derive(Debug, Error)]
#[error("{}", lines(.0))]
pub struct GuardRefusals(pub Vec<Refusal>);

/// A device or file that cannot be opened for reading, and why. One line.
#[derive(Debug, Error)]
#[error("cannot read {device} - {reason}")]
pub struct OpenError {
    pub device: String,
    #[source]
    pub reason: RefusalReason,
}

/// Formats a single reason unchanged, and several reasons numbered: `2 reasons: (1) ...; (2) ...`.
fn numbered(reasons: &[RefusalReason]) -> String {
    match reasons {
        [one] => one.to_string(),
        more => {
            let listed: Vec<_> = more
                .iter()
                .enumerate()
                .map(|(i, reason)| format!("({}) {reason}", i + 1))
                .collect();
            format!("{} reasons: {}", more.len(), listed.join("; "))
        }
    }
}

fn lines(refusals: &[Refusal]) -> String {
    refusals
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join("\n")
}

/// Result of the checks: objections to writes, and notes about checks that could not be made.
#[derive(Debug, Default)]
pub(crate) struct Objections {
    pub(crate) reasons: Vec<RefusalReason>,
    pub(crate) notes: Vec<String>,
}

impl Objections {
    pub(super) fn refuse(&mut self, reason: RefusalReason) {
        self.reasons.push(reason);
    }

    /// Adds a note once, although the checks run twice (before and after the questions).
    pub(super) fn note(&mut self, text: String) {
        if !self.notes.contains(&text) {
            self.notes.push(text);
        }
    }

    pub(super) fn is_mounted(&self, description: &str) -> bool {
        self.reasons.iter().any(
            |reason| matches!(reason, RefusalReason::Mounted { which: known, .. } if known == description),
        )
    }

    /// Adds a reason for a mount; only one reason if both mount tables show the mount.
    pub(super) fn mounted(
        &mut self,
        description: String,
        mount_point: String,
        seen_by: &'static str,
    ) {
        let is_known = |reason: &RefusalReason| matches!(reason, RefusalReason::Mounted { which: w, at: a, .. } if (w, a) == (&description, &mount_point));
        if !self.reasons.iter().any(is_known) {
            self.refuse(RefusalReason::Mounted {
                which: description,
                at: mount_point,
                seen_by,
            });
        }
    }
}

/// `which` names the device that the reason applies to: `it`, `its partition /dev/sda1`, `the disk /dev/sda that it
/// lies on`.
#[derive(Debug, Error)]
pub enum RefusalReason {
    #[error(transparent)]
    Unknown(#[from] DiscoverError),
    #[error(
        "it is a regular file; to test a file give its size with file-size-mbytes, or name a block device instead"
    )]
    FileWithoutSize,
    /// The device is read-only; `how`: the evidence.
    #[error(
        "it is read-only ({how}); make it writable (`blockdev --setrw`, or `mount -o remount,rw` for a file), or name another device"
    )]
    ReadOnly { how: &'static str },
    #[error(
        "it is a zoned device (queue/zoned in sysfs is host-managed): each of its zones accepts writes only at its write \
         pointer, and flashproof writes at any offset; name another device (fio writes zones with zonemode=zbd)"
    )]
    Zoned,
    /// A file system on the device is mounted. `seen_by`: empty, or the process whose mount table shows the mount.
    #[error("{which} is mounted at {at}{seen_by}; unmount it, or name another device")]
    Mounted {
        which: String,
        at: String,
        seen_by: &'static str,
    },
    /// Used as swap space; `path` as in /proc/swaps.
    #[error("{which} is used as swap; turn it off (`swapoff {path}`), or name another device")]
    Swap { which: String, path: String },
    /// Another kernel device is built on the device: `dm-0 (LVM vg-data)`, `md0`, `loop3`...
    #[error(
        "{which} is held by {holders}; unmount or stop the holder first, or name another device"
    )]
    HasHolders { which: String, holders: String },
    /// Exported to other machines, or to this machine as another drive: `namespace 1 of NVMe-oF subsystem nqn...`, `LIO
    /// backstore iblock_0/data`.
    #[error("{which} is exported as {what}; {end}, or name another device")]
    Exported {
        which: String,
        what: String,
        end: String,
    },
    #[error("{}; stop the program that has it open, or name another device", open_elsewhere(.0))]
    OpenElsewhere(Vec<Opener>),
    /// An unknown user reads or writes the device. `did`: requests that completed in the watched time or were in flight
    /// at its end (`it did 2 reads, 1 write and ...`).
    #[error(
        "an unknown program or driver uses it: in {watched_ms} ms {did}; stop that program, try again in some seconds (a daemon may have probed the disk), or name another device"
    )]
    UnknownIo { watched_ms: u128, did: String },
    #[error(
        "an unknown program or driver has it open for writing, perhaps in another container (the kernel gives no write lease: EAGAIN); stop the program that uses the file, or name another file"
    )]
    UnknownWriter,
    #[error(
        "a mount, a driver or another program holds it exclusively, perhaps in another container (open with O_EXCL: EBUSY); release the device (`lsblk` and `fuser -v` may show the holder), or name another device"
    )]
    Claimed,
    #[error(
        "a mount, a driver or another program holds {path}, another path to the same drive, exclusively (open with O_EXCL: EBUSY); release {path} (`lsblk` and `fuser -v` may show the holder), or name another device"
    )]
    OtherPathClaimed { path: String },
    #[error(
        "it has bytes in common with {other}, and this run names both; name each device once, and never a partition together with its disk"
    )]
    NamedTwice { other: String },
    #[error(
        "it is another path to the drive of {other} (both have wwid {wwid}), and this run names both paths; name only one path, or the multipath device above both paths"
    )]
    SameDrive { other: String, wwid: String },
    /// `is`: lasting name of the device; `only`: names in FLASHPROOF_ONLY.
    #[error(
        "it is {is}, and FLASHPROOF_ONLY allows writes only to {only}; put the allowed drive back, or run without the variable"
    )]
    NotAllowed { is: String, only: String },
    /// Another run of flashproof uses the device. `who`: empty or ` (process 1234)`; `how`: `exclusively` or `with
    /// --shared`; `advice`: how several runs can share the device.
    #[error("another run of flashproof uses it{who}, {how}; wait until that run ends, or {advice}")]
    SecondRun {
        who: String,
        how: &'static str,
        advice: &'static str,
    },
    #[error("{}", match min_size_bytes {
        0 | 1 => format!("it has {size_bytes} bytes: the file is empty, or no medium is attached; name another device"),
        4096 => format!("its {size_bytes} bytes are less than the 4096 bytes of one operation; name a larger device"),
        block => format!("its {size_bytes} bytes are less than the {block} bytes of one operation; name a larger device, or make this operation smaller (large-block-op-kbytes, or bs of a fio job)"),
    })]
    TooSmall {
        size_bytes: u64,
        min_size_bytes: u64,
    },
    /// The file does not fit. `needed_bytes`: bytes still to be allocated.
    #[error(
        "the file needs {needed_bytes} more bytes and its file system has {free_bytes} free; make the file smaller, or free space"
    )]
    NoSpace { needed_bytes: u64, free_bytes: u64 },
    /// A file of which a preparation left a part unused would grow. The record would no longer apply, because it counts
    /// only for the recorded length of the file.
    #[error(
        "the file would grow from {size_bytes} to {requested_bytes} bytes, and the limit of its preparation (--use-pct: only the first {used_bytes} bytes are used) would be lost; set file-size-mbytes no larger than the file, or prepare the file again with the new size"
    )]
    PartWouldGrow {
        used_bytes: u64,
        size_bytes: u64,
        requested_bytes: u64,
    },
    /// The device contains data, and the user did not consent to the erasure. `advice`: how to consent.
    #[error("{}; all data on it would be erased: to allow this, {advice}", list(.evidence))]
    NotConfirmed {
        evidence: Vec<Evidence>,
        advice: String,
    },
    #[error(
        "it changed after it was examined: {what}; make sure that nobody reconfigures it, then start again"
    )]
    Changed { what: String },
    #[error(
        "cannot {tried} ({source}); {}",
        sys::remedy(source, "look at the kernel log (dmesg) for the reason")
    )]
    Io {
        tried: &'static str,
        source: io::Error,
    },
}

/// Evidence in one line. Samples of data need no explanation if the format of the data is known.
pub(super) fn list(evidence: &[Evidence]) -> String {
    let has_owner = evidence.iter().any(Evidence::has_owner);
    let item = |one: &Evidence| match one {
        Evidence::Data {
            samples,
            samples_tried,
            ..
        } if has_owner => {
            format!("data in {samples} of {samples_tried} samples")
        }
        other => other.to_string(),
    };
    evidence.iter().map(item).collect::<Vec<_>>().join("; ")
}

fn open_elsewhere(openers: &[Opener]) -> String {
    const SHOWN: usize = 4;
    let mut text: Vec<String> = openers
        .iter()
        .take(SHOWN)
        .map(ToString::to_string)
        .collect();
    match openers.len().saturating_sub(SHOWN) {
        0 => {}
        1 => text.push("1 more process has it open too".to_owned()),
        more => text.push(format!("{more} more processes have it open too")),
    }
    text.join("; ")
}

impl RefusalReason {
    /// The reason for a failed system call on the device; `tried`: its purpose, as in "cannot read its size".
    pub(crate) fn io(tried: &'static str, source: io::Error) -> Self {
        match source.raw_os_error() {
            Some(libc::EROFS) => Self::ReadOnly {
                how: "its file system is mounted read-only",
            },
            Some(libc::EBUSY) => Self::Claimed,
            Some(libc::ENOENT | libc::EACCES | libc::EPERM) => {
                Self::Unknown(DiscoverError::io(tried, source))
            }
            _ => Self::Io { tried, source },
        }
    }

    pub(super) fn second_run(theirs_is_shared: bool, who: String) -> Self {
        let (how, advice) = if theirs_is_shared {
            ("with --shared", "start this run with --shared, too")
        } else {
            ("exclusively", "start all runs with --shared")
        };
        Self::SecondRun { who, how, advice }
    }
}

impl From<RefusalReason> for Vec<RefusalReason> {
    fn from(reason: RefusalReason) -> Self {
        vec![reason]
    }
}
