//! A result in the form that the user asked for.

use crate::args::FormArgs;
use results::units;
use session::console;
use session::failure::Failure;
use session::output_file::write_page;
use std::fmt::Display;

/// Writes the page, if one is wanted, and prints the JSON, the Markdown or the text.
pub fn show<E: Display>(
    form: &FormArgs,
    html: impl FnOnce() -> String,
    json: impl FnOnce() -> Result<String, E>,
    markdown: impl FnOnce() -> String,
    text: impl FnOnce() -> String,
) -> Result<(), Failure> {
    if let Some(file) = &form.html {
        let page = html();
        write_page(file, &page)?;
        console::note(&format!("wrote {} ({})", file.display(), units::bytes(page.len() as f64)));
    }
    match () {
        () if form.json => console::result(&json().map_err(Failure::environment)?),
        () if form.markdown => console::result(&markdown()),
        () => console::page(&text()),
    }
}
