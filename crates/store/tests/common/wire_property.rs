//! Properties of the server for arbitrary bytes from a client.

use store::conf;
use store::observe::{Facts, NodeView, ServerCounts};
use store::wire::frame::{self, FrameKind};
use store::wire::message::{self, MessageHeader, info3};
use store::wire::{BatchLimits, MessageError, ParsedMessage, info, parse, query};
use store::{RecordOp, Reply, ResultCode, ops};

const BODY_BYTES_MAX: usize = 1 << 16;
const LIMITS: BatchLimits = BatchLimits {
    batch_requests: 100,
    batch_bytes: 1 << 12,
};

/// Takes frames off `bytes` as a server does, and answers each. Returns true if there was a valid message.
pub(crate) fn assert_wire_property(mut bytes: &[u8]) -> bool {
    let facts = facts();
    let mut is_valid = false;
    while let Ok(Some((kind, body))) = frame::take(&mut bytes, BODY_BYTES_MAX) {
        let mut out = Vec::new();
        match kind {
            FrameKind::Info => {
                info::put(&mut out, body, &facts);
                let names = body
                    .split(|byte| *byte == b'\n')
                    .filter(|name| !name.is_empty())
                    .count();
                // The header is left out, because its length may contain a newline byte, too.
                let lines = out[frame::HEADER_BYTES..]
                    .iter()
                    .filter(|byte| **byte == b'\n')
                    .count();
                assert!(
                    names == 0 && lines > 0 || lines == names.min(257),
                    "{names} names, {lines} lines"
                );
            }
            FrameKind::Message => is_valid |= assert_message(body, &mut out),
            kind => query::put_unsupported(&mut out, kind),
        }
        assert_frames(&out);
    }
    is_valid
}

fn assert_message(body: &[u8], out: &mut Vec<u8>) -> bool {
    match parse(body, LIMITS, |name| (name == b"test").then_some(0)) {
        Ok(ParsedMessage::Single { request, .. }) => {
            assert_work(&request.transaction.record_op);
            message::put_reply(out, &Reply::with_result(ResultCode::OK));
        }
        Ok(ParsedMessage::Batch { requests, .. }) => {
            assert!((1..=LIMITS.batch_requests as usize).contains(&requests.len()));
            let begin = frame::begin(out, FrameKind::Message);
            let mut copied = 0;
            for keyed in &requests {
                let result = match &keyed.request {
                    Ok(request) => {
                        copied += assert_work(&request.transaction.record_op);
                        ResultCode::OK
                    }
                    Err(code) => *code,
                };
                message::put_entry(out, keyed.index, &Reply::with_result(result));
            }
            assert!(copied <= LIMITS.batch_bytes, "{copied} bytes of operations");
            message::put_last(out, ResultCode::OK);
            frame::end(out, begin);
        }
        Err(MessageError::Refused(code)) => {
            message::put_refusal(out, body, code);
            return false;
        }
        Err(MessageError::Malformed(why)) => {
            assert!(!why.to_string().contains('\n'));
            return false;
        }
    }
    true
}

/// Checks that operations for a store are complete, and that names are not too long. Returns the operations' bytes.
fn assert_work(record_op: &RecordOp) -> usize {
    let bytes = match record_op {
        RecordOp::Read(bytes, _) => bytes,
        RecordOp::Write(write) => &write.ops,
        _ => return 0,
    };
    let mut rest = &bytes[..];
    while !rest.is_empty() {
        let entry = ops::take(&mut rest).expect("a whole operation");
        assert!(entry.name.len() <= ops::NAME_BYTES_MAX);
    }
    bytes.len()
}

/// Checks that a client that follows the protocol can read all replies.
fn assert_frames(mut out: &[u8]) {
    while !out.is_empty() {
        let (kind, mut body) = frame::take(&mut out, usize::MAX)
            .expect("a frame")
            .expect("all of it");
        if kind == FrameKind::Message {
            let mut last = false;
            while !body.is_empty() {
                assert!(!last, "nothing follows the last reply");
                last = MessageHeader::take(&mut body).expect("a header").info[2] & info3::LAST != 0;
            }
        }
    }
}

fn facts() -> Facts {
    let text = b"namespace test {\nstorage-engine device {\ndevice /dev/x\n}\n}\n";
    Facts {
        config: conf::parse(text).expect("a configuration").config,
        node: NodeView::alone(1, ([127, 0, 0, 1].into(), 3_000)),
        device_bytes: vec![vec![1 << 30]],
        uptime_sec: 1,
        wall_ms: 1,
        counts: ServerCounts::default(),
        latencies: Vec::new(),
    }
}

/// Reads `bytes` as a configuration of the server. Returns true if it is valid.
pub(crate) fn assert_configuration_property(bytes: &[u8]) -> bool {
    match conf::parse(bytes) {
        Ok(parsed) => {
            assert!(
                parsed
                    .notes
                    .iter()
                    .all(|note| !note.to_string().contains('\n'))
            );
            let namespaces = &parsed.config.namespaces;
            assert!(
                !namespaces.is_empty()
                    && namespaces
                        .iter()
                        .all(|namespace| !namespace.devices.is_empty())
            );
            true
        }
        Err(problems) => {
            assert!(!problems.0.is_empty());
            let harmless = |c: char| !c.is_control();
            assert!(
                problems
                    .0
                    .iter()
                    .all(|problem| problem.to_string().chars().all(harmless)),
                "{problems}"
            );
            false
        }
    }
}
