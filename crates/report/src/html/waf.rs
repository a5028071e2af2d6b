//! The page of an experiment on write amplification.

use super::Page;
use crate::tables::named_values;
use crate::waf::WafReport;

impl WafReport {
    /// A self-contained HTML page: no network, no other file.
    pub fn html(&self) -> String {
        let mut page = Page::new(format!("Write amplification of {}", self.tenants));
        page.add(&self.bars());
        self.sections().iter().for_each(|of| page.charts(of));
        for sweep in &self.sweeps {
            page.add(&[Self::sweep(sweep)]);
            page.list(&Self::missing(sweep));
        }
        page.heading("In numbers");
        let tables = [self.table(), self.latencies(), self.tenants_table()];
        tables.into_iter().filter(|table| !table.is_empty()).for_each(|table| page.add(&[table]));
        page.folded("Device WAF by octile of each drive fill", &self.octiles());
        page.heading("Assumptions");
        let assumptions = self.assumptions.iter().map(|pair| (pair.name.clone(), pair.value.clone()));
        page.add(&[named_values("What was assumed", assumptions)]);
        if !self.remarks.is_empty() {
            page.heading("Remarks");
            page.list(&self.remarks);
        }
        page.html(&self.made_by)
    }
}
