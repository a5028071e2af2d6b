//! Opens an input given by the user: a file, standard input, or a pipe from a shell's process substitution.

use crate::failure::Failure;
use results::files::{self, Links};
use std::io::{self, ErrorKind, Read};
use std::path::Path;

/// The bytes of `name`; "-" is standard input. `what` it is, for messages; `on_stdin` is how to name standard input.
///
/// Only a regular file is opened, or what is open already: a FIFO that lies somewhere would be waited for without end.
pub fn open(name: &str, what: &str, on_stdin: &str) -> Result<Box<dyn Read>, Failure> {
    match name {
        "-" => Ok(Box::new(io::stdin())),
        name => open_file(Path::new(name), Links::Followed, what, on_stdin),
    }
}

pub fn open_file(path: &Path, links: Links, what: &str, on_stdin: &str) -> Result<Box<dyn Read>, Failure> {
    match files::open_given(path, links) {
        Ok(file) => Ok(Box::new(file)),
        Err(error) => {
            let advice = match error.kind() {
                ErrorKind::NotFound if path.is_symlink() => {
                    "it is a link to something that is not there: check where it leads".to_owned()
                }
                ErrorKind::InvalidInput => {
                    format!("name the {what} itself, or send it to standard input with {on_stdin}")
                }
                ErrorKind::PermissionDenied => {
                    "read it as the user who owns it, or let this user read it (chmod)".to_owned()
                }
                _ => "check the path".to_owned(),
            };
            Err(Failure::usage(format!("reading {} - {error} - {advice}", path.display())))
        }
    }
}
