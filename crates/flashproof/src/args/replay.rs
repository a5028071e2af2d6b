//! The options of `flashproof storage --replay`, beside those of a test.

use super::TestArgs;
use clap::Args;
use load::factor::Factor;

/// Options of a storage test: of ACT's load, or of a trace.
#[derive(Args, Debug)]
pub struct StorageArgs {
    /// As any test.
    #[command(flatten)]
    pub test: TestArgs,
    /// Of a trace.
    #[command(flatten)]
    pub replay: ReplayArgs,
}

/// Options of a replay.
#[derive(Args, Debug)]
#[command(next_help_heading = "Replay of a trace")]
pub struct ReplayArgs {
    /// Replay a trace in place of a CONFIG: its operations at their instants. Its writes and discards ERASE. Any form that
    /// flashproof trace --from reads
    #[arg(long, value_name = "TRACE", requires = "device")]
    pub replay: Option<String>,
    /// A device to replay on, or "sim:": one for each device of the trace, by the order of their numbers; may be repeated
    #[arg(long, value_name = "DEVICE", requires = "replay")]
    pub device: Vec<String>,
    /// So many times as fast as it was recorded
    #[arg(long, hide_short_help = true, value_name = "N", default_value = "1", allow_hyphen_values = true, value_parser = clap::value_parser!(Factor))]
    pub speed: Factor,
    /// So often, one after the other
    #[arg(long, hide_short_help = true, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub repeat: u32,
    /// Offsets beyond the end of a smaller device begin again at its start, instead of being refused
    #[arg(long, hide_short_help = true, requires = "replay")]
    pub fit: bool,
}

/// Where a trace can stand for the configuration.
pub(super) fn beside(storage: clap::Command) -> clap::Command {
    storage
        .mut_arg("configs", |configs| {
            configs.required(false).required_unless_present("replay").conflicts_with("replay")
        })
        .mut_arg("as_act", |as_act| as_act.conflicts_with("replay"))
        .mut_arg("duration", |duration| duration.conflicts_with("replay"))
}
