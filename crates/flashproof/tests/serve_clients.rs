//! Aerospike's own client with `flashproof engine serve`, and flashproof's log with readers of real servers' logs.

use crate::support::{Bench, FLASHPROOF, serve, skip};
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Configuration: a detailed log, a line each second, records that expire within the test, histograms for a sizing.
const CONFIG: &str = "service {\n service-threads 2\n ticker-interval 1\n microsecond-histograms true\n log-millis true\n}\n\
                      logging {\n file serve.log {\n context any info\n context drv_ssd detail\n }\n}\n\
                      network {\n service {\n address 127.0.0.1\n port 0\n }\n}\n\
                      namespace test {\n nsup-period 1\n storage-engine device {\n file records\n filesize 64M\n \
                      enable-benchmarks-storage true\n }\n}\n";

/// Directory of Aerospike's client, installed by scripts/client-setup.
pub(crate) fn client() -> Option<PathBuf> {
    let target = Path::new(FLASHPROOF).parent()?.parent()?;
    let client = target.join("aerospike-client");
    if client.exists() {
        return Some(client);
    }
    let why = fs::read_to_string(target.join("aerospike-client.missing"))
        .unwrap_or("run scripts/setup test".into());
    skip(&format!("no Aerospike client for Python: {}", why.trim()))
}

/// Runs the client's steps, all of which must succeed. Returns its output.
pub(crate) fn steps(client: &Path, node: SocketAddr) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/aerospike_client.py");
    let output = Command::new("python3")
        .args([
            "-W",
            "ignore",
            script.to_str().unwrap(),
            &node.ip().to_string(),
            &node.port().to_string(),
        ])
        .env("PYTHONPATH", client)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .unwrap();
    let said = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(
        output.status.success() && said.contains("all steps held"),
        "{said}"
    );
    said
}

#[test]
fn aerospikes_python_client_succeeds_and_the_log_counts_its_operations() {
    let Some(client) = client() else { return };
    let bench = Bench::new();
    let Some((running, port)) = serve(&bench, CONFIG) else {
        return;
    };
    assert!(steps(&client, SocketAddr::from(([127, 0, 0, 1], port))).contains("1 nodes"));

    // Five records remain: two of a batch of 500, and three with keys of other types. The record with a TTL expires.
    let log = bench.path("serve.log");
    let begin = Instant::now();
    let text = || fs::read_to_string(&log).unwrap();
    while !text()
        .rsplit("{test} objects: all ")
        .next()
        .is_some_and(|last| last.starts_with("5 "))
    {
        assert!(begin.elapsed() < Duration::from_secs(60), "{}", text());
        std::thread::sleep(Duration::from_millis(20));
    }

    // The statistics count the client's steps; the numbers follow from the script.
    let host = format!("127.0.0.1:{port}");
    bench
        .flashproof(&[
            "size",
            "collect",
            "--host",
            &host,
            "--duration",
            "1",
            "--every",
            "1",
            "--out",
            "collected",
        ])
        .expect(0);
    let folder = fs::read_dir(bench.path("collected"))
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let node = folder
        .into_iter()
        .find(|path| path.extension().is_some_and(|name| name == "info"))
        .unwrap();
    let replies = sizing::info::read_file(&node).unwrap();
    let namespace = &replies.namespaces["test"];
    assert_eq!(namespace.write_block_bytes(replies.build), Some(128 << 10));
    let numbers = [
        "objects",
        "batch_sub_write_success",
        "batch_sub_read_success",
        "batch_sub_read_not_found",
    ];
    assert_eq!(
        numbers.map(|name| namespace.number(name)),
        [5, 501, 2511, 1].map(Some)
    );

    running.terminate();
    bench
        .flashproof(&[
            "latency",
            "server",
            "-l",
            "serve.log",
            "-h",
            "{test}-batch-sub-read",
            "-f",
            "head",
            "-t",
            "1",
        ])
        .expect_stdout(0, &["{test}-batch-sub-read"]);
    let log = sizing::source::InputFile::open(&log, "-").unwrap();
    let log = sizing::server_log::read(vec![log]).unwrap().remove(0);
    assert_eq!(log.remarks, Vec::<String>::new());
    assert_eq!(
        log.histograms["{test}-batch-sub-read"]
            .last()
            .unwrap()
            .total,
        2512
    );
    assert_eq!(
        log.histograms["{test}-batch-sub-write"]
            .last()
            .unwrap()
            .total,
        501
    );
}
