//! Settings and facts of the calling thread.

use std::io;

/// Lets the kernel wake this thread when its timer fires instead of up to 50 us later.
///
/// Source: prctl(2), `PR_SET_TIMERSLACK`; 1 ns is the least, 0 would restore the default.
pub fn sharpen_timers() {
    // SAFETY: no pointers; it cannot fail for a value above 0.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong) };
}

/// CPU time (user + system) that this thread has used, nanoseconds.
pub fn thread_cpu_ns() -> io::Result<u64> {
    cpu_clock_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// CPU time (user + system) that all threads of this process have used, nanoseconds. The kernel's
/// io_uring workers of this process are among them.
pub fn process_cpu_ns() -> io::Result<u64> {
    cpu_clock_ns(libc::CLOCK_PROCESS_CPUTIME_ID)
}

fn cpu_clock_ns(clock: libc::clockid_t) -> io::Result<u64> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` outlives the call.
    if unsafe { libc::clock_gettime(clock, &mut time) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// What it costs this thread to sleep and be woken by a timer, in nanoseconds of CPU time: the least
/// of a few rounds, since anything else that runs can only add to it.
///
/// It is a few microseconds on most servers and tens where timers leave a virtual machine. Takes
/// about 10 ms. Errors: those of clock_gettime(2).
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
