//! I/O priorities: of a job (`prioclass`, `prio`, `priohint`), and of a part of its operations (`cmdprio...`).
//!
//! Source: fio's engines/cmdprio.c.

use super::parse::block_bytes;
use super::value::{Unit, number};
use results::cell::{Latencies, latencies};
use results::times::Times;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use sys::op::Priority;
use sys::random::Random;

/// Directions with priorities of single operations: reads and writes.
const DIRECTIONS: usize = 2;

/// The real-time class.
const REAL_TIME: u16 = 1;

/// Class, level and hint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Parts {
    class: u16,
    level: u16,
    hint: u16,
}

impl Parts {
    fn priority(self) -> Priority {
        Priority::new(self.class, self.level, self.hint)
    }
}

/// Priority of a part of the operations of a direction.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Share {
    /// Size of these operations; none: any.
    bytes: Option<u64>,
    percent: u64,
    /// As given in `cmdprio_bssplit`.
    parts: Option<Parts>,
}

/// Options of a job.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PriorityOptions {
    job: Parts,
    /// `cmdprio_class`, `cmdprio`, `cmdprio_hint` of reads and writes.
    commands: [Parts; DIRECTIONS],
    by_percentage: [Vec<Share>; DIRECTIONS],
    by_size: [Vec<Share>; DIRECTIONS],
}

impl PriorityOptions {
    /// Applies the option `name`. Errors: the reason, a phrase.
    pub(super) fn set(&mut self, name: &str, text: &str, kb_base: u64) -> Result<(), String> {
        let below = |text: &str, least: u64, most: u64| match number(text, Unit::Plain)? {
            value if (least..=most).contains(&value) => Ok(value as u16),
            _ => Err(format!("it is from {least} to {most}")),
        };
        let (class, level, hint) = ((1, 3), (0, 7), (0, 1023));
        // The second is of writes, which by default have that of reads.
        let pair = |(least, most): (u64, u64)| {
            let (read, write) = text.split_once(',').unwrap_or((text, text));
            Ok::<_, String>([below(read, least, most)?, below(write, least, most)?])
        };
        let mut set_each = |values: [u16; DIRECTIONS], set: fn(&mut Parts, u16)| {
            self.commands.iter_mut().zip(values).for_each(|(parts, value)| set(parts, value));
        };
        match name {
            "prioclass" => self.job.class = below(text, 0, 3)?,
            "prio" => self.job.level = below(text, level.0, level.1)?,
            "priohint" => self.job.hint = below(text, hint.0, hint.1)?,
            "cmdprio_class" => set_each(pair(class)?, |parts, value| parts.class = value),
            "cmdprio" => set_each(pair(level)?, |parts, value| parts.level = value),
            "cmdprio_hint" => set_each(pair(hint)?, |parts, value| parts.hint = value),
            "cmdprio_percentage" => {
                let all = pair((0, 100))?.map(u64::from);
                self.by_percentage = all.map(|percent| vec![Share { bytes: None, percent, parts: None }]);
            }
            _ => {
                let (reads, writes) = text.split_once(',').unwrap_or((text, text));
                self.by_size = [split(reads, kb_base)?, split(writes, kb_base)?];
            }
        }
        Ok(())
    }

    /// Finds contradictions.
    pub(super) fn check(&self) -> Option<&'static str> {
        let is_given = |shares: &[Vec<Share>; DIRECTIONS]| shares.iter().flatten().any(|share| share.percent > 0);
        if is_given(&self.by_percentage) && is_given(&self.by_size) {
            return Some("cmdprio_percentage and cmdprio_bssplit contradict each other - leave one out");
        }
        (self.job.class == 0 && self.job.level > 0)
            .then_some("prio without prioclass: the kernel takes no level without a class - give prioclass=2 (best-effort) or another")
    }

    /// True if operations of one job have several priorities.
    pub(super) fn is_mixed(&self) -> bool {
        self.by_percentage.iter().chain(&self.by_size).flatten().any(|share| share.percent > 0)
    }

    /// Priority of all operations without one of their own.
    pub(super) fn of_job(&self) -> Priority {
        self.job.priority()
    }

    /// Priority of the next operation of `bytes` in a direction.
    #[inline]
    pub(super) fn draw(&self, direction: usize, bytes: u64, random: &mut Random) -> Priority {
        if direction < DIRECTIONS && self.is_mixed() {
            let mut drawn = random.below(100);
            let fits = |share: &&Share| share.bytes.is_none_or(|of| of == bytes);
            let shares = self.by_percentage[direction].iter().chain(&self.by_size[direction]);
            for share in shares.filter(fits) {
                match drawn.checked_sub(share.percent) {
                    Some(rest) => drawn = rest,
                    None => return self.command(direction, share).priority(),
                }
            }
        }
        self.job.priority()
    }

    fn command(&self, direction: usize, share: &Share) -> Parts {
        let of_direction = self.commands[direction];
        let class = if of_direction.class == 0 { REAL_TIME } else { of_direction.class };
        share.parts.unwrap_or(Parts { class, ..of_direction })
    }
}

/// `64k/25/1/1:64k/75/3/2:1024k/0`: size, percent of the operations of this size, class and level, hint.
fn split(text: &str, kb_base: u64) -> Result<Vec<Share>, String> {
    let mut shares: Vec<Share> = Vec::new();
    for part in text.split(':') {
        let fields: Vec<_> = part.split('/').collect();
        let field = |at: usize, most: u64| match number(fields[at], Unit::Plain)? {
            value if value <= most => Ok(value as u16),
            _ => Err(format!("{} is more than {most}", fields[at])),
        };
        let parts = match fields.len() {
            2 => None,
            4 => Some(Parts { class: field(2, 3)?, level: field(3, 7)?, hint: 0 }),
            5 => Some(Parts { class: field(2, 3)?, level: field(3, 7)?, hint: field(4, 1023)? }),
            _ => {
                return Err(
                    "it is like 64k/25:1m/75, 64k/25/1/0 with class and level, or 64k/25/1/0/2 with a hint".into()
                );
            }
        };
        shares.push(Share { bytes: Some(block_bytes(fields[0], kb_base)?), percent: field(1, 100)?.into(), parts });
    }
    for share in &shares {
        let all: u64 = shares.iter().filter(|other| other.bytes == share.bytes).map(|share| share.percent).sum();
        if all > 100 {
            return Err(format!(
                "the percentages of {} bytes are {all} in all, more than 100",
                share.bytes.unwrap_or(0)
            ));
        }
    }
    Ok(shares)
}

/// Latencies of a clone by direction and priority.
#[derive(Debug)]
pub struct ByPriority {
    /// Start of the measurement, nanoseconds of the run.
    from_ns: u64,
    latencies: Mutex<BTreeMap<(usize, u16), Latencies>>,
}

impl ByPriority {
    pub(super) fn new(from_ns: u64) -> Self {
        Self { from_ns, latencies: Mutex::default() }
    }

    pub(super) fn add(&self, direction: usize, priority: Priority, times: &Times) {
        if times.completed_ns() >= self.from_ns {
            let mut all = self.latencies();
            all.entry((direction, priority.value())).or_insert_with(latencies).saturating_record(times.service_ns());
        }
    }

    /// By direction and number of the priority for the kernel.
    pub fn latencies(&self) -> MutexGuard<'_, BTreeMap<(usize, u16), Latencies>> {
        self.latencies.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(given: &[(&str, &str)]) -> PriorityOptions {
        let mut options = PriorityOptions::default();
        given.iter().for_each(|(name, text)| options.set(name, text, 1024).unwrap());
        options
    }

    /// Percent of the operations of `bytes` with each priority, most first.
    fn shares(options: &PriorityOptions, direction: usize, bytes: u64) -> Vec<(u16, u32)> {
        let (mut random, mut counts) = (Random::new(1), std::collections::BTreeMap::new());
        for _ in 0..100_000 {
            *counts.entry(options.draw(direction, bytes, &mut random).value()).or_insert(0_u32) += 1;
        }
        let mut all: Vec<_> = counts.into_iter().map(|(value, count)| (value, (count + 500) / 1_000)).collect();
        all.sort_by_key(|(_, percent)| std::cmp::Reverse(*percent));
        all
    }

    #[test]
    fn a_part_of_the_operations_has_another_priority() {
        let whole = options(&[("prioclass", "2"), ("prio", "7")]);
        assert_eq!(shares(&whole, 1, 4096), [(0x4007, 100)]);
        let part = options(&[("prioclass", "3"), ("cmdprio_percentage", "20,0"), ("cmdprio", "1")]);
        assert_eq!(shares(&part, 0, 4096), [(0x6000, 80), (0x2001, 20)], "real-time by default");
        assert_eq!(shares(&part, 1, 4096), [(0x6000, 100)]);
        let split = options(&[("cmdprio_bssplit", "64k/25/1/1:64k/75/3/2:1024k/10/2/0/3:1024k/0,1024k/0")]);
        assert_eq!(shares(&split, 0, 64 << 10), [(0x6002, 75), (0x2001, 25)]);
        assert_eq!(shares(&split, 0, 1 << 20), [(0, 90), (0x4018, 10)]);
        assert_eq!(shares(&split, 1, 1 << 20), [(0, 100)]);
    }

    #[test]
    fn impossible_priorities_are_refused() {
        let mut options = PriorityOptions::default();
        for (name, text) in [
            ("prio", "8"),
            ("prioclass", "4"),
            ("cmdprio_class", "0"),
            ("cmdprio_percentage", "101"),
            ("cmdprio_bssplit", "64k/10/1"),
            ("cmdprio_bssplit", "64k/60:64k/50"),
            ("cmdprio_bssplit", "64k"),
        ] {
            assert!(options.set(name, text, 1024).is_err(), "{name}={text}");
        }
        options.set("prio", "3", 1024).unwrap();
        assert!(options.check().unwrap().contains("prioclass"));
    }
}
