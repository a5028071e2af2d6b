//! How a load stands beside published ratings, which are of ACT's storage test: its multiple of 1x, and
//! why it cannot be compared.

use super::configuration::Fields;
use super::model::Model;
use super::scale::{READS_PER_SEC_1X, WRITES_PER_SEC_1X};
use super::storage::StorageConfig;
use crate::choice::Arrival;

/// The settings of the standard mix, as published ratings were made with. Source: ACT's README; the values
/// are its defaults.
const STANDARD_MIX: [&str; 10] = [
    "record-bytes",
    "record-bytes-range-max",
    "large-block-op-kbytes",
    "replication-factor",
    "update-pct",
    "defrag-lwm-pct",
    "no-defrag-reads",
    "compress-pct",
    "commit-to-device",
    "tomb-raider",
];

impl Model {
    /// Client operations a second as a multiple of those of 1x, over all devices; `None` of an index test,
    /// which has no 1x.
    pub fn times_1x(&self) -> Option<f64> {
        let Self::Storage { config, .. } = self else { return None };
        let ops = u64::from(config.read_reqs_per_sec) + u64::from(config.write_reqs_per_sec);
        Some(ops as f64 / (READS_PER_SEC_1X + WRITES_PER_SEC_1X) as f64)
    }

    /// Why a result of this load cannot be laid beside published ratings, a phrase; `None`: it can.
    pub fn not_comparable(&self) -> Option<String> {
        let Self::Storage { config, .. } = self else {
            return Some("published ratings are of storage tests".to_owned());
        };
        if config.arrival != Arrival::Act {
            let arrival = config.arrival;
            return Some(format!("run without --as-act (arrival: {arrival}); even pacing flatters a drive"));
        }
        if config.has_histograms() {
            return Some("not the standard mix: record sizes come from histograms".to_owned());
        }
        let text = |config: &StorageConfig, key| config.setting(key).and_then(|it| it.text()).unwrap_or_default();
        let standard = StorageConfig::default();
        for key in STANDARD_MIX {
            let (value, usual) = (text(config, key), text(&standard, key));
            if value != usual {
                return Some(format!("not the standard mix: {key} is {value}, published ratings are with {usual}"));
            }
        }
        let two_to_one = u64::from(config.read_reqs_per_sec) == 2 * u64::from(config.write_reqs_per_sec);
        (config.write_reqs_per_sec == 0 || !two_to_one)
            .then(|| "not the standard mix: published ratings are with two reads to a write".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::act::options::Test;

    fn parsed(test: Test, more: &str) -> Model {
        let text = format!("device-names: /dev/a\ntest-duration-sec: 60\n{more}");
        Model::parse(test, "my.conf", text.as_bytes()).unwrap().0
    }

    #[test]
    fn only_acts_own_load_paced_as_act_is_comparable() {
        const ACTS: &str = "arrival: act\nread-reqs-per-sec: 60000\nwrite-reqs-per-sec: 30000\n";
        let why = |more: &str| parsed(Test::Storage, more).not_comparable().unwrap_or_default();
        assert_eq!(why(ACTS), "");
        assert_eq!(why(&format!("{ACTS}report-interval-sec: 10\nservice-threads: 9\n")), "");
        for (more, expected) in [
            (ACTS.replace("act\n", "paced\n"), "run without --as-act (arrival: paced); even pacing flatters a drive"),
            (format!("{ACTS}record-bytes: 512\n"), "record-bytes is 512, published ratings are with 1536"),
            (format!("{ACTS}tomb-raider: yes\n"), "tomb-raider is yes, published ratings are with no"),
            (ACTS.replace("30000", "29999"), "two reads to a write"),
        ] {
            assert!(why(&more).contains(expected), "{more}{}", why(&more));
        }
        let index = parsed(Test::Index, "read-reqs-per-sec: 2000\nwrite-reqs-per-sec: 1000\narrival: act\n");
        assert_eq!((index.times_1x(), index.not_comparable().is_some()), (None, true));
        assert_eq!(parsed(Test::Storage, ACTS).times_1x(), Some(30.0));
    }
}
