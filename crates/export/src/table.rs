//! Tables of rows. A table is declared once, as a struct: its fields are the columns, its comments the documentation.

use parquet::basic::{LogicalType, Repetition, TimeUnit, Type as Physical};
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::schema::types::{Type, TypePtr};
use std::sync::Arc;

/// An instant in milliseconds since 1970 (UTC).
#[derive(Clone, Copy)]
pub(crate) struct UnixMs(pub(crate) u64);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnType {
    Bool,
    Int,
    Float,
    Text,
    Instant,
}

impl ColumnType {
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

#[derive(Debug)]
pub struct ColumnSchema {
    pub name: &'static str,
    pub kind: ColumnType,
    pub nullable: bool,
    /// Documentation of the column, as Markdown.
    pub(crate) about: &'static str,
}

impl ColumnSchema {
    fn parquet(&self) -> Result<TypePtr, ParquetError> {
        let instant = LogicalType::timestamp(true, TimeUnit::MILLIS);
        let (physical, logical) = match self.kind {
            ColumnType::Bool => (Physical::BOOLEAN, None),
            ColumnType::Int => (Physical::INT64, None),
            ColumnType::Float => (Physical::DOUBLE, None),
            ColumnType::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
            ColumnType::Instant => (Physical::INT64, Some(instant)),
        };
        let repetition = if self.nullable {
            Repetition::OPTIONAL
        } else {
            Repetition::REQUIRED
        };
        let column = Type::primitive_type_builder(self.name, physical);
        Ok(Arc::new(
            column
                .with_logical_type(logical)
                .with_repetition(repetition)
                .build()?,
        ))
    }
}

#[derive(Debug)]
pub struct TableSchema {
    pub name: &'static str,
    pub columns: &'static [ColumnSchema],
    pub(crate) about: &'static str,
}

impl TableSchema {
    pub fn file_name(&self) -> String {
        format!("{}.parquet", self.name)
    }

    pub(crate) fn schema(&self) -> Result<TypePtr, ParquetError> {
        let columns = self
            .columns
            .iter()
            .map(ColumnSchema::parquet)
            .collect::<Result<_, _>>()?;
        Ok(Arc::new(
            Type::group_type_builder(self.name)
                .with_fields(columns)
                .build()?,
        ))
    }

    /// Section of docs/data.md on the table.
    pub fn markdown(&self) -> String {
        let rows: String = self
            .columns
            .iter()
            .map(|column: &ColumnSchema| {
                let null = if column.nullable { ", NULL" } else { "" };
                format!(
                    "| `{}` | {}{null} | {} |\n",
                    column.name,
                    column.kind.sql(),
                    column.about.trim()
                )
            })
            .collect();
        format!(
            "### {}\n\n{}\n\n| Column | Type | Meaning |\n|---|---|---|\n{rows}",
            self.name,
            self.about.trim()
        )
    }
}

#[derive(Default)]
pub(crate) struct ColumnValues {
    /// Whole numbers, and the bits of floats. NULLs have no entry.
    pub(crate) numbers: Vec<i64>,
    /// Texts, each with its number of consecutive rows: neighbours are mostly equal.
    pub(crate) texts: Vec<(Option<ByteArray>, usize)>,
    /// For each row of a column with NULLs: 1 for a value, 0 for NULL. Not used for texts.
    pub(crate) defined: Vec<i16>,
}

impl ColumnValues {
    fn push_text(&mut self, text: Option<&str>, rows: usize) {
        match self.texts.last_mut() {
            Some((last, times))
                if last.as_ref().map(ByteArray::data) == text.map(str::as_bytes) =>
            {
                *times += rows
            }
            _ => self.texts.push((text.map(ByteArray::from), rows)),
        }
    }

    fn push_number(&mut self, number: i64, rows: usize) {
        self.numbers.resize(self.numbers.len() + rows, number);
    }

    pub(crate) fn clear(&mut self) {
        self.numbers.clear();
        self.texts.clear();
        self.defined.clear();
    }
}

/// A value of a column, or a slice with a value for each of several rows.
pub(crate) trait FieldValue {
    const KIND: ColumnType;
    const NULLABLE: bool = false;
    fn push(self, values: &mut ColumnValues, rows: usize);
}

impl FieldValue for bool {
    const KIND: ColumnType = ColumnType::Bool;
    fn push(self, values: &mut ColumnValues, rows: usize) {
        values.push_number(i64::from(self), rows);
    }
}

/// Parquet's integers are signed. Counts from 2^63 on occur only in edited files.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

impl FieldValue for u64 {
    const KIND: ColumnType = ColumnType::Int;
    fn push(self, values: &mut ColumnValues, rows: usize) {
        values.push_number(signed(self), rows);
    }
}

impl FieldValue for &[u64] {
    const KIND: ColumnType = ColumnType::Int;
    fn push(self, values: &mut ColumnValues, _: usize) {
        values
            .numbers
            .extend(self.iter().map(|value| signed(*value)));
    }
}

impl FieldValue for f64 {
    const KIND: ColumnType = ColumnType::Float;
    fn push(self, values: &mut ColumnValues, rows: usize) {
        values.push_number(self.to_bits().cast_signed(), rows);
    }
}

impl FieldValue for &[f64] {
    const KIND: ColumnType = ColumnType::Float;
    fn push(self, values: &mut ColumnValues, _: usize) {
        values
            .numbers
            .extend(self.iter().map(|value| value.to_bits().cast_signed()));
    }
}

impl FieldValue for &str {
    const KIND: ColumnType = ColumnType::Text;
    fn push(self, values: &mut ColumnValues, rows: usize) {
        values.push_text(Some(self), rows);
    }
}

impl FieldValue for Option<&str> {
    const KIND: ColumnType = ColumnType::Text;
    const NULLABLE: bool = true;
    fn push(self, values: &mut ColumnValues, rows: usize) {
        values.push_text(self, rows);
    }
}

impl FieldValue for UnixMs {
    const KIND: ColumnType = ColumnType::Instant;
    fn push(self, values: &mut ColumnValues, rows: usize) {
        self.0.push(values, rows);
    }
}

macro_rules! nullable {
    ($($number:ty),+) => {
        $(impl FieldValue for Option<$number> {
            const KIND: ColumnType = <$number as FieldValue>::KIND;
            const NULLABLE: bool = true;
            fn push(self, values: &mut ColumnValues, rows: usize) {
                values.defined.resize(values.defined.len() + rows, i16::from(self.is_some()));
                if let Some(value) = self {
                    value.push(values, rows);
                }
            }
        })+
    };
}
nullable!(bool, u64, f64);

/// One or several rows of a table. With several, a slice has a value for each row, any other field one value for all.
pub(crate) trait FieldRow {
    const TABLE: TableSchema;
    /// Position of the table in `TABLES`.
    const AT: usize;
    /// Appends each field to the values of its column, for `rows` rows. `columns` has the columns of the table.
    fn split(self, columns: &mut [ColumnValues], rows: usize);
}

macro_rules! tables {
    ($($(#[doc = $about:literal])+ $vis:vis $row:ident = $name:literal {
        $($(#[doc = $text:literal])+ $column:ident: $kind:ty,)+
    })+) => {
        $($(#[doc = $about])+
        #[derive(Clone, Copy)]
        $vis struct $row<'a> {
            $($(#[doc = $text])+ $vis $column: $kind,)+
        }

        impl<'a> FieldRow for $row<'a> {
            const AT: usize = Order::$row as usize;
            const TABLE: TableSchema = TableSchema {
                name: $name,
                about: concat!($($about),+),
                columns: &[$(ColumnSchema {
                    name: stringify!($column),
                    kind: <$kind as FieldValue>::KIND,
                    nullable: <$kind as FieldValue>::NULLABLE,
                    about: concat!($($text),+),
                }),+],
            };

            fn split(self, columns: &mut [ColumnValues], rows: usize) {
                let mut columns = columns.iter_mut();
                $(if let Some(values) = columns.next() {
                    self.$column.push(values, rows);
                })+
            }
        })+

        #[allow(clippy::enum_variant_names)] // types of rows
        enum Order {
            $($row),+
        }

        /// All tables, in the order of the documentation.
        pub const TABLES: &[TableSchema] = &[$($row::TABLE),+];
    };
}

pub(crate) use tables;
