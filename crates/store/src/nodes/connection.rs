//! A blocking connection to a node: plain or TLS, logged in, with a limit of time for each exchange.
//!
//! The limit holds for the whole exchange, so a server that sends a byte a second cannot block the caller.

use super::Tls;
use super::socket::{Timed, why};
use crate::wire::frame::{HEADER_BYTES, Kind};
use crate::wire::query::{
    Login, NO_SECURITY, UNKNOWN_COMMAND, body_bytes, info_replies, info_request, security_reply, security_result,
};
use rustls::ClientConnection;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// How to connect to nodes.
pub struct Access {
    /// Credentials, if any.
    pub login: Option<Login>,
    /// TLS settings, if TLS is used.
    pub tls: Option<Tls>,
    /// Longest time for a connection, and for an exchange.
    pub timeout: Duration,
}

impl Default for Access {
    /// Without login and TLS; two seconds.
    fn default() -> Self {
        Self { login: None, tls: None, timeout: Duration::from_secs(2) }
    }
}

/// A connection. After an error it is of no more use.
pub struct Connection {
    socket: Timed,
    tls: Option<Box<ClientConnection>>,
    timeout: Duration,
}

impl Connection {
    /// Begins TLS, and logs in where there is a login: by the `session` of an earlier connection to the node, or by
    /// password, which begins one. `tls_name` is the name in the node's certificate.
    pub(crate) fn begin(
        socket: TcpStream,
        tls_name: &str,
        access: &Access,
        session: &mut Option<Vec<u8>>,
    ) -> Result<Self, String> {
        let mut socket = Timed { socket, deadline: Instant::now() + access.timeout };
        let tls = access.tls.as_ref().map(|tls| tls.begin(tls_name, &mut socket, access.timeout)).transpose()?;
        let mut connection = Self { socket, tls: tls.map(Box::new), timeout: access.timeout };
        if let Some(login) = &access.login {
            connection.log_in(login, session)?;
        }
        Ok(connection)
    }

    /// Its socket and the state of its TLS, for a ring.
    pub(crate) fn into_parts(self) -> (TcpStream, Option<Box<ClientConnection>>) {
        let Timed { socket, .. } = self.socket;
        // The ring has deadlines of its own.
        let _ = socket.set_read_timeout(None).and_then(|()| socket.set_write_timeout(None));
        (socket, self.tls)
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
        security_reply(&body).map_err(|error| error.to_string())
    }

    /// Sends a request and receives the body of its reply.
    pub(crate) fn exchange(&mut self, kind: Kind, request: &[u8]) -> Result<Vec<u8>, String> {
        let timeout = self.timeout;
        self.socket.deadline = Instant::now() + timeout;
        let mut stream = self.stream();
        let sent = stream.write_all(request).and_then(|()| stream.flush());
        sent.map_err(|error| format!("cannot send a request - {}", why(&error, timeout)))?;
        let mut header = [0; HEADER_BYTES];
        receive(&mut stream, &mut header, 0, timeout)?;
        let length = body_bytes(header, kind).map_err(|error| error.to_string())?;
        // Memory grows with the received bytes, not with the announced length.
        let mut body = Vec::new();
        while body.len() < length {
            let had = body.len();
            body.resize(length.min((2 * had).max(1 << 16)), 0);
            receive(&mut stream, &mut body[had..], had, timeout)
                .map_err(|error| format!("{error} of {length} bytes"))?;
        }
        Ok(body)
    }

    fn stream(&mut self) -> Box<dyn ReadWrite + '_> {
        match &mut self.tls {
            Some(tls) => Box::new(rustls::Stream::new(tls.as_mut(), &mut self.socket)),
            None => Box::new(&mut self.socket),
        }
    }
}

trait ReadWrite: Read + Write {}

impl<T: Read + Write> ReadWrite for T {}

/// Fills `buffer`; `had` bytes came before.
fn receive(stream: &mut impl Read, buffer: &mut [u8], had: usize, timeout: Duration) -> Result<(), String> {
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
