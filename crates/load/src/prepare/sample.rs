//! Reads back places of a device and compares them with the expected data.
//!
//! The device is cut into as many stretches as there are places to read, and a place is drawn in each stretch. So no
//! place is read twice, and damage longer than two stretches is always found. A small device is read completely.

use super::order::Order;
use super::{Content, ReadBack};
use crate::stream::{IoRequest, Stream};
use results::format::hex;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use sys::op::OpKind;
use sys::random::Random;

/// Bytes read at a place, and the alignment of places. No device has a larger minimum of direct I/O. Salt whose content
/// depends on the offset is filled in whole units of this size.
pub const SPOT_BYTES: usize = sys::salt::UNIT_BYTES;

/// Bytes that a mismatch shows of the expected data, and of the found data.
const SHOWN_BYTES: usize = 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mismatch {
    /// Offset of the first byte that differs.
    pub offset: u64,
    pub expected: [u8; SHOWN_BYTES],
    pub found: [u8; SHOWN_BYTES],
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "at byte {} expected {}, found {}",
            self.offset,
            hex(&self.expected),
            hex(&self.found)
        )
    }
}

#[derive(Debug, Clone, Copy, Default)]
pub struct Compared {
    pub spots: u64,
    pub bytes: u64,
    pub mismatches: u64,
    /// The mismatch with the lowest offset.
    pub first_mismatch: Option<Mismatch>,
}

impl Compared {
    pub fn compare(&mut self, offset: u64, expected: &[u8], found: &[u8]) {
        self.spots += 1;
        self.bytes += found.len() as u64;
        let differs = expected
            .iter()
            .zip(found)
            .position(|(expected, found)| expected != found);
        if let Some(diff_index) = differs {
            self.mismatches += 1;
            let mismatch = Mismatch {
                offset: offset + diff_index as u64,
                expected: excerpt(&expected[diff_index..]),
                found: excerpt(&found[diff_index..]),
            };
            // Reads complete in any order; the lowest offset is reported.
            if self
                .first_mismatch
                .is_none_or(|first| mismatch.offset < first.offset)
            {
                self.first_mismatch = Some(mismatch);
            }
        }
    }
}

/// The first bytes of `data`, filled up with zeros.
fn excerpt(data: &[u8]) -> [u8; SHOWN_BYTES] {
    std::array::from_fn(|index| data.get(index).copied().unwrap_or(0))
}

#[derive(Debug)]
pub(super) struct Sample {
    end: u64,
    /// An order, and the number of blocks whose lasting writes are done: only these blocks are read.
    order: Option<(Arc<Order>, u64)>,
    /// Places on the device, places to read, places requested so far.
    places: u64,
    spots: u64,
    spots_requested: u64,
    random: Random,
    content: Content,
    expected: Box<[u8; SPOT_BYTES]>,
    compared: Arc<Mutex<Compared>>,
}

impl Sample {
    pub(super) fn new(read_back: &ReadBack) -> Self {
        let ReadBack {
            end,
            order,
            seed,
            content,
            compared,
            ..
        } = read_back;
        let mut places = end.div_ceil(SPOT_BYTES as u64);
        let order = order.as_ref().map(|(order, writes)| {
            let blocks = order.lasting(*writes);
            places = blocks * u64::from(order.block_bytes()) / SPOT_BYTES as u64;
            (order.clone(), blocks)
        });
        Self {
            end: *end,
            order,
            places,
            spots: read_back.spots().min(places),
            spots_requested: 0,
            random: Random::new(*seed),
            content: *content,
            expected: Box::new([0; SPOT_BYTES]),
            compared: compared.clone(),
        }
    }

    fn offset(&self, place: u64) -> u64 {
        let spot = SPOT_BYTES as u64;
        let Some((order, blocks)) = &self.order else {
            return place * spot;
        };
        let in_block = u64::from(order.block_bytes()) / spot;
        let block = order.lasting_offset(place / in_block, *blocks);
        // The last block of the device may be shorter.
        Some(block + place % in_block * spot)
            .filter(|offset| *offset < self.end)
            .unwrap_or(block)
    }

    fn stretch(&self, index: u64) -> u64 {
        (u128::from(index) * u128::from(self.places) / u128::from(self.spots)) as u64
    }
}

impl Stream for Sample {
    fn next(&mut self) -> Option<IoRequest> {
        if self.spots_requested == self.spots {
            return None;
        }
        let first_place = self.stretch(self.spots_requested);
        let end = self.stretch(self.spots_requested + 1);
        self.spots_requested += 1;
        let place = if first_place == 0 {
            // Damage is likeliest at both ends of a device.
            0
        } else if end == self.places {
            self.places - 1
        } else {
            first_place + self.random.below(end - first_place)
        };
        let offset = self.offset(place);
        let len = (self.end - offset).min(SPOT_BYTES as u64) as u32;
        Some(IoRequest {
            offset,
            len,
            ..IoRequest::new(OpKind::Read, 0, 0, 0)
        })
    }

    fn on_data(&mut self, request: &IoRequest, data: &[u8]) -> Result<(), String> {
        // A simulated drive stores no data.
        if !data.is_empty() {
            let expected = &mut self.expected[..data.len().min(SPOT_BYTES)];
            self.content.put(expected, request.offset);
            let mut compared = self.compared.lock().unwrap_or_else(PoisonError::into_inner);
            compared.compare(request.offset, expected, data);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sys::salt::PlacedSalt;

    const SPOT: u64 = SPOT_BYTES as u64;

    fn sample(end: u64, spots: u64, seed: u64) -> Sample {
        let content = Content::Salt(PlacedSalt::new(1, 1, 42));
        let device = "sim:".parse().unwrap();
        let compared = Arc::default();
        Sample::new(&ReadBack {
            device,
            end,
            order: None,
            spots,
            seed,
            content,
            compared,
        })
    }

    fn requests(mut sample: Sample) -> Vec<(u64, u32)> {
        std::iter::from_fn(|| sample.next())
            .map(|request| (request.offset, request.len))
            .collect()
    }

    #[test]
    fn a_sample_as_large_as_the_device_reads_all_of_it() {
        for spots in [4, 5, u64::MAX] {
            let all = requests(sample(3 * SPOT + 512, spots, 9));
            assert_eq!(
                all,
                [(0, 4096), (SPOT, 4096), (2 * SPOT, 4096), (3 * SPOT, 512)],
                "{spots}"
            );
        }
    }

    #[test]
    fn sample_places_are_spread_from_start_to_end_of_the_device_and_depend_on_the_seed() {
        let end = 100_000 * SPOT + 1024;
        let places = requests(sample(end, 1_000, 9));
        assert_eq!(places.len(), 1_000);
        assert_eq!(places[0], (0, 4096));
        assert_eq!(places[999], (100_000 * SPOT, 1024));
        assert!(
            places
                .windows(2)
                .all(|pair| pair[0].0 < pair[1].0 && pair[1].0 - pair[0].0 < 201 * SPOT)
        );
        assert_ne!(places, requests(sample(end, 1_000, 10)));
    }

    #[test]
    fn a_mismatch_shows_the_first_differing_byte_and_the_expected_data() {
        let mut sample = sample(8 * SPOT, 8, 1);
        while let Some(request) = sample.next() {
            let mut data = vec![0; request.len as usize];
            sample.content.put(&mut data, request.offset);
            if request.offset == 5 * SPOT || request.offset == 2 * SPOT {
                data[1000] ^= 0xff;
            }
            sample.on_data(&request, &data).unwrap();
        }
        let compared = sample.compared.lock().unwrap();
        assert_eq!(compared.spots, 8);
        assert_eq!(compared.bytes, 8 * SPOT);
        assert_eq!(compared.mismatches, 2);
        let first = compared.first_mismatch.unwrap();
        assert_eq!(first.offset, 2 * SPOT + 1000);
        assert_eq!(first.expected[0] ^ first.found[0], 0xff);
        assert_eq!(first.expected[1..], first.found[1..]);
    }
}
