//! Written directories are read back unchanged, also by other tools.

use super::*;
use crate::act_log::ActLogReader;
use crate::cell::{EarlierOps, Latencies, latencies};
use crate::counts::{Backlog, CellCounts};
use crate::testing::modified;
use base64::Engine;
use hdrhistogram::serialization::Deserializer;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
use proptest::prelude::*;
use std::fs;
use std::time::Duration;

#[test]
fn a_run_that_was_written_is_read_back_with_the_same_verdict() {
    let dir = tempfile::tempdir().unwrap();
    let manifest = manifest(2, 30, 1);
    let verdict = write_run(dir.path(), &manifest, 30);
    let run = read(dir.path()).unwrap();
    assert_eq!(run.manifest, manifest);
    assert_eq!(run.written, Some(verdict.clone()));
    assert_eq!(run.verdict, verdict);
    assert!(run.is_complete());
    assert_eq!(run.agrees(), Some(true));
    assert_eq!(run.intervals, 30);
    assert_eq!(run.remarks, [""; 0]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn every_interval_is_read_as_it_was_written(
        devices in 1_usize..4,
        interval_sec in prop::sample::select(vec![1_u64, 3, 10, 60]),
        intervals in 0_u64..25,
        missing in 0_u64..2,
    ) {
        let dir = tempfile::tempdir().unwrap();
        let manifest = manifest(devices, (intervals + missing) * interval_sec, interval_sec);
        let verdict = write_run(dir.path(), &manifest, intervals);
        let mut records = Intervals::open(dir.path(), &manifest).unwrap();
        prop_assert_eq!(records.columns(), ["temperature_c", "wear_pct"]);
        for index in 0..intervals {
            let interval = interval(&manifest, index);
            let mut counts = IntervalCounts::default();
            counts.set(&interval, manifest.sla.tightest_ns());
            counts.after_sec = (index + 1) * interval_sec;
            let record = records.next().unwrap().unwrap();
            prop_assert_eq!(&record.counts, &counts);
            let of_record = (record.counts.cpu_ns, record.counts.in_flight_max);
            prop_assert_eq!(of_record, (interval.cpu_ns, interval.in_flight_max));
            prop_assert_eq!(&record.telemetry, &telemetry(index));
        }
        prop_assert!(records.next().unwrap().is_none());
        let run = read(dir.path()).unwrap();
        prop_assert_eq!((run.verdict, run.remarks.len()), (verdict, 0));
    }
}

#[test]
fn operations_due_in_earlier_slices_are_read_back_into_those_slices() {
    let dir = tempfile::tempdir().unwrap();
    let manifest = modified(manifest(1, 3, 1), |it| it.slice_sec = 1);
    let mut writer = begin(dir.path(), &manifest);
    let mut judge = manifest.judge();
    let mut counts = IntervalCounts::default();
    for index in 0..3 {
        let mut interval = Interval::new(&manifest.layout());
        (interval.index, interval.end_ns) = (index, (index + 1) * SEC);
        let cell = &mut interval.cells[0];
        (0..10).for_each(|_| cell.record(&Times::new(0, 0, 0, 100_000), 0, 1536));
        if index == 2 {
            // The first slice has an operation that completed within the grace period, and a lost operation.
            cell.record(&Times::new(0, 0, 0, SEC * 3 / 2), 0, 1536);
            cell.record_missed(1, 1);
            cell.record_lost(SEC / 2);
            cell.record_errors(3, 2);
            (cell.counts.silent_ns, cell.counts.slots_used_by) = (70_000_000, 2);
            let mut carried = cell.counts;
            carried.subtract(&CellCounts {
                ops: 10,
                bytes: 15_360,
                silent_ns: 70_000_000,
                ..CellCounts::default()
            });
            carried.slots_used_by = 0;
            interval.carried.push(EarlierOps {
                cell: 0,
                step: 0,
                counts: carried,
            });
        }
        counts.set(&interval, manifest.sla.tightest_ns());
        judge.add(&interval);
        writer.write_interval(&interval, &telemetry(index)).unwrap();
    }
    writer.finish(&judge.verdict(&End::Completed)).unwrap();
    let mut records = Intervals::open(dir.path(), &manifest).unwrap();
    (0..2).for_each(|_| _ = records.next().unwrap());
    counts.after_sec = 3;
    assert_eq!(records.next().unwrap().unwrap().counts, counts);
    let run = read(dir.path()).unwrap();
    assert_eq!((run.agrees(), &run.remarks[..]), (Some(true), &[][..]));
    let slices = &run
        .verdict
        .groups
        .iter()
        .find(|group| group.stream == "reads")
        .unwrap()
        .slices;
    assert_eq!(
        slices
            .iter()
            .map(|slice| slice.scheduled)
            .collect::<Vec<_>>(),
        [15, 10, 10]
    );
    assert_eq!(run.verdict.undone[0].slice, 1);
    assert_eq!(run.verdict.undone[0].missed, 2);
}

#[test]
fn a_table_of_format_2_lacks_the_count_of_wrong_data() {
    let sla = Sla::default();
    let header = tables::header(&sla);
    let older = header.strip_suffix(",wrong_data").unwrap();
    let is_read =
        |header: &str, format: u32| tables::ColumnMap::read(header, &sla, format).is_some();
    assert!(is_read(&header, 3) && is_read(older, 2) && !is_read(older, 3));
}

#[test]
fn the_tables_are_plain_csv() {
    let dir = tempfile::tempdir().unwrap();
    let manifest = manifest(2, 2, 1);
    let mut writer = begin(dir.path(), &manifest);
    let mut interval = Interval::new(&manifest.layout());
    interval.end_ns = SEC;
    interval.cpu_ns = 12_000;
    interval.in_flight_max = 3;
    interval.cells[1].record(&Times::new(0, 0, 200_000, 1_100_000), 0, 1536);
    interval.cells[1].record(&Times::new(0, 0, 0, 8_040_000), 60_000, 1536);
    interval.cells[2].record(&Times::new(0, 0, 0, 999_999), 0, 1536);
    interval.cells[7].record_errors(1, 0);
    interval.cells[1].counts.backlog = Backlog {
        in_flight: 3,
        waiting: 0,
        late: 1,
    };
    interval.cells[6].counts.backlog.waiting = 7;
    interval.run_delay_ns = 4_000;
    interval.gap.record(49_000).unwrap();
    writer
        .write_interval(&interval, &["41, \"hot\"\n".to_owned(), String::new()])
        .unwrap();
    // The run stops in the middle of the second interval: an interval without an operation has a line, too.
    interval.clear();
    interval.index = 1;
    interval.end_ns = SEC * 3 / 2;
    writer.write_interval(&interval, &telemetry(1)).unwrap();
    let text = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap();
    assert_eq!(
        text(INTERVALS),
        "after_sec,stream,device,ops,bytes,in_flight,waiting,late,errors,overtime,unissued,\
         judged_over_1ms,judged_least_over_1ms,response_over_1ms,service_over_1ms,\
         wait_ns_over_1ms,lag_ns_over_1ms,service_ns_over_1ms,unseen_ns_over_1ms,held_ns_over_1ms,\
         judged_over_8ms,judged_least_over_8ms,response_over_8ms,service_over_8ms,\
         wait_ns_over_8ms,lag_ns_over_8ms,service_ns_over_8ms,unseen_ns_over_8ms,held_ns_over_8ms,\
         judged_over_64ms,judged_least_over_64ms,response_over_64ms,service_over_64ms,\
         wait_ns_over_64ms,lag_ns_over_64ms,service_ns_over_64ms,unseen_ns_over_64ms,held_ns_over_64ms,\
         last_back_ns,slice,lost,missed,missed_least,late_ops,late_max_ns,silent_ns,held_by,wrong_data\n\
         1,reads,1,2,3072,3,0,1,0,0,0,1,1,2,1,0,200000,8940000,60000,0,1,0,1,1,0,0,8040000,60000\n\
         1,writes,0,1,1536\n\
         1,large-block-writes,0,0,0,0,7\n\
         1,large-block-writes,1,0,0,0,0,0,1,0,0,1,1,1,0,0,0,0,0,0,1,1,1,0,0,0,0,0,0,1,1,1\n"
    );
    let gap_max_ns = interval_gap_max(49_000);
    assert_eq!(
        text(TELEMETRY),
        format!(
            "interval,after_sec,end_ns,lines,gaps,gaps_over,gap_max_ns,cpu_ns,run_delay_ns,in_flight_max,temperature_c,wear_pct\n\
             0,1,1000000000,4,1,0,{gap_max_ns},12000,4000,3,41   hot  ,\n\
             1,2,1500000000,0,0,0,0,0,0,0,1.5,\n"
        )
    );
}

fn interval_gap_max(value_ns: u64) -> u64 {
    let mut gap = latencies();
    gap.record(value_ns).unwrap();
    gap.max()
}

#[test]
fn an_interval_cut_short_is_labelled_with_the_second_in_which_it_ended() {
    let dir = tempfile::tempdir().unwrap();
    let manifest = manifest(1, 100, 10);
    let mut writer = begin(dir.path(), &manifest);
    for (index, end_ns) in [(0, 10 * SEC), (1, 13 * SEC + 1)] {
        writer
            .write_interval(
                &Interval {
                    index,
                    end_ns,
                    ..interval(&manifest, index)
                },
                &telemetry(index),
            )
            .unwrap();
    }
    writer
        .write_error("reading /dev/nvme0n1 at 4096 - EIO")
        .unwrap();
    drop(writer);
    let log = fs::read(dir.path().join(ACT_LOG)).unwrap();
    let mut reader = ActLogReader::new(log.as_slice()).unwrap();
    assert_eq!(Some(reader.header()), manifest.act_header(0).as_ref());
    let chunks: Vec<_> = reader.by_ref().map(Result::unwrap).collect();
    let [first, second] = &chunks[..] else {
        panic!("{chunks:?}")
    };
    assert_eq!((first.after_sec, second.after_sec), (10, 14));
    assert!(log.ends_with(b"\n\nERROR: reading /dev/nvme0n1 at 4096 - EIO\n"));
    let ops: u64 = (0..2)
        .map(|index| interval(&manifest, index).cells[0].counts.ops)
        .sum();
    assert_eq!(second.histograms[0].total(), ops);
    assert_eq!(reader.truncation(), None);
}

/// Reads a log with the histogram crate alone, as other tools would.
fn decoded(path: &Path) -> Vec<(String, Duration, Duration, f64, Latencies)> {
    let bytes = fs::read(path).unwrap();
    let started = Duration::from_millis(1_790_000_000_123);
    let mut lines = Vec::new();
    let mut times = 0;
    for entry in IntervalLogIterator::new(&bytes) {
        match entry.unwrap() {
            LogEntry::StartTime(time) | LogEntry::BaseTime(time) => {
                assert_eq!(time, started);
                times += 1;
            }
            LogEntry::Interval(line) => {
                let bytes = base64::engine::general_purpose::STANDARD
                    .decode(line.encoded_histogram())
                    .unwrap();
                let histogram = Deserializer::new()
                    .deserialize(&mut bytes.as_slice())
                    .unwrap();
                let tag = line.tag().unwrap().as_str().to_owned();
                lines.push((
                    tag,
                    line.start_timestamp(),
                    line.duration(),
                    line.max(),
                    histogram,
                ));
            }
        }
    }
    assert_eq!(times, 2);
    lines
}

#[test]
fn interval_logs_are_read_by_the_tools_of_their_format_and_match_the_sorted_samples() {
    let dir = tempfile::tempdir().unwrap();
    let manifest = manifest(1, 10, 1);
    let mut writer = begin(dir.path(), &manifest);
    let mut numbers = Numbers(1);
    let mut samples_ns = Vec::new();
    for index in 0..10 {
        let mut interval = Interval {
            index,
            end_ns: (index + 1) * SEC,
            ..Interval::new(&manifest.layout())
        };
        for _ in 0..500 {
            let magnitude = numbers.below(27);
            let service_ns = numbers.below(1 << magnitude);
            samples_ns.push(service_ns);
            interval.cells[0].record(&Times::new(0, 0, 0, service_ns), 0, 1536);
        }
        writer.write_interval(&interval, &telemetry(index)).unwrap();
    }
    samples_ns.sort_unstable();
    let lines = decoded(&dir.path().join("service.hlog"));
    let [(tag, start, length, max_ms, histogram)] = &lines[..] else {
        panic!("{}", lines.len())
    };
    assert_eq!(tag.as_str(), "reads@/dev/nvme0n1");
    assert_eq!(*start, Duration::ZERO);
    assert_eq!(*length, Duration::from_secs(10));
    assert!((max_ms - *samples_ns.last().unwrap() as f64 / 1e6).abs() < 0.01 * max_ms);
    for quantile in [0.01, 0.5, 0.9, 0.99, 0.999, 1.0] {
        let exact_ns =
            samples_ns[((samples_ns.len() as f64 * quantile).ceil() as usize).max(1) - 1];
        let told_ns = histogram.value_at_quantile(quantile);
        assert!(
            told_ns >= exact_ns && told_ns as f64 <= exact_ns as f64 * 1.01 + 1024.0,
            "{quantile}: {told_ns} for {exact_ns}"
        );
    }
}

#[test]
fn windows_last_at_least_ten_seconds_and_lose_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let manifest = modified(manifest(2, 32, 4), |it| it.round_sec = 60);
    write_run(dir.path(), &manifest, 8);
    let mut expected = Interval::new(&manifest.layout());
    (0..8)
        .for_each(|index| expected.merge(&modified(interval(&manifest, index), |it| it.index = 0)));
    for kind in HlogKind::ALL {
        let mut times = Vec::new();
        let mut seen = vec![latencies(); manifest.layout().cells()];
        each_window(dir.path(), &manifest.layout(), kind, |window| {
            times.push((window.from_sec, window.length_sec));
            seen[window.cell].add(&window.histogram).unwrap();
        })
        .unwrap();
        times.dedup();
        assert_eq!(times, [(0.0, 12.0), (12.0, 12.0), (24.0, 8.0)]);
        for (seen, cell) in seen.iter().zip(&expected.cells) {
            let (exact, resolution) = match kind {
                HlogKind::Service => (&cell.service, 0.0),
                HlogKind::Wait => (&cell.wait, 1.0 / 16.0),
                HlogKind::Lag => (&cell.lag, 1.0 / 16.0),
            };
            assert_eq!(seen.len(), exact.len());
            for quantile in [0.1, 0.5, 0.99, 1.0] {
                let told = seen.value_at_quantile(quantile) as f64;
                let exact = exact.value_at_quantile(quantile) as f64;
                assert!(
                    (told - exact).abs() <= exact * (resolution + 0.01) + 1024.0,
                    "{kind:?} {quantile}: {told} for {exact}"
                );
            }
        }
    }
}
