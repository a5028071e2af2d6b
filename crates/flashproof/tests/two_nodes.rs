//! A cluster of two nodes, each a `flashproof engine serve` of its own. Each record is on both nodes.

use crate::serve_clients;
use crate::support::{
    Answer, Bench, LoopDevice, Networks, OUT, Running, ask, listening, serve_as, statistic, tool,
    words,
};
use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::thread;
use std::time::{Duration, Instant};
use store::ops::particle;
use store::server::{Cluster, ClusterNode};

pub(crate) const OK: u8 = 0;
pub(crate) const TIMEOUT: u8 = 9;

const PATIENCE: Duration = Duration::from_secs(60);

const NAMES: [&str; 2] = ["a", "b"];

/// A long timeout of transactions, for busy machines.
pub(crate) const PATIENT: &str = "transaction-max-ms 20000";

/// Log text of a node when both have all records.
pub(crate) const PAIRED: &str = "paired with node";

/// Two addresses that are known before a server listens: free ports of a loopback address that only this process uses.
fn addresses() -> [SocketAddr; 2] {
    let [_, a, b, c] = std::process::id().to_be_bytes();
    let ip = IpAddr::V4(Ipv4Addr::new(127, 128 | a, b, c));
    let free = [
        TcpListener::bind((ip, 0)).unwrap(),
        TcpListener::bind((ip, 0)).unwrap(),
    ];
    free.map(|listener| listener.local_addr().unwrap())
}

pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < PATIENCE, "not until {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        (0..self.devices.len()).for_each(|node| self.set_device(node, "setrw"));
    }
}

pub(crate) struct Pair {
    pub(crate) bench: Bench,
    pub(crate) addresses: [SocketAddr; 2],
    /// Lines of `service`, of `namespace`, and of its `storage-engine`; `NODE` is the node's name.
    settings: [&'static str; 3],
    networks: Option<Networks>,
    /// The nodes' devices; empty: files.
    devices: Vec<LoopDevice>,
}

impl Pair {
    pub(crate) fn new(settings: [&'static str; 3]) -> Self {
        let devices = Vec::new();
        Self {
            bench: Bench::new(),
            addresses: addresses(),
            settings,
            networks: None,
            devices,
        }
    }

    /// Nodes on loop devices, which can be made to fail. `None`, with a message, without root.
    pub(crate) fn failing(settings: [&'static str; 3]) -> Option<Self> {
        let mut pair = Self::new(settings);
        for name in NAMES {
            pair.devices.push(LoopDevice::on(
                pair.bench.path(format!("{name}.records")),
                128 << 20,
                &[],
            )?);
        }
        Some(pair)
    }

    /// From now on, writes to the device of `node` fail (`setro`) or succeed again (`setrw`).
    pub(crate) fn set_device(&self, node: usize, state: &str) {
        let option = format!("--{state}");
        tool("blockdev", &[&option, &self.devices[node].name]).expect("blockdev");
    }

    /// Nodes in separate networks, which can be cut off. `None`, with a message, if networks are forbidden.
    pub(crate) fn separable(settings: [&'static str; 3]) -> Option<Self> {
        let networks = Networks::new()?;
        let addresses = [0, 1].map(|node| SocketAddr::new(networks.address(node), 3000));
        let devices = Vec::new();
        Some(Self {
            bench: Bench::new(),
            addresses,
            settings,
            networks: Some(networks),
            devices,
        })
    }

    pub(crate) fn join(&self, state: &str) {
        self.networks
            .as_ref()
            .expect("a separable pair")
            .join(state);
    }

    /// The configuration of a node, with the lines `network` in its `network` section.
    fn config(&self, node: usize, network: &str) -> String {
        let ([service, namespace, storage], at, name) =
            (self.settings, self.addresses[node], NAMES[node]);
        let place = match self.devices.get(node) {
            Some(device) => format!("device {}", device.name),
            None if storage.contains("filesize") => format!("file {name}.records"),
            None => format!("file {name}.records\n filesize 32M"),
        };
        format!(
            "service {{\n service-threads 2\n {service}\n}}\nnetwork {{\n service {{\n address {}\n port {}\n }}\n{network}}}\n\
             namespace test {{\n {namespace}\n storage-engine device {{\n {place}\n \
             write-block-size 32K\n {storage}\n }}\n}}\n",
            at.ip(),
            at.port()
        )
        .replace("NODE", name)
    }

    pub(crate) fn start(&self, node: usize) -> Option<Running> {
        self.start_with(node, &[])
    }

    fn start_with(&self, node: usize, more: &[&str]) -> Option<Running> {
        let seeds = self
            .addresses
            .map(|at| format!("mesh-seed-address-port {} {}\n", at.ip(), at.port()))
            .concat();
        let config = self.config(node, &format!("heartbeat {{\n mode mesh\n{seeds}}}\n"));
        let name = format!("{}.conf", NAMES[node]);
        self.bench.write(&name, config);
        let serve = [&["engine", "serve", &name], more].concat();
        let command = match &self.networks {
            Some(networks) => networks.command(&self.bench, node, &serve),
            None => self.bench.prepare(&serve),
        };
        Some(listening(Running::start(command))?.0)
    }

    pub(crate) fn start_both(&self) -> Option<[Running; 2]> {
        let mut nodes = [self.start(0)?, self.start(1)?];
        nodes.iter_mut().for_each(|node| node.wait_to_hear(PAIRED));
        Some(nodes)
    }

    /// A client that finds both nodes through the first.
    pub(crate) fn client(&self, more: &[&str]) -> Running {
        let ip = self.addresses[0].ip();
        let port = self.addresses[0].port();
        let common = format!(
            "engine client -h {ip} -p {port} -k 1000 -o B:500 -z 8 --verify --sla 100%>3600s -s"
        );
        Running::start(
            self.bench
                .prepare(&[&words(&common)[..], &[""], more].concat()),
        )
    }

    /// The first key from `from` on whose master is this node.
    pub(crate) fn key_of(&self, node: usize, from: u64) -> u64 {
        let nodes = self
            .addresses
            .map(|at| ClusterNode::new(&at.ip().to_string(), at.port()));
        let cluster = Cluster::new(nodes.to_vec(), node);
        let partition =
            |key: u64| store::partition(&store::digest(b"", particle::INTEGER, &key.to_be_bytes()));
        (from..)
            .find(|key| cluster.has(partition(*key), 0))
            .unwrap()
    }

    /// The records of keys below `keys` that a node has, as master or replica. The node is started alone for this.
    pub(crate) fn records(&self, node: usize, keys: u64) -> Vec<Answer> {
        let config = self.config(node, "").replace(
            "namespace test {",
            "namespace test {\n replication-factor 1",
        );
        let (running, address) =
            serve_as(&self.bench, "alone.conf", &config, &[]).expect("it ran before");
        let records = (0..keys).map(|key| ask(address, key, None)).collect();
        running.terminate();
        records
    }
}

/// True if all threads of a process are stopped.
pub(crate) fn stands_still(pid: u32) -> bool {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let mut states = threads
        .map(|thread| fs::read_to_string(thread.unwrap().path().join("stat")).unwrap_or_default());
    states.all(|stat| {
        stat.rsplit(')')
            .next()
            .is_some_and(|rest| rest.trim_start().starts_with('T'))
    })
}

/// Inserts records, stops the replica, and expects `answer` to a write. Finally both nodes must have the same records.
fn copies_are_the_same(pair: &Pair, answer: u8) -> Option<()> {
    let [a, b] = pair.start_both()?;
    pair.client(&["-w", "I", "-T", "20000", "--out", OUT])
        .end()
        .expect(0);
    let more = pair.key_of(0, 1000);
    b.signal("STOP");
    // Threads stop one by one. A thread that still runs could answer.
    until("it stands still", || stands_still(b.pid()));
    assert_eq!(ask(pair.addresses[0], more, Some(b"more")).result, answer);
    b.signal("CONT");
    pair.addresses
        .iter()
        .for_each(|at| until("it has all", || statistic(at, "objects") == 1001));
    [a, b].into_iter().for_each(Running::terminate);
    let of_a = pair.records(0, more + 1);
    let of_b = pair.records(1, more + 1);
    assert_eq!(
        of_a[more as usize],
        Answer {
            result: OK,
            generation: 1,
            value: b"more".to_vec()
        }
    );
    assert!(
        of_a[..1000]
            .iter()
            .all(|record| record.result == OK && record.value.len() == 500)
    );
    assert_eq!(of_a, of_b);
    Some(())
}

#[test]
fn a_write_is_acknowledged_only_when_both_nodes_have_the_record() {
    let pair = Pair::new(["transaction-max-ms 300", "", ""]);
    if copies_are_the_same(&pair, TIMEOUT).is_none() {
        return;
    }
    // The log says that this node does not fetch data that it had only in memory before a kill.
    let alone = pair.start(1).unwrap();
    let said = alone.said();
    assert!(
        said.contains("1001 records of an earlier run") && said.contains("does not fetch records"),
        "{said}"
    );
    alone.terminate();
}

#[test]
fn with_master_only_acknowledgement_a_write_is_acknowledged_before_both_nodes_have_it() {
    copies_are_the_same(
        &Pair::new([PATIENT, "write-commit-level-override master", ""]),
        OK,
    );
}

#[test]
fn aerospikes_python_client_finds_both_nodes_and_succeeds() {
    let Some(client) = serve_clients::client() else {
        return;
    };
    let pair = Pair::new([PATIENT, "nsup-period 1", ""]);
    let Some([a, b]) = pair.start_both() else {
        return;
    };
    assert!(serve_clients::steps(&client, pair.addresses[1]).contains("2 nodes"));
    // The remaining records, without the expired one.
    pair.addresses
        .iter()
        .for_each(|at| until("copies are the same", || statistic(at, "objects") == 5));
    [a, b].into_iter().for_each(Running::terminate);
}

/// Both nodes get a second namespace. The node that stopped first misses a write of the other node, which took over.
#[test]
fn a_new_namespace_on_both_nodes_needs_no_manual_step() {
    for last in [0, 1] {
        let mut pair = Pair::new([PATIENT, "", ""]);
        let Some(nodes) = pair.start_both() else {
            return;
        };
        let mut nodes = nodes.map(Some);
        nodes[1 - last].take().unwrap().terminate();
        until("it is written", || {
            ask(pair.addresses[last], 1, Some(b"last")).result == OK
        });
        nodes[last].take().unwrap().terminate();
        pair.settings[2] = "filesize 32M\n }\n}\nnamespace second {\n storage-engine device {\n file NODE.second\n \
                            filesize 32M\n write-block-size 32K";
        let both = pair.start_both().unwrap();
        for at in pair.addresses {
            until("it answers", || ask(at, 1, None).value == b"last");
        }
        both.into_iter().for_each(Running::terminate);
    }
}

/// Without the wait, the other node would overwrite records that only this node acknowledged.
#[test]
fn both_nodes_wait_for_the_operator_if_the_node_that_took_over_lost_records() {
    let pair = Pair::new([PATIENT, "", "commit-to-device true"]);
    let Some([a, b]) = pair.start_both() else {
        return;
    };
    b.terminate();
    for key in 0..400 {
        until("it is written", || {
            ask(pair.addresses[0], key, Some(&[7; 500])).result == OK
        });
    }
    a.terminate();
    damage(&pair, "a.records");
    let waits = |mut nodes: [Running; 2]| {
        nodes
            .iter_mut()
            .for_each(|node| node.wait_to_hear("lacks records"));
        pair.addresses
            .iter()
            .for_each(|at| assert_ne!(ask(*at, 1, None).result, OK));
        nodes.into_iter().for_each(Running::terminate);
    };
    waits([
        pair.start_with(0, &["--accept-losses"]).unwrap(),
        pair.start(1).unwrap(),
    ]);
    // --accept-losses is not needed again.
    waits([pair.start(0).unwrap(), pair.start(1).unwrap()]);
    fs::remove_file(pair.bench.path("b.records")).unwrap();
    pair.start_both()
        .unwrap()
        .into_iter()
        .for_each(Running::terminate);
    let of_a = pair.records(0, 400);
    let of_b = pair.records(1, 400);
    let left = of_a
        .iter()
        .filter(|record| record.value == [7; 500])
        .count();
    assert!((200..400).contains(&left), "{left} of 400 records are left");
    assert_eq!(of_a, of_b);
}

/// Damages the first write blocks of the first core of a file.
fn damage(pair: &Pair, name: &str) {
    let mut bytes = pair.bench.read(name);
    (0..16).for_each(|at| bytes[(8 << 20) + 300 + at * 4096] ^= 1);
    pair.bench.write(name, &bytes);
}

/// While both nodes are stopped, one of them loses records, which the other node still has.
#[test]
fn a_damaged_node_gets_its_records_from_the_other_whichever_stopped_first() {
    for (damaged, stopped_first) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        let pair = Pair::new([PATIENT, "", "commit-to-device true"]);
        let Some(nodes) = pair.start_both() else {
            return;
        };
        let mut nodes = nodes.map(Some);
        for key in 0..400 {
            until("it is written", || {
                ask(pair.addresses[0], key, Some(&[7; 500])).result == OK
            });
        }
        nodes[stopped_first].take().unwrap().terminate();
        nodes[1 - stopped_first].take().unwrap().terminate();
        damage(&pair, ["a.records", "b.records"][damaged]);
        let start = |node| {
            pair.start_with(
                node,
                if node == damaged {
                    &["--accept-losses"]
                } else {
                    &[]
                },
            )
            .unwrap()
        };
        let mut both = [start(0), start(1)];
        both.iter_mut().for_each(|node| node.wait_to_hear(PAIRED));
        both.into_iter().for_each(Running::terminate);
        let of_a = pair.records(0, 400);
        let of_b = pair.records(1, 400);
        assert!(
            of_a == of_b && of_a.iter().all(|record| record.value == [7; 500]),
            "{damaged} {stopped_first}"
        );
    }
}

/// A node is started with a copy of its file that is older than the last pairing.
#[test]
fn a_node_with_an_older_copy_of_its_device_gets_the_newer_records_of_the_other_node() {
    for restored in [0, 1] {
        let pair = Pair::new([PATIENT, "", "commit-to-device true"]);
        let Some(nodes) = pair.start_both() else {
            return;
        };
        let write = |value: &[u8]| {
            (0..200).for_each(|key| {
                until("it is written", || {
                    ask(pair.addresses[0], key, Some(value)).result == OK
                })
            });
        };
        write(b"old");
        nodes.into_iter().for_each(Running::terminate);
        let name = ["a.records", "b.records"][restored];
        let copy = pair.bench.read(name);
        let nodes = pair.start_both().unwrap();
        write(b"new");
        nodes.into_iter().for_each(Running::terminate);
        pair.bench.write(name, &copy);
        let mut nodes = pair.start_both().unwrap();
        nodes
            .iter_mut()
            .for_each(|node| node.wait_to_hear("hold an older state"));
        nodes.into_iter().for_each(Running::terminate);
        let of_a = pair.records(0, 200);
        let of_b = pair.records(1, 200);
        assert!(
            of_a == of_b && of_a.iter().all(|record| record.value == b"new"),
            "node {restored} was restored"
        );
    }
}
