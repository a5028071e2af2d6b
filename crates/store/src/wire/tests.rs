//! Tests with recorded requests of real clients, and with constructed requests.

use super::message::{self, MessageHeader, field, info1, info2, info3};
use super::request::BatchKey;
use super::{BatchLimits, FrameKind, MessageError, ParsedMessage, frame, parse, query, request};
use crate::ops::{self, BinEntry, operation, particle};
use crate::{Digest, Exists, Generation, RecordOp, Reply, ResultCode, Transaction, Ttl, digest};

const RECORDED: &str = include_str!("../../tests/data/messages.txt");

/// Bodies that `client` sent (`>`) or received (`<`).
fn recorded(client: &str, direction: &str) -> Vec<Vec<u8>> {
    let lines = RECORDED
        .lines()
        .filter_map(|line| line.strip_prefix(&format!("{client} {direction} ")));
    lines
        .map(|hex| {
            let bytes: Vec<_> = (0..hex.len())
                .step_by(2)
                .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap())
                .collect();
            let (kind, body) = frame::take(&mut &bytes[..], 1_000).unwrap().unwrap();
            assert_eq!(kind, FrameKind::Message);
            body.to_vec()
        })
        .collect()
}

fn namespace_of(name: &[u8]) -> Option<usize> {
    (name == b"test").then_some(7)
}

fn parsed(body: &[u8]) -> Result<ParsedMessage, MessageError> {
    parse(body, BatchLimits::default(), namespace_of)
}

fn single(body: &[u8]) -> Result<Transaction, ResultCode> {
    match parsed(body) {
        Ok(ParsedMessage::Single { request, .. }) => {
            assert_eq!(request.namespace, 7);
            Ok(request.transaction)
        }
        Err(MessageError::Refused(code)) => Err(code),
        other => panic!("{other:?}"),
    }
}

fn message(info: [u8; 4], fields: &[(u8, &[u8])], ops: &[BinEntry<'_>]) -> Vec<u8> {
    let header = MessageHeader {
        info,
        fields: fields.len() as u16,
        ops: ops.len() as u16,
        ..MessageHeader::default()
    };
    let mut body = Vec::new();
    header.put(&mut body);
    fields
        .iter()
        .for_each(|(kind, value)| message::put_field(&mut body, *kind, value));
    ops.iter().for_each(|op| ops::put(&mut body, op));
    body
}

const KEY: [(u8, &[u8]); 2] = [(field::NAMESPACE, b"test"), (field::DIGEST, &[9; 20])];

fn op<'a>(operation: u8, particle: u8, name: &'a str, value: &'a [u8]) -> BinEntry<'a> {
    BinEntry {
        operation,
        particle,
        name: name.as_bytes(),
        value,
    }
}

#[test]
fn recorded_requests_of_real_clients_are_parsed() {
    for (client, set) in [("go", "gset"), ("python", "pset"), ("java", "jset")] {
        let keys = [format!("{}key1", &client[..1]), "nokey".to_owned()];
        let [key, missing] =
            keys.map(|key| digest(set.as_bytes(), particle::STRING, key.as_bytes()));
        let mut bodies = recorded(client, ">");
        // Only the Python client was also asked for a record by a digest.
        bodies.retain(|body| !body.windows(20).any(|bytes| bytes == [1; 20]));
        let [
            put,
            get,
            replace,
            exists,
            select,
            get_missing,
            batch,
            delete,
        ] = bodies.try_into().unwrap();
        let of = |body: &[u8], digest: Digest| {
            let transaction = single(body).unwrap();
            assert_eq!(transaction.digest, digest, "{client}");
            assert_eq!(&*transaction.set, set.as_bytes(), "{client}");
            transaction.record_op
        };
        for (body, exists) in [(put, Exists::Any), (replace, Exists::CreateOrReplace)] {
            let RecordOp::Write(write) = of(&body, key) else {
                panic!("{client}")
            };
            let bins: Vec<_> = ops::entries(&write.ops)
                .map(|bin| (bin.name, bin.value.len(), bin.operation))
                .collect();
            assert_eq!(write.policy.exists, exists);
            assert_eq!(bins, vec![(&b"b"[..], 100, operation::WRITE)]);
            assert_eq!(write.policy.generation, Generation::Any);
            assert_eq!(write.policy.ttl, Ttl::DEFAULT);
        }
        assert!(
            matches!(of(&get, key), RecordOp::ReadAll)
                && matches!(of(&get_missing, missing), RecordOp::ReadAll)
        );
        assert!(
            matches!(of(&exists, key), RecordOp::Exists)
                && matches!(of(&delete, key), RecordOp::Delete(_))
        );
        let RecordOp::Read(bins, _) = of(&select, key) else {
            panic!("{client}")
        };
        let found = ops::entries(&bins).map(|bin| bin.name).collect::<Vec<_>>();
        assert_eq!(found, [b"b"]);
        let Ok(ParsedMessage::Batch {
            requests,
            timeout_ms,
        }) = parsed(&batch)
        else {
            panic!("{client}")
        };
        assert!((998..=1000).contains(&timeout_ms));
        for (BatchKey { index, request }, (expected, digest)) in
            requests.into_iter().zip([(0, key), (1, missing)])
        {
            let transaction = request.unwrap().transaction;
            assert!(
                matches!(transaction.record_op, RecordOp::ReadAll),
                "{client}"
            );
            assert_eq!(index, expected);
            assert_eq!(transaction.digest, digest);
            assert_eq!(&*transaction.set, set.as_bytes());
        }
    }
}

#[test]
fn replies_equal_those_of_the_real_server() {
    let mut replies = 0;
    for body in ["go", "python", "java"]
        .iter()
        .flat_map(|client| recorded(client, "<"))
    {
        let mut rest = &body[..];
        let mut out = Vec::new();
        let begin = frame::begin(&mut out, FrameKind::Message);
        while !rest.is_empty() {
            let header = MessageHeader::take(&mut rest).unwrap();
            let bins = message::take_ops(&mut rest, header.ops).unwrap().to_vec();
            if header.info[2] == info3::LAST {
                message::put_last(&mut out, ResultCode::OK);
                continue;
            }
            let result = ResultCode(header.result);
            let generation = header.generation as u16;
            let reply = Reply {
                generation,
                bins: header.ops,
                ops: bins,
                ..Reply::with_result(result)
            };
            if header.timeout == 0 && rest.is_empty() && out.len() == frame::HEADER_BYTES {
                let mut alone = Vec::new();
                message::put_reply(&mut alone, &reply);
                assert_eq!(alone[frame::HEADER_BYTES..], body);
            }
            message::put_entry(&mut out, header.timeout, &reply);
        }
        frame::end(&mut out, begin);
        assert_eq!(out[frame::HEADER_BYTES..], body);
        replies += 1;
    }
    assert_eq!(replies, 29);
}

#[test]
fn conditions_of_a_write_are_read_from_its_bits() {
    let bin = [op(operation::WRITE, particle::STRING, "b", b"x")];
    let write = |info2: u8, info3: u8, generation, ttl| {
        let mut body = message([0, info2::WRITE | info2, info3, 0], &KEY, &bin);
        body[6..10].copy_from_slice(&u32::to_be_bytes(generation));
        body[10..14].copy_from_slice(&u32::to_be_bytes(ttl));
        match single(&body).unwrap().record_op {
            RecordOp::Write(write) => (
                write.policy.exists,
                write.policy.generation,
                write.policy.ttl,
                write.answers.has_each,
            ),
            other => panic!("{other:?}"),
        }
    };
    let any = Generation::Any;
    assert_eq!(write(0, 0, 5, 0), (Exists::Any, any, Ttl::DEFAULT, false));
    let found = write(info2::CREATE_ONLY, 0, 0, u32::MAX);
    assert_eq!(found, (Exists::CreateOnly, any, Ttl::NEVER, false));
    let found = write(0, info3::UPDATE_ONLY, 0, u32::MAX - 1);
    assert_eq!(found, (Exists::UpdateOnly, any, Ttl::KEEP, false));
    let found = write(0, info3::REPLACE_ONLY, 0, 60);
    assert_eq!(found, (Exists::ReplaceOnly, any, Ttl(60), false));
    let expected = (Exists::Any, Generation::Equal(3), Ttl::DEFAULT, true);
    let found = write(info2::GENERATION | info2::RESPOND_ALL_OPS, 0, 3, 0);
    assert_eq!(found, expected);
    assert_eq!(
        write(info2::GENERATION_GREATER, 0, 4, 0).1,
        Generation::Less(4)
    );
    let keyed = [KEY[0], KEY[1], (field::KEY, b"\x03user")];
    let RecordOp::Write(write) = single(&message([0, info2::WRITE, 0, 0], &keyed, &bin))
        .unwrap()
        .record_op
    else {
        panic!()
    };
    assert_eq!(write.key, b"\x03user");
    let delete = [0, info2::WRITE | info2::DELETE | info2::GENERATION, 0, 0];
    let RecordOp::Delete(delete) = single(&message(delete, &KEY, &[])).unwrap().record_op else {
        panic!()
    };
    assert_eq!(delete.generation, Generation::Equal(0));
}

#[test]
fn a_forwarded_message_is_parsed_as_the_original_transaction() {
    let bin = [
        op(operation::WRITE, particle::STRING, "b", b"x"),
        op(operation::READ, 0, "c", b""),
    ];
    let all_bins = [bin[0], op(operation::READ, 0, "", b"")];
    let all = message([info1::READ | info1::GET_ALL, 0, 0, 0], &KEY, &[]);
    let keyed = [
        KEY[0],
        KEY[1],
        (field::SET, b"s"),
        (field::KEY, b"\x03user"),
    ];
    let mut bodies = vec![
        all,
        message([info1::READ | info1::GET_NO_BINS, 0, 0, 0], &KEY, &[]),
    ];
    bodies.push(message([info1::READ, 0, 0, 0], &KEY, &bin[1..]));
    bodies.push(message(
        [info1::READ, info2::RESPOND_ALL_OPS, 0, 0],
        &KEY,
        &bin[1..],
    ));
    bodies.push(message(
        [info1::READ | info1::GET_ALL, info2::WRITE, 0, 0],
        &KEY,
        &all_bins,
    ));
    for info2 in [
        0,
        info2::CREATE_ONLY,
        info2::GENERATION,
        info2::GENERATION_GREATER,
        info2::RESPOND_ALL_OPS,
    ] {
        for info3 in [
            0,
            info3::UPDATE_ONLY,
            info3::CREATE_OR_REPLACE,
            info3::REPLACE_ONLY,
        ] {
            for ttl in [0, 60, u32::MAX, u32::MAX - 1] {
                let mut body = message([info1::READ, info2::WRITE | info2, info3, 0], &keyed, &bin);
                body[6..14].copy_from_slice(&[&[0, 0, 0, 7][..], &ttl.to_be_bytes()].concat());
                bodies.push(body);
            }
        }
        bodies.push(message(
            [0, info2::WRITE | info2::DELETE | info2, 0, 0],
            &KEY,
            &[],
        ));
    }
    for body in bodies {
        let transaction = single(&body).unwrap();
        let mut again = Vec::new();
        for at_master in [false, true] {
            again.clear();
            request::put(&mut again, b"test", &transaction, at_master, 77);
            let Ok(ParsedMessage::Single {
                request,
                timeout_ms,
            }) = parsed(&again)
            else {
                panic!("{transaction:?}")
            };
            assert_eq!((timeout_ms, request.at_master), (77, at_master));
            let found = format!("{:?}", request.transaction);
            assert_eq!(found, format!("{transaction:?}"));
        }
    }
    let reply = Reply {
        generation: 7,
        void_time_sec: 8,
        bins: 0,
        ..Reply::with_result(ResultCode::GENERATION)
    };
    let mut bytes = Vec::new();
    message::put_entry(&mut bytes, 0, &reply);
    assert_eq!(message::parse_reply(&bytes), Ok(reply));
}

#[test]
fn reads_that_are_linearizable_or_of_all_copies_go_to_the_master() {
    let at_master = |reads: u8, mode: u8| match parsed(&message(
        [info1::READ | info1::GET_ALL | reads, 0, mode, 0],
        &KEY,
        &[],
    )) {
        Ok(ParsedMessage::Single { request, .. }) => request.at_master,
        other => panic!("{other:?}"),
    };
    assert!(at_master(0, info3::READ_TYPE) && at_master(info1::CONSISTENCY_ALL, 0));
    assert!(
        ![0, info3::READ_RELAX, info3::READ_TYPE | info3::READ_RELAX]
            .iter()
            .any(|mode| at_master(0, *mode))
    );
}

#[test]
fn unsupported_and_invalid_requests_get_their_result_codes() {
    let write = [0, info2::WRITE, 0, 0];
    let refused = |info, fields: &[(u8, &[u8])], ops: &[BinEntry<'_>]| {
        single(&message(info, fields, ops)).unwrap_err()
    };
    let bin = |operation, particle, name, value| {
        refused(write, &KEY, &[op(operation, particle, name, value)])
    };
    let blob = (operation::WRITE, particle::BLOB);
    let found = bin(blob.0, blob.1, "sixteen.bytes.xx", b"");
    assert_eq!(found, ResultCode::BIN_NAME);
    let found = bin(operation::WRITE, particle::INTEGER, "i", b"1234567");
    assert_eq!(found, ResultCode::PARAMETER);
    let found = bin(operation::ADD, particle::NULL, "i", b"");
    assert_eq!(found, ResultCode::PARAMETER);
    let found = bin(operation::APPEND, particle::INTEGER, "i", b"1234567");
    assert_eq!(found, ResultCode::PARAMETER);
    for list_map_expression in [3, 4, 7, 8, 12, 13, 15, 16, 0, 255] {
        let found = bin(list_map_expression, particle::BLOB, "b", b"");
        assert_eq!(found, ResultCode::UNSUPPORTED);
    }
    assert_eq!(refused(write, &KEY, &[]), ResultCode::PARAMETER);
    let found = refused([0; 4], &KEY, &[]);
    assert_eq!(found, ResultCode::PARAMETER, "neither read nor write");
    let found = refused([info1::READ, 0, 0, 0], &KEY, &[]);
    assert_eq!(found, ResultCode::PARAMETER, "no bins");
    let read = [info1::READ, 0, 0, 0];
    let found = refused(read, &KEY, &[op(blob.0, blob.1, "b", b"")]);
    assert_eq!(found, ResultCode::PARAMETER, "a write among reads");
    assert_eq!(refused(read, &KEY[1..], &[]), ResultCode::NO_NAMESPACE);
    let found = refused(read, &[(field::NAMESPACE, b"tes"), KEY[1]], &[]);
    assert_eq!(found, ResultCode::NO_NAMESPACE);
    let found = refused(read, &KEY[..1], &[]);
    assert_eq!(found, ResultCode::UNSUPPORTED, "a scan");
    let found = refused(read, &[KEY[0], (field::DIGEST, &[9; 19])], &[]);
    assert_eq!(found, ResultCode::PARAMETER);
    let found = refused(read, &[KEY[0], KEY[1], (field::SET, &[b's'; 64])], &[]);
    assert_eq!(found, ResultCode::PARAMETER);
    let found = refused(read, &[KEY[0], KEY[1], (field::FUNCTION, b"f")], &[]);
    assert_eq!(found, ResultCode::UNSUPPORTED);
    let found = refused(read, &[KEY[0], KEY[1], (field::FILTER, b"f")], &[]);
    assert_eq!(found, ResultCode::UNSUPPORTED);
    let found = refused(read, &[KEY[0], KEY[1], (field::TRANSACTION, b"t")], &[]);
    assert_eq!(found, ResultCode::ENTERPRISE_ONLY);
    assert_eq!(
        refused([3, 0, 0, 1], &KEY, &[]),
        ResultCode::ENTERPRISE_ONLY,
        "a transaction's verification"
    );
    let durable = [
        0,
        info2::WRITE | info2::DELETE | info2::DURABLE_DELETE,
        0,
        0,
    ];
    assert_eq!(refused(durable, &KEY, &[]), ResultCode::ENTERPRISE_ONLY);
}

#[test]
fn a_replacement_may_only_write_and_read_bins() {
    let string = |code, name| op(code, particle::STRING, name, b"x");
    let number = |code| op(code, particle::INTEGER, "n", b"12345678");
    let write = string(operation::WRITE, "b");
    let modifying = [
        op(operation::WRITE, particle::NULL, "a", b""),
        number(operation::ADD),
        string(operation::APPEND, "a"),
        string(operation::PREPEND, "a"),
        op(operation::TOUCH, 0, "", b""),
        op(operation::DELETE, 0, "", b""),
    ];
    for (info3, is_replacement) in [
        (0, false),
        (info3::UPDATE_ONLY, false),
        (info3::CREATE_OR_REPLACE, true),
        (info3::REPLACE_ONLY, true),
    ] {
        let code = |ops: &[BinEntry<'_>]| {
            single(&message([info1::READ, info2::WRITE, info3, 0], &KEY, ops))
                .map_or_else(|code| code, |_| ResultCode::OK)
        };
        let found = code(&[
            write,
            number(operation::WRITE),
            op(operation::READ, 0, "b", b""),
        ]);
        assert_eq!(found, ResultCode::OK);
        for op in modifying {
            let expected = if is_replacement {
                ResultCode::PARAMETER
            } else {
                ResultCode::OK
            };
            assert_eq!(
                [code(&[op]), code(&[write, op])],
                [expected; 2],
                "{info3} {op:?}"
            );
        }
    }
}

#[test]
fn a_write_that_reads_all_bins_has_no_other_read() {
    let write = op(operation::WRITE, particle::STRING, "b", b"x");
    let touch = op(operation::TOUCH, 0, "", b"");
    let unnamed = op(operation::READ, 0, "", b"");
    let named = op(operation::READ, 0, "b", b"");
    let record_op = |info1, info2, ops: &[BinEntry<'_>]| {
        single(&message([info1, info2::WRITE | info2, 0, 0], &KEY, ops))
    };
    let all = info1::READ | info1::GET_ALL;
    assert!(
        record_op(all, 0, &[write, unnamed]).is_ok()
            && record_op(info1::READ, 0, &[unnamed, write, named]).is_ok()
    );
    for (info1, info2, ops) in [
        (all, 0, &[write, unnamed, unnamed][..]),
        (all, 0, &[write, unnamed, named]),
        (all, 0, &[write, named]),
        (all, 0, &[write]),
        (all, info2::RESPOND_ALL_OPS, &[write, unnamed]),
        (0, 0, &[write, unnamed]),
        (0, 0, &[write, named]),
    ] {
        let found = record_op(info1, info2, ops).unwrap_err();
        assert_eq!(found, ResultCode::PARAMETER, "{info1} {ops:?}");
    }
    let RecordOp::Write(touched) = record_op(0, 0, &[touch, write]).unwrap().record_op else {
        panic!()
    };
    assert_eq!(
        touched.policy.exists,
        Exists::UpdateOnly,
        "as in the real server, a touch creates no record"
    );
}

#[test]
fn a_filter_batch_of_the_go_client_is_unsupported_although_its_size_is_wrong() {
    let bodies = recorded("go-filter", ">");
    assert_eq!(bodies.len(), 2);
    for body in bodies {
        let found = parsed(&body).unwrap_err();
        assert_eq!(found, MessageError::Refused(ResultCode::UNSUPPORTED));
    }
}

#[test]
fn a_refusal_is_the_last_reply_where_several_are_expected() {
    let refusal = |body: &[u8]| {
        let mut out = Vec::new();
        message::put_refusal(&mut out, body, ResultCode::UNSUPPORTED);
        let (_, body) = frame::take(&mut &out[..], 100).unwrap().unwrap();
        let header = MessageHeader::take(&mut &body[..]).unwrap();
        assert_eq!((header.result, body.len(), out.len()), (16, 22, 30));
        header.info[2] & info3::LAST != 0
    };
    assert!(
        refusal(&message([info1::READ, 0, 0, 0], &KEY[..1], &[])),
        "a scan"
    );
    assert!(refusal(&message(
        [info1::BATCH, 0, 0, 0],
        &[(field::BATCH, b"")],
        &[]
    )));
    assert!(!refusal(&message([info1::READ, 0, 0, 0], &KEY, &[])));
    let mut out = Vec::new();
    query::put_unsupported(&mut out, FrameKind::Security);
    assert_eq!(&out[..10], &[2, 2, 0, 0, 0, 0, 0, 16, 0, 51][..]);
    assert_eq!(out.len(), 24);
    out.clear();
    query::put_unsupported(&mut out, FrameKind::Compressed);
    assert_eq!((out[1], out[13], out.len()), (3, 16, 30));
}

/// A batch of `count` keys; `rows` are the bytes after index and digest.
fn batch(count: u32, rows: &[&[u8]]) -> Vec<u8> {
    let mut keys = count.to_be_bytes().to_vec();
    keys.push(0);
    for (index, row) in rows.iter().enumerate() {
        keys.extend_from_slice(&(index as u32 * 10).to_be_bytes());
        keys.extend_from_slice(&[index as u8; 20]);
        keys.extend_from_slice(row);
    }
    message(
        [info1::READ | info1::BATCH, 0, 0, 0],
        &[(field::BATCH, &keys)],
        &[],
    )
}

/// A row: bits, the announced fields, the namespace and one operation.
fn row(bits: u8, announced: &[u8], namespace: &[u8], op: Option<&BinEntry<'_>>) -> Vec<u8> {
    let mut row = vec![bits];
    row.extend_from_slice(announced);
    row.extend_from_slice(&[0, 1, 0, u8::from(op.is_some())]);
    message::put_field(&mut row, field::NAMESPACE, namespace);
    op.iter().for_each(|op| ops::put(&mut row, op));
    row
}

#[test]
fn a_batch_may_mix_reads_and_writes_and_each_key_has_its_own_result() {
    let write = op(operation::WRITE, particle::INTEGER, "n", b"12345678");
    let all = 2 | 4 | 8 | 16;
    let announced = [
        0,
        info2::WRITE | info2::GENERATION,
        info3::UPDATE_ONLY,
        0,
        0,
        3,
        0,
        0,
        0,
        60,
    ];
    let rows = [
        row(0, &[info1::READ | info1::GET_ALL], b"test", None),
        row(all, &announced, b"test", Some(&write)),
        vec![1],
        row(2, &[info1::READ | info1::GET_ALL, 0, 0], b"other", None),
        row(2, &[0, info2::WRITE | info2::DELETE, 0], b"test", None),
    ];
    let rows: Vec<_> = rows.iter().map(Vec::as_slice).collect();
    let Ok(ParsedMessage::Batch { requests, .. }) = parsed(&batch(5, &rows)) else {
        panic!()
    };
    let indexes: Vec<_> = requests.iter().map(|keyed| keyed.index).collect();
    assert_eq!(indexes, [0, 10, 20, 30, 40]);
    let record_op = |at: usize| {
        requests[at]
            .request
            .as_ref()
            .map(|request| &request.transaction.record_op)
    };
    assert!(matches!(record_op(0), Ok(RecordOp::ReadAll)));
    for at in [1, 2] {
        let Ok(RecordOp::Write(write)) = record_op(at) else {
            panic!("{at}")
        };
        assert_eq!(write.policy.exists, Exists::UpdateOnly);
        assert_eq!(write.policy.generation, Generation::Equal(3));
        assert_eq!(write.policy.ttl, Ttl(60));
        assert_eq!(ops::entries(&write.ops).next().unwrap().value, b"12345678");
        assert_eq!(
            requests[at].request.as_ref().unwrap().transaction.digest,
            [at as u8; 20]
        );
    }
    assert!(
        matches!(record_op(3), Err(&ResultCode::NO_NAMESPACE))
            && matches!(record_op(4), Ok(RecordOp::Delete(_)))
    );
}

#[test]
fn a_batch_above_the_limits_is_refused_and_a_torn_batch_is_malformed() {
    let refused = |body: &[u8], limits| match parse(body, limits, namespace_of) {
        Err(MessageError::Refused(code)) => code,
        other => panic!("{other:?}"),
    };
    let limits = BatchLimits {
        batch_requests: 2,
        batch_bytes: 40,
    };
    let write = op(operation::WRITE, particle::BLOB, "n", &[0; 10]);
    let write = row(2, &[0, info2::WRITE, 0], b"test", Some(&write));
    assert_eq!(refused(&batch(3, &[]), limits), ResultCode::BATCH_REQUESTS);
    let found = refused(&batch(u32::MAX, &[]), limits);
    assert_eq!(found, ResultCode::BATCH_REQUESTS);
    assert_eq!(refused(&batch(0, &[]), limits), ResultCode::PARAMETER);
    // The batch has 19 bytes of operations, sent once for two keys.
    assert!(parse(&batch(2, &[&write, &[1]]), limits, namespace_of).is_ok());
    let found = refused(
        &batch(2, &[&write, &[1]]),
        BatchLimits {
            batch_bytes: 37,
            ..limits
        },
    );
    assert_eq!(found, ResultCode::PARAMETER);
    for torn in [
        batch(2, &[&write]),
        batch(1, &[&[1]]),
        batch(1, &[&write[..write.len() - 1]]),
    ] {
        assert!(matches!(parsed(&torn), Err(MessageError::Malformed(_))));
    }
    let found = refused(
        &message([info1::READ | info1::BATCH, 0, 0, 0], &[], &[]),
        limits,
    );
    assert_eq!(found, ResultCode::NO_NAMESPACE);
}

#[test]
fn a_message_cut_anywhere_or_with_larger_counts_is_malformed() {
    for body in recorded("python", ">") {
        assert!(parsed(&body).is_ok());
        for cut in 0..body.len() {
            assert!(
                matches!(parsed(&body[..cut]), Err(MessageError::Malformed(_))),
                "{cut}"
            );
        }
        for at in [18, 20] {
            let mut more = body.clone();
            more[at] = 255;
            assert!(
                matches!(parsed(&more), Err(MessageError::Malformed(_))),
                "{at}"
            );
        }
    }
}
