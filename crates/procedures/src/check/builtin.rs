//! The checks that come with flashproof: the files of `checks/`.

use include_dir::{Dir, include_dir};
use std::path::Path;

static CHECKS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../checks");

/// Names of the checks, sorted.
pub fn names() -> impl Iterator<Item = &'static str> {
    let mut names: Vec<_> = CHECKS.files().filter_map(|file| file.path().file_stem()?.to_str()).collect();
    names.sort_unstable();
    names.into_iter()
}

/// The file of a check; `None` if there is none of that name.
pub fn text(name: &str) -> Option<&'static str> {
    CHECKS
        .get_file(Path::new(name).with_extension("toml"))
        .filter(|_| names().any(|known| known == name))?
        .contents_utf8()
}

#[cfg(test)]
mod tests {
    use super::super::Definition;
    use super::*;
    use results::check::{Criterion, Standing};
    use results::units::span;

    /// Seconds and bytes of files that a check may take at most.
    const SECONDS_MAX: u64 = 80;
    const BYTES_MAX: u64 = 6 << 30;

    #[test]
    fn every_check_builds_its_loads_and_cites_its_limits() {
        assert!(names().count() >= 14);
        for name in names() {
            let check = Definition::find(name).unwrap_or_else(|error| panic!("{error}"));
            assert!(check.seconds() <= SECONDS_MAX, "{name} takes {} s", check.seconds());
            let files = check.files().unwrap();
            assert!(
                files.len() as u64 * files.values().map(|used| used.bytes).max().unwrap() <= BYTES_MAX,
                "{name} makes larger files"
            );
            for run in &check.runs {
                let load =
                    check.load(run, |file| (format!("/tmp/{file}"), 0)).unwrap_or_else(|error| panic!("{error}"));
                assert!(!load.stream_names().is_empty());
            }
            for criterion in check.runs.iter().flat_map(|run| &run.criteria) {
                let is_cited = criterion.source.as_deref().is_some_and(|source| source.starts_with("https://"));
                assert!(criterion.limit.is_none() || is_cited, "{name}: {criterion:?}");
                assert!(!criterion.says.is_empty(), "{name}: {criterion:?}");
            }
            assert!(!check.cannot_see.is_empty() && !check.sustained.why.is_empty(), "{name}");
        }
    }

    /// The limits of all checks as a table for docs/check.md.
    fn table() -> String {
        let mut text =
            String::from("| Check | Takes | Run | Criterion | Limit | Source |\n|---|---|---|---|---|---|\n");
        for name in names() {
            let check = Definition::find(name).unwrap_or_else(|error| panic!("{error}"));
            for criterion in check.runs.iter().flat_map(|run| &run.criteria) {
                let Criterion { run, source: Some(source), standing, looked_up: Some(read), .. } = criterion else {
                    continue;
                };
                let Some(limit) = criterion.limit_text() else { continue };
                let folklore = if *standing == Some(Standing::Folklore) { "folklore, " } else { "" };
                let (takes, what) = (span(check.seconds()), criterion.what());
                text +=
                    &format!("| {name} | {takes} | {run} | {what} | {limit} | {folklore}[read {read}]({source}) |\n");
            }
        }
        text
    }

    #[test]
    fn the_page_has_every_limit_with_its_source() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/check.md");
        let page = std::fs::read_to_string(path).unwrap();
        let (before, rest) = page.split_once("<!-- limits -->\n").unwrap();
        let (_, after) = rest.split_once("<!-- end of limits -->").unwrap();
        let wanted = format!("{before}<!-- limits -->\n{}<!-- end of limits -->{after}", table());
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(path, &wanted).unwrap();
        }
        assert!(
            page == wanted,
            "docs/check.md is not up to date: UPDATE_DOCS=1 cargo test -p flashproof-procedures check"
        );
    }
}
