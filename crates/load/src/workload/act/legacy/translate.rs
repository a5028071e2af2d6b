//! The rules that translate the lines of an old file to the current format.
//!
//! Each rule is a function of the [`Lines`] that replaces lines and records why. Differences between releases are
//! stated where they matter; the source is each release's own code.

use super::super::act_keys;
use super::super::dialect::{Quoted, device_names};
use super::super::options::{Default, OptionSpec, Test};
use super::super::problem::Problem;
use super::super::table::{SERVICE_THREADS_MAX, all, nearest, options_of};
use super::change::Change;
use super::lines::Lines;

const KIB: u64 = 1024;
/// Step of a record as ACT 3 and 4 stored it. Source: `RBLOCK_SIZE` of ACT 4's `configuration.c`.
const STEP_BYTES: u32 = 128;
/// Requests in the queues that stopped ACT 1 to 4, and by default ACT 5.
const QUEUED_MAX: u32 = 100_000;
/// Threads for each queue by default. Source: ACT 5, `cfg_storage.c`.
const ACT5_THREADS_PER_QUEUE: u32 = 4;
/// Service threads for each CPU by default. Source: ACT 6, `cfg_storage.c`.
const ACT6_THREADS_PER_CPU: u32 = 5;

/// A change and the current key at which it is reported.
type Changes = Vec<(&'static str, Change)>;

/// Makes the file of ACT `act` one of today.
pub(super) fn translate(lines: &mut Lines, test: Test, act: u8, cpus: Option<u32>) -> Changes {
    let mut changes = Changes::new();
    if act >= 6 {
        default_threads(lines, act, ACT6_THREADS_PER_CPU, cpus, &mut changes);
        return changes;
    }
    drop_unknown(lines, test, act, &mut changes);
    if act <= 4 {
        ask_for(lines, act);
    }
    if act <= 2 {
        large_blocks(lines, &mut changes);
        write_buffers(lines, &mut changes);
    }
    if act == 5 {
        request_threads(lines, &mut changes);
        cache_threads(lines, &mut changes);
        lag_limit(lines, &mut changes);
    }
    threads(lines, act, cpus, &mut changes);
    if act == 3 || act == 4 {
        stored_sizes(lines, &mut changes);
    }
    if act <= 4 {
        odsync(lines, &mut changes);
    }
    queue_limit(lines, act, &mut changes);
    leftovers(lines, &mut changes);
    changes
}

/// ACT 1 to 5 went on after a key that they did not know.
///
/// Keys that no ACT had and flashproof has were added for flashproof, and stay.
fn drop_unknown(lines: &mut Lines, test: Test, act: u8, changes: &mut Changes) {
    let absent: Vec<_> = options_of(test).map(|spec| spec.name).filter(|name| !lines.has(name)).collect();
    let meant = |key: &str| nearest(test, key).filter(|near| absent.contains(near));
    let unknown = |key: &str| match act_keys::find(key) {
        Some(of_act) => !of_act.known_to(act),
        // Without its intended key there is no test: the parser reports both.
        None => !all().any(|spec| spec.name == key) && !meant(key).is_some_and(|key| is_asked_for(key, act)),
    };
    for (key, value) in lines.take_all(unknown) {
        let meant = if act_keys::find(&key).is_some() { None } else { meant(&key) };
        changes.push(("", Change::Ignored { key: Quoted::new(&key), value: Quoted::new(&value), act, meant }));
    }
}

/// Keys without a default in ACT 1 to 4, each with an example.
const ASKED_FOR: [(&str, &str); 7] = [
    ("num-queues", "8"),
    ("threads-per-queue", "8"),
    ("report-interval-sec", "1"),
    ("large-block-op-kbytes", "128"),
    ("record-bytes", "1536"),
    ("read-req-num-512-blocks", "3"),
    ("large-block-ops-per-sec", "24"),
];

/// True if a file of ACT `act` must have `key`.
fn is_asked_for(key: &str, act: u8) -> bool {
    let mandatory = |spec: &OptionSpec| spec.name == key && matches!(spec.default, Default::Mandatory(_));
    act <= 4 && ASKED_FOR.iter().any(|(asked, _)| *asked == key) && known(key, act) || all().any(mandatory)
}

fn known(key: &str, act: u8) -> bool {
    act_keys::find(key).is_some_and(|key| key.known_to(act))
}

fn ask_for(lines: &mut Lines, act: u8) {
    let own_queues = lines.value("queue-per-device") == Some("yes");
    for (key, example) in ASKED_FOR {
        if known(key, act) && !lines.has(key) && !(key == "num-queues" && own_queues) {
            lines.problem(None, Problem::MissingKey { key, example });
        }
    }
}

/// ACT 1 and 2 only had large-block writes, with a configured rate.
fn large_blocks(lines: &mut Lines, changes: &mut Changes) {
    let read = lines.take_number("read-req-num-512-blocks", 1);
    let record_bytes = read.map(|(_, blocks)| u64::from(blocks) * 512);
    if let (Some((line, blocks)), Some(bytes)) = (read, record_bytes) {
        lines.put(line, "record-bytes", bytes);
        changes.push(("record-bytes", Change::RecordFromBlocks(blocks)));
    }
    let Some((line, rate)) = lines.take_number("large-block-ops-per-sec", 1) else { return };
    let block_bytes = lines.number("large-block-op-kbytes").map_or(0, |kbytes| u64::from(kbytes) * KIB);
    // No whole record in a block is a mistake that the parser names; the rate is then of no matter.
    let per_block = record_bytes.map_or(0, |record_bytes| block_bytes / record_bytes).max(1);
    // Too many for any configuration is the parser's to name, with all its digits.
    let records = u128::from(rate) * u128::from(per_block);
    let (lwm_pct, writes) = if records.is_multiple_of(2) { (50, records / 2) } else { (0, records) };
    lines.put(line, "write-reqs-per-sec", writes);
    lines.add("defrag-lwm-pct", lwm_pct);
    let per_block = u32::try_from(per_block).unwrap_or(u32::MAX);
    changes.push(("write-reqs-per-sec", Change::WritesFromLargeBlocks { rate, per_block, lwm_pct }));
}

/// ACT 1 and 2 wrote zeros, or a few random blocks over and over.
fn write_buffers(lines: &mut Lines, changes: &mut Changes) {
    let given = lines.has("num-write-buffers");
    match lines.take_number("num-write-buffers", 0) {
        Some((line, 0)) => {
            lines.put(line, "compress-pct", 0);
            changes.push(("compress-pct", Change::WroteZeros { given }));
        }
        Some((_, buffers)) => changes.push(("compress-pct", Change::RandomBuffers(buffers))),
        None if given => {}
        None => {
            lines.add("compress-pct", 0);
            changes.push(("compress-pct", Change::WroteZeros { given }));
        }
    }
}

/// ACT 5's `service-threads` made requests; since 6.0 the name means the threads that carry them out.
fn request_threads(lines: &mut Lines, changes: &mut Changes) {
    if let Some((_, value)) = lines.take("service-threads") {
        changes.push(("service-threads", Change::RequestThreads(Quoted::new(&value))));
    }
}

/// The name `num-cache-threads` existed in 5.0 only.
fn cache_threads(lines: &mut Lines, changes: &mut Changes) {
    if let Some((line, value)) = lines.take("num-cache-threads") {
        lines.put(line, "cache-threads", value);
        changes.push(("cache-threads", Change::Renamed("num-cache-threads")));
    }
}

/// In ACT 5 a limit of 0 stopped at the first lag; from 6.0 on it is no limit.
fn lag_limit(lines: &mut Lines, changes: &mut Changes) {
    if lines.number("max-lag-sec") == Some(0) {
        lines.change("max-lag-sec", 1);
        changes.push(("max-lag-sec", Change::NoLagAllowed));
    }
}

/// Queues and their threads, which ACT 1 to 5 had, become service threads.
fn threads(lines: &mut Lines, act: u8, cpus: Option<u32>, changes: &mut Changes) {
    let per_device = lines.take_flag("queue-per-device");
    let (has_queues, has_threads) = (lines.has("num-queues"), lines.has("threads-per-queue"));
    let queues = lines.take_number("num-queues", 1);
    let threads = lines.take_number("threads-per-queue", 1);
    if let Some((_, true)) = per_device {
        let names = lines.value("device-names").map(|names| device_names(names).count());
        let devices = names.and_then(|count| u32::try_from(count).ok()).unwrap_or(0);
        if let Some((line, threads)) = threads {
            changes.push(("service-threads", Change::QueuePerDevice { devices, threads }));
            product(lines, line, devices, threads);
        }
        return;
    }
    if let Some((_, false)) = per_device {
        changes.push(("", dropped("queue-per-device", "no", "there are no queues")));
    }
    match (queues, threads) {
        (Some((line, queues)), Some((_, threads))) => {
            changes.push(("service-threads", Change::QueuesToThreads { queues, threads }));
            product(lines, line, queues, threads);
        }
        (Some((line, queues)), None) if act == 5 && !has_threads => {
            changes.push(("service-threads", Change::QueuesToThreads { queues, threads: ACT5_THREADS_PER_QUEUE }));
            product(lines, line, queues, ACT5_THREADS_PER_QUEUE);
        }
        (None, threads) if act == 5 && !has_queues && threads.is_some() == has_threads => {
            let threads = threads.map_or(ACT5_THREADS_PER_QUEUE, |(_, threads)| threads);
            default_threads(lines, act, threads, cpus, changes);
        }
        // Missing or wrong, and reported.
        _ => {}
    }
}

fn product(lines: &mut Lines, line: usize, queues: u32, threads: u32) {
    match queues.checked_mul(threads).filter(|product| u64::from(*product) <= SERVICE_THREADS_MAX) {
        Some(product) => lines.put(line, "service-threads", product),
        None => lines.problem(Some(line), Problem::TooManyQueueThreads { queues, threads, most: SERVICE_THREADS_MAX }),
    }
}

/// Threads that were left to the number of CPUs.
fn default_threads(lines: &mut Lines, act: u8, threads_per_cpu: u32, cpus: Option<u32>, changes: &mut Changes) {
    // 0 means "not given".
    if lines
        .value("service-threads")
        .is_some_and(|value| lines.number("service-threads") != Some(0) || value.is_empty())
    {
        return;
    }
    let change = match cpus {
        Some(cpus) => {
            lines.take("service-threads");
            lines.add("service-threads", u64::from(cpus) * u64::from(threads_per_cpu));
            Change::ThreadsForCpus { act, threads_per_cpu, cpus }
        }
        None => Change::ThreadsByCpu { act, threads_per_cpu },
    };
    changes.push(("service-threads", change));
}

/// ACT 3 and 4 stored records in larger steps; the same step today gives the same large blocks, and the
/// same reads, because sectors are multiples of it.
fn stored_sizes(lines: &mut Lines, changes: &mut Changes) {
    let stored = |bytes: u32| bytes.checked_next_multiple_of(STEP_BYTES).unwrap_or(bytes);
    let (min, max) = (lines.number("record-bytes"), lines.number("record-bytes-range-max"));
    if let Some(bytes) = min.filter(|bytes| stored(*bytes) != *bytes) {
        lines.change("record-bytes", stored(bytes));
        changes.push(("record-bytes", Change::RoundedTo128(bytes)));
    }
    match (min, max) {
        (Some(min), Some(max)) if max > min && stored(min) == stored(max) => {
            lines.change("record-bytes-range-max", 0);
            changes.push(("record-bytes-range-max", Change::RangeClosed(max)));
        }
        // A range that goes down is the parser's to report, as it was written.
        (Some(min), Some(max)) if max > min && stored(max) != max => {
            lines.change("record-bytes-range-max", stored(max));
            changes.push(("record-bytes-range-max", Change::RoundedTo128(max)));
        }
        _ => {}
    }
}

/// `O_DSYNC` came with ACT 5.0.
fn odsync(lines: &mut Lines, changes: &mut Changes) {
    if lines.value("commit-to-device") == Some("yes") {
        changes.push(("commit-to-device", Change::CommitsNowDurable));
    } else {
        lines.add("disable-odsync", "yes");
        changes.push(("disable-odsync", Change::WithoutOdsync));
    }
}

/// ACT 1 to 5 stopped when too many requests were waiting.
fn queue_limit(lines: &mut Lines, act: u8, changes: &mut Changes) {
    let given = lines.has("max-reqs-queued");
    let limit = lines.take_number("max-reqs-queued", 0).map(|(_, limit)| limit);
    if let Some(limit) = limit.or((!given).then_some(QUEUED_MAX)) {
        changes.push(("max-lag-sec", Change::QueueLimit { limit, act }));
    }
}

/// Drops keys that did not affect the load.
fn leftovers(lines: &mut Lines, changes: &mut Changes) {
    if let Some((_, value)) = lines.take("use-valloc") {
        changes.push(("", dropped("use-valloc", &value, "it chose how ACT allocated memory")));
    }
    let left_alone = "the I/O scheduler is recorded and left alone; set it in /sys/block/NAME/queue/scheduler";
    match lines.take("scheduler-mode") {
        Some((_, value)) => changes.push(("", dropped("scheduler-mode", &value, left_alone))),
        None => changes.push(("", Change::SchedulerWasNoop)),
    }
}

fn dropped(key: &'static str, value: &str, why: &'static str) -> Change {
    Change::Dropped { key, value: Quoted::new(value), why }
}
