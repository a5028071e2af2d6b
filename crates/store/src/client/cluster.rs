//! The nodes of a cluster and their partitions, queried from the nodes and kept up to date.
//!
//! ```text
//! once a second, or when a node lacked a partition that it had reported:
//!   nodes that answer -> generations -> if changed: peers, partitions, racks -> PartitionMap
//!   other nodes, unknown peers, seeds -> a separate thread -> nodes that answer
//! ```
//!
//! A node keeps its number for the run, even if it returns with another address. Replies are not trusted: after an
//! invalid, truncated or endless reply, the node's last valid partitions stay in use.

use super::replies::{COPIES_MAX, NodePartitions, parse_partitions, rack};
use crate::nodes::{
    self, Access, HostPort, NODES_MAX, NodeConnection, Peer, PeersQuery, connect, peers,
};
use crate::wire::query::{begin_of, is_refusal};
use crate::{Digest, PARTITIONS, partition};
use results::format::quoted;
use results::parallel::in_parallel;
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;
use sys::net::Waker;

/// Time between two queries of all nodes.
const TEND: Duration = Duration::from_secs(1);

/// Delay of another query after a node lacked a partition that it had reported.
const ASK_AGAIN: Duration = Duration::from_millis(50);

const NAMESPACES_TOLD_MAX: usize = 32;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownNode {
    /// Number among the nodes of a run; never changes.
    pub number: usize,
    /// The id of the server: 16 hex digits.
    pub name: String,
    pub host: HostPort,
    tls_name: String,
    /// Session token: replaces the password on further connections.
    session: Option<Vec<u8>>,
    /// Rack of the node in the namespace; `None` if the server reports no rack.
    pub rack: Option<u32>,
    /// Server version.
    pub build: String,
    /// True if the server accepts several requests on a connection at once.
    pub supports_pipelining: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionMap {
    /// Indexed by the number of the node.
    pub nodes: Vec<KnownNode>,
    /// For each copy and partition: number of the node. The first copy is the master's.
    copies: Vec<Vec<Option<u16>>>,
}

impl PartitionMap {
    /// The numbers of the nodes that have the record, the master first.
    pub fn owners(&self, digest: &Digest) -> impl Iterator<Item = usize> {
        let partition = usize::from(partition(digest));
        self.copies
            .iter()
            .filter_map(move |nodes| nodes[partition].map(usize::from))
    }

    pub fn master(&self, digest: &Digest) -> Option<usize> {
        self.masters()[usize::from(partition(digest))].map(usize::from)
    }

    fn masters(&self) -> &[Option<u16>] {
        &self.copies[0]
    }

    /// Number of partitions of which `node` is the master.
    pub fn owned(&self, node: usize) -> usize {
        self.masters()
            .iter()
            .filter(|master| master.map(usize::from) == Some(node))
            .count()
    }

    pub fn unowned(&self) -> usize {
        self.masters()
            .iter()
            .filter(|master| master.is_none())
            .count()
    }
}

/// A cluster. A thread queries the nodes until this value is dropped.
pub struct ClientCluster {
    pub(super) access: Arc<Access>,
    map: Arc<Mutex<Arc<PartitionMap>>>,
    /// True if records of the namespace have one bin without a name, an option of servers before 7.0.
    pub has_single_bins: bool,
    /// Dropping the sender ends the thread; a message triggers a query at once.
    pub(super) refresh_sender: Sender<()>,
}

/// A connection to a node. Errors: the error number for the waiting operations, and the reason.
pub(super) type ConnectResult = Result<NodeConnection, (i32, String)>;

impl ClientCluster {
    /// Finds the cluster of at least one of `seeds`, for `namespace`. `uses_alternate`: use the nodes' alternate
    /// addresses. Errors: no seed answers, or the cluster has no such namespace.
    pub fn find(
        seeds: &[HostPort],
        namespace: &str,
        access: Access,
        uses_alternate: bool,
    ) -> Result<Arc<Self>, String> {
        let access = Arc::new(access);
        let query = PeersQuery {
            uses_tls: access.tls.is_some(),
            uses_alternate,
        };
        let nodes::DiscoveredNodes { mut nodes, missing } =
            nodes::find_nodes(seeds, Some(query), &access);
        if nodes.is_empty() {
            let why = missing.join("; ");
            let advice = "check host, port, login and TLS, and that the server runs";
            return Err(format!(
                "cannot find the cluster - no seed answered: {why} - {advice}"
            ));
        }
        // Seeds come first, because the run is named after the first node.
        nodes.sort_by_key(|node| {
            seeds
                .iter()
                .position(|seed| *seed == node.host)
                .unwrap_or(seeds.len())
        });
        let mut poller = ClusterPoller::new(nodes, namespace, seeds, query, access.clone())?;
        let map = poller.ask();
        if map.masters().iter().all(Option::is_none) {
            for PolledNode { node, failed, .. } in &poller.nodes {
                if let Some(why) = failed {
                    return Err(format!(
                        "cannot find the partitions of namespace {} - node {node}: {why}",
                        quoted(namespace)
                    ));
                }
            }
            let existing = poller.nodes[0]
                .node
                .namespaces
                .iter()
                .take(NAMESPACES_TOLD_MAX)
                .map(|name| begin_of(name));
            let name = quoted(namespace);
            let existing = existing.collect::<Vec<_>>().join(", ");
            return Err(format!(
                "cannot use namespace {name} - the cluster has only these namespaces: {existing} - \
                 give one of them with -n"
            ));
        }
        let has_single_bins = poller
            .settings()
            .split(';')
            .any(|pair| pair == "single-bin=true");
        let map = Arc::new(Mutex::new(Arc::new(map)));
        let (refresh_sender, refresh_receiver) = channel();
        let shared = map.clone();
        spawn("tend", move || {
            keep_map_current(poller, &shared, &refresh_receiver)
        })?;
        Ok(Arc::new(Self {
            access,
            map,
            has_single_bins,
            refresh_sender,
        }))
    }

    pub fn map(&self) -> Arc<PartitionMap> {
        self.map
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Starts a thread that connects to `node`, and sends `slot` and the connection to `result_sender`.
    pub(super) fn connect(
        &self,
        node: KnownNode,
        slot: usize,
        result_sender: Sender<(usize, ConnectResult)>,
        waker: Waker,
    ) {
        let access = self.access.clone();
        let error_sender = result_sender.clone();
        let spawned = spawn("connect", move || {
            if result_sender
                .send((slot, connect_node(&node, &access)))
                .is_ok()
            {
                waker.wake();
            }
        });
        if let Err(error) = spawned {
            let _ = error_sender.send((slot, Err((libc::EAGAIN, error))));
        }
    }
}

pub(super) fn connect_node(node: &KnownNode, access: &Access) -> ConnectResult {
    let socket = connect(&node.host, access.timeout);
    let socket = socket.map_err(|error| {
        (
            error.raw_os_error().unwrap_or(libc::ETIMEDOUT),
            error.to_string(),
        )
    })?;
    let connection =
        NodeConnection::begin(socket, &node.tls_name, access, &mut node.session.clone());
    connection.map_err(|error| (libc::ECONNREFUSED, error))
}

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> Result<(), String> {
    let spawned = thread::Builder::new().name(name.to_owned()).spawn(body);
    spawned
        .map(drop)
        .map_err(|error| format!("cannot start a thread for cluster queries - {error}"))
}

/// Keeps `map` up to date until the sender of `refresh_receiver` is dropped; a message triggers a query at once.
fn keep_map_current(
    mut poller: ClusterPoller,
    map: &Mutex<Arc<PartitionMap>>,
    refresh_receiver: &Receiver<()>,
) {
    loop {
        match refresh_receiver.recv_timeout(TEND) {
            Err(RecvTimeoutError::Disconnected) => return,
            Ok(()) => {
                // Requests during this delay become one query, so that queries do not disturb the measurement.
                thread::sleep(ASK_AGAIN);
                while refresh_receiver.try_recv().is_ok() {}
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
        let new_map = poller.ask();
        let mut map = map.lock().unwrap_or_else(PoisonError::into_inner);
        if **map != new_map {
            *map = Arc::new(new_map);
        }
    }
}

struct ClusterPoller {
    namespace: String,
    access: Arc<Access>,
    query: PeersQuery,
    seeds: Vec<HostPort>,
    /// Indexed by the number of the node.
    nodes: Vec<PolledNode>,
    /// Sends peers to the thread that looks for them, and receives the nodes that the thread found.
    peer_sender: Sender<Vec<Peer>>,
    node_receiver: Receiver<Vec<nodes::DiscoveredNode>>,
    is_searching: bool,
}

struct PolledNode {
    node: nodes::DiscoveredNode,
    failed: Option<String>,
    /// Generations of peers and partitions at the last query, and the number of that query's connection.
    generations: Option<(Vec<String>, u64)>,
    peers: Vec<Peer>,
    partitions: Option<NodePartitions>,
    rack: Option<u32>,
}

impl PolledNode {
    fn new(node: nodes::DiscoveredNode) -> Self {
        Self {
            node,
            failed: None,
            generations: None,
            peers: Vec::new(),
            partitions: None,
            rack: None,
        }
    }

    fn answers(&self) -> bool {
        self.failed.is_none()
    }

    fn numbered(&self, number: usize) -> KnownNode {
        let node = &self.node;
        KnownNode {
            number,
            name: node.id.clone(),
            host: node.host.clone(),
            tls_name: node.tls_name.clone(),
            session: node.session.clone(),
            rack: self.rack,
            build: node.build.clone(),
            supports_pipelining: node
                .features
                .split(';')
                .any(|feature| feature == "pipelining"),
        }
    }

    /// Queries the node's generations, and peers and partitions if these changed or are unknown. After an error, the
    /// node's last partitions stay in use. An invalid list of peers counts as empty.
    fn refresh(
        &mut self,
        namespace: &str,
        query: PeersQuery,
        access: &Access,
    ) -> Result<(), String> {
        let names = ["peers-generation", "partition-generation"].map(str::to_owned);
        let generations = self.node.ask(&names, access)?;
        let known = generations
            .into_iter()
            .map(|value| value.filter(|value| !is_refusal(value)));
        // The connection is compared, too: after a restart of the node, its generations may be the same by chance.
        let generations = known
            .collect::<Option<Vec<_>>>()
            .map(|known| (known, self.node.connections));
        if generations.is_some() && generations == self.generations {
            return Ok(());
        }
        let names = [&query.name(), "replicas", "rack-ids"].map(str::to_owned);
        let Ok([list, replicas, rack_ids]) = <[_; 3]>::try_from(self.node.ask(&names, access)?)
        else {
            return Err("the reply has no values".to_owned());
        };
        self.peers = list.and_then(|list| peers(&list).ok()).unwrap_or_default();
        self.peers.truncate(NODES_MAX);
        self.partitions = parse_partitions(&replicas.unwrap_or_default(), namespace)?;
        self.rack = rack_ids.and_then(|ids| rack(&ids, namespace));
        self.generations = generations;
        Ok(())
    }
}

impl ClusterPoller {
    fn new(
        nodes: Vec<nodes::DiscoveredNode>,
        namespace: &str,
        seeds: &[HostPort],
        query: PeersQuery,
        access: Arc<Access>,
    ) -> Result<Self, String> {
        let (peer_sender, peer_receiver) = channel::<Vec<Peer>>();
        let (node_sender, node_receiver) = channel();
        let thread_access = access.clone();
        spawn("look for nodes", move || {
            for requested_peers in peer_receiver {
                let reached = in_parallel(requested_peers, |peer: Peer| {
                    nodes::DiscoveredNode::reach(
                        &peer.hosts,
                        peer.tls_name.as_deref(),
                        &thread_access,
                    )
                })
                .into_iter()
                .flatten()
                .collect();
                if node_sender.send(reached).is_err() {
                    return;
                }
            }
        })?;
        let namespace = namespace.to_owned();
        let seeds = seeds.to_vec();
        let nodes = nodes.into_iter().map(PolledNode::new).collect();
        Ok(Self {
            namespace,
            access,
            query,
            seeds,
            nodes,
            peer_sender,
            node_receiver,
            is_searching: false,
        })
    }

    /// Queries the nodes that answered last time. Another thread looks for the other nodes, because it may have to wait
    /// for timeouts.
    fn ask(&mut self) -> PartitionMap {
        while let Ok(found_nodes) = self.node_receiver.try_recv() {
            self.is_searching = false;
            found_nodes.into_iter().for_each(|node| self.add(node));
        }
        let namespace = &self.namespace;
        let query = self.query;
        let access = &*self.access;
        let nodes = self.nodes.iter_mut().filter(|polled| polled.answers());
        in_parallel(nodes, |polled| {
            polled.failed = polled.refresh(namespace, query, access).err()
        });
        let missing_peers = self.missing();
        if !self.is_searching && !missing_peers.is_empty() {
            self.is_searching = self.peer_sender.send(missing_peers).is_ok();
        }
        self.map()
    }

    /// Peers to look for: unknown peers, and nodes that do not answer (at their last address, and at the addresses that
    /// peers report). While any node does not answer, the seeds are included.
    fn missing(&self) -> Vec<Peer> {
        let (reachable, unreachable): (Vec<_>, Vec<_>) =
            self.nodes.iter().partition(|polled| polled.answers());
        let advertised = reachable.iter().flat_map(|polled| &polled.peers);
        let missing_peers =
            advertised.filter(|peer| reachable.iter().all(|polled| polled.node.id != peer.node));
        let missing_peers: BTreeMap<_, _> = missing_peers
            .map(|peer| (&peer.node, peer.clone()))
            .collect();
        let unreachable_peers = unreachable.iter().map(|polled| Peer {
            tls_name: Some(polled.node.tls_name.clone()),
            ..Peer::at(polled.node.host.clone())
        });
        let seeds = self
            .seeds
            .iter()
            .filter(|seed: &&HostPort| {
                !unreachable.is_empty() && reachable.iter().all(|polled| polled.node.host != **seed)
            })
            .cloned()
            .map(Peer::at);
        missing_peers
            .into_values()
            .chain(unreachable_peers)
            .chain(seeds)
            .take(NODES_MAX)
            .collect()
    }

    /// Adds a node, or the new address of a known node that no longer answers at its old address.
    fn add(&mut self, node: nodes::DiscoveredNode) {
        if let Some(known) = self
            .nodes
            .iter_mut()
            .find(|polled| polled.node.id == node.id)
        {
            if !known.answers() {
                // The node keeps its partitions until it is queried, unless another node reports them.
                *known = PolledNode {
                    partitions: known.partitions.take(),
                    ..PolledNode::new(node)
                };
            }
        } else if self.nodes.len() < NODES_MAX {
            self.nodes.push(PolledNode::new(node));
        } else if let Some(replaceable) = self
            .nodes
            .iter_mut()
            .find(|polled| !polled.answers() && polled.partitions.is_none())
        {
            *replaceable = PolledNode::new(node);
        }
    }

    fn map(&self) -> PartitionMap {
        let copy_count = self
            .nodes
            .iter()
            .filter_map(|polled| Some(polled.partitions.as_ref()?.copies.len()))
            .max();
        let mut copies =
            vec![vec![None; usize::from(PARTITIONS)]; copy_count.unwrap_or(1).min(COPIES_MAX)];
        // A node that does not answer keeps its partitions, unless another node reports them.
        let nodes = self.nodes.iter().enumerate();
        let nodes = nodes
            .filter_map(|(number, polled)| Some((number, polled, polled.partitions.as_ref()?)));
        let mut nodes: Vec<_> = nodes.collect();
        nodes.sort_by_key(|(_, polled, partitions)| (polled.answers(), partitions.regime));
        for (number, _, partitions) in nodes {
            for (nodes, bitmap) in copies.iter_mut().zip(&partitions.copies) {
                for (partition, node) in nodes.iter_mut().enumerate() {
                    if bitmap[partition / 8] & (0x80 >> (partition % 8)) != 0 {
                        *node = Some(number as u16);
                    }
                }
            }
        }
        let nodes = self.nodes.iter().enumerate();
        PartitionMap {
            nodes: nodes
                .map(|(number, polled)| polled.numbered(number))
                .collect(),
            copies,
        }
    }

    /// Namespace settings from the first node that reports them; empty if no node does.
    fn settings(&mut self) -> String {
        let query = [format!("namespace/{}", self.namespace)];
        let values = self
            .nodes
            .iter_mut()
            .find_map(|polled| polled.node.ask(&query, &self.access).ok()?.pop().flatten());
        values.unwrap_or_default()
    }
}
