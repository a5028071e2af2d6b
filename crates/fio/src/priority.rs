//! I/O priorities: of a job (`prioclass`, `prio`, `priohint`), and of a fraction of its operations (`cmdprio...`).
//!
//! Source: fio's engines/cmdprio.c.

use super::locked;
use super::parse::OptionValue;
use super::pattern::by_percent;
use super::value::{NumberUnit, number};
use results::cell::{Latencies, latencies};
use results::times::Times;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};
use sys::op::Priority;
use sys::random::Random;

/// Directions whose operations can have different priorities: reads and writes.
const DIRECTIONS: usize = 2;

const REAL_TIME: u16 = 1;

/// Class, level and hint.
type Parts = [u16; 3];
pub(super) const CLASS: usize = 0;
pub(super) const LEVEL: usize = 1;
pub(super) const HINT: usize = 2;

/// The greatest class, level and hint.
const PARTS_MAX: Parts = [3, 7, 1023];

/// Priority of a fraction of the operations of a direction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PriorityShare {
    /// Size of the operations; `None`: any size.
    bytes: Option<u64>,
    percent: u64,
    /// Class, level and hint given in `cmdprio_bssplit`; `None`: those of the direction.
    parts: Option<Parts>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PriorityOptions {
    pub(super) job: Parts,
    /// `cmdprio_class`, `cmdprio`, `cmdprio_hint` of reads and writes.
    commands: [Parts; DIRECTIONS],
    pub(super) by_percentage: [Vec<PriorityShare>; DIRECTIONS],
    pub(super) by_size: [Vec<PriorityShare>; DIRECTIONS],
}

impl PriorityOptions {
    /// Sets a class, level or hint of `cmdprio_percentage` and `cmdprio_bssplit`, for reads and for writes.
    pub(super) fn set_commands(&mut self, part: usize, given: [u16; DIRECTIONS]) {
        for (parts, given) in self.commands.iter_mut().zip(given) {
            parts[part] = given;
        }
    }

    pub(super) fn check(&self) -> Option<&'static str> {
        if has_share(&self.by_percentage) && has_share(&self.by_size) {
            return Some(
                "cmdprio_percentage and cmdprio_bssplit contradict each other - leave one out",
            );
        }
        (self.job[CLASS] == 0 && self.job[LEVEL] > 0)
            .then_some("prio without prioclass: the kernel takes no level without a class - give prioclass=2 (best-effort) or another class")
    }

    pub(super) fn is_mixed(&self) -> bool {
        has_share(&self.by_percentage) || has_share(&self.by_size)
    }

    /// Priority of all operations that have no priority of their own.
    pub(super) fn of_job(&self) -> Priority {
        priority(self.job)
    }

    #[inline]
    pub(super) fn draw(&self, direction: usize, bytes: u64, random: &mut Random) -> Priority {
        if direction >= DIRECTIONS || !self.is_mixed() {
            return self.of_job();
        }
        let shares = self.by_percentage[direction]
            .iter()
            .chain(&self.by_size[direction]);
        let fitting = shares.filter(|share| share.bytes.is_none_or(|of| of == bytes));
        by_percent(fitting.map(|share| (share.percent, share)), random).map_or(
            self.of_job(),
            |share| {
                let [class, level, hint] = self.commands[direction];
                priority(share.parts.unwrap_or([
                    if class == 0 { REAL_TIME } else { class },
                    level,
                    hint,
                ]))
            },
        )
    }
}

/// A class, level or hint of all operations.
pub(super) fn part(part: usize) -> impl Fn(OptionValue<'_>) -> Result<u16, String> {
    move |value| within(value.text, 0, PARTS_MAX[part])
}

/// A class, level or hint of reads and of writes.
pub(super) fn part_of_commands(
    part: usize,
) -> impl Fn(OptionValue<'_>) -> Result<[u16; DIRECTIONS], String> {
    let min = u16::from(part == CLASS);
    move |value| reads_and_writes(value, |value| within(value.text, min, PARTS_MAX[part]))
}

/// The value of `cmdprio_percentage`.
pub(super) fn percentages(
    value: OptionValue<'_>,
) -> Result<[Vec<PriorityShare>; DIRECTIONS], String> {
    reads_and_writes(value, |value| {
        let percent = within(value.text, 0, 100)?.into();
        Ok(vec![PriorityShare {
            bytes: None,
            percent,
            parts: None,
        }])
    })
}

/// The value of `cmdprio_bssplit`.
pub(super) fn size_shares(
    value: OptionValue<'_>,
) -> Result<[Vec<PriorityShare>; DIRECTIONS], String> {
    reads_and_writes(value, split)
}

/// The values of reads and writes. The second value is for writes. Without it, reads and writes have the same value.
fn reads_and_writes<T>(
    value: OptionValue<'_>,
    parse: impl Fn(OptionValue<'_>) -> Result<T, String>,
) -> Result<[T; DIRECTIONS], String> {
    let (reads, writes) = value
        .text
        .split_once(',')
        .unwrap_or((value.text, value.text));
    let parse = |text| parse(OptionValue { text, ..value });
    Ok([parse(reads)?, parse(writes)?])
}

fn has_share(shares: &[Vec<PriorityShare>; DIRECTIONS]) -> bool {
    shares.iter().flatten().any(|share| share.percent > 0)
}

fn priority([class, level, hint]: Parts) -> Priority {
    Priority::new(class, level, hint)
}

fn within(text: &str, min: u16, max: u16) -> Result<u16, String> {
    match number(text, NumberUnit::Plain)? {
        value if (min.into()..=max.into()).contains(&value) => Ok(value as u16),
        _ => Err(format!("the value must be {min} to {max}")),
    }
}

fn at_most(text: &str, max: u16) -> Result<u16, String> {
    match number(text, NumberUnit::Plain)? {
        value if value <= max.into() => Ok(value as u16),
        _ => Err(format!("{text} is more than {max}")),
    }
}

/// `64k/25/1/1:64k/75/3/2:1024k/0`: entries of size, percent of the operations of this size, class, level, hint.
fn split(value: OptionValue<'_>) -> Result<Vec<PriorityShare>, String> {
    let form = "the value must be like 64k/25:1m/75, 64k/25/1/0 with class and level, or 64k/25/1/0/2 with a hint";
    let mut shares: Vec<PriorityShare> = Vec::new();
    for part in value.text.split(':') {
        let fields: Vec<_> = part.split('/').collect();
        let parts = match fields.len() {
            2 => None,
            4 => Some([
                at_most(fields[2], PARTS_MAX[CLASS])?,
                at_most(fields[3], PARTS_MAX[LEVEL])?,
                0,
            ]),
            5 => Some([
                at_most(fields[2], PARTS_MAX[CLASS])?,
                at_most(fields[3], PARTS_MAX[LEVEL])?,
                at_most(fields[4], PARTS_MAX[HINT])?,
            ]),
            _ => return Err(form.into()),
        };
        let bytes = OptionValue {
            text: fields[0],
            ..value
        }
        .block_bytes()?;
        shares.push(PriorityShare {
            bytes: Some(bytes),
            percent: at_most(fields[1], 100)?.into(),
            parts,
        });
    }
    for share in &shares {
        let sum: u64 = shares
            .iter()
            .filter(|other| other.bytes == share.bytes)
            .map(|share| share.percent)
            .sum();
        if sum > 100 {
            let bytes = share.bytes.unwrap_or(0);
            return Err(format!(
                "the percentages for {bytes} bytes add up to {sum}, more than 100"
            ));
        }
    }
    Ok(shares)
}

#[derive(Debug)]
pub struct LatenciesByPriority {
    /// Start of the measurement, nanoseconds of the run.
    from_ns: u64,
    latencies: Mutex<BTreeMap<(usize, u16), Latencies>>,
}

impl LatenciesByPriority {
    pub(super) fn new(from_ns: u64) -> Self {
        Self {
            from_ns,
            latencies: Mutex::default(),
        }
    }

    pub(super) fn add(&self, direction: usize, priority: Priority, times: &Times) {
        if times.completed_ns() >= self.from_ns {
            let mut all = self.latencies();
            all.entry((direction, priority.value()))
                .or_insert_with(latencies)
                .saturating_record(times.service_ns());
        }
    }

    /// Latencies by direction and the kernel's priority value.
    pub fn latencies(&self) -> MutexGuard<'_, BTreeMap<(usize, u16), Latencies>> {
        locked(&self.latencies)
    }
}

#[cfg(test)]
mod tests {
    use super::super::job::Job;
    use super::*;
    use results::assert_contains;

    fn options(given: &[(&str, &str)]) -> PriorityOptions {
        crate::testing::job_with(given).priority
    }

    /// Percent of the operations of `bytes` with each priority, the most frequent priority first.
    fn shares(options: &PriorityOptions, direction: usize, bytes: u64) -> Vec<(u16, u32)> {
        let mut random = Random::new(1);
        let mut counts = std::collections::BTreeMap::new();
        for _ in 0..100_000 {
            *counts
                .entry(options.draw(direction, bytes, &mut random).value())
                .or_insert(0_u32) += 1;
        }
        let mut all: Vec<_> = counts
            .into_iter()
            .map(|(value, count)| (value, (count + 500) / 1_000))
            .collect();
        all.sort_by_key(|(_, percent)| std::cmp::Reverse(*percent));
        all
    }

    #[test]
    fn a_percentage_of_the_operations_has_another_priority() {
        let whole = options(&[("prioclass", "2"), ("prio", "7")]);
        assert_eq!(shares(&whole, 1, 4096), [(0x4007, 100)]);
        let part = options(&[
            ("prioclass", "3"),
            ("cmdprio_percentage", "20,0"),
            ("cmdprio", "1"),
        ]);
        let found = shares(&part, 0, 4096);
        assert_eq!(found, [(0x6000, 80), (0x2001, 20)], "real-time by default");
        assert_eq!(shares(&part, 1, 4096), [(0x6000, 100)]);
        let split = options(&[(
            "cmdprio_bssplit",
            "64k/25/1/1:64k/75/3/2:1024k/10/2/0/3:1024k/0,1024k/0",
        )]);
        assert_eq!(shares(&split, 0, 64 << 10), [(0x6002, 75), (0x2001, 25)]);
        assert_eq!(shares(&split, 0, 1 << 20), [(0, 90), (0x4018, 10)]);
        assert_eq!(shares(&split, 1, 1 << 20), [(0, 100)]);
    }

    #[test]
    fn impossible_priorities_are_refused() {
        for (name, text) in [
            ("prio", "8"),
            ("prioclass", "4"),
            ("cmdprio_class", "0"),
            ("cmdprio_percentage", "101"),
            ("cmdprio_bssplit", "64k/10/1"),
            ("cmdprio_bssplit", "64k/60:64k/50"),
            ("cmdprio_bssplit", "64k"),
        ] {
            let applied = crate::testing::apply(&mut Job::default(), name, text);
            assert!(applied.is_err(), "{name}={text}");
        }
        assert_contains!(options(&[("prio", "3")]).check().unwrap(), "prioclass");
    }
}
