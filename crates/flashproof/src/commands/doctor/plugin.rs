//! `flashproof doctor --plugin`: the findings in one line, with exit codes, for Nagios, Icinga and Slurm.
//!
//! Source: Monitoring Plugins Development Guidelines, <https://www.monitoring-plugins.org/doc/guidelines.html>.

use super::options::DoctorArgs;
use super::{disks, of_devices};
use device::discover;
use device::doctor::{WORN_PCT, read_smart, without_tests};
use device::observe::nvme::Smart;
use report::findings::{count, headline};
use results::finding::{Finding, Severity};
use results::format::in_one_line;
use session::console;
use session::devices::parsed;
use session::failure::Failure;
use std::path::Path;
use std::process::ExitCode;

/// Exit code of a plugin that could not check.
const UNKNOWN: u8 = 3;

/// Examines, and prints the line. Every failure is UNKNOWN: Nagios takes an exit code above 3 for CRITICAL.
pub fn run(args: &DoctorArgs) -> Result<ExitCode, Failure> {
    std::panic::set_hook(Box::new(|bug| refuse(&bug.to_string())));
    let (line, code) = examine(args).unwrap_or_else(|failure| refuse(&failure.message));
    console::result(&line)?;
    Ok(ExitCode::from(code))
}

/// Prints why nothing could be checked, and exits.
pub fn refuse(why: &str) -> ! {
    let why = why.lines().collect::<Vec<_>>().join("; ");
    // The exit code says the same to a caller that closed the pipe.
    drop(console::result(&format!(
        "FLASHPROOF UNKNOWN: {}\n",
        plain(&why)
    )));
    std::process::exit(UNKNOWN.into())
}

fn examine(args: &DoctorArgs) -> Result<(String, u8), Failure> {
    let names = if args.every {
        disks()
    } else {
        args.devices.clone()
    };
    if names.is_empty() {
        return Err(Failure::usage(
            "there is no disk to examine - name a device, or give --every on a host that shows its disks",
        ));
    }
    let root = Path::new("/");
    let mut health = String::new();
    for name in parsed(&names)?.iter().filter(|name| name.drive().is_none()) {
        let facts = discover::discover(name.as_str(), root)
            .map_err(|why| Failure::environment(format!("{}: {why}", name.as_str())))?;
        let smart = read_smart(root, &facts);
        health += &smart.map_or_else(|_| String::new(), |smart| values(name.as_str(), &smart));
    }
    let mut findings = without_tests(of_devices(&names, args.out.as_deref())?);
    // A busy CPU is no finding for monitoring: a database keeps its host busy.
    findings.retain(|finding| finding.check != "cpu-busy");
    Ok(judged(&findings, &health))
}

/// The line and the exit code. `health`: performance data of the drives.
fn judged(findings: &[Finding], health: &str) -> (String, u8) {
    let (state, code) = match findings.iter().map(|finding| finding.level).max() {
        Some(Severity::Problem) => ("CRITICAL", 2),
        Some(Severity::Warning) => ("WARNING", 1),
        Some(Severity::Unknown) => ("UNKNOWN", UNKNOWN),
        Some(Severity::Note | Severity::Ok) | None => ("OK", 0),
    };
    let counts = [
        Severity::Problem,
        Severity::Warning,
        Severity::Unknown,
        Severity::Ok,
    ]
    .map(|level| count(findings, level));
    let [problems, warnings, unknown, good] = counts;
    let line = format!(
        "FLASHPROOF {state}: {} | problems={problems};;0;0 warnings={warnings};0;;0 unknown={unknown};;;0 good={good};;;0{health}\n",
        plain(&headline(findings).sentence)
    );
    (line, code)
}

/// Performance data of a drive, with the limits of its findings.
fn values(name: &str, smart: &Smart) -> String {
    let label = plain(name.trim_start_matches("/dev/")).replace(['=', '\''], "_");
    let temperature = smart.temperature_celsius;
    let temperature = temperature.map_or_else(String::new, |celsius| {
        format!(" '{label} temperature'={celsius}")
    });
    format!(
        "{temperature} '{label} used'={}%;{};;0 '{label} spare'={}%;;{}:;0;100 '{label} media errors'={}c;0;;0",
        smart.percentage_used,
        WORN_PCT - 1,
        smart.available_spare_pct,
        smart.available_spare_threshold_pct,
        smart.media_errors
    )
}

/// `text` in one line, without `|`, which would begin the performance data.
fn plain(text: &str) -> String {
    in_one_line(text).replace('|', "\\u007c")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(level: Severity, text: &str) -> Finding {
        Finding {
            check: "c".to_owned(),
            level,
            device: None,
            finding: text.to_owned(),
            reason: String::new(),
            remedy: String::new(),
        }
    }

    #[test]
    fn the_exit_code_is_that_of_the_worst_finding() {
        for (levels, state, code) in [
            (&[Severity::Ok, Severity::Note][..], "OK", 0),
            (&[], "OK", 0),
            (&[Severity::Unknown, Severity::Ok], "UNKNOWN", 3),
            (&[Severity::Warning, Severity::Unknown], "WARNING", 1),
            (&[Severity::Warning, Severity::Problem], "CRITICAL", 2),
        ] {
            let findings: Vec<_> = levels
                .iter()
                .map(|level| finding(*level, "it is so"))
                .collect();
            let (line, found) = judged(&findings, "");
            assert_eq!(found, code, "{line}");
            assert!(line.starts_with(&format!("FLASHPROOF {state}: ")), "{line}");
        }
    }

    #[test]
    fn plugin_output_is_one_line_with_one_pipe_character_and_quoted_labels() {
        let smart = Smart {
            temperature_celsius: Some(41),
            ..Smart::parse(&[0; 512])
        };
        let health = values("/dev/x='a\n|", &smart);
        let (line, _) = judged(&[finding(Severity::Problem, "a|b\nc")], &health);
        let expected = "FLASHPROOF CRITICAL: 1 problem: host: a\\u007cb\\u000ac | problems=1;;0;0 warnings=0;0;;0 \
                        unknown=0;;;0 good=0;;;0 'x__a\\u000a\\u007c temperature'=41 'x__a\\u000a\\u007c used'=0%;79;;0 \
                        'x__a\\u000a\\u007c spare'=0%;;0:;0;100 'x__a\\u000a\\u007c media errors'=0c;0;;0\n";
        assert_eq!(line, expected);
    }
}
