//! Records of what this program itself put on a device, kept on this machine.
//!
//! One JSON file for each device identity, in the state directory: `FLASHPROOF_STATE`, else
//! `$XDG_STATE_HOME/flashproof`, else `/var/lib/flashproof` for root, else `~/.local/state/flashproof`.
//! A record explains only data that carries its key, so a wrong or lost record can cost one question,
//! never a user's data.

use super::prepared::Prepared;
use results::files::{self, Links, Over};
use serde::{Deserialize, Serialize};
use std::env;
use std::fs;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use sys::open::{ByteLock, effective_user, try_lock_byte};
use thiserror::Error;

/// Version of the file's format.
const VERSION: u32 = 1;

/// What a run that prepares a device calls itself ([`super::Request::purpose`]).
pub const PREPARATION: &str = "preparation";

/// Where the records are, in the state directory.
const DIR: &str = "devices";

/// Largest record that is read: a hundred times what one has.
const RECORD_BYTES_MAX: u64 = 64 << 10;

/// Longest wait for another instance that is writing a record, which takes it two syncs.
const LOCK_WAIT: Duration = Duration::from_secs(5);

/// One device that this program has written to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Preparation {
    /// Version of this format.
    pub version: u32,
    /// Which device, see [`crate::discover::DeviceFacts::identity`].
    pub identity: String,
    /// Its size when it was written to; 0 for a file, which may grow.
    pub size_bytes: u64,
    /// Key of the stamps in every sector written.
    pub key: u64,
    /// First time, seconds since 1970.
    pub first_unix_s: u64,
    /// Last time, seconds since 1970.
    pub last_unix_s: u64,
    /// What was done last, in words.
    pub what: String,
    /// How it was prepared, if it was.
    pub prepared: Option<Prepared>,
}

/// Why a record could not be kept.
#[derive(Debug, Error)]
pub enum StateError {
    /// There is no directory to keep it in.
    #[error(
        "cannot keep a record of the preparation - neither FLASHPROOF_STATE, XDG_STATE_HOME nor HOME is set; set FLASHPROOF_STATE to a directory"
    )]
    NoDirectory,
    /// The directory or file could not be used.
    #[error(
        "cannot {tried} the preparation record {path} - {source}; make the directory writable, or set FLASHPROOF_STATE to one that is"
    )]
    Io {
        /// `write`, `make the directory of`...
        tried: &'static str,
        /// The file.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
}

/// The records on this machine.
#[derive(Debug, Clone)]
pub struct Records {
    dir: Option<PathBuf>,
}

impl Records {
    /// Records in `dir`, or in the state directory that the environment names.
    pub fn open(dir: Option<PathBuf>) -> Self {
        Self { dir: dir.or_else(default_dir) }
    }

    /// No records, and none can be kept.
    pub fn nowhere() -> Self {
        Self { dir: None }
    }

    /// The record of a device. One that cannot be read, is of another device or of a later format is
    /// as good as none.
    pub fn find(&self, identity: &str) -> Option<Preparation> {
        read(&self.path(identity)?).filter(|found| found.identity == identity)
    }

    /// Whether there is something where the record of a device would be, whether or not it can be read.
    pub fn has(&self, identity: &str) -> bool {
        let absent = |kind| matches!(kind, io::ErrorKind::NotFound | io::ErrorKind::NotADirectory);
        self.path(identity).is_some_and(|path| fs::metadata(path).map_or_else(|error| !absent(error.kind()), |_| true))
    }

    /// Where the record of a device is, if something is there that cannot be used.
    pub fn unusable(&self, identity: &str) -> Option<PathBuf> {
        if self.has(identity) && self.find(identity).is_none() { self.path(identity) } else { None }
    }

    /// Writes or updates the record of a device and returns the key to stamp with.
    ///
    /// The key stays the same for as long as the device keeps its identity and size, so that what
    /// earlier runs wrote stays explained. Several instances may do this at once: all get one key.
    pub fn keep(&self, identity: &str, size_bytes: u64, what: &str) -> Result<u64, StateError> {
        let path = self.path(identity).ok_or(StateError::NoDirectory)?;
        let _lock = lock_beside(&path)?;
        let old = self.find(identity).filter(|old| old.size_bytes == size_bytes);
        let now = unix_s();
        let new = Preparation {
            version: VERSION,
            identity: identity.to_owned(),
            size_bytes,
            key: match &old {
                Some(old) => old.key,
                None => random_key().map_err(failed("draw a key for", &path))?,
            },
            first_unix_s: old.as_ref().map_or(now, |old| old.first_unix_s),
            last_unix_s: now,
            what: what.to_owned(),
            prepared: old.and_then(|old| old.prepared),
        };
        write(&path, &new).map_err(failed("write", &path))?;
        Ok(new.key)
    }

    /// Changes the record of a device that has one.
    pub(super) fn change(&self, identity: &str, change: impl FnOnce(&mut Preparation)) -> Result<(), StateError> {
        let path = self.path(identity).ok_or(StateError::NoDirectory)?;
        let _lock = lock_beside(&path)?;
        let gone = || failed("read", &path)(io::ErrorKind::NotFound.into());
        let mut record = self.find(identity).ok_or_else(gone)?;
        change(&mut record);
        write(&path, &record).map_err(failed("write", &path))
    }

    /// All records that can be read.
    pub(super) fn all(&self) -> Vec<Preparation> {
        let dir = self.dir.as_ref().map(|dir| dir.join(DIR));
        let entries = dir.and_then(|dir| fs::read_dir(dir).ok()).into_iter().flatten().flatten();
        entries
            .map(|entry| entry.path())
            .filter(|path| path.extension().is_some_and(|it| it == "json"))
            .filter_map(|path| read(&path))
            .collect()
    }

    fn path(&self, identity: &str) -> Option<PathBuf> {
        Some(self.dir.as_ref()?.join(DIR).join(file_name(identity)))
    }
}

/// A key for stamps, never zero.
pub(super) fn random_key() -> io::Result<u64> {
    let mut bytes = [0; 8];
    fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes) | 1)
}

fn read(path: &Path) -> Option<Preparation> {
    let record: Preparation =
        serde_json::from_slice(&files::read(path, Links::Refused, RECORD_BYTES_MAX).ok()?).ok()?;
    (record.version == VERSION).then_some(record)
}

/// The error of what was `tried` on a record.
fn failed(tried: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StateError {
    let path = path.to_owned();
    move |source| StateError::Io { tried, path, source }
}

/// Keeps other instances out of the directory of a record, which is made if need be.
fn lock_beside(path: &Path) -> Result<fs::File, StateError> {
    let dir = path.parent().unwrap_or(Path::new("/"));
    fs::DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(failed("make the directory of", path))?;
    lock(dir).map_err(failed("lock", path))
}

/// Keeps other instances out of `dir` until the file is dropped; the kernel drops it after a kill.
fn lock(dir: &Path) -> io::Result<fs::File> {
    let file = fs::OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(dir.join(".lock"))?;
    let deadline = Instant::now() + LOCK_WAIT;
    while !try_lock_byte(file.as_fd(), 0, ByteLock::Exclusive)? {
        if Instant::now() > deadline {
            return Err(io::Error::new(io::ErrorKind::TimedOut, format!("another instance held it for {LOCK_WAIT:?}")));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(file)
}

/// A reader sees the old record or the new one, and a crash leaves one of them.
fn write(path: &Path, record: &Preparation) -> io::Result<()> {
    files::replace(path, &serde_json::to_vec_pretty(record)?, Over::OwnPrivate)
}

/// A file name for an identity: readable, and unique by a hash of all of it (FNV-1a).
fn file_name(identity: &str) -> String {
    let readable: String = identity
        .chars()
        .take(80)
        .map(|c| if c.is_ascii_alphanumeric() || "-.:+".contains(c) { c } else { '_' })
        .collect();
    let hash = identity
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
    format!("{readable}-{hash:016x}.json")
}

fn default_dir() -> Option<PathBuf> {
    let named = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(dir) = named("FLASHPROOF_STATE") {
        return Some(dir);
    }
    if let Some(dir) = named("XDG_STATE_HOME") {
        return Some(dir.join("flashproof"));
    }
    if effective_user() == 0 {
        return Some(PathBuf::from("/var/lib/flashproof"));
    }
    named("HOME").map(|home| home.join(".local/state/flashproof"))
}

/// Seconds since 1970, as records count them.
pub fn unix_s() -> u64 {
    // A clock before 1970 is no reason not to keep a record.
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records() -> (tempfile::TempDir, Records) {
        let dir = tempfile::tempdir().unwrap();
        let records = Records::open(Some(dir.path().join("deep/state")));
        (dir, records)
    }

    #[test]
    fn a_device_keeps_its_key_from_run_to_run() {
        let (_dir, records) = records();
        let key = records.keep("wwid a/b c", 1000, "salted").unwrap();
        assert_eq!(records.keep("wwid a/b c", 1000, "storage test").unwrap(), key);
        let found = records.find("wwid a/b c").unwrap();
        assert_eq!((found.key, found.size_bytes, found.what.as_str()), (key, 1000, "storage test"));
        assert!(found.first_unix_s <= found.last_unix_s);
    }

    #[test]
    fn another_size_is_another_device() {
        let (_dir, records) = records();
        let key = records.keep("serial x", 1000, "salted").unwrap();
        assert_ne!(records.keep("serial x", 2000, "salted").unwrap(), key);
        assert_eq!(records.find("serial x").unwrap().size_bytes, 2000);
    }

    #[test]
    fn identities_that_look_alike_in_a_file_name_stay_apart() {
        let (_dir, records) = records();
        let one = records.keep("serial a/b", 1, "x").unwrap();
        assert_ne!(records.keep("serial a_b", 1, "x").unwrap(), one);
        assert!(records.find("serial a?b").is_none());
    }

    #[test]
    fn instances_that_prepare_at_once_get_one_key() {
        let (_dir, records) = records();
        let keys: Vec<u64> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(|| records.keep("serial s", 1, "x").unwrap())).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(keys.iter().all(|key| *key == keys[0]), "{keys:?}");
        assert_eq!(records.find("serial s").unwrap().key, keys[0]);
    }

    #[test]
    fn a_broken_record_explains_nothing_and_is_replaced() {
        let (_dir, records) = records();
        records.keep("serial s", 1, "x").unwrap();
        fs::write(records.path("serial s").unwrap(), "{ not json").unwrap();
        assert!(records.find("serial s").is_none() && records.has("serial s") && !records.has("serial t"));
        assert_eq!((records.unusable("serial s"), records.unusable("serial t")), (records.path("serial s"), None));
        let key = records.keep("serial s", 1, "x").unwrap();
        assert_eq!(records.find("serial s").unwrap().key, key);
        assert_eq!(records.unusable("serial s"), None);
    }

    #[test]
    fn a_record_of_another_format_explains_nothing() {
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
        let names: Vec<_> = fs::read_dir(dir.parent().unwrap()).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert!(names.len() == 2 && names.contains(&dir), "the record and the lock: {names:?}");
    }

    #[test]
    fn a_state_directory_that_cannot_be_made_is_named_with_the_way_out() {
        let error = Records::open(Some(PathBuf::from("/dev/null"))).keep("serial s", 1, "x").unwrap_err().to_string();
        assert!(error.contains("/dev/null") && error.contains("FLASHPROOF_STATE"), "{error}");
    }
}
