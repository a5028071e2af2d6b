//! iostat's text, line by line.

use super::reports::{Collector, Field, Row};
use super::time;
use crate::lines::Lines;
use results::units::quoted;
use std::io::{self, Read};

#[derive(Debug, Clone, Copy, PartialEq)]
struct Column {
    at: usize,
    field: Field,
    /// Factor that converts its numbers to a second, or KiB a second.
    factor: f64,
}

#[derive(Debug, Default)]
struct Header {
    words: usize,
    device: usize,
    columns: Vec<Column>,
}

/// The field that a name stands for, and its factor.
pub(super) fn field(name: &str) -> Option<(Field, f64)> {
    Some(match name {
        "r/s" => (Field::Reads, 1.0),
        "w/s" => (Field::Writes, 1.0),
        "f/s" => (Field::Flushes, 1.0),
        "d/s" => (Field::Discards, 1.0),
        "rkB/s" => (Field::ReadKib, 1.0),
        "wkB/s" => (Field::WrittenKib, 1.0),
        "rMB/s" => (Field::ReadKib, 1024.0),
        "wMB/s" => (Field::WrittenKib, 1024.0),
        // Sectors of 512 bytes: the default before version 11.
        "rsec/s" => (Field::ReadKib, 0.5),
        "wsec/s" => (Field::WrittenKib, 0.5),
        _ => return None,
    })
}

/// Reads text to its end. Returns what it begins with, for a message.
pub(super) fn read<R: Read>(lines: &mut Lines<R>, collector: &mut Collector) -> io::Result<String> {
    let mut found = None;
    let mut header: Option<Header> = None;
    // `-h` of old versions puts a name that is too long on a line of its own.
    let mut name_before = String::new();
    while let Some(line) = lines.next_line()? {
        let Ok(text) = std::str::from_utf8(line.bytes) else {
            found.get_or_insert_with(|| "binary data".to_owned());
            collector.unread();
            continue;
        };
        let text = text.trim();
        if text.is_empty() {
            continue;
        }
        if found.is_none() {
            found = Some(format!("first {}", quoted(&text.chars().take(60).collect::<String>())));
        }
        if let Some(banner) = text.strip_prefix("Linux ") {
            header = None;
            collector.banner(banner.split('\t').find_map(|part| time::written(part.trim())));
            continue;
        }
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        if let Some(next) = header_of(&words) {
            collector.table(next.columns.iter().map(|column| column.field));
            header = Some(next);
        } else if words.iter().any(|word| matches!(*word, "%user" | "%idle")) {
            header = None;
            collector.close();
        } else if words.iter().any(|word| matches!(*word, "tps" | "kB_read/s" | "MB_read/s")) {
            header = None;
            collector.without_x();
        } else if let Some(row) = header.as_ref().and_then(|header| row(header, &words, &name_before)) {
            collector.row(row);
        } else if let Some((date, time, offset)) = time::moment(text) {
            collector.moment(date, time, offset);
        } else if header.is_some() && words.len() > 1 {
            // A row that is cut, unless it is of something else.
            collector.unread();
        }
        name_before.clear();
        if let [name] = words[..] {
            name_before.push_str(name);
        }
    }
    let skipped = lines.skipped();
    if skipped.long_lines > 0 || skipped.nul_bytes > 0 {
        collector.say(format!("{} long lines and {} NUL bytes are skipped", skipped.long_lines, skipped.nul_bytes));
    }
    Ok(found.unwrap_or_else(|| "nothing".to_owned()))
}

fn header_of(words: &[&str]) -> Option<Header> {
    let columns: Vec<Column> = (words.iter().enumerate())
        .filter_map(|(at, name)| field(name).map(|(field, factor)| Column { at, field, factor }))
        .collect();
    if columns.len() < 2 {
        return None;
    }
    // `--pretty` puts the name behind the numbers.
    let device = if columns[0].at == 0 { words.len() - 1 } else { 0 };
    Some(Header { words: words.len(), device, columns })
}

/// A device's numbers. `None`: it is something else, or cut.
fn row<'a>(header: &Header, words: &[&'a str], name_before: &'a str) -> Option<Row<'a>> {
    let with_name;
    let words = match words.len() + 1 == header.words && !name_before.is_empty() && number(words[0], 1.0).is_some() {
        true => {
            with_name = [&[name_before], words].concat();
            &with_name[..]
        }
        false => words,
    };
    if words.len() != header.words {
        return None;
    }
    let device = words[header.device];
    let device = device.strip_prefix("/dev/").unwrap_or(device);
    let device = device.strip_suffix(':').unwrap_or(device);
    if number(device, 1.0).is_some() {
        return None;
    }
    let mut row = Row::new(device);
    for column in &header.columns {
        row.fields[column.field as usize] = Some(number(words[column.at], column.factor)?);
    }
    Some(row)
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
    if !digits.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b',')) {
        return None;
    }
    let value: f64 = digits.replace(',', ".").parse().ok()?;
    Some(value * factor).filter(|value| value.is_finite())
}
