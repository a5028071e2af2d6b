//! Run directories of fictitious drives, in the format that a run writes.

#![allow(dead_code, unreachable_pub)] // each test file and example is a crate that uses only a part of this module

use results::act_log::Test;
use results::cell::{Interval, Layout};
use results::finding::{Finding, Severity};
use results::judge::{End, Sla};
use results::run_dir::{ActLogHead, Manifest, RunWriter, WorkloadRecord};
use results::times::Times;
use serde_json::json;
use std::path::Path;

#[derive(Clone)]
pub struct Drive {
    pub serial: &'static str,
    pub model: &'static str,
    pub firmware: &'static str,
    /// Service time in microseconds, by second of the run and number of the operation in its interval.
    pub service_us: fn(u64, u64) -> u64,
    pub celsius: fn(u64) -> u64,
    /// Bytes written to the flash for each byte that the host writes.
    pub amplification: u64,
}

/// A drive that always takes 80 to 128 us and is never hot.
pub const SOUND: Drive = Drive {
    serial: "S00",
    model: "M1",
    firmware: "A1",
    service_us: |_, op| 80 + op % 49,
    celsius: |_| 45,
    amplification: 1,
};

pub struct Shape<'a> {
    pub host: &'a str,
    pub drives: &'a [Drive],
    pub intervals: u64,
    pub interval_sec: u64,
    pub slice_sec: u64,
    /// Operations per interval and device of each stream.
    pub ops: &'a [(&'static str, u64)],
    /// Lag in microseconds, with the same arguments as [`Drive::service_us`].
    pub lag_us: fn(u64, u64) -> u64,
    pub seed: u64,
    pub multiple: Option<f64>,
    pub purpose: Option<&'a str>,
    /// A run without an end was killed.
    pub end: Option<End>,
}

/// Ten minutes of a sound drive.
pub const SHORT: Shape<'_> = Shape {
    host: "h1",
    drives: &[SOUND],
    intervals: 60,
    interval_sec: 10,
    slice_sec: 300,
    ops: &[("reads", 100), ("writes", 50)],
    lag_us: |_, _| 4,
    seed: 1,
    multiple: None,
    purpose: None,
    end: Some(End::Completed),
};

impl Shape<'_> {
    fn layout(&self) -> Layout {
        let streams: Vec<_> = self.ops.iter().map(|(name, _)| (*name, true)).collect();
        let devices = (0..self.drives.len()).map(|device| format!("/dev/nvme{device}n1"));
        let mut layout = results::testing::layout(&streams, 0.0, devices);
        for (stream, (_, ops)) in layout.streams.iter_mut().zip(self.ops) {
            stream.offered_iops =
                (ops * self.drives.len() as u64) as f64 / self.interval_sec as f64;
        }
        layout
    }

    pub fn manifest(&self) -> Manifest {
        let devices = self.drives.iter().enumerate();
        let facts = devices.map(|(device, drive)| {
            json!({
                "kind": "whole_disk", "kernel_name": format!("nvme{device}n1"), "model": drive.model,
                "serial": drive.serial, "firmware": drive.firmware, "wwid": format!("eui.{}", drive.serial),
                "size_bytes": 960_197_124_096_u64, "numa_node": 0, "transport": "nvme-pcie",
            })
        });
        Manifest {
            tool: "flashproof 0.1.0".into(),
            command: vec!["flashproof".into(), "storage".into()],
            started_unix_ms: 1_795_271_232_147,
            seed: self.seed,
            duration_sec: self.intervals * self.interval_sec,
            report_interval_sec: self.interval_sec,
            slice_sec: self.slice_sec,
            round_sec: 0,
            device_facts: facts.collect(),
            host_facts: json!({"hostname": self.host, "kernel_release": "6.12", "online_cpus": 8}),
            engine_facts: json!({"engine": "io_uring"}),
            findings: vec![Finding {
                check: "io-scheduler".into(),
                level: Severity::Warning,
                device: Some("/dev/nvme0n1".into()),
                finding: "the scheduler of nvme0n1 is mq-deadline".into(),
                reason: "it reorders".into(),
                remedy: "echo none".into(),
            }],
            workloads: vec![WorkloadRecord {
                kind: "storage".into(),
                act_log: Some(ActLogHead {
                    test: Test::Storage,
                    device_lines: Vec::new(),
                }),
                ..WorkloadRecord::default()
            }],
            multiple: self.multiple,
            purpose: self.purpose.map(str::to_owned),
            ..Manifest::new(&self.layout(), Sla::default())
        }
    }

    fn columns(&self) -> Vec<String> {
        const OF_DEVICE: &str = "r/s w/s rkB/s wkB/s r_await w_await f/s f_await aqu-sz rareq-sz wareq-sz %util \
            in_flight irq.cpu_max irq.cpu_max_share_pct irq/s temperature_celsius smart.percentage_used \
            smart.data_units_written ocp.physical_media_units_written_bytes";
        const OF_HOST: &str = "host.cpu_busy_pct host.cpu_iowait_pct host.cpu_steal_pct host.context_switches/s \
            host.interrupts/s host.memory_available_bytes host.load_1min host.psi_io_some_pct host.psi_io_full_pct \
            process.rss_bytes process.cpu_pct process.runqueue_wait_pct thread.issue-0.cpu_pct";
        (0..self.drives.len())
            .flat_map(|device| {
                OF_DEVICE
                    .split(' ')
                    .map(move |name| format!("nvme{device}n1.{name}"))
            })
            .chain(OF_HOST.split(' ').map(str::to_owned))
            .collect()
    }

    /// Values of [`Self::columns`] that look like measured ones; the SMART log is read every 10 s.
    fn telemetry(&self, index: u64, after_sec: u64) -> Vec<String> {
        let noise = |column: u64, below: u64| {
            let mixed = (index * 4_096 + column)
                .wrapping_add(1)
                .wrapping_mul(0x9e37_79b9_7f4a_7c15);
            ((mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 33) % below
        };
        let mut values = Vec::new();
        for (device, drive) in (0..).zip(self.drives) {
            let noise = |column: u64, below| noise(1000 * device + column, below);
            values.extend([
                format!("{:.1}", 2000.0 + noise(0, 400) as f64 / 10.0),
                format!("{:.1}", 1000.0 + noise(1, 300) as f64 / 10.0),
                format!("{:.1}", 24_000.0 + noise(2, 4000) as f64 / 10.0),
                format!("{:.1}", 12_000.0 + noise(3, 3000) as f64 / 10.0),
                format!("{:.3}", 0.09 + noise(4, 20) as f64 / 1000.0),
                format!("{:.3}", 0.03 + noise(5, 10) as f64 / 1000.0),
                "0.0".into(),
                String::new(),
                format!("{:.3}", 0.3 + noise(6, 50) as f64 / 1000.0),
                "12.00".into(),
                "12.00".into(),
                format!("{:.1}", 30.0 + noise(7, 50) as f64 / 10.0),
                noise(8, 4).to_string(),
                "3".into(),
                "100.0".into(),
                (3000 + noise(9, 200)).to_string(),
                (drive.celsius)(after_sec).to_string(),
            ]);
            let read = after_sec.is_multiple_of(10);
            let units = after_sec * 24;
            let of_log = [
                "1".into(),
                units.to_string(),
                (units * 512_000 * drive.amplification).to_string(),
            ];
            values.extend(of_log.map(|value| if read { value } else { String::new() }));
        }
        values.extend((0..13).map(|column| match column {
            5 => (63_000_000_000 + 4096 * noise(50, 1000)).to_string(),
            9 => "61440000".into(),
            column => format!("{:.1}", noise(60 + column, 300) as f64 / 10.0),
        }));
        values
    }

    fn interval(&self, layout: &Layout, index: u64) -> Interval {
        let mut interval = Interval::new(layout);
        interval.index = index;
        interval.end_ns = (index + 1) * self.interval_sec * 1_000_000_000;
        let second = index * self.interval_sec;
        for (stream, (_, ops)) in self.ops.iter().enumerate() {
            for (device, drive) in self.drives.iter().enumerate() {
                let cell = &mut interval.cells[layout.cell(stream, device)];
                for op in 0..*ops {
                    let lag_ns = (self.lag_us)(second, op) * 1_000;
                    let service_ns = (drive.service_us)(second, op) * 1_000;
                    cell.record(&Times::new(0, 0, lag_ns, lag_ns + service_ns), 0, 4_096);
                }
            }
        }
        interval.close();
        interval
    }

    pub fn write(&self, dir: &Path) {
        let layout = self.layout();
        let manifest = self.manifest();
        let mut writer = RunWriter::create(dir, &manifest, &self.columns()).unwrap();
        let mut judge = manifest.judge();
        for index in 0..self.intervals {
            let interval = self.interval(&layout, index);
            judge.add(&interval);
            writer
                .write_interval(
                    &interval,
                    &self.telemetry(index, (index + 1) * self.interval_sec),
                )
                .unwrap();
        }
        if let Some(end) = &self.end {
            writer.finish(&judge.verdict(end)).unwrap();
        }
    }
}
