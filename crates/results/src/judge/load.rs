//! Whether the whole load was done: of each stream with a rate, judged or not, in each slice.
//!
//! A verdict on latencies says nothing of operations that were never done in its time, nor of streams that no
//! limit looks at. So what each stream was asked for in a slice, on each device, is compared with what came back
//! in it. It is not done when at the slice's end more than 0.1 % of what was wanted in it is outstanding, beyond
//! what is under way there at any time; or when, beyond the latter, it grows through the whole slice.
//!
//! What is under way at any time: as many operations in flight as at the ends of the slice's intervals on
//! average, and whatever came due in the last tenth of a second. A drive may be slow, as long as it keeps up.

use super::CellCounts;
use crate::cell::Backlog;
use crate::units::{Grouped, percent};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// One in so many operations wanted may be outstanding at the end of a slice.
const OUTSTANDING_ONE_IN: u64 = 1_000;
/// What came due so shortly before the end can be under way, seconds.
const RECENT_SEC: f64 = 0.1;
/// However low the rate, one operation can have come due just now, and another behind it.
const RECENT_OPS_MIN: u64 = 2;
/// Parts of a slice through which a backlog has to grow to be called growing.
const PARTS: usize = 4;

/// What was done in a part of a slice of one stream on one device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct LoadPart {
    /// Operations that came back in it, and before the end of the run.
    done: u64,
    /// Operations in flight at the ends of its intervals, added up, and the number of these.
    in_flight_sum: u64,
    ends: u64,
    /// The least that had not been handed over at any of them.
    floor: u64,
    /// What was outstanding at its own end.
    end: Backlog,
}

impl LoadPart {
    /// Adds the next interval.
    pub(crate) fn add(&mut self, cell: &CellCounts) {
        let held_back = cell.backlog.waiting.saturating_add(cell.backlog.late);
        self.floor = if self.ends == 0 { held_back } else { self.floor.min(held_back) };
        self.done = self.done.saturating_add(cell.ops.saturating_sub(cell.overtime)).saturating_add(cell.errors);
        self.in_flight_sum = self.in_flight_sum.saturating_add(cell.backlog.in_flight);
        self.ends += 1;
        self.end = cell.backlog;
    }

    /// What was outstanding at its end.
    pub(crate) fn end(&self) -> Backlog {
        self.end
    }
}

/// The load of one stream on one device that was not done in a stretch of time; the fields are those of
/// [`Undone`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shortfall {
    pub(crate) wanted: u64,
    pub(crate) done: u64,
    pub(crate) outstanding: Backlog,
    pub(crate) growing: bool,
    pub(crate) ours: bool,
}

impl fmt::Display for Shortfall {
    /// `1,000 of 2,000 (50.0 %) were done, 2,000 were outstanding at the end (1 in flight, ...)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { wanted, done, outstanding, growing, .. } = self;
        let part = percent((*done as f64 / (*wanted).max(1) as f64).min(1.0));
        let (done, wanted, total) = (Grouped(*done), Grouped(*wanted), Grouped(outstanding.total()));
        let where_they_were = [
            (outstanding.in_flight, "in flight"),
            (outstanding.waiting, "waiting for a slot"),
            (outstanding.late, "kept back by this program"),
        ];
        let were = where_they_were.into_iter().filter(|(count, _)| *count > 0);
        let were: Vec<_> = were.map(|(count, what)| format!("{} {what}", Grouped(count))).collect();
        write!(f, "{done} of {wanted} ({part}) were done, {total} were outstanding at the end ({})", were.join(", "))?;
        if *growing { f.write_str(", more and more all through it") } else { Ok(()) }
    }
}

/// What was not done of the load of one stream on one device over `parts`, oldest first, before which `before`
/// was outstanding; `None` if all of it was. `per_sec` are the operations a second that it is asked for.
pub(crate) fn shortfall(before: &Backlog, parts: &[LoadPart], per_sec: f64) -> Option<Shortfall> {
    let end = parts.iter().rev().find(|part| part.ends > 0)?.end;
    let sum = |of: fn(&LoadPart) -> u64| parts.iter().map(of).fold(0, u64::saturating_add);
    let done = sum(|part| part.done);
    let wanted = done.saturating_add(end.total()).saturating_sub(before.total());
    let under_way = sum(|part| part.in_flight_sum).div_ceil(sum(|part| part.ends).max(1));
    let recent = ((per_sec * RECENT_SEC).ceil() as u64).max(RECENT_OPS_MIN);
    let devices = end.waiting.saturating_add(end.in_flight.saturating_sub(under_way));
    let behind = devices.saturating_add(end.late);
    let too_much = |count: u64| count > recent.saturating_add(wanted / OUTSTANDING_ONE_IN);
    let growing = behind > recent && grows(parts, recent);
    let ours = if growing { end.late > end.waiting } else { !too_much(devices) };
    (growing || too_much(behind)).then_some(Shortfall { wanted, done, outstanding: end, growing, ours })
}

/// Whether the least that was held back rises from each quarter to the next, by more than came due just now.
fn grows(parts: &[LoadPart], recent: u64) -> bool {
    if parts.len() < PARTS || parts.iter().any(|part| part.ends == 0) {
        return false;
    }
    let quarter = |quarter: usize| &parts[quarter * parts.len() / PARTS..(quarter + 1) * parts.len() / PARTS];
    let floors: Vec<_> =
        (0..PARTS).map(|index| quarter(index).iter().map(|part| part.floor).min().unwrap_or(0)).collect();
    floors.is_sorted_by(|one, next| one < next) && floors[PARTS - 1] - floors[0] > recent
}

/// A stream whose load was not done on a device.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Undone {
    /// The stream, judged or not.
    pub stream: String,
    /// The device.
    pub device: String,
    /// The slice in which most was left undone, from 1.
    pub slice: u64,
    /// In how many slices its load was not done.
    pub slices: u64,
    /// Operations wanted in that slice, those left over from before it excepted.
    pub wanted: u64,
    /// Operations that came back in it.
    pub done: u64,
    /// What was outstanding at its end.
    pub outstanding: Backlog,
    /// Whether it had grown through all of the slice.
    pub growing: bool,
    /// Whether this program kept it back, and not the device or a limit of operations in flight.
    pub ours: bool,
}

impl fmt::Display for Undone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { stream, device, slice, wanted, done, outstanding, growing, ours, .. } = self.clone();
        let shortfall = Shortfall { wanted, done, outstanding, growing, ours };
        write!(f, "the load of {stream} on {device} was not done: in slice {slice} {shortfall}; 99.9 % must be done")?;
        match self.slices {
            0 | 1 => Ok(()),
            slices => write!(f, "; likewise in {} slices in all", Grouped(slices)),
        }
    }
}

/// Follows the load of one stream on one device from slice to slice.
#[derive(Debug, Clone, Default)]
pub(super) struct LoadWatch {
    before: Backlog,
    parts: [LoadPart; PARTS],
    /// The slice in which most was left undone, from 1, and in how many some was.
    worst: Option<(u64, Shortfall)>,
    slices: u64,
}

impl LoadWatch {
    /// Adds an interval that lies at `position` of `intervals` in its slice.
    pub(super) fn add(&mut self, cell: &CellCounts, position: u64, intervals: u64) {
        let part = position.saturating_mul(PARTS as u64) / intervals.max(1);
        self.parts[(part as usize).min(PARTS - 1)].add(cell);
    }

    /// What is undone in the slice under way.
    pub(super) fn now(&self, per_sec: f64) -> Option<Shortfall> {
        shortfall(&self.before, &self.parts, per_sec)
    }

    /// Ends `slice`, from 1.
    pub(super) fn end_slice(&mut self, slice: u64, per_sec: f64) {
        if let Some(found) = self.now(per_sec) {
            self.slices += 1;
            let worse = |(_, worst): &(u64, Shortfall)| rank(&found) > rank(worst);
            if self.worst.as_ref().is_none_or(worse) {
                self.worst = Some((slice, found));
            }
        }
        self.before = self.end();
        self.parts = Default::default();
    }

    /// What was outstanding at the end of the last interval.
    pub(super) fn end(&self) -> Backlog {
        self.parts.iter().rev().find(|part| part.ends > 0).map_or(self.before, |part| part.end)
    }

    /// The slice in which most was left undone, and in how many some was.
    pub(super) fn worst(&self) -> Option<(u64, u64, Shortfall)> {
        self.worst.map(|(slice, found)| (slice, self.slices, found))
    }
}

/// What the device left undone before what we did, then by how much.
fn rank(found: &Shortfall) -> (bool, u64) {
    (!found.ours, found.outstanding.total())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Intervals of a second: done, in flight, waiting and late at the end of each.
    fn slice(seconds: impl IntoIterator<Item = (u64, u64, u64, u64)>, per_sec: f64) -> Option<Shortfall> {
        let seconds: Vec<_> = seconds.into_iter().collect();
        let mut watch = LoadWatch::default();
        for (position, (ops, in_flight, waiting, late)) in (0..).zip(&seconds) {
            let backlog = Backlog { in_flight: *in_flight, waiting: *waiting, late: *late };
            let cell = CellCounts { ops: *ops, backlog, ..CellCounts::default() };
            watch.add(&cell, position, seconds.len() as u64);
        }
        watch.end_slice(1, per_sec);
        watch.worst().map(|(.., found)| found)
    }

    #[test]
    fn a_backlog_of_more_than_a_thousandth_is_a_load_not_done() {
        // 1,000 a second for an hour; all but the last second's intervals in step.
        let hour =
            |waiting| slice((0..3600).map(|second| (1000, 1, if second == 3599 { waiting } else { 0 }, 0)), 1000.0);
        // 3,600 for a thousandth and 100 that came due just now, of which the backlog itself is a part.
        assert_eq!(hour(3_700), None);
        let found = hour(3_710).unwrap();
        assert_eq!((found.wanted, found.done, found.ours, found.growing), (3_603_711, 3_600_000, false, false));
    }

    #[test]
    fn natural_in_flight_operations_are_no_backlog_however_short_the_slice() {
        assert_eq!(slice([(1000, 120, 0, 0)], 1000.0), None, "a slow drive with many in flight");
        assert_eq!(slice([(23, 1, 2, 0)], 23.5), None, "one under way, one behind it");
        assert_eq!(slice((0..12).map(|second| (1000, 400 + second % 7, 0, 0)), 1000.0), None);
        let fills_its_slots = (0..12).map(|second| (900, 100 * (second + 1), 0, 0));
        assert!(slice(fills_its_slots, 1000.0).is_some(), "operations pile up in flight");
    }

    #[test]
    fn a_backlog_that_grows_through_the_slice_is_found_below_a_thousandth() {
        // Half of a thousandth is not done, of 1,000 a second.
        let hour = |grows: bool| {
            let waiting = move |second: u64| if grows { second / 2 } else { 1_700 + second % 3 };
            slice((0..3600).map(|second| (1000, 1, waiting(second), 0)), 1000.0)
        };
        assert!(hour(true).unwrap().growing);
        assert_eq!(hour(false), None, "it was there before, and stays as it is");
    }

    #[test]
    fn what_this_program_kept_back_is_ours() {
        assert!(slice([(1000, 1, 3, 900)], 1000.0).unwrap().ours);
        assert!(!slice([(1000, 1, 900, 900)], 1000.0).unwrap().ours, "the device alone left too much");
        assert!(slice((0..8).map(|second| (1_000_000, 1, 0, 300 * second)), 1000.0).unwrap().ours);
    }

    #[test]
    fn what_was_left_over_from_before_is_not_wanted_again() {
        let mut watch = LoadWatch::default();
        let cell = |ops, waiting| CellCounts {
            ops,
            backlog: Backlog { waiting, ..Backlog::default() },
            ..CellCounts::default()
        };
        watch.add(&cell(500, 500), 0, 1);
        watch.end_slice(1, 1000.0);
        watch.add(&cell(1500, 0), 0, 1);
        watch.end_slice(2, 1000.0);
        let (slice, slices, found) = watch.worst().unwrap();
        assert_eq!((slice, slices, found.wanted, found.done), (1, 1, 1000, 500), "the second slice caught up");
    }

    proptest! {
        /// What is wanted is what was done and what is outstanding, and a load done to the last operation that
        /// is not just now under way is never found short.
        #[test]
        fn a_queue_that_keeps_up_is_done_and_one_that_does_not_is_not(
            rate in 50_u64..100_000, percent in prop::sample::select(vec![90_u64, 99, 102, 110]), seconds in 12_u64..60
        ) {
            let capacity = rate * percent / 100;
            let mut waiting = 0;
            let intervals = (0..seconds).map(|_| {
                let done = (waiting + rate).min(capacity);
                waiting = waiting + rate - done;
                (done, 1, waiting, 0)
            });
            let found = slice(intervals.collect::<Vec<_>>(), rate as f64);
            let sufficient = capacity >= rate;
            let too_small_to_see = !sufficient && (rate - capacity) * seconds <= rate / 10 + rate * seconds / 1000 + 3;
            prop_assert!(found.is_none() == sufficient || too_small_to_see, "{found:?}");
        }
    }
}
