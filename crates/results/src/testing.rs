//! Helpers shared by tests of several crates.

use crate::buckets::ActScale;
use crate::cell::{ActHistograms, Layout, StreamInfo};
use crate::judge::Sla;
use crate::sliced_log::LogReader;

/// Fails, and shows the text, unless the text contains each of the parts.
#[macro_export]
macro_rules! assert_contains {
    ($text:expr, $($part:expr),+ $(,)?) => {{
        let text = $text.to_string();
        $(assert!(text.contains($part), "no {:?} in {text}", $part);)+
    }};
}

#[macro_export]
macro_rules! assert_starts_with {
    ($text:expr, $start:expr $(,)?) => {{
        let text = $text.to_string();
        assert!(text.starts_with($start), "no {:?} before {text}", $start);
    }};
}

#[macro_export]
macro_rules! assert_ends_with {
    ($text:expr, $end:expr $(,)?) => {{
        let text = $text.to_string();
        assert!(text.ends_with($end), "no {:?} after {text}", $end);
    }};
}

/// Fails, and shows the texts, unless one text contains `part`.
#[macro_export]
macro_rules! assert_any_contains {
    ($texts:expr, $part:expr $(,)?) => {{
        let texts = &$texts;
        assert!(
            texts.iter().any(|text| text.contains($part)),
            "no {:?} in {texts:#?}",
            $part
        );
    }};
}

/// `value` after `change`.
pub fn modified<T>(mut value: T, change: impl FnOnce(&mut T)) -> T {
    change(&mut value);
    value
}

/// Rows of a table of cases: each line has `N` cells separated by `|`, without the blanks around a cell.
pub fn table<const N: usize>(text: &str) -> impl Iterator<Item = [&str; N]> {
    text.lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .map(cells)
}

fn cells<const N: usize>(line: &str) -> [&str; N] {
    let cells: Vec<&str> = line.split('|').map(str::trim).collect();
    cells
        .try_into()
        .unwrap_or_else(|_| panic!("not {N} cells: {line}"))
}

/// A layout judged by ACT's limits. `streams` has pairs of a name and true for a judged stream; each stream has the
/// rate `offered_iops` and is in ACT's log.
pub fn layout<D: Into<String>>(
    streams: &[(&str, bool)],
    offered_iops: f64,
    devices: impl IntoIterator<Item = D>,
) -> Layout {
    let stream = |&(name, judged): &(&str, bool)| StreamInfo {
        name: name.to_owned(),
        judged,
        offered_iops,
        workload: 0,
        act: Some(ActHistograms {
            scale: ActScale::Milliseconds,
            per_device: judged,
        }),
        ..StreamInfo::default()
    };
    Layout {
        streams: streams.iter().map(stream).collect(),
        devices: devices.into_iter().map(Into::into).collect(),
        thresholds_ns: Sla::default().thresholds_ns(),
    }
}

/// The histograms of [`act_log_text`].
pub const ACT_LOG_NAMES: [&str; 2] = ["reads", "/dev/x-reads"];

/// A log of `seconds` reports: each adds 6 reads below 1 ms, 3 from 1 to 2 ms and 1 from 8 to 16 ms on a device.
pub fn act_log_text(seconds: u64) -> String {
    let mut text = "ACT version 6.6\nStorage device IO test\n\nACT-STORAGE CONFIGURATION\ndevice-names: /dev/x\n\
                    test-duration-sec: 1\nreport-interval-sec: 1\nmicrosecond-histograms: no\n\nDERIVED CONFIGURATION\na: 1\n\n\
                    HISTOGRAM NAMES\nreads\n/dev/x-reads\n\n"
        .to_owned();
    for second in 1..=seconds {
        text += &format!("after {second} sec:\n");
        for name in ACT_LOG_NAMES {
            let fast = second * 6;
            let slow = second * 3;
            let slowest = second;
            text += &format!(
                "{name} ({} total)\n (00: {fast:010}) (01: {slow:010}) (04: {slowest:010})\n",
                second * 10
            );
        }
        text.push('\n');
    }
    text
}

/// The log of a text, named `a.log`.
pub fn sliced_log_reader(text: &str) -> LogReader<'_> {
    LogReader::open("a.log", text.as_bytes()).unwrap()
}
