//! The sectors of a write. Each describes itself and has a checksum, so that a reader can tell writes apart within a block.
//!
//! ```text
//! byte 0      8       24    28      32        40          48      56        508
//!      magic, session, lane, sector, sequence, generation, offset, content, crc32c of all before    (little-endian)
//! ```

use super::session::{Lane, SECTOR_BYTES, SessionId};

const MAGIC: [u8; 8] = *b"FLPDURA1";
const SECTOR: usize = SECTOR_BYTES as usize;
const CRC_AT: usize = SECTOR - 4;
/// Magic and session: constant in a session, so a sector torn inside still has them.
const HEAD: usize = 24;

/// Content of a sector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sector {
    /// Of this write of the lane, at its place. Sequence 0: the layout before the first write.
    Write(u64),
    /// Of this session, with a wrong checksum.
    Corrupt,
    /// Zeros.
    Blank,
    /// Of other origin, or of another place in this session.
    Foreign,
}

/// Makes `buf`, a write full of any content, the write `sequence` in `slot` of lane number `number`.
pub fn stamp(buf: &mut [u8], session: SessionId, number: u32, lane: &Lane, slot: u64, sequence: u64) {
    for (index, sector) in (0_u32..).zip(buf.chunks_exact_mut(SECTOR)) {
        sector[..CRC_AT][..56].copy_from_slice(&header(session, number, lane, slot, sequence, index));
        let crc = crc32c::crc32c(&sector[..CRC_AT]);
        sector[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
    }
}

fn header(session: SessionId, number: u32, lane: &Lane, slot: u64, sequence: u64, index: u32) -> [u8; 56] {
    let mut header = [0; 56];
    let fields: [&[u8]; 7] = [
        &MAGIC,
        &session.0.to_le_bytes(),
        &number.to_le_bytes(),
        &index.to_le_bytes(),
        &sequence.to_le_bytes(),
        &lane.generation(sequence).to_le_bytes(),
        &lane.offset(slot).to_le_bytes(),
    ];
    let mut at = 0;
    for field in fields {
        header[at..at + field.len()].copy_from_slice(field);
        at += field.len();
    }
    header
}

/// Reads the sectors of a slot.
pub fn sectors<'a>(
    bytes: &'a [u8],
    session: SessionId,
    number: u32,
    lane: &'a Lane,
    slot: u64,
) -> impl Iterator<Item = Sector> + 'a {
    (0_u32..).zip(bytes.chunks(SECTOR)).map(move |(index, sector)| {
        let Some(sequence) = sector.get(32..40).and_then(|field| field.try_into().ok()).map(u64::from_le_bytes) else {
            return Sector::Foreign;
        };
        let expected = header(session, number, lane, slot, sequence, index);
        match sector {
            _ if sector.iter().all(|byte| *byte == 0) => Sector::Blank,
            _ if sector.len() < SECTOR || sector[..HEAD] != expected[..HEAD] => Sector::Foreign,
            _ if !is_whole(sector) => Sector::Corrupt,
            _ if sector[..56] != expected || sequence > 0 && lane.slot(sequence) != slot => Sector::Foreign,
            _ => Sector::Write(sequence),
        }
    })
}

fn is_whole(sector: &[u8]) -> bool {
    sector.len() == SECTOR && crc32c::crc32c(&sector[..CRC_AT]).to_le_bytes() == sector[CRC_AT..]
}

/// The session of any whole sector in `bytes`.
pub fn find_session(bytes: &[u8]) -> Option<SessionId> {
    let of_ours = bytes.chunks_exact(SECTOR).find(|sector| sector[..8] == MAGIC && is_whole(sector))?;
    of_ours[8..HEAD].try_into().ok().map(|id| SessionId(u128::from_le_bytes(id)))
}

#[cfg(test)]
mod tests {
    use super::super::session::Mode;
    use super::*;

    #[test]
    fn a_reader_tells_sectors_apart() {
        let lane = Lane { mode: Mode::Fua, write_bytes: 2048, slots: 16, at: 1 << 20, scattered: false };
        let (ours, other) = (SessionId(7), SessionId(8));
        let of = |session, number, slot, sequence| {
            let mut buf = vec![0xa5; 2048];
            stamp(&mut buf, session, number, &lane, slot, sequence);
            buf
        };
        let read = |bytes: &[u8]| sectors(bytes, ours, 3, &lane, 5).collect::<Vec<_>>();
        let right = of(ours, 3, 5, 21);
        assert_eq!(read(&right), [Sector::Write(21); 4]);
        assert_eq!(find_session(&right), Some(ours));
        assert_eq!(read(&of(ours, 3, 5, 0)), [Sector::Write(0); 4]);
        // Of another session, lane, slot; a sequence that has another slot.
        for wrong in [of(other, 3, 5, 21), of(ours, 2, 5, 21), of(ours, 3, 6, 21), of(ours, 3, 5, 22)] {
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
        // Two sectors of one write that changed places.
        let swapped = [&right[512..1024], &right[..512], &right[1024..]].concat();
        assert_eq!(read(&swapped)[..2], [Sector::Foreign; 2]);
    }
}
