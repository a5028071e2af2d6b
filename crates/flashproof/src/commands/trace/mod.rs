//! `flashproof trace`: shows the requests that reach a device: size, process, and the times of kernel and device.
//!
//! ```text
//! tracepoints --live---> \
//!                         requests -> summary -> tables, heat map, CSV, JSON
//! text of a trace ------> /       \-> one line each (--ops)
//! ```

mod heat;
pub mod options;
mod show;
mod summary;

use crate::commands::trace::options::TraceArgs;
use crate::configuration::read_trace;
use device::discover::{DeviceFacts, DeviceNumber, Kind, discover};
use device::observe::trace::{
    BlockRequest, BlockTrace, LOST_COMMENT, Pairing, TraceEvent, TraceOptions, has_requests,
    sort_by_time,
};
use results::format::{self, quoted};
use session::console;
use session::failure::Failure;
use session::signals::EndSignals;
use session::tracing::{self, BlockPosition};
use session::user_file::write_file;
use show::TraceReport;
use std::collections::BTreeMap;
use std::io::{self, IsTerminal};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;
use summary::Summary;
use sys::process::monotonic_ns;

pub fn run(args: &TraceArgs) -> Result<ExitCode, Failure> {
    if let Some(path) = &args.csv {
        // Check the file before the trace, which may take long.
        write_file("table", path, None, args.force)?;
    }
    if args.ops {
        console::result(&show::ops_heading())?;
    }
    match &args.from {
        Some(name) => from_text(args, name),
        None => from_kernel(args),
    }
}

fn from_kernel(args: &TraceArgs) -> Result<ExitCode, Failure> {
    let traced_devices = TracedDevices::from_names(&args.devices)?;
    let end_signals = EndSignals::listen(
        "no result is shown; the next trace removes the tracefs instance of this trace".to_owned(),
    )?;
    let trace = traced_devices.start(args.buffer << 20)?;
    // Printed after the start, so that everything after this line is in the trace.
    let length = args.duration.map_or("until Ctrl-C".to_owned(), |seconds| {
        format!("for {}", format::span(seconds.into()))
    });
    console::note(&format!("tracing {} {length}", args.devices.join(", ")));
    let mut summary = Summary::default();
    let result = traced_devices.follow(trace, args.duration, &end_signals, &mut |requests| {
        requests.iter().for_each(|request| summary.add(request));
        print_ops(args, requests)
    })?;
    let trace_report = TraceReport {
        summary: &summary,
        names: traced_devices.names(),
        seconds: Some(result.seconds),
        lost: result.lost,
    };
    if result.lost > 0 {
        console::warning(&format!(
            "{} lost, because the buffers of {} MiB were full or were written while being read: counts are too low - \
             trace fewer devices, or give a larger --buffer",
            format::count(result.lost, "event"),
            args.buffer
        ));
    }
    finish(args, &trace_report)?;
    match result.removed_device {
        None => Ok(ExitCode::SUCCESS),
        Some(name) => Err(Failure::environment(format!(
            "tracing {name} ended after {} s - the device disappeared - the result covers the time before; see the \
             kernel log (dmesg) for the reason",
            format::number(result.seconds)
        ))),
    }
}

fn from_text(args: &TraceArgs, name: &str) -> Result<ExitCode, Failure> {
    let devices = args
        .devices
        .iter()
        .map(|device| number(device))
        .collect::<Result<Vec<_>, _>>()?;
    let mut summary = Summary::default();
    let mut failure = None;
    let mut batch = Vec::new();
    let trace_text = read_trace(name, &mut |request| {
        if failure.is_some() || !(devices.is_empty() || devices.contains(&request.device)) {
            return;
        }
        summary.add(&request);
        if args.ops {
            batch.push(request);
            if batch.len() == 1_024 {
                failure = print_ops(args, &batch).err();
                batch.clear();
            }
        }
    })?;
    failure.map_or(Ok(()), Err)?;
    print_ops(args, &batch)?;
    if summary.count() == 0 {
        return Err(Failure::usage(format!(
            "cannot show requests of {} from {name} - the trace has none - give no device to see all devices of the \
             trace",
            args.devices.join(", ")
        )));
    }
    let seconds = summary.span_sec();
    finish(
        args,
        &TraceReport {
            summary: &summary,
            names: BTreeMap::new(),
            seconds,
            lost: trace_text.lost,
        },
    )?;
    Ok(ExitCode::SUCCESS)
}

/// Prints operations, if requested; false if the reader closed the pipe.
fn print_ops(args: &TraceArgs, requests: &[BlockRequest]) -> Result<bool, Failure> {
    if !args.ops || requests.is_empty() {
        return Ok(true);
    }
    console::result_if_read(&requests.iter().map(show::op).collect::<String>())
}

fn finish(args: &TraceArgs, trace_report: &TraceReport<'_>) -> Result<(), Failure> {
    if trace_report.summary.left_out > 0 {
        console::warning(&format!(
            "{} are in no table: the trace has more devices or sizes than fit into memory - trace fewer devices",
            format::count(trace_report.summary.left_out, "request")
        ));
    }
    if let Some(path) = &args.csv {
        write_file("table", path, Some(&trace_report.csv()?), args.force)?;
        console::note(&format!("wrote {}", path.display()));
    }
    if args.ops {
        // The number of lost events goes to the output of the operations, where `--from` finds it.
        return match trace_report.lost {
            0 => Ok(()),
            lost => console::result(&format!("{LOST_COMMENT} {lost}\n")),
        };
    }
    if args.json {
        return console::result(&crate::output::json(&trace_report.json())?);
    }
    let page = trace_report.text(false);
    if console::has_colour() {
        // Colours are escape sequences, which are not allowed in other text.
        console::drawing_if_read(&trace_report.text(true)).map(|_| ())
    } else {
        console::result(&page)
    }
}

/// Parses the number of a device in a recorded trace: `7,2` or `7:2`.
fn number(text: &str) -> Result<DeviceNumber, Failure> {
    let number = text.split_once([',', ':']).and_then(|(major, minor)| {
        Some(DeviceNumber::new(major.parse().ok()?, minor.parse().ok()?))
    });
    number.ok_or_else(|| {
        Failure::usage(format!(
            "cannot look for {} in a recorded trace - it identifies devices by numbers - give major,minor, such as \
             259,0",
            quoted(text)
        ))
    })
}

/// Interval at which the kernel's buffers are emptied.
const READ_EVERY: Duration = Duration::from_millis(50);
/// Interval at which devices and terminal are checked, nanoseconds.
const LOOK_EVERY_NS: u64 = 1_000_000_000;
/// Age at which events are processed: before that, an older event of another CPU may still arrive.
const SETTLED_AFTER_NS: u64 = 10_000_000;

#[derive(Debug)]
pub struct TracedDevices {
    positions: Vec<BlockPosition>,
    names: Vec<String>,
    /// True if a device has no requests, only bios.
    has_bios: bool,
}

/// Takes completed requests, and returns false when no more are wanted.
type RequestSink<'a> = dyn FnMut(&[BlockRequest]) -> Result<bool, Failure> + 'a;

#[derive(Debug)]
pub struct TraceResult {
    pub seconds: f64,
    /// Events that the kernel dropped.
    pub lost: u64,
    pub removed_device: Option<String>,
}

impl TracedDevices {
    /// The devices with the names `devices`. Warns about limitations. Errors: a device is not a block device.
    pub fn from_names(devices: &[String]) -> Result<Self, Failure> {
        let mut positions = Vec::new();
        let mut has_bios = false;
        for (index, name) in devices.iter().enumerate() {
            let facts = discover(name, Path::new("/"))
                .map_err(|error| Failure::environment(format!("cannot trace {name} - {error}")))?;
            let position = place(index, name, &facts)?;
            if !has_requests(Path::new("/"), position.disk) {
                has_bios = true;
                console::note(&format!(
                    "{name}: its driver handles bios and has no requests; bios are shown, and all of their time counts \
                     as device time - to see queue times, trace the devices beneath it"
                ));
            }
            positions.push(position);
        }
        Ok(Self {
            positions,
            names: devices.to_vec(),
            has_bios,
        })
    }

    /// Name of each disk: the given name, or several names if several of its partitions were given.
    pub fn names(&self) -> BTreeMap<DeviceNumber, String> {
        let mut names: BTreeMap<DeviceNumber, String> = BTreeMap::new();
        for (position, name) in self.positions.iter().zip(&self.names) {
            let name = name.strip_prefix("/dev/").unwrap_or(name);
            let known = names.entry(position.disk).or_default();
            *known = if known.is_empty() {
                name.to_owned()
            } else {
                format!("{known}+{name}")
            };
        }
        names
    }

    /// Starts tracing, with buffers of `buffer_bytes` over all CPUs.
    pub fn start(&self, buffer_bytes: u64) -> Result<BlockTrace, Failure> {
        let options = TraceOptions {
            buffer_bytes,
            queue: true,
            bios_done: self.has_bios,
            ..TraceOptions::default()
        };
        tracing::start(&self.positions, options).map_err(Failure::environment)
    }

    /// Traces for `seconds`, or until a signal, including SIGHUP.
    pub fn follow(
        &self,
        mut trace: BlockTrace,
        seconds: Option<u32>,
        end_signals: &EndSignals,
        sink: &mut RequestSink<'_>,
    ) -> Result<TraceResult, Failure> {
        let begin_ns = monotonic_ns();
        let end_ns = seconds.map_or(u64::MAX, |seconds| {
            begin_ns + u64::from(seconds) * 1_000_000_000
        });
        let is_terminal = io::stdout().is_terminal();
        let mut pending_events = Vec::new();
        let mut pairing = Pairing::default();
        let mut last_check_ns = begin_ns;
        let mut removed_device = None;
        let mut is_sink_open = true;
        let mut now_ns = begin_ns;
        while is_sink_open
            && removed_device.is_none()
            && now_ns < end_ns
            && end_signals.received().is_none()
        {
            end_signals.wait(READ_EVERY.min(Duration::from_nanos(end_ns - now_ns)));
            now_ns = monotonic_ns();
            tracing::read(&mut trace, &self.positions, &mut pending_events)
                .map_err(Failure::environment)?;
            pair_events(
                &mut pending_events,
                now_ns.saturating_sub(SETTLED_AFTER_NS),
                &mut pairing,
            );
            is_sink_open = self.pass_requests(&mut pairing, sink)?;
            if now_ns.saturating_sub(last_check_ns) >= LOOK_EVERY_NS {
                last_check_ns = now_ns;
                removed_device = self.gone();
                is_sink_open = is_sink_open && (!is_terminal || io::stdout().is_terminal());
            }
        }
        trace.stop().map_err(Failure::environment)?;
        let seconds = monotonic_ns().saturating_sub(begin_ns) as f64 / 1e9;
        tracing::read(&mut trace, &self.positions, &mut pending_events)
            .map_err(Failure::environment)?;
        let lost = trace.lost().map_err(Failure::environment)?.events();
        // Removes the kernel's trace instance before anything else can fail.
        drop(trace);
        pair_events(&mut pending_events, u64::MAX, &mut pairing);
        pairing.finish();
        self.pass_requests(&mut pairing, sink)?;
        Ok(TraceResult {
            seconds,
            lost,
            removed_device,
        })
    }

    fn pass_requests(
        &self,
        pairing: &mut Pairing,
        sink: &mut RequestSink<'_>,
    ) -> Result<bool, Failure> {
        // On a disk with partitions, only requests to traced partitions count. A flush concerns the whole disk.
        let requests: Vec<_> = pairing
            .drain()
            .filter(|request: &BlockRequest| {
                let on = |place: &&BlockPosition| place.disk == request.device;
                self.positions
                    .iter()
                    .filter(on)
                    .any(|place| request.sectors == 0 || place.sectors.contains(&request.sector))
            })
            .collect();
        sink(&requests)
    }

    /// Name of a device that has disappeared, or has no medium.
    fn gone(&self) -> Option<String> {
        let gone = self.positions.iter().position(|place: &BlockPosition| {
            let size =
                std::fs::read_to_string(format!("/sys/dev/block/{}/size", place.device_number));
            !size.is_ok_and(|size| size.trim() != "0")
        });
        gone.map(|at| self.names[at].clone())
    }
}

/// Matches issues with completions among the `pending_events` with a time before `until_ns`.
fn pair_events(pending_events: &mut Vec<TraceEvent>, until_ns: u64, pairing: &mut Pairing) {
    sort_by_time(pending_events);
    let settled_count = pending_events.partition_point(|event| event.time_ns < until_ns);
    pending_events
        .drain(..settled_count)
        .for_each(|event| pairing.add(&event));
}

fn place(index: usize, name: &str, facts: &DeviceFacts) -> Result<BlockPosition, Failure> {
    let why = match facts.kind {
        Kind::RegularFile => {
            "it is a file, which has no requests of its own; name the device of its file system (findmnt -T FILE), or \
             give --from FILE to read a recorded trace"
        }
        Kind::Simulated => {
            "it is a simulated drive, which the kernel does not see; name a block device"
        }
        _ if facts.size_bytes == 0 => {
            "its size is 0: no medium or file is attached; name another device"
        }
        Kind::WholeDisk | Kind::Partition => {
            let none = || Failure::usage(format!("cannot trace {name} - it has no device number"));
            return BlockPosition::for_device(index, facts).ok_or_else(none);
        }
    };
    Err(Failure::usage(format!("cannot trace {name} - {why}")))
}
