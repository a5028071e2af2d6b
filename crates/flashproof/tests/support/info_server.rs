//! A server that answers info requests as real servers did (`crates/sizing/tests/data/info`), or in invalid ways.

use flate2::read::GzDecoder;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

/// Replies of a server of 8.0.0.15 and of 4.9.0.37.
pub const OF_8_0: &[u8] = include_bytes!("../../../sizing/tests/data/info/ce-8.0.0.15.info.gz");
pub const OF_4_9: &[u8] = include_bytes!("../../../sizing/tests/data/info/ce-4.9.0.37.info.gz");

/// Python's bcrypt of "admin" with the database's salt.
pub const CREDENTIAL_OF_ADMIN: &str =
    "$2a$10$7EqJtq98hPqEX7fNZaFWoO1mVO/4MLpGzsqojz6E9Gef6iXDjXdDa";

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mode {
    Plain,
    /// Requires a login with this user and credential before other requests.
    Login(String, String),
    /// Answers every query with this value.
    Every(&'static str),
    /// Refuses to change settings, with this answer.
    RefuseSettings(&'static str),
    /// Sends only the first bytes of a reply, and keeps the connection open.
    Stall(usize),
    /// Closes after this many bytes of a reply.
    Close(usize),
    /// Sends these bytes instead of a reply.
    Garbage(&'static [u8]),
    /// Sends one byte of its reply per period.
    Drip(Duration),
}

/// The server, which stops when dropped.
pub struct InfoServer {
    pub address: SocketAddr,
    state: Arc<State>,
}

struct State {
    mode: Mutex<Mode>,
    /// Replies by name. A sampled name has a list of replies.
    once: Mutex<BTreeMap<String, String>>,
    samples: BTreeMap<String, Vec<String>>,
    asked: Mutex<Vec<String>>,
    benchmarks: AtomicBool,
    drv_ssd: Mutex<String>,
    /// True to close each connection at once.
    is_away: AtomicBool,
    is_over: AtomicBool,
    logins: AtomicUsize,
    tls: Option<Arc<ServerConfig>>,
}

pub fn tls_file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data/tls")
        .join(name)
}

/// TLS with the certificate of `node.test`. With `wants_client`, clients need a certificate, too.
pub fn tls(wants_client: bool) -> Arc<ServerConfig> {
    let certificates = |name| {
        CertificateDer::pem_file_iter(tls_file(name))
            .unwrap()
            .map(Result::unwrap)
            .collect()
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .unwrap();
    let mut roots = RootCertStore::empty();
    let authorities: Vec<CertificateDer<'static>> = certificates("ca.pem");
    roots.add(authorities[0].clone()).unwrap();
    let builder = if wants_client {
        builder.with_client_cert_verifier(
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                .build()
                .unwrap(),
        )
    } else {
        builder.with_no_client_auth()
    };
    let key = PrivateKeyDer::from_pem_file(tls_file("node.key")).unwrap();
    Arc::new(
        builder
            .with_single_cert(certificates("node.pem"), key)
            .unwrap(),
    )
}

impl InfoServer {
    pub fn start(replies: &[u8]) -> Self {
        Self::start_with(replies, Mode::Plain, None)
    }

    pub fn start_as(mode: Mode) -> Self {
        Self::start_with(OF_8_0, mode, None)
    }

    pub fn start_with(replies: &[u8], mode: Mode, tls: Option<Arc<ServerConfig>>) -> Self {
        let mut text = String::new();
        GzDecoder::new(replies).read_to_string(&mut text).unwrap();
        let mut once = BTreeMap::new();
        let mut samples = BTreeMap::<String, Vec<String>>::new();
        let mut is_timed = false;
        for line in text.lines() {
            is_timed |= line.starts_with('#');
            let Some((name, value)) = line.split_once('\t') else {
                continue;
            };
            if is_timed {
                samples
                    .entry(name.to_owned())
                    .or_default()
                    .push(value.to_owned());
            } else {
                once.insert(name.to_owned(), value.to_owned());
            }
        }
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(State {
            mode: Mutex::new(mode),
            once: Mutex::new(once),
            samples,
            asked: Mutex::default(),
            benchmarks: AtomicBool::new(false),
            drv_ssd: Mutex::new("INFO".to_owned()),
            is_away: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            logins: AtomicUsize::new(0),
            tls,
        });
        let serving = state.clone();
        thread::spawn(move || {
            for socket in listener.incoming().map_while(Result::ok) {
                if serving.is_over.load(Ordering::SeqCst) {
                    break;
                }
                let state = serving.clone();
                // Errors are ignored: a client may disconnect.
                thread::spawn(move || drop(state.serve(socket)));
            }
        });
        Self { address, state }
    }

    pub fn host(&self) -> String {
        self.address.to_string()
    }

    pub fn set(&self, name: &str, value: &str) {
        self.state
            .once
            .lock()
            .unwrap()
            .insert(name.to_owned(), value.to_owned());
    }

    pub fn set_mode(&self, mode: Mode) {
        *self.state.mode.lock().unwrap() = mode;
    }

    pub fn set_settings(&self, benchmarks: bool, drv_ssd: &str) {
        self.state.benchmarks.store(benchmarks, Ordering::SeqCst);
        *self.state.drv_ssd.lock().unwrap() = drv_ssd.to_owned();
    }

    /// True if histograms are on, and the log level of drv_ssd.
    pub fn settings(&self) -> (bool, String) {
        (
            self.state.benchmarks.load(Ordering::SeqCst),
            self.state.drv_ssd.lock().unwrap().clone(),
        )
    }

    pub fn set_away(&self, is_away: bool) {
        self.state.is_away.store(is_away, Ordering::SeqCst);
    }

    /// Requested names, in the order of the requests.
    pub fn asked(&self) -> MutexGuard<'_, Vec<String>> {
        self.state.asked.lock().unwrap()
    }

    /// Number of requests for the statistics of a namespace.
    pub fn samples(&self) -> usize {
        self.asked()
            .iter()
            .filter(|name| name.starts_with("namespace/"))
            .count()
    }

    pub fn logins(&self) -> usize {
        self.state.logins.load(Ordering::SeqCst)
    }
}

impl Drop for InfoServer {
    fn drop(&mut self) {
        self.state.is_over.store(true, Ordering::SeqCst);
        // Wakes the thread that waits for connections.
        let _ = TcpStream::connect(self.address);
    }
}

impl State {
    fn serve(&self, socket: TcpStream) -> std::io::Result<()> {
        socket.set_read_timeout(Some(Duration::from_secs(60)))?;
        match &self.tls {
            Some(config) => {
                let connection =
                    ServerConnection::new(config.clone()).map_err(std::io::Error::other)?;
                self.talk(StreamOwned::new(connection, socket))
            }
            None => self.talk(socket),
        }
    }

    fn talk(&self, mut stream: impl Read + Write) -> std::io::Result<()> {
        let mut is_in = false;
        loop {
            let mut header = [0; 8];
            stream.read_exact(&mut header)?;
            let length = u64::from_be_bytes(header) & 0xffff_ffff_ffff;
            if header[0] != 2 || length > 1 << 20 {
                // A client uses TLS, but this server does not.
                return Ok(());
            }
            let mut body = vec![0; length as usize];
            stream.read_exact(&mut body)?;
            if self.is_away.load(Ordering::SeqCst) || self.is_over.load(Ordering::SeqCst) {
                return Ok(());
            }
            let mode = self.mode.lock().unwrap().clone();
            let reply = match (header[1], &mode) {
                (2, Mode::Login(user, credential)) => {
                    self.logins
                        .fetch_add(usize::from(body[2] == LOGIN), Ordering::SeqCst);
                    let result = log_in(&body, user, credential);
                    is_in |= result == 0;
                    security_reply(result)
                }
                (2, _) => security_reply(51),
                (1, Mode::Login(..)) if !is_in => frame(1, b"ERROR:80:not authenticated\n"),
                (1, mode) => frame(1, self.answers(&body, mode).as_bytes()),
                (other, _) => panic!("a message of type {other}"),
            };
            match mode {
                Mode::Stall(bytes) => {
                    stream.write_all(&reply[..bytes.min(reply.len())])?;
                    stream.flush()?;
                    while !self.is_over.load(Ordering::SeqCst) {
                        thread::sleep(Duration::from_millis(20));
                    }
                }
                Mode::Close(bytes) => {
                    stream.write_all(&reply[..bytes.min(reply.len())])?;
                    return stream.flush();
                }
                Mode::Garbage(bytes) => stream.write_all(bytes)?,
                Mode::Drip(pause) => {
                    for byte in reply {
                        stream.write_all(&[byte])?;
                        stream.flush()?;
                        thread::sleep(pause);
                    }
                }
                _ => stream.write_all(&reply)?,
            }
            stream.flush()?;
        }
    }

    fn answers(&self, body: &[u8], mode: &Mode) -> String {
        let body = String::from_utf8(body.to_vec()).unwrap();
        let mut text = String::new();
        for name in body.lines() {
            self.asked.lock().unwrap().push(name.to_owned());
            match (mode, self.answer(name, mode)) {
                (Mode::Every(value), _) => text += &format!("{name}\t{value}\n"),
                (_, Some(value)) => text += &format!("{name}\t{value}\n"),
                // An unknown name gets no answer, as in 4.9.
                (_, None) => {}
            }
        }
        text
    }

    fn answer(&self, name: &str, mode: &Mode) -> Option<String> {
        let is_set = name.starts_with("set-config:") || name.starts_with("log-set:");
        if let (true, Mode::RefuseSettings(answer)) = (is_set, mode) {
            return Some((*answer).to_owned());
        }
        let selector = if self.once.lock().unwrap()["build"].starts_with("8.1") {
            "namespace"
        } else {
            "id"
        };
        let benchmarks =
            format!("set-config:context=namespace;{selector}=test;enable-benchmarks-storage=");
        if let Some(value) = name.strip_prefix(&benchmarks) {
            self.benchmarks.store(value == "true", Ordering::SeqCst);
            return Some("ok".to_owned());
        }
        if let Some(level) = name.strip_prefix("log-set:id=0;drv_ssd=") {
            *self.drv_ssd.lock().unwrap() = level.to_uppercase();
            return Some("ok".to_owned());
        }
        let asked = self
            .asked
            .lock()
            .unwrap()
            .iter()
            .filter(|asked| *asked == name)
            .count();
        let value = match self.samples.get(name) {
            Some(samples) => samples[(asked - 1) % samples.len()].clone(),
            None => self.once.lock().unwrap().get(name)?.clone(),
        };
        let benchmarks = format!(
            "enable-benchmarks-storage={}",
            self.benchmarks.load(Ordering::SeqCst)
        );
        let drv_ssd = format!("drv_ssd:{}", self.drv_ssd.lock().unwrap());
        Some(
            value
                .replace("enable-benchmarks-storage=true", &benchmarks)
                .replace("drv_ssd:DETAIL", &drv_ssd),
        )
    }
}

/// Command of a login by password.
const LOGIN: u8 = 20;

/// Result code of a login. `body` has the command, the user, and a credential or the token of a session.
pub fn log_in(body: &[u8], user: &str, credential: &str) -> u8 {
    let mut fields = BTreeMap::new();
    let mut rest = &body[16..];
    for _ in 0..body[3] {
        let length = u32::from_be_bytes(rest[..4].try_into().unwrap()) as usize;
        fields.insert(rest[4], rest[5..4 + length].to_vec());
        rest = &rest[4 + length..];
    }
    match body[2] {
        _ if fields.get(&0).is_none_or(|name| name != user.as_bytes()) => 60,
        LOGIN if fields[&3] == credential.as_bytes() => 0,
        LOGIN => 65,
        0 if fields.get(&5).is_some_and(|token| token == b"token") => 0,
        _ => 66,
    }
}

fn frame(kind: u8, body: &[u8]) -> Vec<u8> {
    let header = (2 << 56) | (u64::from(kind) << 48) | body.len() as u64;
    [&header.to_be_bytes(), body].concat()
}

/// A reply with a session that lasts an hour, or a refusal.
pub fn security_reply(result: u8) -> Vec<u8> {
    let mut body = vec![0; 16];
    body[1] = result;
    if result == 0 {
        body[3] = 2;
        body.extend_from_slice(b"\0\0\0\x06\x05token\0\0\0\x05\x06\0\0\x0e\x10");
    }
    frame(2, &body)
}
