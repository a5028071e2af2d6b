//! The HTTP endpoint of the metrics: one thread that answers all scrapes.
//!
//! ```text
//! poll -> ScrapeClient: request -> page -> response -> discard the rest until the client closes
//! ```
//!
//! A client that is idle, or sends or reads slowly, delays no other. Clients, their time and their bytes are bounded,
//! and the thread has the lowest priority, so a flood of connections takes little from the test.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use sys::process::lower_priority;

/// The text that the next scrape gets.
pub(crate) type MetricsPage = Arc<Mutex<Arc<str>>>;

/// Maximum time of a connection.
const PATIENCE: Duration = Duration::from_secs(2);

/// Maximum open connections. A further connection takes the place of the oldest.
const CLIENTS_MAX: usize = 64;

const REQUEST_BYTES_MAX: usize = 8 << 10;

/// Maximum number of bytes to read and discard after the part of a request that was parsed: closing with unread bytes
/// would reset the connection, and the client would lose the response.
const IGNORED_BYTES_MAX: usize = 1 << 20;

/// Pause after a failed system call that would fail again at once, such as accept without free descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// Starts a thread that serves `page` on `listener` for the life of the process. Returns the listening address.
pub(crate) fn serve(listener: TcpListener, page: MetricsPage) -> io::Result<SocketAddr> {
    let address = listener.local_addr()?;
    listener.set_nonblocking(true)?;
    thread::Builder::new()
        .name("metrics".to_owned())
        .spawn(move || {
            lower_priority();
            // Oldest first.
            let mut clients = Vec::new();
            loop {
                if turn(&listener, &page, &mut clients).is_err() {
                    thread::sleep(PAUSE);
                }
            }
        })?;
    Ok(address)
}

fn turn(
    listener: &TcpListener,
    page: &MetricsPage,
    clients: &mut Vec<ScrapeClient>,
) -> io::Result<()> {
    clients.retain(|client| !client.time_left().is_zero());
    let timeout = clients
        .first()
        .map(|client| Timespec::try_from(client.time_left()))
        .transpose();
    let mut polled = vec![PollFd::new(listener, PollFlags::IN)];
    polled.extend(
        clients
            .iter()
            .map(|client| PollFd::new(&client.stream, client.awaits())),
    );
    poll(
        &mut polled,
        timeout.map_err(|_| ErrorKind::InvalidInput)?.as_ref(),
    )?;
    let mut ready = polled
        .iter()
        .map(|of| !of.revents().is_empty())
        .collect::<Vec<_>>()
        .into_iter();
    let has_newcomers = ready.next() == Some(true);
    // A disconnected client loses only its own response.
    clients.retain_mut(|client| ready.next() != Some(true) || client.advance(page).is_ok());
    // After `CLIENTS_MAX` new connections, the open connections are served again.
    for _ in 0..if has_newcomers { CLIENTS_MAX } else { 0 } {
        let stream = match listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) => return Err(error),
        };
        stream.set_nonblocking(true)?;
        let mut client = ScrapeClient {
            stream,
            deadline: Instant::now() + PATIENCE,
            state: ScrapeState::Request(Vec::new()),
        };
        // Most clients have already sent their request, so answer without another poll.
        if client.advance(page).is_ok() {
            clients.push(client);
        }
        if clients.len() > CLIENTS_MAX {
            clients.remove(0);
        }
    }
    Ok(())
}

struct ScrapeClient {
    stream: TcpStream,
    deadline: Instant,
    state: ScrapeState,
}

enum ScrapeState {
    Request(Vec<u8>),
    Response {
        head: String,
        body: Arc<str>,
        sent: usize,
    },
    /// Number of bytes that were discarded after the response.
    Rest(usize),
}

impl ScrapeClient {
    fn time_left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    fn awaits(&self) -> PollFlags {
        if matches!(self.state, ScrapeState::Response { .. }) {
            PollFlags::OUT
        } else {
            PollFlags::IN
        }
    }

    /// Reads and writes as long as no call would block. Errors: the connection is over.
    fn advance(&mut self, page: &MetricsPage) -> io::Result<()> {
        loop {
            match self.step(page) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                done => done?,
            }
        }
    }

    fn step(&mut self, page: &MetricsPage) -> io::Result<()> {
        match &mut self.state {
            ScrapeState::Request(request) => {
                let mut bytes = [0; 1024];
                let room = bytes.len().min(REQUEST_BYTES_MAX - request.len());
                let read = self.stream.read(&mut bytes[..room])?;
                if read == 0 && request.is_empty() {
                    return Err(ErrorKind::UnexpectedEof.into());
                }
                // An empty line ends a request; its first bytes may have arrived with an earlier read.
                let new_from = request.len().saturating_sub(2);
                request.extend_from_slice(&bytes[..read]);
                let new = &request[new_from..];
                let is_whole = new.windows(2).any(|end| end == b"\n\n")
                    || new.windows(3).any(|end| end == b"\n\r\n");
                if is_whole || read == 0 || request.len() == REQUEST_BYTES_MAX {
                    let (head, body) = response(request, is_whole, page);
                    self.state = ScrapeState::Response {
                        head,
                        body,
                        sent: 0,
                    };
                }
            }
            ScrapeState::Response { head, body, sent } => {
                let unsent = match sent.checked_sub(head.len()) {
                    None => &head.as_bytes()[*sent..],
                    Some(of_body) => &body.as_bytes()[of_body..],
                };
                *sent += self.stream.write(unsent)?;
                if *sent == head.len() + body.len() {
                    self.stream.shutdown(Shutdown::Write)?;
                    self.state = ScrapeState::Rest(0);
                }
            }
            ScrapeState::Rest(discarded) => {
                let read = self.stream.read(&mut [0; 4096])?;
                *discarded += read;
                if read == 0 || *discarded > IGNORED_BYTES_MAX {
                    return Err(ErrorKind::UnexpectedEof.into());
                }
            }
        }
        Ok(())
    }
}

fn response(request: &[u8], is_whole: bool, page: &MetricsPage) -> (String, Arc<str>) {
    let request_line = String::from_utf8_lossy(
        request
            .split(|byte| *byte == b'\n')
            .next()
            .unwrap_or_default(),
    );
    let words: Vec<_> = request_line.split_whitespace().collect();
    let (status, body) = match words[..] {
        [method, target, version] if is_whole && version.starts_with("HTTP/1.") => {
            match (method, target.split('?').next()) {
                ("GET", Some("/metrics")) => (
                    "200 OK",
                    page.lock().unwrap_or_else(PoisonError::into_inner).clone(),
                ),
                ("GET", _) => ("404 Not Found", "metrics are at /metrics\n".into()),
                _ => (
                    "405 Method Not Allowed\r\nAllow: GET",
                    "only GET is supported\n".into(),
                ),
            }
        }
        _ => (
            "400 Bad Request",
            format!("not an HTTP/1 request of at most {REQUEST_BYTES_MAX} bytes\n").into(),
        ),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n",
        body.len()
    );
    (head, body)
}
