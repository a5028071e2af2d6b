//! Tests of a node of a pair. The test plays the other node.

use super::super::node_message::{NodeMessage, take};
use super::super::pair::{Greeting, ModeVersion, PairMode};
use super::*;
use crate::observe::Facts;
use results::testing::modified;

/// The other node, with its connection to the only core of the node under test.
struct PlayedNode {
    node: ClusterNode,
    socket: TcpStream,
    input: Vec<u8>,
}

impl PlayedNode {
    /// Starts a node without records, and accepts the node's connection in place of the other node.
    fn beside() -> Option<(Bench, Self)> {
        let own = listener();
        let other = listener();
        let nodes = [&own, &other]
            .map(|of| ClusterNode::new("127.0.0.1", of.local_addr().unwrap().port()))
            .to_vec();
        let node = nodes[1].clone();
        let bench = Bench::on(own, 1, ClientLimits::default(), Cluster::new(nodes, 0))?;
        let (socket, _) = other.accept().unwrap();
        socket.set_read_timeout(Some(LIMIT)).unwrap();
        Some((
            bench,
            Self {
                node,
                socket,
                input: Vec::new(),
            },
        ))
    }

    /// Calls `is` with each message of the node, until `is` returns true. Then sends the messages that `is` appended.
    fn hear(&mut self, mut is: impl FnMut(NodeMessage<'_>, &mut Vec<u8>) -> bool) {
        let mut out = Vec::new();
        loop {
            let mut rest = &self.input[..];
            while let Some(said) = take(&mut rest).unwrap() {
                if is(said, &mut out) {
                    self.input = rest.to_vec();
                    return self.socket.write_all(&out).unwrap();
                }
            }
            self.input = rest.to_vec();
            let mut bytes = [0; 4096];
            let len = self.socket.read(&mut bytes).unwrap();
            assert!(len > 0, "the node closed the connection");
            self.input.extend_from_slice(&bytes[..len]);
        }
    }
}

#[test]
fn each_new_mode_is_reported_to_the_other_node_at_once() {
    let Some((bench, mut other)) = PlayedNode::beside() else {
        return;
    };
    let word = |mode, changes| ModeVersion { mode, changes };
    let id = other.node.id;
    other.hear(|said, out| {
        let NodeMessage::Hello {
            greeting, common, ..
        } = said
        else {
            panic!("{said:?}")
        };
        assert_eq!(greeting.mode_version, word(PairMode::Fresh, 1));
        let greeting = modified(greeting, |it| it.process = 9);
        NodeMessage::Hello {
            id,
            greeting,
            common,
        }
        .put(out);
        true
    });
    let mut words = Vec::new();
    other.hear(|said, _| {
        let NodeMessage::Ping {
            mode_version: word, ..
        } = said
        else {
            panic!("{said:?}")
        };
        words.push(word);
        word.mode == PairMode::Ahead
    });
    // `Deciding` is reported only during the write of the mode to the device.
    assert_eq!(
        words,
        [word(PairMode::Deciding, 2), word(PairMode::Ahead, 2)]
    );
    bench.stop();
}

#[test]
fn a_large_clock_skew_stops_writes_until_it_is_over() {
    let Some((bench, mut other)) = PlayedNode::beside() else {
        return;
    };
    let id = other.node.id;
    let fresh = ModeVersion {
        mode: PairMode::Fresh,
        changes: 1,
    };
    other.hear(|said, out| {
        let NodeMessage::Hello {
            greeting, common, ..
        } = said
        else {
            panic!("{said:?}")
        };
        let greeting = modified(greeting, |it| it.process = 9);
        NodeMessage::Hello {
            id,
            greeting,
            common,
        }
        .put(out);
        true
    });
    let state = bench.server.as_ref().unwrap().state();
    let mut client = bench.client();
    // The other node's clock relative to this node's clock, the code of a write, and the number of lines about it.
    for (ahead_ms, code, lines) in [
        (0, 0, 0),
        (3_600_000, 22, 1),
        (-7_200_000, 22, 2),
        (-39_000, 0, 3),
        (0, 0, 4),
    ] {
        let is_near = |skew_ms: u64| skew_ms.abs_diff(i64::unsigned_abs(ahead_ms)) < 60;
        // Answers to earlier pings are not used: their round trip is too long.
        while !is_near(state.skew_ms()) {
            other.hear(|said, out| {
                let NodeMessage::Ping { number, .. } = said else {
                    return false;
                };
                let wall_ns = state
                    .wall_ns(state.now_ns())
                    .wrapping_add_signed(ahead_ms * 1_000_000);
                NodeMessage::Pong {
                    number,
                    mode_version: fresh,
                    wall_ns,
                }
                .put(out);
                true
            });
        }
        bench.until("the node serves", |_| {
            state.pair.mode() == PairMode::Ahead && state.pair.is_recorded()
        });
        assert_eq!(client.ask(&put(1, b"value")).0, code, "{ahead_ms}");
        let deletion = message([0, info2::WRITE | info2::DELETE, 0, 0], 1, &[]);
        assert_eq!(
            client.ask(&deletion).0,
            if code == 0 { 0 } else { 2 },
            "a deletion is no write"
        );
        let said = bench
            .lines
            .lock()
            .unwrap()
            .iter()
            .filter(|line| line.starts_with("the clock of node"))
            .count();
        assert_eq!(said, lines, "{ahead_ms}");
        bench.until("the statistics", |_| {
            state.facts(|facts: &mut Facts| {
                let node = &facts.node;
                (
                    is_near(node.clock_skew_ms),
                    stops_writes(node.clock_skew_ms, &facts.config.namespaces[0].settings),
                )
            }) == (true, code == 22)
        });
    }
    bench.stop();
}

#[test]
fn nodes_that_cannot_pair_are_logged_once_for_all_connections() {
    let Some((bench, mut other)) = PlayedNode::beside() else {
        return;
    };
    let id = other.node.id;
    let mode_version = ModeVersion {
        mode: PairMode::Behind,
        changes: 1,
    };
    let greeting = |process| Greeting {
        process,
        mode_version,
        empty_namespaces: 0,
        pairings: 0,
    };
    let mut common_lines = Vec::new();
    other.hear(|said, out| {
        let NodeMessage::Hello { common, .. } = said else {
            panic!("{said:?}")
        };
        NodeMessage::Hello {
            id,
            greeting: greeting(9),
            common,
        }
        .put(out);
        common_lines = common.to_vec();
        true
    });
    let logged = |bench: &Bench| {
        let lines = bench.lines.lock().unwrap();
        lines
            .iter()
            .filter(|line| line.starts_with("no node has all records"))
            .count()
    };
    bench.until("logged", |bench| logged(bench) == 1);
    for (process, lines) in [(9, 1), (9, 1), (10, 2), (10, 2)] {
        let Client(socket) = bench.client();
        let mut link = PlayedNode {
            node: other.node.clone(),
            socket,
            input: Vec::new(),
        };
        let mut hello = Vec::new();
        NodeMessage::Hello {
            id,
            greeting: greeting(process),
            common: &common_lines,
        }
        .put(&mut hello);
        link.socket.write_all(&hello).unwrap();
        link.hear(|said, _| matches!(said, NodeMessage::Hello { .. }));
        assert_eq!(logged(&bench), lines, "process {process}");
    }
    bench.stop();
}
