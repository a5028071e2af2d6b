//! Queries of the nodes: generations once a second, partitions after a change, and nodes that are missing.
//!
//! ```text
//! tend: every second, or when a node lacked a partition that it had reported
//!   nodes that answer -> generations -> if changed: peers, partitions, racks -> Map
//!   nodes that do not, peers that are unknown, seeds -> a thread of their own -> nodes that answer
//! ```

use super::cluster::{Map, Node};
use super::replies::{COPIES_MAX, Owned, owned, rack, rack_among};
use crate::PARTITIONS;
use crate::nodes::{self, Access, Host, NODES_MAX, Peer, PeersQuery, at_once, peers};
use crate::wire::query::is_refusal;
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// Time between two questions to all nodes.
const TEND: Duration = Duration::from_secs(1);

/// Delay of another query after a node lacked a partition that it had reported.
const ASK_AGAIN: Duration = Duration::from_millis(50);

/// Starts a thread.
///
/// Errors: the system allows none, a sentence.
pub(super) fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> Result<(), String> {
    let spawned = thread::Builder::new().name(name.to_owned()).spawn(body);
    spawned.map(drop).map_err(|error| format!("cannot start a thread that asks the cluster: {error}"))
}

/// Keeps `map` up to date until the sender of `asked` is dropped; a message triggers a query at once.
pub(super) fn tend(mut asker: Asker, map: &Mutex<Arc<Map>>, asked: &Receiver<()>) {
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
pub(super) struct Asker {
    namespace: String,
    access: Arc<Access>,
    query: PeersQuery,
    seeds: Vec<Host>,
    /// Indexed by [`Node::number`].
    pub(super) nodes: Vec<Asked>,
    /// Peers for the thread that looks for them, and the nodes that it found.
    wanted: Sender<Vec<Peer>>,
    found: Receiver<Vec<nodes::Node>>,
    is_looking: bool,
}

pub(super) struct Asked {
    pub(super) node: nodes::Node,
    /// Why the last query failed, if it did.
    pub(super) failed: Option<String>,
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
    /// Queries `nodes` for `namespace`, and nodes that join them.
    ///
    /// Errors: no thread, a sentence.
    pub(super) fn new(
        nodes: Vec<nodes::Node>,
        namespace: &str,
        seeds: &[Host],
        query: PeersQuery,
        access: Arc<Access>,
    ) -> Result<Self, String> {
        let ((wanted, to_look), (tell, found)) = (channel::<Vec<Peer>>(), channel());
        let looking = access.clone();
        spawn("look for nodes", move || {
            for wanted in to_look {
                let reach = |peer: Peer| nodes::Node::reach(&peer.hosts, peer.tls_name.as_deref(), &looking);
                let reached = at_once(wanted, reach).into_iter().flatten().collect();
                if tell.send(reached).is_err() {
                    return;
                }
            }
        })?;
        let (namespace, seeds) = (namespace.to_owned(), seeds.to_vec());
        let nodes = nodes.into_iter().map(Asked::new).collect();
        Ok(Self { namespace, access, query, seeds, nodes, wanted, found, is_looking: false })
    }

    /// Queries all nodes that answer for their partitions, and has others looked for, which takes their time-outs.
    pub(super) fn ask(&mut self) -> Map {
        while let Ok(found) = self.found.try_recv() {
            self.is_looking = false;
            found.into_iter().for_each(|node| self.add(node));
        }
        let (namespace, query, access) = (&self.namespace, self.query, &*self.access);
        let nodes = self.nodes.iter_mut().filter(|asked| asked.answers()).collect();
        at_once(nodes, |asked: &mut Asked| asked.failed = asked.refresh(namespace, query, access).err());
        let wanted = self.missing();
        if !self.is_looking && !wanted.is_empty() {
            self.is_looking = self.wanted.send(wanted).is_ok();
        }
        self.map()
    }

    /// Nodes that do not answer, at their last address and those that peers name; unknown peers; and while a node does not
    /// answer, the seeds.
    fn missing(&self) -> Vec<Peer> {
        let (here, away): (Vec<_>, Vec<_>) = self.nodes.iter().partition(|asked| asked.answers());
        let mut missing = BTreeMap::new();
        // Of several addresses the first that answers is taken: first those that peers name now.
        for peer in here.iter().flat_map(|asked| &asked.peers) {
            if here.iter().all(|asked| asked.node.id != peer.node) {
                missing.insert(peer.node.clone(), peer.clone());
            }
        }
        for Asked { node, .. } in &away {
            let tls_name = Some(node.tls_name.clone());
            let peer = Peer { node: node.id.clone(), tls_name, hosts: Vec::new() };
            let hosts = &mut missing.entry(node.id.clone()).or_insert(peer).hosts;
            if !hosts.contains(&node.host) {
                hosts.push(node.host.clone());
            }
        }
        let is_missing = |seed: &&Host| !away.is_empty() && here.iter().all(|asked| asked.node.host != **seed);
        let seed = |seed: &Host| Peer { node: String::new(), tls_name: None, hosts: vec![seed.clone()] };
        let seeds = self.seeds.iter().filter(is_missing).map(seed);
        missing.into_values().chain(seeds).take(NODES_MAX).collect()
    }

    /// Adds a node, or a new address of one that no longer answers at its last one.
    fn add(&mut self, node: nodes::Node) {
        if let Some(known) = self.nodes.iter_mut().find(|asked| asked.node.id == node.id) {
            if !known.answers() {
                // Its partitions hold until it is queried, unless another node reports them.
                *known = Asked { owned: known.owned.take(), ..Asked::new(node) };
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
    pub(super) fn settings(&mut self) -> String {
        let query = [format!("namespace/{}", self.namespace)];
        let values = self.nodes.iter_mut().find_map(|asked| asked.node.ask(&query, &self.access).ok()?.pop().flatten());
        values.unwrap_or_default()
    }
}
