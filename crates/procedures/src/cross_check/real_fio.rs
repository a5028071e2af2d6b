//! A run of the installed fio, and the logs that both programs wrote: lines, operations, means.

use super::{DIRECTIONS, DirectionResult, PERCENTILES, named_directions};
use crate::fio::log_of;
use device::target::Target;
use load::run::Control;
use load::workload::Workload;
use load::workload::fio::options::{Support, find, has};
use load::workload::fio::{FioLoad, GivenOption, JobClone};
use serde_json::Value;
use session::CompatMode;
use session::devices::Devices;
use session::failure::Failure;
use session::run_directory::RunDirectory;
use session::signals::SignalHandler;
use std::collections::HashSet;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// Sanity limit for fio's output, bytes: enough for thousands of jobs.
const OUTPUT_BYTES_MAX: u64 = 64 << 20;

/// Poll interval for the end of fio.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Options not passed to fio: flashproof opens the files, fio's logs, dumps and states would overwrite flashproof's, and
/// a single run has nothing to wait for.
const OPTIONS_NOT_PASSED: &str = "name filename directory nrfiles filesize stonewall wait_for log_prio log_unix_epoch \
    write_hist_log log_hist_msec log_hist_coarseness write_iolog write_bw_log write_lat_log write_iops_log \
    log_avg_msec per_job_logs percentile_list clat_percentiles lat_percentiles verify_dump verify_state_save";

/// Options passed on although they have an effect only in fio: they are harmless to files.
const OPTIONS_PASSED_TOO: &str = "iodepth_batch iodepth_batch_submit iodepth_batch_complete_max scramble_buffers \
    softrandommap registerfiles fixedbufs sqthread_poll nonvectored force_async";

/// The installed fio.
#[derive(Debug, Clone)]
pub struct RealFio {
    path: PathBuf,
    /// Version as fio reports it: `fio-3.33`.
    pub(super) version: String,
}

impl RealFio {
    /// Searches `PATH`, ignoring links to flashproof. Errors: not found.
    pub fn find() -> Result<Self, Failure> {
        let own_path = std::env::current_exe().and_then(std::fs::canonicalize).ok();
        let path = std::env::var_os("PATH").unwrap_or_default();
        let is_other = |file: &PathBuf| {
            let executable = file.metadata().is_ok_and(|of| of.is_file() && of.permissions().mode() & 0o111 != 0);
            executable && std::fs::canonicalize(file).ok() != own_path
        };
        let missing = |why: String| {
            Failure::environment(format!(
                "cannot cross-check with fio - {why} - install it (apt-get install fio, dnf install fio), or leave --cross-check out"
            ))
        };
        let path = std::env::split_paths(&path)
            .map(|dir| dir.join("fio"))
            .find(is_other)
            .ok_or_else(|| missing("no directory of PATH has it".into()))?;
        let version_output = Command::new(&path).arg("--version").stdin(Stdio::null()).output();
        let version_output =
            version_output.map_err(|error| missing(format!("{} does not run: {error}", path.display())))?;
        let version = String::from_utf8_lossy(&version_output.stdout).trim().to_owned();
        match version.starts_with("fio-") {
            true => Ok(Self { path, version }),
            false => Err(missing(format!("{} does not identify itself as fio", path.display()))),
        }
    }

    /// The installed fio, if it can run all of `loads` for comparison. Errors: not found, or unsuitable.
    pub fn beside(loads: &[FioLoad]) -> Result<Self, Failure> {
        let fio = Self::find()?;
        loads.iter().try_for_each(|load| fio.check(load)).map(|()| fio)
    }

    /// Checks that fio can run `load`. Errors: the reason.
    pub fn check(&self, load: &FioLoad) -> Result<(), Failure> {
        let cannot =
            |why: &str, remedy: &str| Err(Failure::usage(format!("cannot cross-check with fio - {why} - {remedy}")));
        match () {
            () if load.devices.iter().any(|device| device.drive().is_some()) => {
                cannot("fio has no simulated drives", "name a device or a file, or leave --cross-check out")
            }
            () if load.jobs().any(|job| job.iolog.is_some()) => {
                cannot("the log of read_iolog names its own files", "leave --cross-check out")
            }
            () if load.jobs().any(|job| job.filenames.is_empty()) => {
                cannot("a job has no filename, and both programs need the same file", "give filename")
            }
            () if load.jobs().any(|job| job.appends) => cannot(
                "with file_append each round would begin at the end of the previous round",
                "leave --cross-check out",
            ),
            () => Ok(()),
        }
    }

    /// Runs `load` once, only on the descriptors of `devices`. `None`: a signal ended fio.
    ///
    /// Errors: a device is missing in `open`, or not open for writing; fio failed.
    pub fn run(
        &self,
        load: &FioLoad,
        devices: &Devices,
        signal_handler: &SignalHandler,
    ) -> Result<Option<Vec<DirectionResult>>, Failure> {
        self.check(load)?;
        let mut command = Command::new(&self.path);
        command.args(["--output-format=json", "--eta=never"]);
        let run_dir = RunDirectory::of("fio-logs", None, CompatMode::Act)?;
        for thread in load.threads.iter().filter(|thread| thread.clone == 0) {
            command
                .args(arguments(thread, &descriptors(load, thread, devices)?))
                .args(log_words(thread, run_dir.dir()));
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        sys::process::kill_with_parent(&mut command);
        let failed = |why: String| Failure::environment(format!("fio failed in the cross-check - {why}"));
        let mut child = command.spawn().map_err(|error| failed(error.to_string()))?;
        let [stdout, stderr] = [drain(child.stdout.take()), drain(child.stderr.take())];
        let control = Arc::new(Control::default());
        let _armed = signal_handler.arm(vec![control.clone()]);
        let status = wait(&mut child, &control).map_err(|error| failed(error.to_string()))?;
        let [stdout, stderr] = [stdout, stderr].map(|text| text.join().unwrap_or_default());
        if signal_handler.signal_received().is_some() {
            return Ok(None);
        }
        if !status.success() {
            let first_line = stderr
                .lines()
                .chain(stdout.lines())
                .find(|line| !line.trim().is_empty())
                .unwrap_or("it printed nothing");
            return Err(failed(format!("{status}: {}", results::units::in_one_line(first_line))));
        }
        parse_results(load, &stdout, run_dir.dir()).map(Some).map_err(failed)
    }
}

/// Descriptor paths of the files of `thread`.
fn descriptors(load: &FioLoad, thread: &JobClone, devices: &Devices) -> Result<String, Failure> {
    let Devices::Real(targets) = devices else {
        return Err(Failure::usage("cannot cross-check with fio without a device"));
    };
    let path = |name: String| {
        let is_it = |target: &&Arc<Target>| target.name() == name && (target.is_writable() || !load.writes());
        let target = targets.iter().find(is_it).ok_or_else(|| {
            Failure::environment(format!(
                "cannot cross-check with fio on {name} - it is not among the open devices, or not open for writing"
            ))
        })?;
        Ok(format!("/proc/{}/fd/{}", std::process::id(), target.fd().as_raw_fd()))
    };
    let paths: Vec<_> = thread.job.names(thread.clone).into_iter().map(path).collect::<Result<_, Failure>>()?;
    Ok(paths.join(":"))
}

/// Arguments of a job. They bypass shell and job file syntax, so that a value cannot be misread.
fn arguments(thread: &JobClone, filename: &str) -> Vec<String> {
    let job = &thread.job;
    let is_passed = |option: &&GivenOption| match find(&option.name) {
        Some(Support::Known(_)) => !has(OPTIONS_NOT_PASSED, &option.name),
        _ => has(OPTIONS_PASSED_TOO, &option.name),
    };
    let argument = |option: &GivenOption| match &option.value {
        Some(value) => format!("--{}={value}", option.name),
        None => format!("--{}", option.name),
    };
    // As threads of one process, all jobs end together; separate processes would continue writing.
    let mut args = vec![format!("--name={}", job.name), format!("--filename={filename}"), "--thread=1".into()];
    // Defaults of flashproof.
    args.push("--ioengine=io_uring".into());
    args.extend(job.in_force.iter().filter(is_passed).map(argument));
    let percentiles = PERCENTILES.map(|percentile| percentile.to_string()).join(":");
    // fio saves states by default.
    args.extend(["--lat_percentiles=1", "--verify_state_save=0"].map(str::to_owned));
    args.push(format!("--percentile_list={percentiles}"));
    args
}

fn drain(pipe: Option<impl Read + Send + 'static>) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(pipe) = pipe {
            // Truncated output is invalid JSON, which is reported.
            let _ = pipe.take(OUTPUT_BYTES_MAX).read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// Waits for the end of `child`; a signal to flashproof kills it.
fn wait(child: &mut Child, control: &Control) -> std::io::Result<std::process::ExitStatus> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if control.stopped() {
            child.kill()?;
            return child.wait();
        }
        thread::sleep(POLL_INTERVAL);
    }
}

/// Results of `load` from fio's JSON, and its logs in `logs`.
fn parse_results(load: &FioLoad, text: &str, logs: &Path) -> Result<Vec<DirectionResult>, String> {
    // Messages may precede the JSON.
    let json = text.find("\n{").map_or(text, |at| &text[at..]);
    let json: Value = serde_json::from_str(json).map_err(|error| format!("its output is not JSON: {error}"))?;
    let jobs = json["jobs"].as_array().ok_or("its output has no jobs")?;
    if jobs.len() != load.entries.len() {
        return Err(format!(
            "it reports {}, but flashproof {} - give group_reporting in all jobs of a group, or in none",
            results::units::count(jobs.len() as u64, "job"),
            load.entries.len()
        ));
    }
    let number = |value: &Value| value.as_f64().unwrap_or(0.0);
    let direction = |job: usize, direction: usize| &jobs[job][["read", "write", "trim"][direction]];
    let cpu_of =
        |job: &Value| (number(&job["usr_cpu"]) + number(&job["sys_cpu"])) / 100.0 * number(&job["job_runtime"]) * 1e6;
    let cpu_ns: f64 = jobs.iter().map(cpu_of).sum();
    let op_counts =
        (0..jobs.len()).flat_map(|job| (0..DIRECTIONS.len()).map(move |of| number(&direction(job, of)["total_ios"])));
    let ops: f64 = op_counts.sum();
    let result_of = |(entry, kind, result): (usize, usize, DirectionResult)| {
        let logged = logged(load, entry, kind, Some(logs));
        let values = direction(entry, kind);
        let percentile_ns =
            |percentile: f64| number(&values["lat_ns"]["percentile"][format!("{percentile:.6}")]) as u64;
        DirectionResult {
            ops: number(&values["total_ios"]) as u64,
            iops: number(&values["iops"]),
            latency_ns: PERCENTILES.map(percentile_ns),
            cpu_ns: cpu_ns / ops.max(1.0),
            logged,
            ..result
        }
    };
    Ok(named_directions(load).map(result_of).collect())
}

/// Logs of one direction of a job.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct LogSummary {
    /// Lines of logs of completion latencies, and the mean of their values, nanoseconds.
    pub lines: u64,
    pub mean_ns: f64,
    /// Operations counted in histograms.
    pub binned: u64,
}

/// Prefix of the logs that fio writes in its directory.
const PREFIX: &str = "log";

/// Options for the logs that `thread` has, which fio writes into a separate directory.
fn log_words(thread: &JobClone, dir: &Path) -> Vec<String> {
    let (job, prefix) = (&thread.job, dir.join(PREFIX));
    let options = [
        job.logs[1].is_some().then(|| format!("--write_lat_log={}", prefix.display())),
        job.hist_log.is_some().then(|| format!("--write_hist_log={}", prefix.display())),
        job.hist_log.is_some().then(|| format!("--log_hist_msec={}", job.log_hist_msec)),
        (job.log_avg_msec > 0).then(|| format!("--log_avg_msec={}", job.log_avg_msec)),
    ];
    options.into_iter().flatten().collect()
}

/// Logs of one direction of an entry of `load`: fio's logs in `dir`; without `dir`, flashproof's logs. `None`: the
/// entry has no logs.
pub(super) fn logged(load: &FioLoad, entry: usize, direction: usize, dir: Option<&Path>) -> Option<LogSummary> {
    let (mut summary, mut sum, mut has_logs) = (LogSummary::default(), 0.0, false);
    let mut read = HashSet::new();
    for thread in load.threads_of(entry) {
        let job = &thread.job;
        let path = |prefix: &str, ending: &str| match dir {
            // fio's job numbers count only the jobs of this run.
            Some(dir) => dir.join(format!("{PREFIX}_{ending}.{}.log", thread.number + 1 - load.threads[0].number)),
            None => log_of(thread, prefix, ending),
        };
        for (prefix, ending) in [(&job.logs[1], "clat"), (&job.hist_log, "clat_hist")] {
            let Some(prefix) = prefix else { continue };
            has_logs = true;
            let path = path(prefix, ending);
            // With per_job_logs=0, clones share a log.
            if !read.insert(path.clone()) {
                continue;
            }
            // An unreadable log counts as empty, so the comparison shows a difference.
            let file = File::open(path).map(BufReader::new);
            for line in file.into_iter().flat_map(BufRead::lines).map_while(Result::ok) {
                let fields: Vec<_> = line.split(',').map_while(|field| field.trim().parse::<f64>().ok()).collect();
                match (ending, &fields[..]) {
                    ("clat", [_, value, of, ..]) if *of == direction as f64 => {
                        (summary.lines, sum) = (summary.lines + 1, sum + value);
                    }
                    ("clat_hist", [_, of, _, bins @ ..]) if *of == direction as f64 => {
                        summary.binned += bins.iter().sum::<f64>() as u64;
                    }
                    _ => {}
                }
            }
        }
    }
    summary.mean_ns = sum / summary.lines.max(1) as f64;
    has_logs.then_some(summary)
}
