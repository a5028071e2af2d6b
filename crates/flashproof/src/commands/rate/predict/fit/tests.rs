use super::*;
use conclusions::baseline::LatencyStats;
use conclusions::testing;

/// A job's point on a drive, as a baseline would have it.
fn point(
    drive: &str,
    part: JobPurpose,
    depth: u32,
    ways: [Option<(u32, Option<f64>)>; 2],
) -> Point {
    // Values of one operation in 10 s, replaced below by the simulated results.
    let made = |way: Option<(u32, Option<f64>)>| {
        way.map(|(bytes, offered)| (f64::from(bytes), offered, 0.1, 0.0))
    };
    let made_up = testing::point(part, depth, made(ways[0]), made(ways[1]));
    let mut point = Point {
        job: format!("{ways:?}"),
        read_pct: 0.0,
        seconds: 5.0,
        mean_in_flight: None,
        ..made_up
    };
    let drive = drive.parse().unwrap();
    let (times, seconds) = job_of(&point).unwrap().all(&drive, 5_000_000_000);
    for (done, times_ns) in [&mut point.reads, &mut point.writes].into_iter().zip(times) {
        let Some(done) = done else { continue };
        let us: Vec<f64> = times_ns.iter().map(|ns| *ns as f64 / 1e3).collect();
        let count = us.len() as f64;
        let mean_us = us.iter().sum::<f64>() / count;
        let variance = us.iter().map(|us| (us - mean_us).powi(2)).sum::<f64>() / count;
        let at = |percent: f64| us[((count - 1.0) * percent / 100.0).round() as usize];
        done.ops = us.len() as u64;
        done.iops = count / seconds;
        done.answer = LatencyStats {
            mean_us,
            stdev_us: variance.sqrt(),
            min_us: us[0],
            max_us: us[us.len() - 1],
            percentiles_us: LatencyStats::PERCENTILES.map(at).to_vec(),
        };
    }
    point
}

/// A short baseline: depths, sizes, profiles, parts of the highest rates.
fn baseline(drive: &str) -> Vec<Point> {
    const SMALL: u32 = 4 << 10;
    const LARGE: u32 = 128 << 10;
    let mut points = Vec::new();
    for depth in [1, 4, 16, 256] {
        points.push(point(
            drive,
            JobPurpose::Depth,
            depth,
            [Some((SMALL, None)), None],
        ));
        points.push(point(
            drive,
            JobPurpose::Depth,
            depth,
            [None, Some((SMALL, None))],
        ));
    }
    for size in [SMALL, LARGE] {
        points.push(point(
            drive,
            JobPurpose::Profile,
            16,
            [Some((size, None)), None],
        ));
        points.push(point(
            drive,
            JobPurpose::Profile,
            16,
            [Some((size, None)), Some((size, None))],
        ));
        points.push(point(
            drive,
            JobPurpose::Profile,
            16,
            [None, Some((size, None))],
        ));
    }
    let most = points[6].reads.as_ref().unwrap().iops;
    for part in [0.3, 0.6, 0.9] {
        points.push(point(
            drive,
            JobPurpose::Rate,
            64,
            [Some((SMALL, Some(most * part))), None],
        ));
    }
    points
}

#[test]
fn a_fit_recovers_the_parameters_of_a_simulated_drive() {
    let drives = [
        "sim:channels=8+read-us=90+write-us=30+read-mbps=1200+write-mbps=600+jitter-pct=30",
        "sim:channels=2+read-us=700+write-us=500+jitter-pct=20+stall-ms=7+stall-every-s=0.25",
        "sim:channels=32+read-us=20+write-us=40+read-mbps=0+write-mbps=0+read-iops=3000+write-iops=4000+window-ms=100",
    ];
    for drive in drives {
        let fit = fit(&baseline(drive), 64 << 30, 512, None).unwrap();
        println!("{drive}\n{fit:#?}");
        assert!(
            fit.error_pct < 1.0 && fit.misses.is_empty() && !fit.doubtful,
            "{fit:#?}"
        );
        for (name, value) in drive["sim:".len()..]
            .split('+')
            .filter_map(|given| given.split_once('='))
        {
            let value: f64 = value.parse().unwrap();
            let found = fit
                .parameters
                .iter()
                .find(|parameter| parameter.name == name);
            // If the drive has no bandwidth limit, no job meets such a limit, so the parameter is not found.
            let Some(found) = found else {
                assert_eq!(value, 0.0);
                continue;
            };
            let near = match name {
                "stall-every-s" => 0.2,
                "stall-ms" | "window-ms" | "jitter-pct" => 0.1,
                _ => 0.05,
            };
            assert!(
                (found.value / value - 1.0).abs() <= near,
                "{name} is {found:?}, not {value}\n{fit:#?}"
            );
            let within = found.low.is_none_or(|low| low <= value)
                && found.high.is_none_or(|high| value <= high);
            assert!(within, "{name} is {value}, not within {found:?}");
        }
    }
}

#[test]
fn a_simulated_job_meets_one_stall_per_period() {
    let drive = "sim:channels=2+read-us=700+jitter-pct=0+stall-ms=7+stall-every-s=0.25";
    // 5 s hold 20 stalls. Each stall delays the operations in flight: at most one on each of the two channels.
    for (depth, delayed) in [(1, 20), (2, 40)] {
        let point = point(drive, JobPurpose::Depth, depth, [Some((4096, None)), None]);
        let (times, seconds) = job_of(&point)
            .unwrap()
            .all(&drive.parse().unwrap(), 5_000_000_000);
        assert_eq!(
            times[0].iter().filter(|ns| **ns > 5_000_000).count(),
            delayed,
            "in {seconds} s at depth {depth}"
        );
    }
}

#[test]
fn a_parameter_without_an_upper_bound_has_its_maximum_in_the_fastest_drive_of_the_fit() {
    // Reads reach 300 MB/s with 30 of the 256 channels, so no point shows the others.
    let fit = fit(
        &baseline("sim:channels=256+read-us=400+read-mbps=300"),
        64 << 30,
        512,
        None,
    )
    .unwrap();
    let channels = &fit.parameters[0];
    assert!(
        channels.low.is_some_and(|low| low < 64.0) && channels.high.is_none(),
        "{fit:#?}"
    );
    assert!(fit.fast.steady.contains("+channels=4096+"), "{fit:#?}");
    assert!(
        fit.slow
            .steady
            .contains(&format!("+channels={}+", channels.low.unwrap())),
        "{fit:#?}"
    );
}

#[test]
fn a_short_simulation_of_a_mixed_load_is_within_10_percent_of_the_read_rate_of_a_5_s_simulation() {
    let drive = "sim:channels=64+write-mbps=50";
    let small = Some((4_096, None));
    let mut mix = point(drive, JobPurpose::Profile, 64, [small, small]);
    mix.reads.as_mut().unwrap().ops = 19 * mix.writes.as_ref().unwrap().ops;
    let job = job_of(&mix).unwrap();
    let drive = drive.parse().unwrap();
    let (times, seconds) = job.all(&drive, 5_000_000_000);
    let iops = job.run(&drive)[0].unwrap().iops;
    assert!(
        (iops * seconds / times[0].len() as f64 - 1.0).abs() < 0.1,
        "{iops}, and {} in {seconds} s",
        times[0].len()
    );
}

#[test]
fn an_iops_limit_is_distinguished_from_a_bandwidth_limit_by_rates_alone() {
    let drive = "sim:channels=32+read-us=20+write-us=40+read-mbps=0+write-mbps=0+read-iops=3000+write-iops=4000+window-ms=100";
    let large = |offered| Some((128 << 10, Some(offered)));
    // Closed loops of large operations are left out, as if a busy machine had made them unreliable.
    let mut points: Vec<_> = baseline(drive)
        .into_iter()
        .filter(|point| point.part != JobPurpose::Profile)
        .collect();
    points.push(point(
        drive,
        JobPurpose::Grid,
        64,
        [large(1_500.0), large(2_000.0)],
    ));
    let fit = fit(&points, 64 << 30, 512, None).unwrap();
    let found = fit
        .parameters
        .iter()
        .find(|parameter| parameter.name == "write-iops");
    assert!(
        found.is_some_and(|found| (found.value / 4_000.0 - 1.0).abs() < 0.05)
            && fit.misses.is_empty(),
        "{fit:#?}"
    );
}

#[test]
fn a_fit_that_misses_half_of_the_points_is_doubtful() {
    // Every other job meets a drive that is busy with something else.
    let mut points = baseline("sim:channels=8+read-us=90+write-us=30");
    for point in points.iter_mut().step_by(2) {
        for done in [&mut point.reads, &mut point.writes].into_iter().flatten() {
            done.iops /= 20.0;
            done.answer
                .percentiles_us
                .iter_mut()
                .for_each(|us| *us *= 20.0);
        }
    }
    let fit = fit(&points, 64 << 30, 512, None).unwrap();
    assert!(
        fit.doubtful && fit.misses[0].starts_with("at ["),
        "{fit:#?}"
    );
}

#[test]
fn too_few_or_unreliable_points_are_refused_and_absurd_points_do_not_hang() {
    let drive = "sim:channels=2";
    let small = Some((4096, None));
    let reads = point(drive, JobPurpose::Depth, 1, [small, None]);
    let refused = fit(std::slice::from_ref(&reads), 1 << 30, 512, None).unwrap_err();
    assert!(
        refused.starts_with("1 of 1 point can be compared"),
        "{refused}"
    );
    let refused = fit(&vec![reads.clone(); 1_001], 1 << 30, 512, None).unwrap_err();
    assert_eq!(
        refused,
        "1,001 points are too many for a fit, which uses at most 1,000"
    );
    let doubtful = Point {
        doubt: Some("this program was late".to_owned()),
        ..reads.clone()
    };
    let refused = fit(&[doubtful.clone(), doubtful], 1 << 30, 512, None).unwrap_err();
    assert!(
        refused.starts_with("0 of 2 points can be compared") && refused.contains("2 are in doubt"),
        "{refused}"
    );
    let writes = point(drive, JobPurpose::Depth, 1, [None, small]);
    assert!(fit(&[reads.clone(), writes.clone()], 1 << 30, 512, None).is_ok());
    for (iops, us, bytes, depth) in [
        (f64::NAN, 1.0, 4096.0, 1),
        (1e300, 0.0, 1e300, u32::MAX),
        (1e-300, 1e300, -1.0, 0),
        (1.0, f64::INFINITY, 0.0, 1),
    ] {
        let mut mad = [reads.clone(), writes.clone(), reads.clone()];
        for point in &mut mad {
            point.depth = depth;
            for done in [&mut point.reads, &mut point.writes].into_iter().flatten() {
                (done.iops, done.bytes_each) = (iops, bytes);
                done.answer.percentiles_us = vec![us; LatencyStats::PERCENTILES.len()];
                (done.answer.stdev_us, done.answer.max_us) = (us, us);
            }
        }
        mad[2].reads.as_mut().unwrap().offered_iops = Some(iops);
        // The result does not matter, only that the fit returns.
        let _ = fit(&mad, u64::MAX, 512, None);
    }
}
