//! Damaged files, files of another kind, and files that must not be overwritten.

use crate::support;

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;
use support::{Bench, FLASHPROOF, LoopDevice, OUT, Running};

/// A run of 25 s on a simulated drive, which passes. Each histogram log (*.hlog) has three windows.
const PASSES: &str =
    "device-names: sim:\ntest-duration-sec: 25\nread-reqs-per-sec: 400\nwrite-reqs-per-sec: 200\n";

#[test]
fn an_html_page_is_never_written_into_a_run_or_over_another_file() {
    let bench = Bench::new();
    bench.storage(PASSES, &[]).expect(0);
    let manifest = bench.read("run/manifest.json");
    for path in ["run/manifest.json", "run/new.html"] {
        let refusal = format!(
            "refusing to write to {path} - that directory holds a recorded run, and other files are not written there"
        );
        bench
            .flashproof(&["report", OUT, "--html", path])
            .expect_error(2, &[&refusal]);
    }
    assert_eq!(bench.read("run/manifest.json"), manifest);
    assert!(!bench.exists("run/new.html"));
    bench.write("notes.html", "<p>mine");
    let refusal =
        "refusing to write to notes.html - it is there already and is no report of flashproof";
    bench
        .line("report run --html notes.html")
        .expect_error(2, &[refusal]);
    assert_eq!(bench.text("notes.html"), "<p>mine");
    // A report replaces an earlier report.
    for _ in 0..2 {
        bench
            .flashproof(&["report", OUT, "--html", "report.html"])
            .expect(0);
    }
    if let Some(device) = LoopDevice::new(&bench, 1 << 20, &[]) {
        let name = device.name.as_str();
        let refusal = format!("refusing to write to {name} - it is a drive");
        bench
            .flashproof(&["report", OUT, "--html", name])
            .expect_error(2, &[&refusal]);
    }
}

#[test]
fn unreadable_logs_are_refused_with_the_reason_and_process_substitution_works() {
    let bench = Bench::new();
    bench.storage(PASSES, &[]).expect(0);
    assert!(
        Command::new("mkfifo")
            .arg(bench.path("fifo"))
            .status()
            .unwrap()
            .success()
    );
    symlink("/dev/zero", bench.path("endless")).unwrap();
    symlink("nowhere", bench.path("dangling")).unwrap();
    fs::create_dir(bench.path("empty")).unwrap();
    bench.write("log.xz", b"\xfd7zXZ\0\0\x04");
    for (log, why) in [
        (
            "fifo",
            "it is a pipe, and only regular files are read - name the log itself, or send it to standard input",
        ),
        (
            "endless",
            "it is a character device, and only regular files are read - name the log itself",
        ),
        (
            "dangling",
            "it is a link whose target does not exist: check the link",
        ),
        (
            "empty",
            "there is no run: the directory is empty; give the directory of a run",
        ),
        (
            "log.xz",
            "the file is compressed with xz, which is not supported: use xz -dc FILE | flashproof latency -l -",
        ),
    ] {
        bench
            .flashproof(&["latency", "-l", log, "--format", "json"])
            .expect_error(2, &[why]);
    }
    bench.write(
        "long",
        [b"\nACT version 6.6\n", &[b'x'; 1 << 20][..]].concat(),
    );
    bench
        .line("latency -l long --format json")
        .expect_error(3, &["a line of at most 65536 bytes"]);
    let mut command = bench.command("bash");
    command.args([
        "-c",
        &format!("{FLASHPROOF} latency -l <(cat run/act.log) -t 5"),
    ]);
    Running::start(command).end().expect(0);
}

#[test]
fn links_and_pipes_in_a_run_directory_are_named_and_not_read() {
    let bench = Bench::new();
    bench.storage(PASSES, &[]).expect(0);
    for file in ["run/manifest.json", "run/intervals.csv", "run/verdict.json"] {
        let path = bench.path(file);
        let aside = bench.path("aside");
        fs::rename(&path, &aside).unwrap();
        symlink(&aside, &path).unwrap();
        bench
            .line("report run")
            .expect_error(3, &[&format!("reading {file} - it is a symbolic link")]);
        fs::remove_file(&path).unwrap();
        assert!(
            Command::new("mkfifo")
                .arg(&path)
                .status()
                .unwrap()
                .success()
        );
        bench
            .line("report run")
            .expect_error(3, &[&format!("reading {file} - it is a pipe")]);
        fs::rename(&aside, &path).unwrap();
    }
    bench.flashproof(&["report", OUT]).expect(0);
}

#[test]
fn an_exceeded_file_size_limit_is_reported_and_leaves_the_run_incomplete() {
    let bench = Bench::new();
    bench.write("a.conf", PASSES.replace("25", "3600"));
    let mut command = bench.command("bash");
    command.args([
        "-c",
        &format!("ulimit -f 64; exec {FLASHPROOF} storage a.conf --out {OUT} -q"),
    ]);
    let ended = Running::start(command).end().expect(3);
    ended.says(&["File too large (os error 27); raise the file size limit (ulimit -f)"]);
    assert!(!bench.exists("run/verdict.json"));
}

#[test]
fn a_truncated_file_of_a_run_is_named_in_every_output_format_and_changes_the_exit_code() {
    let bench = Bench::new();
    bench.storage(PASSES, &[]).expect(0);
    bench.flashproof(&["report", OUT]).expect(0);
    for file in [
        "service.hlog",
        "intervals.csv",
        "telemetry.csv",
        "act.log",
        "lag.hlog",
        "checksums.csv",
    ] {
        let path = format!("run/{file}");
        let whole = bench.read(&path);
        bench.write(&path, &whole[..whole.len() / 2]);
        let mark = format!("{file} is cut: ");
        bench
            .flashproof(&["report", OUT, "--html", "page.html"])
            .expect(4)
            .says(&[&mark]);
        let text = bench.flashproof(&["report", OUT]).expect(4);
        assert!(
            text.stdout.starts_with(&format!("DAMAGED: {mark}")),
            "{file}: {}",
            text.stdout
        );
        for form in ["--json", "--markdown"] {
            bench
                .flashproof(&["report", OUT, form])
                .expect(4)
                .shows(&[&mark]);
        }
        assert!(bench.text("page.html").contains(&mark), "{file}");
        let latency = bench.flashproof(&["latency", "-l", OUT, "-t", "5"]);
        assert_eq!(latency.code, Some(3), "{file}: {}", latency.stderr);
        let is_marked = latency.stdout.contains(&format!("DAMAGED: {mark}"));
        assert!(is_marked || file == "act.log", "{file}: {}", latency.stdout);
        latency.says(&[file]);
        let csv = bench
            .flashproof(&["latency", "-l", OUT, "-t", "5", "--format", "csv"])
            .stdout;
        let mut lines = csv.lines().skip(1);
        assert!(
            lines.all(|line| line.contains(&format!(",{mark}")) || file == "act.log"),
            "{file}: {csv}"
        );
        assert!(csv.lines().count() > 1, "{file}: {csv}");
        bench.flashproof(&["report", "status", OUT]).expect(4);
        bench.write(&path, whole);
    }
    bench.flashproof(&["report", OUT]).expect(0);
}

#[test]
fn terminal_control_characters_in_names_are_escaped() {
    let bench = Bench::new();
    let config = PASSES.replace("sim:", "sim:name=\u{1b}[2Jgone\u{202e}");
    let ended = bench.storage(&config, &[]);
    bench.write("\u{1b}[2J.conf", "nonsense");
    let forms: [&[&str]; 6] = [
        &["report", OUT],
        &["report", OUT, "--json"],
        &["report", OUT, "--markdown"],
        &["report", "status", OUT],
        &["latency", "-l", OUT, "-t", "5"],
        &["storage", "\u{1b}[2J.conf"],
    ];
    let mut all = vec![ended];
    all.extend(forms.map(|form| bench.flashproof(form)));
    for ended in &all {
        for text in [&ended.stdout, &ended.stderr] {
            assert!(!text.contains(['\u{1b}', '\u{202e}']), "{text:?}");
        }
    }
    assert!(
        all.last().unwrap().stderr.contains("\\u001b[2J.conf"),
        "{}",
        all.last().unwrap().stderr
    );
}
