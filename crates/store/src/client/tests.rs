//! Tests against a server with records in memory, with injected faults.

use super::*;
use crate::nodes::{Access, Host, Login, Tls};
use crate::object::Value;
use crate::ops::{self, Entry, operation};
use crate::testing::all;
use crate::wire::frame::{self, Kind};
use crate::wire::{self, Command, Limits, query, reply};
use crate::{Digest, Reply, Work};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use sys::op::{OpKind, Outcome};

#[derive(Debug, Clone, Copy, PartialEq)]
enum Manner {
    Serves,
    /// Acknowledges writes and does not do them.
    Forgets,
    /// Changes a byte of the data read.
    Flips,
    /// Never answers a transaction.
    Hangs,
    /// Closes the connection instead of every fifth answer.
    Closes,
    /// Sends an invalid answer.
    Lies,
    /// Answers twice.
    Repeats,
    /// Answers with this result code.
    Refuses(u8),
    /// Reports overload for this many requests.
    Overloaded(u32),
}

struct Server {
    address: SocketAddr,
    state: Arc<State>,
}

struct State {
    manner: Mutex<Manner>,
    records: Mutex<HashMap<Digest, Vec<u8>>>,
    requests: AtomicU32,
    connections: AtomicU32,
    most_at_once: AtomicU32,
    owned: String,
    peers: Mutex<String>,
    name: String,
    /// If there is one, nobody is served without a login.
    password: Mutex<Option<&'static str>>,
    /// Logins by password and by session.
    logins: [AtomicU32; 2],
    tls: Option<Arc<rustls::ServerConfig>>,
}

impl Server {
    /// A server that has all partitions of namespace test.
    fn new() -> Self {
        Self::with("BB9", &format!("{}8=", "/".repeat(682)))
    }

    fn with(name: &str, owned: &str) -> Self {
        Self::with_tls(name, owned, None)
    }

    fn with_tls(name: &str, owned: &str, tls: Option<Arc<rustls::ServerConfig>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(State {
            manner: Mutex::new(Manner::Serves),
            records: Mutex::default(),
            requests: AtomicU32::new(0),
            connections: AtomicU32::new(0),
            most_at_once: AtomicU32::new(0),
            owned: owned.to_owned(),
            peers: Mutex::new("0,3000,[]".to_owned()),
            name: name.to_owned(),
            password: Mutex::new(None),
            logins: Default::default(),
            tls,
        });
        let shared = state.clone();
        std::thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                shared.connections.fetch_add(1, Ordering::Relaxed);
                let state = shared.clone();
                std::thread::spawn(move || state.serve(socket));
            }
        });
        Self { address, state }
    }

    fn set(&self, manner: Manner) {
        *self.state.manner.lock().unwrap() = manner;
    }

    fn client(&self, pipeline: u32, timeout_ms: u32) -> Client {
        self.client_with(Access::default(), 300, pipeline, timeout_ms)
    }

    fn client_with(&self, access: Access, bytes: u32, pipeline: u32, timeout_ms: u32) -> Client {
        let cluster = Cluster::find(&[seed(self.address)], "test", access).unwrap();
        let object = Object {
            set: (*b"set").into(),
            bins: 2,
            value: Value::Blob(bytes),
            single_bin: false,
            replace: false,
            began: 170_000_000_000,
        };
        let settings = ClientSettings {
            cluster,
            namespace: "test".to_owned(),
            object: Arc::new(object),
            verify: true,
            timeout_ms,
            pipeline,
            overload: Arc::default(),
        };
        Client::new(settings, 8, Instant::now(), 0).unwrap()
    }
}

impl State {
    fn serve(&self, socket: TcpStream) {
        socket.set_nodelay(true).unwrap();
        match &self.tls {
            Some(config) => {
                let connection = rustls::ServerConnection::new(config.clone()).unwrap();
                self.talk(rustls::StreamOwned::new(connection, socket));
            }
            None => self.talk(socket),
        }
    }

    fn talk(&self, mut socket: impl Read + Write) {
        let (mut bytes, mut chunk) = (Vec::new(), [0; 8192]);
        let mut is_in = self.password.lock().unwrap().is_none();
        while let Ok(count @ 1..) = socket.read(&mut chunk) {
            bytes.extend_from_slice(&chunk[..count]);
            let (mut rest, mut out, mut at_once) = (&bytes[..], Vec::new(), 0);
            while let Some((kind, body)) = frame::take(&mut rest, 1 << 20).unwrap() {
                at_once += u32::from(kind == Kind::Message);
                match kind {
                    Kind::Security => is_in |= self.log_in(body, &mut out),
                    Kind::Info if !is_in => {
                        let begin = frame::begin(&mut out, Kind::Info);
                        out.extend_from_slice(b"ERROR:80:not authenticated\n");
                        frame::end(&mut out, begin);
                    }
                    _ if !is_in => reply::put(&mut out, &Reply::of(ResultCode(80))),
                    Kind::Info => self.info(body, &mut out),
                    _ if !self.transaction(body, &mut out) => return,
                    _ => {}
                }
            }
            self.most_at_once.fetch_max(at_once, Ordering::Relaxed);
            let taken = bytes.len() - rest.len();
            bytes.drain(..taken);
            if socket.write_all(&out).is_err() {
                return;
            }
        }
    }

    fn log_in(&self, body: &[u8], out: &mut Vec<u8>) -> bool {
        let password = self.password.lock().unwrap().unwrap_or_default().to_owned();
        let login = Login::new("me", password, false).unwrap();
        let known = [login.request(), login.session_request(b"token")];
        let matching = known.iter().position(|request| request[frame::HEADER_BYTES..] == *body);
        if let Some(by) = matching {
            self.logins[by].fetch_add(1, Ordering::Relaxed);
        }
        let result = if matching.is_some() { 0 } else { 65 };
        query::put_security(out, result, 0, &[(5, b"token")]);
        matching.is_some()
    }

    fn info(&self, body: &[u8], out: &mut Vec<u8>) {
        let begin = frame::begin(out, Kind::Info);
        for name in std::str::from_utf8(body).unwrap().lines() {
            let value = match name {
                "node" => self.name.clone(),
                "build" => "8.0.0.15".to_owned(),
                "features" => "peers;pipelining;replicas".to_owned(),
                "peers-clear-std" | "peers-tls-std" => self.peers.lock().unwrap().clone(),
                "replicas" => format!("other:0,1,AAAA;test:0,1,{}", self.owned),
                "namespaces" => "other;test".to_owned(),
                _ => "ERROR".to_owned(),
            };
            out.extend_from_slice(format!("{name}\t{value}\n").as_bytes());
        }
        frame::end(out, begin);
    }

    /// Handles a transaction; true if the connection stays open.
    fn transaction(&self, body: &[u8], out: &mut Vec<u8>) -> bool {
        let manner = *self.manner.lock().unwrap();
        let number = self.requests.fetch_add(1, Ordering::Relaxed);
        let Ok(Command::Single(single)) = wire::parse(body, Limits::default(), |_| Some(0)) else { panic!("{body:?}") };
        let transaction = single.request.transaction;
        let mut records = self.records.lock().unwrap();
        let mut answer = Reply::of(ResultCode::OK);
        match transaction.work {
            Work::Write(_) if manner == Manner::Forgets => {}
            Work::Write(write) => {
                let mut bins = Vec::new();
                ops::entries(&write.ops)
                    .for_each(|op| ops::put(&mut bins, &Entry { operation: operation::READ, ..op }));
                records.insert(transaction.digest, bins);
            }
            _ => match records.get(&transaction.digest) {
                Some(bins) => (answer.bins, answer.ops) = (2, bins.clone()),
                None => answer.result = ResultCode::NOT_FOUND,
            },
        }
        match manner {
            Manner::Hangs => return true,
            Manner::Closes if number.is_multiple_of(5) => return false,
            Manner::Lies => {
                out.extend_from_slice(b"HTTP/1.1 400 Bad Request\r\n\r\n");
                return true;
            }
            Manner::Refuses(code) => answer.result = ResultCode(code),
            Manner::Overloaded(requests) if number < requests => answer.result = ResultCode::DEVICE_OVERLOAD,
            Manner::Repeats => reply::put(out, &answer),
            Manner::Flips if !answer.ops.is_empty() => answer.ops[100] ^= 1,
            _ => {}
        }
        reply::put(out, &answer);
        true
    }
}

fn seed(address: SocketAddr) -> Host {
    Host { name: address.ip().to_string(), port: address.port() }
}

fn refusal(address: SocketAddr, namespace: &str, access: Access) -> String {
    Cluster::find(&[seed(address)], namespace, access).err().unwrap()
}

/// Without sockets on the kernel's ring the test is skipped.
fn has_ring() -> bool {
    let is_there = Net::new(Vec::new(), 1, 0, Arrivals { buffers: 1, bytes: 4096 }, Instant::now());
    if let Err(error) = &is_there {
        println!("skipped: no io_uring with sockets: {error}");
    }
    is_there.is_ok()
}

const PATIENT_MS: u32 = 30_000;

#[test]
fn what_is_written_is_read_on_as_many_connections_as_are_needed_and_no_more() {
    if !has_ring() {
        return;
    }
    for (pipeline, connections) in [(1, 8), (4, 2), (8, 1)] {
        let server = Server::new();
        let mut client = server.client(pipeline, PATIENT_MS);
        for kind in [OpKind::Write, OpKind::Read, OpKind::Write, OpKind::Read] {
            assert!(all(&mut client, kind, 300, 8).iter().all(|outcome| outcome.is_done()), "{kind}");
        }
        // And one connection for cluster queries.
        assert_eq!(server.state.connections.load(Ordering::Relaxed), connections + 1);
        let most_at_once = server.state.most_at_once.load(Ordering::Relaxed);
        assert!(most_at_once <= pipeline, "{most_at_once} at once, {pipeline} allowed");
        assert_eq!(server.state.requests.load(Ordering::Relaxed), 1_200);
    }
}

#[test]
fn what_a_server_forgets_or_changes_is_told() {
    if !has_ring() {
        return;
    }
    let server = Server::new();
    let mut client = server.client(2, PATIENT_MS);
    all(&mut client, OpKind::Write, 20, 8);
    server.set(Manner::Forgets);
    all(&mut client, OpKind::Write, 10, 8);
    let outcomes = all(&mut client, OpKind::Read, 20, 8);
    assert_eq!(outcomes[..10], [Outcome::Older { acknowledged: 2, found: 1 }; 10]);
    assert!(outcomes[10..].iter().all(|outcome| outcome.is_done()));
    server.set(Manner::Flips);
    let outcomes = all(&mut client, OpKind::Read, 20, 8);
    // Behind the header and the name of its bin, of 12 bytes.
    assert!(
        outcomes.iter().all(|outcome| matches!(outcome, Outcome::Differs { at: 88, found: Some(_), .. })),
        "{outcomes:?}"
    );
    server.state.records.lock().unwrap().clear();
    server.set(Manner::Serves);
    let outcomes = all(&mut client, OpKind::Read, 30, 8);
    assert_eq!(outcomes[10..20], [Outcome::Older { acknowledged: 1, found: 0 }; 10], "records that are gone");
    assert_eq!(outcomes[20..], [Outcome::Result(2); 10], "records that never were");
}

#[test]
fn an_insertion_waits_until_an_overloaded_server_takes_it_and_a_measurement_fails() {
    if !has_ring() {
        return;
    }
    let server = Server::new();
    let mut client = server.client(2, PATIENT_MS);
    server.set(Manner::Overloaded(30));
    client.settings.overload.set_waits(true);
    assert!(all(&mut client, OpKind::Write, 50, 8).iter().all(|outcome| outcome.is_done()));
    assert_eq!(server.state.requests.load(Ordering::Relaxed), 80);
    assert_eq!(client.settings.overload.waited(), 8, "those that were out: each once");
    assert!(all(&mut client, OpKind::Read, 50, 8).iter().all(|outcome| outcome.is_done()));
    client.settings.overload.set_waits(false);
    server.set(Manner::Overloaded(u32::MAX));
    assert_eq!(all(&mut client, OpKind::Write, 9, 8), [Outcome::Result(18); 9]);
}

#[test]
fn a_server_that_closes_lies_or_hangs_costs_what_was_out_and_the_rest_goes_on() {
    if !has_ring() {
        return;
    }
    let lost = [Outcome::Errno(libc::ECONNRESET), Outcome::Errno(libc::EPROTO), Outcome::Errno(libc::EPIPE)];
    for pipeline in [1, 4] {
        let server = Server::new();
        let mut client = server.client(pipeline, PATIENT_MS);
        for manner in [Manner::Closes, Manner::Lies, Manner::Repeats] {
            server.set(manner);
            let outcomes = all(&mut client, OpKind::Write, 60, 8);
            let failed = outcomes.iter().filter(|outcome| !outcome.is_done()).count();
            assert!(failed > 0 || manner == Manner::Repeats, "{manner:?}");
            assert!(
                outcomes.iter().all(|outcome| outcome.is_done() || lost.contains(outcome)),
                "{manner:?} {outcomes:?}"
            );
            server.set(Manner::Serves);
            assert!(all(&mut client, OpKind::Write, 60, 8).iter().all(|outcome| outcome.is_done()), "after {manner:?}");
            let outcomes = all(&mut client, OpKind::Read, 60, 8);
            assert!(outcomes.iter().all(|outcome| outcome.is_done()), "{manner:?}: {outcomes:?}");
        }
    }
    let server = Server::new();
    let mut client = server.client(4, 200);
    server.set(Manner::Hangs);
    assert_eq!(all(&mut client, OpKind::Write, 20, 8), [Outcome::Errno(libc::ETIMEDOUT); 20]);
}

#[test]
fn two_nodes_each_get_what_is_theirs_and_one_that_is_gone_fails_its_own_alone() {
    if !has_ring() {
        return;
    }
    let half = |first: u8, second: u8| BASE64.encode([[first; 256], [second; 256]].concat());
    let (one, other) = (Server::with("A1", &half(255, 0)), Server::with("A2", &half(0, 255)));
    *one.state.peers.lock().unwrap() = format!("1,3000,[[A2,,[{}]]]", other.address);
    let mut client = one.client(4, PATIENT_MS);
    assert!(all(&mut client, OpKind::Write, 200, 8).iter().all(|outcome| outcome.is_done()));
    let counts = [&one, &other].map(|server| server.state.requests.load(Ordering::Relaxed));
    assert!(counts.iter().all(|count| *count > 60) && counts.iter().sum::<u32>() == 200, "{counts:?}");
    other.set(Manner::Refuses(11));
    let outcomes = all(&mut client, OpKind::Read, 200, 8);
    let refused = outcomes.iter().filter(|outcome| **outcome == Outcome::Result(11)).count();
    assert_eq!(refused as u32, counts[1]);
    assert!(outcomes.iter().all(|outcome| outcome.is_done() || *outcome == Outcome::Result(11)));
}

#[test]
fn a_cluster_that_is_not_there_or_has_no_such_namespace_is_refused_with_the_reason() {
    let server = Server::new();
    let error = refusal(server.address, "foo", Access::default());
    assert!(error.contains("namespace \"foo\"") && error.contains("\"other\", \"test\""), "{error}");
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = refusal(free, "test", Access::default());
    assert!(error.contains("no seed answered") && error.contains("refused"), "{error}");
}

fn me(password: &str) -> Access {
    let login = Login::new("me", password.to_owned(), false).unwrap();
    Access { login: Some(login), ..Access::default() }
}

#[test]
fn each_connection_logs_in_by_the_session_of_the_first() {
    if !has_ring() {
        return;
    }
    let server = Server::new();
    *server.state.password.lock().unwrap() = Some("secret");
    let mut client = server.client_with(me("secret"), 300, 4, PATIENT_MS);
    let logins = || server.state.logins.each_ref().map(|count| count.load(Ordering::Relaxed));
    assert_eq!(logins(), [1, 2], "for the queries, and for two connections of four transactions");
    assert!(all(&mut client, OpKind::Write, 60, 8).iter().all(|outcome| outcome.is_done()));
    assert!(client.settings.stored(0).unwrap().is_some(), "a probe logs in, too");
    assert_eq!(logins(), [1, 3]);
    // New connections log in as the first ones did.
    server.set(Manner::Closes);
    all(&mut client, OpKind::Write, 20, 8);
    server.set(Manner::Serves);
    assert!(all(&mut client, OpKind::Read, 60, 8).iter().all(|outcome| outcome.is_done()));
    assert!(logins()[0] == 1 && logins()[1] > 3, "{:?}", logins());
}

#[test]
fn a_login_that_is_missing_or_wrong_is_refused_with_the_reason() {
    let server = Server::new();
    *server.state.password.lock().unwrap() = Some("secret");
    for (access, reason) in [
        (Access::default(), "the server wants a login: \"ERROR:80:not authenticated\" - give --user"),
        (me("guess"), "user me cannot log in - the password is wrong (code 65)"),
    ] {
        let error = refusal(server.address, "test", access);
        assert!(error.starts_with("cannot find the cluster - no seed answered: ") && error.contains(reason), "{error}");
    }
}

#[test]
fn over_tls_records_of_any_size_are_written_and_read() {
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    if !has_ring() {
        return;
    }
    let file =
        |name: &str| std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../flashproof/tests/data/tls").join(name);
    let certificates = CertificateDer::pem_file_iter(file("node.pem")).unwrap().map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_file(file("node.key")).unwrap();
    let builder = rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    let config = Arc::new(builder.with_single_cert(certificates, key).unwrap());
    let server = Server::with_tls("BB9", &format!("{}8=", "/".repeat(682)), Some(config));
    *server.state.password.lock().unwrap() = Some("secret");
    let access = |name: &str| {
        let tls = Tls::new(&file("ca.pem"), None, Some(name.to_owned())).unwrap();
        Access { tls: Some(tls), ..me("secret") }
    };
    // The longest are longer than all of TLS's buffers.
    for bytes in [8, 20_000, 400_000] {
        let mut client = server.client_with(access("node.test"), bytes, 4, PATIENT_MS);
        for kind in [OpKind::Write, OpKind::Read] {
            assert!(all(&mut client, kind, 40, 8).iter().all(|outcome| outcome.is_done()), "{kind} of {bytes} bytes");
        }
        server.state.records.lock().unwrap().clear();
    }
    let mut client = server.client_with(access("node.test"), 300, 1, PATIENT_MS);
    server.set(Manner::Lies);
    assert_eq!(all(&mut client, OpKind::Write, 8, 8), [Outcome::Errno(libc::EPROTO); 8]);
    let error = refusal(server.address, "test", access("other.test"));
    assert!(error.contains("cannot begin TLS with other.test - invalid peer certificate"), "{error}");
}
