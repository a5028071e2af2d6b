//! Reads the kernel's block tracepoints: the requests that reached the device, and their times.
//!
//! ```text
//! Trace -> Instance (own buffers, filter by device in the kernel, clock = CLOCK_MONOTONIC)
//!   per CPU: trace_pipe_raw -> page -> record -> RecordDecoder -> TraceEvent
//! ```
//!
//! The trace is independent of the run loop: the kernel takes the times. Lost events are counted and reported. Tracing
//! needs root. [`Pairing`] combines events into requests.

mod event;
mod page;
mod pair;
mod text;
mod tracefs;

pub use event::{EventKind, EventOp, Flags, TraceEvent, TracedTask, sort_by_time};
pub use pair::{BlockRequest, Pairing};
pub use text::{LOST_COMMENT, TextError, TraceText};
pub use tracefs::{TraceError, stop_instances};

use crate::discover::DeviceNumber;
use event::{RecordDecoder, kernel_dev};
use page::PageLayout;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use tracefs::{FormatError, Instance, Tracefs};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceOptions {
    /// Total memory of the buffers of all CPUs, bytes. An issue and a completion take about 140 bytes.
    pub buffer_bytes: u64,
    /// Maximum buffer of one CPU, bytes. On hosts with few CPUs, this limit keeps the total below `buffer_bytes`.
    pub cpu_buffer_bytes: u64,
    pub complete: bool,
    /// True to also record when bios enter the block layer (queue time before the issue) or end with an error.
    pub queue: bool,
    /// True to also record the end of successful bios (needs `queue`): the only completions on devices without
    /// requests.
    pub bios_done: bool,
}

impl Default for TraceOptions {
    /// Records issues and completions. 64 MiB hold about two seconds at 200,000 requests per second.
    fn default() -> Self {
        Self {
            buffer_bytes: 64 << 20,
            cpu_buffer_bytes: u64::MAX,
            complete: true,
            queue: false,
            bios_done: false,
        }
    }
}

/// Events of all CPUs that were lost since the start of the trace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lost {
    /// Events overwritten by newer events before they were read.
    pub overwritten: u64,
    /// Events not recorded, because the buffer was full or in use by the writer.
    pub dropped: u64,
    /// Number of positions at which events are missing. The events themselves are counted in the other fields.
    pub gaps: u64,
}

impl Lost {
    pub fn events(&self) -> u64 {
        self.overwritten + self.dropped
    }

    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// A running trace. Dropping this value removes the trace from the kernel.
#[derive(Debug)]
pub struct BlockTrace {
    // Before `instance`: fields are dropped in this order, and the kernel removes only instances without open files.
    cpus: Vec<CpuBuffer>,
    instance: Instance,
    layout: PageLayout,
    decoder: RecordDecoder,
    page: Vec<u8>,
    pages_max: u64,
    gaps: u64,
}

/// True if the driver of the disk uses requests, which have issue and completion events. For drivers that handle bios
/// directly (zram, device-mapper, md, multipath NVMe), only the events of bios can be traced.
///
/// `root` is `/` except in tests. Source: the kernel creates `mq` for every disk with a request queue
/// (`block/blk-mq-sysfs.c`).
pub fn has_requests(root: &Path, number: DeviceNumber) -> bool {
    root.join(format!("sys/dev/block/{number}/mq")).is_dir()
}

#[derive(Debug)]
struct CpuBuffer {
    cpu: u32,
    pipe: File,
}

impl BlockTrace {
    /// Traces whole disks: a partition's requests carry its disk's number. Errors: [`TraceError::NotPermitted`] without
    /// root; [`TraceError::NoTracefs`] and [`TraceError::NoEvent`] without support in the kernel.
    pub fn start(devices: &[DeviceNumber], options: TraceOptions) -> Result<Self, TraceError> {
        if devices.is_empty() {
            return Err(TraceError::NoDevice);
        }
        let instance = Instance::create(Tracefs::find()?)?;
        instance.set("pausing the trace", "tracing_on", "0")?;
        instance.set("setting the trace clock", "trace_clock", "mono")?;
        let mut cpus = cpu_buffers(&instance)?;
        cpus.sort_by_key(|buffer| buffer.cpu);
        let shared_bytes = options.buffer_bytes / cpus.len().max(1) as u64;
        let buffer_kib = (shared_bytes.min(options.cpu_buffer_bytes) / 1024).max(1);
        instance.set(
            "sizing the trace buffer",
            "buffer_size_kb",
            &buffer_kib.to_string(),
        )?;
        let decoder = enable_events(&instance, devices, options)?;
        let header_page = "events/header_page";
        let layout = PageLayout::parse(&instance.get("reading the page format", header_page)?)
            .map_err(|error| format_error(&instance, header_page, &error))?;
        instance.set("starting the trace", "tracing_on", "1")?;
        let page_bytes = layout.page_bytes();
        let pages_max = buffer_kib * 1024 / page_bytes as u64 + 2;
        Ok(Self {
            cpus,
            instance,
            layout,
            decoder,
            page: vec![0; page_bytes],
            pages_max,
            gaps: 0,
        })
    }

    /// Reads the events recorded so far, without waiting; returns their number.
    ///
    /// Events come one CPU after the other, in time order for each CPU; [`sort_by_time`] merges them. A call reads at
    /// most one buffer per CPU, so a busy device cannot block the caller.
    pub fn read(&mut self, sink: &mut dyn FnMut(TraceEvent)) -> Result<u64, TraceError> {
        let Self {
            cpus,
            layout,
            decoder,
            page,
            pages_max,
            gaps,
            ..
        } = self;
        let mut events = 0;
        for CpuBuffer { cpu, pipe } in cpus {
            for _ in 0..*pages_max {
                let Some(bytes) = read_page(pipe, page).map_err(|source| TraceError::Io {
                    doing: "reading the buffer",
                    path: format!("per_cpu/cpu{cpu}/trace_pipe_raw").into(),
                    source,
                })?
                else {
                    break;
                };
                let mut has_short_record = false;
                let gap = layout.records(&page[..bytes], |time_ns, record| {
                    match decoder.decode(time_ns, *cpu, record) {
                        Ok(Some(event)) => {
                            events += 1;
                            sink(event);
                        }
                        Ok(None) => {}
                        Err(event::ShortRecord) => has_short_record = true,
                    }
                });
                let gap = gap.map_err(|at_byte| TraceError::Page { cpu: *cpu, at_byte })?;
                if has_short_record {
                    return Err(TraceError::Page {
                        cpu: *cpu,
                        at_byte: 0,
                    });
                }
                *gaps += u64::from(gap);
            }
        }
        Ok(events)
    }

    /// Stops recording. Read the remaining events before the last call of [`BlockTrace::lost`]: reads find the gaps.
    pub fn stop(&mut self) -> Result<Lost, TraceError> {
        self.instance.set("stopping the trace", "tracing_on", "0")?;
        self.lost()
    }

    pub fn lost(&self) -> Result<Lost, TraceError> {
        let mut lost = Lost {
            gaps: self.gaps,
            ..Lost::default()
        };
        for CpuBuffer { cpu, .. } in &self.cpus {
            let stats = self
                .instance
                .get("reading the statistics", &format!("per_cpu/cpu{cpu}/stats"))?;
            lost.overwritten += stat(&stats, "overrun");
            lost.dropped += stat(&stats, "dropped events") + stat(&stats, "commit overrun");
        }
        Ok(lost)
    }
}

/// Decodes a page of `trace_pipe_raw`. `header_page` and `formats` are the kernel's texts `events/header_page` and
/// `format` of each kind of event. Errors, as a sentence: a text lacks a field, or the page is inconsistent.
pub fn page_events(
    header_page: &str,
    formats: &[(EventKind, String)],
    page: &[u8],
) -> Result<Vec<TraceEvent>, String> {
    let layout = PageLayout::parse(header_page).map_err(|error| error.to_string())?;
    let decoder = RecordDecoder::new(formats).map_err(|error| error.to_string())?;
    let mut events = Vec::new();
    let read = layout.records(page, |time_ns, record| {
        events.extend(decoder.decode(time_ns, 0, record).ok().flatten())
    });
    read.map_err(|at_byte| format!("the page contradicts itself at byte {at_byte}"))?;
    Ok(events)
}

/// The value in the line `name: value`; 0 if the line is missing.
fn stat(stats: &str, name: &str) -> u64 {
    let value = stats
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    value
        .and_then(|value| value.trim().parse().ok())
        .unwrap_or(0)
}

fn cpu_buffers(instance: &Instance) -> Result<Vec<CpuBuffer>, TraceError> {
    let per_cpu = instance.path("per_cpu");
    let entries = std::fs::read_dir(&per_cpu);
    let entries =
        entries.map_err(|source| TraceError::from_io("listing the CPUs", &per_cpu, source))?;
    let mut buffers = Vec::new();
    for entry in entries {
        let entry =
            entry.map_err(|source| TraceError::from_io("listing the CPUs", &per_cpu, source))?;
        let name = entry.file_name();
        let Some(cpu) = name
            .to_str()
            .and_then(|name| name.strip_prefix("cpu")?.parse().ok())
        else {
            continue;
        };
        let path = entry.path().join("trace_pipe_raw");
        let pipe = File::options()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(&path);
        let pipe =
            pipe.map_err(|source| TraceError::from_io("opening the buffer", &path, source))?;
        buffers.push(CpuBuffer { cpu, pipe });
    }
    Ok(buffers)
}

/// Enables the events for these devices only, and reads the event formats.
fn enable_events(
    instance: &Instance,
    devices: &[DeviceNumber],
    options: TraceOptions,
) -> Result<RecordDecoder, TraceError> {
    let event_choices = [
        (EventKind::Issue, "block_rq_issue", true),
        (EventKind::Complete, "block_rq_complete", options.complete),
        (EventKind::Queue, "block_bio_queue", options.queue),
        (EventKind::Return, "block_bio_complete", options.queue),
        (EventKind::Requeue, "block_rq_requeue", options.complete),
    ];
    let filter: Vec<String> = devices
        .iter()
        .map(|device| format!("dev == {}", kernel_dev(*device)))
        .collect();
    let filter = filter.join(" || ");
    let mut formats = Vec::new();
    for (kind, event, _) in event_choices.into_iter().filter(|(_, _, on)| *on) {
        let directory = format!("events/block/{event}");
        if !instance.path(&directory).is_dir() {
            return Err(TraceError::NoEvent { event });
        }
        formats.push((
            kind,
            instance.get("reading the event format", &format!("{directory}/format"))?,
        ));
        let filter = match kind {
            EventKind::Return if !options.bios_done => format!("({filter}) && error != 0"),
            _ => filter.clone(),
        };
        instance.set(
            "filtering the events by device",
            &format!("{directory}/filter"),
            &filter,
        )?;
        instance.set("enabling the event", &format!("{directory}/enable"), "1")?;
    }
    RecordDecoder::new(&formats).map_err(|error| format_error(instance, "events/block", &error))
}

fn format_error(instance: &Instance, name: &str, error: &FormatError) -> TraceError {
    TraceError::Format {
        path: instance.path(name),
        reason: error.to_string(),
    }
}

fn read_page(pipe: &mut File, page: &mut [u8]) -> io::Result<Option<usize>> {
    loop {
        match pipe.read(page) {
            Ok(0) => return Ok(None),
            Ok(bytes) => return Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests;
