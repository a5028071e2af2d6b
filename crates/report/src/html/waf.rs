//! The page of an experiment on write amplification.

use super::parts::{charts, list, section};
use super::plot::Plots;
use crate::tables::named_values;
use crate::waf::WafReport;
use maud::html;

impl WafReport {
    /// A self-contained HTML page: no network, no other file.
    pub fn html(&self) -> String {
        let mut plots = Plots::default();
        let title = format!("Write amplification of {}", self.tenants);
        let sections = self.sections();
        let assumptions = self.assumptions.iter().map(|pair| (pair.name.clone(), pair.value.clone()));
        let body = html! {
            article {
                h1 { (title) }
                (self.table())
                @for of in &sections { (charts(of, "", 2, &mut plots)) }
                @for sweep in &self.sweeps { (Self::sweep(sweep)) (list(&Self::missing(sweep))) }
                @let latencies = self.latencies();
                @if !latencies.is_empty() { (latencies) }
                (self.tenants_table())
                details { summary { "Device WAF by octile of each drive fill" } (self.octiles()) }
                (section("assumptions".to_owned(), 2, "Assumptions", html! { (named_values("What was assumed", assumptions)) }))
                @if !self.remarks.is_empty() { (section("remarks".to_owned(), 2, "Remarks", list(&self.remarks))) }
            }
        };
        super::shell(&title, body, &plots, &self.made_by)
    }
}
