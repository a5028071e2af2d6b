//! Checks that the record on disk is that of the requested series.

use super::{Identity, Purpose, Series};
use crate::units::{Grouped, count};
use thiserror::Error;

/// Difference between a record and the requested series.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Differs {
    /// Different purpose.
    #[error("it holds {}", match then { Purpose::Rate => "a search for a rating (flashproof rate)", Purpose::Certify => "a certification (flashproof certify)", Purpose::Baseline => "a baseline (flashproof baseline)" })]
    Purpose {
        /// In the record.
        then: Purpose,
    },
    /// Different number of devices.
    #[error("it is of {} and has {now} now", count(*then as u64, "device"))]
    Count {
        /// In the record.
        then: usize,
        now: usize,
    },
    /// Different drive.
    #[error("it is of {then}, and {name} is {now} now")]
    Drive {
        /// Drive in the record.
        then: String,
        /// The name that the user gave.
        name: String,
        /// Drive present now.
        now: String,
    },
    /// Different settings.
    #[error("{name} was {then:?} then and is {now:?} now")]
    Term {
        /// Name of the setting.
        name: String,
        /// In the record.
        then: String,
        now: String,
    },
}

/// Checks that `then`, read from a directory, is the record of the series that `now` would begin.
///
/// Names of devices may differ: after a reboot a drive can have another one. Errors: every difference.
pub fn check_same(then: &Series, now: &Series) -> Result<(), Vec<Differs>> {
    if then.purpose != now.purpose {
        return Err(vec![Differs::Purpose { then: then.purpose }]);
    }
    let mut differs = Vec::new();
    if then.devices.len() != now.devices.len() {
        differs.push(Differs::Count { then: then.devices.len(), now: now.devices.len() });
    } else {
        let pairs = then.devices.iter().zip(&now.devices).filter(|(then, now)| !is_same_drive(then, now));
        differs.extend(pairs.map(|(then, now)| Differs::Drive {
            then: told(then),
            name: now.name.clone(),
            now: told(now),
        }));
    }
    differs.extend(terms(&then.terms, &now.terms));
    differs.extend(terms(&keys(&then.config_1x), &keys(&now.config_1x)));
    if differs.is_empty() { Ok(()) } else { Err(differs) }
}

fn is_same_drive(then: &Identity, now: &Identity) -> bool {
    let named = then.serial.is_some() || then.name == now.name;
    named && then.serial == now.serial && then.size_bytes == now.size_bytes && then.simulated == now.simulated
}

/// A drive in words: its serial number and size.
fn told(drive: &Identity) -> String {
    let model = drive.model.as_deref().map(|model| format!("{} ", model.trim())).unwrap_or_default();
    let serial = match &drive.serial {
        Some(serial) => format!("serial {serial}"),
        None => format!("{} without a serial number", drive.name),
    };
    format!("{model}{serial} ({} bytes)", Grouped(drive.size_bytes))
}

/// The keys of a configuration, but for the devices, which are compared as drives.
fn keys(config: &str) -> Vec<(String, String)> {
    let lines = config.lines().filter_map(|line| line.split_once(':'));
    let keys = lines.map(|(key, value)| (key.trim().to_owned(), value.trim().to_owned()));
    keys.filter(|(key, _)| key != "device-names").collect()
}

/// Terms that differ; a term missing on one side counts as empty there.
fn terms(then: &[(String, String)], now: &[(String, String)]) -> Vec<Differs> {
    let value = |terms: &[(String, String)], name: &str| {
        terms.iter().find(|(other, _)| other == name).map(|(_, value)| value.clone()).unwrap_or_default()
    };
    let gone = then.iter().filter(|(name, _)| !now.iter().any(|(other, _)| other == name));
    let names = now.iter().chain(gone).map(|(name, _)| name);
    let differs = names.map(|name| (name, value(then, name), value(now, name))).filter(|(_, then, now)| then != now);
    differs.map(|(name, then, now)| Differs::Term { name: name.clone(), then, now }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certify::testing::{drive, series};

    #[test]
    fn another_drive_is_refused_with_both_serial_numbers() {
        let mut now = series(1);
        now.devices[0] = drive("/dev/nvme0n1", Some("S9"));
        let differs = check_same(&series(1), &now).unwrap_err();
        assert_eq!(
            differs[0].to_string(),
            "it is of M serial S0 (960,197,124,096 bytes), and /dev/nvme0n1 is M serial S9 (960,197,124,096 bytes) now"
        );
        let mut larger = series(1);
        larger.devices[0].size_bytes += 512;
        assert_eq!(check_same(&series(1), &larger).unwrap_err().len(), 1);
    }

    #[test]
    fn the_same_drive_may_have_another_name_but_one_without_a_serial_number_may_not() {
        let mut now = series(1);
        now.devices[0].name = "/dev/nvme7n1".into();
        assert_eq!(check_same(&series(1), &now), Ok(()));
        let nameless = |name| Series { devices: vec![drive(name, None)], ..series(1) };
        assert_eq!(check_same(&nameless("/dev/zram5"), &nameless("/dev/zram5")), Ok(()));
        assert!(check_same(&nameless("/dev/zram5"), &nameless("/dev/zram6")).is_err());
    }

    #[test]
    fn every_term_that_differs_is_named() {
        let mut now = series(1);
        now.terms = vec![("load".into(), "20x".into()), ("pacing".into(), "as ACT".into())];
        let differs: Vec<_> = check_same(&series(1), &now).unwrap_err().iter().map(ToString::to_string).collect();
        assert_eq!(
            differs,
            [
                "load was \"30x\" then and is \"20x\" now",
                "pacing was \"\" then and is \"as ACT\" now",
                "limits was \"5%>1ms,1%>8ms,0.1%>64ms\" then and is \"\" now"
            ]
        );
    }

    #[test]
    fn another_configuration_is_refused_by_the_keys_that_differ() {
        let with = |text: &str| Series { config_1x: text.into(), ..series(1) };
        let then = with("device-names: /dev/a\nread-reqs-per-sec: 2000\nrecord-bytes: 1536\n");
        let now = with("device-names: /dev/b\nread-reqs-per-sec: 2500\nrecord-bytes: 1536\n");
        let differs: Vec<_> = check_same(&then, &now).unwrap_err().iter().map(ToString::to_string).collect();
        assert_eq!(differs, ["read-reqs-per-sec was \"2000\" then and is \"2500\" now"]);
    }

    #[test]
    fn another_number_of_devices_or_another_purpose_is_refused() {
        assert_eq!(check_same(&series(1), &series(2)).unwrap_err(), [Differs::Count { then: 1, now: 2 }]);
        let rating = Series { purpose: Purpose::Rate, ..series(1) };
        assert_eq!(check_same(&rating, &series(1)).unwrap_err(), [Differs::Purpose { then: Purpose::Rate }]);
    }
}
