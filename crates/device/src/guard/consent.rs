//! The consent: a claimed descriptor, without which no writable target can be made.
//!
//! The user may take minutes to answer the questions. So before the consent is granted, users of the target and of
//! devices that share bytes with it are searched again.

use super::claim::{self, OpenMode, OpenedTarget, finish};
use super::evidence::Evidence;
use super::examine::{Examined, TargetKind, missing_bytes, recorded_size};
use super::preparation::{Records, StateError, random_key};
use super::preparation_state::PreparationState;
use super::refusal::{Objections, RefusalReason};
use super::{Guard, WriteRequest};
use crate::discover::{self, DeviceFacts};
use results::files;
use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;
use sys::{ioctl, open};

/// The right to erase one device or file, with the exclusive descriptor for the writes: only [`Guard::consent`] creates
/// it. Dropping it releases the device.
#[derive(Debug)]
pub struct WriteConsent {
    opened: OpenedTarget,
    stamp_key: u64,
    key_recorded: bool,
    erases: Vec<Evidence>,
    keeps_store: bool,
    pub(super) created: bool,
}

impl WriteConsent {
    pub fn name(&self) -> &str {
        &self.opened.facts.path
    }

    pub fn facts(&self) -> &DeviceFacts {
        &self.opened.facts
    }

    /// Size of the range that may be erased, from offset 0.
    pub fn size_bytes(&self) -> u64 {
        self.opened.size_bytes
    }

    /// Key for the stamp of every written sector ([`sys::salt`]), so that the next run recognises the data.
    pub fn stamp_key(&self) -> u64 {
        self.stamp_key
    }

    /// True if the key is recorded. Otherwise only this consent has the key, and the next consent gets another key.
    pub fn is_key_recorded(&self) -> bool {
        self.key_recorded
    }

    /// Data on the device that the run may erase; empty if all samples were zeros or flashproof's own data.
    pub fn erases(&self) -> &[Evidence] {
        &self.erases
    }

    /// See [`WriteRequest::keeps_store`].
    pub fn keeps_store(&self) -> bool {
        self.keeps_store
    }

    /// Limitations that the user should see.
    pub fn notes(&self) -> &[String] {
        &self.opened.notes
    }

    pub(super) fn note_writing(&mut self, records: &Records, request: &WriteRequest) {
        let Some(identity) = self.opened.facts.identity() else {
            return;
        };
        if let Err(error) = records.note_writing(&identity, &request.purpose) {
            // No refusal: the only consequence of the error is a false alarm of a later `prep --verify`.
            let note = format!(
                "{error}; otherwise `flashproof prep --verify` reports the data of this run as damage"
            );
            self.opened.notes.push(note);
        }
    }

    pub(crate) fn into_opened(self) -> (OpenedTarget, u64) {
        (self.opened, self.stamp_key)
    }
}

pub(super) fn grant(
    guard: &Guard,
    mut examined: Examined,
) -> Result<WriteConsent, Vec<RefusalReason>> {
    let request = examined.request.clone();
    let mut findings = Objections {
        notes: std::mem::take(&mut examined.notes),
        ..Objections::default()
    };
    if let Some(devices) = examined.target.target_kind.subject() {
        devices.check_users(&guard.root, request.shared, guard.settle, &mut findings);
    }
    if !findings.reasons.is_empty() {
        return Err(findings.reasons);
    }
    examined.notes = findings.notes;
    if let Some((file, direct)) = examined.opened.take() {
        return Ok(complete_grant(guard, examined, file, direct)?);
    }
    let open_mode = OpenMode::from_request(&request, guard);
    let (file, direct) = claim::new_file(Path::new(&request.path), open_mode)?;
    match complete_grant(guard, examined, file, direct) {
        Ok(consent) => Ok(WriteConsent {
            created: true,
            ..consent
        }),
        Err(reason) => {
            remove(&request);
            Err(reason.into())
        }
    }
}

/// Checks the opened target again, reserves the space of a file, and records the key of the stamps.
fn complete_grant(
    guard: &Guard,
    examined: Examined,
    file: File,
    direct: bool,
) -> Result<WriteConsent, RefusalReason> {
    let keeps_store = examined.keeps_store();
    let Examined {
        request,
        mut target,
        claims,
        size_bytes,
        used_bytes,
        evidence,
        mut notes,
        ..
    } = examined;
    match &target.target_kind {
        TargetKind::Device { .. } => {
            claim::check_same(&target.facts, &file, &guard.root)?;
            check_same_size(&file, size_bytes)?;
        }
        TargetKind::File { .. } | TargetKind::NewFile { .. } => {
            claim::check_sole_writer(&file, OpenMode::from_request(&request, guard))?;
            // A run that writes the whole file does not need the warning about unwritten blocks.
            notes.extend(
                reserve(&file, size_bytes, &request)?.filter(|_| !request.uses_whole_device),
            );
            // The facts have changed: a created file now has an inode, and a grown file another length.
            target.facts = discover::discover(&request.path, &guard.root)?;
        }
    }
    let recorded_size = recorded_size(&target, size_bytes);
    let (stamp_key, key_recorded) =
        keep_record(guard, &request, &target.facts, recorded_size, &mut notes)?;
    let opened = finish(
        file,
        target.facts,
        used_bytes,
        direct,
        request.odsync,
        notes,
    )?;
    Ok(WriteConsent {
        opened: OpenedTarget {
            _claims: claims,
            ..opened
        },
        stamp_key,
        key_recorded,
        erases: evidence,
        keeps_store,
        created: false,
    })
}

/// Removes a file that was created for a run that does not begin.
pub(super) fn remove(request: &WriteRequest) {
    // Errors are ignored: a remaining file is empty and has the name that the user chose.
    let _ = files::remove_file(Path::new(&request.path));
}

fn check_same_size(file: &File, expected_bytes: u64) -> Result<(), RefusalReason> {
    let now_bytes = ioctl::size_bytes(file.as_fd())
        .map_err(|source| RefusalReason::io("read its size", source))?;
    if now_bytes == expected_bytes {
        Ok(())
    } else {
        Err(RefusalReason::Changed {
            what: format!("it had {expected_bytes} bytes and has {now_bytes} now"),
        })
    }
}

/// Allocates the first `size_bytes` of a file, unless the file shall be sparse or grow. Returns a note for the user.
fn reserve(
    file: &File,
    size_bytes: u64,
    request: &WriteRequest,
) -> Result<Option<String>, RefusalReason> {
    let &WriteRequest { reads, sparse, .. } = request;
    let failed = |source| RefusalReason::io("reserve its space", source);
    let metadata = file.metadata().map_err(failed)?;
    let missing = missing_bytes(&metadata, size_bytes);
    if missing == 0 || request.grows {
        return Ok(None);
    }
    if !sparse && open::reserve(file.as_fd(), size_bytes).map_err(failed)? {
        return Ok(reads.then(|| format!(
            "{missing} bytes of the file were never written, and reads of those bytes do not reach the drive; before you measure reads, write the whole file"
        )));
    }
    if metadata.len() < size_bytes {
        files::set_len(file, size_bytes).map_err(failed)?;
    }
    let of_reads = if reads {
        "reads of holes do not reach the drive, and "
    } else {
        ""
    };
    let why = if sparse {
        "no space is reserved for it"
    } else {
        "its file system cannot reserve space"
    };
    Ok(Some(format!(
        "{why}, so {missing} bytes of the file are holes: {of_reads}writes can fail if the file system is full"
    )))
}

/// Records the key for the stamps, by which the next run recognises the data of this run. Returns the key, and true if
/// it is recorded.
fn keep_record(
    guard: &Guard,
    request: &WriteRequest,
    facts: &DeviceFacts,
    recorded_size: u64,
    notes: &mut Vec<String>,
) -> Result<(u64, bool), RefusalReason> {
    match facts.identity() {
        None => {
            notes.push("it has no lasting name, so the next run will ask for consent to erase the data of this run".into())
        }
        Some(identity) => match keep_own_record(guard, request, facts, &identity, recorded_size) {
            Ok(key) => return Ok((key, true)),
            // No refusal: the only consequence of the error is a question before the next run.
            Err(error) => notes.push(format!("{error}; otherwise the next run will ask for consent to erase the data of this run")),
        },
    }
    let key = random_key()
        .map_err(|source| RefusalReason::io("generate a key for its stamps", source))?;
    Ok((key, false))
}

/// Records the run. First deletes a recorded preparation that belongs to another file or device with the same identity.
fn keep_own_record(
    guard: &Guard,
    request: &WriteRequest,
    facts: &DeviceFacts,
    identity: &str,
    recorded_size: u64,
) -> Result<u64, StateError> {
    if PreparationState::is_of_another(facts, &guard.records) {
        guard.records.forget_prepared(identity)?;
    }
    guard
        .records
        .keep(identity, recorded_size, &request.purpose)
}
