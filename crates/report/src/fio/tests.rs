//! Output of a two-second run.

use super::*;
use results::cell::{Interval, Layout, StreamInfo};
use results::times::Times;
use serde_json::Value;

const MS: u64 = 1_000_000;

/// 1,000 reads of 4 KiB per second: in the first second 120 us each; in the next, a wait of 1 ms, then 3 ms.
fn totals() -> RunningTotals {
    let info = StreamInfo {
        name: "a".into(),
        judged: true,
        offered_iops: 0.0,
        workload: 0,
        ..StreamInfo::default()
    };
    let layout = Layout {
        streams: vec![info],
        devices: vec!["d".into()],
        thresholds_ns: [MS].into(),
    };
    let mut totals = RunningTotals::joined([1]);
    for second in 0..2 {
        let mut interval = Interval {
            end_ns: (second + 1) * 1_000 * MS,
            ..Interval::new(&layout)
        };
        let (wait_ns, service_ns) = [(0, 120_000), (MS, 3 * MS)][second as usize];
        for _ in 0..1_000 {
            interval.cells[0].record(
                &Times::new(0, wait_ns, wait_ns, wait_ns + service_ns),
                0,
                4_096,
            );
        }
        interval.close();
        totals.add(&interval, 1);
    }
    totals
}

fn page(totals: &RunningTotals) -> FioReport<'_> {
    let job = JobReport {
        verified: None,
        name: "a".into(),
        group: 0,
        jobs: 1,
        description: String::new(),
        options: vec![("bs".into(), "4k".into())],
        depth: 8,
        target: Some(LatencyTargetResult {
            latency_ns: 500_000,
            window_us: 2_000_000,
            percentile: 99.9,
        }),
        begin_ns: 0,
        end_ns: totals.ran_ns,
        kinds_ns: [totals.ran_ns; KINDS],
        started_unix_ms: 1_699_999_998_000,
        error: None,
        levels: [100, 0, 300, 0, 0, 0, 0],
        kinds: [Some(&totals.kinds[0]), None, None, None],
        percentiles_of: [true, false],
        percentiles: vec![50.0, 99.0],
        kb_base: 1024,
        elapsed_ns: totals.ran_ns,
        cpu: Cpu {
            user_ns: 200 * MS,
            system_ns: 500 * MS,
            switches: 9,
            ..Cpu::default()
        },
        steady: None,
        priorities: Vec::new(),
    };
    FioReport {
        jobs: vec![job],
        global: Vec::new(),
        disks: Vec::new(),
        unix_ms: 1_700_000_000_000,
        pid: 7,
        results: Vec::new(),
    }
}

#[test]
fn json_has_the_recorded_values_under_the_names_of_fio() {
    let totals = totals();
    let json: Value = serde_json::from_str(&json(&page(&totals), true)).unwrap();
    let job = &json["jobs"][0];
    let read = &job["read"];
    assert_eq!(
        (&read["total_ios"], &read["io_bytes"], &read["runtime"]),
        (&2_000.into(), &8_192_000.into(), &2_000.into())
    );
    assert_eq!(
        (&read["iops"], &read["bw_bytes"]),
        (&1_000.0.into(), &4_096_000.into())
    );
    let near = |value: &Value, expected: f64| {
        let value = value.as_f64().unwrap();
        assert!(
            (value - expected).abs() <= expected * 0.01,
            "{value}, not {expected}"
        );
    };
    near(&read["clat_ns"]["percentile"]["50.000000"], 1.2e5);
    near(&read["clat_ns"]["percentile"]["99.000000"], 3e6);
    near(&read["clat_ns"]["mean"], 1.56e6);
    near(&read["clat_ns"]["stddev"], 1.44e6);
    near(&read["wait_ns"]["mean"], 5e5);
    near(&read["iops_mean"], 1_000.0);
    assert_eq!(read["clat_ns"]["bins"].as_object().unwrap().len(), 2);
    assert_eq!(
        (&job["latency_us"]["250"], &job["latency_ms"]["4"]),
        (&50.0.into(), &50.0.into())
    );
    assert_eq!(
        (&job["iodepth_level"]["1"], &job["iodepth_level"]["4"]),
        (&25.0.into(), &75.0.into())
    );
    assert_eq!(
        (&job["usr_cpu"], &job["sys_cpu"]),
        (&10.0.into(), &25.0.into())
    );
    assert_eq!(job["write"]["total_ios"], 0);
    assert_eq!(
        (&job["ctx"], &read["bw_agg"], &job["write"]["bw_agg"]),
        (&9.into(), &100.0.into(), &0.0.into())
    );
    assert_eq!(
        (&job["latency_depth"], &job["latency_target"]),
        (&8.into(), &500_000.into())
    );
    assert_eq!(
        (&job["latency_window"], &job["latency_percentile"]),
        (&2_000_000.into(), &99.9.into())
    );
    assert_eq!(json["time"], "Tue Nov 14 22:13:20 2023");
}

#[test]
fn each_field_of_the_terse_output_is_at_the_position_that_fio_uses() {
    let totals = totals();
    let line = terse(&page(&totals));
    let fields: Vec<_> = line.trim_end().split(';').collect();
    // fio 3.33 also prints 121 fields if there is no disk.
    assert_eq!(fields.len(), 121);
    assert_eq!(
        fields[..9],
        [
            "3", "fio-3.33", "a", "0", "0", "8000", "4000", "1000", "2000"
        ]
    );
    assert_eq!(
        fields[17..21],
        ["50.000000%=120", "99.000000%=3014", "0%=0", "0%=0"]
    );
    assert_eq!(
        (fields[46], fields[87], fields[88]),
        ("0", "10.000000%", "25.000000%"),
        "writes, and CPU"
    );
    assert_eq!(fields[92..95], ["25.0%", "0.0%", "75.0%"]);
    assert_eq!(
        (fields[105], fields[110]),
        ("50.00%", "50.00%"),
        "up to 250 us, and up to 4 ms"
    );
}

#[test]
fn runtime_and_rate_of_a_job_that_began_late_count_from_its_beginning() {
    let totals = totals();
    let mut page = page(&totals);
    (page.jobs[0].begin_ns, page.jobs[0].kinds_ns) = (1_000 * MS, [1_000 * MS; KINDS]);
    let json: Value = serde_json::from_str(&json(&page, false)).unwrap();
    let read = &json["jobs"][0]["read"];
    assert_eq!(
        (&read["runtime"], &read["iops"]),
        (&1_000.into(), &2_000.0.into())
    );
    page.jobs[0].kinds_ns = [MS / 2; KINDS];
    assert!(
        normal(&page).contains("run=1-1msec"),
        "as in fio, a run has at least 1 ms"
    );
}

#[test]
fn the_normal_output_has_lines_in_the_format_of_fio() {
    let totals = totals();
    let text = normal(&page(&totals));
    for line in [
        "  read: IOPS=1000, BW=4000KiB/s (4096kB/s)(8000KiB/2000msec)",
        "     | 50.00th=[  120], 99.00th=[ 3014]",
        "   iops        : min= 1000, max= 1000, avg=1000.00, stdev= 0.00, samples=2",
        "  lat (usec)   : 250=50.00%",
        "  lat (msec)   : 4=50.00%",
        "  cpu          : usr=10.00%, sys=25.00%, ctx=9, majf=0, minf=0",
        "  IO depths    : 1=25.0%, 2=0.0%, 4=75.0%, 8=0.0%, 16=0.0%, 32=0.0%, >=64=0.0%",
        "     latency   : target=500000, window=2000000, percentile=99.90%, depth=8",
        "     issued rwts: total=2000,0,0,0 short=0,0,0,0 dropped=0,0,0,0",
        "   READ: bw=4000KiB/s (4096kB/s), 4000KiB/s-4000KiB/s (4096kB/s-4096kB/s), io=8000KiB (8192kB), run=2000-2000msec",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
}

#[test]
fn numbers_are_shortened_as_by_fio() {
    for (value, binary, text) in [
        (26_185, false, "26.2k"),
        (2_782, false, "2782"),
        (107_000_000, false, "107M"),
        (107_000_000, true, "102Mi"),
        (2_895_872, true, "2828Ki"),
        (0, true, "0"),
        (u64::MAX, true, "16.0Ei"),
    ] {
        assert_eq!(normal::short(value, 4, binary, ""), text);
    }
}

#[test]
fn counts_of_each_bucket_are_added_and_empty_buckets_change_no_extreme() {
    let mut part = results::cell::latencies();
    let mut total = durations();
    add(&mut total, &part);
    assert_eq!((total.len(), total.max()), (0, 0));
    let values = [
        (0, 7),
        (1, 1),
        (2_047, 2),
        (2_048, 3),
        (2_050, 1),
        (3 * MS, 4),
        (1 << 39, u32::MAX),
    ];
    for (value, count) in values {
        part.record_n(value, count).unwrap();
    }
    add(&mut total, &part);
    add(&mut total, &part);
    let counts = total
        .iter_recorded()
        .map(|bucket| (bucket.value_iterated_to(), bucket.count_at_value()));
    let twice = part.iter_recorded().map(|bucket| {
        (
            bucket.value_iterated_to(),
            2 * u64::from(bucket.count_at_value()),
        )
    });
    assert_eq!(counts.collect::<Vec<_>>(), twice.collect::<Vec<_>>());
    assert_eq!(
        (total.len(), total.min(), total.max()),
        (2 * part.len(), 0, part.max())
    );
    let mut positive = results::cell::latencies();
    positive.record(3 * MS).unwrap();
    let mut total = durations();
    add(&mut total, &positive);
    assert_eq!((total.min(), total.max()), (positive.min(), positive.max()));
}
