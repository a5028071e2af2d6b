//! Interface of the model of a simulated drive. Also the counters of host operations, and a drive with any model.

use super::{DriveSpec, FtlModel, QueueModel};
use results::telemetry::Column;
use sys::op::{Op, OpKind, Outcome};

/// Model of a simulated drive, which determines the outcome and time of each operation.
///
/// A model has neither clock nor completion queue. [`super::SimEngine`] submits operations, asks for the time of the
/// next event, and calls [`Self::advance`] when virtual time reaches it:
///
/// ```text
/// submit(op, now) ...  next_event_ns() -> t   advance() -> a completion at t, or an event inside
/// ```
///
/// * **Events.** Every later change of the drive's state is an event: the end of an operation, a page program, a block
///   erase, a flush of the write buffer, idle-time garbage collection. Events are ordered by time; the model
///   determines the order of events at the same instant.
/// * **Determinism.** All randomness comes from the model's seed, none from addresses, hashes or the real clock: the
///   same seed and operations give the same run, to the nanosecond.
/// * **Operations.** The model gets flushes, deallocations and placement hints, as well as reads and writes.
///   Unsupported operations end with an errno (`EOPNOTSUPP` for a placement), as on a real drive; none is dropped
///   silently.
/// * **Cost.** Every operation passes through a model: no allocation, no dynamic dispatch. For several models in one
///   run, an enum of them implements this trait.
pub trait DriveModel {
    /// Accepts an operation at `now_ns`, which never runs backwards. Exactly one [`SimCompletion`] returns its token:
    /// at `now_ns` if the operation is refused, otherwise later. With operations of 0 ns a closed loop would never end.
    fn submit(&mut self, op: &Op, now_ns: u64);

    /// Time of the next event; `u64::MAX` if there is none before the next operation arrives. Never before the
    /// instant of the last [`Self::submit`] or [`Self::advance`].
    fn next_event_ns(&self) -> u64;

    /// Processes the next event. Returns the operation that it ended, if any: operations that end at the same instant
    /// are separate events. Only called when there is a next event.
    fn advance(&mut self) -> Option<SimCompletion>;

    /// Counters since the creation of the model, each with its column of telemetry.csv, always in the same order.
    fn counters(&self) -> Vec<(Column, u64)>;
}

/// A completed operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SimCompletion {
    /// Token of the operation.
    pub token: u32,
    /// Submission time, nanoseconds.
    pub submitted_ns: u64,
    /// Error number of the operation; 0: all bytes were transferred.
    pub errno: i32,
}

impl SimCompletion {
    /// Result of the operation.
    #[inline]
    pub fn outcome(self) -> Outcome {
        if self.errno == 0 {
            Outcome::Done
        } else {
            Outcome::Errno(self.errno)
        }
    }
}

/// Counts of operations and bytes, in the order of [`Self::COLUMNS`].
#[derive(Debug, Clone, Default)]
pub(super) struct HostOpCounters([u64; 8]);

impl HostOpCounters {
    pub(super) const COLUMNS: [Column; 8] = [
        Column::SimReads,
        Column::SimReadBytes,
        Column::SimWrites,
        Column::SimWriteBytes,
        Column::SimFlushes,
        Column::SimDeallocates,
        Column::SimDeallocatedBytes,
        Column::SimFailed,
    ];

    #[inline]
    pub(super) fn add(&mut self, kind: OpKind, len: u64, errno: i32) {
        let [
            reads,
            read_bytes,
            writes,
            write_bytes,
            flushes,
            deallocates,
            deallocated_bytes,
            failed,
        ] = &mut self.0;
        let (operations, bytes) = match kind {
            _ if errno != 0 => return *failed += 1,
            OpKind::Read => (reads, read_bytes),
            OpKind::Write => (writes, write_bytes),
            OpKind::Deallocate => (deallocates, deallocated_bytes),
            OpKind::Flush | OpKind::FlushFile => return *flushes += 1,
            OpKind::WriteBack(_) => return,
        };
        *operations += 1;
        *bytes += len;
    }

    pub(super) fn values(&self) -> [u64; 8] {
        self.0
    }
}

/// A drive with one of the models; the drives of a run can have different models.
#[derive(Clone)]
#[expect(
    clippy::large_enum_variant,
    reason = "a run has few drives, and a box would slow every operation"
)]
pub enum SimulatedDrive {
    /// Channels and service times.
    Queue(QueueModel),
    /// Flash with garbage collection.
    Ftl(FtlModel),
}

impl SimulatedDrive {
    /// A drive of `spec`. `seed` applies if `spec` has none. Errors: an invalid FTL. A parsed `spec` is always valid.
    pub fn new(spec: &DriveSpec, seed: u64) -> Result<Self, ::ftl::SpecError> {
        Ok(match &spec.ftl {
            Some(ftl) => Self::Ftl(FtlModel::new(spec, ftl, seed)?),
            None => Self::Queue(QueueModel::new(spec, seed)),
        })
    }

    /// The columns of the counters of a drive with this `spec`.
    pub fn columns(spec: &DriveSpec) -> Vec<Column> {
        match &spec.ftl {
            Some(_) => FtlModel::columns(),
            None => HostOpCounters::COLUMNS.to_vec(),
        }
    }
}

impl DriveModel for SimulatedDrive {
    #[inline]
    fn submit(&mut self, op: &Op, now_ns: u64) {
        match self {
            Self::Queue(model) => model.submit(op, now_ns),
            Self::Ftl(model) => model.submit(op, now_ns),
        }
    }

    #[inline]
    fn next_event_ns(&self) -> u64 {
        match self {
            Self::Queue(model) => model.next_event_ns(),
            Self::Ftl(model) => model.next_event_ns(),
        }
    }

    #[inline]
    fn advance(&mut self) -> Option<SimCompletion> {
        match self {
            Self::Queue(model) => model.advance(),
            Self::Ftl(model) => model.advance(),
        }
    }

    fn counters(&self) -> Vec<(Column, u64)> {
        match self {
            Self::Queue(model) => model.counters(),
            Self::Ftl(model) => model.counters(),
        }
    }
}
