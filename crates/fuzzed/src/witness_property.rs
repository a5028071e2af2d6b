//! Properties of the messages to a witness of `check durability`, of the witness's file, and of sectors that are read
//! after a power cut.

use crate::assert_one_line;
use conclusions::durability::examine::{SlotContent, examine, find_session};
use conclusions::durability::session::{DurabilityMethod, SessionId, WriteLane};
use conclusions::durability::witness::{
    FILE_MARK, LINE_MAX, WitnessMessage, WitnessRecord, WitnessReply, WitnessSessions, line, parse,
};
use std::convert::Infallible;

/// Reads `bytes` as lines of two connections in turn, as a file, and as sectors. Returns true if a line was accepted.
pub(crate) fn assert_witness_property(bytes: &[u8]) -> bool {
    let mut register = WitnessSessions::default();
    let mut own = [None, None];
    let mut file = FILE_MARK.as_bytes().to_vec();
    for (number, received) in bytes
        .split(|byte| *byte == b'\n')
        .filter(|line| line.len() < LINE_MAX)
        .enumerate()
    {
        match parse::<WitnessMessage>(received) {
            Err(why) => assert_one_line(&why),
            Ok(WitnessMessage::Ask {
                format_version,
                subject,
                found,
            }) => {
                assert_reply(&register.answer(format_version, &subject, found));
            }
            Ok(message) => match register.change(&message, &mut own[number % 2]) {
                Ok(()) => {
                    file.extend_from_slice(&line(&message).expect("an accepted message is short"))
                }
                Err(why) => assert_one_line(&why),
            },
        }
        // A tester parses the replies of a witness.
        if let Ok(WitnessReply::Record(Some(record))) = parse::<WitnessReply>(received)
            && let Err(why) = record.check()
        {
            assert_one_line(&why);
        }
    }
    register.waiting().for_each(assert_record);
    let of = |register: &WitnessSessions| register.waiting().cloned().collect::<Vec<_>>();
    register.end();
    let (same, whole) = WitnessSessions::load(&file[..]).expect("a file of accepted lines");
    assert_eq!((of(&same), whole), (of(&register), file.len() as u64));
    let short_file = [
        FILE_MARK.as_bytes(),
        &register.lines().expect("accepted sessions are short"),
    ]
    .concat();
    let (same, whole) =
        WitnessSessions::load(&short_file[..]).expect("a file of the same sessions");
    assert_eq!((of(&same), whole), (of(&register), short_file.len() as u64));
    match WitnessSessions::load(bytes) {
        Ok((register, whole)) => {
            register.waiting().for_each(assert_record);
            assert!(whole <= bytes.len() as u64);
        }
        Err(why) => assert_one_line(&why),
    }
    assert_sectors(bytes);
    file.len() > FILE_MARK.len()
}

fn assert_record(record: &WitnessRecord) {
    record.check().expect("accepted records are in bounds");
    assert_reply(&WitnessReply::Record(Some(Box::new(record.clone()))));
}

fn assert_reply(reply: &WitnessReply) {
    assert_eq!(
        &parse::<WitnessReply>(&line(reply).expect("a reply is short")).unwrap(),
        reply
    );
}

/// Asserts that no acknowledged write is counted twice, for any bytes in its slot.
fn assert_sectors(bytes: &[u8]) {
    let session = find_session(bytes).map_or(SessionId(1), |(session, _)| session);
    let lane = WriteLane {
        mode: DurabilityMethod::Fsync,
        write_bytes: 1024,
        slots: 4,
        at: 0,
        scattered: bytes.len().is_multiple_of(2),
    };
    for acknowledged in [0, 3, 9] {
        let Ok(counts) = examine(
            session,
            0,
            &lane,
            acknowledged,
            |slot: u64, pass: &mut dyn FnMut(SlotContent<'_>)| {
                let from = bytes.len().min(slot as usize * 1024);
                pass(SlotContent::Bytes(
                    &bytes[from..bytes.len().min(from + 1024)],
                ));
                Ok::<_, Infallible>(())
            },
        );
        assert_eq!(counts.checked, counts.intact + counts.failed_writes());
        assert!(
            counts.checked <= acknowledged.min(4) && counts.reordered <= counts.failed_writes()
        );
    }
}
