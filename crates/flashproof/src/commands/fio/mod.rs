//! `flashproof fio`: runs fio's jobs from their text to fio's report, recorded and judged like any other load.
//!
//! Groups separated by a stonewall are consecutive runs, each with a run directory and a verdict; one report covers
//! all runs. Called as fio, the program prints only the report.

pub mod options;
mod program;

use crate::commands::fio::options::{FIO_HELP, FioArgs};
use crate::fio_run::{
    FioRun, FioRunObserver, check_logs, lay_out, left_out, page, resolve_file_sizes, save_states,
    write_dumps,
};
use crate::output::done;
use device::guard::Guard;
use engine::DeviceName;
use fio::{
    BYTES_MAX, EngineKind, FioLoad, Job, JobSection, ParseContext, Problem, command_line, job_file,
    jobs, options as fio_options, overtaking, runs as runs_of,
};
use load::workload::Workload;
use program::{FioFormat, ProgramOptions};
use report::fio::{FIO_VERSION, header_text, json, normal, terse};
use results::files::{self as input, Links};
use results::format::{self, quoted};
use results::judge::Outcome;
use session::devices::{Consents, note_only_reads};
use session::failure::Failure;
use session::run_directory::RunDirectory;
use session::runner::{
    NamedWorkload, OpenDevices, RunOutcome, RunRequest, cpus, run as run_request, tool,
};
use session::signals::SignalHandler;
use session::user_file::{is_ours, write_file};
use session::{CompatMode, console};
use std::collections::{BTreeSet, HashMap};
use std::fmt::Write;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// fio's name of the engine that runs a job on a real device.
fn engine_of(job: &Job) -> &'static str {
    match job.engine {
        EngineKind::Mapped => "mmap",
        EngineKind::Calls => "psync",
        EngineKind::Passthrough => "io_uring_cmd",
        EngineKind::Queued | EngineKind::Null => "io_uring",
    }
}

/// A note for each job whose ioengine is replaced by another engine.
fn other_engines(loads: &[FioLoad]) -> BTreeSet<String> {
    let jobs = loads
        .iter()
        .filter(|load| !load.is_simulated())
        .flat_map(FioLoad::jobs);
    let replaced = jobs.filter_map(|job| {
        let ioengine = job.ioengine.as_deref()?;
        (ioengine != engine_of(job))
            .then(|| format!("ioengine={ioengine} is replaced by {}", engine_of(job)))
    });
    replaced.collect()
}

pub fn run(args: &FioArgs, compat_mode: CompatMode) -> Result<ExitCode, Failure> {
    let line = command_line(&args.words).map_err(usage_of_problems)?;
    print_warnings(&line.warnings);
    let program = ProgramOptions::from_options(&line.program)?;
    if program.quiet {
        console::be_quiet();
    }
    if program.help {
        return done(FIO_HELP);
    } else if program.version && compat_mode == CompatMode::Fio {
        return done(&format!("{FIO_VERSION}\n"));
    } else if program.version {
        return done(&format!("{}\n", tool()));
    } else if let Some(option) = &program.cmdhelp {
        return option_help(option, compat_mode);
    }
    let (sections, text) = sections(line.sections, &line.files, &program, &args.words)?;
    let mut warnings = Vec::new();
    let jobs = jobs(
        &sections,
        &surroundings(&|_| Err(String::new()), program.readonly),
        &mut warnings,
    )
    .map_err(usage_of_problems)?;
    print_warnings(&warnings);
    if program.warnings_fatal && !warnings.is_empty() {
        return Err(usage_of_problems(warnings));
    }
    // As fio does: scripts ask in this way whether the program has an option.
    if program.parse_only && jobs.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    let mut loads = runs_of(jobs).map_err(usage_of_problems)?;
    print_warnings(&overtaking(&loads));
    limit_streams(&program, &mut loads)?;
    let lines = begin_lines(&loads);
    if program.dry_run {
        note_only_reads(loads.iter().any(FioLoad::writes));
        return done(&(lines.join("\n") + "\n" + &describe(&loads)));
    }
    if program.parse_only {
        return Ok(ExitCode::SUCCESS);
    }
    for load in &loads {
        load.check_buffers()
            .and_then(|()| load.check_cpus())
            .map_err(Failure::environment)?;
    }
    other_engines(&loads)
        .iter()
        .for_each(|note| console::note(note));
    console::note(describe(&loads).trim_end());
    let mut known_sizes = HashMap::new();
    let mut layouts = Vec::new();
    for load in &mut loads {
        let resolved = resolve_file_sizes(load, &mut known_sizes).and_then(|layouts| {
            if program.readonly {
                without_layout(layouts)
            } else {
                Ok(layouts)
            }
        });
        if resolved.is_err() && compat_mode == CompatMode::Fio {
            write_report(
                &program,
                &report_text(
                    &program,
                    &[unstarted(load.clone())],
                    &global_options(&sections),
                ),
            )?;
        }
        layouts.push(resolved?);
    }
    // Check that the report and the logs can be written.
    program
        .output
        .as_deref()
        .map_or(Ok(()), |path| write_output(&program, path, None))?;
    loads
        .iter()
        .try_for_each(|load| check_logs(load, program.force))?;
    program.trigger.check_unpulled()?;
    let run_dir = RunDirectory::choose("fio", program.out.as_deref(), compat_mode)?;
    let signal_handler =
        SignalHandler::install("the run directory has no verdict", CompatMode::Native)?;
    // Only standard output gets the header now: a file holds only the latest report, and stays unchanged if the guard
    // refuses the run.
    if program.output.is_none() && program.formats.contains(&FioFormat::Normal) {
        let threads = loads.iter().map(|load| load.threads.len()).sum();
        write_report(&program, &header_text(&lines, threads))?;
    }
    let mut session = FioCommand {
        compat_mode,
        devices: loads
            .iter()
            .flat_map(|load| &load.devices)
            .map(DeviceName::to_string)
            .collect(),
        written: Vec::new(),
        erase: program.erase.clone(),
        program: &program,
        global: global_options(&sections),
        run_dir: &run_dir,
        signal_handler: &signal_handler,
        text: &text,
        has_several_runs: loads.len() > 1,
    };
    let mut runs: Vec<FioRun> = Vec::new();
    let mut worst = Outcome::Measured;
    let mut failure = None;
    for (number, (mut load, layouts)) in loads.into_iter().zip(layouts).enumerate() {
        load.begin_after(runs.iter().map(FioRun::elapsed_ns).sum());
        session.allow_own_data(&load);
        let laid_out: Vec<DeviceName> = layouts
            .iter()
            .flat_map(|layout| layout.devices.clone())
            .collect();
        let outcome = session.perform(number, load.clone(), layouts, &mut runs);
        match outcome {
            Ok(outcome) => worst = worst.max(outcome),
            Err(error) => {
                // The runs before this one are reported. fio also reports the jobs that could not run.
                runs.truncate(number);
                if compat_mode == CompatMode::Fio {
                    runs.push(unstarted(load));
                }
                failure = Some(error);
                break;
            }
        }
        let load = &runs[number].load;
        let written = load
            .devices
            .iter()
            .filter(|name| load.writes_to(name))
            .chain(&laid_out);
        session
            .written
            .extend(written.filter_map(WrittenFile::from_name));
        if signal_handler.signal_received().is_some()
            || runs.last().is_some_and(|ran| ran.load.ends_all_runs())
        {
            break;
        }
    }
    if failure.is_none() || !runs.is_empty() {
        session.show(&runs)?;
    }
    if let Some(failure) = failure {
        return Err(failure);
    }
    if compat_mode == CompatMode::Native {
        console::note(&format!("{run_dir}"));
    }
    drop(run_dir);
    let is_complete = signal_handler.signal_received().is_none();
    Ok(ExitCode::from(match compat_mode {
        CompatMode::Native => worst.exit_code(),
        _ => u8::from(runs.iter().any(|ran: &FioRun| {
            ran.totals.kinds.iter().any(|kind| kind.errors > 0)
                || !ran.missed(is_complete).is_empty()
        })),
    }))
}

/// Prints the help of an option, or of all options. As fio, a program called fio exits with 0 if it has no such option.
fn option_help(name: &str, compat_mode: CompatMode) -> Result<ExitCode, Failure> {
    if ["", "all"].contains(&name) {
        return done(&fio_options::help());
    }
    match fio_options::help_of(name) {
        Ok(text) => done(&text),
        Err(why) if compat_mode == CompatMode::Fio => {
            console::notice(&why);
            Ok(ExitCode::SUCCESS)
        }
        Err(why) => Err(Failure::usage(why)),
    }
}

/// The report of jobs that cannot run, with fio's error number for them: EINVAL.
fn unstarted(load: FioLoad) -> FioRun {
    let mut run = FioRun::new(load);
    run.error = Some(22);
    run
}

fn global_options(sections: &[JobSection]) -> Vec<(String, String)> {
    let given = sections
        .iter()
        .filter(|section| section.is_global())
        .flat_map(|section| &section.options);
    given
        .map(|given| (given.name.clone(), given.value.clone().unwrap_or_default()))
        .collect()
}

fn report_text(program: &ProgramOptions, runs: &[FioRun], global: &[(String, String)]) -> String {
    let page = page(runs, global);
    let mut text = String::new();
    for format in &program.formats {
        text += &match format {
            FioFormat::Normal => normal(&page),
            FioFormat::Json => json(&page, false),
            FioFormat::JsonPlus => json(&page, true),
            FioFormat::Terse => terse(&page),
        };
    }
    text
}

/// A usage failure with a line for each problem, up to a maximum number of lines.
fn usage_of_problems(problems: Vec<Problem>) -> Failure {
    const TOLD_MAX: usize = 20;
    let mut lines: Vec<_> = problems
        .iter()
        .take(TOLD_MAX)
        .map(ToString::to_string)
        .collect();
    if problems.len() > TOLD_MAX {
        lines.push(format!("and {} more", problems.len() - TOLD_MAX));
    }
    lines.push("nothing was run".into());
    Failure::usage(lines.join("\n"))
}

fn print_warnings(warnings: &[Problem]) {
    warnings
        .iter()
        .for_each(|warning| console::warning(&warning.to_string()));
}

/// Refuses to write files that are to be read, for --readonly.
fn without_layout(layouts: Vec<FioLoad>) -> Result<Vec<FioLoad>, Failure> {
    let Some(layout) = layouts.first() else {
        return Ok(layouts);
    };
    Err(Failure::environment(format!(
        "cannot read the file {} - it is missing, or shorter than {} bytes, and --readonly forbids to write it - leave out \
         --readonly, or name a file of this size",
        layout.devices[0],
        layout.files.values().sum::<u64>()
    )))
}

fn surroundings<'a>(
    read: &'a dyn Fn(&str) -> Result<String, String>,
    readonly: bool,
) -> ParseContext<'a> {
    let memory = sys::buffer::available_bytes().unwrap_or(0);
    ParseContext {
        read,
        variable: &|name| std::env::var(name).ok(),
        is_device: &|path| {
            fs::symlink_metadata(path).is_ok_and(|path| !path.is_file() && !path.is_dir())
        },
        cpus: cpus(),
        page_bytes: sys::process::page_bytes(),
        memory_mbytes: memory >> 20,
        readonly,
    }
}

fn read_text(path: &str) -> Result<String, String> {
    let bytes = input::read_user_path(Path::new(path), Links::Followed, BYTES_MAX as u64)
        .map_err(|error| error.to_string())?;
    String::from_utf8(bytes).map_err(|error| format!("it is not UTF-8 text: {error}"))
}

/// All sections, the command line's first, and their text.
fn sections(
    mut sections: Vec<JobSection>,
    files: &[String],
    program: &ProgramOptions,
    words: &[String],
) -> Result<(Vec<JobSection>, String), Failure> {
    let mut text = if words.is_empty() {
        String::new()
    } else {
        format!("; {}\n", words.join(" "))
    };
    for (number, file) in files.iter().enumerate() {
        // Includes are relative to the directory of the job file; for standard input, to the working directory.
        let name = if file == "-" { "stdin" } else { file };
        let path = if file == "-" { "/dev/stdin" } else { file };
        let content = read_text(path).map_err(|why| {
            let advice = "name a job file, or give a job as options: --name=NAME --filename=DEVICE";
            Failure::usage(format!(
                "cannot read the job file {} - {why} - {advice}",
                quoted(name)
            ))
        })?;
        let mut warnings = Vec::new();
        let mut file_sections = job_file(
            name,
            &content,
            &surroundings(&read_text, program.readonly),
            &mut warnings,
        )
        .map_err(usage_of_problems)?;
        print_warnings(&warnings);
        // As in fio, the jobs of a file wait for those of the previous file, but not for those of the command line.
        if let Some(first) = file_sections
            .iter_mut()
            .find(|section| !section.is_global())
            .filter(|_| number > 0)
        {
            let stonewall = fio::GivenOption {
                name: "stonewall".into(),
                value: None,
                position: name.to_owned(),
            };
            first.options.push(stonewall);
        }
        sections.append(&mut file_sections);
        let _ = writeln!(text, "; {name}\n{content}");
    }
    if !program.sections.is_empty() {
        if let Some(missing) = program
            .sections
            .iter()
            .find(|name| !sections.iter().any(|section| section.name == **name))
        {
            return Err(Failure::usage(format!(
                "there is no section called {} - check --section",
                quoted(missing)
            )));
        }
        sections.retain(|section: &JobSection| {
            section.is_global() || program.sections.contains(&section.name)
        });
    }
    Ok((sections, text))
}

/// Sets the limits of the streams in `--sla STREAM:LIMITS`.
fn limit_streams(program: &ProgramOptions, loads: &mut [FioLoad]) -> Result<(), Failure> {
    let names: Vec<_> = loads.iter().flat_map(FioLoad::stream_names).collect();
    if let Some(stream) = program.sla_of.keys().find(|stream| !names.contains(stream)) {
        let why = format!(
            "no job has this stream - the streams are {}",
            names.join(", ")
        );
        return Err(Failure::usage(format!(
            "cannot judge the stream {} - {why}",
            quoted(stream)
        )));
    }
    if !program.sla_of.is_empty() {
        loads
            .iter_mut()
            .for_each(|load| load.set_limits(&program.sla_of, &program.sla));
    }
    loads
        .iter()
        .try_for_each(|load| load.thresholds().map(drop))
        .map_err(Failure::usage)
}

/// fio's line about each job before the start.
fn begin_lines(loads: &[FioLoad]) -> Vec<String> {
    let mut lines = Vec::new();
    for load in loads {
        for thread in load.threads.iter().filter(|thread| thread.clone == 0) {
            let job = &thread.job;
            let [reads, writes, trims] = job
                .sizes
                .each_ref()
                .map(|sizes| format!("{}B-{}B", sizes.min_bytes(), sizes.max_bytes()));
            let engine = if load.is_simulated() {
                "io_uring"
            } else {
                engine_of(job)
            };
            lines.push(format!(
                "{}: (g={}): rw={}, bs=(R) {reads}, (W) {writes}, (T) {trims}, ioengine={engine}, iodepth={}",
                format::in_one_line(&job.name),
                load.entries[thread.entry].group,
                job.rw(),
                job.in_flight_max()
            ));
            if job.numjobs > 1 {
                lines.push("...".into());
            }
        }
    }
    lines
}

fn describe(loads: &[FioLoad]) -> String {
    let mut text = String::new();
    for (number, load) in loads.iter().enumerate() {
        const NAMED_MAX: usize = 3;
        let mut devices: Vec<_> = load
            .devices
            .iter()
            .take(NAMED_MAX)
            .map(ToString::to_string)
            .collect();
        if load.devices.len() > NAMED_MAX {
            devices.push(format!("{} more", load.devices.len() - NAMED_MAX));
        }
        let job = &load.threads[0].job;
        let time = |job: &Job| (job.runtime_ns, job.time_based, job.start_delay_ns);
        let duration_text = match (job.runtime_ns, job.time_based) {
            _ if load.jobs().any(|other| time(other) != time(job)) => {
                "each job for its own time".to_owned()
            }
            (None, _) => "until the jobs are done".to_owned(),
            (Some(ns), true) => format!("for {}", format::duration(ns)),
            (Some(ns), false) => {
                format!("until the jobs are done, at most {}", format::duration(ns))
            }
        };
        let is_cached = !job.direct && load.devices.iter().any(|device| device.drive().is_none());
        let delay_ns = load.jobs().map(|job| job.start_delay_ns).min();
        let delay_text = match delay_ns {
            None | Some(0) => String::new(),
            Some(ns) => format!(", {} after the start or later", format::duration(ns)),
        };
        let cache_text = if !is_cached {
            ""
        } else if load.jobs().all(|job| job.engine == EngineKind::Mapped) {
            ", mapped into memory"
        } else {
            ", through the page cache (direct=0)"
        };
        let loops = match load.jobs().filter(|job| job.has_rates()).count() {
            0 => "closed loop: latencies leave out the wait of operations that a stall delays",
            open if open == load.jobs().count() => {
                "open loop: latencies include the wait of operations that a stall delays"
            }
            _ => "open loop for jobs with a rate, closed loop for the others",
        };
        let _ = writeln!(
            text,
            "run {}: {} on {} {duration_text}{delay_text}{cache_text} - {loops}",
            number + 1,
            format::count(load.threads.len() as u64, "job"),
            format::in_one_line(&devices.join(", "))
        );
    }
    text
}

/// Replaces an earlier report of flashproof or fio; replaces other files only with `--force`.
fn write_output(program: &ProgramOptions, path: &Path, text: Option<&str>) -> Result<(), Failure> {
    const MARKS: [&str; 4] = [": (g=", ": (groupid=", "\"fio version\"", "3;fio-"];
    let replaces =
        program.force || is_ours(path, |text| MARKS.iter().any(|mark| text.contains(mark)));
    write_file("report", path, text, replaces)
}

/// Writes the report to standard output, or to its file, which then holds only the latest report.
fn write_report(program: &ProgramOptions, text: &str) -> Result<(), Failure> {
    match &program.output {
        None => console::result(text),
        Some(path) => write_output(program, path, Some(text)),
    }
}

/// A device or file that a run of this command has written.
#[derive(PartialEq)]
struct WrittenFile {
    name: String,
    /// File system and inode.
    inode: (u64, u64),
    /// Time of a file's last change, seconds since 1970 and nanoseconds: another program may write to the file.
    changed: Option<(i64, i64)>,
}

impl WrittenFile {
    fn from_name(name: &DeviceName) -> Option<Self> {
        let metadata = fs::metadata(name.as_str()).ok()?;
        let changed = metadata
            .is_file()
            .then(|| (metadata.ctime(), metadata.ctime_nsec()));
        Some(Self {
            name: name.to_string(),
            inode: (metadata.dev(), metadata.ino()),
            changed,
        })
    }
}

struct FioCommand<'a> {
    compat_mode: CompatMode,
    program: &'a ProgramOptions,
    devices: Vec<String>,
    /// Devices and files that earlier runs of this command have written.
    written: Vec<WrittenFile>,
    /// Devices that the next run may erase.
    erase: Vec<String>,
    global: Vec<(String, String)>,
    run_dir: &'a RunDirectory,
    signal_handler: &'a SignalHandler,
    text: &'a str,
    has_several_runs: bool,
}

impl FioCommand<'_> {
    /// Allows overwriting what earlier runs of this command wrote: the guard does not recognise, say, `verify` blocks.
    fn allow_own_data(&mut self, load: &FioLoad) {
        let own_names = load
            .devices
            .iter()
            .filter(|name: &&DeviceName| {
                WrittenFile::from_name(name).is_some_and(|now| self.written.contains(&now))
            })
            .map(|name| Guard::new(None).erase_name(name.as_str()));
        self.erase = self
            .program
            .erase
            .iter()
            .cloned()
            .chain(own_names)
            .collect();
    }

    /// Lays out the files of `load` and performs its run, which is added to `runs`.
    fn perform(
        &self,
        number: usize,
        load: FioLoad,
        layouts: Vec<FioLoad>,
        runs: &mut Vec<FioRun>,
    ) -> Result<Outcome, Failure> {
        lay_out(layouts, self.signal_handler, |load, dir| {
            self.request(load, dir, String::new(), true)
        })?;
        if load.jobs().all(|job| job.files.creates_only) {
            // The guard creates the files when it opens them.
            OpenDevices::open(&load.spec(), &[&load], &self.consents())?;
            runs.push(FioRun::new(load));
            return Ok(Outcome::Measured);
        }
        runs.push(FioRun::new(load));
        self.run(&self.dir(number), runs)
    }

    fn dir(&self, number: usize) -> PathBuf {
        if self.has_several_runs {
            self.run_dir.dir().join(format!("run-{}", number + 1))
        } else {
            self.run_dir.dir().to_owned()
        }
    }

    fn show(&self, runs: &[FioRun]) -> Result<(), Failure> {
        write_report(self.program, &report_text(self.program, runs, &self.global))
    }

    fn consents(&self) -> Consents<'_> {
        Consents {
            erase: &self.erase,
            other_devices: &self.devices,
            shared: self.program.shared,
        }
    }

    fn request(&self, load: FioLoad, dir: PathBuf, text: String, quiet: bool) -> RunRequest<'_> {
        let program = self.program;
        let stream_sla = load.thresholds().ok().filter(|_| !load.limits.is_empty());
        RunRequest {
            dir,
            consents: self.consents(),
            sla: stream_sla.unwrap_or_else(|| program.sla.clone()),
            slice_sec: program.slice_sec.into(),
            failure_limits: program.failure_limits,
            note: program.note.clone(),
            quiet,
            trace: program.trace && !quiet,
            ..RunRequest::new(NamedWorkload::alone(load, text))
        }
    }

    /// Performs the last of `runs`, recorded in `dir`.
    fn run(&self, dir: &Path, runs: &mut Vec<FioRun>) -> Result<Outcome, Failure> {
        let Some(fio_run) = runs.last() else {
            return Ok(Outcome::Measured);
        };
        let quiet = self.program.quiet || self.compat_mode == CompatMode::Fio;
        let request = self.request(
            fio_run.load.clone(),
            dir.to_owned(),
            self.text.to_owned(),
            quiet,
        );
        let verdict = match run_request(
            request,
            self.signal_handler,
            &mut FioRunObserver {
                runs: &mut *runs,
                status_sec: self.program.status_sec,
                trigger: &self.program.trigger,
                force: self.program.force,
                show: &|runs| self.show(runs).map_err(|failure| failure.message),
                failure: None,
            },
        )? {
            RunOutcome::Recorded(verdict) => verdict,
            RunOutcome::Unrecorded { verdict, failure } => {
                console::notice(&verdict.to_string());
                return Err(failure);
            }
        };
        if let Some(fio_run) = runs.last_mut() {
            fio_run.result = Some(verdict.result());
            let ran_ns = Some(fio_run.totals.ran_ns);
            fio_run
                .logs
                .write(&fio_run.load, ran_ns)
                .map_err(Failure::environment)?;
            write_dumps(&fio_run.load, self.program.force);
            save_states(&fio_run.load, false);
            let missing = left_out(&fio_run.load);
            if missing > 0 {
                console::warning(&format!(
                    "the logs lack {}: operations completed faster than they could be logged - give log_avg_msec",
                    format::count(missing, "operation")
                ));
            }
        }
        if self.compat_mode == CompatMode::Native {
            let text = verdict.to_string();
            // The part up to the first empty line: the verdict and what decided it.
            let head = text.split("\n\n").next().unwrap_or_default();
            console::notice(if self.program.quiet {
                head
            } else {
                text.trim_end()
            });
            return Ok(verdict.outcome);
        }
        runs.last()
            .into_iter()
            .flat_map(|run| [run.ended_in_ramp(), run.ended_in_search()].concat())
            .for_each(|note| console::warning(&note));
        if verdict.outcome.exit_code() != 0 {
            verdict
                .reasons
                .iter()
                .for_each(|reason| console::warning(&reason.text));
        }
        Ok(verdict.outcome)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_second_and_later_job_files_wait_for_earlier_jobs() {
        let dir = tempfile::tempdir().unwrap();
        let files = ["a", "b"].map(|name| {
            let path = dir.path().join(name);
            fs::write(&path, format!("[{name}]\n")).unwrap();
            path.to_str().unwrap().to_owned()
        });
        let typed = JobSection {
            name: "typed".into(),
            options: Vec::new(),
        };
        let (all, _) = sections(vec![typed], &files, &ProgramOptions::default(), &[]).unwrap();
        let waits: Vec<_> = all
            .iter()
            .map(|section| (section.name.as_str(), section.options.len()))
            .collect();
        assert_eq!(waits, [("typed", 0), ("a", 0), ("b", 1)]);
    }

    #[test]
    fn a_file_that_another_program_changed_no_longer_counts_as_written_by_the_command() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        fs::write(&path, "written").unwrap();
        let name: DeviceName = path.to_str().unwrap().parse().unwrap();
        let own = WrittenFile::from_name(&name);
        assert!(own.is_some() && own == WrittenFile::from_name(&name));
        // Older kernels round the times of files to a tick, at most 10 ms.
        std::thread::sleep(std::time::Duration::from_millis(20));
        fs::write(&path, "changed").unwrap();
        assert!(own != WrittenFile::from_name(&name));
    }
}
