//! What only the operator knows of a candidate: its price, and what endurance its maker rates it for.

use std::collections::BTreeSet;
use thiserror::Error;

/// Days of a year, as drive makers count them in a rating.
pub(super) const DAYS_PER_YEAR: f64 = 365.0;
const TB_BYTES: f64 = 1e12;

/// The endurance that a drive is rated for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Endurance {
    /// Drive writes per day, for each day of the warranty.
    DriveWritesPerDay(f64),
    /// Terabytes (10^12 bytes) written.
    TerabytesWritten(f64),
}

impl Endurance {
    /// Bytes that a drive of `capacity_bytes` is rated for; `None` when that is needed and not known.
    pub fn bytes(self, capacity_bytes: Option<u64>, warranty_years: f64) -> Option<f64> {
        match self {
            Self::DriveWritesPerDay(dwpd) => Some(dwpd * capacity_bytes? as f64 * DAYS_PER_YEAR * warranty_years),
            Self::TerabytesWritten(tb) => Some(tb * TB_BYTES),
        }
    }
}

/// What the operator says, by the name of a candidate or of a device.
#[derive(Debug, Clone, PartialEq)]
pub struct Given {
    /// Endurance ratings.
    pub endurance: Vec<(String, Endurance)>,
    /// Prices of one drive, in whatever currency: all in the same.
    pub prices: Vec<(String, f64)>,
    /// Years that a rating in drive writes per day is for.
    pub warranty_years: f64,
}

impl Default for Given {
    /// Nothing is said; drive writes per day are over five years, the usual warranty of drives for servers.
    fn default() -> Self {
        Self { endurance: Vec::new(), prices: Vec::new(), warranty_years: 5.0 }
    }
}

impl Given {
    /// What is said of `device` of `candidate`; of the device by its own name first.
    pub(super) fn of<T: Copy>(said: &[(String, T)], candidate: &str, device: &str) -> Option<T> {
        let by = |name: &str| said.iter().find(|(said, _)| said == name).map(|(_, value)| *value);
        by(device).or_else(|| by(candidate))
    }

    /// Errors: a name that is no candidate's and no device's.
    pub(super) fn check(&self, known: &BTreeSet<&str>) -> Result<(), UnknownName> {
        let mut names = self.endurance.iter().map(|(name, _)| name).chain(self.prices.iter().map(|(name, _)| name));
        match names.find(|name| !known.contains(name.as_str())) {
            None => Ok(()),
            Some(name) => {
                let known = known.iter().copied().collect::<Vec<_>>().join(", ");
                Err(UnknownName { name: name.clone(), known })
            }
        }
    }
}

/// Something was said of a candidate that there is not.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("using what was given for {name:?} - no candidate or device has that name; the names are {known}")]
pub struct UnknownName {
    /// The name.
    pub name: String,
    /// The names that there are.
    pub known: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ratings_are_bytes() {
        // 1 DWPD of 1.92 TB over 5 years is what makers call 3504 TBW.
        let dwpd = Endurance::DriveWritesPerDay(1.0).bytes(Some(1_920_000_000_000), 5.0).unwrap();
        assert_eq!(dwpd, 3504e12);
        assert_eq!(Endurance::TerabytesWritten(3504.0).bytes(None, 5.0), Some(dwpd));
        assert_eq!(Endurance::DriveWritesPerDay(1.0).bytes(None, 5.0), None);
    }

    #[test]
    fn a_device_is_known_by_its_own_name_first() {
        let said = [("a".to_owned(), 1), ("/dev/x".to_owned(), 2)];
        assert_eq!(Given::of(&said, "a", "/dev/y"), Some(1));
        assert_eq!(Given::of(&said, "a", "/dev/x"), Some(2));
        assert_eq!(Given::of(&said, "b", "/dev/y"), None);
    }
}
