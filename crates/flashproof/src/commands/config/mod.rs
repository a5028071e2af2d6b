//! `flashproof size config`: writes the configuration of a test and explains its load.
//!
//! ```text
//! CONFIG of any ACT, or the defaults
//!   + devices, duration, keys     options, or answers to questions
//!   x load or scale               per drive, not per device
//!   -> checked -> summary -> commented text -> standard output or a file
//! ```
//!
//! Devices are only queried; only the output file is opened for writing.

mod ask;

use crate::args::ConfigArgs;
use device::discover::{Drive, drives_of};
use engine::DeviceName;
use load::factor::Factor;
use load::workload::act::legacy::{self, ReadOptions, Translation};
use load::workload::act::load_summary::LoadSummary;
use load::workload::act::options::Test;
use load::workload::act::reference::Document;
use load::workload::act::scale::LOAD_1X;
use load::workload::act::{ActConfig, check, scale};
use procedures::configuration::{bytes_of, translation_of};
use results::units::{self, Grouped};
use session::console;
use session::failure::Failure;
use session::user_file::Output;
use std::fmt::Display;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Default length of a test, which is enough to certify, seconds.
const DAY_SEC: u32 = 86_400;

pub fn run(args: &ConfigArgs) -> Result<ExitCode, Failure> {
    let config_path = args.config.as_deref().or(args.from.as_deref());
    let mut request = ConfigRequest::of(args)?;
    let base = config_path.map(|path| translated(path, args)).transpose()?;
    output(&request, args).check()?;
    let is_interactive = args.ask || base.is_none() && request.is_empty();
    if is_interactive {
        if !args.ask && !io::stdin().is_terminal() {
            return Err(Failure::usage(
                "no configuration is requested, and there is no terminal for questions - give CONFIG, or --device and \
                 --load (see flashproof size config --help), or --ask to read the answers from standard input",
            ));
        }
        ask::ask(&mut request, io::stdin().lock(), io::stderr())?;
    }
    let output = output(&request, args);
    let draft = Draft::new(base, &request, args)?;
    let text = draft.document(args)?;
    if let Err(failure) = output.write(&text) {
        // A configuration that cannot be saved is printed, so that the answers are not lost.
        if is_interactive {
            console::result(&text)?;
        }
        return Err(failure);
    }
    if let Output::File { path, .. } = &output {
        console::note(&format!(
            "{} is written; run it with: flashproof {} {0}",
            path.display(),
            draft.config.test.name()
        ));
    }
    Ok(ExitCode::SUCCESS)
}

fn output(request: &ConfigRequest, args: &ConfigArgs) -> Output {
    match &request.out {
        Some(path) => Output::File { path: path.clone(), force: args.force },
        None => Output::Stdout,
    }
}

/// Reads a configuration of any ACT version.
fn translated(path: &Path, args: &ConfigArgs) -> Result<(String, Translation), Failure> {
    let reading = ReadOptions { test: args.model, act: args.act, cpus: args.cpus };
    Ok((path.display().to_string(), translation_of(path, &bytes_of(path)?, &reading)?))
}

/// A configuration that can be written, and its origin.
struct Draft {
    config: ActConfig,
    drives: Vec<Drive>,
    source: Option<(String, Translation)>,
    /// Form in which the load was given.
    rates: Option<Rates>,
    /// True if --scale was applied to these rates.
    is_scaled: bool,
    notes: Notes,
}

/// Notes for the user, by key; without a key: about the whole file.
type Notes = Vec<(&'static str, String)>;

impl Draft {
    /// Combines base, request and options. Errors: a line for each invalid value.
    fn new(base: Option<(String, Translation)>, request: &ConfigRequest, args: &ConfigArgs) -> Result<Self, Failure> {
        let mut config = match &base {
            Some((_, translation)) => translation.config.clone(),
            None => ActConfig::new(request.test.unwrap_or_default()),
        };
        let devices = match &request.devices[..] {
            [] => None,
            devices => Some(("device-names".to_owned(), device_list(devices)?)),
        };
        let duration_sec = request.duration_sec.or(base.is_none().then_some(DAY_SEC));
        let duration = duration_sec.map(|seconds| ("test-duration-sec".to_owned(), seconds.to_string()));
        let keys = devices.into_iter().chain(duration).chain(request.set.iter().cloned());
        all(keys.filter_map(|(key, value)| config.set(&key, &value).err()).collect())?;
        let is_in_file =
            |key: &str| base.as_ref().is_some_and(|(_, translation)| translation.given_keys.contains(&key));
        config.apply_dependent_defaults(&|key| is_in_file(key) || request.sets(key));
        if base.is_none() && config.device_names.is_empty() {
            return Err(Failure::usage("no device is named - give --device, or CONFIG with a configuration"));
        }
        if base.is_none() && request.rates.is_none() {
            return Err(Failure::usage(format!(
                "no load is given - give --load N (1 is {} reads and {} writes per second for each drive), or --reads \
                 and --writes",
                scale::READS_PER_SEC_1X,
                scale::WRITES_PER_SEC_1X
            )));
        }
        let drives = drives(&config.device_names, args.capacity);
        let mut notes = set_rates(&mut config, request.rates, drives.len())?;
        if let Some(factor) = args.scale {
            let scaled = scale::scale(&mut config, factor).map_err(Failure::usages)?;
            notes.extend(scaled.iter().map(|rate| (rate.key, rate.to_string())));
        }
        all(check(&config))?;
        Ok(Self { config, drives, source: base, rates: request.rates, is_scaled: args.scale.is_some(), notes })
    }

    /// Text of the file. Also prints the explanation of the load, and the changes.
    fn document(&self, args: &ConfigArgs) -> Result<String, Failure> {
        let summary = LoadSummary::of(&self.config, &self.drives).map_err(Failure::usages)?;
        let summary = summary.lines(args.dwpd);
        let mut document = Document::new(self.config.clone());
        document.lines([self.title()]);
        document.paragraph(&format!(
            "{} {}; run it with: flashproof {} FILE. A test that writes erases its devices.",
            legacy::WRITTEN_BY,
            env!("CARGO_PKG_VERSION"),
            self.config.test.name()
        ));
        let without_key = |sentence: String| ("", sentence);
        let changes = self.source.iter().flat_map(|(_, translation)| &translation.changes).chain(&self.notes).cloned();
        let notes = self.translation().into_iter().map(without_key).chain(changes);
        for (key, sentence) in notes.chain(self.drive_notes().into_iter().map(without_key)) {
            console::note(&if key.is_empty() { sentence.clone() } else { format!("{key}: {sentence}") });
            document.note(key, &sentence);
        }
        if let Some(sentence) = self.uneven() {
            console::warning(&sentence);
            document.paragraph(&sentence);
        }
        summary.iter().for_each(|line| console::note(line));
        document.lines(summary);
        Ok(document.to_string())
    }

    fn title(&self) -> String {
        let rate = |key| Grouped(self.config.number(key).unwrap_or(0));
        let drives = units::count(self.drives.len() as u64, "drive");
        let load = match self.load() {
            Some(factor) if self.is_even() => format!(" at {factor}x"),
            Some(factor) => format!(" at {factor}x on average"),
            None => String::new(),
        };
        format!(
            "A {} test of {drives}{load}: {} reads and {} writes per second.",
            self.config.test.name(),
            rate("read-reqs-per-sec"),
            rate("write-reqs-per-sec")
        )
    }

    /// The requested multiple of 1x, unless the load was scaled afterwards.
    fn load(&self) -> Option<Factor> {
        match self.rates {
            Some(Rates::Load(factor)) if !self.is_scaled => Some(factor),
            _ => None,
        }
    }

    /// True if every drive has the same number of devices.
    fn is_even(&self) -> bool {
        self.drives.windows(2).all(|pair| pair[0].members.len() == pair[1].members.len())
    }

    /// Share of each drive, if the load was given per drive and the shares differ.
    fn uneven(&self) -> Option<String> {
        if self.is_even() || !matches!(self.rates, Some(Rates::Load(_) | Rates::PerDrive { .. })) {
            return None;
        }
        let devices: usize = self.drives.iter().map(|drive| drive.members.len()).sum();
        let shares = self.drives.iter().map(|drive| {
            let share = drive.members.len() as f64 / devices as f64;
            let [reads, writes] = scale::LOAD_1X.map(|(key, _)| self.config.number(key).unwrap_or(0) as f64 * share);
            let load = self.load().map(|_| format!(" ({}x)", hundredths(reads / scale::READS_PER_SEC_1X as f64)));
            let [reads, writes] = [reads, writes].map(|rate| Grouped(rate.round() as u64));
            let (name, load) = (&drive.name, load.unwrap_or_default());
            format!("{name} gets {reads} reads and {writes} writes per second{load}")
        });
        let shares: Vec<_> = shares.collect();
        Some(format!(
            "The drives do not get the same load: {}. As in ACT, each device name gets the same rates; give the same \
             number of devices on each drive to load all drives alike.",
            shares.join(", ")
        ))
    }

    /// The ACT version of the source, and the parser's warnings.
    fn translation(&self) -> Vec<String> {
        let Some((name, translation)) = &self.source else { return Vec::new() };
        let act = translation.act;
        let why = match &translation.candidates {
            Some(acts) if acts.start() == acts.end() => format!("its keys are those of ACT {act}"),
            Some(acts) => format!("its keys fit ACT {} to {}; --act selects another version", acts.start(), acts.end()),
            None => "--act selects this version".to_owned(),
        };
        let read_as = match translation.is_flashproof_file {
            true => "a file of flashproof".to_owned(),
            false => format!("read as a file of ACT {act}: {why}"),
        };
        let mut origin_text = format!("From {name}, {read_as}. Its comments are not carried over.");
        if translation.test_by_default {
            origin_text +=
                " The file fits both tests, and is read as a storage test; --model index selects the index test.";
        }
        let warnings = translation.warnings.iter().map(ToString::to_string);
        std::iter::once(origin_text).chain(warnings).collect()
    }

    /// How devices were counted as drives, if that is not obvious.
    fn drive_notes(&self) -> Vec<String> {
        let note = |drive: &Drive| {
            let members = drive.members.join(" and ");
            match (drive.members.len() > 1, drive.discovery_error.is_some()) {
                (true, true) => Some(format!(
                    "{members} count as one drive, {}, by their names: not all of them are on this machine.",
                    drive.name
                )),
                (true, false) => Some(format!("{members} count as one drive, {}.", drive.name)),
                (false, true) => {
                    Some(format!("{members} counts as one drive, by its name: it is not on this machine."))
                }
                (false, false) => None,
            }
        };
        self.drives.iter().filter_map(note).collect()
    }
}

/// Drives that hold the devices `names`; `capacity` is the size of drives of unknown size.
fn drives(names: &[DeviceName], capacity: Option<u64>) -> Vec<Drive> {
    let simulated = |name: &DeviceName| {
        let spec = name.drive()?;
        let (size_bytes, min_io_bytes) = (Some(spec.capacity_bytes), Some(spec.min_io_bytes));
        let name = name.to_string();
        Some(Drive { members: vec![name.clone()], name, size_bytes, min_io_bytes, discovery_error: None })
    };
    let mut drives: Vec<_> = names.iter().filter_map(simulated).collect();
    let real: Vec<_> = names.iter().filter(|name| name.drive().is_none()).map(ToString::to_string).collect();
    let known = drives_of(&real, Path::new("/")).into_iter();
    drives.extend(known.map(|drive| Drive { size_bytes: drive.size_bytes.or(capacity), ..drive }));
    drives
}

/// A number with up to two decimals, without trailing zeros.
fn hundredths(number: f64) -> String {
    format!("{number:.2}").trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Value of `device-names`, in which white space separates names.
fn device_list(devices: &[String]) -> Result<String, Failure> {
    match devices.iter().find(|name| name.contains(|c: char| c.is_whitespace() || c == ';')) {
        Some(name) => Err(Failure::usage(format!(
            "cannot name the device {} in a configuration - white space and semicolons separate names there - give \
             another path to the device, or repeat --device for each device",
            results::units::quoted(name)
        ))),
        None => Ok(devices.join(" ")),
    }
}

/// Sets the rates, and returns notes on rounded values.
fn set_rates(config: &mut ActConfig, rates: Option<Rates>, drives: usize) -> Result<Notes, Failure> {
    let drives = drives as u64;
    match rates {
        Some(Rates::Load(factor)) => {
            let rates = scale::set_load(config, factor, drives).map_err(Failure::usages)?;
            let rounded = rates.into_iter().filter_map(|rate| {
                let (exact, whole) = (rate.rounded?, rate.after_per_sec);
                Some((rate.key, format!("{factor}x is {exact} per second, rounded to the whole number {whole}")))
            });
            Ok(rounded.collect())
        }
        Some(Rates::PerDrive { reads, writes }) => {
            let rates = [("read-reqs-per-sec", reads), ("write-reqs-per-sec", writes)];
            let set = |(key, rate)| config.set(key, &(u64::from(rate) * drives).to_string()).err();
            all(rates.into_iter().filter_map(set).collect())?;
            Ok(Notes::new())
        }
        Some(Rates::Set) | None => Ok(Notes::new()),
    }
}

/// The requested configuration. Unset fields stay as they are.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ConfigRequest {
    pub test: Option<Test>,
    /// Devices; empty: keep the devices of CONFIG.
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
    /// Builds the request from the options. Errors: a key is set by two options.
    pub fn of(args: &ConfigArgs) -> Result<Self, Failure> {
        all(keys_set_twice(args))?;
        let keys = [
            ("read-reqs-per-sec", &args.reads),
            ("write-reqs-per-sec", &args.writes),
            ("record-bytes", &args.record_bytes),
        ];
        let options = keys.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value.clone()?)));
        let set: Vec<_> = options.chain(args.set.iter().cloned()).collect();
        let has_rates = set.iter().any(|(key, _)| LOAD_1X.iter().any(|(rate, _)| key == rate));
        Ok(Self {
            test: args.model,
            devices: args.device.clone(),
            duration_sec: args.duration,
            rates: args.load.map(Rates::Load).or(has_rates.then_some(Rates::Set)),
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
fn keys_set_twice(args: &ConfigArgs) -> Vec<String> {
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
    let set_keys: Vec<_> = load.chain(options).chain(set).collect();
    let problems = set_keys.iter().enumerate().filter_map(|(index, (key, option))| {
        let (_, first) = set_keys[..index].iter().find(|(earlier, _)| earlier == key)?;
        Some(format!("{key:?} is set twice, by {first} and by {option} - give only one of them"))
    });
    problems.collect()
}

/// Failure with a line for each problem, if there is any.
pub(super) fn all<T: Display>(problems: Vec<T>) -> Result<(), Failure> {
    if problems.is_empty() { Ok(()) } else { Err(Failure::usages(problems)) }
}
