//! Every key that any ACT ever read: the releases that knew it and its fate.
//!
//! Source: the option names in the sources of all releases in ACT's repository, from the first
//! (2012, here ACT 1) to 6.6. docs/act-keys.md is this table.

use std::fmt::{self, Write};

/// A release of ACT: major and minor number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Release(pub u8, pub u8);

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

/// The ACT programs that read a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    /// `act`, from 5.0 on `act_storage`.
    Storage,
    /// `act_index`, since 5.0.
    Index,
    Both,
}

#[derive(Debug, Clone, Copy)]
pub struct ActKey {
    pub name: &'static str,
    /// Programs that read it.
    pub program: Program,
    /// The first release that did.
    pub since: Release,
    /// The last one; `None`: 6.6 still has it.
    pub until: Option<Release>,
    /// What later versions did with it.
    pub fate: &'static str,
}

impl ActKey {
    /// True if any release `major.*` read it.
    pub fn known_to(&self, major: u8) -> bool {
        self.since.0 <= major && self.until.is_none_or(|until| major <= until.0)
    }
}

pub fn find(name: &str) -> Option<&'static ActKey> {
    KEYS.iter().find(|key| key.name == name)
}

const SAME: &str = "the same";
const OLDEST: Release = Release(1, 0);

const fn key(name: &'static str, since: Release, until: Option<Release>, fate: &'static str) -> ActKey {
    ActKey { name, program: Program::Storage, since, until, fate }
}

const fn both(name: &'static str, since: Release, until: Option<Release>, fate: &'static str) -> ActKey {
    ActKey { program: Program::Both, ..key(name, since, until, fate) }
}

/// All keys, in the order of their introduction.
pub const KEYS: &[ActKey] = &[
    both("device-names", OLDEST, None, SAME),
    key(
        "queue-per-device",
        OLDEST,
        Some(Release(3, 0)),
        "dropped; `yes` gave each device `threads-per-queue` threads of its own and becomes `service-threads`: devices x \
         threads, a bound on all devices together",
    ),
    both(
        "num-queues",
        OLDEST,
        Some(Release(5, 3)),
        "becomes `service-threads`: `num-queues` x `threads-per-queue`. Mandatory until ACT 4; ACT 5 took the number of \
         CPUs, which a file does not tell (`--cpus` does)",
    ),
    both(
        "threads-per-queue",
        OLDEST,
        Some(Release(5, 3)),
        "becomes `service-threads`: `num-queues` x `threads-per-queue`. Mandatory until ACT 4, then 4 by default",
    ),
    both("test-duration-sec", OLDEST, None, SAME),
    both("report-interval-sec", OLDEST, None, "the same; mandatory until ACT 4"),
    both("read-reqs-per-sec", OLDEST, None, SAME),
    key(
        "large-block-ops-per-sec",
        OLDEST,
        Some(Release(2, 0)),
        "replaced by `write-reqs-per-sec`, chosen so that exactly as many large blocks follow: with `defrag-lwm-pct: 50` \
         if that gives a whole number, else with 0",
    ),
    key("read-req-num-512-blocks", OLDEST, Some(Release(2, 0)), "replaced by `record-bytes`: 512 times as many"),
    key("large-block-op-kbytes", OLDEST, None, "the same; mandatory until ACT 4; a power of two from ACT 4 on"),
    key("use-valloc", OLDEST, Some(Release(3, 0)), "dropped: it chose how ACT allocated memory"),
    key(
        "num-write-buffers",
        OLDEST,
        Some(Release(2, 0)),
        "dropped; 0 wrote zeros and becomes `compress-pct: 0`. Any other number wrote that many random blocks over and \
         over; today every write is random, which cannot be told apart but by a drive that deduplicates",
    ),
    both(
        "scheduler-mode",
        OLDEST,
        Some(Release(6, 4)),
        "dropped: ACT set the I/O scheduler of its devices, to `noop` when not told; here it is recorded and left alone. \
         Set it by a udev rule or through /sys/block/NAME/queue/scheduler",
    ),
    both("microsecond-histograms", Release(2, 0), None, SAME),
    both("write-reqs-per-sec", Release(3, 0), None, SAME),
    key(
        "record-bytes",
        Release(3, 0),
        None,
        "the same, but ACT 3 and 4 stored records in steps of 128 bytes and later ones in steps of 16: a size from these \
         is rounded up to 128, which keeps reads and large blocks as they were. Mandatory until ACT 4",
    ),
    key("record-bytes-range-max", Release(4, 0), None, "the same, and rounded as `record-bytes`"),
    both("replication-factor", Release(4, 0), None, SAME),
    key("update-pct", Release(4, 0), None, SAME),
    both("defrag-lwm-pct", Release(4, 0), None, "the same; ACT 3 always doubled, as 50 does"),
    key("commit-to-device", Release(4, 0), None, SAME),
    key("commit-min-bytes", Release(4, 0), Some(Release(6, 3)), "dropped by ACT, still works here"),
    key("tomb-raider", Release(4, 0), None, SAME),
    key(
        "tomb-raider-sleep-usec",
        Release(4, 0),
        None,
        "the same; 0 by default in every release, whatever its README says",
    ),
    both("file-size-mbytes", Release(5, 0), None, "the same; in `act_index` from 6.0 on"),
    both(
        "max-reqs-queued",
        Release(5, 0),
        Some(Release(5, 3)),
        "dropped: there are no queues; until ACT 4 the limit was 100000. `max-lag-sec` stops a test that falls behind",
    ),
    both(
        "max-lag-sec",
        Release(5, 0),
        None,
        "the same; 0 is no limit from 6.0 on, and in ACT 5, where it allowed no lag, becomes 1",
    ),
    ActKey {
        program: Program::Index,
        ..key("num-cache-threads", Release(5, 0), Some(Release(5, 0)), "renamed `cache-threads`")
    },
    both(
        "service-threads",
        Release(5, 1),
        None,
        "until 5.3 the threads that made requests for the queues: dropped. From 6.0 on the threads that do them: the \
         same, but ACT's default of 5 for each CPU is not ours (`--cpus` writes it out)",
    ),
    ActKey { program: Program::Index, ..key("cache-threads", Release(5, 1), None, SAME) },
    both(
        "disable-odsync",
        Release(5, 2),
        None,
        "the same; ACT 1 to 4 opened devices without O_DSYNC, so a file of theirs becomes `disable-odsync: yes`, unless it \
         has `commit-to-device: yes`, where that is refused",
    ),
    key("compress-pct", Release(5, 3), None, SAME),
    key("no-defrag-reads", Release(6, 4), None, SAME),
];

/// `docs/act-keys.md`, whole.
pub fn markdown() -> String {
    let mut text = String::from(
        "# Keys of every ACT, and what became of them\n\n\
         <!-- Generated from the table of old keys. To update: UPDATE_DOCS=1 cargo test -p flashproof-load --test load act_keys -->\n\n\
         `flashproof size config CONFIG` reads the configuration of any ACT and writes today's equivalent. This is what it goes \
         by; each\nchange that it makes is a comment in what it writes. ACT 1 is the first release in ACT's repository, of \
         2012.\n\n\
         | Key | Test | ACT | Today |\n|---|---|---|---|\n",
    );
    for key in KEYS {
        let program = match key.program {
            Program::Storage => "storage",
            Program::Index => "index",
            Program::Both => "both",
        };
        let until = key.until.map(|until| format!(" {until}")).unwrap_or_default();
        let range =
            if key.until == Some(key.since) { key.since.to_string() } else { format!("{} -{until}", key.since) };
        let _ = writeln!(text, "| `{}` | {program} | {range} | {} |", key.name, key.fate);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::act::options::{OptionSpec, Since, Test};
    use crate::workload::act::table::{self, options_of};

    #[test]
    fn every_key_of_act_that_we_read_is_in_the_table_with_its_end() {
        let of_act = |spec: &&OptionSpec| matches!(spec.since, Since::Act66 | Since::Act4);
        for spec in Test::ALL.into_iter().flat_map(options_of).filter(of_act) {
            let key = find(spec.name).unwrap_or_else(|| panic!("{} is missing", spec.name));
            assert_eq!(key.until.is_none(), spec.since == Since::Act66, "{}", spec.name);
        }
        for key in KEYS.iter().filter(|key| key.until.is_none()) {
            let reads = Test::ALL.map(|test| table::find(test, key.name).is_some());
            assert_eq!(reads, [key.program != Program::Index, key.program != Program::Storage], "{}", key.name);
        }
    }

    #[test]
    fn names_are_unique_and_ranges_go_up() {
        for (i, key) in KEYS.iter().enumerate() {
            assert!(KEYS[..i].iter().all(|other| other.name != key.name), "{}", key.name);
            assert!(key.until.is_none_or(|until| key.since <= until), "{}", key.name);
        }
    }
}
