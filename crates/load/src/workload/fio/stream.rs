//! The operations of a job, or of one of its directions.

use super::job::DIRECTIONS;
use super::pattern::{Draw, Map, Sizes};
use crate::stream::{LOST, Request, Stream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use sys::op::{OpKind, Outcome, TargetId};
use sys::random::Random;

/// Kinds of operations that are counted apart: the directions, and flushes.
pub const KINDS: usize = DIRECTIONS + 1;

/// The last of them.
pub const FLUSHES: usize = DIRECTIONS;

const KIND_OF: [OpKind; KINDS] = [OpKind::Read, OpKind::Write, OpKind::Deallocate, OpKind::Flush];

/// How many operations of a job were in flight when it got another: 1, 2 to 3, 4 to 7, and so on; 64 and more.
///
/// Only the job's own thread writes it.
#[derive(Debug, Default)]
pub struct Depths {
    in_flight: AtomicU32,
    levels: [AtomicU64; 7],
}

impl Depths {
    /// The counts.
    pub fn levels(&self) -> [u64; 7] {
        std::array::from_fn(|level| self.levels[level].load(Ordering::Relaxed))
    }

    #[inline]
    fn begin(&self) {
        let in_flight = self.in_flight.load(Ordering::Relaxed) + 1;
        self.in_flight.store(in_flight, Ordering::Relaxed);
        let level = &self.levels[(in_flight.ilog2() as usize).min(6)];
        level.store(level.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    #[inline]
    fn end(&self) {
        self.in_flight.store(self.in_flight.load(Ordering::Relaxed).saturating_sub(1), Ordering::Relaxed);
    }
}

/// The part of a device or file that a job uses.
#[derive(Debug, Clone)]
pub(super) struct Area {
    pub(super) target: TargetId,
    pub(super) start: u64,
    pub(super) len: u64,
    /// Where each direction goes on, in a sequence.
    pub(super) next: [u64; DIRECTIONS],
    pub(super) order: Order,
}

/// Which block of an area is next.
#[derive(Debug, Clone)]
pub(super) enum Order {
    /// One after the other.
    Sequential,
    /// At random, each unit once before any comes again.
    Mapped(Map),
    /// As drawn, by direction.
    Drawn([Option<Draw>; DIRECTIONS]),
}

/// A source of a job's operations.
#[derive(Debug)]
pub struct FioStream {
    pub(super) areas: Vec<Area>,
    pub(super) turn: usize,
    pub(super) random_area: bool,
    /// Those that it does: one, or reads and writes.
    pub(super) directions: Vec<usize>,
    pub(super) read_pct: u64,
    pub(super) sizes: [Sizes; DIRECTIONS],
    pub(super) align: [u64; DIRECTIONS],
    pub(super) unit: u64,
    pub(super) bytes_left: u64,
    pub(super) ops_left: u64,
    pub(super) flush_every: u64,
    pub(super) writes: u64,
    /// Where each kind is counted, on the first target.
    pub(super) cells: [u32; KINDS],
    pub(super) buffers: [u16; KINDS],
    pub(super) sync: bool,
    pub(super) random: Random,
    pub(super) depths: Arc<Depths>,
}

impl FioStream {
    fn has_ended(&self) -> bool {
        self.bytes_left == 0 || self.ops_left == 0
    }

    #[inline]
    fn direction(&mut self) -> usize {
        match self.directions[..] {
            [only] => only,
            _ => usize::from(self.random.below(100) >= self.read_pct),
        }
    }

    #[inline]
    fn area(&mut self) -> usize {
        match self.areas.len() {
            1 => 0,
            count if self.random_area => self.random.below(count as u64) as usize,
            count => {
                let turn = self.turn;
                self.turn = (turn + 1) % count;
                turn
            }
        }
    }

    fn request(&self, kind: usize, target: TargetId, offset: u64, len: u32) -> Request {
        Request {
            target,
            cell: self.cells[kind] + u32::from(target),
            kind: KIND_OF[kind],
            offset,
            len,
            buffers: self.buffers[kind],
            sync: self.sync && kind == 1,
            placement: None,
        }
    }

    /// Arrivals of one direction alone, shared out over its areas; `None` where chance decides more.
    fn counted(&self, arrivals: u64, tell: &mut impl FnMut(u32, u64)) -> Option<()> {
        let [direction] = self.directions[..] else { return None };
        let mean = self.sizes[direction].mean_bytes().max(1.0);
        let most = self.ops_left.min((self.bytes_left as f64 / mean).ceil() as u64);
        let (count, areas) = (arrivals.min(most), self.areas.len() as u64);
        for (number, area) in (0..).zip(&self.areas) {
            tell(self.cells[direction] + u32::from(area.target), count / areas + u64::from(number < count % areas));
        }
        Some(())
    }
}

impl Area {
    /// Offset and length of the next operation, about `wanted` bytes.
    #[inline]
    fn next(&mut self, direction: usize, wanted: u64, align: u64, unit: u64, random: &mut Random) -> (u64, u64) {
        let (at, len) = match &mut self.order {
            Order::Sequential => {
                // From the end on from the beginning again.
                let at = if self.len - self.next[direction] < unit { 0 } else { self.next[direction] };
                let len = wanted.min((self.len - at) / unit * unit);
                self.next[direction] = at + len;
                (at, len)
            }
            Order::Mapped(map) => {
                let first = map.free_from(random.below(self.len / unit));
                (first * unit, map.take(first, wanted / unit) * unit)
            }
            Order::Drawn(draws) => {
                let at = draws[direction].as_ref().map_or(0, |draw| draw.next(random)) * align;
                (at, wanted.min((self.len - at) / unit * unit))
            }
        };
        (self.start + at, len)
    }
}

impl Stream for FioStream {
    #[inline]
    fn next(&mut self) -> Option<Request> {
        // None after the last write, as in fio.
        if self.has_ended() {
            return None;
        }
        if self.flush_every > 0 && self.writes == self.flush_every {
            self.writes = 0;
            let target = self.areas[self.turn].target;
            self.depths.begin();
            return Some(self.request(FLUSHES, target, 0, 0));
        }
        let (direction, area) = (self.direction(), self.area());
        let wanted = self.sizes[direction].draw(&mut self.random);
        let (offset, len) =
            self.areas[area].next(direction, wanted, self.align[direction], self.unit, &mut self.random);
        self.bytes_left = self.bytes_left.saturating_sub(len);
        self.ops_left -= 1;
        self.writes += u64::from(direction == 1);
        self.depths.begin();
        Some(self.request(direction, self.areas[area].target, offset, len as u32))
    }

    #[inline]
    fn on_completion(&mut self, _request: &Request, _outcome: Outcome) -> Option<Request> {
        self.depths.end();
        None
    }

    fn follows(&self) -> bool {
        false
    }

    fn expect(&self, arrivals: u64, cells: &mut impl FnMut(u32, u64)) {
        let _ = self.counted(arrivals, cells);
    }

    fn lose(&mut self, arrivals: u64, lost: &mut impl FnMut(u32, u64)) {
        if self.counted(arrivals, lost).is_some() {
            return;
        }
        // Those of both directions have no schedule, so there are no more than a depth of them.
        for _ in 0..arrivals {
            let Some(request) = self.next() else { return };
            lost(request.cell, 1);
            self.on_completion(&request, LOST);
        }
    }
}
