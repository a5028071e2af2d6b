//! Arguments of `flashproof fio`, and of a program called fio.

use clap::Args;
use std::ffi::OsString;

#[derive(Args, Debug)]
pub struct FioArgs {
    /// fio's options and job files
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "ARGS"
    )]
    pub words: Vec<String>,
}

pub const FIO_HELP: &str = include_str!("examples.txt");

/// Arguments of a program called fio.
pub fn fio_words(arguments: Vec<OsString>) -> FioArgs {
    let words = arguments
        .into_iter()
        .skip(1)
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    FioArgs { words }
}
