//! Parquet files: rows are collected by column, and written and forgotten by row groups.

use crate::error::ExportError;
use crate::schema::{PERCENTILE_SQL, SCHEMA_VERSION, TABLES};
use crate::table::{Kind, Row, Table, Values};
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::data_type::{BoolType, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::ColumnPath;
use results::files::{self, Links, Over};
use std::fs::{self, File};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// File with SQL that makes a view of each table, and the macro of percentiles.
pub const VIEWS: &str = "views.sql";
const VIEWS_BEGIN: &[u8] = b"-- flashproof: ";
const VIEWS_BYTES_MAX: u64 = 1 << 20;

/// Writes [`VIEWS`] into `dir`.
pub(crate) fn write_views(dir: &Path) -> Result<(), ExportError> {
    let view = |table: &Table| {
        format!("CREATE OR REPLACE VIEW {} AS FROM read_parquet('{}');\n", table.name, table.file_name())
    };
    let views: String = TABLES.iter().map(view).collect();
    let begin = String::from_utf8_lossy(VIEWS_BEGIN);
    let text = format!("{begin}views of an export, for DuckDB: duckdb -init {VIEWS}, in this directory\n{views}\n{PERCENTILE_SQL}");
    let path = dir.join(VIEWS);
    files::replace(&path, text.as_bytes(), Over::Own).map_err(ExportError::io("writing", &path))
}

/// Rows of a row group: 10 to 30 MB of memory for a table.
const GROUP_ROWS: usize = 1 << 17;

/// Key of the schema version in the metadata of a file.
pub const VERSION_KEY: &str = "flashproof.schema_version";

/// A table that is being written, under a temporary name.
pub(crate) struct TableFile<R: Row> {
    writer: SerializedFileWriter<File>,
    written: Written,
    columns: Vec<Values>,
    rows: usize,
    row: PhantomData<R>,
}

/// A whole file with a temporary name; removed unless it is renamed.
pub(crate) struct Written {
    temporary: PathBuf,
    path: PathBuf,
    pub(crate) rows: u64,
}

impl Drop for Written {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.temporary);
    }
}

impl Written {
    /// Gives the file its name. Returns its bytes.
    pub(crate) fn rename(self) -> Result<u64, ExportError> {
        let failed = |error| ExportError::io("renaming a temporary file to", &self.path)(error);
        let bytes = fs::metadata(&self.temporary).map_err(failed)?.len();
        fs::rename(&self.temporary, &self.path).map_err(failed)?;
        Ok(bytes)
    }
}

fn properties<R: Row>() -> Result<WriterProperties, ParquetError> {
    let pair = |key: &str, value: String| KeyValue::new(key.to_owned(), value);
    let metadata = vec![
        pair(VERSION_KEY, SCHEMA_VERSION.to_string()),
        pair("flashproof.table", R::TABLE.name.to_owned()),
        pair("flashproof.version", env!("CARGO_PKG_VERSION").to_owned()),
    ];
    let mut properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(1)?))
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_offset_index_disabled(true)
        .set_key_value_metadata(Some(metadata));
    // Times count up by one: their differences take no space.
    for column in R::TABLE.columns.iter().filter(|column| column.name == "after_sec") {
        let path = ColumnPath::from(column.name);
        properties = properties
            .set_column_dictionary_enabled(path.clone(), false)
            .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
    }
    Ok(properties.build())
}

impl<R: Row> TableFile<R> {
    /// Begins the file of a table in `dir`.
    pub(crate) fn create(dir: &Path) -> Result<Self, ExportError> {
        let path = dir.join(R::TABLE.file_name());
        let temporary = dir.join(temporary_name(&R::TABLE.file_name()));
        let file = File::create_new(&temporary).map_err(ExportError::io("creating", &temporary))?;
        let written = Written { temporary, path, rows: 0 };
        let failed = |source| ExportError::Parquet { path: written.path.clone(), source };
        let properties = properties::<R>().map_err(failed)?;
        let schema = R::TABLE.schema().map_err(failed)?;
        let writer = SerializedFileWriter::new(file, schema, Arc::new(properties)).map_err(failed)?;
        let columns = R::TABLE.columns.iter().map(|_| Values::default()).collect();
        Ok(Self { writer, written, columns, rows: 0, row: PhantomData })
    }

    pub(crate) fn push(&mut self, row: R) -> Result<(), ExportError> {
        row.split(&mut self.columns);
        self.rows += 1;
        if self.rows == GROUP_ROWS { self.write_group() } else { Ok(()) }
    }

    fn write_group(&mut self) -> Result<(), ExportError> {
        self.written.rows += self.rows as u64;
        self.rows = 0;
        let (writer, columns) = (&mut self.writer, &mut self.columns);
        group(writer, &R::TABLE.columns.iter().map(|column| column.kind).collect::<Vec<_>>(), columns)
            .map_err(|source| ExportError::Parquet { path: self.written.path.clone(), source })
    }

    /// Writes the rest, and waits until the file is on the disk.
    pub(crate) fn finish(mut self) -> Result<Written, ExportError> {
        if self.rows > 0 {
            self.write_group()?;
        }
        let failed = |source| ExportError::Parquet { path: self.written.path.clone(), source };
        let file = self.writer.into_inner().map_err(failed)?;
        file.sync_all().map_err(ExportError::io("syncing", &self.written.path))?;
        Ok(self.written)
    }
}

fn group(writer: &mut SerializedFileWriter<File>, kinds: &[Kind], columns: &mut [Values]) -> Result<(), ParquetError> {
    let mut group = writer.next_row_group()?;
    for (values, kind) in columns.iter_mut().zip(kinds) {
        let Some(mut column) = group.next_column()? else { break };
        let defined = (!values.defined.is_empty()).then_some(&*values.defined);
        match kind {
            Kind::Bool => column.typed::<BoolType>().write_batch(&values.bools, defined, None)?,
            Kind::Int | Kind::Instant => column.typed::<Int64Type>().write_batch(&values.ints, defined, None)?,
            Kind::Float => column.typed::<DoubleType>().write_batch(&values.floats, defined, None)?,
            Kind::Text => column.typed::<ByteArrayType>().write_batch(&values.texts, defined, None)?,
        };
        column.close()?;
        values.clear();
    }
    group.close().map(drop)
}

fn temporary_name(file_name: &str) -> String {
    format!(".flashproof-{}-{file_name}.tmp", std::process::id())
}

/// Makes `dir` ready for an export: it is made, or empty, or holds nothing but an earlier export, which `force` allows to
/// replace. True if it was made.
pub(crate) fn prepare(dir: &Path, force: bool) -> Result<bool, ExportError> {
    let listed = match fs::read_dir(dir) {
        Ok(listed) => listed,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            fs::create_dir_all(dir).map_err(ExportError::io("making the directory", dir))?;
            return Ok(true);
        }
        Err(error) => return Err(ExportError::io("listing", dir)(error)),
    };
    let mut earlier = None;
    for entry in listed {
        let entry = entry.map_err(ExportError::io("listing", dir))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_temporary = name.starts_with(".flashproof-") && name.ends_with(".parquet.tmp");
        match is_temporary || is_ours(&entry.path(), &name) {
            false => return Err(ExportError::Foreign { dir: dir.to_owned(), found: results::units::in_one_line(&name) }),
            // Left by an export that was killed.
            true if is_temporary => {
                let _ = fs::remove_file(entry.path());
            }
            true => earlier = Some(name),
        }
    }
    match earlier.filter(|_| !force) {
        Some(found) => Err(ExportError::Occupied { dir: dir.to_owned(), found }),
        None => Ok(false),
    }
}

/// True for a file that an export wrote.
fn is_ours(path: &Path, name: &str) -> bool {
    if name == VIEWS {
        return files::read(path, Links::Refused, VIEWS_BYTES_MAX).is_ok_and(|text| text.starts_with(VIEWS_BEGIN));
    }
    TABLES.iter().any(|table| table.file_name() == name)
        && files::open(path, Links::Refused).is_ok_and(|file| {
            let metadata = SerializedFileReader::new(file).ok().and_then(|reader| {
                reader.metadata().file_metadata().key_value_metadata().cloned()
            });
            metadata.is_some_and(|pairs| pairs.iter().any(|pair| pair.key == VERSION_KEY))
        })
}
