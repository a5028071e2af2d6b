//! Preparation of one device: its steps in order, each recorded once its data are durable.
//!
//! Devices share nothing: each has its own thread, run loop and record, so that a slow or failing device delays no
//! other.
//!
//! A sample is read back and compared with the expected data at the end, and before a resume.

use super::ledger::Ledger;
use super::resume;
use super::status::{PrepStep, SharedStatus, Tracker};
use device::guard::{PreparationRecord, VerifiedSample, unix_s};
use device::target::Target;
use engine::DeviceName;
use load::prepare::{Compared, Content, Order, Pass, RandomPass, ReadBack, SPOT_BYTES};
use load::run::{Control, EndCause, RunConfig, RunError, Settings};
use load::workload::{BuildContext, RunPlan, Workload};
use session::console;
use session::devices::Devices;
use session::engine::{Engine, EngineFacts};
use session::failure::Failure;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use sys::salt::PlacedSalt;

/// Fill number in the random data of writes that a later write of the same pass overwrites. Random fills have numbers
/// from 1 on.
const OVERWRITTEN_FILL: u32 = 0;

/// Report interval of progress, nanoseconds.
const INTERVAL_NS: u64 = 100_000_000;

#[derive(Debug)]
pub(super) struct JobResult {
    pub prepared: PreparationRecord,
    pub verified: SampleResult,
    pub written: WriteTotals,
}

/// Bytes written, and the duration by the run's clock, which is virtual on simulated drives.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct WriteTotals {
    pub bytes: u64,
    pub ns: u64,
}

/// The preparation of one device, or its verification.
pub(super) struct Job {
    pub name: DeviceName,
    pub devices: Devices,
    pub engine: Arc<Engine>,
    pub prepared: PreparationRecord,
    /// Key of the stamps.
    pub key: u64,
    pub ledger: Ledger,
    /// Number of places to read back.
    pub samples: u64,
    pub control: Arc<Control>,
    pub status: SharedStatus,
    pub written: WriteTotals,
}

impl Job {
    /// Prepares the device from the recorded position on, and reads back a sample.
    pub(super) fn prepare(mut self) -> Result<JobResult, Failure> {
        let is_begun = self.prepared.passes_done > 0 || self.prepared.mark_bytes > 0;
        if is_begun {
            self.check_resumable()?;
        }
        self.ledger.begin(&self.prepared)?;
        if !is_begun {
            self.discard()?;
        }
        while self.prepared.passes_done < self.prepared.passes() {
            self.pass()?;
        }
        let verified = self.verify()?;
        self.prepared.ended_unix_s = Some(unix_s());
        self.ledger.keep(&self.prepared);
        Ok(JobResult {
            prepared: self.prepared,
            verified,
            written: self.written,
        })
    }

    pub(super) fn verify_only(mut self) -> Result<JobResult, Failure> {
        let verified = self.verify()?;
        Ok(JobResult {
            prepared: self.prepared,
            verified,
            written: self.written,
        })
    }

    pub(super) fn target(&self) -> Option<&Arc<Target>> {
        self.ledger.target.as_ref()
    }

    /// Bytes to prepare, and how many of them direct I/O can write.
    pub(super) fn extent(&self) -> (u64, u64) {
        let used_bytes = self.prepared.used_bytes;
        let unit = self
            .target()
            .map_or(1, |target| u64::from(target.min_io_bytes()));
        (used_bytes, used_bytes / unit * unit)
    }

    /// Discards the whole device, or the part that is not used.
    fn discard(&mut self) -> Result<(), Failure> {
        let PreparationRecord {
            discard_first,
            used_bytes,
            size_bytes,
            ..
        } = self.prepared;
        let start = if discard_first { 0 } else { used_bytes };
        if start == size_bytes {
            return Ok(());
        }
        let Some(target) = self.target().cloned() else {
            return Ok(());
        };
        self.status
            .begin(PrepStep::Discard, size_bytes - start, 0, 0);
        for piece in target.discard(start..size_bytes) {
            match piece {
                Ok(end) => self.status.set_done(end - start),
                // For a discard of the whole device, support was already checked.
                Err(error) if !discard_first && error.is_unsupported() => {
                    console::warning(&format!(
                        "{}: {error}: the last {} bytes are not written, but the drive keeps their old data, and \
                         cannot use them as spare space",
                        self.name,
                        size_bytes - start
                    ));
                    return Ok(());
                }
                Err(error) => return Err(Failure::device(format!("{}: {error}", self.name))),
            }
            self.check_interrupted()?;
        }
        self.prepared.rest_discarded = used_bytes < size_bytes;
        self.ledger.keep(&self.prepared);
        Ok(())
    }

    /// Writes one pass, from the recorded position (`mark_bytes`) on.
    fn pass(&mut self) -> Result<(), Failure> {
        let pass = self.prepared.passes_done;
        let content = self.content(self.prepared.fill_of(pass));
        let (used_bytes, direct_bytes) = self.extent();
        let start = self.prepared.mark_bytes;
        let pass_bytes = self.prepared.pass_bytes();
        let order = self.order()?;
        let end = if order.is_some() {
            pass_bytes
        } else {
            direct_bytes
        };
        let overwritten_content = self.content(Some(OVERWRITTEN_FILL));
        let random = order.map(|order| RandomPass {
            order,
            device_bytes: direct_bytes,
            overwritten_content,
        });
        let step = self
            .prepared
            .fill_of(pass)
            .map_or(PrepStep::Zeros, PrepStep::Salt);
        let later_bytes = u64::from(self.prepared.passes() - pass - 1) * used_bytes;
        self.status.begin(step, pass_bytes, start, later_bytes);
        let mark = Arc::new(AtomicU64::new(start));
        let pass = Pass {
            device: self.name.clone(),
            range: start..end,
            mark: mark.clone(),
            content,
            random,
        };
        let run_result = if start < end {
            self.run(&pass, Some(&mark))
        } else {
            Ok(())
        };
        // A failed device is not synced again: the earlier record remains valid.
        if run_result
            .as_ref()
            .err()
            .is_none_or(|failure| failure.code() == INTERRUPTED)
        {
            let sync_start = Instant::now();
            let mark = mark.load(Ordering::Acquire);
            self.ledger.checkpoint(&mut self.prepared, mark)?;
            self.written.bytes += mark - start;
            self.written.ns += sync_start.elapsed().as_nanos() as u64;
        }
        run_result?;
        self.write_remainder(content)?;
        self.prepared.passes_done += 1;
        self.prepared.mark_bytes = 0;
        self.ledger.keep(&self.prepared);
        Ok(())
    }

    /// Offset and content of the remainder at the end of a file, which is shorter than the unit of direct I/O.
    fn remainder(&self, content: Content) -> Option<(u64, Vec<u8>)> {
        let (used_bytes, direct_bytes) =
            Some(self.extent()).filter(|(used, direct)| direct < used)?;
        // `put` needs an offset that is a multiple of `SPOT_BYTES`.
        let begin = direct_bytes / SPOT_BYTES as u64 * SPOT_BYTES as u64;
        let mut bytes = vec![0; (used_bytes - begin) as usize];
        content.put(&mut bytes, begin);
        Some((
            direct_bytes,
            bytes.split_off((direct_bytes - begin) as usize),
        ))
    }

    fn write_remainder(&self, content: Content) -> Result<(), Failure> {
        let (Some(target), Some((offset, bytes))) = (self.target(), self.remainder(content)) else {
            return Ok(());
        };
        target.write_remainder(&bytes, offset).map_err(|error| {
            let name = &self.name;
            let len = bytes.len();
            Failure::device(format!(
                "write of {len} bytes at byte {offset} of {name} failed: {error}"
            ))
        })
    }

    fn order(&self) -> Result<Option<Arc<Order>>, Failure> {
        resume::order(&self.prepared).map_err(Failure::environment)
    }

    /// Data that the random fill number `fill` writes; `None`: zeros.
    pub(super) fn content(&self, fill: Option<u32>) -> Content {
        fill.map_or(Content::Zeros, |fill| {
            Content::Salt(PlacedSalt::new(self.prepared.seed, fill, self.key))
        })
    }

    /// Runs `workload` until its stream ends. With a `mark`, regularly records progress.
    pub(super) fn run(
        &mut self,
        workload: &dyn Workload,
        mark: Option<&Arc<AtomicU64>>,
    ) -> Result<(), Failure> {
        let facts = EngineFacts::unpaced(&self.engine);
        let context = BuildContext {
            seed: 1,
            shards_max: 1,
            cpus: 1,
            in_flight_max: None,
        };
        let mut plan = RunPlan::new(vec![self.name.to_string()], [].into());
        workload
            .build(&self.devices.shapes(), &context, &mut plan)
            .map_err(|error| Failure::environment(format!("{}: {error}", self.name)))?;
        let settings = Settings::until_done(facts.pacing());
        let layout = plan.layout;
        let control = self.control.clone();
        let run_config = RunConfig {
            layout,
            settings,
            interval_ns: INTERVAL_NS,
            slice_ns: u64::MAX,
            step_ns: u64::MAX,
            control,
        };
        let mut tracker = Tracker {
            prepared: &mut self.prepared,
            ledger: &self.ledger,
            status: &self.status,
            mark: mark.map(Arc::as_ref),
            last_record: Instant::now(),
            ended_ns: 0,
            failure: None,
            record_error: None,
        };
        let run_result = self.engine.run(
            &run_config,
            plan.shards,
            &self.devices,
            1,
            &facts,
            &mut tracker,
        );
        if mark.is_some() {
            self.written.ns += tracker.ended_ns;
        }
        if let Some(broken) = tracker.record_error {
            return Err(broken);
        }
        if let Some(failure) = tracker.failure {
            return Err(Failure::device(failure));
        }
        run_result
            .map_err(|error: RunError| Failure::environment(format!("{}: {error}", self.name)))?;
        self.check_interrupted()
    }

    /// Fails if the user interrupted the run, or if the run ended before the stream ended.
    fn check_interrupted(&self) -> Result<(), Failure> {
        match self.control.cause() {
            None => Ok(()),
            Some(EndCause::Requested { .. }) => Err(Failure::invalid("interrupted")),
            Some(EndCause::Gone { error, .. }) => Err(Failure::device(format!(
                "{} disappeared: {error}",
                self.name
            ))),
            Some(EndCause::Failed { message }) => {
                Err(Failure::environment(format!("{}: {message}", self.name)))
            }
            Some(other) => Err(Failure::device(format!("{}: {other:?}", self.name))),
        }
    }
}

/// Places read back before a resume. If a device lost the fraction `part` of its recorded data, this is detected with a
/// probability of at least `1 - (1 - part)^64`. No option turns this off.
const BEGUN_SPOTS: u64 = 64;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SampleResult {
    /// All places hold the written data.
    Equal(VerifiedSample),
    /// Not possible: a simulated drive stores no data.
    Simulated,
    /// Not requested.
    No,
}

impl Job {
    /// Reads back a sample and compares it with the data of the last pass.
    pub(super) fn verify(&mut self) -> Result<SampleResult, Failure> {
        let Some(target) = self.target().cloned() else {
            return Ok(SampleResult::Simulated);
        };
        if self.samples == 0 {
            return Ok(SampleResult::No);
        }
        let content = self.content(Some(self.prepared.fills).filter(|fills| *fills > 0));
        let mut compared = self.compare(self.extent().1, self.samples, content, None)?;
        self.compare_remainder(&target, content, &mut compared)?;
        let Compared {
            spots,
            bytes,
            mismatches,
            first_mismatch,
        } = compared;
        let first_at = first_mismatch.map(|first| first.offset);
        let sample = VerifiedSample {
            spots,
            bytes,
            mismatches,
            first_mismatch: first_at,
            unix_s: unix_s(),
        };
        let is_same = self.ledger.keep_sample(&self.prepared, &sample);
        self.prepared.sample = Some(sample.clone());
        match first_mismatch {
            None => Ok(SampleResult::Equal(sample)),
            Some(_) if !is_same => Err(Failure::environment(format!(
                "cannot verify {} - another run began to write to it while it was read back - wait for the end of that \
                 run, then prepare the device again",
                self.name
            ))),
            Some(first) => Err(Failure::device(format!(
                "{} does not hold the written data: {mismatches} of {spots} places that were read back differ, the first {first} \
                 - the device lost or changed data, or another program wrote to it - do not trust it until the cause \
                 is known",
                self.name
            ))),
        }
    }

    /// Checks before a resume, by a small sample, that the device holds the recorded data. The device may have been
    /// discarded, or a new file may have the inode number of an old file: neither changes the record.
    pub(super) fn check_resumable(&mut self) -> Result<(), Failure> {
        let PreparationRecord {
            passes_done,
            mark_bytes,
            ..
        } = self.prepared;
        let (_, direct_bytes) = self.extent();
        // Data after the mark are yet to be written, so nothing is checked at the start of a pass.
        let (end, pass) = match self.prepared.passes().checked_sub(passes_done) {
            None | Some(0) => (u64::MAX, self.prepared.passes().saturating_sub(1)),
            Some(_) => (mark_bytes, passes_done),
        };
        // In a random pass, only writes that are not overwritten later can be checked.
        let order = self.order()?;
        let end = end.min(if order.is_some() {
            self.prepared.pass_bytes()
        } else {
            direct_bytes
        });
        if self.target().is_none() || end == 0 {
            return Ok(());
        }
        let place_end = if order.is_some() { direct_bytes } else { end };
        let written_order = order.map(|order| {
            let writes = end / u64::from(order.block_bytes());
            (order, writes)
        });
        let content = self.content(self.prepared.fill_of(pass));
        let Compared {
            spots,
            mismatches,
            first_mismatch,
            ..
        } = self.compare(place_end, BEGUN_SPOTS, content, written_order)?;
        match first_mismatch {
            None => Ok(()),
            Some(first) => Err(Failure::environment(format!(
                "cannot resume {} - by its record all bytes before {end} are written, but {mismatches} of {spots} \
                 places that were read back differ, the first {first} - the device was discarded, replaced or written to, or \
                 lost data - give --restart to prepare it from the beginning",
                self.name
            ))),
        }
    }

    /// Compares `spots` random places before `end` with `content`. `order`: a random order, and the number of writes
    /// that were done in this order. With `order`, a place is compared only if one of these writes covers the place
    /// and no later write of the pass overwrites it.
    fn compare(
        &mut self,
        end: u64,
        spots: u64,
        content: Content,
        order: Option<(Arc<Order>, u64)>,
    ) -> Result<Compared, Failure> {
        let compared = Arc::new(Mutex::new(Compared::default()));
        let seed = unix_s() ^ u64::from(std::process::id()) << 32;
        let device = self.name.clone();
        let read_back = ReadBack {
            device,
            end,
            order,
            spots,
            seed,
            content,
            compared: compared.clone(),
        };
        self.status.begin(
            PrepStep::ReadBack,
            read_back.spots() * SPOT_BYTES as u64,
            0,
            0,
        );
        if end > 0 {
            self.run(&read_back, None)?;
        }
        let compared = *compared.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(compared)
    }

    fn compare_remainder(
        &self,
        target: &Target,
        content: Content,
        compared: &mut Compared,
    ) -> Result<(), Failure> {
        let Some((offset, expected)) = self.remainder(content) else {
            return Ok(());
        };
        let mut actual = vec![0; expected.len()];
        target
            .read_remainder(&mut actual, offset)
            .map_err(|error| {
                let name = &self.name;
                let len = expected.len();
                Failure::device(format!(
                    "read of {len} bytes at byte {offset} of {name} failed: {error}"
                ))
            })?;
        compared.compare(offset, &expected, &actual);
        Ok(())
    }
}

/// Exit code of an interrupted preparation. The exit codes of failed devices and hosts are lower.
pub(super) const INTERRUPTED: u8 = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::preparation::resume::begun;
    use device::guard::PREPARATION;
    use device::guard::Records;
    use std::cell::Cell;
    use std::time::Duration;

    #[test]
    fn a_preparation_does_not_begin_if_it_cannot_be_recorded() {
        let dir = tempfile::tempdir().unwrap();
        let records = Records::open(Some(dir.path().into()));
        let identity = Some("serial a".to_owned());
        let ledger = Ledger {
            records,
            identity,
            checkpoint_interval: Duration::ZERO,
            target: None,
            has_warned: Cell::new(false),
        };
        let prepared = begun("serial a");
        let failure = ledger.begin(&prepared).unwrap_err();
        let begin = "cannot begin to prepare /dev/x - its record must be written first";
        assert!(
            failure.code() == 3 && failure.message.starts_with(begin),
            "{failure}"
        );
        ledger
            .records
            .keep("serial a", prepared.size_bytes, PREPARATION)
            .unwrap();
        ledger.begin(&prepared).unwrap();
        assert_eq!(
            ledger.records.find("serial a").unwrap().prepared,
            Some(prepared)
        );
    }
}
