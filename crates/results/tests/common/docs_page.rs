//! Pages of `docs/` that the code generates.

use std::fs;

/// Asserts that a page of `docs/` equals the page that `generate` makes from its current text. With UPDATE_DOCS=1,
/// writes the page. `tests` are the arguments of `cargo test` that select the test of this page.
pub(crate) fn assert_page(page: &str, tests: &str, generate: impl FnOnce(&str) -> String) {
    let path = format!("{}/../../docs/{page}", env!("CARGO_MANIFEST_DIR"));
    let written = fs::read_to_string(&path).unwrap_or_default();
    let generated = generate(&written);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, generated).unwrap();
        return;
    }
    let update = format!("UPDATE_DOCS=1 cargo test -p {tests}");
    assert!(written == generated, "docs/{page} is out of date: {update}");
}

/// `page` with `part` between the lines `begin` and `end`.
#[allow(dead_code, reason = "some pages are generated as a whole")]
pub(crate) fn with_part(page: &str, begin: &str, part: &str, end: &str) -> String {
    let (before, rest) = page
        .split_once(begin)
        .expect("the page has the begin of the part");
    let (_, after) = rest
        .split_once(end)
        .expect("the page has the end of the part");
    format!("{before}{begin}{part}{end}{after}")
}
