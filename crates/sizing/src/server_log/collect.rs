//! Collects the lines of one node, in the order of time, into a [`ServerLog`].

pub(super) mod starts;

use super::clock_steps::{CLOCK_SET, add_steps, is_between};
use super::kinds::{self, KINDS, Treatment};
use super::text::{self, DumpHeader, LogMessage, Stamp};
use super::{BUCKETS, Dump, HistogramUnit, LinePosition, LogError, Oddities, Oddity, ServerLog};
use crate::lines::{LINE_BYTES_MAX, Repeats, Skipped};
use jiff::{SignedDuration, Timestamp};
use results::format::{Grouped, count, span};
use std::collections::BTreeSet;

/// Maximum step of a clock set by NTP; threads that log at the same time differ by less.
const CLOCK_SLACK: SignedDuration = SignedDuration::from_secs(5);
/// A line that is later than the previous line by more than this may have a wrong date: the following lines decide.
const CLOCK_JUMP: SignedDuration = SignedDuration::from_hours(24);
/// Maximum time between the lines of one histogram, and between the two lines of a drive.
const TOGETHER: SignedDuration = SignedDuration::from_secs(5);
/// Maximum number of histogram names, and of drives. A node with 64 namespaces of 16 devices has fewer.
const SERIES_MAX: usize = 8192;
/// Maximum number of histograms and drive lines kept, some 200 bytes each. A day of a node with many features enabled
/// has 300,000; beyond the maximum, entries are thinned to a longer distance.
const KEPT_MAX: usize = 1_000_000;
/// First distance to which entries are thinned.
const THINNED: SignedDuration = SignedDuration::from_secs(15);
/// Maximum number of stored restarts. A node has few restarts. In a file with lines of two nodes, nearly every
/// histogram looks like a restart.
const RESTARTS_MAX: usize = 10_000;

#[derive(Debug, Default)]
pub(super) struct LogCollector {
    log: ServerLog,
    oddities: Oddities,
    /// The histogram to which the next buckets belong.
    open_dump: Option<OpenDump>,
    /// The unfinished last line of a file: the next file may have the rest.
    cut_line: Vec<u8>,
    /// Number of the last line read of the last file.
    last_line: u64,
    repeats: Repeats,
    last_stamp: Option<Stamp>,
    /// The time before the last jump forward.
    before_jump: Option<Timestamp>,
    /// Histograms and drive lines left out because they follow a restart beyond [`RESTARTS_MAX`].
    not_noted: u64,
    section: Vec<String>,
    keys: usize,
    kept_count: usize,
    kept_at_start: usize,
    /// Times of lines whose successor has higher counts but no later time.
    went_back: BTreeSet<Timestamp>,
    kept_max: usize,
    distance: SignedDuration,
    nul_bytes: u64,
    long_lines: (u64, u64),
    other_node: Option<LogError>,
}

#[derive(Debug)]
struct OpenDump {
    name: String,
    dump: Dump,
    counted: u64,
}

impl LogCollector {
    /// A collector for the log of `node`; `None`: the node is not known yet.
    pub(super) fn new(node: Option<String>) -> Self {
        let log = ServerLog {
            node_id: node,
            ..ServerLog::default()
        };
        Self {
            log,
            kept_max: KEPT_MAX,
            ..Self::default()
        }
    }

    /// A collector with less memory, for tests.
    #[cfg(test)]
    pub(super) fn keeping(kept_max: usize) -> Self {
        Self {
            kept_max,
            ..Self::default()
        }
    }

    pub(super) fn end(&self) -> Option<Timestamp> {
        self.log.span.map(|(_, end)| end)
    }

    pub(super) fn files(&self) -> &[String] {
        &self.log.files
    }

    pub(super) fn node_id(&self) -> Option<&String> {
        self.log.node_id.as_ref()
    }

    pub(super) fn unread_lines(&self) -> u64 {
        self.oddities.number(Oddity::Unread)
    }

    pub(super) fn add_remark(&mut self, sentence: String) {
        self.oddities.add_remark(sentence);
    }

    /// Begins a file. `head`: text before its first line with a time, maybe the rest of the previous file's last line.
    pub(super) fn open(&mut self, file: &str, head: &[u8]) {
        let previous = self.log.files.last().cloned().unwrap_or_default();
        self.log.files.push(file.to_owned());
        if !head.is_empty() {
            self.join(head, LinePosition { file, line: 1 });
        }
        // The rest of the previous file's last line was not found: the incomplete line is read as it is.
        if !self.cut_line.is_empty() {
            let cut = std::mem::take(&mut self.cut_line);
            let position = LinePosition {
                file: &previous,
                line: self.last_line,
            };
            self.line(&cut, text::split(&cut), position);
        }
    }

    /// Reads the line `number` of a file. `stamped`: its stamp and the text after the stamp.
    /// Errors: the line is of another node than earlier lines.
    pub(super) fn read(
        &mut self,
        line: &[u8],
        stamped: Option<(Stamp, &[u8])>,
        is_complete: bool,
        file: &str,
        number: u64,
    ) -> Result<(), LogError> {
        self.last_line = number;
        if is_complete {
            self.line(line, stamped, LinePosition { file, line: number });
        } else {
            self.cut_line = line.to_vec();
        }
        self.other_node.take().map_or(Ok(()), Err)
    }

    pub(super) fn close_file(&mut self, skipped: Skipped) {
        self.nul_bytes += skipped.nul_bytes;
        self.long_lines.0 += skipped.long_lines;
        self.long_lines.1 += skipped.long_bytes;
    }

    /// Joins `head` to the unfinished last line of the previous file, if there is one.
    fn join(&mut self, head: &[u8], position: LinePosition<'_>) {
        let cut = std::mem::take(&mut self.cut_line);
        if cut.is_empty() {
            return self.oddities.count(Oddity::Unstamped, position, head);
        }
        self.oddities.count(Oddity::Joined, position, head);
        let line = [&cut[..], head].concat();
        self.line(&line, text::split(&line), position);
    }

    pub(super) fn finish(mut self) -> ServerLog {
        let cut = std::mem::take(&mut self.cut_line);
        let file = self.log.files.last().cloned().unwrap_or_default();
        let position = LinePosition {
            file: &file,
            line: self.last_line,
        };
        // A number at the very end of the file may be truncated.
        if cut.last().is_some_and(u8::is_ascii_digit) {
            self.oddities.add_remark(format!(
                "{file}: the last line is incomplete and left out; the server may still be writing it"
            ));
        } else if !cut.is_empty() {
            self.line(&cut, text::split(&cut), position);
        }
        self.close(position);
        if self.nul_bytes > 0 {
            let bytes = Grouped(self.nul_bytes);
            self.oddities.add_remark(format!(
                "{bytes} NUL bytes before lines, skipped: the log was truncated (copytruncate) while the server wrote \
                 to it"
            ));
        }
        if self.long_lines.0 > 0 {
            let lines = count(self.long_lines.0, "line");
            let bytes = Grouped(self.long_lines.1);
            self.oddities.add_remark(format!(
                "{lines} of more than {LINE_BYTES_MAX} bytes, {bytes} bytes in total, skipped"
            ));
        }
        if self.not_noted > 0 {
            let times = Grouped(RESTARTS_MAX as u64);
            let lines = lines_of_series(self.not_noted);
            self.oddities.add_remark(format!(
                "counters went back more than {times} times: are several nodes in one file? {lines} with further resets \
                 left out"
            ));
        }
        if !self.distance.is_zero() {
            let sec = self.distance.as_secs();
            self.oddities.add_remark(format!(
                "the log exceeds the memory limit: histograms and drive lines closer than {sec} s to the one before \
                 are left out"
            ));
        }
        let dumps = self
            .log
            .histograms
            .iter()
            .filter(|(name, _)| REGULAR.iter().any(|end| name.ends_with(end)))
            .map(|(_, dumps)| dumps.iter().map(|dump| dump.timestamp).collect());
        let lines = self
            .log
            .drives
            .values()
            .map(|lines| lines.iter().map(|line| line.timestamp).collect());
        let series: Vec<Vec<Timestamp>> = dumps.chain(lines).collect();
        for instants in series {
            add_steps(&mut self.log.clock_steps, &instants, |at| {
                self.went_back.contains(at)
            });
        }
        self.log.most_left_out = self.oddities.most_left_out();
        self.log.remarks = self.oddities.remarks();
        self.log
    }

    fn line(&mut self, line: &[u8], stamped: Option<(Stamp, &[u8])>, position: LinePosition<'_>) {
        let Some((stamp, after_stamp)) = stamped else {
            if !line.is_empty() {
                self.oddities.count(Oddity::Unstamped, position, line);
            }
            return;
        };
        let timestamp = self.time(stamp, position);
        let Some(message) = text::parts(after_stamp) else {
            return;
        };
        let is_histogram = message.file == b"hist.c";
        let is_drive = message.context == b"drv_ssd" || message.is_of_memory_engine();
        if (is_histogram || is_drive) && self.repeats.is_repeat(line) {
            return self.oddities.count(Oddity::Repeated, position, line);
        }
        match message {
            _ if is_histogram => self.histogram(message.text, timestamp, position),
            _ if is_drive && text::is_drive_line(message.text) => {
                self.drive(message, timestamp, position)
            }
            _ if is_drive
                && memchr::memmem::find(message.text, text::WBLOCKS.as_bytes()).is_some() =>
            {
                self.write_blocks(message.text, position);
            }
            LogMessage {
                context: b"config", ..
            } => {
                self.node(message, position);
                self.configuration(message.text);
            }
            _ if message.text.starts_with(b"NODE-ID ") => self.node(message, position),
            _ => match (text::start(message.text), kinds::find(message)) {
                (Some(build), _) => self.start(build, timestamp, position),
                (None, Some(kind)) => {
                    if !matches!(KINDS[kind].treatment, Treatment::Ignored(_)) {
                        self.log.events.add(kind, message.text, timestamp);
                    }
                }
                (None, None) if kinds::is_expected(message) => {
                    self.oddities
                        .count(Oddity::UnknownKind, position, message.text);
                }
                (None, None) => {}
            },
        }
    }

    /// The instant of a line. Handles changes of the clock and the time zone.
    fn time(&mut self, stamp: Stamp, position: LinePosition<'_>) -> Timestamp {
        let timestamp = stamp.instant();
        let Some(last) = self.last_stamp.replace(stamp) else {
            self.log.span = Some((timestamp, timestamp));
            return timestamp;
        };
        if last == stamp {
            return timestamp;
        }
        if last.offset != stamp.offset {
            let from = last.offset;
            let to = stamp.offset;
            self.oddities.add_remark(format!(
                "{position}: the time zone of the log changes from GMT{from} to GMT{to}"
            ));
        }
        let step = timestamp.duration_since(last.instant());
        if step > CLOCK_JUMP {
            self.before_jump = Some(last.instant());
            if timestamp >= CLOCK_SET && self.log.span.is_some_and(|(begin, _)| begin < CLOCK_SET) {
                self.clock_was_set(timestamp, position);
            }
        } else if step < -CLOCK_SLACK {
            self.clock_went_back(timestamp, step, position);
        }
        if let Some((begin, end)) = &mut self.log.span {
            *end = (*end).max(timestamp);
            if timestamp >= CLOCK_SET || *begin < CLOCK_SET {
                *begin = (*begin).min(timestamp);
            }
        }
        timestamp
    }

    /// Drops entries logged before the machine's clock was set: their true time is unknown.
    fn clock_was_set(&mut self, timestamp: Timestamp, position: LinePosition<'_>) {
        let dropped_text = self.keep_only(|kept| kept >= CLOCK_SET);
        self.log.span = Some((timestamp, timestamp));
        self.oddities.add_remark(format!(
            "{position}: the clock was set to {timestamp}; {dropped_text} with earlier times left out"
        ));
    }

    /// Handles a step back. If the earlier lines had a wrong, later date, they are dropped. Otherwise new lines are
    /// ignored until the clock reaches the previous time again.
    fn clock_went_back(
        &mut self,
        timestamp: Timestamp,
        step: SignedDuration,
        position: LinePosition<'_>,
    ) {
        let step_text = span(step.unsigned_abs().as_secs());
        if self
            .before_jump
            .take()
            .is_none_or(|before| before > timestamp)
        {
            self.oddities.add_remark(format!(
                "{position}: the clock of the log goes back by {step_text}, to {timestamp}"
            ));
            return;
        }
        let dropped_text = self.keep_only(|kept| kept <= timestamp);
        if let Some((_, end)) = &mut self.log.span {
            *end = timestamp;
        }
        self.oddities.add_remark(format!(
            "{position}: earlier lines have times up to {step_text} later; {dropped_text} with such times left out"
        ));
    }

    /// Drops all entries whose time `keeps` rejects. Returns the number of dropped histograms and drive lines, as text.
    fn keep_only(&mut self, keeps: impl Fn(Timestamp) -> bool) -> String {
        let kept_before = self.kept_count;
        self.log
            .histograms
            .values_mut()
            .for_each(|dumps| dumps.retain(|dump| keeps(dump.timestamp)));
        self.log
            .drives
            .values_mut()
            .for_each(|lines| lines.retain(|line| keeps(line.timestamp)));
        self.log.restarts.retain(|restart| keeps(*restart));
        self.count_kept();
        lines_of_series((kept_before - self.kept_count) as u64)
    }

    fn histogram(&mut self, text: &[u8], timestamp: Timestamp, position: LinePosition<'_>) {
        if let Some(header) = text.strip_prefix(text::DUMP) {
            self.close(position);
            match text::dump_header(header) {
                Some(DumpHeader {
                    name,
                    total,
                    unit: Ok(unit),
                }) => {
                    let dump = Dump {
                        timestamp,
                        unit,
                        total,
                        buckets: Vec::new(),
                    };
                    self.open_dump = Some(OpenDump {
                        name: name.to_owned(),
                        dump,
                        counted: 0,
                    });
                    if total == 0 {
                        self.close(position);
                    }
                }
                Some(_) => self.oddities.count(Oddity::UnknownUnit, position, text),
                None => self.oddities.count(Oddity::Unread, position, text),
            }
            return;
        }
        // A linear histogram has no buckets.
        if !text.trim_ascii_start().starts_with(b"(") {
            return;
        }
        let Some((bucket_pairs, count)) = text::buckets(text) else {
            return self.oddities.count(Oddity::Unread, position, text);
        };
        let bucket_pairs = &bucket_pairs[..count];
        // Buckets that do not ascend, or a much later line, belong to another histogram.
        if let Some(open) = &self.open_dump
            && (open.dump.buckets.len() > bucket_pairs[0].0
                || timestamp.duration_since(open.dump.timestamp).abs() > TOGETHER)
        {
            self.close(position);
        }
        let Some(open_dump) = &mut self.open_dump else {
            return self.oddities.count(Oddity::LostBuckets, position, text);
        };
        for (bucket, count) in bucket_pairs {
            if open_dump.dump.buckets.len() <= *bucket {
                open_dump.dump.buckets.resize(bucket + 1, 0);
            }
            open_dump.dump.buckets[*bucket] = *count;
            open_dump.counted = open_dump.counted.saturating_add(*count);
        }
        if open_dump.counted == open_dump.dump.total || open_dump.dump.buckets.len() == BUCKETS {
            self.close(position);
        }
    }

    fn close(&mut self, position: LinePosition<'_>) {
        let Some(OpenDump {
            name,
            mut dump,
            counted,
        }) = self.open_dump.take()
        else {
            return;
        };
        let difference = dump.total.abs_diff(counted);
        if difference > dump.total / 1000 {
            return self
                .oddities
                .count(Oddity::IncompleteDump, position, name.as_bytes());
        }
        if difference > 0 {
            self.oddities
                .count(Oddity::UnevenDump, position, name.as_bytes());
        }
        if self.log.histograms.len() >= SERIES_MAX && !self.log.histograms.contains_key(&name) {
            return self
                .oddities
                .count(Oddity::Unread, position, name.as_bytes());
        }
        dump.buckets.shrink_to_fit();
        if let Some(last) = self
            .log
            .histograms
            .get(&name)
            .and_then(|dumps| dumps.last())
            && dump.timestamp <= last.timestamp
        {
            self.oddities
                .count(Oddity::NotLater, position, name.as_bytes());
            if dump.total > last.total {
                self.went_back.insert(last.timestamp);
            }
            return;
        }
        if let Some(dumps) = self.log.histograms.get_mut(&name)
            && let [.., before, last] = &dumps[..]
            && is_stray([before.counts(), last.counts(), dump.counts()])
        {
            let timestamp = last.timestamp;
            let quote = format!("{name} of {timestamp}");
            self.oddities
                .count(Oddity::StrayDump, position, quote.as_bytes());
            self.log.restarts.retain(|restart| *restart != timestamp);
            dumps.pop();
            self.kept_count -= 1;
        }
        let dumps = self.log.histograms.entry(name).or_default();
        if let Some(last) = dumps.last() {
            let has_restarted = began_anew(last.counts(), dump.counts());
            let unit_changed = last.unit != dump.unit;
            if has_restarted
                && !note_restart(&mut self.log.restarts, last.timestamp, dump.timestamp)
            {
                self.not_noted += 1;
                return;
            }
            if unit_changed {
                let changed = format!("from {} to {}", last.unit, dump.unit);
                self.oddities
                    .count(Oddity::UnitChanged, position, changed.as_bytes());
            } else if !has_restarted
                && dump.timestamp.duration_since(last.timestamp) < self.distance
            {
                return;
            }
        }
        dumps.push(dump);
        self.keep();
    }

    fn drive(&mut self, message: LogMessage<'_>, timestamp: Timestamp, position: LinePosition<'_>) {
        let text = message.text;
        let Some(line) = text::drive_line(text) else {
            return self.oddities.count(Oddity::Unread, position, text);
        };
        let key = (line.namespace.to_owned(), line.device.to_owned());
        if let Some(detail) = line.detail() {
            match self
                .log
                .drives
                .get_mut(&key)
                .and_then(|lines| lines.last_mut())
            {
                Some(of)
                    if of.detail.is_none()
                        && timestamp.duration_since(of.timestamp).abs() <= TOGETHER =>
                {
                    of.detail = Some(detail);
                    of.printed.defrag_io_skips = line.rate(&["defrag-io-skips"]);
                    of.printed.direct_frees = line.rate(&["direct-frees"]);
                }
                // The drive line that this detail belongs to was left out.
                _ if !self.distance.is_zero() || self.oddities.number(Oddity::NotLater) > 0 => {}
                _ => self.oddities.count(Oddity::Unread, position, text),
            }
            return;
        }
        let Some(line) = line.at(timestamp, message.is_of_memory_engine()) else {
            return self.oddities.count(Oddity::Unread, position, text);
        };
        if self.log.drives.len() >= SERIES_MAX && !self.log.drives.contains_key(&key) {
            return self.oddities.count(Oddity::Unread, position, text);
        }
        let lines = self.log.drives.entry(key).or_default();
        if let Some(last) = lines.last() {
            if line.timestamp <= last.timestamp {
                self.oddities.count(Oddity::NotLater, position, text);
                if line.writes > last.writes {
                    self.went_back.insert(last.timestamp);
                }
                return;
            }
            let has_restarted = line.writes < last.writes || line.defrag_reads < last.defrag_reads;
            if has_restarted {
                if !note_restart(&mut self.log.restarts, last.timestamp, line.timestamp) {
                    self.not_noted += 1;
                    return;
                }
            } else if line.timestamp.duration_since(last.timestamp) < self.distance {
                return;
            }
        }
        lines.push(line);
        self.keep();
    }

    /// Counts a new entry, and thins all series if there are too many.
    fn keep(&mut self) {
        self.kept_count += 1;
        if self.kept_count < self.kept_max {
            return;
        }
        // Thins to three quarters of the maximum, so that the next line does not cause another thinning.
        let span = self.log.span.map_or(SignedDuration::ZERO, |(begin, end)| {
            end.duration_since(begin)
        });
        while self.kept_count > self.kept_max / 4 * 3 && self.distance <= span {
            self.distance = (self.distance * 2).max(THINNED);
            self.thin(true);
            if self.kept_count > self.kept_max / 4 * 3 {
                self.thin(false);
            }
        }
    }

    /// Thins all series. `restarts`: if true, entries next to a restart stay.
    fn thin(&mut self, restarts: bool) {
        let restarts = if restarts {
            &self.log.restarts[..]
        } else {
            &[]
        };
        for dumps in self.log.histograms.values_mut() {
            thin(dumps, |dump| dump.timestamp, self.distance, restarts);
        }
        for lines in self.log.drives.values_mut() {
            thin(lines, |line| line.timestamp, self.distance, restarts);
        }
        self.count_kept();
    }

    fn count_kept(&mut self) {
        let dumps: usize = self.log.histograms.values().map(Vec::len).sum();
        self.kept_count = dumps + self.log.drives.values().map(Vec::len).sum::<usize>();
    }
}

fn lines_of_series(number: u64) -> String {
    count(number, "histogram or drive line")
}

/// Drops entries closer than `distance` to the previous kept entry, unless a restart is between them.
fn thin<T>(
    series: &mut Vec<T>,
    time_of: impl Fn(&T) -> Timestamp,
    distance: SignedDuration,
    restarts: &[Timestamp],
) {
    let mut last: Option<Timestamp> = None;
    series.retain(|entry| {
        let timestamp = time_of(entry);
        let keeps = last.is_none_or(|last| {
            timestamp.duration_since(last) >= distance || is_between(restarts, last, timestamp)
        });
        if keeps {
            last = Some(timestamp);
        }
        keeps
    });
}

/// Ends of the names of histograms that show a step of the clock. Other histograms, which no profile needs, are off for
/// some time if benchmarks are turned off.
const REGULAR: [&str; 3] = ["-read", "-write", "-size"];

/// Unit, total and buckets of a dump.
pub(crate) type DumpCounts<'a> = (HistogramUnit, u64, &'a [u64]);

/// True if counts were reset between two histograms of one name. If their units differ, only the totals are comparable.
pub(crate) fn began_anew(last: DumpCounts<'_>, next: DumpCounts<'_>) -> bool {
    let went_back = |(bucket, count): (usize, &u64)| next.2.get(bucket).unwrap_or(&0) < count;
    next.1 < last.1 || last.0 == next.0 && last.2.iter().enumerate().any(went_back)
}

/// True if the second of three dumps has the buckets of another histogram: lines between the two are missing. Counts go
/// back before and after this dump. After a restart, counts would be lower in the third dump, too.
pub(crate) fn is_stray([before, stray, after]: [DumpCounts<'_>; 3]) -> bool {
    began_anew(before, stray) && began_anew(stray, after) && !began_anew(before, after)
}

/// Stores a restart between two lines, unless a restart is already stored there. False if too many restarts are stored.
fn note_restart(restarts: &mut Vec<Timestamp>, after: Timestamp, until: Timestamp) -> bool {
    if is_between(restarts, after, until) {
        return true;
    }
    let has_room = restarts.len() < RESTARTS_MAX;
    if has_room {
        restarts.insert(restarts.partition_point(|restart| *restart < until), until);
    }
    has_room
}
