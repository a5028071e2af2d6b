//! The requested search: load, bounds and settings, all checked before any device is touched.

use crate::args::RateArgs;
use load::factor::Factor;
use load::workload::Load;
use load::workload::act::ActWorkload;
use load::workload::act::load_summary::LoadSummary;
use procedures::series::{self, Base1x, NOT_PREPARED};
use results::judge::{Sla, round_sec};
use results::rating::{Move, Multiple, RECOVERY_ROUNDS_MAX, ROUNDS_MIN, SPELLS_IN_WINDOW, Standing};
use results::series::{Identity, Purpose, Series};
use results::units::span;
use session::failure::Failure;

/// Duration of the confirmation, seconds: ACT's slice.
const SLICE_SEC: u32 = 3_600;
/// Maximum operations of a step on simulated drives without --slice: about a minute of CPU.
const SIMULATED_OPS_MAX: f64 = 250e6;
/// Minimum length of a slice shortened so, seconds: a minute of load shows what a drive does at that rate.
const SIMULATED_SLICE_SEC_MIN: u64 = 60;

/// The requested search.
pub struct Request {
    /// The load of 1x, on all devices.
    pub base: Base1x,
    /// First load to try.
    pub from: Multiple,
    /// Highest load to try.
    pub up_to: Multiple,
    /// Maximum distance of the result from the true rating, as a fraction.
    pub resolution: f64,
    /// Duration of the confirmation.
    slice: Slice,
    /// Operations per second at 1x on simulated drives, if they limit the length of a step.
    bounding_iops: Option<f64>,
    /// Maximum time under load, seconds.
    pub max_sec: Option<f64>,
    pub simulated: bool,
    /// Name of CONFIG; empty without one.
    pub config_name: String,
    sla: Sla,
    as_act: bool,
    no_prep: bool,
}

/// Time in which a load is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slice {
    /// Seconds, in whole rounds.
    pub sec: u64,
    /// Length of a round, seconds.
    pub round_sec: u64,
}

impl Slice {
    /// A slice of at least `sec` in whole rounds, for a run that reports every `interval_sec`.
    fn of(sec: u64, interval_sec: u64) -> Self {
        let round_sec = round_sec(None, sec, interval_sec);
        Self { sec: sec.div_ceil(round_sec) * round_sec, round_sec }
    }
}

impl Request {
    /// The request in `args`. Errors: invalid options or files.
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
        let summary = || LoadSummary::of(base.config(), &[]).ok();
        let iops = |summary: LoadSummary| summary.flows.iter().map(|flow| flow.rate.per_sec_f64()).sum();
        let file_name = args.config.as_deref().and_then(|path| path.file_name());
        let request = Self {
            from,
            up_to,
            resolution: args.resolution / 100.0,
            slice: Slice::of(args.slice.unwrap_or(SLICE_SEC).into(), spec.report_interval_sec),
            bounding_iops: if simulated && args.slice.is_none() { summary().map(iops) } else { None },
            max_sec: args.max_duration.map(f64::from),
            simulated,
            config_name: file_name.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default(),
            sla: args.sla.clone(),
            as_act: base.is_paced_as_published(),
            no_prep: args.no_prep,
            base,
        };
        // Reports a first rate that is too large now, not in the evening.
        request.load(from, request.slice(from).sec)?;
        Ok(request)
    }

    /// Slice in which `multiple` times 1x is judged.
    pub fn slice(&self, multiple: Multiple) -> Slice {
        match self.bounding_iops {
            Some(iops) if iops * multiple.get() * self.slice.sec as f64 > SIMULATED_OPS_MAX => {
                let sec = (SIMULATED_OPS_MAX / (iops * multiple.get())) as u64;
                Slice::of(sec.max(SIMULATED_SLICE_SEC_MIN).min(self.slice.sec), self.base.spec().report_interval_sec)
            }
            _ => self.slice,
        }
    }

    /// Maximum duration of a move, seconds; `wait_sec` is the longest time before a slow spell so far. On a real drive
    /// a confirmation contains several spells.
    pub fn longest_sec(&self, moved: Move, wait_sec: f64) -> u64 {
        let Slice { sec, round_sec } = self.slice(moved.multiple());
        match moved {
            Move::Recover(_) => RECOVERY_ROUNDS_MAX as u64 * round_sec,
            Move::Confirm(_) if !self.simulated => {
                let spells_sec = (SPELLS_IN_WINDOW as f64 * wait_sec) as u64;
                sec.max(spells_sec.div_ceil(round_sec) * round_sec)
            }
            Move::Try(_) | Move::Confirm(_) => sec,
        }
    }

    /// Minimum time in which a move can have a result, seconds.
    pub fn least_sec(&self, moved: Move, wait_sec: f64) -> u64 {
        match moved {
            Move::Confirm(_) => self.longest_sec(moved, wait_sec),
            Move::Try(_) | Move::Recover(_) => ROUNDS_MIN as u64 * self.slice(moved.multiple()).round_sec,
        }
    }

    /// Why a confirmation of `multiple` is shorter than normal; `None` if it is not.
    pub fn shortened(&self, multiple: Multiple) -> Option<String> {
        let sec = self.slice(multiple).sec;
        (sec < self.slice.sec).then(|| {
            let (sec, whole, hours) = (span(sec), span(self.slice.sec), self.slice.sec / 3_600);
            format!("it was judged over {sec}, not {whole}: that takes more than a minute of CPU (--slice {hours}h takes it)")
        })
    }

    /// The load of `multiple` times 1x on all devices, for at most `seconds`.
    pub fn load(&self, multiple: Multiple, seconds: u64) -> Result<Load<ActWorkload>, Failure> {
        let mut base = self.base.clone();
        base.set_duration(u32::try_from(seconds).unwrap_or(u32::MAX));
        let devices: Vec<usize> = (0..base.spec().device_names.len()).collect();
        let factor: Factor = multiple.to_string().parse().map_err(Failure::usage)?;
        base.at(factor, &devices).map_err(|errors| {
            let errors: Vec<_> = errors.iter().map(|error| format!("{multiple}x: {error}")).collect();
            Failure::usage(errors.join("\n"))
        })
    }

    /// A new series of this request on `devices`.
    pub fn series(&self, devices: Vec<Identity>, unprepared: &[String]) -> Series {
        let mut terms = vec![
            ("limits".to_owned(), self.sla.to_string()),
            ("first load".to_owned(), format!("{}x", self.from)),
            ("highest load".to_owned(), format!("{}x", self.up_to)),
            ("resolution".to_owned(), format!("{} %", self.resolution * 100.0)),
            ("length of a round".to_owned(), span(self.slice.round_sec)),
            ("confirmed for".to_owned(), span(self.slice.sec)),
            ("pacing".to_owned(), if self.as_act { "as ACT" } else { "even" }.to_owned()),
            ("load of 1x".to_owned(), if self.base.is_standard() { "ACT's" } else { "its own" }.to_owned()),
        ];
        let prepared = if self.no_prep { "none (--no-prep)" } else { "before the first step" };
        terms.push(("preparation".to_owned(), prepared.to_owned()));
        terms.push((NOT_PREPARED.to_owned(), unprepared.join(", ")));
        series::planned(Purpose::Rate, devices, self.base.to_text(), terms)
    }

    /// Comparability of a rating with published ones, given `unprepared` devices and devices of `virtual_kinds`, which
    /// are no drives.
    pub fn standing(&self, unprepared: &str, virtual_kinds: &[String]) -> Standing {
        let reasons = [
            (!self.as_act, "operations came evenly, which flatters a drive (--as-act paces as ACT does)"),
            (!self.base.is_standard(), "the load of 1x was not ACT's"),
            (self.sla != Sla::default(), "the limits were not ACT's"),
            (self.simulated, "the drive was simulated"),
            (!unprepared.is_empty(), "the drive was not prepared"),
            (self.slice.sec < SLICE_SEC.into(), "it was confirmed for less than an hour"),
        ];
        let reasons = reasons.into_iter().filter(|(is, _)| *is).map(|(_, why)| why.to_owned());
        let reasons: Vec<_> = reasons.chain(virtual_kinds.iter().cloned()).collect();
        if reasons.is_empty() { Standing::Comparable } else { Standing::Alone(reasons) }
    }
}

fn multiple(factor: Factor) -> Multiple {
    Multiple::new(factor.as_f64())
}
