//! Two network namespaces for two nodes, which can be cut off from each other and stay reachable from here.

use super::{Bench, FLASHPROOF, Undo, tool};
use std::net::{IpAddr, Ipv4Addr};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// The two namespaces, removed when dropped.
pub struct Networks {
    names: [String; 2],
    /// Number of the block of 16 addresses in 198.18.0.0/15, a range for such tests (RFC 2544).
    slot: u32,
    _undo: Vec<Undo>,
}

impl Networks {
    /// `None`, with a message, without permission or without the program `ip`.
    pub fn new() -> Option<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let id = std::process::id();
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let names = ["a", "b"].map(|side| format!("fp{id}{side}{count}"));
        let mut undo = Vec::new();
        for name in &names {
            ip(&format!("netns add {name}"))?;
            // The deletion of a namespace also deletes its links.
            undo.push(Undo::with("ip", &["netns", "del", name]));
        }
        let this = Self {
            names,
            slot: (id * 8 + count) % 8192,
            _undo: undo,
        };
        for (name, side) in this.names.iter().zip(0..) {
            ip(&format!(
                "link add {name}h type veth peer name eth0 netns {name}"
            ))?;
            ip(&format!("addr add {}/30 dev {name}h", this.host(side, 1)))?;
            ip(&format!("link set {name}h up"))?;
            ip(&format!(
                "-n {name} addr add {}/30 dev eth0",
                this.address(side)
            ))?;
            ip(&format!("-n {name} link set eth0 up"))?;
        }
        let [a, b] = &this.names;
        ip(&format!(
            "-n {a} link add eth1 type veth peer name eth1 netns {b}"
        ))?;
        for (name, node) in this.names.iter().zip(0..) {
            ip(&format!(
                "-n {name} addr add {}/30 dev eth1",
                this.host(2, node + 1)
            ))?;
        }
        this.join("up");
        Some(this)
    }

    /// Address of end `host` (1 or 2) of a link. Links 0 and 1 lead from here to the two nodes; link 2 joins the nodes.
    fn host(&self, link: u32, host: u32) -> Ipv4Addr {
        Ipv4Addr::from_bits(
            Ipv4Addr::new(198, 18, 0, 0).to_bits() + self.slot * 16 + link * 4 + host,
        )
    }

    /// Address of a node, for clients here and for the other node.
    pub fn address(&self, node: u32) -> IpAddr {
        self.host(node, 2).into()
    }

    /// Joins the nodes (`up`), or cuts them off from each other (`down`), which discards packets in flight.
    pub fn join(&self, state: &str) {
        for (name, node) in self.names.iter().zip(0..) {
            ip(&format!("-n {name} link set eth1 {state}")).unwrap();
            if state == "up" {
                let other = self.address(1 - node);
                let via = self.host(2, 2 - node);
                ip(&format!(
                    "-n {name} route add {other}/32 via {via} src {}",
                    self.address(node)
                ))
                .unwrap();
            }
        }
    }

    /// The binary in the network of a node.
    pub fn command(&self, bench: &Bench, node: usize, arguments: &[&str]) -> Command {
        let mut command = bench.command("ip");
        command
            .args(["netns", "exec", &self.names[node], FLASHPROOF])
            .args(arguments);
        command
    }
}

fn ip(line: &str) -> Option<String> {
    tool("ip", &line.split(' ').collect::<Vec<_>>())
}
