//! Properties of a store on a device with arbitrary bytes.

use engine::sim::{DriveContents, QueueModel, SimEngine};
use engine::{IoEngine, Wait};
use store::{
    Delete, Digest, Exists, NamespaceSettings, Policy, Reply, ResultCode, Store, StoreSpace,
};
use store::{RecordOp, Transaction, Write, ops};

const BLOCK: u64 = 32 << 10;
const BLOCKS: u64 = 16;
const MARKS: u64 = BLOCKS * BLOCK;
/// Bytes at the start of each block that come from the input.
const PIECE: usize = 1536;
const PIECES: usize = 12;
const MAGIC: [u8; 2] = 0xf1a5_u16.to_le_bytes();
const SEAL_MAGIC: [u8; 4] = 0xf1a5_5ea1_u32.to_le_bytes();
const SEAL: usize = 128;
const MARK: usize = 152;
/// Distance of the two marks.
const SLOT: u64 = 4096;

pub(crate) struct Open {
    engine: SimEngine,
    store: Store,
    replies: Vec<(u64, Reply)>,
}

impl Open {
    pub(crate) fn on(contents: DriveContents) -> Self {
        let model = QueueModel::new(&"sim:capacity=4MiB".parse().expect("a drive"), 1);
        let mut engine = SimEngine::holding(vec![model], vec![contents]);
        let namespace = NamespaceSettings {
            write_block_bytes: BLOCK as u32,
            commit_to_device: true,
            defrag_lwm_pct: 90,
            min_avail_pct: 0,
            nsup_period_sec: 0,
            ..NamespaceSettings::new("test")
        };
        let space = StoreSpace {
            target: 0,
            range: 0..BLOCKS * BLOCK,
            marks_offset: MARKS,
            min_io_bytes: 512,
            write_unit_bytes: 512,
            id: 9,
        };
        let wall_ms = 1_700_000_000_000;
        let store =
            Store::open(&namespace, &[space], 0..48, wall_ms, 1, &mut engine).expect("a store");
        let mut open = Self {
            engine,
            store,
            replies: Vec::new(),
        };
        open.run(|open| open.store.is_ready() || open.store.damage().is_some());
        open.store.accept_losses(&mut open.engine);
        open.run(|open| open.store.is_ready());
        open.check();
        open
    }

    fn run(&mut self, is_done: impl Fn(&Self) -> bool) {
        let mut done = Vec::new();
        for _ in 0..10_000 {
            if is_done(self) {
                return;
            }
            let next_ns = self.store.poll(&mut self.engine, &mut self.replies);
            let until_ns = next_ns.clamp(self.engine.now() + 1, self.engine.now() + 1_000_000);
            self.engine
                .reap(Wait::first(until_ns), &mut done)
                .expect("simulated drives reap");
            for done in done.drain(..) {
                self.store
                    .on_completion(done, &mut self.engine, &mut self.replies);
            }
        }
        panic!("the store hangs");
    }

    pub(crate) fn ask(&mut self, digest: Digest, record_op: RecordOp) -> Reply {
        let transaction = Transaction {
            digest,
            set: (*b"s").into(),
            record_op,
        };
        self.store
            .execute(1, transaction, &mut self.engine, &mut self.replies);
        self.run(|open| !open.replies.is_empty());
        self.replies.remove(0).1
    }

    pub(crate) fn read(&mut self, digests: &[Digest]) -> Vec<(ResultCode, Vec<u8>, u16)> {
        digests
            .iter()
            .map(|digest: &Digest| {
                let reply = self.ask(*digest, RecordOp::ReadAll);
                (reply.result, reply.ops, reply.generation)
            })
            .collect()
    }

    fn check(&self) {
        self.store.check().unwrap_or_else(|what| panic!("{what}"));
    }

    pub(crate) fn close(mut self) -> DriveContents {
        self.store.flush(&mut self.engine);
        self.run(|open| open.store.is_idle());
        self.check();
        self.engine.stop(false).remove(0)
    }
}

fn value(number: u8, len: usize) -> RecordOp {
    let mut entries = Vec::new();
    let entry = ops::BinEntry {
        operation: ops::operation::WRITE,
        particle: ops::particle::BLOB,
        name: b"b",
        value: &vec![number; len],
    };
    ops::put(&mut entries, &entry);
    let policy = Policy {
        exists: Exists::CreateOrReplace,
        ..Policy::default()
    };
    RecordOp::Write(Write {
        policy,
        ops: entries,
        ..Write::default()
    })
}

/// Opens a store on the device described by `bytes`. In the first byte, bit 0 keeps the checksums of the input, which
/// are otherwise made valid, and bit 1 announces two marks. Then come the marks, and the starts of blocks. Returns true
/// if a record was read.
pub(crate) fn assert_device_property(bytes: &[u8]) -> bool {
    let Some((flags, mut bytes)) = bytes.split_first() else {
        return false;
    };
    let mut contents = DriveContents::new(512, 1);
    if flags & 2 != 0 {
        for slot in 0..2 {
            let (mark, rest) = bytes.split_at(bytes.len().min(MARK));
            let mut mark = mark.to_vec();
            if flags & 1 == 0 && mark.len() == MARK {
                let sum = crc32fast::hash(&mark[8..]);
                mark[4..8].copy_from_slice(&sum.to_le_bytes());
            }
            contents.write(MARKS + slot * SLOT, &mark);
            bytes = rest;
        }
    }
    let mut digests = Vec::new();
    for (block, piece) in bytes.chunks(PIECE).take(PIECES).enumerate() {
        let mut piece = piece.to_vec();
        if flags & 1 == 0 {
            seal(&mut piece);
        }
        for record in (48..piece.len().saturating_sub(48))
            .step_by(16)
            .map(|at| &piece[at..])
        {
            if record[4..6] == MAGIC && digests.len() < 60 {
                digests.extend(record[24..].first_chunk::<20>().copied());
            }
        }
        contents.write(block as u64 * BLOCK, &piece);
    }
    digests.sort_unstable();
    digests.dedup();
    let mut open = Open::on(contents);
    let found = open.read(&digests);
    // A second opening finds the same records, moved or not.
    let mut open = Open::on(open.close());
    assert_eq!(open.read(&digests), found);
    // Records that are written now are found after another opening.
    let mut expected = Vec::new();
    for (number, digest) in digests.iter().enumerate() {
        let is_deleted = number % 3 == 0;
        let record_op = if is_deleted {
            RecordOp::Delete(Delete::default())
        } else {
            value(number as u8, 700)
        };
        let done = matches!(
            open.ask(*digest, record_op).result,
            ResultCode::OK | ResultCode::NOT_FOUND
        );
        expected.push(done.then_some(is_deleted));
    }
    let mut open = Open::on(open.close());
    for ((digest, is_deleted), number) in digests.iter().zip(expected).zip(0_u8..) {
        let reply = open.ask(*digest, RecordOp::ReadAll);
        match is_deleted {
            Some(true) => assert_eq!(reply.result, ResultCode::NOT_FOUND),
            Some(false) => {
                let bins: Vec<_> = ops::entries(&reply.ops)
                    .map(|bin| bin.value.to_vec())
                    .collect();
                assert_eq!(bins, [vec![number; 700]]);
            }
            None => {}
        }
    }
    found.iter().any(|(result, ..)| *result == ResultCode::OK)
}

/// Sets valid checksums in the start of a block, so that the data behind them is parsed, too.
fn seal(piece: &mut [u8]) {
    if piece.len() < 36 {
        return;
    }
    let sum = crc32fast::hash(&piece[8..36]);
    piece[4..8].copy_from_slice(&sum.to_le_bytes());
    let seed = crc32fast::hash(&piece[8..32]);
    let mut at = 48;
    while at + 48 <= piece.len() {
        let part = &mut piece[at..];
        let field = u32::from_le_bytes([part[8], part[9], part[10], part[11]]);
        let len = (field >> 4) as usize * 16;
        let (len, seed) = match part[4..8].try_into() {
            Ok(SEAL_MAGIC) if part.len() >= SEAL => (SEAL, seed),
            Ok([one, other, ..]) if [one, other] == MAGIC && (48..=part.len()).contains(&len) => (
                len,
                seed.wrapping_add((at as u32).wrapping_mul(0x9e37_79b1)),
            ),
            _ => {
                at += 16;
                continue;
            }
        };
        let mut hasher = crc32fast::Hasher::new_with_initial(seed);
        hasher.update(&part[4..len]);
        part[..4].copy_from_slice(&hasher.finalize().to_le_bytes());
        at += len;
    }
}
