//! Turns dumps into slices: the counts between two dumps.

use super::scan::{ScanResult, ScannedDump};
use super::{HistogramQuery, TableStart};
use crate::server_log::collect::{DumpCounts, began_anew};
use crate::server_log::{HistogramUnit, clock_steps};
use jiff::SignedDuration;
use jiff::civil::DateTime;
use serde::Serialize;

/// Maximum time between the dumps of all namespaces in one tick of the server's ticker.
const TOGETHER: SignedDuration = SignedDuration::from_secs(5);
/// Distance from the log's end at which a table for `TableStart::Tail` begins.
const TAIL: SignedDuration = SignedDuration::from_mins(5);

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LatencySlice {
    /// Time of the second dump.
    pub to: DateTime,
    pub seconds: i64,
    pub pct_over: Vec<f64>,
    pub ops_per_sec: f64,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct LatencyTable {
    pub histogram: String,
    /// Namespace, if requested separately from the name.
    pub namespace: Option<String>,
    /// Requested start of the table; `None` for the start of the log.
    pub asked_from: Option<DateTime>,
    /// Time of the first dump; `None`: there is none.
    pub from: Option<DateTime>,
    /// Unit of the thresholds: ms, us, bytes, records.
    pub unit: &'static str,
    pub thresholds: Vec<u64>,
    pub slices: Vec<LatencySlice>,
    /// Mean of the slices' percentages, and operations per second over all slices.
    pub average: Option<(Vec<f64>, f64)>,
    /// Maximum of each column.
    pub largest: Option<(Vec<f64>, f64)>,
    /// A change of unit: old unit, new unit, time.
    pub unit_change: Option<(&'static str, &'static str, DateTime)>,
    pub slice_sec: i64,
    /// Restarts within the table: times of the last dump before and of the first dump after each restart.
    pub restarts: Vec<(DateTime, DateTime)>,
    /// Steps of the clock within the table: times of the last dump before and of the first dump after each step.
    pub clock_steps: Vec<(DateTime, DateTime)>,
}

/// Counts of one tick, over all namespaces.
struct TickCounts {
    /// Index of the tick's first dump among all dumps.
    first: usize,
    local_time: DateTime,
    unit: HistogramUnit,
    total: u64,
    buckets: Vec<u64>,
}

impl TickCounts {
    fn counts(&self) -> DumpCounts<'_> {
        (self.unit, self.total, &self.buckets)
    }
}

impl ScanResult {
    /// Why no two dumps make a slice of `table`, and what to do.
    pub fn no_slice_advice(&self, table: &LatencyTable, query: &HistogramQuery) -> &'static str {
        let last = self
            .dumps
            .last()
            .map_or(DateTime::MIN, |dump| dump.local_time);
        let tail = self.tail.unwrap_or_default();
        let is_uncounted =
            !self.followed || query.is_summed() && later(last, TOGETHER.as_secs()) >= tail;
        let is_needed = table
            .from
            .is_none_or(|from| last >= later(from, query.slice_min_sec()));
        match query.start {
            _ if is_uncounted && is_needed => {
                "the log ends within 5 s of its last histogram, which may be incomplete and does not count - give a \
                 log that continues after this histogram"
            }
            TableStart::Head => "give a shorter -t, or a longer log",
            _ => "give a shorter -t, or an earlier -f",
        }
    }
}

pub fn table(scan_result: &ScanResult, query: &HistogramQuery) -> LatencyTable {
    let tail = scan_result.tail.unwrap_or_default();
    let before_tail = |duration| tail.checked_sub(duration).unwrap_or(DateTime::MIN);
    let asked_from = match query.start {
        TableStart::Head => None,
        TableStart::Tail => Some(before_tail(TAIL)),
        TableStart::Before(seconds) => Some(
            before_tail(SignedDuration::from_secs(seconds))
                .max(scan_result.head.unwrap_or_default()),
        ),
        TableStart::At(at) => Some(at.max(scan_result.head.unwrap_or_default())),
    };
    let asked_from = asked_from.map(whole_seconds);
    let thresholds = query.thresholds();
    let mut table = LatencyTable {
        histogram: query.histogram.clone(),
        namespace: query.namespace.clone(),
        asked_from,
        unit: query.unit_name(HistogramUnit::Millis),
        thresholds: thresholds.iter().map(|bucket| 1 << bucket).collect(),
        slice_sec: query.slice_sec,
        ..LatencyTable::default()
    };
    let mut gaps = gaps(scan_result, query).into_iter().peekable();
    let mut counts = Groups::new(scan_result, query);
    let Some(mut old) = counts.next_from(asked_from.unwrap_or(DateTime::MIN)) else {
        return table;
    };
    if counts.is_summed && later(old.local_time, TOGETHER.as_secs()) >= tail {
        // Dumps of other namespaces may not be written yet.
        return table;
    }
    table.from = Some(old.local_time);
    table.unit = query.unit_name(old.unit);
    let end = query
        .duration_sec
        .map(|seconds| later(old.local_time, seconds));
    let length = query.slice_min_sec();
    let mut is_first = true;
    let mut operations = 0.0;
    let mut seconds = 0;
    'slices: while end.is_none_or(|end| end > old.local_time) {
        let counts_before = counts.clone();
        let Some(mut new) = counts.next_from(later(old.local_time, length)) else {
            break;
        };
        let unit = query.unit_name(new.unit);
        if std::mem::take(&mut is_first) {
            table.unit = unit;
        } else if table.unit != unit {
            table.unit_change = Some((table.unit, unit, new.local_time));
            break;
        }
        while let Some(gap) = gaps.next_if(|gap| gap.until.0 <= new.first) {
            if gap.until.0 <= old.first {
                continue;
            }
            let of_its_kind = if gap.is_restart {
                &mut table.restarts
            } else {
                &mut table.clock_steps
            };
            of_its_kind.push((gap.after, gap.until.1));
            if !query.as_asloglatency {
                counts = counts_before;
                counts.skip_to(gap.until.0);
                let Some(first) = counts.next_from(DateTime::MIN) else {
                    break 'slices;
                };
                old = first;
                continue 'slices;
            }
        }
        let slice = slice(&old, &mut new, &thresholds);
        operations += new.total as f64 - old.total as f64;
        seconds += slice.seconds;
        table.slices.push(slice);
        old = new;
    }
    if !table.slices.is_empty() {
        let number = table.slices.len() as f64;
        let column = |at: usize| table.slices.iter().map(move |slice| slice.pct_over[at]);
        let columns = 0..thresholds.len();
        let average = columns
            .clone()
            .map(|at| column(at).fold(0.0, |sum, pct| sum + pct) / number)
            .collect();
        let largest = columns.map(|at| column(at).fold(0.0, f64::max)).collect();
        let rate = table
            .slices
            .iter()
            .map(|slice| slice.ops_per_sec)
            .fold(0.0, f64::max);
        table.average = Some((average, operations / seconds as f64));
        table.largest = Some((largest, rate));
    }
    table
}

/// Two dumps between which no rate can be computed: counters were reset, or the clock was set.
struct Gap {
    after: DateTime,
    /// Index and time of the next dump.
    until: (usize, DateTime),
    is_restart: bool,
}

fn gaps(scan_result: &ScanResult, query: &HistogramQuery) -> Vec<Gap> {
    let mut groups = Groups::new(scan_result, query);
    let all_counts: Vec<TickCounts> =
        std::iter::from_fn(|| groups.next_from(DateTime::MIN)).collect();
    let distances: Vec<f64> = all_counts
        .windows(2)
        .map(|pair| {
            pair[1]
                .local_time
                .duration_since(pair[0].local_time)
                .as_secs_f64()
        })
        .collect();
    let growths: Vec<f64> = all_counts
        .windows(2)
        .map(|pair| pair[1].total as f64 - pair[0].total as f64)
        .collect();
    let mut gaps = Vec::new();
    for (at, pair) in all_counts.windows(2).enumerate() {
        let [last, next] = pair else { continue };
        let is_restart = began_anew(last.counts(), next.counts());
        // If dumps are missing, distance and growth are the same multiple of their usual values. Any other unusual
        // distance is a step of the clock.
        let stepped = clock_steps::usual(&distances, at).is_some_and(|usual| {
            let multiple = (distances[at] / usual).round().max(1.0);
            let too_few = |growth: f64| multiple > 1.0 && growths[at] < (multiple - 0.5) * growth;
            (distances[at] - multiple * usual).abs() > clock_steps::TOLERANCE_SEC
                || clock_steps::usual(&growths, at).is_some_and(too_few)
        });
        if is_restart || stepped {
            gaps.push(Gap {
                after: last.local_time,
                until: (next.first, next.local_time),
                is_restart,
            });
        }
    }
    gaps
}

/// Difference of two dumps. Buckets of `new` that went back are raised to the buckets of `old`, as asloglatency does.
fn slice(old: &TickCounts, new: &mut TickCounts, thresholds: &[usize]) -> LatencySlice {
    let total = new.total as f64 - old.total as f64;
    let percentages = new.buckets.iter_mut().zip(&old.buckets).map(|(new, old)| {
        *new = (*new).max(*old);
        if total > 0.0 {
            (*new - old) as f64 / total * 100.0
        } else {
            0.0
        }
    });
    let percentages: Vec<f64> = percentages.collect();
    let over = |bucket: &usize| percentages[bucket + 1..].iter().sum::<f64>();
    let seconds = new.local_time.duration_since(old.local_time).as_secs();
    // An empty sum is -0, and `+ 0.0` makes it 0.
    let pct_over = thresholds.iter().map(|bucket| over(bucket) + 0.0).collect();
    LatencySlice {
        to: new.local_time,
        seconds,
        pct_over,
        ops_per_sec: total / seconds as f64,
    }
}

fn later(local_time: DateTime, seconds: i64) -> DateTime {
    local_time.saturating_add(SignedDuration::from_secs(seconds))
}

fn whole_seconds(local_time: DateTime) -> DateTime {
    local_time
        .with()
        .subsec_nanosecond(0)
        .build()
        .unwrap_or(local_time)
}

/// Groups the dumps of each tick: one dump of each namespace.
#[derive(Clone)]
struct Groups<'a> {
    dumps: &'a [ScannedDump],
    dumps_before: usize,
    /// True if a line follows the last dump.
    followed: bool,
    is_summed: bool,
    skips_partial: bool,
    /// Number of dumps in the previous tick.
    last_number: usize,
    buckets: usize,
}

impl<'a> Groups<'a> {
    fn new(scan_result: &'a ScanResult, query: &HistogramQuery) -> Self {
        let is_summed = query.is_summed();
        Self {
            dumps: &scan_result.dumps,
            dumps_before: 0,
            followed: scan_result.followed,
            is_summed,
            skips_partial: is_summed && !query.as_asloglatency,
            last_number: 0,
            buckets: query.buckets_read(),
        }
    }

    /// Continues at the dump with index `first` among all dumps.
    fn skip_to(&mut self, first: usize) {
        self.dumps = &self.dumps[first - self.dumps_before..];
        self.dumps_before = first;
    }

    fn next_from(&mut self, start: DateTime) -> Option<TickCounts> {
        loop {
            self.skip_to(
                self.dumps_before
                    + self
                        .dumps
                        .iter()
                        .position(|dump| dump.local_time >= start)?,
            );
            let index = self.dumps_before;
            let (group, rest) = self.dumps.split_at(self.number_of(self.dumps));
            self.skip_to(index + group.len());
            let is_last = rest.is_empty();
            let number = group.len();
            // The last dump may be incomplete.
            let group = if is_last && !self.followed {
                &group[..number - 1]
            } else {
                group
            };
            // If the dump of one namespace is missing (torn, or not written yet), the lower sum is not a restart.
            let lacks_one = group.len() < self.last_number
                && (is_last || self.number_of(rest) >= self.last_number);
            if self.skips_partial && lacks_one {
                continue;
            }
            self.last_number = number;
            let first = group.first()?;
            let last = group.last()?;
            let mut counts = TickCounts {
                first: index,
                local_time: first.local_time,
                unit: last.unit,
                total: 0,
                buckets: vec![0; self.buckets],
            };
            for dump in group {
                counts.total = counts.total.saturating_add(dump.total);
                let both = counts.buckets.iter_mut().zip(&dump.buckets);
                both.for_each(|(all, count)| *all = all.saturating_add(*count));
            }
            return Some(counts);
        }
    }

    /// Number of leading dumps that belong to one tick.
    fn number_of(&self, dumps: &[ScannedDump]) -> usize {
        let Some(first) = dumps.first() else { return 0 };
        let until = first.local_time.saturating_add(TOGETHER);
        let same = |dump: &&ScannedDump| dump.series != first.series && dump.local_time <= until;
        1 + if self.is_summed {
            dumps[1..].iter().take_while(same).count()
        } else {
            0
        }
    }
}
