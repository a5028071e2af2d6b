//! Two nodes, told what happens.

use super::*;
use crate::server::Node;

const S: u64 = SECOND_NS;

fn with(own: usize, is_durable: bool) -> Pair {
    let nodes = [3000, 3001].map(|port| Node::new("127.0.0.1", port)).to_vec();
    let pair = Pair::new(&Cluster::new(nodes, own), true, is_durable, 2);
    assert_eq!(pair.started(Some(Mode::Paired), true, false), None);
    pair
}

fn pair(own: usize) -> Pair {
    with(own, false)
}

/// The only process of the other node says this.
fn hear(pair: &Pair, mode: Mode, now_ns: u64) -> Option<Mode> {
    let changes = lock(&pair.words).word.map_or(0, |word| word.next(mode).changes);
    greet(pair, 7, Word { mode, changes }, now_ns)
}

fn greet(pair: &Pair, process: u64, word: Word, now_ns: u64) -> Option<Mode> {
    pair.greeted(process, word, now_ns)
}

/// Records this node's mode, if it has to.
fn record(pair: &Pair) -> Option<Mode> {
    let mode = pair.begin_record();
    mode.and_then(|mode| pair.end_record(Some(mode)))
}

/// Looks every 100 ms from `from_ns` on; when it takes over, if that is within a minute.
fn takeover(pair: &Pair, from_ns: u64, refused_ns: Option<u64>) -> Option<u64> {
    let looks = (from_ns..from_ns + 60 * S).step_by(S as usize / 10);
    looks.into_iter().find(|now_ns| pair.look(*now_ns, refused_ns.filter(|since_ns| since_ns <= now_ns)).is_some())
}

fn paired(own: usize) -> Pair {
    let pair = pair(own);
    assert_eq!(hear(&pair, Mode::Starting, S), Some(Mode::Paired));
    pair
}

#[test]
fn silence_lets_the_first_node_take_over_and_the_second_never() {
    assert_eq!(takeover(&paired(0), S, None), Some(4 * S + S / 10));
    assert_eq!(takeover(&paired(1), S, None), None);
    // Not a node that was itself stopped.
    let first = paired(0);
    first.look(S, None);
    assert_eq!(first.look(20 * S, None), None);
    assert_eq!(takeover(&first, 20 * S, None), Some(23 * S + S / 10));
}

#[test]
fn a_refused_connection_lets_either_take_over_unless_the_other_says_something() {
    for own in [0, 1] {
        let pair = paired(own);
        assert_eq!((takeover(&pair, S, Some(2 * S)), pair.mode()), (Some(3 * S), Mode::Ahead));
        let pair = paired(own);
        pair.core_ended(1);
        assert_eq!((takeover(&pair, S, Some(2 * S)), pair.mode()), (Some(3 * S), Mode::Alone));
        let pair = paired(own);
        assert_eq!((pair.look(2 * S, None), hear(&pair, Mode::Paired, 2 * S + S / 2)), (None, None));
        assert_eq!(pair.look(3 * S, Some(2 * S)), None, "it still said something");
        assert_eq!(pair.look(3 * S + S / 2, Some(2 * S)), Some(2 * S + S / 2));
    }
}

#[test]
fn a_starting_node_never_takes_over_and_follows_one_that_is_ahead() {
    assert_eq!(takeover(&pair(0), S, Some(S)), None);
    let starting = pair(0);
    assert_eq!(hear(&starting, Mode::Alone, S), None, "it may go ahead before it hears of this node");
    assert_eq!(hear(&starting, Mode::Ahead, S), Some(Mode::Behind));
    assert_eq!((hear(&starting, Mode::Starting, S), takeover(&starting, S, Some(S))), (None, None));
}

#[test]
fn a_node_alone_gives_back_what_it_took_until_its_first_write() {
    let pair = paired(0);
    pair.core_ended(1);
    takeover(&pair, S, Some(S)).unwrap();
    assert_eq!(hear(&pair, Mode::Starting, 9 * S), Some(Mode::Paired));
    assert!(!pair.must_wait() && pair.on_write().is_none() && !pair.must_record());
    takeover(&pair, 9 * S, None).unwrap();
    assert_eq!((pair.mode(), pair.on_write(), pair.on_write()), (Mode::Alone, Some(Mode::Ahead), None));
    assert!(pair.must_wait() && pair.must_record());
    assert_eq!(hear(&pair, Mode::Paired, 20 * S), None);
    assert_eq!((pair.begin_record(), pair.begin_record()), (Some(Mode::Ahead), None));
    assert!(!pair.must_record() && pair.must_wait());
    assert_eq!(pair.end_record(None), None);
    assert!(pair.must_record() && pair.must_wait());
    record(&pair);
    assert!(!pair.must_record() && !pair.must_wait());
    let again = super::tests::pair(0);
    assert_eq!(again.started(Some(Mode::Ahead), true, false), Some(Mode::Ahead));
    assert_eq!((again.must_wait(), hear(&again, Mode::Starting, S)), (false, None));
}

#[test]
fn a_process_that_did_not_end_in_order_lacks_records_unless_all_are_on_the_device() {
    let greeted = |is_durable: bool, ended: u64| {
        let pair = with(0, is_durable);
        let starting = Word { mode: Mode::Starting, changes: 0 };
        assert_eq!(greet(&pair, 7, starting, S), Some(Mode::Paired));
        assert_eq!(greet(&pair, 7, starting, S), None, "another core");
        (0..ended).for_each(|_| pair.core_ended(2));
        greet(&pair, 8, starting, 2 * S);
        pair.mode()
    };
    assert_eq!(
        [(false, 0), (false, 1), (false, 2), (true, 0)].map(|(durable, ended)| greeted(durable, ended)),
        [Mode::Ahead, Mode::Ahead, Mode::Paired, Mode::Paired]
    );
}

#[test]
fn a_node_without_records_or_with_losses_gets_those_of_the_other() {
    let started = |own, recorded, records, damaged| {
        let pair = pair(own);
        pair.started(recorded, records, damaged);
        pair
    };
    let fresh = |own| started(own, None, false, false);
    let damaged = |own| started(own, Some(Mode::Paired), true, true);
    let behind = |own| started(own, Some(Mode::Behind), true, true);
    let full = |own| started(own, None, true, false);
    let (ahead, gets) = (Some(Mode::Ahead), Some(Mode::Behind));
    for own in [0, 1] {
        for (node, other, mode) in [
            (fresh(own), Mode::Fresh, ahead.filter(|_| own == 0)),
            (fresh(own), Mode::Starting, gets),
            (fresh(own), Mode::Damaged, None),
            (fresh(own), Mode::Behind, None),
            (full(own), Mode::Fresh, ahead),
            (full(own), Mode::Damaged, ahead),
            (full(own), Mode::Behind, ahead),
            (damaged(own), Mode::Fresh, ahead),
            (damaged(own), Mode::Starting, gets),
            (damaged(own), Mode::Paired, gets),
            (damaged(own), Mode::Damaged, None),
            (behind(own), Mode::Starting, None),
            (behind(own), Mode::Fresh, None),
        ] {
            let before = node.mode();
            assert_eq!(hear(&node, other, S), mode, "{before:?} {own} hears {other:?}");
        }
    }
}

#[test]
fn words_that_were_overtaken_and_those_of_an_earlier_process_count_for_nothing() {
    let (pair, word) = (pair(1), |mode, changes| Word { mode, changes });
    assert_eq!(greet(&pair, 7, word(Mode::Paired, 4095), S), Some(Mode::Paired));
    assert_eq!(pair.heard(7, word(Mode::Ahead, 1), S), Some(Mode::Behind));
    assert_eq!((pair.heard(7, word(Mode::Paired, 4095), S), pair.mode()), (None, Mode::Behind));
    assert_eq!((pair.heard(6, word(Mode::Paired, 2), S), pair.mode()), (None, Mode::Behind));
    assert_eq!(pair.heard(7, word(Mode::Paired, 2), S), Some(Mode::Paired));
}

#[test]
fn other_clusters_have_no_takeover() {
    let nodes: Vec<_> = (0..3).map(|port| Node::new("127.0.0.1", port)).collect();
    let all = [(nodes.clone(), true), (nodes[..2].to_vec(), false), (nodes[..1].to_vec(), true)];
    for (nodes, has_copies) in all {
        let pair = Pair::new(&Cluster::new(nodes, 0), has_copies, false, 1);
        assert_eq!((hear(&pair, Mode::Ahead, S), takeover(&pair, S, Some(S)), pair.mode()), (None, None, Mode::Paired));
        assert_eq!((pair.started(None, false, true), pair.begin_record()), (None, None));
    }
}
