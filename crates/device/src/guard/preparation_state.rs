//! State of a device's preparation: its record, compared with samples of the device.
//!
//! The record counts only if samples confirm it. A complete random fill leaves no empty place in the prepared part, and
//! later runs replace its data by other data. So an empty place was discarded or overwritten with zeros since then, or
//! belongs to a new file. A discard is not detected if the drive still returns the old data.
//!
//! | Samples of the prepared part                          | State                              |
//! |-------------------------------------------------------|------------------------------------|
//! | none has a stamp, and the name is not the drive's own | [`PreparationState::Unrecognised`] |
//! | none has a stamp, or 1 % are empty or unreadable      | [`PreparationState::Erased`]       |
//! | otherwise                                             | [`PreparationState::Shown`]        |

use super::claim::open_to_read;
use super::preparation::{DeviceRecord, PreparationRecord, Records, random_key};
use super::sampling::{SPOT_BYTES, read};
use super::{SPOTS, SPOTS_LIMIT};
use crate::discover::{self, DeviceFacts};
use std::fmt;
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Instant;
use sys::buffer::Pool;
use sys::salt::{SECTOR_BYTES, is_stamped, stamp};

/// A device counts as erased if at least one in this many samples is empty or unreadable: less than 1 % of free flash
/// hardly changes a result. Of [`SPOTS`] samples at most 10 may be empty, so a discard of 3 % of the device is always
/// found, and a discard of 2 % in 99 of 100 runs.
const ERASED_ONE_IN: u64 = 100;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PreparedSamples {
    /// Places tried, readable or not.
    pub places: u64,
    /// Places with all bytes 0x00 or all bytes 0xff: the data that drives return for discarded blocks (NVMe: DLFEAT).
    pub empty: u64,
    pub unreadable: u64,
    /// Places with a stamp of the record's key.
    pub stamped: u64,
}

impl PreparedSamples {
    /// Samples the first `used_bytes` of `path`; `key`: key of the stamps. Errors: no thread or memory, the device
    /// cannot be opened, or gives no answer within twice [`SPOTS_LIMIT`].
    pub(crate) fn read(path: &str, used_bytes: u64, key: u64) -> Result<Self, String> {
        let (sender, receiver) = mpsc::channel();
        let path = path.to_owned();
        let sample = move || drop(sender.send(Self::read_waiting(&path, used_bytes, key)));
        thread::Builder::new()
            .spawn(sample)
            .map_err(|error| format!("no thread could be started ({error})"))?;
        let answered = receiver.recv_timeout(2 * SPOTS_LIMIT);
        answered.map_err(|_| format!("it did not answer within {:?}", 2 * SPOTS_LIMIT))?
    }

    fn read_waiting(path: &str, used_bytes: u64, key: u64) -> Result<Self, String> {
        let resolved = discover::resolve(Path::new(path), Path::new("/"))
            .map_err(|error| error.to_string())?;
        let (file, _) = open_to_read(path, &resolved).map_err(|reason| reason.to_string())?;
        let seed = random_key().map_err(|error| format!("no random number ({error})"))?;
        let mut pool =
            Pool::new(SPOT_BYTES as usize).map_err(|error| format!("no memory ({error})"))?;
        let mut buf = pool.cut(SPOT_BYTES as usize).ok_or("no memory")?;
        let started = Instant::now();
        let all_places = (used_bytes / SPOT_BYTES).max(1);
        let mut samples = Self::default();
        while samples.places < all_places.min(SPOTS.into()) && started.elapsed() < SPOTS_LIMIT {
            let reads_all = all_places <= SPOTS.into();
            let place = if reads_all {
                samples.places
            } else {
                stamp(samples.places, seed) % all_places
            };
            samples.places += 1;
            match read(
                &file,
                place * SPOT_BYTES,
                SPOT_BYTES.min(used_bytes),
                &mut buf,
            ) {
                Ok(bytes) => samples.count(bytes, key),
                Err(_) => samples.unreadable += 1,
            }
        }
        Ok(samples)
    }

    fn count(&mut self, bytes: &[u8], key: u64) {
        let is_all = |value: u8| bytes.iter().all(|byte| *byte == value);
        self.empty += u64::from(is_all(0) || is_all(0xff));
        self.stamped += u64::from(
            bytes
                .chunks(SECTOR_BYTES)
                .any(|sector| is_stamped(sector, key)),
        );
    }

    fn is_erased(&self) -> bool {
        self.stamped == 0 || (self.empty + self.unreadable) * ERASED_ONE_IN >= self.places
    }
}

impl fmt::Display for PreparedSamples {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            places,
            empty,
            unreadable,
            stamped,
        } = self;
        write!(
            f,
            "{empty} of {places} samples are empty (all bytes 0x00, or all 0xff)"
        )?;
        if *unreadable > 0 {
            write!(f, ", {unreadable} cannot be read")?;
        }
        if *stamped == 0 {
            f.write_str(", none has a stamp of flashproof")
        } else {
            Ok(())
        }
    }
}

/// Reads [`PreparedSamples`]; tests use another function.
pub(crate) type SampleReader =
    fn(path: &str, used_bytes: u64, key: u64) -> Result<PreparedSamples, String>;

#[derive(Debug, Clone, PartialEq)]
pub enum PreparationState {
    /// The device has no lasting name, so there is no record of it.
    Nameless,
    /// No preparation of a device with this identity and size is recorded.
    Unrecorded,
    Incomplete(PreparationRecord),
    ZerosOnly(PreparationRecord),
    /// The record says that the device is prepared, but the device could not be examined; the reason.
    Unexamined(PreparationRecord, String),
    /// No sample has the record's stamp, and the identity is not the drive's own: the record may be another device's.
    Unrecognised(PreparedSamples),
    /// The device was discarded, erased, or overwritten with zeros since its preparation.
    Erased(PreparationRecord, PreparedSamples),
    /// The device shows the data of its complete preparation, or of later runs.
    Shown(PreparationRecord, PreparedSamples),
}

impl PreparationState {
    /// Reads samples only if the record says that all passes are written, at least one of them with random fill.
    pub fn from_records(facts: &DeviceFacts, records: &Records) -> Self {
        Self::with(facts, records, PreparedSamples::read)
    }

    pub(crate) fn with(facts: &DeviceFacts, records: &Records, reader: SampleReader) -> Self {
        let Some(identity) = facts.identity() else {
            return Self::Nameless;
        };
        let Some(DeviceRecord {
            key,
            prepared: Some(prepared),
            ..
        }) = records.find(&identity)
        else {
            return Self::Unrecorded;
        };
        // For a file, the recorded size is its length at the time of the preparation.
        if prepared.size_bytes != facts.size_bytes {
            return Self::Unrecorded;
        }
        if !prepared.is_complete() && prepared.passes_done < prepared.passes() {
            return Self::Incomplete(prepared);
        }
        if prepared.fills == 0 {
            return if prepared.is_complete() {
                Self::ZerosOnly(prepared)
            } else {
                Self::Incomplete(prepared)
            };
        }
        match reader(&facts.path, prepared.used_bytes, key) {
            Err(why) => Self::Unexamined(prepared, why),
            Ok(samples) if samples.stamped == 0 && !facts.has_own_name() => {
                Self::Unrecognised(samples)
            }
            Ok(samples) if samples.is_erased() => Self::Erased(prepared, samples),
            Ok(_) if !prepared.is_complete() => Self::Incomplete(prepared),
            Ok(samples) => Self::Shown(prepared, samples),
        }
    }

    /// True if the record belongs to another device. Reads samples only if the identity can pass to another device.
    pub(crate) fn is_of_another(facts: &DeviceFacts, records: &Records) -> bool {
        !facts.has_own_name() && matches!(Self::from_records(facts, records), Self::Unrecognised(_))
    }

    /// True if record and device show a complete preparation with random fill.
    pub fn is_prepared(&self) -> bool {
        matches!(self, Self::Shown(..))
    }

    /// The recorded preparation, unless the record is of another device.
    pub(crate) fn prepared(&self) -> Option<&PreparationRecord> {
        match self {
            Self::Nameless | Self::Unrecorded | Self::Unrecognised(_) => None,
            Self::Incomplete(prepared)
            | Self::ZerosOnly(prepared)
            | Self::Unexamined(prepared, _)
            | Self::Erased(prepared, _)
            | Self::Shown(prepared, _) => Some(prepared),
        }
    }

    /// Why the device is not what its record says; `None` if record and device agree.
    pub fn contradiction(&self) -> Option<String> {
        match self {
            Self::Unrecognised(samples) => Some(format!(
                "it is not prepared, although its record says so: {samples}, so its data was discarded or \
                 overwritten, or its name now belongs to another file or device"
            )),
            Self::Erased(prepared, samples) => {
                let writer = prepared.written_since.as_ref();
                let or_test = writer.map_or(String::new(), |run| {
                    format!(", or emptied by a test (the last test that wrote: {run})")
                });
                Some(format!(
                    "it is no longer prepared: {samples}, so it was discarded or erased since{or_test}"
                ))
            }
            _ => None,
        }
    }
}

/// The part of a device that a preparation left for use.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct UsedPart {
    pub(crate) used_bytes: u64,
    use_pct: f64,
}

impl UsedPart {
    /// `None` if all of the device may be used.
    pub(crate) fn from_records(facts: &DeviceFacts, records: &Records) -> Option<Self> {
        let recorded = records.prepared(&facts.identity()?, facts.size_bytes)?;
        if recorded.used_bytes == facts.size_bytes
            || PreparationState::is_of_another(facts, records)
        {
            return None;
        }
        Some(Self {
            used_bytes: recorded.used_bytes,
            use_pct: recorded.use_pct(),
        })
    }
}

impl fmt::Display for UsedPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            used_bytes,
            use_pct,
        } = self;
        write!(
            f,
            "only its first {used_bytes} bytes ({use_pct:.1} %) are used, because it was prepared with --use-pct; to use all bytes, prepare it without --use-pct"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::preparation::tests::prepared;
    use super::*;
    use results::assert_contains;
    use results::testing::modified;
    use std::fs;
    use sys::salt::PlacedSalt;
    use tempfile::TempDir;

    const SIZE: u64 = 64 << 20;
    const PLACES: u64 = 1024;

    fn records_of(identity: &str, size_bytes: u64) -> (TempDir, Records, u64) {
        let dir = tempfile::tempdir().unwrap();
        let records = Records::open(Some(dir.path().join("state")));
        let key = records.keep(identity, size_bytes, "preparation").unwrap();
        let whole = PreparationRecord {
            size_bytes,
            used_bytes: size_bytes,
            ended_unix_s: Some(2),
            ..prepared("x", 1)
        };
        records.keep_prepared(identity, &whole).unwrap();
        (dir, records, key)
    }

    fn drive() -> DeviceFacts {
        DeviceFacts {
            path: "/dev/x".into(),
            serial: Some("a".into()),
            size_bytes: SIZE,
            ..DeviceFacts::default()
        }
    }

    fn state(
        facts: &DeviceFacts,
        records: &Records,
        [empty, unreadable, stamped]: [u64; 3],
    ) -> PreparationState {
        thread_local!(static SAMPLES: std::cell::Cell<PreparedSamples> = std::cell::Cell::default());
        SAMPLES.set(PreparedSamples {
            places: PLACES,
            empty,
            unreadable,
            stamped,
        });
        PreparationState::with(facts, records, |_, _, _| Ok(SAMPLES.get()))
    }

    #[test]
    fn a_drive_with_1_percent_of_empty_samples_does_not_count_as_prepared() {
        let (_dir, records, _) = records_of("serial a", SIZE);
        for (samples, is_prepared) in [
            ([0, 0, 1024], true),
            ([10, 0, 1014], true),
            ([11, 0, 1013], false),
            ([5, 6, 1013], false),
            ([1024, 0, 0], false),
            ([0, 1024, 0], false),
            // Data of other programs was written, too.
            ([0, 0, 1], true),
            // No stamp at all: an erased drive that returns neither zeros nor 0xff.
            ([0, 0, 0], false),
        ] {
            let state = state(&drive(), &records, samples);
            assert_eq!(state.is_prepared(), is_prepared, "{samples:?}");
            assert_eq!(state.contradiction().is_none(), is_prepared, "{samples:?}");
            assert!(
                state.prepared().is_some(),
                "the drive has a serial number: {samples:?}"
            );
        }
        let text = state(&drive(), &records, [11, 1, 1012])
            .contradiction()
            .unwrap();
        let samples =
            "11 of 1024 samples are empty (all bytes 0x00, or all 0xff), 1 cannot be read";
        assert_eq!(
            text,
            format!("it is no longer prepared: {samples}, so it was discarded or erased since")
        );
    }

    #[test]
    fn the_last_test_that_wrote_is_named_as_a_possible_cause() {
        let (_dir, records, _) = records_of("serial a", SIZE);
        records.note_writing("serial a", "fio test").unwrap();
        let text = state(&drive(), &records, [1024, 0, 0])
            .contradiction()
            .unwrap();
        assert!(
            text.ends_with("or emptied by a test (the last test that wrote: fio test)"),
            "{text}"
        );
    }

    #[test]
    fn a_device_without_a_serial_number_is_recognised_by_its_stamps_alone() {
        let file = DeviceFacts {
            serial: None,
            file_identity: Some("8:1:77".into()),
            ..drive()
        };
        let (_dir, records, _) = records_of("file 8:1:77", SIZE);
        for (samples, is_own) in [
            ([0, 0, 0], false),
            ([1024, 0, 0], false),
            ([1023, 0, 1], true),
            ([0, 0, 9], true),
        ] {
            let state = state(&file, &records, samples);
            assert_eq!(state.prepared().is_some(), is_own, "{samples:?}");
            let found = matches!(state, PreparationState::Unrecognised(_));
            assert_eq!(found, !is_own, "{samples:?}");
        }
    }

    /// State of the device of `facts` if the recorded preparation is `prepared` and each read of samples fails.
    fn state_unread(
        facts: &DeviceFacts,
        records: &Records,
        prepared: &PreparationRecord,
    ) -> PreparationState {
        records.keep_prepared("serial a", prepared).unwrap();
        PreparationState::with(facts, records, |_, _, _| Err("no permission".into()))
    }

    #[test]
    fn samples_are_read_only_if_the_record_says_that_the_random_fill_is_complete() {
        let (_dir, records, _) = records_of("serial a", SIZE);
        let whole = records.prepared("serial a", SIZE).unwrap();
        let zeros = modified(whole.clone(), |it| it.fills = 0);
        let found = state_unread(&drive(), &records, &zeros);
        assert_eq!(found, PreparationState::ZerosOnly(zeros));
        let begun = PreparationRecord {
            passes_done: 1,
            ended_unix_s: None,
            ..whole.clone()
        };
        let found = state_unread(&drive(), &records, &begun);
        assert_eq!(found, PreparationState::Incomplete(begun));
        let grown = modified(drive(), |it| it.size_bytes = 2 * SIZE);
        let found = state_unread(&grown, &records, &whole);
        assert_eq!(found, PreparationState::Unrecorded);
        let nameless = modified(drive(), |it| it.serial = None);
        let found = state_unread(&nameless, &records, &whole);
        assert_eq!(found, PreparationState::Nameless);
        let unread = state_unread(&drive(), &records, &whole);
        assert_eq!(
            unread,
            PreparationState::Unexamined(whole, "no permission".into())
        );
        assert!(
            !unread.is_prepared(),
            "a device that cannot be read does not count as prepared"
        );
    }

    /// Samples of a file with `content`, as if its first `used_bytes` were prepared with the key 42.
    fn samples_of(content: &[u8], used_bytes: u64) -> PreparedSamples {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), content).unwrap();
        PreparedSamples::read(file.path().to_str().unwrap(), used_bytes, 42).unwrap()
    }

    #[test]
    fn samples_count_the_empty_and_the_stamped_places_of_the_prepared_part() {
        let half = 4 << 20;
        let mut content = vec![0; 2 * half];
        PlacedSalt::new(1, 1, 42).fill(&mut content, 0);
        let samples = samples_of(&content, content.len() as u64);
        assert_eq!(
            samples,
            PreparedSamples {
                places: PLACES,
                stamped: PLACES,
                ..PreparedSamples::default()
            }
        );
        // The first half of the file has as many places as there are samples, so every place is read once.
        content[..4096 * 10].fill(0);
        content[4096 * 10..4096 * 14].fill(0xff);
        content[4096 * 14..4096 * 20].fill(7);
        let expected = PreparedSamples {
            places: PLACES,
            empty: 14,
            unreadable: 0,
            stamped: 1004,
        };
        assert_eq!(samples_of(&content, half as u64), expected);
        content[4096 * 3 + 4095] = 1;
        assert_eq!(
            samples_of(&content, half as u64).empty,
            13,
            "one byte is data"
        );
        content[half..].fill(0);
        assert_eq!(
            samples_of(&content, half as u64).empty,
            13,
            "the unused part promises nothing"
        );
        assert_contains!(
            PreparedSamples::read("/no/such", 4096, 42).unwrap_err(),
            "does not exist"
        );
    }

    #[test]
    fn a_file_with_holes_is_empty_and_a_short_file_is_read() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(SIZE).unwrap();
        let samples = PreparedSamples::read(file.path().to_str().unwrap(), SIZE, 42).unwrap();
        assert_eq!(
            samples,
            PreparedSamples {
                places: PLACES,
                empty: PLACES,
                ..PreparedSamples::default()
            }
        );
        let mut short = vec![0; 700];
        PlacedSalt::new(1, 1, 42).fill(&mut short, 0);
        assert_eq!(
            samples_of(&short, 700),
            PreparedSamples {
                places: 1,
                stamped: 1,
                ..PreparedSamples::default()
            }
        );
    }
}
