//! A shard whose issuing thread performs system calls, and the watch over it.
//!
//! A call on a device that hangs never returns, but intervals, signals and the end of the run must not wait for it. So
//! the issuing thread leaves its [`Shard`] at a [`Desk`] during each call. A watching thread takes the shard of a call
//! that lasts long, and continues the run loop until the call returns or the device is given up. The call itself holds
//! only the operation with its buffer, and the targets.

use super::{Cause, Shard};
use engine::calls::{Calls, Caller};
use engine::{IoEngine, Wait};
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;
use sys::op::Completion;
use sys::process;

type CallShard = Box<Shard<Calls>>;

/// Period of the watching thread: it takes over a call that it sees twice.
const WATCH: Duration = Duration::from_millis(100);

/// Shortest sleep of the watching thread during a call, however the issuing thread passes its time.
const SLEEP_MIN: Duration = Duration::from_millis(1);

/// Owner of a shard that lies at the desk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    /// The issuing thread, which is to take it.
    Issuer,
    /// Whoever comes first, while the issuing thread is in a call.
    Either,
}

struct Contents {
    shard: Option<(CallShard, Owner)>,
    /// Calls begun.
    calls: u64,
    /// Completion of a call whose shard the watching thread took.
    answer: Option<Completion>,
    /// The run is over for one of the threads, and so for both.
    closed: bool,
}

/// Place where the issuing thread and the watching thread exchange their shard.
pub(super) struct Desk {
    contents: Mutex<Contents>,
    changed: Condvar,
}

impl Desk {
    fn lock(&self) -> MutexGuard<'_, Contents> {
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leaves the shard during a call.
    fn leave(&self, shard: CallShard) {
        let mut contents = self.lock();
        contents.shard = Some((shard, Owner::Either));
        contents.calls += 1;
    }

    /// The issuing thread's shard after a call, with the call's completion; `None` if the run ended meanwhile.
    fn resume(&self, completion: Completion) -> Option<CallShard> {
        let mut contents = self.lock();
        if let Some((mut shard, _)) = contents.shard.take() {
            drop(contents);
            shard.engine.finish(completion);
            return Some(shard);
        }
        contents.answer = Some(completion);
        self.changed.notify_all();
        self.await_shard(contents)
    }

    fn await_shard<'a>(&'a self, mut contents: MutexGuard<'a, Contents>) -> Option<CallShard> {
        loop {
            match contents.shard.take() {
                Some((shard, _)) => return Some(shard),
                None if contents.closed => return None,
                None => contents = self.changed.wait(contents).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    /// Gives the shard to the issuing thread.
    fn hand_over(&self, shard: CallShard) {
        self.lock().shard = Some((shard, Owner::Issuer));
        self.changed.notify_all();
    }

    fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }

    /// Waits a period, less if the desk is closed. Returns the shard of a call that was under way before the period,
    /// too: `calls` is the number of calls begun then.
    fn overdue(&self, calls: &mut u64) -> Option<CallShard> {
        let contents = self.lock();
        let wait = self.changed.wait_timeout_while(contents, WATCH, |contents| !contents.closed);
        let mut contents = wait.unwrap_or_else(PoisonError::into_inner).0;
        let is_same = std::mem::replace(calls, contents.calls) == contents.calls;
        let (shard, _) = contents.shard.take_if(|(_, owner)| is_same && *owner == Owner::Either)?;
        Some(shard)
    }

    /// The completion of the call that is under way, if it arrives within `time`.
    fn await_answer(&self, time: Duration) -> Option<Completion> {
        let contents = self.lock();
        let wait = self.changed.wait_timeout_while(contents, time, |contents| contents.answer.is_none());
        wait.unwrap_or_else(PoisonError::into_inner).0.answer.take()
    }
}

/// Closes the desk also if its thread panics, so that the other does not wait for it forever.
struct Closing<'a>(&'a Desk);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// The issuing thread of a shard, which waits for it. Not scoped: a thread in a call on a hung device never ends.
pub(super) struct Issuer {
    desk: Arc<Desk>,
}

impl Issuer {
    /// Starts the issuing thread, with `name`, on `cpus`. Errors: the thread does not start.
    pub(super) fn start(name: String, cpus: Vec<u32>) -> io::Result<Self> {
        let contents = Contents { shard: None, calls: 0, answer: None, closed: false };
        let desk = Arc::new(Desk { contents: Mutex::new(contents), changed: Condvar::new() });
        let at = desk.clone();
        let body = move || {
            let _closing = Closing(&at);
            process::sharpen_timers();
            // The CPUs were accepted when the watching thread was put there.
            let _ = process::run_on(&cpus);
            let Some(shard) = at.await_shard(at.lock()) else { return };
            let caller = shard.engine.caller();
            issue(shard, caller, &at);
        };
        thread::Builder::new().name(name).spawn(body)?;
        Ok(Self { desk })
    }

    /// Has `shard` run to its end, counting time from `start_ns`, and watches over its calls.
    pub(super) fn run(self, mut shard: Shard<Calls>, start_ns: u64) {
        let desk = &self.desk;
        shard.start_ns = start_ns;
        desk.hand_over(Box::new(shard));
        let mut calls = 0;
        while !desk.lock().closed {
            if let Some(shard) = desk.overdue(&mut calls)
                && let Some(shard) = stand_in(shard, desk)
            {
                desk.hand_over(shard);
            }
        }
    }
}

impl Drop for Issuer {
    fn drop(&mut self) {
        self.desk.close();
    }
}

/// The run loop of the issuing thread.
fn issue(mut shard: CallShard, mut caller: Caller, desk: &Desk) {
    shard.begin(shard.start_ns);
    while !shard.over() {
        let wait = shard.begin_turn();
        if let Some(op) = shard.engine.next_call() {
            desk.leave(shard);
            let completion = caller.perform(op);
            match desk.resume(completion) {
                Some(back) => shard = back,
                None => return,
            }
        }
        if !shard.reap(wait) {
            break;
        }
    }
    shard.finish();
}

/// The run loop of the watching thread during a call. Returns the shard when the call has returned; `None` if the run
/// ended before.
fn stand_in(mut shard: CallShard, desk: &Desk) -> Option<CallShard> {
    while !shard.over() {
        let wait = shard.begin_turn();
        let time = Duration::from_nanos(wait.until_ns.saturating_sub(shard.clock_ns()));
        if let Some(completion) = desk.await_answer(time.max(SLEEP_MIN)) {
            shard.engine.finish(completion);
            shard.reap(wait);
            return Some(shard);
        }
        shard.end_turn();
    }
    shard.finish();
    desk.close();
    None
}

impl Shard<Calls> {
    /// Waits if there is nothing to take. False if the run ended by an error.
    fn reap(&mut self, wait: Wait) -> bool {
        if let Err(error) = self.engine.reap(wait, &mut self.completions) {
            self.stop(Cause::Failed { message: format!("cannot wait for completions: {error}") });
            return false;
        }
        self.end_turn();
        true
    }
}
