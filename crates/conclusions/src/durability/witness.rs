//! The witness: its messages, and its records of sessions.
//!
//! Messages are lines of JSON, each at most [`LINE_MAX`] bytes. The witness's file has [`FILE_MARK`], then the messages
//! that changed a session, as received but without secrets. So the same code reads the file and a connection.
//!
//! Anyone can connect. So the ID of a session is the hash of a secret of its tester, and only the secret permits the
//! message that closes the session.

use super::session::{FORMAT_VERSION, Secret, Session, SessionId, check_text};
use results::format::quoted;
use serde::{Deserialize, Serialize};
use std::io::{BufRead, Read};

/// First line of the witness's file.
pub const FILE_MARK: &str = "flashproof witness 1\n";

/// Maximum length of a line, bytes, including the newline.
pub const LINE_MAX: usize = 16 << 10;

/// Maximum number of sessions. Each takes at most 20 KiB of [`WitnessSessions::lines`], so all take less than 20 MiB.
pub const SESSIONS_MAX: usize = 1024;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum WitnessMessage {
    /// A session begins on this connection.
    Begin(Session),
    /// The writes of each lane up to these numbers are durable. A new `phase` begins when all lanes have drained;
    /// then other modes write.
    Durable {
        session: SessionId,
        phase: u64,
        upto: Vec<u64>,
    },
    /// The writes ended before any power cut of the machine. `vanished`: the drive lost its power or its link.
    /// `failed`: only in files of earlier versions, ignored.
    End {
        session: SessionId,
        why: String,
        #[serde(default)]
        vanished: bool,
        #[serde(default, skip_serializing)]
        failed: bool,
    },
    /// This message is only in the witness's file: the tester sent nothing more, like a machine that loses power.
    Silent { session: SessionId },
    /// The session was examined; `sentence` is the result. The witness's file does not have the secret.
    Judged {
        session: SessionId,
        sentence: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        secret: Option<Secret>,
    },
    /// The tester of this connection runs, but has no new durable writes. Not recorded.
    Alive { session: SessionId },
    /// This message is only in the witness's file: the session was dropped to make room for a new one.
    Dropped { session: SessionId },
    /// Asks for the session `found`, whose ID is on the target, or for the last unexamined session of `subject`.
    Ask {
        format_version: u32,
        subject: String,
        found: Option<SessionId>,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum WitnessReply {
    /// The message is in the witness's file.
    Kept,
    Record(Option<Box<WitnessRecord>>),
    Refused(String),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WitnessRecord {
    pub session: Session,
    /// Last acknowledged write of each lane.
    pub upto: Vec<u64>,
    pub phase: u64,
    /// Last acknowledged write of each lane when the phase began.
    pub upto_before: Vec<u64>,
    /// Why the writes ended before any power cut of the machine, and true if the drive had vanished.
    pub end: Option<(String, bool)>,
    pub judged: Option<String>,
    pub is_open: bool,
}

impl WitnessRecord {
    /// True while acknowledgements can arrive.
    pub fn is_running(&self) -> bool {
        self.is_open && self.end.is_none()
    }

    pub fn check(&self) -> Result<(), String> {
        self.session.check()?;
        self.end
            .iter()
            .map(|(why, _)| why)
            .chain(&self.judged)
            .try_for_each(|text| check_text(text))?;
        let lanes = self.session.lanes.len();
        let is_behind = |(before, upto): (&u64, &u64)| before <= upto && *upto <= MOST_WRITES;
        let is_good = self.upto.len() == lanes
            && self.upto_before.len() == lanes
            && self.upto_before.iter().zip(&self.upto).all(is_behind);
        if is_good {
            Ok(())
        } else {
            Err("the numbers in the record do not fit the lanes of its session".to_owned())
        }
    }
}

/// Maximum number of writes of a lane; sums of such numbers do not overflow.
const MOST_WRITES: u64 = 1 << 48;

#[derive(Debug, Default)]
pub struct WitnessSessions {
    records: Vec<WitnessRecord>,
}

impl WitnessSessions {
    /// Returns the sessions and the length of all complete lines, bytes. The witness never confirmed an incomplete last
    /// line. Errors: `file` is not a witness's file, is damaged, or cannot be read.
    pub fn load(mut file: impl BufRead) -> Result<(Self, u64), String> {
        let mut register = Self::default();
        let mut bytes = 0;
        let mut number = 0_u64;
        let mut line = Vec::new();
        loop {
            line.clear();
            let read = (&mut file)
                .take(LINE_MAX as u64)
                .read_until(b'\n', &mut line);
            read.map_err(|error| error.to_string())?;
            number += 1;
            match line.last() {
                Some(b'\n') if number == 1 && line == FILE_MARK.as_bytes() => {}
                // The first line is incomplete: the power failed, or the disk was full, when the file was created.
                Some(_) if number == 1 && FILE_MARK.as_bytes().starts_with(&line) => break,
                Some(_) if number == 1 => {
                    return Err("it is not a witness's file; give another file".to_owned());
                }
                Some(b'\n') => register
                    .reload(&line)
                    .map_err(|why| format!("line {number} is damaged: {why}"))?,
                Some(_) if line.len() == LINE_MAX => {
                    return Err(format!("line {number} is damaged: too long"));
                }
                _ => break,
            }
            bytes += line.len() as u64;
        }
        register.end();
        Ok((register, bytes))
    }

    /// Ends the witness. This also ends the writes of all sessions with an open connection.
    pub fn end(&mut self) {
        for record in self.records.iter_mut().filter(|record| record.is_open) {
            record.is_open = false;
            record.end.get_or_insert_with(|| {
                (
                    "the witness ended, which also ended the writes".to_owned(),
                    false,
                )
            });
        }
    }

    fn reload(&mut self, line: &[u8]) -> Result<(), String> {
        let message = parse(line)?;
        let mut own_session = match &message {
            WitnessMessage::Durable { session, .. }
            | WitnessMessage::End { session, .. }
            | WitnessMessage::Silent { session } => Some(*session),
            // If the session is in the file of another witness, there is nothing to change here.
            WitnessMessage::Judged { session, .. } if self.find(*session).is_none() => {
                return Ok(());
            }
            WitnessMessage::Judged { session, .. } => {
                self.disconnected(*session);
                None
            }
            _ => None,
        };
        self.apply(&message, &mut own_session)
    }

    /// `own_session`: session of the connection. Errors: the message is refused, and nothing has changed.
    pub fn change(
        &mut self,
        message: &WitnessMessage,
        own_session: &mut Option<SessionId>,
    ) -> Result<(), String> {
        match message {
            WitnessMessage::Begin(session) => {
                check_version(session.format_version)?;
                if self.records.len() >= SESSIONS_MAX {
                    return Err(format!(
                        "{SESSIONS_MAX} sessions with acknowledged writes wait for their examination; examine some, or \
                         start the witness with a new file"
                    ));
                }
            }
            WitnessMessage::Durable {
                session,
                phase,
                upto,
            } => {
                let has_progress =
                    |record: &WitnessRecord| record.phase != *phase || record.upto != *upto;
                if !self.find(*session).is_none_or(has_progress) {
                    return Err("the acknowledgement makes no progress".to_owned());
                }
            }
            WitnessMessage::Judged {
                session, secret, ..
            } => {
                let needs_secret = self
                    .find(*session)
                    .is_some_and(|record| record.session.has_secret());
                if needs_secret && secret.map(Secret::session) != Some(*session) {
                    return Err(
                        "only the secret of a session permits closing the session".to_owned()
                    );
                }
            }
            _ => {}
        }
        self.apply(message, own_session)
    }

    /// Applies a message from a connection, or from a file of this or an earlier version.
    fn apply(
        &mut self,
        message: &WitnessMessage,
        own_session: &mut Option<SessionId>,
    ) -> Result<(), String> {
        match message {
            WitnessMessage::Begin(session) => {
                session.check()?;
                if own_session.is_some() || self.find(session.id).is_some() {
                    return Err(
                        "this session, or another session of this connection, has already begun"
                            .to_owned(),
                    );
                }
                *own_session = Some(session.id);
                let zeros = vec![0; session.lanes.len()];
                self.records.push(WitnessRecord {
                    session: session.clone(),
                    upto: zeros.clone(),
                    phase: 0,
                    upto_before: zeros,
                    end: None,
                    judged: None,
                    is_open: true,
                });
            }
            WitnessMessage::Durable {
                session,
                phase,
                upto,
            } => {
                let record = self.own_record_mut(*session, *own_session)?;
                let ascends = record
                    .upto
                    .iter()
                    .zip(upto)
                    .all(|(before, now)| before <= now && *now <= MOST_WRITES);
                let fits = upto.len() == record.upto.len() && ascends && *phase >= record.phase;
                if !fits || !record.is_running() {
                    return Err(
                        "the acknowledgement is below an earlier one, or does not fit the session"
                            .to_owned(),
                    );
                }
                if *phase > record.phase {
                    record.upto_before.clone_from(&record.upto);
                    record.phase = *phase;
                }
                record.upto.clone_from(upto);
            }
            WitnessMessage::End {
                session,
                why,
                vanished,
                ..
            } => {
                check_text(why)?;
                let record = self.own_record_mut(*session, *own_session)?;
                if !record.is_running() {
                    return Err("the session has already ended".to_owned());
                }
                record.end = Some((why.clone(), *vanished));
            }
            WitnessMessage::Silent { session } => {
                self.own_record_mut(*session, *own_session)?.is_open = false
            }
            WitnessMessage::Judged {
                session, sentence, ..
            } => {
                check_text(sentence)?;
                let record = self.find_mut(*session).ok_or("no such session")?;
                if record.is_open || record.judged.is_some() {
                    return Err("the session is still running, or was already examined".to_owned());
                }
                record.judged = Some(sentence.clone());
            }
            WitnessMessage::Dropped { session } => {
                self.records.retain(|record| record.session.id != *session)
            }
            WitnessMessage::Ask { .. } | WitnessMessage::Alive { .. } => {
                return Err("this message changes no session".to_owned());
            }
        }
        Ok(())
    }

    /// Undoes a change that could not be written to the file. Messages about durable writes stay in effect, because the
    /// writes happened.
    pub fn undo(&mut self, message: &WitnessMessage) {
        match message {
            WitnessMessage::Begin(session) => self
                .records
                .retain(|record| record.session.id != session.id),
            WitnessMessage::Judged { session, .. } => self
                .find_mut(*session)
                .into_iter()
                .for_each(|record| record.judged = None),
            WitnessMessage::Durable { .. }
            | WitnessMessage::End { .. }
            | WitnessMessage::Silent { .. } => {}
            WitnessMessage::Dropped { .. }
            | WitnessMessage::Ask { .. }
            | WitnessMessage::Alive { .. } => {}
        }
    }

    /// The session to drop for a new one: the oldest without acknowledged writes, or else the oldest that was examined.
    /// `None` if there is room, or no such session. A session that runs, or has writes to examine, is never dropped.
    pub fn superfluous(&self) -> Option<SessionId> {
        let is_empty =
            |record: &&WitnessRecord| !record.is_open && record.upto.iter().all(|upto| *upto == 0);
        let is_judged = |record: &&WitnessRecord| record.judged.is_some();
        (self.records.len() >= SESSIONS_MAX)
            .then(|| {
                self.records
                    .iter()
                    .find(is_empty)
                    .or_else(|| self.records.iter().find(is_judged))
            })?
            .map(|record| record.session.id)
    }

    /// The shortest file that gives these sessions, without [`FILE_MARK`].
    pub fn lines(&self) -> Result<Vec<u8>, String> {
        let mut lines = Vec::new();
        for record in &self.records {
            let session = record.session.id;
            let mut messages = vec![WitnessMessage::Begin(record.session.clone())];
            let mut phases = vec![(0, &record.upto_before), (record.phase, &record.upto)];
            phases.retain(|(phase, upto)| *phase > 0 || upto.iter().any(|upto| *upto > 0));
            messages.extend(
                phases
                    .into_iter()
                    .map(|(phase, upto)| WitnessMessage::Durable {
                        session,
                        phase,
                        upto: upto.clone(),
                    }),
            );
            if let Some((why, vanished)) = record.end.clone() {
                messages.push(WitnessMessage::End {
                    session,
                    why,
                    vanished,
                    failed: false,
                });
            }
            if !record.is_open {
                messages.push(WitnessMessage::Silent { session });
            }
            if let Some(sentence) = record.judged.clone() {
                messages.push(WitnessMessage::Judged {
                    session,
                    sentence,
                    secret: None,
                });
            }
            for message in &messages {
                lines.extend(line(message)?);
            }
        }
        Ok(lines)
    }

    pub fn answer(&self, version: u32, subject: &str, found_id: Option<SessionId>) -> WitnessReply {
        if let Err(why) = check_version(version) {
            return WitnessReply::Refused(why);
        }
        let of_subject =
            |record: &&WitnessRecord| record.session.subject == subject && record.judged.is_none();
        let found_record = found_id.and_then(|id| self.find(id));
        // If the drive lost its whole last session, `found_record` is an older session, which was already examined.
        let unjudged = found_record.filter(|record| record.judged.is_none());
        let unjudged = unjudged.or_else(|| self.records.iter().rev().find(of_subject));
        WitnessReply::Record(unjudged.or(found_record).cloned().map(Box::new))
    }

    pub fn disconnected(&mut self, session: SessionId) {
        self.find_mut(session)
            .into_iter()
            .for_each(|record| record.is_open = false);
    }

    pub fn waiting(&self) -> impl Iterator<Item = &WitnessRecord> {
        self.records.iter().filter(|record| record.judged.is_none())
    }

    pub fn find(&self, id: SessionId) -> Option<&WitnessRecord> {
        self.records.iter().find(|record| record.session.id == id)
    }

    fn find_mut(&mut self, id: SessionId) -> Option<&mut WitnessRecord> {
        self.records
            .iter_mut()
            .find(|record| record.session.id == id)
    }

    fn own_record_mut(
        &mut self,
        session: SessionId,
        own_session: Option<SessionId>,
    ) -> Result<&mut WitnessRecord, String> {
        let of_own = (own_session == Some(session)).then_some(session);
        of_own
            .and_then(|id| self.find_mut(id))
            .ok_or_else(|| "the session does not belong to this connection".to_owned())
    }
}

fn check_version(version: u32) -> Result<(), String> {
    match version {
        FORMAT_VERSION => Ok(()),
        _ => Err(format!(
            "this witness speaks version {FORMAT_VERSION}, not {version}; use the same version of flashproof on both \
             machines"
        )),
    }
}

/// Parses a line of JSON. An error is a text of one line.
pub fn parse<'a, T: Deserialize<'a>>(line: &'a [u8]) -> Result<T, String> {
    serde_json::from_slice(line).map_err(|error| {
        format!(
            "not a message of flashproof ({})",
            quoted(&error.to_string())
        )
    })
}

/// `message` as a line of JSON, with the newline. Errors: the line is longer than [`LINE_MAX`].
pub fn line(message: &impl Serialize) -> Result<Vec<u8>, String> {
    let mut line = serde_json::to_vec(message).map_err(|error| error.to_string())?;
    line.push(b'\n');
    if line.len() <= LINE_MAX {
        Ok(line)
    } else {
        Err(format!(
            "a message of {} bytes is longer than {LINE_MAX}",
            line.len()
        ))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::session::{DurabilityMethod, WriteLane};
    use super::*;

    fn id(secret: u128) -> SessionId {
        Secret(secret).session()
    }

    fn judged(secret: u128, told: Option<u128>) -> WitnessMessage {
        WitnessMessage::Judged {
            session: id(secret),
            sentence: "all there".into(),
            secret: told.map(Secret),
        }
    }

    pub(crate) fn session(secret: u128) -> Session {
        let lane = WriteLane {
            mode: DurabilityMethod::Fua,
            write_bytes: 4096,
            slots: 8,
            at: 0,
            scattered: false,
        };
        Session {
            format_version: FORMAT_VERSION,
            id: id(secret),
            subject: "host:/data".into(),
            path: "/data".into(),
            disk: Some("wwid 7".into()),
            tool: "flashproof".into(),
            started_unix_ms: 1,
            boot_id: "b00t".into(),
            power: None,
            lanes: vec![lane.clone(), lane],
        }
    }

    fn durable(secret: u128, phase: u64, upto: [u64; 2]) -> WitnessMessage {
        WitnessMessage::Durable {
            session: id(secret),
            phase,
            upto: upto.to_vec(),
        }
    }

    #[test]
    fn only_the_connection_of_a_session_changes_it_and_acknowledgements_never_decrease() {
        let mut register = WitnessSessions::default();
        let mut own = None;
        let mut other = None;
        register
            .change(&WitnessMessage::Begin(session(1)), &mut own)
            .unwrap();
        register.change(&durable(1, 0, [3, 0]), &mut own).unwrap();
        register.change(&durable(1, 1, [4, 9]), &mut own).unwrap();
        let refused = [
            durable(1, 1, [3, 9]),
            durable(1, 0, [4, 9]),
            durable(2, 1, [5, 9]),
            durable(1, 1, [5, u64::MAX]),
        ];
        for message in &refused {
            assert!(register.change(message, &mut own).is_err(), "{message:?}");
        }
        assert!(register.change(&durable(1, 1, [5, 9]), &mut other).is_err());
        assert!(
            register
                .change(&WitnessMessage::Begin(session(1)), &mut other)
                .is_err()
        );
        assert!(
            register
                .change(&WitnessMessage::Begin(session(2)), &mut own)
                .is_err()
        );
        assert!(
            register.change(&judged(1, Some(1)), &mut other).is_err(),
            "the session still runs"
        );
        let WitnessReply::Record(Some(record)) =
            register.answer(FORMAT_VERSION, "host:/data", None)
        else {
            panic!()
        };
        assert_eq!(
            (&record.upto[..], &record.upto_before[..], record.is_open),
            (&[4, 9][..], &[3, 0][..], true)
        );
        assert!(record.check().is_ok());
        register.disconnected(id(1));
        assert!(
            register.change(&durable(1, 1, [5, 9]), &mut own).is_err(),
            "its machine had lost its power"
        );
        for told in [None, Some(2)] {
            let why = register.change(&judged(1, told), &mut other).unwrap_err();
            assert!(why.contains("only the secret"), "{why}");
        }
        assert!(register.find(id(1)).unwrap().judged.is_none());
        register.change(&judged(1, Some(1)), &mut other).unwrap();
        assert_eq!(
            register.answer(FORMAT_VERSION, "host:/data", None),
            WitnessReply::Record(None)
        );
        assert!(matches!(
            register.answer(FORMAT_VERSION, "", Some(id(1))),
            WitnessReply::Record(Some(_))
        ));
        assert!(matches!(
            register.answer(9, "host:/data", None),
            WitnessReply::Refused(_)
        ));
    }

    #[test]
    fn a_torn_last_line_of_the_file_is_ignored_and_sessions_out_of_bounds_are_refused() {
        let mut file = FILE_MARK.as_bytes().to_vec();
        let silent = WitnessMessage::Silent { session: id(2) };
        let begin = |id| WitnessMessage::Begin(session(id));
        for message in [
            begin(1),
            durable(1, 2, [7, 8]),
            begin(2),
            silent,
            judged(1, None),
            begin(3),
        ] {
            let line = line(&message).unwrap();
            assert_eq!(parse::<WitnessMessage>(&line).unwrap(), message);
            file.extend_from_slice(&line);
        }
        let whole = file.len() as u64;
        file.extend_from_slice(b"{\"durable\":{\"ses");
        let (register, bytes) = WitnessSessions::load(&file[..]).unwrap();
        assert_eq!(bytes, whole);
        assert_eq!(
            (&register.records[0].upto[..], register.records[0].is_open),
            (&[7, 8][..], false)
        );
        let waiting = register
            .waiting()
            .map(|record| (record.session.id, record.end.is_some()));
        assert_eq!(
            waiting.collect::<Vec<_>>(),
            [(id(2), false), (id(3), true)],
            "the third one ended with its witness"
        );
        for (file, why) in [
            ("precious data\n".to_owned(), "not a witness's file"),
            ("flashproof witness 9".to_owned(), "not a witness's file"),
            (format!("{FILE_MARK}{{}}\n"), "line 2 is damaged"),
            (format!("{FILE_MARK}{}", "x".repeat(1 << 20)), "too long"),
        ] {
            let error = WitnessSessions::load(file.as_bytes()).unwrap_err();
            assert!(error.contains(why) && error.len() < 200, "{error}");
        }
        for torn in ["", "f", "flashproof witness 1"] {
            assert_eq!(
                WitnessSessions::load(torn.as_bytes()).unwrap().1,
                0,
                "begun again: {torn}"
            );
        }
        let mut register = WitnessSessions::default();
        let changes: [fn(&mut Session); 6] = [
            |session| session.lanes.clear(),
            |session| session.lanes[0].slots = 7,
            |session| session.lanes[1].write_bytes = 513,
            |session| session.lanes[1].at = u64::MAX - 4096,
            |session| session.path = "a\u{1b}[2J".into(),
            |session| session.format_version = FORMAT_VERSION + 1,
        ];
        for change in changes {
            let mut wrong = session(2);
            change(&mut wrong);
            let error = register
                .change(&WitnessMessage::Begin(wrong), &mut None)
                .unwrap_err();
            assert!(!error.contains(char::is_control), "{error}");
        }
    }

    #[test]
    fn a_message_without_progress_is_refused_and_the_shortest_file_gives_the_same_sessions() {
        let mut register = WitnessSessions::default();
        let mut own = None;
        register
            .change(&WitnessMessage::Begin(session(1)), &mut own)
            .unwrap();
        for (message, is_progress) in [
            (durable(1, 0, [0, 0]), false),
            (durable(1, 0, [3, 0]), true),
            (durable(1, 0, [3, 0]), false),
            (durable(1, 1, [3, 0]), true),
            (durable(1, 1, [4, 9]), true),
            (durable(1, 1, [4, 9]), false),
            (
                WitnessMessage::End {
                    session: id(1),
                    why: "EIO".into(),
                    vanished: true,
                    failed: false,
                },
                true,
            ),
        ] {
            assert_eq!(
                register.change(&message, &mut own).is_ok(),
                is_progress,
                "{message:?}"
            );
        }
        register.disconnected(id(1));
        register
            .change(&WitnessMessage::Begin(session(2)), &mut None)
            .unwrap();
        register
            .change(&WitnessMessage::Silent { session: id(2) }, &mut Some(id(2)))
            .unwrap();
        register.change(&judged(2, Some(2)), &mut None).unwrap();
        let file = [FILE_MARK.as_bytes(), &register.lines().unwrap()].concat();
        assert!(!String::from_utf8_lossy(&file).contains("secret"));
        let (same, bytes) = WitnessSessions::load(&file[..]).unwrap();
        assert_eq!((same.records, bytes), (register.records, file.len() as u64));
    }

    #[test]
    fn sessions_of_an_earlier_version_are_closed_without_a_secret_and_no_new_one_begins() {
        let first = Session {
            format_version: 1,
            ..session(1)
        };
        let begin = WitnessMessage::Begin(first);
        // A file of version 1 also has messages without progress.
        let lines = [
            begin.clone(),
            durable(1, 0, [0, 0]),
            durable(1, 0, [3, 3]),
            durable(1, 0, [3, 3]),
        ];
        let lines: String = lines
            .iter()
            .map(|message| String::from_utf8(line(message).unwrap()).unwrap())
            .collect();
        let lines = format!(
            "{lines}{{\"end\":{{\"session\":\"{}\",\"why\":\"EPERM\",\"failed\":true}}}}\n",
            id(1)
        );
        let (mut register, _) =
            WitnessSessions::load(format!("{FILE_MARK}{lines}").as_bytes()).unwrap();
        let record = register.find(id(1)).unwrap();
        assert_eq!(record.upto, [3, 3]);
        assert_eq!(
            record.end,
            Some(("EPERM".to_owned(), false)),
            "any error set the old flag"
        );
        register.change(&judged(1, None), &mut None).unwrap();
        let why = WitnessSessions::default()
            .change(&begin, &mut None)
            .unwrap_err();
        assert!(
            why.contains("the same version of flashproof on both machines"),
            "{why}"
        );
    }

    #[test]
    fn without_room_empty_sessions_are_dropped_then_examined_ones_and_waiting_ones_never() {
        let mut register = WitnessSessions::default();
        for secret in 0..SESSIONS_MAX as u128 {
            assert_eq!(register.superfluous(), None);
            let mut own = None;
            register
                .change(&WitnessMessage::Begin(session(secret)), &mut own)
                .unwrap();
            if secret != 3 && secret != 5 {
                register
                    .change(&durable(secret, 0, [1, 0]), &mut own)
                    .unwrap();
            }
            register.disconnected(id(secret));
        }
        register.change(&judged(2, Some(2)), &mut None).unwrap();
        let more = SESSIONS_MAX as u128;
        for (secret, dropped) in (more..).zip([3, 5, 2]) {
            assert!(
                register
                    .change(&WitnessMessage::Begin(session(secret)), &mut None)
                    .is_err(),
                "no room"
            );
            assert_eq!(register.superfluous(), Some(id(dropped)));
            register
                .change(
                    &WitnessMessage::Dropped {
                        session: id(dropped),
                    },
                    &mut None,
                )
                .unwrap();
            // The new session is empty too, but its tester is connected.
            register
                .change(&WitnessMessage::Begin(session(secret)), &mut None)
                .unwrap();
        }
        assert_eq!(register.superfluous(), None);
        let why = register
            .change(&WitnessMessage::Begin(session(9_999)), &mut None)
            .unwrap_err();
        assert!(why.contains("wait for their examination"), "{why}");
    }
}
