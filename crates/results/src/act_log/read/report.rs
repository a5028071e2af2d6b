//! One report: its time, its histograms, their buckets.
//!
//! Parsing is strict, because a verdict depends on it. A partial line at the end of the file is no error: the log ends
//! there.

use super::error::{Fault, ReadError};
use super::lines::{self, Line, number};
use super::{Chunk, HISTOGRAMS_MAX, Reader};
use crate::buckets::{ACT_BUCKETS, ActBuckets};
use std::io::Read;

impl<R: Read> Reader<R> {
    /// The time of a report, by its first line.
    pub(super) fn after_sec(&self, line: &Line) -> Result<u64, Fault> {
        let after = self.dialect.after();
        let after_sec = line.text.strip_prefix(after).and_then(|rest| rest.strip_suffix(" sec:")).and_then(number);
        let Some(after_sec) = after_sec else { return Err(self.fault(line, &format!("\"{after}N sec:\""))) };
        if after_sec <= self.last.after_sec {
            return Err(self.fault(line, &format!("a time after {} sec", self.last.after_sec)));
        }
        Ok(after_sec)
    }

    /// Reads a report from its second line to its empty line.
    pub(super) fn body(&mut self, after_sec: u64) -> Result<Chunk, Fault> {
        let mut histograms = Vec::with_capacity(self.names.len());
        for index in 0..self.names.len() {
            let line = self.first_line_of_histogram()?;
            let total = self.dialect.total(&line.text).filter(|(found, _)| *found == self.names[index]);
            let Some((_, total)) = total else {
                let name = lines::quoted(&self.names[index]);
                return Err(self.fault(&line, &format!("histogram {name} and its total")));
            };
            histograms.push(self.buckets(index, total)?);
        }
        // A chunk with all histograms is complete; the file may end before its empty line.
        match self.report_line()? {
            Some(line) if !line.text.is_empty() => Err(self.fault(&line, "an empty line after the last histogram")),
            _ => Ok(Chunk { after_sec, histograms }),
        }
    }

    /// The first report of a log that has the names of its histograms nowhere else; they are learnt.
    pub(super) fn first_report(&mut self) -> Result<Option<Chunk>, Fault> {
        let after_sec = loop {
            match self.report_line()? {
                None => return Ok(None),
                Some(line) if line.text.is_empty() => {}
                Some(line) => break self.after_sec(&line)?,
            }
        };
        let mut histograms = Vec::new();
        loop {
            let line = self.first_line_of_histogram()?;
            if line.text.is_empty() {
                return Ok(Some(Chunk { after_sec, histograms }));
            }
            let total = self.dialect.total(&line.text).filter(|(name, _)| !lines::is_message(name));
            let Some((name, total)) = total else {
                return Err(self.fault(&line, "a histogram's name and its total"));
            };
            if self.names.len() >= HISTOGRAMS_MAX {
                return Err(self.fault(&line, &format!("at most {HISTOGRAMS_MAX} histograms")));
            }
            self.names.push(name.to_owned());
            self.last.histograms.push(ActBuckets::new(self.scale));
            histograms.push(self.buckets(histograms.len(), total)?);
        }
    }

    /// The next line that can be of a report.
    fn report_line(&mut self) -> Result<Option<Line>, ReadError> {
        let dialect = self.dialect;
        let wanted = |line: &Line| line.can_be_of_report() || dialect.is_queue_length(&line.text);
        self.lines.next_of(wanted, &mut self.messages)
    }

    /// The next line, past the length of the queue that ACT 3 to 5 report first.
    fn first_line_of_histogram(&mut self) -> Result<Line, Fault> {
        loop {
            let line = self.report_line()?.ok_or(Fault::Truncated)?;
            if !(line.whole && self.dialect.is_queue_length(&line.text)) {
                return Ok(line);
            }
        }
    }

    /// Lines of buckets of the histogram at `index`, until they add up to its total.
    fn buckets(&mut self, index: usize, total: u64) -> Result<ActBuckets, Fault> {
        let mut buckets = ActBuckets::new(self.scale);
        let mut sum: u64 = 0;
        let mut lowest = 0;
        while sum < total {
            let line = self.report_line()?.ok_or(Fault::Truncated)?;
            self.bucket_line(&line, index, &mut lowest, &mut sum, &mut buckets)?;
            if sum > total {
                return Err(self.fault(&line, &format!("counts that add up to {total}")));
            }
        }
        self.check_none_vanished(index, &buckets)?;
        Ok(buckets)
    }

    /// Checks that no count vanished: a missing bucket holds 0, and counts never shrink. Otherwise a reader that skips
    /// reports would find a shrinking count later, and a reader of all reports would not.
    fn check_none_vanished(&self, index: usize, buckets: &ActBuckets) -> Result<(), Fault> {
        let counts = self.last.histograms[index].counts().iter().zip(buckets.counts());
        let Some((bucket, (before, _))) = counts.enumerate().find(|(_, (before, now))| before > now) else {
            return Ok(());
        };
        let name = lines::quoted(&self.names[index]);
        Err(Fault::Error(ReadError::Format {
            line: self.lines.number(),
            expected: format!("histogram {name}, bucket {bucket:02}: at least the {before} of the report before"),
            found: "none".to_owned(),
            complete_sec: self.last.after_sec,
        }))
    }

    /// Parses one line of `(bucket: count)` into `buckets`; `lowest` is the lowest bucket that may follow.
    fn bucket_line(
        &self,
        line: &Line,
        index: usize,
        lowest: &mut usize,
        sum: &mut u64,
        buckets: &mut ActBuckets,
    ) -> Result<(), Fault> {
        let name = lines::quoted(&self.names[index]);
        let mut rest = line.text.as_str();
        if rest.is_empty() {
            return Err(self.fault(line, &format!("more buckets of histogram {name}")));
        }
        while !rest.is_empty() {
            let column = rest.strip_prefix(" (").and_then(|rest| rest.split_once(')'));
            let Some((column, after)) = column else {
                return Err(self.fault(line, &format!("a bucket \"(NN: COUNT)\" of histogram {name}")));
            };
            let Some((bucket, count)) = column.split_once(": ") else {
                return Err(self.fault(line, &format!("a bucket \"(NN: COUNT)\" of histogram {name}")));
            };
            let bucket_index = number(bucket).and_then(|bucket| usize::try_from(bucket).ok());
            let bucket_index = bucket_index.filter(|bucket| (*lowest..ACT_BUCKETS).contains(bucket));
            let Some(bucket_index) = bucket_index else {
                let expected = format!("histogram {name}, a bucket from {lowest:02} to {:02}", ACT_BUCKETS - 1);
                return Err(self.fault_at(line, &expected, bucket));
            };
            let Some(count) = number(count).filter(|count| *count > 0) else {
                let expected = format!("histogram {name}, bucket {bucket_index:02}: a count");
                return Err(self.fault_at(line, &expected, count));
            };
            let before = self.last.histograms[index].counts()[bucket_index];
            if count < before {
                let expected =
                    format!("histogram {name}, bucket {bucket_index:02}: at least the {before} of the report before");
                return Err(self.fault_at(line, &expected, &count.to_string()));
            }
            let Some(new_sum) = sum.checked_add(count) else {
                return Err(self.fault(line, "counts that add up to a 64-bit number"));
            };
            *sum = new_sum;
            *lowest = bucket_index + 1;
            buckets.add(bucket_index, count);
            rest = after;
        }
        Ok(())
    }

    fn fault(&self, line: &Line, expected: &str) -> Fault {
        self.fault_at(line, expected, &line.text)
    }

    /// An error, unless the line is the end of a truncated file.
    fn fault_at(&self, line: &Line, expected: &str, found: &str) -> Fault {
        if !line.whole {
            return Fault::Truncated;
        }
        Fault::Error(ReadError::Format {
            line: line.number,
            expected: expected.to_owned(),
            found: lines::quoted(found),
            complete_sec: self.last.after_sec,
        })
    }
}
