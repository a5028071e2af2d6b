//! Sockets to nodes: connecting, and reads and writes until a deadline.

use super::Host;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

/// Addresses of one host name that are tried.
const ADDRESSES_MAX: usize = 8;

/// Connects to the first address of `host` that answers, within `timeout` for all.
pub(crate) fn connect(host: &Host, timeout: Duration) -> io::Result<TcpStream> {
    let mut last = io::Error::other("the name has no address");
    let addresses: Vec<_> = (host.name.as_str(), host.port).to_socket_addrs()?.take(ADDRESSES_MAX).collect();
    let share = timeout / addresses.len().max(1) as u32;
    for address in addresses {
        match TcpStream::connect_timeout(&address, share) {
            Ok(socket) => {
                // A request is one write; waiting for more would only delay it.
                let _ = socket.set_nodelay(true);
                return Ok(socket);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// A socket with a deadline for all that it does.
pub(super) struct Timed {
    pub(super) socket: TcpStream,
    pub(super) deadline: Instant,
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
pub(super) fn why(error: &io::Error, timeout: Duration) -> String {
    match error.kind() {
        ErrorKind::TimedOut | ErrorKind::WouldBlock => format!("the time was over after {} s", timeout.as_secs()),
        _ => error.to_string(),
    }
}
