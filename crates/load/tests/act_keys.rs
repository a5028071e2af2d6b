//! Checks that `docs/act-keys.md` is the text that the table of old keys generates.
//!
//! To update the page: `UPDATE_DOCS=1 cargo test -p flashproof-load --test load act_keys`.

use load::workload::act::act_keys;
use std::fs;
use std::path::Path;

#[test]
fn the_table_of_old_keys_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/act-keys.md");
    let generated = act_keys::markdown();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, &generated).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == generated,
        "docs/act-keys.md is not what the table of old keys says - UPDATE_DOCS=1 cargo test -p flashproof-load --test load act_keys"
    );
}
