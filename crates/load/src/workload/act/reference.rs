//! The option reference: text for a terminal and Markdown for `docs/options.md`.

use super::options::{Default, OptionSpec, Since, Test, all, options_of};
use std::fmt::Write;

/// Columns that the narrowest common terminal shows, so that it need not break lines again.
const HELP_COLUMNS: usize = 79;

/// The options of `test` for `--help`: effect first, then unit, default and range, then advice.
///
/// Shape: paragraphs of at most [`HELP_COLUMNS`], one for each option.
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
            wrap(&mut text, paragraph, "    ", HELP_COLUMNS);
        }
        text.push('\n');
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}

/// `docs/options.md`, whole.
pub fn markdown() -> String {
    let mut text = String::from(
        "# Options of a configuration file\n\n\
         <!-- Generated from the option table. To update: UPDATE_DOCS=1 cargo test -p load --test act_docs -->\n\n\
         A file has one `name: value` on each line; `#` starts a comment. Rates are totals over all devices.\n\
         Every mistake is an error that names its line. `flashproof storage CONFIG` and `flashproof index CONFIG`\n\
         read the keys of their test.\n",
    );
    let groups = [
        (Since::Act66, "Keys of ACT 6.6", "They mean what they mean to ACT, apart from docs/act-differences.md."),
        (Since::Act4, "Keys of ACT 4", "Each is answered with a warning that says what became of it."),
        (
            Since::Paper,
            "Keys of histogram loads",
            "Announced for ACT 4 by Aerospike's sizing paper and never released; docs/method.md has their rules.",
        ),
        (Since::Flashproof, "Own keys", "ACT refuses a file that has one of them."),
    ];
    for (since, title, note) in groups {
        let options = || all().filter(|spec| spec.since == since);
        let _ = writeln!(
            text,
            "\n## {title}\n\n{note}\n\n| Key | Test | Unit | Default | Allowed |\n|---|---|---|---|---|"
        );
        for spec in options() {
            let unit = if spec.unit.is_empty() { "-" } else { spec.unit };
            let test = match spec.tests {
                [Test::Storage] => "storage",
                [Test::Index] => "index",
                _ => "both",
            };
            let _ = writeln!(text, "| `{}` | {test} | {unit} | {} | {} |", spec.name, default_text(spec), spec.range());
        }
        text.push('\n');
        for spec in options() {
            let _ = writeln!(text, "- **`{}`**: {} {}", spec.name, spec.help, spec.advice);
        }
    }
    text
}

pub(super) fn default_text(spec: &OptionSpec) -> String {
    match spec.default {
        Default::Mandatory(_) => "none, has to be given".into(),
        Default::Value(text) => text.into(),
        Default::Unset { word: Some(word), what } => format!("{word}: {what}"),
        Default::Unset { word: None, what } => format!("not set: {what}"),
    }
}

/// Appends `paragraph`, broken at spaces into lines of at most `columns`.
pub(super) fn wrap(text: &mut String, paragraph: &str, indent: &str, columns: usize) {
    let mut column = 0;
    for word in paragraph.split_whitespace() {
        let starts_line = column == 0 || column + 1 + word.len() > columns;
        if starts_line && column != 0 {
            text.push('\n');
        }
        let gap = if starts_line { indent } else { " " };
        column = if starts_line { 0 } else { column } + gap.len() + word.len();
        text.push_str(gap);
        text.push_str(word);
    }
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_names_every_option_within_100_columns() {
        let text = help_text(Test::Storage);
        assert!(text.lines().all(|line| line.len() <= HELP_COLUMNS));
        for spec in options_of(Test::Storage) {
            assert!(text.lines().any(|line| line == spec.name), "{}", spec.name);
        }
    }

    #[test]
    fn lines_are_broken_at_spaces() {
        let mut text = String::new();
        wrap(&mut text, "one two three", "  ", 9);
        assert_eq!(text, "  one two\n  three\n");
    }
}
