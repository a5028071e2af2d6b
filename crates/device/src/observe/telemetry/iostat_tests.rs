//! Compares our columns with those of sysstat's `iostat -x` for the same counters.

use super::*;
use crate::observe::test_loop::LoopDevice;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

/// iostat prints two decimals.
const ROUNDING: f64 = 0.005 + 1e-9;

/// Value of flashproof's column `column` in a line of iostat's JSON. The JSON has `util` for `%util`.
fn printed(json: &str, column: &str) -> f64 {
    let key = format!("\"{}\": ", column.trim_start_matches('%'));
    let (_, rest) = json
        .split_once(&key)
        .unwrap_or_else(|| panic!("no {column} in {json}"));
    let end = rest.find([',', '}']).expect("the value ends");
    rest[..end].parse().unwrap()
}

/// Values of the columns that iostat has, too. A missing mean becomes 0, as iostat prints it.
fn ours(row: &TelemetryRow) -> Vec<(&'static str, f64)> {
    let columns = IOSTAT.iter().map(|(column, _)| column.name());
    columns
        .zip(row.values())
        .map(|(name, value)| (name, value.unwrap_or(0.0)))
        .collect()
}

#[test]
fn recorded_counters_give_the_values_that_iostat_printed() {
    // /proc/diskstats of a loop device before and after a mixed load with writes and flushes, on Linux 6.18. The load
    // ran within one interval of iostat 12.6.1: 5.01 s by iostat's clock. Nothing else ran.
    let recorded = include_str!("../../../tests/data/iostat-x-5.01s.txt");
    let mut lines = recorded.lines();
    let mut next = || lines.next().expect("three lines");
    let before = next();
    let after = next();
    let json = next();
    let root = tempfile::tempdir().unwrap();
    std::fs::write(root.path().join("diskstats"), before).unwrap();
    let mut disk = DeviceSampler::find(root.path(), DeviceNumber::new(7, 0), before);
    disk.sample(before, Duration::ZERO);
    let row = TelemetryRow(
        disk.sample(after, Duration::from_millis(5_010))
            .into_iter()
            .map(|(_, value)| value)
            .collect(),
    );
    for (column, value) in ours(&row) {
        let expected = printed(json, column);
        assert!(
            (value - expected).abs() <= ROUNDING,
            "{column}: ours {value}, iostat {expected}"
        );
    }
}

#[test]
fn columns_computed_from_known_counters_have_the_values_of_iostat() {
    // In 2 s: 400 reads of 8 sectors taking 600 ms, 100 writes of 256 sectors taking 1,000 ms.
    let counters = |line: &str| parse_line(line).unwrap().2;
    let before = counters("8 0 sda 1000 5 9000 100 50 7 800 40 3 700 900 0 0 0 0 10 5");
    let after = counters("8 0 sda 1400 5 12200 700 150 7 26400 1040 1 1700 2500 20 0 80 20 16 8");
    let delta = after.since(&before).unwrap();
    let expected = [
        200.0, 50.0, 800.0, 6_400.0, 1.5, 10.0, 3.0, 0.5, 0.8, 4.0, 128.0, 50.0,
    ];
    let found = IOSTAT.map(|(_, of)| of(&delta, Duration::from_secs(2)));
    assert_eq!(found, expected.map(Some));
}

/// A running iostat, ended with the test.
struct Iostat(Child);

impl Drop for Iostat {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn iostat_shows_the_same_values_for_a_load_within_one_interval() {
    let Some(device) = LoopDevice::make(8 << 20) else {
        return;
    };
    let name = device.name();
    let command = Command::new("iostat")
        .args(["-dx", "-o", "JSON", &name, "1"])
        .env("LC_ALL", "C")
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let Ok(mut iostat) = command.map(Iostat) else {
        println!("skipped: there is no iostat here (apt install sysstat)");
        return;
    };
    let output = BufReader::new(iostat.0.stdout.take().expect("it is piped"));
    let mut reports = output
        .lines()
        .map_while(Result::ok)
        .filter(|line| line.contains("disk_device"));
    let mut sampler = Sampler::new(&[device.number()]).unwrap();
    // The first report shows that iostat has taken its first sample. If a load spans two reports, the loop repeats it.
    reports.next().expect("a first report");
    let mut last = reports.next().expect("a second one");
    for _ in 0..20 {
        let reads = 23_u32;
        sampler.sample();
        device
            .read_direct((0..u64::from(reads)).map(|index| (index * 65_536, 4096 << (index % 3))));
        while printed(&last, "r/s") == 0.0 {
            last = reports.next().expect("iostat goes on");
        }
        let following = reports.next().expect("iostat goes on");
        let shown = std::mem::replace(&mut last, following);
        // iostat does not print its interval, so the interval is computed from iostat's read rate.
        let interval = f64::from(reads) / printed(&shown, "r/s");
        let row = sampler.sample_over(Duration::from_secs_f64(interval));
        let alone =
            row.values()[0].is_some_and(|rate| (rate * interval - f64::from(reads)).abs() < 0.1);
        if printed(&last, "r/s") != 0.0 || !alone {
            continue;
        }
        assert!(interval > 0.9, "{interval} s, in {shown}");
        for (column, value) in ours(&row) {
            let expected = printed(&shown, column);
            // The interval is only as exact as the printed rate from which it was computed.
            let allowed = ROUNDING + 0.001 * expected;
            assert!(
                (value - expected).abs() <= allowed,
                "{column}: ours {value}, iostat {expected}, in {shown}"
            );
        }
        return;
    }
    panic!("no load fell into one interval; the last report was {last}");
}
