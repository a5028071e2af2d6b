//! Steady state: detects if the metrics of a run still change, and when they jumped.
//!
//! ```text
//! Interval ──Rounds──> series of each metric ──window──> steady or not, since when
//!                                            ──change──> change points
//! ```
//!
//! A run is cut into rounds of equal length. In each round every judged stream has a few metrics, over all devices and
//! on each: the share over each threshold, the 99th percentile of service times, the achieved rate. A drive is in its
//! steady state when all of them are stable over the last five rounds (`window`); a change point is a lasting shift of
//! one's level (`change`).
//!
//! Steadiness never changes a verdict or a rating. A rating uses shares over windows with several slow spells
//! ([`Spells`]).
//!
//! Source: SNIA Solid State Storage Performance Test Specification 2.0.2, definition of steady state.

mod change;
mod rounds;
mod window;

pub use change::{ChangePoint, median};
pub use rounds::{Group, Metric, Round, Rounds, Series, Spells};
pub use window::{ROUNDS_IN_WINDOW, Settled, Spread, Window};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Steadiness of a run by its rounds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Steadiness {
    /// Length of a round, seconds.
    pub round_sec: u64,
    /// Whole rounds seen.
    pub rounds: usize,
    /// The round, from 1, at whose end every metric was first steady; `None`: it never was.
    pub reached_round: Option<usize>,
    /// The round, from 1, from which on every metric was steady up to the end; `None`: it is not at the end.
    pub steady_since_round: Option<usize>,
    /// True if every metric was steady over the last rounds.
    pub steady_at_end: bool,
    /// Each metric over the last five rounds; empty if there are fewer.
    pub windows: Vec<Window>,
    /// Where levels moved, oldest first.
    pub change_points: Vec<ChangePoint>,
}

/// True if every metric was steady over the five rounds that end with round `end`, from 1; false if there are fewer.
pub fn is_steady_at(rounds: &Rounds, end: usize) -> bool {
    end >= ROUNDS_IN_WINDOW && window::windows(rounds.series(), end, rounds.sla()).all(|window| window.is_steady())
}

impl Steadiness {
    /// Steadiness of the given rounds.
    pub fn of(rounds: &Rounds) -> Self {
        let (sla, count) = (rounds.sla(), rounds.len());
        let ends = || ROUNDS_IN_WINDOW..=count;
        let steady: Vec<usize> = ends().filter(|end| is_steady_at(rounds, *end)).collect();
        let reached_round = steady.first().copied();
        let steady_since_round = ends().rev().zip(steady.iter().rev()).take_while(|(end, steady)| end == *steady);
        let steady_since_round = steady_since_round.map(|(end, _)| end).last();
        let windows: Vec<_> = window::windows(rounds.series(), count, sla).collect();
        let change_points = change::change_points(rounds.series(), rounds.round_sec(), sla);
        Self {
            round_sec: rounds.round_sec(),
            rounds: count,
            reached_round,
            steady_since_round,
            steady_at_end: steady_since_round.is_some(),
            windows,
            change_points,
        }
    }

    /// The state in one sentence.
    pub fn sentence(&self) -> String {
        let minutes = |rounds: usize| rounds as f64 * self.round_sec as f64 / 60.0;
        let (rounds, round_sec) = (self.rounds, self.round_sec);
        let moving = self.windows.iter().find(|window| !window.is_steady());
        let since = self.steady_since_round.unwrap_or(rounds);
        match (self.reached_round, moving) {
            _ if rounds < ROUNDS_IN_WINDOW => format!(
                "steadiness cannot be told: {rounds} whole rounds of {round_sec} s, and {ROUNDS_IN_WINDOW} are needed"
            ),
            (Some(reached), None) => format!(
                "steady from round {since} of {rounds} on ({:.1} min; rounds of {round_sec} s){}",
                minutes(since),
                if reached < since { format!(", and before that first at round {reached}") } else { String::new() }
            ),
            (Some(reached), Some(moving)) => format!(
                "steady at round {reached} ({:.1} min), but not at the end, after {rounds} rounds of {round_sec} s: \
                 {moving}",
                minutes(reached)
            ),
            (None, Some(moving)) => format!("not steady within {rounds} rounds of {round_sec} s: {moving}"),
            (None, None) => format!(
                "not steady: there were {rounds} rounds of {round_sec} s, and never was every metric steady at once"
            ),
        }
    }
}

#[cfg(test)]
mod tests;
