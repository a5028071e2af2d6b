use super::*;
use results::cell::Interval;
use results::judge::{End, Judge, JudgePlan, Sla, StreamLimits};
use results::steady::{self, ChangePoint, Group};
use results::times::Times;

fn criterion(metric: &str, limit: f64, standing: LimitStatus) -> Criterion {
    Criterion {
        run: "wal".into(),
        stream: "reads".into(),
        metric: CheckMetric::try_from(metric.to_owned()).unwrap(),
        limit: Some(limit),
        source: Some("https://example.com".into()),
        looked_up: Some("2026-01-01".into()),
        standing: Some(standing),
        tier: None,
        is_of_higher_tier: false,
        says: "mine".into(),
    }
}

/// The verdict on a run of one second with `fast` reads of 1 ms and `slow` reads of 20 ms.
fn verdict(limits: StreamLimits, fast: u64, slow: u64) -> Verdict {
    let mut layout = results::testing::layout(&[("reads", true)], 0.0, ["x".to_owned()]);
    layout.streams[0].limits = Some(limits.clone());
    let sla = Sla::joined(limits.sla.iter(), u64::max).unwrap();
    layout.thresholds_ns = sla.thresholds_ns();
    let mut interval = Interval::new(&layout);
    interval.end_ns = 1_000_000_000;
    for (count, ns) in [(fast, 1_000_000), (slow, 20_000_000)] {
        (0..count).for_each(|_| interval.cells[0].record(&Times::new(0, 0, 0, ns), 0, 4096));
    }
    interval.close();
    let mut judge = Judge::new(JudgePlan::new(&layout, sla, 1, 1, 1));
    judge.add(&interval);
    judge.verdict(&End::Completed)
}

#[test]
fn criteria_become_limits_of_their_stream_and_folklore_does_not() {
    let published = [
        criterion("p99", 1e7, LimitStatus::Required),
        criterion("iops", 500.0, LimitStatus::Required),
    ];
    let limits = limits_of("reads", published.iter()).unwrap().unwrap();
    assert_eq!(limits.sla.unwrap().to_string(), "1%>10ms,1%>500ms");
    assert_eq!(
        (limits.least_iops, limits.least_bytes_per_sec),
        (Some(500.0), None)
    );
    assert_eq!(limits_of("writes", published.iter()).unwrap(), None);
    let folklore = [criterion("p99.9", 1e7, LimitStatus::Folklore)];
    assert_eq!(limits_of("reads", folklore.iter()).unwrap(), None);
    for wrong in ["p0", "p100", "pNaN", "99", "p", "latency"] {
        assert!(CheckMetric::try_from(wrong.to_owned()).is_err(), "{wrong}");
    }
}

#[test]
fn a_value_at_its_limit_is_judged_exactly_and_a_rate_lower_by_a_third_ends_a_burst() {
    let figures = Figures {
        ops: 1_000,
        bytes: 4_096_000,
        ran_ns: 1_000_000_000,
        mean_ns: 1.2e6,
        percentiles_ns: vec![(99.0, 1_000_000)],
    };
    let p99 = criterion("p99", 1e7, LimitStatus::Required);
    let limits = limits_of("reads", [&p99].into_iter()).unwrap().unwrap();
    let outcome = |slow| {
        judge(
            &p99,
            &verdict(limits.clone(), 1_000 - slow, slow),
            &figures,
            &[],
        )
        .outcome
    };
    assert_eq!(
        [outcome(9), outcome(10)],
        [Outcome::Pass, Outcome::Fail],
        "1 % is not below 1 %"
    );

    let iops = criterion("iops", 900.0, LimitStatus::Required);
    let limits = limits_of("reads", [&iops].into_iter()).unwrap().unwrap();
    let of = |count, burst_ends: &[ChangePoint]| {
        judge(
            &iops,
            &verdict(limits.clone(), count, 0),
            &figures,
            burst_ends,
        )
        .outcome
    };
    assert_eq!([of(900, &[]), of(899, &[])], [Outcome::Pass, Outcome::Fail]);
    let point = |after| ChangePoint {
        group: Group {
            stream: "reads".into(),
            device: None,
        },
        metric: steady::RoundMetric::AchievedIops,
        round: 1,
        at_sec: 1,
        before: 1_500.0,
        after,
    };
    assert_eq!(
        burst_ends(vec![point(1_001.0), point(1_000.0)], 61.0).len(),
        1,
        "a third less is the end of a burst"
    );
    let later = ChangePoint {
        at_sec: 9,
        ..point(1_001.0)
    };
    assert_eq!(
        burst_ends(vec![point(900.0), later], 70.0).len(),
        0,
        "the rate rises again after a stall"
    );
    assert_eq!(
        burst_ends(vec![point(900.0)], 60.0).len(),
        0,
        "a stall near the end is no end of a burst"
    );
    assert_eq!(
        [
            of(950, &burst_ends(vec![point(950.0)], 61.0)),
            of(950, &burst_ends(vec![point(850.0)], 61.0))
        ],
        [Outcome::Pass, Outcome::Fail]
    );
    let mean = criterion("mean", 1e6, LimitStatus::Required);
    assert_eq!(
        judge(
            &mean,
            &verdict(StreamLimits::default(), 10, 0),
            &figures,
            &[]
        )
        .outcome,
        Outcome::Invalid
    );
}

fn check(criteria: Vec<JudgedCriterion>) -> CheckResult {
    CheckResult {
        format_version: CHECK_FORMAT_VERSION,
        tool: "flashproof".into(),
        name: "mine".into(),
        database: "mine".into(),
        question: "?".into(),
        path: "sim:".into(),
        disk: None,
        started_unix_ms: 0,
        outcome: Outcome::Pass,
        answer: CheckAnswer::GoodEnough,
        sentence: String::new(),
        remarks: Vec::new(),
        tiers: Vec::new(),
        criteria,
        runs: vec![CheckedRun {
            name: "wal".into(),
            outcome: Outcome::Pass,
            reason: String::new(),
            seconds: 60.0,
            bytes_written: 0,
            burst_ends: Vec::new(),
            is_host_busy: false,
        }],
        sustained: Sustained {
            seconds: 60,
            bytes_written: 0,
            why: "It is so.".into(),
        },
        cannot_see: Vec::new(),
        files: Vec::new(),
        look: None,
        note: None,
        circumstances: Circumstances::default(),
    }
}

fn judged(criterion: Criterion, figure: f64, outcome: Outcome) -> JudgedCriterion {
    JudgedCriterion {
        criterion,
        figure: Some(figure),
        outcome,
        behind_burst: false,
    }
}

#[test]
fn a_failure_on_a_busy_host_is_invalid_now_and_when_the_record_is_read_again() {
    let p99 = criterion("p99", 1e7, LimitStatus::Required);
    let limits = limits_of("reads", [&p99].into_iter()).unwrap().unwrap();
    let slow = verdict(limits, 900, 100);
    let outcomes = [false, true].map(|is_busy| outcome_of_run(&slow, [&p99].into_iter(), is_busy));
    assert_eq!(outcomes, [Outcome::Fail, Outcome::Invalid]);
    let mut busy = check(vec![judged(p99, 2e7, Outcome::Invalid)]);
    (busy.runs[0].is_host_busy, busy.runs[0].outcome) = (true, Outcome::Invalid);
    let mut busy = busy.concluded(None);
    busy.rejudge([&slow].into_iter());
    assert_eq!(
        (busy.outcome, busy.answer),
        (Outcome::Invalid, CheckAnswer::CannotTell),
        "{}",
        busy.sentence
    );
}

#[test]
fn a_short_test_or_too_few_operations_are_not_a_pass() {
    let p99 = judged(
        criterion("p99", 1e7, LimitStatus::Required),
        1e6,
        Outcome::Pass,
    );
    let mut brief = check(vec![p99.clone()]).concluded(None);
    assert_eq!(brief.answer, CheckAnswer::GoodEnough);
    brief.sustained.seconds = 2_400;
    brief = brief.concluded(None);
    assert_eq!(
        (brief.answer, brief.needed_time()),
        (CheckAnswer::TooBrief, Some(2_400))
    );
    let headline = "mine: limits held for 60 s (too brief: 60 s of 40 min); p99 of reads in wal was 1 ms, it must be \
                    below 10 ms\n\
                    Do: for a PASS, repeat the check with --for 40m";
    assert_eq!(brief.headline().to_string(), headline);
    assert_eq!(brief.with_answer(&brief.sentence), brief.sentence);

    let few = judged(
        criterion("p99.99", 1e9, LimitStatus::Recommended),
        1e6,
        Outcome::Measured,
    );
    let brief = check(vec![p99.clone(), few]).concluded(None);
    assert_eq!(
        (brief.answer, brief.needed_time().map(for_option)),
        (CheckAnswer::TooBrief, Some("10m".into()))
    );
    assert!(
        brief
            .sentence
            .contains("too few operations for p99.99 of reads in wal"),
        "{}",
        brief.sentence
    );
    let warning = judged(
        criterion("p99", 1e6, LimitStatus::Warning),
        2e6,
        Outcome::Measured,
    );
    let shown = check(vec![p99, warning.clone()]).concluded(None);
    assert_eq!(
        shown.answer,
        CheckAnswer::GoodEnough,
        "a warning decides nothing"
    );
    let unlimited = check(vec![warning]).concluded(None);
    assert_eq!(
        (unlimited.answer, unlimited.outcome),
        (CheckAnswer::NoLimit, Outcome::Measured)
    );
    assert_eq!(
        unlimited.sentence,
        "no published limit; your values: p99 of reads in wal 2 ms"
    );
    assert_eq!(
        ["119s", "2m", "24h"].map(String::from),
        [119, 120, 86_399].map(for_option)
    );
}

#[test]
fn limits_of_a_higher_tier_are_in_the_sentence_but_do_not_change_the_answer() {
    let sentence = |figure| {
        let tiers = vec!["a small cluster".to_owned(), "a large one".to_owned()];
        let limit = |at: usize| {
            let limit = criterion("iops", [50.0, 500.0][at], LimitStatus::Required);
            let limit = Criterion {
                tier: Some(tiers[at].clone()),
                is_of_higher_tier: at > 0,
                ..limit
            };
            judged(limit, figure, [Outcome::Pass, Outcome::Measured][at])
        };
        let criteria = vec![limit(0), limit(1)];
        let check = CheckResult {
            tiers,
            ..check(criteria)
        }
        .concluded(None);
        assert_eq!(check.answer, CheckAnswer::GoodEnough);
        check.sentence
    };
    assert_eq!(
        sentence(230.0),
        "limits held for a small cluster, not for a large one: rate of reads in wal was 230/s, a large one needs at \
         least 500/s"
    );
    let both = "limits held for a large one; rate of reads in wal was 501/s, a large one needs at least 500/s";
    assert!(sentence(501.0).starts_with(both), "{}", sentence(501.0));
}

#[test]
fn an_old_record_without_an_answer_is_read_and_a_run_outside_its_directory_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let criteria = [LimitStatus::Required, LimitStatus::Folklore]
        .map(|of| judged(criterion("p99", 1e7, of), 1e6, Outcome::Pass));
    let check = check(criteria.to_vec());
    check.write(dir.path()).unwrap();
    assert_eq!(
        CheckResult::read(dir.path()).unwrap().as_ref(),
        Some(&check)
    );
    let old = serde_json::to_string(&check)
        .unwrap()
        .replace("\"required\"", "\"published\"");
    let mut old: serde_json::Value = serde_json::from_str(&old).unwrap();
    old.as_object_mut()
        .unwrap()
        .retain(|field, _| field != "answer" && field != "tiers");
    for criterion in old["criteria"].as_array_mut().unwrap() {
        criterion
            .as_object_mut()
            .unwrap()
            .retain(|field, _| !field.contains("tier"));
    }
    results::run_dir::write_json(dir.path(), CHECK, &old).unwrap();
    assert_eq!(
        CheckResult::read(dir.path()).unwrap().as_ref(),
        Some(&check)
    );

    let cached = check.clone().concluded(Some("a cache answered".into()));
    assert_eq!(
        (cached.answer, cached.sentence.as_str()),
        (CheckAnswer::CannotTell, "a cache answered")
    );
    let mut elsewhere = check;
    elsewhere.runs[0].name = "../wal".into();
    elsewhere.write(dir.path()).unwrap();
    let error = CheckResult::read(dir.path()).unwrap_err().to_string();
    assert!(
        error.contains("its run \"../wal\" is not a directory below the directory of the check"),
        "{error}"
    );
}
