//! Options of `flashproof size profile`.

use crate::commands::size::one_device;
use clap::Args;
use engine::DeviceName;
use jiff::Timestamp;
use jiff::civil::{DateTime, Time};
use jiff::tz::Offset;
use load::factor::Factor;
use results::format::seconds;
use std::path::PathBuf;

#[derive(Args, Debug)]
pub struct SizeArgs {
    /// Folders of "flashproof size collect"; the kind of each file is recognised
    #[arg(value_name = "DIR")]
    pub dirs: Vec<PathBuf>,
    /// Logs of the server, also rotated ones, plain, gzip or zstd, of one or several nodes; "-" is standard input.
    /// Tables of asloglatency, pasted in a file, are read as well
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub log: Vec<PathBuf>,
    /// Output of "iostat -x -t" on the machine of the log, as text or JSON; for several nodes give NODE=FILE for each
    #[arg(long, value_name = "[NODE=]FILE", num_args = 1..)]
    pub iostat: Vec<PathBuf>,
    /// Servers' replies to info requests, or their aerospike.conf: files, or folders of them
    #[arg(long, value_name = "FILE|DIR", num_args = 1..)]
    pub info: Vec<PathBuf>,
    /// Only these namespaces; may be repeated
    #[arg(long, value_name = "NS")]
    pub namespace: Vec<String>,
    /// Start of the window, UTC: "2026-11-20 23:04:05", or 23:04:05 for the log's last day [default: searched for]
    #[arg(long, value_name = "TIME", value_parser = instant)]
    pub from: Option<Instant>,
    /// End of the window, in the form of --from
    #[arg(long, value_name = "TIME", value_parser = instant)]
    pub to: Option<Instant>,
    /// Minimum length of the steady window to search for
    #[arg(hide_short_help = true, long, value_name = "TIME", default_value_t = 180, allow_hyphen_values = true, value_parser = seconds)]
    pub at_least: u32,
    /// Name of a device's drive in iostat's output, if the server's name differs: dm-3=/dev/mapper/data; may be repeated,
    /// also with one drive for several devices
    #[arg(long, value_name = "DRIVE=DEVICE", value_parser = drive)]
    pub drive: Vec<(String, String)>,
    /// Time zone of iostat's clock, such as +02:00; the server's log states its own time zone
    #[arg(hide_short_help = true, long, value_name = "ZONE", default_value = "+00:00", allow_hyphen_values = true, value_parser = zone)]
    pub iostat_zone: Offset,
    /// write-block-size of the servers, such as 128K, if no source states it (servers before 7.1)
    #[arg(hide_short_help = true, long, value_name = "SIZE", value_parser = block)]
    pub write_block_size: Option<u64>,
    /// flush-size of the servers, such as 128K, if no source states it (servers from 7.1 on)
    #[arg(hide_short_help = true, long, value_name = "SIZE", value_parser = block)]
    pub flush_size: Option<u64>,
    /// Write profile.json and a configuration for each namespace into this folder, created if missing
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Replace existing files
    #[arg(long, requires = "out")]
    pub force: bool,
    /// Node whose drives are modelled by the configurations [default: the node whose drives move most bytes]
    #[arg(long, value_name = "NODE")]
    pub node: Option<String>,
    /// Device to test, for the configurations
    #[arg(long, value_name = "DEVICE", value_parser = one_device)]
    pub device: Option<DeviceName>,
    /// Length of the test, for the configurations
    #[arg(long, value_name = "TIME", default_value_t = 86_400, allow_hyphen_values = true, value_parser = seconds)]
    pub duration: u32,
    /// Load of the configurations as a multiple of the cluster's: 2 for a drive that must hold twice the load
    #[arg(long, value_name = "FACTOR", default_value_t = Factor::ONE, allow_hyphen_values = true)]
    pub scale: Factor,
    /// Write configurations even if the profile does not balance; the profile stays marked as not balanced
    #[arg(long)]
    pub accept_unbalanced: bool,
    /// Write one self-contained HTML page with bars
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Print the profile as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Instant {
    At(Timestamp),
    /// Time of day, on the last day of the log on which this time occurs.
    Of(Time),
}

fn instant(text: &str) -> Result<Instant, String> {
    let text = text.trim();
    let found = text
        .parse::<Timestamp>()
        .ok()
        .or_else(|| {
            text.replacen(' ', "T", 1)
                .parse::<DateTime>()
                .ok()
                .and_then(|at| Offset::UTC.to_timestamp(at).ok())
        })
        .map(Instant::At);
    found
        .or_else(|| text.parse::<Time>().ok().map(Instant::Of))
        .ok_or_else(|| "give a time such as \"2026-11-20 23:04:05\" or 23:04:05, in UTC".to_owned())
}

fn zone(text: &str) -> Result<Offset, String> {
    let (sign, rest) = match text.trim().strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.trim().trim_start_matches('+')),
    };
    let (hours, minutes) = rest.split_once(':').unwrap_or((rest, "0"));
    let parsed: Option<(i32, i32)> = hours.parse().ok().zip(minutes.parse().ok());
    let valid =
        parsed.filter(|(hours, minutes)| (0..=14).contains(hours) && (0..60).contains(minutes));
    let offset = valid.and_then(|(hours, minutes)| {
        Offset::from_seconds(sign * (hours * 3600 + minutes * 60)).ok()
    });
    offset.ok_or_else(|| "give the difference to UTC, such as +02:00 or -05:00".to_owned())
}

fn drive(text: &str) -> Result<(String, String), String> {
    let pair = text
        .split_once('=')
        .filter(|(drive, device)| !drive.is_empty() && !device.is_empty());
    let (drive, device) = pair.ok_or("give DRIVE=DEVICE, such as dm-3=/dev/mapper/data")?;
    Ok((drive.to_owned(), device.to_owned()))
}

/// Parses a size as aerospike.conf writes it.
fn block(text: &str) -> Result<u64, String> {
    sizing::server_log::size_bytes(text)
        .filter(|bytes| bytes.is_power_of_two() && (4096..=8 << 20).contains(bytes))
        .ok_or_else(|| {
            "give a power of two from 4K to 8M in the notation of aerospike.conf, such as 128K or 1M".to_owned()
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_time_zones_and_block_sizes_are_parsed_in_common_notations() {
        let at = Instant::At("2026-11-20T23:04:05Z".parse().unwrap());
        for text in [
            "2026-11-20 23:04:05",
            "2026-11-20T23:04:05",
            "2026-11-20T23:04:05Z",
            "2026-11-21T00:04:05+01:00",
        ] {
            assert_eq!(instant(text), Ok(at), "{text}");
        }
        assert_eq!(
            instant("23:04"),
            Ok(Instant::Of(Time::constant(23, 4, 0, 0)))
        );
        assert!(instant("yesterday").is_err());
        assert_eq!(zone("-05:30").map(Offset::seconds), Ok(-19_800));
        assert_eq!(zone("+2").map(Offset::seconds), Ok(7200));
        assert!(zone("CET").is_err() && zone("+99:00").is_err());
        assert_eq!(
            (block("128K"), block("1M"), block("8388608")),
            (Ok(131_072), Ok(1 << 20), Ok(8 << 20))
        );
        assert!(
            block("100K").is_err() && block("").is_err() && block("99999999999999999999M").is_err()
        );
    }
}
