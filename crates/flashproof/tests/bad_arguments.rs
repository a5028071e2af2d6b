//! Invalid command lines, unusable run directories, and closed outputs.

use crate::support;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::process::Stdio;
use support::{Bench, CONFIG, OUT, Running, small_disk, tool, words};

const GOOD: &str = "device-names: sim:\ntest-duration-sec: 2\nread-reqs-per-sec: 100\n";

/// Asserts that these options are refused as a usage error, in one line that contains `part`.
#[track_caller]
fn refused(options: &[&str], part: &str) {
    let bench = Bench::new();
    bench.storage(GOOD, options).expect_error(2, &[part]);
    assert!(!bench.exists(OUT));
}

#[test]
fn an_invalid_limit_is_refused_with_the_reason_and_the_syntax() {
    let form = "write limits like 5%>1ms,1%>8ms,0.1%>64ms";
    for (sla, why) in [
        ("banana", "no \">\" between share and threshold"),
        ("", "no \">\" between share and threshold"),
        ("5%>1ms,200%>8ms", "the share is above 100 %"),
    ] {
        refused(&["--sla", sla], why);
        refused(&["--sla", sla], form);
    }
    for sla in words("5%> >1ms -5%>1ms 5>1ms 5%>1parsec 5%>-1ms 5%>0ms nan%>1ms 5%>1e400s") {
        refused(&["--sla", sla], form);
    }
}

#[test]
fn two_limits_for_one_threshold_are_refused() {
    refused(
        &["--sla", "5%>1ms,4%>1ms"],
        "two limits for 1ms; keep the smaller one",
    );
}

#[test]
fn option_values_out_of_range_and_empty_device_names_are_refused() {
    let at_least = "a time span must be at least 1 s - give something like 24h, 90m or 3600";
    refused(&["--slice", "0"], &format!("'--slice <TIME>': {at_least}"));
    refused(&["--slice", "-1"], "'--slice <TIME>': ");
    for wrong in ["-1", "1.5", "18446744073709551616"] {
        refused(
            &["--max-errors", wrong],
            "'--max-errors <N>': give a whole number from 0 to 18446744073709551615",
        );
    }
    let bench = Bench::new();
    bench
        .flashproof(&["rate", "sim:", "--max-duration", "-1"])
        .expect_error(2, &["give something like 24h"]);
    bench
        .flashproof(&["rate", "sim:", "--slice", "11s"])
        .expect_error(2, &["give at least 12 s"]);
    bench
        .flashproof(&["prep", ""])
        .expect_error(2, &["a value is required for '<DEVICE>...'"]);
}

#[test]
fn option_slice_accepts_seconds_and_numbers_with_a_unit() {
    for slice in ["5", "5s"] {
        let bench = Bench::new();
        bench
            .storage(&GOOD.replace(": 2\n", ": 10\n"), &["--slice", slice])
            .expect(0);
        assert_eq!(bench.json("manifest.json")["slice_sec"], 5);
    }
}

#[test]
fn unknown_and_missing_commands_and_options_are_named() {
    let bench = Bench::new();
    bench
        .flashproof(&["storag"])
        .expect_error(2, &["unrecognized subcommand 'storag'"]);
    bench
        .flashproof(&["storage"])
        .expect_error(2, &["required arguments were not provided"]);
    bench
        .flashproof(&["storage", "--bananas", "x"])
        .expect_error(2, &["unexpected argument '--bananas'"]);
    bench
        .flashproof(&["report", "x", "--json", "y", "-z"])
        .expect_error(2, &["unexpected argument '-z'"]);
    bench.flashproof::<&str>(&[]).expect(2);
    let keys = bench.flashproof(&["help", "keys"]).expect(0);
    assert!(
        keys.stdout.contains("record-bytes-range-max") && keys.stderr.is_empty(),
        "{}",
        keys.stdout
    );
    bench
        .line("help keys storge")
        .expect_error(2, &["no such test - give flashproof help keys storage"]);
    bench
        .flashproof(&["help", "no-such"])
        .expect_error(2, &["no command \"no-such\""]);
}

/// Maximum number of lines of a help page, so that the page fits on a screen.
const SCREEN: usize = 40;

#[test]
fn help_fits_a_screen_and_names_each_command_with_its_man_page_and_completions() {
    let bench = Bench::new();
    let first = bench.flashproof(&["--help"]).expect(0).stdout;
    assert!(first.lines().count() <= SCREEN, "{first}");
    assert!(
        first
            .lines()
            .filter(|line| line.starts_with("  "))
            .all(|line| line.len() <= 80),
        "{first}"
    );
    assert_eq!(bench.flashproof(&["help"]).expect(0).stdout, first);
    bench.flashproof(&["help", "--man", "man"]).expect(0);
    let scripts = ["bash", "zsh", "fish"]
        .map(|shell| bench.flashproof(&["completions", shell]).expect(0).stdout);
    let commands = first
        .lines()
        .filter_map(|line| line.strip_prefix("  "))
        .filter_map(|line| line.split(' ').next());
    let commands: Vec<&str> = commands
        .filter(|word| word.starts_with(|c: char| c.is_ascii_lowercase()))
        .collect();
    assert_eq!(commands.len(), 18, "{commands:?}");
    for command in commands {
        assert!(
            bench
                .text(&format!("man/flashproof-{command}.1"))
                .contains(command)
        );
        assert!(
            scripts.iter().all(|script| script.contains(command)),
            "{command}"
        );
        // For fio and latency, -h is an option of the imitated program.
        if !["fio", "latency"].contains(&command) {
            let short = bench.flashproof(&[command, "-h"]).expect(0).stdout;
            assert!(short.lines().count() <= SCREEN, "{short}");
        }
        assert!(
            !bench
                .flashproof(&["help", command])
                .expect(0)
                .stdout
                .is_empty()
        );
    }
    let more = "storage tenants, rate predict, report status, report compare, size profile, size collect, size align, \
                size select, size config, waf model, waf measure, engine bench";
    for command in more.split(", ") {
        let short = bench.line(&format!("{command} -h")).expect(0).stdout;
        assert!(short.lines().count() <= SCREEN, "{short}");
    }
    let page = bench
        .flashproof(&["help", "size", "profile"])
        .expect(0)
        .stdout;
    assert_eq!(
        page,
        bench
            .flashproof(&["size", "profile", "--help"])
            .expect(0)
            .stdout
    );
}

#[test]
fn file_names_that_are_not_utf8_are_accepted_except_by_option_erase() {
    let bench = Bench::new();
    let name = OsStr::from_bytes(b"odd\xff");
    fs::write(bench.path(name), GOOD).unwrap();
    let ended = bench
        .flashproof(&[
            OsStr::new("storage"),
            name,
            OsStr::new("--out"),
            OsStr::from_bytes(b"run\xff"),
        ])
        .expect(0);
    assert!(
        ended.errors().is_empty()
            && bench
                .path(OsStr::from_bytes(b"run\xff/verdict.json"))
                .exists()
    );
    bench
        .flashproof(&[OsStr::new("report"), OsStr::from_bytes(b"run\xff")])
        .expect(0);
    let erase = [OsStr::new("storage"), name, OsStr::new("--erase"), name];
    bench.flashproof(&erase).expect_error(2, &["invalid UTF-8"]);
}

#[test]
fn a_run_is_not_written_over_another_run() {
    let bench = Bench::new();
    bench.storage(GOOD, &[]).expect(0);
    let before = bench.read("run/act.log");
    let holds =
        "it already holds manifest.json of another run; give another --out or move that run away";
    bench
        .storage(GOOD, &[])
        .expect_errors(3, &[format!("starting a run in run - {holds}")]);
    assert!(before == bench.read("run/act.log"));
    // A directory with any file of a run counts as a run directory.
    fs::remove_file(bench.path("run/manifest.json")).unwrap();
    bench
        .storage(GOOD, &[])
        .expect_error(3, &["starting a run in run - it already holds "]);
}

#[test]
fn a_run_may_use_an_empty_directory_and_missing_parents_are_created() {
    let bench = Bench::new();
    fs::create_dir(bench.path(OUT)).unwrap();
    bench.storage(GOOD, &[]).expect(0);
    bench
        .flashproof(&["storage", CONFIG, "--out", "not/there/yet"])
        .expect(0);
    assert!(bench.exists("not/there/yet/verdict.json"));
}

#[test]
fn a_path_where_no_directory_can_be_created_is_refused() {
    let bench = Bench::new();
    bench.write(CONFIG, GOOD);
    let into = |out: &str| bench.flashproof(&["storage", CONFIG, "--out", out]);
    into(CONFIG).expect_error(3, &["test.conf - Not a directory"]);
    into("test.conf/run").expect_error(3, &["test.conf/run - Not a directory"]);
    into("/proc/run").expect_error(3, &["/proc/run - "]);
}

#[test]
fn a_run_directory_on_a_read_only_file_system_is_refused() {
    let bench = Bench::new();
    bench.write(CONFIG, GOOD);
    let Some(_disk) = small_disk(&bench, "disk", 8192) else {
        return;
    };
    let at = bench.path("disk");
    let Some(_) = tool("mount", &["-o", "remount,ro", at.to_str().unwrap()]) else {
        return;
    };
    let why = "Read-only file system (os error 30); give an --out that this user may write to";
    let ended = bench.flashproof(&["storage", CONFIG, "--out", "disk/run"]);
    ended.expect_errors(3, &[format!("making the directory disk/run - {why}")]);
}

#[test]
fn a_disk_without_space_for_the_whole_run_is_refused_before_the_start() {
    let bench = Bench::new();
    // The disk has space only for the first hours of a run of a day.
    bench.write(CONFIG, GOOD.replace(": 2\n", ": 86400\n"));
    let Some(_disk) = small_disk(&bench, "disk", 4096) else {
        return;
    };
    let parts = [
        "starting a run in disk/run - the run needs about ",
        " MB, but only 4.19 MB are free; free some space or give an --out with more room",
    ];
    bench
        .flashproof(&["storage", CONFIG, "--out", "disk/run"])
        .expect_error(3, &parts);
    assert!(!bench.exists("disk/run"), "nothing is left behind");
    // The run of a day is refused. A short run fits.
    bench
        .flashproof(&["storage", CONFIG, "--out", "disk/run"])
        .expect(3);
    bench.write(CONFIG, GOOD);
    bench
        .flashproof(&["storage", CONFIG, "--out", "disk/run"])
        .expect(0);
}

#[test]
fn report_refuses_paths_without_a_readable_run() {
    let bench = Bench::new();
    bench.write(CONFIG, GOOD);
    let expected = [
        "reading missing - No such file or directory",
        "a directory with manifest.json (a run)",
        "check the path",
    ];
    bench
        .flashproof(&["report", "missing"])
        .expect_error(3, &expected);
    let expected =
        "reading test.conf - it is a file, and a run is a directory; give the directory of a run";
    bench
        .flashproof(&["report", CONFIG])
        .expect_error(3, &[expected]);
    bench.storage(GOOD, &[]).expect(0);
    bench.write("run/manifest.json", "{\"format_version\": 99}");
    bench
        .flashproof(&["report", OUT])
        .expect_error(3, &["it has format version 99", "use a newer flashproof"]);
    bench.write("run/manifest.json", "not JSON");
    let parts = [
        "run/manifest.json - ",
        "it was damaged or edited after the run",
    ];
    bench.flashproof(&["report", OUT]).expect_error(3, &parts);
}

#[test]
fn closed_outputs_do_not_change_the_exit_code_and_full_outputs_are_an_error() {
    let bench = Bench::new();
    bench.act_storage();
    bench.write(CONFIG, GOOD);
    for (out, code, command) in [
        ("a", 0, "flashproof storage test.conf --out a >&-"),
        ("b", 0, "flashproof storage test.conf --out b 2>&-"),
        ("c", 0, "flashproof storage test.conf --out c >&- 2>&- <&-"),
        // The result cannot be written to standard output.
        (
            "d",
            3,
            "flashproof storage test.conf --out d >/dev/full 2>/dev/full",
        ),
        ("d", 3, "flashproof report d >/dev/full"),
    ] {
        let mut shell = bench.command("sh");
        shell
            .args(["-c", &command.replace("flashproof", support::FLASHPROOF)])
            .stderr(Stdio::null());
        assert_eq!(shell.status().unwrap().code(), Some(code), "{command}");
        assert!(bench.exists(&format!("{out}/verdict.json")), "{command}");
    }
    // ACT's programs write only to standard output.
    let mut shell = bench.command("sh");
    let ended = shell
        .args(["-c", "./act_storage test.conf --out e >/dev/full"])
        .output()
        .unwrap();
    assert_eq!(ended.status.code(), Some(255));
    assert!(
        String::from_utf8_lossy(&ended.stderr)
            .contains("cannot write the result to standard output")
    );
    assert!(!bench.exists("e/verdict.json"));
    // `head` closes the pipe after the first line.
    let mut shell = bench.command("sh");
    shell
        .args([
            "-c",
            "{ ./act_storage test.conf --out f; echo $? >code; } | head -n 1",
        ])
        .stdout(Stdio::null());
    let output = shell.stderr(Stdio::piped()).output().unwrap();
    assert!(!String::from_utf8_lossy(&output.stderr).contains("bug"));
    assert_eq!(bench.text("code"), "0\n");
    for command in ["storage", "report"] {
        let mut shell = bench.command("sh");
        let line = format!("{} {command} >&- 2>&-", support::FLASHPROOF);
        assert_eq!(
            shell.args(["-c", &line]).status().unwrap().code(),
            Some(2),
            "{command}"
        );
    }
}

#[test]
fn a_run_without_write_permission_for_its_directory_is_refused() {
    let bench = Bench::new();
    bench.write(CONFIG, GOOD);
    let Some(nobody) = support::Nobody::new(&bench) else {
        return;
    };
    let ended = nobody.flashproof(&bench, &["storage", CONFIG]);
    let made = "making the directory flashproof-results/storage-";
    ended.expect_error(
        3,
        &[
            made,
            "Permission denied",
            "give an --out that this user may write to",
        ],
    );
}

#[test]
fn no_example_of_a_help_text_is_broken_at_80_columns() {
    let bench = Bench::new();
    let commands = "storage, storage tenants, index, certify, rate, rate predict, baseline, doctor, prep, report, \
                    report status, report compare, latency, latency server, size profile, size config, size align, \
                    size select, trace, completions";
    for command in commands.split(", ") {
        let examples = |columns: &str| {
            let mut help = bench.prepare(&words(&format!("{command} --help")));
            help.env("COLUMNS", columns);
            let text = Running::start(help).end().expect(0).stdout;
            let (_, behind) = text
                .split_once("\nExamples:\n")
                .unwrap_or_else(|| panic!("{command} has examples: {text}"));
            assert!(
                !text[..text.len() - behind.len()].contains("Options:"),
                "{command}: examples come first: {text}"
            );
            let (examples, _) = behind.split_once("\n\n").unwrap();
            examples.to_owned()
        };
        let narrow = examples("80");
        assert!(
            narrow
                .lines()
                .all(|line| line.starts_with("  ") && line.len() <= 80),
            "{command}: {narrow}"
        );
        assert_eq!(narrow, examples("200"), "{command}");
    }
}
