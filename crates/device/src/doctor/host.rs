//! Checks the host for properties that affect any result: io_uring, locked memory, CPU frequency, clock, hypervisor,
//! and CPU time taken by other guests (steal) or other programs.
//!
//! CPU time is the difference of two readings of the first line of /proc/stat. The times are in ticks of 10 ms, so a
//! short interval shows only heavy steal. Therefore the steal since boot is checked, too.

use super::{Findings, own_status};
use crate::discover::SysDir;
use crate::observe::host::{HostFacts, MemlockLimit, Ticks};
use std::io;
use std::path::Path;
use sys::ring;

/// Required limit of locked memory: twice the memory of the buffers that a run may register with io_uring, because the
/// process locks other memory, too.
const MEMLOCK_WANTED_BYTES: u64 = 128 << 20;

/// Capability to lock memory without limit (`CAP_IPC_LOCK` of linux/capability.h).
const CAP_IPC_LOCK: u32 = 14;

/// Clocks that the vDSO reads without a system call. Any other clock costs a system call or a slow register access.
const FAST_CLOCKS: [&str; 7] = [
    "tsc",
    "kvm-clock",
    "hyperv_clocksource_tsc_page",
    "arch_sys_counter",
    "riscv_clocksource",
    "timebase",
    "tod",
];

const CLOCK_DIR: &str = "sys/devices/system/clocksource/clocksource0";

/// All checks of the host, except those that compare two readings.
pub(super) fn check(root: &Path, findings: &mut Findings) {
    let facts = HostFacts::read(root);
    let probe_result = (root == Path::new("/")).then(ring::probe);
    check_io_uring(facts.io_uring_disabled, probe_result, findings);
    check_memlock(
        facts.memlock_limit,
        has_capability(root, CAP_IPC_LOCK),
        findings,
    );
    check_governor(&facts, findings);
    check_clock(root, findings);
    let check = findings.check(
        "hypervisor",
        "other guests take CPU time, and timers of a guest cost more; CPU steal and flashproof's lag show the effect",
    );
    match &facts.hypervisor {
        Some(name) => check.note(
            format!("this is a virtual machine ({name})"),
            "compare results only with those of machines of the same kind",
        ),
        None => check.ok("no hypervisor was detected"),
    }
}

fn check_io_uring(
    disabled: Option<u32>,
    probe_result: Option<io::Result<()>>,
    findings: &mut Findings,
) {
    const ALLOW: &str = "sysctl -w kernel.io_uring_disabled=0";
    let check = findings.check(
        "io-uring",
        "without io_uring, operations go through Linux AIO or threads, which costs CPU and adds lag at high rates",
    );
    match (probe_result, disabled) {
        (Some(Ok(())), _) => check.ok("io_uring works"),
        (Some(Err(error)), Some(disabled @ 1..)) => {
            check.warning(format!("io_uring is forbidden: kernel.io_uring_disabled is {disabled} ({error})"), ALLOW)
        }
        (Some(Err(error)), _) => check.warning(
            format!("io_uring cannot be set up ({error})"),
            "in a container, allow it in the seccomp profile (io_uring_setup, io_uring_enter, io_uring_register); \
             io_uring needs Linux 5.11",
        ),
        (None, Some(0)) => check.ok("kernel.io_uring_disabled is 0"),
        (None, Some(disabled)) => check.warning(format!("kernel.io_uring_disabled is {disabled}"), ALLOW),
        (None, None) => check.unknown("the kernel does not report if io_uring is allowed", ""),
    }
}

fn check_memlock(limit: Option<MemlockLimit>, may_lock_all: Option<bool>, findings: &mut Findings) {
    let check = findings.check(
        "memlock",
        "buffers that cannot be locked are not registered with io_uring, and each operation pins its pages again",
    );
    match (limit, may_lock_all) {
        (Some(MemlockLimit::Unlimited), _) => check.ok("memory may be locked without limit"),
        (_, Some(true)) => check.ok("memory may be locked without limit (CAP_IPC_LOCK)"),
        (Some(MemlockLimit::Bytes(bytes)), _) if bytes >= MEMLOCK_WANTED_BYTES => {
            check.ok(format!("{} MiB may be locked", bytes >> 20));
        }
        (Some(MemlockLimit::Bytes(bytes)), _) => check.warning(
            format!(
                "only {} KiB may be locked, but {} MiB are needed",
                bytes >> 10,
                MEMLOCK_WANTED_BYTES >> 20
            ),
            "ulimit -l unlimited (LimitMEMLOCK=infinity in a systemd unit), or run as root",
        ),
        (None, _) => check.unknown(
            "the limit of locked memory cannot be read",
            "ulimit -l shows the limit",
        ),
    }
}

fn check_governor(facts: &HostFacts, findings: &mut Findings) {
    let check = findings.check(
        "cpu-governor",
        "a CPU that clocks down between operations delays the next operation and its completion by tens of \
         microseconds, which look like device latency",
    );
    match (facts.cpu_governor.as_deref(), &facts.hypervisor) {
        (Some("performance"), _) => check.ok("all CPUs use the governor performance"),
        (Some(others), _) => {
            check.warning(
                format!("CPUs use the governor {others}"),
                "cpupower frequency-set -g performance",
            );
        }
        (None, Some(_)) => check.note(
            "the hypervisor controls the CPU frequency and does not show it",
            "ask the hypervisor's owner for the power profile of the host",
        ),
        (None, None) => check.unknown(
            "the kernel shows no frequency governor",
            "check the power profile in the firmware settings: it should be performance",
        ),
    }
}

fn check_clock(root: &Path, findings: &mut Findings) {
    let check = findings.check(
        "clock-source",
        "flashproof reads the time several times per operation; this clock costs a microsecond or more each time",
    );
    let dir = SysDir::new(root.join(CLOCK_DIR));
    let Some(clock) = dir.text("current_clocksource") else {
        return check.unknown(
            "the clock source cannot be read",
            format!("cat /{CLOCK_DIR}/current_clocksource"),
        );
    };
    if FAST_CLOCKS.contains(&clock.as_str()) {
        return check.ok(format!("the clock is {clock}"));
    }
    let has_tsc = dir
        .text("available_clocksource")
        .is_some_and(|all| all.split_whitespace().any(|one| one == "tsc"));
    let remedy = if has_tsc {
        format!("echo tsc > /{CLOCK_DIR}/current_clocksource")
    } else {
        "dmesg | grep -i -e clocksource -e tsc says why the kernel gave up tsc".to_owned()
    };
    check.warning(format!("the clock is {clock}"), remedy);
}

/// True if this process has the capability numbered `bit`. Source: proc_pid_status(5), `CapEff`.
fn has_capability(root: &Path, bit: u32) -> Option<bool> {
    let mask = own_status("CapEff", root)?;
    Some(u64::from_str_radix(&mask, 16).ok()? >> bit & 1 == 1)
}

/// Steal of this percentage of CPU time or more may distort a result: a thread without a CPU for 10 ms issues all
/// operations of that time late.
const STEAL_PCT: f64 = 1.0;

/// Other programs that use this percentage of CPU time or more may disturb the run.
const BUSY_PCT: f64 = 50.0;

pub(super) fn check_time(before: Option<Ticks>, after: Option<Ticks>, findings: &mut Findings) {
    let Some(total_ticks) = after else {
        let why = "CPU time taken by another guest or program would look like lag";
        for name in ["cpu-steal", "cpu-busy"] {
            findings
                .check(name, why)
                .unknown("/proc/stat has no CPU times", "");
        }
        return;
    };
    // The sum excludes offline CPUs, so it can fall when a CPU goes offline.
    let recent_shares = before
        .filter(|before| before.idle <= total_ticks.idle)
        .and_then(|before| total_ticks.since(before));
    check_steal(recent_shares, total_ticks, findings);
    check_busy(recent_shares, findings);
}

fn check_steal(recent_shares: Option<[f64; 3]>, total_ticks: Ticks, findings: &mut Findings) {
    let steal_pct = |shares: Option<[f64; 3]>| shares.map_or(0.0, |[.., steal]| steal);
    let now_pct = steal_pct(recent_shares);
    let ever_pct = steal_pct(total_ticks.since(Ticks::default()));
    let text = match recent_shares {
        Some(_) => format!("{now_pct:.1} % of CPU time is stolen now, {ever_pct:.1} % since boot"),
        None => format!("{ever_pct:.1} % of CPU time was stolen since boot"),
    };
    let check = findings.check(
        "cpu-steal",
        "other guests of the physical machine take the CPUs: flashproof issues operations and sees completions late",
    );
    if now_pct.max(ever_pct) < STEAL_PCT {
        return check.ok(text);
    }
    check.warning(
        text,
        "pin this guest's CPUs, or move the guest to a host or an instance type that is not shared",
    );
}

fn check_busy(recent_shares: Option<[f64; 3]>, findings: &mut Findings) {
    let check = findings.check(
        "cpu-busy",
        "threads that wait for a CPU issue operations late, which can make a run invalid",
    );
    match recent_shares.map(|[busy, ..]| busy) {
        None => check.unknown("no CPU time passed between the two readings", ""),
        Some(pct) if pct < BUSY_PCT => check.ok(format!("{pct:.0} % of CPU time is in use")),
        Some(pct) => check.warning(
            format!("{pct:.0} % of CPU time was in use before the test began"),
            "stop other programs (`top` shows them), or keep CPUs free for the test (taskset, isolcpus)",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{all, only};
    use super::*;
    use Severity::*;
    use results::finding::Severity;

    #[test]
    fn io_uring_is_judged_by_setting_up_a_ring_or_else_by_the_sysctl() {
        let denied = || Some(Err(io::Error::from_raw_os_error(libc::EPERM)));
        for (disabled, attempt, level, says) in [
            (Some(1), Some(Result::Ok(())), Ok, "works"),
            (Some(2), denied(), Warning, "kernel.io_uring_disabled is 2"),
            (None, denied(), Warning, "cannot be set up"),
            (Some(0), denied(), Warning, "cannot be set up"),
            (Some(0), None, Ok, "is 0"),
            (Some(2), None, Warning, "is 2"),
            (None, None, Unknown, "does not report"),
        ] {
            let finding = only(|findings| check_io_uring(disabled, attempt, findings));
            assert!(
                finding.level == level && finding.finding.contains(says),
                "{finding:?}"
            );
        }
    }

    #[test]
    fn too_little_locked_memory_is_reported_only_where_the_limit_applies() {
        let bytes = |bytes| Some(MemlockLimit::Bytes(bytes));
        for (limit, may_lock_all, level) in [
            (Some(MemlockLimit::Unlimited), None, Ok),
            (bytes(8 << 20), Some(true), Ok),
            (bytes(128 << 20), Some(false), Ok),
            (bytes((128 << 20) - 1), Some(false), Warning),
            (bytes(64 << 10), None, Warning),
            (None, Some(false), Unknown),
        ] {
            assert_eq!(
                only(|findings| check_memlock(limit, may_lock_all, findings)).level,
                level,
                "{limit:?}"
            );
        }
    }

    #[test]
    fn one_cpu_that_saves_power_is_enough_for_a_warning() {
        let governor = |governor: Option<&str>, hypervisor: Option<&str>| {
            let own = |text: &str| text.to_owned();
            let facts = HostFacts {
                cpu_governor: governor.map(own),
                hypervisor: hypervisor.map(own),
                ..HostFacts::default()
            };
            only(|findings| check_governor(&facts, findings)).level
        };
        assert_eq!(governor(Some("performance"), None), Ok);
        assert_eq!(governor(Some("performance,powersave"), None), Warning);
        assert_eq!(governor(None, Some("KVM")), Note);
        assert_eq!(governor(None, None), Unknown);
    }

    fn times(idle: u64, steal: u64, all: u64) -> Option<Ticks> {
        Some(Ticks {
            busy: all - idle - steal,
            idle,
            iowait: 0,
            steal,
        })
    }

    #[test]
    fn fields_of_proc_stat_follow_the_documentation_of_the_kernel() {
        let machine = crate::fake_tree::FakeTree::with_files(&[]);
        let read = |stat: &str| {
            machine.write("proc/stat", stat);
            Ticks::read(machine.root())
        };
        let stat = "cpu  100 10 50 700 40 5 5 90 7 0\ncpu0 1 2 3 4 5 6 7 8 9 10\n";
        assert_eq!(
            read(stat),
            Some(Ticks {
                busy: 170,
                idle: 700,
                iowait: 40,
                steal: 90
            })
        );
        assert_eq!(read("cpu  1 2 3\n"), None);
        assert_eq!(read(""), None);
    }

    #[test]
    fn steal_is_judged_now_and_since_boot_and_cpu_use_over_the_interval() {
        let levels = |before, after| -> Vec<_> {
            all(|findings| check_time(before, after, findings))
                .into_iter()
                .map(|finding| finding.level)
                .collect()
        };
        assert_eq!(levels(times(900, 0, 1000), times(990, 0, 1100)), [Ok, Ok]);
        let found = levels(times(0, 0, 100_000), times(98, 2, 100_100));
        assert_eq!(found, [Warning, Ok], "stolen now");
        let found = levels(times(900, 20, 1000), times(1000, 20, 1100));
        assert_eq!(found, [Warning, Ok], "stolen before");
        let found = levels(times(900, 0, 1000), times(930, 0, 1100));
        assert_eq!(found, [Ok, Warning], "in use");
        let found = levels(times(900, 0, 1000), times(900, 0, 1000));
        assert_eq!(found, [Ok, Unknown], "no time passed");
        assert_eq!(levels(None, None), [Unknown, Unknown]);
    }
}
