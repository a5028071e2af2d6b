//! Tests of the mode of one node, driven by events.

use super::*;
use crate::server::ClusterNode;

const S: u64 = SECOND_NS;

fn pair(own: usize) -> NodePair {
    let nodes = [3000, 3001]
        .map(|port| ClusterNode::new("127.0.0.1", port))
        .to_vec();
    let pair = NodePair::new(&Cluster::new(nodes, own), true, 2);
    assert_eq!(
        pair.started(found(Some(PairMode::Paired), true, false)),
        None
    );
    pair
}

/// Contents of the devices of four namespaces. `is_damaged`: a store has losses.
fn found(recorded: Option<PairMode>, has_records: bool, is_damaged: bool) -> DeviceContents {
    let recorded = recorded.map(|mode| ModeRecord {
        mode,
        devices: DeviceIdentity::default(),
        pairings: 0,
    });
    let devices = DeviceIdentity {
        lost_blocks: is_damaged.into(),
        ..DeviceIdentity::default()
    };
    DeviceContents {
        recorded,
        devices,
        replicated: 15,
        nonempty: if has_records { 15 } else { 0 },
    }
}

/// As [`found`], with records in all namespaces except those of the bits `empty`.
fn without(empty: u32, recorded: PairMode) -> DeviceContents {
    DeviceContents {
        nonempty: 15 & !empty,
        ..found(Some(recorded), true, false)
    }
}

/// The other node reports this mode, always from the same process.
fn hear(pair: &NodePair, mode: PairMode, now_ns: u64) -> Option<PairMode> {
    let changes = pair
        .lock_state()
        .peer_mode_version
        .map_or(0, |word| word.next(mode).changes);
    greet(pair, 7, ModeVersion { mode, changes }, now_ns)
}

fn greet(pair: &NodePair, process: u64, word: ModeVersion, now_ns: u64) -> Option<PairMode> {
    greet_without(pair, process, word, 0, now_ns)
}

/// As [`greet`], by a node without records in the namespaces of these bits.
fn greet_without(
    pair: &NodePair,
    process: u64,
    mode_version: ModeVersion,
    empty: u32,
    now_ns: u64,
) -> Option<PairMode> {
    // A process that was greeted before counts the same pairings.
    let pairings = pair.lock_state().pairings[0];
    pair.on_greeting(
        Greeting {
            process,
            mode_version,
            empty_namespaces: empty,
            pairings,
        },
        now_ns,
    )
}

fn record(pair: &NodePair) -> Option<PairMode> {
    let mode = pair.begin_record();
    mode.and_then(|mode| pair.end_record(Some(mode)))
}

/// Checks for a takeover every 100 ms from `from_ns` on. Returns the time of the takeover, if it is within a minute.
fn takeover(pair: &NodePair, from_ns: u64, refused_ns: Option<u64>) -> Option<u64> {
    let looks = (from_ns..from_ns + 60 * S).step_by(S as usize / 10);
    looks.into_iter().find(|now_ns| {
        pair.check_takeover(*now_ns, refused_ns.filter(|since_ns| since_ns <= now_ns))
            .is_some()
    })
}

/// Both cores compare all their records.
fn compare(pair: &NodePair) {
    let of = pair.comparison().unwrap();
    (0..2).for_each(|core| _ = pair.compared(of, core));
}

/// A node that was behind and got all records. The last answer of the other node was at 1 s.
fn paired(own: usize) -> NodePair {
    let pair = pair(own);
    assert_eq!(hear(&pair, PairMode::Ahead, S), Some(PairMode::Behind));
    record(&pair);
    compare(&pair);
    assert_eq!(hear(&pair, PairMode::Handing, S), None);
    assert_eq!(hear(&pair, PairMode::Paired, S), Some(PairMode::Paired));
    pair.answered(
        7,
        ModeVersion {
            mode: PairMode::Paired,
            changes: 2,
        },
        S,
    );
    pair
}

#[test]
fn only_the_first_node_takes_over_after_silence() {
    assert_eq!(takeover(&paired(0), S, None), Some(4 * S + S / 10));
    assert_eq!(takeover(&paired(1), S, None), None);
    // A node that was itself stopped does not take over.
    let first = paired(0);
    first.check_takeover(S, None);
    assert_eq!(first.check_takeover(20 * S, None), None);
    assert_eq!(takeover(&first, 20 * S, None), Some(23 * S + S / 10));
}

#[test]
fn either_node_takes_over_after_refused_connections_unless_the_other_node_sends_messages() {
    for own in [0, 1] {
        let pair = paired(own);
        assert_eq!(
            (takeover(&pair, S, Some(2 * S)), pair.mode()),
            (Some(3 * S), PairMode::Ahead)
        );
        let pair = paired(own);
        assert_eq!(
            (
                pair.check_takeover(2 * S, None),
                hear(&pair, PairMode::Paired, 2 * S + S / 2)
            ),
            (None, None)
        );
        assert_eq!(
            pair.check_takeover(3 * S, Some(2 * S)),
            None,
            "it still said something"
        );
        assert_eq!(
            pair.check_takeover(3 * S + S / 2, Some(2 * S)),
            Some(2 * S + S / 2)
        );
    }
}

#[test]
fn the_second_node_does_not_take_over_if_the_first_node_may_have_taken_over_before_it_died() {
    let after_lease = Some(4 * S + 1);
    assert_eq!(
        takeover(&paired(0), S, after_lease),
        Some(4 * S + S / 10),
        "by silence"
    );
    assert_eq!(takeover(&paired(1), S, after_lease), None);
    let second = paired(1);
    second.answered(
        7,
        ModeVersion {
            mode: PairMode::Deciding,
            changes: 2,
        },
        3 * S,
    );
    assert_eq!(
        takeover(&second, S, after_lease),
        None,
        "it answered, but not as one of a pair"
    );
    second.answered(
        7,
        ModeVersion {
            mode: PairMode::Paired,
            changes: 2,
        },
        3 * S,
    );
    assert_eq!(takeover(&second, S, after_lease), Some(5 * S + S / 10));
}

#[test]
fn a_leaving_node_is_replaced_at_once_and_never_serves_again() {
    for own in [0, 1] {
        let node = paired(own);
        let other = paired(1 - own);
        assert!(
            node.may_leave(2 * S) && !node.may_leave(4 * S),
            "only while the other node answers"
        );
        assert_eq!(
            (node.leave(), node.leave()),
            (Some(PairMode::Leaving), None)
        );
        assert!(!node.is_relieved() && !node.must_record());
        assert_eq!(
            node.role(
                &Cluster::new(
                    vec![ClusterNode::new("a", 1), ClusterNode::new("b", 1)],
                    own
                ),
                0,
                true
            ),
            None
        );
        assert_eq!(
            hear(&other, node.reported_mode().mode, 2 * S),
            Some(PairMode::Ahead)
        );
        assert_eq!(
            (hear(&node, PairMode::Deciding, 2 * S), node.is_relieved()),
            (None, true)
        );
        assert_eq!(
            (
                hear(&node, PairMode::Ahead, 2 * S),
                takeover(&node, 2 * S, Some(2 * S))
            ),
            (None, None)
        );
    }
    // A node that is ahead has nobody who could take over.
    let alone = paired(0);
    takeover(&alone, S, None).unwrap();
    assert_eq!(
        (alone.may_leave(9 * S), alone.leave(), alone.is_relieved()),
        (false, None, true)
    );
}

#[test]
fn a_starting_node_never_takes_over_and_follows_a_node_that_is_ahead() {
    assert_eq!(takeover(&pair(0), S, Some(S)), None);
    let starting = pair(0);
    assert_eq!(
        hear(&starting, PairMode::Deciding, S),
        None,
        "it may die before it has recorded that it is ahead"
    );
    assert_eq!(hear(&starting, PairMode::Ahead, S), Some(PairMode::Behind));
    assert_eq!(
        (
            hear(&starting, PairMode::Starting, S),
            takeover(&starting, S, Some(S))
        ),
        (None, None)
    );
}

#[test]
fn a_takeover_is_reported_once_it_is_recorded_and_survives_a_restart() {
    let pair = paired(0);
    record(&pair);
    takeover(&pair, S, None).unwrap();
    assert!(pair.must_wait(pair.word()) && pair.must_record());
    assert_eq!(
        (pair.mode(), pair.reported_mode().mode),
        (PairMode::Ahead, PairMode::Deciding)
    );
    // Without a write, the other node has all records, too.
    assert_eq!(pair.begin_record(), Some(PairMode::AheadUnused));
    pair.end_record(Some(PairMode::AheadUnused));
    assert!(
        !pair.must_record()
            && pair.must_wait(pair.word())
            && pair.reported_mode().mode == PairMode::Ahead
    );
    pair.begin_use();
    assert_eq!(pair.reported_mode().mode, PairMode::Ahead);
    assert_eq!(
        (pair.begin_record(), pair.begin_record()),
        (Some(PairMode::Ahead), None)
    );
    assert!(!pair.must_record() && pair.must_wait(pair.word()));
    assert_eq!(pair.end_record(None), None);
    assert!(pair.must_record() && pair.must_wait(pair.word()));
    record(&pair);
    assert!(
        !pair.must_record()
            && !pair.must_wait(pair.word())
            && pair.reported_mode().mode == PairMode::Ahead
    );
    let again = super::tests::pair(0);
    assert_eq!(
        again.started(found(Some(PairMode::Ahead), true, false)),
        Some(PairMode::Ahead)
    );
    assert_eq!(
        (
            again.must_wait(again.word()),
            hear(&again, PairMode::Starting, S)
        ),
        (false, None)
    );
}

#[test]
fn partitions_are_handed_back_once_all_records_are_compared_and_no_write_is_in_flight() {
    let pair = paired(1);
    takeover(&pair, S, Some(2 * S)).unwrap();
    record(&pair);
    assert_eq!(pair.comparison(), None);
    greet(
        &pair,
        8,
        ModeVersion {
            mode: PairMode::Behind,
            changes: 1,
        },
        9 * S,
    );
    let Some(RecordComparison {
        changes: number,
        is_sender: true,
        ..
    }) = pair.comparison()
    else {
        panic!("{pair:?}")
    };
    compare(&pair);
    assert_eq!(pair.other_compared(number, 0, 2), None);
    pair.compare_again();
    assert_eq!(
        pair.other_compared(number, 1, 2),
        None,
        "of the comparison before"
    );
    let number = pair.comparison().unwrap().changes;
    compare(&pair);
    pair.other_compared(number, 0, 2);
    assert_eq!(pair.other_compared(number, 0, 2), None, "the same core");
    assert_eq!(pair.other_compared(number, 1, 2), Some(PairMode::Handing));
    assert!(pair.must_wait(pair.word()) && !pair.must_record());
    let handing = pair.word().changes;
    pair.drained(handing, 0);
    pair.drained(number, 1);
    assert!(!pair.must_record());
    pair.drained(handing, 1);
    assert_eq!(
        (record(&pair), pair.mode()),
        (Some(PairMode::Paired), PairMode::Paired)
    );
    // Records are compared with a new process, whatever mode the process reports.
    for (process, mode) in [(9, PairMode::Starting), (10, PairMode::Damaged)] {
        let pair = paired(1);
        greet(&pair, process, ModeVersion { mode, changes: 0 }, 9 * S);
        assert_eq!(pair.mode(), PairMode::Ahead);
    }
}

#[test]
fn a_node_without_records_or_with_losses_follows_the_other_node() {
    let started = |own, recorded, records, damaged| {
        let pair = pair(own);
        pair.started(found(recorded, records, damaged));
        pair
    };
    let fresh = |own| started(own, None, false, false);
    let damaged = |own| started(own, Some(PairMode::Paired), true, true);
    let behind = |own| started(own, Some(PairMode::Behind), true, true);
    let maybe = |own| started(own, Some(PairMode::Ahead), true, true);
    let full = |own| started(own, None, true, false);
    let ahead = Some(PairMode::Ahead);
    let gets = Some(PairMode::Behind);
    let first = |own| ahead.filter(|_| own == 0);
    for own in [0, 1] {
        for (node, other, mode) in [
            (fresh(own), PairMode::Fresh, first(own)),
            (fresh(own), PairMode::Starting, None),
            (fresh(own), PairMode::Ahead, gets),
            (fresh(own), PairMode::Behind, None),
            (full(own), PairMode::Fresh, ahead),
            (full(own), PairMode::Damaged, ahead),
            (full(own), PairMode::MaybeAhead, None),
            (full(own), PairMode::Behind, ahead),
            (full(own), PairMode::Starting, first(own)),
            (damaged(own), PairMode::Fresh, ahead),
            (damaged(own), PairMode::Starting, None),
            (damaged(own), PairMode::Ahead, gets),
            (damaged(own), PairMode::Damaged, None),
            (damaged(own), PairMode::MaybeAhead, None),
            (maybe(own), PairMode::Starting, None),
            (maybe(own), PairMode::Damaged, None),
            (maybe(own), PairMode::Behind, None),
            (maybe(own), PairMode::Fresh, ahead),
            (maybe(own), PairMode::Ahead, gets),
            (paired(own), PairMode::NewAhead, Some(PairMode::Starting)),
            (
                paired(own),
                PairMode::MaybeAhead,
                Some(if own == 0 {
                    PairMode::Ahead
                } else {
                    PairMode::Starting
                }),
            ),
            (behind(own), PairMode::Starting, None),
            (behind(own), PairMode::Fresh, None),
        ] {
            let before = node.mode();
            assert_eq!(
                hear(&node, other, S),
                mode,
                "{before:?} {own} hears {other:?}"
            );
        }
    }
}

/// A node with records, and with new devices for the namespaces whose bits are set in `empty`.
fn new(own: usize, recorded: Option<PairMode>, empty: u32) -> NodePair {
    let pair = pair(own);
    let devices = DeviceIdentity {
        device_sets: 1,
        lost_blocks: 0,
    };
    pair.started(DeviceContents {
        devices,
        nonempty: 15 & !empty,
        ..found(recorded, true, false)
    });
    pair
}

#[test]
fn a_namespace_new_on_both_nodes_is_ignored_when_modes_are_decided() {
    let ahead = Some(PairMode::Ahead);
    let first = |own| Some(PairMode::Ahead).filter(|_| own == 0);
    for own in [0, 1] {
        for (recorded, empty, other, others, mode) in [
            (PairMode::Paired, 2, PairMode::New, 2, first(own)),
            (PairMode::Paired, 2, PairMode::New, 3, ahead),
            (PairMode::Paired, 3, PairMode::New, 2, None),
            (PairMode::Paired, 2, PairMode::New, 4, None),
            (PairMode::Paired, 2, PairMode::NewAhead, 2, None),
            (PairMode::Paired, 2, PairMode::Starting, 2, None),
            (PairMode::Paired, 2, PairMode::Behind, 2, None),
            (PairMode::Paired, 2, PairMode::Fresh, 3, ahead),
            (
                PairMode::Paired,
                2,
                PairMode::Ahead,
                0,
                Some(PairMode::Behind),
            ),
            (PairMode::Ahead, 2, PairMode::New, 2, ahead),
            (PairMode::Ahead, 2, PairMode::New, 4, None),
            (PairMode::Ahead, 2, PairMode::Starting, 2, ahead),
            // The other node has records of the namespace that is new here, and lacks other records.
            (PairMode::Ahead, 2, PairMode::Starting, 0, None),
            (PairMode::Ahead, 2, PairMode::NewAhead, 2, None),
            (PairMode::Ahead, 2, PairMode::Ahead, 0, None),
            (PairMode::Damaged, 2, PairMode::Damaged, 2, None),
            (PairMode::MaybeAhead, 2, PairMode::Starting, 2, None),
        ] {
            let node = new(own, Some(recorded), empty);
            let word = ModeVersion {
                mode: other,
                changes: 1,
            };
            let what = format!(
                "{:?} {own} without {empty} hears {other:?} without {others}",
                node.mode()
            );
            assert_eq!(greet_without(&node, 7, word, others, S), mode, "{what}");
        }
    }
    // The mode is the same after a restart, when the devices are not new any more.
    for (recorded, mode) in [
        (PairMode::Paired, PairMode::New),
        (PairMode::Ahead, PairMode::NewAhead),
    ] {
        let node = new(0, Some(recorded), 2);
        assert_eq!(
            (
                node.mode(),
                node.begin_record(),
                node.greeting(1).empty_namespaces
            ),
            (mode, Some(mode), 2)
        );
        let again = pair(0);
        again.started(without(2, mode));
        assert_eq!(
            (again.mode(), again.greeting(1).empty_namespaces),
            (mode, 2)
        );
    }
}

#[test]
fn new_devices_and_losses_are_noticed_until_a_mode_is_recorded_with_them() {
    let now = DeviceIdentity {
        device_sets: 7,
        lost_blocks: 3,
    };
    let mode = |recorded: Option<ModeRecord>, full| {
        DeviceContents {
            recorded,
            devices: now,
            replicated: 6,
            nonempty: full,
        }
        .mode()
    };
    let with = |device_sets, lost_blocks| {
        move |mode| {
            Some(ModeRecord {
                mode,
                devices: DeviceIdentity {
                    device_sets,
                    lost_blocks,
                },
                pairings: 1,
            })
        }
    };
    let same = with(7, 3);
    let new = with(6, 3);
    let damaged = with(7, 2);
    use PairMode::*;
    for (recorded, full, expected) in [
        (same(Paired), 2, None),
        (same(Ahead), 2, Some(Ahead)),
        (same(Damaged), 6, Some(Damaged)),
        (same(AheadUnused), 6, Some(Ahead)),
        (damaged(AheadUnused), 6, Some(Damaged)),
        (new(AheadUnused), 2, Some(New)),
        (new(Paired), 2, Some(New)),
        (new(Ahead), 2, Some(NewAhead)),
        (new(Ahead), 0, Some(NewAhead)),
        (new(Behind), 2, Some(Behind)),
        (new(Behind), 0, Some(Fresh)),
        // A namespace was removed from the configuration.
        (new(Paired), 6, None),
        (damaged(Paired), 6, Some(Damaged)),
        (damaged(Behind), 6, Some(Behind)),
        (damaged(Behind), 0, Some(Behind)),
        (damaged(Ahead), 6, Some(MaybeAhead)),
        (damaged(NewAhead), 6, Some(MaybeAhead)),
        (Some(ModeRecord::LOST), 6, Some(MaybeAhead)),
        // A node that was never paired.
        (None, 6, Some(Damaged)),
    ] {
        assert_eq!(
            mode(recorded, full),
            expected,
            "{recorded:?} with records in {full}"
        );
    }
    // The devices have no recorded mode and no damage.
    let mode = |full| {
        DeviceContents {
            nonempty: full,
            replicated: 6,
            ..DeviceContents::default()
        }
        .mode()
    };
    assert_eq!(
        [mode(0), mode(2), mode(4)],
        [Some(Fresh), None, Some(MaybeAhead)]
    );
}

#[test]
fn a_recorded_mode_is_read_as_it_was_written() {
    let recorded = ModeRecord {
        mode: PairMode::NewAhead,
        devices: DeviceIdentity {
            device_sets: u64::MAX - 1,
            lost_blocks: 1 << 40,
        },
        pairings: 9,
    };
    assert_eq!(ModeRecord::read(&recorded.to_text()), Some(recorded));
    assert_eq!(ModeRecord::read(&[99; crate::NOTE_BYTES]), None);
}

#[test]
fn an_older_copy_never_wins_over_newer_records() {
    // A node with `own` pairings hears a new process of a node with `other` pairings.
    let hears = |place: usize, own: u64, recorded: PairMode, other: u64, mode: PairMode| {
        let node = pair(place);
        let of = DeviceContents {
            recorded: None,
            ..found(Some(recorded), true, false)
        };
        let record = ModeRecord {
            mode: recorded,
            devices: DeviceIdentity::default(),
            pairings: own,
        };
        node.started(DeviceContents {
            recorded: Some(record),
            ..of
        });
        let mode_version = ModeVersion { mode, changes: 1 };
        let heard = node.on_greeting(
            Greeting {
                process: 7,
                mode_version,
                empty_namespaces: 0,
                pairings: other,
            },
            S,
        );
        (heard, node.is_stuck(mode))
    };
    use PairMode::*;
    for place in [0, 1] {
        let first = Some(Ahead).filter(|_| place == 0);
        for (own, recorded, other, mode, expected) in [
            (5, Paired, 5, Starting, (first, false)),
            (5, Paired, 4, Starting, (Some(Ahead), false)),
            (4, Paired, 5, Starting, (None, false)),
            (4, Paired, 5, Ahead, (Some(Behind), false)),
            (5, Paired, 4, Ahead, (None, true)),
            (4, Ahead, 5, Starting, (None, true)),
            (4, AheadUnused, 5, Starting, (Some(Starting), false)),
            (5, AheadUnused, 5, Starting, (None, false)),
            (4, Paired, 5, Behind, (None, true)),
            (4, Paired, 5, Damaged, (None, true)),
            (5, Behind, 4, Starting, (None, true)),
            (5, Paired, 4, Behind, (Some(Ahead), false)),
            (5, Paired, 0, Fresh, (Some(Ahead), false)),
        ] {
            let what = format!(
                "node {place}, {recorded:?} after {own} pairings, hears {mode:?} after {other}"
            );
            assert_eq!(hears(place, own, recorded, other, mode), expected, "{what}");
        }
    }
}

#[test]
fn both_nodes_count_the_same_pairings() {
    let ahead = paired(0);
    let known = ahead.pairings();
    assert_eq!(known[0], known[1]);
    takeover(&ahead, S, Some(2 * S)).unwrap();
    record(&ahead);
    let behind = Greeting {
        process: 8,
        mode_version: ModeVersion {
            mode: PairMode::Behind,
            changes: 1,
        },
        empty_namespaces: 0,
        pairings: 0,
    };
    ahead.on_greeting(behind, 9 * S);
    compare(&ahead);
    let number = ahead.comparison().unwrap().changes;
    (0..2).for_each(|core| _ = ahead.other_compared(number, core, 2));
    let handing = ahead.word().changes;
    (0..2).for_each(|core| ahead.drained(handing, core));
    assert_eq!(
        ahead.record_of(PairMode::Paired).pairings,
        known[0] + 1,
        "counted before the other node knows"
    );
    record(&ahead);
    assert_eq!(
        (ahead.mode(), ahead.pairings()),
        (PairMode::Paired, [known[0] + 1; 2])
    );
    // The same process connects again later.
    ahead.on_greeting(behind, 10 * S);
    assert_eq!(ahead.pairings(), [known[0] + 1; 2]);
}

#[test]
fn a_node_reports_no_empty_namespace_once_it_may_get_records() {
    let node = pair(1);
    node.started(without(2, PairMode::Paired));
    assert_eq!(node.greeting(1).empty_namespaces, 2);
    hear(&node, PairMode::Ahead, S);
    assert_eq!(
        (node.mode(), node.greeting(1).empty_namespaces),
        (PairMode::Behind, 0)
    );
    for recorded in [PairMode::Ahead, PairMode::Behind] {
        let node = pair(1);
        node.started(without(2, recorded));
        assert_eq!(
            (node.mode(), node.greeting(1).empty_namespaces),
            (recorded, 0)
        );
    }
}

#[test]
fn outdated_messages_and_messages_of_an_earlier_process_are_ignored() {
    let pair = pair(1);
    let word = |mode, changes| ModeVersion { mode, changes };
    assert_eq!(greet(&pair, 7, word(PairMode::Paired, 4094), S), None);
    assert_eq!(
        pair.on_mode_reported(7, word(PairMode::Ahead, 4095), S),
        Some(PairMode::Behind)
    );
    record(&pair);
    compare(&pair);
    for (process, mode, changes) in [
        (7, PairMode::Paired, 4094),
        (6, PairMode::Paired, 1),
        (7, PairMode::Handing, 0),
    ] {
        assert_eq!(
            (
                pair.on_mode_reported(process, word(mode, changes), S),
                pair.mode()
            ),
            (None, PairMode::Behind)
        );
    }
    assert_eq!(
        pair.on_mode_reported(7, word(PairMode::Paired, 1), S),
        Some(PairMode::Paired)
    );
}

#[test]
fn a_comparison_of_other_mode_changes_does_not_pair_a_node() {
    let behind = |compares: bool, number| {
        let pair = pair(1);
        greet(
            &pair,
            7,
            ModeVersion {
                mode: PairMode::Ahead,
                changes: number,
            },
            S,
        );
        record(&pair);
        if compares {
            compare(&pair);
        }
        pair.on_mode_reported(
            7,
            ModeVersion {
                mode: PairMode::Paired,
                changes: 9,
            },
            S,
        )
    };
    assert_eq!(
        [behind(true, 7), behind(false, 7), behind(true, 5)],
        [Some(PairMode::Paired), None, None]
    );
    let begins = pair(1);
    begins.started(found(Some(PairMode::Behind), true, false));
    assert_eq!(
        greet(
            &begins,
            7,
            ModeVersion {
                mode: PairMode::Paired,
                changes: 2
            },
            S
        ),
        None
    );
}

#[test]
fn other_clusters_have_no_takeover() {
    let nodes: Vec<_> = (0..3)
        .map(|port| ClusterNode::new("127.0.0.1", port))
        .collect();
    let all = [
        (nodes.clone(), true),
        (nodes[..2].to_vec(), false),
        (nodes[..1].to_vec(), true),
    ];
    for (nodes, has_copies) in all {
        let pair = NodePair::new(&Cluster::new(nodes, 0), has_copies, 1);
        assert_eq!(
            (
                hear(&pair, PairMode::Ahead, S),
                takeover(&pair, S, Some(S)),
                pair.mode()
            ),
            (None, None, PairMode::Paired)
        );
        assert_eq!(
            (pair.started(found(None, false, true)), pair.begin_record()),
            (None, None)
        );
    }
}
