//! Reading back: a sample of a device compared with what ought to be on it.

use super::job::Job;
use super::ledger::Broken;
use super::status::Step;
use device::guard::{Sampled, unix_s};
use device::target::Target;
use load::prep::{self, Compared, Content, SPOT_BYTES, Sample};
use std::sync::Arc;

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
