//! Records on this machine about the data that flashproof wrote to devices.
//!
//! Each device identity has a JSON file in the state directory: `FLASHPROOF_STATE`, else `$XDG_STATE_HOME/flashproof`,
//! else `/var/lib/flashproof` for root, else `~/.local/state/flashproof`. A record explains only data with stamps of
//! its key. So the only consequence of a wrong or lost record is a question to the user.
//!
//! The record of a prepared device also has the parameters of the preparation, its progress, and the last verified
//! sample.
//!
//! ```text
//! | pass 1: zeros | pass 2: fill | ... |     passes_done: passes that are complete and synced
//!           ^ mark_bytes                     in the current pass, all bytes before the mark are synced
//! ```
//! The record is written only after a sync of the device, so it is correct even after a crash. With seed, key and pass,
//! every byte below the mark can be computed again ([`sys::salt`]).

use results::files::{self, Instructions, Links, ReplaceTarget};
use results::format::date_to_minute;
use serde::{Deserialize, Serialize};
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use std::{env, fs};
use sys::open::{ByteLock, effective_user, try_lock_byte};
use thiserror::Error;

const VERSION: u32 = 1;

/// Purpose of a run that prepares a device ([`super::WriteRequest::purpose`]), and the doctor's check of the preparation.
pub const PREPARATION: &str = "preparation";

const DIR: &str = "devices";

/// Maximum size of a record file, bytes: a hundred times the usual size.
const RECORD_BYTES_MAX: u64 = 64 << 10;

/// Maximum wait for the lock of another process, which holds it while it writes a record with two syncs.
const LOCK_WAIT: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceRecord {
    pub version: u32,
    /// See [`crate::discover::DeviceFacts::identity`].
    pub identity: String,
    /// Size of the device at the last write, bytes; 0 for a file, which may grow.
    pub size_bytes: u64,
    /// Key of the stamps in every sector written.
    pub key: u64,
    /// First run that wrote to the device, seconds since 1970.
    pub first_unix_s: u64,
    /// Last run that wrote to the device, seconds since 1970.
    pub last_unix_s: u64,
    /// Purpose of the last run, in words.
    pub what: String,
    pub prepared: Option<PreparationRecord>,
    /// Last read-back that found other data than written. Later preparations do not clear this field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_read_back: Option<VerifiedSample>,
}

#[derive(Debug, Error)]
pub enum StateError {
    #[error(
        "cannot keep a record of the writes - neither FLASHPROOF_STATE, XDG_STATE_HOME nor HOME is set; set FLASHPROOF_STATE to a directory"
    )]
    NoDirectory,
    /// The directory or file could not be used. `tried`: `write`, `make the directory of`...
    #[error(
        "cannot {tried} the device record {path} - {source}; {}",
        remedy(source)
    )]
    Io {
        tried: &'static str,
        path: PathBuf,
        source: io::Error,
    },
}

fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::TimedOut => "try again when the other process has ended",
        _ => "make the directory writable, or set FLASHPROOF_STATE to a writable directory",
    }
}

#[derive(Debug, Clone)]
pub struct Records {
    dir: Option<PathBuf>,
}

impl Records {
    /// `None`: the default state directory.
    pub fn open(dir: Option<PathBuf>) -> Self {
        Self {
            dir: dir.or_else(default_dir),
        }
    }

    pub fn without_dir() -> Self {
        Self { dir: None }
    }

    /// The record of a device; `None` if it is missing, unreadable, of another device, or of another format version.
    pub fn find(&self, identity: &str) -> Option<DeviceRecord> {
        read(&self.path(identity)?).filter(|found| found.identity == identity)
    }

    /// True if the record of a device exists, readable or not.
    pub fn has(&self, identity: &str) -> bool {
        let absent = |kind| matches!(kind, io::ErrorKind::NotFound | io::ErrorKind::NotADirectory);
        self.path(identity).is_some_and(|path| {
            fs::metadata(path).map_or_else(|error| !absent(error.kind()), |_| true)
        })
    }

    /// Path of the record of a device, if the record exists but is unusable.
    pub fn unusable(&self, identity: &str) -> Option<PathBuf> {
        if self.has(identity) && self.find(identity).is_none() {
            self.path(identity)
        } else {
            None
        }
    }

    /// Records a run that writes, and returns the key for its stamps. A device with the same identity and size keeps
    /// its key, so that the record also explains the data of earlier runs. Concurrent processes get the same key.
    pub fn keep(&self, identity: &str, size_bytes: u64, purpose: &str) -> Result<u64, StateError> {
        let path = self.path(identity).ok_or(StateError::NoDirectory)?;
        let _lock = lock_beside(&path)?;
        let last_record = self.find(identity);
        let failed_read_back = last_record
            .as_ref()
            .and_then(|last| last.failed_read_back.clone());
        let old_record = last_record.filter(|old| old.size_bytes == size_bytes);
        let now_unix_s = unix_s();
        let new_record = DeviceRecord {
            version: VERSION,
            identity: identity.to_owned(),
            size_bytes,
            key: match &old_record {
                Some(old) => old.key,
                None => random_key().map_err(failed("generate a key for", &path))?,
            },
            first_unix_s: old_record
                .as_ref()
                .map_or(now_unix_s, |old| old.first_unix_s),
            last_unix_s: now_unix_s,
            what: purpose.to_owned(),
            prepared: old_record.and_then(|old| old.prepared),
            failed_read_back,
        };
        write(&path, &new_record).map_err(failed("write", &path))?;
        Ok(new_record.key)
    }

    /// Changes the record of a device under the lock. Errors: also a missing record.
    pub(super) fn change(
        &self,
        identity: &str,
        change: impl FnOnce(&mut DeviceRecord),
    ) -> Result<(), StateError> {
        let path = self.path(identity).ok_or(StateError::NoDirectory)?;
        let _lock = lock_beside(&path)?;
        let gone = || failed("read", &path)(io::ErrorKind::NotFound.into());
        let mut record = self.find(identity).ok_or_else(gone)?;
        change(&mut record);
        write(&path, &record).map_err(failed("write", &path))
    }

    pub(super) fn all(&self) -> Vec<DeviceRecord> {
        let dir = self.dir.as_ref().map(|dir| dir.join(DIR));
        let entries = dir
            .and_then(|dir| fs::read_dir(dir).ok())
            .into_iter()
            .flatten()
            .flatten();
        entries
            .map(|entry| entry.path())
            .filter(|path| path.extension().is_some_and(|it| it == "json"))
            .filter_map(|path| read(&path))
            .collect()
    }

    /// `None` without a state directory.
    pub(crate) fn path(&self, identity: &str) -> Option<PathBuf> {
        Some(self.dir.as_ref()?.join(DIR).join(file_name(identity)))
    }
}

/// A key for stamps, never zero.
pub(super) fn random_key() -> io::Result<u64> {
    let mut bytes = [0; 8];
    fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes) | 1)
}

fn read(path: &Path) -> Option<DeviceRecord> {
    let record: DeviceRecord = serde_json::from_slice(&read_bytes(path).ok()?).ok()?;
    (record.version == VERSION).then_some(record)
}

/// Errors: the record cannot be read, or an untrusted user can change it, so that the record proves nothing.
fn read_bytes(path: &Path) -> io::Result<Vec<u8>> {
    files::read_instructions(path, Links::Refused, Instructions::Data, RECORD_BYTES_MAX)
}

fn failed(tried: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StateError {
    let path = path.to_owned();
    move |source| StateError::Io {
        tried,
        path,
        source,
    }
}

/// Creates the directory of a record if needed, and locks other processes out of this directory.
fn lock_beside(path: &Path) -> Result<fs::File, StateError> {
    let dir = files::dir_of(path);
    files::create_private_dirs(dir).map_err(failed("make the directory of", path))?;
    lock(dir).map_err(failed("lock", path))
}

/// Locks `dir` until the returned file is dropped. After a kill the kernel releases the lock.
fn lock(dir: &Path) -> io::Result<fs::File> {
    files::require_trusted(dir)?;
    let file = files::open_to_append(&dir.join(".lock"), files::PRIVATE)?;
    let deadline = Instant::now() + LOCK_WAIT;
    while !try_lock_byte(file.as_fd(), 0, ByteLock::Exclusive)? {
        if Instant::now() > deadline {
            return Err(io::Error::new(
                io::ErrorKind::TimedOut,
                format!("another process of flashproof held the lock for {LOCK_WAIT:?}"),
            ));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(file)
}

/// Writes atomically: a reader sees the old or the new record, even after a crash.
fn write(path: &Path, record: &DeviceRecord) -> io::Result<()> {
    files::replace(
        path,
        &serde_json::to_vec_pretty(record)?,
        ReplaceTarget::OwnPrivate("{"),
    )
}

/// File name for an identity: readable, and unique by a hash of the identity (FNV-1a).
fn file_name(identity: &str) -> String {
    let readable: String = identity
        .chars()
        .take(80)
        .map(|c| {
            if c.is_ascii_alphanumeric() || "-.:+".contains(c) {
                c
            } else {
                '_'
            }
        })
        .collect();
    let hash = identity
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
    format!("{readable}-{hash:016x}.json")
}

fn default_dir() -> Option<PathBuf> {
    env_path("FLASHPROOF_STATE")
        .or_else(|| Some(env_path("XDG_STATE_HOME")?.join("flashproof")))
        .or_else(|| (effective_user() == 0).then(|| PathBuf::from("/var/lib/flashproof")))
        .or_else(|| Some(env_path("HOME")?.join(".local/state/flashproof")))
}

fn env_path(name: &str) -> Option<PathBuf> {
    let value = env::var_os(name).filter(|value| !value.is_empty())?;
    Some(PathBuf::from(value))
}

pub fn unix_s() -> u64 {
    // A clock set before 1970 must not prevent a record.
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs()
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreparationRecord {
    /// Version of the program that began the preparation.
    pub tool: String,
    pub path: String,
    pub serial: Option<String>,
    pub size_bytes: u64,
    /// Size of the prepared part, from byte 0; later runs use no more.
    pub used_bytes: u64,
    pub discard_first: bool,
    /// True if the unused rest was discarded.
    pub rest_discarded: bool,
    pub zeros: bool,
    pub fills: u32,
    /// Parameters of a pass of random fill in random order; `None`: sequential.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub random: Option<RandomOrder>,
    pub seed: u64,
    /// Start, seconds since 1970.
    pub started_unix_s: u64,
    /// End, seconds since 1970; `None` while incomplete.
    pub ended_unix_s: Option<u64>,
    /// Passes that are complete and on the medium.
    pub passes_done: u32,
    /// Mark: in the current pass, everything before this byte is on the medium.
    pub mark_bytes: u64,
    /// Last sample that was read back and compared.
    pub sample: Option<VerifiedSample>,
    /// Purpose of the last run that wrote after the preparation. After such a run the exact contents are unknown.
    pub written_since: Option<String>,
}

/// Parameters of a random order of writes, in addition to seed and size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RandomOrder {
    pub block_bytes: u32,
    /// Total bytes to write: the assumed flash capacity.
    pub pass_bytes: u64,
    /// Minimum number of bytes written between two writes of the same block.
    pub cache_bytes: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerifiedSample {
    /// Number of places compared.
    pub spots: u64,
    pub bytes: u64,
    /// Number of places with other data than written.
    pub mismatches: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_mismatch: Option<u64>,
    pub unix_s: u64,
}

impl VerifiedSample {
    pub fn failure(&self) -> String {
        let Self {
            spots,
            mismatches,
            first_mismatch,
            unix_s,
            ..
        } = self;
        let first = first_mismatch.map_or(String::new(), |at| format!(", the first at byte {at}"));
        format!(
            "a read-back after its preparation found other data than written: {mismatches} of {spots} places{first} ({})",
            date_to_minute(unix_s.saturating_mul(1_000))
        )
    }
}

impl PreparationRecord {
    pub fn passes(&self) -> u32 {
        u32::from(self.zeros) + self.fills
    }

    pub fn pass_bytes(&self) -> u64 {
        self.random
            .map_or(self.used_bytes, |random| random.pass_bytes)
    }

    /// Number, from 1, of the random fill that pass `pass` (counted from 0) writes; `None` for the pass of zeros.
    pub fn fill_of(&self, pass: u32) -> Option<u32> {
        // The first random fill has number 1, whether or not a pass of zeros precedes it.
        (pass + 1)
            .checked_sub(u32::from(self.zeros))
            .filter(|fill| *fill > 0)
    }

    pub fn is_complete(&self) -> bool {
        self.ended_unix_s.is_some()
    }

    pub fn progress(&self) -> String {
        if self.is_complete() {
            return "complete".to_owned();
        }
        if self.passes_done < self.passes() {
            return format!(
                "at byte {} of {} of pass {} of {}",
                self.mark_bytes,
                self.pass_bytes(),
                self.passes_done + 1,
                self.passes()
            );
        }
        match &self.sample {
            Some(VerifiedSample {
                spots,
                mismatches: mismatches @ 1..,
                ..
            }) => {
                format!(
                    "all passes are written, but {mismatches} of {spots} places that were read back differ"
                )
            }
            _ => "all passes are written, but no sample has been read back yet".to_owned(),
        }
    }

    /// Share of the device that is used, percent.
    pub fn use_pct(&self) -> f64 {
        self.used_bytes as f64 * 100.0 / self.size_bytes.max(1) as f64
    }
}

impl Records {
    pub fn prepared(&self, identity: &str, size_bytes: u64) -> Option<PreparationRecord> {
        self.find(identity)?
            .prepared
            .filter(|prepared| prepared.size_bytes == size_bytes)
    }

    /// Records the progress of a preparation. The consent has already created the record of the device.
    pub fn keep_prepared(
        &self,
        identity: &str,
        prepared: &PreparationRecord,
    ) -> Result<(), StateError> {
        self.change(identity, |record| record.prepared = Some(prepared.clone()))
    }

    /// Records a read-back sample of `prepared`. Returns false, and changes nothing, if the record has another
    /// preparation, or another run has written to the device in the meantime.
    pub fn keep_sample(
        &self,
        identity: &str,
        prepared: &PreparationRecord,
        sample: &VerifiedSample,
    ) -> Result<bool, StateError> {
        let mut is_same = false;
        self.change(identity, |record| {
            let Some(now) = &mut record.prepared else {
                return;
            };
            is_same = now.seed == prepared.seed
                && now.started_unix_s == prepared.started_unix_s
                && now.written_since == prepared.written_since;
            if !is_same {
                return;
            }
            now.sample = Some(sample.clone());
            if sample.mismatches > 0 {
                record.failed_read_back = Some(sample.clone());
            }
        })?;
        Ok(is_same)
    }

    /// Records that a run other than a preparation writes: from now on, the exact contents of the device are unknown.
    pub(super) fn note_writing(&self, identity: &str, purpose: &str) -> Result<(), StateError> {
        let was_prepared = self
            .find(identity)
            .is_some_and(|record| record.prepared.is_some());
        if purpose == PREPARATION || !was_prepared {
            return Ok(());
        }
        self.change(identity, |record| {
            if let Some(prepared) = &mut record.prepared {
                prepared.written_since = Some(purpose.to_owned());
            }
        })
    }

    /// Deletes the recorded preparation of a device that will be deallocated completely.
    pub fn forget_prepared(&self, identity: &str) -> Result<(), StateError> {
        match self.find(identity).and_then(|record| record.prepared) {
            None => Ok(()),
            Some(_) => self.change(identity, |record| record.prepared = None),
        }
    }

    /// The latest preparation that was started with the device name `path`, and the identity of its device.
    pub fn last_under(&self, path: &str) -> Option<(String, PreparationRecord)> {
        let under = self
            .all()
            .into_iter()
            .filter_map(|record| Some((record.identity, record.prepared?)));
        under
            .filter(|(_, prepared)| prepared.path == path)
            .max_by_key(|(_, prepared)| prepared.started_unix_s)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn prepared(path: &str, started_unix_s: u64) -> PreparationRecord {
        PreparationRecord {
            tool: "flashproof 0".into(),
            path: path.into(),
            serial: None,
            size_bytes: 1000,
            used_bytes: 1000,
            discard_first: false,
            rest_discarded: false,
            zeros: true,
            fills: 2,
            random: None,
            seed: 9,
            started_unix_s,
            ended_unix_s: None,
            passes_done: 1,
            mark_bytes: 250,
            sample: None,
            written_since: None,
        }
    }

    #[test]
    fn a_zero_pass_counts_as_a_pass_and_does_not_change_the_numbering_of_random_fills() {
        let with = prepared("x", 1);
        assert_eq!(with.passes(), 3);
        assert_eq!(
            [0, 1, 2].map(|pass| with.fill_of(pass)),
            [None, Some(1), Some(2)]
        );
        let without = PreparationRecord {
            zeros: false,
            ..with
        };
        assert_eq!([0, 1].map(|pass| without.fill_of(pass)), [Some(1), Some(2)]);
        assert_eq!(without.progress(), "at byte 250 of 1000 of pass 2 of 2");
    }

    #[test]
    fn a_preparation_is_found_by_identity_and_size_or_as_the_latest_of_a_device_path() {
        let dir = tempfile::tempdir().unwrap();
        let records = Records::open(Some(dir.path().into()));
        for (identity, started) in [("serial a", 5), ("serial b", 7)] {
            records.keep(identity, 1000, "preparation").unwrap();
            records
                .keep_prepared(identity, &prepared("/dev/x", started))
                .unwrap();
        }
        assert_eq!(
            records.prepared("serial a", 1000),
            Some(prepared("/dev/x", 5))
        );
        assert_eq!(records.prepared("serial a", 2000), None);
        assert_eq!(records.last_under("/dev/x").unwrap().0, "serial b");
        assert!(records.last_under("/dev/y").is_none());
    }

    #[test]
    fn recording_a_verified_sample_keeps_other_fields_and_skips_another_preparation() {
        let dir = tempfile::tempdir().unwrap();
        let records = Records::open(Some(dir.path().into()));
        let sample = VerifiedSample {
            spots: 3,
            bytes: 4,
            mismatches: 0,
            first_mismatch: None,
            unix_s: 5,
        };
        let read = prepared("/dev/x", 5);
        records.keep("serial a", 1000, "preparation").unwrap();
        let meanwhile = PreparationRecord {
            mark_bytes: 777,
            ..read.clone()
        };
        records.keep_prepared("serial a", &meanwhile).unwrap();
        assert!(records.keep_sample("serial a", &read, &sample).unwrap());
        let expected = PreparationRecord {
            sample: Some(sample.clone()),
            ..meanwhile
        };
        assert_eq!(records.prepared("serial a", 1000), Some(expected.clone()));

        let written = PreparationRecord {
            written_since: Some("storage test".into()),
            ..read.clone()
        };
        for other in [
            PreparationRecord {
                seed: 10,
                ..read.clone()
            },
            prepared("/dev/x", 6),
            written,
        ] {
            records.keep_prepared("serial a", &other).unwrap();
            assert!(!records.keep_sample("serial a", &read, &sample).unwrap());
            assert_eq!(records.prepared("serial a", 1000), Some(other));
        }
    }

    #[test]
    fn a_record_notes_a_run_that_writes_unless_the_run_is_a_preparation() {
        let dir = tempfile::tempdir().unwrap();
        let records = Records::open(Some(dir.path().into()));
        let key = records.keep("serial a", 1000, "preparation").unwrap();
        records.note_writing("serial a", "storage test").unwrap();
        records
            .keep_prepared("serial a", &prepared("/dev/x", 5))
            .unwrap();
        records.keep("serial a", 1000, "storage test").unwrap();
        records.note_writing("serial a", "preparation").unwrap();
        assert_eq!(
            records.prepared("serial a", 1000).unwrap().written_since,
            None
        );
        records.note_writing("serial a", "storage test").unwrap();
        assert_eq!(
            records
                .prepared("serial a", 1000)
                .unwrap()
                .written_since
                .as_deref(),
            Some("storage test")
        );
        records.note_writing("serial b", "storage test").unwrap();
        assert_eq!(records.find("serial a").unwrap().key, key);
        records.forget_prepared("serial b").unwrap();
        assert!(records.prepared("serial a", 1000).is_some());
        records.forget_prepared("serial a").unwrap();
        assert_eq!(
            (
                records.prepared("serial a", 1000),
                records.find("serial a").unwrap().key
            ),
            (None, key)
        );
    }

    fn records() -> (tempfile::TempDir, Records) {
        let dir = tempfile::tempdir().unwrap();
        let records = Records::open(Some(dir.path().join("deep/state")));
        (dir, records)
    }

    #[test]
    fn a_device_keeps_its_key_from_run_to_run() {
        let (_dir, records) = records();
        let key = records.keep("wwid a/b c", 1000, "random fill").unwrap();
        assert_eq!(
            records.keep("wwid a/b c", 1000, "storage test").unwrap(),
            key
        );
        let found = records.find("wwid a/b c").unwrap();
        assert_eq!(
            (found.key, found.size_bytes, found.what.as_str()),
            (key, 1000, "storage test")
        );
        assert!(found.first_unix_s <= found.last_unix_s);
    }

    #[test]
    fn a_device_with_the_same_identity_and_another_size_gets_a_new_key() {
        let (_dir, records) = records();
        let key = records.keep("serial x", 1000, "random fill").unwrap();
        assert_ne!(records.keep("serial x", 2000, "random fill").unwrap(), key);
        assert_eq!(records.find("serial x").unwrap().size_bytes, 2000);
    }

    #[test]
    fn identities_with_the_same_readable_file_name_have_separate_records() {
        let (_dir, records) = records();
        let one = records.keep("serial a/b", 1, "x").unwrap();
        assert_ne!(records.keep("serial a_b", 1, "x").unwrap(), one);
        assert!(records.find("serial a?b").is_none());
    }

    #[test]
    fn processes_that_record_the_same_device_at_once_get_the_same_key() {
        let (_dir, records) = records();
        let keys: Vec<u64> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|_| scope.spawn(|| records.keep("serial s", 1, "x").unwrap()))
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .collect()
        });
        assert!(keys.iter().all(|key| *key == keys[0]), "{keys:?}");
        assert_eq!(records.find("serial s").unwrap().key, keys[0]);
    }

    #[test]
    fn a_damaged_record_counts_as_missing_and_is_replaced() {
        let (_dir, records) = records();
        records.keep("serial s", 1, "x").unwrap();
        fs::write(records.path("serial s").unwrap(), "{ not json").unwrap();
        assert!(
            records.find("serial s").is_none()
                && records.has("serial s")
                && !records.has("serial t")
        );
        assert_eq!(
            (records.unusable("serial s"), records.unusable("serial t")),
            (records.path("serial s"), None)
        );
        let key = records.keep("serial s", 1, "x").unwrap();
        assert_eq!(records.find("serial s").unwrap().key, key);
        assert_eq!(records.unusable("serial s"), None);
    }

    #[test]
    fn a_record_of_another_format_version_counts_as_missing() {
        let (_dir, records) = records();
        records.keep("serial s", 1000, "x").unwrap();
        let path = records.path("serial s").unwrap();
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.replace(r#""version": 1"#, r#""version": 2"#)).unwrap();
        assert!(records.find("serial s").is_none() && records.unusable("serial s").is_some());
    }

    #[test]
    fn no_half_written_file_stays_behind() {
        let (_dir, records) = records();
        records.keep("serial s", 1, "x").unwrap();
        records.keep("serial s", 1, "y").unwrap();
        let dir = records.path("serial s").unwrap();
        let names: Vec<_> = fs::read_dir(dir.parent().unwrap())
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        assert!(
            names.len() == 2 && names.contains(&dir),
            "the record and the lock: {names:?}"
        );
    }

    #[test]
    fn a_state_directory_that_cannot_be_made_is_named_with_a_remedy() {
        let error = Records::open(Some(PathBuf::from("/dev/null")))
            .keep("serial s", 1, "x")
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("/dev/null") && error.contains("FLASHPROOF_STATE"),
            "{error}"
        );
    }
}
