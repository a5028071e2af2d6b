//! The tables of SNIA's tests: sizes down, percent of reads across.

use crate::table::{Cell, Table};
use results::baseline::{Pts, PtsTable};
use results::units::{binary_bytes, milliseconds, number};

/// Note shown with every SNIA result.
pub(super) const PROCEDURE: &str = "Measured by the procedure of SNIA's Performance Test Specification 2.0.2. It is no result that SNIA or anybody else \
     certified.";

/// Result table of a test.
pub fn pts_table(test: &PtsTable) -> Table {
    let unit = match test.test {
        Pts::Iops | Pts::Saturation => "IOPS",
        Pts::Throughput | Pts::Throughput128 => "MB/s",
        Pts::Latency => "mean and longest response time",
    };
    let when = match test.steady_at {
        Some(round) => format!("steady in round {round}, the average of five"),
        None => format!("NOT STEADY within {} rounds, the average of the last five", test.rounds),
    };
    let mut mixes: Vec<u32> = test.cells.keys().map(|(_, read_pct)| *read_pct).collect();
    let mut sizes: Vec<u64> = test.cells.keys().map(|(bytes, _)| *bytes).collect();
    mixes.sort_unstable();
    sizes.sort_unstable();
    mixes.dedup();
    sizes.dedup();
    let cell = |bytes: u64, read_pct: u32| match (test.cells.get(&(bytes, read_pct)), test.test) {
        (None, _) => String::new(),
        (Some([mean, longest]), Pts::Latency) => {
            format!("{}, {}", milliseconds(mean / 1e3), milliseconds(longest / 1e3))
        }
        (Some([value, _]), _) => number(*value),
    };
    let rows = sizes.iter().rev().map(|bytes| {
        let cells = mixes.iter().rev().map(|read_pct| cell(*bytes, *read_pct));
        std::iter::once(binary_bytes(*bytes as f64)).chain(cells).map(Cell::from).collect::<Vec<_>>()
    });
    Table::new(format!("{} test, {unit}, {when}", test.test.word()))
        .text(["size, reads/writes"])
        .numbers(mixes.iter().rev().map(|read_pct| format!("{read_pct}/{}", 100 - read_pct)))
        .rows(rows)
}
