//! Checks that `docs/options.md` is the text that the option table generates.
//!
//! To update the page: `UPDATE_DOCS=1 cargo test -p flashproof-act --test act act_docs`.

use crate::docs_page::assert_page;
use act::reference;

#[test]
fn the_option_reference_is_up_to_date() {
    assert_page("options.md", "flashproof-act --test act act_docs", |_| {
        reference::markdown()
    });
}
