//! Where requests spent their time, from sampled tracepoints: the kernel's queue or the device.

use super::{Axis, Chart, Detail, Limit, Line, Points, Style};
use crate::words;
use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

/// The file in the run directory.
const TRACE: &str = "trace.csv";
/// Columns that are drawn, with their names.
const DRAWN: [(&str, &str); 4] = [
    ("device_p99_ns", "device p99"),
    ("queue_p99_ns", "kernel's queue p99"),
    ("device_max_ns", "device max"),
    ("queue_max_ns", "kernel's queue max"),
];

/// One sample: when, seconds, and the columns of [`DRAWN`] in milliseconds.
type Sample = (f64, [Option<f64>; DRAWN.len()]);

/// A chart for each device and kind of request that was sampled; one that says why there is none.
pub(crate) fn charts(dir: &Path, limits: &[Limit], simulated: bool, detail: Detail) -> Vec<Chart> {
    let why = match fs::read_to_string(dir.join(TRACE)) {
        Ok(text) => match samples(&text) {
            Some(all) if !all.is_empty() => {
                return all.into_iter().map(|(of, samples)| chart(&of, &samples, limits, detail)).collect();
            }
            Some(_) => format!("{TRACE} has no sample in which a request completed"),
            None => format!("{TRACE} has not the columns that it should have"),
        },
        Err(_) if simulated => "simulated drives do not go through the kernel".to_owned(),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            format!("this run has no {TRACE}: requests were not traced")
        }
        Err(error) => format!("{TRACE} cannot be read: {error}"),
    };
    vec![empty("trace", "Time of requests in the kernel's queue and in the device").without_data(why)]
}

fn empty(id: &str, title: &str) -> Chart {
    Chart::over_time(id, title, Axis::log("time of a request", "ms"))
}

/// The samples by what they are of; `None` when it is no such table. A torn line is left out.
fn samples(text: &str) -> Option<BTreeMap<String, Vec<Sample>>> {
    let mut lines = text.split_inclusive('\n').filter(|line| line.ends_with('\n')).map(str::trim_end);
    let names: Vec<&str> = lines.next()?.split(',').collect();
    let position = |wanted: &str| names.iter().position(|name| *name == wanted);
    let [at, device, kind, size] = ["at_sec", "device", "kind", "size"].map(position);
    let (at, device, kind, size) = (at?, device?, kind?, size?);
    let columns = DRAWN.map(|(name, _)| position(name));
    let mut all: BTreeMap<String, Vec<Sample>> = BTreeMap::new();
    for fields in lines.map(|line| line.split(',').collect::<Vec<_>>()) {
        let number = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok());
        let field = |at: usize| fields.get(at).copied().unwrap_or_default();
        let Some(at_sec) = number(at).filter(|at_sec| at_sec.is_finite()) else { continue };
        let of = format!("{} {}s on {}", field(size), field(kind), field(device));
        let values = columns.map(|column| Some(number(column?)? / 1e6));
        all.entry(of).or_default().push((at_sec, values));
    }
    Some(all)
}

fn chart(of: &str, samples: &[Sample], limits: &[Limit], detail: Detail) -> Chart {
    let title = format!("Queue and device: {of}");
    let mut chart = empty(&format!("trace-{of}"), &title);
    let each = samples.len().div_ceil(detail.points_max.max(1)).max(1);
    let chunks: Vec<&[Sample]> = samples.chunks(each).collect();
    let x: Vec<f64> = chunks.iter().filter_map(|chunk| chunk.last()).map(|(at_sec, _)| *at_sec).collect();
    let highest = |samples: &[Sample], column: usize| {
        let values = samples.iter().filter_map(|(_, values)| values.get(column).copied().flatten());
        values.reduce(f64::max)
    };
    for (column, (_, name)) in DRAWN.iter().enumerate() {
        let y = chunks.iter().map(|chunk| highest(chunk, column)).collect();
        let line = Line { name: (*name).to_owned(), x: Points::Each(x.clone()), y, style: Style::line(column) };
        chart.lines.push(line);
    }
    chart.limits = limits.to_vec();
    let many = if each > 1 { format!("the highest of {each} samples") } else { "one sample".to_owned() };
    chart.caption = format!(
        "Each point is {many}: a short look at the kernel's tracepoints, not all of the time. Queue is from the \
         kernel's acceptance of a request to its hand-over to the device; device from there to its completion."
    );
    let most = |column| highest(samples, column).map_or_else(|| "unknown".to_owned(), words::milliseconds);
    chart.key = format!("Highest p99 in a sample: device {}, kernel's queue {}.", most(0), most(1));
    chart
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "at_sec,length_ms,device,kind,size,requests,lost,queue_p50_ns,queue_p99_ns,queue_max_ns,\
                         device_p50_ns,device_p99_ns,device_max_ns,queue_over_1ms\n\
                         30,500,loop0,read,small,9,0,1,2000000,3000000,1,5000000,6000000,0\n\
                         60,500,loop0,read,small,9,0,1,,3000000,1,7000000,6000000,0\n\
                         60,500,loop0,write,large,9,0,1,1,1,1,1,1,0\n90,500,lo";

    #[test]
    fn samples_are_told_apart_and_torn_lines_left_out() {
        let all = samples(TABLE).unwrap();
        assert_eq!(all.keys().collect::<Vec<_>>(), ["large writes on loop0", "small reads on loop0"]);
        let reads = &all["small reads on loop0"];
        assert_eq!(reads[0], (30.0, [Some(5.0), Some(2.0), Some(6.0), Some(3.0)]));
        assert_eq!(reads[1].1[1], None, "an empty field is no number");
        let drawn = chart("x", reads, &[], Detail { points_max: 1, columns_max: 1 });
        assert_eq!(drawn.lines[0].y, [Some(7.0)], "the highest survives");
        assert_eq!(samples("a,b\n"), None);
    }
}
