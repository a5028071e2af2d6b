//! ACT 6.6's log, written and read.
//!
//! Ten years of scripts read this format, so it must not change. A log has a banner, the configuration with defaults,
//! the derived rates, the names of the histograms, and at each report a chunk of *cumulative* service times in
//! power-of-two buckets:
//!
//! ```text
//! ACT version 6.6
//! Storage device IO test
//! written by flashproof 0.1.0, in ACT's log format     <- ACT has its copyright line here
//!
//! ACT-STORAGE CONFIGURATION
//! name: value ...
//!
//! DERIVED CONFIGURATION
//! name: value ...
//!
//! FLASHPROOF SETTINGS                                  <- only in flashproof's logs; ACT's script skips it
//! name: value ...
//!
//! /dev/x size = N bytes, M large blocks, minimum IO size = K bytes
//!
//! HISTOGRAM NAMES
//! reads ...
//!
//! after 1 sec:
//! reads (2002 total)
//!  (00: 0000001914) (01: 0000000048) (02: 0000000030) (03: 0000000009)
//!  (04: 0000000001)
//! ```
//!
//! Tests read this program's logs with ACT's analysis script. This program also reads ACT's logs, which may have
//! messages between any two lines, and lack the tail if the run was killed. Failed operations are in no histogram; the
//! verdict counts them.
//!
//! The functions that write header, chunks and error lines write whole lines without a flush; the caller syncs.

mod input;
mod read;

pub use input::{Compression, Input, encoding};
pub use read::{ActLogReader, Chunk, HeaderPart, LogReadError, Truncation};

use crate::buckets::ActBuckets;
use crate::cell::{Interval, Layout};
use schemars::JsonSchema;
use std::io::{self, Write};

/// The version of ACT whose format is written.
pub const ACT_VERSION: &str = "6.6";

/// ACT's test that wrote a log.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Test {
    /// `act_storage`: records and large blocks.
    #[default]
    Storage,
    /// `act_index`: 4 KiB pages of a primary index.
    Index,
}

impl Test {
    pub const ALL: [Self; 2] = [Self::Storage, Self::Index];

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|test| test.name() == name)
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Storage => "storage",
            Self::Index => "index",
        }
    }

    /// Second line of the banner.
    fn banner(self) -> &'static str {
        match self {
            Self::Storage => "Storage device IO test",
            Self::Index => "Index device IO test",
        }
    }

    pub fn configuration_title(self) -> &'static str {
        match self {
            Self::Storage => "ACT-STORAGE CONFIGURATION",
            Self::Index => "ACT-INDEX CONFIGURATION",
        }
    }
}

pub const DERIVED_TITLE: &str = "DERIVED CONFIGURATION";
const SETTINGS_TITLE: &str = "FLASHPROOF SETTINGS";
pub const NAMES_TITLE: &str = "HISTOGRAM NAMES";
const WRITTEN_BY: &str = "written by ";
const WRITTEN_BY_TAIL: &str = ", in ACT's log format";

/// The header of a log: everything before the first chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogHeader {
    /// Version of ACT whose format the log has: [`ACT_VERSION`] in flashproof's logs.
    pub act_version: String,
    pub test: Test,
    /// Program and version that wrote the log; empty if ACT wrote it.
    pub written_by: String,
    /// The configuration with its defaults, name and value, in ACT's order.
    pub configuration: Vec<(String, String)>,
    /// The derived rates, name and value, in ACT's order.
    pub derived_rates: Vec<(String, String)>,
    /// Settings that ACT does not have, name and value. An empty block is not written.
    pub settings: Vec<(String, String)>,
    /// A line for each device: size, large blocks, minimum I/O size.
    pub device_lines: Vec<String>,
    /// The histograms of each chunk, in order.
    pub histogram_names: Vec<String>,
}

impl Default for LogHeader {
    fn default() -> Self {
        Self {
            act_version: ACT_VERSION.to_owned(),
            test: Test::Storage,
            written_by: String::new(),
            configuration: Vec::new(),
            derived_rates: Vec::new(),
            settings: Vec::new(),
            device_lines: Vec::new(),
            histogram_names: Vec::new(),
        }
    }
}

impl LogHeader {
    pub fn configured(&self, name: &str) -> Option<&str> {
        value(&self.configuration, name)
    }

    pub fn derived(&self, name: &str) -> Option<&str> {
        value(&self.derived_rates, name)
    }

    pub fn setting(&self, name: &str) -> Option<&str> {
        value(&self.settings, name)
    }
}

fn value<'a>(block: &'a [(String, String)], name: &str) -> Option<&'a str> {
    block
        .iter()
        .find(|(key, _)| key == name)
        .map(|(_, value)| value.as_str())
}

/// Number of buckets in a line of a histogram. Source: ACT 6.6, `src/common/histogram.c`, `histogram_dump`.
const COLUMNS: usize = 4;

/// Writes the header. Control characters become spaces, so that each value stays on its line.
pub fn write_header<W: Write>(writer: &mut W, header: &LogHeader) -> io::Result<()> {
    writeln!(
        writer,
        "\nACT version {}\n{}",
        header.act_version,
        header.test.banner()
    )?;
    if !header.written_by.is_empty() {
        writeln!(
            writer,
            "{WRITTEN_BY}{}{WRITTEN_BY_TAIL}",
            one_line(&header.written_by)
        )?;
    }
    writeln!(writer)?;
    write_block(
        writer,
        header.test.configuration_title(),
        &header.configuration,
    )?;
    write_block(writer, DERIVED_TITLE, &header.derived_rates)?;
    if !header.settings.is_empty() {
        write_block(writer, SETTINGS_TITLE, &header.settings)?;
    }
    for line in &header.device_lines {
        writeln!(writer, "{}", one_line(line))?;
    }
    writeln!(writer, "\n{NAMES_TITLE}")?;
    for name in &header.histogram_names {
        writeln!(writer, "{}", one_line(name))?;
    }
    writeln!(writer)
}

fn write_block<W: Write>(
    writer: &mut W,
    title: &str,
    lines: &[(String, String)],
) -> io::Result<()> {
    writeln!(writer, "{title}")?;
    for (name, value) in lines {
        writeln!(writer, "{}: {}", one_line(name), one_line(value))?;
    }
    writeln!(writer)
}

/// `histograms` are in the order of the header's names, with the counts since the run began. `after_sec` is the nominal
/// time of the report.
pub fn write_chunk<W: Write>(
    writer: &mut W,
    after_sec: u64,
    histograms: &[(&str, &ActBuckets)],
) -> io::Result<()> {
    writeln!(writer, "after {after_sec} sec:")?;
    for (name, buckets) in histograms {
        write_histogram(writer, name, buckets)?;
    }
    writeln!(writer)
}

fn write_histogram<W: Write>(writer: &mut W, name: &str, buckets: &ActBuckets) -> io::Result<()> {
    writeln!(writer, "{name} ({} total)", buckets.total())?;
    let used: Vec<_> = buckets
        .counts()
        .iter()
        .enumerate()
        .filter(|(_, count)| **count != 0)
        .collect();
    used.chunks(COLUMNS).try_for_each(|line| {
        line.iter()
            .try_for_each(|(bucket, count)| write!(writer, " ({bucket:02}: {count:010})"))?;
        writeln!(writer)
    })
}

/// Writes an error line, as ACT does between its chunks.
pub fn write_error_line<W: Write>(writer: &mut W, message: &str) -> io::Result<()> {
    writeln!(writer, "ERROR: {}", one_line(message))
}

fn one_line(text: &str) -> String {
    text.replace(char::is_control, " ")
}

/// Names of a workload's histograms in ACT's log: for each stream its name, followed by a name for each device
/// (`/dev/x-reads`) if the stream has histograms per device.
pub fn histogram_names(layout: &Layout, workload: usize) -> Vec<String> {
    histograms(layout, workload)
        .map(|histogram| histogram.name)
        .collect()
}

fn histograms(layout: &Layout, workload: usize) -> impl Iterator<Item = Total> {
    let streams = layout
        .streams
        .iter()
        .enumerate()
        .filter(move |(_, stream)| stream.workload == workload);
    streams
        .filter_map(|(index, stream)| Some((index, stream, stream.act?)))
        .flat_map(|(index, stream, act)| {
            let cells = layout.cell(index, 0)..layout.cell(index, layout.devices.len());
            let devices = if act.per_device {
                &layout.devices[..]
            } else {
                &[]
            };
            let first = cells.start;
            let total = move |name, cells| Total {
                name,
                cells,
                buckets: ActBuckets::new(act.scale),
            };
            // ACT's script expects the stream's name without the workload name and slash; a log has only one workload.
            let own_name = stream.name.rsplit('/').next().unwrap_or_default();
            std::iter::once(total(own_name.to_owned(), cells)).chain(
                devices
                    .iter()
                    .enumerate()
                    .map(move |(device, name): (usize, &String)| {
                        total(
                            format!("{name}-{own_name}"),
                            first + device..first + device + 1,
                        )
                    }),
            )
        })
}

/// Service times in ACT's buckets since the run began.
#[derive(Debug, Clone)]
pub struct ServiceTotals {
    histograms: Vec<Total>,
}

#[derive(Debug, Clone)]
struct Total {
    name: String,
    cells: std::ops::Range<usize>,
    buckets: ActBuckets,
}

impl ServiceTotals {
    /// Empty histograms, one for each of [`histogram_names`].
    pub fn new(layout: &Layout, workload: usize) -> Self {
        Self {
            histograms: histograms(layout, workload).collect(),
        }
    }

    pub fn add(&mut self, interval: &Interval) {
        for total in &mut self.histograms {
            for act in interval.cells[total.cells.clone()]
                .iter()
                .filter_map(|cell| cell.act.as_ref())
            {
                total.buckets.merge(act);
            }
        }
    }

    pub fn write_chunk<W: Write>(&self, writer: &mut W, after_sec: u64) -> io::Result<()> {
        let histograms: Vec<_> = self
            .histograms
            .iter()
            .map(|total| (total.name.as_str(), &total.buckets))
            .collect();
        write_chunk(writer, after_sec, &histograms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buckets::ActScale;
    use crate::times::Times;

    fn text(write: impl FnOnce(&mut Vec<u8>) -> io::Result<()>) -> String {
        let mut out = Vec::new();
        write(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_histogram_is_printed_with_four_nonzero_buckets_per_line() {
        let mut reads = ActBuckets::new(ActScale::Milliseconds);
        for (bucket, count) in [(0, 1914), (1, 48), (2, 30), (3, 9), (9, 1)] {
            reads.add(bucket, count);
        }
        let none = ActBuckets::new(ActScale::Milliseconds);
        assert_eq!(
            text(|out| write_chunk(out, 1, &[("reads", &reads), ("large-block-reads", &none)])),
            "after 1 sec:\n\
             reads (2002 total)\n \
             (00: 0000001914) (01: 0000000048) (02: 0000000030) (03: 0000000009)\n \
             (09: 0000000001)\n\
             large-block-reads (0 total)\n\n"
        );
    }

    #[test]
    fn a_histogram_with_exactly_four_buckets_has_no_empty_line() {
        let mut reads = ActBuckets::new(ActScale::Milliseconds);
        (0..4).for_each(|bucket| reads.add(bucket, 1));
        assert!(!text(|out| write_histogram(out, "reads", &reads)).contains("\n\n"));
    }

    #[test]
    fn the_header_says_who_wrote_it_and_hides_settings_from_acts_script() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let header = LogHeader {
            written_by: "flashproof 0.1.0".to_owned(),
            configuration: vec![
                pair("device-names", "/dev/x"),
                pair("report-interval-sec", "1"),
            ],
            derived_rates: vec![pair("large-block-reads-per-sec", "23.53")],
            settings: vec![pair("arrival", "paced")],
            device_lines: vec!["/dev/x size = 1 bytes".to_owned()],
            histogram_names: vec!["reads".to_owned()],
            ..LogHeader::default()
        };
        assert_eq!(
            text(|out| write_header(out, &header)),
            "\nACT version 6.6\nStorage device IO test\nwritten by flashproof 0.1.0, in ACT's log format\n\n\
             ACT-STORAGE CONFIGURATION\ndevice-names: /dev/x\nreport-interval-sec: 1\n\n\
             DERIVED CONFIGURATION\nlarge-block-reads-per-sec: 23.53\n\n\
             FLASHPROOF SETTINGS\narrival: paced\n\n\
             /dev/x size = 1 bytes\n\nHISTOGRAM NAMES\nreads\n\n"
        );
    }

    #[test]
    fn an_error_with_a_line_break_is_written_as_one_line() {
        let found = text(|out| write_error_line(out, "reading /dev/x:\nEIO"));
        assert_eq!(found, "ERROR: reading /dev/x: EIO\n");
    }

    fn layout() -> Layout {
        let streams = [
            ("reads", true),
            ("large-block-reads", false),
            ("tomb-raider-reads", false),
        ];
        let mut layout = crate::testing::layout(&streams, 1.0, ["/dev/a", "/dev/b"]);
        layout.streams[2].act = None;
        Layout {
            thresholds_ns: [1_000_000].into(),
            ..layout
        }
    }

    #[test]
    fn histogram_names_are_in_acts_order_and_without_the_tomb_raider() {
        assert_eq!(
            histogram_names(&layout(), 0),
            ["reads", "/dev/a-reads", "/dev/b-reads", "large-block-reads"]
        );
    }

    #[test]
    fn reports_are_cumulative_and_include_the_sum_over_all_devices() {
        let layout = layout();
        let mut totals = ServiceTotals::new(&layout, 0);
        let mut interval = Interval::new(&layout);
        for device in 0..2 {
            interval.cells[layout.cell(0, device)].record(&Times::new(0, 0, 0, 1_500_000), 0, 1536);
        }
        interval.cells[layout.cell(1, 1)].record(&Times::new(0, 0, 0, 1), 0, 131_072);
        totals.add(&interval);
        totals.add(&interval);
        assert_eq!(
            text(|out| totals.write_chunk(out, 2)),
            "after 2 sec:\nreads (4 total)\n (01: 0000000004)\n/dev/a-reads (2 total)\n (01: 0000000002)\n\
             /dev/b-reads (2 total)\n (01: 0000000002)\nlarge-block-reads (2 total)\n (00: 0000000002)\n\n"
        );
    }
}
