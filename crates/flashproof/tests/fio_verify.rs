//! fio's `verify`: each program verifies what the other has written, and every kind of damage is found and named.

use crate::support;

use results::judge::ReasonCode;
use serde_json::Value;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use support::{Bench, Ended, LoopDevice, MIB, Running, tool, words};
use sys::random::Random;

/// Methods that both programs support, each with further options of the job.
const METHODS: [&str; 5] = [
    "crc32c",
    "sha512",
    "meta",
    "pattern --verify_pattern=0xdeadbeef%o\"x\"-12",
    "md5 --verify_interval=1024",
];

/// Methods that take minutes: only in long runs.
const MORE_METHODS: &str = "crc32c-intel crc32 md5 sha256 xxhash";

fn methods() -> impl Iterator<Item = &'static str> {
    METHODS
        .into_iter()
        .chain(MORE_METHODS.split(' ').filter(|_| support::long()))
}

/// Runs a job with `options` by `program`. Returns exit code and messages.
fn run(bench: &Bench, program: &str, options: &str) -> (i32, String) {
    let mut command = match program {
        "fio" => bench.command("fio"),
        _ => bench.prepare(&["fio", "--quiet", "--erase=data"]),
    };
    command.args(words(
        "--name=a --output=report --filename=data --ioengine=psync",
    ));
    command.args(options.split_whitespace());
    let ended = Running::start(command).end();
    let report = fs::read_to_string(bench.path("report")).unwrap_or_default();
    let _ = fs::remove_file(bench.path("report"));
    (
        ended.code.unwrap_or(-1),
        format!("{}{report}", ended.stderr),
    )
}

fn flip(bench: &Bench, at: u64, bits: u8) {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(bench.path("data"))
        .unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ bits], at).unwrap();
}

fn job(bench: &Bench, line: &str, code: i32) -> (Value, Ended) {
    let _ = fs::remove_dir_all(bench.path("run"));
    let (mut jobs, ended) = bench.fio_jobs(
        &format!("--out=run --filename=data --erase=data {line}"),
        code,
    );
    (jobs.swap_remove(0), ended)
}

#[test]
fn fio_and_flashproof_verify_each_others_data() {
    if tool("fio", &["--version"]).is_none() {
        return;
    }
    for method in methods() {
        let options = |rw: &str| format!("--bs=8k --size=256k --rw={rw} --verify={method}");
        for (writer, reader) in [
            ("fio", "flashproof"),
            ("flashproof", "fio"),
            ("flashproof", "flashproof"),
        ] {
            let bench = Bench::new();
            let (code, messages) = run(&bench, writer, &options("randwrite"));
            assert_eq!(
                code, 0,
                "{writer} verifies what it writes with {method}: {messages}"
            );
            for rw in ["read", "randread", "write --verify_only=1"] {
                let (code, messages) = run(&bench, reader, &options(rw));
                assert_eq!(
                    code, 0,
                    "{method} of {writer}, rw={rw} by {reader}: {messages}"
                );
            }
            // Flips a bit that each method covers, in the last block: fio 3.33 ignores errors in earlier blocks.
            flip(&bench, 10 * 8192 + 7 * 1024 + 512 + 3, 1);
            let (code, messages) = run(&bench, reader, &options("read"));
            let is_uncovered = method == "meta" || (method == "sha512" && reader == "fio");
            assert_eq!(
                code == 0,
                is_uncovered,
                "{method} of {writer} by {reader}: {messages}"
            );
        }
    }
}

#[test]
fn a_single_flipped_bit_anywhere_in_a_block_is_found_and_counted() {
    let mut random = Random::new(7);
    for method in methods().filter(|method| *method != "meta") {
        let bench = Bench::new();
        let options = format!("--name=a --bs=8k --size=256k --direct=0 --verify={method}");
        job(&bench, &format!("{options} --rw=write"), 0);
        let right = bench.read("data");
        // Damaged bytes: in the header, in the digest, and at four random places of the block.
        let drawn: Vec<_> = (0..4).map(|_| random.below(8192)).collect();
        let places = [0, 17, 33, 39, 41].into_iter().chain(drawn);
        for (number, byte) in places.enumerate() {
            let at = random.below(32) * 8192 + byte;
            let bit = random.below(8);
            flip(&bench, at, 1 << bit);
            let (read, ended) = job(&bench, &format!("{options} --rw=read"), 1);
            assert_eq!(
                (&read["error"], &read["read"]["failed"]),
                (&84.into(), &1.into()),
                "{method} {at}"
            );
            let block = if method.contains("interval") {
                1024
            } else {
                8192
            };
            let says = format!(
                "verify failed at offset {}, length {block}: flipped: 1 bit differs",
                at / block * block
            );
            assert!(
                ended.stderr.contains(&says),
                "{method}, bit {bit} of byte {at}: {}",
                ended.stderr
            );
            assert!(ended.stderr.contains("FAIL"), "{}", ended.stderr);
            let reason = &bench.run().verdict.reasons[0];
            let counted = "1 operation with wrong data (1 a-reads): wrong data fails the run; the first: read of ";
            assert!(
                reason.code == ReasonCode::WrongData && reason.text.starts_with(counted),
                "{}",
                reason.text
            );
            assert!(reason.text.contains(&says), "{}", reason.text);
            assert_eq!(
                read["verify"]["verified_bytes"],
                256 * 1024 - block,
                "{number}"
            );
            bench.write("data", &right);
        }
    }
}

#[test]
fn torn_and_foreign_blocks_are_distinguished() {
    let bench = Bench::new();
    let options = "--name=a --bs=64k --size=1m --direct=0 --verify=crc32c";
    let write = |seed: &str| {
        job(&bench, &format!("{options} --rw=write {seed}"), 0);
        bench.read("data")
    };
    let old = write("");
    let new = write("");
    let block = 64 << 10;
    let damaged = |change: &dyn Fn(&mut [u8])| {
        let mut data = new.clone();
        change(&mut data[3 * block..4 * block]);
        bench.write("data", &data);
        let (read, ended) = job(&bench, &format!("{options} --rw=read"), 1);
        assert_eq!(
            (&read["error"], &read["read"]["failed"]),
            (&84.into(), &1.into())
        );
        ended.stderr
    };
    let place = "verify failed at offset 196608, length 65536: ";
    let old_part = |from: usize, to: usize| old[3 * block + from..3 * block + to].to_vec();
    let torn = damaged(&|data| data[16_384..20_480].copy_from_slice(&old_part(16_384, 20_480)));
    let says = "torn: 8 of 128 sectors from byte 16384 to 20480 of the block are of another write";
    assert!(torn.contains(&format!("{place}{says}")), "{torn}");
    let zeros = damaged(&|data| data[60 * 1024..].fill(0));
    assert!(
        zeros.contains("torn: 8 of 128 sectors from byte 61440 to 65536 of the block are zeros"),
        "{zeros}"
    );
    let trimmed = damaged(&|data| data.fill(0));
    assert!(
        trimmed.contains(&format!("{place}foreign: no header of verify")),
        "{trimmed}"
    );
    assert!(trimmed.contains("the block is all zeros"), "{trimmed}");
    let moved = damaged(&|data| data.copy_from_slice(&new[5 * block..6 * block]));
    let says =
        format!("{place}foreign: the block of offset 327680, length 65536 (write 5 of job 1)");
    assert!(moved.contains(&says), "{moved}");
    let noise = damaged(&|data| {
        data.iter_mut()
            .enumerate()
            .for_each(|(at, byte)| *byte = (at * 7 + at / 300) as u8)
    });
    assert!(
        noise.contains(&format!("{place}foreign: no header of verify (bad magic")),
        "{noise}"
    );
}

/// Pauses a writing job during its read-back, applies `change` to the loop device, and continues the job.
fn while_it_is_read_back(change: impl Fn(&LoopDevice, &[u8], &[u8])) -> Option<String> {
    let bench = Bench::new();
    let device = LoopDevice::new(&bench, 2 * MIB, &["--direct-io=on"])
        .or_else(|| LoopDevice::new(&bench, 2 * MIB, &[]))?;
    let name = &device.name;
    let line = |more: &str| {
        format!(
            "fio --out={more} --name=a --filename={name} --erase={name} --direct=1 --bs=64k --rw=write --verify=md5 --iodepth=4"
        )
    };
    bench.line(&line("first")).expect(0);
    let first = device.content();
    // Each operation waits, so that there is time to change a block before it is read back.
    let slow = format!("{} --thinktime=40000 --iodepth=1", line("second"));
    let before = device.counters().write.sectors;
    let running = Running::start(bench.prepare(&words(&slow)));
    let begun = std::time::Instant::now();
    while device.counters().write.sectors < before + 2 * MIB / 512 {
        assert!(
            begun.elapsed().as_secs() < 60,
            "it does not write: {}",
            running.end().stderr
        );
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let second = device.content();
    change(&device, &first, &second);
    let ended = running.end();
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    Some(ended.stderr)
}

#[test]
fn a_lost_write_is_reported_as_stale() {
    let put = |device: &LoopDevice, data: &[u8], from: usize, to: usize| {
        device.put(from as u64, &data[from..to])
    };
    let Some(stale) =
        while_it_is_read_back(|device, first, _| put(device, first, 20 * 65_536, 21 * 65_536))
    else {
        return;
    };
    assert!(stale.contains("verify failed at offset 1310720, length 65536: stale: write 20 of an earlier run; the later write 20 of this run to the same offset is missing"), "{stale}");
    let Some(torn) = while_it_is_read_back(|device, first, _| {
        put(device, first, 20 * 65_536, 20 * 65_536 + 4096)
    }) else {
        return;
    };
    assert!(
        torn.contains(
            "torn: 8 of 128 sectors from byte 0 to 4096 of the block are of another write"
        ),
        "{torn}"
    );
    let Some(foreign) = while_it_is_read_back(|device, _, second| {
        device.put(20 * 65_536, &second[25 * 65_536..26 * 65_536])
    }) else {
        return;
    };
    assert!(
        foreign.contains("foreign: the block of offset 1638400, length 65536 (write 25 of job 1)"),
        "{foreign}"
    );
    let Some(flipped) = while_it_is_read_back(|device, _, second| {
        device.put(20 * 65_536 + 9_000, &[second[20 * 65_536 + 9_000] ^ 0x11])
    }) else {
        return;
    };
    assert!(
        flipped.contains("flipped: 2 bits differ; byte 9000 of the block"),
        "{flipped}"
    );
}

#[test]
fn every_kind_of_job_reads_back_its_writes() {
    let bench = Bench::new();
    let all = "--name=a --size=4m --verify=xxhash --direct=0 --iodepth=8";
    let (whole, _) = job(&bench, &format!("{all} --rw=randwrite --bs=4k"), 0);
    assert_eq!(
        (&whole["write"]["total_ios"], &whole["read"]["total_ios"]),
        (&1_024.into(), &1_024.into())
    );
    assert_eq!(
        (
            &whole["verify"]["verified_bytes"],
            &whole["verify"]["not_read_bytes"]
        ),
        (&(4 * MIB).into(), &0.into())
    );
    // With variable sizes, each smallest block has its own header. The last write to an offset is verified.
    for more in [
        "--rw=randwrite --bssplit=4k/50:16k/50",
        "--rw=randwrite --bs=4k --norandommap --random_distribution=zipf:1.2",
        "--rw=randrw --bs=4k,8k --verify_backlog=32",
        "--rw=write --bs=64k --verify_backlog=8 --verify_backlog_batch=4",
        "--rw=randtrimwrite --bs=16k",
        "--rw=randtrimwrite --bs=64k,64k,4k",
        "--rw=write --bs=4k --fsync=1",
        "--rw=randwrite --bs=16k --offset=64k --numjobs=2 --offset_increment=4m --group_reporting",
        "--rw=write --bs=4k --loops=3 --verify_interval=512",
    ] {
        let (job, ended) = job(&bench, &format!("{all} {more}"), 0);
        let counts = &job["verify"];
        assert_eq!(
            (&counts["not_read_bytes"], &counts["wrong_blocks"]),
            (&0.into(), &0.into()),
            "{more}"
        );
        let verified = counts["verified_bytes"].as_u64().unwrap();
        assert!(
            verified > MIB / 2 && verified <= job["write"]["io_bytes"].as_u64().unwrap(),
            "{more}: {verified}"
        );
        assert!(
            more.contains("norandommap") || !ended.stderr.contains("at once"),
            "{more}: {}",
            ended.stderr
        );
    }
    let (ended, messages) = job(
        &bench,
        &format!("{all} --rw=write --bs=4k --time_based --runtime=1"),
        0,
    );
    assert_eq!(
        (
            &ended["read"]["total_ios"],
            &ended["verify"]["verified_bytes"]
        ),
        (&0.into(), &0.into())
    );
    assert!(
        messages
            .stderr
            .contains("verify will not read any write back"),
        "{}",
        messages.stderr
    );
    assert!(
        messages
            .stderr
            .contains("ended before 4 MiB of its writes were read back"),
        "{}",
        messages.stderr
    );
    let (dry, _) = job(
        &bench,
        &format!("{all} --rw=write --bs=4k --do_verify=0"),
        0,
    );
    assert_eq!(dry["read"]["total_ios"], 0);
    let (only, _) = job(
        &bench,
        &format!("{all} --rw=write --bs=4k --verify_only"),
        0,
    );
    assert_eq!(
        (
            &only["write"]["total_ios"],
            &only["verify"]["verified_bytes"]
        ),
        (&0.into(), &(4 * MIB).into())
    );
    // The reads of a mixed job are not verified.
    let (mixed, _) = job(
        &bench,
        "--name=new --size=1m --verify=crc32c --direct=0 --rw=randrw --bs=4k --do_verify=0",
        0,
    );
    assert_eq!(mixed["verify"]["wrong_blocks"], 0);
}

#[test]
fn with_verify_fatal_the_first_wrong_block_ends_the_job_and_wrong_blocks_are_dumped() {
    let bench = Bench::new();
    let options =
        "--name=a --bs=4k --size=256k --direct=0 --verify=crc32 --verify_fatal=1 --verify_dump=1";
    job(&bench, &format!("{options} --rw=write"), 0);
    let right = bench.read("data");
    (4..9).for_each(|block| flip(&bench, block * 4096 + 100, 8));
    let (read, ended) = job(&bench, &format!("{options} --rw=read"), 1);
    assert_eq!(
        (&read["read"]["failed"], &read["read"]["total_ios"]),
        (&1.into(), &4.into()),
        "{}",
        ended.stderr
    );
    assert_eq!(bench.read("data.16384.expected"), right[16_384..20_480]);
    assert_eq!(
        bench.read("data.16384.received"),
        bench.read("data")[16_384..20_480]
    );
}

#[test]
fn a_stopped_run_saves_the_number_of_its_completed_writes() {
    let bench = Bench::new();
    let options = "--name=a --bs=4k --size=64m --direct=0 --verify=crc32c";
    let line = format!(
        "fio --out=cut --filename=data {options} --rw=write --thinktime=2000 --trigger-timeout=1s --trigger=date>fired"
    );
    bench
        .line(&line)
        .says(&["ended by trigger-timeout after 1 s"]);
    assert!(bench.exists("fired"));
    let state = bench.read("local-a-0-verify.state");
    assert_eq!((state[0], state.len()), (3, 24 + 152 + 16));
    let written = u64::from_le_bytes(state[24 + 16..24 + 24].try_into().unwrap());
    assert!((10..2_000).contains(&written), "{written}");
    // The stopped run left the rest of the file without verify blocks.
    job(&bench, &format!("{options} --rw=read"), 1);
    let (read, _) = job(
        &bench,
        &format!("{options} --rw=read --verify_state_load=1"),
        0,
    );
    let read = read["verify"]["verified_bytes"].as_u64().unwrap();
    assert!(
        read == written * 4096 || read == (written - 1) * 4096,
        "{read} of {written} writes"
    );
    if tool("fio", &["--version"]).is_some() {
        let (code, messages) = run(
            &bench,
            "fio",
            &format!(
                "{} --rw=read --verify_state_load=1",
                options.replace("--name=a ", "")
            ),
        );
        assert_eq!(code, 0, "{messages}");
        let fios = "--bs=4k --size=1m --verify=crc32c";
        let (code, messages) = run(&bench, "fio", &format!("{fios} --rw=write"));
        assert_eq!(code, 0, "{messages}");
        let (read, _) = job(
            &bench,
            &format!("--name=a --direct=0 {fios} --rw=read --verify_state_load=1"),
            0,
        );
        assert_eq!(
            read["verify"]["verified_bytes"], MIB,
            "all that fio's state says"
        );
    }
    bench.write("local-a-0-verify.state", &state[..100]);
    let (code, messages) = run(
        &bench,
        "flashproof",
        "--bs=4k --size=1m --verify=crc32c --rw=read --verify_state_load=1",
    );
    assert!(
        code != 0 && messages.contains("the file is damaged"),
        "{messages}"
    );
}

#[test]
fn written_data_has_the_requested_pattern_compressibility_and_duplicates() {
    let bench = Bench::new();
    let written = |more: &str| {
        job(
            &bench,
            &format!("--name=a --rw=write --bs=16k --size=1m --direct=0 {more}"),
            0,
        );
        bench.read("data")
    };
    let pattern = written("--buffer_pattern=0xabcdef");
    assert!(pattern.chunks(16_384).all(|block| {
        block
            .chunks_exact(3)
            .all(|bytes| bytes == [0xab, 0xcd, 0xef])
    }));
    assert!(written("--zero_buffers").iter().all(|byte| *byte == 0));
    let half = written("--buffer_compress_percentage=50 --buffer_compress_chunk=4k");
    let is_zero = |data: &[u8]| data.iter().all(|byte| *byte == 0);
    assert!(half.chunks(4096).all(
        |chunk| is_zero(&chunk[2048..]) && chunk[..2048].chunks(512).all(|part| !is_zero(part))
    ));
    let distinct = |data: Vec<u8>| {
        data.chunks(16_384)
            .map(<[u8]>::to_vec)
            .collect::<std::collections::HashSet<_>>()
            .len()
    };
    assert_eq!(distinct(written("")), 64);
    assert_eq!(distinct(written("--dedupe_percentage=100")), 1);
    let some = distinct(written("--dedupe_percentage=50"));
    assert!((15..50).contains(&some), "{some}");
    // Nine of ten blocks come from a working set of three blocks, 5 % of the file.
    let set = distinct(written("--dedupe_percentage=90 --dedupe_mode=working_set"));
    assert!((3..25).contains(&set), "{set}");
}

#[test]
fn writes_and_their_read_back_have_separate_runtimes() {
    let bench = Bench::new();
    // The 99 pauses between 100 writes take 990 ms, many times as long as the read-back.
    let options =
        "--name=a --rw=write --bs=4k --size=400k --direct=0 --verify=crc32c --thinktime=10ms";
    for (more, reads_meanwhile) in [
        ("", false),
        ("--verify_backlog=10", true),
        ("--loops=2", false),
    ] {
        let (ours, _) = job(&bench, &format!("{options} {more}"), 0);
        let of = |kind: &str, field: &str| ours[kind][field].as_u64().unwrap();
        let write_ms = of("write", "runtime");
        let read_ms = of("read", "runtime");
        assert!(write_ms >= 990, "{more}: {ours}");
        assert_eq!(
            read_ms >= write_ms,
            reads_meanwhile,
            "{more}: {read_ms} ms, writes {write_ms} ms"
        );
        assert!(
            reads_meanwhile || write_ms + read_ms <= ours["job_runtime"].as_u64().unwrap() + 2,
            "{more}: {ours}"
        );
        assert!(
            of("write", "bw_bytes").abs_diff(of("write", "io_bytes") * 1_000 / write_ms) <= 1_000,
            "{more}"
        );
    }
}
