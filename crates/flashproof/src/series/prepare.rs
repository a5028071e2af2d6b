//! Preparing the drives of a series that are not on record as prepared.

use super::Drives;
use crate::args::PrepArgs;
use crate::commands::{Manner, prep};
use crate::console;
use crate::failure::Failure;
use crate::signals::Switch;
use std::process::ExitCode;

/// Prepares the drives that are not on record as prepared; `begun`: whether the series made a run before.
/// Gives an exit code where that did not come to its end.
pub fn prepare(
    drives: &Drives,
    begun: bool,
    erase: &[String],
    quiet: bool,
    switch: &Switch,
) -> Result<Option<ExitCode>, Failure> {
    let names = drives.to_prepare(begun);
    if names.is_empty() {
        return Ok(None);
    }
    console::note(&format!(
        "not on record as prepared: {}; preparing first, because an empty drive is faster than it will be in use",
        names.join(", ")
    ));
    let erase: Vec<_> = erase.iter().filter(|name| names.contains(name)).cloned().collect();
    let others = drives.identities.iter().map(|drive| drive.name.clone()).collect();
    match prep::prepare(&PrepArgs::usual(names, &erase, others, quiet), Manner::Own, switch)? {
        0 => Ok(None),
        code => Ok(Some(ExitCode::from(code))),
    }
}
