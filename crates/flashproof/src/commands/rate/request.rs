//! What is asked for: load, bounds and terms of the search, all checked before any device is touched.

use crate::args::RateArgs;
use crate::failure::Failure;
use crate::runner;
use crate::series::{self, Base1x, NOT_PREPARED};
use load::factor::Factor;
use load::workload::{Load, Scalable};
use results::judge::{Sla, round_sec};
use results::rating::{Multiple, ROUNDS_MAX, Standing};
use results::series::{Identity, Purpose, SERIES_FORMAT_VERSION, Series};
use results::steady::ROUNDS_IN_WINDOW;
use results::units::span;

/// How long a rating is confirmed, seconds: ACT's slice. Simulated drives do not change with time.
const SLICE_SEC: u32 = 3_600;
const SIMULATED_SLICE_SEC: u32 = 120;

const SEC_PER_HOUR: f64 = 3_600.0;

/// What is asked for.
pub struct Request {
    /// The load of 1x, on all devices.
    pub base: Base1x,
    /// The first and the highest load.
    pub from: Multiple,
    /// See there.
    pub up_to: Multiple,
    /// How near the result must be, a fraction.
    pub resolution: f64,
    /// How long the rating is confirmed, seconds; whole rounds.
    pub slice_sec: u64,
    /// Length of a round, seconds.
    pub round_sec: u64,
    /// Most seconds under load.
    pub max_sec: Option<f64>,
    /// Whether the devices are simulated.
    pub simulated: bool,
    /// The name of CONFIG, or nothing.
    pub config_name: String,
    sla: Sla,
    as_act: bool,
    no_prep: bool,
}

impl Request {
    /// What `args` ask for. Errors: whatever is wrong with the options or CONFIG.
    pub fn of(args: &RateArgs) -> Result<Self, Failure> {
        let base = series::base(args.config.as_deref(), &args.devices, args.as_act, "rate")?;
        let spec = base.spec();
        let (from, up_to) = (multiple(args.from), multiple(args.up_to));
        if from > up_to {
            return Err(Failure::usage(format!(
                "cannot climb from {from}x (--from) to {up_to}x (--up-to) - that is not upwards - give a lower --from"
            )));
        }
        let simulated = spec.is_simulated();
        let slice = args.slice.unwrap_or(if simulated { SIMULATED_SLICE_SEC } else { SLICE_SEC });
        let round_sec = round_sec(None, slice.into(), spec.report_interval_sec);
        let file_name = args.config.as_deref().and_then(|path| path.file_name());
        let request = Self {
            from,
            up_to,
            resolution: args.resolution / 100.0,
            slice_sec: u64::from(slice).div_ceil(round_sec) * round_sec,
            round_sec,
            max_sec: args.max_hours.map(|hours| hours * SEC_PER_HOUR),
            simulated,
            config_name: file_name.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default(),
            sla: args.sla.clone(),
            as_act: base.is_paced_as_published(),
            no_prep: args.no_prep,
            base,
        };
        // Nobody wants to hear in the evening that the first rate is too large.
        request.load(from, request.steady_sec())?;
        Ok(request)
    }

    /// Most seconds of a step that ends when it is steady.
    pub fn steady_sec(&self) -> u64 {
        ROUNDS_MAX as u64 * self.round_sec
    }

    /// Fewest seconds in which a step can show anything.
    pub fn least_sec(&self) -> u64 {
        ROUNDS_IN_WINDOW as u64 * self.round_sec
    }

    /// The load of `multiple` times 1x on all devices, for at most `seconds`.
    pub fn load(&self, multiple: Multiple, seconds: u64) -> Result<Load<<Base1x as Scalable>::Workload>, Failure> {
        let mut base = self.base.clone();
        base.set_duration(u32::try_from(seconds).unwrap_or(u32::MAX));
        let devices: Vec<usize> = (0..base.spec().device_names.len()).collect();
        let factor: Factor = multiple.to_string().parse().map_err(Failure::usage)?;
        base.at(factor, &devices).map_err(|errors| {
            let errors: Vec<_> = errors.iter().map(|error| format!("{multiple}x: {error}")).collect();
            Failure::usage(errors.join("\n"))
        })
    }

    /// A series of this on `devices`, of which nothing is done.
    pub fn series(&self, devices: Vec<Identity>, unprepared: &[String]) -> Series {
        let mut terms = vec![
            ("limits".to_owned(), self.sla.to_string()),
            ("first load".to_owned(), format!("{}x", self.from)),
            ("highest load".to_owned(), format!("{}x", self.up_to)),
            ("resolution".to_owned(), format!("{} %", self.resolution * 100.0)),
            ("length of a round".to_owned(), span(self.round_sec)),
            ("confirmed for".to_owned(), span(self.slice_sec)),
            ("pacing".to_owned(), if self.as_act { "as ACT" } else { "even" }.to_owned()),
            ("load of 1x".to_owned(), if self.base.is_standard() { "ACT's" } else { "its own" }.to_owned()),
        ];
        let prepared = if self.no_prep { "none (--no-prep)" } else { "before the first step" };
        terms.push(("preparation".to_owned(), prepared.to_owned()));
        terms.push((NOT_PREPARED.to_owned(), unprepared.join(", ")));
        Series {
            format_version: SERIES_FORMAT_VERSION,
            tool: runner::tool(),
            command: runner::command(),
            purpose: Purpose::Rate,
            began_unix_ms: series::now_unix_ms(),
            devices,
            config_1x: self.base.to_text(),
            terms,
            findings: Vec::new(),
            steps: Vec::new(),
            conclusion: None,
            process: None,
        }
    }

    /// What a rating can be compared with, on devices of which `unprepared` were not prepared and `virtual_kinds`
    /// are no drives.
    pub fn standing(&self, unprepared: &str, virtual_kinds: &[String]) -> Standing {
        let reasons = [
            (!self.as_act, "operations came evenly, which flatters a drive (--as-act paces as ACT does)"),
            (!self.base.is_standard(), "the load of 1x was not ACT's"),
            (self.sla != Sla::default(), "the limits were not ACT's"),
            (self.simulated, "the drive was simulated"),
            (!unprepared.is_empty(), "the drive was not prepared"),
            (self.slice_sec < SLICE_SEC.into(), "it was confirmed for less than an hour"),
        ];
        let reasons = reasons.into_iter().filter(|(is, _)| *is).map(|(_, why)| why.to_owned());
        let reasons: Vec<_> = reasons.chain(virtual_kinds.iter().cloned()).collect();
        if reasons.is_empty() { Standing::Comparable } else { Standing::Alone(reasons) }
    }
}

fn multiple(factor: Factor) -> Multiple {
    Multiple::new(factor.as_f64())
}
