//! Logs for the tests of this module.

use super::LogReader;

/// The histograms of [`log_text`].
pub(crate) const NAMES: [&str; 2] = ["reads", "/dev/x-reads"];

/// A log of `seconds` reports, each of which adds 6 reads below 1 ms, 3 from 1 to 2 ms and 1 from 8 to
/// 16 ms on one device.
pub(crate) fn log_text(seconds: u64) -> String {
    let mut text = "ACT version 6.6\nStorage device IO test\n\nACT-STORAGE CONFIGURATION\ndevice-names: /dev/x\n\
                    test-duration-sec: 1\nreport-interval-sec: 1\nmicrosecond-histograms: no\n\nDERIVED CONFIGURATION\na: 1\n\n\
                    HISTOGRAM NAMES\nreads\n/dev/x-reads\n\n"
        .to_owned();
    for second in 1..=seconds {
        text += &format!("after {second} sec:\n");
        for name in NAMES {
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
pub(crate) fn source(text: &str) -> LogReader<'_> {
    LogReader::open("a.log", text.as_bytes()).unwrap()
}
