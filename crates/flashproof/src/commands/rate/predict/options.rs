//! Options of `flashproof rate predict`.

use crate::commands::rate::predict::PredictedLoad;
use clap::Args;
use std::path::PathBuf;

#[derive(Args, Debug)]
pub struct PredictArgs {
    /// Directory of a baseline, made by `flashproof baseline`
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    #[command(flatten)]
    pub load: PredictedLoad,
    /// Replace a drive.sim in DIR that flashproof did not write
    #[arg(long)]
    pub force: bool,
    /// Print only results, warnings and errors
    #[arg(long, short)]
    pub quiet: bool,
}
