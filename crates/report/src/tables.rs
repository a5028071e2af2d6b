//! The tables of a report: the same in the page and in Markdown.

use crate::charts::counters::counter;
use crate::charts::latency;
use crate::document::{RunReport, SeriesReport};
use crate::latencies::QUANTILES;
use crate::table::{Cell, Table};
use crate::words::{self, OutcomeLabel};
use conclusions::series::{SeriesPurpose, SeriesStepState};
use results::format;
use results::judge::{Cause, GroupShares, Limit, SliceShares};

/// The shares of each judged group, slice by slice.
pub(crate) fn shares(run: &RunReport) -> impl Iterator<Item = Table> + use<'_> {
    let limits = run.sla.limits();
    run.verdict.groups.iter().map(move |group: &GroupShares| {
        let headings = run
            .verdict
            .thresholds_ns
            .iter()
            .map(|ns| format!("over {}", format::duration(*ns)));
        Table::new(format!(
            "{} on {}",
            group.stream,
            words::device(group.device.as_deref())
        ))
        .text(["slice"])
        .numbers(["operations"])
        .numbers(headings)
        .rows(group.slices.iter().map(|slice| shares_row(slice, limits)))
    })
}

fn shares_row(slice: &SliceShares, limits: &[Limit]) -> Vec<Cell> {
    let note = if slice.complete { "" } else { " (incomplete)" };
    let mut row = vec![
        Cell::from(format!("{}{note}", slice.slice)),
        Cell::from(format::number(slice.scheduled as f64)),
    ];
    for (column, limit) in limits.iter().enumerate() {
        let share = slice
            .judged_share
            .as_ref()
            .and_then(|shares| shares.get(column))
            .copied();
        let over = slice.judged_over.get(column).copied().unwrap_or(0);
        let share = share.map_or_else(|| "-".to_owned(), format::percent);
        row.push(if limit.is_exceeded(over, slice.scheduled) {
            Cell::bad(format!("✘ {share}"))
        } else {
            share.into()
        });
    }
    row
}

pub(crate) fn latencies(run: &RunReport) -> Table {
    let rows = run.latencies.iter().flat_map(|stream| {
        stream.durations().map(|(what, quantiles)| {
            let name = format!("{} {what}", stream.stream);
            [name]
                .into_iter()
                .chain(quantiles.all_ns().map(format::duration))
        })
    });
    Table::new("Whole run")
        .text([""])
        .numbers(QUANTILES)
        .rows(rows)
}

pub(crate) fn rates(run: &RunReport) -> Table {
    let rows = run.verdict.streams.iter().map(|stream| {
        let offered = if stream.offered_iops > 0.0 {
            format::number(stream.offered_iops)
        } else {
            "closed".to_owned()
        };
        let counts = [
            stream.ops,
            stream.errors,
            stream.overtime,
            stream.not_done(),
        ];
        let first = [
            stream.name.clone(),
            offered,
            format::number(stream.achieved_iops),
        ];
        let counts = counts.map(|count| format::Grouped(count).to_string());
        first
            .into_iter()
            .chain(counts)
            .chain([format::bytes(stream.bytes as f64)])
    });
    let numbers = [
        "offered/s",
        "achieved/s",
        "done",
        "failed",
        "done too late",
        "never done",
        "transferred",
    ];
    Table::new("Whole run")
        .text(["stream"])
        .numbers(numbers)
        .rows(rows)
}

pub(crate) fn counters(run: &RunReport) -> Table {
    let rows = run.counters.iter().map(|change| {
        let values = [change.first, change.last, change.last - change.first].map(counter);
        [change.device.clone(), change.name.clone()]
            .into_iter()
            .chain(values)
    });
    let waf = run.device_waf.iter().map(|one| {
        let name = match &one.why_not {
            None => format!(
                "device WAF: bytes written to the media for each byte from hosts, {}",
                one.source
            ),
            Some(why) => format!("device WAF, unknown: {why}"),
        };
        let waf = one
            .waf
            .map_or_else(|| "-".to_owned(), |waf| format!("{waf:.2}"));
        [one.device.clone(), name, String::new(), String::new(), waf]
    });
    Table::new("Counters of the drives")
        .text(["device", "counter"])
        .numbers(["first", "last", "change"])
        .rows(rows.map(Vec::from_iter).chain(waf.map(Vec::from)))
}

pub(crate) fn cause(cause: Cause) -> &'static str {
    match cause {
        Cause::OurLag => "this program",
        Cause::SlotWait => "waiting for a slot",
        Cause::KernelQueue => "kernel queue",
        Cause::Device => "device",
        Cause::Server => "server or network",
        Cause::Host => "host",
        Cause::Heat => "heat",
        Cause::Unknown => "unknown",
    }
}

pub(crate) fn steadiness(run: &RunReport) -> Table {
    let windows = run
        .steadiness
        .iter()
        .flat_map(|steadiness| &steadiness.windows);
    let rows = windows.map(|window| {
        let value = |value| Cell::from(latency::value(window.metric, value));
        [
            format!("{} of {}", window.metric, window.group).into(),
            if window.is_steady() {
                "✔ yes".into()
            } else {
                Cell::bad("✘ no")
            },
            value(window.average),
            value(window.range),
            value(window.slope_excursion),
            window.limit.map_or_else(|| "-".into(), value),
        ]
    });
    let numbers = ["steady", "average", "range", "slope excursion", "limit"];
    Table::new("The last five rounds")
        .text(["metric"])
        .numbers(numbers)
        .rows(rows)
}

/// The steps of a series; `link` gives the anchor of the run of a step, by the step's index.
pub(crate) fn steps(report: &SeriesReport, link: impl Fn(usize) -> Option<String>) -> Table {
    // Jobs of a baseline have no multiple of a load.
    let has_loads = report.series.purpose != SeriesPurpose::Baseline;
    let rows = report.steps.iter().enumerate().map(|(number, step)| {
        let name = step.step.name.clone();
        let ran = step.report.as_ref().map_or_else(
            || "-".to_owned(),
            |run| format::span_of(run.verdict.ran_sec),
        );
        let devices = step
            .step
            .devices
            .iter()
            .filter_map(|at| report.series.devices.get(*at));
        let name = link(number).map_or_else(|| Cell::from(&name), |id| Cell::link(&name, id));
        let load = has_loads.then(|| format::multiple(step.step.multiple).into());
        let is_over = report.series.conclusion.is_some();
        let doubt = report
            .in_doubt
            .as_ref()
            .and_then(|doubts| doubts.reason(number))
            .map(str::to_owned);
        let more = [
            devices
                .map(|device| device.name.as_str())
                .collect::<Vec<_>>()
                .join(", ")
                .into(),
            match (step.step.state, step.step.outcome) {
                (SeriesStepState::Done, Some(outcome)) => {
                    let shown = OutcomeLabel::from_outcome(Some(outcome));
                    Cell::outcome(if doubt.is_some() {
                        shown.in_doubt()
                    } else {
                        shown
                    })
                }
                (state, outcome) => words::step_outcome(state, outcome, is_over, "running").into(),
            },
            doubt.unwrap_or_else(|| step.step.reason.clone()).into(),
            format!("{ran} of {}", format::span(step.step.duration_sec)).into(),
            Cell::code(&step.step.dir),
        ];
        std::iter::once(name).chain(load).chain(more)
    });
    let load = has_loads.then_some("load");
    let headings = ["step"].into_iter().chain(load).chain([
        "devices",
        "outcome",
        "why",
        "ran for",
        "run directory",
    ]);
    Table::new("In the order in which they were run")
        .text(headings)
        .rows(rows)
}
