//! The syntax of the configuration file: one directive per line, and blocks of directives. Values are numbers, sizes,
//! times, booleans. As in the real server, booleans may have any case, and each number may end in `K`.
//!
//! ```text
//! namespace test {                # a block with the value "test"
//!     replication-factor 1
//! }
//! ```

use super::{ConfProblem, ConfProblems};
use results::format::quoted;
use std::fmt::Display;
use std::ops::RangeInclusive;

/// Longest file, bytes. The longest example of the real server has 5 KB.
pub(super) const FILE_BYTES_MAX: usize = 1 << 20;
/// Beginnings of variables and statements in templates: shell and envsubst, Jinja and Helm, ERB.
const TEMPLATE_MARKS: [&str; 4] = ["${", "{{", "{%", "<%"];
const SIZES: [(char, u64); 5] = [
    ('K', 1 << 10),
    ('M', 1 << 20),
    ('G', 1 << 30),
    ('T', 1 << 40),
    ('P', 1 << 50),
];
/// Maximum nesting of blocks, such as storage-engine in namespace.
const DEPTH_MAX: usize = 4;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Directive<'a> {
    pub(super) line: usize,
    pub(super) name: &'a str,
    pub(super) values: Vec<&'a str>,
    pub(super) block: Option<Vec<Directive<'a>>>,
}

impl<'a> Directive<'a> {
    /// The first directive `name` of this directive's block.
    pub(super) fn find(&self, name: &str) -> Option<&Directive<'a>> {
        self.block.iter().flatten().find(|of| of.name == name)
    }
}

/// The words of a line before its comment.
fn words(line: &str) -> impl Iterator<Item = &str> {
    let comment = line.find('#').unwrap_or(line.len());
    line[..comment].split_whitespace()
}

/// Line and reason, if `text` is a template or has another format. Nearly every line of such a file would be an error.
fn foreign_format(text: &str) -> Option<(usize, String)> {
    let lines = (1..).zip(text.lines());
    let words = lines.flat_map(|(line, text)| words(text).map(move |word| (line, word)));
    let mut words = words.peekable();
    if let Some((line, first)) = words.peek().copied()
        && (first.ends_with(':') || first == "---")
    {
        let what = "is no directive of aerospike.conf - convert YAML with \"asconfig convert\", or copy \
                    /etc/aerospike/aerospike.conf from the server's host or pod";
        return Some((line, format!("{} {what}", quoted(first))));
    }
    let (line, word) =
        words.find(|(_, word)| TEMPLATE_MARKS.iter().any(|mark| word.contains(mark)))?;
    let what = "belongs to a template - fill in the template, and give the result";
    Some((line, format!("{} {what}", quoted(word))))
}

/// Reads the directives of `text`, as the block of a directive without a name. Continues after an unreadable directive.
/// Reads nothing if the text is a template or has another format.
pub(super) fn read<'a>(text: &'a str, problems: &mut ConfProblems) -> Directive<'a> {
    let mut block = Directive {
        line: 0,
        name: "",
        values: Vec::new(),
        block: Some(Vec::new()),
    };
    if let Some((line, why)) = foreign_format(text) {
        problems.add(line, why);
        return block;
    }
    // The file and the blocks that contain `block`, the file first.
    let mut outer_blocks = Vec::new();
    for (line, text) in (1..).zip(text.lines()) {
        let mut words: Vec<_> = words(text).collect();
        let opens_block = words.last() == Some(&"{");
        words.truncate(words.len() - usize::from(opens_block));
        let (name, values) = match words.split_first() {
            Some((&"}", [])) if !opens_block => {
                if close(&mut block, &mut outer_blocks).is_none() {
                    problems.add(line, "} without an open block".to_owned());
                }
                continue;
            }
            Some((name, values)) => (*name, values.to_vec()),
            None if opens_block => {
                problems.add(line, "{ without a name before it".to_owned());
                ("", Vec::new())
            }
            None => continue,
        };
        if let Some(brace) = words.iter().find(|word| word.contains(['{', '}'])) {
            let what =
                "is in the middle of a line - end the line after {, and write } on a separate line";
            problems.add(line, format!("{} {what}", quoted(brace)));
            if !opens_block {
                continue;
            }
        }
        let directive = Directive {
            line,
            name,
            values,
            block: opens_block.then(Vec::new),
        };
        if !opens_block {
            block.block.get_or_insert_default().push(directive);
        } else if outer_blocks.len() < DEPTH_MAX {
            outer_blocks.push(std::mem::replace(&mut block, directive));
        } else {
            let what = format!(
                "blocks are nested more than {DEPTH_MAX} deep - the rest of the file is not read"
            );
            problems.add(line, what);
            return outer_blocks.swap_remove(0);
        }
    }
    while let Some((line, name)) = close(&mut block, &mut outer_blocks) {
        problems.add(line, format!("the block of {} is not closed", quoted(name)));
    }
    block
}

/// Ends `block`, and continues with the last of `outer_blocks`. Returns the line and name of the ended block; `None`:
/// no block is open.
fn close<'a>(
    block: &mut Directive<'a>,
    outer_blocks: &mut Vec<Directive<'a>>,
) -> Option<(usize, &'a str)> {
    let closed = std::mem::replace(block, outer_blocks.pop()?);
    let position = (closed.line, closed.name);
    block.block.get_or_insert_default().push(closed);
    Some(position)
}

impl ConfProblems {
    pub(super) fn add(&mut self, line: usize, text: String) {
        self.0.push(ConfProblem {
            line: Some(line),
            text,
        });
    }
}

/// The only value of a directive.
pub(super) fn text<'a>(directive: &Directive<'a>) -> Result<&'a str, String> {
    match directive.values[..] {
        [value] => Ok(value),
        [] => Err("the value is missing".to_owned()),
        _ => Err(format!(
            "expected one value, found {}",
            directive.values.len()
        )),
    }
}

/// `true`, `yes`, `false`, `no`. A missing value means true.
pub(super) fn flag(directive: &Directive<'_>) -> Result<bool, String> {
    let value = directive.values.join(" ");
    match value.to_ascii_lowercase().as_str() {
        "" | "true" | "yes" => Ok(true),
        "false" | "no" => Ok(false),
        _ => Err(format!("expected true or false, found {}", quoted(&value))),
    }
}

fn suffixed(text: &str, suffixes: &[(char, u64)]) -> Option<u64> {
    let found = suffixes
        .iter()
        .find_map(|(suffix, factor)| Some((text.strip_suffix(*suffix)?, *factor)));
    let (digits, factor) = found.unwrap_or((text, 1));
    // `parse` alone would accept a sign.
    digits
        .starts_with(|c: char| c.is_ascii_digit())
        .then(|| digits.parse::<u64>().ok()?.checked_mul(factor))?
}

pub(super) trait WholeNumber: TryFrom<u64> + PartialOrd + Display {}

impl<T: TryFrom<u64> + PartialOrd + Display> WholeNumber for T {}

fn within<T: WholeNumber>(
    directive: &Directive<'_>,
    suffixes: &[(char, u64)],
    range: RangeInclusive<T>,
    expected: &str,
) -> Result<T, String> {
    let text = text(directive)?;
    let ascii = text.to_ascii_uppercase();
    let value = suffixed(&ascii, suffixes)
        .ok_or_else(|| format!("expected {expected}, found {}", quoted(text)))?;
    T::try_from(value)
        .ok()
        .filter(|value| range.contains(value))
        .ok_or_else(|| {
            format!(
                "{text} is out of range: {} to {}",
                range.start(),
                range.end()
            )
        })
}

pub(super) fn number<T: WholeNumber>(
    directive: &Directive<'_>,
    range: RangeInclusive<T>,
) -> Result<T, String> {
    within(directive, &SIZES, range, "a whole number")
}

/// Parses bytes: `128K`, `4G`.
pub(super) fn bytes<T: WholeNumber>(
    directive: &Directive<'_>,
    range: RangeInclusive<T>,
) -> Result<T, String> {
    within(directive, &SIZES, range, "bytes such as 128K")
}

/// Seconds: `30`, `5m`, `2h`, `7d`.
pub(super) fn seconds(
    directive: &Directive<'_>,
    range: RangeInclusive<u32>,
) -> Result<u32, String> {
    within(
        directive,
        &[('S', 1), ('M', 60), ('H', 3_600), ('D', 86_400)],
        range,
        "a time such as 30 or 2h",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use results::assert_starts_with;

    #[test]
    fn blocks_are_read_with_their_lines_and_without_comments() {
        let mut problems = ConfProblems::default();
        let text = "# first\nservice {\n\tproto-fd-max 10 # few\n}\n\nnamespace test {\n storage-engine device {\n  device /dev/a /dev/b\n }\n}\n";
        let read = read(text, &mut problems).block.unwrap();
        assert_eq!(problems.0, []);
        assert_eq!(read[0].line, 2);
        assert_eq!(read[0].name, "service");
        assert_eq!(read[0].block.as_ref().unwrap()[0].values[0], "10");
        let storage = &read[1].block.as_ref().unwrap()[0];
        assert_eq!(read[1].values[0], "test");
        assert_eq!(storage.line, 7);
        assert_eq!(storage.values[0], "device");
        assert_eq!(
            storage.block.as_ref().unwrap()[0].values,
            ["/dev/a", "/dev/b"]
        );
    }

    #[test]
    fn malformed_lines_are_reported_and_the_rest_is_read() {
        let of = |text| {
            let mut problems = ConfProblems::default();
            let read = read(text, &mut problems).block.unwrap();
            (problems.to_string(), read.len())
        };
        let found = of("}\na 1");
        assert_eq!(found, ("line 1: } without an open block".to_owned(), 1));
        assert_eq!(
            of("a {\nb {\nc 1").0,
            "line 2: the block of \"b\" is not closed\nline 1: the block of \"a\" is not closed"
        );
        assert_eq!(of("{\n}").0, "line 1: { without a name before it");
        for (text, expected) in [
            (
                "a { # ${A}\n port ${PORT}\n",
                "line 2: \"${PORT}\" belongs to a template",
            ),
            ("{% if a %}\na\n", "line 1: \"{%\" belongs to a template"),
            (
                "# a\n\nkind: A\n- {}\n",
                "line 3: \"kind:\" is no directive",
            ),
            ("---\na\n", "line 1: \"---\" is no directive"),
        ] {
            let (problem, directives) = of(text);
            assert_starts_with!(problem, expected);
            assert_eq!((problem.lines().count(), directives), (1, 0), "{text}");
        }
        assert!(
            of("a { b 1 }")
                .0
                .starts_with("line 1: \"{\" is in the middle of a line"),
            "{:?}",
            of("a { b 1 }")
        );
        assert_starts_with!(
            of(&"a {\n".repeat(100_000)).0,
            "line 5: blocks are nested more than 4 deep"
        );
    }
}

#[cfg(test)]
mod values_tests {
    use super::*;

    fn directive<'a>(values: &[&'a str]) -> Directive<'a> {
        Directive {
            line: 1,
            name: "",
            values: values.to_vec(),
            block: None,
        }
    }

    #[test]
    fn values_may_have_suffixes_and_must_be_in_range() {
        assert_eq!(bytes(&directive(&["128K"]), 0..=u64::MAX), Ok(131_072));
        assert_eq!(bytes(&directive(&["4g"]), 0..=u64::MAX), Ok(4 << 30));
        assert_eq!(
            bytes(&directive(&["4G"]), 0..=u32::MAX),
            Err("4G is out of range: 0 to 4294967295".to_owned())
        );
        assert_eq!(seconds(&directive(&["2h"]), 0..=u32::MAX), Ok(7_200));
        assert_eq!(number(&directive(&["5"]), 1..=99u8), Ok(5));
        assert_eq!(number(&directive(&["1k"]), 0..=u32::MAX), Ok(1_024));
        assert_eq!(
            number(&directive(&["300"]), 1..=99u8),
            Err("300 is out of range: 1 to 99".to_owned())
        );
        for wrong in [
            "",
            "K",
            "+1",
            "-1",
            "1.5K",
            "1KK",
            "99999999999999999999",
            "17179869184G",
            "é",
        ] {
            let error = bytes(&directive(&[wrong]), 0..=u64::MAX).unwrap_err();
            assert_eq!(
                error,
                format!("expected bytes such as 128K, found {}", quoted(wrong))
            );
        }
        assert_eq!(flag(&directive(&[])), Ok(true));
        assert_eq!(flag(&directive(&["no"])), Ok(false));
        assert_eq!(flag(&directive(&["TRUE"])), Ok(true));
        assert!(
            flag(&directive(&["1"])).is_err()
                && text(&directive(&[])).is_err()
                && text(&directive(&["a", "b"])).is_err()
        );
    }
}
