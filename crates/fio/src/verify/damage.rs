//! Wrong blocks, and the difference between a wrong block and the right one.

use results::format::{count, hex};
use std::fmt::Write;

/// Damage is reported in sectors of this size, the smallest write of a drive.
pub(super) const SECTOR_BYTES: usize = 512;

/// If at most 1/`OTHER_DATA` of a sector's bits differ, they count as flipped bits; otherwise the sector has other
/// data. Unrelated data differs in half of its bits on average.
const OTHER_DATA: usize = 8;

/// Maximum bytes of a digest in a message.
pub(super) const SHOWN_BYTES: usize = 16;

#[derive(Debug)]
pub struct Damage {
    /// Index of the block's file among the job's files.
    pub file: usize,
    pub offset: u64,
    /// Kind of damage, and the expected and the found data.
    pub(super) text: String,
    pub received: Vec<u8>,
    /// The right block, if it can be computed.
    pub expected: Option<Vec<u8>>,
}

pub(super) fn describe_start(block: &[u8]) -> String {
    if block.iter().all(|byte| *byte == 0) {
        "the block is all zeros, so it was never written, or was trimmed".to_owned()
    } else {
        format!(
            "the block begins with {}",
            hex(&block[..block.len().min(SHOWN_BYTES)])
        )
    }
}

/// Number of bits that differ between a block and the right block, by sector.
pub(super) fn differing_bits(block: &[u8], expected: &[u8]) -> Vec<u64> {
    let sectors = block
        .chunks(SECTOR_BYTES)
        .zip(expected.chunks(SECTOR_BYTES));
    sectors
        .map(|(found, expected): (&[u8], &[u8])| {
            found
                .iter()
                .zip(expected)
                .map(|(a, b)| u64::from((a ^ b).count_ones()))
                .sum()
        })
        .collect()
}

/// Description of the difference between a block and the right block; `None` if no sector is similar.
pub(super) fn difference(block: &[u8], expected: &[u8]) -> Option<String> {
    let bits = differing_bits(block, expected);
    let sectors: Vec<_> = block.chunks(SECTOR_BYTES).collect();
    let is_other =
        |sector: &usize| bits[*sector] as usize * OTHER_DATA > sectors[*sector].len() * 8;
    let (other_sectors, similar_sectors): (Vec<_>, Vec<_>) = (0..bits.len()).partition(is_other);
    if similar_sectors.is_empty() {
        return None;
    }
    let flipped: u64 = similar_sectors.iter().map(|sector| bits[*sector]).sum();
    let mut text = match (other_sectors.first(), other_sectors.last()) {
        (Some(first), Some(last)) => {
            let end = ((last + 1) * SECTOR_BYTES).min(block.len());
            let is_zero = |sector: &usize| sectors[*sector].iter().all(|byte| *byte == 0);
            let what = if other_sectors.iter().all(is_zero) {
                "zeros"
            } else {
                "of another write"
            };
            let mut text = format!(
                "torn: {} of {} from byte {} to {end} of the block {} {what}",
                other_sectors.len(),
                count(bits.len() as u64, "sector"),
                first * SECTOR_BYTES,
                if other_sectors.len() == 1 {
                    "is"
                } else {
                    "are"
                },
            );
            if flipped > 0 {
                let _ = write!(text, ", and {} differ elsewhere", count(flipped, "bit"));
            }
            text
        }
        _ if flipped == 1 => "flipped: 1 bit differs".to_owned(),
        _ => format!("flipped: {} differ", count(flipped, "bit")),
    };
    let at = block
        .iter()
        .zip(expected)
        .position(|(a, b)| a != b)
        .unwrap_or(0);
    let _ = write!(
        text,
        "; byte {at} of the block: expected 0x{:02x}, found 0x{:02x}",
        expected[at], block[at]
    );
    Some(text)
}
