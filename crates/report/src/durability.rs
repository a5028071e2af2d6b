//! Shows the result of a power-cut test as text, Markdown, HTML and JSON.

use crate::bars::Bars;
use crate::head::Head;
use crate::table::{Cell, Table};
use crate::words::OutcomeLabel;
use conclusions::durability::judge::{Claims, Durability};
use results::format::{binary_bytes, date, number};
use results::judge::Outcome;

pub fn text(result: &Durability) -> String {
    let head = head(result);
    let mut text = head.text() + &format!("\n{}\n", modes(result));
    notes(result)
        .iter()
        .for_each(|note| text += &format!("  {note}\n"));
    text + &head.facts_text()
}

pub fn markdown(result: &Durability) -> String {
    let mut text = head(result).markdown() + &modes(result).markdown();
    notes(result)
        .iter()
        .for_each(|note| text += &format!("\n* {note}"));
    text + "\n"
}

/// A self-contained page. `made_by`: program and version.
pub fn html(result: &Durability, made_by: &str) -> String {
    let mut page = head(result).page();
    page.add(&[bars(result)]);
    page.add(&[modes(result)]);
    page.list(&notes(result));
    page.html(made_by)
}

fn head(result: &Durability) -> Head {
    let title = format!("Durability of {}", result.path);
    let mut head = Head::new(title, result.outcome, result.headline.clone());
    // The headline of an INVALID result has the reason and the advice of the sentence.
    if result.outcome != Outcome::Invalid {
        head.details.push(result.sentence.clone());
    }
    head.fact("Path", &result.path);
    if result.circumstances.drives.is_empty() {
        result.disk.iter().for_each(|disk| head.fact("Disk", disk));
    }
    head = head.under(&result.circumstances);
    head.fact("Writes began", date(result.started_unix_ms));
    head.fact(
        "Power cuts",
        if result.outcome == Outcome::Invalid {
            "not confirmed"
        } else {
            "1"
        },
    );
    head.fact("Recorded by", &result.tool);
    head
}

fn bars(result: &Durability) -> Bars {
    let mut bars = Bars::new(
        "Damaged writes by mode",
        "Lost, stale, torn and foreign writes among the acknowledged writes that were read back.",
    );
    for mode in &result.modes {
        let damaged = mode.counts.failed_writes();
        let checked = number(mode.counts.checked as f64);
        let text = match mode.outcome {
            Outcome::Invalid => "not tested".to_owned(),
            _ => format!("{} of {checked}", number(damaged as f64)),
        };
        bars.bar(mode.mode.to_string(), Some(damaged as f64), text);
    }
    bars
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
