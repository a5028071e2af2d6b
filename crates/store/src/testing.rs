//! Helper for tests of record engines.

use engine::{IoEngine, Wait};
use sys::buffer::Buf;
use sys::op::{Completion, Op, OpKind, Outcome};

/// Performs `kind` on keys 0 to `keys` - 1, at most `in_flight` at once. Returns the results in the order of the keys.
pub(crate) fn all(
    engine: &mut impl IoEngine<Op = Op, Completion = Completion>,
    kind: OpKind,
    keys: u64,
    in_flight: usize,
) -> Vec<Outcome> {
    let (mut next, mut out) = (0, Vec::new());
    let mut outcomes = vec![None; keys as usize];
    while outcomes.contains(&None) {
        while next < keys && engine.in_flight() < in_flight {
            let (buf, token) = (Buf::empty(), next as u32);
            engine.submit(Op { token, ..Op::new(kind, next, 0, buf) });
            next += 1;
        }
        let until_ns = engine.now() + 10_000_000;
        engine.reap(Wait { until_ns, completions: 8 }, &mut out).unwrap();
        for completion in out.drain(..) {
            assert!(completion.issued_ns <= completion.completed_ns && completion.completed_ns <= engine.now());
            let before = outcomes[completion.token as usize].replace(completion.outcome);
            assert_eq!(before, None, "each ends once");
        }
    }
    assert_eq!(engine.in_flight(), 0);
    outcomes.into_iter().flatten().collect()
}
