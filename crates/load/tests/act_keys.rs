//! Checks that `docs/act-keys.md` is the text that the table of old keys generates.
//!
//! To update the page: `UPDATE_DOCS=1 cargo test -p flashproof-load --test load act_keys`.

use crate::act_docs::assert_page;
use load::workload::act::act_keys;

#[test]
fn the_table_of_old_keys_is_up_to_date() {
    assert_page("act-keys.md", &act_keys::markdown(), "act_keys");
}
