//! Reads a run directory, and judges the run again from its contents.
//!
//! Reading stops at the first damaged line, because the end of the damage is unknown. The position of the damage and
//! the length of the intact part are reported. The verdict on the intact part can be a failure, but never a pass.

use super::checksums::{FileCheck, RecordedSums};
use super::file::{self, WholeLines};
use super::no_run;
use super::tables::{self, ColumnMap, TelemetryLine};
use super::tables::{TraceSamples, read_trace};
use super::{
    CHECKSUMS, FORMAT_VERSION, INTERVALS, MANIFEST, Manifest, RunDirError, TELEMETRY, TRACE,
    VERDICT,
};
use crate::blame::{Blame, Blamer};
use crate::cell::Layout;
use crate::counts::CellCounts;
use crate::format::{count, in_one_line};
use crate::judge::{
    End, IntervalCounts, Judge, Outcome, Reason, ReasonCode, Sla, VERDICT_FORMAT_VERSION, Verdict,
};
use std::path::{Path, PathBuf};

#[derive(Debug, Clone)]
pub struct Run {
    pub dir: PathBuf,
    pub manifest: Manifest,
    /// The verdict written at the end; `None` for a run that was killed, had a full disk, or is still running.
    pub written: Option<Verdict>,
    /// The verdict computed again from the tables. Its end is [`End::Unrecorded`] if no verdict was written.
    pub verdict: Verdict,
    pub intervals: u64,
    /// Caveats, one sentence each: the run is incomplete, lines were dropped, verdicts differ.
    pub remarks: Vec<String>,
    /// Damage, one sentence each; also included in `remarks`.
    pub damage: Vec<String>,
}

impl Run {
    /// True if the run ended and wrote its verdict.
    pub fn is_complete(&self) -> bool {
        self.written.is_some()
    }

    /// True if the written verdict matches the verdict computed from the tables; `None` without a written verdict.
    pub fn agrees(&self) -> Option<bool> {
        self.written
            .as_ref()
            .map(|written| written.agrees_with(&self.verdict))
    }
}

/// Reads the run in `dir` and judges it again. Memory does not grow with the run's intervals. A torn end, and
/// everything from the first damaged line on, is dropped with a remark. Errors: the manifest is missing or damaged, a
/// file has a later format, or a system call failed.
pub fn read(dir: &Path) -> Result<Run, RunDirError> {
    read_each(dir, manifest(dir)?, &mut |_, _| {})
}

/// Like [`read`], for a run whose manifest is already read. Calls `on_interval` for every whole interval.
pub fn read_each(
    dir: &Path,
    manifest: Manifest,
    on_interval: EachInterval,
) -> Result<Run, RunDirError> {
    let mut damage = Vec::new();
    let recorded_verdict: Option<Verdict> =
        match file::read(&dir.join(VERDICT), VERDICT_FORMAT_VERSION) {
            Err(RunDirError::Damaged { why, .. }) => {
                damage.push(format!(
                    "{VERDICT} is damaged ({why}): how the run ended is unknown"
                ));
                None
            }
            other => other?,
        };
    let recorded_sums = RecordedSums::read(dir);
    let recorded_verdict = if recorded_sums.foreign_verdict {
        damage.push(format!(
            "{VERDICT} belongs to another run: how this run ended is unknown"
        ));
        None
    } else {
        recorded_verdict
    };
    let mut torn = Vec::new();
    for name in recorded_sums.names() {
        let checked = recorded_sums.check(&name)?;
        let name = in_one_line(&name);
        damage.extend(checked.damage.map(|what| format!("{name} {what}")));
        if checked.torn {
            torn.push(format!("the end of {name} is torn and was dropped"));
        }
    }
    let ReplayedRun {
        judge,
        blamer,
        records,
        intervals,
        remarks: of_samples,
    } = replay(dir, &manifest, on_interval)?;
    damage.extend(
        recorded_sums
            .check_length(intervals)?
            .map(|what| format!("{CHECKSUMS} {what}")),
    );
    damage.extend(
        records
            .damage()
            .filter(|known| !damage.iter().any(|other| other == known))
            .map(str::to_owned),
    );
    let end = recorded_verdict
        .as_ref()
        .map_or(End::Unrecorded, |written| written.end.clone());
    // The number of records read is only in the recorded verdict: the tables do not record single reads.
    let records_read = recorded_verdict
        .as_ref()
        .and_then(|written| written.records_read);
    let mut verdict = Verdict {
        blame: blamer.blame(&judge),
        records_read,
        ..judge.verdict(&end)
    };
    if let Some(written) = &recorded_verdict {
        verdict.unmeasured.clone_from(&written.unmeasured);
        verdict.describe_failures(written.failures.clone(), written.wrong_data.clone());
        verdict.fail_for(written.missed.clone());
        verdict.note(written.notes.clone());
    }
    let of_old_rules = recorded_verdict
        .as_ref()
        .filter(|_| manifest.format_version == 1 && verdict.outcome != Outcome::Fail);
    let by_old_rules = of_old_rules.filter(|_| judge.is_undecidable());
    if let Some(written) = by_old_rules {
        verdict = Verdict {
            blame: verdict.blame,
            worst: verdict.worst,
            ..written.clone()
        };
    }
    let first = match &recorded_verdict {
        None if damage.iter().any(|damage| damage.starts_with(VERDICT)) => None,
        None => Some(format!(
            "this run is incomplete: it has no {VERDICT}, so it was killed, its disk was full, or it is still running"
        )),
        Some(written) if !written.agrees_with(&verdict) => Some(format!(
            "the verdict in {VERDICT} ({}) does not follow from {INTERVALS} and {TELEMETRY}: do not trust this \
             verdict",
            written.outcome
        )),
        Some(_) => None,
    };
    // The missing or damaged part may contain the failure, so a pass is doubtful.
    let doubt = first.iter().chain(&damage).next();
    let is_doubtful = |outcome| match outcome {
        Outcome::Pass | Outcome::Measured => true,
        Outcome::Invalid => !damage.is_empty(),
        Outcome::Fail => false,
    };
    if let Some(doubt) = doubt.filter(|_| is_doubtful(verdict.outcome)) {
        verdict.outcome = Outcome::Invalid;
        verdict
            .reasons
            .insert(0, Reason::new(ReasonCode::Damaged, doubt));
    }
    let rules = by_old_rules.map(|_| {
        "judged by the rules of the version that recorded the run: counts of format 1 do not show in which slice late \
         operations were due"
            .to_owned()
    });
    let only_slices =
        manifest.format_version < 3 && judge.has_several_slices() && !verdict.has_no_limits();
    let only_slices = only_slices.then(|| {
        "judged by whole slices, not by windows between them: the version that recorded the run did not count by halves \
         of slices"
            .to_owned()
    });
    let old_rules = rules
        .iter()
        .chain(&only_slices)
        .map(|text| Reason::new(ReasonCode::OldRules, text));
    verdict.reasons.extend(old_rules);
    let rejudged = recorded_verdict.as_ref().filter(|written| {
        written.format_version < VERDICT_FORMAT_VERSION
            && rules.is_none()
            && written.outcome != verdict.outcome
            && doubt.is_none()
    });
    let rejudged = rejudged.map(|written| {
        format!(
            "judged by today's rules; by the rules of the version that recorded the run, the outcome was {}",
            written.outcome
        )
    });
    let remarks = first
        .iter()
        .cloned()
        .chain(rules)
        .chain(only_slices)
        .chain(rejudged)
        .chain(damage.iter().cloned());
    let remarks = remarks.chain(records.remarks).chain(torn);
    let of_samples = of_samples
        .into_iter()
        .filter(|_| !damage.iter().any(|damage| damage.starts_with(TRACE)));
    let remarks = remarks.chain(of_samples).collect();
    Ok(Run {
        dir: dir.to_owned(),
        manifest,
        written: recorded_verdict,
        verdict,
        intervals,
        remarks,
        damage,
    })
}

/// Errors: `dir` is no run directory (the error describes the contents); the manifest is damaged or of a later version.
pub fn manifest(dir: &Path) -> Result<Manifest, RunDirError> {
    match file::read::<Manifest>(&dir.join(MANIFEST), FORMAT_VERSION) {
        Ok(Some(manifest)) => match manifest.unknown_threshold() {
            None => Ok(manifest),
            Some(why) => Err(RunDirError::Damaged {
                path: dir.join(MANIFEST),
                why,
            }),
        },
        Ok(None) => Err(no_run(dir)),
        Err(RunDirError::Io { .. }) if dir.is_file() => Err(no_run(dir)),
        Err(error) => Err(error),
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct IntervalRecord {
    pub counts: IntervalCounts,
    /// The values of [`Intervals::columns`]; empty texts for values that could not be measured.
    pub telemetry: Vec<String>,
}

/// A callback that gets the names of the telemetry values and an interval.
pub type EachInterval<'a> = &'a mut dyn FnMut(&[String], &IntervalRecord);

#[derive(Debug)]
pub struct Intervals {
    layout: Layout,
    cells: WholeLines,
    cell_columns: ColumnMap,
    telemetry: WholeLines,
    columns: Vec<String>,
    record: IntervalRecord,
    next_index: u64,
    has_ended: bool,
    remarks: Vec<String>,
    damage: Option<String>,
    /// Damage that the checksums found in one of the files; the part before the damage is read.
    file_damage: Option<String>,
}

impl Intervals {
    /// Opens both tables. An invalid first line counts as damage, see [`Self::damage`]. Errors: a failed system call.
    pub fn open(dir: &Path, manifest: &Manifest) -> Result<Self, RunDirError> {
        let recorded_sums = RecordedSums::read(dir);
        let (cells, cells_damage) = open_table(dir, INTERVALS, &recorded_sums)?;
        let (telemetry, telemetry_damage) = open_table(dir, TELEMETRY, &recorded_sums)?;
        let mut intervals = Self {
            layout: manifest.layout(),
            cells,
            // A table without a first line, which names the columns, has no other lines either.
            cell_columns: ColumnMap::default(),
            telemetry,
            columns: Vec::new(),
            record: IntervalRecord::default(),
            next_index: 0,
            has_ended: false,
            remarks: Vec::new(),
            damage: None,
            file_damage: cells_damage.or(telemetry_damage),
        };
        if let Err(error) = intervals.read_headers(&manifest.sla, manifest.format_version) {
            intervals.damaged(error)?;
        }
        Ok(intervals)
    }

    fn read_headers(&mut self, sla: &Sla, format: u32) -> Result<(), RunDirError> {
        if let Some(header) = self.cells.next()? {
            let Some(columns) = ColumnMap::read(header, sla, format) else {
                return Err(self
                    .cells
                    .error(format!("the columns {}", tables::header(sla))));
            };
            self.cell_columns = columns;
        }
        let columns = self.telemetry.next()?.map(tables::telemetry_columns);
        let Some(columns) = columns.unwrap_or_else(|| Some(Vec::new())) else {
            return Err(self.telemetry.error(format!(
                "the columns {} and more",
                tables::telemetry_header(&[])
            )));
        };
        self.columns = columns;
        Ok(())
    }

    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// Remarks about a dropped end. Valid once [`Self::next`] has returned `None`.
    pub fn remarks(&self) -> &[String] {
        &self.remarks
    }

    /// The first damaged line, and the amount of data before it. Valid once [`Self::next`] has returned `None`.
    pub fn damage(&self) -> Option<&str> {
        self.damage
            .as_deref()
            .or(self.file_damage.as_deref().filter(|_| self.has_ended))
    }

    /// `None` at the end of the complete data: the end of the tables, or the first damaged line. Errors: a failed
    /// system call. Not an iterator, because the record is borrowed and reused: memory does not grow with the run.
    #[expect(
        clippy::should_implement_trait,
        reason = "it lends, which iterators cannot"
    )]
    pub fn next(&mut self) -> Result<Option<&IntervalRecord>, RunDirError> {
        if self.has_ended {
            return Ok(None);
        }
        match self.read_interval() {
            Ok(IntervalRead::Whole) => {
                self.next_index += 1;
                Ok(Some(&self.record))
            }
            Ok(IntervalRead::End { cut_sec }) => self.end(cut_sec).map(|()| None),
            Err(error) => self.damaged(error).map(|()| None),
        }
    }

    /// Reads the next interval into `record`. The caller treats an error about a line as damage.
    fn read_interval(&mut self) -> Result<IntervalRead, RunDirError> {
        let Some(line) = self.telemetry.next()? else {
            return Ok(IntervalRead::End { cut_sec: None });
        };
        let closing_line =
            TelemetryLine::read(line, self.columns.len(), &mut self.record.telemetry);
        let closing_line = closing_line.map_err(|expected| self.telemetry.error(expected))?;
        let before_sec = self.record.counts.after_sec;
        if closing_line.counts.index != self.next_index
            || closing_line.counts.after_sec <= before_sec
        {
            return Err(self.telemetry.error(format!(
                "interval {} with a time above {before_sec} s",
                self.next_index
            )));
        }
        let after_sec = closing_line.counts.after_sec;
        let lines = closing_line.lines;
        self.begin_record(closing_line);
        for _ in 0..lines {
            let Some(line) = self.cells.next()? else {
                return Ok(IntervalRead::End {
                    cut_sec: Some(after_sec),
                });
            };
            if let Err(expected) =
                self.cell_columns
                    .read_cell(line, &mut self.record.counts, &self.layout)
            {
                self.record.counts.after_sec = before_sec;
                return Err(self.cells.error(expected));
            }
        }
        Ok(IntervalRead::Whole)
    }

    /// Records damage and ends the reading, if `error` is about a line; returns any other error.
    fn damaged(&mut self, error: RunDirError) -> Result<(), RunDirError> {
        let RunDirError::Line {
            path,
            line,
            expected,
            found,
        } = error
        else {
            return Err(error);
        };
        self.has_ended = true;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        self.damage = Some(format!(
            "{name} is damaged at line {line}: expected {expected}, found {found}; intact before this line: \
             {} ({} s); nothing after this line is read",
            count(self.next_index, "interval"),
            self.record.counts.after_sec
        ));
        Ok(())
    }

    fn begin_record(&mut self, closing_line: TelemetryLine) {
        let IntervalCounts {
            mut cells,
            mut carried,
            ..
        } = std::mem::take(&mut self.record.counts);
        cells.clear();
        cells.resize(self.layout.cells(), CellCounts::default());
        carried.clear();
        self.record.counts = IntervalCounts {
            cells,
            carried,
            ..closing_line.counts
        };
    }

    /// Ends the reading of both tables. `cut_sec`: time of the interval with incomplete counts.
    fn end(&mut self, cut_sec: Option<u64>) -> Result<(), RunDirError> {
        self.has_ended = true;
        let mut unclosed: u64 = 0;
        loop {
            match self.cells.next() {
                Ok(Some(_)) => unclosed += 1,
                Ok(None) => break,
                Err(error) => return self.damaged(error),
            }
        }
        for table in [&self.cells, &self.telemetry]
            .into_iter()
            .filter(|table| table.torn)
        {
            self.remarks.push(format!(
                "the last line of {} is torn and was dropped",
                table.name()
            ));
        }
        if let Some(cut_sec) = cut_sec {
            let name = self.cells.name();
            self.remarks
                .push(format!("{name} ends within the interval that closes at {cut_sec} s: this interval was dropped"));
        }
        if unclosed > 0 {
            let name = self.cells.name();
            self.remarks.push(format!(
                "dropped from the end of {name}: {} of an unfinished interval",
                count(unclosed, "line")
            ));
        }
        Ok(())
    }
}

/// Opens the table `name` up to its damage, which is returned as a phrase.
fn open_table(
    dir: &Path,
    name: &str,
    recorded_sums: &RecordedSums,
) -> Result<(WholeLines, Option<String>), RunDirError> {
    let FileCheck {
        good_bytes, damage, ..
    } = recorded_sums.check(name)?;
    let table = WholeLines::open(dir.join(name))?.limited(good_bytes);
    Ok((table, damage.map(|what| format!("{name} {what}"))))
}

enum IntervalRead {
    /// An interval with all its lines.
    Whole,
    /// The end of a table. `cut_sec`: time of the interval within which intervals.csv ends, if any.
    End { cut_sec: Option<u64> },
}

/// A judge and a blamer that got the undamaged part of a run.
pub(super) struct ReplayedRun {
    pub(super) judge: Judge,
    pub(super) blamer: Blamer,
    /// The tables, read to their end or to the damage.
    pub(super) records: Intervals,
    pub(super) intervals: u64,
    /// Remarks about damaged trace samples. A run is readable without samples, which only explain slow operations.
    pub(super) remarks: Vec<String>,
}

/// Feeds the run in `dir` to a judge and a blamer. Memory does not grow with the run's intervals.
pub(super) fn replay(
    dir: &Path,
    manifest: &Manifest,
    on_interval: EachInterval,
) -> Result<ReplayedRun, RunDirError> {
    let mut records = Intervals::open(dir, manifest)?;
    let columns = records.columns().to_vec();
    let mut judge = manifest.judge();
    let mut blamer = manifest.blamer(&judge, &columns);
    let TraceSamples { lines, remarks } =
        read_trace(dir, manifest).unwrap_or_else(|error| TraceSamples {
            lines: Vec::new(),
            remarks: vec![error.to_string()],
        });
    let mut lines = lines.iter().peekable();
    let mut intervals = 0;
    while let Some(record) = records.next()? {
        // As in a live run, the blamer gets each sample before the intervals that the sample overlaps.
        while let Some(line) = lines.next_if(|line| line.at_sec * 1e9 < record.counts.end_ns as f64)
        {
            blamer.trace(line);
        }
        judge.add_counts(&record.counts);
        blamer.interval(&record.counts, &record.telemetry);
        on_interval(&columns, record);
        intervals += 1;
    }
    Ok(ReplayedRun {
        judge,
        blamer,
        records,
        intervals,
        remarks,
    })
}

/// Blame for the slices over a limit in the run in `dir`, which may be unfinished. Errors: as [`read`].
pub fn blame(dir: &Path) -> Result<Vec<Blame>, RunDirError> {
    let ReplayedRun { judge, blamer, .. } = replay(dir, &manifest(dir)?, &mut |_, _| {})?;
    Ok(blamer.blame(&judge))
}
