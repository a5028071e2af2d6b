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

use super::witness::Connection;
use super::{DurabilityTarget, OWN_DIR, Request, cannot_ask, file_name, new_file_name, one_buffer, perform};
use crate::check::OwnDir;
use conclusions::durability::examine::{put_secret, stamp};
use conclusions::durability::session::{BATCH_MAX, FORMAT_VERSION, Lane, Mode, Secret, Session};
use conclusions::durability::witness::Message;
use device::guard::Request as GuardRequest;
use device::observe::process::this_process;
use device::target::Target;
use results::files::{Dir, PRIVATE};
use results::units::{bytes, count, number, printable};
use session::console;
use session::devices::consent;
use session::failure::Failure;
use session::runner::{now_unix_ms, tool};
use session::signals::{EndSignals, name};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
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

/// Alignment of lanes, bytes.
const LANE_ALIGN: u64 = 1 << 20;

/// Maximum time between two messages to the witness.
const HEARTBEAT: Duration = Duration::from_secs(1);

/// Maximum wait for a write that does not return.
const HANG: Duration = Duration::from_secs(10);

/// Poll interval for signals.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Why the writes ended before any cut.
#[derive(Debug, Clone)]
enum Stop {
    /// Requested by the user, or the time of `--for` has passed.
    Requested(String),
    Witness(String),
    Device(String),
}

#[derive(Default)]
struct State {
    /// Last durable write of each lane.
    durable: Vec<u64>,
    /// Last write of each lane that the witness has confirmed as durable.
    confirmed: Vec<u64>,
    phase: u64,
    /// True while a change of phase is due or not confirmed: no lane begins a batch.
    is_changing: bool,
    /// Number of lanes within a batch.
    busy: usize,
    stop: Option<Stop>,
    /// True once no lane writes any more.
    is_over: bool,
}

struct Shared {
    session: Session,
    secret: Secret,
    state: Mutex<State>,
    changed: Condvar,
}

/// Writes until something other than a power cut ends the writes, and returns the cause.
pub(super) fn run(
    request: &Request<'_>,
    durability_target: &DurabilityTarget,
    end_signals: &EndSignals,
) -> Result<Failure, Failure> {
    let lanes = lanes_of(&request.options.modes, durability_target.dir.is_some());
    if lanes.is_empty() {
        return Err(Failure::usage("cannot test the mode rename on a device - it needs files - name a directory"));
    }
    // `own_dir` holds the lock of the directory until the writes end.
    let (target, own_dir) = open(request, durability_target, &lanes)?;
    let dir = own_dir.as_ref().map(|own| &own.dir);
    let secret = new_secret()?;
    let session = begin(durability_target, secret, lanes)?;
    console::note(&format!("{}: writing {} once, before the test", request.path, bytes(size(&session.lanes) as f64)));
    lay_out(&session, secret, &target)?;
    if let Some(dir) = dir {
        let parent = Dir::open(Path::new(&durability_target.path));
        let sync_result =
            parent.and_then(|parent| [dir, &parent].into_iter().try_for_each(|dir| dir.open_to_sync()?.sync_all()));
        sync_result.map_err(|error| Failure::device(format!("cannot sync {} - {error}", dir.path().display())))?;
    }
    let mut connection = Connection::to(request.witness)?;
    connection.ask(&Message::Begin(session.clone())).map_err(|why| cannot_ask(request.witness, &why))?;
    console::notice(&format!("session {} writes to {}; {}", session.id, request.path, end_signals.stop_hint()));
    console::notice(&format!(
        "secret {secret}: note it down; after a drive lost everything, only --secret {secret} examines the session"
    ));

    let zeros = vec![0; session.lanes.len()];
    let state = State { durable: zeros.clone(), confirmed: zeros, ..State::default() };
    let shared = Arc::new(Shared { session, secret, state: Mutex::new(state), changed: Condvar::new() });
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
    let hung = threads.iter().filter(|thread| !thread.is_finished()).count() as u64;
    shared.lock().is_over = true;
    shared.changed.notify_all();
    while !sender.is_finished() && stop_instant.elapsed() < 3 * HANG {
        thread::sleep(POLL_INTERVAL);
    }
    Ok(shared.failure(request, hung))
}

/// Lanes of the modes. Lanes of files exist only in a directory.
fn lanes_of(modes: &[Mode], has_files: bool) -> Vec<Lane> {
    let mut offset = 0;
    let mut lanes = Vec::new();
    let is_wanted = |mode: &Mode| (modes.is_empty() || modes.contains(mode)) && (has_files || *mode != Mode::Rename);
    for mode in Mode::ALL.into_iter().filter(is_wanted) {
        for (write_bytes, scattered) in WRITE_BYTES.into_iter().zip([false, true]) {
            let slots = if mode == Mode::Rename { SLOTS_OF_FILES } else { SLOTS };
            let lane = Lane { mode, write_bytes, slots, at: if mode == Mode::Rename { 0 } else { offset }, scattered };
            if mode != Mode::Rename {
                offset += lane.bytes().next_multiple_of(LANE_ALIGN);
            }
            lanes.push(lane);
        }
    }
    lanes
}

/// Size that the lanes need of the device or of the data file, bytes.
fn size(lanes: &[Lane]) -> u64 {
    let ends = lanes.iter().filter(|lane| lane.mode != Mode::Rename).map(|lane| lane.at + lane.bytes());
    ends.max().unwrap_or(LANE_ALIGN)
}

/// Opens the target with the guard's consent; in a directory, makes the files.
fn open(
    request: &Request<'_>,
    durability_target: &DurabilityTarget,
    lanes: &[Lane],
) -> Result<(Arc<Target>, Option<OwnDir>), Failure> {
    let size = size(lanes);
    let mut guard_request = GuardRequest {
        min_size_bytes: size,
        odsync: false,
        // Everything that is read was written before.
        reads: false,
        ..GuardRequest::new(durability_target.target_path(), "check durability")
    };
    let mut dir = None;
    if durability_target.dir.is_some() {
        let cannot = |why| Failure::environment(format!("cannot check {} - {why}", request.path));
        let of_files = lanes.iter().filter(|lane| lane.mode == Mode::Rename).map(Lane::bytes).sum::<u64>();
        let names = DurabilityTarget::file_names(lanes);
        let mut own_dir =
            OwnDir::make(Path::new(&durability_target.path), OWN_DIR, &names, size + of_files).map_err(cannot)?;
        own_dir.stays = true;
        console::note(&format!(
            "writing files, {} in total, in {}; they stay until they are read after the cut",
            bytes((size + of_files) as f64),
            own_dir.dir.path().display()
        ));
        guard_request.file_size_bytes = Some(size);
        dir = Some(own_dir);
    }
    let target = Target::writable(consent(&[guard_request], request.erase, &[])?.remove(0));
    target.notes().iter().for_each(|note| console::warning(&format!("{}: {note}", target.name())));
    Ok((Arc::new(target), dir))
}

fn new_secret() -> Result<Secret, Failure> {
    let mut secret = [0; 16];
    File::open("/dev/urandom")
        .and_then(|mut file| file.read_exact(&mut secret))
        .map_err(|error| Failure::environment(format!("cannot choose a secret - {error} - check /dev/urandom")))?;
    Ok(Secret(u128::from_le_bytes(secret)))
}

fn begin(durability_target: &DurabilityTarget, secret: Secret, lanes: Vec<Lane>) -> Result<Session, Failure> {
    let process = this_process().ok_or_else(|| {
        Failure::environment("cannot tell this boot from the next - /proc has no boot_id - mount /proc")
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

/// Writes every slot once, as sequence 0. Overwriting allocated blocks needs no metadata, so FUA suffices to make a
/// write durable.
fn lay_out(session: &Session, secret: Secret, target: &Target) -> Result<(), Failure> {
    let failed = |why: String| Failure::device(format!("cannot write {} - {why}", target.name()));
    let mut random = Random::new(session.id.0 as u64);
    // The first lane is always written, also for the mode rename: its sectors identify the session.
    let is_written = |(number, lane): &(u32, &Lane)| *number == 0 || lane.mode != Mode::Rename;
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
            let outcome = perform(target.fd(), OpKind::Write, lane.offset(first), &mut buf, WriteSync::No);
            if !outcome.is_done() {
                return Err(failed(outcome.to_string()));
            }
        }
    }
    let outcome = perform(target.fd(), OpKind::FlushFile, 0, &mut Buf::empty(), WriteSync::No);
    if outcome.is_done() { Ok(()) } else { Err(failed(outcome.to_string())) }
}

/// Content that no drive can compress.
fn fill(buf: &mut [u8], random: &mut Random) {
    buf.chunks_exact_mut(8).for_each(|word| word.copy_from_slice(&random.next_u64().to_le_bytes()));
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the writes; the first reason wins.
    fn stop(&self, cause: Stop) {
        self.lock().stop.get_or_insert(cause);
        self.changed.notify_all();
    }

    /// True if both modes with flushes and modes without flushes are tested.
    fn has_phases(&self) -> bool {
        let fua_lanes = self.session.lanes.iter().filter(|lane| lane.mode == Mode::Fua).count();
        fua_lanes > 0 && fua_lanes < self.session.lanes.len()
    }

    fn is_turn_of(&self, mode: Mode, phase: u64) -> bool {
        !self.has_phases() || (mode == Mode::Fua) == (phase % 2 == 1)
    }

    /// Changes the phases, until the writes end.
    fn run_phases(&self, request: &Request<'_>, end_signals: &EndSignals) {
        let (began, mut phase_began) = (Instant::now(), Instant::now());
        let mut is_ready = false;
        while self.lock().stop.is_none() {
            if let Some(signal) = end_signals.wait(POLL_INTERVAL) {
                self.stop(Stop::Requested(name(signal)));
            }
            if request.seconds.is_some_and(|seconds| began.elapsed().as_secs() >= seconds.into()) {
                self.stop(Stop::Requested("the time of --for has passed".to_owned()));
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
                // No writes until the witness knows the phase: a flush would make the writes of the previous phase
                // durable.
                state.is_changing = true;
                drop(state);
                self.changed.notify_all();
            }
            phase_began = Instant::now();
        }
    }

    /// Reports durable writes to the witness until the writes end, then the reason for their end.
    fn report_to_witness(&self, connection: &mut Connection) {
        let mut sent_phase = 0;
        loop {
            let mut state = self.lock();
            let wait_start = Instant::now();
            while state.durable == state.confirmed && state.phase == sent_phase && !state.is_over {
                let Some(remaining) = HEARTBEAT.checked_sub(wait_start.elapsed()) else { break };
                state = self.changed.wait_timeout(state, remaining).unwrap_or_else(PoisonError::into_inner).0;
            }
            let has_progress = state.durable != state.confirmed || state.phase != sent_phase;
            let (phase, upto, is_over) = (state.phase, state.durable.clone(), state.is_over);
            let stop = state.stop.clone();
            drop(state);
            let session = self.session.id;
            let message = match has_progress {
                true => Message::Durable { session, phase, upto: upto.clone() },
                false => Message::Alive { session },
            };
            let ask_result = connection.ask(&message).and_then(|_| {
                let (why, failed) = match stop.filter(|_| is_over) {
                    None | Some(Stop::Witness(_)) => return Ok(()),
                    Some(Stop::Requested(why)) => (why, false),
                    Some(Stop::Device(why)) => (why, true),
                };
                connection
                    .ask(&Message::End { session, why: printable(&why).chars().take(200).collect(), failed })
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

    /// Message about the end of the writes.
    fn failure(&self, request: &Request<'_>, hung: u64) -> Failure {
        let state = self.lock();
        let writes = count(state.durable.iter().sum(), "acknowledged write");
        let confirmed = number(state.confirmed.iter().sum::<u64>() as f64);
        let hung =
            if hung > 0 { format!("; {} did not return from a write", count(hung, "lane")) } else { String::new() };
        let so_far = format!("after {writes}, of which the witness confirmed {confirmed}{hung}");
        match &state.stop {
            None => Failure::environment(format!("the writes ended {so_far}, for an unknown reason")),
            Some(Stop::Requested(why)) => Failure::invalid(format!(
                "cannot judge durability - the writes ended ({why}) {so_far}, but the power was not cut - cut the \
                 power while they run"
            )),
            Some(Stop::Witness(why)) => Failure::environment(format!(
                "cannot continue - the witness {} failed ({why}) {so_far} - start the witness again with its file, \
                 then run the same command twice: the first run examines this session",
                request.witness
            )),
            Some(Stop::Device(why)) => Failure::device(format!(
                "{}: {why} {so_far} - if only the drive lost its power, reconnect it, then run the same command with \
                 --drive-cut",
                request.path
            )),
        }
    }
}

/// A thread of a lane.
struct Worker {
    shared: Arc<Shared>,
    lane: Lane,
    number: usize,
    writer: Writer,
    random: Random,
    buf: Buf,
    /// Sequence number of the last issued write.
    sequence: u64,
}

/// Destination of a lane's writes.
enum Writer {
    Direct(Arc<Target>),
    /// Writes through the page cache. The target stays open as long as the file.
    Cached(File, #[expect(dead_code)] Arc<Target>),
    /// Files in a directory, and the directory's descriptor for fsync.
    Files(Dir, File),
}

impl Worker {
    fn new(shared: Arc<Shared>, number: usize, target: &Arc<Target>, dir: Option<&Dir>) -> Result<Self, Failure> {
        let lane = shared.session.lanes[number].clone();
        let failed = |error| Failure::environment(format!("cannot open {} - {error}", target.name()));
        let writer = match (lane.mode, dir) {
            (Mode::Fdatasync | Mode::Fua, _) => Writer::Direct(target.clone()),
            (Mode::Rename, Some(dir)) => Writer::Files(dir.clone(), dir.open_to_sync().map_err(failed)?),
            (mode, _) => Writer::Cached(target.cached_writer(mode == Mode::Dsync).map_err(failed)?, target.clone()),
        };
        let random = Random::for_part(shared.session.id.0 as u64, number as u64);
        let buf = one_buffer(lane.write_bytes as usize)?;
        Ok(Self { shared, lane, number, writer, random, buf, sequence: 0 })
    }

    fn run(&mut self) {
        let shared = self.shared.clone();
        let mut state = shared.lock();
        loop {
            let room = state.confirmed[self.number] + self.lane.window() - self.sequence;
            if state.stop.is_some() {
                return;
            }
            if room == 0 || state.is_changing || !shared.is_turn_of(self.lane.mode, state.phase) {
                state = shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            state.busy += 1;
            drop(state);
            let batch_result = self.batch(room);
            state = shared.lock();
            state.busy -= 1;
            match batch_result {
                Ok(()) => state.durable[self.number] = self.sequence,
                Err(why) => {
                    let why = format!("lane {} ({}): {why}", self.number, self.lane.mode);
                    state.stop.get_or_insert(Stop::Device(why));
                }
            }
            shared.changed.notify_all();
        }
    }

    /// Writes some blocks, and returns when all are durable.
    fn batch(&mut self, room: u64) -> Result<(), String> {
        let writes = if self.lane.mode.is_alone() { 1 } else { 1 + self.random.below(BATCH_MAX.min(room)) };
        for _ in 0..writes {
            self.sequence += 1;
            let slot = self.lane.slot(self.sequence);
            fill(&mut self.buf, &mut self.random);
            put_secret(&mut self.buf, self.shared.secret);
            stamp(&mut self.buf, self.shared.session.id, self.number as u32, &self.lane, slot, self.sequence);
            let offset = self.lane.offset(slot);
            match &self.writer {
                Writer::Files(dir, handle) => {
                    let replaced = replace(dir, handle, self.number as u32, slot, &self.buf);
                    replaced.map_err(|error| format!("replacing a file failed: {error}"))?;
                }
                Writer::Direct(target) => {
                    let sync = if self.lane.mode == Mode::Fua { WriteSync::Data } else { WriteSync::No };
                    carry_out(target.fd(), OpKind::Write, offset, &mut self.buf, sync)?;
                }
                Writer::Cached(file, _) => {
                    carry_out(file.as_fd(), OpKind::Write, offset, &mut self.buf, WriteSync::No)?
                }
            }
        }
        match (self.lane.mode, &self.writer) {
            (Mode::Fdatasync, Writer::Direct(target)) => flush(target.fd(), OpKind::Flush),
            (Mode::Fsync, Writer::Cached(file, _)) => flush(file.as_fd(), OpKind::FlushFile),
            _ => Ok(()),
        }
    }
}

fn carry_out(fd: BorrowedFd<'_>, kind: OpKind, offset: u64, buf: &mut Buf, sync: WriteSync) -> Result<(), String> {
    let outcome = perform(fd, kind, offset, buf, sync);
    if outcome.is_done() { Ok(()) } else { Err(format!("{kind} at byte {offset} failed: {outcome}")) }
}

fn flush(fd: BorrowedFd<'_>, kind: OpKind) -> Result<(), String> {
    carry_out(fd, kind, 0, &mut Buf::empty(), WriteSync::No)
}

/// Replaces the file of a slot as databases do: write, fsync, rename, fsync of the directory.
fn replace(dir: &Dir, handle: &File, number: u32, slot: u64, bytes: &[u8]) -> std::io::Result<()> {
    let new_name = new_file_name(number);
    let mut file = dir.create_new(new_name.as_ref(), PRIVATE)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    dir.rename(new_name.as_ref(), file_name(number, slot).as_ref())?;
    handle.sync_all()
}
