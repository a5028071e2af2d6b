//! /proc/diskstats: the kernel's counters for each block device, and the values that `iostat -x` derives from them.
//!
//! Only the difference of two samples is meaningful. Names and units follow the kernel's
//! `Documentation/admin-guide/iostats.rst`. The rates are computed as in sysstat, to be compared with iostat's.

use super::per_sec;
use crate::discover::{DeviceNumber, SysDir};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Bytes of a sector in /proc/diskstats, whatever the sector size of the device is.
pub const SECTOR_BYTES: u64 = 512;

const KIB_PER_SECTOR: f64 = SECTOR_BYTES as f64 / 1024.0;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RequestCounts {
    pub completed: u64,
    /// Requests that were merged into an adjacent request before the issue.
    pub merged: u64,
    /// Sectors of 512 bytes.
    pub sectors: u64,
    /// Sum of the times of all requests, milliseconds.
    pub time_ms: u64,
}

impl RequestCounts {
    fn of_four(values: &[u64]) -> Option<Self> {
        let [completed, merged, sectors, time_ms] = *values else {
            return None;
        };
        Some(Self {
            completed,
            merged,
            sectors,
            time_ms,
        })
    }
}

/// The 17 values of one device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    pub read: RequestCounts,
    pub write: RequestCounts,
    /// Current number of requests in flight; not a counter.
    pub in_flight: u64,
    /// Milliseconds with at least one request in flight.
    pub busy_ms: u64,
    /// Sum of the times in flight of all requests, milliseconds.
    pub queue_ms: u64,
    /// Discards; `None` before Linux 4.18.
    pub discard: Option<RequestCounts>,
    /// Flushes, of which only number and time are counted; `None` before Linux 5.5.
    pub flush: Option<RequestCounts>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskStatistics {
    pub device: DeviceNumber,
    /// The kernel's name (`sda`, `nvme0n1p1`).
    pub name: String,
    pub counters: Counters,
}

#[derive(Debug, thiserror::Error)]
pub enum DiskstatsError {
    #[error("cannot read {} - {source} - {}", path.display(), sys::remedy(source, "mount /proc"))]
    Unreadable { path: PathBuf, source: io::Error },
    /// A line, counted from 1, does not look like device statistics.
    #[error(
        "cannot read {} line {line} - expected two numbers, a name and 11, 15 or 17 counters, found \"{text}\" - this version of flashproof does not know the format of this kernel",
        path.display()
    )]
    Line {
        path: PathBuf,
        line: usize,
        text: String,
    },
}

/// `root` is `/` except in tests.
pub fn read(root: &Path) -> Result<Vec<DiskStatistics>, DiskstatsError> {
    let path = root.join("proc/diskstats");
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(source) => return Err(DiskstatsError::Unreadable { path, source }),
    };
    let disk = |(index, line): (usize, &str)| match parse_line(line) {
        Some((device, name, counters)) => Ok(DiskStatistics {
            device,
            name: name.to_owned(),
            counters,
        }),
        None => Err(DiskstatsError::Line {
            path: path.clone(),
            line: index + 1,
            text: line.trim().to_owned(),
        }),
    };
    text.lines().enumerate().map(disk).collect()
}

/// Parses number, name and counters of one line; `None` for another format.
pub(super) fn parse_line(line: &str) -> Option<(DeviceNumber, &str, Counters)> {
    let mut words = line.split_ascii_whitespace();
    let device = DeviceNumber::new(words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    let name = words.next()?;
    Some((device, name, Counters::parse(words)?))
}

impl Counters {
    /// Counters of the disk or partition at `dir` in sysfs since it appeared; `None` if the kernel has no counters.
    pub(crate) fn read(dir: &SysDir) -> Option<Self> {
        Self::parse(dir.text("stat")?.split_ascii_whitespace())
    }

    /// Parses the fields of `stat` in sysfs: the same as in /proc/diskstats after the name; `None` for another format.
    pub(crate) fn parse<'a>(words: impl Iterator<Item = &'a str>) -> Option<Self> {
        // Newer kernels may append more fields, which are ignored.
        let values: Vec<u64> = words
            .take(17)
            .map(|word| word.parse().ok())
            .collect::<Option<_>>()?;
        let flush = values.get(15..17).map(|flush| RequestCounts {
            completed: flush[0],
            time_ms: flush[1],
            ..RequestCounts::default()
        });
        let counters = Self {
            read: RequestCounts::of_four(values.get(0..4)?)?,
            write: RequestCounts::of_four(values.get(4..8)?)?,
            in_flight: *values.get(8)?,
            busy_ms: *values.get(9)?,
            queue_ms: *values.get(10)?,
            discard: values.get(11..15).and_then(RequestCounts::of_four),
            flush,
        };
        matches!(values.len(), 11 | 15 | 17).then_some(counters)
    }

    /// Difference to `earlier`, except `in_flight`, which keeps its current value. `None` if a counter fell without a
    /// wrap: another device has the number now.
    pub fn since(&self, earlier: &Self) -> Option<Self> {
        let if_both =
            |now: Option<RequestCounts>, before: Option<RequestCounts>| match now.zip(before) {
                Some((now, before)) => Some(Some(now.since(before)?)),
                None => Some(None),
            };
        Some(Self {
            read: self.read.since(earlier.read)?,
            write: self.write.since(earlier.write)?,
            in_flight: self.in_flight,
            busy_ms: counter_increase(self.busy_ms, earlier.busy_ms)?,
            queue_ms: counter_increase(self.queue_ms, earlier.queue_ms)?,
            discard: if_both(self.discard, earlier.discard)?,
            flush: if_both(self.flush, earlier.flush)?,
        })
    }
}

/// The values of `iostat -x` for one direction and an interval, from the difference of two samples. A rate over a zero
/// interval is `None`, and so is a mean without operations (iostat prints 0).
///
/// Source: sysstat, `iostat.c` and `compute_ext_disk_stats` in `rd_stats.c`.
impl RequestCounts {
    /// `r/s`, `w/s`, `f/s`: operations per second.
    pub fn per_sec(self, interval: Duration) -> Option<f64> {
        per_sec(self.completed, interval)
    }

    /// `rkB/s`, `wkB/s`: units of 1,024 bytes per second.
    pub fn kib_per_sec(self, interval: Duration) -> Option<f64> {
        per_sec(self.sectors, interval).map(|sectors| sectors * KIB_PER_SECTOR)
    }

    /// `r_await`, `w_await`, `f_await`: mean milliseconds of an operation, in queue and device.
    pub fn await_ms(self) -> Option<f64> {
        (self.completed > 0).then(|| self.time_ms as f64 / self.completed as f64)
    }

    /// `rareq-sz`, `wareq-sz`: mean size of an operation, in units of 1,024 bytes.
    pub fn request_kib(self) -> Option<f64> {
        (self.completed > 0).then(|| self.sectors as f64 / self.completed as f64 * KIB_PER_SECTOR)
    }

    fn since(self, earlier: Self) -> Option<Self> {
        Some(Self {
            completed: counter_increase(self.completed, earlier.completed)?,
            merged: counter_increase(self.merged, earlier.merged)?,
            sectors: counter_increase(self.sectors, earlier.sectors)?,
            time_ms: counter_increase(self.time_ms, earlier.time_ms)?,
        })
    }
}

const WRAP_32: u64 = 1 << 32;

/// Increase of one counter, across a wrap at 2^32; `None` if the counter was reset.
///
/// Times are 32 bits on every kernel (`diskstats_show` in `block/genhd.c`): they wrap after 49.7 days with one request
/// in flight, or after 9 hours with 128. Counts are a kernel `long`: 64 bits, or 32 on a 32-bit kernel. So a counter
/// that falls by more than 2^31 has wrapped.
fn counter_increase(now: u64, before: u64) -> Option<u64> {
    if now >= before {
        return Some(now - before);
    }
    let wrapped = before < WRAP_32 && before - now > WRAP_32 / 2;
    wrapped.then(|| now + WRAP_32 - before)
}

#[cfg(test)]
mod tests {
    use super::*;
    use results::assert_contains;

    const LINE: &str = " 259       0 nvme0n1 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17";

    fn counters(line: &str) -> Counters {
        parse_line(line).unwrap().2
    }

    #[test]
    fn each_of_the_17_counters_is_read_from_its_column() {
        let (device, name, counters) = parse_line(LINE).unwrap();
        assert_eq!((device, name), (DeviceNumber::new(259, 0), "nvme0n1"));
        let expected = Counters {
            read: RequestCounts {
                completed: 1,
                merged: 2,
                sectors: 3,
                time_ms: 4,
            },
            write: RequestCounts {
                completed: 5,
                merged: 6,
                sectors: 7,
                time_ms: 8,
            },
            in_flight: 9,
            busy_ms: 10,
            queue_ms: 11,
            discard: Some(RequestCounts {
                completed: 12,
                merged: 13,
                sectors: 14,
                time_ms: 15,
            }),
            flush: Some(RequestCounts {
                completed: 16,
                time_ms: 17,
                ..RequestCounts::default()
            }),
        };
        assert_eq!(counters, expected);
    }

    #[test]
    fn counters_that_old_kernels_lack_are_unknown_and_not_zero() {
        let old = counters("8 0 sda 1 2 3 4 5 6 7 8 9 10 11");
        assert_eq!((old.queue_ms, old.discard, old.flush), (11, None, None));
        let newer = counters("8 0 sda 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15");
        assert_eq!(newer.discard.map(|discard| discard.time_ms), Some(15));
        assert_eq!(newer.flush, None);
        assert_eq!(counters(&format!("{LINE} 18 19")), counters(LINE));
    }

    #[test]
    fn lines_of_proc_diskstats_are_read_and_a_malformed_line_is_reported() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("proc")).unwrap();
        let file = root.path().join("proc/diskstats");
        std::fs::write(
            &file,
            format!("{LINE}\n   8       0 sda 9 0 0 0 0 0 0 0 0 0 0\n"),
        )
        .unwrap();
        let disks = read(root.path()).unwrap();
        assert_eq!(
            disks
                .iter()
                .map(|disk| disk.name.as_str())
                .collect::<Vec<_>>(),
            ["nvme0n1", "sda"]
        );
        assert_eq!(disks[1].counters.read.completed, 9);

        std::fs::write(&file, format!("{LINE}\n   8       0 sda 9 x 0\n")).unwrap();
        let text = read(root.path()).unwrap_err().to_string();
        assert_contains!(text, "line 2", "sda 9 x 0");
        std::fs::remove_file(&file).unwrap();
        assert!(matches!(
            read(root.path()),
            Err(DiskstatsError::Unreadable { .. })
        ));
    }

    #[test]
    fn a_mean_without_operations_and_a_rate_over_no_time_are_unknown() {
        let idle = RequestCounts::default();
        let busy = RequestCounts {
            completed: 1,
            sectors: 8,
            ..RequestCounts::default()
        };
        assert_eq!(idle.per_sec(Duration::from_secs(1)), Some(0.0));
        assert_eq!(idle.await_ms(), None);
        assert_eq!(idle.request_kib(), None);
        assert_eq!(busy.per_sec(Duration::ZERO), None);
        assert_eq!(busy.kib_per_sec(Duration::ZERO), None);
    }

    #[test]
    fn the_increase_across_a_wrap_of_a_32_bit_counter_is_correct() {
        let line = |reads: u64, time: u64| {
            counters(&format!(
                "8 0 sda {reads} 0 0 {time} 0 0 0 0 0 {time} {time}"
            ))
        };
        let delta = line(4, 5).since(&line(WRAP_32 - 6, WRAP_32 - 10)).unwrap();
        assert_eq!(delta.read.completed, 10);
        assert_eq!(delta.read.time_ms, 15);
        assert_eq!(delta.busy_ms, 15);
        assert_eq!(delta.queue_ms, 15);
    }

    #[test]
    fn counters_that_fell_without_a_wrap_belong_to_another_device() {
        let line = |reads: u64| counters(&format!("8 0 sda {reads} 0 0 0 0 0 0 0 0 0 0"));
        assert_eq!(line(5).since(&line(1_000)), None);
        assert_eq!(line(5).since(&line(WRAP_32 + 1_000)), None);
        assert_eq!(line(1_000).since(&line(1_000)).unwrap().read.completed, 0);
    }
}
