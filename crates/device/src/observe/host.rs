//! Facts about the machine of a run.
//!
//! Results can be compared only if both machines are known. Each fact is read on its own: an unreadable one is `None`,
//! and nothing fails.

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

/// Facts about a host, for the manifest of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HostFacts {
    pub hostname: Option<String>,
    /// Kernel release, as `uname -r` prints it.
    pub kernel_release: Option<String>,
    /// Name and version of the distribution.
    pub distribution: Option<String>,
    /// CPU model, as the first CPU names itself.
    pub cpu_model: Option<String>,
    /// CPUs that are built in, hardware threads counted.
    pub logical_cpus: Option<u64>,
    /// CPUs that are switched on.
    pub online_cpus: Option<u64>,
    pub numa_nodes: Option<u64>,
    /// Memory that the kernel can use.
    pub memory_total_bytes: Option<u64>,
    /// CPU frequency governor; several, joined by commas, if CPUs differ. `None` also if the kernel does not control
    /// it, as in most virtual machines.
    pub cpu_governor: Option<String>,
    /// The hypervisor of this machine, as far as it identifies itself; `None` if none was detected.
    pub hypervisor: Option<String>,
    /// Seconds since the kernel started.
    pub uptime_secs: Option<u64>,
    /// `kernel.io_uring_disabled`: 0 allowed, 1 for privileged processes only, 2 for nobody.
    /// `None` before Linux 6.6, which always allows it.
    pub io_uring_disabled: Option<u32>,
    /// Memory that this process may lock, soft limit.
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
    /// Reads the facts below `root` (`/` but in tests).
    pub fn read(root: &Path) -> Self {
        let text = |name: &str| read_text(root, name);
        let cpuinfo = text("proc/cpuinfo").unwrap_or_default();
        Self {
            hostname: text("proc/sys/kernel/hostname"),
            kernel_release: text("proc/sys/kernel/osrelease"),
            distribution: distribution(root),
            cpu_model: cpu_model(&cpuinfo),
            logical_cpus: text("sys/devices/system/cpu/present").and_then(|list| CpuList::count(&list)),
            online_cpus: text("sys/devices/system/cpu/online").and_then(|list| CpuList::count(&list)),
            numa_nodes: text("sys/devices/system/node/online").and_then(|list| CpuList::count(&list)),
            memory_total_bytes: text("proc/meminfo").and_then(|meminfo| memory_total_bytes(&meminfo)),
            cpu_governor: cpu_governor(root),
            hypervisor: hypervisor(root, &cpuinfo),
            uptime_secs: text("proc/uptime").and_then(|uptime| uptime.split(['.', ' ']).next()?.parse().ok()),
            io_uring_disabled: text("proc/sys/kernel/io_uring_disabled").and_then(|value| value.parse().ok()),
            memlock_limit: text("proc/self/limits").and_then(|limits| memlock_limit(&limits)),
        }
    }
}

/// A file's text without surrounding space; `None` if it cannot be read or is empty.
fn read_text(root: &Path, name: &str) -> Option<String> {
    let text = std::fs::read_to_string(root.join(name)).ok()?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// The value of `key` in lines `key <separator> value`.
fn value<'a>(text: &'a str, key: &str, separator: char) -> Option<&'a str> {
    let pairs = text.lines().filter_map(|line| line.split_once(separator));
    pairs.map(|(name, value)| (name.trim(), value.trim())).find_map(|(name, value)| (name == key).then_some(value))
}

/// os-release(5): the file in /etc comes before that in /usr/lib.
fn distribution(root: &Path) -> Option<String> {
    let text = read_text(root, "etc/os-release").or_else(|| read_text(root, "usr/lib/os-release"))?;
    let name = value(&text, "PRETTY_NAME", '=').or_else(|| value(&text, "NAME", '='))?;
    Some(name.trim_matches(['"', '\'']).to_owned())
}

/// x86 calls it "model name", MIPS "cpu model", POWER "cpu". ARM names only numbers: unknown.
fn cpu_model(cpuinfo: &str) -> Option<String> {
    let model = ["model name", "cpu model", "cpu"].iter().find_map(|key| value(cpuinfo, key, ':'))?;
    Some(model.to_owned())
}

fn memory_total_bytes(meminfo: &str) -> Option<u64> {
    value(meminfo, "MemTotal", ':')?.strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

fn cpu_governor(root: &Path) -> Option<String> {
    let cpus = std::fs::read_dir(root.join("sys/devices/system/cpu")).ok()?;
    let governor = |path: &Path| read_text(path, "cpufreq/scaling_governor");
    let mut governors: Vec<String> = cpus.flatten().filter_map(|cpu| governor(&cpu.path())).collect();
    governors.sort_unstable();
    governors.dedup();
    (!governors.is_empty()).then(|| governors.join(","))
}

/// Xen appears in /sys/hypervisor; others set a CPU flag and mostly have their name in the firmware.
///
/// The firmware's name alone proves nothing: bare machines in a cloud carry the cloud's name, too. ARM
/// has no such flag, so only Xen is seen there.
fn hypervisor(root: &Path, cpuinfo: &str) -> Option<String> {
    if let Some(kind) = read_text(root, "sys/hypervisor/type") {
        return Some(kind);
    }
    value(cpuinfo, "flags", ':')?.split_ascii_whitespace().find(|flag| *flag == "hypervisor")?;
    let firmware = |name: &str| read_text(root, &format!("sys/class/dmi/id/{name}"));
    match (firmware("sys_vendor"), firmware("product_name")) {
        (Some(vendor), Some(product)) => Some(format!("{vendor} {product}")),
        (Some(name), None) | (None, Some(name)) => Some(name),
        (None, None) => Some("unnamed".to_owned()),
    }
}

fn memlock_limit(limits: &str) -> Option<MemlockLimit> {
    let soft =
        limits.lines().find_map(|line| line.strip_prefix("Max locked memory"))?.split_ascii_whitespace().next()?;
    match soft {
        "unlimited" => Some(MemlockLimit::Unlimited),
        bytes => bytes.parse().ok().map(MemlockLimit::Bytes),
    }
}

/// Most CPUs that a list is believed to have: the kernel's own limit is 8,192.
const CPUS_MAX: u32 = 1 << 16;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct CpuList(BTreeSet<u32>);

impl CpuList {
    /// Parses a list; `None` if it is not one. An empty text is an empty set.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut cpus = BTreeSet::new();
        for range in text.trim().split(',').filter(|range| !range.is_empty()) {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (first, last) = (first.trim().parse::<u32>().ok()?, last.trim().parse::<u32>().ok()?);
            if first > last || last >= CPUS_MAX {
                return None;
            }
            cpus.extend(first..=last);
        }
        Some(Self(cpus))
    }

    /// Number of elements of a list in the kernel's format.
    fn count(text: &str) -> Option<u64> {
        Self::parse(text).map(|list| list.len() as u64)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The CPU, if it is only one.
    pub(crate) fn only(&self) -> Option<u32> {
        self.0.first().copied().filter(|_| self.0.len() == 1)
    }

    /// CPUs in both sets.
    pub(crate) fn common(&self, other: &Self) -> Self {
        Self(self.0.intersection(&other.0).copied().collect())
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.0.extend(&other.0);
    }
}

impl fmt::Display for CpuList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut ranges: Vec<(u32, u32)> = Vec::new();
        for &cpu in &self.0 {
            match ranges.last_mut() {
                Some((_, last)) if *last + 1 == cpu => *last = cpu,
                _ => ranges.push((cpu, cpu)),
            }
        }
        let texts: Vec<String> = ranges
            .into_iter()
            .map(|(first, last)| if first == last { first.to_string() } else { format!("{first}-{last}") })
            .collect();
        f.write_str(&texts.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake_tree::FakeTree;

    const FILES: [(&str, &str); 16] = [
        ("proc/sys/kernel/hostname", "db7\n"),
        ("proc/sys/kernel/osrelease", "6.12.1-amd64\n"),
        ("etc/os-release", "NAME=\"Debian\"\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nID=debian\n"),
        ("proc/cpuinfo", "processor\t: 0\nmodel name\t: AMD EPYC 9354\nflags\t\t: fpu hypervisor sse\n"),
        ("sys/devices/system/cpu/present", "0-7\n"),
        ("sys/devices/system/cpu/online", "0-3,6\n"),
        ("sys/devices/system/node/online", "0-1\n"),
        ("proc/meminfo", "MemTotal:        1000 kB\nMemFree: 5 kB\n"),
        ("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n"),
        ("sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "performance\n"),
        ("sys/devices/system/cpu/cpu2/cpufreq/scaling_governor", "powersave\n"),
        ("sys/class/dmi/id/sys_vendor", "QEMU\n"),
        ("sys/class/dmi/id/product_name", "Standard PC (Q35 + ICH9, 2009)\n"),
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
        let root = FakeTree::of(&FILES);
        assert_eq!(HostFacts::read(root.root()), expected);
    }

    #[test]
    fn an_empty_host_has_no_facts_and_no_error() {
        assert_eq!(HostFacts::read(FakeTree::of(&[]).root()), HostFacts::default());
    }

    #[test]
    fn a_bare_machine_with_a_clouds_name_has_no_hypervisor() {
        let root = FakeTree::of(&[
            ("proc/cpuinfo", "model name\t: Xeon\nflags\t\t: fpu sse\n"),
            ("sys/class/dmi/id/sys_vendor", "Amazon EC2\n"),
        ]);
        assert_eq!(HostFacts::read(root.root()).hypervisor, None);
    }

    #[test]
    fn a_hypervisor_without_a_name_is_still_one() {
        let root = FakeTree::of(&[("proc/cpuinfo", "flags\t\t: hypervisor\n")]);
        assert_eq!(HostFacts::read(root.root()).hypervisor.as_deref(), Some("unnamed"));
        let xen = FakeTree::of(&[("sys/hypervisor/type", "xen\n")]);
        assert_eq!(HostFacts::read(xen.root()).hypervisor.as_deref(), Some("xen"));
    }

    #[test]
    fn a_list_is_read_and_written_as_the_kernel_does() {
        for text in ["0", "0-3", "0-3,8,10-11", ""] {
            assert_eq!(CpuList::parse(&format!("{text}\n")).unwrap().to_string(), text);
        }
        assert_eq!(CpuList::parse("0-3,8").unwrap().len(), 5);
        assert_eq!(CpuList::parse("7").unwrap().only(), Some(7));
        assert_eq!(CpuList::parse("6-7").unwrap().only(), None);
    }

    #[test]
    fn what_is_no_list_is_none() {
        for text in ["3-1", "x", "0-", "-", "0-4294967295"] {
            assert_eq!(CpuList::parse(text), None, "{text}");
        }
    }

    #[test]
    fn unlimited_is_a_limit_of_its_own() {
        let text = "Max locked memory         unlimited            unlimited            bytes";
        assert_eq!(memlock_limit(text), Some(MemlockLimit::Unlimited));
    }

    #[test]
    fn facts_survive_json_and_the_unknown_is_null() {
        let facts = HostFacts::read(FakeTree::of(&FILES[..8]).root());
        let json = serde_json::to_string(&facts).unwrap();
        assert!(json.contains("\"cpu_governor\":null") && json.contains("\"numa_nodes\":2"), "{json}");
        assert_eq!(serde_json::from_str::<HostFacts>(&json).unwrap(), facts);
    }

    #[test]
    fn this_host_has_the_facts_that_every_linux_has() {
        let facts = HostFacts::read("/".as_ref());
        assert!(facts.kernel_release.is_some() && facts.memory_total_bytes.is_some() && facts.memlock_limit.is_some());
        assert!(facts.online_cpus.unwrap() >= 1);
    }
}
