//! `passthrough_cost /dev/nvme0n1` compares the cost of an operation through the block layer and as an NVMe command.
//! The program issues random reads of 4 KiB, with 1 and with 16 in flight, alternately by both ways. The output has the
//! time, and the CPU time of the issuing thread including the kernel's part. The device is only read.

use device::nvme_generic::NvmeGeneric;
use device::target::Target;
use engine::EngineSetup;
use engine::passthrough::Passthrough;
use engine::uring::Uring;
use engine::{BlockEngine, Wait};
use std::sync::Arc;
use std::time::Instant;
use sys::op::{Op, OpKind};
use sys::process::thread_cpu_ns;
use sys::random::Random;

const BLOCK: u32 = 4096;
const OPERATIONS: u32 = 20_000;
const TURNS: usize = 5;

type Fault = Box<dyn std::error::Error>;

/// Time and CPU time per operation, microseconds.
fn cost(
    engine: &mut impl BlockEngine,
    depth: u32,
    size_bytes: u64,
    random: &mut Random,
) -> Result<[f64; 2], Fault> {
    let mut free: Vec<_> = (0..depth)
        .map(|token| (token, engine.buffer(BLOCK as usize)))
        .collect();
    let began = Instant::now();
    let cpu_ns = thread_cpu_ns()?;
    let mut issued = 0;
    let mut done = 0;
    let mut out = Vec::new();
    while done < OPERATIONS {
        while issued < OPERATIONS
            && let Some((token, buf)) = free.pop()
        {
            let offset = random.below(size_bytes / u64::from(BLOCK)) * u64::from(BLOCK);
            let buf = buf.ok_or("too little memory")?;
            engine.submit(Op {
                token,
                ..Op::new(OpKind::Read, offset, BLOCK, buf)
            });
            issued += 1;
        }
        let until_ns = engine.now() + 1_000_000_000;
        engine.reap(Wait::first(until_ns), &mut out)?;
        for completion in out.drain(..) {
            if !completion.outcome.is_done() {
                return Err(completion.outcome.to_string().into());
            }
            done += 1;
            free.push((completion.token, Some(completion.buf)));
        }
    }
    let each = |ns: f64| ns / 1e3 / f64::from(OPERATIONS);
    Ok([
        each(began.elapsed().as_nanos() as f64),
        each((thread_cpu_ns()? - cpu_ns) as f64),
    ])
}

fn main() -> Result<(), Fault> {
    let device = std::env::args()
        .nth(1)
        .ok_or("name an NVMe drive: /dev/nvme0n1")?;
    let target = Arc::new(Target::read_only(&device, BLOCK.into())?);
    let generic = Arc::new(NvmeGeneric::open(&target)?);
    let targets = vec![target.clone()];
    let setup = EngineSetup::new(16, 64 << 20);
    let mut random = Random::new(1);
    for depth in [1, 16] {
        for turn in 0..TURNS {
            let (mut block, _) = Uring::new(targets.clone(), setup)?;
            let (mut nvme, _) = Passthrough::new(targets.clone(), vec![generic.clone()], setup)?;
            let size = target.size_bytes();
            let [uring, uring_cpu] = cost(&mut block, depth, size, &mut random)?;
            let [passed, passed_cpu] = cost(&mut nvme, depth, size, &mut random)?;
            println!(
                "{depth} in flight, turn {turn}: io_uring {uring:.2} us, {uring_cpu:.2} us of CPU; passthrough {passed:.2} us, \
                 {passed_cpu:.2} us of CPU; ratio of times {:.3}, of CPU times {:.3}",
                passed / uring,
                passed_cpu / uring_cpu
            );
        }
    }
    Ok(())
}
