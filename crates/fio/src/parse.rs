//! Parsers of option values that are more than a number.

use super::NS_PER_SEC;
use super::directions::DIRECTIONS;
use super::files::FileOrder;
use super::pattern::{Distribution, Sizes};
use super::value::{NumberUnit, SECONDS, Size, number, size};
use results::format::quoted;
use std::collections::BTreeSet;
use sys::op::WriteBack;

/// Maximum size of an operation, bytes: each operation in flight needs a buffer of its size.
pub(super) const BLOCK_MAX: u64 = 1 << 30;

/// Maximum number of CPUs: the bits of sched_setaffinity(2)'s `cpu_set_t`.
const CPUS_MAX: u32 = 1_024;

/// Maximum percentiles of a report, as in fio.
const PERCENTILES_MAX: usize = 20;

/// An option's value as text, and the meaning of the suffix `k`.
#[derive(Debug, Clone, Copy)]
pub(super) struct OptionValue<'a> {
    pub(super) text: &'a str,
    pub(super) kb_base: u64,
}

impl OptionValue<'_> {
    pub(super) fn boolean(self) -> Result<bool, String> {
        match number(self.text, NumberUnit::Plain) {
            Ok(0) => Ok(false),
            Ok(1) => Ok(true),
            _ => Err("the value must be 0 or 1".into()),
        }
    }

    /// A number from `min` to `max`, with the suffixes of sizes.
    pub(super) fn count(self, min: u64, max: u64) -> Result<u64, String> {
        match number(self.text, NumberUnit::Kilo(self.kb_base))? {
            value if value < min => Err(format!("the value is below the minimum of {min}")),
            value if value > max => Err(format!("the value is above the maximum of {max}")),
            value => Ok(value),
        }
    }

    pub(super) fn size(self) -> Result<Size, String> {
        size(self.text, self.kb_base)
    }

    pub(super) fn block_bytes(self) -> Result<u64, String> {
        let is_size = |text| number(text, NumberUnit::Kilo(self.kb_base)).is_ok();
        if self
            .text
            .split_once('-')
            .is_some_and(|(min, max)| is_size(min) && is_size(max))
        {
            return Err(format!(
                "the value is a range of sizes - give bsrange={}",
                self.text
            ));
        }
        match number(self.text, NumberUnit::Kilo(self.kb_base))? {
            0 => Err("an operation must have at least 1 byte".into()),
            bytes if bytes > BLOCK_MAX => {
                Err(format!("an operation can have at most {BLOCK_MAX} bytes"))
            }
            bytes => Ok(bytes),
        }
    }

    /// A time that is in seconds if it has no unit. The result is in nanoseconds.
    pub(super) fn seconds_ns(self) -> Result<u64, String> {
        let ns = number(self.text, SECONDS)?;
        if ns / NS_PER_SEC > u32::MAX.into() {
            Err(format!("the time is above the maximum of {} s", u32::MAX))
        } else {
            Ok(ns)
        }
    }

    /// `A`, `A,B`, `A,B,C`, by direction. A missing value repeats the previous one; an empty value is `default`.
    pub(super) fn by_direction<T: Clone>(
        self,
        default: T,
        parse: impl Fn(Self) -> Result<T, String>,
    ) -> Result<[T; DIRECTIONS], String> {
        let parts: Vec<_> = self.text.split(',').map(str::trim).collect();
        if parts.len() > DIRECTIONS {
            return Err(format!(
                "there are {} values - give at most three: reads, writes, trims",
                parts.len()
            ));
        }
        let values = parts
            .into_iter()
            .map(|text| {
                Ok(unless_blank(text, |text| parse(Self { text, ..self }))?
                    .unwrap_or_else(|| default.clone()))
            })
            .collect::<Result<Vec<_>, String>>()?;
        Ok(std::array::from_fn(|direction| {
            values[direction.min(values.len() - 1)].clone()
        }))
    }
}

fn unless_blank<'a, T>(
    text: &'a str,
    parse: impl FnOnce(&'a str) -> Result<T, String>,
) -> Result<Option<T>, String> {
    if text.is_empty() {
        Ok(None)
    } else {
        parse(text).map(Some)
    }
}

pub(super) fn parse_word<T: Copy>(text: &str, words: &[(&str, T)]) -> Result<T, String> {
    let meaning = words
        .iter()
        .find(|(word, _)| *word == text)
        .map(|(_, meaning)| *meaning);
    meaning.ok_or_else(|| {
        format!(
            "the value must be one of {}",
            words
                .iter()
                .map(|(word, _)| *word)
                .collect::<Vec<_>>()
                .join(", ")
        )
    })
}

pub(super) fn positive(value: u64) -> Result<u64, String> {
    if value > 0 {
        Ok(value)
    } else {
        Err("the value must not be 0".into())
    }
}

/// A power of two; 0 means 1.
pub(super) fn power_of_two(value: OptionValue<'_>) -> Result<u64, String> {
    let value = value.count(0, 1 << 40)?.max(1);
    if value.is_power_of_two() {
        Ok(value)
    } else {
        Err("the value must be a power of two".into())
    }
}

pub(super) fn kb_base(text: &str) -> Result<u64, String> {
    match number(text, NumberUnit::Plain)? {
        base @ (1_000 | 1_024) => Ok(base),
        _ => Err("the value must be 1000 or 1024".into()),
    }
}

/// True for `strided`.
pub(super) fn zone_mode(text: &str) -> Result<bool, String> {
    if text == "zbd" {
        return Err("flashproof does not support the zones of zoned devices; without the option, flashproof would run: operations at any offset - leave zonemode and zonesize out if that is acceptable".into());
    }
    parse_word(text, &[("none", false), ("strided", true)])
}

/// Percent of the operations of each direction that are at random offsets.
pub(super) fn random_percents(value: OptionValue<'_>) -> Result<[u64; DIRECTIONS], String> {
    match value.by_direction(100, |part| number(part.text, NumberUnit::Plain))? {
        all if all.iter().all(|percent| *percent <= 100) => Ok(all),
        _ => Err("the value is above the maximum of 100".into()),
    }
}

/// Choice of the next file, and the number of operations before it: `roundrobin:8`.
pub(super) fn file_order(value: OptionValue<'_>) -> Result<(FileOrder, u64), String> {
    let (order, ops) = value.text.split_once(':').unwrap_or((value.text, "1"));
    let words = [
        ("roundrobin", FileOrder::InTurn),
        ("random", FileOrder::Random),
        ("sequential", FileOrder::OneByOne),
    ];
    Ok((
        parse_word(order, &words)?,
        number(ops, NumberUnit::Kilo(value.kb_base))?.max(1),
    ))
}

/// The value; `None` for 0, which in fio means that the option is off.
pub(super) fn unless_zero(value: u64) -> Option<u64> {
    (value > 0).then_some(value)
}

/// Steps of sync_file_range, and the number of writes between two calls: `wait_before,write:8`.
pub(super) fn write_back(text: &str) -> Result<(WriteBack, u64), String> {
    let (steps, every) = text.split_once(':').unwrap_or((text, "1"));
    let mut flags = WriteBack::default();
    for step in steps.split(',') {
        match step.trim() {
            "wait_before" => flags.wait_before = true,
            "write" => flags.write = true,
            "wait_after" => flags.wait_after = true,
            _ => {
                return Err(
                    "the value must be like wait_before,write:8, with the flags wait_before, write, wait_after".into(),
                );
            }
        }
    }
    Ok((flags, positive(number(every, NumberUnit::Plain)?)?))
}

/// CPUs in a list, `0,2-5`: each once, in order.
pub(super) fn cpus(text: &str) -> Result<Vec<u32>, String> {
    let mut cpu_set = BTreeSet::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        match (parse_cpu(first), parse_cpu(last)) {
            (Some(first), Some(last)) if first <= last => cpu_set.extend(first..=last),
            _ => {
                return Err(format!(
                    "{} is not a list of CPUs - give numbers below {CPUS_MAX} such as 0,2-5",
                    quoted(part)
                ));
            }
        }
    }
    Ok(cpu_set.into_iter().collect())
}

fn parse_cpu(text: &str) -> Option<u32> {
    text.trim().parse().ok().filter(|cpu| *cpu < CPUS_MAX)
}

/// Text of `file` in sysfs's directory of NUMA nodes; `None` if it cannot be read.
pub(super) fn memory_nodes(file: &str) -> Option<String> {
    std::fs::read_to_string(format!("/sys/devices/system/node/{file}")).ok()
}

/// CPUs of the NUMA nodes in a list, `0,2-5`. `read_node_file` reads a file in sysfs's directory of NUMA nodes.
pub(super) fn cpus_of_nodes(
    text: &str,
    read_node_file: impl Fn(&str) -> Option<String>,
) -> Result<Vec<u32>, String> {
    let mut cpu_list = Vec::new();
    for node in cpus(text)? {
        let of_node = read_node_file(&format!("node{node}/cpulist")).ok_or_else(|| {
            format!(
                "this machine has no NUMA node {node} - give other nodes, or leave the option out"
            )
        })?;
        cpu_list.extend(cpus(of_node.trim())?);
    }
    Ok(cpu_list)
}

pub(super) fn memory_policy_of_machine(text: &str) -> Result<(), String> {
    memory_policy(
        text,
        memory_nodes("online").is_none_or(|nodes| nodes.trim() == "0"),
    )
}

/// Checks a memory policy. With a single NUMA node, all policies are equivalent.
fn memory_policy(text: &str, is_single: bool) -> Result<(), String> {
    let policy = text.split_once(':').map_or(text, |(policy, _)| policy);
    let policies = [
        ("default", true),
        ("local", true),
        ("prefer", false),
        ("bind", false),
        ("interleave", false),
    ];
    if parse_word(policy, &policies)? || is_single {
        Ok(())
    } else {
        Err("flashproof sets no memory policy, and this machine has several NUMA nodes - leave the option out, and run flashproof under numactl".into())
    }
}

pub(super) fn cpus_of_mask(mask: u64) -> Result<Vec<u32>, String> {
    let cpus: Vec<_> = (0..u64::BITS).filter(|cpu| mask >> cpu & 1 == 1).collect();
    if cpus.is_empty() {
        Err("the mask has no CPU".into())
    } else {
        Ok(cpus)
    }
}

/// Names separated by `:`; `\:` is a colon within a name.
pub(super) fn filenames(text: &str) -> Result<Vec<String>, String> {
    let mut names = vec![String::new()];
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let last = names.last_mut().expect("never empty");
        match c {
            '\\' if chars.peek() == Some(&':') => last.extend(chars.next()),
            // The colon of `sim:` belongs to the name.
            ':' if last != "sim" => names.push(String::new()),
            c => last.push(c),
        }
    }
    if names.iter().any(String::is_empty) {
        Err("a name is empty - leave the option out, or give names separated by :".into())
    } else {
        Ok(names)
    }
}

/// Path of the log to replay, in the form of [`filenames`]. Errors: several logs, of which fio gives one to each clone.
pub(super) fn log_path(text: &str) -> Result<String, String> {
    match <[String; 1]>::try_from(filenames(text)?) {
        Ok([path]) => Ok(path),
        Err(paths) => Err(format!(
            "fio gives each clone one of these {} logs, but flashproof replays one log in all clones - give each log a \
             job of its own, and write a colon within a name as \\:",
            paths.len()
        )),
    }
}

#[derive(Debug)]
pub(super) struct ReadWrite {
    pub(super) does: [bool; DIRECTIONS],
    pub(super) random: bool,
    pub(super) trim_write: bool,
    /// Bytes skipped between sequential operations; negative: backwards.
    pub(super) skip: i64,
    /// Operations per random offset.
    pub(super) run_length: u64,
}

pub(super) fn read_write(value: OptionValue<'_>) -> Result<ReadWrite, String> {
    let (rw, modifier) = value
        .text
        .split_once(':')
        .map_or((value.text, None), |(rw, modifier)| (rw, Some(modifier)));
    let (random, kinds) = rw
        .strip_prefix("rand")
        .map_or((false, rw), |kinds| (true, kinds));
    let does = match kinds {
        "read" => [true, false, false],
        "write" => [false, true, false],
        "trim" => [false, false, true],
        "rw" | "readwrite" => [true, true, false],
        "trimwrite" => [false, true, true],
        _ => return Err(
            "the value must be one of read, write, trim, randread, randwrite, randtrim, rw, randrw, trimwrite, randtrimwrite"
                .into(),
        ),
    };
    let (skip, run_length) = modifier.map_or(Ok((0, 1)), |modifier| {
        rw_modifier(modifier, random, value.kb_base)
    })?;
    Ok(ReadWrite {
        does,
        random,
        trim_write: kinds == "trimwrite",
        skip,
        run_length,
    })
}

/// Parses `rw` after the colon: bytes to skip after each sequential operation, and operations per random offset.
fn rw_modifier(text: &str, random: bool, kb_base: u64) -> Result<(i64, u64), String> {
    let (is_back, digits) = text
        .strip_prefix('-')
        .map_or((false, text), |digits| (true, digits));
    let value = number(digits, NumberUnit::Kilo(kb_base))
        .map_err(|why| format!("after the colon, {why}"))?;
    let skip =
        i64::try_from(value).map_err(|_| "after the colon, the value is too large".to_owned())?;
    if !random {
        Ok((if is_back { -skip } else { skip }, 1))
    } else if is_back || value == 0 {
        Err("after the colon, give the number of consecutive operations at each random offset, 1 or more".into())
    } else {
        Ok((0, value))
    }
}

pub(super) fn latency_percentile(text: &str) -> Result<f64, String> {
    let value = text.trim().parse::<f64>().ok();
    value
        .filter(|value| *value > 0.0 && *value <= 100.0)
        .ok_or_else(|| "the value must be above 0 and at most 100".into())
}

pub(super) fn percentiles(text: &str) -> Result<Vec<f64>, String> {
    let mut list = text
        .split(':')
        .map(|part: &str| {
            let percentile = part
                .trim()
                .parse::<f64>()
                .ok()
                .filter(|percentile| (0.0..=100.0).contains(percentile));
            percentile.ok_or_else(|| {
                format!(
                    "{} is not a percentile from 0 to 100 - give numbers separated by :",
                    quoted(part)
                )
            })
        })
        .collect::<Result<Vec<_>, _>>()?;
    if list.len() > PERCENTILES_MAX {
        return Err(format!(
            "there are {} percentiles, but at most {PERCENTILES_MAX} can be reported",
            list.len()
        ));
    }
    list.sort_by(f64::total_cmp);
    Ok(list)
}

/// Distributions of random offsets by direction. The zones of each direction follow one keyword: `zoned:60/10,50/20`.
pub(super) fn distributions(value: OptionValue<'_>) -> Result<[Distribution; DIRECTIONS], String> {
    match value.text.split_once(':') {
        Some(("zoned", zones)) => OptionValue {
            text: zones,
            ..value
        }
        .by_direction(Distribution::Uniform, |part| {
            zoned(part.text, |text| size(&format!("{text}%"), 1000))
        }),
        Some(("zoned_abs", zones)) => OptionValue {
            text: zones,
            ..value
        }
        .by_direction(Distribution::Uniform, |part| {
            zoned(part.text, |text| size(text, part.kb_base))
        }),
        _ => value.by_direction(Distribution::Uniform, distribution),
    }
}

fn distribution(value: OptionValue<'_>) -> Result<Distribution, String> {
    let (kind, parameter) = value
        .text
        .split_once(':')
        .map_or((value.text, None), |(kind, of)| (kind, Some(of)));
    Ok(match kind {
        "random" => Distribution::Uniform,
        "zipf" => match distribution_parameter(parameter, 1.1)? {
            theta if theta > 0.0 && theta <= 10.0 => Distribution::Zipf(theta),
            _ => return Err("theta must be above 0 and at most 10".into()),
        },
        "pareto" => match distribution_parameter(parameter, 0.2)? {
            h if h > 0.0 && h < 1.0 => Distribution::Pareto(h),
            _ => return Err("h must be between 0 and 1".into()),
        },
        "normal" => match distribution_parameter(parameter, 0.0)? {
            deviation if (0.0..=100.0).contains(&deviation) => Distribution::Normal(deviation),
            _ => return Err("the deviation must be 0 to 100 percent".into()),
        },
        "zoned" | "zoned_abs" => return Err("zones must be like zoned:60/10:30/20:8/30:2/40".into()),
        _ => return Err("flashproof does not support this distribution; without the option, flashproof would run: uniformly random offsets - give one of random, zipf, pareto, normal, zoned, zoned_abs".into()),
    })
}

fn distribution_parameter(text: Option<&str>, default: f64) -> Result<f64, String> {
    text.map_or(Ok(default), |text| {
        text.parse().map_err(|_| {
            format!(
                "{} is not a number - fio's second parameter, the centre, is not supported",
                quoted(text)
            )
        })
    })
}

fn zoned(text: &str, size: impl Fn(&str) -> Result<Size, String>) -> Result<Distribution, String> {
    let mut zones = Vec::new();
    // A trailing colon has no zone after it.
    for part in text.trim_end_matches(':').split(':') {
        let (access, part_size) = part
            .split_once('/')
            .ok_or("zones must be like 60/10:30/20:8/30:2/40")?;
        zones.push((
            unless_blank(access, |text| number(text, NumberUnit::Plain))?,
            unless_blank(part_size, &size)?,
        ));
    }
    // As with sizes of operations, entries without a number share the rest.
    let accesses = complete_percentages(zones.iter().map(|(access, _)| *access))?;
    let given_pct: u64 = zones
        .iter()
        .filter_map(|(_, size)| size.as_ref())
        .map(|size: &Size| {
            if let Size::Percent(percent) = size {
                *percent
            } else {
                0
            }
        })
        .sum();
    let blank = zones.iter().filter(|(_, size)| size.is_none()).count() as u64;
    if given_pct > 100 {
        return Err(format!(
            "the sizes of the zones add up to {given_pct} %, more than 100"
        ));
    }
    let blank_size = Size::Percent((100 - given_pct) / blank.max(1));
    let sizes = zones
        .into_iter()
        .map(|(_, size)| size.unwrap_or(blank_size));
    Ok(Distribution::Zoned(
        accesses.into_iter().zip(sizes).collect(),
    ))
}

/// Smallest and largest size of new files: `2m` or `2m-6m`.
pub(super) fn file_sizes(value: OptionValue<'_>) -> Result<[u64; 2], String> {
    let (min, max) = value
        .text
        .split_once('-')
        .unwrap_or((value.text, value.text));
    let min = OptionValue { text: min, ..value }.count(1, u64::MAX);
    let max = OptionValue { text: max, ..value }.count(1, u64::MAX);
    let min = min?;
    let max = max?;
    if min <= max {
        Ok([min, max])
    } else {
        Err("a range must begin with the smaller size".into())
    }
}

/// The sizes `4k-64k` or `4k:64k`.
pub(super) fn size_range(value: OptionValue<'_>) -> Result<Sizes, String> {
    let (min, max) = value
        .text
        .split_once(['-', ':'])
        .ok_or("a range must be like 4k-64k")?;
    let bytes = |text| OptionValue { text, ..value }.block_bytes();
    let min_bytes = bytes(min)?;
    let max_bytes = bytes(max)?;
    if min_bytes <= max_bytes {
        Ok(Sizes::Range {
            min_bytes,
            max_bytes,
        })
    } else {
        Err("a range must begin with the smaller size".into())
    }
}

/// The sizes `4k/10:64k/50:32k/`.
pub(super) fn size_split(value: OptionValue<'_>) -> Result<Sizes, String> {
    let mut parts = Vec::new();
    for part in value.text.split(':') {
        let (text, percent) = part.split_once('/').unwrap_or((part, ""));
        // As in fio, 0 percent is a missing percentage.
        let percent = unless_blank(percent, |text| number(text, NumberUnit::Plain))?
            .filter(|percent| *percent > 0);
        parts.push((OptionValue { text, ..value }.block_bytes()?, percent));
    }
    // As in fio, the size with the largest percentage gets the rest of a smaller sum; the last size of several such.
    let percents = parts.iter().map(|(_, percent)| percent.unwrap_or(100));
    if percents.fold(0, u64::saturating_add) < 100 {
        let largest = parts.iter_mut().max_by_key(|(_, percent)| *percent);
        largest.into_iter().for_each(|(_, percent)| *percent = None);
    }
    let percents = complete_percentages(parts.iter().map(|(_, percent)| *percent))?;
    Ok(Sizes::Split(
        parts
            .into_iter()
            .zip(percents)
            .map(|((bytes, _), percent)| (bytes, percent))
            .collect(),
    ))
}

/// Missing percentages share the rest to 100. Errors: a sum above 100; a sum below 100 without a missing percentage.
fn complete_percentages(
    percentages: impl Iterator<Item = Option<u64>> + Clone,
) -> Result<Vec<u64>, String> {
    let sum = percentages.clone().flatten().fold(0, u64::saturating_add);
    let blank = percentages.clone().filter(Option::is_none).count() as u64;
    match 100_u64.checked_sub(sum) {
        None => Err(format!("the percentages add up to {sum}, more than 100")),
        Some(1..) if blank == 0 => Err(format!("the percentages add up to {sum}, not 100")),
        Some(rest) => {
            // Shares are whole percents. The first shares take the remainder of the division.
            let mut shares =
                (0..blank).map(|number| rest / blank + u64::from(number < rest % blank));
            Ok(percentages
                .map(|percent| percent.or_else(|| shares.next()).unwrap_or(0))
                .collect())
        }
    }
}
