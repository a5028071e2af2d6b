//! Judging a log by its buckets: the worst share of any complete slice decides, in whole numbers.
//!
//! An ACT log has no failed operations, and from ACT 6 on only service times. So its judgement covers less than the verdict
//! of a run directory, which includes waits and failures. A pass also requires that the log shows the load and the duration
//! of its header.

use results::act_log::{LogHeader, Test};
use results::buckets::ActScale;
use results::format::{self, quoted};
use results::judge::{Limit, Outcome, Reason, ReasonCode, Sla, WorstShare};
use results::sliced_log::{SlicedHistogram, SlicedLog};
use serde::Serialize;
use std::collections::BTreeSet;
use std::fmt;
use thiserror::Error;

#[derive(Debug, Error)]
pub enum UnjudgedError {
    /// A limit lies between two edges of the log's buckets.
    #[error(
        "judging {log} by {limit} - the buckets of the log end at powers of two of {unit}, the nearest at {edges}, so the \
         number of operations over this threshold is unknown; give a limit at one of these edges, or the directory of a \
         run that had this limit in --sla"
    )]
    Edge {
        log: String,
        limit: String,
        unit: &'static str,
        edges: String,
    },
    #[error("judging {log} - it has neither reads nor writes; name one of its histograms with -h: {}", .has.join(", "))]
    NothingToJudge { log: String, has: Vec<String> },
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Judgement {
    pub log: String,
    /// Pass, fail, or invalid when there was nothing to judge.
    pub outcome: Outcome,
    pub sla: Sla,
    /// Durations of the deciding share: `service` or (ACT 3 to 5) `wait + service` from a log's buckets, `wait + service` from
    /// a run's own counts.
    pub by: &'static str,
    /// The worst share relative to its limit.
    pub decided_by: Option<WorstShare>,
    /// The number that decided, or why nothing could be judged.
    pub reason: String,
    pub code: ReasonCode,
}

impl fmt::Display for Judgement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            log,
            outcome,
            sla,
            by,
            reason,
            ..
        } = self;
        let limits = sla.words();
        write!(
            f,
            "{outcome} {log} ({limits}; judged by {by} time): {reason}"
        )
    }
}

/// Reads and commit writes of records, as the storage tests of ACT's versions name them.
const RECORD_STREAMS: [&str; 4] = ["reads", "writes", "READS", "WRITES"];
const INDEX_STREAMS: [&str; 2] = ["reads", "trans-reads"];

/// The histograms of a log that are judged by default: reads and commit writes of a storage test (large-block writes
/// if it has neither), or reads of an index test. Each is judged for all devices together and for each device.
pub fn judged_names(
    log: &str,
    header: &LogHeader,
    names: &[String],
) -> Result<Vec<String>, UnjudgedError> {
    let streams: &[&str] = match header.test {
        Test::Storage => &RECORD_STREAMS,
        Test::Index => &INDEX_STREAMS,
    };
    let mut judged = names_of_streams(header, names, streams);
    if judged.is_empty() {
        judged = names_of_streams(header, names, &["large-block-writes"]);
    }
    if judged.is_empty() {
        return Err(UnjudgedError::NothingToJudge {
            log: log.to_owned(),
            has: names.to_vec(),
        });
    }
    Ok(judged)
}

fn names_of_streams(header: &LogHeader, names: &[String], streams: &[&str]) -> Vec<String> {
    names
        .iter()
        .filter(|name| streams.contains(&device_and_stream(header, name).1))
        .cloned()
        .collect()
}

/// `/dev/x-reads`, and `/dev/x` in ACT 3 and 4: stream `reads` of /dev/x. A name that begins with no device of the log: a
/// stream of all devices.
fn device_and_stream<'a>(header: &LogHeader, name: &'a str) -> (Option<&'a str>, &'a str) {
    let devices = header.configured("device-names").unwrap_or_default();
    let is_device = |name: &str| devices.split([' ', ',']).any(|device| device == name);
    match name.rsplit_once('-') {
        _ if is_device(name) => (Some(name), "reads"),
        Some((device, stream)) if is_device(device) => (Some(device), stream),
        _ => (None, name),
    }
}

/// Durations that the deciding share counts. Until ACT 5, the records' histograms of all devices together begin when a
/// request is queued. Source: `read_and_report` in `act_storage.c` of ACT 5.0.
fn durations(header: &LogHeader, worst: Option<&WorstShare>) -> &'static str {
    let has_queue = header.act_version.starts_with(['3', '4', '5']);
    let is_queued = worst.is_some_and(|worst| {
        let mut queued = RECORD_STREAMS.iter().chain(&INDEX_STREAMS);
        worst.device.is_none() && queued.any(|stream| *stream == worst.stream)
    });
    if has_queue && is_queued {
        "wait + service"
    } else {
        "service"
    }
}

/// The buckets of a log needed to show the buckets `shown`, and to judge by the SLA if there is one; ascending.
/// Errors: a threshold lies between two edges of the log's buckets.
pub fn edges(
    log: &str,
    scale: ActScale,
    shown: &[usize],
    sla: Option<&Sla>,
) -> Result<Vec<usize>, UnjudgedError> {
    let mut edges: BTreeSet<usize> = shown.iter().copied().collect();
    for limit in sla.iter().flat_map(|sla| sla.limits()) {
        edges.insert(edge(log, scale, limit)?);
    }
    Ok(edges.into_iter().collect())
}

/// The last bucket below a limit's threshold.
fn edge(log: &str, scale: ActScale, limit: &Limit) -> Result<usize, UnjudgedError> {
    let unit_ns = scale.unit_ns();
    let units = limit.threshold_ns / unit_ns;
    if limit.threshold_ns.is_multiple_of(unit_ns) && units.is_power_of_two() {
        return Ok(units.ilog2() as usize);
    }
    let unit = scale.unit();
    let edges = match units.checked_ilog2() {
        None => format!("1 {unit}"),
        Some(below) => format!("{} and {} {unit}", 1_u64 << below, 2_u64 << below),
    };
    Err(UnjudgedError::Edge {
        log: log.to_owned(),
        limit: limit.to_string(),
        unit,
        edges,
    })
}

/// Judges histograms of a log that was read with the [`edges`] of the SLA. An exceeded limit fails the log, even if
/// other data is missing. A pass requires complete data.
pub fn judge(log: &SlicedLog, histograms: &[SlicedHistogram], sla: &Sla) -> Judgement {
    // Of several equally bad shares, the last is reported.
    let rank = |(exceeded, worst): &(bool, WorstShare)| (*exceeded, worst.share / worst.share_max);
    let worst = shares(log, histograms, sla)
        .reduce(|one, next| if rank(&one) > rank(&next) { one } else { next });
    let (is_over, worst) = worst.map_or((false, None), |(is_over, worst)| (is_over, Some(worst)));
    let over_limit = worst
        .as_ref()
        .filter(|_| is_over)
        .map(|worst| Reason::new(ReasonCode::OverLimit, worst.to_string()));
    let (outcome, reason) = match (
        over_limit.or_else(|| load_not_done(log)),
        unknown(log, histograms),
    ) {
        (Some(failure), _) => (Outcome::Fail, failure),
        (None, Some(unknown)) => (Outcome::Invalid, unknown),
        (None, None) => (Outcome::Pass, Reason::new(ReasonCode::Held, "")),
    };
    let text = match (&worst, outcome) {
        (Some(worst), Outcome::Pass) => worst.to_string(),
        (Some(worst), _) if !is_over => format!("{}; in the log, {worst}", reason.text),
        _ => reason.text,
    };
    let by = durations(&log.header, worst.as_ref());
    let log = log.name.clone();
    let sla = sla.clone();
    let code = reason.code;
    Judgement {
        log,
        outcome,
        sla,
        by,
        decided_by: worst,
        reason: text,
        code,
    }
}

/// Why a log fails although its operations are within the limits: the devices did not carry out the load.
fn load_not_done(log: &SlicedLog) -> Option<Reason> {
    let fell_behind = "the test stopped because the devices fell behind by more than max-lag-sec";
    let not_carried_out = log
        .load
        .not_carried_out
        .as_ref()
        .map(|text| Reason::new(ReasonCode::NotCarriedOut, text));
    not_carried_out.or_else(|| {
        log.devices_fell_behind
            .then(|| Reason::new(ReasonCode::FellBehind, fell_behind))
    })
}

/// Why a log cannot pass, if a part of the judged data is missing.
fn unknown(log: &SlicedLog, histograms: &[SlicedHistogram]) -> Option<Reason> {
    let damaged = |text| Reason::new(ReasonCode::Damaged, text);
    let unjudged = |text| Reason::new(ReasonCode::NothingJudged, text);
    if let Some(absent) = histograms
        .iter()
        .find(|histogram| histogram.index.is_none())
    {
        let name = &absent.name;
        let names = log.names.join(", ");
        return Some(unjudged(format!(
            "the log has no histogram {name:?} to judge: it has {names}"
        )));
    }
    if log.slices.is_empty() {
        return Some(unjudged(nothing_to_judge(log)));
    }
    // The unreadable part may hold slices that are over a limit.
    if log.damage.is_some() || !log.missing.is_empty() {
        return Some(damaged("a part of the log could not be read".to_owned()));
    }
    let empty = histograms
        .iter()
        .find_map(|histogram| empty(log, histogram))
        .map(unjudged);
    empty
        .or_else(|| log.load.implausible.clone().map(damaged))
        .or_else(|| cut(log))
}

/// Why a log does not show the whole test.
fn cut(log: &SlicedLog) -> Option<Reason> {
    let complete = format::span(log.complete_sec);
    let Some(text) = log.header.configured("test-duration-sec") else {
        let text = format!(
            "the header of the log has no test-duration-sec, so the log may be cut after {complete}"
        );
        return Some(Reason::new(ReasonCode::Damaged, text));
    };
    let Ok(duration_sec) = text.parse::<u64>() else {
        let text = format!(
            "test-duration-sec in the header of the log is {}, not a whole number of seconds, so the log may be cut after \
             {complete}",
            quoted(text)
        );
        return Some(Reason::new(ReasonCode::Damaged, text));
    };
    (log.complete_sec < duration_sec).then(|| {
        let duration = format::span(duration_sec);
        Reason::new(
            ReasonCode::Stopped,
            format!(
                "the log is complete up to {complete} of {duration}: the test was stopped, is still running, or the log \
                 is cut"
            ),
        )
    })
}

fn nothing_to_judge(log: &SlicedLog) -> String {
    format!(
        "no complete slice of {} s has an operation to judge",
        log.slice_sec
    )
}

/// A slice without completions: the device hung (an ACT log counts only completions), or no load was requested.
fn empty(log: &SlicedLog, histogram: &SlicedHistogram) -> Option<String> {
    let (number, _) = log
        .slices_of(histogram)
        .find(|(_, slice)| slice.total == 0)?;
    let name = histogram
        .index
        .and_then(|index| log.names.get(index))
        .unwrap_or(&histogram.name);
    if log.slices_of(histogram).all(|(_, slice)| slice.total == 0) {
        return Some(format!(
            "no slice has any operation of {name}: name a histogram with operations (-h)"
        ));
    }
    let begin_sec = (number - 1) * log.slice_sec;
    let end_sec = number * log.slice_sec;
    Some(format!(
        "slice {number} ({begin_sec} to {end_sec} s) has no operation of {name}: the device hung, or the load is so \
         low that it needs longer slices (-t)"
    ))
}

/// The share over each limit in each slice, with true if the limit was exceeded.
fn shares<'a>(
    log: &'a SlicedLog,
    histograms: &'a [SlicedHistogram],
    sla: &'a Sla,
) -> impl Iterator<Item = (bool, WorstShare)> + 'a {
    histograms.iter().flat_map(move |histogram| {
        let name = histogram
            .index
            .and_then(|index| log.names.get(index))
            .unwrap_or(&histogram.name);
        let (device, stream) = device_and_stream(&log.header, name);
        let slices = log
            .slices_of(histogram)
            .filter(|(_, slice)| slice.total > 0);
        slices.flat_map(move |(number, slice)| {
            sla.limits().iter().filter_map(move |limit| {
                let edge = edge(&log.name, log.scale, limit)
                    .ok()
                    .and_then(|bucket| log.edge(bucket))?;
                let over = slice.ops_over[edge];
                let scheduled = slice.total;
                let deciding = WorstShare {
                    stream: stream.to_owned(),
                    device: device.map(str::to_owned),
                    slice: number,
                    from_sec: None,
                    length_sec: log.slice_sec,
                    with_rest: false,
                    first_slice: None,
                    threshold_ns: limit.threshold_ns,
                    over,
                    scheduled,
                    cut: false,
                    share: over as f64 / scheduled as f64,
                    share_max: limit.share_max(),
                };
                Some((limit.is_exceeded(over, scheduled), deciding))
            })
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use results::testing::{ACT_LOG_NAMES, act_log_text, modified, sliced_log_reader};

    fn judged(text: &str, sla: &str) -> Judgement {
        let sla: Sla = sla.parse().unwrap();
        let mut source = sliced_log_reader(text);
        let edges = edges(
            "a.log",
            source.reader.scale(),
            &[0, 1, 2, 3, 4, 5, 6],
            Some(&sla),
        )
        .unwrap();
        let log = source
            .read(2, &ACT_LOG_NAMES.map(str::to_owned), &edges)
            .unwrap();
        judge(&log, &log.histograms, &sla)
    }

    #[test]
    fn a_share_equal_to_its_limit_fails_and_shares_are_not_rounded() {
        // 4 of 10 take 1 ms or longer, 1 of 10 takes 8 ms or longer.
        assert_eq!(judged(&act_log_text(4), "40%>1ms").outcome, Outcome::Fail);
        assert_eq!(
            judged(&act_log_text(4), "40.0000001%>1ms,10.1%>8ms").outcome,
            Outcome::Pass
        );
        let fail = judged(&act_log_text(4), "50%>1ms,10%>8ms");
        let decided = fail.decided_by.unwrap();
        assert_eq!(
            (decided.threshold_ns, decided.over, decided.scheduled),
            (8_000_000, 2, 20)
        );
        assert!(
            judged(&act_log_text(4), "10%>16ms")
                .reason
                .starts_with("0 % of reads on ")
        );
    }

    #[test]
    fn without_a_whole_slice_nothing_is_judged() {
        let none = judged(&act_log_text(1), "40%>1ms");
        assert_eq!((none.outcome, none.decided_by), (Outcome::Invalid, None));
    }

    /// A log with one report per second. `reports`: operations below 1 ms since the run began, of both histograms.
    fn counted(reports: &[(u64, u64)]) -> String {
        let reports = reports.iter().enumerate().map(|(index, (all, one))| {
            let line = |count: &u64| if *count > 0 { format!(" (00: {count:010})\n") } else { String::new() };
            let [first, second] = ACT_LOG_NAMES;
            let sec = index + 1;
            let of_all = line(all);
            let of_one = line(one);
            format!("after {sec} sec:\n{first} ({all} total)\n{of_all}{second} ({one} total)\n{of_one}\n")
        });
        act_log_text(0) + &reports.collect::<String>()
    }

    #[test]
    fn a_slice_without_a_completion_is_no_pass_and_is_named() {
        // All slices in these tests last 2 s.
        assert_eq!(
            judged(&counted(&[(5, 5), (9, 9), (9, 9), (10, 10)]), "40%>1ms").outcome,
            Outcome::Pass
        );
        for reports in [
            &[(5, 5), (9, 9), (9, 9), (9, 9)],
            &[(5, 5), (9, 9), (12, 9), (20, 9)],
        ] {
            let hung = judged(&counted(reports), "40%>1ms");
            let name = if reports[3].0 == 9 {
                "reads"
            } else {
                "/dev/x-reads"
            };
            assert_eq!(hung.outcome, Outcome::Invalid);
            let begin =
                format!("slice 2 (2 to 4 s) has no operation of {name}: the device hung, or");
            assert!(hung.reason.starts_with(&begin), "{}", hung.reason);
        }
        // A stream without any load does not pass, either.
        let never = judged(&counted(&[(5, 0), (9, 0)]), "40%>1ms");
        let begin = "no slice has any operation of /dev/x-reads: name a histogram";
        assert!(never.reason.starts_with(begin), "{}", never.reason);
        let neither = judged(&counted(&[(0, 0), (0, 0)]), "40%>1ms");
        assert_eq!([never.outcome, neither.outcome], [Outcome::Invalid; 2]);
        // Slow operations seen so far fail the log nevertheless.
        let last = act_log_text(2)[act_log_text(1).len()..].to_owned();
        let then_hung = act_log_text(2)
            + &last.replace("after 2", "after 3")
            + &last.replace("after 2", "after 4");
        assert_eq!(judged(&then_hung, "40%>1ms").outcome, Outcome::Fail);
        assert_eq!(judged(&then_hung, "40.1%>1ms").outcome, Outcome::Invalid);
    }

    #[test]
    fn a_log_that_ends_early_or_has_no_duration_is_no_pass() {
        let judged = |text: &str| {
            let judgement = judged(text, "50%>1ms");
            (judgement.outcome, judgement.code, judgement.reason)
        };
        let day = |seconds| act_log_text(seconds).replace("duration-sec: 1", "duration-sec: 86400");
        let (outcome, code, reason) = judged(&day(4));
        assert_eq!((outcome, code), (Outcome::Invalid, ReasonCode::Stopped));
        let begin = "the log is complete up to 4 s of 24 h: the test was stopped, is still running, or the log is cut; in";
        assert!(reason.starts_with(begin), "{reason}");
        let text = day(4).replace("duration-sec: 86400", "duration-sec: 4");
        assert_eq!(judged(&text).1, ReasonCode::Held);
        // The log is cut within its last report.
        let torn = &text[..text.len() - 30];
        assert_eq!(judged(torn).1, ReasonCode::Stopped);
        for (duration, part) in [
            ("", "has no test-duration-sec"),
            ("test-duration-sec: day\n", "\"day\", not a whole number"),
        ] {
            let (outcome, code, reason) =
                judged(&act_log_text(4).replace("test-duration-sec: 1\n", duration));
            assert_eq!((outcome, code), (Outcome::Invalid, ReasonCode::Damaged));
            assert!(reason.contains(part), "{reason}");
        }
    }

    #[test]
    fn a_log_with_a_lost_or_an_unreadable_report_is_no_pass() {
        let text = act_log_text(10);
        let lost = text.find("after 4 sec:").unwrap()..text.find("after 5 sec:").unwrap();
        let gap = [&text[..lost.start], &text[lost.end..]].concat();
        let unreadable = text.replace("after 9 sec:", "after 6 sec:");
        for text in [gap, unreadable] {
            let judged = judged(&text, "50%>1ms");
            assert_eq!(
                (judged.outcome, judged.code),
                (Outcome::Invalid, ReasonCode::Damaged)
            );
            let begin = "a part of the log could not be read; in the log, ";
            assert!(judged.reason.starts_with(begin), "{}", judged.reason);
        }
    }

    #[test]
    fn a_log_with_fewer_or_more_operations_than_its_header_requests_is_no_pass() {
        // The log has 10 reads per second.
        let judged = |per_sec: &str| {
            let rate = format!("internal-read-reqs-per-sec: {per_sec}\n");
            judged(&act_log_text(4).replace("a: 1\n", &rate), "50%>1ms")
        };
        assert_eq!(judged("10").outcome, Outcome::Pass);
        for (per_sec, outcome, code, begin) in [
            (
                "1000",
                Outcome::Fail,
                ReasonCode::NotCarriedOut,
                "the load of reads was not carried out: 40 of 4,000 operations after 4 s, at the header's rate of \
                 1,000/s; in the log, ",
            ),
            (
                "1",
                Outcome::Invalid,
                ReasonCode::Damaged,
                "the load of reads exceeds the header's rate: 40 of 4 operations after 4 s, at the header's rate of \
                 1/s; in the log, ",
            ),
        ] {
            let judged = judged(per_sec);
            assert_eq!((judged.outcome, judged.code), (outcome, code));
            assert!(judged.reason.starts_with(begin), "{}", judged.reason);
        }
    }

    #[test]
    fn a_test_that_act_stopped_because_of_the_drives_fails() {
        let stopped = act_log_text(4)
            + "ERROR: large block reads can't keep up\ndrive(s) can't keep up - test stopped\n";
        let stopped = judged(&stopped, "50%>1ms");
        assert_eq!(
            (stopped.outcome, stopped.code),
            (Outcome::Fail, ReasonCode::FellBehind)
        );
        let by_threads = act_log_text(4).replace("duration-sec: 1", "duration-sec: 9")
            + "ERROR: service thread can't keep up\nACT can't do requested load - test stopped\n";
        let by_threads = judged(&by_threads, "50%>1ms");
        assert_eq!(
            (by_threads.outcome, by_threads.code),
            (Outcome::Invalid, ReasonCode::Stopped)
        );
    }

    #[test]
    fn a_histogram_that_the_log_lacks_is_no_pass() {
        let sla: Sla = "40.1%>1ms".parse().unwrap();
        let outcome = |names: [&str; 2], sla: &Sla| {
            let log = sliced_log_reader(&act_log_text(2))
                .read(2, &names.map(str::to_owned), &[0])
                .unwrap();
            let judgement = judge(&log, &log.histograms, sla);
            (judgement.outcome, judgement.reason)
        };
        assert_eq!(outcome(ACT_LOG_NAMES, &sla).0, Outcome::Pass);
        let (invalid, reason) = outcome(["reads", "typo"], &sla);
        assert_eq!(invalid, Outcome::Invalid);
        assert!(
            reason.starts_with(
                "the log has no histogram \"typo\" to judge: it has reads, /dev/x-reads; in the"
            ),
            "{reason}"
        );
        assert_eq!(
            outcome(["typo", "reads"], &"40%>1ms".parse().unwrap()).0,
            Outcome::Fail
        );
    }

    #[test]
    fn histogram_names_are_split_into_device_and_stream_by_the_configured_device_names() {
        let header = LogHeader {
            configuration: vec![("device-names".to_owned(), "/dev/x sim:seed=2".to_owned())],
            ..LogHeader::default()
        };
        let names = [
            "reads",
            "/dev/x",
            "/dev/x-reads",
            "sim:seed=2-reads",
            "large-block-reads",
            "writes",
            "other-reads",
        ];
        let names = names.map(str::to_owned);
        let judged = judged_names("a.log", &header, &names).unwrap();
        assert_eq!(
            judged,
            [
                "reads",
                "/dev/x",
                "/dev/x-reads",
                "sim:seed=2-reads",
                "writes"
            ]
        );
        assert_eq!(
            device_and_stream(&header, "/dev/x"),
            (Some("/dev/x"), "reads")
        );
        let index = LogHeader {
            test: Test::Index,
            ..header.clone()
        };
        assert_eq!(judged_names("a.log", &index, &names).unwrap().len(), 4);
        let blocks = [
            "large-block-reads".to_owned(),
            "large-block-writes".to_owned(),
        ];
        assert_eq!(
            judged_names("a.log", &header, &blocks).unwrap(),
            ["large-block-writes"]
        );
        assert!(judged_names("a.log", &header, &blocks[..1]).is_err());
    }

    #[test]
    fn until_act_5_the_histograms_of_all_devices_include_the_wait_in_the_queue() {
        let worst = judged(&act_log_text(4), "10%>1ms").decided_by.unwrap();
        let of_device = modified(worst.clone(), |worst| {
            worst.device = Some("/dev/x".to_owned())
        });
        let of_all = modified(worst, |worst| worst.device = None);
        let of_blocks = modified(of_all.clone(), |worst| {
            worst.stream = "large-block-writes".to_owned()
        });
        for (version, of_all_devices) in [
            ("4.0", "wait + service"),
            ("5.3", "wait + service"),
            ("6.0", "service"),
        ] {
            let header = LogHeader {
                act_version: version.to_owned(),
                ..LogHeader::default()
            };
            assert_eq!(
                durations(&header, Some(&of_all)),
                of_all_devices,
                "{version}"
            );
            for worst in [&of_device, &of_blocks] {
                assert_eq!(durations(&header, Some(worst)), "service", "{version}");
            }
        }
    }

    #[test]
    fn thresholds_between_two_edges_are_refused_with_both() {
        let edge = |sla: &str, scale| edges("a.log", scale, &[0], Some(&sla.parse().unwrap()));
        assert_eq!(
            edge("5%>1ms,1%>8ms", ActScale::Milliseconds).unwrap(),
            [0, 3]
        );
        assert_eq!(edge("5%>1024us", ActScale::Microseconds).unwrap(), [0, 10]);
        for (sla, scale, nearest) in [
            (
                "5%>1ms",
                ActScale::Microseconds,
                "the nearest at 512 and 1024 us",
            ),
            (
                "5%>3ms",
                ActScale::Milliseconds,
                "the nearest at 2 and 4 ms",
            ),
            ("5%>500us", ActScale::Milliseconds, "the nearest at 1 ms"),
            (
                "5%>1500us",
                ActScale::Milliseconds,
                "the nearest at 1 and 2 ms",
            ),
        ] {
            let error = edge(sla, scale).unwrap_err().to_string();
            let begin =
                format!("judging a.log by {sla} - the buckets of the log end at powers of two of ");
            assert!(
                error.starts_with(&begin) && error.contains(nearest),
                "{error}"
            );
        }
    }
}
