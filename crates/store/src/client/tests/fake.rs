//! A server with records in memory and injected faults.

use super::*;
use crate::ops::{self, BinEntry, operation};
use crate::wire::frame::{self, FrameKind};
use crate::wire::{self, BatchLimits, ParsedMessage, message, query};
use crate::{Digest, RecordOp, Reply, ResultCode};
use std::collections::HashMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub(super) enum FaultMode {
    #[default]
    Serves,
    /// Acknowledges writes without executing them.
    Forgets,
    /// Changes a byte of the data read.
    Flips,
    Hangs,
    /// Closes the connection at every fifth answer, and does not send this answer.
    Closes,
    Lies,
    Repeats,
    Refuses(u8),
    /// Reports overload for this many requests.
    Overloaded(u32),
}

/// Answers a request instead of the server, and returns true if the connection stays open. `None`: the server answers.
pub(super) type ReplyHook =
    Arc<dyn Fn(FrameKind, &[u8], &mut dyn Write) -> Option<bool> + Send + Sync>;

/// A server, which stops when this value is dropped.
pub(super) struct Server {
    pub(super) address: SocketAddr,
    pub(super) state: Arc<State>,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) manner: Mutex<FaultMode>,
    pub(super) records: Mutex<HashMap<Digest, Vec<u8>>>,
    pub(super) requests: AtomicU32,
    pub(super) connections: AtomicU32,
    pub(super) most_at_once: AtomicU32,
    pub(super) owned: Mutex<String>,
    pub(super) peers: Mutex<String>,
    /// Generation that the server reports for its peers and for its partitions.
    pub(super) generation: AtomicU32,
    pub(super) racks: Mutex<String>,
    pub(super) liar: Mutex<Option<ReplyHook>>,
    /// True if the server has stopped: it closes all connections.
    pub(super) is_over: AtomicBool,
    /// True if the server closes new connections at once.
    pub(super) is_away: AtomicBool,
    pub(super) regime: AtomicU32,
    /// Number of queries for partitions.
    pub(super) maps: AtomicU32,
    pub(super) name: String,
    /// If set, clients are served only after a login.
    pub(super) password: Mutex<Option<&'static str>>,
    /// Number of logins with a password, and number of logins with a session token.
    pub(super) logins: [AtomicU32; 2],
    pub(super) tls: Option<Arc<rustls::ServerConfig>>,
}

impl Server {
    /// A server that has all partitions of namespace test.
    pub(super) fn new() -> Self {
        Self::with("BB9", &format!("{}8=", "/".repeat(682)))
    }

    pub(super) fn with(name: &str, owned: &str) -> Self {
        Self::with_tls(name, owned, None)
    }

    pub(super) fn with_tls(
        name: &str,
        owned: &str,
        tls: Option<Arc<rustls::ServerConfig>>,
    ) -> Self {
        let state = Arc::new(State {
            owned: Mutex::new(owned.to_owned()),
            peers: Mutex::new("0,3000,[]".to_owned()),
            generation: AtomicU32::new(1),
            racks: Mutex::new("ERROR:25:enterprise only".to_owned()),
            name: name.to_owned(),
            tls,
            ..State::default()
        });
        Self::listen(state)
    }

    fn listen(state: Arc<State>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = state.clone();
        std::thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                if shared.is_over.load(Ordering::SeqCst) {
                    return;
                }
                if shared.is_away.load(Ordering::SeqCst) {
                    continue;
                }
                shared.connections.fetch_add(1, Ordering::Relaxed);
                let state = shared.clone();
                std::thread::spawn(move || state.serve(socket));
            }
        });
        Self { address, state }
    }

    /// Stops the server, and starts it with the same records at another address.
    pub(super) fn moved(self) -> Self {
        let State {
            name,
            owned,
            records,
            ..
        } = &*self.state;
        let name = name.clone();
        let owned = owned.lock().unwrap().clone();
        let records = records.lock().unwrap().clone();
        drop(self);
        let server = Self::with(&name, &owned);
        *server.state.records.lock().unwrap() = records;
        server
    }

    /// Sets the peers that this server reports.
    pub(super) fn names(&self, others: &[(&str, SocketAddr)]) {
        let generation = self.state.generation.fetch_add(1, Ordering::SeqCst) + 1;
        let others: Vec<_> = others
            .iter()
            .map(|(id, address)| format!("[{id},,[{address}]]"))
            .collect();
        *self.state.peers.lock().unwrap() = format!("{generation},3000,[{}]", others.join(","));
    }

    pub(super) fn requests(&self) -> u32 {
        self.state.requests.load(Ordering::Relaxed)
    }

    pub(super) fn set(&self, manner: FaultMode) {
        *self.state.manner.lock().unwrap() = manner;
    }

    pub(super) fn client(&self, pipeline: u32, timeout_ms: u32) -> Client {
        self.client_with(Access::default(), 300, pipeline, timeout_ms)
    }

    pub(super) fn client_with(
        &self,
        access: Access,
        bytes: u32,
        pipeline: u32,
        timeout_ms: u32,
    ) -> Client {
        let cluster = ClientCluster::find(&[seed(self.address)], "test", access, false).unwrap();
        let settings = ClientSettings {
            pipeline,
            ..settings(cluster, bytes, timeout_ms)
        };
        Client::new(settings, (0, 1), EngineSetup::new(8, 0)).unwrap()
    }

    pub(super) fn client_as(
        &self,
        timeout_ms: u32,
        change: impl FnOnce(&mut ClientSettings),
    ) -> Client {
        let cluster =
            ClientCluster::find(&[seed(self.address)], "test", Access::default(), false).unwrap();
        let mut settings = settings(cluster, 300, timeout_ms);
        change(&mut settings);
        Client::new(settings, (0, 1), EngineSetup::new(8, 0)).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.state.is_over.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
    }
}

fn settings(cluster: Arc<ClientCluster>, bytes: u32, timeout_ms: u32) -> ClientSettings {
    ClientSettings {
        cluster,
        namespace: "test".to_owned(),
        object: Arc::new(records(2, ValueType::Blob(bytes))),
        verification: Arc::new(Verification::new(true)),
        batch: None,
        replica: Replica::Master,
        rack: Some(2),
        timeout_ms,
        pipeline: 4,
        overload: Arc::default(),
    }
}

impl State {
    fn serve(&self, socket: TcpStream) {
        socket.set_nodelay(true).unwrap();
        // A short timeout, so that the thread notices when the server stops.
        socket
            .set_read_timeout(Some(Duration::from_millis(20)))
            .unwrap();
        match &self.tls {
            Some(config) => {
                let connection = rustls::ServerConnection::new(config.clone()).unwrap();
                self.talk(rustls::StreamOwned::new(connection, socket));
            }
            None => self.talk(socket),
        }
    }

    fn talk(&self, mut socket: impl Read + Write) {
        let mut bytes = Vec::new();
        let mut chunk = [0; 8192];
        let mut is_in = self.password.lock().unwrap().is_none();
        loop {
            let read = socket.read(&mut chunk);
            let is_over = self.is_over.load(Ordering::SeqCst);
            match read {
                Ok(count @ 1..) if !is_over => bytes.extend_from_slice(&chunk[..count]),
                Err(error) if !is_over && is_timeout(&error) => continue,
                _ => return,
            }
            let mut rest = &bytes[..];
            let mut out = Vec::new();
            let mut at_once = 0;
            while let Some((kind, body)) = frame::take(&mut rest, 1 << 20).unwrap() {
                at_once += u32::from(kind == FrameKind::Message);
                let liar = self.liar.lock().unwrap().clone();
                let lie = liar.and_then(|liar| liar(kind, body, &mut socket));
                match kind {
                    _ if lie == Some(false) => return,
                    _ if lie == Some(true) => {}
                    FrameKind::Security => is_in |= self.log_in(body, &mut out),
                    FrameKind::Info if !is_in => {
                        let begin = frame::begin(&mut out, FrameKind::Info);
                        out.extend_from_slice(b"ERROR:80:not authenticated\n");
                        frame::end(&mut out, begin);
                    }
                    _ if !is_in => {
                        message::put_reply(&mut out, &Reply::with_result(ResultCode(80)))
                    }
                    FrameKind::Info => self.info(body, &mut out),
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
        let matching = known
            .iter()
            .position(|request| request[frame::HEADER_BYTES..] == *body);
        if let Some(by) = matching {
            self.logins[by].fetch_add(1, Ordering::Relaxed);
        }
        let result = if matching.is_some() { 0 } else { 65 };
        query::put_security(out, result, 0, &[(5, b"token")]);
        matching.is_some()
    }

    fn info(&self, body: &[u8], out: &mut Vec<u8>) {
        let begin = frame::begin(out, FrameKind::Info);
        for name in std::str::from_utf8(body).unwrap().lines() {
            let value = match name {
                "node" => self.name.clone(),
                "build" => "8.0.0.15".to_owned(),
                "features" => "peers;pipelining;replicas".to_owned(),
                "peers-clear-std" | "peers-clear-alt" | "peers-tls-std" => {
                    self.peers.lock().unwrap().clone()
                }
                "replicas" => {
                    self.maps.fetch_add(1, Ordering::Relaxed);
                    let regime = self.regime.load(Ordering::SeqCst);
                    let owned = self.owned.lock().unwrap();
                    format!(
                        "other:0,1,AAAA;test:{regime},{},{owned}",
                        owned.split(',').count()
                    )
                }
                "peers-generation" | "partition-generation" => {
                    self.generation.load(Ordering::SeqCst).to_string()
                }
                "rack-ids" => self.racks.lock().unwrap().clone(),
                "namespaces" => "other;test".to_owned(),
                _ => "ERROR".to_owned(),
            };
            out.extend_from_slice(format!("{name}\t{value}\n").as_bytes());
        }
        frame::end(out, begin);
    }

    /// Handles a transaction. Returns true if the connection stays open.
    fn transaction(&self, body: &[u8], out: &mut Vec<u8>) -> bool {
        let manner = *self.manner.lock().unwrap();
        let number = self.requests.fetch_add(1, Ordering::Relaxed);
        let transaction = match wire::parse(body, BatchLimits::default(), |_| Some(0)) {
            Ok(ParsedMessage::Single { request, .. }) => request.transaction,
            Ok(ParsedMessage::Batch { requests, .. }) => {
                let begin = frame::begin(out, FrameKind::Message);
                // The entries of the reply are in the reverse order of the request's keys.
                for wire::BatchKey { index, request } in requests.into_iter().rev() {
                    let mut answer = self.read(request.unwrap().transaction.digest);
                    if let FaultMode::Refuses(code) = manner {
                        answer = Reply::with_result(ResultCode(code));
                    }
                    message::put_entry(out, index, &answer);
                }
                message::put_last(out, ResultCode::OK);
                frame::end(out, begin);
                return true;
            }
            other => panic!("{other:?}"),
        };
        let mut answer = Reply::with_result(ResultCode::OK);
        match transaction.record_op {
            RecordOp::Write(_) if manner == FaultMode::Forgets => {}
            RecordOp::Write(write) => {
                let mut bins = Vec::new();
                ops::entries(&write.ops).for_each(|op| {
                    ops::put(
                        &mut bins,
                        &BinEntry {
                            operation: operation::READ,
                            ..op
                        },
                    )
                });
                self.records
                    .lock()
                    .unwrap()
                    .insert(transaction.digest, bins);
            }
            _ => answer = self.read(transaction.digest),
        }
        match manner {
            FaultMode::Hangs => return true,
            FaultMode::Closes if number.is_multiple_of(5) => return false,
            FaultMode::Lies => {
                out.extend_from_slice(b"HTTP/1.1 400 Bad Request\r\n\r\n");
                return true;
            }
            FaultMode::Refuses(code) => answer.result = ResultCode(code),
            FaultMode::Overloaded(requests) if number < requests => {
                answer.result = ResultCode::DEVICE_OVERLOAD
            }
            FaultMode::Repeats => message::put_reply(out, &answer),
            FaultMode::Flips if !answer.ops.is_empty() => answer.ops[100] ^= 1,
            _ => {}
        }
        message::put_reply(out, &answer);
        true
    }

    fn read(&self, digest: Digest) -> Reply {
        match self.records.lock().unwrap().get(&digest) {
            Some(bins) => Reply {
                bins: 2,
                ops: bins.clone(),
                ..Reply::with_result(ResultCode::OK)
            },
            None => Reply::with_result(ResultCode::NOT_FOUND),
        }
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}
