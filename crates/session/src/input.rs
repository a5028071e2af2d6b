//! Opens an input given by the user: a file, standard input, or a pipe from a shell's process substitution.

use crate::failure::Failure;
use results::files::{self, Links};
use std::io::{self, ErrorKind, Read};
use std::path::Path;

/// Opens `name`; "-" is standard input. `what` describes the input in messages; `on_stdin` tells how to name standard
/// input.
///
/// Opens only regular files and descriptors that are open already: a FIFO in a directory could block forever.
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
