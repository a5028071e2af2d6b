//! Checks the path between the CPUs and the drive: controllers, the PCIe link, the NUMA node, interrupts.
//!
//! If one CPU takes all completions of a fast device, the CPU saturates before the device: latency then rises with the
//! load, as if the device were slow. The kernel spreads the interrupts of an NVMe drive with a queue for each CPU. For
//! HBAs, virtual disks and drives with few queues, irqbalance has to spread the interrupts.

use super::{DeviceState, Findings, HostCheck, own_status};
use crate::discover::SysDir;
use crate::observe::host::CpuList;
use crate::observe::interrupts::{InterruptsByCpu, lines_of};
use std::path::Path;
use std::{fmt, fs};

/// Speed and width of a PCIe link. Source: `Documentation/ABI/testing/sysfs-bus-pci` of the kernel.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Link {
    /// GT/s: billions of transfers per second on each lane.
    gtps: f64,
    lanes: u32,
}

impl Link {
    /// `{prefix}_link_speed` (`16.0 GT/s PCIe`), `{prefix}_link_width`. `None` if the kernel has `Unknown`, or 0 lanes.
    fn read(dir: &SysDir, prefix: &str) -> Option<Self> {
        let speed = dir.text(&format!("{prefix}_link_speed"))?;
        let gtps = speed.split_ascii_whitespace().next()?.parse().ok()?;
        let lanes = dir.number(&format!("{prefix}_link_width"))?;
        (gtps > 0.0 && lanes > 0).then_some(Self { gtps, lanes })
    }

    /// GB/s after encoding: 8b/10b up to 5 GT/s, 128b/130b from 8 GT/s on, and 236 of the 256 bytes of a flit at 64
    /// GT/s. Source: PCI Express base specification 6.0.
    fn gbytes_per_sec(self) -> f64 {
        let share = match self.gtps {
            gtps if gtps < 8.0 => 8.0 / 10.0,
            gtps if gtps < 64.0 => 128.0 / 130.0,
            _ => 236.0 / 256.0,
        };
        self.gtps * f64::from(self.lanes) * share / 8.0
    }

    fn is_below(self, other: Self) -> bool {
        self.gtps < other.gtps || self.lanes < other.lanes
    }
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} GT/s x{} ({:.1} GB/s)",
            self.gtps,
            self.lanes,
            self.gbytes_per_sec()
        )
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Attachment {
    /// Label of the PCI slot; the PCI address if the platform has no labels.
    pub slot: Option<String>,
    /// Current PCIe link: `16 GT/s x4`.
    pub link: Option<String>,
}

impl Attachment {
    pub fn read(name: &str, root: &Path) -> Self {
        let Ok(device) = DeviceState::find(name, root) else {
            return Self::default();
        };
        let Some(dir) = device.linked() else {
            return Self::default();
        };
        let link =
            Link::read(&dir, "current").map(|link| format!("{} GT/s x{}", link.gtps, link.lanes));
        Self {
            slot: Some(slot_label(&dir.name(), root).unwrap_or_else(|| dir.name())),
            link,
        }
    }
}

/// Label of the slot of the PCI device `address` (`0000:3b:00.0`). The address of a slot lacks the function number.
/// Source: `Documentation/ABI/testing/sysfs-bus-pci` of the kernel.
fn slot_label(address: &str, root: &Path) -> Option<String> {
    SysDir::new(root.join("sys/bus/pci"))
        .below("slots")
        .find(|slot: &SysDir| {
            slot.text("address")
                .is_some_and(|of| address.split('.').next() == Some(&of))
        })
        .map(|slot| slot.name())
}

/// Compares the link with the capabilities of the drive, and of the port above it.
pub(super) fn check_link(device: &DeviceState, findings: &mut Findings) {
    let check = findings.check(
        "pcie-link",
        "a slow link limits the bandwidth, and large-block reads and writes wait for the link",
    );
    let Some(dir) = device.linked() else {
        if device.facts.transport.as_deref() == Some("nvme-pcie") {
            check.unknown(
                "the kernel does not report the speed of its link",
                "lspci -vv, lines LnkCap and LnkSta",
            );
        }
        return;
    };
    let name = dir.name();
    let (Some(current_link), Some(max_link)) =
        (Link::read(&dir, "current"), Link::read(&dir, "max"))
    else {
        return check.unknown(
            format!("the speed of its link {name} is unknown"),
            format!("lspci -vv -s {name}"),
        );
    };
    if !current_link.is_below(max_link) {
        return check.ok(format!(
            "its link {name} runs at full speed: {current_link}"
        ));
    }
    let port = dir.parent();
    let port_max = port.as_ref().and_then(|port| Link::read(port, "max"));
    let finding = format!("its link {name} runs at {current_link}; the drive supports {max_link}");
    match (port, port_max) {
        (Some(port), Some(port_can)) if !current_link.is_below(port_can) => check.warning(
            format!("{finding}, but the port above it, {}, supports only {port_can}", port.name()),
            "move the drive to a faster slot, or look for a limit in the firmware settings (bifurcation, \
             generation)",
        ),
        (Some(port), Some(port_can)) => check.warning(
            format!("{finding}, and the port above it, {}, supports {port_can}", port.name()),
            format!("reseat the drive, riser or cable; check LnkSta of lspci -vv -s {name}, and dmesg | grep -i -e aer -e pcie"),
        ),
        _ => check.warning(finding, format!("lspci -vv -s {name}; reseat the drive, or use a faster slot")),
    }
}

/// Drivers of RAID controllers, which have their own caches and arrays.
const RAID: [&str; 9] = [
    "megaraid_sas",
    "megaraid",
    "aacraid",
    "hpsa",
    "smartpqi",
    "arcmsr",
    "3w-sas",
    "3w-9xxx",
    "ips",
];

/// Drivers of host bus adapters, which translate commands and pass them on.
const ADAPTERS: [&str; 9] = [
    "mpt3sas", "mpt2sas", "mpi3mr", "pm80xx", "mvsas", "isci", "esas2r", "qla2xxx", "lpfc",
];

pub(super) fn check_controller(device: &DeviceState, findings: &mut Findings) {
    if device.disk.is_none() {
        return;
    }
    let check = findings.check("controller", "");
    let drivers = device.drivers();
    if let Some(driver) = find_driver(&drivers, &RAID) {
        let why = "the controller's cache and firmware answer instead of the drive, all drives share one \
                   queue, and SMART is hidden";
        return check.because(why).warning(
            format!("a RAID controller ({driver}) is between the host and the drive"),
            "attach the drive directly, or use JBOD or HBA mode, with the controller's cache off",
        );
    }
    if let Some(driver) = find_driver(&drivers, &ADAPTERS) {
        return check.because("the adapter adds tens of microseconds, and its drives share one queue").note(
            format!("a host bus adapter ({driver}) is between the host and the drive"),
            "also test all of its drives at once: the adapter may saturate before the drives do",
        );
    }
    if drivers.iter().any(|driver| driver == "vmd") {
        return check
            .because(
                "drives behind VMD share a few interrupts, so a few CPUs may take all completions",
            )
            .note(
                "Intel VMD (vmd) is between the host and the drive",
                "turn VMD off in the firmware settings, unless you need its RAID",
            );
    }
    match device.facts.transport.as_deref() {
        Some("usb") => check
            .because("the bridge translates commands, often one at a time, and other devices share its bus")
            .warning("a USB bridge is between the host and the drive", "attach the drive to a SATA or PCIe port"),
        _ if drivers.is_empty() => check.ok("no controller is between the host and the drive"),
        _ => check.ok(format!(
            "no RAID controller or bus adapter is between the host and the drive (drivers: {})",
            drivers.join(", ")
        )),
    }
}

fn find_driver<'a>(drivers: &'a [String], known: &[&str]) -> Option<&'a String> {
    drivers
        .iter()
        .find(|driver| known.contains(&driver.as_str()))
}

pub(super) fn check_node(device: &DeviceState, root: &Path, findings: &mut Findings) {
    let check = findings.check(
        "numa-node",
        "if the test runs on another node, every operation crosses the link between sockets to reach the drive",
    );
    let nodes =
        CpuList::read(&root.join("sys/devices/system/node/online")).map_or(1, |nodes| nodes.len());
    if nodes <= 1 {
        return check.ok("the host has one NUMA node");
    }
    let Some(node) = device.facts.numa_node else {
        let finding =
            format!("the kernel does not report its NUMA node (the host has {nodes} nodes)");
        return if device.is_hardware() {
            check.unknown(finding, "look up its slot in the mainboard's manual")
        } else {
            check.ok("it is attached to no NUMA node")
        };
    };
    let node_cpus =
        CpuList::read(&root.join(format!("sys/devices/system/node/node{node}/cpulist")));
    let allowed_cpus = own_status("Cpus_allowed_list", root).and_then(|list| CpuList::parse(&list));
    let (Some(node_cpus), Some(allowed_cpus)) = (node_cpus, allowed_cpus) else {
        let finding = format!(
            "it is on NUMA node {node}; the CPUs of this node, or of this process, cannot be read"
        );
        return check.unknown(finding, "numactl --hardware");
    };
    let bind = format!("numactl --cpunodebind={node} --membind={node} flashproof ...");
    let is_on = format!("it is on NUMA node {node}");
    let common_cpus = node_cpus.common(&allowed_cpus);
    if common_cpus.is_empty() {
        check.warning(
            format!("{is_on} (CPUs {node_cpus}), but the test may only run on CPUs {allowed_cpus}"),
            bind,
        );
    } else if common_cpus == allowed_cpus {
        check.ok(format!(
            "{is_on}, and so are all CPUs that the test may run on ({allowed_cpus})"
        ));
    } else {
        check.note(
            format!("{is_on} (CPUs {node_cpus}), and the test may run on CPUs {allowed_cpus}"),
            bind,
        );
    }
}

/// Minimum number of interrupts since boot for a judgement on the CPUs that took them.
const COUNTED_MIN: u64 = 10_000;

/// A CPU that takes this percentage of the interrupts, or more, counts as taking all.
const ONE_CPU_PCT: f64 = 95.0;

/// Checks that irqbalance, the daemon that spreads interrupts, runs.
pub(super) fn check_balancer(root: &Path, findings: &mut Findings) {
    let check = findings.check(
        "irqbalance",
        "without irqbalance, interrupts stay on their CPUs; this matters if one CPU takes all interrupts of a device",
    );
    match irqbalance_runs(root) {
        Some(true) => check.ok("irqbalance is running"),
        Some(false) => check.note(
            "irqbalance is not running",
            "systemctl enable --now irqbalance",
        ),
        None => check
            .because("irqbalance may be running or not")
            .unknown("the processes cannot be listed", ""),
    }
}

fn irqbalance_runs(root: &Path) -> Option<bool> {
    let processes = fs::read_dir(root.join("proc")).ok()?;
    let is_it = |comm: String| comm.trim() == "irqbalance";
    let is_process = |name: &str| name.bytes().all(|byte| byte.is_ascii_digit());
    let mut named = processes
        .flatten()
        .filter(|entry| entry.file_name().to_str().is_some_and(is_process));
    Some(named.any(|entry| fs::read_to_string(entry.path().join("comm")).is_ok_and(is_it)))
}

pub(super) fn check_interrupts(device: &DeviceState, root: &Path, findings: &mut Findings) {
    let check = findings.check(
        "interrupts",
        "one CPU that takes all completions saturates before the device does: latency rises with the load, as if the \
         device were slow",
    );
    let mut lines = device
        .facts
        .disk_number()
        .map_or_else(Vec::new, |number| lines_of(root, number));
    if lines.is_empty() {
        if device.is_hardware() {
            check.unknown(
                "its interrupts are not listed in sysfs",
                "cat /proc/interrupts",
            );
        }
        return;
    }
    let irqs = SysDir::new(root.join("sys/kernel/irq"));
    // `actions`: `nvme0q1`, `virtio1-req.0`. Source: `Documentation/ABI/testing/sysfs-kernel-irq` of the kernel.
    lines.retain(|line| {
        !irqs
            .text(&format!("{line}/actions"))
            .is_some_and(|name| is_administrative(&name))
    });
    let online = CpuList::read(&root.join("sys/devices/system/cpu/online")).unwrap_or_default();
    let cpu_lists: Option<Vec<CpuList>> = lines.iter().map(|line| affinity(*line, root)).collect();
    let (Some(cpu_lists), false) = (
        cpu_lists.filter(|lists| !lists.is_empty()),
        online.is_empty(),
    ) else {
        return check.unknown(
            "the CPUs that take its interrupts are unknown",
            "cat /proc/interrupts",
        );
    };
    let mut cpus = CpuList::default();
    cpu_lists.iter().for_each(|list| cpus.add(list));
    let by_cpu = InterruptsByCpu::read(root, &lines).unwrap_or_default();
    judge_interrupts(
        &lines,
        &cpus,
        &online,
        &by_cpu,
        irqbalance_runs(root),
        check,
    );
}

/// `cpus`: routes of the lines; `by_cpu`: interrupts since boot; `has_irqbalance`: irqbalance runs, `None` if unknown.
fn judge_interrupts(
    lines: &[u32],
    cpus: &CpuList,
    online: &CpuList,
    by_cpu: &InterruptsByCpu,
    has_irqbalance: Option<bool>,
    check: HostCheck<'_>,
) {
    let count = lines.len();
    if online.len() == 1 {
        return check.ok("the host has only one CPU, which takes its interrupts");
    }
    if let (Some(cpu), 1) = (cpus.only(), count) {
        return check.note(
            format!(
                "it has a single interrupt, which cannot be spread: CPU {cpu} of {} CPUs takes it",
                online.len()
            ),
            format!("keep CPU {cpu} free of the test's threads and of other work (taskset)"),
        );
    }
    if let Some(cpu) = cpus.only() {
        let (balance_text, start_advice) = match has_irqbalance {
            Some(true) => (", although irqbalance runs", ""),
            Some(false) => (
                ", and irqbalance is off",
                "systemctl enable --now irqbalance, or ",
            ),
            None => ("", "systemctl enable --now irqbalance, or "),
        };
        return check.warning(
            format!("all its interrupts go to CPU {cpu}, one of {} CPUs{balance_text}", online.len()),
            format!(
                "{start_advice}write a different CPU of {online} to each of /proc/irq/{}/smp_affinity_list",
                braces(lines)
            ),
        );
    }
    let total = by_cpu.total();
    let busiest = by_cpu
        .busiest()
        .filter(|(_, share_pct)| total >= COUNTED_MIN && *share_pct >= ONE_CPU_PCT);
    if let Some((cpu, share_pct)) = busiest {
        return check.note(
            format!("CPU {cpu} took {share_pct:.0} % of {total} interrupts, although they are routed to CPUs {cpus}"),
            "watch `irq.cpu_max_share_pct` in telemetry.csv of a run",
        );
    }
    check.ok(format!(
        "{count} interrupts are spread over {} of {} CPUs ({cpus})",
        cpus.len(),
        online.len()
    ));
}

fn braces(numbers: &[u32]) -> String {
    let texts: Vec<String> = numbers.iter().map(u32::to_string).collect();
    if let [one] = &texts[..] {
        one.clone()
    } else {
        format!("{{{}}}", texts.join(","))
    }
}

/// True for interrupts that complete no I/O: NVMe's queue 0 (administration), and virtio's configuration changes.
fn is_administrative(name: &str) -> bool {
    let is_admin_queue = name.starts_with("nvme") && name.ends_with("q0");
    is_admin_queue || name.ends_with("-config")
}

/// CPUs to which an interrupt is routed: the effective CPUs, or the allowed CPUs if the effective CPUs are unknown.
/// Source: `Documentation/core-api/irq/irq-affinity.rst` of the kernel.
fn affinity(irq: u32, root: &Path) -> Option<CpuList> {
    let dir = root.join("proc/irq").join(irq.to_string());
    let read = |name: &str| CpuList::read(&dir.join(name)).filter(|cpus| !cpus.is_empty());
    read("effective_affinity_list").or_else(|| read("smp_affinity_list"))
}

#[cfg(test)]
mod tests {
    use super::super::tests::only;
    use super::*;
    use results::assert_contains;
    use results::finding::{Finding, Severity};

    #[test]
    fn pcie_bandwidth_is_the_line_rate_minus_the_encoding_overhead() {
        for (gtps, lanes, gbytes) in [
            (2.5, 1, 0.25),
            (8.0, 4, 3.938),
            (16.0, 4, 7.877),
            (32.0, 4, 15.754),
            (64.0, 4, 29.5),
        ] {
            let rate = Link { gtps, lanes }.gbytes_per_sec();
            assert!((rate - gbytes).abs() < 0.001, "{gtps} x{lanes}: {rate}");
        }
    }

    fn judged(lines: &[u32], cpus: &str, online: &str, counts: &[u64], balanced: bool) -> Finding {
        let list = |text: &str| CpuList::parse(text).unwrap();
        let counted = InterruptsByCpu {
            counts: counts.to_vec(),
        };
        let cpus = list(cpus);
        let online = list(online);
        only(|findings| {
            judge_interrupts(
                lines,
                &cpus,
                &online,
                &counted,
                Some(balanced),
                findings.check("interrupts", ""),
            )
        })
    }

    #[test]
    fn interrupts_on_one_cpu_are_reported_with_the_program_that_should_spread_them() {
        let off = judged(&[36, 37], "3", "0-7", &[], false);
        assert_eq!(off.level, Severity::Warning);
        assert_eq!(
            off.finding,
            "all its interrupts go to CPU 3, one of 8 CPUs, and irqbalance is off"
        );
        assert_contains!(off.remedy, "enable --now irqbalance", "/proc/irq/{36,37}/");
        assert_eq!(
            judged(&[36, 37], "3", "0-7", &[], true).level,
            Severity::Warning
        );
        assert_eq!(
            judged(&[36, 37], "3", "3", &[], false).level,
            Severity::Ok,
            "there is no other CPU"
        );
    }

    #[test]
    fn a_single_interrupt_cannot_be_spread_and_has_no_remedy() {
        for balanced in [false, true] {
            let told = judged(&[36], "3", "0-7", &[], balanced);
            assert_eq!(told.level, Severity::Note);
            assert_eq!(
                told.finding,
                "it has a single interrupt, which cannot be spread: CPU 3 of 8 CPUs takes it"
            );
            assert!(
                !told.remedy.contains("affinity") && !told.remedy.contains("irqbalance"),
                "{told:?}"
            );
        }
    }

    #[test]
    fn a_note_is_given_if_one_cpu_took_all_interrupts_that_are_routed_to_several() {
        let told = judged(&[36, 37], "0-3", "0-3", &[0, 0, 10, 99_990], false);
        assert!(
            told.level == Severity::Note && told.finding.starts_with("CPU 3 took 100 % of 100000"),
            "{told:?}"
        );
        assert_eq!(
            judged(&[36, 37], "0-3", "0-3", &[60_000, 50_000, 0, 0], false).level,
            Severity::Ok
        );
        assert_eq!(
            judged(&[36, 37], "0-3", "0-3", &[0, 0, 0, 9_999], false).level,
            Severity::Ok,
            "too few to tell"
        );
    }

    #[test]
    fn interrupts_that_complete_no_io_are_recognised_by_their_names() {
        for (name, is) in [
            ("nvme0q0", true),
            ("nvme0q10", false),
            ("virtio1-config", true),
            ("virtio1-req.0", false),
        ] {
            assert_eq!(is_administrative(name), is, "{name}");
        }
    }
}
