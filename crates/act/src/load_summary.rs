//! Meaning of a load: operations and bytes per second, bytes per day, drive writes per day.
//!
//! All numbers are computed from the derived rates alone, so they always match the load that runs. Doubles are used
//! only here, because these numbers are only printed. Properties that depend on the device (sector size) or on the run
//! (the tomb raider's speed) get a remark, not a guess.

use super::config::ActConfig;
use super::problem::ConfigProblem;
use super::rates::{Derived, IndexDerived, PAGE_BYTES, StorageDerived, derive};
use device::discover::Drive;
use load::choice::Arrival;
use load::rate::Rate;
use results::format::{self, Grouped};

/// Assumed smallest operation of a drive that cannot be queried, in bytes.
const SECTOR_BYTES: u32 = 512;
const SEC_PER_DAY: f64 = 86_400.0;

/// Operations of one stream, over all devices.
#[derive(Debug, Clone, PartialEq)]
pub struct StreamLoad {
    pub stream: &'static str,
    pub writes: bool,
    pub rate: Rate,
    /// Mean size of the operations on the device, in bytes.
    pub bytes_mean: f64,
}

/// Totals over all devices, per second and per day.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadSummary {
    /// The streams with a rate, reads first.
    pub flows: Vec<StreamLoad>,
    pub drives: Vec<Drive>,
    pub duration_sec: u32,
    /// Omissions and assumptions, a sentence each.
    pub remarks: Vec<String>,
}

impl LoadSummary {
    /// Errors: all errors of the configuration.
    pub fn from_config(config: &ActConfig, drives: &[Drive]) -> Result<Self, Vec<ConfigProblem>> {
        Ok(match derive(config)? {
            Derived::Storage(derived) => Self::of_storage(config, &derived, drives),
            Derived::Index(derived) => Self::of_index(config, &derived, drives),
        })
    }

    fn of_storage(config: &ActConfig, derived: &StorageDerived, drives: &[Drive]) -> Self {
        let records = |sizes, step_bytes| derived.record_io_bytes(sizes, step_bytes).0;
        let reads = mean_over_devices(drives, |step_bytes| {
            records(config.read_sizes(), step_bytes)
        });
        let commits = mean_over_devices(drives, |sector_bytes| {
            records(
                config.write_sizes(),
                sector_bytes.max(config.commit_min_bytes),
            )
        });
        let block_bytes = f64::from(derived.large_block_bytes);
        let flows = [
            ("record reads", false, derived.read_rate, reads),
            (
                "large-block reads",
                false,
                derived.large_block_read_rate,
                block_bytes,
            ),
            ("record writes", true, derived.commit_write_rate, commits),
            (
                "large-block writes",
                true,
                derived.large_block_write_rate,
                block_bytes,
            ),
        ];
        let mut summary =
            Self::of_flows(config, &flows, &["record reads", "record writes"], drives);
        if config.tomb_raider {
            let remark = "The tomb raider reads as fast as the devices and its pauses allow; its reads are not counted.";
            summary.remarks.push(remark.into());
        }
        if summary
            .flows
            .iter()
            .any(|flow| flow.stream.starts_with("record"))
        {
            summary.remarks.extend(assumed_sectors(drives));
        }
        summary
    }

    fn of_index(config: &ActConfig, derived: &IndexDerived, drives: &[Drive]) -> Self {
        let page_bytes = f64::from(PAGE_BYTES);
        let flows = [
            (
                "service reads",
                false,
                derived.service_read_rate,
                page_bytes,
            ),
            ("cache reads", false, derived.update_rate, page_bytes),
            ("cache writes", true, derived.update_rate, page_bytes),
        ];
        Self::of_flows(config, &flows, &["service reads"], drives)
    }

    /// `flows`: stream, true for writes, rate, mean bytes. `by_clients`: streams without a rate if arrivals are closed.
    fn of_flows(
        config: &ActConfig,
        flows: &[(&'static str, bool, Rate, f64)],
        by_clients: &[&'static str],
        drives: &[Drive],
    ) -> Self {
        let closed = config.arrival == Arrival::Closed;
        let is_uncounted = |what: &str| closed && by_clients.contains(&what);
        let flows = flows
            .iter()
            .filter(|(what, _, rate, _)| !(rate.is_zero() || is_uncounted(what)));
        let remark = format!(
            "arrival: closed: {} run as fast as the devices allow, and are not counted.",
            by_clients.join(" and ")
        );
        Self {
            flows: flows
                .map(|&(what, writes, rate, bytes_mean)| StreamLoad {
                    stream: what,
                    writes,
                    rate,
                    bytes_mean,
                })
                .collect(),
            drives: drives.to_vec(),
            duration_sec: config.test_duration_sec,
            remarks: closed.then_some(remark).into_iter().collect(),
        }
    }

    /// Bytes written per second, or bytes read per second if `writes` is false.
    fn bytes_per_sec(&self, writes: bool) -> f64 {
        // The fold begins at 0.0, because `sum` of no floats is -0.0, which would print with the minus sign.
        self.flows
            .iter()
            .filter(|flow| flow.writes == writes)
            .fold(0.0, |sum, flow| sum + flow.bytes_per_sec())
    }

    /// Drive writes per day of `drive`; `None` if its size is unknown. Each device has an equal share of the load.
    pub fn drive_writes_per_day(&self, drive: &Drive) -> Option<f64> {
        let devices: usize = self.drives.iter().map(|drive| drive.members.len()).sum();
        let share = drive.members.len() as f64 / devices.max(1) as f64;
        Some(self.bytes_per_sec(true) * SEC_PER_DAY * share / drive.size_bytes? as f64)
    }

    /// Description as lines, the remarks last. `rated`: rated drive writes per day, if known.
    pub fn lines(&self, rated: Option<f64>) -> Vec<String> {
        let devices: usize = self.drives.iter().map(|drive| drive.members.len()).sum();
        let mut lines = vec![format!(
            "The load in total, over {} on {}:",
            format::count(devices as u64, "device"),
            format::count(self.drives.len() as u64, "drive")
        )];
        for flow in &self.flows {
            let bytes = Grouped(flow.bytes_mean.round() as u64).to_string();
            lines.push(format!(
                "  {:<18} {:>12} /s x {:>9} bytes = {} {}",
                flow.stream,
                per_sec(flow.rate),
                bytes,
                speed(flow.bytes_per_sec()),
                if flow.writes { "written" } else { "read" },
            ));
        }
        for (verb, bytes_per_sec) in [
            ("read", self.bytes_per_sec(false)),
            ("written", self.bytes_per_sec(true)),
        ] {
            let mut line = format!(
                "  {verb:<18} {:>12}, {} a day",
                speed(bytes_per_sec),
                format::bytes(bytes_per_sec * SEC_PER_DAY)
            );
            if f64::from(self.duration_sec) != SEC_PER_DAY {
                let in_test = format::bytes(bytes_per_sec * f64::from(self.duration_sec));
                line.push_str(&format!(
                    ", {in_test} in this test of {}",
                    format::span(self.duration_sec.into())
                ));
            }
            lines.push(line);
        }
        if self.bytes_per_sec(true) > 0.0 {
            lines.extend(
                self.drives
                    .iter()
                    .map(|drive| format!("  {}", self.drive_line(drive, rated))),
            );
        }
        lines.extend(self.remarks.iter().map(|remark| format!("  {remark}")));
        lines
    }

    fn drive_line(&self, drive: &Drive, rated: Option<f64>) -> String {
        let name = &drive.name;
        let (Some(size_bytes), Some(writes)) = (drive.size_bytes, self.drive_writes_per_day(drive))
        else {
            return format!(
                "drive writes a day: unknown for {name}, because its size is unknown (give it with --capacity)"
            );
        };
        let text = format!(
            "drive writes a day: {} on {name} of {}",
            format::number(writes),
            format::bytes(size_bytes as f64)
        );
        match rated {
            Some(rated) => {
                format!(
                    "{text}, {} times its rating of {}",
                    format::number(writes / rated),
                    format::number(rated)
                )
            }
            None => text,
        }
    }
}

impl StreamLoad {
    pub fn bytes_per_sec(&self) -> f64 {
        self.rate.per_sec_f64() * self.bytes_mean
    }
}

/// Mean over all devices, which share the load equally, of a value that depends on a device's smallest operation.
fn mean_over_devices(drives: &[Drive], bytes: impl Fn(u32) -> f64) -> f64 {
    let devices: usize = drives.iter().map(|drive| drive.members.len()).sum();
    if devices == 0 {
        bytes(SECTOR_BYTES)
    } else {
        drives
            .iter()
            .map(|drive: &Drive| {
                bytes(drive.min_io_bytes.unwrap_or(SECTOR_BYTES).max(1))
                    * drive.members.len() as f64
            })
            .sum::<f64>()
            / devices as f64
    }
}

fn assumed_sectors(drives: &[Drive]) -> Option<String> {
    let unknown = drives
        .iter()
        .filter(|drive| drive.min_io_bytes.is_none())
        .count();
    (unknown > 0).then(|| {
        format!(
            "Sectors of {SECTOR_BYTES} bytes are assumed on {}; larger sectors make record I/O larger.",
            format::count(unknown as u64, "drive")
        )
    })
}

fn per_sec(rate: Rate) -> String {
    let whole = Grouped(rate.per_sec_floor());
    if rate.seconds() == 1 {
        return whole.to_string();
    }
    let hundredths = (rate.per_sec_f64() * 100.0).round() as u64;
    format!("{}.{:02}", Grouped(hundredths / 100), hundredths % 100)
}

fn speed(bytes_per_sec: f64) -> String {
    format!("{} MB/s", format::number(bytes_per_sec / 1e6))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Test;
    use crate::testing::act_config;
    use results::assert_contains;
    use results::testing::modified;

    fn drive(name: &str, members: usize, size_bytes: Option<u64>) -> Drive {
        Drive {
            name: name.into(),
            members: (0..members).map(|n| format!("{name}p{n}")).collect(),
            size_bytes,
            min_io_bytes: Some(512),
            discovery_error: None,
        }
    }

    fn config(reads: u32, writes: u32) -> ActConfig {
        ActConfig {
            test_duration_sec: 3600,
            ..act_config(Test::Storage, reads, writes)
        }
    }

    fn load_summary(config: &ActConfig, drives: &[Drive]) -> LoadSummary {
        LoadSummary::from_config(config, drives).unwrap()
    }

    /// 1x: 2000 reads/s of 1536 bytes; 400/17 large-block reads/s and as many large-block writes/s, of 128 KiB.
    #[test]
    fn the_1x_load_writes_3_mb_a_second_and_a_quarter_of_a_terabyte_a_day() {
        let summary = load_summary(&config(2000, 1000), &[drive("a", 1, Some(266_467_764_705))]);
        let written = 400.0 / 17.0 * 131_072.0;
        assert!((summary.bytes_per_sec(true) - written).abs() < 1e-3);
        assert!((summary.bytes_per_sec(false) - (2000.0 * 1536.0 + written)).abs() < 1e-3);
        assert_eq!(
            summary.lines(Some(0.5)),
            [
                "The load in total, over 1 device on 1 drive:",
                "  record reads              2,000 /s x     1,536 bytes = 3.07 MB/s read",
                "  large-block reads         23.53 /s x   131,072 bytes = 3.08 MB/s read",
                "  large-block writes        23.53 /s x   131,072 bytes = 3.08 MB/s written",
                "  read                  6.16 MB/s, 532 GB a day, 22.2 GB in this test of 1 h",
                "  written               3.08 MB/s, 266 GB a day, 11.1 GB in this test of 1 h",
                "  drive writes a day: 1 on a of 266 GB, 2 times its rating of 0.5",
            ]
        );
    }

    #[test]
    fn a_drive_with_more_partitions_has_more_of_the_writes() {
        let summary = load_summary(
            &config(0, 1000),
            &[drive("a", 3, Some(1 << 40)), drive("b", 1, Some(1 << 40))],
        );
        let a = summary.drive_writes_per_day(&summary.drives[0]).unwrap();
        let b = summary.drive_writes_per_day(&summary.drives[1]).unwrap();
        assert!((a / b - 3.0).abs() < 1e-9);
        assert!(
            (a + b - summary.bytes_per_sec(true) * 86_400.0 / (1_u64 << 40) as f64).abs() < 1e-9
        );
    }

    #[test]
    fn each_page_update_of_an_index_test_is_a_read_and_a_write() {
        let summary = load_summary(&act_config(Test::Index, 2000, 1000), &[drive("a", 1, None)]);
        assert_eq!(summary.bytes_per_sec(true), 2000.0 * 4096.0);
        assert_eq!(summary.bytes_per_sec(false), (3000.0 + 2000.0) * 4096.0);
    }

    /// The sizing paper's load: reads at the lower edge of their buckets.
    #[test]
    fn bytes_per_second_of_a_histogram_load_follow_from_its_mean_sizes() {
        let histogram =
            crate::sizes::SizeHistogram::parse("100,100,100,100,100,100,100,100,100,100,50,0")
                .unwrap();
        let config = ActConfig {
            record_bytes: 0,
            storage_read_histogram: Some(histogram),
            ..config(10, 0)
        };
        assert_eq!(
            load_summary(&config, &[drive("a", 1, None)]).flows[0].bytes_mean,
            (512.0 + 1024.0) / 2.0
        );
    }

    #[test]
    fn reads_are_whole_sectors_and_a_size_range_counts_with_its_mean() {
        let wide = modified(drive("a", 1, None), |it| it.min_io_bytes = Some(4096));
        assert_eq!(
            load_summary(&config(1, 0), std::slice::from_ref(&wide)).flows[0].bytes_mean,
            4096.0
        );
        assert_eq!(
            load_summary(&config(1, 0), &[wide, drive("b", 1, None)]).flows[0].bytes_mean,
            2816.0
        );
        let range = ActConfig {
            record_bytes: 512,
            record_bytes_range_max: 2048,
            ..config(1, 0)
        };
        assert_eq!(
            load_summary(&range, &[drive("a", 1, None)]).flows[0].bytes_mean,
            1280.0
        );
    }

    #[test]
    fn unknown_drive_sizes_assumed_sectors_and_uncounted_operations_are_noted() {
        let unknown = modified(drive("a", 1, None), |it| it.min_io_bytes = None);
        let odd = modified(config(1, 1), |it| it.tomb_raider = true);
        let lines = load_summary(&odd, std::slice::from_ref(&unknown))
            .lines(None)
            .join("\n");
        assert_contains!(lines, "unknown for a, because its size is unknown");
        assert_contains!(lines, "Sectors of 512 bytes are assumed on 1 drive");
        assert!(lines.contains("tomb raider"), "{lines}");
        let closed = load_summary(
            &modified(config(1, 0), |it| it.arrival = Arrival::Closed),
            &[unknown],
        );
        assert_eq!((closed.flows.len(), closed.remarks.len()), (0, 1));
        assert_eq!(closed.bytes_per_sec(true).to_string(), "0");
    }
}
