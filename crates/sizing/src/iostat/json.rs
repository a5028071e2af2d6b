//! iostat's JSON, one report at a time, so that a document of any length, or one that is cut because iostat was killed,
//! reads as far as it goes.
//!
//! ```text
//! {"sysstat": {"hosts": [{"date": "11/20/26", "statistics": [ {"timestamp": ..., "disk": [...]}, ... ] }]}}
//! 1           2         34                                  5 6 <- a report
//! ```

use super::reports::{Collector, Row};
use super::table;
use super::time;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::io::{self, Read};

/// Nesting depth of a report.
const REPORT_DEPTH: usize = 6;
/// Nesting depth of a machine's facts.
const HOST_DEPTH: usize = 4;
/// Longest report: 10,000 devices.
const REPORT_BYTES_MAX: usize = 8 << 20;

/// The document as far as it was read.
#[derive(Debug, Default)]
struct Objects {
    depth: usize,
    in_string: bool,
    escaped: bool,
    report: Vec<u8>,
    too_long: bool,
    host: Vec<u8>,
    begun: bool,
}

#[derive(Deserialize)]
struct Statistics {
    timestamp: Option<String>,
    #[serde(default)]
    disk: Vec<Map<String, Value>>,
}

/// Reads JSON to its end. Returns what it is, for a message.
pub(super) fn read<R: Read>(mut input: R, collector: &mut Collector) -> io::Result<String> {
    let mut objects = Objects::default();
    let mut window = vec![0; 64 << 10];
    loop {
        match input.read(&mut window) {
            Ok(0) => break,
            Ok(length) => window[..length].iter().for_each(|byte| objects.byte(*byte, collector)),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    objects.finish(collector);
    Ok("JSON of something else, or without one whole report".to_owned())
}

impl Objects {
    fn byte(&mut self, byte: u8, collector: &mut Collector) {
        let mut closes = false;
        if self.in_string {
            self.in_string = byte != b'"' || self.escaped;
            self.escaped = byte == b'\\' && !self.escaped;
        } else {
            match byte {
                b'"' => self.in_string = true,
                b'{' | b'[' => {
                    self.depth += 1;
                    if self.depth == HOST_DEPTH {
                        self.host.clear();
                        self.begun = false;
                    }
                }
                b'}' | b']' => {
                    closes = self.depth == REPORT_DEPTH;
                    self.depth = self.depth.saturating_sub(1);
                }
                _ => {}
            }
        }
        if self.depth == HOST_DEPTH && self.host.len() < 4096 {
            self.host.push(byte);
        }
        if self.depth >= REPORT_DEPTH || closes {
            self.too_long |= self.report.len() >= REPORT_BYTES_MAX;
            if !self.too_long {
                self.report.push(byte);
            }
        }
        if closes {
            self.report(collector);
        }
    }

    /// Reads a complete report.
    fn report(&mut self, collector: &mut Collector) {
        if !std::mem::replace(&mut self.begun, true) {
            let host = String::from_utf8_lossy(&self.host);
            let date = host.split_once("\"date\"").and_then(|(_, rest)| rest.split('"').nth(1));
            collector.banner(date.and_then(time::written));
        }
        let bytes = std::mem::take(&mut self.report);
        // A locale with decimal commas: of old versions, which is no JSON.
        let read = serde_json::from_slice::<Statistics>(&bytes)
            .or_else(|_| serde_json::from_slice::<Statistics>(&without_decimal_commas(&bytes)));
        let too_long = std::mem::take(&mut self.too_long);
        let Ok(statistics) = read else {
            collector.unread();
            return;
        };
        if too_long {
            collector.unread();
            return;
        }
        collector.close();
        if let Some((date, time, offset)) = statistics.timestamp.as_deref().and_then(time::moment) {
            collector.moment(date, time, offset);
        }
        if statistics.disk.iter().any(|disk| disk.contains_key("tps") && !disk.contains_key("r/s")) {
            collector.without_x();
            return;
        }
        for disk in &statistics.disk {
            let Some(device) = disk.get("disk_device").or_else(|| disk.get("device")).and_then(Value::as_str) else {
                collector.unread();
                continue;
            };
            let mut row = Row::new(device.strip_prefix("/dev/").unwrap_or(device));
            for (name, value) in disk {
                if let Some((field, factor)) = table::field(name) {
                    row.fields[field as usize] = match value {
                        Value::String(text) => table::number(text, factor),
                        value => value.as_f64().map(|value| value * factor).filter(|value| *value >= 0.0),
                    };
                }
            }
            collector.row(row);
        }
        collector.close();
    }

    /// Ends the document.
    fn finish(self, collector: &mut Collector) {
        if !self.report.is_empty() {
            collector
                .say("its JSON ends within a report, which is left out (iostat was killed, or still runs)".to_owned());
        } else if self.depth > 0 {
            collector.say("its JSON ends early; all reports are whole (iostat was killed, or still runs)".to_owned());
        }
    }
}

/// With a point for each comma between two digits, outside of strings.
fn without_decimal_commas(bytes: &[u8]) -> Vec<u8> {
    let mut out = bytes.to_vec();
    let mut in_string = false;
    for at in 1..bytes.len().saturating_sub(1) {
        in_string ^= bytes[at] == b'"';
        let digits = bytes[at - 1].is_ascii_digit() && bytes[at + 1].is_ascii_digit();
        if bytes[at] == b',' && digits && !in_string {
            out[at] = b'.';
        }
    }
    out
}
