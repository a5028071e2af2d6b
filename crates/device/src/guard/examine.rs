//! Examines one target, from its name to its contents. Makes every check and writes nothing.
//!
//! ```text
//! name -> resolve_target (device or file) -> examine: users -> claim -> I/O of others -> contents
//! ```
//!
//! The checks that open nothing come first, and report their objections together. The device is opened only if there
//! are no objections, because udev scans a disk whenever a writable descriptor of the disk is closed.
//!
//! A [`GuardReport`] is the guard's decision on a device, without a question to the user. Its checks are those of a
//! consent, but it does not keep the device: the exclusive claim (O_EXCL) lasts only for the examination. So a report is
//! valid only at that moment, and a consent examines the device again.
//!
//! I/O counters show users that no other check finds. The counters in sysfs (`stat`, as in /proc/diskstats) are read
//! twice; in between, a device that is to be erased must do no I/O. Field order: `Documentation/block/stat.rst`.

use super::ask::DeviceNames;
use super::claim::{self, OpenMode, STAT_BLOCK_BYTES, check_size};
use super::evidence::Evidence;
use super::preparation::random_key;
use super::preparation_state::UsedPart;
use super::refusal::{Objections, RefusalReason};
use super::sampling::{self, Sampling};
use super::target_devices::{Relation, TargetDevices};
use super::{Guard, WriteRequest};
use crate::discover::{self, DeviceFacts, DiscoverError, Kind, Resolved, SysDir};
use crate::observe::diskstats::{Counters, RequestCounts};
use results::format;
use results::parallel::in_parallel;
use std::fmt;
use std::fs::{self, File, Metadata};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use sys::{ioctl, open};

pub(super) struct ResolvedTarget {
    pub(super) facts: DeviceFacts,
    pub(super) target_kind: TargetKind,
}

pub(super) enum TargetKind {
    Device {
        node: PathBuf,
        devices: TargetDevices,
    },
    /// An existing file, which will grow to `size_bytes` if it is shorter.
    File {
        metadata: Metadata,
        size_bytes: u64,
        devices: TargetDevices,
    },
    /// A file to be created.
    NewFile { size_bytes: u64 },
}

impl TargetKind {
    /// Devices and files that share bytes with the target; `None` for a file that does not exist yet.
    pub(super) fn subject(&self) -> Option<&TargetDevices> {
        match self {
            Self::Device {
                devices: subject, ..
            }
            | Self::File {
                devices: subject, ..
            } => Some(subject),
            Self::NewFile { .. } => None,
        }
    }
}

/// A target that passed every check that no consent overrides.
pub(super) struct Examined {
    pub(super) request: WriteRequest,
    pub(super) target: ResolvedTarget,
    /// The claimed descriptor, and true if it bypasses the page cache; `None` for a file to be created.
    pub(super) opened: Option<(File, bool)>,
    /// Claims on the other paths to the drive.
    pub(super) claims: Vec<File>,
    pub(super) size_bytes: u64,
    /// Usable bytes: less than the size if a preparation left the rest unused.
    pub(super) used_bytes: u64,
    pub(super) evidence: Vec<Evidence>,
    pub(super) notes: Vec<String>,
}

impl Examined {
    /// True if the run keeps the record store on the device: the device holds nothing else.
    pub(super) fn keeps_store(&self) -> bool {
        self.request.keeps_store && Evidence::is_store_alone(&self.evidence)
    }
}

pub(super) fn resolve_target(
    guard: &Guard,
    request: &WriteRequest,
) -> Result<ResolvedTarget, RefusalReason> {
    let path = Path::new(&request.path);
    let resolved = match (
        discover::resolve(path, &guard.root),
        request.file_size_bytes,
    ) {
        (Err(DiscoverError::NotFound), Some(size_bytes)) if may_hold_files(path) => {
            let facts = discover::unknown_facts(&request.path, Kind::RegularFile);
            return Ok(ResolvedTarget {
                facts,
                target_kind: TargetKind::NewFile { size_bytes },
            });
        }
        (resolved, _) => resolved?,
    };
    let facts = discover::facts_of(&request.path, &resolved, &guard.root)?;
    let devices = TargetDevices::from_resolved(&resolved, &guard.root)?;
    let target_kind = match resolved {
        Resolved::Block { node, .. } => TargetKind::Device { node, devices },
        Resolved::File { metadata } => {
            let size_bytes = request
                .file_size_bytes
                .ok_or(RefusalReason::FileWithoutSize)?;
            TargetKind::File {
                metadata,
                size_bytes,
                devices,
            }
        }
    };
    Ok(ResolvedTarget { facts, target_kind })
}

/// True if a file may be created at `path`; its directory must exist. False below /dev, where a missing name is a
/// mistyped device, and a file would use memory.
fn may_hold_files(path: &Path) -> bool {
    let dir = fs::canonicalize(directory_of(path));
    dir.is_ok_and(|dir| !dir.starts_with("/dev") || dir.starts_with("/dev/shm"))
}

fn directory_of(path: &Path) -> &Path {
    path.parent()
        .filter(|dir| !dir.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
}

/// Errors: every reason to refuse the target.
pub(super) fn examine(
    guard: &Guard,
    request: &WriteRequest,
    target: ResolvedTarget,
) -> Result<Examined, Vec<RefusalReason>> {
    let (prepared, mut findings) = check_from_outside(guard, request, &target)?;
    let open_mode = OpenMode::from_request(request, guard);
    let mut claims = Vec::new();
    let (opened, size_bytes) = match &target.target_kind {
        TargetKind::Device { node, devices } => {
            let file = claim::open_device(node, &target.facts, &guard.root, open_mode)?;
            claim_other_paths(guard, devices, open_mode, &mut claims, &mut findings)?;
            let size_bytes = device_size(&file, request)?;
            check_idle(guard, request, devices, &mut findings)?;
            (Some((file, true)), size_bytes)
        }
        TargetKind::File {
            metadata,
            size_bytes,
            ..
        } => (
            Some(claim::file(Path::new(&request.path), metadata, open_mode)?),
            *size_bytes,
        ),
        TargetKind::NewFile { size_bytes } => (None, *size_bytes),
    };
    let mut notes = findings.notes;
    let used_bytes = prepared
        .as_ref()
        .map_or(size_bytes, |part| part.used_bytes.min(size_bytes));
    check_size(used_bytes, request.min_size_bytes)?;
    notes.extend(prepared.as_ref().map(ToString::to_string));
    let evidence = match &opened {
        Some((file, _)) => sample_contents(guard, file, &target, size_bytes, prepared, &mut notes)?,
        None => Vec::new(),
    };
    Ok(Examined {
        request: request.clone(),
        target,
        opened,
        claims,
        size_bytes,
        used_bytes,
        evidence,
        notes,
    })
}

/// A device that nobody uses, opened for reading. Its contents are not examined yet.
struct IdleDevice {
    file: File,
    size_bytes: u64,
    /// The usable part; `None`: all of the device.
    prepared: Option<UsedPart>,
    notes: Vec<String>,
}

impl IdleDevice {
    /// The checks of [`examine`] up to the contents, with a descriptor for reading only.
    fn open(
        guard: &Guard,
        request: &WriteRequest,
        target: &ResolvedTarget,
    ) -> Result<Self, Vec<RefusalReason>> {
        let (prepared, mut findings) = check_from_outside(guard, request, target)?;
        let TargetKind::Device { node, devices, .. } = &target.target_kind else {
            return Err(RefusalReason::FileWithoutSize.into());
        };
        let file = claim::open_for_examination(node, guard.settle)?;
        let open_mode = OpenMode {
            shared: true,
            odsync: false,
            settle: guard.settle,
        };
        claim_other_paths(guard, devices, open_mode, &mut Vec::new(), &mut findings)?;
        let size_bytes = device_size(&file, request)?;
        check_idle(guard, request, devices, &mut findings)?;
        let mut notes = findings.notes;
        notes.extend(prepared.as_ref().map(ToString::to_string));
        Ok(Self {
            file,
            size_bytes,
            prepared,
            notes,
        })
    }

    /// The evidence and notes.
    fn sample(
        self,
        guard: &Guard,
        target: &ResolvedTarget,
    ) -> Result<(Vec<Evidence>, Vec<String>), Vec<RefusalReason>> {
        let mut notes = self.notes;
        let evidence = sample_contents(
            guard,
            &self.file,
            target,
            self.size_bytes,
            self.prepared,
            &mut notes,
        )?;
        Ok((evidence, notes))
    }
}

/// The checks that open nothing. Returns the usable part of the device (`None`: all of it) and the notes.
fn check_from_outside(
    guard: &Guard,
    request: &WriteRequest,
    target: &ResolvedTarget,
) -> Result<(Option<UsedPart>, Objections), Vec<RefusalReason>> {
    let mut findings = Objections::default();
    let prepared = if request.uses_whole_device {
        None
    } else {
        UsedPart::from_records(&target.facts, &guard.records)
    };
    if matches!(target.target_kind, TargetKind::Device { .. })
        && discover::is_zoned(&target.facts, &guard.root)
    {
        findings.refuse(RefusalReason::Zoned);
    }
    check_fit(request, target, prepared.as_ref(), &mut findings);
    if let Some(devices) = target.target_kind.subject() {
        devices.check_users(&guard.root, request.shared, guard.settle, &mut findings);
    }
    if findings.reasons.is_empty() {
        Ok((prepared, findings))
    } else {
        Err(findings.reasons)
    }
}

/// Refuses a target that is too small or read-only, outgrows its preparation, or does not fit its file system.
fn check_fit(
    request: &WriteRequest,
    target: &ResolvedTarget,
    prepared: Option<&UsedPart>,
    findings: &mut Objections,
) {
    let size_bytes = match &target.target_kind {
        TargetKind::Device { .. } => target.facts.size_bytes,
        TargetKind::File { size_bytes, .. } | TargetKind::NewFile { size_bytes } => *size_bytes,
    };
    let fits = check_size(size_bytes, request.min_size_bytes);
    findings.reasons.extend(fits.err());
    if target.facts.read_only == Some(true) {
        findings.refuse(RefusalReason::ReadOnly {
            how: "the device says so",
        });
    }
    if let Some(used_part) = prepared
        && let TargetKind::File {
            size_bytes: requested_bytes,
            ..
        } = target.target_kind
        && requested_bytes > target.facts.size_bytes
    {
        let used_bytes = used_part.used_bytes;
        let size_bytes = target.facts.size_bytes;
        findings.refuse(RefusalReason::PartWouldGrow {
            used_bytes,
            size_bytes,
            requested_bytes,
        });
    }
    let space = match &target.target_kind {
        TargetKind::Device { .. } => Ok(()),
        TargetKind::File {
            metadata,
            size_bytes,
            ..
        } => check_space(
            Path::new(&request.path),
            missing_bytes(metadata, *size_bytes),
        ),
        TargetKind::NewFile { size_bytes } => {
            check_space(directory_of(Path::new(&request.path)), *size_bytes)
        }
    };
    findings.reasons.extend(space.err());
}

/// Upper bound of the bytes still to be allocated for a file of at least `size_bytes`.
pub(super) fn missing_bytes(metadata: &Metadata, size_bytes: u64) -> u64 {
    size_bytes
        .max(metadata.len())
        .saturating_sub(metadata.blocks() * STAT_BLOCK_BYTES)
}

fn check_space(path: &Path, needed_bytes: u64) -> Result<(), RefusalReason> {
    let free = File::open(path).and_then(|place| open::free_bytes(place.as_fd()));
    let free_bytes = free
        .map_err(|source| RefusalReason::io("check the free space of its file system", source))?;
    if needed_bytes > free_bytes {
        Err(RefusalReason::NoSpace {
            needed_bytes,
            free_bytes,
        })
    } else {
        Ok(())
    }
}

/// Size of the claimed device. The consent checks the size again.
fn device_size(file: &File, request: &WriteRequest) -> Result<u64, RefusalReason> {
    let size_bytes = ioctl::size_bytes(file.as_fd())
        .map_err(|source| RefusalReason::io("read its size", source))?;
    check_size(size_bytes, request.min_size_bytes)?;
    Ok(size_bytes)
}

/// Claims the drive's other paths. An exclusive run keeps the claims, so that nobody mounts another path during the
/// writes; a shared run releases them at once. A path without a node gets a note.
fn claim_other_paths(
    guard: &Guard,
    devices: &TargetDevices,
    open_mode: OpenMode,
    claims: &mut Vec<File>,
    findings: &mut Objections,
) -> Result<(), RefusalReason> {
    for access_node in devices
        .access_nodes()
        .filter(|node| node.relation == Relation::OtherPath)
    {
        let node_path = access_node.path(&guard.root);
        match claim::other_path(&node_path, access_node.number, open_mode)? {
            Some(file) if !open_mode.shared => claims.push(file),
            Some(_) => {}
            None => findings.note(format!(
                "{} has no node at {}, so it could not be claimed",
                access_node.description,
                node_path.display()
            )),
        }
    }
    Ok(())
}

/// Refuses a device with I/O of others, unless other shared runs have it open.
fn check_idle(
    guard: &Guard,
    request: &WriteRequest,
    devices: &TargetDevices,
    findings: &mut Objections,
) -> Result<(), RefusalReason> {
    let dirs: Vec<&SysDir> = devices.access_nodes().map(|node| &node.dir).collect();
    match moves(&dirs, guard.watch_time) {
        Ok(true) => Ok(()),
        Ok(false) => {
            findings.note(
                "it has no I/O counters, so flashproof could not watch it for I/O of other users"
                    .to_owned(),
            );
            Ok(())
        }
        // Another shared run, even one that has just started, may have caused the I/O: scan the processes again.
        Err(reason) => {
            match devices.check_processes(&guard.root, request.shared, guard.settle, findings) {
                0 => Err(findings.reasons.pop().unwrap_or(reason)),
                _ => Ok(()),
            }
        }
    }
}

fn sample_contents(
    guard: &Guard,
    file: &File,
    target: &ResolvedTarget,
    size_bytes: u64,
    prepared: Option<UsedPart>,
    notes: &mut Vec<String>,
) -> Result<Vec<Evidence>, RefusalReason> {
    let failed = |source| RefusalReason::io("read samples of it", source);
    let sampling = Sampling {
        seed: random_key().map_err(failed)?,
        ..guard.sampling
    };
    let read_bytes = match (&target.target_kind, prepared) {
        // The run does not write the bytes that the preparation left unused.
        (_, Some(part)) => part.used_bytes,
        // The whole file is examined, including the part that the test does not write.
        (TargetKind::File { metadata, .. }, None) => metadata.len(),
        _ => size_bytes,
    };
    let identity = target.facts.identity();
    let recorded_bytes = recorded_size(target, size_bytes);
    let explained = sampling::explanation(identity.as_deref(), recorded_bytes, &guard.records);
    sampling::gather(file, read_bytes, explained, sampling, notes).map_err(failed)
}

/// Size in the record of the target: that of a device, because a device with another size counts as another device; 0
/// for a file, which may grow.
pub(super) fn recorded_size(target: &ResolvedTarget, size_bytes: u64) -> u64 {
    match target.target_kind {
        TargetKind::Device { .. } => size_bytes,
        TargetKind::File { .. } | TargetKind::NewFile { .. } => 0,
    }
}

#[derive(Debug)]
pub enum EraseSafety {
    Yes,
    /// No record explains this data, so the user would be asked.
    Asks(Vec<Evidence>),
    No(Vec<RefusalReason>),
}

impl fmt::Display for EraseSafety {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Yes => "yes",
            Self::Asks(_) => "asks",
            Self::No(_) => "no",
        })
    }
}

#[derive(Debug)]
pub struct GuardReport {
    /// The name as given.
    pub path: String,
    /// Facts about the device or file; `None` if `path` leads to neither.
    pub facts: Option<DeviceFacts>,
    pub erase_name: String,
    pub safety: EraseSafety,
    pub notes: Vec<String>,
}

impl Guard {
    /// The decision of [`Guard::consent`] on each path separately. Takes about a second for any number of paths.
    pub fn examine_devices<S: AsRef<str> + Sync>(&self, paths: &[S]) -> Vec<GuardReport> {
        let watched = in_parallel(paths, |path| {
            let request = WriteRequest::new(path.as_ref(), "outlook");
            let target = resolve_target(self, &request)?;
            let idle = IdleDevice::open(self, &request, &target);
            Ok((target, idle))
        });
        // Samples of a partition are I/O of its disk, too: no sample is read before every watch has ended.
        in_parallel(paths.iter().zip(watched), |(path, watched)| {
            self.outlook_of(path.as_ref(), watched)
        })
    }

    fn outlook_of(
        &self,
        path: &str,
        watched: Result<(ResolvedTarget, Result<IdleDevice, Vec<RefusalReason>>), RefusalReason>,
    ) -> GuardReport {
        let (target, idle) = match watched {
            Ok(found) => found,
            Err(reason) => {
                let path = path.to_owned();
                let safety = EraseSafety::No(vec![reason]);
                return GuardReport {
                    erase_name: path.clone(),
                    path,
                    facts: None,
                    safety,
                    notes: Vec::new(),
                };
            }
        };
        let (safety, notes) = match idle.and_then(|device| device.sample(self, &target)) {
            Ok((evidence, notes)) if evidence.is_empty() => (EraseSafety::Yes, notes),
            Ok((evidence, notes)) => (EraseSafety::Asks(evidence), notes),
            Err(reasons) => (EraseSafety::No(reasons), Vec::new()),
        };
        let erase_name = DeviceNames::from_facts(&target.facts, &self.root)
            .lasting_erase_name(path)
            .to_owned();
        GuardReport {
            path: path.to_owned(),
            facts: Some(target.facts),
            erase_name,
            safety,
            notes,
        }
    }
}

/// Finds mounts, swap, devices built on the target, exports and processes, except shared runs of flashproof. Opens
/// nothing and does not wait.
pub(crate) fn users_of(resolved: &Resolved, root: &Path) -> Objections {
    let mut findings = Objections::default();
    match TargetDevices::from_resolved(resolved, root) {
        Ok(devices) => devices.check_users(root, true, Duration::ZERO, &mut findings),
        Err(_) => findings.note("it is no longer in sysfs".to_owned()),
    }
    findings
}

/// I/O of a device between two readings of its counters, in words; `None` if there was no I/O and nothing is in flight.
pub(crate) fn activity(before: &Counters, after: &Counters) -> Option<String> {
    // If a counter fell, it was reset to zero in between, so its whole value is new.
    let (delta, is_anew) = after
        .since(before)
        .map_or((*after, true), |done| (done, false));
    let completed = |counts: Option<RequestCounts>| counts.map_or(0, |counts| counts.completed);
    let reads = delta.read.completed;
    let writes = delta.write.completed;
    let in_flight = delta.in_flight;
    let other_ops = completed(delta.discard) + completed(delta.flush);
    (is_anew || reads | writes | other_ops | in_flight != 0).then(|| {
        let reads = format::count(reads, "read");
        let writes = format::count(writes, "write");
        format!("it did {reads}, {writes} and {other_ops} discards and flushes, with {in_flight} in flight")
    })
}

/// Watches the devices at `dirs` for `watch_time`. Error: a device did I/O. `Ok(false)`: a device has no counters.
fn moves(dirs: &[&SysDir], watch_time: Duration) -> Result<bool, RefusalReason> {
    let Some(before) = read_counters(dirs) else {
        return Ok(false);
    };
    std::thread::sleep(watch_time);
    let Some(after) = read_counters(dirs) else {
        return Ok(false);
    };
    match before
        .iter()
        .zip(&after)
        .find_map(|(before, after)| activity(before, after))
    {
        Some(did) => Err(RefusalReason::UnknownIo {
            watched_ms: watch_time.as_millis(),
            did,
        }),
        None => Ok(true),
    }
}

fn read_counters(dirs: &[&SysDir]) -> Option<Vec<Counters>> {
    dirs.iter().map(|dir| Counters::read(dir)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use results::testing::modified;

    #[test]
    fn one_request_of_another_program_while_the_guard_watches_is_reported_with_counts() {
        let counts = |completed| RequestCounts {
            completed,
            ..RequestCounts::default()
        };
        let before = Counters {
            read: counts(5),
            write: counts(7),
            discard: Some(counts(1)),
            ..Counters::default()
        };
        assert_eq!(activity(&before, &before), None);
        for (after, says) in [
            (
                modified(before, |it| it.read = counts(8)),
                "it did 3 reads, 0 writes",
            ),
            (
                modified(before, |it| it.write = counts(8)),
                "0 reads, 1 write and 0 discards",
            ),
            (
                modified(before, |it| it.discard = Some(counts(3))),
                "0 writes and 2 discards and flushes",
            ),
            (modified(before, |it| it.in_flight = 4), "with 4 in flight"),
            (
                modified(before, |it| it.read = counts(0)),
                "it did 0 reads, 7 writes and 1 discards",
            ),
        ] {
            let text = activity(&before, &after).unwrap();
            assert!(text.contains(says), "{text}");
        }
    }
}
