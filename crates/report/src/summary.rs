//! What a run directory says in one page: the verdict, the latencies, and what to know before
//! believing either.

use crate::latencies::{StreamLatencies, below_verdict, latencies};
use results::judge::Verdict;
use results::run_dir::{self, RunDirError};
use serde::Serialize;
use std::fmt;
use std::path::Path;

/// A run in one page.
#[derive(Debug, Clone, Serialize)]
pub struct Summary {
    /// The program that ran it.
    pub tool: String,
    /// Whether the run came to its end and said so.
    pub complete: bool,
    /// What a reader should know, each one sentence.
    pub remarks: Vec<String>,
    /// The verdict as it follows from the recorded counts now.
    pub verdict: Verdict,
    /// Quantiles of each stream.
    pub latencies: Vec<StreamLatencies>,
}

impl Summary {
    /// Reads the run in `dir` and judges it again. Errors: those of [`run_dir::read`]; a damaged
    /// interval log only costs the quantiles, and is remarked.
    pub fn read(dir: &Path) -> Result<Self, RunDirError> {
        let run = run_dir::read(dir)?;
        let mut remarks = run.remarks.clone();
        let latencies = latencies(dir, &run.manifest.layout()).unwrap_or_else(|error| {
            remarks.push(format!("no quantiles of latencies: {error}"));
            Vec::new()
        });
        let complete = run.is_complete();
        Ok(Self { tool: run.manifest.tool, complete, remarks, verdict: run.verdict, latencies })
    }
}

impl fmt::Display for Summary {
    /// The page for a terminal, without the remarks.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.verdict, below_verdict(&self.latencies))
    }
}
