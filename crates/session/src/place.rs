//! Directories in which runs are recorded.

use crate::Manner;
use crate::failure::Failure;
use device::guard::unix_s;
use results::units::rfc3339;
use std::fmt;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Default parent directory for recorded results, in the current directory.
pub const RESULTS_DIR: &str = "flashproof-results";

/// Directory of a run.
pub enum Place {
    /// Permanent run directory.
    Kept(PathBuf),
    /// Temporary directory for ACT's and fio's dialects, which leave only their output; deleted after the verdict.
    Passing(TempDir),
}

impl Place {
    pub fn of(what: &str, out: Option<&Path>, manner: Manner) -> Result<Self, Failure> {
        match (out, manner) {
            (Some(out), _) => Ok(Self::Kept(out.to_owned())),
            (None, Manner::Own) => Ok(Self::Kept(default_dir(what))),
            (None, _) => Self::passing(what),
        }
    }

    /// In $TMPDIR; else in /var/tmp, if writable, where a day's record does not fill the memory.
    fn passing(what: &str) -> Result<Self, Failure> {
        let places = match std::env::var_os("TMPDIR") {
            Some(place) => vec![PathBuf::from(place)],
            None => vec![PathBuf::from("/var/tmp"), std::env::temp_dir()],
        };
        let prefix = format!("flashproof-{what}-");
        let tried: Vec<_> =
            places.iter().map(|place| tempfile::Builder::new().prefix(&prefix).tempdir_in(place)).collect();
        let mut errors = Vec::new();
        for (made, place) in tried.into_iter().zip(&places) {
            match made {
                Ok(dir) => return Ok(Self::Passing(dir)),
                Err(error) => errors.push(format!("{}: {error}", place.display())),
            }
        }
        Err(Failure::environment(format!(
            "cannot make a temporary directory for the record of the run - {} - set TMPDIR, or keep the record with --out DIR",
            errors.join("; ")
        )))
    }

    pub fn dir(&self) -> &Path {
        match self {
            Self::Kept(dir) => dir,
            Self::Passing(dir) => dir.path(),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kept(dir) => write!(f, "run directory: {}", dir.display()),
            Self::Passing(_) => write!(f, "not kept: histograms, telemetry, verdict (--out DIR keeps them)"),
        }
    }
}

/// Default directory of a run, named by time and process.
pub fn default_dir(what: &str) -> PathBuf {
    let now = rfc3339(unix_s());
    Path::new(RESULTS_DIR).join(format!("{what}-{}-{}", now.replace(':', "-"), std::process::id()))
}
