//! checksums.csv: length and checksum of each file of a run at each report.
//!
//! ```text
//! after_sec,manifest.json,intervals.csv,telemetry.csv,act.log,service.hlog,...,crc32
//! 0,4021:9c2f4d01,398:0b1e77c2,...,5d01c2aa     the first lines of all files
//! 1,,63:77aa01be,98:c0ffee11,...,0172e4b9       new bytes since the previous line, checksum of the file
//! ```                                            so far; empty: nothing was added
//!
//! Files only grow, so a line stays valid for the beginning of each file. The `verdict.json` of a complete run has the
//! sums of the whole files, so a reader can check every byte. In a killed run, a reader can check all except the last
//! line of each file. The cost is small, because a checksum is updated only with the appended bytes.
//!
//! The checksum is CRC-32, as in zlib and gzip: it detects damage, not forgery.

use super::file::{AppendFile, HlogKind, RunningSum, Sum, WholeLines, buffered};
use super::{CHECKSUMS, INTERVALS, MANIFEST, RunDirError, TELEMETRY, VERDICT, file};
use crate::files::{self, Links};
use crate::judge::VERDICT_FORMAT_VERSION;
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

impl Sum {
    fn of_file(path: &Path) -> io::Result<Self> {
        let mut whole = RunningSum::default();
        io::copy(
            &mut buffered(files::open(path, Links::Refused)?),
            &mut whole,
        )?;
        Ok(whole.sum())
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FileSum {
    name: String,
    bytes: u64,
    crc32: String,
}

impl FileSum {
    pub(super) fn new(name: &str, sum: Sum) -> Self {
        Self {
            name: name.to_owned(),
            bytes: sum.bytes,
            crc32: format!("{:08x}", sum.crc32),
        }
    }

    /// Sum of an existing file, which another writer wrote; `None` if there is no such file.
    pub(super) fn of_file(dir: &Path, name: &str) -> Option<Self> {
        Some(Self::new(name, Sum::of_file(&dir.join(name)).ok()?))
    }

    fn sum(&self) -> Option<Sum> {
        Some(Sum {
            bytes: self.bytes,
            crc32: u32::from_str_radix(&self.crc32, 16).ok()?,
        })
    }
}

pub(super) struct ChecksumWriter {
    pub(super) file: AppendFile,
    last: Vec<Sum>,
    text: String,
}

impl ChecksumWriter {
    /// Creates checksums.csv with a column for each file in `names`.
    pub(super) fn create(dir: &Path, names: &[String]) -> Result<Self, RunDirError> {
        let mut file = AppendFile::create(dir.join(CHECKSUMS))?;
        file.append(format!("after_sec,{},crc32\n", names.join(",")).as_bytes())?;
        Ok(Self {
            file,
            last: vec![Sum::default(); names.len()],
            text: String::new(),
        })
    }

    /// Appends a line with a field for each file, in the order of their names: the bytes that were appended since the last
    /// line, and the checksum of the whole file. The field of an unchanged file is empty.
    pub(super) fn append(
        &mut self,
        after_sec: u64,
        sums: impl IntoIterator<Item = Sum>,
    ) -> Result<(), RunDirError> {
        self.text.clear();
        // Writing to a string cannot fail, here and below.
        let _ = write!(self.text, "{after_sec}");
        for (last, sum) in self.last.iter_mut().zip(sums) {
            self.text.push(',');
            if *last != sum {
                let _ = write!(self.text, "{}:{:08x}", sum.bytes - last.bytes, sum.crc32);
                *last = sum;
            }
        }
        let own = crc32fast::hash(self.text.as_bytes());
        let _ = writeln!(self.text, ",{own:08x}");
        self.file.append(self.text.as_bytes())
    }
}

/// Reads the column of one file in checksums.csv.
struct ChecksumColumn {
    lines: WholeLines,
    column: usize,
    columns: usize,
    sum: Sum,
}

impl ChecksumColumn {
    /// `None` without checksums, or without a column for `name`.
    fn open(dir: &Path, name: &str) -> Result<Option<Self>, RunDirError> {
        let mut lines = WholeLines::open(dir.join(CHECKSUMS))?;
        let Ok(Some(header)) = lines.next() else {
            return Ok(None);
        };
        let names: Vec<&str> = header.split(',').collect();
        let columns = names.len();
        let column = names.iter().position(|other| *other == name);
        Ok(column.map(|column| Self {
            lines,
            column,
            columns,
            sum: Sum::default(),
        }))
    }

    /// Time of the next report, seconds, and the file's sum then; `None` at the end or at the first damaged line.
    fn next(&mut self) -> Option<(u64, Sum)> {
        let line = self.lines.next().ok()??;
        let (row, row_crc32) = line.rsplit_once(',')?;
        let fields: Vec<&str> = row.split(',').collect();
        if u32::from_str_radix(row_crc32, 16) != Ok(crc32fast::hash(row.as_bytes()))
            || fields.len() + 1 != self.columns
        {
            return None;
        }
        let field = fields.get(self.column)?;
        if !field.is_empty() {
            let (added, crc32) = field.split_once(':')?;
            let bytes = self.sum.bytes.checked_add(added.parse().ok()?)?;
            self.sum = Sum {
                bytes,
                crc32: u32::from_str_radix(crc32, 16).ok()?,
            };
        }
        Some((fields[0].parse().ok()?, self.sum))
    }
}

pub(super) struct RecordedSums {
    dir: PathBuf,
    /// Sums at the end of the run; `None` for a run without an end.
    sealed: Option<Vec<FileSum>>,
    /// True if `verdict.json` belongs to another run.
    pub(super) foreign_verdict: bool,
}

#[derive(Debug, Default)]
pub(super) struct FileCheck {
    /// Length of the readable part, bytes: up to the damage or a torn end, or the whole file.
    pub(super) good_bytes: u64,
    /// The damage as a phrase that follows the name of the file: `is missing`.
    pub(super) damage: Option<String>,
    /// True if only the data of the last report is damaged, as after a power cut.
    pub(super) torn: bool,
}

/// True for the plain name of a file in the directory. Other names count as damage, and must not lead elsewhere.
fn is_plain(name: &str) -> bool {
    !matches!(name, "." | "..")
        && name.len() <= 255
        && !name.contains(|c: char| c == '/' || c.is_control())
}

fn required_files() -> impl Iterator<Item = &'static str> {
    [MANIFEST, INTERVALS, TELEMETRY, CHECKSUMS]
        .into_iter()
        .chain(HlogKind::ALL.map(HlogKind::file_name))
}

impl RecordedSums {
    /// Reads the recorded sums in `dir`. An unreadable verdict is ignored here.
    pub(super) fn read(dir: &Path) -> Self {
        #[derive(Deserialize)]
        struct Seal {
            files: Vec<FileSum>,
        }
        let seal = file::read::<Seal>(&dir.join(VERDICT), VERDICT_FORMAT_VERSION)
            .ok()
            .flatten();
        let mut recorded_sums = Self {
            dir: dir.to_owned(),
            sealed: None,
            foreign_verdict: false,
        };
        let Some(seal) = seal else {
            return recorded_sums;
        };
        // If manifest and verdict belong to different runs, the checksums show which of the two is foreign.
        let manifest = Sum::of_file(&dir.join(MANIFEST)).ok();
        let sealed = seal
            .files
            .iter()
            .find(|file| file.name == MANIFEST)
            .and_then(FileSum::sum);
        let of_checksums = ChecksumColumn::open(dir, MANIFEST)
            .ok()
            .flatten()
            .and_then(|mut rows| Some(rows.next()?.1));
        recorded_sums.foreign_verdict =
            manifest.is_some() && sealed != manifest && of_checksums == manifest;
        if !recorded_sums.foreign_verdict {
            recorded_sums.sealed = Some(seal.files);
        }
        recorded_sums
    }

    /// Names of the files of the run, without the verdict.
    pub(super) fn names(&self) -> Vec<String> {
        let of_checksums = WholeLines::open(self.dir.join(CHECKSUMS)).ok();
        let header = of_checksums
            .and_then(|mut lines| Some(lines.next().ok()??.to_owned()))
            .unwrap_or_default();
        let columns = header
            .split(',')
            .filter(|name| !matches!(*name, "" | "after_sec" | "crc32"))
            .map(str::to_owned);
        let sealed = self.sealed.iter().flatten().map(|file| file.name.clone());
        let mut names: Vec<String> = required_files().map(str::to_owned).collect();
        for name in columns.filter(|_| self.sealed.is_none()).chain(sealed) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    pub(super) fn check(&self, name: &str) -> Result<FileCheck, RunDirError> {
        if !is_plain(name) {
            return Ok(FileCheck {
                damage: Some("is not the name of a file of a run".to_owned()),
                ..FileCheck::default()
            });
        }
        let path = self.dir.join(name);
        let failed = |error| RunDirError::io("reading", &path, error);
        let sealed = self
            .sealed
            .iter()
            .flatten()
            .find(|file| file.name == name)
            .and_then(FileSum::sum);
        let mut rows = ChecksumColumn::open(&self.dir, name)?;
        let file = match files::open(&path, Links::Refused) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let known = sealed.is_some()
                    || rows.is_some()
                    || required_files().any(|always| always == name);
                return Ok(FileCheck {
                    damage: known.then(|| "is missing".to_owned()),
                    ..FileCheck::default()
                });
            }
            Err(error) => return Err(failed(error)),
        };
        let length = file.metadata().map_err(failed)?.len();
        if let Some(sealed) = sealed.filter(|sealed| sealed.bytes == length)
            && Sum::of_file(&path).map_err(failed)? == sealed
        {
            return Ok(FileCheck {
                good_bytes: length,
                ..FileCheck::default()
            });
        }
        let mut file = buffered(file);
        let mut running = RunningSum::default();
        let mut good_sum = Sum::default();
        let mut good_sec = 0;
        let mut bad_sum = None;
        let mut bad_count = 0;
        while let Some((after_sec, sum)) = rows.as_mut().and_then(ChecksumColumn::next) {
            if bad_sum.is_none() && sum != good_sum {
                let more_bytes = sum.bytes.saturating_sub(running.bytes);
                io::copy(&mut file.by_ref().take(more_bytes), &mut running).map_err(failed)?;
            }
            if bad_sum.is_none() && (sum == good_sum || running.sum() == sum) {
                (good_sum, good_sec) = (sum, after_sec);
            } else if bad_sum != Some(sum) {
                (bad_sum, bad_count) = (Some(sum), bad_count + 1);
            }
        }
        let expected = match (sealed, bad_sum) {
            (Some(sealed), _) => sealed,
            // All sums match: data after the last recorded sum can only be whole lines and a torn line.
            (None, None) => {
                return Ok(FileCheck {
                    good_bytes: u64::MAX,
                    ..FileCheck::default()
                });
            }
            // Files are synced after each report, so a power cut can lose only data appended since then.
            (None, Some(_)) if bad_count == 1 && good_sum.bytes > 0 => {
                return Ok(FileCheck {
                    good_bytes: good_sum.bytes,
                    damage: None,
                    torn: true,
                });
            }
            (None, Some(bad)) => bad,
        };
        let damage_text = match length {
            length if length < expected.bytes => {
                format!("is cut: {length} of {} bytes are there", expected.bytes)
            }
            length if length > expected.bytes && sealed.is_some() => {
                format!(
                    "is too long: it has {length} bytes, and {} were written",
                    expected.bytes
                )
            }
            _ => "is changed: its bytes differ from the recorded checksum".to_owned(),
        };
        let intact_part = if rows.is_some() && name != MANIFEST {
            format!("; it is whole up to {good_sec} s")
        } else {
            String::new()
        };
        Ok(FileCheck {
            good_bytes: good_sum.bytes,
            damage: Some(damage_text + &intact_part),
            torn: false,
        })
    }

    /// Checks that checksums.csv covers all `intervals`. Returns the damage as a phrase. Skips runs with a verdict.
    pub(super) fn check_length(&self, intervals: u64) -> Result<Option<String>, RunDirError> {
        if self.sealed.is_some() {
            return Ok(None);
        }
        let Some(mut rows) = ChecksumColumn::open(&self.dir, INTERVALS)? else {
            let is_there = self.dir.join(CHECKSUMS).exists();
            return Ok((is_there && intervals > 0).then(|| "has lost its first line".to_owned()));
        };
        let mut count = 0;
        let mut last_sec = 0;
        while let Some((after_sec, _)) = rows.next() {
            (count, last_sec) = (count + 1, after_sec);
        }
        // The first line belongs to no interval, and the last line may be missing.
        Ok((count < intervals)
            .then(|| format!("is cut or changed after {last_sec} s, but the tables continue")))
    }
}
