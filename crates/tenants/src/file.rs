//! The TOML format of tenants, and their positions on devices.

use super::{Reuse, SpaceSize, Tenant, TenantSpace, Tenants};
use engine::sim::size_bytes;
use load::choice::{Choice, Engine};
use load::keys::Keys;
use load::rate::Rate;
use load::sizes::stored_bytes;
use load::workload::CannotRun;
use results::format::{self, Grouped, quoted};
use serde::Deserialize;
use std::ops::{Range, RangeInclusive};
use toml::Spanned;

/// Longest name of a tenant: it becomes part of stream names.
const NAME_MAX: usize = 32;

/// Maximum tenants in a file; an NVMe drive has at most 128 placement handles.
const TENANTS_MAX: usize = 128;

/// Allowed sizes of a write block: the server's sizes, and smaller sizes.
const WRITE_BLOCK_BYTES: RangeInclusive<u64> = 32 << 10..=8 << 20;

/// Maximum rate, per second.
const OPERATIONS_MAX: u64 = 1_000_000_000;

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct File {
    operations_per_sec: Option<u64>,
    duration_sec: Option<u32>,
    seed: Option<u64>,
    engine: Option<String>,
    #[serde(default)]
    defaults: TenantOptions,
    #[serde(default)]
    tenant: Vec<Spanned<TenantOptions>>,
}

/// Options of a tenant, or the defaults of all tenants.
#[derive(Deserialize, Default, Clone)]
// Error messages contain the text of `expecting`.
#[serde(
    rename_all = "kebab-case",
    deny_unknown_fields,
    expecting = "struct Options"
)]
struct TenantOptions {
    name: Option<String>,
    device: Option<String>,
    space_pct: Option<f64>,
    space: Option<String>,
    at: Option<String>,
    write_block: Option<String>,
    record_bytes: Option<u32>,
    fill_pct: Option<f64>,
    defrag_lwm_pct: Option<u32>,
    keys: Option<Keys>,
    reuse: Option<Reuse>,
    weight: Option<u32>,
    mix: Option<YcsbMix>,
    read_pct: Option<u32>,
    reads_per_sec: Option<u64>,
    writes_per_sec: Option<u64>,
    placement: Option<u16>,
    defrag_placement: Option<u16>,
}

/// Shares of reads and updates of the Yahoo! Cloud Serving Benchmark.
#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "kebab-case")]
enum YcsbMix {
    YcsbA,
    YcsbB,
    YcsbC,
}

impl YcsbMix {
    fn read_pct(self) -> u32 {
        match self {
            Self::YcsbA => 50,
            Self::YcsbB => 95,
            Self::YcsbC => 100,
        }
    }
}

struct KeyError {
    key: &'static str,
    why: String,
}

fn wrong<T>(key: &'static str, why: impl Into<String>) -> Result<T, KeyError> {
    Err(KeyError {
        key,
        why: why.into(),
    })
}

/// `value` if it `is_valid`; otherwise an error that asks for a value of `key` as described by `expected`.
fn fitting<T: std::fmt::Display>(
    key: &'static str,
    value: T,
    is_valid: impl Fn(&T) -> bool,
    expected: impl std::fmt::Display,
) -> Result<T, KeyError> {
    if is_valid(&value) {
        Ok(value)
    } else {
        wrong(key, format!("is {value} - give {expected}"))
    }
}

impl Tenants {
    /// Parses `text`, the content of the file `path`. Errors: the first mistake, with its line.
    pub fn parse(path: &str, text: &str) -> Result<Self, CannotRun> {
        let path = format::printable(path);
        let file: File = toml::from_str(text).map_err(|error| {
            let why = format::in_one_line(&error.message().chars().take(400).collect::<String>());
            let offset = error.span().map_or(0, |span| span.start);
            error_at(&path, text, offset, &why)
        })?;
        let count = file.tenant.len();
        if count == 0 || count > TENANTS_MAX {
            let why = format!(
                "the file has {} - give 1 to {TENANTS_MAX}, each as [[tenant]]",
                format::count(count as u64, "tenant")
            );
            return Err(CannotRun(format!("{path}: {why}")));
        }
        let weights: u64 = file
            .tenant
            .iter()
            .map(|own| u64::from(weight(own.get_ref(), &file.defaults)))
            .sum();
        let mut tenants: Vec<Tenant> = Vec::new();
        for entry in &file.tenant {
            let entry_start = entry.span().start;
            let tenant =
                tenant(entry.get_ref(), &file, weights).and_then(|tenant| match &tenants {
                    earlier if earlier.iter().any(|other| other.name == tenant.name) => wrong(
                        "name",
                        format!(
                            "{} is the name of two tenants - give each its own",
                            quoted(&tenant.name)
                        ),
                    ),
                    _ => Ok(tenant),
                });
            tenants.push(tenant.map_err(|KeyError { key, why }| {
                let offset = offset_of(text, entry_start, key);
                error_at(&path, text, offset, &format!("{key}: {why}"))
            })?);
        }
        let tenants = shared_out(tenants);
        let duration_sec = file.duration_sec.unwrap_or(3_600);
        if duration_sec == 0 {
            let offset = offset_of(text, 0, "duration-sec");
            let why = "duration-sec: is 0 - give at least 1";
            return Err(error_at(&path, text, offset, why));
        }
        let engine = match file.engine.as_deref() {
            None => Engine::default(),
            Some(word) => Engine::from_word(word).ok_or_else(|| {
                let why = format!(
                    "engine: is {} - give one of {}",
                    quoted(word),
                    Engine::WORDS.join(", ")
                );
                error_at(&path, text, offset_of(text, 0, "engine"), &why)
            })?,
        };
        Ok(Self {
            tenants,
            duration_sec,
            seed: file.seed,
            engine,
        })
    }

    /// Indices and byte ranges of the tenants on `device`, which has `device_bytes`. Tenants that name no device are on
    /// this device if `is_default`. Errors: the tenants do not fit the device, or overlap.
    pub fn layout(
        &self,
        device: &str,
        is_default: bool,
        device_bytes: u64,
    ) -> Result<Vec<(usize, Range<u64>)>, CannotRun> {
        let tenants_here: Vec<_> = self
            .tenants
            .iter()
            .enumerate()
            .filter(|(_, tenant)| match &tenant.device {
                Some(own) => own == device,
                None => is_default,
            })
            .collect();
        let device = format::printable(device);
        let mut placed: Vec<(usize, Range<u64>)> = Vec::new();
        // Ranges are aligned to the largest block, so that each begins at a multiple of its own block size.
        let align_bytes = tenants_here
            .iter()
            .map(|(_, tenant)| u64::from(tenant.write_block_bytes))
            .max()
            .unwrap_or(1);
        let mut next_start = 0;
        for (index, tenant) in tenants_here {
            let block = u64::from(tenant.write_block_bytes);
            let start = tenant.space.at.unwrap_or(next_start);
            let size = match tenant.space.size {
                SpaceSize::Bytes(bytes) => bytes,
                // A double is exact to a byte up to 2^53. The size is rounded down to whole blocks in any case.
                SpaceSize::Pct(pct) => {
                    (device_bytes as f64 * (pct / 100.0)) as u64 / align_bytes * align_bytes
                }
            };
            for (property, bytes) in [("begins at byte", start), ("has a size of", size)] {
                if bytes % block != 0 {
                    return Err(tenant.cannot(format_args!(
                        "its space on {device} {property} {}, not a multiple of its write block of {} bytes - give {} or {}",
                        Grouped(bytes),
                        Grouped(block),
                        bytes / block * block,
                        bytes.next_multiple_of(block)
                    )));
                }
            }
            if size == 0 {
                return Err(tenant.cannot(format_args!(
                    "its share of {device} is smaller than {}, the largest write block of the tenants there - give the \
                     tenant more space, or another device",
                    format::bytes(align_bytes as f64)
                )));
            }
            let end = start.saturating_add(size);
            if end > device_bytes {
                return Err(tenant.cannot(format_args!(
                    "cannot use bytes {} to {} of {device} - the device has {} bytes - give the tenant less space, or another \
                     device",
                    Grouped(start),
                    Grouped(end),
                    Grouped(device_bytes)
                )));
            }
            let range = start..end;
            if let Some((other_index, other_range)) = placed.iter().find(|(_, other_range)| {
                other_range.start < range.end && range.start < other_range.end
            }) {
                return Err(tenant.cannot(format_args!(
                    "cannot use bytes {} to {} of {device} - tenant {} has bytes {} to {} - move one of the tenants (at), or make \
                     one smaller",
                    Grouped(range.start),
                    Grouped(range.end),
                    quoted(&self.tenants[*other_index].name),
                    Grouped(other_range.start),
                    Grouped(other_range.end)
                )));
            }
            next_start = end.next_multiple_of(align_bytes);
            placed.push((index, range));
        }
        Ok(placed)
    }
}

fn error_at(path: &str, text: &str, offset: usize, why: &str) -> CannotRun {
    let line = text.as_bytes()[..offset.min(text.len())]
        .iter()
        .filter(|byte| **byte == b'\n')
        .count()
        + 1;
    CannotRun(format!("{path} line {line}: {why}"))
}

/// Offset of `key` in the text. Searched in this order: the tenant's table, which begins at `start`; the defaults; the
/// top level. If the key is missing: `start`.
fn offset_of(text: &str, start: usize, key: &str) -> usize {
    find_key(text, start, key)
        .or_else(|| find_key(text, text.find("[defaults]")?, key))
        .or_else(|| find_key(text, 0, key))
        .unwrap_or(start)
}

fn find_key(text: &str, table_start: usize, key: &str) -> Option<usize> {
    let mut offset = table_start;
    for line in text
        .get(table_start..)
        .unwrap_or_default()
        .split_inclusive('\n')
    {
        let trimmed = line.trim_start();
        if trimmed.starts_with('[') && offset > table_start {
            break;
        }
        if trimmed
            .strip_prefix(key)
            .is_some_and(|rest| rest.trim_start().starts_with('='))
        {
            return Some(offset);
        }
        offset += line.len();
    }
    None
}

fn weight(options: &TenantOptions, defaults: &TenantOptions) -> u32 {
    options.weight.or(defaults.weight).unwrap_or(1)
}

/// Makes a tenant from its options `own` and the defaults in `file`. `weights`: sum of the weights of all tenants.
fn tenant(own: &TenantOptions, file: &File, weights: u64) -> Result<Tenant, KeyError> {
    let defaults = &file.defaults;
    macro_rules! given {
        ($field:ident) => {
            own.$field.clone().or_else(|| defaults.$field.clone())
        };
    }
    let name = name(own)?;
    let write_block_bytes = given!(write_block).unwrap_or_else(|| "128KiB".to_owned());
    let write_block_bytes = match size_bytes(&write_block_bytes.replace(' ', "")) {
        Some(bytes) if WRITE_BLOCK_BYTES.contains(&bytes) && bytes.is_power_of_two() => {
            bytes as u32
        }
        _ => {
            return wrong(
                "write-block",
                format!(
                    "is {} - give a power of two from 32KiB to 8MiB",
                    quoted(&write_block_bytes)
                ),
            );
        }
    };
    let record_bytes = given!(record_bytes).unwrap_or(1_024);
    let expected = format!("1 to {write_block_bytes}, the write block");
    let record_bytes = fitting(
        "record-bytes",
        record_bytes,
        |bytes| (1..=write_block_bytes).contains(bytes),
        expected,
    )?;
    let expected = "more than 0 and less than 100: live records, percent of the space";
    let fill_pct = fitting(
        "fill-pct",
        given!(fill_pct).unwrap_or(50.0),
        |pct| *pct > 0.0 && *pct < 100.0,
        expected,
    )?;
    let lwm_pct = given!(defrag_lwm_pct).unwrap_or(50);
    let defrag_lwm_pct = fitting(
        "defrag-lwm-pct",
        lwm_pct,
        |pct| (1..=99).contains(pct),
        "1 to 99",
    )?;
    for (key, placement) in [
        ("placement", given!(placement)),
        ("defrag-placement", given!(defrag_placement)),
    ] {
        if placement == Some(0) {
            return wrong(key, "is 0 - placement handles are counted from 1");
        }
    }
    let placement = given!(placement);
    let (reads, writes) = rates(own, file, weights)?;
    Ok(Tenant {
        name,
        device: device(given!(device))?,
        space: space(own, defaults)?,
        write_block_bytes,
        record_bytes: stored_bytes(record_bytes),
        fill: fill_pct / 100.0,
        defrag_lwm_pct,
        keys: checked(given!(keys).unwrap_or(Keys::Uniform))?,
        reuse: given!(reuse).unwrap_or_default(),
        reads,
        writes,
        placement,
        defrag_placement: given!(defrag_placement).or(placement),
    })
}

fn name(options: &TenantOptions) -> Result<String, KeyError> {
    let Some(name) = &options.name else {
        return wrong("name", "is missing - give each tenant a name");
    };
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    if !name.is_empty() && name.len() <= NAME_MAX && name.chars().all(is_plain) {
        Ok(name.clone())
    } else {
        wrong(
            "name",
            format!(
                "is {} - give 1 to {NAME_MAX} letters, digits, \".\", \"-\", \"_\"",
                shown(name)
            ),
        )
    }
}

/// Text from a file for a message: shortened, because it can be a megabyte long.
fn shown(text: &str) -> String {
    quoted(&text.chars().take(80).collect::<String>())
}

fn device(name: Option<String>) -> Result<Option<String>, KeyError> {
    match name {
        Some(name) if name.is_empty() || name.contains('\0') => wrong(
            "device",
            format!(
                "is {} - give the path of a device, or \"sim:\"",
                shown(&name)
            ),
        ),
        name => Ok(name),
    }
}

fn checked(keys: Keys) -> Result<Keys, KeyError> {
    let is_part = |pct: f64| pct > 0.0 && pct < 100.0;
    match keys {
        Keys::Zipfian { theta } if !(theta > 0.0 && theta <= 10.0) => wrong(
            "keys",
            format!("theta is {theta} - give more than 0 and at most 10; 0.99 in YCSB"),
        ),
        Keys::HotCold {
            keys_pct,
            traffic_pct,
        } if !is_part(keys_pct) || !is_part(traffic_pct) => wrong(
            "keys",
            format!(
                "keys-pct is {keys_pct} and traffic-pct {traffic_pct} - give more than 0 and less than 100 for each"
            ),
        ),
        keys => Ok(keys),
    }
}

fn space(options: &TenantOptions, defaults: &TenantOptions) -> Result<TenantSpace, KeyError> {
    let (given_bytes, pct) = match (&options.space, options.space_pct) {
        (Some(_), Some(_)) => {
            return wrong(
                "space-pct",
                "is given together with space - give only one of them",
            );
        }
        (None, None) => (
            optional_bytes("space", &defaults.space)?,
            defaults.space_pct,
        ),
        (space, pct) => (optional_bytes("space", space)?, pct),
    };
    let size = match (given_bytes, pct) {
        (Some(0), _) => return wrong("space", "is 0 - give a size such as \"480GB\""),
        (Some(bytes), _) => SpaceSize::Bytes(bytes),
        (None, Some(pct)) => SpaceSize::Pct(fitting(
            "space-pct",
            pct,
            |pct| *pct > 0.0 && *pct <= 100.0,
            "more than 0 and at most 100",
        )?),
        (None, None) => SpaceSize::Pct(0.0),
    };
    Ok(TenantSpace {
        size,
        at: optional_bytes("at", &options.at)?,
    })
}

fn optional_bytes(key: &'static str, text: &Option<String>) -> Result<Option<u64>, KeyError> {
    let Some(text) = text else { return Ok(None) };
    match size_bytes(&text.replace(' ', "")) {
        Some(bytes) => Ok(Some(bytes)),
        None => wrong(
            key,
            format!(
                "is {} - give a size such as \"480GB\" or \"64GiB\"",
                shown(text)
            ),
        ),
    }
}

/// Tenants without a size get equal shares of the part of their device that the other tenants leave, in percent.
fn shared_out(mut tenants: Vec<Tenant>) -> Vec<Tenant> {
    let devices: Vec<_> = tenants.iter().map(|tenant| tenant.device.clone()).collect();
    for device in &devices {
        let on_device = || tenants.iter().filter(|tenant| tenant.device == *device);
        let given_pct: f64 = on_device()
            .map(|tenant| {
                if let SpaceSize::Pct(pct) = tenant.space.size {
                    pct
                } else {
                    0.0
                }
            })
            .sum();
        let unsized_count = on_device()
            .filter(|tenant| tenant.space.size == SpaceSize::Pct(0.0))
            .count();
        let pct_each = (100.0 - given_pct).max(0.0) / unsized_count.max(1) as f64;
        let unsized_tenants = tenants
            .iter_mut()
            .filter(|tenant| tenant.device == *device && tenant.space.size == SpaceSize::Pct(0.0));
        unsized_tenants.for_each(|tenant| tenant.space.size = SpaceSize::Pct(pct_each));
    }
    tenants
}

/// Reads and writes per second.
fn rates(options: &TenantOptions, file: &File, weights: u64) -> Result<(Rate, Rate), KeyError> {
    let defaults = &file.defaults;
    let absolute = [
        (
            "reads-per-sec",
            options.reads_per_sec.or(defaults.reads_per_sec),
        ),
        (
            "writes-per-sec",
            options.writes_per_sec.or(defaults.writes_per_sec),
        ),
    ];
    if let Some((key, Some(rate))) = absolute
        .iter()
        .find(|(_, rate)| rate.is_some_and(|rate| rate > OPERATIONS_MAX))
    {
        return wrong(
            key,
            format!(
                "is {} - give at most {}",
                Grouped(*rate),
                Grouped(OPERATIONS_MAX)
            ),
        );
    }
    let shares = [
        ("weight", options.weight.is_some()),
        ("mix", options.mix.is_some()),
        ("read-pct", options.read_pct.is_some()),
    ];
    let [(_, reads), (_, writes)] = absolute;
    if reads.is_some() || writes.is_some() {
        if let Some((key, _)) = shares.iter().find(|(_, is_given)| *is_given) {
            return wrong(
                key,
                "is given together with reads-per-sec or writes-per-sec - give rates, or a share of operations-per-sec",
            );
        }
        return match (reads.unwrap_or(0), writes.unwrap_or(0)) {
            (0, 0) => wrong(
                "writes-per-sec",
                "is 0, and so is reads-per-sec - give at least one of them a rate",
            ),
            (reads, writes) => Ok((Rate::per_sec(reads), Rate::per_sec(writes))),
        };
    }
    let Some(total) = file.operations_per_sec else {
        return wrong(
            "writes-per-sec",
            "is missing, and so is operations-per-sec at the top - give rates, or a total that the tenants share",
        );
    };
    let expected = format!("1 to {}", Grouped(OPERATIONS_MAX));
    fitting(
        "operations-per-sec",
        total,
        |total| (1..=OPERATIONS_MAX).contains(total),
        expected,
    )?;
    let read_pct = match (options.mix, options.read_pct) {
        (Some(_), Some(_)) => {
            return wrong(
                "read-pct",
                "is given together with mix - give only one of them",
            );
        }
        (Some(mix), None) => mix.read_pct(),
        (None, Some(pct)) => pct,
        (None, None) => defaults
            .read_pct
            .or(defaults.mix.map(YcsbMix::read_pct))
            .unwrap_or(50),
    };
    fitting("read-pct", read_pct, |pct| *pct <= 100, "0 to 100")?;
    let weight = u128::from(fitting(
        "weight",
        weight(options, defaults),
        |weight| *weight > 0,
        "at least 1",
    )?);
    let weighted_total = u128::from(total) * weight;
    let parts = u128::from(weights) * 100;
    let rate = |pct: u32| Rate::nearest(weighted_total * u128::from(pct), parts);
    Ok((rate(read_pct), rate(100 - read_pct)))
}

#[cfg(test)]
mod tests;
