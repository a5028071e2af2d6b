//! The first 8 MiB of a device: a header of 4 KiB with the device's namespace and the settings for reading the blocks,
//! then the marks (see `seal`) of each core, and in the last 4 KiB a second copy of the header.
//!
//! ```text
//! magic "flashproof store" 16 | version u32 | checksum u32 | set u64 | write-block size u32 | devices u16 |
//! index of this device u16 | cores u16 | length of name u16 | name of the namespace
//! at byte 4079: single-bin u8 | number of the start u64 | the device's size, bytes, u64              little-endian
//! ```
//!
//! The header is written when the device is formatted, after the start and the end of the device were cleared, and at
//! each start of the server, with the number of the start ([`Starts`]). One valid copy suffices to read the device.
//! Devices of a namespace that are formatted together have the same random number, the set: a device of another set
//! does not belong to the namespace.

use crate::record::{u16_at, u32_at, u64_at};
use crate::seal::VolumeMark;
use crate::write_block::{HeaderState, WriteBlockHeader};
use crate::{MARKS_BYTES, NamespaceSettings, Starts, StoreSpace};
use crc32fast::Hasher;
use std::io;
use std::ops::Range;
use sys::op::TargetId;
use sys::random::Random;

/// Bytes before the first block.
pub const DEVICE_HEADER_BYTES: u64 = 8 << 20;

/// Bytes of a copy of the header.
pub const WRITTEN_BYTES: usize = 4096;

/// Offsets of the two copies of the header. The marks are between them.
pub const HEADER_OFFSETS: [u64; 2] = [0, DEVICE_HEADER_BYTES - WRITTEN_BYTES as u64];

/// Minimum number of blocks of a space: some are reserved for defragmentation, the others are for records.
const BLOCKS_MIN: u64 = 8;

/// Maximum number of cores: the space between the copies of the header has room for the marks of this many cores.
const CORES_MAX: u16 = ((HEADER_OFFSETS[1] - WRITTEN_BYTES as u64) / MARKS_BYTES) as u16;

/// Bytes at the start of a write block that contain the block's header.
pub const BORDER_BYTES: usize = 512;

const MAGIC: &[u8; 16] = b"flashproof store";
const FORMAT: u32 = 4;
const NAME_AT: usize = 44;
const DEVICE_BYTES_AT: usize = WRITTEN_BYTES - 8;
const STARTS_AT: usize = DEVICE_BYTES_AT - 8;
const SINGLE_BIN_AT: usize = STARTS_AT - 1;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceHeader {
    pub namespace: String,
    pub write_block_bytes: u32,
    pub single_bin: bool,
    pub devices: u16,
    /// Index of this device in the namespace, from 0.
    pub index: u16,
    pub cores: u16,
    /// The set: a random number, the same on all devices that were formatted together.
    pub device_set: u64,
    /// Size of the device when it was formatted, bytes. Determines where each core's space begins.
    pub device_bytes: u64,
    /// Number of the start that wrote each copy; 0: formatting.
    pub starts: Starts,
}

/// How a device can be opened, according to its header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HeaderCheck {
    /// No header of flashproof. Formatting the device destroys its data.
    Format,
    /// A valid header with the expected settings: the records can be read.
    Open(DeviceHeader),
    /// A valid header with other settings: each difference, with both values.
    Differs(Vec<String>),
    /// A device of flashproof without a valid header.
    Damaged,
}

impl DeviceHeader {
    /// The header of device number `index` among the `devices` of `namespace`, on `cores` cores. `device_set` is random
    /// and the same for all devices. Before formatting or planning, add the device's size with [`Self::sized`].
    pub fn new(
        namespace: &NamespaceSettings,
        devices: u16,
        index: u16,
        cores: u16,
        device_set: u64,
    ) -> Self {
        let NamespaceSettings {
            ref name,
            write_block_bytes,
            single_bin,
            ..
        } = *namespace;
        Self {
            namespace: name.clone(),
            write_block_bytes,
            single_bin,
            devices,
            index,
            cores,
            device_set,
            device_bytes: 0,
            starts: Starts::both(0),
        }
    }

    pub fn sized(self, device_bytes: u64) -> Self {
        Self {
            device_bytes,
            ..self
        }
    }

    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(WRITTEN_BYTES);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&FORMAT.to_le_bytes());
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&self.device_set.to_le_bytes());
        bytes.extend_from_slice(&self.write_block_bytes.to_le_bytes());
        for number in [
            self.devices,
            self.index,
            self.cores,
            self.namespace.len() as u16,
        ] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(self.namespace.as_bytes());
        bytes.resize(SINGLE_BIN_AT, 0);
        bytes.push(self.single_bin.into());
        bytes.extend_from_slice(&self.starts.first.unwrap_or_default().to_le_bytes());
        bytes.extend_from_slice(&self.device_bytes.to_le_bytes());
        let sum = checksum(&bytes);
        bytes[20..24].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Compares this expected header with the copies on a device, except for set and start. A copy that cannot be read
    /// is empty. `first_block`: the first [`BORDER_BYTES`] of the device's first write block. A write block there
    /// means that the device has a store whose header is lost.
    pub fn plan(&self, copies: &[Vec<u8>; 2], first_block: &[u8]) -> HeaderCheck {
        use HeaderCheck::{Damaged, Differs, Format, Open};
        match copies.each_ref().map(|copy| self.plan_copy(copy)) {
            [differs @ Differs(_), _] | [_, differs @ Differs(_)] => differs,
            [Open(first), Open(second)] if first.device_set != second.device_set => {
                Differs(vec![format!(
                    "the two copies of the header name different sets of devices: {:016x} and {:016x}",
                    first.device_set, second.device_set
                )])
            }
            [Open(mut header), Open(second)] => {
                header.starts.second = second.starts.first;
                Open(header)
            }
            [Open(header), _] => Open(header),
            [_, Open(header)] => Open(Self {
                starts: Starts {
                    first: None,
                    second: header.starts.first,
                },
                ..header
            }),
            [Damaged, _] | [_, Damaged] => Damaged,
            _ if is_write_block(first_block) => Damaged,
            _ => Format,
        }
    }

    /// Compares this expected header with one copy. `starts.first` of the result is the number in this copy.
    fn plan_copy(&self, bytes: &[u8]) -> HeaderCheck {
        let Some(bytes) = bytes.get(..WRITTEN_BYTES) else {
            return HeaderCheck::Format;
        };
        if !bytes.starts_with(MAGIC) {
            // A store with a damaged magic number must not look like a device that may be erased.
            let restored = [MAGIC, &bytes[MAGIC.len()..]].concat();
            return if checksum(&restored) == u32_at(bytes, 20) {
                HeaderCheck::Damaged
            } else {
                HeaderCheck::Format
            };
        }
        let name = bytes
            .get(NAME_AT..NAME_AT + usize::from(u16_at(bytes, 42)))
            .and_then(|name| str::from_utf8(name).ok());
        let Some(name) = name.filter(|_| u32_at(bytes, 20) == checksum(bytes)) else {
            return HeaderCheck::Damaged;
        };
        let header = Self {
            namespace: name.to_owned(),
            write_block_bytes: u32_at(bytes, 32),
            single_bin: bytes[SINGLE_BIN_AT] == 1,
            devices: u16_at(bytes, 36),
            index: u16_at(bytes, 38),
            cores: u16_at(bytes, 40),
            device_set: u64_at(bytes, 24),
            device_bytes: u64_at(bytes, DEVICE_BYTES_AT),
            starts: Starts {
                first: Some(u64_at(bytes, STARTS_AT)),
                second: None,
            },
        };
        let rows = [
            ("format", u32_at(bytes, 16).to_string(), FORMAT.to_string()),
            (
                "namespace",
                header.namespace.clone(),
                self.namespace.clone(),
            ),
            (
                "write-block-size",
                header.write_block_bytes.to_string(),
                self.write_block_bytes.to_string(),
            ),
            (
                "single-bin",
                header.single_bin.to_string(),
                self.single_bin.to_string(),
            ),
            (
                "number of devices",
                header.devices.to_string(),
                self.devices.to_string(),
            ),
            (
                "index of the device",
                header.index.to_string(),
                self.index.to_string(),
            ),
            (
                "number of cores",
                header.cores.to_string(),
                self.cores.to_string(),
            ),
            (
                "device size in bytes",
                header.device_bytes.to_string(),
                self.device_bytes.to_string(),
            ),
        ];
        let differences: Vec<_> = rows
            .into_iter()
            .filter(|(_, found, expected)| found != expected)
            .map(|(name, found, expected)| {
                format!("{name} is {found:?} on the device and {expected:?} in the settings")
            })
            .collect();
        if differences.is_empty() {
            HeaderCheck::Open(header)
        } else {
            HeaderCheck::Differs(differences)
        }
    }

    /// Offset of a write block that holds foreign data instead of the store's: opening the store would destroy that
    /// data.
    ///
    /// Checks the first block of each core, which formatting clears, and samples of the blocks that have a header
    /// according to the marks. Data behind those blocks may be older than the store. Zeros and unreadable blocks are
    /// damage of the store, not foreign data. `read` reads a number of bytes at an offset.
    pub fn foreign_block(
        &self,
        seed: u64,
        read: impl Fn(u64, usize) -> io::Result<Vec<u8>>,
    ) -> Option<u64> {
        const SAMPLES: u64 = 256;
        let mut random = Random::new(seed);
        (0..self.cores).find_map(|core| {
            let space = self
                .space(self.device_bytes, 0, core, BORDER_BYTES as u32)
                .ok()?;
            let marks = read(space.marks_offset, MARKS_BYTES as usize).unwrap_or_default();
            let certain = VolumeMark::read_both(&marks, space.id)
                .0
                .iter()
                .map(|mark| mark.bounds.certain)
                .max()
                .unwrap_or(0);
            let samples =
                (0..SAMPLES.min(certain.into())).map(|_| random.below(certain.into()) as u32);
            std::iter::once(0).chain(samples).find_map(|block: u32| {
                let block_bytes = u64::from(self.write_block_bytes);
                let offset = space.range.start + u64::from(block) * block_bytes;
                let border = read(offset, BORDER_BYTES).unwrap_or_default();
                let is_foreign = border.iter().any(|byte| *byte != 0)
                    && WriteBlockHeader::read(&border, space.id, block) == HeaderState::None;
                is_foreign.then_some(offset)
            })
        })
    }

    /// Number that distinguishes the device's records from the records of all other devices.
    fn id(&self) -> u64 {
        Random::new(self.device_set.wrapping_add(self.index.into())).next_u64()
    }

    /// The space of core `core` on a device of `device_bytes`. `target`: the device's number in the engine. The write
    /// unit is `min_io_bytes`; the caller may set a larger unit. Errors: the device is too small, or too many cores
    /// share it; the message does not name the device.
    pub fn space(
        &self,
        device_bytes: u64,
        target: TargetId,
        core: u16,
        min_io_bytes: u32,
    ) -> Result<StoreSpace, String> {
        let block = u64::from(self.write_block_bytes);
        let cores = self.cores;
        let blocks = device_bytes.saturating_sub(DEVICE_HEADER_BYTES) / block / u64::from(cores);
        if blocks < BLOCKS_MIN {
            let needed_bytes = DEVICE_HEADER_BYTES + BLOCKS_MIN * block * u64::from(cores);
            return Err(format!(
                "the device has {device_bytes} bytes, but a store needs {needed_bytes} for a header and for {BLOCKS_MIN} write blocks \
                 for each of {cores} cores - use a larger device, smaller write blocks or fewer cores"
            ));
        }
        if cores > CORES_MAX {
            return Err(format!(
                "{cores} cores share the device, but its header has room for {CORES_MAX} cores at most - use fewer cores"
            ));
        }
        let begin = DEVICE_HEADER_BYTES + blocks * block * u64::from(core);
        let range: Range<u64> = begin..begin + blocks * block;
        let marks_offset = WRITTEN_BYTES as u64 + MARKS_BYTES * u64::from(core);
        Ok(StoreSpace {
            target,
            range,
            marks_offset,
            min_io_bytes,
            write_unit_bytes: min_io_bytes,
            id: self.id(),
        })
    }
}

fn is_write_block(bytes: &[u8]) -> bool {
    bytes.len() >= BORDER_BYTES
        && matches!(
            WriteBlockHeader::read(bytes, u64_at(bytes, 8), 0),
            HeaderState::Whole(_)
        )
}

/// Checksum of all bytes except its own.
fn checksum(bytes: &[u8]) -> u32 {
    let mut hasher = Hasher::new();
    hasher.update(&bytes[..20]);
    hasher.update(&bytes[24..]);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seal::DurableBounds;
    use results::assert_contains;
    use results::testing::modified;

    fn header() -> DeviceHeader {
        DeviceHeader::new(&NamespaceSettings::new("test"), 2, 1, 4, 77).sized(1 << 40)
    }

    fn plan(first: &[u8], second: &[u8]) -> HeaderCheck {
        header().plan(&[first.to_vec(), second.to_vec()], &[])
    }

    fn open(first: Option<u64>, second: Option<u64>) -> HeaderCheck {
        HeaderCheck::Open(DeviceHeader {
            starts: Starts { first, second },
            ..header()
        })
    }

    #[test]
    fn a_header_is_read_as_it_was_written_and_every_flipped_bit_is_found() {
        let [bytes, newer] = [6, 7]
            .map(|number| modified(header(), |it| it.starts = Starts::both(number)).to_bytes());
        let other = modified(header(), |it| it.device_set = 0);
        let found = other.plan(&[newer.clone(), bytes.clone()], &[]);
        assert_eq!(found, open(Some(7), Some(6)));
        for bit in 0..WRITTEN_BYTES * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(plan(&damaged, &damaged), HeaderCheck::Damaged, "bit {bit}");
            assert_eq!(plan(&damaged, &bytes), open(None, Some(6)), "bit {bit}");
            assert_eq!(plan(&bytes, &damaged), open(Some(6), None), "bit {bit}");
        }
        for lost in [&[0; WRITTEN_BYTES][..], &bytes[..100], &[]] {
            assert_eq!(plan(lost, lost), HeaderCheck::Format);
            assert_eq!(plan(lost, &bytes), open(None, Some(6)));
            assert_eq!(plan(&bytes, lost), open(Some(6), None));
            let mut block = [0; BORDER_BYTES];
            modified(WriteBlockHeader::default(), |it| it.id = 5).write(&mut block[..48]);
            let found = header().plan(&[lost.to_vec(), lost.to_vec()], &block);
            assert_eq!(found, HeaderCheck::Damaged);
            block[9] ^= 1;
            let found = header().plan(&[lost.to_vec(), lost.to_vec()], &block);
            assert_eq!(found, HeaderCheck::Format);
        }
    }

    #[test]
    fn a_header_with_other_settings_is_reported_with_both_values_of_each() {
        let expected = DeviceHeader {
            namespace: "other".to_owned(),
            single_bin: true,
            cores: 2,
            ..header()
        }
        .sized(5);
        let differences = [
            "namespace is \"test\" on the device and \"other\" in the settings",
            "single-bin is \"false\" on the device and \"true\" in the settings",
            "number of cores is \"4\" on the device and \"2\" in the settings",
            "device size in bytes is \"1099511627776\" on the device and \"5\" in the settings",
        ];
        let differs = HeaderCheck::Differs(differences.map(str::to_owned).to_vec());
        for copies in [
            [header().to_bytes(), Vec::new()],
            [expected.to_bytes(), header().to_bytes()],
        ] {
            assert_eq!(expected.plan(&copies, &[]), differs, "one copy suffices");
        }
        let of_other_set = modified(header(), |it| it.device_set = 78);
        let HeaderCheck::Differs(why) = plan(&header().to_bytes(), &of_other_set.to_bytes()) else {
            panic!()
        };
        assert!(
            why[0].contains("4d and ") && why[0].ends_with("4e"),
            "{why:?}"
        );
    }

    #[test]
    fn the_spaces_of_all_cores_fill_a_device_without_gap_or_overlap() {
        let least = DEVICE_HEADER_BYTES + 4 * 8 * (128 << 10);
        let space = |core| header().space(least + 1000, 3, core, 512).unwrap();
        assert_eq!(space(0).range.start, DEVICE_HEADER_BYTES);
        (0..3).for_each(|core| assert_eq!(space(core).range.end, space(core + 1).range.start));
        assert_eq!(space(3).range.end, least);
        let other = modified(header(), |it| it.index = 0)
            .space(least, 3, 0, 512)
            .unwrap();
        assert_ne!(
            space(0).id,
            other.id,
            "devices of a set have ids of their own"
        );
        assert_contains!(
            header().space(least - 1, 3, 0, 512).unwrap_err(),
            "needs 12582912"
        );
    }

    #[test]
    fn foreign_data_is_found_only_where_a_block_begins() {
        let block_bytes = u64::from(header().write_block_bytes);
        let header = header().sized(DEVICE_HEADER_BYTES + 4 * 8 * block_bytes);
        let mut device = vec![0; header.device_bytes as usize];
        let foreign = |device: &[u8]| {
            let read = |at: u64, bytes: usize| Ok(device[at as usize..][..bytes].to_vec());
            header.foreign_block(1, read)
        };
        let space = header.space(header.device_bytes, 0, 2, 512).unwrap();
        let at = |block: u64| (space.range.start + block * block_bytes) as usize;
        device[at(4)..at(5)].fill(7);
        assert_eq!(foreign(&device), None, "data older than the store");
        device[at(0)] = 7;
        assert_eq!(foreign(&device), Some(space.range.start));

        let mark = VolumeMark {
            bounds: DurableBounds {
                certain: 3,
                ..DurableBounds::default()
            },
            ..VolumeMark::default()
        };
        mark.write(&mut device[space.marks_offset as usize..][..4096], space.id);
        for block in 0..3 {
            let of_store = WriteBlockHeader {
                id: space.id,
                block,
                ..WriteBlockHeader::default()
            };
            of_store.write(&mut device[at(block.into())..][..48]);
        }
        assert_eq!(foreign(&device), None);
        device[at(1)..at(1) + 48].fill(0);
        assert_eq!(foreign(&device), None, "a lost header is damage");
        device[at(1)] = 7;
        assert_eq!(foreign(&device), Some(at(1) as u64));
    }
}
