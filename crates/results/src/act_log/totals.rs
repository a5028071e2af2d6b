//! The cumulative histograms of a run for ACT's chunks.
//!
//! ACT's log counts from the beginning of the run and has some streams over all devices only. This module keeps those
//! sums between the reports, for a log in the run directory or on standard output.

use super::write::write_histogram;
use crate::buckets::ActBuckets;
use crate::cell::{Interval, Layout};
use std::io::{self, Write};

/// The histograms that ACT's log has of a workload of `layout`: each stream, and for record operations
/// each device's share (`/dev/x-reads`) after it.
pub fn histogram_names(layout: &Layout, workload: usize) -> Vec<String> {
    histograms(layout, workload).map(|histogram| histogram.name).collect()
}

/// The histograms of a workload, empty.
fn histograms(layout: &Layout, workload: usize) -> impl Iterator<Item = Total> {
    let streams = layout.streams.iter().enumerate().filter(move |(_, stream)| stream.workload == workload);
    streams.filter_map(|(index, stream)| Some((index, stream, stream.act?))).flat_map(|(index, stream, act)| {
        let cells = layout.cell(index, 0)..layout.cell(index, layout.devices.len());
        let devices = if act.per_device { &layout.devices[..] } else { &[] };
        let first = cells.start;
        let total = move |name, cells| Total { name, cells, buckets: ActBuckets::new(act.scale) };
        // In its own log the name of the workload, before the slash, would be in the way of ACT's script.
        let own_name = stream.name.rsplit('/').next().unwrap_or_default();
        let of_device = move |(device, name): (usize, &String)| {
            total(format!("{name}-{own_name}"), first + device..first + device + 1)
        };
        std::iter::once(total(own_name.to_owned(), cells)).chain(devices.iter().enumerate().map(of_device))
    })
}

/// Service times in ACT's buckets since the run began.
#[derive(Debug, Clone)]
pub struct Totals {
    histograms: Vec<Total>,
}

#[derive(Debug, Clone)]
struct Total {
    name: String,
    cells: std::ops::Range<usize>,
    buckets: ActBuckets,
}

impl Totals {
    /// Empty histograms, one for each of [`histogram_names`].
    pub fn new(layout: &Layout, workload: usize) -> Self {
        Self { histograms: histograms(layout, workload).collect() }
    }

    /// Adds one interval of the same layout.
    pub fn add(&mut self, interval: &Interval) {
        for total in &mut self.histograms {
            for act in interval.cells[total.cells.clone()].iter().filter_map(|cell| cell.act.as_ref()) {
                total.buckets.merge(act);
            }
        }
    }

    /// Writes a chunk of the sums so far.
    pub fn write_chunk<W: Write>(&self, out: &mut W, after_sec: u64) -> io::Result<()> {
        writeln!(out, "after {after_sec} sec:")?;
        for total in &self.histograms {
            write_histogram(out, &total.name, &total.buckets)?;
        }
        writeln!(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buckets::ActScale;
    use crate::cell::{ActHistograms, StreamInfo};
    use crate::times::Times;

    fn layout() -> Layout {
        let stream = |name: &str, per_device, in_log: bool| StreamInfo {
            name: name.to_owned(),
            judged: per_device,
            offered_iops: 1.0,
            workload: 0,
            act: in_log.then_some(ActHistograms { scale: ActScale::Milliseconds, per_device }),
            ..StreamInfo::default()
        };
        Layout {
            streams: vec![
                stream("reads", true, true),
                stream("large-block-reads", false, true),
                stream("tomb-raider-reads", false, false),
            ],
            devices: vec!["/dev/a".to_owned(), "/dev/b".to_owned()],
            thresholds_ns: [1_000_000].into(),
        }
    }

    #[test]
    fn names_come_as_act_orders_them_and_the_tomb_raider_is_left_out() {
        assert_eq!(histogram_names(&layout(), 0), ["reads", "/dev/a-reads", "/dev/b-reads", "large-block-reads"]);
    }

    #[test]
    fn chunks_are_cumulative_and_add_up_the_devices() {
        let layout = layout();
        let mut totals = Totals::new(&layout, 0);
        let mut interval = Interval::new(&layout);
        for device in 0..2 {
            interval.cells[layout.cell(0, device)].record(&Times::new(0, 0, 0, 1_500_000), 0, 1536);
        }
        interval.cells[layout.cell(1, 1)].record(&Times::new(0, 0, 0, 1), 0, 131_072);
        totals.add(&interval);
        totals.add(&interval);
        let mut out = Vec::new();
        totals.write_chunk(&mut out, 2).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "after 2 sec:\nreads (4 total)\n (01: 0000000004)\n/dev/a-reads (2 total)\n (01: 0000000002)\n\
             /dev/b-reads (2 total)\n (01: 0000000002)\nlarge-block-reads (2 total)\n (00: 0000000002)\n\n"
        );
    }
}
