//! `flashproof prep`: the data of every byte, interruptions and resumption, parts that must stay unchanged, refusals.

use crate::support;
use crate::support::words;

use serde_json::{Value, json};
use std::fs::{self, OpenOptions};
use std::os::unix::fs::{FileExt, symlink};
use std::path::PathBuf;
use support::{Bench, Ended, FLASHPROOF, LoopDevice, MIB, Running, Undo, small_disk, tool};
use sys::salt::PlacedSalt;
use sys::salt::is_stamped;

/// A device size that is not a multiple of a block or of a page.
const ODD_BYTES: u64 = 3 * MIB + 5 * 512;

fn record_path(bench: &Bench) -> PathBuf {
    let dir = fs::read_dir(bench.path("state/devices"))
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let records: Vec<_> = dir
        .filter(|path| path.extension().is_some_and(|it| it == "json"))
        .collect();
    let [record] = &records[..] else {
        panic!("one record: {records:?}")
    };
    record.clone()
}

fn record(bench: &Bench) -> Value {
    serde_json::from_slice(&fs::read(record_path(bench)).unwrap()).unwrap()
}

/// Changes the record as if the preparation had been interrupted after `passes_done` passes and `mark_bytes` bytes.
fn interrupt(bench: &Bench, passes_done: u32, mark_bytes: u64) {
    let mut record = record(bench);
    let prepared = &mut record["prepared"];
    (prepared["ended_unix_s"], prepared["sample"]) = (Value::Null, Value::Null);
    (prepared["passes_done"], prepared["mark_bytes"]) = (passes_done.into(), mark_bytes.into());
    fs::write(record_path(bench), record.to_string()).unwrap();
}

/// Data that random pass `fill` writes to a device of `len` bytes, from the seed and key on record.
fn salt(bench: &Bench, fill: u32, len: u64) -> Vec<u8> {
    let record = record(bench);
    let seed = record["prepared"]["seed"].as_u64().unwrap();
    let mut bytes = vec![0; len as usize];
    PlacedSalt::new(seed, fill, record["key"].as_u64().unwrap()).fill(&mut bytes, 0);
    bytes
}

#[track_caller]
fn assert_same(found: &[u8], expected: &[u8]) {
    assert_eq!(found.len(), expected.len());
    let differs = found
        .iter()
        .zip(expected)
        .position(|(found, expected)| found != expected);
    assert_eq!(differs, None, "the first byte that differs");
}

/// A loop device and its bench.
struct Case {
    // The device comes first: fields are dropped in this order.
    device: LoopDevice,
    bench: Bench,
}

impl Case {
    fn new(size_bytes: u64) -> Option<Self> {
        let bench = Bench::new();
        Some(Self {
            device: LoopDevice::new(&bench, size_bytes, &[])?,
            bench,
        })
    }

    fn start(&self, more: &[&str]) -> Running {
        Running::start(
            self.bench
                .prepare(&[&["prep", &self.device.name], more].concat()),
        )
    }

    fn prep(&self, more: &[&str]) -> Ended {
        self.start(more).end()
    }

    fn storage(&self, writes: &str) -> Ended {
        let config = format!(
            "device-names: {}\ntest-duration-sec: 1\nread-reqs-per-sec: 100\nlarge-block-op-kbytes: 16\n{writes}",
            self.device.name
        );
        let ended = self.bench.storage(&config, &support::LAX);
        fs::rename(self.bench.path(support::OUT), self.bench.path("before")).ok();
        ended
    }

    fn used_bytes(&self) -> u64 {
        let manifest = self.bench.json_file("before/manifest.json");
        fs::remove_dir_all(self.bench.path("before")).unwrap();
        manifest["device_facts"][0]["used_bytes"]
            .as_u64()
            .unwrap_or_else(|| panic!("{manifest}"))
    }
}

const WRITES: &str = "write-reqs-per-sec: 100\n";

#[test]
fn prep_writes_the_expected_data_to_every_byte_and_later_runs_need_no_consent() {
    let Some(case) = Case::new(ODD_BYTES) else {
        return;
    };
    let read_back =
        " MB/s, 769 places of up to 4096 bytes (100.000 % of the data) read back and correct, in ";
    let ended = case.prep(&["--seed", "7"]).expect_stdout(0, &[read_back]);
    let expected = salt(&case.bench, 1, ODD_BYTES);
    assert_same(&case.device.content(), &expected);
    let record = record(&case.bench);
    let key = record["key"].as_u64().unwrap();
    assert!(expected.chunks(512).all(|sector| is_stamped(sector, key)));
    let prepared = &record["prepared"];
    assert_eq!(
        (
            &prepared["seed"],
            &prepared["passes_done"],
            &prepared["mark_bytes"]
        ),
        (&json!(7), &json!(2), &json!(0))
    );
    assert_eq!(
        (
            &prepared["sample"]["bytes"],
            &prepared["sample"]["mismatches"]
        ),
        (&json!(ODD_BYTES), &json!(0))
    );
    assert!(prepared["ended_unix_s"].as_u64() >= prepared["started_unix_s"].as_u64());
    let says = format!(
        "{}: prepared: 3.15 MB, zeros and 1 random fill (seed 7) written at ",
        case.device.name
    );
    assert!(ended.stdout.starts_with(&says), "{}", ended.stdout);

    case.prep(&["--verify"]).expect(0);
    case.storage(WRITES).expect(0);
    assert_eq!(case.used_bytes(), ODD_BYTES);
    // A storage test also writes flashproof's data, but the record does not suffice to compute this data.
    case.prep(&["--verify"]).expect_error(
        3,
        &["it was written to since its preparation (storage test)"],
    );
    case.prep(&[]).expect(0);
}

#[test]
fn every_byte_of_a_file_of_odd_size_is_written() {
    let bench = Bench::new();
    for odd in [1, 20, 700, 4096 + 513] {
        let size = 2 * MIB + odd;
        bench.write("file", vec![b'x'; size as usize]);
        bench
            .flashproof(&["prep", "file", "--zero-only", "--erase", "file"])
            .expect(0);
        assert_same(&bench.read("file"), &vec![0; size as usize]);
        bench
            .flashproof(&["prep", "file", "--fills", "2"])
            .expect(0);
        assert_same(&bench.read("file"), &salt(&bench, 2, size));
        bench.flashproof(&["prep", "file", "--verify"]).expect(0);
        if odd % 512 >= 16 {
            // If the short last sector has space for a stamp, all data is recognised as flashproof's: no consent.
            bench.flashproof(&["prep", "file"]).expect(0);
        }
        fs::remove_file(bench.path("file")).unwrap();
        fs::remove_dir_all(bench.path("state")).unwrap();
    }
}

#[test]
fn if_consent_for_one_device_is_missing_no_device_is_written_to() {
    let bench = Bench::new();
    bench.write_victim("one", 1);
    bench.write("two", vec![0; MIB as usize]);
    bench.flashproof(&["prep", "two", "one"]).expect_error(
        3,
        &["refusing to write to one - data of no known format in"],
    );
    assert_same(&bench.read("two"), &vec![0; MIB as usize]);
    bench
        .flashproof(&["prep", "two", "one", "--erase", "one"])
        .expect(0);
    assert!(bench.read("two") != vec![0; MIB as usize]);
}

#[test]
fn a_dry_run_checks_consent_shows_the_duration_and_writes_nothing() {
    let bench = Bench::new();
    bench.write("file", vec![0; MIB as usize]);
    let plan = "file: 1.05 MB, zeros and 2 random fills: 3.15 MB to write, 1 s at 1 GB/s; then 16,384 places read back";
    bench
        .flashproof(&["prep", "file", "--fills", "2", "--dry-run"])
        .expect_stdout(
            0,
            &[
                plan,
                "read back. The guard allows the writes. Nothing was written.",
            ],
        );
    bench.write_victim("one", 1);
    bench
        .flashproof(&["prep", "file", "one", "--dry-run"])
        .expect_error(
            3,
            &["refusing to write to one - data of no known format in"],
        );
    assert_same(&bench.read("file"), &vec![0; MIB as usize]);
    assert!(!bench.path("state").exists(), "a record was made");
    let ended = bench
        .flashproof(&["prep", "sim:capacity=1TB", "--use-pct", "80", "--dry-run"])
        .expect(0);
    let plan = "(80.0 %), zeros and 1 random fill: 1.6 TB to write, 27 min at 1 GB/s";
    assert!(ended.stdout.contains(plan), "{}", ended.stdout);
}

#[test]
fn a_preparation_resumes_exactly_at_its_checkpoint() {
    let Some(case) = Case::new(ODD_BYTES) else {
        return;
    };
    case.prep(&["--seed", "7"]).expect(0);
    let mark = 9 * 131_072;
    // The data has flashproof's stamps, but is not the expected data.
    case.device.put(
        mark,
        &salt(&case.bench, 5, ODD_BYTES)[..(ODD_BYTES - mark) as usize],
    );
    interrupt(&case.bench, 1, mark);
    let bytes_written = || case.device.counters().write.sectors * 512;
    let before = bytes_written();
    let ended = case.prep(&[]).expect(0);
    assert_eq!(bytes_written() - before, ODD_BYTES - mark);
    let going_on = format!(
        "{}: resuming at byte {mark} of {ODD_BYTES} of pass 2 of 2 (seed 7)",
        case.device.name
    );
    assert!(ended.stderr.contains(&going_on), "{}", ended.stderr);
    assert_same(&case.device.content(), &salt(&case.bench, 1, ODD_BYTES));
}

#[test]
fn a_preparation_is_not_resumed_if_data_before_its_checkpoint_is_missing() {
    let bench = Bench::new();
    let mark = MIB / 2;
    bench.write("file", vec![0; MIB as usize]);
    bench.flashproof(&["prep", "file", "--seed", "7"]).expect(0);
    let whole = bench.read("file");
    // The start of the data is zeros, as after a discard.
    let lost = [&vec![0; mark as usize][..], &whole[mark as usize..]].concat();
    for (passes_done, mark_bytes, spots) in [(1, mark, "64 of 64 places"), (2, 0, " of 64 places")]
    {
        bench.write("file", &lost);
        interrupt(&bench, passes_done, mark_bytes);
        let end = if mark_bytes > 0 { mark_bytes } else { MIB };
        let says =
            format!("cannot resume file - by its record all bytes before {end} are written, but ");
        let parts = [
            &says,
            spots,
            "the first at byte ",
            "found 0000000000",
            "--restart",
        ];
        bench
            .flashproof(&["prep", "file", "--samples", "0"])
            .expect_error(3, &parts);
        assert_same(&bench.read("file"), &lost);
        bench.write("file", &whole);
        bench
            .flashproof(&["prep", "file", "--samples", "0"])
            .expect(0);
        assert_same(&bench.read("file"), &whole);
    }
    bench.write("file", &lost);
    interrupt(&bench, 1, mark);
    bench
        .flashproof(&["prep", "file", "--restart", "--seed", "7"])
        .expect(0);
    assert_same(&bench.read("file"), &whole);
}

/// Starts a preparation of many passes, and ends it with a signal after some passes.
fn interrupted_by(signal: &str) -> Option<(Case, Ended)> {
    let case = Case::new(64 * MIB + 512)?;
    let fills = ["--fills", "30", "--seed", "3", "--checkpoint", "0"];
    let mut running = case.start(&fills);
    running.wait_until("some passes are done", || {
        let state = case.bench.path("state/devices");
        state.exists()
            && fs::read_dir(state).unwrap().any(|entry| {
                let text = fs::read_to_string(entry.unwrap().path()).unwrap_or_default();
                let record: Value = serde_json::from_str(&text).unwrap_or_default();
                record["prepared"]["passes_done"].as_u64() >= Some(2)
            })
    });
    let ended = running.end_by(signal);
    let prepared = &record(&case.bench)["prepared"];
    assert_eq!(
        prepared["ended_unix_s"],
        Value::Null,
        "the preparation was interrupted"
    );
    case.storage("").expect(0);
    case.prep(&fills[..2]).expect(0);
    assert_same(
        &case.device.content(),
        &salt(&case.bench, 30, 64 * MIB + 512),
    );
    Some((case, ended))
}

#[test]
fn a_killed_preparation_resumes_with_the_same_result_as_an_uninterrupted_one() {
    let Some((_, ended)) = interrupted_by("KILL") else {
        return;
    };
    assert_eq!(ended.signal, Some(9));
}

#[test]
fn a_preparation_ends_cleanly_on_a_signal_and_prints_how_to_resume() {
    let Some((_, ended)) = interrupted_by("INT") else {
        return;
    };
    ended.expect_stderr(
        4,
        &[
            ": interrupted; to resume: ",
            "--fills 30 --seed 3 --checkpoint 0",
        ],
    );
}

/// Level and text of the doctor's finding about `device`, by the name of the check.
#[track_caller]
fn finding(bench: &Bench, device: &str, check: &str) -> Option<(String, String)> {
    let report = bench.flashproof(&["doctor", device, "--json"]).json();
    let found = report["findings"]
        .as_array()
        .unwrap()
        .iter()
        .find(|finding| finding["check"] == check)?
        .clone();
    Some((
        found["level"].as_str()?.to_owned(),
        found["finding"].as_str()?.to_owned(),
    ))
}

/// Asserts the finding about the preparation: its level, and a part of its text.
#[track_caller]
fn assert_preparation(bench: &Bench, device: &str, level: &str, says: &str) {
    let (found_level, text) = finding(bench, device, "preparation").unwrap();
    assert!(
        found_level == level && text.contains(says),
        "{found_level}: {text}"
    );
}

#[test]
fn a_discarded_device_is_not_prepared_despite_its_record() {
    // A device of 4 MiB has 1,024 places of 4 KiB, and all of them are sampled.
    let Some(case) = Case::new(4 * MIB) else {
        return;
    };
    let bench = &case.bench;
    let name = case.device.name.as_str();
    let discard = |len: &str| {
        tool(
            "blkdiscard",
            &["-f", "--offset", "65536", "--length", len, name],
        )
    };
    case.prep(&[]).expect(0);
    assert_preparation(
        bench,
        name,
        "ok",
        "written once (2 passes), and 0 of 1024 samples are empty",
    );
    // Up to 1 % empty samples are accepted: 10 of 1,024, but not 11.
    let Some(_) = discard("40960") else { return };
    assert_preparation(
        bench,
        name,
        "ok",
        "10 of 1024 samples are empty (all bytes 0x00, or all 0xff)",
    );
    discard("45056").unwrap();
    assert_preparation(
        bench,
        name,
        "warning",
        "no longer prepared: 11 of 1024 samples are empty",
    );
    case.prep(&["--verify"]).expect_error(
        3,
        &[
            "cannot verify ",
            "no longer prepared: 11 of 1024 samples",
            "prep",
        ],
    );

    tool("blkdiscard", &["-f", name]).unwrap();
    let says = "it is not prepared, although its record says so: 1024 of 1024 samples are empty";
    assert_preparation(bench, name, "warning", says);
    let ended = case.storage("").expect(0);
    assert!(ended.stderr.contains(says), "{}", ended.stderr);
    let findings = bench.json_file("before/manifest.json")["findings"].clone();
    let in_manifest = findings
        .as_array()
        .unwrap()
        .iter()
        .find(|finding| finding["check"] == "preparation")
        .unwrap();
    assert_eq!(in_manifest["level"], "warning");
    assert!(
        in_manifest["finding"].as_str().unwrap().starts_with(says),
        "{in_manifest}"
    );
    fs::remove_dir_all(bench.path("before")).unwrap();
    case.storage(WRITES).expect(0);
    fs::remove_dir_all(bench.path("before")).unwrap();
    case.prep(&[]).expect(0);
    case.storage(WRITES).expect(0);
    assert_preparation(bench, name, "ok", "0 of 1024 samples are empty");
}

#[test]
fn a_file_system_trims_and_zeros_invalidate_a_preparation() {
    let Some(case) = Case::new(8 * MIB) else {
        return;
    };
    let bench = &case.bench;
    let name = case.device.name.as_str();
    case.prep(&[]).expect(0);
    let fio = [
        "fio",
        "--name=t",
        "--filename",
        name,
        "--bs=64k",
        "--size=1m",
        "--offset=1m",
        "--out",
    ];
    bench
        .flashproof(&[&fio[..], &["written", "--rw=write"]].concat())
        .expect(0);
    assert_preparation(bench, name, "ok", "0 of 1024 samples are empty");
    for (out, more) in [("trimmed", "--rw=trim"), ("zeroed", "--rw=write")] {
        let zeros: &[&str] = if out == "zeroed" {
            &["--zero_buffers"]
        } else {
            &[]
        };
        bench
            .flashproof(&[&fio[..], &[out, more], zeros].concat())
            .expect(0);
        assert_preparation(
            bench,
            name,
            "warning",
            "or emptied by a test (the last test that wrote: fio test)",
        );
        case.prep(&[]).expect(0);
    }
    let Some(_) = tool("mkfs.ext4", &["-q", "-F", name]) else {
        return;
    };
    assert_preparation(
        bench,
        name,
        "warning",
        "it is not prepared, although its record says so: ",
    );
}

#[test]
fn a_new_file_with_the_inode_of_a_prepared_file_is_not_prepared() {
    let bench = Bench::new();
    bench.write("file", vec![0; 2 * MIB as usize]);
    bench
        .flashproof(&["prep", "file", "--use-pct", "50"])
        .expect(0);
    assert_preparation(&bench, "file", "ok", "0 of 256 samples are empty");
    // `write` truncates the file, which keeps its inode.
    bench.write("file", vec![0; 2 * MIB as usize]);
    let says = "256 of 256 samples are empty (all bytes 0x00, or all 0xff), none has a stamp of flashproof, so ";
    assert_preparation(&bench, "file", "warning", says);
    bench.write("file", b"stranger".repeat(MIB as usize / 4));
    assert_preparation(
        &bench,
        "file",
        "warning",
        "0 of 256 samples are empty (all bytes 0x00, or all 0xff), none",
    );
    let says = "its data was discarded or overwritten, or its name now belongs to another file or device - prepare it first";
    bench
        .flashproof(&["prep", "file", "--verify"])
        .expect_error(3, &["cannot verify file - it is not prepared", says]);
}

#[test]
fn every_later_run_warns_about_a_failed_preparation() {
    let bench = Bench::new();
    let size = 2 * MIB as usize + 20;
    bench.write("file", vec![0; size]);
    bench.flashproof(&["prep", "file"]).expect(0);
    // Before a resume, prep does not compare the bytes after the last whole unit of direct I/O.
    interrupt(&bench, 2, 0);
    let mut content = bench.read("file");
    content[size - 1] ^= 1;
    bench.write("file", &content);
    let at = format!(
        "1 of 513 places that were read back differ, the first at byte {}",
        size - 1
    );
    bench
        .flashproof(&["prep", "file"])
        .expect_error(1, &["file does not hold the written data: ", &at]);
    assert_preparation(
        &bench,
        "file",
        "warning",
        "all passes are written, but 1 of 513 places that were read back differ",
    );

    // A later preparation succeeds, but does not remove the warning.
    let failure = "a read-back after its preparation found other data than written: 1 of 513 places, the first at byte";
    let warned = |ended: &Ended| {
        ended
            .warnings()
            .iter()
            .any(|warning| warning.contains(failure))
    };
    let again = bench.flashproof(&["prep", "file", "--restart"]).expect(0);
    assert!(warned(&again), "{}", again.stderr);
    assert_preparation(&bench, "file", "ok", "0 of 512 samples are empty");
    bench.flashproof(&["doctor", "file"]).expect(1);
    let critical = [
        "FLASHPROOF CRITICAL: 1 problem: file: a read-back",
        " | problems=1;;0;0 ",
    ];
    bench
        .flashproof(&["doctor", "file", "--plugin"])
        .expect_stdout(2, &critical);
    let (level, text) = finding(&bench, "file", "read-back").unwrap();
    assert!(
        level == "problem" && text.starts_with(failure),
        "{level}: {text}"
    );
    let config = "device-names: file\nfile-size-mbytes: 2\ntest-duration-sec: 1\nread-reqs-per-sec: 100\n\
                  write-reqs-per-sec: 10\nlarge-block-op-kbytes: 16\n";
    let ended = bench.storage(config, &support::LAX).expect(0);
    assert!(warned(&ended), "{}", ended.stderr);
    let findings =
        bench.json_file(&format!("{}/manifest.json", support::OUT))["findings"].to_string();
    assert!(findings.contains(failure), "{findings}");
    fs::remove_file(record_path(&bench)).unwrap();
    assert_eq!(finding(&bench, "file", "read-back"), None);
}

const RANDOM: [&str; 6] = [
    "--for",
    "random-writes",
    "--over-provisioning",
    "20",
    "--cache-bytes",
    "64KiB",
];

#[test]
fn a_pass_in_random_order_writes_its_planned_bytes_and_leaves_known_data() {
    let Some(case) = Case::new(ODD_BYTES) else {
        return;
    };
    let bytes_written = || case.device.counters().write.sectors * 512;
    let before = bytes_written();
    let ended = case
        .prep(&[&RANDOM[..], &["--seed", "7"]].concat())
        .expect(0);
    assert_same(&case.device.content(), &salt(&case.bench, 1, ODD_BYTES));
    // A pass writes 922 blocks (1.2 times 769). The last block has only 2,560 bytes, and is written once or twice.
    let pass_bytes = 922 * 4096;
    let short = pass_bytes - (bytes_written() - before);
    assert!([1536, 3072].contains(&short), "{short}");
    assert_eq!(
        record(&case.bench)["prepared"]["random"]["pass_bytes"],
        json!(pass_bytes)
    );
    let says = "random writes of 4096 bytes, 3776512 bytes in all (over-provisioning 20.0 % of the capacity";
    assert!(ended.stdout.contains(says), "{}", ended.stdout);

    case.prep(&["--verify"]).expect(0);
    let image = OpenOptions::new()
        .write(true)
        .open(&case.device.image)
        .unwrap();
    image
        .write_all_at(&[!case.device.content()[2_000_001]], 2_000_001)
        .unwrap();
    case.prep(&["--verify"]).expect_error(
        1,
        &["1 of 769 places that were read back differ, the first at byte 2000001"],
    );

    // A file cannot be discarded. This file has 8 blocks of 32 KiB and a short last block.
    let size = 8 * 32768 + 700;
    case.bench.write("file", vec![0; size]);
    let larger = words("prep file --for random-writes --block 32k --over-provisioning 50");
    let ended = case.bench.flashproof(&larger).expect(0);
    assert!(
        ended.warnings()[0].contains("file: it does not support discard"),
        "{:?}",
        ended.warnings()
    );
    case.bench
        .flashproof(&["prep", "file", "--verify"])
        .expect(0);
    case.bench
        .flashproof(&[&larger[..], &["--dry-run"]].concat())
        .expect_stdout(0, &["393216 bytes in all"]);
    case.bench.write("tiny", b"x");
    case.bench
        .flashproof(&["prep", "tiny", "--for", "random-writes", "--erase", "tiny"])
        .expect(0);
    let sim = "sim:ftl+capacity=64MiB+op=28%+superblock=256KiB";
    case.bench
        .flashproof(&[&["prep", sim], &RANDOM[..]].concat())
        .expect_stdout(0, &["80531456 bytes in all"]);
}

#[test]
fn a_killed_pass_in_random_order_resumes_at_its_checkpoint() {
    let size = 128 * MIB + 512;
    let Some(case) = Case::new(size) else { return };
    let options = words("--for random-writes --over-provisioning 90 --seed 3 --checkpoint 0");
    let mut running = case.start(&options);
    let mark = || {
        let state = case.bench.path("state/devices");
        let entries = fs::read_dir(state).into_iter().flatten();
        let texts =
            entries.map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap_or_default());
        let record = texts
            .filter_map(|text| serde_json::from_str::<Value>(&text).ok())
            .next();
        record
            .and_then(|record| record["prepared"]["mark_bytes"].as_u64())
            .unwrap_or(0)
    };
    running.wait_until("some of it is written", || mark() > 4 * MIB);
    assert_eq!(running.end_by("KILL").signal, Some(9));
    let killed_at = mark();
    assert_eq!(
        record(&case.bench)["prepared"]["ended_unix_s"],
        Value::Null,
        "the preparation was interrupted"
    );

    case.prep(&[]).expect_error(
        2,
        &[
            "random writes (--for) ",
            " in blocks of 4096 ",
            " and is now no",
        ],
    );
    let lost = case.device.content();
    case.device.put(0, &vec![0; size as usize]);
    let refused = [
        "cannot resume",
        &format!("all bytes before {killed_at} are written, but 64 of 64 places"),
    ];
    case.prep(&options[..4]).expect_error(3, &refused);
    case.device.put(0, &lost);
    case.prep(&options[..4])
        .expect_stderr(0, &[&format!("resuming at byte {killed_at} of ")]);
    assert_same(&case.device.content(), &salt(&case.bench, 1, size));
}

#[test]
fn resuming_with_another_seed_is_refused_without_the_option_restart() {
    let bench = Bench::new();
    bench.write("file", vec![0; MIB as usize]);
    let prep = |more: &[&str]| bench.flashproof(&[&["prep", "file"], more].concat());
    prep(&["--seed", "7"]).expect(0);
    interrupt(&bench, 1, 131_072);
    let seven = bench.read("file");
    prep(&["--seed", "8"]).expect_error(2, &["seed was 7 and is now 8", "--restart"]);
    assert_same(&bench.read("file"), &seven);
    prep(&["--restart", "--seed", "8"]).expect(0);
    assert_same(&bench.read("file"), &salt(&bench, 1, MIB));
    assert_eq!(record(&bench)["prepared"]["seed"], json!(8));
}

/// Makes every write of the record fail, but no read: a file that is a mount point cannot be replaced (rename(2),
/// EBUSY). `None`, with a message: mount is forbidden.
fn freeze_record(bench: &Bench) -> Option<Undo> {
    let record = record_path(bench);
    let record = record.to_str().unwrap();
    tool("mount", &["--bind", record, record])?;
    Some(Undo::with("umount", &[record]))
}

#[test]
fn nothing_is_written_if_the_existing_record_cannot_be_replaced() {
    let bench = Bench::new();
    bench.write("file", vec![0; MIB as usize]);
    bench.flashproof(&["prep", "file", "--seed", "1"]).expect(0);
    let one = bench.read("file");
    let complete = record(&bench);
    let Some(in_the_way) = freeze_record(&bench) else {
        return;
    };
    let refused = [
        "cannot prepare file - its preparation cannot be recorded",
        "would become wrong",
    ];
    bench
        .flashproof(&["prep", "file", "--seed", "2"])
        .expect_error(3, &refused);
    assert_same(&bench.read("file"), &one);
    assert_eq!(record(&bench), complete);

    // A resumed preparation would write with another key.
    drop(in_the_way);
    interrupt(&bench, 1, 131_072);
    let Some(in_the_way) = freeze_record(&bench) else {
        return;
    };
    bench
        .flashproof(&["prep", "file"])
        .expect_error(3, &refused);
    assert_same(&bench.read("file"), &one);
    drop(in_the_way);
    bench.flashproof(&["prep", "file"]).expect(0);
    bench
        .flashproof(&["prep", "file", "--verify", "--samples", "999999"])
        .expect(0);
}

#[test]
fn if_a_preparation_cannot_be_recorded_only_a_whole_device_can_be_prepared() {
    let bench = Bench::new();
    bench.write("file", vec![0; MIB as usize]);
    let prep = |more: &[&str]| {
        let mut command = bench.prepare(&[&["prep", "file"], more].concat());
        command.env("FLASHPROOF_STATE", "/dev/null/state");
        Running::start(command).end()
    };
    prep(&["--use-pct", "50"])
        .expect_error(3, &["cannot prepare file", "which part must stay unused"]);
    assert_same(&bench.read("file"), &vec![0; MIB as usize]);
    let said = prep(&[]).expect(0).warnings().join("|");
    assert!(
        said.contains("this preparation cannot be recorded"),
        "{said}"
    );
}

#[test]
fn later_runs_do_not_touch_the_unprepared_part_of_a_device() {
    let Some(case) = Case::new(8 * MIB) else {
        return;
    };
    let half = 4 * MIB;
    case.device.put(0, &b"precious".repeat(MIB as usize));
    case.prep(&["--use-pct", "50", "--erase", &case.device.name])
        .expect(0);
    let content = case.device.content();
    assert_same(&content[..half as usize], &salt(&case.bench, 1, half));
    if record(&case.bench)["prepared"]["rest_discarded"] == json!(true) {
        assert_same(&content[half as usize..], &vec![0; half as usize]);
    }

    // A load stays within the prepared part and needs no consent, although foreign data follows.
    let stranger = b"stranger".repeat(half as usize / 8);
    case.device.put(half, &stranger);
    for writes in ["", WRITES] {
        let ended = case.storage(writes).expect(0);
        let says = format!(
            "{}: only its first {half} bytes (50.0 %) are used",
            case.device.name
        );
        assert!(ended.stderr.contains(&says), "{}", ended.stderr);
        assert_eq!(case.used_bytes(), half);
        assert_same(&case.device.content()[half as usize..], &stranger);
    }
    // A preparation of the whole device needs consent, because it would overwrite this data.
    case.prep(&[])
        .expect_error(3, &["refusing to write to", "data of no known format in"]);
    case.prep(&["--erase", &case.device.name]).expect(0);
    assert_same(&case.device.content(), &salt(&case.bench, 1, 8 * MIB));
    case.storage(WRITES).expect(0);
    assert_eq!(case.used_bytes(), 8 * MIB);
}

#[test]
fn verify_finds_and_names_a_changed_byte() {
    let Some(case) = Case::new(ODD_BYTES) else {
        return;
    };
    case.prep(&[]).expect(0);
    let at = 2_000_001;
    let image = OpenOptions::new()
        .write(true)
        .open(&case.device.image)
        .unwrap();
    let was = case.device.content()[at as usize];
    image.write_all_at(&[was ^ 1], at).unwrap();
    case.prep(&["--verify"]).expect_error(
        1,
        &[
            "1 of 769 places that were read back differ, the first at byte 2000001 expected",
            &format!("found {:02x}", was ^ 1),
        ],
    );
    assert_eq!(
        record(&case.bench)["prepared"]["sample"]["mismatches"],
        json!(1)
    );
    image.write_all_at(&[was], at).unwrap();
    case.prep(&["--verify"]).expect(0);
}

#[test]
fn a_write_error_fails_its_device_and_no_other() {
    let bench = Bench::new();
    let bad = "sim:capacity=1GiB+bad=512MiB-513MiB";
    let ended = bench
        .flashproof(&["prep", bad, "sim:capacity=1GiB"])
        .expect(1);
    let error = ended.errors()[0];
    assert!(
        error.starts_with("write of 131072 bytes at byte 53687") && error.contains(bad),
        "{error}"
    );
    assert!(
        error.ends_with("Input/output error (os error 5)"),
        "{error}"
    );
    assert!(
        ended.stdout.starts_with("sim:capacity=1GiB: prepared: "),
        "{}",
        ended.stdout
    );

    // A file with holes on a file system that has no room to fill them: the kernel itself answers EIO.
    let Some(_disk) = small_disk(&bench, "disk", 16 << 10) else {
        return;
    };
    let image = bench.path("disk/image");
    fs::File::create(&image).unwrap().set_len(64 * MIB).unwrap();
    let Some(name) = tool("losetup", &["--find", "--show", image.to_str().unwrap()]) else {
        return;
    };
    let device = LoopDevice { name, image };
    bench.write("good", vec![0; MIB as usize]);
    let ended = bench
        .flashproof(&["prep", &device.name, "good", "--checkpoint", "0"])
        .expect(1);
    let error = ended.errors()[0];
    assert!(
        error.starts_with("write of 131072 bytes at byte ") && error.contains(&device.name),
        "{error}"
    );
    assert!(error.contains("(os error "), "{error}");
    assert!(
        ended.stdout.starts_with("good: prepared: "),
        "{}",
        ended.stdout
    );
}

#[test]
fn discard_first_discards_a_device_and_is_refused_for_a_file() {
    let bench = Bench::new();
    bench.write("file", vec![0; MIB as usize]);
    bench
        .line("prep file --discard-first")
        .expect_error(3, &["cannot discard file", "leave out --discard-first"]);
    let Some(case) = Case::new(ODD_BYTES) else {
        return;
    };
    case.prep(&["--discard-first", "--skip-zero", "--fills", "2"])
        .expect(0);
    assert_same(&case.device.content(), &salt(&case.bench, 2, ODD_BYTES));
}

#[test]
fn called_as_act_prep_flashproof_prints_acts_lines_and_fails_with_exit_code_255() {
    let bench = Bench::new();
    bench.write("file", vec![0; ODD_BYTES as usize]);
    let link = bench.path("act_prep");
    symlink(FLASHPROOF, &link).unwrap();
    let run = |arguments: &[&str]| bench.program(&link, arguments);
    let ended = run(&["file"]).expect(0);
    let says = "file size = 3148288 bytes, 24 large blocks\ncleaning device file\nsalting device file\nchecking device file\n";
    let plain: Vec<_> = ended
        .stdout
        .lines()
        .filter(|line| !line.ends_with('%'))
        .collect();
    assert!(plain.join("\n").starts_with(says), "{}", ended.stdout);
    assert!(plain[4].starts_with("file: prepared: "), "{}", ended.stdout);
    assert_same(&bench.read("file"), &salt(&bench, 1, ODD_BYTES));
    run(&["no-such-device"]).expect(255);
    run(&[]).expect(255);
}

#[test]
fn invalid_options_of_prep_are_usage_errors() {
    let bench = Bench::new();
    for arguments in [
        &["prep"][..],
        &["prep", "sim:", "--zero-only", "--skip-zero"],
        &["prep", "sim:", "--zero-only", "--fills", "2"],
        &["prep", "sim:", "--fills", "0"],
        &["prep", "sim:", "--use-pct", "101"],
        &["prep", "sim:", "--verify"],
        &["prep", "sim:", "file"],
        &["prep", "file", "--verify", "--restart"],
        &["prep", "sim:capacity=1MiB", "--use-pct", "1"],
        &["prep", "sim:", "--for", "reads"],
        &["prep", "sim:", "--block", "4k"],
        &["prep", "sim:", "--over-provisioning", "7"],
        &["prep", "sim:", "--for", "random-writes", "--fills", "2"],
        &["prep", "sim:", "--for", "random-writes", "--zero-only"],
        &words("prep sim: --for random-writes --over-provisioning 0"),
        &words("prep sim: --for random-writes --over-provisioning nan"),
        &["prep", "sim:", "--for", "random-writes", "--block", "5k"],
        &["prep", "sim:", "--for", "random-writes", "--block", "256k"],
        &words("prep sim:capacity=1GiB --for random-writes --cache-bytes 900MiB"),
        &words("prep sim:capacity=1GiB --for random-writes --use-pct 40"),
        &["prep", "file", "--verify", "--for", "random-writes"],
        &["waf", "prep", "sim:"],
        &["waf", "prep", "/dev/null"],
    ] {
        let ended = bench.flashproof(arguments).expect(2);
        assert!(
            ended.stderr.starts_with("error: "),
            "{arguments:?}: {}",
            ended.stderr
        );
    }
}
