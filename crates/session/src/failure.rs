//! Failure of a command, and its exit code.

use load::run::RunError;
use std::fmt::{self, Display};
use std::process::ExitCode;

#[derive(Debug, Clone)]
pub struct Failure {
    /// A line for each error: operation and object, cause, remedy.
    pub message: String,
    code: u8,
}

impl Failure {
    /// Invalid request by the user: exit code 2.
    pub fn usage(message: impl Display) -> Self {
        Self {
            message: message.to_string(),
            code: 2,
        }
    }

    /// [`Self::usage`] for several mistakes, one per line.
    pub fn usages(mistakes: Vec<impl Display>) -> Self {
        Self::usage(
            mistakes
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join("\n"),
        )
    }

    /// Failure of a device, a permission, the kernel, or the disk of the run directory: exit code 3.
    pub fn environment(message: impl Display) -> Self {
        Self {
            message: message.to_string(),
            code: 3,
        }
    }

    /// Failure of a device under test: exit code 1.
    pub fn device(message: impl Display) -> Self {
        Self {
            message: message.to_string(),
            code: 1,
        }
    }

    /// Unreliable result: exit code 4.
    pub fn invalid(message: impl Display) -> Self {
        Self {
            message: message.to_string(),
            code: 4,
        }
    }

    pub fn code(&self) -> u8 {
        self.code
    }

    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.code)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Self {
        Self::environment(error)
    }
}

/// Returns all values, or a failure with all errors, one per line.
pub fn collect_all<T, E: Display>(
    results: impl Iterator<Item = Result<T, E>>,
    failure: impl Fn(String) -> Failure,
) -> Result<Vec<T>, Failure> {
    let mut values = Vec::new();
    let mut errors = Vec::new();
    results.for_each(|result| match result {
        Ok(value) => values.push(value),
        Err(error) => errors.push(error.to_string()),
    });
    if errors.is_empty() {
        Ok(values)
    } else {
        Err(failure(errors.join("\n")))
    }
}

/// Exit code of ACT's programs for a failure.
pub const ACT_FAILURE: u8 = 255;
