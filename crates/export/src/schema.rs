//! The tables of an export and their columns. docs/data.md is generated from this file:
//! `UPDATE_DOCS=1 cargo test -p flashproof-export --test export docs`.

use crate::table::{ColumnSchema, ColumnValues, FieldRow, FieldValue, TableSchema, UnixMs, tables};

/// Table version in the files' metadata. Raised when a column is removed or changes its meaning, not when one is added.
pub const SCHEMA_VERSION: u32 = 2;

/// Macro of percentiles over rows of histograms. The macro chooses the same bucket as flashproof's reports: the lowest
/// bucket for which this bucket and all below have at least the fraction `q` of all operations.
pub const PERCENTILE_SQL: &str = "\
CREATE OR REPLACE MACRO percentile_ns(upper_ns, n, q) AS
  list_reduce(
    list({upper_ns: upper_ns, n: n} ORDER BY upper_ns),
    lambda below, bucket: CASE
      WHEN below.n >= greatest(1, ceil(q * sum(n))) THEN below
      ELSE {upper_ns: bucket.upper_ns, n: below.n + bucket.n}
    END
  ).upper_ns;
";

tables! {
    /// A row for each run. The outcome is computed again from the recorded counts, as in `flashproof report`.
    pub(crate) RunRow = "runs" {
        /// Identity of the run: the beginning of the SHA-256 of its `manifest.json`, which does not depend on the path
        run_id: &'a str,
        /// Series that the run is part of; NULL if none
        series_id: Option<&'a str>,
        /// Path of the directory, beginning with the name of the exported DIR
        path: &'a str,
        /// Program and version that recorded the run
        tool: &'a str,
        /// Start time of the run
        started_at: UnixMs,
        /// Kind of load: `storage`, `index`, `fio`...; several kinds are joined by `+`
        test: &'a str,
        /// Purpose within a series: `stage 1`, `30x`
        purpose: Option<&'a str>,
        /// The user's note (`--note`)
        note: Option<&'a str>,
        /// Load of the run as a multiple of 1x
        load_x: Option<f64>,
        /// Limits of the run: `5%>1ms,1%>8ms,0.1%>64ms`
        sla: &'a str,
        /// True for simulated drives
        simulated: bool,
        /// I/O engine
        engine: Option<&'a str>,
        /// Number of devices
        devices: u64,
        /// Planned length
        duration_sec: u64,
        /// Actual length
        ran_sec: f64,
        /// Length of a report interval
        report_interval_sec: u64,
        /// Length of a slice of the verdict
        slice_sec: u64,
        /// Number of report intervals that were recorded completely
        intervals: u64,
        /// `pass`, `fail`, `invalid` or `measured`
        outcome: &'a str,
        /// Code of the first reason ([verdict.md](verdict.md)); all reasons are in `reasons`
        reason_code: Option<&'a str>,
        /// The first reason, one sentence
        reason: &'a str,
        /// `certification-load` for a full day on real devices, else `screening`
        class: &'a str,
        /// True if the run has its `verdict.json`; false for a run that was killed or is still running
        complete: bool,
        /// True if the run stopped before its planned end
        partial: bool,
        /// How the run ended: `completed`, `interrupted`, `unrecorded`...
        ended: &'a str,
        /// Stream of the deciding share: the share of the run with the largest ratio to its limit
        decided_stream: Option<&'a str>,
        /// Device of the deciding share; NULL: all devices together
        decided_device: Option<u64>,
        /// Slice of the deciding share, from 1
        decided_slice: Option<u64>,
        /// Threshold of the deciding share
        decided_threshold_ns: Option<u64>,
        /// The deciding share, from 0 to 1
        decided_share: Option<f64>,
        /// Limit of the deciding share. A share at or above its limit fails the run
        decided_share_max: Option<f64>,
        /// Damage found in the directory, as sentences joined by `; `. The other tables have only the rows before the
        /// damage
        damage: Option<&'a str>,
    }

    /// A row for each reason of a verdict, the most important reason first.
    pub(crate) ReasonRow = "reasons" {
        /// Run
        run_id: &'a str,
        /// Order, from 1
        rank: u64,
        /// Code ([verdict.md](verdict.md))
        code: &'a str,
        /// A sentence
        reason: &'a str,
    }

    /// A row for each finding of `flashproof doctor` before a run.
    pub(crate) FindingRow = "findings" {
        /// Run
        run_id: &'a str,
        /// Name of the check, such as `io-scheduler`
        check_name: &'a str,
        /// `ok`, `note`, `unknown`, `warning` or `problem`
        level: &'a str,
        /// Device; NULL for the host
        device: Option<u64>,
        /// Serial number of the drive
        serial: Option<&'a str>,
        /// Finding, one sentence
        finding: &'a str,
        /// Effect on a result
        reason: &'a str,
        /// Remedy
        remedy: &'a str,
    }

    /// A row for each drive and step of a campaign (`flashproof fleet`), even if nothing was run.
    pub TaskRow = "tasks" {
        /// Name of the campaign
        campaign: &'a str,
        /// Number of the drive's task, from 0
        task: u64,
        /// Step of the campaign
        step: &'a str,
        /// Directory of the results. The paths in `runs` and `series` begin with this directory
        path: &'a str,
        /// Host on which the step ran last; NULL if the step did not begin
        hostname: Option<&'a str>,
        /// Identifier of the drive: its serial number, world-wide name or path
        drive: &'a str,
        /// Model of the drive in the inventory
        model: Option<&'a str>,
        /// Serial number, as in `drives`
        serial: Option<&'a str>,
        /// Firmware of the drive in the inventory
        firmware: Option<&'a str>,
        /// Slot of the drive, or its PCI address
        slot: Option<&'a str>,
        /// `pass`, `fail`, `invalid`, `measured`, `done`, `failed`, `refused` (could not run), `skipped` (after a bad step), `lost`, `stopped`,
        /// `waiting`, `queued`, `running` or `unknown`
        state: &'a str,
        /// Conclusion of the step, or the reason why it did not run; one sentence
        note: &'a str,
        /// Number of starts
        attempts: u64,
    }

    /// A row for each series (`certify`, `rate`, `baseline`). The conclusion is computed again from the runs.
    pub(crate) SeriesRow = "series" {
        /// Identity of the series, computed from its purpose, start time and devices
        series_id: &'a str,
        /// Path of the directory, beginning with the name of the exported DIR
        path: &'a str,
        /// Program and version
        tool: &'a str,
        /// `certify`, `rate` or `baseline`
        purpose: &'a str,
        /// Start time of the series
        began_at: UnixMs,
        /// `pass`, `fail` or `invalid`; NULL until the series ends
        outcome: Option<&'a str>,
        /// Conclusion, one sentence
        conclusion: Option<&'a str>,
        /// Rating as a multiple of 1x; NULL if no rating was found, or if the runs do not confirm it
        rating_x: Option<f64>,
        /// True if the result may be compared with published ratings
        comparable: Option<bool>,
        /// Differences between `series.json` and the runs, joined by `; `; NULL if there are none
        doubts: Option<&'a str>,
        /// The user's note (`--note`)
        note: Option<&'a str>,
    }

    /// A row for each step of a series: a stage of a certification, a load of a search, a job of a baseline.
    pub(crate) StepRow = "steps" {
        /// Series
        series_id: &'a str,
        /// Order, from 1
        step: u64,
        /// Name: `stage 1`, `30x`
        name: &'a str,
        /// Run of the step; NULL if there is no readable run
        run_id: Option<&'a str>,
        /// Load as a multiple of 1x
        load_x: f64,
        /// `planned`, `running`, `done` or `interrupted`
        state: &'a str,
        /// Outcome, computed again from the run; NULL until the step is done
        outcome: Option<&'a str>,
        /// Reason, one sentence
        reason: &'a str,
        /// Number of attempts
        attempts: u64,
    }

    /// A row for each run: the machine of the run.
    pub(crate) HostRow = "hosts" {
        /// Run
        run_id: &'a str,
        /// Host name
        hostname: Option<&'a str>,
        /// Kernel release
        kernel_release: Option<&'a str>,
        /// Distribution
        distribution: Option<&'a str>,
        /// CPU model
        cpu_model: Option<&'a str>,
        /// CPUs that are online
        online_cpus: Option<u64>,
        /// NUMA nodes
        numa_nodes: Option<u64>,
        /// Memory
        memory_total_bytes: Option<u64>,
        /// CPU frequency governor
        cpu_governor: Option<&'a str>,
        /// Hypervisor
        hypervisor: Option<&'a str>,
    }

    /// A row for each run and device.
    pub(crate) DriveRow = "drives" {
        /// Run
        run_id: &'a str,
        /// Number of the device in the run, from 0
        device: u64,
        /// Name as the user wrote it
        name: &'a str,
        /// Serial number; without one the world-wide name, else the path. For a simulated drive its name
        serial: Option<&'a str>,
        /// World-wide name
        wwid: Option<&'a str>,
        /// Model
        model: Option<&'a str>,
        /// Firmware
        firmware: Option<&'a str>,
        /// Size
        size_bytes: Option<u64>,
        /// Size of the range that the operations use
        used_bytes: Option<u64>,
        /// `whole_disk`, `partition`, `regular_file`, `simulated` or `namespace`
        device_kind: Option<&'a str>,
        /// Name in the kernel, such as `nvme0n1`
        kernel_name: Option<&'a str>,
        /// Attachment, such as `nvme-pcie` or `sata`
        transport: Option<&'a str>,
        /// NUMA node
        numa_node: Option<u64>,
        /// I/O scheduler
        scheduler: Option<&'a str>,
        /// Hardware queues
        hardware_queues: Option<u64>,
        /// Requests that one hardware queue can hold at once
        queue_requests_max: Option<u64>,
        /// Logical sector size
        logical_sector_bytes: Option<u64>,
        /// Physical sector size
        physical_sector_bytes: Option<u64>,
        /// `write back` or `write through`
        write_cache: Option<&'a str>,
    }

    /// A row for each run and stream, over all devices.
    pub(crate) StreamRow = "streams" {
        /// Run
        run_id: &'a str,
        /// Stream
        stream: &'a str,
        /// `read` or `write`; NULL for other operations
        direction: Option<&'a str>,
        /// True if the verdict judges the stream
        judged: bool,
        /// Scheduled operations per second; 0 for a closed loop
        offered_iops: f64,
        /// Successful operations per second
        achieved_iops: f64,
        /// Operations that succeeded
        ops: u64,
        /// Bytes transferred
        bytes: u64,
        /// Operations that failed
        errors: u64,
        /// Operations that were due, but never issued
        unissued: u64,
        /// Operations that were issued, but never completed
        lost: u64,
    }

    /// A row for each judged stream, device, slice and threshold: the numbers behind the verdict.
    pub(crate) SliceRow = "slices" {
        /// Run
        run_id: &'a str,
        /// Stream
        stream: &'a str,
        /// Device; NULL for all devices together
        device: Option<u64>,
        /// Serial number of the drive
        serial: Option<&'a str>,
        /// Slice, from 1
        slice: u64,
        /// True if the run lasted to the end of the slice
        complete: bool,
        /// Threshold
        threshold_ns: u64,
        /// Scheduled operations
        wanted: u64,
        /// Operations whose `wait + service` is over the threshold
        judged_over: u64,
        /// Operations whose `wait + lag + service` is over the threshold
        response_over: u64,
        /// `judged_over / wanted`; NULL if `wanted` is 0
        judged_share: Option<f64>,
        /// Limit of `judged_share`. A share at or above its limit fails the run. NULL if the stream has no limit at the
        /// threshold
        share_max: Option<f64>,
        /// True for the deciding share of the run
        decided: bool,
    }

    /// A row for each report interval, stream and device with operations. Counts of operations scheduled in an earlier
    /// slice are included.
    pub(crate) IntervalRow = "intervals" {
        /// Run
        run_id: &'a str,
        /// Stream
        stream: &'a str,
        /// Device
        device: u64,
        /// Serial number of the drive
        serial: Option<&'a str>,
        /// End of the interval, seconds since the start of the run
        after_sec: u64,
        /// Operations that succeeded
        ops: u64,
        /// Bytes transferred
        bytes: u64,
        /// Operations that failed
        errors: u64,
        /// Operations among `ops` that completed after the end of the run or of their stream
        overtime: u64,
        /// Operations that were due, but never issued
        unissued: u64,
        /// Operations that were issued, but never completed
        lost: u64,
        /// Operations not completed within 1 s after the end of their slice or stream; includes `lost` and `unissued`
        missed: u64,
        /// At the end of the interval: operations issued, but not completed
        in_flight: u64,
        /// At the end of the interval: operations that are due and wait for a slot of the in-flight limit
        waiting: u64,
        /// At the end of the interval: operations that are due and delayed by flashproof itself
        late: u64,
        /// Longest `wait + service` of an operation; 0 if no operation took longer than the stream's `late_ns`
        /// ([run-directory.md](run-directory.md#manifestjson))
        late_max_ns: u64,
    }

    /// For each row of `intervals`: a row for each threshold that the `wait + lag + service` of at least one operation
    /// reached.
    pub(crate) SlowRow = "slow" {
        /// Run
        run_id: &'a str,
        /// Stream
        stream: &'a str,
        /// Device
        device: u64,
        /// Serial number of the drive
        serial: Option<&'a str>,
        /// End of the interval, seconds since the start of the run
        after_sec: u64,
        /// Threshold
        threshold_ns: u64,
        /// Operations whose `wait + service` is over the threshold
        judged_over: u64,
        /// Lower bound of `judged_over` ([run-directory.md](run-directory.md#lower-bounds))
        judged_least_over: u64,
        /// Operations whose `wait + lag + service` is over the threshold
        response_over: u64,
        /// Operations whose `service` is over the threshold
        service_over: u64,
        /// Sum of `wait` of the successful operations in `response_over`
        wait_ns: u64,
        /// Sum of `lag` of the successful operations in `response_over`
        lag_ns: u64,
        /// Sum of `service` of the successful operations in `response_over`
        service_ns: u64,
    }

    /// A row for each measured value. A value that could not be measured has no row.
    pub(crate) TelemetryRow = "telemetry" {
        /// Run
        run_id: &'a str,
        /// Measured object: the kernel's name of a device, `host`, `process`, `thread.NAME`, or `run` for flashproof's
        /// counters
        object: &'a str,
        /// Device; NULL if the object is not a device
        device: Option<u64>,
        /// Serial number of the drive
        serial: Option<&'a str>,
        /// Metric. [telemetry.md](telemetry.md) has the units. For the object `run`: a column of `telemetry.csv`, such
        /// as `cpu_ns` ([run-directory.md](run-directory.md#telemetrycsv))
        metric: &'a str,
        /// End of the interval, seconds since the start of the run
        after_sec: &'a [u64],
        /// Value
        value: &'a [f64],
    }

    /// A row for each non-empty bucket of a latency histogram. A histogram covers one
    /// window of the interval logs.
    pub(crate) HistogramRow = "histograms" {
        /// Run
        run_id: &'a str,
        /// Stream
        stream: &'a str,
        /// `read` or `write`; NULL for other operations
        direction: Option<&'a str>,
        /// Device
        device: u64,
        /// Serial number of the drive
        serial: Option<&'a str>,
        /// `service`, `wait` or `lag`
        kind: &'a str,
        /// Start of the window, seconds since the start of the run
        from_sec: f64,
        /// Length of the window
        length_sec: f64,
        /// Largest duration of the bucket
        upper_ns: &'a [u64],
        /// Operations
        count: &'a [u64],
    }

    /// A row for each trace sample, device, kind and size. Without traces of the kernel the table is empty.
    pub(crate) TraceRow = "trace" {
        /// Run
        run_id: &'a str,
        /// Device
        device: u64,
        /// Serial number of the drive
        serial: Option<&'a str>,
        /// Start of the sample, seconds since the start of the run
        at_sec: f64,
        /// Length of the sample
        length_ms: u64,
        /// `read` or `write`
        kind: &'a str,
        /// `small`: below 64 KiB; `large`: 64 KiB and more
        size: &'a str,
        /// Requests that completed
        requests: u64,
        /// Median of the time in the kernel
        queue_p50_ns: u64,
        /// 99th percentile of the time in the kernel
        queue_p99_ns: u64,
        /// Longest time in the kernel
        queue_max_ns: u64,
        /// Median of the time in the device
        device_p50_ns: u64,
        /// 99th percentile of the time in the device
        device_p99_ns: u64,
        /// Longest time in the device
        device_max_ns: u64,
    }
}
