//! Samples of the block layer during a run: half a second every thirty seconds.
//!
//! ```text
//! plan -> Tracing (a thread of the lowest priority) -> sample -> trace.csv
//! ```
//!
//! Continuous tracing would cost more than the run itself at high rates; periodic samples show where requests wait. The
//! samples do not disturb the run: the thread has the lowest priority, a sample ends early when it has enough requests,
//! and a failure ends only the tracing.

use crate::console;
use crate::devices::Devices;
use device::discover::DeviceNumber;
use device::discover::{DeviceFacts, Partition};
use device::observe::diskstats::SECTOR_BYTES;
use device::observe::trace::{
    BlockRequest, BlockTrace, EventOp, Pairing, TraceError, TraceEvent, TraceOptions, has_requests,
    sort_by_time, stop_instances,
};
use results::run_dir::{Manifest, TraceWriter};
use results::telemetry::{TimeDistribution, TraceKind, TraceLine, TraceSize};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};
use sys::process::{self, monotonic_ns};

/// Time from the start of the run to its first sample; at most a quarter of a short run.
const FIRST_AFTER: Duration = Duration::from_secs(1);
/// Time from the start of a sample to the start of the next sample.
const PERIOD: Duration = Duration::from_secs(30);
/// Length of a sample; at most a quarter of a short run.
const LENGTH: Duration = Duration::from_millis(500);

/// Measurement that is missing without samples.
const UNMEASURED: &str = "the split of latencies between kernel queue and device";

/// The devices to trace; `None` if there are none, or if `is_enabled` is false. Devices that cannot be traced are
/// reported to the user and added to `unmeasured`; simulated drives are not mentioned.
pub(crate) fn plan(
    devices: &Devices,
    is_enabled: bool,
    unmeasured: &mut Vec<String>,
) -> Option<Vec<BlockPosition>> {
    let facts = devices.real_facts();
    if facts.is_empty() {
        return None;
    }
    if !is_enabled {
        unmeasured.push(format!("{UNMEASURED}: --no-trace turned the samples off"));
        return None;
    }
    let mut positions = Vec::new();
    for (index, (name, facts)) in facts.into_iter().enumerate() {
        match position(index, facts, Path::new("/")) {
            Ok(position) => positions.push(position),
            Err(why) => warn_unmeasured(
                unmeasured,
                format!("{UNMEASURED}: {name} cannot be traced - {why}"),
            ),
        }
    }
    if positions.is_empty() {
        return None;
    }
    // This trial trace makes a run report at its start if tracing is impossible.
    match start(&positions, SAMPLED) {
        Ok(_) => Some(positions),
        Err(error) => {
            warn_unmeasured(unmeasured, format!("{UNMEASURED}: {error}"));
            None
        }
    }
}

/// Warns once, and adds `sentence` to `unmeasured`, which the manifest records.
fn warn_unmeasured(unmeasured: &mut Vec<String>, sentence: String) {
    console::warning_once(&format!("not measured: {sentence}"));
    unmeasured.push(sentence);
}

/// Position of a device in the block layer. Errors: why the device cannot be traced.
fn position(index: usize, facts: &DeviceFacts, root: &Path) -> Result<BlockPosition, &'static str> {
    let position = BlockPosition::for_device(index, facts)
        .ok_or("it is a file: its file system makes the requests")?;
    if has_requests(root, position.disk) {
        Ok(position)
    } else {
        Err("its driver handles bios directly, without requests")
    }
}

/// Maximum wait for the sampling thread at the end. On a busy host, the lowest priority may get no CPU for minutes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(3);

/// Samples of one run. A thread of the lowest priority takes them; this struct, in the recording thread, writes them.
#[derive(Debug)]
pub struct Tracing {
    writer: TraceWriter,
    stop_sender: Sender<()>,
    /// Receives the lines of each sample, or the reason why tracing ended. Disconnected when the thread ends.
    samples: Receiver<Result<Vec<TraceLine>, String>>,
}

impl Tracing {
    /// Starts tracing of the run in `dir`; `None` after a warning if it cannot start.
    pub(crate) fn start(
        positions: Vec<BlockPosition>,
        dir: &Path,
        manifest: &Manifest,
    ) -> Option<Self> {
        let began = Instant::now();
        let writer = TraceWriter::create(dir, &manifest.sla)
            .inspect_err(|error| warn_ended(error))
            .ok()?;
        let (stop_sender, stop_receiver) = channel();
        let (sample_sender, samples) = channel();
        let quarter = Duration::from_secs(manifest.duration_sec) / 4;
        let sampling = TraceSampler {
            positions,
            thresholds_ns: manifest.sla.thresholds_ns().to_vec(),
            length: LENGTH.min(quarter),
            began,
            stop_receiver,
            sample_sender,
        };
        thread::Builder::new()
            .name("trace".to_owned())
            .spawn(move || {
                process::lower_priority();
                if let Err(error) = sampling.run(FIRST_AFTER.min(quarter)) {
                    // Fails only if the run no longer waits for samples.
                    let _ = sampling.sample_sender.send(Err(error.to_string()));
                }
            })
            .inspect_err(|error| warn_ended(error))
            .ok()?;
        Some(Self {
            writer,
            stop_sender,
            samples,
        })
    }

    /// Writes the samples taken so far. False after a warning if the tracing has ended.
    pub(crate) fn write_samples(&mut self) -> bool {
        let samples: Vec<_> = self.samples.try_iter().collect();
        samples.into_iter().all(|sample| self.write(sample))
    }

    fn write(&mut self, sample: Result<Vec<TraceLine>, String>) -> bool {
        let written = sample.and_then(|lines| {
            self.writer
                .append(&lines)
                .map_err(|error| error.to_string())
        });
        written.inspect_err(|why| warn_ended(why)).is_ok()
    }

    /// Ends the current sample and writes the last samples. If the thread does not end within `patience`, drops its
    /// last sample, and adds a sentence to `unmeasured`.
    pub(crate) fn finish(mut self, patience: Duration, unmeasured: &mut Vec<String>) {
        // Fails only if the thread has already ended.
        let _ = self.stop_sender.send(());
        let deadline = Instant::now() + patience;
        loop {
            match self
                .samples
                .recv_timeout(deadline.saturating_duration_since(Instant::now()))
            {
                Ok(sample) => {
                    if !self.write(sample) {
                        return;
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {
                    stop_instances();
                    let sec = patience.as_secs();
                    let sentence = format!(
                        "{UNMEASURED} in the last sample: the sampling thread, which has the lowest priority, got too little CPU \
                         within {sec} s after the end of the run"
                    );
                    return warn_unmeasured(unmeasured, sentence);
                }
            }
        }
    }
}

fn warn_ended(why: &dyn std::fmt::Display) {
    console::warning(&format!("tracing ended, the run continues: {why}"));
}

struct TraceSampler {
    positions: Vec<BlockPosition>,
    thresholds_ns: Vec<u64>,
    length: Duration,
    began: Instant,
    stop_receiver: Receiver<()>,
    sample_sender: Sender<Result<Vec<TraceLine>, String>>,
}

impl TraceSampler {
    /// Samples until stopped. Errors: the reason for an earlier end.
    fn run(&self, first_after: Duration) -> Result<(), TraceError> {
        let mut next = self.began + first_after;
        let mut events = Vec::new();
        while !self.pause(next.saturating_duration_since(Instant::now())) {
            let at_sec = self.began.elapsed().as_secs_f64();
            let trace_sample = self.take(&mut events)?;
            let lines = lines(&trace_sample, at_sec, &self.positions, &self.thresholds_ns);
            if self.sample_sender.send(Ok(lines)).is_err() {
                return Ok(());
            }
            // Samples that were missed, as on a machine that slept, are skipped.
            while next <= Instant::now() {
                next += PERIOD;
            }
        }
        Ok(())
    }

    /// Waits for `pause`; true if the run is over.
    fn pause(&self, pause: Duration) -> bool {
        self.stop_receiver.recv_timeout(pause) != Err(RecvTimeoutError::Timeout)
    }

    /// Takes a sample, which ends early if the run is over. `events`: buffer, reused by all samples.
    fn take(&self, events: &mut Vec<TraceEvent>) -> Result<TraceSample, TraceError> {
        events.clear();
        let mut trace = start(&self.positions, SAMPLED)?;
        let begin_ns = monotonic_ns();
        let mut end_ns = begin_ns + self.length.as_nanos() as u64;
        let mut is_stopped = false;
        while monotonic_ns() < end_ns && !is_stopped {
            is_stopped = self.pause(READ_EVERY);
            read(&mut trace, &self.positions, events)?;
            if is_stopped || events.len() > EVENTS_MAX {
                end_ns = end_ns.min(monotonic_ns());
            }
        }
        let mut pairing = Pairing::default();
        for tail in TAIL {
            let tail_end_ns = monotonic_ns() + tail.as_nanos() as u64;
            while monotonic_ns() < tail_end_ns && !is_stopped && events.len() <= 2 * EVENTS_MAX {
                is_stopped = self.pause(READ_EVERY);
                read(&mut trace, &self.positions, events)?;
            }
            sort_by_time(events);
            pairing = Pairing::default();
            events.iter().for_each(|event| pairing.add(event));
            if is_stopped || pairing.under_way(end_ns) == 0 {
                break;
            }
        }
        let lost = trace.stop()?.events();
        let requests = pairing
            .drain()
            .filter(|request| is_whole(request, begin_ns..end_ns))
            .collect();
        Ok(TraceSample {
            length: Duration::from_nanos(end_ns - begin_ns),
            requests,
            lost,
        })
    }
}

/// Interval at which the kernel's buffers are emptied during a sample.
const READ_EVERY: Duration = Duration::from_millis(10);
/// Pauses for requests in flight at the end of a sample. Most samples need only the first pause.
const TAIL: [Duration; 2] = [Duration::from_millis(50), Duration::from_millis(450)];

/// A sample ends after this many events: about half a second at 60x. Bounds the cost of a sample.
const EVENTS_MAX: usize = 250_000;
/// Kernel buffers of all CPUs together, bytes, emptied every 10 ms; a hundredth of this is enough for most runs.
const BUFFER_BYTES: u64 = 16 << 20;

const SAMPLED: TraceOptions = TraceOptions {
    buffer_bytes: BUFFER_BYTES,
    cpu_buffer_bytes: u64::MAX,
    complete: true,
    queue: true,
    bios_done: false,
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockPosition {
    /// Index among the devices: in the manifest, or in the order that the user gave.
    pub index: usize,
    /// Number of the device, possibly of a partition, as in a `struct bio`.
    pub device_number: DeviceNumber,
    /// Number of the disk, as in requests.
    pub disk: DeviceNumber,
    pub sectors: Range<u64>,
}

impl BlockPosition {
    /// Position of the device of `facts`; `None` without a device number, as for a file.
    pub fn for_device(index: usize, facts: &DeviceFacts) -> Option<Self> {
        let device_number = facts.number?;
        let Some(Partition {
            start_bytes,
            disk_number,
            ..
        }) = &facts.partition
        else {
            return Some(Self {
                index,
                device_number,
                disk: device_number,
                sectors: 0..u64::MAX,
            });
        };
        let first_sector = start_bytes / SECTOR_BYTES;
        let sectors = first_sector..first_sector + facts.size_bytes / SECTOR_BYTES;
        Some(Self {
            index,
            device_number,
            disk: *disk_number,
            sectors,
        })
    }
}

#[derive(Debug, Default)]
struct TraceSample {
    length: Duration,
    /// Requests that were queued during the sample and have completed.
    requests: Vec<BlockRequest>,
    lost: u64,
}

/// True if all three times of a request are known, the request was queued `within` the sample, and it moves data.
fn is_whole(request: &BlockRequest, within: Range<u64>) -> bool {
    let moves_data = matches!(request.op, EventOp::Read | EventOp::Write) && request.sectors > 0;
    moves_data
        && request.device_ns.is_some()
        && request.queued_ns.is_some_and(|ns| within.contains(&ns))
}

pub fn start(positions: &[BlockPosition], options: TraceOptions) -> Result<BlockTrace, TraceError> {
    let mut numbers: Vec<DeviceNumber> = positions
        .iter()
        .flat_map(|position| [position.device_number, position.disk])
        .collect();
    numbers.sort_unstable();
    numbers.dedup();
    BlockTrace::start(&numbers, options)
}

/// Reads all available events. A bio of a partition gets the number of the disk, as in its request.
pub fn read(
    trace: &mut BlockTrace,
    positions: &[BlockPosition],
    events: &mut Vec<TraceEvent>,
) -> Result<(), TraceError> {
    let read_result = trace.read(&mut |mut event| {
        if let Some(position) = positions
            .iter()
            .find(|position| position.device_number == event.device)
        {
            event.device = position.disk;
        }
        events.push(event);
    });
    read_result.map(drop)
}

/// Queue and device times of requests of one device, kind and size.
#[derive(Default)]
struct RequestTimes {
    queue_ns: Vec<u64>,
    device_ns: Vec<u64>,
    queue_over: Vec<u64>,
    device_over: Vec<u64>,
    total_over: Vec<u64>,
}

/// Lines of one sample that began `at_sec` into the run: a line for each device, kind and size. A disk may also have
/// requests outside the run's own sectors: these come from other programs and are left out.
fn lines(
    trace_sample: &TraceSample,
    at_sec: f64,
    positions: &[BlockPosition],
    thresholds_ns: &[u64],
) -> Vec<TraceLine> {
    let mut groups: BTreeMap<(usize, TraceKind, TraceSize), RequestTimes> = BTreeMap::new();
    for request in &trace_sample.requests {
        let position = positions.iter().find(|position| {
            position.disk == request.device && position.sectors.contains(&request.sector)
        });
        let Some(position) = position else {
            continue;
        };
        let kind = if request.op == EventOp::Read {
            TraceKind::Read
        } else {
            TraceKind::Write
        };
        let size = TraceSize::from_bytes(u64::from(request.sectors) * SECTOR_BYTES);
        groups
            .entry((position.index, kind, size))
            .or_default()
            .add(request, thresholds_ns);
    }
    groups
        .into_iter()
        .map(|((device, kind, size), mut times)| TraceLine {
            at_sec,
            length_ms: trace_sample.length.as_millis() as u64,
            device,
            kind,
            size,
            requests: times.queue_ns.len() as u64,
            lost: trace_sample.lost,
            queue: spread(&mut times.queue_ns),
            device_time: spread(&mut times.device_ns),
            queue_over: times.queue_over,
            device_over: times.device_over,
            total_over: times.total_over,
        })
        .collect()
}

impl RequestTimes {
    fn add(&mut self, request: &BlockRequest, thresholds_ns: &[u64]) {
        let queue_ns = request.queue_ns().unwrap_or(0);
        let device_ns = request.device_ns.unwrap_or(0);
        self.queue_ns.push(queue_ns);
        self.device_ns.push(device_ns);
        let counts = [
            &mut self.queue_over,
            &mut self.device_over,
            &mut self.total_over,
        ];
        for (over, ns) in counts
            .into_iter()
            .zip([queue_ns, device_ns, queue_ns + device_ns])
        {
            over.resize(thresholds_ns.len(), 0);
            // A time equal to the threshold counts as over the threshold, as everywhere in a run.
            over.iter_mut()
                .zip(thresholds_ns)
                .for_each(|(over, threshold)| *over += u64::from(ns >= *threshold));
        }
    }
}

/// Median, 99th percentile (nearest rank) and maximum.
fn spread(times_ns: &mut [u64]) -> TimeDistribution {
    times_ns.sort_unstable();
    let rank =
        |percent: usize| times_ns.get((times_ns.len() * percent).div_ceil(100).saturating_sub(1));
    let at = |percent| rank(percent).copied().unwrap_or(0);
    TimeDistribution {
        p50_ns: at(50),
        p99_ns: at(99),
        max_ns: at(100),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use device::discover::DeviceNumber;
    use results::assert_contains;
    use results::judge::Sla;
    use std::fs;
    use std::time::Duration;

    #[test]
    fn a_partition_is_traced_on_its_disk_and_a_bio_driver_is_refused() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("sys/dev/block/259:0/mq")).unwrap();
        let number = |minor| DeviceNumber { major: 259, minor };
        let partition = Partition {
            index: 2,
            start_bytes: 1 << 20,
            disk: "nvme0n1".to_owned(),
            disk_number: number(0),
        };
        let at = |number, partition: Option<&Partition>| {
            let facts = DeviceFacts {
                number,
                partition: partition.cloned(),
                size_bytes: 1 << 20,
                ..DeviceFacts::default()
            };
            position(1, &facts, root.path())
        };
        let expected = BlockPosition {
            index: 1,
            device_number: DeviceNumber::new(259, 2),
            disk: DeviceNumber::new(259, 0),
            sectors: 2_048..4_096,
        };
        assert_eq!(at(Some(number(2)), Some(&partition)), Ok(expected));
        let found = at(Some(number(0)), None).map(|position| position.sectors);
        assert_eq!(found, Ok(0..u64::MAX));
        assert!(at(Some(number(1)), None).unwrap_err().contains("bios"));
        assert!(at(None, None).unwrap_err().contains("file"));
    }

    #[test]
    fn samples_are_written_until_the_thread_ends_and_given_up_if_it_does_not() {
        let dir = tempfile::tempdir().unwrap();
        let taken = TraceSample {
            requests: vec![request(0, 8, EventOp::Read, 5, 50)],
            ..TraceSample::default()
        };
        let sample = || Ok(lines(&taken, 1.0, &[position_of(0, 0..8)], &[]));
        let finish = |name: &str, ends: bool| {
            let dir = dir.path().join(name);
            fs::create_dir(&dir).unwrap();
            let writer = TraceWriter::create(&dir, &Sla::UNLIMITED.parse().unwrap()).unwrap();
            let (stop_sender, _stop_receiver) = channel();
            let (sample_sender, samples) = channel();
            sample_sender.send(sample()).unwrap();
            let thread = (!ends).then_some(sample_sender);
            let mut unmeasured = Vec::new();
            Tracing {
                writer,
                stop_sender,
                samples,
            }
            .finish(Duration::from_millis(10), &mut unmeasured);
            drop(thread);
            (
                unmeasured,
                fs::read_to_string(dir.join("trace.csv"))
                    .unwrap()
                    .lines()
                    .count(),
            )
        };
        assert_eq!(finish("ended", true), (Vec::new(), 2));
        let (unmeasured, lines) = finish("stuck", false);
        assert_contains!(unmeasured[0], "got too little CPU within 0 s");
        assert_eq!(lines, 2);
    }

    fn request(
        sector: u64,
        sectors: u32,
        op: EventOp,
        queue_ns: u64,
        device_ns: u64,
    ) -> BlockRequest {
        let device = DeviceNumber::new(8, 0);
        let queued_ns = Some(1_000);
        let issued_ns = Some(1_000 + queue_ns);
        let device_ns = Some(device_ns);
        BlockRequest {
            device,
            sector,
            sectors,
            op,
            queued_ns,
            issued_ns,
            device_ns,
            ..BlockRequest::default()
        }
    }

    fn position_of(index: usize, sectors: std::ops::Range<u64>) -> BlockPosition {
        let device_number = DeviceNumber::new(8, 1 + index as u32);
        let disk = DeviceNumber::new(8, 0);
        BlockPosition {
            index,
            device_number,
            disk,
            sectors,
        }
    }

    #[test]
    fn percentiles_are_those_of_the_sorted_times() {
        let mut times: Vec<u64> = (1..=200).rev().collect();
        assert_eq!(
            spread(&mut times),
            TimeDistribution {
                p50_ns: 100,
                p99_ns: 198,
                max_ns: 200
            }
        );
        let found = spread(&mut [7]);
        assert_eq!(
            found,
            TimeDistribution {
                p50_ns: 7,
                p99_ns: 7,
                max_ns: 7
            }
        );
        assert_eq!(spread(&mut []), TimeDistribution::default());
    }

    #[test]
    fn requests_are_grouped_by_device_kind_and_size() {
        let requests = vec![
            request(10, 127, EventOp::Read, 5, 50),
            request(20, 128, EventOp::Read, 6, 60),
            request(30, 8, EventOp::Write, 7, 70),
            request(1_000, 8, EventOp::Read, 8, 80),
            request(9_000, 8, EventOp::Read, 9, 90),
        ];
        let taken = TraceSample {
            length: Duration::from_millis(250),
            requests,
            lost: 4,
        };
        let lines = lines(
            &taken,
            31.5,
            &[position_of(0, 0..1_000), position_of(1, 1_000..2_000)],
            &[100],
        );
        let seen: Vec<_> = lines
            .iter()
            .map(|line| {
                (
                    line.device,
                    line.kind,
                    line.size,
                    line.requests,
                    line.device_time.max_ns,
                )
            })
            .collect();
        let expected = [
            (0, TraceKind::Read, TraceSize::Small, 1, 50),
            (0, TraceKind::Read, TraceSize::Large, 1, 60),
            (0, TraceKind::Write, TraceSize::Small, 1, 70),
            (1, TraceKind::Read, TraceSize::Small, 1, 80),
        ];
        assert_eq!(
            seen, expected,
            "and what lies on no device of the run is left out"
        );
        assert!(
            lines
                .iter()
                .all(|line| (line.at_sec, line.length_ms, line.lost) == (31.5, 250, 4))
        );
    }

    #[test]
    fn a_time_at_the_threshold_counts_as_over_it() {
        let requests = vec![
            request(0, 8, EventOp::Read, 600, 500),
            request(0, 8, EventOp::Read, 1_000, 10),
            request(0, 8, EventOp::Read, 10, 9_000),
            request(0, 8, EventOp::Read, 10, 10),
        ];
        let taken = TraceSample {
            requests,
            ..TraceSample::default()
        };
        let lines = lines(&taken, 0.0, &[position_of(0, 0..8)], &[1_000, 8_000]);
        assert_eq!(lines[0].queue_over, [1, 0]);
        assert_eq!(lines[0].device_over, [1, 1]);
        assert_eq!(lines[0].total_over, [3, 1]);
    }
}
