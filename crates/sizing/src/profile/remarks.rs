//! Names what the log says about devices and no number of the profile contains: events, and indexes on flash.

use super::derive::NodeSources;
use super::{DeviceLoad, IndexLoad, Window};
use crate::server_log::kinds::{FLASH_INDEX, FLASH_INDEX_7, FLASH_SINDEX, LineKind, Treatment};
use jiff::Timestamp;
use results::units::{count, span};

impl NodeSources<'_> {
    /// A sentence for each kind of line that is named, with its times, and whether these are in `window`.
    pub(super) fn events(&self, window: Window) -> Vec<String> {
        let id = &self.id;
        let sentence = |(kind, subject, periods): (&LineKind, &str, &[(Timestamp, Timestamp)])| {
            let Treatment::Named(meaning) = kind.treatment else { return None };
            let subject = match subject {
                "" => String::new(),
                device if device.starts_with('/') => format!(", {device}"),
                namespace => format!(", {{{namespace}}}"),
            };
            Some(format!("node {id}{subject}: {meaning} ({})", times(periods, window)))
        };
        self.log.events.iter().filter_map(sentence).collect()
    }

    /// The indexes on flash of the namespaces of `loads`, with the rates that an index test needs.
    pub(super) fn indexes(&self, loads: &[DeviceLoad], window: Window) -> Vec<IndexLoad> {
        let mut indexes = Vec::new();
        for load in loads {
            if indexes.iter().any(|index: &IndexLoad| index.namespace == load.namespace) {
                continue;
            }
            let mut types = self.facts(&load.namespace, window).flash_indexes;
            let is_logged = |text| self.log.events.has(text, &load.namespace);
            if is_logged(FLASH_INDEX) || is_logged(FLASH_INDEX_7) {
                types.entry("index-type".to_owned()).or_default();
            }
            if is_logged(FLASH_SINDEX) {
                types.entry("sindex-type".to_owned()).or_default();
            }
            let of_namespace = loads.iter().filter(|other| other.namespace == load.namespace);
            let writes = of_namespace.map(|load| load.writes_per_sec).sum();
            indexes.extend(types.into_iter().map(|(kind, mounts)| IndexLoad {
                node: self.id.clone(),
                namespace: load.namespace.clone(),
                is_secondary: kind == "sindex-type",
                mounts,
                reads_per_sec: load.client_reads_per_sec,
                writes_per_sec: (!load.is_records_unknown).then_some(writes),
                defrag_lwm_pct: self.facts(&load.namespace, window).defrag_lwm_pct,
            }));
        }
        indexes
    }
}

/// A sentence about an index on flash.
pub(super) fn of_index(index: &IndexLoad) -> String {
    let IndexLoad { node, namespace, is_secondary, mounts, .. } = index;
    let mounts = if mounts.is_empty() { String::new() } else { format!(" ({})", mounts.join(", ")) };
    let advice = match (is_secondary, index.transactions()) {
        (true, _) => "the log does not count the I/O of secondary indexes".to_owned(),
        (false, Some(_)) => format!("{namespace}-index.conf has its rates: flashproof index {namespace}-index.conf"),
        (false, None) => {
            "the log lacks the rates of clients (the histograms read and write of the namespace)".to_owned()
        }
    };
    let what = if *is_secondary { "secondary indexes are" } else { "the primary index is" };
    format!(
        "node {node}, {{{namespace}}}: {what} on flash{mounts}: this profile covers only the data devices, and the index \
         device needs an index test - {advice}"
    )
}

/// The periods as text, and their place in time relative to `window`.
fn times(periods: &[(Timestamp, Timestamp)], window: Window) -> String {
    let (Some((first, _)), Some((_, last))) = (periods.first(), periods.last()) else { return String::new() };
    let inside = periods.iter().filter(|(begin, end)| *begin <= window.to && *end >= window.from).count();
    let place = match inside {
        0 => "outside the window",
        _ => "also within the window",
    };
    let length = last.duration_since(*first).as_secs().unsigned_abs();
    match (periods.len(), length) {
        (1, 0) => format!("{first:.0}, {}", if inside == 0 { place } else { "within the window" }),
        (1, _) => format!("{first:.0}, for {}, {place}", span(length)),
        (n, _) => format!("{} from {first:.0} to {last:.0}, {place}", count(n as u64, "time")),
    }
}
