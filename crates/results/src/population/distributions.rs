//! The distributions that the tests of this module need, from one function: the regularized incomplete beta function.
//!
//! Tails are computed directly, never as 1 minus a probability: thresholds for thousands of drives lie at 1e-7.

/// Degrees of freedom of a Student distribution that stands for the normal one: at 6 standard deviations its tail
/// differs by 0.04 %.
const NORMAL: f64 = 1e6;

/// P(T > `t`) of Student's distribution; 1 if `t` is not a number.
pub(super) fn student_tail(t: f64, freedom: f64) -> f64 {
    if t.is_nan() {
        return 1.0;
    }
    let beyond = 0.5 * beta(freedom / (freedom + t * t), freedom / 2.0, 0.5);
    if t >= 0.0 { beyond } else { 1.0 - beyond }
}

/// P(Z > `z`) of the standard normal distribution.
pub(super) fn normal_tail(z: f64) -> f64 {
    student_tail(z, NORMAL)
}

/// The value that a Student variable exceeds with probability `p`, for `p` up to 1/2.
pub(super) fn student_quantile(p: f64, freedom: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    while student_tail(high, freedom) > p && high < 1e150 {
        high *= 2.0;
    }
    // Halving reaches the resolution of a double.
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if student_tail(middle, freedom) > p { low = middle } else { high = middle }
    }
    high
}

/// P(B >= `least`) of a binomial variable of `count` draws.
pub(super) fn binomial_at_least(least: usize, count: usize, probability: f64) -> f64 {
    match least {
        0 => 1.0,
        least if least > count => 0.0,
        least => beta(probability, least as f64, (count - least + 1) as f64),
    }
}

/// The regularized incomplete beta function I_x(a, b): a continued fraction by Lentz's method.
///
/// Source: NIST Digital Library of Mathematical Functions, 8.17.22; the even and the odd step are taken together.
fn beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return if x >= 1.0 { 1.0 } else { 0.0 };
    }
    // The fraction converges fast on one side of the mean only.
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - beta(1.0 - x, b, a);
    }
    const TINY: f64 = 1e-300;
    let away = |value: f64| if value.abs() < TINY { TINY } else { value };
    let (mut c, mut d) = (1.0, 1.0 / away(1.0 - (a + b) * x / (a + 1.0)));
    let mut fraction = d;
    for step in 1..10_000 {
        let m = f64::from(step);
        let mut change = 1.0;
        for term in [
            m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0)),
        ] {
            d = 1.0 / away(1.0 + term * d);
            c = away(1.0 + term / c);
            change = c * d;
            fraction *= change;
        }
        if (change - 1.0).abs() < 1e-15 {
            break;
        }
    }
    (a * x.ln() + b * (-x).ln_1p() + ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b)).exp() * fraction / a
}

/// The logarithm of the gamma function of a positive number, by Stirling's series from 10 on.
fn ln_gamma(x: f64) -> f64 {
    // ln G(x) = ln G(x + 1) - ln x.
    let (mut x, mut below) = (x, 0.0);
    while x < 10.0 {
        below += x.ln();
        x += 1.0;
    }
    let inverse = 1.0 / (x * x);
    let series = (1.0 / 12.0 - inverse * (1.0 / 360.0 - inverse * (1.0 / 1_260.0 - inverse / 1_680.0))) / x;
    (x - 0.5) * x.ln() - x + 0.5 * std::f64::consts::TAU.ln() + series - below
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Asserts a relative difference below 1e-9.
    #[track_caller]
    fn close(value: f64, expected: f64) {
        assert!((value / expected - 1.0).abs() < 1e-9, "{value:e} instead of {expected:e}");
    }

    // Expected values: scipy 1.17.1, stats.t.sf, t.isf, norm.sf, binom.sf.

    #[test]
    fn tails_and_quantiles_are_those_of_scipy() {
        for (t, freedom, expected) in [
            (1.0, 1.0, 0.25000000000000006),
            (4.5, 3.0, 0.0102452061722267),
            (2.0, 10.0, 0.03669401738537018),
            (6.0, 197.0, 4.653666592451335e-09),
            (12.0, 5.0, 3.544746258580761e-05),
            (-1.5, 7.0, 0.911350756505015),
            (40.0, 198.0, 4.1953717271829827e-97),
        ] {
            close(student_tail(t, freedom), expected);
        }
        for (p, freedom, expected) in [
            (1e-3, 1.0, 318.30883898555044),
            (1e-6, 4.0, 41.577854150450975),
            (2.8e-6, 198.0, 4.667935777654246),
            (0.05, 30.0, 1.6972608865939574),
        ] {
            close(student_quantile(p, freedom), expected);
        }
        for (z, expected) in [(1.0, 0.15865525393145707), (3.0, 0.0013498980316300933), (6.0, 9.865876450376946e-10)] {
            assert!((normal_tail(z) / expected - 1.0).abs() < 5e-4, "{z}");
        }
        assert_eq!((student_tail(f64::NAN, 5.0), student_tail(f64::INFINITY, 5.0)), (1.0, 0.0));
    }

    #[test]
    fn binomial_probabilities_are_those_of_scipy() {
        for (least, count, probability, expected) in [
            (1, 59, 0.05, 0.9515054747505768),
            (2, 93, 0.05, 0.9500242047573837),
            (3, 10, 0.5, 0.9453125),
            (10, 10, 0.9, 0.34867844010000004),
            (7, 2000, 0.001, 0.004509769004537928),
        ] {
            close(binomial_at_least(least, count, probability), expected);
        }
        assert_eq!((binomial_at_least(0, 5, 0.1), binomial_at_least(6, 5, 0.1)), (1.0, 0.0));
    }
}
