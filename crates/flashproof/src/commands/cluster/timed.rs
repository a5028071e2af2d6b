//! A socket with a limit of time for all that it does: a server that sends a byte a second does not hold anybody up.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// A socket that is over at an instant, whatever it is doing.
#[derive(Debug)]
pub struct Timed {
    pub socket: TcpStream,
    pub deadline: Instant,
}

impl Timed {
    fn remaining(&self) -> io::Result<Option<Duration>> {
        match self.deadline.saturating_duration_since(Instant::now()) {
            Duration::ZERO => Err(ErrorKind::TimedOut.into()),
            remaining => Ok(Some(remaining)),
        }
    }
}

impl Read for Timed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.socket.set_read_timeout(self.remaining()?)?;
        self.socket.read(buffer)
    }
}

impl Write for Timed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.socket.set_write_timeout(self.remaining()?)?;
        self.socket.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.socket.flush()
    }
}

/// Describes a socket error for people.
pub fn why(error: &io::Error, timeout: Duration) -> String {
    match error.kind() {
        ErrorKind::TimedOut | ErrorKind::WouldBlock => format!("the time was over after {} s", timeout.as_secs()),
        _ => error.to_string(),
    }
}
