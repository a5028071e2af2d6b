//! The directory of a series: found by the same command, locked, and started or resumed.
//!
//! Nothing in the directory is ever deleted: `--fresh` starts a new series next to it, in `NAME.2`. Later the same
//! command resumes the newest series.

use super::lock::SeriesLock;
use super::{Drives, SeriesOptions};
use crate::output::show_report;
use crate::preparation::{Preparation, ProgressStyle};
use act::staged::StagedLoad;
use conclusions::rejudge::rejudge_steps_in;
use conclusions::series::{
    Conclusion, DriveIdentity, REPORT, Series, SeriesPurpose, SeriesStepState, check_same,
};
use report::document::Document;
use results::files;
use results::finding::Severity;
use results::format::count;
use results::judge::{Outcome, Verdict};
use results::run_dir::{MANIFEST, SERIES, is_run_dir};
use session::console;
use session::devices::Consents;
use session::failure::Failure;
use session::recording::RunObserver;
use session::run_directory::RESULTS_DIR;
use session::runner::{self, NamedWorkload, RunOutcome, RunRequest};
use session::signals::SignalHandler;
use session::user_file::write_page;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Maximum length of the drives' names in the name of a directory, characters.
const NAME_CHARS_MAX: usize = 120;

/// A series, its directory, and the lock to run it.
pub struct SeriesDir {
    pub dir: PathBuf,
    /// State of the series, on disk after each [`Self::save`].
    pub series: Series,
    pub options: SeriesOptions,
    /// Names of devices that may be erased: given by options, or agreed to on the terminal.
    pub erase: Vec<String>,
    /// None for a dry run, which changes nothing.
    _lock: Option<SeriesLock>,
}

impl SeriesDir {
    /// Opens the directory of `new_series`: `first`, or with [`SeriesOptions::fresh`] an unused directory next to it. An
    /// existing series is resumed, with the values that the terms `fixed_terms` had at its start. A dry run only reads.
    ///
    /// `ask_consent` asks for consent to the erasures of the series, and returns the names with consent. The call comes
    /// before the directory is created, so that a refusal leaves nothing behind. For a series that has ended, there is
    /// no call.
    ///
    /// Errors: another process runs the series; the directory holds another series, or a run; a recorded step
    /// contradicts its run directory; there is no consent.
    pub fn open(
        first: &Path,
        options: SeriesOptions,
        new_series: Series,
        fixed_terms: &[&str],
        ask_consent: impl FnOnce(&SeriesOptions) -> Result<Vec<String>, Failure>,
    ) -> Result<Self, Failure> {
        options.form.check()?;
        let dir = if options.fresh {
            unused(first)
        } else {
            newest(first)
        };
        let shown = dir.display();
        if dir.join(MANIFEST).exists() {
            return Err(Failure::usage(format!(
                "cannot use {shown} for a series - it holds a single run - give another --out"
            )));
        }
        // Lock first: the process that runs a series also holds its devices, and the error of the lock is clearer than
        // the error of a device in use.
        let take_lock = |dir: &Path| SeriesLock::take(dir).map_err(Failure::environment);
        let exists = dir.is_dir();
        let mut lock = (exists && !options.dry_run)
            .then(|| take_lock(&dir))
            .transpose()?;
        let recorded = if exists { recorded_in(&dir)? } else { None };
        // A series refused before its first run does not fix the settings.
        let recorded = recorded.filter(has_begun);
        let series = match recorded {
            Some(recorded) => gone_on(&dir, recorded, new_series, fixed_terms)?,
            None => new_series,
        };
        let has_ended = series
            .conclusion
            .as_ref()
            .is_some_and(|it| it.outcome != Outcome::Invalid);
        let erase = if has_ended {
            Vec::new()
        } else {
            ask_consent(&options)?
        };
        if !exists && !options.dry_run {
            files::create_dirs(&dir).map_err(|error| {
                Failure::environment(format!(
                    "cannot create the directory {shown} - {error} - give another --out"
                ))
            })?;
            lock = Some(take_lock(&dir)?);
        }
        let process = device::observe::process::this_process();
        let note = options.note.text.clone().or(series.note);
        Ok(Self {
            dir,
            series: Series {
                process,
                note,
                ..series
            },
            options,
            erase,
            _lock: lock,
        })
    }

    /// Opens the existing series in `dir`, to add to its conclusion.
    /// Errors: there is no series; another process runs the series; a recorded step contradicts its run directory.
    pub fn open_existing(dir: &Path) -> Result<Self, Failure> {
        if !dir.is_dir() {
            return Err(no_series_in(dir));
        }
        let lock = SeriesLock::take(dir).map_err(Failure::environment)?;
        let series = recorded_in(dir)?.ok_or_else(|| no_series_in(dir))?;
        require_agreement(dir, &series)?;
        Ok(Self {
            dir: dir.to_owned(),
            series,
            options: SeriesOptions::default(),
            erase: Vec::new(),
            _lock: Some(lock),
        })
    }

    /// Value of a term; empty if there is no such term.
    pub fn term(&self, name: &str) -> &str {
        self.series.term(name).unwrap_or_default()
    }

    pub fn has_begun(&self) -> bool {
        has_begun(&self.series)
    }

    /// A line with the number of steps done already; empty at the start.
    pub fn done_before(&self) -> String {
        match self
            .series
            .steps
            .iter()
            .filter(|step| step.state == SeriesStepState::Done)
            .count()
        {
            0 => String::new(),
            done => format!(
                "\nresuming after {} already done",
                count(done as u64, "step")
            ),
        }
    }

    /// Records the doctor's findings about host and devices; none for simulated drives.
    pub fn examine(&mut self) {
        if self.series.devices.iter().any(|device| device.simulated) {
            return;
        }
        let names: Vec<&str> = self
            .series
            .devices
            .iter()
            .map(|device| device.name.as_str())
            .collect();
        self.series.findings = device::doctor::examine(Path::new("/"), &names, Some(&self.dir));
    }

    pub fn print_findings(&self) {
        let findings_text = report::findings::listed(&self.series.findings, Severity::Warning);
        if !findings_text.is_empty() {
            console::note(&format!(
                "{}\n(all findings: flashproof doctor; none of them stops the run)\n",
                findings_text.trim_end()
            ));
        }
    }

    /// Records the conclusion, and writes the report.
    pub fn conclude(&mut self, conclusion: Conclusion) -> Result<(), Failure> {
        self.series.conclusion = Some(conclusion);
        self.save()?;
        self.write_report();
        Ok(())
    }

    /// Writes the report into the directory. A failure only warns: `flashproof report` can write it at any time.
    pub fn write_report(&self) {
        if let Err(failure) = self
            .page()
            .and_then(|page| write_page(&self.dir.join(REPORT), &page))
        {
            console::warning(&format!(
                "cannot write the report of the series: {} - \"flashproof report\" can write it later",
                failure.message
            ));
        }
    }

    /// Shows the conclusion in the requested form; as text with `class` after the outcome, and with `tables` below it. Returns
    /// the exit code.
    pub fn show_conclusion(&self, class: &str, tables: &str) -> Result<ExitCode, Failure> {
        let Some(conclusion) = &self.series.conclusion else {
            return Ok(ExitCode::from(Outcome::Invalid.exit_code()));
        };
        let remarks: String = conclusion
            .sentences_below()
            .map(|sentence| format!("  {sentence}\n"))
            .collect();
        let outcome = conclusion.outcome;
        let headline = conclusion.headline();
        let text = format!("\n{outcome}{class}: {headline}\n{remarks}{tables}");
        show_report(&self.options.form, &self.dir, &text)?;
        Ok(ExitCode::from(conclusion.outcome.exit_code()))
    }

    /// Prints `message`, which says that the series was interrupted, and `tables` below. Returns the exit code.
    pub fn show_interruption(&self, message: &str, tables: &str) -> Result<ExitCode, Failure> {
        console::page(&format!("\nINTERRUPTED{message}\n{tables}"))?;
        Ok(ExitCode::from(Outcome::Invalid.exit_code()))
    }

    fn page(&self) -> Result<String, Failure> {
        Ok(Document::read(&[&self.dir])
            .map_err(Failure::environment)?
            .html())
    }

    /// Directory of the series, and its report if there is one, a line each.
    pub fn format_paths(&self) -> String {
        let report = self.dir.join(REPORT);
        let has_report = self.series.conclusion.is_some() && report.exists();
        let report = if has_report {
            format!("report: {}\n", report.display())
        } else {
            String::new()
        };
        format!("series: {}\n{report}", self.dir.display())
    }

    pub fn save(&self) -> Result<(), Failure> {
        self.series.write(&self.dir).map_err(Failure::environment)
    }
}

/// The series recorded in `dir`, to be resumed. Errors: among others, an untrusted user can change the record.
fn recorded_in(dir: &Path) -> Result<Option<Series>, Failure> {
    let series = Series::read(dir).map_err(Failure::environment)?;
    if series.is_some() {
        files::require_trusted_file(&dir.join(SERIES)).map_err(|error| {
            Failure::environment(format!(
                "cannot resume the series in {} - {error}",
                dir.display()
            ))
        })?;
    }
    Ok(series)
}

fn no_series_in(dir: &Path) -> Failure {
    let reason = match fs::metadata(dir) {
        Err(error) => error.to_string(),
        Ok(found) if !found.is_dir() => "it is not a directory".to_owned(),
        Ok(_) if is_run_dir(dir) => "it is the directory of a single run".to_owned(),
        Ok(_) => "it has no series.json".to_owned(),
    };
    Failure::usage(format!(
        "there is no series in {} - {reason} - give the directory of a series",
        dir.display()
    ))
}

fn has_begun(series: &Series) -> bool {
    series.steps.iter().any(|step| step.attempts > 0)
}

/// The series `recorded` in `dir`, if its drives and settings equal those of `new_series`.
fn gone_on(
    dir: &Path,
    recorded: Series,
    mut new_series: Series,
    fixed_terms: &[&str],
) -> Result<Series, Failure> {
    for name in fixed_terms {
        // An empty list of unprepared drives is not fixed: if a drive has lost its preparation, `check_same` fails.
        let recorded_term = recorded
            .terms
            .iter()
            .find(|(other, value)| other == name && !value.is_empty());
        if let Some(recorded_term) = recorded_term {
            new_series.terms.retain(|(other, _)| other != name);
            new_series.terms.push(recorded_term.clone());
        }
    }
    check_same(&recorded, &new_series).map_err(|differs| {
        let dir = dir.display();
        Failure::usages(differs.iter().map(|differs: &String| {
            format!(
                "cannot resume the series in {dir} - {differs}, or start a new series with --fresh or another --out"
            )
        }).collect())
    })?;
    require_agreement(dir, &recorded)?;
    // The same drives may have new names now.
    Ok(Series {
        devices: new_series.devices,
        ..recorded
    })
}

/// Errors: a recorded step of the series in `dir` contradicts its run directory.
fn require_agreement(dir: &Path, recorded: &Series) -> Result<(), Failure> {
    match rejudge_steps_in(dir, &mut recorded.clone()).first() {
        None => Ok(()),
        Some(doubt) => Err(Failure::invalid(format!(
            "cannot use the series in {} - {doubt} - restore the directory of this run, or start a new series with \
             --fresh or another --out",
            dir.display()
        ))),
    }
}

/// Name under which the same command finds its series again after a reboot: command, serial numbers, `load`.
pub fn default_name(command: &str, drives: &[DriveIdentity], load: &str) -> PathBuf {
    let names = drives
        .iter()
        .map(|drive| drive.serial.as_deref().unwrap_or(&drive.name));
    let drives = shortened(names.map(plain).collect::<Vec<_>>().join("+"));
    let name = format!("{command}-{drives}-{}", plain(load));
    Path::new(RESULTS_DIR).join(name.trim_end_matches('-'))
}

/// A name without characters that are special in a path or to a shell.
fn plain(name: &str) -> String {
    let mapped: String = name
        .trim_start_matches("/dev/")
        .chars()
        .map(|c: char| {
            if c.is_ascii_alphanumeric() || "._".contains(c) {
                c
            } else {
                '-'
            }
        })
        .collect();
    let parts: Vec<_> = mapped.split('-').filter(|part| !part.is_empty()).collect();
    parts.join("-")
}

/// A name of at most [`NAME_CHARS_MAX`] characters; if cut, with a hash of the whole name.
fn shortened(name: String) -> String {
    if name.len() <= NAME_CHARS_MAX {
        return name;
    }
    // FNV-1a: the hash distinguishes names; it need not be secure.
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    // Plain names are ASCII.
    let prefix: String = name.chars().take(NAME_CHARS_MAX - 17).collect();
    format!("{prefix}-{hash:016x}")
}

/// `first`, `first.2`, `first.3`...
fn numbered(first: &Path, number: u32) -> PathBuf {
    if number < 2 {
        return first.to_owned();
    }
    // Drops a trailing slash: after a slash, `.N` would name a hidden directory inside `first`.
    let mut name = first.components().collect::<PathBuf>().into_os_string();
    name.push(format!(".{number}"));
    name.into()
}

/// The first of the numbered directories that does not exist.
fn unused(first: &Path) -> PathBuf {
    (1..)
        .map(|number| numbered(first, number))
        .find(|dir| !dir.exists())
        .unwrap_or_else(|| first.to_owned())
}

/// The last of the consecutive numbered directories that exist; `first` if none does.
fn newest(first: &Path) -> PathBuf {
    let existing = (1..)
        .map(|number| numbered(first, number))
        .take_while(|dir| dir.exists());
    existing.last().unwrap_or_else(|| first.to_owned())
}

/// The load of the step `name`. Prints the rates that were rounded.
pub fn single_load(load: StagedLoad, name: &str) -> Vec<NamedWorkload> {
    load.rounded
        .iter()
        .for_each(|rounded| console::note(&format!("{name}: {rounded}")));
    NamedWorkload::alone(load.workload, load.text)
}

impl SeriesDir {
    /// Runs the step `index`, which is recorded as running, into its directory. `base_request` has the load, limits and
    /// heading, and the devices if they are open already. `round`: number of a repetition, whose directory is below
    /// the step's directory. Returns the verdict.
    ///
    /// Errors: the run did not begin, or could not be recorded; the step is then recorded as interrupted.
    pub fn run_step(
        &mut self,
        index: usize,
        base_request: RunRequest<'_>,
        signal_handler: &SignalHandler,
        observer: &mut dyn RunObserver,
    ) -> Result<Box<Verdict>, Failure> {
        let step = &self.series.steps[index];
        let request = RunRequest {
            dir: self.dir.join(&step.dir),
            consents: Consents {
                erase: &self.erase,
                ..base_request.consents
            },
            purpose: Some(step.name.clone()),
            // The jobs of a baseline are not multiples of 1x.
            multiple: (self.series.purpose != SeriesPurpose::Baseline).then_some(step.multiple),
            findings: Some(self.series.findings.clone()),
            quiet: self.options.quiet,
            note: self.series.note.clone(),
            trace: !self.options.no_trace,
            ..base_request
        };
        match runner::run(request, signal_handler, observer).and_then(RunOutcome::recorded) {
            Ok(verdict) => Ok(verdict),
            Err(failure) => {
                let why = failure.message.lines().next().unwrap_or_default();
                // A run can serve several steps.
                let running = self
                    .series
                    .steps
                    .iter_mut()
                    .filter(|step| step.state == SeriesStepState::Running);
                running.for_each(|step| step.interrupt(why));
                self.save().and(Err(failure))
            }
        }
    }

    /// Prepares the drives whose record and data show no preparation. Returns an exit code if that did not complete.
    pub fn prepare(
        &self,
        drives: &Drives,
        signal_handler: &SignalHandler,
    ) -> Result<Option<ExitCode>, Failure> {
        let names = drives.to_prepare(self.has_begun());
        if names.is_empty() {
            return Ok(None);
        }
        console::note(&format!(
            "not prepared, or discarded after the preparation: {}; preparing first, because an empty drive is faster than \
             a used drive",
            names.join(", ")
        ));
        let erase: Vec<_> = self
            .erase
            .iter()
            .filter(|name| names.contains(name))
            .cloned()
            .collect();
        let others = drives
            .identities
            .iter()
            .map(|drive| drive.name.clone())
            .collect();
        let preparation = Preparation {
            others,
            ..Preparation::with_defaults(
                names,
                &erase,
                ProgressStyle::from_quiet(self.options.quiet),
            )
        };
        preparation.run(signal_handler)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{NOT_PREPARED, new_series};
    use super::*;

    #[test]
    fn directories_of_series_have_names_of_plain_characters_and_bounded_length() {
        assert_eq!(plain("sim:"), "sim");
        assert_eq!(
            plain("sim:channels=1+read-us=20"),
            "sim-channels-1-read-us-20"
        );
        assert_eq!(plain("S4EV NX0 /x"), "S4EV-NX0-x");
        assert_eq!(plain("/dev/zram5"), "zram5");
        assert_eq!(
            shortened("a".repeat(NAME_CHARS_MAX)),
            "a".repeat(NAME_CHARS_MAX)
        );
        let one = shortened("a".repeat(200));
        let other = shortened("a".repeat(201));
        assert_eq!(one.len(), NAME_CHARS_MAX);
        assert_ne!(one, other);
    }

    /// A series on drives of which `then` were not prepared, resumed while `now` are not prepared.
    fn resumed(then: &str, now: &str) -> Result<Series, Failure> {
        let [recorded, new] = [then, now].map(|unprepared| {
            let terms = [
                ("limits", "x".to_owned()),
                (NOT_PREPARED, unprepared.to_owned()),
            ];
            new_series(SeriesPurpose::Rate, Vec::new(), String::new(), terms)
        });
        gone_on(Path::new("d"), recorded, new, &[NOT_PREPARED])
    }

    #[test]
    fn a_series_is_not_resumed_on_a_drive_that_lost_its_preparation() {
        // A preparation between two runs changes nothing, and a drive may have a new name after a reboot.
        for (then, now) in [("", ""), ("/dev/x", ""), ("/dev/x", "/dev/y")] {
            assert_eq!(resumed(then, now).unwrap().terms[1].1, then);
        }
        let refused = resumed("", "/dev/x").err().unwrap().message;
        assert!(
            refused.contains("not prepared") && refused.contains("/dev/x"),
            "{refused}"
        );
    }

    #[test]
    fn a_fresh_series_gets_the_next_numbered_directory_and_the_newest_series_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let first = dir.path().join("series");
        assert_eq!(
            (newest(&first), unused(&first)),
            (first.clone(), first.clone())
        );
        fs::create_dir(&first).unwrap();
        let second = dir.path().join("series.2");
        assert_eq!(
            (newest(&first), unused(&first)),
            (first.clone(), second.clone())
        );
        let slash = PathBuf::from(format!("{}/", first.display()));
        assert_eq!(
            (newest(&slash), unused(&slash)),
            (slash.clone(), second.clone())
        );
        fs::create_dir(&second).unwrap();
        assert_eq!(newest(&slash), second);
        assert_eq!(
            (newest(&first), unused(&first)),
            (second, dir.path().join("series.3"))
        );
    }
}
