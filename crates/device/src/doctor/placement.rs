//! Checks that writes can name placement handles, on drives that support them.

use super::device_state::Findings;
use crate::observe::nvme::fdp::Fdp;

/// Checks a drive's FDP report. A drive without FDP gets no finding.
pub(super) fn check(fdp: Result<Option<Fdp>, String>, findings: &mut Findings) {
    let check = findings.check("fdp", "whether writes can name a handle is not known");
    match fdp {
        Ok(None) => {}
        Ok(Some(fdp)) => match fdp.hindrance() {
            Some(hindrance) => check
                .because(
                    "tenants on it share reclaim units, and their write amplification cannot be reduced by handles",
                )
                .note(
                    hindrance,
                    "`flashproof waf setup DEVICE` prints the commands that change it, and what they erase",
                ),
            None if fdp.placement.is_empty() => check.unknown(fdp.unknown.join("; "), ""),
            None => check.ok(format!("FDP is on, and writes can name {} handles", fdp.placement.len())),
        },
        Err(why) => check.unknown(format!("its FDP state could not be queried: {why}"), "run as root"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::nvme::fdp::{PlacementHandle, State};
    use results::finding::Level;

    #[test]
    fn what_keeps_writes_from_handles_is_a_note_and_no_fdp_is_nothing() {
        let level = |fdp| {
            let mut findings = Findings::of_device("/dev/nvme0n1");
            check(fdp, &mut findings);
            findings.into_findings().first().map(|finding| finding.level)
        };
        let handle = PlacementHandle { placement_id: 0, reclaim_unit_handle: 0, reclaim_unit_blocks_left: 8 };
        let with = |state, placement| Ok(Some(Fdp { state, placement, ..Fdp::default() }));
        assert_eq!(level(Ok(None)), None);
        assert_eq!(level(with(State::On(0), vec![handle])), Some(Level::Ok));
        assert_eq!(level(with(State::On(0), Vec::new())), Some(Level::Note));
        assert_eq!(level(with(State::Off, Vec::new())), Some(Level::Note));
        assert_eq!(level(with(State::Unknown, Vec::new())), Some(Level::Unknown));
        assert_eq!(level(Err("no permission".to_owned())), Some(Level::Unknown));
    }
}
