//! All kinds of lines that a server logs about its devices and namespaces, and the effect of each kind on a profile.
//!
//! The table decides for the reader, for the profile's remarks and for docs/server-log.md. A line of a device or a
//! namespace that no row describes is reported as unknown. Source of the texts: drv_ssd.c, drv_mem.c, ticker.c,
//! storage.c, namespace.c and truncate.c of releases 4.0 to 8.1, and published logs of 3.8 and 3.9.

use super::text::{DETAIL_LINE, DRIVE_LINE, LogMessage};
use jiff::{SignedDuration, Timestamp};
use memchr::memmem::Finder;
use results::format::is_unprintable;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;
use std::sync::LazyLock;

/// Effect of a line on a profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Treatment {
    /// The line is read, for this purpose.
    Used(&'static str),
    /// The line is not read, for this reason.
    Ignored(&'static str),
    /// The profile has a remark with the times of such lines, and this text about their meaning.
    Named(&'static str),
}

use Treatment::{Ignored, Named, Used};

#[derive(Debug, Clone, Copy)]
pub struct LineKind {
    /// Source files of the server.
    pub files: &'static str,
    /// Text of this kind only, among lines that no earlier row describes. `*` separates two texts of one line.
    pub text: &'static str,
    /// Versions of the server that log the line.
    pub versions: &'static str,
    pub treatment: Treatment,
}

const DRV: &str = "drv_ssd.c drv_mem.c drv_ssd_ce.c drv_ssd_ee.c drv_mem_ce.c drv_mem_ee.c";
const PMEM: &str = "drv_pmem.c drv_pmem_ce.c drv_pmem_ee.c";

const fn kind(
    files: &'static str,
    text: &'static str,
    versions: &'static str,
    treatment: Treatment,
) -> LineKind {
    LineKind {
        files,
        text,
        versions,
        treatment,
    }
}

const START: Treatment = Ignored("a step of the server's start without I/O that matters");
const COMMAND: Treatment = Ignored("the answer to a command of the administrator");
const DEFECT: Treatment =
    Named("the device or its data is damaged: the load may not be the usual load");
const FULL: Treatment =
    Named("the device was full: defragmentation did not keep pace with the writes");
const COLD: Treatment =
    Named("a cold start reads the devices from end to end, and these reads are in no counter");
const COUNTED: Treatment = Ignored("the storage histograms count its reads and writes of records");
const NO_IO: Treatment = Ignored("no I/O of a device");

/// Text of a ticker line about a primary index on flash.
pub(crate) const FLASH_INDEX: &str = "} index-flash-usage: ";
/// The same line from server version 7.0 on; only an index on flash has allocated bytes.
pub(crate) const FLASH_INDEX_7: &str = " alloc-bytes ";
/// Text of a ticker line about secondary indexes on flash.
pub(crate) const FLASH_SINDEX: &str = "} sindex-flash-usage: ";
/// The same line from server version 7.0 on; only an index that is not in memory has a percentage.
pub(crate) const FLASH_SINDEX_7: &str = "} sindex-usage: *used-pct ";

const FLASH: Treatment =
    Used("names an index on flash, whose device needs an index test (NAMESPACE-index.conf)");
const FLASH_SECONDARY: Treatment =
    Used("names secondary indexes on flash, whose I/O the log does not count");
const TRUNCATED: Treatment = Named("a truncation freed blocks without the usual defragmentation");
const SWEPT: Treatment =
    Named("defragmentation read more blocks than usual, because of a sweep or a start");
const REFUSED: Treatment = Named(
    "the server refused writes because the device was too slow: the profile has only the writes that were done",
);
const IN_PMEM: Treatment = Named("the records are in persistent memory, which is no block device");
const USAGE: Treatment = Ignored(
    "drive lines have the used bytes; storage histograms count only reads that reached the device",
);
const MIGRATED: Treatment = Named(
    "partitions were migrated or appealed for: their reads and writes are part of the counted load",
);
const TRUNCATE: &str = "truncate.c truncate_ce.c truncate_ee.c";

/// The table. The first row whose text is in the line describes the line.
pub const KINDS: &[LineKind] = &[
    kind(
        DRV,
        DRIVE_LINE,
        "3.8 to 8.1",
        Used("blocks written, read and freed, by device; tomb-raider-read"),
    ),
    kind(
        DRV,
        DETAIL_LINE,
        "3.10 to 8.1",
        Used("blocks freed without a read, reads skipped, partial writes"),
    ),
    kind(
        DRV,
        " wblocks of size ",
        "3.8 to 8.1",
        Used("size of a write block"),
    ),
    kind(DRV, "reading device to load index", "4.0 to 8.1", COLD),
    kind(DRV, "reading shadow device ", "7.1 to 8.1", COLD),
    kind(DRV, "reading backing device ", "7.1 to 8.1", COLD),
    kind(DRV, ": read complete: UNIQUE ", "4.0 to 8.1", COLD),
    kind(
        DRV,
        "sindex sweep complete",
        "5.7 to 8.1",
        Named("secondary indexes were built by reading the whole device, in no counter"),
    ),
    kind(DRV, "sweep", "4.0 to 8.1", SWEPT),
    kind(DRV, "waiting for defrag", "4.0 to 5.2", SWEPT),
    kind(DRV, "wait-for-defrag", "5.7 to 8.1", SWEPT),
    kind(
        "drv_ssd.c storage.c",
        "queue too deep",
        "4.0 to 8.1",
        REFUSED,
    ),
    kind(DRV, "totally full", "5.2 to 8.1", FULL),
    kind(DRV, "out of space", "5.2 to 8.1", FULL),
    kind(DRV, "out of storage space", "4.0 to 8.1", FULL),
    kind(DRV, "read failed", "4.0 to 8.1", DEFECT),
    kind(DRV, "IO failed", "6.0 to 8.1", DEFECT),
    kind(DRV, "failed read", "6.4 to 8.1", DEFECT),
    kind(DRV, "seek failed", "4.0", DEFECT),
    kind(DRV, "CORRUPTED", "4.0", DEFECT),
    kind(DRV, "bad ", "4.0 to 8.1", DEFECT),
    kind(DRV, "DEVICE FAILED", "4.0 to 8.1", DEFECT),
    kind(DRV, "fd pool full", "5.7 to 8.1", NO_IO),
    kind(DRV, "WB: ", "6.4 to 8.1", COMMAND),
    kind(DRV, "WBH: ", "4.0 to 6.0", COMMAND),
    kind(DRV, "analyze wblock", "4.0", COMMAND),
    kind(DRV, " pfull ", "4.0 to 6.0", COMMAND),
    kind(DRV, "pre-dump", "3.8 to 3.16", COMMAND),
    kind(DRV, "cold-start-empty", "4.0 to 8.1", START),
    kind(DRV, "cold start evict-ttl", "4.0 to 4.5", START),
    kind(DRV, " init defrag profile: ", "4.0 to 8.1", START),
    kind(DRV, " init wblock", "4.0 to 8.1", START),
    kind(DRV, "rounding down", "3.8 to 8.1", START),
    kind(DRV, "usable size", "3.8 to 8.1", START),
    kind(DRV, "compatible with main device", "3.8 to 8.1", START),
    kind(DRV, "is initialized", "4.5 to 8.1", START),
    kind(DRV, "devices fresh", "3.8 to 8.1", START),
    kind(DRV, "fresh d", "4.5 to 8.1", START),
    kind(DRV, " is empty", "4.5 to 8.1", START),
    kind(DRV, "prior shutdown not clean", "4.5 to 8.1", START),
    kind(DRV, "} loaded", "4.0 to 8.1", START),
    kind(DRV, "free & defrag queues", "3.8 to 8.1", START),
    kind(DRV, "starting ", "3.8 to 8.1", START),
    kind(DRV, "storage version", "4.0", START),
    kind(DRV, "scheduler mode", "3.8 to 4.0", START),
    kind(DRV, "no devices", "4.0 to 4.5", START),
    kind(
        "namespace.c namespace_ce.c namespace_ee.c",
        "beginning cold start",
        "4.0 to 8.1",
        COLD,
    ),
    kind(PMEM, DRIVE_LINE, "4.8 to 8.1", IN_PMEM),
    kind(TRUNCATE, "truncating to ", "3.12 to 8.1", TRUNCATED),
    kind(TRUNCATE, "done truncate", "3.12 to 8.1", TRUNCATED),
    kind("ticker.c", FLASH_INDEX, "4.3 to 6.4", FLASH),
    kind("ticker.c", FLASH_SINDEX, "6.1 to 6.4", FLASH_SECONDARY),
    kind("ticker.c", FLASH_INDEX_7, "7.0 to 8.1", FLASH),
    kind("ticker.c", FLASH_SINDEX_7, "7.0 to 8.1", FLASH_SECONDARY),
    kind("ticker.c", "-pmem-usage: ", "4.5 to 6.4", NO_IO),
    kind("ticker.c", "} pmem-usage: ", "4.8 to 6.4", IN_PMEM),
    kind("ticker.c", "index-usage: ", "7.0 to 8.1", NO_IO),
    kind("ticker.c", "} memory-usage: ", "3.9 to 6.4", NO_IO),
    kind("ticker.c", "} device-usage: ", "3.9 to 6.4", USAGE),
    kind("ticker.c", "} data-usage: ", "7.0 to 8.1", USAGE),
    kind("ticker.c", "} migrations: complete", "3.9 to 8.1", NO_IO),
    kind(
        "ticker.c",
        "} migrations: remaining ",
        "3.9 to 8.1",
        MIGRATED,
    ),
    kind("ticker.c", "} appeals: ", "4.0 to 8.1", MIGRATED),
    kind("ticker.c", "} objects: ", "3.9 to 8.1", NO_IO),
    kind("ticker.c", "} tombstones: ", "3.10 to 8.1", NO_IO),
    kind("ticker.c", "} client: ", "3.9 to 8.1", COUNTED),
    kind("ticker.c", "} xdr-client: ", "3.9 to 8.1", COUNTED),
    kind("ticker.c", "from-proxy", "4.6 to 8.1", COUNTED),
    kind("ticker.c", "} batch-sub: ", "3.9 to 8.1", COUNTED),
    kind("ticker.c", "} scan: ", "3.9 to 5.7", COUNTED),
    kind("ticker.c", "query: ", "3.9 to 8.1", COUNTED),
    kind("ticker.c", "} udf-sub: ", "3.9 to 8.1", COUNTED),
    kind("ticker.c", "} ops-sub: ", "4.7 to 8.1", COUNTED),
    kind("ticker.c", "} dup-res: ", "5.5 to 8.1", COUNTED),
    kind("ticker.c", "} re-repl: ", "4.0 to 8.1", COUNTED),
    kind("ticker.c", "} read-touch: ", "7.1 to 8.1", COUNTED),
    kind("ticker.c", "} mrt-", "8.0 to 8.1", COUNTED),
    kind("ticker.c", "} retransmits: ", "3.10 to 8.1", NO_IO),
    kind("ticker.c", "} special-errors: ", "3.16 to 8.1", NO_IO),
];

/// The rows of each file, in the order of the table: index, and searchers for the texts of a line.
type RowsByFile = HashMap<&'static [u8], Vec<(usize, Vec<Finder<'static>>)>>;

static ROWS: LazyLock<RowsByFile> = LazyLock::new(|| {
    let mut rows: HashMap<_, Vec<_>> = HashMap::new();
    for (row, kind) in KINDS.iter().enumerate() {
        for file in kind.files.split(' ') {
            rows.entry(file.as_bytes())
                .or_default()
                .push((row, kind.text.split('*').map(Finder::new).collect()));
        }
    }
    rows
});

/// The row that describes a line; `None` for a line of another file, of an unknown kind, or of a [`Named`] kind at a
/// level below INFO.
pub(super) fn find(message: LogMessage<'_>) -> Option<usize> {
    if message.file == b"ticker.c" && !message.text.starts_with(b"{") {
        return None;
    }
    let is_in = |texts: &[Finder<'_>]| texts.iter().all(|text| text.find(message.text).is_some());
    ROWS.get(message.file)?
        .iter()
        .find(|(_, texts)| is_in(texts))
        .map(|(row, _)| *row)
        .filter(|row| !is_on_request(message) || !matches!(KINDS[*row].treatment, Named(_)))
}

/// True for a level below INFO: such lines are details of usual work, like "bad magic - fresh drive?".
fn is_on_request(message: LogMessage<'_>) -> bool {
    matches!(message.level, b"DETAIL" | b"DEBUG" | b"SPAM")
}

/// True if a line should have a row: a line of a drive, or of the ticker about a namespace.
pub(super) fn is_expected(message: LogMessage<'_>) -> bool {
    let is_drive = DRV.split(' ').any(|file| file.as_bytes() == message.file);
    !is_on_request(message)
        && (is_drive || message.file == b"ticker.c" && message.text.starts_with(b"{"))
}

/// Maximum time between two lines of one event. The ticker logs every 10 s by default.
const EVENT_GAP: SignedDuration = SignedDuration::from_secs(60);
/// Maximum number of subjects, and of periods of each.
const SUBJECTS_MAX: usize = 512;
const PERIODS_MAX: usize = 512;

/// Lines that are named or that show an index on flash: their periods, by row of [`KINDS`] and subject.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Events(BTreeMap<(usize, String), Vec<(Timestamp, Timestamp)>>);

impl Events {
    pub(super) fn add(&mut self, kind: usize, text: &[u8], timestamp: Timestamp) {
        let subject = subject(text);
        if self.0.len() >= SUBJECTS_MAX && !self.0.contains_key(&(kind, subject.clone())) {
            return;
        }
        let periods = self.0.entry((kind, subject)).or_default();
        let is_full = periods.len() == PERIODS_MAX;
        match periods.last_mut() {
            Some((begin, end)) if timestamp.duration_since(*end).abs() <= EVENT_GAP => {
                (*begin, *end) = ((*begin).min(timestamp), (*end).max(timestamp));
            }
            // The last period then lasts to the subject's last line.
            Some((_, end)) if is_full => *end = (*end).max(timestamp),
            _ => periods.push((timestamp, timestamp)),
        }
    }

    pub fn iter(
        &self,
    ) -> impl Iterator<Item = (&'static LineKind, &str, &[(Timestamp, Timestamp)])> {
        self.0
            .iter()
            .map(|((kind, subject), periods)| (&KINDS[*kind], subject.as_str(), periods.as_slice()))
    }

    /// True if a line of a kind with this text was logged about `subject`.
    pub fn has(&self, text: &str, subject: &str) -> bool {
        self.iter()
            .any(|(kind, of, _)| kind.text == text && of == subject)
    }
}

/// Namespace in braces, or the device, that a line is about; empty if the line begins with neither.
fn subject(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(&text[..text.len().min(256)]);
    let text = text
        .strip_prefix("(repeated:")
        .and_then(|rest| rest.split_once(") "))
        .map_or(&*text, |(_, rest)| rest);
    let text = text
        .strip_prefix("device ")
        .or_else(|| text.strip_prefix("... "))
        .unwrap_or(text);
    let subject = match text.strip_prefix('{') {
        Some(rest) => rest.split(['}', '|']).next().unwrap_or_default(),
        None => text
            .split([':', ' '])
            .next()
            .filter(|word| word.starts_with('/'))
            .unwrap_or_default(),
    };
    subject
        .chars()
        .filter(|c| !c.is_control() && !is_unprintable(*c))
        .collect()
}

/// Full text of docs/server-log.md.
pub fn markdown() -> String {
    let mut text = String::from(
        "# Lines of a server log that a sizing reads\n\n\
         <!-- Generated from the table of line kinds. To update: UPDATE_DOCS=1 cargo test -p flashproof-sizing kinds -->\n\n\
         `flashproof size profile` ([sizing.md](sizing.md)) reads the histograms and these lines of a log. Each line about\n\
         a device or a namespace is used, ignored, or named in the remarks of the profile with its times. A line about a\n\
         device or a namespace that this table does not have is named, too.\n\n\
         | File | Line contains | Server versions | Use |\n|---|---|---|---|\n",
    );
    for LineKind {
        files,
        text: line,
        versions,
        treatment,
    } in KINDS
    {
        let line = line
            .trim_matches(['}', ' '])
            .trim_start_matches(": ")
            .trim_end_matches(": ");
        let treatment = match treatment {
            Used(why) => format!("used: {why}"),
            Ignored(why) => format!("ignored: {why}"),
            Named(what) => format!("named: {what}"),
        };
        let files = files
            .split(' ')
            .filter(|file| !file.contains("_ce") && !file.contains("_ee"));
        let files = files.collect::<Vec<_>>().join(", ");
        let _ = writeln!(text, "| {files} | `{line}` | {versions} | {treatment} |");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::docs_page::assert_page;
    use crate::server_log::text::parts;
    use results::testing::table;

    #[test]
    fn the_page_on_server_logs_matches_the_table_of_lines() {
        assert_page("server-log.md", "flashproof-sizing kinds", |_| markdown());
    }

    #[test]
    fn each_kind_of_log_line_gets_the_treatment_in_its_table_row() {
        let named = [
            ("COLD", COLD),
            ("DEFECT", DEFECT),
            ("NO_IO", NO_IO),
            ("FLASH_SECONDARY", FLASH_SECONDARY),
        ];
        let treatment = |line: &str| {
            let message = parts(line.as_bytes()).unwrap();
            let found = find(message).map(|kind| KINDS[kind].treatment);
            (found, is_expected(message))
        };
        let lines = r"
            INFO (drv_ssd): (drv_ssd.c:3412) device /dev/sdb: read complete: UNIQUE 7 (REPLACED 0) records | COLD
            INFO (drv_mem): (drv_mem.c:2960) device stripe-0: reading backing device /dev/sdb to load index | COLD
            INFO (namespace): (namespace_ce.c:98) {test} beginning cold start | COLD
            WARNING (drv_ssd): (drv_ssd.c:1516) /dev/sdb: DEVICE FAILED write: errno 5 (Input/output error) | DEFECT
            INFO (info): (ticker.c:430) {test} migrations: complete | NO_IO
            INFO (info): (ticker.c:499) {test} index-usage: used-bytes 1 used-pct 1 | NO_IO
            INFO (info): (ticker.c:505) {test} sindex-usage: used-bytes 4096 | NO_IO
            INFO (info): (ticker.c:505) {test} sindex-usage: used-bytes 4096 used-pct 1 | FLASH_SECONDARY
            WARNING (drv_ssd): (drv_ssd.c:1) bad metadata for 7a on /dev/sdb | DEFECT
            WARNING (drv_ssd): (drv_ssd.c:1) /dev/sdb: bad end marker | DEFECT
            INFO (drv_ssd): (drv_ssd.c:1) {test} a line of a later version | -
            INFO (info): (ticker.c:1) {test} a line of a later version | -
        ";
        for [line, name] in table(lines) {
            let expected = named
                .iter()
                .find(|(of, _)| *of == name)
                .map(|(_, treatment)| *treatment);
            assert!(expected.is_some() || name == "-", "{name}");
            assert_eq!(
                treatment(line),
                (expected, expected != Some(COLD) || line.contains("drv_")),
                "{line}"
            );
        }
        for line in [
            "DEBUG (drv_ssd): (drv_ssd.c:1) {test} x",
            "DETAIL (drv_ssd): (drv_ssd.c:2154) /dev/loop2: bad magic - fresh drive?",
            "INFO (info): (ticker.c:168)    heartbeat-received: self 0",
        ] {
            assert_eq!(treatment(line), (None, false), "{line}");
        }
        assert_eq!(
            subject(b"(repeated:12) {test} write fail: queue too deep"),
            "test"
        );
        assert_eq!(subject(b"device /dev/sdb: read complete"), "/dev/sdb");
        assert_eq!(subject(b"{test|set} truncating to 7"), "test");
    }
}
