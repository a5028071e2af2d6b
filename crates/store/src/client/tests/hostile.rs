//! Servers that send nonsense at each point of the protocol. The client reports an error in time, with bounded memory.

use super::fake::{ReplyHook, Server};
use super::*;
use crate::wire::frame::FrameKind;
use results::assert_contains;
use std::io::Write;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::time::{Duration, Instant};

/// Nonsense instead of a reply: its name, and the function that sends it. True: the connection stays open.
type Nonsense = (&'static str, fn(FrameKind, &mut dyn Write) -> bool);

/// Number of bytes sent in endless replies.
static SENT: AtomicU64 = AtomicU64::new(0);

/// A header that announces a body of this many bytes.
fn header(kind: FrameKind, bytes: u64) -> [u8; 8] {
    ((2 << 56) | (kind as u64) << 48 | bytes).to_be_bytes()
}

fn endless(out: &mut dyn Write, bytes: &[u8]) -> bool {
    while out.write_all(bytes).is_ok() {
        SENT.fetch_add(bytes.len() as u64, Ordering::Relaxed);
    }
    false
}

const NONSENSE: [Nonsense; 12] = [
    ("closes at once", |_, _| false),
    ("never answers", |_, _| true),
    ("half a header", |_, out| out.write_all(&[2, 1, 0]).is_err()),
    ("half a body", |kind, out| {
        out.write_all(&header(kind, 100))
            .and(out.write_all(&[22; 40]))
            .is_err()
    }),
    ("an empty body", |kind, out| {
        out.write_all(&header(kind, 0)).is_ok()
    }),
    ("another kind", |_, out| {
        out.write_all(&header(FrameKind::Compressed, 3))
            .and(out.write_all(b"abc"))
            .is_ok()
    }),
    ("a gigabyte, announced", |kind, out| {
        out.write_all(&header(kind, 1 << 30)).is_ok() && endless(out, &[b'/'; 65_536])
    }),
    ("16 MiB that do not come", |kind, out| {
        out.write_all(&header(kind, 16 << 20))
            .and(out.write_all(&[22; 9]))
            .is_ok()
    }),
    ("text without an end", |_, out| {
        endless(out, &[b'x'; 65_536])
    }),
    ("frames without an end", |kind, out| {
        endless(out, &header(kind, 0).repeat(1_000))
    }),
    ("noise in a frame", |kind, out| {
        out.write_all(&header(kind, 64))
            .and(out.write_all(&[0xff; 64]))
            .is_ok()
    }),
    ("zeros in a frame", |kind, out| {
        out.write_all(&header(kind, 64))
            .and(out.write_all(&[0; 64]))
            .is_ok()
    }),
];

/// Point of the protocol where a server lies: a kind of frame, and for info frames a name in the request.
type Point = (FrameKind, &'static str);

fn lies(place: Point, nonsense: fn(FrameKind, &mut dyn Write) -> bool) -> ReplyHook {
    Arc::new(move |kind, body, out| {
        let is_place = kind == place.0
            && body
                .windows(place.1.len().max(1))
                .any(|part| part == place.1.as_bytes());
        (is_place || kind == place.0 && place.1.is_empty()).then(|| nonsense(kind, out))
    })
}

fn impatient(login: Option<Login>) -> Access {
    Access {
        login,
        timeout: Duration::from_millis(300),
        ..Access::default()
    }
}

#[test]
fn nonsense_in_the_first_replies_of_a_server_is_an_error_before_the_timeout() {
    let places = [
        (FrameKind::Security, ""),
        (FrameKind::Info, "features"),
        (FrameKind::Info, "generation"),
        (FrameKind::Info, "replicas"),
    ];
    for place in places {
        for (what, nonsense) in NONSENSE {
            let server = Server::new();
            *server.state.password.lock().unwrap() =
                (place.0 == FrameKind::Security).then_some("secret");
            *server.state.liar.lock().unwrap() = Some(lies(place, nonsense));
            let login = (place.0 == FrameKind::Security)
                .then(|| Login::new("me", "secret".to_owned(), false).unwrap());
            let begin = Instant::now();
            let sent = SENT.load(Ordering::Relaxed);
            let found =
                ClientCluster::find(&[seed(server.address)], "test", impatient(login), false);
            let Err(error) = found else {
                // Older servers have no generations, so an empty reply is valid here.
                assert_eq!((place.1, what), ("generation", "an empty body"));
                continue;
            };
            assert!(
                begin.elapsed() < Duration::from_secs(20),
                "{place:?}, {what}: {:?}",
                begin.elapsed()
            );
            assert!(
                error.starts_with("cannot ") && error.len() < 2_000 && !error.contains('\n'),
                "{what}: {error}"
            );
            // Bytes that the client does not read stay in the sockets' buffers.
            let sent = SENT.load(Ordering::Relaxed) - sent;
            assert!(sent < 64 << 20, "{place:?}, {what}: {sent} bytes");
        }
    }
}

#[test]
fn lengths_in_the_reply_to_a_login_are_checked() {
    for fields in [
        &[255][..],
        &[1, 0xff, 0xff, 0xff, 0xff, 5],
        &[1, 0, 0, 0, 0],
        &[2, 0, 0, 0, 1, 5, 0x7f, 0xff, 0xff, 0xff, 5],
    ] {
        let server = Server::new();
        *server.state.password.lock().unwrap() = Some("secret");
        let mut body = vec![0; 16];
        body[3] = fields[0];
        body.extend_from_slice(&fields[1..]);
        let reply = [&header(FrameKind::Security, body.len() as u64)[..], &body].concat();
        let liar: ReplyHook = Arc::new(move |kind, _, out| {
            (kind == FrameKind::Security).then(|| out.write_all(&reply).is_ok())
        });
        *server.state.liar.lock().unwrap() = Some(liar);
        let error = refusal(
            server.address,
            "test",
            impatient(Some(Login::new("me", "secret".to_owned(), false).unwrap())),
        );
        assert_contains!(error, "expected a whole reply to the login");
    }
}

#[test]
fn overlong_and_invalid_info_values_are_refused_with_a_message_of_one_line() {
    const LONG: usize = 4 << 20;
    for (name, value) in [
        ("node", "A".repeat(LONG)),
        ("node", "../../etc".to_owned()),
        ("build", format!("8.{}", "0".repeat(LONG))),
        ("namespaces", "x;".repeat(LONG / 2)),
        ("replicas", format!("test:0,1,{}", "/".repeat(LONG))),
        ("replicas", format!("test:0,{LONG}{}", ",".repeat(LONG))),
        ("replicas", "test:99999999999,1,".to_owned()),
        ("replicas", ";".repeat(LONG)),
    ] {
        let server = Server::new();
        let liar: ReplyHook = Arc::new(move |kind, body, out| {
            let names = std::str::from_utf8(body).unwrap();
            let is_place = kind == FrameKind::Info && names.lines().any(|asked| asked == name);
            let known = [
                ("node", "BB9"),
                ("build", "8.0.0.15"),
                ("namespaces", "other"),
                ("features", ""),
            ];
            let known = |asked: &str| {
                known
                    .iter()
                    .find(|(name, _)| *name == asked)
                    .map_or("", |(_, value)| value)
            };
            let text = names
                .lines()
                .map(|asked| {
                    format!(
                        "{asked}\t{}\n",
                        if asked == name { &value } else { known(asked) }
                    )
                })
                .collect::<String>();
            is_place.then(|| {
                out.write_all(&header(kind, text.len() as u64))
                    .and_then(|()| out.write_all(text.as_bytes()))
                    .is_ok()
            })
        });
        *server.state.liar.lock().unwrap() = Some(liar);
        let namespace = if name == "namespaces" { "foo" } else { "test" };
        let error = refusal(server.address, namespace, Access::default());
        assert!(
            error.starts_with("cannot ") && error.len() < 3_000 && !error.contains('\n'),
            "{name}: {error}"
        );
    }
}

#[test]
fn an_endless_chain_of_peers_is_followed_up_to_a_limit() {
    // On each connection the node has another id, and reports many more peers at the same address.
    let server = Server::new();
    let address = server.address;
    let met = AtomicUsize::new(0);
    let liar: ReplyHook = Arc::new(move |kind, body, out| {
        let names = std::str::from_utf8(body)
            .ok()
            .filter(|_| kind == FrameKind::Info)?;
        let number = met.fetch_add(1, Ordering::Relaxed);
        let peers: Vec<_> = (0..40)
            .map(|at| format!("[C{number}C{at},,[{address},{address}]]"))
            .collect();
        let value = |name: &str| match name {
            "node" => format!("B{number}"),
            "build" => "8.0.0.15".to_owned(),
            "namespaces" => "test".to_owned(),
            name if name.starts_with("peers") && !name.contains("generation") => {
                format!("{number},3000,[{}]", peers.join(","))
            }
            "replicas" => format!("test:{number},1,{}8=", "/".repeat(682)),
            _ => number.to_string(),
        };
        let text: String = names
            .lines()
            .map(|name| format!("{name}\t{}\n", value(name)))
            .collect();
        Some(
            out.write_all(&header(kind, text.len() as u64))
                .and_then(|()| out.write_all(text.as_bytes()))
                .is_ok(),
        )
    });
    *server.state.liar.lock().unwrap() = Some(liar);
    let begin = Instant::now();
    let cluster = ClientCluster::find(&[seed(address)], "test", Access::default(), false);
    if let Ok(cluster) = cluster {
        assert!(cluster.map().nodes.len() <= crate::nodes::NODES_MAX);
    }
    assert!(
        begin.elapsed() < Duration::from_secs(120),
        "{:?}",
        begin.elapsed()
    );
}

#[test]
fn a_peer_without_a_name_or_an_address_is_ignored() {
    for peers in [
        "0,3000,[[,,[]]]",
        "0,3000,[[,,[]],[,,[]],[B1,,[]]]",
        "0,3000,[[[[",
        ",,",
        "ERROR",
    ] {
        let server = Server::new();
        *server.state.peers.lock().unwrap() = peers.to_owned();
        let cluster =
            ClientCluster::find(&[seed(server.address)], "test", Access::default(), false).unwrap();
        assert_eq!(cluster.map().nodes.len(), 1, "{peers}");
    }
}

#[test]
fn nonsense_instead_of_a_record_fails_the_transaction_and_the_next_succeeds() {
    let Some(()) = ring() else { return };
    for (what, nonsense) in NONSENSE {
        let server = Server::new();
        let mut client = server.client(2, 2_000);
        succeed(&mut client, OpKind::Write, 8);
        let sent = SENT.load(Ordering::Relaxed);
        *server.state.liar.lock().unwrap() = Some(lies((FrameKind::Message, ""), nonsense));
        let begin = Instant::now();
        let outcomes = all(&mut client, OpKind::Read, 8, 8);
        assert!(
            outcomes
                .iter()
                .all(|outcome| matches!(outcome, Outcome::Errno(_))),
            "{what}: {outcomes:?}"
        );
        assert!(
            begin.elapsed() < Duration::from_secs(20),
            "{what}: {:?}",
            begin.elapsed()
        );
        let sent = SENT.load(Ordering::Relaxed) - sent;
        assert!(sent < 512 << 20, "{what}: {sent} bytes");
        *server.state.liar.lock().unwrap() = None;
        let outcomes = all(&mut client, OpKind::Read, 8, 8);
        assert!(
            outcomes.iter().all(|outcome| outcome.is_done()),
            "after {what}: {outcomes:?}"
        );
    }
}
