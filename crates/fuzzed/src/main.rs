//! `fuzzed TARGET [SECONDS [SEED [INPUT]]]`: mutates the examples of a target for so many seconds (60).
//!
//! Ends with status 0 and the number of inputs, or fails with the input that broke a property. The seed is printed first;
//! the same seed makes the same inputs. With INPUT only the input of that number is tried.

use fuzzed::TARGETS;
use fuzzed::mutate::fuzz;
use std::error::Error;
use std::time::SystemTime;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let name = args.next().unwrap_or_default();
    let Some(target) = TARGETS.iter().find(|target| target.name == name) else {
        return Err(format!("give a target: {}", TARGETS.map(|target| target.name).join(", ")).into());
    };
    let seconds = args.next().map_or(Ok(60), |text| text.parse())?;
    let clock = || SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_nanos() as u64);
    let seed = args.next().map_or_else(|| Ok(clock()), |text| text.parse())?;
    let only = args.next().map(|text| text.parse()).transpose()?;
    fuzz(target, seconds, seed, only)
}
