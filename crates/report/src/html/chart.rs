//! A chart in the page: heading, key number, picture or the reason why there is none, caption.

use super::escape::text;
use super::plot::Plots;
use crate::charts::Chart;
use crate::document::Section;

/// A section with its charts, as an HTML section with a heading of `level`.
pub(super) fn section(section: &Section, place: &str, level: usize, plots: &mut Plots) -> String {
    let id = format!("{place}{}", section.id);
    let figures: String = section.charts.iter().map(|chart| figure(chart, place, plots)).collect();
    format!(
        "<section id=\"{id}\">\n{}<p class=\"intro\">{}</p>\n<div class=\"charts\">\n{figures}</div>\n{}</section>\n",
        super::parts::heading(level, "", &section.title),
        text(&section.intro),
        absent(&section.charts),
        id = text(&id),
    )
}

fn figure(chart: &Chart, place: &str, plots: &mut Plots) -> String {
    if chart.absent.is_some() {
        return String::new();
    }
    let id = plots.add(chart, place);
    let label = format!("{}. {}", chart.title, chart.key);
    format!(
        "<figure class=\"chart{wide}\">\n<figcaption class=\"title\">{title}</figcaption>\n<p class=\"key\">{key}</p>\n\
         <div class=\"plot{tall}\" id=\"{id}\" role=\"img\" aria-label=\"{label}\"></div>\n\
         <p class=\"caption\">{caption}</p>\n</figure>\n",
        wide = if chart.wide { " wide" } else { "" },
        tall = if chart.heat.is_some() { " tall" } else { "" },
        title = text(&chart.title),
        key = text(&chart.key),
        label = text(&label),
        caption = text(&chart.caption),
    )
}

/// Charts without data, with the reason in their place; those with the same reason together.
fn absent(charts: &[Chart]) -> String {
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for chart in charts {
        let Some(why) = chart.absent.as_deref() else { continue };
        match reasons.iter_mut().find(|(known, _)| *known == why) {
            Some((_, titles)) => titles.push(&chart.title),
            None => reasons.push((why, vec![&chart.title])),
        }
    }
    let line = |(why, titles): (&str, Vec<&str>)| {
        format!("<p class=\"absent\"><b>Not drawn: {}.</b> Why: {}.</p>\n", text(&titles.join("; ")), text(why))
    };
    reasons.into_iter().map(line).collect()
}
