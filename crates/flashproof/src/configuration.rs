//! Reads the inputs of a command, and prints warnings about them. Inputs are configurations of ACT's tests (of any ACT
//! version, from a file or standard input), files of tenants, and block traces.

use act::dialect::{FILE_BYTES_MAX, line_of};
use act::legacy::{self, ReadOptions, Translation};
use act::options::Test;
use act::{ActConfig, Arrival, ConfigErrors, ConfigProblem, parse};
use device::observe::trace::{BlockRequest, TraceText};
use results::act_log::Input;
use results::files::{self, Links};
use results::format::{self, quoted};
use session::failure::Failure;
use session::{console, user_file};
use std::fs;
use std::io::{self, Read};
use std::ops::RangeInclusive;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use tenants::Tenants;

const TENANTS_BYTES_MAX: u64 = 1 << 20;

/// Reads a configuration of `test`. Returns its text and the configuration; prints warnings.
pub fn read_test(test: Test, path: &Path) -> Result<(String, ActConfig), Failure> {
    let bytes = read_configuration(path)?;
    let name = path.display().to_string();
    let parsed = parse(test, &name, &bytes)
        .map_err(|errors| Failure::usage(with_pointer(test, &errors, &name, &bytes)))?;
    for warning in &parsed.warnings {
        console::warning(&warning.to_string());
    }
    Ok((String::from_utf8_lossy(&bytes).into_owned(), parsed.config))
}

/// The errors of a file, and a pointer to `size config` if only that command reads the file.
fn with_pointer(test: Test, errors: &ConfigErrors, name: &str, bytes: &[u8]) -> String {
    let names_command = errors
        .0
        .iter()
        .any(|error| matches!(error.what, ConfigProblem::OldKey(_)));
    let reading = ReadOptions {
        test: Some(test),
        ..ReadOptions::default()
    };
    match legacy::read(name, bytes, &reading) {
        Ok(Translation { act, .. }) if !names_command => format!(
            "{errors}\n{name} is a configuration of ACT {act}: flashproof size config {name} writes today's equivalent"
        ),
        _ => errors.to_string(),
    }
}

/// Reads a configuration of any ACT version, with ACT's pacing if `as_act`. Prints the changes of the translation.
pub fn read_any(path: &Path, as_act: bool) -> Result<ActConfig, Failure> {
    let bytes = bytes_of(path)?;
    let mut translation = translation_of(path, &bytes, &ReadOptions::default())?;
    for warning in &translation.warnings {
        console::warning(&warning.to_string());
    }
    if translation.test_by_default {
        console::note(&format!(
            "{} fits both tests and is read as a storage test",
            path.display()
        ));
    }
    for (key, change) in &translation.changes {
        note_on_key(key, change);
    }
    if as_act {
        pace_as_act(path, &bytes, &mut translation.config)?;
    }
    Ok(translation.config)
}

/// Prints a note on the value of `key`; an empty key: on the whole configuration.
pub fn note_on_key(key: &str, sentence: &str) {
    if key.is_empty() {
        console::note(sentence);
    } else {
        console::note(&format!("{key}: {sentence}"));
    }
}

/// Reads the bytes of a configuration; `-` is standard input.
pub fn bytes_of(path: &Path) -> Result<Vec<u8>, Failure> {
    if path != Path::new("-") {
        return read_configuration(path);
    }
    let mut bytes = Vec::new();
    // Reads one byte more than the maximum, so that the parser reports a file that is too long.
    let read = io::stdin()
        .lock()
        .take(FILE_BYTES_MAX as u64 + 1)
        .read_to_end(&mut bytes);
    read.map(|_| bytes).map_err(|error| {
        Failure::usage(format!(
            "cannot read the configuration from standard input - {error}"
        ))
    })
}

/// Translates `bytes` of any ACT version. `reading` can name test and version; otherwise the keys determine both.
pub fn translation_of(
    path: &Path,
    bytes: &[u8],
    reading: &ReadOptions,
) -> Result<Translation, Failure> {
    let name = path.display().to_string();
    legacy::read(&name, bytes, reading).map_err(Failure::usage)
}

fn read_configuration(path: &Path) -> Result<Vec<u8>, Failure> {
    files::read(path, Links::Followed, FILE_BYTES_MAX as u64).map_err(|error| {
        let name = path.display();
        let advice = match fs::metadata(path) {
            Ok(metadata) if metadata.file_type().is_block_device() => device_advice(path),
            Err(_) if name.to_string().starts_with("sim:") => device_advice(path),
            Ok(_) => "name the file with the test's configuration".to_owned(),
            Err(_) if path.is_symlink() => {
                "it is a link to a missing file: check its target".to_owned()
            }
            Err(_) => "check the path".to_owned(),
        };
        Failure::usage(format!(
            "cannot read the configuration {name} - {error} - {advice}"
        ))
    })
}

/// Advice if the user names a drive instead of a configuration.
fn device_advice(drive: &Path) -> String {
    let drive = console::shell_quoted(&drive.display().to_string());
    format!(
        "to test this drive: flashproof certify {drive} (ERASES it); to write its configuration: flashproof size config --device {drive}"
    )
}

/// Sets ACT's pacing for `config` from the file `path`, as `--as-act` demands.
/// Errors: the file's `bytes` set another `arrival`.
pub fn pace_as_act(path: &Path, bytes: &[u8], config: &mut ActConfig) -> Result<(), Failure> {
    let file_arrival = std::mem::replace(&mut config.arrival, Arrival::Act);
    match line_of(bytes, "arrival") {
        Some(line) if file_arrival != Arrival::Act => Err(Failure::usage(format!(
            "{}:{line}: arrival: {file_arrival} contradicts --as-act, which is arrival: act - leave out one of the two",
            path.display()
        ))),
        _ => Ok(()),
    }
}

pub fn read_tenants(path: &Path) -> Result<(Tenants, String), Failure> {
    let name = quoted(&path.display().to_string());
    let bytes = files::read(path, Links::Followed, TENANTS_BYTES_MAX)
        .map_err(|error| Failure::usage(format!("cannot read {name} - {error}")))?;
    let text = String::from_utf8(bytes).map_err(|error| {
        Failure::usage(format!(
            "cannot read {name} - it is not UTF-8 text: {error}"
        ))
    })?;
    let file = path.display().to_string();
    let as_test = legacy::read(&file, text.as_bytes(), &ReadOptions::default());
    if as_test.is_ok() {
        return Err(Failure::usage(format!(
            "cannot read {name} - it is a configuration of an ACT test, but tenants are described in TOML - see \
             docs/tenants.md, or run the test: flashproof storage {}",
            console::shell_quoted(&file)
        )));
    }
    let tenants = Tenants::parse(&file, &text).map_err(Failure::usage)?;
    Ok((tenants, text))
}

/// Reads the trace in the file `name`, of any format, into `sink`. Prints what is missing or damaged.
pub fn read_trace(name: &str, sink: &mut dyn FnMut(BlockRequest)) -> Result<TraceText, Failure> {
    let failed =
        |error: &dyn std::fmt::Display| Failure::usage(format!("cannot read {name} - {error}"));
    let bytes = user_file::open(name, "trace", "-")?;
    let mut input =
        Input::piped_to(bytes, "flashproof trace --from -").map_err(|error| failed(&error))?;
    let trace_text = TraceText::read(&mut input, sink).map_err(|error| failed(&error))?;
    if input.is_cut() {
        console::warning(&format!(
            "{name} is compressed and truncated: only the part before the end is read"
        ));
    }
    if let Some((line, text)) = &trace_text.first_unread {
        console::note(&format!(
            "{name}: {} of {} are not part of a block trace and were skipped; the first is line {line}: {}",
            format::Grouped(trace_text.unread_lines),
            format::count(trace_text.lines, "line"),
            quoted(text)
        ));
    }
    if trace_text.lost > 0 {
        console::warning(&format!(
            "{name}: {} lost during the recording: counts are too low - record with larger buffers (trace-cmd -b, \
             buffer_size_kb)",
            format::count(trace_text.lost, "event")
        ));
    }
    if trace_text.of_further_devices > 0 {
        console::warning(&format!(
            "{name}: {} skipped, because only the first 256 devices of a trace are read - extract the devices that you need (grep)",
            format::count(trace_text.of_further_devices, "event")
        ));
    }
    if trace_text.without_size > 0 {
        console::warning(&format!(
            "{name}: offsets and sizes of {} are unknown: on recent kernels, iosnoop prints BLOCK + and BYTES 0, and \
             confuses requests in flight - record with flashproof trace --ops",
            format::count(trace_text.without_size, "request")
        ));
    }
    if trace_text.without_time > 0 {
        console::warning(&format!(
            "{name}: the start times of {} are missing - record with iosnoop -s, or with flashproof trace --ops",
            format::count(trace_text.without_time, "request")
        ));
    }
    Ok(trace_text)
}

/// Parses a number above 0.
pub fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() && number > 0.0 => Ok(number),
        _ => Err(format!("{} is not a number above 0", format::quoted(text))),
    }
}

/// Parses a percentage within `range`, with or without `%`.
pub fn percent(text: &str, range: RangeInclusive<f64>) -> Result<f64, String> {
    let percent = text
        .trim()
        .trim_end_matches('%')
        .parse()
        .ok()
        .filter(|percent| range.contains(percent));
    percent.ok_or_else(|| {
        format!(
            "give a percentage from {} to {}, such as 2",
            range.start(),
            range.end()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::percent;

    #[test]
    fn a_percentage_outside_the_allowed_range_is_refused() {
        assert_eq!(
            (percent("2", 1.0..=50.0), percent("5%", 1.0..=50.0)),
            (Ok(2.0), Ok(5.0))
        );
        assert!(
            ["0.5", "51", "0", "two", "nan"]
                .iter()
                .all(|text| percent(text, 1.0..=50.0).is_err())
        );
    }
}
