//! A line that fits the terminal.

use std::os::fd::AsFd;

/// Columns of a terminal that does not say. Source: termcap's default, and what most are at least.
const COLUMNS: usize = 80;

/// Columns that a line on `terminal` may have without being broken in two, as it is now.
pub fn columns(terminal: impl AsFd) -> usize {
    let size = rustix::termios::tcgetwinsize(terminal);
    let columns = size.ok().map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0);
    // A line as wide as the terminal puts the cursor on the next one on some of them.
    columns.unwrap_or(COLUMNS) - 1
}

/// The parts that fit into `columns`, joined by two blanks, in their order. Each has a weight: the
/// lightest are left out first; what is still too long is cut.
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

#[cfg(test)]
mod tests {
    use super::*;

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
