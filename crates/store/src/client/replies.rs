//! Parses servers' replies, without trusting them.

use crate::PARTITIONS;
use crate::wire::frame::{self, Kind, Malformed};
use crate::wire::message::{self, Fields, Header};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

/// Longest reply, bytes: a record of the largest write block, with room.
const REPLY_BYTES_MAX: usize = 16 << 20;

/// Partitions by bits of a byte.
const MAP_BYTES: usize = PARTITIONS as usize / 8;

/// Takes the first reply off `bytes`: its result code and its bins. `None` if it is incomplete.
pub fn take_reply<'a>(bytes: &mut &'a [u8]) -> Result<Option<(u8, &'a [u8])>, Malformed> {
    let Some((kind, body)) = frame::take(bytes, REPLY_BYTES_MAX)? else { return Ok(None) };
    if kind != Kind::Message {
        return Err(Malformed::Kind(kind as u8));
    }
    reply(body).map(Some)
}

/// The result code and the bins of a reply.
pub(super) fn reply(mut body: &[u8]) -> Result<(u8, &[u8]), Malformed> {
    let header = Header::take(&mut body)?;
    Fields::take(&mut body, header.fields)?;
    let bins = message::take_ops(&mut body, header.ops)?;
    Ok((header.result, bins))
}

/// The partitions that a node is master of, in `namespace`: `ns:regime,columns,map,map..;ns:..`, each map in Base64.
pub fn bitmap(replicas: &str, namespace: &str) -> Option<Vec<u8>> {
    let of = |one: &str| one.split_once(':').filter(|(name, _)| *name == namespace).map(|(_, value)| value.to_owned());
    let value = replicas.split(';').find_map(of)?;
    let map = BASE64.decode(value.split(',').nth(2)?).ok()?;
    (map.len() == MAP_BYTES).then_some(map)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Work;
    use crate::Write;
    use crate::object::{Object, Value};
    use sys::op::OpKind;

    #[test]
    fn a_map_has_a_bit_for_each_partition() {
        let all = format!("{}8=", "/".repeat(682));
        let of = |text: &str| bitmap(text, "test").map(|map| map.iter().map(|byte| byte.count_ones()).sum::<u32>());
        assert_eq!(of(&format!("bar:0,1,{all};test:0,1,{all}")), Some(4096));
        assert_eq!(of(&format!("testx:0,1,{all}")), None);
        for wrong in ["", "test", "test:", "test:0,1", "test:0,1,////", "test:0,1,!"] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_reply_that_is_torn_or_lies_is_no_reply() {
        let object =
            Object { set: [].into(), bins: 2, value: Value::Blob(9), single_bin: false, replace: false, began: 9 };
        let Work::Write(Write { ops, .. }) = object.transaction(OpKind::Write, 5, 1).work else { panic!() };
        let mut bytes = Vec::new();
        let begin = frame::begin(&mut bytes, Kind::Message);
        Header { result: 3, fields: 1, ops: 2, ..Header::default() }.put(&mut bytes);
        message::put_field(&mut bytes, 99, b"of a later server");
        bytes.extend_from_slice(&ops);
        frame::end(&mut bytes, begin);
        assert_eq!(take_reply(&mut &bytes[..]), Ok(Some((3, &ops[..]))));
        for end in 0..bytes.len() {
            assert_eq!(take_reply(&mut &bytes[..end]), Ok(None));
        }
        // More fields, more operations, another kind, a gigabyte.
        for (at, value) in [(8 + 19, 9), (8 + 21, 3), (1, 1), (1, 77), (4, 0x40), (8, 200)] {
            let mut lies = bytes.clone();
            lies[at] = value;
            assert!(take_reply(&mut &lies[..]).is_err(), "byte {at}");
        }
    }
}
