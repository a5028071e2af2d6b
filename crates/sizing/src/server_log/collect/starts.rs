//! Collects what a server logs at its start: version, node, configuration, sizes of write blocks.

use super::super::text::{self, LogMessage};
use super::super::{LinePosition, Oddity, Start, same_node};
use super::{LogCollector, RESTARTS_MAX};
use jiff::Timestamp;

/// Maximum number of configuration keys stored for a start.
const KEYS_MAX: usize = 16 << 10;
const STARTS_MAX: usize = 64;

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
        let Ok(text) = std::str::from_utf8(text) else {
            return;
        };
        let text = text.split('#').next().unwrap_or_default().trim();
        if text == "}" {
            self.section.pop();
            return;
        }
        let opens_section = text.ends_with('{');
        let text = text.strip_suffix('{').unwrap_or(text).trim();
        if let [namespace, ..] = &self.section[..]
            && let Some(namespace) = namespace.strip_prefix("namespace ")
            && self.keys < KEYS_MAX
        {
            let (key, value) = text.split_once([' ', '\t']).unwrap_or((text, ""));
            // The mounts of a primary and of a secondary index have the same key.
            let index = self
                .section
                .last()
                .and_then(|section| section.split_once("index-type"))
                .map(|(kind, _)| kind);
            let key =
                index.map_or_else(|| key.to_owned(), |kind| format!("{kind}index-type {key}"));
            let namespace = namespace.trim().to_owned();
            let value = value.trim().to_owned();
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
