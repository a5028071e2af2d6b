//! A shard whose issuing thread performs system calls, and a second thread that watches these calls.
//!
//! A call on a device that hangs never returns, but intervals, signals and the end of the run must not wait for it. So
//! the issuing thread leaves its [`Shard`] at a [`ShardExchange`] during each call. If a call lasts long, a watching
//! thread takes the shard and continues the run loop until the call returns or the device is given up. The call itself
//! holds only the operation with its buffer, and the targets.

use super::{Pacing, Shard};
use engine::calls::Calls;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{io, thread};
use sys::op::{Completion, Op};
use sys::process;

type CallShard = Box<Shard<Calls>>;

/// Period of the watching thread: if a call still runs after one period, the watching thread takes the shard.
const WATCH: Duration = Duration::from_millis(100);

/// Shortest sleep of the watching thread during a call, whatever the pacing of the issuing thread.
const SLEEP_MIN: Duration = Duration::from_millis(1);

struct ExchangeState {
    shard: Option<CallShard>,
    /// True while the issuing thread is in a call: then either thread may take the shard, else only the issuing thread.
    in_call: bool,
    calls: u64,
    /// Completion of a call whose shard the watching thread took.
    answer: Option<Completion>,
    /// Set by the thread that ends the run. The other thread then ends too.
    closed: bool,
}

pub(super) struct ShardExchange {
    state: Mutex<ExchangeState>,
    changed: Condvar,
}

impl ShardExchange {
    fn lock(&self) -> MutexGuard<'_, ExchangeState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts the shard into the exchange for the time of a call, so that either thread can take it.
    fn deposit(&self, shard: CallShard) {
        let mut state = self.lock();
        (state.shard, state.in_call) = (Some(shard), true);
        state.calls += 1;
    }

    /// The issuing thread's shard after a call, with the call's completion; `None` if the run ended meanwhile.
    fn resume(&self, completion: Completion) -> Option<CallShard> {
        let mut state = self.lock();
        if let Some(mut shard) = state.shard.take() {
            drop(state);
            shard.engine.finish(completion);
            return Some(shard);
        }
        state.answer = Some(completion);
        self.changed.notify_all();
        self.await_shard(state)
    }

    fn await_shard<'a>(&'a self, mut state: MutexGuard<'a, ExchangeState>) -> Option<CallShard> {
        loop {
            match state.shard.take() {
                Some(shard) => return Some(shard),
                None if state.closed => return None,
                None => {
                    state = self
                        .changed
                        .wait(state)
                        .unwrap_or_else(PoisonError::into_inner)
                }
            }
        }
    }

    fn hand_over(&self, shard: CallShard) {
        let mut state = self.lock();
        (state.shard, state.in_call) = (Some(shard), false);
        drop(state);
        self.changed.notify_all();
    }

    fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }

    /// Waits a period, or until the exchange is closed. Returns the shard if the same call ran during the whole period.
    /// `calls`: number of calls begun before the period.
    fn overdue(&self, calls: &mut u64) -> Option<CallShard> {
        let contents = self.lock();
        let wait = self
            .changed
            .wait_timeout_while(contents, WATCH, |contents| !contents.closed);
        let mut state = wait.unwrap_or_else(PoisonError::into_inner).0;
        let is_same = std::mem::replace(calls, state.calls) == state.calls;
        if is_same && state.in_call {
            state.shard.take()
        } else {
            None
        }
    }

    /// The completion of the call that is under way, if it arrives within `time`.
    fn await_answer(&self, time: Duration) -> Option<Completion> {
        let contents = self.lock();
        let wait = self
            .changed
            .wait_timeout_while(contents, time, |contents| contents.answer.is_none());
        wait.unwrap_or_else(PoisonError::into_inner).0.answer.take()
    }
}

/// Held by the issuing and by the watching thread. The issuing thread is not scoped: it never ends if its call hangs.
pub(super) struct Issuer {
    exchange: Arc<ShardExchange>,
}

/// Closes the exchange also when one of its threads panics, so that the other thread does not wait forever.
impl Drop for Issuer {
    fn drop(&mut self) {
        self.exchange.close();
    }
}

impl Issuer {
    /// On the issuing thread, `caller` makes the function that performs the system calls.
    pub(super) fn start<P: FnMut(Op) -> Completion>(
        name: String,
        cpus: Vec<u32>,
        caller: impl FnOnce(&Calls) -> P + Send + 'static,
    ) -> io::Result<Self> {
        let state = ExchangeState {
            shard: None,
            in_call: false,
            calls: 0,
            answer: None,
            closed: false,
        };
        let exchange = Arc::new(ShardExchange {
            state: Mutex::new(state),
            changed: Condvar::new(),
        });
        let issuer = Self {
            exchange: exchange.clone(),
        };
        thread::Builder::new().name(name).spawn(move || {
            let exchange = &issuer.exchange;
            process::sharpen_timers();
            // Cannot fail: the watching thread already runs on these CPUs.
            let _ = process::run_on(&cpus);
            let Some(shard) = exchange.await_shard(exchange.lock()) else {
                return;
            };
            let perform = caller(&shard.engine);
            issue(shard, perform, exchange);
        })?;
        Ok(Self { exchange })
    }

    /// Runs `shard` to its end on the issuing thread, counting time from `start_ns`, and watches the calls.
    pub(super) fn run(self, mut shard: Shard<Calls>, start_ns: u64) {
        let exchange = &self.exchange;
        shard.clock.start_ns = start_ns;
        if let Pacing::Sleep { gathers, .. } = &mut shard.settings.pacing {
            // The issuing thread has nothing else to do, so it wakes for each operation.
            *gathers = false;
        }
        exchange.hand_over(Box::new(shard));
        let mut calls = 0;
        while !exchange.lock().closed {
            if let Some(shard) = exchange.overdue(&mut calls)
                && let Some(shard) = stand_in(shard, exchange)
            {
                exchange.hand_over(shard);
            }
        }
    }
}

fn issue(
    mut shard: CallShard,
    mut perform: impl FnMut(Op) -> Completion,
    exchange: &ShardExchange,
) {
    shard.begin(shard.clock.start_ns);
    while !shard.over() {
        let wait = shard.begin_turn();
        if let Some(op) = shard.engine.next_call() {
            exchange.deposit(shard);
            match exchange.resume(perform(op)) {
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

/// The watching thread's run loop during a call. Returns the shard after the call; `None` if the run ended before.
fn stand_in(mut shard: CallShard, exchange: &ShardExchange) -> Option<CallShard> {
    while !shard.over() {
        let wait = shard.begin_turn();
        let time = Duration::from_nanos(wait.until_ns.saturating_sub(shard.clock_ns()));
        if let Some(completion) = exchange.await_answer(time.max(SLEEP_MIN)) {
            shard.engine.finish(completion);
            shard.reap(wait);
            return Some(shard);
        }
        shard.end_turn();
    }
    shard.finish();
    exchange.close();
    None
}

#[cfg(test)]
mod tests {
    use super::super::{Control, HANG_NS, Message, RunConfig, Settings, ShardReceiver};
    use super::*;
    use crate::plan::{Arrival, BufferClass, Plan};
    use crate::stream::{IoRequest, Stream};
    use results::cell::{Interval, Layout, StreamInfo};
    use std::sync::mpsc::channel;
    use std::time::Instant;
    use sys::op::{OpKind, Outcome};

    #[derive(Debug)]
    struct Flushes(u32);

    impl Stream for Flushes {
        fn next(&mut self) -> Option<IoRequest> {
            self.0 = self.0.checked_sub(1)?;
            Some(IoRequest::new(OpKind::Flush, 0, 0, 0))
        }
    }

    const SEC: u64 = 1_000_000_000;

    /// Up to `flushes` flushes in up to `duration_ns`; `perform` makes the calls. `seen` gets each interval at its end.
    fn run(
        flushes: u32,
        [duration_ns, hang_ns]: [u64; 2],
        perform: impl FnMut(Op) -> Completion + Send + 'static,
        mut seen: impl FnMut(&Interval) + Send,
    ) -> Vec<Interval> {
        let stream = StreamInfo {
            name: "flushes".into(),
            ..StreamInfo::default()
        };
        let layout = Layout {
            streams: vec![stream],
            devices: vec!["d".into()],
            thresholds_ns: [1_000_000].into(),
        };
        let settings = Settings {
            duration_ns,
            hang_ns,
            ..Settings::until_done(Pacing::Spin)
        };
        let mut plan = Plan::default();
        let limit = plan.add_limit(1, true);
        plan.add_buffers(BufferClass::plain(0, 1));
        plan.add_lane(
            Flushes(flushes),
            Arrival::Closed {
                depth: 1,
                think_ns: 0,
            },
            limit,
            "flushes".into(),
        );
        let interval_ns = 100_000_000;
        let slice_ns = u64::MAX;
        let control = Arc::new(Control::default());
        let what = RunConfig {
            layout,
            settings,
            interval_ns,
            slice_ns,
            step_ns: slice_ns,
            control,
        };
        let calls = Calls::new([].into(), engine::EngineSetup::new(1, 0)).unwrap();
        let (shard, ShardReceiver { messages, .. }) =
            Shard::new(calls, plan, &what, false).unwrap();
        let issuer = Issuer::start("issue".into(), Vec::new(), |_| perform).unwrap();
        thread::scope(|scope| {
            let intervals = scope.spawn(move || {
                let all = messages.iter().filter_map(|message| match message {
                    Message::Interval(interval) => Some(*interval),
                    Message::Failure(_) => None,
                });
                all.inspect(|interval| seen(interval)).collect()
            });
            issuer.run(shard, 0);
            intervals.join().unwrap()
        })
    }

    fn done(op: Op, issued_ns: u64, completed_ns: u64) -> Completion {
        let Op { token, buf, .. } = op;
        Completion {
            token,
            buf,
            outcome: Outcome::Done,
            issued_ns,
            completed_ns,
            unseen_ns: 0,
        }
    }

    #[test]
    fn intervals_end_during_a_long_system_call_and_its_thread_continues_afterwards() {
        let began = Instant::now();
        let mut calls = 0;
        let issuer = Arc::new(Mutex::new(Vec::new()));
        let threads = issuer.clone();
        let (during_call, heard) = channel();
        let ran = run(
            1_000,
            [60 * SEC, HANG_NS],
            move |op: Op| {
                let issued_ns = began.elapsed().as_nanos() as u64;
                calls += 1;
                threads.lock().unwrap().push(thread::current().id());
                if calls == 10 || calls == 500 {
                    let _ = heard.try_iter().count();
                    heard
                        .recv_timeout(Duration::from_secs(30))
                        .expect("an interval ends during the call");
                }
                done(op, issued_ns, began.elapsed().as_nanos() as u64)
            },
            move |interval| {
                if interval.cells[0].counts.backlog.in_flight == 1 {
                    let _ = during_call.send(());
                }
            },
        );
        let counts: Vec<_> = ran
            .iter()
            .map(|interval| interval.cells[0].counts)
            .collect();
        assert_eq!(counts.iter().map(|counts| counts.ops).sum::<u64>(), 1_000);
        assert_eq!(counts.iter().map(|counts| counts.lost).sum::<u64>(), 0);
        let threads = issuer.lock().unwrap();
        assert!(threads.len() == 1_000 && threads.iter().all(|thread| *thread == threads[0]));
    }

    #[test]
    fn a_call_that_never_returns_is_lost_and_the_run_ends() {
        let (release, blocked) = channel::<()>();
        let mut calls = 0;
        let ran = run(
            1_000,
            [SEC, SEC / 5],
            move |op| {
                calls += 1;
                if calls == 100 {
                    let _ = blocked.recv();
                }
                done(op, 0, 1)
            },
            |_| {},
        );
        let sum = |of: fn(&Interval) -> u64| ran.iter().map(of).sum::<u64>();
        assert_eq!(sum(|ran| ran.cells[0].counts.ops), 99);
        assert_eq!(sum(|ran| ran.cells[0].counts.lost), 1);
        // The issuing thread comes back, finds the run over and ends.
        drop(release);
    }
}
