//! The lines of a file while they are translated: each keeps its number.
//!
//! Translation replaces lines and adds some at the end, so errors of the parser still have the line number of the old
//! file.

use super::super::dialect::{self, KeyLine};
use super::super::options::{OptionField, OptionKind, OptionSpec, whole_number};
use super::super::parse::located;
use super::super::problem::{ConfigProblem, Located};
use super::super::table::{ROW, U32_MAX, from};

pub(super) struct LegacyLines {
    lines: Vec<KeyLine<String>>,
    added: Vec<(&'static str, String)>,
    problems: Vec<(Option<usize>, ConfigProblem)>,
    pub(super) changes: Vec<(&'static str, String)>,
}

impl LegacyLines {
    pub(super) fn new(bytes: &[u8]) -> Self {
        let mut file = Self {
            lines: Vec::new(),
            added: Vec::new(),
            problems: Vec::new(),
            changes: Vec::new(),
        };
        for line in dialect::lines(bytes) {
            match line {
                Ok(KeyLine { number, key, value }) => file.put(number, key, value),
                Err((number, problem)) => file
                    .problems
                    .push((Some(number), ConfigProblem::Other(problem))),
            }
        }
        file
    }

    /// The key of each line; a key can come more than once.
    pub(super) fn keys(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().map(|entry| entry.key.as_str())
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.keys().any(|there| there == key)
    }

    pub(super) fn gives(&self, key: &str) -> bool {
        self.has(key) || self.added.iter().any(|(added, _)| *added == key)
    }

    pub(super) fn value(&self, key: &str) -> Option<&str> {
        self.lines
            .iter()
            .find(|entry| entry.key == key)
            .map(|entry| entry.value.as_str())
    }

    /// The value of `key`; `None` if missing or no 32-bit number. The line stays, and the parser checks the value.
    pub(super) fn number(&self, key: &str) -> Option<u32> {
        u32::try_from(whole_number(self.value(key)?).ok()?).ok()
    }

    /// Line and value of a key; removes the key's lines. A second line with the key is recorded as an error.
    pub(super) fn take(&mut self, key: &'static str) -> Option<(usize, String)> {
        let mut entries = self.take_all(|there| there == key).into_iter();
        let first_entry = entries.next()?;
        let again = entries.map(|entry| {
            (
                Some(entry.number),
                ConfigProblem::given_twice(key, first_entry.number),
            )
        });
        self.problems.extend(again);
        Some((first_entry.number, first_entry.value))
    }

    pub(super) fn take_all(&mut self, unwanted: impl Fn(&str) -> bool) -> Vec<KeyLine<String>> {
        let (taken, kept) = std::mem::take(&mut self.lines)
            .into_iter()
            .partition(|entry| unwanted(&entry.key));
        self.lines = kept;
        taken
    }

    /// Line and numeric value of a key; removes the key's lines. A value that is not a number of at least `min` gives
    /// `None`, and is recorded as an error.
    pub(super) fn take_number(&mut self, key: &'static str, min: u32) -> Option<(usize, u32)> {
        self.take_as(key, from(min.into(), U32_MAX))
    }

    /// Line and value of a key that is not in the option table, parsed as `kind`; removes the key's lines. A value that
    /// `kind` does not allow gives `None`, and is recorded as an error.
    pub(super) fn take_as<T: OptionField + Default>(
        &mut self,
        key: &'static str,
        kind: OptionKind,
    ) -> Option<(usize, T)> {
        let (line, text) = self.take(key)?;
        let mut value = T::default();
        match (OptionSpec {
            name: key,
            kind,
            ..ROW
        })
        .set(&mut value, &text)
        {
            Ok(()) => Some((line, value)),
            Err(problem) => {
                self.problem(Some(line), problem);
                None
            }
        }
    }

    pub(super) fn put(&mut self, number: usize, key: &str, value: impl ToString) {
        let index = self.lines.partition_point(|entry| entry.number <= number);
        self.lines.insert(
            index,
            KeyLine {
                number,
                key: key.to_owned(),
                value: value.to_string(),
            },
        );
    }

    pub(super) fn change(&mut self, key: &str, value: impl ToString) {
        if let Some(entry) = self.lines.iter_mut().find(|entry| entry.key == key) {
            entry.value = value.to_string();
        }
    }

    pub(super) fn add(&mut self, key: &'static str, value: impl ToString) {
        self.added.push((key, value.to_string()));
    }

    /// Records a change and its reason, under the current key that the change concerns.
    pub(super) fn changed(&mut self, key: &'static str, change: impl Into<String>) {
        self.changes.push((key, change.into()));
    }

    pub(super) fn problem(&mut self, line: Option<usize>, problem: ConfigProblem) {
        self.problems.push((line, problem));
    }

    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        let mut number = 1;
        for entry in &self.lines {
            while number < entry.number {
                text.push('\n');
                number += 1;
            }
            text.push_str(&format!("{}: {}\n", entry.key, entry.value));
            number += 1;
        }
        self.added
            .iter()
            .for_each(|(key, value)| text.push_str(&format!("{key}: {value}\n")));
        text
    }

    /// The problems found during translation and the `parser`'s problems, in the order of the lines.
    pub(super) fn problems(
        mut self,
        file: &str,
        parser: Vec<Located<ConfigProblem>>,
    ) -> Vec<Located<ConfigProblem>> {
        self.problems.extend(
            parser
                .into_iter()
                .map(|problem| (problem.line, problem.what)),
        );
        located(file, self.problems)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_keep_their_numbers_because_a_removed_line_stays_as_a_blank_line() {
        let mut lines = LegacyLines::new(b"# c\na: 1\n\nb 2 # two\nc:\n");
        assert_eq!(lines.take("a"), Some((2, "1".into())));
        lines.put(2, "d", 9);
        lines.add("e", "yes");
        assert_eq!(lines.text(), "\nd: 9\n\nb: 2\nc: \ne: yes\n");
        assert_eq!(lines.take("b"), Some((4, "2".into())));
        assert_eq!(lines.text(), "\nd: 9\n\n\nc: \ne: yes\n");
    }

    #[test]
    fn invalid_values_of_old_keys_are_reported_with_their_line() {
        let mut lines = LegacyLines::new(b"n: 0\nf: maybe\nn: 3\n: 4\n");
        assert_eq!(lines.take_number("n", 1), None);
        assert_eq!(lines.take_as::<bool>("f", OptionKind::YesNo), None);
        let texts: Vec<_> = lines
            .problems("x", Vec::new())
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(
            texts,
            [
                "x:1: n: 0 is too small - give a whole number from 1 to 4294967295",
                "x:2: f: \"maybe\" is neither yes nor no - give yes or no",
                "x:3: n: already given in line 1 - keep one of the two",
                "x:4: no key before the colon - write \"name: value\"",
            ]
        );
    }
}
