//! The stamp that marks data written by this program.
//!
//! ```text
//! sector of 512 bytes, as 64 little-endian words of 64 bits
//! | 0 .. 61: data | 62: nonce (random) | 63: stamp(nonce, key) |
//! ```
//!
//! The key is drawn when a device is first prepared and stored in the [`super::preparation`] record for that device.
//! Foreign data pass for ours with a probability of 2^-64 per sector. A stamp does not prevent forgery: it protects a
//! user's data from mistakes, not from an attacker.

/// Size of a stamped sector, for any sector size of the device.
pub const SECTOR_BYTES: usize = 512;

/// The nonce and the stamp, at the end of a sector.
pub const STAMP_BYTES: usize = 16;

/// The finaliser of splitmix64. Source: Steele, Lea, Flood, "Fast splittable pseudorandom number
/// generators", OOPSLA 2014, with Stafford's thirteenth set of constants.
#[inline]
const fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Word 63 of a sector with `nonce` in word 62, under the device's `key`.
#[inline]
#[must_use]
pub const fn stamp(nonce: u64, key: u64) -> u64 {
    // The added constant (the golden ratio, as in splitmix64) prevents zero from being a fixed point.
    mix(mix(nonce ^ key).wrapping_add(key.rotate_left(32)).wrapping_add(0x9e37_79b9_7f4a_7c15))
}

/// True if a sector ends with the stamp of `key`. A sector shorter than [`SECTOR_BYTES`] is the part at the end of a
/// file; below [`STAMP_BYTES`] it has no stamp.
pub fn is_stamped(sector: &[u8], key: u64) -> bool {
    match sector.as_rchunks::<8>().1 {
        [.., nonce, found] => u64::from_le_bytes(*found) == stamp(u64::from_le_bytes(*nonce), key),
        _ => false,
    }
}

/// Puts the stamp behind the nonce in the last [`STAMP_BYTES`] of a sector or of a part of one. Leaves shorter data
/// unchanged.
#[inline]
pub fn stamp_end(sector: &mut [u8], key: u64) {
    if let [.., nonce, found] = sector.as_rchunks_mut::<8>().1 {
        *found = stamp(u64::from_le_bytes(*nonce), key).to_le_bytes();
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Fills `bytes` with noise, sector by sector, and stamps every sector.
    pub(crate) fn fill_stamped(bytes: &mut [u8], key: u64, seed: u64) {
        let mut state = seed;
        for sector in bytes.chunks_exact_mut(SECTOR_BYTES) {
            for word in sector.chunks_exact_mut(8) {
                state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
                word.copy_from_slice(&mix(state).to_le_bytes());
            }
            stamp_end(sector, key);
        }
    }

    #[test]
    fn stamps_never_change() {
        // On devices in the field: a change here orphans every prepared drive.
        assert_eq!(stamp(0, 0), 0xe220_a839_7b1d_cdaf);
        assert_eq!(stamp(1, 2), stamp(1, 2));
    }

    #[test]
    fn one_bit_of_nonce_or_key_changes_half_of_the_stamp() {
        let mut changed = 0;
        for bit in 0..64 {
            changed += (stamp(5, 77) ^ stamp(5 ^ (1 << bit), 77)).count_ones();
            changed += (stamp(5, 77) ^ stamp(5, 77 ^ (1 << bit))).count_ones();
        }
        assert!((3_700..4_500).contains(&changed), "{changed} of 8192 bits changed");
    }

    #[test]
    fn a_sector_is_known_by_its_key_only() {
        let mut sector = [0; SECTOR_BYTES];
        fill_stamped(&mut sector, 42, 1);
        assert!(is_stamped(&sector, 42));
        assert!(!is_stamped(&sector, 43));
        sector[511] ^= 1;
        assert!(!is_stamped(&sector, 42));
        assert!(!is_stamped(&sector[..100], 42));
        stamp_end(&mut sector[..100], 42);
        assert!(is_stamped(&sector[..100], 42), "a part at the end of a file");
    }
}
