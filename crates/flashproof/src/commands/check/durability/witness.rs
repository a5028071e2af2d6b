//! The witness: a server that records which writes of its clients are durable.
//!
//! Each line is appended to the file before it is answered, so kill -9 loses nothing confirmed. The file is not synced,
//! because the power of this machine is not cut.
//!
//! Anyone can connect, so everything is bounded: connections, sessions, lines, and the file. Of the lines of a session
//! only the last ones matter, so a long file is replaced by a short one.

use super::acknowledged;
use conclusions::durability::session::SessionId;
use conclusions::durability::witness::{
    FILE_MARK, LINE_MAX, WitnessMessage, WitnessRecord, WitnessReply, WitnessSessions, line, parse,
};
use results::files::{self, ReplaceTarget};
use results::format::{count, in_one_line};
use rustix::fs::FlockOperation;
use serde::Serialize;
use session::console;
use session::failure::Failure;
use session::signals::EndSignals;
use std::fs::{self, File, Permissions};
use std::io::{BufReader, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Maximum open connections. At the limit, a new connection replaces the oldest connection without a session, whose
/// peer is idle: a request takes only milliseconds.
const CONNECTIONS_MAX: usize = 64;

/// Length at which the file is replaced by a shorter one, bytes. A tester on a fast network sends this much in a
/// minute, and the shorter file is below a third of this.
const FILE_MAX: u64 = 64 << 20;

const POLL_INTERVAL: Duration = Duration::from_millis(20);

pub struct Witness {
    listener: TcpListener,
    session_file: Arc<Mutex<SessionFile>>,
    open_connections: Arc<Mutex<Vec<OpenConnection>>>,
}

/// A connection that has a thread.
struct OpenConnection {
    peer: SocketAddr,
    stream: TcpStream,
    has_session: bool,
}

/// Sessions, in memory and in the file.
struct SessionFile {
    register: WitnessSessions,
    path: PathBuf,
    file: File,
    bytes: u64,
    shorten_at: u64,
}

impl Witness {
    /// Opens the file, or creates it, and listens.
    pub fn open(address: &str, path: &Path) -> Result<Self, Failure> {
        let listener = TcpListener::bind(address)
            .and_then(|listener| listener.set_nonblocking(true).map(|()| listener))
            .map_err(|error| {
                Failure::environment(format!("cannot listen at {address} - {error}"))
            })?;
        let session_file = SessionFile::open(path).map_err(|why| {
            Failure::environment(format!(
                "cannot keep sessions in {} - {why}",
                path.display()
            ))
        })?;
        Ok(Self {
            listener,
            session_file: Arc::new(Mutex::new(session_file)),
            open_connections: Arc::default(),
        })
    }

    /// The address that testers connect to.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Sessions that were cut or ended and are not examined yet, a line each.
    pub fn waiting(&self) -> Vec<String> {
        lock(&self.session_file)
            .register
            .waiting()
            .map(in_words)
            .collect()
    }

    pub fn serve(&self, end_signals: &EndSignals) -> Result<(), Failure> {
        while end_signals.wait(POLL_INTERVAL).is_none() {
            loop {
                match self.listener.accept() {
                    Ok((stream, peer)) => self.begin(stream, peer),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    // A client failed, or no descriptors are left: later connections may succeed.
                    Err(error) => {
                        console::warning_once(&format!("a connection was not accepted: {error}"));
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    fn begin(&self, stream: TcpStream, peer: SocketAddr) {
        let Ok(other_handle) = stream.try_clone() else {
            return;
        };
        let mut open_connections = lock(&self.open_connections);
        if open_connections.len() >= CONNECTIONS_MAX {
            let Some(idle) = open_connections.iter().position(|open| !open.has_session) else {
                console::warning_once(&format!(
                    "{peer}: connection refused: all {CONNECTIONS_MAX} connections have sessions - end a session"
                ));
                return;
            };
            // The thread of that connection then reads the end of the stream, and ends.
            let _ = open_connections
                .remove(idle)
                .stream
                .shutdown(Shutdown::Both);
        }
        let session_file = self.session_file.clone();
        let shared_list = self.open_connections.clone();
        let spawn_result = thread::Builder::new().spawn(move || {
            if let Err(why) = converse(stream, peer, &session_file, &shared_list) {
                console::warning(&format!("{peer}: connection closed: {}", in_one_line(&why)));
            }
            lock(&shared_list).retain(|open| open.peer != peer);
        });
        match spawn_result {
            Ok(_) => open_connections.push(OpenConnection {
                peer,
                stream: other_handle,
                has_session: false,
            }),
            Err(error) => {
                console::warning_once(&format!("cannot start a thread for a connection - {error}"))
            }
        }
    }
}

/// Answers a client until it closes the connection, is silent for too long, or is refused.
fn converse(
    stream: TcpStream,
    peer: SocketAddr,
    session_file: &Mutex<SessionFile>,
    open_connections: &Mutex<Vec<OpenConnection>>,
) -> Result<(), String> {
    let mut connection = Connection::new(stream).map_err(|error| error.to_string())?;
    let mut own_session = None;
    let exchange_result = exchange(
        &mut connection,
        peer,
        session_file,
        open_connections,
        &mut own_session,
    );
    let Some(session) = own_session else {
        return exchange_result;
    };
    let mut session_file = lock(session_file);
    if session_file
        .register
        .find(session)
        .is_some_and(WitnessRecord::is_running)
    {
        let why = exchange_result
            .clone()
            .err()
            .unwrap_or_else(|| "the command closed its connection".to_owned());
        let message = if connection.fell_silent {
            WitnessMessage::Silent { session }
        } else {
            WitnessMessage::End {
                session,
                why: in_one_line(&why).chars().take(100).collect(),
                vanished: false,
                failed: false,
            }
        };
        let _result = session_file.apply_and_append(&message, &mut own_session, peer);
    }
    session_file.register.disconnected(session);
    exchange_result
}

fn exchange(
    connection: &mut Connection,
    peer: SocketAddr,
    session_file: &Mutex<SessionFile>,
    open_connections: &Mutex<Vec<OpenConnection>>,
    own_session: &mut Option<SessionId>,
) -> Result<(), String> {
    while let Some(line) = connection.receive(REPLY_TIMEOUT)? {
        let message = parse(&line);
        let begins = matches!(message, Ok(WitnessMessage::Begin(_)));
        let reply =
            message.and_then(|message| lock(session_file).receive(&message, own_session, peer));
        if begins {
            let is_own = |open: &&mut OpenConnection| open.peer == peer;
            lock(open_connections)
                .iter_mut()
                .filter(is_own)
                .for_each(|open| open.has_session = own_session.is_some());
        }
        let refusal = reply.as_ref().err().cloned();
        connection.send(&reply.unwrap_or_else(WitnessReply::Refused))?;
        if let Some(why) = refusal {
            return Err(why);
        }
    }
    Ok(())
}

impl SessionFile {
    fn open(path: &Path) -> Result<Self, String> {
        files::check_dir_writable(files::dir_of(path)).map_err(|error| {
            format!("its directory cannot be written: {error}; name a file in another directory")
        })?;
        let mut file = open_locked(path)?;
        let (register, mut bytes) = WitnessSessions::load(BufReader::new(&file))?;
        if bytes == 0 {
            bytes = FILE_MARK.len() as u64;
            // An empty or torn file may be readable by others, unlike a new one.
            let begun = file
                .set_permissions(Permissions::from_mode(files::PRIVATE))
                .and_then(|()| files::set_len(&file, 0));
            begun
                .and_then(|()| file.write_all(FILE_MARK.as_bytes()))
                .map_err(|error| error.to_string())?;
        }
        files::set_len(&file, bytes).map_err(|error| error.to_string())?;
        Ok(Self {
            register,
            path: path.to_owned(),
            file,
            bytes,
            shorten_at: FILE_MAX,
        })
    }

    /// Answers a message. Errors: refused, or not written to the file.
    fn receive(
        &mut self,
        message: &WitnessMessage,
        own_session: &mut Option<SessionId>,
        peer: SocketAddr,
    ) -> Result<WitnessReply, String> {
        match message {
            WitnessMessage::Ask {
                format_version,
                subject,
                found,
            } => Ok(self.register.answer(*format_version, subject, *found)),
            WitnessMessage::Silent { .. } | WitnessMessage::Dropped { .. } => {
                Err("only the witness writes this message".to_owned())
            }
            WitnessMessage::Alive { session } if *own_session == Some(*session) => {
                Ok(WitnessReply::Kept)
            }
            WitnessMessage::Begin(_) => {
                while let Some(session) = self.register.superfluous() {
                    self.append(&line(&WitnessMessage::Dropped { session })?)?;
                    self.register
                        .change(&WitnessMessage::Dropped { session }, &mut None)?;
                    console::note(&format!(
                        "session {session} was dropped to make room for a new session: it was examined, or had no \
                         acknowledged writes"
                    ));
                }
                self.apply_and_append(message, own_session, peer)
                    .map(|()| WitnessReply::Kept)
            }
            _ => self
                .apply_and_append(message, own_session, peer)
                .map(|()| WitnessReply::Kept),
        }
    }

    /// Applies a change, and appends it to the file. Errors: refused, or not written to the file.
    fn apply_and_append(
        &mut self,
        message: &WitnessMessage,
        own_session: &mut Option<SessionId>,
        peer: SocketAddr,
    ) -> Result<(), String> {
        self.shorten()?;
        self.register.change(message, own_session)?;
        let line = match message.clone() {
            WitnessMessage::Judged {
                session, sentence, ..
            } => line(&WitnessMessage::Judged {
                session,
                sentence,
                secret: None,
            })?,
            message => line(&message)?,
        };
        self.append(&line)
            .inspect_err(|_| self.register.undo(message))?;
        match message {
            WitnessMessage::Begin(session) => console::note(&format!(
                "{peer}: session {} of {} began",
                session.id, session.path
            )),
            WitnessMessage::End { session, why, .. } => {
                console::note(&format!("{peer}: session {session} ended: {why}"))
            }
            WitnessMessage::Silent { session } => {
                let waits = self
                    .register
                    .find(*session)
                    .map(in_words)
                    .unwrap_or_default();
                console::notice(&format!("{peer}: sent nothing more: {waits}"));
            }
            WitnessMessage::Judged {
                session, sentence, ..
            } => console::notice(&format!("{peer}: session {session}: {sentence}")),
            WitnessMessage::Durable { .. }
            | WitnessMessage::Ask { .. }
            | WitnessMessage::Alive { .. }
            | WitnessMessage::Dropped { .. } => {}
        }
        Ok(())
    }

    fn append(&mut self, line: &[u8]) -> Result<(), String> {
        self.file.write_all(line).map_err(|error| {
            // A torn line would damage all lines after it.
            let _ = files::set_len(&self.file, self.bytes);
            self.cannot_write(&error.to_string())
        })?;
        self.bytes += line.len() as u64;
        Ok(())
    }

    /// Replaces a long file by the shortest file with the same sessions.
    fn shorten(&mut self) -> Result<(), String> {
        if self.bytes < self.shorten_at {
            return Ok(());
        }
        let bytes = [FILE_MARK.as_bytes(), &self.register.lines()?].concat();
        files::replace(&self.path, &bytes, ReplaceTarget::OwnPrivate(FILE_MARK))
            .map_err(|error| error.to_string())
            .and_then(|()| open_locked(&self.path))
            .map(|file| self.file = file)
            .map_err(|why| self.cannot_write(&why))?;
        self.bytes = bytes.len() as u64;
        self.shorten_at = FILE_MAX.max(2 * self.bytes);
        Ok(())
    }

    /// Warns, and returns the refusal for the peer.
    fn cannot_write(&self, why: &str) -> String {
        let why = format!("the witness cannot write {} ({why})", self.path.display());
        console::warning(&why);
        why
    }
}

/// Opens the file at `path` to append, or creates it, and locks it.
fn open_locked(path: &Path) -> Result<File, String> {
    let file = files::open_to_append(path, files::PRIVATE)
        .map_err(|error| format!("{error}; name a regular file, or a new file"))?;
    if rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        return Err("another witness uses it; name another file".to_owned());
    }
    // Another witness may have replaced the file before it ended.
    let identity = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
    match (
        file.metadata().map(identity),
        fs::symlink_metadata(path).map(identity),
    ) {
        (Ok(opened), Ok(named)) if opened == named => Ok(file),
        _ => Err("it was replaced just now; start again".to_owned()),
    }
}

fn in_words(record: &WitnessRecord) -> String {
    let writes = count(acknowledged(record), "acknowledged write");
    format!(
        "session {} of {path}, {writes}; to examine the session, repeat flashproof check durability {path} on the tested \
         machine",
        record.session.id,
        path = record.session.path
    )
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Maximum time for an answer, or for a whole line.
pub(super) const REPLY_TIMEOUT: Duration = Duration::from_secs(10);

pub(super) struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
    /// True if the peer stopped sending without a FIN or RST, as when its machine loses power.
    pub fell_silent: bool,
}

impl Connection {
    /// A connection to the witness at `HOST:PORT`.
    pub(super) fn to(witness: &str) -> Result<Self, Failure> {
        Self::connect(witness).map_err(|why| {
            Failure::environment(format!(
                "cannot reach the witness {witness} - {why} - start it there: flashproof check witness --listen \
                 {witness} --file FILE"
            ))
        })
    }

    /// Tries the addresses one after another. Errors: the name has no address, or why the last address failed.
    fn connect(witness: &str) -> Result<Self, String> {
        let addresses = witness
            .to_socket_addrs()
            .map_err(|error| error.to_string())?;
        let mut why = "the name has no address".to_owned();
        for address in addresses {
            match TcpStream::connect_timeout(&address, REPLY_TIMEOUT).and_then(Self::new) {
                Ok(connection) => return Ok(connection),
                Err(error) => why = error.to_string(),
            }
        }
        Err(why)
    }

    pub(super) fn new(stream: TcpStream) -> std::io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(false)?;
        stream.set_write_timeout(Some(REPLY_TIMEOUT))?;
        Ok(Self {
            stream,
            buffer: Vec::new(),
            fell_silent: false,
        })
    }

    pub(super) fn send(&mut self, message: &impl Serialize) -> Result<(), String> {
        self.stream
            .write_all(&line(message)?)
            .map_err(|error| error.to_string())
    }

    /// The next line, without its line feed; `None` at the end. Errors: among others, no line came within `timeout`.
    pub(super) fn receive(&mut self, timeout: Duration) -> Result<Option<Vec<u8>>, String> {
        let deadline = Instant::now() + timeout;
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let mut line: Vec<_> = self.buffer.drain(..=end).collect();
                line.pop();
                return Ok(Some(line));
            }
            if self.buffer.len() >= LINE_MAX {
                return Err(format!("a line of more than {LINE_MAX} bytes"));
            }
            let remaining = deadline.saturating_duration_since(Instant::now());
            if remaining.is_zero() {
                self.fell_silent = true;
                return Err(format!("no whole line within {} s", timeout.as_secs()));
            }
            self.stream
                .set_read_timeout(Some(remaining))
                .map_err(|error| error.to_string())?;
            let mut bytes = [0; 4096];
            let room = (LINE_MAX - self.buffer.len()).min(bytes.len());
            match self.stream.read(&mut bytes[..room]) {
                Ok(0) if self.buffer.is_empty() => return Ok(None),
                Ok(0) => return Err("the connection ended within a line".to_owned()),
                Ok(read) => self.buffer.extend_from_slice(&bytes[..read]),
                Err(error) => match error.kind() {
                    ErrorKind::Interrupted | ErrorKind::WouldBlock | ErrorKind::TimedOut => {}
                    _ => return Err(error.to_string()),
                },
            }
        }
    }

    /// Sends a message and returns the answer. Errors: among others, a refusal.
    pub(super) fn ask(&mut self, message: &WitnessMessage) -> Result<WitnessReply, String> {
        self.send(message)?;
        let line = self
            .receive(REPLY_TIMEOUT)?
            .ok_or("the connection was closed")?;
        match parse(&line)? {
            WitnessReply::Refused(why) => Err(results::format::in_one_line(&why)),
            reply => Ok(reply),
        }
    }
}
