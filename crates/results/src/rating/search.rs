//! Chooses the next load.
//!
//! Loads grow by steps that grow: a quarter more, then half more, then twice, as long as they are held. Between the
//! highest load held and the lowest not held the next is the geometric mean, until the two are within the wanted
//! resolution; then the higher load held is confirmed over a whole slice. If it is not, short tries show too little of
//! this drive: the search goes down from there by steps that grow, and judges each load over a whole slice.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Factor of each step up, while all loads are held.
const GROWTH: [f64; 3] = [1.25, 1.5, 2.0];
/// Divisor of each step down from a load that was not confirmed.
const SHRINKAGE: [f64; 3] = [1.05, 1.2, 2.0];
/// The lowest load tried is this part of the first, slightly less because of rounding to three digits.
const LOWEST_OF_FIRST: f64 = 0.99 / 64.0;
/// Failed recoveries after which the search gives up: the drive is not the same from one hour to the next.
const UNRECOVERED_MAX: u32 = 5;
/// Digits of a multiple that mean something.
const DIGITS: i32 = 3;

/// A multiple of the load of 1x, of three significant digits.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize, Deserialize)]
pub struct Multiple(f64);

impl Multiple {
    /// The nearest multiple of three digits. Anything but a finite number above 0 is 1.
    pub fn new(multiple: f64) -> Self {
        if !(multiple.is_finite() && multiple > 0.0) {
            return Self(1.0);
        }
        let place = 10f64.powi(DIGITS - 1 - multiple.log10().floor() as i32);
        Self((multiple * place).round() / place)
    }

    pub fn get(self) -> f64 {
        self.0
    }

    /// A hundredth of a percent apart is equal: both have three digits.
    fn is(self, other: Self) -> bool {
        (self.0 / other.0 - 1.0).abs() < 1e-4
    }
}

impl fmt::Display for Multiple {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// The next run of a search.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "move", content = "multiple")]
pub enum Move {
    /// This load, until it is settled or a cliff shows.
    Try(Multiple),
    /// This load, which was held, until its earlier shares return.
    Recover(Multiple),
    /// This load, for a whole slice.
    Confirm(Multiple),
}

impl Move {
    pub fn multiple(self) -> Multiple {
        match self {
            Self::Try(multiple) | Self::Recover(multiple) | Self::Confirm(multiple) => multiple,
        }
    }
}

/// Why a search ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stop {
    /// The rating is found and confirmed.
    Found,
    /// Every load up to the highest allowed was held: the rating is at least that.
    Highest,
    /// Not even a 64th of the first load was held.
    NoneHeld,
    /// This program or this host could not offer a load; nothing is known above the one held.
    OurLimit,
    /// Operations failed, or a device is gone.
    Broken,
    /// Loads were held and a little later not, again and again.
    Unstable,
    /// The time that was given is used up.
    TimeUp,
}

/// Result of a search.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    pub stop: Stop,
    /// The highest load held.
    pub held: Option<Multiple>,
    /// The lowest load above it that was not.
    pub not_held: Option<Multiple>,
}

/// The state of a search.
#[derive(Debug, Clone, PartialEq)]
pub struct Search {
    first: Multiple,
    highest: Multiple,
    /// The nearest that two loads need to be, as a ratio above 1.
    ratio: f64,
    /// Held, ascending: the last is the highest.
    held: Vec<Multiple>,
    /// The highest load that was held over a whole slice.
    confirmed: Option<Multiple>,
    not_held: Option<Multiple>,
    growth: usize,
    /// Steps down since a load that a try held was not confirmed; then every load is judged over a whole slice.
    shrinkage: Option<usize>,
    unrecovered: u32,
    /// The drive was overdriven, and no recovery was seen yet.
    overdriven: bool,
    stop: Option<Stop>,
}

impl Search {
    /// A search that begins with `first` times the load of 1x and does not go beyond `highest`, and ends
    /// when it knows the rating to `resolution`, a fraction above 0.
    pub fn new(first: Multiple, highest: Multiple, resolution: f64) -> Self {
        Self {
            first,
            highest,
            ratio: 1.0 + resolution,
            held: Vec::new(),
            confirmed: None,
            not_held: None,
            growth: 0,
            shrinkage: None,
            unrecovered: 0,
            overdriven: false,
            stop: None,
        }
    }

    /// The next run; `Err` with the finding when the search is over.
    pub fn next(&self) -> Result<Move, Finding> {
        if let Some(stop) = self.stop {
            return Err(self.finding(stop));
        }
        match (self.held.last().copied(), self.not_held) {
            (None, None) => Ok(Move::Try(self.first)),
            // Nothing is known to be held, so there is nothing to recover at: lower loads do that, too.
            (None, Some(not_held)) => {
                let less = self.shrinkage.map_or(2.0, |steps| SHRINKAGE[steps.min(SHRINKAGE.len() - 1)]);
                let lower = Multiple::new(not_held.get() / less);
                let is_lowest = lower.get() < self.first.get() * LOWEST_OF_FIRST;
                if is_lowest { Err(self.finding(Stop::NoneHeld)) } else { Ok(self.judging(lower)) }
            }
            (Some(held), _) if self.overdriven => Ok(Move::Recover(held)),
            (Some(held), None) if held >= self.highest => self.confirming(held, Stop::Highest),
            (Some(held), None) => {
                let grown = held.get() * GROWTH[self.growth.saturating_sub(1).min(GROWTH.len() - 1)];
                Ok(self.judging(Multiple::new(grown.min(self.highest.get()))))
            }
            (Some(held), Some(not_held)) => {
                let middle = Multiple::new((held.get() * not_held.get()).sqrt());
                let near = not_held.get() / held.get() <= self.ratio || middle.is(held) || middle.is(not_held);
                if near { self.confirming(held, Stop::Found) } else { Ok(self.judging(middle)) }
            }
        }
    }

    fn judging(&self, multiple: Multiple) -> Move {
        if self.shrinkage.is_some() { Move::Confirm(multiple) } else { Move::Try(multiple) }
    }

    /// The confirmation of `held`, or the end of the search where that is done.
    fn confirming(&self, held: Multiple, stop: Stop) -> Result<Move, Finding> {
        if self.confirmed == Some(held) { Err(self.finding(stop)) } else { Ok(Move::Confirm(held)) }
    }

    /// Takes in that the load of `moved` was held; `whole`: over a whole slice.
    pub fn held(&mut self, moved: Move, whole: bool) {
        let multiple = moved.multiple();
        if let Move::Recover(_) = moved {
            self.overdriven = false;
            return;
        }
        if self.held.last() != Some(&multiple) {
            self.held.push(multiple);
            self.growth += 1;
        }
        if whole {
            self.confirmed = Some(multiple);
        }
    }

    /// Records that the load of `moved` was not held, or not steadily. `overdrove`: true if it may have left the drive
    /// slower than before.
    pub fn not_held(&mut self, moved: Move, overdrove: bool) {
        let multiple = moved.multiple();
        match moved {
            Move::Try(_) => {}
            Move::Recover(_) => {
                self.held.retain(|held| *held < multiple);
                self.confirmed = self.confirmed.filter(|confirmed| *confirmed < multiple);
                self.unrecovered += 1;
            }
            Move::Confirm(_) if self.held.last() == Some(&multiple) => {
                self.held = self.confirmed.into_iter().collect();
                self.shrinkage = Some(0);
            }
            Move::Confirm(_) => self.shrinkage = self.shrinkage.map(|steps| steps + 1),
        }
        self.not_held =
            Some(self.not_held.map_or(multiple, |lowest| if lowest < multiple { lowest } else { multiple }));
        self.overdriven = overdrove && !self.held.is_empty();
        if self.unrecovered > UNRECOVERED_MAX {
            self.stop = Some(Stop::Unstable);
        }
    }

    /// Takes in that operations failed: a drive that does that has no rating.
    pub fn broken(&mut self) {
        self.stop = Some(Stop::Broken);
    }

    /// Records that no configuration can express the next load: it is beyond the maximum, or rounds to zero.
    pub fn out_of_range(&mut self) {
        match self.held.last() {
            Some(held) => self.highest = *held,
            None => self.stop = Some(Stop::NoneHeld),
        }
    }

    /// Takes in that a load could not be offered, for reasons of this program or this host.
    pub fn out_of_reach(&mut self) {
        self.stop = Some(Stop::OurLimit);
    }

    /// Result so far.
    pub fn finding(&self, stop: Stop) -> Finding {
        Finding { stop, held: self.held.last().copied(), not_held: self.not_held }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a search on a drive that holds everything up to `truth`; returns the moves and the end.
    fn searched(truth: f64, first: f64) -> (Vec<Move>, Finding) {
        let mut search = Search::new(Multiple::new(first), Multiple::new(1000.0), 0.02);
        let mut moves = Vec::new();
        loop {
            match search.next() {
                Err(finding) => return (moves, finding),
                Ok(moved) => {
                    assert!(moves.len() < 60, "{moves:?}");
                    moves.push(moved);
                    match moved.multiple().get() <= truth {
                        true => search.held(moved, matches!(moved, Move::Confirm(_))),
                        false => search.not_held(moved, true),
                    }
                }
            }
        }
    }

    #[test]
    fn every_truth_is_found_within_two_percent_from_below() {
        for tenth in 3..5_000 {
            let truth = f64::from(tenth) / 10.0;
            let (moves, finding) = searched(truth, 1.0);
            assert_eq!(finding.stop, Stop::Found, "{truth}");
            let (held, not_held) = (finding.held.unwrap().get(), finding.not_held.unwrap().get());
            assert!(held <= truth && truth < not_held, "{held} {truth} {not_held}");
            // Three digits are as coarse as 1 % where they begin with 1.
            assert!(not_held / held <= 1.021, "{held} {not_held}");
            assert!(moves.len() <= 26, "{truth}: {} moves", moves.len());
        }
    }

    #[test]
    fn no_load_is_more_than_one_step_beyond_what_was_held_and_each_failure_is_followed_by_a_recovery() {
        for truth in [0.5, 1.0, 7.3, 42.0, 275.0] {
            let (moves, _) = searched(truth, 1.0);
            let (mut held, mut failed): (f64, bool) = (0.0, false);
            for moved in &moves {
                let multiple = moved.multiple().get();
                if held > 0.0 {
                    assert!(multiple <= held * 2.0 * 1.001, "{multiple} after {held}: {moves:?}");
                    assert_eq!(failed, matches!(moved, Move::Recover(_)), "{moves:?}");
                }
                failed = multiple > truth;
                if !failed {
                    held = held.max(multiple);
                }
            }
            assert!(matches!(moves.last(), Some(Move::Confirm(_))));
        }
    }

    #[test]
    fn steps_grow_and_then_shrink() {
        let (moves, _) = searched(42.0, 1.0);
        let tried: Vec<_> = moves
            .iter()
            .filter_map(|moved| if let Move::Try(multiple) = moved { Some(multiple.get()) } else { None })
            .collect();
        assert_eq!(tried[..8], [1.0, 1.25, 1.88, 3.76, 7.52, 15.0, 30.0, 60.0]);
        assert_eq!(tried[8..], [42.4, 35.7, 38.9, 40.6, 41.5, 41.9], "{tried:?}");
    }

    #[test]
    fn a_load_that_is_not_confirmed_is_searched_below_over_whole_slices() {
        // For short the drive holds 10x; how much for long, and how many loads may be run over a whole slice.
        for (lasting, slices_max) in [(9.9, 5), (8.0, 8), (3.0, 12), (0.0, 13)] {
            let mut search = Search::new(Multiple::new(1.0), Multiple::new(1000.0), 0.02);
            let mut slices = 0;
            let finding = loop {
                let moved = match search.next() {
                    Err(finding) => break finding,
                    Ok(moved) => moved,
                };
                let whole = matches!(moved, Move::Confirm(_));
                slices += usize::from(whole);
                assert!(whole || slices == 0, "{lasting}: {moved:?} after {slices} slices");
                match moved.multiple().get() <= if whole { lasting } else { 10.0 } {
                    true => search.held(moved, whole),
                    false => search.not_held(moved, false),
                }
            };
            assert!(slices <= slices_max, "{lasting}: {slices} slices");
            match finding.held.map(Multiple::get) {
                None => assert_eq!((finding.stop, lasting), (Stop::NoneHeld, 0.0)),
                Some(held) => {
                    assert!(finding.stop == Stop::Found && held <= lasting && lasting / held < 1.021, "{held}")
                }
            }
        }
    }

    #[test]
    fn a_load_that_was_tried_over_a_whole_slice_needs_no_confirmation() {
        let mut search = Search::new(Multiple::new(1.0), Multiple::new(1.0), 0.02);
        search.held(Move::Try(Multiple::new(1.0)), true);
        assert_eq!(search.next().unwrap_err().stop, Stop::Highest);
    }

    #[test]
    fn a_drive_that_holds_nothing_is_not_tried_for_ever() {
        let (moves, finding) = searched(0.0, 1.0);
        assert_eq!((moves.len(), finding.stop, finding.held), (7, Stop::NoneHeld, None));
        assert_eq!(finding.not_held, Some(Multiple::new(0.0157)));
    }

    #[test]
    fn the_highest_load_ends_the_climb_and_is_confirmed() {
        let (moves, finding) = searched(f64::INFINITY, 30.0);
        assert_eq!((finding.stop, finding.held, finding.not_held), (Stop::Highest, Some(Multiple::new(1000.0)), None));
        assert_eq!(moves.last(), Some(&Move::Confirm(Multiple::new(1000.0))));
    }

    #[test]
    fn multiples_have_three_digits() {
        for (given, shown) in [(1.0, "1"), (1.8749, "1.87"), (42.4264, "42.4"), (275.4, "275"), (0.015625, "0.0156")] {
            assert_eq!(Multiple::new(given).to_string(), shown);
        }
        assert_eq!(Multiple::new(f64::NAN).get(), 1.0);
        assert_eq!(Multiple::new(-3.0).get(), 1.0);
    }
}
