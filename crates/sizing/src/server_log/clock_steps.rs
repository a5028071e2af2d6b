//! Detects steps of a server's clock. The server's ticker sleeps by a monotonic clock, so the lines of a series have a
//! steady distance, 10 or 20 s. If the time stamps deviate from that distance, the clock was set in between, or lines
//! are missing.

use jiff::Timestamp;

/// 2010-01-01, older than any log: an earlier time comes from a machine whose clock is not set yet.
pub(super) const CLOCK_SET: Timestamp = Timestamp::constant(1_262_304_000, 0);

/// Maximum deviation of the ticker from the usual distance, seconds: stamps may be whole seconds.
pub(crate) const TOLERANCE_SEC: f64 = 1.5;

/// Distances on either side that give the usual distance: near ones, because the ticker's interval may be changed.
const AROUND: usize = 4;

/// The usual distance around index `at`; `None`: too few distances.
pub(crate) fn usual(distances: &[f64], at: usize) -> Option<f64> {
    let around = &distances[at.saturating_sub(AROUND)..distances.len().min(at + AROUND + 1)];
    let mut around: Vec<f64> = around
        .iter()
        .copied()
        .filter(|distance| *distance > 0.0)
        .collect();
    around.sort_by(f64::total_cmp);
    (around.len() > 2).then(|| around[around.len() / 2])
}

/// Adds a clock step where neighbours in `instants` have an unusual distance, or `went_back` is true for the first.
pub(super) fn add_steps(
    steps: &mut Vec<Timestamp>,
    instants: &[Timestamp],
    went_back: impl Fn(&Timestamp) -> bool,
) {
    let distances: Vec<f64> = instants
        .windows(2)
        .map(|pair| pair[1].duration_since(pair[0]).as_secs_f64())
        .collect();
    for (at, distance) in distances.iter().enumerate() {
        let from = instants[at];
        let to = instants[at + 1];
        let is_off =
            usual(&distances, at).is_some_and(|usual| (distance - usual).abs() > TOLERANCE_SEC);
        if (is_off || went_back(&from)) && !is_between(steps, from, to) {
            let step = from + to.duration_since(from) / 2;
            steps.insert(steps.partition_point(|other| *other < step), step);
        }
    }
}

/// True if one of the ascending `instants` lies after the line at `after`, and not after the line at `until`.
pub(crate) fn is_between(instants: &[Timestamp], after: Timestamp, until: Timestamp) -> bool {
    instants
        .get(instants.partition_point(|at| *at <= after))
        .is_some_and(|at| *at <= until)
}
