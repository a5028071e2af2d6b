//! Assigns files to nodes, and sorts each node's files by time.
//!
//! First the head of each file is read, to find its start time and its node. Then all files are read to their ends, in
//! the order of time. A file that names no node is added to a node whose files do not overlap it.

use super::clock_steps::CLOCK_SET;
use super::collect::LogCollector;
use super::prefix::{Prefixes, SOURCES_MAX, SourcedLine};
use super::text;
use super::{LogError, ServerLog};
use crate::lines::{LineReader, Skipped};
use crate::source::{InputFile, SourceError};
use jiff::civil::DateTime;
use jiff::{SignedDuration, Timestamp};
use results::act_log::Input;
use results::format::{bare_start, count as count_of, quoted, quoted_start, span};
use std::collections::BTreeSet;

/// Maximum bytes read to find the node of a file: a ticker line comes every 10 s.
const PROBED_BYTES: usize = 1 << 20;
/// Maximum bytes before the first line with a time, not counting skipped bytes.
const UNSTAMPED_BYTES_MAX: u64 = 16 << 20;
/// The same maximum, with skipped NUL bytes and long lines counted.
const SKIPPED_BYTES_MAX: u64 = 64 << 30;
/// Minimum number of lines read to find the words of the prefix that are ids: more than [`SOURCES_MAX`] values.
const PROBED_LINES: u64 = 2 * SOURCES_MAX as u64;
/// Maximum overlap of the end of a file with the start of the next file.
const SLACK: SignedDuration = SignedDuration::from_secs(10);
/// Unreadable lines of the greatest length from which on a log counts as cut at this length.
const CUT_LINES_MIN: u64 = 8;

/// Steps of time between the lines of a file. Threads log at the same time, so a step of up to 1 s does not count.
#[derive(Debug, Default)]
pub(crate) struct TimeSteps {
    last: Option<DateTime>,
    earlier: u64,
    later: u64,
}

impl TimeSteps {
    pub(crate) fn add(&mut self, at: DateTime) {
        let last = self.last.replace(at).unwrap_or(at);
        let step = at.duration_since(last);
        self.earlier += u64::from(step < SignedDuration::from_secs(-1));
        self.later += u64::from(step > SignedDuration::from_secs(1));
    }

    /// Errors: the newest line of the file `name` is the first. If lines of two nodes alternate, half of the steps go
    /// back.
    pub(crate) fn check(&self, name: &str) -> Result<(), LogError> {
        if self.earlier < 2 || self.earlier <= 2 * self.later {
            return Ok(());
        }
        Err(LogError::Descending {
            name: name.to_owned(),
            earlier: self.earlier,
            later: self.later,
        })
    }
}

/// Greatest length of a file's lines, and the numbers of unreadable lines of this length and of all lengths.
#[derive(Debug, Default)]
struct LongestLines {
    bytes: usize,
    unread: u64,
    all_unread: u64,
}

impl LongestLines {
    fn add(&mut self, bytes: usize, unread: u64) {
        if bytes > self.bytes {
            self.bytes = bytes;
            self.unread = 0;
        }
        self.all_unread += unread;
        if bytes == self.bytes {
            self.unread += unread;
        }
    }

    fn check(&self, name: &str) -> Result<(), LogError> {
        // Lines of an unknown version are unreadable at any length.
        if self.unread < CUT_LINES_MIN || self.unread < self.all_unread / 3 {
            return Ok(());
        }
        Err(LogError::Cut {
            name: name.to_owned(),
            lines: self.unread,
            column: self.bytes,
        })
    }
}

/// Source of the first line of a file that has a time, and the node of this source.
#[derive(Debug, Default)]
struct FirstSource {
    source: Option<String>,
    node: Option<String>,
}

impl FirstSource {
    fn add(&mut self, line: &SourcedLine<'_, '_>) {
        let first = self.source.get_or_insert_with(|| line.source.to_owned());
        if self.node.is_none() && first == line.source {
            self.node = text::parts(line.message()).and_then(text::node_id);
        }
    }
}

/// A file whose beginning has been read.
pub(crate) struct LogFile {
    pub(crate) name: String,
    /// The file's first line, if it has no time: perhaps the end of a line of another file.
    pub(crate) head: Vec<u8>,
    /// Number of lines without a time between `head` and the first line with a time.
    unstamped: u64,
    begin: Timestamp,
    /// Source of the first line with a time, from its prefix.
    source: String,
    pub(crate) node: Option<String>,
    pub(crate) prefixes: Prefixes,
    pub(crate) lines: LineReader<Input<'static>>,
}

impl LogFile {
    /// True if this file begins more than [`SLACK`] before the end of the lines in `collector`.
    fn overlaps(&self, collector: &LogCollector) -> bool {
        collector
            .end()
            .is_some_and(|end| self.begin.duration_since(end) < -SLACK)
    }
}

/// Files sorted by their start times, and the names of empty files. Errors: a file cannot be read or is not a log, or
/// all files are empty.
pub(crate) fn in_order(sources: Vec<InputFile>) -> Result<(Vec<LogFile>, Vec<String>), LogError> {
    let mut files = Vec::new();
    let mut empty = Vec::new();
    for source in sources {
        match begin(source)? {
            Ok(file) => files.push(file),
            Err(name) => empty.push(name),
        }
    }
    if files.is_empty() {
        return Err(LogError::NotServerLog {
            name: empty.join(", "),
            found: "no data".to_owned(),
        });
    }
    // If two files begin in the same second, the file that begins within a line is the later.
    files.sort_by_key(|file| (file.begin, !file.head.is_empty()));
    Ok((files, empty))
}

struct NodeLog {
    source: String,
    /// True if a file begins with this source.
    is_first: bool,
    collector: LogCollector,
}

/// Reads logs of one or several nodes, in any order, into one log per node. Empty files, which rotation leaves, are
/// named in a remark.
pub fn read(sources: Vec<InputFile>) -> Result<Vec<ServerLog>, LogError> {
    let (files, empty) = in_order(sources)?;
    let ids: BTreeSet<_> = files.iter().filter_map(|file| file.node.clone()).collect();
    let has_one_node = ids.len() == 1;
    let has_one_source = files
        .windows(2)
        .all(|pair| pair[0].source == pair[1].source);
    let only_node = ids
        .into_iter()
        .next()
        .filter(|_| has_one_node && has_one_source);
    let mut nodes = Vec::new();
    for file in files {
        read_to_end(file, only_node.as_ref(), &mut nodes)?;
    }
    let mut logs = of_nodes(nodes)?;
    logs.sort_by(|a, b| (&a.node_id, &a.files).cmp(&(&b.node_id, &b.files)));
    if let (Some(log), false) = (logs.first_mut(), empty.is_empty()) {
        log.remarks
            .push(format!("empty files: {}", empty.join(", ")));
    }
    Ok(logs)
}

/// The log of each node. A source is a node if it has counters, or if a file begins with it and it has a node id: a
/// line with an id in another source may be torn or quoted. Other sources are left out with a remark. Errors: two
/// sources are of one node.
fn of_nodes(nodes: Vec<NodeLog>) -> Result<Vec<ServerLog>, LogError> {
    let mut logs: Vec<(String, ServerLog)> = Vec::new();
    let mut others: Vec<_> = Vec::new();
    for NodeLog {
        source,
        is_first,
        collector,
    } in nodes
    {
        let log = collector.finish();
        let is_node = log.has_counters() || is_first && log.node_id.is_some();
        if !is_node {
            others.push((source, log));
            continue;
        }
        let same_node =
            |(of, other): &&(String, ServerLog)| *of != source && other.node_id == log.node_id;
        if let Some((of, other)) = logs
            .iter()
            .filter(|_| log.node_id.is_some())
            .find(same_node)
        {
            let prefixes = format!("{}, {}", quoted_start(of), quoted_start(&source));
            let node = other.node_id.clone().unwrap_or_default();
            return Err(LogError::SeveralPrefixes {
                files: log.files.join(", "),
                node,
                prefixes,
            });
        }
        logs.push((source, log));
    }
    if let (Some((_, log)), Some((source, other))) = (logs.first_mut(), others.first()) {
        let sources = count_of(others.len() as u64, "source");
        let source = quoted_start(source);
        let files = other.files.join(", ");
        log.remarks.push(format!(
            "lines of {sources} without counters are left out; the first has the prefix {source} in {files}"
        ));
    }
    let logs = if logs.is_empty() { others } else { logs };
    Ok(logs.into_iter().map(|(_, log)| log).collect())
}

/// Reads up to the first line with a time, and until the node and the columns of the lines are known. Inner `Err`: the
/// name of an empty file.
fn begin(source: InputFile) -> Result<Result<LogFile, String>, LogError> {
    let (name, input) = source.into_parts();
    let mut lines = LineReader::new(input);
    let mut prefixes = Prefixes::default();
    let mut head = Vec::new();
    let mut description = None;
    let mut first_source = FirstSource::default();
    let mut has_buckets = false;
    let mut unstamped = 0;
    let mut unstamped_bytes = 0;
    let mut has_messages = false;
    let mut first = None;
    let mut probed = Vec::new();
    let mut count = 0;
    // A time before the machine's clock was set is useless, so the search continues.
    while probed.len() < PROBED_BYTES
        && (first_source.node.is_none()
            || !has_buckets
            || count < PROBED_LINES
            || first.is_some_and(|first| first < CLOCK_SET))
    {
        let number = lines.number + 1;
        let skipped = lines.skipped;
        let read = lines.read_bytes;
        let Some(line) = lines.next_line().map_err(|source| SourceError {
            name: name.clone(),
            source,
        })?
        else {
            break;
        };
        if let Some(found) = prefixes.split(line.bytes) {
            first = first
                .filter(|first| *first >= CLOCK_SET)
                .or(Some(found.stamp.instant()));
            first_source.add(&found);
            has_buckets |= text::parts(found.message())
                .and_then(text::after_buckets)
                .is_some();
        } else if first.is_none() {
            if !line.bytes.trim_ascii().is_empty() {
                description.get_or_insert_with(|| described(line.bytes));
            }
            has_messages |= text::message_at(line.bytes).is_some();
            if number == 1 && skipped.nul_bytes == 0 {
                head = line.bytes.to_vec()
            } else {
                unstamped += 1
            }
            unstamped_bytes += line.bytes.len() as u64 + 1;
            if unstamped_bytes > UNSTAMPED_BYTES_MAX || read > SKIPPED_BYTES_MAX {
                break;
            }
            continue;
        }
        probed.extend_from_slice(line.bytes);
        if line.is_complete {
            probed.push(b'\n');
        }
        count += 1;
    }
    let skipped = lines.skipped;
    let Some(begin) = first else {
        if lines.read_bytes == 0 {
            return Ok(Err(name));
        }
        if has_messages {
            return Err(LogError::NoServerTime { name });
        }
        if skipped.has_json && description.is_none() {
            let bytes = skipped.long_bytes;
            return Err(LogError::OneJsonLine { name, bytes });
        }
        let skipped = if skipped == Skipped::default() {
            "only empty lines".to_owned()
        } else {
            skipped.to_string()
        };
        let found = description.unwrap_or(skipped);
        return Err(LogError::NotServerLog { name, found });
    };
    let mut prefixes = Prefixes::learned(&probed);
    let mut first_source = FirstSource::default();
    for line in probed.split(|byte| *byte == b'\n') {
        if let Some(found) = prefixes.split(line) {
            first_source.add(&found);
        }
    }
    lines.unread(&probed, count);
    Ok(Ok(LogFile {
        name,
        head,
        unstamped,
        begin,
        source: first_source.source.unwrap_or_default(),
        node: first_source.node,
        prefixes,
        lines,
    }))
}

fn described(line: &[u8]) -> String {
    let text: String = String::from_utf8_lossy(line).chars().take(60).collect();
    if text.contains(['\0', '\u{fffd}']) {
        "binary data".to_owned()
    } else {
        format!("first {}", quoted(&text))
    }
}

/// Reads a file into the log of its node. A file that names no node belongs to the only node, or to a node of the same
/// source whose files it does not overlap. Lines of another source in the file go to the log of that source.
fn read_to_end(
    file: LogFile,
    only_node: Option<&String>,
    nodes: &mut Vec<NodeLog>,
) -> Result<(), LogError> {
    let first = log_of(&file, only_node, nodes);
    let collector = &mut nodes[first].collector;
    if file.unstamped > 0 {
        let lines = count_of(file.unstamped, "line");
        collector.add_remark(format!(
            "{}: {lines} before the first line with a time, left out",
            file.name
        ));
    }
    collector.open(&file.name, &file.head);
    let LogFile {
        name,
        source,
        mut prefixes,
        mut lines,
        ..
    } = file;
    let mut opened = vec![(source, first)];
    let mut left_out = 0_u64;
    let mut steps = TimeSteps::default();
    let mut longest = LongestLines::default();
    loop {
        let number = lines.number + 1;
        let read = lines.next_line().map_err(|source| SourceError {
            name: name.clone(),
            source,
        })?;
        let Some(line) = read else { break };
        // A line without a stamp counts as a line of the first source.
        let Some(found) = prefixes.split(line.bytes) else {
            nodes[first]
                .collector
                .read(line.bytes, None, line.is_complete, &name, number)?;
            continue;
        };
        steps.add(found.stamp.local);
        let known = opened
            .iter()
            .find(|(source, _)| source == found.source)
            .map(|(_, index)| *index);
        if known.is_none() && opened.len() == SOURCES_MAX {
            left_out += 1;
            continue;
        }
        let index = known.unwrap_or_else(|| {
            let index = log_of_source(found.source, nodes);
            nodes[index]
                .collector
                .open(&format!("{name} ({})", bare_start(found.source)), &[]);
            opened.push((found.source.to_owned(), index));
            index
        });
        let stamped = Some((found.stamp, found.message()));
        let collector = &mut nodes[index].collector;
        let unread = collector.unread_lines();
        collector.read(&found.line, stamped, line.is_complete, &name, number)?;
        longest.add(line.bytes.len(), collector.unread_lines() - unread);
    }
    steps.check(&name)?;
    longest.check(&name)?;
    let collector = &mut nodes[first].collector;
    collector.close_file(lines.skipped);
    if left_out > 0 {
        let lines = count_of(left_out, "line");
        collector.add_remark(format!(
            "{name}: the lines have more than {SOURCES_MAX} different prefixes: {lines} with further prefixes left out"
        ));
    }
    if lines.input.is_cut() {
        collector.add_remark(format!(
            "{name}: the compressed data is truncated: only its readable part is used"
        ));
    }
    Ok(())
}

/// Index of the log of a file's first source; a new log if no log fits.
fn log_of(file: &LogFile, only_node: Option<&String>, nodes: &mut Vec<NodeLog>) -> usize {
    let node = file.node.as_ref().or(only_node);

    let is_same_log = |log: &NodeLog| match file.node {
        Some(_) => log.collector.node_id() == node,
        None if log.source != file.source || file.overlaps(&log.collector) => false,
        None => {
            !file.source.is_empty()
                || log.collector.node_id() == node
                || log.collector.node_id().is_none()
        }
    };
    let Some(index) = nodes.iter().position(is_same_log) else {
        let overlaps_only =
            file.node.is_none() && nodes.iter().any(|log| log.collector.node_id() == node);
        let collector = LogCollector::new(node.filter(|_| !overlaps_only).cloned());
        nodes.push(NodeLog {
            source: file.source.clone(),
            is_first: true,
            collector,
        });
        return nodes.len() - 1;
    };
    nodes[index].is_first = true;
    let collector = &mut nodes[index].collector;
    if let (Some(end), Some(previous_file)) = (collector.end(), collector.files().last())
        && file.overlaps(collector)
    {
        let name = &file.name;
        let early = span(end.duration_since(file.begin).as_secs().unsigned_abs());
        let what = format!(
            "{name} begins {early} before the end of {previous_file}: lines in both files are read once"
        );
        collector.add_remark(what);
    }
    index
}

/// Index of the log whose lines have the source `of`; a new log if there is none.
fn log_of_source(of: &str, nodes: &mut Vec<NodeLog>) -> usize {
    nodes
        .iter()
        .position(|log| log.source == of)
        .unwrap_or_else(|| {
            nodes.push(NodeLog {
                source: of.to_owned(),
                is_first: false,
                collector: LogCollector::new(None),
            });
            nodes.len() - 1
        })
}
