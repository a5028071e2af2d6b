//! A rating: the highest multiple of a load that a drive holds in steady state.
//!
//! ```text
//! Search ─next()─> NextRun ─run, with a Watcher─> StepOutcome ─record_held(), record_not_held()─> Search ...
//!                └──> SearchResult, at the end
//! ```
//!
//! The search climbs from below. A load is never more than one step beyond the highest load held, because an overdriven
//! drive is slow for a long time afterwards. A step is watched round by round, and ends as soon as its shares are
//! settled, or can no longer pass. After a failed step, the last held load runs until its earlier shares return; only
//! then is another load judged.
//!
//! The caller runs a step and records its result, so the same search can be replayed from a record.
//!
//! While loads are held, the next load is 1.25, then 1.5, then 2 times the last one. Once a load was not held, the next
//! load is the geometric mean of the highest load held and the lowest load not held, until these two loads are within
//! the resolution. Then the highest load held is confirmed over a whole slice. If the confirmation fails, short tries
//! show too little of this drive: the search goes down by increasing steps, and judges each further load over a whole
//! slice.

mod watch;

pub use watch::{
    JudgedStep, RECOVERY_ROUNDS_MAX, ROUNDS_MIN, RoundShares, SPELLS_IN_WINDOW, StepOutcome,
    StepPurpose, Watcher,
};

use crate::series::{Conclusion, Rule, Series, SeriesStepState, Step};
use results::format;
use results::judge::{LESS_BUSY, LOOK_AT_DRIVE, Limit, Outcome, Sla};
use serde::{Deserialize, Serialize};
use serde_json::json;
/// Factors of successive steps up, while all loads are held.
const GROWTH: [f64; 3] = [1.25, 1.5, 2.0];
/// Divisors of successive steps down from a load that was not confirmed.
const SHRINKAGE: [f64; 3] = [1.05, 1.2, 2.0];
/// Lowest load tried, as a fraction of the first load: slightly below 1/64 because of rounding to three digits.
const LOWEST_OF_FIRST: f64 = 0.99 / 64.0;
/// Maximum number of failed recoveries. With more, the search gives up, because the drive changes from hour to hour.
const UNRECOVERED_MAX: u32 = 5;
const DIGITS: i32 = 3;

/// Rounds a load to three digits, as a search does. Anything but a finite number above 0 becomes 1.
pub fn three_digits(multiple: f64) -> f64 {
    if !(multiple.is_finite() && multiple > 0.0) {
        return 1.0;
    }
    let place = 10f64.powi(DIGITS - 1 - multiple.log10().floor() as i32);
    (multiple * place).round() / place
}

/// The next run of a search. Each load is a multiple of the load of 1x.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "move", content = "multiple")]
pub enum NextRun {
    /// Run this load until its shares are settled, or can no longer pass.
    Try(f64),
    /// Run this load, which was held before, until its earlier shares return.
    Recover(f64),
    /// Run this load for a whole slice.
    Confirm(f64),
}

impl NextRun {
    pub fn multiple(self) -> f64 {
        match self {
            Self::Try(multiple) | Self::Recover(multiple) | Self::Confirm(multiple) => multiple,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SearchStop {
    Found,
    /// Every load up to the highest allowed load was held: the rating is at least this load.
    Highest,
    /// No load down to 1/64 of the first load was held.
    NoneHeld,
    /// This program or host could not generate a load. Loads above the highest load held are unknown.
    OurLimit,
    /// Operations failed, or a device disappeared.
    Broken,
    /// Loads that were held were repeatedly not held later.
    Unstable,
    TimeUp,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SearchResult {
    pub stop: SearchStop,
    pub held: Option<f64>,
    pub not_held: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct RatingSearch {
    first: f64,
    highest: f64,
    /// 1 + resolution: no load is tried between two loads whose ratio is smaller.
    ratio: f64,
    /// Loads held, ascending.
    held_multiples: Vec<f64>,
    /// The highest load that was held over a whole slice.
    confirmed: Option<f64>,
    not_held: Option<f64>,
    growth: usize,
    /// Steps down since the confirmation of a tried load failed; `None` before. After such a failure, each load runs
    /// for a whole slice.
    shrinkage: Option<usize>,
    unrecovered: u32,
    /// True if the drive was overdriven and has not recovered yet.
    overdriven: bool,
    stop: Option<SearchStop>,
}

impl RatingSearch {
    /// Begins with `first` times the load of 1x, never exceeds `highest`, and ends when the rating is known within
    /// `resolution`, a fraction above 0.
    pub fn new(first: f64, highest: f64, resolution: f64) -> Self {
        Self {
            first,
            highest,
            ratio: 1.0 + resolution,
            ..Self::default()
        }
    }

    /// The next run; `Err` with the result if the search is over.
    pub fn next(&self) -> Result<NextRun, SearchResult> {
        if let Some(stop) = self.stop {
            return Err(self.finding(stop));
        }
        match (self.held_multiples.last().copied(), self.not_held) {
            (None, None) => Ok(NextRun::Try(self.first)),
            // No load is known to be held, so there is no load for a recovery. Lower loads let the drive recover, too.
            (None, Some(not_held)) => {
                let less = self
                    .shrinkage
                    .map_or(2.0, |steps| SHRINKAGE[steps.min(SHRINKAGE.len() - 1)]);
                let lower = three_digits(not_held / less);
                let is_lowest = lower < self.first * LOWEST_OF_FIRST;
                if is_lowest {
                    Err(self.finding(SearchStop::NoneHeld))
                } else {
                    Ok(self.judging(lower))
                }
            }
            (Some(held), _) if self.overdriven => Ok(NextRun::Recover(held)),
            (Some(held), None) if held >= self.highest => {
                self.confirming(held, SearchStop::Highest)
            }
            (Some(held), None) => {
                let grown = held * GROWTH[self.growth.saturating_sub(1).min(GROWTH.len() - 1)];
                Ok(self.judging(three_digits(grown.min(self.highest))))
            }
            (Some(held), Some(not_held)) => {
                let middle = three_digits((held * not_held).sqrt());
                // Multiples have three digits, so differences below 0.01 % are rounding errors.
                let is = |other: f64| (middle / other - 1.0).abs() < 1e-4;
                let near = not_held / held <= self.ratio || is(held) || is(not_held);
                if near {
                    self.confirming(held, SearchStop::Found)
                } else {
                    Ok(self.judging(middle))
                }
            }
        }
    }

    fn judging(&self, multiple: f64) -> NextRun {
        if self.shrinkage.is_some() {
            NextRun::Confirm(multiple)
        } else {
            NextRun::Try(multiple)
        }
    }

    /// The confirmation of `held`, or the end of the search if `held` is already confirmed.
    fn confirming(&self, held: f64, stop: SearchStop) -> Result<NextRun, SearchResult> {
        if self.confirmed == Some(held) {
            Err(self.finding(stop))
        } else {
            Ok(NextRun::Confirm(held))
        }
    }

    /// Records that the load of `run` was held. `is_whole_slice`: true if the run lasted a whole slice.
    pub fn record_held(&mut self, run: NextRun, is_whole_slice: bool) {
        let multiple = run.multiple();
        if let NextRun::Recover(_) = run {
            self.overdriven = false;
            return;
        }
        if self.held_multiples.last() != Some(&multiple) {
            self.held_multiples.push(multiple);
            self.growth += 1;
        }
        if is_whole_slice {
            self.confirmed = Some(multiple);
        }
    }

    /// Records that the load of `run` was not held, or that the drive did not recover. `overdrove`: true if the load
    /// may have left the drive slower than before.
    pub fn record_not_held(&mut self, run: NextRun, overdrove: bool) {
        let multiple = run.multiple();
        match run {
            NextRun::Try(_) => {}
            NextRun::Recover(_) => {
                self.held_multiples.retain(|held| *held < multiple);
                self.confirmed = self.confirmed.filter(|confirmed| *confirmed < multiple);
                self.unrecovered += 1;
            }
            NextRun::Confirm(_) if self.held_multiples.last() == Some(&multiple) => {
                self.held_multiples = self.confirmed.into_iter().collect();
                self.shrinkage = Some(0);
            }
            NextRun::Confirm(_) => self.shrinkage = self.shrinkage.map(|steps| steps + 1),
        }
        self.not_held = Some(
            self.not_held
                .map_or(multiple, |lowest| lowest.min(multiple)),
        );
        self.overdriven = overdrove && !self.held_multiples.is_empty();
        if self.unrecovered > UNRECOVERED_MAX {
            self.stop(SearchStop::Unstable);
        }
    }

    /// Ends the search for a reason outside the search: operations failed, or a load could not be generated.
    pub fn stop(&mut self, stop: SearchStop) {
        self.stop = Some(stop);
    }

    /// Records that no configuration can express the next load: the load is above the maximum, or rounds to zero.
    pub fn out_of_range(&mut self) {
        match self.held_multiples.last() {
            Some(held) => self.highest = *held,
            None => self.stop(SearchStop::NoneHeld),
        }
    }

    pub fn finding(&self, stop: SearchStop) -> SearchResult {
        SearchResult {
            stop,
            held: self.held_multiples.last().copied(),
            not_held: self.not_held,
        }
    }
}

/// Result of a step of a search, stored in [`Step::details`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepDetails {
    #[serde(flatten)]
    pub moved: NextRun,
    pub judged: JudgedStep,
    pub ran_sec: f64,
}

impl StepDetails {
    /// `None` for steps that are not finished or not of a search.
    pub fn from_step(step: &Step) -> Option<Self> {
        let done = step.state == SeriesStepState::Done;
        step.details_as().filter(|_| done)
    }
}

/// `load_options`: options with which another command runs multiples of the same load and judges by the same limits.
/// `not_comparable`: phrases, reasons not to compare the rating with published ratings.
pub fn conclude(
    series: &Series,
    finding: &SearchResult,
    sla: &Sla,
    load_options: &[String],
    not_comparable: &[String],
) -> Conclusion {
    let steps: Vec<_> = series
        .steps
        .iter()
        .filter_map(|step| Some((step, StepDetails::from_step(step)?)))
        .collect();
    let held = steps.iter().rev().find(|(step, details)| {
        Some(details.moved.multiple()) == finding.held
            && step.rule == Rule::Limits
            && details.judged.seen == StepOutcome::Held
    });
    let not_held = steps.iter().rev().find(|(_, details)| {
        Some(details.moved.multiple()) == finding.not_held
            && details.judged.seen != StepOutcome::Held
    });
    let held_details = held.map(|(_, details)| details);
    let not_held_details = not_held.map(|(_, details)| details);
    let confirmed = matches!(finding.stop, SearchStop::Found | SearchStop::Highest);

    let mut remarks = Vec::from_iter(held_details.map(|details: &StepDetails| {
        format!(
            "at {}x: {}{}",
            details.moved.multiple(),
            details.judged.why,
            margin(details, sla)
        )
    }));
    let broken_step = steps
        .iter()
        .rev()
        .find(|(_, details)| details.judged.seen == StepOutcome::Broken);
    remarks.extend(
        broken_step.map(|(step, details)| format!("{}: {}", step.name, details.judged.why)),
    );
    remarks.extend(not_held_details.map(|details| {
        format!(
            "not held: {}x: {}",
            details.moved.multiple(),
            details.judged.why
        )
    }));
    if finding.held.is_some() && !confirmed {
        remarks.push("the load was not confirmed over a whole slice".to_owned());
    }
    let moved_steps = steps.iter().filter(|(_, details)| details.judged.has_moved);
    let settled =
        "after a load that was too high, the drive settled at other shares of slow operations";
    remarks.extend(moved_steps.map(|(step, _)| format!("{}: {settled}", step.name)));
    if let Some(decisive) = held_details.or(not_held_details) {
        remarks.push(spells(decisive, sla));
        remarks.push(too_rare_events_sentence(decisive));
    }
    if !not_comparable.is_empty() {
        remarks.push(format!(
            "not to be compared with published ratings: {}",
            not_comparable.join("; ")
        ));
    }
    let outcome = match (finding.stop, finding.held) {
        (SearchStop::Found | SearchStop::Highest, Some(_)) => Outcome::Pass,
        (SearchStop::NoneHeld | SearchStop::Broken, _) => Outcome::Fail,
        _ => Outcome::Invalid,
    };
    let drives = series.devices.iter().map(|drive| &drive.name);
    let arguments: Vec<_> = drives
        .chain(load_options)
        .map(|argument| format::shell_quoted(argument))
        .collect();
    let is_host_limited = steps
        .last()
        .is_some_and(|(_, details)| details.judged.seen == StepOutcome::OurLimit);
    Conclusion {
        outcome,
        sentence: sentence(finding),
        action: action(finding, &arguments, is_host_limited),
        remarks,
        rating: finding.held.filter(|_| confirmed),
        comparable: not_comparable.is_empty() && outcome == Outcome::Pass,
        details: json!({ "finding": finding, "confirmed": confirmed, "held": held_details, "not_held": not_held_details }),
    }
}

/// The next step after a search. `arguments`: devices and options of a command for the same load, quoted for a shell.
/// `is_host_limited`: the last load could not be generated.
fn action(finding: &SearchResult, arguments: &[String], is_host_limited: bool) -> Option<String> {
    let text = match (finding.stop, finding.held) {
        (SearchStop::Found, Some(held)) => {
            return Some(format!(
                "certify half of this load, because stage 2 of a certification runs twice the load (flashproof certify {} \
                 --load {})",
                arguments.join(" "),
                held / 2.0
            ));
        }
        (SearchStop::Found | SearchStop::Highest, None) => return None,
        (SearchStop::Highest, Some(_)) => "search higher (--up-to)",
        (SearchStop::NoneHeld, _) => "test another drive",
        (SearchStop::Broken, _) => LOOK_AT_DRIVE,
        (SearchStop::OurLimit, _) => LESS_BUSY,
        (SearchStop::Unstable, _) => {
            "look for heat and for garbage collection in the report, then search again"
        }
        (SearchStop::TimeUp, _) if is_host_limited => {
            "stop other programs on this host, and give the search more time (--max-duration)"
        }
        (SearchStop::TimeUp, _) => "give the search more time (--max-duration)",
    };
    Some(text.to_owned())
}

fn sentence(finding: &SearchResult) -> String {
    let range_text = match (finding.held, finding.not_held) {
        (Some(held), Some(not_held)) => {
            let apart = (not_held / held - 1.0) * 100.0;
            format!("{held}x was held and {not_held}x was not, {apart:.1} % apart")
        }
        (Some(held), None) => format!("{held}x was held, and no higher load failed"),
        (None, Some(not_held)) => format!("not even {not_held}x was held"),
        (None, None) => "no load was judged".to_owned(),
    };
    match (finding.stop, finding.held) {
        (SearchStop::Found, Some(held)) => format!("the rating is {held}x: {range_text}"),
        (SearchStop::Highest, Some(held)) => {
            format!("the rating is at least {held}x, the highest load that was allowed")
        }
        (SearchStop::NoneHeld, _) => format!("there is no rating: {range_text}"),
        (SearchStop::Broken, _) => {
            format!("there is no rating, because operations failed: {range_text}")
        }
        (SearchStop::OurLimit, _) => {
            format!("the rating was not found: this host could not generate a load; {range_text}")
        }
        (SearchStop::Unstable, _) => {
            format!(
                "no stable rating: loads were held at first, but not later; so far {range_text}"
            )
        }
        (SearchStop::TimeUp, _) => {
            format!("the rating was not found in the time given: {range_text}")
        }
        (SearchStop::Found | SearchStop::Highest, None) => range_text,
    }
}

fn spells(details: &StepDetails, sla: &Sla) -> String {
    let slow_limits = sla
        .limits()
        .iter()
        .zip(&details.judged.spells)
        .filter(|(_, spells)| spells.count > 0);
    let spell_texts = slow_limits.map(|(limit, spells)| {
        let threshold = limit.threshold_text();
        match spells.count {
            1 => format!(
                "one over {threshold}, after {}",
                format::span(spells.first_sec.round() as u64)
            ),
            count => {
                format!(
                    "{count} over {threshold}, at most {} apart",
                    format::span(spells.apart_sec.round() as u64)
                )
            }
        }
    });
    let spell_texts: Vec<_> = spell_texts.collect();
    let multiple = details.moved.multiple();
    if spell_texts.is_empty() {
        return format!("no slow spells at {multiple}x: no report interval reached a limit");
    }
    let few = details
        .judged
        .spells
        .iter()
        .any(|spells| (1..SPELLS_IN_WINDOW as u64).contains(&spells.count));
    let few = if few {
        "; fewer than four spells do not show how often spells occur: use a longer --slice"
    } else {
        ""
    };
    format!(
        "slow spells at {multiple}x (report intervals that reached a limit): {}{few}",
        spell_texts.join("; ")
    )
}

fn too_rare_events_sentence(details: &StepDetails) -> String {
    let ran = details.ran_sec;
    let rare = details.ran_sec / SPELLS_IN_WINDOW as f64;
    let ran = format::span(ran.round() as u64);
    let rare = format::span(rare.round() as u64);
    format!(
        "not seen: stalls and garbage collection rarer than every {rare}, and effects that begin later than {ran} into a \
         load; certify the drive"
    )
}

/// Describes the margin of the share nearest to its limit.
fn margin(details: &StepDetails, sla: &Sla) -> String {
    let limits = sla.limits();
    let shares = details.judged.shares.iter().flat_map(|shares| {
        shares
            .share
            .iter()
            .zip(&shares.margin)
            .zip(limits)
            .map(|((share, margin), limit)| (*share, *margin, limit))
    });
    let limit_fraction = |(share, _, limit): &(f64, f64, &Limit)| share / limit.share_max();
    let nearest = shares.reduce(|nearest, next| {
        if limit_fraction(&next) > limit_fraction(&nearest) {
            next
        } else {
            nearest
        }
    });
    nearest.map_or_else(String::new, |(share, margin, limit)| {
        format!(
            "; the mean of {} rounds is {} ± {} over {} (95 % confidence)",
            details.judged.rounds_judged,
            format::percent(share),
            format::percent(margin),
            limit.threshold_text()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::series::SeriesPurpose;
    use results::steady::Spells;
    use serde_json::Value;

    #[test]
    fn every_end_of_a_search_has_a_short_answer_and_a_next_step() {
        for (stop, step) in [
            (
                SearchStop::Found,
                "certify half of this load, because stage 2 of a certification runs twice the load (flashproof certify \
                 /dev/x sim: --load 61.75)",
            ),
            (SearchStop::Highest, "search higher (--up-to)"),
            (SearchStop::NoneHeld, "test another drive"),
            (SearchStop::Broken, LOOK_AT_DRIVE),
            (SearchStop::OurLimit, LESS_BUSY),
            (SearchStop::Unstable, "look for heat"),
            (
                SearchStop::TimeUp,
                "give the search more time (--max-duration)",
            ),
        ] {
            let finding = SearchResult {
                stop,
                held: Some(123.5),
                not_held: Some(125.9),
            };
            let answer = sentence(&finding);
            assert_eq!(results::judge::brief(&answer), answer, "{stop:?} is short");
            let next = action(&finding, &["/dev/x", "sim:"].map(str::to_owned), false).unwrap();
            assert!(next.starts_with(step), "{stop:?}");
        }
    }

    /// Runs a search on a drive that holds every load up to `truth`; returns the moves and the finding.
    fn searched(truth: f64, first: f64) -> (Vec<NextRun>, SearchResult) {
        let mut search = RatingSearch::new(three_digits(first), 1000.0, 0.02);
        let mut moves = Vec::new();
        loop {
            match search.next() {
                Err(finding) => return (moves, finding),
                Ok(moved) => {
                    assert!(moves.len() < 60, "{moves:?}");
                    moves.push(moved);
                    if moved.multiple() <= truth {
                        search.record_held(moved, matches!(moved, NextRun::Confirm(_)))
                    } else {
                        search.record_not_held(moved, true)
                    }
                }
            }
        }
    }

    #[test]
    fn every_rating_is_found_within_two_percent_from_below() {
        for tenth in 3..5_000 {
            let truth = f64::from(tenth) / 10.0;
            let (moves, finding) = searched(truth, 1.0);
            assert_eq!(finding.stop, SearchStop::Found, "{truth}");
            let held = finding.held.unwrap();
            let not_held = finding.not_held.unwrap();
            assert!(
                held <= truth && truth < not_held,
                "{held} {truth} {not_held}"
            );
            // Just above 1, 10 and 100, neighbouring multiples of three digits differ by 1 %.
            assert!(not_held / held <= 1.021, "{held} {not_held}");
            assert!(moves.len() <= 26, "{truth}: {} moves", moves.len());
        }
    }

    #[test]
    fn a_load_is_at_most_twice_the_highest_held_and_a_recovery_follows_each_failure() {
        for truth in [0.5, 1.0, 7.3, 42.0, 275.0] {
            let (moves, _) = searched(truth, 1.0);
            let mut held: f64 = 0.0;
            let mut failed: bool = false;
            for moved in &moves {
                let multiple = moved.multiple();
                if held > 0.0 {
                    assert!(
                        multiple <= held * 2.0 * 1.001,
                        "{multiple} after {held}: {moves:?}"
                    );
                    assert_eq!(failed, matches!(moved, NextRun::Recover(_)), "{moves:?}");
                }
                failed = multiple > truth;
                if !failed {
                    held = held.max(multiple);
                }
            }
            assert!(matches!(moves.last(), Some(NextRun::Confirm(_))));
        }
    }

    #[test]
    fn steps_between_tried_loads_grow_until_a_failure_and_then_shrink() {
        let (moves, _) = searched(42.0, 1.0);
        let tried: Vec<_> = moves
            .iter()
            .filter_map(|moved| {
                if let NextRun::Try(multiple) = moved {
                    Some(*multiple)
                } else {
                    None
                }
            })
            .collect();
        assert_eq!(tried[..8], [1.0, 1.25, 1.88, 3.76, 7.52, 15.0, 30.0, 60.0]);
        assert_eq!(
            tried[8..],
            [42.4, 35.7, 38.9, 40.6, 41.5, 41.9],
            "{tried:?}"
        );
    }

    #[test]
    fn after_a_failed_confirmation_lower_loads_are_tried_over_whole_slices() {
        // In a try the drive holds 10x. Pairs: load held over a whole slice, and maximum number of whole slices.
        for (lasting, slices_max) in [(9.9, 5), (8.0, 8), (3.0, 12), (0.0, 13)] {
            let mut search = RatingSearch::new(1.0, 1000.0, 0.02);
            let mut slices = 0;
            let finding = loop {
                let moved = match search.next() {
                    Err(finding) => break finding,
                    Ok(moved) => moved,
                };
                let whole = matches!(moved, NextRun::Confirm(_));
                slices += usize::from(whole);
                assert!(
                    whole || slices == 0,
                    "{lasting}: {moved:?} after {slices} slices"
                );
                if moved.multiple() <= if whole { lasting } else { 10.0 } {
                    search.record_held(moved, whole)
                } else {
                    search.record_not_held(moved, false)
                }
            };
            assert!(slices <= slices_max, "{lasting}: {slices} slices");
            match finding.held {
                None => assert_eq!((finding.stop, lasting), (SearchStop::NoneHeld, 0.0)),
                Some(held) => {
                    assert!(
                        finding.stop == SearchStop::Found
                            && held <= lasting
                            && lasting / held < 1.021,
                        "{held}"
                    )
                }
            }
        }
    }

    #[test]
    fn a_load_that_was_tried_over_a_whole_slice_needs_no_confirmation() {
        let mut search = RatingSearch::new(1.0, 1.0, 0.02);
        search.record_held(NextRun::Try(1.0), true);
        assert_eq!(search.next().unwrap_err().stop, SearchStop::Highest);
    }

    #[test]
    fn a_search_on_a_drive_that_holds_no_load_ends_after_seven_runs() {
        let (moves, finding) = searched(0.0, 1.0);
        assert_eq!(
            (moves.len(), finding.stop, finding.held),
            (7, SearchStop::NoneHeld, None)
        );
        assert_eq!(finding.not_held, Some(0.0157));
    }

    #[test]
    fn the_highest_load_ends_the_climb_and_is_confirmed() {
        let (moves, finding) = searched(f64::INFINITY, 30.0);
        assert_eq!(
            (finding.stop, finding.held, finding.not_held),
            (SearchStop::Highest, Some(1000.0), None)
        );
        assert_eq!(moves.last(), Some(&NextRun::Confirm(1000.0)));
    }

    #[test]
    fn multiples_have_three_digits() {
        for (given, shown) in [
            (1.0, "1"),
            (1.8749, "1.87"),
            (42.4264, "42.4"),
            (275.4, "275"),
            (0.015625, "0.0156"),
        ] {
            assert_eq!(three_digits(given).to_string(), shown);
        }
        assert_eq!(three_digits(f64::NAN), 1.0);
        assert_eq!(three_digits(-3.0), 1.0);
    }

    fn step(moved: NextRun, seen: StepOutcome, why: &str, share: f64) -> Step {
        let share = vec![share, 0.0, 0.0];
        let margin = vec![0.001, 0.0, 0.0];
        let shares = vec![RoundShares {
            group: "reads on d".into(),
            share,
            margin,
            p99_ns: None,
            achieved_iops: 1.0,
        }];
        let reason = why.to_owned();
        let why = why.to_owned();
        let rounds_judged = 5;
        let rounds = 5;
        let spells = vec![Spells::default(); 3];
        let judged = JudgedStep {
            seen,
            why,
            rounds_judged,
            rounds,
            shares,
            spells,
            whole: true,
            has_moved: false,
            ends_in_new_spell: false,
        };
        Step {
            rule: if let NextRun::Recover(_) = moved {
                Rule::Recovers
            } else {
                Rule::Limits
            },
            outcome: None,
            reason,
            details: serde_json::to_value(StepDetails {
                moved,
                judged,
                ran_sec: 3600.0,
            })
            .unwrap(),
            ..crate::testing::step(
                moved.multiple().to_string(),
                moved.multiple(),
                Outcome::Pass,
            )
        }
    }

    fn series(steps: Vec<Step>) -> Series {
        crate::testing::series(SeriesPurpose::Rate, &[], steps)
    }

    #[test]
    fn a_rating_names_the_load_held_its_margin_and_why_the_next_load_was_not_held() {
        let held = 42.4;
        let failed = 43.1;
        let why = "6 % of reads on d over 1ms in 2 rounds in a row (limit 5 %)";
        let series = series(vec![
            step(NextRun::Try(held), StepOutcome::Held, "first", 0.03),
            step(NextRun::Try(failed), StepOutcome::Failed, why, 0.06),
            step(
                NextRun::Recover(held),
                StepOutcome::Held,
                "the earlier shares of slow operations returned",
                0.03,
            ),
            step(
                NextRun::Confirm(held),
                StepOutcome::Held,
                "within the limits",
                0.04,
            ),
        ]);
        let finding = SearchResult {
            stop: SearchStop::Found,
            held: Some(held),
            not_held: Some(failed),
        };
        let found = conclude(
            &series,
            &finding,
            &Sla::default(),
            &["--sla", "5%>1ms"].map(str::to_owned),
            &[],
        );
        assert_eq!(
            found.sentence,
            "the rating is 42.4x: 42.4x was held and 43.1x was not, 1.7 % apart"
        );
        assert_eq!(
            (found.outcome, found.rating, found.comparable),
            (Outcome::Pass, Some(42.4), true)
        );
        let action = found.action.unwrap();
        let end = "(flashproof certify --sla '5%>1ms' --load 21.2)";
        assert!(action.ends_with(end), "{action}");
        assert_eq!(
            found.remarks,
            [
                "at 42.4x: within the limits; the mean of 5 rounds is 4.00 % ± 0.100 % over 1ms (95 % confidence)",
                "not held: 43.1x: 6 % of reads on d over 1ms in 2 rounds in a row (limit 5 %)",
                "no slow spells at 42.4x: no report interval reached a limit",
                "not seen: stalls and garbage collection rarer than every 15 min, and effects that begin later than 1 h into a \
                 load; certify the drive",
            ]
        );
    }

    #[test]
    fn if_time_ran_out_on_a_busy_host_the_advice_is_to_stop_other_programs() {
        let finding = RatingSearch::new(1.0, 1.0, 0.02).finding(SearchStop::TimeUp);
        for (last, next) in [
            (StepOutcome::OurLimit, "stop other programs on this host, "),
            (StepOutcome::Held, "give the search more time "),
        ] {
            let series = series(vec![step(NextRun::Try(1.0), last, "", 0.0)]);
            let action = conclude(&series, &finding, &Sla::default(), &[], &[]).action;
            assert!(action.unwrap().starts_with(next), "{last:?}");
        }
    }

    #[test]
    fn the_conclusion_counts_slow_spells_and_warns_of_fewer_than_four() {
        let spells = |count, apart_sec| {
            let mut spells = Spells::default();
            (spells.count, spells.first_sec, spells.apart_sec) = (count, 60.0, apart_sec);
            spells
        };
        let of = |each: [Spells; 3]| {
            let mut step = step(NextRun::Confirm(2.0), StepOutcome::Failed, "", 0.0);
            step.details["judged"]["spells"] = serde_json::to_value(each).unwrap();
            super::spells(&StepDetails::from_step(&step).unwrap(), &Sla::default())
        };
        assert_eq!(
            of([Spells::default(), spells(899, 4.0), spells(11, 300.0)]),
            "slow spells at 2x (report intervals that reached a limit): 899 over 8ms, at most 4 s apart; 11 over \
             64ms, at most 5 min apart"
        );
        assert!(of([spells(1, 0.0), spells(899, 4.0), Spells::default()]).ends_with(
            "one over 1ms, after 60 s; 899 over 8ms, at most 4 s apart; fewer than four spells do not show how often spells occur: use \
             a longer --slice"
        ));
    }

    #[test]
    fn a_search_without_a_rating_is_not_called_a_rating() {
        let conclusion = |stop, held, not_held| {
            let finding = SearchResult {
                stop,
                held,
                not_held,
            };
            conclude(
                &series(Vec::new()),
                &finding,
                &Sla::default(),
                &[],
                &["even pacing".to_owned()],
            )
        };
        let time_up = conclusion(SearchStop::TimeUp, Some(2.0), Some(4.0));
        assert_eq!(time_up.rating, None);
        assert_eq!(
            (time_up.outcome, time_up.comparable),
            (Outcome::Invalid, false)
        );
        assert!(
            time_up.sentence.starts_with(
                "the rating was not found in the time given: 2x was held and 4x was not"
            )
        );
        assert!(
            time_up
                .remarks
                .iter()
                .any(|remark| remark.contains("not confirmed"))
        );
        assert_eq!(
            conclusion(SearchStop::NoneHeld, None, Some(0.0157)).outcome,
            Outcome::Fail
        );
        assert_eq!(
            conclusion(SearchStop::OurLimit, Some(80.0), None).outcome,
            Outcome::Invalid
        );
        let highest = conclusion(SearchStop::Highest, Some(100.0), None);
        assert_eq!(
            highest.sentence,
            "the rating is at least 100x, the highest load that was allowed"
        );
        assert_eq!(
            highest.remarks.last().unwrap(),
            "not to be compared with published ratings: even pacing"
        );
    }

    #[test]
    fn an_unfinished_step_or_one_without_a_result_has_no_details() {
        let mut other = step(NextRun::Try(1.0), StepOutcome::Held, "", 0.0);
        assert!(StepDetails::from_step(&other).is_some());
        other.state = SeriesStepState::Interrupted;
        assert!(StepDetails::from_step(&other).is_none());
        other.state = SeriesStepState::Done;
        other.details = Value::Null;
        assert!(StepDetails::from_step(&other).is_none());
    }
}
