//! Runs the same job alternately with the real fio and flashproof, to check that both measure the same drive.
//!
//! ```text
//! FioLoad, open devices -> RealFio::run -> DirectionResults of fio          real_fio.rs
//! FioLoad, Totals       -> ours         -> DirectionResults of flashproof
//! logs of both          -> logged       -> LogSummary                       real_fio.rs
//! rounds of both        -> compare      -> CrossCheckResult
//! ```
//!
//! A difference counts only if it is larger than the differences between rounds of the same program. fio writes only to
//! descriptors from the guard, and ends when flashproof ends.

mod real_fio;

use conclusions::percentile::is_compared;
use load::workload::fio::{FioLoad, Job};
pub use real_fio::RealFio;
use real_fio::{LogSummary, logged};
use report::fio::Totals;
use report::table::Table;
use results::steady::median;
use results::units;
use serde_json::{Value, json};
use session::console;
use session::devices::Devices;
use session::failure::Failure;
use session::signals::SignalHandler;
use std::fmt::Write;

/// Rounds of each program, enough to separate a difference from noise.
pub const ROUNDS: usize = 3;

/// Runs `load` on `devices` alternately by fio and flashproof. `ours` runs a round of flashproof and returns its
/// results; if `ours` returns `None`, or on a signal, the check ends. `None`: a program did not complete any round.
pub fn in_turns(
    fio: &RealFio,
    load: &FioLoad,
    devices: &Devices,
    signal_handler: &SignalHandler,
    mut run_flashproof: impl FnMut(usize) -> Result<Option<Vec<DirectionResult>>, Failure>,
) -> Result<Option<CrossCheckResult>, Failure> {
    let mut rounds = [Vec::new(), Vec::new()];
    for (round, is_fio) in turns() {
        let results = match is_fio {
            true => {
                console::note(&format!("cross-check, round {round} of {ROUNDS}: {}", fio.version));
                fio.run(load, devices, signal_handler)?
            }
            false => run_flashproof(round)?,
        };
        let Some(results) = results else { break };
        rounds[usize::from(is_fio)].push(results);
    }
    let [ours, theirs] = &rounds;
    Ok((!ours.is_empty() && !theirs.is_empty()).then(|| compare(&fio.version, ours, theirs)))
}

/// Round numbers, and true for fio's turn. The programs alternate in starting a round, because each program leaves the
/// drive in a different state.
fn turns() -> impl Iterator<Item = (usize, bool)> {
    (1..=ROUNDS).flat_map(|round| [(round, round % 2 == 1), (round, round % 2 == 0)])
}

/// Percentiles that are compared.
const PERCENTILES: [f64; 5] = [50.0, 90.0, 99.0, 99.9, 99.99];

const DIRECTIONS: [&str; 3] = ["reads", "writes", "trims"];

/// Result of one direction of a job in one round of one program.
#[derive(Debug, Clone, Default)]
pub struct DirectionResult {
    /// Name, such as `mix reads`.
    pub name: String,
    /// True for a load with a rate.
    pub is_paced: bool,
    /// Operations that were done.
    pub ops: u64,
    /// True if the job's options determine the number of operations.
    pub is_exact: bool,
    /// Lines and operations of the logs; `None` without logs.
    pub logged: Option<LogSummary>,
    /// True if each operation has a line in the logs.
    pub is_each_logged: bool,
    pub iops: f64,
    /// Times from submission to completion at p50, p90, p99, p99.9 and p99.99, nanoseconds.
    pub latency_ns: [u64; PERCENTILES.len()],
    /// CPU time of the whole run per operation, nanoseconds.
    pub cpu_ns: f64,
    /// Longest wait for the queue depth limit; fio does not measure this wait.
    pub wait_max_ns: u64,
    /// Operations scheduled and never issued; fio does not count them.
    pub never_issued: u64,
}

/// Directions of the jobs of `load`: entry, direction, and a result without measured values.
fn named_directions(load: &FioLoad) -> impl Iterator<Item = (usize, usize, DirectionResult)> {
    load.reported().into_iter().filter(|(_, kind, _)| *kind < DIRECTIONS.len()).map(|(entry, direction, _)| {
        let job = &load.entries[entry].job;
        // Clones that are reported separately have the same name, so their numbers are added.
        let is_alone = load.entries.iter().filter(|other| other.job.name == job.name).count() == 1;
        let number =
            if is_alone { String::new() } else { format!("~{}", load.threads[load.entries[entry].threads[0]].number) };
        let name = format!("{}{number} {}", job.name, DIRECTIONS[direction]);
        let jobs = || load.threads_of(entry).map(|thread| &*thread.job);
        let result = DirectionResult {
            name,
            is_paced: job.has_rates(),
            is_exact: jobs().all(is_exact),
            is_each_logged: jobs().all(|job| job.log_avg_msec == 0),
            ..DirectionResult::default()
        };
        (entry, direction, result)
    })
}

/// True if the options of `job` alone determine its number of operations of each kind.
fn is_exact(job: &Job) -> bool {
    let is_one = job.directions().count() == 1 && job.unit_bytes() == job.largest_bytes();
    let is_whole = job.runtime_ns.is_none() && !job.time_based && !job.fills_device && job.iolog.is_none();
    let each_once = !job.random || job.has_map();
    is_one && is_whole && each_once && !job.zbd.is_on && job.steady == Default::default()
}

/// Results of flashproof's run of `load`, which used `cpu_ns`.
pub fn ours(load: &FioLoad, totals: &Totals, cpu_ns: u64) -> Vec<DirectionResult> {
    let ops: u64 = totals.kinds.iter().map(|kind| kind.ops).sum();
    let with_totals = |(entry, direction, result): (usize, usize, DirectionResult)| {
        let index = load.reported_at(entry, direction)?;
        let kind = totals.kinds.get(index)?;
        Some(DirectionResult {
            ops: kind.ops,
            iops: if kind.last_completion_ns > 0 {
                kind.ops as f64 * 1e9 / kind.last_completion_ns as f64
            } else {
                0.0
            },
            latency_ns: PERCENTILES.map(|percentile| kind.clat.value_at_percentile(percentile)),
            cpu_ns: cpu_ns as f64 / ops.max(1) as f64,
            wait_max_ns: kind.wait.max(),
            never_issued: kind.undone,
            logged: logged(load, entry, direction, None),
            ..result
        })
    };
    named_directions(load).filter_map(with_totals).collect()
}

/// Largest relative difference that counts as equal: both histograms have an error of 1 to 2 %.
const TOLERANCE: f64 = 0.05;

/// Largest time difference that counts as equal, ns.
const TOLERANCE_NS: f64 = 2_000.0;

/// Both programs side by side.
#[derive(Debug)]
pub struct CrossCheckResult {
    fio: String,
    rounds: [usize; 2],
    streams: Vec<Stream>,
}

#[derive(Debug)]
struct Stream {
    name: String,
    rows: Vec<Row>,
    notes: Vec<String>,
}

/// A number in each round of both programs.
#[derive(Debug)]
struct Row {
    name: String,
    values: [Vec<f64>; 2],
    /// `None`: agreement is not expected.
    agrees: Option<bool>,
    show: fn(f64) -> String,
}

impl Row {
    fn new(name: &str, values: [Vec<f64>; 2], tolerance: Option<f64>, show: fn(f64) -> String) -> Self {
        let agrees = tolerance.map(|least| agree(&values, least));
        Self { name: name.to_owned(), values, agrees, show }
    }

    /// A row of counts. If `is_exact`, the counts must be equal in all rounds of both programs.
    fn of_counts(name: &str, values: [Vec<f64>; 2], is_exact: bool) -> Self {
        let mut all_values = values.iter().flatten();
        let first = all_values.next().copied();
        let agrees = is_exact.then(|| all_values.all(|value| Some(*value) == first));
        Self { name: name.to_owned(), values, agrees, show: units::number }
    }

    fn medians(&self) -> [f64; 2] {
        [0, 1].map(|side: usize| median(&self.values[side]))
    }

    /// Relative difference between flashproof and fio.
    fn relative_difference(&self) -> f64 {
        let [ours, theirs] = self.medians();
        if theirs > 0.0 { ours / theirs - 1.0 } else { 0.0 }
    }

    fn differs(&self) -> bool {
        self.agrees == Some(false)
    }
}

/// True if the ranges of both programs overlap, or their medians are nearly equal.
fn agree(values: &[Vec<f64>; 2], absolute_tolerance: f64) -> bool {
    let [ours, theirs] = [0, 1].map(|side: usize| median(&values[side]));
    let difference = (ours - theirs).abs();
    let [low, high] = [f64::min as fn(f64, f64) -> f64, f64::max]
        .map(|fold| [0, 1].map(|side: usize| values[side].iter().copied().reduce(fold).unwrap_or(0.0)));
    difference <= TOLERANCE * ours.max(theirs)
        || difference <= absolute_tolerance
        || (low[0] <= high[1] && low[1] <= high[0])
}

/// Compares the rounds `ours` and `theirs`; `fio` is the version of fio. All rounds have results of the same
/// directions, in the same order.
pub fn compare(fio: &str, ours: &[Vec<DirectionResult>], theirs: &[Vec<DirectionResult>]) -> CrossCheckResult {
    let stream_count = ours.iter().chain(theirs).map(Vec::len).min().unwrap_or(0);
    let stream = |index: usize| {
        let rounds = [ours, theirs].map(|rounds| rounds.iter().map(|round| &round[index]).collect::<Vec<_>>());
        of_stream(&rounds)
    };
    CrossCheckResult {
        fio: fio.to_owned(),
        rounds: [ours.len(), theirs.len()],
        streams: (0..stream_count).map(stream).collect(),
    }
}

fn of_stream(rounds: &[Vec<&DirectionResult>; 2]) -> Stream {
    let values = |value_of: &dyn Fn(&DirectionResult) -> f64| {
        [0, 1].map(|side: usize| rounds[side].iter().map(|of_| value_of(of_)).collect())
    };
    let time = |ns: f64| units::duration(ns as u64);
    let mut rows = vec![Row::new("IOPS", values(&|side| side.iops), Some(1.0), |iops| units::number(iops.round()))];
    for (index, percentile) in PERCENTILES.into_iter().enumerate() {
        let is_known = rounds.iter().flatten().all(|side| is_compared(side.ops, percentile));
        let tolerance_ns = is_known.then_some(TOLERANCE_NS);
        rows.push(Row::new(
            &format!("p{percentile}"),
            values(&|side| side.latency_ns[index] as f64),
            tolerance_ns,
            time,
        ));
    }
    rows.push(Row::new("CPU each", values(&|side| side.cpu_ns), None, time));
    let mut notes = notes(&rows, &rounds[0]);
    let all = |is: &dyn Fn(&DirectionResult) -> bool| rounds.iter().flatten().all(|side| is(side));
    let (times, is_exact) = (rows.len(), all(&|side| side.is_exact));
    if is_exact {
        rows.push(Row::of_counts("operations", values(&|side| side.ops as f64), true));
    }
    if all(&|side| side.logged.is_some()) {
        let logged_values = |of: fn(&LogSummary) -> f64| values(&move |side| side.logged.as_ref().map_or(0.0, of));
        if all(&|side| side.logged.is_some_and(|logged| logged.lines > 0)) {
            let is_each_logged = all(&|side| side.is_each_logged);
            rows.push(Row::of_counts(
                "lines logged",
                logged_values(|logged| logged.lines as f64),
                is_exact && is_each_logged,
            ));
            rows.push(Row::new("mean logged", logged_values(|logged| logged.mean_ns), Some(TOLERANCE_NS), time));
        }
        if !all(&|side| side.logged.is_some_and(|logged| logged.binned == 0)) {
            // fio's histogram logs lack the last period.
            rows.push(Row::of_counts("in histograms", logged_values(|logged| logged.binned as f64), false));
        }
    }
    if let Some(row) = rows[times..].iter().find(|row| row.differs()) {
        notes.push(format!("{}: both programs ran the same options, but their numbers differ", row.name));
    }
    Stream { name: rounds[0].first().map(|side| side.name.clone()).unwrap_or_default(), rows, notes }
}

/// Notes on a stream with these `rows`; `ours` has data that fio lacks.
fn notes(rows: &[Row], ours: &[&DirectionResult]) -> Vec<String> {
    let is_paced = ours.iter().any(|side| side.is_paced);
    let (iops, times, cpu) = (&rows[0], &rows[1..=PERCENTILES.len()], &rows[PERCENTILES.len() + 1]);
    let mut notes = Vec::new();
    if iops.differs() {
        notes.push(match (is_paced, iops.relative_difference() > 0.0) {
            (true, true) => "fio fell behind the rate: fio waits for operations in flight before it sleeps until the \
                             next one is due, and issues nothing while its queue depth is full"
                .to_owned(),
            (true, false) => "flashproof did fewer operations: its queue depth was full, or it issued late; wait and \
                              lag in its report show which"
                .to_owned(),
            (false, _) => format!(
                "both programs keep the same queue depth, so the difference is the CPU time between a completion and \
                 the next operation: {} per operation with flashproof, {} with fio",
                (cpu.show)(cpu.medians()[0]),
                (cpu.show)(cpu.medians()[1])
            ),
        });
    }
    if let Some(row) = times.iter().find(|row| row.differs()) {
        notes.push(match (is_paced, row.relative_difference() > 0.0) {
            (true, true) => "with a rate, flashproof issues each operation at its scheduled time, and polls for \
                             completions once per wake-up period; fio waits for operations in flight before it sleeps, \
                             so fewer of its operations overlap"
                .to_owned(),
            (true, false) => "fio sees a completion later, at its next poll after issuing or sleeping".to_owned(),
            (false, _) if iops.differs() => "at a fixed queue depth, latency follows from the rate: the program with \
                                             the higher rate has the lower latency"
                .to_owned(),
            (false, true) => "flashproof's times run from the submission of a batch to the poll that finds the \
                              completion, perhaps together with other completions"
                .to_owned(),
            (false, false) => "fio's times begin earlier: they include filling the buffer and submitting the \
                               operation"
                .to_owned(),
        });
    }
    let wait_max_ns = ours.iter().map(|side| side.wait_max_ns).max().unwrap_or(0);
    let never_issued: u64 = ours.iter().map(|side| side.never_issued).sum();
    if is_paced && (wait_max_ns as f64 > TOLERANCE_NS || never_issued > 0) {
        notes.push(format!(
            "operations waited up to {} for a free slot of the queue depth, and {never_issued} were never issued: fio \
             does not report such waits",
            units::duration(wait_max_ns)
        ));
    }
    notes
}

impl CrossCheckResult {
    /// True if no number differs by more than noise.
    pub fn agrees(&self) -> bool {
        !self.streams.iter().flat_map(|stream| &stream.rows).any(Row::differs)
    }

    pub fn text(&self) -> String {
        let [ours, theirs] = self.rounds;
        let rounds = |count: usize| units::count(count as u64, "round");
        let mut text = format!(
            "Cross-check: {} of flashproof and {} of {} in turns, medians (the report above covers the last round); \
             times from submission to completion\n",
            rounds(ours),
            rounds(theirs),
            self.fio
        );
        let mut table = Table::new("").text(["", ""]).numbers(["flashproof", "fio", "difference"]).text([""]);
        for stream in &self.streams {
            for (number, row) in stream.rows.iter().enumerate() {
                let [ours, theirs] = row.medians().map(row.show);
                let word = match row.agrees {
                    Some(true) => "agrees",
                    Some(false) => "differs",
                    None => "",
                };
                let name = if number == 0 { units::in_one_line(&stream.name) } else { String::new() };
                table.row([
                    name,
                    row.name.clone(),
                    ours,
                    theirs,
                    format!("{:+.1} %", row.relative_difference() * 100.0),
                    word.into(),
                ]);
            }
        }
        let _ = write!(text, "{table}");
        for stream in &self.streams {
            for note in &stream.notes {
                let line = format!("{}: {note}", units::in_one_line(&stream.name));
                text += &units::wrapped(&line, "  ", 118);
            }
        }
        text + match self.agrees() {
            true => {
                "The programs agree: no number differs more between the programs than between rounds of one program.\n"
            }
            false => {
                "The programs disagree where a row says \"differs\": their rounds do not overlap, and their medians \
                 differ by more than 5 %.\n"
            }
        }
    }

    pub fn json(&self) -> Value {
        let row_json = |row: &Row| {
            let [ours, theirs] = &row.values;
            (row.name.clone(), json!({"flashproof": ours, "fio": theirs, "agrees": row.agrees}))
        };
        let stream_json = |stream: &Stream| {
            let numbers: serde_json::Map<_, _> = stream.rows.iter().map(row_json).collect();
            json!({"name": stream.name, "numbers": numbers, "notes": stream.notes})
        };
        let streams: Vec<_> = self.streams.iter().map(stream_json).collect();
        json!({"fio": self.fio, "agrees": self.agrees(), "streams": streams})
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use load::workload::fio::{ParseContext, command_line, jobs, runs};

    #[test]
    fn what_is_reported_one_by_one_has_names_of_its_own() {
        let words = ["--filename=sim:", "--rw=randrw", "--name=a", "--numjobs=2", "--name=b", "--rw=read"];
        let line = command_line(&words.map(str::to_owned)).unwrap();
        let loads = jobs(&line.sections, &ParseContext::default(), &mut Vec::new()).and_then(runs).unwrap();
        let names: Vec<_> = named_directions(&loads[0]).map(|(.., side)| side.name).collect();
        assert_eq!(names, ["a~1 reads", "a~1 writes", "a~2 reads", "a~2 writes", "b reads"]);
    }

    fn side(iops: f64, p50_ns: u64, is_paced: bool) -> DirectionResult {
        let latency_ns = [p50_ns, p50_ns * 2, p50_ns * 3, p50_ns * 4, p50_ns * 5];
        DirectionResult {
            name: "a reads".into(),
            ops: 1_000_000,
            iops,
            latency_ns,
            cpu_ns: 5_000.0,
            is_paced,
            ..DirectionResult::default()
        }
    }

    #[test]
    fn a_difference_counts_only_beyond_noise() {
        let rounds = |of: [(f64, u64); 3]| of.map(|(iops, p50)| vec![side(iops, p50, false)]);
        let steady = rounds([(1000.0, 100_000), (1010.0, 101_000), (990.0, 99_000)]);
        for (other, agrees) in [
            ([(1040.0, 97_000), (1030.0, 97_000), (1035.0, 97_000)], true),
            ([(1100.0, 100_000), (1110.0, 100_000), (1120.0, 100_000)], false),
            ([(1100.0, 100_000), (1110.0, 100_000), (1005.0, 100_000)], true),
            ([(1000.0, 120_000), (1000.0, 125_000), (1000.0, 130_000)], false),
        ] {
            let checked = compare("fio-3.33", &steady, &rounds(other));
            assert_eq!(checked.agrees(), agrees, "{}", checked.text());
            assert_eq!(checked.streams[0].notes.is_empty(), agrees, "a difference has an explanation");
            assert_eq!(checked.json()["agrees"], agrees);
        }
        let tiny = |p50| [vec![side(1000.0, p50, false)]];
        assert!(compare("fio-3.33", &tiny(400), &tiny(700)).agrees(), "300 ns are how each program stamps");
    }

    #[test]
    fn what_fio_does_not_count_is_said_even_where_they_agree() {
        let mut waited = side(1000.0, 100_000, true);
        (waited.wait_max_ns, waited.never_issued) = (3_000_000, 17);
        let checked = compare("fio-3.33", &[vec![waited]], &[vec![side(1000.0, 100_000, true)]]);
        assert!(checked.agrees());
        let text = checked.text();
        assert!(text.contains("waited up to 3 ms") && text.contains("17 were never issued"), "{text}");
    }

    #[test]
    fn a_percentile_of_too_few_operations_is_not_judged() {
        let few = |p50| [vec![DirectionResult { ops: 500, ..side(10.0, p50, false) }]];
        let checked = compare("fio-3.33", &few(100_000), &few(300_000));
        let judged: Vec<_> = checked.streams[0].rows.iter().map(|row| row.agrees).collect();
        assert_eq!(judged, [Some(true), Some(false), Some(false), None, None, None, None]);
    }
}
