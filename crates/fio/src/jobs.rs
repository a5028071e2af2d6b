//! Converts sections to jobs, by the table of options.

use super::contradictions::check_section;
use super::directions::{READS, WRITES};
use super::engine_kind::EngineKind;
use super::iolog::Iolog;
use super::job::{JOBS_MAX, Job};
use super::options::{Support, find, has_no_effect, nearest};
use super::text::{GivenOption, JobSection, ParseContext, Problem};
use super::verify::method::Method;
use results::format::quoted;

impl Job {
    /// Adds errors to `problems`, and options without effect to `warnings`.
    pub fn apply_section(
        &mut self,
        section: &JobSection,
        problems: &mut Vec<Problem>,
        warnings: &mut Vec<Problem>,
    ) {
        self.given_options.clear();
        // Sizes depend on kb_base, wherever it is given.
        let mut options: Vec<_> = section.options.iter().collect();
        options.sort_by_key(|given| given.name != "kb_base");
        for given_option in options {
            let problem = match find(&given_option.name) {
                None => Some(format!(
                    "neither fio nor flashproof has this option - {}",
                    advice(given_option)
                )),
                Some(Support::Unsupported(_))
                    if has_no_effect(&given_option.name, given_option.value.as_deref()) =>
                {
                    None
                }
                Some(Support::Unsupported(without)) => Some(format!(
                    "flashproof does not support this option; without the option, flashproof would run: {without} - \
                     leave the option out if that is acceptable"
                )),
                Some(Support::NoEffect(why)) => {
                    let what = format!("{} has no effect: {why}", given_option.name);
                    warnings.push(Problem::new(&given_option.position, what));
                    None
                }
                Some(Support::Known(known)) => {
                    let result = known.apply(self, given_option.value.as_deref());
                    if known.name == "thinktime_spin" {
                        warnings.push(Problem::new(
                            &given_option.position,
                            "thinktime_spin: flashproof sleeps instead of spinning, so the pause uses no CPU time",
                        ));
                    }
                    // As in fio 3.42, an option without a value is reported with an empty value.
                    self.given_options.push((
                        known.name.to_owned(),
                        given_option.value.clone().unwrap_or_default(),
                    ));
                    result.err()
                }
            };
            if let Some(what) = problem {
                let option_text = match &given_option.value {
                    Some(value) => format!("{}={value}", given_option.name),
                    None => given_option.name.clone(),
                };
                problems.push(Problem::new(
                    &given_option.position,
                    format!("{} - {what}", quoted(&option_text)),
                ));
            }
        }
        check_section(section, problems, warnings);
    }
}

/// Advice for an option that does not exist.
fn advice(given_option: &GivenOption) -> String {
    let name = given_option.name.as_str();
    // A blank or a colon in place of the equals sign: `rw randread`, `rw: randread`.
    if given_option.value.is_none()
        && let Some((option, value)) = name.split_once([':', ' ', '\t'])
        && find(option).is_some()
    {
        return format!(
            "give {option}={}",
            value.trim_start_matches([':', ' ', '\t'])
        );
    }
    nearest(name).map_or_else(
        || "check its name (--cmdhelp lists all options)".to_owned(),
        |similar| format!("did you mean {similar}?"),
    )
}

impl Job {
    /// Turns a write job with `verify_only` into a job that reads the same blocks.
    fn apply_verify_only(&mut self) {
        if self.verify.only && self.verifies() && self.does == [false, true, false] {
            self.does = [true, false, false];
            self.sizes.swap(READS, WRITES);
            self.order.align.swap(READS, WRITES);
            self.order.distribution.swap(READS, WRITES);
            self.order.random_pct.swap(READS, WRITES);
            self.rates.targets.swap(READS, WRITES);
        }
    }
}

/// The jobs of all `sections`, in their order. Errors: every mistake in them.
pub fn jobs(
    sections: &[JobSection],
    context: &ParseContext<'_>,
    warnings: &mut Vec<Problem>,
) -> Result<Vec<Job>, Vec<Problem>> {
    let mut global = Job::default();
    let mut jobs = Vec::new();
    let mut problems = Vec::new();
    for section in sections {
        if section.is_global() {
            global.apply_section(section, &mut problems, warnings);
            continue;
        }
        let mut job = Job {
            name: section.name.clone(),
            section: section.name.clone(),
            ..global.clone()
        };
        job.apply_section(section, &mut problems, warnings);
        // NVMe passthrough bypasses the page cache; mapped pages are always in the page cache.
        job.direct |= job.engine == EngineKind::Passthrough;
        if job.engine == EngineKind::Mapped {
            (job.syncs_mapped, job.direct) = (job.direct, false);
        }
        // As in fio, the section [/dev/sdb] without filename is a job on this device.
        if job.files.names.is_empty() && job.files.count == 1 && (context.is_device)(&job.section) {
            job.files.names.push(job.section.clone());
        }
        if job.engine == EngineKind::Null {
            (job.files.count, job.files.names) = (
                job.files.count.max(job.files.names.len() as u64),
                Vec::new(),
            );
        }
        if let Some(path) = job.replay.file.clone() {
            match Iolog::read(&job.replay, &path, context.readonly) {
                Ok(log) => job.replay_log(log),
                Err(why) => problems.push(Problem::of_job(&job.name, why)),
            }
        }
        if job.fills_device {
            (job.size, job.io_size) = (None, None);
        }
        if job.verify.batch == 0 {
            job.verify.batch = job.verify.backlog;
        }
        job.apply_verify_only();
        if job.time_based && job.runtime_ns.is_none() {
            job.time_based = false;
            let why = "time_based has no effect without a runtime: as in fio, the job ends when its size is done";
            warnings.push(Problem::of_job(&job.name, why));
        }
        if job.log.hist_msec == 0 && job.log.hist_prefix.take().is_some() {
            let why = "write_hist_log has no effect without log_hist_msec - give log_hist_msec=1000 or the like";
            warnings.push(Problem::of_job(&job.name, why));
        }
        if job.engine == EngineKind::Null && job.verifies() {
            job.verify.method = Method::None;
            let why = "verify has no effect with ioengine=null, which stores no data";
            warnings.push(Problem::of_job(&job.name, why));
        }
        if job.reads_back() && job.time_based && job.verify.backlog == 0 {
            let why = "verify will not read any write back, because the time_based job writes until its runtime ends - give verify_backlog, or leave out time_based (fio's asynchronous engines would also read back after each pass)";
            warnings.push(Problem::of_job(&job.name, why));
        }
        job.numbers_iolog = jobs
            .iter()
            .any(|earlier: &Job| earlier.write_iolog == job.write_iolog);
        problems.extend(
            job.check()
                .into_iter()
                .map(|what| Problem::of_job(&job.name, what)),
        );
        if context.readonly && job.writes() {
            problems.push(Problem::of_job(
                &job.name,
                "the job writes or trims, which --readonly forbids - leave out --readonly, or give rw=read",
            ));
        }
        jobs.push(job);
    }
    let clones: u64 = jobs.iter().map(|job| job.numjobs).sum();
    if clones > JOBS_MAX {
        let why = format!("{clones} jobs in all, but at most {JOBS_MAX} can run - lower numjobs");
        problems.push(Problem::new("numjobs", why));
    }
    if problems.is_empty() {
        Ok(jobs)
    } else {
        Err(problems)
    }
}
