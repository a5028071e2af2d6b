//! `flashproof storage --replay`: the operations of a recorded trace at their recorded times.

use crate::commands::storage::options::StorageArgs;
use crate::configuration::read_trace;
use crate::output::done;
use crate::record::record;
use load::replay::{Replay, Trace, TraceBuilder};
use load::workload::Workload;
use results::format;
use session::failure::Failure;
use session::runner::NamedWorkload;
use session::{CompatMode, console, devices};
use std::process::ExitCode;

pub fn run(args: &StorageArgs) -> Result<ExitCode, Failure> {
    let options = &args.replay;
    let name = options.replay.as_deref().unwrap_or_default();
    let names = devices::parsed(&args.test.device)?;
    let trace = trace(name, options.speed)?;
    check_devices(name, &trace, &args.test.device)?;
    if trace.left_out > 0 {
        console::warning(&format!(
            "{name}: {} are left out, because a replay cannot repeat their type, such as passthrough or write zeroes",
            format::count(trace.left_out, "operation")
        ));
    }
    let workload =
        Replay::new(trace, names, options.repeat, options.fit).map_err(Failure::usage)?;
    let text = format!("trace: {name}\n{}", workload.describe());
    if args.test.dry_run {
        devices::note_only_reads(workload.writes());
        return done(&text);
    }
    console::note(text.trim_end());
    record(
        "replay",
        args.test.record.out.as_deref(),
        &args.test.form,
        args.test.request(NamedWorkload::alone(workload, text)),
        CompatMode::Native,
    )
}

fn trace(name: &str, speed: load::factor::Factor) -> Result<Trace, Failure> {
    let mut builder = TraceBuilder::default();
    let mut failed = None;
    read_trace(name, &mut |request| {
        if failed.is_none() {
            failed = builder.add(&request).err();
        }
    })?;
    let trace = failed.map_or_else(|| builder.build(speed), Err);
    trace.map_err(|error| Failure::usage(format!("cannot replay {name} - {error}")))
}

/// Checks that `--device` names one target for each device of the trace, and none twice.
fn check_devices(name: &str, trace: &Trace, device_names: &[String]) -> Result<(), Failure> {
    let trace_devices = trace.devices();
    if let Some((_, twice)) = device_names
        .iter()
        .enumerate()
        .find(|(at, device)| device_names[..*at].contains(device))
    {
        return Err(Failure::usage(format!(
            "cannot replay {name} - --device {twice} is given twice - give each device once"
        )));
    }
    if trace_devices.len() == device_names.len() {
        return Ok(());
    }
    let mut device_texts = Vec::new();
    for device in &trace_devices {
        let streams = trace.streams_on(*device);
        let operations = streams.iter().map(|(_, group)| group.at_ns.len() as u64);
        device_texts.push(format!(
            "{} ({})",
            device.traced(),
            format::count(operations.sum(), "operation")
        ));
    }
    Err(Failure::usage(format!(
        "cannot replay {name} - the trace has {}: {}; --device names {} - give one --device for each, in this order, or \
         replay only the lines of one (grep)",
        format::count(trace_devices.len() as u64, "device"),
        device_texts.join(", "),
        device_names.len()
    )))
}
