//! Lanes of a job: areas of its devices, order, buffers, start times.

use super::closed_loop::{ClosedLoopBound, DepthSearch, ThinkTimePauses};
use super::content::ContentSource;
use super::directions::{COMMITS, FLUSHES, KINDS, READS, WRITES};
use super::early_end::MinRateCheck;
use super::job::Job;
use super::offsets::new_area;
use super::rates::RateTarget;
use super::stream::{FioStream, StreamState};
use super::thread::{JobClone, RecordedStream};
use super::value::Size;
use super::verify::Verify;
use load::plan::{Arrival, BufferClass, Fill, Plan};
use load::schedule::{Listed, Paused, Poisson, Schedule, phase};
use load::workload::{CannotRun, DeviceShape, PlanOffsets};
use results::format::quoted;
use std::collections::HashMap;
use sys::random::Random;
use sys::salt::Salt;

const RATE_TOO_LOW: &str =
    "the rate is too low for the size of the operations - give a higher rate";

pub(super) struct LaneBuilder<'a> {
    pub(super) devices: &'a [DeviceShape],
    /// Lengths of the files that jobs append to, before the run.
    pub(super) appended: &'a HashMap<String, u64>,
    pub(super) seed: u64,
    pub(super) plan_offsets: &'a PlanOffsets,
    pub(super) streams: &'a [RecordedStream],
}

impl LaneBuilder<'_> {
    /// Adds the lanes of `thread`, at index `thread_index` of all threads, to `plan`.
    pub(super) fn add(
        &self,
        thread: &JobClone,
        thread_index: usize,
        plan: &mut Plan,
    ) -> Result<(), CannotRun> {
        let job = &thread.job;
        let cannot =
            |why: String| CannotRun(format!("cannot run job {} - {why}", quoted(&job.name)));
        let slots = job.in_flight_max() as u32;
        let names = thread.names();
        let shapes: Vec<_> = names
            .iter()
            .filter_map(|name| self.devices.iter().find(|device| device.name == *name))
            .collect();
        let mut random = Random::for_part(self.seed, thread_index as u64);
        let lanes = job.lanes();
        let write_buffers = self.buffers_of_writes(job, &shapes, &mut random, plan)?;
        let mut areas = Vec::new();
        for directions in &lanes {
            let mut of_lane = Vec::new();
            for (shape, buffers) in shapes.iter().zip(&write_buffers) {
                let start_override = self.appended.get(&shape.name).copied();
                let area = new_area(
                    thread,
                    directions,
                    start_override,
                    shape,
                    *buffers,
                    &mut random,
                );
                of_lane.push(area.map_err(|why| {
                    CannotRun(format!(
                        "cannot run job {} on {} - {why}",
                        quoted(&job.name),
                        shape.name
                    ))
                })?);
            }
            areas.push(of_lane);
        }
        // Bytes that the job uses of all its devices and files together.
        let mut used_bytes: u64 = areas[0].iter().map(|area| area.used_bytes).sum();
        if let (Some(Size::Bytes(bytes)), Some(_)) = (job.size, job.files.sizes) {
            used_bytes = used_bytes.min(bytes);
        }
        let total_bytes = if job.iolog.is_some() || job.time_based {
            u64::MAX
        } else {
            job.io_size
                .map_or(used_bytes, |size| size.bytes_of(used_bytes))
                .saturating_mul(job.loops)
        };
        let ops = if let Some(log) = &job.iolog {
            log.check(&shapes, job.direct).map_err(cannot)?;
            log.operations.len() as u64
        } else if job.time_based {
            u64::MAX
        } else {
            job.number_ios
                .map_or(u64::MAX, |ops| ops.saturating_mul(job.loops))
        };
        let mut buffers = [0; KINDS];
        let others = job.directions().filter(|direction| *direction != WRITES);
        for kind in others.chain([FLUSHES]) {
            let len_bytes = if kind == READS {
                job.sizes[kind].max_bytes() as usize
            } else {
                0
            };
            buffers[kind] = add_buffers(plan, BufferClass::plain(len_bytes, slots))?;
        }
        let checked = BufferClass::plain(job.written_max_bytes() as usize, slots);
        let checked_buffers = job
            .reads_back()
            .then(|| add_buffers(plan, checked))
            .transpose()?;
        let limit = plan.add_limit(slots, true);
        let cells = std::array::from_fn(|kind| self.first_cell(thread_index, kind).unwrap_or(0));
        // Rates by lane: the job's bytes and operations are divided in these proportions.
        let mut bytes_per_sec = Vec::new();
        let mut ops_per_sec = Vec::new();
        for directions in &lanes {
            let mean_bytes = job.sizes[directions[0]].mean_bytes();
            let bytes = match job.rates.targets[directions[0]] {
                RateTarget::Bytes(bytes) => bytes as f64,
                RateTarget::Iops(iops) => iops as f64 * mean_bytes,
                RateTarget::Unlimited => 0.0,
            };
            bytes_per_sec.push(bytes);
            ops_per_sec.push(bytes / mean_bytes.max(1.0));
        }
        for (number, (directions, areas)) in lanes.iter().zip(areas).enumerate() {
            let direction = directions[0];
            let from_ns = job.start_delay_ns;
            let until_ns = job.end_ns();
            let ops_left = lane_share(ops, &ops_per_sec, number);
            let logged_at_ns = job
                .iolog
                .as_ref()
                .map(|log| &log.at_ns)
                .filter(|at_ns| !at_ns.is_empty());
            let mut arrival = match (logged_at_ns, job.rate(direction)) {
                (Some(at_ns), _) => {
                    let at_ns = if from_ns == 0 {
                        at_ns.clone()
                    } else {
                        at_ns.iter().map(|ns| ns.saturating_add(from_ns)).collect()
                    };
                    Arrival::Scheduled(Schedule::Listed(Listed::new(at_ns, u64::MAX, 1, 0, 1)))
                }
                (None, None) => Arrival::Closed {
                    depth: slots,
                    think_ns: 0,
                },
                (None, Some(rate)) if job.rates.poisson => {
                    let random = Random::for_part(random.next_u64(), number as u64);
                    let poisson =
                        Poisson::new(rate, random).ok_or_else(|| cannot(RATE_TOO_LOW.into()))?;
                    Arrival::Scheduled(Schedule::Poisson(poisson))
                }
                (None, Some(rate)) => Arrival::even(rate, 0, 1, phase(thread_index + number))
                    .ok_or_else(|| cannot(RATE_TOO_LOW.into()))?,
            };
            if let (Arrival::Scheduled(schedule), Some(pauses)) = (&mut arrival, job.rate_pauses())
            {
                let unpaused = schedule.clone();
                *schedule = Schedule::Paused(Paused::new(unpaused, pauses));
            }
            // A job reads its writes back at the end of each loop, so the totals are divided by the number of loops.
            let loops = if job.reads_back_at_end() {
                job.loops
            } else {
                1
            };
            let ops_left = ops_left / loops;
            let bytes_left = lane_share(total_bytes, &bytes_per_sec, number) / loops;
            let random_of_lane =
                Random::for_part(self.seed, (thread_index as u64) << 8 | (number as u64 + 1));
            let area_bytes: u64 = areas.iter().map(|area| area.len).sum();
            let makes_data = directions.contains(&WRITES) || job.trim_write;
            let seed = random_of_lane.clone().next_u64() ^ WRITES as u64;
            let verifies = job.checks_reads() || job.writes_blocks() && makes_data;
            let verify =
                verifies.then(|| Verify::new(thread, seed, areas.iter().map(|area| area.len)));
            let verify = verify.transpose().map_err(cannot)?;
            let contents =
                (makes_data && !job.content.is_random() && verify.is_none()).then(|| {
                    ContentSource::new(
                        job.content.clone(),
                        job.sizes[WRITES].min_bytes(),
                        area_bytes,
                        seed,
                    )
                });
            let mut last_ns = u64::MAX;
            if let Arrival::Scheduled(schedule) = &mut arrival {
                schedule.count_before(from_ns);
                let mean = job.sizes[direction].mean_bytes().max(1.0);
                // Mean number of operations if sizes vary.
                let ops = ops_left.min((bytes_left as f64 / mean).ceil() as u64);
                last_ns = schedule.nth_before(ops, until_ns).unwrap_or(u64::MAX);
            }
            let stream = FioStream {
                thread: thread.clone(),
                areas,
                directions: directions.clone(),
                units: std::array::from_fn(|direction| job.sizes[direction].min_bytes()),
                bytes_left,
                ops_left,
                flushes: job.flush.follow_writes() && makes_data,
                cells,
                commit_cell: self
                    .first_cell(thread_index, COMMITS)
                    .filter(|_| makes_data),
                buffers,
                random: random_of_lane,
                bound: match (job.think_time(), job.target(), job.refill_at()) {
                    _ if job.pace_ns > 0 => ClosedLoopBound::Paced {
                        period_ns: job.pace_ns,
                        next_ns: from_ns,
                    },
                    (Some(think), ..) => {
                        ClosedLoopBound::ThinkTimePauses(ThinkTimePauses::new(think, from_ns))
                    }
                    (None, Some(target), _) => ClosedLoopBound::Search(DepthSearch::new(
                        target,
                        slots,
                        from_ns.saturating_add(job.ramp_ns),
                    )),
                    (None, None, Some(refill_at)) => ClosedLoopBound::Drains { refill_at },
                    (None, None, None) => ClosedLoopBound::Depth,
                },
                until_ns,
                last_ns,
                min_rates: MinRateCheck::new(&job.rates, from_ns.saturating_add(job.ramp_ns)),
                end_flush: job.flush.at_end && makes_data,
                verify,
                checked_buffers,
                contents,
                loops: (bytes_left, ops_left, loops - 1),
                state: StreamState::new(from_ns),
            };
            plan.add_lane(
                stream,
                arrival,
                limit,
                self.plan_offsets.lane_name(&job.name, &names.join(":")),
            );
        }
        Ok(())
    }

    /// Cell of a recorded stream on the first device; `None` if no such stream is recorded.
    fn first_cell(&self, thread: usize, kind: usize) -> Option<u32> {
        let recorded = RecordedStream { thread, kind };
        let stream = self.streams.iter().position(|stream| *stream == recorded)?;
        Some(self.plan_offsets.cell(stream, 0))
    }

    /// Buffer classes for the writes to each of `shapes`. Random data (salt) carries the stamp of its device, so each
    /// device has its own class.
    fn buffers_of_writes(
        &self,
        job: &Job,
        shapes: &[&DeviceShape],
        random: &mut Random,
        plan: &mut Plan,
    ) -> Result<Vec<u16>, CannotRun> {
        let slots = job.in_flight_max() as u32;
        let mut by_key = HashMap::new();
        let mut buffers = Vec::new();
        for shape in shapes {
            // Without salt, all devices share one class.
            let is_salt = job.content.is_random() && !job.writes_blocks();
            let key = if is_salt { shape.stamp_key } else { 0 };
            let class = match by_key.get(&key) {
                _ if !job.does[WRITES] => 0,
                Some(class) => *class,
                None => {
                    let len_bytes = job.written_max_bytes() as usize;
                    let class = if is_salt {
                        BufferClass::fresh(len_bytes, slots, Salt::new(random.next_u64(), 100, key))
                    } else {
                        BufferClass {
                            len_bytes,
                            count: slots,
                            fill: Fill::ByStream,
                        }
                    };
                    add_buffers(plan, class)?
                }
            };
            by_key.insert(key, class);
            buffers.push(class);
        }
        Ok(buffers)
    }
}

/// Share of lane `number` in `amount`, the job's operations or bytes: in proportion to the lanes' `rates`, or an equal
/// share if a lane has no rate. `u64::MAX` is unlimited.
fn lane_share(amount: u64, rates: &[f64], number: usize) -> u64 {
    if amount == u64::MAX || rates.len() == 1 {
        amount
    } else if rates.iter().all(|rate| *rate > 0.0) {
        (amount as f64 * rates[number] / rates.iter().sum::<f64>()).round() as u64
    } else {
        amount / rates.len() as u64
    }
}

fn add_buffers(plan: &mut Plan, class: BufferClass) -> Result<u16, CannotRun> {
    if plan.buffers.len() > usize::from(u16::MAX) {
        let why =
            "cannot run so many jobs or files on one issuing thread - lower numjobs or nrfiles";
        return Err(CannotRun(why.into()));
    }
    Ok(plan.add_buffers(class))
}
