//! `check durability`: are acknowledged writes there after a power cut?
//!
//! ```text
//! check -> Place (device, directory) -> Ask the witness -> no session waits: write::run, until the power is cut
//!                                                       -> a session waits:  examine_session -> Durability
//! ```
//!
//! The machine under test keeps no state: the witness, and the sectors on the drive, say all. [`witness`] is the other machine.

mod place;
pub mod witness;
mod write;

use device::discover::DeviceFacts;
use device::observe::process::this_process;
use place::{Place, file_name, one_buffer, read};
use results::durability::examine::{Counts, Slot, examine};
use results::durability::judge::{AfterCut, Durability};
use results::durability::session::{FORMAT_VERSION, Lane, Mode, SessionId};
use results::durability::witness::{Message, Record, Reply};
use results::judge::Outcome as Verdict;
use results::units::{count, printable};
use session::console;
use session::failure::Failure;
use session::signals::Ending;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;
use sys::buffer::Buf;
use sys::op::Outcome;
use witness::Connection;

/// Name of the directory for the files. It stays until the session was examined.
pub const OWN_DIR: &str = "flashproof-durability";

/// Options of the check.
pub struct Request<'a> {
    /// Device or directory.
    pub path: &'a str,
    /// `HOST:PORT` of the witness.
    pub witness: &'a str,
    /// Modes to test; empty: all.
    pub modes: &'a [Mode],
    /// Devices that may be erased, by name.
    pub erase: &'a [String],
    /// Ends the writes after so many seconds.
    pub seconds: Option<u32>,
    /// Only the drive loses its power, the machine does not.
    pub is_drive_cut: bool,
    /// Begins a session although the target has one that the witness does not know.
    pub is_new: bool,
}

/// Writes until the power is cut; or, if a session waits for its examination, reads what it wrote and concludes.
///
/// Errors also: the writes ended before a cut.
pub fn check(request: &Request<'_>, ending: &Ending) -> Result<Durability, Failure> {
    let place = Place::of(request.path)?;
    let found = place.session()?;
    let ask = Message::Ask { format_version: FORMAT_VERSION, subject: place.subject.clone(), found };
    match Connection::to(request.witness)?.ask(&ask).map_err(|why| cannot_ask(request.witness, &why))? {
        Reply::Record(Some(record)) if record.is_open => Err(Failure::environment(format!(
            "cannot check {} - its session {} still writes, or the witness does not know yet that it was cut - wait some \
             seconds, or end the other command",
            request.path, record.session.id
        ))),
        Reply::Record(Some(record)) if record.judged.is_none() && request.is_new => {
            give_up(request.witness, record.session.id)?;
            Err(write::run(request, &place, ending)?)
        }
        Reply::Record(Some(record)) if record.judged.is_none() => {
            record.check().map_err(|why| cannot_ask(request.witness, &why))?;
            // Where the file system is not mounted, everything would be lost.
            let (before, now) = (&record.session.disk, place.disk_identity());
            if found != Some(record.session.id) && before.is_some() && *before != now {
                return Err(Failure::environment(format!(
                    "cannot examine {} - the session wrote to the disk {}, and now {} is there - mount the file system, or name \
                     the device of the session",
                    request.path,
                    before.as_deref().unwrap_or_default(),
                    now.as_deref().unwrap_or("another one")
                )));
            }
            examine_session(request, &place, &record)
        }
        Reply::Record(None) if found.is_some() && !request.is_new => {
            let id = found.map(|id| id.to_string()).unwrap_or_default();
            Err(Failure::invalid(format!(
                "cannot tell - the witness does not know the session {id} that is on {} - start the witness with the file of \
                 that session; --new gives it up and begins another one",
                request.path
            )))
        }
        Reply::Record(_) => Err(write::run(request, &place, ending)?),
        Reply::Kept | Reply::Refused(_) => Err(cannot_ask(request.witness, "it answers no question")),
    }
}

/// Removes the files of a directory; the witness, if one is named, gives their session up. Returns false if there are none.
pub fn remove(path: &str, witness: Option<&str>) -> Result<bool, Failure> {
    let place = Place::of(path)?;
    match (place.session()?, witness) {
        (Some(session), Some(witness)) => give_up(witness, session)?,
        (Some(session), None) => console::warning(&format!(
            "a witness that waits for session {session} will find its writes lost - name it with --witness, or give --new \
             with the next session"
        )),
        (None, _) => {}
    }
    place.remove()
}

/// Has the witness wait no longer for a session. A witness that does not know the session has nothing to give up.
fn give_up(witness: &str, session: SessionId) -> Result<(), Failure> {
    let judged = Message::Judged { session, sentence: "given up without an examination".to_owned() };
    match Connection::to(witness)?.ask(&judged) {
        Ok(_) => Ok(()),
        Err(why) => {
            console::warning(&format!("the witness {witness} gives session {session} up: {why}"));
            Ok(())
        }
    }
}

fn cannot_ask(witness: &str, why: &str) -> Failure {
    Failure::environment(format!("cannot ask the witness {witness} - {why}"))
}

/// Acknowledged writes of all lanes.
fn acknowledged(record: &Record) -> u64 {
    record.upto.iter().sum()
}

/// Examines all lanes of `record`, concludes, and tells the witness.
fn examine_session(request: &Request<'_>, place: &Place, record: &Record) -> Result<Durability, Failure> {
    let session = &record.session;
    console::note(&format!(
        "session {}: reading what {} left",
        session.id,
        count(acknowledged(record), "acknowledged write")
    ));
    let target = place.to_read()?;
    if let Some(target) = &target {
        // Without a restart the page cache may have what the drive lost.
        target.drop_cached();
        if !target.is_direct() {
            console::warning(&format!(
                "{}: no direct I/O here: the page cache may answer for the drive",
                target.name()
            ));
        }
    }
    let mut unreadable = 0_u64;
    let mut counts = Vec::new();
    for (number, lane) in (0_u32..).zip(&session.lanes) {
        let mut buf = one_buffer(lane.write_bytes as usize)?;
        let of_lane = examine(session.id, number, lane, record.upto[number as usize], |slot, pass| {
            if lane.mode == Mode::Rename {
                return read_file(place, number, lane, slot, pass);
            }
            let Some(target) = &target else {
                pass(Slot::Missing);
                return Ok(());
            };
            let outcome;
            (outcome, buf) =
                read(target, lane.offset(slot), lane.write_bytes as usize, std::mem::replace(&mut buf, Buf::empty()));
            match outcome {
                Outcome::Done => pass(Slot::Bytes(&buf)),
                Outcome::Short(bytes) => pass(Slot::Bytes(&buf[..bytes as usize])),
                _ => {
                    unreadable += 1;
                    pass(Slot::Unreadable);
                }
            }
            Ok(())
        })?;
        counts.push(of_lane);
    }
    if unreadable > 0 {
        console::warning(&format!("{}: {} could not be read", request.path, count(unreadable, "write")));
    }
    let durability = conclude(request, place, record, &counts)?;
    let judged = Message::Judged { session: session.id, sentence: shortened(&durability.sentence) };
    let told = Connection::to(request.witness)
        .and_then(|mut witness| witness.ask(&judged).map(drop).map_err(|why| cannot_ask(request.witness, &why)));
    let removed = match durability.outcome {
        // The witness will ask for this session again.
        _ if told.is_err() => Ok(false),
        Verdict::Fail => Ok(false),
        _ => place.remove(),
    };
    if durability.outcome == Verdict::Fail && place.dir.is_some() {
        console::notice(&format!("the files in {} stay, to be looked at; --remove removes them", request.path));
    }
    // The result is there whatever becomes of these.
    told.err().into_iter().chain(removed.err()).for_each(|failure| console::warning(&failure.message));
    Ok(durability)
}

fn conclude(request: &Request<'_>, place: &Place, record: &Record, counts: &[Counts]) -> Result<Durability, Failure> {
    let boot_id = this_process()
        .ok_or_else(|| {
            Failure::environment("cannot tell if this machine was restarted - /proc has no boot_id - mount /proc")
        })?
        .boot_id;
    let after = AfterCut { boot_id, power: place.power(), is_drive_cut: request.is_drive_cut };
    Ok(Durability::conclude(
        record,
        counts,
        &after,
        place.claims(),
        place.disk.as_ref().and_then(DeviceFacts::in_words),
    ))
}

/// Passes the file of a slot on.
fn read_file(
    place: &Place,
    number: u32,
    lane: &Lane,
    slot: u64,
    pass: &mut dyn FnMut(Slot<'_>),
) -> Result<(), Failure> {
    let Some(dir) = &place.dir else {
        pass(Slot::Missing);
        return Ok(());
    };
    let path = dir.join(file_name(number, slot));
    let mut bytes = Vec::new();
    let limit = u64::from(lane.write_bytes) + 1;
    match open_file(&path).and_then(|file| file.take(limit).read_to_end(&mut bytes)) {
        Ok(_) => pass(Slot::Bytes(&bytes)),
        Err(error) if error.kind() == ErrorKind::NotFound => pass(Slot::Missing),
        Err(_) => pass(Slot::Unreadable),
    }
    Ok(())
}

/// Opens a file, not a link, without waiting for the other end of a FIFO.
fn open_file(path: &Path) -> std::io::Result<File> {
    use rustix::fs::{Advice, Mode, OFlags};
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    rustix::fs::fadvise(&file, 0, None, Advice::DontNeed)?;
    Ok(file)
}

/// A sentence as the witness takes it.
fn shortened(sentence: &str) -> String {
    printable(sentence).chars().take(400).collect()
}
