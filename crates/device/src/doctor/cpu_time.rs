//! Who has the CPUs: other guests of the machine (steal) and other programs.
//!
//! The first line of /proc/stat is read twice. Its times are in ticks of 10 ms, so a moment tells of
//! steal only where there is a lot of it; the share since the machine started is looked at, too.

use super::findings::Findings;
use crate::discover::Roots;
use std::fs;

/// Share of CPU time, percent, from which on steal may spoil a result: a thread that is held off the CPU
/// for 10 ms misses all of its operations of that time.
const STEAL_PCT: f64 = 1.0;

/// Share of CPU time, percent, from which on other programs may be in the way.
const BUSY_PCT: f64 = 50.0;

/// Ticks since the machine started, over all CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CpuTimes {
    idle: u64,
    steal: u64,
    all: u64,
}

impl CpuTimes {
    /// Reads them now; `None` where that cannot be done.
    pub(super) fn read(roots: &Roots) -> Option<Self> {
        Self::parse(&fs::read_to_string(roots.proc.join("stat")).ok()?)
    }

    /// Fields: user, nice, system, idle, iowait, irq, softirq, steal; guests' time after that is in user
    /// already. Source: proc_stat(5).
    fn parse(stat: &str) -> Option<Self> {
        let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
        let ticks: Vec<u64> = line.split_ascii_whitespace().take(8).map_while(|word| word.parse().ok()).collect();
        let [_, _, _, idle, iowait, _, _, steal] = ticks[..] else { return None };
        Some(Self { idle: idle + iowait, steal, all: ticks.iter().sum() })
    }

    /// `None` unless the counters went forward: a CPU that was switched off takes its ticks away.
    fn since(self, before: Self) -> Option<Self> {
        Some(Self {
            idle: self.idle.checked_sub(before.idle)?,
            steal: self.steal.checked_sub(before.steal)?,
            all: self.all.checked_sub(before.all).filter(|ticks| *ticks > 0)?,
        })
    }

    fn pct(self, ticks: u64) -> f64 {
        ticks as f64 * 100.0 / self.all.max(1) as f64
    }

    fn steal_pct(self) -> f64 {
        self.pct(self.steal)
    }

    fn busy_pct(self) -> f64 {
        self.pct(self.all.saturating_sub(self.idle + self.steal))
    }
}

/// Looks at what happened between two readings.
pub(super) fn check(before: Option<CpuTimes>, after: Option<CpuTimes>, findings: &mut Findings) {
    let Some(total) = after else {
        let why = "another guest or program that takes the CPUs would look like lag";
        findings.unknown("cpu-steal", "/proc/stat tells no CPU times", why, "");
        return findings.unknown("cpu-busy", "/proc/stat tells no CPU times", why, "");
    };
    let moment = before.and_then(|before| total.since(before));
    check_steal(moment, total, findings);
    check_busy(moment, findings);
}

fn check_steal(moment: Option<CpuTimes>, total: CpuTimes, findings: &mut Findings) {
    let (now_pct, ever_pct) = (moment.map_or(0.0, CpuTimes::steal_pct), total.steal_pct());
    let text = match moment {
        Some(_) => format!("{now_pct:.1} % of CPU time is stolen now, {ever_pct:.1} % since the start"),
        None => format!("{ever_pct:.1} % of CPU time was stolen since the start"),
    };
    if now_pct.max(ever_pct) < STEAL_PCT {
        return findings.ok("cpu-steal", text);
    }
    findings.warning(
        "cpu-steal",
        text,
        "other guests of the physical machine take this one's CPUs: operations are issued and seen late",
        "pin this guest's CPUs, or move it to a host or an instance type that is not shared",
    );
}

fn check_busy(moment: Option<CpuTimes>, findings: &mut Findings) {
    const WHY: &str = "threads that wait for a CPU issue late, which can make a run invalid";
    match moment.map(CpuTimes::busy_pct) {
        None => findings.unknown("cpu-busy", "no CPU time passed between two looks", WHY, ""),
        Some(pct) if pct < BUSY_PCT => findings.ok("cpu-busy", format!("{pct:.0} % of CPU time is in use")),
        Some(pct) => findings.warning(
            "cpu-busy",
            format!("{pct:.0} % of CPU time is in use before the test began"),
            WHY,
            "stop what runs (`top`), or keep CPUs free for the test (taskset, isolcpus)",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::all;
    use super::*;
    use results::finding::Level;

    fn times(idle: u64, steal: u64, all: u64) -> Option<CpuTimes> {
        Some(CpuTimes { idle, steal, all })
    }

    #[test]
    fn fields_are_those_that_the_kernel_documents() {
        let stat = "cpu  100 10 50 700 40 5 5 90 7 0\ncpu0 1 2 3 4 5 6 7 8 9 10\n";
        assert_eq!(CpuTimes::parse(stat), times(740, 90, 1000));
        assert_eq!(CpuTimes::parse("cpu  1 2 3\n"), None);
        assert_eq!(CpuTimes::parse(""), None);
    }

    #[test]
    fn steal_and_use_are_shares_of_the_moment() {
        let levels = |before, after| -> Vec<_> {
            all(|findings| check(before, after, findings)).into_iter().map(|finding| finding.level).collect()
        };
        assert_eq!(levels(times(900, 0, 1000), times(990, 0, 1100)), [Level::Ok, Level::Ok]);
        assert_eq!(levels(times(0, 0, 100_000), times(98, 2, 100_100)), [Level::Warning, Level::Ok], "stolen now");
        assert_eq!(levels(times(900, 20, 1000), times(1000, 20, 1100)), [Level::Warning, Level::Ok], "stolen before");
        assert_eq!(levels(times(900, 0, 1000), times(930, 0, 1100)), [Level::Ok, Level::Warning], "in use");
        assert_eq!(levels(times(900, 0, 1000), times(900, 0, 1000)), [Level::Ok, Level::Unknown], "no time passed");
        assert_eq!(levels(None, None), [Level::Unknown, Level::Unknown]);
    }
}
