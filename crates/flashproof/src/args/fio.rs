//! The words of `flashproof fio`: fio's own grammar, so clap passes them on as they are.

use clap::Args;
use load::workload::fio::options;
use std::ffi::OsString;

/// What stands behind `flashproof fio`.
#[derive(Args, Debug)]
pub struct FioArgs {
    /// fio's options and job files
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
    pub words: Vec<String>,
}

const HELP: &str = "\
Run fio's jobs, from its command lines and job files, with a verdict

Usage: flashproof fio [OPTIONS] [--name=JOB --OPTION=VALUE...] [JOBFILE...]

A rate makes an open loop: what a stall keeps from being issued is counted as waiting. An option that is not
among ours is named, with what would be run without it, and nothing runs.

Examples:
  flashproof fio --name=bench --filename=/dev/nvme1n1 --direct=1 --rw=randread --bs=4k --runtime=60
  flashproof fio --name=paced --filename=/dev/nvme1n1 --direct=1 --rw=randwrite --bs=128k --rate_iops=1280 \\
      --iodepth=16 --time_based --runtime=24h --erase=S64ANX0T402
  flashproof fio --output-format=json --output=result.json JOBFILE
  flashproof fio --name=demo --filename=sim: --rw=randrw --rate_iops=20k,5k --iodepth=64 --direct=1 \\
      --time_based --runtime=1h                              an hour on a simulated drive, in seconds

Options of fio's program:
  --output=FILE              what is reported, in a file instead of standard output
  --output-format=FORMATS    normal, json, json+, terse; several with commas
  --status-interval=TIME     the report so far, so often
  --section=NAME             this section of a job file only; may be repeated
  --parse-only               read the jobs, and touch no device
  --readonly                 refuse jobs that write or trim
  --cmdhelp                  fio's options that we have, with what they mean

Our own:
  --out=DIR                  run directory, of several groups one in it for each [default: flashproof-results/fio-TIME]
  --force                    replace a file of --output or of a log that is none of these already
  --erase=DEVICE             allow the erasure of this device, by serial number, wwid, by-id link or path
  --shared                   let other runs that say so too use the devices at the same time
  --sla=LIMITS               what the verdict allows, such as 5%>1ms,1%>8ms [default: no limits]
  --slice=TIME               length of a slice of the verdict [default: 1h]
  --max-errors=N             stop after more I/O errors than this [default: 1000]
  --no-trace                 do not sample the kernel's block tracepoints
  --cross-check              run the jobs with the installed fio, too: three rounds of both in turns, side by side
  --dry-run                  the same as --parse-only, with what would be run
  --quiet                    no progress and no notes

Linked as fio (ln -s flashproof fio), it prints what fio prints, keeps no run directory without --out, and exits
with 0 or 1. Reading needs no consent; writing does: see docs/guard.md. All options: docs/fio.md.
Exit codes: 0 pass or done, 1 fail, 2 usage, 3 environment (device, permission, kernel), 4 invalid run
";

/// Those of a program that is called fio.
pub(super) fn words(arguments: Vec<OsString>) -> FioArgs {
    let words = arguments.into_iter().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    FioArgs { words }
}

/// The help.
pub fn help() -> &'static str {
    HELP
}

/// The options of jobs, for `--cmdhelp`.
pub fn job_options() -> String {
    options::help()
}
