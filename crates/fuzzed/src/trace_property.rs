//! Properties of block traces as text, of their replay, and of pages of the kernel's trace, with arbitrary bytes.

use crate::assert_one_line;
use device::observe::trace::{
    BlockRequest, EventKind, Pairing, TextError, TraceText, page_events, sort_by_time,
};
use load::factor::Factor;
use load::replay::TraceBuilder;
use std::io::{self, Read};

/// Reader that returns a few bytes at a time, like a pipe.
struct Pieces<'a>(&'a [u8]);

impl Read for Pieces<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let len = out.len().min(7);
        self.0.read(&mut out[..len])
    }
}

fn requests(input: impl Read) -> (Result<TraceText, TextError>, Vec<BlockRequest>) {
    let mut found = Vec::new();
    (
        TraceText::read(input, &mut |request| found.push(request)),
        found,
    )
}

/// Reads `bytes` as a trace and builds its replay. Returns true for a trace.
pub(crate) fn assert_trace_property(bytes: &[u8]) -> bool {
    let (facts, found) = requests(bytes);
    let (facts_of_pieces, found_in_pieces) = requests(Pieces(bytes));
    assert_eq!(found, found_in_pieces);
    let facts = match (facts, facts_of_pieces) {
        (Ok(facts), Ok(facts_of_pieces)) => {
            assert_eq!(facts, facts_of_pieces);
            facts
        }
        (Err(error), Err(in_pieces)) => {
            assert_one_line(&error.to_string());
            assert_eq!(error.to_string(), in_pieces.to_string());
            assert!(found.is_empty());
            return false;
        }
        results => panic!("the trace is read differently in pieces: {results:?}"),
    };
    assert!(
        facts.unread_lines <= facts.lines
            && (facts.unread_lines == 0) == facts.first_unread.is_none()
    );
    assert!(
        facts.without_size.max(facts.without_time) <= found.len() as u64,
        "{facts:?}"
    );
    let mut builder = TraceBuilder::default();
    for request in &found {
        if let Err(error) = builder.add(request) {
            assert_one_line(&error.to_string());
            return true;
        }
    }
    match builder.build(Factor::RECOMMENDED) {
        Err(error) => assert_one_line(&error.to_string()),
        Ok(trace) => {
            assert_eq!(trace.operations + trace.left_out, found.len() as u64);
            let operations = trace.operations;
            let largest = trace.largest_bytes();
            let sums = trace.classes().into_iter().map(|class| trace.totals(class));
            let (counted, bytes) = sums.fold((0, 0), |(ops, bytes), (more, moved)| {
                (ops + more, bytes + moved)
            });
            assert!(
                counted == operations && bytes >= largest,
                "{counted} operations of {bytes} bytes"
            );
        }
    }
    true
}

/// Minimum bytes of a record with an event: its header, and the event's type and process.
const EVENT_BYTES: usize = 8;

/// Reads the events in a page, and pairs them. Returns true if there are events. An input has four parts, separated by
/// zero bytes: the text of `events/header_page`, the format of the issue event, the format of the completion event, and
/// the page.
pub(crate) fn assert_trace_page_property(bytes: &[u8]) -> bool {
    let mut parts = bytes.splitn(4, |byte| *byte == 0);
    let mut text = || String::from_utf8_lossy(parts.next().unwrap_or_default()).into_owned();
    let header = text();
    let formats = [(EventKind::Issue, text()), (EventKind::Complete, text())];
    let page = parts.next().unwrap_or_default();
    match page_events(&header, &formats, page) {
        Err(error) => {
            assert_one_line(&error);
            false
        }
        Ok(mut events) => {
            assert!(
                events.len() * EVENT_BYTES <= page.len(),
                "{} events in {} bytes",
                events.len(),
                page.len()
            );
            sort_by_time(&mut events);
            let mut pairing = Pairing::default();
            events.iter().for_each(|event| pairing.add(event));
            pairing.finish();
            assert!(
                pairing.requests().len() <= events.len(),
                "{} events, {:?}",
                events.len(),
                pairing.requests()
            );
            !events.is_empty()
        }
    }
}
