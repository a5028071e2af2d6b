//! Facts about the machine of a run.
//!
//! Results of two machines can be compared only if both machines are known. Each fact is read separately: an unreadable
//! fact is `None`, and not an error.
//!
//! This module also samples the load of the host: CPUs, context switches, interrupts, pressure, memory, load average.

use super::{ProcFile, TelemetryError, per_sec, share_pct};
use crate::discover::SysDir;
use results::telemetry::Column;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;
use std::{fmt, fs};
use sys::buffer::meminfo_bytes;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HostFacts {
    pub hostname: Option<String>,
    pub kernel_release: Option<String>,
    pub distribution: Option<String>,
    /// Model of the first CPU.
    pub cpu_model: Option<String>,
    /// CPUs present, counted as hardware threads.
    pub logical_cpus: Option<u64>,
    pub online_cpus: Option<u64>,
    pub numa_nodes: Option<u64>,
    /// Memory that the kernel can use.
    pub memory_total_bytes: Option<u64>,
    /// CPU frequency governor; if CPUs differ, all governors joined by commas. `None` also if the kernel does not
    /// control the frequency, as in most virtual machines.
    pub cpu_governor: Option<String>,
    /// `None` if no hypervisor was detected.
    pub hypervisor: Option<String>,
    /// Seconds since the kernel started.
    pub uptime_secs: Option<u64>,
    /// `kernel.io_uring_disabled`: 0: allowed; 1: only for privileged processes; 2: for nobody. `None` before Linux
    /// 6.6, which always allows io_uring.
    pub io_uring_disabled: Option<u32>,
    /// Memory that this process may lock (soft limit).
    pub memlock_limit: Option<MemlockLimit>,
}

/// `RLIMIT_MEMLOCK`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemlockLimit {
    Bytes(u64),
    Unlimited,
}

impl HostFacts {
    /// `root` is `/` except in tests.
    pub fn read(root: &Path) -> Self {
        let dir = SysDir::new(root.to_path_buf());
        let text = |name: &str| dir.text(name);
        let count = |list: &str| Some(CpuList::parse(&dir.text(list)?)?.len() as u64);
        let cpuinfo = text("proc/cpuinfo").unwrap_or_default();
        Self {
            hostname: text("proc/sys/kernel/hostname"),
            kernel_release: text("proc/sys/kernel/osrelease"),
            distribution: distribution(&dir),
            cpu_model: cpu_model(&cpuinfo),
            logical_cpus: count("sys/devices/system/cpu/present"),
            online_cpus: count("sys/devices/system/cpu/online"),
            numa_nodes: count("sys/devices/system/node/online"),
            memory_total_bytes: text("proc/meminfo")
                .and_then(|meminfo| meminfo_bytes(&meminfo, "MemTotal")),
            cpu_governor: cpu_governor(&dir),
            hypervisor: hypervisor(&dir, &cpuinfo),
            uptime_secs: text("proc/uptime")
                .and_then(|uptime| uptime.split(['.', ' ']).next()?.parse().ok()),
            io_uring_disabled: dir.number("proc/sys/kernel/io_uring_disabled"),
            memlock_limit: text("proc/self/limits").and_then(|limits| memlock_limit(&limits)),
        }
    }
}

pub(crate) fn value_of_key<'a>(text: &'a str, key: &str, separator: char) -> Option<&'a str> {
    let pairs = text.lines().filter_map(|line| line.split_once(separator));
    pairs
        .map(|(name, value)| (name.trim(), value.trim()))
        .find_map(|(name, value)| (name == key).then_some(value))
}

/// Source: os-release(5); /etc/os-release has priority over /usr/lib/os-release.
fn distribution(root: &SysDir) -> Option<String> {
    let text = root
        .text("etc/os-release")
        .or_else(|| root.text("usr/lib/os-release"))?;
    let name =
        value_of_key(&text, "PRETTY_NAME", '=').or_else(|| value_of_key(&text, "NAME", '='))?;
    Some(name.trim_matches(['"', '\'']).to_owned())
}

/// Model of the first CPU. The key is "model name" on x86, "cpu model" on MIPS, "cpu" on POWER. `None` on ARM, which
/// has only numbers.
fn cpu_model(cpuinfo: &str) -> Option<String> {
    let model = ["model name", "cpu model", "cpu"]
        .iter()
        .find_map(|key| value_of_key(cpuinfo, key, ':'))?;
    Some(model.to_owned())
}

fn cpu_governor(root: &SysDir) -> Option<String> {
    let cpus = root.below("sys/devices/system/cpu");
    let mut governors: Vec<String> = cpus
        .filter_map(|cpu| cpu.text("cpufreq/scaling_governor"))
        .collect();
    governors.sort_unstable();
    governors.dedup();
    (!governors.is_empty()).then(|| governors.join(","))
}

/// Name of the hypervisor. Xen appears in /sys/hypervisor. Other hypervisors set a CPU flag, and most have their name
/// in the firmware tables.
///
/// The firmware tables alone prove nothing, because those of a cloud's bare-metal machines also have the cloud's name.
/// ARM has no such CPU flag, so only Xen is detected on ARM.
fn hypervisor(root: &SysDir, cpuinfo: &str) -> Option<String> {
    if let Some(kind) = root.text("sys/hypervisor/type") {
        return Some(kind);
    }
    value_of_key(cpuinfo, "flags", ':')?
        .split_ascii_whitespace()
        .find(|flag| *flag == "hypervisor")?;
    let firmware = |name: &str| root.text(&format!("sys/class/dmi/id/{name}"));
    match (firmware("sys_vendor"), firmware("product_name")) {
        (Some(vendor), Some(product)) => Some(format!("{vendor} {product}")),
        (Some(name), None) | (None, Some(name)) => Some(name),
        (None, None) => Some("unnamed".to_owned()),
    }
}

fn memlock_limit(limits: &str) -> Option<MemlockLimit> {
    let soft = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max locked memory"))?
        .split_ascii_whitespace()
        .next()?;
    match soft {
        "unlimited" => Some(MemlockLimit::Unlimited),
        bytes => bytes.parse().ok().map(MemlockLimit::Bytes),
    }
}

/// Sanity limit for a CPU number in a list: the kernel's own limit is 8,192 CPUs.
const CPUS_MAX: u32 = 1 << 16;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct CpuList(BTreeSet<u32>);

impl CpuList {
    /// Parses a list such as `0-3,8`; `None` for other text. Empty text is an empty set.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut cpus = BTreeSet::new();
        for range in text.trim().split(',').filter(|range| !range.is_empty()) {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let first = first.trim().parse::<u32>().ok()?;
            let last = last.trim().parse::<u32>().ok()?;
            if first > last || last >= CPUS_MAX {
                return None;
            }
            cpus.extend(first..=last);
        }
        Some(Self(cpus))
    }

    pub(crate) fn read(path: &Path) -> Option<Self> {
        Self::parse(&fs::read_to_string(path).ok()?)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// `None` unless the set has exactly one CPU.
    pub(crate) fn only(&self) -> Option<u32> {
        self.0.first().copied().filter(|_| self.0.len() == 1)
    }

    pub(crate) fn common(&self, other: &Self) -> Self {
        Self(self.0.intersection(&other.0).copied().collect())
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.0.extend(&other.0);
    }
}

impl fmt::Display for CpuList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cpus: Vec<u32> = self.0.iter().copied().collect();
        let text = |run: &[u32]| match run {
            [first, .., last] => format!("{first}-{last}"),
            run => run[0].to_string(),
        };
        let texts: Vec<String> = cpus
            .chunk_by(|cpu, next| cpu + 1 == *next)
            .map(text)
            .collect();
        f.write_str(&texts.join(","))
    }
}

#[derive(Debug)]
pub(super) struct HostSampler {
    stat: ProcFile,
    meminfo: ProcFile,
    loadavg: ProcFile,
    /// `None` if the kernel has no pressure statistics (PSI).
    pressure: Option<ProcFile>,
    previous: HostLoadCounters,
}

/// Counters since boot, which only grow.
#[derive(Debug, Default)]
struct HostLoadCounters {
    cpus: Option<Ticks>,
    each_cpu: Vec<(u32, Ticks)>,
    switches: Option<u64>,
    interrupts: Option<u64>,
    pressure_us: Option<[u64; 2]>,
}

impl HostSampler {
    pub(super) fn open(root: &Path) -> Result<Self, TelemetryError> {
        Ok(Self {
            stat: ProcFile::open(root, "proc/stat")?,
            meminfo: ProcFile::open(root, "proc/meminfo")?,
            loadavg: ProcFile::open(root, "proc/loadavg")?,
            pressure: ProcFile::open(root, "proc/pressure/io").ok(),
            previous: HostLoadCounters::default(),
        })
    }

    /// `cpu_*_pct` are shares of the time of all CPUs (0 to 100); busy is all time that is not idle, iowait or steal.
    /// `cpu_busiest_pct` is the utilisation of the busiest CPU. `psi_io_some_pct` and `psi_io_full_pct` are the shares
    /// of the time in which some tasks, and all tasks, waited for I/O (Documentation/accounting/psi.rst).
    pub(super) fn sample(
        &mut self,
        interval: Duration,
    ) -> impl Iterator<Item = (Column, Option<f64>)> + use<> {
        let mut counters = self
            .stat
            .read()
            .map(HostLoadCounters::parse)
            .unwrap_or_default();
        counters.pressure_us = self
            .pressure
            .as_mut()
            .and_then(|file| pressure_us(file.read().ok()?));
        let previous = std::mem::replace(&mut self.previous, counters);
        let current = &self.previous;

        let shares = current
            .cpus
            .zip(previous.cpus)
            .and_then(|(now, before)| now.since(before));
        let [busy, iowait, steal] = shares.map_or([None; 3], |shares| shares.map(Some));
        let rate =
            |now: Option<u64>, before: Option<u64>| per_sec(now?.checked_sub(before?)?, interval);
        let [psi_some, psi_full] = match (current.pressure_us, previous.pressure_us) {
            (Some(now_us), Some(before_us)) => [0, 1].map(|at| {
                let stalled_us = now_us[at].checked_sub(before_us[at])?;
                share_pct(stalled_us.saturating_mul(1_000), interval)
            }),
            _ => [None; 2],
        };
        let available = self
            .meminfo
            .read()
            .ok()
            .and_then(|meminfo| meminfo_bytes(meminfo, "MemAvailable"));
        let load = self
            .loadavg
            .read()
            .ok()
            .and_then(|text| text.split(' ').next()?.parse().ok());
        let cells = [
            (Column::CpuBusyPct, busy),
            (Column::CpuIowaitPct, iowait),
            (Column::CpuStealPct, steal),
            (
                Column::ContextSwitchesPerSec,
                rate(current.switches, previous.switches),
            ),
            (
                Column::HostInterruptsPerSec,
                rate(current.interrupts, previous.interrupts),
            ),
            (
                Column::MemoryAvailableBytes,
                available.map(|bytes| bytes as f64),
            ),
            (Column::Load1Min, load),
            (Column::PsiIoSomePct, psi_some),
            (Column::PsiIoFullPct, psi_full),
            (
                Column::CpuBusiestPct,
                busiest_pct(&current.each_cpu, &previous.each_cpu),
            ),
        ];
        cells.into_iter()
    }
}

impl HostLoadCounters {
    /// Parses /proc/stat (proc_stat(5)).
    fn parse(stat: &str) -> Self {
        let mut counts = Self::default();
        for line in stat.lines() {
            let Some((name, rest)) = line.split_once(' ') else {
                continue;
            };
            let first = || rest.split_ascii_whitespace().next()?.parse().ok();
            match name {
                "cpu" => counts.cpus = Ticks::parse(rest),
                "ctxt" => counts.switches = first(),
                "intr" => counts.interrupts = first(),
                _ => {
                    let number = name
                        .strip_prefix("cpu")
                        .and_then(|number| number.parse().ok());
                    counts.each_cpu.extend(number.zip(Ticks::parse(rest)));
                }
            }
        }
        counts
    }
}

/// Utilisation of the busiest CPU, percent; `None` if no tick passed.
fn busiest_pct(now: &[(u32, Ticks)], before: &[(u32, Ticks)]) -> Option<f64> {
    now.iter()
        .filter_map(|(number, now): &(u32, Ticks)| {
            // A CPU that has just come online has no earlier ticks.
            let (_, before) = before.iter().find(|(before, _)| before == number)?;
            now.since(*before).map(|[busy, ..]| busy)
        })
        .reduce(f64::max)
}

/// Microseconds in which some tasks, and in which all tasks, waited for I/O, from the text of `/proc/pressure/io`.
fn pressure_us(text: &str) -> Option<[u64; 2]> {
    Some([stall_us(text, "some ")?, stall_us(text, "full ")?])
}

fn stall_us(text: &str, kind: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(kind))?;
    line.split_ascii_whitespace()
        .find_map(|word| word.strip_prefix("total="))?
        .parse()
        .ok()
}

/// Clock ticks since boot, of one CPU or summed over all CPUs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Ticks {
    pub(crate) busy: u64,
    pub(crate) idle: u64,
    pub(crate) iowait: u64,
    pub(crate) steal: u64,
}

impl Ticks {
    /// Ticks of all CPUs together, now; `None` on failure.
    pub(crate) fn read(root: &Path) -> Option<Self> {
        HostLoadCounters::parse(&fs::read_to_string(root.join("proc/stat")).ok()?).cpus
    }

    /// Order: user, nice, system, idle, iowait, irq, softirq, steal; then guest, already part of user (proc_stat(5)).
    fn parse(words: &str) -> Option<Self> {
        let mut words = words.split_ascii_whitespace();
        let mut next = || words.next()?.parse::<u64>().ok();
        let user = next()?;
        let nice = next()?;
        let system = next()?;
        let idle = next()?;
        let iowait = next()?;
        let irq = next()?;
        let softirq = next()?;
        let steal = next()?;
        Some(Self {
            busy: user + nice + system + irq + softirq,
            idle,
            iowait,
            steal,
        })
    }

    /// Percent of busy, iowait and steal time since `before`; `None` if no tick passed.
    pub(crate) fn since(self, before: Self) -> Option<[f64; 3]> {
        // iowait can decrease (proc_stat(5)).
        let busy = self.busy.saturating_sub(before.busy);
        let idle = self.idle.saturating_sub(before.idle);
        let iowait = self.iowait.saturating_sub(before.iowait);
        let steal = self.steal.saturating_sub(before.steal);
        let total = busy + idle + iowait + steal;
        (total > 0).then(|| [busy, iowait, steal].map(|ticks| ticks as f64 * 100.0 / total as f64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake_tree::FakeTree;
    use results::assert_contains;

    const FILES: [(&str, &str); 16] = [
        ("proc/sys/kernel/hostname", "db7\n"),
        ("proc/sys/kernel/osrelease", "6.12.1-amd64\n"),
        (
            "etc/os-release",
            "NAME=\"Debian\"\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nID=debian\n",
        ),
        (
            "proc/cpuinfo",
            "processor\t: 0\nmodel name\t: AMD EPYC 9354\nflags\t\t: fpu hypervisor sse\n",
        ),
        ("sys/devices/system/cpu/present", "0-7\n"),
        ("sys/devices/system/cpu/online", "0-3,6\n"),
        ("sys/devices/system/node/online", "0-1\n"),
        ("proc/meminfo", "MemTotal:        1000 kB\nMemFree: 5 kB\n"),
        (
            "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
            "powersave\n",
        ),
        (
            "sys/devices/system/cpu/cpu1/cpufreq/scaling_governor",
            "performance\n",
        ),
        (
            "sys/devices/system/cpu/cpu2/cpufreq/scaling_governor",
            "powersave\n",
        ),
        ("sys/class/dmi/id/sys_vendor", "QEMU\n"),
        (
            "sys/class/dmi/id/product_name",
            "Standard PC (Q35 + ICH9, 2009)\n",
        ),
        ("proc/uptime", "7215.33 28000.01\n"),
        ("proc/sys/kernel/io_uring_disabled", "2\n"),
        (
            "proc/self/limits",
            "Limit                     Soft Limit           Hard Limit           Units\nMax locked memory         8388608              unlimited            bytes\n",
        ),
    ];

    #[test]
    fn every_fact_is_read_from_its_file() {
        let expected = HostFacts {
            hostname: Some("db7".into()),
            kernel_release: Some("6.12.1-amd64".into()),
            distribution: Some("Debian GNU/Linux 12 (bookworm)".into()),
            cpu_model: Some("AMD EPYC 9354".into()),
            logical_cpus: Some(8),
            online_cpus: Some(5),
            numa_nodes: Some(2),
            memory_total_bytes: Some(1_024_000),
            cpu_governor: Some("performance,powersave".into()),
            hypervisor: Some("QEMU Standard PC (Q35 + ICH9, 2009)".into()),
            uptime_secs: Some(7215),
            io_uring_disabled: Some(2),
            memlock_limit: Some(MemlockLimit::Bytes(8_388_608)),
        };
        let root = FakeTree::with_files(&FILES);
        assert_eq!(HostFacts::read(root.root()), expected);
    }

    #[test]
    fn an_empty_host_has_no_facts_and_no_error() {
        let found = HostFacts::read(FakeTree::with_files(&[]).root());
        assert_eq!(found, HostFacts::default());
    }

    #[test]
    fn a_bare_metal_machine_with_a_clouds_name_in_its_firmware_has_no_hypervisor() {
        let root = FakeTree::with_files(&[
            ("proc/cpuinfo", "model name\t: Xeon\nflags\t\t: fpu sse\n"),
            ("sys/class/dmi/id/sys_vendor", "Amazon EC2\n"),
        ]);
        assert_eq!(HostFacts::read(root.root()).hypervisor, None);
    }

    #[test]
    fn a_hypervisor_without_a_name_in_the_firmware_is_detected_by_the_cpu_flag() {
        let root = FakeTree::with_files(&[("proc/cpuinfo", "flags\t\t: hypervisor\n")]);
        assert_eq!(
            HostFacts::read(root.root()).hypervisor.as_deref(),
            Some("unnamed")
        );
        let xen = FakeTree::with_files(&[("sys/hypervisor/type", "xen\n")]);
        assert_eq!(
            HostFacts::read(xen.root()).hypervisor.as_deref(),
            Some("xen")
        );
    }

    #[test]
    fn a_cpu_list_is_parsed_and_printed_in_the_format_of_the_kernel() {
        for text in ["0", "0-3", "0-3,8,10-11", ""] {
            let found = CpuList::parse(&format!("{text}\n")).unwrap().to_string();
            assert_eq!(found, text);
        }
        assert_eq!(CpuList::parse("0-3,8").unwrap().len(), 5);
        assert_eq!(CpuList::parse("7").unwrap().only(), Some(7));
        assert_eq!(CpuList::parse("6-7").unwrap().only(), None);
    }

    #[test]
    fn a_text_that_is_no_list_of_cpus_is_refused() {
        for text in ["3-1", "x", "0-", "-", "0-4294967295"] {
            assert_eq!(CpuList::parse(text), None, "{text}");
        }
    }

    #[test]
    fn an_unlimited_memlock_limit_is_parsed() {
        let text = "Max locked memory         unlimited            unlimited            bytes";
        assert_eq!(memlock_limit(text), Some(MemlockLimit::Unlimited));
    }

    #[test]
    fn facts_survive_json_and_the_unknown_is_null() {
        let facts = HostFacts::read(FakeTree::with_files(&FILES[..8]).root());
        let json = serde_json::to_string(&facts).unwrap();
        assert_contains!(json, "\"cpu_governor\":null", "\"numa_nodes\":2");
        assert_eq!(serde_json::from_str::<HostFacts>(&json).unwrap(), facts);
    }

    #[test]
    fn this_host_has_the_facts_that_every_linux_has() {
        let facts = HostFacts::read("/".as_ref());
        assert!(
            facts.kernel_release.is_some()
                && facts.memory_total_bytes.is_some()
                && facts.memlock_limit.is_some()
        );
        assert!(facts.online_cpus.unwrap() >= 1);
    }
}

#[cfg(test)]
mod host_tests {
    use super::*;

    #[test]
    fn the_busiest_cpu_is_shown_although_the_mean_is_low() {
        let before = HostLoadCounters::parse(
            "cpu  0 0 0 0 0 0 0 0 0 0\ncpu0 10 0 0 90 0 0 0 0\ncpu3 0 0 0 100 0 0 0 0\n",
        );
        let now = HostLoadCounters::parse(
            "cpu  0 0 0 0 0 0 0 0 0 0\ncpu0 10 0 0 190 0 0 0 0\ncpu3 60 0 30 110 0 0 0 0\n",
        );
        assert_eq!(busiest_pct(&now.each_cpu, &before.each_cpu), Some(90.0));
        assert_eq!(busiest_pct(&now.each_cpu, &[]), None);
    }

    #[test]
    fn the_totals_of_the_pressure_file_are_parsed() {
        let text = "some avg10=5.27 avg60=1.81 avg300=1.34 total=1975743578\nfull avg10=2.53 avg60=1.15 avg300=1.09 total=1034017196\n";
        assert_eq!(pressure_us(text), Some([1_975_743_578, 1_034_017_196]));
        assert_eq!(pressure_us("some avg10=0 total=5\n"), None);
    }
}
