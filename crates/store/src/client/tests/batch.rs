//! Batch reads, and reads from replicas.

use super::fake::{FaultMode, ReplyHook, Server};
use super::*;
use crate::wire::frame::{self, FrameKind};
use crate::wire::message;
use crate::{Reply, ResultCode};
use results::judge::Refused;
use std::io::Write;

const RECORDS: u32 = 5;

/// Makes each read a batch of five records: the key of the operation, then keys 0 to 19 in turn.
fn batches(settings: &mut ClientSettings) {
    settings.batch = Some(BatchReads {
        records: RECORDS,
        keys: Arc::new(|_, _| -> KeySource {
            let mut next = 0;
            Box::new(move || {
                next = (next + 1) % 20;
                next
            })
        }),
    });
}

/// Two servers that know each other. Each is master of half of the partitions, and replica of the other half.
fn pair() -> [Server; 2] {
    let half = |first: u8, second: u8| BASE64.encode([[first; 256], [second; 256]].concat());
    let first = half(255, 0);
    let second = half(0, 255);
    let one = Server::with("A1", &format!("{first},{second}"));
    let other = Server::with("A2", &format!("{second},{first}"));
    one.names(&[("A2", other.address)]);
    other.names(&[("A1", one.address)]);
    [one, other]
}

fn replicate([one, other]: &[Server; 2]) {
    let all: Vec<_> = [one, other]
        .iter()
        .flat_map(|server| server.state.records.lock().unwrap().clone())
        .collect();
    [one, other]
        .iter()
        .for_each(|server| server.state.records.lock().unwrap().extend(all.clone()));
}

#[test]
fn a_batch_is_read_from_all_its_nodes_and_each_record_is_verified() {
    let Some(()) = ring() else { return };
    let servers = pair();
    let mut client = servers[0].client_as(PATIENT_MS, batches);
    succeed(&mut client, OpKind::Write, 20);
    let before: u32 = servers.iter().map(Server::requests).sum();
    succeed(&mut client, OpKind::Read, 20);
    let requests = servers.iter().map(Server::requests).sum::<u32>() - before;
    assert!(
        (20..=40).contains(&requests),
        "one or two for each: {requests}"
    );
    assert_eq!(
        client.settings.verification.take().records,
        u64::from(20 * RECORDS)
    );
    // Records 0 and 1 are now old. Batches for other keys may also contain these two records.
    for server in &servers {
        server.set(FaultMode::Forgets);
    }
    all(&mut client, OpKind::Write, 2, 1);
    servers
        .iter()
        .for_each(|server| server.set(FaultMode::Serves));
    let outcomes = all(&mut client, OpKind::Read, 20, 8);
    let old = |key| Outcome::Wrong {
        key,
        wrong: WrongRecord::Old {
            acknowledged: 2,
            found: 1,
        },
    };
    assert!(
        outcomes[2..]
            .iter()
            .all(|outcome| outcome.is_done() || [old(0), old(1)].contains(outcome)),
        "{outcomes:?}"
    );
    // The batches of operations 0 and 1 each contain an old record.
    assert!(
        outcomes[..2]
            .iter()
            .all(|outcome| [old(0), old(1)].contains(outcome)),
        "{outcomes:?}"
    );
    assert!(
        outcomes[2..].iter().any(|outcome| !outcome.is_done()),
        "in a batch of another key: {outcomes:?}"
    );
    let read = client.settings.verification.take();
    assert_eq!(read.records, u64::from(20 * RECORDS));
    assert_eq!(
        read.refused,
        Some(Refused {
            old: 2,
            ..Refused::default()
        })
    );
}

/// Answers each message with an entry for each (position, code), and a last entry if `last` has a code.
fn entries(entries: &'static [(u32, u8)], last: Option<u8>) -> ReplyHook {
    Arc::new(move |kind, _, out: &mut dyn Write| {
        let mut bytes = Vec::new();
        let begin = frame::begin(&mut bytes, FrameKind::Message);
        entries.iter().for_each(|(index, code)| {
            message::put_entry(&mut bytes, *index, &Reply::with_result(ResultCode(*code)))
        });
        last.iter()
            .for_each(|code| message::put_last(&mut bytes, ResultCode(*code)));
        frame::end(&mut bytes, begin);
        (kind == FrameKind::Message).then(|| out.write_all(&bytes).is_ok())
    })
}

#[test]
fn a_batch_with_a_wrong_or_missing_reply_fails_and_the_next_is_read() {
    let Some(()) = ring() else { return };
    const ALL: &[(u32, u8)] = &[(0, 1), (1, 1), (2, 1), (3, 1), (4, 1)];
    let protocol = Outcome::Errno(libc::EPROTO);
    let server = Server::new();
    let mut client = server.client_as(3_000, |settings| {
        batches(settings);
        settings.pipeline = 1;
    });
    all(&mut client, OpKind::Write, 20, 8);
    for (lie, last, outcome) in [
        (&[(5, 1)][..], Some(0), protocol),
        (&[(u32::MAX, 1)], None, protocol),
        // The first reply ends too early. The second has no entries.
        (&[], Some(0), protocol),
        (&[], None, protocol),
        // An error of a record takes precedence over the error of its batch.
        (&[(0, 1), (0, 1)], Some(0), Outcome::Result(1)),
        (&[(0, 1)], Some(0), Outcome::Result(1)),
        (&[(0, 1)], None, Outcome::Result(1)),
        (&[], Some(151), Outcome::Result(151)),
        (ALL, Some(0), Outcome::Result(1)),
    ] {
        *server.state.liar.lock().unwrap() = Some(entries(lie, last));
        let found = all(&mut client, OpKind::Read, 3, 3);
        assert_eq!(found, [outcome; 3], "{lie:?} {last:?}");
        *server.state.liar.lock().unwrap() = None;
        assert!(
            all(&mut client, OpKind::Read, 20, 8)
                .iter()
                .all(|outcome| outcome.is_done()),
            "after {lie:?} {last:?}"
        );
    }
}

#[test]
fn reads_go_to_the_nodes_of_the_policy_and_writes_to_the_master() {
    let Some(()) = ring() else { return };
    let servers = pair();
    *servers[0].state.racks.lock().unwrap() = "other:9;test:1".to_owned();
    *servers[1].state.racks.lock().unwrap() = "other:9;test:2".to_owned();
    for batch in [false, true] {
        let mut masters = [0; 2];
        let cases = ["master", "any", "sequence", "prefer-rack", "prefer-rack"]
            .map(|text| text.parse().unwrap());
        for (replica, rack) in cases.into_iter().zip([0, 0, 0, 2, 7]) {
            let mut client = servers[0].client_as(PATIENT_MS, |settings| {
                (settings.replica, settings.rack) = (replica, Some(rack));
                if batch {
                    batches(settings);
                }
            });
            let counted = |client: &mut Client, kind| {
                let before = servers.each_ref().map(Server::requests);
                assert!(
                    all(client, kind, 200, 8)
                        .iter()
                        .all(|outcome| outcome.is_done()),
                    "{kind} {replica:?}"
                );
                [0, 1].map(|at| servers[at].requests() - before[at])
            };
            let written = counted(&mut client, OpKind::Write);
            replicate(&servers);
            let read = counted(&mut client, OpKind::Read);
            if replica == Replica::Master {
                masters = written;
            }
            assert!(
                written == masters && written.iter().sum::<u32>() == 200,
                "{replica:?}: {written:?}"
            );
            match replica {
                Replica::PreferRack if rack == 2 => assert_eq!(read, [0, 200], "{batch}"),
                Replica::Any if !batch => assert!(
                    read.iter().all(|count| (70..=130).contains(count)),
                    "{read:?}"
                ),
                _ if batch => assert!(
                    read.iter().all(|count| (100..=200).contains(count)),
                    "{replica:?}: {read:?}"
                ),
                _ => assert_eq!(read, masters, "{replica:?}"),
            }
        }
    }
}

#[test]
fn a_failed_read_goes_to_another_node_and_is_answered_once() {
    let Some(()) = ring() else { return };
    for batch in [false, true] {
        for replica in [Replica::Sequence, Replica::Any, Replica::PreferRack] {
            let servers = pair();
            let mut client = servers[0].client_as(PATIENT_MS, |settings| {
                settings.replica = replica;
                if batch {
                    batches(settings);
                }
            });
            all(&mut client, OpKind::Write, 60, 8);
            replicate(&servers);
            servers[1].set(FaultMode::Refuses(11));
            let outcomes = all(&mut client, OpKind::Read, 60, 8);
            assert!(
                outcomes.iter().all(|outcome| outcome.is_done()),
                "{replica:?} {batch}: {outcomes:?}"
            );
            let [one, other] = servers;
            drop(other);
            for _ in 0..3 {
                let outcomes = all(&mut client, OpKind::Read, 60, 8);
                assert!(
                    outcomes.iter().all(|outcome| outcome.is_done()),
                    "{replica:?} {batch}: {outcomes:?}"
                );
            }
            one.set(FaultMode::Refuses(11));
            let mut client = one.client_as(1_000, |settings| settings.replica = replica);
            let outcomes = all(&mut client, OpKind::Read, 8, 8);
            let is_refused = |outcome: &Outcome| {
                matches!(
                    outcome,
                    Outcome::Result(11) | Outcome::Errno(libc::ETIMEDOUT | libc::ECONNREFUSED)
                )
            };
            assert!(
                outcomes.iter().all(is_refused),
                "no endless tries: {outcomes:?}"
            );
        }
    }
}
