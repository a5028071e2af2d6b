//! A cluster whose nodes leave, return and join while requests go on.

use super::fake::Server;
use super::*;
use crate::wire::frame::FrameKind;
use std::time::{Duration, Instant};

/// A map of partitions: byte `first` for the lower half of the partitions, byte `second` for the upper half.
fn half(first: u8, second: u8) -> String {
    BASE64.encode([[first; 256], [second; 256]].concat())
}

fn until_all_are_written(client: &mut Client) {
    let begin = Instant::now();
    loop {
        let outcomes = all(client, OpKind::Write, 100, 8);
        assert_eq!(outcomes.len(), 100);
        if outcomes.iter().all(|outcome| outcome.is_done()) {
            return;
        }
        assert!(begin.elapsed() < Duration::from_secs(60), "{outcomes:?}");
    }
}

#[test]
fn requests_wait_for_a_node_that_returns_under_another_address() {
    let Some(()) = ring() else { return };
    let one = Server::with("A1", &half(255, 0));
    let other = Server::with("A2", &half(0, 255));
    one.names(&[("A2", other.address)]);
    let mut client = one.client(4, PATIENT_MS);
    succeed(&mut client, OpKind::Write, 100);
    let other = other.moved();
    one.names(&[("A2", other.address)]);
    // Requests in flight on the old connections fail. All other requests wait for the node.
    let outcomes = all(&mut client, OpKind::Write, 200, 8);
    let failed = outcomes.iter().filter(|outcome| !outcome.is_done()).count();
    assert!(failed <= 8, "{failed} of 200 failed");
    assert!(other.requests() > 60);
    succeed(&mut client, OpKind::Read, 100);
    assert_eq!(client.map.nodes.len(), 2, "the same node");
}

#[test]
fn a_node_that_joins_gets_its_partitions_and_no_write_is_lost() {
    let Some(()) = ring() else { return };
    let one = Server::with("A1", &half(255, 255));
    let mut client = one.client(4, PATIENT_MS);
    succeed(&mut client, OpKind::Write, 100);
    let queries = one.state.maps.load(Ordering::Relaxed);
    // The new node claims half of the partitions with a higher regime, while the old node still reports all partitions.
    let other = Server::with("A2", &half(0, 255));
    *other.state.records.lock().unwrap() = one.state.records.lock().unwrap().clone();
    other.state.regime.store(1, Ordering::SeqCst);
    one.names(&[("A2", other.address)]);
    let begin = Instant::now();
    while other.requests() == 0 {
        succeed(&mut client, OpKind::Write, 100);
        assert!(begin.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(10));
    }
    succeed(&mut client, OpKind::Write, 100);
    succeed(&mut client, OpKind::Read, 100);
    assert_eq!(
        one.state.maps.load(Ordering::Relaxed),
        queries + 1,
        "partitions are asked for after a change alone"
    );
}

#[test]
fn the_replacement_of_a_single_node_is_found_through_the_seed() {
    let Some(()) = ring() else { return };
    let one = Server::with("A1", &half(255, 255));
    let other = Server::with("A2", &half(255, 255));
    // Both servers are seeds, and neither reports the other.
    let seeds = [&one, &other].map(|server| seed(server.address));
    other.state.is_away.store(true, Ordering::SeqCst);
    let cluster = ClientCluster::find(&seeds, "test", Access::default(), false).unwrap();
    let mut client = one.client_as(1_000, |settings| settings.cluster = cluster);
    succeed(&mut client, OpKind::Write, 20);
    drop(one);
    other.state.is_away.store(false, Ordering::SeqCst);
    until_all_are_written(&mut client);
    assert!(other.requests() >= 100);
}

#[test]
fn nodes_that_join_reuse_the_connection_slots_of_nodes_that_left() {
    let Some(()) = ring() else { return };
    let one = Server::with("A0", &half(255, 0));
    let mut client = one.client(1, PATIENT_MS);
    for joined in 1..=5 {
        let name = format!("A{joined}");
        let other = Server::with(&name, &half(0, 255));
        one.names(&[(&name, other.address)]);
        until_all_are_written(&mut client);
        assert!(other.requests() > 0, "{name}");
    }
    assert!(client.connections.len() <= client.slots_max);
}

#[test]
fn a_hung_node_delays_neither_other_requests_nor_the_partition_map() {
    let Some(()) = ring() else { return };
    let one = Server::with("A1", &half(255, 0));
    let other = Server::with("A2", &half(0, 255));
    one.names(&[("A2", other.address)]);
    let mut client = one.client(1, 3_000);
    succeed(&mut client, OpKind::Write, 100);
    // The node answers neither queries nor transactions any more, on old and new connections.
    *other.state.liar.lock().unwrap() = Some(Arc::new(
        |_: FrameKind, _: &[u8], _: &mut dyn std::io::Write| Some(true),
    ));
    let own =
        |client: &Client, key| client.map.master(&client.settings.object.digest(key)) == Some(0);
    let outcomes = all(&mut client, OpKind::Write, 16, 8);
    for (key, outcome) in (0..).zip(&outcomes) {
        let expected = if own(&client, key) {
            Outcome::Done
        } else {
            Outcome::Errno(libc::ETIMEDOUT)
        };
        assert_eq!(*outcome, expected, "key {key}");
    }
    *one.state.owned.lock().unwrap() = half(255, 255);
    one.names(&[]);
    until_all_are_written(&mut client);
}
