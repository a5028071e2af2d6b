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
pub mod options;

use crate::commands::size::config::options::ConfigArgs;
use crate::configuration::{bytes_of, note_on_key, translation_of};
use act::legacy::{self, ReadOptions, Translation};
use act::load_summary::LoadSummary;
use act::options::Test;
use act::reference::AnnotatedConfig;
use act::scale::{self, LOAD_1X};
use act::{ActConfig, check};
use device::discover::{Drive, drives_of};
use engine::DeviceName;
use load::factor::Factor;
use results::format::{self, Grouped};
use session::failure::Failure;
use session::user_file::OutputFile;
use session::{console, devices};
use std::fmt::Display;
use std::io::{self, IsTerminal};
use std::path::Path;
use std::process::ExitCode;

/// Default length of a test, which is enough to certify, seconds.
const DAY_SEC: u32 = 86_400;

pub fn run(given: &ConfigArgs) -> Result<ExitCode, Failure> {
    let mut args = given.clone();
    let config_path = args.config.as_deref().or(args.from.as_deref());
    all(keys_set_twice(&args))?;
    let base = config_path
        .map(|path| translated(path, &args))
        .transpose()?;
    output_file(&args).iter().try_for_each(OutputFile::check)?;
    let is_interactive = args.ask || base.is_none() && args.requests_nothing();
    if is_interactive {
        if !args.ask && !io::stdin().is_terminal() {
            return Err(Failure::usage(
                "no configuration is requested, and there is no terminal for questions - give CONFIG, or --device and \
                 --load (see flashproof size config --help), or --ask to read the answers from standard input",
            ));
        }
        ask::ask(&mut args, io::stdin().lock(), io::stderr())?;
    }
    let output = output_file(&args);
    let draft = Draft::new(base, &args)?;
    let text = draft.document()?;
    if let Err(failure) = output
        .as_ref()
        .map_or_else(|| console::result(&text), |file| file.write(&text))
    {
        // A configuration that cannot be saved is printed, so that the answers are not lost.
        if is_interactive {
            console::result(&text)?;
        }
        return Err(failure);
    }
    if let Some(OutputFile { path, .. }) = &output {
        console::note(&format!(
            "{} is written; run it with: flashproof {} {0}",
            path.display(),
            draft.config.test.name()
        ));
    }
    Ok(ExitCode::SUCCESS)
}

fn output_file(args: &ConfigArgs) -> Option<OutputFile> {
    args.out.clone().map(|path| OutputFile {
        path,
        force: args.force,
    })
}

/// Reads a configuration of any ACT version.
fn translated(path: &Path, args: &ConfigArgs) -> Result<(String, Translation), Failure> {
    let reading = ReadOptions {
        test: args.model,
        act: args.act,
        cpus: args.cpus,
    };
    Ok((
        path.display().to_string(),
        translation_of(path, &bytes_of(path)?, &reading)?,
    ))
}

/// A configuration that can be written, and its origin.
struct Draft<'a> {
    config: ActConfig,
    drives: Vec<Drive>,
    source: Option<(String, Translation)>,
    args: &'a ConfigArgs,
    notes: Notes,
}

/// Notes for the user, by key; without a key: about the whole file.
type Notes = Vec<(&'static str, String)>;

impl<'a> Draft<'a> {
    /// Combines base and options. Errors: a line for each invalid value.
    fn new(base: Option<(String, Translation)>, args: &'a ConfigArgs) -> Result<Self, Failure> {
        let mut config = match &base {
            Some((_, translation)) => translation.config.clone(),
            None => ActConfig::new(args.model.unwrap_or_default()),
        };
        let devices = match &args.device[..] {
            [] => None,
            devices => Some(("device-names", device_list(devices)?)),
        };
        let duration_sec = args.duration.or(base.is_none().then_some(DAY_SEC));
        let duration = duration_sec.map(|seconds| ("test-duration-sec", seconds.to_string()));
        let keys = args.keys().map(|(key, _, value)| (key, value.to_owned()));
        let keys = devices.into_iter().chain(duration).chain(keys);
        all(keys
            .filter_map(|(key, value)| config.set(key, &value).err())
            .collect())?;
        let given_keys = base
            .as_ref()
            .map_or(&[][..], |(_, translation)| &translation.given_keys[..]);
        config.apply_dependent_defaults(&|key| given_keys.contains(&key) || args.sets(key));
        if base.is_none() && config.device_names.is_empty() {
            return Err(Failure::usage(
                "no device is named - give --device, or CONFIG with a configuration",
            ));
        }
        if base.is_none() && !args.has_load() {
            return Err(Failure::usage(format!(
                "no load is given - give --load N (1 is {} reads and {} writes per second for each drive), or --reads \
                 and --writes",
                scale::READS_PER_SEC_1X,
                scale::WRITES_PER_SEC_1X
            )));
        }
        devices::refuse_patterns(&config.device_names)?;
        let drives = drives(&config.device_names, args.capacity);
        let mut notes = set_rates(&mut config, args, drives.len() as u64)?;
        if let Some(factor) = args.scale {
            let scaled = scale::scale(&mut config, factor).map_err(Failure::usages)?;
            notes.extend(scaled.iter().map(|rate| (rate.key, rate.to_string())));
        }
        all(check(&config))?;
        Ok(Self {
            config,
            drives,
            source: base,
            args,
            notes,
        })
    }

    /// Text of the configuration file. Also prints the explanation of the load, and the changes.
    fn document(&self) -> Result<String, Failure> {
        let summary =
            LoadSummary::from_config(&self.config, &self.drives).map_err(Failure::usages)?;
        let summary = summary.lines(self.args.dwpd);
        let mut document = AnnotatedConfig::new(self.config.clone());
        document.lines([self.title()]);
        document.paragraph(&format!(
            "{} {}; run it with: flashproof {} FILE. A test that writes erases its devices.",
            legacy::WRITTEN_BY,
            env!("CARGO_PKG_VERSION"),
            self.config.test.name()
        ));
        let without_key = |sentence: String| ("", sentence);
        let changes = self
            .source
            .iter()
            .flat_map(|(_, translation)| &translation.changes)
            .chain(&self.notes)
            .cloned();
        let notes = self
            .translation()
            .into_iter()
            .map(without_key)
            .chain(changes);
        for (key, sentence) in notes.chain(self.drive_notes().into_iter().map(without_key)) {
            note_on_key(key, &sentence);
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
        let drives = format::count(self.drives.len() as u64, "drive");
        let load = match self.load() {
            Some(factor) if self.is_even() => format!(" at {factor}x"),
            Some(factor) => format!(" at {factor}x on average"),
            None => String::new(),
        };
        format!(
            "{} test of {drives}{load}: {} reads and {} writes per second.",
            match self.config.test {
                Test::Storage => "A storage",
                Test::Index => "An index",
            },
            rate("read-reqs-per-sec"),
            rate("write-reqs-per-sec")
        )
    }

    /// The requested multiple of 1x, unless the load was scaled afterwards.
    fn load(&self) -> Option<Factor> {
        self.args.load.filter(|_| self.args.scale.is_none())
    }

    /// True if every drive has the same number of devices.
    fn is_even(&self) -> bool {
        self.drives
            .windows(2)
            .all(|pair| pair[0].members.len() == pair[1].members.len())
    }

    /// Share of each drive, if the load was given per drive and the shares differ.
    fn uneven(&self) -> Option<String> {
        if self.is_even() || self.args.load.is_none() && self.args.per_drive.is_none() {
            return None;
        }
        let devices: usize = self.drives.iter().map(|drive| drive.members.len()).sum();
        let shares = self.drives.iter().map(|drive| {
            let share = drive.members.len() as f64 / devices as f64;
            let [reads, writes] =
                scale::LOAD_1X.map(|(key, _)| self.config.number(key).unwrap_or(0) as f64 * share);
            let load = self
                .load()
                .map(|_| format!(" ({}x)", hundredths(reads / scale::READS_PER_SEC_1X as f64)));
            let reads = Grouped(reads.round() as u64);
            let writes = Grouped(writes.round() as u64);
            let name = &drive.name;
            let load = load.unwrap_or_default();
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
        let Some((name, translation)) = &self.source else {
            return Vec::new();
        };
        let act = translation.act;
        let why = match &translation.candidates {
            Some(acts) if acts.start() == acts.end() => format!("its keys are those of ACT {act}"),
            Some(acts) => format!(
                "its keys fit ACT {} to {}; --act selects another version",
                acts.start(),
                acts.end()
            ),
            None => "--act selects this version".to_owned(),
        };
        let read_as = if translation.is_flashproof_file {
            "a file of flashproof".to_owned()
        } else {
            format!("read as a file of ACT {act}: {why}")
        };
        let mut origin_text = format!("From {name}, {read_as}. Its comments are not carried over.");
        if translation.test_by_default {
            origin_text += " The file fits both tests, and is read as a storage test; --model index selects the index test.";
        }
        let warnings = translation.warnings.iter().map(ToString::to_string);
        std::iter::once(origin_text).chain(warnings).collect()
    }

    /// How devices were counted as drives, if that is not obvious.
    fn drive_notes(&self) -> Vec<String> {
        self.drives.iter().filter_map(|drive: &Drive| {
            let members = drive.members.join(" and ");
            match (drive.members.len() > 1, drive.discovery_error.is_some()) {
                (true, true) => Some(format!(
                    "{members} count as one drive, {}, by their names: not all of them are on this machine.",
                    drive.name
                )),
                (true, false) => Some(format!("{members} count as one drive, {}.", drive.name)),
                (false, true) => Some(format!(
                    "{members} counts as one drive, by its name: it is not on this machine."
                )),
                (false, false) => None,
            }
        }).collect()
    }
}

/// Drives that hold the devices `names`; `capacity` is the size of drives of unknown size.
fn drives(names: &[DeviceName], capacity: Option<u64>) -> Vec<Drive> {
    let mut drives: Vec<_> = names
        .iter()
        .filter_map(|name: &DeviceName| {
            let spec = name.drive()?;
            let size_bytes = Some(spec.capacity_bytes);
            let min_io_bytes = Some(spec.min_io_bytes);
            let name = name.to_string();
            Some(Drive {
                members: vec![name.clone()],
                name,
                size_bytes,
                min_io_bytes,
                discovery_error: None,
            })
        })
        .collect();
    let real: Vec<_> = names
        .iter()
        .filter(|name| name.drive().is_none())
        .map(ToString::to_string)
        .collect();
    let known = drives_of(&real, Path::new("/")).into_iter();
    drives.extend(known.map(|drive| Drive {
        size_bytes: drive.size_bytes.or(capacity),
        ..drive
    }));
    drives
}

/// A number with up to two decimals, without trailing zeros.
fn hundredths(number: f64) -> String {
    format!("{number:.2}")
        .trim_end_matches('0')
        .trim_end_matches('.')
        .to_owned()
}

/// Value of `device-names`, in which white space separates names.
fn device_list(devices: &[String]) -> Result<String, Failure> {
    match devices
        .iter()
        .find(|name| name.contains(|c: char| c.is_whitespace() || c == ';'))
    {
        Some(name) => Err(Failure::usage(format!(
            "cannot name the device {} in a configuration - white space and semicolons separate names there - give \
             another path to the device, or repeat --device for each device",
            results::format::quoted(name)
        ))),
        None => Ok(devices.join(" ")),
    }
}

/// Sets the rates for `drives` drives, and returns notes on rounded values.
fn set_rates(config: &mut ActConfig, args: &ConfigArgs, drives: u64) -> Result<Notes, Failure> {
    if let Some((reads, writes)) = args.per_drive {
        let rates = [("read-reqs-per-sec", reads), ("write-reqs-per-sec", writes)];
        all(rates
            .into_iter()
            .filter_map(|(key, rate)| {
                config
                    .set(key, &(u64::from(rate) * drives).to_string())
                    .err()
            })
            .collect())?;
    }
    let Some(factor) = args.load else {
        return Ok(Notes::new());
    };
    let rates = scale::set_load(config, factor, drives).map_err(Failure::usages)?;
    let rounded = rates.into_iter().filter_map(|rate| {
        let exact = rate.rounded?;
        let whole = rate.after_per_sec;
        Some((
            rate.key,
            format!("{factor}x is {exact} per second, rounded to the whole number {whole}"),
        ))
    });
    Ok(rounded.collect())
}

impl ConfigArgs {
    /// Keys given by options other than `--load`, `--duration`, `--device`, in their order: key, option, value.
    fn keys(&self) -> impl Iterator<Item = (&str, &'static str, &str)> {
        let options = [
            ("read-reqs-per-sec", "--reads", &self.reads),
            ("write-reqs-per-sec", "--writes", &self.writes),
            ("record-bytes", "--record-bytes", &self.record_bytes),
        ];
        let options = options
            .into_iter()
            .filter_map(|(key, option, value)| Some((key, option, value.as_deref()?)));
        options.chain(
            self.set
                .iter()
                .map(|(key, value)| (key.as_str(), "--set", value.as_str())),
        )
    }

    fn sets(&self, key: &str) -> bool {
        self.keys().any(|(set, ..)| set == key)
    }

    /// True if a load is given, in any form.
    fn has_load(&self) -> bool {
        self.load.is_some()
            || self.per_drive.is_some()
            || LOAD_1X.iter().any(|(rate, _)| self.sets(rate))
    }

    /// True if no option sets a device, the duration, the load or a key.
    fn requests_nothing(&self) -> bool {
        self.device.is_empty()
            && self.duration.is_none()
            && self.load.is_none()
            && self.keys().next().is_none()
    }

    fn file_name(&self) -> String {
        let test = self.model.unwrap_or_default().name();
        let load = match (self.load, self.per_drive) {
            (Some(factor), _) => format!("{factor}x"),
            (None, Some((reads, writes))) => format!("{reads}r{writes}w"),
            (None, None) => "own".to_owned(),
        };
        format!("act_{test}_{load}_{}d.conf", self.device.len())
    }
}

fn keys_set_twice(args: &ConfigArgs) -> Vec<String> {
    let load = args
        .load
        .iter()
        .flat_map(|_| LOAD_1X.map(|(key, _)| (key, "--load")));
    let duration = args.duration.map(|_| ("test-duration-sec", "--duration"));
    let devices = args.device.first().map(|_| ("device-names", "--device"));
    let others = args.keys().map(|(key, option, _)| (key, option));
    let set_keys: Vec<_> = load.chain(duration).chain(devices).chain(others).collect();
    let problems = set_keys
        .iter()
        .enumerate()
        .filter_map(|(index, (key, option))| {
            let (_, first) = set_keys[..index]
                .iter()
                .find(|(earlier, _)| earlier == key)?;
            Some(format!(
                "{key:?} is set twice, by {first} and by {option} - give only one of them"
            ))
        });
    problems.collect()
}

/// Failure with a line for each problem, if there is any.
pub(super) fn all<T: Display>(problems: Vec<T>) -> Result<(), Failure> {
    if problems.is_empty() {
        Ok(())
    } else {
        Err(Failure::usages(problems))
    }
}
