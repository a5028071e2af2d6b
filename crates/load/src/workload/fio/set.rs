//! Converts a section to a job: options with their values, and contradictions between them.

use super::iolog::skipped;
use super::job::{DEPTH_MAX, DIRECTIONS, ExitWhat, JOBS_MAX, Job, Wanted};
use super::options::{Known, Support, find, is_off, nearest};
use super::parse::{
    above_zero, bounded_seconds, by_direction, cpus, cpus_of_mask, cpus_of_nodes, distribution, filenames,
    is_sync_engine, latency_percentile, memory_nodes, memory_policy, percentiles, positive, rw_modifier, size_one,
    size_range, size_split, word, write_back,
};
use super::pattern::{Distribution, Sizes};
use super::text::{COMMAND_LINE, Given, Problem, Section};
use super::value::{MICROSECONDS, SECONDS, Size, Unit, number, size};
use results::units::quoted;
use sys::op::WriteSync;

impl Job {
    /// Applies the options of `section`. Adds errors to `problems`, and options without effect to `warnings`.
    pub fn take(&mut self, section: &Section, problems: &mut Vec<Problem>, warnings: &mut Vec<Problem>) {
        self.given.clear();
        if section.options.iter().any(|given| given.at == COMMAND_LINE) {
            self.given.push(("name".into(), section.name.clone()));
        }
        // Other values depend on these, wherever they are given.
        let mut options: Vec<_> = section.options.iter().collect();
        options.sort_by_key(|given| match find(&given.name) {
            Some(Support::Known(known)) => {
                ["kb_base", "zonesize"].iter().position(|name| *name == known.name).unwrap_or(2)
            }
            _ => 2,
        });
        for given in options {
            let written = given.value.as_ref().map_or(given.name.clone(), |value| format!("{}={value}", given.name));
            let mut problem =
                |what: String| problems.push(Problem::new(&given.at, format!("{} - {what}", quoted(&written))));
            match find(&given.name) {
                None => {
                    let advice = nearest(&given.name).map_or_else(
                        || "check its name (--cmdhelp lists them)".to_owned(),
                        |name| format!("did you mean {name}?"),
                    );
                    problem(format!("neither fio nor flashproof has this option - {advice}"));
                }
                Some(Support::Missing(_)) if is_off(&given.name, given.value.as_deref()) => {}
                Some(Support::Missing(without)) => problem(format!(
                    "flashproof does not have this option; without it would run: {without} - leave it out if that will do"
                )),
                Some(Support::NoDifference(why)) => {
                    let what = format!("{} makes no difference here: {why}", given.name);
                    warnings.push(Problem::new(&given.at, what));
                    self.in_force.push(given.clone());
                }
                Some(Support::Known(known)) => {
                    if let Err(what) = self.set(known, given) {
                        problem(what);
                    }
                    if known.name == "thinktime_spin" {
                        warnings.push(Problem::new(&given.at, "thinktime_spin pauses asleep here: no CPU is burnt"));
                    }
                    // fio reports no option without a value.
                    self.given.extend(given.value.clone().map(|value| (known.name.to_owned(), value)));
                    self.in_force.push(Given { name: known.name.to_owned(), ..given.clone() });
                }
            }
        }
        contradictions(section, problems);
    }

    fn set(&mut self, option: &Known, given: &Given) -> Result<(), String> {
        let text = given.value.as_deref().unwrap_or("1");
        let kb_base = self.kb_base;
        let kilo = Unit::Kilo(kb_base);
        let yes = || match number(text, Unit::Plain)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err("it is 0 or 1".to_owned()),
        };
        let count = |least: u64, most: u64| match number(text, kilo)? {
            value if value < least => Err(format!("it is less than {least}")),
            value if value > most => Err(format!("it is more than {most}")),
            value => Ok(value),
        };
        let time = |unit| number(text, unit);
        let zone_size = self.zones.size;
        // As many zones, or a size.
        let sized = || match (text.strip_suffix('z').map(|zones| number(zones, Unit::Plain)), zone_size) {
            (Some(Ok(zones)), Some(Size::Bytes(bytes))) => {
                zones.checked_mul(bytes).map(Size::Bytes).ok_or_else(|| "it is too large".to_owned())
            }
            (Some(Ok(_)), _) => {
                Err("zones are of zonesize - give it in this section or a global one before".to_owned())
            }
            _ => size(text, kb_base),
        };
        let share = || text.parse::<f64>().ok().filter(|of| (0.0..=1.0).contains(of)).ok_or("it is not 0 to 1");
        match option.name {
            "flow" => self.flow.weight = count(0, 1_000_000)?,
            "flow_id" => self.flow.id = count(0, u64::MAX)?,
            "flow_sleep" => self.flow.sleep_ns = time(MICROSECONDS)?,
            "iodepth_low" => self.refill.low = count(1, DEPTH_MAX)?,
            "iodepth_batch_complete_min" => self.refill.after = count(0, DEPTH_MAX)?,
            "numa_cpu_nodes" => self.cpus = cpus_of_nodes(text, memory_nodes)?,
            "numa_mem_policy" => memory_policy(text, memory_nodes("online").is_none_or(|nodes| nodes.trim() == "0"))?,
            "steadystate" | "steadystate_duration" | "steadystate_ramp_time" | "steadystate_check_interval" => {
                self.steady.set(option.name, text)?;
            }
            "invalidate" => self.keeps_cache = !yes()?,
            "pre_read" => self.pre_reads = yes()?,
            "file_append" => self.appends = yes()?,
            "create_only" => self.creates_only = yes()?,
            "overwrite" => self.overwrite = yes()?,
            "fallocate" => {
                word(text, &["native", "posix", "keep", "1", "truncate", "none", "0"])?;
                self.sparse = ["truncate", "none", "0"].contains(&text);
            }
            "read_iolog" => self.replay.file = Some(text.to_owned()),
            "replay_no_stall" => self.replay.no_stall = yes()?,
            "replay_redirect" => self.replay.redirect = Some(text.to_owned()).filter(|name| !name.is_empty()),
            "replay_time_scale" => self.replay.time_scale = count(1, 1_000_000)?,
            "replay_align" => {
                self.replay.align = count(0, 1 << 40)?.max(1);
                if !self.replay.align.is_power_of_two() {
                    return Err("it is no power of two".into());
                }
            }
            "replay_scale" => self.replay.scale = count(0, u64::MAX)?.max(1),
            "replay_skip" => self.replay.skip = skipped(text)?,
            "write_iolog" => self.write_iolog = Some(text.to_owned()),
            "write_hist_log" => self.hist_log = Some(given.value.clone().unwrap_or_default()),
            "log_hist_msec" => self.log_hist_msec = count(0, 3_600_000)?,
            "log_hist_coarseness" => self.log_hist_coarseness = count(0, 6)?,
            "log_unix_epoch" => self.log_unix_epoch = yes()?,
            "log_max_value" => self.log_max_value = yes()?,
            "wait_for" => self.waits_for = Some(text.to_owned()),
            "zonemode" => {
                word(text, &["none", "strided", "zbd"])?;
                (self.zones.strided, self.zbd.is_on) = (text == "strided", text == "zbd");
            }
            "zonecapacity" => self.zbd.capacity = count(1, u64::MAX)?,
            "read_beyond_wp" => self.zbd.reads_beyond = yes()?,
            "max_open_zones" => self.zbd.open_max = count(0, u32::MAX.into())?,
            "job_max_open_zones" => self.zbd.job_open_max = count(0, u32::MAX.into())?,
            "zone_reset_threshold" => self.zbd.reset_threshold = share()?,
            "zone_reset_frequency" => self.zbd.reset_frequency = share()?,
            "zonesize" => self.zones.size = Some(above_zero(size(text, kb_base)?)?),
            "zonerange" => self.zones.range = Some(above_zero(size(text, kb_base)?)?),
            "zoneskip" => self.zones.skip = Some(size(text, kb_base)?),
            "prio" | "prioclass" | "priohint" | "cmdprio" | "cmdprio_class" | "cmdprio_hint" | "cmdprio_percentage"
            | "cmdprio_bssplit" => self.priority.set(option.name, text, kb_base)?,
            "name" => self.name = text.to_owned(),
            "description" => self.description = text.to_owned(),
            "filename" => self.filenames = filenames(text)?,
            "directory" => self.directory = text.to_owned(),
            "nrfiles" => self.nrfiles = count(1, 1_024)?,
            "rw" => self.set_rw(text)?,
            "ioengine" => {
                self.is_null = text == "null";
                self.is_passthrough = text == "io_uring_cmd";
                self.is_mapped = text == "mmap";
                self.is_sync_engine = !self.is_null && !self.is_passthrough && is_sync_engine(text)?;
            }
            "cmd_type" => word(text, &["nvme"])?,
            "hipri" => self.is_polled = yes()?,
            "iodepth" => self.depth = count(1, DEPTH_MAX)?,
            "size" => self.size = Some(above_zero(sized()?)?),
            "io_size" => self.io_size = Some(above_zero(sized()?)?),
            "filesize" => self.filesize = Some(count(1, u64::MAX)?),
            "offset" => self.offset = sized()?,
            "offset_increment" => self.offset_increment = sized()?,
            "number_ios" => self.number_ios = Some(count(1, u64::MAX)?),
            "bs" => self.sizes = sizes(text, |text| size_one(text, kb_base))?,
            "ba" => self.align = by_direction(text, |text| number(text, kilo).and_then(positive))?,
            "bsrange" => self.sizes = sizes(text, |text| size_range(text, kb_base))?,
            "bssplit" => self.sizes = sizes(text, |text| size_split(text, kb_base))?,
            "randrepeat" => self.randrepeat = yes()?,
            "randseed" => self.randseed = Some(count(0, u64::MAX)?),
            "norandommap" => self.norandommap = yes()?,
            "random_generator" => word(text, &["tausworthe", "tausworthe64", "lfsr"])?,
            "random_distribution" => {
                let all = by_direction(text, |text| distribution(text, kb_base))?;
                self.distribution = all.map(|distribution| distribution.unwrap_or(Distribution::Uniform));
            }
            "file_service_type" => {
                word(text, &["roundrobin", "random"])?;
                self.random_file = text == "random";
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
                word(text, &["shared", "split"])?;
                self.splits_cpus = text == "split";
            }
            "runtime" => self.runtime_ns = Some(bounded_seconds(time(SECONDS)?)?).filter(|ns| *ns > 0),
            "time_based" => self.time_based = yes()?,
            "ramp_time" => self.ramp_ns = bounded_seconds(time(SECONDS)?)?,
            "loops" => self.loops = count(1, u64::MAX)?,
            "rwmixread" => self.read_pct = count(0, 100)?,
            "rwmixwrite" => self.read_pct = 100 - count(0, 100)?,
            "thinktime" => self.think_ns[0] = time(MICROSECONDS)?,
            "thinktime_spin" => self.think_ns[1] = time(MICROSECONDS)?,
            "thinktime_blocks" => self.think_blocks = Some(count(1, u64::MAX)?),
            "thinktime_blocks_type" => word(text, &["complete", "issue"])?,
            "thinktime_iotime" => self.think_work_ns = time(SECONDS)?,
            "latency_target" => self.latency_target.latency_ns = time(MICROSECONDS)?,
            "latency_window" => self.latency_target.window_ns = time(MICROSECONDS)?,
            "latency_percentile" => self.latency_target.percentile = latency_percentile(text)?,
            "latency_run" => self.latency_target.goes_on = yes()?,
            "max_latency" => {
                let all = by_direction(text, |text| number(text, MICROSECONDS))?;
                self.latency_max_ns = all.map(|ns| ns.filter(|ns| *ns > 0).unwrap_or(u64::MAX));
            }
            "percentage_random" => {
                let all = by_direction(text, |text| number(text, Unit::Plain))?.map(|percent| percent.unwrap_or(100));
                match all.iter().max() {
                    Some(..=100) => self.random_pct = all,
                    _ => return Err("it is more than 100".into()),
                }
            }
            "startdelay" => self.start_delay_ns = bounded_seconds(time(SECONDS)?)?,
            "end_fsync" | "fsync_on_close" => self.end_flush = yes()?,
            "exitall" => self.exit_all = yes()?,
            "exit_what" => {
                self.exit_what = match text {
                    "group" => ExitWhat::Group,
                    "stonewall" => ExitWhat::Stonewall,
                    "all" => ExitWhat::All,
                    _ => return Err("it is one of group, stonewall, all".into()),
                }
            }
            "fill_device" => self.fills = yes()?,
            "filename_format" => self.filename_format = text.to_owned(),
            "log_offset" => self.log_offset = yes()?,
            "log_prio" => self.log_prio = yes()?,
            "rate_min" => set_rates(&mut self.least, text, kilo, Wanted::Bytes)?,
            "rate_iops_min" => set_rates(&mut self.least, text, kilo, Wanted::Iops)?,
            "rate_cycle" => self.rate_cycle_ns = count(1, 3_600_000)? * 1_000_000,
            "rate" => set_rates(&mut self.wanted, text, kilo, Wanted::Bytes)?,
            "rate_iops" => set_rates(&mut self.wanted, text, kilo, Wanted::Iops)?,
            "rate_process" => {
                word(text, &["linear", "poisson"])?;
                self.poisson = text == "poisson";
            }
            "sync" => {
                self.sync = match text {
                    "none" | "0" => WriteSync::No,
                    "dsync" => WriteSync::Data,
                    "sync" | "1" => WriteSync::File,
                    _ => return Err("it is one of none, dsync, sync, 0, 1".into()),
                }
            }
            "stonewall" => self.stonewall = yes()?,
            "new_group" => self.new_group = yes()?,
            "group_reporting" => self.group_reporting = yes()?,
            // Alone it is named like the job.
            "write_bw_log" => self.logs[0] = Some(given.value.clone().unwrap_or_default()),
            "write_lat_log" => self.logs[1] = Some(given.value.clone().unwrap_or_default()),
            "write_iops_log" => self.logs[2] = Some(given.value.clone().unwrap_or_default()),
            "per_job_logs" => self.per_job_logs = yes()?,
            "log_avg_msec" => self.log_avg_msec = count(0, 3_600_000)?,
            // Buffers are always refilled.
            "refill_buffers" => drop(yes()?),
            "clat_percentiles" => self.percentiles_of[0] = yes()?,
            "lat_percentiles" => self.percentiles_of[1] = yes()?,
            "percentile_list" => self.percentiles = percentiles(text)?,
            "kb_base" => match number(text, Unit::Plain)? {
                base @ (1_000 | 1_024) => self.kb_base = base,
                _ => return Err("it is 1000 or 1024".into()),
            },
            name if self.set_verify(name, text)? => {}
            name => unreachable!("{name} stands in the table and is not set"),
        }
        Ok(())
    }

    fn set_rw(&mut self, text: &str) -> Result<(), String> {
        let (text, modifier) = text.split_once(':').map_or((text, None), |(rw, modifier)| (rw, Some(modifier)));
        (self.does, self.random) = match text {
            "read" => ([true, false, false], false),
            "write" => ([false, true, false], false),
            "trim" => ([false, false, true], false),
            "randread" => ([true, false, false], true),
            "randwrite" => ([false, true, false], true),
            "randtrim" => ([false, false, true], true),
            "rw" | "readwrite" => ([true, true, false], false),
            "randrw" | "randreadwrite" => ([true, true, false], true),
            "trimwrite" => ([false, true, true], false),
            "randtrimwrite" => ([false, true, true], true),
            _ => {
                return Err("it is one of read, write, trim, randread, randwrite, randtrim, rw, randrw, trimwrite, randtrimwrite".into());
            }
        };
        self.trim_write = text.ends_with("trimwrite");
        (self.skip, self.run_length) = rw_modifier(modifier, self.random, self.kb_base)?;
        Ok(())
    }
}

/// The sizes in `text`, by direction. An empty entry is fio's default.
fn sizes(text: &str, read: impl Fn(&str) -> Result<Sizes, String>) -> Result<[Sizes; DIRECTIONS], String> {
    Ok(by_direction(text, read)?.map(|sizes| sizes.unwrap_or_else(|| Sizes::same(4096))))
}

/// The rates in `text`, by direction. An empty entry and 0 leave a direction unlimited.
fn set_rates(
    rates: &mut [Wanted; DIRECTIONS],
    text: &str,
    unit: Unit,
    of: impl Fn(u64) -> Wanted,
) -> Result<(), String> {
    let given = by_direction(text, |text| number(text, unit))?;
    if given.contains(&Some(0)) && !text.contains(',') {
        return Err("a rate of zero does nothing - leave it out for no limit, or give one".into());
    }
    *rates = given.map(|rate| rate.filter(|rate| *rate > 0).map_or(Wanted::Unlimited, &of));
    Ok(())
}

/// Options of one section that cannot both be meant.
fn contradictions(section: &Section, problems: &mut Vec<Problem>) {
    let value = |name: &str| {
        let given = section
            .options
            .iter()
            .rfind(|given| matches!(find(&given.name), Some(Support::Known(known)) if known.name == name))?;
        Some((given, number(given.value.as_deref().unwrap_or("1"), Unit::Plain).unwrap_or(u64::MAX)))
    };
    let mut both = |one: &str, other: &str, agree: &dyn Fn(u64, u64) -> bool| {
        if let (Some((_, a)), Some((given, b))) = (value(one), value(other))
            && !agree(a, b)
        {
            problems.push(Problem::new(&given.at, format!("{one} and {other} contradict each other - leave one out")));
        }
    };
    both("direct", "buffered", &|a, b| a != b);
    both("rwmixread", "rwmixwrite", &|a, b| a.saturating_add(b) == 100);
    both("rate", "rate_iops", &|_, _| false);
}
