//! Properties of a client for arbitrary bytes in a server's replies.

use store::client::replies::{parse_partitions, rack, take_entry, take_reply};
use store::nodes::{HostPort, peers, services};
use store::ops;
use store::wire::FrameKind;
use store::wire::frame::HEADER_BYTES;
use store::wire::query::{body_bytes, info_replies, security_reply};

/// Reads `bytes` as replies of a connection, and as the body of an info reply. Returns true if they are valid.
pub(crate) fn assert_replies_property(bytes: &[u8]) -> bool {
    let mut rest = bytes;
    let mut replies = 0;
    while let Ok(Some(mut body)) = take_reply(&mut rest) {
        replies += 1;
        while !body.is_empty() {
            let Ok(entry) = take_entry(&mut body) else {
                break;
            };
            let mut bins = entry.bins;
            while !bins.is_empty() {
                ops::take(&mut bins).expect("a whole bin");
            }
        }
        // A reply without its last byte is incomplete.
        let len = bytes.len() - rest.len();
        if replies == 1 {
            let torn = take_reply(&mut &bytes[..len - 1]);
            assert!(matches!(torn, Ok(None)), "{torn:?} of {len} bytes but one");
        }
    }
    let text = String::from_utf8_lossy(bytes);
    let pairs: Vec<_> = text
        .lines()
        .filter_map(|line| line.split_once('\t'))
        .collect();
    for (_, value) in &pairs {
        assert_value(value);
    }
    let is_login = assert_query(
        bytes,
        pairs.iter().map(|(name, _)| (*name).to_owned()).collect(),
    );
    replies > 0 || is_login || !pairs.is_empty()
}

fn assert_value(value: &str) {
    match parse_partitions(value, "test") {
        Ok(owned) => {
            assert!(owned.is_none_or(
                |of| of.copies.iter().all(|map| map.len() == 512) && of.copies.len() <= 8
            ))
        }
        Err(error) => assert!(
            !error.contains('\n') && error.len() < 2000,
            "one line: {error}"
        ),
    }
    let _ = rack(value, "test");
    for found in [peers(value), services(value)] {
        match found {
            Ok(peers) => {
                assert!(peers.iter().all(|peer| peer.hosts.len() <= 64));
                for host in peers.iter().flat_map(|peer| &peer.hosts) {
                    assert_eq!(
                        HostPort::parse(&host.to_string(), 1).as_ref(),
                        Ok(host),
                        "a host reads back"
                    );
                }
            }
            Err(error) => assert!(
                !error.contains('\n') && error.len() < 2000,
                "one line: {error}"
            ),
        }
    }
}

/// Reads `bytes` as a frame, and as replies to queries of `names` and others. True: the reply to a login.
fn assert_query(bytes: &[u8], names: Vec<String>) -> bool {
    let mut is_login = false;
    if let Some((header, body)) = bytes.split_first_chunk::<HEADER_BYTES>() {
        for kind in [FrameKind::Info, FrameKind::Security, FrameKind::Message] {
            match body_bytes(*header, kind) {
                Ok(_) => is_login |= kind == FrameKind::Security && security_reply(body).is_ok(),
                Err(error) => assert!(!error.to_string().contains('\n'), "one line: {error}"),
            }
        }
        let _ = security_reply(body);
    }
    for names in [
        names,
        ["node", "build", "namespace/test"]
            .map(str::to_owned)
            .to_vec(),
    ] {
        match info_replies(&names, bytes) {
            Ok(values) => assert_eq!(values.len(), names.len()),
            Err(error) => assert!(!error.to_string().contains('\n'), "one line: {error}"),
        }
    }
    is_login
}
