//! Options of `flashproof size config`.

use act::options::Test;
use clap::Args;
use engine::sim::size_bytes;
use load::factor::Factor;
use results::format::seconds;
use std::convert::Infallible;
use std::path::PathBuf;

#[derive(Args, Debug, Clone, Default)]
pub struct ConfigArgs {
    /// Configuration to start from, of any ACT version from 1 to 6 or of flashproof; "-" reads standard input
    #[arg(value_name = "CONFIG", group = "source")]
    pub config: Option<PathBuf>,
    /// The same as CONFIG
    #[arg(long, value_name = "CONFIG", group = "source")]
    pub from: Option<PathBuf>,
    /// Test to configure [default: storage, or the test of CONFIG]
    #[arg(long, value_name = "TEST", value_parser = test)]
    pub model: Option<Test>,
    /// A device, partition, file or simulated drive; may be repeated, or several joined by commas
    #[arg(long, value_name = "DEVICE", value_delimiter = ',', value_parser = trimmed)]
    pub device: Vec<String>,
    /// Load: N times 2000 reads and 1000 writes per second for each drive; partitions of one drive count once
    #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = clap::value_parser!(Factor))]
    pub load: Option<Factor>,
    /// Reads per second, over all devices
    #[arg(
        long,
        value_name = "RATE",
        conflicts_with = "load",
        allow_hyphen_values = true
    )]
    pub reads: Option<String>,
    /// Writes per second, over all devices
    #[arg(
        long,
        value_name = "RATE",
        conflicts_with = "load",
        allow_hyphen_values = true
    )]
    pub writes: Option<String>,
    /// Reads and writes per second for each drive: only an answer in the dialogue gives them.
    #[arg(skip)]
    pub per_drive: Option<(u32, u32)>,
    /// Length of the test: 24h, 90m, or a number of seconds [default: 24h]
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
    /// Read CONFIG by the rules of this ACT version [default: recognised by the keys]
    #[arg(long, value_name = "1-6", requires = "source", value_parser = clap::value_parser!(u8).range(1..=6))]
    pub act: Option<u8>,
    /// CPUs of the machine on which CONFIG ran, if its defaults depended on them
    #[arg(long, value_name = "N", requires = "source", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub cpus: Option<u32>,
    /// Size of each drive that cannot be queried, to compute its drive writes per day
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true, value_parser = capacity)]
    pub capacity: Option<u64>,
    /// Rated drive writes per day of the drives, for comparison
    #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = rated)]
    pub dwpd: Option<f64>,
    /// Ask for missing values, even if standard input is not a terminal
    #[arg(long, conflicts_with_all = ["config", "from"])]
    pub ask: bool,
    /// Write to this file instead of standard output
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Replace an existing file
    #[arg(long, requires = "out")]
    pub force: bool,
}

/// Removes blanks, which may stand beside the commas of a list.
fn trimmed(text: &str) -> Result<String, Infallible> {
    Ok(text.trim().to_owned())
}

fn test(text: &str) -> Result<Test, String> {
    Test::named(text).ok_or_else(|| {
        format!(
            "no such test - give {}",
            Test::ALL.map(Test::name).join(" or ")
        )
    })
}

fn key_and_value(text: &str) -> Result<(String, String), String> {
    let (key, value) = text
        .split_once('=')
        .ok_or("\"=\" is missing - give KEY=VALUE, such as defrag-lwm-pct=60")?;
    Ok((key.trim().to_owned(), value.trim().to_owned()))
}

fn capacity(text: &str) -> Result<u64, String> {
    size_bytes(text)
        .filter(|bytes| *bytes > 0)
        .ok_or_else(|| "give a size such as 3.84TB or 512GiB".to_owned())
}

fn rated(text: &str) -> Result<f64, String> {
    let number = text
        .parse()
        .ok()
        .filter(|number: &f64| number.is_finite() && *number > 0.0);
    number.ok_or_else(|| "give a number above 0, such as 1 or 0.3".to_owned())
}
