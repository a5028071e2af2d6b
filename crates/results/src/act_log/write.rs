//! Writing ACT's log: header, chunks, error lines.
//!
//! Every function writes whole lines and flushes nothing; the caller decides when a chunk is on disk.

use super::{DERIVED_TITLE, Header, NAMES_TITLE, SETTINGS_TITLE, WRITTEN_BY, WRITTEN_BY_TAIL};
use crate::buckets::ActBuckets;
use std::io::{self, Write};

/// Columns of a histogram's line. Source: ACT 6.6, `src/common/histogram.c`, `histogram_dump`.
const COLUMNS: usize = 4;

/// Writes the header. Control characters become spaces, so that a line stays a line.
pub fn write_header<W: Write>(out: &mut W, header: &Header) -> io::Result<()> {
    writeln!(out, "\nACT version {}\n{}", header.act_version, header.test.banner())?;
    if !header.written_by.is_empty() {
        writeln!(out, "{WRITTEN_BY}{}{WRITTEN_BY_TAIL}", one_line(&header.written_by))?;
    }
    writeln!(out)?;
    write_block(out, header.test.configuration_title(), &header.configuration)?;
    write_block(out, DERIVED_TITLE, &header.derived)?;
    if !header.settings.is_empty() {
        write_block(out, SETTINGS_TITLE, &header.settings)?;
    }
    for line in &header.device_lines {
        writeln!(out, "{}", one_line(line))?;
    }
    writeln!(out, "\n{NAMES_TITLE}")?;
    for name in &header.histogram_names {
        writeln!(out, "{}", one_line(name))?;
    }
    writeln!(out)
}

fn write_block<W: Write>(out: &mut W, title: &str, lines: &[(String, String)]) -> io::Result<()> {
    writeln!(out, "{title}")?;
    for (name, value) in lines {
        writeln!(out, "{}: {}", one_line(name), one_line(value))?;
    }
    writeln!(out)
}

/// Writes the chunk of one report.
///
/// Shape: the histograms in the order of the header's names, each with everything counted since the
/// run began. `after_sec` is the nominal time of the report.
pub fn write_chunk<W: Write>(out: &mut W, after_sec: u64, histograms: &[(&str, &ActBuckets)]) -> io::Result<()> {
    writeln!(out, "after {after_sec} sec:")?;
    for (name, buckets) in histograms {
        write_histogram(out, name, buckets)?;
    }
    writeln!(out)
}

pub(super) fn write_histogram<W: Write>(out: &mut W, name: &str, buckets: &ActBuckets) -> io::Result<()> {
    writeln!(out, "{name} ({} total)", buckets.total())?;
    let mut column = 0;
    for (bucket, count) in buckets.counts().iter().enumerate().filter(|(_, count)| **count != 0) {
        write!(out, " ({bucket:02}: {count:010})")?;
        column += 1;
        if column % COLUMNS == 0 {
            writeln!(out)?;
        }
    }
    if column % COLUMNS != 0 {
        writeln!(out)?;
    }
    Ok(())
}

/// Writes one line with an error, as ACT does between its chunks.
pub fn write_error_line<W: Write>(out: &mut W, message: &str) -> io::Result<()> {
    writeln!(out, "ERROR: {}", one_line(message))
}

fn one_line(text: &str) -> String {
    text.replace(char::is_control, " ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buckets::ActScale;

    fn text(write: impl FnOnce(&mut Vec<u8>) -> io::Result<()>) -> String {
        let mut out = Vec::new();
        write(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_chunk_prints_four_nonzero_buckets_a_line() {
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
    fn four_buckets_leave_no_empty_line_that_would_end_the_chunk() {
        let mut reads = ActBuckets::new(ActScale::Milliseconds);
        (0..4).for_each(|bucket| reads.add(bucket, 1));
        assert!(!text(|out| write_histogram(out, "reads", &reads)).contains("\n\n"));
    }

    #[test]
    fn the_header_says_who_wrote_it_and_hides_settings_from_acts_script() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let header = Header {
            written_by: "flashproof 0.1.0".to_owned(),
            configuration: vec![pair("device-names", "/dev/x"), pair("report-interval-sec", "1")],
            derived: vec![pair("large-block-reads-per-sec", "23.53")],
            settings: vec![pair("arrival", "paced")],
            device_lines: vec!["/dev/x size = 1 bytes".to_owned()],
            histogram_names: vec!["reads".to_owned()],
            ..Header::default()
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
    fn an_error_line_stays_one_line() {
        assert_eq!(text(|out| write_error_line(out, "reading /dev/x:\nEIO")), "ERROR: reading /dev/x: EIO\n");
    }
}
