//! The model of a drive with a flash translation layer (FTL): the crate `ftl`, with the timing of the dies.
//!
//! ```text
//! host write -> write buffer, write completes -> stripe full -> program on its die -> space in the buffer
//! host read  -> from the buffer, or a read on each die with a part of the data -> read completes
//! little free space -> steps of garbage collection: reads -> programs, erases, on the same dies
//! ```
//!
//! The FTL updates its map at once. Its flash operations become timed work of the dies, in the same order on each die.
//! A stripe is the data that a die programs at once. A unit stays in the buffer until its stripe is programmed. The
//! write buffer survives a power loss (database drives have capacitors), so a flush completes at once.
//!
//! * `dies`: scheduling of the dies; `collection`: pace of garbage collection

mod collection;
mod dies;
#[cfg(test)]
mod tests;

use super::model::{DriveModel, HostOpCounters, SimCompletion};
use super::spec::{DriveSpec, Flash, FtlDrive};
use crate::event_queue::EventQueue;
use collection::{GarbageCollection, NO_STEP};
use dies::{DieWork, Dies, WorkEnd};
use ftl::{FlashExtent, FlashObserver, Ftl, ProgramCause, SpecError};
use results::bytes_written::WrittenBytes;
use results::telemetry::Column;
use std::collections::VecDeque;
use sys::op::{Op, OpKind};
use sys::random::Random;

/// A simulated drive with its flash and its operations in flight.
#[derive(Clone)]
pub struct FtlModel {
    drive: DriveSpec,
    controller_ns: u64,
    unit_bytes: u64,
    ftl: Ftl,
    media: Stripes,
    dies: Dies,
    events: EventQueue<u64, DriveEvent>,
    collection: GarbageCollection,
    /// Handles with at least one write.
    handles: Vec<u16>,
    /// By token: operations in the drive.
    drive_ops: Vec<DriveOp>,
    /// Writes not fully buffered yet, in FIFO order.
    writes: VecDeque<Writing>,
    /// Capacity of the write buffer, host units.
    buffer_units: u32,
    buffered_units: u32,
    random: Random,
    op_counters: HostOpCounters,
    /// Bytes of host writes that are completely buffered.
    host_bytes: u64,
    initial_bytes: WrittenBytes,
}

#[derive(Debug, Clone, Copy)]
enum DriveEvent {
    Turn(WorkEnd),
    Done(SimCompletion),
}

#[derive(Debug, Clone, Copy)]
struct DriveOp {
    kind: OpKind,
    len: u32,
    /// Reads only: dies that have not finished their part.
    parts_left: u32,
    submitted_ns: u64,
}

/// A write that is not fully buffered.
#[derive(Debug, Clone, Copy)]
struct Writing {
    token: u32,
    submitted_ns: u64,
    next_unit: u64,
    units: u32,
    handle: u16,
}

/// Stripes of the flash, and the flash operations of the last FTL call.
#[derive(Debug, Clone)]
struct Stripes {
    units_per_stripe: u32,
    superblock_units: u32,
    /// A bit per stripe: set while the stripe is in the buffer.
    buffered: Vec<u64>,
    /// Partly filled stripes, each with its number of host units.
    partial_stripes: Vec<(u32, u32)>,
    programs: Vec<(u32, u32)>,
    /// Stripes to read, each with the number of units to read.
    reads: Vec<(u32, u32)>,
    erases: Vec<u32>,
}

impl Stripes {
    fn new(spec: &ftl::Spec, superblocks: u32, flash: &Flash) -> Self {
        let units_per_stripe = flash.program_bytes() / spec.unit_bytes;
        let superblock_units = (spec.superblock_bytes / u64::from(spec.unit_bytes)) as u32;
        let stripes = superblocks as usize * (superblock_units / units_per_stripe) as usize;
        Self {
            units_per_stripe,
            superblock_units,
            buffered: vec![0; stripes / 64 + 1],
            partial_stripes: Vec::new(),
            programs: Vec::new(),
            reads: Vec::new(),
            erases: Vec::new(),
        }
    }

    fn superblock_stripes(&self) -> u32 {
        self.superblock_units / self.units_per_stripe
    }

    /// Number of the stripe that holds a unit.
    #[inline]
    fn stripe_at(&self, superblock: u32, unit: u32) -> u32 {
        superblock * self.superblock_stripes() + unit / self.units_per_stripe
    }

    #[inline]
    fn is_buffered(&self, stripe: u32) -> bool {
        self.buffered[stripe as usize / 64] >> (stripe % 64) & 1 == 1
    }

    fn set_buffered(&mut self, stripe: u32, buffered: bool) {
        let bits = &mut self.buffered[stripe as usize / 64];
        *bits = *bits & !(1 << (stripe % 64)) | u64::from(buffered) << (stripe % 64);
    }

    /// Splits an extent by stripe: number of the stripe, number of units in it, and their end within the stripe.
    #[inline]
    fn parts(&self, extent: FlashExtent) -> impl Iterator<Item = (u32, u32, u32)> + use<> {
        let units_per_stripe = self.units_per_stripe;
        let first_stripe = self.stripe_at(extent.superblock, 0);
        let mut unit = extent.first_unit;
        let end = extent.first_unit + extent.units;
        std::iter::from_fn(move || {
            let stripe = unit / units_per_stripe;
            let first_unit = unit % units_per_stripe;
            let units = (units_per_stripe - first_unit).min(end - unit);
            unit += units;
            (units > 0).then_some((first_stripe + stripe, units, first_unit + units))
        })
    }
}

impl FlashObserver for Stripes {
    fn program(&mut self, extent: FlashExtent, cause: ProgramCause) {
        for (stripe, units, end_unit) in self.parts(extent) {
            let host_units = if cause == ProgramCause::Host {
                units
            } else {
                0
            };
            let partial_index = match self
                .partial_stripes
                .iter()
                .position(|(begun, _)| *begun == stripe)
            {
                Some(begun) => begun,
                None => {
                    self.set_buffered(stripe, true);
                    self.partial_stripes.push((stripe, 0));
                    self.partial_stripes.len() - 1
                }
            };
            self.partial_stripes[partial_index].1 += host_units;
            if end_unit == self.units_per_stripe {
                self.programs
                    .push(self.partial_stripes.swap_remove(partial_index));
            }
        }
    }

    fn read(&mut self, extent: FlashExtent) {
        for (stripe, units, _) in self.parts(extent) {
            match self.reads.last_mut() {
                Some((last, read)) if *last == stripe => *read += units,
                _ => self.reads.push((stripe, units)),
            }
        }
    }

    fn erase(&mut self, superblock: u32) {
        self.erases.push(superblock);
    }
}

impl FtlModel {
    /// Columns of [`DriveModel::counters`] after [`HostOpCounters::COLUMNS`].
    const COLUMNS: [Column; 5] = [
        Column::SimHbmw,
        Column::SimMbmw,
        Column::SimMbe,
        Column::SimCollectionReadBytes,
        Column::SimFreeSuperblocks,
    ];

    pub(super) fn columns() -> Vec<Column> {
        [&HostOpCounters::COLUMNS[..], &Self::COLUMNS].concat()
    }

    /// A preconditioned drive. `seed` applies if `drive` has none. Errors: an invalid `ftl_drive`; an `ftl_drive` that
    /// was parsed from text is always valid.
    pub fn new(drive: &DriveSpec, ftl_drive: &FtlDrive, seed: u64) -> Result<Self, SpecError> {
        let seed = drive.seed.unwrap_or(seed);
        let mut ftl = Ftl::new(&ftl_drive.spec, seed)?;
        let mut random = Random::for_part(seed, 1);
        precondition(&mut ftl, ftl_drive.precondition_fills, &mut random);
        Ok(Self::with_ftl(drive, ftl_drive, ftl, random))
    }

    /// As [`Self::new`], with an existing `ftl` in its current state. Its spec must equal the spec in `ftl_drive`.
    pub fn with_ftl(drive: &DriveSpec, ftl_drive: &FtlDrive, ftl: Ftl, random: Random) -> Self {
        Self {
            controller_ns: ftl_drive.flash.controller_ns.max(1),
            unit_bytes: ftl_drive.spec.unit_bytes.into(),
            media: Stripes::new(&ftl_drive.spec, ftl.superblocks(), &ftl_drive.flash),
            dies: Dies::new(&ftl_drive.flash),
            events: EventQueue::with_capacity(64),
            collection: GarbageCollection::default(),
            handles: Vec::new(),
            drive_ops: Vec::new(),
            writes: VecDeque::new(),
            buffer_units: (ftl_drive.flash.buffer_bytes / u64::from(ftl_drive.spec.unit_bytes))
                as u32,
            buffered_units: 0,
            random,
            op_counters: HostOpCounters::default(),
            host_bytes: 0,
            initial_bytes: ftl.counters(),
            ftl,
            drive: drive.clone(),
        }
    }

    /// Recounts every unit of the drive, see [`Ftl::check`].
    pub fn check(&self) -> Result<(), String> {
        self.ftl.check()
    }

    /// Errno and end time of an operation that must fail; `None` for a valid operation.
    fn refusal(&mut self, op: &Op, now_ns: u64) -> Option<(i32, u64)> {
        let op_end = op.offset.saturating_add(op.len.into());
        let later_ns = now_ns + self.controller_ns;
        if self.drive.is_gone(now_ns) {
            return Some((libc::ENODEV, now_ns));
        }
        if op_end > self.drive.capacity_bytes {
            return Some((libc::EINVAL, now_ns));
        }
        match op.placement {
            // WriteBack (sync_file_range) writes out the page cache, which a simulated drive does not have.
            _ if matches!(op.kind, OpKind::WriteBack(_)) => {
                return Some((libc::EOPNOTSUPP, now_ns));
            }
            Some(_) if self.ftl.spec().handles == 1 => return Some((libc::EOPNOTSUPP, now_ns)),
            // Same errno as the kernel's for an unknown write stream.
            Some(placement) if !(1..=self.ftl.spec().handles).contains(&placement.0) => {
                return Some((libc::EINVAL, now_ns));
            }
            _ => {}
        }
        self.drive
            .fails(op.offset..op_end, &mut self.random)
            .then_some((libc::EIO, later_ns))
    }

    #[inline]
    fn schedule_end(&mut self, at_ns: u64, token: u32, submitted_ns: u64, errno: i32) {
        self.events.push(
            at_ns,
            DriveEvent::Done(SimCompletion {
                token,
                submitted_ns,
                errno,
            }),
        );
    }

    /// Counts an operation that ends at `at_ns`, with ENODEV if the drive is gone.
    #[inline]
    fn done(&mut self, at_ns: u64, mut done: SimCompletion) -> SimCompletion {
        if self.drive.is_gone(at_ns) {
            done.errno = libc::ENODEV;
        }
        let DriveOp { kind, len, .. } = self.drive_ops[done.token as usize];
        self.op_counters.add(kind, len.into(), done.errno);
        done
    }

    #[inline]
    fn work(&mut self, stripe: u32, work: DieWork, now_ns: u64) {
        let die = stripe % self.dies.count();
        if let Some((at_ns, turn)) = self.dies.add(die, work, now_ns) {
            self.events.push(at_ns, DriveEvent::Turn(turn));
        }
    }

    /// Reads the parts of an operation on each die. Buffered and unwritten units take only the controller's time.
    #[inline]
    fn read(&mut self, op: &Op, now_ns: u64) {
        let from_ns = now_ns + self.controller_ns;
        let first_unit = op.offset / self.unit_bytes;
        let end_unit = (op.offset + u64::from(op.len)).div_ceil(self.unit_bytes);
        let token = op.token as usize;
        // Adjacent units of a stripe are one read.
        let mut stripe = 0;
        let mut units = 0;
        for unit in first_unit..end_unit {
            let found_stripe = self
                .ftl
                .locate(unit)
                .map(|at| self.media.stripe_at(at.superblock, at.first_unit));
            let Some(next_stripe) = found_stripe.filter(|stripe| !self.media.is_buffered(*stripe))
            else {
                continue;
            };
            if units > 0 && next_stripe != stripe {
                self.read_part(token, stripe, units, from_ns);
                units = 0;
            }
            (stripe, units) = (next_stripe, units + 1);
        }
        if units > 0 {
            self.read_part(token, stripe, units, from_ns);
        }
        if self.drive_ops[token].parts_left == 0 {
            self.schedule_end(from_ns, op.token, now_ns, 0);
        }
    }

    #[inline]
    fn read_part(&mut self, token: usize, stripe: u32, units: u32, from_ns: u64) {
        self.drive_ops[token].parts_left += 1;
        let bytes = units * self.unit_bytes as u32;
        self.work(
            stripe,
            DieWork::Read {
                token: token as u32,
                bytes,
                from_ns,
            },
            from_ns,
        );
    }

    fn write(&mut self, op: &Op, now_ns: u64) {
        let first_unit = op.offset / self.unit_bytes;
        let last_unit = (op.offset + u64::from(op.len) - 1) / self.unit_bytes;
        // A partial write of a unit reads the unit first (read-modify-write).
        let is_part = |at: u64| !at.is_multiple_of(self.unit_bytes);
        let edges = [
            (first_unit, is_part(op.offset)),
            (last_unit, is_part(op.offset + u64::from(op.len))),
        ];
        for (edge_index, (unit, is_part)) in edges.into_iter().enumerate() {
            let read_before = edge_index == 1 && first_unit == last_unit && edges[0].1;
            if let Some(extent) = self.ftl.locate(unit).filter(|_| is_part && !read_before) {
                let stripe = self.media.stripe_at(extent.superblock, extent.first_unit);
                if !self.media.is_buffered(stripe) {
                    self.collection.read_units += 1;
                    self.work(
                        stripe,
                        DieWork::Collect {
                            step: NO_STEP,
                            bytes: self.unit_bytes as u32,
                        },
                        now_ns,
                    );
                }
            }
        }
        let handle = op.placement.map_or(0, |placement| placement.0 - 1);
        if !self.handles.contains(&handle) {
            self.handles.push(handle);
        }
        self.writes.push_back(Writing {
            token: op.token,
            submitted_ns: now_ns,
            next_unit: first_unit,
            units: (last_unit - first_unit + 1) as u32,
            handle,
        });
        self.fill_buffer(now_ns);
    }

    fn fill_buffer(&mut self, now_ns: u64) {
        while let Some(&Writing { units, handle, .. }) = self.writes.front() {
            let units = units
                .min(self.buffer_units - self.buffered_units)
                .min(self.collection.room(&self.ftl, handle));
            let Some(write) = self.writes.front_mut().filter(|_| units > 0) else {
                break;
            };
            self.ftl
                .write_on(write.next_unit, units, write.handle, &mut self.media);
            self.buffered_units += units;
            write.next_unit += u64::from(units);
            write.units -= units;
            let Writing {
                token,
                submitted_ns,
                units,
                ..
            } = *write;
            if units == 0 {
                self.writes.pop_front();
                self.host_bytes += u64::from(self.drive_ops[token as usize].len);
                self.schedule_end(now_ns + self.controller_ns, token, submitted_ns, 0);
            }
            self.work_of_call(NO_STEP, now_ns);
            self.collect(now_ns);
        }
    }

    #[inline]
    fn collect(&mut self, now_ns: u64) {
        while self
            .collection
            .is_due(&self.ftl, &self.handles, self.dies.count())
        {
            if self
                .ftl
                .collect_on(self.media.units_per_stripe, &mut self.media)
                .is_none()
            {
                break;
            }
            let step = self.collection.step();
            self.work_of_call(step, now_ns);
        }
    }

    /// Adds the flash operations of the last FTL call (garbage collection for `step`, or a write) to the dies.
    #[inline]
    fn work_of_call(&mut self, step: u16, now_ns: u64) {
        self.collection
            .begin(step, self.media.reads.len(), &mut self.media.programs);
        for index in 0..self.media.programs.len() {
            let (stripe, host_units) = self.media.programs[index];
            self.work(
                stripe,
                DieWork::Program {
                    stripe,
                    host_units,
                    step,
                },
                now_ns,
            );
        }
        for index in 0..self.media.reads.len() {
            let (stripe, units) = self.media.reads[index];
            self.collection.read_units += u64::from(units);
            self.work(
                stripe,
                DieWork::Collect {
                    step,
                    bytes: units * self.unit_bytes as u32,
                },
                now_ns,
            );
        }
        for index in 0..self.media.erases.len() {
            let stripes = self.media.superblock_stripes();
            let first_stripe = self.media.erases[index] * stripes;
            let dies = stripes.min(self.dies.count());
            let slot = self.collection.erase(dies);
            (first_stripe..first_stripe + dies)
                .for_each(|stripe| self.work(stripe, DieWork::Erase { slot }, now_ns));
        }
        self.media.programs.clear();
        self.media.reads.clear();
        self.media.erases.clear();
    }

    fn deallocate(&mut self, op: &Op) {
        let first_unit = op.offset.div_ceil(self.unit_bytes);
        let end_unit = (op.offset + u64::from(op.len)) / self.unit_bytes;
        if first_unit < end_unit {
            self.ftl
                .deallocate(first_unit, (end_unit - first_unit) as u32);
        }
    }
}

/// Fills the drive `fills` times: first sequentially, then by random overwrites.
fn precondition(ftl: &mut Ftl, fills: u32, random: &mut Random) {
    let units = ftl.units();
    if fills > 0 {
        (0..units).for_each(|unit| ftl.write(unit, 1, 0));
    }
    for _ in 0..u64::from(fills.saturating_sub(1)) * units {
        ftl.write(random.below(units), 1, 0);
    }
}

impl DriveModel for FtlModel {
    #[inline]
    fn submit(&mut self, op: &Op, now_ns: u64) {
        let token = op.token as usize;
        let drive_op = DriveOp {
            kind: op.kind,
            len: op.len,
            parts_left: 0,
            submitted_ns: now_ns,
        };
        if self.drive_ops.len() <= token {
            self.drive_ops.resize(token + 1, drive_op);
        }
        self.drive_ops[token] = drive_op;
        if let Some((errno, at_ns)) = self.refusal(op, now_ns) {
            return self.schedule_end(at_ns, op.token, now_ns, errno);
        }
        match op.kind {
            OpKind::Read => return self.read(op, now_ns),
            OpKind::Write if op.len > 0 => return self.write(op, now_ns),
            OpKind::Deallocate => self.deallocate(op),
            OpKind::Write | OpKind::Flush | OpKind::FlushFile | OpKind::WriteBack(_) => {}
        }
        self.schedule_end(now_ns + self.controller_ns, op.token, now_ns, 0);
    }

    #[inline]
    fn next_event_ns(&self) -> u64 {
        self.events.first().map_or(u64::MAX, |(at_ns, _)| at_ns)
    }

    #[inline]
    fn advance(&mut self) -> Option<SimCompletion> {
        let (now_ns, event) = self.events.pop()?;
        let work_end = match event {
            DriveEvent::Done(done) => return Some(self.done(now_ns, done)),
            DriveEvent::Turn(turn) => turn,
        };
        let (finished, next_event) = self.dies.end(work_end, now_ns);
        if let Some((at_ns, turn)) = next_event {
            self.events.push(at_ns, DriveEvent::Turn(turn));
        }
        match finished? {
            DieWork::Read { token, .. } => {
                let drive_op = &mut self.drive_ops[token as usize];
                drive_op.parts_left -= 1;
                let DriveOp {
                    parts_left,
                    submitted_ns,
                    ..
                } = *drive_op;
                return (parts_left == 0).then(|| {
                    self.done(
                        now_ns,
                        SimCompletion {
                            token,
                            submitted_ns,
                            errno: 0,
                        },
                    )
                });
            }
            DieWork::Collect { step, .. } => {
                if let Some(filled) = self.collection.collected(step) {
                    for (stripe, host_units) in &filled {
                        self.work(
                            *stripe,
                            DieWork::Program {
                                stripe: *stripe,
                                host_units: *host_units,
                                step,
                            },
                            now_ns,
                        );
                    }
                    self.collection.give_back(step, filled);
                }
            }
            DieWork::Program {
                stripe,
                host_units,
                step,
            } => {
                self.media.set_buffered(stripe, false);
                self.buffered_units -= host_units;
                self.collection.programmed(step);
            }
            DieWork::Erase { slot } => self.collection.erased(slot),
        }
        self.collect(now_ns);
        self.fill_buffer(now_ns);
        None
    }

    fn counters(&self) -> Vec<(Column, u64)> {
        let WrittenBytes { media, erased, .. } = self
            .ftl
            .counters()
            .since(self.initial_bytes)
            .expect("an FTL counts up");
        let read_bytes = self.collection.read_units * self.unit_bytes;
        // A partial write counts only its own bytes as host bytes, not the whole unit.
        let ftl_values = [
            self.host_bytes,
            media,
            erased,
            read_bytes,
            u64::from(self.ftl.free_superblocks()),
        ];
        Self::columns()
            .into_iter()
            .zip(self.op_counters.values().into_iter().chain(ftl_values))
            .collect()
    }
}
