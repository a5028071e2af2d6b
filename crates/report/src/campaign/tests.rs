//! Campaigns with known drives, and their reports.

use super::*;
use conclusions::population::{
    ComparedDrives, LatencyMetric, PopulationLevel, ScoreExtent, SlowEvidence, SlowGroup,
    Undecided, UndecidedReason,
};

/// A drive with a step that ended with `outcome`. Four drives with successive numbers share a host.
fn drive(number: usize, outcome: Outcome) -> CampaignDrive {
    CampaignDrive {
        drive: format!("S{number}"),
        model: "M".to_owned(),
        firmware: format!("F{}", number % 2),
        host: format!("n{}", number / 4),
        slot: format!("{}", number % 4 * 5),
        link: String::new(),
        results: vec![StepResult {
            state: outcome.to_string(),
            outcome: Some(outcome),
            sentence: format!("reason {number}"),
            report: Some(format!("tasks/{number:04}/certify/out/report.html")),
            last_unix_ms: Some(1_700_086_400_000),
        }],
        compared_unix_ms: Some(1_700_000_000_000),
        not_prepared: false,
    }
}

fn slow(level: PopulationLevel, name: &str, drives: Vec<usize>) -> SlowGroup {
    SlowGroup {
        model: "M".to_owned(),
        level,
        name: name.to_owned(),
        drives,
        or: Vec::new(),
        evidence: SlowEvidence {
            metric: LatencyMetric::P99,
            extent: ScoreExtent::Whole,
            factor: 2.08,
            peers: 23,
            p_value: 1e-9,
            band: [0.9, 1.1],
            outside: 0.98,
            since_s: 0.0,
            lasting: true,
        },
    }
}

fn undecided(of: Option<(PopulationLevel, String)>, reason: UndecidedReason) -> Undecided {
    Undecided {
        model: "M".to_owned(),
        of,
        reason,
    }
}

fn few_groups() -> Undecided {
    let group = (PopulationLevel::Slot, "10".to_owned());
    let reason = UndecidedReason::FewGroups {
        factor: 1.5,
        groups: 4,
    };
    undecided(Some(group), reason)
}

/// `count` drives, of which the second failed in the step `certify`.
fn campaign(count: usize) -> Campaign {
    let outcome = |number| {
        if number == 1 {
            Outcome::Fail
        } else {
            Outcome::Pass
        }
    };
    let drives: Vec<CampaignDrive> = (0..count)
        .map(|number| drive(number, outcome(number)))
        .collect();
    let factor = |number: usize| 1.0 + 0.001 * (number * 7 % 40) as f64;
    let p99 = (0..count)
        .map(|number| Some(100.0 * factor(number)))
        .collect();
    let quantity = Quantity::new("99th percentile", "us", false, p99, &drives);
    Campaign {
        format_version: CAMPAIGN_FORMAT_VERSION,
        made_by: "flashproof".to_owned(),
        name: "lab".to_owned(),
        anonymous: false,
        steps: vec!["certify".to_owned()],
        commands: vec!["certify {drive} --out {out}".to_owned()],
        began_and_last_unix_ms: Some([1_700_000_000_000, 1_700_086_400_000]),
        quantities: quantity.into_iter().collect(),
        drives,
        compared_step: Some("certify".to_owned()),
        examination: Examination {
            compared: vec![ComparedDrives {
                model: "M".to_owned(),
                drives: count,
                detectable: 1.29,
            }],
            factors: (0..count).map(|number| Some(factor(number))).collect(),
            ..Examination::default()
        },
        ..Campaign::default()
    }
}

/// Makes a drive 2.08 times slower than its peers.
fn slow_down(campaign: &mut Campaign, number: usize) {
    campaign.examination.factors[number] = Some(2.08);
    campaign.quantities[0].values[number] = Some(208.0);
    let name = campaign.drives[number].drive.clone();
    let slow = slow(PopulationLevel::Drive, &name, vec![number]);
    campaign.examination.slow.push(slow);
}

fn assert_has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part}\nis not in\n{text}");
    }
}

#[test]
fn the_first_line_counts_the_drives_and_the_bad_ones_follow_the_worst_first() {
    let mut campaign = campaign(24);
    slow_down(&mut campaign, 14);
    let text = campaign.text();
    assert!(
        text.starts_with(
            "FAIL: 24 drives: 22 good, 1 failed, 1 passed but slow\nDo: replace the bad drives"
        ),
        "{text}"
    );
    assert_has(
        &text,
        &[
            "Step certify: 1 FAIL, 23 PASS",
            "certify FAIL: reason 1",
            "2.08 times the 99th percentile of 23 peers since the start",
        ],
    );
    assert!(
        !text.contains("reason 2"),
        "good drives have no reason: {text}"
    );
}

#[test]
fn the_list_of_drives_to_pull_has_all_bad_drives_worst_first_with_the_time_they_became_bad() {
    let mut campaign = campaign(24);
    slow_down(&mut campaign, 14);
    campaign.examination.slow[0].evidence.since_s = 7_200.0;
    campaign.drives[3].results[0].state = "lost".to_owned();
    campaign.drives[3].results[0].outcome = None;
    campaign.drives[4].results[0].state = "skipped".to_owned();
    campaign.drives[4].results[0].outcome = None;
    let expected = "host,slot,serial,reason,since\n\
        n0,5,S1,certify FAIL: reason 1,2023-11-15 22:13 UTC\n\
        n3,10,S14,2.08 times the 99th percentile of 23 peers since 2 h,2023-11-15 00:13 UTC\n\
        n0,15,S3,certify lost: reason 3,2023-11-15 22:13 UTC\n";
    assert_eq!(campaign.table().csv().unwrap(), expected);
}

#[test]
fn drives_that_were_not_prepared_are_named_the_fastest_first() {
    let mut campaign = campaign(24);
    for (number, factor) in [(4, 0.9), (7, 0.6)] {
        campaign.drives[number].not_prepared = true;
        campaign.examination.factors[number] = Some(factor);
    }
    let sentence = "2 drives not prepared, so perhaps faster than in use: S7 (0.60 times its peers), S4 (0.90 times its";
    for text in [campaign.text(), campaign.markdown(), campaign.html(None)] {
        assert_has(
            &text.split_whitespace().collect::<Vec<_>>().join(" "),
            &[sentence],
        );
    }
}

#[test]
fn a_campaign_whose_drives_are_all_slower_than_those_of_others_is_in_the_first_line() {
    let mut campaign = campaign(2);
    campaign.drives[1] = drive(1, Outcome::Pass);
    campaign.peers = vec![("lab-2025".to_owned(), 22)];
    let reason = UndecidedReason::OtherCampaign {
        factor: 1.3,
        peers: 22,
    };
    let of = (PopulationLevel::Campaign, "lab".to_owned());
    campaign
        .examination
        .undecided
        .push(undecided(Some(of), reason));
    let text = campaign.text();
    assert_has(
        &text,
        &[
            "PASS: 2 drives: 2 good; campaign lab: its drives are 1.3x as slow as 22 of other campaigns\n",
            "cannot tell for M, campaign \"lab\": its drives are 1.3 times as slow as 22 drives of other",
            "22 drives of the campaign lab-2025",
        ],
    );
}

#[test]
fn each_drive_state_has_a_label_and_the_worst_begins_the_report() {
    for (outcome, state, first_line) in [
        (Some(Outcome::Pass), "PASS", "PASS: 1 drive: 1 good"),
        (None, "done", "PASS: 1 drive: 1 good"),
        (
            Some(Outcome::Measured),
            "MEASURED",
            "MEASURED: 1 drive: 1 measured",
        ),
        (None, "running", "UNFINISHED: 1 drive: 1 not finished"),
        (
            Some(Outcome::Invalid),
            "INVALID",
            "INVALID: 1 drive: 1 without a verdict",
        ),
        (None, "lost", "INVALID: 1 drive: 1 without a verdict"),
        (Some(Outcome::Fail), "FAIL", "FAIL: 1 drive: 1 failed"),
    ] {
        let mut campaign = campaign(1);
        let result = &mut campaign.drives[0].results[0];
        (result.outcome, result.state) = (outcome, state.to_owned());
        let text = campaign.text();
        assert_eq!(text.lines().next(), Some(first_line));
    }
}

#[test]
fn a_slow_group_is_named_once_and_its_drives_are_not_listed_one_by_one() {
    let mut campaign = campaign(24);
    let group = slow(PopulationLevel::Host, "n3", vec![12, 13, 14, 15]);
    campaign.examination.slow.push(group);
    campaign.drives[1] = drive(1, Outcome::Pass);
    let head = campaign.head().text();
    assert!(
        head.starts_with("SLOW: 24 drives: 20 good, 4 passed but slow; host n3 is slow\n"),
        "{head}"
    );
    let bad = campaign.bad_drives(None, str::to_owned).to_string();
    assert!(
        bad.lines().count() == 2 && bad.contains("4 drives  host n3  slow    2.08 times"),
        "{bad}"
    );
}

#[test]
fn a_campaign_without_bad_drives_has_no_empty_section() {
    let mut campaign = campaign(24);
    assert!(campaign.markdown().contains("## Bad drives"));
    campaign.drives[1] = drive(1, Outcome::Pass);
    let text = campaign.markdown();
    assert!(!text.contains("Bad drives"), "{text}");
    assert!(
        text.contains("\n\n## All drives, worst first\n\n"),
        "{text}"
    );
}

#[test]
fn undecided_comparisons_precede_the_sentence_no_drive_is_slow_in_every_format() {
    let mut campaign = campaign(24);
    campaign.examination.undecided.push(few_groups());
    for text in [
        campaign.text(),
        campaign.markdown(),
        campaign.html(Some("./lab/")),
    ] {
        let first = text
            .find("slot 10: 6 of 24 drives are 1.5x as slow, but 4 groups are too few to tell")
            .unwrap();
        let in_full = text.find("cannot tell for M, slot").unwrap();
        let none = text
            .find("no drive is slow among its peers in the step certify")
            .unwrap();
        assert!(first < in_full && in_full < none, "{text}");
    }
    let short = |of, reason| undecided(of, reason).short(1, 24);
    let reason = UndecidedReason::FewDrives { drives: 2 };
    assert_eq!(short(None, reason), "M: 2 drives are too few");
    let reason = UndecidedReason::Insensitive {
        factor: 3.0,
        drives: 4,
    };
    assert_eq!(
        short(None, reason),
        "M: among 4 drives, only a drive at least 3x as slow can be found"
    );
    let reason = UndecidedReason::FewWindows {
        windows: 5,
        typical: 60,
        alone: 0,
        invalid: 0,
    };
    let drive = Some((PopulationLevel::Drive, "S3".to_owned()));
    assert_eq!(
        short(drive, reason),
        "drive S3: only 5 windows can be compared, 60 are typical"
    );
}

#[test]
fn the_page_has_every_host_and_slot_in_natural_order_and_relative_links() {
    let mut campaign = campaign(56);
    slow_down(&mut campaign, 14);
    let page = campaign.html(Some("./lab/"));
    assert_has(
        &page,
        &[
            "href=\"./lab/tasks/0014/certify/out/report.html\">S14</a>",
            "✘ 2.08",
            "<th scope=\"col\">0</th><th scope=\"col\">5</th><th scope=\"col\">10</th><th scope=\"col\">15</th>",
            "\"named\":true",
            "\"ticks\":[[1.0,\"M F0\"],[2.0,\"M F1\"]]",
            "flashproof certify {drive} --out {out}",
            "Median 102 us, from 100 us to 208 us.",
        ],
    );
    let at = |host: &str| {
        page.find(&format!("<th scope=\"row\">{host}</th>"))
            .unwrap()
    };
    assert!(at("n2") < at("n10"), "hosts are in natural order");
    campaign.drives[1..]
        .iter_mut()
        .for_each(|drive| drive.slot.clear());
    let page = campaign.html(None);
    assert!(
        page.contains("<th scope=\"row\">n0</th>") && !page.contains("<th scope=\"row\">n2</th>")
    );
    campaign.drives[0].slot.clear();
    assert!(!campaign.html(None).contains("By host and slot"));
}

#[test]
fn comparisons_between_firmwares_are_sentences_with_the_difference_in_the_median() {
    let mut campaign = campaign(24);
    let values = |shift: f64| {
        (0..24)
            .map(|n| Some(40.0 + f64::from(n) * 0.1 + f64::from(n % 2) * shift))
            .collect()
    };
    for (shift, sentence) in [
        (
            0.0,
            "Rating of firmware F1 against F0: no significant difference (",
        ),
        (
            9.0,
            "Rating of firmware F1 against F0: 9.1x higher in the median (",
        ),
        (
            -9.0,
            "Rating of firmware F1 against F0: 8.9x lower in the median (",
        ),
    ] {
        let rating = Quantity::new("rating", "x", true, values(shift), &campaign.drives);
        campaign.quantities = rating.into_iter().collect();
        assert_has(&campaign.text(), &[sentence]);
    }
    assert_has(
        &campaign.text(),
        &[
            "50 % of such drives have a rating of at least",
            "M: 24 drives compared in the step certify; a drive that is always 1.29 times slower than its peers would be found",
        ],
    );
    let one = Quantity::new("rating", "x", true, vec![Some(48.0)], &campaign.drives);
    assert!(one.is_none(), "a single drive has no distribution");
}
