//! Turns dumps into slices: the counts between two dumps.

use super::scan::{ScanResult, ScannedDump};
use super::{HistogramQuery, TableStart};
use crate::server_log::{Unit, order};
use jiff::SignedDuration;
use jiff::civil::DateTime;
use serde::Serialize;

/// Maximum time between the dumps of all namespaces in one tick.
const TOGETHER: SignedDuration = SignedDuration::from_secs(5);
/// Distance from the log's end at which a table for `TableStart::Tail` begins.
const TAIL: SignedDuration = SignedDuration::from_mins(5);

/// Counts between two dumps.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Slice {
    /// Time of the second dump.
    pub to: DateTime,
    /// Seconds between the two dumps.
    pub seconds: i64,
    /// Percentages over each threshold.
    pub pct_over: Vec<f64>,
    /// Operations per second.
    pub ops_per_sec: f64,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Table {
    /// Name of the histogram, as requested.
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
    pub slices: Vec<Slice>,
    /// Mean of the slices' percentages, and operations per second over all of them.
    pub average: Option<(Vec<f64>, f64)>,
    /// Maximum of each column.
    pub largest: Option<(Vec<f64>, f64)>,
    /// A change of unit: old unit, new unit, time.
    pub unit_change: Option<(&'static str, &'static str, DateTime)>,
    /// Requested length of a slice, s.
    pub slice_sec: i64,
    /// Restarts within the table: times of the last dump before and of the first dump after.
    pub restarts: Vec<(DateTime, DateTime)>,
    /// Steps of the clock within the table: times of the last dump before and of the first dump after.
    pub clock_steps: Vec<(DateTime, DateTime)>,
}

/// Counts of one tick, over all namespaces.
struct Counts {
    /// Index of the tick's first dump among all dumps.
    first: usize,
    at: DateTime,
    unit: Unit,
    total: u64,
    buckets: Vec<u64>,
}

pub fn table(found: &ScanResult, wanted: &HistogramQuery) -> Table {
    let tail = found.tail.unwrap_or_default();
    let before = |duration| tail.checked_sub(duration).unwrap_or(DateTime::MIN);
    let asked_from = match wanted.from {
        TableStart::Head => None,
        TableStart::Tail => Some(before(TAIL)),
        TableStart::Before(seconds) => {
            Some(before(SignedDuration::from_secs(seconds)).max(found.head.unwrap_or_default()))
        }
        TableStart::At(at) => Some(at.max(found.head.unwrap_or_default())),
    };
    let asked_from = asked_from.map(whole_seconds);
    let thresholds = wanted.thresholds();
    let mut table = Table {
        histogram: wanted.histogram.clone(),
        namespace: wanted.namespace.clone(),
        asked_from,
        unit: wanted.unit_name(Unit::Millis),
        thresholds: thresholds.iter().map(|bucket| 1 << bucket).collect(),
        slice_sec: wanted.slice_sec,
        ..Table::default()
    };
    let mut gaps = gaps(found, wanted).into_iter().peekable();
    let mut counts = Groups::new(found, wanted);
    let Some(mut old) = counts.next_from(asked_from.unwrap_or(DateTime::MIN)) else { return table };
    if counts.together && later(old.at, TOGETHER.as_secs()) >= tail {
        // Dumps of other namespaces may not be written yet.
        return table;
    }
    table.from = Some(old.at);
    table.unit = wanted.unit_name(old.unit);
    let end = wanted.duration_sec.map(|seconds| later(old.at, seconds));
    // Ticks may come slightly early.
    let length = if wanted.slice_sec > 1 { wanted.slice_sec - 1 } else { wanted.slice_sec };
    let mut is_first = true;
    let (mut operations, mut seconds) = (0.0, 0);
    'slices: while end.is_none_or(|end| end > old.at) {
        let before = counts.clone();
        let Some(mut new) = counts.next_from(later(old.at, length)) else { break };
        let unit = wanted.unit_name(new.unit);
        if std::mem::take(&mut is_first) {
            table.unit = unit;
        } else if table.unit != unit {
            table.unit_change = Some((table.unit, unit, new.at));
            break;
        }
        while let Some(gap) = gaps.next_if(|gap| gap.until.0 <= new.first) {
            if gap.until.0 <= old.first {
                continue;
            }
            let of_its_kind = if gap.is_restart { &mut table.restarts } else { &mut table.clock_steps };
            of_its_kind.push((gap.after, gap.until.1));
            if !wanted.as_asloglatency {
                counts = before;
                counts.skip_to(gap.until.0);
                let Some(first) = counts.next_from(DateTime::MIN) else { break 'slices };
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
        let of = |fold: &dyn Fn(f64, f64) -> f64, at: usize| {
            table.slices.iter().map(|slice| slice.pct_over[at]).fold(0.0, fold)
        };
        let columns = 0..thresholds.len();
        let average = columns.clone().map(|at| of(&|a, b| a + b, at) / number).collect();
        let largest = columns.map(|at| of(&f64::max, at)).collect();
        let rate = table.slices.iter().map(|slice| slice.ops_per_sec).fold(0.0, f64::max);
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

fn gaps(found: &ScanResult, wanted: &HistogramQuery) -> Vec<Gap> {
    let mut groups = Groups::new(found, wanted);
    let all: Vec<Counts> = std::iter::from_fn(|| groups.next_from(DateTime::MIN)).collect();
    let distances: Vec<f64> = all.windows(2).map(|pair| pair[1].at.duration_since(pair[0].at).as_secs_f64()).collect();
    let growths: Vec<f64> = all.windows(2).map(|pair| pair[1].total as f64 - pair[0].total as f64).collect();
    let mut gaps = Vec::new();
    for (at, pair) in all.windows(2).enumerate() {
        let [last, next] = pair else { continue };
        let went_back = next.buckets.iter().zip(&last.buckets).any(|(next, last)| next < last);
        // The total does not depend on the unit.
        let is_restart = next.total < last.total || last.unit == next.unit && went_back;
        // If dumps are missing, both the distance and the growth are the same multiple of the usual. Any other distance
        // is a step of the clock.
        let stepped = order::usual(&distances, at).is_some_and(|usual| {
            let multiple = (distances[at] / usual).round().max(1.0);
            let too_few = |growth: f64| multiple > 1.0 && growths[at] < (multiple - 0.5) * growth;
            (distances[at] - multiple * usual).abs() > order::TOLERANCE_SEC
                || order::usual(&growths, at).is_some_and(too_few)
        });
        if is_restart || stepped {
            gaps.push(Gap { after: last.at, until: (next.first, next.at), is_restart });
        }
    }
    gaps
}

/// Difference of two dumps. Buckets of `new` that went back are raised to those of `old`, as asloglatency does.
fn slice(old: &Counts, new: &mut Counts, thresholds: &[usize]) -> Slice {
    let total = new.total as f64 - old.total as f64;
    let percentages = new.buckets.iter_mut().zip(&old.buckets).map(|(new, old)| {
        *new = (*new).max(*old);
        if total > 0.0 { (*new - old) as f64 / total * 100.0 } else { 0.0 }
    });
    let percentages: Vec<f64> = percentages.collect();
    let over = |bucket: &usize| percentages[bucket + 1..].iter().sum::<f64>();
    let seconds = new.at.duration_since(old.at).as_secs();
    // An empty sum is -0, and `+ 0.0` makes it 0.
    let pct_over = thresholds.iter().map(|bucket| over(bucket) + 0.0).collect();
    Slice { to: new.at, seconds, pct_over, ops_per_sec: total / seconds as f64 }
}

fn later(at: DateTime, seconds: i64) -> DateTime {
    at.saturating_add(SignedDuration::from_secs(seconds))
}

fn whole_seconds(at: DateTime) -> DateTime {
    at.with().subsec_nanosecond(0).build().unwrap_or(at)
}

/// Groups the dumps of one tick: one of each namespace.
#[derive(Clone)]
struct Groups<'a> {
    dumps: &'a [ScannedDump],
    /// Number of dumps before `dumps`.
    taken: usize,
    /// True if a line follows the last dump.
    followed: bool,
    together: bool,
    skips_partial: bool,
    /// Number of dumps in the previous tick.
    last_number: usize,
    buckets: usize,
}

impl<'a> Groups<'a> {
    fn new(found: &'a ScanResult, wanted: &HistogramQuery) -> Self {
        let together = wanted.namespace.is_none() && !wanted.names_a_namespace();
        Self {
            dumps: &found.dumps,
            taken: 0,
            followed: found.followed,
            together,
            skips_partial: together && !wanted.as_asloglatency,
            last_number: 0,
            buckets: wanted.buckets_read(),
        }
    }

    /// Continues at the dump with index `first` among all dumps.
    fn skip_to(&mut self, first: usize) {
        self.dumps = &self.dumps[first - self.taken..];
        self.taken = first;
    }

    fn next_from(&mut self, from: DateTime) -> Option<Counts> {
        loop {
            self.skip_to(self.taken + self.dumps.iter().position(|dump| dump.at >= from)?);
            let index = self.taken;
            let (group, rest) = self.dumps.split_at(self.number_of(self.dumps));
            self.skip_to(index + group.len());
            let (is_last, number) = (rest.is_empty(), group.len());
            // The last dump may be incomplete.
            let group = if is_last && !self.followed { &group[..number - 1] } else { group };
            // If the dump of one namespace is missing (torn, or not written yet), the lower sum is not a restart.
            let lacks_one = group.len() < self.last_number && (is_last || self.number_of(rest) >= self.last_number);
            if self.skips_partial && lacks_one {
                continue;
            }
            self.last_number = number;
            let (first, last) = (group.first()?, group.last()?);
            let mut counts =
                Counts { first: index, at: first.at, unit: last.unit, total: 0, buckets: vec![0; self.buckets] };
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
        let until = first.at.saturating_add(TOGETHER);
        let same = |dump: &&ScannedDump| dump.series != first.series && dump.at <= until;
        1 + if self.together { dumps[1..].iter().take_while(same).count() } else { 0 }
    }
}
