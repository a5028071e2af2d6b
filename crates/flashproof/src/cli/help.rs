//! Help: the first page, the layout of a command's page, examples laid out for a terminal, man pages, completions, and
//! suggestions for unknown commands.

use super::Cli;
use act::options::Test;
use act::reference::help_text;
use clap::error::{ContextKind, ContextValue};
use clap::{Args, Command, CommandFactory, ValueEnum};
use clap_complete::Shell;
use results::files::{self, ReplaceTarget};
use results::format::quoted;
use session::failure::Failure;
use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

/// Headings of the first page, with the commands below each heading.
const GROUPS: [(&str, &[&str]); 6] = [
    (
        "Test a drive",
        &[
            "storage", "index", "fio", "certify", "rate", "baseline", "check", "fleet",
        ],
    ),
    ("Prepare", &["doctor", "prep"]),
    ("Read results", &["report", "latency"]),
    ("Plan", &["size", "trace", "waf"]),
    ("Record engine", &["engine"]),
    ("More", &["help", "completions"]),
];

/// The page of a command: examples before options.
const TEMPLATE: &str = "{about-with-newline}\n{usage-heading} {usage}{after-help}\n\n{all-args}";

#[derive(Args, Debug)]
pub struct HelpArgs {
    /// A command, such as "size profile"; or "keys" for the keys of a configuration file
    #[arg(value_name = "COMMAND")]
    pub words: Vec<String>,
    /// Write a man page of each command into this directory
    #[arg(long, value_name = "DIR", conflicts_with = "words")]
    pub man: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_name = "SHELL", value_enum)]
    pub shell: Completed,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum Completed {
    /// GNU Bash
    Bash,
    /// Z shell
    Zsh,
    /// Friendly interactive shell
    Fish,
}

pub(crate) fn full_command() -> Command {
    let command = Cli::command().mut_subcommand("storage", |storage| {
        crate::commands::storage::options::allow_replay(storage).mut_subcommand(
            "tenants",
            crate::commands::storage::options::restrict_to_tenants,
        )
    });
    let command = ["storage", "index", "certify", "rate", "baseline"]
        .into_iter()
        .fold(command, |command, name| {
            command.mut_subcommand(name, without_forms)
        });
    let page = first_page(&command);
    in_order(command).help_template(page)
}

/// Hides the output formats in the short help, so that the help fits a screen.
fn without_forms(command: Command) -> Command {
    command.mut_args(|arg| match arg.get_id().as_str() {
        "html" | "json" | "markdown" => arg.hide_short_help(true),
        _ => arg,
    })
}

fn first_page(command: &Command) -> String {
    let mut page = "{about-with-newline}\n{usage-heading} {usage}\n".to_owned();
    for (heading, names) in GROUPS {
        // Writing to a string cannot fail.
        let _ = writeln!(page, "\n{heading}:");
        for name in names {
            let about = command.find_subcommand(name).and_then(Command::get_about);
            let _ = writeln!(
                page,
                "  {name:<13}{}",
                about.map(ToString::to_string).unwrap_or_default()
            );
        }
    }
    page + "\nOptions:\n{options}{after-help}"
}

/// `command` and all its subcommands, with examples before options.
fn in_order(command: Command) -> Command {
    let names: Vec<String> = command
        .get_subcommands()
        .map(|inner| inner.get_name().to_owned())
        .collect();
    let command = command
        .help_template(TEMPLATE)
        .disable_help_subcommand(true);
    names.iter().fold(command, |command, name| {
        command.mut_subcommand(name, in_order)
    })
}

/// Help of the command `words`, such as `size profile`; the first page if `words` is empty.
pub fn page(words: &[String]) -> Result<String, Failure> {
    let mut command = full_command();
    // Makes the usage line contain the full name.
    command.build();
    let mut current = &mut command;
    match words {
        [keys, rest @ ..] if keys == "keys" => return keys_page(rest),
        [one] if one == "fio" => return Ok(crate::commands::fio::options::FIO_HELP.to_owned()),
        _ => {}
    }
    for word in words {
        current = current
            .find_subcommand_mut(word)
            .ok_or_else(|| no_command(word, words))?;
    }
    let help = if words.is_empty() {
        current.render_help()
    } else {
        current.render_long_help()
    };
    Ok(help.to_string())
}

/// The error of `flashproof help WORDS` if `word` is unknown; suggests the most similar command.
fn no_command(word: &str, words: &[String]) -> Failure {
    let typed: Vec<OsString> = std::iter::once("flashproof".into())
        .chain(words.iter().map(OsString::from))
        .collect();
    if let Some(text) = suggestion(&full_command(), &typed) {
        return Failure::usage(text);
    }
    let refused = full_command().try_get_matches_from(typed).err();
    let similar = refused
        .as_ref()
        .and_then(|error| error.get(ContextKind::SuggestedSubcommand));
    let hint = match similar {
        Some(ContextValue::Strings(names)) => format!("did you mean {}?", names.join(", ")),
        _ => "see flashproof --help".to_owned(),
    };
    Failure::usage(format!("no command {} - {hint}", quoted(word)))
}

/// The keys of a configuration file for `tests`. If no test is named: for both tests.
fn keys_page(tests: &[String]) -> Result<String, Failure> {
    let tests = match tests {
        [] => Test::ALL.to_vec(),
        tests => tests
            .iter()
            .map(|word: &String| {
                Test::named(word).ok_or_else(|| {
            Failure::usage(
                "no such test - give flashproof help keys storage, or flashproof help keys index",
            )
        })
            })
            .collect::<Result<_, _>>()?,
    };
    Ok(tests
        .iter()
        .map(|test: &Test| {
            format!(
                "Keys of a configuration for flashproof {}:\n\n{}\n",
                test.name(),
                help_text(*test)
            )
        })
        .collect::<Vec<_>>()
        .join("\n"))
}

pub fn completions(args: &CompletionsArgs) -> Result<String, Failure> {
    let shell = match args.shell {
        Completed::Bash => Shell::Bash,
        Completed::Zsh => Shell::Zsh,
        Completed::Fish => Shell::Fish,
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut full_command(), "flashproof", &mut script);
    String::from_utf8(script).map_err(Failure::environment)
}

/// Writes a man page of each command into `dir`. Only man pages of flashproof are replaced.
pub fn man_pages(dir: &Path) -> Result<(), Failure> {
    files::create_dirs(dir).map_err(|error| cannot_write_pages(dir, &error))?;
    let mut command = full_command().disable_help_subcommand(true);
    command.build();
    let mut pending = vec![command];
    while let Some(command) = pending.pop() {
        pending.extend(
            command
                .get_subcommands()
                .filter(|subcommand| !subcommand.is_hide_set())
                .cloned(),
        );
        let man = clap_mangen::Man::new(command);
        let path = dir.join(man.get_filename());
        let mut page = Vec::new();
        man.render(&mut page)
            .and_then(|()| files::replace(&path, &page, ReplaceTarget::Own(".TH flashproof")))
            .map_err(|error| cannot_write_pages(&path, &error))?;
    }
    Ok(())
}

fn cannot_write_pages(path: &Path, error: &io::Error) -> Failure {
    Failure::environment(format!(
        "cannot write man pages into {} - {error} - give a writable directory",
        path.display()
    ))
}

/// Unknown commands, each with the command to suggest: names of earlier versions, and common synonyms.
const SYNONYMS: [(&str, &str); 21] = [
    ("devices", "doctor"),
    ("list", "doctor"),
    ("predict", "rate predict"),
    ("tenants", "storage tenants"),
    ("replay", "storage --replay"),
    ("test", "certify DEVICE, or flashproof check NAME DIRECTORY"),
    ("run", "storage CONFIG"),
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

/// Arguments that only earlier versions had: the command, its argument, and the advice.
const REMOVED: [(&str, &str, &str); 2] = [
    (
        "waf",
        "probe",
        "flashproof waf measure shows the write amplification of a real drive",
    ),
    (
        "baseline",
        "--cross-check",
        "run fio with the same jobs before or after flashproof",
    ),
];

/// Error with a suggestion, if an argument begins with a typographic dash or quotation mark, if only earlier versions
/// had an argument, or if the first argument is a device, a file, a directory, or a synonym of a command. `None`: clap
/// parses the arguments.
pub(super) fn suggestion(command: &Command, arguments: &[OsString]) -> Option<String> {
    let word = arguments.get(1)?.to_str()?;
    // flashproof fio reads dashes itself, as hyphens.
    let reads_dashes = word == "fio";
    let mut pasted = arguments
        .iter()
        .filter_map(|argument| typographic(argument, reads_dashes));
    if let Some(error) = pasted.next() {
        return Some(error);
    }
    let removed = REMOVED
        .iter()
        .find(|(of, removed, _)| *of == word && is_given(removed, arguments));
    if let Some((_, removed, now)) = removed {
        return Some(format!(
            "flashproof {word} no longer has {} - {now}",
            quoted(removed)
        ));
    }
    if word.starts_with('-') || command.find_subcommand(word).is_some() {
        return None;
    }
    let path = Path::new(word);
    let hint = if let Some((_, name)) = SYNONYMS.iter().find(|(typed, _)| *typed == word) {
        format!("use flashproof {name}")
    } else if word.starts_with("/dev/") || word.starts_with("sim:") {
        format!(
            "give a command before the device: flashproof doctor {word}, or flashproof certify {word}"
        )
    } else if path.is_dir() {
        format!("to judge the run in this directory: flashproof report {word}")
    } else if path.is_file() {
        format!("to run this configuration: flashproof storage {word}")
    } else {
        return None;
    };
    Some(format!("{} is no command - {hint}", quoted(word)))
}

/// The error for an argument that begins with a typographic quotation mark or, unless the command `reads_dashes`, with a
/// dash, as in commands pasted from a text.
fn typographic(argument: &OsStr, reads_dashes: bool) -> Option<String> {
    let argument = argument.to_str()?;
    let is_refused = argument.starts_with(['“', '”', '„', '‘', '’'])
        || !reads_dashes && argument.starts_with(['—', '–']);
    is_refused.then(|| {
        format!(
            "cannot read the argument {argument} - it begins with a typographic dash or quotation mark - type it again \
             with -- or '"
        )
    })
}

/// True if the first argument after the command is `word`, or if `word` is an option among the arguments.
fn is_given(word: &str, arguments: &[OsString]) -> bool {
    let at = arguments.iter().position(|argument| argument == word);
    at.is_some_and(|at| at == 2 || word.starts_with("--"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hint(word: &str) -> Option<String> {
        suggestion(&full_command(), &["flashproof".into(), word.into()])
    }

    #[test]
    fn each_command_is_in_exactly_one_group() {
        let command = Cli::command();
        let mut named: Vec<&str> = GROUPS
            .iter()
            .flat_map(|(_, names)| *names)
            .copied()
            .collect();
        let mut declared: Vec<&str> = command.get_subcommands().map(Command::get_name).collect();
        named.sort_unstable();
        declared.sort_unstable();
        assert_eq!(named, declared);
        assert!(declared.len() <= 16 + 2, "{declared:?}");
    }

    #[test]
    fn an_argument_with_a_typographic_dash_or_quotation_mark_is_refused_with_advice() {
        for (command, pasted) in [("check", "—dry-run"), ("check", "“x”"), ("fio", "“x”")]
        {
            let words = ["flashproof", command, pasted].map(OsString::from);
            let error = suggestion(&full_command(), &words).unwrap();
            assert!(error.starts_with(&format!("cannot read the argument {pasted} - ")));
        }
        let read_by_fio = ["flashproof", "fio", "–rw=write"].map(OsString::from);
        assert_eq!(suggestion(&full_command(), &read_by_fio), None);
    }

    #[test]
    fn the_help_of_shared_options_fits_their_command() {
        for (command, option, says) in [
            (
                "storage",
                "duration",
                "instead of test-duration-sec of the file",
            ),
            (
                "storage tenants",
                "duration",
                "instead of duration-sec of the file",
            ),
            (
                "waf model",
                "arrange",
                "dedicated (a drive for each tenant)",
            ),
            (
                "waf measure",
                "arrange",
                "Arrangements: shared (no handles), fdp (a handle",
            ),
            (
                "check",
                "lasting",
                "For check durability: the time of the writes",
            ),
            ("report compare", "dirs", "series (certify, rate, baseline)"),
        ] {
            let whole = full_command();
            let found = command.split(' ').fold(&whole, |command, word| {
                command.find_subcommand(word).unwrap()
            });
            let mut options = found.get_arguments();
            let help = options
                .find(|arg| arg.get_id() == option)
                .unwrap()
                .get_help();
            let help = help.unwrap().to_string();
            assert!(help.contains(says), "{command} --{option}: {help}");
        }
    }

    #[test]
    fn help_of_an_unknown_command_suggests_a_command() {
        let error = |word: &str| page(&[word.to_owned()]).unwrap_err().message;
        assert_eq!(
            error("checks"),
            "no command \"checks\" - did you mean check?"
        );
        assert!(error("config").ends_with("use flashproof size config"));
        assert!(error("xyzzy").ends_with("see flashproof --help"));
    }

    #[test]
    fn an_unknown_command_gets_a_suggestion() {
        assert_eq!(
            hint("devices").unwrap(),
            "\"devices\" is no command - use flashproof doctor"
        );
        assert!(
            hint("/dev/nvme1n1")
                .unwrap()
                .contains("flashproof doctor /dev/nvme1n1")
        );
        assert!(hint("/").unwrap().contains("flashproof report /"));
        let hint_of = |line: &str| {
            suggestion(
                &full_command(),
                &line.split(' ').map(OsString::from).collect::<Vec<_>>(),
            )
        };
        let removed = hint_of("flashproof waf probe /dev/nvme1n1").unwrap();
        assert!(
            removed.starts_with("flashproof waf no longer has \"probe\" - flashproof waf measure"),
            "{removed}"
        );
        assert!(
            hint_of("flashproof baseline sim: --cross-check")
                .unwrap()
                .contains("run fio with the same jobs")
        );
        assert_eq!(hint_of("flashproof waf model probe"), None);
        assert_eq!(
            (hint("certify"), hint("--help"), hint("certfy")),
            (None, None, None)
        );
    }

    #[test]
    fn every_suggested_command_exists() {
        let whole = full_command();
        for (typed, name) in SYNONYMS {
            assert!(
                whole.find_subcommand(typed).is_none(),
                "{typed} is a command"
            );
            for name in name.split(", or flashproof ") {
                let is_command = |word: &&str| word.bytes().all(|byte| byte.is_ascii_lowercase());
                name.split(' ')
                    .filter(is_command)
                    .fold(&whole, |command, word| {
                        let found = command.find_subcommand(word);
                        found.unwrap_or_else(|| panic!("{word} of {name}"))
                    });
            }
        }
    }
}
