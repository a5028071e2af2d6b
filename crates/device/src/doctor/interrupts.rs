//! Where a device's interrupts go, and whether anybody spreads them.
//!
//! [`crate::observe::interrupts`] knows the lines of a device and counts what came on each CPU; /proc/irq
//! tells to which CPUs they go. One CPU that takes all of a fast device's completions is full long before
//! the device is: the latency then rises with the load and looks like the device's. With a queue for each
//! CPU the kernel spreads NVMe interrupts itself, and irqbalance has nothing to do there; with few queues,
//! HBAs and virtual disks it is irqbalance that does it.

use super::cpu_list::CpuList;
use super::device_state::DeviceState;
use super::findings::Findings;
use crate::discover::Roots;
use crate::observe::interrupts::{ByCpu, lines_of};
use std::fs;
use std::path::Path;

const CHECK: &str = "interrupts";
const WHY: &str = "one CPU that takes all completions is full before the device is: latency rises with the load \
                   and looks like the device's";

/// Fewer interrupts than this say nothing about where they go.
const COUNTED_MIN: u64 = 10_000;

/// Share of all interrupts, percent, on one CPU that is as good as all.
const ONE_CPU_PCT: f64 = 95.0;

/// Whether the daemon that spreads interrupts runs.
pub(super) fn check_host(roots: &Roots, findings: &mut Findings) {
    match irqbalance_runs(roots) {
        Some(true) => findings.ok("irqbalance", "irqbalance is running"),
        Some(false) => findings.note(
            "irqbalance",
            "irqbalance is not running",
            "interrupts stay where they are; it matters where those of a device sit on one CPU (see `interrupts`)",
            "systemctl enable --now irqbalance",
        ),
        None => {
            findings.unknown("irqbalance", "the processes cannot be listed", "whether irqbalance runs is unknown", "")
        }
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
pub(super) fn check(device: &DeviceState, root: &Path, roots: &Roots, findings: &mut Findings) {
    let mut lines = device.disk_number().map_or_else(Vec::new, |number| lines_of(root, number));
    if lines.is_empty() {
        if device.is_hardware() {
            findings.unknown(CHECK, "its interrupts are not listed in sysfs", WHY, "cat /proc/interrupts");
        }
        return;
    }
    // Those of the administration and of changed configuration complete no reads or writes.
    lines.retain(|line| !is_administrative(&name_of(*line, roots)));
    let online = fs::read_to_string(roots.sys.join("devices/system/cpu/online")).ok();
    let online = online.as_deref().and_then(CpuList::parse).unwrap_or_default();
    let reached: Option<Vec<CpuList>> = lines.iter().map(|line| affinity(*line, roots)).collect();
    let (Some(reached), false) = (reached.filter(|lists| !lists.is_empty()), online.is_empty()) else {
        return findings.unknown(CHECK, "where its interrupts go is not told", WHY, "cat /proc/interrupts");
    };
    let mut cpus = CpuList::default();
    reached.iter().for_each(|list| cpus.add(list));
    let counted = ByCpu::read(root, &lines).unwrap_or_default();
    judge(&Ways { lines, cpus, online, counted, balanced: irqbalance_runs(roots) }, findings);
}

/// What is known of the interrupts of a device.
struct Ways {
    /// Their numbers.
    lines: Vec<u32>,
    /// CPUs that they go to.
    cpus: CpuList,
    /// CPUs that there are.
    online: CpuList,
    /// What came on each CPU so far.
    counted: ByCpu,
    /// Whether irqbalance runs.
    balanced: Option<bool>,
}

fn judge(ways: &Ways, findings: &mut Findings) {
    let Ways { lines, cpus, online, counted, balanced } = ways;
    let count = lines.len();
    if online.len() == 1 {
        return findings.ok(CHECK, "there is only one CPU for its interrupts");
    }
    if let (Some(cpu), 1) = (cpus.only(), count) {
        // A single vector is on one CPU at a time, whoever moves it, and however many it may go to.
        return findings.note(
            CHECK,
            format!("it has a single interrupt, which cannot be spread: CPU {cpu}, of {}, takes it", online.len()),
            WHY,
            format!("keep CPU {cpu} free of the test's threads and of other work (taskset)"),
        );
    }
    if let Some(cpu) = cpus.only() {
        let balance = match balanced {
            Some(true) => ", though irqbalance runs",
            Some(false) => ", and irqbalance is off",
            None => "",
        };
        let finding = format!("its interrupts go to CPU {cpu} alone, of {} CPUs{balance}", online.len());
        // Each its own, for the kernel may keep them on one CPU although all are allowed.
        let spread =
            format!("write another of the CPUs {online} to each of /proc/irq/{}/smp_affinity_list", braces(lines));
        return match balanced {
            Some(true) => findings.warning(CHECK, finding, WHY, spread),
            _ => findings.warning(CHECK, finding, WHY, format!("systemctl enable --now irqbalance, or {spread}")),
        };
    }
    let total = counted.total();
    if let Some(busiest) = counted.busiest().filter(|it| total >= COUNTED_MIN && it.share_pct >= ONE_CPU_PCT) {
        return findings.note(
            CHECK,
            format!(
                "CPU {} took {:.0} % of its {total} interrupts so far, though they go to CPUs {cpus}",
                busiest.cpu, busiest.share_pct
            ),
            WHY,
            "watch `irq.cpu_max_share_pct` in telemetry.csv of a run",
        );
    }
    findings.ok(CHECK, format!("{count} interrupts are spread over {} of {} CPUs ({cpus})", cpus.len(), online.len()));
}

fn braces(numbers: &[u32]) -> String {
    let texts: Vec<String> = numbers.iter().map(u32::to_string).collect();
    if let [one] = &texts[..] { one.clone() } else { format!("{{{}}}", texts.join(",")) }
}

/// What the driver calls an interrupt: `nvme0q1`, `virtio1-req.0`; empty if it is not told. Source:
/// `Documentation/ABI/testing/sysfs-kernel-irq` of the kernel.
fn name_of(line: u32, roots: &Roots) -> String {
    let text = fs::read_to_string(roots.sys.join(format!("kernel/irq/{line}/actions"))).unwrap_or_default();
    text.trim().to_owned()
}

/// NVMe's queue 0 takes commands of administration; virtio tells of a changed configuration by one of its own.
fn is_administrative(name: &str) -> bool {
    let is_admin_queue = name.starts_with("nvme") && name.ends_with("q0");
    is_admin_queue || name.ends_with("-config")
}

/// To which CPUs an interrupt goes: where it really does, or where it may. Source:
/// `Documentation/core-api/irq/irq-affinity.rst` of the kernel.
fn affinity(number: u32, roots: &Roots) -> Option<CpuList> {
    let dir = roots.proc.join("irq").join(number.to_string());
    let read = |name: &str| CpuList::parse(&fs::read_to_string(dir.join(name)).ok()?).filter(|cpus| !cpus.is_empty());
    read("effective_affinity_list").or_else(|| read("smp_affinity_list"))
}

#[cfg(test)]
mod tests {
    use super::super::tests::only;
    use super::*;
    use results::finding::{Finding, Level};

    fn judged(lines: &[u32], cpus: &str, online: &str, counts: &[u64], balanced: bool) -> Finding {
        let list = |text: &str| CpuList::parse(text).unwrap();
        let ways = Ways {
            lines: lines.to_vec(),
            cpus: list(cpus),
            online: list(online),
            counted: ByCpu { counts: counts.to_vec() },
            balanced: Some(balanced),
        };
        only(|findings| judge(&ways, findings))
    }

    #[test]
    fn interrupts_on_one_cpu_are_told_with_who_should_spread_them() {
        let off = judged(&[36, 37], "3", "0-7", &[], false);
        assert_eq!(off.level, Level::Warning);
        assert_eq!(off.finding, "its interrupts go to CPU 3 alone, of 8 CPUs, and irqbalance is off");
        assert!(off.remedy.contains("enable --now irqbalance") && off.remedy.contains("/proc/irq/{36,37}/"), "{off:?}");
        assert_eq!(judged(&[36, 37], "3", "0-7", &[], true).level, Level::Warning);
        assert_eq!(judged(&[36, 37], "3", "3", &[], false).level, Level::Ok, "there is no other CPU");
    }

    #[test]
    fn a_single_interrupt_is_somewhere_and_no_remedy_claims_to_spread_it() {
        for balanced in [false, true] {
            let told = judged(&[36], "3", "0-7", &[], balanced);
            assert_eq!(told.level, Level::Note);
            assert_eq!(told.finding, "it has a single interrupt, which cannot be spread: CPU 3, of 8, takes it");
            assert!(!told.remedy.contains("affinity") && !told.remedy.contains("irqbalance"), "{told:?}");
        }
    }

    #[test]
    fn interrupts_that_went_to_one_cpu_so_far_are_worth_a_note() {
        let told = judged(&[36, 37], "0-3", "0-3", &[0, 0, 10, 99_990], false);
        assert!(told.level == Level::Note && told.finding.starts_with("CPU 3 took 100 % of its 100000"), "{told:?}");
        assert_eq!(judged(&[36, 37], "0-3", "0-3", &[60_000, 50_000, 0, 0], false).level, Level::Ok);
        assert_eq!(judged(&[36, 37], "0-3", "0-3", &[0, 0, 0, 9_999], false).level, Level::Ok, "too few to tell");
    }

    #[test]
    fn interrupts_that_complete_nothing_do_not_count() {
        for (name, is) in [("nvme0q0", true), ("nvme0q10", false), ("virtio1-config", true), ("virtio1-req.0", false)] {
            assert_eq!(is_administrative(name), is, "{name}");
        }
    }
}
