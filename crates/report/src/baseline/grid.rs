//! Grid of read rates and write rates: one field for each pair of rates, darker for a longer latency. Also the tables
//! of SNIA's tests: a row for each size, a column for each percentage of reads.

use super::rate;
use crate::table::{Cell, Table};
use conclusions::baseline::{
    AccessMix, DirectionResult, JobPurpose, Percentile, Point, Pts, PtsTable, highest_rate,
};
use results::format::{binary_bytes, milliseconds, number};
use std::collections::BTreeSet;

type Direction = fn(&Point) -> Option<&DirectionResult>;

const READS: Direction = |point| point.reads.as_ref();
const WRITES: Direction = |point| point.writes.as_ref();

/// Two tables of 99th percentiles: the first of reads, the second of writes.
pub(super) fn tables(points: &[Point]) -> Vec<Table> {
    let cells: Vec<&Point> = points
        .iter()
        .filter(|point| point.part == JobPurpose::Grid)
        .collect();
    let sides = [("reads", READS), ("writes", WRITES)];
    sides
        .into_iter()
        .map(|(name, side)| table(name, side, &cells, points))
        .filter(|table| !table.is_empty())
        .collect()
}

fn table(name: &str, direction: Direction, cells: &[&Point], points: &[Point]) -> Table {
    let reads = rates(cells, READS);
    let writes = rates(cells, WRITES);
    // If more than 1 % of the operations never completed, p99 is longer than the longest completed operation.
    let us = |told: Percentile| match told {
        Percentile::Us(us) | Percentile::LongerThan(us) => Some(us),
        Percentile::TooFew => None,
    };
    let latencies_us: Vec<f64> = cells
        .iter()
        .filter_map(|point| us(direction(point)?.answer_at(99.0)))
        .filter(|us| *us > 0.0)
        .collect();
    let lowest_us = latencies_us.iter().copied().fold(f64::INFINITY, f64::min);
    let highest_us = latencies_us.iter().copied().fold(0.0, f64::max);
    let reads_label = rate_label(cells, points, READS);
    let writes_label = rate_label(cells, points, WRITES);
    // Logarithmic shade: a factor of two makes the same difference at 100 us and at 10 ms. Times within a factor of two
    // get nearly the same shade.
    let span = (highest_us / lowest_us).max(2.0).ln();
    let shade = |us: f64| (us.max(lowest_us) / lowest_us).ln() / span;
    let whole = full_rates_text(cells, points);
    let mut table = Table::new(format!(
        "p99 of {name}, wait + service{whole} (✘: a rate was not reached, ?: in doubt)"
    ))
    .text(["writes ↓ reads →"])
    .numbers(reads.iter().map(|read_rate| reads_label(*read_rate)));
    if latencies_us.is_empty() {
        return table;
    }
    for write_rate in writes {
        let mut row = vec![Cell::from(writes_label(write_rate))];
        for read_rate in &reads {
            // If several points match, the last counts.
            let point = cells.iter().rfind(|point| {
                [READS, WRITES].map(|side| offered_rate(side(point))) == [*read_rate, write_rate]
            });
            let Some((point, done)) = point.and_then(|point| Some((point, direction(point)?)))
            else {
                row.push(Cell::from(""));
                continue;
            };
            let percentile = done.answer_at(99.0);
            let missed = if point.is_reached() { "" } else { " ✘" };
            let doubt = if point.doubt.is_some() { " ?" } else { "" };
            let text = format!("{percentile}{missed}{doubt}");
            row.push(match us(percentile) {
                Some(us) => Cell::shaded(text, shade(us)),
                None => Cell::from(text),
            });
        }
        table.row(row);
    }
    table
}

/// Requested operations per second; 0 for a direction that the job lacks.
fn offered_rate(done: Option<&DirectionResult>) -> f64 {
    done.and_then(|done| done.offered_iops).unwrap_or(0.0)
}

/// All rates of one direction, the lowest first.
fn rates(cells: &[&Point], direction: Direction) -> Vec<f64> {
    let mut rates: Vec<f64> = cells
        .iter()
        .map(|point| offered_rate(direction(point)))
        .collect();
    rates.sort_by(f64::total_cmp);
    rates.dedup();
    rates
}

/// A rate of one direction in words: as a percentage of the highest rate of a job that has only this direction.
fn rate_label(
    cells: &[&Point],
    points: &[Point],
    direction: Direction,
) -> impl Fn(f64) -> String + use<> {
    let highest = single_direction(cells, points, direction).map(|(_, highest)| highest);
    move |scheduled| match highest {
        _ if scheduled == 0.0 => "none".to_owned(),
        Some(highest) => format!("{:.0} %", 100.0 * scheduled / highest),
        None => rate(scheduled),
    }
}

/// The mix of a job with only this direction, and the highest rate of that mix.
fn single_direction(
    cells: &[&Point],
    points: &[Point],
    direction: Direction,
) -> Option<(AccessMix, f64)> {
    let mix = AccessMix::from_point(
        cells
            .iter()
            .filter(|point| point.directions().count() == 1)
            .find(|point| direction(point).is_some())?,
    );
    Some((mix, highest_rate(points, mix)?))
}

/// For each direction, the rate that counts as 100 %, in words; empty if unknown.
fn full_rates_text(cells: &[&Point], points: &[Point]) -> String {
    let told = [READS, WRITES]
        .into_iter()
        .filter_map(|side| single_direction(cells, points, side));
    let told: Vec<String> = told
        .map(|(mix, highest)| format!("{} {mix}", rate(highest)))
        .collect();
    if told.is_empty() {
        String::new()
    } else {
        format!("; 100 %: {}", told.join(" and "))
    }
}

pub(super) const PROCEDURE: &str = "Measured by the procedure of SNIA's Performance Test Specification 2.0.2. Neither \
                                    SNIA nor anybody else has certified this result.";

pub fn pts_table(test: &PtsTable) -> Table {
    let unit = match test.test {
        Pts::Iops | Pts::Saturation => "IOPS",
        Pts::Throughput | Pts::Throughput128 => "MB/s",
        Pts::Latency => "mean and longest response time",
    };
    let steadiness = match test.steady_at {
        Some(round) => format!("steady in round {round}, average of five rounds"),
        None => format!(
            "NOT STEADY within {} rounds, average of the last five rounds",
            test.rounds
        ),
    };
    let mixes: BTreeSet<u32> = test.cells.keys().map(|(_, read_pct)| *read_pct).collect();
    let sizes: BTreeSet<u64> = test.cells.keys().map(|(bytes, _)| *bytes).collect();
    let cell = |bytes: u64, read_pct: u32| match (test.cells.get(&(bytes, read_pct)), test.test) {
        (None, _) => String::new(),
        (Some([mean, longest]), Pts::Latency) => {
            format!(
                "{}, {}",
                milliseconds(mean / 1e3),
                milliseconds(longest / 1e3)
            )
        }
        (Some([value, _]), _) => number(*value),
    };
    let rows = sizes.iter().rev().map(|bytes| {
        let cells = mixes.iter().rev().map(|read_pct| cell(*bytes, *read_pct));
        std::iter::once(binary_bytes(*bytes as f64))
            .chain(cells)
            .map(Cell::from)
            .collect::<Vec<_>>()
    });
    Table::new(format!(
        "{} test, {unit}, {steadiness}",
        test.test.option_name()
    ))
    .text(["size, reads/writes"])
    .numbers(
        mixes
            .iter()
            .rev()
            .map(|read_pct| format!("{read_pct}/{}", 100 - read_pct)),
    )
    .rows(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use maud::Render;

    #[test]
    fn each_pair_of_read_and_write_rates_has_a_cell_and_the_highest_latency_is_darkest() {
        let points = conclusions::testing::baseline(1.0);
        let [reads, writes] = &tables(&points)[..] else {
            panic!("two tables")
        };
        let text = reads.to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 6, "{text}");
        assert!(
            lines[0].ends_with("80 %") && reads.title.contains("100,000/s random reads, 4 KiB"),
            "{text}"
        );
        assert!(
            lines[1].starts_with("none") && lines[5].starts_with("80 %"),
            "{text}"
        );
        // p99: 80 us / (1.7 - 1.6) * 3 = 2.4 ms. The cross marks a field whose rates were not reached.
        assert!(
            lines[5].ends_with("2.4 ms ✘") && lines[1].ends_with("267 us"),
            "{text}"
        );
        let html = reads.render().into_string();
        assert!(
            html.contains("<td class=\"shade-8 number\">2.4 ms ✘</td>"),
            "{html}"
        );
        assert!(
            html.contains("<td class=\"shade-0 number\">160 us</td>"),
            "{html}"
        );
        assert_eq!(
            writes.to_string().lines().nth(1).map(str::trim),
            Some("none"),
            "there are no writes"
        );
        assert!(tables(&[]).is_empty());
    }
}
