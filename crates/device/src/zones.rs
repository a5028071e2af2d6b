//! The zones of a zoned block device, and the device's limits for them.

use crate::discover::{DeviceFacts, Roots, SysDir};
use crate::target::Target;
use std::io;
use sys::ioctl;

pub use sys::ioctl::Zone;

/// Zones of a device, as they were when the device was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Zones {
    /// All of them, in order, without a gap.
    pub zones: Vec<Zone>,
    /// Zones that may be open at once, and active (open or closed); `None`: any number.
    pub open_max: Option<u32>,
    pub active_max: Option<u32>,
}

impl Zones {
    /// The zones of `target`; `None` if it is not a zoned device. Errors: those of the report.
    pub fn of(target: &Target) -> io::Result<Option<Self>> {
        let Some(queue) = queue(target.facts(), &Roots::default()).filter(is_zoned) else { return Ok(None) };
        let limit = |name: &str| queue.number::<u32>(name).filter(|most| *most > 0);
        let zones = ioctl::zones(target.fd())?;
        Ok(Some(Self { zones, open_max: limit("max_open_zones"), active_max: limit("max_active_zones") }))
    }
}

/// True if the zones of this disk are written from start to end.
pub fn are_on(disk: &DeviceFacts, roots: &Roots) -> bool {
    queue(disk, roots).is_some_and(|queue| is_zoned(&queue))
}

fn queue(disk: &DeviceFacts, roots: &Roots) -> Option<SysDir> {
    Some(SysDir::new(roots.sys.join("class/block").join(disk.disk_name()?)).child("queue"))
}

fn is_zoned(queue: &SysDir) -> bool {
    queue.text("zoned").is_some_and(|model| model == "host-managed")
}
