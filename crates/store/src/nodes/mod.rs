//! Nodes of a cluster, for the commands that query nodes, and for the client. All nodes are found from a few seeds. A
//! node is identified by its id, not by its address.
//!
//! ```text
//! seeds -> find -> DiscoveredNode -> NodeConnection: TCP, then TLS if used, then the login if any
//!                            queries, blocking           DiscoveredNode::ask
//!                            handed over to a ring       client::routes
//! ```
//!
//! * `address`: hosts, and the addresses of peers; `connection`: a blocking connection, plain or TLS
//!
//! Replies are not trusted: each has a limit of bytes and of time, and is checked before it becomes a file name or a
//! message.

mod address;
mod connection;

pub use crate::wire::query::Login;
pub use address::{DEFAULT_PORT, HostPort, Peer, PeersQuery, peers, services};
pub use connection::{Access, NodeConnection, Tls};

pub(crate) use connection::connect;

use crate::wire::query::{begin_of, is_refusal};
use connection::describe_error;
use results::parallel::in_parallel;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

/// Time limit for all addresses of a node, as a multiple of the timeout for one address.
const REACH_TIMEOUTS: u32 = 4;

/// Maximum number of rounds of queries for peers. Each node knows all other nodes, so two rounds usually suffice.
const ROUNDS_MAX: u32 = 8;

const BUILD_BYTES_MAX: usize = 64;

/// Maximum number of nodes of a cluster. Source: the server's `AS_CLUSTER_SZ` is 256 in its largest edition.
pub(crate) const NODES_MAX: usize = 256;

pub struct DiscoveredNode {
    /// Node id: letters and digits, in upper case.
    pub id: String,
    /// Address at which the node was reached.
    pub host: HostPort,
    pub tls_name: String,
    /// Server version: `8.0.0.15`.
    pub build: String,
    pub namespaces: Vec<String>,
    pub(crate) features: String,
    connection: Option<NodeConnection>,
    pub(crate) connections: u64,
    /// Session token: replaces the password on further connections.
    pub(crate) session: Option<Vec<u8>>,
}

impl DiscoveredNode {
    /// A node with known id and address that was not queried yet.
    pub fn known(id: String, host: HostPort, tls_name: String, build: String) -> Self {
        let namespaces = Vec::new();
        let features = String::new();
        Self {
            id,
            host,
            tls_name,
            build,
            namespaces,
            features,
            connection: None,
            connections: 0,
            session: None,
        }
    }

    /// Connects to the first of `hosts` that answers. Each silent host costs a timeout, so the total time is limited.
    pub(crate) fn reach(
        hosts: &[HostPort],
        tls_name: Option<&str>,
        access: &Access,
    ) -> Result<Self, String> {
        let begin = Instant::now();
        let mut errors = Vec::new();
        for host in hosts {
            if begin.elapsed() > REACH_TIMEOUTS * access.timeout {
                errors.push("further addresses of the node were not tried".to_owned());
                break;
            }
            let tls_name = tls_name.unwrap_or(&host.name).to_owned();
            let mut node = Self::known(String::new(), host.clone(), tls_name, String::new());
            match node.introduce(access) {
                Ok(()) => return Ok(node),
                Err(error) => errors.push(format!("{host}: {error}")),
            }
        }
        Err(if errors.is_empty() {
            "the node advertises no address".to_owned()
        } else {
            errors.join("; ")
        })
    }

    fn introduce(&mut self, access: &Access) -> Result<(), String> {
        let names = ["node", "build", "namespaces", "features"].map(str::to_owned);
        let values = self.ask(&names, access)?;
        let [node, build, namespaces, features] = &values[..] else {
            return Err("the reply has no values".to_owned());
        };
        let id = accepted_value(node.as_deref())
            .map(str::to_uppercase)
            .and_then(|id| {
                // The id becomes a file name.
                let is_id = !id.is_empty()
                    && id.len() <= 32
                    && id.chars().all(|c| c.is_ascii_alphanumeric());
                if is_id { Ok(id) } else { Err(begin_of(&id)) }
            });
        self.id = id.map_err(|found| {
            format!("expected a node id such as BB9020011AC4202, found {found}")
        })?;
        let build = accepted_value(build.as_deref()).and_then(|build| {
            let is_version = build.len() <= BUILD_BYTES_MAX
                && build.starts_with(|c: char| c.is_ascii_digit())
                && build.contains('.');
            if is_version {
                Ok(build.to_owned())
            } else {
                Err(begin_of(build))
            }
        });
        self.build =
            build.map_err(|found| format!("expected a version such as 8.0.0.15, found {found}"))?;
        let namespaces = accepted_value(namespaces.as_deref())
            .map_err(|found| format!("expected names of namespaces, found {found}"))?;
        self.namespaces = namespaces
            .split(';')
            .filter(|name| !name.is_empty())
            .map(str::to_owned)
            .collect();
        self.features = features.clone().unwrap_or_default();
        Ok(())
    }

    /// Queries the node. Makes a new connection if there is none, or if the old one is broken.
    pub fn ask(
        &mut self,
        names: &[String],
        access: &Access,
    ) -> Result<Vec<Option<String>>, String> {
        // The server may have closed an idle connection. An error with another cause occurs again on a new connection.
        if let Some(mut connection) = self.connection.take()
            && let Ok(values) = connection.ask(names)
        {
            self.connection = Some(connection);
            return Ok(values);
        }
        let mut connection = self.connect(access)?;
        let values = connection.ask(names)?;
        self.connection = Some(connection);
        Ok(values)
    }

    /// As [`Self::ask`], but returns each value with its name, without the names that the server skips.
    pub fn replies(
        &mut self,
        names: Vec<String>,
        access: &Access,
    ) -> Result<Vec<(String, String)>, String> {
        let values = self.ask(&names, access)?;
        Ok(names
            .into_iter()
            .zip(values)
            .filter_map(|(name, value)| Some((name, value?)))
            .collect())
    }

    fn connect(&mut self, access: &Access) -> Result<NodeConnection, String> {
        let socket = connect(&self.host, access.timeout);
        let socket = socket.map_err(|error| {
            format!(
                "cannot connect - {}",
                describe_error(&error, access.timeout)
            )
        })?;
        let mut connection =
            NodeConnection::begin(socket, &self.tls_name, access, &mut self.session)?;
        if !self.id.is_empty() {
            // Another node may have taken over this address.
            let id = connection
                .ask(&["node".to_owned()])?
                .pop()
                .flatten()
                .unwrap_or_default();
            if !id.eq_ignore_ascii_case(&self.id) {
                return Err(format!(
                    "expected node {} at this address, found node {}",
                    self.id,
                    begin_of(&id)
                ));
            }
        }
        self.connections += 1;
        Ok(connection)
    }

    fn peers(&mut self, query: PeersQuery, access: &Access) -> Result<Vec<Peer>, String> {
        // Servers before 3.10 know only the old request.
        let values = self.ask(&[query.name(), query.old_name().to_owned()], access)?;
        match &values[..] {
            [Some(new), _] if !new.is_empty() && !is_refusal(new) => peers(new),
            // The old request returns only addresses without TLS.
            [_, Some(old)] if !query.uses_tls && !is_refusal(old) => services(old),
            [new, _] => Err(format!(
                "unexpected reply to {}: {}",
                query.name(),
                begin_of(new.as_deref().unwrap_or("nothing"))
            )),
            _ => Err("the reply has no values".to_owned()),
        }
    }
}

impl std::fmt::Display for DiscoveredNode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.id, self.host)
    }
}

/// The value in a reply. Errors: the start of the server's refusal, or "nothing" without a reply.
fn accepted_value(reply: Option<&str>) -> Result<&str, String> {
    match reply {
        Some(value) if !is_refusal(value) => Ok(value),
        other => Err(begin_of(other.unwrap_or("nothing"))),
    }
}

/// The nodes of a cluster that were found. Empty if no seed answered.
pub struct DiscoveredNodes {
    /// The nodes, in the order of their ids.
    pub nodes: Vec<DiscoveredNode>,
    /// For each node that could not be reached or queried, the error.
    pub missing: Vec<String>,
}

/// Finds the nodes of a cluster: the `seeds`, and their peers unless `query` is `None`.
pub fn find_nodes(
    seeds: &[HostPort],
    query: Option<PeersQuery>,
    access: &Access,
) -> DiscoveredNodes {
    let mut nodes: BTreeMap<String, DiscoveredNode> = BTreeMap::new();
    let mut missing = Vec::new();
    // Peers already tried, by id, or by address if the id is unknown.
    let mut tried: BTreeSet<String> = BTreeSet::new();
    let seeds = seeds.iter().filter(|seed| tried.insert(seed.to_string()));
    let mut peers_to_ask: Vec<_> = seeds.cloned().map(Peer::at).collect();
    for _ in 0..ROUNDS_MAX {
        let reached = in_parallel(std::mem::take(&mut peers_to_ask), |peer| {
            let reached = DiscoveredNode::reach(&peer.hosts, peer.tls_name.as_deref(), access);
            reached.map_err(|error| match peer.node.as_str() {
                "" => format!("cannot ask {error}"),
                node => format!("cannot ask node {node}, which other nodes report - {error}"),
            })
        });
        let mut new_nodes = Vec::new();
        let mut peers_of_new = Vec::new();
        for node in reached {
            match node {
                Ok(node)
                    if nodes.contains_key(&node.id)
                        || new_nodes
                            .iter()
                            .any(|other: &DiscoveredNode| other.id == node.id) => {}
                Ok(node) => new_nodes.push(node),
                Err(error) => missing.push(error),
            }
        }
        tried.extend(new_nodes.iter().map(|node| node.id.clone()));
        if let Some(query) = query {
            peers_of_new = in_parallel(&mut new_nodes, |node| {
                node.peers(query, access)
                    .map_err(|error| format!("cannot ask node {node} for its peers - {error}"))
            });
        }
        for peers in peers_of_new {
            match peers {
                Ok(peers) => peers_to_ask.extend(peers.into_iter().filter(|peer| {
                    let host = peer
                        .hosts
                        .first()
                        .map_or_else(String::new, HostPort::to_string);
                    let name = if peer.node.is_empty() {
                        host
                    } else {
                        peer.node.clone()
                    };
                    tried.len() < NODES_MAX && tried.insert(name)
                })),
                Err(error) => missing.push(error),
            }
        }
        nodes.extend(new_nodes.into_iter().map(|node| (node.id.clone(), node)));
    }
    DiscoveredNodes {
        nodes: nodes.into_values().collect(),
        missing,
    }
}
