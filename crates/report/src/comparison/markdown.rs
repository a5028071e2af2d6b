//! The comparison as Markdown, for tickets and wikis.

use super::Comparison;
use super::table::{Rows, published_text};
use crate::markdown::escaped;
use results::units;
use std::fmt::Write;

impl Comparison {
    /// The warnings and remarks, the table, why cells are empty, and each candidate among its neighbours.
    pub fn markdown(&self) -> String {
        let Rows { rows, notes } = Rows::of(self);
        let mut text = String::new();
        // Writing to a string cannot fail, here and below.
        for warning in &self.warnings {
            let _ = writeln!(text, "> **Warning:** {}\n", escaped(warning));
        }
        for remark in &self.remarks {
            let _ = writeln!(text, "> {}\n", escaped(remark));
        }
        let names: Vec<String> = self.candidates.iter().map(|candidate| escaped(&candidate.name)).collect();
        let _ = writeln!(text, "| | {} |\n|---|{}", names.join(" | "), "---:|".repeat(names.len()));
        for (label, cells) in &rows {
            let cells: Vec<String> = cells.iter().map(|cell| escaped(cell)).collect();
            let _ = writeln!(text, "| {label} | {} |", cells.join(" | "));
        }
        for (index, note) in notes.iter().enumerate() {
            let _ = write!(text, "\n\\[{}\\] {}\n", index + 1, escaped(note));
        }
        for candidate in &self.candidates {
            let Some(place) = candidate.place.value() else { continue };
            let _ = writeln!(text, "\n**{}** among published ratings, the highest first:\n", escaped(&candidate.name));
            for rating in &place.above {
                let _ = writeln!(text, "- {}", escaped(&published_text(rating)));
            }
            let _ = writeln!(text, "- **{} {}**", units::multiple(place.x), escaped(&candidate.name));
            for rating in &place.below {
                let _ = writeln!(text, "- {}", escaped(&published_text(rating)));
            }
            if let Some(caveat) = &place.caveat {
                let _ = writeln!(text, "\n{}", escaped(caveat));
            }
        }
        text
    }
}
