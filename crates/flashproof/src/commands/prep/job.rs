//! The preparation of one device: its steps in order, each recorded when it is on the medium.
//!
//! Devices of one preparation share nothing: each has its own thread, run loop and record, so a slow or
//! broken one holds up no other.

use super::course::unix_s;
use super::status::{Shared, Step};
use crate::devices::Devices;
use crate::engine::{Engine, EngineFacts};
use crate::say;
use device::guard::{Prepared, Records, Sampled};
use device::salt::PlacedSalt;
use device::target::Target;
use load::plan::Plan;
use load::prep::{self, Compared, Content, SPOT_BYTES, Sample, Sweep};
use load::run::{Cause, Control, Failure, Run, RunError, Settings, Sink, SinkError};
use load::stream::Stream;
use measure::cell::Interval;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How often the screen hears of progress.
const INTERVAL_NS: u64 = 100_000_000;

/// How long operations in flight may take to come back when the preparation is broken off.
const DRAIN_NS: u64 = 30_000_000_000;

/// Bytes discarded at once, so that progress shows and a signal is answered.
const DISCARD_BYTES: u64 = 16 << 30;

/// Why a job ended before its end. The first that applies to any device decides the exit code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Broken {
    /// The device failed, or does not hold what was written: exit code 1.
    Device(String),
    /// The host did: exit code 3.
    Environment(String),
    /// Somebody asked for the end: exit code 4.
    Asked,
}

/// What came of a sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verified {
    /// All as written.
    Equal(Sampled),
    /// A simulated drive keeps nothing that could be read back.
    Simulated,
    /// Not wanted.
    No,
}

/// Where a preparation is recorded.
pub struct Ledger {
    pub records: Records,
    /// Of the device; without one nothing is recorded.
    pub identity: Option<String>,
    /// How often progress is put on the medium and recorded.
    pub every: Duration,
}

impl Ledger {
    fn keep(&self, prepared: &Prepared) -> Result<(), Broken> {
        let kept = self.identity.as_ref().map_or(Ok(()), |identity| self.records.keep_prepared(identity, prepared));
        kept.map_err(|error| Broken::Environment(error.to_string()))
    }
}

/// The preparation of one device, or its verification.
pub struct Job {
    pub name: String,
    /// The one device.
    pub devices: Devices,
    pub engine: Arc<Engine>,
    pub prepared: Prepared,
    /// Key of the stamps.
    pub key: u64,
    pub ledger: Ledger,
    /// Places to read back.
    pub samples: u64,
    pub control: Arc<Control>,
    pub status: Shared,
}

impl Job {
    /// Prepares the device, from where its record says that it is, and reads back a sample.
    pub fn prepare(mut self) -> Result<(Prepared, Verified), Broken> {
        let begun = self.prepared.passes_done > 0 || self.prepared.mark_bytes > 0;
        self.ledger.keep(&self.prepared)?;
        if !begun {
            self.discard()?;
        }
        while self.prepared.passes_done < self.prepared.passes() {
            self.pass()?;
        }
        let verified = self.verify()?;
        self.prepared.ended_unix_s = Some(unix_s());
        self.ledger.keep(&self.prepared)?;
        Ok((self.prepared, verified))
    }

    /// Reads back a sample of a device that was prepared before.
    pub fn verify_only(mut self) -> Result<(Prepared, Verified), Broken> {
        let verified = self.verify()?;
        Ok((self.prepared, verified))
    }

    fn target(&self) -> Option<&Arc<Target>> {
        match &self.devices {
            Devices::Real(targets) => targets.first(),
            Devices::Simulated(_) => None,
        }
    }

    /// Bytes to prepare, and those of them that direct I/O reaches.
    fn extent(&self) -> (u64, u64) {
        let used = self.prepared.used_bytes;
        let unit = self.target().map_or(1, |target| u64::from(target.min_io_bytes()));
        (used, used / unit * unit)
    }

    /// Discards all, or the part that is not to be used.
    fn discard(&mut self) -> Result<(), Broken> {
        let Prepared { discard_first, used_bytes, size_bytes, .. } = self.prepared;
        let from = if discard_first { 0 } else { used_bytes };
        if from == size_bytes {
            return Ok(());
        }
        let Some(target) = self.target().cloned() else { return Ok(()) };
        self.status.begin(Step::Discard, size_bytes - from, 0, 0);
        let mut at = from;
        while at < size_bytes {
            let len = DISCARD_BYTES.min(size_bytes - at);
            match target.discard(at, len) {
                Ok(()) => {}
                // Where all was to be discarded that was made sure of before.
                Err(error) if !discard_first && is_unsupported(&error) => {
                    say::warning(&format!(
                        "{}: it takes no discard ({error}), so its last {} bytes stay as they are: untouched, but not free for the drive",
                        self.name,
                        size_bytes - from
                    ));
                    return Ok(());
                }
                Err(error) => {
                    let name = &self.name;
                    return Err(Broken::Device(format!(
                        "discard of {len} bytes at byte {at} of {name} failed: {error}"
                    )));
                }
            }
            at += len;
            self.status.set_done(at - from);
            self.check_asked()?;
        }
        self.prepared.rest_discarded = used_bytes < size_bytes;
        self.ledger.keep(&self.prepared)
    }

    /// Writes the device once, from the mark on.
    fn pass(&mut self) -> Result<(), Broken> {
        let pass = self.prepared.passes_done;
        let content = self.content(self.prepared.fill_of(pass));
        let (used, reached) = self.extent();
        let from = self.prepared.mark_bytes;
        let step = self.prepared.fill_of(pass).map_or(Step::Zeros, Step::Salt);
        let later = u64::from(self.prepared.passes() - pass - 1) * used;
        self.status.begin(step, used, from, later);
        let mark = Arc::new(AtomicU64::new(from));
        let plan = prep::write_plan(Sweep::new(from..reached, mark.clone()), content);
        let ran = if from < reached { self.run(plan, Some(&mark)) } else { Ok(()) };
        // However it ended: what is written is kept.
        let kept = self.checkpoint(mark.load(Ordering::Acquire));
        ran.and(kept)?;
        self.write_remainder(reached, used, content)?;
        self.prepared.passes_done += 1;
        self.prepared.mark_bytes = 0;
        self.ledger.keep(&self.prepared)
    }

    /// Writes what direct I/O cannot: fewer bytes than its unit, at the end of a file.
    fn write_remainder(&self, reached: u64, used: u64, content: Content) -> Result<(), Broken> {
        let (Some(target), true) = (self.target(), reached < used) else { return Ok(()) };
        // From the last place at which salt can begin.
        let begin = reached / SPOT_BYTES as u64 * SPOT_BYTES as u64;
        let mut bytes = vec![0; (used - begin) as usize];
        content.put(&mut bytes, begin);
        let bytes = &bytes[(reached - begin) as usize..];
        target.write_remainder(bytes, reached).map_err(|error| {
            let (name, len) = (&self.name, bytes.len());
            Broken::Device(format!("write of {len} bytes at byte {reached} of {name} failed: {error}"))
        })
    }

    /// Puts on the medium what was written, and records that.
    fn checkpoint(&mut self, mark: u64) -> Result<(), Broken> {
        sync(self.target(), &self.name)?;
        self.prepared.mark_bytes = mark;
        self.ledger.keep(&self.prepared)
    }

    /// What pass number `fill` of salt writes; zeros without.
    fn content(&self, fill: Option<u32>) -> Content {
        fill.map_or(Content::Zeros, |fill| Content::Salt(PlacedSalt::new(self.prepared.seed, fill, self.key)))
    }

    /// Reads back a sample and compares it with what the last pass wrote.
    fn verify(&mut self) -> Result<Verified, Broken> {
        let Some(target) = self.target().cloned() else { return Ok(Verified::Simulated) };
        if self.samples == 0 {
            return Ok(Verified::No);
        }
        let content = self.content(Some(self.prepared.fills).filter(|fills| *fills > 0));
        let (used, reached) = self.extent();
        let compared = Arc::new(Compared::default());
        // Each time other places.
        let now = unix_s() ^ u64::from(std::process::id()) << 32;
        let sample = Sample::new(reached, self.samples, now, content, compared.clone());
        self.status.begin(Step::ReadBack, sample.spots() * SPOT_BYTES as u64, 0, 0);
        if reached > 0 {
            self.run(prep::read_plan(sample), None)?;
        }
        self.compare_remainder(&target, reached, used, content, &compared)?;
        let (spots, bytes, mismatches) = (compared.spots(), compared.bytes(), compared.mismatches());
        let sampled = Sampled { spots, bytes, mismatches, unix_s: unix_s() };
        self.prepared.sample = Some(sampled.clone());
        self.ledger.keep(&self.prepared)?;
        match compared.first_mismatch() {
            None => Ok(Verified::Equal(sampled)),
            Some(first) => Err(Broken::Device(format!(
                "{} does not hold what was written: {mismatches} of {spots} places read back differ, the first {first} - it lost or changed data, or somebody else wrote to it - do not trust it before you know which",
                self.name
            ))),
        }
    }

    fn compare_remainder(
        &self,
        target: &Target,
        reached: u64,
        used: u64,
        content: Content,
        compared: &Compared,
    ) -> Result<(), Broken> {
        if reached == used {
            return Ok(());
        }
        let begin = reached / SPOT_BYTES as u64 * SPOT_BYTES as u64;
        let (mut found, mut expected) = (vec![0; (used - reached) as usize], vec![0; (used - begin) as usize]);
        let failed = |error| {
            Broken::Device(format!(
                "read of {} bytes at byte {reached} of {} failed: {error}",
                used - reached,
                self.name
            ))
        };
        target.read_remainder(&mut found, reached).map_err(failed)?;
        content.put(&mut expected, begin);
        compared.compare(reached, &expected[(reached - begin) as usize..], &found);
        Ok(())
    }

    /// Runs `plan` until its stream ends. With a `mark`, records from time to time how far it is.
    fn run<S: Stream + Send>(&mut self, plan: Plan<S>, mark: Option<&Arc<AtomicU64>>) -> Result<(), Broken> {
        let facts = EngineFacts::unpaced(&self.engine);
        let settings = Settings {
            duration_ns: u64::MAX / 4,
            max_lag_ns: 0,
            errors_max: 0,
            pacing: facts.pacing(),
            drain_ns: DRAIN_NS,
        };
        let what =
            Run { layout: prep::layout(&self.name), settings, interval_ns: INTERVAL_NS, control: self.control.clone() };
        let target = self.target().cloned();
        let mut tracker = Tracker {
            name: &self.name,
            target: target.as_ref(),
            prepared: &mut self.prepared,
            ledger: &self.ledger,
            status: &self.status,
            mark: mark.map(Arc::as_ref),
            recorded: Instant::now(),
            ended_ns: 0,
            failure: None,
            broken: None,
        };
        let ran = self.engine.run(&what, vec![plan], &self.devices, 1, &facts, &mut tracker);
        if let Some(broken) = tracker.broken {
            return Err(broken);
        }
        if let Some(failure) = tracker.failure {
            return Err(Broken::Device(failure));
        }
        ran.map_err(|error: RunError| Broken::Environment(format!("{}: {error}", self.name)))?;
        self.check_asked()
    }

    /// Whether the end was asked for, or the run ended for another reason than the end of its stream.
    fn check_asked(&self) -> Result<(), Broken> {
        match self.control.cause() {
            None => Ok(()),
            Some(Cause::Asked { .. }) => Err(Broken::Asked),
            Some(Cause::Gone { error, .. }) => Err(Broken::Device(format!("{} is gone: {error}", self.name))),
            Some(Cause::Failed { message }) => Err(Broken::Environment(format!("{}: {message}", self.name))),
            Some(other) => Err(Broken::Device(format!("{}: {other:?}", self.name))),
        }
    }
}

fn is_unsupported(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::Unsupported || error.raw_os_error() == Some(libc::EOPNOTSUPP)
}

fn sync(target: Option<&Arc<Target>>, name: &str) -> Result<(), Broken> {
    let synced = target.map_or(Ok(()), |target| target.sync());
    synced.map_err(|error| Broken::Device(format!("{name} does not put on its medium what was written to it: {error}")))
}

/// Takes what a run yields: progress for the screen and for the record, and the first failure.
struct Tracker<'a> {
    name: &'a str,
    target: Option<&'a Arc<Target>>,
    prepared: &'a mut Prepared,
    ledger: &'a Ledger,
    status: &'a Shared,
    mark: Option<&'a AtomicU64>,
    recorded: Instant,
    ended_ns: u64,
    failure: Option<String>,
    broken: Option<Broken>,
}

impl Tracker<'_> {
    fn checkpoint(&mut self, mark: u64) -> Result<(), Broken> {
        // What the mark says was written before this sync.
        sync(self.target, self.name)?;
        self.prepared.mark_bytes = mark;
        self.ledger.keep(self.prepared)
    }
}

impl Sink for Tracker<'_> {
    fn ready(&mut self) -> Result<(), SinkError> {
        Ok(())
    }

    fn interval(&mut self, interval: &Interval) -> Result<(), SinkError> {
        let bytes = interval.cells.iter().map(|cell| cell.bytes).sum();
        self.status.add(bytes, interval.end_ns.saturating_sub(self.ended_ns));
        self.ended_ns = interval.end_ns;
        let Some(mark) = self.mark.map(|mark| mark.load(Ordering::Acquire)) else { return Ok(()) };
        if self.recorded.elapsed() < self.ledger.every || self.target.is_none() {
            return Ok(());
        }
        let kept = self.checkpoint(mark);
        self.recorded = Instant::now();
        kept.map_err(|broken| {
            let (Broken::Device(why) | Broken::Environment(why)) = &broken else { return "asked".into() };
            let why = why.clone();
            self.broken = Some(broken);
            why.into()
        })
    }

    fn failure(&mut self, failure: &Failure) {
        let Failure { kind, offset, len, error, .. } = failure;
        let kind = format!("{kind:?}").to_lowercase();
        let line = || format!("{kind} of {len} bytes at byte {offset} of {} failed: {error}", self.name);
        self.failure.get_or_insert_with(line);
    }

    fn idle(&mut self) {}
}
