//! Shards and their coordinator on simulated drives: merged intervals, and cancelled runs.

use engine::sim::{QueueModel, SimEngine};
use load::plan::{Arrival, BufferClass, Plan};
use load::rate::Rate;
use load::run::{Control, EndCause, Pacing, RunConfig, RunError, Settings, Sink, SinkError, run};
use load::schedule::{Even, Schedule};
use load::stream::{Extent, IoRequest, SizeDistribution, Uniform};
use results::assert_contains;
use results::cell::{Interval, Layout};
use results::testing::modified;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use sys::op::OpKind;
use sys::random::Random;

const SEC: u64 = 1_000_000_000;

/// Plan of shard `shard` of `shards`. All shards together issue 7 reads per second to one drive.
fn plan(shard: u64, shards: u64) -> Plan {
    let request = IoRequest::new(OpKind::Read, 0, 0, 0);
    let extent = Extent::new(request, 1 << 30, 512, SizeDistribution::Same(1536)).unwrap();
    let stream = Uniform {
        extent,
        random: Random::for_part(1, shard),
    };
    let even = Even::new(Rate::per_sec(7), shard, shards, 0).unwrap();
    let mut plan = Plan::default();
    let limit = plan.add_limit(4, false);
    plan.add_buffers(BufferClass::plain(4096, 4));
    plan.add_lane(
        stream,
        Arrival::Scheduled(Schedule::Even(even)),
        limit,
        "reads".into(),
    );
    plan
}

fn ten_minutes() -> RunConfig {
    let duration_ns = 600 * SEC;
    let errors_max = u64::MAX;
    let hang_ns = SEC;
    let layout = results::testing::layout(&[("reads", true)], 7.0, ["sim"]);
    RunConfig {
        layout: Layout {
            thresholds_ns: [1_000_000].into(),
            ..layout
        },
        settings: Settings {
            duration_ns,
            errors_max,
            hang_ns,
            ..Settings::until_done(Pacing::Spin)
        },
        interval_ns: 10 * SEC,
        slice_ns: 600 * SEC,
        step_ns: 600 * SEC,
        control: Arc::new(Control::default()),
    }
}

fn sim(_: usize, _: &Plan) -> io::Result<SimEngine> {
    Ok(SimEngine::new(vec![QueueModel::new(
        &"sim:".parse().unwrap(),
        1,
    )]))
}

/// A sink that keeps the operations of each interval, and can be told to fail at the start or at an interval.
#[derive(Default)]
struct Kept {
    ready: u32,
    intervals: Vec<(u64, u64)>,
    fails_when_ready: bool,
    fails_at: Option<u64>,
}

impl Sink for Kept {
    fn ready(&mut self) -> Result<(), SinkError> {
        self.ready += 1;
        if self.fails_when_ready {
            Err("no room".into())
        } else {
            Ok(())
        }
    }

    fn interval(&mut self, interval: &Interval) -> Result<(), SinkError> {
        if self.fails_at == Some(interval.index) {
            return Err("disk full".into());
        }
        self.intervals
            .push((interval.index, interval.cells[0].counts.ops));
        Ok(())
    }
}

#[test]
fn three_shards_together_do_the_exact_number_of_operations_in_every_interval() {
    let mut kept = Kept::default();
    run(
        &ten_minutes(),
        (0..3).map(|shard| plan(shard, 3)).collect(),
        sim,
        &mut kept,
    )
    .unwrap();
    // An operation in flight at the end of an interval is counted in the next interval.
    assert_eq!(
        kept.intervals
            .iter()
            .map(|(index, _)| *index)
            .collect::<Vec<_>>(),
        (0..60).collect::<Vec<_>>()
    );
    assert_eq!(kept.intervals.iter().map(|(_, ops)| ops).sum::<u64>(), 4200);
    assert!(
        kept.intervals.iter().all(|(_, ops)| ops.abs_diff(70) <= 1),
        "{:?}",
        kept.intervals
    );
    assert_eq!(kept.ready, 1);
}

#[test]
fn a_run_does_not_begin_if_a_sink_is_not_ready() {
    let mut kept = modified(Kept::default(), |it| it.fails_when_ready = true);
    let error = run(&ten_minutes(), vec![plan(0, 1)], sim, &mut kept).unwrap_err();
    assert!(matches!(&error, RunError::Sink(_)) && error.to_string() == "no room");
    assert_eq!(kept.intervals, []);
}

#[test]
fn a_sink_that_fails_ends_the_run_and_is_not_called_again() {
    let what = ten_minutes();
    let mut kept = modified(Kept::default(), |it| it.fails_at = Some(3));
    let error = run(&what, vec![plan(0, 2), plan(1, 2)], sim, &mut kept).unwrap_err();
    assert_eq!(error.to_string(), "disk full");
    assert_eq!(kept.intervals.len(), 3);
    let found = what.control.cause();
    assert_eq!(
        found,
        Some(EndCause::Failed {
            message: "disk full".into()
        })
    );
}

/// A sink that ends the run after interval `at`, but first waits for `thinks` in real time.
struct Enough {
    at: u64,
    thinks: Duration,
    control: Arc<Control>,
    kept: Kept,
}

impl Sink for Enough {
    fn interval(&mut self, interval: &Interval) -> Result<(), SinkError> {
        if interval.index == self.at {
            std::thread::sleep(self.thinks);
            self.control.stop(EndCause::Enough {
                reason: "seen".into(),
            });
        }
        self.kept.interval(interval)
    }
}

#[test]
fn a_slow_sink_stops_the_run_at_the_same_virtual_time_as_a_fast_sink() {
    for thinks_ms in [0, 1, 20] {
        let what = ten_minutes();
        let control = what.control.clone();
        let thinks = Duration::from_millis(thinks_ms);
        let mut enough = Enough {
            at: 3,
            thinks,
            control,
            kept: Kept::default(),
        };
        run(&what, vec![plan(0, 2), plan(1, 2)], sim, &mut enough).unwrap();
        // While the sink waited, interval 4 was simulated. Interval 5 has the operations in flight at the end.
        let intervals = enough.kept.intervals;
        assert_eq!(
            intervals
                .iter()
                .map(|(index, _)| *index)
                .collect::<Vec<_>>(),
            [0, 1, 2, 3, 4, 5]
        );
        let found = intervals.iter().map(|(_, ops)| ops).sum::<u64>();
        assert_eq!(found, 350, "{intervals:?}");
    }
}

#[test]
fn a_shard_and_the_threads_of_its_engine_run_on_the_cpus_of_its_plan() {
    let cpus = |path: &str| {
        let status = std::fs::read_to_string(path).unwrap();
        status
            .lines()
            .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))
            .unwrap()
            .trim()
            .to_owned()
    };
    let all = cpus("/proc/self/status");
    let last: u32 = all.rsplit(['-', ',']).next().unwrap().parse().unwrap();
    let seen = [Mutex::new(String::new()), Mutex::new(String::new())];
    let bound = modified(plan(1, 2), |it| it.cpus = vec![last]);
    run(
        &ten_minutes(),
        vec![plan(0, 2), bound],
        |shard: usize, plan: &Plan| {
            let of_another = std::thread::scope(|scope| {
                scope
                    .spawn(|| cpus("/proc/thread-self/status"))
                    .join()
                    .unwrap()
            });
            *seen[shard].lock().unwrap() = of_another;
            sim(shard, plan)
        },
        &mut Kept::default(),
    )
    .unwrap();
    let found = seen.map(|seen| seen.into_inner().unwrap());
    assert_eq!(found, [all, last.to_string()]);
    let missing = modified(plan(0, 1), |it| it.cpus = vec![1_023]);
    let error = run(&ten_minutes(), vec![missing], sim, &mut Kept::default()).unwrap_err();
    assert_contains!(error, "there is no CPU 1023");
}

#[test]
fn an_engine_that_does_not_start_ends_all_shards() {
    let broken = |shard: usize, plan: &Plan| match plan.lanes[0].name.as_str() {
        "reads" => sim(shard, plan),
        _ => Err(io::ErrorKind::PermissionDenied.into()),
    };
    let mut second = plan(1, 2);
    second.lanes[0].name = "broken".into();
    let error = run(
        &ten_minutes(),
        vec![plan(0, 2), second],
        broken,
        &mut Kept::default(),
    )
    .unwrap_err();
    assert!(
        matches!(error, RunError::IoEngine { shard: 1, .. }),
        "{error}"
    );
}
