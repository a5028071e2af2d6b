//! The I/O that a histogram load asks of a drive, and the required test length.

use crate::drive_io::DriveIo;
use load::workload::act::rates::StorageDerived;
use load::workload::act::sizes::HistogramSizes;
use load::workload::act::{ActConfig, Arrival, Problem, derive_storage};

const KIB: f64 = 1024.0;

/// Operations of one kind.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Ops {
    /// Operations a second.
    pub per_sec: f64,
    /// Mean size, bytes, as issued: rounded up to what the drive can do.
    pub mean_bytes: f64,
    /// Largest size, bytes.
    pub max_bytes: f64,
}

impl Ops {
    fn blocks(per_sec: f64, bytes: u32) -> Self {
        Self { per_sec, mean_bytes: bytes.into(), max_bytes: bytes.into() }
    }

    fn kib_per_sec(self) -> f64 {
        self.per_sec * self.mean_bytes / KIB
    }
}

/// Load of a configuration, summed over all of its devices.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Load {
    pub reads: Ops,
    pub large_block_reads: Ops,
    /// Records written by themselves.
    pub commits: Ops,
    pub large_block_writes: Ops,
    /// True for Poisson arrivals, as from independent clients: their number varies.
    pub poisson: bool,
}

impl Load {
    /// Load of `config` on devices whose smallest I/O is `min_io_bytes`. Errors: those of the configuration.
    pub fn of(config: &ActConfig, min_io_bytes: u32) -> Result<Self, Vec<Problem>> {
        let derived = derive_storage(config)?;
        let record_bytes = [derived.record_stored_bytes_min, derived.record_stored_bytes_max];
        let StorageDerived { read_sizes, write_sizes, large_block_bytes, .. } = derived;
        let drawn = |rate: f64, sizes: Option<HistogramSizes>, step_bytes: u32| {
            if rate <= 0.0 {
                return Ops::default();
            }
            let Some(table) = sizes.map(|sizes| sizes.table(step_bytes)) else {
                // Records of one size, or of any in a range.
                let [mean_bytes, max_bytes] = [record_bytes[0].midpoint(record_bytes[1]), record_bytes[1]]
                    .map(|n| n.next_multiple_of(step_bytes));
                return Ops { per_sec: rate, mean_bytes: mean_bytes.into(), max_bytes: max_bytes.into() };
            };
            Ops { per_sec: rate, mean_bytes: table.mean_bytes(), max_bytes: table.bytes_max().into() }
        };
        let write_step_bytes = min_io_bytes.max(config.commit_min_bytes);
        Ok(Self {
            reads: drawn(derived.read_rate.per_sec_f64(), read_sizes, min_io_bytes),
            large_block_reads: Ops::blocks(derived.large_block_read_rate.per_sec_f64(), large_block_bytes),
            commits: drawn(derived.commit_write_rate.per_sec_f64(), write_sizes, write_step_bytes),
            large_block_writes: Ops::blocks(derived.large_block_write_rate.per_sec_f64(), large_block_bytes),
            poisson: config.arrival == Arrival::Poisson,
        })
    }

    /// The load in iostat's numbers.
    pub fn io(&self) -> DriveIo {
        DriveIo {
            reads_per_sec: self.reads.per_sec + self.large_block_reads.per_sec,
            writes_per_sec: self.commits.per_sec + self.large_block_writes.per_sec,
            read_kib_per_sec: self.reads.kib_per_sec() + self.large_block_reads.kib_per_sec(),
            written_kib_per_sec: self.commits.kib_per_sec() + self.large_block_writes.kib_per_sec(),
        }
    }

    /// Seconds after which chance moves none of the four numbers by more than the fraction `noise` (a standard
    /// deviation): few large blocks, or sizes that differ much, take longer.
    ///
    /// An evenly paced stream of n operations is one off at each end of the time; one as of independent clients
    /// varies by the root of n. Bytes vary by the root of n times the mean square of a size, which is at
    /// most its mean times its largest.
    pub fn seconds_for(&self, noise: f64) -> f64 {
        let count = |ops: f64| match ops > 0.0 {
            true if self.poisson => 1.0 / (noise * noise * ops),
            true => 2.0 / (noise * ops),
            false => 0.0,
        };
        let bytes = |drawn: Ops, blocks: Ops| {
            let all = drawn.per_sec * drawn.mean_bytes + blocks.per_sec * blocks.mean_bytes;
            let varying = if self.poisson { blocks.per_sec * blocks.mean_bytes * blocks.max_bytes } else { 0.0 };
            let square = drawn.per_sec * drawn.mean_bytes * drawn.max_bytes + varying;
            if all > 0.0 { square / (noise * all).powi(2) } else { 0.0 }
        };
        let io = self.io();
        [
            count(io.reads_per_sec),
            count(io.writes_per_sec),
            count(self.large_block_reads.per_sec),
            count(self.large_block_writes.per_sec),
            bytes(self.reads, self.large_block_reads),
            bytes(self.commits, self.large_block_writes),
        ]
        .into_iter()
        .fold(0.0, f64::max)
    }
}
