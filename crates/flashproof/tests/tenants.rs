//! `flashproof storage tenants`: record stores that share a drive, each with its space, its rates and its verdict.

use crate::support;
use crate::support::words;
use support::{Bench, LoopDevice, MIB, OUT, totals};

/// Two stores; the second has the further lines `more`.
fn two(more: &str) -> String {
    format!(
        "operations-per-sec = 2000\nduration-sec = 10\nseed = 1\n[[tenant]]\nname = \"a\"\nwrite-block = \"32KiB\"\n\
         [[tenant]]\nname = \"b\"\nread-pct = 0\n{more}\n"
    )
}

#[test]
fn the_example_runs_and_each_tenant_has_its_rates_and_its_verdict() {
    let bench = Bench::new();
    let text = include_str!("../../../examples/tenants/ycsb-a-four.toml")
        .replace("3600", "20")
        .replace("40_000", "8_000");
    // A fixed seed: the number of defragmented blocks, which is checked below, depends on the seed.
    bench.write("four.toml", format!("seed = 1\n{text}"));
    bench
        .flashproof(&["storage", "tenants", "four.toml", "--dry-run"])
        .expect_stdout(0, &["engine WA", "c-128k"]);
    let ended = bench
        .flashproof(&words(
            "storage tenants four.toml --device sim:capacity=8GiB --out run",
        ))
        .expect(0);
    for name in ["a-32k", "b-64k", "c-128k", "d-256k"] {
        assert!(
            ended.stdout.contains(&format!("\n  {name}: PASS")),
            "{}",
            ended.stdout
        );
        assert_eq!(
            totals(&bench.run(), &format!("{name}/reads")),
            (20_000, 0, 0)
        );
    }
    let run = bench.run();
    // 1,000 updates per second for 20 s. A block of the stores has 29, 59, 118 or 237 records of 1,104 bytes.
    for (name, blocks) in [
        ("a-32k", 690),
        ("b-64k", 339),
        ("c-128k", 169),
        ("d-256k", 84),
    ] {
        let bytes_written = totals(&run, &format!("{name}/writes")).0;
        assert!(
            bytes_written.abs_diff(blocks) <= 1,
            "{name}: {bytes_written}"
        );
        let moved = totals(&run, &format!("{name}/defrag-writes")).0;
        assert!(
            (0.8..1.2).contains(&(moved as f64 / bytes_written as f64)),
            "{name}: {moved} of {bytes_written}"
        );
    }
    assert_eq!(
        (run.manifest.kind().as_str(), run.manifest.workloads.len()),
        ("tenants", 4)
    );
    bench
        .flashproof(&["report", OUT, "--html", "page.html"])
        .expect(0);
    assert!(bench.text("page.html").contains("d-256k/defrag-writes"));
}

#[test]
fn one_tenant_on_a_slow_drive_fails_alone() {
    let bench = Bench::new();
    bench.write(
        "two.toml",
        two("device = \"sim:write-us=20000+channels=128\""),
    );
    let ended = bench
        .flashproof(&words(
            "storage tenants two.toml --device sim:capacity=1GiB --out run",
        ))
        .expect(1);
    assert!(
        ended.stdout.contains("\n  a: PASS") && ended.stdout.contains("\n  b: FAIL"),
        "{}",
        ended.stdout
    );
}

#[test]
fn on_a_real_device_only_the_tenants_spaces_are_written_and_only_with_consent() {
    let bench = Bench::new();
    let Some(device) = LoopDevice::new(&bench, 64 * MIB, &[]) else {
        return;
    };
    let data = vec![0xab; 64 * MIB as usize];
    device.put(0, &data);
    let text = two("space = \"8MiB\"\nat = \"40MiB\"").replace(
        "name = \"a\"",
        "name = \"a\"\nspace = \"4MiB\"\nat = \"16MiB\"",
    );
    bench.write(
        "two.toml",
        text.replace("duration-sec = 10", "duration-sec = 2"),
    );
    let run = [
        "storage",
        "tenants",
        "two.toml",
        "--device",
        &device.name,
        "--out",
        OUT,
        "--sla",
        "99%>10s",
    ];
    bench
        .flashproof(&run)
        .expect_error(3, &["it would be erased"]);
    assert!(device.content() == data);
    bench
        .flashproof(&[&run[..], &["--erase", &device.name]].concat())
        .expect(0);
    let after = device.content();
    let is_kept = |from: u64, to: u64| {
        after[(from * MIB) as usize..(to * MIB) as usize]
            .iter()
            .all(|byte| *byte == 0xab)
    };
    // Both ends of the device hold the marks by which flashproof recognises its data.
    assert!(
        is_kept(1, 16) && is_kept(20, 40) && is_kept(48, 63),
        "something was written between the spaces"
    );
    assert!(!is_kept(16, 20) && !is_kept(40, 48));
    assert_eq!(totals(&bench.run(), "a/reads"), (1_000, 0, 0));
}

#[test]
fn a_drive_that_is_too_slow_fails_and_does_not_fill_the_store() {
    let bench = Bench::new();
    // The store is as full as allowed: of 150 blocks, hardly more are free than defragmentation keeps free.
    bench.write(
        "tight.toml",
        "seed = 1\noperations-per-sec = 400_000\nduration-sec = 20\n[[tenant]]\nname = \"tight\"\nread-pct = 0\nrecord-bytes = 4096\n\
         write-block = \"1MiB\"\nspace = \"150MiB\"\nfill-pct = 62.5\n",
    );
    let run = |drive: &str| {
        bench.flashproof(&[
            "storage",
            "tenants",
            "tight.toml",
            "--device",
            drive,
            "--quiet",
            "--sla",
            "99.9%>64ms",
        ])
    };
    run("sim:write-us=80000").expect_stdout(
        1,
        &[
            "stopped because tight/writes@sim:write-us=80000 was 10.",
            "the bottleneck was the device",
        ],
    );
    let fast = run("sim:write-us=50+read-us=50+write-mbps=0+read-mbps=0")
        .expect(0)
        .stdout;
    assert!(fast.starts_with("PASS"), "{fast}");
}

#[test]
fn invalid_tenants_are_refused_with_the_reason() {
    let bench = Bench::new();
    bench.write("nul", b"\0\0[[tenant]]");
    bench.write("binary", b"\xff\xfe");
    bench.write("large", vec![b' '; 2 * MIB as usize]);
    for (path, why) in [
        ("nowhere", "cannot read \"nowhere\" - "),
        (".", "it is a directory"),
        ("/dev/zero", "only regular files are read"),
        ("nul", "nul line 1: "),
        ("binary", "it is not UTF-8 text"),
        ("large", "at most 1048576 are read"),
    ] {
        bench
            .flashproof(&["storage", "tenants", path, "--device", "sim:"])
            .expect_error(2, &[why]);
    }
    for (more, why) in [
        (
            "placement = 1",
            "tenant \"b\": cannot use placement handle 1 of sim: - the drive has 0",
        ),
        (
            "at = \"1MiB\"\nspace = \"1GiB\"",
            "tenant \"a\" has bytes 0 to",
        ),
        ("fill-pct = 80", "lower fill-pct to at most 71.8"),
        (
            "fill-pct = 70\nkeys = { hot-cold = { keys-pct = 20, traffic-pct = 80 } }\ndevice = \"sim:capacity=512MiB\"",
            "tenant \"b\": its space is full after",
        ),
        (
            "space = \"100KiB\"",
            "not a multiple of its write block of 131,072 bytes - give 0 or 131072",
        ),
        (
            "device = \"sim:nonsense=1\"",
            "unknown parameter \"nonsense\"",
        ),
        ("device = \"/dev/zero\"", "either simulated or real drives"),
    ] {
        bench.write("two.toml", two(more));
        bench
            .flashproof(&[
                "storage", "tenants", "two.toml", "--device", "sim:", "--out", OUT,
            ])
            .expect_error(2, &[why]);
        assert!(!bench.exists(OUT), "{more}");
        if why.contains("has bytes") || why.contains("fill-pct to") {
            bench
                .line("storage tenants two.toml --device sim: --dry-run")
                .expect_error(2, &[why]);
        }
    }
    bench.write("two.toml", two(""));
    bench.line("storage tenants two.toml").expect_error(
        2,
        &["tenant \"a\": it has no device - give --device DEVICE"],
    );
    bench
        .line("storage tenants two.toml two.toml --device sim:")
        .expect_error(2, &["two.toml"]);
}
