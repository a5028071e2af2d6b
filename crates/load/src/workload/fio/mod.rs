//! fio's jobs as loads: its command lines and job files, run by our loop.
//!
//! ```text
//! command line, job files -> sections   text.rs
//!                         -> jobs       job.rs, by the table in options.rs, numbers by value.rs
//!                         -> runs       one for all jobs up to a stonewall: FioLoad, a Workload
//!                            streams    order, sizes and maps: stream.rs, pattern.rs
//! ```
//!
//! The one idea: a job with a rate is an open loop under a configured limit, its depth. Operations are wanted at their
//! instants whatever became of those before, so what fio would leave out during a stall is counted as waiting. A job without one is a
//! closed loop, as in fio. Each direction that has a rate has a lane of its own, because fio holds each to its own rate and
//! lets the mix follow; without rates one lane mixes.

mod job;
pub mod options;
mod pattern;
mod stream;
mod text;
mod value;

pub use job::{Job, jobs};
pub use stream::{Depths, FLUSHES, FioStream, KINDS};
pub use text::{BYTES_MAX, CommandLine, Given, Problem, Section, command_line, job_file};
pub use value::{SECONDS, number as parse_number};

use super::{CannotRun, Choices, DeviceShape, Extras, Place, RunPlan, RunSpec, SALTED_AHEAD, Workload};
use crate::choice::{Engine, Pacing};
use crate::plan::{Arrival, BufferClass, Fill, Lane, Limit};
use crate::schedule::{Even, Poisson, Schedule, phase};
use device::salt::Salt;
use engine::DeviceName;
use job::{DEPTH_MAX, DIRECTIONS, Wanted};
use pattern::{Draw, Map};
use results::cell::StreamInfo;
use results::run_dir::{Config, WorkloadRecord};
use results::units::{self, quoted};
use std::sync::Arc;
use stream::{Area, Order};
use sys::random::Random;
use value::Size;

const NS_PER_SEC: u64 = 1_000_000_000;

/// A run without a runtime lasts until its jobs have ended, and at most so long: there is room for the record of it.
const UNTIL_DONE_SEC: u64 = 2 * 86_400;

/// Seed of a job that repeats its random choices.
const REPEATED_SEED: u64 = 0x89;

/// Memory of a cell in all intervals that go round, about.
const CELL_BYTES: u64 = 512 << 10;

/// What a text of jobs meets around it.
pub struct Surroundings<'a> {
    /// Reads a file that is included. Errors: why not.
    pub read: &'a mut dyn FnMut(&str) -> Result<String, String>,
    /// A variable of the environment.
    pub variable: &'a dyn Fn(&str) -> Option<String>,
    /// `$ncpus`
    pub cpus: u32,
    /// `$pagesize`
    pub page_bytes: u64,
    /// `$mb_memory`
    pub memory_mbytes: u64,
    /// Writes are forbidden.
    pub readonly: bool,
}

/// One of the clones of a job.
#[derive(Debug, Clone)]
pub struct Thread {
    /// The job.
    pub job: Arc<Job>,
    /// Which clone it is.
    pub clone: u64,
    /// Its number among all, from 1.
    pub number: usize,
    /// What it is reported with: index into [`FioLoad::entries`].
    pub entry: usize,
    /// Its depths as they were.
    pub depths: Arc<Depths>,
}

/// What is reported as one: a clone, or with `group_reporting` all of a group.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The first job of it.
    pub job: Arc<Job>,
    /// The group.
    pub group: usize,
    /// Its clones: indices into [`FioLoad::threads`].
    pub threads: Vec<usize>,
}

/// All jobs that run at once.
#[derive(Debug, Clone)]
pub struct FioLoad {
    /// The clones.
    pub threads: Vec<Thread>,
    /// What is reported.
    pub entries: Vec<Entry>,
    /// Devices and files, each once.
    pub devices: Vec<DeviceName>,
    /// Size of each file, if they are files.
    pub file_size_bytes: Option<u64>,
}

/// The runs of `jobs`: each has all up to the next stonewall. Errors: those that cannot run at once.
pub fn runs(jobs: Vec<Job>) -> Result<Vec<FioLoad>, Vec<Problem>> {
    let (mut runs, mut problems) = (Vec::new(), Vec::new());
    let (mut group, mut number) = (0, 0);
    let mut jobs = jobs.into_iter().peekable();
    while let Some(first) = jobs.next() {
        let mut of_run = vec![first];
        while let Some(next) = jobs.next_if(|job| !job.stonewall) {
            of_run.push(next);
        }
        match FioLoad::new(of_run, &mut group, &mut number) {
            Ok(run) => runs.push(run),
            Err(more) => problems.extend(more),
        }
        group += 1;
    }
    if problems.is_empty() { Ok(runs) } else { Err(problems) }
}

impl FioLoad {
    fn new(jobs: Vec<Job>, group: &mut usize, number: &mut usize) -> Result<Self, Vec<Problem>> {
        let (mut threads, mut entries, mut devices) = (Vec::new(), Vec::<Entry>::new(), Vec::<DeviceName>::new());
        let mut problems = agree(&jobs);
        for (place, job) in jobs.into_iter().map(Arc::new).enumerate() {
            *group += usize::from(job.new_group && place > 0);
            for name in (0..job.numjobs).flat_map(|clone| job.names(clone)) {
                match name.parse::<DeviceName>() {
                    Ok(device) if devices.contains(&device) => {}
                    Ok(device) => devices.push(device),
                    Err(error) => problems.push(Problem::new(&format!("job {}", quoted(&job.name)), error.to_string())),
                }
            }
            for clone in 0..job.numjobs {
                let together = entries
                    .iter()
                    .position(|entry| job.group_reporting && entry.job.group_reporting && entry.group == *group);
                let entry = together.unwrap_or(entries.len());
                if together.is_none() {
                    entries.push(Entry { job: job.clone(), group: *group, threads: Vec::new() });
                }
                entries[entry].threads.push(threads.len());
                *number += 1;
                threads.push(Thread { job: job.clone(), clone, number: *number, entry, depths: Arc::default() });
            }
        }
        let load = Self { threads, entries, devices, file_size_bytes: None };
        let unwritten = |device: &&DeviceName| !load.on(device).any(|thread| writes(&thread.job));
        if load.writes()
            && let Some(device) = load.devices.iter().find(unwritten)
        {
            problems.push(Problem::new(
                "jobs that run at once",
                format!("{device} is only read, and others are written to - run them apart (stonewall), so that nobody is asked to have it erased"),
            ));
        }
        if problems.is_empty() { Ok(load) } else { Err(problems) }
    }

    /// The clones that work on `device`.
    fn on(&self, device: &DeviceName) -> impl Iterator<Item = &Thread> {
        let device = device.as_str().to_owned();
        self.threads.iter().filter(move |thread| thread.job.names(thread.clone).contains(&device))
    }

    /// The size that a file `device` has to have for its jobs; `None` where none says it.
    pub fn wanted_file_bytes(&self, device: &DeviceName) -> Option<u64> {
        let of = |thread: &Thread| {
            let job = &thread.job;
            let parts = job.names(thread.clone).len() as u64;
            let (Size::Bytes(offset), Size::Bytes(increment)) = (job.offset, job.offset_increment) else {
                return job.filesize;
            };
            let used = match job.size {
                Some(Size::Bytes(bytes)) => {
                    Some(offset.saturating_add(increment.saturating_mul(thread.clone)).saturating_add(bytes / parts))
                }
                _ => None,
            };
            job.filesize.max(used)
        };
        self.on(device).filter_map(of).max()
    }

    /// The jobs, each once.
    pub fn jobs(&self) -> impl Iterator<Item = &Arc<Job>> {
        self.threads.iter().filter(|thread| thread.clone == 0).map(|thread| &thread.job)
    }

    /// What is recorded, in the order of the streams: entry and kind.
    pub fn streams(&self) -> Vec<(usize, usize)> {
        let does = |entry: &Entry, kind: usize| {
            entry.threads.iter().map(|thread| &self.threads[*thread].job).any(|job| match kind {
                FLUSHES => job.flush_every > 0 && job.does[1],
                direction => job.does[direction],
            })
        };
        let of = |(number, entry)| (0..KINDS).filter(move |kind| does(entry, *kind)).map(move |kind| (number, kind));
        self.entries.iter().enumerate().flat_map(of).collect()
    }

    /// Names of the streams: of the job, with its number where that alone does not tell.
    fn stream_infos(&self) -> Vec<StreamInfo> {
        let streams = self.streams();
        let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-') { c } else { '_' };
        let name = |(entry, kind): (usize, usize)| {
            let job: String = self.entries[entry].job.name.chars().map(plain).collect();
            format!("{job}-{}", ["reads", "writes", "trims", "flushes"][kind])
        };
        let names: Vec<_> = streams.iter().map(|stream| name(*stream)).collect();
        let unique = |place: usize| names.iter().filter(|name| **name == names[place]).count() == 1;
        let info = |(place, (entry, kind)): (usize, &(usize, usize))| {
            let threads = self.entries[*entry].threads.iter().map(|thread| &self.threads[*thread].job);
            let rates = threads.filter(|job| *kind < FLUSHES && job.does[*kind]).map(|job| rate(job, *kind));
            StreamInfo {
                name: if unique(place) { names[place].clone() } else { format!("{}~{}", names[place], entry + 1) },
                judged: *kind != FLUSHES,
                // One without a rate has its closed loop hide what the others wanted.
                offered_iops: rates.collect::<Option<Vec<f64>>>().map_or(0.0, |rates| rates.iter().sum()),
                workload: 0,
                act: None,
            }
        };
        streams.iter().enumerate().map(info).collect()
    }

    /// Refuses what takes more memory than there is.
    fn check_memory(&self, shards: u64, devices: &[DeviceShape]) -> Result<(), CannotRun> {
        let buffers = |thread: &Thread| {
            thread.job.largest_bytes()
                * (thread.job.slots() + u64::from(SALTED_AHEAD))
                * thread.job.directions().count() as u64
        };
        let cells = self.streams().len() as u64 * devices.len() as u64 * CELL_BYTES * (shards + 1);
        let maps = |thread: &Thread| {
            let job = &thread.job;
            let names = job.names(thread.clone);
            let whole = devices.iter().filter(|device| names.contains(&device.name)).map(|device| device.size_bytes);
            let used = whole.map(|whole| job.size.map_or(whole, |size| size.of(whole).min(whole))).sum::<u64>();
            if job.has_map() { Map::bytes_of(used / job.unit_bytes()) * job.lanes().len() as u64 } else { 0 }
        };
        let of = |thread| buffers(thread).saturating_add(maps(thread));
        let bytes = self.threads.iter().map(of).fold(cells, u64::saturating_add);
        crate::memory::check(bytes).map_err(|why| {
            let jobs = units::count(self.threads.len() as u64, "job");
            CannotRun(format!("cannot run {jobs} at once - {why} - lower numjobs, iodepth or bs, or say group_reporting or norandommap"))
        })
    }
}

/// What jobs that run at once do not agree in.
fn agree(jobs: &[Job]) -> Vec<Problem> {
    let mut problems = Vec::new();
    let first = &jobs[0];
    let mut check = |what: &str, value: &dyn Fn(&Job) -> String| {
        if let Some(other) = jobs.iter().find(|job| value(job) != value(first)) {
            problems.push(Problem::new(
                "jobs that run at once",
                format!(
                    "{what} is {} in {} and {} in {} - give them the same, or have one wait (stonewall)",
                    value(first),
                    quoted(&first.name),
                    value(other),
                    quoted(&other.name)
                ),
            ));
        }
    };
    let seconds = |ns: u64| format!("{} s", ns / NS_PER_SEC);
    check("runtime", &|job| job.runtime_ns.map_or("not given".into(), seconds));
    check("ramp_time", &|job| seconds(job.ramp_ns));
    check("direct", &|job| u8::from(job.direct).to_string());
    check("the seed", &|job| seed(job).map_or("another each time".into(), |seed| seed.to_string()));
    problems
}

fn seed(job: &Job) -> Option<u64> {
    job.randseed.or(job.randrepeat.then_some(REPEATED_SEED))
}

fn writes(job: &Job) -> bool {
    job.does[1] || job.does[2]
}

/// Operations a second that a direction is asked for.
fn rate(job: &Job, direction: usize) -> Option<f64> {
    job.wanted[direction].rate(job.sizes[direction].mean_bytes()).map(|rate| rate.per_sec_f64())
}

impl Workload for FioLoad {
    type Stream = FioStream;

    fn kind(&self) -> &'static str {
        "fio"
    }

    fn spec(&self) -> RunSpec {
        let job = &self.threads[0].job;
        RunSpec {
            device_names: self.devices.clone(),
            file_size_bytes: self.file_size_bytes,
            duration_sec: job.runtime_ns.map_or(UNTIL_DONE_SEC, |ns| ns / NS_PER_SEC),
            report_interval_sec: 1,
            max_lag_sec: 0,
            odsync: false,
            engine: Engine::Auto,
            pacing: Pacing::Sleep,
            keeps_instants: false,
            seed: seed(job),
        }
    }

    fn extras(&self) -> Extras {
        let job = &self.threads[0].job;
        Extras { ramp_sec: job.ramp_ns / NS_PER_SEC, buffered: !job.direct, leaves_backlog: true }
    }

    fn writes(&self) -> bool {
        self.threads.iter().any(|thread| writes(&thread.job))
    }

    fn unit_bytes(&self) -> u64 {
        self.threads.iter().map(|thread| thread.job.unit_bytes()).max().unwrap_or(0)
    }

    fn build(
        &self,
        devices: &[DeviceShape],
        choices: &Choices,
        run: &mut RunPlan<FioStream>,
    ) -> Result<WorkloadRecord, CannotRun> {
        let shards = self.threads.len().clamp(1, choices.shards_max.max(1) as usize);
        self.check_memory(shards as u64, devices)?;
        let place = run.add(self.stream_infos(), shards);
        let streams = self.streams();
        for (at, thread) in self.threads.iter().enumerate() {
            let cell = |kind: usize| {
                let stream = streams.iter().position(|stream| *stream == (thread.entry, kind));
                stream.map_or(0, |stream| place.cell(stream, 0))
            };
            let cells = std::array::from_fn(cell);
            self.add(thread, at, devices, choices, cells, &mut run.shards[at % shards], &place)?;
        }
        let most = choices.in_flight_max.map_or(DEPTH_MAX, u64::from);
        if let Some(depth) = run.shards.iter().map(|plan| plan.in_flight_max() as u64).find(|depth| *depth > most) {
            return Err(CannotRun(format!(
                "cannot have {depth} operations in flight on one issuing thread - at most {most} are carried here - lower iodepth or numjobs"
            )));
        }
        Ok(WorkloadRecord { kind: self.kind().to_owned(), config: self.record(), ..WorkloadRecord::default() })
    }
}

impl FioLoad {
    #[allow(clippy::too_many_arguments)] // they are what a lane is made of
    fn add(
        &self,
        thread: &Thread,
        at: usize,
        devices: &[DeviceShape],
        choices: &Choices,
        cells: [u32; KINDS],
        plan: &mut crate::plan::Plan<FioStream>,
        place: &Place,
    ) -> Result<(), CannotRun> {
        let job = &thread.job;
        let slots = job.slots() as u32;
        let names = job.names(thread.clone);
        let shapes: Vec<_> =
            names.iter().filter_map(|name| devices.iter().find(|device| device.name == *name)).collect();
        let mut random = Random::for_part(choices.seed, at as u64);
        let lanes = job.lanes();
        let mut areas = Vec::new();
        for directions in &lanes {
            let of_lane =
                shapes.iter().map(|shape| area(job, directions, thread.clone, names.len() as u64, shape, &mut random));
            areas.push(of_lane.collect::<Result<Vec<_>, _>>()?);
        }
        // All that the device or the files have, or what is asked for.
        let used: u64 = areas[0].iter().map(|area| area.len).sum();
        let total = match job.io_size {
            _ if job.time_based => u64::MAX,
            Some(size) => size.of(used).saturating_mul(job.loops),
            None => used.saturating_mul(job.loops),
        };
        let ops = if job.time_based { u64::MAX } else { job.number_ios.unwrap_or(u64::MAX) };
        // Salt carries the stamp of its device: several files of a job are of one.
        let first = shapes.first().copied();
        let mut buffers = [0; KINDS];
        for kind in (0..KINDS).filter(|kind| *kind == FLUSHES || job.does[*kind]) {
            let moves = kind < 2;
            let fill = match kind {
                1 if !job.zeros => {
                    let key = first.map_or(0, |shape| shape.stamp_key);
                    Fill::Fresh(Salt::new(random.next_u64(), 100 - job.compress_pct as u32, key))
                }
                _ => Fill::AsIs,
            };
            let ahead = if matches!(fill, Fill::Fresh(_)) { slots.min(SALTED_AHEAD) } else { 0 };
            let len_bytes = if moves { job.sizes[kind].max_bytes() as usize } else { 0 };
            buffers[kind] = u16::try_from(plan.buffers.len())
                .map_err(|_| CannotRun("cannot run so many jobs on one issuing thread - lower numjobs".into()))?;
            plan.buffers.push(BufferClass { len_bytes, count: slots + ahead, fill });
        }
        let limit = plan.limits.len() as u32;
        plan.limits.push(Limit { slots, configured: true });
        // Of what is to be moved in all each lane has its part, by its rate.
        let bytes_per_sec = |lane: &[usize]| match job.wanted[lane[0]] {
            Wanted::Bytes(bytes) => bytes as f64,
            Wanted::Iops(iops) => iops as f64 * job.sizes[lane[0]].mean_bytes(),
            Wanted::Unlimited => 0.0,
        };
        let all: f64 = lanes.iter().map(|lane| bytes_per_sec(lane)).sum();
        let is_each_rated = lanes.iter().all(|lane| bytes_per_sec(lane) > 0.0);
        let part = |whole: u64, lane: &[usize]| match lanes.len() {
            _ if whole == u64::MAX => whole,
            1 => whole,
            _ if is_each_rated => (whole as f64 * bytes_per_sec(lane) / all) as u64,
            count => whole / count as u64,
        };
        for (number, (directions, areas)) in lanes.iter().zip(areas).enumerate() {
            let direction = directions[0];
            let arrival = match job.wanted[direction].rate(job.sizes[direction].mean_bytes()) {
                None => Arrival::Closed { depth: slots, think_ns: job.think_ns },
                Some(rate) if job.poisson => {
                    let random = Random::for_part(random.next_u64(), number as u64);
                    Poisson::new(rate, random)
                        .map(|poisson| Arrival::Scheduled(Schedule::Poisson(poisson)))
                        .ok_or_else(|| no_rate(job))?
                }
                Some(rate) => Even::new(rate, 0, 1, phase(at + number))
                    .map(|even| Arrival::Scheduled(Schedule::Even(even)))
                    .ok_or_else(|| no_rate(job))?,
            };
            let stream = FioStream {
                areas,
                turn: 0,
                random_area: job.random_file,
                read_pct: job.read_pct,
                directions: directions.clone(),
                sizes: job.sizes.clone(),
                align: std::array::from_fn(|direction| align(job, direction)),
                unit: unit_bytes(job, directions),
                bytes_left: part(total, directions),
                ops_left: part(ops, directions),
                flush_every: if directions.contains(&1) { job.flush_every } else { 0 },
                writes: 0,
                cells,
                buffers,
                sync: job.sync,
                random: Random::for_part(choices.seed, (at as u64) << 8 | (number as u64 + 1)),
                depths: thread.depths.clone(),
            };
            let name = place.lane_name(&job.name, &names.join(":"));
            plan.lanes.push(Lane { stream, arrival, limit, name });
        }
        Ok(())
    }

    /// What is in force, for the manifest.
    fn record(&self) -> Config {
        let mut settings = Vec::new();
        for job in self.jobs() {
            settings.push((format!("{}: in-flight-max", job.name), job.slots().to_string()));
            settings.push((format!("{}: jobs", job.name), job.numjobs.to_string()));
            settings.extend(job.given.iter().map(|(name, value)| (format!("{}: {name}", job.name), value.clone())));
        }
        Config { settings, ..Config::default() }
    }
}

fn no_rate(job: &Job) -> CannotRun {
    CannotRun(format!(
        "cannot run job {} - its rate is too low for operations of its size - give a higher one",
        quoted(&job.name)
    ))
}

/// What random offsets of a direction are multiples of.
fn align(job: &Job, direction: usize) -> u64 {
    job.align[direction].unwrap_or_else(|| job.sizes[direction].min_bytes())
}

/// The smallest operation of `directions`, which their map goes by.
fn unit_bytes(job: &Job, directions: &[usize]) -> u64 {
    directions.iter().map(|direction| job.sizes[*direction].min_bytes()).min().unwrap_or(4096)
}

/// The part of `shape`, one of `parts` of the job's, that the lane of `directions` of its clone number `clone` uses.
fn area(
    job: &Job,
    directions: &[usize],
    clone: u64,
    parts: u64,
    shape: &DeviceShape,
    random: &mut Random,
) -> Result<Area, CannotRun> {
    let cannot = |why: String| CannotRun(format!("cannot run job {} on {} - {why}", quoted(&job.name), shape.name));
    let whole = shape.size_bytes;
    let unit = job.unit_bytes();
    let start = job.offset.of(whole).saturating_add(job.offset_increment.of(whole).saturating_mul(clone));
    let room = whole.checked_sub(start).filter(|room| *room >= unit).ok_or_else(|| {
        cannot(format!("offset {start} leaves no room for an operation of {unit} bytes in its {whole} bytes - lower offset, offset_increment or numjobs"))
    })?;
    let wanted = match job.size {
        None => room,
        // A part of the whole, as far as there is room behind the offset.
        Some(percent @ Size::Percent(_)) => percent.of(whole).min(room),
        Some(Size::Bytes(bytes)) => bytes / parts,
    };
    if wanted > room {
        return Err(cannot(format!(
            "size {wanted} from offset {start} on goes beyond its end at {whole} bytes - lower size, or leave it out for all there is"
        )));
    }
    let len = wanted / unit * unit;
    let largest = job.largest_bytes();
    if len < largest {
        return Err(cannot(format!(
            "{len} bytes do not hold an operation of {largest} bytes - give more size, or a smaller bs"
        )));
    }
    let coarse = job.direct || job.does[2];
    let min_io = u64::from(shape.min_io_bytes);
    let uneven = |bytes: &u64| !bytes.is_multiple_of(min_io);
    let sizes =
        job.directions().flat_map(|direction| job.sizes[direction].each().into_iter().chain([align(job, direction)]));
    if let Some(bytes) = sizes.chain([start, unit]).find(|bytes| coarse && uneven(bytes)) {
        return Err(cannot(format!(
            "{bytes} bytes are no multiple of {min_io}, which direct I/O on it demands of sizes and offsets - round it, or say direct=0 to use the page cache"
        )));
    }
    // A split's sizes that are no multiple of its smallest would leave gaps in a map.
    let order = match job.random {
        false => Order::Sequential,
        true if job.has_map() => {
            let unit = unit_bytes(job, directions);
            let even = |direction: &usize| job.sizes[*direction].each().iter().all(|bytes| bytes.is_multiple_of(unit));
            if !directions.iter().all(even) {
                return Err(cannot(format!(
                    "sizes that are no multiples of the smallest, {unit}, go with no random map - add norandommap"
                )));
            }
            Order::Mapped(Map::new(len / unit))
        }
        true => {
            let mut draws = [const { None }; DIRECTIONS];
            for direction in job.directions() {
                let align = align(job, direction);
                // The last has room for the smallest operation.
                let blocks = (len - job.sizes[direction].min_bytes()) / align + 1;
                draws[direction] =
                    Some(Draw::new(&job.distribution[direction], blocks, align, random).map_err(cannot)?);
            }
            Order::Drawn(draws)
        }
    };
    Ok(Area { target: shape.target, start, len, next: [0; DIRECTIONS], order })
}

#[cfg(test)]
mod testing {
    use super::Surroundings;

    /// A machine with 4 CPUs whose environment has `SIZE`.
    pub(super) fn around<'a>(read: &'a mut dyn FnMut(&str) -> Result<String, String>) -> Surroundings<'a> {
        let variable: &dyn Fn(&str) -> Option<String> = &|name| (name == "SIZE").then(|| "64".to_owned());
        Surroundings { read, variable, cpus: 4, page_bytes: 4096, memory_mbytes: 1_000, readonly: false }
    }
}

#[cfg(test)]
mod tests;
