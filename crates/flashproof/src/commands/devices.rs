//! `flashproof doctor` without a device: the block devices of this machine, and which of them may be tested.
//!
//! The guard decides about the safety ([`Guard::outlook`]); this module prints the table.

use crate::args::DoctorArgs;
use device::discover::{self, Roots};
use device::guard::{Evidence, Guard, Outlook, Reason, Safety};
use device::observe::nvme::fdp::Fdp;
use report::table::Table;
use results::units;
use serde_json::{Value, json};
use session::console;
use session::failure::Failure;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

const TITLES: [&str; 9] = ["DEVICE", "SIZE", "MODEL", "SERIAL", "FIRMWARE", "TRANSPORT", "ON IT", "SAFE", "WHY"];

/// Examines every device and prints the table.
pub fn run(args: &DoctorArgs) -> Result<ExitCode, Failure> {
    let (disks, empty) = discover::list(&Roots::default());
    let paths: Vec<String> =
        disks.into_iter().flat_map(|listed| std::iter::once(listed.disk).chain(listed.partitions)).collect();
    let outlooks = Guard::new(None).outlook(&paths);
    if args.json {
        let devices: Vec<Value> = outlooks.iter().map(|outlook| value(outlook, &fdp_of(outlook))).collect();
        let json = json!({ "devices": devices, "empty_devices": empty });
        console::result(&format!("{}\n", serde_json::to_string_pretty(&json).map_err(Failure::environment)?))?;
        return Ok(ExitCode::SUCCESS);
    }
    console::result(&Table::new("").text(TITLES).rows(outlooks.iter().map(row)).to_string())?;
    for outlook in outlooks.iter().filter(|outlook| !is_partition(outlook)) {
        match fdp_of(outlook) {
            Ok(None) => {}
            Ok(Some(fdp)) => {
                let lines: Vec<_> = fdp.to_string().lines().map(|line| format!("  {line}\n")).collect();
                console::result(&format!("\nFDP of {}:\n{}", outlook.path, lines.concat()))?;
            }
            Err(why) => console::note(&format!("{}: its FDP state could not be queried: {why}", outlook.path)),
        }
    }
    notes(&outlooks).iter().for_each(|note| console::note(note));
    if empty > 0 {
        let plural = if empty == 1 { "device holds" } else { "devices hold" };
        console::note(&format!("{empty} {plural} nothing (no medium, no file, size 0) and are left out"));
    }
    Ok(ExitCode::SUCCESS)
}

fn is_partition(outlook: &Outlook) -> bool {
    outlook.facts.as_ref().is_some_and(|facts| facts.partition.is_some())
}

fn fdp_of(outlook: &Outlook) -> Result<Option<Fdp>, String> {
    outlook.facts.as_ref().map_or(Ok(None), |facts| Fdp::of(Path::new("/"), facts))
}

/// Limitations, each once, with the name of the device if it concerns a single one. A user without permission to
/// examine processes lacks it for all devices.
fn notes(outlooks: &[Outlook]) -> Vec<String> {
    let mut by_note: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for outlook in outlooks {
        outlook.notes.iter().for_each(|note| by_note.entry(note).or_default().push(&outlook.path));
    }
    let told = |(note, paths): (&str, Vec<&str>)| match paths[..] {
        [path] => format!("{path}: {note}"),
        _ => note.to_owned(),
    };
    by_note.into_iter().map(told).collect()
}

/// A row of the table.
fn row(outlook: &Outlook) -> [String; 9] {
    let facts = outlook.facts.as_ref();
    let is_partition = is_partition(outlook);
    let indent = if is_partition { "  " } else { "" };
    // Values of the disk are shown in its own line only.
    let of_disk = |text: Option<&String>| {
        if is_partition { String::new() } else { text.map_or("-".to_owned(), |text| text.trim().to_owned()) }
    };
    [
        format!("{indent}{}", outlook.path),
        facts.map_or("-".to_owned(), |facts| units::bytes(facts.size_bytes as f64)),
        of_disk(facts.and_then(|facts| facts.model.as_ref())),
        of_disk(facts.and_then(|facts| facts.serial.as_ref())),
        of_disk(facts.and_then(|facts| facts.firmware.as_ref())),
        of_disk(facts.and_then(|facts| facts.transport.as_ref())),
        content(&outlook.safety),
        outlook.safety.to_string(),
        why(outlook),
    ]
}

/// Data on the device, a phrase.
fn content(safety: &Safety) -> String {
    let first_of = |evidence: &Evidence| {
        let text = evidence.to_string();
        text.split(" (").next().unwrap_or_default().to_owned()
    };
    match safety {
        Safety::Yes => "nothing of others".to_owned(),
        Safety::Asks(evidence) => evidence.iter().map(first_of).collect::<Vec<_>>().join(", "),
        Safety::No(_) => "not looked at".to_owned(),
    }
}

/// Why the device is not simply safe, a phrase.
fn why(outlook: &Outlook) -> String {
    match &outlook.safety {
        Safety::Yes => String::new(),
        Safety::Asks(_) => format!("it would be erased: needs --erase {}", outlook.erase_name),
        Safety::No(reasons) => {
            let more = match reasons.len().saturating_sub(1) {
                0 => String::new(),
                n => format!(", and {n} more"),
            };
            format!("{}{more}", reasons.first().map(phrase).unwrap_or_default())
        }
    }
}

/// A reason without its advice, which follows the last semicolon.
fn phrase(reason: &Reason) -> String {
    let text = reason.to_string();
    text.rsplit_once("; ").map_or(text.as_str(), |(why, _)| why).to_owned()
}

/// A device as JSON.
fn value(outlook: &Outlook, fdp: &Result<Option<Fdp>, String>) -> Value {
    let texts = |texts: Vec<String>| json!(texts);
    let (evidence, reasons) = match &outlook.safety {
        Safety::Yes => (Vec::new(), Vec::new()),
        Safety::Asks(evidence) => (evidence.iter().map(ToString::to_string).collect(), Vec::new()),
        Safety::No(reasons) => (Vec::new(), reasons.iter().map(ToString::to_string).collect()),
    };
    json!({
        "path": outlook.path,
        "erase_name": outlook.erase_name,
        "safe": outlook.safety.to_string(),
        "on_it": texts(evidence),
        "refused_because": texts(reasons),
        "notes": outlook.notes,
        "facts": outlook.facts,
        "fdp": fdp.as_ref().ok(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_of_one_device_is_told_with_its_name_and_one_of_all_once() {
        let outlook = |path: &str, notes: &[&str]| Outlook {
            path: path.into(),
            facts: None,
            erase_name: path.into(),
            safety: Safety::Yes,
            notes: notes.iter().map(|&note| note.to_owned()).collect(),
        };
        let outlooks = [outlook("/dev/x", &["run as root"]), outlook("/dev/y", &["few spots", "run as root"])];
        assert_eq!(notes(&outlooks), ["/dev/y: few spots", "run as root"]);
    }

    #[test]
    fn a_refusal_is_one_phrase_and_the_number_of_others() {
        let reasons = || vec![Reason::Claimed, Reason::FileWithoutSize];
        let outlook = |safety| Outlook {
            path: "/dev/x".into(),
            facts: None,
            erase_name: "S123".into(),
            safety,
            notes: Vec::new(),
        };
        let text = why(&outlook(Safety::No(reasons())));
        assert!(text.starts_with("the kernel has it reserved") && text.ends_with(", and 1 more"), "{text}");
        assert!(!text.contains("name another device"), "{text}");
        let asked = outlook(Safety::Asks(vec![Evidence::Signature { name: "ext4 file system", at: 1080 }]));
        assert_eq!(content(&asked.safety), "ext4 file system");
        assert_eq!(why(&asked), "it would be erased: needs --erase S123");
    }
}
