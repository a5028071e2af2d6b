//! Command lines of other programs, called by their names: ACT's, asloglatency.

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
    exit(&error, session::failure::ACT_FAILURE.into())
}

/// Prints help or a usage error, and exits: with code 0 after help, with code `mistake` after an error.
pub fn exit(error: &clap::Error, mistake: i32) -> ! {
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
