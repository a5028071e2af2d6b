//! Live metrics: the format (by promtool), a real Prometheus beside a run, hostile clients, the dashboard, the alerts.

use crate::support;

use results::run_dir::{self, Intervals};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::{MetadataExt, symlink};
use std::time::{Duration, Instant};
use support::{Bench, OUT, Running, project, tool, totals};

/// The last family of every metrics text: a text without it is truncated.
const LAST_FAMILY: &str = "\n# TYPE flashproof_temperature_celsius gauge\n";

const DASHBOARD: &str = "examples/grafana/flashproof.json";

/// A run of `seconds` in real time that only reads a file, with its metrics on a free port and in m.prom.
fn started(bench: &Bench, seconds: u32) -> (Running, SocketAddr) {
    File::create(bench.path("file"))
        .unwrap()
        .set_len(16 << 20)
        .unwrap();
    bench.write(
        "a.conf",
        format!("device-names: file\ntest-duration-sec: {seconds}\nread-reqs-per-sec: 100\nreport-interval-sec: 1\n"),
    );
    let mut command = bench.prepare(&[
        "storage", "a.conf", "--out", OUT, "--sla", "99%>10s", "--quiet",
    ]);
    command
        .env("FLASHPROOF_METRICS", "0")
        .env("FLASHPROOF_METRICS_FILE", "m.prom");
    let mut running = Running::start(command);
    running.wait_to_hear("/metrics\n");
    let said = running.said();
    let address = said
        .split("metrics: http://")
        .nth(1)
        .and_then(|rest| rest.split('/').next())
        .unwrap();
    (running, address.parse().unwrap())
}

/// Status and body of the response to `request`. flashproof's responses announce the length of the body.
fn response(to: SocketAddr, request: &[u8]) -> (u32, String) {
    let mut stream = TcpStream::connect(to).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    stream.write_all(request).unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    let (head, body) = response
        .split_once("\r\n\r\n")
        .unwrap_or_else(|| panic!("{response:?}"));
    if head.starts_with("HTTP/1.1 ") {
        assert!(
            head.contains(&format!(
                "\r\nContent-Length: {}\r\nConnection: close",
                body.len()
            )),
            "{head}"
        );
    }
    (head[9..12].parse().unwrap(), body.to_owned())
}

/// Timeout of a scrape: enough for a busy machine, but far less than 130 clients take if served one after the other.
const AT_ONCE: Duration = Duration::from_secs(5);

/// Values of a metrics text, by name and labels.
fn samples(text: &str) -> BTreeMap<&str, f64> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| line.rsplit_once(' ').unwrap())
        .map(|(name, value)| (name, value.parse().unwrap()))
        .collect()
}

fn families(text: &str) -> BTreeSet<&str> {
    text.lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next())
        .collect()
}

#[test]
fn the_metrics_file_has_the_counts_of_the_run_and_is_valid_for_promtool() {
    let bench = Bench::new();
    // Two threads for a random load, so that many operations wait for a slot.
    bench.write(
        "a.conf",
        "device-names: sim:name=a+read-us=700,sim:name=b+read-us=700\ntest-duration-sec: 60\nread-reqs-per-sec: 2000\n\
         write-reqs-per-sec: 1000\nservice-threads: 2\nmax-lag-sec: 60\narrival: poisson\n",
    );
    let run_as = |variables: &[(&str, &str)], out: &str| {
        let mut command = bench.prepare(&[
            "storage",
            "a.conf",
            "--out",
            out,
            "--sla",
            "99.9%>1ms,99%>3ms",
        ]);
        command.envs(variables.iter().copied());
        Running::start(command).end()
    };
    // The name contains every character that a label must escape.
    let out = "a \"b\\c\nd";
    run_as(&[("FLASHPROOF_METRICS_FILE", "m.prom")], out).expect(0);
    let text = bench.text("m.prom");
    assert!(text.contains(LAST_FAMILY), "{text}");
    let run = run_dir::read(&bench.path(out)).unwrap();
    let dir = format!("dir=\"{}\"", bench.path("a \\\"b\\\\c\\nd").display());
    let samples = samples(&text);
    let of = |name: &str, labels: &str| {
        let name = format!("flashproof_{name}{{{dir}{labels}}}");
        *samples
            .get(&*name)
            .unwrap_or_else(|| panic!("no {name} in\n{text}"))
    };
    let cell = |stream: &str, device: &str| {
        format!(",stream=\"{stream}\",device=\"sim:name={device}+read-us=700\"")
    };
    for stream in ["reads", "large-block-reads", "large-block-writes"] {
        let count = |name: &str, more: &str| {
            ["a", "b"]
                .map(|device| of(name, &(cell(stream, device) + more)))
                .iter()
                .sum()
        };
        let (ops, errors, _) = totals(&run, stream);
        assert_eq!(
            (
                count("operations_total", ""),
                count("operation_errors_total", "")
            ),
            (ops as f64, errors as f64)
        );
        for kind in ["service", "judged"] {
            let counted: f64 = count("latency_seconds_count", &format!(",kind=\"{kind}\""));
            assert_eq!(counted, ops as f64, "{stream} {kind}");
        }
    }
    for device in ["a", "b"] {
        let reads = cell("reads", device);
        let is_it = |name: &Option<String>| {
            name.as_ref()
                .is_some_and(|name| reads.contains(&format!("\"{name}\"")))
        };
        let slice = &run
            .verdict
            .groups
            .iter()
            .find(|group| is_it(&group.device))
            .unwrap()
            .slices[0];
        let shares = slice.judged_share.clone().unwrap();
        for (index, (threshold, bound, limit)) in [("1ms", "0.001", 0.999), ("3ms", "0.003", 0.99)]
            .into_iter()
            .enumerate()
        {
            let label = format!(",threshold=\"{threshold}\"");
            assert_eq!(
                of("over_threshold_ratio", &format!("{reads}{label}")),
                shares[index]
            );
            assert_eq!(
                of(
                    "over_threshold_limit_ratio",
                    &format!(",stream=\"reads\"{label}")
                ),
                limit
            );
            let over = |kind: &str| {
                let within = of(
                    "latency_seconds_bucket",
                    &format!("{reads},kind=\"{kind}\",le=\"{bound}\""),
                );
                of("operations_total", &reads) - within
            };
            let exact = slice.judged_over[index] as f64;
            let ops = slice.scheduled as f64;
            // Histograms have a resolution of 1 %. The longest service time is 844 us, below both thresholds.
            assert!(
                exact > 0.005 * ops && (over("judged") - exact).abs() < 0.01 * ops,
                "{exact}, {}",
                over("judged")
            );
            assert_eq!(over("service"), 0.0);
        }
    }
    assert_eq!(of("run_elapsed_seconds", ""), 60.0);
    assert_eq!(of("verdict", ",outcome=\"pass\""), 1.0);
    if tool("promtool", &["--version"]).is_some() {
        Running::start(bench.shell("promtool check metrics < m.prom"))
            .end()
            .expect(0);
    }

    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    symlink("m.prom", bench.path("m.txt")).unwrap();
    for (variable, value, code) in [
        ("FLASHPROOF_METRICS", &*port, 3),
        ("FLASHPROOF_METRICS", "no address", 3),
        ("FLASHPROOF_METRICS_FILE", "m.txt", 2),
        ("FLASHPROOF_METRICS_FILE", "none/m.prom", 3),
    ] {
        run_as(&[(variable, value)], "refused").expect_error(code, &["metrics", variable, value]);
        assert!(!bench.exists("refused"), "{variable}={value}");
    }
}

#[test]
fn prometheus_counts_the_operations_that_the_run_directory_has() {
    let bench = Bench::new();
    if tool("prometheus", &["--version"]).is_none() {
        return;
    }
    let (mut running, address) = started(&bench, 10);
    bench.write(
        "prometheus.yml",
        format!(
            "global: {{scrape_interval: 1s}}\nscrape_configs: [{{job_name: flashproof, static_configs: [{{targets: ['{address}']}}]}}]\n"
        ),
    );
    let free = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let line = format!(
        "exec prometheus --config.file=prometheus.yml --storage.tsdb.path=data --web.listen-address={free} --log.level=warn"
    );
    let mut prometheus = Running::start(bench.shell(&line));
    prometheus.wait_until("it listens", || TcpStream::connect(free).is_ok());
    prometheus.wait_until("it is ready", || {
        response(free, b"GET /-/ready HTTP/1.0\r\n\r\n").0 == 200
    });
    let query = |query: &str| {
        let encoded: String = query.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let request = format!("GET /api/v1/query?query={encoded} HTTP/1.0\r\n\r\n");
        let (status, body) = response(free, request.as_bytes());
        assert_eq!(status, 200, "{body}");
        let results = serde_json::from_str::<Value>(&body).unwrap()["data"]["result"].take();
        let value = |result: &Value| result["value"][1].as_str().unwrap().parse().unwrap();
        results
            .as_array()
            .unwrap()
            .iter()
            .map(value)
            .collect::<Vec<f64>>()
    };

    // The file is complete at any time, and replaced at each interval.
    let mut inodes = BTreeSet::new();
    running.wait_until("most of it is over", || {
        if let Ok(text) = fs::read_to_string(bench.path("m.prom")) {
            assert!(
                text.starts_with("# HELP ") && text.contains(LAST_FAMILY),
                "{text}"
            );
            inodes.insert(fs::metadata(bench.path("m.prom")).unwrap().ino());
        }
        query("flashproof_run_elapsed_seconds") >= vec![8.0]
    });
    assert!(inodes.len() > 1, "{inodes:?}");
    let dashboard: Value =
        serde_json::from_slice(&fs::read(project().join(DASHBOARD)).unwrap()).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    for panel in panels
        .iter()
        .filter(|panel| panel["title"] != "Verdict" && panel["title"] != "Temperature")
    {
        for target in panel["targets"].as_array().unwrap() {
            let of_run = target["expr"]
                .as_str()
                .unwrap()
                .replace("$dir", bench.path(OUT).to_str().unwrap());
            let shown = query(
                &of_run
                    .replace("$__rate_interval", "10s")
                    .replace("$__interval", "10s"),
            );
            assert!(!shown.is_empty(), "{of_run}");
        }
    }
    running.end().expect(0);
    let scraped = query("max_over_time(flashproof_operations_total{stream=\"reads\"}[1m])");
    let manifest = run_dir::manifest(&bench.path(OUT)).unwrap();
    let mut intervals = Intervals::open(&bench.path(OUT), &manifest).unwrap();
    let mut total = 0;
    let mut by_interval = Vec::new();
    while let Some(record) = intervals.next().unwrap() {
        total += record.counts.cells.iter().map(|cell| cell.ops).sum::<u64>();
        by_interval.push(total as f64);
    }
    // The endpoint ends with the process, so the last intervals may not have been scraped.
    assert!(
        scraped.len() == 1 && by_interval[by_interval.len() - 3..].contains(&scraped[0]),
        "{scraped:?} {by_interval:?}"
    );
    assert!(
        bench.text("m.prom").contains("outcome=\"pass\"} 1\n"),
        "{}",
        bench.text("m.prom")
    );
}

#[test]
fn hostile_clients_get_errors_and_do_not_delay_scrapes() {
    let bench = Bench::new();
    let (mut running, address) = started(&bench, 600);
    running.wait_until("its first interval", || bench.exists("m.prom"));
    let get = || {
        response(
            address,
            b"GET /metrics HTTP/1.1\r\nHost: x\r\nAccept: */*\r\n\r\n",
        )
    };
    let header = |bytes: usize| {
        [
            b"GET /metrics HTTP/1.1\r\nX: ".to_vec(),
            vec![b'x'; bytes],
            b"\r\n\r\n".to_vec(),
        ]
        .concat()
    };
    for (request, status) in [
        (b"GET /metrics?x=1 HTTP/1.0\r\n\r\n".to_vec(), 200),
        (header(8_000), 200),
        (header(9_000), 400),
        (header(500_000), 400),
        (b"GET / HTTP/1.1\r\n\r\n".to_vec(), 404),
        (
            b"GET /metrics/../../etc/passwd HTTP/1.1\r\n\r\n".to_vec(),
            404,
        ),
        (
            b"POST /metrics HTTP/1.1\r\nContent-Length: 3\r\n\r\n".to_vec(),
            405,
        ),
        (b"HEAD /metrics HTTP/1.1\r\n\r\n".to_vec(), 405),
        (b"PRI * HTTP/2.0\r\n\r\n".to_vec(), 400),
        (b"GET /metrics\r\n\r\n".to_vec(), 400),
        (b"\r\n\r\n".to_vec(), 400),
        (vec![0xff; 9_000], 400),
        ([&[0xc3, 0x28, 0, 10][..], b"\r\n"].concat(), 400),
    ] {
        let begins = String::from_utf8_lossy(&request[..request.len().min(60)]);
        assert_eq!(response(address, &request).0, status, "{begins}");
    }
    // A silent client, a client that disconnects, and a client that sends a byte now and then.
    let _silent = TcpStream::connect(address).unwrap();
    drop(TcpStream::connect(address).unwrap());
    let mut slow = TcpStream::connect(address).unwrap();
    let began = Instant::now();
    let sender = std::thread::spawn(move || {
        // Writing fails when the responder has closed the connection.
        while slow.write_all(b"x").is_ok() && began.elapsed() < Duration::from_secs(30) {
            std::thread::sleep(Duration::from_millis(200));
        }
        began.elapsed()
    });
    let (status, body) = get();
    assert!(
        status == 200 && body.contains(LAST_FAMILY),
        "{status} {body}"
    );
    assert!(began.elapsed() < AT_ONCE, "{:?}", began.elapsed());
    assert!(sender.join().unwrap() < Duration::from_secs(10));
}

#[test]
fn neither_idle_nor_trickling_connections_delay_a_scrape() {
    let bench = Bench::new();
    let (mut running, address) = started(&bench, 600);
    running.wait_until("its first interval", || bench.exists("m.prom"));
    let began = Instant::now();
    let connect = || TcpStream::connect(address).unwrap();
    let _idle: Vec<_> = (0..130).map(|_| connect()).collect();
    let mut trickling: Vec<_> = (0..130).map(|_| connect()).collect();
    let mut unread: Vec<_> = (0..130).map(|_| connect()).collect();
    unread
        .iter_mut()
        .for_each(|stream| drop(stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n")));
    for _ in 0..3 {
        trickling
            .iter_mut()
            .for_each(|stream| drop(stream.write_all(b"G")));
        let asked = Instant::now();
        let (status, body) = response(address, b"GET /metrics HTTP/1.1\r\n\r\n");
        assert!(
            status == 200 && body.contains(LAST_FAMILY),
            "{status} {body}"
        );
        assert!(asked.elapsed() < AT_ONCE, "{:?}", asked.elapsed());
    }
    assert!(
        began.elapsed() < Duration::from_secs(20),
        "{:?}",
        began.elapsed()
    );
}

#[test]
fn docs_dashboard_and_alerts_name_only_existing_metrics() {
    let bench = Bench::new();
    bench.write(
        "a.conf",
        "device-names: sim:\ntest-duration-sec: 2\nread-reqs-per-sec: 100\n",
    );
    let mut command = bench.prepare(&["storage", "a.conf", "--out", OUT]);
    command.env("FLASHPROOF_METRICS_FILE", "m.prom");
    Running::start(command).end().expect_judged();
    let text = bench.text("m.prom");
    let known = families(&text);
    let read = |name: &str| fs::read_to_string(project().join(name)).unwrap();

    let page = read("docs/metrics.md");
    let rows: BTreeSet<_> = page
        .lines()
        .filter_map(|line: &str| {
            Some(line.strip_prefix("| `")?.split('`').next()?.to_owned())
                .filter(|name| name.starts_with("flashproof_"))
        })
        .collect();
    assert_eq!(
        rows,
        known.iter().map(|name| (*name).to_owned()).collect(),
        "the table of docs/metrics.md"
    );

    let is_in_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    for file in [DASHBOARD, "examples/grafana/alerts.yml"] {
        let content = read(file);
        let named: BTreeSet<_> = content
            .split(|c| !is_in_name(c))
            .filter(|word| word.starts_with("flashproof_"))
            .collect();
        assert!(named.len() > 5, "{file}: {named:?}");
        for name in named {
            assert!(
                known.contains(name.strip_suffix("_bucket").unwrap_or(name)),
                "{file}: {name}"
            );
        }
    }
    if tool("promtool", &["--version"]).is_some() {
        bench.link_examples();
        let line = "cd examples/grafana && promtool check rules alerts.yml && promtool test rules alerts-test.yml";
        Running::start(bench.shell(line)).end().expect(0);
    }
}
