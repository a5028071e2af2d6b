//! Streams, the sources of operations, and the few patterns that model a database's device I/O.

use crate::sizes::SizeTable;
use results::times::Times;
use std::fmt::Debug;
use std::sync::Arc;
use sys::op::{OpKind, Outcome, Placement, Priority, TargetId, WriteSync};
use sys::random::Random;

/// An operation requested by a stream, before the operation has a buffer.
#[derive(Debug, Clone, Copy)]
pub struct IoRequest {
    pub target: TargetId,
    /// Index into the interval's cells.
    pub cell: u32,
    pub kind: OpKind,
    pub offset: u64,
    pub len: u32,
    /// Index of the operation's buffer class.
    pub buffers: u16,
    pub sync: WriteSync,
    pub placement: Option<Placement>,
    pub priority: Priority,
    /// Cell of the commit that begins with this operation, and ends with the last operation that follows in its slot.
    pub commit: Option<u32>,
}

impl IoRequest {
    /// The cells of the operation, and of the commit that begins with it.
    pub fn cells(&self) -> impl Iterator<Item = u32> + use<> {
        std::iter::once(self.cell).chain(self.commit)
    }

    /// An operation of zero bytes at offset 0, without placement.
    pub fn new(kind: OpKind, target: TargetId, cell: u32, buffers: u16) -> Self {
        Self {
            target,
            cell,
            kind,
            offset: 0,
            len: 0,
            buffers,
            sync: WriteSync::No,
            placement: None,
            priority: Default::default(),
            commit: None,
        }
    }
}

/// A source of operations. Runs on the hot path: no allocation, no lock, no system call.
pub trait Stream: Debug + Send {
    /// The next operation. The run loop decides its time. `None` once the stream has ended.
    fn next(&mut self) -> Option<IoRequest>;

    /// Reason why there is no next operation although the stream has not ended. The run loop asks the stream again
    /// after each completion; if no operation of the stream is in flight, the run ends.
    fn stuck(&self) -> Option<String> {
        None
    }

    /// Produces the data of a write whose buffer is in a class with [`crate::plan::Fill::ByStream`].
    #[inline]
    fn fill(&mut self, _request: &IoRequest, _data: &mut [u8]) {}

    /// Gets the data of a read, before [`Self::on_completion`]. For simulated drives that store no data, the slice is
    /// empty. Error: the data differs from the data written, and the read counts as failed.
    #[inline]
    fn on_data(&mut self, _request: &IoRequest, _data: &[u8]) -> Result<(), String> {
        Ok(())
    }

    /// Gets the times of a successful operation, before [`Self::on_completion`].
    #[inline]
    fn on_times(&mut self, _request: &IoRequest, _times: &Times) {}

    /// End of the stream's time, nanoseconds since the run began: operations due from then on are dropped.
    #[inline]
    fn until_ns(&self) -> u64 {
        u64::MAX
    }

    /// Due time of the stream's last operation, if the stream ends after a number of operations.
    #[inline]
    fn last_ns(&self) -> u64 {
        u64::MAX
    }

    /// Ends the stream, because its time was over at `at_ns`.
    fn stop(&mut self, _at_ns: u64) {}

    /// For a closed loop: the number of operations that may be in flight at `now_ns`, at most the loop's depth; and the
    /// earliest start of the next operation. Called at the start of the run, and after each completion.
    #[inline]
    fn width(&mut self, _now_ns: u64) -> (u32, u64) {
        (u32::MAX, 0)
    }

    /// Gets every operation that completed. A returned operation follows at once in the same slot, such as a cache
    /// write after its read.
    fn on_completion(&mut self, _request: &IoRequest, _outcome: Outcome) -> Option<IoRequest> {
        None
    }

    /// Gets every operation that was lost: never issued, or never completed. A returned operation is lost, too.
    fn on_loss(&mut self, request: &IoRequest) -> Option<IoRequest> {
        self.on_completion(request, LOST)
    }

    /// The cell of all operations; only for a stream that never ends and whose operations have no followers.
    fn only_cell(&self) -> Option<u32> {
        None
    }

    /// True if [`Self::on_completion`] can ever return an operation. If not, virtual time advances in longer steps.
    fn follows(&self) -> bool {
        self.only_cell().is_none()
    }

    /// Calls `cells` with each cell, and the number of operations of this cell among the next `arrivals`. Consumes no
    /// arrival. For random streams the numbers are expected values. Followers are not due yet, so they do not count.
    fn expect(&self, arrivals: u64, cells: &mut dyn FnMut(u32, u64)) {
        if let Some(cell) = self.only_cell() {
            cells(cell, arrivals);
        }
    }

    /// Discards the next `arrivals`, which will never be issued. Calls `on_lost` with each cell, and the number of
    /// operations of this cell among the discarded arrivals and their followers.
    fn lose(&mut self, arrivals: u64, on_lost: &mut dyn FnMut(u32, u64)) {
        match self.only_cell() {
            Some(cell) => on_lost(cell, arrivals),
            None => lose_each(self, arrivals, on_lost),
        }
    }
}

fn lose_each<S: Stream + ?Sized>(stream: &mut S, arrivals: u64, on_lost: &mut dyn FnMut(u32, u64)) {
    for arrival in 0..arrivals {
        let mut pending = stream.next();
        if pending.is_none() {
            if stream.stuck().is_some() {
                stream.expect(arrivals - arrival, on_lost);
            }
            return;
        }
        while let Some(request) = pending {
            request.cells().for_each(|cell| on_lost(cell, 1));
            pending = stream.on_loss(&request);
        }
    }
}

/// Distributes `count` operations over the cells of `extents`, as evenly as whole numbers allow.
fn spread(count: u64, extents: &[Extent], on_cell: &mut dyn FnMut(u32, u64)) {
    let parts = (extents.len() as u64).max(1);
    for (part, extent) in (0..).zip(extents) {
        on_cell(
            extent.request.cell,
            count / parts + u64::from(part < count % parts),
        );
    }
}

/// Outcome reported to a stream for an operation that was never issued or never completed: no byte moved.
pub const LOST: Outcome = Outcome::Short(0);

/// Operations on a target, with uniform offsets that are multiples of a step, and sizes of any distribution.
#[derive(Debug, Clone)]
pub struct Extent {
    /// Fields that all operations share. The offset in `request` is the lowest offset.
    pub request: IoRequest,
    pub step_bytes: u64,
    pub offsets: u64,
    pub sizes: SizeDistribution,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SizeDistribution {
    /// A single size, bytes.
    Same(u32),
    /// `min_bytes`, `min_bytes + step_bytes`, ..., all equally likely.
    Uniform {
        min_bytes: u32,
        count: u32,
        step_bytes: u32,
    },
    /// Drawn from a table, which all lanes share.
    Drawn(Arc<SizeTable>),
}

impl SizeDistribution {
    /// Record sizes `min_bytes` to `max_bytes`, rounded up to `step_bytes`. Source: ACT 6.6, `discover_read_pattern`.
    pub fn records(min_bytes: u32, max_bytes: u32, step_bytes: u32) -> Self {
        let steps_min = min_bytes.div_ceil(step_bytes);
        let steps_max = max_bytes.div_ceil(step_bytes);
        match steps_max - steps_min + 1 {
            1 => Self::Same(steps_min * step_bytes),
            count => Self::Uniform {
                min_bytes: steps_min * step_bytes,
                count,
                step_bytes,
            },
        }
    }

    pub fn max_bytes(&self) -> u32 {
        match self {
            Self::Same(bytes) => *bytes,
            Self::Uniform {
                min_bytes,
                count,
                step_bytes,
            } => min_bytes + (count - 1) * step_bytes,
            Self::Drawn(table) => table.bytes_max(),
        }
    }

    #[inline]
    fn draw(&self, random: &mut Random) -> u32 {
        match self {
            Self::Same(bytes) => *bytes,
            Self::Uniform {
                min_bytes,
                count,
                step_bytes,
            } => min_bytes + random.below(u64::from(*count)) as u32 * step_bytes,
            Self::Drawn(table) => table.draw(random),
        }
    }
}

impl Extent {
    /// Operations in the `usable_bytes` of a device that begin at the request's offset. All `sizes` are whole multiples
    /// of `step_bytes`, the device's minimum direct I/O size. The largest operation fits even at the last offset.
    /// `None` if no operation fits.
    pub fn new(
        request: IoRequest,
        usable_bytes: u64,
        step_bytes: u32,
        sizes: SizeDistribution,
    ) -> Option<Self> {
        let steps_max = u64::from(sizes.max_bytes() / step_bytes);
        let offsets = (usable_bytes / u64::from(step_bytes) + 1).checked_sub(steps_max)?;
        let is_possible = offsets > 0 && sizes.max_bytes() > 0;
        is_possible.then_some(Self {
            request,
            step_bytes: step_bytes.into(),
            offsets,
            sizes,
        })
    }

    /// Whole aligned blocks of `block_bytes`. A partial block at the end stays unused.
    pub fn blocks(request: IoRequest, size_bytes: u64, block_bytes: u32) -> Option<Self> {
        Self::new(
            request,
            size_bytes,
            block_bytes,
            SizeDistribution::Same(block_bytes),
        )
    }

    #[inline]
    fn draw(&self, random: &mut Random) -> IoRequest {
        let mut request = self.request;
        request.offset += random.below(self.offsets) * self.step_bytes;
        request.len = self.sizes.draw(random);
        request
    }

    #[inline]
    fn draw_from(extents: &[Self], random: &mut Random) -> IoRequest {
        let index = random.below(extents.len() as u64) as usize;
        extents[index].draw(random)
    }
}

#[derive(Debug, Clone)]
pub struct Uniform {
    pub extent: Extent,
    pub random: Random,
}

impl Stream for Uniform {
    fn next(&mut self) -> Option<IoRequest> {
        Some(self.extent.draw(&mut self.random))
    }

    fn only_cell(&self) -> Option<u32> {
        Some(self.extent.request.cell)
    }
}

/// Sequential operations from a target's first block to its last, repeated.
#[derive(Debug, Clone)]
pub struct Sequential {
    /// Blocks to operate on. Each operation has the largest size.
    pub extent: Extent,
    pub next_block: u64,
}

impl Stream for Sequential {
    fn next(&mut self) -> Option<IoRequest> {
        let Extent {
            request,
            step_bytes,
            offsets,
            sizes,
        } = &self.extent;
        let offset = request.offset + self.next_block * step_bytes;
        self.next_block = (self.next_block + 1) % offsets;
        Some(IoRequest {
            offset,
            len: sizes.max_bytes(),
            ..*request
        })
    }

    fn only_cell(&self) -> Option<u32> {
        Some(self.extent.request.cell)
    }
}

/// Page updates as in ACT: a read of a random page, then, even if the read failed, a write of a random page. An arrival
/// is one update, or a bundle of updates that run one after the other. A lane has at most one bundle in flight, because
/// each bundle in flight would need its own count of updates left.
#[derive(Debug, Clone)]
pub struct Updates {
    reads: Vec<Extent>,
    writes: Vec<Extent>,
    bundle: u32,
    /// Number of updates of the current bundle that have not begun.
    updates_left: u32,
    random: Random,
}

impl Updates {
    /// Updates that read from `reads` and write to `writes`, `bundle` updates per arrival.
    pub fn new(reads: Vec<Extent>, writes: Vec<Extent>, bundle: u32, random: Random) -> Self {
        Self {
            reads,
            writes,
            bundle,
            updates_left: 0,
            random,
        }
    }
}

impl Stream for Updates {
    fn next(&mut self) -> Option<IoRequest> {
        self.updates_left = self.bundle - 1;
        Some(Extent::draw_from(&self.reads, &mut self.random))
    }

    fn on_completion(&mut self, request: &IoRequest, _outcome: Outcome) -> Option<IoRequest> {
        if request.kind == OpKind::Read {
            return Some(Extent::draw_from(&self.writes, &mut self.random));
        }
        self.updates_left = self.updates_left.checked_sub(1)?;
        Some(Extent::draw_from(&self.reads, &mut self.random))
    }

    fn expect(&self, arrivals: u64, cells: &mut dyn FnMut(u32, u64)) {
        spread(
            arrivals.saturating_mul(u64::from(self.bundle)),
            &self.reads,
            cells,
        );
    }

    fn lose(&mut self, arrivals: u64, on_lost: &mut dyn FnMut(u32, u64)) {
        // With one target, all updates are in two cells, so no loop counts them: billions can be lost.
        let ([read], [write]) = (&self.reads[..], &self.writes[..]) else {
            return lose_each(self, arrivals, on_lost);
        };
        let updates = arrivals * u64::from(self.bundle);
        on_lost(read.request.cell, updates);
        on_lost(write.request.cell, updates);
    }
}

/// Draws target and kind for each operation.
#[derive(Debug, Clone)]
pub struct Mixed {
    pub reads: Vec<Extent>,
    /// Writes of each target. Both lists have the same length, or one list is empty.
    pub writes: Vec<Extent>,
    /// Of `split.1` operations, `split.0` are reads.
    pub split: (u64, u64),
    pub random: Random,
}

impl Stream for Mixed {
    fn next(&mut self) -> Option<IoRequest> {
        let is_read = self.random.below(self.split.1) < self.split.0;
        Some(Extent::draw_from(
            if is_read { &self.reads } else { &self.writes },
            &mut self.random,
        ))
    }

    fn follows(&self) -> bool {
        false
    }

    fn expect(&self, arrivals: u64, cells: &mut dyn FnMut(u32, u64)) {
        let read_ops =
            u128::from(arrivals) * u128::from(self.split.0) / u128::from(self.split.1.max(1));
        let read_ops = u64::try_from(read_ops).unwrap_or(arrivals).min(arrivals);
        spread(read_ops, &self.reads, cells);
        spread(arrivals - read_ops, &self.writes, cells);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(kind: OpKind, target: TargetId, cell: u32) -> IoRequest {
        IoRequest::new(kind, target, cell, 0)
    }

    #[test]
    fn records_fill_the_device_but_never_leave_it() {
        // The device has 10 sectors. Records of 600 to 1400 bytes take 2 or 3 sectors, so the last offset is 7 sectors.
        let extent = Extent::new(
            request(OpKind::Read, 0, 0),
            5120,
            512,
            SizeDistribution::records(600, 1400, 512),
        )
        .unwrap();
        assert_eq!((extent.offsets, extent.sizes.max_bytes()), (8, 1536));
        assert_eq!(
            extent.sizes,
            SizeDistribution::Uniform {
                min_bytes: 1024,
                count: 2,
                step_bytes: 512
            }
        );
        let mut random = Random::new(1);
        let mut seen = [[0_u32; 2]; 8];
        for _ in 0..16_000 {
            let request = extent.draw(&mut random);
            assert!(request.offset + u64::from(request.len) <= 5120);
            seen[(request.offset / 512) as usize][(request.len / 512 - 2) as usize] += 1;
        }
        assert!(
            seen.iter()
                .flatten()
                .all(|count| (850..1150).contains(count)),
            "uniform over both: {seen:?}"
        );
    }

    #[test]
    fn a_partial_block_at_the_end_is_unused() {
        let read = request(OpKind::Read, 0, 0);
        assert_eq!(
            Extent::blocks(read, 131_072 * 3 + 512, 131_072)
                .unwrap()
                .offsets,
            3
        );
        assert!(Extent::blocks(read, 131_071, 131_072).is_none());
        assert!(Extent::new(read, 1024, 512, SizeDistribution::Same(1536)).is_none());
    }

    #[test]
    fn arrivals_lost_together_are_counted_as_if_lost_one_by_one() {
        let extent = |kind, cell| Extent::blocks(request(kind, 0, cell), 1 << 20, 4096).unwrap();
        let uniform = Uniform {
            extent: extent(OpKind::Read, 3),
            random: Random::new(1),
        };
        let reads = vec![extent(OpKind::Read, 1)];
        let writes = vec![extent(OpKind::Write, 2)];
        let bundles = Updates::new(reads, writes, 100, Random::new(1));
        let twice: [[Box<dyn Stream>; 2]; 2] = [
            [Box::new(uniform.clone()), Box::new(uniform)],
            [Box::new(bundles.clone()), Box::new(bundles)],
        ];
        for [mut one_by_one, mut at_once] in twice {
            let [mut asked, mut told] = [[0; 4]; 2];
            lose_each(&mut *one_by_one, 7, &mut |cell, count| {
                asked[cell as usize] += count
            });
            at_once.lose(7, &mut |cell, count| told[cell as usize] += count);
            assert_eq!(told, asked);
            assert_ne!(asked, [0; 4]);
        }
    }

    #[test]
    fn sequential_reads_start_over_at_the_end() {
        let extent = Extent::blocks(request(OpKind::Read, 0, 0), 3000, 1000).unwrap();
        let mut raider = Sequential {
            extent,
            next_block: 0,
        };
        let offsets: Vec<_> = (0..4)
            .filter_map(|_| raider.next())
            .map(|request| request.offset)
            .collect();
        assert_eq!(offsets, [0, 1000, 2000, 0]);
    }

    #[test]
    fn a_service_thread_mixes_reads_and_writes_in_proportion() {
        let [reads, writes] = [OpKind::Read, OpKind::Write].map(|kind| {
            (0..2)
                .map(|t| Extent::blocks(request(kind, t, t.into()), 1 << 20, 512).unwrap())
                .collect()
        });
        let mut mixed = Mixed {
            reads,
            writes,
            split: (3, 4),
            random: Random::new(5),
        };
        let requests: Vec<_> = (0..40_000).filter_map(|_| mixed.next()).collect();
        let reads = requests.iter().filter(|r| r.kind == OpKind::Read).count();
        let first = requests.iter().filter(|r| r.target == 0).count();
        assert!((29_500..30_500).contains(&reads), "{reads}");
        assert!((19_500..20_500).contains(&first), "{first}");
    }
}
