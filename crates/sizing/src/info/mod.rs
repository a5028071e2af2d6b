//! The database's info protocol: queries, and the meaning of replies. This module opens no sockets.
//!
//! ```text
//! node  --store::nodes--> names and values --> NODE.info, a file    (flashproof size collect)
//! NODE.info, or output of an asinfo script  --InfoReplies-->  input of a profile
//! ```
//!
//! `NODE.info` is a text file: a line `# 20261120T230225Z` before the replies of that instant, then `name<TAB>value`
//! lines as the server sent them. `# host`, `# build` and other comments may stand anywhere. The last value of each
//! name is kept: in a file, samples are in order of time.
//!
//! Text copied from a terminal is read as well ([`PastedReply`]): asinfo and its reply, tables of asadm. JSON of asadm is
//! refused, because its structure differs between versions.
//!
//! Queries depend on the server's version ([`Build`]). Names changed over the years: each value of a [`Namespace`] is
//! looked up under all of its names, new ones first. A value that a version does not report is `None`, never 0.

pub mod settings;

use crate::server_log::text::is_block_size;
use crate::source::InputFile;
use jiff::Timestamp;
use results::files::next_line;
use std::collections::BTreeMap;
use std::io::{self, BufReader, Read};
use std::path::Path;
use std::time::SystemTime;
use std::{fmt, fs, mem};

pub const FILE_ENDING: &str = ".info";

/// Maximum bytes of a reply in a file. The longest known (partition maps, lists of sets) have less than 1 MiB.
const REPLY_BYTES_MAX: u64 = 16 << 20;

/// Maximum number of namespaces of a server. Source: the server's `datamodel.h`, `AS_NAMESPACE_SZ`.
const NAMESPACES_MAX: usize = 32;

#[derive(Debug, Clone, Default, PartialEq)]
pub struct InfoReplies {
    pub sources: Vec<String>,
    /// The node's id, upper case.
    pub node_id: Option<String>,
    /// Address that was queried.
    pub host: Option<String>,
    pub build: Option<Build>,
    /// By name; an empty name: a pasted reply without its request.
    pub namespaces: BTreeMap<String, Namespace>,
    /// True if a source begins as JSON.
    is_json: bool,
}

/// Command for messages that writes a converted file: a folder of replies has no standard input.
const TO_NEW_FILE: &str = "cat > NEW.info";

/// Compressions, of which some are refused with the program that decompresses.
const COMPRESSED_ENDINGS: [&str; 5] = [".gz", ".zst", ".xz", ".bz2", ".lz4"];

/// Reads one file of one node, plain or compressed, or standard input for `-`. Errors: also a file of JSON.
pub fn read_file(path: &Path) -> io::Result<InfoReplies> {
    let mut replies = InfoReplies::default();
    replies.read_path(path)?;
    if replies.is_json && replies.namespaces.is_empty() {
        return Err(io::Error::other(JSON_ADVICE));
    }
    Ok(replies)
}

const JSON_ADVICE: &str = "this is JSON, as asadm --json and collectinfo write it, and only text is read: copy the table \
                           of asadm's \"show config namespace\" (without --json), or the reply of asinfo -v namespace/NS";

/// Reads a folder: each `NODE.info` is a node. Without such files, all `.txt` files together are one node, because
/// scripts write one file for each queried name. Returns nothing if the folder has neither.
pub fn read_folder(dir: &Path) -> io::Result<Vec<InfoReplies>> {
    let mut paths: Vec<_> = fs::read_dir(dir)?
        .map(|entry| Ok(entry?.path()))
        .collect::<io::Result<_>>()?;
    paths.sort();
    let mut nodes = Vec::new();
    for path in &paths {
        if has_ending(path, FILE_ENDING) {
            nodes.push(read_file(path)?);
        }
    }
    if !nodes.is_empty() {
        return Ok(nodes);
    }
    let mut replies = InfoReplies::default();
    for path in paths.iter().filter(|path| has_ending(path, ".txt")) {
        replies.read_path(path)?;
    }
    // Any text file can be read. Only a file that names a node or a namespace counts as a node.
    let is_node = replies.node_id.is_some() || !replies.namespaces.is_empty();
    Ok(if is_node { vec![replies] } else { Vec::new() })
}

/// True if the name of the file, decompressed, has this `ending`.
pub fn has_ending(path: &Path, ending: &str) -> bool {
    let name = path.to_string_lossy();
    let compressed = COMPRESSED_ENDINGS
        .iter()
        .find_map(|compressed| name.strip_suffix(compressed));
    compressed.unwrap_or(&name).ends_with(ending)
}

/// A reply in text copied from a terminal: after the line of its request, perhaps a line for each value.
#[derive(Default)]
struct PastedReply {
    /// Name of the request; empty: unknown.
    request: String,
    /// True within a table of asadm, after its title.
    is_table: bool,
    /// Names in the header of a table with a row for each node.
    columns: Vec<String>,
    /// The values so far, each followed by a semicolon.
    values: String,
}

impl InfoReplies {
    fn read_path(&mut self, path: &Path) -> io::Result<()> {
        let (name, input) = InputFile::open(path, TO_NEW_FILE)
            .map_err(|error| error.source)?
            .into_parts();
        self.read(&name, input)
    }

    /// Reads `input` to its end. Several files of one node may follow each other: for a name in several files, the last
    /// file counts.
    pub fn read(&mut self, source: &str, input: impl Read) -> io::Result<()> {
        self.sources.push(source.to_owned());
        let mut input = BufReader::with_capacity(1 << 16, input);
        let mut line = Vec::new();
        let mut pasted = PastedReply::default();
        let mut is_first = true;
        while next_line(&mut input, REPLY_BYTES_MAX, &mut line)? {
            if is_first && !line.trim_ascii().is_empty() {
                self.is_json |= begins_json(&line);
                is_first = false;
            }
            if (line.len() as u64) < REPLY_BYTES_MAX {
                self.take(&String::from_utf8_lossy(&line), &mut pasted);
            }
        }
        self.end_pasted(&mut pasted);
        Ok(())
    }

    /// Name of the node in tables: its id, else its host, else its file.
    pub fn name(&self) -> &str {
        self.node_id
            .as_deref()
            .or(self.host.as_deref())
            .or(self.sources.first().map(String::as_str))
            .unwrap_or("?")
    }

    fn take(&mut self, line: &str, pasted: &mut PastedReply) {
        if let Some((name, value)) = line.split_once('\t').or_else(|| request_of(line)) {
            self.begin_pasted(pasted, name.to_owned(), false);
            // A request alone: its reply is in the next lines.
            return self.reply(name, value);
        }
        if let Some(comment) = line.strip_prefix('#') {
            return self.comment(comment.trim());
        }
        if line.starts_with('~') {
            return self.begin_pasted(pasted, request_of_table(line), true);
        }
        let cells = cells_of_row(line, pasted.is_table);
        if cells
            .iter()
            .skip(1)
            .any(|name| name.starts_with("storage-engine"))
        {
            pasted.columns = cells.into_iter().map(str::to_owned).collect();
            return;
        }
        let value = value_of_row(&cells, &pasted.columns).unwrap_or_else(|| line.trim().to_owned());
        let is_value = value.contains('=')
            || matches!(&*pasted.request, "node" | "build") && !value.contains(' ');
        // A line with all values is a reply of its own, as is a list of values up to another line.
        if !is_value && cells.is_empty() || value.contains(';') {
            self.end_pasted(pasted);
        }
        if is_value && ((pasted.values.len() + value.len()) as u64) < REPLY_BYTES_MAX {
            pasted.values.extend([&value, ";"]);
        }
        if value.contains(';') {
            self.end_pasted(pasted);
        }
    }

    fn begin_pasted(&mut self, pasted: &mut PastedReply, request: String, is_table: bool) {
        self.end_pasted(pasted);
        *pasted = PastedReply {
            request,
            is_table,
            ..PastedReply::default()
        };
    }

    fn end_pasted(&mut self, pasted: &mut PastedReply) {
        let values = mem::take(&mut pasted.values);
        if !pasted.request.is_empty() {
            return self.reply(&pasted.request, values.trim_end_matches(';'));
        }
        let mut unnamed = Namespace::default();
        unnamed.take(&values);
        // Only namespaces have a replication factor: other text with "=" is no reply about a namespace.
        if unnamed.replication_factor().is_some() {
            self.namespaces
                .entry(String::new())
                .or_default()
                .take(&values);
        }
    }

    fn reply(&mut self, name: &str, value: &str) {
        let name = name.trim_matches(QUOTES);
        // Older servers reply to unknown names with an empty value.
        if is_refusal(value) {
            return;
        }
        match (name, namespace_of(name)) {
            ("node", _) if !value.is_empty() => self.node(value),
            ("build", _) => self.build = Build::parse(value).or(self.build),
            (_, Some(namespace))
                if value.contains('=')
                    && (self.namespaces.len() < NAMESPACES_MAX
                        || self.namespaces.contains_key(namespace)) =>
            {
                self.namespaces
                    .entry(namespace.to_owned())
                    .or_default()
                    .take(value);
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

    fn node(&mut self, id: &str) {
        self.node_id.get_or_insert_with(|| id.trim().to_uppercase());
    }
}

const QUOTES: [char; 2] = ['"', '\''];

/// A request without a tab, and the rest of its line: the word after `asinfo -v`, or a word that names a namespace, as in
/// `namespace/NS  a=1;b=2` of a terminal, which shows a tab as blanks.
fn request_of(line: &str) -> Option<(&str, &str)> {
    let mut words = line.split_whitespace();
    if let Some(word) = words.clone().skip_while(|word| *word != "-v").nth(1) {
        return Some((word.trim_matches(QUOTES), ""));
    }
    let word = words.find(|word| namespace_of(word.trim_matches(QUOTES)).is_some())?;
    let (_, rest) = line.split_once(word)?;
    Some((word.trim_matches(QUOTES), rest.trim()))
}

/// The request whose reply the table has that begins with `title`: `~~~NS Namespace Configuration (2026-11-20 ...)~~~`
/// of asadm's show config and show statistics.
fn request_of_table(title: &str) -> String {
    match title.trim_matches('~').split_once(" Namespace ") {
        Some((namespace, _)) => format!("namespace/{namespace}"),
        None => title.to_owned(),
    }
}

/// The cells of the row `NAME |VALUE |VALUE` of such a table, or `NAME :   VALUE   VALUE` of asadm's older versions.
/// Empty for another line.
fn cells_of_row(line: &str, is_table: bool) -> Vec<&str> {
    if line.contains('|') {
        return line.split('|').map(str::trim).collect();
    }
    match line.split_once(": ") {
        Some((name, values)) if is_table => [name.trim()]
            .into_iter()
            .chain(values.split_whitespace())
            .collect(),
        _ => Vec::new(),
    }
}

/// `NAME=VALUE` from the row of a setting, if all nodes have this value. With names in the `columns` (asadm's -flip): all
/// settings from the row of a node.
fn value_of_row(cells: &[&str], columns: &[String]) -> Option<String> {
    let (name, values) = cells.split_first()?;
    if cells.len() == columns.len() {
        let settings = columns.iter().zip(cells);
        let settings = settings.map(|(name, value)| format!("{name}={value}"));
        return Some(Vec::from_iter(settings).join(";"));
    }
    let value = values.first()?;
    let is_common = values.iter().all(|other| other == value);
    is_common.then(|| format!("{name}={value}"))
}

/// True for the first line of an object, or of a list of objects.
fn begins_json(line: &[u8]) -> bool {
    let text = line.trim_ascii();
    let text = text.strip_prefix(b"[").unwrap_or(text).trim_ascii();
    let fields = text.strip_prefix(b"{").map(<[u8]>::trim_ascii);
    text.is_empty() || fields.is_some_and(|fields| fields.is_empty() || fields[0] == b'"')
}

/// The namespace in the query `name`: `namespace/NS`, `get-config:context=namespace;id=NS` or `;namespace=NS`.
fn namespace_of(name: &str) -> Option<&str> {
    let namespace = name.strip_prefix("namespace/").or_else(|| {
        let parameters = name.strip_prefix("get-config:context=namespace;")?;
        parameters
            .strip_prefix("id=")
            .or_else(|| parameters.strip_prefix("namespace="))
    });
    namespace.filter(|namespace| !namespace.is_empty())
}

/// True if the server returned an error instead of an answer: `ERROR:4:bad parameter`, `FAIL`, `error=no-such-thing`.
pub fn is_refusal(value: &str) -> bool {
    // Not a refusal: statistics begin with `failed_best_practices=` if best practices are not followed.
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
    let build = build
        .map(|build| format!("# build {build}\n"))
        .unwrap_or_default();
    format!("# {tool}\n# host {host}\n# node {node}\n{build}")
}

/// A sample in a node's file: the replies of one instant, by name.
pub fn sample_text(timestamp: SystemTime, replies: &[(String, String)]) -> String {
    // A clock after the year 9999 is invalid: the sample then has no line with the time.
    let time_line =
        Timestamp::try_from(timestamp).map(|at| at.strftime("# %Y%m%dT%H%M%S%.3fZ\n").to_string());
    let mut text = time_line.unwrap_or_default();
    for (name, value) in replies {
        text.extend([name, "\t", value, "\n"]);
    }
    text
}

/// Write block size of servers from version 7.1 on, bytes. Source: the server's `drv_ssd.h`, `WBLOCK_SZ`.
pub const FIXED_BLOCK_BYTES: u64 = 8 << 20;

/// Default of write-block-size, and from server version 7.1 on of flush-size, bytes. Source: the servers 3 to 8.1,
/// `storage_write_block_size` and `DEFAULT_FLUSH_SIZE`.
pub const DEFAULT_BLOCK_BYTES: u64 = 1 << 20;

/// A server's version: `8.0.0.15`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Build([u32; 4]);

impl Build {
    pub const fn new(numbers: [u32; 4]) -> Self {
        Self(numbers)
    }

    /// Reads `8.0.0.15`, `3.15.1.4-1-g0123abc`, `8.1`; missing numbers are 0.
    pub fn parse(text: &str) -> Option<Self> {
        let end = text
            .find(|c: char| c != '.' && !c.is_ascii_digit())
            .unwrap_or(text.len());
        let parts = text[..end]
            .trim_end_matches('.')
            .split('.')
            .take(4)
            .map(|part| part.parse().ok());
        let mut numbers: Vec<u32> = parts.collect::<Option<_>>()?;
        // A version has at least two numbers. A single number is a count.
        let has_two = numbers.len() > 1;
        numbers.resize(4, 0);
        numbers.try_into().ok().filter(|_| has_two).map(Self)
    }

    /// True if a namespace is selected by `namespace=NS`, false for `id=NS`. Source: asadm,
    /// `SERVER_INFO_NAMESPACE_SELECTOR_VERSION`.
    pub fn selects_by_namespace(self) -> bool {
        self >= Self([8, 1, 0, 0])
    }

    /// True if latencies are reported as `latencies:`, false for `latency:`.
    pub fn has_latencies(self) -> bool {
        self >= Self([5, 1, 0, 0])
    }

    /// Bytes; from version 7.1 on, there is no `write-block-size`, and drv_ssd counts blocks of 8 MiB.
    pub fn fixed_write_block_bytes(self) -> Option<u64> {
        (self >= Self([7, 1, 0, 0])).then_some(FIXED_BLOCK_BYTES)
    }
}

impl fmt::Display for Build {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d] = self.0;
        write!(f, "{a}.{b}.{c}.{d}")
    }
}

/// Maximum number of devices of a namespace. Source: the server's `datamodel.h`, `AS_STORAGE_MAX_DEVICES`.
const DEVICES_MAX: usize = 128;

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Namespace {
    pub devices: Vec<StorageDevice>,
    /// The last value read for each name of the namespace's configuration and statistics.
    newest: BTreeMap<String, String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StorageDevice {
    /// Name in the server's notation: `/dev/nvme0n1p1`, or the path of a file.
    pub name: String,
    pub shadow: Option<String>,
}

impl Namespace {
    /// Stores the reply to `namespace/NS` or to a query of the namespace's configuration.
    fn take(&mut self, reply: &str) {
        let mut device_values = Vec::new();
        for (name, value) in pairs(reply) {
            device_values.extend(device_key(name).map(|(index, field)| (index, field, value)));
            self.newest.insert(name.to_owned(), value.to_owned());
        }
        device_values.retain(|(_, field, _)| matches!(*field, "" | "shadow"));
        if !device_values.is_empty() {
            self.devices = storage_devices(&device_values);
        }
    }

    /// The last value of `name` in the configuration or the statistics. `name` has no prefix `storage-engine.`.
    pub fn value(&self, name: &str) -> Option<&str> {
        let value = self
            .newest
            .get(&format!("storage-engine.{name}"))
            .or_else(|| self.newest.get(name));
        value.map(String::as_str).filter(|value| *value != "null")
    }

    pub fn number(&self, name: &str) -> Option<u64> {
        self.value(name)?.parse().ok()
    }

    pub fn flag(&self, name: &str) -> Option<bool> {
        self.value(name)?.parse().ok()
    }

    /// Mount points of an index on flash: `index-type.mount[0]` of the index type `kind`.
    pub fn mounts(&self, kind: &str) -> Vec<String> {
        let mounts = self
            .newest
            .iter()
            .filter_map(|(name, value)| Some((name.strip_prefix(kind)?, value)));
        let is_mount =
            |name: &str| name == ".mount" || name.starts_with(".mount[") && name.ends_with(']');
        mounts
            .filter(|(name, _)| is_mount(name))
            .map(|(_, value)| value.clone())
            .collect()
    }

    /// True if the namespace stores its records on devices or files.
    pub fn is_on_devices(&self) -> bool {
        match self.value("storage-engine") {
            Some("device" | "ssd") => true,
            Some("memory") | None => !self.devices.is_empty(),
            Some(_) => false,
        }
    }

    /// True for `storage-engine memory`, perhaps with devices that hold a copy of the records.
    pub fn is_in_memory(&self) -> bool {
        self.value("storage-engine") == Some("memory")
    }

    /// The value of `name`, if write blocks and flushes can have this size.
    fn block_size(&self, name: &str) -> Option<u64> {
        self.number(name).filter(|bytes| is_block_size(*bytes))
    }

    /// Size of the blocks that drv_ssd counts: fixed by `build`, or `write-block-size`.
    pub fn write_block_bytes(&self, build: Option<Build>) -> Option<u64> {
        build
            .and_then(Build::fixed_write_block_bytes)
            .or_else(|| self.block_size("write-block-size"))
    }

    /// Bytes of one large write: `flush-size`, or the whole block in servers before version 7.1. An unknown version with a
    /// `write-block-size` has no flush size: it would make the server one of version 7.1 or later.
    pub fn flush_bytes(&self, build: Option<Build>) -> Option<u64> {
        self.block_size("flush-size")
            .or_else(|| self.write_block_bytes(Some(build?)))
    }

    /// True if each record is written on its own before the client gets its reply.
    pub fn commit_to_device(&self) -> Option<bool> {
        self.flag("commit-to-device")
    }

    /// Copies of each record: the replication factor in force, else the configured factor.
    pub fn replication_factor(&self) -> Option<u64> {
        [
            "effective_replication_factor",
            "replication-factor",
            "repl-factor",
        ]
        .iter()
        .find_map(|name| self.number(name))
    }
}

/// The device in a key such as `storage-engine.device[0].writes`, `storage-engine.file[0]`, `dev` (3.x): its index, and
/// the field that the key names. `None` for the index if the server's version repeats the key for each device.
fn device_key(name: &str) -> Option<(Option<usize>, &str)> {
    let bare = name.strip_prefix("storage-engine.").unwrap_or(name);
    let (kind, rest) = bare.split_at(bare.find(['[', '.']).unwrap_or(bare.len()));
    if !matches!(kind, "device" | "dev" | "file") {
        return None;
    }
    if rest.is_empty() {
        return Some((None, ""));
    }
    let (index, field) = rest.strip_prefix('[')?.split_once(']')?;
    let index = index.parse().ok().filter(|index| *index < DEVICES_MAX)?;
    Some((Some(index), field.strip_prefix('.').unwrap_or(field)))
}

/// The devices in their order, from the index, the field and the value of their keys.
fn storage_devices(device_values: &[(Option<usize>, &str, &str)]) -> Vec<StorageDevice> {
    let names = device_values
        .iter()
        .filter(|(_, field, _)| field.is_empty())
        .take(DEVICES_MAX)
        .enumerate();
    let mut devices = Vec::new();
    for (position, (index, _, name)) in names {
        let device = StorageDevice {
            name: (*name).to_owned(),
            shadow: None,
        };
        devices.push((index.unwrap_or(position), device));
    }
    devices.sort_by_key(|(index, _)| *index);
    for (index, _, shadow) in device_values
        .iter()
        .filter(|(_, field, _)| *field == "shadow")
    {
        if let Some((_, device)) = devices.iter_mut().find(|(known, _)| Some(*known) == *index) {
            device.shadow = Some((*shadow).to_owned());
        }
    }
    devices.into_iter().map(|(_, device)| device).collect()
}

/// The names and values of a reply: `a=1;b=2`.
fn pairs(reply: &str) -> impl Iterator<Item = (&str, &str)> {
    reply.split(';').filter_map(|pair| pair.split_once('='))
}

#[cfg(test)]
mod tests;
