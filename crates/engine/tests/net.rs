//! Sockets and files on one ring: data sent arrives, a receive without buffers can be repeated, other threads wake the
//! ring, and the end of the ring closes the connections.

#![allow(clippy::disallowed_methods, reason = "tests make files of their own")]

use device::guard::{EraseAnswers, Guard, WriteRequest};
use device::target::Target;
use engine::EngineSetup;
use engine::net::{NetCompletion, NetEngine, ReceiveBuffers, SocketCompletion};
use engine::{IoEngine, Wait};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};
use sys::net::{NetOp, NetOutcome};
use sys::op::{self, OpKind};

const SEC: u64 = 1_000_000_000;

fn net(targets: Vec<Arc<Target>>, arrivals: ReceiveBuffers) -> Option<NetEngine> {
    match NetEngine::new(
        targets,
        arrivals,
        EngineSetup {
            harmless_gap_ns: u64::MAX,
            ..EngineSetup::new(8, 1 << 16)
        },
    ) {
        Ok((net, _)) => Some(net),
        Err(error) => {
            println!("skipped: no io_uring with sockets: {error}");
            None
        }
    }
}

fn reap(net: &mut NetEngine) -> Vec<NetCompletion> {
    let begin = Instant::now();
    let mut out = Vec::new();
    while out.is_empty() {
        assert!(begin.elapsed() < Duration::from_secs(20), "nothing came");
        let until_ns = net.now() + SEC;
        net.reap(Wait::first(until_ns), &mut out).unwrap();
    }
    out
}

/// Token, outcome and operation of the last completion of a socket.
fn event(net: &mut NetEngine) -> (u32, NetOutcome, Option<NetOp>) {
    match reap(net).pop() {
        Some(NetCompletion::Net(SocketCompletion {
            token, outcome, op, ..
        })) => (token, outcome, op),
        other => panic!("{other:?}"),
    }
}

/// The two ends of a TCP connection: the end that the ring uses, and the peer's end.
fn pair() -> (Arc<TcpStream>, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let other = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (Arc::new(listener.accept().unwrap().0), other)
}

const FEW: ReceiveBuffers = ReceiveBuffers {
    buffers: 2,
    bytes: 4096,
};

#[test]
fn connections_are_accepted_and_bytes_arrive_in_both_directions() {
    let Some(mut net) = net(Vec::new(), FEW) else {
        return;
    };
    let listener = Arc::new(TcpListener::bind("127.0.0.1:0").unwrap());
    let address = listener.local_addr().unwrap();
    sys::net::set_backlog(&listener, 64).unwrap();
    net.submit(NetOp::Accept { token: 0, listener });
    for _ in 0..2 {
        let mut client = TcpStream::connect(address).unwrap();
        let (0, NetOutcome::Accepted(socket), None) = event(&mut net) else {
            panic!()
        };
        let socket = Arc::new(socket);
        net.submit(NetOp::Receive {
            token: 1,
            socket: socket.clone(),
        });
        for text in ["first", "second"] {
            client.write_all(text.as_bytes()).unwrap();
            let (1, NetOutcome::Received(buf, len), None) = event(&mut net) else {
                panic!()
            };
            assert_eq!(&buf[..len], text.as_bytes());
            net.provide(buf);
        }
        // The send has more bytes than the socket's buffers hold, so the kernel continues it while the peer reads.
        let bytes: Vec<_> = (0..16 << 20).map(|at| (at % 251) as u8).collect();
        net.submit(NetOp::Send {
            token: 2,
            socket: socket.clone(),
            bytes: bytes.clone(),
        });
        net.reap(Wait::first(0), &mut Vec::new()).unwrap();
        let reader = std::thread::spawn(move || {
            let mut read = vec![0; 16 << 20];
            client.read_exact(&mut read).unwrap();
            (read, client)
        });
        let (2, NetOutcome::Sent, Some(NetOp::Send { bytes: back, .. })) = event(&mut net) else {
            panic!()
        };
        let (read, client) = reader.join().unwrap();
        assert!(read == bytes && back == bytes);
        drop(client);
        let (1, NetOutcome::Closed, Some(NetOp::Receive { .. })) = event(&mut net) else {
            panic!()
        };
    }
    assert_eq!(net.in_flight(), 1, "it accepts");
}

#[test]
fn a_receive_without_a_free_buffer_ends_and_can_be_submitted_again() {
    let Some(mut net) = net(Vec::new(), FEW) else {
        return;
    };
    let (socket, mut client) = pair();
    client.write_all(&[7; 3 * 4096]).unwrap();
    net.submit(NetOp::Receive {
        token: 3,
        socket: socket.clone(),
    });
    let mut bufs = Vec::new();
    let mut bytes = 0;
    let mut ended = false;
    while !ended {
        for completion in reap(&mut net) {
            match completion {
                NetCompletion::Net(SocketCompletion {
                    outcome: NetOutcome::Received(buf, len),
                    ..
                }) => {
                    bytes += len;
                    bufs.push(buf);
                }
                NetCompletion::Net(SocketCompletion {
                    outcome: NetOutcome::Errno(errno),
                    op: Some(_),
                    ..
                }) => {
                    assert_eq!(errno, libc::ENOBUFS);
                    ended = true;
                }
                other => panic!("{other:?}"),
            }
        }
    }
    assert_eq!(bufs.len(), 2, "buffers");
    bufs.into_iter().for_each(|buf| net.provide(buf));
    net.submit(NetOp::Receive { token: 3, socket });
    while bytes < 3 * 4096 {
        let (_, NetOutcome::Received(buf, len), _) = event(&mut net) else {
            panic!()
        };
        bytes += len;
        net.provide(buf);
    }
}

#[test]
fn another_thread_can_end_every_sleep_of_the_engine() {
    let Some(mut net) = net(Vec::new(), FEW) else {
        return;
    };
    for _ in 0..3 {
        let waker = net.waker().clone();
        let thread = std::thread::spawn(move || waker.wake());
        let begin = Instant::now();
        let until_ns = net.now() + 30 * SEC;
        net.reap(Wait::first(until_ns), &mut Vec::new()).unwrap();
        assert!(begin.elapsed() < Duration::from_secs(20));
        thread.join().unwrap();
    }
}

#[test]
fn the_end_of_an_engine_closes_its_connections() {
    let Some(mut net) = net(Vec::new(), FEW) else {
        return;
    };
    let (socket, mut client) = pair();
    net.submit(NetOp::Receive {
        token: 0,
        socket: socket.clone(),
    });
    net.submit(NetOp::Send {
        token: 1,
        socket,
        bytes: vec![1; 64 << 20],
    });
    net.reap(Wait::first(0), &mut Vec::new()).unwrap();
    drop(net);
    client
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    let mut buf = vec![0; 1 << 20];
    loop {
        match client.read(&mut buf) {
            Ok(0) => break,
            Ok(_) => {}
            Err(error) => {
                assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{error}");
                break;
            }
        }
    }
}

#[test]
fn a_file_shares_the_ring_and_an_unsupported_placement_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    std::fs::write(&path, vec![7; 1 << 20]).unwrap();
    let name = path.to_str().unwrap().to_owned();
    let request = WriteRequest {
        file_size_bytes: Some(1 << 20),
        ..WriteRequest::new(&name, "test")
    };
    let guard = Guard::new(Some(dir.path().join("state")));
    let consent = guard
        .consent(&[request], &mut EraseAnswers::named([name]))
        .unwrap()
        .remove(0);
    let Some(mut net) = net(vec![Target::writable(consent).into()], FEW) else {
        return;
    };
    let (socket, mut client) = pair();
    net.submit(NetOp::Receive { token: 0, socket });
    let mut op = |kind, placement, token| {
        let buf = net.buffer(4096).unwrap();
        net.submit(NetOp::Block(op::Op {
            placement,
            token,
            ..op::Op::new(kind, 4096, 4096, buf)
        }));
    };
    op(OpKind::Read, None, 1);
    op(OpKind::Write, Some(op::Placement(9)), 2);
    client.write_all(b"x").unwrap();
    let mut seen = Vec::new();
    while seen.len() < 3 {
        seen.extend(
            reap(&mut net)
                .into_iter()
                .map(|completion| match completion {
                    NetCompletion::Block(of) => (
                        of.token,
                        format!("{} {}", of.outcome, of.buf.first().unwrap()),
                    ),
                    NetCompletion::Net(event) => (
                        event.token,
                        format!("{:?}", matches!(event.outcome, NetOutcome::Received(_, 1))),
                    ),
                }),
        );
    }
    seen.sort();
    let refused = format!("{} 0", op::Outcome::Errno(libc::EOPNOTSUPP));
    assert_eq!(
        seen,
        [
            (0, "true".to_owned()),
            (1, "done 7".to_owned()),
            (2, refused)
        ]
    );
}
