//! Starts `flashproof engine serve`, and sends requests to it without a client.

use super::{Bench, Running, skip};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::thread;
use std::time::{Duration, Instant};
use store::ops::{self, BinEntry, operation, particle};
use store::wire::message::{self, MessageHeader, field, info1, info2};
use store::wire::{FrameKind, frame};

const PATIENCE: Duration = Duration::from_secs(60);

/// Starts a server with the configuration `config`. Returns its port. `None`, with a message, without io_uring.
pub fn serve(bench: &Bench, config: &str) -> Option<(Running, u16)> {
    let (running, address) = serve_as(bench, "serve.conf", config, &[])?;
    Some((running, address.port()))
}

/// Like [`serve`], with the configuration in the file `name`. Returns the address of the server.
pub fn serve_as(
    bench: &Bench,
    name: &str,
    config: &str,
    more: &[&str],
) -> Option<(Running, SocketAddr)> {
    bench.write(name, config);
    listening(Running::start(
        bench.prepare(&[&["engine", "serve", name], more].concat()),
    ))
}

/// Waits until a server listens. Returns its address. `None`, with a message, without io_uring.
pub fn listening(running: Running) -> Option<(Running, SocketAddr)> {
    let begin = Instant::now();
    loop {
        let said = running.said();
        let address = said
            .split_once("listening on ")
            .and_then(|(_, rest)| rest.split_once(';'));
        if let Some(address) = address.and_then(|(address, _)| address.parse().ok()) {
            return Some((running, address));
        }
        if said.contains("cannot make a ring") {
            return skip(&said);
        }
        assert!(begin.elapsed() < PATIENCE, "{said}");
        thread::sleep(Duration::from_millis(5));
    }
}

#[derive(Debug, PartialEq, Eq)]
pub struct Answer {
    pub result: u8,
    pub generation: u32,
    pub value: Vec<u8>,
}

/// Writes `value` to the record of the integer key `key` without a set; without `value`, reads the record.
pub fn ask(server: impl ToSocketAddrs, key: u64, value: Option<&[u8]>) -> Answer {
    let info = if value.is_some() {
        [0, info2::WRITE, 0, 0]
    } else {
        [info1::READ | info1::GET_ALL, 0, 0, 0]
    };
    transact(server, info, key, value)
}

/// Deletes a record. Returns the result code.
pub fn delete(server: impl ToSocketAddrs, key: u64) -> u8 {
    transact(server, [0, info2::WRITE | info2::DELETE, 0, 0], key, None).result
}

fn transact(server: impl ToSocketAddrs, info: [u8; 4], key: u64, value: Option<&[u8]>) -> Answer {
    let mut out = Vec::new();
    let begin = frame::begin(&mut out, FrameKind::Message);
    let digest = store::digest(b"", particle::INTEGER, &key.to_be_bytes());
    MessageHeader {
        info,
        fields: 2,
        ops: value.is_some().into(),
        ..MessageHeader::default()
    }
    .put(&mut out);
    message::put_field(&mut out, field::NAMESPACE, b"test");
    message::put_field(&mut out, field::DIGEST, &digest);
    if let Some(value) = value {
        ops::put(
            &mut out,
            &BinEntry {
                operation: operation::WRITE,
                particle: particle::BLOB,
                name: b"b",
                value,
            },
        );
    }
    frame::end(&mut out, begin);
    let body = exchange(server, &out);
    let mut rest = &body[..];
    let MessageHeader {
        result, generation, ..
    } = MessageHeader::take(&mut rest).unwrap();
    Answer {
        result,
        generation,
        value: ops::entries(rest)
            .next()
            .map_or(Vec::new(), |op| op.value.to_vec()),
    }
}

/// A statistic of namespace "test".
pub fn statistic(server: impl ToSocketAddrs, name: &str) -> u64 {
    statistic_of(server, "namespace/test", name)
}

/// The answer to an info request, with its name.
pub fn info(server: impl ToSocketAddrs, request: &str) -> String {
    let mut out = Vec::new();
    let begin = frame::begin(&mut out, FrameKind::Info);
    out.extend_from_slice(format!("{request}\n").as_bytes());
    frame::end(&mut out, begin);
    String::from_utf8(exchange(server, &out)).unwrap()
}

pub fn statistic_of(server: impl ToSocketAddrs, request: &str, name: &str) -> u64 {
    let body = info(server, request);
    let value = body
        .trim()
        .split([';', '\t'])
        .find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
    value
        .and_then(|value| value.parse().ok())
        .unwrap_or_else(|| panic!("no {name} in {body}"))
}

fn exchange(server: impl ToSocketAddrs, frames: &[u8]) -> Vec<u8> {
    let mut socket = TcpStream::connect(server).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.write_all(frames).unwrap();
    let mut header = [0; frame::HEADER_BYTES];
    socket.read_exact(&mut header).unwrap();
    let mut body = vec![0; frame::header(header, 1 << 20).unwrap().1];
    socket.read_exact(&mut body).unwrap();
    body
}
