//! The checks that come with flashproof: the files of `checks/`.

use include_dir::{Dir, include_dir};
use std::path::Path;

static CHECKS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../checks");

/// Names of the checks, sorted.
pub fn names() -> impl Iterator<Item = &'static str> {
    let mut names: Vec<_> = CHECKS.files().filter_map(|file| file.path().file_stem()?.to_str()).collect();
    names.sort_unstable();
    names.into_iter()
}

/// The file of a check; `None` if there is none of that name.
pub fn text(name: &str) -> Option<&'static str> {
    CHECKS
        .get_file(Path::new(name).with_extension("toml"))
        .filter(|_| names().any(|known| known == name))?
        .contents_utf8()
}
