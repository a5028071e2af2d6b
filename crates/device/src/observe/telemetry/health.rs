//! Health of an NVMe drive, every ten seconds; the rows between are empty.

use super::super::DeviceNumber;
use super::super::nvme::poll::{Drive, POLL_INTERVAL, Poller, Reading};
use super::super::nvme::{Controller, OcpSmart, Smart};
use results::telemetry::Column;
use std::path::Path;
use std::sync::mpsc::Receiver;

/// Columns of every NVMe drive. Data units are of 512,000 bytes. The throttle count is the number of times
/// that heat slowed the drive: both levels of SMART, and OCP's own count.
const SMART_COLUMNS: [Column; 8] = [
    Column::SmartPercentageUsed,
    Column::SmartCriticalWarning,
    Column::SmartUnitsWritten,
    Column::SmartUnitsRead,
    Column::SmartMediaErrors,
    Column::SmartCelsius,
    Column::SmartThrottleCount,
    Column::SmartThrottleSec,
];

/// Columns of a drive with OCP's log.
const OCP_COLUMNS: [Column; 1] = [Column::OcpMediaBytesWritten];

/// Columns of a drive with FDP on.
const FDP_COLUMNS: [Column; 3] = [Column::FdpHostBytes, Column::FdpMediaBytes, Column::FdpErasedBytes];

/// One drive.
#[derive(Debug)]
pub(super) struct Health {
    poller: Poller,
}

impl Health {
    /// Health of the drive `number`; `None` if it is not NVMe or does not return its SMART log.
    pub(super) fn find(root: &Path, number: DeviceNumber) -> Option<Self> {
        Controller::find(root, number).and_then(Self::of)
    }

    pub(super) fn of(drive: impl Drive) -> Option<Self> {
        Poller::start(drive, POLL_INTERVAL).map(|poller| Self { poller })
    }

    pub(super) fn columns(&self) -> impl Iterator<Item = Column> + use<> {
        let ocp = self.poller.has_ocp.then_some(OCP_COLUMNS);
        let fdp = self.poller.has_fdp.then_some(FDP_COLUMNS);
        SMART_COLUMNS.into_iter().chain(ocp.into_iter().flatten()).chain(fdp.into_iter().flatten())
    }

    /// Triggers the last query; the receiver gets a value when [`Health::sample`] has its answer.
    pub(super) fn ask_last(&mut self) -> Receiver<()> {
        self.poller.ask_last()
    }

    /// Adds the values of [`Health::columns`].
    pub(super) fn sample(&mut self, values: &mut Vec<Option<f64>>) {
        let Reading { smart, ocp, fdp } = self.poller.take();
        values.extend(smart_values(smart.as_ref(), ocp.as_ref(), self.poller.has_ocp));
        if self.poller.has_ocp {
            values.push(ocp.as_ref().map(|ocp| ocp.physical_media_units_written_bytes as f64));
        }
        if self.poller.has_fdp {
            let counters = fdp.map(|fdp| [fdp.host, fdp.media, fdp.erased].map(|bytes| bytes as f64));
            values.extend(counters.map_or([None; FDP_COLUMNS.len()], |counters| counters.map(Some)));
        }
    }
}

fn smart_values(smart: Option<&Smart>, ocp: Option<&OcpSmart>, has_ocp: bool) -> [Option<f64>; SMART_COLUMNS.len()] {
    let Some(smart) = smart else { return [None; SMART_COLUMNS.len()] };
    let sum = |both: [u32; 2]| both.map(f64::from).iter().sum::<f64>();
    // A sum that lacks one part now and then would rise where nothing was throttled.
    let of_ocp = if has_ocp { ocp.map(|ocp| f64::from(ocp.throttle_count)) } else { Some(0.0) };
    let throttled = of_ocp.map(|of_ocp| sum(smart.thermal_transitions) + of_ocp);
    [
        Some(f64::from(smart.percentage_used)),
        Some(f64::from(smart.critical_warning)),
        Some(smart.data_units_written as f64),
        Some(smart.data_units_read as f64),
        Some(smart.media_errors as f64),
        smart.temperature_celsius.map(f64::from),
        throttled,
        Some(sum(smart.thermal_seconds)),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::super::nvme::poll::tests::FakeDrive;
    use super::*;
    use results::telemetry::Source;

    fn row(health: &mut Health) -> Vec<Option<f64>> {
        let mut values = Vec::new();
        health.sample(&mut values);
        assert_eq!(values.len(), health.columns().count());
        values
    }

    #[test]
    fn the_first_row_has_the_health_at_the_beginning_and_the_next_is_empty() {
        let mut health = Health::of(FakeDrive { with_ocp: true, ..FakeDrive::default() }).unwrap();
        // The counters of the recorded pages: 216 + 220 transitions and OCP's 96; 224 + 228 seconds.
        let physical_bytes = 18_446_744_073_709_551_616.0 + 1_234_567_890_123.0;
        let read_units = 18_446_744_073_709_551_616.0 + 5.0;
        let expected = [13.0, 2.0, 987_654_321.0, read_units, 2.0, 68.0, 532.0, 452.0, physical_bytes];
        assert_eq!(row(&mut health), expected.map(Some));
        assert_eq!(row(&mut health), [None; 9]);
    }

    #[test]
    fn a_throttle_count_that_lacks_ocps_part_once_is_not_measured_then() {
        use super::super::super::nvme::poll::Drive as _;
        let drive = FakeDrive { with_ocp: true, ..FakeDrive::default() };
        let (smart, ocp) = (drive.smart().unwrap(), drive.ocp_smart().unwrap());
        assert_eq!(smart_values(Some(&smart), ocp.as_ref(), true)[6], Some(532.0));
        assert_eq!(smart_values(Some(&smart), None, true)[6], None);
        assert_eq!(smart_values(Some(&smart), None, false)[6], Some(436.0));
    }

    #[test]
    fn a_drive_with_fdp_on_counts_bytes_of_hosts_and_media() {
        let mut health = Health::of(FakeDrive { with_fdp: true, ..FakeDrive::default() }).unwrap();
        let names: Vec<_> = health.columns().skip(SMART_COLUMNS.len()).map(Column::name).collect();
        assert_eq!(names, ["fdp.hbmw_bytes", "fdp.mbmw_bytes", "fdp.mbe_bytes"]);
        assert_eq!(row(&mut health)[SMART_COLUMNS.len()..], [4096.0, 5120.0, 16_777_216.0].map(Some));
        assert_eq!(row(&mut health), [None; SMART_COLUMNS.len() + 3]);
    }

    #[test]
    fn a_drive_without_ocps_log_has_no_column_for_it() {
        let mut health = Health::of(FakeDrive::default()).unwrap();
        assert!(health.columns().all(|column| column.source() == Source::Smart));
        // Without OCP's count.
        assert_eq!(row(&mut health)[6], Some(436.0));
    }
}
