//! Published ratings, and where a drive stands among them.
//!
//! Published ratings were made with ACT, by 24-hour certifications of the standard mix: a drive is rated Nx when it
//! holds N times 2,000 reads and 1,000 writes a second within ACT's limits. Only a run in ACT's own
//! pacing, of that mix and under those limits, may be laid beside them.

use results::files::{self, Links};
use serde::Serialize;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Longest list that is read.
const LIST_BYTES_MAX: u64 = 16 << 20;

/// The list that comes with this program. Source: ACT's README and the pages of Aerospike on certified
/// and historical devices, with the results that vendors handed in (the column `source`).
const LIST: &str = include_str!("published-ratings.csv");

/// Operations a second of 1x. Source: ACT's README (2,000 reads and 1,000 writes).
pub const TPS_OF_1X: f64 = 3_000.0;

/// Neighbours shown on each side.
const NEIGHBOURS: usize = 2;

/// The columns that a list must have; others are not looked at.
const COLUMNS: [&str; 10] = [
    "class",
    "device",
    "tps",
    "x(=tps/3000)",
    "gt1ms_pct",
    "gt8ms_pct",
    "gt64ms_pct",
    "endurance",
    "act_ver",
    "source",
];

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Published {
    /// Kind of drive: `nvme`, `sata`, `cloud`; with `hist-` in front where ACT 2 or earlier was used.
    pub class: String,
    pub device: String,
    /// The rating as a multiple of 1x.
    pub x: f64,
    /// Operations over 1, 8 and 64 ms in the worst hour, percent; `None` where it was not published.
    pub over_pct: [Option<f64>; 3],
    /// Endurance in the maker's words.
    pub endurance: Option<String>,
    pub act_version: Option<String>,
    /// Publisher.
    pub source: Option<String>,
}

/// Why a list of ratings cannot be used.
#[derive(Debug, Error)]
pub enum ListError {
    /// Read error.
    #[error("reading the list of ratings {} - {source}; check the path", path.display())]
    Io { path: PathBuf, source: std::io::Error },
    /// Not a list of ratings.
    #[error("reading the list of ratings {name} line {line} - {why}; its first line must be: {}", COLUMNS.join(","))]
    Line {
        name: String,
        /// Line number, from 1.
        line: u64,
        /// Mistake in the line.
        why: String,
    },
}

/// The list that comes with this program.
pub fn built_in() -> Result<Vec<Published>, ListError> {
    parse("of this program", LIST.as_bytes())
}

/// Reads a list of the same format. Errors: it cannot be read, or is none.
pub fn read(path: &Path) -> Result<Vec<Published>, ListError> {
    let bytes = files::read(path, Links::Followed, LIST_BYTES_MAX)
        .map_err(|source| ListError::Io { path: path.to_owned(), source })?;
    parse(&path.display().to_string(), &bytes)
}

fn parse(name: &str, bytes: &[u8]) -> Result<Vec<Published>, ListError> {
    let failed = |line, why: String| ListError::Line { name: name.to_owned(), line, why };
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(bytes);
    let of_csv = |error: csv::Error| failed(error.position().map_or(1, csv::Position::line), error.to_string());
    let header = reader.headers().map_err(of_csv)?.clone();
    let mut at = [0; COLUMNS.len()];
    for (at, column) in at.iter_mut().zip(COLUMNS) {
        let found = header.iter().position(|name| name == column);
        *at = found.ok_or_else(|| failed(1, format!("there is no column {column}")))?;
    }
    let mut ratings = Vec::new();
    for record in reader.records() {
        let record = record.map_err(of_csv)?;
        let line = record.position().map_or(0, csv::Position::line);
        let [class, device, tps, x, over_1, over_8, over_64, endurance, act_version, source] =
            at.map(|at| record.get(at).unwrap_or(""));
        let number = |column: &str, text: &str| match text.parse::<f64>() {
            _ if text.is_empty() => Ok(None),
            Ok(number) if number.is_finite() && number >= 0.0 => Ok(Some(number)),
            _ => Err(failed(line, format!("{column} is no number: {text:?}"))),
        };
        let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        let x = match (number("x(=tps/3000)", x)?, number("tps", tps)?) {
            (Some(x), _) => x,
            (None, Some(tps)) => tps / TPS_OF_1X,
            (None, None) => return Err(failed(line, format!("{device:?} has neither tps nor x"))),
        };
        ratings.push(Published {
            class: class.to_owned(),
            device: device.to_owned(),
            x,
            over_pct: [number("gt1ms_pct", over_1)?, number("gt8ms_pct", over_8)?, number("gt64ms_pct", over_64)?],
            endurance: text(endurance),
            act_version: text(act_version),
            source: text(source),
        });
    }
    ratings.sort_by(|a, b| b.x.total_cmp(&a.x));
    Ok(ratings)
}

/// Rank of a rating among published ones.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Place {
    /// The rating, as a multiple of 1x on one device.
    pub x: f64,
    /// Number of higher published ratings.
    pub higher: usize,
    /// Number of published ratings.
    pub of: usize,
    /// The next higher ones, the highest first.
    pub above: Vec<Published>,
    /// The next ones that are not higher, the highest first.
    pub below: Vec<Published>,
    /// Caveat: the published ratings lasted longer.
    pub caveat: Option<String>,
}

/// Places `x` in `ratings`, highest first.
pub(super) fn place(x: f64, ratings: &[Published], caveat: Option<String>) -> Place {
    let higher = ratings.iter().take_while(|rating| rating.x > x).count();
    let above = ratings[higher.saturating_sub(NEIGHBOURS)..higher].to_vec();
    let below = ratings[higher..].iter().take(NEIGHBOURS).cloned().collect();
    Place { x, higher, of: ratings.len(), above, below, caveat }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_this_program_reads_whole() {
        let list = built_in().unwrap();
        assert_eq!(list.len(), LIST.lines().count() - 1);
        assert_eq!((list[0].device.as_str(), list[0].x), ("SmartIOPS DataEngine 6.4TB", 275.0));
        let huawei = list.iter().find(|rating| rating.device.starts_with("Huawei es3000")).unwrap();
        assert_eq!((huawei.over_pct, &huawei.endurance), ([Some(1.18), Some(0.0), Some(0.0)], &None));
        assert!(list.iter().all(|rating| rating.source.is_some() && rating.x > 0.0));
        // Rounded to a tenth where it is not whole.
        let tps = LIST.lines().skip(1).map(|line| line.split(',').nth(2).unwrap().parse::<f64>().unwrap());
        let mut by_tps: Vec<f64> = tps.map(|tps| tps / TPS_OF_1X).collect();
        by_tps.sort_by(|a, b| b.total_cmp(a));
        assert!(list.iter().zip(by_tps).all(|(rating, x)| (rating.x - x).abs() <= 0.05));
    }

    #[test]
    fn a_rating_stands_between_its_neighbours_and_an_equal_one_is_not_above() {
        let place = |x| {
            let Place { higher, above, below, .. } = super::place(x, &built_in().unwrap(), None);
            let names = |list: Vec<Published>| list.into_iter().map(|rating| rating.x).collect::<Vec<_>>();
            (higher, names(above), names(below))
        };
        assert_eq!(place(1000.0), (0, vec![], vec![275.0, 210.0]));
        assert_eq!(place(106.0), (7, vec![128.0, 108.0], vec![105.5, 100.0]));
        assert_eq!(place(100.0), (8, vec![108.0, 105.5], vec![100.0, 100.0]));
        assert_eq!(place(1.0), (53, vec![3.0, 3.0], vec![]));
    }

    #[test]
    fn another_list_may_have_quotes_and_empty_cells_and_mistakes_are_named() {
        let header = COLUMNS.join(",");
        let list = parse("x.csv", format!("{header}\nnvme,\"A, B\",6000,,0,0.00,,,,\n\n").as_bytes()).unwrap();
        assert_eq!((list[0].device.as_str(), list[0].x), ("A, B", 2.0));
        assert_eq!(list[0].over_pct, [Some(0.0), Some(0.0), None]);
        for (text, why) in [
            ("a,b\n1,2\n".to_owned(), "x.csv line 1 - there is no column class"),
            (format!("{header}\nnvme,A,many,,,,,,,\n"), "line 2 - tps is no number: \"many\""),
            (format!("{header}\nnvme,A,,,,,,,,\n"), "line 2 - \"A\" has neither tps nor x"),
            (format!("{header}\nnvme,A\n"), "line 2 - CSV error"),
            (String::new(), "line 1 - there is no column class"),
        ] {
            let error = parse("x.csv", text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(why), "{why}: {error}");
        }
    }
}
