//! Tables of rows: each is declared once, as a struct whose fields are the columns and whose comments are the
//! documentation.

use std::collections::HashMap;

/// An instant in milliseconds since 1970 (UTC).
#[derive(Clone, Copy)]
pub(crate) struct UnixMs(pub(crate) u64);

/// Type of the values of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Bool,
    Int,
    Float,
    Text,
    Instant,
}

impl Kind {
    /// Name of the type in SQL.
    fn sql(self) -> &'static str {
        match self {
            Self::Bool => "BOOLEAN",
            Self::Int => "BIGINT",
            Self::Float => "DOUBLE",
            Self::Text => "VARCHAR",
            Self::Instant => "TIMESTAMPTZ",
        }
    }
}

/// A column of a table.
#[derive(Debug)]
pub struct Column {
    pub name: &'static str,
    pub kind: Kind,
    /// True if a value can be missing: NULL.
    pub nullable: bool,
    /// Its documentation, as Markdown.
    pub(crate) about: &'static str,
}

/// A table, in a file of its own.
#[derive(Debug, Clone)]
pub struct Table {
    pub name: &'static str,
    pub columns: &'static [Column],
    pub(crate) about: &'static str,
}

impl Table {
    /// Name of its file.
    pub fn file_name(&self) -> String {
        format!("{}.parquet", self.name)
    }

    /// Its section of docs/data.md.
    pub fn markdown(&self) -> String {
        let row = |column: &Column| {
            let null = if column.nullable { ", NULL" } else { "" };
            format!("| `{}` | {}{null} | {} |\n", column.name, column.kind.sql(), column.about.trim())
        };
        let rows: String = self.columns.iter().map(row).collect();
        format!("### {}\n\n{}\n\n| Column | Type | Meaning |\n|---|---|---|\n{rows}", self.name, self.about.trim())
    }
}

/// Values of one column, row after row.
#[derive(Default)]
pub(crate) struct Values {
    /// Whole numbers; the bits of floats; positions in `texts`. NULL has none.
    pub(crate) numbers: Vec<u64>,
    /// Texts, each once.
    pub(crate) texts: Vec<String>,
    positions: HashMap<String, u64>,
    /// For each row of a column with NULLs: true for a value.
    pub(crate) defined: Vec<bool>,
}

impl Values {
    fn push_text(&mut self, text: &str, rows: usize) {
        // Neighbours are mostly equal.
        let last = self.numbers.last().copied().filter(|at| self.texts[*at as usize] == text);
        let at = last.or_else(|| self.positions.get(text).copied()).unwrap_or_else(|| {
            let at = self.texts.len() as u64;
            self.texts.push(text.to_owned());
            self.positions.insert(text.to_owned(), at);
            at
        });
        self.push_number(at, rows);
    }

    fn push_number(&mut self, number: u64, rows: usize) {
        self.numbers.resize(self.numbers.len() + rows, number);
    }

    /// Forgets the values and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.numbers.clear();
        self.texts.clear();
        self.positions.clear();
        self.defined.clear();
    }
}

/// A value that a column can have, or a slice with a value for each of several rows.
pub(crate) trait Cell {
    const KIND: Kind;
    const NULLABLE: bool = false;
    /// Appends the value to `rows` rows.
    fn push(self, values: &mut Values, rows: usize);
}

impl Cell for bool {
    const KIND: Kind = Kind::Bool;
    fn push(self, values: &mut Values, rows: usize) {
        values.push_number(u64::from(self), rows);
    }
}

/// Parquet's integers are signed; counts beyond 2^63 come from edited files only.
const INT_MAX: u64 = i64::MAX as u64;

impl Cell for u64 {
    const KIND: Kind = Kind::Int;
    fn push(self, values: &mut Values, rows: usize) {
        values.push_number(self.min(INT_MAX), rows);
    }
}

impl Cell for &[u64] {
    const KIND: Kind = Kind::Int;
    fn push(self, values: &mut Values, _: usize) {
        values.numbers.extend(self.iter().map(|value| *value.min(&INT_MAX)));
    }
}

impl Cell for f64 {
    const KIND: Kind = Kind::Float;
    fn push(self, values: &mut Values, rows: usize) {
        values.push_number(self.to_bits(), rows);
    }
}

impl Cell for &[f64] {
    const KIND: Kind = Kind::Float;
    fn push(self, values: &mut Values, _: usize) {
        values.numbers.extend(self.iter().map(|value| value.to_bits()));
    }
}

impl Cell for &str {
    const KIND: Kind = Kind::Text;
    fn push(self, values: &mut Values, rows: usize) {
        values.push_text(self, rows);
    }
}

impl Cell for UnixMs {
    const KIND: Kind = Kind::Instant;
    fn push(self, values: &mut Values, rows: usize) {
        self.0.push(values, rows);
    }
}

impl<T: Cell> Cell for Option<T> {
    const KIND: Kind = T::KIND;
    const NULLABLE: bool = true;
    fn push(self, values: &mut Values, rows: usize) {
        values.defined.resize(values.defined.len() + rows, self.is_some());
        if let Some(value) = self {
            value.push(values, rows);
        }
    }
}

/// A row of one table, or several: fields that are slices then have a value for each, and the others one for all.
pub(crate) trait Row {
    const TABLE: Table;
    /// The same row with texts of another lifetime.
    type At<'a>: Row;
    /// Appends each field to the values of its column for `rows` rows; there are as many as the table has columns.
    fn split(self, columns: &mut [Values], rows: usize);
}

/// Declares the row types of tables, and `TABLES`.
macro_rules! tables {
    ($($(#[doc = $about:literal])+ $row:ident = $name:literal {
        $($(#[doc = $text:literal])+ $column:ident: $kind:ty,)+
    })+) => {
        $($(#[doc = $about])+
        pub(crate) struct $row<'a> {
            $($(#[doc = $text])+ pub(crate) $column: $kind,)+
        }

        impl<'a> Row for $row<'a> {
            type At<'b> = $row<'b>;

            const TABLE: Table = Table {
                name: $name,
                about: concat!($($about),+),
                columns: &[$(Column {
                    name: stringify!($column),
                    kind: <$kind as Cell>::KIND,
                    nullable: <$kind as Cell>::NULLABLE,
                    about: concat!($($text),+),
                }),+],
            };

            fn split(self, columns: &mut [Values], rows: usize) {
                let mut columns = columns.iter_mut();
                $(if let Some(values) = columns.next() {
                    self.$column.push(values, rows);
                })+
            }
        })+

        /// All tables, in the order of the documentation.
        pub const TABLES: &[Table] = &[$($row::TABLE),+];
    };
}

pub(crate) use tables;
