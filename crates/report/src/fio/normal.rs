//! fio's normal output.
//!
//! fio's terse output, version 3: a line for each job, fields by their place.
//!
//! Source: fio's `show_thread_status_terse_all()`.

use super::Durations;
use super::{FIO_VERSION, JobPage, KINDS, Kind, LEVELS, NO_TARGET, Page, SteadyState, Verified};
use results::units;
use std::fmt::Write;

/// Text before the jobs begin: a line for each, who runs them, their number.
///
/// Programs read fio's version from terse and JSON output, and from `--version`; this line is for people.
pub fn begin(lines: &[String], jobs: usize) -> String {
    let mut text = String::new();
    for line in lines {
        let _ = writeln!(text, "{line}");
    }
    let _ = writeln!(text, "flashproof {}, in the format of {FIO_VERSION}", env!("CARGO_PKG_VERSION"));
    let _ = writeln!(text, "Starting {jobs} {}", if jobs == 1 { "thread" } else { "threads" });
    text
}

/// The page at the end.
pub fn normal(page: &Page<'_>) -> String {
    let mut text = String::new();
    for job in &page.jobs {
        job_text(&mut text, job, page);
    }
    let mut groups: Vec<_> = page.jobs.iter().map(|job| job.group).collect();
    groups.dedup();
    for group in groups {
        group_text(&mut text, group, page);
    }
    if !page.disks.is_empty() {
        text += "\nDisk stats (read/write):\n";
    }
    for disk in &page.disks {
        let ([r, w], [rm, wm], [rt, wt]) = (disk.ios, disk.merges, disk.ticks);
        let _ = writeln!(
            text,
            "  {}: ios={r}/{w}, merge={rm}/{wm}, ticks={rt}/{wt}, in_queue={}, util={:3.2}%",
            disk.name, disk.in_queue, disk.util
        );
    }
    text
}

fn job_text(text: &mut String, job: &JobPage<'_>, page: &Page<'_>) {
    let name = units::in_one_line(&job.name);
    let _ = writeln!(
        text,
        "\n{name}: (groupid={}, jobs={}): err={:>2}: pid={}: {}",
        job.group,
        job.jobs,
        job.error(),
        page.pid,
        units::date(page.unix_ms)
    );
    if !job.description.is_empty() {
        let _ = writeln!(text, "  Description  : [{}]", units::in_one_line(&job.description));
    }
    for at in 0..KINDS - 1 {
        if let Some(kind) = job.kinds[at].filter(|kind| kind.ops + kind.errors + kind.undone > 0) {
            direction_text(text, job, kind, at, page);
        }
    }
    shares_text(text, job);
    if let Some(flushes) = job.kinds[3].filter(|kind| kind.ops > 0) {
        text.push_str("  fsync/fdatasync/sync_file_range:\n");
        duration_line(text, "sync", &flushes.clat);
        if job.percentiles_of[0] {
            percentiles_text(text, "sync", &flushes.clat, &job.percentiles);
        }
    }
    let _ = writeln!(
        text,
        "  cpu          : usr={:3.2}%, sys={:3.2}%, ctx={}, majf={}, minf={}",
        job.percent(job.cpu.user_ns),
        job.percent(job.cpu.system_ns),
        job.cpu.switches,
        job.cpu.major_faults,
        job.cpu.minor_faults
    );
    let levels = LEVELS.iter().zip(job.level_shares());
    let levels: Vec<_> = levels.map(|(level, share)| format!("{level}={share:3.1}%")).collect();
    let _ = writeln!(text, "  IO depths    : {}", levels.join(", "));
    let count = |of: &dyn Fn(&Kind) -> u64| {
        let counts: Vec<_> = job.kinds.iter().map(|kind| kind.map_or(0, of).to_string()).collect();
        counts.join(",")
    };
    let _ = writeln!(text, "     issued rwts: total={} short=0,0,0,0 dropped=0,0,0,0", count(&|kind| kind.ops));
    if job.kinds.iter().flatten().any(|kind| kind.errors + kind.undone > 0) {
        let _ = writeln!(
            text,
            "     not done   : failed={} never issued={}",
            count(&|kind| kind.errors),
            count(&|kind| kind.undone)
        );
    }
    if let Some(Verified { bytes, wrong_blocks, not_read_bytes, unknown_bytes }) = job.verified {
        let _ = writeln!(
            text,
            "     verify    : right={bytes}B, wrong={wrong_blocks} blocks, not read={not_read_bytes}B, unknown={unknown_bytes}B"
        );
    }
    let target = job.target.unwrap_or(NO_TARGET);
    let _ = writeln!(
        text,
        "     latency   : target={}, window={}, percentile={:.2}%, depth={}",
        target.latency_ns, target.window_us, target.percentile, job.depth
    );
    if let Some(steady) = &job.steady {
        steady_line(text, steady, job.kb_base == 1024);
    }
}

fn steady_line(text: &mut String, steady: &SteadyState, binary: bool) {
    let [iops, bytes, latency_ns] = steady.means;
    let (what, limit) = steady.wanted.split_once(':').unwrap_or_default();
    let latency = if what.starts_with("lat") { format!(", lat={latency_ns}nsec") } else { String::new() };
    let _ = writeln!(
        text,
        "  steadystate  : attained={}, bw={} ({}), iops={}{latency}, {} {}={:.3}{}",
        if steady.attained { "yes" } else { "no" },
        short(bytes, 4, binary, "B/s"),
        short(bytes, 4, !binary, "B/s"),
        short(iops, 4, false, ""),
        what.trim_end_matches("_slope"),
        if what.ends_with("_slope") { "slope" } else { "mean dev" },
        steady.criterion,
        if limit.ends_with('%') { "%" } else { "" }
    );
}

fn per_second(count: u64, ns: u64) -> u64 {
    (u128::from(count) * 1_000_000_000 / u128::from(ns.max(1))) as u64
}

fn direction_text(text: &mut String, job: &JobPage<'_>, kind: &Kind, at: usize, page: &Page<'_>) {
    let label = super::NAMES[at];
    let ran_ns = job.own_ns();
    let bytes_per_sec = per_second(kind.bytes, ran_ns);
    let resets = format!("; {} zone resets", job.zone_resets.unwrap_or(0));
    let binary = job.kb_base == 1024;
    let _ = writeln!(
        text,
        "  {label}: IOPS={}, BW={} ({})({}/{}msec){}",
        short(per_second(kind.ops, ran_ns), 4, false, ""),
        short(bytes_per_sec, 4, binary, "B/s"),
        short(bytes_per_sec, 4, !binary, "B/s"),
        short(kind.bytes, 4, binary, "B"),
        ran_ns / 1_000_000,
        if label == "write" { &resets } else { "" }
    );
    duration_line(text, "clat", &kind.clat);
    duration_line(text, " lat", &kind.clat);
    // Beside fio's: what came before it was handed over, of operations that were wanted at an instant.
    if kind.wait.max() > 0 || kind.lag.max() > 0 {
        duration_line(text, "wait", &kind.wait);
        duration_line(text, " lag", &kind.lag);
    }
    for (name, is_shown) in ["clat", "lat"].into_iter().zip(job.percentiles_of) {
        if is_shown && !kind.clat.is_empty() {
            percentiles_text(text, name, &kind.clat, &job.percentiles);
        }
    }
    if kind.bandwidth.count > 0 {
        let (bw, iops) = (&kind.bandwidth, &kind.iops);
        let _ = writeln!(
            text,
            "   bw (  KiB/s): min={:>5.0}, max={:>5.0}, per={:3.2}%, avg={:5.2}, stdev={:5.2}, samples={}",
            bw.min,
            bw.max,
            page.bandwidth_percent(kind, job.group, at),
            bw.mean(),
            bw.deviation(),
            bw.count
        );
        let _ = writeln!(
            text,
            "   iops        : min={:>5.0}, max={:>5.0}, avg={:5.2}, stdev={:5.2}, samples={}",
            iops.min,
            iops.max,
            iops.mean(),
            iops.deviation(),
            iops.count
        );
    }
}

fn duration_line(text: &mut String, name: &str, durations: &Durations) {
    if durations.is_empty() {
        return;
    }
    let (unit, ns) = scale(durations.min(), durations.max(), durations.stdev());
    let number = |value: u64| short(value / ns, 6, false, "");
    let _ = writeln!(
        text,
        "    {name} ({unit}): min={}, max={}, avg={:5.2}, stdev={:5.2}",
        number(durations.min()),
        number(durations.max()),
        durations.mean() / ns as f64,
        durations.stdev() / ns as f64
    );
}

fn percentiles_text(text: &mut String, name: &str, durations: &Durations, percentiles: &[f64]) {
    let values: Vec<_> = percentiles.iter().map(|at| durations.value_at_percentile(*at)).collect();
    let (Some(min), Some(max)) = (values.iter().min(), values.iter().max()) else { return };
    let (unit, ns) = scale(*min, *max, f64::MAX);
    let width = (max / ns).to_string().len().max(5);
    let _ = writeln!(text, "    {name} percentiles ({unit}):");
    let each: Vec<_> =
        percentiles.iter().zip(&values).map(|(at, value)| format!("{at:>5.2}th=[{:>width$}]", value / ns)).collect();
    let lines: Vec<_> = each.chunks(4).map(|line| format!("     | {}", line.join(", "))).collect();
    let _ = writeln!(text, "{}", lines.join(",\n"));
}

fn shares_text(text: &mut String, job: &JobPage<'_>) {
    for (scale, shares) in job.latency_shares() {
        let shown = shares.iter().filter(|(_, share)| *share > 0.0);
        let shown: Vec<_> = shown.map(|(bound, share)| format!("{bound}={:3.2}%", share.max(0.01))).collect();
        for line in shown.chunks(5) {
            let _ = writeln!(text, "  lat ({}sec)   : {}", &scale[..1], line.join(", "));
        }
    }
}

fn group_text(text: &mut String, group: usize, page: &Page<'_>) {
    let _ = writeln!(text, "\nRun status group {group} (all jobs):");
    for (at, label) in ["READ", "WRITE", "TRIM"].into_iter().enumerate().take(KINDS - 1) {
        let kinds = page.of_group(group, at);
        let Some(longest_ns) = kinds.iter().map(|(_, ns)| *ns).max() else { continue };
        let shortest_ns = kinds.iter().map(|(_, ns)| *ns).min().unwrap_or(0);
        let bytes: u64 = kinds.iter().map(|(kind, _)| kind.bytes).sum();
        let each = || kinds.iter().map(|(kind, ns)| per_second(kind.bytes, *ns));
        let (least, most) = (each().min().unwrap_or(0), each().max().unwrap_or(0));
        let all = per_second(bytes, longest_ns);
        let bw = |value: u64, binary| short(value, 4, binary, "B/s");
        let _ = writeln!(
            text,
            "{label:>7}: bw={} ({}), {}-{} ({}-{}), io={} ({}), run={}-{}msec",
            bw(all, true),
            bw(all, false),
            bw(least, true),
            bw(most, true),
            bw(least, false),
            bw(most, false),
            short(bytes, 4, true, "B"),
            short(bytes, 4, false, "B"),
            shortest_ns / 1_000_000,
            longest_ns / 1_000_000
        );
    }
}

/// `value` in at most `digits` digits, with a prefix of 1024 (`Ki`) or 1000 (`k`), and `unit`.
pub(super) fn short(value: u64, digits: u32, binary: bool, unit: &str) -> String {
    const DECIMAL: [&str; 7] = ["", "k", "M", "G", "T", "P", "E"];
    const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    let thousand = if binary { 1024 } else { 1000 };
    let (mut value, mut rest, mut prefix) = (value, None, 0);
    while value >= 10_u64.pow(digits) {
        (value, rest, prefix) = (value / thousand, Some(value % thousand), prefix + 1);
    }
    let prefix = if binary { BINARY[prefix] } else { DECIMAL[prefix] };
    let length = value.to_string().len() as u32;
    match rest {
        None => format!("{value}{prefix}{unit}"),
        Some(rest) if length + 1 >= digits => format!("{}{prefix}{unit}", value + u64::from(rest >= thousand / 2)),
        Some(rest) => {
            let decimals = (digits - length - 1) as usize;
            format!("{:.decimals$}{prefix}{unit}", value as f64 + rest as f64 / thousand as f64)
        }
    }
}

/// The unit in which fio shows durations from `min` to `max`, and how many nanoseconds it is.
fn scale(min_ns: u64, max_ns: u64, deviation_ns: f64) -> (&'static str, u64) {
    match () {
        () if min_ns > 2_000_000 && max_ns > 99_999_999 && deviation_ns > 1e6 => ("msec", 1_000_000),
        () if min_ns > 2_000 && max_ns > 99_999 && deviation_ns > 1e3 => ("usec", 1_000),
        () => ("nsec", 1),
    }
}

/// Percentiles that a line has room for.
const PERCENTILES: usize = 20;

/// The report as lines of fields.
pub fn terse(page: &Page<'_>) -> String {
    let mut text = String::new();
    for job in &page.jobs {
        let name = units::in_one_line(&job.name).replace(';', "_");
        let _ = write!(text, "3;{FIO_VERSION};{name};{};{}", job.group, job.error());
        let none = Kind::default();
        for at in 0..2 {
            let kind = job.kinds[at].unwrap_or(&none);
            direction(&mut text, job, kind, page.bandwidth_percent(kind, job.group, at));
        }
        let cpu = &job.cpu;
        let (user, system) = (job.percent(cpu.user_ns), job.percent(cpu.system_ns));
        let _ = write!(text, ";{user:.6}%;{system:.6}%;{};{};{}", cpu.switches, cpu.major_faults, cpu.minor_faults);
        for share in job.level_shares() {
            let _ = write!(text, ";{share:.1}%");
        }
        let mut below_us = 0.0;
        for (scale, shares) in job.latency_shares() {
            for (_, share) in shares {
                match scale {
                    // The first of the microseconds has them.
                    "ns" => below_us += share,
                    _ => drop(write!(text, ";{:.2}%", share + std::mem::take(&mut below_us))),
                }
            }
        }
        for disk in &page.disks {
            let ([r, w], [rm, wm], [rt, wt]) = (disk.ios, disk.merges, disk.ticks);
            let _ = write!(text, ";{};{r};{w};{rm};{wm};{rt};{wt};{};{:.2}%", disk.name, disk.in_queue, disk.util);
        }
        if !job.description.is_empty() {
            let _ = write!(text, ";{}", units::in_one_line(&job.description));
        }
        text.push('\n');
    }
    text
}

fn direction(text: &mut String, job: &JobPage<'_>, kind: &Kind, bandwidth_percent: f64) {
    let ran_ms = if kind.ops > 0 { job.own_ns() / 1_000_000 } else { 0 };
    let per_sec = |count: u64| count.saturating_mul(1_000).checked_div(ran_ms).unwrap_or(0);
    let _ = write!(text, ";{};{};{};{ran_ms}", kind.bytes >> 10, per_sec(kind.bytes) >> 10, per_sec(kind.ops));
    // Submission is part of clat.
    durations(text, &Kind::default().clat);
    durations(text, &kind.clat);
    let is_shown = job.percentiles_of[0] || job.percentiles_of[1];
    let shown = if is_shown && !kind.clat.is_empty() { &job.percentiles[..] } else { &[] };
    for at in 0..PERCENTILES {
        let _ = match shown.get(at) {
            Some(at) => write!(text, ";{at:.6}%={}", kind.clat.value_at_percentile(*at) / 1_000),
            None => write!(text, ";0%=0"),
        };
    }
    durations(text, &kind.clat);
    let bandwidth = &kind.bandwidth;
    let percent = if bandwidth.count > 0 { bandwidth_percent } else { 0.0 };
    let (min, max) = (bandwidth.min as u64, bandwidth.max as u64);
    let _ = write!(text, ";{min};{max};{percent:.6}%;{:.6};{:.6}", bandwidth.mean(), bandwidth.deviation());
}

/// Least, most, mean and deviation, microseconds.
fn durations(text: &mut String, of: &Durations) {
    let _ = match of.is_empty() {
        true => write!(text, ";0;0;0.000000;0.000000"),
        false => {
            let (min, max) = (of.min() / 1_000, of.max() / 1_000);
            write!(text, ";{min};{max};{:.6};{:.6}", of.mean() / 1e3, of.stdev() / 1e3)
        }
    };
}
