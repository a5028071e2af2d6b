//! The requested configuration, from options or answers.

use crate::args::ConfigArgs;
use load::factor::Factor;
use load::workload::act::options::Test;
use load::workload::act::scale::LOAD_1X;
use session::failure::Failure;
use std::fmt::Display;
use std::path::PathBuf;

/// The requested configuration. Unset fields stay as they are.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ConfigRequest {
    pub test: Option<Test>,
    /// Devices; empty: keep the existing ones.
    pub devices: Vec<String>,
    pub duration_sec: Option<u32>,
    pub rates: Option<Rates>,
    /// Other keys and their values, in the order in which they are set.
    pub set: Vec<(String, String)>,
    pub out: Option<PathBuf>,
}

/// Form in which a load is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rates {
    /// A multiple of 1x on each drive.
    Load(Factor),
    /// Reads and writes per second for each drive.
    PerDrive { reads: u32, writes: u32 },
    /// The rates are among the keys in `set`.
    Set,
}

impl ConfigRequest {
    /// The request of the options. Errors: keys that two options set.
    pub fn of(args: &ConfigArgs) -> Result<Self, Failure> {
        all(twice(args))?;
        let keys = [
            ("read-reqs-per-sec", &args.reads),
            ("write-reqs-per-sec", &args.writes),
            ("record-bytes", &args.record_bytes),
        ];
        let options = keys.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value.clone()?)));
        let set: Vec<_> = options.chain(args.set.iter().cloned()).collect();
        let rates_set = set.iter().any(|(key, _)| LOAD_1X.iter().any(|(rate, _)| key == rate));
        Ok(Self {
            test: args.model,
            devices: args.device.clone(),
            duration_sec: args.duration,
            rates: args.load.map(Rates::Load).or(rates_set.then_some(Rates::Set)),
            set,
            out: args.out.clone(),
        })
    }

    pub fn is_empty(&self) -> bool {
        *self == Self { test: self.test, out: self.out.clone(), ..Self::default() }
    }

    pub fn sets(&self, key: &str) -> bool {
        self.set.iter().any(|(set, _)| set == key)
    }

    /// File name that describes the contents.
    pub fn file_name(&self) -> String {
        let test = self.test.unwrap_or_default().name();
        let load = match self.rates {
            Some(Rates::Load(factor)) => format!("{factor}x"),
            Some(Rates::PerDrive { reads, writes }) => format!("{reads}r{writes}w"),
            Some(Rates::Set) | None => "own".to_owned(),
        };
        format!("act_{test}_{load}_{}d.conf", self.devices.len())
    }
}

/// A message for each key that is set twice.
fn twice(args: &ConfigArgs) -> Vec<String> {
    let load = args.load.iter().flat_map(|_| LOAD_1X.map(|(key, _)| (key, "--load")));
    let options = [
        ("read-reqs-per-sec", "--reads", args.reads.is_some()),
        ("write-reqs-per-sec", "--writes", args.writes.is_some()),
        ("record-bytes", "--record-bytes", args.record_bytes.is_some()),
        ("test-duration-sec", "--duration", args.duration.is_some()),
        ("device-names", "--device", !args.device.is_empty()),
    ];
    let options = options.into_iter().filter(|(.., given)| *given).map(|(key, option, _)| (key, option));
    let set = args.set.iter().map(|(key, _)| (key.as_str(), "--set"));
    let given: Vec<_> = load.chain(options).chain(set).collect();
    let again = given.iter().enumerate().filter_map(|(index, (key, option))| {
        let (_, first) = given[..index].iter().find(|(earlier, _)| earlier == key)?;
        Some(format!("{key:?} is set by {first} and again by {option}, and only one of them can hold - drop one"))
    });
    again.collect()
}

/// Failure with a line for each problem, if there is any.
pub(super) fn all<T: Display>(problems: Vec<T>) -> Result<(), Failure> {
    if problems.is_empty() { Ok(()) } else { Err(Failure::usages(problems)) }
}
