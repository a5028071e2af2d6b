//! Which record is updated next.

use super::Keys;
use sys::random::Random;

/// Draws keys, of which 0 is the most popular.
#[derive(Debug, Clone)]
pub(super) enum Draw {
    Uniform { keys: u32 },
    Zipfian(Zipfian),
    HotCold { keys: u32, hot: u32, traffic: f64 },
    Sequential { keys: u32, next: u32 },
}

impl Draw {
    pub(super) fn new(keys: Keys, count: u32) -> Self {
        match keys {
            Keys::Uniform => Self::Uniform { keys: count },
            Keys::Zipfian { theta } => Self::Zipfian(Zipfian::new(count, theta)),
            Keys::HotCold { keys_pct, traffic_pct } => {
                let hot = (f64::from(count) * keys_pct / 100.0).round().clamp(1.0, f64::from(count)) as u32;
                Self::HotCold { keys: count, hot, traffic: traffic_pct / 100.0 }
            }
            Keys::Sequential => Self::Sequential { keys: count, next: 0 },
        }
    }

    pub(super) fn is_sequential(&self) -> bool {
        matches!(self, Self::Sequential { .. })
    }

    #[inline]
    pub(super) fn next(&mut self, random: &mut Random) -> u32 {
        match self {
            Self::Uniform { keys } => random.below(u64::from(*keys)) as u32,
            Self::Zipfian(zipfian) => zipfian.draw(random),
            Self::HotCold { keys, hot, traffic } => match random.unit() < *traffic || hot == keys {
                true => random.below(u64::from(*hot)) as u32,
                false => *hot + random.below(u64::from(*keys - *hot)) as u32,
            },
            Self::Sequential { keys, next } => {
                let key = *next;
                *next = (key + 1) % *keys;
                key
            }
        }
    }
}

/// Key k (from 1) with a chance in proportion to k^-theta, exactly and without a table. Source: Hoermann, Derflinger,
/// "Rejection-inversion to generate variates from monotone discrete distributions", 1996.
#[derive(Debug, Clone)]
pub(super) struct Zipfian {
    theta: f64,
    keys: f64,
    area_first: f64,
    area: f64,
    always: f64,
}

impl Zipfian {
    fn new(keys: u32, theta: f64) -> Self {
        let keys = f64::from(keys);
        let of = Self { theta, keys, area_first: 0.0, area: 0.0, always: 0.0 };
        Self {
            area_first: of.integral(1.5) - 1.0,
            area: of.integral(keys + 0.5),
            always: 2.0 - of.inverse(of.integral(2.5) - 2.0_f64.powf(-theta)),
            ..of
        }
    }

    fn draw(&self, random: &mut Random) -> u32 {
        loop {
            let u = self.area + random.unit() * (self.area_first - self.area);
            let x = self.inverse(u);
            let k = x.round().clamp(1.0, self.keys);
            if k - x <= self.always || u >= self.integral(k + 0.5) - k.powf(-self.theta) {
                return k as u32 - 1;
            }
        }
    }

    /// The integral of x^-theta from 1.
    fn integral(&self, x: f64) -> f64 {
        let (log, rest) = (x.ln(), 1.0 - self.theta);
        if (rest * log).abs() < 1e-8 { log * (1.0 + rest * log / 2.0) } else { (rest * log).exp_m1() / rest }
    }

    fn inverse(&self, area: f64) -> f64 {
        let rest = 1.0 - self.theta;
        let scaled = (rest * area).max(-1.0);
        if scaled.abs() < 1e-8 { (area * (1.0 - scaled / 2.0)).exp() } else { (scaled.ln_1p() / rest).exp() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(keys: Keys, count: u32, draws: u32) -> Vec<f64> {
        let (mut draw, mut random) = (Draw::new(keys, count), Random::new(3));
        let mut counts = vec![0.0; count as usize];
        (0..draws).for_each(|_| counts[draw.next(&mut random) as usize] += 1.0);
        counts
    }

    #[test]
    fn zipfian_keys_come_in_proportion_to_the_power_of_their_rank() {
        for theta in [0.5, 0.99, 1.0, 1.5] {
            let weights: Vec<f64> = (1..=100).map(|rank| f64::from(rank).powf(-theta)).collect();
            let sum: f64 = weights.iter().sum();
            for (seen, weight) in counts(Keys::Zipfian { theta }, 100, 400_000).into_iter().zip(weights) {
                let wanted = 400_000.0 * weight / sum;
                assert!((seen - wanted).abs() < 5.0 * wanted.sqrt(), "theta {theta}: {seen} of {wanted}");
            }
        }
    }

    #[test]
    fn a_fifth_of_the_keys_gets_four_fifths_of_the_traffic_and_sequential_ones_their_turn() {
        let seen = counts(Keys::HotCold { keys_pct: 20.0, traffic_pct: 80.0 }, 50, 100_000);
        let hot: f64 = seen[..10].iter().sum();
        assert!((hot - 80_000.0).abs() < 800.0 && seen.iter().all(|count| *count > 100.0), "{hot}");
        assert_eq!(counts(Keys::Sequential, 7, 14), [2.0; 7]);
    }
}
