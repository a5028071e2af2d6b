//! A configuration file with other offsets: every other line, and every comment, as it was.

use super::Offsets;
use load::workload::act::dialect::line_of;

/// `text` with `after` in the place of `before`. Each line that changed says so in a comment, with `note`, which is one
/// line; one that was not there is added at the end, under `note`.
pub fn rewrite(text: &str, before: Offsets, after: Offsets, note: &str) -> String {
    let mut lines: Vec<String> = text.split('\n').map(str::to_owned).collect();
    let mut added = Vec::new();
    for ((key, was), (_, is)) in before.by_key().into_iter().zip(after.by_key()).filter(|(was, is)| was != is) {
        match line_of(text.as_bytes(), key) {
            Some(number) => {
                let line = &mut lines[number - 1];
                let end = if line.ends_with('\r') { "\r" } else { "" };
                let old = line.split_once('#').map(|(_, comment)| format!("; {}", comment.trim())).unwrap_or_default();
                *line = format!("{key}: {is}  # was {was}, by {note}{old}{end}");
            }
            None => added.push(format!("{key}: {is}")),
        }
    }
    if !added.is_empty() {
        while lines.last().is_some_and(|line| line.trim().is_empty()) {
            lines.pop();
        }
        lines.extend([String::new(), format!("# By {note}.")]);
        lines.extend(added);
        lines.push(String::new());
    }
    lines.join("\n")
}
