//! Exports DIR to OUTDIR and prints how long that took.
use std::path::{Path, PathBuf};
fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let begin = std::time::Instant::now();
    let exported = export::export(&[PathBuf::from(&arguments[1])], Path::new(&arguments[2]), true);
    println!("{exported:?} {:?}", begin.elapsed());
}
