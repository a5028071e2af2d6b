//! Runs the same job with the real fio, in turns with flashproof, to check that both measure the same drive.
//!
//! ```text
//! FioLoad, open devices -> RealFio::run -> Side of each direction   real_fio.rs
//! FioLoad, Totals       -> ours         -> Side of our run
//! logs of both          -> logged       -> Logged                   logged.rs
//! rounds of both        -> compare      -> Checked                  compare.rs
//! ```
//!
//! A difference counts only if it is larger than the differences between rounds of the same program. fio writes only to
//! descriptors from the guard, and ends when flashproof ends.

mod compare;
mod logged;
mod real_fio;

pub use compare::{Checked, compare};
pub use real_fio::RealFio;

use load::workload::fio::{FioLoad, Job};
use logged::{Logged, logged};
use report::fio::Totals;
use session::console;
use session::devices::Devices;
use session::failure::Failure;
use session::signals::Switch;

/// Rounds of each program, enough to separate a difference from noise.
pub const ROUNDS: usize = 3;

/// Runs `load` on `open` in turns, equally often by each program. `ours` runs a round of flashproof and returns its
/// results; its `None`, or a signal, ends the check. `None`: there is no round of both.
pub fn in_turns(
    fio: &RealFio,
    load: &FioLoad,
    open: &Devices,
    switch: &Switch,
    mut ours: impl FnMut(usize) -> Result<Option<Vec<Side>>, Failure>,
) -> Result<Option<Checked>, Failure> {
    let mut rounds = [Vec::new(), Vec::new()];
    for (round, is_fio) in turns() {
        let sides = match is_fio {
            true => {
                console::note(&format!("cross-check, round {round} of {ROUNDS}: {}", fio.version()));
                fio.run(load, open, switch)?
            }
            false => ours(round)?,
        };
        let Some(sides) = sides else { break };
        rounds[usize::from(is_fio)].push(sides);
    }
    let [ours, theirs] = &rounds;
    Ok((!ours.is_empty() && !theirs.is_empty()).then(|| compare(fio.version(), ours, theirs)))
}

/// Round numbers, and true for fio's turn. The programs alternate in starting a round, because each leaves a trace in
/// the drive.
fn turns() -> impl Iterator<Item = (usize, bool)> {
    (1..=ROUNDS).flat_map(|round| [(round, round % 2 == 1), (round, round % 2 == 0)])
}

/// Percentiles that are compared.
const PERCENTILES: [f64; 5] = [50.0, 90.0, 99.0, 99.9, 99.99];

const DIRECTIONS: [&str; 3] = ["reads", "writes", "trims"];

/// Result of one direction of a job in one round of one program.
#[derive(Debug, Clone, Default)]
pub struct Side {
    /// Name, such as `mix reads`.
    pub name: String,
    /// True for a load with a rate.
    pub is_paced: bool,
    /// Operations that were done.
    pub ops: u64,
    /// True if the job's options say how many that are.
    pub is_exact: bool,
    /// Its logs, if it has any, and true if each operation is a line of them.
    pub logged: Option<Logged>,
    pub is_each_logged: bool,
    pub iops: f64,
    /// Times from submission to completion at p50, p90, p99, p99.9 and p99.99, nanoseconds.
    pub latency_ns: [u64; PERCENTILES.len()],
    /// CPU time of the whole run per operation, nanoseconds.
    pub cpu_ns: f64,
    /// Longest wait for the queue depth limit; fio has no such time.
    pub wait_max_ns: u64,
    /// Operations scheduled and never issued; fio does not count them.
    pub never_issued: u64,
}

/// Sides of `load`: entry, direction, and a side with only its name.
fn sides(load: &FioLoad) -> impl Iterator<Item = (usize, usize, Side)> {
    load.reported().into_iter().filter(|(_, kind, _)| *kind < DIRECTIONS.len()).map(|(entry, direction, _)| {
        let job = &load.entries[entry].job;
        // Clones that are reported separately have the same name.
        let is_alone = load.entries.iter().filter(|other| other.job.name == job.name).count() == 1;
        let number =
            if is_alone { String::new() } else { format!("~{}", load.threads[load.entries[entry].threads[0]].number) };
        let name = format!("{}{number} {}", job.name, DIRECTIONS[direction]);
        let all = || load.entries[entry].threads.iter().map(|thread| &*load.threads[*thread].job);
        let side = Side {
            name,
            is_paced: job.has_rates(),
            is_exact: all().all(is_exact),
            is_each_logged: all().all(|job| job.log_avg_msec == 0),
            ..Side::default()
        };
        (entry, direction, side)
    })
}

/// True if the options of `job` alone say how many operations of each kind it does.
fn is_exact(job: &Job) -> bool {
    let is_one = job.directions().count() == 1 && job.unit_bytes() == job.largest_bytes();
    let is_whole = job.runtime_ns.is_none() && !job.time_based && !job.fills && job.iolog.is_none();
    let each_once = !job.random || job.has_map();
    is_one
        && is_whole
        && each_once
        && !job.zbd.is_on
        && job.flow == Default::default()
        && job.steady == Default::default()
}

/// Results of flashproof's run of `load`, which used `cpu_ns`.
pub fn ours(load: &FioLoad, totals: &Totals, cpu_ns: u64) -> Vec<Side> {
    let ops: u64 = totals.kinds.iter().map(|kind| kind.ops).sum();
    let of = |(entry, direction, side): (usize, usize, Side)| {
        let at = load.reported_at(entry, direction)?;
        let kind = totals.kinds.get(at)?;
        Some(Side {
            ops: kind.ops,
            iops: if kind.last_back_ns > 0 { kind.ops as f64 * 1e9 / kind.last_back_ns as f64 } else { 0.0 },
            latency_ns: PERCENTILES.map(|percentile| kind.clat.value_at_percentile(percentile)),
            cpu_ns: cpu_ns as f64 / ops.max(1) as f64,
            wait_max_ns: kind.wait.max(),
            never_issued: kind.undone,
            logged: logged(load, entry, direction, None),
            ..side
        })
    };
    sides(load).filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use load::workload::fio::{Surroundings, command_line, jobs, runs};

    #[test]
    fn what_is_reported_one_by_one_has_names_of_its_own() {
        let words = ["--filename=sim:", "--rw=randrw", "--name=a", "--numjobs=2", "--name=b", "--rw=read"];
        let line = command_line(&words.map(str::to_owned)).unwrap();
        let mut nothing = |_: &str| Err(String::new());
        let around = Surroundings {
            read: &mut nothing,
            variable: &|_| None,
            cpus: 1,
            page_bytes: 4096,
            memory_mbytes: 1,
            readonly: false,
        };
        let loads = jobs(&line.sections, &around, &mut Vec::new()).and_then(runs).unwrap();
        let names: Vec<_> = sides(&loads[0]).map(|(.., side)| side.name).collect();
        assert_eq!(names, ["a~1 reads", "a~1 writes", "a~2 reads", "a~2 writes", "b reads"]);
    }
}
