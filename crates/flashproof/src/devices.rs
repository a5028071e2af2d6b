//! From device names to open targets or simulated drives.

use crate::console;
use crate::failure::Failure;
use device::discover::DeviceFacts;
use device::guard::{Answers, Guard, Request, WriteConsent, ask_on_terminal, erase_names};
use device::observe::DeviceNumber;
use device::target::Target;
use engine::sim::{DriveSpec, QueueModel};
use load::act::Terms;
use load::act::options::Test;
use load::act::workload::DeviceShape;
use serde_json::{Value, json};
use std::sync::Arc;

/// Scripts name devices that may be erased in this variable.
const ERASE_VARIABLE: &str = "FLASHPROOF_ERASE";

const MIB: u64 = 1 << 20;

/// What the user allows, by options, to be written to.
#[derive(Debug, Clone, Copy)]
pub struct Consents<'a> {
    /// Devices that may be erased, by name.
    pub erase: &'a [String],
    /// Further devices of what the run is part of, which other runs may erase.
    pub others: &'a [String],
    /// Whether other runs that say so too may use the devices at the same time.
    pub shared: bool,
}

/// The devices of a run, open.
pub enum Devices {
    /// Block devices and files.
    Real(Vec<Arc<Target>>),
    /// Simulated drives with their names.
    Simulated(Vec<(String, DriveSpec)>),
}

impl Devices {
    /// Opens the devices of `terms`: for writing, with the guard's consent, if the load `writes`.
    ///
    /// `block_bytes`: what at least has to fit on each.
    pub fn open(
        terms: &Terms,
        consents: &Consents<'_>,
        test: Test,
        writes: bool,
        block_bytes: u64,
    ) -> Result<Self, Failure> {
        if !terms.is_simulated() {
            let targets = match writes {
                true => open_to_write(terms, consents, test, block_bytes)?,
                false => open_to_read(terms, block_bytes)?,
            };
            for target in &targets {
                target.notes().iter().for_each(|note| console::warning(&format!("{}: {note}", target.name())));
            }
            return Ok(Self::Real(targets.into_iter().map(Arc::new).collect()));
        }
        let parsed = terms.device_names.iter().map(|name| Ok((name.clone(), name.parse().map_err(Failure::usage)?)));
        Ok(Self::Simulated(parsed.collect::<Result<_, Failure>>()?))
    }

    /// What the workload has to know of them.
    pub fn shapes(&self) -> Vec<DeviceShape> {
        match self {
            Self::Real(targets) => targets.iter().map(|target| shape_of_target(target)).collect(),
            Self::Simulated(drives) => drives.iter().map(shape_of_drive).collect(),
        }
    }

    /// What is known of each, for the manifest.
    pub fn facts(&self) -> Vec<Value> {
        match self {
            Self::Real(targets) => targets.iter().map(|target| facts_of_target(target)).collect(),
            Self::Simulated(drives) => drives
                .iter()
                .map(|(name, drive)| json!({"path": name, "kind": "simulated", "queueing_model": drive}))
                .collect(),
        }
    }

    /// Simulated drives, each with a seed of its own unless it names one.
    pub fn drives(specs: &[(String, DriveSpec)], seed: u64) -> Vec<QueueModel> {
        specs.iter().zip(seed..).map(|((_, spec), seed)| QueueModel::new(spec, seed)).collect()
    }

    /// Major and minor numbers of the block devices.
    pub fn numbers(&self) -> Vec<DeviceNumber> {
        match self {
            Self::Real(targets) => targets.iter().filter_map(|target| number(target.facts())).collect(),
            Self::Simulated(_) => Vec::new(),
        }
    }

    /// What is known of each real device, with its name; nothing of simulated ones.
    pub fn real_facts(&self) -> Vec<(&str, &DeviceFacts)> {
        match self {
            Self::Real(targets) => targets.iter().map(|target| (target.name(), target.facts())).collect(),
            Self::Simulated(_) => Vec::new(),
        }
    }
}

fn number(facts: &DeviceFacts) -> Option<DeviceNumber> {
    facts.number.map(|number| (number.major, number.minor))
}

fn open_to_read(terms: &Terms, block_bytes: u64) -> Result<Vec<Target>, Failure> {
    let opened = terms.device_names.iter().map(|name| Target::read_only(name, block_bytes));
    opened.collect::<Result<_, _>>().map_err(Failure::environment)
}

fn open_to_write(terms: &Terms, consents: &Consents<'_>, test: Test, block_bytes: u64) -> Result<Vec<Target>, Failure> {
    let requests: Vec<_> = terms
        .device_names
        .iter()
        .map(|name| Request {
            file_size_bytes: terms.file_size_mbytes.map(|mbytes| u64::from(mbytes) * MIB),
            min_size_bytes: block_bytes,
            shared: consents.shared,
            odsync: !terms.disable_odsync,
            ..Request::new(name, format!("{} test", test.name()))
        })
        .collect();
    Ok(consent(&requests, consents.erase, consents.others)?.into_iter().map(Target::writable).collect())
}

/// The guard's consent to all `requests`, or to none; `erase` names what may be erased. Says what will be,
/// and which names are of no device of `requests` and none of `others`.
pub fn consent(requests: &[Request], erase: &[String], others: &[String]) -> Result<Vec<WriteConsent>, Failure> {
    let variable = std::env::var(ERASE_VARIABLE).ok();
    let named = erase_names(erase, variable.as_deref());
    let is_known = |name: &String| others.contains(name) || requests.iter().any(|request| request.path == *name);
    for name in named.iter().filter(|name| !is_known(name)) {
        console::warning(&format!(
            "{name}, named for erasure, is no device of this configuration: nothing comes of it"
        ));
    }
    let mut answers = Answers::named(named).or_ask(ask_on_terminal);
    let consents = Guard::new(None).consent(requests, &mut answers).map_err(Failure::environment)?;
    Ok(consents.into_iter().map(told).collect())
}

/// Says what is about to be erased.
fn told(consent: WriteConsent) -> WriteConsent {
    if !consent.erases().is_empty() {
        let erased: Vec<_> = consent.erases().iter().map(ToString::to_string).collect();
        console::note(&format!("{}: erasing {}", consent.name(), erased.join(", ")));
    }
    consent
}

fn shape_of_target(target: &Target) -> DeviceShape {
    DeviceShape {
        name: target.name().to_owned(),
        size_bytes: target.size_bytes(),
        min_io_bytes: target.min_io_bytes(),
        // Nothing is written to a target without a key.
        stamp_key: target.stamp_key().unwrap_or(0),
    }
}

fn shape_of_drive((name, drive): &(String, DriveSpec)) -> DeviceShape {
    DeviceShape { name: name.clone(), size_bytes: drive.capacity_bytes, min_io_bytes: drive.min_io_bytes, stamp_key: 0 }
}

fn facts_of_target(target: &Target) -> Value {
    // Maps of plain values; it cannot fail, and what is not known is null.
    let mut facts = serde_json::to_value(target.facts()).unwrap_or(Value::Null);
    if let Value::Object(fields) = &mut facts {
        fields.insert("used_bytes".into(), target.size_bytes().into());
        fields.insert("min_io_bytes".into(), target.min_io_bytes().into());
        fields.insert("direct".into(), target.is_direct().into());
        fields.insert("odsync".into(), target.is_odsync().into());
        fields.insert("writable".into(), target.is_writable().into());
        fields.insert("notes".into(), target.notes().into());
    }
    facts
}
