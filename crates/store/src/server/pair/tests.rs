//! Tests of the mode of one node, driven by events.

use super::*;
use crate::server::ClusterNode;
use PairMode::*;
use results::testing::modified;

const S: u64 = SECOND_NS;

fn pair(own: usize) -> NodePair {
    let nodes = [3000, 3001]
        .map(|port| ClusterNode::new("127.0.0.1", port))
        .to_vec();
    let pair = NodePair::new(&Cluster::new(nodes, own), true, 2);
    assert_eq!(pair.started(found(Some(Paired), true, false)), None);
    pair
}

/// Contents of the devices of four namespaces. `is_damaged`: a store has losses.
fn found(recorded: Option<PairMode>, has_records: bool, is_damaged: bool) -> DeviceContents {
    let recorded = recorded.map(|mode| mode_record(mode, 0, 0, 0));
    let devices = identity(0, is_damaged.into());
    DeviceContents {
        recorded,
        devices,
        replicated: 15,
        nonempty: if has_records { 15 } else { 0 },
    }
}

/// As [`found`], with records in all namespaces except those whose bits are set in `empty`.
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
    greet(pair, 7, version(mode, changes), now_ns)
}

fn greet(pair: &NodePair, process: u64, word: ModeVersion, now_ns: u64) -> Option<PairMode> {
    greet_without(pair, process, word, 0, now_ns)
}

/// As [`greet`], by a node without records in the namespaces whose bits are set in `empty`.
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

fn identity(device_sets: u64, lost_blocks: u64) -> DeviceIdentity {
    DeviceIdentity {
        device_sets,
        lost_blocks,
    }
}

fn mode_record(mode: PairMode, device_sets: u64, lost_blocks: u64, pairings: u64) -> ModeRecord {
    let devices = identity(device_sets, lost_blocks);
    ModeRecord {
        mode,
        devices,
        pairings,
    }
}

fn greeting(process: u64, mode_version: ModeVersion, pairings: u64) -> Greeting {
    Greeting {
        process,
        mode_version,
        empty_namespaces: 0,
        pairings,
    }
}

fn version(mode: PairMode, changes: u16) -> ModeVersion {
    ModeVersion { mode, changes }
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
    assert_eq!(hear(&pair, Ahead, S), Some(Behind));
    record(&pair);
    compare(&pair);
    assert_eq!(hear(&pair, Handing, S), None);
    assert_eq!(hear(&pair, Paired, S), Some(Paired));
    pair.answered(7, version(Paired, 2), S);
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
        assert_eq!(takeover(&pair, S, Some(2 * S)), Some(3 * S));
        assert_eq!(pair.mode(), Ahead);
        let pair = paired(own);
        assert_eq!(pair.check_takeover(2 * S, None), None);
        assert_eq!(hear(&pair, Paired, 2 * S + S / 2), None);
        let found = pair.check_takeover(3 * S, Some(2 * S));
        assert_eq!(found, None, "it still said something");
        let found = pair.check_takeover(3 * S + S / 2, Some(2 * S));
        assert_eq!(found, Some(2 * S + S / 2));
    }
}

#[test]
fn the_second_node_does_not_take_over_if_the_first_node_may_have_taken_over_before_it_died() {
    let after_lease = Some(4 * S + 1);
    let found = takeover(&paired(0), S, after_lease);
    assert_eq!(found, Some(4 * S + S / 10), "by silence");
    assert_eq!(takeover(&paired(1), S, after_lease), None);
    let second = paired(1);
    second.answered(7, version(Deciding, 2), 3 * S);
    let found = takeover(&second, S, after_lease);
    assert_eq!(found, None, "it answered, but not as one of a pair");
    second.answered(7, version(Paired, 2), 3 * S);
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
        assert_eq!((node.leave(), node.leave()), (Some(Leaving), None));
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
        assert_eq!(hear(&other, node.reported_mode().mode, 2 * S), Some(Ahead));
        assert_eq!(hear(&node, Deciding, 2 * S), None);
        assert!(node.is_relieved());
        assert_eq!(hear(&node, Ahead, 2 * S), None);
        assert_eq!(takeover(&node, 2 * S, Some(2 * S)), None);
    }
    // Nobody can take over from a node that is ahead.
    let alone = paired(0);
    takeover(&alone, S, None).unwrap();
    assert!(!alone.may_leave(9 * S));
    assert_eq!(alone.leave(), None);
    assert!(alone.is_relieved());
}

#[test]
fn a_starting_node_never_takes_over_and_follows_a_node_that_is_ahead() {
    assert_eq!(takeover(&pair(0), S, Some(S)), None);
    let starting = pair(0);
    assert_eq!(
        hear(&starting, Deciding, S),
        None,
        "it may die before it has recorded that it is ahead"
    );
    assert_eq!(hear(&starting, Ahead, S), Some(Behind));
    assert_eq!(hear(&starting, Starting, S), None);
    assert_eq!(takeover(&starting, S, Some(S)), None);
}

#[test]
fn a_takeover_is_reported_once_it_is_recorded_and_survives_a_restart() {
    let pair = paired(0);
    record(&pair);
    takeover(&pair, S, None).unwrap();
    assert!(pair.must_wait(pair.word()) && pair.must_record());
    assert_eq!((pair.mode(), pair.reported_mode().mode), (Ahead, Deciding));
    // Without a write, the other node has all records, too.
    assert_eq!(pair.begin_record(), Some(AheadUnused));
    pair.end_record(Some(AheadUnused));
    assert!(
        !pair.must_record() && pair.must_wait(pair.word()) && pair.reported_mode().mode == Ahead
    );
    pair.begin_use();
    assert_eq!(pair.reported_mode().mode, Ahead);
    assert_eq!(pair.begin_record(), Some(Ahead));
    assert_eq!(pair.begin_record(), None);
    assert!(!pair.must_record() && pair.must_wait(pair.word()));
    assert_eq!(pair.end_record(None), None);
    assert!(pair.must_record() && pair.must_wait(pair.word()));
    record(&pair);
    assert!(
        !pair.must_record() && !pair.must_wait(pair.word()) && pair.reported_mode().mode == Ahead
    );
    let again = super::tests::pair(0);
    assert_eq!(again.started(found(Some(Ahead), true, false)), Some(Ahead));
    assert!(!again.must_wait(again.word()));
    assert_eq!(hear(&again, Starting, S), None);
}

#[test]
fn partitions_are_handed_back_once_all_records_are_compared_and_no_write_is_in_flight() {
    let pair = paired(1);
    takeover(&pair, S, Some(2 * S)).unwrap();
    record(&pair);
    assert_eq!(pair.comparison(), None);
    greet(&pair, 8, version(Behind, 1), 9 * S);
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
    let found = pair.other_compared(number, 1, 2);
    assert_eq!(found, None, "of the comparison before");
    let number = pair.comparison().unwrap().changes;
    compare(&pair);
    pair.other_compared(number, 0, 2);
    assert_eq!(pair.other_compared(number, 0, 2), None, "the same core");
    assert_eq!(pair.other_compared(number, 1, 2), Some(Handing));
    assert!(pair.must_wait(pair.word()) && !pair.must_record());
    let handing = pair.word().changes;
    pair.drained(handing, 0);
    pair.drained(number, 1);
    assert!(!pair.must_record());
    pair.drained(handing, 1);
    assert_eq!((record(&pair), pair.mode()), (Some(Paired), Paired));
    // Records are compared with a new process, whatever mode the process reports.
    for (process, mode) in [(9, Starting), (10, Damaged)] {
        let pair = paired(1);
        greet(&pair, process, version(mode, 0), 9 * S);
        assert_eq!(pair.mode(), Ahead);
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
    let damaged = |own| started(own, Some(Paired), true, true);
    let behind = |own| started(own, Some(Behind), true, true);
    let maybe = |own| started(own, Some(Ahead), true, true);
    let full = |own| started(own, None, true, false);
    let ahead = Some(Ahead);
    let gets = Some(Behind);
    let first = |own| ahead.filter(|_| own == 0);
    for own in [0, 1] {
        for (node, other, mode) in [
            (fresh(own), Fresh, first(own)),
            (fresh(own), Starting, None),
            (fresh(own), Ahead, gets),
            (fresh(own), Behind, None),
            (full(own), Fresh, ahead),
            (full(own), Damaged, ahead),
            (full(own), MaybeAhead, None),
            (full(own), Behind, ahead),
            (full(own), Starting, first(own)),
            (damaged(own), Fresh, ahead),
            (damaged(own), Starting, None),
            (damaged(own), Ahead, gets),
            (damaged(own), Damaged, None),
            (damaged(own), MaybeAhead, None),
            (maybe(own), Starting, None),
            (maybe(own), Damaged, None),
            (maybe(own), Behind, None),
            (maybe(own), Fresh, ahead),
            (maybe(own), Ahead, gets),
            (paired(own), NewAhead, Some(Starting)),
            (
                paired(own),
                MaybeAhead,
                Some(if own == 0 { Ahead } else { Starting }),
            ),
            (behind(own), Starting, None),
            (behind(own), Fresh, None),
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
    let devices = identity(1, 0);
    pair.started(DeviceContents {
        devices,
        nonempty: 15 & !empty,
        ..found(recorded, true, false)
    });
    pair
}

#[test]
fn a_namespace_new_on_both_nodes_is_ignored_when_modes_are_decided() {
    let ahead = Some(Ahead);
    let first = |own| Some(Ahead).filter(|_| own == 0);
    for own in [0, 1] {
        for (recorded, empty, other, others, mode) in [
            (Paired, 2, New, 2, first(own)),
            (Paired, 2, New, 3, ahead),
            (Paired, 3, New, 2, None),
            (Paired, 2, New, 4, None),
            (Paired, 2, NewAhead, 2, None),
            (Paired, 2, Starting, 2, None),
            (Paired, 2, Behind, 2, None),
            (Paired, 2, Fresh, 3, ahead),
            (Paired, 2, Ahead, 0, Some(Behind)),
            (Ahead, 2, New, 2, ahead),
            (Ahead, 2, New, 4, None),
            (Ahead, 2, Starting, 2, ahead),
            // The other node has records of the namespace that is new here, and lacks other records.
            (Ahead, 2, Starting, 0, None),
            (Ahead, 2, NewAhead, 2, None),
            (Ahead, 2, Ahead, 0, None),
            (Damaged, 2, Damaged, 2, None),
            (MaybeAhead, 2, Starting, 2, None),
        ] {
            let node = new(own, Some(recorded), empty);
            let word = version(other, 1);
            let what = format!(
                "{:?} {own} without {empty} hears {other:?} without {others}",
                node.mode()
            );
            assert_eq!(greet_without(&node, 7, word, others, S), mode, "{what}");
        }
    }
    // The mode is the same after a restart, when the devices are not new any more.
    for (recorded, mode) in [(Paired, New), (Ahead, NewAhead)] {
        let node = new(0, Some(recorded), 2);
        assert_eq!(node.mode(), mode);
        assert_eq!(node.begin_record(), Some(mode));
        assert_eq!(node.greeting(1).empty_namespaces, 2);
        let again = pair(0);
        again.started(without(2, mode));
        assert_eq!(again.mode(), mode);
        assert_eq!(again.greeting(1).empty_namespaces, 2);
    }
}

#[test]
fn new_devices_and_losses_are_noticed_until_a_mode_is_recorded_with_them() {
    let now = identity(7, 3);
    let mode = |recorded: Option<ModeRecord>, full| {
        DeviceContents {
            recorded,
            devices: now,
            replicated: 6,
            nonempty: full,
        }
        .mode()
    };
    let with =
        |device_sets, lost_blocks| move |mode| Some(mode_record(mode, device_sets, lost_blocks, 1));
    let same = with(7, 3);
    let new = with(6, 3);
    let damaged = with(7, 2);
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
        let found = mode(recorded, full);
        assert_eq!(found, expected, "{recorded:?} with records in {full}");
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
    assert_eq!(mode(0), Some(Fresh));
    assert_eq!(mode(2), None);
    assert_eq!(mode(4), Some(MaybeAhead));
}

#[test]
fn a_recorded_mode_is_read_as_it_was_written() {
    let recorded = mode_record(NewAhead, u64::MAX - 1, 1 << 40, 9);
    assert_eq!(ModeRecord::read(&recorded.to_text()), Some(recorded));
    assert_eq!(ModeRecord::read(&[99; crate::NOTE_BYTES]), None);
}

#[test]
fn an_older_copy_never_wins_over_newer_records() {
    // A node with `own` pairings hears a new process of a node with `other` pairings.
    let hears = |place: usize, own: u64, recorded: PairMode, other: u64, mode: PairMode| {
        let node = pair(place);
        let of = modified(found(Some(recorded), true, false), |it| it.recorded = None);
        let record = mode_record(recorded, 0, 0, own);
        node.started(modified(of, |it| it.recorded = Some(record)));
        let mode_version = ModeVersion { mode, changes: 1 };
        let heard = node.on_greeting(greeting(7, mode_version, other), S);
        (heard, node.is_stuck(mode))
    };
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
    let behind = greeting(8, version(Behind, 1), 0);
    ahead.on_greeting(behind, 9 * S);
    compare(&ahead);
    let number = ahead.comparison().unwrap().changes;
    (0..2).for_each(|core| _ = ahead.other_compared(number, core, 2));
    let handing = ahead.word().changes;
    (0..2).for_each(|core| ahead.drained(handing, core));
    assert_eq!(
        ahead.record_of(Paired).pairings,
        known[0] + 1,
        "counted before the other node knows"
    );
    record(&ahead);
    assert_eq!(ahead.mode(), Paired);
    assert_eq!(ahead.pairings(), [known[0] + 1; 2]);
    // The same process connects again later.
    ahead.on_greeting(behind, 10 * S);
    assert_eq!(ahead.pairings(), [known[0] + 1; 2]);
}

#[test]
fn a_node_reports_no_empty_namespace_once_it_may_get_records() {
    let node = pair(1);
    node.started(without(2, Paired));
    assert_eq!(node.greeting(1).empty_namespaces, 2);
    hear(&node, Ahead, S);
    assert_eq!(node.mode(), Behind);
    assert_eq!(node.greeting(1).empty_namespaces, 0);
    for recorded in [Ahead, Behind] {
        let node = pair(1);
        node.started(without(2, recorded));
        assert_eq!(node.mode(), recorded);
        assert_eq!(node.greeting(1).empty_namespaces, 0);
    }
}

#[test]
fn outdated_messages_and_messages_of_an_earlier_process_are_ignored() {
    let pair = pair(1);
    assert_eq!(greet(&pair, 7, version(Paired, 4094), S), None);
    let found = pair.on_mode_reported(7, version(Ahead, 4095), S);
    assert_eq!(found, Some(Behind));
    record(&pair);
    compare(&pair);
    for (process, mode, changes) in [(7, Paired, 4094), (6, Paired, 1), (7, Handing, 0)] {
        assert_eq!(
            pair.on_mode_reported(process, version(mode, changes), S),
            None
        );
        assert_eq!(pair.mode(), Behind);
    }
    let found = pair.on_mode_reported(7, version(Paired, 1), S);
    assert_eq!(found, Some(Paired));
}

#[test]
fn a_node_that_is_behind_is_paired_only_after_a_complete_and_current_comparison() {
    let behind = |compares: bool, number| {
        let pair = pair(1);
        greet(&pair, 7, version(Ahead, number), S);
        record(&pair);
        if compares {
            compare(&pair);
        }
        pair.on_mode_reported(7, version(Paired, 9), S)
    };
    assert_eq!(behind(true, 7), Some(Paired));
    assert_eq!(behind(false, 7), None);
    assert_eq!(behind(true, 5), None);
    let begins = pair(1);
    begins.started(found(Some(Behind), true, false));
    assert_eq!(greet(&begins, 7, version(Paired, 2), S), None);
}

#[test]
fn only_clusters_of_two_nodes_with_two_copies_have_a_takeover() {
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
        assert_eq!(hear(&pair, Ahead, S), None);
        assert_eq!(takeover(&pair, S, Some(S)), None);
        assert_eq!(pair.mode(), Paired);
        assert_eq!(pair.started(found(None, false, true)), None);
        assert_eq!(pair.begin_record(), None);
    }
}
