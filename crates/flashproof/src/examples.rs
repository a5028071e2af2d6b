//! The examples in the help of a command.

/// Columns of a narrow terminal. Clap wraps longer lines, which would break an example in the middle.
const COLUMNS: usize = 79;

/// Lays out `text`. An indented line is a command, with its comment after three or more blanks. Other lines are
/// paragraphs, which clap wraps at the width of the terminal. Comments are in a column next to their commands if all
/// fit, otherwise below.
pub fn lay_out_examples(text: &str) -> String {
    let examples: Vec<_> = text
        .lines()
        .filter(|line| line.starts_with("  "))
        .map(example)
        .collect();
    let column = examples
        .iter()
        .filter(|(_, comment)| !comment.is_empty())
        .map(|(command, _)| command.len() + 2)
        .max();
    let fits = |comment: &str| column.unwrap_or(0) + comment.len() <= COLUMNS;
    let fits_beside = examples.iter().all(|(_, comment)| fits(comment));
    let mut page = String::new();
    for line in text.lines() {
        let (command, comment) = example(line);
        let is_example = line.starts_with("  ");
        // Continues a paragraph.
        if !is_example && !line.is_empty() && !page.is_empty() && !page.ends_with('\n') {
            page.push(' ');
        }
        match (is_example, comment) {
            (false, _) if line.is_empty() => {
                page.push_str(if page.ends_with('\n') { "\n" } else { "\n\n" })
            }
            (false, _) if line.ends_with(':') => page += &format!("{line}\n"),
            (false, _) => page.push_str(line),
            (true, "") => page += &format!("{command}\n"),
            (true, comment) if fits_beside => {
                page += &format!("{command:width$}{comment}\n", width = column.unwrap_or(0))
            }
            (true, comment) => page += &format!("{command}\n      {comment}\n"),
        }
    }
    page.trim_end().to_owned()
}

/// Splits an indented line into a command and its comment.
fn example(line: &str) -> (&str, &str) {
    let comment_start = line
        .trim_start()
        .find("   ")
        .map(|at| at + line.len() - line.trim_start().len());
    comment_start.map_or((line, ""), |at| (&line[..at], line[at..].trim_start()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_are_next_to_their_commands_if_all_fit_and_otherwise_below() {
        let narrow =
            "Examples:\n  a b     one\n  a       two\n  c\n\nA sentence\nthat goes on.\n\nAnother.";
        assert_eq!(
            lay_out_examples(narrow),
            "Examples:\n  a b  one\n  a    two\n  c\n\nA sentence that goes on.\n\nAnother."
        );
        let long = format!("Examples:\n  {}     one\n  a       two", "x".repeat(74));
        assert_eq!(
            lay_out_examples(&long),
            format!("Examples:\n  {}\n      one\n  a\n      two", "x".repeat(74))
        );
    }
}
