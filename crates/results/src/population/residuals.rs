//! Latencies of windows relative to those of the peers at the same time and load.
//!
//! Two passes over the windows of a model's drives. The first finds the center of each cell (ten minutes since the load
//! began, and a tenth of load): the median of the drives' medians. The second reduces each drive to its scores. Memory is
//! three numbers for each drive and cell; windows are never kept.

use super::{Extent, Metric, Window};
use crate::buckets::DURATION_MAX_NS;
use crate::percentile::BEYOND_COMPARED;

/// Length of a cell, seconds. Drift over a day is slow; garbage collection of a drive may be longer.
const CELL_SEC: f64 = 600.0;

/// Ratio of the loads at the edges of a cell.
const CELL_LOAD: f64 = 1.1;

/// Fewest drives in a cell: with two, the center is between them and each hides half of the other's slowness.
const DRIVES_MIN: usize = 3;

/// Parts of a run of which the slowest is a score.
const PARTS: usize = 8;

/// Number of scores of a drive: each metric over each extent of time.
pub(super) const SCORES: usize = Metric::ALL.len() * Extent::ALL.len();

/// Values of a window, one for each metric.
type Values = [f64; Metric::ALL.len()];

/// Number of ten minutes, number of the tenth of load.
type Cell = (u32, i16);

/// The cell of a window, and the logarithms of its latencies; `None` if a number is no measurement.
fn logarithms(window: &Window) -> Option<(Cell, Values)> {
    let latencies = Metric::ALL.map(|metric| metric.of(window));
    let measured = |value: &f64| *value >= 1.0 && *value <= DURATION_MAX_NS as f64;
    let placed = window.start_s >= 0.0 && window.load > 0.0 && window.load.is_finite();
    let cell = ((window.start_s / CELL_SEC) as u32, (window.load.ln() / CELL_LOAD.ln()).round() as i16);
    (placed && latencies.iter().all(measured)).then(|| (cell, latencies.map(f64::ln)))
}

/// The median; the values are reordered. There must be some.
fn median<T: Copy + PartialOrd>(values: &mut [T], order: impl Fn(&T, &T) -> std::cmp::Ordering) -> T {
    let middle = (values.len() - 1) / 2;
    *values.select_nth_unstable_by(middle, order).1
}

/// Centers of the cells of a model, in their order.
pub(super) struct Centers(Vec<(Cell, Values)>);

impl Centers {
    /// The centers of all cells with enough drives.
    pub(super) fn of<'a>(drives: impl Iterator<Item = &'a [Window]>) -> Self {
        // Single precision: 1e-6 of a logarithm is 1e-6 of a latency.
        let mut medians: Vec<(Cell, [f32; Metric::ALL.len()])> = Vec::new();
        let mut windows = Vec::new();
        let mut scratch = Vec::new();
        for drive in drives {
            windows.clear();
            windows.extend(drive.iter().filter_map(logarithms));
            windows.sort_by_key(|(cell, _)| *cell);
            for cell in windows.chunk_by(|a, b| a.0 == b.0) {
                let of = |metric: usize| {
                    scratch.clear();
                    scratch.extend(cell.iter().map(|(_, values)| values[metric] as f32));
                    median(&mut scratch, f32::total_cmp)
                };
                medians.push((cell[0].0, std::array::from_fn(of)));
            }
        }
        medians.sort_by_key(|(cell, _)| *cell);
        let cells = medians.chunk_by(|a, b| a.0 == b.0).filter(|drives| drives.len() >= DRIVES_MIN);
        let center = |drives: &[(Cell, [f32; Metric::ALL.len()])]| {
            let of = |metric: usize| {
                scratch.clear();
                scratch.extend(drives.iter().map(|(_, values)| values[metric]));
                f64::from(median(&mut scratch, f32::total_cmp))
            };
            (drives[0].0, std::array::from_fn(of))
        };
        Self(cells.map(center).collect())
    }

    /// The windows of a drive that have peers.
    pub(super) fn residuals(&self, windows: &[Window]) -> Residuals {
        let mut residuals = Residuals::default();
        let mut near = 0;
        for window in windows {
            let Some((cell, values)) = logarithms(window) else {
                residuals.invalid += 1;
                continue;
            };
            // The next window is mostly in the same cell.
            if self.0.get(near).is_none_or(|(known, _)| *known != cell) {
                match self.0.binary_search_by_key(&cell, |(cell, _)| *cell) {
                    Ok(at) => near = at,
                    Err(_) => {
                        residuals.alone += 1;
                        continue;
                    }
                }
            }
            let center = self.0[near].1;
            residuals.windows.push((window.start_s, std::array::from_fn(|metric| values[metric] - center[metric])));
        }
        residuals
    }
}

/// A drive's windows relative to its peers.
#[derive(Default)]
pub(super) struct Residuals {
    /// Start, seconds, and the logarithm of each metric's ratio to the center.
    pub(super) windows: Vec<(f64, Values)>,
    /// Windows whose numbers are no measurements.
    pub(super) invalid: usize,
    /// Windows at a time and load without enough peers.
    pub(super) alone: usize,
}

/// A drive reduced to a few numbers.
pub(super) struct Scores {
    /// For each metric and extent: the mean logarithm over that time. Not a number if the time has too few windows.
    pub(super) scores: [f64; SCORES],
    /// Fifth and 95th percentile for each metric.
    pub(super) band: [[f64; 2]; Metric::ALL.len()],
    pub(super) windows: usize,
    pub(super) invalid: usize,
    pub(super) alone: usize,
}

impl Scores {
    /// Means over the slowest windows, not percentiles: a percentile jumps where garbage collection takes just that share of
    /// the time.
    pub(super) fn of(residuals: &Residuals) -> Self {
        let count = residuals.windows.len();
        let mut of = Self {
            scores: [f64::NAN; SCORES],
            band: [[0.0; 2]; Metric::ALL.len()],
            windows: count,
            invalid: residuals.invalid,
            alone: residuals.alone,
        };
        let mut values: Vec<f64> = Vec::with_capacity(count);
        for (metric, band) in of.band.iter_mut().enumerate() {
            values.clear();
            values.extend(residuals.windows.iter().map(|(_, values)| values[metric]));
            let scores = &mut of.scores[metric * Extent::ALL.len()..];
            // The slowest part first: the others reorder the values.
            let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
            if count >= PARTS * BEYOND_COMPARED as usize {
                let slower = values.chunks_exact(count / PARTS).map(mean).max_by(f64::total_cmp);
                scores[Extent::Part as usize] = slower.unwrap_or(f64::NAN);
            }
            for (extent, share) in [(Extent::Whole, 1.0), (Extent::Tenth, 0.1), (Extent::Fiftieth, 0.02)] {
                let worst = count as f64 * share;
                if worst >= BEYOND_COMPARED {
                    let from = count - worst as usize;
                    values.select_nth_unstable_by(from, f64::total_cmp);
                    scores[extent as usize] = mean(&values[from..]);
                }
            }
            if count > 0 {
                let mut percentile = |at: usize| *values.select_nth_unstable_by(at, f64::total_cmp).1;
                *band = [percentile(count / 20), percentile(count - 1 - count / 20)];
            }
        }
        of
    }
}

/// The lower median of some numbers; there must be some.
pub(super) fn middle(values: impl IntoIterator<Item = f64>) -> f64 {
    median(&mut values.into_iter().collect::<Vec<_>>(), f64::total_cmp)
}
