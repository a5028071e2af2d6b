//! Tests against a server with records in memory, with injected faults.

use super::*;
use crate::object::Value;
use crate::ops::{self, Entry, operation};
use crate::testing::all;
use crate::wire::frame::{self, Kind};
use crate::wire::{self, Command, Limits, reply};
use crate::{Digest, Reply, Work};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
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
}

impl Server {
    /// A server that has all partitions of namespace test.
    fn new() -> Self {
        Self::with("BB9", &format!("{}8=", "/".repeat(682)))
    }

    fn with(name: &str, owned: &str) -> Self {
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
        let seeds = [("127.0.0.1".to_owned(), self.address.port())];
        let cluster = Cluster::find(&seeds, "test").unwrap();
        let object = Object {
            set: (*b"set").into(),
            bins: 2,
            value: Value::Blob(300),
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
    fn serve(&self, mut socket: TcpStream) {
        socket.set_nodelay(true).unwrap();
        let (mut bytes, mut chunk) = (Vec::new(), [0; 8192]);
        while let Ok(count @ 1..) = socket.read(&mut chunk) {
            bytes.extend_from_slice(&chunk[..count]);
            let (mut rest, mut out, mut at_once) = (&bytes[..], Vec::new(), 0);
            while let Some((kind, body)) = frame::take(&mut rest, 1 << 20).unwrap() {
                at_once += u32::from(kind == Kind::Message);
                match kind {
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

    fn info(&self, body: &[u8], out: &mut Vec<u8>) {
        let begin = frame::begin(out, Kind::Info);
        for name in std::str::from_utf8(body).unwrap().lines() {
            let value = match name {
                "node" => self.name.clone(),
                "build" => "8.0.0.15".to_owned(),
                "features" => "peers;pipelining;replicas".to_owned(),
                "peers-clear-std" => self.peers.lock().unwrap().clone(),
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
    let seeds = [("127.0.0.1".to_owned(), server.address.port())];
    let error = Cluster::find(&seeds, "foo").unwrap_err().to_string();
    assert!(error.contains("namespace \"foo\"") && error.contains("\"other\", \"test\""), "{error}");
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let error = Cluster::find(&[("127.0.0.1".to_owned(), free)], "test").unwrap_err().to_string();
    assert!(error.contains("no seed answered") && error.contains("refused"), "{error}");
}
