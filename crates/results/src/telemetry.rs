//! Telemetry of a run: the columns of telemetry.csv, and the lines of trace.csv.
//!
//! Each column of telemetry.csv is declared once, with source, name and unit. Writers (the samplers of kernel, drives,
//! host and process) and readers (charts, blame, status, comparison) use a [`Column`]; only this module contains the
//! names of the columns. docs/telemetry.md explains each column, and a test compares the page with the declarations.

use std::fmt;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnSource {
    /// The kernel's statistics of a device, and its hardware monitor.
    Disk,
    Interrupts,
    Smart,
    /// The OCP log page of an NVMe drive.
    Ocp,
    /// The FDP statistics of an NVMe drive's endurance group.
    Fdp,
    Host,
    Process,
    /// An issuing thread of this program.
    Thread,
    Simulated,
}

macro_rules! columns {
    ($($column:ident = $source:ident $name:literal $unit:literal,)*) => {
        /// A column of telemetry.csv; docs/telemetry.md explains each column.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Column {
            $($column,)*
        }

        impl Column {
            pub const ALL: &[Self] = &[$(Self::$column,)*];

            /// Name without the device, host or thread: `r/s`, `cpu_busy_pct`.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$column => $name,)* }
            }

            /// Unit as in docs/telemetry.md; empty for a number without a unit.
            pub const fn unit(self) -> &'static str {
                match self { $(Self::$column => $unit,)* }
            }

            pub const fn source(self) -> ColumnSource {
                match self { $(Self::$column => ColumnSource::$source,)* }
            }
        }
    };
}

columns! {
    ReadsPerSec = Disk "r/s" "1/s",
    WritesPerSec = Disk "w/s" "1/s",
    ReadKibPerSec = Disk "rkB/s" "1,024 bytes/s",
    WriteKibPerSec = Disk "wkB/s" "1,024 bytes/s",
    ReadAwaitMs = Disk "r_await" "ms",
    WriteAwaitMs = Disk "w_await" "ms",
    FlushesPerSec = Disk "f/s" "1/s",
    FlushAwaitMs = Disk "f_await" "ms",
    AverageQueue = Disk "aqu-sz" "requests",
    ReadRequestKib = Disk "rareq-sz" "1,024 bytes",
    WriteRequestKib = Disk "wareq-sz" "1,024 bytes",
    UtilPct = Disk "%util" "percent",
    InFlight = Disk "in_flight" "requests",
    Celsius = Disk "temperature_celsius" "°C",
    IrqCpu = Interrupts "irq.cpu_max" "",
    IrqCpuSharePct = Interrupts "irq.cpu_max_share_pct" "percent",
    IrqsPerSec = Interrupts "irq/s" "1/s",
    SmartPercentageUsed = Smart "smart.percentage_used" "percent",
    SmartCriticalWarning = Smart "smart.critical_warning" "bits",
    SmartUnitsWritten = Smart "smart.data_units_written" "512,000 bytes",
    SmartUnitsRead = Smart "smart.data_units_read" "512,000 bytes",
    SmartMediaErrors = Smart "smart.media_errors" "count",
    SmartCelsius = Smart "smart.temperature_celsius" "°C",
    SmartThrottleCount = Smart "smart.throttle_count" "count",
    SmartThrottleSec = Smart "smart.throttle_seconds" "s",
    OcpMediaBytesWritten = Ocp "ocp.physical_media_units_written_bytes" "bytes",
    FdpHostBytes = Fdp "fdp.hbmw_bytes" "bytes",
    FdpMediaBytes = Fdp "fdp.mbmw_bytes" "bytes",
    FdpErasedBytes = Fdp "fdp.mbe_bytes" "bytes",
    CpuBusyPct = Host "cpu_busy_pct" "percent",
    CpuIowaitPct = Host "cpu_iowait_pct" "percent",
    CpuStealPct = Host "cpu_steal_pct" "percent",
    ContextSwitchesPerSec = Host "context_switches/s" "1/s",
    HostInterruptsPerSec = Host "interrupts/s" "1/s",
    MemoryAvailableBytes = Host "memory_available_bytes" "bytes",
    Load1Min = Host "load_1min" "tasks",
    PsiIoSomePct = Host "psi_io_some_pct" "percent",
    PsiIoFullPct = Host "psi_io_full_pct" "percent",
    CpuBusiestPct = Host "cpu_busiest_pct" "percent",
    ProcessResidentBytes = Process "rss_bytes" "bytes",
    ProcessCpuPct = Process "cpu_pct" "percent",
    RunqueueWaitPct = Process "runqueue_wait_pct" "percent",
    RingWorkerRunsPerSec = Process "io_worker_runs/s" "1/s",
    ThreadCpuPct = Thread "cpu_pct" "percent",
    SimReads = Simulated "sim.host_reads" "operations",
    SimReadBytes = Simulated "sim.host_read_bytes" "bytes",
    SimWrites = Simulated "sim.host_writes" "operations",
    SimWriteBytes = Simulated "sim.host_write_bytes" "bytes",
    SimFlushes = Simulated "sim.host_flushes" "operations",
    SimDeallocates = Simulated "sim.host_deallocates" "operations",
    SimDeallocatedBytes = Simulated "sim.host_deallocated_bytes" "bytes",
    SimFailed = Simulated "sim.failed" "operations",
    SimHbmw = Simulated "sim.hbmw_bytes" "bytes",
    SimMbmw = Simulated "sim.mbmw_bytes" "bytes",
    SimMbe = Simulated "sim.mbe_bytes" "bytes",
    SimCollectionReadBytes = Simulated "sim.gc_read_bytes" "bytes",
    SimFreeSuperblocks = Simulated "sim.free_superblocks" "superblocks",
}

const HOST: &str = "host";
const PROCESS: &str = "process";
const THREAD: &str = "thread";

impl Column {
    pub const fn is_of_device(self) -> bool {
        !matches!(
            self.source(),
            ColumnSource::Host | ColumnSource::Process | ColumnSource::Thread
        )
    }

    /// The column of the object `of`: the kernel name of a device, or the name of a thread; empty for host and process.
    pub fn for_object(self, of: &str) -> ColumnOf {
        ColumnOf {
            column: self,
            owner: of.to_owned(),
        }
    }
}

/// A column of a run: the metric and the measured object. Its `Display` is the name in telemetry.csv: `nvme0n1.r/s`,
/// `host.cpu_busy_pct`, `thread.issue-0.cpu_pct`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnOf {
    pub column: Column,
    /// Kernel name of the device, spec of the simulated drive, or name of the thread; empty for host and process.
    pub owner: String,
}

impl ColumnOf {
    /// Parses the name of a column in telemetry.csv; `None` for a column unknown to this version.
    pub fn parse(name: &str) -> Option<Self> {
        if name.starts_with("sim:") {
            // The spec of a simulated drive can contain dots, too.
            return Column::ALL
                .iter()
                .filter(|column| column.source() == ColumnSource::Simulated)
                .find_map(|column: &Column| {
                    Some(column.for_object(name.strip_suffix(column.name())?.strip_suffix('.')?))
                });
        }
        let (first, rest) = name.split_once('.')?;
        match first {
            HOST => find_column(rest, |column| column.source() == ColumnSource::Host)
                .map(|column| column.for_object("")),
            PROCESS => find_column(rest, |column| column.source() == ColumnSource::Process)
                .map(|column| column.for_object("")),
            THREAD => {
                let (thread, rest) = rest.rsplit_once('.')?;
                find_column(rest, |column| column.source() == ColumnSource::Thread)
                    .map(|column| column.for_object(thread))
            }
            device => {
                find_column(rest, Column::is_of_device).map(|column| column.for_object(device))
            }
        }
    }
}

fn find_column(name: &str, is_requested: fn(Column) -> bool) -> Option<Column> {
    Column::ALL
        .iter()
        .copied()
        .find(|column| is_requested(*column) && column.name() == name)
}

impl fmt::Display for ColumnOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.column.name();
        match self.column.source() {
            ColumnSource::Host => write!(f, "{HOST}.{name}"),
            ColumnSource::Process => write!(f, "{PROCESS}.{name}"),
            ColumnSource::Thread => write!(f, "{THREAD}.{}.{name}", self.owner),
            _ => write!(f, "{}.{name}", self.owner),
        }
    }
}

/// Requests of this many bytes and more are large.
const LARGE_BYTES: u64 = 64 << 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TraceKind {
    Read,
    Write,
}

impl TraceKind {
    pub const ALL: [Self; 2] = [Self::Read, Self::Write];

    /// Name in trace.csv.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TraceSize {
    Small,
    Large,
}

impl TraceSize {
    pub const ALL: [Self; 2] = [Self::Small, Self::Large];

    pub fn from_bytes(bytes: u64) -> Self {
        if bytes < LARGE_BYTES {
            Self::Small
        } else {
            Self::Large
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Small => "small",
            Self::Large => "large",
        }
    }
}

/// Distribution of times, nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TimeDistribution {
    pub p50_ns: u64,
    pub p99_ns: u64,
    pub max_ns: u64,
}

/// Requests of one device, kind and size in one sample.
#[derive(Debug, Clone, PartialEq)]
pub struct TraceLine {
    /// Beginning of the sample, seconds since the run began.
    pub at_sec: f64,
    /// Length of the sample, milliseconds. Requests that were queued within the sample are counted.
    pub length_ms: u64,
    /// Index of the device, in the manifest's order.
    pub device: usize,
    pub kind: TraceKind,
    pub size: TraceSize,
    pub requests: u64,
    /// Events that the kernel lost in the whole sample, on all devices. If any were lost, the counts lack requests.
    pub lost: u64,
    /// Time in the kernel: from block_bio_queue to block_rq_issue.
    pub queue: TimeDistribution,
    /// Time in the device: from block_rq_issue to block_rq_complete.
    pub device_time: TimeDistribution,
    /// For each threshold of the SLA: requests whose time in the kernel reached the threshold.
    pub queue_over: Vec<u64>,
    /// For each threshold of the SLA: requests whose time in the device reached the threshold.
    pub device_over: Vec<u64>,
    /// For each threshold of the SLA: requests whose total time reached the threshold.
    pub total_over: Vec<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_column_name_parses_back_to_its_column() {
        for column in Column::ALL.iter().copied() {
            let of = match column.source() {
                ColumnSource::Host | ColumnSource::Process => "",
                ColumnSource::Thread => "issue-0",
                ColumnSource::Simulated => "sim:jitter-pct=0.5+read-us=80",
                _ => "nvme0n1",
            };
            let named = column.for_object(of);
            assert_eq!(ColumnOf::parse(&named.to_string()), Some(named));
        }
        let found = Column::SmartCelsius.for_object("nvme0n1").to_string();
        assert_eq!(found, "nvme0n1.smart.temperature_celsius");
        let found = Column::ThreadCpuPct.for_object("issue-3").to_string();
        assert_eq!(found, "thread.issue-3.cpu_pct");
        for other in [
            "",
            "r/s",
            "sda.",
            "sda.of_a_later_version",
            "host.r/s",
            "process.cpu_busy_pct",
            "thread.cpu_pct",
        ] {
            assert_eq!(ColumnOf::parse(other), None, "{other}");
        }
    }

    #[test]
    fn docs_telemetry_md_explains_every_column() {
        let docs = include_str!("../../../docs/telemetry.md");
        for column in Column::ALL {
            let rows = docs.lines().filter(|line| {
                line.starts_with("| `") && line.contains(&format!("{}`", column.name()))
            });
            let units: Vec<&str> = rows.filter_map(|line| line.split('|').nth(2)).collect();
            assert!(
                !units.is_empty(),
                "{} is not in docs/telemetry.md",
                column.name()
            );
            let unit = column.unit();
            assert!(
                units.iter().any(|units| units.contains(unit)),
                "{} in {unit}, not{units:?}",
                column.name()
            );
        }
    }
}
