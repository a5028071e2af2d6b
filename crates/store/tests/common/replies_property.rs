//! Properties of a client for any bytes of a server's replies.
//!
//! Shared by the fuzz target, its stand-in on stable Rust and the tests.

use store::client::replies::{answers, bitmap, peers, split_address, take_reply};
use store::ops;

/// Reads `bytes` as replies of a connection, and as the body of an info reply. Returns true if they are valid.
pub(crate) fn assert_replies_property(bytes: &[u8]) -> bool {
    let (mut rest, mut replies) = (bytes, 0);
    while let Ok(Some((_, bins))) = take_reply(&mut rest) {
        replies += 1;
        let mut bins = bins;
        while !bins.is_empty() {
            ops::take(&mut bins).expect("a whole bin");
        }
        // While less of it has arrived, it is the same or nothing yet.
        let len = bytes.len() - rest.len();
        if replies == 1 {
            let torn = take_reply(&mut &bytes[..len - 1]);
            assert!(matches!(torn, Ok(None)), "{torn:?} of {len} bytes but one");
        }
    }
    let answers = answers(bytes);
    for value in answers.values() {
        let map = bitmap(value, "test");
        assert!(map.is_none_or(|map| map.len() == 512));
        let peers = peers(value);
        assert!(peers.len() <= 256);
        for (_, addresses) in peers {
            assert!(addresses.len() <= 8, "{}", addresses.len());
            for host in addresses.iter().filter_map(|address| split_address(address)).map(|(host, _)| host) {
                assert!(!host.contains(']'), "{host:?}");
            }
        }
    }
    replies > 0 || !answers.is_empty()
}

/// Replies of real servers, and of this one.
pub(crate) fn examples() -> Vec<Vec<u8>> {
    let mut reply = vec![2, 3, 0, 0, 0, 0, 0, 22 + 23 + 13, 22, 0, 0, 0, 0, 0];
    reply.extend([0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1]);
    reply.extend(b"\0\0\0\x13\x04namespace is test\x01");
    reply.extend(b"\0\0\0\x09\x01\x03\0\x02abxyz");
    let all = format!("{}8=", "/".repeat(682));
    let info = [
        format!("node\tBB9020011AC4202\nreplicas\ttest:0,1,{all};bar:0,2,{all},{all}\n"),
        "peers-clear-std\t5,3000,[[BB9020011AC4202,,[172.17.0.3:3100]],[BB9030011AC4202,,[172.17.0.4,[fe80::1]:3200]]]\n"
            .to_owned(),
    ];
    [reply].into_iter().chain(info.map(String::into_bytes)).collect()
}
