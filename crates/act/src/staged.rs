//! The load of a series of runs: 1x is a configuration; each run has a multiple of this load, on some of the devices.
//!
//! ```text
//! ACT's 1x for each device \
//!                           > 1x on n devices --at(factor, k of them)--> factor * k/n of every rate
//! a file, all its devices  /
//! ```
//! The load of 1x is on *all* devices that the configuration names, so a device gets the same load alone as together
//! with others. Bounds on operations in flight over all devices scale with the number of devices only.

use super::config::ActConfig;
use super::echo::to_text;
use super::problem::ConfigProblem;
use super::scale::{READS_PER_SEC_1X, WRITES_PER_SEC_1X, scale};
use super::table::options_of;
use super::workload::ActWorkload;
use engine::DeviceName;
use load::choice::Arrival;
use load::factor::Factor;
use load::workload::RunSpec;

const BOUNDS: [&str; 2] = ["service-threads", "cache-threads"];

/// Keys that determine how a load is issued and reported.
const ISSUE_KEYS: [&str; 8] = [
    "arrival",
    "test-duration-sec",
    "report-interval-sec",
    "microsecond-histograms",
    "pacing",
    "engine",
    "seed",
    "shards",
];

/// The load of one run of a series.
#[derive(Debug, Clone)]
pub struct StagedLoad {
    pub workload: ActWorkload,
    /// Configuration as a file.
    pub text: String,
    /// Rates that had to be rounded, each a sentence.
    pub rounded: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BaseLoad {
    /// The load on the devices of the series.
    config: ActConfig,
    /// The load as given, on its own devices: the rates of a run are computed from it, so they are rounded only once.
    given_config: ActConfig,
}

impl BaseLoad {
    /// ACT's own load of 1x, 2,000 reads and 1,000 writes per second on each of `devices`, paced by `arrival`.
    pub fn of_act(devices: &[DeviceName], arrival: Arrival) -> Self {
        let count = devices.len() as u64;
        let total_rate = |rate: u64| u32::try_from(rate.saturating_mul(count)).unwrap_or(u32::MAX);
        let config = ActConfig {
            device_names: devices.to_vec(),
            test_duration_sec: 1,
            read_reqs_per_sec: total_rate(READS_PER_SEC_1X),
            write_reqs_per_sec: total_rate(WRITES_PER_SEC_1X),
            arrival,
            ..ActConfig::default()
        };
        Self {
            given_config: config.clone(),
            config,
        }
    }

    /// The load of `config`, on `devices` if there are any, else on its own devices. Each device gets the load of one
    /// device of `config`. Errors: rates that cannot be multiplied, each a sentence.
    pub fn of_config(config: ActConfig, devices: &[DeviceName]) -> Result<Self, Vec<String>> {
        let own_devices = config.device_names.len();
        let mut base = Self {
            given_config: config.clone(),
            config,
        };
        if !devices.is_empty() {
            scale_to_devices(&mut base.config, Factor::ONE, devices.len(), own_devices)?;
            base.config.device_names = devices.to_vec();
        }
        Ok(base)
    }

    pub fn config(&self) -> &ActConfig {
        &self.config
    }

    /// Run parameters, at the load of 1x.
    pub fn spec(&self) -> RunSpec {
        self.config.spec()
    }

    pub fn set_duration(&mut self, seconds: u32) {
        (
            self.config.test_duration_sec,
            self.given_config.test_duration_sec,
        ) = (seconds, seconds);
    }

    pub fn set_report_interval(&mut self, seconds: u32) {
        (
            self.config.report_interval_sec,
            self.given_config.report_interval_sec,
        ) = (seconds, seconds);
    }

    /// Errors: rates that cannot be multiplied, each a sentence.
    pub fn multiplied(&self, factor: Factor, devices: &[usize]) -> Result<StagedLoad, Vec<String>> {
        let names = &self.config.device_names;
        let device_names: Vec<_> = devices
            .iter()
            .filter_map(|device| names.get(*device).cloned())
            .collect();
        let mut config = self.given_config.clone();
        let rounded = scale_to_devices(
            &mut config,
            factor,
            device_names.len(),
            self.given_config.device_names.len(),
        )?;
        config.device_names = device_names;
        let text = to_text(&config);
        let sentences = |problems: Vec<ConfigProblem>| {
            problems.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let workload = ActWorkload::from_config(config).map_err(sentences)?;
        Ok(StagedLoad {
            workload,
            text,
            rounded,
        })
    }

    /// True if the load of 1x is the load of published ratings. How the load is issued and reported does not matter.
    pub fn is_standard(&self) -> bool {
        let load = &self.given_config;
        let act = Self::of_act(&load.device_names, Arrival::Paced).given_config;
        let is_same = |key: &str| ISSUE_KEYS.contains(&key) || load.text(key) == act.text(key);
        let is_open = matches!(load.arrival, Arrival::Paced | Arrival::Act);
        is_open && load.test == act.test && options_of(act.test).all(|spec| is_same(spec.name))
    }

    pub fn is_paced_as_published(&self) -> bool {
        self.config.arrival == Arrival::Act
    }

    pub fn to_text(&self) -> String {
        to_text(&self.config)
    }
}

/// Multiplies all rates by `factor` x `devices` / `base_devices`, and bounds on operations in flight by `devices` /
/// `base_devices` only.
fn scale_to_devices(
    config: &mut ActConfig,
    factor: Factor,
    devices: usize,
    base_devices: usize,
) -> Result<Vec<String>, Vec<String>> {
    let device_factor = factor
        .share(devices as u64, base_devices as u64)
        .map_err(|error| vec![error.to_string()])?;
    let scaled = scale(config, device_factor)?;
    for key in BOUNDS.into_iter().filter(|_| devices != base_devices) {
        if let Some(bound) = config.number(key) {
            let spread = (u128::from(bound) * devices as u128)
                .div_ceil((base_devices as u128).max(1))
                .max(1);
            config
                .set(key, &spread.to_string())
                .map_err(|problem| vec![problem.to_string()])?;
        }
    }
    let rounded = scaled.iter().filter(|rate| rate.rounded.is_some());
    Ok(rounded
        .map(|rate| format!("{}: {rate}", rate.key))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Test;
    use crate::parse::parse;

    fn names(count: usize) -> Vec<DeviceName> {
        (0..count)
            .map(|n| DeviceName::Path(format!("/dev/d{n}")))
            .collect()
    }

    fn parsed(text: &str) -> ActConfig {
        parse(Test::Storage, "my.conf", text.as_bytes())
            .unwrap()
            .config
    }

    fn rates(load: &StagedLoad) -> (u32, u32) {
        let config = load.workload.config();
        (config.read_reqs_per_sec, config.write_reqs_per_sec)
    }

    fn factor(text: &str) -> Factor {
        text.parse().unwrap()
    }

    #[test]
    fn a_device_gets_60000_reads_and_30000_writes_at_30x_alone_or_with_other_devices() {
        let mut base = BaseLoad::of_act(&names(3), Arrival::Paced);
        base.set_duration(86_400);
        let alone = base.multiplied(factor("30"), &[1]).unwrap();
        assert_eq!(rates(&alone), (60_000, 30_000));
        assert_eq!(
            alone.workload.config().device_names,
            [DeviceName::Path("/dev/d1".into())]
        );
        assert_eq!(alone.workload.config().test_duration_sec, 86_400);
        let found = rates(&base.multiplied(factor("60"), &[0, 1, 2]).unwrap());
        assert_eq!(found, (360_000, 180_000));
        assert!(base.is_standard());
    }

    #[test]
    fn rates_of_a_configuration_count_as_1x_for_all_its_devices_together() {
        let text = "device-names: /dev/a /dev/b\ntest-duration-sec: 60\nread-reqs-per-sec: 1000\nservice-threads: 9\n";
        let base = BaseLoad::of_config(parsed(text), &[]).unwrap();
        let alone = base.multiplied(factor("3"), &[0]).unwrap();
        assert_eq!(rates(&alone), (1_500, 0));
        assert_eq!(alone.workload.config().service_threads, Some(5));
        let both = base.multiplied(factor("3"), &[0, 1]).unwrap();
        assert_eq!(rates(&both), (3_000, 0));
        assert_eq!(both.workload.config().service_threads, Some(9));
        assert!(!base.is_standard());
    }

    #[test]
    fn each_device_given_in_place_of_those_of_the_file_gets_the_load_of_one_device() {
        let text = "device-names: /dev/a\ntest-duration-sec: 60\nread-reqs-per-sec: 2000\nwrite-reqs-per-sec: 1000\n";
        let base = BaseLoad::of_config(parsed(text), &names(3)).unwrap();
        assert_eq!(base.config().device_names, names(3));
        let found = rates(&base.multiplied(factor("1"), &[0, 1, 2]).unwrap());
        assert_eq!(found, (6_000, 3_000));
        assert!(base.is_standard(), "ACT's own file, on more devices");
    }

    #[test]
    fn a_load_that_differs_from_acts_is_recognised() {
        let acts = "device-names: /dev/a\ntest-duration-sec: 60\nread-reqs-per-sec: 2000\nwrite-reqs-per-sec: 1000\n";
        let is_acts = |more: &str| {
            BaseLoad::of_config(parsed(&format!("{acts}{more}")), &[])
                .unwrap()
                .is_standard()
        };
        for same in [
            "",
            "arrival: act\n",
            "report-interval-sec: 10\nseed: 7\npacing: spin\n",
        ] {
            assert!(is_acts(same), "{same}");
        }
        for other in [
            "record-bytes: 3000\n",
            "arrival: poisson\n",
            "service-threads: 40\n",
            "commit-to-device: yes\n",
        ] {
            assert!(!is_acts(other), "{other}");
        }
    }

    #[test]
    fn rounded_rates_are_noted_and_impossible_rates_are_refused() {
        let text = "device-names: /dev/a /dev/b\ntest-duration-sec: 60\nread-reqs-per-sec: 5\n";
        let base = BaseLoad::of_config(parsed(text), &[]).unwrap();
        let load = base.multiplied(factor("1"), &[0]).unwrap();
        assert_eq!(rates(&load), (3, 0));
        assert_eq!(
            load.rounded,
            ["read-reqs-per-sec: was 5, is 3, rounded from 2.5: rates are whole numbers"]
        );
        let errors = base.multiplied(factor("0.01"), &[0]).unwrap_err();
        assert!(
            errors[0].starts_with("read-reqs-per-sec: 0.005 x 5 is 0.025 per second"),
            "{errors:?}"
        );
    }

    #[test]
    fn rates_are_rounded_once_and_not_before_they_are_multiplied() {
        let text = "device-names: /dev/a /dev/b\ntest-duration-sec: 60\nread-reqs-per-sec: 5\n";
        let load = BaseLoad::of_config(parsed(text), &names(1))
            .unwrap()
            .multiplied(factor("30"), &[0])
            .unwrap();
        assert_eq!(rates(&load), (75, 0));
        assert_eq!(load.rounded, [""; 0], "30 times 2.5");
        let text = "device-names: /dev/a /dev/b\ntest-duration-sec: 60\nread-reqs-per-sec: 3999\nwrite-reqs-per-sec: 2000\n";
        assert!(
            !BaseLoad::of_config(parsed(text), &names(1))
                .unwrap()
                .is_standard(),
            "1,999.5 reads a second"
        );
    }

    #[test]
    fn the_text_of_a_stage_parses_to_the_same_configuration() {
        let load = BaseLoad::of_act(&names(2), Arrival::Paced)
            .multiplied(factor("2"), &[0, 1])
            .unwrap();
        let again = ActWorkload::from_config(parsed(&load.text)).unwrap();
        assert_eq!(again, load.workload);
    }
}
