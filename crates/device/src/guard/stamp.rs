//! stub
/// stub
pub fn stamp(nonce: u64, key: u64) -> u64 {
    nonce.wrapping_mul(0x9e3779b97f4a7c15) ^ key
}
