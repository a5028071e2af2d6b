//! Compares the operations of a log with the rates in its header.
//!
//! A log has only completed operations, so a load that was not carried out is missing from its histograms: the shares
//! of slow operations can be small because few operations ran. The counts since the beginning of the test are compared
//! at the end of each slice and at the end of the log.
//!
//! Header and counts of a genuine log differ for known reasons, all of which are allowed here. Source: ACT's source
//! code, versions 3.0 to 6.6.
//!
//! * Rates are printed as whole numbers, or with two decimals. Up to 0.1 % of the operations, or two, may be in flight.
//! * ACT 5 and 6 truncate a rate to whole requests per second for each thread, and at most one request for each thread
//!   is in flight. Old versions have a queue in front of these threads, but ACT stops if the queue becomes long.
//! * ACT 6 draws reads or writes at random for each request: only their sum has a rate. flashproof's `arrival: act`
//!   does the same. With `arrival: poisson`, the number of operations itself is random.
//! * In ACT's index test, each cache thread begins with 100 updates, and several devices get the rate of one.
//! * `arrival: closed` has no rate: the header shows the proportions of the load.

use crate::act_log::{Chunk, LogHeader, Test};
use crate::format::{Grouped, number, quoted, span};
use std::fmt;

const CACHE_RATE: &str = "cache-thread-reads-and-writes-per-sec";

/// The name of a histogram, and the derived rates that add up to its rate. A log has some of these rates.
type RatedHistogram = (&'static str, &'static [&'static str]);

/// The histograms of ACT 3 to 6 that have a rate.
const RATED_HISTOGRAMS: [RatedHistogram; 11] = [
    (
        "reads",
        &[
            "internal-read-reqs-per-sec",
            "service-thread-reads-per-sec",
            CACHE_RATE,
        ],
    ),
    ("writes", &["internal-write-reqs-per-sec", CACHE_RATE]),
    ("large-block-reads", &["large-block-reads-per-sec"]),
    ("large-block-writes", &["large-block-writes-per-sec"]),
    ("trans-reads", &["trans-thread-reads-per-sec"]),
    ("device-reads", &["trans-thread-reads-per-sec", CACHE_RATE]),
    ("device-writes", &[CACHE_RATE]),
    ("READS", &["internal read requests per sec"]),
    ("WRITES", &["internal write requests per sec"]),
    (
        "LARGE BLOCK READS",
        &["large block reads per sec", "large block ops per sec"],
    ),
    (
        "LARGE BLOCK WRITES",
        &["large block writes per sec", "large block ops per sec"],
    ),
];

/// Updates with which each cache thread of ACT begins. Source: `BUNDLE_SIZE` in `src/index/act_index.c`.
const CACHE_BUNDLE: f64 = 100.0;

/// Largest rounding error of a rate with two decimals.
const ROUNDING: f64 = 0.005;

/// Greatest share of the operations that may be in flight.
const IN_FLIGHT_MAX: f64 = 0.001;

/// Standard deviations of a random number of operations that are allowed.
const DEVIATIONS: f64 = 4.0;

/// If a log has more operations than this multiple of its header's rate, header and log do not belong together.
const EXCESS_MIN: f64 = 2.0;

/// Findings about the load of a log, one sentence each.
#[derive(Debug, Default)]
pub struct LoadCheck {
    loads: Vec<RatedLoad>,
    /// Operations are missing: the test did not carry out the load of its header.
    pub not_carried_out: Option<String>,
    /// Header and reports contradict each other.
    pub implausible: Option<String>,
}

#[derive(Debug, Default)]
struct RatedLoad {
    /// Indexes and names of the load's histograms.
    histograms: Vec<(usize, &'static str)>,
    /// Rate in the header, operations per second.
    per_sec: f64,
    /// Lowest rate that the printed rate can stand for.
    least_per_sec: f64,
    /// Operations that may be in flight at any time.
    in_flight: f64,
    /// Operations that may run before they are due.
    early: f64,
    is_poisson: bool,
}

impl LoadCheck {
    pub(super) fn for_log(header: &LogHeader, names: &[String]) -> Self {
        let check = |loads, implausible| Self {
            loads,
            implausible,
            not_carried_out: None,
        };
        match loads(header, names) {
            Ok(loads) => check(loads, None),
            Err(why) => check(Vec::new(), Some(why)),
        }
    }

    /// Compares the counts of a report with the rates. `is_last`: no operation completes after this report.
    pub(super) fn add(&mut self, chunk: &Chunk, is_last: bool) {
        let progress = || self.loads.iter().map(|load| load.progress(chunk));
        let behind = progress().filter(|progress| progress.is_behind(is_last));
        let furthest_behind = behind.min_by(|one, other| one.share().total_cmp(&other.share()));
        if let Some(behind) = furthest_behind {
            self.not_carried_out = Some(format!(
                "the load of {} was not carried out: {behind}",
                behind.load.names()
            ));
        }
        if let Some(ahead) = progress().find(LoadProgress::is_excessive) {
            self.implausible = Some(format!(
                "the load of {} exceeds the header's rate: {ahead}",
                ahead.load.names()
            ));
        }
    }
}

impl RatedLoad {
    fn names(&self) -> String {
        self.histograms
            .iter()
            .map(|(_, name)| *name)
            .collect::<Vec<_>>()
            .join(" and ")
    }

    fn progress(&self, chunk: &Chunk) -> LoadProgress<'_> {
        let ops = self
            .histograms
            .iter()
            .map(|(index, _)| chunk.histograms[*index].total())
            .sum();
        LoadProgress {
            load: self,
            ops,
            after_sec: chunk.after_sec,
        }
    }
}

/// The operations of a load since the beginning of the test.
struct LoadProgress<'a> {
    load: &'a RatedLoad,
    ops: u64,
    after_sec: u64,
}

impl LoadProgress<'_> {
    /// Operations that are due at the lowest rate that the header can stand for.
    fn due_least(&self) -> f64 {
        self.load.least_per_sec * self.after_sec as f64
    }

    /// Operations that are due at the rate in the header.
    fn due(&self) -> f64 {
        self.load.per_sec * self.after_sec as f64
    }

    fn share(&self) -> f64 {
        self.ops as f64 / self.due()
    }

    fn is_behind(&self, is_last: bool) -> bool {
        let due = self.due_least();
        let random = if self.load.is_poisson {
            DEVIATIONS * due.sqrt()
        } else {
            0.0
        };
        // As in the verdict of a run, an operation is missing if it has not completed one second after the slice.
        let catching_up = if is_last { 0.0 } else { self.load.per_sec };
        due - self.ops as f64
            > (due * IN_FLIGHT_MAX).max(2.0).max(self.load.in_flight) + random + catching_up
    }

    fn is_excessive(&self) -> bool {
        self.ops as f64 > EXCESS_MIN * (self.due() + self.load.early + 1.0)
    }
}

impl fmt::Display for LoadProgress<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ops = Grouped(self.ops);
        let due = Grouped(self.due().round() as u64);
        let after = span(self.after_sec);
        let rate = number(self.load.per_sec);
        write!(
            f,
            "{ops} of {due} operations after {after}, at the header's rate of {rate}/s"
        )
    }
}

/// The loads with a rate. Errors: a sentence about a rate that is not a number.
fn loads(header: &LogHeader, names: &[String]) -> Result<Vec<RatedLoad>, String> {
    let arrival = header.setting("arrival");
    if arrival == Some("closed") {
        return Ok(Vec::new());
    }
    let is_drawn = header.written_by.is_empty() || arrival == Some("act");
    let (drawn, single) =
        if is_drawn && header.test == Test::Storage && header.act_version.starts_with("6.") {
            RATED_HISTOGRAMS.split_at(2)
        } else {
            RATED_HISTOGRAMS.split_at(0)
        };
    let groups = Some(drawn)
        .filter(|drawn| !drawn.is_empty())
        .into_iter()
        .chain(single.chunks(1));
    groups
        .filter_map(|streams| load(header, names, streams).transpose())
        .collect()
}

/// The load of `streams`, histograms whose operations are counted together. `None`: the header has no rate for them, or
/// the log lacks a histogram that has a rate (ACT logs no `reads` if only updates cause reads).
fn load(
    header: &LogHeader,
    names: &[String],
    streams: &[RatedHistogram],
) -> Result<Option<RatedLoad>, String> {
    let by_act = header.written_by.is_empty();
    let devices = number_of(header, "num-devices").max(1.0);
    let cache_threads = number_of(header, "cache-threads");
    let service_threads = number_of(header, "service-threads")
        .max(number_of(header, "num-queues") * number_of(header, "threads-per-queue"));
    let mut load = RatedLoad {
        is_poisson: header.setting("arrival") == Some("poisson"),
        ..RatedLoad::default()
    };
    // The part of the rate that ACT divides among threads.
    let mut divided_per_sec = 0.0;
    let mut in_flight: f64 = 0.0;
    for (stream, rates) in streams {
        let mut stream_per_sec = 0.0;
        for (rate, text) in rates
            .iter()
            .filter_map(|rate| Some((*rate, header.derived(rate)?)))
        {
            let printed = rate_of(rate, text)?;
            stream_per_sec += printed;
            if rate == CACHE_RATE {
                load.least_per_sec -= if by_act {
                    printed - printed / devices
                } else {
                    0.0
                };
                load.early += cache_threads * CACHE_BUNDLE;
                in_flight = in_flight.max(cache_threads);
            } else if text.contains('.') {
                load.least_per_sec -= ROUNDING;
                in_flight = in_flight.max(devices);
            } else {
                divided_per_sec += printed;
                in_flight = in_flight.max(service_threads);
            }
        }
        match names.iter().position(|name| name == stream) {
            Some(index) => load.histograms.push((index, *stream)),
            None if stream_per_sec > 0.0 => return Ok(None),
            None => {}
        }
        load.per_sec += stream_per_sec;
    }
    load.least_per_sec += load.per_sec;
    if by_act {
        load.least_per_sec -= divided_per_sec % threads(header, streams).max(1.0);
        load.in_flight = in_flight;
    }
    Ok((load.per_sec > 0.0).then_some(load))
}

/// Threads among which ACT divides the rate of `streams`.
fn threads(header: &LogHeader, streams: &[RatedHistogram]) -> f64 {
    let of_act_5 = match streams {
        [("reads", _)] => header.derived("read-req-threads"),
        [("writes", _)] => header.derived("write-req-threads"),
        _ => None,
    };
    let of_act_5 = of_act_5.and_then(|text| text.parse().ok());
    of_act_5.unwrap_or_else(|| number_of(header, "service-threads"))
}

/// A number in the configuration; 0 without one.
fn number_of(header: &LogHeader, key: &str) -> f64 {
    header
        .configured(key)
        .and_then(|text| text.parse::<u32>().ok())
        .map_or(0.0, f64::from)
}

fn rate_of(name: &str, text: &str) -> Result<f64, String> {
    let rate = text
        .parse()
        .ok()
        .filter(|rate: &f64| rate.is_finite() && *rate >= 0.0);
    rate.ok_or_else(|| {
        format!(
            "the header has {name}: {}, which is not a rate",
            quoted(text)
        )
    })
}

#[cfg(test)]
mod tests {
    use crate::testing::modified;
    use crate::testing::sliced_log_reader;

    /// A log of ACT 6.6 that reports `counts` of the histograms `names` at the times `after_sec`.
    struct TestLog {
        test: &'static str,
        written_by: &'static str,
        configuration: &'static str,
        rates: &'static str,
        settings: &'static str,
        names: &'static [&'static str],
    }

    /// A storage test by flashproof with 2,000 reads and 47.06 large-block writes per second.
    const PACED: TestLog = TestLog {
        test: "STORAGE",
        written_by: "written by flashproof 0.1.0, in ACT's log format\n",
        configuration: "num-devices: 1\nservice-threads: 10\n",
        rates: "internal-read-reqs-per-sec: 2000\nlarge-block-writes-per-sec: 47.06\n",
        settings: "arrival: paced\n",
        names: &["reads", "large-block-writes"],
    };

    /// ACT's own test with 2,000 reads and 1,000 commit writes per second.
    const BY_ACT: TestLog = TestLog {
        written_by: "",
        rates: "internal-read-reqs-per-sec: 2000\ninternal-write-reqs-per-sec: 1000\n",
        settings: "",
        names: &["reads", "writes"],
        ..PACED
    };

    /// ACT's own index test on two devices: 3,000 reads for clients, and 2,000 page updates per second.
    const INDEX: TestLog = TestLog {
        test: "INDEX",
        configuration: "num-devices: 2\nservice-threads: 10\ncache-threads: 8\n",
        rates: "service-thread-reads-per-sec: 3000\ncache-thread-reads-and-writes-per-sec: 2000\n",
        ..BY_ACT
    };

    impl TestLog {
        /// Findings of the check in a log with these counts after each time, in slices of 10 s.
        fn finds(&self, reports: &[(u64, [u64; 2])]) -> [Option<String>; 2] {
            let Self {
                test,
                written_by,
                configuration,
                rates,
                settings,
                names,
            } = self;
            let title = if *test == "INDEX" { "Index" } else { "Storage" };
            let settings = if settings.is_empty() {
                String::new()
            } else {
                format!("FLASHPROOF SETTINGS\n{settings}\n")
            };
            let mut text = format!(
                "ACT version 6.6\n{title} device IO test\n{written_by}\nACT-{test} CONFIGURATION\n\
                 device-names: /dev/x\ntest-duration-sec: 10\nreport-interval-sec: 10\n{configuration}\n\
                 DERIVED CONFIGURATION\n{rates}\n{settings}HISTOGRAM NAMES\n{}\n\n",
                names.join("\n")
            );
            for (after_sec, counts) in reports {
                text += &format!("after {after_sec} sec:\n");
                for (name, count) in names.iter().zip(counts) {
                    let buckets = if *count > 0 {
                        format!(" (00: {count:010})\n")
                    } else {
                        String::new()
                    };
                    text += &format!("{name} ({count} total)\n{buckets}");
                }
                text += "\n";
            }
            let log = sliced_log_reader(&text).read(10, &[], &[0]).unwrap();
            assert_eq!(log.damage.map(|damage| damage.to_string()), None);
            [log.load.not_carried_out, log.load.implausible]
        }

        /// True if a log of 10 s with these counts did its load.
        fn is_done(&self, counts: [u64; 2]) -> bool {
            let [behind, implausible] = self.finds(&[(10, counts)]);
            assert_eq!(implausible, None);
            behind.is_none()
        }
    }

    #[test]
    fn a_load_is_done_if_at_most_a_thousandth_or_two_operations_are_missing() {
        assert!(PACED.is_done([20_000, 471]) && PACED.is_done([19_980, 471]));
        assert!(!PACED.is_done([19_979, 471]));
        // 47.055/s at least, of which two operations may be in flight.
        assert!(PACED.is_done([20_000, 469]) && !PACED.is_done([20_000, 468]));
        let [behind, _] = PACED.finds(&[(10, [11_140, 471])]);
        let expected = "the load of reads was not carried out: 11,140 of 20,000 operations after 10 s, at the header's \
                        rate of 2,000/s";
        assert_eq!(behind.as_deref(), Some(expected));
        let [worst, _] = PACED.finds(&[(10, [11_140, 47])]);
        assert!(
            worst
                .unwrap()
                .starts_with("the load of large-block-writes "),
            "the load furthest behind"
        );
    }

    #[test]
    fn operations_may_be_caught_up_within_a_second_except_at_the_end() {
        let found = PACED.finds(&[(10, [18_000, 471]), (20, [40_000, 942])]);
        assert_eq!(found, [None, None]);
        assert!(PACED.finds(&[(10, [17_900, 471]), (20, [40_000, 942])])[0].is_some());
        assert!(PACED.finds(&[(10, [20_000, 471]), (20, [38_000, 942])])[0].is_some());
    }

    #[test]
    fn in_logs_of_act_rates_are_truncated_and_only_reads_plus_writes_reach_the_rate() {
        assert!(BY_ACT.is_done([19_700, 10_300]) && BY_ACT.is_done([20_300, 9_700]));
        assert!(!BY_ACT.is_done([19_700, 10_000]));
        assert!(
            !PACED.is_done([19_700, 471]),
            "flashproof's reads have a rate of their own"
        );
        let settings = "arrival: act\n";
        assert!(
            TestLog {
                written_by: PACED.written_by,
                settings,
                ..BY_ACT
            }
            .is_done([19_700, 10_300])
        );
        // 2,999/s are truncated to 299/s for each of 10 threads: 29,900 in 10 s, of which 0.1 % (29.9) may be missing.
        let odd = modified(BY_ACT, |it| it.rates = "internal-read-reqs-per-sec: 2999\n");
        assert!(odd.is_done([29_900, 0]) && odd.is_done([29_871, 0]) && !odd.is_done([29_870, 0]));
        assert!(
            !TestLog {
                written_by: PACED.written_by,
                ..odd
            }
            .is_done([29_900, 0]),
            "flashproof runs exact rates"
        );
    }

    #[test]
    fn in_an_index_test_updates_add_reads_and_acts_cache_threads_reach_one_devices_rate() {
        assert!(INDEX.is_done([40_000, 10_000]) && INDEX.is_done([50_800, 20_800]));
        assert!(!INDEX.is_done([39_900, 10_000]) && !INDEX.is_done([40_000, 9_900]));
        assert!(
            !TestLog {
                written_by: PACED.written_by,
                ..INDEX
            }
            .is_done([40_000, 10_000])
        );
        // ACT does not report reads that only updates cause.
        let without_reads = modified(BY_ACT, |it| it.names = &["/dev/x-reads", "writes"]);
        assert_eq!(without_reads.finds(&[(10, [0, 5_000])]), [None, None]);
    }

    #[test]
    fn random_arrivals_vary_and_closed_loops_have_no_rate() {
        let poisson = modified(PACED, |it| it.settings = "arrival: poisson\n");
        // Four standard deviations of 20,000 are 566.
        assert!(poisson.is_done([19_420, 471]) && !poisson.is_done([19_400, 471]));
        let closed = modified(PACED, |it| it.settings = "arrival: closed\n");
        assert_eq!(closed.finds(&[(10, [1, 1])]), [None, None]);
        assert_eq!(closed.finds(&[(10, [9_000_000, 1])]), [None, None]);
        let found = TestLog { rates: "", ..PACED }.finds(&[(10, [1, 1])]);
        assert_eq!(found, [None, None]);
    }

    #[test]
    fn a_header_rate_far_below_the_counts_or_not_a_number_is_implausible() {
        let slow = modified(PACED, |it| it.rates = "internal-read-reqs-per-sec: 200\n");
        let [behind, implausible] = slow.finds(&[(10, [20_000, 471])]);
        let expected = "the load of reads exceeds the header's rate: 20,000 of 2,000 operations after 10 s, at the \
                        header's rate of 200/s";
        assert_eq!((behind, implausible.as_deref()), (None, Some(expected)));
        for rate in ["many", "-2000", "inf", "NaN", ""] {
            let rates = format!("internal-read-reqs-per-sec: {rate}\n");
            let [_, implausible] =
                modified(PACED, |it| it.rates = rates.leak()).finds(&[(10, [20_000, 471])]);
            let expected = format!(
                "the header has internal-read-reqs-per-sec: \"{rate}\", which is not a rate"
            );
            assert_eq!(implausible, Some(expected));
        }
    }
}
