//! Two nodes, one of which is killed, stopped or cut off: the other takes over, and acknowledged writes survive.

use crate::support::{OUT, Running, ask, delete, info, statistic_of, totals};
use crate::two_nodes::{OK, PAIRED, PATIENT, Pair, TIMEOUT, stands_still, until};
use results::judge::Refused;
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

const UNAVAILABLE: u8 = 11;

/// Longest takeover on a busy machine; the documentation promises 5 s.
const TAKEOVER_MAX: Duration = Duration::from_secs(20);

/// Time for which a node must have refused connections before the other takes over.
const TAKEOVER_MIN: Duration = Duration::from_secs(1);

/// Longer than any takeover from a silent node.
const NO_TAKEOVER: Duration = Duration::from_secs(6);

const TOOK_OVER: &str = "took over the partitions of node";
const LACKS: &str = "gets the missing records";

/// Repeats a write until it is acknowledged, and returns the time until then. Earlier writes may time out or be
/// refused.
fn until_written(at: SocketAddr, key: u64, value: &[u8]) -> Duration {
    let begin = Instant::now();
    loop {
        match ask(at, key, Some(value)).result {
            OK => return begin.elapsed(),
            result => assert!([TIMEOUT, UNAVAILABLE].contains(&result), "{result}"),
        }
        assert!(begin.elapsed() < TAKEOVER_MAX, "{key} is not written");
        thread::sleep(Duration::from_millis(20));
    }
}

/// The value of a record. Repeats the read until there is an answer, because cores may connect to the other node late.
fn value_of(at: SocketAddr, key: u64) -> Vec<u8> {
    let mut answer = ask(at, key, None);
    until("it answers", || {
        answer = ask(at, key, None);
        ![TIMEOUT, UNAVAILABLE].contains(&answer.result)
    });
    assert_eq!(answer.result, OK);
    answer.value
}

fn takeover_line(node: &mut Running) -> String {
    node.wait_to_hear(TOOK_OVER);
    node.said()
        .lines()
        .find(|line| line.contains(TOOK_OVER))
        .unwrap()
        .to_owned()
}

/// Clients that read and write the records of a pair, and verify the data read.
struct Load(Running);

impl Load {
    fn start(pair: &Pair) -> Self {
        pair.client(&["-w", "I", "-T", "20000", "--out", "inserted"])
            .end()
            .expect(0);
        let load = [
            "-w",
            "RU,50",
            "-T",
            "20000",
            "--duration",
            "3600",
            "--max-errors",
            "1000000000",
            "--quiet",
        ];
        let mut load = pair.client(&[&load[..], &["--out", OUT]].concat());
        load.wait_until("it runs", || {
            pair.bench.exists(&format!("{OUT}/manifest.json"))
        });
        thread::sleep(Duration::from_millis(200));
        Self(load)
    }

    /// Ends the load. Asserts that no read returned data older than the last acknowledged write.
    fn end(self, pair: &Pair) {
        self.0.signal("INT");
        let ended = self.0.end();
        let run = pair.bench.run();
        let refused = run.verdict.records_read.and_then(|read| read.refused);
        assert_eq!(
            refused,
            Some(Refused::default()),
            "{:#?}",
            run.verdict.failures
        );
        assert!(
            run.verdict.streams.iter().all(|stream| stream.lost == 0),
            "each ends once: {:?}",
            run.verdict.streams
        );
        let (reads, lost, _) = totals(&run, "reads");
        let (writes, unwritten, _) = totals(&run, "writes");
        println!("{reads} reads, {writes} writes, {lost} and {unwritten} failed");
        assert!(reads > 100 && writes > 100, "{}", ended.stderr);
    }
}

pub(crate) fn kill_9(node: Option<Running>) {
    let node = node.unwrap();
    assert_eq!(node.end_by("KILL").signal, Some(9));
}

/// Kills and restarts a node under load. When the node has all records again, kills and restarts the other node.
fn kill(killed: usize) {
    let survivor = 1 - killed;
    let pair = Pair::new([PATIENT, "", "commit-to-device true"]);
    let Some(mut nodes) = pair.start_both().map(|nodes| nodes.map(Some)) else {
        return;
    };
    let load = Load::start(&pair);
    let of_killed = pair.addresses[killed];
    let at = pair.addresses[survivor];
    let key = pair.key_of(killed, 1000);
    until_written(of_killed, key, b"before");

    kill_9(nodes[killed].take());
    let took = until_written(at, key, b"after");
    assert_eq!(value_of(at, key), b"after");
    let line = takeover_line(nodes[survivor].as_mut().unwrap());
    println!("node {killed} killed, written after {took:?}: {line}");
    thread::sleep(Duration::from_millis(300));

    // Clients do not read old records from the returning node.
    let mut returned = pair.start(killed).unwrap();
    returned.wait_to_hear(LACKS);
    assert_eq!(value_of(of_killed, key), b"after");
    until_written(of_killed, key, b"through it");
    assert_eq!(value_of(at, key), b"through it");

    returned.wait_to_hear(PAIRED);
    kill_9(nodes[survivor].take());
    until_written(of_killed, key, b"by the one that was killed first");
    println!("then node {survivor}: {}", takeover_line(&mut returned));
    let mut again = pair.start(survivor).unwrap();
    again.wait_to_hear(PAIRED);
    pair.addresses
        .iter()
        .for_each(|at| assert_eq!(value_of(*at, key), b"by the one that was killed first"));
    thread::sleep(Duration::from_millis(300));
    load.end(&pair);
    [returned, again].into_iter().for_each(Running::terminate);
    let of_a = pair.records(0, key + 1);
    let of_b = pair.records(1, key + 1);
    assert!(
        of_a[..1000]
            .iter()
            .all(|record| record.result == OK && record.value.len() == 500)
    );
    assert_eq!(of_a, of_b);
}

#[test]
fn a_returning_node_gets_missing_records_and_deletions_at_the_configured_rate() {
    const KEYS: u64 = 600;
    let pair = Pair::new([PATIENT, "migrate-sleep 20000", "commit-to-device true"]);
    let Some([mut a, b]) = pair.start_both() else {
        return;
    };
    let [at, of_b] = pair.addresses;
    (0..KEYS).for_each(|key| _ = until_written(at, key, b"old"));
    kill_9(Some(b));
    until_written(at, 0, b"new");
    (0..KEYS / 2).for_each(|key| _ = until_written(at, key, b"new"));
    (0..50).for_each(|key| assert_eq!(delete(at, key), OK));
    let begin = Instant::now();
    let mut b = pair.start(1).unwrap();
    b.wait_to_hear(LACKS);
    let remaining =
        || [at, of_b].map(|at| statistic_of(at, "statistics", "migrate_partitions_remaining"));
    until("both tell that partitions remain", || {
        remaining().iter().all(|partitions| *partitions > 0)
    });
    assert!(
        info(at, "cluster-stable:").contains("ERROR"),
        "{}",
        info(at, "cluster-stable:")
    );
    // Each node answers for all records, and writes made meanwhile survive.
    for (at, key) in [(at, KEYS - 1), (of_b, KEYS - 2)] {
        assert_eq!(value_of(at, key), b"old");
        until_written(at, key, b"meanwhile");
    }
    assert_eq!(
        remaining()
            .iter()
            .filter(|partitions| **partitions > 0)
            .count(),
        2,
        "{}",
        b.said()
    );

    // The only node with all records is killed before the other has them all.
    kill_9(Some(a));
    let died = Instant::now();
    while died.elapsed() < NO_TAKEOVER {
        for value in [None, Some(&b"lost"[..])] {
            let result = ask(of_b, 400, value).result;
            assert!([TIMEOUT, UNAVAILABLE].contains(&result), "{result}");
        }
        thread::sleep(Duration::from_millis(100));
    }
    a = pair.start(0).unwrap();
    b.wait_to_hear(PAIRED);
    println!("paired after {:?}", begin.elapsed());
    until("nothing remains", || remaining() == [0, 0]);
    until("it is stable", || {
        !info(at, "cluster-stable:").contains("ERROR")
    });
    let sent = statistic_of(at, "namespace/test", "migrate_records_transmitted");
    let received = statistic_of(of_b, "namespace/test", "migrate_record_receives");
    println!("{sent} records sent, {received} received");
    assert!(received > 0 && sent < KEYS, "only the missing records");
    [a, b].into_iter().for_each(Running::terminate);
    let of_a = pair.records(0, KEYS);
    let of_b = pair.records(1, KEYS);
    for (key, record) in of_a.iter().enumerate() {
        let expected: (u8, &[u8]) = match key {
            0..50 => (2, b""),
            50..300 => (OK, b"new"),
            598.. => (OK, b"meanwhile"),
            _ => (OK, b"old"),
        };
        assert_eq!((record.result, &record.value[..]), expected, "key {key}");
    }
    assert_eq!(of_a, of_b);
}

#[test]
fn a_node_whose_device_was_cleared_gets_all_records() {
    let pair = Pair::new([PATIENT, "", "commit-to-device true"]);
    for cleared in [1, 0] {
        let Some(nodes) = pair.start_both() else {
            return;
        };
        let key = pair.key_of(cleared, 0);
        (0..200).for_each(|key| _ = until_written(pair.addresses[key as usize % 2], key, b"kept"));
        nodes.into_iter().for_each(Running::terminate);
        std::fs::remove_file(pair.bench.path(["a.records", "b.records"][cleared])).unwrap();
        // The order in which the nodes start does not matter.
        let mut nodes = [1 - cleared, cleared].map(|node| pair.start(node).unwrap());
        nodes.iter_mut().for_each(|node| node.wait_to_hear(PAIRED));
        assert_eq!(value_of(pair.addresses[cleared], key), b"kept");
        nodes.into_iter().for_each(Running::terminate);
        let of_a = pair.records(0, 200);
        let of_b = pair.records(1, 200);
        assert!(of_a.iter().all(|record| record.value == b"kept"));
        assert_eq!(of_a, of_b);
    }
}

#[test]
fn the_second_node_is_killed_and_the_first_takes_over() {
    kill(1);
}

#[test]
fn the_first_node_is_killed_and_the_second_takes_over() {
    kill(0);
}

#[test]
fn a_node_that_returns_before_any_write_gets_its_partitions_back() {
    let pair = Pair::new([PATIENT, "", ""]);
    let Some([mut a, b]) = pair.start_both() else {
        return;
    };
    let key = pair.key_of(0, 0);
    let other = pair.key_of(1, 0);
    [key, other]
        .iter()
        .for_each(|key| _ = until_written(pair.addresses[0], *key, b"x"));
    b.terminate();
    a.wait_to_hear(TOOK_OVER);
    assert_eq!(value_of(pair.addresses[0], other), b"x");
    let mut b = pair.start(1).unwrap();
    b.wait_to_hear(PAIRED);
    for at in pair.addresses {
        until_written(at, key, b"y");
        until_written(at, other, b"y");
    }
    [a, b].into_iter().for_each(Running::terminate);
    let of_a = pair.records(0, key.max(other) + 1);
    let of_b = pair.records(1, key.max(other) + 1);
    assert_eq!(
        (of_a[key as usize].value.as_slice(), &of_a),
        (&b"y"[..], &of_b)
    );
}

#[test]
fn unflushed_writes_of_a_killed_node_are_read_from_the_other_node_after_a_quick_restart() {
    let pair = Pair::new([PATIENT, "", "flush-max-ms 0"]);
    let Some([a, b]) = pair.start_both() else {
        return;
    };
    let key = pair.key_of(1, 0);
    until_written(pair.addresses[1], key, b"in memory");
    kill_9(Some(b));
    let mut b = pair.start(1).unwrap();
    b.wait_to_hear(LACKS);
    pair.addresses
        .iter()
        .for_each(|at| assert_eq!(value_of(*at, key), b"in memory"));
    // This write is also in memory only, but the node has recorded that it is ahead of the other.
    until_written(pair.addresses[1], key, b"later");
    let begin = Instant::now();
    a.terminate();
    let mut a = pair.start(0).unwrap();
    let took = begin.elapsed();
    assert_eq!(value_of(pair.addresses[0], key), b"later");
    // On a busy machine, the restart can take longer than a takeover, after which the node does lack records.
    let taken_over = took > TAKEOVER_MIN && b.said().contains(TOOK_OVER);
    assert!(
        taken_over || !a.said().contains(LACKS),
        "{took:?}\n{}\n{}",
        a.said(),
        b.said()
    );
    a.wait_to_hear("connected to node ");
    [a, b].into_iter().for_each(Running::terminate);
}

/// Stops the second node for a while, and continues it. `namespace`: a line for the configuration of the namespace.
fn stop_second(namespace: &'static str) {
    let pair = Pair::new([PATIENT, namespace, ""]);
    let Some([mut a, mut b]) = pair.start_both() else {
        return;
    };
    // If the master alone acknowledges, its last writes before the stop may be lost.
    let load = namespace.is_empty().then(|| Load::start(&pair));
    let key = pair.key_of(1, 1000);
    let keys = [key, pair.key_of(1, key + 1)];
    keys.iter()
        .for_each(|key| _ = until_written(pair.addresses[1], *key, b"before"));
    b.signal("STOP");
    until("it stands still", || stands_still(b.pid()));
    let took = until_written(pair.addresses[0], keys[0], b"after");
    println!(
        "node 1 stopped, written after {took:?}: {}",
        takeover_line(&mut a)
    );
    b.signal("CONT");
    // From here on, the first node has each write that the second acknowledges.
    let begin = Instant::now();
    let mut acknowledged = b"before".to_vec();
    for number in 0.. {
        let value = format!("number {number}").into_bytes();
        if ask(pair.addresses[1], keys[1], Some(&value)).result == OK {
            acknowledged = value;
            // If the master acknowledges alone, the other node may get the write just after the acknowledgement.
            let mut looks = 0;
            until("the other has what was acknowledged", || {
                looks += 1;
                value_of(pair.addresses[0], keys[1]) == acknowledged
            });
            assert!(looks == 1 || !namespace.is_empty(), "{acknowledged:?}");
        }
        if begin.elapsed() > Duration::from_secs(2) && b.said().contains(LACKS) {
            break;
        }
        assert!(begin.elapsed() < TAKEOVER_MAX, "{}", b.said());
    }
    b.wait_to_hear(LACKS);
    assert_eq!(value_of(pair.addresses[1], keys[0]), b"after");
    assert_eq!(value_of(pair.addresses[1], keys[1]), acknowledged);
    if let Some(load) = load {
        load.end(&pair);
    }
    [a, b].into_iter().for_each(Running::terminate);
}

#[test]
fn after_sigcont_the_second_node_acknowledges_no_write_that_the_first_node_lacks() {
    stop_second("");
}

#[test]
fn after_sigcont_with_master_only_acknowledgement_the_first_node_gets_acknowledged_writes() {
    stop_second("write-commit-level-override master");
}

#[test]
fn with_master_only_acknowledgement_no_write_is_acknowledged_after_the_lease_ends() {
    let pair = Pair::new([
        "transaction-max-ms 500",
        "write-commit-level-override master",
        "",
    ]);
    let Some([a, b]) = pair.start_both() else {
        return;
    };
    let key = pair.key_of(1, 0);
    a.signal("STOP");
    until("it stands still", || stands_still(a.pid()));
    let begin = Instant::now();
    let mut last = Duration::ZERO;
    while begin.elapsed() < NO_TAKEOVER {
        if ask(pair.addresses[1], key, Some(b"x")).result == OK {
            last = begin.elapsed();
        }
        thread::sleep(Duration::from_millis(20));
    }
    println!("last acknowledged {last:?} after the other node was stopped");
    // The lease lasts 2 s; a busy machine may need longer.
    assert!(last < Duration::from_secs(4), "{last:?}");
    a.signal("CONT");
    until_written(pair.addresses[1], key, b"y");
    [a, b].into_iter().for_each(Running::terminate);
}

#[test]
fn while_the_first_node_is_stopped_the_second_refuses_writes() {
    let pair = Pair::new(["transaction-max-ms 500", "", ""]);
    let Some([a, b]) = pair.start_both() else {
        return;
    };
    let keys = [pair.key_of(0, 0), pair.key_of(1, 0)];
    keys.iter()
        .for_each(|key| _ = until_written(pair.addresses[1], *key, b"before"));
    a.signal("STOP");
    until("it stands still", || stands_still(a.pid()));
    let begin = Instant::now();
    while begin.elapsed() < NO_TAKEOVER {
        for key in keys {
            let result = ask(pair.addresses[1], key, Some(b"during")).result;
            assert!([TIMEOUT, UNAVAILABLE].contains(&result), "{result}");
            assert_eq!(ask(pair.addresses[1], key, None).result, OK, "reads go on");
        }
        thread::sleep(Duration::from_millis(50));
    }
    a.signal("CONT");
    for at in pair.addresses {
        keys.iter()
            .for_each(|key| _ = until_written(at, *key, b"after"));
    }
    assert!(
        ![&a, &b].iter().any(|node| node.said().contains(TOOK_OVER)),
        "{}\n{}",
        a.said(),
        b.said()
    );
    [a, b].into_iter().for_each(Running::terminate);
}

#[test]
fn in_a_network_split_only_the_first_node_acknowledges_writes() {
    let Some(pair) = Pair::separable(["transaction-max-ms 500", "", "commit-to-device true"])
    else {
        return;
    };
    let Some([mut a, mut b]) = pair.start_both() else {
        return;
    };
    let at = pair.addresses;
    for key in 0..50 {
        until_written(at[key as usize % 2], key, b"joined");
    }
    pair.join("down");
    let took = (0..50)
        .map(|key| until_written(at[0], key, b"first"))
        .max()
        .unwrap();
    println!("cut off, written after {took:?}: {}", takeover_line(&mut a));
    let begin = Instant::now();
    let mut refused = 0;
    while begin.elapsed() < NO_TAKEOVER {
        for key in 0..50 {
            let result = ask(at[1], key, Some(b"second")).result;
            assert!([TIMEOUT, UNAVAILABLE].contains(&result), "{result}");
            refused += 1;
        }
        let read = ask(at[1], 0, None);
        assert_eq!(
            read.result, OK,
            "the node answers reads, with records that may be old"
        );
    }
    println!("{refused} writes refused by the second node");
    pair.join("up");
    b.wait_to_hear(LACKS);
    (0..50).for_each(|key| assert_eq!(value_of(at[1], key), b"first"));
    [a, b].into_iter().for_each(Running::terminate);
}

#[test]
fn a_node_whose_drive_fails_exits_and_the_other_takes_over() {
    for node in [0, 1] {
        let Some(pair) = Pair::failing([PATIENT, "", "commit-to-device true"]) else {
            return;
        };
        let Some(nodes) = pair.start_both() else {
            return;
        };
        let mut nodes = nodes.map(Some);
        let key = pair.key_of(node, 0);
        until_written(pair.addresses[node], key, b"before");
        pair.set_device(node, "setro");
        let begin = Instant::now();
        // The result is in doubt (timeout): the record is in memory, but was not sent to the other node.
        assert_eq!(
            ask(pair.addresses[node], key, Some(b"during")).result,
            TIMEOUT
        );
        let ended = nodes[node].take().unwrap().end().expect(3);
        assert!(
            ended
                .stderr
                .contains("this node ends, so that the other node answers all requests"),
            "{}",
            ended.stderr
        );
        until_written(pair.addresses[1 - node], key, b"after");
        println!(
            "node {node}: written on the other node {:?} after the failure",
            begin.elapsed()
        );
        pair.set_device(node, "setrw");
        let mut returned = pair.start(node).unwrap();
        returned.wait_to_hear(PAIRED);
        assert_eq!(value_of(pair.addresses[node], key), b"after");
        // If the drive of the only remaining node fails, the node continues, because no other node could take over.
        let mut survivor = nodes[1 - node].take().unwrap();
        returned.terminate();
        survivor.wait_to_hear("answers all requests until");
        until_written(pair.addresses[1 - node], key, b"alone");
        pair.set_device(1 - node, "setro");
        until("writes are refused", || {
            ask(pair.addresses[1 - node], key, Some(b"more")).result == 1
        });
        assert_ne!(
            ask(pair.addresses[1 - node], key, None).result,
            UNAVAILABLE,
            "it still answers"
        );
        pair.set_device(1 - node, "setrw");
        until("a retry succeeds", || {
            ask(pair.addresses[1 - node], key, Some(b"last")).result == OK
        });
        survivor.terminate();
    }
}
