//! The rules that translate the lines of an old file to the current format.
//!
//! Each rule is a function that replaces some of the [`LegacyLines`] and records why. Differences between releases are
//! stated where they matter; the source is each release's own code.

use super::super::act_keys;
use super::super::config::threads_of_queues;
use super::super::dialect::{KeyLine, device_names};
use super::super::options::{OptionDefault, OptionKind, OptionSpec, Test};
use super::super::problem::ConfigProblem;
use super::super::table::{all, nearest, options_of};
use super::lines::LegacyLines;
use results::format::bare_start;

const KIB: u64 = 1024;
/// Step of the size of a record as stored by ACT 3 and 4. Source: `RBLOCK_SIZE` of ACT 4's `configuration.c`.
const STEP_BYTES: u32 = 128;
/// ACT 1 to 4 stopped at this queue length. In ACT 5 the same length was the default of a key.
const QUEUED_MAX: u32 = 100_000;
/// Threads for each queue by default. Source: ACT 5, `cfg_storage.c`.
const ACT5_THREADS_PER_QUEUE: u32 = 4;
/// Service threads for each CPU by default. Source: ACT 6, `cfg_storage.c`.
const ACT6_THREADS_PER_CPU: u32 = 5;

pub(super) fn translate(lines: &mut LegacyLines, test: Test, act: u8, cpus: Option<u32>) {
    if act >= 6 {
        return default_threads(lines, act, ACT6_THREADS_PER_CPU, cpus);
    }
    drop_unknown(lines, test, act);
    report_missing(lines, act);
    if act <= 2 {
        large_blocks(lines);
        write_buffers(lines);
    }
    if act == 5 {
        request_threads(lines);
        cache_threads(lines);
        lag_limit(lines);
    }
    threads(lines, act, cpus);
    if act == 3 || act == 4 {
        stored_sizes(lines);
    }
    if act <= 4 {
        odsync(lines);
    }
    queue_limit(lines, act);
    leftovers(lines);
}

/// ACT 1 to 5 ignored keys that they did not know. Keys of flashproof that no ACT had were added for flashproof, and
/// stay. If a mandatory key is missing, unknown keys stay, too: the file may be of another program, and the parser then
/// reports these keys first.
fn drop_unknown(lines: &mut LegacyLines, test: Test, act: u8) {
    let lacks_mandatory_key = !missing(lines, act).is_empty();
    let absent: Vec<_> = options_of(test)
        .map(|spec| spec.name)
        .filter(|name| !lines.has(name))
        .collect();
    let suggestion_for = |key: &str| nearest(test, key).filter(|near| absent.contains(near));
    let dropped = lines.take_all(|key| match act_keys::find(key) {
        Some(of_act) => !of_act.known_to(act),
        // A misspelt mandatory key stays: the parser reports the misspelt key and the missing key.
        None if lacks_mandatory_key => false,
        None => {
            !all().any(|spec| spec.name == key)
                && !suggestion_for(key).is_some_and(|key| is_mandatory(key, act))
        }
    });
    for KeyLine { key, value, .. } in dropped {
        let suggestion = if act_keys::find(&key).is_some() {
            None
        } else {
            suggestion_for(&key)
        };
        let suggestion = suggestion
            .map(|meant| format!("; if {meant} was meant, set that"))
            .unwrap_or_default();
        let change =
            format!("was dropped: ACT {act} did not know that key and ignored it{suggestion}");
        lines.changed(
            "",
            format!("{}: {} {change}", bare_start(&key), bare_start(&value)),
        );
    }
}

/// Keys without a default in ACT 1 to 4, each with an example.
const MANDATORY_UNTIL_ACT4: [(&str, &str); 7] = [
    ("num-queues", "8"),
    ("threads-per-queue", "8"),
    ("report-interval-sec", "1"),
    ("large-block-op-kbytes", "128"),
    ("record-bytes", "1536"),
    ("read-req-num-512-blocks", "3"),
    ("large-block-ops-per-sec", "24"),
];

fn is_mandatory(key: &str, act: u8) -> bool {
    let mandatory =
        |spec: &OptionSpec| spec.name == key && matches!(spec.default, OptionDefault::Mandatory(_));
    act <= 4 && MANDATORY_UNTIL_ACT4.iter().any(|(asked, _)| *asked == key) && known(key, act)
        || all().any(mandatory)
}

fn known(key: &str, act: u8) -> bool {
    act_keys::find(key).is_some_and(|key| key.known_to(act))
}

fn missing(lines: &LegacyLines, act: u8) -> Vec<(&'static str, &'static str)> {
    let own_queues = lines.value("queue-per-device") == Some("yes");
    let is_missing =
        |key: &str| known(key, act) && !lines.has(key) && !(key == "num-queues" && own_queues);
    MANDATORY_UNTIL_ACT4
        .into_iter()
        .filter(|(key, _)| act <= 4 && is_missing(key))
        .collect()
}

fn report_missing(lines: &mut LegacyLines, act: u8) {
    for (key, example) in missing(lines, act) {
        lines.problem(None, ConfigProblem::MissingKey { key, example });
    }
}

/// ACT 1 and 2 had a configured rate of large-block writes, and no rate of record writes.
fn large_blocks(lines: &mut LegacyLines) {
    let read_size = lines.take_number("read-req-num-512-blocks", 1);
    let record_bytes = read_size.map(|(_, blocks)| u64::from(blocks) * 512);
    if let (Some((line, blocks)), Some(bytes)) = (read_size, record_bytes) {
        lines.put(line, "record-bytes", bytes);
        lines.changed(
            "record-bytes",
            format!("was read-req-num-512-blocks: {blocks}, in units of 512 bytes"),
        );
    }
    let Some((line, rate)) = lines.take_number("large-block-ops-per-sec", 1) else {
        return;
    };
    let block_bytes = lines
        .number("large-block-op-kbytes")
        .map_or(0, |kbytes| u64::from(kbytes) * KIB);
    // If no whole record fits a block, the parser reports that, and the rate does not matter.
    let records_per_block = record_bytes
        .map_or(0, |record_bytes| block_bytes / record_bytes)
        .max(1);
    // The parser reports a number that is too large for any configuration, with all its digits.
    let records = u128::from(rate) * u128::from(records_per_block);
    let (lwm_pct, writes) = if records.is_multiple_of(2) {
        (50, records / 2)
    } else {
        (0, records)
    };
    lines.put(line, "write-reqs-per-sec", writes);
    lines.add("defrag-lwm-pct", lwm_pct);
    let records_per_block = u32::try_from(records_per_block).unwrap_or(u32::MAX);
    let change = format!(
        "was large-block-ops-per-sec: {rate}; these writes fill large blocks at exactly this rate, with \
         {records_per_block} records in each and defrag-lwm-pct: {lwm_pct}"
    );
    lines.changed("write-reqs-per-sec", change);
}

/// ACT 1 and 2 wrote zeros, or a few random blocks over and over.
fn write_buffers(lines: &mut LegacyLines) {
    let zeros = |given: &str| {
        format!("replaces num-write-buffers: 0 ({given}), with which ACT 2 wrote zeros")
    };
    let is_given = lines.has("num-write-buffers");
    match lines.take_number("num-write-buffers", 0) {
        Some((line, 0)) => {
            lines.put(line, "compress-pct", 0);
            lines.changed("compress-pct", zeros("given"));
        }
        Some((_, buffers)) => {
            let change = format!(
                "num-write-buffers: {buffers} was dropped: ACT wrote that many random blocks over and over, today each write \
                 is random; only a drive that deduplicates shows a difference"
            );
            lines.changed("compress-pct", change);
        }
        None if is_given => {}
        None => {
            lines.add("compress-pct", 0);
            lines.changed("compress-pct", zeros("the default"));
        }
    }
}

/// ACT 5's `service-threads` made requests; since 6.0 the name means the threads that carry them out.
fn request_threads(lines: &mut LegacyLines) {
    if let Some((_, value)) = lines.take("service-threads") {
        let change = format!(
            "service-threads: {} of ACT 5 was dropped: it counted the threads that made requests; today \
             service-threads counts the threads that carry them out",
            bare_start(&value)
        );
        lines.changed("service-threads", change);
    }
}

/// The name `num-cache-threads` existed in 5.0 only.
fn cache_threads(lines: &mut LegacyLines) {
    if let Some((line, value)) = lines.take("num-cache-threads") {
        lines.put(line, "cache-threads", value);
        lines.changed("cache-threads", "was called num-cache-threads");
    }
}

/// In ACT 5 a limit of 0 stopped at the first lag; from 6.0 on, 0 means no limit.
fn lag_limit(lines: &mut LegacyLines) {
    if lines.number("max-lag-sec") == Some(0) {
        lines.change("max-lag-sec", 1);
        let change = "was 0, with which ACT 5 stopped at the first lag; today 0 means no limit and 1 s is the smallest \
                      limit, so the old limit cannot be kept";
        lines.changed("max-lag-sec", change);
    }
}

/// Queues and their threads, which ACT 1 to 5 had, become service threads.
fn threads(lines: &mut LegacyLines, act: u8, cpus: Option<u32>) {
    let per_device = lines.take_as("queue-per-device", OptionKind::YesNo);
    let has_queues = lines.has("num-queues");
    let has_threads = lines.has("threads-per-queue");
    let queues = lines.take_number("num-queues", 1);
    let threads = lines.take_number("threads-per-queue", 1);
    if let Some((_, true)) = per_device {
        let names = lines
            .value("device-names")
            .map(|names| device_names(names).count());
        let devices = names
            .and_then(|count| u32::try_from(count).ok())
            .unwrap_or(0);
        if let Some((line, threads)) = threads {
            let change = format!(
                "was queue-per-device: yes with {threads} threads for each of {devices} devices; today the limit is for \
                 all devices together, so a slow device can take more than its part: the old limit cannot be kept"
            );
            lines.changed("service-threads", change);
            put_service_threads(lines, line, devices, threads);
        }
        return;
    }
    if let Some((_, false)) = per_device {
        lines.changed("", dropped("queue-per-device", "no", "there are no queues"));
    }
    match (queues, threads) {
        (Some((line, queues)), Some((_, threads))) => {
            queues_to_threads(lines, line, queues, threads)
        }
        (Some((line, queues)), None) if act == 5 && !has_threads => {
            queues_to_threads(lines, line, queues, ACT5_THREADS_PER_QUEUE);
        }
        (None, threads) if act == 5 && !has_queues && threads.is_some() == has_threads => {
            let threads = threads.map_or(ACT5_THREADS_PER_QUEUE, |(_, threads)| threads);
            default_threads(lines, act, threads, cpus);
        }
        // A missing or wrong value was reported before.
        _ => {}
    }
}

fn queues_to_threads(lines: &mut LegacyLines, line: usize, queues: u32, threads: u32) {
    let change = format!(
        "was num-queues: {queues} x threads-per-queue: {threads}; ACT 6 dropped the queues"
    );
    lines.changed("service-threads", change);
    put_service_threads(lines, line, queues, threads);
}

fn put_service_threads(lines: &mut LegacyLines, line: usize, queues: u32, threads: u32) {
    match threads_of_queues(queues, threads) {
        Ok(product) => lines.put(line, "service-threads", product),
        Err(problem) => lines.problem(Some(line), problem),
    }
}

fn default_threads(lines: &mut LegacyLines, act: u8, threads_per_cpu: u32, cpus: Option<u32>) {
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
            lines.add(
                "service-threads",
                u64::from(cpus) * u64::from(threads_per_cpu),
            );
            format!("was the default of ACT {act}: {threads_per_cpu} per CPU, with {cpus} CPUs")
        }
        None => format!(
            "not given: ACT {act} takes {threads_per_cpu} threads for each CPU of its machine, but flashproof limits \
             the operations on each device instead - give --cpus N to write ACT's limit out"
        ),
    };
    lines.changed("service-threads", change);
}

/// ACT 3 and 4 stored records in larger steps. The same step today gives the same large blocks, and the same reads,
/// because sectors are multiples of the step.
fn stored_sizes(lines: &mut LegacyLines) {
    let stored = |bytes: u32| bytes.checked_next_multiple_of(STEP_BYTES).unwrap_or(bytes);
    let min = lines.number("record-bytes");
    let max = lines.number("record-bytes-range-max");
    if let Some(bytes) = min.filter(|bytes| stored(*bytes) != *bytes) {
        lines.change("record-bytes", stored(bytes));
        lines.changed("record-bytes", rounded_to_step(bytes));
    }
    // A descending range is not changed: the parser reports it.
    let (Some(min), Some(max)) = (min, max.filter(|max| min.is_some_and(|min| *max > min))) else {
        return;
    };
    if stored(min) == stored(max) {
        let change = format!(
            "was {max}: ACT 3 and 4 stored records in steps of 128 bytes, so all records had one size"
        );
        lines.change("record-bytes-range-max", 0);
        lines.changed("record-bytes-range-max", change);
    } else if stored(max) != max {
        lines.change("record-bytes-range-max", stored(max));
        lines.changed("record-bytes-range-max", rounded_to_step(max));
    }
}

fn rounded_to_step(bytes: u32) -> String {
    format!(
        "was {bytes}: ACT 3 and 4 stored records in steps of 128 bytes; the same step keeps the large blocks unchanged"
    )
}

/// `O_DSYNC` came with ACT 5.0.
fn odsync(lines: &mut LegacyLines) {
    if lines.value("commit-to-device") == Some("yes") {
        let change = "ACT 4 opened devices without O_DSYNC, but today commit-to-device: yes needs O_DSYNC; writes take longer, \
                      because they are durable when they complete";
        lines.changed("commit-to-device", change);
    } else {
        lines.add("disable-odsync", "yes");
        let change = "ACT 1 to 4 opened devices without O_DSYNC; remove this line for durable writes, as in ACT 5 \
                      and 6";
        lines.changed("disable-odsync", change);
    }
}

/// ACT 1 to 5 stopped when too many requests were waiting.
fn queue_limit(lines: &mut LegacyLines, act: u8) {
    let given = lines.has("max-reqs-queued");
    let limit = lines
        .take_number("max-reqs-queued", 0)
        .map(|(_, limit)| limit);
    if let Some(limit) = limit.or((!given).then_some(QUEUED_MAX)) {
        let change = format!(
            "ACT {act} stopped when {limit} requests were waiting in its queues; today a test stops when it is behind by \
             max-lag-sec, so the old limit cannot be kept"
        );
        lines.changed("max-lag-sec", change);
    }
}

/// Drops keys that did not affect the load.
fn leftovers(lines: &mut LegacyLines) {
    if let Some((_, value)) = lines.take("use-valloc") {
        lines.changed(
            "",
            dropped("use-valloc", &value, "it chose how ACT allocated memory"),
        );
    }
    let left_alone = "flashproof records the I/O scheduler and does not change it; set it in /sys/block/NAME/queue/scheduler";
    match lines.take("scheduler-mode") {
        Some((_, value)) => lines.changed("", dropped("scheduler-mode", &value, left_alone)),
        None => lines.changed(
            "",
            "ACT up to 6.4 set the I/O scheduler of the devices to noop by default; flashproof does not change it",
        ),
    }
}

fn dropped(key: &str, value: &str, why: &str) -> String {
    format!("{key}: {} was dropped: {why}", bare_start(value))
}
