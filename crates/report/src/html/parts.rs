//! Small pieces that pages are made of.

use super::escape::text;
use crate::words;
use results::judge::Outcome;

/// A table with headings. `rows` are cells of HTML; the first of a row is its heading.
pub(super) fn table(caption: &str, headings: &[&str], rows: &[Vec<String>]) -> String {
    let head: String = headings.iter().map(|heading| format!("<th scope=\"col\">{}</th>", text(heading))).collect();
    let row = |row: &Vec<String>| {
        let cells = row.iter().enumerate().map(|(at, cell)| match at {
            0 => format!("<th scope=\"row\">{cell}</th>"),
            _ => format!("<td>{cell}</td>"),
        });
        format!("<tr>{}</tr>\n", cells.collect::<String>())
    };
    format!(
        "<div class=\"scroll\" tabindex=\"0\"><table><caption>{}</caption><thead><tr>{head}</tr></thead>\n\
         <tbody>\n{}</tbody></table></div>\n",
        text(caption),
        rows.iter().map(row).collect::<String>()
    )
}

/// An outcome as a word with a sign, coloured.
pub(super) fn badge(outcome: Option<Outcome>) -> String {
    let (class, sign, word) = match outcome {
        Some(Outcome::Pass) => ("pass", "✔", words::outcome(Outcome::Pass)),
        Some(Outcome::Fail) => ("fail", "✘", words::outcome(Outcome::Fail)),
        Some(Outcome::Invalid) => ("invalid", "?", words::outcome(Outcome::Invalid)),
        None => ("invalid", "…", "UNFINISHED"),
    };
    format!("<span class=\"badge {class}\"><span aria-hidden=\"true\">{sign}</span> {word}</span>")
}

/// Sentences as a list; nothing of none.
pub(super) fn list<T: AsRef<str>>(sentences: &[T]) -> String {
    if sentences.is_empty() {
        return String::new();
    }
    let items = sentences.iter().map(|sentence| format!("<li>{}</li>\n", text(sentence.as_ref())));
    format!("<ul>\n{}</ul>\n", items.collect::<String>())
}

/// What a reader must know first.
pub(super) fn banners<'a>(sentences: impl Iterator<Item = &'a str>) -> String {
    sentences.map(|sentence| format!("<p class=\"banner\" role=\"note\">{}</p>\n", text(sentence))).collect()
}

/// A heading of the level `level`, 1 to 6.
pub(super) fn heading(level: usize, id: &str, title: &str) -> String {
    let level = level.clamp(1, 6);
    let id = if id.is_empty() { String::new() } else { format!(" id=\"{}\"", text(id)) };
    format!("<h{level}{id}>{}</h{level}>\n", text(title))
}
