//! A probe: how a drive's firmware treats placement handles.
//!
//! * `subject`: checks whether a real drive can be probed, and describes it
//! * `real`: writes, deallocations and counters of a real drive

mod real;
mod subject;

use super::simulated;
use engine::DeviceName;
use ftl::Ftl;
use load::waf::probe::{Phase, Probe, Simulated, probe};
use report::table::{Cell, Table};
use results::units::{bytes, quoted, wrapped};
use serde::Serialize;
use serde_json::{Value, json};
use session::failure::Failure;
use session::runner;

/// Size of the probe's writes.
const COMMAND_BYTES: u32 = 128 << 10;

/// Version of the fields. Raised when a field changes its meaning.
const FORMAT_VERSION: u32 = 1;

/// Result of a probe, for people, programs and a file.
#[derive(Debug, Serialize)]
pub struct ProbeReport {
    format_version: u32,
    made_by: String,
    /// The probed drive and the means of the probe.
    drive: Value,
    seed: u64,
    #[serde(flatten)]
    probe: Probe,
    /// Reason for an early end; none: the probe completed.
    ended_early: Option<String>,
    /// Caveats, each a sentence.
    remarks: Vec<String>,
    /// Description of the drive, a line each.
    #[serde(skip)]
    about: Vec<String>,
}

/// Probes the drive `name`, simulated or real; `erase` names a real drive that may be erased. Returns the results
/// until the end, and the reason for an early end.
pub fn run(name: &str, seed: u64, erase: &[String]) -> Result<(ProbeReport, Result<(), Failure>), Failure> {
    match name.parse().map_err(Failure::usage)? {
        DeviceName::Simulated(..) => Ok((of_simulated(name, seed)?, Ok(()))),
        DeviceName::Path(path) => real::run(&path, seed, erase),
    }
}

fn of_simulated(name: &str, seed: u64) -> Result<ProbeReport, Failure> {
    let spec = simulated(name)?.1.spec;
    if spec.handles < 2 {
        return Err(Failure::usage(format!(
            "cannot probe {} - it has {} placement handle, and what is to be seen is whether one keeps its data from \
             another's - give it at least 2: handles=3",
            quoted(name),
            spec.handles
        )));
    }
    load::memory::check(spec.memory_bytes()).map_err(|why| {
        Failure::environment(format!(
            "cannot simulate {} - {why} - choose a larger unit=, or less capacity",
            quoted(name)
        ))
    })?;
    let ftl =
        Ftl::new(&spec, seed).map_err(|why| Failure::usage(format!("cannot simulate {} - {why}", quoted(name))))?;
    let (probe, ended) = probe(&mut Simulated::new(ftl, COMMAND_BYTES), spec.handles, seed);
    ended.map_err(Failure::invalid)?;
    Ok(ProbeReport::new(probe, seed, json!({ "device": name }), Vec::new()))
}

impl ProbeReport {
    fn new(probe: Probe, seed: u64, drive: Value, about: Vec<String>) -> Self {
        let made_by = runner::tool();
        Self {
            format_version: FORMAT_VERSION,
            made_by,
            drive,
            seed,
            probe,
            ended_early: None,
            remarks: Vec::new(),
            about,
        }
    }

    /// The result for the screen; a real drive's is preceded by its description.
    pub fn text(&self) -> String {
        let mut table =
            Table::new("").text(["streams", "handles"]).numbers(["written", "device WAF", "if they isolate"]);
        for Phase { streams, handles, written_bytes, waf, isolated_waf_max, .. } in &self.probe.phases {
            table.row([
                Cell::from(*streams),
                (*handles).into(),
                bytes(*written_bytes as f64).into(),
                format!("{waf:.3}").into(),
                isolated_waf_max.map_or("-".to_owned(), |waf| format!("up to {waf:.3}")).into(),
            ]);
        }
        let mut text: String = self.about.iter().map(|line| format!("{line}\n")).collect();
        text += &format!("{table}\nWhat the firmware does:\n");
        let unknown: Vec<_> = self.probe.unknown().collect();
        if self.probe.found.is_empty() && unknown.is_empty() {
            text +=
                "  isolates: writes under one handle move no data of another's, and sequential streams cost nothing\n";
        }
        self.probe.found.iter().for_each(|found| text += &wrapped(found.sentence(), "  ", 110));
        let why = if self.ended_early.is_some() { "the probe ended before" } else { "it cannot be told beside that" };
        for behaviour in unknown {
            text += &wrapped(&format!("not known, {why}: {}", behaviour.sentence()), "  ", 110);
        }
        self.remarks.iter().for_each(|remark| text += &wrapped(&format!("remark: {remark}"), "  ", 110));
        text
    }
}
