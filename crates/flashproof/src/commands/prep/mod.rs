//! `flashproof prep`: writes devices from end to end, so that a test meets a drive in use and not a new
//! one, and reads a sample back.
//!
//! What to do on each device is decided, and every device's consent had, before anything is written to
//! any. Then each goes its own way, on a thread of its own.

mod bars;
mod course;
mod job;
mod status;

use crate::args::PrepArgs;
use crate::commands::Manner;
use crate::devices::{self, Devices};
use crate::engine::Engine;
use crate::failure::Failure;
use crate::{say, signals};
use bars::{Bars, Style, clock};
use course::{Course, Subject, Wanted, unix_s};
use device::discover::{self, Kind, Roots};
use device::guard::{PREPARATION, Prepared, Records, Request};
use device::sim::{DriveSpec, PREFIX};
use device::target::Target;
use job::{Broken, Job, Ledger, Verified};
use load::act::Engine as WantedEngine;
use load::prep::SPOT_BYTES;
use load::run::Control;
use status::Shared;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// How often the screen is renewed.
const RENEW: Duration = Duration::from_millis(200);

/// Prepares the devices, or verifies that they are.
pub fn run(args: &PrepArgs, manner: Manner) -> Result<ExitCode, Failure> {
    let simulated = args.devices.iter().filter(|name| name.starts_with(PREFIX)).count();
    let drives = match simulated {
        0 if args.verify => open_prepared(args)?,
        0 => open(args)?,
        n if n < args.devices.len() => {
            return Err(Failure::usage(
                "cannot prepare simulated drives together with real ones - their time passes differently - name them apart",
            ));
        }
        _ if args.verify => {
            return Err(Failure::usage("cannot verify simulated drives - they keep no data - name devices or files"));
        }
        _ => simulate(args)?,
    };
    let engine = Arc::new(Engine::choose(WantedEngine::Auto, &drives[0].devices)?);
    let jobs: Vec<_> = drives.into_iter().map(|drive| drive.job(args, engine.clone())).collect();
    let controls = jobs.iter().map(|job| job.control.clone()).collect();
    signals::end_runs_on_signal(controls, "what was recorded before holds; the same command goes on from there")
        .map_err(|error| Failure::environment(format!("cannot listen for signals - {error}")))?;
    let style = match manner {
        _ if args.quiet => Style::Quiet,
        Manner::Own => Style::Bars,
        Manner::Act => Style::Plain,
    };
    let ended = work(jobs, args, style, simulated > 0)?;
    tell(args, &ended)
}

/// A device that is open, and what is to be done on it.
struct Drive {
    devices: Devices,
    prepared: Prepared,
    key: u64,
    identity: Option<String>,
}

impl Drive {
    fn job(self, args: &PrepArgs, engine: Arc<Engine>) -> Job {
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
            },
            samples: args.samples,
            control: Arc::new(Control::default()),
            status: Shared::default(),
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
fn open(args: &PrepArgs) -> Result<Vec<Drive>, Failure> {
    let (records, wanted) = (Records::open(None), wanted(args));
    let looked = args.devices.iter().map(|name| {
        discover::discover(name, &Roots::default()).map_err(|error| format!("cannot prepare {name} - {error}"))
    });
    let facts = all(looked, Failure::environment)?;
    let seed = super::test::fresh_seed();
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
fn open_prepared(args: &PrepArgs) -> Result<Vec<Drive>, Failure> {
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
fn simulate(args: &PrepArgs) -> Result<Vec<Drive>, Failure> {
    let nowhere = Records::nowhere();
    let drives = args.devices.iter().map(|name| {
        let spec: DriveSpec = name.parse().map_err(|error| format!("{error}"))?;
        let subject = Subject { path: name.clone(), identity: None, serial: None, size_bytes: spec.capacity_bytes };
        let Course { prepared, .. } = Course::of(&subject, &wanted(args), &nowhere, super::test::fresh_seed())?;
        Ok(Drive { devices: Devices::Simulated(vec![(name.clone(), spec)]), prepared, key: 0, identity: None })
    });
    all(drives, Failure::usage)
}

/// How a device's job ended, and after how many seconds.
type Ended = (Result<(Prepared, Verified), Broken>, u64);

/// Runs all jobs at once, and draws how they go.
fn work(jobs: Vec<Job>, args: &PrepArgs, style: Style, simulated: bool) -> Result<Vec<Ended>, Failure> {
    let status = jobs.iter().map(|job| job.status.clone()).collect();
    let mut bars = Bars::new(style, &args.devices, status, simulated);
    let begun = Instant::now();
    let started: Result<Vec<_>, _> = jobs
        .into_iter()
        .map(|job| {
            let (status, verify) = (job.status.clone(), args.verify);
            thread::Builder::new().name("prep".into()).spawn(move || {
                let ended = if verify { job.verify_only() } else { job.prepare() };
                status.end();
                (ended, begun.elapsed().as_secs())
            })
        })
        .collect();
    let threads = started.map_err(|error| Failure::environment(format!("cannot start a thread - {error}")))?;
    while threads.iter().any(|thread| !thread.is_finished()) {
        bars.draw();
        thread::sleep(RENEW);
    }
    bars.draw();
    // A panic ended the program already.
    Ok(threads.into_iter().filter_map(|thread| thread.join().ok()).collect())
}

/// Tells what came of it, and with which exit code: a device that failed outweighs the rest.
fn tell(args: &PrepArgs, ended: &[Ended]) -> Result<ExitCode, Failure> {
    let mut code = 0;
    for ((ended, seconds), name) in ended.iter().zip(&args.devices) {
        let severer = |now: u8| [1, 3, 4].into_iter().find(|severe| code == *severe || now == *severe).unwrap_or(0);
        match ended {
            Ok((prepared, verified)) => say::result(&summary(name, prepared, verified, *seconds, args.verify))?,
            Err(Broken::Device(why)) => {
                say::error(why);
                code = severer(1);
            }
            Err(Broken::Environment(why)) => {
                say::error(why);
                code = severer(3);
            }
            Err(Broken::Asked) => {
                say::note(&format!("{name}: interrupted; go on with: {}", command_to_go_on()));
                code = severer(4);
            }
        }
    }
    Ok(ExitCode::from(code))
}

/// The command line, without what would begin anew.
fn command_to_go_on() -> String {
    let arguments = std::env::args_os().map(|argument| argument.to_string_lossy().into_owned());
    arguments.filter(|argument| argument != "--restart").collect::<Vec<_>>().join(" ")
}

/// One line on a device that is prepared, or verified.
fn summary(name: &str, prepared: &Prepared, verified: &Verified, seconds: u64, verify: bool) -> String {
    let Prepared { size_bytes, used_bytes, fills, seed, zeros, .. } = prepared;
    let passes = match (zeros, fills) {
        (true, 0) => "zeros".to_owned(),
        (true, fills) => format!("zeros and {fills} x salt (seed {seed})"),
        (false, fills) => format!("{fills} x salt (seed {seed})"),
    };
    let part = match used_bytes == size_bytes {
        true => format!("{size_bytes} bytes"),
        false => format!("{used_bytes} of {size_bytes} bytes ({:.1} %)", prepared.use_pct()),
    };
    let read_back = match verified {
        Verified::Equal(sample) => {
            let share = sample.bytes as f64 * 100.0 / (*used_bytes).max(1) as f64;
            format!("{} places of up to {SPOT_BYTES} bytes ({share:.3} % of it) read back and as written", sample.spots)
        }
        Verified::Simulated => "simulated: nothing written, nothing read back".to_owned(),
        Verified::No => "nothing read back".to_owned(),
    };
    let done = if verify { "verified" } else { "prepared" };
    let when = prepared.ended_unix_s.filter(|_| verify).map(|ended| unix_s().saturating_sub(ended));
    let when = when.map(|ago| format!(", prepared {} ago", clock(ago))).unwrap_or_default();
    format!("{name}: {done}{when}: {part}, {passes}, {read_back}, in {}\n", clock(seconds))
}
