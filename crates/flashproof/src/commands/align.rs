//! `flashproof size align`.

use crate::args::AlignArgs;
use procedures::align::run as align;
use session::failure::Failure;
use std::process::ExitCode;

pub fn run(args: &AlignArgs) -> Result<ExitCode, Failure> {
    align(&args.alignment()).map(|()| ExitCode::SUCCESS)
}
