//! The shards of a run, each on its own thread, and the merging of their intervals into intervals of the run.
//!
//! All shards are ready before any begins, and all have the same start time. Their records arrive here, off the
//! issuing threads, and go to a [`Sink`] interval by interval.

use super::calls::Issuer;
use super::{Control, EndCause, FailedOperation, Message, Settings, Shard, ShardReceiver};
use crate::plan::Plan;
use engine::BlockEngine;
use engine::calls::Calls;
use results::cell::{Interval, Layout};
use std::error::Error;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, Scope};
use std::time::{Duration, Instant};
use sys::process;

/// Delay from the time when all shards are ready to the start of the run, so that every thread is awake at the start.
const START_DELAY_NS: u64 = 5_000_000;

const IDLE: Duration = Duration::from_millis(100);

pub type SinkError = Box<dyn Error + Send + Sync>;

/// Receives the records of a run. Called on the thread that started the run.
pub trait Sink {
    /// Called when all shards are ready; the run begins when this method returns. On an error the run does not begin.
    fn ready(&mut self) -> Result<(), SinkError> {
        Ok(())
    }

    /// Receives an interval of the whole run, in order. An error ends the run, and no interval follows.
    fn interval(&mut self, interval: &Interval) -> Result<(), SinkError>;

    /// Called for a failed operation: only for the first failures of an interval. The interval counts all.
    fn failure(&mut self, _failure: &FailedOperation) {}

    /// Called when no message arrived for a while.
    fn idle(&mut self) {}
}

#[derive(Debug, Clone)]
pub struct RunConfig {
    pub layout: Layout,
    pub settings: Settings,
    pub interval_ns: u64,
    /// Length of a slice of the verdict, nanoseconds: whole intervals.
    pub slice_ns: u64,
    /// Length of a step, nanoseconds: a slice, or half of it. Operations count in the step in which they were due.
    pub step_ns: u64,
    pub control: Arc<Control>,
}

/// The run could not begin, or could not be recorded to its end.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error("cannot start the engine of issuing thread {shard}: {source}")]
    IoEngine { shard: usize, source: io::Error },
    #[error(
        "cannot prepare {bytes} bytes of buffers for {slots} operations in flight - lower service-threads, cache-threads or record-bytes, or free memory"
    )]
    NoMemory { bytes: usize, slots: usize },
    #[error(transparent)]
    Sink(SinkError),
}

/// Makes the engine of a synchronous shard from the shard's plan.
pub type MakeCalls<'a> = dyn Fn(&Plan) -> io::Result<Calls> + Sync + 'a;

/// Runs `plans`, one per shard, to the end. The control holds the cause of the end. `engine` makes a shard's engine
/// from its number and plan, on its own thread. Errors: the run did not begin, or `sink` failed, which ends the run.
pub fn run<E, M>(
    run: &RunConfig,
    plans: Vec<Plan>,
    engine: M,
    sink: &mut dyn Sink,
) -> Result<(), RunError>
where
    E: BlockEngine,
    M: Fn(usize, &Plan) -> io::Result<E> + Sync,
{
    run_beside(
        run,
        plans,
        engine,
        &|_: &Plan| {
            Err(io::Error::other(
                "this engine performs no synchronous system calls",
            ))
        },
        sink,
    )
}

/// As [`run`]; for synchronous plans, `calls` makes the engine.
pub fn run_beside<E, M>(
    run: &RunConfig,
    plans: Vec<Plan>,
    engine: M,
    calls: &MakeCalls<'_>,
    sink: &mut dyn Sink,
) -> Result<(), RunError>
where
    E: BlockEngine,
    M: Fn(usize, &Plan) -> io::Result<E> + Sync,
{
    let engine = &engine;
    thread::scope(|scope| {
        let threads: Vec<_> = plans
            .into_iter()
            .enumerate()
            .map(|(shard, plan): (usize, Plan)| {
                if plan.synchronous {
                    start_calls(scope, run, shard, plan, calls)
                } else {
                    let make = move |plan: &Plan| Ok((engine(shard, plan)?, Shard::run));
                    start_thread(scope, run, shard, thread_name(shard), plan, make)
                }
            })
            .collect();
        // On any error `threads` is dropped, which ends the threads of all shards.
        let ready_shards = threads
            .iter()
            .enumerate()
            .map(|(shard, member): (usize, &ShardThread)| {
                member.ready_receiver.recv().unwrap_or_else(|_| {
                    Err(RunError::IoEngine {
                        shard,
                        source: io::Error::other("its thread ended"),
                    })
                })
            })
            .collect::<Result<Vec<_>, _>>()?;
        let ready_since = Instant::now();
        sink.ready().map_err(RunError::Sink)?;
        let now_ns = ready_shards
            .iter()
            .map(|ready| ready.now_ns)
            .max()
            .unwrap_or(0);
        let start_ns = if ready_shards.iter().any(|ready| ready.is_virtual) {
            // A reused engine continues at its current time.
            now_ns
        } else {
            now_ns + ready_since.elapsed().as_nanos() as u64 + START_DELAY_NS
        };
        // Send errors are ignored: `merge` sees from the receiver that a thread has ended.
        for member in &threads {
            let _ = member.start_sender.send(start_ns);
        }
        let receivers: Vec<_> = ready_shards
            .into_iter()
            .map(|ready| ready.receiver)
            .collect();
        merge(&receivers, run, sink)
    })
}

/// The coordinator's side of a shard's thread.
struct ShardThread {
    ready_receiver: Receiver<Result<Ready, RunError>>,
    start_sender: Sender<u64>,
}

struct Ready {
    now_ns: u64,
    is_virtual: bool,
    receiver: ShardReceiver,
}

/// Name of an issuing thread; telemetry finds the thread by this name.
fn thread_name(number: usize) -> String {
    format!("issue-{number}")
}

/// Starts a synchronous shard on two threads: the first watches the second, which performs the calls.
fn start_calls<'scope>(
    scope: &'scope Scope<'scope, '_>,
    run: &'scope RunConfig,
    shard: usize,
    plan: Plan,
    calls: &'scope MakeCalls<'_>,
) -> ShardThread {
    start_thread(
        scope,
        run,
        shard,
        format!("watch-{shard}"),
        plan,
        move |plan: &Plan| {
            let calls = calls(plan)?;
            let issuer = Issuer::start(thread_name(shard), plan.cpus.clone(), |calls: &Calls| {
                let mut caller = calls.caller();
                move |op| caller.perform(op)
            })?;
            Ok((calls, move |shard, start_ns| issuer.run(shard, start_ns)))
        },
    )
}

/// On the new thread, `make` makes the engine and the function that runs the shard from a given start time.
fn start_thread<'scope, E: BlockEngine, D: FnOnce(Shard<E>, u64)>(
    scope: &'scope Scope<'scope, '_>,
    run: &'scope RunConfig,
    shard: usize,
    name: String,
    plan: Plan,
    make: impl FnOnce(&Plan) -> io::Result<(E, D)> + Send + 'scope,
) -> ShardThread {
    let (ready_sender, ready_receiver) = channel();
    let (start_sender, start_receiver) = channel();
    let failure_sender = ready_sender.clone();
    let failed = move |source| RunError::IoEngine { shard, source };
    let spawned = thread::Builder::new()
        .name(name)
        .spawn_scoped(scope, move || {
            process::sharpen_timers();
            // Pinned first, because an engine may start threads, which inherit the CPUs.
            let engine = process::run_on(&plan.cpus).and_then(|()| make(&plan));
            let prepared = engine.map_err(failed).and_then(|(engine, run_shard)| {
                let is_virtual = engine.is_virtual();
                let (mut shard, receiver) = Shard::new(engine, plan, run, is_virtual)?;
                Ok((
                    Ready {
                        now_ns: shard.clock_ns(),
                        is_virtual,
                        receiver,
                    },
                    shard,
                    run_shard,
                ))
            });
            let (ready, shard, run_shard) = match prepared {
                Ok(made) => made,
                // No receiver: the run is cancelled already.
                Err(error) => return drop(ready_sender.send(Err(error))),
            };
            let _ = ready_sender.send(Ok(ready));
            if let Ok(start_ns) = start_receiver.recv() {
                run_shard(shard, start_ns);
            }
        });
    if let Err(error) = spawned {
        let _ = failure_sender.send(Err(failed(error)));
    }
    ShardThread {
        ready_receiver,
        start_sender,
    }
}

fn merge(
    receivers: &[ShardReceiver],
    run: &RunConfig,
    sink: &mut dyn Sink,
) -> Result<(), RunError> {
    let mut result = Ok(());
    let mut began_ns = 0;
    // Used if shards record only some of the cells.
    let mut whole = None;
    loop {
        let next = |receiver| Some((receiver, next_interval(receiver, sink)?));
        let mut intervals: Vec<(&ShardReceiver, Box<Interval>)> =
            receivers.iter().filter_map(next).collect();
        let Some(((_, first), others)) = intervals.split_first_mut() else {
            return result;
        };
        let mut merged = &mut **first;
        if merged.recorded_cells.is_some() {
            let whole = whole.get_or_insert_with(|| Interval::idle(&run.layout));
            whole.clear();
            whole.index = merged.index;
            whole.merge(merged);
            merged = whole;
        }
        others
            .iter()
            .for_each(|(_, interval)| merged.merge(interval));
        merged.clear_recent_last_completion(std::mem::replace(&mut began_ns, merged.end_ns));
        if result.is_ok()
            && let Err(error) = sink.interval(merged)
        {
            run.control.stop(EndCause::Failed {
                message: error.to_string(),
            });
            result = Err(RunError::Sink(error));
        }
        // Intervals are returned only after the sink has reacted: in virtual time, a shard relies on this order.
        intervals
            .into_iter()
            .for_each(|(receiver, interval)| receiver.give_back(interval));
    }
}

fn next_interval(receiver: &ShardReceiver, sink: &mut dyn Sink) -> Option<Box<Interval>> {
    loop {
        match receiver.messages.recv_timeout(IDLE) {
            Ok(Message::Interval(interval)) => return Some(interval),
            Ok(Message::Failure(failure)) => sink.failure(&failure),
            Err(RecvTimeoutError::Timeout) => sink.idle(),
            Err(RecvTimeoutError::Disconnected) => return None,
        }
    }
}
