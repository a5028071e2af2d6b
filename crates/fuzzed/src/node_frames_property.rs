//! Properties of a server for any bytes that another node sends.

use crate::device_property::Open;
use engine::sim::DriveContents;
use store::server::node_message::{BODY_BYTES_MAX, HEADER_BYTES, NodeMessage, take};
use store::wire::{self, message};
use store::{Digest, Exists, Policy, RecordOp, ResultCode, Write, ops};

const LIMITS: wire::BatchLimits = wire::BatchLimits {
    batch_requests: 100,
    batch_bytes: 1 << 12,
};

/// Maximum number of records and comparisons that a store gets from one input. More would take too long.
const WORKS_MAX: usize = 8;

/// Start value of the checksum of a record sent between nodes.
const IMAGE_SEED: u32 = 0;

/// Parses the messages in `bytes`, encodes each again, and handles its content. Returns true if there is a message.
pub(crate) fn assert_node_frames_property(bytes: &[u8]) -> bool {
    let mut rest = bytes;
    let mut works = Vec::new();
    loop {
        let before = rest;
        let Ok(Some(said)) = take(&mut rest) else {
            assert_eq!(rest, before, "a message is taken whole or not at all");
            break;
        };
        let len = before.len() - rest.len();
        assert!(
            (HEADER_BYTES..=HEADER_BYTES + BODY_BYTES_MAX).contains(&len),
            "a message of {len} bytes"
        );
        assert_eq!(
            take(&mut &before[..len - 1]),
            Ok(None),
            "a torn message is not a message yet"
        );
        let mut put = Vec::new();
        said.put(&mut put);
        assert!(
            put.len() <= len,
            "{len} bytes are encoded as {} bytes",
            put.len()
        );
        let mut again = &put[..];
        assert_eq!(take(&mut again).ok().flatten().as_ref(), Some(&said));
        assert!(
            again.is_empty(),
            "{} bytes are left of {said:?}",
            again.len()
        );
        match said {
            NodeMessage::Proxy { message, .. } => {
                _ = wire::parse(message, LIMITS, |name| (name == b"test").then_some(0))
            }
            NodeMessage::Answer { reply: body, .. } => {
                assert!(
                    message::parse_reply(body).map_or(0, |reply| reply.ops.len()) <= body.len(),
                    "bins beyond the reply"
                );
            }
            NodeMessage::Image { digest, image, .. } => {
                let mut image = image.to_vec();
                seal(&mut image, &digest);
                works.push((digest, RecordOp::Image(image)));
            }
            NodeMessage::Compare {
                digest, version, ..
            } => works.push((digest, RecordOp::Compare(version))),
            _ => {}
        }
    }
    works.truncate(WORKS_MAX);
    if !works.is_empty() {
        assert_store(works);
    }
    rest.len() < bytes.len()
}

/// Executes `works`, another node's records and comparisons, on a store. Asserts that the store returns equal records
/// after a restart, and that a write succeeds where the store has no record.
fn assert_store(works: Vec<(Digest, RecordOp)>) {
    let mut open = Open::on(DriveContents::new(512, 1));
    let mut digests = Vec::new();
    for (digest, work) in works {
        open.ask(digest, work);
        digests.push(digest);
    }
    digests.sort_unstable();
    digests.dedup();
    let found = open.read(&digests);
    let mut open = Open::on(open.close());
    assert_eq!(open.read(&digests), found);
    let mut bins = Vec::new();
    let operation = ops::operation::WRITE;
    let particle = ops::particle::BLOB;
    ops::put(
        &mut bins,
        &ops::BinEntry {
            operation,
            particle,
            name: b"b",
            value: b"value",
        },
    );
    for (digest, (result, ..)) in digests.into_iter().zip(found) {
        let policy = Policy {
            exists: Exists::Any,
            ..Policy::default()
        };
        let write = Write {
            policy,
            ops: bins.clone(),
            wants_image: true,
            ..Write::default()
        };
        let written = open.ask(digest, RecordOp::Write(write)).result;
        assert!(
            written == ResultCode::OK || result == ResultCode::OK,
            "{written:?} without a record"
        );
    }
    open.close();
}

/// Gives a record the digest and the checksum that its message needs, so that the store parses the rest.
fn seal(image: &mut [u8], digest: &Digest) {
    let Some(header) = image.first_chunk::<12>() else {
        return;
    };
    let len =
        (u32::from_le_bytes([header[8], header[9], header[10], header[11]]) >> 4) as usize * 16;
    if (48..=image.len()).contains(&len) {
        image[24..44].copy_from_slice(digest);
        let mut hasher = crc32fast::Hasher::new_with_initial(IMAGE_SEED);
        hasher.update(&image[4..len]);
        image[..4].copy_from_slice(&hasher.finalize().to_le_bytes());
    }
}
