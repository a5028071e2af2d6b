//! A heat map of requests, by start time and device time, in characters.

use results::format;
use std::fmt::Write;

/// Maximum number of columns; the terminal shows all of them.
pub const COLUMNS: usize = 64;

/// Initial width of a column, nanoseconds.
const FIRST_WIDTH_NS: u64 = 1_000_000;

/// Rows: below 2 us, and each power of two up to 2^24 us (17 s) and more.
const ROWS: usize = 25;

/// Shades of a cell without colour, from no requests to the most.
const SHADES: [char; 5] = [' ', '░', '▒', '▓', '█'];

/// Shades of a cell among the 256 terminal colours, from few requests (dark) to the most (bright).
const COLOURS: [u8; 8] = [17, 19, 55, 91, 127, 163, 203, 220];

#[derive(Debug, Clone)]
pub struct OffsetHeat {
    columns: Vec<[u64; ROWS]>,
    width_ns: u64,
    /// Start of the first column.
    start_ns: Option<u64>,
}

impl Default for OffsetHeat {
    fn default() -> Self {
        Self {
            columns: Vec::new(),
            width_ns: FIRST_WIDTH_NS,
            start_ns: None,
        }
    }
}

impl OffsetHeat {
    pub fn add(&mut self, at_ns: u64, device_ns: u64) {
        let start_ns = *self.start_ns.get_or_insert(at_ns);
        // Requests are added at completion, so a request may have begun before the first one added.
        let after_ns = at_ns.saturating_sub(start_ns);
        while after_ns / self.width_ns >= COLUMNS as u64 {
            self.halve();
        }
        let column = (after_ns / self.width_ns) as usize;
        if column >= self.columns.len() {
            self.columns.resize(column + 1, [0; ROWS]);
        }
        let row = (device_ns / 1_000).checked_ilog2().unwrap_or(0) as usize;
        self.columns[column][row.min(ROWS - 1)] += 1;
    }

    fn halve(&mut self) {
        self.columns = self
            .columns
            .chunks(2)
            .map(|two: &[[u64; ROWS]]| {
                std::array::from_fn(|row| two.iter().map(|column| column[row]).sum())
            })
            .collect();
        self.width_ns *= 2;
    }

    /// Draws the map; empty without requests. With `colour`, terminal escape sequences are used.
    pub fn draw(&self, colour: bool) -> String {
        let rows_in_use: Vec<usize> = (0..ROWS)
            .filter(|row| self.columns.iter().any(|column| column[*row] > 0))
            .collect();
        let (Some(first), Some(last)) = (rows_in_use.first(), rows_in_use.last()) else {
            return String::new();
        };
        let max_count = self.columns.iter().flatten().copied().max().unwrap_or(0);
        let mut text = String::new();
        for row in (*first..=*last).rev() {
            let from_ns = if row == 0 { 0 } else { 1_000 << row };
            let line: String = self
                .columns
                .iter()
                .map(|column| cell(column[row], max_count, colour))
                .collect();
            // Writing to a string cannot fail, here and below.
            let _ = writeln!(
                text,
                "{:>8} |{}",
                format::duration(from_ns),
                line.trim_end()
            );
        }
        let length = format::span_of(self.columns.len() as f64 * self.width_ns as f64 / 1e9);
        let _ = writeln!(text, "{:>8} +{}", "", "-".repeat(self.columns.len()));
        let width = self.columns.len().saturating_sub(1).max(length.len() + 1);
        let _ = writeln!(text, "{:>10}0{length:>width$}", "");
        text
    }
}

/// A cell: brightness is logarithmic in the count, so that one slow request among thousands is visible.
fn cell(count: u64, max_count: u64, colour: bool) -> String {
    if count == 0 {
        return " ".to_owned();
    }
    let share = (count as f64).ln_1p() / (max_count as f64).ln_1p();
    let step = |steps: usize| ((share * steps as f64).ceil() as usize).clamp(1, steps) - 1;
    if colour {
        format!("\x1b[48;5;{}m \x1b[0m", COLOURS[step(COLOURS.len())])
    } else {
        SHADES[1 + step(SHADES.len() - 1)].to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heat_map_has_a_bounded_number_of_columns_and_counts_every_request() {
        let mut heat = OffsetHeat::default();
        for second in 0..10_000_u64 {
            heat.add(5 + second * 1_000_000_000, 300_000);
        }
        assert!(heat.columns.len() <= COLUMNS);
        assert_eq!(heat.columns.iter().flatten().sum::<u64>(), 10_000);
        heat.add(u64::MAX, u64::MAX);
        assert!(heat.columns.len() <= COLUMNS);
    }

    #[test]
    fn slow_requests_are_above_fast_ones_and_later_ones_to_the_right() {
        let mut heat = OffsetHeat::default();
        (0..100).for_each(|_| heat.add(1_000_000, 70_000));
        heat.add(3_500_000, 300_000);
        let map = "  256 us |  ░\n  128 us |\n   64 us |█\n         +---\n          0 0.003 s\n";
        assert_eq!(heat.draw(false), map);
        assert!(
            heat.draw(true).contains("\x1b[48;5;220m \x1b[0m"),
            "{:?}",
            heat.draw(true)
        );
        assert_eq!(OffsetHeat::default().draw(false), "");
    }
}
