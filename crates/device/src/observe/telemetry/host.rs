//! Load of the host: CPUs, context switches, interrupts, pressure, memory, load average.

use super::super::procfile::{ProcFile, TelemetryError, open, per_sec, share_pct};
use results::telemetry::{Column, ColumnOf};
use std::path::Path;
use std::time::Duration;

/// `cpu_*_pct` are shares of all CPUs together (0 to 100): busy is neither idle nor waiting nor stolen;
/// `cpu_busiest_pct` is the utilisation of the busiest single one. `psi_io_*_pct` is the share of the time in which
/// some, or all, runnable tasks waited for I/O (Documentation/accounting/psi.rst).
const COLUMNS: [Column; 10] = [
    Column::CpuBusyPct,
    Column::CpuIowaitPct,
    Column::CpuStealPct,
    Column::ContextSwitchesPerSec,
    Column::HostInterruptsPerSec,
    Column::MemoryAvailableBytes,
    Column::Load1Min,
    Column::PsiIoSomePct,
    Column::PsiIoFullPct,
    Column::CpuBusiestPct,
];

#[derive(Debug)]
pub(super) struct Host {
    stat: ProcFile,
    meminfo: ProcFile,
    loadavg: ProcFile,
    /// `None` if the kernel does not account pressure.
    pressure: Option<ProcFile>,
    before: Counts,
}

/// Counters that only grow.
#[derive(Debug, Default)]
struct Counts {
    cpus: Option<Ticks>,
    each_cpu: Vec<(u32, Ticks)>,
    switches: Option<u64>,
    interrupts: Option<u64>,
    pressure_us: Option<[u64; 2]>,
}

impl Host {
    pub(super) fn open(root: &Path) -> Result<Self, TelemetryError> {
        Ok(Self {
            stat: open(root, "proc/stat")?,
            meminfo: open(root, "proc/meminfo")?,
            loadavg: open(root, "proc/loadavg")?,
            pressure: ProcFile::open(root, "proc/pressure/io").ok(),
            before: Counts::default(),
        })
    }

    pub(super) fn columns(&self) -> impl Iterator<Item = ColumnOf> + use<> {
        COLUMNS.into_iter().map(|column| column.of(""))
    }

    /// Adds the values of [`COLUMNS`].
    pub(super) fn sample(&mut self, interval: Duration, values: &mut Vec<Option<f64>>) {
        let mut now = self.stat.read().map(Counts::parse).unwrap_or_default();
        now.pressure_us = self.pressure.as_mut().and_then(|file| pressure_us(file.read().ok()?));
        let before = std::mem::replace(&mut self.before, now);
        let now = &self.before;

        let shares = now.cpus.zip(before.cpus).and_then(|(now, before)| now.since(before));
        let [busy, iowait, steal] = shares.map_or([None; 3], |shares| shares.map(Some));
        let rate = |now: Option<u64>, before: Option<u64>| per_sec(now?.checked_sub(before?)?, interval);
        let pressure = |at: usize| {
            let (now, before) = now.pressure_us.zip(before.pressure_us)?;
            share_pct(now[at].checked_sub(before[at])?.saturating_mul(1_000), interval)
        };
        let available = self.meminfo.read().ok().and_then(sys::memory::available_of).map(|bytes| bytes as f64);
        let load = self.loadavg.read().ok().and_then(|text| text.split(' ').next()?.parse().ok());
        values.extend([
            busy,
            iowait,
            steal,
            rate(now.switches, before.switches),
            rate(now.interrupts, before.interrupts),
            available,
            load,
            pressure(0),
            pressure(1),
            busiest_pct(&now.each_cpu, &before.each_cpu),
        ]);
    }
}

impl Counts {
    /// The lines of /proc/stat (proc_stat(5)).
    fn parse(stat: &str) -> Self {
        let mut counts = Self::default();
        for line in stat.lines() {
            let Some((name, rest)) = line.split_once(' ') else { continue };
            let first = || rest.split_ascii_whitespace().next()?.parse().ok();
            match name {
                "cpu" => counts.cpus = Ticks::parse(rest),
                "ctxt" => counts.switches = first(),
                "intr" => counts.interrupts = first(),
                _ => {
                    let number = name.strip_prefix("cpu").and_then(|number| number.parse().ok());
                    counts.each_cpu.extend(number.zip(Ticks::parse(rest)));
                }
            }
        }
        counts
    }
}

/// Utilisation of the busiest CPU, percent; `None` if no CPU's clock ticked.
fn busiest_pct(now: &[(u32, Ticks)], before: &[(u32, Ticks)]) -> Option<f64> {
    let busy = |(number, now): &(u32, Ticks)| {
        // A CPU that came online meanwhile has no earlier ticks.
        let (_, before) = before.iter().find(|(before, _)| before == number)?;
        now.since(*before).map(|[busy, ..]| busy)
    };
    now.iter().filter_map(busy).reduce(f64::max)
}

/// Microseconds in which some tasks and all tasks waited, from `/proc/pressure/io`.
fn pressure_us(text: &str) -> Option<[u64; 2]> {
    let total = |kind: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(kind))?;
        line.split_ascii_whitespace().find_map(|word| word.strip_prefix("total="))?.parse().ok()
    };
    Some([total("some ")?, total("full ")?])
}

/// Clock ticks of one CPU or of all, since boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ticks {
    busy: u64,
    idle: u64,
    iowait: u64,
    steal: u64,
}

impl Ticks {
    /// user, nice, system, idle, iowait, irq, softirq, steal. Guest time follows, but is in user already
    /// (proc_stat(5)).
    fn parse(words: &str) -> Option<Self> {
        let mut words = words.split_ascii_whitespace();
        let mut next = || words.next()?.parse::<u64>().ok();
        let (user, nice, system, idle, iowait) = (next()?, next()?, next()?, next()?, next()?);
        let (irq, softirq, steal) = (next()?, next()?, next()?);
        Some(Self { busy: user + nice + system + irq + softirq, idle, iowait, steal })
    }

    /// Percent busy, waiting and stolen since `before`; `None` if no tick passed.
    fn since(self, before: Self) -> Option<[f64; 3]> {
        // iowait, of all, can go back (proc_stat(5)).
        let [busy, idle, iowait, steal] = [
            self.busy.saturating_sub(before.busy),
            self.idle.saturating_sub(before.idle),
            self.iowait.saturating_sub(before.iowait),
            self.steal.saturating_sub(before.steal),
        ];
        let total = busy + idle + iowait + steal;
        (total > 0).then(|| [busy, iowait, steal].map(|ticks| ticks as f64 * 100.0 / total as f64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busiest_cpu_shows_where_the_mean_hides_it() {
        let before = Counts::parse("cpu  0 0 0 0 0 0 0 0 0 0\ncpu0 10 0 0 90 0 0 0 0\ncpu3 0 0 0 100 0 0 0 0\n");
        let now = Counts::parse("cpu  0 0 0 0 0 0 0 0 0 0\ncpu0 10 0 0 190 0 0 0 0\ncpu3 60 0 30 110 0 0 0 0\n");
        assert_eq!(busiest_pct(&now.each_cpu, &before.each_cpu), Some(90.0));
        assert_eq!(busiest_pct(&now.each_cpu, &[]), None);
    }

    #[test]
    fn pressure_is_the_growth_of_its_totals() {
        let text = "some avg10=5.27 avg60=1.81 avg300=1.34 total=1975743578\nfull avg10=2.53 avg60=1.15 avg300=1.09 total=1034017196\n";
        assert_eq!(pressure_us(text), Some([1_975_743_578, 1_034_017_196]));
        assert_eq!(pressure_us("some avg10=0 total=5\n"), None);
    }
}
