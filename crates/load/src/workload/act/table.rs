//! The rows of the option table, in the order in which ACT 6.6 echoes them, then ACT 4's, then ours.
//!
//! Defaults and ranges of ACT's keys are those of its `cfg_storage.c`; where a range is narrower,
//! the advice says why.

use super::options::{Default, Kind, OptionSpec, Since, Test};
use super::sizes::SizeWithinBucket;
use crate::choice::{Arrival, Choice, Engine, Pacing};

/// Any number that ACT's 32-bit fields hold.
const ANY: Kind = Kind::Whole { min: 0, max: U32_MAX, power_of_two: false };
const U32_MAX: u64 = u32::MAX as u64;
/// Aerospike's largest write block. Source: ACT 6.6, `WBLOCK_SIZE`.
pub(crate) const LARGE_BLOCK_KBYTES_MAX: u64 = 8 * 1024;
/// As many threads as their stack-allocated handles leave room for in ACT's 8 MiB of stack.
pub(crate) const SERVICE_THREADS_MAX: u64 = 1 << 20;
pub(crate) const RECORD_BYTES_MAX: u64 = LARGE_BLOCK_KBYTES_MAX * 1024;
/// The paper adjusts by a tenth; ten times is another load.
const REQ_OFFSET_PCT_MAX: u64 = 1000;
/// The edges of a bucket are a factor of two apart.
const SIZE_OFFSET_PCT_MAX: u64 = 200;

const fn from(min: u64, max: u64) -> Kind {
    Kind::Whole { min, max, power_of_two: false }
}

const STORAGE: &[Test] = &[Test::Storage];
const INDEX: &[Test] = &[Test::Index];
const BOTH: &[Test] = &[Test::Storage, Test::Index];

/// A row of the storage test that ACT 6.6 has too; the other columns start from this one.
const ACT: OptionSpec = OptionSpec {
    name: "",
    unit: "",
    kind: ANY,
    default: Default::Value("0"),
    since: Since::Act66,
    tests: STORAGE,
    help: "",
    advice: "",
};

pub(crate) const TABLE: &[OptionSpec] = &[
    OptionSpec {
        name: "device-names",
        kind: Kind::Devices,
        default: Default::Mandatory("/dev/nvme0n1"),
        tests: BOTH,
        help: "The devices to test, separated by commas, semicolons or spaces; writing tests erase them.",
        advice: "Rates are totals over all of them. A name that starts with sim: is a simulated drive on virtual \
                 time, whose parameters are joined by +, as in sim:capacity=64GiB+read-us=80; simulated and real \
                 drives do not mix in one test. With file-size-mbytes the names are those of files.",
        ..ACT
    },
    OptionSpec {
        name: "file-size-mbytes",
        unit: "MiB",
        kind: from(1, U32_MAX),
        default: Default::Unset { word: Some("0"), what: "the names are devices" },
        tests: BOTH,
        help: "Tests regular files of this size instead of devices.",
        advice: "For trying things out: a file measures the file system as well. Direct I/O is used where the file \
                 system allows it.",
        ..ACT
    },
    OptionSpec {
        name: "service-threads",
        kind: from(1, SERVICE_THREADS_MAX),
        default: Default::Unset { word: Some("0"), what: "1024 for each device" },
        tests: BOTH,
        help: "Largest number of operations that clients wait for in flight, over all devices: of record operations, or in \
               the index test of index reads.",
        advice: "Set it to model a database with that many threads: operations then wait for a free slot, and that \
                 wait is judged. ACT's default, 5 for each CPU, is not used, because it limits the load before the \
                 drive does.",
        ..ACT
    },
    OptionSpec {
        name: "cache-threads",
        kind: from(1, SERVICE_THREADS_MAX),
        default: Default::Value("8"),
        tests: INDEX,
        help: "Largest number of page updates in flight, over all devices: each reads 4 KiB, then writes 4 KiB.",
        advice: "They model the threads that do the device I/O behind a mapped index. A drive that is too slow for \
                 them falls behind by more than max-lag-sec, which stops the test.",
        ..ACT
    },
    OptionSpec {
        name: "test-duration-sec",
        unit: "s",
        kind: from(1, U32_MAX),
        default: Default::Mandatory("86400"),
        tests: BOTH,
        help: "How long the load runs.",
        advice: "A day (86400) certifies; anything shorter is called a screening.",
        ..ACT
    },
    OptionSpec {
        name: "report-interval-sec",
        unit: "s",
        kind: from(1, U32_MAX),
        default: Default::Value("1"),
        tests: BOTH,
        help: "Time between two reports in the log.",
        advice: "The finest step that can be analysed later. Raise it only to make the log of a long run smaller.",
        ..ACT
    },
    OptionSpec {
        name: "microsecond-histograms",
        kind: Kind::YesNo,
        default: Default::Value("no"),
        tests: BOTH,
        help: "Counts the log's histograms in microseconds instead of milliseconds.",
        advice: "For drives whose reads all end within a millisecond. The verdict is exact either way.",
        ..ACT
    },
    OptionSpec {
        name: "read-reqs-per-sec",
        unit: "requests/s",
        tests: BOTH,
        help: "Records that clients read, over all devices.",
        advice: "2000 for each device is the load called 1x. Not both this and write-reqs-per-sec can be 0.",
        ..ACT
    },
    OptionSpec {
        name: "write-reqs-per-sec",
        unit: "requests/s",
        tests: BOTH,
        help: "Records that clients write, over all devices; they become large-block reads and writes, or in the index \
               test index reads and page updates.",
        advice: "1000 for each device is the load called 1x.",
        ..ACT
    },
    OptionSpec {
        name: "record-bytes",
        unit: "bytes",
        kind: from(0, RECORD_BYTES_MAX),
        default: Default::Value("1536"),
        help: "Size of a record, or of the smallest one when there is a range.",
        advice: "Take the size of the database's records on the device. It is rounded up to 16 bytes as stored, and \
                 to the device's minimum I/O size as read. A stored record has to fit into a large block. 0 only beside \
                 storage-read-histogram or storage-write-histogram, which then give the sizes.",
        ..ACT
    },
    OptionSpec {
        name: "record-bytes-range-max",
        unit: "bytes",
        kind: from(0, RECORD_BYTES_MAX),
        help: "Size of the largest record; sizes are then uniform from record-bytes up to here.",
        advice: "0 makes all records the same size. Any other value has to be larger than record-bytes.",
        ..ACT
    },
    OptionSpec {
        name: "large-block-op-kbytes",
        unit: "KiB",
        kind: Kind::Whole { min: 1, max: LARGE_BLOCK_KBYTES_MAX, power_of_two: true },
        default: Default::Value("128"),
        help: "Size of the blocks in which the database flushes and defragments.",
        advice: "Take the database's write-block size or flush size.",
        ..ACT
    },
    OptionSpec {
        name: "replication-factor",
        // The bound keeps every exact rate in 64 bits; no cluster comes near it.
        kind: from(1, 1_000_000),
        default: Default::Value("1"),
        tests: BOTH,
        help: "Copies of each record in the cluster: multiplies the writes that this node does.",
        advice: "Set it when the write rate is that of the clients of one node in a replicating cluster.",
        ..ACT
    },
    OptionSpec {
        name: "update-pct",
        unit: "%",
        kind: from(0, 100),
        help: "Share of the writes that read the record first.",
        advice: "0 models replaces, 100 updates.",
        ..ACT
    },
    OptionSpec {
        name: "defrag-lwm-pct",
        unit: "%",
        kind: from(0, 99),
        default: Default::Value("50"),
        tests: BOTH,
        help: "Defragmentation threshold: the traffic of large blocks, or of page updates, is multiplied by 100 / (100 - \
               this).",
        advice: "Take the database's defrag-lwm-pct. 50 doubles the writes, 75 quadruples them; 0 is no \
                 defragmentation.",
        ..ACT
    },
    OptionSpec {
        name: "no-defrag-reads",
        kind: Kind::YesNo,
        default: Default::Value("no"),
        help: "Defragments without large-block reads.",
        advice: "For a database that keeps its data in memory and uses the device only as its backing.",
        ..ACT
    },
    OptionSpec {
        name: "compress-pct",
        unit: "%",
        kind: from(0, 100),
        default: Default::Value("100"),
        help: "Size to which the written data can be compressed, as a share of the original.",
        advice: "100 is random data. Lower it only for drives that compress and data known to be compressible.",
        ..ACT
    },
    OptionSpec {
        name: "disable-odsync",
        kind: Kind::YesNo,
        default: Default::Value("no"),
        tests: BOTH,
        help: "Opens the devices without O_DSYNC: a write counts as done before it is durable.",
        advice: "Only for a database that is configured so. Not possible together with commit-to-device.",
        ..ACT
    },
    OptionSpec {
        name: "commit-to-device",
        kind: Kind::YesNo,
        default: Default::Value("no"),
        help: "Writes each record by itself instead of in large blocks, which then carry defragmentation only.",
        advice: "For a database that commits every record to the device before it answers.",
        ..ACT
    },
    OptionSpec {
        name: "tomb-raider",
        kind: Kind::YesNo,
        default: Default::Value("no"),
        help: "Reads each device from end to end, one large block at a time, all the while.",
        advice: "For a database that purges tombstones. Keep tomb-raider-sleep-usec above 0 to leave room for the \
                 rest.",
        ..ACT
    },
    OptionSpec {
        name: "tomb-raider-sleep-usec",
        unit: "us",
        help: "Pause of the tomb raider between two large blocks.",
        advice: "ACT's README promises 1000 when it is not given, its code uses 0; so do we. Take the database's \
                 tomb-raider-sleep.",
        ..ACT
    },
    OptionSpec {
        name: "max-lag-sec",
        unit: "s",
        default: Default::Value("10"),
        tests: BOTH,
        help: "Stops the test once a stream is this far behind its schedule.",
        advice: "0 never stops. The end of the run says whether the drive or this program was slow.",
        ..ACT
    },
    OptionSpec {
        name: "commit-min-bytes",
        unit: "bytes",
        kind: Kind::Whole { min: 0, max: RECORD_BYTES_MAX, power_of_two: true },
        since: Since::Act4,
        help: "Rounds the size and the place of every commit write to a multiple of this.",
        advice: "0 rounds to the device's minimum I/O size, and so does anything smaller. It needs commit-to-device \
                 and cannot be larger than a large block.",
        ..ACT
    },
    OptionSpec {
        name: "num-queues",
        kind: from(1, U32_MAX),
        default: Default::Unset { word: None, what: "service-threads decides" },
        since: Since::Act4,
        help: "Becomes service-threads: num-queues x threads-per-queue.",
        advice: "Write service-threads instead; it wins when both are given.",
        ..ACT
    },
    OptionSpec {
        name: "threads-per-queue",
        kind: from(1, U32_MAX),
        default: Default::Unset { word: None, what: "service-threads decides" },
        since: Since::Act4,
        help: "Becomes service-threads: num-queues x threads-per-queue.",
        advice: "Write service-threads instead; it wins when both are given.",
        ..ACT
    },
    OptionSpec {
        name: "scheduler-mode",
        kind: Kind::Word,
        default: Default::Unset { word: None, what: "the scheduler is left alone" },
        since: Since::Act4,
        help: "Ignored: the I/O scheduler of the device is recorded, never changed.",
        advice: "Set the scheduler with a udev rule, or write to /sys/block/NAME/queue/scheduler before the run.",
        ..ACT
    },
    OptionSpec {
        name: "storage-read-histogram",
        unit: "%",
        kind: Kind::Histogram,
        default: Default::Unset { word: None, what: "record-bytes gives the sizes" },
        since: Since::Paper,
        help: "Sizes of record reads as a live database counted them: the share over 1, 2, 4, ... bytes.",
        advice: "Take the averages of the database's device-read-size histogram, with as many values as reach the \
                 first 0, and set read-reqs-per-sec to its operations a second. record-bytes then is 0 or left out.",
        ..ACT
    },
    OptionSpec {
        name: "storage-write-histogram",
        unit: "%",
        kind: Kind::Histogram,
        default: Default::Unset { word: None, what: "record-bytes gives the sizes" },
        since: Since::Paper,
        help: "Sizes of records written, likewise; their mean gives the large-block writes.",
        advice: "Take the averages of the device-write-size histogram, and write-reqs-per-sec from its operations a \
                 second. Replication, update reads and defragmentation are in both already, so replication-factor, \
                 update-pct and defrag-lwm-pct keep their defaults.",
        ..ACT
    },
    OptionSpec {
        name: "total-lbw-per-sec",
        unit: "blocks/s",
        since: Since::Paper,
        help: "Large blocks that the live database writes, defragmentation included: what direct-frees is a part of.",
        advice: "Take it from the drv_ssd line of the database's log. By itself it changes nothing.",
        ..ACT
    },
    OptionSpec {
        name: "direct-frees",
        unit: "blocks/s",
        since: Since::Paper,
        help: "Large blocks freed without defragmentation: large-block reads shrink by its share of total-lbw-per-sec.",
        advice: "Take it from the drv_ssd detail line of the same moment.",
        ..ACT
    },
    OptionSpec {
        name: "lbr-req-offset",
        unit: "%",
        kind: from(1, REQ_OFFSET_PCT_MAX),
        default: Default::Value("100"),
        since: Since::Paper,
        help: "Multiplies the large-block reads of a histogram load; 100 leaves them as they are.",
        advice: "Use it to match the large-block reads that were seen on the live database's device.",
        ..ACT
    },
    OptionSpec {
        name: "lbw-req-offset",
        unit: "%",
        kind: from(1, REQ_OFFSET_PCT_MAX),
        default: Default::Value("100"),
        since: Since::Paper,
        help: "Multiplies the large-block writes of a histogram load, and not its reads.",
        advice: "Use it to match the writes a second that iostat shows on the live database's device.",
        ..ACT
    },
    OptionSpec {
        name: "read-size-offset",
        unit: "%",
        kind: from(1, SIZE_OFFSET_PCT_MAX),
        default: Default::Value("100"),
        since: Since::Paper,
        help: "Multiplies the sizes drawn from storage-read-histogram.",
        advice: "Use it to match the bytes read a second. Buckets are powers of two, so 50 to 200 spans any truth.",
        ..ACT
    },
    OptionSpec {
        name: "write-size-offset",
        unit: "%",
        kind: from(1, SIZE_OFFSET_PCT_MAX),
        default: Default::Value("100"),
        since: Since::Paper,
        help: "Multiplies the sizes of storage-write-histogram, and with them the large-block reads and writes.",
        advice: "Use it before lbr-req-offset and lbw-req-offset where both are off by the same factor.",
        ..ACT
    },
    OptionSpec {
        name: "size-within-bucket",
        kind: Kind::Choice(SizeWithinBucket::WORDS),
        default: Default::Value("paper"),
        since: Since::Flashproof,
        help: "Where in its bucket of a histogram a size lies.",
        advice: "paper puts reads at the lower edge and writes at the upper, which reproduces the sizing paper's own \
                 results; lower and upper put both there; uniform and log-uniform spread them over the bucket, the \
                 second with smaller sizes more likely. docs/method.md compares them.",
        ..ACT
    },
    OptionSpec {
        name: "arrival",
        kind: Kind::Choice(Arrival::WORDS),
        default: Default::Value("paced"),
        since: Since::Flashproof,
        tests: BOTH,
        help: "When operations are intended to start.",
        advice: "paced spaces them evenly on each device; poisson models many independent clients; act repeats ACT \
                 6's own pacing, for comparison with its results; closed runs records flat out, \
                 service-threads of them in flight (32 for each device when not given), and leaves large blocks \
                 paced.",
        ..ACT
    },
    OptionSpec {
        name: "pacing",
        kind: Kind::Choice(Pacing::WORDS),
        default: Default::Value("sleep"),
        since: Since::Flashproof,
        tests: BOTH,
        help: "How an issuing thread waits for the next operation.",
        advice: "spin costs a whole core for each issuing thread and issues within microseconds of the schedule.",
        ..ACT
    },
    OptionSpec {
        name: "engine",
        kind: Kind::Choice(Engine::WORDS),
        default: Default::Value("auto"),
        since: Since::Flashproof,
        tests: BOTH,
        help: "What carries operations to the kernel.",
        advice: "auto takes io_uring and falls back to threads where the kernel forbids it, and says so; uring refuses \
                 to run without it. Simulated drives need neither.",
        ..ACT
    },
    OptionSpec {
        name: "seed",
        kind: from(0, u64::MAX),
        default: Default::Unset { word: None, what: "chosen at the start and recorded" },
        since: Since::Flashproof,
        tests: BOTH,
        help: "Seed of all random choices.",
        advice: "Give the seed of an earlier run to repeat its offsets, sizes and data; a run on simulated drives \
                 alone is repeated to the last bucket.",
        ..ACT
    },
    OptionSpec {
        name: "large-block-concurrency",
        kind: from(1, 1024),
        default: Default::Value("1"),
        since: Since::Flashproof,
        help: "Largest number of large-block reads, and of writes, in flight on each device.",
        advice: "ACT does one at a time. Raise it when the database flushes from several threads.",
        ..ACT
    },
    OptionSpec {
        name: "shards",
        kind: from(1, 1024),
        default: Default::Unset { word: Some("0"), what: "as many as the load and the CPUs ask for" },
        since: Since::Flashproof,
        tests: BOTH,
        help: "Number of issuing threads.",
        advice: "Raise it when the run says that this program was slow and cores are idle.",
        ..ACT
    },
];
