//! The report of a series in the page: conclusion, steps, the curve of a search, each step's run.

use super::parts::{banners, charts, heading, list, section, verdict};
use super::plot::Plots;
use super::run;
use crate::baseline::{Beside, DriveReport};
use crate::charts::identifier;
use crate::document::{SeriesReport, StepReport};
use crate::table::{Cell, Table};
use crate::tables;
use maud::{Markup, html};
use results::series::Purpose;
use results::units;

/// The series; names of places in the page begin with `place`.
pub(super) fn article(report: &SeriesReport, place: &str, plots: &mut Plots) -> Markup {
    let certify = report.series.purpose == Purpose::Certify;
    // A search shows its curve; its runs have pages of their own.
    let place_of = |number: usize, step: &StepReport| {
        let place = format!("{place}step-{}-{}-", number + 1, identifier(&step.step.name));
        (certify && step.report.is_some()).then_some(place)
    };
    let steps = tables::steps(report, |number, step| place_of(number, step).map(|place| format!("{place}top")));
    html! {
        article {
            (heading(1, &format!("{place}top"), &report.title))
            (banners(&report.banners))
            (conclusion(report))
            @for of in &report.sections { (charts(of, place, 2, plots)) }
            @if let Some(conclusion) = &report.series.conclusion {
                @if !conclusion.remarks.is_empty() { (section(format!("{place}remarks"), 2, "Remarks", list(&conclusion.remarks))) }
            }
            @if let Some(beside) = &report.beside { (drives_beside(beside, place)) }
            @for (number, drive) in report.drives.iter().enumerate() {
                @let place = if report.drives.len() > 1 { format!("{place}drive-{}-", number + 1) } else { place.to_owned() };
                (of_drive(drive, &place, report.drives.len() > 1, plots))
            }
            @if report.drives.is_empty() {
                (section(format!("{place}steps"), 2, "Steps", html! { (steps) }))
            } @else {
                (section(format!("{place}steps"), 2, "Steps", html! { details { summary { "All jobs, as they were run" } (steps) } }))
            }
            @for (number, step) in report.steps.iter().enumerate() {
                @if let (Some(place), Some(run)) = (place_of(number, step), &step.report) {
                    hr;
                    (run::article(run, &place, 2, plots))
                }
            }
            (terms(report, place))
            @if !certify { (of_search(report, place)) }
        }
    }
}

/// Drives of one baseline beside each other.
fn drives_beside(beside: &Beside, place: &str) -> Markup {
    section(
        format!("{place}beside"),
        2,
        "Drives beside each other",
        html! { (list(&beside.outliers)) (beside.table("All drives")) },
    )
}

/// Results of a baseline for one drive; under its name if there are several.
fn of_drive(drive: &DriveReport, place: &str, several: bool, plots: &mut Plots) -> Markup {
    let level = if several { 3 } else { 2 };
    html! {
        @if several { (heading(2, &format!("{place}top"), &drive.device)) }
        dl.facts { @for fact in &drive.summary { div { dt { (fact.name) } dd { (fact.value) } } } }
        (list(&drive.doubts))
        nav aria-label="Contents" {
            @for of in &drive.sections { a href={ "#" (place) (of.id) } { (of.title) } " " }
        }
        @for of in &drive.sections {
            (charts(of, place, level, plots))
            (list(&drive.notes(&of.id)))
            @let tables = drive.tables(&of.id);
            @if of.charts.is_empty() {
                @for table in &tables { (table) }
            } @else {
                details { summary { "In numbers" } @for table in &tables { (table) } }
            }
        }
    }
}

/// Content common to a whole search or baseline: its findings, and the common part of its last run.
fn of_search(report: &SeriesReport, place: &str) -> Markup {
    let last = report.steps.iter().rev().find_map(|step| step.report.as_ref().map(|run| (&step.step.name, run)));
    html! {
        (run::findings(&report.series.findings, place, 2))
        @if let Some((name, last)) = last {
            p.intro { "As recorded with the last run, " (name) ":" }
            (run::unmeasured(last, place, 2))
            (run::what_was_run(last, place, 2))
            (run::method(last, place, 2))
        }
    }
}

fn conclusion(report: &SeriesReport) -> Markup {
    let Some(conclusion) = &report.series.conclusion else {
        return verdict(&report.shown(), html! {}, "This series has no conclusion yet.", html! {});
    };
    let rated = match (conclusion.rating, conclusion.comparable) {
        (None, _) => "",
        (Some(_), true) => "may be laid beside published ratings",
        (Some(_), false) => "not comparable with published ratings",
    };
    verdict(&report.headline(), html! { " " span.class { (rated) } }, &conclusion.sentence, html! {})
}

fn terms(report: &SeriesReport, place: &str) -> Markup {
    let series = &report.series;
    let mut pairs: Vec<(String, Cell)> =
        series.terms.iter().map(|(name, value)| (name.clone(), value.into())).collect();
    for device in &series.devices {
        let known = [device.model.as_deref(), device.serial.as_deref()].into_iter().flatten().collect::<Vec<_>>();
        let size = units::bytes(device.size_bytes as f64);
        let simulated = if device.simulated { ", simulated" } else { "" };
        pairs.push((format!("device {}", device.name), format!("{} {size}{simulated}", known.join(" ")).into()));
    }
    pairs.push(("began".to_owned(), units::date(series.began_unix_ms).into()));
    pairs.push(("command".to_owned(), Cell::code(series.command.join(" "))));
    pairs.push(("recorded by".to_owned(), series.tool.as_str().into()));
    let content = html! {
        (Table::named_values("What was asked for, of what", pairs))
        details { summary { "Configuration at 1x" } pre { (series.config_1x.trim_end()) } }
    };
    section(format!("{place}terms"), 2, "Terms", content)
}
