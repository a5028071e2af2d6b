//! A table for every output format: text, Markdown, HTML or CSV.
//!
//! The caller fills one table, and every format lays out the same cells. (JSON has the numbers behind the cells,
//! unrounded and by name.)

use crate::words::OutcomeLabel;
use maud::{Markup, Render, html};
use results::finding::{Finding, Severity};
use results::format::{is_unprintable, wrapped_cell};
use results::judge::Outcome;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Columns and rows of text under a title.
#[derive(Debug, Clone, Default)]
pub struct Table {
    /// Title. Text and CSV leave it out: the caller prints it.
    pub title: String,
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
    gap: usize,
}

#[derive(Debug, Clone)]
struct Column {
    heading: String,
    /// True if cells are right-aligned, as numbers are.
    right: bool,
    /// Minimum width in text.
    width: usize,
}

#[derive(Debug, Clone)]
pub struct Cell {
    text: String,
    style: CellStyle,
}

#[derive(Debug, Clone)]
enum CellStyle {
    Plain,
    /// No value, with a sign or note that CSV leaves out.
    Missing,
    Strong,
    /// A value over a limit, or otherwise bad.
    Bad,
    Code,
    /// Link to an address, or to an anchor of the page.
    Link(String),
    Badge(Option<Outcome>),
    /// A field of a heat map; shade from 0 to [`SHADES`], the darkest.
    Shade(usize),
}

/// Number of shades of fields, in addition to the lightest.
const SHADES: usize = 8;

impl Table {
    pub fn new(title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            gap: 2,
            ..Self::default()
        }
    }

    pub fn text<T: Into<String>>(mut self, headings: impl IntoIterator<Item = T>) -> Self {
        self.columns.extend(
            headings
                .into_iter()
                .map(|heading| Column::new(heading, false)),
        );
        self
    }

    pub fn numbers<T: Into<String>>(mut self, headings: impl IntoIterator<Item = T>) -> Self {
        self.columns.extend(
            headings
                .into_iter()
                .map(|heading| Column::new(heading, true)),
        );
        self
    }

    /// Minimum widths of the first columns in text, where a single blank separates two columns.
    pub fn widths(mut self, widths: impl IntoIterator<Item = usize>) -> Self {
        self.columns
            .iter_mut()
            .zip(widths)
            .for_each(|(column, width)| column.width = width);
        Self { gap: 1, ..self }
    }

    /// Adds a row of as many cells as there are columns; missing ones are empty.
    pub fn row<C: Into<Cell>>(&mut self, cells: impl IntoIterator<Item = C>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    pub fn rows<C: Into<Cell>, R: IntoIterator<Item = C>>(
        mut self,
        rows: impl IntoIterator<Item = R>,
    ) -> Self {
        rows.into_iter().for_each(|row| self.row(row));
        self
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// As Markdown without the title; nothing without rows.
    pub fn markdown(&self) -> String {
        if self.is_empty() {
            return String::new();
        }
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        let rules = self
            .columns
            .iter()
            .map(|column| if column.right { "---:|" } else { "---|" });
        line(
            self.columns
                .iter()
                .map(|column| escaped(&column.heading))
                .collect(),
        ) + &format!("|{}\n", rules.collect::<String>())
            + &self
                .rows
                .iter()
                .map(|row| line(row.iter().map(Cell::markdown).collect()))
                .collect::<String>()
    }

    /// As CSV (RFC 4180). No cell is a formula for a spreadsheet.
    pub fn csv(&self) -> Result<String, csv::Error> {
        let mut csv = csv::Writer::from_writer(Vec::new());
        csv.write_record(
            self.columns
                .iter()
                .map(|column| no_formula(&column.heading)),
        )?;
        self.rows
            .iter()
            .try_for_each(|row| csv.write_record(row.iter().map(Cell::csv)))?;
        let bytes = csv.into_inner().map_err(|error| error.into_error())?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    pub(crate) fn findings<'a>(title: &str, findings: impl Iterator<Item = &'a Finding>) -> Self {
        let rows = findings.map(|finding| {
            let level = finding.level.to_string();
            let is_bad = matches!(finding.level, Severity::Warning | Severity::Problem);
            let device = finding.device.as_deref().unwrap_or("host");
            let texts =
                [device, &finding.finding, &finding.reason, &finding.remedy].map(Cell::from);
            [if is_bad {
                Cell::bad(level)
            } else {
                level.into()
            }]
            .into_iter()
            .chain(texts)
        });
        Self::new(title)
            .text(["level", "where", "finding", "why it matters", "what to do"])
            .rows(rows)
    }

    pub(crate) fn named_values<V: Into<Cell>>(
        title: &str,
        pairs: impl IntoIterator<Item = (String, V)>,
    ) -> Self {
        let rows = pairs
            .into_iter()
            .map(|(name, value)| [name.into(), value.into()]);
        Self::new(title).text(["name", "value"]).rows(rows)
    }
}

impl Column {
    fn new(heading: impl Into<String>, right: bool) -> Self {
        Self {
            heading: heading.into(),
            right,
            width: 0,
        }
    }

    fn aligned(&self, text: &str, width: usize) -> String {
        if self.right {
            format!("{text:>width$}")
        } else {
            format!("{text:<width$}")
        }
    }

    /// Minimum width for `texts` that breaks no number, and no word of up to [`WORD_MAX`] characters.
    fn width_min(&self, texts: &[&str]) -> usize {
        let words: Vec<_> = texts.iter().flat_map(|text| text.split(' ')).collect();
        let word = width(&words, usize::MAX).min(WORD_MAX);
        let cells = width(&texts[1..], usize::MAX);
        word.max(if self.right {
            cells
        } else {
            cells.min(WRAPPED_MIN)
        })
    }

    /// The CSS class of the column's fields.
    fn class(&self) -> Option<String> {
        self.right.then(|| "number".to_owned())
    }
}

/// As text: columns as wide as their widest cells, no trailing blanks, no heading line if no column has a heading.
impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.wrapped(TEXT_COLUMNS.load(Ordering::Relaxed)))
    }
}

/// Columns of the terminal that shows the text. Text for a pipe or a file is never wrapped.
static TEXT_COLUMNS: AtomicUsize = AtomicUsize::new(usize::MAX);

/// Wraps the text of all tables from now on to `columns`, for a terminal.
pub fn wrap_texts(columns: usize) {
    TEXT_COLUMNS.store(columns, Ordering::Relaxed);
}

/// Minimum width of a column of wrapped texts, characters: narrower texts are hard to read.
const WRAPPED_MIN: usize = 8;

/// Words longer than this, characters, are broken: two columns of this width fill a terminal.
const WORD_MAX: usize = 40;

impl Table {
    /// A line for each row, never wrapped, for callers that print other lines between the rows.
    pub(crate) fn row_lines(&self) -> Vec<String> {
        let text = self.wrapped(usize::MAX);
        text.lines().map(str::to_owned).collect()
    }

    fn wrapped(&self, columns: usize) -> String {
        self.part(&(0..self.columns.len()).collect::<Vec<_>>(), columns)
    }

    /// The columns `indexes` as text in lines of at most `columns` if possible: first the widest headings and texts are
    /// wrapped, but no numbers; then columns that do not fit move to a second table, which repeats the first column.
    fn part(&self, indexes: &[usize], columns: usize) -> String {
        let shown: Vec<&Column> = indexes.iter().map(|index| &self.columns[*index]).collect();
        let texts: Vec<Vec<&str>> = indexes.iter().map(|index| self.texts(*index)).collect();
        let pairs = shown.iter().zip(&texts);
        let least: Vec<usize> = pairs
            .clone()
            .map(|(column, texts)| column.width_min(texts))
            .collect();
        let widths = pairs.map(|(column, texts)| column.width.max(width(texts, usize::MAX)));
        let mut widths: Vec<usize> = widths.collect();
        let total = |widths: &[usize]| widths.iter().map(|width| width + self.gap).sum::<usize>();
        let room = columns.saturating_add(self.gap);
        let fitting = (2..=widths.len()).rfind(|count| total(&least[..*count]) <= room);
        widths.truncate(fitting.unwrap_or(2));
        while total(&widths) > room {
            let wide = (0..widths.len()).filter(|at| widths[*at] > least[*at]);
            let Some(widest) = wide.max_by_key(|at| widths[*at]) else {
                break;
            };
            widths[widest] = width(&texts[widest], widths[widest] - 1).max(least[widest]);
        }
        let has_heading = shown.iter().any(|column| !column.heading.is_empty());
        let mut text = String::new();
        for row in usize::from(!has_heading)..=self.rows.len() {
            let cells = texts.iter().zip(&widths);
            let cells = cells.map(|(texts, width)| wrapped_cell(texts[row], *width));
            let cells: Vec<_> = cells.collect();
            for line in 0..cells.iter().map(Vec::len).max().unwrap_or(0) {
                let parts = cells
                    .iter()
                    .map(|lines| lines.get(line).map_or("", AsRef::as_ref));
                let parts = parts.zip(shown.iter().zip(&widths));
                let parts = parts.map(|(part, (column, width))| column.aligned(part, *width));
                let line = parts.collect::<Vec<_>>().join(&" ".repeat(self.gap));
                text += line.trim_end();
                text.push('\n');
            }
        }
        if let (Some(first), Some(rest @ [_, ..])) = (indexes.first(), indexes.get(widths.len()..))
        {
            text += &format!("\n{}", self.part(&[&[*first], rest].concat(), columns));
        }
        text
    }

    /// The heading and the cells of a column.
    fn texts(&self, index: usize) -> Vec<&str> {
        let cells = self
            .rows
            .iter()
            .map(|row| row.get(index).map_or("", |cell| cell.text.as_str()));
        std::iter::once(self.columns[index].heading.as_str())
            .chain(cells)
            .collect()
    }
}

/// Width of a column whose texts are wrapped at `columns`.
fn width(texts: &[&str], columns: usize) -> usize {
    let lines = texts.iter().flat_map(|text| wrapped_cell(text, columns));
    lines.map(|line| line.chars().count()).max().unwrap_or(0)
}

/// As HTML; the first cell of a row is its heading.
impl Render for Table {
    fn render(&self) -> Markup {
        html! {
            div.scroll tabindex="0" {
                table {
                    caption { (self.title) }
                    thead { tr { @for column in &self.columns { th scope="col" class=[column.class()] { (column.heading) } } } }
                    tbody {
                        @for row in &self.rows {
                            tr {
                                @for (at, (cell, column)) in row.iter().zip(&self.columns).enumerate() {
                                    @if at == 0 { th scope="row" { (cell) } }
                                    @else { td class=[cell.class().or(column.class())] { (cell) } }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

impl Cell {
    fn styled(text: impl Into<String>, style: CellStyle) -> Self {
        let text = text.into();
        Self { text, style }
    }

    pub fn strong(text: impl Into<String>) -> Self {
        Self::styled(text, CellStyle::Strong)
    }

    pub fn bad(text: impl Into<String>) -> Self {
        Self::styled(text, CellStyle::Bad)
    }

    pub fn code(text: impl Into<String>) -> Self {
        Self::styled(text, CellStyle::Code)
    }

    /// A field of a heat map: `fraction` from 0 (lightest) to 1 (darkest).
    pub fn shaded(text: impl Into<String>, fraction: f64) -> Self {
        let shade = (fraction.clamp(0.0, 1.0) * SHADES as f64).round() as usize;
        Self::styled(text, CellStyle::Shade(shade))
    }

    pub fn link(text: impl Into<String>, id: String) -> Self {
        Self::styled(text, CellStyle::Link(format!("#{id}")))
    }

    /// Text with a link to a web page; plain text if the address is not `https://...`.
    pub(crate) fn web(text: impl Into<String>, address: &str) -> Self {
        let text = text.into();
        if address.starts_with("https://") {
            Self::styled(text, CellStyle::Link(address.to_owned()))
        } else {
            text.into()
        }
    }

    pub(crate) fn outcome(label: OutcomeLabel) -> Self {
        Self::styled(label.text, CellStyle::Badge(label.look))
    }

    /// Text with a link to a file beside the page.
    pub(crate) fn file(text: impl Into<String>, path: String) -> Self {
        Self::styled(text, CellStyle::Link(path))
    }

    pub(crate) fn missing(text: impl Into<String>) -> Self {
        Self::styled(text, CellStyle::Missing)
    }

    fn csv(&self) -> String {
        match self.style {
            CellStyle::Missing => String::new(),
            _ => no_formula(&self.text),
        }
    }

    fn class(&self) -> Option<String> {
        if let CellStyle::Shade(shade) = self.style {
            Some(format!("shade-{shade} number"))
        } else {
            None
        }
    }

    fn markdown(&self) -> String {
        let text = escaped(&self.text);
        if let CellStyle::Strong = self.style {
            format!("**{text}**")
        } else {
            text
        }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::styled(text, CellStyle::Plain)
    }
}

impl Render for Cell {
    fn render(&self) -> Markup {
        match &self.style {
            CellStyle::Plain | CellStyle::Missing | CellStyle::Shade(_) => html! { (self.text) },
            CellStyle::Strong => html! { b { (self.text) } },
            CellStyle::Bad => html! { span.over { (self.text) } },
            CellStyle::Code => html! { code { (self.text) } },
            CellStyle::Link(address) => html! { a href=(address) { (self.text) } },
            CellStyle::Badge(outcome) => {
                html! { span class={ "badge " (look(*outcome).0) } { (signed(*outcome, &self.text)) } }
            }
        }
    }
}

/// Text on one line, escaped so that no character counts as markup.
pub(crate) fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' | '|' | '*' | '_' | '`' | '<' | '>' | '[' | ']' | '#' => safe.extend(['\\', c]),
            c if is_unprintable(c) || c.is_control() => safe.push(' '),
            c => safe.push(c),
        }
    }
    safe
}

/// The CSS class that colours an outcome, and the sign of the outcome.
pub(crate) fn look(outcome: Option<Outcome>) -> (&'static str, &'static str) {
    match outcome {
        Some(Outcome::Pass) => ("pass", "✔"),
        Some(Outcome::Measured) => ("measured", "•"),
        Some(Outcome::Fail) => ("fail", "✘"),
        Some(Outcome::Invalid) => ("invalid", "?"),
        None => ("invalid", "…"),
    }
}

/// The sign of an outcome, followed by `text`.
pub(crate) fn signed(outcome: Option<Outcome>, text: &str) -> Markup {
    html! { span aria-hidden="true" { (look(outcome).1) } " " (text) }
}

/// A text that no spreadsheet takes for a formula: an apostrophe is put before a text that begins like one. Numbers are
/// unchanged.
fn no_formula(text: &str) -> String {
    let is_formula =
        text.starts_with(['=', '+', '-', '@', '\t', '\r']) && text.parse::<f64>().is_err();
    if is_formula {
        format!("'{text}")
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let rows = [
            ["stage 1".into(), Cell::bad("130x")],
            ["<a>|b".into(), "2x".into()],
        ];
        Table::new("T").text(["a"]).numbers(["load"]).rows(rows)
    }

    #[test]
    fn columns_of_a_text_table_are_as_wide_as_their_widest_cells() {
        assert_eq!(
            table().to_string(),
            "a        load\nstage 1  130x\n<a>|b      2x\n"
        );
        let narrow = Table::new("")
            .text(["", ""])
            .widths([3])
            .rows([["a", "b"], ["c", ""]]);
        assert_eq!(
            narrow.to_string(),
            "a   b\nc\n",
            "no heading line, and no trailing blanks"
        );
        assert_eq!(Table::new("").to_string(), "");
    }

    #[test]
    fn a_table_too_wide_for_a_terminal_is_wrapped_and_loses_nothing() {
        let rows = [
            ["in flight at the knee", "1,234", "5.25 ms"],
            ["x", "9", "1 us"],
        ];
        let wide = Table::new("")
            .text(["name"])
            .numbers(["mean in flight", "p99"])
            .rows(rows);
        assert_eq!(wide.wrapped(46), wide.to_string(), "46 columns are enough");
        let texts_wrapped = "name          mean in flight      p99\n\
                             in flight at           1,234  5.25 ms\n\
                             the knee\n\
                             x                          9     1 us\n";
        assert_eq!(wide.wrapped(40), texts_wrapped);
        let headings_too = "name          mean in      p99\n               flight\n\
                            in flight at    1,234  5.25 ms\nthe knee\n\
                            x                   9     1 us\n";
        assert_eq!(wide.wrapped(30), headings_too);
        let two_parts = "name          mean in\n               flight\n\
                         in flight at    1,234\nthe knee\nx                   9\n\n\
                         name              p99\nin flight at  5.25 ms\nthe knee\n\
                         x                1 us\n";
        assert_eq!(wide.wrapped(22), two_parts);
        let path = "/dev/disk/by-id/nvme";
        let with_path = Table::new("").text(["", ""]).rows([[path, "a b c d e"]]);
        assert_eq!(
            with_path.wrapped(30),
            "/dev/disk/by-id/nvme  a b c d\n                      e\n"
        );
        assert_eq!(with_path.row_lines(), ["/dev/disk/by-id/nvme  a b c d e"]);
    }

    #[test]
    fn every_output_format_has_the_same_cells_and_escapes_markup_in_them() {
        assert_eq!(
            table().markdown(),
            "| a | load |\n|---|---:|\n| stage 1 | 130x |\n| \\<a\\>\\|b | 2x |\n"
        );
        assert_eq!(table().csv().unwrap(), "a,load\nstage 1,130x\n<a>|b,2x\n");
        let html = table().render().into_string();
        assert!(
            html.contains("<td class=\"number\"><span class=\"over\">130x</span></td>"),
            "{html}"
        );
        assert!(
            html.contains("<th scope=\"row\">&lt;a&gt;|b</th><td class=\"number\">2x</td>"),
            "{html}"
        );
        let missing = Table::new("")
            .text(["a", "b"])
            .rows([[Cell::missing("-"), "1".into()]]);
        assert_eq!(missing.csv().unwrap(), "a,b\n,1\n");
        let quoted = Table::new("").text(["a"]).rows([["a,b \"c\""]]);
        assert_eq!(quoted.csv().unwrap(), "a\n\"a,b \"\"c\"\"\"\n");
    }

    #[test]
    fn no_csv_cell_is_a_formula_for_a_spreadsheet_and_numbers_stay_numbers() {
        for (text, cell) in [
            ("=HYPERLINK(A1)", "'=HYPERLINK(A1)"),
            ("=1+1,2", "\"'=1+1,2\""),
            ("+1+cmd|x", "'+1+cmd|x"),
            ("-log", "'-log"),
            ("@SUM(A1)", "'@SUM(A1)"),
            ("\t=1", "'\t=1"),
            ("\r=1", "\"'\r=1\""),
            ("-1.5", "-1.5"),
            ("+3e2", "+3e2"),
            ("a=1", "a=1"),
            ("", "\"\""),
        ] {
            assert_eq!(
                Table::new("").text(["a"]).rows([[text]]).csv().unwrap(),
                format!("a\n{cell}\n")
            );
        }
    }
}
