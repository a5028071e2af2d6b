//! Parses a message: one transaction, or a batch of them.

use super::frame::Malformed;
use super::message::{
    MessageFields, MessageHeader, field, info1, info2, info3, info4, put_field, take_ops,
};
use crate::ops::{self, Answers, operation, particle};
use crate::{
    Delete, Digest, Exists, Generation, Policy, RecordOp, ResultCode, Transaction, Ttl, Write,
};
use thiserror::Error;

const SET_BYTES_MAX: usize = 63;

/// Set of the records with which clients begin a transaction over several records. Source: the clients.
const TRANSACTION_SET: &[u8] = b"<ERO~MRT";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchLimits {
    /// `batch-max-requests`: keys.
    pub batch_requests: u32,
    /// Bytes of the operations of all keys. Operations that several keys share count for each key.
    pub batch_bytes: usize,
}

impl Default for BatchLimits {
    fn default() -> Self {
        Self {
            batch_requests: 5_000,
            batch_bytes: 32 << 20,
        }
    }
}

#[derive(Debug, Clone)]
pub struct RecordRequest {
    /// Index of the namespace.
    pub namespace: usize,
    pub transaction: Transaction,
    /// True for a read that a replica must not answer: a linearizable read, or a read that consults all copies.
    pub at_master: bool,
}

#[derive(Debug, Clone)]
pub struct BatchKey {
    /// Index of the key, which the reply repeats.
    pub index: u32,
    pub request: Result<RecordRequest, ResultCode>,
}

/// A parsed message. `timeout_ms`: timeout from the client; 0: none.
#[derive(Debug, Clone)]
pub enum ParsedMessage {
    Single {
        request: RecordRequest,
        timeout_ms: u32,
    },
    /// Many keys, with a timeout for all of them.
    Batch {
        requests: Vec<BatchKey>,
        timeout_ms: u32,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum MessageError {
    /// Not a message: close the connection.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// Answer with this result code at once.
    #[error("refused with result code {}", .0.0)]
    Refused(ResultCode),
}

/// Parses the message `body`. `namespace_of` returns the index of a namespace by name.
pub fn parse(
    body: &[u8],
    limits: BatchLimits,
    namespace_of: impl Fn(&[u8]) -> Option<usize>,
) -> Result<ParsedMessage, MessageError> {
    let mut rest = body;
    let header = MessageHeader::take(&mut rest)?;
    let fields = MessageFields::take(&mut rest, header.fields)?;
    let ops = take_ops(&mut rest, header.ops)?;
    if let Some(code) = fields.refusal {
        return Err(MessageError::Refused(code));
    }
    if let Some(batch) = fields.batch.filter(|_| header.info[0] & info1::BATCH != 0) {
        let requests = batch_of(batch, limits, namespace_of)?;
        return Ok(ParsedMessage::Batch {
            requests,
            timeout_ms: header.timeout,
        });
    }
    let request = request(&header, &fields, fields.digest, ops, &namespace_of)
        .map_err(MessageError::Refused)?;
    Ok(ParsedMessage::Single {
        request,
        timeout_ms: header.timeout,
    })
}

/// Parses a request for one record. A message without a digest is a scan or a query, which are not supported.
fn request(
    header: &MessageHeader,
    fields: &MessageFields<'_>,
    digest: Option<&[u8]>,
    ops: &[u8],
    namespace_of: &impl Fn(&[u8]) -> Option<usize>,
) -> Result<RecordRequest, ResultCode> {
    let namespace = fields
        .namespace
        .and_then(namespace_of)
        .ok_or(ResultCode::NO_NAMESPACE)?;
    let digest: Digest = digest
        .ok_or(ResultCode::UNSUPPORTED)?
        .try_into()
        .map_err(|_| ResultCode::PARAMETER)?;
    if fields.set.len() > SET_BYTES_MAX {
        return Err(ResultCode::PARAMETER);
    }
    if fields.set == TRANSACTION_SET {
        return Err(ResultCode::ENTERPRISE_ONLY);
    }
    let record_op = record_op(header, fields.key, ops)?;
    let is_linearizable =
        header.info[2] & (info3::READ_TYPE | info3::READ_RELAX) == info3::READ_TYPE;
    let at_master = is_linearizable || header.info[0] & info1::CONSISTENCY_ALL != 0;
    Ok(RecordRequest {
        namespace,
        transaction: Transaction {
            digest,
            set: fields.set.into(),
            record_op,
        },
        at_master,
    })
}

/// Appends the message of a transaction, as [`parse`] reads it. `at_master`: see [`RecordRequest::at_master`]. Another
/// node's write has no message: only its header is appended.
pub fn put(
    out: &mut Vec<u8>,
    namespace: &[u8],
    transaction: &Transaction,
    at_master: bool,
    timeout_ms: u32,
) {
    let mut header = MessageHeader {
        timeout: timeout_ms,
        ..MessageHeader::default()
    };
    header.info[2] = if at_master { info3::READ_TYPE } else { 0 };
    let mut key: &[u8] = &[];
    let mut ops: &[u8] = &[];
    match &transaction.record_op {
        RecordOp::Exists => header.info[0] = info1::READ | info1::GET_NO_BINS,
        RecordOp::ReadAll => header.info[0] = info1::READ | info1::GET_ALL,
        RecordOp::Read(bins, answers) => {
            (header.info[0], header.info[1], ops) = (info1::READ, each_bit(*answers), bins)
        }
        RecordOp::Delete(delete) => {
            put_condition(&mut header, delete.generation);
            header.info[1] |= info2::WRITE | info2::DELETE;
        }
        RecordOp::Write(write) => {
            put_condition(&mut header, write.policy.generation);
            header.info[0] = info1::READ
                | if write.answers.has_all_bins {
                    info1::GET_ALL
                } else {
                    0
                };
            header.info[1] |= info2::WRITE | each_bit(write.answers);
            if let Some((_, byte, bit)) = EXISTS
                .iter()
                .find(|(exists, ..)| *exists == write.policy.exists)
            {
                header.info[*byte] |= bit;
            }
            header.ttl = write.policy.ttl.0;
            (key, ops) = (&write.key, &write.ops);
        }
        RecordOp::Image(_) | RecordOp::Version | RecordOp::Compare(_) => {}
    }
    let fields = [
        (field::NAMESPACE, namespace),
        (field::SET, &transaction.set),
        (field::DIGEST, &transaction.digest),
        (field::KEY, key),
    ];
    let fields = fields.iter().filter(|(_, value)| !value.is_empty());
    header.fields = fields.clone().count() as u16;
    header.ops = ops::entries(ops).count() as u16;
    header.put(out);
    fields.for_each(|(kind, value)| put_field(out, *kind, value));
    out.extend_from_slice(ops);
}

fn put_condition(header: &mut MessageHeader, condition: Generation) {
    let (bit, generation) = match condition {
        Generation::Any => return,
        Generation::Equal(expected) => (info2::GENERATION, expected),
        Generation::Less(limit) => (info2::GENERATION_GREATER, limit),
    };
    header.info[1] |= bit;
    header.generation = generation.into();
}

fn each_bit(answers: Answers) -> u8 {
    if answers.has_each {
        info2::RESPOND_ALL_OPS
    } else {
        0
    }
}

/// Conditions on existence, with their info byte and bit. If several bits are set, the first counts.
const EXISTS: [(Exists, usize, u8); 4] = [
    (Exists::CreateOnly, 1, info2::CREATE_ONLY),
    (Exists::ReplaceOnly, 2, info3::REPLACE_ONLY),
    (Exists::CreateOrReplace, 2, info3::CREATE_OR_REPLACE),
    (Exists::UpdateOnly, 2, info3::UPDATE_ONLY),
];

fn record_op(header: &MessageHeader, key: &[u8], ops: &[u8]) -> Result<RecordOp, ResultCode> {
    let [reads, writes, _, transaction] = header.info;
    let mut answers = Answers {
        has_each: writes & info2::RESPOND_ALL_OPS != 0,
        has_all_bins: false,
    };
    if transaction & info4::TRANSACTION != 0 {
        return Err(ResultCode::ENTERPRISE_ONLY);
    }
    if writes & info2::WRITE == 0 {
        return if reads & info1::READ == 0 {
            Err(ResultCode::PARAMETER)
        } else if reads & info1::GET_NO_BINS != 0 {
            Ok(RecordOp::Exists)
        } else if reads & info1::GET_ALL != 0 {
            Ok(RecordOp::ReadAll)
        } else if ops.is_empty() {
            Err(ResultCode::PARAMETER)
        } else {
            check_ops(ops, None).map(|()| RecordOp::Read(ops.to_vec(), answers))
        };
    }
    let generation = if writes & info2::GENERATION != 0 {
        // Clients send generations that they received, which have 16 bits.
        Generation::Equal(header.generation as u16)
    } else if writes & info2::GENERATION_GREATER != 0 {
        Generation::Less(header.generation as u16)
    } else {
        Generation::Any
    };
    if writes & info2::DELETE != 0 {
        if writes & info2::DURABLE_DELETE != 0 {
            return Err(ResultCode::ENTERPRISE_ONLY);
        }
        return Ok(RecordOp::Delete(Delete {
            generation,
            wants_image: false,
        }));
    }
    if ops.is_empty() {
        return Err(ResultCode::PARAMETER);
    }
    let mut exists = EXISTS
        .iter()
        .find(|(_, byte, bit)| header.info[*byte] & bit != 0)
        .map_or(Exists::Any, |of| of.0);
    check_ops(ops, Some(exists))?;
    answers.has_all_bins = reads & info1::GET_ALL != 0;
    let mut read_names = ops::entries(ops)
        .filter(|op| op.operation == operation::READ)
        .map(|op| op.name.len());
    let may_read = reads & info1::READ != 0;
    let is_valid = if answers.has_all_bins {
        // A request that reads all bins has no other read.
        may_read && !answers.has_each && read_names.eq([0])
    } else {
        may_read || read_names.next().is_none()
    };
    if !is_valid {
        return Err(ResultCode::PARAMETER);
    }
    if exists == Exists::Any && ops::entries(ops).any(|op| op.operation == operation::TOUCH) {
        exists = Exists::UpdateOnly;
    }
    let policy = Policy {
        exists,
        generation,
        ttl: Ttl(header.ttl),
    };
    Ok(RecordOp::Write(Write {
        policy,
        key: key.to_vec(),
        ops: ops.to_vec(),
        answers,
        ..Write::default()
    }))
}

/// Checks that a store supports all of `ops`. `exists`: the condition of a write; `None` for a read. Errors that depend
/// on the record are found when a store applies `ops`.
fn check_ops(ops: &[u8], exists: Option<Exists>) -> Result<(), ResultCode> {
    let may_write = exists.is_some();
    // A replacement has no old bins, so it can only write bins.
    let may_modify =
        may_write && !matches!(exists, Some(Exists::CreateOrReplace | Exists::ReplaceOnly));
    for entry in ops::entries(ops) {
        if entry.name.len() > ops::NAME_BYTES_MAX {
            return Err(ResultCode::BIN_NAME);
        }
        let is_valid = match entry.operation {
            operation::READ => true,
            operation::WRITE if entry.particle == particle::NULL => may_modify,
            operation::WRITE => may_write && entry.has_valid_length(),
            operation::ADD | operation::APPEND | operation::PREPEND => {
                may_modify && entry.particle != particle::NULL && entry.has_valid_length()
            }
            operation::TOUCH | operation::DELETE => may_modify,
            // Lists, maps, expressions, bits, HyperLogLog.
            _ => return Err(ResultCode::UNSUPPORTED),
        };
        if !is_valid {
            return Err(ResultCode::PARAMETER);
        }
    }
    Ok(())
}

mod batch_bits {
    /// Except for the digest, the key is like the previous key: nothing more follows.
    pub(super) const REPEAT: u8 = 1;
    /// Three info bytes follow; without this bit, only the first of them follows.
    pub(super) const INFO: u8 = 1 << 1;
    /// A generation follows.
    pub(super) const GENERATION: u8 = 1 << 2;
    /// A time to live follows.
    pub(super) const TTL: u8 = 1 << 3;
    /// The fourth info byte follows.
    pub(super) const INFO4: u8 = 1 << 4;
}

fn take_bytes<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N], Malformed> {
    let (taken, rest) = bytes.split_first_chunk().ok_or(Malformed::Body("keys"))?;
    *bytes = rest;
    Ok(*taken)
}

/// Takes the operations on a key, and on the following keys that repeat them.
fn take_row<'a>(
    bytes: &mut &'a [u8],
    bits: u8,
) -> Result<(MessageHeader, MessageFields<'a>, &'a [u8]), Malformed> {
    let mut header = MessageHeader::default();
    [header.info[0]] = take_bytes(bytes)?;
    if bits & batch_bits::INFO != 0 {
        [header.info[1], header.info[2]] = take_bytes(bytes)?;
    }
    if bits & batch_bits::INFO4 != 0 {
        [header.info[3]] = take_bytes(bytes)?;
    }
    if bits & batch_bits::GENERATION != 0 {
        header.generation = u16::from_be_bytes(take_bytes(bytes)?).into();
    }
    if bits & batch_bits::TTL != 0 {
        header.ttl = u32::from_be_bytes(take_bytes(bytes)?);
    }
    header.fields = u16::from_be_bytes(take_bytes(bytes)?);
    header.ops = u16::from_be_bytes(take_bytes(bytes)?);
    let fields = MessageFields::take(bytes, header.fields)?;
    let ops = take_ops(bytes, header.ops)?;
    Ok((header, fields, ops))
}

fn batch_of(
    mut bytes: &[u8],
    limits: BatchLimits,
    namespace_of: impl Fn(&[u8]) -> Option<usize>,
) -> Result<Vec<BatchKey>, MessageError> {
    let count = u32::from_be_bytes(take_bytes(&mut bytes)?);
    let [_flags] = take_bytes(&mut bytes)?;
    if count == 0 || count > limits.batch_requests {
        let code = if count == 0 {
            ResultCode::PARAMETER
        } else {
            ResultCode::BATCH_REQUESTS
        };
        return Err(MessageError::Refused(code));
    }
    let mut requests = Vec::with_capacity((count as usize).min(bytes.len() / 25));
    let mut row = None;
    let mut copied_bytes = 0usize;
    for _ in 0..count {
        let index = u32::from_be_bytes(take_bytes(&mut bytes)?);
        let digest: Digest = take_bytes(&mut bytes)?;
        let [bits] = take_bytes(&mut bytes)?;
        let (header, fields, ops) = match row {
            Some(row) if bits & batch_bits::REPEAT != 0 => row,
            None if bits & batch_bits::REPEAT != 0 => return Err(Malformed::Body("keys").into()),
            _ => *row.insert(take_row(&mut bytes, bits)?),
        };
        // A key of 25 bytes may repeat the operations of the previous key, so the operations count for each key.
        copied_bytes += ops.len() + fields.key.len();
        if copied_bytes > limits.batch_bytes {
            return Err(MessageError::Refused(ResultCode::PARAMETER));
        }
        let request = match fields.refusal {
            Some(code) => Err(code),
            None => request(&header, &fields, Some(&digest), ops, &namespace_of),
        };
        requests.push(BatchKey { index, request });
    }
    Ok(requests)
}
