//! Interface of a simulated drive: a model of its inside, without a clock.

use results::telemetry::Column;
use sys::op::{Op, Outcome};

/// The inside of a simulated drive: outcome and time of each operation.
///
/// A model has no clock and no completions queue of its own. [`super::SimEngine`] tells it when an operation
/// arrives, asks when something happens inside next, and lets that happen when virtual time is there:
///
/// ```text
/// submit(op, now) ...  next_event_ns() -> t   advance() -> a completion at t, or an event inside
/// ```
///
/// * **Events.** Whatever has a time of its own is one: the end of an operation, but also a page that is
///   programmed, a block that is erased, a write buffer that is flushed, garbage collection in the idle time. Events come in
///   the order of their times, and those of one instant in an order that the model fixes.
/// * **Determinism.** All chance comes from the seed that the model was made with, and nothing from addresses,
///   hashes or the real clock: the same seed and the same operations give the same run, to the last nanosecond.
/// * **Operations.** Flush, deallocate and placement hints arrive like reads and writes. What a model does not
///   have ends with an errno (`EOPNOTSUPP` for a placement), as with a real drive; nothing is dropped in silence.
/// * **Cost.** Every operation comes by here: no allocation, no dynamic dispatch. Drives of several models in
///   one run are an enum of them that implements this trait.
pub trait DriveModel {
    /// Takes an operation that arrives at `now_ns`, which never runs backwards. Its token comes back in exactly one
    /// [`Done`], at `now_ns` if it is refused and later otherwise: a service time of zero would let a closed loop spin
    /// for ever.
    fn submit(&mut self, op: &Op, now_ns: u64);

    /// When the next thing happens inside, as things stand: `u64::MAX` if nothing will before the next
    /// operation arrives. Never before the instant of the last [`Self::submit`] or [`Self::advance`].
    fn next_event_ns(&self) -> u64;

    /// Lets the next event happen. Tells the operation that ended with it, if one did; further ones of the same
    /// instant are further events. Only called when there is a next event.
    fn advance(&mut self) -> Option<Done>;

    /// Counters since the model was made, each under its column of telemetry.csv; always the same columns in the same
    /// order.
    fn counters(&self) -> Vec<(Column, u64)>;
}

/// A completed operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Done {
    /// Token of the operation.
    pub token: u32,
    /// Submission time, nanoseconds.
    pub submitted_ns: u64,
    /// Result of the operation.
    pub outcome: Outcome,
}
