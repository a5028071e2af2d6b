//! A test that can be run: a configuration with its derived rates, as a [`Workload`]; and its comparability with
//! published ratings, which are of ACT's storage test.

use super::config::ActConfig;
use super::problem::ConfigProblem;
use super::rates::{Derived, PAGE_BYTES, derive};
use super::scale::{READS_PER_SEC_1X, WRITES_PER_SEC_1X};
use super::{build, echo};
use load::choice::Arrival;
use load::workload::{BuildContext, Built, DeviceShape, RunPlan, RunSpec, Workload};
use results::run_dir::{ActLogHead, RecordedConfig, WorkloadRecord};

/// The mix, ACT's defaults, with which published ratings were measured. Source: ACT's README.
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

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActWorkload {
    config: ActConfig,
    derived: Derived,
}

impl ActWorkload {
    pub fn from_config(config: ActConfig) -> Result<Self, Vec<ConfigProblem>> {
        Ok(Self {
            derived: derive(&config)?,
            config,
        })
    }

    pub fn config(&self) -> &ActConfig {
        &self.config
    }

    pub fn blocks(&self) -> String {
        echo::blocks(&self.config, &self.derived)
    }

    /// Client operations over all devices, as a multiple of 1x; `None` for an index test, which has no 1x.
    pub fn times_1x(&self) -> Option<f64> {
        let Self {
            config,
            derived: Derived::Storage(_),
        } = self
        else {
            return None;
        };
        let ops = u64::from(config.read_reqs_per_sec) + u64::from(config.write_reqs_per_sec);
        Some(ops as f64 / (READS_PER_SEC_1X + WRITES_PER_SEC_1X) as f64)
    }

    /// Why a result of this load cannot be compared with published ratings, a phrase; `None` if it can.
    pub fn not_comparable(&self) -> Option<String> {
        let Self {
            config,
            derived: Derived::Storage(_),
        } = self
        else {
            return Some("published ratings are of storage tests".to_owned());
        };
        if config.arrival != Arrival::Act {
            let arrival = config.arrival;
            let why = if arrival == Arrival::Paced {
                "; evenly spaced operations favour a drive"
            } else {
                ""
            };
            return Some(format!("not run with --as-act (arrival: {arrival}){why}"));
        }
        if config.has_histograms() {
            return Some("not the standard mix: record sizes come from histograms".to_owned());
        }
        let standard = ActConfig::default();
        for key in STANDARD_MIX {
            let value = config.text(key).unwrap_or_default();
            let usual = standard.text(key).unwrap_or_default();
            if value != usual {
                return Some(format!(
                    "not the standard mix: {key} is {value}, and {usual} in published ratings"
                ));
            }
        }
        let two_to_one =
            u64::from(config.read_reqs_per_sec) == 2 * u64::from(config.write_reqs_per_sec);
        (config.write_reqs_per_sec == 0 || !two_to_one)
            .then(|| "not the standard mix: published ratings have two reads to a write".to_owned())
    }

    /// ACT's log line for a device, before the histograms.
    fn device_line(&self, device: &DeviceShape) -> String {
        let DeviceShape {
            name,
            size_bytes,
            min_io_bytes,
            ..
        } = device;
        match &self.derived {
            Derived::Storage(derived) => {
                let blocks = size_bytes / u64::from(derived.large_block_bytes);
                format!(
                    "{name} size = {size_bytes} bytes, {blocks} large blocks, minimum IO size = {min_io_bytes} bytes"
                )
            }
            Derived::Index(_) => format!("{name} size = {size_bytes} bytes"),
        }
    }
}

impl Workload for ActWorkload {
    fn kind(&self) -> &'static str {
        self.config.test.name()
    }

    fn spec(&self) -> RunSpec {
        self.config.spec()
    }

    fn writes(&self) -> bool {
        match &self.derived {
            Derived::Storage(derived) => {
                !derived.commit_write_rate.is_zero() || !derived.large_block_write_rate.is_zero()
            }
            Derived::Index(derived) => !derived.update_rate.is_zero(),
        }
    }

    fn unit_bytes(&self) -> u64 {
        match &self.derived {
            Derived::Storage(derived) => derived.large_block_bytes.into(),
            Derived::Index(_) => PAGE_BYTES.into(),
        }
    }

    fn build(&self, devices: &[DeviceShape], choices: &BuildContext, run: &mut RunPlan) -> Built {
        let config = &self.config;
        let service_threads = match &self.derived {
            Derived::Storage(derived) => build::storage(config, derived, devices, choices, run)?,
            Derived::Index(derived) => build::index(config, derived, devices, choices, run)?,
        };
        // The log shows the values in force.
        let service_threads = Some(config.service_threads.unwrap_or(service_threads));
        let in_force = ActConfig {
            service_threads,
            seed: Some(choices.seed),
            ..config.clone()
        };
        Ok(WorkloadRecord {
            name: String::new(),
            kind: self.kind().to_owned(),
            config: RecordedConfig {
                as_written: String::new(),
                resolved: echo::configuration(&in_force),
                derived: echo::derived(config, &self.derived),
                settings: echo::settings(&in_force),
            },
            times_1x: self.times_1x(),
            not_comparable: self.not_comparable(),
            act_log: Some(ActLogHead {
                test: config.test,
                device_lines: devices
                    .iter()
                    .map(|device| self.device_line(device))
                    .collect(),
            }),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Test;
    use crate::parse::parse;

    fn parsed(test: Test, more: &str) -> ActWorkload {
        let text = format!("device-names: /dev/a\ntest-duration-sec: 60\n{more}");
        ActWorkload::from_config(parse(test, "my.conf", text.as_bytes()).unwrap().config).unwrap()
    }

    #[test]
    fn only_acts_standard_mix_with_acts_pacing_is_comparable_with_published_ratings() {
        const ACTS: &str = "arrival: act\nread-reqs-per-sec: 60000\nwrite-reqs-per-sec: 30000\n";
        let why = |more: &str| {
            parsed(Test::Storage, more)
                .not_comparable()
                .unwrap_or_default()
        };
        assert_eq!(why(ACTS), "");
        let found = why(&format!(
            "{ACTS}report-interval-sec: 10\nservice-threads: 9\n"
        ));
        assert_eq!(found, "");
        for (more, expected) in [
            (
                ACTS.replace("act\n", "paced\n"),
                "(arrival: paced); evenly spaced operations favour a drive",
            ),
            (
                format!("{ACTS}record-bytes: 512\n"),
                "record-bytes is 512, and 1536 in published ratings",
            ),
            (
                format!("{ACTS}tomb-raider: yes\n"),
                "tomb-raider is yes, and no in published ratings",
            ),
            (ACTS.replace("30000", "29999"), "two reads to a write"),
        ] {
            assert!(why(&more).contains(expected), "{more}{}", why(&more));
        }
        let index = parsed(
            Test::Index,
            "read-reqs-per-sec: 2000\nwrite-reqs-per-sec: 1000\narrival: act\n",
        );
        assert_eq!(index.times_1x(), None);
        assert!(index.not_comparable().is_some());
        assert_eq!(parsed(Test::Storage, ACTS).times_1x(), Some(30.0));
    }
}
