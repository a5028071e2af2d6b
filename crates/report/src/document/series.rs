//! What the directory of a series says: its conclusion, its steps, and a report of each step's run.

use super::{Banner, RunReport, Section};
use crate::charts::{Detail, rating};
use measure::series::{Purpose, SERIES, Series, State, Step};
use serde::Serialize;
use std::path::{Component, Path};

/// What the directory of a series says.
#[derive(Debug, Clone, Serialize)]
pub struct SeriesReport {
    /// The directory, as it was named.
    pub dir: String,
    /// A title: what was done with what.
    pub title: String,
    /// What a reader must know first.
    pub banners: Vec<Banner>,
    /// The record of the series.
    pub series: Series,
    /// Charts over all steps: the rating curve of a search.
    pub sections: Vec<Section>,
    /// The steps, oldest first.
    pub steps: Vec<StepReport>,
}

/// A step and its run.
#[derive(Debug, Clone, Serialize)]
pub struct StepReport {
    /// The step.
    pub step: Step,
    /// Its run; null where there is none that can be read. Of a search it has no charts of its own.
    pub report: Option<RunReport>,
    /// Why there is no run; null where there is one.
    pub absent: Option<String>,
}

impl SeriesReport {
    /// Reads the runs of `series` below `dir`. A run that cannot be read is named, not an error.
    pub(crate) fn read(dir: &Path, series: Series, detail: Detail) -> Self {
        let steps: Vec<StepReport> = series.steps.iter().map(|step| StepReport::read(dir, step, detail)).collect();
        let mut banners = Vec::new();
        if series.conclusion.is_none() {
            let done = series.steps.iter().filter(|step| step.state == State::Done).count();
            let text = format!(
                "this series is not at its end: {done} of {} steps are done, and {SERIES} has no conclusion yet",
                series.steps.len()
            );
            banners.push(Banner { text });
        }
        for step in &steps {
            let lost = step.absent.iter().filter(|_| step.step.state == State::Done);
            banners.extend(lost.map(|why| Banner { text: format!("no run of {}: {why}", step.step.name) }));
            let of_run = step.report.iter().flat_map(|run| &run.banners);
            banners.extend(of_run.map(|banner| Banner { text: format!("{}: {}", step.step.name, banner.text) }));
        }
        let sections = match series.purpose {
            Purpose::Certify => Vec::new(),
            Purpose::Rate => vec![Section::new(
                "rating",
                "The rating curve",
                "What each load did to the shares and to the 99th percentile.",
                rating::charts(&steps),
            )],
        };
        let mut this = Self { dir: dir.display().to_string(), title: title(&series), banners, series, sections, steps };
        if this.series.purpose == Purpose::Rate {
            // A search has dozens of steps: their curve says more than all their charts.
            this.steps.iter_mut().filter_map(|step| step.report.as_mut()).for_each(|run| run.sections.clear());
        }
        this
    }
}

impl StepReport {
    fn read(dir: &Path, step: &Step, detail: Detail) -> Self {
        let made = |report, absent| Self { step: step.clone(), report, absent };
        if step.state == State::Planned {
            return made(None, Some("it has not begun".to_owned()));
        }
        // The name comes from a file; nothing outside the series is part of it.
        let below = Path::new(&step.dir);
        if step.dir.is_empty() || !below.components().all(|part| matches!(part, Component::Normal(_))) {
            return made(None, Some(format!("{SERIES} names {:?}, which is no directory below it", step.dir)));
        }
        match RunReport::read(&dir.join(below), detail) {
            Ok(report) => made(Some(report), None),
            Err(error) => made(None, Some(error.to_string())),
        }
    }
}

fn title(series: &Series) -> String {
    let what = match series.purpose {
        Purpose::Certify => "Certification",
        Purpose::Rate => "Rating",
    };
    let names: Vec<&str> = series.devices.iter().map(|device| device.name.as_str()).collect();
    format!("{what} of {}", names.join(", "))
}
