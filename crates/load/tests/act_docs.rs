//! Checks that `docs/options.md` is the text that the option table generates.
//!
//! To update the page: `UPDATE_DOCS=1 cargo test -p flashproof-load --test load act_docs`.

use load::workload::act::reference;
use std::fs;
use std::path::Path;

#[test]
fn the_option_reference_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/options.md");
    let generated = reference::markdown();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, &generated).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == generated,
        "docs/options.md is not what the option table says - UPDATE_DOCS=1 cargo test -p flashproof-load --test load act_docs"
    );
}
