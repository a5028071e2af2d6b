//! Candidates of a comparison or a selection: their names and directories, ratings, endurance and prices.

use crate::configuration::positive;
use clap::Args;
use report::comparison::{
    CandidateComparison, CandidateDir, Endurance, OperatorData, PublishedRating, built_in, compare,
    read_published,
};
use session::console;
use session::failure::Failure;
use std::path::Path;

/// Endurance ratings and prices of drives, which no run records.
#[derive(Args, Debug)]
pub struct GivenArgs {
    /// Rated drive writes per day; NAME is the name of a candidate or of a device
    #[arg(long, value_name = "NAME=N", value_parser = number)]
    pub dwpd: Vec<(String, f64)>,
    /// Rated terabytes written
    #[arg(long, value_name = "NAME=TB", value_parser = number)]
    pub tbw: Vec<(String, f64)>,
    /// Price of one drive; all prices are in the same currency
    #[arg(long, value_name = "NAME=PRICE", value_parser = number)]
    pub price: Vec<(String, f64)>,
}

impl GivenArgs {
    /// Ratings and prices by drive. Drive writes per day are rated for `warranty_years`. If a drive has both ratings,
    /// only terabytes written count.
    pub fn given(&self, warranty_years: f64) -> OperatorData {
        let Self { dwpd, tbw, price } = self;
        let dwpd = dwpd
            .iter()
            .filter(|(name, _)| tbw.iter().all(|(other, _)| other != name));
        let dwpd = dwpd.map(|(name, n)| (name.clone(), Endurance::DriveWritesPerDay(*n)));
        let tbw = tbw
            .iter()
            .map(|(name, tb)| (name.clone(), Endurance::TerabytesWritten(*tb)));
        OperatorData {
            endurance: dwpd.chain(tbw).collect(),
            prices: price.clone(),
            warranty_years,
        }
    }
}

/// Parses `DIR` or `NAME=DIR`. An existing directory with `=` in its path is a `DIR`.
pub fn parse_named_dir(text: &str) -> Result<CandidateDir, String> {
    match text.split_once('=') {
        Some((name, dir)) if !name.is_empty() && !dir.is_empty() && !Path::new(text).exists() => {
            Ok(CandidateDir {
                name: Some(name.to_owned()),
                dir: dir.into(),
            })
        }
        _ => Ok(CandidateDir {
            name: None,
            dir: text.into(),
        }),
    }
}

/// Parses `NAME=N`. The name may contain `=`.
fn number(text: &str) -> Result<(String, f64), String> {
    let (name, value) = text.rsplit_once('=').ok_or("write NAME=NUMBER")?;
    if name.is_empty() {
        return Err("the name before \"=\" is missing".to_owned());
    }
    Ok((name.to_owned(), positive(value)?))
}

pub fn ratings(path: Option<&Path>) -> Result<Vec<PublishedRating>, Failure> {
    match path {
        Some(path) => read_published(path).map_err(Failure::usage),
        None => built_in().map_err(Failure::environment),
    }
}

/// Compares `candidates`, and prints warnings and remarks.
pub fn compared(
    candidates: &[CandidateDir],
    operator_data: &OperatorData,
    ratings: &[PublishedRating],
) -> Result<CandidateComparison, Failure> {
    let comparison = compare(candidates, operator_data, ratings).map_err(|error| {
        if error.is_usage() {
            Failure::usage(error)
        } else {
            Failure::environment(error)
        }
    })?;
    comparison
        .warnings
        .iter()
        .for_each(|warning| console::warning(warning));
    comparison
        .remarks
        .iter()
        .for_each(|remark| console::note(remark));
    Ok(comparison)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_equals_directory_and_name_equals_positive_number_are_parsed() {
        assert_eq!(
            parse_named_dir("a=b/c"),
            Ok(CandidateDir {
                name: Some("a".into()),
                dir: "b/c".into()
            })
        );
        assert_eq!(
            parse_named_dir("b/c"),
            Ok(CandidateDir {
                name: None,
                dir: "b/c".into()
            })
        );
        assert_eq!(
            number("sim:capacity=1GiB=3"),
            Ok(("sim:capacity=1GiB".into(), 3.0))
        );
        for text in ["a", "=3", "a=", "a=-1", "a=0", "a=nan", "a=inf", "a=x"] {
            assert!(number(text).is_err(), "{text}");
        }
    }
}
