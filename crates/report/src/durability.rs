//! Result of a power-cut test: as text, Markdown, HTML and JSON.

use crate::html::HtmlPage;
use crate::table::{Cell, Table};
use crate::words::OutcomeLabel;
use conclusions::durability::judge::{Claims, Durability};
use results::format::{binary_bytes, number, wrapped};
use results::judge::Outcome;

const COLUMNS: usize = 100;

pub fn text(result: &Durability) -> String {
    let mut text = format!("{} {}\n", result.outcome, title(result));
    text += &wrapped(&result.sentence, "  ", COLUMNS);
    text += &format!("\n{}\n", modes(result));
    notes(result)
        .iter()
        .for_each(|note| text += &wrapped(note, "  ", COLUMNS));
    text
}

pub fn markdown(result: &Durability) -> String {
    let Durability {
        outcome, sentence, ..
    } = result;
    let mut text = format!(
        "# {outcome}: {}\n\n{sentence}\n\n{}",
        title(result),
        modes(result).markdown()
    );
    notes(result)
        .iter()
        .for_each(|note| text += &format!("\n* {note}"));
    text + "\n"
}

/// A self-contained page. `made_by`: program and version.
pub fn html(result: &Durability, made_by: &str) -> String {
    let mut page = HtmlPage::new(format!("{}: {}", result.outcome, title(result)));
    page.list(&[&result.sentence]);
    page.add(&[modes(result)]);
    page.list(&notes(result));
    page.html(made_by)
}

fn title(result: &Durability) -> String {
    let disk = result
        .disk
        .as_deref()
        .map_or_else(String::new, |disk| format!(" ({disk})"));
    format!("durability of {}{disk}", result.path)
}

fn modes(result: &Durability) -> Table {
    let mut table = Table::new("Modes")
        .text(["mode", "verdict"])
        .numbers(["acknowledged", "since flush", "checked"])
        .numbers([
            "lost",
            "stale",
            "torn",
            "foreign",
            "reordered",
            "allowed torn",
        ]);
    for mode in &result.modes {
        let counts = &mode.counts;
        let damage_counts = [
            counts.lost,
            counts.stale,
            counts.torn,
            counts.foreign,
            counts.reordered,
        ];
        let cell = |count: u64| number(count as f64);
        let verdict = match mode.outcome {
            Outcome::Invalid => "not tested".into(),
            outcome => Cell::outcome(OutcomeLabel::from_outcome(Some(outcome))),
        };
        let told = [mode.acknowledged, mode.exposed, counts.checked]
            .map(cell)
            .map(Cell::from);
        let before = [mode.mode.to_string().into(), verdict];
        let torn = [cell(counts.unacknowledged_torn).into()];
        table.row(
            before
                .into_iter()
                .chain(told)
                .chain(damage_counts.map(|count: u64| {
                    if count > 0 {
                        Cell::bad(cell(count))
                    } else {
                        cell(count).into()
                    }
                }))
                .chain(torn),
        );
    }
    table
}

fn notes(result: &Durability) -> Vec<String> {
    let Claims {
        write_cache,
        fua,
        atomic_write_bytes,
    } = &result.claims;
    let unknown = || "unknown".to_owned();
    let cache = write_cache.clone().unwrap_or_else(unknown);
    let fua = fua.map_or_else(unknown, |fua| if fua { "yes" } else { "no" }.to_owned());
    let atomic = atomic_write_bytes.map_or_else(unknown, |claimed| match claimed {
        0 => "none".to_owned(),
        claimed => binary_bytes(claimed as f64),
    });
    let claims =
        format!("the drive claims: write cache {cache}; FUA {fua}; atomic writes {atomic}");
    std::iter::once(claims)
        .chain(result.remarks.iter().cloned())
        .collect()
}
