//! One connection to a node: plain or TLS, logged in, with a limit of time for each exchange.
//!
//! The limit holds for the whole exchange, so a server that sends a byte a second cannot block the caller.

use super::timed::{Timed, why};
use super::tls::Tls;
use rustls::{ClientConnection, StreamOwned};
use sizing::info::cluster::Host;
use sizing::info::protocol::{
    HEADER_BYTES, Kind, Login, NO_SECURITY, UNKNOWN_COMMAND, body_bytes, info_replies, info_request, security_reply,
    security_result,
};
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

/// Addresses of one host name that are tried.
const ADDRESSES_MAX: usize = 8;

/// How to connect to nodes.
pub struct Access {
    /// Credentials, if any.
    pub login: Option<Login>,
    /// TLS settings, if TLS is used.
    pub tls: Option<Tls>,
    /// Longest time for a connection, and for an exchange.
    pub timeout: Duration,
}

/// A connection. After an error it is of no more use.
pub struct Connection {
    stream: Stream,
    timeout: Duration,
}

enum Stream {
    Plain(Timed),
    Tls(Box<StreamOwned<ClientConnection, Timed>>),
}

impl Connection {
    /// Connects, and logs in where there is a login: by the `session` of an earlier connection to the node, or by
    /// password, which begins one. `tls_name` is the name in the node's certificate.
    pub fn open(host: &Host, tls_name: &str, access: &Access, session: &mut Option<Vec<u8>>) -> Result<Self, String> {
        let socket = connect(host, access.timeout).map_err(|error| format!("cannot connect - {error}"))?;
        let timed = Timed { socket, deadline: Instant::now() + access.timeout };
        let stream = match &access.tls {
            Some(tls) => Stream::Tls(Box::new(tls.begin(tls_name, timed)?)),
            None => Stream::Plain(timed),
        };
        let mut connection = Self { stream, timeout: access.timeout };
        if let Some(login) = &access.login {
            connection.log_in(login, session)?;
        }
        Ok(connection)
    }

    /// Asks for the values of `names`; `None` for what the server passes over.
    pub fn ask(&mut self, names: &[String]) -> Result<Vec<Option<String>>, String> {
        let body = self.exchange(Kind::Info, &info_request(names))?;
        info_replies(names, &body).map_err(|error| error.to_string())
    }

    fn log_in(&mut self, login: &Login, session: &mut Option<Vec<u8>>) -> Result<(), String> {
        // An expired session is refused: the password starts a new one.
        if let Some(token) = session
            && self.security(&login.session_request(token))?.0 == 0
        {
            return Ok(());
        }
        let (mut result, token) = self.security(&login.request())?;
        if result == UNKNOWN_COMMAND {
            (result, _) = self.security(&login.old_request())?;
        }
        if result != 0 && !NO_SECURITY.contains(&result) {
            return Err(format!("user {} cannot log in - {} (code {result})", login.user, security_result(result)));
        }
        *session = token;
        Ok(())
    }

    /// The code and the session's token.
    fn security(&mut self, request: &[u8]) -> Result<(u8, Option<Vec<u8>>), String> {
        let body = self.exchange(Kind::Security, request)?;
        let reply = security_reply(&body).map_err(|error| error.to_string())?;
        Ok((reply.result, reply.token))
    }

    /// Sends a request and receives the body of its reply.
    fn exchange(&mut self, kind: Kind, request: &[u8]) -> Result<Vec<u8>, String> {
        let timeout = self.timeout;
        self.timed().deadline = Instant::now() + timeout;
        let stream = self.stream();
        let sent = stream.write_all(request).and_then(|()| stream.flush());
        sent.map_err(|error| format!("cannot send a request - {}", why(&error, timeout)))?;
        let mut header = [0; HEADER_BYTES];
        receive(stream, &mut header, 0, timeout)?;
        let length = body_bytes(header, kind).map_err(|error| error.to_string())?;
        // Memory grows with the received bytes, not with the announced length.
        let mut body = Vec::new();
        while body.len() < length {
            let had = body.len();
            body.resize(length.min((2 * had).max(1 << 16)), 0);
            receive(stream, &mut body[had..], had, timeout).map_err(|error| format!("{error} of {length} bytes"))?;
        }
        Ok(body)
    }

    fn stream(&mut self) -> &mut dyn ReadWrite {
        match &mut self.stream {
            Stream::Plain(stream) => stream,
            Stream::Tls(stream) => stream.as_mut(),
        }
    }

    fn timed(&mut self) -> &mut Timed {
        match &mut self.stream {
            Stream::Plain(stream) => stream,
            Stream::Tls(stream) => &mut stream.sock,
        }
    }
}

trait ReadWrite: Read + Write {}

impl<T: Read + Write> ReadWrite for T {}

/// Fills `buffer`; `had` bytes came before.
fn receive(stream: &mut dyn ReadWrite, buffer: &mut [u8], had: usize, timeout: Duration) -> Result<(), String> {
    let mut filled = 0;
    while filled < buffer.len() {
        match stream.read(&mut buffer[filled..]) {
            Ok(0) => return Err(format!("the server closed the connection after {} bytes", had + filled)),
            Ok(length) => filled += length,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => {
                return Err(format!("no whole reply - {} - {} bytes came", why(&error, timeout), had + filled));
            }
        }
    }
    Ok(())
}

fn connect(host: &Host, timeout: Duration) -> Result<TcpStream, String> {
    let addresses = (host.name.as_str(), host.port).to_socket_addrs().map_err(|error| error.to_string())?;
    let mut last = "the name has no address".to_owned();
    for address in addresses.take(ADDRESSES_MAX) {
        match TcpStream::connect_timeout(&address, timeout) {
            Ok(socket) => {
                // A request is one write; waiting for more would only delay it.
                let _ = socket.set_nodelay(true);
                return Ok(socket);
            }
            Err(error) => last = why(&error, timeout),
        }
    }
    Err(last)
}
