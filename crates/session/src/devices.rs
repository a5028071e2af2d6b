//! Opens devices given by name: real targets or simulated drives.

use crate::console;
use crate::failure::{Failure, collect_all};
use device::discover::DeviceFacts;
use device::discover::DeviceNumber;
use device::guard::{
    EraseAnswers, Guard, WriteConsent, WriteRequest, ask_on_terminal, check_distinct, erase_names,
};
use device::target::Target;
use engine::DeviceName;
use engine::sim::{DriveSpec, SimulatedDrive};
use load::workload::{DeviceShape, FilePlan, RunSpec, Workload};
use results::format::quoted;
use results::run_dir::DeviceKind;
use serde_json::{Value, json};
use std::fs;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::Arc;
use sys::buffer::{Buf, Pool};
use sys::call::perform_call;
use sys::op::{Op, OpKind};

/// Environment variable in which scripts name devices that may be erased.
pub const ERASE_VARIABLE: &str = "FLASHPROOF_ERASE";

/// Line of a dry run whose load needs no consent. The plan of a campaign reads this line.
pub const ONLY_READS: &str = "only reads: no device is erased";

const PRE_READ_BYTES: usize = 1 << 20;

/// Devices that flashproof may write to, by the user's options.
#[derive(Debug, Clone, Copy)]
pub struct Consents<'a> {
    pub erase: &'a [String],
    /// Other devices of the same configuration, which other runs may erase.
    pub other_devices: &'a [String],
    pub shared: bool,
}

impl<'a> Consents<'a> {
    /// Consents of a run without other devices.
    pub fn erasing(erase: &'a [String]) -> Self {
        Self {
            erase,
            other_devices: &[],
            shared: false,
        }
    }
}

pub enum Devices {
    Real(Vec<Arc<Target>>),
    Simulated(Vec<(String, DriveSpec)>),
    /// A database's namespace: its name, and facts about its nodes.
    Namespace(String, Value),
}

impl Devices {
    /// `spec`: the combined spec of all `workloads`. Devices that are written need the guard's consent.
    pub fn open(
        spec: &RunSpec,
        workloads: &[&dyn Workload],
        consents: &Consents<'_>,
    ) -> Result<Self, Failure> {
        let drive = |name: &DeviceName| Some((name.to_string(), name.drive()?.clone()));
        let drives: Vec<_> = spec.device_names.iter().filter_map(drive).collect();
        if !drives.is_empty() {
            let ftl_drives = drives.iter().filter_map(|(_, drive)| drive.ftl.as_ref());
            load::memory::check(ftl_drives.map(|drive| drive.spec.memory_bytes()).sum()).map_err(|why| {
                Failure::environment(format!(
                    "cannot simulate drives of that size - {why} - choose a larger mapping unit (unit=), or less capacity"
                ))
            })?;
            return Ok(Self::Simulated(drives));
        }
        check_sizes(spec)?;
        let targets = open_targets(spec, workloads, consents)?;
        for target in &targets {
            target
                .notes()
                .iter()
                .for_each(|note| console::warning(&format!("{}: {note}", target.name())));
        }
        Ok(Self::Real(targets.into_iter().map(Arc::new).collect()))
    }

    /// For buffered devices: reads the workload's cached range into the page cache; without a range, drops the pages.
    pub fn use_page_cache(
        &self,
        spec: &RunSpec,
        workloads: &[&dyn Workload],
    ) -> Result<(), Failure> {
        let Self::Real(targets) = self else {
            return Ok(());
        };
        collect_all(
            targets.iter().zip(&spec.device_names).map(
                |(target, name): (&Arc<Target>, &DeviceName)| {
                    let Some(workload) =
                        workloads.iter().find(|workload| workload.is_buffered(name))
                    else {
                        return Ok(());
                    };
                    let cached = workload.cached_range(name, target.size_bytes());
                    let result = target.use_page_cache(cached.is_none());
                    result.map_err(|error| {
                        format!("cannot use the page cache for {name} - {error}")
                    })?;
                    pre_read(target, cached.unwrap_or_default())
                },
            ),
            Failure::environment,
        )
        .map(|_: Vec<()>| ())
    }

    pub fn shapes(&self) -> Vec<DeviceShape> {
        match self {
            Self::Real(targets) => (0..)
                .zip(targets)
                .map(|(target_id, target)| shape_of_target(target_id, target))
                .collect(),
            Self::Simulated(drives) => (0..)
                .zip(drives)
                .map(|(target_id, (name, drive)): (u16, &(String, DriveSpec))| {
                    DeviceShape::new(name, target_id, drive.capacity_bytes, drive.min_io_bytes)
                })
                .collect(),
            // A namespace has no size and no sectors: positions are keys.
            Self::Namespace(name, _) => vec![DeviceShape::new(name, 0, u64::MAX, 1)],
        }
    }

    pub fn facts(&self) -> Vec<Value> {
        match self {
            Self::Real(targets) => targets
                .iter()
                .map(|target| facts_of_target(target))
                .collect(),
            Self::Simulated(drives) => drives
                .iter()
                .map(|(name, drive)| facts_of_drive(name, drive))
                .collect(),
            Self::Namespace(_, facts) => vec![facts.clone()],
        }
    }

    /// Simulated drives. A drive without its own seed gets a seed derived from `seed`.
    pub fn drives(&self, seed: u64) -> io::Result<Vec<SimulatedDrive>> {
        let Self::Simulated(specs) = self else {
            return Ok(Vec::new());
        };
        specs
            .iter()
            .zip(seed..)
            .map(|((_, spec), seed)| SimulatedDrive::new(spec, seed).map_err(io::Error::other))
            .collect()
    }

    /// Names of the counter columns of simulated drives, drive by drive.
    pub fn counter_columns(&self) -> Vec<String> {
        let Self::Simulated(specs) = self else {
            return Vec::new();
        };
        specs
            .iter()
            .flat_map(|(name, spec): &(String, _)| {
                let columns = SimulatedDrive::columns(spec).into_iter();
                columns
                    .map(|column| column.for_object(name).to_string())
                    .collect::<Vec<_>>()
            })
            .collect()
    }

    /// Major and minor numbers of the block devices.
    pub fn numbers(&self) -> Vec<DeviceNumber> {
        self.real_facts()
            .into_iter()
            .filter_map(|(_, facts)| facts.number)
            .collect()
    }

    /// Facts about each real device, with its name; empty for simulated drives.
    pub fn real_facts(&self) -> Vec<(&str, &DeviceFacts)> {
        match self {
            Self::Real(targets) => targets
                .iter()
                .map(|target| (target.name(), target.facts()))
                .collect(),
            Self::Simulated(_) | Self::Namespace(..) => Vec::new(),
        }
    }
}

fn pre_read(target: &Target, range: Range<u64>) -> Result<(), String> {
    if range.is_empty() {
        return Ok(());
    }
    console::note(&format!(
        "{}: reading {} bytes into the page cache",
        target.name(),
        range.end - range.start
    ));
    let mut buf = Pool::new(PRE_READ_BYTES)
        .ok()
        .and_then(|mut pool| pool.cut(PRE_READ_BYTES))
        .unwrap_or(Buf::empty());
    for at in range.clone().step_by(PRE_READ_BYTES) {
        let len = (range.end - at).min(PRE_READ_BYTES as u64) as u32;
        let mut read = Op::new(OpKind::Read, at, len, buf);
        let outcome = perform_call(target.fd(), 0, &mut read);
        if !outcome.is_done() {
            return Err(format!(
                "cannot read {len} bytes at byte {at} of {} into the page cache - {outcome}",
                target.name()
            ));
        }
        buf = read.buf;
    }
    Ok(())
}

/// Parses device names of an option. Errors: invalid simulated drives, one per line.
pub fn parsed(names: &[String]) -> Result<Vec<DeviceName>, Failure> {
    if names.iter().any(|name| name == "sim") {
        return Err(Failure::usage(
            "there is no device sim - the name of a simulated drive begins with \"sim:\" - give sim:",
        ));
    }
    collect_all(names.iter().map(|name| name.parse()), Failure::usage)
}

/// Refuses names that are patterns of a shell, or places to fill in (`/dev/sdc?` in ACT's sample): each would count as one
/// drive.
pub fn refuse_patterns(names: &[DeviceName]) -> Result<(), Failure> {
    let checked = names.iter().map(|name| {
        let name = name.as_str();
        if !name.contains(['[', '*', '?', '{']) || Path::new(name).exists() {
            return Ok(());
        }
        Err(format!(
            "cannot use the device {} - it is a pattern of a shell, not a device - name each device, joined by commas, or \
             let bash repeat the option, without quotes: --device=/dev/nvme{{0..3}}n1",
            quoted(name)
        ))
    });
    collect_all(checked, Failure::usage).map(drop)
}

/// Rejects a file size if all devices are block devices: the size would be ignored, and the whole device used.
fn check_sizes(spec: &RunSpec) -> Result<(), Failure> {
    if spec.file_size_bytes.is_some()
        && let Some(device) = spec.device_names.first()
        && spec.device_names.iter().all(is_block_device)
    {
        return Err(Failure::usage(format!(
            "cannot use file-size-mbytes with {device} - it is a block device, and its size is fixed - leave out \
             file-size-mbytes, or name a file"
        )));
    }
    Ok(())
}

fn is_block_device(name: &DeviceName) -> bool {
    fs::metadata(name.as_str()).is_ok_and(|metadata| metadata.file_type().is_block_device())
}

fn open_targets(
    spec: &RunSpec,
    workloads: &[&dyn Workload],
    consents: &Consents<'_>,
) -> Result<Vec<Target>, Failure> {
    // Read-only devices need no consent and are opened first: if one cannot be opened, no question is asked.
    let mut read_only = Vec::new();
    let mut requests = Vec::new();
    for name in &spec.device_names {
        let workloads_on: Vec<_> = workloads
            .iter()
            .filter(|workload| workload.spec().device_names.contains(name))
            .collect();
        let unit_bytes = workloads_on
            .iter()
            .map(|workload| workload.unit_bytes())
            .max()
            .unwrap_or(0);
        if !workloads_on.iter().any(|workload| workload.writes_to(name)) {
            let target = Target::read_only(name.as_str(), unit_bytes);
            read_only.push(Some(target.map_err(Failure::environment)?));
            continue;
        }
        read_only.push(None);
        let mut kinds: Vec<_> = workloads_on
            .iter()
            .map(|workload| format!("{} test", workload.kind()))
            .collect();
        kinds.dedup();
        let plans: Vec<FilePlan> = workloads_on
            .iter()
            .map(|workload| workload.file_plan(name))
            .collect();
        let FilePlan {
            size_bytes: file_size_bytes,
            sparse,
            grows,
            ..
        } = plans.first().copied().unwrap_or_default();
        requests.push(WriteRequest {
            file_size_bytes,
            sparse,
            grows,
            min_size_bytes: unit_bytes,
            reads: plans.iter().any(|plan| plan.is_read),
            shared: consents.shared,
            odsync: spec.odsync,
            ..WriteRequest::new(name.as_str(), kinds.join(" and "))
        });
    }
    // The guard compares only devices that are written.
    if read_only.iter().any(Option::is_some) {
        check_distinct(spec.device_names.iter().map(DeviceName::as_str))
            .map_err(Failure::environment)?;
    }
    // Nothing is erased until the guard has agreed to every device.
    let consents = match &requests[..] {
        [] => Vec::new(),
        _ => consent(&requests, consents.erase, consents.other_devices)?,
    };
    let mut writable_targets = consents.into_iter().map(Target::writable);
    Ok(read_only
        .into_iter()
        .map(|target: Option<Target>| {
            target
                .or_else(|| writable_targets.next())
                .expect("one consent for each request")
        })
        .collect())
}

/// The guard's consent to all `requests`, or to none. `erase` names devices that may be erased. Prints what will be
/// erased, and warns of names that match neither `requests` nor `other_devices`.
pub fn consent(
    requests: &[WriteRequest],
    erase: &[String],
    other_devices: &[String],
) -> Result<Vec<WriteConsent>, Failure> {
    let guard = Guard::new(None);
    let devices: Vec<&String> = requests
        .iter()
        .map(|request| &request.path)
        .chain(other_devices)
        .collect();
    let allowed_names = allowed(erase, |name| {
        devices.iter().any(|device| guard.is_name_of(name, device))
    });
    for name in allowed_names
        .iter()
        .filter(|name| !devices.iter().any(|device| guard.is_name_of(name, device)))
    {
        console::warning(&format!(
            "{name} is named for erasure, but is not a device of this configuration: the name is ignored"
        ));
    }
    let mut answers = EraseAnswers::named(allowed_names).or_ask(ask_on_terminal);
    let consents = guard
        .consent(requests, &mut answers)
        .map_err(Failure::environment)?;
    // Opening an existing store erases nothing.
    for consent in consents
        .iter()
        .filter(|consent| !consent.erases().is_empty() && !consent.keeps_store())
    {
        let erased: Vec<_> = consent.erases().iter().map(ToString::to_string).collect();
        console::notice(&format!(
            "{}: erasing {}",
            consent.name(),
            erased.join("; ")
        ));
    }
    Ok(consents)
}

/// Names of devices that may be erased: from options, and from [`ERASE_VARIABLE`]. An option that is the name of a device
/// by `is_name` is not split at its spaces and commas, because a part could be the name of another device.
fn allowed(erase: &[String], is_name: impl Fn(&str) -> bool) -> Vec<String> {
    let (names, lists): (Vec<String>, Vec<String>) =
        erase.iter().cloned().partition(|option| is_name(option));
    [
        names,
        erase_names(&lists, std::env::var(ERASE_VARIABLE).ok().as_deref()),
    ]
    .concat()
}

/// Prints in a dry run that the load erases nothing, unless it writes.
pub fn note_only_reads(writes: bool) {
    if !writes {
        console::notice(ONLY_READS);
    }
}

/// Checks before a series begins that the guard agrees to erase the real devices of `spec`. Erases nothing. If the
/// series does not write (`writes` is false), nothing is checked. Returns `erase` and the names that the user agreed
/// to, so that later consents ask no question. Without `may_ask`, in a dry run, the user is not asked: only `erase` and
/// [`ERASE_VARIABLE`] count.
pub fn erasable(
    spec: &RunSpec,
    writes: bool,
    erase: &[String],
    may_ask: bool,
) -> Result<Vec<String>, Failure> {
    if !may_ask {
        note_only_reads(writes);
    }
    let request = |name: &DeviceName| WriteRequest {
        file_size_bytes: spec.file_size_bytes,
        odsync: spec.odsync,
        ..WriteRequest::new(name.as_str(), "series of tests")
    };
    let real = spec
        .device_names
        .iter()
        .filter(|name| writes && name.drive().is_none());
    let requests: Vec<_> = real.map(request).collect();
    match &requests[..] {
        [] => Ok(erase.to_vec()),
        _ => agree(&requests, erase, may_ask),
    }
}

/// Lets the guard examine all `requests`, without a consent. `erase` names devices that may be erased. Returns `erase`
/// and the names that the user agreed to. `may_ask`: questions on the terminal are allowed.
pub fn agree(
    requests: &[WriteRequest],
    erase: &[String],
    may_ask: bool,
) -> Result<Vec<String>, Failure> {
    let guard = Guard::new(None);
    let preset_answers = EraseAnswers::named(allowed(erase, |name: &str| {
        requests
            .iter()
            .any(|request| guard.is_name_of(name, &request.path))
    }));
    let mut answers = if may_ask {
        preset_answers.or_ask(ask_on_terminal)
    } else {
        preset_answers
    };
    let names = guard
        .preview_consent(requests, &mut answers)
        .map_err(Failure::environment)?;
    let agreed_names = names.into_iter().filter(|name| !erase.contains(name));
    Ok(erase.iter().cloned().chain(agreed_names).collect())
}

fn shape_of_target(target_id: u16, target: &Target) -> DeviceShape {
    let facts = target.facts();
    DeviceShape {
        name: target.name().to_owned(),
        target: target_id,
        size_bytes: target.size_bytes(),
        min_io_bytes: target.min_io_bytes(),
        // Stacked drivers have no queue, even if they have the attribute queue/nr_requests.
        queue_requests: facts.hardware_queues.and(facts.queue_requests_max),
        // Targets without a key are never written.
        stamp_key: target.stamp_key().unwrap_or(0),
    }
}

/// Facts about a simulated drive. With an FTL, the queueing model's times do not apply and are left out.
fn facts_of_drive(name: &str, drive: &DriveSpec) -> Value {
    match &drive.ftl {
        None => json!({"path": name, "kind": DeviceKind::Simulated, "queueing_model": drive}),
        Some(ftl) => {
            let DriveSpec {
                capacity_bytes,
                min_io_bytes,
                error_rate,
                bad_range,
                gone_at_ns,
                seed,
                ..
            } = drive;
            json!({
                "path": name, "kind": DeviceKind::Simulated, "capacity_bytes": capacity_bytes,
                "min_io_bytes": min_io_bytes, "error_rate": error_rate, "bad_range": bad_range,
                "gone_at_ns": gone_at_ns, "seed": seed, "ftl_model": ftl,
            })
        }
    }
}

fn facts_of_target(target: &Target) -> Value {
    // This cannot fail, because the facts are maps of plain values. Unknown values are null.
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
