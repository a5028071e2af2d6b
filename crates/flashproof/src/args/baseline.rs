//! The options of `flashproof baseline`.

use super::SeriesArgs;
use super::config::seconds;
use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use load::baseline::LARGE_BYTES;
use load::workload::fio::{BYTES, parse_number};
use results::baseline::Pts;
use std::path::PathBuf;

/// The shortest form in which everything has its place, seconds.
const QUICK_SEC: u32 = 600;

/// Options of a drive's baseline.
#[derive(Args, Debug)]
pub struct BaselineArgs {
    /// Device to measure (several: all at the same time, each with jobs of its own): ALL that is on it is erased
    #[arg(value_name = "DEVICE", required = true, value_parser = NonEmptyStringValueParser::new())]
    pub devices: Vec<String>,
    /// Time under load: 24h characterises a drive, 6h gives a good idea; each job has a second at least, together about a
    /// minute
    #[arg(long = "duration", value_name = "TIME", default_value = "6h", allow_hyphen_values = true, value_parser = seconds)]
    pub seconds: u32,
    /// In 10 minutes: the same as --duration 10m
    #[arg(long, conflicts_with = "seconds")]
    pub quick: bool,
    /// Sizes of the database's operations, with commas between; depths, rates and grid have the first
    #[arg(long, value_name = "SIZES", default_value = "4k", value_delimiter = ',', value_parser = block_bytes)]
    pub bs: Vec<u64>,
    /// The largest queue depth that is tried, a power of two
    #[arg(long, value_name = "DEPTH", default_value_t = 256, allow_hyphen_values = true, value_parser = depth)]
    pub max_depth: u32,
    /// Read only: nobody is asked, nothing is erased, and a device in use can be measured
    #[arg(long)]
    pub read_only: bool,
    /// Run these tests of SNIA's PTS 2.0.2 instead: iops, throughput, latency, saturation; the whole device is discarded before
    /// each, and written twice but for the last
    #[arg(long, value_name = "TESTS", value_delimiter = ',', value_parser = pts, conflicts_with_all = ["seconds", "quick", "bs", "max_depth", "read_only", "no_prep"])]
    pub pts: Vec<Pts>,
    /// Length of a job of these tests, which is then not SNIA's [default: 60, on simulated drives 2]
    #[arg(long, value_name = "TIME", requires = "pts", allow_hyphen_values = true, value_parser = seconds)]
    pub pts_round: Option<u32>,
    /// Run each profile with the installed fio too, three times each in turns, on the descriptors that are held here: both stand
    /// side by side
    #[arg(long, conflicts_with = "pts")]
    pub cross_check: bool,
    #[command(flatten)]
    pub series: SeriesArgs,
    /// Do not prepare devices; what an empty drive shows is not what it will do in use
    #[arg(long)]
    pub no_prep: bool,
    /// Directory of the series: its state, and a run directory for each job
    /// [default: flashproof-results/baseline-SERIAL-TIME, which the same command finds again]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

impl BaselineArgs {
    /// Time under load, seconds.
    pub fn seconds(&self) -> u64 {
        u64::from(if self.quick { QUICK_SEC } else { self.seconds })
    }
}

/// A size of an operation, as fio takes it.
fn block_bytes(text: &str) -> Result<u64, String> {
    let bytes = parse_number(text, BYTES)?;
    match bytes {
        512..=LARGE_BYTES if bytes.is_multiple_of(512) => Ok(bytes),
        _ => Err(format!("give a multiple of 512 up to {LARGE_BYTES}, such as 4k or 1536")),
    }
}

/// A test of SNIA's.
fn pts(text: &str) -> Result<Pts, String> {
    let test = Pts::ALL.into_iter().find(|test| test.word() == text.trim());
    test.ok_or_else(|| "the tests are iops, throughput, latency and saturation".to_owned())
}

/// A depth of the sweep.
fn depth(text: &str) -> Result<u32, String> {
    let depth = text.trim().parse().ok().filter(|depth: &u32| depth.is_power_of_two() && *depth <= 4_096);
    depth.ok_or_else(|| "give a power of two from 1 to 4096".to_owned())
}

pub(super) const EXAMPLES: &str = "\
Examples:
  flashproof baseline /dev/nvme1n1                      6 hours: saturation, depths, profiles, rates, grid
  flashproof baseline /dev/nvme1n1 --duration 24h            a day, to characterise the drive
  flashproof baseline /dev/nvme1n1 --quick              10 minutes
  flashproof baseline /dev/nvme1n1 --bs 4k,1536         sizes of your database's operations
  flashproof baseline /dev/nvme1n1 --read-only          reads only, of a device that is in use
  flashproof baseline /dev/nvme1n1 /dev/nvme2n1         several at the same time, and which of them differs
  flashproof baseline /dev/nvme1n1 --cross-check        each profile with the installed fio too
  flashproof baseline /dev/nvme1n1 --pts iops,latency   by the procedure of SNIA's specification
  flashproof baseline sim:channels=16 --quick           a simulated drive, in seconds

Each job is one of fio's, named with its options. The same command goes on after Ctrl-C, kill or a reboot.
Exit codes: 0 measured, 1 operations failed, 2 usage, 3 environment, 4 interrupted. More in docs/baseline.md.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_depths_are_those_that_can_be_run() {
        assert_eq!((block_bytes("4k"), block_bytes("1536"), block_bytes("128k")), (Ok(4096), Ok(1536), Ok(131_072)));
        assert!(["0", "100", "4k4", "1m", "", "-4k", "4097"].iter().all(|text| block_bytes(text).is_err()));
        assert_eq!((depth("1"), depth("4096")), (Ok(1), Ok(4096)));
        assert!(["0", "3", "8192", "-1", "x"].iter().all(|text| depth(text).is_err()));
    }
}
