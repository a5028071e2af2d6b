//! The name of a device as the user gives it: a path, or the description of a simulated drive, already parsed. Only
//! this module distinguishes the two.

use crate::sim::{DriveSpec, DriveSpecError, SIM_PREFIX};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// A device of a run: a path, or a simulated drive with its description.
#[derive(Debug, Clone)]
pub enum DeviceName {
    /// A block device or a file, by its path.
    Path(String),
    /// A simulated drive: its description as text and parsed.
    Simulated(String, Arc<DriveSpec>),
}

impl DeviceName {
    /// A simulated drive with default parameters.
    pub fn simulated() -> Self {
        Self::Simulated(SIM_PREFIX.to_owned(), Arc::default())
    }

    /// The name as the user gave it.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Path(name) | Self::Simulated(name, _) => name,
        }
    }

    /// The parsed description of a simulated drive; `None` for a path.
    pub fn drive(&self) -> Option<&DriveSpec> {
        match self {
            Self::Path(_) => None,
            Self::Simulated(_, drive) => Some(drive),
        }
    }
}

impl FromStr for DeviceName {
    type Err = DriveSpecError;

    /// Errors: an invalid description of a simulated drive. Paths are not checked.
    fn from_str(name: &str) -> Result<Self, DriveSpecError> {
        Ok(if name.starts_with(SIM_PREFIX) {
            Self::Simulated(name.to_owned(), Arc::new(name.parse()?))
        } else {
            Self::Path(name.to_owned())
        })
    }
}

/// Compares only the text, which determines the parsed description.
impl PartialEq for DeviceName {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for DeviceName {}

impl fmt::Display for DeviceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_path_unless_it_describes_a_simulated_drive() {
        let drive: DeviceName = "sim:channels=4".parse().unwrap();
        assert_eq!(drive.drive().map(|drive| drive.channels), Some(4));
        assert_eq!(drive.as_str(), "sim:channels=4");
        assert_eq!("sim:".parse(), Ok(DeviceName::simulated()));
        assert!(DeviceName::simulated().drive().is_some());
        for path in ["/dev/nvme0n1", "./sim:", "simulated", ""] {
            assert!(
                matches!(path.parse(), Ok(DeviceName::Path(name)) if name == path),
                "{path}"
            );
        }
        assert!("sim:chanels=4".parse::<DeviceName>().is_err());
    }
}
