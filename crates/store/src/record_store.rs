//! One core's part of a namespace.

use crate::ops::{self, Entry, operation, particle};
use crate::{Digest, Disk, Exists, Generation, Namespace, Reply, ResultCode, Space, Statistics, Transaction, Work};
use std::collections::HashMap;
use std::ops::Range;
use sys::op::Completion;

/// The records of a namespace whose partitions one core owns.
#[derive(Debug)]
pub struct Store {
    // In memory until the log is there.
    records: HashMap<Digest, (u16, Vec<u8>)>,
    statistics: Statistics,
}

impl Store {
    /// A store of `namespace` on `spaces`, whose operations have the numbers `tokens`. It begins by reading what is there;
    /// `wall_ms` is the time since 1970 at instant 0 of the disk's clock, `seed` that of its choices.
    ///
    /// Errors: a space or settings that cannot be, a sentence.
    pub fn open(
        _namespace: &Namespace,
        _spaces: &[Space],
        _tokens: Range<u32>,
        _wall_ms: u64,
        _seed: u64,
        _disk: &mut impl Disk,
    ) -> Result<Self, String> {
        Ok(Self { records: HashMap::new(), statistics: Statistics::default() })
    }

    /// Whether all that was on the devices is indexed. Before, transactions must not come.
    pub fn is_ready(&self) -> bool {
        true
    }

    /// Takes a transaction. Its reply comes with its number, here or later.
    pub fn execute(
        &mut self,
        number: u64,
        transaction: Transaction,
        _disk: &mut impl Disk,
        replies: &mut Vec<(u64, Reply)>,
    ) {
        let reply = self.reply(transaction);
        self.statistics.objects = self.records.len() as u64;
        replies.push((number, reply));
    }

    fn reply(&mut self, transaction: Transaction) -> Reply {
        let found = self.records.get(&transaction.digest).cloned();
        let of = |(generation, bins): (u16, Vec<u8>), wanted: Option<&[u8]>| {
            let mut reply = Reply { generation, ..Reply::of(ResultCode::OK) };
            for bin in ops::entries(&bins) {
                if wanted.is_none_or(|wanted| ops::entries(wanted).any(|op| op.name == bin.name)) {
                    ops::put(&mut reply.ops, &bin);
                    reply.bins += 1;
                }
            }
            reply
        };
        let not_found = || Reply::of(ResultCode::NOT_FOUND);
        match transaction.work {
            Work::Exists => {
                found.map_or_else(not_found, |(generation, _)| Reply { generation, ..Reply::of(ResultCode::OK) })
            }
            Work::ReadAll => found.map_or_else(not_found, |found| of(found, None)),
            Work::Read(wanted) => found.map_or_else(not_found, |found| of(found, Some(&wanted))),
            Work::Delete(_) => match self.records.remove(&transaction.digest) {
                Some(_) => Reply::of(ResultCode::OK),
                None => not_found(),
            },
            Work::Write(write) => {
                match (write.policy.exists, &found) {
                    (Exists::CreateOnly, Some(_)) => return Reply::of(ResultCode::EXISTS),
                    (Exists::UpdateOnly | Exists::ReplaceOnly, None) => return not_found(),
                    _ => {}
                }
                let (generation, old) = found.unwrap_or_default();
                if matches!(write.policy.generation, Generation::Equal(wanted) if wanted != generation) {
                    return Reply::of(ResultCode::GENERATION);
                }
                let replaces = matches!(write.policy.exists, Exists::CreateOrReplace | Exists::ReplaceOnly);
                let mut bins: Vec<_> = ops::entries(&old).filter(|_| !replaces).collect();
                for op in ops::entries(&write.ops).filter(|op| op.operation == operation::WRITE) {
                    bins.retain(|bin| bin.name != op.name);
                    if op.particle != particle::NULL {
                        bins.push(Entry { operation: operation::READ, ..op });
                    }
                }
                let mut new = Vec::new();
                bins.iter().for_each(|bin| ops::put(&mut new, bin));
                self.records.insert(transaction.digest, (generation + 1, new));
                Reply { generation: generation + 1, ..Reply::of(ResultCode::OK) }
            }
            Work::Image(_) => Reply::of(ResultCode::UNSUPPORTED),
        }
    }

    /// Brings back an operation of the store's numbers.
    pub fn on_completion(&mut self, _completion: Completion, _disk: &mut impl Disk, _replies: &mut Vec<(u64, Reply)>) {}

    /// Lets it do what is due, and tells when it wants to be asked again, on the disk's clock.
    pub fn poll(&mut self, _disk: &mut impl Disk, _replies: &mut Vec<(u64, Reply)>) -> u64 {
        u64::MAX
    }

    /// Has it write what it has in memory; [`Self::is_idle`] when that is done.
    pub fn flush(&mut self, _disk: &mut impl Disk) {}

    /// Whether nothing is in flight and no buffer holds what is not on its device.
    pub fn is_idle(&self) -> bool {
        true
    }

    /// Takes one line of what the log should say, oldest first: what was damaged or failed.
    pub fn take_remark(&mut self) -> Option<String> {
        None
    }

    /// What it counted.
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }
}
