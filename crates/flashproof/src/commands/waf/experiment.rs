//! Experiments of `flashproof waf` on a simulated drive: tenants in one arrangement, sweeps of one assumption, and
//! preparations for random writes.

use crate::preparation::RandomWrites;
use device::guard::RandomOrder;
use engine::DeviceName;
use engine::sim::{DriveSpec, FtlDrive, size_bytes};
use ftl::Ftl;
use ftl::over_provisioning::BothConventions;
use load::keys::Keys;
use load::memory;
use load::workload::CannotRun;
use report::document::Pair;
use report::waf::{
    Arranged, FORMAT_VERSION, Latency, Preparations, Sweep, SweepPoint, Timed, Worn,
};
use results::cell::{Cell, StreamInfo};
use results::counts::Backlog;
use results::format::{self, quoted};
use session::console;
use session::failure::Failure;
use session::runner::tool;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use tenants::waf::prepared::{PreparationMethod, SteadyDrive};
use tenants::waf::{self, Arrangement, Experiment, Interleaving, TenantLayout};
use tenants::{self, Reuse, Tenant, Tenants};

const PROGRESS_INTERVAL: Duration = Duration::from_secs(10);

#[derive(Debug, Clone)]
pub(super) struct Setup {
    pub tenants: Tenants,
    /// Description of the drive as given, and its parsed parts.
    pub drive_text: String,
    pub base: DriveSpec,
    pub drive: FtlDrive,
    pub interleaving: Interleaving,
    pub seed: u64,
    pub fills_max: usize,
    /// True to also measure the latencies of clients.
    pub is_timed: bool,
}

/// The simulated drive of this description. Errors: a real drive, or no FTL.
pub(super) fn simulated(name: &str) -> Result<(DriveSpec, FtlDrive), Failure> {
    let device: DeviceName = name.parse().map_err(Failure::usage)?;
    let drive = device.drive().cloned().ok_or_else(|| {
        Failure::usage(format!(
            "{} is not a simulated drive - give one: sim:ftl+...",
            format::quoted(name)
        ))
    })?;
    let ftl = drive.ftl.clone().ok_or_else(|| {
        Failure::usage(format!(
            "cannot compute the write amplification of {device} - it has no FTL - give a drive with one: sim:ftl+..."
        ))
    })?;
    Ok((drive, ftl))
}

pub(super) fn assumed_of_tenants(tenants: &Tenants) -> Vec<Pair> {
    tenants.tenants.iter().map(|tenant: &Tenant| {
        let value = format!(
            "write block {} KiB, records of {} bytes, keys {}, fill {}, low-water mark {} %, free blocks reused {}, {} records \
             written per second",
            tenant.write_block_bytes >> 10,
            tenant.record_bytes,
            tenant.keys,
            format::percent_exact(tenant.fill),
            tenant.defrag_lwm_pct,
            tenant.reuse,
            format::number(tenant.writes.per_sec_f64()),
        );
        Pair::new(&tenant.name, value)
    }).collect()
}

/// Runs one arrangement until it is steady. Returns the result, and a description of the drives.
pub(super) fn arrange(
    setup: &Setup,
    arrangement: Arrangement,
) -> Result<(Arranged, String), CannotRun> {
    let layout = TenantLayout::new(arrangement, &setup.tenants, &setup.drive)?;
    let mut experiment = Experiment::new(&layout, setup.interleaving, setup.seed)?;
    let mut last_message = Instant::now();
    let counted = experiment.run(setup.fills_max, |found| {
        if last_message.elapsed() >= PROGRESS_INTERVAL {
            last_message = Instant::now();
            let last = found
                .fills(found.rounds() - 1, found.rounds())
                .waf()
                .unwrap_or(1.0);
            console::note(&format!(
                "{arrangement}: {}, WAF of the last fill {last:.2}",
                format::count(found.rounds() as u64, "drive fill")
            ));
        }
        true
    })?;
    let shapes = layout
        .drives
        .iter()
        .zip(experiment.drives())
        .map(|(drive, ftl)| {
            format!(
                "{}: {} in {} superblocks of {}, {} over-provisioning, {} dies",
                drive.name,
                format::bytes(drive.drive.spec.logical_bytes as f64),
                ftl.superblocks(),
                format::bytes(drive.drive.spec.superblock_bytes as f64),
                format::percent(ftl.over_provisioning()),
                drive.drive.flash.dies_total()
            )
        });
    let shapes = shapes.collect::<Vec<_>>().join("; ");
    let erases = counted
        .drives
        .iter()
        .zip(&layout.drives)
        .map(|(drive, drive_layout)| {
            drive
                .octiles
                .iter()
                .map(|octile| octile.erased)
                .sum::<u64>()
                / drive_layout.drive.spec.superblock_bytes
        });
    let mut erase_counts = BTreeMap::new();
    for (erases, superblocks) in experiment.drives().iter().flat_map(Ftl::erase_histogram) {
        *erase_counts.entry(*erases).or_default() += superblocks;
    }
    let erase_histogram = erase_counts
        .into_iter()
        .map(|(erases, superblocks)| Worn {
            erases,
            superblocks,
        })
        .collect();
    let timed = match counted.steady_after {
        Some(_) if setup.is_timed => Some(with_time(waf::timed(
            experiment,
            &layout,
            &setup.base,
            setup.seed,
        )?)),
        _ => None,
    };
    let arranged = Arranged {
        erases: Some(erases.sum()),
        erase_histogram,
        ..Arranged::new(&arrangement.to_string(), counted, timed)
    };
    Ok((arranged, shapes))
}

/// Latencies of clients, and the amplification in the same period.
fn with_time(result: waf::TimedResult) -> Timed {
    Timed {
        latencies: latencies(
            result
                .streams
                .iter()
                .map(|(stream, cell)| (stream, cell, cell.counts.backlog)),
            result.seconds,
        ),
        seconds: result.seconds,
        drive_fills: result.fills,
        device_waf: result.bytes.waf(),
        ended_early: result.end_cause.map(|cause| cause.to_string()),
    }
}

pub(super) fn latencies<'a>(
    streams: impl Iterator<Item = (&'a StreamInfo, &'a Cell, Backlog)>,
    seconds: f64,
) -> Vec<Latency> {
    streams
        .filter(|(_, cell, _)| cell.counts.counted_ops() > 0)
        .filter_map(|(stream, cell, end): (&'a StreamInfo, &'a Cell, Backlog)| {
            Some(Latency::new(
                tenants::client_stream(&stream.name)?,
                cell,
                end,
                seconds,
            ))
        })
        .collect()
}

const DEFAULT_VALUES: [(&str, &str); 11] = [
    ("op", "7%:10%:12%:14.5%:18%:22%:28%"),
    ("fill", "30:40:50:55:60:65"),
    ("handles", "1:2:4"),
    ("lwm", "30:40:50:55"),
    ("record", "256:512:1100:2048"),
    ("keys", "uniform:zipfian"),
    ("reuse", "fifo:lowest:random"),
    ("rates", "given:equal:reversed"),
    ("command", "32KiB:128KiB:512KiB"),
    ("in-flight", "1:4:16"),
    ("victim", "greedy:fifo:cost-benefit"),
];

/// An assumption and the experiments in which it varies.
pub(super) struct SweepPlan {
    parameter: String,
    points: Vec<(String, Setup)>,
}

/// Parses the arguments of `--sweep`: NAME or NAME=VALUE:VALUE:...
pub(super) fn parsed(arguments: &[String], setup: &Setup) -> Result<Vec<SweepPlan>, Failure> {
    arguments.iter().map(|text| one(text, setup)).collect()
}

fn one(text: &str, setup: &Setup) -> Result<SweepPlan, Failure> {
    let (parameter, values) = match text.split_once('=') {
        Some(given) => given,
        None => match DEFAULT_VALUES.iter().find(|(name, _)| *name == text) {
            Some(usual) => *usual,
            None => {
                let names: Vec<_> = DEFAULT_VALUES.iter().map(|(name, _)| *name).collect();
                return Err(Failure::usage(format!(
                    "cannot sweep {} without values - only {} have default values - give values: {text}=A:B:C",
                    quoted(text),
                    names.join(", ")
                )));
            }
        },
    };
    let points = values.split(':').map(|value| {
        let setup = Setup {
            is_timed: false,
            ..varied(setup, parameter, value)?
        };
        Ok((value.to_owned(), setup))
    });
    Ok(SweepPlan {
        parameter: parameter.to_owned(),
        points: points.collect::<Result<_, Failure>>()?,
    })
}

fn varied(setup: &Setup, parameter: &str, value: &str) -> Result<Setup, Failure> {
    let mut setup = setup.clone();
    let is_known = set_parameter(&mut setup, parameter, value).map_err(|expected| {
        Failure::usage(format!(
            "cannot sweep {parameter} over {} - give {expected}",
            quoted(value)
        ))
    })?;
    if is_known {
        return Ok(setup);
    }
    setup.drive_text = with_parameter(&setup.drive_text, parameter, value);
    (setup.base, setup.drive) = simulated(&setup.drive_text)?;
    let handles = usize::from(setup.drive.spec.handles);
    let tenants = setup.tenants.tenants.len();
    // With fewer handles than tenants, adjacent tenants share a handle.
    if parameter == "handles" && handles < tenants {
        for (number, tenant) in setup.tenants.tenants.iter_mut().enumerate() {
            tenant.placement = Some((number * handles / tenants) as u16 + 1);
            tenant.defrag_placement = None;
        }
    }
    Ok(setup)
}

/// Sets a parameter of tenants or interleaving; false for a parameter of the drive. Errors: the valid values.
fn set_parameter(setup: &mut Setup, parameter: &str, value: &str) -> Result<bool, &'static str> {
    let tenants = &mut setup.tenants.tenants;
    let percent = value.trim_end_matches('%');
    let number = percent.parse::<u32>().ok();
    match parameter {
        "fill" => {
            let fill = percent.parse::<f64>().ok();
            let fill = fill
                .filter(|fill| *fill > 0.0 && *fill < 100.0)
                .ok_or("percent of the space, more than 0 and less than 100")?;
            tenants
                .iter_mut()
                .for_each(|tenant| tenant.fill = fill / 100.0);
        }
        "lwm" => {
            let lwm = number.filter(|lwm| (1..=99).contains(lwm));
            let lwm = lwm.ok_or("percent from 1 to 99")?;
            tenants
                .iter_mut()
                .for_each(|tenant| tenant.defrag_lwm_pct = lwm);
        }
        "record" => {
            let bytes = number.filter(|bytes| (1..=32 << 10).contains(bytes));
            // Records are stored in multiples of 16 bytes.
            let bytes = bytes.ok_or("bytes from 1 to 32768")?.next_multiple_of(16);
            tenants
                .iter_mut()
                .for_each(|tenant| tenant.record_bytes = bytes);
        }
        "keys" => {
            let keys = match value {
                "uniform" => Keys::Uniform,
                "zipfian" => Keys::Zipfian { theta: 0.99 },
                "sequential" => Keys::Sequential,
                _ => return Err("uniform, zipfian or sequential"),
            };
            tenants.iter_mut().for_each(|tenant| tenant.keys = keys);
        }
        "reuse" => {
            let all = [Reuse::Fifo, Reuse::Lowest, Reuse::Random];
            let reuse = all.into_iter().find(|reuse| reuse.to_string() == value);
            let reuse = reuse.ok_or("fifo, lowest or random")?;
            tenants.iter_mut().for_each(|tenant| tenant.reuse = reuse);
        }
        "rates" => {
            let mut rates: Vec<_> = tenants.iter().map(|tenant| tenant.writes).collect();
            match value {
                "given" => {}
                "equal" => rates = vec![rates[0]; rates.len()],
                "reversed" => rates.reverse(),
                _ => return Err("given, equal or reversed"),
            }
            for (tenant, rate) in tenants.iter_mut().zip(rates) {
                tenant.writes = rate;
            }
        }
        "command" => {
            let bytes = size_bytes(value).filter(|bytes| (4 << 10..=64 << 20).contains(bytes));
            setup.interleaving.command_bytes = bytes.ok_or("a size such as 128KiB")? as u32;
        }
        "in-flight" => {
            let in_flight = number.filter(|blocks| (1..=4_096).contains(blocks));
            setup.interleaving.in_flight = in_flight.ok_or("a number of blocks from 1 to 4096")?;
        }
        _ => return Ok(false),
    }
    Ok(true)
}

fn with_parameter(drive_text: &str, parameter: &str, value: &str) -> String {
    let others: Vec<_> = drive_text
        .split('+')
        .filter(|part: &&str| {
            let name = part.split('=').next().unwrap_or_default();
            // `op` and `op-of-flash` are two names of the same parameter.
            name != parameter
                && !(parameter == "op" && name == "op-of-flash"
                    || parameter == "op-of-flash" && name == "op")
        })
        .collect();
    format!("{}+{parameter}={value}", others.join("+"))
}

pub(super) fn swept(plan: &SweepPlan, arrangements: &[Arrangement]) -> Sweep {
    let is_handles = plan.parameter == "handles";
    let mut arrangements = arrangements.to_vec();
    if is_handles && !arrangements.contains(&Arrangement::Fdp) {
        arrangements.push(Arrangement::Fdp);
    }
    let mut waf = Vec::new();
    for arrangement in arrangements {
        let has_handles = !matches!(arrangement, Arrangement::Dedicated | Arrangement::Shared);
        let mut points: Vec<SweepPoint> = Vec::new();
        for (_, setup) in &plan.points {
            // The number of handles does not change an arrangement without handles; its result is repeated for comparison.
            let repeated = points.first().filter(|_| is_handles && !has_handles);
            points.push(match repeated {
                Some(point) => point.clone(),
                None => sweep_point(setup, arrangement),
            });
        }
        waf.push((arrangement.to_string(), points));
    }
    let values: Vec<String> = plan.points.iter().map(|(value, _)| value.clone()).collect();
    let (numbers, unit) = axis_values(&plan.parameter, &values);
    Sweep {
        parameter: plan.parameter.clone(),
        numbers,
        unit: unit.to_owned(),
        values,
        waf,
    }
}

fn sweep_point(setup: &Setup, arrangement: Arrangement) -> SweepPoint {
    match arrange(setup, arrangement) {
        Ok((arranged, _)) => match arranged.waf {
            Some(waf) => SweepPoint::Waf(waf),
            None => {
                let fills_max = setup.fills_max;
                SweepPoint::Missing(format!(
                    "not steady within {fills_max} drive fills - give a larger --max-fills"
                ))
            }
        },
        Err(why) => SweepPoint::Missing(why.to_string()),
    }
}

/// Values as numbers on an axis, and their unit; sizes have the unit of the largest. `None`: a value is not a number.
fn axis_values(parameter: &str, values: &[String]) -> (Option<Vec<f64>>, &'static str) {
    // Over-provisioning without `%` is a fraction, as in the drive's description.
    let percent_factor = if parameter.starts_with("op") {
        100.0
    } else {
        1.0
    };
    let numbers: Option<_> = values.iter().map(|value| value.parse().ok()).collect();
    if let Some(numbers) = numbers.filter(|_| percent_factor == 1.0) {
        return (Some(numbers), "");
    }
    let percents = values.iter().map(|value| match value.strip_suffix('%') {
        Some(percent) => percent.parse().ok(),
        None => value.parse().ok().map(|share: f64| share * percent_factor),
    });
    if let Some(percents) = percents.collect() {
        return (Some(percents), "%");
    }
    let bytes: Option<Vec<_>> = values.iter().map(|value| size_bytes(value)).collect();
    let Some(bytes) = bytes else {
        return (None, "");
    };
    let largest = bytes.iter().copied().max().unwrap_or(0) as f64;
    let units = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)]
        .map(|(name, shift)| (name, (1_u64 << shift) as f64));
    let (unit, factor) = units
        .into_iter()
        .find(|(_, unit)| largest >= *unit)
        .unwrap_or(("bytes", 1.0));
    (
        Some(bytes.iter().map(|bytes| *bytes as f64 / factor).collect()),
        unit,
    )
}

/// Prepares `drive_text` by random fills, by SPRandom, and by one pass with the settings `random_writes`.
pub fn preparations(
    drive_text: &str,
    random_writes: &RandomWrites,
    seed: u64,
) -> Result<Preparations, Failure> {
    let (_, drive) = simulated(drive_text)?;
    memory::check(2 * drive.spec.memory_bytes())
        .map_err(|why| Failure::environment(format!("{drive_text}: {why}")))?;
    let cannot = |why: String| Failure::usage(format!("cannot prepare {drive_text} - {why}"));
    let steady =
        SteadyDrive::from_spec(&drive.spec, seed).map_err(|error| cannot(error.to_string()))?;
    let over_provisioning = random_writes
        .over_provisioning
        .unwrap_or(steady.over_provisioning());
    let RandomOrder {
        block_bytes,
        cache_bytes,
        ..
    } = random_writes.order(drive.spec.logical_bytes, drive.spec.logical_bytes);
    let methods = [
        PreparationMethod::Random(2),
        PreparationMethod::SequentialThenRandom(2),
        PreparationMethod::Sprandom { over_provisioning },
        PreparationMethod::Ordered {
            over_provisioning,
            block_bytes,
            cache_bytes,
        },
    ];
    // From about this over-provisioning on, SPRandom's formula gives a WAF of 1 or less.
    let outcomes = methods
        .into_iter()
        .filter(|method: &PreparationMethod| {
            !matches!(method, PreparationMethod::Sprandom { .. }) || over_provisioning < 1.5
        })
        .map(|method| steady.after(method).map_err(cannot));
    Ok(Preparations {
        format_version: FORMAT_VERSION,
        made_by: tool(),
        drive: drive_text.to_owned(),
        over_provisioning: BothConventions(steady.over_provisioning()).to_string(),
        waf: steady.waf,
        found: outcomes.collect::<Result<_, Failure>>()?,
        valid: steady.valid,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::docs_page::{assert_page, with_part};

    #[test]
    fn swept_values_are_scaled_by_their_units() {
        let of = |parameter, values: &[&str]| {
            axis_values(
                parameter,
                &values
                    .iter()
                    .map(|value| (*value).to_owned())
                    .collect::<Vec<_>>(),
            )
        };
        let line = |values: &[&str]| of("superblock", values);
        assert_eq!(
            of("op", &["0.07", "28%"]),
            (Some(vec![7.000000000000001, 28.0]), "%")
        );
        assert_eq!(
            line(&["512KiB", "1MiB", "4MiB"]),
            (Some(vec![0.5, 1.0, 4.0]), "MiB")
        );
        assert_eq!(line(&["7%", "14.5%"]), (Some(vec![7.0, 14.5]), "%"));
        assert_eq!(line(&["30", "40%"]), (Some(vec![30.0, 40.0]), "%"));
        assert_eq!(line(&["1", "4", "16"]), (Some(vec![1.0, 4.0, 16.0]), ""));
        assert_eq!(line(&["uniform", "4"]), (None, ""));
    }

    /// A drive with a thousand superblocks of 256 units.
    fn on(parameters: &str) -> String {
        format!("sim:ftl+capacity=1GiB+superblock=1MiB+page=4KiB+reserve=1+{parameters}")
    }

    fn page() -> String {
        let mut all: Option<Preparations> = None;
        let mut add =
            |drive: &str, parameters: &str, for_pct: Option<f64>, block_bytes: u32, from: usize| {
                let over_provisioning = for_pct.map(|pct| pct / 100.0);
                let ours = RandomWrites {
                    over_provisioning,
                    block_bytes,
                    cache_bytes: None,
                };
                let mut more = preparations(&on(parameters), &ours, 1).unwrap();
                more.found.drain(..from);
                more.found
                    .iter_mut()
                    .for_each(|of| of.preparation = format!("{drive}: {}", of.preparation));
                match &mut all {
                    Some(all) => all.found.append(&mut more.found),
                    None => all = Some(more),
                }
            };
        for op in [7, 10, 15, 20, 28] {
            add(&format!("{op} %"), &format!("op={op}%"), None, 4096, 0);
        }
        for (op, pct) in [(28, 7.0), (28, 15.0), (15, 28.0), (7, 28.0)] {
            add(&format!("{op} %"), &format!("op={op}%"), Some(pct), 4096, 3);
        }
        add("15 %", "op=15%", None, 32 << 10, 3);
        for victim in ["fifo", "cost-benefit", "d-choices-10", "d-choices-3"] {
            add(
                &format!("15 %, {victim}"),
                &format!("op=15%+victim={victim}"),
                None,
                4096,
                3,
            );
        }
        all.unwrap().table().markdown()
    }

    #[test]
    fn docs_prep_md_has_the_current_table_of_preparations() {
        assert_page("prep.md", "flashproof --lib waf::experiment", |written| {
            with_part(
                written,
                "<!-- preparations -->\n",
                &page(),
                "<!-- end of preparations -->",
            )
        });
    }
}
