//! Every key that any ACT release read: the first and last release with the key, and the key's later fate.
//!
//! Source: the option names in the sources of all releases in ACT's repository, from the first (2012, called ACT 1
//! here) to 6.6. docs/act-keys.md is this table.

use super::options::{BOTH, INDEX, STORAGE, Test, tests_word};
use std::fmt::{self, Write};

/// A release of ACT: major and minor number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Release(pub u8, pub u8);

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

#[derive(Debug, Clone, Copy)]
pub struct ActKey {
    pub name: &'static str,
    /// Tests that read the key: storage (program `act`, from 5.0 on `act_storage`), index (`act_index`, since 5.0).
    pub tests: &'static [Test],
    pub since: Release,
    /// Last release that read the key; `None`: 6.6 still reads it.
    pub until: Option<Release>,
    pub fate: &'static str,
}

impl ActKey {
    /// True if any release `major.*` read the key.
    pub fn known_to(&self, major: u8) -> bool {
        self.since.0 <= major && self.until.is_none_or(|until| major <= until.0)
    }

    /// The releases that read the key, as in `ACT 4.0 to 6.3`.
    pub fn releases(&self) -> String {
        let until = self
            .until
            .map_or_else(String::new, |until| format!(" to {until}"));
        format!("ACT {}{until}", self.since)
    }
}

pub fn find(name: &str) -> Option<&'static ActKey> {
    KEYS.iter().find(|key| key.name == name)
}

const SAME: &str = "the same";

/// Declares each key: its tests, name, first release, last release (unless 6.6 still reads the key) and fate.
macro_rules! keys {
    ($($tests:ident $name:literal from ($since:literal, $since_minor:literal)
        $(to ($until:literal, $until_minor:literal))? => $fate:expr;)+) => {
        /// All keys, in the order of their introduction.
        pub const KEYS: &[ActKey] = &[$(ActKey {
            name: $name,
            tests: $tests,
            since: Release($since, $since_minor),
            until: {
                let until: &[Release] = &[$(Release($until, $until_minor))?];
                until.first().copied()
            },
            fate: $fate,
        }),+];
    };
}

keys! {
    BOTH "device-names" from (1, 0) => SAME;
    STORAGE "queue-per-device" from (1, 0) to (3, 0) =>
        "dropped. `yes` gave each device its own `threads-per-queue` threads; today it becomes `service-threads`: \
         devices x `threads-per-queue`, as one limit for all devices together";
    BOTH "num-queues" from (1, 0) to (5, 3) =>
        "becomes `service-threads`: `num-queues` x `threads-per-queue`. Mandatory until ACT 4. In ACT 5 the default \
         was the number of CPUs, which the file does not have: give it with `--cpus`";
    BOTH "threads-per-queue" from (1, 0) to (5, 3) =>
        "becomes `service-threads`: `num-queues` x `threads-per-queue`. Mandatory until ACT 4; in ACT 5 the default \
         was 4";
    BOTH "test-duration-sec" from (1, 0) => SAME;
    BOTH "report-interval-sec" from (1, 0) => "the same; mandatory until ACT 4";
    BOTH "read-reqs-per-sec" from (1, 0) => SAME;
    STORAGE "large-block-ops-per-sec" from (1, 0) to (2, 0) =>
        "replaced by `write-reqs-per-sec`, chosen so that the rate of large blocks stays exactly the same: with \
         `defrag-lwm-pct: 50` if that gives a whole number, else with 0";
    STORAGE "read-req-num-512-blocks" from (1, 0) to (2, 0) => "replaced by `record-bytes`: this number times 512";
    STORAGE "large-block-op-kbytes" from (1, 0) => "the same; mandatory until ACT 4; a power of two from ACT 4 on";
    STORAGE "use-valloc" from (1, 0) to (3, 0) => "dropped: it chose how ACT allocated memory";
    STORAGE "num-write-buffers" from (1, 0) to (2, 0) =>
        "dropped; 0 wrote zeros and becomes `compress-pct: 0`. Any other number wrote that many random blocks over and \
         over; today every write is random. Only a drive that deduplicates shows a difference";
    BOTH "scheduler-mode" from (1, 0) to (6, 4) =>
        "dropped: ACT set the I/O scheduler of its devices, by default to `noop`; flashproof records the scheduler and \
         does not change it. Set it by a udev rule or through /sys/block/NAME/queue/scheduler";
    BOTH "microsecond-histograms" from (2, 0) => SAME;
    BOTH "write-reqs-per-sec" from (3, 0) => SAME;
    STORAGE "record-bytes" from (3, 0) =>
        "the same, but ACT 3 and 4 stored records in steps of 128 bytes, later releases in steps of 16. A size from ACT \
         3 or 4 is rounded up to a multiple of 128, which keeps reads and large blocks unchanged. Mandatory until ACT 4";
    STORAGE "record-bytes-range-max" from (4, 0) => "the same, and rounded like `record-bytes`";
    BOTH "replication-factor" from (4, 0) => SAME;
    STORAGE "update-pct" from (4, 0) => SAME;
    BOTH "defrag-lwm-pct" from (4, 0) => "the same; ACT 3 always doubled the large-block writes, as 50 does";
    STORAGE "commit-to-device" from (4, 0) => SAME;
    STORAGE "commit-min-bytes" from (4, 0) to (6, 3) => "dropped by ACT, still works here";
    STORAGE "tomb-raider" from (4, 0) => SAME;
    STORAGE "tomb-raider-sleep-usec" from (4, 0) => "the same; 0 by default in every release, although the README states another default";
    BOTH "file-size-mbytes" from (5, 0) => "the same; `act_index` reads it from 6.0 on";
    BOTH "max-reqs-queued" from (5, 0) to (5, 3) =>
        "dropped: there are no queues. Until ACT 4 the limit was 100000. `max-lag-sec` stops a test that falls behind";
    BOTH "max-lag-sec" from (5, 0) =>
        "the same; 0 means no limit from 6.0 on. In ACT 5, a limit of 0 allowed no lag; such a 0 becomes 1";
    INDEX "num-cache-threads" from (5, 0) to (5, 0) => "renamed `cache-threads`";
    BOTH "service-threads" from (5, 1) =>
        "until 5.3 this was the number of threads that made requests for the queues: a number from such a file is \
         dropped. From 6.0 on this is the number of threads that carry out the requests, and the number stays. \
         flashproof does not use ACT's default of 5 threads for each CPU; `--cpus` writes that default out";
    INDEX "cache-threads" from (5, 1) => SAME;
    BOTH "disable-odsync" from (5, 2) =>
        "the same. ACT 1 to 4 opened devices without O_DSYNC, so a file of theirs gets `disable-odsync: yes`. A file \
         with `commit-to-device: yes` does not: the two exclude each other";
    STORAGE "compress-pct" from (5, 3) => SAME;
    STORAGE "no-defrag-reads" from (6, 4) => SAME;
}

/// Full text of `docs/act-keys.md`.
pub fn markdown() -> String {
    let mut text = String::from(
        "# Keys of every ACT, and what became of them\n\n\
         <!-- Generated from the table of old keys. To update: UPDATE_DOCS=1 cargo test -p flashproof-act --test act act_keys -->\n\n\
         `flashproof size config CONFIG` reads the configuration of any ACT and writes today's equivalent, by the \
         rules of this\ntable. A comment in the output explains each change. The column ACT has the first and the last \
         release that read\nthe key. ACT 1 is the release of 2012, the first in ACT's repository.\n\n\
         | Key | Test | ACT | Today |\n|---|---|---|---|\n",
    );
    for key in KEYS {
        let until = key
            .until
            .map(|until| format!(" {until}"))
            .unwrap_or_default();
        let range = if key.until == Some(key.since) {
            key.since.to_string()
        } else {
            format!("{} -{until}", key.since)
        };
        let _ = writeln!(
            text,
            "| `{}` | {} | {range} | {} |",
            key.name,
            tests_word(key.tests),
            key.fate
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{OptionSpec, Since, Test};
    use crate::table::{self, options_of};

    #[test]
    fn every_act_key_in_the_option_table_is_listed_with_its_last_release() {
        let of_act = |spec: &&OptionSpec| matches!(spec.since, Since::Act66 | Since::OldAct);
        for spec in Test::ALL.into_iter().flat_map(options_of).filter(of_act) {
            let key = find(spec.name).unwrap_or_else(|| panic!("{} is missing", spec.name));
            assert_eq!(
                key.until.is_none(),
                spec.since == Since::Act66,
                "{}",
                spec.name
            );
        }
        for key in KEYS.iter().filter(|key| key.until.is_none()) {
            let reads = Test::ALL.map(|test| table::find(test, key.name).is_some());
            assert_eq!(
                reads,
                Test::ALL.map(|test| key.tests.contains(&test)),
                "{}",
                key.name
            );
        }
    }

    #[test]
    fn key_names_are_unique_and_no_last_release_is_older_than_the_first_release() {
        for (i, key) in KEYS.iter().enumerate() {
            assert!(
                KEYS[..i].iter().all(|other| other.name != key.name),
                "{}",
                key.name
            );
            assert!(
                key.until.is_none_or(|until| key.since <= until),
                "{}",
                key.name
            );
        }
    }
}
