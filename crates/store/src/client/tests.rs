//! Tests with a server that has its records in memory and injects faults.

mod batch;
mod fake;
mod hostile;
mod membership;

use super::*;
use crate::nodes::{Access, HostPort, Login, Tls};
use crate::object::ValueType;
use crate::testing::{all, records};
use FaultMode::*;
use OpKind::*;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use fake::{FaultMode, Server};
use results::assert_contains;
use results::judge::Refused;
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::Ordering;
use sys::op::{OpKind, Outcome, WrongRecord};

fn seed(address: SocketAddr) -> HostPort {
    HostPort {
        name: address.ip().to_string(),
        port: address.port(),
    }
}

fn refusal(address: SocketAddr, namespace: &str, access: Access) -> String {
    ClientCluster::find(&[seed(address)], namespace, access, false)
        .err()
        .expect("a cluster was found")
}

/// `None`, with a message, if the kernel has no io_uring with sockets: the test is skipped.
fn ring() -> Option<()> {
    let ring = NetEngine::new(
        Vec::new(),
        ReceiveBuffers {
            buffers: 1,
            bytes: 4096,
        },
        EngineSetup::new(1, 0),
    );
    ring.inspect_err(|error| println!("skipped: no io_uring with sockets: {error}"))
        .ok()
        .map(|_| ())
}

/// Performs operations as [`all`] does, at most eight at once. All must succeed.
#[track_caller]
fn succeed(client: &mut Client, kind: OpKind, keys: u64) {
    let outcomes = all(client, kind, keys, 8);
    assert!(
        outcomes.iter().all(|outcome| outcome.is_done()),
        "{kind}: {outcomes:?}"
    );
}

const PATIENT_MS: u32 = 30_000;

#[test]
fn records_are_written_and_read_over_no_more_connections_than_needed() {
    let Some(()) = ring() else { return };
    for (pipeline, connections) in [(1, 8), (4, 2), (8, 1)] {
        let server = Server::new();
        let mut client = server.client(pipeline, PATIENT_MS);
        for kind in [Write, Read, Write, Read] {
            succeed(&mut client, kind, 300);
        }
        // The client has another connection for cluster queries.
        let found = server.state.connections.load(Ordering::Relaxed);
        assert_eq!(found, connections + 1);
        let most_at_once = server.state.most_at_once.load(Ordering::Relaxed);
        assert!(
            most_at_once <= pipeline,
            "{most_at_once} at once, {pipeline} allowed"
        );
        assert_eq!(server.state.requests.load(Ordering::Relaxed), 1_200);
    }
}

#[test]
fn lost_and_changed_records_are_reported() {
    let Some(()) = ring() else { return };
    let server = Server::new();
    let mut client = server.client(2, PATIENT_MS);
    all(&mut client, Write, 20, 8);
    server.set(Forgets);
    all(&mut client, Write, 10, 8);
    let outcomes = all(&mut client, Read, 20, 8);
    let old = |key| Outcome::Wrong {
        key,
        wrong: WrongRecord::Old {
            acknowledged: 2,
            found: 1,
        },
    };
    assert_eq!(outcomes[..10], (0..10).map(old).collect::<Vec<_>>());
    assert!(outcomes[10..].iter().all(|outcome| outcome.is_done()));
    server.set(Flips);
    let outcomes = all(&mut client, Read, 20, 8);
    // Header and name of the bin are 12 bytes.
    let is_torn = |outcome: &Outcome| {
        matches!(
            outcome,
            Outcome::Wrong {
                wrong: WrongRecord::Torn {
                    bin: 1,
                    at: 88,
                    found: Some(_),
                    ..
                },
                ..
            }
        )
    };
    assert!(outcomes.iter().all(is_torn), "{outcomes:?}");
    server.state.records.lock().unwrap().clear();
    server.set(Serves);
    let outcomes = all(&mut client, Read, 30, 8);
    let missing = |(key, acknowledged)| Outcome::Wrong {
        key,
        wrong: WrongRecord::Missing { acknowledged },
    };
    let acknowledged = (0..30).zip([2; 10].into_iter().chain([1; 10]).chain([0; 10]));
    assert_eq!(outcomes, acknowledged.map(missing).collect::<Vec<_>>());
    let read = client.settings.verification.take();
    // Records 0 to 9 were old in the first read, torn in the second and missing in the third, but each is counted once.
    let refused = Refused {
        old: 10,
        missing: 10,
        foreign: 0,
        torn: 10,
    };
    assert_eq!((read.records, read.refused), (40, Some(refused)));
}

#[test]
fn insertions_wait_for_an_overloaded_server_and_measured_transactions_fail() {
    let Some(()) = ring() else { return };
    let server = Server::new();
    let mut client = server.client(2, PATIENT_MS);
    server.set(Overloaded(30));
    client.settings.overload.set_waits(true);
    succeed(&mut client, Write, 50);
    assert_eq!(server.state.requests.load(Ordering::Relaxed), 80);
    let found = client.settings.overload.waited();
    assert_eq!(found, 8, "those that were out: each once");
    succeed(&mut client, Read, 50);
    client.settings.overload.set_waits(false);
    server.set(Overloaded(u32::MAX));
    assert_eq!(all(&mut client, Write, 9, 8), [Outcome::Result(18); 9]);
}

#[test]
fn a_failing_connection_costs_only_the_requests_in_flight() {
    let Some(()) = ring() else { return };
    let lost = [
        Outcome::Errno(libc::ECONNRESET),
        Outcome::Errno(libc::EPROTO),
        Outcome::Errno(libc::EPIPE),
    ];
    for pipeline in [1, 4] {
        let server = Server::new();
        let mut client = server.client(pipeline, PATIENT_MS);
        for manner in [Closes, Lies, Repeats] {
            server.set(manner);
            let outcomes = all(&mut client, Write, 60, 8);
            let failed = outcomes.iter().filter(|outcome| !outcome.is_done()).count();
            assert!(failed > 0 || manner == Repeats, "{manner:?}");
            assert!(
                outcomes
                    .iter()
                    .all(|outcome| outcome.is_done() || lost.contains(outcome)),
                "{manner:?} {outcomes:?}"
            );
            server.set(Serves);
            assert!(
                all(&mut client, Write, 60, 8)
                    .iter()
                    .all(|outcome| outcome.is_done()),
                "after {manner:?}"
            );
            let outcomes = all(&mut client, Read, 60, 8);
            assert!(
                outcomes.iter().all(|outcome| outcome.is_done()),
                "{manner:?}: {outcomes:?}"
            );
        }
    }
    let server = Server::new();
    let mut client = server.client(4, 200);
    server.set(Hangs);
    let found = all(&mut client, Write, 20, 8);
    assert_eq!(found, [Outcome::Errno(libc::ETIMEDOUT); 20]);
}

#[test]
fn requests_go_to_the_node_of_their_partition_and_a_missing_node_fails_only_its_own_requests() {
    let Some(()) = ring() else { return };
    let half = |first: u8, second: u8| BASE64.encode([[first; 256], [second; 256]].concat());
    let one = Server::with("A1", &half(255, 0));
    let other = Server::with("A2", &half(0, 255));
    *one.state.peers.lock().unwrap() = format!("1,3000,[[A2,,[{}]]]", other.address);
    let mut client = one.client(4, PATIENT_MS);
    succeed(&mut client, Write, 200);
    let counts = [&one, &other].map(|server| server.state.requests.load(Ordering::Relaxed));
    assert!(
        counts.iter().all(|count| *count > 60) && counts.iter().sum::<u32>() == 200,
        "{counts:?}"
    );
    other.set(Refuses(11));
    let outcomes = all(&mut client, Read, 200, 8);
    let refused = outcomes
        .iter()
        .filter(|outcome| **outcome == Outcome::Result(11))
        .count();
    assert_eq!(refused as u32, counts[1]);
    assert!(
        outcomes
            .iter()
            .all(|outcome| outcome.is_done() || *outcome == Outcome::Result(11))
    );
}

#[test]
fn an_unreachable_cluster_or_missing_namespace_is_an_error_with_its_reason() {
    let server = Server::new();
    let error = refusal(server.address, "foo", Access::default());
    assert_contains!(error, "namespace \"foo\"", "\"other\", \"test\"");
    let free = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let error = refusal(free, "test", Access::default());
    assert_contains!(error, "no seed answered", "refused");
}

fn me(password: &str) -> Access {
    let login = Login::new("me", password.to_owned(), false).unwrap();
    Access {
        login: Some(login),
        ..Access::default()
    }
}

#[test]
fn further_connections_log_in_with_the_session_of_the_first() {
    let Some(()) = ring() else { return };
    let server = Server::new();
    *server.state.password.lock().unwrap() = Some("secret");
    let mut client = server.client_with(me("secret"), 300, 4, PATIENT_MS);
    let logins = || {
        server
            .state
            .logins
            .each_ref()
            .map(|count| count.load(Ordering::Relaxed))
    };
    assert_eq!(
        logins(),
        [1, 2],
        "for the queries, and for two connections of four transactions"
    );
    succeed(&mut client, Write, 60);
    assert!(
        client.settings.probe_record(0).unwrap().is_some(),
        "a probe logs in, too"
    );
    assert_eq!(logins(), [1, 3]);
    // New connections log in with the token of the same session.
    server.set(Closes);
    all(&mut client, Write, 20, 8);
    server.set(Serves);
    succeed(&mut client, Read, 60);
    assert!(logins()[0] == 1 && logins()[1] > 3, "{:?}", logins());
}

#[test]
fn a_login_that_is_missing_or_wrong_is_refused_with_the_reason() {
    let server = Server::new();
    *server.state.password.lock().unwrap() = Some("secret");
    for (access, reason) in [
        (
            Access::default(),
            "the server wants a login: \"ERROR:80:not authenticated\" - give --user",
        ),
        (
            me("guess"),
            "user me cannot log in - the password is wrong (code 65)",
        ),
    ] {
        let error = refusal(server.address, "test", access);
        assert!(
            error.starts_with("cannot find the cluster - no seed answered: ")
                && error.contains(reason),
            "{error}"
        );
    }
}

#[test]
fn over_tls_records_of_any_size_are_written_and_read() {
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    let Some(()) = ring() else { return };
    let file = |name: &str| {
        std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../flashproof/tests/data/tls")
            .join(name)
    };
    let certificates = CertificateDer::pem_file_iter(file("node.pem"))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    let key = PrivateKeyDer::from_pem_file(file("node.key")).unwrap();
    let builder = rustls::ServerConfig::builder_with_provider(Arc::new(
        rustls::crypto::ring::default_provider(),
    ));
    let builder = builder
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth();
    let config = Arc::new(builder.with_single_cert(certificates, key).unwrap());
    let server = Server::with_tls("BB9", &format!("{}8=", "/".repeat(682)), Some(config));
    *server.state.password.lock().unwrap() = Some("secret");
    let access = |name: &str| {
        let tls = Tls::new(&file("ca.pem"), None, Some(name.to_owned())).unwrap();
        Access {
            tls: Some(tls),
            ..me("secret")
        }
    };
    // The longest records are longer than the buffers of TLS.
    for bytes in [8, 20_000, 400_000] {
        let mut client = server.client_with(access("node.test"), bytes, 4, PATIENT_MS);
        for kind in [Write, Read] {
            assert!(
                all(&mut client, kind, 40, 8)
                    .iter()
                    .all(|outcome| outcome.is_done()),
                "{kind} of {bytes} bytes"
            );
        }
        server.state.records.lock().unwrap().clear();
    }
    let mut client = server.client_with(access("node.test"), 300, 1, PATIENT_MS);
    server.set(Lies);
    let found = all(&mut client, Write, 8, 8);
    assert_eq!(found, [Outcome::Errno(libc::EPROTO); 8]);
    let error = refusal(server.address, "test", access("other.test"));
    assert!(
        error.contains("cannot begin TLS with other.test - invalid peer certificate"),
        "{error}"
    );
}
