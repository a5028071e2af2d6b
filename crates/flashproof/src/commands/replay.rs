//! `flashproof storage --replay TRACE`: replays a trace as a load, recorded and judged like any other.

use crate::args::StorageArgs;
use device::observe::DeviceNumber;
use load::workload::replay::{Replay, Trace, TraceBuilder};
use procedures::configuration::read_trace;
use results::units;
use session::Manner;
use session::console;
use session::devices;
use session::failure::Failure;
use session::record::record;
use session::runner::Named;
use std::process::ExitCode;

/// Reads and replays the trace.
pub fn run(args: &StorageArgs) -> Result<ExitCode, Failure> {
    let options = &args.replay;
    let name = options.replay.as_deref().unwrap_or_default();
    let names = devices::parsed(&args.test.device)?;
    let trace = trace(name, options.speed)?;
    check_devices(name, &trace, &args.test.device)?;
    if trace.left_out() > 0 {
        console::warning(&format!(
            "{name}: {} of other kinds are left out: passthrough commands, write zeroes",
            units::count(trace.left_out(), "operation")
        ));
    }
    let workload = Replay::new(trace, names, options.repeat, options.fit).map_err(Failure::usage)?;
    let text = format!("trace: {name}\n{}", workload.describe());
    if args.test.dry_run {
        console::result(&text)?;
        return Ok(ExitCode::SUCCESS);
    }
    console::note(text.trim_end());
    record("replay", args.test.record.out.as_deref(), args.test.request(Named::alone(workload, text)), Manner::Own)
}

fn trace(name: &str, speed: load::factor::Factor) -> Result<Trace, Failure> {
    let (mut builder, mut failed) = (TraceBuilder::default(), None);
    read_trace(name, &mut |request| {
        if failed.is_none() {
            failed = builder.add(&request).err();
        }
    })?;
    let trace = failed.map_or_else(|| builder.build(speed), Err);
    trace.map_err(|error| Failure::usage(format!("cannot replay {name} - {error}")))
}

/// Checks that each device of the trace has a target.
fn check_devices(name: &str, trace: &Trace, given: &[String]) -> Result<(), Failure> {
    let traced = trace.devices();
    if let Some(twice) = given.iter().enumerate().find(|(at, device)| given[..*at].contains(device)) {
        return Err(Failure::usage(format!(
            "cannot replay {name} - --device {} is given twice - give each once",
            twice.1
        )));
    }
    if traced.len() == given.len() {
        return Ok(());
    }
    let of = |device: &DeviceNumber| {
        let count = trace.on(*device).iter().map(|(_, group)| group.at_ns.len() as u64).sum();
        format!("{},{} ({})", device.0, device.1, units::count(count, "operation"))
    };
    Err(Failure::usage(format!(
        "cannot replay {name} - it is of {}: {}; {} given - give --device once for each, in this order, or replay the lines of one (grep)",
        units::count(traced.len() as u64, "device"),
        traced.iter().map(of).collect::<Vec<_>>().join(", "),
        given.len()
    )))
}
