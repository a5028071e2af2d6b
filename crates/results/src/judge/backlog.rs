//! Detects a device that is slightly too slow for its load, by a backlog that grows through a short slice.
//!
//! The grace period of the other rules (see `load`) hides a second of the load: a third of a slice of three seconds,
//! 0.03 % of an hour. So shorter slices are also judged by their backlog: the operations of a stream on a device that
//! were due and not completed at the end of a report interval. The load was not carried out if the smallest backlog in
//! the last quarter of the slice exceeds the largest backlog in the first half by more than [`allowed_growth`].
//!
//! A single stall, a burst and a queue of random length do not have this pattern. Comparing only the ends of the slice,
//! with the same tolerance, would fail 8 to 38 % of the random loads that a drive carries out.

use super::Judge;
use super::load::UnmetSlice;
use super::slices::GroupCounts;
use crate::cell::Arrivals;
use crate::format::{self, Grouped};

/// From this length on, seconds, a slice is judged without its backlog: the grace period hides less than 0.1 % of the
/// slice.
const SLICE_SEC_MAX: u64 = 1_000;

/// Minimum number of report intervals in a slice that is judged by its backlog.
const INTERVALS_MIN: u64 = 4;

/// The largest growth of a backlog, operations, that `scheduled_ops` of a slice allow: 0.1 %, at least one. The number
/// of random arrivals varies by its square root; three times as much is allowed in addition.
fn allowed_growth(scheduled_ops: u64, arrivals: Arrivals) -> f64 {
    let scheduled_ops = scheduled_ops as f64;
    let by_chance = if arrivals == Arrivals::Even {
        0.0
    } else {
        3.0 * scheduled_ops.sqrt()
    };
    (scheduled_ops / 1_000.0).max(1.0) + by_chance
}

impl Judge {
    /// The complete slices of `group` in which its backlog grew too much.
    pub(super) fn slices_with_growth(&self, group: &GroupCounts) -> Vec<UnmetSlice> {
        let info = &self.plan.streams[group.stream];
        let is_judged =
            self.plan.slice_sec < SLICE_SEC_MAX && self.plan.intervals_per_slice() >= INTERVALS_MIN;
        if !is_judged || matches!(info.arrivals, Arrivals::Given) {
            return Vec::new();
        }
        let complete = usize::try_from(self.complete_slices).unwrap_or(usize::MAX);
        let slices = group
            .slices
            .iter()
            .zip(&group.growth.by_slice)
            .take(complete)
            .enumerate();
        let too_much = slices.filter_map(|(slice, (counts, growth))| {
            let scheduled_ops = counts.counted_ops();
            let allowed = allowed_growth(scheduled_ops, info.arrivals);
            let is_exceeded = growth.all as f64 > allowed;
            is_exceeded.then_some(UnmetSlice {
                slice,
                counts: *counts,
                missed: growth.all,
                is_ours: growth.on_device as f64 <= allowed,
                growth_allowed: Some(allowed as u64),
            })
        });
        too_much.collect()
    }

    /// A sentence if the run was too short to show whether its load was carried out: a slice has fewer than
    /// [`INTERVALS_MIN`] report intervals, and at the end of the run more operations of a stream were outstanding than
    /// may be missing.
    pub(super) fn too_short(&self) -> Option<String> {
        let intervals = self.plan.intervals_per_slice();
        if intervals >= INTERVALS_MIN {
            return None;
        }
        let with_rate = self
            .device_groups()
            .filter(|group| self.plan.per_sec(group.stream) > 0.0);
        let backlogs = with_rate.map(|group| {
            (
                group,
                group.growth.last.total(),
                group.total().counted_ops(),
            )
        });
        let (group, outstanding_ops, scheduled_ops) = backlogs
            .filter(|(_, outstanding, scheduled)| {
                *outstanding as f64 > allowed_growth(*scheduled, Arrivals::Even)
            })
            .max_by_key(|(_, outstanding, _)| *outstanding)?;
        let interval_sec = self.plan.report_interval_sec.max(1);
        Some(format!(
            "the run is too short to show that its load was carried out: {} of {} {} on {} had not completed at its \
             end; a growing backlog shows only in a slice of {INTERVALS_MIN} report intervals or more, and a slice of \
             this run has {} - run for at least {} s",
            Grouped(outstanding_ops),
            Grouped(scheduled_ops),
            self.plan.streams[group.stream].name,
            self.device_name(group),
            format::count(intervals, "report interval"),
            Grouped(INTERVALS_MIN * interval_sec)
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{End, JudgePlan, Outcome, ReasonCode, Sla, Verdict};
    use super::*;
    use crate::cell::Interval;
    use crate::counts::Backlog;
    use crate::times::Times;

    const SEC: u64 = 1_000_000_000;

    /// Verdict on a run of one slice, with 1,000 reads per second and these backlogs at the ends of the seconds.
    fn judged(arrivals: Arrivals, sla: &str, backlogs: &[Backlog]) -> Verdict {
        let seconds: Vec<_> = backlogs.iter().map(|backlog| (1_000, *backlog)).collect();
        judged_in_slices(seconds.len() as u64, arrivals, sla, &seconds)
    }

    /// Verdict on a run in slices of `slice_sec`. `second_by_second`: reads of each second, and backlog at its end.
    fn judged_in_slices(
        slice_sec: u64,
        arrivals: Arrivals,
        sla: &str,
        second_by_second: &[(u64, Backlog)],
    ) -> Verdict {
        let mut layout = crate::testing::layout(&[("reads", true)], 1_000.0, ["d"]);
        layout.streams[0].arrivals = arrivals;
        let seconds = second_by_second.len() as u64;
        let sla: Sla = sla.parse().unwrap();
        let mut judge = Judge::new(JudgePlan::new(&layout, sla, 1, slice_sec, seconds));
        for (index, (reads, backlog)) in (0..).zip(second_by_second) {
            let mut interval = Interval::new(&layout);
            (interval.index, interval.end_ns) = (index, (index + 1) * SEC);
            (0..*reads)
                .for_each(|_| interval.cells[0].record(&Times::new(0, 0, 0, 90_000), 0, 512));
            interval.cells[0].counts.backlog = *backlog;
            judge.add(&interval);
        }
        judge.verdict(&End::Completed)
    }

    fn waiting(backlogs: &[u64]) -> Vec<Backlog> {
        backlogs
            .iter()
            .map(|waiting| Backlog {
                waiting: *waiting,
                ..Backlog::default()
            })
            .collect()
    }

    fn outcome(arrivals: Arrivals, backlogs: &[u64]) -> Outcome {
        judged(arrivals, "5%>1ms", &waiting(backlogs)).outcome
    }

    #[test]
    fn a_backlog_that_grows_through_a_slice_fails_and_a_stall_a_burst_or_an_even_queue_does_not() {
        use Outcome::{Fail, Pass};
        for (backlogs, expected) in [
            (&[10, 20, 30, 40, 50, 60, 70, 80][..], Fail),
            (&[0, 0, 0, 0, 0, 0, 9, 9], Fail),
            // 8,000 operations: 8 may be missing.
            (&[0, 0, 0, 0, 0, 0, 8, 8], Pass),
            (&[500, 500, 500, 500, 500, 500, 500, 508], Pass),
            (&[0, 0, 0, 0, 900, 900, 900, 0], Pass),
            (&[900, 0, 0, 0, 0, 0, 0, 900], Pass),
            (&[0, 0, 0, 9], Fail),
            (&[0, 0, 9, 4], Pass),
        ] {
            assert_eq!(outcome(Arrivals::Even, backlogs), expected, "{backlogs:?}");
        }
    }

    #[test]
    fn the_growth_of_a_backlog_counts_from_the_beginning_of_its_slice() {
        let outcome = |slice_sec, backlogs: &[u64]| {
            let seconds: Vec<_> = waiting(backlogs)
                .into_iter()
                .map(|backlog| (1_000, backlog))
                .collect();
            judged_in_slices(slice_sec, Arrivals::Even, "5%>1ms", &seconds).outcome
        };
        assert_eq!(outcome(4, &[50, 50, 50, 50, 0, 0, 50, 50]), Outcome::Pass);
        assert_eq!(outcome(4, &[50, 50, 50, 50, 0, 0, 50, 55]), Outcome::Fail);
    }

    #[test]
    fn a_stream_that_pauses_in_a_slice_is_not_judged_by_its_backlog() {
        let outcome = |reads_of_the_second| {
            let seconds = [1_000, reads_of_the_second, 1_000, 1_000]
                .into_iter()
                .zip(waiting(&[0, 0, 0, 50]));
            judged_in_slices(4, Arrivals::Even, "5%>1ms", &seconds.collect::<Vec<_>>()).outcome
        };
        assert_eq!((outcome(0), outcome(1)), (Outcome::Pass, Outcome::Fail));
    }

    #[test]
    fn a_backlog_may_grow_by_chance_with_random_arrivals_and_freely_with_given_arrivals() {
        // 3 * sqrt(4,000) = 189.7, and 0.1 % are 4.
        assert_eq!(outcome(Arrivals::Random, &[0, 0, 0, 193]), Outcome::Pass);
        assert_eq!(outcome(Arrivals::Random, &[0, 0, 0, 194]), Outcome::Fail);
        assert_eq!(outcome(Arrivals::Unknown, &[0, 0, 0, 193]), Outcome::Pass);
        assert_eq!(outcome(Arrivals::Given, &[0, 0, 0, 999]), Outcome::Pass);
    }

    #[test]
    fn the_reason_has_the_growth_and_the_allowed_growth() {
        let verdict = judged(Arrivals::Even, "5%>1ms", &waiting(&[0, 0, 0, 120]));
        assert_eq!(verdict.reasons[0].code, ReasonCode::NotCarriedOut);
        assert_eq!(
            verdict.reasons[0].text,
            "the load of reads on d was not carried out in slice 1: its backlog grew by 120 of 4,000 operations (3.00 \
             %) through the slice; at most 4 are allowed"
        );
    }

    #[test]
    fn a_backlog_caused_by_this_program_fails_no_device() {
        let late = |late, waiting| Backlog {
            late,
            waiting,
            ..Backlog::default()
        };
        let ended = |last| {
            judged(
                Arrivals::Even,
                "5%>1ms",
                &[Backlog::default(), Backlog::default(), last, last],
            )
        };
        assert_eq!(ended(late(120, 4)).reasons[0].code, ReasonCode::OwnLag);
        assert_eq!(
            ended(late(120, 5)).reasons[0].code,
            ReasonCode::NotCarriedOut
        );
    }

    #[test]
    fn a_run_of_three_intervals_with_a_backlog_at_its_end_is_too_short() {
        let ended = |sla, last| judged(Arrivals::Even, sla, &waiting(&[0, 0, last]));
        let verdict = ended("5%>1ms", 4);
        assert_eq!(verdict.outcome, Outcome::Invalid);
        assert_eq!(verdict.reasons[0].code, ReasonCode::TooShort);
        assert_eq!(
            verdict.reasons[0].text,
            "the run is too short to show that its load was carried out: 4 of 3,000 reads on d had not completed at \
             its end; a growing backlog shows only in a slice of 4 report intervals or more, and a slice of this run \
             has 3 report intervals - run for at least 4 s"
        );
        assert_eq!(ended("5%>1ms", 3).outcome, Outcome::Pass);
        let measured = ended("100%>3600s", 4);
        assert_eq!(measured.outcome, Outcome::Measured);
        assert!(
            measured
                .reasons
                .iter()
                .any(|reason| reason.text.contains("too short")),
            "{measured}"
        );
    }
}
