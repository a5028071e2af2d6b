//! Reads iostat's text, line by line, and iostat's JSON, one report at a time: a document may have any length. If
//! iostat was killed, the document is truncated, and is read as far as possible.
//!
//! ```text
//! {"sysstat": {"hosts": [{"date": "11/20/26", "statistics": [ {"timestamp": ..., "disk": [...]}, ... ] }]}}
//! 1           2         34                                  5 6
//! ```
//!
//! The digits are the nesting depths: an object at depth 6 is a report.

use super::reports::{FIELDS, RateField, RateRow, ReportCollector};
use super::{DECIMALS, Unusable, time};
use crate::lines::{LineReader, Skipped};
use results::format::quoted;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::io::{self, BufReader, Read};

struct IostatColumn {
    word_index: usize,
    field: RateField,
    /// Factor that converts the column to a rate per second, or to KiB per second.
    factor: f64,
}

struct TableHeader {
    word_count: usize,
    device: usize,
    columns: Vec<IostatColumn>,
}

/// The field that a name stands for, and its factor.
pub(super) fn field(name: &str) -> Option<(RateField, f64)> {
    Some(match name {
        "r/s" => (RateField::Reads, 1.0),
        "w/s" => (RateField::Writes, 1.0),
        "f/s" => (RateField::Flushes, 1.0),
        "d/s" => (RateField::Discards, 1.0),
        "rkB/s" => (RateField::ReadKib, 1.0),
        "wkB/s" => (RateField::WrittenKib, 1.0),
        "rMB/s" => (RateField::ReadKib, 1024.0),
        "wMB/s" => (RateField::WrittenKib, 1024.0),
        // Sectors of 512 bytes, the default unit before version 11 of sysstat.
        "rsec/s" => (RateField::ReadKib, 0.5),
        "wsec/s" => (RateField::WrittenKib, 0.5),
        _ => return None,
    })
}

/// Reads text to its end. Returns a description of its beginning, for an error message.
pub(super) fn read<R: Read>(
    lines: &mut LineReader<R>,
    collector: &mut ReportCollector,
) -> io::Result<String> {
    let mut description = None;
    let mut header: Option<TableHeader> = None;
    // Old versions with `-h` put a long name on its own line.
    let mut name_before = String::new();
    // An unreadable line after an empty line, before a table: there stands the time of the report.
    let mut unread_time: Option<String> = None;
    let mut is_after_blank = false;
    while let Some(line) = lines.next_line()? {
        // The name of the first column may be in another encoding.
        let text = String::from_utf8_lossy(line.bytes);
        let text = text.trim();
        if text.is_empty() {
            is_after_blank = true;
            continue;
        }
        let may_be_time = std::mem::take(&mut is_after_blank);
        if description.is_none() {
            description = Some(format!(
                "first {}",
                quoted(&text.chars().take(60).collect::<String>())
            ));
        }
        if let Some(date) = banner_date(text) {
            header = None;
            collector.banner(time::written(date));
            continue;
        }
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        if let Some(why) = unusable(&words) {
            header = None;
            collector.unusable(why);
        } else if let Some(next) = header_of(&words) {
            if let Some(text) = unread_time.take() {
                collector.unread_time(&text);
            }
            collector.table(next.columns.iter().map(|column| column.field));
            header = Some(next);
        } else if words.iter().any(|word| matches!(*word, "%user" | "%idle")) {
            header = None;
            collector.close();
        } else if let Some(row) = header
            .as_ref()
            .and_then(|header| row(header, &words, &name_before))
        {
            collector.row(row);
        } else if let Some((date, time, offset)) = time::moment(text) {
            collector.moment(date, time, offset);
        } else if header.is_some() && words.len() > 1 {
            // A time, a truncated row, or an unrelated line.
            collector.unread();
            unread_time = may_be_time.then(|| text.to_owned());
        }
        name_before.clear();
        if let [name] = words[..] {
            name_before.push_str(name);
        }
    }
    let skipped = lines.skipped;
    if skipped != Skipped::default() {
        collector.add_remark(format!("skipped {skipped}"));
    }
    Ok(description.unwrap_or_else(|| "nothing".to_owned()))
}

/// The date in `Linux 6.1.0-30-amd64 (host) \t11/20/26 \t_x86_64_\t(2 CPU)`, the first line of a run of iostat, and the
/// text after the date. A prompt or a prefix may stand before the line. `None`: another line.
fn banner_date(text: &str) -> Option<&str> {
    let begin = text.find("Linux ")?;
    if begin > 0 && !text.ends_with(" CPU)") {
        return None;
    }
    let (_, after_host) = text[begin..].split_once(')')?;
    Some(after_host.trim())
}

/// The reason why the table with this header cannot be used; `None`: not the header of such a table.
fn unusable(words: &[&str]) -> Option<Unusable> {
    let has = |names: &[&str]| words.iter().any(|word| names.contains(word));
    if has(&["kr/s", "kw/s", "Kr/s", "Kw/s", "KB/t"]) {
        Some(Unusable::OtherSystem)
    } else if has(&["tps"]) && has(&["rqm/s", "aqu-sz"]) {
        Some(Unusable::Short)
    } else if has(&["tps", "kB_read/s", "MB_read/s", "Blk_read/s"]) {
        Some(Unusable::NotExtended)
    } else {
        None
    }
}

fn header_of(words: &[&str]) -> Option<TableHeader> {
    let columns: Vec<IostatColumn> = words
        .iter()
        .enumerate()
        .filter_map(|(at, name): (usize, &&str)| {
            field(name).map(|(field, factor)| IostatColumn {
                word_index: at,
                field,
                factor,
            })
        })
        .collect();
    // With `-h`, discards and flushes have tables of their own.
    let is_header = words
        .iter()
        .any(|word| matches!(*word, "d_await" | "f_await"));
    if columns.is_empty() || columns.len() < 2 && !is_header {
        return None;
    }
    // `--pretty` puts the name after the numbers.
    let device = match words
        .iter()
        .position(|word| matches!(*word, "Device" | "Device:"))
    {
        Some(at) => at,
        None if columns[0].word_index == 0 => words.len() - 1,
        None => 0,
    };
    Some(TableHeader {
        word_count: words.len(),
        device,
        columns,
    })
}

/// A device's numbers. `None`: an unrelated or truncated line.
fn row<'a>(header: &TableHeader, words: &[&'a str], name_before: &'a str) -> Option<RateRow<'a>> {
    let mut words = words.to_vec();
    if words.len() + 1 == header.word_count
        && !name_before.is_empty()
        && number(words[0], 1.0).is_some()
    {
        words.insert(0, name_before);
    }
    if words.len() != header.word_count {
        return None;
    }
    let device = words[header.device];
    let device = device.strip_prefix("/dev/").unwrap_or(device);
    let device = device.strip_suffix(':').unwrap_or(device);
    if number(device, 1.0).is_some() {
        return None;
    }
    let mut row = RateRow {
        device,
        fields: [None; FIELDS],
        decimals: DECIMALS,
    };
    for column in &header.columns {
        let text = words[column.word_index];
        row.fields[column.field as usize] = Some(number(text, column.factor)?);
        // `--human` rounds sizes to one decimal.
        if column.field.counts_operations() {
            row.decimals = row.decimals.min(decimals(text));
        }
    }
    Some(row)
}

fn decimals(number: &str) -> usize {
    number
        .rsplit_once(['.', ','])
        .map_or(0, |(_, decimals)| decimals.len())
}

/// A number with a decimal point or comma; `--human` gives sizes a unit.
pub(super) fn number(text: &str, factor: f64) -> Option<f64> {
    let unit = text.chars().last().filter(char::is_ascii_alphabetic);
    let digits = &text[..text.len() - usize::from(unit.is_some())];
    let factor = match unit {
        None => factor,
        Some('s') => 0.5,
        Some('B') => 1.0 / 1024.0,
        Some('k') => 1.0,
        Some('M') => 1024.0,
        Some('G') => 1024.0 * 1024.0,
        Some('T') => 1024.0 * 1024.0 * 1024.0,
        Some(_) => return None,
    };
    if !digits
        .bytes()
        .all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b','))
    {
        return None;
    }
    let value: f64 = digits.replace(',', ".").parse().ok()?;
    Some(value * factor).filter(|value| value.is_finite())
}

const REPORT_DEPTH: usize = 6;
/// Nesting depth of a machine's facts.
const HOST_DEPTH: usize = 4;
/// Longest report: 10,000 devices.
const REPORT_BYTES_MAX: usize = 8 << 20;

#[derive(Debug, Default)]
struct JsonScanner {
    depth: usize,
    in_string: bool,
    escaped: bool,
    report: Vec<u8>,
    too_long: bool,
    host: Vec<u8>,
    is_begun: bool,
}

#[derive(Deserialize)]
struct JsonStatistics {
    timestamp: Option<String>,
    #[serde(default)]
    disk: Vec<Map<String, Value>>,
}

/// Reads JSON to its end.
pub(super) fn read_json<R: Read>(input: R, collector: &mut ReportCollector) -> io::Result<()> {
    let mut objects = JsonScanner::default();
    for byte in BufReader::with_capacity(64 << 10, input).bytes() {
        objects.byte(byte?, collector);
    }
    objects.finish(collector);
    Ok(())
}

impl JsonScanner {
    fn byte(&mut self, byte: u8, collector: &mut ReportCollector) {
        let mut is_closing = false;
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
                        self.is_begun = false;
                    }
                }
                b'}' | b']' => {
                    is_closing = self.depth == REPORT_DEPTH;
                    self.depth = self.depth.saturating_sub(1);
                }
                _ => {}
            }
        }
        if self.depth == HOST_DEPTH && self.host.len() < 4096 {
            self.host.push(byte);
        }
        if self.depth >= REPORT_DEPTH || is_closing {
            self.too_long |= self.report.len() >= REPORT_BYTES_MAX;
            if !self.too_long {
                self.report.push(byte);
            }
        }
        if is_closing {
            self.report(collector);
        }
    }

    fn report(&mut self, collector: &mut ReportCollector) {
        if !std::mem::replace(&mut self.is_begun, true) {
            let host = String::from_utf8_lossy(&self.host);
            let date = host
                .split_once("\"date\"")
                .and_then(|(_, rest)| rest.split('"').nth(1));
            collector.banner(date.and_then(time::written));
        }
        let bytes = std::mem::take(&mut self.report);
        // Old versions print decimal commas in some locales, which is not JSON.
        let read = serde_json::from_slice::<JsonStatistics>(&bytes)
            .or_else(|_| serde_json::from_slice::<JsonStatistics>(&without_decimal_commas(&bytes)));
        let too_long = std::mem::take(&mut self.too_long);
        let Some(statistics) = read.ok().filter(|_| !too_long) else {
            return collector.unread();
        };
        collector.close();
        if let Some(text) = &statistics.timestamp {
            match time::moment(text) {
                Some((date, time, offset)) => collector.moment(date, time, offset),
                None => {
                    collector.unread();
                    collector.unread_time(text);
                }
            }
        }
        if let Some(disk) = statistics
            .disk
            .iter()
            .find(|disk| !disk.contains_key("r/s"))
        {
            let names: Vec<&str> = disk.keys().map(String::as_str).collect();
            return match unusable(&names) {
                Some(why) => collector.unusable(why),
                None => collector.unread(),
            };
        }
        for disk in &statistics.disk {
            let Some(device) = disk
                .get("disk_device")
                .or_else(|| disk.get("device"))
                .and_then(Value::as_str)
            else {
                collector.unread();
                continue;
            };
            let device = device.strip_prefix("/dev/").unwrap_or(device);
            let mut row = RateRow {
                device,
                fields: [None; FIELDS],
                decimals: DECIMALS,
            };
            for (name, value) in disk {
                if let Some((field, factor)) = field(name) {
                    row.fields[field as usize] = match value {
                        Value::String(text) => number(text, factor),
                        value => value
                            .as_f64()
                            .map(|value| value * factor)
                            .filter(|value| *value >= 0.0),
                    };
                }
            }
            collector.row(row);
        }
        collector.close();
    }

    fn finish(self, collector: &mut ReportCollector) {
        let how = match self.depth {
            _ if !self.report.is_empty() => "within a report, which is left out",
            0 => return,
            _ => "early; all reports are complete",
        };
        collector.add_remark(format!(
            "the JSON ends {how} (iostat was killed, or still runs)"
        ));
    }
}

/// Replaces each comma between two digits, outside of strings, by a point.
fn without_decimal_commas(bytes: &[u8]) -> Vec<u8> {
    let mut result = bytes.to_vec();
    let mut in_string = false;
    for at in 1..bytes.len().saturating_sub(1) {
        in_string ^= bytes[at] == b'"';
        let digits = bytes[at - 1].is_ascii_digit() && bytes[at + 1].is_ascii_digit();
        if bytes[at] == b',' && digits && !in_string {
            result[at] = b'.';
        }
    }
    result
}
