//! The report of one run in the page: verdict, charts, causes, findings, test and devices, method. The report of a
//! series: conclusion, steps, the curve of a search, each step's run.

use super::parts::{Plots, banners, charts, fact_list, facts, heading, list, section, verdict};
use crate::bars::{Bars, StackPart, stack};
use crate::baseline::DriveReport;
use crate::charts::{Section, identifier};
use crate::document::{RunReport, SeriesReport};
use crate::table::{Table, look};
use crate::tables;
use crate::words::{self, OutcomeLabel, capital};
use conclusions::series::{Rule, SeriesPurpose};
use maud::{Markup, html};
use results::blame::Blame;
use results::finding::{Finding, Severity};
use results::format;
use results::judge::{Headline, Limit, SliceShares};

/// The run under a heading of `level`; anchors in the page begin with `anchor_prefix`.
pub(super) fn article(
    run: &RunReport,
    anchor_prefix: &str,
    level: usize,
    plots: &mut Plots,
) -> Markup {
    let sublevel = level + 1;
    let details: Vec<_> = run.result.details().collect();
    let class = html! { " " span.class { (run.class_in_words) } };
    let (shares, other_sections): (Vec<&Section>, _) = run
        .sections
        .iter()
        .partition(|section| section.id == "shares");
    html! {
        article.(look(Some(run.verdict.outcome)).0) {
            (heading(level, &format!("{anchor_prefix}top"), &run.title))
            (banners(&run.banners))
            (verdict(&OutcomeLabel::from_outcome(Some(run.verdict.outcome)), class, &run.result.headline, list(&details)))
            (fact_list(&run.summary))
            @if level == 1 { (command_line(&run.command)) }
            @for of in shares {
                @match one_slice(run) {
                    Some(bars) => { (section(format!("{anchor_prefix}{}", of.id), sublevel, &of.title, html! { p.intro { (of.intro) } (bars) })) }
                    None => { (charts(of, anchor_prefix, sublevel, plots)) }
                }
                details {
                    summary { "All shares in numbers (✘: at or over the limit)" }
                    @for table in tables::shares(run) { (table) }
                }
            }
            @if level == 1 { (contents(run, anchor_prefix)) }
            (blame(run, anchor_prefix, sublevel))
            @for of in other_sections {
                (charts(of, anchor_prefix, sublevel, plots))
                @match of.id.as_str() {
                    "latency" => {
                        (unless_empty(tables::latencies(run), html! {
                            p.absent { "No percentiles: no window of the interval logs could be read." }
                        }))
                    }
                    "rates" => { (tables::rates(run)) }
                    "devices" => { (unless_empty(tables::counters(run), html! {})) }
                    _ => {}
                }
            }
            (steady(run, anchor_prefix, sublevel))
            (findings(&run.findings, anchor_prefix, sublevel))
            (unmeasured(run, anchor_prefix, sublevel))
            (what_was_run(run, anchor_prefix, sublevel))
            (method(run, anchor_prefix, sublevel))
        }
    }
}

/// Bars of the shares against their limits, for a run of one slice: a chart over slices would have single points.
fn one_slice(run: &RunReport) -> Option<Bars> {
    let groups = &run.verdict.groups;
    let is_cut = groups
        .iter()
        .flat_map(|group| &group.slices)
        .any(|slice| !slice.complete);
    let mut bars = Bars::new(
        if is_cut {
            "Share over each threshold, incomplete slice"
        } else {
            "Share of operations over each threshold"
        },
        "The dashed line is the limit: a bar that reaches it fails the run. Bars are cut off at twice the limit.",
    );
    for (column, limit) in run.sla.limits().iter().enumerate() {
        for (group, slice) in groups
            .iter()
            .flat_map(|group| group.slices.iter().map(move |slice| (group, slice)))
        {
            let Some(share) = judged_share(slice, column, limit) else {
                continue;
            };
            let threshold = format::duration(limit.threshold_ns);
            let device = words::device(group.device.as_deref());
            let name = format!("over {threshold}: {} on {device}", group.stream);
            add_share(&mut bars, name, share, limit);
        }
    }
    (groups.iter().all(|group| group.slices.len() <= 1) && !bars.is_empty()).then_some(bars)
}

fn command_line(command: &[String]) -> Markup {
    let words: Vec<String> = command
        .iter()
        .map(|word| format::shell_quoted(word))
        .collect();
    html! { p { "Command: " code { (words.join(" ")) } } }
}

/// Bars of the worst shares of each judged stage of a certification.
fn stages(report: &SeriesReport) -> Markup {
    if report.series.purpose != SeriesPurpose::Certify {
        return html! {};
    }
    let mut bars = Bars::new(
        "Worst share of each stage over each threshold",
        "The dashed line is the limit: a bar that reaches it fails the stage. Bars are cut off at twice the limit.",
    );
    for step in report
        .steps
        .iter()
        .filter(|step| step.step.rule == Rule::Limits)
    {
        let Some(run) = &step.report else { continue };
        for (column, limit) in run.sla.limits().iter().enumerate() {
            let slices = run.verdict.groups.iter().flat_map(|group| &group.slices);
            let shares = slices.filter_map(|slice| judged_share(slice, column, limit));
            let threshold = format::duration(limit.threshold_ns);
            let name = format!("{}: over {threshold}", step.step.name);
            if let Some(worst) = shares.max_by(|one, other| one.0.total_cmp(&other.0)) {
                add_share(&mut bars, name, worst, limit);
            }
        }
    }
    html! { @if !bars.is_empty() { (bars) } }
}

/// The share of a slice over a threshold, and true if the share reaches the limit.
fn judged_share(slice: &SliceShares, column: usize, limit: &Limit) -> Option<(f64, bool)> {
    let share = *slice.judged_share.as_ref()?.get(column)?;
    let over = slice.judged_over.get(column).copied().unwrap_or(0);
    Some((share, limit.is_exceeded(over, slice.scheduled)))
}

fn add_share(bars: &mut Bars, name: String, (share, is_over): (f64, bool), limit: &Limit) {
    let max = limit.share_max();
    let text = format!(
        "{} of {}",
        format::percent(share),
        format::percent_exact(max)
    );
    bars.against(name, share, max, text, is_over);
}

fn unless_empty(table: Table, placeholder: Markup) -> Markup {
    html! { @if table.is_empty() { (placeholder) } @else { (table) } }
}

fn contents(run: &RunReport, anchor_prefix: &str) -> Markup {
    let steady = ("steady", "Steady state");
    let unmeasured = ("unmeasured", "Not measured");
    let page_sections = [
        steady,
        ("findings", "Findings"),
        unmeasured,
        ("run", "What was run"),
        ("method", "Method"),
    ];
    let sections = run
        .sections
        .iter()
        .map(|section| (section.id.as_str(), section.title.as_str()));
    html! {
        nav aria-label="Contents" {
            @for (id, title) in sections.chain(page_sections) { a href={ "#" (anchor_prefix) (id) } { (title) } " " }
        }
    }
}

fn blame(run: &RunReport, anchor_prefix: &str, level: usize) -> Markup {
    if run.verdict.blame.is_empty() {
        return html! {};
    }
    let content = html! {
        p.intro { "Derived from the recorded data. The blame explains the outcome and does not change it." }
        @for blame in &run.verdict.blame { div.blame { (causes(blame)) } }
    };
    section(
        format!("{anchor_prefix}blame"),
        level,
        "Where the time went",
        content,
    )
}

/// A bar of the causes that have a share, and the other causes in words.
fn causes(blame: &Blame) -> Markup {
    // The sentence begins with the slice, the share and its limit.
    let subject = blame
        .sentence
        .split_once("): ")
        .map_or("", |(subject, _)| subject);
    let parts = blame.parts.iter().map(|part| StackPart {
        name: tables::cause(part.cause),
        share: part.share,
        text: &part.evidence,
    });
    stack(
        &format!("{})", capital(subject)),
        &parts.collect::<Vec<_>>(),
    )
}

fn steady(run: &RunReport, anchor_prefix: &str, level: usize) -> Markup {
    let content = html! {
        p.intro {
            "Did the measured values still change over the last five rounds? Steady means: the range is at most 20 % \
             and the slope excursion at most 10 % of the average (SNIA PTS 2.0.2); or the range is at most 10 % of the \
             limit. Neither verdicts nor ratings depend on this."
        }
        (list(&run.steadiness_in_words))
        (unless_empty(tables::steadiness(run), html! {}))
    };
    section(
        format!("{anchor_prefix}steady"),
        level,
        "Steady state",
        content,
    )
}

/// Findings before a run or a series, the worst first.
fn findings(findings: &[Finding], anchor_prefix: &str, level: usize) -> Markup {
    let mut sorted: Vec<&Finding> = findings.iter().collect();
    sorted.sort_by_key(|finding| std::cmp::Reverse(finding.level));
    let (ok_findings, other_findings): (Vec<&Finding>, Vec<&Finding>) = sorted
        .into_iter()
        .partition(|one| one.level == Severity::Ok);
    let ok_count_text = if ok_findings.len() == 1 {
        "1 check is".to_owned()
    } else {
        format!("{} checks are", ok_findings.len())
    };
    let worst = Table::findings(
        "Findings that may affect the result, the worst first",
        other_findings.into_iter(),
    );
    let content = html! {
        @if findings.is_empty() {
            p.absent { "None were recorded." }
        } @else {
            (unless_empty(worst, html! { p { "Nothing was found that could affect the result." } }))
        }
        @if !ok_findings.is_empty() {
            details {
                summary { (ok_count_text) " ok" }
                (Table::findings("Checks that are ok", ok_findings.into_iter()))
            }
        }
    };
    section(
        format!("{anchor_prefix}findings"),
        level,
        "Findings before the run",
        content,
    )
}

fn unmeasured(run: &RunReport, anchor_prefix: &str, level: usize) -> Markup {
    let charts = run.sections.iter().flat_map(|section| &section.charts);
    let absent =
        charts.filter_map(|chart| Some(format!("{}: {}", chart.title, chart.absent.as_ref()?)));
    let all: Vec<String> = run.unmeasured.iter().cloned().chain(absent).collect();
    let content =
        html! { @if all.is_empty() { p { "No missing measurement was recorded." } } (list(&all)) };
    section(
        format!("{anchor_prefix}unmeasured"),
        level,
        "What could not be measured",
        content,
    )
}

/// Command, configuration, devices and host.
fn what_was_run(run: &RunReport, anchor_prefix: &str, level: usize) -> Markup {
    let content = html! {
        p { "Recorded by " (run.tool) " in " code { (run.dir) } ", " (format::date(run.started_unix_ms)) "." }
        @for workload in &run.workloads {
            @let (name, config) = (&workload.name, &workload.config);
            @let of = if name.is_empty() { String::new() } else { format!(" of {name}") };
            p { "Configuration" (of) " as written:" }
            pre { (config.as_written.trim_end()) }
            details {
                summary { "All settings" (of) ", and the derived rates" }
                (settings_table("Derived rates", &config.derived))
                (settings_table("ACT's settings, with defaults", &config.resolved))
                (settings_table("Other settings", &config.settings))
            }
        }
        details {
            summary { "Devices, host and engine" }
            @for (device, of_device) in run.devices.iter().zip(&run.device_facts) {
                (facts(&format!("Device {device}"), of_device))
            }
            (facts("Host", &run.host_facts))
            (facts("Engine", &run.engine_facts))
        }
    };
    section(
        format!("{anchor_prefix}run"),
        level,
        "What was run, on what",
        content,
    )
}

fn settings_table(caption: &str, settings: &[(String, String)]) -> Markup {
    let table = Table::named_values(caption, settings.iter().cloned());
    unless_empty(table, html! {})
}

fn method(run: &RunReport, anchor_prefix: &str, level: usize) -> Markup {
    let content = html! { @for part in &run.method { (heading(level + 1, "", &part.title)) p { (part.text) } } };
    section(
        format!("{anchor_prefix}method"),
        level,
        "Method and limits",
        content,
    )
}

/// The series; anchors in the page begin with `anchor_prefix`.
pub(super) fn series_article(
    report: &SeriesReport,
    anchor_prefix: &str,
    plots: &mut Plots,
) -> Markup {
    let certify = report.series.purpose == SeriesPurpose::Certify;
    // Only the runs of a certification are shown in the page: a search shows its curve, a baseline its drives.
    let shown_runs: Vec<Option<(String, &RunReport)>> = (1..)
        .zip(&report.steps)
        .map(|(number, step)| {
            let run = step.report.as_ref().filter(|_| certify)?;
            let name = identifier(&step.step.name);
            Some((format!("{anchor_prefix}step-{number}-{name}-"), run))
        })
        .collect();
    let steps = tables::steps(report, |index| {
        let (place, _) = shown_runs.get(index)?.as_ref()?;
        Some(format!("{place}top"))
    });
    html! {
        article.(look(report.outcome_label().look).0) {
            (heading(1, &format!("{anchor_prefix}top"), &report.title))
            (banners(&report.banners))
            (conclusion(report))
            (fact_list(&report.summary()))
            (command_line(&report.series.command))
            (stages(report))
            @for of in &report.sections { (charts(of, anchor_prefix, 2, plots)) }
            @if let Some(conclusion) = &report.series.conclusion {
                @if !conclusion.remarks.is_empty() { (section(format!("{anchor_prefix}remarks"), 2, "Remarks", list(&conclusion.remarks))) }
            }
            @if let Some(beside) = &report.beside {
                @let content = html! { (list(&beside.outliers)) (beside.table("All drives")) };
                (section(format!("{anchor_prefix}beside"), 2, "Drives side by side", content))
            }
            @for (number, drive) in report.drives.iter().enumerate() {
                @let place = if report.drives.len() > 1 { format!("{anchor_prefix}drive-{}-", number + 1) } else { anchor_prefix.to_owned() };
                (of_drive(drive, &place, report.drives.len() > 1, plots))
            }
            @let steps = html! {
                @if report.drives.is_empty() { (steps) } @else { details { summary { "All jobs, in the order of the \
                                                                                      runs" } (steps) } }
            };
            (section(format!("{anchor_prefix}steps"), 2, "Steps", steps))
            @for (place, run) in shown_runs.iter().flatten() {
                hr;
                (article(run, place, 2, plots))
            }
            (terms(report, anchor_prefix))
            @if !certify { (of_search(report, anchor_prefix)) }
        }
    }
}

/// Results of a baseline for one drive; under the drive's name if there are several drives.
fn of_drive(
    drive: &DriveReport,
    anchor_prefix: &str,
    has_several: bool,
    plots: &mut Plots,
) -> Markup {
    let level = if has_several { 3 } else { 2 };
    html! {
        @if has_several { (heading(2, &format!("{anchor_prefix}top"), &drive.device)) }
        (fact_list(&drive.summary))
        (list(&drive.doubts))
        nav aria-label="Contents" {
            @for of in &drive.sections { a href={ "#" (anchor_prefix) (of.id) } { (of.title) } " " }
        }
        @for of in &drive.sections {
            (charts(of, anchor_prefix, level, plots))
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

/// Content for a whole search or baseline: its findings, and test, host and method of its last run.
fn of_search(report: &SeriesReport, anchor_prefix: &str) -> Markup {
    let last = report
        .steps
        .iter()
        .rev()
        .find_map(|step| step.report.as_ref().map(|run| (&step.step.name, run)));
    html! {
        (findings(&report.series.findings, anchor_prefix, 2))
        @if let Some((name, last)) = last {
            p.intro { "As recorded with the last run, " (name) ":" }
            (unmeasured(last, anchor_prefix, 2))
            (what_was_run(last, anchor_prefix, 2))
            (method(last, anchor_prefix, 2))
        }
    }
}

fn conclusion(report: &SeriesReport) -> Markup {
    let Some(conclusion) = &report.series.conclusion else {
        return verdict(
            &report.outcome_label(),
            html! {},
            &Headline::new("this series has no conclusion yet", None),
            html! {},
        );
    };
    let rated = match (conclusion.rating, conclusion.comparable) {
        (None, _) => "",
        (Some(_), true) => "comparable with published ratings",
        (Some(_), false) => "not comparable with published ratings",
    };
    verdict(
        &report.headline(),
        html! { " " span.class { (rated) } },
        &conclusion.headline(),
        list(conclusion.details().as_slice()),
    )
}

fn terms(report: &SeriesReport, anchor_prefix: &str) -> Markup {
    let series = &report.series;
    let mut pairs = series.terms.clone();
    pairs.push(("recorded by".to_owned(), series.tool.clone()));
    let note = series.note.clone();
    pairs.extend(note.map(|note| ("note".to_owned(), note)));
    let content = html! {
        (Table::named_values("Requested settings", pairs))
        details { summary { "Configuration at 1x" } pre { (series.config_1x.trim_end()) } }
    };
    section(format!("{anchor_prefix}terms"), 2, "Terms", content)
}
