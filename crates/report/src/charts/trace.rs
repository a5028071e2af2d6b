//! Time of requests by stage, from sampled tracepoints: the kernel's queue or the device.

use super::{Axis, Chart, Detail, Limit, Line, Points, Style};
use results::run_dir::{Manifest, TRACE, read_trace};
use results::trace::{TraceKind, TraceLine, TraceSize};
use results::units;
use std::path::Path;

/// A value of a sample, nanoseconds.
type Value = fn(&TraceLine) -> u64;

/// Values drawn of a sample.
const DRAWN: [(&str, Value); 4] = [
    ("device p99", |line| line.device_time.p99_ns),
    ("kernel's queue p99", |line| line.queue.p99_ns),
    ("device max", |line| line.device_time.max_ns),
    ("kernel's queue max", |line| line.queue.max_ns),
];

/// Key of samples: index of the device, kind and size of the requests.
type Of = (usize, TraceKind, TraceSize);

/// A chart for each device and kind of request that was sampled in a run of `ran_sec`, and one that says why
/// there is none; with it what a reader should know.
pub(crate) fn charts(
    dir: &Path,
    manifest: &Manifest,
    ran_sec: f64,
    limits: &[Limit],
    detail: Detail,
) -> (Vec<Chart>, Vec<String>) {
    let why = match read_trace(dir, manifest) {
        _ if !dir.join(TRACE).exists() && manifest.simulated => {
            "simulated drives do not go through the kernel".to_owned()
        }
        _ if !dir.join(TRACE).exists() => format!("this run has no {TRACE}: requests were not traced"),
        Err(error) => error.to_string(),
        Ok(samples) if samples.lines.is_empty() => format!("{TRACE} has no sample in which a request completed"),
        Ok(samples) => {
            let mut groups: Vec<(Of, Vec<TraceLine>)> = Vec::new();
            for line in samples.lines {
                let of = (line.device, line.kind, line.size);
                match groups.iter_mut().find(|(known, _)| *known == of) {
                    Some((_, lines)) => lines.push(line),
                    None => groups.push((of, vec![line])),
                }
            }
            groups.sort_by_key(|(of, _)| *of);
            let charts = groups.iter().map(|((device, kind, size), lines)| {
                let device = manifest.devices.get(*device).map_or("an unknown device", String::as_str);
                chart(&format!("{} {}s on {device}", size.name(), kind.name()), lines, ran_sec, limits, detail)
            });
            return (charts.collect(), samples.remarks);
        }
    };
    (vec![empty("trace", "Time of requests in the kernel's queue and in the device").without_data(why)], Vec::new())
}

fn empty(id: &str, title: &str) -> Chart {
    Chart::over_time(id, title, Axis::log("time of a request", "ms"))
}

fn chart(of: &str, samples: &[TraceLine], ran_sec: f64, limits: &[Limit], detail: Detail) -> Chart {
    let title = format!("Queue and device: {of}");
    let mut chart = empty(&format!("trace-{of}"), &title);
    // A sample says nothing of the time up to the next one, or to the end.
    chart.x.max = Some(ran_sec);
    let each = samples.len().div_ceil(detail.points_max.max(1)).max(1);
    let chunks: Vec<&[TraceLine]> = samples.chunks(each).collect();
    let x: Vec<f64> = chunks.iter().filter_map(|chunk| chunk.last()).map(|line| line.at_sec).collect();
    let highest_ms =
        |lines: &[TraceLine], value: fn(&TraceLine) -> u64| lines.iter().map(value).max().map(|ns| ns as f64 / 1e6);
    for (number, (name, value)) in DRAWN.iter().enumerate() {
        let y = chunks.iter().map(|chunk| highest_ms(chunk, *value)).collect();
        let line = Line { name: (*name).to_owned(), x: Points::Each(x.clone()), y, style: Style::line(number) };
        chart.lines.push(line);
    }
    chart.limits = limits.to_vec();
    let many = if each > 1 { format!("the highest of {each} samples") } else { "one sample".to_owned() };
    chart.caption = format!(
        "Each point is {many}: a short look at the kernel's tracepoints, not all of the time. Queue is from the \
         kernel's acceptance of a request to its hand-over to the device; device from there to its completion."
    );
    let most = |value: fn(&TraceLine) -> u64| units::milliseconds(highest_ms(samples, value).unwrap_or_default());
    chart.key = format!(
        "Highest p99 in a sample: device {}, kernel's queue {}.",
        most(|line| line.device_time.p99_ns),
        most(|line| line.queue.p99_ns)
    );
    chart
}

#[cfg(test)]
mod tests {
    use super::*;
    use results::trace::Spread;

    #[test]
    fn the_highest_of_many_samples_survives() {
        let spread = |p99_ns| Spread { p50_ns: 1, p99_ns, max_ns: p99_ns };
        let line = |at_sec, p99_ns| TraceLine {
            at_sec,
            length_ms: 500,
            device: 0,
            kind: TraceKind::Read,
            size: TraceSize::Small,
            requests: 9,
            lost: 0,
            queue: spread(2_000_000),
            device_time: spread(p99_ns),
            queue_over: Vec::new(),
            device_over: Vec::new(),
            total_over: Vec::new(),
        };
        let lines = [line(30.0, 5_000_000), line(60.0, 70_000_000), line(90.0, 1)];
        let drawn = chart("x", &lines, 100.0, &[], Detail { points_max: 2, columns_max: 1 });
        assert_eq!(drawn.lines[0].y, [Some(70.0), Some(0.000_001)]);
        assert_eq!(drawn.lines[0].x, Points::Each(vec![60.0, 90.0]));
        assert_eq!(drawn.x.max, Some(100.0), "the axis is that of the run, not of its samples");
        assert!(drawn.key.contains("device 70 ms, kernel's queue 2 ms"), "{}", drawn.key);
    }
}
