//! Where the checks of one device, or of the host, write down what they found.

use results::finding::{Finding, Level};

/// Findings about one thing, in the order of the checks.
#[derive(Debug, Default)]
pub(super) struct Findings {
    device: Option<String>,
    findings: Vec<Finding>,
}

impl Findings {
    /// For what holds for the host.
    pub(super) fn of_host() -> Self {
        Self::default()
    }

    /// For what holds for the device that the user calls `name`.
    pub(super) fn of_device(name: &str) -> Self {
        Self { device: Some(name.to_owned()), ..Self::default() }
    }

    /// All findings.
    pub(super) fn into_findings(self) -> Vec<Finding> {
        self.findings
    }

    /// It is as it should be.
    pub(super) fn ok(&mut self, check: &str, finding: impl Into<String>) {
        self.add(Level::Ok, check, finding, "", "");
    }

    /// It spoils nothing, but is worth knowing.
    pub(super) fn note(
        &mut self,
        check: &str,
        finding: impl Into<String>,
        reason: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        self.add(Level::Note, check, finding, reason, remedy);
    }

    /// It could not be looked at.
    pub(super) fn unknown(
        &mut self,
        check: &str,
        finding: impl Into<String>,
        reason: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        self.add(Level::Unknown, check, finding, reason, remedy);
    }

    /// It may spoil the result.
    pub(super) fn warning(
        &mut self,
        check: &str,
        finding: impl Into<String>,
        reason: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        self.add(Level::Warning, check, finding, reason, remedy);
    }

    /// It will spoil the result.
    pub(super) fn problem(
        &mut self,
        check: &str,
        finding: impl Into<String>,
        reason: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        self.add(Level::Problem, check, finding, reason, remedy);
    }

    /// Adds a finding of any level.
    pub(super) fn add(
        &mut self,
        level: Level,
        check: &str,
        finding: impl Into<String>,
        reason: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        self.findings.push(Finding {
            check: check.to_owned(),
            level,
            device: self.device.clone(),
            finding: finding.into(),
            reason: reason.into(),
            remedy: remedy.into(),
        });
    }
}
