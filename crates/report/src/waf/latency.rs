//! What clients waited for, tenant by tenant in each arrangement.

use super::{Arranged, WafReport};
use crate::latencies::Quantiles;
use crate::table::{Cell, Table};
use results::units;
use schemars::JsonSchema;
use serde::Serialize;

/// A percentile is told where so many operations at least were slower.
const BEYOND: f64 = 1.0;

/// Whoever does less than this share of what was wanted of it does not keep up.
const KEEPS_UP: f64 = 0.99;

/// A stretch of time in which latencies were measured, open loop.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Timed {
    /// Its length in seconds; virtual on simulated drives.
    pub seconds: f64,
    /// How much of a drive fill hosts wrote in it.
    pub drive_fills: f64,
    /// WAF of the drives in it, where they began steady: to be compared with that without time.
    pub device_waf: Option<f64>,
    /// Why it ended before its time, if it did.
    pub ended_early: Option<String>,
    /// Reads and writes of each tenant's clients.
    pub latencies: Vec<Latency>,
}

/// What became of one kind of operation of a tenant's clients.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Latency {
    /// The tenant.
    pub tenant: String,
    /// reads (of records) or writes (of write blocks).
    pub operation: String,
    /// Operations a second that were intended in that time.
    pub wanted_per_sec: f64,
    /// Those that came back in it.
    pub done_per_sec: f64,
    /// From hand-over to completion.
    pub service: Quantiles,
    /// Before that, from the intended instant on, for a slot among those in flight.
    pub wait: Quantiles,
}

impl Latency {
    /// Whether the drive did what was wanted of it.
    pub fn keeps_up(&self) -> bool {
        self.done_per_sec >= KEEPS_UP * self.wanted_per_sec
    }
}

/// So near each other, as a share, are amplification without time and with it.
const AGREE: f64 = 0.05;

/// Milliseconds; nothing where too few operations lie beyond to tell.
fn told(quantiles: &Quantiles, quantile: f64, ns: u64) -> String {
    match quantiles.count as f64 * (1.0 - quantile) >= BEYOND - 1e-9 {
        true => format!("{:.3}", ns as f64 / 1e6),
        false => "-".to_owned(),
    }
}

impl WafReport {
    /// Latencies of clients.
    pub fn latencies(&self) -> Table {
        let mut table = Table::new("Latencies of clients, milliseconds")
            .text(["arrangement", "tenant", "", ""])
            .numbers(["wanted/s", "done/s", "p50", "p99", "p99.9", "max"]);
        for one in &self.arrangements {
            let Some(timed) = &one.timed else { continue };
            for (number, of) in timed.latencies.iter().enumerate() {
                let is_new = number == 0 || timed.latencies[number - 1].tenant != of.tenant;
                let waited = (of.wait.max_ns > 0).then_some(("wait", &of.wait));
                for (line, (what, quantiles)) in [("service", &of.service)].into_iter().chain(waited).enumerate() {
                    let ms = [(0.5, quantiles.p50_ns), (0.99, quantiles.p99_ns), (0.999, quantiles.p999_ns)];
                    let [p50, p99, p999] = ms.map(|(quantile, ns)| Cell::from(told(quantiles, quantile, ns)));
                    let first = |text: String| Cell::from(if line == 0 { text } else { String::new() });
                    let done = units::number(of.done_per_sec);
                    table.row([
                        first(if number == 0 { one.arrangement.clone() } else { String::new() }),
                        first(if is_new { of.tenant.clone() } else { String::new() }),
                        first(of.operation.clone()),
                        what.into(),
                        first(units::number(of.wanted_per_sec)),
                        if line == 0 && !of.keeps_up() { Cell::bad(done) } else { first(done) },
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

    /// What latencies cover, and who did not keep up: a sentence each.
    pub fn about_latencies(&self) -> Vec<String> {
        let mut told = Vec::new();
        for one in &self.arrangements {
            let (name, Some(timed)) = (&one.arrangement, &one.timed) else { continue };
            let behind: Vec<_> = timed.latencies.iter().filter(|of| !of.keeps_up()).collect();
            for of in &behind {
                told.push(format!(
                    "{name}: the drive cannot follow the {} of {}: {} a second were wanted and {} done, so these latencies are those \
                     of a queue that grows - lower the rates",
                    of.operation,
                    of.tenant,
                    units::number(of.wanted_per_sec),
                    units::number(of.done_per_sec)
                ));
            }
            if let Some((waf, with_time)) = one.waf.zip(timed.device_waf)
                && (with_time / waf - 1.0).abs() > AGREE
            {
                told.push(format!(
                    "{name}: device WAF is {waf:.2} without time and {with_time:.2} with it: {} drive fills are too few to settle, or \
                     the drive cannot follow",
                    units::number(timed.drive_fills)
                ));
            }
            if let Some(why) = &timed.ended_early {
                told.push(format!("{name}: latencies are those of {} only: {why}", units::span_of(timed.seconds)));
            }
        }
        told
    }
}

/// The p99.9 of each tenant's reads and of its writes, for a row each: its name, and its cell of an arrangement.
pub(super) fn worst(arrangements: &[Arranged]) -> Vec<(String, impl Fn(&Arranged) -> String)> {
    let mut rows: Vec<(String, String)> = Vec::new();
    for of in arrangements.iter().filter_map(|one| one.timed.as_ref()).flat_map(|timed| &timed.latencies) {
        let key = (of.tenant.clone(), of.operation.clone());
        if !rows.contains(&key) {
            rows.push(key);
        }
    }
    let row = |(tenant, operation): (String, String)| {
        let name = format!("{tenant} {operation}, p99.9 in ms");
        let cell = move |one: &Arranged| {
            let all = one.timed.iter().flat_map(|timed| &timed.latencies);
            let of = all.into_iter().find(|of| of.tenant == tenant && of.operation == operation);
            match of {
                Some(of) if !of.keeps_up() => "cannot follow".to_owned(),
                Some(of) => {
                    let waited =
                        (of.wait.p999_ns > 0).then(|| format!(" + {}", told(&of.wait, 0.999, of.wait.p999_ns)));
                    told(&of.service, 0.999, of.service.p999_ns) + &waited.unwrap_or_default()
                }
                None => "-".to_owned(),
            }
        };
        (name, cell)
    };
    rows.into_iter().map(row).collect()
}
