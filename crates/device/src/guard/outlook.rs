//! What the guard would say to a device, without asking anybody and without opening anything for writing.
//!
//! The checks are those of [`super::examine`]. Only the claim differs: the kernel's exclusive claim is had
//! for a moment by a descriptor that cannot write, and nothing is marked. So an outlook holds for the
//! moment in which it is made; consent looks again.

use super::evidence::Evidence;
use super::examine;
use super::names::Names;
use super::refusal::{Findings, Reason};
use super::subject::Subject;
use super::{Guard, Request};
use crate::discover::{DeviceFacts, Resolved, Roots, SysDir};
use std::fmt;
use std::thread;
use std::time::Duration;

/// Whether a test may write to a device.
#[derive(Debug)]
pub enum Safety {
    /// Nothing stands against it.
    Yes,
    /// Something is on it that no record of ours explains: it would be asked about.
    Asks(Vec<Evidence>),
    /// It would be refused, for these reasons.
    No(Vec<Reason>),
}

impl fmt::Display for Safety {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Yes => "yes",
            Self::Asks(_) => "asks",
            Self::No(_) => "no",
        })
    }
}

/// What is known of a device, and whether a test may write to it.
#[derive(Debug)]
pub struct Outlook {
    /// The name as given.
    pub path: String,
    /// What it is; `None` if the name leads to nothing that can be described.
    pub facts: Option<DeviceFacts>,
    /// The name by which it would have to be given up for erasure.
    pub erase_name: String,
    /// Whether it may be written to.
    pub safety: Safety,
    /// What falls short of a full look, and what else is worth knowing.
    pub notes: Vec<String>,
}

impl Guard {
    /// What [`Guard::consent`] would say to each of `paths` by itself, in their order. Takes about a
    /// second, however many there are.
    pub fn outlook<S: AsRef<str> + Sync>(&self, paths: &[S]) -> Vec<Outlook> {
        thread::scope(|scope| {
            let threads: Vec<_> = paths.iter().map(|path| scope.spawn(|| self.outlook_of(path.as_ref()))).collect();
            let results = threads.into_iter().map(|thread| thread.join());
            results.map(|result| result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
        })
    }

    fn outlook_of(&self, path: &str) -> Outlook {
        let request = Request::new(path, "outlook");
        let found = match examine::look_up(self, &request) {
            Ok(found) => found,
            Err(reason) => {
                return Outlook {
                    path: path.to_owned(),
                    facts: None,
                    erase_name: path.to_owned(),
                    safety: Safety::No(vec![reason]),
                    notes: Vec::new(),
                };
            }
        };
        let (safety, notes) = match examine::look_without_claim(self, &request, &found) {
            Ok((evidence, notes)) if evidence.is_empty() => (Safety::Yes, notes),
            Ok((evidence, notes)) => (Safety::Asks(evidence), notes),
            Err(reasons) => (Safety::No(reasons), Vec::new()),
        };
        let erase_name = Names::of(&found.facts, &self.roots).to_give(path).to_owned();
        Outlook { path: path.to_owned(), facts: Some(found.facts), erase_name, safety, notes }
    }
}

/// Who uses a device now: mounts, swap, kernel devices, processes. Runs that share it do not count. Nothing
/// is opened, and nobody is waited for.
pub(crate) fn users_of(resolved: &Resolved, roots: &Roots) -> Findings {
    let mut findings = Findings::default();
    let subject = match resolved {
        Resolved::Block { number, .. } => {
            SysDir::of_block(&roots.sys, *number).map(|dir| Subject::of_device(*number, &dir, roots))
        }
        Resolved::File { metadata } => Some(Subject::of_file(metadata)),
    };
    match subject {
        Some(subject) => {
            subject.check_kernel_users(roots, &mut findings);
            subject.check_processes(roots, true, Duration::ZERO, &mut findings);
        }
        None => findings.note("it is gone from sysfs".to_owned()),
    }
    findings
}
