//! Replies of the database's info protocol: what is asked for, and what the replies say. Pure: no sockets.
//!
//! ```text
//! node  --store::nodes--> names and values --> NODE.info, a file    (flashproof size collect)
//! NODE.info, or what a script of asinfo kept  --InfoReplies-->  what a profile needs
//! ```
//!
//! Such a file is text: a line `# 20261120T230225Z` before the replies of that instant, then `name<TAB>value`
//! lines as the server sent them. Without such a line the time is not known. `# host`, `# build` and other
//! comments may stand anywhere.
//!
//! Only what a load follows from is kept: memory grows by less than a kilobyte a sample.

mod build;
pub mod cluster;
mod namespace;
pub mod settings;

pub use build::{Build, FIXED_BLOCK_BYTES, FLUSH_BYTES};
pub use namespace::{COUNTERS, DeviceSample, Namespace, NamespaceSample, StorageDevice, pairs};

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::fmt::strtime;
use jiff::tz::TimeZone;
use results::act_log::Input;
use results::files::{self, Links};
use results::units::quoted;
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::time::SystemTime;

/// The ending of a node's file.
pub const FILE_ENDING: &str = ".info";

/// Maximum bytes of a reply in a file. The longest known are the partition maps of many namespaces and lists of sets,
/// below 1 MiB.
const REPLY_BYTES_MAX: usize = 16 << 20;

/// Namespaces of a server, at most. Source: the server's `datamodel.h`, `AS_NAMESPACE_SZ`.
const NAMESPACES_MAX: usize = 32;

/// Samples that are kept: one each second for eleven days.
const SAMPLES_MAX: usize = 1_000_000;

/// Remarks that are kept of one file.
const REMARKS_MAX: usize = 20;

/// Time of a sample. Digits of a second are optional.
const TIME: &str = "%Y%m%dT%H%M%S%.fZ";

/// Replies of one node over time.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct InfoReplies {
    /// The files that it was read from.
    pub sources: Vec<String>,
    /// The node's id, upper case.
    pub node_id: Option<String>,
    /// Address that was queried.
    pub host: Option<String>,
    pub build: Option<Build>,
    /// Log files, by the number of the sink.
    pub logs: BTreeMap<u32, String>,
    /// Namespaces by name.
    pub namespaces: BTreeMap<String, Namespace>,
    /// Seconds since the server started; one that is smaller than before is a restart.
    pub uptime: Vec<(Timestamp, u64)>,
    /// Number of nodes in its cluster.
    pub cluster_size: Option<u64>,
    /// Oddities, each a sentence.
    pub remarks: Vec<String>,
}

/// Reads one file of one node, plain or compressed.
pub fn read_file(path: &Path) -> io::Result<InfoReplies> {
    let mut replies = InfoReplies::default();
    replies.read(&path.display().to_string(), Input::new(files::open(path, Links::Followed)?)?)?;
    Ok(replies)
}

/// Reads a folder: each `NODE.info` is a node; where there is none, all `.txt` files together are one, as
/// scripts write them that keep a file for each name. Empty: it has neither.
pub fn read_folder(dir: &Path) -> io::Result<Vec<InfoReplies>> {
    let mut paths: Vec<_> = fs::read_dir(dir)?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
    paths.sort();
    let ends = |ending: &str| {
        let paths = paths.iter().filter(move |path| path.to_string_lossy().trim_end_matches(".gz").ends_with(ending));
        paths.map(|path| path.as_path()).collect::<Vec<_>>()
    };
    let nodes = ends(FILE_ENDING);
    if !nodes.is_empty() {
        return nodes.into_iter().map(read_file).collect();
    }
    let mut together = InfoReplies::default();
    for path in ends(".txt") {
        together.read(&path.display().to_string(), Input::new(files::open(path, Links::Followed)?)?)?;
    }
    // Any text is a file without a reply: only what names a node or a namespace is one.
    let is_node = together.node_id.is_some() || !together.namespaces.is_empty();
    Ok(if is_node { vec![together] } else { Vec::new() })
}

impl InfoReplies {
    /// Takes in what `input` has to its end; several files of one node may follow each other, in any order.
    pub fn read(&mut self, source: &str, input: impl Read) -> io::Result<()> {
        self.sources.push(source.to_owned());
        let mut reader = Reader { replies: self, source, line: 0, at: None, left_out: 0 };
        let mut lines = Lines { input: BufReader::with_capacity(1 << 16, input), line: Vec::new() };
        while let Some(line) = lines.next()? {
            reader.line += 1;
            match line {
                Some(line) => reader.take(&String::from_utf8_lossy(line)),
                None => reader.remark(format!("it has more than {REPLY_BYTES_MAX} bytes; left out")),
            }
        }
        if reader.left_out > 0 {
            let more = format!("{source}: {} more remarks of this kind", reader.left_out);
            self.remarks.push(more);
        }
        for namespace in self.namespaces.values_mut() {
            namespace.samples.sort_by_key(|sample| sample.at);
            namespace.samples.dedup_by_key(|sample| sample.at);
        }
        self.uptime.sort_unstable();
        Ok(())
    }

    /// The name for it in tables: its id, its host, its file.
    pub fn name(&self) -> &str {
        self.node_id.as_deref().or(self.host.as_deref()).or(self.sources.first().map(String::as_str)).unwrap_or("?")
    }
}

/// Reads one file into what is known already.
struct Reader<'a> {
    replies: &'a mut InfoReplies,
    source: &'a str,
    line: u64,
    at: Option<Timestamp>,
    left_out: u64,
}

impl Reader<'_> {
    fn take(&mut self, line: &str) {
        if let Some(comment) = line.strip_prefix('#') {
            return self.comment(comment.trim());
        }
        // Older servers answer an unknown name with nothing at all, and a file may be cut in the middle of a line.
        let Some((name, value)) = line.split_once('\t') else { return };
        if let Some(refusal) = refusal(value) {
            // Names unknown to a version are queried nevertheless; only a refusal of a name that a profile needs is
            // reported.
            if namespace_of(name).is_some() {
                self.remark(format!("{} was answered by {}", quoted(name), quoted(refusal)));
            }
            return;
        }
        match name {
            "node" => self.node(value),
            "build" => self.build(value),
            "logs" => self.replies.logs = logs(value).collect(),
            "statistics" => self.statistics(value),
            _ => {
                if let Some(namespace) = namespace_of(name) {
                    self.namespace(namespace, value);
                }
            }
        }
    }

    fn comment(&mut self, comment: &str) {
        if let Some(at) = time(comment) {
            self.at = Some(at);
        } else if let Some(host) = comment.strip_prefix("host ") {
            self.replies.host = Some(host.to_owned());
        } else if let Some(build) = comment.strip_prefix("build ") {
            self.build(build);
        } else if let Some(node) = comment.strip_prefix("node ") {
            self.node(node);
        }
    }

    fn node(&mut self, id: &str) {
        let id = id.trim().to_uppercase();
        if self.replies.node_id.as_ref().is_some_and(|known| *known != id) {
            return self.remark(format!("it is of node {}, and the lines before are of another", quoted(&id)));
        }
        self.replies.node_id = Some(id);
    }

    fn build(&mut self, text: &str) {
        match Build::parse(text) {
            Some(build) => self.replies.build = Some(build),
            None => self.remark(format!("expected a version such as 8.0.0.15, found {}", quoted(text))),
        }
    }

    fn statistics(&mut self, value: &str) {
        for (name, value) in pairs(value) {
            let Ok(count) = value.parse() else { continue };
            match (name, self.at) {
                ("uptime", Some(at)) if self.replies.uptime.len() < SAMPLES_MAX => {
                    self.replies.uptime.push((at, count))
                }
                ("cluster_size", _) => self.replies.cluster_size = Some(count),
                _ => {}
            }
        }
    }

    fn namespace(&mut self, name: &str, value: &str) {
        let is_new = !self.replies.namespaces.contains_key(name);
        if is_new && self.replies.namespaces.len() == NAMESPACES_MAX {
            return self.remark(format!("namespace {} is one more than a server can have; left out", quoted(name)));
        }
        let namespace = self.replies.namespaces.entry(name.to_owned()).or_default();
        if namespace.samples.len() >= SAMPLES_MAX {
            return self.remark(format!("namespace {} has more than {SAMPLES_MAX} samples; left out", quoted(name)));
        }
        namespace.take(value, self.at);
    }

    fn remark(&mut self, what: String) {
        if self.replies.remarks.len() < REMARKS_MAX {
            self.replies.remarks.push(format!("{} line {}: {what}", self.source, self.line));
        } else {
            self.left_out += 1;
        }
    }
}

/// The namespace that `name` asks for: `namespace/NS`, `get-config:context=namespace;id=NS` or `;namespace=NS`.
fn namespace_of(name: &str) -> Option<&str> {
    name.strip_prefix("namespace/").or_else(|| {
        let parameters = name.strip_prefix("get-config:context=namespace;")?;
        parameters.strip_prefix("id=").or_else(|| parameters.strip_prefix("namespace="))
    })
}

/// The error that the server returned instead of an answer, if any: `ERROR:4:bad parameter`, `FAIL`,
/// `error=no-such-thing`.
pub fn refusal(value: &str) -> Option<&str> {
    // Statistics begin with `failed_best_practices=` where those are not followed.
    let word = value.split([':', '=', ';', ' ']).next().unwrap_or_default();
    (word.eq_ignore_ascii_case("error") || word.eq_ignore_ascii_case("fail")).then_some(value)
}

/// Sinks of the log with their files: `0:/var/log/aerospike.log;1:stderr`.
pub fn logs(value: &str) -> impl Iterator<Item = (u32, String)> {
    let sinks = value.split(';').filter_map(|sink| sink.split_once(':'));
    sinks.filter_map(|(id, file)| Some((id.parse().ok()?, file.to_owned())))
}

/// The beginning of a node's file.
pub fn header_text(tool: &str, host: &str, node: &str, build: Option<Build>) -> String {
    let build = build.map(|build| format!("# build {build}\n")).unwrap_or_default();
    format!("# {tool}\n# host {host}\n# node {node}\n{build}")
}

/// A sample in a node's file: replies by name, as they came at one instant.
pub fn sample_text(at: SystemTime, replies: &[(String, String)]) -> String {
    // A clock before 1970 or after 9999 is no time.
    let mut text = Timestamp::try_from(at).map(|at| format!("# {}\n", time_text(at))).unwrap_or_default();
    for (name, value) in replies {
        text.extend([name, "\t", value, "\n"]);
    }
    text
}

/// The time of a sample, written as [`time_text`] does or without digits of a second.
fn time(text: &str) -> Option<Timestamp> {
    let time = strtime::parse(TIME, text).ok()?.to_datetime().ok()?;
    Some(time.to_zoned(TimeZone::UTC).ok()?.timestamp())
}

/// The time of a sample, as it stands before it, with milliseconds: rates are made of differences.
pub fn time_text(at: Timestamp) -> String {
    let time: DateTime = TimeZone::UTC.to_datetime(at);
    format!("{}.{:03}Z", time.strftime("%Y%m%dT%H%M%S"), time.millisecond())
}

/// Lines, each within [`REPLY_BYTES_MAX`].
struct Lines<R> {
    input: BufReader<R>,
    line: Vec<u8>,
}

impl<R: Read> Lines<R> {
    /// The next line without its end; inside `None`, it was too long.
    fn next(&mut self) -> io::Result<Option<Option<&[u8]>>> {
        self.line.clear();
        let limit = REPLY_BYTES_MAX as u64 + 1;
        if self.input.by_ref().take(limit).read_until(b'\n', &mut self.line)? == 0 {
            return Ok(None);
        }
        match self.line.last() {
            Some(b'\n') => drop(self.line.pop()),
            _ if self.line.len() as u64 == limit => {
                // The rest of the line is skipped without memory.
                self.line = Vec::new();
                loop {
                    let bytes = self.input.fill_buf()?;
                    let end = bytes.iter().position(|byte| *byte == b'\n');
                    let (length, is_over) = (end.map_or(bytes.len(), |end| end + 1), end.is_some() || bytes.is_empty());
                    self.input.consume(length);
                    if is_over {
                        return Ok(Some(None));
                    }
                }
            }
            _ => {}
        }
        if self.line.last() == Some(&b'\r') {
            self.line.pop();
        }
        Ok(Some(Some(&self.line)))
    }
}

#[cfg(test)]
mod tests;
