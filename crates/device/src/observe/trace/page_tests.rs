//! Pages built by these tests, with known times and contents.

use super::*;

const HEADER_PAGE: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;
\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;
\tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;
\tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;
";

fn header(type_len: u32, delta: u32) -> Vec<u8> {
    let header = if cfg!(target_endian = "little") {
        delta << 5 | type_len
    } else {
        type_len << 27 | delta
    };
    header.to_ne_bytes().to_vec()
}

fn with_word(type_len: u32, delta: u32, word: u32) -> Vec<u8> {
    [header(type_len, delta), word.to_ne_bytes().to_vec()].concat()
}

fn data(delta: u32, content: &[u8]) -> Vec<u8> {
    assert_eq!(content.len() % 4, 0);
    [header(content.len() as u32 / 4, delta), content.to_vec()].concat()
}

fn page(time_ns: u64, flags: u64, records: &[Vec<u8>], after: &[u8]) -> Vec<u8> {
    let records = records.concat();
    let commit = records.len() as u64 | flags;
    let mut page = [
        &time_ns.to_ne_bytes()[..],
        &commit.to_ne_bytes(),
        &records,
        after,
    ]
    .concat();
    page.resize(4096, 0);
    page
}

/// Time and bytes of a record.
type Record = (u64, Vec<u8>);

fn read(page: &[u8]) -> Result<(Vec<Record>, bool), usize> {
    let mut records = Vec::new();
    let layout = PageLayout::parse(HEADER_PAGE).unwrap();
    let gap = layout.records(page, |time_ns, bytes| {
        records.push((time_ns, bytes.to_vec()))
    })?;
    Ok((records, gap))
}

#[test]
fn the_page_size_is_computed_from_the_header_description() {
    assert_eq!(PageLayout::parse(HEADER_PAGE).unwrap().page_bytes(), 4096);
}

#[test]
fn deltas_add_up_from_the_time_of_the_page() {
    let page = page(
        1_000,
        0,
        &[data(0, b"aaaa"), data(7, b"bbbbbbbb"), data(5, b"cccc")],
        &[],
    );
    let expected = vec![
        (1_000, b"aaaa".to_vec()),
        (1_007, b"bbbbbbbb".to_vec()),
        (1_012, b"cccc".to_vec()),
    ];
    assert_eq!(read(&page).unwrap(), (expected, false));
}

#[test]
fn the_length_of_a_long_record_is_read_from_the_word_before_its_data() {
    let long = [with_word(0, 3, 4 + 120), vec![9; 120]].concat();
    let (records, _) = read(&page(0, 0, &[long, data(1, b"next")], &[])).unwrap();
    assert_eq!(records, [(3, vec![9; 120]), (4, b"next".to_vec())]);
}

#[test]
fn time_extends_time_stamps_and_discarded_records_count_for_the_next_record() {
    let top = 1_u64 << 60;
    let discarded = |delta| [with_word(29, delta, 4 + 8), vec![0; 8]].concat();
    for (what, page_ns, before, time_ns) in [
        (
            "a time extend adds its upper bits",
            10,
            with_word(30, 5, 2),
            10 + 5 + (2 << 27) + 1,
        ),
        (
            "a time stamp replaces the time but for its top bits",
            top + 10,
            with_word(31, 5, 2),
            top + 5 + (2 << 27) + 1,
        ),
        (
            "a discarded record is passed over but its time counts",
            0,
            discarded(6),
            7,
        ),
        (
            "a delta of one marks a discarded record and is no time",
            0,
            discarded(1),
            1,
        ),
    ] {
        let (records, _) = read(&page(page_ns, 0, &[before, data(1, b"aaaa")], &[])).unwrap();
        assert_eq!(records, [(time_ns, b"aaaa".to_vec())], "{what}");
    }
}

#[test]
fn a_time_stamp_that_wrapped_goes_forward() {
    let before = (2_u64 << ABSOLUTE_BITS) - 1;
    assert_eq!(absolute(3, before), Some((2 << ABSOLUTE_BITS) + 3));
}

#[test]
fn padding_without_time_ends_the_page() {
    let (records, _) = read(&page(
        0,
        0,
        &[data(1, b"aaaa"), header(29, 0), data(1, b"junk")],
        &[],
    ))
    .unwrap();
    assert_eq!(records.len(), 1);
}

#[test]
fn lost_events_that_are_counted_are_reported() {
    let (records, gap) = read(&page(
        0,
        3 << 30,
        &[data(1, b"aaaa")],
        &77_u64.to_ne_bytes(),
    ))
    .unwrap();
    assert_eq!((records.len(), gap), (1, true));
}

#[test]
fn lost_events_are_reported_even_if_the_kernel_does_not_count_them() {
    assert!(read(&page(0, 1 << 31, &[data(1, b"aaaa")], &[])).unwrap().1);
}

#[test]
fn an_empty_page_has_no_records() {
    assert_eq!(read(&page(5, 0, &[], &[])).unwrap(), (vec![], false));
}

#[test]
fn a_page_that_contradicts_itself_is_an_error_and_no_panic() {
    let mut too_long = page(0, 0, &[data(1, b"aaaa")], &[]);
    too_long[8..16].copy_from_slice(&5_000_u64.to_ne_bytes());
    assert_eq!(read(&too_long), Err(8));

    let record_past_the_end = page(0, 0, &[header(28, 0)], &[]);
    assert_eq!(read(&record_past_the_end), Err(16));
    let length_of_zero = page(0, 0, &[with_word(0, 0, 0)], &[]);
    assert_eq!(read(&length_of_zero), Err(16));
    assert_eq!(read(&[0; 10]), Err(8));

    // Times that overflow.
    for record in [
        data(1, b"aaaa"),
        with_word(TYPE_PADDING, 2, 4),
        with_word(TYPE_TIME_EXTEND, 1, 0),
    ] {
        assert_eq!(read(&page(u64::MAX, 0, &[record], &[])), Err(16));
    }
    let found = read(&page(u64::MAX, 0, &[with_word(TYPE_TIME_STAMP, 0, 0)], &[]));
    assert_eq!(found, Err(16));
    let beyond = HEADER_PAGE.replace("offset:16", "offset:18446744073709551615");
    assert!(PageLayout::parse(&beyond).is_err());
}
