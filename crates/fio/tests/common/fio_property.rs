//! Properties of the parser of fio's jobs, for any input bytes.
//!
//! Shared by the property test and the fuzzer.

use fio::{FioLoad, ParseContext, command_line, job_file, jobs, runs};
use load::workload::{BuildContext, DeviceShape, RunPlan, Workload};

const SIZE_BYTES: u64 = 16 << 20;

/// Runs with more jobs than this are not built, because they would take the time of all other inputs.
const BUILT_MAX: usize = 16;

/// Parses `bytes` as a job file and as a command line, and takes operations from the jobs. True if any job was built.
pub(crate) fn assert_fio_property(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let words: Vec<_> = text.split_whitespace().map(str::to_owned).collect();
    let mut warnings = Vec::new();
    match command_line(&words) {
        Ok(line) => line
            .warnings
            .iter()
            .for_each(|warning| assert_one_line(&warning.to_string())),
        Err(problems) => problems
            .iter()
            .for_each(|problem| assert_one_line(&problem.to_string())),
    }
    // Each included file has the same text, so it may include itself.
    let around = ParseContext {
        read: &|_| Ok(text.clone().into_owned()),
        variable: &|name| Some(name.chars().rev().collect()),
        is_device: &|path| path.len() == 3,
        cpus: 4,
        page_bytes: 4096,
        memory_mbytes: 1_000,
        readonly: false,
    };
    let sections = job_file("input.fio", &text, &around, &mut warnings);
    let loads = sections
        .and_then(|sections| jobs(&sections, &around, &mut warnings))
        .and_then(runs);
    warnings
        .iter()
        .for_each(|warning| assert_one_line(&warning.to_string()));
    match loads {
        Ok(loads) => loads
            .iter()
            .filter(|load| load.threads.len() <= BUILT_MAX)
            .for_each(assert_built),
        Err(problems) => {
            assert!(!problems.is_empty());
            problems
                .iter()
                .for_each(|problem| assert_one_line(&problem.to_string()));
            return false;
        }
    }
    true
}

/// Every operation lies within the device and has a buffer that holds it.
fn assert_built(load: &FioLoad) {
    let shape = |(target, name): (u16, &engine::DeviceName)| {
        DeviceShape::new(name.as_str(), target, SIZE_BYTES, 512)
    };
    let shapes: Vec<_> = (0..).zip(&load.devices).map(shape).collect();
    let mut plan = RunPlan::new(
        shapes.iter().map(|shape| shape.name.clone()).collect(),
        [1_000_000].into(),
    );
    plan.begin(0, "");
    let choices = BuildContext {
        seed: 1,
        shards_max: 2,
        cpus: 4,
        in_flight_max: None,
    };
    match load.build(&shapes, &choices, &mut plan) {
        Err(error) => assert_one_line(&error.to_string()),
        Ok(_) => {
            let cells = plan.layout.cells() as u32;
            for shard in &mut plan.shards {
                let buffers: Vec<_> = shard.buffers.iter().map(|class| class.len_bytes).collect();
                for lane in &mut shard.lanes {
                    for _ in 0..50 {
                        let Some(request) = lane.stream.next() else {
                            break;
                        };
                        assert!(
                            request.offset + u64::from(request.len) <= SIZE_BYTES,
                            "{request:?}"
                        );
                        assert!(request.cell < cells, "{request:?}");
                        assert!(
                            request.len as usize <= buffers[usize::from(request.buffers)]
                                || !request.kind.moves_data()
                        );
                        assert!(request.len > 0 || !request.kind.moves_data(), "{request:?}");
                    }
                }
            }
        }
    }
}

fn assert_one_line(text: &str) {
    assert!(!text.contains('\n') && !text.is_empty(), "{text:?}");
}
