//! Decompressed input: logs and outputs of other tools, from named files or standard input.

use results::act_log::Input;
use results::files::{self, Links};
use std::io::{self, ErrorKind, Read};
use std::path::Path;
use thiserror::Error;

#[derive(Debug, Error)]
#[error("reading {name} - {source}{}", advice(source))]
pub struct SourceError {
    pub name: String,
    pub source: io::Error,
}

fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        ErrorKind::NotFound => " - check the path",
        ErrorKind::PermissionDenied => {
            " - read it as the user who owns it, or let this user read it (chmod)"
        }
        ErrorKind::IsADirectory => " - name the file itself",
        ErrorKind::InvalidInput => {
            " - name the file itself, or pipe the data in and give - as the file name"
        }
        _ => "",
    }
}

pub struct InputFile {
    name: String,
    input: Input<'static>,
}

impl InputFile {
    /// Opens a regular file, a descriptor that the shell made (`/dev/fd/N`), or standard input for `-`. `piped`: the
    /// command that reads standard input, for messages.
    pub fn open(path: &Path, piped: &'static str) -> Result<Self, SourceError> {
        if path == Path::new("-") {
            return Self::new("standard input", Box::new(io::stdin().lock()), piped);
        }
        let name = path.display().to_string();
        match files::open_user_path(path, Links::Followed) {
            Ok(file) => Self::new(&name, Box::new(file), piped),
            Err(source) => Err(SourceError { name, source }),
        }
    }

    /// `bytes`, decompressed, under the name `name`. `piped`: command that reads standard input, for messages.
    pub fn new(name: &str, bytes: Box<dyn Read>, piped: &'static str) -> Result<Self, SourceError> {
        let name = name.to_owned();
        match Input::piped_to(bytes, piped) {
            Ok(input) => Ok(Self { name, input }),
            Err(source) => Err(SourceError { name, source }),
        }
    }

    pub fn into_parts(self) -> (String, Input<'static>) {
        (self.name, self.input)
    }
}
