//! Converts a section to a job: options with their values, and contradictions between them.

use super::content::BytePattern;
use super::job::{DEPTH_MAX, DIRECTIONS, ExitWhat, FileOrder, JOBS_MAX, Job, RateTarget};
use super::options::{KnownOption, Support, find, has_no_effect, nearest};
use super::parse::{
    OptionValue, cpus, cpus_of_mask, cpus_of_nodes, distributions, file_sizes, filenames,
    latency_percentile, memory_nodes, memory_policy, parse_word, percentiles, positive,
    rw_modifier, size_range, size_split, unless_zero, write_back,
};
use super::pattern::Sizes;
use super::text::{GivenOption, Problem, Section};
use super::value::{MICROSECONDS, SECONDS, Unit, number};
use super::verify::Method;
use results::units::quoted;
use std::mem::discriminant;
use sys::op::WriteSync;

impl Job {
    /// Applies the options of `section`. Adds errors to `problems`, and options without effect to `warnings`.
    pub fn apply_section(
        &mut self,
        section: &Section,
        problems: &mut Vec<Problem>,
        warnings: &mut Vec<Problem>,
    ) {
        self.given_options.clear();
        // Sizes depend on kb_base, wherever it is given.
        let mut options: Vec<_> = section.options.iter().collect();
        options.sort_by_key(|given| given.name != "kb_base");
        for given_option in options {
            let problem = match find(&given_option.name) {
                None => {
                    let advice = nearest(&given_option.name).map_or_else(
                        || "check its name (--cmdhelp lists all options)".to_owned(),
                        |name| format!("did you mean {name}?"),
                    );
                    Some(format!(
                        "neither fio nor flashproof has this option - {advice}"
                    ))
                }
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
                    let result = self.set(known, given_option);
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
        contradictions(section, problems, warnings);
    }

    fn set(&mut self, option: &KnownOption, given_option: &GivenOption) -> Result<(), String> {
        let text = given_option.value.as_deref().unwrap_or("1");
        let value = OptionValue {
            text,
            kb_base: self.kb_base,
        };
        let yes = || value.boolean();
        let count = |least, most| value.count(least, most);
        let microseconds = || number(text, MICROSECONDS);
        // Without a value, a log is named after the job.
        let prefix = || Some(given_option.value.clone().unwrap_or_default());
        let default_size = Sizes::same(4096);
        match option.name {
            "iodepth_low" => {
                self.refill_low = unless_zero(count(0, DEPTH_MAX)?).unwrap_or(u64::MAX)
            }
            "iodepth_batch_complete_min" => self.refill_after = count(0, DEPTH_MAX)?,
            "numa_cpu_nodes" => self.cpus = cpus_of_nodes(text, memory_nodes)?,
            "numa_mem_policy" => memory_policy(
                text,
                memory_nodes("online").is_none_or(|nodes| nodes.trim() == "0"),
            )?,
            "steadystate" => self.steady.set_criterion(text)?,
            "steadystate_duration" => self.steady.duration_ns = number(text, SECONDS)?,
            "steadystate_ramp_time" => self.steady.ramp_ns = number(text, SECONDS)?,
            "invalidate" => self.keeps_cache = !yes()?,
            "pre_read" => self.pre_reads = yes()?,
            "file_append" => self.appends = yes()?,
            "create_only" => self.creates_only = yes()?,
            "overwrite" => self.overwrite = yes()?,
            "fallocate" => {
                let words = ["native", "posix", "keep", "1", "truncate", "none", "0"];
                let sparse = ["truncate", "none", "0"];
                self.sparse = parse_word(text, &words.map(|word| (word, sparse.contains(&word))))?;
            }
            "read_iolog" => self.replay.file = Some(text.to_owned()),
            "replay_no_stall" => self.replay.no_stall = yes()?,
            "replay_redirect" => {
                self.replay.redirect = Some(text.to_owned()).filter(|name| !name.is_empty())
            }
            "replay_align" => {
                self.replay.align = count(0, 1 << 40)?.max(1);
                if !self.replay.align.is_power_of_two() {
                    return Err("the value must be a power of two".into());
                }
            }
            "replay_scale" => self.replay.scale = count(0, u64::MAX)?.max(1),
            "write_iolog" => self.write_iolog = Some(text.to_owned()),
            "write_hist_log" => self.hist_log = prefix(),
            "log_hist_msec" => self.log_hist_msec = count(0, 3_600_000)?,
            "log_hist_coarseness" => self.log_hist_coarseness = count(0, 6)?,
            "log_unix_epoch" => self.log_unix_epoch = yes()?,
            "log_window_value" => {
                let mean = [true, false];
                let max = [false, true];
                let words = [
                    ("avg", mean),
                    ("max", max),
                    ("both", [true, true]),
                    ("0", mean),
                    ("1", max),
                ];
                self.log_values = parse_word(text, &words)?;
            }
            "log_issue_time" => self.log_issue_time = yes()?,
            "wait_for" => self.waits_for = Some(text.to_owned()),
            "zonemode" => {
                if text == "zbd" {
                    return Err("flashproof does not support the zones of zoned devices; without the option, flashproof would run: operations at any offset - leave zonemode and zonesize out if that is acceptable".into());
                }
                self.zones.mode_is_strided =
                    Some(parse_word(text, &[("none", false), ("strided", true)])?);
            }
            "zonesize" => self.zones.size = value.size()?.unless_zero(),
            "zonerange" => self.zones.range = value.size()?.unless_zero(),
            "zoneskip" => self.zones.skip = value.size()?.unless_zero(),
            name if name.starts_with("prio") || name.starts_with("cmdprio") => {
                self.priority.set(name, value)?
            }
            "name" => self.name = text.to_owned(),
            "description" => self.description = text.to_owned(),
            // As in fio, each filename adds to those given before.
            "filename" => self.filenames.extend(filenames(text)?),
            "directory" => self.directory = text.to_owned(),
            "nrfiles" => self.nrfiles = count(1, 1_024)?,
            "rw" => self.set_rw(text)?,
            "ioengine" => {
                // fio compares only these letters.
                let is_libaio = text.starts_with("aio") || text.starts_with("linuxaio");
                let text = if is_libaio { "libaio" } else { text };
                self.ioengine = Some(text.to_owned());
                (self.is_null, self.is_passthrough, self.is_mapped) =
                    (text == "null", text == "io_uring_cmd", text == "mmap");
                self.is_sync_engine =
                    ["sync", "psync", "vsync", "pvsync", "pvsync2", "mmap"].contains(&text);
                let others = ["io_uring", "libaio", "posixaio", "null", "io_uring_cmd"];
                if !self.is_sync_engine && !others.contains(&text) {
                    return Err("flashproof does not support this engine; without the option, flashproof would run: io_uring on the same files or devices - give ioengine=io_uring if that is acceptable".into());
                }
            }
            "cmd_type" => parse_word(text, &[("nvme", ())])?,
            "iodepth" => self.depth = count(1, DEPTH_MAX)?,
            "size" => self.size = value.size()?.unless_zero(),
            "io_size" => self.io_size = value.size()?.unless_zero(),
            "filesize" => self.filesize = Some(file_sizes(value)?),
            "offset" => self.offset = value.size()?,
            "offset_increment" => self.offset_increment = value.size()?,
            "number_ios" => self.number_ios = unless_zero(count(0, u64::MAX)?),
            "bs" => {
                self.sizes =
                    value.by_direction(default_size, |part| part.block_bytes().map(Sizes::same))?
            }
            "ba" => {
                self.align =
                    value.by_direction(None, |part| positive(part.count(0, u64::MAX)?).map(Some))?
            }
            "bsrange" => self.sizes = value.by_direction(default_size, size_range)?,
            "bssplit" => self.sizes = value.by_direction(default_size, size_split)?,
            "randrepeat" => self.randrepeat = yes()?,
            "randseed" => self.randseed = Some(count(0, u64::MAX)?),
            "norandommap" => self.norandommap = yes()?,
            "random_generator" => {
                self.lfsr = parse_word(
                    text,
                    &[
                        ("tausworthe", false),
                        ("tausworthe64", false),
                        ("lfsr", true),
                    ],
                )?;
            }
            "random_distribution" => self.distribution = distributions(value)?,
            "file_service_type" => {
                let (order, ops) = text.split_once(':').unwrap_or((text, "1"));
                let orders = [FileOrder::InTurn, FileOrder::Random, FileOrder::OneByOne];
                let words = ["roundrobin", "random", "sequential"]
                    .into_iter()
                    .zip(orders)
                    .collect::<Vec<_>>();
                self.file_order = parse_word(order, &words)?;
                self.file_ops = number(ops, Unit::Kilo(self.kb_base))?.max(1);
            }
            "fsync" => self.flush_every[0] = count(0, u64::MAX)?,
            "fdatasync" => self.flush_every[1] = count(0, u64::MAX)?,
            "sync_file_range" => (self.write_back, self.flush_every[2]) = write_back(text)?,
            "direct" => self.direct = yes()?,
            "buffered" => self.direct = !yes()?,
            "numjobs" => self.numjobs = count(1, JOBS_MAX)?,
            "cpus_allowed" => self.cpus = cpus(text)?,
            "cpumask" => self.cpus = cpus_of_mask(number(text, Unit::Plain)?)?,
            "cpus_allowed_policy" => {
                self.splits_cpus = parse_word(text, &[("shared", false), ("split", true)])?
            }
            "runtime" => self.runtime_ns = unless_zero(value.seconds_ns()?),
            "time_based" => self.time_based = yes()?,
            "ramp_time" => self.ramp_ns = value.seconds_ns()?,
            "loops" => self.loops = count(0, u64::MAX)?.max(1),
            "rwmixread" => self.read_pct = count(0, 100)?,
            "rwmixwrite" => self.read_pct = 100 - count(0, 100)?,
            "thinktime" => self.think_ns[0] = microseconds()?,
            "thinktime_spin" => self.think_ns[1] = microseconds()?,
            "thinktime_blocks" => self.think_blocks = unless_zero(count(0, u64::MAX)?),
            "thinktime_blocks_type" => parse_word(text, &[("complete", ()), ("issue", ())])?,
            "rate_ignore_thinktime" => self.rate_ignores_thinktime = yes()?,
            "thinktime_iotime" => self.think_work_ns = number(text, SECONDS)?,
            "latency_target" => self.latency_target.latency_ns = microseconds()?,
            "latency_window" => self.latency_target.window_ns = microseconds()?,
            "latency_percentile" => self.latency_target.percentile = latency_percentile(text)?,
            "max_latency" => {
                let all = value.by_direction(0, |part| number(part.text, MICROSECONDS))?;
                self.latency_max_ns = all.map(|ns| unless_zero(ns).unwrap_or(u64::MAX));
            }
            "percentage_random" => {
                match value.by_direction(100, |part| number(part.text, Unit::Plain))? {
                    all if all.iter().all(|percent| *percent <= 100) => self.random_pct = all,
                    _ => return Err("the value is above the maximum of 100".into()),
                }
            }
            "startdelay" => self.start_delay_ns = value.seconds_ns()?,
            "end_fsync" | "fsync_on_close" => self.end_flush = yes()?,
            "exitall" => self.exit_all = yes()?,
            "exitall_on_error" => self.exit_all_on_error = yes()?,
            "exit_what" => {
                let jobs = [
                    ("group", ExitWhat::Group),
                    ("stonewall", ExitWhat::Stonewall),
                    ("all", ExitWhat::All),
                ];
                self.exit_what = parse_word(text, &jobs)?;
            }
            "fill_device" => self.fills_device = yes()?,
            "filename_format" => self.filename_format = text.to_owned(),
            "log_offset" => self.log_offset = yes()?,
            "log_prio" => self.log_prio = yes()?,
            "rate_min" => set_rates(&mut self.min_rates, value, RateTarget::Bytes)?,
            "rate_iops_min" => set_rates(&mut self.min_rates, value, RateTarget::Iops)?,
            "rate_cycle" => self.rate_cycle_ns = count(0, 3_600_000)? * 1_000_000,
            "rate" => set_rates(&mut self.rates, value, RateTarget::Bytes)?,
            "rate_iops" => set_rates(&mut self.rates, value, RateTarget::Iops)?,
            "rate_process" => {
                self.poisson = parse_word(text, &[("linear", false), ("poisson", true)])?
            }
            "sync" => {
                let no = WriteSync::No;
                let data = WriteSync::Data;
                let file = WriteSync::File;
                self.sync = parse_word(
                    text,
                    &[
                        ("none", no),
                        ("dsync", data),
                        ("sync", file),
                        ("0", no),
                        ("1", file),
                    ],
                )?;
            }
            "stonewall" => self.stonewall = yes()?,
            "new_group" => self.new_group = yes()?,
            "group_reporting" => self.group_reporting = yes()?,
            "write_bw_log" => self.logs[0] = prefix(),
            "write_lat_log" => self.logs[1] = prefix(),
            "write_iops_log" => self.logs[2] = prefix(),
            "per_job_logs" => self.per_job_logs = yes()?,
            "log_avg_msec" => self.log_avg_msec = count(0, 3_600_000)?,
            // Buffers are always refilled.
            "refill_buffers" => drop(yes()?),
            "clat_percentiles" => self.percentiles_of[0] = yes()?,
            "lat_percentiles" => self.percentiles_of[1] = yes()?,
            "percentile_list" => self.percentiles = percentiles(text)?,
            "kb_base" => match number(text, Unit::Plain)? {
                base @ (1_000 | 1_024) => self.kb_base = base,
                _ => return Err("the value must be 1000 or 1024".into()),
            },
            "verify" => self.verify.method = Method::parse(text)?,
            "verify_pattern" => {
                self.verify.pattern = Some(BytePattern::parse(text, true)?);
                if self.verify.method == Method::None {
                    self.verify.method = Method::PatternHeader;
                }
            }
            "verify_interval" => self.verify.interval = unless_zero(count(0, 1 << 30)?),
            "do_verify" => self.verify.reads_back = yes()?,
            "verify_only" => self.verify.only = yes()?,
            "verify_fatal" => self.verify.is_fatal = yes()?,
            "verify_dump" => self.verify.dumps = yes()?,
            "verify_backlog" => self.verify.backlog = count(0, 1 << 24)?,
            "verify_backlog_batch" => self.verify.batch = count(0, 1 << 24)?,
            "verify_state_save" => self.verify.saves_state = Some(yes()?),
            "verify_state_load" => self.verify.loads_state = yes()?,
            "zero_buffers" => (self.content.zeros, self.content.pattern) = (yes()?, None),
            "buffer_pattern" => {
                (self.content.zeros, self.content.pattern) =
                    (false, Some(BytePattern::parse(text, false)?));
            }
            "buffer_compress_percentage" => self.content.compress_pct = count(0, 100)?,
            "buffer_compress_chunk" => self.content.chunk_bytes = count(0, 1 << 30)?,
            "dedupe_percentage" => self.content.dedupe_pct = count(0, 100)?,
            "dedupe_mode" => {
                self.content.dedupe_from_set =
                    parse_word(text, &[("repeat", false), ("working_set", true)])?
            }
            name => unreachable!("{name} is in the option table, but no code applies it"),
        }
        Ok(())
    }

    fn set_rw(&mut self, text: &str) -> Result<(), String> {
        let (rw, modifier) = text
            .split_once(':')
            .map_or((text, None), |(rw, modifier)| (rw, Some(modifier)));
        let (random, kinds) = rw
            .strip_prefix("rand")
            .map_or((false, rw), |kinds| (true, kinds));
        self.does = match kinds {
            "read" => [true, false, false],
            "write" => [false, true, false],
            "trim" => [false, false, true],
            "rw" | "readwrite" => [true, true, false],
            "trimwrite" => [false, true, true],
            _ => return Err(
                "the value must be one of read, write, trim, randread, randwrite, randtrim, rw, randrw, trimwrite, randtrimwrite"
                    .into(),
            ),
        };
        (self.random, self.trim_write) = (random, kinds == "trimwrite");
        (self.skip, self.run_length) = modifier.map_or(Ok((0, 1)), |modifier| {
            rw_modifier(modifier, random, self.kb_base)
        })?;
        Ok(())
    }
}

/// Sets rates by direction. An empty entry and 0 leave a direction unlimited, unless the other option of the pair (in
/// bytes, in operations) gave it a rate.
fn set_rates(
    rates: &mut [RateTarget; DIRECTIONS],
    value: OptionValue<'_>,
    to_target: fn(u64) -> RateTarget,
) -> Result<(), String> {
    let given = value.by_direction(0, |part| part.count(0, u64::MAX))?;
    for (rate, given) in rates.iter_mut().zip(given) {
        match unless_zero(given) {
            Some(given) => *rate = to_target(given),
            None if discriminant(rate) == discriminant(&to_target(0)) => {
                *rate = RateTarget::Unlimited
            }
            None => {}
        }
    }
    Ok(())
}

/// Finds options of one section that exclude each other.
fn contradictions(section: &Section, problems: &mut Vec<Problem>, warnings: &mut Vec<Problem>) {
    if let Some((reads, writes, given)) = both_given(section, "rwmixread", "rwmixwrite")
        && reads.saturating_add(writes) != 100
    {
        let why = "rwmixread and rwmixwrite contradict each other - leave one out";
        problems.push(Problem::new(&given.position, why));
    }
    if let Some((rate, iops, given)) = both_given(section, "rate", "rate_iops")
        && rate > 0
        && iops > 0
    {
        let why = "rate and rate_iops contradict each other - leave one out";
        problems.push(Problem::new(&given.position, why));
    }
    if let Some((direct, buffered, given)) = both_given(section, "direct", "buffered")
        && direct == buffered
    {
        let why = "direct and buffered contradict each other - the last of them counts";
        warnings.push(Problem::new(&given.position, why));
    }
}

/// Values of two options and the second option; `None` if the section has only one of them.
fn both_given<'s>(
    section: &'s Section,
    first_name: &str,
    second_name: &str,
) -> Option<(u64, u64, &'s GivenOption)> {
    let (first, _) = last_number(section, first_name)?;
    let (second, given) = last_number(section, second_name)?;
    Some((first, second, given))
}

/// The last option `name` of the section, and its value; `u64::MAX`: the value is not a number.
fn last_number<'s>(section: &'s Section, name: &str) -> Option<(u64, &'s GivenOption)> {
    let given = section.options.iter().rfind(
        |given| matches!(find(&given.name), Some(Support::Known(known)) if known.name == name),
    )?;
    let text = given.value.as_deref().unwrap_or("1");
    Some((number(text, Unit::Plain).unwrap_or(u64::MAX), given))
}
