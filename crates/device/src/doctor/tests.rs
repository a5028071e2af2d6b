//! Checks on fake trees: each in a bad and in a good state.

use super::*;
use crate::discover::tests::fake_nvme;
use measure::finding::Level;
use std::fs;

/// What a check leaves on the sheet of a device called `/dev/x`.
pub(super) fn all(check: impl FnOnce(&mut Sheet)) -> Vec<Finding> {
    let mut sheet = Sheet::of_device("/dev/x");
    check(&mut sheet);
    sheet.into_findings()
}

/// The one finding of a check. What is not as it should be comes with its reason.
pub(super) fn only(check: impl FnOnce(&mut Sheet)) -> Finding {
    let findings = all(check);
    let [finding] = &findings[..] else { panic!("one finding: {findings:?}") };
    finding.clone()
}
