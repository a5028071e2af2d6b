//! The options of `flashproof rate`.

use super::SeriesArgs;
use super::config::seconds;
use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use load::factor::Factor;
use results::judge::Sla;
use std::path::PathBuf;

/// Options of a search for the highest rating.
#[derive(Args, Debug)]
pub struct RateArgs {
    /// Device to rate (several: all get the load at once): ALL that is on it is erased
    #[arg(value_name = "DEVICE", required_unless_present = "config", value_parser = NonEmptyStringValueParser::new())]
    pub devices: Vec<String>,
    /// A configuration of any ACT as the load of 1x [default: ACT's, 2000 reads and 1000 writes a second on each device]
    #[arg(long, value_name = "CONFIG")]
    pub config: Option<PathBuf>,
    /// The first load that is tried, as a multiple of 1x: one that the device surely holds
    #[arg(long, value_name = "N", default_value = "1", allow_hyphen_values = true, value_parser = clap::value_parser!(Factor))]
    pub from: Factor,
    /// The highest load that is tried, as a multiple of 1x
    #[arg(long, value_name = "N", default_value = "1000", allow_hyphen_values = true, value_parser = clap::value_parser!(Factor))]
    pub up_to: Factor,
    /// Longest time under load: 8h, 90m, or a number of seconds; what is known by then is the result [default: no bound]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = seconds)]
    pub max_duration: Option<u32>,
    /// How near the load that is held and the one that is not must be, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 2.0, allow_hyphen_values = true, value_parser = percent)]
    pub resolution: f64,
    /// Limits that a load must meet: shares of operations that may be slower than a threshold
    #[arg(long, value_name = "LIMITS", default_value_t = Sla::default(), allow_hyphen_values = true, value_parser = Sla::wanted)]
    pub sla: Sla,
    /// How long a load is judged, and the rating is confirmed at the end: 1h, 30m, or a number of seconds; a round is
    /// a twelfth of it and at most 60 s [default: 3600, on simulated drives less where that takes over a minute of CPU]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = confirmation)]
    pub slice: Option<u32>,
    /// Pace and spread operations as ACT 6 does, to compare with published ratings (arrival: act)
    #[arg(long)]
    pub as_act: bool,
    #[command(flatten)]
    pub series: SeriesArgs,
    /// Do not prepare devices; the rating is then not to be compared with published ones
    #[arg(long)]
    pub no_prep: bool,
    /// Directory of the series: its state, and a run directory for each step
    /// [default: flashproof-results/rate-SERIAL, which the same command finds again]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// A time that has twelve rounds of a second at least.
fn confirmation(text: &str) -> Result<u32, String> {
    match seconds(text)? {
        seconds if seconds < 12 => Err("a rating is confirmed for 12 s at least".to_owned()),
        seconds => Ok(seconds),
    }
}

/// A percentage that a resolution can be: below 1 % multiples of three digits are not told apart.
fn percent(text: &str) -> Result<f64, String> {
    let percent = positive(text.trim_end_matches('%')).filter(|percent| (1.0..=50.0).contains(percent));
    percent.ok_or_else(|| "that is no percentage from 1 to 50, such as 2".to_owned())
}

fn positive(text: &str) -> Option<f64> {
    text.trim().parse().ok().filter(|number: &f64| number.is_finite() && *number > 0.0)
}

pub(super) const EXAMPLES: &str = "\
Examples:
  flashproof rate /dev/nvme1n1                            climb from 1x, some hours
  flashproof rate /dev/nvme1n1 --from 20 --max-duration 8h    begin higher, end by tomorrow
  flashproof rate /dev/nvme1n1 --as-act                   comparable with published ratings
  flashproof rate /dev/nvme1n1                            the same again after Ctrl-C or a reboot: goes on
  flashproof rate --config cluster.conf --from 0.1        multiples of your own load
  flashproof rate sim:channels=4+read-us=400              a simulated drive, some minutes of CPU
  flashproof rate sim:channels=4+read-us=400 --slice 2m   the same in seconds

The load grows until a limit is reached or the rate is not achieved, then closes in on the highest that is
held, and confirms it for an hour. A certification judges a day: certify what was rated.
Exit codes: 0 rated, 1 nothing was held, 2 usage, 3 environment, 4 not found (time up, interrupted, our
own limit). More in docs/rate.md.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_are_those_that_a_resolution_can_be() {
        assert_eq!((percent("2"), percent("5%")), (Ok(2.0), Ok(5.0)));
        assert!(["0.5", "51", "0", "two"].iter().all(|text| percent(text).is_err()));
    }
}
