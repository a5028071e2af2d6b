//! The writes: a thread per lane, a thread that reports to the witness, and the phases.
//!
//! ```text
//! lane:   turn, room in the window -> writes -> flush returned -> durable
//! sender:                                                         durable -> witness -> confirmed
//! ```
//!
//! A flush of any lane makes the writes of all lanes durable, and so would hide a drive that ignores FUA. Therefore
//! lanes with flushes and lanes without flushes write in turns, for one [`PHASE`] each. At a change of phase, no lane
//! is within a write, and the witness has confirmed all writes.

use super::lane::{Worker, fill};
use super::state::{Shared, State, Stop, in_words};
use super::target::DurabilityTarget;
use super::witness::Connection;
use super::{DurabilityRequest, OWN_DIR, cannot_ask, one_buffer, perform};
use crate::commands::check::site::OwnDir;
use conclusions::durability::examine::{put_secret, stamp};
use conclusions::durability::session::{
    DurabilityMethod, FORMAT_VERSION, Secret, Session, WriteLane,
};
use conclusions::durability::witness::WitnessMessage;
use device::guard::WriteRequest;
use device::observe::process::this_process;
use device::target::Target;
use results::files::Dir;
use results::format::{bytes, count, number, printable};
use session::clock::now_unix_ms;
use session::console;
use session::devices::consent;
use session::failure::Failure;
use session::runner::tool;
use session::signals::{EndSignals, name};
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use sys::buffer::Buf;
use sys::op::{OpKind, WriteSync};
use sys::random::Random;

/// Time for which the lanes with flushes, or the lanes without flushes, write alone.
const PHASE: Duration = Duration::from_secs(2);

/// Write sizes of the two lanes of each mode: sequential and scattered database pages.
const WRITE_BYTES: [u32; 2] = [4096, 16384];
const SLOTS: u32 = 1024;
const SLOTS_OF_FILES: u32 = 64;

const LANE_ALIGN: u64 = 1 << 20;

/// Maximum time between two messages to the witness.
const HEARTBEAT: Duration = Duration::from_secs(1);

/// Maximum wait for a write that does not return.
const HANG: Duration = Duration::from_secs(10);

/// Maximum wait for the device node to disappear, after an error that a powered drive can also return.
const VANISH_MAX: Duration = Duration::from_secs(60);

const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Writes until something other than a power cut ends the writes, and returns the cause.
pub(super) fn run(
    request: &DurabilityRequest<'_>,
    durability_target: &DurabilityTarget,
    end_signals: &EndSignals,
) -> Result<Failure, Failure> {
    let lanes = lanes_of(&request.options.modes, durability_target.dir.is_some());
    if lanes.is_empty() {
        return Err(Failure::usage(
            "cannot test the mode rename on a device - it needs files - name a directory",
        ));
    }
    // `own_dir` holds the lock of the directory until the writes end.
    let (target, own_dir) = open(request, durability_target, &lanes)?;
    let dir = own_dir.as_ref().map(|own| &own.dir);
    let secret = new_secret()?;
    let session = begin(durability_target, secret, lanes)?;
    console::note(&format!(
        "{}: writing {} once, before the test",
        request.path,
        bytes(size(&session.lanes) as f64)
    ));
    lay_out(&session, secret, &target)?;
    if let Some(dir) = dir {
        let parent = Dir::open(Path::new(&durability_target.path));
        let sync_result = parent.and_then(|parent| {
            [dir, &parent]
                .into_iter()
                .try_for_each(|dir| dir.open_to_sync()?.sync_all())
        });
        sync_result.map_err(|error| {
            Failure::device(format!("cannot sync {} - {error}", dir.path().display()))
        })?;
    }
    let mut connection = Connection::to(request.witness)?;
    connection
        .ask(&WitnessMessage::Begin(session.clone()))
        .map_err(|why| cannot_ask(request.witness, &why))?;
    console::notice(&format!(
        "session {} writes to {}; {}",
        session.id,
        request.path,
        end_signals.stop_hint()
    ));
    console::notice(&format!(
        "secret {secret}: note it down; if the drive loses everything, the session can be examined only with --secret \
         {secret}"
    ));

    let zeros = vec![0; session.lanes.len()];
    let state = State {
        durable: zeros.clone(),
        confirmed: zeros,
        ..State::default()
    };
    let sysfs_dir = durability_target.sysfs_dir();
    let shared = Arc::new(Shared {
        session,
        secret,
        sysfs_dir,
        state: Mutex::new(state),
        changed: Condvar::new(),
    });
    let mut threads = Vec::new();
    for number in 0..shared.session.lanes.len() {
        let mut worker = Worker::new(shared.clone(), number, &target, dir)?;
        threads.push(thread::spawn(move || worker.run()));
    }
    let sender_shared = shared.clone();
    let sender = thread::spawn(move || sender_shared.report_to_witness(&mut connection));
    shared.run_phases(request, end_signals);
    // A thread in a system call on a dead device may never return.
    let stop_instant = Instant::now();
    while threads.iter().any(|thread| !thread.is_finished()) && stop_instant.elapsed() < HANG {
        thread::sleep(POLL_INTERVAL);
    }
    let hung = threads
        .iter()
        .filter(|thread| !thread.is_finished())
        .count() as u64;
    shared.wait_for_vanished_drive(request, end_signals);
    shared.lock().is_over = true;
    shared.changed.notify_all();
    let over_instant = Instant::now();
    while !sender.is_finished() && over_instant.elapsed() < 2 * HANG {
        thread::sleep(POLL_INTERVAL);
    }
    Ok(shared.failure(request, hung))
}

/// Two lanes for each of `modes` (if empty, for each mode). The mode rename needs a directory (`has_files`).
fn lanes_of(modes: &[DurabilityMethod], has_files: bool) -> Vec<WriteLane> {
    let mut offset = 0;
    let mut lanes = Vec::new();
    for mode in DurabilityMethod::ALL {
        let is_requested = (modes.is_empty() || modes.contains(&mode))
            && (has_files || mode != DurabilityMethod::Rename);
        if !is_requested {
            continue;
        }
        for (write_bytes, scattered) in WRITE_BYTES.into_iter().zip([false, true]) {
            let slots = if mode == DurabilityMethod::Rename {
                SLOTS_OF_FILES
            } else {
                SLOTS
            };
            let lane = WriteLane {
                mode,
                write_bytes,
                slots,
                at: if mode == DurabilityMethod::Rename {
                    0
                } else {
                    offset
                },
                scattered,
            };
            if mode != DurabilityMethod::Rename {
                offset += lane.bytes().next_multiple_of(LANE_ALIGN);
            }
            lanes.push(lane);
        }
    }
    lanes
}

/// Size that the lanes need of the device or of the data file, bytes.
fn size(lanes: &[WriteLane]) -> u64 {
    let ends = lanes
        .iter()
        .filter(|lane| lane.mode != DurabilityMethod::Rename)
        .map(|lane| lane.at + lane.bytes());
    ends.max().unwrap_or(LANE_ALIGN)
}

/// Opens the target with the guard's consent. In a directory, first makes the directory for the files.
fn open(
    request: &DurabilityRequest<'_>,
    durability_target: &DurabilityTarget,
    lanes: &[WriteLane],
) -> Result<(Arc<Target>, Option<OwnDir>), Failure> {
    let size = size(lanes);
    let mut guard_request = WriteRequest {
        min_size_bytes: size,
        odsync: false,
        // The test reads only what it has written, so the guard need not warn about unwritten blocks.
        reads: false,
        ..WriteRequest::new(durability_target.target_path(), "check durability")
    };
    let mut dir = None;
    if durability_target.dir.is_some() {
        let cannot = |why| Failure::environment(format!("cannot check {} - {why}", request.path));
        let of_files = lanes
            .iter()
            .filter(|lane| lane.mode == DurabilityMethod::Rename)
            .map(WriteLane::bytes)
            .sum::<u64>();
        let names = DurabilityTarget::file_names(lanes);
        let mut own_dir = OwnDir::make(
            Path::new(&durability_target.path),
            OWN_DIR,
            &names,
            size + of_files,
        )
        .map_err(cannot)?;
        own_dir.stays = true;
        console::note(&format!(
            "writing files, {} in total, in {}; the files stay until the check reads them after the power cut",
            bytes((size + of_files) as f64),
            own_dir.dir.path().display()
        ));
        guard_request.file_size_bytes = Some(size);
        dir = Some(own_dir);
    }
    let target = Target::writable(consent(&[guard_request], request.erase, &[])?.remove(0));
    target
        .notes()
        .iter()
        .for_each(|note| console::warning(&format!("{}: {note}", target.name())));
    Ok((Arc::new(target), dir))
}

fn new_secret() -> Result<Secret, Failure> {
    let mut secret = [0; 16];
    File::open("/dev/urandom")
        .and_then(|mut file| file.read_exact(&mut secret))
        .map_err(|error| {
            Failure::environment(format!(
                "cannot choose a secret - {error} - check /dev/urandom"
            ))
        })?;
    Ok(Secret(u128::from_le_bytes(secret)))
}

fn begin(
    durability_target: &DurabilityTarget,
    secret: Secret,
    lanes: Vec<WriteLane>,
) -> Result<Session, Failure> {
    let process = this_process().ok_or_else(|| {
        Failure::environment(
            "cannot tell this boot from the next - /proc has no boot_id - mount /proc",
        )
    })?;
    Ok(Session {
        format_version: FORMAT_VERSION,
        id: secret.session(),
        subject: printable(&durability_target.subject).into_owned(),
        path: printable(&durability_target.path).into_owned(),
        disk: durability_target.disk_identity(),
        tool: tool(),
        started_unix_ms: now_unix_ms(),
        boot_id: process.boot_id,
        power: durability_target.power(),
        lanes,
    })
}

/// Writes every slot once, as sequence 0. Later writes then overwrite allocated blocks and change no metadata, so FUA
/// alone makes them durable.
fn lay_out(session: &Session, secret: Secret, target: &Target) -> Result<(), Failure> {
    let failed = |why: String| Failure::device(format!("cannot write {} - {why}", target.name()));
    let mut random = Random::new(session.id.0 as u64);
    // The first lane is always written, also for the mode rename: its sectors identify the session.
    let is_written =
        |(number, lane): &(u32, &WriteLane)| *number == 0 || lane.mode != DurabilityMethod::Rename;
    for (number, lane) in (0_u32..).zip(&session.lanes).filter(is_written) {
        let len = lane.write_bytes as usize;
        let per_write = u64::from(lane.slots).min(64);
        let mut buf = one_buffer(len * per_write as usize)?;
        for first in (0..u64::from(lane.slots)).step_by(per_write as usize) {
            for (slot, part) in (first..).zip(buf.chunks_exact_mut(len)) {
                fill(part, &mut random);
                put_secret(part, secret);
                stamp(part, session.id, number, lane, slot, 0);
            }
            let outcome = perform(
                target.fd(),
                OpKind::Write,
                lane.offset(first),
                &mut buf,
                WriteSync::No,
            );
            if !outcome.is_done() {
                return Err(failed(outcome.to_string()));
            }
        }
    }
    let outcome = perform(
        target.fd(),
        OpKind::FlushFile,
        0,
        &mut Buf::empty(),
        WriteSync::No,
    );
    if outcome.is_done() {
        Ok(())
    } else {
        Err(failed(outcome.to_string()))
    }
}

impl Shared {
    fn run_phases(&self, request: &DurabilityRequest<'_>, end_signals: &EndSignals) {
        let began = Instant::now();
        let mut phase_began = Instant::now();
        let mut is_ready = false;
        while self.lock().stop.is_none() {
            if let Some(signal) = end_signals.wait(POLL_INTERVAL) {
                self.stop(Stop::Requested(name(signal)));
            }
            if request
                .seconds
                .is_some_and(|seconds| began.elapsed().as_secs() >= seconds.into())
            {
                self.stop(Stop::Requested("the time of --for has passed".to_owned()));
            }
            // Operations on a vanished drive may hang instead of failing.
            if self.is_node_gone() {
                self.stop(Stop::Device);
            }
            if phase_began.elapsed() < PHASE {
                continue;
            }
            if !is_ready && began.elapsed() >= 2 * PHASE {
                is_ready = true;
                let writes = count(self.lock().durable.iter().sum(), "acknowledged write");
                console::notice(&format!(
                    "{writes} so far; cut the power at any time, then run the same command again"
                ));
            }
            if self.has_phases() {
                let mut state = self.lock();
                state.is_changing = state.busy > 0 || state.confirmed != state.durable;
                if state.is_changing {
                    continue;
                }
                state.phase += 1;
                // No writes until the witness knows the phase: a flush would make the previous phase's writes durable.
                state.is_changing = true;
                drop(state);
                self.changed.notify_all();
            }
            phase_began = Instant::now();
        }
    }

    fn has_device_failed(&self) -> bool {
        matches!(self.lock().stop, Some(Stop::Device))
    }

    fn is_node_gone(&self) -> bool {
        self.sysfs_dir.as_ref().is_some_and(|dir| !dir.exists())
    }

    /// True if the drive is known to have lost its power or its link during the writes.
    fn has_drive_vanished(&self) -> bool {
        self.has_device_failed()
            && (self.lock().has_error_of_vanished_drive() || self.is_node_gone())
    }

    /// True if the drive failed, but every lane could read afterwards: the drive has power.
    fn does_drive_answer(&self) -> bool {
        self.lock().answered == self.session.lanes.len()
    }

    /// If it is unknown whether a failed drive has power, waits until its device node is gone.
    fn wait_for_vanished_drive(&self, request: &DurabilityRequest<'_>, end_signals: &EndSignals) {
        if !self.has_device_failed()
            || self.has_drive_vanished()
            || self.does_drive_answer()
            || self.sysfs_dir.is_none()
        {
            return;
        }
        console::warning(&format!(
            "{}: {} - a drive with power can return this error, too; waiting up to {} s for the device to disappear",
            request.path,
            self.device_failure(),
            VANISH_MAX.as_secs()
        ));
        let wait_start = Instant::now();
        while !self.has_drive_vanished()
            && wait_start.elapsed() < VANISH_MAX
            && end_signals.received().is_none()
        {
            thread::sleep(POLL_INTERVAL);
        }
    }

    /// Reports durable writes to the witness until the writes end, then the reason for their end.
    fn report_to_witness(&self, connection: &mut Connection) {
        let mut sent_phase = 0;
        loop {
            let mut state = self.lock();
            let wait_start = Instant::now();
            while state.durable == state.confirmed && state.phase == sent_phase && !state.is_over {
                let Some(remaining) = HEARTBEAT.checked_sub(wait_start.elapsed()) else {
                    break;
                };
                state = self
                    .changed
                    .wait_timeout(state, remaining)
                    .unwrap_or_else(PoisonError::into_inner)
                    .0;
            }
            let has_progress = state.durable != state.confirmed || state.phase != sent_phase;
            let phase = state.phase;
            let upto = state.durable.clone();
            let is_over = state.is_over;
            let stop = state.stop.clone();
            drop(state);
            let session = self.session.id;
            let message = if has_progress {
                WitnessMessage::Durable {
                    session,
                    phase,
                    upto: upto.clone(),
                }
            } else {
                WitnessMessage::Alive { session }
            };
            let ask_result = connection.ask(&message).and_then(|_| {
                let why = match stop.filter(|_| is_over) {
                    None | Some(Stop::Witness(_)) => return Ok(()),
                    Some(Stop::Requested(why)) => why,
                    Some(Stop::Device) => self.device_failure(),
                };
                let why = printable(&why).chars().take(400).collect();
                let vanished = self.has_drive_vanished();
                connection
                    .ask(&WitnessMessage::End {
                        session,
                        why,
                        vanished,
                        failed: false,
                    })
                    .map(drop)
            });
            if let Err(why) = ask_result {
                return self.stop(Stop::Witness(why));
            }
            let mut state = self.lock();
            state.confirmed = upto;
            if phase != sent_phase && state.phase == phase {
                state.is_changing = false;
            }
            drop(state);
            sent_phase = phase;
            self.changed.notify_all();
            if is_over {
                return;
            }
        }
    }

    fn device_failure(&self) -> String {
        let errors = in_words(&self.lock().errors);
        match (self.is_node_gone(), errors.is_empty()) {
            (true, true) => "the device disappeared".to_owned(),
            (true, false) => format!("{errors}; the device disappeared"),
            (false, _) => errors,
        }
    }

    fn failure(&self, request: &DurabilityRequest<'_>, hung: u64) -> Failure {
        let device_failure = self.device_failure();
        let has_vanished = self.has_drive_vanished();
        let state = self.lock();
        let writes = count(state.durable.iter().sum(), "acknowledged write");
        let confirmed = number(state.confirmed.iter().sum::<u64>() as f64);
        let hung = if hung > 0 {
            format!("; {} did not return from an operation", count(hung, "lane"))
        } else {
            String::new()
        };
        let so_far = format!("after {writes}, of which the witness confirmed {confirmed}{hung}");
        match &state.stop {
            None => {
                Failure::environment(format!("the writes ended {so_far}, for an unknown reason"))
            }
            Some(Stop::Requested(why)) => Failure::invalid(format!(
                "cannot judge durability - the writes ended ({why}) {so_far}, but the power was not cut - cut the \
                 power while they run"
            )),
            Some(Stop::Witness(why)) => Failure::environment(format!(
                "cannot continue - the witness {} failed ({why}) {so_far} - start the witness again with its file, \
                 then run the same command twice: the first run examines this session",
                request.witness
            )),
            Some(Stop::Device) if has_vanished => Failure::device(format!(
                "{}: {device_failure} {so_far} - if only the drive lost its power, reconnect it, then run the same \
                 command with --drive-cut",
                request.path
            )),
            Some(Stop::Device) => Failure::device(format!(
                "{}: {device_failure} {so_far} - the device did not disappear, so this session does not count as a \
                 power cut, even with --drive-cut - remove the cause of the error, then run the same command twice: the \
                 first run examines this session",
                request.path
            )),
        }
    }
}
