//! Examination of a lane after the power cut: compares each slot with the acknowledged writes.
//!
//! Each sector has a stamp with a checksum, so that a reader can recognise parts of different writes within a block.
//!
//! ```text
//! byte 0      8       24    28      32        40          48      56      72       508
//!      magic, session, lane, sector, sequence, generation, offset, secret, content, crc32c of all before    (little-endian)
//! ```
//!
//! Sectors of version 1 have content in place of the secret.

use super::session::{BATCH_MAX, DurabilityMethod, SECTOR_BYTES, Secret, SessionId, WriteLane};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::ops::{AddAssign, Range};

/// Findings in the slots of one or several lanes. Of each slot, only the newest acknowledged write is counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Counts")]
pub struct SlotCounts {
    /// Acknowledged writes that were read back: the newest write of each slot.
    pub checked: u64,
    /// Checked writes that are whole, or overwritten by a later write.
    pub intact: u64,
    /// Checked writes whose slot has no write of this session.
    pub lost: u64,
    /// Checked writes whose slot has an older write of this session.
    pub stale: u64,
    /// Checked writes of which only a part is there.
    pub torn: u64,
    /// Checked writes whose slot has data of other origin, or of another slot.
    pub foreign: u64,
    /// Lost, stale, torn or foreign writes for which a later write of the same lane is there.
    pub reordered: u64,
    /// Distance from the oldest failed write to the last acknowledged write of its lane, in writes, counting both.
    pub reach: u64,
    /// Writes that are there, although they were not acknowledged: allowed.
    pub unacknowledged: u64,
    /// Writes that are there in part, and were not acknowledged: allowed.
    pub unacknowledged_torn: u64,
}

impl SlotCounts {
    /// Acknowledged writes that are not there.
    pub fn failed_writes(&self) -> u64 {
        self.lost + self.stale + self.torn + self.foreign
    }
}

impl AddAssign for SlotCounts {
    fn add_assign(&mut self, other: Self) {
        let sums = [
            (&mut self.checked, other.checked),
            (&mut self.intact, other.intact),
            (&mut self.lost, other.lost),
            (&mut self.stale, other.stale),
            (&mut self.torn, other.torn),
            (&mut self.foreign, other.foreign),
            (&mut self.reordered, other.reordered),
            (&mut self.unacknowledged, other.unacknowledged),
            (&mut self.unacknowledged_torn, other.unacknowledged_torn),
        ];
        sums.into_iter().for_each(|(sum, more)| *sum += more);
        self.reach = self.reach.max(other.reach);
    }
}

pub enum SlotContent<'a> {
    Bytes(&'a [u8]),
    /// The file of the slot does not exist.
    Missing,
    /// The device returned an error.
    Unreadable,
}

/// Compares each slot of lane `lane_number` with the writes of the lane, of which those up to `acknowledged` were
/// acknowledged. `read` passes a slot's content to a callback.
pub fn examine<E>(
    session: SessionId,
    lane_number: u32,
    lane: &WriteLane,
    acknowledged: u64,
    mut read: impl FnMut(u64, &mut dyn FnMut(SlotContent<'_>)) -> Result<(), E>,
) -> Result<SlotCounts, E> {
    let mut counts = SlotCounts::default();
    let mut lost_writes = Vec::new();
    let mut newest = 0;
    // Torn writes that were not acknowledged, and the latest write with any sector present.
    let mut torn = Vec::new();
    let mut latest = 0;
    let slots = u64::from(lane.slots);
    // For each slot: `next`, the first unacknowledged write, and `last`, the last acknowledged write (0: none).
    for next in acknowledged + 1..=acknowledged + slots {
        let last = next.saturating_sub(slots);
        let slot = lane.slot(next);
        let mut content = Vec::new();
        read(slot, &mut |found| match found {
            SlotContent::Bytes(bytes) => {
                content.extend(sectors(bytes, session, lane_number, lane, slot));
                match bytes.len() {
                    0 => content.push(Sector::Blank),
                    len if len != lane.write_bytes as usize => content.push(Sector::Foreign),
                    _ => {}
                }
            }
            SlotContent::Missing => content.push(Sector::Blank),
            SlotContent::Unreadable => content.push(Sector::Corrupt),
        })?;
        // A file gets its name only after the flush, so a torn file is never allowed.
        let may_be_torn =
            next <= acknowledged + lane.window() && lane.mode != DurabilityMethod::Rename;
        let newer = |sector: &&Sector| matches!(sector, Sector::Write(sequence) if *sequence >= last.max(1));
        let first = content.first().and_then(Sector::sequence);
        let found_newer = content.iter().filter(newer).count();
        let is_whole = content.windows(2).all(|pair| pair[0] == pair[1]);
        let has_next = content.contains(&Sector::Write(next));
        let is_corrupt = content.contains(&Sector::Corrupt);
        latest = content
            .iter()
            .filter_map(Sector::sequence)
            .fold(latest, u64::max);
        counts.checked += u64::from(last > 0);
        if let Some(found) = first.filter(|_| is_whole && found_newer > 0) {
            counts.intact += u64::from(last > 0);
            counts.unacknowledged += u64::from(found > last);
            newest = newest.max(found);
            continue;
        }
        let rest_is_last = content
            .iter()
            .filter_map(Sector::sequence)
            .all(|of| of == last || of == next);
        let is_known = content
            .iter()
            .all(|sector| matches!(sector, Sector::Write(_) | Sector::Corrupt));
        if may_be_torn && rest_is_last && is_known && (has_next || is_corrupt) {
            torn.push(next);
            continue;
        }
        if last == 0 {
            continue;
        }
        lost_writes.push(last);
        let has_sector = |is_match: fn(&Sector) -> bool| content.iter().any(is_match);
        if found_newer > 0 || is_corrupt {
            counts.torn += 1
        } else if has_sector(|sector| matches!(sector, Sector::Write(sequence) if *sequence > 0)) {
            counts.stale += 1
        } else if has_sector(|sector| *sector == Sector::Foreign) {
            counts.foreign += 1
        } else {
            counts.lost += 1
        }
    }
    for (later_ones, next) in (0..).zip(torn.into_iter().rev()) {
        // A torn write is allowed only if no flush had returned after it: then this write and all later ones that are
        // there, torn or whole, fit into one batch.
        if later_ones < BATCH_MAX && next + BATCH_MAX > latest {
            counts.intact += u64::from(next > slots);
            counts.unacknowledged_torn += 1;
        } else if next > slots {
            counts.torn += 1;
            lost_writes.push(next - slots);
        }
    }
    counts.reordered = lost_writes
        .iter()
        .filter(|sequence| **sequence < newest)
        .count() as u64;
    counts.reach = lost_writes
        .iter()
        .min()
        .map_or(0, |oldest| acknowledged - oldest + 1);
    Ok(counts)
}

const MAGIC: [u8; 8] = *b"FLPDURA1";
const SECTOR: usize = SECTOR_BYTES as usize;
const CRC_AT: usize = SECTOR - 4;
/// Magic number and session ID, bytes: the same in all sectors of a session, so a partly written sector has them.
const HEAD: usize = 24;
/// Bytes of the secret in a sector.
const SECRET: Range<usize> = 56..72;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sector {
    /// A sector of this write of the lane, at the right place. Sequence 0: the initial layout.
    Write(u64),
    /// A sector of this session with a wrong checksum.
    Corrupt,
    /// Zeros.
    Blank,
    /// A sector of other origin, or of another place in this session.
    Foreign,
}

impl Sector {
    /// `None` if the sector is not of a write of the lane.
    fn sequence(&self) -> Option<u64> {
        if let Self::Write(sequence) = self {
            Some(*sequence)
        } else {
            None
        }
    }
}

/// Stamps `buf` as write number `sequence` in `slot` of lane `lane_number`. Other bytes are kept.
pub fn stamp(
    buf: &mut [u8],
    session: SessionId,
    lane_number: u32,
    lane: &WriteLane,
    slot: u64,
    sequence: u64,
) {
    for (index, sector) in (0_u32..).zip(buf.chunks_exact_mut(SECTOR)) {
        sector[..CRC_AT][..56].copy_from_slice(&header(
            session,
            lane_number,
            lane,
            slot,
            sequence,
            index,
        ));
        let crc = crc32c::crc32c(&sector[..CRC_AT]);
        sector[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
    }
}

/// Puts the secret into the content of the sectors of `buf`. The machine under test keeps its secret nowhere else.
pub fn put_secret(buf: &mut [u8], secret: Secret) {
    let sectors = buf.chunks_exact_mut(SECTOR);
    sectors.for_each(|sector| sector[SECRET].copy_from_slice(&secret.0.to_le_bytes()));
}

fn header(
    session: SessionId,
    lane_number: u32,
    lane: &WriteLane,
    slot: u64,
    sequence: u64,
    index: u32,
) -> [u8; 56] {
    let mut header = [0; 56];
    let fields: [&[u8]; 7] = [
        &MAGIC,
        &session.0.to_le_bytes(),
        &lane_number.to_le_bytes(),
        &index.to_le_bytes(),
        &sequence.to_le_bytes(),
        &lane.generation(sequence).to_le_bytes(),
        &lane.offset(slot).to_le_bytes(),
    ];
    let mut offset = 0;
    for field in fields {
        header[offset..offset + field.len()].copy_from_slice(field);
        offset += field.len();
    }
    header
}

pub fn sectors<'a>(
    bytes: &'a [u8],
    session: SessionId,
    lane_number: u32,
    lane: &'a WriteLane,
    slot: u64,
) -> impl Iterator<Item = Sector> + 'a {
    (0_u32..)
        .zip(bytes.chunks(SECTOR))
        .map(move |(index, sector)| {
            let Some(sequence) = sector
                .get(32..40)
                .and_then(|field| field.try_into().ok())
                .map(u64::from_le_bytes)
            else {
                return Sector::Foreign;
            };
            let expected = header(session, lane_number, lane, slot, sequence, index);
            match sector {
                _ if sector.iter().all(|byte| *byte == 0) => Sector::Blank,
                _ if sector.len() < SECTOR || sector[..HEAD] != expected[..HEAD] => Sector::Foreign,
                _ if !is_whole(sector) => Sector::Corrupt,
                _ if sector[..56] != expected || sequence > 0 && lane.slot(sequence) != slot => {
                    Sector::Foreign
                }
                _ => Sector::Write(sequence),
            }
        })
}

fn is_whole(sector: &[u8]) -> bool {
    sector.len() == SECTOR && crc32c::crc32c(&sector[..CRC_AT]).to_le_bytes() == sector[CRC_AT..]
}

/// The session of the first intact stamped sector, and its secret, if the session has one.
pub fn find_session(bytes: &[u8]) -> Option<(SessionId, Option<Secret>)> {
    let of_ours = bytes
        .chunks_exact(SECTOR)
        .find(|sector| sector[..8] == MAGIC && is_whole(sector))?;
    let number = |range: Range<usize>| of_ours[range].try_into().ok().map(u128::from_le_bytes);
    let id = number(8..HEAD).map(SessionId)?;
    Some((
        id,
        number(SECRET)
            .map(Secret)
            .filter(|secret| secret.session() == id),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sectors_of_other_sessions_lanes_or_slots_and_blank_and_corrupt_sectors_are_recognised() {
        let lane = WriteLane {
            mode: DurabilityMethod::Fua,
            write_bytes: 2048,
            slots: 16,
            at: 1 << 20,
            scattered: false,
        };
        let ours = SessionId(7);
        let other = SessionId(8);
        let of = |session, number, slot, sequence| {
            let mut buf = vec![0xa5; 2048];
            stamp(&mut buf, session, number, &lane, slot, sequence);
            buf
        };
        let read = |bytes: &[u8]| sectors(bytes, ours, 3, &lane, 5).collect::<Vec<_>>();
        let right = of(ours, 3, 5, 21);
        assert_eq!(read(&right), [Sector::Write(21); 4]);
        assert_eq!(
            find_session(&right),
            Some((ours, None)),
            "as version 1 wrote it"
        );
        let secret = Secret(9);
        let mut with_secret = vec![0xa5; 2048];
        put_secret(&mut with_secret, secret);
        stamp(&mut with_secret, secret.session(), 3, &lane, 5, 21);
        assert_eq!(
            find_session(&with_secret),
            Some((secret.session(), Some(secret)))
        );
        assert_eq!(
            sectors(&with_secret, secret.session(), 3, &lane, 5).collect::<Vec<_>>(),
            [Sector::Write(21); 4]
        );
        assert_eq!(read(&of(ours, 3, 5, 0)), [Sector::Write(0); 4]);
        // Sectors of another session, lane or slot, and a sequence that belongs to another slot.
        for wrong in [
            of(other, 3, 5, 21),
            of(ours, 2, 5, 21),
            of(ours, 3, 6, 21),
            of(ours, 3, 5, 22),
        ] {
            assert_eq!(read(&wrong), [Sector::Foreign; 4]);
        }
        assert_eq!(read(&[0; 1024]), [Sector::Blank; 2]);
        assert_eq!(read(&[1; 700]), [Sector::Foreign; 2]);
        assert_eq!(find_session(&[0; 4096]), None);
        for at in [24, 60, 511] {
            let mut torn = right.clone();
            torn[at] ^= 1;
            assert_eq!(read(&torn)[0], Sector::Corrupt, "byte {at}");
            assert_eq!(read(&torn)[1], Sector::Write(21));
        }
        // Two swapped sectors of a write.
        let swapped = [&right[512..1024], &right[..512], &right[1024..]].concat();
        assert_eq!(read(&swapped)[..2], [Sector::Foreign; 2]);
    }
}
