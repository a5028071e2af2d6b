//! Choice of the next record: key distributions and their option syntax.

use serde::Deserialize;
use std::fmt;
use sys::random::Random;

#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(from = "KeysForm")]
pub enum Keys {
    Uniform,
    /// Probability of the k-th most popular key proportional to k^-theta.
    Zipfian {
        /// Skew; YCSB uses 0.99.
        theta: f64,
    },
    HotCold {
        /// Percent of the keys that are hot.
        keys_pct: f64,
        /// Percent of the operations that hot keys get.
        traffic_pct: f64,
    },
    Sequential,
}

impl fmt::Display for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uniform => f.write_str("uniform"),
            Self::Zipfian { theta } => write!(f, "zipfian {theta}"),
            Self::HotCold {
                keys_pct,
                traffic_pct,
            } => {
                write!(
                    f,
                    "{traffic_pct} % of the updates to {keys_pct} % of the keys"
                )
            }
            Self::Sequential => f.write_str("sequential"),
        }
    }
}

/// Keys in a file: a word, which means the usual parameters, or a table that gives the parameters.
#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "keys: give \"uniform\", \"sequential\", \"zipfian\", \"hot-cold\", { zipfian = { theta = 0.99 } } or \
                 { hot-cold = { keys-pct = 20, traffic-pct = 80 } }"
)]
enum KeysForm {
    Word(KeysWord),
    Table(KeysTable),
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum KeysWord {
    Uniform,
    Sequential,
    Zipfian,
    HotCold,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
enum KeysTable {
    Zipfian {
        theta: f64,
    },
    #[serde(rename_all = "kebab-case")]
    HotCold {
        keys_pct: f64,
        traffic_pct: f64,
    },
}

impl From<KeysForm> for Keys {
    fn from(form: KeysForm) -> Self {
        match form {
            KeysForm::Word(KeysWord::Uniform) => Self::Uniform,
            KeysForm::Word(KeysWord::Sequential) => Self::Sequential,
            // YCSB's theta, and the usual 80 % of the updates to 20 % of the keys.
            KeysForm::Word(KeysWord::Zipfian) => Self::Zipfian { theta: 0.99 },
            KeysForm::Word(KeysWord::HotCold) => Self::HotCold {
                keys_pct: 20.0,
                traffic_pct: 80.0,
            },
            KeysForm::Table(KeysTable::Zipfian { theta }) => Self::Zipfian { theta },
            KeysForm::Table(KeysTable::HotCold {
                keys_pct,
                traffic_pct,
            }) => Self::HotCold {
                keys_pct,
                traffic_pct,
            },
        }
    }
}

/// Draws keys; key 0 is the most popular.
#[derive(Debug, Clone)]
pub enum KeyGenerator {
    Uniform { keys: u32 },
    Zipfian(Zipfian),
    HotCold { keys: u32, hot: u32, traffic: f64 },
    Sequential { keys: u32, next_key: u32 },
}

impl KeyGenerator {
    pub fn new(keys: Keys, count: u32) -> Self {
        match keys {
            Keys::Uniform => Self::Uniform { keys: count },
            Keys::Zipfian { theta } => Self::Zipfian(Zipfian::new(count.into(), theta)),
            Keys::HotCold {
                keys_pct,
                traffic_pct,
            } => Self::HotCold {
                keys: count,
                hot: hot_keys(keys_pct, count),
                traffic: traffic_pct / 100.0,
            },
            Keys::Sequential => Self::Sequential {
                keys: count,
                next_key: 0,
            },
        }
    }

    pub fn is_sequential(&self) -> bool {
        matches!(self, Self::Sequential { .. })
    }

    #[inline]
    pub fn next(&mut self, random: &mut Random) -> u32 {
        match self {
            Self::Uniform { keys } => random.below(u64::from(*keys)) as u32,
            Self::Zipfian(zipfian) => zipfian.draw(random) as u32,
            Self::HotCold { keys, hot, traffic } => {
                if random.unit() < *traffic || hot == keys {
                    random.below(u64::from(*hot)) as u32
                } else {
                    *hot + random.below(u64::from(*keys - *hot)) as u32
                }
            }
            Self::Sequential { keys, next_key } => {
                let key = *next_key;
                *next_key = (key + 1) % *keys;
                key
            }
        }
    }
}

fn hot_keys(keys_pct: f64, count: u32) -> u32 {
    (f64::from(count) * keys_pct / 100.0)
        .round()
        .clamp(1.0, f64::from(count)) as u32
}

/// Keys that are updated (nearly) equally often.
#[derive(Debug, Clone, Copy)]
pub struct KeyClass {
    pub keys: f64,
    /// Share of the updates that go to these keys.
    pub updates: f64,
}

impl KeyClass {
    /// Each of the most popular Zipfian keys is a class of its own; the ranks in any other class differ by at most 1 %.
    pub fn for_keys(keys: Keys, count: u32) -> Vec<Self> {
        let key_count = f64::from(count);
        match keys {
            Keys::Uniform | Keys::Sequential => vec![Self {
                keys: key_count,
                updates: 1.0,
            }],
            Keys::HotCold { keys_pct, .. } if hot_keys(keys_pct, count) == count => {
                vec![Self {
                    keys: key_count,
                    updates: 1.0,
                }]
            }
            Keys::HotCold {
                keys_pct,
                traffic_pct,
            } => {
                let hot = f64::from(hot_keys(keys_pct, count));
                let traffic = traffic_pct / 100.0;
                vec![
                    Self {
                        keys: hot,
                        updates: traffic,
                    },
                    Self {
                        keys: key_count - hot,
                        updates: 1.0 - traffic,
                    },
                ]
            }
            Keys::Zipfian { theta } => {
                let zipfian = Zipfian::new(count.into(), theta);
                let mut classes = Vec::new();
                let mut first_rank = 1;
                while first_rank <= count {
                    let end_rank = first_rank
                        .saturating_add((first_rank / 100).max(1))
                        .min(count.saturating_add(1));
                    // A class of one key gets its exact weight. Otherwise an integral approximates the sum.
                    let updates = match end_rank - first_rank {
                        1 => f64::from(first_rank).powf(-theta),
                        _ => {
                            zipfian.integral(f64::from(end_rank) - 0.5)
                                - zipfian.integral(f64::from(first_rank) - 0.5)
                        }
                    };
                    classes.push(Self {
                        keys: f64::from(end_rank - first_rank),
                        updates,
                    });
                    first_rank = end_rank;
                }
                let sum: f64 = classes.iter().map(|class| class.updates).sum();
                classes.iter_mut().for_each(|class| class.updates /= sum);
                classes
            }
        }
    }
}

/// Draws rank k (from 1) with a probability proportional to k^-theta, exactly and without a table. Source: Hoermann,
/// Derflinger, "Rejection-inversion to generate variates from monotone discrete distributions", 1996.
#[derive(Debug, Clone)]
pub struct Zipfian {
    theta: f64,
    keys: f64,
    area_first: f64,
    area: f64,
    accepted_distance: f64,
}

impl Zipfian {
    pub fn new(keys: u64, theta: f64) -> Self {
        let keys = keys as f64;
        let parameters = Self {
            theta,
            keys,
            area_first: 0.0,
            area: 0.0,
            accepted_distance: 0.0,
        };
        Self {
            area_first: parameters.integral(1.5) - 1.0,
            area: parameters.integral(keys + 0.5),
            accepted_distance: 2.0
                - parameters.inverse(parameters.integral(2.5) - 2.0_f64.powf(-theta)),
            ..parameters
        }
    }

    pub fn draw(&self, random: &mut Random) -> u64 {
        loop {
            let u = self.area + random.unit() * (self.area_first - self.area);
            let x = self.inverse(u);
            let k = x.round().clamp(1.0, self.keys);
            if k - x <= self.accepted_distance || u >= self.integral(k + 0.5) - k.powf(-self.theta)
            {
                return k as u64 - 1;
            }
        }
    }

    /// The integral of t^-theta over t from 1 to `x`.
    fn integral(&self, x: f64) -> f64 {
        let log = x.ln();
        let exponent = 1.0 - self.theta;
        if (exponent * log).abs() < 1e-8 {
            log * (1.0 + exponent * log / 2.0)
        } else {
            (exponent * log).exp_m1() / exponent
        }
    }

    fn inverse(&self, area: f64) -> f64 {
        let exponent = 1.0 - self.theta;
        let scaled = (exponent * area).max(-1.0);
        if scaled.abs() < 1e-8 {
            (area * (1.0 - scaled / 2.0)).exp()
        } else {
            (scaled.ln_1p() / exponent).exp()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(keys: Keys, count: u32, draws: u32) -> Vec<f64> {
        let mut draw = KeyGenerator::new(keys, count);
        let mut random = Random::new(3);
        let mut counts = vec![0.0; count as usize];
        (0..draws).for_each(|_| counts[draw.next(&mut random) as usize] += 1.0);
        counts
    }

    #[test]
    fn zipfian_keys_come_in_proportion_to_the_power_of_their_rank() {
        for theta in [0.5, 0.99, 1.0, 1.5] {
            let weights: Vec<f64> = (1..=100).map(|rank| f64::from(rank).powf(-theta)).collect();
            let sum: f64 = weights.iter().sum();
            for (seen, weight) in counts(Keys::Zipfian { theta }, 100, 400_000)
                .into_iter()
                .zip(weights)
            {
                let expected = 400_000.0 * weight / sum;
                assert!(
                    (seen - expected).abs() < 5.0 * expected.sqrt(),
                    "theta {theta}: {seen} of {expected}"
                );
            }
        }
    }

    #[test]
    fn key_classes_match_the_drawn_keys_and_updates() {
        for keys in [
            Keys::Zipfian { theta: 0.99 },
            Keys::Zipfian { theta: 1.3 },
            Keys::HotCold {
                keys_pct: 20.0,
                traffic_pct: 80.0,
            },
        ] {
            let seen = counts(keys, 5_000, 1_000_000);
            let mut at = 0;
            let mut updates = 0.0;
            for class in KeyClass::for_keys(keys, 5_000) {
                let end = at + class.keys as usize;
                let drawn = seen[at..end].iter().sum::<f64>();
                let expected = class.updates * 1e6;
                assert!(
                    (drawn - expected).abs() < 5.0 * expected.sqrt(),
                    "{keys}: {drawn} updates from {at} to {end}, not {expected}"
                );
                (at, updates) = (end, updates + class.updates);
            }
            assert!(at == 5_000 && (updates - 1.0).abs() < 1e-9);
        }
    }

    #[test]
    fn a_fifth_of_the_keys_gets_four_fifths_of_the_traffic_and_sequential_keys_come_in_order() {
        let seen = counts(
            Keys::HotCold {
                keys_pct: 20.0,
                traffic_pct: 80.0,
            },
            50,
            100_000,
        );
        let hot: f64 = seen[..10].iter().sum();
        assert!(
            (hot - 80_000.0).abs() < 800.0 && seen.iter().all(|count| *count > 100.0),
            "{hot}"
        );
        assert_eq!(counts(Keys::Sequential, 7, 14), [2.0; 7]);
    }
}
