//! `flashproof prep`: writes devices from end to end, so that a test meets a drive in use and not a new
//! one, and reads a sample back.
//!
//! What to do on each device is decided, and every device's consent had, before anything is written to
//! any. Then each goes its own way, on a thread of its own.

mod job;
mod ledger;
mod open;
mod resume;
mod status;

use crate::args::PrepArgs;
use device::guard::{Prepared, unix_s};
use job::Verified;
use job::{Done, Job};
use ledger::Broken;
use load::workload::prepare::{BLOCK_BYTES, SPOT_BYTES};
use results::units::clock;
use session::Manner;
use session::console;
use session::devices::parsed;
use session::engine::{Demand, Engine};
use session::failure::Failure;
use session::leave;
use session::signals::Switch;
use status::{Bars, Style};
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// Refresh interval of the screen.
const RENEW: Duration = Duration::from_millis(200);

/// Prepares the devices, or verifies that they are.
pub fn run(args: &PrepArgs, manner: Manner) -> Result<ExitCode, Failure> {
    let switch = Switch::install("what was recorded before holds; the same command goes on from there", manner)?;
    let code = prepare(args, manner, &switch)?;
    match (manner, switch.was_asked()) {
        (Manner::Act, Some(signal)) => leave::by_signal(signal),
        _ => Ok(ExitCode::from(code)),
    }
}

/// As [`run`], for a command that does more than that: a signal ends it by way of `switch`. Gives the
/// exit code.
pub fn prepare(args: &PrepArgs, manner: Manner, switch: &Switch) -> Result<u8, Failure> {
    if args.verify && args.samples == 0 {
        return Err(Failure::usage("cannot verify with --samples 0 - nothing would be read - leave --samples out"));
    }
    let names = parsed(&args.devices)?;
    let simulated = names.iter().filter(|name| name.drive().is_some()).count();
    let drives = match simulated {
        0 if args.verify => open::open_prepared(args)?,
        0 => open::open(args)?,
        n if n < names.len() => {
            return Err(Failure::usage(
                "cannot prepare simulated drives together with real ones - their time passes differently - name them apart",
            ));
        }
        _ if args.verify => {
            return Err(Failure::usage("cannot verify simulated drives - they keep no data - name devices or files"));
        }
        _ => open::simulate(args, &names)?,
    };
    let engine = Arc::new(Engine::choose(&Demand::default(), &drives[0].devices)?);
    let jobs: Vec<_> = drives.into_iter().map(|drive| drive.job(args, engine.clone())).collect();
    let _armed = switch.arm(jobs.iter().map(|job| job.control.clone()).collect());
    let style = match manner {
        _ if args.quiet => Style::Quiet,
        Manner::Own => Style::Bars,
        _ => Style::Plain,
    };
    if style == Style::Plain {
        for Prepared { path, size_bytes, .. } in jobs.iter().map(|job| &job.prepared) {
            console::result(&format!(
                "{path} size = {size_bytes} bytes, {} large blocks\n",
                size_bytes / u64::from(BLOCK_BYTES)
            ))?;
        }
    }
    let ended = work(jobs, args, style, simulated > 0)?;
    tell(args, &ended)
}

/// Result of a device's job, and its duration in seconds.
type JobEnd = (Result<Done, Broken>, u64);

/// Runs all jobs at once, and draws how they go.
fn work(jobs: Vec<Job>, args: &PrepArgs, style: Style, simulated: bool) -> Result<Vec<JobEnd>, Failure> {
    let status = jobs.iter().map(|job| job.status.clone()).collect();
    let mut bars = Bars::new(style, &args.devices, status, simulated);
    let begun = Instant::now();
    let started: Result<Vec<_>, _> = jobs
        .into_iter()
        .map(|job| {
            let (status, verify) = (job.status.clone(), args.verify);
            thread::Builder::new().name("prep".into()).spawn(move || {
                let ended = if verify { job.verify_only() } else { job.prepare() };
                status.end(ended.is_ok());
                (ended, begun.elapsed().as_secs())
            })
        })
        .collect();
    let threads = started.map_err(|error| Failure::environment(format!("cannot start a thread - {error}")))?;
    while threads.iter().any(|thread| !thread.is_finished()) {
        bars.draw();
        thread::sleep(RENEW);
    }
    bars.draw();
    // A panic ended the program already.
    Ok(threads.into_iter().filter_map(|thread| thread.join().ok()).collect())
}

/// Tells what came of it, and with which exit code: a device that failed outweighs the rest.
fn tell(args: &PrepArgs, ended: &[JobEnd]) -> Result<u8, Failure> {
    let mut code = 0;
    for ((ended, seconds), name) in ended.iter().zip(&args.devices) {
        let severer = |now: u8| [1, 3, 4].into_iter().find(|severe| code == *severe || now == *severe).unwrap_or(0);
        match ended {
            Ok(done) => console::result(&summary(name, done, *seconds, args.verify))?,
            Err(Broken::Device(why)) => {
                console::error(why);
                code = severer(1);
            }
            Err(Broken::Environment(why)) => {
                console::error(why);
                code = severer(3);
            }
            Err(Broken::Asked) => {
                console::notice(&format!("{name}: interrupted; go on with: {}", command_to_go_on()));
                code = severer(4);
            }
        }
    }
    Ok(code)
}

/// The command line, without what would begin anew.
fn command_to_go_on() -> String {
    let arguments = std::env::args_os().map(|argument| argument.to_string_lossy().into_owned());
    arguments.filter(|argument| argument != "--restart").map(quoted).collect::<Vec<_>>().join(" ")
}

/// An argument as a shell takes it: in quotes, where it would read more into it.
fn quoted(argument: String) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+%@".contains(c);
    match !argument.is_empty() && argument.chars().all(is_plain) {
        true => argument,
        // Nothing ends a quotation but the quote itself, which stands behind a backslash outside of it.
        false => format!("'{}'", argument.replace('\'', r"'\''")),
    }
}

/// One line on a device that was prepared, or verified.
fn summary(name: &str, done: &Done, seconds: u64, verify: bool) -> String {
    let Done { prepared, verified, written } = done;
    let Prepared { size_bytes, used_bytes, fills, seed, zeros, .. } = prepared;
    let passes = match (zeros, fills) {
        (true, 0) => "zeros".to_owned(),
        (true, fills) => format!("zeros and {fills} x salt (seed {seed})"),
        (false, fills) => format!("{fills} x salt (seed {seed})"),
    };
    let part = match used_bytes == size_bytes {
        true => format!("{size_bytes} bytes"),
        false => format!("{used_bytes} of {size_bytes} bytes ({:.1} %)", prepared.use_pct()),
    };
    let read_back = match verified {
        Verified::Equal(sample) => {
            let share = sample.bytes as f64 * 100.0 / (*used_bytes).max(1) as f64;
            format!("{} places of up to {SPOT_BYTES} bytes ({share:.3} % of it) read back and as written", sample.spots)
        }
        Verified::Simulated => "simulated: nothing written, nothing read back".to_owned(),
        Verified::No => "nothing read back".to_owned(),
    };
    let at = match written.ns {
        0 => String::new(),
        // Bytes in a microsecond are megabytes in a second.
        ns => format!(" written at {:.0} MB/s", written.bytes as f64 * 1e3 / ns as f64),
    };
    let done = if verify { "verified" } else { "prepared" };
    let when = prepared.ended_unix_s.filter(|_| verify).map(|ended| unix_s().saturating_sub(ended));
    let when = when.map(|ago| format!(", prepared {} ago", clock(ago))).unwrap_or_default();
    format!("{name}: {done}{when}: {part}, {passes}{at}, {read_back}, in {}\n", clock(seconds))
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn an_argument_reaches_a_shell_as_it_was() {
        for (argument, shown) in [
            ("/dev/disk/by-id/nvme-eui.00:1", "/dev/disk/by-id/nvme-eui.00:1"),
            ("sim:capacity=1GiB+bad=512MiB-513MiB", "sim:capacity=1GiB+bad=512MiB-513MiB"),
            ("my disk", "'my disk'"),
            ("$HOME;it's", r"'$HOME;it'\''s'"),
            ("~/image", "'~/image'"),
            ("", "''"),
        ] {
            assert_eq!(quoted(argument.to_owned()), shown);
        }
    }
}
