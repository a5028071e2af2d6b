//! The version of a server, and how it wants to be spoken to.

use std::fmt;

/// A write block from 7.1 on, bytes. Source: the server's `drv_ssd.h`, `WBLOCK_SZ`.
pub const FIXED_BLOCK_BYTES: u64 = 8 << 20;

/// flush-size from 7.1 on where nobody set it, bytes. Source: the server's documentation of 7.1.
pub const FLUSH_BYTES: u64 = 1 << 20;

/// A server's version: `8.0.0.15`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Build([u32; 4]);

impl Build {
    pub const fn new(numbers: [u32; 4]) -> Self {
        Self(numbers)
    }

    /// Reads `8.0.0.15`, `3.15.1.4-1-g0123abc`, `8.1`; what is missing is 0.
    pub fn parse(text: &str) -> Option<Self> {
        let end = text.find(|c: char| c != '.' && !c.is_ascii_digit()).unwrap_or(text.len());
        let mut numbers = [0; 4];
        let mut parts = text[..end].trim_end_matches('.').split('.');
        for (index, number) in numbers.iter_mut().enumerate() {
            match parts.next() {
                Some(part) => *number = part.parse().ok()?,
                // A version has two numbers at least; one alone is a count of something.
                None if index < 2 => return None,
                None => break,
            }
        }
        Some(Self(numbers))
    }

    /// True if a namespace is selected by `namespace=NS`, false for `id=NS`. Source: asadm,
    /// `SERVER_INFO_NAMESPACE_SELECTOR_VERSION`.
    pub fn selects_by_namespace(self) -> bool {
        self >= Self([8, 1, 0, 0])
    }

    /// True if latencies are reported as `latencies:`, false for `latency:`.
    pub fn has_latencies(self) -> bool {
        self >= Self([5, 1, 0, 0])
    }

    /// Bytes of a write block where the version fixes them: from 7.1 on, `write-block-size` is gone and drv_ssd
    /// counts blocks of 8 MiB.
    pub fn fixed_write_block_bytes(self) -> Option<u64> {
        (self >= Self([7, 1, 0, 0])).then_some(FIXED_BLOCK_BYTES)
    }
}

impl fmt::Display for Build {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d] = self.0;
        write!(f, "{a}.{b}.{c}.{d}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_with_what_packagers_add() {
        let texts = ["8.0.0.15", "3.15.1.4-1-g0123abc", "8.1", "6.0.0.0-rc6", "3.9.0"];
        let read = texts.map(|text| Build::parse(text).unwrap().to_string());
        assert_eq!(read, ["8.0.0.15", "3.15.1.4", "8.1.0.0", "6.0.0.0", "3.9.0.0"]);
        for text in ["", "8", "ERROR:4:unrecognized command", "99999999999.1", ".", "8..1"] {
            assert_eq!(Build::parse(text), None, "{text}");
        }
    }

    #[test]
    fn what_changed_with_a_version_changes_at_it() {
        let of = |text| Build::parse(text).unwrap();
        assert!(!of("8.0.0.15").selects_by_namespace() && of("8.1.0.0").selects_by_namespace());
        assert!(!of("5.0.0.38").has_latencies() && of("5.1.0.3").has_latencies());
        assert_eq!(
            (of("7.0.0.26").fixed_write_block_bytes(), of("7.1.0.0").fixed_write_block_bytes()),
            (None, Some(8 << 20))
        );
    }
}
