//! The record engine is killed at random moments under load: acknowledged writes survive, and no older data is read.

use crate::support::{Bench, OUT, Running, serve, totals};
use results::judge::Refused;
use std::net::TcpListener;
use std::thread;
use std::time::Duration;
use sys::random::Random;

/// Number of kills, unless `FLASHPROOF_SERVER_KILLS` is set.
const KILLS: u64 = 30;

/// A small file, so that blocks are rewritten often. Writes are acknowledged when they are in the file.
fn config(port: u16) -> String {
    format!(
        "service {{\n service-threads 2\n}}\nnetwork {{\n service {{\n address 127.0.0.1\n port {port}\n }}\n}}\n\
         namespace test {{\n storage-engine device {{\n file records\n filesize 32M\n write-block-size 32K\n \
         defrag-lwm-pct 50\n commit-to-device true\n }}\n}}\n"
    )
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| {
        text.parse()
            .unwrap_or_else(|error| panic!("{name}={text}: {error}"))
    })
}

#[test]
fn acknowledged_writes_survive_kill_9_at_any_moment() {
    let kills = number("FLASHPROOF_SERVER_KILLS").unwrap_or(KILLS);
    let seed = number("FLASHPROOF_KILL_SEED");
    let seed = seed.unwrap_or_else(|| u64::from(std::process::id()));
    println!("FLASHPROOF_KILL_SEED={seed}");
    let bench = Bench::new();
    // The same port after each kill, so that the client finds the server again.
    let port = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let Some((mut server, _)) = serve(&bench, &config(port)) else {
        return;
    };
    let port_text = port.to_string();
    let client = |more: &[&str]| {
        let common = [
            "engine", "client", "-p", &port_text, "-k", "4000", "-o", "B:600", "-z", "16", "-T",
            "20000", "--verify",
        ];
        Running::start(bench.prepare(&[&common, more].concat()))
    };
    let inserted = client(&["-w", "I", "--out", "inserted"]).end();
    assert!(
        inserted.stdout.contains("4,000") || inserted.code == Some(0),
        "{}\n{}",
        inserted.stdout,
        inserted.stderr
    );
    let mut load = client(&[
        "-w",
        "RU,50",
        "--duration",
        "3600",
        "--max-errors",
        "1000000000",
        "--out",
        OUT,
        "--quiet",
    ]);
    load.wait_until("it runs", || bench.exists(&format!("{OUT}/manifest.json")));

    let mut random = Random::new(seed);
    for _ in 0..kills {
        thread::sleep(Duration::from_millis(5 + random.below(120)));
        assert_eq!(server.end_by("KILL").signal, Some(9));
        server = serve(&bench, &config(port)).expect("it was there before").0;
    }
    thread::sleep(Duration::from_millis(200));
    let ended = load.end_by("INT");
    let run = bench.run();
    let refused = run.verdict.records_read.and_then(|read| read.refused);
    assert_eq!(
        refused,
        Some(Refused::default()),
        "seed {seed}: {:#?}",
        run.verdict.failures
    );
    let (reads, failed, _) = totals(&run, "reads");
    let (writes, unwritten, _) = totals(&run, "writes");
    println!("{kills} kills: {reads} reads, {writes} writes, {failed} and {unwritten} failed");
    assert!(
        reads > 10 * kills && writes > 10 * kills,
        "{reads} {writes} {}",
        ended.stderr
    );
    server.terminate();
}
