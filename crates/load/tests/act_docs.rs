//! Checks that `docs/options.md` is the text that the option table generates.
//!
//! To update the page: `UPDATE_DOCS=1 cargo test -p flashproof-load --test load act_docs`.

use load::workload::act::reference;
use std::fs;
use std::path::Path;

/// Asserts that a page of `docs/` is the text that its table generates; with UPDATE_DOCS=1, writes the page first.
/// `test` selects the test of this page.
pub(crate) fn assert_page(page: &str, generated: &str, test: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../docs")
        .join(page);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, generated).unwrap();
    }
    let is_same = fs::read_to_string(&path).unwrap_or_default() == generated;
    let update = format!("UPDATE_DOCS=1 cargo test -p flashproof-load --test load {test}");
    assert!(is_same, "docs/{page} is not what its table says - {update}");
}

#[test]
fn the_option_reference_is_up_to_date() {
    assert_page("options.md", &reference::markdown(), "act_docs");
}
