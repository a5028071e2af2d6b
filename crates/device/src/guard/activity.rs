//! Whether a device is doing I/O that nobody in sight asked for.
//!
//! The counters in sysfs (`stat`, the device's line of /proc/diskstats) are read twice; a device
//! that is to be erased must not move between. Field order: `Documentation/block/stat.rst`.

use super::refusal::Reason;
use crate::discover::SysDir;
use std::fmt;
use std::time::Duration;

/// The counters that tell use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counters {
    reads: u64,
    writes: u64,
    in_flight: u64,
    /// Discards and flushes.
    others: u64,
}

impl Counters {
    /// Those of the device at `dir` now; `None` if it keeps none.
    pub(crate) fn read(dir: &SysDir) -> Option<Self> {
        Self::parse(&dir.text("stat")?)
    }

    /// What happened since `before`; `in_flight` stays the present number.
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            reads: self.reads.wrapping_sub(before.reads),
            writes: self.writes.wrapping_sub(before.writes),
            in_flight: self.in_flight,
            others: self.others.wrapping_sub(before.others),
        }
    }

    /// Of a difference: whether nothing happened, and nothing is about to.
    pub(crate) fn is_still(self) -> bool {
        self.reads | self.writes | self.others | self.in_flight == 0
    }

    /// Reads the text of `stat`. Old kernels have no discards (before 4.18) or flushes (before 5.5).
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let fields: Vec<u64> = text.split_whitespace().map_while(|field| field.parse().ok()).collect();
        let optional = |at: usize| fields.get(at).copied().unwrap_or(0);
        Some(Self {
            reads: *fields.first()?,
            writes: *fields.get(4)?,
            in_flight: *fields.get(8)?,
            others: optional(11) + optional(15),
        })
    }
}

impl fmt::Display for Counters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { reads, writes, others, in_flight } = self;
        write!(f, "it did {reads} reads, {writes} writes and {others} discards and flushes, with {in_flight} in flight")
    }
}

/// Watches the devices at `dirs` for `watch`. An error when one moved, `Ok(false)` when one keeps no counters.
pub(super) fn watch(dirs: &[&SysDir], watch: Duration) -> Result<bool, Reason> {
    let read = || dirs.iter().map(|dir| Counters::read(dir)).collect::<Option<Vec<_>>>();
    let Some(before) = read() else { return Ok(false) };
    std::thread::sleep(watch);
    let Some(after) = read() else { return Ok(false) };
    match before.into_iter().zip(after).find_map(|(before, after)| moved(before, after, watch)) {
        Some(reason) => Err(reason),
        None => Ok(true),
    }
}

fn moved(before: Counters, after: Counters, watch: Duration) -> Option<Reason> {
    let done = after.since(before);
    let Counters { reads, writes, others, in_flight } = done;
    (!done.is_still()).then_some(Reason::Moving { watched_ms: watch.as_millis(), reads, writes, others, in_flight })
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = "54410 10239 5301770 32336 9928 15205 1927392 6201 0 12684 39084 4174 15 223680 489 899 56";

    #[test]
    fn counters_are_the_fields_that_the_kernel_documents() {
        let counters = Counters::parse(BEFORE).unwrap();
        assert_eq!(counters, Counters { reads: 54_410, writes: 9_928, in_flight: 0, others: 4_174 + 899 });
        assert!(Counters::parse("1 2 3").is_none());
        assert_eq!(Counters::parse("1 2 3 4 5 6 7 8 9 10 11").unwrap().others, 0);
    }

    #[test]
    fn one_request_is_a_movement_and_is_counted() {
        let before = Counters::parse(BEFORE).unwrap();
        assert!(moved(before, before, Duration::from_secs(1)).is_none());
        for (after, says) in [
            (Counters { reads: before.reads + 3, ..before }, "in 1000 ms it did 3 reads, 0 writes"),
            (Counters { writes: before.writes + 1, ..before }, "0 reads, 1 writes and 0 discards"),
            (Counters { others: before.others + 2, ..before }, "0 writes and 2 discards and flushes"),
            (Counters { in_flight: 4, ..before }, "with 4 in flight"),
        ] {
            let text = moved(before, after, Duration::from_secs(1)).unwrap().to_string();
            assert!(text.contains(says), "{text}");
        }
    }
}
