//! The safety guard decides if a device may be erased, and grants the consent without which nothing is written.
//!
//! ```text
//! Request -> look up -> examine -----------> ask ----------> grant -> WriteConsent -> Target::writable
//!            device     users, claim,        consent to      checks
//!            or file    I/O of others,       erase data      users again
//!                       contents
//! ```
//!
//! There are two kinds of objection. A device in use is *refused*, and no consent overrides this. A device with data
//! that no record explains needs *consent*. Either all devices of a run pass, or none does. All objections are reported
//! at once.
//!
//! The guard does not protect against wrong consent, or against forged stamps. docs/guard.md is the documentation for
//! users.

mod ask;
mod claim;
mod consent;
mod contents;
mod evidence;
mod examine;
mod formats;
mod in_use;
mod labels;
mod mark;
mod preparation;
mod preparation_state;
mod processes;
mod refusal;
mod sampling;
mod signatures;
mod target_devices;

use crate::discover;
pub use ask::{Asker, EraseAnswers, Question, ask_on_terminal, erase_names};
use ask::{DeviceNames, NameMatch};
pub(crate) use claim::{OpenedTarget, STAT_BLOCK_BYTES, check_size, finish, open_to_read};
pub use consent::WriteConsent;
pub use evidence::Evidence;
pub use examine::{EraseSafety, GuardReport};
use examine::{Examined, ResolvedTarget};
pub(crate) use examine::{activity, users_of};
pub use preparation::{
    DeviceRecord, PREPARATION, PreparationRecord, RandomOrder, Records, StateError, VerifiedSample,
    unix_s,
};
pub use preparation_state::{PreparationState, PreparedSamples};
pub(crate) use preparation_state::{SampleReader, UsedPart};
pub use processes::Opener;
pub use refusal::{GuardRefusals, OpenError, Refusal, RefusalReason};
use results::parallel::in_parallel;
use sampling::Sampling;
use std::path::{Path, PathBuf};
use std::time::Duration;
use target_devices::{Overlap, TargetDevices};

#[cfg(test)]
pub(crate) use preparation::tests::prepared as prepared_for_tests;

/// Environment variable with the names of the only devices that this process may write to. A campaign sets the variable
/// to the drive of the task, so that the guard refuses any other drive in its place, even an empty drive.
pub const ONLY_VARIABLE: &str = "FLASHPROOF_ONLY";

/// Time in which a claimed device must do no I/O.
const WATCH: Duration = Duration::from_secs(1);

/// Maximum wait until a short-lived user (udev after a change, a run that just ended) closes the device.
const SETTLE: Duration = Duration::from_secs(3);

/// Number of random samples between the ends. Data on 1 % of the device is missed in one of 30,000 examinations.
const SPOTS: u32 = 1024;

/// Time limit for the random samples; a hard disk reads about 100 per second.
const SPOTS_LIMIT: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, Default)]
pub struct WriteRequest {
    pub path: String,
    /// Size of a file; `None` refuses files. Ignored for devices.
    pub file_size_bytes: Option<u64>,
    /// True if the blocks of a file shall not be allocated in advance.
    pub sparse: bool,
    /// True if a file is not extended in advance: it grows as the run writes.
    pub grows: bool,
    /// Minimum size that the load needs: one large block.
    pub min_size_bytes: u64,
    /// True if the run uses the whole device, including the part that a preparation left unused.
    pub uses_whole_device: bool,
    /// True if the run reads. Runs that only write need no warning about reads of unwritten blocks.
    pub reads: bool,
    /// True if other shared runs may use the device at the same time.
    pub shared: bool,
    /// True if every write must be on the medium when it completes (`O_DSYNC`).
    pub odsync: bool,
    /// True if the run uses and keeps the record store on the device. Then no consent is needed if the device has no
    /// other data. The code that opens the store checks the store's settings, and samples of its blocks.
    pub keeps_store: bool,
    /// Purpose, in words; stored in the record.
    pub purpose: String,
}

impl WriteRequest {
    /// A request for the device `path` with defaults: exclusive, for reads and writes, with `O_DSYNC`, any size.
    pub fn new(path: impl Into<String>, purpose: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            reads: true,
            odsync: true,
            purpose: purpose.into(),
            ..Self::default()
        }
    }
}

#[derive(Debug, Clone)]
pub struct Guard {
    /// `/` except in tests.
    root: PathBuf,
    /// The only devices that may be written to, by their names; `None`: any.
    only_devices: Option<Vec<String>>,
    records: Records,
    watch_time: Duration,
    settle: Duration,
    sampling: Sampling,
}

impl Guard {
    /// A guard with its records in `state_dir`, or in the state directory of the environment ([`Records::open`]).
    pub fn new(state_dir: Option<PathBuf>) -> Self {
        Self {
            root: PathBuf::from("/"),
            only_devices: std::env::var(ONLY_VARIABLE)
                .ok()
                .map(|names| erase_names(&[], Some(&names))),
            records: Records::open(state_dir),
            watch_time: WATCH,
            settle: SETTLE,
            sampling: Sampling {
                spots: SPOTS,
                seed: 0,
                limit: SPOTS_LIMIT,
            },
        }
    }

    /// Consents to all `requests`, in their order, or to none. Takes about a second for any number of devices.
    ///
    /// Errors: each refused device, with all objections. In this case nothing was written and no file was created.
    pub fn consent(
        &self,
        requests: &[WriteRequest],
        answers: &mut EraseAnswers<'_>,
    ) -> Result<Vec<WriteConsent>, GuardRefusals> {
        let examined = self.examine_and_ask(requests, answers)?;
        self.grant(examined, requests)
    }

    /// Examines and asks as [`Self::consent`], but grants no consent: for work that writes later, or not at all.
    /// Returns a name for each device whose erasure the user allowed; with these names a later consent asks nothing.
    pub fn preview_consent(
        &self,
        requests: &[WriteRequest],
        answers: &mut EraseAnswers<'_>,
    ) -> Result<Vec<String>, GuardRefusals> {
        let examined = self.examine_and_ask(requests, answers)?;
        Ok(examined
            .iter()
            .filter(|of| !of.evidence.is_empty())
            .map(|of: &Examined| {
                DeviceNames::from_facts(&of.target.facts, &self.root)
                    .lasting_erase_name(&of.request.path)
                    .to_owned()
            })
            .collect())
    }

    fn examine_and_ask(
        &self,
        requests: &[WriteRequest],
        answers: &mut EraseAnswers<'_>,
    ) -> Result<Vec<Examined>, GuardRefusals> {
        let targets = all(
            requests
                .iter()
                .map(|request| examine::resolve_target(self, request).map_err(Vec::from)),
            requests,
        )?;
        all(
            targets
                .iter()
                .zip(requests)
                .map(|(found, request)| self.allowed(found, request)),
            requests,
        )?;
        check_named_twice(requests, &targets)?;
        let pairs = requests.iter().zip(targets);
        let results = in_parallel(pairs, |(request, found)| {
            examine::examine(self, request, found)
        });
        let examined = all(results.into_iter(), requests)?;
        ask(&examined, answers, &self.root)?;
        Ok(examined)
    }

    /// Refuses devices that the environment does not allow ([`ONLY_VARIABLE`]).
    fn allowed(
        &self,
        target: &ResolvedTarget,
        request: &WriteRequest,
    ) -> Result<(), Vec<RefusalReason>> {
        let Some(only_devices) = &self.only_devices else {
            return Ok(());
        };
        let names = DeviceNames::from_facts(&target.facts, &self.root);
        if only_devices
            .iter()
            .any(|name| matches!(names.matches(name), NameMatch::Lasting | NameMatch::Path))
        {
            return Ok(());
        }
        Err(vec![RefusalReason::NotAllowed {
            is: names.lasting_erase_name(&request.path).to_owned(),
            only: only_devices.join(" "),
        }])
    }

    /// True if `name`, given as consent to an erasure, means the device or file at `path`.
    pub fn is_name_of(&self, name: &str, path: &str) -> bool {
        let facts = discover::discover(path, &self.root);
        name == path
            || facts.is_ok_and(|facts| {
                DeviceNames::from_facts(&facts, &self.root).matches(name) != NameMatch::Other
            })
    }

    /// The lasting name, such as the serial number, that allows the erasure of the device or file at `path`.
    pub fn erase_name(&self, path: &str) -> String {
        let facts = discover::discover(path, &self.root);
        facts.map_or(path.to_owned(), |facts| {
            DeviceNames::from_facts(&facts, &self.root)
                .lasting_erase_name(path)
                .to_owned()
        })
    }

    fn grant(
        &self,
        examined: Vec<Examined>,
        requests: &[WriteRequest],
    ) -> Result<Vec<WriteConsent>, GuardRefusals> {
        let mut consents: Vec<WriteConsent> = Vec::new();
        for (examined, request) in examined.into_iter().zip(requests) {
            match consent::grant(self, examined) {
                Ok(consent) => consents.push(consent),
                Err(reasons) => {
                    let made = consents
                        .iter()
                        .zip(requests)
                        .filter(|(consent, _)| consent.created);
                    made.for_each(|(_, request)| consent::remove(request));
                    return Err(GuardRefusals(vec![Refusal {
                        device: request.path.clone(),
                        reasons,
                    }]));
                }
            }
        }
        // The writes are recorded only now, when it is certain that the run will write to the devices.
        consents
            .iter_mut()
            .zip(requests)
            .for_each(|(consent, request)| consent.note_writing(&self.records, request));
        Ok(consents)
    }
}

fn all<T>(
    results: impl Iterator<Item = Result<T, Vec<RefusalReason>>>,
    requests: &[WriteRequest],
) -> Result<Vec<T>, GuardRefusals> {
    let mut values = Vec::new();
    let mut refusals = Vec::new();
    for (result, request) in results.zip(requests) {
        match result {
            Ok(value) => values.push(value),
            Err(reasons) => refusals.push(Refusal {
                device: request.path.clone(),
                reasons,
            }),
        }
    }
    if refusals.is_empty() {
        Ok(values)
    } else {
        Err(GuardRefusals(refusals))
    }
}

/// Refuses a target that has bytes in common with an earlier target of the run.
fn check_named_twice(
    requests: &[WriteRequest],
    targets: &[ResolvedTarget],
) -> Result<(), GuardRefusals> {
    let checks = (0..targets.len()).map(|index| check_earlier(index, requests, targets));
    all(checks, requests).map(|_| ())
}

fn check_earlier(
    index: usize,
    requests: &[WriteRequest],
    targets: &[ResolvedTarget],
) -> Result<(), Vec<RefusalReason>> {
    let target = &targets[index];
    for (earlier, request) in targets[..index].iter().zip(requests) {
        let overlap = match (earlier.target_kind.subject(), target.target_kind.subject()) {
            (Some(one), Some(two)) => one.overlaps(two),
            // Neither file exists yet, so they overlap only if their names are equal.
            (None, None) if request.path == requests[index].path => Some(Overlap::Bytes),
            _ => None,
        };
        if let Some(overlap) = overlap {
            let wwid = target.facts.wwid.as_deref();
            return Err(reason_of_overlap(overlap, &request.path, wwid).into());
        }
    }
    Ok(())
}

fn reason_of_overlap(overlap: Overlap, other: &str, wwid: Option<&str>) -> RefusalReason {
    let other = other.to_owned();
    match (overlap, wwid) {
        (Overlap::Drive, Some(wwid)) => RefusalReason::SameDrive {
            other,
            wwid: wwid.to_owned(),
        },
        _ => RefusalReason::NamedTwice { other },
    }
}

/// Refuses if two of `names`, the devices and files of a run, have bytes in common: the device would get a multiple of
/// the configured load, or would be written while it is read. A name that leads nowhere is skipped: its file does not
/// exist yet, or its use is refused later.
pub fn check_distinct<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<(), OpenError> {
    let root = Path::new("/");
    let mut known: Vec<(&str, TargetDevices)> = Vec::new();
    for name in names {
        let Ok(resolved) = discover::resolve(Path::new(name), root) else {
            continue;
        };
        let error = |reason: RefusalReason| OpenError {
            device: name.to_owned(),
            reason,
        };
        let devices =
            TargetDevices::from_resolved(&resolved, root).map_err(|why| error(why.into()))?;
        for (earlier, earlier_devices) in &known {
            if let Some(overlap) = earlier_devices.overlaps(&devices) {
                let wwid = discover::facts_of(name, &resolved, root)
                    .ok()
                    .and_then(|facts| facts.wwid);
                return Err(error(reason_of_overlap(overlap, earlier, wwid.as_deref())));
            }
        }
        known.push((name, devices));
    }
    Ok(())
}

/// Asks for consent to each erasure. After a refusal by the user, asks nothing more. If nobody can be asked, collects
/// the refusals of all devices.
fn ask(
    examined: &[Examined],
    answers: &mut EraseAnswers<'_>,
    root: &Path,
) -> Result<(), GuardRefusals> {
    let mut refusals = Vec::new();
    for examined in examined {
        if examined.keeps_store() || examined.evidence.is_empty() {
            continue;
        }
        let request = &examined.request;
        let question = Question {
            name: &request.path,
            facts: &examined.target.facts,
            evidence: &examined.evidence,
        };
        if let Err(reason) = answers.decide(&question, root) {
            refusals.push(Refusal {
                device: request.path.clone(),
                reasons: vec![reason],
            });
            if answers.can_ask() {
                break;
            }
        }
    }
    if refusals.is_empty() {
        Ok(())
    } else {
        Err(GuardRefusals(refusals))
    }
}

#[cfg(test)]
mod loop_tests;
#[cfg(test)]
mod tests;
