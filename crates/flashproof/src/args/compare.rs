//! The options of `flashproof report compare`.

use clap::Args;
use report::comparison::{Endurance, Named};
use std::path::{Path, PathBuf};

/// Options of a comparison.
#[derive(Args, Debug)]
pub struct CompareArgs {
    /// Directories of runs or of series (certify, rate), each as DIR or NAME=DIR
    #[arg(required = true, value_name = "DIR", value_parser = named)]
    pub dirs: Vec<Named>,
    #[command(flatten)]
    pub endurance: EnduranceArgs,
    /// Years of warranty that drive writes per day are rated for
    #[arg(long, value_name = "YEARS", default_value_t = 5.0, value_parser = positive)]
    pub warranty: f64,
    /// Price of one drive, all in the same currency
    #[arg(long, value_name = "NAME=PRICE", value_parser = number)]
    pub price: Vec<(String, f64)>,
    /// A list of published ratings of your own, in the format of the one that is built in
    #[arg(long, value_name = "CSV")]
    pub published: Option<PathBuf>,
    /// Write one page of HTML with bars, which needs no network and no other file
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Print all of it as JSON
    #[arg(long, conflicts_with = "markdown")]
    pub json: bool,
    /// Print it as Markdown
    #[arg(long)]
    pub markdown: bool,
}

/// What makers rate drives for.
#[derive(Args, Debug)]
pub struct EnduranceArgs {
    /// Drive writes per day that the maker rates a drive for; NAME is a candidate's or a device's
    #[arg(long, value_name = "NAME=N", value_parser = number)]
    pub dwpd: Vec<(String, f64)>,
    /// Terabytes written that the maker rates a drive for
    #[arg(long, value_name = "NAME=TB", value_parser = number)]
    pub tbw: Vec<(String, f64)>,
}

impl EnduranceArgs {
    /// Of both kinds, by name. Of a name with both the terabytes count: they are what a warranty says.
    pub fn by_name(&self) -> Vec<(String, Endurance)> {
        let Self { dwpd, tbw } = self;
        let dwpd = dwpd.iter().filter(|(name, _)| tbw.iter().all(|(other, _)| other != name));
        let dwpd = dwpd.map(|(name, n)| (name.clone(), Endurance::DriveWritesPerDay(*n)));
        let tbw = tbw.iter().map(|(name, tb)| (name.clone(), Endurance::TerabytesWritten(*tb)));
        dwpd.chain(tbw).collect()
    }
}

/// `DIR` or `NAME=DIR`. A directory whose own path has an equals sign is one.
pub(super) fn named(text: &str) -> Result<Named, String> {
    match text.split_once('=') {
        Some((name, dir)) if !name.is_empty() && !dir.is_empty() && !Path::new(text).exists() => {
            Ok(Named { name: Some(name.to_owned()), dir: dir.into() })
        }
        _ => Ok(Named { name: None, dir: text.into() }),
    }
}

/// `NAME=N`. The name of a device may have an equals sign in it.
pub(super) fn number(text: &str) -> Result<(String, f64), String> {
    let (name, value) = text.rsplit_once('=').ok_or("write NAME=NUMBER")?;
    if name.is_empty() {
        return Err("the name before \"=\" is missing".to_owned());
    }
    Ok((name.to_owned(), positive(value)?))
}

pub(super) fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() && number > 0.0 => Ok(number),
        _ => Err(format!("{} is no number above 0", results::units::quoted(text))),
    }
}

pub(super) const EXAMPLES: &str = "\
Examples:
  flashproof report compare runs/a runs/b             two runs side by side
  flashproof report compare old=runs/2024 new=runs/2026          under names of your own
  flashproof report compare runs/a --dwpd a=3 --price a=549
  flashproof report compare runs/a --published our-ratings.csv   among your own ratings
  flashproof report compare runs/* --html drives.html            a page to keep, to send
  flashproof report compare runs/* --markdown > drives.md        for a ticket

Tests that differ are compared all the same and said to differ: the exit code is 0. 2: a directory was
named twice, or a name is nobody's. 3: a directory cannot be read. More in docs/compare.md.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_before_directories_and_numbers() {
        assert_eq!(named("a=b/c"), Ok(Named { name: Some("a".into()), dir: "b/c".into() }));
        assert_eq!(named("b/c"), Ok(Named { name: None, dir: "b/c".into() }));
        assert_eq!(number("sim:capacity=1GiB=3"), Ok(("sim:capacity=1GiB".into(), 3.0)));
        for text in ["a", "=3", "a=", "a=-1", "a=0", "a=nan", "a=inf", "a=x"] {
            assert!(number(text).is_err(), "{text}");
        }
    }
}
