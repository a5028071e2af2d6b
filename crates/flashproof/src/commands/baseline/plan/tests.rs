use super::*;
use conclusions::testing::point;
use fio::{self, JobSection, ParseContext, Problem, jobs, runs};

fn form(seconds: u64) -> BaselineRequest {
    BaselineRequest {
        seconds,
        simulated: false,
        read_only: false,
        block_sizes: vec![4096],
        depth_max: 256,
        pts: Vec::new(),
        pts_sec: 60,
        threads: 1,
        min_io_bytes: 512,
    }
}

/// A drive of 10 channels. Each does 1,000 small operations per second, or a fifth of this number of large operations.
fn measured(job: &Job) -> Point {
    let depth = job.depth * job.numjobs;
    let made = |direction: usize| {
        let bytes = job.bytes[direction] as f64;
        let highest = if bytes > 4096.0 { 200.0 } else { 1_000.0 } * f64::from(depth.min(10));
        let offered = job.rates.map(|rates| rates[direction] as f64);
        job.does()[direction].then(|| (bytes, offered, offered.unwrap_or(highest), 1_000.0))
    };
    let Job {
        random,
        round,
        read_pct,
        seconds,
        ..
    } = *job;
    let read_pct = read_pct.into();
    let seconds = seconds as f64;
    Point {
        random,
        round,
        read_pct,
        seconds,
        job: job.line(),
        ..point(job.part, depth, made(0), made(1))
    }
}

fn all(form: &BaselineRequest) -> Vec<Job> {
    let mut points = Vec::new();
    let mut jobs = Vec::new();
    while let Some(job) = form.next(&points, 1 << 30) {
        points.push(measured(&job));
        jobs.push(job);
    }
    jobs
}

#[test]
fn the_jobs_of_a_baseline_take_no_longer_than_its_duration() {
    for seconds in [120, 599, 600, 21_600, 86_400] {
        let jobs = all(&form(seconds));
        let sum = jobs
            .iter()
            .map(|job| job.seconds * 1_000 + job.ramp_ms)
            .sum::<u64>()
            / 1_000;
        // The saturation is over after five of its 25 rounds.
        assert!(
            sum <= seconds && sum * 10 >= seconds * 6,
            "{sum} of {seconds} s"
        );
        assert!(jobs.iter().all(|job| job.seconds >= 1));
    }
    let shortest = form(form(0).seconds_min());
    assert!(all(&shortest).iter().map(|job| job.seconds).sum::<u64>() <= shortest.seconds);
}

#[test]
fn the_text_of_a_plan_names_a_saturation_only_if_drives_are_written() {
    let with_writes = BaselineRequest {
        depth_max: 4,
        ..form(600)
    };
    let read_only = BaselineRequest {
        read_only: true,
        ..with_writes.clone()
    };
    let snia = BaselineRequest {
        pts: vec![Pts::Iops],
        ..with_writes.clone()
    };
    let end = "jobs and the rounds of a saturation, 10 min under load";
    assert!(with_writes.text().ends_with(end), "{}", with_writes.text());
    let text = read_only.text();
    assert!(text.ends_with(" jobs, 10 min under load"), "{text}");
    assert!(snia.text().starts_with("by tests of SNIA's PTS"));
}

#[test]
fn jobs_have_a_ramp_that_depends_on_their_length() {
    let ramps = |seconds| {
        let mut jobs = all(&form(seconds));
        jobs.retain(|job| !matches!(job.part, JobPurpose::Saturation | JobPurpose::Watch));
        let ramp = |job: &Job| (job.seconds, job.ramp_ms);
        assert!(
            jobs.iter().all(|job| ramp(job) == ramp(&jobs[0])),
            "{jobs:?}"
        );
        (ramp(&jobs[0]), jobs[0].line())
    };
    let has = |line: &str, options: &str| assert!(line.contains(options), "{line}");
    // 95 s for 42 jobs; 405 s and 58,320 s for 70 jobs: the remaining time is for the saturation and the watches.
    let (ramp, line) = ramps(120);
    assert_eq!(ramp, (2, 261));
    has(&line, "--ramp_time=261ms --time_based=1 --runtime=2");
    let (ramp, line) = ramps(600);
    assert_eq!(ramp, (4, 1_000));
    has(&line, "--ramp_time=1 --time_based=1 --runtime=4");
    assert_eq!(ramps(86_400).0, (803, 30_000));
    let (ramp, line) = ramps(form(0).seconds_min());
    assert_eq!(ramp, (1, 0));
    assert!(!line.contains("ramp_time"), "{line}");
}

#[test]
fn queue_depths_double_up_to_the_maximum_and_rates_are_shares_of_the_highest_measured_rate() {
    let jobs = all(&form(600));
    let depths: Vec<_> = jobs
        .iter()
        .filter(|job| job.part == JobPurpose::Depth)
        .map(|job| job.depth)
        .collect();
    let once = [1, 2, 4, 8, 16, 32, 64, 128, 256];
    assert_eq!(depths, [once, once].concat());
    let profile = jobs.iter().find(|job| job.name == "95/5 of 128k").unwrap();
    // Depth 8 uses 8 of 10 channels and reaches only 80 % of the highest rate, so the profile has the next depth.
    assert_eq!((profile.depth, profile.read_pct), (16, 95));
    let rate = jobs
        .iter()
        .find(|job| job.name == "reads at 50 % of their highest rate")
        .unwrap();
    assert_eq!(rate.rates.unwrap()[0], 5_000);
    let cell = jobs
        .iter()
        .find(|job| job.name == "reads at 20 % beside 128k writes at 40 %")
        .unwrap();
    assert_eq!(cell.rates, Some([2_000, 800]));
    assert_eq!(
        jobs.iter()
            .filter(|job| job.part == JobPurpose::Grid)
            .count(),
        24
    );
    assert_eq!(
        jobs.iter()
            .filter(|job| job.part == JobPurpose::Saturation)
            .count(),
        5
    );
    assert_eq!(Some(jobs.len() - 5), form(600).jobs());
    assert_eq!(jobs.len(), form(600).jobs_min());
}

#[test]
fn a_watch_has_a_light_load_and_takes_a_tenth_of_the_time_or_hours_of_virtual_time() {
    let watches = |form: &BaselineRequest| {
        all(form)
            .into_iter()
            .filter(|job| job.part == JobPurpose::Watch)
            .collect::<Vec<_>>()
    };
    let real = watches(&form(600));
    assert_eq!(
        real.iter()
            .map(|job| (job.seconds, job.ramp_ms, job.round))
            .collect::<Vec<_>>(),
        [(60, 0, 0), (15, 0, 1)]
    );
    assert!(
        real[0]
            .line()
            .contains("--rate_iops=200,10 --rate_process=poisson"),
        "{}",
        real[0].line()
    );
    assert!(
        watches(&form(599)).is_empty()
            && watches(&BaselineRequest {
                read_only: true,
                ..form(600)
            })
            .is_empty()
    );
    let simulated = watches(&BaselineRequest {
        simulated: true,
        ..form(120)
    });
    assert_eq!(
        simulated.iter().map(|job| job.seconds).collect::<Vec<_>>(),
        [7_200, 60]
    );
    assert_eq!(BaselineRequest::seconds_for_watch(true, 10_800), Some(180));
    assert_eq!(
        (
            BaselineRequest::seconds_for_watch(true, 86_400),
            BaselineRequest::seconds_for_watch(false, 60)
        ),
        (None, Some(600))
    );
    // A drive with 200 writes/s, a tenth of `WATCHED_IOPS`, gets a tenth of `WATCH_RATES`.
    let mut slow = measured(&form(600).next(&[], 1 << 30).unwrap());
    slow.writes.as_mut().unwrap().iops = 200.0;
    let watch = form(600).next(&vec![slow; 5], 1 << 30).unwrap();
    assert_eq!(
        (watch.part, watch.rates),
        (JobPurpose::Watch, Some([20, 1]))
    );
}

#[test]
fn several_threads_have_the_same_total_depth_as_one() {
    let one = all(&form(600));
    let four = all(&BaselineRequest {
        threads: 4,
        ..form(600)
    });
    assert_eq!(one.len(), four.len());
    for (one, four) in one.iter().zip(&four) {
        assert_eq!(
            (one.depth, &one.name),
            (four.depth * four.numjobs, &four.name)
        );
        let is_low = one.rates.is_some_and(|rates| {
            rates
                .iter()
                .zip(one.does())
                .any(|(rate, does)| does && *rate < 1_000)
        });
        assert_eq!(
            four.numjobs,
            if is_low {
                1
            } else {
                (one.depth / 2).clamp(1, 4)
            },
            "{}",
            four.line()
        );
        let Some((one, each)) = one.rates.zip(four.rates) else {
            continue;
        };
        assert!(
            one.iter()
                .zip(each)
                .all(|(all, each)| all.abs_diff(each * u64::from(four.numjobs)) <= 3),
            "{one:?}"
        );
    }
}

#[test]
fn a_read_only_baseline_has_no_job_that_writes() {
    let jobs = all(&BaselineRequest {
        read_only: true,
        ..form(600)
    });
    assert!(jobs.len() > 15 && jobs.iter().all(|job| job.does() == [true, false]));
}

fn fio_jobs(sections: &[JobSection], warnings: &mut Vec<Problem>) -> Vec<fio::Job> {
    jobs(sections, &ParseContext::default(), warnings).unwrap()
}

#[test]
fn fio_parses_every_job_as_intended() {
    for job in all(&BaselineRequest {
        block_sizes: vec![1536, 4096],
        ..form(600)
    }) {
        let device = "/dev/disk/by-path/pci-0000:01:00.0";
        let mut warnings = Vec::new();
        let made = fio_jobs(&[job.section("baseline", device)], &mut warnings);
        assert!(
            warnings
                .iter()
                .all(|warning| warning.what.contains("has no effect")),
            "{warnings:?}"
        );
        let [fio] = &made[..] else { panic!("{made:?}") };
        assert_eq!(fio.files.names, [device]);
        assert_eq!(
            ([fio.does[0], fio.does[1]], fio.depth),
            (job.does(), job.depth.into()),
            "{}",
            job.line()
        );
        assert_eq!(fio.runtime_ns, Some(job.seconds * 1_000_000_000));
        for direction in (0..2).filter(|direction| job.does()[*direction]) {
            assert_eq!(
                fio.sizes[direction].mean_bytes(),
                job.bytes[direction] as f64,
                "{}",
                job.line()
            );
            let rate = fio.rates.targets[direction]
                .rate(4096.0)
                .map(|rate| rate.per_sec_f64() as u64);
            assert_eq!(
                rate,
                job.rates.map(|rates| rates[direction]),
                "{}",
                job.line()
            );
        }
        assert_eq!(runs(made).unwrap().len(), 1);
    }
}

#[test]
fn an_unsteady_saturation_ends_after_25_rounds() {
    let mut points = Vec::new();
    for round in 0..25 {
        let job = form(600).next(&points, 1 << 30).unwrap();
        assert_eq!(
            (job.part, job.round, job.position),
            (JobPurpose::Saturation, round, (0, round as usize))
        );
        let mut point = measured(&job);
        point.writes.as_mut().unwrap().iops =
            1_000.0 / f64::from(round + 1).sqrt() * [1.0, 0.6][round as usize % 2];
        points.push(point);
    }
    assert_eq!(
        form(600).next(&points, 1 << 30).unwrap().part,
        JobPurpose::Watch
    );
}

#[test]
fn tests_of_snia_run_in_whole_rounds_until_they_are_steady() {
    let tests = BaselineRequest {
        pts: vec![Pts::Latency, Pts::Throughput, Pts::Throughput128],
        ..form(600)
    };
    let jobs = all(&tests);
    let parts: Vec<_> = jobs.iter().map(|job| job.part).collect();
    assert_eq!(
        parts,
        [
            vec![JobPurpose::PtsLatency; 5 * 9],
            vec![JobPurpose::PtsThroughput; 5 * 4]
        ]
        .concat()
    );
    // Each size of the throughput test is a separate test, which begins with the purge.
    assert_eq!(
        (
            jobs[9].round,
            jobs[9].position,
            jobs[45].position,
            jobs[55].position
        ),
        (1, (0, 9), (1, 0), (2, 0))
    );
    assert_eq!(
        (jobs[46].bytes, jobs[56].bytes),
        ([1 << 20; 2], [128 << 10; 2])
    );
    assert!(
        jobs[..45]
            .iter()
            .all(|job| (job.depth, job.numjobs, job.random) == (1, 1, true))
    );
    assert!(
        jobs[45..]
            .iter()
            .all(|job| (job.depth, job.numjobs, job.random) == (32, 1, false))
    );
    // Two drives that run at the same time have one entry each.
    let iops = BaselineRequest {
        pts: vec![Pts::Iops],
        ..form(600)
    }
    .next(&[], 1 << 30)
    .unwrap();
    let sections = ["/dev/a", "/dev/b"].map(|device| iops.section(device, device));
    let load = runs(fio_jobs(&sections, &mut Vec::new()))
        .unwrap()
        .remove(0);
    assert_eq!((load.entries.len(), load.threads.len()), (2, 8));
    // 512 bytes are left out if the drive does not support them.
    let without = BaselineRequest {
        min_io_bytes: 4096,
        ..tests.clone()
    };
    assert_eq!(
        (all(&without).len(), tests.jobs_min()),
        (5 * 6 + 5 * 4, 5 * 6 + 5 * 4)
    );
}

#[test]
fn the_write_saturation_of_snia_ends_with_four_times_the_capacity() {
    let test = BaselineRequest {
        pts: vec![Pts::Saturation],
        ..form(600)
    };
    let mut points = Vec::new();
    // The drive is never steady: every other round is half as fast. 1.5 MB/s for 60 s are 90 MB per round.
    while let Some(job) = test.next(&points, 100_000_000) {
        let mut point = measured(&job);
        let writes = point.writes.as_mut().unwrap();
        (writes.iops, writes.mbps) = if points.len() % 2 == 0 {
            (200.0, 2.0)
        } else {
            (100.0, 1.0)
        };
        points.push(point);
    }
    assert_eq!(points.len(), 5, "120 + 60 + 120 + 60 + 120 MB");
    // If the drive is never filled, the test ends when the rate is steady.
    points.clear();
    while let Some(job) = test.next(&points, u64::MAX) {
        points.push(measured(&job));
    }
    assert_eq!(points.len(), 5 * 31);
}
