//! Reading a run directory, and judging the run again from what is in it.

use super::cells::{self, Columns};
use super::lines::{Tail, WholeLines};
use super::tables::{self, TelemetryLine};
use super::trace::{TraceLine, TraceLines};
use super::{FORMAT_VERSION, INTERVALS, MANIFEST, Manifest, RunDirError, TELEMETRY, VERDICT};
use crate::blame::Blamer;
use crate::cell::Layout;
use crate::judge::{CellCounts, End, IntervalCounts, Outcome, VERDICT_FORMAT_VERSION, Verdict};
use serde::de::DeserializeOwned;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// A run as its directory tells it.
#[derive(Debug, Clone)]
pub struct Run {
    /// The directory.
    pub dir: PathBuf,
    /// What was run.
    pub manifest: Manifest,
    /// The verdict that the run wrote at its end; `None` makes the run incomplete: it was killed, its
    /// disk was full, or it goes on still.
    pub written: Option<Verdict>,
    /// The verdict computed again from the tables. Without a written one the end is
    /// [`End::Unrecorded`].
    pub verdict: Verdict,
    /// Intervals that were recorded completely.
    pub intervals: u64,
    /// What a reader should know before trusting the run, each one sentence: that it is incomplete,
    /// what was dropped, that the verdicts differ.
    pub remarks: Vec<String>,
}

impl Run {
    /// Whether the run came to its end and said so.
    pub fn is_complete(&self) -> bool {
        self.written.is_some()
    }

    /// Whether the verdict written is the one that follows from the tables; `None` without one.
    pub fn agrees(&self) -> Option<bool> {
        self.written.as_ref().map(|written| written.agrees_with(&self.verdict))
    }
}

/// Reads the run in `dir` and judges it again.
///
/// Memory does not grow with the run's intervals. What is torn at the end is dropped and remarked.
/// Errors: no manifest, a later format, or a line in the middle that is not what it should be.
pub fn read(dir: &Path) -> Result<Run, RunDirError> {
    let path = dir.join(MANIFEST);
    let manifest: Manifest = json(&path, FORMAT_VERSION)?.ok_or_else(|| no_manifest(&path))?;
    let written: Option<Verdict> = json(&dir.join(VERDICT), VERDICT_FORMAT_VERSION)?;
    let mut records = Intervals::open(dir, &manifest)?;
    let mut judge = manifest.judge();
    let mut blamer = manifest.blamer(&judge, records.columns());
    let mut trace = Trace::open(dir, &manifest);
    let mut intervals = 0;
    while let Some(record) = records.next()? {
        judge.add_counts(&record.counts);
        trace.feed(record.counts.end_ns, &mut blamer);
        blamer.interval(&record.counts, &record.telemetry);
        intervals += 1;
    }
    let end = written.as_ref().map_or(End::Unrecorded, |written| written.end.clone());
    let mut verdict = judge.verdict(&end);
    verdict.blame = blamer.blame(&judge);
    let mut remarks = records.remarks;
    remarks.extend(trace.damage);
    match &written {
        None => remarks.insert(
            0,
            format!(
                "this run is incomplete: it has no {VERDICT}, so it was killed, its disk was full, or it goes on still"
            ),
        ),
        Some(written) if !written.agrees_with(&verdict) => {
            let why = format!(
                "the verdict in {VERDICT} is not the one that follows from {INTERVALS} and {TELEMETRY}: do not trust it"
            );
            // What was cut off or edited may have been the part that failed.
            if verdict.outcome == Outcome::Pass {
                verdict.outcome = Outcome::Invalid;
                verdict.reasons.insert(0, why.clone());
            }
            remarks.insert(0, why);
        }
        Some(_) => {}
    }
    Ok(Run { dir: dir.to_owned(), manifest, written, verdict, intervals, remarks })
}

/// The lines of trace.csv on their way to the blamer, in the order of time. A trace that is damaged
/// only costs explanations, so it is remarked and done without.
struct Trace {
    lines: Option<TraceLines>,
    next: Option<TraceLine>,
    damage: Option<String>,
}

impl Trace {
    fn open(dir: &Path, manifest: &Manifest) -> Self {
        let mut trace = Self { lines: None, next: None, damage: None };
        match TraceLines::open(dir, manifest) {
            Ok(lines) => trace.lines = Some(lines),
            Err(error) => trace.damage = Some(error.to_string()),
        }
        trace.advance();
        trace
    }

    fn advance(&mut self) {
        self.next = None;
        if let Some(lines) = &mut self.lines {
            match lines.next() {
                Ok(next) => self.next = next,
                Err(error) => {
                    self.damage = Some(error.to_string());
                    self.lines = None;
                }
            }
        }
    }

    /// Gives the blamer what begins before `end_ns`.
    fn feed(&mut self, end_ns: u64, blamer: &mut Blamer) {
        while let Some(line) = self.next.filter(|line| line.at_sec * 1e9 < end_ns as f64) {
            blamer.trace(&line);
            self.advance();
        }
    }
}

fn no_manifest(path: &Path) -> RunDirError {
    RunDirError::io("reading", path, ErrorKind::NotFound.into())
}

/// A JSON file of a known version; `None` when there is no such file.
pub(crate) fn json<T: DeserializeOwned>(path: &Path, known: u32) -> Result<Option<T>, RunDirError> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(RunDirError::io("reading", path, error)),
    };
    let damaged = |error: serde_json::Error| RunDirError::Damaged { path: path.to_owned(), why: error.to_string() };
    #[derive(serde::Deserialize)]
    struct Versioned {
        format_version: u64,
    }
    let Versioned { format_version } = serde_json::from_slice(&bytes).map_err(damaged)?;
    if format_version > u64::from(known) {
        return Err(RunDirError::Newer { path: path.to_owned(), found: format_version, known });
    }
    serde_json::from_slice(&bytes).map(Some).map_err(damaged)
}

/// One interval as the tables tell it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct IntervalRecord {
    /// What the judge wants to know.
    pub counts: IntervalCounts,
    /// CPU time (user + system) of the issuing threads, nanoseconds.
    pub cpu_ns: u64,
    /// Most operations in flight at once.
    pub in_flight_max: u64,
    /// The values of [`Intervals::columns`]; empty where something could not be measured.
    pub telemetry: Vec<String>,
}

/// The intervals of a run, one by one.
#[derive(Debug)]
pub struct Intervals {
    layout: Layout,
    cells: WholeLines,
    cell_columns: Columns,
    telemetry: WholeLines,
    columns: Vec<String>,
    record: IntervalRecord,
    next_index: u64,
    ended: bool,
    remarks: Vec<String>,
}

impl Intervals {
    /// Opens both tables of the run in `dir`.
    pub fn open(dir: &Path, manifest: &Manifest) -> Result<Self, RunDirError> {
        let mut cells = WholeLines::open(dir.join(INTERVALS))?;
        let mut telemetry = WholeLines::open(dir.join(TELEMETRY))?;
        let written = cells::header(&manifest.sla);
        // Without a header there is no line either.
        let header = cells.next()?.unwrap_or(&written);
        let Some(cell_columns) = Columns::read(header, &manifest.sla) else {
            return Err(cells.error(format!("the columns {written}")));
        };
        let columns = telemetry.next()?.map(tables::telemetry_columns);
        let Some(columns) = columns.unwrap_or_else(|| Some(Vec::new())) else {
            return Err(telemetry.error(format!("the columns {} and more", tables::telemetry_header(&[]))));
        };
        let (layout, record, remarks) = (manifest.layout(), IntervalRecord::default(), Vec::new());
        Ok(Self { layout, cells, cell_columns, telemetry, columns, record, next_index: 0, ended: false, remarks })
    }

    /// Names of the telemetry values.
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// What was dropped at the end; known once [`Self::next`] has given `None`.
    pub fn remarks(&self) -> &[String] {
        &self.remarks
    }

    /// The next interval, or `None` at the end of what was recorded completely.
    ///
    /// Not an iterator: the record is lent, so that a day of a large run needs no memory.
    #[expect(clippy::should_implement_trait, reason = "it lends, which iterators cannot")]
    pub fn next(&mut self) -> Result<Option<&IntervalRecord>, RunDirError> {
        if self.ended {
            return Ok(None);
        }
        let Some(line) = self.telemetry.next()? else { return self.end(None) };
        let closing = match TelemetryLine::read(line, self.columns.len()) {
            Ok(closing) => closing,
            Err(expected) => return Err(self.telemetry.error(expected)),
        };
        if closing.interval != self.next_index || closing.after_sec <= self.record.counts.after_sec {
            return Err(self
                .telemetry
                .error(format!("interval {} after more than {} s", self.next_index, self.record.counts.after_sec)));
        }
        self.begin_record(&closing);
        for _ in 0..closing.lines {
            let Some(line) = self.cells.next()? else { return self.end(Some(closing.after_sec)) };
            if let Err(expected) = self.cell_columns.read_cell(line, &mut self.record.counts, &self.layout) {
                return Err(self.cells.error(expected));
            }
        }
        self.next_index += 1;
        Ok(Some(&self.record))
    }

    fn begin_record(&mut self, closing: &TelemetryLine) {
        let counts = &mut self.record.counts;
        counts.index = closing.interval;
        counts.after_sec = closing.after_sec;
        counts.end_ns = closing.end_ns;
        counts.timed = self.cell_columns.timed();
        counts.gaps = closing.gaps;
        counts.gaps_over = closing.gaps_over;
        counts.gap_max_ns = closing.gap_max_ns;
        counts.cells.clear();
        counts.cells.resize(self.layout.cells(), CellCounts::default());
        self.record.cpu_ns = closing.cpu_ns;
        self.record.in_flight_max = closing.in_flight_max;
        self.record.telemetry.clone_from(&closing.rest);
    }

    /// Notes how both tables ended. `cut_sec`: the interval whose counts are not all there.
    fn end(&mut self, cut_sec: Option<u64>) -> Result<Option<&IntervalRecord>, RunDirError> {
        self.ended = true;
        let mut unclosed = 0;
        while self.cells.next()?.is_some() {
            unclosed += 1;
        }
        for table in [&self.cells, &self.telemetry] {
            match table.tail() {
                Tail::Clean => {}
                Tail::Torn => self.remarks.push(format!("the last line of {} is torn and was dropped", table.name())),
                Tail::Missing => self.remarks.push(format!("{} is missing", table.name())),
            }
        }
        if let Some(cut_sec) = cut_sec {
            let name = self.cells.name();
            self.remarks.push(format!("{name} ends within the interval after {cut_sec} s: dropped from there on"));
        }
        if unclosed > 0 {
            let name = self.cells.name();
            self.remarks.push(format!("the last {unclosed} lines of {name} are of an interval not closed: dropped"));
        }
        Ok(None)
    }
}
