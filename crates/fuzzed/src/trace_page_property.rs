//! Properties of a page of the kernel's trace, with arbitrary bytes.
//!
//! An input has the texts `events/header_page`, the formats of issue and of completion, and the page, with a zero byte
//! after each text.

use crate::assert_one_line;
use device::observe::trace::{EventKind, Pairing, page_events, sort_by_time};

/// Fewest bytes of a record with an event: its header, and the event's type and process.
const EVENT_BYTES: usize = 8;

/// Reads the events in a page, and pairs them. Returns true if there are some.
pub(crate) fn assert_trace_page_property(bytes: &[u8]) -> bool {
    let mut parts = bytes.splitn(4, |byte| *byte == 0);
    let mut text = || String::from_utf8_lossy(parts.next().unwrap_or_default()).into_owned();
    let (header, formats) = (text(), [(EventKind::Issue, text()), (EventKind::Complete, text())]);
    let page = parts.next().unwrap_or_default();
    match page_events(&header, &formats, page) {
        Err(error) => {
            assert_one_line(&error);
            false
        }
        Ok(mut events) => {
            assert!(events.len() * EVENT_BYTES <= page.len(), "{} events in {} bytes", events.len(), page.len());
            sort_by_time(&mut events);
            let mut pairing = Pairing::default();
            events.iter().for_each(|event| pairing.add(event));
            pairing.finish();
            assert!(pairing.requests().len() <= events.len(), "{} events, {:?}", events.len(), pairing.requests());
            !events.is_empty()
        }
    }
}
