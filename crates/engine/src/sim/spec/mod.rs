//! The text form of a simulated drive: `sim:capacity=64GiB+channels=16+read-us=80`, or with an FTL
//! `sim:ftl+capacity=64GiB+op=7%` (parameters in `ftl.rs`).
//!
//! Parameters are joined with `+`, because commas and spaces separate devices in ACT's configuration files.

mod ftl;

pub use ftl::{Flash, FtlDrive};

use ftl::FTL_NAMES;
use results::format::quoted;
use std::ops::{Range, RangeInclusive};
use std::str::FromStr;
use sys::random::Random;
use thiserror::Error;

/// Prefix of the description of a simulated drive.
pub const SIM_PREFIX: &str = "sim:";

/// Description of a simulated drive.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct DriveSpec {
    /// Size of the drive, bytes.
    pub capacity_bytes: u64,
    /// Smallest operation, a power of two from 512 to 4096 bytes.
    pub min_io_bytes: u32,
    /// Operations served in parallel.
    pub channels: u32,
    /// Service time of a read on a channel, before the transfer.
    pub read_ns: u64,
    /// Service time of a write on a channel, before the transfer.
    pub write_ns: u64,
    /// Read bandwidth of the whole drive, kB/s (1,000 bytes); 0: unlimited.
    pub read_kbps: u64,
    /// Write bandwidth of the whole drive, kB/s; 0: unlimited.
    pub write_kbps: u64,
    /// Reads per second of the whole drive; 0: unlimited.
    pub read_iops: u64,
    /// Writes per second of the whole drive; 0: unlimited.
    pub write_iops: u64,
    /// If above 0, limits apply per window of this length, as in cloud volumes and cgroups: operations within the limit
    /// run at full speed, the others wait for the next window. Unused capacity of a window is lost.
    pub window_ns: u64,
    /// Service times vary uniformly by up to this percentage in both directions.
    pub jitter_pct: u32,
    /// Stalls of the whole drive.
    pub stalls: StallSpec,
    /// Fraction of operations that fail with EIO, in [0, 1].
    pub error_rate: f64,
    /// Operations that touch these bytes fail with EIO.
    pub bad_range: Option<Range<u64>>,
    /// Instant from which service times are multiplied by `slow_factor`; `None`: never.
    pub slow_after_ns: Option<u64>,
    /// Factor on service times from `slow_after_ns` on.
    pub slow_factor: f64,
    /// Instant from which the drive is gone, and operations fail with ENODEV.
    pub gone_at_ns: Option<u64>,
    /// The drive's own seed; `None`: the seed of the run.
    pub seed: Option<u64>,
    /// FTL model; `None`: queueing model. The flash of an FTL model determines times and channels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ftl: Option<FtlDrive>,
}

/// Stalls: the drive freezes, and all work resumes afterwards.
#[derive(Debug, Clone, PartialEq, Default, serde::Serialize)]
pub struct StallSpec {
    /// Length of each stall, nanoseconds.
    pub length_ns: u64,
    /// Stalls begin one period after the start, and then after each further period. A period of 0: no periodic stalls.
    pub every_ns: u64,
    /// Further stalls begin at these instants, ascending.
    pub at_ns: Vec<u64>,
}

impl Default for DriveSpec {
    /// A drive with a typical size and speed of SATA and NVMe drives; not a model of a particular drive.
    fn default() -> Self {
        Self {
            capacity_bytes: 64 << 30,
            min_io_bytes: 512,
            channels: 32,
            read_ns: 80_000,
            write_ns: 25_000,
            read_kbps: 3_000_000,
            write_kbps: 2_000_000,
            read_iops: 0,
            write_iops: 0,
            window_ns: 0,
            jitter_pct: 20,
            stalls: StallSpec::default(),
            error_rate: 0.0,
            bad_range: None,
            slow_after_ns: None,
            slow_factor: 2.0,
            gone_at_ns: None,
            seed: None,
            ftl: None,
        }
    }
}

/// An invalid description of a simulated drive.
#[derive(Debug, Error, PartialEq)]
#[error("cannot simulate {}: {why}", quoted(.spec))]
pub struct DriveSpecError {
    spec: String,
    why: String,
}

/// Parameters of all models.
const NAMES_OF_ALL: &[&str] = &[
    "capacity",
    "min-io",
    "error-rate",
    "bad",
    "gone-at-s",
    "seed",
    "name",
];

/// The word that selects the model with an FTL.
const MODEL: &str = "ftl";

/// Parameters of the queueing model, including those of all models.
const NAMES: &str = "capacity, min-io, channels, read-us, write-us, read-mbps, write-mbps, read-iops, write-iops, window-ms, \
    jitter-pct, stall-ms, stall-every-s, stall-at-s, error-rate, bad, slow-after-s, slow-factor, gone-at-s, seed, name";

impl FromStr for DriveSpec {
    type Err = DriveSpecError;

    fn from_str(text: &str) -> Result<Self, DriveSpecError> {
        Self::parse(text).map_err(|why| DriveSpecError {
            spec: text.into(),
            why,
        })
    }
}

fn unfit(name: &str, value: &str, expected: &str) -> String {
    format!("{name} is {} - give {expected}", quoted(value))
}

impl DriveSpec {
    fn parse(text: &str) -> Result<Self, String> {
        let parameters = text
            .strip_prefix(SIM_PREFIX)
            .ok_or_else(|| format!("its name does not begin with {}", quoted(SIM_PREFIX)))?;
        let mut spec = Self::default();
        let mut given_names = Vec::new();
        let mut names = NAMES;
        let mut remaining = parameters
            .split('+')
            .filter(|_| !parameters.is_empty())
            .peekable();
        if remaining.next_if_eq(&MODEL).is_some() {
            spec.ftl = Some(FtlDrive::default());
            names = FTL_NAMES;
        }
        for parameter in remaining {
            if parameter.is_empty() {
                return Err("a parameter is empty - join parameters by one +, as in sim:channels=4+read-us=400".into());
            }
            if parameter == MODEL {
                return Err(format!(
                    "{MODEL} chooses the model of the drive - begin with sim:{MODEL}"
                ));
            }
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            if !names.split(", ").any(|known| known == name) {
                return Err(format!(
                    "unknown parameter {} - known parameters: {names}",
                    quoted(name)
                ));
            }
            if given_names.contains(&name) {
                return Err(format!("{name} is given twice - give {name} once"));
            }
            given_names.push(name);
            let set_result = match &mut spec.ftl {
                Some(ftl) if !NAMES_OF_ALL.contains(&name) => ftl.set(name, value),
                _ => spec.set(name, value),
            };
            set_result.map_err(|expected| unfit(name, value, expected))?;
        }
        if let Some((name, why, advice)) = spec.without_effect(&given_names) {
            return Err(format!("{name} has no effect {why} - {advice}"));
        }
        spec.check_stalls().map_err(|expected| {
            format!("stall parameters do not fit together - give {expected}")
        })?;
        if let Some(ftl) = &mut spec.ftl {
            ftl.complete(spec.capacity_bytes)
                .map_err(|(name, value, expected)| unfit(name, &value, expected))?;
            ftl.spec.check().map_err(|why| why.to_string())?;
        }
        Ok(spec)
    }

    pub(super) fn is_gone(&self, at_ns: u64) -> bool {
        self.gone_at_ns.is_some_and(|gone_ns| at_ns >= gone_ns)
    }

    /// True if an operation on these bytes fails: in the bad range, or at random.
    pub(super) fn fails(&self, bytes: Range<u64>, random: &mut Random) -> bool {
        let is_bad = self
            .bad_range
            .as_ref()
            .is_some_and(|bad| bytes.start < bad.end && bad.start < bytes.end);
        let is_unlucky = self.error_rate > 0.0 && random.unit() < self.error_rate;
        is_bad || is_unlucky
    }

    /// The first parameter in `given_names` that has no effect, the reason, and advice.
    fn without_effect(
        &self,
        given_names: &[&str],
    ) -> Option<(&'static str, &'static str, &'static str)> {
        if given_names.contains(&"slow-factor") && self.slow_after_ns.is_none() {
            return Some((
                "slow-factor",
                "without slow-after-s",
                "give slow-after-s, the time from which the drive is slow; 0 for always",
            ));
        }
        if self
            .bad_range
            .as_ref()
            .is_some_and(|bad| bad.start >= self.capacity_bytes)
        {
            let advice = "give offsets below capacity, which is 64GiB unless given";
            return Some(("bad", "beyond the end of the drive", advice));
        }
        let unlimited = [
            self.read_kbps,
            self.write_kbps,
            self.read_iops,
            self.write_iops,
        ]
        .iter()
        .all(|limit| *limit == 0);
        if self.window_ns > 0 && unlimited {
            return Some((
                "window-ms",
                "without a limit",
                "give read-iops, write-iops, read-mbps or write-mbps",
            ));
        }
        if given_names.contains(&"op") && given_names.contains(&"op-of-flash") {
            return Some(("op-of-flash", "together with op", "give one of them"));
        }
        None
    }

    /// Stalls need a length and a time, and a stall must end before the next begins.
    fn check_stalls(&self) -> Result<(), &'static str> {
        let StallSpec {
            length_ns,
            every_ns,
            ref at_ns,
        } = self.stalls;
        let timed = every_ns > 0 || !at_ns.is_empty();
        if timed != (length_ns > 0) {
            return Err("stall-ms, and also stall-every-s or stall-at-s");
        }
        if timed && every_ns > 0 && every_ns <= length_ns {
            return Err("a stall-every-s longer than stall-ms");
        }
        if at_ns.windows(2).any(|pair| pair[1] - pair[0] <= length_ns) {
            return Err("times of stall-at-s that are further apart than stall-ms");
        }
        Ok(())
    }

    /// Sets one parameter. Errors: a description of valid values.
    fn set(&mut self, name: &str, value: &str) -> Result<(), &'static str> {
        match name {
            "capacity" => {
                self.capacity_bytes = size_bytes(value)
                    .filter(|n| *n > 0)
                    .ok_or("a size such as 64GiB or 3.84TB")?
            }
            "min-io" => {
                self.min_io_bytes = value
                    .parse()
                    .ok()
                    .filter(|bytes: &u32| bytes.is_power_of_two() && (512..=4096).contains(bytes))
                    .ok_or("512, 1024, 2048 or 4096")?;
            }
            "channels" => {
                self.channels = number(value, 1..=4096).ok_or("a number from 1 to 4096")?
            }
            "read-us" => self.read_ns = nanoseconds(value, 1e3)?,
            "write-us" => self.write_ns = nanoseconds(value, 1e3)?,
            "read-mbps" => self.read_kbps = kilobytes(value)?,
            "write-mbps" => self.write_kbps = kilobytes(value)?,
            "read-iops" => {
                self.read_iops = value
                    .parse()
                    .map_err(|_| "operations per second, 0 for no limit")?
            }
            "write-iops" => {
                self.write_iops = value
                    .parse()
                    .map_err(|_| "operations per second, 0 for no limit")?
            }
            "window-ms" => self.window_ns = nanoseconds(value, 1e6)?,
            "jitter-pct" => {
                self.jitter_pct = number(value, 0..=100).ok_or("a percentage from 0 to 100")?
            }
            "stall-ms" => self.stalls.length_ns = nanoseconds(value, 1e6)?,
            "stall-every-s" => self.stalls.every_ns = nanoseconds(value, 1e9)?,
            "stall-at-s" => {
                let times = value.split('/').map(|time| nanoseconds(time, 1e9));
                self.stalls.at_ns = times
                    .collect::<Result<_, _>>()
                    .map_err(|_| "seconds joined by /, such as 10/25.5")?;
                self.stalls.at_ns.sort_unstable();
            }
            "error-rate" => {
                self.error_rate = number(value, 0.0..=1.0).ok_or("a share from 0 to 1")?
            }
            "bad" => self.bad_range = Some(range(value).ok_or("two offsets such as 1GiB-1.5GiB")?),
            "slow-after-s" => self.slow_after_ns = Some(nanoseconds(value, 1e9)?),
            "slow-factor" => {
                self.slow_factor = value
                    .parse()
                    .ok()
                    .filter(|factor: &f64| *factor > 0.0 && *factor <= 1e6)
                    .ok_or("a factor above 0")?;
            }
            "gone-at-s" => self.gone_at_ns = Some(nanoseconds(value, 1e9)?),
            "seed" => self.seed = Some(value.parse().map_err(|_| "a whole number")?),
            // `name` only distinguishes drives in logs and tables.
            _ if value.is_empty() => return Err("a word"),
            _ => {}
        }
        Ok(())
    }
}

/// Parses megabytes per second, decimals allowed, as kB/s.
fn kilobytes(value: &str) -> Result<u64, &'static str> {
    let kbps = value.parse::<f64>().ok().map(|mbps| (mbps * 1e3).round());
    let fits =
        kbps.filter(|kbps| (0.0..1e15).contains(kbps) && (*kbps > 0.0 || value.parse() == Ok(0.0)));
    fits.map(|kbps| kbps as u64)
        .ok_or("megabytes per second, 0.001 or more, or 0 for no limit")
}

/// Parses a number in units of `unit_ns`. Returns nanoseconds, at most about a century.
fn nanoseconds(value: &str, unit_ns: f64) -> Result<u64, &'static str> {
    let number: f64 = value.parse().map_err(|_| "a number, such as 80 or 0.5")?;
    let ns = number * unit_ns;
    if (0.0..=3e18).contains(&ns) {
        Ok(ns.round() as u64)
    } else {
        Err("a time from 0 to a century")
    }
}

fn range(value: &str) -> Option<Range<u64>> {
    let (start, end) = value.split_once('-')?;
    let range = size_bytes(start)?..size_bytes(end)?;
    (!range.is_empty()).then_some(range)
}

/// Parses bytes: a number with an optional unit KiB MiB GiB TiB KB MB GB TB, at most 1e18 bytes.
pub fn size_bytes(value: &str) -> Option<u64> {
    const UNITS: [(&str, u64); 8] = [
        ("KiB", 1 << 10),
        ("MiB", 1 << 20),
        ("GiB", 1 << 30),
        ("TiB", 1 << 40),
        ("KB", 1_000),
        ("MB", 1_000_000),
        ("GB", 1_000_000_000),
        ("TB", 1_000_000_000_000),
    ];
    let (number, unit) = UNITS
        .iter()
        .find_map(|(name, unit)| Some((value.strip_suffix(name)?, *unit)))
        .unwrap_or((value, 1));
    let size = number.parse::<f64>().ok()? * unit as f64;
    (0.0..=1e18).contains(&size).then_some(size.round() as u64)
}

/// Parses `7%` or `0.07`, above 0. Without `%`, 1 and more is refused: 7 would mean 700 %.
fn share(value: &str) -> Option<f64> {
    let share = match value.strip_suffix('%') {
        Some(percent) => percent.parse::<f64>().ok()? / 100.0,
        None => value.parse().ok().filter(|share| *share < 1.0)?,
    };
    (share > 0.0 && share.is_finite()).then_some(share)
}

fn number<T: FromStr + PartialOrd>(value: &str, range: RangeInclusive<T>) -> Option<T> {
    value.parse().ok().filter(|n| range.contains(n))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drive_without_parameters_has_the_defaults() {
        assert_eq!("sim:".parse(), Ok(DriveSpec::default()));
    }

    #[test]
    fn parameters_are_read_with_their_units() {
        let spec: DriveSpec = "sim:capacity=1.5GiB+channels=4+read-us=90.5+stall-ms=250+stall-at-s=20/10+bad=1MiB-2MiB+error-rate=1e-3+seed=7"
            .parse()
            .unwrap();
        assert_eq!(spec.capacity_bytes, 3 << 29);
        assert_eq!(spec.channels, 4);
        assert_eq!(spec.read_ns, 90_500);
        assert_eq!(spec.seed, Some(7));
        assert_eq!(
            spec.stalls,
            StallSpec {
                length_ns: 250_000_000,
                every_ns: 0,
                at_ns: vec![10_000_000_000, 20_000_000_000]
            }
        );
        assert_eq!(spec.bad_range, Some(1 << 20..2 << 20));
        assert_eq!(spec.error_rate, 1e-3);
    }

    #[test]
    fn an_invalid_parameter_is_named_with_its_value() {
        for case in include_str!("../../../tests/data/mistakes_of_drives.txt")
            .trim_end()
            .split("\n\n")
        {
            let (text, expected) = case.split_once("\n    ").unwrap();
            let said = text.parse::<DriveSpec>().unwrap_err().to_string();
            assert!(said.contains(expected), "{text}: {said}");
        }
        assert!(
            "sim:slow-after-s=0+slow-factor=3+bad=63GiB-65GiB"
                .parse::<DriveSpec>()
                .is_ok()
        );
    }
}
