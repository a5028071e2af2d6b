//! The record of a preparation, and the errors that end one early.

use device::guard::{Prepared, Records, Sampled, StateError};
use device::target::Target;
use session::console;
use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

/// Why the preparation of a device ended early.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Broken {
    /// The device failed, or does not hold the written data: exit code 1.
    Device(String),
    /// The host failed: exit code 3.
    Environment(String),
    /// The user interrupted the preparation: exit code 4.
    Asked,
}

/// Records the progress of a device's preparation.
pub(super) struct Ledger {
    pub records: Records,
    /// Identity of the device; without one nothing is recorded.
    pub identity: Option<String>,
    /// Interval at which data are synced and progress is recorded.
    pub every: Duration,
    /// None for a simulated drive.
    pub target: Option<Arc<Target>>,
    /// True once the user was warned that nothing can be recorded.
    pub told: Cell<bool>,
}

impl Ledger {
    /// Records `prepared` before the first write. After the first write the old record is wrong, so if recording
    /// fails nothing is written.
    pub(super) fn begin(&self, prepared: &Prepared) -> Result<(), Broken> {
        self.record(prepared).map_err(|error| {
            let path = &prepared.path;
            Broken::Environment(format!(
                "cannot begin to prepare {path} - its record would tell of what was there before: {error}"
            ))
        })
    }

    /// Records the current state of `prepared`. A failure is reported once, and does not stop the preparation.
    pub(super) fn keep(&self, prepared: &Prepared) {
        if let Err(error) = self.record(prepared) {
            self.tell(prepared, &error);
        }
    }

    /// Records only the sample. False if the record no longer belongs to `prepared`: a test or another preparation
    /// may have begun on a device that is only read.
    pub(super) fn keep_sample(&self, prepared: &Prepared, sample: &Sampled) -> bool {
        let Some(identity) = &self.identity else { return true };
        self.records.keep_sample(identity, prepared, sample).unwrap_or_else(|error| {
            self.tell(prepared, &error);
            true
        })
    }

    fn record(&self, prepared: &Prepared) -> Result<(), StateError> {
        self.identity.as_ref().map_or(Ok(()), |identity| self.records.keep_prepared(identity, prepared))
    }

    fn tell(&self, prepared: &Prepared, error: &StateError) {
        if !self.told.replace(true) {
            console::warning(&format!(
                "{}: {error}; it goes on, but an interruption would lose what is not recorded",
                prepared.path
            ));
        }
    }

    /// Syncs the device, and only then records that all data before `mark` are durable.
    pub(super) fn checkpoint(&self, prepared: &mut Prepared, mark: u64) -> Result<(), Broken> {
        if let Some(Err(error)) = self.target.as_ref().map(|target| target.sync()) {
            let name = &prepared.path;
            return Err(Broken::Device(format!("{name} does not put on its medium what was written to it: {error}")));
        }
        prepared.mark_bytes = mark;
        self.keep(prepared);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prep::resume::tests::begun;
    use device::guard::PREPARATION;

    #[test]
    fn nothing_begins_that_cannot_be_recorded() {
        let dir = tempfile::tempdir().unwrap();
        let records = Records::open(Some(dir.path().into()));
        let identity = Some("serial a".to_owned());
        let ledger = Ledger { records, identity, every: Duration::ZERO, target: None, told: Cell::new(false) };
        let prepared = begun("serial a");
        let Err(Broken::Environment(why)) = ledger.begin(&prepared) else { panic!("it begins") };
        assert!(why.starts_with("cannot begin to prepare /dev/x - its record would tell of"), "{why}");
        ledger.records.keep("serial a", prepared.size_bytes, PREPARATION).unwrap();
        assert_eq!(ledger.begin(&prepared), Ok(()));
        assert_eq!(ledger.records.find("serial a").unwrap().prepared, Some(prepared));
    }
}
