//! A responder for scrapes: one thread, one connection at a time, GET /metrics only.

use super::Page;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::PoisonError;
use std::thread;
use std::time::{Duration, Instant};

/// Longest request, bytes.
const REQUEST_BYTES_MAX: u64 = 8 << 10;
/// Most bytes of a request that are read and ignored: closing before they are read would reset the connection, and the
/// client would lose the response.
const IGNORED_BYTES_MAX: u64 = 1 << 20;
/// Time for a whole connection, so that a client that sends or reads slowly delays other scrapes by no more.
const PATIENCE: Duration = Duration::from_secs(2);

/// Serves `page` on `listener` until the process ends. Returns the address.
pub(super) fn serve(listener: TcpListener, page: Page) -> io::Result<SocketAddr> {
    let address = listener.local_addr()?;
    let respond = move || {
        for connection in listener.incoming() {
            match connection {
                // A client that is slow or goes away loses only its own response.
                Ok(stream) => drop(respond(&Client { stream, until: Instant::now() + PATIENCE }, &page)),
                // Descriptors ran out: the next attempt would fail at once.
                Err(_) => thread::sleep(Duration::from_millis(100)),
            }
        }
    };
    thread::Builder::new().name("metrics".to_owned()).spawn(respond)?;
    Ok(address)
}

/// A connection with a deadline.
struct Client {
    stream: TcpStream,
    until: Instant,
}

impl Client {
    fn time_left(&self) -> io::Result<Option<Duration>> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(Some(left)) }
    }
}

impl Read for &Client {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(self.time_left()?)?;
        (&self.stream).read(bytes)
    }
}

impl Write for &Client {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(self.time_left()?)?;
        (&self.stream).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn respond(mut client: &Client, page: &Page) -> io::Result<()> {
    let mut input = BufReader::new(client.take(REQUEST_BYTES_MAX));
    let (mut first, mut line) = (Vec::new(), Vec::new());
    input.read_until(b'\n', &mut first)?;
    let is_whole = loop {
        line.clear();
        input.read_until(b'\n', &mut line)?;
        match line.trim_ascii() {
            _ if line.last() != Some(&b'\n') => break false,
            b"" => break true,
            _ => {}
        }
    };
    let first = String::from_utf8_lossy(&first);
    let words: Vec<_> = first.split_whitespace().collect();
    let (status, body) = match words[..] {
        [method, target, version] if is_whole && version.starts_with("HTTP/1.") => {
            match (method, target.split('?').next()) {
                ("GET", Some("/metrics")) => ("200 OK", page.lock().unwrap_or_else(PoisonError::into_inner).clone()),
                ("GET", _) => ("404 Not Found", "metrics are at /metrics\n".into()),
                _ => ("405 Method Not Allowed\r\nAllow: GET", "only GET is supported\n".into()),
            }
        }
        _ => ("400 Bad Request", format!("not an HTTP/1 request of at most {REQUEST_BYTES_MAX} bytes\n").into()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n",
        body.len()
    );
    client.write_all(head.as_bytes())?;
    client.write_all(body.as_bytes())?;
    client.stream.shutdown(Shutdown::Write)?;
    if !is_whole {
        io::copy(&mut client.take(IGNORED_BYTES_MAX), &mut io::sink())?;
    }
    Ok(())
}
