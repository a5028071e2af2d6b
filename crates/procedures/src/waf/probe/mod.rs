//! A probe: how a drive's firmware treats placement handles.
//!
//! * `real`: writes, deallocations and counters of a real drive

mod real;

use super::simulated;
use device::discover::{DeviceFacts, Kind};
use device::observe::nvme::fdp::{Configuration, Fdp, Isolation, PlacementHandle};
use device::observe::nvme::{Controller, CountedBy};
use engine::DeviceName;
use ftl::Ftl;
use load::waf::probe::{Phase, Probe, Simulated, probe};
use report::table::{Cell, Table};
use results::units::{bytes, count, in_one_line, printable, quoted, wrapped};
use serde::Serialize;
use serde_json::{Value, json};
use session::failure::Failure;
use session::runner;
use std::path::Path;
use sys::op::Placement;

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

/// One hot stream and two cold ones.
const HANDLES_MAX: usize = 3;

/// Minimum size of the namespace in reclaim units: the hot stream then fills and invalidates four.
const RECLAIM_UNITS_MIN: u64 = 9;

/// A namespace that can be probed.
pub(super) struct Subject {
    pub facts: DeviceFacts,
    pub controller: Controller,
    /// Log page of the counters.
    pub counted_by: CountedBy,
    /// Placements of the probe's handles, and the handles that they stand for.
    pub handles: Vec<(Placement, PlacementHandle)>,
    /// FDP configuration.
    pub configuration: Configuration,
}

impl Subject {
    /// The namespace of `facts`. Errors: why it cannot be probed, and what to do.
    pub(super) fn of(facts: DeviceFacts) -> Result<Self, Failure> {
        let cannot = |why: &str| format!("cannot probe {} - {why}", in_one_line(&facts.path));
        let refused = |why: &str| Failure::environment(cannot(why));
        if let Some(part) = &facts.partition {
            return Err(Failure::usage(cannot(&format!(
                "it is a partition, and the rest of the namespace would be flash that the firmware need not collect, or data \
                 of others that it moves: only the whole shows what it does - name /dev/{}",
                part.disk
            ))));
        }
        if facts.kind != Kind::WholeDisk || !facts.is_nvme() {
            return Err(Failure::usage(cannot(
                "it is no NVMe drive, and what is to be seen is what a firmware does with placement handles - name one with \
                 FDP (`flashproof doctor`), or a simulated drive: sim:ftl+handles=3",
            )));
        }
        if facts.max_discard_bytes.unwrap_or(0) == 0 {
            return Err(refused("it takes no deallocation, with which each part of the probe begins - name another"));
        }
        let fdp = Fdp::of(Path::new("/"), &facts).map_err(|why| refused(&format!("{why} - run as root")))?;
        let fdp = fdp.ok_or_else(|| refused("it has no FDP, so no write names a handle - name a drive that has"))?;
        let number = facts.number.ok_or_else(|| refused("the kernel tells no number of it - is it still there?"))?;
        let controller = Controller::find(Path::new("/"), (number.major, number.minor))
            .ok_or_else(|| refused("its controller cannot be opened - run as root"))?;
        let handles = distinct(&fdp.placement);
        let configuration = match (handles.len(), fdp.configuration()) {
            (0, _) => {
                let why = fdp.hindrance().map_or_else(
                    || format!("not known is {} - run as root", fdp.unknown.join(", ")),
                    |why| format!("{why} - `flashproof waf setup DEVICE` prints the commands that change it"),
                );
                return Err(refused(&why));
            }
            (1, _) => {
                return Err(refused(
                    "its namespace may write by 1 placement handle, and what is to be seen is whether one keeps its data from \
                     another's - create it with 2 or more (`flashproof waf setup DEVICE`)",
                ));
            }
            (_, None) => return Err(refused("it does not tell its FDP configuration - run as root")),
            (_, Some(configuration)) => configuration.clone(),
        };
        let room = facts.size_bytes.checked_div(configuration.reclaim_unit_bytes).unwrap_or(u64::MAX);
        if room < RECLAIM_UNITS_MIN {
            return Err(refused(&format!(
                "its namespace of {} holds {} of {}, and streams that fill few of them show nothing - create it with room for \
                 {RECLAIM_UNITS_MIN} or more",
                bytes(facts.size_bytes as f64),
                count(room, "reclaim unit"),
                bytes(configuration.reclaim_unit_bytes as f64)
            )));
        }
        match controller.counted() {
            Ok(Some((_, counted_by))) => Ok(Self { facts, controller, counted_by, handles, configuration }),
            Ok(None) => Err(refused(
                "no log of it counts the bytes that its media take (FDP statistics, OCP's SMART log), of which alone the \
                 result is made - look for newer firmware",
            )),
            Err(error) => Err(refused(&format!("its counters cannot be read: {error} - run as root"))),
        }
    }

    /// Description of the namespace, a line each.
    pub(super) fn about(&self) -> Vec<String> {
        let DeviceFacts { path, model, serial, firmware, size_bytes, .. } = &self.facts;
        let known = |what: &Option<String>| what.as_deref().map_or("unknown".to_owned(), |it| printable(it).into());
        let [model, serial, firmware] = [model, serial, firmware].map(known);
        let handles: Vec<_> = self.handles.iter().map(|(_, handle)| self.handle(handle)).collect();
        vec![
            format!(
                "{}: {model}, serial {serial}, firmware {firmware}, {}",
                in_one_line(path),
                bytes(*size_bytes as f64)
            ),
            format!(
                "reclaim unit handles {}; reclaim units of {}",
                handles.join(", "),
                bytes(self.configuration.reclaim_unit_bytes as f64)
            ),
        ]
    }

    /// True if the drive may move data of one of the handles together with data of others.
    pub(super) fn may_mix(&self) -> bool {
        self.handles.iter().any(|(_, handle)| self.isolation(handle) == Isolation::Initially)
    }

    fn isolation(&self, handle: &PlacementHandle) -> Isolation {
        let isolation = self.configuration.handles.get(usize::from(handle.reclaim_unit_handle));
        isolation.copied().unwrap_or(Isolation::Unknown)
    }

    fn handle(&self, handle: &PlacementHandle) -> String {
        let number = handle.reclaim_unit_handle;
        match self.isolation(handle) {
            Isolation::Initially => format!("{number} (initially isolated)"),
            Isolation::Persistently => format!("{number} (persistently isolated)"),
            Isolation::Unknown => number.to_string(),
        }
    }
}

/// First list entries with different reclaim unit handles: the list repeats each handle for every further reclaim
/// group.
fn distinct(list: &[PlacementHandle]) -> Vec<(Placement, PlacementHandle)> {
    let mut found: Vec<(Placement, PlacementHandle)> = Vec::new();
    for (place, handle) in (1..).zip(list) {
        if found.iter().all(|(_, other)| other.reclaim_unit_handle != handle.reclaim_unit_handle) {
            found.push((Placement(place), *handle));
        }
    }
    found.truncate(HANDLES_MAX);
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use device::discover::{Roots, discover};

    #[test]
    fn a_handle_is_taken_once_whatever_the_number_of_reclaim_groups() {
        let handle = |placement_id, reclaim_unit_handle| PlacementHandle {
            placement_id,
            reclaim_unit_handle,
            reclaim_unit_blocks_left: 0,
        };
        let list = [handle(0, 4), handle(0x100, 4), handle(1, 6), handle(2, 5), handle(3, 7)];
        let places: Vec<_> = distinct(&list).iter().map(|(place, it)| (place.0, it.reclaim_unit_handle)).collect();
        assert_eq!(places, [(1, 4), (3, 6), (4, 5)]);
    }

    #[test]
    fn a_file_is_no_drive() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let facts = discover(file.path().to_str().unwrap(), &Roots::default()).unwrap();
        let why = Subject::of(facts).err().unwrap().message;
        assert!(why.starts_with("cannot probe /") && why.contains("it is no NVMe drive"), "{why}");
    }
}
