//! The devices of a preparation. The work on each device is decided separately; then either all devices are opened, or
//! none.

use super::Preparation;
use super::job::{Job, WriteTotals};
use super::ledger::Ledger;
use super::resume::{PrepOptions, Resume, StartParams};
use super::status::SharedStatus;
use device::discover::{self, DeviceFacts, Kind};
use device::guard::{
    PREPARATION, PreparationRecord, PreparationState, Records, WriteConsent, WriteRequest, unix_s,
};
use device::target::Target;
use engine::DeviceName;
use load::run::Control;
use session::console;
use session::devices::{self, Devices};
use session::engine::Engine;
use session::failure::{Failure, collect_all};
use std::cell::Cell;
use std::path::Path;
use std::sync::Arc;

pub(super) struct OpenedDrive {
    name: DeviceName,
    pub devices: Devices,
    pub(crate) prepared: PreparationRecord,
    key: u64,
    identity: Option<String>,
}

impl OpenedDrive {
    pub(super) fn job(self, preparation: &Preparation, engine: Arc<Engine>) -> Job {
        let target = match &self.devices {
            Devices::Real(targets) => targets.first().cloned(),
            Devices::Simulated(_) | Devices::Namespace(..) => None,
        };
        Job {
            name: self.name,
            devices: self.devices,
            engine,
            prepared: self.prepared,
            key: self.key,
            ledger: Ledger {
                records: Records::open(None),
                identity: self.identity,
                checkpoint_interval: preparation.checkpoint,
                target,
                has_warned: Cell::new(false),
            },
            samples: preparation.samples,
            control: Arc::new(Control::default()),
            status: SharedStatus::default(),
            written: WriteTotals::default(),
        }
    }
}

/// Decides the work on each device, before any question about consent.
fn decided(
    preparation: &Preparation,
    records: &Records,
) -> Result<Vec<(DeviceFacts, Resume)>, Failure> {
    let options = preparation.options;
    let discovered = preparation.devices.iter().map(|name| {
        discover::discover(name, Path::new("/"))
            .map_err(|error| format!("cannot prepare {name} - {error}"))
    });
    let facts = collect_all(discovered, Failure::environment)?;
    let seed = session::clock::fresh_seed();
    let unix_s = unix_s();
    // A conflict of passes is a usage error; a missing discard support is an environment error.
    let course = |(facts, seed)| {
        Resume::from_records(facts, &options, records, StartParams { seed, unix_s })
    };
    let courses = collect_all(facts.iter().zip(seed..).map(course), Failure::usage)?;
    let discardable =
        facts.iter().map(|facts| if options.discard_first && facts.max_discard_bytes.unwrap_or(0) == 0 { Err(format!(
                "cannot discard {} - it does not support discard (TRIM, deallocate) - leave out --discard-first",
                facts.path
            )) } else { Ok(()) });
    collect_all(discardable, Failure::environment)?;
    for (facts, resume) in facts.iter().zip(&courses) {
        warn_unusable_record(records, &facts.path, facts.identity().as_deref());
        warn_failed_read_back(records, facts);
        if options.random.is_some() && !resume.prepared.discard_first {
            console::warning(&format!(
                "{}: it does not support discard (TRIM, deallocate), so a used drive collects garbage during the pass: \
                 the pass is slower, and the drive is not steady afterwards",
                facts.path
            ));
        }
    }
    Ok(facts.into_iter().zip(courses).collect())
}

/// Opens all devices for writing, or none.
pub(super) fn open(preparation: &Preparation) -> Result<Vec<OpenedDrive>, Failure> {
    let records = Records::open(None);
    let decisions = decided(preparation, &records)?;
    let requests: Vec<_> = decisions.iter().map(|(facts, _)| request(facts)).collect();
    let consents = devices::consent(&requests, &preparation.erase, &preparation.others)?;
    let drives = consents.into_iter().zip(decisions);
    collect_all(
        drives.map(|(consent, (facts, resume))| {
            opened(consent, resume, &facts, &preparation.options, &records)
        }),
        Failure::environment,
    )
}

/// Decides what [`open`] would do on each device, if the guard agrees to all of them. Writes nothing.
pub(super) fn plan(preparation: &Preparation) -> Result<Vec<PreparationRecord>, Failure> {
    let decisions = decided(preparation, &Records::open(None))?;
    let requests: Vec<_> = decisions.iter().map(|(facts, _)| request(facts)).collect();
    devices::agree(&requests, &preparation.erase, false)?;
    Ok(decisions
        .into_iter()
        .map(|(_, resume)| resume.prepared)
        .collect())
}

fn request(facts: &DeviceFacts) -> WriteRequest {
    WriteRequest {
        file_size_bytes: (facts.kind == Kind::RegularFile).then_some(facts.size_bytes),
        uses_whole_device: true,
        odsync: false,
        ..WriteRequest::new(&facts.path, PREPARATION)
    }
}

/// Opens the drive for a `resume` that was decided from `facts`, with consent.
fn opened(
    consent: WriteConsent,
    resume: Resume,
    facts: &DeviceFacts,
    options: &PrepOptions,
    records: &Records,
) -> Result<OpenedDrive, String> {
    let path = &facts.path;
    consent
        .notes()
        .iter()
        .for_each(|note| console::warning(&format!("{path}: {note}")));
    let current_facts = consent.facts();
    let identity = facts.identity();
    if current_facts.identity() != identity {
        return Err(format!(
            "cannot prepare {path} - another device took its place - start again"
        ));
    }
    // The consent for a file covers the requested length; the file may have grown since the consent.
    if let Some(size_bytes) = [current_facts.size_bytes, consent.size_bytes()]
        .iter()
        .find(|size| **size != facts.size_bytes)
    {
        return Err(format!(
            "cannot prepare {path} - it had {} bytes and has {size_bytes} now - start again",
            facts.size_bytes
        ));
    }
    let identity = identity.filter(|_| consent.is_key_recorded());
    match &identity {
        None => check_unrecorded(&resume, facts, records)?,
        Some(_) => check_same_key(&resume, &consent)?,
    }
    resume.check(current_facts, options, records)?;
    if resume.is_resumed() {
        let PreparationRecord { seed, .. } = resume.prepared;
        console::note(&format!(
            "{path}: resuming {} (seed {seed})",
            resume.prepared.progress()
        ));
    }
    let key = consent.stamp_key();
    let target = Arc::new(Target::writable(consent));
    let name = DeviceName::Path(facts.path.clone());
    Ok(OpenedDrive {
        name,
        devices: Devices::Real(vec![target]),
        prepared: resume.prepared,
        key,
        identity,
    })
}

/// Warns that nothing can be recorded. Refuses if an existing record would become wrong, or later runs need a record.
fn check_unrecorded(resume: &Resume, facts: &DeviceFacts, records: &Records) -> Result<(), String> {
    let path = &facts.path;
    let PreparationRecord {
        used_bytes,
        size_bytes,
        ..
    } = resume.prepared;
    let why = match facts.identity() {
        Some(identity) if records.has(&identity) => "and its existing record would become wrong",
        Some(_) if used_bytes < size_bytes => {
            "so later runs would not know which part must stay unused"
        }
        _ => {
            console::warning(&format!(
                "{path}: this preparation cannot be recorded, so it can neither be resumed after an interruption nor \
                 be verified later"
            ));
            return Ok(());
        }
    };
    Err(format!(
        "cannot prepare {path} - its preparation cannot be recorded, {why} - make the state directory writable and \
         start again"
    ))
}

/// Refuses to resume with a new stamp key: the stamps of the two parts of the device would not match.
fn check_same_key(resume: &Resume, consent: &WriteConsent) -> Result<(), String> {
    match resume.key {
        Some(key) if key != consent.stamp_key() => Err(format!(
            "cannot resume {} - its record has changed since the interruption: the key of the stamps differs - give \
             --restart to prepare it from the beginning",
            consent.name()
        )),
        _ => Ok(()),
    }
}

/// Warns about an unusable record, which is treated as missing.
fn warn_unusable_record(records: &Records, name: &str, identity: Option<&str>) {
    if let Some(path) = identity.and_then(|identity| records.unusable(identity)) {
        console::warning(&format!(
            "{name}: its record {} is damaged, or of a later flashproof, and is ignored",
            path.display()
        ));
    }
}

/// Shows an earlier failed read-back: a preparation that succeeds now does not remove its cause.
fn warn_failed_read_back(records: &Records, facts: &DeviceFacts) {
    let record = facts
        .identity()
        .and_then(|identity| records.find(&identity));
    if let Some(failure) = record.and_then(|record| record.failed_read_back) {
        console::warning(&format!(
            "{}: {} - do not trust it until the cause is known",
            facts.path,
            failure.failure()
        ));
    }
}

/// Opens for reading the devices that are recorded as prepared.
pub(super) fn open_prepared(devices: &[String]) -> Result<Vec<OpenedDrive>, Failure> {
    let records = Records::open(None);
    let drives = devices
        .iter()
        .map(|name| open_prepared_drive(name, &records));
    collect_all(drives, Failure::environment)
}

fn open_prepared_drive(name: &str, records: &Records) -> Result<OpenedDrive, String> {
    let target = Target::read_only(name, 1).map_err(|error| error.to_string())?;
    let facts = target.facts();
    let (identity, key, prepared) = completed_preparation(facts, name, records).map_err(|why| {
        format!("cannot verify {name} - {why} - prepare it first (flashproof prep {name})")
    })?;
    let prepared = PreparationRecord {
        path: name.to_owned(),
        ..prepared
    };
    Ok(OpenedDrive {
        name: DeviceName::Path(name.to_owned()),
        devices: Devices::Real(vec![Arc::new(target)]),
        prepared,
        key,
        identity: Some(identity),
    })
}

/// The identity of a drive, the key of its record, and its preparation. Errors: why the drive is not as prepared.
fn completed_preparation(
    facts: &DeviceFacts,
    name: &str,
    records: &Records,
) -> Result<(String, u64, PreparationRecord), String> {
    let identity = facts
        .identity()
        .ok_or("it has no lasting name, so there is no record of it")?;
    warn_unusable_record(records, name, Some(&identity));
    let recorded = records
        .find(&identity)
        .and_then(|record| Some((record.key, record.prepared?)));
    let (key, prepared) =
        recorded.ok_or_else(|| format!("there is no record of a preparation of {identity}"))?;
    if prepared.size_bytes != facts.size_bytes {
        return Err(format!(
            "it had another size when it was prepared, and has {} bytes now",
            facts.size_bytes
        ));
    }
    if let Some(writer) = &prepared.written_since {
        return Err(format!(
            "it was written to since its preparation ({writer})"
        ));
    }
    if !prepared.is_complete() {
        return Err(format!(
            "its preparation is not complete ({}): interrupted, or still running",
            prepared.progress()
        ));
    }
    match PreparationState::from_records(facts, records).contradiction() {
        Some(contradiction) => Err(contradiction),
        None => Ok((identity, key, prepared)),
    }
}

/// Simulated drives; nothing is recorded about them.
pub(super) fn simulate(
    options: &PrepOptions,
    names: &[DeviceName],
) -> Result<Vec<OpenedDrive>, Failure> {
    let no_records = Records::without_dir();
    let start_params = StartParams {
        seed: session::clock::fresh_seed(),
        unix_s: unix_s(),
    };
    let drives = names
        .iter()
        .filter_map(|name| Some((name.clone(), name.drive()?.clone())))
        .map(|(name, spec)| {
            let path = name.to_string();
            let facts = DeviceFacts {
                path: path.clone(),
                size_bytes: spec.capacity_bytes,
                ..DeviceFacts::default()
            };
            let Resume { prepared, .. } =
                Resume::from_records(&facts, options, &no_records, start_params)?;
            let devices = Devices::Simulated(vec![(path, spec)]);
            Ok::<_, String>(OpenedDrive {
                name,
                devices,
                prepared,
                key: 0,
                identity: None,
            })
        });
    collect_all(drives, Failure::usage)
}

#[cfg(test)]
mod tests {
    use super::super::ProgressStyle;
    use super::*;
    use device::guard::{EraseAnswers, Guard};
    use session::engine::EngineDemand;
    use std::fs;
    use std::path::PathBuf;
    use tempfile::TempDir;

    const SIZE: usize = 1 << 20;

    const WANTED: PrepOptions = PrepOptions::DEFAULT;

    /// A file to prepare, and records.
    struct Place {
        dir: TempDir,
        records: Records,
    }

    impl Place {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            fs::write(dir.path().join("file"), vec![0; SIZE]).unwrap();
            let records = Records::open(Some(dir.path().join("state")));
            Self { dir, records }
        }

        fn file(&self) -> PathBuf {
            self.dir.path().join("file")
        }

        fn facts(&self) -> DeviceFacts {
            discover::discover(self.file().to_str().unwrap(), Path::new("/")).unwrap()
        }

        fn resume(&self) -> Resume {
            Resume::from_records(
                &self.facts(),
                &WANTED,
                &self.records,
                StartParams { seed: 5, unix_s: 1 },
            )
            .unwrap()
        }

        fn consent(&self, facts: &DeviceFacts) -> WriteConsent {
            let guard = Guard::new(Some(self.dir.path().join("state")));
            guard
                .consent(&[request(facts)], &mut EraseAnswers::default())
                .unwrap()
                .remove(0)
        }

        /// A place whose preparation was interrupted in its first pass.
        fn interrupted(self) -> Self {
            let facts = self.facts();
            let prepared = PreparationRecord {
                mark_bytes: 131_072,
                ..self.resume().prepared
            };
            drop(self.consent(&facts));
            self.records
                .keep_prepared(&facts.identity().unwrap(), &prepared)
                .unwrap();
            self
        }
    }

    fn job(drive: OpenedDrive, place: &Place) -> Job {
        let engine = Arc::new(Engine::choose(&EngineDemand::default(), &drive.devices).unwrap());
        let mut job = drive.job(
            &Preparation::with_defaults(Vec::new(), &[], ProgressStyle::Quiet),
            engine,
        );
        job.ledger.records = place.records.clone();
        job
    }

    #[test]
    fn nothing_is_written_to_a_device_before_its_record_is_written() {
        let place = Place::new();
        let facts = place.facts();
        let drive = || {
            opened(
                place.consent(&facts),
                place.resume(),
                &facts,
                &WANTED,
                &place.records,
            )
            .unwrap()
        };
        let mut frozen = job(drive(), &place);
        frozen.ledger.records = Records::without_dir();
        let failure = frozen.prepare().unwrap_err();
        assert!(
            failure.code() == 3 && failure.message.starts_with("cannot begin to prepare"),
            "{failure}"
        );
        assert!(fs::read(place.file()).unwrap() == vec![0; SIZE]);
        job(drive(), &place).prepare().unwrap();
        assert!(fs::read(place.file()).unwrap() != vec![0; SIZE]);
    }

    #[test]
    fn a_run_that_writes_during_a_verification_is_named_as_the_cause() {
        let place = Place::new();
        let facts = place.facts();
        let identity = facts.identity().unwrap();
        let drive = || {
            opened(
                place.consent(&facts),
                place.resume(),
                &facts,
                &WANTED,
                &place.records,
            )
            .unwrap()
        };
        let prepared = job(drive(), &place).prepare().unwrap().prepared;
        let verified = || {
            Job {
                prepared: prepared.clone(),
                ..job(drive(), &place)
            }
            .verify_only()
        };
        let taken = PreparationRecord {
            written_since: Some("storage test".into()),
            ..prepared.clone()
        };
        place.records.keep_prepared(&identity, &taken).unwrap();
        verified().unwrap();
        // The other half of the data still shows that the record belongs to this file.
        let mut content = fs::read(place.file()).unwrap();
        content[..SIZE / 2].fill(0);
        fs::write(place.file(), content).unwrap();
        let failure = verified().unwrap_err();
        assert_eq!(failure.code(), 3, "the device is blamed");
        assert!(
            failure
                .message
                .contains("another run began to write to it while it was read back"),
            "{failure}"
        );
        assert_eq!(place.records.find(&identity).unwrap().prepared, Some(taken));
    }

    #[test]
    fn a_preparation_is_resumed_only_with_the_same_stamp_key() {
        let place = Place::new().interrupted();
        let facts = place.facts();
        let resume = place.resume();
        let drive = opened(
            place.consent(&facts),
            resume.clone(),
            &facts,
            &WANTED,
            &place.records,
        )
        .unwrap();
        assert_eq!(
            (Some(drive.key), &drive.identity),
            (resume.key, &facts.identity())
        );
        drop(drive);
        let other = Resume {
            key: resume.key.map(|key| key ^ 2),
            ..resume
        };
        let why = opened(
            place.consent(&facts),
            other,
            &facts,
            &WANTED,
            &place.records,
        )
        .err()
        .unwrap();
        assert!(
            why.contains("the key of the stamps differs - give --restart"),
            "{why}"
        );
    }
    #[track_caller]
    fn refused(place: &Place, facts: &DeviceFacts, resume: &Resume, why: &str) {
        let consent = place.consent(facts);
        let text = opened(consent, resume.clone(), facts, &WANTED, &place.records)
            .err()
            .expect(why);
        assert!(
            text.contains(why) && !text.contains('\n'),
            "`{why}` is not in `{text}`"
        );
    }

    #[test]
    fn a_preparation_is_refused_if_record_or_device_changed_between_decision_and_consent() {
        let place = Place::new().interrupted();
        let facts = place.facts();
        let resume = place.resume();
        let identity = facts.identity().unwrap();
        let on_record = || place.records.find(&identity).unwrap().prepared.unwrap();
        let then = on_record();
        let changed = |now: PreparationRecord, why: &str| {
            place.records.keep_prepared(&identity, &now).unwrap();
            refused(&place, &facts, &resume, why);
        };
        let elsewhere = "another run used it meanwhile, and its record changed - start again";
        changed(
            PreparationRecord {
                mark_bytes: 262_144,
                ..then.clone()
            },
            elsewhere,
        );
        changed(
            PreparationRecord {
                ended_unix_s: Some(9),
                ..then.clone()
            },
            elsewhere,
        );
        changed(
            PreparationRecord {
                seed: 9,
                ..then.clone()
            },
            elsewhere,
        );
        changed(
            PreparationRecord {
                written_since: Some("storage test".into()),
                ..then.clone()
            },
            "it was written to since (storage test)",
        );
        place.records.keep_prepared(&identity, &then).unwrap();
        assert!(
            opened(
                place.consent(&facts),
                resume.clone(),
                &facts,
                &WANTED,
                &place.records
            )
            .is_ok()
        );

        fs::OpenOptions::new()
            .write(true)
            .open(place.file())
            .unwrap()
            .set_len(2 * SIZE as u64)
            .unwrap();
        refused(
            &place,
            &facts,
            &resume,
            "it had 1048576 bytes and has 2097152 now - start again",
        );
        fs::copy(place.file(), place.dir.path().join("other")).unwrap();
        fs::rename(place.dir.path().join("other"), place.file()).unwrap();
        refused(
            &place,
            &facts,
            &resume,
            "another device took its place - start again",
        );
    }
}
