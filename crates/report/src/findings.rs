//! Findings of the doctor about host and devices, as text.

use results::finding::{Finding, Severity};
use results::format;
use results::judge::Headline;

/// Levels with their nouns, the most severe first.
const NOUNS: [(Severity, &str); 5] = [
    (Severity::Problem, "problem"),
    (Severity::Warning, "warning"),
    (Severity::Unknown, "unknown"),
    (Severity::Note, "note"),
    (Severity::Ok, "good check"),
];

/// The answer, then the findings other than `ok` (all, if `with_all`), the most severe first.
pub fn page(findings: &[Finding], with_all: bool) -> String {
    let level_min = if with_all {
        Severity::Ok
    } else {
        Severity::Note
    };
    format!("{}\n\n{}", headline(findings), listed(findings, level_min))
}

/// The worst finding with its remedy, and the number of findings of each level.
pub fn headline(findings: &[Finding]) -> Headline {
    let counts = NOUNS.map(|(level, noun)| (count(findings, level), noun));
    let mut found = counts.into_iter().filter(|(number, _)| *number > 0);
    // Reversed, because max_by_key returns the last of the most severe.
    let worst = findings.iter().rev().max_by_key(|finding| finding.level);
    let worst = worst.filter(|worst| worst.level >= Severity::Unknown);
    let mut parts = vec![match worst {
        None => "no problem".to_owned(),
        Some(worst) => {
            let (number, noun) = found.next().unwrap_or_default();
            let word = if number > 1 { ", worst" } else { "" };
            let answer = format::count(number, noun) + word;
            format!("{answer}: {}: {}", subject(worst), worst.finding)
        }
    }];
    let others: Vec<_> = found
        .map(|(number, noun)| format::count(number, noun))
        .collect();
    parts.extend((!others.is_empty()).then(|| others.join(", ")));
    let remedy = worst.map(|worst| worst.remedy.as_str());
    Headline::new(
        &parts.join("; "),
        remedy.filter(|remedy| !remedy.is_empty()),
    )
}

pub fn count(findings: &[Finding], level: Severity) -> u64 {
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

fn subject(finding: &Finding) -> &str {
    match finding.device.as_deref() {
        None => "host",
        Some("") => "\"\"",
        Some(device) => device,
    }
}

fn text(finding: &Finding) -> String {
    let subject = subject(finding);
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
        text += &format!("         {reason}\n");
    }
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
    fn the_most_severe_findings_come_first_and_good_checks_are_counted() {
        let findings = [
            finding(Severity::Ok, "a", None),
            finding(Severity::Note, "b", None),
            finding(Severity::Problem, "in-use", Some("/dev/x")),
            finding(Severity::Warning, "c", None),
            finding(Severity::Ok, "d", None),
        ];
        let expected = "\
1 problem: /dev/x: it is so; 1 warning, 1 note, 2 good checks
Do: do this

problem  in-use              /dev/x: it is so
         that is why
         -> do this
warning  c                   host: it is so
         that is why
         -> do this
note     b                   host: it is so
         that is why
         -> do this
";
        assert_eq!(page(&findings, false), expected);
        let all = page(&findings, true);
        assert!(
            all.contains("ok       a                   host: it is so\nok       d "),
            "{all}"
        );
    }

    #[test]
    fn the_headline_names_the_worst_finding_and_counts_all() {
        let of = |levels: &[Severity]| {
            let findings: Vec<_> = levels
                .iter()
                .map(|level| finding(*level, "c", None))
                .collect();
            headline(&findings).to_string()
        };
        use Severity::{Note, Ok, Unknown, Warning};
        let two_warnings =
            "2 warnings, worst: host: it is so; 1 unknown, 1 good check\nDo: do this";
        assert_eq!(of(&[Unknown, Warning, Ok, Warning]), two_warnings);
        assert_eq!(
            of(&[Unknown, Ok]),
            "1 unknown: host: it is so; 1 good check\nDo: do this"
        );
        assert_eq!(of(&[Note, Ok, Ok]), "no problem; 1 note, 2 good checks");
    }
}
