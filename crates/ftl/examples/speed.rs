//! `speed DRIVE [DIVISOR]` measures the speed of the simulated flash translation layer, without a simulation of time.
//!
//! Prints millions of host writes per second, and millions of flash pages per second (written by the host or moved), on
//! one core. The load is random writes of one unit, on a drive that was filled and overwritten once. Also prints the
//! memory of the process, in GB per TB of the drive. `DIVISOR` makes the drive smaller: use 1000 for a test in a debug
//! build.

use ftl::{Ftl, Spec};
use sys::random::Random;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let drive = arguments.next().unwrap_or_default();
    let divisor: u64 = arguments
        .next()
        .map_or(1, |divisor| divisor.parse().expect("DIVISOR is a number"));
    let (bytes, unit_bytes, superblocks) = match drive.as_str() {
        "64GiB-4K" => (64 << 30, 4 << 10, 1024),
        // Superblocks of 256 units, the size of old flash blocks.
        "64GiB-4K-small" => (64 << 30, 4 << 10, 65536),
        "7.68TB-32K" => (7_681_501_126_656, 32 << 10, 4096),
        _ => panic!("DRIVE is 64GiB-4K, 64GiB-4K-small or 7.68TB-32K"),
    };
    let whole = |bytes: u64| bytes.next_multiple_of(u64::from(unit_bytes));
    let superblock_bytes = whole(bytes / divisor.min(64) / superblocks).max(whole(1) * 2);
    let spec = Spec {
        unit_bytes,
        superblock_bytes,
        over_provisioning: 0.125,
        ..Spec::with_logical_bytes(whole(bytes / divisor))
    };

    let mut ftl = Ftl::new(&spec, 1).expect("a valid drive");
    let mut random = Random::new(1);
    let units = ftl.units();
    for unit in (0..units).step_by(64) {
        ftl.write(unit, (units - unit).min(64) as u32, 0);
    }
    write_randomly(&mut ftl, units, &mut random);
    let before = ftl.counters();
    let began = cpu_s();
    write_randomly(&mut ftl, units / 2, &mut random);
    let done = ftl.counters().since(before).unwrap();
    let seconds = cpu_s() - began;

    let millions = |bytes: u64| bytes as f64 / f64::from(unit_bytes) / seconds / 1e6;
    let memory = sys::process::usage()
        .expect("the usage of this process")
        .peak_rss_bytes as f64;
    println!("host_writes_m={:.1}", millions(done.host));
    println!("flash_pages_m={:.1}", millions(done.media));
    println!(
        "memory_gb_per_tb={:.2}",
        memory / spec.logical_bytes as f64 * 1e3
    );
    println!("waf={:.3}", done.waf().unwrap_or(0.0));
}

fn write_randomly(ftl: &mut Ftl, writes: u64, random: &mut Random) {
    let units = ftl.units();
    let mut batch = [0; 256];
    for _ in 0..writes.div_ceil(batch.len() as u64) {
        batch.fill_with(|| random.below(units) as u32);
        ftl.write_each(&batch, 0);
    }
}

/// CPU time so far, seconds. Wall-clock time would include other work on a shared machine.
fn cpu_s() -> f64 {
    let usage = sys::process::usage().expect("the usage of this process");
    (usage.user_ns + usage.system_ns) as f64 / 1e9
}
