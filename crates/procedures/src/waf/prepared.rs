//! Compares preparations for random writes on a simulated drive: bytes written, and how far from steady each leaves it.

use super::simulated;
use crate::prep::RandomWrites;
use device::guard::RandomOrder;
use ftl::over_provisioning::Both;
use load::memory;
use load::waf::prepared::{AFTER, AfterPrep, Method, Steady};
use report::table::Table;
use session::failure::Failure;
use std::fmt;

/// Relative difference from the steady state that counts as steady.
const STEADY: f64 = 0.02;

/// Octiles of the first drive fill after a preparation that are shown, from 0.
const SHOWN: [usize; 5] = [0, 1, 2, 3, 7];

/// The steady state of a drive, and what preparations leave.
pub struct Preparations {
    on: String,
    steady: Steady,
    found: Vec<(String, AfterPrep)>,
}

impl fmt::Display for Preparations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { on, steady, found } = self;
        let over_provisioning = Both(steady.over_provisioning());
        writeln!(f, "{on}: over-provisioning {over_provisioning}, steady WAF {:.2}\n\n{}", steady.waf, table(found))?;
        writeln!(
            f,
            "WAF in octiles (eighths) of the next drive fill of random overwrites, relative to the steady state; octiles until it\n\
             stays within {:.0} %; mean difference of the superblocks' shares of valid units from those of the steady state",
            STEADY * 100.0
        )
    }
}

fn table(found: &[(String, AfterPrep)]) -> Table {
    let rows = found.iter().map(|(name, prepared)| {
        let waf = |octile: usize| format!("{:+.1} %", (prepared.after[octile] - 1.0) * 100.0);
        let until = match prepared.octiles_until(STEADY) {
            AFTER => format!("over {AFTER}"),
            octiles => octiles.to_string(),
        };
        let cells = [name.clone(), format!("{:.2}", prepared.fills)].into_iter().chain(SHOWN.map(waf));
        cells.chain([until, format!("{:.2} %", prepared.distance * 100.0)]).collect::<Vec<_>>()
    });
    Table::new("Preparations for random writes")
        .text(["preparation"])
        .numbers(["written".to_owned()].into_iter().chain(SHOWN.map(|octile| format!("WAF {}", octile + 1))))
        .numbers(["steady after", "valid off by"])
        .rows(rows)
}

/// Prepares the simulated drive `on` by sequential and random fills, and by one pass as `ours` says.
pub fn preparations(on: &str, ours: &RandomWrites, seed: u64) -> Result<Preparations, Failure> {
    let (_, drive) = simulated(on)?;
    memory::check(2 * drive.spec.memory_bytes()).map_err(|why| Failure::environment(format!("{on}: {why}")))?;
    let cannot = |why: String| Failure::usage(format!("cannot prepare {on} - {why}"));
    let steady = Steady::of(&drive.spec, seed).map_err(|error| cannot(error.to_string()))?;
    let over_provisioning = ours.over_provisioning.unwrap_or(steady.over_provisioning());
    let RandomOrder { block_bytes, cache_bytes, .. } = ours.order(drive.spec.logical_bytes, drive.spec.logical_bytes);
    let methods = [
        ("two random fills".to_owned(), Method::Random(2)),
        ("sequential fill, two random fills".to_owned(), Method::SequentialThenRandom(2)),
        (
            format!("one pass for {:.1} %, writes of {block_bytes}", over_provisioning * 100.0),
            Method::Ordered { over_provisioning, block_bytes, cache_bytes },
        ),
    ];
    let found = methods.into_iter().map(|(name, method)| Ok((name, steady.after(method).map_err(cannot)?)));
    Ok(Preparations { found: found.collect::<Result<_, Failure>>()?, on: on.to_owned(), steady })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A drive with a thousand superblocks of 256 units.
    fn on(parameters: &str) -> String {
        format!("sim:ftl+capacity=1GiB+superblock=1MiB+page=4KiB+reserve=1+{parameters}")
    }

    fn page() -> String {
        let mut all = Vec::new();
        let mut add = |drive: &str, parameters: &str, for_pct: Option<f64>, block_bytes: u32, from: usize| {
            let over_provisioning = for_pct.map(|pct| pct / 100.0);
            let ours = RandomWrites { over_provisioning, block_bytes, cache_bytes: None };
            let found = preparations(&on(parameters), &ours, 1).unwrap().found;
            all.extend(found.into_iter().skip(from).map(|(name, prepared)| (format!("{drive}: {name}"), prepared)));
        };
        for op in [7, 10, 15, 20, 28] {
            add(&format!("{op} %"), &format!("op={op}%"), None, 4096, 0);
        }
        for (op, pct) in [(28, 7.0), (28, 15.0), (15, 28.0), (7, 28.0)] {
            add(&format!("{op} %"), &format!("op={op}%"), Some(pct), 4096, 2);
        }
        add("15 %", "op=15%", None, 32 << 10, 2);
        for victim in ["fifo", "cost-benefit", "d-choices-10", "d-choices-3"] {
            add(&format!("15 %, {victim}"), &format!("op=15%+victim={victim}"), None, 4096, 2);
        }
        table(&all).markdown()
    }

    #[test]
    fn the_page_has_the_tables() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/prep.md");
        let page_text = std::fs::read_to_string(path).unwrap();
        let (before, rest) = page_text.split_once("<!-- preparations -->\n").unwrap();
        let (_, after) = rest.split_once("<!-- end of preparations -->").unwrap();
        let wanted = format!("{before}<!-- preparations -->\n{}<!-- end of preparations -->{after}", page());
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(path, &wanted).unwrap();
        }
        assert!(page_text == wanted, "docs/prep.md: UPDATE_DOCS=1 cargo test -p flashproof-procedures waf::prepared");
    }
}
