//! Write amplification in closed form, of drives with very many superblocks. `a` is T / U: 1 + over-provisioning.

/// The principal branch of Lambert's W, for -1/e <= x < 0, by bisection.
fn lambert_w0(x: f64) -> f64 {
    bisect(-1.0, 0.0, |w| w * w.exp() < x)
}

/// Where `too_low` turns.
pub(crate) fn bisect(mut low: f64, mut high: f64, too_low: impl Fn(f64) -> bool) -> f64 {
    for _ in 0..200 {
        let middle = (low + high) / 2.0;
        if too_low(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    f64::midpoint(low, high)
}

/// FIFO (LRU) under uniform writes (Desnoyers, "Analytic modeling of SSD write performance", 2012).
pub(crate) fn fifo(a: f64) -> f64 {
    a / (a + lambert_w0(-a * (-a).exp()))
}

/// Greedy under uniform writes with `b` pages a block: the mean field, of very many blocks (Desnoyers 2012; Van Houdt,
/// "A mean field model for a class of garbage collection algorithms in flash-based solid state drives", 2013).
pub(crate) fn greedy(a: f64, b: usize) -> f64 {
    let mut harmonic = vec![0.0; b + 1];
    for i in 1..=b {
        harmonic[i] = harmonic[i - 1] + 1.0 / i as f64;
    }
    // Victims have v or v - 1 valid pages; s is the time that a block stays at v, of 1 / v at most.
    for v in (1..b).rev() {
        let used = |s: f64| ((b - v) as f64 + v as f64 * s) / ((harmonic[b] - harmonic[v] + s) * b as f64);
        let longest = 1.0 / v as f64;
        if used(0.0) >= 1.0 / a && 1.0 / a >= used(longest) {
            let s = bisect(0.0, longest, |s| used(s) > 1.0 / a);
            let valid = v as f64 - v as f64 * s;
            return b as f64 / (b as f64 - valid);
        }
    }
    f64::NAN
}

/// FIFO where a share `r` of the writes goes to a share `f` of the data, the two mixed (Desnoyers 2012).
pub(crate) fn hot_cold_fifo(a: f64, f: f64, r: f64) -> f64 {
    let mut wa = 1.0;
    for _ in 0..100_000 {
        let part = |r: f64, f: f64| r / (1.0 - (-r * a / (f * wa)).exp());
        wa = part(r, f) + part(1.0 - r, 1.0 - f);
    }
    wa
}

/// Hot and cold in pools of their own, FIFO each: the best share of the spare flash for the hot one, and the write
/// amplification of both together.
pub(crate) fn separated(a: f64, f: f64, r: f64) -> (f64, f64) {
    let of_both = |share: f64| {
        let pool = |share: f64, f: f64| fifo(1.0 + (a - 1.0) * share / f);
        r * pool(share, f) + (1.0 - r) * pool(1.0 - share, 1.0 - f)
    };
    let shares = (1..2000).map(|share| f64::from(share) / 2000.0);
    shares.map(|share| (share, of_both(share))).min_by(|x, y| x.1.total_cmp(&y.1)).expect("shares")
}

#[test]
fn closed_forms_give_published_values() {
    // Xiang, Kurkoski, "An improved analytic expression for write amplification in NAND flash" (2012): 2.36 at 30 %.
    assert!((fifo(1.3) - 2.3642).abs() < 1e-4);
    // Desnoyers' notes: 6.59 for a = 1.0914, f = 0.1420, r = 0.7258.
    assert!((hot_cold_fifo(1.0914, 0.1420, 0.7258) - 6.5892).abs() < 1e-3);
    // With ever larger blocks greedy comes near to FIFO.
    assert!((greedy(1.07, 64) - 7.0099).abs() < 1e-4 && (greedy(1.07, 4096) - 7.8029).abs() < 1e-4);
    assert!((separated(1.07, 0.5, 0.5).1 - fifo(1.07)).abs() < 1e-9);
}
