//! Detects steps of a server's clock. Its ticker sleeps by a monotonic clock, so the lines of a series have a steady
//! distance, 10 or 20 s: if the time stamps differ from that, the clock was set in between, or lines are missing.

use jiff::Timestamp;

/// A distance this far from the usual one is none of the ticker's, seconds: stamps may be of whole seconds.
pub(crate) const TOLERANCE_SEC: f64 = 1.5;

/// Distances on either side that tell the usual one: somebody may change the ticker's interval.
const AROUND: usize = 4;

/// The usual distance around the one at `at`; `None`: there are too few to tell.
pub(crate) fn usual(distances: &[f64], at: usize) -> Option<f64> {
    let around = &distances[at.saturating_sub(AROUND)..distances.len().min(at + AROUND + 1)];
    let mut around: Vec<f64> = around.iter().copied().filter(|distance| *distance > 0.0).collect();
    around.sort_by(f64::total_cmp);
    (around.len() > 2).then(|| around[around.len() / 2])
}

/// Adds an instant to `steps`, which ascend, within each distance of `instants` that is not the usual one, or that begins
/// with one of those after which lines `went_back`.
pub(super) fn add_steps(steps: &mut Vec<Timestamp>, instants: &[Timestamp], went_back: impl Fn(&Timestamp) -> bool) {
    let distances: Vec<f64> = instants.windows(2).map(|pair| pair[1].duration_since(pair[0]).as_secs_f64()).collect();
    for (at, distance) in distances.iter().enumerate() {
        let (from, to) = (instants[at], instants[at + 1]);
        let is_off = usual(&distances, at).is_some_and(|usual| (distance - usual).abs() > TOLERANCE_SEC);
        if (is_off || went_back(&from)) && !is_between(steps, from, to) {
            let step = from + to.duration_since(from) / 2;
            steps.insert(steps.partition_point(|other| *other < step), step);
        }
    }
}

/// True if one of the ascending `instants` lies between two lines.
pub(crate) fn is_between(instants: &[Timestamp], after: Timestamp, until: Timestamp) -> bool {
    instants.get(instants.partition_point(|at| *at <= after)).is_some_and(|at| *at <= until)
}
