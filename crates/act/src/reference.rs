//! The option table as text: `--help`, `docs/options.md`, and a configuration as a commented file.
//!
//! ```text
//! # head: origin and meaning of the configuration
//!
//! # What the option does. Unit: ... Default: ... Allowed: ...     from the option table
//! # a note about this value                                       from whoever made the document
//! key: value
//! ```
//!
//! In a [`AnnotatedConfig`] every key of ACT 6.6 is written with its value, so that the file keeps its meaning when defaults
//! change, and ACT can read it too. A key is a comment if it is not set, or if ACT would refuse it and its value is the
//! default. [`parse`](super::parse()) reads a document back to an equal configuration.

use super::config::ActConfig;
use super::options::{OptionDefault, OptionSpec, Since, Test, tests_word};
use super::table::{all, find, options_of};
use results::format::wrapped;
use std::fmt::{self, Write};

/// Width of the narrowest common terminal, which therefore does not wrap the lines again.
const HELP_COLUMNS: usize = 79;

/// Widest line of a comment, in characters.
const COLUMNS: usize = 100;

/// The options of `test` for `--help`, one paragraph each of at most 79 columns: effect, unit, default, range, advice.
pub fn help_text(test: Test) -> String {
    let mut text = String::new();
    for spec in options_of(test) {
        let facts = [
            (!spec.unit.is_empty()).then(|| format!("Unit: {}.", spec.unit)),
            Some(format!("Default: {}.", default_text(spec))),
            Some(format!("Allowed: {}.", spec.range())),
            (spec.since != Since::Act66).then(|| format!("Since: {}.", spec.since)),
        ];
        let facts = facts.into_iter().flatten().collect::<Vec<_>>().join(" ");
        text.push_str(spec.name);
        text.push('\n');
        for paragraph in [spec.help, &facts, spec.advice] {
            text += &wrapped(paragraph, "    ", HELP_COLUMNS);
        }
        text.push('\n');
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}

/// ACT's own options of `test`, at most 79 columns wide: name, effect, default.
pub fn brief_help(test: Test) -> String {
    let of_act = options_of(test).filter(|spec| spec.since == Since::Act66);
    of_act.map(brief_entry).collect()
}

fn brief_entry(spec: &OptionSpec) -> String {
    let default = match spec.default {
        OptionDefault::Mandatory(_) => "must be given".to_owned(),
        OptionDefault::Value(text) => format!("default {text}"),
        OptionDefault::Unset { word, .. } => format!("default {}", word.unwrap_or("none")),
    };
    let effect = format!("{} ({default})", spec.help.trim_end_matches('.'));
    let indent = " ".repeat(28);
    let text = wrapped(&effect, &indent, HELP_COLUMNS);
    format!("  {:<26}{}", spec.name, text.trim_start())
}

/// Full text of `docs/options.md`.
pub fn markdown() -> String {
    let mut text = String::from(
        "# Options of a configuration file\n\n\
         <!-- Generated from the option table. To update: UPDATE_DOCS=1 cargo test -p flashproof-act --test act act_docs -->\n\n\
         A file has one `name: value` on each line; `#` starts a comment. Rates are totals over all devices.\n\
         Every mistake is an error that names its line. `flashproof storage CONFIG` and `flashproof index CONFIG`\n\
         read the keys of their test.\n",
    );
    let groups = [
        (
            Since::Act66,
            "Keys of ACT 6.6",
            "These keys mean the same as in ACT, except for the differences in docs/act-differences.md.",
        ),
        (
            Since::OldAct,
            "Keys of older ACTs",
            "Each key gives a warning that says how flashproof treats it.",
        ),
        (
            Since::Paper,
            "Keys of histogram loads",
            "Aerospike's sizing paper announced these keys for ACT 4, but no ACT reads them. docs/method.md has \
             their rules.",
        ),
        (
            Since::Flashproof,
            "Keys of flashproof",
            "ACT refuses a file that has one of these keys.",
        ),
    ];
    for (since, title, note) in groups {
        let options = || all().filter(|spec| spec.since == since);
        let _ = writeln!(
            text,
            "\n## {title}\n\n{note}\n\n| Key | Test | Unit | Default | Allowed |\n|---|---|---|---|---|"
        );
        for spec in options() {
            let unit = if spec.unit.is_empty() { "-" } else { spec.unit };
            let test = tests_word(spec.tests);
            let default = default_text(spec);
            let _ = writeln!(
                text,
                "| `{}` | {test} | {unit} | {default} | {} |",
                spec.name,
                spec.range()
            );
        }
        text.push('\n');
        for spec in options() {
            let _ = writeln!(text, "- **`{}`**: {} {}", spec.name, spec.help, spec.advice);
        }
    }
    text
}

fn default_text(spec: &OptionSpec) -> String {
    match spec.default {
        OptionDefault::Mandatory(_) => "none, must be given".into(),
        OptionDefault::Value(text) => text.into(),
        OptionDefault::Unset {
            word: Some(word),
            what,
        } => format!("{word}: {what}"),
        OptionDefault::Unset { word: None, what } => format!("not set: {what}"),
    }
}

#[derive(Debug, Clone)]
pub struct AnnotatedConfig {
    config: ActConfig,
    head: String,
    notes: Vec<(&'static str, String)>,
}

impl AnnotatedConfig {
    pub fn new(config: ActConfig) -> Self {
        Self {
            config,
            head: String::new(),
            notes: Vec::new(),
        }
    }

    /// Appends a paragraph to the head.
    pub fn paragraph(&mut self, text: &str) {
        self.lines(wrapped(&one_line(text), "", COLUMNS - 2).lines());
    }

    /// Appends lines to the head as they are, and a blank line after them.
    pub fn lines<T: AsRef<str>>(&mut self, lines: impl IntoIterator<Item = T>) {
        for line in lines {
            comment(&mut self.head, &one_line(line.as_ref()));
        }
        comment(&mut self.head, "");
    }

    /// Adds a note on the value of `key`. If the test lacks the key, the note goes into the head.
    pub fn note(&mut self, key: &'static str, text: &str) {
        match find(self.config.test, key) {
            Some(spec) => self.notes.push((spec.name, one_line(text))),
            None => self.paragraph(text),
        }
    }
}

impl fmt::Display for AnnotatedConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.head)?;
        let (keys, own): (Vec<_>, Vec<_>) =
            options_of(self.config.test).partition(|spec| spec.since == Since::Act66);
        keys.into_iter().try_for_each(|spec| self.option(f, spec))?;
        f.write_str(
            "\n# Keys that ACT 6.6 does not know. ACT refuses a file that sets one of them.\n",
        )?;
        own.into_iter().try_for_each(|spec| self.option(f, spec))
    }
}

impl AnnotatedConfig {
    fn option(&self, f: &mut fmt::Formatter<'_>, spec: &OptionSpec) -> fmt::Result {
        let default = match spec.default {
            OptionDefault::Mandatory(text) | OptionDefault::Value(text) => text,
            OptionDefault::Unset { word, .. } => word.unwrap_or_default(),
        };
        let value = self.config.text(spec.name);
        let is_set = value
            .as_ref()
            .is_some_and(|value| spec.since == Since::Act66 || value != default);
        // Keys of old files are not offered in new ones.
        if spec.since == Since::OldAct && !is_set {
            return Ok(());
        }
        let mut text = String::from("\n");
        let unit = if spec.unit.is_empty() {
            String::new()
        } else {
            format!(" Unit: {}.", spec.unit)
        };
        let facts = format!(
            "{}{unit} Default: {}. Allowed: {}.",
            spec.help,
            default_text(spec),
            spec.range()
        );
        let notes = self
            .notes
            .iter()
            .filter(|(key, _)| *key == spec.name)
            .map(|(_, note)| note);
        for paragraph in std::iter::once(&facts).chain(notes) {
            text += &wrapped(paragraph, "# ", COLUMNS);
        }
        let mark = if is_set { "" } else { "# " };
        text += format!(
            "{mark}{}: {}",
            spec.name,
            value.as_deref().unwrap_or(default)
        )
        .trim_end();
        text.push('\n');
        f.write_str(&text)
    }
}

fn comment(text: &mut String, line: &str) {
    text.push_str(if line.is_empty() { "#" } else { "# " });
    text.push_str(line);
    text.push('\n');
}

/// Replaces control characters, so that no note can end its comment.
fn one_line(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::parse;
    use results::{assert_contains, assert_starts_with};

    #[test]
    fn help_names_every_option_within_80_columns() {
        let text = help_text(Test::Storage);
        assert!(text.lines().all(|line| line.len() <= HELP_COLUMNS));
        for spec in options_of(Test::Storage) {
            assert!(text.lines().any(|line| line == spec.name), "{}", spec.name);
        }
    }

    #[test]
    fn the_brief_help_names_every_option_of_act_and_no_other_within_80_columns() {
        for test in Test::ALL {
            let text = brief_help(test);
            assert!(text.lines().all(|line| line.len() <= HELP_COLUMNS));
            for spec in options_of(test) {
                let is_named = text.contains(&format!("\n  {} ", spec.name));
                let is_first = text.starts_with(&format!("  {} ", spec.name));
                let is_of_act = spec.since == Since::Act66;
                assert_eq!(is_named || is_first, is_of_act, "{}", spec.name);
            }
        }
    }

    fn config() -> ActConfig {
        ActConfig {
            device_names: vec!["/dev/a".parse().unwrap(), "/dev/b".parse().unwrap()],
            test_duration_sec: 86_400,
            read_reqs_per_sec: 4000,
            seed: Some(7),
            ..ActConfig::default()
        }
    }

    fn written(config: ActConfig) -> String {
        AnnotatedConfig::new(config).to_string()
    }

    #[test]
    fn an_annotated_configuration_parses_back_and_has_every_option() {
        let text = written(config());
        let again = parse(Test::Storage, "a", text.as_bytes()).unwrap();
        assert_eq!((again.config, again.warnings.len()), (config(), 0));
        for spec in options_of(Test::Storage).filter(|spec| spec.since != Since::OldAct) {
            let has = |start: String| text.lines().any(|line| line.starts_with(&start));
            assert!(
                has(format!("{}:", spec.name)) || has(format!("# {}:", spec.name)),
                "{}\n{text}",
                spec.name
            );
        }
    }

    #[test]
    fn each_option_of_an_annotated_configuration_has_its_explanation_above() {
        let text = written(config());
        assert!(text.contains(
            "\n# Share of the writes that read the record first. Unit: %. Default: 0. Allowed: 0 to 100.\nupdate-pct: 0\n"
        ), "{text}");
        assert_contains!(text, "\nseed: 7\n", "\n# arrival: paced\n");
        assert!(!text.contains("num-queues"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= COLUMNS));
    }

    #[test]
    fn notes_are_comments_above_their_key_and_cannot_add_lines_of_configuration() {
        let mut document = AnnotatedConfig::new(config());
        document.note("update-pct", "was 5\nupdate-pct: 100");
        document.note("gone", "said in the head\u{1b}[2J");
        document.lines(["a  b", "\rseed: 1"]);
        let text = document.to_string();
        assert_contains!(text, "\n# was 5 update-pct: 100\nupdate-pct: 0\n");
        assert_starts_with!(text, "# said in the head [2J\n#\n# a  b\n#  seed: 1\n#\n");
    }
}
