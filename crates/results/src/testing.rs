//! Helpers shared by tests of several crates.

use crate::buckets::ActScale;
use crate::cell::{ActHistograms, Layout, StreamInfo};
use crate::judge::Sla;

/// A layout judged by ACT's limits. `streams` has pairs of a name and true for a judged stream; each stream has the
/// rate `offered_iops` and is in ACT's log.
pub fn layout<D: Into<String>>(
    streams: &[(&str, bool)],
    offered_iops: f64,
    devices: impl IntoIterator<Item = D>,
) -> Layout {
    let stream = |&(name, judged): &(&str, bool)| StreamInfo {
        name: name.to_owned(),
        judged,
        offered_iops,
        workload: 0,
        act: Some(ActHistograms {
            scale: ActScale::Milliseconds,
            per_device: judged,
        }),
        ..StreamInfo::default()
    };
    Layout {
        streams: streams.iter().map(stream).collect(),
        devices: devices.into_iter().map(Into::into).collect(),
        thresholds_ns: Sla::default().thresholds_ns(),
    }
}
