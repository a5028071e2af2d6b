//! `flashproof report`: judges runs again, from their directories alone, and says so in four forms.

use crate::args::ReportArgs;
use crate::failure::Failure;
use crate::say;
use report::document::Document;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

/// Reads the directories, judges, says what to know first, and gives the report in the form asked for.
pub fn run(args: &ReportArgs) -> Result<ExitCode, Failure> {
    let document = Document::read(&args.dirs).map_err(Failure::environment)?;
    for banner in document.banners() {
        say::warning(&banner);
    }
    if let Some(file) = &args.html {
        let page = document.html();
        write(file, &page)?;
        say::note(&format!("wrote {} ({:.1} MB)", file.display(), page.len() as f64 / 1e6));
    }
    if args.json {
        say::result(&document.json().map_err(Failure::environment)?)?;
    } else if args.markdown {
        say::result(&document.markdown())?;
    } else {
        say::result(&document.text())?;
    }
    Ok(ExitCode::from(document.outcome().exit_code()))
}

/// Writes the page, whole or not at all: an older one is only replaced by a whole one.
fn write(file: &Path, page: &str) -> Result<(), Failure> {
    let failed = |error: std::io::Error| {
        Failure::environment(format!(
            "cannot write the page to {} - {error} - give --html a file in a directory that this user may write to",
            file.display()
        ))
    };
    // A terminal, a pipe or /dev/stdout cannot be replaced, only written to.
    if file.exists() && !file.is_file() {
        return fs::write(file, page).map_err(failed);
    }
    let mut name = file.as_os_str().to_owned();
    name.push(".tmp");
    let temporary = Path::new(&name);
    let written = fs::write(temporary, page).and_then(|()| fs::rename(temporary, file));
    written.map_err(|error| {
        let _ = fs::remove_file(temporary);
        failed(error)
    })
}
