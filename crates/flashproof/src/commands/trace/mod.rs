//! `flashproof trace`: shows the requests that reach a device: size, process, and the times of kernel and device.
//!
//! ```text
//! tracepoints --live---> \
//!                         requests -> summary -> tables, heat map, CSV, JSON
//! text of a trace ------> /       \-> one line each (--ops)
//! ```

mod show;
mod summary;

use crate::args::TraceArgs;
use device::discover::{DeviceFacts, Kind, Roots, discover};
use device::observe::DeviceNumber;
use device::observe::trace::{Event, LOST_COMMENT, Options, Pairing, Request, Trace, has_requests, sort_by_time};
use procedures::configuration::read_trace;
use results::units::{self, quoted};
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

/// Traces devices, or reads a trace, and shows the result.
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
    let subject = TracedDevices::of(&args.devices)?;
    let ending =
        EndSignals::listen("no result is shown; the next trace removes the tracefs instance of this one".to_owned())?;
    let trace = subject.start(args.buffer << 20)?;
    // Printed only now: everything after this line is in the trace.
    let length =
        args.duration.map_or("until Ctrl-C".to_owned(), |seconds| format!("for {}", units::span(seconds.into())));
    console::note(&format!("tracing {} {length}", args.devices.join(", ")));
    let mut summary = Summary::default();
    let traced = subject.follow(trace, args.duration, &ending, &mut |requests| {
        requests.iter().for_each(|request| summary.add(request));
        print_ops(args, requests)
    })?;
    let shown =
        TraceReport { summary: &summary, names: subject.names(), seconds: Some(traced.seconds), lost: traced.lost };
    if traced.lost > 0 {
        console::warning(&format!(
            "{} lost, because the buffers of {} MiB were full or were written while being read: counts are too low - \
             trace fewer devices, or give a larger --buffer",
            units::count(traced.lost, "event"),
            args.buffer
        ));
    }
    finish(args, &shown)?;
    match traced.gone {
        None => Ok(ExitCode::SUCCESS),
        Some(name) => Err(Failure::environment(format!(
            "tracing {name} ended after {} s - the device disappeared - the result covers the time before; see the \
             kernel log (dmesg) for the reason",
            units::number(traced.seconds)
        ))),
    }
}

fn from_text(args: &TraceArgs, name: &str) -> Result<ExitCode, Failure> {
    let wanted = args.devices.iter().map(|device| number(device)).collect::<Result<Vec<_>, _>>()?;
    let mut summary = Summary::default();
    let (mut failure, mut batch) = (None, Vec::new());
    let facts = read_trace(name, &mut |request| {
        if failure.is_some() || !(wanted.is_empty() || wanted.contains(&request.device)) {
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
    finish(args, &TraceReport { summary: &summary, names: BTreeMap::new(), seconds, lost: facts.lost })?;
    Ok(ExitCode::SUCCESS)
}

/// Prints operations, if requested; false if the reader is gone.
fn print_ops(args: &TraceArgs, requests: &[Request]) -> Result<bool, Failure> {
    if !args.ops || requests.is_empty() {
        return Ok(true);
    }
    console::result_if_read(&requests.iter().map(show::op).collect::<String>())
}

/// Shows the result in the requested forms.
fn finish(args: &TraceArgs, shown: &TraceReport<'_>) -> Result<(), Failure> {
    if shown.summary.left_out > 0 {
        console::warning(&format!(
            "{} are in no table: the trace has more devices or sizes than fit into memory - trace fewer devices",
            units::count(shown.summary.left_out, "request")
        ));
    }
    if let Some(path) = &args.csv {
        write_file("table", path, Some(&shown.csv()?), args.force)?;
        console::note(&format!("wrote {}", path.display()));
    }
    if args.ops {
        // Lost events are reported in the same output as the operations.
        return match shown.lost {
            0 => Ok(()),
            lost => console::result(&format!("{LOST_COMMENT} {lost}\n")),
        };
    }
    if args.json {
        return console::result(&super::json(&shown.json())?);
    }
    let page = shown.text(false);
    match console::has_colour() {
        false => console::result(&page),
        // Colours are escape sequences, which are not allowed in other text.
        true => console::drawing_if_read(&shown.text(true)).map(|_| ()),
    }
}

/// Parses the number of a device in a recorded trace: `7,2` or `7:2`.
fn number(text: &str) -> Result<DeviceNumber, Failure> {
    let number =
        text.split_once([',', ':']).and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
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

/// Devices to trace.
#[derive(Debug)]
pub struct TracedDevices {
    places: Vec<BlockPosition>,
    names: Vec<String>,
    /// True if a device has no requests, only bios.
    bios: bool,
}

/// Takes completed requests, and returns false when no more are wanted.
type Sink<'a> = dyn FnMut(&[Request]) -> Result<bool, Failure> + 'a;

/// Result of a trace.
#[derive(Debug)]
pub struct TraceResult {
    pub seconds: f64,
    /// Events that the kernel dropped.
    pub lost: u64,
    /// Name of a device that disappeared.
    pub gone: Option<String>,
}

impl TracedDevices {
    /// The devices of these names. Warns about limitations.
    ///
    /// Errors: a name is not that of a block device.
    pub fn of(devices: &[String]) -> Result<Self, Failure> {
        let (mut places, mut bios) = (Vec::new(), false);
        for (index, name) in devices.iter().enumerate() {
            let facts = discover(name, &Roots::default())
                .map_err(|error| Failure::environment(format!("cannot trace {name} - {error}")))?;
            let place = place(index, name, &facts)?;
            if !has_requests(Path::new("/"), place.disk) {
                bios = true;
                console::note(&format!(
                    "{name}: its driver handles bios and has no requests; bios are shown, and all of their time counts \
                     as device time - to see queue times, trace the devices beneath it"
                ));
            }
            places.push(place);
        }
        Ok(Self { places, names: devices.to_vec(), bios })
    }

    /// Name of each disk: the given name, or several if partitions share it.
    pub fn names(&self) -> BTreeMap<DeviceNumber, String> {
        let mut names: BTreeMap<DeviceNumber, String> = BTreeMap::new();
        for (place, name) in self.places.iter().zip(&self.names) {
            let name = name.strip_prefix("/dev/").unwrap_or(name);
            let known = names.entry(place.disk).or_default();
            *known = if known.is_empty() { name.to_owned() } else { format!("{known}+{name}") };
        }
        names
    }

    /// Starts tracing, with buffers of `buffer_bytes` over all CPUs.
    pub fn start(&self, buffer_bytes: u64) -> Result<Trace, Failure> {
        let options = Options { buffer_bytes, queue: true, bios_done: self.bios, ..Options::default() };
        tracing::start(&self.places, options).map_err(Failure::environment)
    }

    /// Traces for `seconds`, or until a signal, including SIGHUP.
    pub fn follow(
        &self,
        mut trace: Trace,
        seconds: Option<u32>,
        ending: &EndSignals,
        sink: &mut Sink<'_>,
    ) -> Result<TraceResult, Failure> {
        let begin_ns = monotonic_ns();
        let end_ns = seconds.map_or(u64::MAX, |seconds| begin_ns + u64::from(seconds) * 1_000_000_000);
        let on_terminal = io::stdout().is_terminal();
        let (mut held, mut pairing, mut looked_ns) = (Vec::new(), Pairing::default(), begin_ns);
        let mut gone = None;
        let mut wanted = true;
        let mut now_ns = begin_ns;
        while wanted && gone.is_none() && now_ns < end_ns && ending.received().is_none() {
            ending.wait(READ_EVERY.min(Duration::from_nanos(end_ns - now_ns)));
            now_ns = monotonic_ns();
            tracing::read(&mut trace, &self.places, &mut held).map_err(Failure::environment)?;
            wanted = self.process_events(&mut held, now_ns.saturating_sub(SETTLED_AFTER_NS), &mut pairing, sink)?;
            if now_ns.saturating_sub(looked_ns) >= LOOK_EVERY_NS {
                looked_ns = now_ns;
                gone = self.gone();
                wanted = wanted && (!on_terminal || io::stdout().is_terminal());
            }
        }
        trace.stop().map_err(Failure::environment)?;
        let seconds = monotonic_ns().saturating_sub(begin_ns) as f64 / 1e9;
        tracing::read(&mut trace, &self.places, &mut held).map_err(Failure::environment)?;
        let lost = trace.lost().map_err(Failure::environment)?.events();
        // Removes the kernel's trace instance before anything else can fail.
        drop(trace);
        self.process_events(&mut held, u64::MAX, &mut pairing, sink)?;
        pairing.finish();
        self.pass_requests(&mut pairing, sink)?;
        Ok(TraceResult { seconds, lost, gone })
    }

    /// Pairs the events of `held` before `until_ns`, and passes completed requests to `sink`.
    fn process_events(
        &self,
        held: &mut Vec<Event>,
        until_ns: u64,
        pairing: &mut Pairing,
        sink: &mut Sink<'_>,
    ) -> Result<bool, Failure> {
        sort_by_time(held);
        let settled = held.partition_point(|event| event.time_ns < until_ns);
        held.drain(..settled).for_each(|event| pairing.add(&event));
        self.pass_requests(pairing, sink)
    }

    fn pass_requests(&self, pairing: &mut Pairing, sink: &mut Sink<'_>) -> Result<bool, Failure> {
        // On a disk with partitions, only requests to traced partitions; a flush concerns the whole disk.
        let ours = |request: &Request| {
            let on = |place: &&BlockPosition| place.disk == request.device;
            self.places.iter().filter(on).any(|place| request.sectors == 0 || place.sectors.contains(&request.sector))
        };
        let requests: Vec<_> = pairing.drain().filter(ours).collect();
        sink(&requests)
    }

    /// Name of a device that has disappeared, or has no medium.
    fn gone(&self) -> Option<String> {
        let is_there = |place: &BlockPosition| {
            let (major, minor) = place.device_number;
            let size = std::fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/size"));
            size.is_ok_and(|size| size.trim() != "0")
        };
        self.places.iter().position(|place| !is_there(place)).map(|at| self.names[at].clone())
    }
}

fn place(index: usize, name: &str, facts: &DeviceFacts) -> Result<BlockPosition, Failure> {
    let why = match facts.kind {
        Kind::RegularFile => {
            "it is a file, which has no requests of its own; name the device of its file system (findmnt -T FILE)"
        }
        Kind::Simulated => "it is a simulated drive, which the kernel does not see; name a block device",
        _ if facts.size_bytes == 0 => "its size is 0: no medium or file is attached; name another device",
        Kind::WholeDisk | Kind::Partition => {
            let none = || Failure::usage(format!("cannot trace {name} - it has no device number"));
            return BlockPosition::of(index, facts).ok_or_else(none);
        }
    };
    Err(Failure::usage(format!("cannot trace {name} - {why}")))
}
