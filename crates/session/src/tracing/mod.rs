//! Samples of the block layer during a run: half a second in every thirty.
//!
//! ```text
//! plan -> Tracing (a thread behind all others) -> sample -> trace.csv
//! ```
//!
//! Continuous tracing would cost more than the run itself at high rates; periodic samples show where requests wait.
//! They do not disturb the run: the thread has the lowest priority, a sample ends early when it has enough requests,
//! and a failure ends the tracing and not the run.

mod sample;

use crate::console;
use crate::devices::Devices;
use device::discover::{DevNum, Partition};
use device::observe::trace::has_requests;
use results::run_dir::{Manifest, TraceWriter};
pub use sample::Place;
use sample::{Sample, lines};
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use sys::process;

/// From the start of the run to its first sample; at most a quarter of a short run.
const FIRST_AFTER: Duration = Duration::from_secs(1);
/// From the start of one sample to the start of the next.
const PERIOD: Duration = Duration::from_secs(30);
/// Length of a sample; at most a quarter of a short run.
const LENGTH: Duration = Duration::from_millis(500);

/// Measurement that is missing without samples.
const UNMEASURED: &str = "which part of a latency was the kernel's queue and which the device";

/// Devices that can be traced in a run.
#[derive(Debug)]
pub struct TracePlan {
    places: Vec<Place>,
}

/// The devices to trace; `None` if there are none, or tracing is not `wanted`.
///
/// Devices that cannot be traced are reported to the user and added to `unmeasured`; simulated drives are not
/// mentioned.
pub fn plan(devices: &Devices, wanted: bool, unmeasured: &mut Vec<String>) -> Option<TracePlan> {
    let facts = devices.real_facts();
    if facts.is_empty() {
        return None;
    }
    if !wanted {
        unmeasured.push(format!("{UNMEASURED}: --no-trace turned the samples off"));
        return None;
    }
    let mut places = Vec::new();
    for (index, (name, facts)) in facts.into_iter().enumerate() {
        match place(index, facts.number, facts.partition.as_ref(), facts.size_bytes, Path::new("/")) {
            Ok(place) => places.push(place),
            Err(why) => told(unmeasured, format!("{UNMEASURED}: {name} cannot be traced - {why}")),
        }
    }
    if places.is_empty() {
        return None;
    }
    // A trial, so that a run reports at its start what it cannot measure.
    match Sample::trial(&places) {
        Ok(()) => Some(TracePlan { places }),
        Err(error) => {
            told(unmeasured, format!("{UNMEASURED}: {error}"));
            None
        }
    }
}

/// Warns once, and adds the sentence to the manifest.
fn told(unmeasured: &mut Vec<String>, sentence: String) {
    console::warning_once(&format!("not measured: {sentence}"));
    unmeasured.push(sentence);
}

/// Position of a device of `size_bytes` in the block layer. Errors: the reason if it has none.
fn place(
    index: usize,
    number: Option<DevNum>,
    partition: Option<&Partition>,
    size_bytes: u64,
    root: &Path,
) -> Result<Place, &'static str> {
    let number = number.ok_or("it is a file, whose requests are those of its file system")?;
    let place = Place::of(index, (number.major, number.minor), partition, size_bytes);
    match has_requests(root, place.disk) {
        true => Ok(place),
        false => Err("its driver takes bios as they come and makes no requests of them"),
    }
}

/// The thread that takes samples. Dropping it ends it after the current sample is written.
#[derive(Debug)]
pub struct Tracing {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Tracing {
    /// Starts tracing of the run in `dir`; `None` after a warning if it cannot start.
    pub fn start(plan: TracePlan, dir: &Path, manifest: &Manifest) -> Option<Self> {
        let began = Instant::now();
        let ended = |why: &dyn std::fmt::Display| console::warning(&format!("tracing ended, the run continues: {why}"));
        let writer = TraceWriter::create(dir, &manifest.sla).inspect_err(|error| ended(error)).ok()?;
        let (stop, stopped) = channel();
        let quarter = Duration::from_secs(manifest.duration_sec) / 4;
        let mut sampling = Sampling {
            places: plan.places,
            thresholds_ns: manifest.sla.thresholds_ns().to_vec(),
            length: LENGTH.min(quarter),
            began,
            writer,
            stopped,
        };
        let run = move || {
            process::go_behind_others();
            if let Err(why) = sampling.run(FIRST_AFTER.min(quarter)) {
                console::warning(&format!("tracing ended, the run continues: {why}"));
            }
        };
        let thread =
            thread::Builder::new().name("trace".to_owned()).spawn(run).inspect_err(|error| ended(error)).ok()?;
        Some(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Tracing {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// State of the sampling thread.
struct Sampling {
    places: Vec<Place>,
    thresholds_ns: Vec<u64>,
    length: Duration,
    began: Instant,
    writer: TraceWriter,
    stopped: Receiver<()>,
}

impl Sampling {
    /// Samples until stopped. Errors: the reason for an earlier end.
    fn run(&mut self, first_after: Duration) -> Result<(), String> {
        let mut next = self.began + first_after;
        let mut sample = Sample::new(&self.places);
        while !self.pause(next.saturating_duration_since(Instant::now())) {
            let at_sec = self.began.elapsed().as_secs_f64();
            let taken = sample.take(self.length, |pause| self.pause(pause)).map_err(|error| error.to_string())?;
            let lines = lines(&taken, at_sec, &self.places, &self.thresholds_ns);
            self.writer.append(&lines).map_err(|error| error.to_string())?;
            // Samples that were missed, as on a machine that slept, are skipped.
            while next <= Instant::now() {
                next += PERIOD;
            }
        }
        Ok(())
    }

    /// Waits for `pause`; true if the run is over.
    fn pause(&self, pause: Duration) -> bool {
        self.stopped.recv_timeout(pause) != Err(RecvTimeoutError::Timeout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_partition_is_looked_for_on_its_disk_and_a_bio_driver_is_refused() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("sys/dev/block/259:0/mq")).unwrap();
        let number = |minor| DevNum { major: 259, minor };
        let partition =
            Partition { index: 2, start_bytes: 1 << 20, disk: "nvme0n1".to_owned(), disk_number: number(0) };
        let at = |number, partition| place(1, number, partition, 1 << 20, root.path());
        let expected = Place { index: 1, own: (259, 2), disk: (259, 0), sectors: 2_048..4_096 };
        assert_eq!(at(Some(number(2)), Some(&partition)), Ok(expected));
        assert_eq!(at(Some(number(0)), None).map(|place| place.sectors), Ok(0..u64::MAX));
        assert!(at(Some(number(1)), None).unwrap_err().contains("bios"));
        assert!(at(None, None).unwrap_err().contains("file"));
    }
}
