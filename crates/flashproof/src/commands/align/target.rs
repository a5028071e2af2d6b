//! What has to reach the devices: of a profile, or as it was typed.

use crate::args::AlignArgs;
use crate::console;
use crate::failure::Failure;
use results::files::{self, Links};
use results::units::quoted;
use sizing::align::{io_of, numbers};
use sizing::profile::{DeviceLoad, DriveIo, DriveTarget, FORMAT, Profile};
use std::path::Path;

/// A profile has a few hundred bytes for each device and namespace.
const PROFILE_BYTES_MAX: u64 = 64 << 20;

/// What one device of the configuration has to be given.
#[derive(Debug)]
pub struct Target {
    /// As iostat counts it.
    pub io: DriveIo,
    /// Large-block reads a second among its reads, as the server counted them.
    pub large_block_reads: Option<f64>,
    /// Where it is from, a phrase.
    pub source: String,
}

impl Target {
    /// That of the command line.
    pub fn of(args: &AlignArgs) -> Result<Self, Failure> {
        let text = &args.target;
        if text.contains('=') && !Path::new(text).exists() {
            let of_profile = [("--node", &args.node), ("--drive", &args.drive), ("--namespace", &args.namespace)];
            if let Some((option, _)) = of_profile.into_iter().find(|(_, value)| value.is_some()) {
                return Err(Failure::usage(format!("{option} chooses from a profile, and --target gives the numbers")));
            }
            let io =
                typed(text).map_err(|why| Failure::usage(format!("cannot use --target {} - {why}", quoted(text))))?;
            return Ok(Self { io, large_block_reads: None, source: "iostat's numbers as typed".to_owned() });
        }
        let profile = read_profile(Path::new(text))?;
        balanced(&profile, args.accept_unbalanced)?;
        of_profile(&profile, args)
    }
}

/// Reads a profile.
pub fn read_profile(path: &Path) -> Result<Profile, Failure> {
    let name = path.display();
    let bytes = files::read(path, Links::Followed, PROFILE_BYTES_MAX).map_err(|error| {
        Failure::usage(format!(
            "cannot read the profile {name} - {error} - name the profile.json that \"flashproof size\" wrote, or give \
             r/s=N,w/s=N,rkB/s=N,wkB/s=N"
        ))
    })?;
    // Of a later version the rest may be another; so this is looked at first.
    let format = serde_json::from_slice(&bytes).ok().and_then(|value: serde_json::Value| value.get("format")?.as_u64());
    if let Some(format) = format.filter(|format| *format > FORMAT.into()) {
        return Err(Failure::usage(format!(
            "cannot read the profile {name} - it has format {format}, and this version knows {FORMAT} - use the \
             flashproof that wrote it"
        )));
    }
    serde_json::from_slice(&bytes)
        .map_err(|error| Failure::usage(format!("cannot read the profile {name} - it is no profile: {error}")))
}

/// Whether it is to be used: it balances, or somebody accepted that it does not.
pub fn balanced(profile: &Profile, accepted: bool) -> Result<(), Failure> {
    let doubts = profile.doubts();
    match doubts.is_empty() {
        true => Ok(()),
        false if accepted => {
            doubts.iter().for_each(|doubt| console::warning(&format!("the profile does not balance: {doubt}")));
            Ok(())
        }
        false => Err(Failure::invalid(format!(
            "the profile does not balance, so nothing is aligned with it:\n  {}\ntake a steadier window (flashproof size \
             --from --to), or give --accept-unbalanced",
            doubts.join("\n  ")
        ))),
    }
}

/// `r/s=N,w/s=N,rkB/s=N,wkB/s=N`, in any order; f/s is taken off w/s.
fn typed(text: &str) -> Result<DriveIo, String> {
    const KEYS: [&str; 5] = ["r/s", "w/s", "rkB/s", "wkB/s", "f/s"];
    let mut values = [None; 5];
    for part in text.split([',', ' ']).filter(|part| !part.trim().is_empty()) {
        let (key, value) = part.split_once('=').ok_or_else(|| format!("{} has no =", quoted(part)))?;
        let place = KEYS.iter().position(|known| *known == key.trim());
        let place = place.ok_or_else(|| format!("{} is none of {}", quoted(key), KEYS.join(", ")))?;
        let number = value.trim().parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0);
        let number = number.ok_or_else(|| format!("{} of {key} is no number from 0 on", quoted(value)))?;
        if values[place].replace(number).is_some() {
            return Err(format!("{key} is given twice"));
        }
    }
    let [reads, writes, read_kib, written_kib, flushes] = values;
    let (Some(reads), Some(writes), Some(read_kib), Some(written_kib)) = (reads, writes, read_kib, written_kib) else {
        let missing = KEYS.iter().zip(values).take(4).find(|(_, value)| value.is_none());
        return Err(format!("{} is missing", missing.map_or("a number", |(key, _)| key)));
    };
    let flushes: f64 = flushes.unwrap_or(0.0);
    if flushes > writes {
        return Err("there are more flushes than writes, which count them".to_owned());
    }
    match reads + writes > 0.0 {
        true => Ok(io_of([reads, writes - flushes, read_kib, written_kib])),
        false => Err("nothing is read or written".to_owned()),
    }
}

/// The part of a drive of the profile that a configuration stands for.
fn of_profile(profile: &Profile, args: &AlignArgs) -> Result<Target, Failure> {
    let wanted = |given: &Option<String>, found: &str| {
        given.as_ref().is_none_or(|given| given.trim_start_matches("/dev/").eq_ignore_ascii_case(found))
    };
    let drives: Vec<_> = profile
        .drives
        .iter()
        .filter(|drive| wanted(&args.drive, &drive.drive) && wanted(&args.node, &drive.node))
        .collect();
    let all = || profile.drives.iter().map(|drive| format!("--node {} --drive {}", drive.node, drive.drive));
    let drive = match drives[..] {
        [drive] => drive,
        [] => {
            let there: Vec<_> = all().collect();
            return Err(Failure::usage(format!("no such drive is in the profile; there is {}", there.join(", "))));
        }
        _ => {
            let there: Vec<_> = all().collect();
            return Err(Failure::usage(format!(
                "the profile has {} drives - choose the one that the configuration stands for: {}",
                drives.len(),
                there.join(", ")
            )));
        }
    };
    let loads: Vec<_> =
        profile.loads.iter().filter(|load| load.node == drive.node && load.drive == drive.drive).collect();
    let source = format!("drive {} of node {} in {}", drive.drive, drive.node, args.target);
    part_of_namespace(drive, &loads, args.namespace.as_deref(), source)
}

/// What one namespace has of a drive: all of it, if it is alone there.
fn part_of_namespace(
    drive: &DriveTarget,
    loads: &[&DeviceLoad],
    namespace: Option<&str>,
    source: String,
) -> Result<Target, Failure> {
    let mut names: Vec<_> = loads.iter().map(|load| load.namespace.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let io = drive.io();
    let large_reads = |of: &[&DeviceLoad]| of.iter().map(|load| load.large_block_reads_per_sec).sum::<f64>();
    let name = match (namespace, &names[..]) {
        (Some(name), names) if !names.contains(&name) => {
            let there = names.join(", ");
            return Err(Failure::usage(format!("no namespace {} is on that drive; there is {there}", quoted(name))));
        }
        (_, [] | [_]) => {
            let large_block_reads = (!loads.is_empty()).then(|| large_reads(loads));
            return Ok(Target { io, large_block_reads, source });
        }
        (None, names) => {
            return Err(Failure::usage(format!(
                "{} namespaces share that drive ({}), and a configuration stands for one of them - say which with \
                 --namespace",
                names.len(),
                names.join(", ")
            )));
        }
        (Some(name), _) => name,
    };
    let own: Vec<_> = loads.iter().copied().filter(|load| load.namespace == name).collect();
    let (all, part) = (predicted(loads), predicted(&own));
    let io = io_of(std::array::from_fn(|n| {
        if numbers(&all)[n] > 0.0 { numbers(&io)[n] * numbers(&part)[n] / numbers(&all)[n] } else { 0.0 }
    }));
    let source = format!("the part of namespace {name}, by the server's own counts, of {source}");
    Ok(Target { io, large_block_reads: Some(large_reads(&own)), source })
}

/// What follows from the counts of namespaces, for their parts of a drive only: sizes are taken as
/// log-uniform in their buckets.
fn predicted(loads: &[&DeviceLoad]) -> DriveIo {
    let sum = |of: &dyn Fn(&DeviceLoad) -> f64| loads.iter().map(|load| of(load)).sum::<f64>();
    let block_kib = |load: &DeviceLoad| load.large_block_bytes as f64 / 1024.0;
    let commits = |load: &DeviceLoad| if load.commit_to_device { load.writes_per_sec } else { 0.0 };
    io_of([
        sum(&|load| load.reads_per_sec + load.large_block_reads_per_sec),
        sum(&|load| commits(load) + load.large_block_writes_per_sec),
        sum(&|load| {
            load.reads_per_sec * mean_bytes(&load.read_sizes_pct_over) / 1024.0
                + load.large_block_reads_per_sec * block_kib(load)
        }),
        sum(&|load| {
            commits(load) * mean_bytes(&load.write_sizes_pct_over) / 1024.0
                + load.large_block_writes_per_sec * block_kib(load)
        }),
    ])
}

/// Mean of sizes of which so many percent are over 2^i.
fn mean_bytes(pct_over: &[f64]) -> f64 {
    let below = pct_over.iter().scan(100.0, |before, over| {
        let share = *before - over;
        *before = *over;
        Some(share / 100.0)
    });
    below.zip(0..).map(|(share, power)| share * f64::exp2(f64::from(power)) / 2.0 / std::f64::consts::LN_2).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn iostats_numbers_are_read_in_any_order_and_flushes_are_no_writes() {
        let io = typed("w/s=3096,r/s=11788.5,wkB/s=198144, rkB/s=340545,f/s=1548").unwrap();
        assert_eq!(numbers(&io), [11_788.5, 1548.0, 340_545.0, 198_144.0]);
        for (text, why) in [
            ("r/s=1,w/s=1,rkB/s=1", "wkB/s is missing"),
            ("r/s=1,w/s=1,rkB/s=1,wkB/s=1,r/s=2", "given twice"),
            ("r/s=1,x=1", "\"x\" is none of r/s"),
            ("r/s=nan,w/s=1,rkB/s=1,wkB/s=1", "is no number"),
            ("r/s=-1,w/s=1,rkB/s=1,wkB/s=1", "is no number"),
            ("r/s=1,w/s=1,rkB/s=1,wkB/s=1,f/s=2", "more flushes"),
            ("r/s=0,w/s=0,rkB/s=0,wkB/s=0", "nothing is read"),
        ] {
            assert!(typed(text).unwrap_err().contains(why), "{text}");
        }
    }

    #[test]
    fn a_mean_is_that_of_its_buckets() {
        // All in (512, 1024].
        let mean = mean_bytes(&[100.0, 100.0, 100.0, 100.0, 100.0, 100.0, 100.0, 100.0, 100.0, 100.0, 0.0]);
        assert!((mean - 512.0 / std::f64::consts::LN_2).abs() < 1e-9, "{mean}");
        assert_eq!(mean_bytes(&[]), 0.0);
    }
}
