//! Parquet files: rows are collected by column, written as row groups, and dropped.

use crate::schema::{PERCENTILE_SQL, SCHEMA_VERSION, TABLES};
use crate::table::{ColumnSchema, ColumnType, ColumnValues, FieldRow, TableSchema};
use crate::{ExportError, Result};
use parquet::basic::{Compression, Encoding};
use parquet::column::writer::{ColumnCloseResult, ColumnWriterImpl};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::{KeyValue, ParquetMetaDataReader};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::ColumnPath;
use results::files::{self, Dir, Links, NewDirs, ReplaceTarget, Temporary};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// File with SQL that creates a view for each table, and the macro for percentiles.
pub const VIEWS: &str = "views.sql";
const VIEWS_BEGIN: &str = "-- flashproof: ";
const VIEWS_BYTES_MAX: u64 = 1 << 20;

pub(crate) fn write_views(dir: &Path) -> Result {
    let views: String = TABLES
        .iter()
        .map(|table: &TableSchema| {
            format!(
                "CREATE OR REPLACE VIEW {} AS FROM read_parquet('{}');\n",
                table.name,
                table.file_name()
            )
        })
        .collect();
    let text = format!(
        "{VIEWS_BEGIN}views of an export, for DuckDB: duckdb -init {VIEWS}, in this directory\n{views}\n{PERCENTILE_SQL}"
    );
    let path = dir.join(VIEWS);
    files::replace(&path, text.as_bytes(), ReplaceTarget::Own(VIEWS_BEGIN))
        .map_err(ExportError::io("writing", &path))
}

/// Number of rows after which a row group is written: 10 to 30 MB of memory for a table.
const GROUP_ROWS: usize = 1 << 17;

pub const VERSION_KEY: &str = "flashproof.schema_version";

/// The files of one part of an export: one file for each table, in the order of `TABLES`.
pub(crate) struct PartFiles(Vec<TableFile>);

/// A table that is being written, under a temporary name.
struct TableFile {
    writer: SerializedFileWriter<File>,
    written: TemporaryFile,
    values: Vec<ColumnValues>,
    rows: usize,
}

/// A file of a table under a temporary name; removed unless it is renamed.
pub(crate) struct TemporaryFile {
    table: &'static TableSchema,
    temporary: Temporary,
    path: PathBuf,
    pub(crate) rows: u64,
}

impl TemporaryFile {
    fn failed(&self, source: ParquetError) -> ExportError {
        ExportError::Parquet {
            path: self.path.clone(),
            source,
        }
    }

    /// Syncs the file, and renames it to its final name. Returns the size of the file, bytes.
    pub(crate) fn publish(self) -> Result<u64> {
        let Self {
            temporary, path, ..
        } = self;
        let published = temporary.open().and_then(|file| {
            temporary.publish(&file)?;
            Ok(file.metadata()?.len())
        });
        published.map_err(ExportError::io("renaming a temporary file to", &path))
    }
}

const PARQUET_BEGIN: &str = "PAR1";

fn create(
    table: &'static TableSchema,
    dir: &Dir,
) -> Result<(TemporaryFile, SerializedFileWriter<File>)> {
    let path = dir.path().join(table.file_name());
    let (temporary, file) = Temporary::create(
        dir,
        OsStr::new(&table.file_name()),
        ReplaceTarget::Own(PARQUET_BEGIN),
    )
    .map_err(ExportError::io("creating", &path))?;
    let written = TemporaryFile {
        table,
        temporary,
        path,
        rows: 0,
    };
    let writer = properties(table).and_then(|properties| {
        SerializedFileWriter::new(file, table.schema()?, Arc::new(properties))
    });
    let writer = writer.map_err(|source| written.failed(source))?;
    Ok((written, writer))
}

fn properties(table: &TableSchema) -> Result<WriterProperties, ParquetError> {
    let pair = |key: &str, value: String| KeyValue::new(key.to_owned(), value);
    let metadata = vec![
        pair(VERSION_KEY, SCHEMA_VERSION.to_string()),
        pair("flashproof.table", table.name.to_owned()),
        pair("flashproof.version", env!("CARGO_PKG_VERSION").to_owned()),
    ];
    let mut properties = WriterProperties::builder()
        .set_compression(Compression::LZ4_RAW)
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_offset_index_disabled(true)
        .set_key_value_metadata(Some(metadata));
    // Statistics of a text column cost a comparison per row. Readers need only those of `run_id`, to skip row groups.
    let texts = table
        .columns
        .iter()
        .filter(|column| column.kind == ColumnType::Text && column.name != "run_id");
    for column in texts {
        properties =
            properties.set_column_statistics_enabled(column.name.into(), EnabledStatistics::None);
    }
    // Times mostly increase by one from row to row, so delta encoding needs almost no space.
    for column in table
        .columns
        .iter()
        .filter(|column| column.name == "after_sec")
    {
        let path = ColumnPath::from(column.name);
        properties = properties
            .set_column_dictionary_enabled(path.clone(), false)
            .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
    }
    Ok(properties.build())
}

impl PartFiles {
    pub(crate) fn create(dir: &Dir) -> Result<Self> {
        TABLES
            .iter()
            .map(|table: &'static TableSchema| {
                let (written, writer) = create(table, dir)?;
                let values = table
                    .columns
                    .iter()
                    .map(|_| ColumnValues::default())
                    .collect();
                Ok(TableFile {
                    writer,
                    written,
                    values,
                    rows: 0,
                })
            })
            .collect::<Result<_>>()
            .map(Self)
    }

    pub(crate) fn push<R: FieldRow>(&mut self, row: R) -> Result {
        self.push_rows(row, 1)
    }

    /// Appends `rows` rows. A field of `row` that is a slice has a value for each of the rows.
    pub(crate) fn push_rows<R: FieldRow>(&mut self, row: R, rows: usize) -> Result {
        let file = &mut self.0[R::AT];
        row.split(&mut file.values, rows);
        file.rows += rows;
        if file.rows >= GROUP_ROWS {
            file.write_group()
        } else {
            Ok(())
        }
    }

    pub(crate) fn finish(self) -> Result<Vec<TemporaryFile>> {
        self.0.into_iter().map(TableFile::finish).collect()
    }
}

impl TableFile {
    fn write_group(&mut self) -> Result {
        self.written.rows += self.rows as u64;
        self.rows = 0;
        self.write_columns()
            .map_err(|source| self.written.failed(source))
    }

    fn write_columns(&mut self) -> Result<(), ParquetError> {
        let mut group = self.writer.next_row_group()?;
        for (values, ColumnSchema { kind, nullable, .. }) in
            self.values.iter_mut().zip(self.written.table.columns)
        {
            let Some(mut column) = group.next_column()? else {
                break;
            };
            let numbers = &*values.numbers;
            let defined = (!values.defined.is_empty()).then_some(&*values.defined);
            match kind {
                ColumnType::Bool => {
                    let bools: Vec<bool> = numbers.iter().map(|number| *number != 0).collect();
                    column
                        .typed::<BoolType>()
                        .write_batch(&bools, defined, None)?
                }
                ColumnType::Int | ColumnType::Instant => column
                    .typed::<Int64Type>()
                    .write_batch(numbers, defined, None)?,
                ColumnType::Float => {
                    let floats: Vec<f64> = numbers
                        .iter()
                        .map(|bits| f64::from_bits(bits.cast_unsigned()))
                        .collect();
                    column
                        .typed::<DoubleType>()
                        .write_batch(&floats, defined, None)?
                }
                ColumnType::Text => write_texts(column.typed(), &values.texts, *nullable)?,
            };
            column.close()?;
            values.clear();
        }
        group.close().map(drop)
    }

    fn finish(mut self) -> Result<TemporaryFile> {
        if self.rows > 0 {
            self.write_group()?;
        }
        self.writer
            .close()
            .map_err(|source| self.written.failed(source))?;
        Ok(self.written)
    }
}

/// Joins the parts of a table into one file, in the order of `parts`. Row groups are copied unchanged.
pub(crate) fn join(dir: &Dir, parts: &[TemporaryFile]) -> Result<Option<TemporaryFile>> {
    let Some(first) = parts.first() else {
        return Ok(None);
    };
    let (mut joined_file, mut writer) = create(first.table, dir)?;
    for part in parts {
        copy_groups(&part.temporary, &mut writer).map_err(|source| part.failed(source))?;
        joined_file.rows += part.rows;
    }
    writer
        .close()
        .map_err(|source| joined_file.failed(source))?;
    Ok(Some(joined_file))
}

fn copy_groups(
    part: &Temporary,
    writer: &mut SerializedFileWriter<File>,
) -> Result<(), ParquetError> {
    let file = part.open()?;
    let metadata = ParquetMetaDataReader::new().parse_and_finish(&file)?;
    for rows in metadata.row_groups() {
        let mut group = writer.next_row_group()?;
        for column in rows.columns() {
            let chunk = ColumnCloseResult {
                bytes_written: column.compressed_size().unsigned_abs(),
                rows_written: rows.num_rows().unsigned_abs(),
                metadata: column.clone(),
                bloom_filter: None,
                column_index: None,
                offset_index: None,
            };
            group.append_column(&file, chunk)?;
        }
        group.close()?;
    }
    Ok(())
}

/// Maximum number of rows with equal texts that are written at once.
const EQUAL_MAX: usize = 1024;

fn write_texts(
    column: &mut ColumnWriterImpl<'_, ByteArrayType>,
    texts: &[(Option<ByteArray>, usize)],
    nullable: bool,
) -> Result<usize, ParquetError> {
    // For each text, as many copies as its longest sequence of rows has, at most `EQUAL_MAX`: a write takes a copy for
    // each row. Reused, because copying the text for each row would take longer than the write.
    let mut copies: HashMap<&[u8], Vec<ByteArray>> = HashMap::new();
    let mut written = 0;
    for (text, rows) in texts {
        let equal: &[ByteArray] = match text {
            None => &[],
            Some(text) => {
                let equal = copies.entry(text.data()).or_default();
                if equal.len() < EQUAL_MAX.min(*rows) {
                    equal.resize(EQUAL_MAX.min(*rows), text.clone());
                }
                equal
            }
        };
        let defined = [i16::from(text.is_some()); EQUAL_MAX];
        for from in (0..*rows).step_by(EQUAL_MAX) {
            let rows = EQUAL_MAX.min(rows - from);
            let defined = nullable.then_some(&defined[..rows]);
            written += column.write_batch(&equal[..rows.min(equal.len())], defined, None)?;
        }
    }
    Ok(written)
}

/// Creates `dir`, or checks that it is empty except, with `force`, for an earlier export. Returns created directories.
pub(crate) fn prepare(dir: &Path, force: bool) -> Result<NewDirs> {
    let entries = match fs::read_dir(dir) {
        Ok(listed) => listed,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return files::create_dirs(dir).map_err(ExportError::io("making the directory", dir));
        }
        Err(error) => return Err(ExportError::io("listing", dir)(error)),
    };
    let mut earlier_export = None;
    for entry in entries {
        let entry = entry.map_err(ExportError::io("listing", dir))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        // A killed export leaves such files. Their names alone do not prove whose they are, so they stay.
        let is_temporary = name.starts_with(".flashproof-") && name.ends_with(".tmp");
        if is_temporary {
            continue;
        } else if is_ours(&entry.path(), &name) {
            earlier_export = Some(name);
        } else {
            return Err(ExportError::Foreign {
                dir: dir.to_owned(),
                found: results::format::in_one_line(&name),
            });
        }
    }
    if let Some(found) = earlier_export.filter(|_| !force) {
        return Err(ExportError::Occupied {
            dir: dir.to_owned(),
            found,
        });
    }
    Ok(NewDirs::default())
}

/// True for a file that an export wrote.
fn is_ours(path: &Path, name: &str) -> bool {
    if name == VIEWS {
        return files::read(path, Links::Refused, VIEWS_BYTES_MAX)
            .is_ok_and(|text| text.starts_with(VIEWS_BEGIN.as_bytes()));
    }
    TABLES.iter().any(|table| table.file_name() == name)
        && files::open(path, Links::Refused).is_ok_and(|file| {
            let metadata = ParquetMetaDataReader::new().parse_and_finish(&file);
            let pairs = metadata
                .ok()
                .and_then(|metadata| metadata.file_metadata().key_value_metadata().cloned());
            pairs.is_some_and(|pairs| pairs.iter().any(|pair| pair.key == VERSION_KEY))
        })
}
