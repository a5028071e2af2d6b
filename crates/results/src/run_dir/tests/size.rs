//! Size of a run directory.

use super::*;
use std::fs;

/// Duration of the run from which a day is extrapolated, seconds.
const SAMPLE_SEC: u64 = 300;
const DAY_SEC: u64 = 86_400;
/// Maximum size of a run directory per device and day, bytes.
const DAY_BYTES_MAX: u64 = 100_000_000;

/// An interval of ACT's reference load with commits, and latencies as of a flash drive: a centre and a long tail.
fn busy_interval(manifest: &Manifest, index: u64, numbers: &mut Numbers) -> Interval {
    let layout = manifest.layout();
    let mut interval = Interval {
        index,
        end_ns: (index + 1) * SEC,
        ..Interval::new(&layout)
    };
    for (cell, rate) in interval.cells.iter_mut().zip([2000, 1000, 24, 24]) {
        for _ in 0..rate {
            // A product of uniform factors is close to log-normal: here mostly 40 to 300 us.
            let service_ns = (0..3).fold(90_000_u64, |ns, _| ns * (60 + numbers.below(100)) / 100);
            let tail = if numbers.below(200) == 0 {
                numbers.below(3_000_000)
            } else {
                0
            };
            let wait_ns = if numbers.below(1000) == 0 {
                numbers.below(100_000)
            } else {
                0
            };
            let lag_ns = 2_000 + numbers.below(4_000) * numbers.below(30);
            let issued_ns = wait_ns + lag_ns;
            cell.record(
                &Times::new(0, wait_ns, issued_ns, issued_ns + service_ns + tail),
                0,
                1536,
            );
            interval.gap.saturating_record(numbers.below(60_000));
        }
        cell.counts.last_completion_ns = (index + 1) * SEC - SEC / rate / 2;
    }
    interval.clear_recent_last_completion(index * SEC);
    interval
}

#[test]
fn a_day_of_one_second_reports_takes_at_most_100_mb_per_device_and_the_estimated_size() {
    let dir = tempfile::tempdir().unwrap();
    let manifest = manifest(1, SAMPLE_SEC, 1);
    let columns: Vec<_> = (0..6).map(|column| format!("column_{column}")).collect();
    let mut writer = RunWriter::create(dir.path(), &manifest, &columns).unwrap();
    let mut numbers = Numbers(3);
    for index in 0..SAMPLE_SEC {
        let interval = busy_interval(&manifest, index, &mut numbers);
        writer
            .write_interval(&interval, &vec!["1234567".to_owned(); columns.len()])
            .unwrap();
    }
    drop(writer);
    fs::remove_file(dir.path().join(MANIFEST)).unwrap();
    let sizes = fs::read_dir(dir.path()).unwrap().map(|entry| {
        let entry = entry.unwrap();
        (entry.file_name(), entry.metadata().unwrap().len())
    });
    let sizes: Vec<_> = sizes.collect();
    let day_bytes = sizes.iter().map(|(_, bytes)| bytes).sum::<u64>() * (DAY_SEC / SAMPLE_SEC);
    println!("a day: {day_bytes} bytes; {SAMPLE_SEC} s: {sizes:?}");
    let foreseen_bytes = space_needed_bytes(
        &Manifest {
            duration_sec: DAY_SEC,
            ..manifest.clone()
        },
        columns.len(),
    );
    println!("foreseen: {foreseen_bytes} bytes");
    let inserted = Manifest {
        duration_sec: 30 * DAY_SEC,
        operations: Some(1_000 * DAY_SEC),
        ..manifest.clone()
    };
    let day = Manifest {
        duration_sec: DAY_SEC,
        operations: None,
        ..inserted.clone()
    };
    assert_eq!(
        space_needed_bytes(&inserted, 6),
        space_needed_bytes(&day, 6),
        "a day at a thousand operations a second"
    );
    let limited = Manifest {
        duration_sec: 60,
        operations: Some(u64::MAX),
        ..day.clone()
    };
    assert!(
        space_needed_bytes(&limited, 6) < space_needed_bytes(&day, 6),
        "a limit in time that was given holds"
    );
    assert!(day_bytes <= foreseen_bytes && foreseen_bytes <= day_bytes * 3 / 2);
    assert!(day_bytes <= DAY_BYTES_MAX);
}
