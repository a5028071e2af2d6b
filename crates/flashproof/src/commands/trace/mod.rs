//! `flashproof trace`: shows the requests that reach a device: size, process, and the times of kernel and device.
//!
//! ```text
//! tracepoints --live---> \
//!                         requests -> summary -> tables, heat map, CSV, JSON
//! text of a trace ------> /       \-> one line each (--ops)
//! ```

mod heat;
mod live;
mod show;
mod summary;

use crate::args::TraceArgs;
use device::observe::DeviceNumber;
use device::observe::trace::{LOST_COMMENT, Request, Requests};
use live::Subject;
use results::act_log::Input;
use results::units::{self, quoted};
use session::console;
use session::failure::Failure;
use session::input;
use session::output_file::write_file;
use session::signals::Ending;
use show::Shown;
use std::collections::BTreeMap;
use std::process::ExitCode;
use summary::Summary;

/// Traces devices, or reads a trace, and shows the result.
pub fn run(args: &TraceArgs) -> Result<ExitCode, Failure> {
    if let Some(path) = &args.csv {
        // Checked before the wait.
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
    let subject = Subject::of(&args.devices)?;
    let ending =
        Ending::listen("nothing is shown of the trace; the next one removes what it set up in the kernel".to_owned())?;
    let trace = subject.start(args.buffer << 20)?;
    // Printed only now: everything after this line is in the trace.
    let length =
        args.duration.map_or("until Ctrl-C".to_owned(), |seconds| format!("for {}", units::span(seconds.into())));
    console::note(&format!("tracing {} {length}", args.devices.join(", ")));
    let mut summary = Summary::default();
    let traced = subject.follow(trace, args.duration, &ending, &mut |requests| {
        live::add_all(&mut summary, requests);
        print_ops(args, requests)
    })?;
    let shown = Shown { summary: &summary, names: subject.names(), seconds: Some(traced.seconds), lost: traced.lost };
    if traced.lost > 0 {
        console::warning(&format!(
            "{} lost, as the buffers of {} MiB were full or written to at the wrong moment: counts are too low - trace fewer devices, or give a larger --buffer",
            units::count(traced.lost, "event"),
            args.buffer
        ));
    }
    finish(args, &shown)?;
    match traced.gone {
        None => Ok(ExitCode::SUCCESS),
        Some(name) => Err(Failure::environment(format!(
            "tracing {name} ended after {} s - the device went away - what was seen until then is shown; look at the kernel log (dmesg) for the reason",
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
            "reading {name} - there is no request of {} in it - leave the devices away to see which there are",
            args.devices.join(", ")
        )));
    }
    let seconds = summary.span_sec();
    finish(args, &Shown { summary: &summary, names: BTreeMap::new(), seconds, lost: facts.lost })?;
    Ok(ExitCode::SUCCESS)
}

/// Reads the trace in the file `name`, of any format, and passes its requests to `sink`. Warns of limitations.
pub fn read_trace(name: &str, sink: &mut dyn FnMut(Request)) -> Result<Requests, Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure::usage(format!("reading {name} - {error}"));
    let bytes = input::open(name, "trace", "-")?;
    let mut input = Input::piped_to(bytes, "flashproof trace --from -").map_err(|error| failed(&error))?;
    let facts = Requests::read(&mut input, sink).map_err(|error| failed(&error))?;
    if input.is_cut() {
        console::warning(&format!("{name} is compressed and ends early: the part up to there is read"));
    }
    if let Some((line, text)) = &facts.first_unread {
        console::note(&format!(
            "{name}: {} of {} are no part of a block trace and were passed over; the first is line {line}: {}",
            units::Grouped(facts.unread_lines),
            units::count(facts.lines, "line"),
            quoted(text)
        ));
    }
    if facts.lost > 0 {
        console::warning(&format!(
            "{name}: {} lost when it was recorded: counts are too low - record it with larger buffers (trace-cmd -b, buffer_size_kb)",
            units::count(facts.lost, "event")
        ));
    }
    if facts.of_further_devices > 0 {
        console::warning(&format!(
            "{name}: {} of further devices than the first 256 passed over - give a part of the trace (grep)",
            units::count(facts.of_further_devices, "event")
        ));
    }
    if facts.without_size > 0 {
        console::warning(&format!(
            "{name}: places and sizes of {} are unknown, as iosnoop prints BLOCK + and BYTES 0 on recent kernels, and takes one \
             request in flight for another - record it with flashproof trace --ops",
            units::count(facts.without_size, "request")
        ));
    }
    if facts.without_time > 0 {
        console::warning(&format!(
            "{name}: it says not when {} began - record it with iosnoop -s, or with flashproof trace --ops",
            units::count(facts.without_time, "request")
        ));
    }
    Ok(facts)
}

/// Prints operations, if requested; false if the reader is gone.
fn print_ops(args: &TraceArgs, requests: &[Request]) -> Result<bool, Failure> {
    if !args.ops || requests.is_empty() {
        return Ok(true);
    }
    console::result_if_read(&requests.iter().map(show::op).collect::<String>())
}

/// Shows the result in the requested forms.
fn finish(args: &TraceArgs, shown: &Shown<'_>) -> Result<(), Failure> {
    if shown.summary.left_out > 0 {
        console::warning(&format!(
            "{} of further devices or sizes than fit into the memory set aside are in no table - trace fewer devices",
            units::count(shown.summary.left_out, "request")
        ));
    }
    if let Some(path) = &args.csv {
        write_file("table", path, Some(&shown.csv()?), args.force)?;
        console::note(&format!("wrote {}", path.display()));
    }
    if args.ops {
        // Reports lost events where the lines go.
        return match shown.lost {
            0 => Ok(()),
            lost => console::result(&format!("{LOST_COMMENT} {lost}\n")),
        };
    }
    if args.json {
        let json = serde_json::to_string_pretty(&shown.json()).map_err(Failure::environment)?;
        return console::result(&format!("{json}\n"));
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
            "looking for {} in a trace - devices of a trace that is read are numbers - give major,minor, such as 259,0",
            quoted(text)
        ))
    })
}
