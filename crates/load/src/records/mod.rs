//! Transactions on records: reads and writes of keys, as the client of a record engine issues them.
//!
//! ```text
//! keys 0..k -> Transactions (a Stream) --one lane--> reads, writes: recorded separately, sharing the lane's slots
//!              offset: number of the key; length: bytes of the record
//! ```
//!
//! To the run loop, a transaction is an operation, and a namespace is a target. The engine maps these operations to
//! transactions, and makes key digests and record contents.
//!
//! Each shard has every n-th key. So a single engine sees all writes of a key, and engines need no
//! coordination. With skewed keys, each shard has the same distribution over its own keys.

use crate::keys::{KeyGenerator, Keys};
use crate::plan::{Arrival, BufferClass};
use crate::rate::Rate;
use crate::schedule::phase;
use crate::stream::{IoRequest, Stream};
use crate::workload::{
    BuildContext, Built, CannotRun, DeviceShape, MAX_LAG_SEC, RunPlan, RunSpec, Workload, offered,
    setting, stream_info,
};
use engine::DeviceName;
use results::cell::{Arrivals, StreamInfo};
use results::run_dir::{RecordedConfig, WorkloadRecord};
use std::fmt;
use sys::op::OpKind;
use sys::random::Random;

#[derive(Debug, Clone)]
pub struct RecordWorkload {
    /// The device of an engine in this process, or the name of a namespace.
    pub target: DeviceName,
    pub file_size_bytes: Option<u64>,
    pub device_bytes_min: u64,
    /// Number of keys. At least 1.
    pub keys: u32,
    pub first_key: u64,
    pub mix: Mix,
    /// Key distribution of reads and updates.
    pub next_key: Keys,
    pub record_bytes: u32,
    /// Records per read. At least 1; with several, each read is a batch.
    pub batch_records: u32,
    /// Maximum transactions in flight. At least 1.
    pub depth: u32,
    /// Transactions per second; `None`: closed loop.
    pub rate: Option<Rate>,
    /// Issuing threads, each with keys of its own.
    pub threads: u32,
    /// Length of a run, seconds; an upper bound for insertions, which end when all keys exist.
    pub duration_sec: u64,
    /// Seed of all random choices; `None`: chosen at the start.
    pub seed: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mix {
    /// Each key is written once, in order.
    Insert,
    ReadUpdate {
        /// Share of the reads, percent: 0 to 100.
        read_pct: u32,
    },
}

impl Mix {
    pub fn read_pct(self) -> u32 {
        match self {
            Self::Insert => 0,
            Self::ReadUpdate { read_pct } => read_pct,
        }
    }
}

/// As Aerospike's benchmarks write it: `I`, `RU,95`.
impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Insert => f.write_str("I"),
            Self::ReadUpdate { read_pct } => write!(f, "RU,{read_pct}"),
        }
    }
}

impl std::str::FromStr for Mix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let read_pct = match text.split_once(',') {
            None if text == "I" => return Ok(Self::Insert),
            // As in the benchmark of Aerospike's Java client.
            None if text == "RU" => Some(50),
            Some(("RU", pct)) => pct.parse().ok().filter(|pct| *pct <= 100),
            _ => None,
        };
        let read_pct = read_pct
            .ok_or("give I (insert), or RU,PCT with the percentage of reads, such as RU,95")?;
        Ok(Self::ReadUpdate { read_pct })
    }
}

pub const TRANSACTIONS: &str = "transactions";
/// Name of the setting for the records per batch; only runs whose reads are batches have this setting.
pub const BATCH_SIZE: &str = "batch-read-size";
pub const READS: &str = "reads";
pub const WRITES: &str = "writes";

impl RecordWorkload {
    fn shards(&self, shards_max: u32) -> u32 {
        self.threads
            .clamp(1, shards_max.max(1))
            .min(self.depth)
            .min(self.keys)
            .max(1)
    }

    fn streams(&self) -> Vec<StreamInfo> {
        let per_sec = self.rate.map_or(0.0, Rate::per_sec_f64);
        let read_share = f64::from(self.mix.read_pct()) / 100.0;
        [(READS, read_share), (WRITES, 1.0 - read_share)]
            .into_iter()
            .filter(|(_, share)| *share > 0.0)
            .map(|(name, share)| stream_info(name, true, per_sec * share, Arrivals::Even))
            .collect()
    }

    fn record(&self, shards: u32) -> RecordedConfig {
        let mut settings = vec![
            setting("on", &self.target),
            setting("keys", &self.keys),
            setting("first-key", &self.first_key),
            setting("workload", &self.mix),
            setting("next-key", &self.next_key),
            setting("record-bytes", &self.record_bytes),
            setting("transactions-in-flight", &self.depth),
            setting("threads", &shards),
        ];
        if self.batch_records > 1 {
            settings.push(setting(BATCH_SIZE, &self.batch_records));
        }
        let derived = self
            .streams()
            .iter()
            .filter(|stream| stream.offered_iops > 0.0)
            .map(offered)
            .collect();
        RecordedConfig {
            derived,
            settings,
            ..RecordedConfig::default()
        }
    }

    fn keys_of(&self, shard: u32, shards: u32) -> u32 {
        (self.keys - shard).div_ceil(shards)
    }

    /// Makes a function that takes the number of a shard and the number of all shards. The function returns a generator
    /// of the further keys in a batch: keys of the same shard, with the distribution of the first key.
    pub fn batch_keys(
        &self,
        seed: u64,
    ) -> impl Fn(usize, usize) -> Box<dyn FnMut() -> u64> + Send + Sync + 'static {
        let records = self.clone();
        move |shard, shards| {
            let number = shard as u32;
            let stride = shards as u32;
            let mut draw = KeyGenerator::new(records.next_key, records.keys_of(number, stride));
            let first_key = records.first_key + u64::from(number);
            let mut random = Random::for_part(!seed, u64::from(number));
            Box::new(move || first_key + u64::from(draw.next(&mut random)) * u64::from(stride))
        }
    }
}

impl Workload for RecordWorkload {
    fn kind(&self) -> &'static str {
        TRANSACTIONS
    }

    fn spec(&self) -> RunSpec {
        RunSpec {
            file_size_bytes: self.file_size_bytes,
            max_lag_sec: MAX_LAG_SEC,
            // A record engine acknowledges a write only when the data are on the drive.
            odsync: true,
            seed: self.seed,
            operations: (self.mix == Mix::Insert).then_some(self.keys.into()),
            ..RunSpec::new(vec![self.target.clone()], self.duration_sec)
        }
    }

    fn reads(&self) -> bool {
        self.mix != Mix::Insert
    }

    fn writes(&self) -> bool {
        // Even if clients only read, an engine writes when it flushes its buffers.
        true
    }

    fn unit_bytes(&self) -> u64 {
        self.device_bytes_min
    }

    fn build(&self, devices: &[DeviceShape], choices: &BuildContext, run: &mut RunPlan) -> Built {
        let [device] = devices else {
            return Err(CannotRun(format!("{} is not open", self.target)));
        };
        let shards = self.shards(choices.shards_max);
        let plan_offsets = run.add(self.streams(), shards as usize);
        for (shard, plan) in (0..shards).zip(&mut run.shards) {
            let depth = (self.depth - shard).div_ceil(shards);
            let arrival = match self.rate {
                None => Arrival::Closed { depth, think_ns: 0 },
                Some(rate) => Arrival::even(
                    rate,
                    shard.into(),
                    shards.into(),
                    phase(plan_offsets.workload),
                )
                .ok_or_else(|| {
                    CannotRun(
                        "the rate of transactions is too low to schedule - give a higher one"
                            .to_owned(),
                    )
                })?,
            };
            // The engine produces the record: no data is passed.
            plan.add_buffers(BufferClass::plain(0, depth));
            let keys = self.keys_of(shard, shards);
            let request = IoRequest::new(OpKind::Write, 0, 0, plan_offsets.buffers(0));
            let stream = Transactions {
                request: IoRequest {
                    len: self.record_bytes,
                    ..request
                },
                batch_bytes: self.record_bytes.saturating_mul(self.batch_records.max(1)),
                reads: plan_offsets.cell_of(READS, device.target).unwrap_or(0),
                writes: plan_offsets.cell_of(WRITES, device.target).unwrap_or(0),
                read_pct: self.mix.read_pct(),
                draw: KeyGenerator::new(
                    if self.mix == Mix::Insert {
                        Keys::Sequential
                    } else {
                        self.next_key
                    },
                    keys,
                ),
                inserts_left: (self.mix == Mix::Insert).then_some(keys),
                first_key: self.first_key + u64::from(shard),
                stride: shards.into(),
                random: Random::for_part(choices.seed, u64::from(shard)),
            };
            let limit = plan.add_limit(depth, true);
            plan.add_lane(
                stream,
                arrival,
                limit,
                plan_offsets.lane_name("transactions", &device.name),
            );
        }
        Ok(WorkloadRecord {
            kind: self.kind().to_owned(),
            config: self.record(shards),
            ..WorkloadRecord::default()
        })
    }
}

/// Reads and writes of one shard's keys.
#[derive(Debug, Clone)]
pub struct Transactions {
    /// Fields that all requests share.
    request: IoRequest,
    batch_bytes: u32,
    /// Cells of reads and of writes.
    reads: u32,
    writes: u32,
    read_pct: u32,
    draw: KeyGenerator,
    /// Keys still to be inserted; `None`: unlimited.
    inserts_left: Option<u32>,
    /// The shard's keys: `first + n * stride`.
    first_key: u64,
    stride: u64,
    random: Random,
}

impl Stream for Transactions {
    #[inline]
    fn next(&mut self) -> Option<IoRequest> {
        if let Some(inserts_left) = &mut self.inserts_left {
            *inserts_left = inserts_left.checked_sub(1)?;
        }
        let is_read = self.read_pct > 0 && self.random.below(100) < u64::from(self.read_pct);
        let (kind, cell, len) = if is_read {
            (OpKind::Read, self.reads, self.batch_bytes)
        } else {
            (OpKind::Write, self.writes, self.request.len)
        };
        let offset = self.first_key + u64::from(self.draw.next(&mut self.random)) * self.stride;
        Some(IoRequest {
            kind,
            cell,
            offset,
            len,
            ..self.request
        })
    }

    fn follows(&self) -> bool {
        false
    }

    fn expect(&self, arrivals: u64, cells: &mut dyn FnMut(u32, u64)) {
        let arrivals = self
            .inserts_left
            .map_or(arrivals, |left| arrivals.min(left.into()));
        let reads = (u128::from(arrivals) * u128::from(self.read_pct) / 100) as u64;
        if reads > 0 {
            cells(self.reads, reads);
        }
        if arrivals > reads {
            cells(self.writes, arrivals - reads);
        }
    }

    fn lose(&mut self, arrivals: u64, on_lost: &mut dyn FnMut(u32, u64)) {
        // No loop over the lost arrivals, because there can be billions.
        self.expect(arrivals, on_lost);
        self.inserts_left = self
            .inserts_left
            .map(|left| left.saturating_sub(u32::try_from(arrivals).unwrap_or(u32::MAX)));
    }
}

#[cfg(test)]
mod tests;
