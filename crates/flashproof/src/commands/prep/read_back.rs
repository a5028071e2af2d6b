//! Reading back: a sample of a device compared with what ought to be on it.

use super::job::Job;
use super::ledger::Broken;
use super::status::Step;
use device::guard::{Prepared, Sampled, unix_s};
use device::target::Target;
use load::workload::prepare::{Compared, Content, ReadBack, SPOT_BYTES};
use std::sync::Arc;

/// Places read before a preparation goes on: a device that lost a part of what is on record to that extent
/// is found out with a chance of at least `1 - (1 - part)^64`, and no option can turn it off.
const BEGUN_SPOTS: u64 = 64;

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

impl Job {
    /// Reads back a sample and compares it with what the last pass wrote.
    pub(super) fn verify(&mut self) -> Result<Verified, Broken> {
        let Some(target) = self.target().cloned() else { return Ok(Verified::Simulated) };
        if self.samples == 0 {
            return Ok(Verified::No);
        }
        let content = self.content(Some(self.prepared.fills).filter(|fills| *fills > 0));
        let (used, reached) = self.extent();
        let compared = self.compare(reached, self.samples, content)?;
        self.compare_remainder(&target, reached, used, content, &compared)?;
        let (spots, bytes, mismatches) = (compared.spots(), compared.bytes(), compared.mismatches());
        let sampled = Sampled { spots, bytes, mismatches, unix_s: unix_s() };
        let is_same = self.ledger.keep_sample(&self.prepared, &sampled);
        self.prepared.sample = Some(sampled.clone());
        match compared.first_mismatch() {
            None => Ok(Verified::Equal(sampled)),
            Some(_) if !is_same => Err(Broken::Environment(format!(
                "cannot verify {} - another run began to write to it while it was read back - wait for its end, then prepare it again",
                self.name
            ))),
            Some(first) => Err(Broken::Device(format!(
                "{} does not hold what was written: {mismatches} of {spots} places read back differ, the first {first} - it lost or changed data, or somebody else wrote to it - do not trust it before you know which",
                self.name
            ))),
        }
    }

    /// Before it goes on: whether the device holds what its record relies on, by a small sample. It may have
    /// been discarded, or a new file have got the number of an old one; the record knows nothing of that.
    pub(super) fn check_begun(&mut self) -> Result<(), Broken> {
        let Prepared { passes_done, mark_bytes, .. } = self.prepared;
        let (_, reached) = self.extent();
        // Behind the mark all is yet to be written, so a pass at its beginning relies on nothing.
        let (end, pass) = match self.prepared.passes().checked_sub(passes_done) {
            None | Some(0) => (reached, self.prepared.passes().saturating_sub(1)),
            Some(_) => (mark_bytes.min(reached), passes_done),
        };
        if self.target().is_none() || end == 0 {
            return Ok(());
        }
        let content = self.content(self.prepared.fill_of(pass));
        let compared = self.compare(end, BEGUN_SPOTS, content)?;
        let (spots, mismatches) = (compared.spots(), compared.mismatches());
        match compared.first_mismatch() {
            None => Ok(()),
            Some(first) => Err(Broken::Environment(format!(
                "cannot go on with {} - by its record all before byte {end} is written, but {mismatches} of {spots} places read back differ, the first {first} - it was discarded, replaced or written to, or it lost data - say --restart to prepare it from the beginning",
                self.name
            ))),
        }
    }

    /// Compares `spots` places before `end` with `content`; each time other ones.
    fn compare(&mut self, end: u64, spots: u64, content: Content) -> Result<Arc<Compared>, Broken> {
        let compared = Arc::new(Compared::default());
        let now = unix_s() ^ u64::from(std::process::id()) << 32;
        let device = self.name.clone();
        let read_back = ReadBack { device, end, spots, seed: now, content, compared: compared.clone() };
        self.status.begin(Step::ReadBack, read_back.spots() * SPOT_BYTES as u64, 0, 0);
        if end > 0 {
            self.run(&read_back, None)?;
        }
        Ok(compared)
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
}
