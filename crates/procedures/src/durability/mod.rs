//! `check durability`: are acknowledged writes there after a power cut?
//!
//! ```text
//! check -> Place (device, directory) -> Ask the witness -> no session waits: write::run, until the power is cut
//!                                                       -> a session waits:  verify::run -> Durability
//! ```
//!
//! The machine under test keeps no state: the witness, and the sectors on the drive, say all. [`witness`] is the other machine.

mod connection;
mod place;
mod verify;
pub mod witness;
mod write;

use connection::Connection;
use place::Place;
use results::durability::judge::Durability;
use results::durability::session::{FORMAT_VERSION, Mode, SessionId};
use results::durability::witness::{Message, Record, Reply};
use session::console;
use session::failure::Failure;
use session::signals::Ending;

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
            verify::run(request, &place, &record)
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
