//! Formats devices for a record store. If a device cannot be cleared, no device gets a header.
//!
//! ```text
//! clear both ends of each device, and the first block of each core -> write the headers of all
//! ```
//!
//! Both ends of a device can have signatures of file systems, arrays and partition tables. A signature can remain after
//! the store's header has replaced the first bytes, and the next boot could assemble an array. A header is written
//! after both ends are cleared, so a device with a header has no such signature. The header of the first block of each
//! core is cleared too, so that a store without records differs from foreign data behind a store's header
//! ([`DeviceHeader::foreign_block`]). The rest of the device is unchanged.

use device::target::Target;
use engine::threads::Threads;
use engine::{EngineSetup, IoEngine, Wait};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use store::{BORDER_BYTES, DEVICE_HEADER_BYTES, DeviceHeader, HEADER_OFFSETS};
use sys::buffer::Buf;
use sys::op::{Op, OpKind, WriteSync};

/// Bytes cleared at the end of a device. The signatures of arrays and partition tables are in this range.
const TAIL_BYTES: u64 = 4 << 20;

/// Maximum transfer, bytes.
const BYTES_MAX: usize = 1 << 20;

/// Timeout of a transfer.
const LIMIT: Duration = Duration::from_secs(60);

/// Formats `devices`, which must have consent to erasure, with these headers. Errors: a sentence about a failed write.
/// While devices are being cleared, none has a header.
pub fn format(devices: &[(Arc<Target>, DeviceHeader)]) -> Result<(), String> {
    let failed = |target: &Target, error| format!("cannot format {} - {error}", target.name());
    for (target, header) in devices {
        clear(target, header).map_err(|error| failed(target, error))?;
    }
    write_headers(devices)
}

/// Writes the first header of all devices, then the second header of all devices. [`store::Starts`] needs this order.
pub fn write_headers(devices: &[(Arc<Target>, DeviceHeader)]) -> Result<(), String> {
    for offset in HEADER_OFFSETS {
        for (target, header) in devices {
            let written = Transfers::new(target)
                .and_then(|mut transfers| transfers.write(offset, &header.to_bytes()));
            written.map_err(|error| {
                format!(
                    "cannot write the header of {} at byte {offset} - {error} - copy the records to another device, and \
                     replace this device",
                    target.name()
                )
            })?;
        }
    }
    Ok(())
}

pub fn read_at(target: &Arc<Target>, offset: u64, bytes: usize) -> io::Result<Vec<u8>> {
    Transfers::new(target)?.read(offset, bytes)
}

fn clear(target: &Arc<Target>, header: &DeviceHeader) -> io::Result<()> {
    let mut transfers = Transfers::new(target)?;
    let zeros = vec![0; BYTES_MAX];
    let unit = u64::from(target.min_io_bytes());
    let tail_at = target.size_bytes().saturating_sub(TAIL_BYTES) / unit * unit;
    (tail_at..tail_at + TAIL_BYTES)
        .step_by(BYTES_MAX)
        .try_for_each(|at| transfers.write(at, &zeros))?;
    // From the start on, so that the old header is cleared first.
    (0..DEVICE_HEADER_BYTES)
        .step_by(BYTES_MAX)
        .try_for_each(|at| transfers.write(at, &zeros))?;
    for core in 0..header.cores {
        let space = header
            .space(target.size_bytes(), 0, core, target.min_io_bytes())
            .map_err(io::Error::other)?;
        transfers.write(
            space.range.start,
            &zeros[..BORDER_BYTES.next_multiple_of(unit as usize)],
        )?;
    }
    Ok(())
}

/// Sequential reads and writes of one device by a thread, which works where io_uring is forbidden.
struct Transfers {
    engine: Threads,
    /// Buffer of [`BYTES_MAX`]; `None` after a transfer timed out.
    buf: Option<Buf>,
}

impl Transfers {
    fn new(target: &Arc<Target>) -> io::Result<Self> {
        let mut engine = Threads::new(
            1,
            std::slice::from_ref(target),
            EngineSetup::new(1, BYTES_MAX),
        )?;
        let buf = engine.buffer(BYTES_MAX);
        Ok(Self { engine, buf })
    }

    fn read(&mut self, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        self.transfer(OpKind::Read, offset, len)?;
        Ok(self
            .buf
            .as_ref()
            .map(|buf| buf[..len].to_vec())
            .unwrap_or_default())
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        if let Some(buf) = &mut self.buf {
            buf[..bytes.len()].copy_from_slice(bytes);
        }
        self.transfer(OpKind::Write, offset, bytes.len())
    }

    fn transfer(&mut self, kind: OpKind, offset: u64, len: usize) -> io::Result<()> {
        let buf = self.buf.take().ok_or(io::ErrorKind::OutOfMemory)?;
        let until_ns = self.engine.now() + LIMIT.as_nanos() as u64;
        self.engine.submit(Op {
            sync: WriteSync::Data,
            ..Op::new(kind, offset, len as u32, buf)
        });
        let mut reaped = Vec::new();
        self.engine.reap(Wait::first(until_ns), &mut reaped)?;
        let completion = reaped.pop().ok_or(io::ErrorKind::TimedOut)?;
        self.buf = Some(completion.buf);
        if completion.outcome.is_done() {
            Ok(())
        } else {
            Err(io::Error::other(completion.outcome.to_string()))
        }
    }
}
