//! `flashproof waf --probe DEVICE`: what a drive's firmware does with its handles.

use super::simulated;
use crate::console;
use crate::failure::Failure;
use ftl::Ftl;
use load::waf::probe::{Probe, Simulated, probe};
use report::table::{Cell, Table};
use results::units::{bytes, quoted, wrapped};
use std::process::ExitCode;

/// Size of the probe's writes.
const COMMAND_BYTES: u32 = 128 << 10;

/// Probes the simulated drive `name`.
pub fn run(name: &str, seed: u64, json: bool) -> Result<ExitCode, Failure> {
    let spec = simulated(name)?.spec;
    if spec.handles < 2 {
        return Err(Failure::usage(format!(
            "cannot probe {} - it has {} placement handle, and what is to be seen is whether one keeps its data from \
             another's - give it at least 2: handles=3",
            quoted(name),
            spec.handles
        )));
    }
    let ftl =
        Ftl::new(&spec, seed).map_err(|why| Failure::usage(format!("cannot simulate {} - {why}", quoted(name))))?;
    let found = probe(&mut Simulated::new(ftl, COMMAND_BYTES), spec.handles, seed).map_err(Failure::invalid)?;
    console::result(&match json {
        true => serde_json::to_string_pretty(&found).map_err(Failure::environment)? + "\n",
        false => text(&found),
    })?;
    Ok(ExitCode::SUCCESS)
}

/// The result on the screen; that of a real drive looks the same.
pub fn text(probe: &Probe) -> String {
    let mut table = Table::new("").text(["streams", "handles"]).numbers(["written", "WAF", "if they isolate"]);
    for phase in &probe.phases {
        table.row([
            Cell::from(phase.streams),
            phase.handles.into(),
            bytes(phase.host_bytes as f64).into(),
            format!("{:.3}", phase.waf).into(),
            phase.isolated_waf.map_or("-".to_owned(), |waf| format!("{waf:.3}")).into(),
        ]);
    }
    let mut text = format!("{table}\nWhat the firmware does:\n");
    if probe.found.is_empty() {
        text += "  isolates: what is written under one handle moves no data of another's, and streams in order cost nothing\n";
    }
    probe.found.iter().for_each(|found| text += &wrapped(found.sentence(), "  ", 110));
    text
}
