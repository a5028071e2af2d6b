//! Suggestions for words typed in place of a command.

use clap::Command;
use results::units::quoted;
use std::ffi::OsString;
use std::path::Path;

/// Words that are no command, each with the right command: names of earlier versions and common synonyms.
const INSTEAD: [(&str, &str); 21] = [
    ("devices", "doctor"),
    ("list", "doctor"),
    ("predict", "rate predict"),
    ("tenants", "storage tenants"),
    ("replay", "storage --replay"),
    ("test", "storage"),
    ("run", "storage"),
    ("act_storage", "storage"),
    ("act_index", "index"),
    ("status", "report status"),
    ("watch", "report status --watch"),
    ("compare", "report compare"),
    ("loglatency", "latency server"),
    ("config", "size config"),
    ("align", "size align"),
    ("select", "size select"),
    ("cluster", "size collect"),
    ("serve", "engine serve"),
    ("client", "engine client"),
    ("transactions", "engine bench"),
    ("version", "--version"),
];

/// Suggestion if the first of `arguments` is a device, a file, or another name of a command. `None`: the parser takes
/// the arguments.
pub(super) fn instead_of(command: &Command, arguments: &[OsString]) -> Option<String> {
    let word = arguments.get(1)?.to_str()?;
    if word.starts_with('-') || command.find_subcommand(word).is_some() {
        return None;
    }
    let path = Path::new(word);
    let hint = if let Some((_, name)) = INSTEAD.iter().find(|(typed, _)| *typed == word) {
        format!("use flashproof {name}")
    } else if word.starts_with("/dev/") || word.starts_with("sim:") {
        format!("name what to do with it: flashproof doctor {word}, or flashproof certify {word}")
    } else if path.is_dir() {
        format!("to judge the run in this directory: flashproof report {word}")
    } else if path.is_file() {
        format!("to run this configuration: flashproof storage {word}")
    } else {
        return None;
    };
    Some(format!("{} is no command - {hint}", quoted(word)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hint(word: &str) -> Option<String> {
        instead_of(&super::super::help::whole(), &["flashproof".into(), word.into()])
    }

    #[test]
    fn what_is_no_command_is_told_with_the_one_that_is_meant() {
        assert_eq!(hint("devices").unwrap(), "\"devices\" is no command - use flashproof doctor");
        assert!(hint("/dev/nvme1n1").unwrap().contains("flashproof doctor /dev/nvme1n1"));
        assert!(hint("/").unwrap().contains("flashproof report /"));
        assert_eq!((hint("certify"), hint("--help"), hint("certfy")), (None, None, None));
    }

    #[test]
    fn what_is_recommended_is_there() {
        let whole = super::super::help::whole();
        for (typed, name) in INSTEAD {
            assert!(whole.find_subcommand(typed).is_none(), "{typed} is a command");
            let words = name.split(' ').filter(|word| !word.starts_with("--"));
            words.fold(&whole, |command, word| {
                command.find_subcommand(word).unwrap_or_else(|| panic!("{word} of {name}"))
            });
        }
    }
}
