//! A job: what a section says, with what the global ones before it said, in values.

use super::Surroundings;
use super::options::{Known, Standing, find};
use super::pattern::{Distribution, Sizes, Zone};
use super::text::{Given, Problem, Section};
use super::value::{MICROSECONDS, SECONDS, Size, Unit, number, size};
use crate::rate::Rate;
use results::units::quoted;

const NS_PER_SEC: u64 = 1_000_000_000;

/// No operation is larger: a buffer of this size for each that is in flight.
const BLOCK_MAX: u64 = 1 << 30;

/// Percentiles that a report has at most, as fio.
const PERCENTILES_MAX: usize = 20;

/// Clones of a job, and jobs in all, at most.
pub(super) const JOBS_MAX: u64 = 4_096;

/// Operations in flight of a job at most: what a ring can take back.
pub(super) const DEPTH_MAX: u64 = 32_768;

/// Reads, writes, trims.
pub(super) const DIRECTIONS: usize = 3;

/// What a direction is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Wanted {
    /// As much as it takes.
    #[default]
    Unlimited,
    /// Operations a second.
    Iops(u64),
    /// Bytes a second.
    Bytes(u64),
}

impl Wanted {
    /// Operations of `mean_bytes` a second; `None` where it is unlimited.
    pub fn rate(self, mean_bytes: f64) -> Option<Rate> {
        match self {
            Self::Unlimited => None,
            Self::Iops(iops) => Some(Rate::per_sec(iops)),
            // Thousandths of a byte are enough of a mean of sizes.
            Self::Bytes(bytes) => Rate::new(u128::from(bytes) * 1_000, (mean_bytes * 1_000.0) as u128),
        }
    }
}

/// A job.
#[derive(Debug, Clone)]
pub struct Job {
    /// What it is called.
    pub name: String,
    /// A text of the user's.
    pub description: String,
    /// Which of reads, writes and trims it does.
    pub does: [bool; DIRECTIONS],
    /// At random places.
    pub random: bool,
    /// Percent of reads among reads and writes.
    pub read_pct: u64,
    /// What it works on; empty: files of its own.
    pub filenames: Vec<String>,
    /// Where these are.
    pub directory: String,
    /// How many.
    pub nrfiles: u64,
    /// Which of its files is next: at random, not in turns.
    pub random_file: bool,
    /// Sizes of operations.
    pub sizes: [Sizes; DIRECTIONS],
    /// What offsets are multiples of.
    pub align: [Option<u64>; DIRECTIONS],
    /// Bytes that are used of each file.
    pub size: Option<Size>,
    /// Size of files that are made.
    pub filesize: Option<u64>,
    /// First byte that is used.
    pub offset: Size,
    /// Added to it for each further clone.
    pub offset_increment: Size,
    /// Bytes that it moves.
    pub io_size: Option<Size>,
    /// Operations that it does.
    pub number_ios: Option<u64>,
    /// So often.
    pub loops: u64,
    /// Rates.
    pub wanted: [Wanted; DIRECTIONS],
    /// With exponential gaps.
    pub poisson: bool,
    /// Operations in flight.
    pub depth: u64,
    /// The engine is one that has one in flight.
    pub is_sync_engine: bool,
    /// Clones.
    pub numjobs: u64,
    /// Time after which it ends.
    pub runtime_ns: Option<u64>,
    /// It begins again when it is done.
    pub time_based: bool,
    /// Time before what counts.
    pub ramp_ns: u64,
    /// Past the page cache.
    pub direct: bool,
    /// Each write is on the medium when it completes.
    pub sync: bool,
    /// Writes between two flushes; 0: no flush.
    pub flush_every: u64,
    /// Writes zeros.
    pub zeros: bool,
    /// Percent of what is written that is zeros.
    pub compress_pct: u64,
    /// Random places come again before each had its turn.
    pub norandommap: bool,
    /// Which random places.
    pub distribution: [Distribution; DIRECTIONS],
    /// The same random choices each time.
    pub randrepeat: bool,
    /// Seed of these.
    pub randseed: Option<u64>,
    /// Pause after each operation.
    pub think_ns: u64,
    /// Reported together with others of its group.
    pub group_reporting: bool,
    /// Waits until those before have ended.
    pub stonewall: bool,
    /// Begins a group.
    pub new_group: bool,
    /// Prefixes of logs: bandwidth, latency, operations.
    pub logs: [Option<String>; 3],
    /// Names of logs have the number of the job.
    pub per_job_logs: bool,
    /// What a line of a log is the mean over, milliseconds.
    pub log_avg_msec: u64,
    /// Whether percentiles of completion latencies are reported, and of total ones.
    pub percentiles_of: [bool; 2],
    /// Which.
    pub percentiles: Vec<f64>,
    /// What `k` is.
    pub kb_base: u64,
    /// As they were given in its section.
    pub given: Vec<(String, String)>,
}

impl Default for Job {
    fn default() -> Self {
        Self {
            name: String::new(),
            description: String::new(),
            does: [true, false, false],
            random: false,
            read_pct: 50,
            filenames: Vec::new(),
            directory: String::new(),
            nrfiles: 1,
            random_file: false,
            sizes: std::array::from_fn(|_| Sizes::same(4096)),
            align: [None; DIRECTIONS],
            size: None,
            filesize: None,
            offset: Size::Bytes(0),
            offset_increment: Size::Bytes(0),
            io_size: None,
            number_ios: None,
            loops: 1,
            wanted: [Wanted::Unlimited; DIRECTIONS],
            poisson: false,
            depth: 1,
            is_sync_engine: false,
            numjobs: 1,
            runtime_ns: None,
            time_based: false,
            ramp_ns: 0,
            direct: false,
            sync: false,
            flush_every: 0,
            zeros: false,
            compress_pct: 0,
            norandommap: false,
            distribution: std::array::from_fn(|_| Distribution::Uniform),
            randrepeat: true,
            randseed: None,
            think_ns: 0,
            group_reporting: false,
            stonewall: false,
            new_group: false,
            logs: [None, None, None],
            per_job_logs: true,
            log_avg_msec: 0,
            percentiles_of: [true, false],
            percentiles: vec![
                1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95, 99.99,
            ],
            kb_base: 1024,
            given: Vec::new(),
        }
    }
}

impl Job {
    /// Takes over what `section` says. Tells `problems` all that it cannot, and `warnings` what makes no difference.
    pub fn take(&mut self, section: &Section, problems: &mut Vec<Problem>, warnings: &mut Vec<Problem>) {
        self.given.clear();
        // Whatever is read depends on it, wherever it stands.
        let (first, others): (Vec<_>, Vec<_>) = section.options.iter().partition(|given| given.name == "kb_base");
        for given in first.into_iter().chain(others) {
            let written = given.value.as_ref().map_or(given.name.clone(), |value| format!("{}={value}", given.name));
            let mut problem =
                |what: String| problems.push(Problem::new(&given.at, format!("{} - {what}", quoted(&written))));
            match find(&given.name) {
                None => {
                    problem("neither fio nor flashproof has this option - check its name (--cmdhelp lists them)".into())
                }
                Some(Standing::Missing(_, without)) => problem(format!(
                    "flashproof does not have this option; without it would run: {without} - leave it out if that will do"
                )),
                Some(Standing::NoDifference(name, why)) => {
                    warnings.push(Problem::new(&given.at, format!("{name} makes no difference here: {why}")))
                }
                Some(Standing::Known(known)) => {
                    if let Err(what) = self.set(known, given) {
                        problem(what);
                    }
                    self.given.push((known.name.to_owned(), given.value.clone().unwrap_or_else(|| "1".into())));
                }
            }
        }
        contradictions(section, problems);
    }

    fn set(&mut self, option: &Known, given: &Given) -> Result<(), String> {
        let text = given.value.as_deref().unwrap_or("1");
        let kilo = Unit::Kilo(self.kb_base);
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
        match option.name {
            "name" => self.name = text.to_owned(),
            "description" => self.description = text.to_owned(),
            "filename" => self.filenames = filenames(text)?,
            "directory" => self.directory = text.to_owned(),
            "nrfiles" => self.nrfiles = count(1, 1_024)?,
            "rw" => self.set_rw(text)?,
            "ioengine" => self.is_sync_engine = is_sync_engine(text)?,
            "iodepth" => self.depth = count(1, DEPTH_MAX)?,
            "size" => self.size = Some(above_zero(size(text, self.kb_base)?)?),
            "io_size" => self.io_size = Some(above_zero(size(text, self.kb_base)?)?),
            "filesize" => self.filesize = Some(count(1, u64::MAX)?),
            "offset" => self.offset = size(text, self.kb_base)?,
            "offset_increment" => self.offset_increment = size(text, self.kb_base)?,
            "number_ios" => self.number_ios = Some(count(1, u64::MAX)?),
            "bs" => {
                let kb_base = self.kb_base;
                let all = by_direction(text, |text| Sizes::parse_one(text, kb_base))?;
                self.sizes = all.map(|sizes| sizes.unwrap_or_else(|| Sizes::same(4096)));
            }
            "ba" => self.align = by_direction(text, |text| number(text, kilo).and_then(positive))?,
            "bsrange" => {
                let kb_base = self.kb_base;
                let all = by_direction(text, |text| Sizes::parse_range(text, kb_base))?;
                self.sizes = all.map(|sizes| sizes.unwrap_or_else(|| Sizes::same(4096)));
            }
            "bssplit" => {
                let kb_base = self.kb_base;
                let all = by_direction(text, |text| Sizes::parse_split(text, kb_base))?;
                self.sizes = all.map(|sizes| sizes.unwrap_or_else(|| Sizes::same(4096)));
            }
            "randrepeat" => self.randrepeat = yes()?,
            "randseed" => self.randseed = Some(count(0, u64::MAX)?),
            "norandommap" => self.norandommap = yes()?,
            "random_generator" => word(text, &["tausworthe", "tausworthe64", "lfsr"])?,
            "random_distribution" => {
                let kb_base = self.kb_base;
                let all = by_direction(text, |text| distribution(text, kb_base))?;
                self.distribution = all.map(|distribution| distribution.unwrap_or(Distribution::Uniform));
            }
            "file_service_type" => {
                word(text, &["roundrobin", "random"])?;
                self.random_file = text == "random";
            }
            "fsync" | "fdatasync" => self.flush_every = count(0, u64::MAX)?,
            "direct" => self.direct = yes()?,
            "buffered" => self.direct = !yes()?,
            "numjobs" => self.numjobs = count(1, JOBS_MAX)?,
            "runtime" => self.runtime_ns = Some(whole_seconds(time(SECONDS)?)?).filter(|ns| *ns > 0),
            "time_based" => self.time_based = yes()?,
            "ramp_time" => self.ramp_ns = whole_seconds(time(SECONDS)?)?,
            "loops" => self.loops = count(1, u64::MAX)?,
            "rwmixread" => self.read_pct = count(0, 100)?,
            "rwmixwrite" => self.read_pct = 100 - count(0, 100)?,
            "thinktime" => self.think_ns = time(MICROSECONDS)?,
            "rate" => self.set_rates(text, Wanted::Bytes)?,
            "rate_iops" => self.set_rates(text, Wanted::Iops)?,
            "rate_process" => {
                word(text, &["linear", "poisson"])?;
                self.poisson = text == "poisson";
            }
            "sync" => {
                word(text, &["none", "0", "sync", "1", "dsync"])?;
                self.sync = !matches!(text, "none" | "0");
            }
            "stonewall" => self.stonewall = yes()?,
            "new_group" => self.new_group = yes()?,
            "group_reporting" => self.group_reporting = yes()?,
            // Alone it is named like the job.
            "write_bw_log" => self.logs[0] = Some(given.value.clone().unwrap_or_default()),
            "write_lat_log" => self.logs[1] = Some(given.value.clone().unwrap_or_default()),
            "write_iops_log" => self.logs[2] = Some(given.value.clone().unwrap_or_default()),
            "per_job_logs" => self.per_job_logs = yes()?,
            "log_avg_msec" => match count(0, 3_600_000)? {
                ms if ms > 0 && !ms.is_multiple_of(1_000) => {
                    return Err("means are of whole seconds - give 1000, 2000 ...".into());
                }
                ms => self.log_avg_msec = ms,
            },
            "zero_buffers" => self.zeros = yes()?,
            // They always are.
            "refill_buffers" => drop(yes()?),
            "buffer_compress_percentage" => self.compress_pct = count(0, 100)?,
            "clat_percentiles" => self.percentiles_of[0] = yes()?,
            "lat_percentiles" => self.percentiles_of[1] = yes()?,
            "percentile_list" => self.percentiles = percentiles(text)?,
            "kb_base" => match number(text, Unit::Plain)? {
                base @ (1_000 | 1_024) => self.kb_base = base,
                _ => return Err("it is 1000 or 1024".into()),
            },
            name => unreachable!("{name} stands in the table and is not set"),
        }
        Ok(())
    }

    fn set_rw(&mut self, text: &str) -> Result<(), String> {
        if let Some((plain, _)) = text.split_once(':') {
            return Err(format!(
                "flashproof has no holes and no turns; without them would run: {plain} - leave out what follows the colon if that will do"
            ));
        }
        (self.does, self.random) = match text {
            "read" => ([true, false, false], false),
            "write" => ([false, true, false], false),
            "trim" => ([false, false, true], false),
            "randread" => ([true, false, false], true),
            "randwrite" => ([false, true, false], true),
            "randtrim" => ([false, false, true], true),
            "rw" | "readwrite" => ([true, true, false], false),
            "randrw" | "randreadwrite" => ([true, true, false], true),
            "trimwrite" | "randtrimwrite" => {
                return Err(
                    "flashproof has no trims followed by writes - use two jobs, one of trims and one of writes".into(),
                );
            }
            _ => return Err("it is one of read, write, trim, randread, randwrite, randtrim, rw, randrw".into()),
        };
        Ok(())
    }

    fn set_rates(&mut self, text: &str, of: impl Fn(u64) -> Wanted) -> Result<(), String> {
        let unit = Unit::Kilo(self.kb_base);
        let rates = by_direction(text, |text| number(text, unit))?;
        if rates.contains(&Some(0)) && !text.contains(',') {
            return Err("a rate of zero does nothing - leave it out for no limit, or give one".into());
        }
        for (wanted, rate) in self.wanted.iter_mut().zip(rates) {
            // An empty place and 0 leave the direction without a limit.
            match rate.filter(|rate| *rate > 0) {
                Some(rate) => *wanted = of(rate),
                None => *wanted = Wanted::Unlimited,
            }
        }
        Ok(())
    }

    /// Operations of it that are in flight at most.
    pub fn slots(&self) -> u64 {
        if self.is_sync_engine || self.think_ns > 0 { 1 } else { self.depth }
    }

    /// Whether any of its directions has a rate.
    pub fn has_rates(&self) -> bool {
        self.directions().any(|direction| self.wanted[direction] != Wanted::Unlimited)
    }

    /// Which of reads (0), writes (1) and trims (2) it does.
    pub fn directions(&self) -> impl Iterator<Item = usize> + Clone + use<> {
        let does = self.does;
        (0..DIRECTIONS).filter(move |direction| does[*direction])
    }

    /// Directions by lane: each has its own where there are rates.
    pub(super) fn lanes(&self) -> Vec<Vec<usize>> {
        match self.has_rates() {
            true => self.directions().map(|direction| vec![direction]).collect(),
            false => vec![self.directions().collect()],
        }
    }

    /// The smallest operation, of which map and size are multiples.
    pub fn unit_bytes(&self) -> u64 {
        self.directions().map(|direction| self.sizes[direction].min_bytes()).min().unwrap_or(4096)
    }

    /// The largest.
    pub fn largest_bytes(&self) -> u64 {
        self.directions().map(|direction| self.sizes[direction].max_bytes()).max().unwrap_or(0)
    }

    /// Whether each block has its turn before any comes again.
    pub fn has_map(&self) -> bool {
        let uniform = self.directions().all(|direction| self.distribution[direction] == Distribution::Uniform);
        self.random && !self.norandommap && uniform
    }

    /// Names of what the clone `number` works on.
    pub fn names(&self, number: u64) -> Vec<String> {
        let own = (0..self.nrfiles).map(|file| format!("{}.{number}.{file}", self.name));
        let names = if self.filenames.is_empty() { own.collect() } else { self.filenames.clone() };
        let placed = |name: String| match name.starts_with('/') || name.starts_with(engine::sim::SIM_PREFIX) {
            true => name,
            false if self.directory.is_empty() => name,
            false => format!("{}/{name}", self.directory.trim_end_matches('/')),
        };
        names.into_iter().map(placed).collect()
    }

    /// What its options are together and cannot be.
    fn check(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        if self.time_based && self.runtime_ns.is_none() {
            wrong.push("time_based without a runtime would never end - give runtime".into());
        }
        if self.think_ns > 0 && self.has_rates() {
            wrong.push("thinktime and a rate contradict each other - leave one out".into());
        }
        if self.logs.iter().any(Option::is_some) && self.log_avg_msec == 0 {
            wrong.push("a log without log_avg_msec would have a line for each operation, which are not kept - give log_avg_msec=1000".into());
        }
        if self.has_map()
            && self.directions().any(|direction| self.align[direction].is_some_and(|align| align != self.unit_bytes()))
        {
            wrong.push(format!(
                "ba is not the smallest bs, {}, which a random map goes by - leave it out, or add norandommap",
                self.unit_bytes()
            ));
        }
        wrong
    }
}

/// The jobs of all `sections`, in their order. Errors: all that is wrong with them.
pub fn jobs(
    sections: &[Section],
    around: &Surroundings<'_>,
    warnings: &mut Vec<Problem>,
) -> Result<Vec<Job>, Vec<Problem>> {
    let (mut global, mut jobs, mut problems) = (Job::default(), Vec::new(), Vec::new());
    for section in sections {
        if section.is_global() {
            global.take(section, &mut problems, warnings);
            continue;
        }
        let mut job = Job { name: section.name.clone(), ..global.clone() };
        job.take(section, &mut problems, warnings);
        let at = format!("job {}", quoted(&job.name));
        problems.extend(job.check().into_iter().map(|what| Problem::new(&at, what)));
        if around.readonly && (job.does[1] || job.does[2]) {
            problems.push(Problem::new(&at, "it writes or trims, and --readonly forbids that"));
        }
        jobs.push(job);
    }
    let clones: u64 = jobs.iter().map(|job| job.numjobs).sum();
    if problems.is_empty() && jobs.is_empty() {
        problems
            .push(Problem::new("command line", "no job is named - give --name=NAME with its options, or a job file"));
    }
    if clones > JOBS_MAX {
        problems.push(Problem::new(
            "numjobs",
            format!("{clones} jobs in all, at most {JOBS_MAX} can be run - lower numjobs"),
        ));
    }
    if problems.is_empty() { Ok(jobs) } else { Err(problems) }
}

/// Options of one section that cannot both be meant.
fn contradictions(section: &Section, problems: &mut Vec<Problem>) {
    let value = |name: &str| {
        let given = section
            .options
            .iter()
            .rfind(|given| matches!(find(&given.name), Some(Standing::Known(known)) if known.name == name))?;
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
    both("fsync", "fdatasync", &|a, b| a == b || a == 0 || b == 0);
}

/// A value for each direction: `A`, `A,B`, `A,B,C`; what is not given is as the one before, what is empty is none.
fn by_direction<T: Clone>(
    text: &str,
    read: impl Fn(&str) -> Result<T, String>,
) -> Result<[Option<T>; DIRECTIONS], String> {
    let mut all = [const { None }; DIRECTIONS];
    let parts: Vec<_> = text.split(',').collect();
    if parts.len() > DIRECTIONS {
        return Err(format!("it has {} parts, and there are reads, writes and trims", parts.len()));
    }
    for (direction, part) in parts.iter().enumerate() {
        all[direction] = match part.trim() {
            "" => None,
            part => Some(read(part)?),
        };
    }
    for direction in parts.len()..DIRECTIONS {
        all[direction] = all[direction - 1].clone();
    }
    Ok(all)
}

fn positive(value: u64) -> Result<u64, String> {
    if value > 0 { Ok(value) } else { Err("it is zero".into()) }
}

fn above_zero(size: Size) -> Result<Size, String> {
    if size.of(100) > 0 || matches!(size, Size::Bytes(1..)) { Ok(size) } else { Err("it is zero".into()) }
}

fn whole_seconds(ns: u64) -> Result<u64, String> {
    match ns.is_multiple_of(NS_PER_SEC) {
        _ if ns / NS_PER_SEC > u32::MAX.into() => Err(format!("it is more than {} s", u32::MAX)),
        true => Ok(ns),
        false => Err("runs are of whole seconds - round it".into()),
    }
}

fn word(text: &str, words: &[&str]) -> Result<(), String> {
    if words.contains(&text) { Ok(()) } else { Err(format!("it is one of {}", words.join(", "))) }
}

fn is_sync_engine(text: &str) -> Result<bool, String> {
    match text {
        "io_uring" | "libaio" | "posixaio" => Ok(false),
        "sync" | "psync" | "vsync" | "pvsync" | "pvsync2" => Ok(true),
        _ => Err("flashproof does not have this engine; without it would run: io_uring on the same names - say ioengine=io_uring if that will do".into()),
    }
}

/// Names with `:` between; `\:` is a colon within one.
fn filenames(text: &str) -> Result<Vec<String>, String> {
    let mut names = vec![String::new()];
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let last = names.last_mut().expect("never empty");
        match c {
            '\\' if chars.peek() == Some(&':') => last.extend(chars.next()),
            // The one of sim: belongs to the name.
            ':' if last == "sim" => last.push(c),
            ':' => names.push(String::new()),
            c => last.push(c),
        }
    }
    match names.iter().any(String::is_empty) {
        true => Err("a name is empty".into()),
        false => Ok(names),
    }
}

fn percentiles(text: &str) -> Result<Vec<f64>, String> {
    let read = |part: &str| part.trim().parse::<f64>().ok().filter(|percentile| (0.0..=100.0).contains(percentile));
    let mut list: Vec<_> = text
        .split(':')
        .map(|part| read(part).ok_or_else(|| format!("{} is no percentile from 0 to 100", quoted(part))))
        .collect::<Result<_, _>>()?;
    if list.len() > PERCENTILES_MAX {
        return Err(format!("{} percentiles, at most {PERCENTILES_MAX} are reported", list.len()));
    }
    list.sort_by(f64::total_cmp);
    Ok(list)
}

fn distribution(text: &str, kb_base: u64) -> Result<Distribution, String> {
    let (kind, parameters) = text.split_once(':').map_or((text, None), |(kind, parameters)| (kind, Some(parameters)));
    let parameter = |default: f64| match parameters {
        None => Ok(default),
        Some(text) => text
            .parse::<f64>()
            .map_err(|_| format!("{} is no number (a centre is not among what we have)", quoted(text))),
    };
    match kind {
        "random" => Ok(Distribution::Uniform),
        "zipf" => match parameter(1.1)? {
            theta if theta > 0.0 && theta <= 10.0 => Ok(Distribution::Zipf(theta)),
            _ => Err("theta is above 0 and at most 10".into()),
        },
        "pareto" => match parameter(0.2)? {
            h if h > 0.0 && h < 1.0 => Ok(Distribution::Pareto(h)),
            _ => Err("h is between 0 and 1".into()),
        },
        "zoned" => zones(parameters, |text| size(&format!("{text}%"), 1000)),
        "zoned_abs" => zones(parameters, |text| size(text, kb_base)),
        _ => Err("flashproof does not have this distribution; without it would run: uniformly random places - it is one of random, zipf, pareto, zoned, zoned_abs".into()),
    }
}

fn zones(text: Option<&str>, size: impl Fn(&str) -> Result<Size, String>) -> Result<Distribution, String> {
    let mut zones = Vec::new();
    for part in text.unwrap_or_default().split(':') {
        let (access, part_size) = part.split_once('/').ok_or("zones are like 60/10:30/20:8/30:2/40")?;
        let access = if access.is_empty() { None } else { Some(number(access, Unit::Plain)?) };
        let part_size = if part_size.is_empty() { None } else { Some(size(part_size)?) };
        zones.push((access, part_size));
    }
    // As with sizes of operations: those without a number share what is left.
    let accesses = super::pattern::shared_out(zones.iter().map(|(access, _)| *access))?;
    let percent = |size: &Size| if let Size::Percent(percent) = size { *percent } else { 0 };
    let given: u64 = zones.iter().filter_map(|(_, size)| size.as_ref()).map(percent).sum();
    let blank = zones.iter().filter(|(_, size)| size.is_none()).count() as u64;
    if given > 100 {
        return Err(format!("the zones are {given} % of the whole"));
    }
    let rest = Size::Percent((100 - given) / blank.max(1));
    let zones = zones.into_iter().zip(accesses);
    Ok(Distribution::Zoned(zones.map(|((_, size), access)| Zone { access, size: size.unwrap_or(rest) }).collect()))
}

/// A size of an operation. Errors: none that can be.
pub(super) fn block_bytes(text: &str, kb_base: u64) -> Result<u64, String> {
    match number(text, Unit::Kilo(kb_base))? {
        0 => Err("an operation of no bytes".into()),
        bytes if bytes > BLOCK_MAX => Err(format!("an operation has at most {BLOCK_MAX} bytes")),
        bytes => Ok(bytes),
    }
}
