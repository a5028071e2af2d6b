//! fio's normal output for people.
//!
//! fio's terse output, version 3: a line for each job, fields identified by position.
//!
//! Source: fio's `show_thread_status_terse_all()`.

use super::{
    Cpu, DiskIo, FIO_VERSION, FioReport, JobReport, KindStats, LEVELS, LatencyTargetResult, NAMES,
    NO_TARGET, RunHistogram, SampleStats, SteadyState, VerifyTotals,
};
use results::format;

/// Text before the jobs begin: a line for each job, the name and version of the program, and the number of jobs.
/// Programs read fio's version from terse and JSON output, and from `--version`; this line is for people.
pub fn header_text(lines: &[String], jobs: usize) -> String {
    let lines: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let version = env!("CARGO_PKG_VERSION");
    let threads = if jobs == 1 { "thread" } else { "threads" };
    format!(
        "{lines}flashproof {version}, in the format of {FIO_VERSION}\nStarting {jobs} {threads}\n"
    )
}

pub fn normal(page: &FioReport<'_>) -> String {
    let mut text: String = page.jobs.iter().map(|job| job_text(job, page)).collect();
    let mut groups: Vec<_> = page.jobs.iter().map(|job| job.group).collect();
    groups.dedup();
    text.extend(groups.into_iter().map(|group| group_text(group, page)));
    if !page.disks.is_empty() {
        text += "\nDisk stats (read/write):\n";
    }
    for DiskIo {
        name,
        ios: [r, w],
        merges: [rm, wm],
        ticks: [rt, wt],
        in_queue,
        util,
        ..
    } in &page.disks
    {
        text += &format!(
            "  {name}: ios={r}/{w}, merge={rm}/{wm}, ticks={rt}/{wt}, in_queue={in_queue}, util={util:3.2}%\n"
        );
    }
    text
}

fn job_text(job: &JobReport<'_>, page: &FioReport<'_>) -> String {
    let JobReport {
        group,
        jobs,
        depth,
        percentiles,
        ..
    } = job;
    let name = format::in_one_line(&job.name);
    let error = job.error_number();
    let pid = page.pid;
    let date = format::date(page.unix_ms);
    let mut text =
        format!("\n{name}: (groupid={group}, jobs={jobs}): err={error:>2}: pid={pid}: {date}\n");
    if !job.description.is_empty() {
        text += &format!(
            "  Description  : [{}]\n",
            format::in_one_line(&job.description)
        );
    }
    for (at, kind) in job.kinds[..3].iter().enumerate() {
        if let Some(kind) = kind.filter(|kind| kind.ops + kind.errors + kind.undone > 0) {
            text += &direction_text(job, kind, at, page);
        }
    }
    text += &shares_text(job);
    if let Some(flushes) = job.kinds[3].filter(|kind| kind.ops > 0) {
        text += &format!(
            "  fsync/fdatasync/sync_file_range:\n{}",
            duration_line("sync", &flushes.clat)
        );
        if job.percentiles_of[0] {
            text += &percentiles_text("sync", &flushes.clat, percentiles);
        }
    }
    let user = job.percent(job.cpu.user_ns);
    let system = job.percent(job.cpu.system_ns);
    let Cpu {
        switches,
        major_faults,
        minor_faults,
        ..
    } = job.cpu;
    text += &format!(
        "  cpu          : usr={user:3.2}%, sys={system:3.2}%, ctx={switches}, majf={major_faults}, minf={minor_faults}\n"
    );
    let levels = LEVELS.iter().zip(job.level_shares());
    let levels: Vec<_> = levels
        .map(|(level, share)| format!("{level}={share:3.1}%"))
        .collect();
    text += &format!("  IO depths    : {}\n", levels.join(", "));
    text += &format!(
        "     issued rwts: total={} short=0,0,0,0 dropped=0,0,0,0\n",
        job.kind_counts(|kind| kind.ops)
    );
    if job
        .kinds
        .iter()
        .flatten()
        .any(|kind| kind.errors + kind.undone > 0)
    {
        let failed = job.kind_counts(|kind| kind.errors);
        let undone = job.kind_counts(|kind| kind.undone);
        text += &format!("     not done   : failed={failed} never issued={undone}\n");
    }
    if let Some(VerifyTotals {
        bytes,
        wrong_blocks,
        not_read_bytes,
        unknown_bytes,
    }) = job.verified
    {
        text += &format!(
            "     verify    : right={bytes}B, wrong={wrong_blocks} blocks, not read={not_read_bytes}B, unknown={unknown_bytes}B\n"
        );
    }
    let LatencyTargetResult {
        latency_ns,
        window_us,
        percentile,
    } = job.target.unwrap_or(NO_TARGET);
    text += &format!(
        "     latency   : target={latency_ns}, window={window_us}, percentile={percentile:.2}%, depth={depth}\n"
    );
    text + &job.steady.as_ref().map_or_else(String::new, |steady| {
        steady_line(steady, job.kb_base == 1024)
    })
}

fn steady_line(steady: &SteadyState, binary: bool) -> String {
    let [iops, bytes, latency_ns] = steady.means;
    let (metric, limit) = steady.target.split_once(':').unwrap_or_default();
    let latency = if metric.starts_with("lat") {
        format!(", lat={latency_ns}nsec")
    } else {
        String::new()
    };
    let attained = if steady.attained { "yes" } else { "no" };
    let bw = short(bytes, 4, binary, "B/s");
    let bw_other = short(bytes, 4, !binary, "B/s");
    let iops = short(iops, 4, false, "");
    let metric_name = metric.trim_end_matches("_slope");
    let criterion = if metric.ends_with("_slope") {
        "slope"
    } else {
        "mean dev"
    };
    let value = steady.criterion;
    let percent = if limit.ends_with('%') { "%" } else { "" };
    format!(
        "  steadystate  : attained={attained}, bw={bw} ({bw_other}), iops={iops}{latency}, {metric_name} {criterion}={value:.3}{percent}\n"
    )
}

fn per_second(count: u64, ns: u64) -> u64 {
    (u128::from(count) * 1_000_000_000 / u128::from(ns.max(1))) as u64
}

fn direction_text(
    job: &JobReport<'_>,
    kind: &KindStats,
    at: usize,
    page: &FioReport<'_>,
) -> String {
    let label = NAMES[at];
    let ran_ns = job.kinds_ns[at];
    let binary = job.kb_base == 1024;
    let iops = short(per_second(kind.ops, ran_ns), 4, false, "");
    let bw = short(per_second(kind.bytes, ran_ns), 4, binary, "B/s");
    let bw_other = short(per_second(kind.bytes, ran_ns), 4, !binary, "B/s");
    let transferred = short(kind.bytes, 4, binary, "B");
    let ran_ms = job.kind_ms(at);
    let mut text =
        format!("  {label}: IOPS={iops}, BW={bw} ({bw_other})({transferred}/{ran_ms}msec)");
    if label == "write" {
        text += "; 0 zone resets";
    }
    text += &format!(
        "\n{}{}",
        duration_line("clat", &kind.clat),
        duration_line(" lat", &kind.clat)
    );
    // In addition to fio's lines: the delays before submission, if operations have a scheduled start.
    if kind.wait.max() > 0 || kind.lag.max() > 0 {
        text += &(duration_line("wait", &kind.wait) + &duration_line(" lag", &kind.lag));
    }
    for (name, is_shown) in ["clat", "lat"].into_iter().zip(job.percentiles_of) {
        if is_shown && !kind.clat.is_empty() {
            text += &percentiles_text(name, &kind.clat, &job.percentiles);
        }
    }
    if kind.bandwidth.count > 0 {
        let least_most = |of: &SampleStats| format!("min={:>5.0}, max={:>5.0}", of.min, of.max);
        let bw = &kind.bandwidth;
        let iops = &kind.iops;
        let percent = page.bandwidth_percent(kind, job.group, at);
        text += &format!(
            "   bw (  KiB/s): {}, per={percent:3.2}%, {}\n",
            least_most(bw),
            mean_text(bw)
        );
        text += &format!(
            "   iops        : {}, {}\n",
            least_most(iops),
            mean_text(iops)
        );
    }
    text
}

fn mean_text(stats: &SampleStats) -> String {
    format!(
        "avg={:5.2}, stdev={:5.2}, samples={}",
        stats.mean(),
        stats.deviation(),
        stats.count
    )
}

fn duration_line(name: &str, durations: &RunHistogram) -> String {
    if durations.is_empty() {
        return String::new();
    }
    let (unit, ns) = scale(durations.min(), durations.max(), durations.stdev());
    let min = short(durations.min() / ns, 6, false, "");
    let max = short(durations.max() / ns, 6, false, "");
    let mean = durations.mean() / ns as f64;
    let deviation = durations.stdev() / ns as f64;
    format!("    {name} ({unit}): min={min}, max={max}, avg={mean:5.2}, stdev={deviation:5.2}\n")
}

fn percentiles_text(name: &str, durations: &RunHistogram, percentiles: &[f64]) -> String {
    let values: Vec<_> = percentiles
        .iter()
        .map(|at| durations.value_at_percentile(*at))
        .collect();
    let (Some(min), Some(max)) = (values.iter().min(), values.iter().max()) else {
        return String::new();
    };
    let (unit, ns) = scale(*min, *max, f64::MAX);
    let width = (max / ns).to_string().len().max(5);
    let each = percentiles
        .iter()
        .zip(&values)
        .map(|(at, value)| format!("{at:>5.2}th=[{:>width$}]", value / ns));
    let lines: Vec<_> = each
        .collect::<Vec<_>>()
        .chunks(4)
        .map(|line| format!("     | {}", line.join(", ")))
        .collect();
    format!("    {name} percentiles ({unit}):\n{}\n", lines.join(",\n"))
}

fn shares_text(job: &JobReport<'_>) -> String {
    let mut text = String::new();
    for (scale, shares) in job.latency_shares() {
        let shown = shares.iter().filter(|(_, share)| *share > 0.0);
        let shown: Vec<_> = shown
            .map(|(bound, share)| format!("{bound}={:3.2}%", share.max(0.01)))
            .collect();
        let line =
            |shares: &[String]| format!("  lat ({}sec)   : {}\n", &scale[..1], shares.join(", "));
        text.extend(shown.chunks(5).map(line));
    }
    text
}

fn group_text(group: usize, page: &FioReport<'_>) -> String {
    let mut text = format!("\nRun status group {group} (all jobs):\n");
    for (at, label) in ["READ", "WRITE", "TRIM"].into_iter().enumerate() {
        let kinds = page.of_group(group, at);
        let Some(longest_ns) = kinds.iter().map(|(_, ns)| *ns).max() else {
            continue;
        };
        let shortest_ns = kinds.iter().map(|(_, ns)| *ns).min().unwrap_or(0);
        let bytes: u64 = kinds.iter().map(|(kind, _)| kind.bytes).sum();
        let job_rates = || kinds.iter().map(|(kind, ns)| per_second(kind.bytes, *ns));
        let rates = [
            per_second(bytes, longest_ns),
            job_rates().min().unwrap_or(0),
            job_rates().max().unwrap_or(0),
        ];
        let [[total, lowest, highest], [total_k, lowest_k, highest_k]] =
            [true, false].map(|binary| rates.map(|rate| short(rate, 4, binary, "B/s")));
        let io = short(bytes, 4, true, "B");
        let io_k = short(bytes, 4, false, "B");
        let shortest = (shortest_ns / 1_000_000).max(1);
        let longest = (longest_ns / 1_000_000).max(1);
        text += &format!(
            "{label:>7}: bw={total} ({total_k}), {lowest}-{highest} ({lowest_k}-{highest_k}), io={io} ({io_k}), run={shortest}-{longest}msec\n"
        );
    }
    text
}

/// `value` in at most `digits` digits, with a prefix of 1024 (`Ki`) or 1000 (`k`), and `unit`.
pub(super) fn short(value: u64, digits: u32, binary: bool, unit: &str) -> String {
    const DECIMAL: [&str; 7] = ["", "k", "M", "G", "T", "P", "E"];
    const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    let (thousand, prefixes) = if binary {
        (1024, BINARY)
    } else {
        (1000, DECIMAL)
    };
    let mut value = value;
    let mut remainder = None;
    let mut prefix = 0;
    while value >= 10_u64.pow(digits) {
        (value, remainder, prefix) = (value / thousand, Some(value % thousand), prefix + 1);
    }
    let prefix = prefixes[prefix];
    let length = value.to_string().len() as u32;
    match remainder {
        None => format!("{value}{prefix}{unit}"),
        Some(rest) if length + 1 >= digits => {
            format!("{}{prefix}{unit}", value + u64::from(rest >= thousand / 2))
        }
        Some(rest) => {
            let decimals = (digits - length - 1) as usize;
            format!(
                "{:.decimals$}{prefix}{unit}",
                value as f64 + rest as f64 / thousand as f64
            )
        }
    }
}

/// The unit in which fio shows durations from `min_ns` to `max_ns`, and the unit's length in nanoseconds.
fn scale(min_ns: u64, max_ns: u64, deviation_ns: f64) -> (&'static str, u64) {
    if min_ns > 2_000_000 && max_ns > 99_999_999 && deviation_ns > 1e6 {
        ("msec", 1_000_000)
    } else if min_ns > 2_000 && max_ns > 99_999 && deviation_ns > 1e3 {
        ("usec", 1_000)
    } else {
        ("nsec", 1)
    }
}

/// Number of percentile fields in a line.
const PERCENTILES: usize = 20;

pub fn terse(page: &FioReport<'_>) -> String {
    let mut text = String::new();
    for job in &page.jobs {
        let name = format::in_one_line(&job.name).replace(';', "_");
        text += &format!(
            "3;{FIO_VERSION};{name};{};{}",
            job.group,
            job.error_number()
        );
        let empty = KindStats::default();
        for at in 0..2 {
            let kind = job.kinds[at].unwrap_or(&empty);
            text += &terse_direction(job, kind, at, page.bandwidth_percent(kind, job.group, at));
        }
        let Cpu {
            switches,
            major_faults,
            minor_faults,
            ..
        } = job.cpu;
        let user = job.percent(job.cpu.user_ns);
        let system = job.percent(job.cpu.system_ns);
        text += &format!(";{user:.6}%;{system:.6}%;{switches};{major_faults};{minor_faults}");
        text.extend(job.level_shares().map(|share| format!(";{share:.1}%")));
        let mut below_us = 0.0;
        for (scale, shares) in job.latency_shares() {
            for (_, share) in shares {
                match scale {
                    // terse has no nanoseconds: the first microsecond field includes them.
                    "ns" => below_us += share,
                    _ => text += &format!(";{:.2}%", share + std::mem::take(&mut below_us)),
                }
            }
        }
        for DiskIo {
            name,
            ios: [r, w],
            merges: [rm, wm],
            ticks: [rt, wt],
            in_queue,
            util,
            ..
        } in &page.disks
        {
            text += &format!(";{name};{r};{w};{rm};{wm};{rt};{wt};{in_queue};{util:.2}%");
        }
        if !job.description.is_empty() {
            text += &format!(";{}", format::in_one_line(&job.description));
        }
        text.push('\n');
    }
    text
}

fn terse_direction(
    job: &JobReport<'_>,
    kind: &KindStats,
    at: usize,
    bandwidth_percent: f64,
) -> String {
    let ran_ms = if kind.ops > 0 { job.kind_ms(at) } else { 0 };
    let per_sec = |count: u64| count.saturating_mul(1_000).checked_div(ran_ms).unwrap_or(0);
    let mut text = format!(
        ";{};{};{};{ran_ms}",
        kind.bytes >> 10,
        per_sec(kind.bytes) >> 10,
        per_sec(kind.ops)
    );
    // slat is empty: submission is part of clat.
    text += &(terse_durations(&KindStats::default().clat) + &terse_durations(&kind.clat));
    let is_shown = (job.percentiles_of[0] || job.percentiles_of[1]) && !kind.clat.is_empty();
    let percentiles = job.percentiles.iter().filter(|_| is_shown);
    let values =
        percentiles.map(|at| format!(";{at:.6}%={}", kind.clat.value_at_percentile(*at) / 1_000));
    text.extend(
        values
            .chain(std::iter::repeat_with(|| ";0%=0".to_owned()))
            .take(PERCENTILES),
    );
    text += &terse_durations(&kind.clat);
    let bandwidth = &kind.bandwidth;
    let percent = if bandwidth.count > 0 {
        bandwidth_percent
    } else {
        0.0
    };
    let min = bandwidth.min as u64;
    let max = bandwidth.max as u64;
    text + &format!(
        ";{min};{max};{percent:.6}%;{:.6};{:.6}",
        bandwidth.mean(),
        bandwidth.deviation()
    )
}

/// Minimum, maximum, mean and standard deviation, microseconds.
fn terse_durations(durations: &RunHistogram) -> String {
    if durations.is_empty() {
        return ";0;0;0.000000;0.000000".to_owned();
    }
    let min = durations.min() / 1_000;
    let max = durations.max() / 1_000;
    format!(
        ";{min};{max};{:.6};{:.6}",
        durations.mean() / 1e3,
        durations.stdev() / 1e3
    )
}
