//! The nodes of a cluster and their partitions, queried from the nodes and kept up to date.
//!
//! A thread asks all known nodes once a second, as Aerospike's clients do; issuing threads read the latest map. Replies
//! are not trusted: an empty map, a truncated or endless reply costs the node its partitions, and nothing else.

use super::replies::bitmap;
use crate::nodes::{self, Access, Connection, Host, NODES_MAX, PeersQuery, connect, peers};
use crate::{Digest, PARTITIONS, partition};
use results::units::quoted;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;
use sys::net::Waker;

/// Time between two questions to all nodes.
const TEND: Duration = Duration::from_secs(1);

/// Delay of another query after a node lacked a partition that it had reported.
const ASK_AGAIN: Duration = Duration::from_millis(50);

/// Most addresses of a node that joins during a run: each that does not answer takes a while.
const ADDRESSES_MAX: usize = 8;

/// A node as it was seen last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Number among the nodes of a run; never changes.
    pub number: usize,
    /// The server's name: 16 hex digits.
    pub name: String,
    pub host: Host,
    /// The name in its certificate.
    tls_name: String,
    /// Stands for the password on further connections.
    session: Option<Vec<u8>>,
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
pub struct Cluster {
    access: Arc<Access>,
    map: Arc<Mutex<Arc<Map>>>,
    has_single_bins: bool,
    connect: Sender<Connect>,
    /// Dropping it ends the thread; a message triggers a query at once.
    ask: Sender<()>,
}

/// A connection to a node; or the error number of operations that waited for it, and a sentence.
pub(super) type Connected = Result<Connection, (i32, String)>;

/// A requested connection, and its receiver.
pub(super) struct Connect {
    pub(super) node: Node,
    pub(super) slot: usize,
    pub(super) made: Sender<(usize, Connected)>,
    pub(super) waker: Waker,
}

impl Cluster {
    /// The cluster with one of `seeds` as a node, for `namespace`.
    ///
    /// Errors: none of them answers, or the cluster has no such namespace; a sentence.
    pub fn find(seeds: &[Host], namespace: &str, access: Access) -> Result<Arc<Self>, String> {
        let access = Arc::new(access);
        let query = PeersQuery { tls: access.tls.is_some(), alternate: false };
        let nodes::Cluster { mut nodes, missing } = nodes::find(seeds, Some(query), &access);
        if nodes.is_empty() {
            return Err(format!(
                "cannot find the cluster - no seed answered: {} - check host, port, login and TLS, and that the server runs",
                missing.join("; ")
            ));
        }
        // A run is named after the first node: a seed.
        nodes.sort_by_key(|node| seeds.iter().position(|seed| *seed == node.host).unwrap_or(seeds.len()));
        let nodes = nodes.into_iter().map(Asked::new).collect();
        let mut asker = Asker { namespace: namespace.to_owned(), access: access.clone(), query, nodes };
        let map = asker.ask();
        if map.masters.iter().all(Option::is_none) {
            let has: Vec<_> = asker.nodes[0].node.namespaces.iter().map(|name| quoted(name)).collect();
            return Err(format!(
                "cannot use namespace {} - no node has a partition of it; it has {} - name one of its namespaces (-n)",
                quoted(namespace),
                has.join(", ")
            ));
        }
        let has_single_bins = asker.settings().split(';').any(|pair| pair == "single-bin=true");
        let map = Arc::new(Mutex::new(Arc::new(map)));
        let (ask, asked) = channel();
        let (connect, wanted) = channel();
        let (shared, to_connect) = (map.clone(), access.clone());
        let spawn = |name: &str, body: Box<dyn FnOnce() + Send>| {
            let spawned = thread::Builder::new().name(name.to_owned()).spawn(body);
            spawned.map_err(|error| format!("cannot start a thread that asks the cluster: {error}"))
        };
        spawn("tend", Box::new(move || tend(asker, &shared, &asked)))?;
        spawn("connect", Box::new(move || connect_all(&wanted, &to_connect)))?;
        Ok(Arc::new(Self { access, map, has_single_bins, connect, ask }))
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

    /// A new connection to `node`.
    pub(super) fn connect_now(&self, node: &Node) -> Connected {
        connected(node, &self.access)
    }

    /// Requests a connection.
    pub(super) fn connect(&self, wanted: Connect) {
        let _ = self.connect.send(wanted);
    }
}

/// A new connection to `node`, logged in.
fn connected(node: &Node, access: &Access) -> Connected {
    let socket = connect(&node.host, access.timeout);
    let socket = socket.map_err(|error| (error.raw_os_error().unwrap_or(libc::ETIMEDOUT), error.to_string()))?;
    let connection = Connection::begin(socket, &node.tls_name, access, &mut node.session.clone());
    connection.map_err(|error| (libc::ECONNREFUSED, error))
}

fn connect_all(wanted: &Receiver<Connect>, access: &Access) {
    for Connect { node, slot, made, waker } in wanted {
        if made.send((slot, connected(&node, access))).is_ok() {
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

/// Queries the nodes.
struct Asker {
    namespace: String,
    access: Arc<Access>,
    query: PeersQuery,
    /// Indexed by [`Node::number`].
    nodes: Vec<Asked>,
}

struct Asked {
    node: nodes::Node,
    /// True if the last query succeeded.
    answers: bool,
    /// Its partitions, by its last reply.
    bitmap: Option<Vec<u8>>,
}

impl Asked {
    fn new(node: nodes::Node) -> Self {
        Self { node, answers: true, bitmap: None }
    }
}

impl Asker {
    /// Queries all nodes for their partitions, and adds nodes that they name.
    fn ask(&mut self) -> Map {
        let names = [self.query.name(), "replicas".to_owned()];
        let mut at = 0;
        // Nodes added here are queried in the same turn.
        while let Some(asked) = self.nodes.get_mut(at) {
            at += 1;
            let replies = asked.node.ask(&names, &self.access);
            asked.answers = replies.is_ok();
            let Ok([list, replicas]) = <[_; 2]>::try_from(replies.unwrap_or_default()) else { continue };
            asked.bitmap = replicas.and_then(|replicas| bitmap(&replicas, &self.namespace));
            for peer in list.and_then(|list| peers(&list).ok()).into_iter().flatten().take(NODES_MAX) {
                if self.nodes.len() == NODES_MAX || self.knows(&peer.node) {
                    continue;
                }
                // If none of its addresses answers, the next turn is a second later.
                let hosts = &peer.hosts[..peer.hosts.len().min(ADDRESSES_MAX)];
                match nodes::Node::reach(hosts, peer.tls_name.as_deref(), &self.access) {
                    Ok(node) if !self.knows(&node.id) => self.nodes.push(Asked::new(node)),
                    _ => {}
                }
            }
        }
        let mut masters = vec![None; usize::from(PARTITIONS)];
        // A node that does not answer now keeps its partitions, unless another reports them.
        for answers in [false, true] {
            for (number, asked) in self.nodes.iter().enumerate().filter(|(_, asked)| asked.answers == answers) {
                let Some(bitmap) = &asked.bitmap else { continue };
                let owned = |partition: usize| bitmap[partition / 8] & (0x80 >> (partition % 8)) != 0;
                masters
                    .iter_mut()
                    .enumerate()
                    .filter(|(partition, _)| owned(*partition))
                    .for_each(|(_, master)| *master = Some(number as u16));
            }
        }
        let node = |(number, Asked { node, .. }): (usize, &Asked)| Node {
            number,
            name: node.id.clone(),
            host: node.host.clone(),
            tls_name: node.tls_name.clone(),
            session: node.session.clone(),
            build: node.build.clone(),
            pipelines: node.features.split(';').any(|feature| feature == "pipelining"),
        };
        Map { nodes: self.nodes.iter().enumerate().map(node).collect(), masters }
    }

    fn knows(&self, id: &str) -> bool {
        self.nodes.iter().any(|asked| asked.node.id == id)
    }

    /// Namespace settings as a node reports them; empty if none does.
    fn settings(&mut self) -> String {
        let query = [format!("namespace/{}", self.namespace)];
        let values = self.nodes.iter_mut().find_map(|asked| asked.node.ask(&query, &self.access).ok()?.pop().flatten());
        values.unwrap_or_default()
    }
}
