use super::*;
use act::options::Test;
use act::{SizeWithinBucket, parse};

/// The load of the sizing paper's cluster, without offsets.
const PAPER: &str = "device-names: sim:\ntest-duration-sec: 60\n\
    storage-read-histogram: 100,100,100,100,100,100,100,100,100,100,100,84.00,68.36,52.95,38.48,25.56,12.68,0\n\
    storage-write-histogram: 100,100,100,100,100,100,100,100,100,100,85.78,85.78,71.59,57.17,42.91,28.46,14.22,0\n\
    read-reqs-per-sec: 10470\nwrite-reqs-per-sec: 5957\ndirect-frees: 300\ntotal-lbw-per-sec: 1527\n";

/// iostat's numbers of the cluster's drive.
const CLUSTER: DriveIo = DriveIo {
    reads_per_sec: 11_788.5,
    writes_per_sec: 1548.0,
    read_kib_per_sec: 340_545.0,
    written_kib_per_sec: 198_144.0,
};

fn config(more: &str) -> ActConfig {
    parse(Test::Storage, "test", format!("{PAPER}{more}").as_bytes())
        .unwrap_or_else(|why| panic!("{why}"))
        .config
}

fn offsets(
    large_block_reads: u32,
    large_block_writes: u32,
    read_size: u32,
    write_size: u32,
) -> Offsets {
    Offsets {
        large_block_reads,
        large_block_writes,
        read_size,
        write_size,
    }
}

fn asked(config: &ActConfig, min_io_bytes: u32) -> DriveIo {
    RequestedLoad::from_config(config, min_io_bytes)
        .unwrap()
        .io()
}

/// Number of rounds until all four numbers are within 2 %, on a device that turns requested I/O into `reached`.
fn rounds(
    config: &ActConfig,
    min_io_bytes: u32,
    target: &DriveIo,
    reached: &dyn Fn(&DriveIo) -> DriveIo,
) -> usize {
    let mut at = config.clone();
    for round in 0..6 {
        let asked = asked(&at, min_io_bytes);
        let within = 0.02;
        let reached = reached(&asked);
        if worst(target, &reached) <= within {
            return round;
        }
        at = solve(
            &at,
            min_io_bytes,
            target,
            &Distortion::between(&asked, &reached),
        )
        .applied(&at);
    }
    panic!(
        "not within 2 % after 6 rounds: {:?}, {:?}",
        Offsets::from_config(&at),
        errors(target, &reached(&asked(&at, min_io_bytes)))
    )
}

#[test]
fn offsets_for_the_papers_cluster_are_those_calculated_by_hand_and_meet_its_io() {
    let config = config("");
    let solved = solve(&config, 512, &CLUSTER, &Distortion::NONE);
    // Calculated by hand: large-block writes 1548 / 1679.3; large-block reads (11,788.5 - 10,470) / 1349.4. The
    // remaining bytes are record reads: 98.8 % of their sizes before rounding up to sectors.
    assert_eq!(solved, offsets(98, 92, 98, 100));
    let off = worst(&CLUSTER, &asked(&solved.applied(&config), 512));
    assert!(off < 0.005, "{off}");
}

#[test]
fn known_offsets_are_found_again_from_other_starting_offsets() {
    for min_io_bytes in [512, 4096] {
        for (truth, more) in [
            (offsets(100, 100, 100, 100), ""),
            (
                offsets(83, 119, 91, 100),
                "size-within-bucket: log-uniform\n",
            ),
            (offsets(400, 7, 60, 100), "size-within-bucket: uniform\n"),
            (offsets(90, 93, 100, 80), "write-size-offset: 80\n"),
        ] {
            let config = config(more);
            let target = asked(&truth.applied(&config), min_io_bytes);
            let start = Offsets {
                large_block_reads: 50,
                large_block_writes: 150,
                read_size: 70,
                ..truth
            };
            let solved = solve(
                &start.applied(&config),
                min_io_bytes,
                &target,
                &Distortion::NONE,
            );
            // Several read sizes round up to the same 4 KiB.
            let off = worst(&target, &asked(&solved.applied(&config), min_io_bytes));
            assert!(off < 1e-6, "{truth:?} {solved:?} {min_io_bytes}: {off}");
            assert_eq!(
                Offsets {
                    read_size: truth.read_size,
                    ..solved
                },
                truth
            );
        }
    }
}

#[test]
fn with_commit_to_device_both_offsets_of_writes_are_solved_for() {
    for (truth, more) in [
        (offsets(90, 110, 100, 100), "commit-to-device: yes\n"),
        (offsets(100, 60, 95, 72), "commit-to-device: yes\n"),
        (
            offsets(100, 90, 95, 90),
            "commit-to-device: yes\ncommit-min-bytes: 4096\nsize-within-bucket: log-uniform\n",
        ),
    ] {
        let config = config(more);
        let target = asked(&truth.applied(&config), 512);
        let solved = solve(&config, 512, &target, &Distortion::NONE);
        let off = worst(&target, &asked(&solved.applied(&config), 512));
        assert!(off < 0.01, "{truth:?} {solved:?}: {off}");
        assert!(
            solved.write_size.abs_diff(truth.write_size) <= 2,
            "{truth:?} {solved:?}"
        );
    }
}

/// The device multiplies each number by a random factor, and adds a random number of bytes read.
#[test]
fn alignment_with_a_device_that_distorts_the_requested_io_takes_few_rounds() {
    let mut seed = 7_u64;
    let mut random = || {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as f64 / (1_u64 << 31) as f64
    };
    let config = config("size-within-bucket: log-uniform\n");
    let mut most = 0;
    for _ in 0..200 {
        let truth = Offsets {
            large_block_reads: 60 + (random() * 100.0) as u32,
            large_block_writes: 60 + (random() * 100.0) as u32,
            // Above 100 %, sizes of the largest bucket would exceed a large block.
            read_size: 60 + (random() * 40.0) as u32,
            write_size: 100,
        };
        // w/s and wkB/s have the same factor: otherwise the write size would differ, which no offset corrects.
        let reads = 0.97 + random() * 0.06;
        let writes = 0.9 + random() * 0.2;
        let read_bytes = 0.9 + random() * 0.2;
        let added = random() * 30_000.0;
        let reached = |asked: &DriveIo| {
            let [r, w, rkb, wkb] = asked.numbers();
            DriveIo::from([
                r * reads,
                w * writes,
                rkb * read_bytes + added,
                wkb * writes,
            ])
        };
        let target = reached(&asked(&truth.applied(&config), 512));
        most = most.max(rounds(&config, 512, &target, &reached));
    }
    assert!((1..=3).contains(&most), "{most}");
}

#[test]
fn an_unreachable_target_gets_the_offset_at_the_end_of_its_range() {
    let config = config("");
    let target = DriveIo {
        reads_per_sec: 9000.0,
        read_kib_per_sec: 900_000.0,
        ..CLUSTER
    };
    let solved = solve(&config, 512, &target, &Distortion::NONE);
    assert_eq!((solved.large_block_reads, solved.read_size), (1, 200));
    // Without a histogram of writes, the offsets stay at 100, and nothing panics.
    let reads_only = ActConfig {
        storage_write_histogram: None,
        write_reqs_per_sec: 0,
        ..config
    };
    let solved = solve(&reads_only, 512, &CLUSTER, &Distortion::NONE);
    assert_eq!(solved.large_block_reads, 100);
    assert_eq!(solved.large_block_writes, 100);
    let nothing = DriveIo::default();
    solve(
        &reads_only,
        512,
        &nothing,
        &Distortion::between(&nothing, &nothing),
    );
}

#[test]
fn an_implausible_offset_becomes_plausible_with_another_size_rule() {
    // Sizes are really log-uniform: with the paper's rule there are a quarter too many large blocks.
    let truth = config("size-within-bucket: log-uniform\n");
    let target = asked(&truth, 512);
    let config = config("");
    let solved = solve(&config, 512, &target, &Distortion::NONE);
    assert!(
        !PLAUSIBLE_PCT.contains(&solved.large_block_writes),
        "{solved:?}"
    );
    // Start from the aligned offsets: their sizes are too large for the other rule.
    let config = solved.applied(&config);
    let rules = other_rules(&config, 512, &target, &Distortion::NONE);
    let (_, at) = rules
        .iter()
        .find(|(rule, _)| *rule == SizeWithinBucket::LogUniform)
        .unwrap();
    assert_eq!(*at, offsets(100, 100, 100, 100));
    assert_eq!(rules.len(), 4);
}

#[test]
fn few_large_blocks_and_varied_sizes_need_a_longer_measurement() {
    let seconds = |more: &str| {
        RequestedLoad::from_config(&config(more), 512)
            .unwrap()
            .seconds_for(0.005)
    };
    let usual = seconds("");
    assert!((1.0..10.0).contains(&usual), "{usual}");
    assert!(
        seconds("arrival: poisson\n") > 20.0,
        "the root of 1,679 large blocks a second is 2.4 % of them"
    );
    assert!(
        seconds("lbw-req-offset: 1\n") > 20.0,
        "17 large-block writes a second: each end may miss one"
    );
    assert!(
        seconds("lbr-req-offset: 1\n") > 20.0,
        "13 large-block reads a second: each end may miss one"
    );
    let tenth = config("");
    let tenth = ActConfig {
        read_reqs_per_sec: 1047,
        write_reqs_per_sec: 596,
        ..tenth
    };
    let ratio = RequestedLoad::from_config(&tenth, 512)
        .unwrap()
        .seconds_for(0.005)
        / usual;
    assert!((9.9..10.1).contains(&ratio), "{ratio}");
}

#[test]
fn a_rewrite_changes_only_the_offset_lines_and_keeps_their_comments() {
    let text = "# mine\r\ndevice-names: sim:\n lbw-req-offset 093 # by eye # twice\n#read-size-offset: 090\n\n";
    let before = offsets(100, 93, 100, 100);
    let after = offsets(98, 92, 100, 100);
    assert_eq!(
        rewrite(text, before, after, "flashproof size align, today"),
        "# mine\r\ndevice-names: sim:\nlbw-req-offset: 92  # was 93, by flashproof size align, today; by eye # twice\n\
         #read-size-offset: 090\n\n# By flashproof size align, today.\nlbr-req-offset: 98\n"
    );
    assert_eq!(rewrite(text, before, before, "x"), text);
    // The rewritten file has the new offsets, even if the last line of the old file had no line end.
    let text = format!("{PAPER}lbr-req-offset: 090");
    let written = rewrite(
        &text,
        offsets(90, 100, 100, 100),
        offsets(98, 92, 99, 100),
        "test",
    );
    let read = parse(Test::Storage, "written", written.as_bytes())
        .unwrap()
        .config;
    assert_eq!(Offsets::from_config(&read), offsets(98, 92, 99, 100));
    assert_eq!(read, Offsets::from_config(&read).applied(&config("")));
}

#[test]
fn records_of_a_range_of_sizes_have_the_mean_size_that_the_run_draws() {
    let text = b"device-names: sim:\ntest-duration-sec: 60\nrecord-bytes: 512\nrecord-bytes-range-max: 2048\nread-reqs-per-sec: 1000\n";
    let config = parse(Test::Storage, "test", text)
        .unwrap_or_else(|why| panic!("{why}"))
        .config;
    let reads = RequestedLoad::from_config(&config, 512).unwrap().reads;
    // Drawn uniformly from 512, 1,024, 1,536 and 2,048 bytes.
    assert_eq!((reads.mean_bytes, reads.max_bytes), (1280.0, 2048.0));
}
