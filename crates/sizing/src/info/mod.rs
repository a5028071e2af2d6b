//! Replies of the database's info protocol: what is asked for, and what the replies say. Pure: no sockets.
//!
//! ```text
//! node  --store::nodes--> names and values --> NODE.info, a file    (flashproof size collect)
//! NODE.info, or what a script of asinfo kept  --InfoReplies-->  what a profile needs
//! ```
//!
//! Such a file is text: a line `# 20261120T230225Z` before the replies of that instant, then `name<TAB>value`
//! lines as the server sent them. `# host`, `# build` and other comments may stand anywhere. The newest value of each
//! name is kept.

mod build;
pub mod cluster;
mod namespace;
pub mod settings;

pub use build::{Build, FIXED_BLOCK_BYTES, FLUSH_BYTES};
pub use namespace::{Namespace, StorageDevice};

use jiff::Timestamp;
use results::act_log::Input;
use results::files::{self, Links, next_line};
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufReader, Read};
use std::path::Path;
use std::time::SystemTime;

/// The ending of a node's file.
pub const FILE_ENDING: &str = ".info";

/// Maximum bytes of a reply in a file. The longest known are the partition maps of many namespaces and lists of sets,
/// below 1 MiB.
const REPLY_BYTES_MAX: u64 = 16 << 20;

/// Namespaces of a server, at most. Source: the server's `datamodel.h`, `AS_NAMESPACE_SZ`.
const NAMESPACES_MAX: usize = 32;

/// Replies of one node.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct InfoReplies {
    /// The files that it was read from.
    pub sources: Vec<String>,
    /// The node's id, upper case.
    pub node_id: Option<String>,
    /// Address that was queried.
    pub host: Option<String>,
    pub build: Option<Build>,
    /// Namespaces by name.
    pub namespaces: BTreeMap<String, Namespace>,
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
        let (mut input, mut line) = (BufReader::with_capacity(1 << 16, input), Vec::new());
        while next_line(&mut input, REPLY_BYTES_MAX, &mut line)? {
            if (line.len() as u64) < REPLY_BYTES_MAX {
                self.take(&String::from_utf8_lossy(&line));
            }
        }
        Ok(())
    }

    /// The name for it in tables: its id, its host, its file.
    pub fn name(&self) -> &str {
        self.node_id.as_deref().or(self.host.as_deref()).or(self.sources.first().map(String::as_str)).unwrap_or("?")
    }

    fn take(&mut self, line: &str) {
        if let Some(comment) = line.strip_prefix('#') {
            return self.comment(comment.trim());
        }
        // Older servers answer an unknown name with nothing at all, and a file may be cut in the middle of a line.
        // Names unknown to a version are queried nevertheless.
        let Some((name, value)) = line.split_once('\t').filter(|(_, value)| !is_refusal(value)) else { return };
        match (name, namespace_of(name)) {
            ("node", _) => self.node(value),
            ("build", _) => self.build = Build::parse(value).or(self.build),
            (_, Some(namespace))
                if self.namespaces.len() < NAMESPACES_MAX || self.namespaces.contains_key(namespace) =>
            {
                self.namespaces.entry(namespace.to_owned()).or_default().take(value);
            }
            _ => {}
        }
    }

    fn comment(&mut self, comment: &str) {
        match comment.split_once(' ') {
            Some(("host", host)) => self.host = Some(host.to_owned()),
            Some(("build", build)) => self.build = Build::parse(build).or(self.build),
            Some(("node", node)) => self.node(node),
            _ => {}
        }
    }

    /// Takes the id of the node, unless it is known: the first counts.
    fn node(&mut self, id: &str) {
        self.node_id.get_or_insert_with(|| id.trim().to_uppercase());
    }
}

/// The namespace that `name` asks for: `namespace/NS`, `get-config:context=namespace;id=NS` or `;namespace=NS`.
fn namespace_of(name: &str) -> Option<&str> {
    name.strip_prefix("namespace/").or_else(|| {
        let parameters = name.strip_prefix("get-config:context=namespace;")?;
        parameters.strip_prefix("id=").or_else(|| parameters.strip_prefix("namespace="))
    })
}

/// True if the server returned an error instead of an answer: `ERROR:4:bad parameter`, `FAIL`, `error=no-such-thing`.
pub fn is_refusal(value: &str) -> bool {
    // Statistics begin with `failed_best_practices=` where those are not followed.
    let word = value.split([':', '=', ';', ' ']).next().unwrap_or_default();
    word.eq_ignore_ascii_case("error") || word.eq_ignore_ascii_case("fail")
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
    // A clock after 9999 is no time.
    let at = Timestamp::try_from(at).map(|at| at.strftime("# %Y%m%dT%H%M%S%.3fZ\n").to_string());
    let mut text = at.unwrap_or_default();
    for (name, value) in replies {
        text.extend([name, "\t", value, "\n"]);
    }
    text
}

#[cfg(test)]
mod tests;
