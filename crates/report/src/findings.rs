//! Findings of the doctor about host and devices, as text.

use results::finding::{Finding, Level};
use results::units;
use std::fmt::Write as _;

/// Most columns of a line of explanation.
const COLUMNS: usize = 110;

/// All findings worth a look, the weightiest first, and how many others there are.
pub fn page(findings: &[Finding], all: bool) -> String {
    let mut page = listed(findings, if all { Level::Ok } else { Level::Note });
    let count = |level| findings.iter().filter(|finding| finding.level == level).count();
    let counted = |level, of: &str| units::count(count(level) as u64, of);
    let hint = if all || count(Level::Ok) == 0 { "" } else { " (--all shows them)" };
    // Writing to a string cannot fail.
    let _ = writeln!(
        page,
        "{}, {}, {} unknown, {}; {} as it should be{hint}",
        counted(Level::Problem, "problem"),
        counted(Level::Warning, "warning"),
        count(Level::Unknown),
        counted(Level::Note, "note"),
        count(Level::Ok),
    );
    page
}

/// The findings of at least this level, the weightiest first.
pub fn listed(findings: &[Finding], least: Level) -> String {
    let mut shown: Vec<&Finding> = findings.iter().filter(|finding| finding.level >= least).collect();
    shown.sort_by_key(|finding| std::cmp::Reverse(finding.level));
    let mut page = String::new();
    shown.iter().for_each(|finding| write_finding(&mut page, finding));
    page
}

fn write_finding(page: &mut String, finding: &Finding) {
    let about = match finding.device.as_deref() {
        None => "host",
        Some("") => "\"\"",
        Some(device) => device,
    };
    // Writing to a string cannot fail.
    let _ = writeln!(page, "{:<8} {:<19} {about}: {}", finding.level, finding.check, finding.finding);
    if !finding.reason.is_empty() {
        page.push_str(&units::wrapped(&finding.reason, "         ", COLUMNS));
    }
    // Commands are not broken: they are there to be pasted.
    if !finding.remedy.is_empty() {
        let _ = writeln!(page, "         -> {}", finding.remedy);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(level: Level, check: &str, device: Option<&str>) -> Finding {
        let text = |text: &str| if level == Level::Ok { String::new() } else { text.to_owned() };
        Finding {
            check: check.to_owned(),
            level,
            device: device.map(str::to_owned),
            finding: "it is so".to_owned(),
            reason: text("that is why"),
            remedy: text("do this"),
        }
    }

    #[test]
    fn what_weighs_most_comes_first_and_what_is_right_is_counted() {
        let findings = [
            finding(Level::Ok, "a", None),
            finding(Level::Note, "b", None),
            finding(Level::Problem, "in-use", Some("/dev/x")),
            finding(Level::Warning, "c", None),
            finding(Level::Ok, "d", None),
        ];
        let expected = "\
problem  in-use              /dev/x: it is so
         that is why
         -> do this
warning  c                   host: it is so
         that is why
         -> do this
note     b                   host: it is so
         that is why
         -> do this
1 problem, 1 warning, 0 unknown, 1 note; 2 as it should be (--all shows them)
";
        assert_eq!(page(&findings, false), expected);
        let all = page(&findings, true);
        assert!(all.contains("ok       a                   host: it is so\nok       d "), "{all}");
        assert!(all.ends_with("; 2 as it should be\n"), "{all}");
    }
}
