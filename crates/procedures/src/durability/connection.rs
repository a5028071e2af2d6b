//! Lines of JSON over TCP, with a limit of their length and of the time that one takes.

use results::durability::witness::{LINE_MAX, Message, Reply, line, parse};
use serde::Serialize;
use session::failure::Failure;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

/// Longest time for an answer, or for a whole line.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// One end of a connection.
pub(super) struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
    /// The other end sent nothing more, and its kernel neither closed nor reset the connection: as a machine that lost its power.
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
            match TcpStream::connect_timeout(&address, PATIENCE).and_then(Self::new) {
                Ok(connection) => return Ok(connection),
                Err(error) => why = error.to_string(),
            }
        }
        Err(failed(why))
    }

    pub(super) fn new(stream: TcpStream) -> std::io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(false)?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Self { stream, buffer: Vec::new(), fell_silent: false })
    }

    pub(super) fn send(&mut self, message: &impl Serialize) -> Result<(), String> {
        self.stream.write_all(&line(message)?).map_err(|error| error.to_string())
    }

    /// The next line, without its end; `None` at the end of the connection. Errors also: none within `patience`.
    pub(super) fn receive(&mut self, patience: Duration) -> Result<Option<Vec<u8>>, String> {
        let until = Instant::now() + patience;
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let mut line: Vec<_> = self.buffer.drain(..=end).collect();
                line.pop();
                return Ok(Some(line));
            }
            if self.buffer.len() >= LINE_MAX {
                return Err(format!("a line of more than {LINE_MAX} bytes"));
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                self.fell_silent = true;
                return Err(format!("no whole line within {} s", patience.as_secs()));
            }
            self.stream.set_read_timeout(Some(left)).map_err(|error| error.to_string())?;
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

    /// Sends a message and returns its answer. Errors also: refused.
    pub(super) fn ask(&mut self, message: &Message) -> Result<Reply, String> {
        self.send(message)?;
        let line = self.receive(PATIENCE)?.ok_or("the connection was closed")?;
        match parse(&line)? {
            Reply::Refused(why) => Err(results::units::in_one_line(&why)),
            reply => Ok(reply),
        }
    }
}
