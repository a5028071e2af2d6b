//! `flashproof report`: judges runs again, from their directories alone, and prints the report in one of four forms.

use crate::args::ReportArgs;
use report::document::Document;
use results::units;
use session::console;
use session::failure::Failure;
use session::output_file::write_page;
use std::process::ExitCode;

/// Reads and judges the directories, prints warnings, and writes the report in the requested form.
pub fn run(args: &ReportArgs) -> Result<ExitCode, Failure> {
    let document = Document::read(&args.dirs).map_err(Failure::environment)?;
    for banner in document.banners() {
        console::warning(&banner);
    }
    if let Some(file) = &args.html {
        let page = document.html();
        write_page(file, &page)?;
        console::note(&format!("wrote {} ({})", file.display(), units::bytes(page.len() as f64)));
    }
    if args.json {
        console::result(&document.json().map_err(Failure::environment)?)?;
    } else if args.markdown {
        console::result(&document.markdown())?;
    } else {
        console::page(&document.text())?;
    }
    Ok(ExitCode::from(document.outcome().exit_code()))
}
