//! A burst observed from outside: the I/O issued, and the I/O that reached the device.
//!
//! ```text
//! run      |- begins -|------- measured -------|- ends -|
//! issued              sum of the cells of these intervals
//! reached             diskstats     ...        diskstats     flushes counted separately
//! requests            block_rq_issue: number of requests of the size of a large block, if tracing is permitted
//! ```
//!
//! Simulated drives and files have only the cells: all issued I/O counts as reached.

use device::discover::{discover, queue_attribute};
use device::observe::diskstats::{self, Counters, SECTOR_BYTES};
use device::observe::trace::{BlockTrace, EventOp, TraceEvent, TraceOptions, has_requests};
use engine::DeviceName;
use results::cell::Interval;
use results::run_dir::Manifest;
use session::console;
use session::failure::Failure;
use session::recording::RunObserver;
use session::tracing::BlockPosition;
use sizing::drive_io::DriveIo;
use std::ops::Range;
use std::path::Path;
use std::time::Instant;

/// Unmeasured time at the start, seconds; also the number of report intervals in this time.
pub(super) const BEGINS_SEC: u64 = 2;
/// Unmeasured time at the end, seconds; also the number of report intervals in this time.
pub(super) const ENDS_SEC: u64 = 1;

/// If a counter was read, or an operation issued, later than this (seconds), flashproof may have caused the difference.
const TIMING_ERROR_SEC: f64 = 0.02;

/// Trace buffer of a CPU, bytes, for the events of one second. One thread may issue all requests, so the buffer of each
/// CPU holds 100,000 events; fewer with more than 32 CPUs, which share [`TRACE_BYTES`].
const CPU_TRACE_BYTES: u64 = 8 << 20;
const TRACE_BYTES: u64 = 256 << 20;

/// The place of a device in the kernel's counters; `None` for a simulated drive or a file, which have no counters.
pub(super) fn place(
    index: usize,
    name: &DeviceName,
    is_file: bool,
) -> Result<Option<BlockPosition>, Failure> {
    let DeviceName::Path(name) = name else {
        return Ok(None);
    };
    if is_file {
        return Ok(None);
    }
    let facts = discover(name, Path::new("/"))
        .map_err(|error| Failure::environment(format!("cannot align on {name} - {error}")))?;
    Ok(BlockPosition::for_device(index, &facts))
}

fn max_request_kib(position: &BlockPosition) -> Option<u64> {
    queue_attribute(position.disk, "max_sectors_kb", Path::new("/"))?
        .parse()
        .ok()
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct StreamRates {
    pub stream: String,
    /// Configured rate.
    pub offered_per_sec: f64,
    /// Achieved rate.
    pub per_sec: f64,
    pub kib_per_sec: f64,
}

impl StreamRates {
    fn reads(&self) -> bool {
        self.stream.ends_with("reads")
    }
}

/// Requests per second by size, from the tracepoints.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct TracedRequests {
    /// Reads of the size of a large block.
    pub block_reads: f64,
    pub other_reads: f64,
    /// Writes of the size of a large block.
    pub block_writes: f64,
    /// Other writes with data.
    pub other_writes: f64,
}

/// Measurements of a burst, per second, over all devices.
#[derive(Debug, Clone)]
pub(super) struct BurstMeasurement {
    /// Measured time, seconds.
    pub seconds: f64,
    /// Difference between the period of the kernel's counters and the measured time, seconds; 0 if no CPU was lacking.
    pub timing_error_sec: f64,
    pub issued: Vec<StreamRates>,
    pub reached: DriveIo,
    /// True if `reached` comes from the kernel's counters; otherwise it equals the issued I/O.
    pub is_counted: bool,
    /// Flushes per second, not counted as writes.
    pub flushes_per_sec: f64,
    /// True if w/s was computed from the issued writes, because the counters do not separate flushes from writes.
    pub writes_as_issued: bool,
    /// Requests per second that were merged into others.
    pub merged_per_sec: f64,
    /// Requests by size; or the reason why the sizes are unknown.
    pub traced: Result<TracedRequests, String>,
    /// Largest request of the first device's queue, KiB.
    pub max_request_kib: Option<u64>,
}

impl BurstMeasurement {
    /// The issued I/O, in iostat's numbers.
    pub(super) fn issued_io(&self) -> DriveIo {
        let mut numbers = [0.0; 4];
        for issued in &self.issued {
            let direction = usize::from(!issued.reads());
            numbers[direction] += issued.per_sec;
            numbers[direction + 2] += issued.kib_per_sec;
        }
        DriveIo::from(numbers)
    }

    /// True if issued and counted I/O may be of different periods: late reads of counters, or late operations.
    pub(super) fn is_disturbed(&self) -> bool {
        let mut timing_error_sec = self.timing_error_sec;
        for issued in &self.issued {
            let caught_up_sec = (issued.per_sec / issued.offered_per_sec - 1.0) * self.seconds;
            timing_error_sec = timing_error_sec.max(caught_up_sec);
        }
        let (_, off) = furthest(&self.issued_io(), &self.reached, 2..4);
        timing_error_sec > TIMING_ERROR_SEC && off.abs() * self.seconds < 2.0 * timing_error_sec
    }

    /// Write requests per second that the kernel makes of the issued writes, split at the limit of the device's queue.
    fn requests_expected(&self, block_sectors: u32) -> f64 {
        let block_kib = u64::from(block_sectors) * SECTOR_BYTES / 1024;
        let parts = self
            .max_request_kib
            .filter(|max| *max > 0)
            .map_or(1, |max| block_kib.div_ceil(max).max(1));
        let writes = self.issued.iter().filter(|issued| !issued.reads());
        writes
            .map(|issued: &StreamRates| {
                issued.per_sec
                    * if issued.stream.contains("large") {
                        parts as f64
                    } else {
                        1.0
                    }
            })
            .sum()
    }

    /// The stream that fell furthest behind its offered rate. A stream counts only if it is short by more than 2
    /// operations (the error at the edges of the period) and by more than the fraction `allowed`. Poisson arrivals add
    /// four standard deviations to `allowed`.
    pub(super) fn not_held(&self, allowed: f64, poisson: bool) -> Option<&StreamRates> {
        let behind = |it: &StreamRates| it.per_sec / it.offered_per_sec;
        self.issued
            .iter()
            .filter(|it: &&StreamRates| {
                let missing = it.offered_per_sec - it.per_sec;
                let random_error = if poisson {
                    4.0 / (it.offered_per_sec * self.seconds).sqrt()
                } else {
                    0.0
                };
                missing > it.offered_per_sec * (allowed + random_error)
                    && missing * self.seconds > 2.0
            })
            .min_by(|a, b| behind(a).total_cmp(&behind(b)))
    }
}

struct CounterReading {
    instant: Instant,
    run_ns: u64,
    counters: Vec<Counters>,
}

pub(super) struct BurstObserver {
    positions: Vec<BlockPosition>,
    measured_intervals: Range<u64>,
    block_sectors: u32,
    streams: Vec<StreamRates>,
    devices: usize,
    /// Smallest I/O of the first device, found by the run.
    pub min_io_bytes: u32,
    bytes: Vec<u64>,
    ops: Vec<u64>,
    start_reading: Option<CounterReading>,
    end_reading: Option<CounterReading>,
    trace: Option<(BlockTrace, Instant)>,
    traced: Result<TracedRequests, String>,
    failure: Option<String>,
}

impl BurstObserver {
    /// Observer of a burst measured for `seconds`. `positions`: one for each device, or none.
    pub(super) fn new(
        positions: Vec<BlockPosition>,
        seconds: u64,
        block_bytes: u32,
        min_io_bytes: u32,
    ) -> Self {
        Self {
            positions,
            measured_intervals: BEGINS_SEC..BEGINS_SEC + seconds,
            block_sectors: block_bytes / SECTOR_BYTES as u32,
            streams: Vec::new(),
            devices: 0,
            min_io_bytes,
            bytes: Vec::new(),
            ops: Vec::new(),
            start_reading: None,
            end_reading: None,
            trace: None,
            traced: Err("no requests were traced".to_owned()),
            failure: None,
        }
    }

    /// `None`: the run ended before the measured time was over. Errors: the kernel's counters could not be read.
    pub(super) fn measure(self) -> Result<Option<BurstMeasurement>, Failure> {
        if let Some(why) = self.failure {
            return Err(Failure::environment(why));
        }
        let (Some(start), Some(end)) = (self.start_reading, self.end_reading) else {
            return Ok(None);
        };
        let run_sec = (end.run_ns - start.run_ns) as f64 / 1e9;
        let issued: Vec<_> = self
            .streams
            .into_iter()
            .zip(self.ops.iter().zip(&self.bytes))
            .map(|(stream, (ops, bytes))| StreamRates {
                per_sec: *ops as f64 / run_sec,
                kib_per_sec: *bytes as f64 / 1024.0 / run_sec,
                ..stream
            })
            .collect();
        let mut measurement = BurstMeasurement {
            seconds: run_sec,
            timing_error_sec: (end.instant.duration_since(start.instant).as_secs_f64() - run_sec)
                .abs(),
            issued,
            reached: DriveIo::default(),
            is_counted: !self.positions.is_empty(),
            flushes_per_sec: 0.0,
            merged_per_sec: 0.0,
            writes_as_issued: false,
            traced: self.traced,
            max_request_kib: self.positions.first().and_then(max_request_kib),
        };
        if !measurement.is_counted {
            measurement.reached = measurement.issued_io();
            return Ok(Some(measurement));
        }
        let interval = end.instant.duration_since(start.instant);
        let mut sum = [0.0; 4];
        for (before, after) in start.counters.iter().zip(&end.counters) {
            let rates = after.since(before).and_then(|delta| {
                let Counters { read, write, .. } = delta;
                let ops = [read.per_sec(interval)?, write.per_sec(interval)?];
                Some((
                    delta,
                    [
                        ops[0],
                        ops[1],
                        read.kib_per_sec(interval)?,
                        write.kib_per_sec(interval)?,
                    ],
                ))
            });
            let Some((delta, device_rates)) = rates else {
                return Err(Failure::environment(
                    "the kernel's counters of the device decreased: the device was removed during the burst",
                ));
            };
            sum = std::array::from_fn(|n| sum[n] + device_rates[n]);
            measurement.flushes_per_sec += delta
                .flush
                .and_then(|flush| flush.per_sec(interval))
                .unwrap_or(0.0);
            measurement.merged_per_sec +=
                (delta.read.merged + delta.write.merged) as f64 / interval.as_secs_f64();
        }
        if let Ok(traced) = &measurement.traced {
            sum[1] = traced.block_writes + traced.other_writes;
        } else {
            let expected = measurement.requests_expected(self.block_sectors);
            sum[1] = with_data(sum[1], measurement.flushes_per_sec, expected);
            measurement.writes_as_issued = measurement.flushes_per_sec > 0.0 && sum[1] == expected;
        }
        measurement.reached = DriveIo::from(sum);
        Ok(Some(measurement))
    }

    fn mark(&mut self, run_ns: u64) -> Option<CounterReading> {
        if self.positions.is_empty() {
            return Some(CounterReading {
                instant: Instant::now(),
                run_ns,
                counters: Vec::new(),
            });
        }
        let disks = match diskstats::read(Path::new("/")) {
            Ok(disks) => disks,
            Err(error) => {
                self.failure = Some(error.to_string());
                return None;
            }
        };
        let instant = Instant::now();
        let counters: Option<Vec<_>> = self
            .positions
            .iter()
            .map(|place: &BlockPosition| {
                disks
                    .iter()
                    .find(|disk| disk.device == place.device_number)
                    .map(|disk| disk.counters)
            })
            .collect();
        if counters.is_none() {
            self.failure = Some("the device has no line in /proc/diskstats".to_owned());
        }
        counters.map(|counters| CounterReading {
            instant,
            run_ns,
            counters,
        })
    }

    fn begin_trace(&mut self) {
        let Some(first) = self.positions.first() else {
            return;
        };
        if !has_requests(Path::new("/"), first.disk) {
            self.traced = Err("the device's driver handles bios and has no requests".to_owned());
            return;
        }
        let mut disks: Vec<_> = self.positions.iter().map(|place| place.disk).collect();
        disks.sort_unstable();
        disks.dedup();
        let options = TraceOptions {
            buffer_bytes: TRACE_BYTES,
            cpu_buffer_bytes: CPU_TRACE_BYTES,
            complete: false,
            ..TraceOptions::default()
        };
        match BlockTrace::start(&disks, options) {
            Ok(trace) => {
                self.trace = Some((trace, Instant::now()));
                self.traced = Ok(TracedRequests::default());
            }
            Err(error) => self.traced = Err(error.to_string()),
        }
    }

    fn read_trace(&mut self) {
        let (Some((trace, _)), Ok(traced)) = (&mut self.trace, &mut self.traced) else {
            return;
        };
        let positions = &self.positions;
        let block_sectors = self.block_sectors;
        let read_result = trace.read(&mut |event: TraceEvent| {
            let is_ours = positions.iter().any(|place: &BlockPosition| {
                place.disk == event.device && place.sectors.contains(&event.sector)
            });
            if event.sectors == 0 || !is_ours {
                return;
            }
            match (event.op, event.sectors == block_sectors) {
                (EventOp::Read, true) => traced.block_reads += 1.0,
                (EventOp::Read, false) => traced.other_reads += 1.0,
                (EventOp::Write, true) => traced.block_writes += 1.0,
                (EventOp::Write, false) => traced.other_writes += 1.0,
                _ => {}
            }
        });
        if let Err(error) = read_result {
            self.traced = Err(error.to_string());
        }
    }

    fn end_trace(&mut self) {
        let Some((trace, start)) = &mut self.trace else {
            return;
        };
        let stop_result = trace.stop();
        let seconds = start.elapsed().as_secs_f64();
        self.read_trace();
        let Some((trace, _)) = self.trace.take() else {
            return;
        };
        match stop_result.and_then(|_| trace.lost()) {
            Ok(lost) if lost.is_none() => {
                if let Ok(TracedRequests {
                    block_reads,
                    other_reads,
                    block_writes,
                    other_writes,
                }) = &mut self.traced
                {
                    let counts = [block_reads, other_reads, block_writes, other_writes];
                    counts.into_iter().for_each(|count| *count /= seconds);
                }
            }
            Ok(lost) => {
                self.traced = Err(format!("{} events were lost", lost.events().max(lost.gaps)))
            }
            Err(error) => self.traced = Err(error.to_string()),
        }
    }
}

impl RunObserver for BurstObserver {
    fn begins(&mut self, manifest: &Manifest) {
        // A terminal shows progress instead.
        if let Some(purpose) = manifest
            .purpose
            .as_ref()
            .filter(|_| !console::stderr_is_terminal())
        {
            console::note(&format!("{purpose}: begins"));
        }
        let streams = manifest.streams.iter().map(|info| StreamRates {
            stream: info.name.clone(),
            offered_per_sec: info.offered_iops,
            per_sec: 0.0,
            kib_per_sec: 0.0,
        });
        self.streams = streams.collect();
        self.devices = manifest.devices.len();
        (self.ops, self.bytes) = (vec![0; self.streams.len()], vec![0; self.streams.len()]);
        let found = manifest
            .device_facts
            .first()
            .and_then(|facts| facts.get("min_io_bytes")?.as_u64());
        self.min_io_bytes = found
            .and_then(|bytes| u32::try_from(bytes).ok())
            .unwrap_or(self.min_io_bytes);
    }

    fn interval(&mut self, interval: &Interval) -> Option<String> {
        if self.measured_intervals.contains(&interval.index) {
            for (cell_index, cell) in interval.cells.iter().enumerate() {
                self.ops[cell_index / self.devices] += cell.counts.ops;
                self.bytes[cell_index / self.devices] += cell.counts.bytes;
            }
            self.read_trace();
        }
        if interval.index + 1 == self.measured_intervals.start {
            self.begin_trace();
            self.start_reading = self.mark(interval.end_ns);
        }
        if interval.index + 1 == self.measured_intervals.end {
            self.end_reading = self.mark(interval.end_ns);
            self.end_trace();
        }
        None
    }
}

/// Writes with data per second, given the counted `writes` and `flushes` and the `expected` rate.
///
/// With pwrite, the kernel counts the flush after a synchronous write as a write without data. With io_uring the flush
/// is part of the write, and is not counted as a write of its own. With pwrite, a drive without FUA gets both kinds of
/// flush. One flush may serve several writes. Counters do not separate these cases, so the result is the possible value
/// nearest to `expected`.
fn with_data(writes: f64, flushes: f64, expected: f64) -> f64 {
    expected.clamp((writes - flushes).max(0.0), writes.max(0.0))
}

/// Largest relative difference of `issued` and `reached` at `indices`, with its index. Zeros in both are ignored.
pub(super) fn furthest(issued: &DriveIo, reached: &DriveIo, indices: Range<usize>) -> (usize, f64) {
    let issued = issued.numbers();
    let reached = reached.numbers();
    let differences = indices.map(|n| (n, relative_difference(issued[n], reached[n])));
    differences
        .max_by(|a, b| a.1.abs().total_cmp(&b.1.abs()))
        .unwrap_or((0, 0.0))
}

fn relative_difference(issued: f64, reached: f64) -> f64 {
    match issued.max(reached) {
        0.0 => 0.0,
        larger => (reached - issued) / larger,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use device::discover::DeviceNumber;
    use device::observe::diskstats::RequestCounts;
    use std::time::Duration;

    #[test]
    fn writes_with_data_lie_between_counted_writes_minus_flushes_and_counted_writes() {
        // Observed, in this order: a loop device with io_uring, with pwrite, a drive with FUA, a drive without a cache.
        for (writes, flushes) in [(190.0, 190.0), (380.0, 380.0), (380.0, 190.0), (190.0, 0.0)] {
            assert_eq!(with_data(writes, flushes, 190.0), 190.0);
        }
        // Without flushes, the counted writes all have data: twice as many writes mean that the kernel split them.
        assert_eq!(with_data(380.0, 0.0, 190.0), 380.0);
        assert_eq!(with_data(95.0, 0.0, 190.0), 95.0);
    }

    /// A burst of 10 s with these counted writes and flushes per second, where 100 writes per second are issued.
    fn counted(writes: u64, flushes: u64) -> BurstMeasurement {
        let place = BlockPosition {
            index: 0,
            device_number: DeviceNumber::default(),
            disk: DeviceNumber::default(),
            sectors: 0..u64::MAX,
        };
        let mut watched = BurstObserver::new(vec![place], 10, 128 << 10, 512);
        let begin = Instant::now();
        let write = |per_sec| RequestCounts {
            completed: per_sec * 10,
            ..RequestCounts::default()
        };
        let flush = Some(RequestCounts {
            completed: flushes * 10,
            ..RequestCounts::default()
        });
        let mark = |sec: u64, counters| CounterReading {
            instant: begin + Duration::from_secs(sec),
            run_ns: sec * 1_000_000_000,
            counters: vec![counters],
        };
        let none = Counters {
            flush: Some(RequestCounts::default()),
            ..Counters::default()
        };
        watched.start_reading = Some(mark(0, none));
        watched.end_reading = Some(mark(
            10,
            Counters {
                write: write(writes),
                flush,
                ..none
            },
        ));
        let stream = "large-block-writes".to_owned();
        watched.streams = vec![StreamRates {
            stream,
            offered_per_sec: 100.0,
            per_sec: 0.0,
            kib_per_sec: 0.0,
        }];
        (watched.ops, watched.bytes) = (vec![1000], vec![1000 * (128 << 10)]);
        watched.measure().unwrap().unwrap()
    }

    #[test]
    fn if_flushes_hide_the_writes_the_issued_rate_is_used_and_marked() {
        for (writes, flushes, reached, as_issued) in [
            // The counters do not show if writes were split or merged, or if another program wrote.
            (150, 100, 100.0, true),
            (100, 50, 100.0, true),
            // Without flushes, or with more writes than flushes explain, the counted number is used.
            (150, 0, 150.0, false),
            (400, 100, 300.0, false),
        ] {
            let measure = counted(writes, flushes);
            let found = (
                measure.reached.writes_per_sec.round(),
                measure.writes_as_issued,
            );
            assert_eq!(found, (reached, as_issued), "{writes} {flushes}");
        }
    }

    #[test]
    fn poisson_arrivals_may_deviate_by_four_standard_deviations() {
        let mut measure = counted(100, 0);
        for (per_sec, evenly, by_chance) in [
            (100.0, true, true),
            (97.0, false, true),
            (85.0, false, false),
        ] {
            measure.issued[0].per_sec = per_sec;
            let held = [false, true].map(|poisson| measure.not_held(0.01, poisson).is_none());
            // 1,000 operations: a standard deviation is 3.2 %, four are 12.6 %.
            assert_eq!(held, [evenly, by_chance], "{per_sec}");
        }
    }
}
