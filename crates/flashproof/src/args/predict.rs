//! The options of `flashproof rate predict`.

use clap::Args;
use procedures::predict::PredictedLoad;
use results::judge::Sla;
use std::path::PathBuf;

/// Options of a prediction.
#[derive(Args, Debug)]
pub struct PredictArgs {
    /// Directory of a baseline, as `flashproof baseline` makes it
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    #[command(flatten)]
    pub load: PredictedLoadArgs,
    /// Replace a drive.sim in DIR that this program did not write
    #[arg(long)]
    pub force: bool,
    /// Say results, warnings and errors only
    #[arg(long, short)]
    pub quiet: bool,
}

/// The load whose rating is predicted.
#[derive(Args, Debug)]
pub struct PredictedLoadArgs {
    /// A configuration of any ACT as the load of 1x [default: ACT's, 2000 reads and 1000 writes a second]
    #[arg(long, value_name = "CONFIG")]
    pub config: Option<PathBuf>,
    /// Limits that a load must meet: shares of operations that may be slower than a threshold
    #[arg(long, value_name = "LIMITS", default_value_t = Sla::default(), allow_hyphen_values = true, value_parser = Sla::wanted)]
    pub sla: Sla,
    /// Pace and spread operations as ACT 6 does (arrival: act)
    #[arg(long)]
    pub as_act: bool,
}

impl PredictedLoadArgs {
    /// The load that the options name.
    pub fn load(&self) -> PredictedLoad {
        PredictedLoad { config: self.config.clone(), sla: self.sla.clone(), as_act: self.as_act }
    }
}

pub(super) const EXAMPLES: &str = "\
Examples:
  flashproof rate predict flashproof-results/baseline-S4EVNX0-6h    the rating by ACT's load, with an interval
  flashproof rate predict DIR --config cluster.conf       multiples of your own load
  flashproof rate predict DIR --as-act                    paced as for published ratings
  flashproof rate \"$(cat DIR/drive.sim)\"             the search on the simulated drive, step by step

A simulated drive is fitted to the points of the baseline, written to DIR/drive.sim, and searched for the highest
load that it holds for an hour. The page says which events the baseline cannot know, and how long one that knows
them has to run. A drive that drifts, collects garbage or is unlike the model is declined by name, without a number.
Exit codes: 0 predicted, 2 usage, 3 environment, 4 declined, or no load is predicted to be held. More in
docs/predict.md.";
