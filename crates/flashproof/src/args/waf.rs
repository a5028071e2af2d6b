//! The options of `flashproof waf`.

use super::compare::positive;
use super::seconds;
use clap::Args;
use engine::sim::size_bytes;
use load::waf::Arrangement;
use std::path::PathBuf;

/// Options of an experiment on write amplification, or of a probe.
#[derive(Args, Debug)]
pub struct WafArgs {
    /// File of the tenants, as for flashproof tenants
    #[arg(value_name = "TENANTS", required_unless_present_any = ["probe", "how"])]
    pub tenants: Option<PathBuf>,
    /// The drive: sim:ftl+..., or a real one that counts what its media take, which is ERASED [default: sim:ftl of 16 GiB with
    /// 7 % over-provisioning, 32 KiB units and a handle a tenant]
    #[arg(long, value_name = "DEVICE")]
    pub on: Option<String>,
    /// Beside what is measured on a real drive: the same predicted for this simulated one, sim:ftl+...
    #[arg(long, value_name = "DEVICE", requires = "on")]
    pub predict: Option<String>,
    /// Arrangements: a drive each, one drive without handles, one drive with a placement handle each
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub arrange: Vec<Arrangement>,
    /// Give up after so many drive fills, if it is not steady before
    #[arg(long, value_name = "N", default_value_t = 40, value_parser = clap::value_parser!(u16).range(5..=1_000))]
    pub max_fills: u16,
    /// On a real drive: give up after this time, for each arrangement: 8h, 30m, or a number of seconds
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub duration: Option<u32>,
    /// Seed of all random choices [default: that of the file, or 1]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Simulated: writes of blocks are split into commands of this size (the kernel: queue/max_sectors_kb)
    /// [default: 128KiB]
    #[arg(long, value_name = "SIZE", value_parser = command)]
    pub command: Option<u32>,
    /// Simulated: so many blocks are being written at once; the drive takes a command of each in turn
    /// [default: 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4_096))]
    pub in_flight: Option<u32>,
    /// Simulated: leave out what clients wait for, and find only what needs no clock
    #[arg(long)]
    pub no_latency: bool,
    /// Drive writes a day that the maker rates the drive for
    #[arg(long, value_name = "N", value_parser = positive)]
    pub dwpd: Option<f64>,
    /// Terabytes written that the maker rates the drive for
    #[arg(long, value_name = "TB", value_parser = positive, conflicts_with = "dwpd")]
    pub tbw: Option<f64>,
    /// Years of warranty that drive writes a day are rated for
    #[arg(long, value_name = "YEARS", default_value_t = 5.0, value_parser = positive)]
    pub warranty: f64,
    /// Vary assumptions, each by itself: op=7%:14.5%:28%,fill=40:50:60,handles=1:2:4; a name alone takes usual values.
    /// Also lwm, record, keys, reuse, rates, command, in-flight and every parameter of the simulated drive
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub sweep: Vec<String>,
    /// Test whether the firmware of this drive keeps data of placement handles apart: adversarial streams in place of tenants; ERASES a real one
    #[arg(long, value_name = "DEVICE", conflicts_with_all = ["tenants", "on", "arrange", "sweep", "html", "dwpd", "tbw"])]
    pub probe: Option<String>,
    /// Allow this device to be erased, by its serial number, wwid, by-id link or path
    #[arg(long, value_name = "DEVICE")]
    pub erase: Vec<String>,
    /// Of a probe: write what it found to FILE, too, as JSON. Of tenants on a real drive: the directory of the run directories, one an
    /// arrangement [default: flashproof-waf-TIME here]
    #[arg(long, value_name = "FILE|DIR")]
    pub out: Option<PathBuf>,
    /// Replace FILE if it is there
    #[arg(long, requires_all = ["out", "probe"])]
    pub force: bool,
    /// Print all of it as JSON
    #[arg(long)]
    pub json: bool,
    /// Write a page with charts, too
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Print the nvme-cli commands that give the namespace DEVICE placement handles (FDP), what each erases, and the way
    /// back; run none of them
    #[arg(long, value_name = "DEVICE", exclusive = true)]
    pub how: Option<String>,
}

fn command(text: &str) -> Result<u32, String> {
    let fits = |bytes: &u64| (4 << 10..=64 << 20).contains(bytes) && bytes.is_multiple_of(4 << 10);
    match size_bytes(text).filter(fits) {
        Some(bytes) => Ok(bytes as u32),
        None => Err("give a multiple of 4KiB up to 64MiB, such as 128KiB".to_owned()),
    }
}

pub(super) const EXAMPLES: &str = "\
Examples:
  flashproof waf examples/tenants/seed-a.toml             a drive each, one drive, one with a handle each
  flashproof waf tenants.toml --on sim:ftl+capacity=64GiB+op=14.5%+unit=32KiB --arrange dedicated,shared
  flashproof waf tenants.toml --html waf.html --sweep op,fill,handles    where the cliffs are, in charts
  flashproof waf tenants.toml --dwpd 1 --json             years to the rated endurance, for a program
  flashproof waf tenants.toml --on /dev/nvme1n1 --erase S64ANX0T402    measured: without handles, then with them; ERASES it
  flashproof waf tenants.toml --on /dev/nvme1n1 --erase S64ANX0T402 --predict sim:ftl+capacity=7.68TB+op=14.5%+unit=32KiB+handles=4
                                                          and predicted, in the columns beside it
  flashproof waf --probe sim:ftl+handles=3+append=per-handle+isolation=persistently    do handles isolate?
  flashproof waf --probe /dev/nvme1n1 --out probe.json    of a real drive with FDP; ERASES it, writes ten times its size
  flashproof waf --how /dev/nvme1n1                       the commands that give a namespace handles, for you to run

Nothing is written to but a real drive named by --on or --probe; all others are simulated. Exit codes: 0 shown,
1 the drive failed, 2 usage, 3 environment, 4 never steady within --max-fills, ended early, or a probe that others disturbed.
More in docs/waf.md.";
