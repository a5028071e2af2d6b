//! The witness: a server that records which writes of its clients are durable.
//!
//! A line is in the file before it is answered, so kill -9 loses nothing that was confirmed. The file is not synced,
//! because the power of this machine is not cut.

use super::acknowledged;
use conclusions::durability::session::SessionId;
use conclusions::durability::witness::{FILE_MARK, LINE_MAX, Message, Record, Reply, WitnessSessions, line, parse};
use results::units::{count, in_one_line};
use rustix::fs::{FlockOperation, Mode, OFlags};
use serde::Serialize;
use session::console;
use session::failure::Failure;
use session::signals::EndSignals;
use std::fs::File;
use std::io::{BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Maximum open connections; further connections are closed.
const CONNECTIONS_MAX: usize = 64;

/// Poll interval for connections and signals.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A witness that listens.
pub struct Witness {
    listener: TcpListener,
    session_file: Arc<Mutex<SessionFile>>,
}

/// Sessions, in memory and in the file.
struct SessionFile {
    register: WitnessSessions,
    path: PathBuf,
    file: File,
    bytes: u64,
}

impl Witness {
    /// Opens the file, or creates it, and listens.
    pub fn open(address: &str, path: &Path) -> Result<Self, Failure> {
        let session_file = SessionFile::open(path)
            .map_err(|why| Failure::environment(format!("cannot keep sessions in {} - {why}", path.display())))?;
        let listener = TcpListener::bind(address)
            .and_then(|listener| listener.set_nonblocking(true).map(|()| listener))
            .map_err(|error| Failure::environment(format!("cannot listen at {address} - {error}")))?;
        Ok(Self { listener, session_file: Arc::new(Mutex::new(session_file)) })
    }

    /// The address that testers connect to.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Sessions that were cut or ended and are not examined yet, a line each.
    pub fn waiting(&self) -> Vec<String> {
        lock(&self.session_file).register.waiting().map(in_words).collect()
    }

    /// Serves until a signal comes.
    pub fn serve(&self, end_signals: &EndSignals) -> Result<(), Failure> {
        // Each connection holds a clone: the count of references is the number of connections.
        let open_connections = Arc::new(());
        while end_signals.wait(POLL_INTERVAL).is_none() {
            loop {
                match self.listener.accept() {
                    Ok((stream, peer)) => self.begin(stream, peer, &open_connections),
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

    fn begin(&self, stream: TcpStream, peer: SocketAddr, open_connections: &Arc<()>) {
        if Arc::strong_count(open_connections) > CONNECTIONS_MAX {
            console::warning(&format!("{peer}: closed, because {CONNECTIONS_MAX} others are open"));
            return;
        }
        let (session_file, connection_guard) = (self.session_file.clone(), open_connections.clone());
        let spawn_result = thread::Builder::new().spawn(move || {
            if let Err(why) = converse(stream, peer, &session_file) {
                console::warning(&format!("{peer}: closed: {}", in_one_line(&why)));
            }
            drop(connection_guard);
        });
        if let Err(error) = spawn_result {
            console::warning_once(&format!("cannot start a thread for a connection - {error}"));
        }
    }
}

/// Answers a client until it closes the connection, is silent for too long, or is refused.
fn converse(stream: TcpStream, peer: SocketAddr, session_file: &Mutex<SessionFile>) -> Result<(), String> {
    let mut connection = Connection::new(stream).map_err(|error| error.to_string())?;
    let mut own_session = None;
    let exchange_result = exchange(&mut connection, peer, session_file, &mut own_session);
    let Some(session) = own_session else { return exchange_result };
    let mut session_file = lock(session_file);
    if session_file.register.find(session).is_some_and(Record::is_running) {
        let why = exchange_result.clone().err().unwrap_or_else(|| "the command closed its connection".to_owned());
        let message = match connection.fell_silent {
            true => Message::Silent { session },
            false => Message::End { session, why: in_one_line(&why).chars().take(100).collect(), failed: false },
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
    own_session: &mut Option<SessionId>,
) -> Result<(), String> {
    while let Some(line) = connection.receive(REPLY_TIMEOUT)? {
        let reply = parse(&line).and_then(|message| lock(session_file).receive(&message, own_session, peer));
        let refusal = reply.as_ref().err().cloned();
        connection.send(&reply.unwrap_or_else(Reply::Refused))?;
        if let Some(why) = refusal {
            return Err(why);
        }
    }
    Ok(())
}

impl SessionFile {
    fn open(path: &Path) -> Result<Self, String> {
        let text = |error: rustix::io::Errno| error.to_string();
        // O_NONBLOCK keeps a FIFO from blocking the open.
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::APPEND | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let mut file = rustix::fs::open(path, flags, Mode::from_raw_mode(0o600)).map(File::from).map_err(text)?;
        if !file.metadata().is_ok_and(|metadata| metadata.is_file()) {
            return Err("it is not a regular file; name another file".to_owned());
        }
        if rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Err("another witness uses it; name another file".to_owned());
        }
        let (register, mut bytes) = WitnessSessions::load(BufReader::new(&file))?;
        let repaired = file.set_len(bytes).and_then(|()| match bytes {
            0 => file.write_all(FILE_MARK.as_bytes()),
            _ => Ok(()),
        });
        repaired.map_err(|error| error.to_string())?;
        bytes = bytes.max(FILE_MARK.len() as u64);
        Ok(Self { register, path: path.to_owned(), file, bytes })
    }

    /// Answers a message. Errors: refused, or not written to the file.
    fn receive(
        &mut self,
        message: &Message,
        own_session: &mut Option<SessionId>,
        peer: SocketAddr,
    ) -> Result<Reply, String> {
        match message {
            Message::Ask { format_version, subject, found } => {
                Ok(self.register.answer(*format_version, subject, *found))
            }
            Message::Silent { .. } => Err("only the witness may report that a tester is silent".to_owned()),
            _ => self.apply_and_append(message, own_session, peer).map(|()| Reply::Kept),
        }
    }

    /// Applies a change, and appends it to the file. Errors: refused, or not written to the file.
    fn apply_and_append(
        &mut self,
        message: &Message,
        own_session: &mut Option<SessionId>,
        peer: SocketAddr,
    ) -> Result<(), String> {
        self.register.change(message, own_session)?;
        let line = line(message)?;
        if let Err(error) = self.file.write_all(&line) {
            // A torn line would damage all lines after it.
            let _ = self.file.set_len(self.bytes);
            self.register.undo(message);
            let why = format!("the witness cannot write {} ({error})", self.path.display());
            console::warning(&why);
            return Err(why);
        }
        self.bytes += line.len() as u64;
        match message {
            Message::Begin(session) => {
                console::note(&format!("{peer}: session {} of {} began", session.id, session.path))
            }
            Message::End { session, why, .. } => console::note(&format!("{peer}: session {session} ended: {why}")),
            Message::Silent { session } => {
                let waits = self.register.find(*session).map(in_words).unwrap_or_default();
                console::notice(&format!("{peer}: sent nothing more: {waits}"));
            }
            Message::Judged { session, sentence } => console::notice(&format!("{peer}: session {session}: {sentence}")),
            Message::Durable { .. } | Message::Ask { .. } => {}
        }
        Ok(())
    }
}

fn in_words(record: &Record) -> String {
    let writes = count(acknowledged(record), "acknowledged write");
    format!(
        "session {} of {}, {writes}; to examine the session, run the session's command again",
        record.session.id, record.session.path
    )
}

fn lock(session_file: &Mutex<SessionFile>) -> MutexGuard<'_, SessionFile> {
    session_file.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Maximum time for an answer, or for a whole line.
pub(super) const REPLY_TIMEOUT: Duration = Duration::from_secs(10);

/// An end of a connection.
pub(super) struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
    /// The peer sent nothing more, but its kernel neither closed nor reset the connection, as when a machine loses its
    /// power.
    pub fell_silent: bool,
}

impl Connection {
    /// A connection to the witness at `HOST:PORT`.
    pub(super) fn to(witness: &str) -> Result<Self, Failure> {
        let failed = |why: String| {
            Failure::environment(format!(
                "cannot reach the witness {witness} - {why} - start it there: flashproof check witness --listen {witness} --file FILE"
            ))
        };
        let addresses = witness.to_socket_addrs().map_err(|error| failed(error.to_string()))?;
        let mut why = "the name has no address".to_owned();
        for address in addresses {
            match TcpStream::connect_timeout(&address, REPLY_TIMEOUT).and_then(Self::new) {
                Ok(connection) => return Ok(connection),
                Err(error) => why = error.to_string(),
            }
        }
        Err(failed(why))
    }

    pub(super) fn new(stream: TcpStream) -> std::io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(false)?;
        stream.set_write_timeout(Some(REPLY_TIMEOUT))?;
        Ok(Self { stream, buffer: Vec::new(), fell_silent: false })
    }

    pub(super) fn send(&mut self, message: &impl Serialize) -> Result<(), String> {
        self.stream.write_all(&line(message)?).map_err(|error| error.to_string())
    }

    /// The next line, without its line feed; `None` at the end of the connection. Errors: among others,
    /// no line came within `timeout`.
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
            self.stream.set_read_timeout(Some(remaining)).map_err(|error| error.to_string())?;
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
    pub(super) fn ask(&mut self, message: &Message) -> Result<Reply, String> {
        self.send(message)?;
        let line = self.receive(REPLY_TIMEOUT)?.ok_or("the connection was closed")?;
        match parse(&line)? {
            Reply::Refused(why) => Err(results::units::in_one_line(&why)),
            reply => Ok(reply),
        }
    }
}
