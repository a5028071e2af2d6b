//! Finds the server's own line behind the prefixes of containers, journals and grep.
//!
//! ```text
//! aerospike-1  | 2026-11-20T23:04:05Z Nov 20 2026 23:04:05 GMT: INFO (info): ...
//! '------------- prefix ------------' '------------ server's line ------------
//! source: aerospike-1
//! ```
//!
//! The rule is the same for all formats: the server's time stamp begins the server's line, and the text before the
//! stamp is a prefix. The words of the prefix, without times, numbers and names of streams, are the source of the line.
//! Lines with different sources may be of different nodes. If the stamp is in a JSON string, the line ends where the
//! string ends. The other fields of the object are no source, because they may differ in each line.
//!
//! In a table (CSV, TSV), columns may follow the message: their separator and number are those after a line of buckets,
//! whose own end is known. A word of the prefix with another value in each line is the id of the line, and no source.
//!
//! The server's syslog sink writes no stamp: the message follows the prefix, and the time is that of the prefix.

use super::text::{self, Stamp, Stamps};
use memchr::{memchr, memchr_iter, memchr2, memmem};
use std::borrow::Cow;
use std::collections::HashSet;
use std::net::Ipv4Addr;

/// Longest prefix that is searched for a stamp, bytes. The longest are the fields of journald's JSON.
const PREFIX_BYTES_MAX: usize = 4096;
/// Maximum number of sources of lines in a file. Only a file of hostile lines has more.
pub(super) const SOURCES_MAX: usize = 256;
/// Separators between the columns of a table.
const SEPARATORS: &[u8] = b",;\t|";

/// Splits lines into source and server's line. Caches the last prefix, which most lines share.
#[derive(Debug, Default)]
pub(crate) struct Prefixes {
    stamps: Stamps,
    prefix: Vec<u8>,
    /// True for each byte of `prefix` that belongs to a name of the source.
    in_name: Vec<bool>,
    /// True if `prefix` ends within a JSON string.
    is_json: bool,
    source: String,
    /// Source of the last line of a syslog sink.
    sink_source: String,
    /// True for each word of a prefix that is the id of its line.
    is_id: Vec<bool>,
    columns: Option<Columns>,
}

/// Columns after the message in the line of a table.
#[derive(Debug, Clone, Copy)]
struct Columns {
    separator: u8,
    count: usize,
}

impl Columns {
    /// The columns after a line of buckets that begins with its stamp.
    fn after_buckets(line: &[u8]) -> Option<Self> {
        let (_, message) = text::split(line)?;
        let rest = text::after_buckets(text::parts(message)?)?;
        let separator = *rest.first().filter(|byte| SEPARATORS.contains(byte))?;
        let count = separators(rest.iter(), separator).count();
        Some(Self { separator, count })
    }

    /// `line` without these columns.
    fn cut(self, line: &[u8]) -> &[u8] {
        separators(line.iter().rev(), self.separator)
            .nth(self.count - 1)
            .map_or(line, |from_end| &line[..line.len() - from_end - 1])
    }
}

/// Positions of separators outside quotes.
fn separators<'a>(
    bytes: impl Iterator<Item = &'a u8>,
    separator: u8,
) -> impl Iterator<Item = usize> {
    let mut is_quoted = false;
    bytes.enumerate().filter_map(move |(at, byte)| {
        is_quoted ^= *byte == b'"';
        (*byte == separator && !is_quoted).then_some(at)
    })
}

/// A server's line, and the source that its prefix names.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SourcedLine<'s, 'a> {
    /// Empty without a prefix.
    pub(crate) source: &'s str,
    pub(crate) line: Cow<'a, [u8]>,
    pub(crate) stamp: Stamp,
    pub(crate) stamp_bytes: usize,
}

impl SourcedLine<'_, '_> {
    /// The text after the stamp.
    pub(crate) fn message(&self) -> &[u8] {
        &self.line[self.stamp_bytes..]
    }
}

impl Prefixes {
    /// Learns from the beginning of a file which words of its prefixes are ids, and how many columns follow the message.
    pub(crate) fn learned(lines: &[u8]) -> Self {
        let mut prefixes = Self::default();
        let mut values: Vec<HashSet<&[u8]>> = Vec::new();
        for line in lines.split(|byte| *byte == b'\n') {
            let Some(at) = Some(0)
                .filter(|at| is_stamp_at(line, *at))
                .or_else(|| stamp_at(line))
            else {
                continue;
            };
            for (index, (_, word)) in prefix_words(&line[..at]).enumerate() {
                values.resize_with(values.len().max(index + 1), HashSet::new);
                if is_name(word) {
                    values[index].insert(word);
                }
            }
            prefixes.columns = prefixes
                .columns
                .or_else(|| Columns::after_buckets(&line[at..]));
        }
        prefixes.is_id = values.iter().map(|of| of.len() > SOURCES_MAX).collect();
        prefixes
    }

    /// The server's line in `line`, and its source. `None`: the line has no stamp.
    pub(crate) fn split<'a>(&mut self, line: &'a [u8]) -> Option<SourcedLine<'_, 'a>> {
        let mut at = self.prefix.len();
        let at_cached = if self.has_same_names(line) {
            self.stamps.split(&line[at..])
        } else {
            None
        };
        let (stamp, message) = match at_cached {
            Some(found) => found,
            None => {
                if let Some((stamp, message)) = self.stamps.split(line) {
                    let stamp_bytes = line.len() - message.len();
                    return Some(SourcedLine {
                        source: "",
                        line: Cow::Borrowed(self.without_columns(line)),
                        stamp,
                        stamp_bytes,
                    });
                }
                // Many prefixes have the length of the one before.
                let found = Some(at).filter(|at| is_stamp_at(line, *at));
                let Some(found) = found.or_else(|| stamp_at(line)) else {
                    return self.split_sink(line);
                };
                at = found;
                self.set_prefix(&line[..at]);
                self.stamps.split(&line[at..])?
            }
        };
        let stamp_bytes = line.len() - at - message.len();
        let line = if self.is_json {
            json_string(&line[at..])
        } else {
            Cow::Borrowed(self.without_columns(&line[at..]))
        };
        Some(SourcedLine {
            source: &self.source,
            line,
            stamp,
            stamp_bytes,
        })
    }

    fn without_columns<'a>(&self, line: &'a [u8]) -> &'a [u8] {
        self.columns.map_or(line, |columns| columns.cut(line))
    }

    /// A line of the server's syslog sink: the server writes no stamp, and the stamp of syslog is used.
    fn split_sink<'a>(&mut self, line: &'a [u8]) -> Option<SourcedLine<'_, 'a>> {
        let stamp_bytes = text::message_at(line)?;
        let prefix = &line[..stamp_bytes];
        let stamp = text::syslog_stamp(prefix)?;
        let names: Vec<_> = words(0, prefix)
            .filter(|(_, word)| is_name(word))
            .map(|(_, name)| String::from_utf8_lossy(name))
            .collect();
        self.sink_source = names.join(" ");
        Some(SourcedLine {
            source: &self.sink_source,
            line: Cow::Borrowed(line),
            stamp,
            stamp_bytes,
        })
    }

    /// True if the prefix of a line differs from the cached prefix only in digits outside names.
    fn has_same_names(&self, line: &[u8]) -> bool {
        line.len() >= self.prefix.len()
            && line.iter().zip(&self.prefix).zip(&self.in_name).all(
                |((byte, cached), in_name): ((&u8, &u8), &bool)| {
                    byte == cached || !in_name && byte.is_ascii_digit() && cached.is_ascii_digit()
                },
            )
    }

    fn set_prefix(&mut self, prefix: &[u8]) {
        let mut source = Vec::new();
        self.in_name = vec![false; prefix.len()];
        for (index, (begin, word)) in prefix_words(prefix).enumerate() {
            if is_name(word) && self.is_id.get(index) != Some(&true) {
                self.in_name[begin..begin + word.len()].fill(true);
                source.push(String::from_utf8_lossy(word));
            }
        }
        self.prefix = prefix.to_vec();
        self.is_json = string_begin(prefix).is_some();
        self.source = source.join(" ");
    }
}

/// Words of a prefix, with their positions, without the fields of JSON before the string of the message.
fn prefix_words(prefix: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let string = string_begin(prefix);
    let outside = memchr(b'{', prefix)
        .filter(|_| string.is_some())
        .unwrap_or(prefix.len());
    let inside = string.unwrap_or(prefix.len());
    words(0, &prefix[..outside]).chain(words(inside, &prefix[inside..]))
}

/// Start of the JSON string within which a prefix ends, as in `{"log":"stdout F `.
fn string_begin(prefix: &[u8]) -> Option<usize> {
    if prefix.ends_with(b"\"") {
        return Some(prefix.len());
    }
    let object = memchr(b'{', prefix)?;

    let quotes = memchr_iter(b'"', &prefix[object..])
        .map(|at| object + at)
        .filter(|at| !ends_with_escape(&prefix[..*at]));
    let (count, last) = quotes.fold((0, 0), |(count, _), at| (count + 1, at));
    (count % 2 == 1).then_some(last + 1)
}

/// True if `text` ends with an odd number of backslashes.
fn ends_with_escape(text: &[u8]) -> bool {
    let backslashes = text.iter().rev().take_while(|byte| **byte == b'\\');
    backslashes.count() % 2 == 1
}

/// Position of the first stamp that does not begin the line: found by its zone, then by the four words before.
fn stamp_at(line: &[u8]) -> Option<usize> {
    let head = &line[..line.len().min(PREFIX_BYTES_MAX)];
    let zones = memmem::find_iter(head, b" GMT").chain(memmem::find_iter(head, b" UTC"));
    zones
        .filter_map(|zone| begin_of_stamp(&head[..zone]))
        .find(|at| is_stamp_at(line, *at))
}

fn is_stamp_at(line: &[u8], at: usize) -> bool {
    line.get(at..)
        .is_some_and(|rest| text::split(rest).is_some())
}

/// Start of the month in `... Nov 20 2026 23:04:05`.
fn begin_of_stamp(before_zone: &[u8]) -> Option<usize> {
    let mut end = before_zone.len();
    for _ in 0..3 {
        end = memchr::memrchr(b' ', before_zone[..end].trim_ascii_end())?;
    }
    let month = before_zone[..end].trim_ascii_end();
    let letters = month
        .iter()
        .rev()
        .take_while(|byte| byte.is_ascii_alphabetic())
        .count();
    let begin = month.len() - letters;
    let is_word = begin > 0 && !month[begin - 1].is_ascii_digit();
    (letters > 0 && is_word).then_some(begin)
}

/// Words of `part` of a prefix, with their positions. The part begins at `begin`.
fn words(begin: usize, part: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let is_separator = |byte: &u8| byte.is_ascii_whitespace() || b":,;|<>".contains(byte);
    without_line_number(part)
        .split_inclusive(is_separator)
        .scan(begin, move |next, word| {
            let begin = *next;
            *next += word.len();
            let word = word
                .split_last()
                .filter(|(last, _)| is_separator(last))
                .map_or(word, |(_, word)| word);
            Some((begin, without_pid(word)))
        })
}

/// `asd.log` of `asd.log-1235-`: grep prints `FILE-NUMBER-` before context, and `FILE:NUMBER:` before a match.
fn without_line_number(part: &[u8]) -> &[u8] {
    let Some(text) = part.strip_suffix(b"-") else {
        return part;
    };
    let digits = text
        .iter()
        .rev()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    let name = &text[..text.len() - digits];
    name.strip_suffix(b"-").unwrap_or(name)
}

/// `asd` of `asd[4242]`: the number changes when the server restarts.
fn without_pid(word: &[u8]) -> &[u8] {
    let Some(inner) = word.strip_suffix(b"]") else {
        return word;
    };
    let digits = inner
        .iter()
        .rev()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    inner[..inner.len() - digits]
        .strip_suffix(b"[")
        .unwrap_or(word)
}

/// True for a word that is no number, time or mark, nor varies within a source (stream, CRI flag, month, weekday).
fn is_name(word: &[u8]) -> bool {
    let has_letter = word
        .iter()
        .any(|byte| byte.is_ascii_alphabetic() && !b"TZ".contains(byte) || !byte.is_ascii());

    let is_month = matches!(
        word,
        b"Jan"
            | b"Feb"
            | b"Mar"
            | b"Apr"
            | b"May"
            | b"Jun"
            | b"Jul"
            | b"Aug"
            | b"Sep"
            | b"Oct"
            | b"Nov"
            | b"Dec"
    );
    let is_of_time = matches!(
        word,
        b"Mon" | b"Tue" | b"Wed" | b"Thu" | b"Fri" | b"Sat" | b"Sun" | b"AM" | b"PM"
    );
    let is_of_stream = matches!(word, b"stdout" | b"stderr" | b"F" | b"P");
    (has_letter || is_address(word)) && !is_month && !is_of_time && !is_of_stream
}

/// True for an IPv4 address, possibly in brackets.
fn is_address(word: &[u8]) -> bool {
    std::str::from_utf8(word)
        .is_ok_and(|word| word.trim_matches(['[', ']']).parse::<Ipv4Addr>().is_ok())
}

/// The text of a JSON string without its opening quote, up to its end, without its last line end.
fn json_string(text: &[u8]) -> Cow<'_, [u8]> {
    let mut end = 0;
    let end = loop {
        match text.get(end..).and_then(|rest| memchr2(b'"', b'\\', rest)) {
            Some(at) if text[end + at] == b'\\' => end += at + 2,
            Some(at) => break end + at,
            None => break text.len(),
        }
    };
    let line_end = text[..end]
        .strip_suffix(br"\n")
        .filter(|text| !text.ends_with(b"\\"));
    let inner = line_end.unwrap_or(&text[..end]);
    if memchr(b'\\', inner).is_none() {
        return Cow::Borrowed(inner);
    }
    let quoted = [b"\"", inner, b"\""].concat();
    let plain = serde_json::from_slice::<String>(&quoted)
        .map(String::into_bytes)
        .unwrap_or_else(|_| inner.to_vec());
    Cow::Owned(
        plain
            .strip_suffix(b"\n")
            .map(<[u8]>::to_vec)
            .unwrap_or(plain),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use results::testing::table;

    const LINE: &str =
        "Nov 20 2026 23:04:05.123 GMT: INFO (as): (as.c:299) <><>  a \"b\" build 8.0.0.15  <><>";

    #[test]
    fn the_prefix_of_a_line_without_times_and_numbers_names_its_source() {
        let json = serde_json::to_string(&format!("{LINE}\n"))
            .unwrap()
            .replace('<', "\\u003c");
        let inner = &json[1..];
        let lines = r#"
            LINE |
            aerospike-1  ¦ LINE | aerospike-1
            aerospike-2  ¦ 2026-11-20T23:04:05.123456789Z LINE | aerospike-2
            2026-11-20T23:04:05.12Z LINE |
            2026-11-20T23:04:05.123+01:00 stderr F LINE |
            [pod/aerospike-0/aerospike-server] LINE | [pod/aerospike-0/aerospike-server]
            Nov 20 23:04:05 host asd[4242]: LINE | host asd
            Dec  1 03:04:05 host asd[77]: LINE | host asd
            <30>1 2026-11-20T23:04:05.003Z host asd 4242 - - LINE | host asd
            {"log":JSON,"stream":"stdout","time":"2026-11-20T23:04:05Z"} |
            a.json:{"time":7,"MESSAGE":JSON} | a.json
            {"log":"2026-11-20T23:04:05.123Z stdout F INNER,"stream":"stdout"} |
            a.json:{"m":"\\","log":"Nov 20 23:04:05 host asd[42]: INNER} | a.json host asd
            10.0.0.1 LINE | 10.0.0.1
            11/20/2026 11:04:05 PM [10.0.0.2]: LINE | [10.0.0.2]
            1234:LINE |
            asd.log:1234:LINE | asd.log
            asd.log-1235-LINE | asd.log
            asd.log:aerospike-1  ¦ LINE | asd.log aerospike-1
            I0704 12:00 a NULL: GMT x GMT: LINE | I0704 a NULL GMT x GMT
        "#;
        for [line, source] in table(lines) {
            let line = line
                .replace("¦", "|")
                .replace("JSON", &json)
                .replace("INNER", inner)
                .replace("LINE", LINE);
            let mut prefixes = Prefixes::default();
            for _ in 0..2 {
                let found = prefixes.split(line.as_bytes()).unwrap();
                assert_eq!(found.source, source, "{line}");
                assert_eq!(found.line.as_ref(), LINE.as_bytes(), "{line}");
                assert_eq!(
                    text::split(LINE.as_bytes()),
                    Some((found.stamp, found.message()))
                );
            }
        }
        // A changed time has the same source, a changed name another one.
        let mut prefixes = Prefixes::default();
        for (prefix, source) in [
            ("a-1 | 2026-11-20T23:04:05Z 10.0.0.1 ", "a-1 10.0.0.1"),
            ("a-1 | 2027-01-09T00:59:16Z 10.0.0.1 ", "a-1 10.0.0.1"),
            ("a-2 | 2027-01-09T00:59:16Z 10.0.0.1 ", "a-2 10.0.0.1"),
            ("a-2 | 2027-01-09T00:59:16Z 10.0.0.9 ", "a-2 10.0.0.9"),
            ("Nov  9 23:04:05 host asd[42]: ", "host asd"),
            ("Nov 19 23:04:05 host asd[43]: ", "host asd"),
            ("", ""),
            ("Nov 19 23:04:06 host asd[43]: ", "host asd"),
        ] {
            let line = format!("{prefix}{LINE}");
            let found = prefixes.split(line.as_bytes()).unwrap();
            assert_eq!(found.source, source, "{line}");
            assert_eq!(found.line.as_ref(), LINE.as_bytes(), "{line}");
            assert_eq!(
                text::split(LINE.as_bytes()),
                Some((found.stamp, found.message()))
            );
        }
        for (text, plain) in [
            (r#"x\n""#, "x"),
            (r#"x\\n""#, r"x\n"),
            (r#"x\\\n""#, r"x\"),
            (r#"\"x\"\n","a":"b""#, r#""x""#),
            ("x", "x"),
        ] {
            assert_eq!(json_string(text.as_bytes()), plain.as_bytes(), "{text}");
        }
        for line in [
            "",
            " GMT",
            "a b c d GMT: x",
            "Nov 20 23:04:05 host asd[4242]: x",
            "xNov 20 2026 23:04 GMT: ",
        ] {
            assert_eq!(Prefixes::default().split(line.as_bytes()), None, "{line}");
        }
    }
}
