//! Sends a server the unsupported requests of each row of the table in docs/serve.md.

use super::*;

const DOCS: &str = include_str!("../../../../../docs/serve.md");

const READ: [u8; 4] = [info1::READ | info1::GET_ALL, 0, 0, 0];
const WRITE: [u8; 4] = [0, info2::WRITE, 0, 0];

/// A message with these fields, and with an operation on a bin if there is one.
fn frame_of(info: [u8; 4], fields: &[(u8, &[u8])], operation: Option<u8>) -> Vec<u8> {
    let mut out = Vec::new();
    let begin = frame::begin(&mut out, FrameKind::Message);
    MessageHeader {
        info,
        fields: fields.len() as u16,
        ops: operation.is_some().into(),
        ..MessageHeader::default()
    }
    .put(&mut out);
    fields
        .iter()
        .for_each(|(kind, value)| message::put_field(&mut out, *kind, value));
    let op = |operation| BinEntry {
        operation,
        particle: particle::BLOB,
        name: b"b",
        value: b"",
    };
    operation.inspect(|operation| ops::put(&mut out, &op(*operation)));
    frame::end(&mut out, begin);
    out
}

/// Requests for the feature that a phrase of the table names.
fn requests(phrase: &str) -> Vec<Vec<u8>> {
    let namespace: (u8, &[u8]) = (field::NAMESPACE, b"test");
    let key = [namespace, (field::DIGEST, &[9; 20])];
    let with = |info, more: (u8, &[u8])| frame_of(info, &[key[0], key[1], more], None);
    let operations = |codes: [u8; 2]| {
        codes
            .iter()
            .map(|code| frame_of(WRITE, &key, Some(*code)))
            .collect()
    };
    let written = operation::WRITE;
    let info = |name: &str| {
        let mut out = Vec::new();
        let begin = frame::begin(&mut out, FrameKind::Info);
        out.extend_from_slice(name.as_bytes());
        frame::end(&mut out, begin);
        out
    };
    match phrase {
        "creation of secondary indexes" => vec![info(
            "sindex-create:ns=test;indexname=i;indexdata=b,numeric",
        )],
        "registration of user-defined functions" => {
            vec![info("udf-put:filename=f.lua;content=;udf-type=LUA;")]
        }
        "truncation" => vec![
            info("truncate:namespace=test;set=s"),
            info("truncate-namespace:namespace=test"),
        ],
        "changes of the configuration" => vec![info("set-config:context=service;proto-fd-max=100")],
        "scans" => vec![
            frame_of(READ, &[namespace], None),
            frame_of(READ, &[namespace, (field::SET, b"s")], None),
        ],
        "queries" => vec![frame_of(READ, &[namespace, (22, b"\x01")], None)],
        "user-defined functions" => vec![with(WRITE, (field::FUNCTION, b"f"))],
        "filter expressions" => vec![
            with(READ, (field::FILTER, b"f")),
            with(WRITE, (field::FILTER, b"f")),
        ],
        "operations on lists" | "maps" => operations([3, 4]),
        "bits" => operations([12, 13]),
        "HyperLogLog" => operations([15, 16]),
        "compressed messages" => vec![[&[2, 4, 0, 0, 0, 0, 0, 8][..], &[0; 8]].concat()],
        "transactions over several records" => vec![
            with(READ, (field::TRANSACTION, &[1; 8])),
            with([READ[0], 0, 0, 1], (field::SET, b"s")),
            // The record with which clients begin such a transaction.
            frame_of(
                [0, info2::WRITE | info2::RESPOND_ALL_OPS, 0, 0],
                &[key[0], key[1], (field::SET, b"<ERO~MRT")],
                Some(4),
            ),
            frame_of(
                WRITE,
                &[key[0], key[1], (field::TRANSACTION, &[1; 8])],
                Some(written),
            ),
        ],
        "durable deletions" => {
            vec![frame_of(
                [
                    0,
                    info2::WRITE | info2::DELETE | info2::DURABLE_DELETE,
                    0,
                    0,
                ],
                &key,
                None,
            )]
        }
        "a login" => vec![vec![2, 2, 0, 0, 0, 0, 0, 0]],
        "an unknown namespace" => {
            vec![frame_of(READ, &[(field::NAMESPACE, b"none"), key[1]], None)]
        }
        "a batch of too many keys" => vec![batch(0..5_001)],
        "a record larger than a write block" => vec![put(1, &[0; 300_000])],
        _ => panic!("docs/serve.md names {phrase:?}: add a request for it"),
    }
}

#[test]
fn unsupported_requests_get_the_codes_of_the_documentation() {
    let Some(bench) = Bench::new(2, ClientLimits::default()) else {
        return;
    };
    let (_, table) = DOCS
        .split_once("| Request | Result code |\n|---|---|\n")
        .unwrap();
    let rows: Vec<_> = table
        .lines()
        .map_while(|line| {
            line.strip_prefix("| ")?
                .strip_suffix(" |")?
                .split_once(" | ")
        })
        .collect();
    assert!(rows.len() > 5, "{rows:?}");
    for (asked, answer) in rows {
        let code: u8 = answer.split(',').next().unwrap().parse().unwrap();
        for phrase in asked.split([',', ';']) {
            for request in requests(phrase.trim()) {
                let mut client = bench.client();
                client.0.write_all(&request).unwrap();
                let (kind, body) = client.reply().unwrap();
                let result = match kind {
                    FrameKind::Security => body[1],
                    FrameKind::Info => {
                        let reply = String::from_utf8(body).unwrap();
                        reply
                            .split_once("\tERROR:")
                            .unwrap()
                            .1
                            .split(':')
                            .next()
                            .unwrap()
                            .parse()
                            .unwrap()
                    }
                    _ => MessageHeader::take(&mut &body[..]).unwrap().result,
                };
                assert_eq!(result, code, "{phrase}: {request:?}");
            }
        }
    }
}
