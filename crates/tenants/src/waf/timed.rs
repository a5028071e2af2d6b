//! Continues an [`Experiment`] with a clock: measures the clients' latencies once amplification is steady.
//!
//! ```text
//! Experiment, steady -> its stores   -> TenantLoad of each -> the run loop, open loop
//!                    -> its drives   -> dies with service times   -> cells, counters
//! ```
//!
//! The one idea: the experiment without time is the preconditioning. Stores and drives continue in its final state, so
//! a fraction of a drive fill shows the tail latencies. Write amplification must be the same as in the experiment.

use super::{Experiment, TenantLayout};
use crate::TenantLoad;
use engine::DeviceName;
use engine::sim::{DriveSpec, FtlModel, SimEngine, SimulatedDrive};
use load::run::{Control, EndCause, Pacing, RunConfig, Settings, Sink, SinkError, run};
use load::workload::{BuildContext, CannotRun, DeviceShape, RunPlan, Workload};
use results::bytes_written::WrittenBytes;
use results::cell::{Cell, Interval, StreamInfo};
use results::telemetry::Column;
use std::sync::{Arc, Mutex, PoisonError};
use sys::random::Random;

/// Upper bound on operations per run, mostly reads: about a second of computing time.
const OPERATIONS: f64 = 3e6;
/// Upper bound on the run, in drive fills.
pub(super) const FILLS: f64 = 2.0;
/// Upper bound on the run's virtual time, seconds: a month, for low loads.
const SECONDS: f64 = 30.0 * 86_400.0;

const NS_PER_SEC: f64 = 1e9;

#[derive(Debug)]
pub struct TimedResult {
    /// Each stream of each tenant, named like `TENANT/reads`, with its results.
    pub streams: Vec<(StreamInfo, Cell)>,
    pub bytes: WrittenBytes,
    /// Bytes written by hosts, in fills of all drives.
    pub fills: f64,
    /// Virtual time, seconds.
    pub seconds: f64,
    pub end_cause: Option<EndCause>,
}

/// Continues `experiment`, made from `layout`, on a virtual clock. `base` gives the drives' properties other than their
/// FTLs. Errors: a load that the run loop rejects.
pub fn timed(
    experiment: Experiment,
    layout: &TenantLayout<'_>,
    base: &DriveSpec,
    seed: u64,
) -> Result<TimedResult, CannotRun> {
    let tenants = Arc::new(layout.tenants());
    let mut models = Vec::new();
    let mut names = Vec::new();
    let mut shapes = Vec::new();
    for ((number, arranged), ftl) in layout.drives.iter().enumerate().zip(experiment.drives) {
        let size_bytes = arranged.drive.spec.logical_bytes;
        let spec = DriveSpec {
            capacity_bytes: size_bytes,
            ftl: Some(arranged.drive.clone()),
            ..base.clone()
        };
        let random = Random::for_part(seed, DRIVES_PART | number as u64);
        models.push(SimulatedDrive::Ftl(FtlModel::with_ftl(
            &spec,
            &arranged.drive,
            ftl,
            random,
        )));
        names.push(DeviceName::Simulated(arranged.name.clone(), Arc::new(spec)));
        shapes.push(DeviceShape::new(
            &arranged.name,
            number as u16,
            size_bytes,
            base.min_io_bytes,
        ));
    }
    // Nothing is judged: there are no thresholds.
    let mut plan = RunPlan::new(
        layout.drives.iter().map(|of| of.name.clone()).collect(),
        [].into(),
    );
    let mut bytes_per_sec = 0.0;
    let mut max_lag_ns = 0;
    for ((number, placed), writer) in layout.tenants.iter().enumerate().zip(experiment.writers) {
        let tenant = placed.tenant;
        bytes_per_sec += tenant.client_blocks().per_sec_f64()
            * f64::from(tenant.write_block_bytes)
            * writer.store.expected_engine_wa();
        let load = TenantLoad::in_use(
            tenants.clone(),
            number,
            names[placed.drive].clone(),
            writer.store,
        );
        max_lag_ns = load.spec().max_lag_sec * NS_PER_SEC as u64;
        let seed = Random::for_part(seed, number as u64).next_u64();
        let choices = BuildContext {
            seed,
            shards_max: 1,
            cpus: 1,
            in_flight_max: None,
        };
        plan.begin(number, &tenant.name);
        load.build(&shapes[placed.drive..=placed.drive], &choices, &mut plan)
            .map_err(cannot_measure)?;
    }
    let drive_bytes: u64 = shapes.iter().map(|shape| shape.size_bytes).sum();
    let iops: f64 = plan
        .layout
        .streams
        .iter()
        .map(|stream| stream.offered_iops)
        .sum();
    let seconds = (OPERATIONS / iops)
        .min(FILLS * drive_bytes as f64 / bytes_per_sec)
        .min(SECONDS);
    let duration_ns = ((seconds * NS_PER_SEC) as u64).max(1);
    let control = Arc::new(Control::default());
    let config = RunConfig {
        layout: plan.layout,
        settings: Settings {
            duration_ns,
            max_lag_ns,
            errors_max: u64::MAX,
            ..Settings::until_done(Pacing::Spin)
        },
        // A single interval for the whole run.
        interval_ns: duration_ns,
        slice_ns: duration_ns,
        step_ns: duration_ns,
        control: control.clone(),
    };
    let mut whole = WholeRun(Interval::new(&config.layout));
    let models = Mutex::new(models);
    run(
        &config,
        plan.shards,
        |_: usize, _: &_| {
            Ok(SimEngine::new(std::mem::take(
                &mut *models.lock().unwrap_or_else(PoisonError::into_inner),
            )))
        },
        &mut whole,
    )
    .map_err(cannot_measure)?;
    let Interval {
        cells,
        counters,
        end_ns,
        ..
    } = whole.0;

    let columns = names
        .iter()
        .filter_map(DeviceName::drive)
        .flat_map(SimulatedDrive::columns);
    let mut bytes = WrittenBytes::default();
    for (column, count) in columns.zip(&counters) {
        match column {
            Column::SimHbmw => bytes.host += count,
            Column::SimMbmw => bytes.media += count,
            Column::SimMbe => bytes.erased += count,
            _ => {}
        }
    }
    let streams = config
        .layout
        .streams
        .iter()
        .enumerate()
        .filter_map(|(number, stream): (usize, &StreamInfo)| {
            // A tenant is on one drive, so only one of its cells has counts.
            let own_cells = &cells[number * shapes.len()..(number + 1) * shapes.len()];
            let cell = own_cells
                .iter()
                .max_by_key(|cell| cell.counts.counted_ops())?;
            Some((stream.clone(), cell.clone()))
        })
        .collect();
    let fills = bytes.host as f64 / drive_bytes as f64;
    let seconds = end_ns.min(duration_ns) as f64 / NS_PER_SEC;
    Ok(TimedResult {
        streams,
        bytes,
        fills,
        seconds,
        end_cause: control.cause(),
    })
}

fn cannot_measure(why: impl std::fmt::Display) -> CannotRun {
    CannotRun(format!(
        "cannot measure latencies - {why} - leave them out with --no-latency"
    ))
}

/// Random sequence of the drives, distinct from the sequences of all tenants.
const DRIVES_PART: u64 = 1 << 32;

struct WholeRun(Interval);

impl Sink for WholeRun {
    fn interval(&mut self, interval: &Interval) -> Result<(), SinkError> {
        self.0.clone_from(interval);
        Ok(())
    }
}
