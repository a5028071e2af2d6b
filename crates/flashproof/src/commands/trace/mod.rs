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
use device::observe::trace::{LOST_COMMENT, Request};
use live::Subject;
use procedures::configuration::read_trace;
use results::units::{self, quoted};
use session::console;
use session::failure::Failure;
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
