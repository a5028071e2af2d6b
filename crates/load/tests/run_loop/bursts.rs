//! Bursts: how unevenly a simulated drive receives its reads, in virtual time.
//!
//! For ACT 6.6 with 10 service threads at 10x, the variance over mean was 3.7 in windows of 0.1 ms, measured with the
//! kernel's block_rq_issue on a loop device. The number depends on where the windows begin, because bursts recur with
//! a period. The test therefore averages over ten offsets of the windows.

#[path = "../common/dispersion.rs"]
mod dispersion;

use super::*;
use act::{ActConfig, ActWorkload, Arrival as Arrivals};
use dispersion::index_over_places;
use load::workload::{BuildContext, DeviceShape, RunPlan, Workload};
use std::cell::RefCell;

const WINDOW_NS: u64 = 100_000;

/// Issue times of the record reads of a 10x load with 10 service threads, in 5 s.
fn reads_ns(arrival: Arrivals) -> Vec<u64> {
    let config = ActConfig {
        device_names: vec!["sim:".parse().unwrap()],
        test_duration_sec: 5,
        read_reqs_per_sec: 20_000,
        write_reqs_per_sec: 10_000,
        service_threads: Some(10),
        arrival,
        ..ActConfig::default()
    };
    let device = DeviceShape::new("sim:", 0, 64 << 30, 512);
    let choices = BuildContext {
        seed: 23,
        shards_max: 1,
        cpus: 2,
        in_flight_max: None,
    };
    let mut workload = RunPlan::new(vec!["sim:".into()], [1_000_000].into());
    ActWorkload::from_config(config)
        .unwrap()
        .build(&[device], &choices, &mut workload)
        .unwrap();
    let reads_ns = RefCell::new(Vec::new());
    let submitted = |now_ns, op: &Op| {
        if op.kind == OpKind::Read && op.len < 128 * 1024 {
            reads_ns.borrow_mut().push(now_ns);
        }
    };
    let engine = SimEngine::new(vec![QueueModel::new(&"sim:".parse().unwrap(), 1)]);
    let reap = |engine: &mut SimEngine, wait, out: &mut _| engine.reap(wait, out).unwrap();
    run_in(
        Watched {
            engine,
            submitted,
            reap,
        },
        workload.shards.remove(0),
        settings(5),
        &workload.layout,
    );
    reads_ns.take()
}

/// Variance over mean of the reads in a window, after the first second.
fn variance_over_mean(times_ns: &[u64]) -> f64 {
    let later = &times_ns[times_ns.partition_point(|ns| *ns < SEC)..];
    index_over_places(later, WINDOW_NS).unwrap()
}

#[test]
fn acts_schedule_makes_bursts_and_an_even_schedule_does_not() {
    let act = reads_ns(Arrivals::Act);
    let paced = reads_ns(Arrivals::Paced);
    for times_ns in [&act, &paced] {
        assert!(
            (99_990..=100_000).contains(&times_ns.len()),
            "20,000 a second: {}",
            times_ns.len()
        );
    }
    let act = variance_over_mean(&act);
    let paced = variance_over_mean(&paced);
    let poisson = variance_over_mean(&reads_ns(Arrivals::Poisson));
    println!("variance/mean: act {act:.2}, paced {paced:.2}, poisson {poisson:.2}");
    assert!((act / 3.7 - 1.0).abs() < 0.25, "{act}");
    assert!(paced < 0.5, "{paced}");
    assert!((poisson - 1.0).abs() < 0.15, "{poisson}");
}
