//! A page and its descriptions as Linux 6.18 on x86-64 wrote them, against the output of `trace`.
//!
//! Recorded on a loop device (7:1), one CPU: a read of 4,096 bytes at 8,192; 0.3 s later, which takes
//! a time extend, a read of 1,536 at 65,536; a write of 512 at 512.

use super::event::Decoder;
use super::page::{Gap, PageLayout};
use super::{Event, EventKind, EventOp};

const PAGE: &[u8] = include_bytes!("recorded/page.bin");
const HEADER_PAGE: &str = include_str!("recorded/header_page.txt");
const ISSUE: &str = include_str!("recorded/block_rq_issue_format.txt");
const COMPLETE: &str = include_str!("recorded/block_rq_complete_format.txt");

#[test]
fn a_recorded_page_says_what_the_kernel_printed() {
    if cfg!(target_endian = "big") {
        return eprintln!("skipped: the page was recorded on a little-endian machine");
    }
    let layout = PageLayout::parse(HEADER_PAGE).unwrap();
    let decoder =
        Decoder::new(&[(EventKind::Issue, ISSUE.to_owned()), (EventKind::Complete, COMPLETE.to_owned())]).unwrap();
    let mut events = Vec::new();
    let gap = layout
        .records(PAGE, |time_ns, record| {
            events.extend(decoder.decode(time_ns, 0, record).expect("a whole record"));
        })
        .unwrap();
    assert_eq!(gap, Gap::None);

    // The kernel printed times rounded to microseconds.
    let seen: Vec<_> = events
        .iter()
        .map(|event| ((event.time_ns + 500) / 1_000, event.kind, event.op, event.sector, event.sectors))
        .collect();
    let expected = [
        (11_406_325_476, EventKind::Issue, EventOp::Read, 16, 8),
        (11_406_325_515, EventKind::Complete, EventOp::Read, 16, 8),
        (11_406_625_770, EventKind::Issue, EventOp::Read, 128, 3),
        (11_406_625_820, EventKind::Complete, EventOp::Read, 128, 3),
        (11_406_625_862, EventKind::Issue, EventOp::Write, 1, 1),
        (11_406_625_895, EventKind::Complete, EventOp::Write, 1, 1),
    ];
    assert_eq!(seen, expected);
    let alike = |event: &Event| event.device == (7, 1) && event.sync && !event.fua && !event.preflush;
    assert!(events.iter().all(|event| alike(event) && event.error == 0), "{events:?}");
}
