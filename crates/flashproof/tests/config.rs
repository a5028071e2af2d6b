//! `flashproof size config`: its files, messages and refusals.

use crate::support;
use crate::support::words;

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};
use support::{Bench, Ended, FLASHPROOF, Nobody, tool};

/// Two partitions of one drive, and a second drive. Neither drive exists here.
const DEVICES: &str = "/dev/nvme90n1p1,/dev/nvme90n1p2,/dev/nvme91n1";

fn config(bench: &Bench, arguments: &str) -> Ended {
    bench.line(&format!("size config {arguments}"))
}

fn answered(bench: &Bench, arguments: &[&str], answers: &str) -> (Option<i32>, String, String) {
    typed_into(
        bench.prepare(&[&["size", "config"], arguments].concat()),
        answers,
    )
}

fn typed_into(mut command: Command, answers: &str) -> (Option<i32>, String, String) {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The program may end before it has read everything.
    let _ = child.stdin.take().unwrap().write_all(answers.as_bytes());
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (
        output.status.code(),
        text(output.stdout),
        text(output.stderr),
    )
}

#[test]
fn a_load_of_30x_is_per_drive_and_not_per_partition() {
    let bench = Bench::new();
    let ended = config(
        &bench,
        &format!("--device {DEVICES} --load 30 --capacity 3.84TB --dwpd 1"),
    )
    .expect(0);
    assert!(
        ended
            .stdout
            .starts_with("# A storage test of 2 drives at 30x on average: 120,000"),
        "{}",
        ended.stdout
    );
    ended.shows(&[
        "\nread-reqs-per-sec: 120000\n",
        "\nwrite-reqs-per-sec: 60000\n",
        "\ntest-duration-sec: 86400\n",
    ]);
    for said in [
        "/dev/nvme90n1p1 and /dev/nvme90n1p2 count as one drive, /dev/nvme90n1, by their names: not all of them are on \
         this machine.",
        "/dev/nvme91n1 counts as one drive, by its name: it is not on this machine.",
        "The drives do not get the same load: /dev/nvme90n1 gets 80,000 reads and 40,000 writes per second (40x), \
         /dev/nvme91n1 gets 40,000 reads and 20,000 writes per second (20x). As in ACT, each device name gets the same \
         rates",
        "The load in total, over 3 devices on 2 drives:",
        "  large-block writes     1,411.76 /s x   131,072 bytes = 185 MB/s written",
        "  drive writes a day: 2.78 on /dev/nvme90n1 of 3.84 TB, 2.78 times its rating of 1",
    ] {
        ended.says(&[said]);
        // Comments in the file are wrapped.
        let comments = ended.stdout.replace("\n# ", " ");
        assert!(
            comments.contains(said),
            "in the file, too: {said}\n{}",
            ended.stdout
        );
    }
}

#[test]
fn drives_with_equal_numbers_of_partitions_get_equal_loads() {
    let bench = Bench::new();
    let ended = config(
        &bench,
        &format!("--device {DEVICES}p1,/dev/nvme91n1p2 --load 30"),
    )
    .expect(0);
    assert!(
        ended
            .stdout
            .starts_with("# A storage test of 2 drives at 30x: 120,000 reads"),
        "{}",
        ended.stdout
    );
    assert!(!ended.stderr.contains("warning"), "{}", ended.stderr);
    let answers = "3\n/dev/nvme90n1p1\n/dev/nvme90n1p2\n/dev/nvme91n1\nn\ny\ny\n30\n0\nn\nn\nn\n";
    let (code, stdout, stderr) = answered(&bench, &["--ask", "--model", "storage"], answers);
    assert_eq!(code, Some(0), "{stderr}");
    let told = "warning: The drives do not get the same load: /dev/nvme90n1 gets 40 reads and 0 writes per second, ";
    assert!(
        stderr.contains(told) && stdout.contains("# A storage test of 2 drives: 60 reads"),
        "{stderr}\n{stdout}"
    );
}

#[test]
fn a_histogram_may_be_added_to_a_file_without_record_bytes() {
    let bench = Bench::new();
    let base = "device-names: sim:\ntest-duration-sec: 5\nread-reqs-per-sec: 10\n";
    bench.write("base.conf", base);
    bench.write("sized.conf", format!("{base}record-bytes: 1536\n"));
    let set = "--set storage-read-histogram=100,100,100,100,100,100,100,100,100,100,50,0";
    config(&bench, &format!("base.conf {set}"))
        .expect(0)
        .shows(&["\nrecord-bytes: 0\n"]);
    config(&bench, &format!("sized.conf {set}")).expect_error(2, &["record-bytes: 1536"]);
    config(&bench, &format!("sized.conf {set} --record-bytes 0")).expect(0);
}

#[test]
fn configurations_written_by_size_config_run() {
    let bench = Bench::new();
    for (test, article) in [("storage", "A"), ("index", "An")] {
        let file = format!("{test}.conf");
        let device = "sim:capacity=1GiB+name=a,sim:capacity=1GiB+name=b";
        config(&bench, &format!("--model {test} --device {device} --load 0.5 --duration 5s --set seed=1 --out {file}"))
            .expect(0);
        bench
            .flashproof(&[test, &file, "--out", &format!("run-{test}")])
            .expect(0);
        let scaled = config(&bench, &format!("--scale 1.5 {file}")).expect(0);
        scaled.shows(&["\n# was 2000, is 3000\nread-reqs-per-sec: 3000\n"]);
        assert!(scaled.stdout.contains(&format!(
            "# {article} {test} test of 2 drives: 3,000 reads and 1,500 writes"
        )));
    }
}

#[test]
fn a_file_of_act_3_is_converted_to_todays_keys() {
    let bench = Bench::new();
    bench.write(
        "old.txt",
        "##########\nact config file for testing 1 device(s) at 3x load\n##########\n".replace("act config", "# act config")
            + "device-names: /dev/sdx\nqueue-per-device: no\nnum-queues: 8\nthreads-per-queue: 8\ntest-duration-sec: 60\n\
               report-interval-sec: 1\nlarge-block-op-kbytes: 128\nrecord-bytes: 1500\nread-reqs-per-sec: 6000\n\
               write-reqs-per-sec: 3000\nuse-valloc: no\nscheduler-mode: noop\n",
    );
    let ended = config(&bench, "old.txt --out new.conf").expect(0);
    let text = bench.text("new.conf");
    for line in [
        "service-threads: 64",
        "record-bytes: 1536",
        "disable-odsync: yes",
        "read-reqs-per-sec: 6000",
    ] {
        assert!(text.contains(&format!("\n{line}\n")), "{line}\n{text}");
    }
    ended.says(&["From old.txt, read as a file of ACT 3: its keys are those of ACT 3."]);
    assert!(
        text.contains("# was 1500: ACT 3 and 4 stored records in steps of 128 bytes"),
        "{text}"
    );
    config(&bench, "--from old.txt --act 3 --cpus 8")
        .expect(0)
        .says(&["--act selects this version"]);
    let plain = |text: &str| {
        text.lines()
            .filter(|line| !line.starts_with('#'))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let again = config(&bench, "new.conf").expect(0);
    assert_eq!(
        plain(&again.stdout),
        plain(&text),
        "today's file stays as it is"
    );
}

#[test]
fn invalid_configurations_are_refused_and_nothing_is_written() {
    let bench = Bench::new();
    bench.write(
        "pattern.conf",
        "device-names: /dev/sd?\ntest-duration-sec: 9\nread-reqs-per-sec: 1\n",
    );
    for (arguments, said) in [
        ("--device sim: --load 0", "0 times a load is no load"),
        ("--device sim: --load -3", "there is no negative load"),
        ("--device sim: --load nan", "not a decimal number"),
        (
            "--device sim: --load 99999999",
            "at most 4294967295 can be configured",
        ),
        (
            "--device sim: --load 1 --scale 0",
            "0 times a load is no load",
        ),
        ("--device sim: --load 0.0001", "the stream would not run"),
        (
            "--device sim: --load 1 --duration 1d2x",
            "not a time span - give something like 24h",
        ),
        (
            "--device sim: --load 1 --duration 0",
            "a time span must be at least 1 s - give something like 24h",
        ),
        (
            "--device sim: --load 1 --duration 200000d",
            "longer than the maximum of 4294967295 s",
        ),
        (
            "--device sim: --reads -1",
            "read-reqs-per-sec: \"-1\" is negative",
        ),
        ("--device sim: --reads 0 --writes 0", "there is no load"),
        (
            "--device sim:nonsense=1 --load 1",
            "unknown parameter \"nonsense\"",
        ),
        ("--device sim:,sim: --load 1", "is named twice"),
        (
            "--device sim:,/dev/sdx --load 1",
            "a test has only one clock",
        ),
        (
            "--device sim: --load 1 --set record-bites=3",
            "did you mean record-bytes?",
        ),
        ("--device sim: --load 1 --set seed", "\"=\" is missing"),
        (
            "--device sim: --load 1 --model paper",
            "no such test - give storage or index",
        ),
        (
            "--device sim: --load 1 --capacity big",
            "give a size such as 3.84TB",
        ),
        ("--device sim: --load 1 --reads 5", "cannot be used with"),
        (
            "--device sim: --load 1 --set read-reqs-per-sec=5",
            "\"read-reqs-per-sec\" is set twice, by --load and by --set",
        ),
        (
            "--device sim: --load 1 --set write-reqs-per-sec=5",
            "\"write-reqs-per-sec\" is set twice, by --load and",
        ),
        (
            "--device sim: --reads 1 --set read-reqs-per-sec=5",
            "is set twice, by --reads and by --set",
        ),
        (
            "--device sim: --load 1 --duration 5 --set test-duration-sec=6",
            "is set twice, by --duration and by --set",
        ),
        (
            "--device sim: --load 1 --set device-names=sim:",
            "is set twice, by --device and by --set",
        ),
        (
            "--device sim: --load 1 --set seed=1 --set seed=1",
            "\"seed\" is set twice, by --set and by --set",
        ),
        (
            "--device sim: --set total-lbw-per-sec=5",
            "no load is given - give --load N",
        ),
        (
            "--device sim: --load 1 --act 3",
            "required arguments were not provided",
        ),
        (
            "--device sim: --load 1 --cpus 8",
            "required arguments were not provided",
        ),
        ("a.conf --from b.conf", "cannot be used with"),
        ("--device sim:", "no load is given - give --load N"),
        (
            "--device /dev/nvme[0-3]n1 --load 3",
            "cannot use the device \"/dev/nvme[0-3]n1\" - it is a pattern of a shell",
        ),
        ("pattern.conf", "\"/dev/sd?\" - it is a pattern of a shell"),
        ("--load 1", "no device is named - give --device"),
        ("--scale 2", "no terminal for questions"),
        ("", "no terminal for questions"),
        (
            "absent.conf",
            "cannot read the configuration absent.conf - No such file",
        ),
        (".", "cannot read the configuration . - it is a directory"),
    ] {
        let ended = config(&bench, &format!("{arguments} --out x.conf")).expect(2);
        assert!(ended.stderr.contains(said), "{arguments}: {}", ended.stderr);
        assert!(
            ended.stdout.is_empty() && !bench.exists("x.conf"),
            "{arguments}"
        );
    }
    bench
        .flashproof(&["storage", "pattern.conf", "--dry-run"])
        .expect_error(2, &["\"/dev/sd?\" - it is a pattern of a shell"]);
    let spaced = bench
        .flashproof(&["size", "config", "--device", "/dev/a b", "--load", "1"])
        .expect(2);
    spaced.says(&["white space and semicolons separate names"]);
    let list = ["--device", "/dev/a, /dev/b", "--load", "1"];
    bench
        .flashproof(&[&["size", "config"], &list[..]].concat())
        .expect(0)
        .shows(&["device-names: /dev/a /dev/b\n"]);
}

#[test]
fn every_mistake_of_a_file_is_named_and_binary_files_are_refused() {
    let bench = Bench::new();
    let bad = "device-names: a\ntest-duration: 5\nread-reqs-per-sec: many\nnum-queues: 0\nnum-queues: 1\n";
    bench.write("bad.conf", bad);
    let ended = config(&bench, "bad.conf").expect(2);
    let errors = ended.errors();
    assert_eq!(errors.len(), 5, "{errors:#?}");
    for (error, part) in errors.iter().zip([
        "bad.conf:2:",
        "bad.conf:3:",
        "bad.conf:4:",
        "bad.conf:5:",
        "missing",
    ]) {
        assert!(error.contains(part), "{part}: {error}");
    }
    bench.write(
        "program",
        b"\x7fELF\x02\x01\x01\0\0\0\0\n\xff\n\xff".repeat(100),
    );
    config(&bench, "program").expect_error(2, &["program: its byte 8 is 0, so it is not text"]);
    bench.write("long", "#".repeat(3 << 20));
    config(&bench, "long").expect_error(2, &["it has 3145728 bytes, and at most 1048576 are read"]);
    let both = "device-names: a\ntest-duration-sec: 5\nlarge-block-ops-per-sec: 5\nwrite-reqs-per-sec: 5\n";
    bench.write("both.conf", both);
    config(&bench, "both.conf").expect_error(
        2,
        &["no ACT reads both keys - give the version of the file with --act"],
    );
}

#[test]
fn a_file_is_replaced_only_with_force_and_never_in_part() {
    let bench = Bench::new();
    let write = |more: &str| {
        config(
            &bench,
            &format!("--device sim: --load 1 --out x.conf{more}"),
        )
    };
    bench.write("x.conf", "mine");
    write("").expect_error(
        2,
        &[
            "refusing to write to x.conf - it is there already",
            "--force",
        ],
    );
    assert_eq!(bench.text("x.conf"), "mine");
    write(" --force").expect(0);
    assert!(
        bench
            .text("x.conf")
            .starts_with("# A storage test of 1 drive at 1x")
    );
    config(&bench, "--device sim: --load 1 --out . --force")
        .expect_error(2, &["it is a directory"]);
    config(&bench, "--device sim: --load 1 --out /dev/null --force")
        .expect_error(2, &["only regular files are replaced"]);
    config(&bench, "--device sim: --load 1 --out no/x.conf")
        .expect_error(3, &["no/x.conf - No such file", "nothing was"]);
    let names: Vec<_> = fs::read_dir(bench.path("."))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(names, ["x.conf"], "nothing is left behind");
}

#[test]
fn without_permission_nothing_is_written() {
    let bench = Bench::new();
    let Some(nobody) = Nobody::new(&bench) else {
        return;
    };
    fs::create_dir(bench.path("closed")).unwrap();
    fs::set_permissions(bench.path("closed"), fs::Permissions::from_mode(0o755)).unwrap();
    nobody
        .flashproof(
            &bench,
            &words("size config --device sim: --load 1 --out closed/x.conf"),
        )
        .expect_error(
            3,
            &["cannot write the configuration to closed/x.conf - Permission denied"],
        );
    assert!(!bench.exists("closed/x.conf"));
}

#[test]
fn a_drive_is_not_read_as_a_configuration() {
    let bench = Bench::new();
    let Some(drive) =
        tool("lsblk", &["-dnpo", "NAME"]).and_then(|all| all.lines().next().map(str::to_owned))
    else {
        return;
    };
    config(&bench, &drive).expect_error(2, &["it is a drive, and only regular files are read - to test this drive: flashproof certify "]);
}

#[test]
fn the_dialogue_writes_a_configuration_of_the_answers_and_nothing_if_aborted() {
    let bench = Bench::new();
    let answers = "storage\n1\n/dev/nvme90n1\nn\n\n\n3\ny\n\n";
    let (code, stdout, stderr) = answered(&bench, &["--ask"], answers);
    assert_eq!((code, stdout.as_str()), (Some(0), ""), "{stderr}");
    assert!(
        bench
            .text("act_storage_3x_1d.conf")
            .contains("\nread-reqs-per-sec: 6000\n")
    );
    // ACT's helper asks the same questions, except for the question about the test.
    symlink(FLASHPROOF, bench.path("act_config_helper.py")).unwrap();
    let (code, stdout, stderr) = typed_into(
        bench.command(bench.path("act_config_helper.py")),
        "1\n/dev/nvme90n1\nn\n\n3\nn\n",
    );
    assert!(
        code == Some(0) && stdout.contains("\nread-reqs-per-sec: 6000\n"),
        "{stderr}\n{stdout}"
    );
    let (code, stdout, stderr) = answered(
        &bench,
        &["--ask", "--model", "index"],
        "1\n/dev/nvme90n1\ny\n2\n\n1\nn\n",
    );
    assert_eq!(code, Some(0), "{stderr}");
    assert!(
        stdout.contains("\ntest-duration-sec: 7200\n") && stdout.contains("\ncache-threads: 8\n"),
        "{stdout}"
    );
    // The file of the last answer exists: the configuration is printed instead, so that the answers are not lost.
    let (code, stdout, stderr) = answered(&bench, &["--ask"], answers);
    assert_eq!(code, Some(2), "{stderr}");
    assert!(
        stderr.contains("act_storage_3x_1d.conf") && stdout.contains("\nread-reqs-per-sec: 6000\n"),
        "{stdout}"
    );
    let broken = &answers[..answers.len() - 3];
    let (code, stdout, stderr) = answered(
        &bench,
        &["--ask", "--out", "y.conf"],
        "storage\n1\n/dev/nvme9",
    );
    assert_eq!((code, stdout.as_str()), (Some(2), ""));
    assert!(
        stderr.contains("nothing was written") && !bench.exists("y.conf"),
        "{stderr}"
    );
    fs::remove_file(bench.path("act_storage_3x_1d.conf")).unwrap();
    assert_eq!(answered(&bench, &["--ask"], broken).0, Some(2));
    assert!(!bench.exists("act_storage_3x_1d.conf"));
}
