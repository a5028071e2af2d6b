//! The configuration as ACT 6.6 prints it in its log, and as a file that parses back.
//!
//! The printed values use ACT's arithmetic, truncation and doubles included, so that logs can be compared to the digit.
//! The load that runs is [`Derived`], which is exact.

use super::config::ActConfig;
use super::options::{OptionDefault, OptionSpec, Since};
use super::rates::{Derived, StorageDerived};
use super::table::options_of;

/// The lines of ACT's CONFIGURATION block, key and value, in ACT's order.
///
/// `service-threads` shows the default if none were given. A caller that chose another number passes a copy of the
/// configuration with that number. `file-size-mbytes` is shown only if given.
pub fn configuration(config: &ActConfig) -> Vec<(String, String)> {
    let mut lines = Vec::new();
    for spec in options_of(config.test).filter(|spec| spec.since == Since::Act66) {
        match config.text(spec.name) {
            Some(value) => lines.push((spec.name.to_owned(), value)),
            None if spec.name == "service-threads" => {
                lines.push((
                    spec.name.to_owned(),
                    config.service_threads_or_default().to_string(),
                ));
            }
            None => {}
        }
        if spec.name == "device-names" {
            lines.push((
                "num-devices".to_owned(),
                config.device_names.len().to_string(),
            ));
        }
    }
    lines
}

/// The lines of ACT's DERIVED CONFIGURATION block, key and value, in ACT's order.
///
/// Units: operations per second over all devices. Record rates are rounded down, large-block rates to two decimals.
/// ACT's 32-bit integers wrap; these values do not.
pub fn derived(config: &ActConfig, derived: &Derived) -> Vec<(String, String)> {
    let lines = match derived {
        Derived::Storage(derived) => {
            let (reads, writes) = large_blocks_as_act_computes(config, derived);
            let stored = format!(
                "{} ... {}",
                derived.record_stored_bytes_min, derived.record_stored_bytes_max
            );
            vec![
                ("record-stored-bytes", stored),
                (
                    "internal-read-reqs-per-sec",
                    derived.read_rate.per_sec_floor().to_string(),
                ),
                (
                    "internal-write-reqs-per-sec",
                    derived.commit_write_rate.per_sec_floor().to_string(),
                ),
                ("large-block-reads-per-sec", format!("{reads:.2}")),
                ("large-block-writes-per-sec", format!("{writes:.2}")),
            ]
        }
        Derived::Index(derived) => vec![
            (
                "service-thread-reads-per-sec",
                derived.service_read_rate.per_sec_floor().to_string(),
            ),
            (
                "cache-thread-reads-and-writes-per-sec",
                updates_as_act_computes(config).to_string(),
            ),
        ],
    };
    lines
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value))
        .collect()
}

/// Page updates per second, computed in doubles and truncated. If the exact rate is a whole number, the last bit of the
/// double decides between this number and the number below it.
fn updates_as_act_computes(config: &ActConfig) -> u64 {
    (config.replicated_writes() as f64 * (100.0 / f64::from(100 - config.defrag_lwm_pct))) as u64
}

/// Large-block reads and writes per second, computed in doubles and in ACT's order of arithmetic.
///
/// Histogram loads, which no ACT supports, get the exact rates. If an exact rate is halfway between two decimals, the
/// last bit of the double decides in which direction it is rounded.
fn large_blocks_as_act_computes(config: &ActConfig, derived: &StorageDerived) -> (f64, f64) {
    if config.has_histograms() {
        return (
            derived.large_block_read_rate.per_sec_f64(),
            derived.large_block_write_rate.per_sec_f64(),
        );
    }
    let original = config.replicated_writes() as f64 / f64::from(derived.records_per_large_block);
    let amplification = 100.0 / f64::from(100 - config.defrag_lwm_pct);
    let overall = original * amplification;
    let writes = if config.commit_to_device {
        original * (amplification - 1.0)
    } else {
        overall
    };
    let reads = if config.no_defrag_reads { 0.0 } else { overall };
    (reads, writes)
}

/// The lines of flashproof's own FLASHPROOF SETTINGS block: key and value of every setting that ACT 6.6 does not print.
/// A seed that has not been chosen yet is left out. The keys of histogram loads appear only in histogram loads.
///
/// ACT's analysis script looks for lines that begin with `ACT version`, `report-interval-sec`,
/// `microsecond-histograms`, `DERIVED CONFIGURATION`, `HISTOGRAM NAMES` and `after`. No line here begins with these.
pub fn settings(config: &ActConfig) -> Vec<(String, String)> {
    let is_shown = |spec: &&OptionSpec| config.has_histograms() || !spec.is_of_histograms();
    let own = options_of(config.test).filter(|spec| spec.since != Since::Act66);
    own.filter(is_shown)
        .filter_map(|spec: &OptionSpec| {
            let value = config
                .text(spec.name)
                .or(spec.unset_word().map(str::to_owned));
            Some((spec.name.to_owned(), value?))
        })
        .collect()
}

/// All three blocks as one text, each with its title and a blank line at its end.
pub fn blocks(config: &ActConfig, rates: &Derived) -> String {
    let blocks = [
        (config.test.configuration_title(), configuration(config)),
        ("DERIVED CONFIGURATION", derived(config, rates)),
        ("FLASHPROOF SETTINGS", settings(config)),
    ];
    blocks
        .map(|(title, lines): (&str, Vec<(String, String)>)| {
            let lines: String = lines
                .iter()
                .map(|(key, value)| format!("\n{key}: {value}"))
                .collect();
            format!("{title}{lines}\n\n")
        })
        .concat()
}

/// A file that [`parse`](super::parse::parse) reads back to an equal configuration, for every configuration that
/// [`check`](super::check()) lets through. ACT 6.6 can read it too, if all of its settings are ACT's.
pub fn to_text(config: &ActConfig) -> String {
    let mut text = String::new();
    for spec in options_of(config.test) {
        let Some(value) = config.text(spec.name) else {
            continue;
        };
        let is_default = matches!(spec.default, OptionDefault::Value(default) if default == value);
        if spec.since == Since::Act66 || !is_default {
            text += &format!("{}: {value}\n", spec.name);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Test;
    use crate::parse::parse;
    use crate::rates::derive;
    use load::choice::Arrival;
    use results::testing::modified;

    fn config() -> ActConfig {
        ActConfig {
            device_names: vec!["sim:capacity=1GiB+seed=2".parse().unwrap()],
            test_duration_sec: 60,
            read_reqs_per_sec: 2000,
            ..ActConfig::default()
        }
    }

    #[test]
    fn flashproofs_settings_are_shown_with_the_values_in_force() {
        let config = ActConfig {
            arrival: Arrival::Act,
            seed: Some(0),
            ..config()
        };
        let shown = settings(&config);
        let shown: Vec<_> = shown
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_str()))
            .collect();
        let expected = [
            ("commit-min-bytes", "0"),
            ("arrival", "act"),
            ("pacing", "sleep"),
            ("engine", "auto"),
            ("seed", "0"),
            ("large-block-concurrency", "1"),
            ("shards", "0"),
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn flashproofs_settings_have_no_line_that_acts_analysis_script_searches_for() {
        let marks = [
            "ACT version",
            "report-interval-sec",
            "microsecond-histograms",
            "DERIVED",
            "HISTOGRAM",
            "after ",
        ];
        for (key, value) in settings(&ActConfig {
            seed: Some(1),
            shards: Some(2),
            ..config()
        }) {
            assert!(
                marks.iter().all(|mark| !key.starts_with(mark))
                    && !value.ends_with("CONFIGURATION"),
                "{key}"
            );
        }
    }

    #[test]
    fn the_echo_has_acts_configuration_then_derived_values_then_flashproof_settings() {
        let text = blocks(&config(), &derive(&config()).unwrap());
        assert!(text.starts_with(
            "ACT-STORAGE CONFIGURATION\ndevice-names: sim:capacity=1GiB+seed=2\nnum-devices: 1\n"
        ));
        assert!(text.contains(
            "\nmax-lag-sec: 10\n\nDERIVED CONFIGURATION\nrecord-stored-bytes: 1536 ... 1536\n"
        ));
        assert!(text.contains(
            "\nlarge-block-writes-per-sec: 0.00\n\nFLASHPROOF SETTINGS\ncommit-min-bytes: 0\n"
        ));
        assert!(text.ends_with("\nshards: 0\n\n"));
    }

    #[test]
    fn the_file_size_is_echoed_only_when_it_is_set() {
        let has = |config: &ActConfig| {
            configuration(config)
                .iter()
                .any(|(key, _)| key == "file-size-mbytes")
        };
        assert!(!has(&config()));
        assert!(has(&modified(config(), |it| it.file_size_mbytes = Some(64))));
    }

    #[test]
    fn a_rate_halfway_between_two_decimals_is_rounded_as_in_act() {
        // A block has 131072 / 1024 = 128 records, and nothing is defragmented.
        // 16 writes/s are exactly 0.125 blocks/s, which C's printf rounds to even.
        let half = ActConfig {
            write_reqs_per_sec: 16,
            record_bytes: 1024,
            defrag_lwm_pct: 0,
            ..config()
        };
        let lines = derived(&half, &derive(&half).unwrap());
        assert_eq!(lines[3].1, "0.12");
        let half = modified(half, |it| it.write_reqs_per_sec = 48);
        assert_eq!(derived(&half, &derive(&half).unwrap())[3].1, "0.38");
    }

    #[test]
    fn a_configuration_written_as_text_parses_to_the_same_configuration() {
        let text = to_text(&config());
        assert_eq!(
            parse(Test::Storage, "written", text.as_bytes())
                .unwrap()
                .config,
            config()
        );
        assert!(!text.contains("arrival"), "ACT can read it");
    }

    #[test]
    fn page_updates_per_second_are_truncated_to_a_whole_number_as_in_act() {
        let thirds = ActConfig {
            write_reqs_per_sec: 1000,
            defrag_lwm_pct: 40,
            ..ActConfig::new(Test::Index)
        };
        assert_eq!(updates_as_act_computes(&thirds), 1666);
    }
}
