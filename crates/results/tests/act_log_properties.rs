//! Properties of the log reader on logs of all versions, cut and mixed.

#[path = "common/log_property.rs"]
mod log_property;

use log_property::assert_log_property;
use proptest::prelude::*;

const LOGS: [&[u8]; 5] = [
    include_bytes!("data/act-storage-two-devices.log"),
    include_bytes!("data/act-storage-interval2.log"),
    include_bytes!("data/act-index-us.log"),
    include_bytes!("data/act5-storage.log"),
    include_bytes!("data/act4.log"),
];

#[test]
fn every_example_log_is_read_to_its_end() {
    for log in LOGS {
        assert!(
            assert_log_property(log),
            "{}",
            String::from_utf8_lossy(&log[..80])
        );
    }
}

/// Found by fuzzing: a bucket that is listed, then missing, then listed again with a smaller count. A reader of every
/// report saw no count shrink; a reader that skipped the middle report did.
#[test]
fn a_count_that_vanishes_for_one_report_is_damage_however_many_reports_are_skipped() {
    let log = String::from_utf8_lossy(LOGS[1]);
    let line = " (00: 0000020855) (01: 0000001592) (02: 0000001115) (03: 0000000397)\n (04: 0000000041)\nlarge";
    assert!(log.contains(line));
    assert!(!assert_log_property(
        log.replace(line, &line.replace("(04", "(05")).as_bytes()
    ));
}

proptest! {
    #[test]
    fn no_mixture_of_logs_breaks_the_reader(
        one in prop::sample::select(&LOGS[..]),
        other in prop::sample::select(&LOGS[..]),
        (cut, from) in (any::<prop::sample::Index>(), any::<prop::sample::Index>()),
        noise in prop::collection::vec(any::<u8>(), 0..20),
    ) {
        let (cut, from) = (cut.index(one.len()), from.index(other.len()));
        assert_log_property(&[&one[..cut], &noise, &other[from..]].concat());
    }
}
