//! Checks that `docs/fio.md` has the tables that fio's option table generates, and that no job input does harm.
//!
//! To update the page: `UPDATE_DOCS=1 cargo test -p flashproof-fio --test options`.

#[path = "common/fio_property.rs"]
mod fio_property;

use self::fio_property::assert_fio_property;
use crate::docs_page::assert_page;
use fio::options;

/// Text before the tables.
const MARK: &str = "<!-- generated from here on -->\n\n";

#[test]
fn the_tables_of_options_are_up_to_date() {
    assert_page("fio.md", "flashproof-fio --test options", |written| {
        let (head, _) = written.split_once(MARK).expect("the mark");
        format!("{head}{MARK}{}", options::markdown())
    });
}

#[test]
fn truncated_and_edited_job_files_are_refused_in_one_line_or_can_be_built() {
    let whole = include_bytes!("data/mix.fio");
    assert!(assert_fio_property(whole));
    for end in 0..whole.len() {
        assert_fio_property(&whole[..end]);
    }
    let lines: Vec<_> = whole.split_inclusive(|byte| *byte == b'\n').collect();
    for (place, line) in lines.iter().enumerate() {
        assert_fio_property(&[&lines[..place], &lines[place + 1..]].concat().concat());
        assert_fio_property(
            &[&lines[..place], &[*line, *line], &lines[place..]]
                .concat()
                .concat(),
        );
    }
}
