//! A probe: how a drive's firmware treats placement handles.
//!
//! On a real drive: writes of one size, several in flight; deallocations; and the drive's counters after all writes are
//! complete and flushed.

use super::{controller_of, counter_log, describe_drive, simulated};
use device::discover::{DeviceFacts, Kind, discover};
use device::guard::{Records, Request, unix_s};
use device::observe::nvme::fdp::{Configuration, Fdp, Isolation, PlacementHandle};
use device::observe::nvme::{Controller, CounterSource};
use device::target::Target;
use engine::{BlockEngine, DeviceName, Wait};
use ftl::Ftl;
use load::run::{Control, EndCause};
use load::waf::probe::{Behaviour, DRIVE_FILLS, Phase, Probe, ProbeError, Probed, Simulated, probe};
use report::table::{Cell, Table};
use results::units::{bytes, clock, count, in_one_line, number, quoted, wrapped};
use results::written::Bytes;
use serde::Serialize;
use serde_json::{Value, json};
use session::devices::{Devices, consent};
use session::engine::{Demand, Engine};
use session::failure::Failure;
use session::progress::WriteProgress;
use session::signals::{SignalHandler, name};
use session::{CompatMode, console, runner};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;
use sys::buffer::Buf;
use sys::op::{Completion, Op, OpKind, Placement};
use sys::salt::Salt;

/// Size of the probe's writes, bytes.
const COMMAND_BYTES: u32 = 128 << 10;

/// Version of the fields. Raised when a field changes its meaning.
const FORMAT_VERSION: u32 = 1;

/// Result of a probe, for people, programs and a file.
#[derive(Debug, Serialize)]
pub struct ProbeReport {
    format_version: u32,
    made_by: String,
    /// The probed drive, and how it was probed.
    drive: Value,
    seed: u64,
    #[serde(flatten)]
    probe: Probe,
    /// Reason for an early end; `None` if the probe completed.
    ended_early: Option<String>,
    /// Caveats, each a sentence.
    remarks: Vec<String>,
    /// Description of the drive, a line each.
    #[serde(skip)]
    about: Vec<String>,
}

/// Probes the drive `name`, simulated or real; `erase` names a real drive that may be erased. Returns the results so
/// far, and the reason for an early end.
pub fn run(name: &str, seed: u64, erase: &[String]) -> Result<(ProbeReport, Result<(), Failure>), Failure> {
    match name.parse().map_err(Failure::usage)? {
        DeviceName::Simulated(..) => Ok((of_simulated(name, seed)?, Ok(()))),
        DeviceName::Path(path) => of_real(&path, seed, erase),
    }
}

fn of_simulated(name: &str, seed: u64) -> Result<ProbeReport, Failure> {
    let spec = simulated(name)?.1.spec;
    if spec.handles < 2 {
        return Err(Failure::usage(format!(
            "cannot probe {} - it has {} placement handle, and the probe tests if handles isolate their data from each \
             other - give it at least 2: handles=3",
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
    let (probe, result) = probe(&mut Simulated::new(ftl, COMMAND_BYTES), spec.handles, seed);
    result.map_err(Failure::invalid)?;
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

    /// The result for the screen; for a real drive, after a description of the drive.
    pub fn text(&self) -> String {
        let mut table = Table::new("").text(["streams", "handles"]).numbers(["written", "device WAF", "if isolated"]);
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
        text += &format!("{table}\nBehaviour of the firmware:\n");
        let unknown: Vec<_> = self.probe.unknown().collect();
        if self.probe.found.is_empty() && unknown.is_empty() {
            text += "  isolates: writes under one handle move no data of another handle, and sequential streams add no \
                     writes\n";
        }
        self.probe.found.iter().for_each(|found| text += &wrapped(found.sentence(), "  ", 110));
        let why = if self.ended_early.is_some() { "the probe ended early" } else { "the behaviour above hides it" };
        for behaviour in unknown {
            text += &wrapped(&format!("unknown, {why}: {}", behaviour.sentence()), "  ", 110);
        }
        self.remarks.iter().for_each(|remark| text += &wrapped(&format!("remark: {remark}"), "  ", 110));
        text
    }
}

/// Maximum number of handles in use: for one hot stream and two cold streams.
const HANDLES_MAX: usize = 3;

/// Minimum size of the namespace in reclaim units, so that the hot stream fills and invalidates four units.
const RECLAIM_UNITS_MIN: u64 = 9;

/// A namespace that can be probed.
struct ProbedDrive {
    facts: DeviceFacts,
    controller: Controller,
    /// Log page of the counters.
    counted_by: CounterSource,
    /// The probe's placements, and the handle of each.
    handles: Vec<(Placement, PlacementHandle)>,
    /// FDP configuration.
    configuration: Configuration,
}

impl ProbedDrive {
    /// The namespace of `facts`. Errors: why it cannot be probed, and what to do.
    fn of(facts: DeviceFacts) -> Result<Self, Failure> {
        let cannot = |why: &str| format!("cannot probe {} - {why}", in_one_line(&facts.path));
        let refused = |why: &str| Failure::environment(cannot(why));
        if let Some(part) = &facts.partition {
            return Err(Failure::usage(cannot(&format!(
                "it is a partition: the rest of the namespace is free flash, or data of others that the firmware \
                 moves, so only the whole namespace shows how the firmware behaves - name /dev/{}",
                part.disk
            ))));
        }
        if facts.kind != Kind::WholeDisk || !facts.is_nvme() {
            return Err(Failure::usage(cannot(
                "it is not an NVMe drive, and only these have placement handles - name an NVMe drive with FDP \
                 (`flashproof doctor`), or a simulated drive: sim:ftl+handles=3",
            )));
        }
        if facts.max_discard_bytes.unwrap_or(0) == 0 {
            return Err(refused(
                "it does not support deallocation, with which each part of the probe begins - name another drive",
            ));
        }
        let fdp = Fdp::of(Path::new("/"), &facts).map_err(|why| refused(&format!("{why} - run as root")))?;
        let fdp = fdp
            .ok_or_else(|| refused("it has no FDP, so writes cannot use placement handles - name a drive with FDP"))?;
        let controller = controller_of(&facts).map_err(refused)?;
        let handles = distinct(&fdp.placement);
        let configuration = match (handles.len(), fdp.configuration()) {
            (0, _) => {
                let why = fdp.why_no_handles().map_or_else(
                    || format!("this is unknown: {} - run as root", fdp.unknown.join(", ")),
                    |why| format!("{why} - `flashproof waf setup DEVICE` prints the commands that change it"),
                );
                return Err(refused(&why));
            }
            (1, _) => {
                return Err(refused(
                    "its namespace has only 1 placement handle, and the probe tests if handles isolate their data from \
                     each other - create it with 2 or more (`flashproof waf setup DEVICE`)",
                ));
            }
            (_, None) => return Err(refused("it does not report its FDP configuration - run as root")),
            (_, Some(configuration)) => configuration.clone(),
        };
        let room = facts.size_bytes.checked_div(configuration.reclaim_unit_bytes).unwrap_or(u64::MAX);
        if room < RECLAIM_UNITS_MIN {
            return Err(refused(&format!(
                "its namespace of {} has only {} of {}, too few for the streams of the probe - create it with room for \
                 {RECLAIM_UNITS_MIN} or more",
                bytes(facts.size_bytes as f64),
                count(room, "reclaim unit"),
                bytes(configuration.reclaim_unit_bytes as f64)
            )));
        }
        let no_log = "it has no log with media writes (FDP statistics, OCP's SMART log), which the probe needs - look \
                      for newer firmware";
        let counted_by = counter_log(&controller, no_log).map_err(|why| refused(&why))?;
        Ok(Self { facts, controller, counted_by, handles, configuration })
    }

    /// Description of the namespace, a line each.
    fn about(&self) -> Vec<String> {
        let handles: Vec<_> = self.handles.iter().map(|(_, handle)| self.handle(handle)).collect();
        vec![
            describe_drive(&self.facts),
            format!(
                "reclaim unit handles {}; reclaim units of {}",
                handles.join(", "),
                bytes(self.configuration.reclaim_unit_bytes as f64)
            ),
        ]
    }

    /// True if the drive may move data of one handle together with data of other handles.
    fn may_mix(&self) -> bool {
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

/// For each reclaim unit handle, the first entry of `list`, which repeats all handles for every further reclaim group.
fn distinct(list: &[PlacementHandle]) -> Vec<(Placement, PlacementHandle)> {
    let mut handles: Vec<(Placement, PlacementHandle)> = Vec::new();
    for (number, handle) in (1..).zip(list) {
        if handles.iter().all(|(_, other)| other.reclaim_unit_handle != handle.reclaim_unit_handle) {
            handles.push((Placement(number), *handle));
        }
    }
    handles.truncate(HANDLES_MAX);
    handles
}

/// Number of writes in flight: 4 MiB in total, which keeps the dies of a large drive busy.
const IN_FLIGHT: usize = 32;

/// Probes and erases the namespace at `path`. Returns the results so far, and the reason for an early end.
fn of_real(path: &str, seed: u64, erase: &[String]) -> Result<(ProbeReport, Result<(), Failure>), Failure> {
    let shown = in_one_line(path);
    let signal_handler = SignalHandler::install("no result of the probe is kept", CompatMode::Native)?;
    let inspect = || {
        let facts = discover(path, Path::new("/"));
        ProbedDrive::of(facts.map_err(|error| Failure::environment(format!("cannot probe {shown} - {error}")))?)
    };
    let initial = inspect()?;
    let (size, fills) = (initial.facts.size_bytes, DRIVE_FILLS);
    console::notice(&format!(
        "{shown}: the probe overwrites all of its {} and writes {} in total, {} times its size, in commands of {} KiB \
         by {} placement handles; SIGINT (Ctrl-C) ends the probe and shows its results so far",
        bytes(size as f64),
        bytes(size as f64 * fills),
        number(fills),
        COMMAND_BYTES >> 10,
        initial.handles.len()
    ));
    let request =
        Request { uses_whole_device: true, odsync: false, ..Request::new(path, "probe of placement handles") };
    let target = Arc::new(Target::writable(consent(&[request], erase, &[])?.remove(0)));
    target.notes().iter().for_each(|note| console::warning(&format!("{shown}: {note}")));
    let subject = inspect()?;
    if subject.facts.identity() != initial.facts.identity() || target.facts().identity() != initial.facts.identity() {
        return Err(Failure::environment(format!("cannot probe {shown} - another drive took its place - start again")));
    }
    let placements = subject.handles.iter().map(|(placement, _)| Some(*placement)).collect();
    let demand = Demand { placements: vec![placements], ..Demand::default() };
    let devices = Devices::Real(vec![target.clone()]);
    let engine = Engine::choose(&demand, &devices)?;
    if let Some(identity) = target.facts().identity() {
        // A deallocated drive no longer counts as prepared, whatever happens to the probe.
        Records::open(None).forget_prepared(&identity).map_err(Failure::environment)?;
    }
    let control = Arc::new(Control::default());
    let _armed = signal_handler.arm(vec![control.clone()]);
    let (began, began_unix_s) = (Instant::now(), unix_s());
    let total_bytes = (size as f64 * fills) as u64;
    let single = engine.single(&target, IN_FLIGHT, IN_FLIGHT * COMMAND_BYTES as usize);
    let single = single.map_err(|error| Failure::environment(format!("cannot probe {shown} - {error}")))?;
    let (probe, result) = ProbeIo::new(single, &target, &subject, &control, total_bytes).probe(seed);
    let mut about = subject.about();
    let carrier = engine.placement().map_or(String::new(), |carrier| format!("handles carried by {carrier}, "));
    about.push(format!("{carrier}counted by {}, in {}", subject.counted_by, clock(began.elapsed().as_secs())));
    let drive = json!({
        "device": path,
        "facts": subject.facts,
        "fdp_configuration": subject.configuration,
        "placement": subject.handles.iter().map(|(_, handle)| handle).collect::<Vec<_>>(),
        "engine": engine.value(),
        "counted_by": subject.counted_by,
        "began_unix_s": began_unix_s,
        "seconds": began.elapsed().as_secs_f64(),
    });
    let mut report = ProbeReport::new(probe, seed, drive, about);
    report.remarks = remarks(&report, &subject);
    report.ended_early = result.as_ref().err().map(ToString::to_string);
    Ok((report, result.map_err(|ended| early(&shown, ended))))
}

/// Reason for an early end, printed below the results so far.
fn early(path: &str, error: ProbeError<Failure>) -> Failure {
    let message = format!("the probe of {path} ended early - {error}");
    match error {
        ProbeError::Drive(failure) => failure.with_message(message),
        ProbeError::WentBack(_) | ProbeError::OtherCount { .. } => {
            Failure::invalid(format!("{message} - make sure that the drive has no other user, and start again"))
        }
    }
}

fn remarks(report: &ProbeReport, subject: &ProbedDrive) -> Vec<String> {
    let mut remarks = Vec::new();
    if report.probe.found.contains(&Behaviour::MixesHandles) && subject.may_mix() {
        remarks.push(
            "the drive reports a handle as initially isolated, so garbage collection may mix the \
             data of this handle with other data"
                .to_owned(),
        );
    }
    let erased: u64 = report.probe.phases.iter().map(|phase| phase.counted.erased).sum();
    if erased == 0 && !report.probe.phases.is_empty() {
        remarks.push(
            "the drive reports no erased bytes: either it does not count them, or it had free flash for all writes, \
             and then its garbage collection never ran"
                .to_owned(),
        );
    }
    remarks.push("all data on the drive are erased; `flashproof prep` prepares the drive for a test".to_owned());
    remarks
}

/// The drive and the operations in flight.
struct ProbeIo<'a, E> {
    engine: E,
    target: &'a Target,
    subject: &'a ProbedDrive,
    control: &'a Control,
    /// Buffers that are not in flight, filled with random bytes, each with its token.
    free_buffers: Vec<(u32, Buf)>,
    completed: Vec<Completion>,
    progress: WriteProgress,
}

impl<'a, E: BlockEngine> ProbeIo<'a, E> {
    fn new(engine: E, target: &'a Target, subject: &'a ProbedDrive, control: &'a Control, total_bytes: u64) -> Self {
        let (free_buffers, completed, progress) =
            (Vec::new(), Vec::new(), WriteProgress::new(target.name().to_owned(), total_bytes));
        Self { engine, target, subject, control, free_buffers, completed, progress }
    }

    /// Runs the whole probe.
    fn probe(mut self, seed: u64) -> (Probe, Result<(), ProbeError<Failure>>) {
        let mut salt = Salt::new(seed, 100, self.target.stamp_key().unwrap_or(0));
        for token in 0..IN_FLIGHT as u32 {
            // With fewer buffers, fewer writes are in flight; without any, the first write fails.
            let Some(mut buf) = self.engine.buffer(COMMAND_BYTES as usize) else { break };
            salt.fill(&mut buf);
            self.free_buffers.push((token, buf));
        }
        let handles = self.subject.handles.len() as u16;
        let ended = probe(&mut self, handles, seed);
        // After a failure, waits for the operations in flight, if the drive still answers.
        let _ = self.drain();
        self.progress.end();
        ended
    }

    fn submit(&mut self, kind: OpKind, offset: u64, handle: Option<u16>) -> Result<(), Failure> {
        while self.free_buffers.is_empty() {
            self.reap()?;
        }
        let Some((token, buf)) = self.free_buffers.pop() else { return Ok(()) };
        let placement = handle.map(|handle| self.subject.handles[usize::from(handle)].0);
        let len = if kind.moves_data() { COMMAND_BYTES } else { 0 };
        self.engine.submit(Op { placement, token, ..Op::new(kind, offset, len, buf) });
        Ok(())
    }

    /// Waits for at least one completion, and checks the outcome of all.
    fn reap(&mut self) -> Result<(), Failure> {
        if self.engine.in_flight() == 0 {
            return Err(Failure::environment("there is no memory for write buffers"));
        }
        let until_ns = self.engine.now() + 1_000_000_000;
        let reaped = self.engine.reap(Wait { until_ns, completions: 1 }, &mut self.completed);
        reaped.map_err(|error| Failure::environment(format!("cannot wait for writes - {error}")))?;
        let mut failed_outcome = None;
        for Completion { token, buf, outcome, .. } in self.completed.drain(..) {
            if !outcome.is_done() {
                failed_outcome = Some(outcome);
            }
            self.free_buffers.push((token, buf));
        }
        match failed_outcome {
            Some(outcome) => Err(Failure::device(format!("an operation on {} failed: {outcome}", self.target.name()))),
            None => Ok(()),
        }
    }

    fn drain(&mut self) -> Result<(), Failure> {
        while self.engine.in_flight() > 0 {
            self.reap()?;
        }
        Ok(())
    }

    fn check_interrupted(&self) -> Result<(), Failure> {
        match self.control.cause().filter(|_| self.control.stopped()) {
            Some(EndCause::Requested { signal }) => Err(Failure::invalid(format!("{} arrived", name(signal)))),
            _ => Ok(()),
        }
    }
}

impl<E: BlockEngine> Probed for ProbeIo<'_, E> {
    type Error = Failure;

    fn commands(&self) -> u64 {
        self.target.size_bytes() / u64::from(COMMAND_BYTES)
    }

    fn command_bytes(&self) -> u32 {
        COMMAND_BYTES
    }

    fn superblock_bytes(&self) -> u64 {
        self.subject.configuration.reclaim_unit_bytes
    }

    fn write(&mut self, command: u64, handle: u16) -> Result<(), Failure> {
        if self.control.stopped() {
            self.check_interrupted()?;
        }
        self.progress.add(COMMAND_BYTES.into());
        self.submit(OpKind::Write, command * u64::from(COMMAND_BYTES), Some(handle))
    }

    fn deallocate(&mut self, first: u64, commands: u64) -> Result<(), Failure> {
        self.drain()?;
        let [begin, end] = [first, first + commands].map(|command| command * u64::from(COMMAND_BYTES));
        for piece in self.target.discard(begin..end) {
            piece.map_err(|error| Failure::device(format!("{}: {error}", self.target.name())))?;
            self.check_interrupted()?;
        }
        Ok(())
    }

    fn counters(&mut self) -> Result<Bytes, Failure> {
        self.drain()?;
        self.submit(OpKind::Flush, 0, None)?;
        self.drain()?;
        match self.subject.controller.lifetime_bytes() {
            Ok(Some((bytes, by))) if by == self.subject.counted_by => Ok(bytes),
            Ok(_) => Err(Failure::device(format!("{} no longer has {}", self.target.name(), self.subject.counted_by))),
            Err(error) => {
                Err(Failure::device(format!("the counters of {} could not be read: {error}", self.target.name())))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use device::discover::discover;

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
        let facts = discover(file.path().to_str().unwrap(), Path::new("/")).unwrap();
        let why = ProbedDrive::of(facts).err().unwrap().message;
        assert!(why.starts_with("cannot probe /") && why.contains("it is not an NVMe drive"), "{why}");
    }
}
