//! Takes plotly.js out of the crate `plotly`, compressed, for pages that must work without a network.
//!
//! That crate gives its JavaScript as one text together with MathJax, twice the size and of no use here;
//! taken at build time, neither MathJax nor the crate and its dependencies end up in the program.

use flate2::Compression;
use flate2::write::DeflateEncoder;
use std::error::Error;
use std::io::Write;
use std::path::PathBuf;
use std::{env, fs};

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    let sources = plotly::Plot::offline_js_sources();
    let mut scripts = sources.split("</script>").filter_map(|script| Some(script.split_once('>')?.1));
    let plotly = scripts.find(|script| script.trim_start().starts_with("/**\n* plotly.js v"));
    let plotly = plotly.ok_or("the crate plotly embeds no script that begins with the name of plotly.js")?;
    let mut compressed = DeflateEncoder::new(Vec::new(), Compression::best());
    compressed.write_all(plotly.trim().as_bytes())?;
    let path = PathBuf::from(env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR")?).join("plotly.js.deflate");
    fs::write(path, compressed.finish()?)?;
    Ok(())
}
