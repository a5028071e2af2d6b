//! A store in this process, as an engine of the run loop: the device I/O of a record engine, without a network.
//!
//! ```text
//! operation (key, bytes) -> TransactionIssuer -> Transaction -> Store -> reads of records, writes of buffers -> engine
//! completion             <- TransactionIssuer <- Reply       <-       completions                              <-
//! ```
//!
//! On a virtual engine, a single core executes the transactions one after another, for [`VIRTUAL_CPU_NS`] each.
//! Otherwise a read from memory would take no time, and virtual time would stand still.

use crate::issuer::{CompletionTime, TransactionIssuer, TransactionOutcome};
use crate::object::RecordSpec;
use crate::{Overload, Replies, Store, StoreDisk, StoreStatistics, Transaction, Verification};
use engine::pool::{EnginePool, Pooled};
use engine::{BATCH, BlockEngine, IoEngine, Wait};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use sys::buffer::Buf;
use sys::op::{Completion, Op};

/// CPU time of a transaction on a virtual engine, ns: about as measured on a real engine, see docs/transactions.md.
pub const VIRTUAL_CPU_NS: u64 = 2_000;

impl<E: BlockEngine> StoreDisk for E {
    fn now_ns(&mut self) -> u64 {
        self.now()
    }

    fn submit(&mut self, op: Op) {
        IoEngine::submit(self, op);
    }

    fn buffer(&mut self, len: usize) -> Option<Buf> {
        IoEngine::buffer(self, len)
    }
}

/// A disk whose clock stands still: all transactions of one pass get the same time.
struct DiskAt<'a, D>(&'a mut D, u64);

impl<D: StoreDisk> StoreDisk for DiskAt<'_, D> {
    fn now_ns(&mut self) -> u64 {
        self.1
    }

    fn submit(&mut self, op: Op) {
        self.0.submit(op);
    }

    fn buffer(&mut self, len: usize) -> Option<Buf> {
        self.0.buffer(len)
    }
}

#[derive(Debug)]
pub struct Embedded<E: BlockEngine> {
    engine: E,
    store: Store,
    issuer: TransactionIssuer,
    replies: Replies,
    submitted: Vec<Op>,
    /// Transactions about to start. Empty between two passes; kept so that its memory is reused.
    starting: Vec<(u32, Transaction)>,
    /// Time of the engine's clock when the clock was last read.
    now_ns: u64,
    device_completions: Vec<Completion>,
    completions: Vec<Completion>,
    /// On a virtual engine: transactions, each with the time at which the core finishes it.
    cpu_queue: VecDeque<(u64, u32, Transaction)>,
    cpu_free_ns: u64,
    poll_ns: u64,
}

impl<E: BlockEngine> Embedded<E> {
    /// Waits until `store`, which was opened on `engine`, has read the devices. `object`: the records to read and
    /// write; `overload`: the behaviour when a device is overloaded. Errors: the engine fails, or the records are
    /// damaged.
    pub fn open(
        mut engine: E,
        store: Store,
        object: Arc<RecordSpec>,
        verification: Arc<Verification>,
        overload: Arc<Overload>,
    ) -> io::Result<Self> {
        let mut embedded = Self {
            now_ns: engine.now(),
            engine,
            store,
            issuer: TransactionIssuer::new(object, verification, overload),
            replies: Vec::new(),
            submitted: Vec::new(),
            starting: Vec::new(),
            device_completions: Vec::new(),
            completions: Vec::new(),
            cpu_queue: VecDeque::new(),
            cpu_free_ns: 0,
            poll_ns: 0,
        };
        embedded.turn_until(u64::MAX, |store| {
            store.is_ready() || store.damage().is_some()
        })?;
        match embedded.store.damage() {
            Some(losses) => Err(io::Error::other(format!(
                "the records on the device are damaged: {losses} - accept the losses by `flashproof engine serve \
                 --accept-losses` on this device, or clear the device and all its records"
            ))),
            None => Ok(embedded),
        }
    }

    /// The store kept in `pool` under `number`, created by `open` if missing.
    pub fn lend(
        pool: &Arc<EnginePool<Self>>,
        number: usize,
        open: impl FnOnce() -> io::Result<Self>,
    ) -> io::Result<Pooled<Self>> {
        let mut engine = pool.lend(number, open)?;
        engine.forget()?;
        Ok(engine)
    }

    pub fn statistics(&self) -> StoreStatistics {
        self.store.statistics()
    }

    /// Makes the store write its buffers. Waits at most [`FLUSH_NS`], because a device may hang.
    fn flush(&mut self) -> io::Result<()> {
        if !self.store.is_ready() {
            return Ok(());
        }
        self.now_ns = self.engine.now();
        self.store.flush(&mut DiskAt(&mut self.engine, self.now_ns));
        let until_ns = self.engine.now() + FLUSH_NS;
        self.turn_until(until_ns, Store::is_idle)
    }

    fn turn_until(&mut self, end_ns: u64, condition: fn(&Store) -> bool) -> io::Result<()> {
        while !condition(&self.store) && self.engine.now() < end_ns {
            self.poll();
            let until_ns = self.engine.now() + TURN_NS;
            self.turn(until_ns)?;
        }
        Ok(())
    }

    /// Ends a run: waits for its transactions, drops completions, and writes all buffers. The store is then as if just
    /// opened.
    fn forget(&mut self) -> io::Result<()> {
        while self.issuer.in_flight() + self.submitted.len() > 0 {
            let until_ns = self.engine.now() + TURN_NS;
            self.reap(Wait::first(until_ns), &mut Vec::new())?;
        }
        self.completions.clear();
        self.flush()
    }

    fn execute(&mut self, token: u32, transaction: Transaction) {
        let disk = &mut DiskAt(&mut self.engine, self.now_ns);
        self.store
            .execute(token.into(), transaction, disk, &mut self.replies);
        // The transaction may have changed the time at which the store has to be polled.
        self.poll_ns = 0;
    }

    fn start(&mut self, token: u32, transaction: Transaction) {
        if !self.engine.is_virtual() {
            return self.execute(token, transaction);
        }
        self.cpu_free_ns = self.cpu_free_ns.max(self.now_ns) + VIRTUAL_CPU_NS;
        self.cpu_queue
            .push_back((self.cpu_free_ns, token, transaction));
    }

    /// Begins the operations submitted since the last pass, in batches. The index entries of a batch are prefetched
    /// together; otherwise each transaction would wait for memory.
    fn begin(&mut self) {
        if self.submitted.is_empty() {
            return;
        }
        let mut submitted = std::mem::take(&mut self.submitted);
        let mut starting = std::mem::take(&mut self.starting);
        let mut ops = submitted.drain(..).peekable();
        while ops.peek().is_some() {
            self.now_ns = self.engine.now();
            for op in ops.by_ref().take(BATCH) {
                let token = op.token;
                starting.extend(
                    self.issuer
                        .begin(op, self.now_ns)
                        .map(|transaction| (token, transaction)),
                );
            }
            self.store
                .warm(starting.iter().map(|(_, transaction)| &transaction.digest));
            starting
                .drain(..)
                .for_each(|(token, transaction)| self.start(token, transaction));
            // A reply may have waited since the start of the batch.
            let unseen_ns = self.engine.now() - self.now_ns;
            self.take_replies(unseen_ns);
        }
        drop(ops);
        (self.submitted, self.starting) = (submitted, starting);
    }

    /// Takes replies. `unseen_ns`: upper bound of the time that the device completions waited in the completion queue.
    fn take_replies(&mut self, unseen_ns: u64) {
        while !self.replies.is_empty() {
            let completion_time = CompletionTime {
                at_ns: self.engine.now(),
                unseen_ns,
            };
            for (number, reply) in std::mem::take(&mut self.replies) {
                let answer = TransactionOutcome::from_result(reply.result, &reply.ops);
                let Some((completion, next)) =
                    self.issuer.end(number as u32, answer, completion_time)
                else {
                    continue;
                };
                self.completions.push(completion);
                if let Some((token, transaction)) = next {
                    self.start(token, transaction);
                }
            }
        }
    }

    fn poll(&mut self) {
        if self.now_ns >= self.poll_ns {
            self.poll_ns = self.store.poll(
                &mut DiskAt(&mut self.engine, self.now_ns),
                &mut self.replies,
            );
        }
    }

    /// Runs the engine until an operation completes or until `until_ns`, then does due work.
    fn turn(&mut self, until_ns: u64) -> io::Result<()> {
        let cpu_ns = self
            .cpu_queue
            .front()
            .map_or(u64::MAX, |(at_ns, ..)| *at_ns);
        let until_ns = until_ns
            .min(self.poll_ns)
            .min(cpu_ns)
            .min(self.issuer.again_ns());
        self.engine
            .reap(Wait::first(until_ns), &mut self.device_completions)?;
        self.now_ns = self.engine.now();
        let mut unseen_ns: u64 = 0;
        for completion in self.device_completions.drain(..) {
            unseen_ns = completion.unseen_ns.max(unseen_ns);
            self.store.on_completion(
                completion,
                &mut DiskAt(&mut self.engine, self.now_ns),
                &mut self.replies,
            );
            self.poll_ns = 0;
        }
        let now_ns = self.now_ns;
        while self
            .cpu_queue
            .front()
            .is_some_and(|(at_ns, ..)| *at_ns <= now_ns)
        {
            if let Some((_, token, transaction)) = self.cpu_queue.pop_front() {
                self.execute(token, transaction);
            }
        }
        while let Some((token, transaction)) = self.issuer.again(now_ns) {
            self.start(token, transaction);
        }
        self.poll();
        self.take_replies(unseen_ns);
        Ok(())
    }
}

/// Writes the buffers, because the next user of the device must find all acknowledged writes. A virtual device has no
/// next user.
impl<E: BlockEngine> Drop for Embedded<E> {
    fn drop(&mut self) {
        if !self.engine.is_virtual() {
            // Errors are ignored: if the engine fails here, the run has already failed because of the engine.
            let _ = self.flush();
        }
    }
}

/// Timeout for writing a store's buffers, nanoseconds.
const FLUSH_NS: u64 = 20_000_000_000;

/// Longest pass while idle, nanoseconds.
const TURN_NS: u64 = 10_000_000;

impl<E: BlockEngine> IoEngine for Embedded<E> {
    type Op = Op;
    type Completion = Completion;

    fn is_virtual(&self) -> bool {
        self.engine.is_virtual()
    }

    #[inline]
    fn now(&mut self) -> u64 {
        self.engine.now()
    }

    fn submit(&mut self, op: Op) {
        self.submitted.push(op);
    }

    fn reap(&mut self, wait: Wait, out: &mut Vec<Completion>) -> io::Result<()> {
        let enough = out.len().saturating_add(wait.completions.max(1) as usize);
        loop {
            out.append(&mut self.completions);
            self.now_ns = self.engine.now();
            self.begin();
            // With enough completions, operations are still submitted to the drives, but the engine does not wait.
            let until_ns = if out.len() + self.completions.len() >= enough {
                0
            } else {
                wait.until_ns
            };
            self.poll();
            self.turn(until_ns)?;
            out.append(&mut self.completions);
            if out.len() >= enough || self.engine.now() >= wait.until_ns {
                return Ok(());
            }
        }
    }

    fn in_flight(&self) -> usize {
        self.issuer.in_flight() + self.submitted.len() + self.completions.len()
    }

    fn buffer(&mut self, _len: usize) -> Option<Buf> {
        // The engine has its own memory for records.
        Some(Buf::empty())
    }

    fn counters(&self, counters: &mut Vec<u64>) {
        self.engine.counters(counters);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::ValueType;
    use crate::testing::{all, records, space};
    use crate::{NamespaceSettings, StoreSpace};
    use engine::sim::{DriveContents, QueueModel, SimEngine};
    use sys::op::{OpKind, Outcome};

    const KEYS: u64 = 500;

    fn namespace() -> NamespaceSettings {
        NamespaceSettings {
            single_bin: true,
            ..NamespaceSettings::new("test")
        }
    }

    fn opened(
        mut engine: SimEngine,
        namespace: &NamespaceSettings,
        verify: bool,
        waits: bool,
    ) -> (Embedded<SimEngine>, Arc<Overload>) {
        let values = records(1, ValueType::Blob(1_000));
        let object = RecordSpec {
            set: [].into(),
            single_bin: true,
            replace: true,
            ..values
        };
        let space = StoreSpace {
            range: 8 << 20..40 << 20,
            marks_offset: 4 << 20,
            id: 7,
            ..space()
        };
        let store = Store::open(
            namespace,
            &[space],
            0..64,
            1_700_000_000_000,
            1,
            &mut engine,
        )
        .unwrap();
        let overload = Arc::new(Overload::default());
        overload.set_waits(waits);
        let verification = Arc::new(Verification::new(verify));
        let engine = Embedded::open(
            engine,
            store,
            Arc::new(object),
            verification,
            overload.clone(),
        );
        (engine.unwrap(), overload)
    }

    fn drive() -> SimEngine {
        simulated("sim:capacity=1GiB")
    }

    fn simulated(name: &str) -> SimEngine {
        SimEngine::holding(
            vec![QueueModel::new(&name.parse().unwrap(), 1)],
            vec![DriveContents::new(512, 1)],
        )
    }

    #[test]
    fn on_a_slow_drive_insertions_wait_and_measured_writes_fail_with_device_overload() {
        let namespace = NamespaceSettings {
            max_write_cache_bytes: 1 << 20,
            ..namespace()
        };
        let slow = |waits| {
            opened(
                simulated("sim:capacity=1GiB+write-mbps=10"),
                &namespace,
                true,
                waits,
            )
        };
        let keys = 5_000;
        let (mut engine, overload) = slow(true);
        assert!(
            all(&mut engine, OpKind::Write, keys, 32)
                .iter()
                .all(|outcome| outcome.is_done())
        );
        let seconds = engine.now() as f64 / 1e9;
        // Everything except the contents of the write cache was written at 10 MB/s.
        assert!((0.4..0.6).contains(&seconds), "{seconds} s");
        assert!(
            (32..keys).contains(&overload.waited()),
            "{} waited",
            overload.waited()
        );
        assert!(
            all(&mut engine, OpKind::Read, keys, 32)
                .iter()
                .all(|outcome| outcome.is_done())
        );
        let (mut engine, overload) = slow(false);
        let outcomes = all(&mut engine, OpKind::Write, keys, 32);
        assert!(
            outcomes.contains(&Outcome::Result(18)) && overload.waited() == 0,
            "{outcomes:?}"
        );
    }

    #[test]
    fn an_insertion_does_not_wait_for_a_drive_that_hangs() {
        let namespace = NamespaceSettings {
            max_write_cache_bytes: 128 << 10,
            ..namespace()
        };
        let (mut engine, _) = opened(
            simulated("sim:capacity=1GiB+write-us=100000000"),
            &namespace,
            false,
            true,
        );
        let outcomes = all(&mut engine, OpKind::Write, 200, 8);
        let failed = outcomes
            .iter()
            .filter(|outcome| **outcome == Outcome::Result(18))
            .count();
        assert_eq!(failed, 8, "those that were out when it hung: {outcomes:?}");
    }

    #[test]
    fn a_second_run_finds_the_records_that_the_first_run_inserted() {
        let pool = Arc::new(EnginePool::default());
        let mut openings = 0;
        for kind in [OpKind::Write, OpKind::Read] {
            let mut engine = Embedded::lend(&pool, 0, || {
                openings += 1;
                Ok(opened(drive(), &namespace(), true, false).0)
            });
            let engine = engine.as_mut().unwrap();
            assert!(
                engine.store.is_idle(),
                "nothing waits for the drive when a run begins"
            );
            assert!(
                all(engine, kind, KEYS, 8)
                    .iter()
                    .all(|outcome| outcome.is_done()),
                "{kind}"
            );
        }
        assert_eq!(openings, 1);
        let mut objects = 0;
        pool.each(|engine| objects += engine.statistics().objects);
        assert_eq!(objects, KEYS);
    }

    #[test]
    fn a_missing_record_is_a_failure_and_transactions_take_cpu_time() {
        let (mut engine, _) = opened(drive(), &namespace(), false, false);
        let began_ns = engine.now();
        let found = all(&mut engine, OpKind::Read, KEYS, 8);
        assert_eq!(found, [Outcome::Result(2); KEYS as usize]);
        assert!(
            engine.now() - began_ns >= KEYS * VIRTUAL_CPU_NS,
            "{} ns",
            engine.now() - began_ns
        );
    }
}
