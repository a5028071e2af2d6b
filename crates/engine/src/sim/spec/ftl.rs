//! The text form of a drive with an FTL: the parameters of `sim:ftl+`.

use super::{nanoseconds, number, share, size_bytes};
use ftl::{Append, Isolation, Spec, Victim};
use std::ops::RangeInclusive;

/// Description of a drive with a flash translation layer.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct FtlDrive {
    /// Parameters of the translation layer.
    pub spec: Spec,
    /// Geometry and timing of the flash.
    pub flash: Flash,
    /// Number of drive fills before the run: the first is sequential, the others are random.
    pub precondition_fills: u32,
}

/// Flash geometry (channels x dies x planes) and timing.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Flash {
    /// Number of channels (buses), each with its own dies.
    pub channels: u32,
    /// Dies per channel.
    pub dies: u32,
    /// Planes per die; a die reads and programs all of its planes at once.
    pub planes: u32,
    /// Bytes of a page; a die reads and programs one page of each plane at once.
    pub page_bytes: u32,
    /// Array read time (tR).
    pub read_ns: u64,
    /// Time to program one page of each plane (tPROG).
    pub program_ns: u64,
    /// Time to erase a block of each plane (tBERS).
    pub erase_ns: u64,
    /// Speed of a channel, MB/s.
    pub bus_mbps: u64,
    /// Time to suspend a program or an erase for a host read, ns; to resume takes the same. `None`: no suspension.
    pub suspend_ns: Option<u64>,
    /// Controller time per host operation.
    pub controller_ns: u64,
    /// Bytes of the write buffer.
    pub buffer_bytes: u64,
}

impl Flash {
    /// Number of dies over all channels.
    pub fn dies_total(&self) -> u32 {
        self.channels * self.dies
    }

    /// Bytes that a die programs at once.
    pub fn program_bytes(&self) -> u32 {
        self.planes * self.page_bytes
    }
}

/// Parameters of a drive with an FTL, beginning with the parameters of all models.
pub(super) const FTL_NAMES: &str = "capacity, min-io, error-rate, bad, gone-at-s, seed, name, op, op-of-flash, unit, \
    superblock, victim, append, handles, isolation, reserve, wear-gap, channels, dies, planes, page, read-us, \
    program-us, erase-us, bus-mbps, suspend-us, controller-us, buffer, precondition";

/// Range of the mapping unit, bytes.
const UNIT_BYTES: RangeInclusive<u64> = 4 << 10..=64 << 10;

/// Number of superblocks into which the default superblock size divides the capacity.
const SUPERBLOCKS: u64 = 512;

impl Default for FtlDrive {
    /// TLC flash of 2019 to 2024, with few dies, so that the dies are busy; not a model of a particular drive.
    fn default() -> Self {
        Self {
            spec: Spec {
                superblock_bytes: 0,
                isolation: Isolation::Initially,
                reserve_superblocks: 4,
                ..Spec::with_logical_bytes(0)
            },
            flash: Flash {
                channels: 8,
                dies: 2,
                planes: 4,
                page_bytes: 16 << 10,
                read_ns: 50_000,
                program_ns: 500_000,
                erase_ns: 5_000_000,
                bus_mbps: 1_600,
                suspend_ns: Some(10_000),
                controller_ns: 8_000,
                buffer_bytes: 8 << 20,
            },
            precondition_fills: 0,
        }
    }
}

impl FtlDrive {
    /// Sets one parameter. Errors: a description of valid values.
    pub(super) fn set(&mut self, name: &str, value: &str) -> Result<(), &'static str> {
        let spec = &mut self.spec;
        let flash = &mut self.flash;
        match name {
            "op" => spec.over_provisioning = share(value).filter(|op| *op <= 10.0).ok_or(OP)?,
            "op-of-flash" => {
                let of_flash = share(value).filter(|op| *op < 0.9).ok_or(OP)?;
                spec.over_provisioning = ftl::over_provisioning::from_share_of_flash(of_flash);
            }
            "unit" => spec.unit_bytes = unit(value)?,
            "superblock" => {
                spec.superblock_bytes = size_bytes(value)
                    .filter(|bytes| (*UNIT_BYTES.start()..=1 << 40).contains(bytes))
                    .ok_or("a size such as 128MiB")?;
            }
            "victim" => {
                spec.victim = victim(value).ok_or("greedy, fifo, cost-benefit or d-choices-10")?
            }
            "append" => {
                spec.append = match value {
                    "shared" => Append::Shared,
                    "separate" => Append::Separate,
                    "per-handle" => Append::PerHandle,
                    _ => return Err("shared, separate or per-handle"),
                }
            }
            "handles" => spec.handles = number(value, 1..=256).ok_or("a number from 1 to 256")?,
            "isolation" => {
                spec.isolation = match value {
                    "initially" => Isolation::Initially,
                    "persistently" => Isolation::Persistently,
                    _ => return Err("initially or persistently"),
                }
            }
            "reserve" => {
                spec.reserve_superblocks =
                    number(value, 1..=10_000).ok_or("a number from 1 to 10000")?
            }
            "wear-gap" => {
                spec.wear_gap =
                    Some(number(value, 1..=1 << 31).ok_or("a number of erases, 1 or more")?)
            }
            "channels" => {
                flash.channels = number(value, 1..=256).ok_or("a number from 1 to 256")?
            }
            "dies" => {
                flash.dies = number(value, 1..=64).ok_or("a number per channel, from 1 to 64")?
            }
            "planes" => flash.planes = number(value, 1..=16).ok_or("a number from 1 to 16")?,
            "page" => flash.page_bytes = unit(value)?,
            "read-us" => flash.read_ns = nanoseconds(value, 1e3)?,
            "program-us" => flash.program_ns = nanoseconds(value, 1e3)?,
            "erase-us" => flash.erase_ns = nanoseconds(value, 1e3)?,
            "bus-mbps" => {
                flash.bus_mbps =
                    number(value, 1..=1_000_000).ok_or("megabytes per second, 1 or more")?
            }
            "suspend-us" if value == "off" => flash.suspend_ns = None,
            "suspend-us" => {
                flash.suspend_ns =
                    Some(nanoseconds(value, 1e3).map_err(|_| "microseconds such as 10, or off")?);
            }
            "controller-us" => flash.controller_ns = nanoseconds(value, 1e3)?,
            "buffer" => {
                flash.buffer_bytes = size_bytes(value)
                    .filter(|bytes| *bytes <= 1 << 40)
                    .ok_or("a size such as 8MiB")?;
            }
            "precondition" => {
                self.precondition_fills =
                    number(value, 0..=100).ok_or("a number of drive fills from 0 to 100")?;
            }
            _ => unreachable!("{name} is not in the list of parameters"),
        }
        Ok(())
    }

    /// Fills in defaults that depend on `capacity_bytes`. Errors: an inconsistent value, and what would be valid.
    pub(super) fn complete(
        &mut self,
        capacity_bytes: u64,
    ) -> Result<(), (&'static str, String, &'static str)> {
        let spec = &mut self.spec;
        let flash = &self.flash;
        let unit_bytes = u64::from(spec.unit_bytes);
        let program_bytes = u64::from(flash.program_bytes());
        if !program_bytes.is_multiple_of(unit_bytes) {
            let expected = "a divisor of planes x page, the bytes that a die programs at once";
            return Err(("unit", unit_bytes.to_string(), expected));
        }
        spec.logical_bytes = capacity_bytes;
        if !capacity_bytes.is_multiple_of(unit_bytes) {
            return Err((
                "capacity",
                capacity_bytes.to_string(),
                "a multiple of unit, which is 4KiB unless given",
            ));
        }
        if spec.superblock_bytes == 0 {
            let row_bytes = program_bytes * u64::from(flash.dies_total());
            spec.superblock_bytes = (capacity_bytes / SUPERBLOCKS / row_bytes).max(1) * row_bytes;
        }
        if !spec.superblock_bytes.is_multiple_of(program_bytes) {
            let value = spec.superblock_bytes.to_string();
            return Err((
                "superblock",
                value,
                "a multiple of planes x page, which is 64KiB unless given",
            ));
        }
        // Each handle can have a partly filled stripe in the buffer until later writes fill it.
        if flash.buffer_bytes < program_bytes * (u64::from(spec.handles) + 1) {
            let value = flash.buffer_bytes.to_string();
            return Err(("buffer", value, "at least (handles + 1) x planes x page"));
        }
        Ok(())
    }
}

const OP: &str = "a percentage above 0 such as 7%, or a share such as 0.07";

/// Bytes of a mapping unit or a page.
fn unit(value: &str) -> Result<u32, &'static str> {
    size_bytes(value)
        .filter(|bytes| bytes.is_power_of_two() && UNIT_BYTES.contains(bytes))
        .map(|bytes| bytes as u32)
        .ok_or("4KiB, 8KiB, 16KiB, 32KiB or 64KiB")
}

fn victim(value: &str) -> Option<Victim> {
    match value {
        "greedy" => Some(Victim::Greedy),
        "fifo" => Some(Victim::Fifo),
        "cost-benefit" => Some(Victim::CostBenefit),
        _ => number(value.strip_prefix("d-choices-")?, 1..=10_000).map(Victim::Choices),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::DriveSpec;

    fn drive(text: &str) -> FtlDrive {
        text.parse::<DriveSpec>()
            .unwrap_or_else(|error| panic!("{error}"))
            .ftl
            .unwrap()
    }

    #[test]
    fn parameters_of_a_drive_with_an_ftl_are_read() {
        assert_eq!("sim:".parse::<DriveSpec>().unwrap().ftl, None);
        let plain = drive("sim:ftl");
        assert_eq!(plain.spec.logical_bytes, 64 << 30);
        assert_eq!(plain.spec.superblock_bytes, 128 << 20);
        let given = drive(
            "sim:ftl+capacity=1GiB+op-of-flash=12.5%+unit=16KiB+superblock=4MiB+victim=d-choices-8+append=per-handle\
             +handles=4+isolation=persistently+reserve=6+wear-gap=100+channels=4+dies=1+planes=2+page=16KiB+read-us=40\
             +program-us=600+erase-us=3000+bus-mbps=1200+suspend-us=off+controller-us=5+buffer=1MiB+precondition=2\
             +seed=3+name=a",
        );
        let spec = Spec {
            logical_bytes: 1 << 30,
            unit_bytes: 16 << 10,
            over_provisioning: 1.0 / 7.0,
            superblock_bytes: 4 << 20,
            victim: Victim::Choices(8),
            append: Append::PerHandle,
            handles: 4,
            isolation: Isolation::Persistently,
            reserve_superblocks: 6,
            wear_gap: Some(100),
        };
        let flash = Flash {
            channels: 4,
            dies: 1,
            planes: 2,
            page_bytes: 16 << 10,
            read_ns: 40_000,
            program_ns: 600_000,
            erase_ns: 3_000_000,
            bus_mbps: 1_200,
            suspend_ns: None,
            controller_ns: 5_000,
            buffer_bytes: 1 << 20,
        };
        assert_eq!(
            given,
            FtlDrive {
                spec,
                flash,
                precondition_fills: 2
            }
        );
        assert_eq!(drive("sim:ftl+op=7%"), drive("sim:ftl+op=0.07"));
        let victims = ["greedy", "fifo", "cost-benefit"]
            .map(|name| drive(&format!("sim:ftl+victim={name}")).spec.victim);
        assert_eq!(victims, [Victim::Greedy, Victim::Fifo, Victim::CostBenefit]);
        for (name, append) in [("shared", Append::Shared), ("separate", Append::Separate)] {
            assert_eq!(drive(&format!("sim:ftl+append={name}")).spec.append, append);
        }
    }
}
