//! The options of `flashproof size`.

use super::reports::GivenArgs;
use super::{AccessArgs, parse_named_dir, positive, seconds};
use act::options::Test;
use clap::Args;
use engine::DeviceName;
use engine::sim::size_bytes;
use jiff::Timestamp;
use jiff::civil::{DateTime, Time};
use jiff::tz::Offset;
use load::factor::Factor;
use report::comparison::CandidateDir;
use std::path::PathBuf;
use store::nodes::{DEFAULT_PORT, HostPort};

/// Connections to nodes.
#[derive(Args, Debug)]
pub struct NodeArgs {
    #[command(flatten)]
    pub access: AccessArgs,
    /// Timeout of a connection, and of a request with its reply
    #[arg(long, value_name = "TIME", default_value = "5s", allow_hyphen_values = true, value_parser = seconds)]
    pub timeout: u32,
    /// Time for which the restoration of settings is retried on a node that does not answer
    #[arg(hide_short_help = true, long, value_name = "TIME", default_value = "2m", allow_hyphen_values = true, value_parser = seconds)]
    pub retry: u32,
}

/// Options of `flashproof size collect`.
#[derive(Args, Debug)]
pub struct CollectArgs {
    /// A node to start from: HOST or HOST:PORT; may be repeated, or several joined by commas
    #[arg(long, value_name = "HOST:PORT", value_delimiter = ',', value_parser = host)]
    pub host: Vec<HostPort>,
    /// Only these namespaces; may be repeated, or several joined by commas [default: all]
    #[arg(long, value_name = "NS", value_delimiter = ',', requires = "host")]
    pub namespace: Vec<String>,
    /// Only the nodes given as --host, not their peers
    #[arg(long, requires = "host")]
    pub one_node: bool,
    /// Use the peers' alternate addresses
    #[arg(hide_short_help = true, long, requires = "host")]
    pub services_alternate: bool,
    /// While sampling, turn on the histograms of devices and the detail of drv_ssd in the log; then restore the changed
    /// settings
    #[arg(long, requires = "host")]
    pub enable: bool,
    /// Sampling time: 10m, 1h, or a number of seconds
    #[arg(long = "duration", value_name = "TIME", default_value = "10m", allow_hyphen_values = true, value_parser = seconds)]
    pub window: u32,
    /// Interval between samples
    #[arg(long, value_name = "TIME", default_value = "10s", allow_hyphen_values = true, value_parser = seconds)]
    pub every: u32,
    /// Also copy these logs of nodes, plain or compressed, after the samples; "-" for standard input
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub log: Vec<PathBuf>,
    /// Also copy this output of iostat (text or JSON); for several nodes give NODE=FILE, where NODE is the node's id
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub iostat: Vec<PathBuf>,
    /// Folder to create [default: flashproof-results/cluster-TIME]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Only print the asadm and asinfo commands with which you can do the same by hand
    #[arg(long)]
    pub print_commands: bool,
    #[command(flatten)]
    pub nodes: NodeArgs,
}

/// Options of `flashproof size restore`.
#[derive(Args, Debug)]
pub struct RestoreArgs {
    /// Folder of the collection
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    #[command(flatten)]
    pub nodes: NodeArgs,
}

fn host(text: &str) -> Result<HostPort, String> {
    HostPort::parse(text, DEFAULT_PORT)
}

/// Options of a profile.
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
    /// Servers' replies to info requests: files, or a folder of them
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
    /// Name of a drive in iostat's output, if the server's name differs: dm-3=/dev/mapper/data; may be repeated
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
    #[arg(long, value_name = "DEVICE")]
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

/// A time given by the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Instant {
    /// Date and time.
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

/// Options of a selection.
#[derive(Args, Debug)]
pub struct SelectArgs {
    /// The cluster's load: profile.json of "flashproof size profile"
    #[arg(long, value_name = "PROFILE")]
    pub profile: PathBuf,
    /// Directories of runs or of series (certify, rate), each as DIR or NAME=DIR
    #[arg(long = "candidate", value_name = "DIR", num_args = 1.., required_unless_present = "published", value_parser = parse_named_dir)]
    pub candidates: Vec<CandidateDir>,
    /// Also use the published ratings of drives with these words in their names, or "all"; may be repeated
    #[arg(long, value_name = "NAME")]
    pub published: Vec<String>,
    /// Your own list of published ratings, in the format of the built-in list
    #[arg(long, value_name = "CSV", requires = "published")]
    pub ratings: Option<PathBuf>,
    /// Future load, as a multiple of the present load
    #[arg(long, value_name = "N", default_value_t = 2.0, allow_hyphen_values = true, value_parser = positive)]
    pub scale: f64,
    /// Future data, as a multiple of the present data
    #[arg(long, value_name = "N", default_value_t = 1.0, allow_hyphen_values = true, value_parser = positive)]
    pub data_scale: f64,
    /// Maximum fill of a drive, in percent of its capacity
    #[arg(long, value_name = "PERCENT", default_value_t = 50.0, allow_hyphen_values = true, value_parser = fill)]
    pub fill: f64,
    #[command(flatten)]
    pub given: GivenArgs,
    /// Years that a drive must last, and for which drive writes per day are rated
    #[arg(long, value_name = "YEARS", default_value_t = 5.0, value_parser = positive)]
    pub warranty: f64,
    /// Use a profile that is marked as not balanced
    #[arg(long)]
    pub accept_unbalanced: bool,
    /// Print as JSON
    #[arg(long, conflicts_with = "markdown")]
    pub json: bool,
    /// Print as Markdown
    #[arg(long)]
    pub markdown: bool,
}

fn fill(text: &str) -> Result<f64, String> {
    let percent = positive(text.trim_end_matches('%'))?;
    if percent <= 100.0 {
        Ok(percent)
    } else {
        Err("give a percentage above 0 and up to 100".to_owned())
    }
}

/// Options of the writer of configurations.
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
    #[arg(long, value_name = "DEVICE", value_delimiter = ',')]
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_zones_and_sizes_are_read_as_people_write_them() {
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
