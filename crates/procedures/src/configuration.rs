//! Reads the configurations given to a command, and prints their warnings: ACT's tests, from a file or standard
//! input, of any ACT version; and files of tenants.

use load::workload::act::dialect::{FILE_BYTES_MAX, line_of};
use load::workload::act::legacy::{self, Reading, Translation};
use load::workload::act::options::Test;
use load::workload::act::{ActConfig, Arrival, parse};
use load::workload::tenants::Tenants;
use results::files::{self, Links};
use results::units::quoted;
use session::console;
use session::failure::Failure;
use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// Maximum size of a file of tenants.
const TENANTS_BYTES_MAX: u64 = 1 << 20;

/// Reads a configuration of `test`, and its text. Prints warnings.
pub fn read_test(test: Test, path: &Path) -> Result<(String, ActConfig), Failure> {
    let bytes = read_configuration(path)?;
    let parsed = parse(test, &path.display().to_string(), &bytes).map_err(Failure::usage)?;
    for warning in &parsed.warnings {
        console::warning(&warning.to_string());
    }
    Ok((String::from_utf8_lossy(&bytes).into_owned(), parsed.config))
}

/// Reads a configuration of any ACT version, paced `as_act`. Prints what was translated.
pub fn read_any(path: &Path, as_act: bool) -> Result<ActConfig, Failure> {
    let bytes = bytes_of(path)?;
    let mut translation = translation_of(path, &bytes, &Reading::default())?;
    for warning in &translation.warnings {
        console::warning(&warning.to_string());
    }
    if translation.test_by_default {
        console::note(&format!("{} fits both tests and is taken for a storage test", path.display()));
    }
    translation.changes.iter().for_each(|(key, change)| console::note(&format!("{key}: {change}")));
    if as_act {
        pace_as_act(path, &bytes, &mut translation.config)?;
    }
    Ok(translation.config)
}

/// Reads the bytes of a configuration; `-` is standard input.
pub fn bytes_of(path: &Path) -> Result<Vec<u8>, Failure> {
    if path == Path::new("-") { read_stdin() } else { read_configuration(path) }
}

/// Translates the `bytes` of the file `path`, a configuration of any ACT version, as far as its keys determine the
/// version.
pub fn translation_of(path: &Path, bytes: &[u8], reading: &Reading) -> Result<Translation, Failure> {
    let name = path.display().to_string();
    if let Some(place) = bytes.iter().position(|byte| *byte == 0) {
        return Err(Failure::usage(format!(
            "cannot read the configuration {name} - its byte {} is 0, so it is no text - name the file with the test's \
             configuration",
            place + 1
        )));
    }
    legacy::read(&name, bytes, reading).map_err(Failure::usage)
}

fn read_stdin() -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    // One byte more than the maximum, so that the parser can report an excess.
    let read = io::stdin().lock().take(FILE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes);
    read.map(|_| bytes)
        .map_err(|error| Failure::usage(format!("cannot read the configuration from standard input - {error}")))
}

/// Reads a configuration. Errors: it cannot be read, is no regular file, or is too long.
fn read_configuration(path: &Path) -> Result<Vec<u8>, Failure> {
    files::read(path, Links::Followed, FILE_BYTES_MAX as u64).map_err(|error| {
        let name = path.display();
        let advice = match fs::metadata(path) {
            Ok(metadata) if metadata.file_type().is_block_device() => {
                format!("to configure a test of it give: flashproof size config --device {name}")
            }
            Ok(_) => "name the file with the test's configuration".to_owned(),
            Err(_) if path.is_symlink() => {
                "it is a link to something that is not there: check where it leads".to_owned()
            }
            Err(_) => "check the path".to_owned(),
        };
        Failure::usage(format!("cannot read the configuration {name} - {error} - {advice}"))
    })
}

/// Sets ACT's pacing for `config` from the file `path`, as `--as-act` demands.
///
/// Errors: the file's `bytes` set another `arrival`.
pub fn pace_as_act(path: &Path, bytes: &[u8], config: &mut ActConfig) -> Result<(), Failure> {
    let given = std::mem::replace(&mut config.arrival, Arrival::Act);
    match line_of(bytes, "arrival") {
        Some(line) if given != Arrival::Act => Err(Failure::usage(format!(
            "{}:{line}: arrival: {given} contradicts --as-act, which is arrival: act - leave out one of the two",
            path.display()
        ))),
        _ => Ok(()),
    }
}

/// Reads a file of tenants, with its text.
pub fn read_tenants(path: &Path) -> Result<(Tenants, String), Failure> {
    let name = quoted(&path.display().to_string());
    let bytes = files::read(path, Links::Followed, TENANTS_BYTES_MAX)
        .map_err(|error| Failure::usage(format!("cannot read {name} - {error}")))?;
    let text = String::from_utf8(bytes)
        .map_err(|error| Failure::usage(format!("cannot read {name} - it is no text: {error}")))?;
    let tenants = Tenants::parse(&path.display().to_string(), &text).map_err(Failure::usage)?;
    Ok((tenants, text))
}
