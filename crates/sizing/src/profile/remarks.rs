//! Remarks about events and indexes on flash, which no number of the profile contains.

use super::sources::NodeSources;
use super::{DeviceLoad, IndexLoad, LoadWindow};
use crate::server_log::kinds::{
    FLASH_INDEX, FLASH_INDEX_7, FLASH_SINDEX, FLASH_SINDEX_7, Treatment,
};
use jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of namespaces and devices that a remark names.
const SUBJECTS_SHOWN: usize = 8;

/// Named lines that have the same meaning.
#[derive(Default)]
struct NamedEvents {
    subjects: BTreeSet<String>,
    /// First and last time of each series of lines.
    periods: Vec<(Timestamp, Timestamp)>,
}

impl NodeSources<'_> {
    /// A remark for each meaning of named lines, with namespaces and devices, and times relative to `window`.
    pub(super) fn events(&self, window: LoadWindow) -> Vec<String> {
        let mut by_meaning = BTreeMap::<&str, NamedEvents>::new();
        for (kind, subject, periods) in self.log.events.iter() {
            let Treatment::Named(meaning) = kind.treatment else {
                continue;
            };
            let events = by_meaning.entry(meaning).or_default();
            let is_namespace = !subject.is_empty() && !subject.starts_with('/');
            events.subjects.insert(if is_namespace {
                format!("{{{subject}}}")
            } else {
                subject.to_owned()
            });
            events.periods.extend(periods);
        }
        by_meaning
            .into_iter()
            .map(
                |(
                    meaning,
                    NamedEvents {
                        subjects,
                        mut periods,
                    },
                ): (&str, NamedEvents)| {
                    periods.sort_unstable();
                    let shown = subjects
                        .iter()
                        .filter(|subject| !subject.is_empty())
                        .take(SUBJECTS_SHOWN);
                    let about: String = shown.map(|subject| format!(", {subject}")).collect();
                    let more = subjects.len().saturating_sub(SUBJECTS_SHOWN);
                    let more = if more > 0 {
                        format!(" and {more} more")
                    } else {
                        String::new()
                    };
                    format!(
                        "node {}{about}{more}: {meaning} ({})",
                        self.id,
                        times(&periods, window)
                    )
                },
            )
            .collect()
    }

    /// The indexes on flash of the namespaces of `loads`, with the rates that an index test needs.
    pub(super) fn indexes(&self, loads: &[DeviceLoad], window: LoadWindow) -> Vec<IndexLoad> {
        let mut indexes = Vec::new();
        for load in loads {
            if indexes
                .iter()
                .any(|index: &IndexLoad| index.namespace == load.namespace)
            {
                continue;
            }
            let mut types = self.facts(&load.namespace, window).flash_indexes;
            let is_logged = |text| self.log.events.has(text, &load.namespace);
            if is_logged(FLASH_INDEX) || is_logged(FLASH_INDEX_7) {
                types.entry("index-type".to_owned()).or_default();
            }
            if is_logged(FLASH_SINDEX) || is_logged(FLASH_SINDEX_7) {
                types.entry("sindex-type".to_owned()).or_default();
            }
            let of_namespace = loads
                .iter()
                .filter(|other| other.namespace == load.namespace);
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

pub(super) fn of_index(index: &IndexLoad) -> String {
    let IndexLoad {
        node,
        namespace,
        is_secondary,
        mounts,
        ..
    } = index;
    let mounts = if mounts.is_empty() {
        String::new()
    } else {
        format!(" ({})", mounts.join(", "))
    };
    let advice = match (is_secondary, index.transactions()) {
        (true, _) => "the log does not count the I/O of secondary indexes".to_owned(),
        (false, Some(_)) => {
            format!("{namespace}-index.conf has its rates: flashproof index {namespace}-index.conf")
        }
        (false, None) => {
            "the log lacks the rates of clients (the histograms read and write of the namespace)"
                .to_owned()
        }
    };
    let what = if *is_secondary {
        "secondary indexes are"
    } else {
        "the primary index is"
    };
    format!(
        "node {node}, {{{namespace}}}: {what} on flash{mounts}: this profile covers only the data devices, and the index \
         device needs an index test - {advice}"
    )
}

/// The ascending periods as text, and their place in time relative to `window`.
fn times(periods: &[(Timestamp, Timestamp)], window: LoadWindow) -> String {
    let (Some((first, _)), Some(last)) =
        (periods.first(), periods.iter().map(|(_, end)| end).max())
    else {
        return String::new();
    };
    let is_outside =
        |(begin, end): &(Timestamp, Timestamp)| *begin > window.to || *end < window.from;
    let is_inside =
        |(begin, end): &(Timestamp, Timestamp)| *begin >= window.from && *end <= window.to;
    let place = match (
        periods.iter().all(is_outside),
        periods.iter().all(is_inside),
    ) {
        (true, _) => "outside the window",
        (_, true) => "within the window",
        _ => "partly within the window",
    };
    if first == last {
        format!("at {first:.0}, {place}")
    } else {
        format!("from {first:.0} to {last:.0}, {place}")
    }
}
