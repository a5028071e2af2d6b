//! Searches a device for data that this program did not write.
//!
//! Samples are read: both ends, the places of backup superblocks, and random places. A sector of zeros is empty.
//! Sectors with the stamp of the device's record were written by flashproof. Any other sector is foreign data. The
//! magic numbers of partition tables, file systems and so on give known formats a name ([`known_formats`]).

use super::contents::{Contents, END_BYTES, backups};
use super::evidence::Evidence;
use super::formats::known_formats;
use super::preparation::Records;
use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};
use sys::buffer::{Buf, Pool};
use sys::salt::{SECTOR_BYTES, STAMP_BYTES, is_stamped, stamp};

/// Bytes read at each random place, and the alignment of every read: no device has a larger minimum size of direct I/O.
pub(super) const SPOT_BYTES: u64 = 4096;

#[derive(Debug, Clone, Copy)]
pub(super) struct Sampling {
    pub(super) spots: u32,
    pub(super) seed: u64,
    pub(super) limit: Duration,
}

#[derive(Default)]
struct Tally {
    tried: u32,
    /// First foreign byte of each sample that has one.
    foreign_at: Vec<u64>,
    /// Offset of each unreadable sample.
    failed: Vec<(u64, io::Error)>,
}

impl Tally {
    /// Counts a sample. Returns its bytes if some are foreign, otherwise none: only foreign data can have a foreign
    /// format.
    fn take<'a>(
        &mut self,
        at: u64,
        result: io::Result<&'a [u8]>,
        (key, is_file): (Option<u64>, bool),
    ) -> &'a [u8] {
        self.tried += 1;
        match result {
            Ok(bytes) => match foreign_sector(bytes, key, is_file) {
                Some(first) => {
                    self.foreign_at.push(at + first as u64);
                    bytes
                }
                None => &[],
            },
            Err(error) => {
                self.failed.push((at, error));
                &[]
            }
        }
    }

    fn evidence(self, why: String) -> impl Iterator<Item = Evidence> {
        let samples_tried = self.tried;
        let foreign = self.foreign_at.len() as u32;
        let failed = self.failed.len() as u32;
        let first_foreign = self.foreign_at.into_iter().min();
        let data = first_foreign.map(|first_at| Evidence::Data {
            samples: foreign,
            samples_tried,
            first_at,
            why,
        });
        let unreadable = self.failed.into_iter().next().map(|(first_at, error)| {
            let error = error.to_string();
            Evidence::Unreadable {
                samples: failed,
                samples_tried,
                first_at,
                error,
            }
        });
        data.into_iter().chain(unreadable)
    }
}

/// Offset of the first sector that is neither zero nor stamped. In a file, stamped blocks may begin at any byte.
fn foreign_sector(bytes: &[u8], key: Option<u64>, is_file: bool) -> Option<usize> {
    let first = bytes
        .chunks(SECTOR_BYTES)
        .position(|sector| {
            sector.iter().any(|byte| *byte != 0) && !key.is_some_and(|key| is_stamped(sector, key))
        })
        .map(|index| index * SECTOR_BYTES)?;
    match key.filter(|_| is_file) {
        Some(key) => foreign_between_stamps(bytes, key).map(|at| at / SECTOR_BYTES * SECTOR_BYTES),
        None => Some(first),
    }
}

/// Offset of the first byte that is neither zero nor in a stamped sector. Stamped sectors may begin at any byte: a
/// write of an odd size has its stamps relative to its own start, and zeros after its last whole sector. `bytes` may
/// begin and end within a sector.
fn foreign_between_stamps(bytes: &[u8], key: u64) -> Option<usize> {
    let mut last_stamp_end = 0;
    for next_end in STAMP_BYTES..=bytes.len() {
        if !is_stamped(&bytes[next_end - STAMP_BYTES..next_end], key) {
            continue;
        }
        // Before the first stamp: a stamp that began before `bytes` is incomplete, and cannot be recognised.
        let gap_start = if last_stamp_end == 0 {
            STAMP_BYTES
        } else {
            last_stamp_end
        };
        let gap_end = next_end.saturating_sub(SECTOR_BYTES);
        if let Some(at) = first_nonzero(bytes, gap_start..gap_end) {
            return Some(at);
        }
        last_stamp_end = next_end;
    }
    first_nonzero(bytes, last_stamp_end..bytes.len())
        .filter(|at| last_stamp_end == 0 || bytes.len() - at >= SECTOR_BYTES)
}

fn first_nonzero(bytes: &[u8], range: Range<usize>) -> Option<usize> {
    let start = range.start;
    let at = bytes.get(range)?.iter().position(|byte| *byte != 0)?;
    Some(start + at)
}

/// Samples the first `size_bytes` of `file`, which is open for direct I/O. Evidence is data without stamps of `key`;
/// `key` and `why` are those of [`explanation`]. Adds notes if not all samples could be read.
pub(super) fn gather(
    file: &File,
    size_bytes: u64,
    (key, why): (Option<u64>, String),
    sampling: Sampling,
    notes: &mut Vec<String>,
) -> io::Result<Vec<Evidence>> {
    let started = Instant::now();
    let ours = (key, file.metadata()?.is_file());
    let len = (END_BYTES + SPOT_BYTES) as usize;
    let mut buf = Pool::new(len)?.cut(len).ok_or(io::ErrorKind::OutOfMemory)?;
    let mut tally = Tally::default();

    let mut pieces = vec![(
        0,
        tally
            .take(0, read(file, 0, END_BYTES, &mut buf), ours)
            .to_vec(),
    )];
    let tail_at = (size_bytes.saturating_sub(END_BYTES) / SPOT_BYTES * SPOT_BYTES)
        .max(END_BYTES.min(size_bytes));
    if size_bytes > tail_at {
        let tail = read(file, tail_at, size_bytes - tail_at, &mut buf);
        pieces.push((tail_at, tally.take(tail_at, tail, ours).to_vec()));
    }
    let backups = backups(size_bytes)
        .into_iter()
        .map(|at| at / SPOT_BYTES * SPOT_BYTES);
    let backups: BTreeSet<u64> = backups
        .filter(|at| (END_BYTES..tail_at).contains(at))
        .collect();
    for at in backups {
        pieces.push((
            at,
            tally
                .take(at, read(file, at, SPOT_BYTES, &mut buf), ours)
                .to_vec(),
        ));
    }
    let middle_spots = tail_at.saturating_sub(END_BYTES) / SPOT_BYTES;
    for spot in 0..u64::from(sampling.spots).min(middle_spots) {
        if started.elapsed() > sampling.limit {
            notes.push(format!(
                "only {spot} of {} random places could be read in {:?}, so data in other places may go unnoticed",
                sampling.spots, sampling.limit
            ));
            break;
        }
        let at = END_BYTES + stamp(spot, sampling.seed) % middle_spots * SPOT_BYTES;
        tally.take(at, read(file, at, SPOT_BYTES, &mut buf), ours);
    }
    let mut evidence = known_formats(&Contents {
        pieces,
        size_bytes,
        key,
    });
    evidence.extend(tally.evidence(why));
    Ok(evidence)
}

/// The key that explains data on the device `identity`, and the reason, in words, why other data is unexplained. A
/// record with another size than `size_bytes` does not count.
pub(super) fn explanation(
    identity: Option<&str>,
    size_bytes: u64,
    records: &Records,
) -> (Option<u64>, String) {
    let Some(identity) = identity else {
        return (
            None,
            "flashproof recognises its own data only on a device with a lasting name".into(),
        );
    };
    match records.find(identity) {
        None => (
            None,
            format!("flashproof has no record of a write to the device ({identity})"),
        ),
        Some(record) if record.size_bytes != size_bytes => {
            let recorded_bytes = record.size_bytes;
            (
                None,
                format!(
                    "flashproof's record is for {recorded_bytes} bytes, but the device has {size_bytes} ({identity})"
                ),
            )
        }
        Some(record) => (
            Some(record.key),
            format!("the data lacks the stamp of flashproof's writes to the device ({identity})"),
        ),
    }
}

/// Reads `len` bytes, rounded up to a multiple of [`SPOT_BYTES`], at offset `at`; fewer bytes at the end of the device.
/// `buf` must hold the rounded number.
pub(super) fn read<'a>(file: &File, at: u64, len: u64, buf: &'a mut Buf) -> io::Result<&'a [u8]> {
    let len = len.next_multiple_of(SPOT_BYTES) as usize;
    let mut read_bytes = 0;
    while read_bytes < len {
        match file.read_at(&mut buf[read_bytes..len], at + read_bytes as u64) {
            // The device ends here, or the next offset would be unaligned for direct I/O. Other short reads continue.
            Ok(n) => {
                read_bytes += n;
                if n == 0 || read_bytes % SECTOR_BYTES != 0 {
                    break;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // This read is past the end of a file whose length is not a multiple of the direct I/O unit.
            Err(error) if read_bytes > 0 && error.raw_os_error() == Some(libc::EINVAL) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(&buf[..read_bytes])
}

#[cfg(test)]
mod tests {
    use super::*;
    use results::{assert_contains, assert_starts_with};
    use std::io::Write;
    use sys::salt::Salt;

    const SAMPLING: Sampling = Sampling {
        spots: 64,
        seed: 1,
        limit: Duration::from_secs(60),
    };

    fn evidence_of(content: &[u8], identity: Option<&str>, records: &Records) -> Vec<String> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(content).unwrap();
        let size_bytes = content.len() as u64;
        let explanation = explanation(identity, size_bytes, records);
        let found = gather(&file, size_bytes, explanation, SAMPLING, &mut Vec::new()).unwrap();
        found.iter().map(ToString::to_string).collect()
    }

    fn no_records() -> Records {
        Records::open(Some("/nonexistent".into()))
    }

    #[test]
    fn zeros_are_not_taken_for_data_at_any_device_size() {
        for size in [
            0,
            1,
            511,
            4096,
            5000,
            1 << 20,
            (1 << 20) + 512,
            (2 << 20) + 1024,
            9 << 20,
        ] {
            assert!(
                evidence_of(&vec![0; size], None, &no_records()).is_empty(),
                "{size}"
            );
        }
    }

    #[test]
    fn a_single_byte_at_either_end_counts_as_data_and_its_sector_is_reported() {
        let size = (3 << 20) + 512;
        for at in [0, 1_000_000, size - 1, size - (1 << 20)] {
            let mut content = vec![0; size];
            content[at] = 1;
            let found = evidence_of(&content, Some("serial s"), &no_records());
            let first = format!("first at byte {}", at / 512 * 512);
            assert!(
                matches!(&found[..], [one] if one.contains(&first) && one.contains("serial s")),
                "{at}: {found:?}"
            );
        }
    }

    #[test]
    fn random_samples_find_data_in_the_middle_of_the_device() {
        let middle = (4 << 20)..(28 << 20);
        let mut content = vec![0; 32 << 20];
        content[middle.clone()].fill(7);
        let found = evidence_of(&content, None, &no_records());
        let blocks = backups(32 << 20).into_iter().map(|at| at / 4096 * 4096);
        let backups: BTreeSet<_> = blocks
            .filter(|at| middle.contains(&(*at as usize)))
            .collect();
        let spots = 64 + backups.len();
        let says = format!(
            "data of no known format in {spots} of {} samples",
            spots + 2
        );
        assert!(
            matches!(&found[..], [one] if one.starts_with(&says)),
            "{says}: {found:?}"
        );
    }

    /// Content of a file after writes of `block_bytes`: stamped sectors from the start of each write, then zeros.
    fn written_by(block_bytes: usize, size: usize, key: u64) -> Vec<u8> {
        let mut content = vec![0; size.next_multiple_of(block_bytes)];
        for (number, block) in content.chunks_mut(block_bytes).enumerate() {
            Salt::new(number as u64, 100, key).fill(block);
        }
        content.truncate(size);
        content
    }

    #[test]
    fn flashproofs_own_data_in_a_file_is_recognised_for_any_size_of_the_writes() {
        for block_bytes in [100, 512, 700, 2300, 4097, 9999] {
            for (from, to) in [
                (0, 1 << 16),
                (4096, 8192),
                (8192, 12_288),
                (2040, 6136),
                (2300, 6396),
                (1, 4097),
            ] {
                let mut bytes = written_by(block_bytes, 1 << 16, 7)[from..to].to_vec();
                assert_eq!(
                    foreign_sector(&bytes, Some(7), true),
                    None,
                    "{block_bytes} from {from}"
                );
                let is_zero = bytes.iter().all(|byte| *byte == 0);
                assert_eq!(
                    foreign_sector(&bytes, Some(8), true).is_none(),
                    is_zero,
                    "the key of another file"
                );
                bytes[1500..2200].fill(b'x');
                let found = foreign_sector(&bytes, Some(7), true);
                assert!(
                    found.is_some_and(|at| at <= 2048),
                    "{block_bytes} from {from}: {found:?}"
                );
            }
        }
        let bytes = written_by(2300, 1 << 16, 7);
        assert_eq!(
            foreign_sector(&bytes, Some(7), false),
            Some(2048),
            "a device has whole sectors only"
        );
        let mut end = written_by(2300, 4096, 7);
        end.extend(vec![b'x'; 600]);
        assert!(
            foreign_sector(&end, Some(7), true).is_some_and(|at| at >= 3584),
            "what somebody appended"
        );
    }

    #[test]
    fn flashproofs_own_data_is_recognised_only_by_a_record_of_the_same_device_and_size() {
        let dir = tempfile::tempdir().unwrap();
        let records = Records::open(Some(dir.path().into()));
        let mut content = vec![0; 4 << 20];
        let key = records
            .keep("serial s", content.len() as u64, "random fill")
            .unwrap();
        Salt::new(5, 100, key).fill(&mut content[..3 << 20]);
        assert!(evidence_of(&content, Some("serial s"), &records).is_empty());

        let other_device = evidence_of(&content, Some("serial t"), &records);
        assert_contains!(
            other_device[0],
            "flashproof has no record of a write to the device (serial t)"
        );
        let no_name = evidence_of(&content, None, &records);
        assert_contains!(no_name[0], "only on a device with a lasting name");
        let other_size = evidence_of(&content[..3 << 20], Some("serial s"), &records);
        assert!(
            other_size[0].contains("is for 4194304 bytes, but the device has 3145728"),
            "{other_size:?}"
        );

        content[600] ^= 1 << 3; // in the data, which the stamp does not cover
        assert!(evidence_of(&content, Some("serial s"), &records).is_empty());
        content[512..1024].fill(9); // a whole sector of somebody else
        let found = evidence_of(&content, Some("serial s"), &records);
        assert_contains!(found[0], "first at byte 512: the data lacks the stamp");
    }

    #[test]
    fn a_magic_number_in_stamped_data_does_not_count_as_foreign_data() {
        let mut device = vec![0; 2 << 20];
        Salt::new(5, 100, 77).fill(&mut device);
        device[0x438..0x43a].copy_from_slice(b"\x53\xef");
        assert!(known_formats(&Contents::at_bytes(&device, Some(77))).is_empty());
        let found = known_formats(&Contents::at_bytes(&device, Some(78))).len();
        assert_eq!(found, 1);
    }

    #[test]
    fn samples_that_cannot_be_read_count_as_data() {
        let dir = File::open("/tmp").unwrap();
        let found = gather(
            &dir,
            4 << 20,
            explanation(None, 0, &no_records()),
            SAMPLING,
            &mut Vec::new(),
        )
        .unwrap();
        let text = found.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert!(
            matches!(&text[..], [one] if one.starts_with("1 of 1 samples could not be read")),
            "{text:?}"
        );
    }

    #[test]
    fn the_time_limit_ends_the_samples_with_a_note() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(1 << 24).unwrap();
        let mut notes = Vec::new();
        let sampling = Sampling {
            limit: Duration::ZERO,
            ..SAMPLING
        };
        gather(
            &file,
            1 << 24,
            explanation(None, 0, &no_records()),
            sampling,
            &mut notes,
        )
        .unwrap();
        assert_starts_with!(notes[0], "only 0 of 64 random places");
    }
}
