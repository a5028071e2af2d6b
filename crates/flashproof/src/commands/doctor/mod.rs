//! `flashproof doctor`: reports problems of this host and its devices that may distort a result, with remedies.
//!
//! The findings come from [`device::doctor`]; this module sorts them: the most harmful first, passed checks only
//! counted. Without a device, `flashproof doctor` lists the block devices of this machine, and shows which may be
//! tested.

pub mod options;
pub mod plugin;

use crate::commands::doctor::options::DoctorArgs;
use crate::output::done;
use device::guard::{EraseSafety, Evidence, Guard, GuardReport, RefusalReason};
use device::observe::nvme::fdp::Fdp;
use device::{discover, doctor};
use engine::DeviceName;
use report::findings;
use report::table::Table;
use results::finding::{Finding, Severity};
use results::format;
use serde_json::{Value, json};
use session::console;
use session::devices::parsed;
use session::failure::Failure;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

/// Examines and prints the findings. Exit code 1 if there is a problem.
pub fn examine(args: &DoctorArgs) -> Result<ExitCode, Failure> {
    let out = args.out.as_deref().unwrap_or(Path::new("."));
    let findings = if args.devices.is_empty() {
        of_every_disk(out)
    } else {
        let mut findings = of_devices(&args.devices, Some(out))?;
        let guard_reports = Guard::new(None).examine_devices(&args.devices);
        findings.extend(guard_reports.iter().filter_map(content_finding));
        findings
    };
    if args.json {
        console::result(&crate::output::json(&json!({ "findings": findings }))?)?;
    } else {
        console::page(&findings::page(&findings, args.all))?;
    }
    let problem = findings
        .iter()
        .any(|finding| finding.level == Severity::Problem);
    Ok(ExitCode::from(u8::from(problem)))
}

/// Findings about `devices`. Simulated drives have nothing to examine.
fn of_devices(devices: &[String], out: Option<&Path>) -> Result<Vec<Finding>, Failure> {
    let (simulated, real): (Vec<_>, Vec<_>) = parsed(devices)?
        .into_iter()
        .partition(|name| name.drive().is_some());
    let real: Vec<_> = real.iter().map(DeviceName::as_str).collect();
    let mut findings = doctor::examine(Path::new("/"), &real, out);
    findings.extend(simulated.iter().map(|name| Finding {
        check: "device".to_owned(),
        level: Severity::Note,
        device: Some(name.to_string()),
        finding: "the drive is simulated: there is nothing to examine".to_owned(),
        reason: "a simulated drive gives the results of a model".to_owned(),
        remedy: String::new(),
    }));
    Ok(findings)
}

/// Data of other programs on a device that a test would erase after consent.
fn content_finding(guard_report: &GuardReport) -> Option<Finding> {
    let asks = matches!(guard_report.safety, EraseSafety::Asks(_));
    asks.then(|| Finding {
        check: "content".to_owned(),
        level: Severity::Note,
        device: Some(guard_report.path.clone()),
        finding: format!("the device holds {}", content(&guard_report.safety)),
        reason: "a test that writes would erase these data".to_owned(),
        remedy: format!("to allow the erasure: --erase {}", guard_report.erase_name),
    })
}

fn disks() -> Vec<String> {
    let (disks, _) = discover::list(Path::new("/"));
    disks.into_iter().map(|listed| listed.disk).collect()
}

fn of_every_disk(out: &Path) -> Vec<Finding> {
    let names = disks();
    if names.is_empty() {
        console::warning(
            "no disk was found below /sys/block - a container may hide the disks - name the devices",
        );
    }
    doctor::without_tests(doctor::examine(Path::new("/"), &names, Some(out)))
}

const TITLES: [&str; 9] = [
    "DEVICE",
    "SIZE",
    "MODEL",
    "SERIAL",
    "FIRMWARE",
    "TRANSPORT",
    "CONTENT",
    "SAFE",
    "WHY",
];

pub fn list(args: &DoctorArgs) -> Result<ExitCode, Failure> {
    let (disks, empty) = discover::list(Path::new("/"));
    let paths: Vec<String> = disks
        .into_iter()
        .flat_map(|listed| std::iter::once(listed.disk).chain(listed.partitions))
        .collect();
    let guard_reports = Guard::new(None).examine_devices(&paths);
    if args.json {
        let devices: Vec<Value> = guard_reports
            .iter()
            .map(|outlook| value(outlook, &fdp_of(outlook)))
            .collect();
        return done(&crate::output::json(
            &json!({ "devices": devices, "empty_devices": empty }),
        )?);
    }
    console::result(
        &Table::new("")
            .text(TITLES)
            .rows(guard_reports.iter().map(row))
            .to_string(),
    )?;
    for guard_report in guard_reports
        .iter()
        .filter(|outlook| !is_partition(outlook))
    {
        match fdp_of(guard_report) {
            Ok(None) => {}
            Ok(Some(fdp)) => {
                let lines: Vec<_> = fdp
                    .to_string()
                    .lines()
                    .map(|line| format!("  {line}\n"))
                    .collect();
                console::result(&format!(
                    "\nFDP of {}:\n{}",
                    guard_report.path,
                    lines.concat()
                ))?;
            }
            Err(why) => console::note(&format!(
                "{}: cannot query the FDP state: {why}",
                guard_report.path
            )),
        }
    }
    notes(&guard_reports)
        .iter()
        .for_each(|note| console::note(note));
    if empty > 0 {
        let plural = if empty == 1 {
            "device holds"
        } else {
            "devices hold"
        };
        console::note(&format!(
            "{empty} {plural} nothing (no medium, no file, size 0): left out"
        ));
    }
    Ok(ExitCode::SUCCESS)
}

fn is_partition(guard_report: &GuardReport) -> bool {
    guard_report
        .facts
        .as_ref()
        .is_some_and(|facts| facts.partition.is_some())
}

fn fdp_of(guard_report: &GuardReport) -> Result<Option<Fdp>, String> {
    guard_report
        .facts
        .as_ref()
        .map_or(Ok(None), |facts| Fdp::read(Path::new("/"), facts))
}

/// Notes of all devices, each once, with the name of the device if the note concerns a single device. Missing
/// permissions, for example, concern all devices.
fn notes(guard_reports: &[GuardReport]) -> Vec<String> {
    let mut by_note: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for guard_report in guard_reports {
        guard_report
            .notes
            .iter()
            .for_each(|note| by_note.entry(note).or_default().push(&guard_report.path));
    }
    let mut notes = Vec::new();
    for (note, paths) in by_note {
        notes.push(match paths[..] {
            [path] => format!("{path}: {note}"),
            _ => note.to_owned(),
        });
    }
    notes
}

fn row(guard_report: &GuardReport) -> [String; 9] {
    let facts = guard_report.facts.as_ref();
    let is_partition = is_partition(guard_report);
    let indent = if is_partition { "  " } else { "" };
    [
        format!("{indent}{}", guard_report.path),
        facts.map_or("-".to_owned(), |facts| {
            format::bytes(facts.size_bytes as f64)
        }),
        disk_text(facts.and_then(|facts| facts.model.as_ref()), is_partition),
        disk_text(facts.and_then(|facts| facts.serial.as_ref()), is_partition),
        disk_text(
            facts.and_then(|facts| facts.firmware.as_ref()),
            is_partition,
        ),
        disk_text(
            facts.and_then(|facts| facts.transport.as_ref()),
            is_partition,
        ),
        content(&guard_report.safety),
        guard_report.safety.to_string(),
        why(guard_report),
    ]
}

/// Empty for a partition: only the line of the whole disk shows the disk's values.
fn disk_text(text: Option<&String>, is_partition: bool) -> String {
    if is_partition {
        return String::new();
    }
    text.map_or("-".to_owned(), |text| text.trim().to_owned())
}

/// Data on the device, a phrase.
fn content(safety: &EraseSafety) -> String {
    match safety {
        EraseSafety::Yes => "no other data".to_owned(),
        EraseSafety::Asks(evidence) => {
            let texts: Vec<_> = evidence.iter().map(evidence_text).collect();
            texts.join("; ")
        }
        EraseSafety::No(_) => "not examined".to_owned(),
    }
}

fn evidence_text(evidence: &Evidence) -> String {
    match evidence {
        Evidence::Data {
            samples,
            samples_tried,
            ..
        } => format!("data in {samples} of {samples_tried} sampled blocks"),
        other => other.to_string(),
    }
}

/// Why the device is not safe to test, a phrase.
fn why(guard_report: &GuardReport) -> String {
    match &guard_report.safety {
        EraseSafety::Yes => String::new(),
        EraseSafety::Asks(_) => format!(
            "a test would erase these data: needs --erase {}",
            guard_report.erase_name
        ),
        EraseSafety::No(reasons) => {
            let more = match reasons.len().saturating_sub(1) {
                0 => String::new(),
                n => format!(", and {n} more"),
            };
            format!("{}{more}", reasons.first().map(phrase).unwrap_or_default())
        }
    }
}

/// A reason without its advice, which follows the last semicolon.
fn phrase(reason: &RefusalReason) -> String {
    let text = reason.to_string();
    text.rsplit_once("; ")
        .map_or(text.as_str(), |(why, _)| why)
        .to_owned()
}

fn value(guard_report: &GuardReport, fdp: &Result<Option<Fdp>, String>) -> Value {
    let (mut evidence, mut reasons): (Vec<String>, Vec<String>) = Default::default();
    match &guard_report.safety {
        EraseSafety::Yes => {}
        EraseSafety::Asks(of) => evidence.extend(of.iter().map(ToString::to_string)),
        EraseSafety::No(of) => reasons.extend(of.iter().map(ToString::to_string)),
    }
    json!({
        "path": guard_report.path,
        "erase_name": guard_report.erase_name,
        "safe": guard_report.safety.to_string(),
        "on_it": evidence,
        "refused_because": reasons,
        "notes": guard_report.notes,
        "facts": guard_report.facts,
        "fdp": fdp.as_ref().ok(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(level: Severity, check: &str, device: Option<&str>) -> Finding {
        let [finding, reason, remedy] = Default::default();
        Finding {
            check: check.to_owned(),
            level,
            device: device.map(str::to_owned),
            finding,
            reason,
            remedy,
        }
    }

    #[test]
    fn a_disk_in_use_that_was_not_named_gets_a_note_and_no_findings_about_tests() {
        let findings = vec![
            finding(Severity::Problem, "in-use", Some("/dev/x")),
            finding(Severity::Problem, "smart-critical", Some("/dev/x")),
            finding(Severity::Warning, "preparation", Some("/dev/x")),
            finding(Severity::Warning, "preparation", Some("/dev/y")),
            finding(Severity::Note, "run-directory-place", None),
        ];
        let told: Vec<(Severity, String, Option<String>)> = doctor::without_tests(findings)
            .into_iter()
            .map(|it| (it.level, it.check, it.device))
            .collect();
        let one = |level, check: &str, device: Option<&str>| {
            (level, check.to_owned(), device.map(str::to_owned))
        };
        let expected = [
            one(Severity::Note, "in-use", Some("/dev/x")),
            one(Severity::Problem, "smart-critical", Some("/dev/x")),
            one(Severity::Warning, "preparation", Some("/dev/y")),
            one(Severity::Note, "run-directory-place", None),
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn a_note_about_one_device_has_its_name_and_a_note_about_all_is_shown_once() {
        let outlook = |path: &str, notes: &[&str]| GuardReport {
            path: path.into(),
            facts: None,
            erase_name: path.into(),
            safety: EraseSafety::Yes,
            notes: notes.iter().map(|&note| note.to_owned()).collect(),
        };
        let outlooks = [
            outlook("/dev/x", &["run as root"]),
            outlook("/dev/y", &["few spots", "run as root"]),
        ];
        assert_eq!(notes(&outlooks), ["/dev/y: few spots", "run as root"]);
    }

    #[test]
    fn an_unsafe_device_is_shown_with_the_first_reason_and_the_number_of_other_reasons() {
        let reasons = || vec![RefusalReason::Claimed, RefusalReason::FileWithoutSize];
        let outlook = |safety| GuardReport {
            path: "/dev/x".into(),
            facts: None,
            erase_name: "S123".into(),
            safety,
            notes: Vec::new(),
        };
        let text = why(&outlook(EraseSafety::No(reasons())));
        assert!(
            text.starts_with("a mount, a driver or another") && text.ends_with(", and 1 more"),
            "{text}"
        );
        assert!(!text.contains("name another device"), "{text}");
        let asked = outlook(EraseSafety::Asks(vec![Evidence::Signature {
            name: "ext4 file system",
            details: Vec::new(),
            place: None,
            at: 1080,
        }]));
        assert_eq!(content(&asked.safety), "ext4 file system");
        assert_eq!(
            why(&asked),
            "a test would erase these data: needs --erase S123"
        );
        let told = content_finding(&asked).unwrap();
        assert_eq!(told.finding, "the device holds ext4 file system");
        assert_eq!(told.remedy, "to allow the erasure: --erase S123");
        assert!(content_finding(&outlook(EraseSafety::Yes)).is_none());
    }
}
