//! The nodes of a cluster and their partitions, queried from the nodes and kept up to date.
//!
//! A thread asks all known nodes for their generations once a second, as Aerospike's clients do, and for peers and
//! partitions after a change; issuing threads read the latest map. A node keeps its number for the run, also when it
//! returns under another address. Replies are not trusted: an empty map, a truncated or endless reply costs the node its
//! partitions, and nothing else.

use super::replies::{COPIES_MAX, Owned, owned, rack, rack_among};
use crate::nodes::{self, Access, Connection, Host, NODES_MAX, Peer, PeersQuery, at_once, connect, peers};
use crate::wire::query::{begin_of, is_refusal};
use crate::{Digest, PARTITIONS, partition};
use results::units::quoted;
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;
use sys::net::Waker;

/// Time between two questions to all nodes.
const TEND: Duration = Duration::from_secs(1);

/// Delay of another query after a node lacked a partition that it had reported.
const ASK_AGAIN: Duration = Duration::from_millis(50);

/// Namespaces that a message names.
const NAMESPACES_TOLD_MAX: usize = 32;

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
    /// Rack of the node in the namespace; `None` if servers report none, as those without racks do.
    pub rack: Option<u32>,
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
    /// By copy and partition: the number of its node. The first copy is the master's.
    copies: Vec<Vec<Option<u16>>>,
}

impl Map {
    /// The numbers of the nodes that have the record, the master first.
    pub fn owners(&self, digest: &Digest) -> impl Iterator<Item = usize> {
        let partition = usize::from(partition(digest));
        self.copies.iter().filter_map(move |nodes| nodes[partition].map(usize::from))
    }

    /// The number of the node that is the record's master, if one is known.
    pub fn master(&self, digest: &Digest) -> Option<usize> {
        self.masters()[usize::from(partition(digest))].map(usize::from)
    }

    /// Number of nodes that have the record.
    pub(super) fn copies(&self, digest: &Digest) -> usize {
        self.owners(digest).count()
    }

    fn masters(&self) -> &[Option<u16>] {
        &self.copies[0]
    }

    /// Partitions of which a node is master.
    pub fn owned(&self, node: usize) -> usize {
        self.masters().iter().filter(|master| master.map(usize::from) == Some(node)).count()
    }

    /// Partitions without a master.
    pub fn unowned(&self) -> usize {
        self.masters().iter().filter(|master| master.is_none()).count()
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
        let (namespace_asked, seeds) = (namespace.to_owned(), seeds.to_vec());
        let mut asker = Asker { namespace: namespace_asked, access: access.clone(), query, seeds, nodes };
        let map = asker.ask();
        if map.masters().iter().all(Option::is_none) {
            let failed = asker.nodes.iter().find_map(|asked| Some((&asked.node, asked.failed.as_ref()?)));
            if let Some((node, why)) = failed {
                return Err(format!(
                    "cannot use namespace {} - node {node} does not report its partitions: {why} - check that it is a server \
                     of this protocol, in good health",
                    quoted(namespace)
                ));
            }
            let has = asker.nodes[0].node.namespaces.iter().take(NAMESPACES_TOLD_MAX).map(|name| begin_of(name));
            let has: Vec<_> = has.collect();
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

fn connect_all(wanted: &Receiver<Connect>, access: &Arc<Access>) {
    // A thread for each node: one that does not answer holds up no other.
    let mut nodes: BTreeMap<usize, Sender<Connect>> = BTreeMap::new();
    for connect in wanted {
        let node = nodes.entry(connect.node.number).or_insert_with(|| {
            let ((wanted, to_connect), access) = (channel(), access.clone());
            // Without a thread the request is dropped, and the operations that wait for it time out.
            let _ = thread::Builder::new().name("connect".to_owned()).spawn(move || connect_one(&to_connect, &access));
            wanted
        });
        let _ = node.send(connect);
    }
}

fn connect_one(wanted: &Receiver<Connect>, access: &Access) {
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
    seeds: Vec<Host>,
    /// Indexed by [`Node::number`].
    nodes: Vec<Asked>,
}

struct Asked {
    node: nodes::Node,
    /// Why the last query failed, if it did.
    failed: Option<String>,
    /// Generations of peers and partitions, and the connection that they came on, at the last reply about these.
    generations: Option<(Vec<String>, u64)>,
    peers: Vec<Peer>,
    owned: Option<Owned>,
    rack: Option<u32>,
}

impl Asked {
    fn new(node: nodes::Node) -> Self {
        Self { node, failed: None, generations: None, peers: Vec::new(), owned: None, rack: None }
    }

    fn answers(&self) -> bool {
        self.failed.is_none()
    }

    /// Queries the node for its generations, and for peers and partitions if they changed or are unknown.
    ///
    /// Errors: it does not answer, or nonsense, a sentence. Its last valid replies hold.
    fn refresh(&mut self, namespace: &str, query: PeersQuery, access: &Access) -> Result<(), String> {
        let names = ["peers-generation", "partition-generation"].map(str::to_owned);
        let generations = self.node.ask(&names, access)?;
        let known = generations.into_iter().map(|value| value.filter(|value| !is_refusal(value)));
        // After a restart of the node its generations may be the same by chance.
        let generations = known.collect::<Option<Vec<_>>>().map(|known| (known, self.node.connections));
        if generations.is_some() && generations == self.generations {
            return Ok(());
        }
        let names = [&query.name(), "replicas", "rack-ids", "racks:"].map(str::to_owned);
        let Ok([list, replicas, rack_ids, racks]) = <[_; 4]>::try_from(self.node.ask(&names, access)?) else {
            return Err("it answers nothing".to_owned());
        };
        self.peers = list.and_then(|list| peers(&list).ok()).unwrap_or_default();
        self.peers.truncate(NODES_MAX);
        self.owned = owned(&replicas.unwrap_or_default(), namespace)?;
        self.rack = rack_ids.and_then(|ids| rack(&ids, namespace));
        self.rack = self.rack.or_else(|| rack_among(&racks?, namespace, &self.node.id));
        self.generations = generations;
        Ok(())
    }
}

impl Asker {
    /// Queries all nodes for their partitions, and adds nodes that they name.
    fn ask(&mut self) -> Map {
        let mut from = 0;
        // Nodes added here are queried in the same turn.
        while from < self.nodes.len() {
            let (namespace, query, access) = (&self.namespace, self.query, &*self.access);
            let nodes = self.nodes[from..].iter_mut().collect();
            at_once(nodes, |asked: &mut Asked| asked.failed = asked.refresh(namespace, query, access).err());
            from = self.nodes.len();
            self.join();
        }
        self.map()
    }

    /// Looks for nodes that peers name and that are unknown or do not answer at their last address; while a node does
    /// not answer, also behind the seeds.
    fn join(&mut self) {
        let is_known = |peer: &Peer| {
            let known = self.nodes.iter().find(|asked| asked.node.id == peer.node);
            known.is_some_and(|asked| asked.answers() || peer.hosts.contains(&asked.node.host))
        };
        let named = self.nodes.iter().filter(|asked| asked.answers()).flat_map(|asked| &asked.peers);
        let mut wanted: BTreeMap<String, Peer> =
            named.filter(|peer| !is_known(peer)).map(|peer| (peer.node.clone(), peer.clone())).collect();
        if self.nodes.iter().any(|asked| !asked.answers()) {
            let is_at = |seed: &Host| self.nodes.iter().any(|asked| asked.answers() && asked.node.host == *seed);
            let seeds = self.seeds.iter().filter(|seed| !is_at(seed));
            let peer = |seed: &Host| Peer { node: String::new(), tls_name: None, hosts: vec![seed.clone()] };
            wanted.extend(seeds.map(|seed| (seed.to_string(), peer(seed))));
        }
        let wanted: Vec<_> = wanted.into_values().take(NODES_MAX).collect();
        let access = &*self.access;
        let reached = at_once(wanted, |peer| nodes::Node::reach(&peer.hosts, peer.tls_name.as_deref(), access));
        reached.into_iter().flatten().for_each(|node| self.add(node));
    }

    /// Adds a node, or a new address of one that no longer answers at its last one.
    fn add(&mut self, node: nodes::Node) {
        if let Some(known) = self.nodes.iter_mut().find(|asked| asked.node.id == node.id) {
            if !known.answers() {
                // Its partitions hold until it is queried, unless another node reports them.
                let (failed, owned) = (known.failed.take(), known.owned.take());
                *known = Asked { failed, owned, ..Asked::new(node) };
            }
        } else if self.nodes.len() < NODES_MAX {
            self.nodes.push(Asked::new(node));
        } else if let Some(left) = self.nodes.iter_mut().find(|asked| !asked.answers() && asked.owned.is_none()) {
            *left = Asked::new(node);
        }
    }

    fn map(&self) -> Map {
        let most = self.nodes.iter().filter_map(|asked| Some(asked.owned.as_ref()?.copies.len())).max();
        let mut copies = vec![vec![None; usize::from(PARTITIONS)]; most.unwrap_or(1).min(COPIES_MAX)];
        // A node that does not answer now keeps its partitions, unless another reports them.
        let mut nodes: Vec<_> =
            self.nodes.iter().enumerate().filter_map(|(at, asked)| Some((at, asked, asked.owned.as_ref()?))).collect();
        nodes.sort_by_key(|(_, asked, owned)| (asked.answers(), owned.regime));
        for (number, _, owned) in nodes {
            for (nodes, bitmap) in copies.iter_mut().zip(&owned.copies) {
                let is_owned = |partition: usize| bitmap[partition / 8] & (0x80 >> (partition % 8)) != 0;
                let owned = nodes.iter_mut().enumerate().filter(|(partition, _)| is_owned(*partition));
                owned.for_each(|(_, node)| *node = Some(number as u16));
            }
        }
        let node = |(number, Asked { node, rack, .. }): (usize, &Asked)| Node {
            number,
            name: node.id.clone(),
            host: node.host.clone(),
            tls_name: node.tls_name.clone(),
            session: node.session.clone(),
            rack: *rack,
            build: node.build.clone(),
            pipelines: node.features.split(';').any(|feature| feature == "pipelining"),
        };
        Map { nodes: self.nodes.iter().enumerate().map(node).collect(), copies }
    }

    /// Namespace settings as a node reports them; empty if none does.
    fn settings(&mut self) -> String {
        let query = [format!("namespace/{}", self.namespace)];
        let values = self.nodes.iter_mut().find_map(|asked| asked.node.ask(&query, &self.access).ok()?.pop().flatten());
        values.unwrap_or_default()
    }
}
