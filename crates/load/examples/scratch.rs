use device::op::Kind;
use device::random::Random;
use device::salt::Salt;
use device::sim::{Drive, SimWorld};
use device::target::Target;
use device::threads::Threads;
use device::uring::Uring;
use device::world::World;
use load::plan::*;
use load::rate::Rate;
use load::run::*;
use load::schedule::*;
use load::stream::*;
use measure::buckets::ActScale;
use measure::cell::*;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;
use std::time::Instant;

const SEC: u64 = 1_000_000_000;
fn layout() -> Layout {
    let s = |n: &str| StreamInfo {
        name: n.into(),
        judged: true,
        offered_iops: 0.0,
        per_device_in_act_log: true,
        in_act_log: true,
    };
    Layout {
        streams: vec![s("reads"), s("lbr"), s("lbw")],
        devices: vec!["d".into()],
        scale: ActScale::Milliseconds,
        thresholds_ns: [1_000_000, 8_000_000, 64_000_000].into(),
    }
}
fn plan(x: u64, size: u64, closed: u32, len: u32) -> Plan<Pattern> {
    let rec = Extent::records(0, 0, size, 512, len, len).unwrap();
    let mut lanes = vec![];
    let mk = |cell, kind, buffers, seed| {
        Pattern::Uniform(Uniform {
            extent: Extent::blocks(0, cell, size, 131072).unwrap(),
            kind,
            buffers,
            random: Random::new(seed),
        })
    };
    let r = Pattern::Uniform(Uniform { extent: rec, kind: Kind::Read, buffers: 0, random: Random::new(1) });
    if closed > 0 {
        lanes.push(Lane { stream: r, arrival: Arrival::Closed { depth: closed, think_ns: 0 }, limit: 0, name: 0 });
    } else {
        lanes.push(Lane {
            stream: r,
            arrival: Arrival::Scheduled(Schedule::Even(Even::new(Rate::per_sec(2000 * x), 0, 1, 0).unwrap())),
            limit: 0,
            name: 0,
        });
        let lb = Rate::new(200 * 10 * x as u128, 85).unwrap();
        lanes.push(Lane {
            stream: mk(1, Kind::Read, 1, 2),
            arrival: Arrival::Scheduled(Schedule::Even(Even::new(lb, 0, 1, 20000).unwrap())),
            limit: 1,
            name: 0,
        });
        lanes.push(Lane {
            stream: mk(2, Kind::Write, 2, 3),
            arrival: Arrival::Scheduled(Schedule::Even(Even::new(lb, 0, 1, 40000).unwrap())),
            limit: 2,
            name: 0,
        });
    }
    Plan {
        lanes,
        limits: vec![
            Limit { slots: if closed > 0 { closed } else { 1024 }, configured: false },
            Limit { slots: 1, configured: false },
            Limit { slots: 1, configured: false },
        ],
        buffers: vec![
            BufferClass { len_bytes: len as usize, count: 1024, salt: None },
            BufferClass { len_bytes: 131072, count: 1, salt: None },
            BufferClass { len_bytes: 131072, count: 2, salt: Some(Salt::new(1, 100, 0)) },
        ],
        names: vec!["reads".into()],
    }
}
fn go<W: World>(world: W, plan: Plan<Pattern>, secs: u64, pacing: Pacing) {
    let settings = Settings { duration_ns: secs * SEC, max_lag_ns: SEC, errors_max: 100, pacing, drain_ns: SEC };
    let control = Arc::new(Control::default());
    let l = layout();
    let (rec, feed) = Recorder::new(&l, SEC, settings.duration_ns, W::VIRTUAL);
    let t = std::thread::spawn(move || {
        let mut total: Option<Interval> = None;
        for m in feed.messages.iter() {
            if let Message::Interval(i) = m {
                match &mut total {
                    None => total = Some(*i.clone()),
                    Some(t) => {
                        let mut j = *i.clone();
                        j.index = t.index;
                        t.merge(&j)
                    }
                }
                feed.give_back(i);
            }
        }
        total.unwrap()
    });
    let mut w = world;
    let start = w.now() + if W::VIRTUAL { 0 } else { 5_000_000 };
    let sh = Shard::new(w, plan, settings, rec, control.clone()).unwrap();
    let t0 = Instant::now();
    let c0 = device::sys::process::process_cpu_ns().unwrap();
    sh.run(start);
    let cpu = device::sys::process::process_cpu_ns().unwrap() - c0;
    let el = t0.elapsed().as_secs_f64();
    let t = t.join().unwrap();
    let ops: u64 = t.cells.iter().map(|c| c.ops).sum();
    println!(
        "{el:.2}s ops {ops} {:.0}/s cpu/op {:.2}us loopcpu/op {:.2} wall/op {:.0}ns cause {:?} inflmax {}",
        ops as f64 / el,
        cpu as f64 / ops as f64 / 1e3,
        t.cpu_ns as f64 / ops as f64 / 1e3,
        el * 1e9 / ops as f64,
        control.cause(),
        t.in_flight_max
    );
    for c in &t.cells {
        if c.ops > 0 {
            println!(
                "  ops {} err {} un {} svc p50 {} p99 {} max {} | lag p50 {} p99 {} max {} | wait max {}",
                c.ops,
                c.errors,
                c.unissued,
                c.service.value_at_quantile(0.5),
                c.service.value_at_quantile(0.99),
                c.service.max(),
                c.lag.value_at_quantile(0.5),
                c.lag.value_at_quantile(0.99),
                c.lag.max(),
                c.wait.max()
            );
        }
    }
    println!("  gap p50 {} p99 {} max {}", t.gap.value_at_quantile(0.5), t.gap.value_at_quantile(0.99), t.gap.max());
}
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let x: u64 = a[2].parse().unwrap();
    let secs: u64 = a[3].parse().unwrap();
    let co: u64 = a.get(4).map_or(100, |v| v.parse().unwrap()) * 1000;
    let closed: u32 = a.get(6).map_or(0, |v| v.parse().unwrap());
    let len: u32 = a.get(7).map_or(1536, |v| v.parse().unwrap());
    let pacing = if co == 0 { Pacing::Spin } else { Pacing::Sleep { period_ns: co } };
    if a[1] == "sim" {
        return go(
            SimWorld::new(vec![Drive::new(&"sim:".parse().unwrap(), 1)]),
            plan(x, 64 << 30, closed, len),
            secs,
            pacing,
        );
    }
    let threads = a[1].starts_with("t:");
    let path = a[1].trim_start_matches("t:");
    let f = std::fs::OpenOptions::new().read(true).write(true).custom_flags(0o40000 | 0o10000).open(path).unwrap();
    let t = Arc::new(Target::stub(f));
    let p = plan(x, 4 << 30, closed, len);
    device::sys::process::sharpen_timers();
    if threads {
        let w = Threads::new(&[t], p.in_flight_max(), p.buffer_bytes(), Instant::now()).unwrap();
        go(w, p, secs, pacing)
    } else {
        let (w, facts) = Uring::new(vec![t], p.in_flight_max(), p.buffer_bytes(), Instant::now()).unwrap();
        println!("{facts:?}");
        go(w, p, secs, pacing)
    }
}
