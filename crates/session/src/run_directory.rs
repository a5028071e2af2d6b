//! Directories of recorded runs: named by the user, by default, or temporary.

use crate::CompatMode;
use crate::failure::Failure;
use device::guard::unix_s;
use results::files::{self, TempDir};
use results::format::rfc3339;
use std::fmt;
use std::path::{Path, PathBuf};

/// Default parent directory for recorded results, in the current directory.
pub const RESULTS_DIR: &str = "flashproof-results";

pub enum RunDirectory {
    Permanent(PathBuf),
    /// Temporary directory, deleted after the verdict. With ACT's and fio's dialects, only the output is kept.
    Temporary(TempDir),
}

impl RunDirectory {
    pub fn choose(
        test_name: &str,
        out_dir: Option<&Path>,
        compat_mode: CompatMode,
    ) -> Result<Self, Failure> {
        match (out_dir, compat_mode) {
            (Some(dir), _) => Ok(Self::Permanent(dir.to_owned())),
            (None, CompatMode::Native) => Ok(Self::Permanent(default_dir(test_name))),
            (None, _) => Self::temporary(test_name),
        }
    }

    /// Creates the directory in $TMPDIR, if set; otherwise in /var/tmp, if writable. The last choice is /tmp: it may be
    /// in memory, which the record of a one-day run could fill.
    fn temporary(test_name: &str) -> Result<Self, Failure> {
        let parent_dirs = match std::env::var_os("TMPDIR") {
            Some(place) => vec![PathBuf::from(place)],
            None => vec![PathBuf::from("/var/tmp"), std::env::temp_dir()],
        };
        let prefix = format!("flashproof-{test_name}-");
        let mut errors = Vec::new();
        for parent_dir in &parent_dirs {
            match files::temporary_dir(&prefix, parent_dir) {
                Ok(dir) => return Ok(Self::Temporary(dir)),
                Err(error) => errors.push(format!("{}: {error}", parent_dir.display())),
            }
        }
        Err(Failure::environment(format!(
            "cannot make a temporary directory for the record of the run - {} - set TMPDIR, or keep the record with --out DIR",
            errors.join("; ")
        )))
    }

    pub fn dir(&self) -> &Path {
        match self {
            Self::Permanent(dir) => dir,
            Self::Temporary(dir) => dir.path(),
        }
    }
}

impl fmt::Display for RunDirectory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Permanent(dir) => write!(f, "run directory: {}", dir.display()),
            Self::Temporary(_) => write!(
                f,
                "not kept: histograms, telemetry, verdict (--out DIR keeps them)"
            ),
        }
    }
}

pub fn default_dir(test_name: &str) -> PathBuf {
    let now = rfc3339(unix_s());
    Path::new(RESULTS_DIR).join(format!(
        "{test_name}-{}-{}",
        now.replace(':', "-"),
        std::process::id()
    ))
}
