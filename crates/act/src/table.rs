//! The option table: first the rows of ACT 6.6, in the order in which ACT echoes them, then the rows of older ACTs and
//! flashproof. Also the configuration, with a field for each row, and functions that find a row.
//!
//! An option is declared once: parsing, checking, the echo, `--help` and docs/options.md all read its row. Defaults and
//! ranges of ACT's keys are those of ACT's `cfg_storage.c`. If a range is narrower, the advice says why.

use super::options::{
    BOTH, INDEX, OptionDefault, OptionField, OptionKind, OptionSpec, STORAGE, Since, Test,
};
use super::sizes::{SizeHistogram, SizeWithinBucket};
use engine::DeviceName;
use load::choice::{Arrival, Choice, Engine, Pacing, similar};

/// Any number that ACT's 32-bit fields hold.
const ANY: OptionKind = OptionKind::Whole {
    min: 0,
    max: U32_MAX,
    power_of_two: false,
};
pub(super) const U32_MAX: u64 = u32::MAX as u64;
/// Aerospike's largest write block. Source: ACT 6.6, `WBLOCK_SIZE`.
pub(crate) const LARGE_BLOCK_KBYTES_MAX: u64 = 8 * 1024;
/// ACT keeps thread handles on its 8 MiB stack, which has room for this many.
pub(crate) const SERVICE_THREADS_MAX: u64 = 1 << 20;
pub(crate) const RECORD_BYTES_MAX: u64 = LARGE_BLOCK_KBYTES_MAX * 1024;
/// Ten times the rate. The paper adjusts rates by a tenth; a factor above ten would be a different load.
const REQ_OFFSET_PCT_MAX: u64 = 1000;
/// Twice the size: the edges of a bucket are a factor of two apart.
const SIZE_OFFSET_PCT_MAX: u64 = 200;

pub(super) const fn from(min: u64, max: u64) -> OptionKind {
    OptionKind::Whole {
        min,
        max,
        power_of_two: false,
    }
}

/// Values of columns that a row omits: an option of ACT 6.6's storage test, any number, default 0.
pub(super) const ROW: OptionSpec = OptionSpec {
    name: "",
    unit: "",
    kind: ANY,
    default: OptionDefault::Value("0"),
    since: Since::Act66,
    tests: STORAGE,
    help: "",
    advice: "",
};

/// Declares each option: `"key" => field: type [columns of its row] { help and advice }`.
macro_rules! options {
    ($($key:literal => $field:ident: $type:ty [$($column:ident: $value:expr),* $(,)?] {
        help: $help:literal,
        advice: $advice:literal,
    })+) => {
        pub(super) const TABLE: &[OptionSpec] =
            &[$(OptionSpec { name: $key, help: $help, advice: $advice, $($column: $value,)* ..ROW }),+];

        /// The configuration of an ACT test as given, without derived values.
        ///
        /// The option table has the ranges and advice; keys that the test does not read keep their defaults. As in ACT,
        /// the defaults are incomplete: devices and a duration have to be given. A configuration that a program changed
        /// must pass [`check`](super::check()) again; [`derive`](super::derive()) calls it.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct ActConfig {
            pub test: Test,
            $(#[doc = $help] pub $field: $type,)+
        }

        impl ActConfig {
            pub fn new(test: Test) -> Self {
                let mut config = Self { test, $($field: std::default::Default::default(),)+ };
                for spec in TABLE {
                    if let (OptionDefault::Value(text), Some(field)) = (spec.default, config.field_mut(spec.name)) {
                        field.set(spec, text).expect("a default is a value of its option");
                    }
                }
                config
            }

            fn field(&self, key: &str) -> Option<&dyn OptionField> {
                match key {
                    $($key => Some(&self.$field),)+
                    _ => None,
                }
            }

            fn field_mut(&mut self, key: &str) -> Option<&mut dyn OptionField> {
                match key {
                    $($key => Some(&mut self.$field),)+
                    _ => None,
                }
            }
        }
    };
}

options! {
    "device-names" => device_names: Vec<DeviceName> [
        kind: OptionKind::Devices, default: OptionDefault::Mandatory("/dev/nvme0n1"), tests: BOTH,
    ] {
        help: "The devices to test, separated by commas, semicolons or spaces. A test that writes erases them.",
        advice: "Rates are totals over all devices. A name that starts with sim: is a simulated drive on virtual \
                 time, whose parameters are joined by +, as in sim:capacity=64GiB+read-us=80; simulated and real \
                 drives do not mix in one test. With file-size-mbytes the names are those of files.",
    }
    "file-size-mbytes" => file_size_mbytes: Option<u32> [
        unit: "MiB", kind: from(1, U32_MAX),
        default: OptionDefault::Unset { word: Some("0"), what: "the names are devices" }, tests: BOTH,
    ] {
        help: "Tests regular files of this size instead of devices.",
        advice: "Use it to try things out: results then include the file system. Direct I/O is used where the file \
                 system allows it.",
    }
    "service-threads" => service_threads: Option<u32> [
        kind: from(1, SERVICE_THREADS_MAX),
        default: OptionDefault::Unset { word: Some("0"), what: "up to 1024 a device, as queue and memory allow" },
        tests: BOTH,
    ] {
        help: "Maximum number of client operations in flight, over all devices: record operations, or index reads in \
               the index test.",
        advice: "Set it to model a database with that many threads: operations then wait for a free slot, and that \
                 wait is judged. ACT's default, 5 for each CPU, is not used, because it limits the load before the \
                 drive does.",
    }
    "cache-threads" => cache_threads: u32 [
        kind: from(1, SERVICE_THREADS_MAX), default: OptionDefault::Value("8"), tests: INDEX,
    ] {
        help: "Maximum number of page updates in flight, over all devices. An update reads 4 KiB, then writes 4 KiB.",
        advice: "Models the threads that do the device I/O behind a mapped index. A drive that is too slow for \
                 these threads falls behind by more than max-lag-sec, which stops the test.",
    }
    "test-duration-sec" => test_duration_sec: u32 [
        unit: "s", kind: from(1, U32_MAX), default: OptionDefault::Mandatory("86400"), tests: BOTH,
    ] {
        help: "How long the load runs.",
        advice: "Only a test of one day (86400) certifies; a shorter test is called a screening.",
    }
    "report-interval-sec" => report_interval_sec: u32 [
        unit: "s", kind: from(1, U32_MAX), default: OptionDefault::Value("1"), tests: BOTH,
    ] {
        help: "Time between two reports in the log.",
        advice: "A later analysis cannot have a finer resolution. Raise this time only if the log of a long run gets \
                 too large.",
    }
    "microsecond-histograms" => microsecond_histograms: bool [
        kind: OptionKind::YesNo, default: OptionDefault::Value("no"), tests: BOTH,
    ] {
        help: "Counts the log's histograms in microseconds instead of milliseconds.",
        advice: "Use it for drives whose reads all end within a millisecond. The verdict is exact either way.",
    }
    "read-reqs-per-sec" => read_reqs_per_sec: u32 [unit: "requests/s", tests: BOTH] {
        help: "Records that clients read, over all devices.",
        advice: "2000 for each device is the load called 1x. This and write-reqs-per-sec cannot both be 0.",
    }
    "write-reqs-per-sec" => write_reqs_per_sec: u32 [unit: "requests/s", tests: BOTH] {
        help: "Records that clients write, over all devices; they become large-block reads and writes (in the index \
        test: index reads and page updates).",
        advice: "1000 for each device is the load called 1x.",
    }
    "record-bytes" => record_bytes: u32 [
        unit: "bytes", kind: from(0, RECORD_BYTES_MAX), default: OptionDefault::Value("1536"),
    ] {
        help: "Size of a record, or of the smallest record if record-bytes-range-max is set.",
        advice: "Take the size of the database's records on the device. A stored record is rounded up to a multiple \
                 of 16 bytes, and a read to the device's minimum I/O size. A stored record has to fit into a large \
                 block. 0 is allowed only with storage-read-histogram or storage-write-histogram, which then give \
                 the sizes.",
    }
    "record-bytes-range-max" => record_bytes_range_max: u32 [unit: "bytes", kind: from(0, RECORD_BYTES_MAX)] {
        help: "Size of the largest record; sizes are then uniformly distributed from record-bytes to this.",
        advice: "0 makes all records the same size. Any other value has to be larger than record-bytes.",
    }
    "large-block-op-kbytes" => large_block_op_kbytes: u32 [
        unit: "KiB", kind: OptionKind::Whole { min: 1, max: LARGE_BLOCK_KBYTES_MAX, power_of_two: true },
        default: OptionDefault::Value("128"),
    ] {
        help: "Size of the blocks in which the database flushes and defragments.",
        advice: "Take the database's write-block size or flush size.",
    }
    // The maximum keeps every exact rate in 64 bits, and is far above the replication factor of any cluster.
    "replication-factor" => replication_factor: u32 [
        kind: from(1, 1_000_000), default: OptionDefault::Value("1"), tests: BOTH,
    ] {
        help: "Copies of each record in the cluster: multiplies the writes that this node does.",
        advice: "Set it if write-reqs-per-sec is the rate of client writes to one node of a replicating cluster.",
    }
    "update-pct" => update_pct: u32 [unit: "%", kind: from(0, 100)] {
        help: "Share of the writes that read the record first.",
        advice: "The value 0 models writes that replace whole records; 100 models updates.",
    }
    "defrag-lwm-pct" => defrag_lwm_pct: u32 [
        unit: "%", kind: from(0, 99), default: OptionDefault::Value("50"), tests: BOTH,
    ] {
        help: "Defragmentation threshold: the traffic of large blocks, or of page updates, is multiplied by 100 / (100 - \
               this).",
        advice: "Take the database's defrag-lwm-pct. The value 50 doubles the writes, and 75 quadruples them; 0 means \
                 no defragmentation.",
    }
    "no-defrag-reads" => no_defrag_reads: bool [kind: OptionKind::YesNo, default: OptionDefault::Value("no")] {
        help: "Defragments without large-block reads.",
        advice: "For a database that keeps its data in memory and uses the device only as its backing.",
    }
    "compress-pct" => compress_pct: u32 [unit: "%", kind: from(0, 100), default: OptionDefault::Value("100")] {
        help: "Size to which the written data can be compressed, as a share of the original.",
        advice: "100 is random data. Lower it only if the drive compresses, and the data are known to be compressible.",
    }
    "disable-odsync" => disable_odsync: bool [kind: OptionKind::YesNo, default: OptionDefault::Value("no"), tests: BOTH] {
        help: "Opens the devices without O_DSYNC: a write counts as done before it is durable.",
        advice: "Use it only for a database that does the same. Not possible together with commit-to-device.",
    }
    "commit-to-device" => commit_to_device: bool [kind: OptionKind::YesNo, default: OptionDefault::Value("no")] {
        help: "Writes each record by itself instead of in large blocks, which then carry defragmentation only.",
        advice: "For a database that commits every record to the device before it answers.",
    }
    "tomb-raider" => tomb_raider: bool [kind: OptionKind::YesNo, default: OptionDefault::Value("no")] {
        help: "Reads each device from end to end, one large block at a time, throughout the test.",
        advice: "For a database that purges tombstones. Keep tomb-raider-sleep-usec above 0 to leave room for \
                 other operations.",
    }
    "tomb-raider-sleep-usec" => tomb_raider_sleep_usec: u32 [unit: "us"] {
        help: "Pause of the tomb raider between two large blocks.",
        advice: "ACT's README states a default of 1000, but its code uses 0, and so does flashproof. Take the database's \
                 tomb-raider-sleep.",
    }
    "max-lag-sec" => max_lag_sec: u32 [unit: "s", default: OptionDefault::Value("10"), tests: BOTH] {
        help: "Stops the test once a stream is this far behind its schedule.",
        advice: "The value 0 never stops the test. The run says at its end whether the drive or flashproof was slow.",
    }
    "commit-min-bytes" => commit_min_bytes: u32 [
        unit: "bytes", kind: OptionKind::Whole { min: 0, max: RECORD_BYTES_MAX, power_of_two: true }, since: Since::OldAct,
    ] {
        help: "Rounds the size and the offset of every commit write to a multiple of this.",
        advice: "The value 0, or a value below the device's minimum I/O size, rounds to that minimum. The key needs \
                 commit-to-device, and its value must not exceed a large block.",
    }
    "num-queues" => num_queues: Option<u32> [
        kind: from(1, U32_MAX), default: OptionDefault::Unset { word: None, what: "service-threads decides" },
        since: Since::OldAct, tests: BOTH,
    ] {
        help: "Becomes service-threads: num-queues x threads-per-queue.",
        advice: "Write service-threads instead; it takes precedence if both are given.",
    }
    "threads-per-queue" => threads_per_queue: Option<u32> [
        kind: from(1, U32_MAX), default: OptionDefault::Unset { word: None, what: "service-threads decides" },
        since: Since::OldAct, tests: BOTH,
    ] {
        help: "Becomes service-threads: num-queues x threads-per-queue.",
        advice: "Write service-threads instead; it takes precedence if both are given.",
    }
    "scheduler-mode" => scheduler_mode: String [
        kind: OptionKind::Word, default: OptionDefault::Unset { word: None, what: "the scheduler is not changed" },
        since: Since::OldAct, tests: BOTH,
    ] {
        help: "Ignored: the I/O scheduler of the device is recorded, never changed.",
        advice: "Set the scheduler with a udev rule, or write to /sys/block/NAME/queue/scheduler before the run.",
    }
    "storage-read-histogram" => storage_read_histogram: Option<SizeHistogram> [
        unit: "%", kind: OptionKind::Histogram,
        default: OptionDefault::Unset { word: None, what: "record-bytes gives the sizes" }, since: Since::Paper,
    ] {
        help: "Sizes of record reads as a live database counted them: the share over 1, 2, 4, ... bytes.",
        advice: "Take the averages of the database's device-read-size histogram, up to the first 0, \
                 and set read-reqs-per-sec to the operations per second of that histogram. Set record-bytes to 0 or leave \
                 it out.",
    }
    "storage-write-histogram" => storage_write_histogram: Option<SizeHistogram> [
        unit: "%", kind: OptionKind::Histogram,
        default: OptionDefault::Unset { word: None, what: "record-bytes gives the sizes" }, since: Since::Paper,
    ] {
        help: "Sizes of record writes, in the form of storage-read-histogram. The rate of large-block writes follows \
               from their mean.",
        advice: "Take the averages of the device-write-size histogram, and set write-reqs-per-sec to the operations \
                 per second of that histogram. These sizes and this rate already include replication, update reads \
                 and defragmentation, so leave replication-factor, update-pct and defrag-lwm-pct at their defaults.",
    }
    "total-lbw-per-sec" => total_lbw_per_sec: u32 [unit: "blocks/s", since: Since::Paper] {
        help: "Large blocks that the live database writes, including defragmentation and direct-frees.",
        advice: "Take it from the drv_ssd line of the database's log. It has no effect without direct-frees.",
    }
    "direct-frees" => direct_frees: u32 [unit: "blocks/s", since: Since::Paper] {
        help: "Large blocks freed without defragmentation. Large-block reads shrink by the share of these blocks in \
        total-lbw-per-sec.",
        advice: "Take it from the drv_ssd detail line of the log, at the same time as total-lbw-per-sec.",
    }
    "lbr-req-offset" => lbr_req_offset: u32 [
        unit: "%", kind: from(1, REQ_OFFSET_PCT_MAX), default: OptionDefault::Value("100"), since: Since::Paper,
    ] {
        help: "Multiplies the large-block reads of a histogram load; 100 leaves them as they are.",
        advice: "Use it to match the large-block reads observed on the live database's device.",
    }
    "lbw-req-offset" => lbw_req_offset: u32 [
        unit: "%", kind: from(1, REQ_OFFSET_PCT_MAX), default: OptionDefault::Value("100"), since: Since::Paper,
    ] {
        help: "Multiplies the large-block writes of a histogram load, but not the large-block reads.",
        advice: "Use it to match the writes per second that iostat shows on the live database's device.",
    }
    "read-size-offset" => read_size_offset: u32 [
        unit: "%", kind: from(1, SIZE_OFFSET_PCT_MAX), default: OptionDefault::Value("100"), since: Since::Paper,
    ] {
        help: "Multiplies the sizes drawn from storage-read-histogram.",
        advice: "Use it to match the bytes read per second. Buckets are powers of two, so the right value is between 50 and 200.",
    }
    "write-size-offset" => write_size_offset: u32 [
        unit: "%", kind: from(1, SIZE_OFFSET_PCT_MAX), default: OptionDefault::Value("100"), since: Since::Paper,
    ] {
        help: "Multiplies the sizes of storage-write-histogram, and so the rates of large-block reads and writes.",
        advice: "Use it before lbr-req-offset and lbw-req-offset if large-block reads and writes are off by the same factor.",
    }
    "size-within-bucket" => size_within_bucket: SizeWithinBucket [
        kind: OptionKind::Choice(SizeWithinBucket::WORDS), default: OptionDefault::Value("paper"), since: Since::Flashproof,
    ] {
        help: "Position of a size in its bucket of a histogram.",
        advice: "paper puts reads at the lower edge and writes at the upper edge, which reproduces the sizing \
                 paper's own results. lower puts both at the lower edge, upper puts both at the upper edge. uniform \
                 and log-uniform spread sizes over the bucket; with log-uniform, smaller sizes are more likely. \
                 docs/method.md compares them.",
    }
    "arrival" => arrival: Arrival [
        kind: OptionKind::Choice(Arrival::WORDS), default: OptionDefault::Value("paced"), since: Since::Flashproof, tests: BOTH,
    ] {
        help: "How the start times of operations are scheduled.",
        advice: "paced spaces operations evenly on each device. poisson models many independent clients. act repeats \
                 ACT 6's own pacing, for comparison with ACT's results. closed gives record operations no rate: it \
                 keeps as many of them in flight as service-threads says, by default 32 for each device. Large \
                 blocks then stay paced.",
    }
    "pacing" => pacing: Pacing [
        kind: OptionKind::Choice(Pacing::WORDS), default: OptionDefault::Value("sleep"), since: Since::Flashproof, tests: BOTH,
    ] {
        help: "How an issuing thread waits for the next operation.",
        advice: "spin costs a whole core for each issuing thread and issues within microseconds of the schedule.",
    }
    "engine" => engine: Engine [
        kind: OptionKind::Choice(Engine::WORDS), default: OptionDefault::Value("auto"), since: Since::Flashproof, tests: BOTH,
    ] {
        help: "Interface through which operations reach the kernel.",
        advice: "auto takes io_uring. If io_uring is forbidden, as in most containers, auto takes Linux AIO \
                 (io_submit). If AIO is not possible either, auto takes threads that block. The run names the \
                 interface that it uses. uring and aio refuse to run without their interface. passthrough sends NVMe \
                 commands to the namespace's character device (/dev/ng0n1), bypassing the block layer: it needs root, \
                 and returns the drive's own errors (docs/fdp.md). Simulated drives need no interface.",
    }
    "seed" => seed: Option<u64> [
        kind: from(0, u64::MAX), default: OptionDefault::Unset { word: None, what: "chosen at the start and recorded" },
        since: Since::Flashproof, tests: BOTH,
    ] {
        help: "Seed of all random choices.",
        advice: "Give the seed of an earlier run to repeat its offsets, sizes and data; a run on simulated drives \
                 alone is repeated exactly.",
    }
    "large-block-concurrency" => large_block_concurrency: u32 [
        kind: from(1, 1024), default: OptionDefault::Value("1"), since: Since::Flashproof,
    ] {
        help: "Maximum number of large-block reads, and of large-block writes, in flight on each device.",
        advice: "ACT does one at a time. Raise it when the database flushes from several threads.",
    }
    "shards" => shards: Option<u32> [
        kind: from(1, 1024),
        default: OptionDefault::Unset { word: Some("0"), what: "as many as the load needs and the CPUs allow" },
        since: Since::Flashproof, tests: BOTH,
    ] {
        help: "Number of issuing threads.",
        advice: "Raise it if the run says that flashproof was slow, and cores are idle.",
    }
}

impl std::default::Default for ActConfig {
    fn default() -> Self {
        Self::new(Test::default())
    }
}

impl ActConfig {
    /// The row of a key of this test, and the field that the key sets.
    pub(super) fn setting(&self, key: &str) -> Option<(&'static OptionSpec, &dyn OptionField)> {
        Some((find(self.test, key)?, self.field(key)?))
    }

    pub(super) fn setting_mut(
        &mut self,
        key: &str,
    ) -> Option<(&'static OptionSpec, &mut dyn OptionField)> {
        Some((find(self.test, key)?, self.field_mut(key)?))
    }
}

pub(crate) fn all() -> impl Iterator<Item = &'static OptionSpec> {
    TABLE.iter()
}

/// The options that `test` reads: ACT's in the order in which ACT prints them, then flashproof's.
pub fn options_of(test: Test) -> impl Iterator<Item = &'static OptionSpec> {
    TABLE.iter().filter(move |spec| spec.tests.contains(&test))
}

pub fn find(test: Test, name: &str) -> Option<&'static OptionSpec> {
    options_of(test).find(|spec| spec.name == name)
}

/// The option most similar to `unknown`, as [`similar`] finds it. Case and `_` for `-` do not count as differences.
pub fn nearest(test: Test, unknown: &str) -> Option<&'static str> {
    similar(
        &unknown.to_lowercase().replace('_', "-"),
        options_of(test).map(|spec| spec.name),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_key_gets_a_suggestion_and_nonsense_gets_none() {
        let near = |name| nearest(Test::Storage, name);
        assert_eq!(near("recod-bytes"), Some("record-bytes"));
        assert_eq!(near("read_reqs_per_sec"), Some("read-reqs-per-sec"));
        assert_eq!(near("Test-Duration-Sec"), Some("test-duration-sec"));
        assert_eq!(near("device-name"), Some("device-names"));
        assert_eq!(near("write-reqs"), Some("write-reqs-per-sec"));
        assert_eq!(near("defrag-lwm"), Some("defrag-lwm-pct"));
        assert_eq!(near("bananas"), None);
        assert_eq!(near("x"), None);
        assert_eq!(near(&"y".repeat(5000)), None);
    }

    #[test]
    fn names_are_unique_and_texts_are_one_line() {
        let mut names: Vec<_> = TABLE.iter().map(|spec| spec.name).collect();
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]));
        for spec in TABLE {
            assert!(
                !spec.help.is_empty() && !spec.help.contains('\n'),
                "{}",
                spec.name
            );
            assert!(
                !spec.advice.is_empty() && !spec.advice.contains('\n'),
                "{}",
                spec.name
            );
            assert!(!spec.tests.is_empty(), "{}", spec.name);
        }
    }

    #[test]
    fn a_new_configuration_has_the_defaults_of_the_table_and_accepts_its_examples() {
        for test in Test::ALL {
            for spec in options_of(test) {
                let mut config = ActConfig::new(test);
                let (_, setting) = config
                    .setting(spec.name)
                    .unwrap_or_else(|| panic!("{}", spec.name));
                match spec.default {
                    OptionDefault::Mandatory(example) => {
                        assert!(setting.check(spec).is_err(), "{}", spec.name);
                        spec.set(config.field_mut(spec.name).unwrap(), example)
                            .unwrap();
                    }
                    OptionDefault::Value(text) => {
                        assert_eq!(setting.text().as_deref(), Some(text), "{}", spec.name)
                    }
                    OptionDefault::Unset { .. } => {
                        assert_eq!(setting.text(), None, "{}", spec.name)
                    }
                }
            }
        }
    }
}
