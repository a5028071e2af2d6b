//! Digest of a record's set and key: its key in the index.

use ripemd::{Digest as _, Ripemd160};

/// RIPEMD-160 of set, particle type and key.
pub type Digest = [u8; 20];

/// Partitions of a namespace.
pub const PARTITIONS: u16 = 4096;

/// The digest of the key `key` of type `particle` in `set`. Source: Aerospike's clients, as recorded.
pub fn digest(set: &[u8], particle: u8, key: &[u8]) -> Digest {
    let mut hash = Ripemd160::new();
    hash.update(set);
    hash.update([particle]);
    hash.update(key);
    hash.finalize().into()
}

/// The partition of a digest: its first two bytes, little-endian, modulo 4096.
pub fn partition(digest: &Digest) -> u16 {
    u16::from_le_bytes([digest[0], digest[1]]) % PARTITIONS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_is_the_low_twelve_bits() {
        assert_eq!(partition(&[0xff; 20]), 4095);
        let mut digest = [0; 20];
        digest[..3].copy_from_slice(&[0x34, 0x12, 0xff]);
        assert_eq!(partition(&digest), 0x234);
    }
}
