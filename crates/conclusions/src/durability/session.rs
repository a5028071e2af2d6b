//! A session: a series of writes up to a power cut, as the witness stores it.

use results::format::{is_unprintable, quoted};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fmt;
use std::str::FromStr;

/// Version of the messages and of the sessions in the witness's file. Sessions of version 1 have no [`Secret`].
pub const FORMAT_VERSION: u32 = 2;

/// Bytes of a sector, the smallest unit with a stamp. No drive writes less at once.
pub const SECTOR_BYTES: u32 = 512;

/// Limits on the values of a session that a peer sends.
const LANES_MAX: usize = 64;
const SLOTS_MAX: u32 = 1 << 16;
const WRITE_BYTES_MAX: u32 = 1 << 20;
const TEXT_MAX: usize = 512;

/// Maximum number of writes of a lane between two flushes: only these can be in flight at a power cut.
pub const BATCH_MAX: u64 = 4;

/// Slots between successive writes in a scattered lane. Odd, while the number of slots is a power of two, so that the
/// writes of a generation use every slot once.
const STRIDE: u64 = 389;

/// Random ID of a session: 32 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct SessionId(pub u128);

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl TryFrom<String> for SessionId {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let number = of_digits(&text);
        number.map(Self).ok_or_else(|| {
            format!(
                "{} is not a session ID of 32 hexadecimal digits",
                quoted(&text)
            )
        })
    }
}

fn of_digits(text: &str) -> Option<u128> {
    let is_number = text.len() == 32 && text.bytes().all(|digit| digit.is_ascii_hexdigit());
    is_number.then(|| u128::from_str_radix(text, 16).ok())?
}

impl From<SessionId> for String {
    fn from(id: SessionId) -> Self {
        id.to_string()
    }
}

/// Random number of the machine under test. The session's ID is its hash, so the witness can check the secret without
/// knowing it before the examination: 32 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Secret(pub u128);

impl Secret {
    pub fn session(self) -> SessionId {
        let hash = Sha256::new()
            .chain_update("flashproof durability")
            .chain_update(self.0.to_le_bytes())
            .finalize();
        SessionId(
            hash[..16]
                .iter()
                .fold(0, |id, byte| id << 8 | u128::from(*byte)),
        )
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl FromStr for Secret {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        of_digits(text)
            .map(Self)
            .ok_or_else(|| format!("{} is not a secret of 32 hexadecimal digits", quoted(text)))
    }
}

impl TryFrom<String> for Secret {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Secret> for String {
    fn from(secret: Secret) -> Self {
        secret.to_string()
    }
}

/// Method by which databases make a write durable.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "Mode")]
pub enum DurabilityMethod {
    /// `O_DIRECT` writes, then fdatasync(2).
    Fdatasync,
    /// An `O_DIRECT` write with `RWF_DSYNC`: FUA, if drive and file system support it.
    Fua,
    /// A write through the page cache with `O_DSYNC`.
    Dsync,
    /// Writes through the page cache, then fsync(2).
    Fsync,
    /// A new file, fsync(2), rename(2) over the old one, fsync(2) of the directory.
    Rename,
}

impl DurabilityMethod {
    pub const ALL: [Self; 5] = [
        Self::Fdatasync,
        Self::Fua,
        Self::Dsync,
        Self::Fsync,
        Self::Rename,
    ];

    pub fn calls(self) -> &'static str {
        match self {
            Self::Fdatasync => "O_DIRECT, fdatasync",
            Self::Fua => "O_DIRECT, RWF_DSYNC",
            Self::Dsync => "O_DSYNC",
            Self::Fsync => "buffered, fsync",
            Self::Rename => "fsync, rename, fsync of the directory",
        }
    }

    /// True if each write is durable when it completes, so that this mode needs no separate flush.
    pub fn is_alone(self) -> bool {
        matches!(self, Self::Fua | Self::Dsync | Self::Rename)
    }
}

impl fmt::Display for DurabilityMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

impl FromStr for DurabilityMethod {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let names = || Self::ALL.map(|mode| mode.to_string()).join(", ");
        let found = Self::ALL.into_iter().find(|mode| mode.to_string() == text);
        found.ok_or_else(|| format!("{} is not a mode: give one of {}", quoted(text), names()))
    }
}

/// Position and size of a lane's writes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Lane")]
pub struct WriteLane {
    pub mode: DurabilityMethod,
    /// Bytes of each write: whole sectors.
    pub write_bytes: u32,
    /// Number of slots; each write overwrites the oldest write. A power of two.
    pub slots: u32,
    /// Offset on the device or in the data file, bytes; unused in a lane of files.
    pub at: u64,
    /// True if successive writes are not adjacent.
    pub scattered: bool,
}

impl WriteLane {
    fn is_in_bounds(&self) -> bool {
        (SECTOR_BYTES..=WRITE_BYTES_MAX).contains(&self.write_bytes)
            && self.write_bytes.is_multiple_of(SECTOR_BYTES)
            && (2..=SLOTS_MAX).contains(&self.slots)
            && self.slots.is_power_of_two()
            && self
                .at
                .checked_add(self.bytes())
                .is_some_and(|end| end <= i64::MAX as u64)
    }

    /// Slot of write number `sequence`, from 1. The writes of a generation fill every slot once.
    pub fn slot(&self, sequence: u64) -> u64 {
        let slots = u64::from(self.slots);
        let place = sequence % slots;
        if self.scattered {
            place * STRIDE % slots
        } else {
            place
        }
    }

    /// Generation, from 0, of write number `sequence`.
    pub fn generation(&self, sequence: u64) -> u64 {
        sequence / u64::from(self.slots)
    }

    /// Offset of a slot, bytes.
    pub fn offset(&self, slot: u64) -> u64 {
        self.at + slot * u64::from(self.write_bytes)
    }

    pub fn bytes(&self) -> u64 {
        u64::from(self.slots) * u64::from(self.write_bytes)
    }

    /// Maximum number of issued writes that the witness has not confirmed.
    pub fn window(&self) -> u64 {
        u64::from(self.slots) / 2
    }
}

/// Counters of a drive's health log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PowerCounts {
    pub cycles: u64,
    pub unsafe_shutdowns: u64,
}

/// Description of a session, with everything that is needed to read its writes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Session {
    pub format_version: u32,
    pub id: SessionId,
    /// Machine and target. The witness finds the session by this text if the target lost its own record.
    pub subject: String,
    /// Device or directory, as the user named it.
    pub path: String,
    /// Identity of the disk, if the disk has a persistent identity.
    pub disk: Option<String>,
    /// Program and version.
    pub tool: String,
    /// Beginning, milliseconds since 1970 (UTC).
    pub started_unix_ms: u64,
    /// Boot ID of the kernel.
    pub boot_id: String,
    /// Power counters of an NVMe drive at the beginning.
    pub power: Option<PowerCounts>,
    pub lanes: Vec<WriteLane>,
}

impl Session {
    pub fn has_secret(&self) -> bool {
        self.format_version > 1
    }

    /// Checks all bounds: a session from the network or a file may be hostile. An error is a text of one line.
    pub fn check(&self) -> Result<(), String> {
        if !(1..=FORMAT_VERSION).contains(&self.format_version) {
            return Err(format!(
                "the session has format {}, but this program has format {FORMAT_VERSION}: use the same version on both machines",
                self.format_version
            ));
        }
        for text in [&self.subject, &self.path, &self.tool, &self.boot_id]
            .into_iter()
            .chain(&self.disk)
        {
            check_text(text)?;
        }
        if !(1..=LANES_MAX).contains(&self.lanes.len()) {
            return Err(format!(
                "the session has {} lanes, not 1 to {LANES_MAX}",
                self.lanes.len()
            ));
        }
        match self.lanes.iter().position(|lane| !lane.is_in_bounds()) {
            Some(lane) => Err(format!(
                "lane {lane} of the session has values out of bounds"
            )),
            None => Ok(()),
        }
    }
}

pub(super) fn check_text(text: &str) -> Result<(), String> {
    if text.len() > TEXT_MAX || text.chars().any(is_unprintable) {
        Err(format!(
            "a text of the session is longer than {TEXT_MAX} bytes or has control characters"
        ))
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_writes_of_a_generation_fill_every_slot_once() {
        for scattered in [false, true] {
            let lane = WriteLane {
                mode: DurabilityMethod::Fua,
                write_bytes: 4096,
                slots: 64,
                at: 0,
                scattered,
            };
            let mut slots: Vec<_> = (1_000..1_064).map(|sequence| lane.slot(sequence)).collect();
            slots.sort_unstable();
            assert!(slots.into_iter().eq(0..64), "{scattered}");
            assert_eq!(lane.slot(7), lane.slot(7 + 64));
            assert_eq!(lane.generation(7 + 64), 1);
        }
    }

    #[test]
    fn names_ids_and_secrets_are_parsed_as_they_are_written() {
        for mode in DurabilityMethod::ALL {
            assert_eq!(mode.to_string().parse(), Ok(mode));
            assert_eq!(serde_json::to_string(&mode).unwrap(), format!("\"{mode}\""));
        }
        let id = SessionId(0xab);
        assert_eq!(SessionId::try_from(id.to_string()), Ok(id));
        assert!(
            ["ab".to_owned(), format!("+{:031x}", 1)]
                .map(SessionId::try_from)
                .iter()
                .all(Result::is_err)
        );
        let secret = Secret(7);
        assert_eq!(secret.to_string().parse(), Ok(secret));
        // The ID as written by this version: `printf 'flashproof durability\x07' + 15 zero bytes | sha256sum`.
        assert_eq!(
            secret.session().to_string(),
            "5b9ade402901def6337dcf2ad17b0fd9"
        );
        assert!("7".parse::<Secret>().is_err());
        assert!(
            "direct"
                .parse::<DurabilityMethod>()
                .unwrap_err()
                .contains("fdatasync, fua, dsync, fsync, rename")
        );
    }
}
