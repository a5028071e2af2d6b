//! Whether the PCIe link to a drive is as fast as the drive.

use super::device_state::DeviceState;
use super::findings::Findings;
use crate::discover::SysDir;
use std::fmt;

const CHECK: &str = "pcie-link";
const WHY: &str = "the link bounds the bandwidth, and large-block writes and reads then wait for it";

/// A speed and a width. Source: `Documentation/ABI/testing/sysfs-bus-pci` of the kernel.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Link {
    /// Transfers a second on each lane, in thousands of millions.
    gtps: f64,
    lanes: u32,
}

impl Link {
    /// Reads the attributes `{which}_link_speed` (`16.0 GT/s PCIe`) and `{which}_link_width`. `None` where
    /// the kernel knows none (`Unknown`, 0 lanes).
    fn read(dir: &SysDir, which: &str) -> Option<Self> {
        let speed = dir.text(&format!("{which}_link_speed"))?;
        let gtps = speed.split_ascii_whitespace().next()?.parse().ok()?;
        let lanes = dir.number(&format!("{which}_link_width"))?;
        (gtps > 0.0 && lanes > 0).then_some(Self { gtps, lanes })
    }

    /// Bytes a second, in thousands of millions, after encoding: 8 of 10 bits up to 5 GT/s, 128 of 130
    /// from 8 GT/s on, 236 of 256 bytes in the flits of 64 GT/s. Source: PCI Express base specification 6.0.
    fn gbytes_per_sec(self) -> f64 {
        let share = match self.gtps {
            gtps if gtps < 8.0 => 8.0 / 10.0,
            gtps if gtps < 64.0 => 128.0 / 130.0,
            _ => 236.0 / 256.0,
        };
        self.gtps * f64::from(self.lanes) * share / 8.0
    }

    fn is_below(self, other: Self) -> bool {
        self.gtps < other.gtps || self.lanes < other.lanes
    }
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} GT/s x{} ({:.1} GB/s)", self.gtps, self.lanes, self.gbytes_per_sec())
    }
}

/// Compares the link with what the drive, and the port above it, can do.
pub(super) fn check(device: &DeviceState, findings: &mut Findings) {
    let above = device.above();
    let Some(dir) = above.iter().find(|dir| dir.text("current_link_speed").is_some()) else {
        if device.facts.transport.as_deref() == Some("nvme-pcie") {
            findings.unknown(
                CHECK,
                "the kernel does not tell the speed of its link",
                WHY,
                "lspci -vv, lines LnkCap and LnkSta",
            );
        }
        return;
    };
    let name = dir.name();
    let (Some(now), Some(can)) = (Link::read(dir, "current"), Link::read(dir, "max")) else {
        return findings.unknown(
            CHECK,
            format!("the speed of the link of {name} is unknown"),
            WHY,
            format!("lspci -vv -s {name}"),
        );
    };
    if !now.is_below(can) {
        return findings.ok(CHECK, format!("its link {name} runs at all that it can: {now}"));
    }
    let port = dir.parent();
    let port_can = port.as_ref().and_then(|port| Link::read(port, "max"));
    let finding = format!("its link {name} runs at {now} and could do {can}");
    match (port, port_can) {
        (Some(port), Some(port_can)) if !now.is_below(port_can) => findings.warning(
            CHECK,
            format!("{finding}; the port above it, {}, can do no more than {port_can}", port.name()),
            WHY,
            "put the drive into a faster slot, or look for a limit in the firmware's settings (bifurcation, \
             generation)",
        ),
        (Some(port), Some(port_can)) => findings.warning(
            CHECK,
            format!("{finding}, as could the port above it, {} ({port_can})", port.name()),
            WHY,
            format!("reseat drive, riser or cable; lspci -vv -s {name} shows LnkSta; dmesg | grep -i -e aer -e pcie"),
        ),
        _ => findings.warning(
            CHECK,
            finding,
            WHY,
            format!("lspci -vv -s {name}; reseat the drive, or use a faster slot"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bandwidth_is_what_encoding_leaves() {
        for (gtps, lanes, gbytes) in
            [(2.5, 1, 0.25), (8.0, 4, 3.938), (16.0, 4, 7.877), (32.0, 4, 15.754), (64.0, 4, 29.5)]
        {
            let rate = Link { gtps, lanes }.gbytes_per_sec();
            assert!((rate - gbytes).abs() < 0.001, "{gtps} x{lanes}: {rate}");
        }
    }
}
