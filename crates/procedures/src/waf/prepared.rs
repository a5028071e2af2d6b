//! Compares preparations for random writes on a simulated drive: bytes written, and how far from steady each leaves it.

use super::simulated;
use crate::prep::RandomWrites;
use ftl::over_provisioning::Both;
use load::memory;
use load::waf::prepared::{AFTER, Method, Steady};
use report::table::Table;
use session::failure::Failure;
use std::fmt;

/// Relative difference from the steady state that counts as steady.
const STEADY: f64 = 0.02;

/// Octiles of the first drive fill after a preparation that are shown, from 0.
const SHOWN: [usize; 5] = [0, 1, 2, 3, 7];

/// The steady state of a drive, and a table of the preparations.
pub struct Preparations {
    on: String,
    steady: Steady,
    table: Table,
}

impl fmt::Display for Preparations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { on, steady, table } = self;
        let over_provisioning = Both(steady.over_provisioning());
        writeln!(f, "{on}: over-provisioning {over_provisioning}, steady WAF {:.2}\n\n{table}", steady.waf)?;
        writeln!(
            f,
            "WAF in octiles of the next drive fill of random overwrites, relative to the steady state; octiles until it stays \
             within {:.0} %;\nmean difference of the superblocks' shares of valid units from those of the steady state",
            STEADY * 100.0
        )
    }
}

/// Prepares the simulated drive `on` by sequential and random fills, and by one pass as `ours` says.
pub fn preparations(on: &str, ours: &RandomWrites, seed: u64) -> Result<Preparations, Failure> {
    let (_, drive) = simulated(on)?;
    memory::check(2 * drive.spec.memory_bytes()).map_err(|why| Failure::environment(format!("{on}: {why}")))?;
    let cannot = |why: String| Failure::usage(format!("cannot prepare {on} - {why}"));
    let steady = Steady::of(&drive.spec, seed).map_err(|error| cannot(error.to_string()))?;
    let over_provisioning = ours.over_provisioning.unwrap_or(steady.over_provisioning());
    let order = ours.order(drive.spec.logical_bytes, drive.spec.logical_bytes);
    let (block_bytes, cache_bytes) = (order.block_bytes, order.cache_bytes);
    let mut table = Table::new("Preparations for random writes")
        .text(["preparation"])
        .numbers(["capacities written".to_owned()])
        .numbers(SHOWN.map(|octile| format!("WAF in octile {}", octile + 1)))
        .numbers(["octiles until steady", "superblocks off by"]);
    for (name, method) in [
        ("two random fills".to_owned(), Method::Random(2)),
        ("sequential fill, two random fills".to_owned(), Method::SequentialThenRandom(2)),
        (
            format!("one pass for {:.1} %, writes of {block_bytes}", over_provisioning * 100.0),
            Method::Ordered { over_provisioning, block_bytes, cache_bytes },
        ),
    ] {
        let prepared = steady.after(method).map_err(cannot)?;
        let waf = |octile: usize| format!("{:+.1} %", (prepared.after[octile] - 1.0) * 100.0);
        let until = match prepared.octiles_until(STEADY) {
            AFTER => format!("over {AFTER}"),
            octiles => octiles.to_string(),
        };
        let cells = [name, format!("{:.2}", prepared.fills)].into_iter().chain(SHOWN.map(waf));
        table.row(cells.chain([until, format!("{:.2} %", prepared.distance * 100.0)]));
    }
    Ok(Preparations { on: on.to_owned(), steady, table })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A drive with a thousand superblocks of 256 units.
    fn on(parameters: &str) -> String {
        format!("sim:ftl+capacity=1GiB+superblock=1MiB+page=4KiB+reserve=1+{parameters}")
    }

    fn page() -> String {
        let mut text = String::new();
        let mut add = |title: &str, parameters: &str, for_pct: Option<f64>, block_bytes: u32| {
            let over_provisioning = for_pct.map(|pct| pct / 100.0);
            let ours = RandomWrites { over_provisioning, block_bytes, cache_bytes: None };
            let Preparations { steady, table, .. } = preparations(&on(parameters), &ours, 1).unwrap();
            text += &format!("\n{title}, steady WAF {:.2}:\n\n{}", steady.waf, table.markdown());
        };
        for op in [7, 15, 28] {
            add(&format!("Drive with {op} % over-provisioning"), &format!("op={op}%"), None, 4096);
        }
        for (op, pct) in [(28, 7), (7, 28)] {
            let title = format!("Drive with {op} %, pass for {pct} %");
            add(&title, &format!("op={op}%"), Some(pct.into()), 4096);
        }
        add("Drive with 15 %, writes of 32 KiB: 32 in a superblock", "op=15%", None, 32 << 10);
        for victim in ["fifo", "cost-benefit", "d-choices-10", "d-choices-3"] {
            add(&format!("Drive with 15 %, victims {victim}"), &format!("op=15%+victim={victim}"), None, 4096);
        }
        text
    }

    #[test]
    fn the_page_has_the_tables() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/prep.md");
        let page_text = std::fs::read_to_string(path).unwrap();
        let (before, rest) = page_text.split_once("<!-- preparations -->\n").unwrap();
        let (_, after) = rest.split_once("<!-- end of preparations -->").unwrap();
        let wanted = format!("{before}<!-- preparations -->\n{}\n<!-- end of preparations -->{after}", page());
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(path, &wanted).unwrap();
        }
        assert!(page_text == wanted, "docs/prep.md: UPDATE_DOCS=1 cargo test -p flashproof-procedures waf::prepared");
    }
}
