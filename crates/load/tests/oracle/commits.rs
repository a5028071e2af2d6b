//! Random commits: chains of operations in one slot, recorded as one latency. The expected latencies are computed from
//! the log of single operations, without code of the recorder.

use super::draw::{Drive, SEC};
use super::log::{LANES_MAX, Log, Logged, Model, STEP_BYTES, Watched};
use engine::sim::SimEngine;
use load::plan::{Arrival, BufferClass, Lane, Limit, Plan};
use load::rate::Rate;
use load::run::{Control, Message, Pacing, RunConfig, Settings, Shard};
use load::schedule::{Even, Schedule};
use load::stream::{IoRequest, Stream};
use results::cell::{Layout, StreamInfo};
use results::counts::{Backlog, CellCounts};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use sys::op::{OpKind, Outcome};
use sys::random::Random;

const MS: u64 = 1_000_000;
const THRESHOLDS_NS: [u64; 4] = [MS, 4 * MS, 16 * MS, 64 * MS];
const DURATION_NS: u64 = 3 * SEC;

#[derive(Debug)]
struct Chained {
    lane: u32,
    length: u64,
    next: u64,
}

impl Chained {
    fn request(&self, index: u64) -> IoRequest {
        let offset = (index * LANES_MAX + u64::from(self.lane)) * STEP_BYTES;
        IoRequest {
            offset,
            len: STEP_BYTES as u32,
            ..IoRequest::new(OpKind::Write, 0, 2 * self.lane, 0)
        }
    }
}

impl Stream for Chained {
    fn next(&mut self) -> Option<IoRequest> {
        self.next += 1;
        Some(IoRequest {
            commit: Some(2 * self.lane + 1),
            ..self.request((self.next - 1) * self.length)
        })
    }

    fn expect(&self, arrivals: u64, cells: &mut dyn FnMut(u32, u64)) {
        [2 * self.lane, 2 * self.lane + 1]
            .iter()
            .for_each(|cell| cells(*cell, arrivals));
    }

    fn on_completion(&mut self, request: &IoRequest, _: Outcome) -> Option<IoRequest> {
        let index = request.offset / STEP_BYTES / LANES_MAX + 1;
        (!index.is_multiple_of(self.length)).then(|| self.request(index))
    }
}

#[derive(Debug)]
struct Draw {
    drive: String,
    /// Lengths of the commits, slots, and commits per second (0: closed loop), by lane.
    lanes: Vec<(u64, u32, u64)>,
}

impl Draw {
    fn new(seed: u64) -> Self {
        let mut random = Random::for_part(seed, 78);
        let mut from = |low: u64, high: u64| low + random.below(high - low + 1);
        let drive = match from(0, 4) {
            0 => format!("sim:write-us={}+jitter-pct=30", from(50, 3_000)),
            1 => format!(
                "sim:write-us={}+error-rate=0.0{}",
                from(50, 3_000),
                from(1, 9)
            ),
            2 => format!("sim:write-us=500+stall-at-s={}+stall-ms=90000", from(1, 2)),
            3 => format!(
                "sim:write-us=500+stall-every-s=1+stall-ms={}",
                from(10, 900)
            ),
            _ => format!("sim:write-us=700+channels=1+jitter-pct={}", from(0, 90)),
        };
        let lanes = (0..from(1, 3))
            .map(|_| (from(1, 5), from(1, 3) as u32, from(0, 2) * from(1, 150)))
            .collect();
        Self { drive, lanes }
    }

    fn schedule(&self, lane: usize) -> Option<Schedule> {
        let per_sec = self.lanes[lane].2;
        (per_sec > 0).then(|| Schedule::Even(Even::new(Rate::per_sec(per_sec), 0, 1, 0).unwrap()))
    }

    fn plan(&self) -> Plan {
        let lane = |(number, &(length, slots, _)): (usize, &(u64, u32, u64))| Lane {
            stream: Box::new(Chained {
                lane: number as u32,
                length,
                next: 0,
            }),
            arrival: self.schedule(number).map_or(
                Arrival::Closed {
                    depth: slots,
                    think_ns: 0,
                },
                Arrival::Scheduled,
            ),
            limit: number as u32,
            name: format!("s{number}"),
        };
        let limits: Vec<_> = self
            .lanes
            .iter()
            .map(|(_, slots, _)| Limit {
                slots: *slots,
                configured: true,
            })
            .collect();
        let buffers = BufferClass::plain(512, limits.iter().map(|limit| limit.slots).sum());
        let lanes = self.lanes.iter().enumerate().map(lane).collect();
        Plan {
            lanes,
            limits,
            buffers: vec![buffers],
            ..Plan::default()
        }
    }

    /// Counts of each cell, the log, each cell's backlog at the end of each interval. `away_ns`: times without a CPU.
    fn run(
        &self,
        seed: u64,
        away_ns: Vec<(u64, u64)>,
    ) -> (Vec<CellCounts>, Log, Vec<Vec<Backlog>>) {
        let stream = |number: usize| StreamInfo {
            name: format!("s{number}"),
            judged: true,
            offered_iops: self.lanes[number / 2].2 as f64,
            commits: number % 2 == 1,
            ..StreamInfo::default()
        };
        let streams = (0..2 * self.lanes.len()).map(stream).collect();
        let layout = Layout {
            streams,
            devices: vec!["d".into()],
            thresholds_ns: THRESHOLDS_NS.into(),
        };
        let settings = Settings {
            duration_ns: DURATION_NS,
            errors_max: u64::MAX,
            hang_ns: 2 * SEC,
            ..Settings::until_done(Pacing::Spin)
        };
        let control = Arc::new(Control::default());
        let log = Rc::new(RefCell::new(Log::default()));
        let watched = Watched {
            engine: SimEngine::new(vec![Model::new(&Drive::Queue(self.drive.clone()), seed)]),
            log: log.clone(),
            control: control.clone(),
            signal_ns: None,
            away_ns,
            looked_ns: 0,
        };
        let run = RunConfig {
            layout,
            settings,
            interval_ns: SEC,
            slice_ns: SEC,
            step_ns: SEC,
            control,
        };
        let (shard, feed) = Shard::new(watched, self.plan(), &run, false).unwrap();
        shard.run(0);
        let mut counts = vec![CellCounts::default(); 2 * self.lanes.len()];
        let mut backlogs = Vec::new();
        for message in feed.messages.iter() {
            let Message::Interval(interval) = message else {
                continue;
            };
            interval
                .cells
                .iter()
                .zip(&mut counts)
                .for_each(|(cell, sum)| sum.add(&cell.counts));
            backlogs.push(
                interval
                    .cells
                    .iter()
                    .map(|cell| cell.counts.backlog)
                    .collect(),
            );
        }
        (counts, Rc::try_unwrap(log).unwrap().into_inner(), backlogs)
    }

    /// Commits of a lane by the log: done, failed, not done, and over each threshold.
    fn scheduled(&self, lane: usize, log: &Log) -> ([u64; 3], [u64; 4]) {
        let (length, ..) = self.lanes[lane];
        let mut commits = BTreeMap::<u64, Vec<Logged>>::new();
        for op in log.ops.iter().filter(|op| op.lane == lane) {
            commits
                .entry(op.index as u64 / length)
                .or_default()
                .push(*op);
        }
        let due = self.schedule(lane).map(|mut schedule| {
            let instants = std::iter::from_fn(move || schedule.next_ns());
            instants
                .take_while(|at_ns| *at_ns < DURATION_NS)
                .collect::<Vec<_>>()
        });
        let mut fates = [0; 3];
        let mut over = [0; 4];
        let count = due.as_ref().map_or(commits.len(), Vec::len);
        for number in 0..count {
            let ops = commits.get(&(number as u64)).map_or(&[][..], |ops| ops);
            let backs: Vec<_> = ops.iter().filter_map(|op| op.back_ns).collect();
            let is_complete = backs.len() as u64 == length;
            let failed = ops.iter().any(|op| op.failed);
            let from_ns = due
                .as_ref()
                .map_or_else(|| ops[0].issued_ns, |due| due[number]);
            let took_ns = if is_complete && !failed {
                backs.iter().max().unwrap() - from_ns
            } else {
                u64::MAX
            };
            fates[if !is_complete { 2 } else { usize::from(failed) }] += 1;
            for (over, threshold_ns) in over.iter_mut().zip(THRESHOLDS_NS) {
                *over += u64::from(took_ns >= threshold_ns);
            }
        }
        (fates, over)
    }
}

#[test]
fn each_commit_is_recorded_as_one_latency_and_none_is_left_out() {
    let mut commits = 0;
    let mut not_done = 0;
    for seed in 1..=150 {
        let draw = Draw::new(seed);
        let (counts, log, _) = draw.run(seed, Vec::new());
        for lane in 0..draw.lanes.len() {
            let found = &counts[2 * lane + 1];
            let over: Vec<_> = found.judged_over[..THRESHOLDS_NS.len()].to_vec();
            let (fates, scheduled_over) = draw.scheduled(lane, &log);
            let context = format!("seed {seed}, lane {lane}: {draw:?}");
            assert_eq!(
                [found.ops, found.errors, found.unissued + found.lost],
                fates,
                "done, failed, not done: {context}"
            );
            assert_eq!(over, scheduled_over, "over the thresholds: {context}");
            (commits, not_done) = (commits + found.ops, not_done + found.unissued + found.lost);
        }
    }
    assert!(commits > 50_000 && not_done > 1_000, "{commits} {not_done}");
}

#[test]
fn commits_that_this_program_delays_are_not_charged_to_the_device() {
    let mut late = 0;
    for seed in 1..=100 {
        let mut draw = Draw::new(seed);
        // A commit of one operation is late or lost exactly if its operation is.
        draw.lanes.iter_mut().for_each(|(length, ..)| *length = 1);
        let (_, _, backlogs) =
            draw.run(seed, vec![(700 * MS, 1_200 * MS), (1_800 * MS, 2_300 * MS)]);
        for backlog in backlogs {
            for of_lane in backlog.chunks(2) {
                assert_eq!(of_lane[0], of_lane[1], "seed {seed}: {draw:?}");
                late += of_lane[1].late;
            }
        }
    }
    assert!(late > 1_000, "{late}");
}
