//! Lines and pages that fit the terminal.

use results::judge::Outcome;
use results::units::wrapped;
use std::os::fd::AsFd;

/// Columns of a terminal of unknown width: termcap's default.
const COLUMNS: usize = 80;

/// Columns that a line on `terminal` may currently have without wrapping.
pub fn columns(terminal: impl AsFd) -> usize {
    let size = rustix::termios::tcgetwinsize(terminal);
    let columns = size.ok().map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0);
    // On some terminals a line of the full width moves the cursor to the next line.
    columns.unwrap_or(COLUMNS) - 1
}

/// The parts that fit into `columns`, joined by two blanks, in order. The parts with the lowest weight are left out
/// first; a line that is still too long is cut.
pub fn fitted(parts: &[(u8, String)], columns: usize) -> String {
    let mut kept: Vec<&(u8, String)> = parts.iter().filter(|(_, text)| !text.is_empty()).collect();
    let length = |kept: &[&(u8, String)]| kept.iter().map(|(_, text)| text.chars().count() + 2).sum::<usize>();
    while kept.len() > 1 && length(&kept) > columns + 2 {
        let lightest = kept.iter().map(|(weight, _)| *weight).min();
        let index = kept.iter().rposition(|(weight, _)| Some(*weight) == lightest);
        kept.remove(index.unwrap_or(0));
    }
    let line = kept.iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>().join("  ");
    line.chars().take(columns).collect()
}

/// Wraps a page for a terminal. A sentence wider than `columns` continues below its beginning, also in the last
/// column of a table. Other rows stay as they are.
pub fn laid_out(page: &str, columns: usize) -> String {
    let line = |line: &str| {
        let indented = line.len() - line.trim_start().len();
        let (head, tail) = line.split_at(line.rfind("  ").map_or(indented, |at| at + 2));
        let width = head.chars().count();
        if line.chars().count() <= columns || !tail.contains(' ') || width > columns * 2 / 3 {
            return format!("{line}\n");
        }
        let below = wrapped(tail, &" ".repeat(width), columns);
        format!("{head}{}", &below[width..])
    };
    page.lines().map(line).collect()
}

/// Adds colour escape sequences to the outcomes in `page`.
pub fn coloured(page: &str) -> String {
    const OUTCOMES: [(Outcome, u8); 4] =
        [(Outcome::Pass, 32), (Outcome::Measured, 32), (Outcome::Fail, 31), (Outcome::Invalid, 33)];
    let words = page.split_inclusive(|c: char| !c.is_alphanumeric());
    let word = |word: &str| {
        let (name, end) = word.split_at(word.trim_end_matches(|c: char| !c.is_alphanumeric()).len());
        match OUTCOMES.iter().find(|(outcome, _)| outcome.to_string() == name) {
            Some((_, colour)) => format!("\x1b[1;{colour}m{name}\x1b[0m{end}"),
            None => word.to_owned(),
        }
    };
    words.map(word).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_broken_in_its_sentences_and_coloured_in_its_outcomes() {
        let page = "  at least 0.1 % of reads took over 64 ms\nstage 1  ended by a signal\n    1     14.04   13.34\n";
        let narrow = "  at least 0.1 % of\n  reads took over 64\n  ms\nstage 1  ended by a\n         signal\n    1     14.04   13.34\n";
        assert_eq!((laid_out(page, 20).as_str(), laid_out(page, 80).as_str()), (narrow, page));
        assert_eq!(
            coloured("FAIL (a)\nBYPASS PASS: it"),
            "\x1b[1;31mFAIL\x1b[0m (a)\nBYPASS \x1b[1;32mPASS\x1b[0m: it"
        );
    }

    #[test]
    fn a_narrow_terminal_loses_the_least_important_first() {
        let parts = [(9, "00:00:02"), (5, "4 ops/s"), (1, ""), (2, "lag 1 ms"), (8, "00:59:58 left")];
        let parts = parts.map(|(weight, text)| (weight, text.to_owned()));
        assert_eq!(fitted(&parts, 80), "00:00:02  4 ops/s  lag 1 ms  00:59:58 left");
        assert_eq!(fitted(&parts, 42), "00:00:02  4 ops/s  lag 1 ms  00:59:58 left");
        assert_eq!(fitted(&parts, 41), "00:00:02  4 ops/s  00:59:58 left");
        assert_eq!(fitted(&parts, 31), "00:00:02  00:59:58 left");
        assert_eq!(fitted(&parts, 22), "00:00:02");
        assert_eq!(fitted(&parts, 5), "00:00");
    }
}
