//! `flashproof doctor`: reports what may spoil a result on this host and its devices, and what to do about it.
//!
//! The findings come from [`device::doctor`]; this module sorts them: the most harmful first, passed checks only
//! counted.

use crate::args::DoctorArgs;
use device::discover::{self, Roots};
use device::doctor;
use engine::DeviceName;
use report::findings;
use results::finding::{Finding, Level};
use serde_json::json;
use session::console;
use session::devices::parsed;
use session::failure::Failure;
use std::path::Path;
use std::process::ExitCode;

/// Examines and prints the findings. The exit code tells whether there is a problem.
pub fn run(args: &DoctorArgs) -> Result<ExitCode, Failure> {
    let out = args.out.as_deref().unwrap_or(Path::new("."));
    let findings = match args.devices.is_empty() {
        true => of_every_disk(out),
        false => of_devices(&args.devices, out)?,
    };
    if args.json {
        let json = serde_json::to_string_pretty(&json!({ "findings": findings })).map_err(Failure::environment)?;
        console::result(&format!("{json}\n"))?;
    } else {
        console::page(&findings::page(&findings, args.all))?;
    }
    let problem = findings.iter().any(|finding| finding.level == Level::Problem);
    Ok(ExitCode::from(u8::from(problem)))
}

/// Findings about `devices`. Simulated drives have nothing to examine.
fn of_devices(devices: &[String], out: &Path) -> Result<Vec<Finding>, Failure> {
    let (simulated, real): (Vec<_>, Vec<_>) = parsed(devices)?.into_iter().partition(|name| name.drive().is_some());
    let real: Vec<_> = real.iter().map(DeviceName::as_str).collect();
    let mut findings = doctor::examine(Path::new("/"), &real, Some(out));
    findings.extend(simulated.iter().map(|name| Finding {
        check: "device".to_owned(),
        level: Level::Note,
        device: Some(name.to_string()),
        finding: "it is simulated: there is nothing to examine".to_owned(),
        reason: "its result is that of a model".to_owned(),
        remedy: String::new(),
    }));
    Ok(findings)
}

fn of_every_disk(out: &Path) -> Vec<Finding> {
    let (disks, _) = discover::list(&Roots::default());
    let names: Vec<String> = disks.into_iter().map(|listed| listed.disk).collect();
    if names.is_empty() {
        console::warning("no disk was found below /sys/block - in a container it may be hidden - name the devices");
    }
    unasked(doctor::examine(Path::new("/"), &names, Some(out)))
}

/// Findings worth showing about disks that the user did not name. Being in use is a problem only for a test; for a disk
/// in use, findings that only a test needs (preparation, other users) are dropped.
fn unasked(findings: Vec<Finding>) -> Vec<Finding> {
    const OF_TESTS: [&str; 4] = ["preparation", "over-provisioning", "other-activity", "run-directory-place"];
    let refused = |finding: &Finding| finding.check == doctor::IN_USE && finding.level == Level::Problem;
    let in_use: Vec<String> = findings.iter().filter(|it| refused(it)).filter_map(|it| it.device.clone()).collect();
    let is_in_use = |finding: &Finding| finding.device.as_ref().is_some_and(|device| in_use.contains(device));
    let told = findings.into_iter().filter(|it| !(OF_TESTS.contains(&it.check.as_str()) && is_in_use(it)));
    let relieved = |finding: Finding| match refused(&finding) {
        true => Finding { level: Level::Note, reason: "it cannot be tested while it is".to_owned(), ..finding },
        false => finding,
    };
    told.map(relieved).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(level: Level, check: &str, device: Option<&str>) -> Finding {
        let [finding, reason, remedy] = Default::default();
        Finding { check: check.to_owned(), level, device: device.map(str::to_owned), finding, reason, remedy }
    }

    #[test]
    fn a_disk_in_use_that_nobody_named_is_no_problem_and_not_examined_for_a_test() {
        let findings = vec![
            finding(Level::Problem, "in-use", Some("/dev/x")),
            finding(Level::Problem, "smart-critical", Some("/dev/x")),
            finding(Level::Warning, "preparation", Some("/dev/x")),
            finding(Level::Warning, "preparation", Some("/dev/y")),
            finding(Level::Note, "run-directory-place", None),
        ];
        let told: Vec<(Level, String, Option<String>)> =
            unasked(findings).into_iter().map(|it| (it.level, it.check, it.device)).collect();
        let one = |level, check: &str, device: Option<&str>| (level, check.to_owned(), device.map(str::to_owned));
        let expected = [
            one(Level::Note, "in-use", Some("/dev/x")),
            one(Level::Problem, "smart-critical", Some("/dev/x")),
            one(Level::Warning, "preparation", Some("/dev/y")),
            one(Level::Note, "run-directory-place", None),
        ];
        assert_eq!(told, expected);
    }
}
