//! Conclusions from runs: whether a drive is certified, good enough for a database, or slower than its peers.
//!
//! This crate is pure, like [`results`], which covers the numbers and the verdict of a single run.
//!
//! * [`percentile`]: percentiles that a number of operations can resolve
//! * [`series`]: several runs with a common purpose (a certification, a search for the highest rating)
//! * [`certify`]: the stages of a certification, and what it claims
//! * [`rate`]: the highest load that a drive holds
//! * [`baseline`]: measurements of a drive under fio's jobs
//! * [`circumstances`]: drives, host and command of a result
//! * [`check`]: tests if a disk is good enough for a database
//! * [`durability`]: tests if acknowledged writes survive a power cut
//! * [`population`]: compares drives of a model: finds slow drives, and the rating that most drives hold
//! * [`together`]: judges simultaneous runs of several hosts as one test
//! * [`agreement`]: compares the runs of a series with its record
//! * [`rejudge`]: judges a finished series again from its runs

#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "tests make files of their own")
)]

pub mod agreement;
pub mod baseline;
pub mod certify;
pub mod check;
pub mod check_plan;
pub mod circumstances;
pub mod durability;
pub mod percentile;
pub mod population;
pub mod rate;
pub mod rejudge;
pub mod series;
#[doc(hidden)]
pub mod testing;
pub mod together;

/// Values grouped by key, in the order in which the keys first occur.
pub fn grouped<K: PartialEq, V>(pairs: impl IntoIterator<Item = (K, V)>) -> Vec<(K, Vec<V>)> {
    let mut groups: Vec<(K, Vec<V>)> = Vec::new();
    for (key, value) in pairs {
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, values)) => values.push(value),
            None => groups.push((key, vec![value])),
        }
    }
    groups
}

/// `read` or `write`; `None` for flushes and discards. The stream's name decides, because a run directory does not
/// record the kind of operation.
pub fn direction(stream: &str) -> Option<&'static str> {
    if stream.contains("write") {
        Some("write")
    } else {
        (!stream.contains("flushes") && !stream.contains("discards")).then_some("read")
    }
}
