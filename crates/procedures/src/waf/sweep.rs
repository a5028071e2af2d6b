//! Repeats an experiment with one assumption varied: finds cliffs, and which assumptions matter.

use super::experiment::{Setup, arrange};
use super::simulated;
use engine::sim::size_bytes;
use load::keys::Keys;
use load::waf::Arrangement;
use load::workload::tenants::{Reuse, Tenant};
use report::waf::{Sweep, SweepPoint};
use results::units::quoted;
use session::failure::Failure;

/// Default values of each parameter.
const USUAL: [(&str, &str); 11] = [
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
pub(super) struct Varied {
    parameter: String,
    points: Vec<(String, Setup)>,
}

/// Parses the arguments of `--sweep`: NAME or NAME=VALUE:VALUE:...
///
/// Errors: an unknown name or an invalid value.
pub(super) fn parsed(asked: &[String], setup: &Setup) -> Result<Vec<Varied>, Failure> {
    asked.iter().map(|text| one(text, setup)).collect()
}

fn one(text: &str, setup: &Setup) -> Result<Varied, Failure> {
    let (parameter, values) = match text.split_once('=') {
        Some(given) => given,
        None => match USUAL.iter().find(|(name, _)| *name == text) {
            Some(usual) => *usual,
            None => {
                let names: Vec<_> = USUAL.iter().map(|(name, _)| *name).collect();
                return Err(Failure::usage(format!(
                    "cannot sweep {} - it has no usual values, which {} have - give some: {text}=A:B:C",
                    quoted(text),
                    names.join(", ")
                )));
            }
        },
    };
    let points = values.split(':').map(|value| {
        let setup = Setup { timed: false, ..varied(setup, parameter, value)? };
        Ok((value.to_owned(), setup))
    });
    Ok(Varied { parameter: parameter.to_owned(), points: points.collect::<Result<_, Failure>>()? })
}

/// `setup` with `parameter` set to `value`.
fn varied(setup: &Setup, parameter: &str, value: &str) -> Result<Setup, Failure> {
    let mut setup = setup.clone();
    let wrong =
        |expected: &str| Failure::usage(format!("cannot sweep {parameter} over {} - give {expected}", quoted(value)));
    let number = |range: std::ops::RangeInclusive<u32>, expected: &str| {
        value.trim_end_matches('%').parse::<u32>().ok().filter(|n| range.contains(n)).ok_or_else(|| wrong(expected))
    };
    let mut each = |change: &dyn Fn(&mut Tenant)| setup.tenants.tenants.iter_mut().for_each(change);
    match parameter {
        "fill" => {
            let fill = value.trim_end_matches('%').parse::<f64>().ok().filter(|fill| *fill > 0.0 && *fill < 100.0);
            let fill = fill.ok_or_else(|| wrong("percent of the space, more than 0 and less than 100"))?;
            each(&|tenant| tenant.fill = fill / 100.0);
        }
        "lwm" => {
            let lwm = number(1..=99, "percent from 1 to 99")?;
            each(&|tenant| tenant.defrag_lwm_pct = lwm);
        }
        "record" => {
            // As stored: a multiple of 16 bytes.
            let bytes = number(1..=32 << 10, "bytes from 1 to 32768")?.next_multiple_of(16);
            each(&|tenant| tenant.record_bytes = bytes);
        }
        "keys" => {
            let keys = match value {
                "uniform" => Keys::Uniform,
                "zipfian" => Keys::Zipfian { theta: 0.99 },
                "sequential" => Keys::Sequential,
                _ => return Err(wrong("uniform, zipfian or sequential")),
            };
            each(&|tenant| tenant.keys = keys);
        }
        "reuse" => {
            let reuse = match value {
                "fifo" => Reuse::Fifo,
                "lowest" => Reuse::Lowest,
                "random" => Reuse::Random,
                _ => return Err(wrong("fifo, lowest or random")),
            };
            each(&|tenant| tenant.reuse = reuse);
        }
        "rates" => {
            let mut rates: Vec<_> = setup.tenants.tenants.iter().map(|tenant| tenant.writes).collect();
            match value {
                "given" => {}
                "equal" => rates = vec![rates[0]; rates.len()],
                "reversed" => rates.reverse(),
                _ => return Err(wrong("given, equal or reversed")),
            }
            setup.tenants.tenants.iter_mut().zip(rates).for_each(|(tenant, rate)| tenant.writes = rate);
        }
        "command" => {
            let bytes = size_bytes(value).filter(|bytes| (4 << 10..=64 << 20).contains(bytes));
            setup.interleaving.command_bytes = bytes.ok_or_else(|| wrong("a size such as 128KiB"))? as u32;
        }
        "in-flight" => setup.interleaving.in_flight = number(1..=4_096, "a number of blocks from 1 to 4096")?,
        _ => {
            setup.on = with_parameter(&setup.on, parameter, value);
            (setup.base, setup.drive) = simulated(&setup.on)?;
            let (handles, tenants) = (usize::from(setup.drive.spec.handles), setup.tenants.tenants.len());
            // With fewer handles than tenants, adjacent tenants share a handle.
            if parameter == "handles" && handles < tenants {
                for (number, tenant) in setup.tenants.tenants.iter_mut().enumerate() {
                    tenant.placement = Some((number * handles / tenants) as u16 + 1);
                    tenant.defrag_placement = None;
                }
            }
        }
    }
    Ok(setup)
}

/// The description of a drive with a parameter changed.
fn with_parameter(on: &str, parameter: &str, value: &str) -> String {
    let is_other = |part: &&str| {
        let name = part.split('=').next().unwrap_or_default();
        // Two spellings of one parameter.
        name != parameter && !(parameter == "op" && name == "op-of-flash" || parameter == "op-of-flash" && name == "op")
    };
    let others: Vec<_> = on.split('+').filter(is_other).collect();
    format!("{}+{parameter}={value}", others.join("+"))
}

/// Runs each point in each arrangement.
pub(super) fn run(varied: &Varied, setup: &Setup, arrangements: &[Arrangement]) -> Sweep {
    let point = |arrangement: Arrangement, point: &Setup| match arrange(point, arrangement) {
        Ok((arranged, _)) => arranged.waf.map_or_else(
            || SweepPoint::Missing(format!("not steady within {} drive fills", setup.fills_max)),
            SweepPoint::Waf,
        ),
        Err(why) => SweepPoint::Missing(why.to_string()),
    };
    let points = |arrangement: Arrangement| match arrangement {
        // Without handles nothing varies; the lines serve for comparison.
        Arrangement::Dedicated | Arrangement::Shared if varied.parameter == "handles" => {
            let same = varied.points.first().map(|(_, setup)| point(arrangement, setup));
            varied.points.iter().filter_map(|_| same.clone()).collect()
        }
        _ => varied.points.iter().map(|(_, setup)| point(arrangement, setup)).collect(),
    };
    let mut arrangements = arrangements.to_vec();
    if varied.parameter == "handles" && !arrangements.contains(&Arrangement::Fdp) {
        arrangements.push(Arrangement::Fdp);
    }
    let values: Vec<String> = varied.points.iter().map(|(value, _)| value.clone()).collect();
    let (numbers, unit) = on_a_line(&varied.parameter, &values);
    Sweep {
        parameter: varied.parameter.clone(),
        numbers,
        unit: unit.to_owned(),
        values,
        waf: arrangements.iter().map(|one| (one.to_string(), points(*one))).collect(),
    }
}

/// Values as numbers on an axis, and the unit; sizes in the unit of the largest. `None`: a value is a word.
fn on_a_line(parameter: &str, values: &[String]) -> (Option<Vec<f64>>, &'static str) {
    let all =
        |number: &dyn Fn(&str) -> Option<f64>| values.iter().map(|value| number(value)).collect::<Option<Vec<f64>>>();
    // Over-provisioning without `%` is a share, as in the drive's description.
    let plain = if parameter.starts_with("op") { 100.0 } else { 1.0 };
    if let Some(numbers) = all(&|value| value.parse().ok()).filter(|_| plain == 1.0) {
        return (Some(numbers), "");
    }
    let percent = |value: &str| match value.strip_suffix('%') {
        Some(percent) => percent.parse().ok(),
        None => value.parse().ok().map(|share: f64| share * plain),
    };
    if let Some(numbers) = all(&percent) {
        return (Some(numbers), "%");
    }
    let Some(bytes) = all(&|value| size_bytes(value).map(|bytes| bytes as f64)) else { return (None, "") };
    let largest = bytes.iter().copied().fold(0.0, f64::max);
    let units =
        [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)].map(|(name, shift)| (name, (1_u64 << shift) as f64));
    let (unit, factor) = units.into_iter().find(|(_, unit)| largest >= *unit).unwrap_or(("bytes", 1.0));
    (Some(bytes.iter().map(|bytes| bytes / factor).collect()), unit)
}

#[cfg(test)]
mod tests {
    use super::on_a_line;

    #[test]
    fn values_lie_where_their_units_say() {
        let of = |parameter, values: &[&str]| {
            on_a_line(parameter, &values.iter().map(|value| (*value).to_owned()).collect::<Vec<_>>())
        };
        let line = |values: &[&str]| of("superblock", values);
        assert_eq!(of("op", &["0.07", "28%"]), (Some(vec![7.000000000000001, 28.0]), "%"));
        assert_eq!(line(&["512KiB", "1MiB", "4MiB"]), (Some(vec![0.5, 1.0, 4.0]), "MiB"));
        assert_eq!(line(&["7%", "14.5%"]), (Some(vec![7.0, 14.5]), "%"));
        assert_eq!(line(&["30", "40%"]), (Some(vec![30.0, 40.0]), "%"));
        assert_eq!(line(&["1", "4", "16"]), (Some(vec![1.0, 4.0, 16.0]), ""));
        assert_eq!(line(&["uniform", "4"]), (None, ""));
    }
}
