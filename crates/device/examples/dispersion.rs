//! `dispersion DEVICE SECONDS [read|write]` measures with the kernel's tracepoints how evenly requests reach a device.
//!
//! Counts block_rq_issue events in windows of 0.1 ms, while another program loads the device. Prints one line: `count=N
//! lost=N variance_over_mean=X mean=X windows=N`. `variance_over_mean` is 0 for perfectly even requests, 1 for Poisson
//! arrivals, and more for bunched requests. The value is the mean over ten start offsets of the windows. Needs root.

#[path = "../../load/tests/common/dispersion.rs"]
mod dispersion;

use device::discover::DeviceNumber;
use device::observe::trace::{BlockTrace, EventOp, Lost, TraceOptions};
use dispersion::{dispersion, index_over_places};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

const USAGE: &str = "usage: dispersion DEVICE SECONDS [read|write]";
const WINDOW_NS: u64 = 100_000;
/// Time between reads of the trace, in which even a busy device does not fill the buffer (500,000 events or more).
const READ_EVERY: Duration = Duration::from_millis(100);
const USAGE_ERROR: u8 = 2;
const ENVIRONMENT_ERROR: u8 = 3;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some((device, watched_for, requested_op)) = parse(&arguments) else {
        eprintln!("{USAGE}");
        return ExitCode::from(USAGE_ERROR);
    };
    match disk_number(device).and_then(|number| issues(number, watched_for, requested_op)) {
        Ok((times_ns, lost)) => {
            print(&times_ns, lost);
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(ENVIRONMENT_ERROR)
        }
    }
}

/// Device, duration and operation; `None`: all operations.
fn parse(arguments: &[String]) -> Option<(&Path, Duration, Option<EventOp>)> {
    let (device, seconds, requested_op) = match arguments {
        [device, seconds] => (device, seconds, None),
        [device, seconds, op] if op == "read" => (device, seconds, Some(EventOp::Read)),
        [device, seconds, op] if op == "write" => (device, seconds, Some(EventOp::Write)),
        _ => return None,
    };
    let watched_for = Duration::try_from_secs_f64(seconds.parse().ok()?)
        .ok()
        .filter(|time| !time.is_zero())?;
    Some((Path::new(device), watched_for, requested_op))
}

/// Partitions are refused, because their requests carry the number of the whole disk.
fn disk_number(device: &Path) -> Result<DeviceNumber, String> {
    let name = device.display();
    let facts = std::fs::metadata(device)
        .map_err(|error| format!("cannot watch {name} - {error} - name a disk"))?;
    if !facts.file_type().is_block_device() {
        return Err(format!(
            "cannot watch {name} - it is not a block device - name a disk"
        ));
    }
    let number = DeviceNumber::of_stat(facts.rdev());
    if Path::new(&format!("/sys/dev/block/{number}/partition")).exists() {
        return Err(format!(
            "cannot watch {name} - it is a partition - name the whole disk"
        ));
    }
    Ok(number)
}

/// Issue time of each request, and the number of lost events.
fn issues(
    device: DeviceNumber,
    watched_for: Duration,
    requested_op: Option<EventOp>,
) -> Result<(Vec<u64>, Lost), String> {
    let text = |error: device::observe::trace::TraceError| error.to_string();
    let mut times_ns = Vec::new();
    let mut trace = BlockTrace::start(
        &[device],
        TraceOptions {
            complete: false,
            ..TraceOptions::default()
        },
    )
    .map_err(text)?;
    let started = Instant::now();
    loop {
        let left = watched_for.saturating_sub(started.elapsed());
        if left.is_zero() {
            trace.stop().map_err(text)?;
        }
        let taken = trace.read(&mut |event| {
            if requested_op.is_none_or(|requested_op| event.op == requested_op) {
                times_ns.push(event.time_ns);
            }
        });
        let taken = taken.map_err(text)?;
        if left.is_zero() && taken == 0 {
            return Ok((times_ns, trace.lost().map_err(text)?));
        }
        std::thread::sleep(left.min(READ_EVERY));
    }
}

fn print(times_ns: &[u64], lost: Lost) {
    let head = format!("count={} lost={}", times_ns.len(), lost.events());
    match dispersion(times_ns, WINDOW_NS) {
        Some(found) => {
            let index = index_over_places(times_ns, WINDOW_NS).unwrap_or_else(|| found.index());
            println!(
                "{head} variance_over_mean={index:.3} mean={:.4} windows={}",
                found.mean, found.windows
            )
        }
        None => println!("{head} variance_over_mean= mean= windows=0"),
    }
    if !lost.is_none() {
        eprintln!(
            "warning: {} events are missing, in {} places: do not trust the variance",
            lost.events(),
            lost.gaps
        );
    }
}
