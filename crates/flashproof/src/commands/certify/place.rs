//! A certification on disk, with its claim.

use super::request::{NAMED, Request};
use crate::args::CertifyArgs;
use procedures::series::{Drives, Kept, NOT_PREPARED, default_name, may_erase};
use results::certify::Claim;
use session::failure::Failure;

/// The certification, its directory, and the lock to run it.
pub struct Place {
    /// Directory and state.
    pub kept: Kept,
    /// The claim that the series may make.
    pub claim: Claim,
}

impl Place {
    /// Opens the directory of the series of `request`.
    ///
    /// Errors: another process runs it; the directory holds another series, or a run.
    pub fn open(args: &CertifyArgs, request: &Request, drives: &Drives) -> Result<Self, Failure> {
        let claim = Claim {
            unprepared: drives.left_unprepared.clone(),
            virtual_kinds: drives.virtual_kinds.clone(),
            ..request.claim.clone()
        };
        let config = claim.config.as_deref().map(|config| format!("-{config}")).unwrap_or_default();
        let load = format!("{}x{config}", claim.multiple);
        let first = args.out.clone().unwrap_or_else(|| default_name("certify", &drives.identities, &load));
        let now = request.series(drives.identities.clone(), &claim);
        // A drive that was unprepared at the start is still unprepared after tests.
        let kept = Kept::open(&first, args.series.options(), now, &[NAMED, NOT_PREPARED], |options| {
            may_erase(&request.base, args.no_prep, options)
        })?;
        let unprepared = kept.term(NOT_PREPARED).split(", ").filter(|name| !name.is_empty());
        let claim = Claim { unprepared: unprepared.map(str::to_owned).collect(), ..claim };
        Ok(Self { kept, claim })
    }

    /// Name of a stage, such as `stage 2 of 4`.
    pub fn which(&self, index: usize) -> String {
        format!("stage {} of {}", index + 1, self.kept.series.steps.len())
    }
}
