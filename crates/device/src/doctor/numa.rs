//! Whether the CPUs that a test may run on are near the device.

use super::cpu_list::CpuList;
use super::device_state::DeviceState;
use super::findings::Findings;
use crate::discover::Roots;
use std::fs;

const CHECK: &str = "numa-node";
const WHY: &str =
    "from another node every operation crosses the link between sockets, and its buffer lies in far memory";

/// Compares the node of the device with the CPUs that this process may use.
pub(super) fn check(device: &DeviceState, roots: &Roots, findings: &mut Findings) {
    let nodes = read(&roots.sys.join("devices/system/node/online")).map_or(1, |nodes| nodes.len());
    if nodes <= 1 {
        return findings.ok(CHECK, "the host has one NUMA node");
    }
    let Some(node) = device.facts.numa_node else {
        let finding = format!("on which of {nodes} NUMA nodes it is attached is not told");
        return match device.is_hardware() {
            true => findings.unknown(CHECK, finding, WHY, "look for the slot in the board's manual"),
            false => findings.ok(CHECK, "it is attached to no NUMA node"),
        };
    };
    let near = read(&roots.sys.join(format!("devices/system/node/node{node}/cpulist")));
    let (Some(near), Some(allowed)) = (near, allowed(roots)) else {
        let finding = format!("it is on NUMA node {node}; which CPUs are near cannot be read");
        return findings.unknown(CHECK, finding, WHY, "numactl --hardware");
    };
    let bind = format!("numactl --cpunodebind={node} --membind={node} flashproof ...");
    let both = near.common(&allowed);
    if both.is_empty() {
        let finding = format!("it is on NUMA node {node} (CPUs {near}), and the test may only run on CPUs {allowed}");
        findings.warning(CHECK, finding, WHY, bind);
    } else if both == allowed {
        findings
            .ok(CHECK, format!("it is on NUMA node {node}, and so are all CPUs that the test may run on ({allowed})"));
    } else {
        let finding = format!("it is on NUMA node {node} (CPUs {near}), and the test may run on CPUs {allowed}");
        findings.note(CHECK, finding, WHY, bind);
    }
}

fn read(path: &std::path::Path) -> Option<CpuList> {
    CpuList::parse(&fs::read_to_string(path).ok()?)
}

/// CPUs that this process may run on. Source: proc_pid_status(5).
fn allowed(roots: &Roots) -> Option<CpuList> {
    let status = fs::read_to_string(roots.proc.join("self/status")).ok()?;
    CpuList::parse(status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?)
}
