//! `flashproof doctor` on devices created by the tests.

use crate::support;

use serde_json::Value;
use std::sync::{Mutex, MutexGuard, PoisonError};
use support::{Bench, Ended, LoopDevice, MIB, Nobody, Undo, skip, tool};

/// `flashproof doctor` opens every device for a moment: a second doctor would find them in use.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Level and text of `check` among the findings of `doctor --json`.
#[track_caller]
fn finding(ended: &Ended, check: &str) -> (String, String) {
    let report = ended.json();
    let findings = report["findings"].as_array().unwrap();
    let found: Vec<&Value> = findings
        .iter()
        .filter(|finding| finding["check"] == check)
        .collect();
    let [finding] = found[..] else {
        panic!("one {check}: {findings:#?}")
    };
    let text = |field: &str| finding[field].as_str().unwrap().to_owned();
    (text("level"), text("finding"))
}

/// The entry of `doctor --json` for `path`.
#[track_caller]
fn device(bench: &Bench, path: &str) -> Value {
    let report = bench.flashproof(&["doctor", "--json"]).expect(0).json();
    let devices = report["devices"].as_array().unwrap();
    devices
        .iter()
        .find(|device| device["path"] == path)
        .unwrap_or_else(|| panic!("{path}: {devices:#?}"))
        .clone()
}

#[test]
fn a_free_loop_device_has_no_problem_and_its_kind_is_named() {
    let _alone = alone();
    let bench = Bench::new();
    let Some(device) = LoopDevice::new(&bench, 64 * MIB, &[]) else {
        return;
    };
    let ended = bench
        .flashproof(&["doctor", &device.name, "--json"])
        .expect(0);
    assert_eq!(finding(&ended, "device-kind").0, "warning");
    assert!(
        finding(&ended, "device-kind")
            .1
            .contains("a loop device on a file"),
        "{}",
        ended.stdout
    );
    match finding(&ended, "in-use") {
        (level, text) if level == "unknown" => {
            assert!(
                text.contains("could not be examined (no permission)"),
                "{text}"
            );
            println!("skipped: a process of this machine is hidden from root: {text}");
        }
        (level, _) => assert_eq!(level, "ok"),
    }
    assert_eq!(finding(&ended, "other-activity").0, "ok");
    let page = bench.flashproof(&["doctor", &device.name]).expect(0).stdout;
    assert!(
        page.contains(&format!(
            "device-kind         {}: it is a loop device",
            device.name
        )),
        "{page}"
    );
    let answer = page.lines().next().unwrap();
    assert!(answer.contains(" warning"), "{page}");
    assert!(!page.contains("\nok "), "{page}");
    assert!(
        bench
            .flashproof(&["doctor", &device.name, "--all"])
            .expect(0)
            .stdout
            .contains("\nok ")
    );
    assert!(!bench.exists("state"), "the doctor writes no record");
}

#[test]
fn a_mounted_device_is_a_problem_and_not_safe_to_test() {
    let _alone = alone();
    let bench = Bench::new();
    let Some(loop_device) = LoopDevice::new(&bench, 64 * MIB, &[]) else {
        return;
    };
    if tool("mkfs.ext4", &["-q", &loop_device.name]).is_none() {
        return;
    }
    let asks = device(&bench, &loop_device.name);
    assert_eq!(asks["safe"], "asks", "{asks}");
    assert!(asks["on_it"].to_string().contains("ext4"), "{asks}");
    let at = bench.path("mnt");
    std::fs::create_dir(&at).unwrap();
    let at = at.to_str().unwrap();
    let Some(_) = tool("mount", &[&loop_device.name, at]) else {
        return;
    };
    let _mounted = Undo::with("umount", &["-l", at]);
    let ended = bench
        .flashproof(&["doctor", &loop_device.name, "--json"])
        .expect(1);
    let (level, text) = finding(&ended, "in-use");
    assert_eq!(
        (level.as_str(), text),
        ("problem", format!("it is mounted at {at}"))
    );
    let (state, _, values) = plugin(&bench, &[&loop_device.name]);
    assert!(
        values.starts_with("problems=0;"),
        "a monitored drive is in use, {state}: {values}"
    );
    let refused = device(&bench, &loop_device.name);
    assert_eq!(refused["safe"], "no", "{refused}");
    assert!(
        refused["refused_because"][0]
            .as_str()
            .unwrap()
            .contains(&format!("it is mounted at {at}")),
        "{refused}"
    );
    let table = bench.flashproof(&["doctor"]).expect(0).stdout;
    let line = table
        .lines()
        .find(|line| line.starts_with(&format!("{} ", loop_device.name)))
        .unwrap();
    assert!(
        line.contains("67.1 MB") && line.ends_with(&format!("no    it is mounted at {at}")),
        "{table}"
    );
}

#[test]
fn devices_that_the_guard_accepts_are_listed_as_safe_and_stay_unchanged() {
    let _alone = alone();
    let bench = Bench::new();
    let Some(loop_device) = LoopDevice::new(&bench, 8 * MIB, &[]) else {
        return;
    };
    let free = device(&bench, &loop_device.name);
    assert_eq!(
        (&free["safe"], &free["facts"]["size_bytes"]),
        (&"yes".into(), &(8 * MIB).into()),
        "{free}"
    );
    // The guard reads only samples of a device. This data (4 MiB) is large enough for one of them.
    loop_device.put(MIB, &b"precious".repeat(1 << 19));
    let before = loop_device.content();
    let asks = device(&bench, &loop_device.name);
    assert_eq!(asks["safe"], "asks", "{asks}");
    let writes = |counters: device::observe::diskstats::Counters| counters.write.completed;
    let written = writes(loop_device.counters());
    bench.flashproof(&["doctor"]).expect(0);
    assert_eq!(
        writes(loop_device.counters()),
        written,
        "the doctor writes nothing to the device"
    );
    assert!(before == loop_device.content() && !bench.exists("state"));
}

#[test]
fn invalid_device_names_are_problems_with_advice() {
    let _alone = alone();
    let bench = Bench::new();
    std::fs::create_dir(bench.path("dir")).unwrap();
    for (name, why) in [
        (
            "/dev/flashproof-has-none",
            "there is no such device or file",
        ),
        ("/dev/null", "it is a character device, not a block device"),
        ("dir", "it is a directory, not a block device"),
        ("", "there is no such device or file"),
    ] {
        let ended = bench.flashproof(&["doctor", name]).expect(1);
        let shown = if name.is_empty() { "\"\"" } else { name };
        let answer = format!("1 problem: {shown}: {why}");
        let line = format!("\nproblem  device              {shown}: {why}\n");
        let page = &ended.stdout;
        assert!(page.starts_with(&answer) && page.contains(&line), "{page}");
    }
    let ended = bench.flashproof(&["doctor", "sim:", "--json"]).expect(0);
    assert_eq!(finding(&ended, "device").0, "note");
    bench
        .flashproof(&["doctor", "sim:chanels=4"])
        .expect_error(2, &["unknown parameter \"chanels\""]);
    bench.flashproof(&["doctor", "--no-such-option"]).expect(2);
    bench
        .flashproof(&["doctor", "/dev/null", "--every"])
        .expect(2);
}

#[test]
fn with_option_every_a_disk_in_use_is_not_reported_as_a_problem() {
    let _alone = alone();
    let bench = Bench::new();
    let ended = bench.flashproof(&["doctor", "--every", "--json"]);
    let report = ended.json();
    let in_use = report["findings"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|finding| finding["check"] == "in-use");
    assert!(
        in_use.clone().all(|finding| finding["level"] != "problem"),
        "{report:#}"
    );
    if in_use.count() == 0 {
        skip::<()>("this machine shows no disk");
    }
}

#[test]
fn without_root_the_use_of_a_device_is_unknown_and_the_device_is_listed_as_not_safe() {
    let _alone = alone();
    let bench = Bench::new();
    let Some(loop_device) = LoopDevice::new(&bench, 8 * MIB, &[]) else {
        return;
    };
    let Some(nobody) = Nobody::new(&bench) else {
        return;
    };
    let ended = nobody
        .flashproof(&bench, &["doctor", &loop_device.name, "--json"])
        .expect(0);
    let (level, text) = finding(&ended, "in-use");
    assert!(
        level == "unknown" && text.contains("could not be examined (no permission)"),
        "{level} {text}"
    );
    let report = nobody
        .flashproof(&bench, &["doctor", "--json"])
        .expect(0)
        .json();
    let mut devices = report["devices"].as_array().unwrap().iter();
    let found = devices
        .find(|it| it["path"] == loop_device.name.as_str())
        .unwrap();
    assert_eq!(found["safe"], "no", "{found}");
    assert!(
        found["refused_because"]
            .to_string()
            .contains("no permission"),
        "{found}"
    );
}

/// The line of `doctor --plugin`: state and exit code, text, performance data.
#[track_caller]
fn plugin(bench: &Bench, args: &[&str]) -> (String, String, String) {
    let ended = bench.flashproof(&[&["doctor"], args, &["--plugin"]].concat());
    let line = ended.stdout.strip_suffix('\n').unwrap();
    assert!(!line.contains('\n'), "{line}");
    let (text, values) = line.split_once(" | ").unwrap_or((line, ""));
    let (state, text) = text.split_once(": ").unwrap();
    let state = format!("{state}, {}", ended.code.unwrap());
    (state, text.to_owned(), values.to_owned())
}

#[test]
fn option_plugin_prints_one_line_and_exits_with_the_codes_of_monitoring_plugins() {
    let _alone = alone();
    let bench = Bench::new();
    let (state, text, values) = plugin(&bench, &["sim:"]);
    // The host of the test may itself have a warning.
    assert!(
        ["FLASHPROOF OK, 0", "FLASHPROOF WARNING, 1"].contains(&state.as_str()),
        "{state}: {text}"
    );
    assert!(values.starts_with("problems=0;;0;0 warnings="), "{values}");
    for (args, why) in [
        (&["/dev/flashproof-has-none"][..], "there is no such device"),
        (&[], "name a device"),
        (&["sim:chanels=4"], "unknown parameter \"chanels\""),
        (&["sim:", "--no-such-option"], "unexpected argument"),
        (&["sim:", "--json"], "cannot be used with"),
    ] {
        let (state, text, values) = plugin(&bench, args);
        assert_eq!((&*state, &*values), ("FLASHPROOF UNKNOWN, 3", ""), "{text}");
        assert!(text.contains(why), "{text}");
    }
}
