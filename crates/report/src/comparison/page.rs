//! The comparison as a page: bars first, then the tables that Markdown has.

use super::table::{Rows, neighbours, results};
use super::{Cell, Comparison};
use crate::bars::Bars;
use crate::html::Page;
use crate::table::Table;
use results::units;

impl Comparison {
    /// A self-contained HTML page: no network, no other file.
    pub fn html(&self, made_by: &str) -> String {
        let names: Vec<&str> = self.candidates.iter().map(|candidate| candidate.name.as_str()).collect();
        let mut page = Page::new(format!("Comparison of {}", names.join(", ")));
        page.warnings(&self.warnings);
        page.add(&self.bars());
        page.heading("In numbers");
        let Rows { table, notes } = Rows::of(self, Table::text);
        page.add(&[table]);
        let notes = notes.iter().zip(1..).map(|(note, number)| format!("[{number}] {note}"));
        page.list(&notes.chain(self.candidates.iter().flat_map(results)).collect::<Vec<_>>());
        if let Some(baselines) = &self.baselines {
            page.add(&[baselines.table("Baselines")]);
            page.list(&baselines.outliers);
        }
        for (title, ratings) in self.candidates.iter().filter_map(neighbours) {
            page.heading(&title);
            page.list(&ratings);
        }
        if !self.remarks.is_empty() {
            page.heading("Remarks");
            page.list(&self.remarks);
        }
        page.html(made_by)
    }

    /// Load held, worst share over each threshold and p99 of each candidate; the numbers of baselines.
    fn bars(&self) -> Vec<Bars> {
        let mut load = Bars::new("Load held", "As a multiple of 1x.");
        let mut p99 = Bars::new("Service p99", "Of the judged stream over the whole run.");
        let mut worst: Vec<(u64, Bars)> = Vec::new();
        for of in &self.candidates {
            let held = of.load.value().and_then(|load| load.multiple.or(load.x_per_device));
            load.bar(&of.name, held, held.map_or_else(|| "-".to_owned(), units::multiple));
            let ns = of.p99.value().map(|p99| p99.service_ns);
            p99.bar(&of.name, ns.map(|ns| ns as f64), ns.map_or_else(|| "-".to_owned(), units::duration));
            for margin in of.margins.value().into_iter().flatten() {
                let Cell::Value(share) = &margin.worst else { continue };
                let at = worst.iter().position(|(ns, _)| *ns == margin.threshold_ns).unwrap_or_else(|| {
                    let title = format!("Worst share over {}", margin.threshold);
                    let caption = "The dashed line is the limit. A bar ends at twice the limit.";
                    worst.push((margin.threshold_ns, Bars::new(title, caption)));
                    worst.len() - 1
                });
                let text = format!("{} of {}", units::percent(share.share), units::percent_exact(margin.share_max));
                worst[at].1.against(&of.name, share.share, margin.share_max, text, share.is_over());
            }
        }
        worst.sort_by_key(|(ns, _)| *ns);
        let of_runs = std::iter::once(load).chain(worst.into_iter().map(|(_, bars)| bars)).chain([p99]);
        let of_baselines = self.baselines.iter().flat_map(|baselines| baselines.bars());
        of_runs.chain(of_baselines).filter(|bars| !bars.is_empty()).collect()
    }
}
