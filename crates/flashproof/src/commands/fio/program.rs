//! Options of fio's program, as opposed to options of its jobs.

use crate::fio_run::Trigger;
use crate::record::{count, note};
use fio::{SECONDS, parse_number};
use results::format::{quoted, seconds};
use results::judge::Sla;
use session::failure::Failure;
use session::runner::FailureLimits;
use std::collections::BTreeMap;
use std::path::PathBuf;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FioFormat {
    Normal,
    Json,
    JsonPlus,
    Terse,
}

#[derive(Debug, Default)]
pub struct ProgramOptions {
    pub help: bool,
    pub version: bool,
    /// Option whose help is requested; `all` or empty: all options.
    pub cmdhelp: Option<String>,
    pub output: Option<PathBuf>,
    pub formats: Vec<FioFormat>,
    pub status_sec: Option<u64>,
    /// Version of terse output; 0: not given.
    pub terse_version: u64,
    pub sections: Vec<String>,
    pub parse_only: bool,
    pub dry_run: bool,
    pub readonly: bool,
    pub warnings_fatal: bool,
    pub out: Option<PathBuf>,
    pub note: Option<String>,
    pub force: bool,
    pub erase: Vec<String>,
    pub shared: bool,
    pub sla: Sla,
    /// Limits of single streams, by name.
    pub sla_of: BTreeMap<String, Sla>,
    pub slice_sec: u32,
    pub failure_limits: FailureLimits,
    pub trace: bool,
    pub quiet: bool,
    pub trigger: Trigger,
}

impl ProgramOptions {
    pub fn from_options(options: &[(String, Option<String>)]) -> Result<Self, Failure> {
        let mut program = Self {
            formats: vec![FioFormat::Normal],
            sla: Sla::requested(Sla::UNLIMITED).map_err(Failure::usage)?,
            slice_sec: 3_600,
            trace: true,
            ..Self::default()
        };
        for (name, value) in options {
            program
                .take(name, value.as_deref().unwrap_or_default())
                .map_err(|why| {
                    Failure::usage(format!(
                        "cannot read --{name}={} - {why}",
                        quoted(value.as_deref().unwrap_or_default())
                    ))
                })?;
        }
        let version = program.terse_version;
        let is_terse = program.formats.contains(&FioFormat::Terse);
        if is_terse && !program.parse_only && ![0, 3].contains(&version) {
            return Err(Failure::usage(format!(
                "cannot print version {version} of fio's terse output - flashproof prints version 3 - give \
                 --terse-version=3, or --output-format=json"
            )));
        }
        Ok(program)
    }

    fn take(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "help" => self.help = true,
            "version" => self.version = true,
            "cmdhelp" => self.cmdhelp = Some(value.into()),
            "output" => self.output = Some(value.into()),
            "output-format" => {
                self.formats = value.split(',').map(format).collect::<Result<_, _>>()?
            }
            "minimal" => self.formats = vec![FioFormat::Terse],
            "append-terse" => self.formats.push(FioFormat::Terse),
            "terse-version" => match count(value)? {
                version @ 2..=5 => self.terse_version = version,
                _ => return Err("fio has the versions 2 to 5 - give 3".into()),
            },
            "status-interval" => match parse_number(value, SECONDS)? / 1_000_000_000 {
                0 => return Err("give at least 1 s".into()),
                seconds => self.status_sec = Some(seconds),
            },
            "section" => self.sections.push(value.into()),
            "parse-only" => self.parse_only = true,
            "dry-run" => self.dry_run = true,
            "readonly" => self.readonly = true,
            "warnings-fatal" => self.warnings_fatal = true,
            "out" => self.out = Some(value.into()),
            "note" => self.note = Some(note(value)?),
            "force" => self.force = true,
            "erase" => self.erase.push(value.into()),
            "shared" => self.shared = true,
            "sla" => {
                let (stream, limits) = value
                    .rsplit_once(':')
                    .map_or((None, value), |(of, limits)| (Some(of), limits));
                let sla = Sla::requested(limits).map_err(|error| error.to_string())?;
                match stream {
                    None => self.sla = sla,
                    Some(stream) => drop(self.sla_of.insert(stream.to_owned(), sla)),
                }
            }
            "slice" => self.slice_sec = seconds(value)?,
            "max-errors" => self.failure_limits.max_errors = count(value)?,
            "hang" => self.failure_limits.hang_sec = seconds(value)?,
            "no-trace" => self.trace = false,
            "trigger" => self.trigger.command = Some(value.into()),
            "trigger-file" => self.trigger.file = Some(value.into()),
            "trigger-timeout" => match parse_number(value, SECONDS)? / 1_000_000_000 {
                0 => return Err("give at least 1 s".into()),
                seconds => self.trigger.after_sec = Some(seconds),
            },
            "quiet" => self.quiet = true,
            // Ignored options for fio's own accounting and display: eta, eta-newline, alloc-size, max-jobs.
            _ => {}
        }
        Ok(())
    }
}

fn format(word: &str) -> Result<FioFormat, String> {
    match word {
        "normal" => Ok(FioFormat::Normal),
        "json" => Ok(FioFormat::Json),
        "json+" => Ok(FioFormat::JsonPlus),
        "terse" | "minimal" => Ok(FioFormat::Terse),
        _ => Err("give normal, json, json+ or terse".into()),
    }
}
