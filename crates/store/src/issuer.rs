//! Turns the run loop's operations into transactions. Keeps the state of the transactions in flight.
//!
//! If a device is overloaded (code 18), the server refuses at once, so that clients notice. A measurement counts a
//! failure. An insertion waits and retries, as Aerospike's clients do, and so runs at the drive's speed.

use crate::object::RecordSpec;
use crate::verification::Verifier;
use crate::{Digest, ResultCode, Transaction, Verification};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use sys::buffer::Buf;
use sys::op::{Completion, Op, OpKind, Outcome};

#[derive(Debug, Clone, Copy)]
pub(crate) struct TransactionOutcome<'a> {
    pub(crate) outcome: Outcome,
    pub(crate) bins: &'a [u8],
    /// True if the result is unknown: the transaction may have been executed, or may still be executed.
    pub(crate) in_doubt: bool,
}

impl<'a> TransactionOutcome<'a> {
    /// An answer from a server. A transaction that timed out or failed on the server may still complete.
    pub(crate) fn from_result(result: ResultCode, bins: &'a [u8]) -> Self {
        let outcome = if result == ResultCode::OK {
            Outcome::Done
        } else {
            Outcome::Result(result.0)
        };
        Self {
            outcome,
            bins,
            in_doubt: matches!(result, ResultCode::TIMEOUT | ResultCode::SERVER_ERROR),
        }
    }

    /// A transaction without an answer; `errno` says why.
    pub(crate) fn lost(errno: i32, in_doubt: bool) -> Self {
        Self {
            outcome: Outcome::Errno(errno),
            bins: &[],
            in_doubt,
        }
    }
}

/// Time at which a completion was polled, and upper bound of its time in the completion queue, ns.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CompletionTime {
    pub(crate) at_ns: u64,
    pub(crate) unseen_ns: u64,
}

/// Completion of an operation, and the write of the same key that waited for this operation: token and transaction.
type EndedOperation = (Completion, Option<(u32, Transaction)>);

#[derive(Debug)]
struct OperationInFlight {
    kind: OpKind,
    key: u64,
    buf: Buf,
    issued_ns: u64,
    /// For a read: number of the key's last write that was acknowledged before the read began.
    acknowledged: u32,
    /// For a write: its number among the writes of its key.
    write_number: u32,
    /// Number of times that the operation was refused because the device was overloaded.
    retries: u32,
    /// For a batch: each key, and number of the key's last write that was acknowledged before the batch began.
    batch: Vec<(u64, u32)>,
    /// For a batch: the worst outcome of its records so far.
    worst: Outcome,
}

#[derive(Debug)]
pub(crate) struct TransactionIssuer {
    object: Arc<RecordSpec>,
    verifier: Verifier,
    /// Indexed by token.
    operations: Vec<Option<OperationInFlight>>,
    in_flight: usize,
    backoff: BackoffQueue,
}

impl TransactionIssuer {
    pub(crate) fn new(
        object: Arc<RecordSpec>,
        verification: Arc<Verification>,
        overload: Arc<Overload>,
    ) -> Self {
        let verifier = Verifier::new(verification);
        let backoff = BackoffQueue {
            overload,
            due: BinaryHeap::new(),
        };
        Self {
            object,
            verifier,
            operations: Vec::new(),
            in_flight: 0,
            backoff,
        }
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Takes an operation. Returns its transaction; `None` if the operation waits for an earlier write of its key.
    pub(crate) fn begin(&mut self, op: Op, now_ns: u64) -> Option<Transaction> {
        let kind = op.kind;
        let key = op.offset;
        let token = op.token;
        self.insert(op, Vec::new(), now_ns);
        let write_number = if kind == OpKind::Write {
            self.verifier.begin_write(key, token)?
        } else {
            0
        };
        self.operations[token as usize].as_mut()?.write_number = write_number;
        Some(self.object.transaction(kind, key, write_number))
    }

    /// Takes a batch read of `keys`. Returns their digests, in the same order.
    pub(crate) fn begin_batch(
        &mut self,
        op: Op,
        keys: impl Iterator<Item = u64>,
        now_ns: u64,
    ) -> Vec<Digest> {
        let batch: Vec<_> = keys
            .map(|key| (key, self.verifier.acknowledged(key)))
            .collect();
        let digests = batch
            .iter()
            .map(|(key, _)| self.object.digest(*key))
            .collect();
        self.insert(op, batch, now_ns);
        digests
    }

    fn insert(&mut self, op: Op, batch: Vec<(u64, u32)>, now_ns: u64) {
        let Op {
            kind,
            offset: key,
            buf,
            token,
            ..
        } = op;
        let slot = token as usize;
        if self.operations.len() <= slot {
            self.operations.resize_with(slot + 1, || None);
        }
        self.in_flight += 1;
        let acknowledged = self.verifier.acknowledged(key);
        let worst = Outcome::Done;
        self.operations[slot] = Some(OperationInFlight {
            kind,
            key,
            buf,
            issued_ns: now_ns,
            acknowledged,
            write_number: 0,
            retries: 0,
            batch,
            worst,
        });
    }

    pub(crate) fn answer(&mut self, token: u32, index: u32, answer: TransactionOutcome<'_>) {
        let Some(Some(operation)) = self.operations.get_mut(token as usize) else {
            return;
        };
        let Some(batch_record) = operation.batch.get(index as usize) else {
            return;
        };
        let outcome =
            self.verifier
                .check(&self.object, *batch_record, (answer.outcome, answer.bins));
        if operation.worst.is_done() || outcome.is_wrong_data() && !operation.worst.is_wrong_data()
        {
            operation.worst = outcome;
        }
    }

    pub(crate) fn transaction(&self, token: u32) -> Option<Transaction> {
        let OperationInFlight {
            kind,
            key,
            write_number,
            ..
        } = self.operations.get(token as usize)?.as_ref()?;
        Some(self.object.transaction(*kind, *key, *write_number))
    }

    /// Ends the operation `token`, and starts the write that waited for it, if any. `None`: a retry is scheduled.
    pub(crate) fn end(
        &mut self,
        token: u32,
        answer: TransactionOutcome<'_>,
        completion_time: CompletionTime,
    ) -> Option<EndedOperation> {
        let slot = self.operations.get_mut(token as usize)?;
        let operation = slot.as_mut()?;
        if answer.outcome == Outcome::Result(ResultCode::DEVICE_OVERLOAD.0)
            && self.backoff.hold(
                token,
                operation.retries,
                operation.issued_ns,
                completion_time.at_ns,
            )
        {
            operation.retries += 1;
            return None;
        }
        let OperationInFlight {
            kind,
            key,
            buf,
            issued_ns,
            acknowledged,
            batch,
            worst,
            ..
        } = slot.take()?;
        self.in_flight -= 1;
        let mut outcome = answer.outcome;
        let mut next = None;
        match kind {
            OpKind::Write => {
                next = self
                    .verifier
                    .end_write(key, outcome.is_done(), answer.in_doubt)
            }
            _ if batch.is_empty() => {
                outcome =
                    self.verifier
                        .check(&self.object, (key, acknowledged), (outcome, answer.bins));
            }
            _ if !worst.is_done() => outcome = worst,
            _ => {}
        }
        let CompletionTime {
            at_ns: completed_ns,
            unseen_ns,
        } = completion_time;
        let completion = Completion {
            token,
            buf,
            outcome,
            issued_ns,
            completed_ns,
            unseen_ns,
        };
        let next = next.and_then(|token| {
            // The waiting write counts as issued only now: flashproof itself delayed the write until now.
            let operation = self.operations.get_mut(token as usize)?.as_mut()?;
            operation.issued_ns = completed_ns;
            operation.write_number = self.verifier.begin_write(key, token)?;
            Some((
                token,
                self.object
                    .transaction(OpKind::Write, key, operation.write_number),
            ))
        });
        Some((completion, next))
    }

    /// The next transaction whose retry is due.
    pub(crate) fn again(&mut self, now_ns: u64) -> Option<(u32, Transaction)> {
        self.backoff
            .due
            .peek()
            .filter(|Reverse((due_ns, _))| *due_ns <= now_ns)?;
        let Reverse((_, token)) = self.backoff.due.pop()?;
        Some((token, self.transaction(token)?))
    }

    /// Time of the next retry, ns.
    pub(crate) fn again_ns(&self) -> u64 {
        self.backoff
            .due
            .peek()
            .map_or(u64::MAX, |Reverse((due_ns, _))| *due_ns)
    }
}

/// Delay before the first retry, and maximum delay, ns. Each delay is twice the previous delay.
const PAUSES_NS: std::ops::RangeInclusive<u64> = 1_000_000..=64_000_000;

/// Longest total delay of a transaction, ns. After that the transaction fails, because the drive hangs.
const PATIENCE_NS: u64 = 60_000_000_000;

/// Selects retry or failure for transactions that an overloaded device refuses, and counts the retried transactions.
/// Shared by the issuers of all threads.
#[derive(Debug, Default)]
pub struct Overload {
    waits: AtomicBool,
    waited: AtomicU64,
}

impl Overload {
    /// With `waits`, transactions refused by an overloaded device are retried from now on, and do not fail.
    pub fn set_waits(&self, waits: bool) {
        self.waits.store(waits, Ordering::Relaxed);
    }

    pub fn waited(&self) -> u64 {
        self.waited.load(Ordering::Relaxed)
    }
}

#[derive(Debug)]
struct BackoffQueue {
    overload: Arc<Overload>,
    /// Due time and token of each transaction, the earliest first.
    due: BinaryHeap<Reverse<(u64, u32)>>,
}

impl BackoffQueue {
    /// Schedules the next retry of `token`, issued at `issued_ns`. `false`: the transaction fails instead.
    fn hold(&mut self, token: u32, retries: u32, issued_ns: u64, now_ns: u64) -> bool {
        if !self.overload.waits.load(Ordering::Relaxed)
            || now_ns.saturating_sub(issued_ns) > PATIENCE_NS
        {
            return false;
        }
        self.overload
            .waited
            .fetch_add(u64::from(retries == 0), Ordering::Relaxed);
        let pause_ns = (PAUSES_NS.start() << retries.min(32)).min(*PAUSES_NS.end());
        self.due.push(Reverse((now_ns + pause_ns, token)));
        true
    }
}
