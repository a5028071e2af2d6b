//! Observes the counters of a real drive and the latencies of its clients during a run, and ends the run when enough
//! was seen.

use super::drive::Subject;
use super::experiment::latencies;
use load::waf::{Enough, Meter};
use load::workload::tenants::{Tenant, Tenants};
use report::waf::Timed;
use results::cell::{Cell, Interval, Layout};
use results::counts::Backlog;
use results::run_dir::Manifest;
use results::steady::ROUNDS_IN_WINDOW;
use results::waf::TenantBytes;
use session::recording::Watch;
use session::signals::Switch;
use std::collections::VecDeque;

/// Polls the drive during the run.
pub(super) struct Watched<'a> {
    subject: &'a Subject,
    switch: &'a Switch,
    fills_max: usize,
    meter: Option<Meter>,
    layout: Option<Layout>,
    /// Bytes written by each tenant.
    tenants: Vec<TenantBytes>,
    /// Records of the last drive fills: latencies cover the same time as the amplification.
    window: VecDeque<Fill>,
    ended_ns: u64,
    failure: Option<String>,
}

/// Records of one drive fill.
#[derive(Default)]
struct Fill {
    cells: Vec<Cell>,
    end: Vec<Backlog>,
    ns: u64,
}

impl Fill {
    fn add(&mut self, interval: &Interval, ns: u64) {
        match self.cells.is_empty() {
            true => self.cells = interval.cells.clone(),
            false => self.cells.iter_mut().zip(&interval.cells).for_each(|(all, cell)| all.merge(cell)),
        }
        self.end = interval.cells.iter().map(|cell| cell.counts.backlog).collect();
        self.ns += ns;
    }
}

impl<'a> Watched<'a> {
    /// Polls the counters of `subject` while `tenants` write to it, for at most `fills_max` drive fills.
    pub(super) fn new(subject: &'a Subject, switch: &'a Switch, tenants: &Tenants, fills_max: usize) -> Self {
        let tenant = |tenant: &Tenant| TenantBytes { name: tenant.name.clone(), client: 0, defrag: 0 };
        Self {
            subject,
            switch,
            fills_max,
            meter: None,
            layout: None,
            tenants: tenants.tenants.iter().map(tenant).collect(),
            window: VecDeque::new(),
            ended_ns: 0,
            failure: None,
        }
    }

    /// Counters of the drive; none before the first poll.
    pub(super) fn meter(&self) -> Option<&Meter> {
        self.meter.as_ref()
    }

    /// Bytes written by each tenant.
    pub(super) fn tenants(&self) -> &[TenantBytes] {
        &self.tenants
    }

    /// Adds an interval. Returns the bytes that tenants wrote in it.
    fn add(&mut self, interval: &Interval) -> u64 {
        let Some(layout) = &self.layout else { return 0 };
        let mut written = 0;
        for (at, stream) in layout.streams.iter().enumerate() {
            let Some((tenant, what)) = stream.name.rsplit_once('/') else { continue };
            let Some(tenant) = self.tenants.iter_mut().find(|one| one.name == tenant) else { continue };
            let bytes = interval.cells[layout.cell(at, 0)].counts.bytes;
            match what {
                "writes" => tenant.client += bytes,
                "defrag-writes" => tenant.defrag += bytes,
                _ => continue,
            }
            written += bytes;
        }
        written
    }

    /// Latencies of clients in the last five drive fills, or in fewer if there are fewer.
    pub(super) fn timed(&self, size_bytes: u64) -> Timed {
        let begun = self.window.iter().rev().filter(|fill| !fill.cells.is_empty());
        let mut fills = begun.take(ROUNDS_IN_WINDOW);
        let Some(last) = fills.next() else { return Timed::default() };
        let (mut cells, mut ns) = (last.cells.clone(), last.ns);
        for fill in fills {
            cells.iter_mut().zip(&fill.cells).for_each(|(all, cell)| all.merge(cell));
            ns += fill.ns;
        }
        let seconds = ns as f64 / 1e9;
        let streams = self.layout.iter().flat_map(|layout| &layout.streams);
        let of = streams.zip(&cells).zip(&last.end).map(|((stream, cell), end)| (stream, cell, *end));
        let written: u64 = self
            .layout
            .iter()
            .flat_map(|layout| layout.streams.iter().zip(&cells))
            .filter(|(stream, _)| stream.name.ends_with("writes"))
            .map(|(_, cell)| cell.counts.bytes)
            .sum();
        Timed {
            seconds,
            drive_fills: written as f64 / size_bytes as f64,
            device_waf: None,
            ended_early: None,
            latencies: latencies(of, seconds),
        }
    }
}

impl Watch for Watched<'_> {
    fn begins(&mut self, manifest: &Manifest) {
        self.layout = Some(manifest.layout());
        // Guards against a swapped drive.
        if !manifest.device_facts.first().is_some_and(|facts| self.subject.is_same(facts)) {
            self.failure = Some("another drive took its place, and nothing was written to that".to_owned());
            return;
        }
        match self.subject.counted() {
            Ok(now) => self.meter = Some(Meter::new("all", self.subject.size_bytes(), self.fills_max, now)),
            Err(why) => self.failure = Some(why),
        }
    }

    fn interval(&mut self, interval: &Interval) -> Option<String> {
        if self.failure.is_some() {
            return None;
        }
        let written = self.add(interval);
        let meter = self.meter.as_mut()?;
        let rounds = meter.found().rounds();
        if self.window.is_empty() {
            self.window.push_back(Fill::default());
        }
        if let Some(fill) = self.window.back_mut() {
            fill.add(interval, interval.end_ns.saturating_sub(self.ended_ns));
        }
        self.ended_ns = interval.end_ns;
        let told = meter.written(written, || self.subject.counted());
        let is_over = meter.found().rounds() > rounds;
        match told {
            Ok(None) if self.switch.was_asked().is_some() => Some("a signal came".to_owned()),
            Ok(None) => {
                if is_over {
                    self.window.push_back(Fill::default());
                    // One more for the current drive fill.
                    while self.window.len() > ROUNDS_IN_WINDOW + 1 {
                        self.window.pop_front();
                    }
                }
                None
            }
            Ok(Some(Enough::Steady)) => {
                Some(format!("write amplification was steady after {} drive fills", meter.found().rounds()))
            }
            Ok(Some(Enough::Fills)) => {
                Some(format!("{} drive fills were written, and write amplification is not steady", self.fills_max))
            }
            Err(why) => {
                self.failure = Some(why);
                None
            }
        }
    }

    fn failed(&self) -> Option<String> {
        self.failure.clone()
    }
}
