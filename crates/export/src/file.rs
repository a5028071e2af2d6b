//! Files of tables: rows are collected by column, and written and forgotten by row groups.

use crate::error::ExportError;
use crate::parquet::{self, MAGIC, RowGroup};
use crate::schema::{PERCENTILE_SQL, SCHEMA_VERSION, TABLES};
use crate::table::{Row, Table, Values};
use results::files::{self, Links, Over};
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

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
    let text = format!(
        "{begin}views of an export, for DuckDB: duckdb -init {VIEWS}, in this directory\n{views}\n{PERCENTILE_SQL}"
    );
    let path = dir.join(VIEWS);
    files::replace(&path, text.as_bytes(), Over::Own).map_err(ExportError::io("writing", &path))
}

/// From this number of rows on a row group is written: 10 to 20 MB of memory for a table.
const GROUP_ROWS: usize = 1 << 17;

/// Key of the schema version in the metadata of a file.
pub const VERSION_KEY: &str = "flashproof.schema_version";

/// The row groups of a part of a table, in a file with a temporary name.
pub(crate) struct TableFile<R> {
    file: File,
    written: Written,
    values: Vec<Values>,
    rows: usize,
    bytes: Vec<u8>,
    row: PhantomData<R>,
}

/// A file of a table under a temporary name; removed unless it is renamed.
pub(crate) struct Written {
    table: Table,
    temporary: PathBuf,
    path: PathBuf,
    groups: Vec<RowGroup>,
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

/// Creates a file of `table` in `dir`, under a temporary name.
fn create(table: Table, dir: &Path, part: &str) -> Result<(Written, File), ExportError> {
    let path = dir.join(table.file_name());
    let temporary = dir.join(format!(".flashproof-{}-{part}-{}.tmp", std::process::id(), table.file_name()));
    let file = File::create_new(&temporary).map_err(ExportError::io("creating", &temporary))?;
    Ok((Written { table, temporary, path, groups: Vec::new(), rows: 0 }, file))
}

impl<R: Row> TableFile<R> {
    /// Begins the file of a part of a table in `dir`.
    pub(crate) fn create(dir: &Path, part: usize) -> Result<Self, ExportError> {
        let (written, file) = create(R::TABLE, dir, &part.to_string())?;
        let values = R::TABLE.columns.iter().map(|_| Values::default()).collect();
        Ok(Self { file, written, values, rows: 0, bytes: Vec::new(), row: PhantomData })
    }

    pub(crate) fn push(&mut self, row: R::At<'_>) -> Result<(), ExportError> {
        self.push_rows(row, 1)
    }

    /// Appends rows; a field that is a slice has `rows` values.
    pub(crate) fn push_rows(&mut self, row: R::At<'_>, rows: usize) -> Result<(), ExportError> {
        row.split(&mut self.values, rows);
        self.rows += rows;
        if self.rows >= GROUP_ROWS { self.write_group() } else { Ok(()) }
    }

    fn write_group(&mut self) -> Result<(), ExportError> {
        let rows = std::mem::take(&mut self.rows);
        self.written.rows += rows as u64;
        self.bytes.clear();
        self.written.groups.push(RowGroup::encode(R::TABLE.columns, &mut self.values, rows, &mut self.bytes));
        self.file.write_all(&self.bytes).map_err(ExportError::io("writing", &self.written.path))
    }

    /// Writes the rest.
    pub(crate) fn finish(mut self) -> Result<Written, ExportError> {
        if self.rows > 0 {
            self.write_group()?;
        }
        Ok(self.written)
    }
}

/// Joins the parts of a table, which are in order, to one file that is on the disk.
pub(crate) fn join(dir: &Path, parts: &[Written]) -> Result<Option<Written>, ExportError> {
    let Some(first) = parts.first() else { return Ok(None) };
    let (mut whole, mut file) = create(first.table.clone(), dir, "all")?;
    let version = SCHEMA_VERSION.to_string();
    let notes = [
        (VERSION_KEY, &*version),
        ("flashproof.table", first.table.name),
        ("flashproof.version", env!("CARGO_PKG_VERSION")),
    ];
    let mut write = || {
        let mut groups = Vec::new();
        file.write_all(MAGIC)?;
        let mut offset = MAGIC.len() as u64;
        for part in parts {
            let offsets = part.groups.iter().scan(offset, |next, group| Some((group.place(next), group)));
            groups.extend(offsets);
            offset += io::copy(&mut File::open(&part.temporary)?, &mut file)?;
        }
        file.write_all(&parquet::footer(&first.table, &groups, &notes))?;
        file.sync_all()
    };
    write().map_err(ExportError::io("writing", &whole.path))?;
    whole.rows = parts.iter().map(|part| part.rows).sum();
    Ok(Some(whole))
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
    let (mut earlier, mut temporary) = (None, Vec::new());
    for entry in listed {
        let entry = entry.map_err(ExportError::io("listing", dir))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_temporary = name.starts_with(".flashproof-") && name.ends_with(".tmp");
        match is_temporary || is_ours(&entry.path(), &name) {
            false => {
                return Err(ExportError::Foreign { dir: dir.to_owned(), found: results::units::in_one_line(&name) });
            }
            true if is_temporary => temporary.push(entry.path()),
            true => earlier = Some(name),
        }
    }
    match earlier.filter(|_| !force) {
        Some(found) => Err(ExportError::Occupied { dir: dir.to_owned(), found }),
        None => {
            // Left by an export that was killed.
            temporary.iter().for_each(|path| drop(fs::remove_file(path)));
            Ok(false)
        }
    }
}

/// True for a file that an export wrote.
fn is_ours(path: &Path, name: &str) -> bool {
    if name == VIEWS {
        return files::read(path, Links::Refused, VIEWS_BYTES_MAX).is_ok_and(|text| text.starts_with(VIEWS_BEGIN));
    }
    TABLES.iter().any(|table| table.file_name() == name) && is_table(path).unwrap_or(false)
}

/// Longest footer that is looked at: a million drives have a shorter one.
const FOOTER_BYTES_MAX: u64 = 1 << 30;

/// True for a table with the key of an export in its footer.
fn is_table(path: &Path) -> io::Result<bool> {
    let mut file = files::open(path, Links::Refused)?;
    let mut end = [0; 8];
    file.seek(SeekFrom::End(-8))?;
    file.read_exact(&mut end)?;
    let [a, b, c, d, magic @ ..] = end;
    let length = u64::from(u32::from_le_bytes([a, b, c, d])).min(FOOTER_BYTES_MAX);
    file.seek(SeekFrom::End(-8 - length as i64))?;
    let mut footer = Vec::new();
    file.take(length).read_to_end(&mut footer)?;
    Ok(magic == *MAGIC && footer.windows(VERSION_KEY.len()).any(|found| found == VERSION_KEY.as_bytes()))
}
