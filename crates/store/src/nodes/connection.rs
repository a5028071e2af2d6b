//! A blocking connection to a node: plain or TLS, with login, and with a time limit for each exchange.
//!
//! The limit holds for the whole exchange, so a server that sends one byte per second cannot block the caller. With
//! TLS, the certificate of the node is checked against given authorities and a name.

use super::HostPort;
use crate::wire::frame::{FrameKind, HEADER_BYTES};
use crate::wire::query::{
    Login, NO_SECURITY, UNKNOWN_COMMAND, body_bytes, info_replies, info_request, security_reply,
    security_result,
};
use results::files::{self, Links};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub struct Access {
    pub login: Option<Login>,
    pub tls: Option<Tls>,
    /// Time limit for connecting, and for each exchange.
    pub timeout: Duration,
}

impl Default for Access {
    /// No login, no TLS, and a timeout of two seconds.
    fn default() -> Self {
        Self {
            login: None,
            tls: None,
            timeout: Duration::from_secs(2),
        }
    }
}

/// A connection. Unusable after an error.
pub struct NodeConnection {
    socket: DeadlineSocket,
    tls: Option<Box<ClientConnection>>,
    timeout: Duration,
}

impl NodeConnection {
    /// Begins TLS and logs in, if `access` has the settings for it. The login uses the `session` of an earlier
    /// connection to the node, or the password, which begins a session. `tls_name`: the name in the node's certificate.
    pub(crate) fn begin(
        socket: TcpStream,
        tls_name: &str,
        access: &Access,
        session: &mut Option<Vec<u8>>,
    ) -> Result<Self, String> {
        let mut socket = DeadlineSocket {
            socket,
            deadline: Instant::now() + access.timeout,
        };
        let tls = access
            .tls
            .as_ref()
            .map(|tls| tls.begin(tls_name, &mut socket, access.timeout))
            .transpose()?;
        let mut connection = Self {
            socket,
            tls: tls.map(Box::new),
            timeout: access.timeout,
        };
        if let Some(login) = &access.login {
            connection.log_in(login, session)?;
        }
        Ok(connection)
    }

    /// The socket and the TLS state, for use in a ring.
    pub(crate) fn into_parts(self) -> (TcpStream, Option<Box<ClientConnection>>) {
        let DeadlineSocket { socket, .. } = self.socket;
        // The socket gets no timeouts, because users of the ring have their own deadlines.
        let _ = socket
            .set_read_timeout(None)
            .and_then(|()| socket.set_write_timeout(None));
        (socket, self.tls)
    }

    /// Queries the values of `names`; `None` for names that the server skips.
    pub fn ask(&mut self, names: &[String]) -> Result<Vec<Option<String>>, String> {
        let body = self.exchange(FrameKind::Info, &info_request(names))?;
        info_replies(names, &body)
    }

    fn log_in(&mut self, login: &Login, session: &mut Option<Vec<u8>>) -> Result<(), String> {
        // If the session has expired, the server refuses it, and the password starts a new session.
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
            return Err(format!(
                "user {} cannot log in - {} (code {result}) - check --user and the password",
                login.user,
                security_result(result)
            ));
        }
        *session = token;
        Ok(())
    }

    /// Sends a security message. Returns the result code and the session's token.
    fn security(&mut self, request: &[u8]) -> Result<(u8, Option<Vec<u8>>), String> {
        security_reply(&self.exchange(FrameKind::Security, request)?)
    }

    pub(crate) fn exchange(&mut self, kind: FrameKind, request: &[u8]) -> Result<Vec<u8>, String> {
        let timeout = self.timeout;
        self.socket.deadline = Instant::now() + timeout;
        let mut stream = self.stream();
        let sent = stream.write_all(request).and_then(|()| stream.flush());
        sent.map_err(|error| {
            format!(
                "cannot send a request - {}",
                describe_error(&error, timeout)
            )
        })?;
        let mut header = [0; HEADER_BYTES];
        receive(&mut stream, &mut header, 0, timeout)?;
        let length = body_bytes(header, kind)?;
        // Memory grows with the received bytes, not with the announced length.
        let mut body = Vec::new();
        while body.len() < length {
            let received = body.len();
            body.resize(length.min((2 * received).max(1 << 16)), 0);
            receive(&mut stream, &mut body[received..], received, timeout)
                .map_err(|error| format!("{error} of {length} bytes"))?;
        }
        Ok(body)
    }

    fn stream(&mut self) -> Box<dyn ByteStream + '_> {
        match &mut self.tls {
            Some(tls) => Box::new(rustls::Stream::new(tls.as_mut(), &mut self.socket)),
            None => Box::new(&mut self.socket),
        }
    }
}

trait ByteStream: Read + Write {}

impl<T: Read + Write> ByteStream for T {}

/// Fills `buffer`. `received_before`: bytes of the reply received before.
fn receive(
    stream: &mut impl Read,
    buffer: &mut [u8],
    received_before: usize,
    timeout: Duration,
) -> Result<(), String> {
    let mut filled = 0;
    while filled < buffer.len() {
        match stream.read(&mut buffer[filled..]) {
            Ok(0) => {
                return Err(format!(
                    "the server closed the connection after {} bytes",
                    received_before + filled
                ));
            }
            Ok(length) => filled += length,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => {
                let why = describe_error(&error, timeout);
                let bytes = received_before + filled;
                return Err(format!("incomplete reply - {why} - received {bytes} bytes"));
            }
        }
    }
    Ok(())
}

/// Maximum number of addresses of one host name that are tried.
const ADDRESSES_MAX: usize = 8;

/// Connects to the first address of `host` that answers. `timeout`: for all addresses together.
pub(crate) fn connect(host: &HostPort, timeout: Duration) -> io::Result<TcpStream> {
    let mut last_error = io::Error::other("the host name has no address");
    let addresses: Vec<_> = (host.name.as_str(), host.port)
        .to_socket_addrs()?
        .take(ADDRESSES_MAX)
        .collect();
    let timeout_each = timeout / addresses.len().max(1) as u32;
    for address in addresses {
        match TcpStream::connect_timeout(&address, timeout_each) {
            Ok(socket) => {
                // Each request is a single write, so Nagle's algorithm would only delay it.
                let _ = socket.set_nodelay(true);
                return Ok(socket);
            }
            Err(error) => last_error = error,
        }
    }
    Err(last_error)
}

/// A socket with one deadline for all its reads and writes.
pub(super) struct DeadlineSocket {
    pub(super) socket: TcpStream,
    pub(super) deadline: Instant,
}

impl DeadlineSocket {
    fn remaining(&self) -> io::Result<Option<Duration>> {
        match self.deadline.saturating_duration_since(Instant::now()) {
            Duration::ZERO => Err(ErrorKind::TimedOut.into()),
            remaining => Ok(Some(remaining)),
        }
    }
}

impl Read for DeadlineSocket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.socket.set_read_timeout(self.remaining()?)?;
        self.socket.read(buffer)
    }
}

impl Write for DeadlineSocket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.socket.set_write_timeout(self.remaining()?)?;
        self.socket.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.socket.flush()
    }
}

pub(super) fn describe_error(error: &io::Error, timeout: Duration) -> String {
    match error.kind() {
        ErrorKind::TimedOut | ErrorKind::WouldBlock => {
            format!("timed out after {} s", timeout.as_secs())
        }
        _ => error.to_string(),
    }
}

/// Maximum bytes of a certificate file. The bundle of a Linux distribution has 200 kB.
const PEM_BYTES_MAX: u64 = 16 << 20;

pub struct Tls {
    config: Arc<ClientConfig>,
    /// The name in the certificates of all nodes, if the user gave one.
    name: Option<String>,
}

impl Tls {
    /// Trusts the `authorities` of a PEM file. `client`: files with this client's certificate and key, if it has a
    /// certificate. `name`: the name in the certificates of all nodes.
    pub fn new(
        authorities: &Path,
        client: Option<(&Path, &Path)>,
        name: Option<String>,
    ) -> Result<Self, String> {
        let mut roots = RootCertStore::empty();
        let (accepted, _) = roots.add_parsable_certificates(certificates(authorities)?);
        if accepted == 0 {
            return Err(tls_file_error(
                authorities,
                "none of its certificates can be used",
            ));
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder =
            ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let builder = builder
            .map_err(|error| error.to_string())?
            .with_root_certificates(roots);
        let config = match client {
            Some((certificate, key)) => {
                let parsed = PrivateKeyDer::from_pem_slice(&pem(key)?);
                let parsed = parsed.map_err(|error| {
                    tls_file_error(key, &format!("it has no unencrypted private key: {error}"))
                })?;
                let config = builder.with_client_auth_cert(certificates(certificate)?, parsed);
                config.map_err(|error| {
                    tls_file_error(
                        certificate,
                        &format!("the certificate does not match its private key: {error}"),
                    )
                })?
            }
            None => builder.with_no_client_auth(),
        };
        Ok(Self {
            config: Arc::new(config),
            name,
        })
    }

    /// Does the TLS handshake with a node. The certificate must be for `name`, or for the name that the user gave.
    pub(super) fn begin(
        &self,
        name: &str,
        socket: &mut DeadlineSocket,
        timeout: Duration,
    ) -> Result<ClientConnection, String> {
        let certificate_name = self.name.as_deref().unwrap_or(name);
        let server = ServerName::try_from(certificate_name.to_owned());
        let server = server.map_err(|_| {
            format!("{certificate_name} is not a valid name for a certificate - give --tls-name")
        })?;
        let connection = ClientConnection::new(self.config.clone(), server);
        let mut connection = connection.map_err(|error| format!("cannot begin TLS - {error}"))?;
        while connection.is_handshaking() {
            connection.complete_io(socket).map_err(|error| {
                let why = describe_error(&error, timeout);
                format!(
                    "cannot begin TLS with {certificate_name} - {why} - check --tls-cafile, --tls-name and the port"
                )
            })?;
        }
        Ok(connection)
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let bytes = pem(path)?;
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    match certificates {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        Ok(_) => Err(tls_file_error(
            path,
            "it has no certificate (-----BEGIN CERTIFICATE-----)",
        )),
        Err(error) => Err(tls_file_error(path, &error.to_string())),
    }
}

fn pem(path: &Path) -> Result<Vec<u8>, String> {
    files::read(path, Links::Followed, PEM_BYTES_MAX)
        .map_err(|error| tls_file_error(path, &error.to_string()))
}

fn tls_file_error(path: &Path, why: &str) -> String {
    format!(
        "cannot use {} for TLS - {why} - give a PEM file",
        path.display()
    )
}
