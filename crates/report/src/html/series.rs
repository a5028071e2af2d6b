//! The report of a series in the page: conclusion, steps, the curve of a search, each step's run.

use super::chart;
use super::escape::text;
use super::parts::{badge, banners, heading, list, table};
use super::plot::Plots;
use super::run;
use crate::charts::identifier;
use crate::document::{SeriesReport, StepReport};
use crate::words;
use results::judge::Outcome;
use results::series::{Purpose, Series, State};
use results::units;

/// The series; names of places in the page begin with `place`.
pub(super) fn article(report: &SeriesReport, place: &str, plots: &mut Plots) -> String {
    let mut parts = vec![
        heading(1, &format!("{place}top"), &report.title),
        banners(report.banners.iter().map(|banner| banner.text.as_str())),
        conclusion(report),
        steps(report, place),
    ];
    parts.extend(report.sections.iter().map(|section| chart::section(section, place, 2, plots)));
    parts.push(terms(report, place));
    if report.series.purpose == Purpose::Rate {
        parts.push(of_search(report, place));
    }
    for (number, step) in report.steps.iter().enumerate() {
        // A search shows its curve; its runs have pages of their own.
        let Some(run) = step.report.as_ref().filter(|_| report.series.purpose == Purpose::Certify) else { continue };
        let place = step_place(place, number, step);
        parts.push(format!("<hr>\n{}", run::article(run, &place, 2, plots)));
    }
    format!("<article>\n{}</article>\n", parts.concat())
}

/// What holds for a whole search: its findings, and of its last run what all have in common.
fn of_search(report: &SeriesReport, place: &str) -> String {
    let findings = run::findings(&report.series.findings, place, 2);
    let last = report.steps.iter().rev().find_map(|step| step.report.as_ref().map(|run| (&step.step.name, run)));
    let Some((name, last)) = last else { return findings };
    format!(
        "{findings}<p class=\"intro\">As recorded with the last run, {}:</p>\n{}{}{}",
        text(name),
        run::unmeasured(last, place, 2),
        run::what_was_run(last, place, 2),
        run::method(last, place, 2)
    )
}

fn step_place(place: &str, number: usize, step: &StepReport) -> String {
    format!("{place}step-{}-{}-", number + 1, identifier(&step.step.name))
}

fn conclusion(report: &SeriesReport) -> String {
    let Some(conclusion) = &report.series.conclusion else {
        return "<div class=\"verdict invalid\"><p class=\"word\"><span aria-hidden=\"true\">…</span> UNFINISHED</p>\n\
                <p>This series has no conclusion yet.</p></div>\n"
            .to_owned();
    };
    let class = match conclusion.outcome {
        Outcome::Pass => "pass",
        Outcome::Fail => "fail",
        Outcome::Invalid => "invalid",
    };
    let rating = conclusion.rating.map_or_else(String::new, |rating| {
        let comparable = match conclusion.comparable {
            true => "may be laid beside published ratings",
            false => "not comparable with published ratings",
        };
        format!("<p><b>Rating: {}</b> ({comparable}).</p>\n", units::multiple(rating))
    });
    format!(
        "<div class=\"verdict {class}\">\n<p class=\"word\">{}</p>\n<p class=\"decided\">{}</p>\n{rating}{}</div>\n",
        badge(Some(conclusion.outcome)),
        text(&conclusion.sentence),
        list(&conclusion.remarks)
    )
}

/// How a step of `series` ended, or how far it is.
pub(crate) fn step_outcome(step: &StepReport, series: &Series) -> &'static str {
    match (step.step.state, step.step.outcome) {
        (State::Done, Some(outcome)) => words::outcome(outcome),
        (State::Done, None) => "done",
        (State::Planned, _) if series.conclusion.is_some() => "not run",
        (State::Planned, _) => "planned",
        (State::Running, _) => "running",
        (State::Interrupted, _) => "interrupted",
    }
}

fn steps(report: &SeriesReport, place: &str) -> String {
    let certify = report.series.purpose == Purpose::Certify;
    let row = |(number, step): (usize, &StepReport)| {
        let name = text(&step.step.name);
        let link = certify && step.report.is_some();
        let target = step_place(place, number, step);
        let ran = step.report.as_ref().map_or_else(|| "-".to_owned(), |run| units::span_of(run.verdict.ran_sec));
        let outcome = match (step.step.state, step.step.outcome) {
            (State::Done, Some(outcome)) => badge(Some(outcome)),
            _ => text(step_outcome(step, &report.series)),
        };
        let devices = step.step.devices.iter().filter_map(|at| report.series.devices.get(*at));
        let devices: Vec<&str> = devices.map(|device| device.name.as_str()).collect();
        vec![
            if link { format!("<a href=\"#{target}top\">{name}</a>") } else { name },
            units::multiple(step.step.multiple),
            text(&devices.join(", ")),
            outcome,
            text(&step.step.reason),
            format!("{ran} of {}", units::span(step.step.duration_sec)),
            format!("<code>{}</code>", text(&step.step.dir)),
        ]
    };
    let rows: Vec<Vec<String>> = report.steps.iter().enumerate().map(row).collect();
    let headings = ["step", "load", "devices", "outcome", "why", "ran for", "run directory"];
    format!(
        "<section id=\"{place}steps\">\n{}{}</section>\n",
        heading(2, "", "Steps"),
        table("In the order in which they were run", &headings, &rows)
    )
}

fn terms(report: &SeriesReport, place: &str) -> String {
    let series = &report.series;
    let mut rows: Vec<Vec<String>> = series.terms.iter().map(|(name, value)| vec![text(name), text(value)]).collect();
    for device in &series.devices {
        let known = [device.model.as_deref(), device.serial.as_deref()].into_iter().flatten().collect::<Vec<_>>();
        let size = units::bytes(device.size_bytes as f64);
        let simulated = if device.simulated { ", simulated" } else { "" };
        rows.push(vec![
            text(&format!("device {}", device.name)),
            text(&format!("{} {size}{simulated}", known.join(" "))),
        ]);
    }
    rows.push(vec!["began".into(), text(&units::date(series.began_unix_ms))]);
    rows.push(vec!["command".into(), format!("<code>{}</code>", text(&series.command.join(" ")))]);
    rows.push(vec!["recorded by".into(), text(&series.tool)]);
    format!(
        "<section id=\"{place}terms\">\n{}{}<details><summary>Configuration at 1x</summary><pre>{}</pre></details>\n\
         </section>\n",
        heading(2, "", "Terms"),
        table("What was asked for, of what", &["what", "value"], &rows),
        text(series.config_1x.trim_end())
    )
}
