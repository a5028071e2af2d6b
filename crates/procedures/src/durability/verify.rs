//! Reads what a session wrote, after the cut.

use super::connection::Connection;
use super::place::{Place, file_name, one_buffer, read};
use super::{Request, acknowledged, cannot_ask};
use device::discover::DeviceFacts;
use device::observe::process::this_process;
use results::durability::examine::{Counts, Slot, examine};
use results::durability::judge::{AfterCut, Durability};
use results::durability::session::{Lane, Mode};
use results::durability::witness::{Message, Record};
use results::judge::Outcome as Verdict;
use results::units::{count, printable};
use session::console;
use session::failure::Failure;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;
use sys::buffer::Buf;
use sys::op::Outcome;

/// Examines all lanes of `record`, concludes, and tells the witness.
pub(super) fn run(request: &Request<'_>, place: &Place, record: &Record) -> Result<Durability, Failure> {
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
