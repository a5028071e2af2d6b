//! Closed forms of write amplification, for drives with very many superblocks. `a` is T / U = 1 + over-provisioning.

/// The principal branch of Lambert's W, for -1/e <= x < 0, by bisection.
fn lambert_w0(x: f64) -> f64 {
    bisect(-1.0, 0.0, |w| w * w.exp() < x)
}

/// Bisection: the value between `low` and `high` at which `too_low` changes from true to false.
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

/// Greedy under uniform writes with `b` pages per block: mean-field limit of very many blocks (Desnoyers 2012; Van
/// Houdt, "A mean field model for a class of garbage collection algorithms in flash-based solid state drives", 2013).
pub(crate) fn greedy(a: f64, b: usize) -> f64 {
    greedy_apart(a, b, &[(1.0, 1.0)])
}

/// As [`greedy`], for separate pools, each with a share `f` of the data and a share `r` of the writes. The victim is
/// the block with the fewest valid pages, whichever pool it belongs to.
pub(crate) fn greedy_apart(a: f64, b: usize, pools: &[(f64, f64)]) -> f64 {
    let mut harmonic = vec![0.0; b + 1];
    for i in 1..=b {
        harmonic[i] = harmonic[i - 1] + 1.0 / i as f64;
    }
    // A block with v valid pages is collected at a rate that is the same for all blocks. If one of its pages is
    // overwritten first, the block is collected at once, with v - 1 valid pages. The rate determines the flash of all
    // blocks and the write amplification.
    let of = |v: usize, rate: f64| {
        let mut flash = 0.0;
        let mut written = 0.0;
        for &(f, r) in pools {
            let overwrites = v as f64 * r / f;
            let at_v = 1.0 / (overwrites + rate);
            let blocks = r / ((b - v) as f64 + overwrites * at_v);
            flash += blocks * b as f64 * ((harmonic[b] - harmonic[v]) * f / r + at_v);
            written += blocks * b as f64;
        }
        (flash, written)
    };
    let v = (1..b)
        .rev()
        .find(|&v| (of(v, f64::INFINITY).0..=of(v, 0.0).0).contains(&a));
    let Some(v) = v else { return f64::NAN };
    let rate = bisect(-30.0, 30.0, |log| of(v, log.exp()).0 > a);
    of(v, rate.exp()).1
}

/// FIFO with mixed hot and cold data: a share `r` of the writes goes to a share `f` of the data (Desnoyers 2012).
pub(crate) fn hot_cold_fifo(a: f64, f: f64, r: f64) -> f64 {
    let mut wa = 1.0;
    for _ in 0..100_000 {
        let part = |r: f64, f: f64| r / (1.0 - (-r * a / (f * wa)).exp());
        wa = part(r, f) + part(1.0 - r, 1.0 - f);
    }
    wa
}

/// Hot and cold data in separate FIFO pools: the hot pool's best share of the spare flash, and the WAF of both pools.
pub(crate) fn separated(a: f64, f: f64, r: f64) -> (f64, f64) {
    let of_both = |share: f64| {
        let pool = |share: f64, f: f64| fifo(1.0 + (a - 1.0) * share / f);
        r * pool(share, f) + (1.0 - r) * pool(1.0 - share, 1.0 - f)
    };
    let shares = (1..2000).map(|share| f64::from(share) / 2000.0);
    shares
        .map(|share| (share, of_both(share)))
        .min_by(|x, y| x.1.total_cmp(&y.1))
        .expect("shares")
}

#[test]
fn closed_forms_give_published_values() {
    // Xiang, Kurkoski, "An improved analytic expression for write amplification in NAND flash" (2012): 2.36 at 30 %
    // over-provisioning.
    assert!((fifo(1.3) - 2.3642).abs() < 1e-4);
    // Desnoyers' notes: 6.59 for a = 1.0914, f = 0.1420, r = 0.7258.
    assert!((hot_cold_fifo(1.0914, 0.1420, 0.7258) - 6.5892).abs() < 1e-3);
    // With larger blocks, greedy approaches FIFO.
    assert!((greedy(1.07, 64) - 7.0099).abs() < 1e-4 && (greedy(1.07, 4096) - 7.8029).abs() < 1e-4);
    assert!((separated(1.07, 0.5, 0.5).1 - fifo(1.07)).abs() < 1e-9);
}
