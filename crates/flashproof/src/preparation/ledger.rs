//! The record of a preparation in progress.

use device::guard::{PreparationRecord, Records, StateError, VerifiedSample};
use device::target::Target;
use session::console;
use session::failure::Failure;
use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

pub(super) struct Ledger {
    pub records: Records,
    /// Identity of the device; without one nothing is recorded.
    pub identity: Option<String>,
    pub checkpoint_interval: Duration,
    /// The device to sync; none for a simulated drive.
    pub target: Option<Arc<Target>>,
    /// True once the user was warned that nothing can be recorded.
    pub has_warned: Cell<bool>,
}

impl Ledger {
    /// Records `prepared` before the first write, which makes the old record wrong. On an error nothing is written.
    pub(super) fn begin(&self, prepared: &PreparationRecord) -> Result<(), Failure> {
        self.record(prepared).map_err(|error| {
            let path = &prepared.path;
            Failure::environment(format!(
                "cannot begin to prepare {path} - its record must be written first: {error}"
            ))
        })
    }

    /// Records the current state of `prepared`. A failure is reported once, and does not stop the preparation.
    pub(super) fn keep(&self, prepared: &PreparationRecord) {
        if let Err(error) = self.record(prepared) {
            self.warn_once(prepared, &error);
        }
    }

    /// Records only the sample. False if the record no longer belongs to `prepared`: a test or another preparation
    /// may have begun on a device that is only read.
    pub(super) fn keep_sample(
        &self,
        prepared: &PreparationRecord,
        sample: &VerifiedSample,
    ) -> bool {
        let Some(identity) = &self.identity else {
            return true;
        };
        self.records
            .keep_sample(identity, prepared, sample)
            .unwrap_or_else(|error| {
                self.warn_once(prepared, &error);
                true
            })
    }

    fn record(&self, prepared: &PreparationRecord) -> Result<(), StateError> {
        self.identity.as_ref().map_or(Ok(()), |identity| {
            self.records.keep_prepared(identity, prepared)
        })
    }

    fn warn_once(&self, prepared: &PreparationRecord, error: &StateError) {
        if !self.has_warned.replace(true) {
            console::warning(&format!(
                "{}: {error}; the preparation continues, but an interruption would lose unrecorded progress",
                prepared.path
            ));
        }
    }

    /// Syncs the device, and only then records that all data before `mark` are durable.
    pub(super) fn checkpoint(
        &self,
        prepared: &mut PreparationRecord,
        mark: u64,
    ) -> Result<(), Failure> {
        if let Some(Err(error)) = self.target.as_ref().map(|target| target.sync()) {
            let name = &prepared.path;
            return Err(Failure::device(format!(
                "{name} cannot sync written data to its medium: {error}"
            )));
        }
        prepared.mark_bytes = mark;
        self.keep(prepared);
        Ok(())
    }
}
