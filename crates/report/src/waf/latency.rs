//! Latencies of clients, tenant by tenant in each arrangement.

use super::{Arranged, WafReport};
use crate::latencies::Quantiles;
use crate::table::{Cell, Table};
use crate::words::unique;
use conclusions::percentile;
use results::counts::Backlog;
use results::format;
use schemars::JsonSchema;
use serde::Serialize;

/// Maximum fraction of the scheduled operations that may be late or fail; with more, p99.9 is meaningless.
const MISSING: f64 = 0.001;

/// A stretch of time in which latencies were measured, open loop.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct Timed {
    /// Length of the stretch, seconds; virtual time on simulated drives.
    pub seconds: f64,
    /// Bytes that hosts wrote in that time, in drive fills.
    pub drive_fills: f64,
    /// WAF of the drives in that time, to compare with the steady WAF; null unless the drives were steady before.
    pub device_waf: Option<f64>,
    /// Why the measurement ended early; null if it did not.
    pub ended_early: Option<String>,
    /// Reads and writes of each tenant's clients.
    pub latencies: Vec<Latency>,
}

/// Counts and waits of one kind of operation of a tenant's clients.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Latency {
    /// The tenant.
    pub tenant: String,
    /// Operation: reads (of records) or writes (of write blocks).
    pub operation: String,
    /// Operations per second scheduled in the interval.
    #[serde(rename = "wanted_per_sec")]
    pub scheduled_per_sec: f64,
    /// Operations per second completed in the interval.
    pub done_per_sec: f64,
    /// Operations scheduled in the interval.
    #[serde(rename = "wanted")]
    pub scheduled: u64,
    /// Part of `wanted` that was not issued by the end of the interval, because too many operations were in flight.
    pub late: u64,
    /// Failed operations.
    pub failed: u64,
    /// Service time: from submission to completion.
    pub service: Quantiles,
    /// Wait for a free slot: from the scheduled start to submission.
    pub wait: Quantiles,
}

impl Latency {
    /// One kind of operation of a tenant's clients. `cell` was recorded over `seconds`; `end`: the final backlog.
    pub fn new(
        (tenant, operation): (&str, &str),
        cell: &results::cell::Cell,
        end: Backlog,
        seconds: f64,
    ) -> Self {
        // Operations not completed at the end of the interval are in its backlog: in flight, waiting or late.
        let done_ops = cell.counts.ops - cell.counts.overtime;
        let late = end
            .waiting
            .saturating_add(end.late)
            .max(cell.counts.unissued);
        let scheduled_ops = done_ops
            .saturating_add(cell.counts.errors)
            .saturating_add(end.in_flight)
            .saturating_add(late);
        Self {
            tenant: tenant.to_owned(),
            operation: operation.to_owned(),
            scheduled_per_sec: scheduled_ops as f64 / seconds,
            done_per_sec: done_ops as f64 / seconds,
            scheduled: scheduled_ops,
            late,
            failed: cell.counts.errors,
            service: (&cell.service).into(),
            wait: (&cell.wait).into(),
        }
    }

    /// True if at most 0.1 % of the scheduled operations were late.
    pub fn keeps_up(&self) -> bool {
        self.late as f64 <= MISSING * self.scheduled as f64
    }

    /// True if at most 0.1 % of the scheduled operations failed.
    fn succeeds(&self) -> bool {
        self.failed as f64 <= MISSING * self.scheduled as f64
    }

    fn p999_text(&self) -> String {
        let Self { service, wait, .. } = self;
        if !self.keeps_up() {
            "overloaded".to_owned()
        } else if !self.succeeds() {
            "fails".to_owned()
        } else if wait.p999_ns > service.p999_ns {
            // Quantiles of two durations do not add up, so the larger one is shown with its name.
            format!("{} wait", quantile_text(wait, 0.999, wait.p999_ns))
        } else {
            quantile_text(service, 0.999, service.p999_ns)
        }
    }
}

/// Maximum relative difference between the steady WAF and the WAF of the timed phase that counts as agreement.
const AGREEMENT: f64 = 0.05;

/// Milliseconds; a dash if too few operations determine the quantile.
fn quantile_text(quantiles: &Quantiles, quantile: f64, ns: u64) -> String {
    let is_told = percentile::is_resolved(quantiles.count, 100.0 * quantile);
    if is_told {
        format!("{:.3}", ns as f64 / 1e6)
    } else {
        "-".to_owned()
    }
}

impl WafReport {
    pub fn latencies(&self) -> Table {
        let mut table = Table::new("Latencies of clients, milliseconds")
            .text(["arrangement", "tenant", "", ""])
            .numbers(["wanted/s", "done/s", "p50", "p99", "p99.9", "max"]);
        for arranged in &self.arrangements {
            let Some(timed) = &arranged.timed else {
                continue;
            };
            for (number, latency) in timed.latencies.iter().enumerate() {
                let is_new = number == 0 || timed.latencies[number - 1].tenant != latency.tenant;
                let waited = (latency.wait.max_ns > 0).then_some(("wait", &latency.wait));
                for (line, (time_name, quantiles)) in [("service", &latency.service)]
                    .into_iter()
                    .chain(waited)
                    .enumerate()
                {
                    let ms = [
                        (0.5, quantiles.p50_ns),
                        (0.99, quantiles.p99_ns),
                        (0.999, quantiles.p999_ns),
                    ];
                    let [p50, p99, p999] =
                        ms.map(|(quantile, ns)| Cell::from(quantile_text(quantiles, quantile, ns)));
                    let first =
                        |text: String| Cell::from(if line == 0 { text } else { String::new() });
                    let done_rate = format::number(latency.done_per_sec);
                    table.row([
                        first(if number == 0 {
                            arranged.arrangement.clone()
                        } else {
                            String::new()
                        }),
                        first(if is_new {
                            latency.tenant.clone()
                        } else {
                            String::new()
                        }),
                        first(latency.operation.clone()),
                        time_name.into(),
                        first(format::number(latency.scheduled_per_sec)),
                        if line == 0 && !latency.keeps_up() {
                            Cell::bad(done_rate)
                        } else {
                            first(done_rate)
                        },
                        p50,
                        p99,
                        p999,
                        format!("{:.3}", quantiles.max_ns as f64 / 1e6).into(),
                    ]);
                }
            }
        }
        table
    }

    /// Sentences on the limits of the latencies: drives that could not keep up, failed operations, a WAF that was not
    /// steady, measurements that ended early.
    pub fn about_latencies(&self) -> Vec<String> {
        let mut sentences = Vec::new();
        for arranged in &self.arrangements {
            let name = &arranged.arrangement;
            let Some(timed) = &arranged.timed else {
                continue;
            };
            for latency in &timed.latencies {
                let Latency {
                    tenant, operation, ..
                } = latency;
                let late = format::Grouped(latency.late);
                let failed = format::Grouped(latency.failed);
                let scheduled = format::Grouped(latency.scheduled);
                if !latency.keeps_up() {
                    sentences.push(format!(
                        "{name}: the drive cannot keep up with the {operation} of {tenant}: at the end {late} of \
                         {scheduled} scheduled operations were not \
                         issued, so the latencies are those of a growing queue - lower the rates"
                    ));
                }
                if latency.failed > 0 {
                    let what = format!("{failed} of {scheduled} {operation} of {tenant}");
                    sentences.push(format!(
                        "{name}: {what} failed, and the latencies do not include them"
                    ));
                }
            }
            if let Some((waf, with_time)) = arranged.waf.zip(timed.device_waf)
                && (with_time / waf - 1.0).abs() > AGREEMENT
            {
                let fills = format::number(timed.drive_fills);
                sentences.push(format!(
                    "{name}: device WAF is {waf:.2} in steady state, but {with_time:.2} while latencies were measured: \
                     {fills} drive fills are too few \
                     for a steady state, or the drive cannot keep up"
                ));
            }
            if let Some(why) = &timed.ended_early {
                sentences.push(format!(
                    "{name}: latencies cover only {}: {why}",
                    format::span_of(timed.seconds)
                ));
            }
        }
        sentences
    }
}

/// Rows with the p99.9 of each tenant's reads and of its writes: name, and the text for each arrangement.
pub(super) fn p999_rows(arrangements: &[Arranged]) -> Vec<(String, Vec<String>)> {
    let all_latencies = arrangements
        .iter()
        .filter_map(|arranged| arranged.timed.as_ref())
        .flat_map(|timed| &timed.latencies);
    let mut rows = Vec::new();
    for (tenant, operation) in
        unique(all_latencies.map(|latency| (&latency.tenant, &latency.operation)))
    {
        let texts = arrangements.iter().map(|arranged| {
            let mut latencies = arranged.timed.iter().flat_map(|timed| &timed.latencies);
            latencies
                .find(|latency| latency.tenant == *tenant && latency.operation == *operation)
                .map_or_else(|| "-".to_owned(), Latency::p999_text)
        });
        rows.push((
            format!("{tenant} {operation}, p99.9 in ms"),
            texts.collect(),
        ));
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `ops` operations with this wait and service time, `errors` failed ones, and `waiting` ones at the end.
    fn latency(ops: u64, errors: u64, waiting: u64, service_ns: u64, wait_ns: u64) -> Latency {
        let mut cell = results::cell::Cell::new(
            &results::testing::layout(&[("reads", true)], 1.0, ["d"]).streams[0],
            [].into(),
        );
        for _ in 0..ops {
            cell.record(
                &results::times::Times::new(0, wait_ns, wait_ns, wait_ns + service_ns),
                0,
                512,
            );
        }
        cell.record_errors(errors, 0);
        Latency::new(
            ("a", "reads"),
            &cell,
            Backlog {
                in_flight: 20,
                waiting,
                late: 0,
            },
            10.0,
        )
    }

    fn arranged(latency: Latency) -> Arranged {
        let counted = results::waf::ArrangementResult {
            drives: Vec::new(),
            tenants: Vec::new(),
            steady_after: None,
        };
        let device_waf = None;
        let ended_early = None;
        let timed = Timed {
            seconds: 10.0,
            drive_fills: 1.0,
            device_waf,
            ended_early,
            latencies: vec![latency],
        };
        Arranged::new("shared", counted, Some(timed))
    }

    fn cell(latency: Latency) -> (String, String) {
        let (name, mut texts) = p999_rows(&[arranged(latency)]).remove(0);
        (name, texts.remove(0))
    }

    #[test]
    fn p999_is_shown_if_enough_operations_completed_and_few_are_missing() {
        let told = |latency| {
            let (name, text) = cell(latency);
            assert_eq!(name, "a reads, p99.9 in ms");
            text
        };
        assert_eq!(told(latency(10_000, 0, 0, 2_000_000, 0)), "2.007");
        assert_eq!(told(latency(10_000, 10, 10, 2_000_000, 1_000)), "2.007");
        assert_eq!(told(latency(10_000, 0, 11, 2_000_000, 0)), "overloaded");
        assert_eq!(told(latency(10_000, 11, 0, 2_000_000, 0)), "fails");
        assert!(told(latency(10_000, 0, 0, 2_000_000, 3_000_000)).ends_with(" wait"));
        assert_eq!(told(latency(999, 0, 0, 2_000_000, 0)), "-");
        // Operations in flight at the end are neither late nor lost.
        let few = latency(40, 0, 0, 2_000_000, 0);
        assert!(few.keeps_up() && few.scheduled == 60);
    }
}
