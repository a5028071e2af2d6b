//! The index of dispersion: a measure of the evenness of events in time.
//!
//! Time is cut into windows. The index is the variance of the number of events in a window, divided by the mean of
//! that number: 0 for a perfectly even load, 1 for Poisson arrivals, and n - 1 for evenly spaced bursts of n. Bursty
//! arrivals make a device look slow; the index shows at which stage the bursts arise.
//!
//! Source: D. R. Cox and P. A. W. Lewis, "The Statistical Analysis of Series of Events", 1966.

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Dispersion {
    /// Whole windows, empty ones included.
    pub(crate) windows: u64,
    pub(crate) mean: f64,
    /// Population variance of the number of events in a window.
    pub(crate) variance: f64,
}

impl Dispersion {
    /// Variance / mean: 0 even, 1 Poisson, more than 1 bunched.
    pub(crate) fn index(&self) -> f64 {
        self.variance / self.mean
    }
}

/// The dispersion of `times_ns` in windows of `window_ns`. Windows start at the first event and cover the time to the
/// last one; the incomplete window at the end, with the last event, is left out. Sorted times are faster. `None` if
/// there is no whole window, or `window_ns` is 0.
pub(crate) fn dispersion(times_ns: &[u64], window_ns: u64) -> Option<Dispersion> {
    if times_ns.is_sorted() {
        return of_sorted(times_ns, window_ns);
    }
    let mut sorted = times_ns.to_vec();
    sorted.sort_unstable();
    of_sorted(&sorted, window_ns)
}

/// Variance / mean of `times_ns` in windows of `window_ns`, averaged over ten offsets of the windows. If the period of
/// bursts is a multiple of the window, windows at some offsets cut all bursts, at others none: the index at a single
/// offset can be off by a factor of two. `None` as for [`dispersion`].
pub(crate) fn index_over_places(times_ns: &[u64], window_ns: u64) -> Option<f64> {
    const PLACES: u32 = 10;
    let mut sorted = times_ns.to_vec();
    sorted.sort_unstable();
    let first = *sorted.first()?;
    let mut sum = 0.0;
    for place in 0..PLACES {
        let begin_ns = first + window_ns * u64::from(place) / u64::from(PLACES);
        let later = &sorted[sorted.partition_point(|ns| *ns < begin_ns)..];
        sum += of_sorted_from(begin_ns, later, window_ns)?.index();
    }
    Some(sum / f64::from(PLACES))
}

fn of_sorted(times_ns: &[u64], window_ns: u64) -> Option<Dispersion> {
    of_sorted_from(*times_ns.first()?, times_ns, window_ns)
}

/// As [`dispersion`], in windows that start at `first`; no time is before `first`.
fn of_sorted_from(first: u64, times_ns: &[u64], window_ns: u64) -> Option<Dispersion> {
    let last = times_ns.last()?;
    let windows = (last - first)
        .checked_div(window_ns)
        .filter(|windows| *windows > 0)?;
    // Integer sums: rounding errors of floating-point sums would add up over a day's windows.
    let mut sum = 0_u128;
    let mut sum_of_squares = 0_u128;
    for same in times_ns.chunk_by(|a, b| (a - first) / window_ns == (b - first) / window_ns) {
        if (same[0] - first) / window_ns == windows {
            break;
        }
        let count = same.len() as u128;
        sum += count;
        sum_of_squares += count * count;
    }
    let n = u128::from(windows);
    let sum_of_squares = sum_of_squares;
    let mean = sum as f64 / n as f64;
    let variance = (n * sum_of_squares - sum * sum) as f64 / (n as f64 * n as f64);
    Some(Dispersion {
        windows,
        mean,
        variance,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SplitMix64 (Steele, Lea, Flood 2014): a fixed seed gives the same test everywhere.
    fn random(state: &mut u64) -> f64 {
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = *state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        ((mixed >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }

    #[test]
    fn evenly_spaced_events_have_an_index_near_0() {
        let even: Vec<u64> = (0..100_000).map(|index| index * 10).collect();
        assert_eq!(
            dispersion(&even, 100).unwrap(),
            Dispersion {
                windows: 9_999,
                mean: 10.0,
                variance: 0.0
            }
        );
        // 100 / 30 events per window: some windows have 3, the others 4.
        let uneven: Vec<u64> = (0..100_000).map(|index| index * 30).collect();
        let index = dispersion(&uneven, 100).unwrap().index();
        assert!(index > 0.0 && index < 0.1, "{index}");
    }

    #[test]
    fn poisson_arrivals_have_an_index_of_1() {
        let mut seed = 23;
        let mut now = 0.0;
        let times: Vec<u64> = std::iter::repeat_with(|| {
            now -= random(&mut seed).ln() * 50_000.0;
            now as u64
        })
        .take(200_000)
        .collect();
        let dispersion = dispersion(&times, 100_000).unwrap();
        // Standard error of the index over n windows: sqrt(2 / n), 0.0045 here.
        assert!((dispersion.index() - 1.0).abs() < 0.02, "{dispersion:?}");
        assert!((dispersion.mean - 2.0).abs() < 0.02, "{dispersion:?}");
    }

    #[test]
    fn evenly_spaced_bursts_of_ten_have_an_index_of_9() {
        let bursts: Vec<u64> = (0..10_000)
            .flat_map(|burst| (0..10).map(move |index| burst * 1_000 + index))
            .collect();
        let dispersion = dispersion(&bursts, 100).unwrap();
        assert!((dispersion.index() - 9.0).abs() < 0.01, "{dispersion:?}");
        assert!((dispersion.mean - 1.0).abs() < 0.001, "{dispersion:?}");
    }

    #[test]
    fn the_index_is_averaged_over_the_offsets_of_the_windows() {
        // Ten events within 60 of every 500. At some offsets the windows of 100 hold each burst whole, at others they
        // cut every burst at the same spot.
        let bursts: Vec<u64> = (0..10_000)
            .flat_map(|burst| (0..10).map(move |index| burst * 500 + index * 6))
            .collect();
        let whole = dispersion(&bursts, 100).unwrap().index();
        assert!((whole - 8.0).abs() < 0.01, "{whole}");
        let averaged = index_over_places(&bursts, 100).unwrap();
        // At five offsets, windows cut a burst into n and 10 - n events. Index: ((n^2 + (10 - n)^2) / 5 - 2^2) / 2.
        let cut: f64 = [9.0, 7.0, 5.0, 4.0, 2.0]
            .iter()
            .map(|n: &f64| (n * n + (10.0 - n) * (10.0 - n)) / 10.0 - 2.0)
            .sum();
        assert!(
            (averaged - (cut + 5.0 * 8.0) / 10.0).abs() < 0.02,
            "{averaged}"
        );
        assert!((whole - averaged) > 1.0);
        assert_eq!(index_over_places(&[], 10), None);
        assert_eq!(index_over_places(&[5, 100], 0), None);
    }

    #[test]
    fn windows_without_events_count_as_windows() {
        // Windows of 10 from 5 on have 2, 0, 0 and 1 events. The event at 45 only ends the fourth window.
        let dispersion = dispersion(&[5, 6, 35, 45], 10).unwrap();
        assert_eq!(
            dispersion,
            Dispersion {
                windows: 4,
                mean: 0.75,
                variance: 0.6875
            }
        );
    }

    #[test]
    fn the_order_of_events_does_not_matter() {
        let found = dispersion(&[45, 6, 35, 5], 10);
        assert_eq!(found, dispersion(&[5, 6, 35, 45], 10));
    }

    #[test]
    fn without_a_whole_window_there_is_no_index() {
        assert_eq!(dispersion(&[], 10), None);
        assert_eq!(dispersion(&[5], 10), None);
        assert_eq!(dispersion(&[5, 14], 10), None);
        assert_eq!(dispersion(&[5, 100], 0), None);
    }
}
