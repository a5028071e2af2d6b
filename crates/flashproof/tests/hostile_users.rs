//! Two users: root runs flashproof, and the user `nobody` changes the names that root uses. The directories belong to
//! `nobody`, and the tests swap names while flashproof runs.

use crate::durability::{acknowledged, witness};
use crate::support;

use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, lchown, symlink};
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use support::lab::{LAB, Lab};
use support::{Bench, Ended, LAX, LoopDevice, MIB, OUT, Running, skip, tool};

const NOBODY: u32 = 65_534;

/// A user without an account.
const OTHER: u32 = 54_321;

/// Timeout of a command that must be refused.
const PATIENCE: Duration = Duration::from_secs(10);

fn is_root() -> bool {
    let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
    if !is_root {
        skip::<()>("only root can make directories of other users");
    }
    is_root
}

fn give(path: &Path, owner: u32, mode: u32) {
    chown(path, Some(owner), Some(owner)).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn directory(bench: &Bench, name: &str, owner: u32, mode: u32) {
    fs::create_dir_all(bench.path(name)).unwrap();
    give(&bench.path(name), owner, mode);
}

fn refused(command: Command, parts: &[&str]) -> Ended {
    let ended = Running::start(command).end_within(PATIENCE);
    assert!(
        matches!(ended.code, Some(2 | 3)),
        "{:?}\n{}\n{}",
        ended.code,
        ended.stdout,
        ended.stderr
    );
    ended.says(parts);
    ended
}

fn prepare(bench: &Bench, line: &str) -> Command {
    bench.prepare(&support::words(line))
}

#[test]
fn a_foreign_file_named_store_is_neither_overwritten_nor_removed() {
    let bench = Bench::new();
    let bytes: Vec<u8> = (0..3 * MIB)
        .map(|at| ((at * 2_654_435_761) >> 13) as u8)
        .collect();
    for dir in ["plain", "linked"] {
        fs::create_dir(bench.path(dir)).unwrap();
    }
    bench.write("plain/store", &bytes);
    bench.write("victim", &bytes);
    symlink("../victim", bench.path("linked/store")).unwrap();
    for dir in ["plain", "linked"] {
        let line = format!("engine bench --out {dir} --rows 1k -k 10 --size 64MiB --duration 2s");
        refused(prepare(&bench, &line), &["store"]);
        assert_eq!(fs::read_dir(bench.path(dir)).unwrap().count(), 1, "{dir}");
    }
    assert!(bench.read("plain/store") == bytes && bench.read("victim") == bytes);
    assert!(bench.path("linked/store").is_symlink());
}

/// Replaces the directory `path` by a directory of the user `nobody`, in which `names` are links to `victim`.
fn swap(path: &Path, victim: &Path, names: &[String]) {
    let prepared = path.with_file_name("prepared");
    fs::create_dir(&prepared).unwrap();
    for name in names {
        symlink(victim, prepared.join(name)).unwrap();
        lchown(prepared.join(name), Some(NOBODY), Some(NOBODY)).unwrap();
    }
    give(&prepared, NOBODY, 0o755);
    fs::rename(path, path.with_file_name("moved-away")).unwrap();
    fs::rename(&prepared, path).unwrap();
}

#[test]
fn a_durability_test_in_a_directory_of_another_user_writes_only_its_own_files() {
    if !is_root() {
        return;
    }
    let Some(bench) = Bench::on_disk() else {
        return;
    };
    directory(&bench, "theirs", NOBODY, 0o755);
    bench.write("victim", "precious");
    let (_witness, address) = witness(&bench, "127.0.0.1:0");
    let line = format!("check durability theirs --witness {address} --mode rename --mode fsync");
    let mut tester = Running::start(prepare(&bench, &line));
    tester.wait_until("writes are acknowledged", || acknowledged(&bench) > 50);
    let own_dir = bench.path("theirs/flashproof-durability");
    let present = fs::read_dir(&own_dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = present
        .chain((0..32).map(|number| format!("rename-{number}-new")))
        .collect();
    names.sort();
    names.dedup();
    swap(&own_dir, &bench.path("victim"), &names);
    let before = acknowledged(&bench);
    tester.wait_until("more writes are acknowledged", || {
        acknowledged(&bench) > before + 50
    });
    let ended = tester.end_by("INT");
    assert_eq!(ended.code, Some(4), "{}", ended.stderr);
    refused(prepare(&bench, &line), &["flashproof-durability"]);
    assert_eq!(bench.text("victim"), "precious");
    assert_eq!(
        fs::read_dir(&own_dir).unwrap().count(),
        names.len(),
        "nothing of nobody's is removed"
    );
}

pub(crate) const CHECK: &str = "database = \"mine\"\nquestion = \"Is it good?\"\n\
                     [sustained]\nseconds = 2\nwritten = \"0\"\nwhy = \"It is short.\"\n\
                     [[run]]\nname = \"log\"\nseconds = 2\n\
                     jobs = '''\n[log]\nrw=write\nbs=4k\nfdatasync=1\nfilename=log\nsize=16m\n'''\n\
                     [[run.criterion]]\nstream = \"log-flushes\"\nmetric = \"p99\"\nbelow = \"10ms\"\n\
                     source = \"https://example.com\"\nlooked_up = \"2026-01-01\"\nstanding = \"published\"\nsays = \"x\"\n";

#[test]
fn a_check_in_a_directory_of_another_user_removes_only_its_own_files() {
    if !is_root() {
        return;
    }
    let Some(bench) = Bench::on_disk() else {
        return;
    };
    directory(&bench, "theirs", NOBODY, 0o755);
    bench.write("mine.toml", CHECK);
    fs::create_dir(bench.path("roots")).unwrap();
    for name in ["victim", "log", ".lock"] {
        bench.write(&format!("roots/{name}"), "precious");
    }
    let line = "check ./mine.toml theirs --for 3s --out run";
    let mut check = Running::start(prepare(&bench, line));
    let own_dir = bench.path("theirs/flashproof-check");
    check.wait_until("its file is there", || own_dir.join("log").exists());
    // The lock is replaced by a pipe. Then the directory is replaced by a link, and the pipe lists a file to remove.
    swap(&own_dir, &bench.path("roots/log"), &["log".to_owned()]);
    let pipe = own_dir.join(".lock");
    tool("mkfifo", &[pipe.to_str().unwrap()]).unwrap();
    lchown(&pipe, Some(NOBODY), Some(NOBODY)).unwrap();
    let mut writer = fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(&pipe)
        .unwrap();
    writer
        .write_all(b"flashproof check\nvictim\nlog\n")
        .unwrap();
    std::thread::sleep(Duration::from_millis(500));
    fs::rename(&own_dir, own_dir.with_file_name("with-pipe")).unwrap();
    symlink(bench.path("roots"), &own_dir).unwrap();
    let ended = check.end();
    assert!(ended.code.is_some(), "{}", ended.stderr);
    ended.says(&["another user moved it"]);
    refused(
        prepare(&bench, &line.replace("run", "run-b")),
        &["flashproof-check"],
    );
    fs::remove_file(&own_dir).unwrap();
    fs::rename(own_dir.with_file_name("with-pipe"), &own_dir).unwrap();
    refused(
        prepare(&bench, &line.replace("run", "run-c")),
        &["flashproof-check belongs to another user"],
    );
    for name in ["victim", "log", ".lock"] {
        assert_eq!(bench.text(&format!("roots/{name}")), "precious", "{name}");
    }
}

fn serve_config(log: &str) -> String {
    format!(
        "logging {{\n file {log} {{\n context any info\n }}\n}}\nservice {{\n service-threads 1\n}}\nnetwork {{\n service {{\n \
         port 0\n }}\n}}\nnamespace test {{\n storage-engine device {{\n file records\n filesize 16M\n }}\n}}\n"
    )
}

#[test]
fn a_servers_log_is_never_written_to_a_device_nor_created_in_dev() {
    let bench = Bench::new();
    let missing = "/dev/flashproof-no-such-node";
    bench.write("serve.conf", serve_config(missing));
    refused(
        prepare(&bench, "engine serve serve.conf"),
        &[missing, "files are not created in /dev"],
    );
    assert!(!Path::new(missing).exists());
    symlink("victim", bench.path("link")).unwrap();
    symlink("absent", bench.path("dangling")).unwrap();
    tool("mkfifo", &[bench.path("pipe").to_str().unwrap()]).unwrap();
    bench.write("victim", "precious");
    for name in ["link", "dangling", "pipe"] {
        bench.write("serve.conf", serve_config(name));
        refused(prepare(&bench, "engine serve serve.conf"), &[name]);
    }
    assert!(bench.text("victim") == "precious" && !bench.exists("absent"));
    assert!(!bench.exists("records"), "a refused server leaves no store");
    let Some(device) = LoopDevice::new(&bench, MIB, &[]) else {
        return;
    };
    device.put(0, &b"precious".repeat(1 << 10));
    let before = device.content();
    bench.write("serve.conf", serve_config(&device.name));
    refused(
        prepare(&bench, "engine serve serve.conf"),
        &[&device.name, "only regular files are"],
    );
    assert!(device.content() == before, "the device was written to");
}

#[test]
fn an_existing_trigger_file_is_refused_and_kept() {
    let bench = Bench::new();
    bench.write("file", "precious");
    symlink("file", bench.path("link")).unwrap();
    symlink("absent", bench.path("dangling")).unwrap();
    tool("mkfifo", &[bench.path("pipe").to_str().unwrap()]).unwrap();
    for name in ["file", "link", "dangling", "pipe"] {
        let before = bench.path(name).symlink_metadata().unwrap().ino();
        let line = format!(
            "fio --name=a --filename=sim: --rw=read --runtime=1 --time_based --trigger-file={name}"
        );
        refused(
            prepare(&bench, &format!("{line} --trigger=date>fired --out=run")),
            &[name],
        );
        assert_eq!(
            bench.path(name).symlink_metadata().unwrap().ino(),
            before,
            "{name}"
        );
        assert!(
            !bench.exists("fired") && !bench.exists(OUT) && !bench.exists("absent"),
            "{name}"
        );
    }
    assert_eq!(bench.text("file"), "precious");
}

#[test]
fn the_file_of_a_witness_is_not_created_through_a_link() {
    let bench = Bench::new();
    symlink("absent", bench.path("link")).unwrap();
    refused(
        prepare(&bench, "check witness --listen 127.0.0.1:0 --file link"),
        &["link"],
    );
    assert!(!bench.exists("absent") && bench.path("link").is_symlink());
}

fn load(device: &LoopDevice) -> String {
    let name = &device.name;
    format!(
        "device-names: {name}\ntest-duration-sec: 1\nread-reqs-per-sec: 100\nwrite-reqs-per-sec: 100\n"
    )
}

#[test]
fn the_state_directory_is_not_locked_through_a_link() {
    let bench = Bench::new();
    let Some(device) = LoopDevice::new(&bench, 64 * MIB, &[]) else {
        return;
    };
    fs::create_dir_all(bench.path("state/devices")).unwrap();
    give(&bench.path("state/devices"), 0, 0o700);
    bench.write("victim", "precious");
    for target in ["absent", "victim"] {
        symlink(bench.path(target), bench.path("state/devices/.lock")).unwrap();
        let ended = bench.storage(
            &load(&device),
            &[&LAX[..], &["--erase", &device.name]].concat(),
        );
        assert!(
            ended.stderr.contains("state/devices") && ended.stderr.contains("link"),
            "{}",
            ended.stderr
        );
        assert!(!bench.exists("absent") && bench.text("victim") == "precious");
        assert!(bench.path("state/devices/.lock").is_symlink());
        fs::remove_file(bench.path("state/devices/.lock")).unwrap();
        let _ = fs::remove_dir_all(bench.path(OUT));
    }
}

#[test]
fn a_record_in_a_state_directory_that_others_can_change_is_not_trusted() {
    let bench = Bench::new();
    let Some(device) = LoopDevice::new(&bench, 64 * MIB, &[]) else {
        return;
    };
    let run = || {
        let _ = fs::remove_dir_all(bench.path(OUT));
        bench.storage(&load(&device), &LAX)
    };
    run().expect(0);
    let devices = bench.path("state/devices");
    for (owner, mode) in [(NOBODY, 0o777), (0, 0o777), (NOBODY, 0o700)] {
        give(&devices, owner, mode);
        let before = device.content();
        run().expect_error(3, &["data of no known format in ", "it would be erased"]);
        assert!(device.content() == before, "the device was written to");
    }
    give(&devices, 0, 0o700);
    run().expect(0);
}

const FIRES: &str = "[[step]]\nname = \"fires\"\nlimit = \"1m\"\nrun = \"fio --name=a --filename={drive} --rw=read --bs=4k \
                     --rate_iops=10 --runtime=3 --time_based --trigger-timeout=1 --trigger=date>$FIRED --out {out}\"\n";

/// A campaign whose step fires a trigger, which creates the file `fired`.
fn firing() -> Lab {
    let lab = Lab::new();
    lab.drives(None, &[("S1", "sim:")]);
    lab.campaign(
        "fires",
        &FIRES.replace("$FIRED", lab.bench.path("fired").to_str().unwrap()),
    );
    lab
}

#[test]
fn a_campaign_that_others_can_change_runs_no_command() {
    if !is_root() {
        return;
    }
    let file = "lab/campaign.toml";
    for (name, owner, mode, remedy) in [
        (LAB, NOBODY, 0o755, "chown root"),
        (LAB, 0, 0o777, "chmod go-w"),
        (file, NOBODY, 0o644, "chown root"),
        (file, 0, 0o666, "chmod go-w"),
        ("lab/inventory", NOBODY, 0o755, "chown root"),
        ("lab/inventory", 0, 0o777, "chmod go-w"),
        ("lab/inventory/simulated.json", NOBODY, 0o644, "chown root"),
    ] {
        let lab = firing();
        give(&lab.bench.path(name), owner, mode);
        for command in ["plan", "run"] {
            refused(lab.prepare(&[command, LAB]), &[remedy]);
        }
        assert!(
            !lab.bench.exists("fired") && !lab.bench.exists("lab/tasks"),
            "{name}"
        );
    }
    let lab = firing();
    lab.fleet(&["run", LAB]);
    assert!(
        lab.bench.exists("fired"),
        "the same campaign in root's own directory runs"
    );
}

#[test]
fn plans_and_journals_that_others_can_change_are_not_followed() {
    if !is_root() {
        return;
    }
    for name in [
        "lab/plan.json",
        "lab/tasks/0000/journal.jsonl",
        "lab/tasks",
        "lab/tasks/0000",
    ] {
        let lab = firing();
        lab.fleet(&["run", LAB]);
        fs::remove_file(lab.bench.path("fired")).unwrap();
        let mode = if lab.bench.path(name).is_dir() {
            0o755
        } else {
            0o644
        };
        give(&lab.bench.path(name), NOBODY, mode);
        refused(lab.prepare(&["run", LAB]), &["chown root"]);
        assert!(!lab.bench.exists("fired"), "{name}");
    }
}

#[test]
fn series_and_checks_that_others_can_change_are_refused() {
    if !is_root() {
        return;
    }
    let bench = Bench::new();
    bench
        .line("certify sim: --load 1 --duration 1m --out series --quiet")
        .expect(0);
    give(&bench.path("series/series.json"), NOBODY, 0o644);
    refused(
        prepare(&bench, "certify sim: --load 1 --duration 1m --out series"),
        &["series", "chown root"],
    );
    bench.write("mine.toml", CHECK);
    give(&bench.path("mine.toml"), 0, 0o666);
    refused(
        prepare(&bench, "check ./mine.toml sim: --out run"),
        &["mine.toml", "chmod go-w"],
    );
    assert!(!bench.exists(OUT));
}

#[test]
fn the_caller_of_sudo_and_private_groups_are_trusted() {
    if !is_root() {
        return;
    }
    for (owner, mode, is_private_group) in [(OTHER, 0o755, false), (OTHER, 0o775, true)] {
        let lab = firing();
        for name in [
            LAB,
            "lab/campaign.toml",
            "lab/inventory",
            "lab/inventory/simulated.json",
        ] {
            let bits = if lab.bench.path(name).is_dir() {
                0o111
            } else {
                0
            };
            give(&lab.bench.path(name), owner, mode & (0o666 | bits));
        }
        refused(lab.prepare(&["run", LAB]), &["chown root"]);
        let mut command = lab.prepare(&["run", LAB]);
        command.env("SUDO_UID", owner.to_string());
        let ended = Running::start(command).end();
        assert!(
            lab.bench.exists("fired"),
            "{is_private_group}: {}{}",
            ended.stdout,
            ended.stderr
        );
    }
}

#[test]
fn results_are_written_into_directories_that_others_can_change() {
    if !is_root() {
        return;
    }
    let bench = Bench::new();
    bench.write(
        "test.conf",
        "device-names: sim:\ntest-duration-sec: 1\nread-reqs-per-sec: 100\n",
    );
    for (name, owner, mode) in [
        ("sticky", 0, 0o1777),
        ("open", 0, 0o777),
        ("theirs", NOBODY, 0o755),
        ("group", 0, 0o775),
    ] {
        directory(&bench, name, owner, mode);
        bench
            .line(&format!("storage test.conf --out {name}/a/run --quiet"))
            .expect(0);
        assert!(
            bench.path(name).join("a/run/verdict.json").is_file(),
            "{name}"
        );
        bench
            .line(&format!("report {name}/a/run --html {name}/page.html"))
            .expect(0);
        assert!(bench.path(name).join("page.html").is_file(), "{name}");
    }
}
