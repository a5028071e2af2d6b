//! Compares preparations for random writes on a simulated drive.

use super::simulated;
use crate::prep::RandomWrites;
use device::guard::RandomOrder;
use ftl::over_provisioning::Both;
use load::memory;
use load::waf::prepared::{Method, Steady};
use report::waf::{FORMAT_VERSION, Preparations};
use session::failure::Failure;
use session::runner::tool;

/// Prepares the simulated drive `on` by random fills, by SPRandom, and by one pass as `ours` says.
pub fn preparations(on: &str, ours: &RandomWrites, seed: u64) -> Result<Preparations, Failure> {
    let (_, drive) = simulated(on)?;
    memory::check(2 * drive.spec.memory_bytes()).map_err(|why| Failure::environment(format!("{on}: {why}")))?;
    let cannot = |why: String| Failure::usage(format!("cannot prepare {on} - {why}"));
    let steady = Steady::of(&drive.spec, seed).map_err(|error| cannot(error.to_string()))?;
    let over_provisioning = ours.over_provisioning.unwrap_or(steady.over_provisioning());
    let RandomOrder { block_bytes, cache_bytes, .. } = ours.order(drive.spec.logical_bytes, drive.spec.logical_bytes);
    let methods = [
        Method::Random(2),
        Method::SequentialThenRandom(2),
        Method::Sprandom { over_provisioning },
        Method::Ordered { over_provisioning, block_bytes, cache_bytes },
    ];
    // The formula of SPRandom for the WAF ends at 1.
    let is_possible = |method: &Method| !matches!(method, Method::Sprandom { .. }) || over_provisioning < 1.5;
    let found = methods.into_iter().filter(is_possible).map(|method| steady.after(method).map_err(cannot));
    Ok(Preparations {
        format_version: FORMAT_VERSION,
        made_by: tool(),
        drive: on.to_owned(),
        over_provisioning: Both(steady.over_provisioning()).to_string(),
        waf: steady.waf,
        found: found.collect::<Result<_, Failure>>()?,
        valid: steady.valid,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A drive with a thousand superblocks of 256 units.
    fn on(parameters: &str) -> String {
        format!("sim:ftl+capacity=1GiB+superblock=1MiB+page=4KiB+reserve=1+{parameters}")
    }

    fn page() -> String {
        let mut all: Option<Preparations> = None;
        let mut add = |drive: &str, parameters: &str, for_pct: Option<f64>, block_bytes: u32, from: usize| {
            let over_provisioning = for_pct.map(|pct| pct / 100.0);
            let ours = RandomWrites { over_provisioning, block_bytes, cache_bytes: None };
            let mut more = preparations(&on(parameters), &ours, 1).unwrap();
            more.found.drain(..from);
            more.found.iter_mut().for_each(|of| of.preparation = format!("{drive}: {}", of.preparation));
            match &mut all {
                Some(all) => all.found.append(&mut more.found),
                None => all = Some(more),
            }
        };
        for op in [7, 10, 15, 20, 28] {
            add(&format!("{op} %"), &format!("op={op}%"), None, 4096, 0);
        }
        for (op, pct) in [(28, 7.0), (28, 15.0), (15, 28.0), (7, 28.0)] {
            add(&format!("{op} %"), &format!("op={op}%"), Some(pct), 4096, 3);
        }
        add("15 %", "op=15%", None, 32 << 10, 3);
        for victim in ["fifo", "cost-benefit", "d-choices-10", "d-choices-3"] {
            add(&format!("15 %, {victim}"), &format!("op=15%+victim={victim}"), None, 4096, 3);
        }
        all.unwrap().table().markdown()
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
