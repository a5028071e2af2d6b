//! The nodes of a cluster and their partitions, queried from the nodes and kept up to date.
//!
//! A thread asks all known nodes once a second, as Aerospike's clients do; issuing threads read the latest map. Replies
//! are not trusted: an empty map, a truncated or endless reply costs the node its partitions, and nothing else.

use super::replies::{self, NODES_MAX, bitmap, peers, split_address};
use crate::wire::frame::{self, Kind};
use crate::{Digest, PARTITIONS, partition};
use results::units::quoted;
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;
use sys::net::Waker;

/// Time between two questions to all nodes.
const TEND: Duration = Duration::from_secs(1);

/// Delay of another query after a node lacked a partition that it had reported.
const ASK_AGAIN: Duration = Duration::from_millis(50);

/// For a connection, and for each reply to a question about the cluster.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);

/// Longest reply to a question about the cluster, bytes: maps of a thousand namespaces.
const INFO_BYTES_MAX: usize = 4 << 20;

/// A cluster that cannot be used: a sentence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ClusterError(pub String);

/// A node as it was seen last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Number among the nodes of a run; never changes.
    pub number: usize,
    /// The server's name: 16 hex digits.
    pub name: String,
    pub address: SocketAddr,
    /// Server version.
    pub build: String,
    /// True if the server accepts several requests on a connection at once.
    pub pipelines: bool,
}

/// Owners of partitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Map {
    /// Indexed by [`Node::number`].
    pub nodes: Vec<Node>,
    /// By partition: the number of its node.
    masters: Vec<Option<u16>>,
}

impl Map {
    /// The number of the node that has the record, if one is known.
    pub fn master(&self, digest: &Digest) -> Option<usize> {
        self.masters[usize::from(partition(digest))].map(usize::from)
    }

    /// Partitions that a node has.
    pub fn owned(&self, node: usize) -> usize {
        self.masters.iter().filter(|master| master.map(usize::from) == Some(node)).count()
    }

    /// Partitions that no node has.
    pub fn unowned(&self) -> usize {
        self.masters.iter().filter(|master| master.is_none()).count()
    }
}

/// A cluster that is queried until it is dropped.
#[derive(Debug)]
pub struct Cluster {
    map: Arc<Mutex<Arc<Map>>>,
    has_single_bins: bool,
    connect: Sender<Connect>,
    /// Dropping it ends the thread; a message triggers a query at once.
    ask: Sender<()>,
}

/// A requested connection, and its receiver.
pub(super) struct Connect {
    pub(super) address: SocketAddr,
    pub(super) slot: usize,
    pub(super) made: Sender<(usize, io::Result<TcpStream>)>,
    pub(super) waker: Waker,
}

impl Cluster {
    /// The cluster with one of `seeds` as a node, for `namespace`.
    ///
    /// Errors: none of them answers, or the cluster has no such namespace.
    pub fn find(seeds: &[(String, u16)], namespace: &str) -> Result<Arc<Self>, ClusterError> {
        let mut asker = Asker { namespace: namespace.to_owned(), nodes: BTreeMap::new(), order: Vec::new() };
        let mut failures = Vec::new();
        for (host, port) in seeds {
            let name = quoted(&format!("{host}:{port}"));
            match resolve(host, *port).and_then(|address| asker.add(address)) {
                Ok(()) => {}
                Err(error) => failures.push(format!("{name}: {error}")),
            }
        }
        if asker.order.is_empty() {
            return Err(ClusterError(format!(
                "cannot find the cluster - no seed answered: {} - check host, port, and that the server runs",
                failures.join("; ")
            )));
        }
        let map = asker.ask();
        if map.masters.iter().all(Option::is_none) {
            let has = asker.namespaces().map(|names| format!("; it has {}", names.join(", "))).unwrap_or_default();
            return Err(ClusterError(format!(
                "cannot use namespace {} - no node has a partition of it{has} - name one of its namespaces (-n)",
                quoted(namespace)
            )));
        }
        let settings = asker.settings();
        let has_single_bins = settings.split(';').any(|pair| pair == "single-bin=true");
        let map = Arc::new(Mutex::new(Arc::new(map)));
        let (ask, asked) = channel();
        let (connect, wanted) = channel();
        let shared = map.clone();
        let spawn = |name: &str, body: Box<dyn FnOnce() + Send>| {
            let spawned = thread::Builder::new().name(name.to_owned()).spawn(body);
            spawned.map_err(|error| ClusterError(format!("cannot start a thread that asks the cluster: {error}")))
        };
        spawn("tend", Box::new(move || tend(asker, &shared, &asked)))?;
        spawn("connect", Box::new(move || connect_all(&wanted)))?;
        Ok(Arc::new(Self { map, has_single_bins, connect, ask }))
    }

    /// The map that was made last.
    pub fn map(&self) -> Arc<Map> {
        self.map.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// True if records of the namespace have one bin without a name, an option of servers before 7.0.
    pub fn has_single_bins(&self) -> bool {
        self.has_single_bins
    }

    /// Triggers a query of the nodes now, because their replies are outdated.
    pub(super) fn ask_now(&self) {
        let _ = self.ask.send(());
    }

    /// Requests a connection.
    pub(super) fn connect(&self, wanted: Connect) {
        let _ = self.connect.send(wanted);
    }
}

/// Connects to a node.
pub(super) fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let socket = TcpStream::connect_timeout(&address, PATIENCE)?;
    socket.set_nodelay(true)?;
    Ok(socket)
}

fn connect_all(wanted: &Receiver<Connect>) {
    for Connect { address, slot, made, waker } in wanted {
        if made.send((slot, connect(address))).is_ok() {
            waker.wake();
        }
    }
}

fn tend(mut asker: Asker, map: &Mutex<Arc<Map>>, asked: &Receiver<()>) {
    loop {
        match asked.recv_timeout(TEND) {
            Err(RecvTimeoutError::Disconnected) => return,
            Ok(()) => {
                // Requests during this time are combined into one query, which must not disturb the measurement.
                thread::sleep(ASK_AGAIN);
                while asked.try_recv().is_ok() {}
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
        let new = asker.ask();
        let mut map = map.lock().unwrap_or_else(PoisonError::into_inner);
        if **map != new {
            *map = Arc::new(new);
        }
    }
}

fn resolve(host: &str, port: u16) -> io::Result<SocketAddr> {
    let mut addresses = (host, port).to_socket_addrs()?;
    addresses.next().ok_or_else(|| io::Error::other("the name has no address"))
}

/// Queries the nodes.
struct Asker {
    namespace: String,
    /// Indexed by name.
    nodes: BTreeMap<String, Asked>,
    /// Names by number.
    order: Vec<String>,
}

struct Asked {
    node: Node,
    socket: Option<TcpStream>,
    /// True if the last query succeeded.
    answers: bool,
    /// Its partitions, by its last reply.
    bitmap: Option<Vec<u8>>,
}

impl Asker {
    /// Adds the node at `address`, if it is new.
    fn add(&mut self, address: SocketAddr) -> io::Result<()> {
        let mut socket = connect(address)?;
        let replies = ask(&mut socket, &["node", "build", "features"])?;
        let get = |name: &str| replies.get(name).cloned().unwrap_or_default();
        let name = get("node");
        if name.is_empty() {
            return Err(io::Error::other("it answers, but not as an Aerospike server"));
        }
        if self.nodes.contains_key(&name) || self.order.len() == NODES_MAX {
            return Ok(());
        }
        let pipelines = get("features").split(';').any(|feature| feature == "pipelining");
        let node = Node { number: self.order.len(), name: name.clone(), address, build: get("build"), pipelines };
        self.order.push(name.clone());
        self.nodes.insert(name, Asked { node, socket: Some(socket), answers: true, bitmap: None });
        Ok(())
    }

    /// Queries all nodes for their partitions, and adds nodes that they name.
    fn ask(&mut self) -> Map {
        let mut at = 0;
        // Nodes added here are queried in the same turn.
        while let Some(name) = self.order.get(at).cloned() {
            at += 1;
            let Some(asked) = self.nodes.get_mut(&name) else { continue };
            let replies = asked.ask(&["node", "peers-clear-std", "replicas"]);
            asked.answers = replies.is_ok();
            let Ok(replies) = replies else {
                asked.socket = None;
                continue;
            };
            asked.bitmap = replies.get("replicas").and_then(|replicas| bitmap(replicas, &self.namespace));
            let peers = replies.get("peers-clear-std").map(|text| peers(text)).unwrap_or_default();
            for (_, addresses) in
                peers.into_iter().filter(|(name, _)| !self.nodes.contains_key(name)).collect::<Vec<_>>()
            {
                // The first address that answers; if none does, the next turn is a second later.
                let _ = addresses.into_iter().find_map(|address| {
                    let (host, port) = split_address(&address)?;
                    resolve(host, port).and_then(|address| self.add(address)).ok()
                });
            }
        }
        let mut masters = vec![None; usize::from(PARTITIONS)];
        // A node that does not answer now keeps its partitions, unless another reports them.
        for answers in [false, true] {
            for Asked { node, bitmap, .. } in self.nodes.values().filter(|asked| asked.answers == answers) {
                let Some(bitmap) = bitmap else { continue };
                let owned = |partition: usize| bitmap[partition / 8] & (0x80 >> (partition % 8)) != 0;
                masters
                    .iter_mut()
                    .enumerate()
                    .filter(|(partition, _)| owned(*partition))
                    .for_each(|(_, master)| *master = Some(node.number as u16));
            }
        }
        let nodes = self.order.iter().filter_map(|name| self.nodes.get(name)).map(|asked| asked.node.clone());
        Map { nodes: nodes.collect(), masters }
    }

    /// Namespace settings as a node reports them; empty if none does.
    fn settings(&mut self) -> String {
        let question = format!("namespace/{}", self.namespace);
        let asked = self.nodes.values_mut().find_map(|asked| asked.ask(&[&question]).ok());
        asked.and_then(|mut replies| replies.remove(&question)).unwrap_or_default()
    }

    fn namespaces(&mut self) -> Option<Vec<String>> {
        let asked = self.nodes.values_mut().next()?;
        let replies = asked.ask(&["namespaces"]).ok()?;
        Some(replies.get("namespaces")?.split(';').map(quoted).collect())
    }
}

impl Asked {
    fn ask(&mut self, names: &[&str]) -> io::Result<BTreeMap<String, String>> {
        let socket = match &mut self.socket {
            Some(socket) => socket,
            none => none.insert(connect(self.node.address)?),
        };
        ask(socket, names)
    }
}

/// A node's answers to `names`.
///
/// Errors: no answer in time, or one that violates the protocol.
fn ask(socket: &mut TcpStream, names: &[&str]) -> io::Result<BTreeMap<String, String>> {
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.set_write_timeout(Some(PATIENCE))?;
    let mut request = Vec::new();
    let begin = frame::begin(&mut request, Kind::Info);
    names.iter().for_each(|name| request.extend_from_slice(format!("{name}\n").as_bytes()));
    frame::end(&mut request, begin);
    socket.write_all(&request)?;
    let mut header = [0; frame::HEADER_BYTES];
    socket.read_exact(&mut header)?;
    let (kind, bytes) = frame::header(header, INFO_BYTES_MAX).map_err(io::Error::other)?;
    if kind != Kind::Info {
        return Err(io::Error::other("a reply of another kind than asked for"));
    }
    let mut body = vec![0; bytes];
    socket.read_exact(&mut body)?;
    Ok(replies::answers(&body))
}
