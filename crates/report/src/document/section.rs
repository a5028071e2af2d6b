//! Charts under a heading.

use crate::charts::Chart;
use schemars::JsonSchema;
use serde::Serialize;

/// Charts under a heading, and what they are for.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Section {
    /// A name for programs: `latency`.
    pub id: String,
    /// The heading.
    pub title: String,
    /// What the section answers, one sentence.
    pub intro: String,
    /// Its charts.
    pub charts: Vec<Chart>,
}

impl Section {
    pub(crate) fn new(id: &str, title: &str, intro: &str, charts: Vec<Chart>) -> Self {
        Self { id: id.to_owned(), title: title.to_owned(), intro: intro.to_owned(), charts }
    }
}
