//! Command lines of other programs, called by their names: ACT's, asloglatency.

use clap::error::{ContextKind, ContextValue};
use clap::{Args, FromArgMatches};
use results::format;
use session::console;
use std::ffi::OsString;

/// The command line of another program, called `name`, with the options `A`.
pub fn program<A: Args>(name: &'static str, about: &'static str) -> clap::Command {
    A::augment_args(clap::Command::new(name))
        .version(env!("CARGO_PKG_VERSION"))
        .about(about)
}

pub fn parse_as<A: FromArgMatches>(
    program: clap::Command,
    arguments: Vec<OsString>,
) -> Result<A, clap::Error> {
    A::from_arg_matches(&program.try_get_matches_from(arguments)?)
}

/// Prints help or a usage error, and exits with ACT's exit code.
pub fn exit_as_act<A>(error: clap::Error) -> A {
    exit(error, session::failure::ACT_FAILURE.into())
}

/// Prints help or a usage error, and exits: with code 0 after help, with code `mistake` after an error.
pub fn exit(mut error: clap::Error, mistake: i32) -> ! {
    keep_best_tips(&mut error);
    let text = error.render().to_string();
    if text.contains(format::is_unprintable) {
        // Printed without colours, because an argument contains characters that would move the cursor.
        console::notice(text.trim_end());
        console::flush();
    } else {
        // Write errors are ignored: the terminal may be closed.
        drop(error.print())
    }
    std::process::exit(if error.use_stderr() { mistake } else { 0 })
}

/// Keeps the most similar command, clap's last, and drops the tip to pass an unknown option as a value.
fn keep_best_tips(error: &mut clap::Error) {
    if let Some(ContextValue::Strings(similar)) = error.get(ContextKind::SuggestedSubcommand) {
        let best = similar.last().cloned().into_iter().collect();
        error.insert(
            ContextKind::SuggestedSubcommand,
            ContextValue::Strings(best),
        );
    }
    if let Some(ContextValue::StyledStrs(mut tips)) = error.remove(ContextKind::Suggested) {
        tips.retain(|tip| !tip.to_string().starts_with("to pass "));
        if !tips.is_empty() {
            error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::cli::help::full_command;

    /// The error for a command line, with the best tips.
    fn refusal(line: &str) -> String {
        let words = line.split(' ');
        let mut error = full_command().try_get_matches_from(words).unwrap_err();
        super::keep_best_tips(&mut error);
        error.to_string()
    }

    #[test]
    fn a_mistyped_command_or_option_gets_one_suggestion_or_none() {
        for (line, tip) in [
            ("flashproof storge a.conf", Some("'storage'")),
            ("flashproof doctor --jsn", Some("'--json'")),
            ("flashproof check durability d --witness host", None),
            ("flashproof storage a.conf --zzzz", None),
        ] {
            let text = refusal(line);
            let tips: Vec<&str> = text.lines().filter(|text| text.contains("tip:")).collect();
            let has_tip = tip.is_some_and(|tip| tips.len() == 1 && tips[0].ends_with(tip));
            assert!(
                has_tip || tip.is_none() && tips.is_empty(),
                "{line}: {text}"
            );
        }
    }

    #[test]
    fn a_missing_or_invalid_port_of_the_witness_is_refused_with_the_reason() {
        for (address, why) in [
            ("host", "the port is missing: give host:7070"),
            ("host:", "the port is not a number"),
            ("host:70000", "the port is not a number"),
        ] {
            let text = refusal(&format!(
                "flashproof check durability d --witness {address}"
            ));
            assert!(text.contains(why), "{address}: {text}");
        }
    }
}
