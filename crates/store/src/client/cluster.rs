//! The nodes of a cluster and their partitions, queried from the nodes and kept up to date.
//!
//! A node keeps its number for the run, also when it returns under another address. Replies are not trusted: an empty map,
//! a truncated or endless reply costs the node its partitions, and nothing else.

use super::tend::{Asker, spawn, tend};
use crate::nodes::{self, Access, Connection, Host, PeersQuery, connect};
use crate::wire::query::begin_of;
use crate::{Digest, partition};
use results::units::quoted;
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use sys::net::Waker;

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
    pub(super) tls_name: String,
    /// Stands for the password on further connections.
    pub(super) session: Option<Vec<u8>>,
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
    pub(super) copies: Vec<Vec<Option<u16>>>,
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
    /// The cluster with one of `seeds` as a node, for `namespace`; `alternate`: by the nodes' alternate addresses.
    ///
    /// Errors: none of them answers, or the cluster has no such namespace; a sentence.
    pub fn find(seeds: &[Host], namespace: &str, access: Access, alternate: bool) -> Result<Arc<Self>, String> {
        let access = Arc::new(access);
        let query = PeersQuery { tls: access.tls.is_some(), alternate };
        let nodes::Cluster { mut nodes, missing } = nodes::find(seeds, Some(query), &access);
        if nodes.is_empty() {
            return Err(format!(
                "cannot find the cluster - no seed answered: {} - check host, port, login and TLS, and that the server runs",
                missing.join("; ")
            ));
        }
        // A run is named after the first node: a seed.
        nodes.sort_by_key(|node| seeds.iter().position(|seed| *seed == node.host).unwrap_or(seeds.len()));
        let mut asker = Asker::new(nodes, namespace, seeds, query, access.clone())?;
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
        spawn("tend", move || tend(asker, &shared, &asked))?;
        spawn("connect", move || connect_all(&wanted, &to_connect))?;
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
            let _ = spawn("connect", move || connect_one(&to_connect, &access));
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
