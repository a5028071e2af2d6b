//! Sets of CPUs as the kernel writes them: `0-3,8`.

use std::collections::BTreeSet;
use std::fmt;

/// Most CPUs that a list is believed to have: the kernel's own limit is 8,192.
const CPUS_MAX: u32 = 1 << 16;

/// A set of CPUs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct CpuList(BTreeSet<u32>);

impl CpuList {
    /// Reads a list; `None` if it is none. An empty text is an empty set.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut cpus = BTreeSet::new();
        for range in text.trim().split(',').filter(|range| !range.is_empty()) {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (first, last) = (first.trim().parse::<u32>().ok()?, last.trim().parse::<u32>().ok()?);
            if first > last || last >= CPUS_MAX {
                return None;
            }
            cpus.extend(first..=last);
        }
        Some(Self(cpus))
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The CPU, if it is only one.
    pub(super) fn only(&self) -> Option<u32> {
        self.0.first().copied().filter(|_| self.0.len() == 1)
    }

    /// Those that are in both.
    pub(super) fn common(&self, other: &Self) -> Self {
        Self(self.0.intersection(&other.0).copied().collect())
    }

    /// Adds all of `other`.
    pub(super) fn add(&mut self, other: &Self) {
        self.0.extend(&other.0);
    }
}

impl fmt::Display for CpuList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut ranges: Vec<(u32, u32)> = Vec::new();
        for &cpu in &self.0 {
            match ranges.last_mut() {
                Some((_, last)) if *last + 1 == cpu => *last = cpu,
                _ => ranges.push((cpu, cpu)),
            }
        }
        let texts: Vec<String> = ranges
            .into_iter()
            .map(|(first, last)| if first == last { first.to_string() } else { format!("{first}-{last}") })
            .collect();
        f.write_str(&texts.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read_and_written_as_the_kernel_does() {
        for text in ["0", "0-3", "0-3,8,10-11", ""] {
            assert_eq!(CpuList::parse(&format!("{text}\n")).unwrap().to_string(), text);
        }
        assert_eq!(CpuList::parse("0-3,8").unwrap().len(), 5);
        assert_eq!(CpuList::parse("7").unwrap().only(), Some(7));
        assert_eq!(CpuList::parse("6-7").unwrap().only(), None);
    }

    #[test]
    fn what_is_no_list_is_none() {
        for text in ["3-1", "x", "0-", "-", "0-4294967295"] {
            assert_eq!(CpuList::parse(text), None, "{text}");
        }
    }
}
