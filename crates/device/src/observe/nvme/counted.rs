//! Bytes written in a drive's life, by host and to the media, from whichever log has both.

use super::{Controller, OcpSmart, QueryError, Smart};
use results::waf::Bytes;
use serde::Serialize;
use std::fmt;

/// The log that has the counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CountedBy {
    /// Log page 22h: bytes of the namespace's endurance group.
    FdpStatistics,
    /// OCP's log page C0h for the media, and SMART's data units of 512,000 bytes for hosts. Erased bytes stay 0.
    OcpSmart,
}

impl fmt::Display for CountedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::FdpStatistics => "FDP statistics (log page 22h)",
            Self::OcpSmart => "OCP's SMART log (C0h) for the media, SMART (02h) for hosts",
        })
    }
}

impl Controller {
    /// Bytes written in the drive's life by all that share the counters; `Ok(None)` if no log counts media bytes.
    /// [`Bytes::since`] gives the difference of two readings.
    ///
    /// Errors: the kernel or the drive refused a mandatory query.
    pub fn counted(&self) -> Result<Option<(Bytes, CountedBy)>, QueryError> {
        if let Some(bytes) = unless_refused(self.fdp_statistics())? {
            return Ok(Some((bytes, CountedBy::FdpStatistics)));
        }
        match unless_refused(self.ocp_smart())? {
            Some(ocp) => Ok(Some((by_ocp(&ocp, &self.smart()?), CountedBy::OcpSmart))),
            None => Ok(None),
        }
    }
}

/// The drive supports the log, or reports that it does not.
fn unless_refused<T>(answer: Result<Option<T>, QueryError>) -> Result<Option<T>, QueryError> {
    match answer {
        Err(QueryError::Status(_)) => Ok(None),
        answer => answer,
    }
}

fn by_ocp(ocp: &OcpSmart, smart: &Smart) -> Bytes {
    let counter = |bytes: u128| u64::try_from(bytes).unwrap_or(u64::MAX);
    Bytes { host: counter(smart.bytes_written()), media: counter(ocp.physical_media_units_written_bytes), erased: 0 }
}

#[cfg(test)]
mod tests {
    use super::super::{ocp, smart};
    use super::*;
    use std::io;
    use sys::nvme::Status;

    #[test]
    fn a_log_that_a_drive_lacks_is_none_and_a_drive_that_is_gone_an_error() {
        assert_eq!(unless_refused(Ok(Some(1))).unwrap(), Some(1));
        assert_eq!(unless_refused::<u32>(Err(QueryError::Status(Status { sct: 1, sc: 9 }))).unwrap(), None);
        assert!(unless_refused::<u32>(Err(QueryError::Io(io::Error::from_raw_os_error(libc::ENODEV)))).is_err());
    }

    #[test]
    fn ocp_counts_the_media_and_smart_the_host() {
        let mut ocp = OcpSmart::parse(ocp::tests::PAGE).unwrap();
        ocp.physical_media_units_written_bytes = 5 << 40;
        let smart = Smart { data_units_written: 7, ..Smart::parse(smart::tests::PAGE) };
        assert_eq!(by_ocp(&ocp, &smart), Bytes { host: 7 * 512_000, media: 5 << 40, erased: 0 });
        ocp.physical_media_units_written_bytes = 1 << 70;
        assert_eq!(by_ocp(&ocp, &smart).media, u64::MAX);
    }
}
