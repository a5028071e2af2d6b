//! The requested certification: load, devices and settings, all checked before any device is touched.

use crate::args::CertifyArgs;
use load::factor::Factor;
use load::workload::Load;
use load::workload::act::ActWorkload;
use procedures::series::{self, Base1x, NOT_PREPARED};
use results::certify::{Claim, Outline, STAGE_SEC};
use results::series::{Identity, Purpose, Rule, Series, Step};
use results::units::span;
use session::failure::Failure;
use session::runner;
use std::path::Path;

/// Length of a stage of `--screen`. Source: ACT's README: six hours "will give you a good idea".
const SCREEN_SEC: u32 = 21_600;

/// Length of a stage on simulated drives, whose hours pass in seconds.
const SIMULATED_SEC: u32 = 3_600;

/// Term that names the kind of the series; fixed when the series starts.
pub const NAMED: &str = "named";

/// The requested certification.
pub struct Request {
    /// The load of 1x, on all devices.
    pub base: Base1x,
    /// Multiple of the load.
    pub factor: Factor,
    pub outline: Outline,
    /// The claim, as far as the options determine it.
    pub claim: Claim,
    /// Terms that must be equal to resume a series.
    terms: Vec<(String, String)>,
}

impl Request {
    /// The request in `args`. Errors: invalid options or files.
    pub fn of(args: &CertifyArgs) -> Result<Self, Failure> {
        let as_act = args.as_act;
        let mut base = series::base(args.config.as_deref(), &args.devices, as_act, "certify for a load")?;
        let spec = base.spec();
        let simulated = spec.is_simulated();
        let stage_sec = match (args.duration, args.screen, simulated) {
            (Some(seconds), ..) => seconds,
            (None, true, _) => SCREEN_SEC,
            (None, false, true) => SIMULATED_SEC,
            (None, false, false) => STAGE_SEC as u32,
        };
        base.set_duration(stage_sec);
        let own = args.config.is_some() || simulated;
        let factor = args.load.unwrap_or(if own { Factor::ONE } else { Factor::RECOMMENDED });
        let names = spec.names();
        let single = match &args.single {
            None => 0,
            Some(single) => names.iter().position(|name| name == single).ok_or_else(|| {
                Failure::usage(format!(
                    "cannot test {single} alone (--single) - it is not among the devices - name one of: {}",
                    names.join(", ")
                ))
            })?,
        };
        let file_name = |path: &Path| path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        let claim = Claim {
            multiple: factor.to_string(),
            config: args.config.as_deref().filter(|_| !base.is_standard()).map(file_name),
            sla: args.sla.clone(),
            // The value used by its runs: CONFIG may have a report interval longer than a slice.
            slice_sec: runner::length_of_slices(args.slice.into(), stage_sec.into(), spec.report_interval_sec, false)?,
            stage_sec: stage_sec.into(),
            simulated,
            files: spec.file_size_bytes.is_some(),
            virtual_kinds: Vec::new(),
            unprepared: Vec::new(),
            as_act: base.is_paced_as_published(),
        };
        let outline = Outline { multiple: factor.as_f64(), devices: names.len(), single, stage_sec: stage_sec.into() };
        let terms = vec![
            ("load".to_owned(), claim.load()),
            ("limits".to_owned(), args.sla.to_string()),
            ("length of a stage".to_owned(), span(stage_sec.into())),
            ("length of a slice".to_owned(), span(args.slice.into())),
            ("tested alone".to_owned(), (single + 1).to_string()),
            (
                "preparation".to_owned(),
                if args.no_prep { "none (--no-prep)" } else { "before the first stage" }.to_owned(),
            ),
        ];
        let request = Self { base, factor, outline, claim, terms };
        // Reports rates that are too large now, not on the third day.
        for step in request.outline.stages() {
            request.load(&step)?;
        }
        Ok(request)
    }

    /// Load of a stage.
    pub fn load(&self, step: &Step) -> Result<Load<ActWorkload>, Failure> {
        let factor = match step.rule {
            Rule::Completes => self.factor.doubled().map_err(Failure::usage)?,
            Rule::Limits | Rule::Recovers => self.factor,
        };
        self.base.at(factor, &step.devices).map_err(|errors| {
            let errors: Vec<_> = errors.iter().map(|error| format!("{} ({factor}x): {error}", step.name)).collect();
            Failure::usage(errors.join("\n"))
        })
    }

    /// A new series of this request on `devices`.
    pub fn series(&self, devices: Vec<Identity>, claim: &Claim) -> Series {
        let mut terms = self.terms.clone();
        terms.push((NAMED.to_owned(), claim.noun().to_owned()));
        terms.push((NOT_PREPARED.to_owned(), claim.unprepared.join(", ")));
        let planned = series::planned(Purpose::Certify, devices, self.base.to_text(), terms);
        Series { steps: self.outline.stages(), ..planned }
    }
}
