//! Settings and properties of thread and process, resource usage (CPU, memory, page faults), the block layer's clock.

use crate::op::Priority;
use crate::succeed;
use rustix::io::Errno;
use rustix::process::{
    Resource, Rlimit, Signal, getrlimit, set_parent_process_death_signal, setpriority_process,
    setrlimit,
};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity, set_current_timer_slack};
use std::fs::File;
use std::io;
use std::num::NonZero;
use std::os::unix::fs::FileExt;
use std::os::unix::process::{CommandExt, parent_id};
use std::process::Command;

/// Sets this thread's timer slack to 1 ns, the minimum (prctl(2), `PR_SET_TIMERSLACK`; 0 would restore the default).
/// Without this call the kernel may wake the thread up to 50 us after its timer expires.
pub fn sharpen_timers() {
    let _ = set_current_timer_slack(Some(NonZero::<u64>::MIN));
}

/// Restricts the calling thread, and threads that it starts later, to `cpus`; no effect if the list is empty. Source:
/// sched_setaffinity(2), which silently omits disallowed CPUs as long as one remains. Errors: at least one of `cpus` is
/// not allowed for this thread.
pub fn run_on(cpus: &[u32]) -> io::Result<()> {
    if cpus.is_empty() {
        return Ok(());
    }
    let mut cpu_set = CpuSet::new();
    for cpu in cpus {
        cpu_set.set(
            Some(*cpu as usize)
                .filter(|at| *at < CpuSet::MAX_CPU)
                .ok_or_else(|| no_cpu(*cpu))?,
        );
    }
    let set = sched_setaffinity(None, &cpu_set);
    set.map_err(|error| {
        if error == Errno::INVAL {
            no_cpu(cpus[0])
        } else {
            error.into()
        }
    })?;
    let allowed = allowed_cpus()?;
    let missing = cpus.iter().find(|cpu| !allowed.contains(cpu));
    missing.map_or(Ok(()), |cpu| Err(no_cpu(*cpu)))
}

fn no_cpu(cpu: u32) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidInput,
        format!("there is no CPU {cpu} to run on"),
    )
}

/// CPUs on which the calling thread may run (sched_getaffinity(2)). Errors: `EINVAL` if the kernel supports more than
/// 1,024 CPUs.
pub fn allowed_cpus() -> io::Result<Vec<u32>> {
    let cpu_set = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU as u32)
        .filter(|cpu| cpu_set.is_set(*cpu as usize))
        .collect())
}

/// Raises the soft limit of open files to the hard limit. Returns the new limit.
pub fn raise_open_files() -> io::Result<u64> {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(
        Resource::Nofile,
        Rlimit {
            current: maximum,
            maximum,
        },
    )?;
    Ok(maximum.unwrap_or(u64::MAX))
}

/// Makes the kernel kill the program of `command` when the thread that starts the program ends, for any reason
/// (prctl(2), `PR_SET_PDEATHSIG`). The setting survives execve(2).
pub fn kill_with_parent(command: &mut Command) {
    let parent = std::process::id();
    // SAFETY: between fork and exec the closure makes two system calls, which neither allocate nor lock.
    unsafe {
        command.pre_exec(move || {
            set_parent_process_death_signal(Some(Signal::KILL))?;
            // If the parent ended before the prctl, the kernel sends no signal.
            if parent_id() == parent {
                Ok(())
            } else {
                Err(io::ErrorKind::BrokenPipe.into())
            }
        })
    };
}

/// Gives the calling thread the lowest priority, nice 19 (setpriority(2); per thread on Linux). Always allowed.
pub fn lower_priority() {
    let _ = setpriority_process(None, 19);
}

/// Gives the calling thread's I/O a priority (ioprio_set(2)). Errors: `EPERM` for real-time without `CAP_SYS_NICE`,
/// `EINVAL` for a level without a class.
pub fn set_io_priority(priority: Priority) -> io::Result<()> {
    const WHO_PROCESS: libc::c_int = 1;
    // SAFETY: no pointers; 0 is the calling thread.
    succeed(unsafe {
        libc::syscall(
            libc::SYS_ioprio_set,
            WHO_PROCESS,
            0,
            libc::c_int::from(priority.value()),
        )
    })
    .map(drop)
}

/// CPU time (user + system) that this thread has used, nanoseconds.
pub fn thread_cpu_ns() -> io::Result<u64> {
    clock_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// CPU clock of a thread. Any thread of this process may read it.
#[derive(Debug)]
pub struct ThreadClock(libc::clockid_t);

impl ThreadClock {
    /// The clock of the calling thread.
    pub fn of_this_thread() -> Self {
        let mut clock = libc::CLOCK_THREAD_CPUTIME_ID;
        // SAFETY: the call writes one number, which lives until it returns; the calling thread exists.
        if unsafe { libc::pthread_getcpuclockid(libc::pthread_self(), &raw mut clock) } != 0 {
            clock = libc::CLOCK_THREAD_CPUTIME_ID;
        }
        Self(clock)
    }

    /// CPU time (user + system) that the thread has used, nanoseconds. Errors: the thread has ended.
    pub fn ns(&self) -> io::Result<u64> {
        clock_ns(self.0)
    }
}

/// CPU time (user + system) that all threads of this process have used, nanoseconds.
pub fn process_cpu_ns() -> io::Result<u64> {
    clock_ns(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// CPU time of one sleep and timer wake-up of this thread, nanoseconds. The minimum of several rounds, because other
/// load can only increase the value. A few microseconds on most servers; tens of microseconds if timers trap to a
/// hypervisor. Takes about 10 ms. Errors: those of clock_gettime(2).
pub fn wake_cost_ns() -> io::Result<u64> {
    const ROUNDS: u32 = 5;
    const SLEEPS: u32 = 20;
    let mut least_ns = u64::MAX;
    for _ in 0..ROUNDS {
        let before_ns = thread_cpu_ns()?;
        (0..SLEEPS).for_each(|_| std::thread::sleep(std::time::Duration::from_micros(60)));
        least_ns = least_ns.min((thread_cpu_ns()? - before_ns) / u64::from(SLEEPS));
    }
    Ok(least_ns)
}

/// Time for which a thread was runnable without a CPU, nanoseconds: the second number of `/proc/thread-self/schedstat`
/// (Documentation/scheduler/sched-stats.rst). 0 on kernels without these statistics.
#[derive(Debug)]
pub struct RunDelay {
    file: Option<File>,
    read_ns: u64,
}

impl RunDelay {
    /// The delay of the calling thread. Only this thread may read it.
    pub fn of_this_thread() -> Self {
        let mut this = Self {
            file: File::open("/proc/thread-self/schedstat").ok(),
            read_ns: 0,
        };
        this.since_last_ns();
        this
    }

    /// Nanoseconds without a CPU since the last call. One system call.
    pub fn since_last_ns(&mut self) -> u64 {
        let mut text = [0; 96];
        let Some(bytes) = self
            .file
            .as_ref()
            .and_then(|file| file.read_at(&mut text, 0).ok())
        else {
            return 0;
        };
        let Some(total_ns) = run_delay_ns(&text[..bytes]) else {
            return 0;
        };
        let since_ns = total_ns.saturating_sub(self.read_ns);
        self.read_ns = total_ns;
        since_ns
    }
}

fn run_delay_ns(schedstat: &[u8]) -> Option<u64> {
    std::str::from_utf8(schedstat)
        .ok()?
        .split_ascii_whitespace()
        .nth(1)?
        .parse()
        .ok()
}

/// CPU time, peak memory, context switches and page faults of the whole process, all threads included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// Time in user mode, microsecond steps.
    pub user_ns: u64,
    /// Time in the kernel, microsecond steps.
    pub system_ns: u64,
    /// Largest resident memory so far.
    pub peak_rss_bytes: u64,
    /// Context switches, voluntary and involuntary.
    pub switches: u64,
    /// Page faults that had to read from a disk.
    pub major_faults: u64,
    /// Page faults without disk I/O.
    pub minor_faults: u64,
}

/// Reads the usage of this process, with one system call.
pub fn usage() -> io::Result<Usage> {
    // SAFETY: all-zero bytes are a valid `rusage`, a struct of numbers.
    let mut raw: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `raw` is writable and of the type that the call fills.
    succeed(unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut raw) })?;
    let count = |value: libc::c_long| u64::try_from(value).unwrap_or(0);
    Ok(Usage {
        user_ns: timeval_ns(raw.ru_utime),
        system_ns: timeval_ns(raw.ru_stime),
        // Linux counts ru_maxrss in KiB (getrusage(2)).
        peak_rss_bytes: count(raw.ru_maxrss) * 1024,
        switches: count(raw.ru_nvcsw) + count(raw.ru_nivcsw),
        major_faults: count(raw.ru_majflt),
        minor_faults: count(raw.ru_minflt),
    })
}

fn timeval_ns(time: libc::timeval) -> u64 {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let micros = u64::try_from(time.tv_usec).unwrap_or(0);
    seconds * 1_000_000_000 + micros * 1_000
}

/// Bytes of a memory page.
pub fn page_bytes() -> u64 {
    // SAFETY: the call takes a number and touches no memory of this process.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    // The call never fails on Linux; 4096 is the smallest page size.
    u64::try_from(bytes).unwrap_or(4096)
}

/// Time of `clock`, nanoseconds. Source: clock_gettime(2).
fn clock_ns(clock: libc::clockid_t) -> io::Result<u64> {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `now` is writable and outlives the call.
    succeed(unsafe { libc::clock_gettime(clock, &raw mut now) })?;
    Ok(u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000_000
        + u64::try_from(now.tv_nsec).unwrap_or(0))
}

/// `CLOCK_MONOTONIC`, ns: the clock of block trace events, and of `std::time::Instant`, which has no absolute value.
pub fn monotonic_ns() -> u64 {
    // Cannot fail: Linux always has this clock.
    clock_ns(libc::CLOCK_MONOTONIC).unwrap_or(0)
}

/// Time that the machine has slept (suspend, hibernation) since its boot, nanoseconds: `CLOCK_BOOTTIME`, which counts
/// this time, minus `CLOCK_MONOTONIC`, which does not. Pauses of a virtual machine stop both clocks.
pub fn asleep_ns() -> u64 {
    // A pause of this thread between the two readings makes the difference smaller, never larger.
    (0..3)
        .map(|_| {
            clock_ns(libc::CLOCK_BOOTTIME)
                .unwrap_or(0)
                .saturating_sub(monotonic_ns())
        })
        .max()
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_runs_on_the_cpus_it_is_given_and_on_no_others() {
        let of_status = |path: &str| {
            let status = std::fs::read_to_string(path).unwrap();
            let list = status
                .lines()
                .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))
                .unwrap();
            list.trim().to_owned()
        };
        let all = of_status("/proc/self/status");
        let last: u32 = all.rsplit(['-', ',']).next().unwrap().parse().unwrap();
        let tried = |cpus: &'static [u32]| {
            std::thread::spawn(move || run_on(cpus).unwrap_err().to_string())
        };
        std::thread::spawn(move || {
            run_on(&[last]).unwrap();
            assert_eq!(of_status("/proc/thread-self/status"), last.to_string());
            run_on(&[]).unwrap();
        })
        .join()
        .unwrap();
        let found = of_status("/proc/self/status");
        assert_eq!(found, all, "others stay where they were");
        let found = tried(&[0, 1_023]).join().unwrap();
        assert_eq!(found, "there is no CPU 1023 to run on");
        let found = tried(&[1_023]).join().unwrap();
        assert_eq!(found, "there is no CPU 1023 to run on");
        let found = tried(&[1_024]).join().unwrap();
        assert_eq!(found, "there is no CPU 1024 to run on");
    }

    #[test]
    fn the_clock_of_a_thread_is_read_from_another() {
        let clock = ThreadClock::of_this_thread();
        let read = std::thread::scope(|scope| scope.spawn(|| clock.ns().unwrap()).join().unwrap());
        assert!(read <= clock.ns().unwrap());
        let begin = std::time::Instant::now();
        while begin.elapsed().as_millis() < 20 {}
        std::thread::scope(|scope| {
            // The new thread has used almost no CPU time of its own.
            scope.spawn(|| {
                assert!(
                    clock.ns().unwrap() > read && clock.ns().unwrap() > thread_cpu_ns().unwrap()
                )
            });
        });
    }

    #[test]
    fn a_program_is_killed_when_the_thread_that_started_it_ends() {
        let mut child = std::thread::spawn(|| {
            let mut command = Command::new("sleep");
            command.arg("600");
            kill_with_parent(&mut command);
            command.spawn().unwrap()
        })
        .join()
        .unwrap();
        assert_eq!(
            std::os::unix::process::ExitStatusExt::signal(&child.wait().unwrap()),
            Some(libc::SIGKILL)
        );
    }

    #[test]
    fn the_run_delay_is_the_second_number_of_schedstat() {
        assert_eq!(run_delay_ns(b"1234567 89012 345\n"), Some(89_012));
        assert_eq!(run_delay_ns(b""), None);
    }

    #[test]
    fn threads_that_share_a_cpu_wait_for_it() {
        // Twice as many busy threads as CPUs, so some must wait.
        let threads = 2 * std::thread::available_parallelism().map_or(1, |cpus| cpus.get());
        let waited: u64 = std::thread::scope(|scope| {
            let running: Vec<_> = (0..threads)
                .map(|_| {
                    scope.spawn(|| {
                        let mut delay = RunDelay::of_this_thread();
                        let begin = std::time::Instant::now();
                        while begin.elapsed().as_millis() < 100 {}
                        delay.since_last_ns()
                    })
                })
                .collect();
            running
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .sum()
        });
        if File::open("/proc/thread-self/schedstat").is_err() {
            println!("skipped: this kernel keeps no schedstat");
            return;
        }
        assert!(waited > 10_000_000, "{waited} ns");
    }

    #[test]
    fn a_busy_thread_uses_cpu_time() {
        let before = usage().unwrap();
        let mut mixed = 1_u64;
        loop {
            for step in 0..1_000_000_u64 {
                mixed = std::hint::black_box(mixed.rotate_left(5) ^ step);
            }
            let now = usage().unwrap();
            assert!(now.user_ns >= before.user_ns && now.system_ns >= before.system_ns);
            if now.user_ns > before.user_ns {
                break;
            }
        }
    }

    #[test]
    fn touched_memory_raises_the_peak_resident_memory() {
        let bytes = 64 << 20;
        let memory = std::hint::black_box(vec![1_u8; bytes]);
        assert!(usage().unwrap().peak_rss_bytes >= bytes as u64);
        drop(memory);
    }

    #[test]
    fn the_page_size_is_a_power_of_two() {
        assert!(page_bytes().is_power_of_two() && page_bytes() >= 4096);
    }

    #[test]
    fn the_monotonic_clock_does_not_run_backwards() {
        let first = monotonic_ns();
        assert!(first > 0 && monotonic_ns() >= first);
    }
}
