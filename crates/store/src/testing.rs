//! Helpers for tests of record engines.

use crate::StoreSpace;
use crate::object::{RecordSpec, ValueType};
use engine::{IoEngine, Wait};
use sys::buffer::Buf;
use sys::op::{Completion, Op, OpKind, Outcome};

pub(crate) fn records(bins: u16, value: ValueType) -> RecordSpec {
    RecordSpec {
        set: (*b"set").into(),
        bins,
        value,
        single_bin: false,
        replace: false,
        began: 170_000_000_000,
    }
}

/// The first 2 MiB of a drive with sectors of 512 bytes.
pub(crate) fn space() -> StoreSpace {
    StoreSpace {
        target: 0,
        range: 0..2 << 20,
        marks_offset: 32 << 20,
        min_io_bytes: 512,
        write_unit_bytes: 512,
        id: 9,
    }
}

/// Performs `kind` on keys 0 to `keys` - 1, at most `in_flight` at once. Returns the results in the order of the keys.
pub(crate) fn all(
    engine: &mut impl IoEngine<Op = Op, Completion = Completion>,
    kind: OpKind,
    keys: u64,
    in_flight: usize,
) -> Vec<Outcome> {
    let mut next = 0;
    let mut out = Vec::new();
    let mut outcomes = vec![None; keys as usize];
    while outcomes.contains(&None) {
        while next < keys && engine.in_flight() < in_flight {
            let buf = Buf::empty();
            let token = next as u32;
            engine.submit(Op {
                token,
                ..Op::new(kind, next, 0, buf)
            });
            next += 1;
        }
        let until_ns = engine.now() + 10_000_000;
        engine
            .reap(
                Wait {
                    until_ns,
                    completions: 8,
                },
                &mut out,
            )
            .unwrap();
        for completion in out.drain(..) {
            assert!(
                completion.issued_ns <= completion.completed_ns
                    && completion.completed_ns <= engine.now()
            );
            let before = outcomes[completion.token as usize].replace(completion.outcome);
            assert_eq!(before, None, "each ends once");
        }
    }
    assert_eq!(engine.in_flight(), 0);
    outcomes.into_iter().flatten().collect()
}
