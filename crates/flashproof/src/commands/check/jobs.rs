//! The jobs of a check: fio's jobs, with additional keys for properties of databases that fio cannot express.

use super::definition::{Definition, RunDefinition, is_plain};
use super::file_use::{FileState, FileUse};
use super::site::Site;
use conclusions::check::{Criterion, limits_of};
use fio::{
    CommitParts, FioLoad, GivenOption, Job, JobSection, ParseContext, Size, Sizes, job_file, jobs,
    runs,
};
use results::format::quoted;
use serde::Deserialize;
use serde::de::IntoDeserializer;
use serde::de::value::Error as ValueError;
use session::failure::Failure;
use session::runner::cpus;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use sys::op::WriteSync;

/// Size of a page of the page cache, bytes.
const PAGE_BYTES: u64 = 4_096;

/// Block size of layouts, bytes: files are whole blocks.
pub(super) const LAYOUT_BLOCK: u64 = 1 << 20;

/// Maximum size of a file: 1 PiB.
const FILE_BYTES_MAX: u64 = 1 << 50;

pub(super) struct CheckJob {
    pub(super) job: Job,
    pub(super) state: FileState,
    /// Name of the file in the job, and number of bytes that the job uses.
    file: String,
    pub(super) bytes: u64,
    /// Name of the file in the directory of the check.
    pub(super) own_name: String,
}

/// Values of the keys that fio does not have.
#[derive(Default)]
struct OwnKeys {
    files: FileState,
    long_rate_iops: Option<u64>,
    commit_writes: Option<u64>,
    commit_meta: bool,
}

impl OwnKeys {
    /// Takes the keys out of the options of a job. Errors: a value that is not allowed, with the key.
    fn take(section: &mut JobSection) -> Result<Self, String> {
        let mut keys = Self::default();
        let mut wrong = None;
        section.options.retain(|GivenOption { name, value, .. }| {
            let value = value.as_deref().unwrap_or_default();
            let known = match name.as_str() {
                "files" => FileState::deserialize(value.into_deserializer())
                    .map_err(|error: ValueError| error.to_string())
                    .map(|state| keys.files = state),
                "long_rate_iops" => {
                    number(value, 1..=1_000_000).map(|iops| keys.long_rate_iops = Some(iops))
                }
                "commit_writes" => {
                    number(value, 1..=4_096).map(|writes| keys.commit_writes = Some(writes))
                }
                "commit_meta" => number(value, 0..=1).map(|count| keys.commit_meta = count == 1),
                _ => return true,
            };
            wrong = known
                .err()
                .map(|why| format!("{name}={value}: {why}"))
                .or(wrong.take());
            false
        });
        wrong.map_or(Ok(keys), Err)
    }
}

fn number(value: &str, range: RangeInclusive<u64>) -> Result<u64, String> {
    let number = value.parse().ok().filter(|number| range.contains(number));
    number.ok_or_else(|| {
        format!(
            "it is not a number from {} to {}",
            range.start(),
            range.end()
        )
    })
}

/// The commits of a job; `None` unless every write is synced. Errors: the job does not allow `commit_*` keys.
fn commit_of(job: &Job, keys: &OwnKeys) -> Result<Option<CommitParts>, String> {
    let parts = CommitParts {
        writes: keys.commit_writes.unwrap_or(1),
        has_meta: keys.commit_meta,
    };
    let is_chain = keys.commit_writes.is_some() || keys.commit_meta;
    let is_synced_apart = job.flush.every[..2].contains(&1);
    let is_alone = job.in_flight_max() == 1 && !job.verifies() && !job.flush.at_end;
    if is_chain && !(is_synced_apart && job.does == [false, true, false] && is_alone) {
        return Err(
            "commit_writes and commit_meta need a job that only writes, with fdatasync=1 or fsync=1, one operation \
                    in flight, and neither verify nor end_fsync"
                .to_owned(),
        );
    }
    // With end_fsync, one more sync would count as part of the last commit.
    let is_plain_write = job.does[1] && !job.trim_write && job.iolog.is_none() && !job.flush.at_end;
    Ok((is_plain_write && (is_synced_apart || job.sync != WriteSync::No)).then_some(parts))
}

impl Definition {
    /// The files that the jobs use, by name in the directory of the check.
    pub fn files(&self) -> Result<BTreeMap<String, FileUse>, Failure> {
        let mut files = BTreeMap::<String, FileUse>::new();
        for run in &self.runs {
            for CheckJob {
                job,
                state,
                file,
                bytes,
                own_name,
            } in run.check_jobs(self)?
            {
                let run = run.name.clone();
                let file_use = files.entry(own_name).or_insert(FileUse {
                    file,
                    state,
                    run,
                    ..FileUse::default()
                });
                if file_use.state != state {
                    let why = format!(
                        "another job uses {} with another value of files - give both the same",
                        file_use.file
                    );
                    return Err(self.wrong(&file_use.run, &job.name, &why));
                }
                file_use.bytes = file_use.bytes.max(bytes);
                file_use.is_read |= job.does[0];
            }
        }
        Ok(files)
    }

    pub(super) fn wrong(&self, run: &str, job: &str, why: &str) -> Failure {
        let check = quoted(&self.name);
        let run = quoted(run);
        let job = if job.is_empty() {
            String::new()
        } else {
            format!(", job {}", quoted(job))
        };
        Failure::usage(format!(
            "cannot use the check {check} - run {run}{job}: {why}"
        ))
    }

    /// Checks the jobs for a run at `path`, or in any directory if `None`, and opens nothing. Errors: the first mistake.
    pub fn check_loads(&self, path: Option<&str>) -> Result<(), Failure> {
        let files = self.files()?;
        self.loads(&Site::planned(path, &files)?).map(drop)
    }

    /// The loads of all runs.
    pub fn loads(&self, site: &Site) -> Result<Vec<FioLoad>, Failure> {
        self.runs.iter().map(|run| self.load(run, site)).collect()
    }

    fn load(&self, run: &RunDefinition, site: &Site) -> Result<FioLoad, Failure> {
        let mut files = BTreeMap::<String, u64>::new();
        let jobs = run.check_jobs(self)?.into_iter().map(
            |CheckJob {
                 mut job,
                 own_name,
                 bytes,
                 ..
             }| {
                let (target, offset) = site.place(&own_name);
                if site.files_bytes.is_some() {
                    let file_bytes = files.entry(target.clone()).or_default();
                    *file_bytes = bytes.next_multiple_of(LAYOUT_BLOCK).max(*file_bytes);
                }
                job.files.names = vec![target];
                if offset > 0 {
                    job.offset = Size::Bytes(offset);
                }
                // Jobs bypass the page cache of a device, so they issue whole pages, as the cache would.
                if site.files_bytes.is_none() && !job.direct {
                    job.direct = true;
                    job.sizes = job
                        .sizes
                        .map(|sizes| Sizes::same(sizes.max_bytes().next_multiple_of(PAGE_BYTES)));
                }
                job
            },
        );
        let loads = runs(jobs.collect()).map_err(|problems| {
            let problems: Vec<_> = problems.iter().map(ToString::to_string).collect();
            self.wrong(&run.name, "", &problems.join("; "))
        })?;
        let [mut load]: [FioLoad; 1] = loads.try_into().map_err(|_| {
            self.wrong(
                &run.name,
                "",
                "its jobs wait for each other (stonewall) - make a separate run of each",
            )
        })?;
        load.files = files;
        let streams = load.stream_names();
        if let Some(Criterion { stream, .. }) =
            run.criteria.iter().find(|it| !streams.contains(&it.stream))
        {
            let stream = quoted(stream);
            let streams = streams.join(", ");
            return Err(self.wrong(
                &run.name,
                "",
                &format!("there is no stream {stream} - the streams are {streams}"),
            ));
        }
        for stream in streams {
            if let Some(limits) = limits_of(&stream, run.criteria.iter()).map_err(Failure::usage)? {
                load.limits.insert(stream, limits);
            }
        }
        Ok(load)
    }
}

impl RunDefinition {
    /// The jobs, each with its file. Errors: an option or file that a check cannot have.
    pub(super) fn check_jobs(&self, definition: &Definition) -> Result<Vec<CheckJob>, Failure> {
        let wrong = |job: &str, why: &str| definition.wrong(&self.name, job, why);
        let location = format!("check {}, run {}", definition.name, self.name);
        let context = ParseContext {
            read: &|_| Err("a check cannot include another file".to_owned()),
            cpus: cpus(),
            ..ParseContext::default()
        };
        let mut warnings = Vec::new();
        let mut sections =
            job_file(&location, &self.jobs, &context, &mut warnings).map_err(Failure::usages)?;
        let timing = [
            ("runtime", self.seconds.to_string()),
            ("time_based", "1".into()),
        ];
        let timing = timing.map(|(name, value)| GivenOption::new(name, value, &location));
        let mut keys_of_jobs = Vec::new();
        for section in sections.iter_mut().filter(|section| !section.is_global()) {
            let keys = OwnKeys::take(section).map_err(|why| wrong(&section.name, &why))?;
            section.options.extend(timing.iter().cloned());
            keys_of_jobs.push(keys);
        }
        let parsed = jobs(&sections, &context, &mut warnings).map_err(Failure::usages)?;
        if !warnings.is_empty() {
            return Err(Failure::usages(warnings));
        }
        parsed
            .into_iter()
            .zip(keys_of_jobs)
            .map(|(mut job, keys): (Job, OwnKeys)| {
            let state = keys.files;
            job.commit = commit_of(&job, &keys).map_err(|why| wrong(&job.name, &why))?;
            job.files.grows = state == FileState::Appended;
            if let Some(iops) = keys.long_rate_iops {
                if job.has_rates() || job.think_time().is_some() || job.in_flight_max() > 1 {
                    return Err(wrong(
                        &job.name,
                        "long_rate_iops needs a job without rate and thinktime, and one operation in flight",
                    ));
                }
                job.pace_ns = if self.is_long {
                    1_000_000_000 / iops
                } else {
                    0
                };
            }
            let (file, bytes) = file_of(&job, state).map_err(|why| wrong(&job.name, &why))?;
            job.counts_zeros = state == FileState::Existing;
            if job.counts_zeros && job.does != [true, false, false] {
                return Err(wrong(&job.name, "it writes - files=existing is for jobs that only read"));
            }
            if matches!(state, FileState::Fresh | FileState::Appended) && job.does[0] {
                return Err(wrong(
                    &job.name,
                    "it reads a file that holds no data before the run - give files=shared",
                ));
            }
            // Unique, because names of runs and files contain no ~.
            let own_name = if state == FileState::Shared {
                file.clone()
            } else {
                format!("{}~{file}", self.name)
            };
            Ok(CheckJob {
                job,
                state,
                file,
                bytes,
                own_name,
            })
        })
            .collect()
    }
}

/// The file of a job, and the bytes that the job uses; 0: the whole device. Errors: the reason why a check cannot have the
/// job.
fn file_of(job: &Job, state: FileState) -> Result<(String, u64), String> {
    let size = match job.size {
        Some(Size::Bytes(size @ ..=FILE_BYTES_MAX)) => size,
        Some(Size::Percent(100)) if state == FileState::Existing => 0,
        _ => {
            return Err(
                "it has no size in bytes of at most 1 PiB - give a size such as size=1g".into(),
            );
        }
    };
    if !job.files.directories.is_empty()
        || job.offset != Size::Bytes(0)
        || job.log.prefixes.iter().any(Option::is_some)
    {
        return Err(
            "it sets directory, offset or a log - leave them out: the check chooses where files and records are".into(),
        );
    }
    match &job.files.names[..] {
        [] => Err("it names no file - give a name such as filename=data".into()),
        [name] if is_plain(name) => Ok((name.clone(), size)),
        names => Err(format!(
            "filename={} is not one name of letters, digits, -, _ and .",
            names.join(":")
        )),
    }
}
