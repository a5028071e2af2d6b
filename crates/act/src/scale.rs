//! Multiples of an ACT load: sets the load "Nx" for a number of drives, or multiplies every rate of a configuration.
//!
//! A rate is an option whose unit is something per second, unless only its ratio to another option matters. Shares,
//! sizes and times are unchanged. Rates are whole numbers in a file, so rounding is reported.

use super::config::ActConfig;
use super::options::{OptionKind, OptionSpec};
use super::table::options_of;
use load::factor::{Factor, ONE, decimal};
use std::fmt;

/// Reads per second and drive in the load called 1x. Source: ACT's README.
pub const READS_PER_SEC_1X: u64 = 2000;
/// Writes per second and drive in the load called 1x. Source: ACT's README.
pub const WRITES_PER_SEC_1X: u64 = 1000;
/// The keys of a load, with their rates per second and drive at 1x.
pub const LOAD_1X: [(&str, u64); 2] = [
    ("read-reqs-per-sec", READS_PER_SEC_1X),
    ("write-reqs-per-sec", WRITES_PER_SEC_1X),
];
/// Large-block rates of a live database; only their ratio matters, so they are not scaled.
///
/// If they were scaled and rounded separately, their ratio would change, and with it the share of large-block reads:
/// at half the load, 3 of 4 blocks would become 2 of 2. Large blocks follow `write-reqs-per-sec`, which is scaled.
const RATIO_KEYS: [&str; 2] = ["total-lbw-per-sec", "direct-frees"];

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScaledRate {
    pub key: &'static str,
    pub before_per_sec: u64,
    /// Rate after the multiplication, per second: rounded to the nearest whole number, halves up.
    pub after_per_sec: u64,
    /// The exact product, if it is not a whole number.
    pub rounded: Option<String>,
}

impl fmt::Display for ScaledRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "was {}, is {}", self.before_per_sec, self.after_per_sec)?;
        match &self.rounded {
            Some(exact) => write!(f, ", rounded from {exact}: rates are whole numbers"),
            None => Ok(()),
        }
    }
}

/// Multiplies every rate of `config` that is not 0. Returns these rates in the order of the option table.
///
/// Errors: a sentence for each rate that cannot be multiplied; nothing changes then.
pub fn scale(config: &mut ActConfig, factor: Factor) -> Result<Vec<ScaledRate>, Vec<String>> {
    let rates: Vec<_> = options_of(config.test)
        .filter(|spec| is_rate(spec))
        .filter_map(|spec| Some((spec, config.number(spec.name).filter(|rate| *rate > 0)?)))
        .collect();
    set_all(
        config,
        rates.iter().map(|(spec, rate)| times(spec, *rate, factor)),
    )
}

/// Sets the rates of `config` to `factor` times the 1x load of `drives` drives. Result and errors as for [`scale`].
pub fn set_load(
    config: &mut ActConfig,
    factor: Factor,
    drives: u64,
) -> Result<Vec<ScaledRate>, Vec<String>> {
    let specs = options_of(config.test).filter_map(|spec| {
        let (_, rate) = LOAD_1X.iter().find(|(key, _)| *key == spec.name)?;
        Some(times(spec, rate.saturating_mul(drives), factor))
    });
    set_all(config, specs)
}

fn is_rate(spec: &OptionSpec) -> bool {
    spec.unit.ends_with("/s") && !RATIO_KEYS.contains(&spec.name)
}

fn times(spec: &OptionSpec, per_sec: u64, factor: Factor) -> Result<ScaledRate, String> {
    let key = spec.name;
    let product = u128::from(per_sec) * u128::from(factor.billionths);
    let nearest = (product + u128::from(ONE / 2)) / u128::from(ONE);
    let exact = decimal(product);
    let max = match spec.kind {
        OptionKind::Whole { max, .. } => max,
        _ => u64::MAX,
    };
    match u64::try_from(nearest) {
        Ok(0) => Err(format!(
            "{key}: {factor} x {per_sec} is {exact} per second, which is rounded to 0, so the stream would not run - give a \
             larger factor"
        )),
        Ok(to) if to <= max => {
            let rounded = (u128::from(to) * u128::from(ONE) != product).then_some(exact);
            Ok(ScaledRate {
                key,
                before_per_sec: per_sec,
                after_per_sec: to,
                rounded,
            })
        }
        _ => Err(format!(
            "{key}: {factor} x {per_sec} is {exact} per second, but at most {max} can be configured - give a smaller factor"
        )),
    }
}

fn set_all(
    config: &mut ActConfig,
    rates: impl Iterator<Item = Result<ScaledRate, String>>,
) -> Result<Vec<ScaledRate>, Vec<String>> {
    let (scaled, errors): (Vec<_>, Vec<_>) = rates.partition(Result::is_ok);
    if !errors.is_empty() {
        return Err(errors.into_iter().filter_map(Result::err).collect());
    }
    let scaled: Vec<_> = scaled.into_iter().flatten().collect();
    for rate in &scaled {
        // `set` cannot fail here: the range was checked above. A test tries the largest value.
        let _ = config.set(rate.key, &rate.after_per_sec.to_string());
    }
    Ok(scaled)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Test;
    use crate::rates::derive_storage;
    use crate::sizes::SizeHistogram;
    use crate::testing::act_config;

    fn factor(text: &str) -> Factor {
        text.parse().unwrap()
    }

    fn config(reads: u32, writes: u32) -> ActConfig {
        act_config(Test::Storage, reads, writes)
    }

    #[test]
    fn thirty_x_on_two_drives_is_120000_reads_and_60000_writes() {
        let mut config = config(1, 0);
        set_load(&mut config, factor("30"), 2).unwrap();
        assert_eq!(config.number("read-reqs-per-sec"), Some(120_000));
        assert_eq!(config.number("write-reqs-per-sec"), Some(60_000));
    }

    #[test]
    fn scaling_multiplies_every_rate_and_no_other_option() {
        let mut scaled = config(2000, 1000);
        let told = scale(&mut scaled, factor("1.1")).unwrap();
        assert_eq!(scaled, config(2200, 1100));
        let told: Vec<_> = told.iter().map(ToString::to_string).collect();
        assert_eq!(told, ["was 2000, is 2200", "was 1000, is 1100"]);
    }

    #[test]
    fn rounding_is_noted_and_a_rate_of_0_stays() {
        let mut scaled = config(3, 0);
        let told = scale(&mut scaled, factor("1.5")).unwrap();
        assert_eq!(scaled, config(5, 0));
        assert_eq!(
            told[0].to_string(),
            "was 3, is 5, rounded from 4.5: rates are whole numbers"
        );
    }

    #[test]
    fn a_factor_that_rounds_a_rate_to_0_or_overflows_is_refused_and_changes_nothing() {
        let mut scaled = config(2000, 5);
        let errors = scale(&mut scaled, factor("0.09")).unwrap_err();
        assert!(
            errors.len() == 1 && errors[0].contains("is rounded to 0"),
            "{errors:?}"
        );
        assert!(
            errors[0].starts_with("write-reqs-per-sec: 0.09 x 5 is 0.45 per second, which"),
            "{errors:?}"
        );
        let errors = scale(&mut scaled, factor("999999999")).unwrap_err();
        assert!(
            errors.len() == 2 && errors.iter().all(|error| error.contains("at most")),
            "{errors:?}"
        );
        assert_eq!(scaled, config(2000, 5));
        let mut most = config(u32::MAX, 0);
        scale(&mut most, factor("1")).unwrap();
        assert_eq!(most, config(u32::MAX, 0));
        assert!(
            scale(&mut most, factor("1.000000001")).is_err(),
            "4294967299.3"
        );
    }

    #[test]
    fn options_per_second_are_scaled_unless_only_their_ratio_matters() {
        let rates: Vec<_> = options_of(Test::Storage)
            .filter(|spec| is_rate(spec))
            .map(|spec| spec.name)
            .collect();
        assert_eq!(rates, ["read-reqs-per-sec", "write-reqs-per-sec"]);
        for spec in options_of(Test::Storage).filter(|spec| spec.name.ends_with("-per-sec")) {
            assert!(
                rates.contains(&spec.name) || RATIO_KEYS.contains(&spec.name),
                "{}",
                spec.name
            );
        }
    }

    /// 3 of 4 blocks are freed directly, so the fourth is read, however many blocks there are.
    #[test]
    fn scaling_keeps_total_lbw_per_sec_and_scales_large_block_reads_with_the_writes() {
        let histogram =
            SizeHistogram::parse("100,100,100,100,100,100,100,100,100,100,100,0").unwrap();
        let mut scaled = ActConfig {
            record_bytes: 0,
            write_reqs_per_sec: 128_000,
            storage_write_histogram: Some(histogram),
            total_lbw_per_sec: 4,
            direct_frees: 3,
            ..config(0, 0)
        };
        let block_reads = |config: &ActConfig| {
            derive_storage(config)
                .unwrap()
                .large_block_read_rate
                .per_sec_f64()
        };
        let before = block_reads(&scaled);
        assert!(before > 0.0);
        for factor_text in ["0.5", "0.1"] {
            let told = scale(&mut scaled, factor(factor_text)).unwrap();
            let found = told.iter().map(|rate| rate.key).collect::<Vec<_>>();
            assert_eq!(found, ["write-reqs-per-sec"]);
        }
        assert_eq!(scaled.number("direct-frees"), Some(3));
        assert_eq!(scaled.number("total-lbw-per-sec"), Some(4));
        assert!(
            (block_reads(&scaled) / before - 0.05).abs() < 1e-9,
            "{} of {before}",
            block_reads(&scaled)
        );
    }
}
