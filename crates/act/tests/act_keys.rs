//! Checks that `docs/act-keys.md` is the text that the table of old keys generates.
//!
//! To update the page: `UPDATE_DOCS=1 cargo test -p flashproof-act --test act act_keys`.

use crate::docs_page::assert_page;
use act::act_keys;

#[test]
fn the_table_of_old_keys_is_up_to_date() {
    assert_page("act-keys.md", "flashproof-act --test act act_keys", |_| {
        act_keys::markdown()
    });
}
