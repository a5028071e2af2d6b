//! Finds the server's own line behind what containers, journals and grep put before it.
//!
//! ```text
//! aerospike-1  | 2026-11-20T23:04:05Z Nov 20 2026 23:04:05 GMT: INFO (info): ...
//! '------------- prefix ------------' '------------ server's line ------------
//! source: aerospike-1
//! ```
//!
//! One rule for all formats: the server's time stamp begins the server's line, and the text before the stamp is a
//! prefix. The words of the prefix, without times, numbers and names of streams, are the source of the line. Lines with
//! different sources may be of different nodes. If the stamp begins a JSON string, the line ends where the string ends,
//! and the object is no source: its other fields may differ in each line.

use super::text::{self, Stamps};
use memchr::memmem;
use std::borrow::Cow;

/// Longest prefix that is searched for a stamp, bytes. The longest are the fields of journald's JSON.
const PREFIX_BYTES_MAX: usize = 4096;

/// Splits lines into source and server's line. Caches the last prefix: most lines have the same source as the previous
/// line.
#[derive(Debug, Default)]
pub(crate) struct Prefixes {
    stamps: Stamps,
    prefix: Vec<u8>,
    source: String,
}

impl Prefixes {
    /// The source of a line, empty without a prefix, and the server's line. `None`: the line has no stamp.
    pub(crate) fn split<'a>(&mut self, line: &'a [u8]) -> Option<(&str, Cow<'a, [u8]>)> {
        if self.stamps.split(line).is_some() {
            return Some(("", Cow::Borrowed(line)));
        }
        // Most prefixes have the length of the one before.
        let at = Some(self.prefix.len()).filter(|at| is_stamp_at(line, *at)).or_else(|| stamp_at(line))?;
        let (prefix, server_line) = line.split_at(at);
        if prefix != self.prefix {
            self.source = source(prefix);
            self.prefix.clear();
            self.prefix.extend_from_slice(prefix);
        }
        match prefix.ends_with(b"\"") {
            true => Some((&self.source, Cow::Owned(json_string(server_line)))),
            false => Some((&self.source, Cow::Borrowed(server_line))),
        }
    }
}

/// Position of the first stamp that does not begin the line. The zone of a stamp is found first, and its four words
/// before it are checked.
fn stamp_at(line: &[u8]) -> Option<usize> {
    let head = &line[..line.len().min(PREFIX_BYTES_MAX)];
    let zones = memmem::find_iter(head, b" GMT").chain(memmem::find_iter(head, b" UTC"));
    zones.filter_map(|zone| begin_of_stamp(&head[..zone])).find(|at| is_stamp_at(line, *at))
}

fn is_stamp_at(line: &[u8], at: usize) -> bool {
    line.get(at..).is_some_and(|rest| text::split(rest).is_some())
}

/// Start of the month in `... Nov 20 2026 23:04:05`.
fn begin_of_stamp(before_zone: &[u8]) -> Option<usize> {
    let mut end = before_zone.len();
    for _ in 0..3 {
        end = memchr::memrchr(b' ', before_zone[..end].trim_ascii_end())?;
    }
    let month = before_zone[..end].trim_ascii_end();
    let letters = month.iter().rev().take_while(|byte| byte.is_ascii_alphabetic()).count();
    let mut begin = month.len() - letters;
    // The last byte of a terminal's colour, `ESC [ 0 m`, is a letter.
    if month[..begin].contains(&b'\x1b') && month[begin..].starts_with(b"m") {
        begin += 1;
    }
    let is_word = begin > 0 && !month[begin - 1].is_ascii_digit();
    (letters > 0 && is_word).then_some(begin)
}

/// The words of a prefix that name its source.
fn source(prefix: &[u8]) -> String {
    let text = String::from_utf8_lossy(prefix);
    let text = if text.ends_with('"') { text.split('{').next().unwrap_or_default() } else { &text };
    // grep prints `FILE-NUMBER-` before a line of the context, and `FILE:NUMBER:` before a line that matches.
    let ends_in_number = text.trim_end_matches('-').trim_end_matches(|c: char| c.is_ascii_digit());
    let text = if text.ends_with('-') { ends_in_number.trim_end_matches('-') } else { text };
    let words = text.split(|c: char| c.is_whitespace() || ":,|<>".contains(c));
    let mut source = String::new();
    for name in words.map(without_pid).filter(|word| is_name(word)) {
        if !source.is_empty() {
            source.push(' ');
        }
        source.push_str(name);
    }
    source
}

/// `asd` of `asd[4242]`: the number changes when the server restarts.
fn without_pid(word: &str) -> &str {
    let inner = word.strip_suffix(']').and_then(|word| word.rsplit_once('['));
    inner.filter(|(_, pid)| pid.bytes().all(|byte| byte.is_ascii_digit())).map_or(word, |(name, _)| name)
}

/// True for a word that is no number, time or mark, and does not differ between lines of one source: streams, flags of
/// CRI, months and weekdays do.
fn is_name(word: &str) -> bool {
    let has_letter = word.chars().any(|c| c.is_alphabetic() && !"TZ".contains(c));
    let is_month =
        matches!(word, "Jan" | "Feb" | "Mar" | "Apr" | "May" | "Jun" | "Jul" | "Aug" | "Sep" | "Oct" | "Nov" | "Dec");
    let is_weekday = matches!(word, "Mon" | "Tue" | "Wed" | "Thu" | "Fri" | "Sat" | "Sun");
    has_letter && !is_month && !is_weekday && !matches!(word, "stdout" | "stderr" | "F" | "P")
}

/// The text of a JSON string without its opening quote, up to its end.
fn json_string(text: &[u8]) -> Vec<u8> {
    let mut end = 0;
    while end < text.len() && text[end] != b'"' {
        end += if text[end] == b'\\' { 2 } else { 1 };
    }
    let inner = &text[..end.min(text.len())];
    if !inner.contains(&b'\\') {
        return inner.to_vec();
    }
    let quoted = [b"\"", inner, b"\""].concat();
    let plain = serde_json::from_slice::<String>(&quoted).map(String::into_bytes).unwrap_or_else(|_| inner.to_vec());
    plain.strip_suffix(b"\n").map(<[u8]>::to_vec).unwrap_or(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = "Nov 20 2026 23:04:05.123 GMT: INFO (as): (as.c:299) <><>  a \"b\" build 8.0.0.15  <><>";

    #[test]
    fn what_stands_before_the_stamp_is_the_source_without_its_times_and_numbers() {
        let json = serde_json::to_string(&format!("{LINE}\n")).unwrap().replace('<', "\\u003c");
        for (line, source) in [
            (LINE.to_owned(), ""),
            (format!("aerospike-1  | {LINE}"), "aerospike-1"),
            (format!("aerospike-2  | 2026-11-20T23:04:05.123456789Z {LINE}"), "aerospike-2"),
            (format!("2026-11-20T23:04:05.12Z {LINE}"), ""),
            (format!("2026-11-20T23:04:05.123+01:00 stderr F {LINE}"), ""),
            (format!("[pod/aerospike-0/aerospike-server] {LINE}"), "[pod/aerospike-0/aerospike-server]"),
            (format!("Nov 20 23:04:05 host asd[4242]: {LINE}"), "host asd"),
            (format!("Dec  1 03:04:05 host asd[77]: {LINE}"), "host asd"),
            (format!("<30>1 2026-11-20T23:04:05.003Z host asd 4242 - - {LINE}"), "host asd"),
            (format!("{{\"log\":{json},\"stream\":\"stdout\",\"time\":\"2026-11-20T23:04:05Z\"}}"), ""),
            (format!("a.json:{{\"time\":7,\"MESSAGE\":{json}}}"), "a.json"),
            (format!("1234:{LINE}"), ""),
            (format!("asd.log:1234:{LINE}"), "asd.log"),
            (format!("asd.log-1235-{LINE}"), "asd.log"),
            (format!("asd.log:aerospike-1  | {LINE}"), "asd.log aerospike-1"),
            (format!("\x1b[36maerospike-1  | \x1b[0m{LINE}"), "\x1b[36maerospike-1 \x1b[0m"),
            (format!("I0704 12:00 a NULL: GMT x GMT: {LINE}"), "I0704 a NULL GMT x GMT"),
        ] {
            let mut prefixes = Prefixes::default();
            for _ in 0..2 {
                let (found, server_line) = prefixes.split(line.as_bytes()).unwrap();
                assert_eq!((found, server_line.as_ref()), (source, LINE.as_bytes()), "{line}");
            }
        }
        for line in ["", " GMT", "a b c d GMT: x", "Nov 20 23:04:05 host asd[4242]: x", "xNov 20 2026 23:04 GMT: "] {
            assert_eq!(Prefixes::default().split(line.as_bytes()), None, "{line}");
        }
    }
}
