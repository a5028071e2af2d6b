//! fio's terse output, version 3: a line for each job, fields by their place.
//!
//! Source: fio's `show_thread_status_terse_all()`.

use super::totals::Durations;
use super::{FIO_VERSION, JobPage, Kind, Page};
use results::units;
use std::fmt::Write;

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
