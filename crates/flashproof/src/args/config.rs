//! The options of `flashproof size config`.

use clap::Args;
use engine::sim::size_bytes;
use jiff::{Span, SpanRelativeTo};
use load::factor::Factor;
use load::workload::act::options::Test;
use std::path::PathBuf;

pub(super) const EXAMPLES: &str = "\
Examples:
  flashproof size config                                         asks, as act_config_helper.py did
  flashproof size config --device /dev/sdb,/dev/sdc --load 30 --out test.conf
  flashproof size config --device /dev/sdb --reads 5000 --writes 0 --duration 1h
  flashproof size config --device /dev/nvme0n1 --load 30 --set update-pct=10
  flashproof size config old.conf --out today.conf    a file of any ACT, in today's terms
  flashproof size config --scale 1.5 test.conf --out heavier.conf
  flashproof size config --device x --load 30 --capacity 3.84TB --dwpd 1    only what it means

Nothing is opened for writing but FILE. Devices that are not here are counted by their names. What the load
means goes to standard error and into the file.";

/// Options of the writer of configurations.
#[derive(Args, Debug, Default)]
pub struct ConfigArgs {
    /// A configuration to start from, of any ACT from 1 to 6 or of flashproof; "-" reads standard input
    #[arg(value_name = "CONFIG", group = "source")]
    pub config: Option<PathBuf>,
    /// The same as CONFIG
    #[arg(long, value_name = "CONFIG", group = "source")]
    pub from: Option<PathBuf>,
    /// The test to configure [default: storage, or what CONFIG is for]
    #[arg(long, value_name = "TEST", value_parser = test)]
    pub model: Option<Test>,
    /// A device, partition, file or simulated drive; may be repeated, or several joined by commas
    #[arg(long, value_name = "DEVICE", value_delimiter = ',')]
    pub device: Vec<String>,
    /// N times 2000 reads and 1000 writes a second for each drive; partitions of one drive count once
    #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = clap::value_parser!(Factor))]
    pub load: Option<Factor>,
    /// Reads a second, over all devices
    #[arg(long, value_name = "RATE", conflicts_with = "load", allow_hyphen_values = true)]
    pub reads: Option<String>,
    /// Writes a second, over all devices
    #[arg(long, value_name = "RATE", conflicts_with = "load", allow_hyphen_values = true)]
    pub writes: Option<String>,
    /// How long the test runs: 24h, 90m, or a number of seconds [default: 24h]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = seconds)]
    pub duration: Option<u32>,
    /// Size of a record
    #[arg(long, value_name = "BYTES", allow_hyphen_values = true)]
    pub record_bytes: Option<String>,
    /// Any other key of the configuration; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_and_value)]
    pub set: Vec<(String, String)>,
    /// Multiply every rate; shares and sizes stay
    #[arg(long, value_name = "FACTOR", allow_hyphen_values = true, value_parser = clap::value_parser!(Factor))]
    pub scale: Option<Factor>,
    /// Read CONFIG as the ACT of this number would have [default: by its keys]
    #[arg(long, value_name = "1-6", requires = "source", value_parser = clap::value_parser!(u8).range(1..=6))]
    pub act: Option<u8>,
    /// CPUs of the machine on which CONFIG ran, where its defaults depended on them
    #[arg(long, value_name = "N", requires = "source", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub cpus: Option<u32>,
    /// Size of each drive that cannot be asked, for the drive writes a day
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true, value_parser = capacity)]
    pub capacity: Option<u64>,
    /// Drive writes a day for which the drives are rated, to compare with
    #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = rated)]
    pub dwpd: Option<f64>,
    /// Ask for what is not given, even when standard input is no terminal
    #[arg(long, conflicts_with_all = ["config", "from"])]
    pub ask: bool,
    /// Write to this file instead of standard output
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Replace the file if it is there
    #[arg(long, requires = "out")]
    pub force: bool,
}

fn test(text: &str) -> Result<Test, String> {
    Test::named(text).ok_or_else(|| format!("no such test - give {}", Test::ALL.map(Test::name).join(" or ")))
}

/// A time span as whole seconds: `24h`, `1h 30m`, `5400`.
pub fn seconds(text: &str) -> Result<u32, String> {
    let expected = "give something like 24h, 90m or 3600 (seconds)";
    let seconds = match text.trim().parse::<u64>() {
        Ok(seconds) => seconds,
        Err(_) => {
            let span =
                text.trim().parse::<Span>().and_then(|span| span.to_duration(SpanRelativeTo::days_are_24_hours()));
            let span = span.map_err(|_| format!("that is no time - {expected}"))?;
            if span.subsec_nanos() != 0 {
                return Err(format!("only whole seconds are counted - {expected}"));
            }
            u64::try_from(span.as_secs()).map_err(|_| format!("a time is not below 0 - {expected}"))?
        }
    };
    match u32::try_from(seconds) {
        Ok(0) => Err(format!("that is no time at all - {expected}")),
        Ok(seconds) => Ok(seconds),
        Err(_) => Err(format!("{seconds} s is longer than {} s, the most that is counted - {expected}", u32::MAX)),
    }
}

fn key_and_value(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("no = in it - give KEY=VALUE, such as defrag-lwm-pct=60")?;
    Ok((key.trim().to_owned(), value.trim().to_owned()))
}

fn capacity(text: &str) -> Result<u64, String> {
    size_bytes(text).filter(|bytes| *bytes > 0).ok_or_else(|| "give a size such as 3.84TB or 512GiB".to_owned())
}

fn rated(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number: &f64| number.is_finite() && *number > 0.0);
    number.ok_or_else(|| "give a number above 0, such as 1 or 0.3".to_owned())
}

#[cfg(test)]
mod tests {
    use super::seconds;

    #[test]
    fn a_time_is_a_number_of_seconds_or_has_units() {
        for (text, sec) in
            [("3600", 3_600), ("24h", 86_400), ("1h 30m", 5_400), ("2d", 172_800), ("1w", 604_800), ("90 min", 5_400)]
        {
            assert_eq!(seconds(text), Ok(sec), "{text}");
        }
        for (text, why) in [
            ("0", "no time at all"),
            ("-5m", "not below 0"),
            ("1500ms", "only whole seconds"),
            ("1d2x", "that is no time"),
            ("1y", "that is no time"),
            ("", "that is no time"),
            ("4294967296", "longer than"),
        ] {
            assert!(seconds(text).unwrap_err().contains(why), "{text}: {:?}", seconds(text));
        }
    }
}
