//! Values of single options that are more than a number.

use super::job::DIRECTIONS;
use super::pattern::{Distribution, Sizes, Zone};
use super::value::{Size, Unit, number, size};
use results::units::quoted;
use std::collections::BTreeSet;
use sys::op::WriteBack;

const NS_PER_SEC: u64 = 1_000_000_000;

/// No operation is larger: a buffer of this size for each that is in flight.
const BLOCK_MAX: u64 = 1 << 30;

/// CPUs of a machine, as many as sched_setaffinity(2) has bits for in its usual form.
const CPUS_MAX: u32 = 1_024;

/// Percentiles that a report has at most, as fio.
const PERCENTILES_MAX: usize = 20;

/// A value for each direction: `A`, `A,B`, `A,B,C`; a missing one repeats the one before, an empty one is none.
pub(super) fn by_direction<T: Clone>(
    text: &str,
    read: impl Fn(&str) -> Result<T, String>,
) -> Result<[Option<T>; DIRECTIONS], String> {
    let mut all = [const { None }; DIRECTIONS];
    let parts: Vec<_> = text.split(',').collect();
    if parts.len() > DIRECTIONS {
        return Err(format!("it has {} parts, and there are reads, writes and trims", parts.len()));
    }
    for (direction, part) in parts.iter().enumerate() {
        all[direction] = match part.trim() {
            "" => None,
            part => Some(read(part)?),
        };
    }
    for direction in parts.len()..DIRECTIONS {
        all[direction] = all[direction - 1].clone();
    }
    Ok(all)
}

pub(super) fn positive(value: u64) -> Result<u64, String> {
    if value > 0 { Ok(value) } else { Err("it is zero".into()) }
}

pub(super) fn above_zero(size: Size) -> Result<Size, String> {
    if size.of(100) > 0 || matches!(size, Size::Bytes(1..)) { Ok(size) } else { Err("it is zero".into()) }
}

pub(super) fn bounded_seconds(ns: u64) -> Result<u64, String> {
    if ns / NS_PER_SEC > u32::MAX.into() { Err(format!("it is more than {} s", u32::MAX)) } else { Ok(ns) }
}

pub(super) fn word(text: &str, words: &[&str]) -> Result<(), String> {
    if words.contains(&text) { Ok(()) } else { Err(format!("it is one of {}", words.join(", "))) }
}

pub(super) fn is_sync_engine(text: &str) -> Result<bool, String> {
    match text {
        "io_uring" | "libaio" | "posixaio" => Ok(false),
        "sync" | "psync" | "vsync" | "pvsync" | "pvsync2" | "mmap" => Ok(true),
        _ => Err("flashproof does not have this engine; without it would run: io_uring on the same names - say ioengine=io_uring if that will do".into()),
    }
}

/// Steps of a write-back, and the writes between two: `wait_before,write:8`.
pub(super) fn write_back(text: &str) -> Result<(WriteBack, u64), String> {
    let (steps, every) = text.split_once(':').unwrap_or((text, "1"));
    let mut all = WriteBack::default();
    for step in steps.split(',') {
        match step.trim() {
            "wait_before" => all.wait_before = true,
            "write" => all.write = true,
            "wait_after" => all.wait_after = true,
            _ => return Err("it is like wait_before,write:8, of wait_before, write, wait_after".into()),
        }
    }
    Ok((all, positive(number(every, Unit::Plain)?)?))
}

/// CPUs in a list, `0,2-5`: each once, in order.
pub(super) fn cpus(text: &str) -> Result<Vec<u32>, String> {
    let mut all = BTreeSet::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let read = |text: &str| text.trim().parse::<u32>().ok().filter(|cpu| *cpu < CPUS_MAX);
        match (read(first), read(last)) {
            (Some(first), Some(last)) if first <= last => all.extend(first..=last),
            _ => return Err(format!("{} are no CPUs; a list of them is like 0,2-5, below {CPUS_MAX}", quoted(part))),
        }
    }
    Ok(all.into_iter().collect())
}

/// A file about memory nodes in sysfs; `None`: it is not there.
pub(super) fn memory_nodes(file: &str) -> Option<String> {
    std::fs::read_to_string(format!("/sys/devices/system/node/{file}")).ok()
}

/// CPUs of the memory nodes in a list, `0,2-5`. `about` reads a file about memory nodes.
pub(super) fn cpus_of_nodes(text: &str, about: impl Fn(&str) -> Option<String>) -> Result<Vec<u32>, String> {
    let mut all = Vec::new();
    for node in cpus(text)? {
        let of_node = about(&format!("node{node}/cpulist"))
            .ok_or_else(|| format!("this machine has no memory node {node} - name others, or leave it out"))?;
        all.extend(cpus(of_node.trim())?);
    }
    Ok(all)
}

/// Checks a memory policy: with a single node all are the same.
pub(super) fn memory_policy(text: &str, is_single: bool) -> Result<(), String> {
    let policy = text.split_once(':').map_or(text, |(policy, _)| policy);
    word(policy, &["default", "local", "prefer", "bind", "interleave"])?;
    match policy {
        "default" | "local" => Ok(()),
        _ if is_single => Ok(()),
        _ => Err("flashproof sets no memory policy, and this machine has several memory nodes - leave it out, and run flashproof under numactl".into()),
    }
}

/// CPUs whose bits are set.
pub(super) fn cpus_of_mask(mask: u64) -> Result<Vec<u32>, String> {
    let cpus: Vec<_> = (0..u64::BITS).filter(|cpu| mask >> cpu & 1 == 1).collect();
    if cpus.is_empty() { Err("it has no CPU".into()) } else { Ok(cpus) }
}

/// Names with `:` between; `\:` is a colon within one.
pub(super) fn filenames(text: &str) -> Result<Vec<String>, String> {
    let mut names = vec![String::new()];
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let last = names.last_mut().expect("never empty");
        match c {
            '\\' if chars.peek() == Some(&':') => last.extend(chars.next()),
            // The one of sim: belongs to the name.
            ':' if last == "sim" => last.push(c),
            ':' => names.push(String::new()),
            c => last.push(c),
        }
    }
    match names.iter().any(String::is_empty) {
        true => Err("a name is empty".into()),
        false => Ok(names),
    }
}

/// Parses the modifier after the colon of an rw: bytes to skip after each sequential operation, or operations per
/// random offset.
pub(super) fn rw_modifier(text: Option<&str>, random: bool, kb_base: u64) -> Result<(i64, u64), String> {
    let Some(text) = text else { return Ok((0, 1)) };
    let (is_back, digits) = text.strip_prefix('-').map_or((false, text), |digits| (true, digits));
    let value = number(digits, Unit::Kilo(kb_base)).map_err(|why| format!("what follows the colon: {why}"))?;
    let skip = i64::try_from(value).map_err(|_| "what follows the colon is too large".to_owned())?;
    match random {
        true if is_back || value == 0 => Err("at random places so many operations follow each other: 1 or more".into()),
        true => Ok((0, value)),
        false => Ok((if is_back { -skip } else { skip }, 1)),
    }
}

pub(super) fn latency_percentile(text: &str) -> Result<f64, String> {
    let value = text.trim().parse::<f64>().ok();
    value.filter(|value| *value > 0.0 && *value <= 100.0).ok_or_else(|| "it is above 0 and at most 100".into())
}

pub(super) fn percentiles(text: &str) -> Result<Vec<f64>, String> {
    let read = |part: &str| part.trim().parse::<f64>().ok().filter(|percentile| (0.0..=100.0).contains(percentile));
    let mut list: Vec<_> = text
        .split(':')
        .map(|part| read(part).ok_or_else(|| format!("{} is no percentile from 0 to 100", quoted(part))))
        .collect::<Result<_, _>>()?;
    if list.len() > PERCENTILES_MAX {
        return Err(format!("{} percentiles, at most {PERCENTILES_MAX} are reported", list.len()));
    }
    list.sort_by(f64::total_cmp);
    Ok(list)
}

pub(super) fn distribution(text: &str, kb_base: u64) -> Result<Distribution, String> {
    let (kind, parameters) = text.split_once(':').map_or((text, None), |(kind, parameters)| (kind, Some(parameters)));
    let parameter = |default: f64| match parameters {
        None => Ok(default),
        Some(text) => text
            .parse::<f64>()
            .map_err(|_| format!("{} is no number (a centre is not among what we have)", quoted(text))),
    };
    match kind {
        "random" => Ok(Distribution::Uniform),
        "zipf" => match parameter(1.1)? {
            theta if theta > 0.0 && theta <= 10.0 => Ok(Distribution::Zipf(theta)),
            _ => Err("theta is above 0 and at most 10".into()),
        },
        "pareto" => match parameter(0.2)? {
            h if h > 0.0 && h < 1.0 => Ok(Distribution::Pareto(h)),
            _ => Err("h is between 0 and 1".into()),
        },
        "normal" => match parameter(0.0)? {
            deviation if (0.0..=100.0).contains(&deviation) => Ok(Distribution::Normal(deviation)),
            _ => Err("the deviation is from 0 to 100 percent".into()),
        },
        "zoned" => zones(parameters, |text| size(&format!("{text}%"), 1000)),
        "zoned_abs" => zones(parameters, |text| size(text, kb_base)),
        _ => Err("flashproof does not have this distribution; without it would run: uniformly random places - it is one of random, zipf, pareto, normal, zoned, zoned_abs".into()),
    }
}

fn zones(text: Option<&str>, size: impl Fn(&str) -> Result<Size, String>) -> Result<Distribution, String> {
    let mut zones = Vec::new();
    for part in text.unwrap_or_default().split(':') {
        let (access, part_size) = part.split_once('/').ok_or("zones are like 60/10:30/20:8/30:2/40")?;
        let access = if access.is_empty() { None } else { Some(number(access, Unit::Plain)?) };
        let part_size = if part_size.is_empty() { None } else { Some(size(part_size)?) };
        zones.push((access, part_size));
    }
    // As with sizes of operations: entries without a number share the rest.
    let accesses = shared_out(zones.iter().map(|(access, _)| *access))?;
    let percent = |size: &Size| if let Size::Percent(percent) = size { *percent } else { 0 };
    let given: u64 = zones.iter().filter_map(|(_, size)| size.as_ref()).map(percent).sum();
    let blank = zones.iter().filter(|(_, size)| size.is_none()).count() as u64;
    if given > 100 {
        return Err(format!("the zones are {given} % of the whole"));
    }
    let rest = Size::Percent((100 - given) / blank.max(1));
    let zones = zones.into_iter().zip(accesses);
    Ok(Distribution::Zoned(zones.map(|((_, size), access)| Zone { access, size: size.unwrap_or(rest) }).collect()))
}

/// A size of an operation. Errors: an impossible one.
pub(super) fn block_bytes(text: &str, kb_base: u64) -> Result<u64, String> {
    match number(text, Unit::Kilo(kb_base))? {
        0 => Err("an operation of no bytes".into()),
        bytes if bytes > BLOCK_MAX => Err(format!("an operation has at most {BLOCK_MAX} bytes")),
        bytes => Ok(bytes),
    }
}

/// The sizes `4k`.
pub(super) fn size_one(text: &str, kb_base: u64) -> Result<Sizes, String> {
    block_bytes(text, kb_base).map(Sizes::same)
}

/// The sizes `4k-64k`.
pub(super) fn size_range(text: &str, kb_base: u64) -> Result<Sizes, String> {
    let (min, max) = text.split_once('-').ok_or("a range is like 4k-64k")?;
    let (min_bytes, max_bytes) = (block_bytes(min, kb_base)?, block_bytes(max, kb_base)?);
    match min_bytes <= max_bytes {
        true => Ok(Sizes::Range { min_bytes, max_bytes }),
        false => Err("a range begins with the smaller size".into()),
    }
}

/// The sizes `4k/10:64k/50:32k/`.
pub(super) fn size_split(text: &str, kb_base: u64) -> Result<Sizes, String> {
    let mut parts = Vec::new();
    for part in text.split(':') {
        let (bytes, percent) = part.split_once('/').unwrap_or((part, ""));
        let percent = if percent.is_empty() { None } else { Some(number(percent, Unit::Plain)?) };
        parts.push((block_bytes(bytes, kb_base)?, percent));
    }
    let percents = shared_out(parts.iter().map(|(_, percent)| *percent))?;
    Ok(Sizes::Split(parts.into_iter().zip(percents).map(|((bytes, _), percent)| (bytes, percent)).collect()))
}

/// Percentages; missing ones share the rest to 100. Errors: the sum is more, or less without missing ones.
fn shared_out(given: impl Iterator<Item = Option<u64>> + Clone) -> Result<Vec<u64>, String> {
    let sum = given.clone().flatten().fold(0, u64::saturating_add);
    let blank = given.clone().filter(Option::is_none).count() as u64;
    match 100_u64.checked_sub(sum) {
        None => Err(format!("the percentages are {sum} in all, more than 100")),
        Some(1..) if blank == 0 => Err(format!("the percentages are {sum} in all, not 100")),
        Some(rest) => {
            // Whole percent, the first a little more.
            let mut number = 0;
            let mut share = || {
                number += 1;
                rest / blank + u64::from(number <= rest % blank)
            };
            Ok(given.map(|percent| percent.unwrap_or_else(&mut share)).collect())
        }
    }
}
