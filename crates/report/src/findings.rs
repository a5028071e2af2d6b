//! Findings of the doctor about host and devices, as text.

use results::finding::{Finding, Severity};
use results::format;

/// Maximum width of an explanation, columns.
const COLUMNS: usize = 110;

/// The findings other than `ok` and `unknown` (all, if `with_all`), the most severe first, and the number left out.
pub fn page(findings: &[Finding], with_all: bool) -> String {
    let problems = format::count(count(findings, Severity::Problem), "problem");
    let warnings = format::count(count(findings, Severity::Warning), "warning");
    let notes = format::count(count(findings, Severity::Note), "note");
    let unknown = count(findings, Severity::Unknown);
    let good = count(findings, Severity::Ok);
    let hint = if with_all || good == 0 {
        ""
    } else {
        " (--all shows them)"
    };
    let listed = listed(
        findings,
        if with_all {
            Severity::Ok
        } else {
            Severity::Note
        },
    );
    format!("{listed}{problems}, {warnings}, {unknown} unknown, {notes}; {good} ok{hint}\n")
}

fn count(findings: &[Finding], level: Severity) -> u64 {
    findings
        .iter()
        .filter(|finding| finding.level == level)
        .count() as u64
}

/// The findings of at least this level, the most severe first.
pub fn listed(findings: &[Finding], level_min: Severity) -> String {
    let mut shown: Vec<&Finding> = findings
        .iter()
        .filter(|finding| finding.level >= level_min)
        .collect();
    shown.sort_by_key(|finding| std::cmp::Reverse(finding.level));
    shown.into_iter().map(text).collect()
}

fn text(finding: &Finding) -> String {
    let subject = match finding.device.as_deref() {
        None => "host",
        Some("") => "\"\"",
        Some(device) => device,
    };
    let Finding {
        level,
        check,
        finding,
        reason,
        remedy,
        ..
    } = finding;
    let mut text = format!("{level:<8} {check:<19} {subject}: {finding}\n");
    if !reason.is_empty() {
        text += &format::wrapped(reason, "         ", COLUMNS);
    }
    // Commands are not wrapped, so that they can be pasted.
    if !remedy.is_empty() {
        text += &format!("         -> {remedy}\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(level: Severity, check: &str, device: Option<&str>) -> Finding {
        let text = |text: &str| {
            if level == Severity::Ok {
                String::new()
            } else {
                text.to_owned()
            }
        };
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
            finding(Severity::Ok, "a", None),
            finding(Severity::Note, "b", None),
            finding(Severity::Problem, "in-use", Some("/dev/x")),
            finding(Severity::Warning, "c", None),
            finding(Severity::Ok, "d", None),
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
1 problem, 1 warning, 0 unknown, 1 note; 2 ok (--all shows them)
";
        assert_eq!(page(&findings, false), expected);
        let all = page(&findings, true);
        assert!(
            all.contains("ok       a                   host: it is so\nok       d "),
            "{all}"
        );
        assert!(all.ends_with("; 2 ok\n"), "{all}");
    }
}
