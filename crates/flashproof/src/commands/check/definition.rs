//! Definitions of checks. A check tests if a disk is good enough for a database. Its definition is a file with fio's
//! jobs, limits and the sources of the limits.
//!
//! ```text
//! checks/NAME.toml -> Definition -> a FioLoad per run -> Verdict, Figures -> Judged criteria -> Check
//! directory or device -> Site: where the files of the jobs are, in the state that each run begins with
//! ```

use conclusions::check::{CheckMetric, Criterion, LimitStatus, Sustained};
use conclusions::grouped;
use fio::{BYTES, SECONDS, parse_number};
use include_dir::{Dir, include_dir};
use load::choice::similar;
use results::files::{self, Instructions, Links};
use results::format::{in_one_line, quoted, span};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use session::failure::Failure;
use std::path::Path;

const FILE_BYTES_MAX: u64 = 1 << 20;

/// Minimum length of a slice of the verdict, seconds: without and with a limit on a latency.
const SLICE_SEC: [u64; 2] = [10, 60];

/// Longest run, seconds: a week.
const RUN_SEC_MAX: u64 = 7 * 86_400;

/// Kinds of databases in the order of the list, each with its heading. A user's own check needs no kind.
const KINDS: [(&str, &str); 7] = [
    ("consensus-store", "Consensus stores"),
    ("sql", "SQL databases"),
    ("key-value", "Key-value stores"),
    ("stream", "Streams"),
    ("blockchain", "Blockchains"),
    ("object-store", "Object and block stores"),
    ("", "Others"),
];

#[derive(Debug, Clone)]
pub struct Definition {
    /// Name on the command line.
    pub name: String,
    pub database: String,
    /// Index in [`KINDS`].
    kind: usize,
    pub question: String,
    /// Names of the tiers of limits, the lowest first.
    pub tiers: Vec<String>,
    pub cannot_see: Vec<String>,
    pub sustained: Sustained,
    pub runs: Vec<RunDefinition>,
    /// Files written with measured values: name and text with placeholders.
    pub files: Vec<(String, String)>,
    pub text: String,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunDefinition {
    pub name: String,
    pub seconds: u64,
    /// fio's job file.
    pub jobs: String,
    #[serde(default)]
    criterion: Vec<WrittenCriterion>,
    #[serde(skip)]
    pub criteria: Vec<Criterion>,
    /// True if the run is longer than in the file of the check: jobs then use `long_rate_iops`.
    #[serde(skip)]
    pub is_long: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CheckFile {
    database: String,
    #[serde(default)]
    kind: String,
    question: String,
    /// Other names of the database, for hints.
    #[serde(default)]
    aliases: Vec<String>,
    #[serde(default)]
    tiers: Vec<String>,
    #[serde(default)]
    cannot_see: Vec<String>,
    sustained: WrittenSustained,
    run: Vec<RunDefinition>,
    #[serde(default)]
    file: Vec<FileEntry>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenSustained {
    seconds: u64,
    written: String,
    why: String,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenCriterion {
    stream: String,
    metric: CheckMetric,
    below: Option<String>,
    at_least: Option<String>,
    source: Option<String>,
    #[serde(default, deserialize_with = "date")]
    looked_up: Option<String>,
    standing: Option<LimitStatus>,
    tier: Option<String>,
    says: String,
}

/// Reads a date, as a string or in TOML's own form without quotation marks.
fn date<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    match toml::Value::deserialize(deserializer)? {
        toml::Value::String(date) => Ok(Some(date)),
        toml::Value::Datetime(date) => Ok(Some(date.to_string())),
        _ => Err(D::Error::custom(
            "looked_up is not a date - give a date such as \"2026-01-31\"",
        )),
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileEntry {
    name: String,
    text: String,
}

impl Definition {
    /// The check `name`: a built-in check, or a file if the name is a path.
    pub fn find(name: &str) -> Result<Self, Failure> {
        if let Some(text) = builtin_text(name) {
            return Self::parse(name, text);
        }
        let path = Path::new(name);
        if !name.contains('/') && path.extension().is_none_or(|extension| extension != "toml") {
            let word = name.to_lowercase();
            let hint = builtin_of_alias(&word).or_else(|| similar(&word, builtin_names())).map_or_else(
                || "flashproof check lists the checks; the name of your own file must end in .toml".to_owned(),
                |similar| format!("did you mean {similar}?"),
            );
            return Err(Failure::usage(format!(
                "there is no check {} - {hint}",
                quoted(name)
            )));
        }
        let bytes =
            files::read_instructions(path, Links::Followed, Instructions::Data, FILE_BYTES_MAX)
                .map_err(|error| {
                    Failure::usage(format!("cannot read the check {} - {error}", quoted(name)))
                })?;
        let text = String::from_utf8(bytes).map_err(|error| {
            Failure::usage(format!(
                "cannot read the check {} - it is not UTF-8 text: {error}",
                quoted(name)
            ))
        })?;
        let stem = path
            .file_stem()
            .map_or_else(|| name.into(), |stem| stem.to_string_lossy());
        Self::parse(&stem, &text)
    }

    pub fn parse(name: &str, text: &str) -> Result<Self, Failure> {
        let fail =
            |why: String| Failure::usage(format!("cannot read the check {} - {why}", quoted(name)));
        let check_file: CheckFile = toml::from_str(text).map_err(|error| {
            let offset = error.span().map_or(0, |span| span.start.min(text.len()));
            let line = text.as_bytes()[..offset]
                .iter()
                .filter(|byte| **byte == b'\n')
                .count()
                + 1;
            fail(format!("line {line}: {}", in_one_line(error.message())))
        })?;
        if check_file.run.is_empty() {
            return Err(fail("it has no [[run]] - give at least one".into()));
        }
        let mut definition = Self {
            name: name.to_owned(),
            database: in_one_line(&check_file.database),
            kind: KINDS
                .iter()
                .position(|(kind, _)| *kind == check_file.kind)
                .ok_or_else(|| {
                    let kinds = KINDS.map(|(kind, _)| kind).join(", ");
                    fail(format!(
                        "kind {} is not one of {kinds}",
                        quoted(&check_file.kind)
                    ))
                })?,
            question: in_one_line(&check_file.question),
            tiers: check_file
                .tiers
                .iter()
                .map(|tier| in_one_line(tier))
                .collect(),
            cannot_see: check_file
                .cannot_see
                .iter()
                .map(|phrase| in_one_line(phrase))
                .collect(),
            sustained: Sustained {
                seconds: check_file.sustained.seconds.min(RUN_SEC_MAX),
                bytes_written: parse_bytes(&check_file.sustained.written)
                    .map_err(|why| fail(format!("sustained.written: {why}")))?,
                why: in_one_line(&check_file.sustained.why),
            },
            runs: Vec::new(),
            files: check_file
                .file
                .into_iter()
                .map(|file| (file.name, file.text))
                .collect(),
            text: text.to_owned(),
        };
        for mut run in check_file.run {
            run.parse_criteria(&definition.tiers)
                .map_err(|why| fail(format!("run {}: {why}", quoted(&run.name))))?;
            if definition.runs.iter().any(|known| known.name == run.name) {
                return Err(fail(format!(
                    "two runs are called {} - rename one",
                    quoted(&run.name)
                )));
            }
            definition.runs.push(run);
        }
        let tiers_of_limits: Vec<_> = definition
            .runs
            .iter()
            .flat_map(|run| &run.criteria)
            .filter_map(|criterion| criterion.tier.as_ref())
            .collect();
        let is_unused = |tier: &&String| tier.is_empty() || !tiers_of_limits.contains(tier);
        if let Some(tier) = definition.tiers.iter().find(is_unused) {
            return Err(fail(format!(
                "tier {}: no limit has this tier - leave it out of tiers",
                quoted(tier)
            )));
        }
        if let Some((file, _)) = definition.files.iter().find(|(file, _)| !is_plain(file)) {
            return Err(fail(format!(
                "file {}: a name has only letters, digits, -, _ and .",
                quoted(file)
            )));
        }
        Ok(definition)
    }

    /// Seconds of load in all runs.
    pub fn seconds(&self) -> u64 {
        self.runs.iter().map(|run| run.seconds).sum()
    }

    /// The same check over `seconds` of load; each run gets its part, rounded up (longer checks: to whole minutes).
    pub fn lasting(mut self, seconds: u64) -> Self {
        let total_sec = self.seconds().max(1);
        for run in &mut self.runs {
            run.is_long = seconds > total_sec;
            run.seconds = (run.seconds * seconds).div_ceil(total_sec).max(1);
            if run.is_long && run.seconds > SLICE_SEC[1] {
                run.seconds = run.seconds.next_multiple_of(SLICE_SEC[1]).min(RUN_SEC_MAX);
            }
        }
        self
    }
}

impl RunDefinition {
    /// Length of a slice of the verdict, seconds. With a limit on a latency: a minute or more, as in published
    /// percentiles. Otherwise a quarter of the run or about a minute: a rate has to last, so the worst slice decides.
    /// Slices divide the run without remainder, so a slice can be the whole run. No slice is shorter than 10 s.
    pub fn slice_sec(&self) -> u64 {
        let mut limited = self
            .criteria
            .iter()
            .filter(|criterion| criterion.deciding_limit().is_some());
        let [least_sec, minute] = SLICE_SEC;
        let requested_sec = if limited.all(|criterion| !criterion.metric.is_latency()) {
            self.seconds / 4
        } else {
            minute
        };
        let mut lengths = requested_sec.clamp(least_sec, minute)..self.seconds;
        lengths
            .find(|seconds| self.seconds.is_multiple_of(*seconds))
            .unwrap_or(self.seconds)
    }

    fn parse_criteria(&mut self, tiers: &[String]) -> Result<(), String> {
        if !is_plain(&self.name) {
            return Err("a name has only letters, digits, -, _ and .".into());
        }
        if !(1..=RUN_SEC_MAX).contains(&self.seconds) {
            return Err(format!(
                "seconds = {} is not between 1 and {RUN_SEC_MAX} ({})",
                self.seconds,
                span(RUN_SEC_MAX)
            ));
        }
        for criterion in std::mem::take(&mut self.criterion) {
            let criterion_text = format!("{} of {}", criterion.metric, quoted(&criterion.stream));
            let criterion = parse_criterion(&self.name, criterion, tiers);
            self.criteria
                .push(criterion.map_err(|why| format!("{criterion_text}: {why}"))?);
        }
        Ok(())
    }
}

fn parse_criterion(
    run: &str,
    criterion: WrittenCriterion,
    tiers: &[String],
) -> Result<Criterion, String> {
    let WrittenCriterion {
        stream,
        metric,
        below,
        at_least,
        source,
        looked_up,
        standing,
        tier,
        says,
    } = criterion;
    let limit = match (below, at_least, metric.is_latency()) {
        (None, None, _) => None,
        (Some(below), None, true) if !below.trim_end().ends_with('s') => {
            return Err(format!(
                "below = {below:?} has no unit - give a time such as 10ms"
            ));
        }
        (Some(below), None, true) => Some(
            parse_number(&below, SECONDS).map_err(|why| format!("below = {below:?}: {why}"))?
                as f64,
        ),
        (None, Some(least), false) => {
            Some(parse_bytes(&least).map_err(|why| format!("at_least = {least:?}: {why}"))? as f64)
        }
        _ => {
            return Err(
                "give \"below\" for a latency, or \"at_least\" for a rate (only one of them)"
                    .into(),
            );
        }
    };
    if limit.is_some() && metric == CheckMetric::Mean {
        return Err(
            "a mean hides slow operations - limit a percentile instead; without a limit the mean is only measured"
                .into(),
        );
    }
    if metric == CheckMetric::Bandwidth
        && (stream.ends_with("-commits") || stream.ends_with("-flushes"))
    {
        return Err("commits and flushes move no bytes of their own - give iops, or the bandwidth of the writes".into());
    }
    if limit == Some(0.0) {
        return Err("a limit of 0 has no effect - leave it out".into());
    }
    if limit.is_some() && (source.is_none() || standing.is_none() || looked_up.is_none()) {
        return Err(
            "a limit needs source, looked_up and standing - without a source leave the limit out; the metric is then \
             only measured"
                .into(),
        );
    }
    let tier = tier.map(|tier| in_one_line(&tier));
    let rank = tier
        .as_ref()
        .map(|tier| tiers.iter().position(|known| known == tier).ok_or(tier))
        .transpose();
    let rank =
        rank.map_err(|tier| format!("tier {} is not in tiers - add it there", quoted(tier)))?;
    let is_of_higher_tier = rank.is_some_and(|rank| rank > 0);
    let run = run.to_owned();
    let stream = in_one_line(&stream);
    let says = in_one_line(&says);
    let criterion = Criterion {
        run,
        stream,
        metric,
        limit,
        source,
        looked_up,
        standing,
        tier,
        is_of_higher_tier,
        says,
    };
    criterion.sla().map_err(|error| error.to_string())?;
    Ok(criterion)
}

/// A number with fio's suffixes. Errors: also `MB` and `MiB`, whose values in fio are those that users expect of the
/// other (1,048,576 and 1,000,000).
fn parse_bytes(text: &str) -> Result<u64, String> {
    let lower = text.to_ascii_lowercase();
    let ambiguous = ["kb", "mb", "gb", "tb", "pb", "ib"];
    if ambiguous.iter().any(|unit| lower.contains(unit)) {
        return Err(
            "units with B have two meanings (fio's MB is 1,048,576 bytes, its MiB 1,000,000) - give bytes, such as \
             500000000, or fio's k, m or g, such as 500m for 500 * 1,048,576"
                .to_owned(),
        );
    }
    parse_number(text, BYTES)
}

/// True for a plain file name: no path, and not hidden.
pub(super) fn is_plain(name: &str) -> bool {
    let is = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    !name.is_empty() && name.len() <= 100 && name.chars().all(is) && !name.starts_with('.')
}

static CHECKS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../checks");

/// Names of the checks, sorted.
pub fn builtin_names() -> impl Iterator<Item = &'static str> {
    let mut names: Vec<_> = CHECKS
        .files()
        .filter_map(|file| file.path().file_stem()?.to_str())
        .collect();
    names.sort_unstable();
    names.into_iter()
}

/// The checks by kind, and by name within a kind.
pub fn builtin_by_kind() -> Result<Vec<(&'static str, Vec<Definition>)>, Failure> {
    let mut checks = builtin_names()
        .map(Definition::find)
        .collect::<Result<Vec<_>, _>>()?;
    checks.sort_by_key(|check| check.kind);
    Ok(grouped(
        checks.into_iter().map(|check| (KINDS[check.kind].1, check)),
    ))
}

fn builtin_of_alias(alias: &str) -> Option<&'static str> {
    for name in builtin_names() {
        let check_file = toml::from_str::<CheckFile>(builtin_text(name).unwrap_or_default());
        if check_file.is_ok_and(|check_file| check_file.aliases.iter().any(|known| known == alias))
        {
            return Some(name);
        }
    }
    None
}

fn builtin_text(name: &str) -> Option<&'static str> {
    CHECKS
        .get_file(Path::new(name).with_extension("toml"))
        .filter(|_| builtin_names().any(|known| known == name))?
        .contents_utf8()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::check::site::{Site, needed_bytes};
    use crate::docs_page::{assert_page, with_part};
    use conclusions::check::Criterion;
    use results::format::span;

    /// Maximum seconds of a check, and bytes of its files.
    const SECONDS_MAX: u64 = 80;
    const BYTES_MAX: u64 = 6 << 30;

    #[test]
    fn every_check_builds_its_loads_and_cites_its_limits() {
        assert!(builtin_names().count() >= 14);
        for name in builtin_names() {
            let check = Definition::find(name).unwrap_or_else(|error| panic!("{error}"));
            assert!(
                check.seconds() <= SECONDS_MAX,
                "{name} takes {} s",
                check.seconds()
            );
            let files = check.files().unwrap();
            assert!(
                needed_bytes(&files) <= BYTES_MAX,
                "{name} makes larger files"
            );
            let site = Site::open("sim:", &files).unwrap();
            let loads = check.loads(&site).unwrap_or_else(|error| panic!("{error}"));
            assert!(loads.iter().all(|load| !load.stream_names().is_empty()));
            for criterion in check.runs.iter().flat_map(|run| &run.criteria) {
                let is_cited = criterion
                    .source
                    .as_deref()
                    .is_some_and(|source| source.starts_with("https://"));
                assert!(
                    criterion.limit.is_none() || is_cited,
                    "{name}: {criterion:?}"
                );
                assert!(!criterion.says.is_empty(), "{name}: {criterion:?}");
            }
            assert!(
                !check.cannot_see.is_empty() && !check.sustained.why.is_empty(),
                "{name}"
            );
            assert!(!KINDS[check.kind].0.is_empty(), "{name} has no kind");
        }
    }

    /// The options of the job of a stream, without its file.
    fn job_in_short(jobs: &str, stream: &str) -> String {
        const HIDDEN: [&str; 5] = ["#", "ioengine=", "filename=", "size=", "long_"];
        let job = stream
            .rsplit_once('-')
            .map_or_else(String::new, |(job, _)| format!("{job}]\n"));
        let section = jobs
            .split('[')
            .find_map(|section| section.strip_prefix(&job))
            .unwrap_or_default();
        let options = section
            .lines()
            .filter(|line| HIDDEN.iter().all(|hidden| !line.starts_with(hidden)));
        options.collect::<Vec<_>>().join(" ").trim_end().to_owned()
    }

    /// The limits of all checks as tables for docs/check.md.
    fn tables() -> String {
        let mut text = String::new();
        for (heading, checks) in builtin_by_kind().unwrap_or_else(|error| panic!("{error}")) {
            text += &format!(
                "\n### {heading}\n\n| Check | Run: criterion | Job | Limit | Standing | Source |\n"
            );
            text += "|---|---|---|---|---|---|\n";
            for check in checks {
                let name = format!("{}, {}", check.name, span(check.seconds()));
                let rows = check
                    .runs
                    .iter()
                    .flat_map(|run| run.criteria.iter().map(move |criterion| (run, criterion)));
                let rows = rows.filter_map(|(run, criterion)| {
                    let Criterion {
                        stream,
                        standing,
                        tier,
                        source,
                        looked_up,
                        ..
                    } = criterion;
                    let limit = criterion.limit_text()?;
                    let read = looked_up.as_ref()?;
                    let source = source.as_ref()?;
                    let tier = tier
                        .iter()
                        .map(|tier| format!(", for {tier}"))
                        .collect::<String>();
                    let what = criterion.metric_and_stream();
                    let job = job_in_short(&run.jobs, stream);
                    let columns = format!(
                        "{}: {what} | `{job}` | {limit} | {}{tier}",
                        run.name,
                        (*standing)?
                    );
                    Some(format!(
                        "| {name} | {columns} | [read {read}]({source}) |\n"
                    ))
                });
                let rows = rows.collect::<String>();
                text += &if rows.is_empty() {
                    format!("| {name} | | | no published limit | | |\n")
                } else {
                    rows
                };
            }
        }
        text + "\n"
    }

    #[test]
    fn docs_check_md_has_every_limit_with_its_source() {
        assert_page("check.md", "flashproof --lib check", |written| {
            with_part(
                written,
                "<!-- limits -->\n",
                &tables(),
                "<!-- end of limits -->",
            )
        });
    }
}
