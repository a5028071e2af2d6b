//! The target I/O of the devices: from a profile, from iostat's output, or typed.

use super::options::Alignment;
use act::ActConfig;
use results::files::{self, Links};
use results::format::{in_one_line, quoted};
use session::console;
use session::failure::Failure;
use sizing::configuration::{busiest_node, requested_node};
use sizing::drive_io::DriveIo;
use sizing::iostat::{self, DeviceRates, Iostat, IostatError, writes_with_data};
use sizing::profile::sources::mean_of;
use sizing::profile::{DeviceLoad, DriveTarget, FORMAT, Profile};
use sizing::source::InputFile;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Sanity limit for a profile, bytes: it has a few hundred bytes per device and namespace.
const PROFILE_BYTES_MAX: u64 = 64 << 20;

/// Target of one device of the configuration.
#[derive(Debug)]
pub(super) struct AlignmentTarget {
    pub io: DriveIo,
    /// Large-block reads per second among the reads, as the server counted them.
    pub large_block_reads: Option<f64>,
    /// True if the cluster's tomb raider reads, and the target does not contain these reads.
    pub excludes_tomb_raider: bool,
    /// Source of the target, a phrase.
    pub source: String,
}

impl AlignmentTarget {
    pub(super) fn from_args(args: &Alignment, config: &ActConfig) -> Result<Self, Failure> {
        let text = &args.target;
        let block_kib = (!config.commit_to_device).then(|| f64::from(config.large_block_op_kbytes));
        if text.contains('=') && !Path::new(text).exists() {
            let profile_options = [
                ("--node", &args.node),
                ("--drive", &args.drive),
                ("--namespace", &args.namespace),
            ];
            if let Some((option, _)) = profile_options
                .into_iter()
                .find(|(_, value)| value.is_some())
            {
                return Err(Failure::usage(format!(
                    "cannot use {option} - it selects from a profile, but --target gives numbers - leave it out"
                )));
            }
            let io = typed(text, block_kib).map_err(|why| {
                Failure::usage(format!("cannot use --target {} - {why}", quoted(text)))
            })?;
            return Ok(Self {
                io,
                large_block_reads: None,
                excludes_tomb_raider: false,
                source: "iostat's numbers as typed".to_owned(),
            });
        }
        let profile = match read_profile(Path::new(text)) {
            Ok(profile) => profile,
            Err(no_profile) => {
                let path = Path::new(text);
                let iostat = match InputFile::open(path, "cat > NEW") {
                    Ok(source) => iostat::read(source, None),
                    Err(_) if !path.exists() => return Err(no_profile),
                    Err(error) => Err(error.into()),
                };
                return match iostat {
                    Ok(iostat) => of_iostat(&iostat, args, block_kib),
                    Err(IostatError::OtherJson { .. }) => Err(no_profile),
                    Err(error) => Err(Failure::usage(error)),
                };
            }
        };
        balanced(&profile, args.accept_unbalanced)?;
        of_profile(&profile, args)
    }
}

const TO_GET_PROFILE: &str = "give the profile.json that \"flashproof size profile --log LOG --out DIR\" writes from servers' logs";

/// Bytes of a file by which its format is recognised.
const FORMAT_BYTES: usize = 64 << 10;

/// The format of a file given as a profile by mistake, a phrase; empty if unknown.
fn format_of(bytes: &[u8]) -> &'static str {
    const SIGNS: [(&str, &str); 4] = [
        ("device-names", "a test configuration, "),
        ("ACT version", "an ACT log, "),
        ("rkB/s", "output of iostat, "),
        (" GMT: ", "a server log, "),
    ];
    let start = String::from_utf8_lossy(&bytes[..bytes.len().min(FORMAT_BYTES)]);
    SIGNS
        .iter()
        .find(|(sign, _)| start.contains(sign))
        .map_or("", |(_, format)| format)
}

pub fn read_profile(path: &Path) -> Result<Profile, Failure> {
    let name = path.display();
    let bytes = files::read(path, Links::Followed, PROFILE_BYTES_MAX).map_err(|error| {
        Failure::usage(format!(
            "cannot read the profile {name} - {error} - {TO_GET_PROFILE}"
        ))
    })?;
    // Checked before the other fields, which may differ in a later version.
    let format = serde_json::from_slice(&bytes)
        .ok()
        .and_then(|value: serde_json::Value| value.get("format")?.as_u64());
    if let Some(format) = format.filter(|format| *format > FORMAT.into()) {
        return Err(Failure::usage(format!(
            "cannot read the profile {name} - its format is {format}, but this flashproof reads up to {FORMAT} - use \
             the flashproof that wrote it"
        )));
    }
    let profile: Profile = serde_json::from_slice(&bytes).map_err(|error| {
        Failure::usage(format!(
            "cannot read the profile {name} - it is {}not a profile: {} - {TO_GET_PROFILE}",
            format_of(&bytes),
            in_one_line(&error.to_string())
        ))
    })?;
    let is_rate = |n: f64| n.is_finite() && n >= 0.0;
    match profile
        .drives
        .iter()
        .find(|drive| !drive.io().numbers().into_iter().all(is_rate))
    {
        Some(DriveTarget { node, drive, .. }) => Err(Failure::usage(format!(
            "cannot use the profile {name} - drive {drive} of node {node} has a number below 0 - create it again with \
             \"flashproof size profile\""
        ))),
        None => Ok(profile),
    }
}

/// Checks that the profile balances, or that the user accepted the imbalance.
pub fn balanced(profile: &Profile, is_accepted: bool) -> Result<(), Failure> {
    let doubts = profile.doubts();
    if doubts.is_empty() {
        return Ok(());
    }
    if !is_accepted {
        return Err(Failure::invalid(format!(
            "the profile does not balance, so it is not used:\n  {}\ntake a steadier window (flashproof size profile \
             --from --to), or give --accept-unbalanced",
            doubts.join("\n  ")
        )));
    }
    for doubt in &doubts {
        console::warning(&format!("the profile does not balance: {doubt}"));
    }
    Ok(())
}

/// Parses `r/s=N,w/s=N,rkB/s=N,wkB/s=N`, in any order. With f/s, flushes are subtracted from w/s if w/s includes them.
/// If all writes are large blocks of `block_kib`, the mean size of a write shows whether w/s includes flushes.
fn typed(text: &str, block_kib: Option<f64>) -> Result<DriveIo, String> {
    const KEYS: [&str; 5] = ["r/s", "w/s", "rkB/s", "wkB/s", "f/s"];
    let mut values = [None; 5];
    for part in text
        .split([',', ' '])
        .filter(|part| !part.trim().is_empty())
    {
        let (key, value) = part
            .split_once('=')
            .ok_or_else(|| format!("{} has no =", quoted(part)))?;
        let index = KEYS.iter().position(|known| *known == key.trim());
        let index =
            index.ok_or_else(|| format!("{} is not one of {}", quoted(key), KEYS.join(", ")))?;
        let number = value
            .trim()
            .parse()
            .ok()
            .filter(|number: &f64| number.is_finite() && *number >= 0.0);
        let number = number
            .ok_or_else(|| format!("the value {} of {key} is not a number >= 0", quoted(value)))?;
        if values[index].replace(number).is_some() {
            return Err(format!("{key} is given twice"));
        }
    }
    let [reads, writes, read_kib, kib_written, flushes] = values;
    let (Some(reads), Some(writes), Some(read_kib), Some(kib_written)) =
        (reads, writes, read_kib, kib_written)
    else {
        let missing = KEYS
            .iter()
            .zip(values)
            .take(4)
            .find(|(_, value)| value.is_none());
        return Err(format!(
            "{} is missing",
            missing.map_or("a number", |(key, _)| key)
        ));
    };
    let writes = writes_with_data(writes, flushes.unwrap_or(0.0), kib_written, block_kib);
    if reads + writes > 0.0 {
        Ok(DriveIo::from([reads, writes, read_kib, kib_written]))
    } else {
        Err("nothing is read or written".to_owned())
    }
}

/// Target from iostat's output: the mean of one drive.
fn of_iostat(
    iostat: &Iostat,
    args: &Alignment,
    block_kib: Option<f64>,
) -> Result<AlignmentTarget, Failure> {
    if let Some((option, _)) = [("--node", &args.node), ("--namespace", &args.namespace)]
        .iter()
        .find(|it| it.1.is_some())
    {
        return Err(Failure::usage(format!(
            "cannot use {option} - it selects from a profile, but {} is iostat's output - leave it out",
            args.target
        )));
    }
    let mut drives: BTreeMap<&str, Vec<&DeviceRates>> = BTreeMap::new();
    for rates in iostat.reports.iter().flat_map(|report| &report.devices) {
        drives.entry(&rates.device).or_default().push(rates);
    }
    let device_name = args
        .drive
        .as_deref()
        .map(|drive| drive.trim_start_matches("/dev/"));
    let names: Vec<&str> = drives.keys().copied().collect();
    let names = names.join(", ");
    drives.retain(|name, reports| {
        device_name.map_or(is_busy(reports), |requested| requested == *name)
    });
    let name = match drives.iter().next() {
        Some((name, reports)) if drives.len() == 1 && is_busy(reports) => name,
        _ => {
            return Err(Failure::usage(format!(
                "{} has these devices: {names} - select the drive of the cluster with --drive",
                args.target
            )));
        }
    };
    let name = *name;
    let reports = iostat.reports.iter().collect::<Vec<_>>();
    let means = mean_of(&reports, &[name]);
    for remark in iostat
        .remarks
        .iter()
        .cloned()
        .chain(means.flushes_remark(block_kib))
    {
        console::warning(&remark);
    }
    Ok(AlignmentTarget {
        io: means.io(block_kib),
        large_block_reads: None,
        excludes_tomb_raider: false,
        source: format!(
            "drive {name} in {} of {}",
            results::format::count(reports.len() as u64, "report"),
            args.target
        ),
    })
}

fn is_busy(reports: &[&DeviceRates]) -> bool {
    reports
        .iter()
        .any(|rates| rates.io.reads_per_sec + rates.io.writes_per_sec > 0.0)
}

/// Target from a profile: a namespace's part of one drive, averaged over the drives that the user selected.
fn of_profile(profile: &Profile, args: &Alignment) -> Result<AlignmentTarget, Failure> {
    let requested = args.node.as_deref();
    let requested = requested.map(|node| requested_node(profile, node).unwrap_or(node));
    let node = requested.or_else(|| busiest_node(profile));
    let drives: Vec<_> = profile
        .drives
        .iter()
        .filter(|drive: &&DriveTarget| {
            is_selected(node, &drive.node) && is_selected(args.drive.as_deref(), &drive.drive)
        })
        .collect();
    if drives.is_empty() {
        let drives = profile
            .drives
            .iter()
            .map(|drive| format!("--node {} --drive {}", drive.node, drive.drive));
        return Err(Failure::usage(format!(
            "the profile has no such drive - it has {}",
            drives.collect::<Vec<_>>().join(", ")
        )));
    }
    let names: BTreeSet<_> = profile
        .loads
        .iter()
        .filter(|load| drives.iter().any(|drive| is_on(load, drive)))
        .map(|load| &*load.namespace)
        .collect();
    let name = namespace(&names, args)?;
    let drives: Vec<_> = drives
        .into_iter()
        .filter(|drive: &&DriveTarget| {
            name.is_none_or(|name| {
                let mut loads = profile.loads.iter();
                loads.any(|load| is_on(load, drive) && load.namespace == name)
            })
        })
        .collect();
    let mut sum = [0.0; 4];
    let mut large_block_reads = 0.0;
    let mut is_shared = false;
    let mut excludes_tomb_raider = false;
    for drive in &drives {
        let all_loads: Vec<_> = profile.loads_on(drive).collect();
        let own_loads: Vec<_> = all_loads
            .iter()
            .copied()
            .filter(|load| name.is_none_or(|name| load.namespace == name))
            .collect();
        let is_alone = own_loads.len() == all_loads.len();
        is_shared |= !is_alone;
        let predicted =
            |loads: &[&DeviceLoad]| loads.iter().map(|load| load.io(1.0)).sum::<DriveIo>();
        let raider: DriveIo = own_loads.iter().map(|load| load.tomb_raider_io()).sum();
        excludes_tomb_raider |= raider.reads_per_sec > 0.0;
        let total = predicted(&all_loads).numbers();
        let part = predicted(&own_loads).numbers();
        let io = drive.io().numbers();
        for (n, (sum, raider)) in sum.iter_mut().zip(raider.numbers()).enumerate() {
            *sum += if is_alone {
                (io[n] - raider).max(0.0)
            } else if total[n] > 0.0 {
                io[n] * (part[n] - raider) / total[n]
            } else {
                0.0
            };
        }
        large_block_reads += own_loads
            .iter()
            .map(|load| load.large_block_reads_per_sec)
            .sum::<f64>();
    }
    let count = drives.len() as f64;
    let drive_text = match drives[..] {
        [drive] => format!("drive {}", drive.drive),
        _ => format!("one drive, the mean of {},", drives.len()),
    };
    let part_text = name
        .filter(|_| is_shared)
        .map(|name| format!("namespace {name}'s share (server counters) of "));
    let unconfirmed_text = if drives.iter().all(|drive| drive.iostat.is_some()) {
        ""
    } else {
        ", by the server's counters, which no iostat confirms"
    };
    let raider_text = if excludes_tomb_raider {
        " without the tomb raider's reads"
    } else {
        ""
    };
    Ok(AlignmentTarget {
        io: DriveIo::from(sum.map(|n| n / count)),
        large_block_reads: Some(large_block_reads / count),
        excludes_tomb_raider,
        source: format!(
            "{}{drive_text}{raider_text} of node {} in {}{unconfirmed_text}",
            part_text.unwrap_or_default(),
            drives[0].node,
            args.target
        ),
    })
}

/// True if the option's value `selected` is `actual`, or if the option is not given.
fn is_selected(selected: Option<&str>, actual: &str) -> bool {
    selected.is_none_or(|selected| {
        let selected = selected.trim_start_matches("/dev/");
        selected.eq_ignore_ascii_case(actual)
    })
}

fn is_on(load: &DeviceLoad, drive: &DriveTarget) -> bool {
    load.node == drive.node && load.drive == drive.drive
}

/// The namespace among `names` that the configuration models; `None` if the profile has no loads.
fn namespace<'a>(names: &BTreeSet<&'a str>, args: &Alignment) -> Result<Option<&'a str>, Failure> {
    let list = || names.iter().copied().collect::<Vec<_>>().join(", ");
    let find = |requested: &str| names.iter().copied().find(|name| *name == requested);
    if let Some(requested) = &args.namespace {
        return find(requested).map(Some).ok_or_else(|| {
            Failure::usage(format!(
                "the drive has no namespace {} - it has {}",
                quoted(requested),
                list()
            ))
        });
    }
    if names.len() < 2 {
        return Ok(names.first().copied());
    }
    // Files of "flashproof size profile" have the name of their namespace.
    let stem = args
        .config
        .file_stem()
        .unwrap_or_default()
        .to_string_lossy();
    find(&stem).map(Some).ok_or_else(|| {
        Failure::usage(format!(
            "these drives have {} namespaces ({}), but a configuration models only one - select it with --namespace",
            names.len(),
            list()
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn iostat_values_parse_in_any_order_and_flushes_are_not_counted_as_writes() {
        for (writes, flushes) in [(1548, 0), (3096, 3096), (3096, 1548), (1548, 1548)] {
            let text = format!("w/s={writes},r/s=11788.5,wkB/s=198144, rkB/s=340545,f/s={flushes}");
            let io = typed(&text, Some(128.0)).unwrap();
            assert_eq!(
                io.numbers(),
                [11_788.5, 1548.0, 340_545.0, 198_144.0],
                "{text}"
            );
        }
        let commits = typed("w/s=3000,f/s=3000,r/s=1,rkB/s=1,wkB/s=1", None).unwrap();
        assert_eq!(commits.writes_per_sec, 1500.0);
        for (text, why) in [
            ("r/s=1,w/s=1,rkB/s=1", "wkB/s is missing"),
            ("r/s=1,w/s=1,rkB/s=1,wkB/s=1,r/s=2", "given twice"),
            ("r/s=1,x=1", "\"x\" is not one of r/s"),
            ("r/s=nan,w/s=1,rkB/s=1,wkB/s=1", "is not a number"),
            ("r/s=-1,w/s=1,rkB/s=1,wkB/s=1", "is not a number"),
            ("r/s=0,w/s=0,rkB/s=0,wkB/s=0", "nothing is read"),
        ] {
            assert!(typed(text, None).unwrap_err().contains(why), "{text}");
        }
        assert_eq!(
            typed("r/s=1,w/s=0,rkB/s=1,wkB/s=0,f/s=9", Some(128.0))
                .unwrap()
                .writes_per_sec,
            0.0
        );
    }
}
