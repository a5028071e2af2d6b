//! Collects what a server logs at its start: version, node, configuration, sizes of write blocks.

use super::super::text::{self, LogMessage};
use super::super::{LinePosition, Oddity, ServerLog, Start, same_node};
use super::{LogCollector, RESTARTS_MAX};
use crate::source::InputFile;
use jiff::Timestamp;
use std::io::{self, Read};

/// Maximum number of configuration keys stored for a start.
const KEYS_MAX: usize = 16 << 10;
const STARTS_MAX: usize = 64;

/// Maximum bytes read of a configuration file. Files of real servers have some KiB.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Reads aerospike.conf as if the server had logged the file at its start. `None`: no namespace is configured.
pub fn read_configuration(file: InputFile) -> io::Result<Option<Start>> {
    let (name, input) = file.into_parts();
    let mut text = Vec::new();
    input.take(FILE_BYTES_MAX).read_to_end(&mut text)?;
    let mut collector = LogCollector::new(None);
    text.split(|byte| *byte == b'\n')
        .for_each(|line| collector.configuration(line));
    Ok(collector.log.starts.pop().map(|start| Start {
        origin: name,
        ..start
    }))
}

/// A value of aerospike.conf, as the server reads it.
pub fn flag(value: &str) -> Option<bool> {
    match value.to_ascii_lowercase().as_str() {
        "true" | "yes" | "" => Some(true),
        "false" | "no" => Some(false),
        _ => None,
    }
}

impl ServerLog {
    /// Uses `file`, the configuration file of the log's server, for times whose configuration was not logged.
    pub fn add_configuration(&mut self, file: Start) {
        for start in &mut self.starts {
            if start.configuration.is_empty() {
                start.origin.clone_from(&file.origin);
                start.configuration.clone_from(&file.configuration);
            }
        }
        // Later starts have precedence over this one, which has the earliest time.
        self.starts.insert(0, file);
    }
}

impl LogCollector {
    pub(super) fn start(&mut self, build: &str, timestamp: Timestamp, position: LinePosition<'_>) {
        self.close(position);
        self.section.clear();
        self.keys = 0;
        // If no counters come before a start, this start is not a restart.
        let is_last = self.log.span.is_some_and(|(_, end)| end == timestamp);
        let restarts = &mut self.log.restarts;
        if self.kept_count > 0
            && is_last
            && restarts.len() < RESTARTS_MAX
            && restarts.last().is_none_or(|last| *last < timestamp)
        {
            restarts.push(timestamp);
        }
        let starts = &mut self.log.starts;
        let last = starts.last().and_then(|last| last.build.clone());
        // No counters follow the previous start, so no window needs it.
        if std::mem::replace(&mut self.kept_at_start, self.kept_count) == self.kept_count {
            starts.pop();
        } else if starts.len() >= STARTS_MAX {
            starts.remove(0);
        }
        starts.push(Start::new(timestamp, Some(build.to_owned())));
        if let Some(before) = last.filter(|before| before != build) {
            self.oddities.add_remark(format!(
                "{position}: the server's version changes from {before} to {build}"
            ));
        }
    }

    fn started(&mut self) -> &mut Start {
        if self.log.starts.is_empty() {
            self.log.starts.push(Start::new(Timestamp::MIN, None));
        }
        let last = self.log.starts.len() - 1;
        &mut self.log.starts[last]
    }

    pub(super) fn node(&mut self, message: LogMessage<'_>, position: LinePosition<'_>) {
        let Some(id) = text::node_id(message) else {
            return;
        };
        self.other_node = same_node(&mut self.log.node_id, id, position.file, position.line).err();
    }

    /// Reads a line of the configuration file: `namespace test {`, `write-block-size 128K`, `}`.
    pub(super) fn configuration(&mut self, text: &[u8]) {
        // Comments may be in any encoding, such as Latin-1.
        let text = String::from_utf8_lossy(text);
        let text = text.split('#').next().unwrap_or_default();
        // The server splits a line at any white space, and ignores the words after a brace and after a value.
        let words: Vec<&str> = text.split_whitespace().collect();
        if words.first() == Some(&"}") {
            self.section.pop();
            return;
        }
        let brace = words.iter().position(|word| word.ends_with('{'));
        let opens_section = brace.is_some();
        let text = words[..brace.map_or(words.len(), |at| at + 1)].join(" ");
        let text = text.strip_suffix('{').unwrap_or(&text).trim_end();
        if let [namespace, ..] = &self.section[..]
            && let Some(namespace) = namespace.strip_prefix("namespace ")
            && self.keys < KEYS_MAX
        {
            let (key, values) = text.split_once(' ').unwrap_or((text, ""));
            // A second word is read only after a device: it is the shadow device.
            let words_read = if ["device", "file"].contains(&key) {
                2
            } else {
                1
            };
            let value = Vec::from_iter(values.split(' ').take(words_read)).join(" ");
            // The mounts of a primary and of a secondary index have the same key.
            let index = self
                .section
                .last()
                .and_then(|section| section.split_once("index-type"))
                .map(|(kind, _)| kind);
            let key =
                index.map_or_else(|| key.to_owned(), |kind| format!("{kind}index-type {key}"));
            let namespace = namespace.to_owned();
            let keys = self.started().configuration.entry(namespace).or_default();
            keys.entry(key).or_default().push(value);
            self.keys += 1;
        }
        if opens_section && self.section.len() < 16 {
            self.section.push(text.to_owned());
        }
    }

    pub(super) fn write_blocks(&mut self, text: &[u8], position: LinePosition<'_>) {
        let Some((device, bytes)) = text::wblocks(text) else {
            return self.oddities.count(Oddity::Unread, position, text);
        };
        if let Some(before) = self
            .started()
            .write_block_bytes
            .insert(device.to_owned(), bytes)
            && before != bytes
        {
            self.oddities.add_remark(format!(
                "{position}: the write blocks of {device} change from {before} to {bytes} bytes"
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    fn read(text: impl AsRef<[u8]>) -> Option<Start> {
        let bytes = Box::new(Cursor::new(text.as_ref().to_vec()));
        read_configuration(InputFile::new("a.conf", bytes, "").unwrap()).unwrap()
    }

    #[test]
    fn words_of_a_configuration_are_separated_by_any_white_space() {
        for text in [
            "service {\n}\nnamespace test {\nstorage-engine device {\ndevice /dev/a /dev/b\n}\n}\n",
            "namespace\ttest\t{\r\n  storage-engine\tdevice\t{\r\n\tdevice\t/dev/a\t\t/dev/b # c\r\n}\r\n}\r\n",
            "namespace   test  {\nstorage-engine   device {\ndevice   /dev/a   /dev/b\n }\n }\n",
            "namespace test { // a\nset b { // c\n} // b\ndevice /dev/a /dev/b // d\n}\n",
        ] {
            let start = read(text).unwrap();
            assert_eq!(start.origin, "a.conf");
            assert_eq!(start.configuration["test"]["device"], ["/dev/a /dev/b"]);
        }
        for other in [
            "",
            "\0\n{\n}\n}\n",
            "namespace/test\ttype=device;a=1\n",
            "read-reqs-per-sec: 9\n",
        ] {
            assert_eq!(read(other), None, "{other}");
        }
    }

    #[test]
    fn words_after_a_value_and_comments_in_any_encoding_are_ignored() {
        for value in [&b"1M // bigger"[..], b"1M # plus \xe9lev\xe9"] {
            let start = read([b"namespace test {\nwrite-block-size ", value, b"\n}\n"].concat());
            let configuration = start.unwrap().configuration;
            assert_eq!(configuration["test"]["write-block-size"], ["1M"]);
        }
    }

    #[test]
    fn flags_are_read_as_the_server_reads_them() {
        for (flags, expected) in [
            (["true", "TRUE", "Yes", "yes"], Some(true)),
            (["false", "False", "no", "NO"], Some(false)),
            (["1", "on", "truee", "-"], None),
        ] {
            assert_eq!(flags.map(flag), [expected; 4]);
        }
    }
}
