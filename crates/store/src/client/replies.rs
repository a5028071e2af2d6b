//! Parses servers' replies, without trusting them.

use crate::PARTITIONS;
use crate::wire::frame::{self, FrameKind, Malformed};
use crate::wire::message::{self, MessageFields, MessageHeader, info3};
use crate::wire::query::begin_of;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

/// Longest reply, bytes: more than a record of the largest write block.
const REPLY_BYTES_MAX: usize = 16 << 20;

/// Maximum number of copies of a record. Further copies are ignored.
pub(super) const COPIES_MAX: usize = 8;

const MAP_BYTES: usize = PARTITIONS as usize / 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplyEntry<'a> {
    pub code: u8,
    /// In a batch: position of the key in the request.
    pub index: u32,
    /// True for the entry that ends a batch's reply and is about no record.
    pub is_last: bool,
    pub bins: &'a [u8],
}

/// Takes the body of the first reply off `bytes`. `None` if the reply is incomplete.
pub fn take_reply<'a>(bytes: &mut &'a [u8]) -> Result<Option<&'a [u8]>, Malformed> {
    match frame::take(bytes, REPLY_BYTES_MAX)? {
        Some((FrameKind::Message, body)) => Ok(Some(body)),
        Some((kind, _)) => Err(Malformed::Kind(kind as u8)),
        None => Ok(None),
    }
}

pub fn take_entry<'a>(body: &mut &'a [u8]) -> Result<ReplyEntry<'a>, Malformed> {
    let header = MessageHeader::take(body)?;
    MessageFields::take(body, header.fields)?;
    let bins = message::take_ops(body, header.ops)?;
    let is_last = header.info[2] & info3::LAST != 0;
    Ok(ReplyEntry {
        code: header.result,
        index: header.timeout,
        is_last,
        bins,
    })
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodePartitions {
    /// Increases with each change of masters: of two nodes that claim a partition, the higher regime has it.
    pub regime: u32,
    /// A bitmap for each copy: the partitions of which the node is master, then those of which it is a replica.
    pub copies: Vec<Vec<u8>>,
}

impl NodePartitions {
    /// Parses `regime,columns,map,map..`, with at least one map.
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(',');
        let regime = parts.next()?.parse().ok()?;
        let mut copies = Vec::new();
        for map in parts.skip(1).take(COPIES_MAX) {
            // Maps of a wrong length are not decoded: a reply may have 16 MiB.
            if map.len() >= 2 * MAP_BYTES {
                return None;
            }
            let map = BASE64.decode(map).ok()?;
            if map.len() != MAP_BYTES {
                return None;
            }
            copies.push(map);
        }
        if copies.is_empty() {
            return None;
        }
        Some(Self { regime, copies })
    }
}

/// Parses the partitions of a node in `namespace`: `ns:regime,columns,map,map..;ns:..`, each map in Base64. `None`: the
/// node does not have the namespace.
pub fn parse_partitions(replicas: &str, namespace: &str) -> Result<Option<NodePartitions>, String> {
    let Some(value) = of_namespace(replicas, namespace) else {
        return Ok(None);
    };
    match NodePartitions::parse(value) {
        Some(partitions) => Ok(Some(partitions)),
        None => Err(format!(
            "expected partitions such as {namespace}:0,1,MAP, found {}",
            begin_of(value)
        )),
    }
}

/// The value of a namespace among `ns:value;ns:value`.
fn of_namespace<'a>(text: &'a str, namespace: &str) -> Option<&'a str> {
    text.split(';')
        .find_map(|one| one.strip_prefix(namespace)?.strip_prefix(':'))
}

/// Parses the rack of a node in `namespace` from `ns:rack;ns:rack`.
pub fn rack(rack_ids: &str, namespace: &str) -> Option<u32> {
    of_namespace(rack_ids, namespace)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RecordOp;
    use crate::Write;
    use crate::object::{RecordSpec, ValueType};
    use crate::testing::records;
    use sys::op::OpKind;

    #[test]
    fn partitions_are_read_as_a_bitmap_for_each_copy() {
        let all = format!("{}8=", "/".repeat(682));
        let none = format!("{}A=", "A".repeat(682));
        let of = |text: &str| {
            let NodePartitions { regime, copies } = parse_partitions(text, "test").unwrap()?;
            let bits = |map: &Vec<u8>| map.iter().map(|byte| byte.count_ones()).sum::<u32>();
            Some((regime, copies.iter().map(bits).collect::<Vec<_>>()))
        };
        let found = of(&format!("bar:0,1,{none};test:7,2,{all},{none}"));
        assert_eq!(found, Some((7, vec![4096, 0])));
        assert_eq!(of(&format!("testx:0,1,{all}")), None);
        assert_eq!((of(""), of("test")), (None, None));
        let long = format!("test:0,1,{}", "/".repeat(1 << 20));
        for wrong in [
            "test:",
            "test:0,1",
            "test:0,1,////",
            "test:0,1,!",
            &format!("test:x,1,{all}"),
            &long,
        ] {
            let error = parse_partitions(wrong, "test").unwrap_err();
            assert!(
                error.starts_with("expected partitions such as") && error.len() < 200,
                "{error}"
            );
        }
    }

    #[test]
    fn racks_are_read_as_servers_write_them() {
        assert_eq!(rack("bar:1;test:22", "test"), Some(22));
        assert_eq!(rack("ERROR:25:enterprise only", "test"), None);
        assert_eq!(rack("test:-1", "test"), None);
        assert_eq!(rack("test", "test"), None);
    }

    #[test]
    fn torn_and_contradictory_replies_are_refused() {
        let object = RecordSpec {
            set: [].into(),
            began: 9,
            ..records(2, ValueType::Blob(9))
        };
        let RecordOp::Write(Write { ops, .. }) = object.transaction(OpKind::Write, 5, 1).record_op
        else {
            panic!()
        };
        let mut bytes = Vec::new();
        let begin = frame::begin(&mut bytes, FrameKind::Message);
        MessageHeader {
            result: 3,
            fields: 1,
            ops: 2,
            ..MessageHeader::default()
        }
        .put(&mut bytes);
        message::put_field(&mut bytes, 99, b"of a later server");
        bytes.extend_from_slice(&ops);
        frame::end(&mut bytes, begin);
        fn first(mut bytes: &[u8]) -> Result<Option<ReplyEntry<'_>>, Malformed> {
            match take_reply(&mut bytes)? {
                Some(mut body) => take_entry(&mut body).map(Some),
                None => Ok(None),
            }
        }
        let entry = first(&bytes).unwrap().unwrap();
        assert_eq!(entry.code, 3);
        assert_eq!(entry.bins, &ops[..]);
        assert!(!entry.is_last);
        for end in 0..bytes.len() {
            assert_eq!(first(&bytes[..end]), Ok(None));
        }
        // The header claims in turn more fields, more operations, another kind, a length of a gigabyte.
        for (at, value) in [
            (8 + 19, 9),
            (8 + 21, 3),
            (1, 1),
            (1, 77),
            (4, 0x40),
            (8, 200),
        ] {
            let mut lies = bytes.clone();
            lies[at] = value;
            assert!(first(&lies).is_err(), "byte {at}");
        }
    }
}
