//! `check durability`: do acknowledged writes survive a power cut?
//!
//! ```text
//! check -> DurabilityTarget (device, directory) -> question to the witness
//!          no session waits: write::run, until the power is cut;  a session waits: examine_session -> Durability
//! ```
//!
//! The machine under test keeps no state: the witness and the sectors on the drive hold everything, also the session's
//! secret, without which the witness closes no session. If the drive loses everything, the user gives the secret.
//! [`witness`] runs on another machine.

mod lane;
mod state;
mod target;
pub mod witness;
mod write;

use crate::commands::check::site::circumstances;
use clap::Args;
use conclusions::durability::examine::{SlotContent, SlotCounts, examine};
use conclusions::durability::judge::{Durability, StateAfterCut};
use conclusions::durability::session::{DurabilityMethod, FORMAT_VERSION, Secret, SessionId};
use conclusions::durability::witness::{WitnessMessage, WitnessRecord, WitnessReply};
use device::discover::DeviceFacts;
use device::observe::process::this_process;
use results::files::{self, Links};
use results::format::{count, printable};
use results::judge::Outcome as Verdict;
use session::console;
use session::failure::Failure;
use session::signals::EndSignals;
use std::io::{ErrorKind, Read};
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use sys::buffer::{Buf, Pool};
use sys::op::{Op, OpKind, Outcome, WriteSync};
use target::DurabilityTarget;
use witness::Connection;

/// Name of the directory for the files. The directory stays until the session was examined.
pub const OWN_DIR: &str = "flashproof-durability";

#[derive(Args, Debug)]
#[command(
    next_help_heading = "Options of check durability, and of check witness on another machine"
)]
pub struct DurabilityOptions {
    /// The witness, which records acknowledged writes
    #[arg(long, value_name = "HOST:PORT", value_parser = with_port)]
    pub witness: Option<String>,
    /// Test only this mode: fdatasync, fua, dsync, fsync, rename; may be repeated
    #[arg(long = "mode", value_name = "MODE")]
    pub modes: Vec<DurabilityMethod>,
    /// Judge although this machine did not reboot: only the drive's power was cut
    #[arg(long)]
    pub drive_cut: bool,
    /// Begin a session, even if the target has a session that the witness does not know
    #[arg(long)]
    pub new: bool,
    /// Examine the session with this secret; needed only if the drive lost everything, including the secret
    #[arg(long)]
    pub secret: Option<Secret>,
    /// Remove the files of check durability below a directory
    #[arg(long)]
    pub remove: bool,
    /// For check witness: address to listen at
    #[arg(long, value_name = "HOST:PORT", value_parser = with_port)]
    pub listen: Option<String>,
    /// For check witness: file that keeps the sessions
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
}

fn with_port(address: &str) -> Result<String, String> {
    let port = address
        .rsplit_once(':')
        .map(|(_, port)| port.parse::<u16>());
    match port {
        Some(Ok(_)) => Ok(address.to_owned()),
        Some(Err(_)) => Err("the port is not a number from 0 to 65535".to_owned()),
        None => Err(format!("the port is missing: give {address}:7070")),
    }
}

impl DurabilityOptions {
    /// Given options that do not apply to the check `name`.
    pub fn foreign_to(&self, name: &str) -> Vec<&'static str> {
        let is_durability = name == "durability";
        let is_witness = name == "witness";
        [
            ("--witness", self.witness.is_some(), is_durability),
            ("--mode", !self.modes.is_empty(), is_durability),
            ("--drive-cut", self.drive_cut, is_durability),
            ("--new", self.new, is_durability),
            ("--secret", self.secret.is_some(), is_durability),
            ("--remove", self.remove, is_durability),
            ("--listen", self.listen.is_some(), is_witness),
            ("--file", self.file.is_some(), is_witness),
        ]
        .into_iter()
        .filter_map(|(option, is_given, is_known)| (is_given && !is_known).then_some(option))
        .collect()
    }
}

pub struct DurabilityRequest<'a> {
    /// Device or directory.
    pub path: &'a str,
    /// `HOST:PORT` of the witness.
    pub witness: &'a str,
    pub options: &'a DurabilityOptions,
    pub erase: &'a [String],
    /// Time after which the writes end, seconds.
    pub seconds: Option<u32>,
}

/// Writes until the power is cut. If a session waits for its examination, reads the session's writes instead, and
/// concludes. Errors: among others, the writes ended before a power cut.
pub fn check(
    request: &DurabilityRequest<'_>,
    end_signals: &EndSignals,
) -> Result<Durability, Failure> {
    let durability_target = DurabilityTarget::from_path(request.path)?;
    let on_target = durability_target.session()?;
    let given_secret = request.options.secret;
    let found_session = given_secret
        .map(Secret::session)
        .or(on_target.map(|(session, _)| session));
    let secrets = [given_secret, on_target.and_then(|(_, secret)| secret)];
    let ask = WitnessMessage::Ask {
        format_version: FORMAT_VERSION,
        subject: durability_target.subject.clone(),
        found: found_session,
    };
    // This connection closes after the reply. `write::run` opens its own.
    let reply = Connection::to(request.witness)?
        .ask(&ask)
        .map_err(|why| cannot_ask(request.witness, &why))?;
    match reply {
        // Anyone can begin a session with this subject, so --new also ignores a session that seems to be running.
        WitnessReply::Record(Some(record))
            if record.is_open
                && (!request.options.new || found_session == Some(record.session.id)) =>
        {
            Err(Failure::environment(format!(
                "cannot check {} - its session {} still writes, or the witness has not noticed the power cut yet - wait \
             some seconds, or end the command that writes",
                request.path, record.session.id
            )))
        }
        WitnessReply::Record(Some(record)) if record.judged.is_none() && request.options.new => {
            give_up(
                request.witness,
                record.session.id,
                secret_of(&record, secrets),
            )?;
            Err(write::run(request, &durability_target, end_signals)?)
        }
        WitnessReply::Record(Some(record)) if record.judged.is_none() => {
            record
                .check()
                .map_err(|why| cannot_ask(request.witness, &why))?;
            // On a file system that is not mounted, all writes and the secret would seem lost.
            let recorded_disk = &record.session.disk;
            let current_disk = durability_target.disk_identity();
            if found_session != Some(record.session.id)
                && recorded_disk.is_some()
                && *recorded_disk != current_disk
            {
                return Err(Failure::environment(format!(
                    "cannot examine {} - the session wrote to the disk {}, but the disk is now {} - mount the file \
                     system, or name the device of the session",
                    request.path,
                    recorded_disk.as_deref().unwrap_or_default(),
                    current_disk.as_deref().unwrap_or("another disk")
                )));
            }
            let secret = secret_of(&record, secrets);
            if secret.is_none() && record.session.has_secret() {
                return Err(without_secret(request, &record));
            }
            examine_session(request, &durability_target, &record, secret)
        }
        WitnessReply::Record(Some(record)) if given_secret.is_some() => {
            Err(Failure::usage(format!(
                "cannot examine {} - its session {} was already examined: {} - leave --secret out to begin another session",
                request.path,
                record.session.id,
                printable(record.judged.as_deref().unwrap_or_default())
            )))
        }
        WitnessReply::Record(None) if found_session.is_some() && !request.options.new => {
            let id = found_session.map(|id| id.to_string()).unwrap_or_default();
            Err(Failure::invalid(format!(
                "cannot judge durability - the witness does not know the session {id} on {} - start the witness with \
                 the file of that session, or give up the session and begin another with --new",
                request.path
            )))
        }
        WitnessReply::Record(_) => Err(write::run(request, &durability_target, end_signals)?),
        WitnessReply::Kept | WitnessReply::Refused(_) => Err(cannot_ask(
            request.witness,
            "its reply does not fit the request",
        )),
    }
}

fn secret_of(record: &WitnessRecord, secrets: [Option<Secret>; 2]) -> Option<Secret> {
    let mut secrets = secrets.into_iter().flatten();
    secrets.find(|secret| secret.session() == record.session.id)
}

/// Removes the files of a directory; false if there are none. The witness, if given, gives up their session.
pub fn remove(path: &str, options: &DurabilityOptions) -> Result<bool, Failure> {
    let durability_target = DurabilityTarget::from_path(path)?;
    let given = options
        .secret
        .map(|secret| (secret.session(), Some(secret)));
    match (given.or(durability_target.session()?), &options.witness) {
        (Some((session, secret)), Some(witness)) => give_up(witness, session, secret)?,
        (Some((session, _)), None) => console::warning(&format!(
            "a witness that waits for session {session} will report the writes as lost - name the witness with \
             --witness, or give --new with the next session"
        )),
        (None, _) => {}
    }
    durability_target.remove()
}

/// Tells the witness to stop waiting for a session. A witness that does not know the session has nothing to give up.
fn give_up(witness: &str, session: SessionId, secret: Option<Secret>) -> Result<(), Failure> {
    let judged = WitnessMessage::Judged {
        session,
        sentence: "given up without an examination".to_owned(),
        secret,
    };
    if let Err(why) = Connection::to(witness)?.ask(&judged) {
        console::warning(&format!(
            "cannot make the witness {witness} give up session {session} - {why}"
        ));
    }
    Ok(())
}

/// The error if no secret proves that the session began on this drive.
fn without_secret(request: &DurabilityRequest<'_>, record: &WitnessRecord) -> Failure {
    let why = match request.options.secret {
        Some(_) => "--secret gives the secret of another session",
        None => {
            "its secret is not on the drive: the drive lost everything, or the file system was recreated"
        }
    };
    Failure::environment(format!(
        "cannot examine {} - session {} with {} waits, but {why} - run the same command with --secret SECRET, which \
         the command printed when the session began; or leave the session unexamined and begin another with --new",
        request.path,
        record.session.id,
        count(acknowledged(record), "acknowledged write")
    ))
}

fn cannot_ask(witness: &str, why: &str) -> Failure {
    Failure::environment(format!("cannot ask the witness {witness} - {why}"))
}

fn acknowledged(record: &WitnessRecord) -> u64 {
    record.upto.iter().sum()
}

/// Examines all lanes of `record`, concludes, and tells the witness.
fn examine_session(
    request: &DurabilityRequest<'_>,
    durability_target: &DurabilityTarget,
    record: &WitnessRecord,
    secret: Option<Secret>,
) -> Result<Durability, Failure> {
    let session = &record.session;
    console::note(&format!(
        "session {}: reading back {}",
        session.id,
        count(acknowledged(record), "acknowledged write")
    ));
    let target = durability_target.to_read()?;
    if let Some(target) = &target {
        // Without a restart, the page cache may hold data that the drive lost.
        target.drop_cached();
        if !target.is_direct() {
            console::warning(&format!(
                "{}: direct I/O is not possible: the page cache may answer instead of the drive",
                target.name()
            ));
        }
    }
    let mut unreadable = 0_u64;
    let mut counts = Vec::new();
    for (number, lane) in (0_u32..).zip(&session.lanes) {
        let mut buf = one_buffer(lane.write_bytes as usize)?;
        let lane_counts = examine(
            session.id,
            number,
            lane,
            record.upto[number as usize],
            |slot, pass| {
                if lane.mode == DurabilityMethod::Rename {
                    let path = durability_target
                        .dir
                        .as_ref()
                        .map(|dir| dir.join(file_name(number, slot)));
                    match path.map(|path| read_file(&path, u64::from(lane.write_bytes) + 1)) {
                        Some(Ok(bytes)) => pass(SlotContent::Bytes(&bytes)),
                        Some(Err(error)) if error.kind() != ErrorKind::NotFound => {
                            pass(SlotContent::Unreadable)
                        }
                        _ => pass(SlotContent::Missing),
                    }
                    return Ok::<_, Failure>(());
                }
                let Some(target) = &target else {
                    pass(SlotContent::Missing);
                    return Ok(());
                };
                match perform(
                    target.fd(),
                    OpKind::Read,
                    lane.offset(slot),
                    &mut buf,
                    WriteSync::No,
                ) {
                    Outcome::Done => pass(SlotContent::Bytes(&buf)),
                    Outcome::Short(bytes) => pass(SlotContent::Bytes(&buf[..bytes as usize])),
                    _ => {
                        unreadable += 1;
                        pass(SlotContent::Unreadable);
                    }
                }
                Ok(())
            },
        )?;
        counts.push(lane_counts);
    }
    if unreadable > 0 {
        console::warning(&format!(
            "{}: {} could not be read",
            request.path,
            count(unreadable, "write")
        ));
    }
    let durability = conclude(request, durability_target, record, &counts)?;
    // The witness accepts only short, printable sentences.
    let sentence = printable(&durability.sentence).chars().take(400).collect();
    let judged = WitnessMessage::Judged {
        session: session.id,
        sentence,
        secret,
    };
    let report_result = Connection::to(request.witness).and_then(|mut witness| {
        witness
            .ask(&judged)
            .map(drop)
            .map_err(|why| cannot_ask(request.witness, &why))
    });
    let remove_result = match durability.outcome {
        // Keep the files: the witness will ask for this session again.
        _ if report_result.is_err() => Ok(false),
        Verdict::Fail => Ok(false),
        _ => durability_target.remove(),
    };
    if durability.outcome == Verdict::Fail && durability_target.dir.is_some() {
        console::notice(&format!(
            "the files in {} stay for further examination; --remove removes them",
            request.path
        ));
    }
    // Failures from here on do not affect the result.
    report_result
        .err()
        .into_iter()
        .chain(remove_result.err())
        .for_each(|failure| console::warning(&failure.message));
    Ok(durability)
}

fn conclude(
    request: &DurabilityRequest<'_>,
    durability_target: &DurabilityTarget,
    record: &WitnessRecord,
    counts: &[SlotCounts],
) -> Result<Durability, Failure> {
    let boot_id = this_process()
        .ok_or_else(|| {
            Failure::environment(
                "cannot tell if this machine was restarted - /proc has no boot_id - mount /proc",
            )
        })?
        .boot_id;
    let state_after_cut = StateAfterCut {
        boot_id,
        power: durability_target.power(),
        is_drive_cut: request.options.drive_cut,
    };
    Ok(Durability::conclude(
        record,
        counts,
        &state_after_cut,
        durability_target.claims(),
        durability_target
            .disk
            .as_ref()
            .and_then(DeviceFacts::name_and_model),
        circumstances(durability_target.disk.as_slice()),
    ))
}

/// The first `limit` bytes of a regular file, not of a link, from the disk.
fn read_file(path: &Path, limit: u64) -> std::io::Result<Vec<u8>> {
    let file = files::open(path, Links::Refused)?;
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
    let mut bytes = Vec::new();
    file.take(limit).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn file_name(lane: u32, slot: u64) -> String {
    format!("rename-{lane}-{slot}")
}

/// Name of a lane's new file, before its rename.
fn new_file_name(lane: u32) -> String {
    format!("rename-{lane}-new")
}

fn one_buffer(len: usize) -> Result<Buf, Failure> {
    let buf = Pool::new(len).ok().and_then(|mut pool| pool.cut(len));
    buf.ok_or_else(|| {
        Failure::environment(format!("cannot get {len} bytes of memory for a buffer"))
    })
}

fn perform(
    fd: BorrowedFd<'_>,
    kind: OpKind,
    offset: u64,
    buf: &mut Buf,
    sync: WriteSync,
) -> Outcome {
    let bytes = std::mem::replace(buf, Buf::empty());
    let mut op = Op {
        sync,
        ..Op::new(kind, offset, bytes.len() as u32, bytes)
    };
    let outcome = sys::call::perform_call(fd, 0, &mut op);
    *buf = op.buf;
    outcome
}
