//! Numbers in the formats on a device. The callers have checked that the bytes are there.

fn at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    std::array::from_fn(|byte| bytes[at + byte])
}

pub(crate) fn u16_at(bytes: &[u8], byte: usize) -> u16 {
    u16::from_le_bytes(at(bytes, byte))
}

pub(crate) fn u32_at(bytes: &[u8], byte: usize) -> u32 {
    u32::from_le_bytes(at(bytes, byte))
}

pub(crate) fn u64_at(bytes: &[u8], byte: usize) -> u64 {
    u64::from_le_bytes(at(bytes, byte))
}
