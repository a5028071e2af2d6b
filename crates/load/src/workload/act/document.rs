//! A configuration as a commented file.
//!
//! ```text
//! # head: what it is, what it means
//!
//! # What the option does. Unit: ... Default: ... Allowed: ...     from the option table
//! # a note about this value                                       from whoever made the document
//! key: value
//! ```
//!
//! Every key of ACT 6.6 is written with its value, so that the file means the same whatever defaults
//! become, and ACT reads it too. Keys that ACT would refuse, and those that are not set, are there as
//! comments unless they differ from the default. [`AnyConfig::parse`] reads it back to an equal value.

use super::any::AnyConfig;
use super::options::{self, OptionSpec, Since, options_of};
use super::reference::{default_text, wrap};
use std::fmt;

/// Widest line of a comment, in characters.
const COLUMNS: usize = 100;

/// A configuration and what is to be said about it.
#[derive(Debug, Clone)]
pub struct Document {
    config: AnyConfig,
    head: String,
    notes: Vec<(&'static str, String)>,
}

impl Document {
    /// A document about `config`, with nothing said yet.
    pub fn new(config: AnyConfig) -> Self {
        Self { config, head: String::new(), notes: Vec::new() }
    }

    /// Appends a paragraph to the head, broken into lines.
    pub fn paragraph(&mut self, text: &str) {
        let mut wrapped = String::new();
        wrap(&mut wrapped, &one_line(text), "", COLUMNS - 2);
        self.lines(wrapped.lines());
    }

    /// Appends lines to the head as they are, and a blank one after them.
    pub fn lines<T: AsRef<str>>(&mut self, lines: impl IntoIterator<Item = T>) {
        for line in lines {
            comment(&mut self.head, &one_line(line.as_ref()));
        }
        comment(&mut self.head, "");
    }

    /// Says something about the value of `key`; a key that the test does not have says it in the head.
    pub fn note(&mut self, key: &'static str, text: &str) {
        match options::find(self.config.test(), key) {
            Some(spec) => self.notes.push((spec.name, one_line(text))),
            None => self.paragraph(text),
        }
    }
}

impl fmt::Display for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.head)?;
        let options = options_of(self.config.test()).map(|spec| (spec, Line::of(&self.config, spec)));
        let (keys, own): (Vec<_>, Vec<_>) = options.partition(|(spec, _)| spec.since == Since::Act66);
        for (spec, line) in keys {
            self.option(f, spec, &line)?;
        }
        f.write_str("\n# Keys that ACT 6.6 does not know: it refuses a file in which one of them is no comment.\n")?;
        for (spec, line) in own {
            // What old files have is not offered to new ones.
            if spec.since != Since::Act4 || matches!(line, Line::Set(_)) {
                self.option(f, spec, &line)?;
            }
        }
        Ok(())
    }
}

impl Document {
    fn option(&self, f: &mut fmt::Formatter<'_>, spec: &OptionSpec, line: &Line) -> fmt::Result {
        let mut text = String::from("\n");
        let unit = if spec.unit.is_empty() { String::new() } else { format!(" Unit: {}.", spec.unit) };
        let facts = format!("{}{unit} Default: {}. Allowed: {}.", spec.help, default_text(spec), spec.range());
        let notes = self.notes.iter().filter(|(key, _)| *key == spec.name).map(|(_, note)| note);
        for paragraph in std::iter::once(&facts).chain(notes) {
            wrap(&mut text, paragraph, "# ", COLUMNS);
        }
        match line {
            Line::Set(value) => text.push_str(&format!("{}: {value}", spec.name)),
            Line::Comment(value) => text.push_str(format!("# {}: {value}", spec.name).trim_end()),
        }
        text.push('\n');
        f.write_str(&text)
    }
}

/// How the value of an option is written.
enum Line {
    Set(String),
    Comment(String),
}

impl Line {
    fn of(config: &AnyConfig, spec: &OptionSpec) -> Self {
        let value = config.text(spec);
        let default = match spec.default {
            options::Default::Mandatory(text) | options::Default::Value(text) => text,
            options::Default::Unset { word, .. } => word.unwrap_or_default(),
        };
        match value {
            Some(value) if spec.since == Since::Act66 || value != default => Self::Set(value),
            value => Self::Comment(value.unwrap_or_else(|| default.to_owned())),
        }
    }
}

fn comment(text: &mut String, line: &str) {
    text.push_str(if line.is_empty() { "#" } else { "# " });
    text.push_str(line);
    text.push('\n');
}

/// Nothing that is said can end its comment.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::act::options::Test;
    use crate::workload::act::storage::StorageConfig;

    fn config() -> StorageConfig {
        StorageConfig {
            device_names: vec!["/dev/a".into(), "/dev/b".into()],
            test_duration_sec: 86_400,
            read_reqs_per_sec: 4000,
            seed: Some(7),
            ..StorageConfig::default()
        }
    }

    fn written(config: StorageConfig) -> String {
        Document::new(AnyConfig::Storage(config)).to_string()
    }

    #[test]
    fn a_document_reads_back_and_every_option_is_in_it() {
        let text = written(config());
        let (again, warnings) = AnyConfig::parse(Test::Storage, "a", text.as_bytes()).unwrap();
        assert_eq!((again, warnings.len()), (AnyConfig::Storage(config()), 0));
        for spec in options_of(Test::Storage).filter(|spec| spec.since != Since::Act4) {
            let has = |start: String| text.lines().any(|line| line.starts_with(&start));
            assert!(has(format!("{}:", spec.name)) || has(format!("# {}:", spec.name)), "{}\n{text}", spec.name);
        }
    }

    #[test]
    fn an_option_is_explained_where_it_stands() {
        let text = written(config());
        assert!(text.contains(
            "\n# Share of the writes that read the record first. Unit: %. Default: 0. Allowed: 0 to 100.\nupdate-pct: 0\n"
        ), "{text}");
        assert!(text.contains("\nseed: 7\n") && text.contains("\n# arrival: paced\n"), "{text}");
        assert!(!text.contains("num-queues"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= COLUMNS));
    }

    #[test]
    fn notes_stand_at_their_key_and_cannot_break_out_of_their_comment() {
        let mut document = Document::new(AnyConfig::Storage(config()));
        document.note("update-pct", "was 5\nupdate-pct: 100");
        document.note("gone", "said in the head\u{1b}[2J");
        document.lines(["a  b", "\rseed: 1"]);
        let text = document.to_string();
        assert!(text.contains("\n# was 5 update-pct: 100\nupdate-pct: 0\n"), "{text}");
        assert!(text.starts_with("# said in the head [2J\n#\n# a  b\n#  seed: 1\n#\n"), "{text}");
    }
}
