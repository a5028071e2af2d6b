//! The devices of a preparation: decided upon one by one, opened all or none.

use super::course::{Course, Subject, Wanted};
use super::job::{Job, Written};
use super::ledger::Ledger;
use super::status::Shared;
use crate::args::PrepArgs;
use crate::devices::{self, Devices};
use crate::engine::Engine;
use crate::failure::Failure;
use crate::say;
use device::discover::{self, Kind, Roots};
use device::guard::{PREPARATION, Prepared, Records, Request};
use device::sim::DriveSpec;
use device::target::Target;
use load::run::Control;
use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

/// A device that is open, and what is to be done on it.
pub struct Drive {
    pub devices: Devices,
    prepared: Prepared,
    key: u64,
    identity: Option<String>,
}

impl Drive {
    /// The job on it.
    pub fn job(self, args: &PrepArgs, engine: Arc<Engine>) -> Job {
        let target = match &self.devices {
            Devices::Real(targets) => targets.first().cloned(),
            Devices::Simulated(_) => None,
        };
        Job {
            name: self.prepared.path.clone(),
            devices: self.devices,
            engine,
            prepared: self.prepared,
            key: self.key,
            ledger: Ledger {
                records: Records::open(None),
                identity: self.identity,
                every: Duration::from_secs(args.checkpoint),
                target,
                told: Cell::new(false),
            },
            samples: args.samples,
            control: Arc::new(Control::default()),
            status: Shared::default(),
            written: Written::default(),
        }
    }
}

fn wanted(args: &PrepArgs) -> Wanted {
    Wanted {
        discard_first: args.discard_first,
        zeros: !args.skip_zero,
        fills: if args.zero_only { 0 } else { args.fills },
        use_pct: args.use_pct,
        seed: args.seed,
        restart: args.restart,
    }
}

/// Values, or all errors, one a line.
fn all<T>(
    results: impl Iterator<Item = Result<T, String>>,
    failure: impl Fn(String) -> Failure,
) -> Result<Vec<T>, Failure> {
    let (mut values, mut errors) = (Vec::new(), Vec::new());
    results.for_each(|result| match result {
        Ok(value) => values.push(value),
        Err(error) => errors.push(error),
    });
    if errors.is_empty() { Ok(values) } else { Err(failure(errors.join("\n"))) }
}

/// Opens all devices for writing, or none.
pub fn open(args: &PrepArgs) -> Result<Vec<Drive>, Failure> {
    let (records, wanted) = (Records::open(None), wanted(args));
    let looked = args.devices.iter().map(|name| {
        discover::discover(name, &Roots::default()).map_err(|error| format!("cannot prepare {name} - {error}"))
    });
    let facts = all(looked, Failure::environment)?;
    let seed = crate::commands::test::fresh_seed();
    // Which passes to write is a question of options; whether the device takes a discard is not.
    let courses =
        facts.iter().zip(seed..).map(|(facts, seed)| Course::of(&Subject::of(facts), &wanted, &records, seed));
    let courses = all(courses, Failure::usage)?;
    let cannot = facts.iter().filter(|facts| wanted.discard_first && facts.max_discard_bytes.unwrap_or(0) == 0);
    let cannot: Vec<_> = cannot
        .map(|facts| {
            format!(
                "cannot discard {} - it takes no discard (TRIM, deallocate) - leave out --discard-first",
                facts.path
            )
        })
        .collect();
    if !cannot.is_empty() {
        return Err(Failure::environment(cannot.join("\n")));
    }
    let requests: Vec<_> = facts
        .iter()
        .map(|facts| Request {
            file_size_bytes: (facts.kind == Kind::RegularFile).then_some(facts.size_bytes),
            whole: true,
            odsync: false,
            ..Request::new(&facts.path, PREPARATION)
        })
        .collect();
    let consents = devices::consent(&requests, &args.erase)?;
    let drives = consents.into_iter().zip(courses).zip(&facts).map(|((consent, course), facts)| {
        let identity = consent.facts().identity();
        let target = Target::writable(consent);
        if identity != facts.identity() || target.size_bytes() != facts.size_bytes {
            return Err(format!("cannot prepare {} - another device took its place - start again", facts.path));
        }
        target.notes().iter().for_each(|note| say::warning(&format!("{}: {note}", target.name())));
        if course.resumed {
            let Prepared { seed, .. } = course.prepared;
            say::note(&format!("{}: going on {} (seed {seed})", facts.path, course.prepared.progress()));
        }
        let key = target.stamp_key().unwrap_or_default();
        Ok(Drive { devices: Devices::Real(vec![Arc::new(target)]), prepared: course.prepared, key, identity })
    });
    all(drives, Failure::environment)
}

/// Opens devices for reading that are recorded as prepared.
pub fn open_prepared(args: &PrepArgs) -> Result<Vec<Drive>, Failure> {
    let records = Records::open(None);
    let drives = args.devices.iter().map(|name| {
        let target = Target::read_only(name, 1).map_err(|error| error.to_string())?;
        let facts = target.facts();
        let cannot = |why: String| format!("cannot verify {name} - {why} - prepare it first (flashproof prep {name})");
        let identity =
            facts.identity().ok_or_else(|| cannot("it has no lasting name, so nothing is recorded of it".into()))?;
        let record = records.find(&identity).filter(|record| record.prepared.is_some());
        let record = record.ok_or_else(|| cannot(format!("there is no record of a preparation of {identity}")))?;
        let key = record.key;
        let Some(prepared) = record.prepared.filter(|prepared| prepared.size_bytes == facts.size_bytes) else {
            return Err(cannot(format!(
                "it was of another size when it was prepared, and has {} bytes now",
                facts.size_bytes
            )));
        };
        if let Some(what) = &prepared.written_since {
            return Err(cannot(format!("a {what} has written to it since its preparation")));
        }
        if !prepared.is_complete() {
            return Err(cannot(format!("its preparation was interrupted {}", prepared.progress())));
        }
        let prepared = Prepared { path: name.clone(), ..prepared };
        Ok(Drive { devices: Devices::Real(vec![Arc::new(target)]), prepared, key, identity: Some(identity) })
    });
    all(drives, Failure::environment)
}

/// Simulated drives, of which nothing is recorded.
pub fn simulate(args: &PrepArgs) -> Result<Vec<Drive>, Failure> {
    let nowhere = Records::nowhere();
    let drives = args.devices.iter().map(|name| {
        let spec: DriveSpec = name.parse().map_err(|error| format!("{error}"))?;
        let subject = Subject { path: name.clone(), identity: None, serial: None, size_bytes: spec.capacity_bytes };
        let Course { prepared, .. } =
            Course::of(&subject, &wanted(args), &nowhere, crate::commands::test::fresh_seed())?;
        Ok(Drive { devices: Devices::Simulated(vec![(name.clone(), spec)]), prepared, key: 0, identity: None })
    });
    all(drives, Failure::usage)
}
