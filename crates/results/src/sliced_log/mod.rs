//! ACT's log by slice: the counts of the requested histograms, and the load compared with the header.
//!
//! The reports of a log are cumulative, so a slice is the difference of two reports, and only the reports at the ends of
//! slices are read from a day's log.
//!
//! A slice ends at a report whose time is a multiple of the slice length, and begins at the previous such report; it
//! exists only if the log has both reports. The rest after the last complete slice is left out. Histograms and buckets
//! are selected as by ACT's script, with its defaults and bounds.

mod load;

pub use load::LoadCheck;

use crate::act_log::{ActLogReader, Chunk, Input, LogHeader, LogReadError, Truncation};
use crate::buckets::{ActBuckets, ActScale};
use crate::format;
use std::ops::RangeInclusive;
use thiserror::Error;

/// Default histograms of the generations of ACT. The first of them that a log has is shown. Loads without reads are possible
/// since ACT 5.1.
const DEFAULTS: [&str; 5] = [
    "reads",
    "trans-reads",
    "READS",
    "writes",
    "large-block-writes",
];

/// A log whose header has been read.
#[derive(Debug)]
pub struct LogReader<'a> {
    name: String,
    pub reader: ActLogReader<'a>,
    pub interval_sec: u64,
}

impl<'a> LogReader<'a> {
    /// `name`: the log's name in tables and messages. Errors: the header is unreadable, or has no report interval.
    pub fn open(name: &str, input: impl Into<Input<'a>>) -> Result<Self, SlicedLogError> {
        let name = name.to_owned();
        let reader = ActLogReader::new(input).map_err(|source| SlicedLogError::Read {
            log: name.clone(),
            source,
        })?;
        let interval = reader.header().configured("report-interval-sec");
        if let Some(interval_sec) = interval
            .and_then(|text| text.trim().parse().ok())
            .filter(|sec| *sec > 0)
        {
            return Ok(Self {
                name,
                reader,
                interval_sec,
            });
        }
        let found = interval.map_or_else(|| "missing".to_owned(), |text| format!("{text:?}"));
        let version = reader.header().act_version.clone();
        Err(SlicedLogError::Interval {
            log: name,
            version,
            found,
        })
    }

    /// Reads the log to its end, in slices of `slice_sec`, a multiple of its interval. `histograms`: names of the
    /// requested histograms; `edges`: buckets after which operations are counted, ascending. Damage is no error here:
    /// everything before the damage is read, and [`SlicedLog::damage`] describes it. Errors: a name that matches
    /// several histograms.
    pub fn read(
        &mut self,
        slice_sec: u64,
        histograms: &[String],
        edges: &[usize],
    ) -> Result<SlicedLog, SlicedLogError> {
        let histograms = histograms
            .iter()
            .map(|name| self.resolve(name))
            .collect::<Result<Vec<_>, _>>()?;
        let mut log = SlicedLog {
            name: self.name.clone(),
            header: self.reader.header().clone(),
            names: self.reader.names().to_vec(),
            scale: self.reader.scale(),
            interval_sec: self.interval_sec,
            slice_sec,
            edges: edges.to_vec(),
            slices: Vec::new(),
            histograms,
            missing: Vec::new(),
            complete_sec: 0,
            load: LoadCheck::for_log(self.reader.header(), self.reader.names()),
            devices_fell_behind: false,
            truncation: None,
            damage: None,
        };
        let mut previous = Chunk {
            after_sec: 0,
            histograms: vec![ActBuckets::new(log.scale); self.reader.names().len()],
        };
        while let Some(next) = self
            .reader
            .next_chunk_at(|after_sec| after_sec.is_multiple_of(slice_sec))
        {
            match next {
                Ok(chunk) => {
                    log.add(&previous, &chunk);
                    log.load.add(&chunk, false);
                    previous = chunk;
                }
                Err(error) => log.damage = Some(error),
            }
        }
        log.complete_sec = self.reader.complete_sec();
        log.truncation = self.reader.truncation();
        log.devices_fell_behind = self.reader.devices_fell_behind();
        if log.truncation.is_none() && log.damage.is_none() {
            log.load.add(self.reader.last_chunk(), true);
        }
        log.note_missing(previous.after_sec / slice_sec, log.complete_sec / slice_sec);
        Ok(log)
    }

    /// The histogram shown when none is named: the reads of all devices, or their writes in a log without reads.
    pub fn default_histogram(&self) -> String {
        let has = |name: &&&str| self.reader.names().iter().any(|known| known == **name);
        (*DEFAULTS.iter().find(has).unwrap_or(&DEFAULTS[0])).to_owned()
    }

    /// The histogram called `requested_name`, or the only histogram whose name begins with it, as in ACT's script.
    fn resolve(&self, requested_name: &str) -> Result<SlicedHistogram, SlicedLogError> {
        let names = self.reader.names();
        let starting: Vec<usize> = (0..names.len())
            .filter(|index| names[*index].starts_with(requested_name))
            .collect();
        let exact = starting
            .iter()
            .find(|index| names[**index] == requested_name);
        let log = self.name.clone();
        let name = requested_name.to_owned();
        if exact.is_none() && starting.len() > 1 {
            let fits = starting.iter().map(|index| names[*index].clone()).collect();
            return Err(SlicedLogError::Ambiguous {
                log,
                requested: name,
                fits,
            });
        }
        let index = exact.or(starting.first()).copied();
        Ok(SlicedHistogram {
            name,
            index,
            totals: Vec::new(),
            ops_over: Vec::new(),
        })
    }
}

/// `requested_sec` rounded up to a common multiple of the logs' intervals, so that slices end together.
pub fn common_slice_sec(requested_sec: u64, intervals_sec: &[u64]) -> Result<u64, SlicedLogError> {
    let common = intervals_sec
        .iter()
        .try_fold(1_u64, |common, interval_sec| {
            let interval_sec = (*interval_sec).max(1);
            common.checked_mul(interval_sec / format::greatest_divisor(common, interval_sec))
        });
    let slice_sec =
        common.and_then(|common| requested_sec.max(1).div_ceil(common).checked_mul(common));
    slice_sec.ok_or_else(|| {
        let intervals: Vec<_> = intervals_sec.iter().map(|sec| format!("{sec} s")).collect();
        SlicedLogError::Slices {
            slice_sec: requested_sec,
            intervals: intervals.join(", "),
        }
    })
}

/// A log by slice, as tables show the log.
#[derive(Debug)]
pub struct SlicedLog {
    pub name: String,
    pub header: LogHeader,
    pub names: Vec<String>,
    pub scale: ActScale,
    pub interval_sec: u64,
    pub slice_sec: u64,
    /// Buckets, ascending; for each of them, the operations in later buckets were counted.
    pub edges: Vec<usize>,
    /// Numbers of the slices that could be formed, from 1, ascending.
    pub slices: Vec<u64>,
    /// The requested histograms, in the order of the request.
    pub histograms: Vec<SlicedHistogram>,
    /// Ranges of slices that do not exist, because the log lacks a report at one of their ends.
    pub missing: Vec<RangeInclusive<u64>>,
    pub complete_sec: u64,
    /// Operations compared with the rates of the header.
    pub load: LoadCheck,
    /// True if the test stopped because the devices fell behind.
    pub devices_fell_behind: bool,
    /// The end of the log, if it is within a report.
    pub truncation: Option<Truncation>,
    /// The error that stopped the reading.
    pub damage: Option<LogReadError>,
}

impl SlicedLog {
    fn add(&mut self, previous: &Chunk, chunk: &Chunk) {
        let previous_slice = previous.after_sec / self.slice_sec;
        let slice = chunk.after_sec / self.slice_sec;
        if slice > previous_slice + 1 {
            self.note_missing(previous_slice, slice);
            return;
        }
        self.slices.push(slice);
        for histogram in &mut self.histograms {
            let Some(index) = histogram.index else {
                continue;
            };
            // The reader has checked that counts never shrink.
            let counts = chunk.histograms[index]
                .counts()
                .iter()
                .zip(previous.histograms[index].counts());
            let counts: Vec<u64> = counts
                .map(|(now, before)| now.saturating_sub(*before))
                .collect();
            histogram.totals.push(counts.iter().sum());
            histogram.ops_over.extend(
                self.edges
                    .iter()
                    .map(|edge| counts[edge + 1..].iter().sum::<u64>()),
            );
        }
    }

    /// Notes that the slices after `slice_before`, up to `last`, are missing.
    fn note_missing(&mut self, slice_before: u64, last: u64) {
        if last > slice_before {
            self.missing.push(slice_before + 1..=last);
        }
    }

    pub fn has_slices(&self) -> bool {
        !self.slices.is_empty()
            && self
                .histograms
                .iter()
                .any(|histogram| histogram.index.is_some())
    }

    /// Counts of a histogram in the slice at `position` of [`Self::slices`]; `None` if the log lacks the histogram.
    pub fn slice<'a>(
        &self,
        histogram: &'a SlicedHistogram,
        position: usize,
    ) -> Option<LogSlice<'a>> {
        let total = *histogram.totals.get(position)?;
        let width = self.edges.len();
        let over = &histogram.ops_over[position * width..(position + 1) * width];
        Some(LogSlice {
            total,
            ops_over: over,
            slice_sec: self.slice_sec,
        })
    }

    pub fn slices_of<'a>(
        &'a self,
        histogram: &'a SlicedHistogram,
    ) -> impl Iterator<Item = (u64, LogSlice<'a>)> {
        let numbered = self.slices.iter().enumerate();
        numbered.filter_map(|(position, number)| Some((*number, self.slice(histogram, position)?)))
    }

    /// Position of `bucket` in [`Self::edges`]; `None`: no count begins after this bucket.
    pub fn edge(&self, bucket: usize) -> Option<usize> {
        self.edges.binary_search(&bucket).ok()
    }

    /// Remarks for the reader of the table, each one sentence.
    pub fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        let name = &self.name;
        if let Some(Truncation { line, complete_sec }) = self.truncation {
            remarks.push(format!(
                "{name} ends at line {line} within a report, which is left out: the log is complete up to \
                 {complete_sec} s"
            ));
        }
        for SlicedHistogram {
            name: requested,
            index,
            ..
        } in &self.histograms
        {
            match index.and_then(|index| self.names.get(index)) {
                Some(found) if found == requested => {}
                Some(found) => {
                    remarks.push(format!(
                        "{name} has no histogram {requested:?}: {found:?}, the only histogram with this prefix, is shown"
                    ));
                }
                None => remarks.push(format!(
                    "{name} has no histogram {requested:?}: it has {}",
                    self.names.join(", ")
                )),
            }
        }
        remarks.extend(self.missing.iter().map(|missing| {
            let first = missing.start();
            let last = missing.end();
            let sec = self.slice_sec;
            let slices = if first == last { format!("slice {first}") } else { format!("slices {first} to {last}") };
            format!("{name}: nothing is shown for {slices} of {sec} s: a report at the start or end is missing")
        }));
        remarks
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlicedHistogram {
    pub name: String,
    /// Index among the log's histograms; `None` if the log has no histogram of that name.
    pub index: Option<usize>,
    totals: Vec<u64>,
    ops_over: Vec<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogSlice<'a> {
    pub total: u64,
    /// Operations in the buckets after each of the log's edges.
    pub ops_over: &'a [u64],
    slice_sec: u64,
}

impl LogSlice<'_> {
    /// Percentage of operations after an edge; `None` without operations.
    pub fn percent_over(&self, edge: usize) -> Option<f64> {
        (self.total > 0).then(|| self.ops_over[edge] as f64 * 100.0 / self.total as f64)
    }

    pub fn iops(&self) -> f64 {
        self.total as f64 / self.slice_sec as f64
    }
}

#[derive(Debug, Error)]
pub enum SlicedLogError {
    #[error("reading {log}, {source}; give a complete log of act_storage, act_index or flashproof")]
    Read { log: String, source: LogReadError },
    #[error(
        "reading {log} - its configuration has report-interval-sec {found}, but slices need a whole number of seconds \
         above 0; give a log with its complete header"
    )]
    Interval {
        log: String,
        version: String,
        found: String,
    },
    #[error("reading {log} - {requested:?} is the beginning of {} histograms: {}; name one of them", .fits.len(), .fits.join(", "))]
    Ambiguous {
        log: String,
        requested: String,
        fits: Vec<String>,
    },
    #[error(
        "slices of {slice_sec} s do not fit report intervals of {intervals}: their common multiple is too long; \
         analyse the logs one by one"
    )]
    Slices { slice_sec: u64, intervals: String },
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{ACT_LOG_NAMES, act_log_text, sliced_log_reader};

    fn read(text: &str, slice_sec: u64, names: &[&str]) -> SlicedLog {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        sliced_log_reader(text)
            .read(slice_sec, &names, &[0, 3])
            .unwrap()
    }

    #[test]
    fn a_slice_is_the_difference_of_two_reports() {
        // Each second adds 6 fast reads, 3 of 1 to 2 ms and 1 of 8 to 16 ms.
        let log = read(&act_log_text(10), 4, &["reads"]);
        assert_eq!(log.slices, [1, 2]);
        let slices: Vec<_> = log.slices_of(&log.histograms[0]).collect();
        let found = slices.iter().map(|(number, _)| *number).collect::<Vec<_>>();
        assert_eq!(found, [1, 2]);
        for (_, slice) in slices {
            assert_eq!((slice.total, slice.ops_over), (40, &[16, 4][..]));
            assert_eq!((slice.percent_over(0), slice.iops()), (Some(40.0), 10.0));
        }
        assert_eq!(log.complete_sec, 10);
        assert_eq!(log.remarks(), Vec::<String>::new());
    }

    #[test]
    fn an_exact_histogram_name_is_preferred_to_a_longer_name_with_this_prefix() {
        let text = act_log_text(2).replace("/dev/x-reads", "reads-x");
        let log = read(&text, 1, &["reads", "reads-"]);
        assert_eq!(
            log.histograms
                .iter()
                .map(|histogram| histogram.index)
                .collect::<Vec<_>>(),
            [Some(0), Some(1)]
        );
        let names = ["rea".to_owned()];
        let error = sliced_log_reader(&text)
            .read(1, &names, &[0])
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("\"rea\" is the beginning of 2 histograms: reads, reads-x"),
            "{error}"
        );
    }

    #[test]
    fn a_report_time_far_in_the_future_takes_no_memory_for_the_missing_slices() {
        let text = act_log_text(3).replace("after 3 sec:", "after 18446744073709551615 sec:");
        let log = read(&text, 1, &ACT_LOG_NAMES);
        assert_eq!(log.slices, [1, 2]);
        assert!(
            log.remarks()[0].contains("slices 3 to 18446744073709551615"),
            "{:?}",
            log.remarks()
        );
    }

    #[test]
    fn a_lost_report_omits_the_slices_at_both_sides_and_keeps_later_ones() {
        let text = act_log_text(10);
        let lost = text.find("after 4 sec:").unwrap()..text.find("after 5 sec:").unwrap();
        let text = [&text[..lost.start], &text[lost.end..]].concat();
        let log = read(&text, 2, &["reads"]);
        assert!(log.damage.is_none());
        let slices = log.slices_of(&log.histograms[0]);
        let found: Vec<_> = slices
            .map(|(number, slice)| (number, slice.total, slice.ops_over.to_vec()))
            .collect();
        assert_eq!(found, [1, 4, 5].map(|number| (number, 20, vec![8, 2])));
        assert_eq!(
            log.remarks(),
            [
                "a.log: nothing is shown for slices 2 to 3 of 2 s: a report at the start or end is missing"
            ]
        );
    }

    #[test]
    fn the_common_slice_of_several_logs_is_a_multiple_of_their_report_intervals() {
        assert_eq!(common_slice_sec(5, &[1, 2]).unwrap(), 6);
        assert_eq!(common_slice_sec(3600, &[7]).unwrap(), 3605);
        assert_eq!(common_slice_sec(1, &[4, 6, 10]).unwrap(), 60);
        let error = common_slice_sec(1, &[u64::MAX, u64::MAX - 1])
            .unwrap_err()
            .to_string();
        assert!(error.contains("common multiple is too long"), "{error}");
        assert!(common_slice_sec(u64::MAX, &[2]).is_err());
    }
}
