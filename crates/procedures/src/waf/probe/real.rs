//! Probe of a real drive: writes of one size with placement handles, several in flight; deallocations; and the
//! drive's counters after all writes are complete and flushed.

use super::{COMMAND_BYTES, ProbeReport, Subject};
use device::discover::{Roots, discover};
use device::guard::{Records, Request, unix_s};
use device::salt::Salt;
use device::target::Target;
use engine::{BlockEngine, Wait};
use load::run::{Cause, Control};
use load::waf::probe::{self, Behaviour, DRIVE_FILLS, Ended, Probe, Probed};
use results::units::{bytes, clock, in_one_line, number};
use results::waf::Bytes;
use serde_json::json;
use session::devices::{Devices, consent};
use session::engine::{Demand, Engine, Single};
use session::failure::Failure;
use session::progress::Written;
use session::signals::{Switch, name};
use session::{Manner, console};
use std::sync::Arc;
use std::time::Instant;
use sys::buffer::Buf;
use sys::op::{Completion, Op, OpKind};

/// Writes in flight: 4 MiB, which keeps the dies of a large drive busy.
const IN_FLIGHT: usize = 32;

/// Probes the namespace at `path`, which erases it. Returns the results until the end, and the reason for an early
/// end.
pub(super) fn run(path: &str, seed: u64, erase: &[String]) -> Result<(ProbeReport, Result<(), Failure>), Failure> {
    let shown = in_one_line(path);
    let switch = Switch::install("nothing is kept of the probe", Manner::Own)?;
    let look = || {
        let facts = discover(path, &Roots::default());
        Subject::of(facts.map_err(|error| Failure::environment(format!("cannot probe {shown} - {error}")))?)
    };
    let before = look()?;
    let (size, fills) = (before.facts.size_bytes, DRIVE_FILLS);
    console::notice(&format!(
        "{shown}: the probe overwrites all of its {} and writes {} in all, {} times its size, in commands of {} KiB by {} placement \
         handles; SIGINT (Ctrl-C) ends it with what it found",
        bytes(size as f64),
        bytes(size as f64 * fills),
        number(fills),
        COMMAND_BYTES >> 10,
        before.handles.len()
    ));
    let request = Request { whole: true, odsync: false, ..Request::new(path, "probe of placement handles") };
    let target = Arc::new(Target::writable(consent(&[request], erase, &[])?.remove(0)));
    target.notes().iter().for_each(|note| console::warning(&format!("{shown}: {note}")));
    let subject = look()?;
    if subject.facts.identity() != before.facts.identity() || target.facts().identity() != before.facts.identity() {
        return Err(Failure::environment(format!("cannot probe {shown} - another drive took its place - start again")));
    }
    let placements = subject.handles.iter().map(|(placement, _)| Some(*placement)).collect();
    let demand = Demand { placements: vec![placements], ..Demand::default() };
    let devices = Devices::Real(vec![target.clone()]);
    let engine = Engine::choose(&demand, &devices)?;
    if let Some(identity) = target.facts().identity() {
        // A deallocated drive is no longer prepared, whatever happens to the probe.
        Records::open(None).forget_prepared(&identity).map_err(Failure::environment)?;
    }
    let control = Arc::new(Control::default());
    let _armed = switch.arm(vec![control.clone()]);
    let (began, began_unix_s) = (Instant::now(), unix_s());
    let total_bytes = (size as f64 * fills) as u64;
    let single = engine.single(&target, IN_FLIGHT, IN_FLIGHT * COMMAND_BYTES as usize);
    let (probe, ended) =
        match single.map_err(|error| Failure::environment(format!("cannot probe {shown} - {error}")))? {
            Single::Uring(engine) => Drive::new(*engine, &target, &subject, &control, total_bytes).probe(seed),
            Single::Passthrough(engine) => Drive::new(*engine, &target, &subject, &control, total_bytes).probe(seed),
        };
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
    report.ended_early = ended.as_ref().err().map(ToString::to_string);
    Ok((report, ended.map_err(|ended| early(&shown, ended))))
}

/// Reason for an early end, printed below the results so far.
fn early(path: &str, ended: Ended<Failure>) -> Failure {
    let message = format!("the probe of {path} ended before all was run - {ended}");
    match ended {
        Ended::Drive(failure) => failure.told(message),
        Ended::WentBack(_) | Ended::OtherCount { .. } => {
            Failure::invalid(format!("{message} - make sure that the drive has no other user, and start again"))
        }
    }
}

fn remarks(report: &ProbeReport, subject: &Subject) -> Vec<String> {
    let mut remarks = Vec::new();
    if report.probe.found.contains(&Behaviour::MixesHandles) && subject.may_mix() {
        remarks.push("the drive calls a handle initially isolated, which lets garbage collection mix it".to_owned());
    }
    let erased: u64 = report.probe.phases.iter().map(|phase| phase.counted.erased).sum();
    if erased == 0 && !report.probe.phases.is_empty() {
        remarks.push(
            "the drive counts nothing as erased: either it does not count that, or it had free flash for all that was written, \
             and then collected nothing that could have shown how"
                .to_owned(),
        );
    }
    remarks.push("what was on the drive is gone; `flashproof prep` makes it ready for a test".to_owned());
    remarks
}

/// The drive and the operations in flight.
struct Drive<'a, E> {
    engine: E,
    target: &'a Target,
    subject: &'a Subject,
    control: &'a Control,
    /// Buffers of random bytes not in flight, each with its token.
    free: Vec<(u32, Buf)>,
    completed: Vec<Completion>,
    progress: Written,
}

impl<'a, E: BlockEngine> Drive<'a, E> {
    fn new(engine: E, target: &'a Target, subject: &'a Subject, control: &'a Control, total_bytes: u64) -> Self {
        let (free, completed, progress) = (Vec::new(), Vec::new(), Written::new(target.name().to_owned(), total_bytes));
        Self { engine, target, subject, control, free, completed, progress }
    }

    /// Runs the whole probe.
    fn probe(mut self, seed: u64) -> (Probe, Result<(), Ended<Failure>>) {
        let mut salt = Salt::new(seed, 100, self.target.stamp_key().unwrap_or(0));
        for token in 0..IN_FLIGHT as u32 {
            // With fewer buffers, fewer writes are in flight; with none, the first write fails.
            let Some(mut buf) = self.engine.buffer(COMMAND_BYTES as usize) else { break };
            salt.fill(&mut buf);
            self.free.push((token, buf));
        }
        let handles = self.subject.handles.len() as u16;
        let ended = probe::probe(&mut self, handles, seed);
        // After a failure, waits for the operations in flight, if the drive still answers.
        let _ = self.drain();
        self.progress.end();
        ended
    }

    fn submit(&mut self, kind: OpKind, offset: u64, handle: Option<u16>) -> Result<(), Failure> {
        while self.free.is_empty() {
            self.reap()?;
        }
        let Some((token, buf)) = self.free.pop() else { return Ok(()) };
        let placement = handle.map(|handle| self.subject.handles[usize::from(handle)].0);
        let len = if kind.moves_data() { COMMAND_BYTES } else { 0 };
        self.engine.submit(Op { placement, token, ..Op::new(kind, offset, len, buf) });
        Ok(())
    }

    /// Waits for at least one completion, and checks the outcome of all.
    fn reap(&mut self) -> Result<(), Failure> {
        if self.engine.in_flight() == 0 {
            return Err(Failure::environment("there is no memory for writes"));
        }
        let until_ns = self.engine.now() + 1_000_000_000;
        let reaped = self.engine.reap(Wait { until_ns, completions: 1 }, &mut self.completed);
        reaped.map_err(|error| Failure::environment(format!("waiting for writes failed: {error}")))?;
        let mut failed = None;
        for Completion { token, buf, outcome, .. } in self.completed.drain(..) {
            if !outcome.is_done() {
                failed = Some(outcome);
            }
            self.free.push((token, buf));
        }
        match failed {
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

    fn check_asked(&self) -> Result<(), Failure> {
        match self.control.cause().filter(|_| self.control.stopped()) {
            Some(Cause::Asked { signal }) => Err(Failure::invalid(format!("{} came", name(signal)))),
            _ => Ok(()),
        }
    }
}

impl<E: BlockEngine> Probed for Drive<'_, E> {
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
            self.check_asked()?;
        }
        self.progress.add(COMMAND_BYTES.into());
        self.submit(OpKind::Write, command * u64::from(COMMAND_BYTES), Some(handle))
    }

    fn deallocate(&mut self, first: u64, commands: u64) -> Result<(), Failure> {
        self.drain()?;
        let [begin, end] = [first, first + commands].map(|command| command * u64::from(COMMAND_BYTES));
        for piece in self.target.discard(begin..end) {
            piece.map_err(|error| Failure::device(format!("{}: {error}", self.target.name())))?;
            self.check_asked()?;
        }
        Ok(())
    }

    fn counters(&mut self) -> Result<Bytes, Failure> {
        self.drain()?;
        self.submit(OpKind::Flush, 0, None)?;
        self.drain()?;
        match self.subject.controller.counted() {
            Ok(Some((bytes, by))) if by == self.subject.counted_by => Ok(bytes),
            Ok(_) => {
                Err(Failure::device(format!("{} has no {} any more", self.target.name(), self.subject.counted_by)))
            }
            Err(error) => {
                Err(Failure::device(format!("the counters of {} could not be read: {error}", self.target.name())))
            }
        }
    }
}
