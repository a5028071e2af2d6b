//! Where a device's interrupts go, and whether anybody spreads them.
//!
//! The PCI device above the disk lists its interrupts (`msi_irqs`); /proc/interrupts counts them for each
//! CPU, and /proc/irq tells to which CPUs they may go. One CPU that takes all of a fast device's
//! completions is full long before the device is: the latency then rises with the load and looks like
//! the device's. With a queue for each CPU the kernel spreads NVMe interrupts itself, and irqbalance has
//! nothing to do there; with few queues, HBAs and virtual disks it is irqbalance that does it.

use super::cpu_list::CpuList;
use super::patient::Patient;
use super::sheet::Sheet;
use crate::discover::{Roots, SysDir};
use std::collections::BTreeMap;
use std::fs;

const CHECK: &str = "interrupts";
const WHY: &str = "one CPU that takes all completions is full before the device is: latency rises with the load and looks \
                   like the device's";

/// Fewer interrupts than this say nothing about where they go.
const COUNTED_MIN: u64 = 10_000;

/// Share of all interrupts, percent, on one CPU that is as good as all.
const ONE_CPU_PCT: f64 = 95.0;

/// One line of /proc/interrupts.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Interrupt {
    /// Times that it came, with the CPU.
    counts: Vec<(u32, u64)>,
    /// What the driver calls it: `nvme0q1`, `virtio1-req.0`.
    name: String,
}

/// Whether the daemon that spreads interrupts runs.
pub(super) fn check_host(roots: &Roots, sheet: &mut Sheet) {
    match irqbalance_runs(roots) {
        Some(true) => sheet.ok("irqbalance", "irqbalance is running"),
        Some(false) => sheet.note(
            "irqbalance",
            "irqbalance is not running",
            "interrupts stay where they are; it matters where those of a device sit on one CPU (see `interrupts`)",
            "systemctl enable --now irqbalance",
        ),
        None => sheet.unknown("irqbalance", "the processes cannot be listed", "whether irqbalance runs is unknown", ""),
    }
}

fn irqbalance_runs(roots: &Roots) -> Option<bool> {
    let processes = fs::read_dir(&roots.proc).ok()?;
    let is_it = |comm: String| comm.trim() == "irqbalance";
    let is_process = |name: &str| name.bytes().all(|byte| byte.is_ascii_digit());
    let mut named = processes.flatten().filter(|entry| entry.file_name().to_str().is_some_and(is_process));
    Some(named.any(|entry| fs::read_to_string(entry.path().join("comm")).is_ok_and(is_it)))
}

/// Where the interrupts of one device go.
pub(super) fn check(patient: &Patient, roots: &Roots, sheet: &mut Sheet) {
    let Some(numbers) = interrupts_of(&patient.above()) else {
        if patient.is_hardware() {
            sheet.unknown(CHECK, "its interrupts are not listed in sysfs", WHY, "cat /proc/interrupts");
        }
        return;
    };
    let all = fs::read_to_string(roots.proc.join("interrupts")).unwrap_or_default();
    let table = parse(&all);
    let mut own: Vec<(u32, &Interrupt)> =
        numbers.iter().filter_map(|number| Some((*number, table.get(number)?))).collect();
    // Those of the administration and of changed configuration complete no reads or writes.
    own.retain(|(_, interrupt)| !is_administrative(&interrupt.name));
    let online = fs::read_to_string(roots.sys.join("devices/system/cpu/online")).ok();
    let online = online.as_deref().and_then(CpuList::parse).unwrap_or_default();
    let allowed = own.iter().map(|(number, _)| affinity(*number, roots)).collect::<Option<Vec<_>>>();
    let (Some(allowed), false) = (allowed.filter(|lists| !lists.is_empty()), online.is_empty()) else {
        return sheet.unknown(CHECK, "where its interrupts go is not told", WHY, "cat /proc/interrupts");
    };
    let mut cpus = CpuList::default();
    allowed.iter().for_each(|list| cpus.add(list));
    judge(&own, &cpus, &online, irqbalance_runs(roots), sheet);
}

fn judge(own: &[(u32, &Interrupt)], cpus: &CpuList, online: &CpuList, balanced: Option<bool>, sheet: &mut Sheet) {
    let count = own.len();
    let plural = if count == 1 { "its interrupt goes" } else { "its interrupts go" };
    if online.len() == 1 {
        return sheet.ok(CHECK, "there is only one CPU for its interrupts");
    }
    if let Some(cpu) = cpus.only() {
        let numbers: Vec<String> = own.iter().map(|(number, _)| number.to_string()).collect();
        let finding = match balanced {
            Some(true) => format!("{plural} to CPU {cpu} alone, of {} CPUs, though irqbalance runs", online.len()),
            Some(false) => format!("{plural} to CPU {cpu} alone, of {} CPUs, and irqbalance is off", online.len()),
            None => format!("{plural} to CPU {cpu} alone, of {} CPUs", online.len()),
        };
        let spread = format!("echo {online} | tee /proc/irq/{}/smp_affinity_list", braces(&numbers));
        return match (count, balanced) {
            // A single queue is on one CPU at a time, whoever moves it.
            (1, Some(true)) => sheet.note(CHECK, finding, WHY, "keep that CPU free of the test's threads (taskset)"),
            (_, Some(true)) => sheet.warning(CHECK, finding, WHY, spread),
            _ => sheet.warning(CHECK, finding, WHY, format!("systemctl enable --now irqbalance, or {spread}")),
        };
    }
    let mut by_cpu: BTreeMap<u32, u64> = BTreeMap::new();
    own.iter().flat_map(|(_, it)| &it.counts).for_each(|(cpu, count)| *by_cpu.entry(*cpu).or_default() += count);
    let total: u64 = by_cpu.values().sum();
    let (cpu, most) = by_cpu.into_iter().max_by_key(|(_, count)| *count).unwrap_or_default();
    let share_pct = most as f64 * 100.0 / total.max(1) as f64;
    if total >= COUNTED_MIN && share_pct >= ONE_CPU_PCT {
        return sheet.note(
            CHECK,
            format!("CPU {cpu} took {share_pct:.0} % of its {total} interrupts, though they may go to CPUs {cpus}"),
            WHY,
            "watch /proc/interrupts in a run: `irq.cpu_max_share_pct` in telemetry.csv tells it, too",
        );
    }
    sheet.ok(CHECK, format!("{count} interrupts are spread over {} of {} CPUs ({cpus})", cpus.len(), online.len()));
}

fn braces(numbers: &[String]) -> String {
    match numbers {
        [one] => one.clone(),
        many => format!("{{{}}}", many.join(",")),
    }
}

/// NVMe's queue 0 takes commands of administration; virtio tells of a changed configuration by one of its own.
fn is_administrative(name: &str) -> bool {
    let is_admin_queue = name.starts_with("nvme") && name.ends_with("q0");
    is_admin_queue || name.ends_with("-config")
}

/// Numbers of the interrupts of the nearest PCI device among `above`.
fn interrupts_of(above: &[SysDir]) -> Option<Vec<u32>> {
    let numbers = |dir: &SysDir| -> Vec<u32> {
        dir.child("msi_irqs").children().iter().filter_map(|name| name.parse().ok()).collect()
    };
    above.iter().map(numbers).find(|numbers| !numbers.is_empty())
}

/// To which CPUs an interrupt goes: where it really does, or where it may. Source:
/// `Documentation/core-api/irq/irq-affinity.rst` of the kernel.
fn affinity(number: u32, roots: &Roots) -> Option<CpuList> {
    let dir = roots.proc.join("irq").join(number.to_string());
    let read = |name: &str| CpuList::parse(&fs::read_to_string(dir.join(name)).ok()?).filter(|cpus| !cpus.is_empty());
    read("effective_affinity_list").or_else(|| read("smp_affinity_list"))
}

/// The lines of /proc/interrupts that have a number. The first line names the CPUs that are online.
fn parse(text: &str) -> BTreeMap<u32, Interrupt> {
    let mut lines = text.lines();
    let cpus: Vec<u32> = lines
        .next()
        .unwrap_or_default()
        .split_ascii_whitespace()
        .filter_map(|name| name.strip_prefix("CPU")?.parse().ok())
        .collect();
    lines.filter_map(|line| parse_line(line, &cpus)).collect()
}

fn parse_line(line: &str, cpus: &[u32]) -> Option<(u32, Interrupt)> {
    let (number, rest) = line.split_once(':')?;
    let mut words = rest.split_ascii_whitespace();
    let counts = cpus.iter().map(|cpu| Some((*cpu, words.next()?.parse().ok()?))).collect::<Option<Vec<_>>>()?;
    let name = words.next_back().unwrap_or_default().to_owned();
    Some((number.trim().parse().ok()?, Interrupt { counts, name }))
}

#[cfg(test)]
mod tests {
    use super::super::tests::only;
    use super::*;
    use measure::finding::Level;

    const TABLE: &str = "           CPU0       CPU2\n \
        35:          0          1  PCI-MSIX-0000:00:02.0   0-edge      nvme0q0\n \
        36:      12000    1247686  PCI-MSIX-0000:00:02.0   1-edge      nvme0q1\n\
        NMI:          0          0   Non-maskable interrupts\nERR:          0\n";

    #[test]
    fn counts_belong_to_the_cpus_that_the_first_line_names() {
        let table = parse(TABLE);
        assert_eq!(table.keys().copied().collect::<Vec<_>>(), [35, 36]);
        assert_eq!(table[&36], Interrupt { counts: vec![(0, 12_000), (2, 1_247_686)], name: "nvme0q1".into() });
        assert!(is_administrative(&table[&35].name) && !is_administrative(&table[&36].name));
        assert!(is_administrative("virtio1-config") && !is_administrative("virtio1-req.0"));
        assert!(parse("").is_empty());
    }

    #[test]
    fn interrupts_on_one_cpu_are_told_with_who_should_spread_them() {
        let one = |cpu: u32, count: u64| Interrupt { counts: vec![(0, 0), (cpu, count)], name: "x".into() };
        let (first, second) = (one(3, 50_000), one(3, 10));
        let list = |text: &str| CpuList::parse(text).unwrap();
        let judged = |count: usize, cpus: &str, online: &str, balanced: bool| {
            let own = &[(36, &first), (37, &second)][..count];
            only(|sheet| judge(own, &list(cpus), &list(online), Some(balanced), sheet))
        };
        let off = judged(2, "3", "0-7", false);
        assert_eq!(
            (off.level, off.finding.as_str()),
            (Level::Warning, "its interrupts go to CPU 3 alone, of 8 CPUs, and irqbalance is off")
        );
        assert!(off.remedy.contains("enable --now irqbalance") && off.remedy.contains("/proc/irq/{36,37}/"), "{off:?}");
        assert_eq!(judged(1, "3", "0-7", false).level, Level::Warning);
        assert_eq!(judged(2, "3", "0-7", true).level, Level::Warning);
        assert_eq!(judged(1, "3", "0-7", true).level, Level::Note, "a single queue is somewhere");
        assert_eq!(judged(2, "3", "3", false).level, Level::Ok, "there is no other CPU");
        let counted = judged(2, "0-7", "0-7", false);
        assert!(counted.level == Level::Note && counted.finding.contains("CPU 3 took 100 %"), "{counted:?}");
    }

    #[test]
    fn interrupts_that_are_spread_are_as_they_should_be() {
        let own = Interrupt { counts: vec![(0, 60_000), (1, 50_000)], name: "nvme0q1".into() };
        let cpus = CpuList::parse("0-1").unwrap();
        let finding = only(|sheet| judge(&[(36, &own)], &cpus, &cpus, Some(false), sheet));
        assert_eq!(finding.level, Level::Ok, "{finding:?}");
    }
}
