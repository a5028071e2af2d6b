//! Values of any number of intervals in few points, of which each knows its mean, least and most.
//!
//! Nobody knows beforehand how long a run became, so bins double their width whenever there are too
//! many: between half of the points and all of them are left, each over 2^n intervals.

/// What a point of a reduced line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stat {
    Mean,
    Max,
    Min,
}

impl Stat {
    /// `mean`, `highest`, `lowest`.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Mean => "mean",
            Self::Max => "highest",
            Self::Min => "lowest",
        }
    }
}

/// One bin.
#[derive(Debug, Clone, Copy)]
struct Bin {
    sum: f64,
    count: u64,
    max: f64,
    min: f64,
}

impl Bin {
    const EMPTY: Self = Self { sum: 0.0, count: 0, max: f64::NEG_INFINITY, min: f64::INFINITY };

    fn add(&mut self, other: Self) {
        self.sum += other.sum;
        self.count += other.count;
        self.max = self.max.max(other.max);
        self.min = self.min.min(other.min);
    }

    fn value(&self, stat: Stat) -> Option<f64> {
        (self.count > 0).then(|| match stat {
            Stat::Mean => self.sum / self.count as f64,
            Stat::Max => self.max,
            Stat::Min => self.min,
        })
    }
}

/// A value of each interval, reduced.
#[derive(Debug, Clone)]
pub(crate) struct Bins {
    bins: Vec<Bin>,
    points_max: usize,
    /// Intervals in a bin.
    width: usize,
    /// Intervals seen.
    seen: usize,
}

impl Bins {
    /// Bins without a value, never more than `points_max` (at least 2).
    pub(crate) fn new(points_max: usize) -> Self {
        Self { bins: Vec::new(), points_max: points_max.max(2), width: 1, seen: 0 }
    }

    /// The value of the next interval; `None` where there is none.
    pub(crate) fn push(&mut self, value: Option<f64>) {
        if self.seen / self.width >= self.points_max {
            self.halve();
        }
        if self.seen.is_multiple_of(self.width) {
            self.bins.push(Bin::EMPTY);
        }
        self.seen += 1;
        if let (Some(bin), Some(value)) = (self.bins.last_mut(), value.filter(|value| value.is_finite())) {
            bin.add(Bin { sum: value, count: 1, max: value, min: value });
        }
    }

    fn halve(&mut self) {
        let pairs = self.bins.chunks(2).map(|pair| {
            let mut merged = Bin::EMPTY;
            pair.iter().for_each(|bin| merged.add(*bin));
            merged
        });
        self.bins = pairs.collect();
        self.width *= 2;
    }

    /// Intervals in a bin.
    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// A value for each bin, oldest first.
    pub(crate) fn values(&self, stat: Stat) -> Vec<Option<f64>> {
        self.bins.iter().map(|bin| bin.value(stat)).collect()
    }

    /// The mean, most or least of all values.
    pub(crate) fn overall(&self, stat: Stat) -> Option<f64> {
        let mut all = Bin::EMPTY;
        self.bins.iter().for_each(|bin| all.add(*bin));
        all.value(stat)
    }

    /// Whether any value is there.
    pub(crate) fn any(&self) -> bool {
        self.bins.iter().any(|bin| bin.count > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_becomes_few_points_and_its_extremes_survive() {
        let mut bins = Bins::new(1_500);
        for second in 0..86_400 {
            bins.push(Some(match second {
                50_000 => 900.0,
                60_000 => -1.0,
                _ => 2.0,
            }));
        }
        assert_eq!(bins.width(), 64);
        assert_eq!(bins.values(Stat::Mean).len(), 1_350);
        assert_eq!(bins.values(Stat::Max)[50_000 / 64], Some(900.0));
        assert_eq!((bins.overall(Stat::Max), bins.overall(Stat::Min)), (Some(900.0), Some(-1.0)));
        assert_eq!(bins.values(Stat::Mean)[0], Some(2.0));
    }

    #[test]
    fn what_was_not_measured_is_no_zero() {
        let mut bins = Bins::new(2);
        [None, Some(4.0), None, None, Some(1.0)].into_iter().for_each(|value| bins.push(value));
        assert_eq!(bins.width(), 4);
        assert_eq!(bins.values(Stat::Mean), [Some(4.0), Some(1.0)]);
        let mut empty = Bins::new(5);
        empty.push(None);
        assert!(!empty.any());
        assert_eq!(empty.values(Stat::Max), [None]);
    }
}
