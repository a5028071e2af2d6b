//! Placement handles: each stream's writes arrive at its handle through every kernel interface, and extra writes to the
//! media are reported. Checked by the blocks left in each handle's reclaim unit, and by FDP statistics.

use super::drive::{Counters, column, parsed};
use super::machine::{DRIVE_BYTES, FDP, Guest, Machine};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;

const UNIT_BLOCKS: u64 = (16 << 20) / 512;

/// A drive with blocks of 4,096 bytes, and the range of bytes of its partition.
const PARTITIONED: &str = "-device nvme-subsys,id=subsys1,nqn=subsys1,fdp=on,fdp.runs=16M,fdp.nrg=1,fdp.nruh=4 \
     -device nvme,id=part0,serial=PART0,subsys=subsys1 \
     -device nvme-ns,drive=part,nsid=1,bus=part0,logical_block_size=4096,physical_block_size=4096,fdp.ruhs=0-3";
const PARTITION: std::ops::Range<u64> = 3 << 20..35 << 20;

/// Sysfs file with the number of write streams of the drive.
pub(super) const STREAMS: &str = "/sys/block/${FDP0#/dev/}/queue/max_write_streams";

/// Command that writes a file of tenants, without reads, to /tmp/t. `placements`: for each tenant the write block, the
/// placement of its clients' writes, and the placement of its defragmentation.
pub(super) fn tenants(per_sec: u32, seconds: u32, placements: &[(&str, u16, u16)]) -> String {
    let mut file = format!(
        "operations-per-sec = {per_sec}\nduration-sec = {seconds}\nseed = 5\n\
         [defaults]\nread-pct = 0\nrecord-bytes = 4096\nspace-pct = 20\n"
    );
    for (block, clients, defrag) in placements {
        file += &format!(
            "[[tenant]]\nname = \"{block}\"\nwrite-block = \"{block}\"\n\
             placement = {clients}\ndefrag-placement = {defrag}\n"
        );
    }
    format!("cat >/tmp/t <<END\n{file}END\n")
}

/// Command that runs the tenants of /tmp/t on the drive, recorded in /data/NAME.
pub(super) fn run(name: &str) -> String {
    format!(
        "flashproof storage tenants /tmp/t --device $FDP0 --erase FDP0 --out /data/{name} --sla '99%>10s' --no-trace --quiet"
    )
}

/// Blocks left in the reclaim unit of each handle, by nvme-cli.
fn blocks_left(guest: &mut Guest) -> Vec<u64> {
    let status = parsed(guest, "nvme fdp status $FDP0 -o json");
    status["ruhss"]
        .as_array()
        .unwrap()
        .iter()
        .map(|handle| handle["ruamw"].as_u64().unwrap())
        .collect()
}

/// Bytes that the run in /data/NAME wrote, by stream.
fn written(guest: &mut Guest, name: &str) -> BTreeMap<String, u64> {
    let verdict = parsed(guest, &format!("cat /data/{name}/verdict.json"));
    let streams = verdict["streams"].as_array().unwrap().iter();
    let writes = streams.filter(|stream| stream["name"].as_str().unwrap().ends_with("writes"));
    writes
        .map(|stream| {
            (
                stream["name"].as_str().unwrap().to_owned(),
                stream["bytes"].as_u64().unwrap(),
            )
        })
        .collect()
}

/// Runs tenants with `placements`, and compares the writes of each stream with the data that arrived at each handle.
fn arrives(guest: &mut Guest, name: &str, carrier: &str, placements: &[(&str, u16, u16)]) {
    guest.ask(&tenants(800, 2, placements));
    let before = (Counters::read(guest), blocks_left(guest));
    // Exit code 4 (INVALID) is accepted, because the speed of an emulated drive depends on the host.
    guest.ask(&format!("{} || [ $? = 4 ]", run(name)));
    let after = (Counters::read(guest), blocks_left(guest));

    let manifest = parsed(guest, &format!("cat /data/{name}/manifest.json"));
    assert_eq!(manifest["engine_facts"]["placement"], json!(carrier));
    let written = written(guest, name);
    let mut expected = vec![0; before.1.len()];
    for (block, clients, defrag) in placements {
        for (stream, placement) in [("writes", clients), ("defrag-writes", defrag)] {
            let bytes = written[&format!("{block}/{stream}")];
            assert!(bytes > 0, "{block}/{stream} wrote nothing");
            expected[usize::from(*placement) - 1] += bytes;
        }
    }
    // No stream may fill its reclaim unit, because the blocks left would then be those of the next unit.
    assert!(
        expected.iter().all(|bytes| bytes / 512 < UNIT_BLOCKS),
        "a unit was filled: {expected:?}"
    );
    let arrived: Vec<u64> = before
        .1
        .iter()
        .zip(&after.1)
        .map(|(before, after)| (before + UNIT_BLOCKS - after) % UNIT_BLOCKS * 512)
        .collect();
    assert_eq!(arrived, expected, "{carrier}: {written:?}");
    let host = after.0.host_bytes - before.0.host_bytes;
    assert_eq!(host, u128::from(expected.iter().sum::<u64>()), "{carrier}");
}

#[test]
fn each_streams_writes_arrive_at_its_handle_and_extra_media_writes_are_reported() {
    let Some(machine) = Machine::new(&format!("{FDP} {PARTITIONED}")) else {
        return;
    };
    partition(&machine);
    let mut guest = machine.boot();

    // The tests of `guest::inside` compare block by block, while the drive is new.
    let inside = guest.ask("tests guest::inside --ignored --test-threads=1 2>&1");
    assert!(inside.contains("5 passed; 0 failed; 0 ignored"), "{inside}");

    let all = [
        ("32KiB", 1, 2),
        ("64KiB", 3, 4),
        ("128KiB", 5, 6),
        ("256KiB", 7, 8),
    ];
    arrives(&mut guest, "streams", "write streams of io_uring", &all);
    // An empty file over max_write_streams simulates a kernel before 6.16, which has no write streams.
    guest.ask(&format!(": >/tmp/empty; mount --bind /tmp/empty {STREAMS}"));
    arrives(
        &mut guest,
        "directives",
        "NVMe data placement directives",
        &all,
    );
    guest.ask(&format!(
        "umount {STREAMS}; echo 2 >/proc/sys/kernel/io_uring_disabled"
    ));
    let one = all.map(|(block, ..)| (block, 3, 3));
    arrives(
        &mut guest,
        "hint",
        "F_SET_RW_HINT, one for each device",
        &one,
    );
    guest.ask("echo 0 >/proc/sys/kernel/io_uring_disabled");

    injected(&mut guest);
    guest.power_cut();
    assert_untouched_outside(&machine);
}

/// Makes the media write more than the host does, while tenants run, and checks that the run recorded the difference.
fn injected(guest: &mut Guest) {
    let placements = [("32KiB", 1, 2), ("64KiB", 3, 4)];
    guest.ask(&tenants(100, 3600, &placements));
    // Each handle gets an empty reclaim unit, which the tenants do not fill during the run.
    guest.ask("for pid in 0 1 2 3 4 5 6 7; do nvme fdp update $FDP0 --pids=$pid || exit; done");
    guest.start("injected", &run("injected"));
    guest.wait_until("grep -qs ^0, /data/injected/telemetry.csv");
    // The drive fills the rest of a reclaim unit at once. No tenant's data is in this unit.
    guest.ask("nvme fdp update $FDP0 --pids=7");
    guest.ask("kill -TERM $(pidof flashproof)");
    let ended = guest.end("injected");
    let host: u64 = written(guest, "injected").values().sum();
    let media = host + UNIT_BLOCKS * 512;

    let table = guest.ask("cat /data/injected/telemetry.csv");
    let change = |name: &str| {
        let cells = column(&table, &format!(".fdp.{name}"));
        let read: Vec<u64> = cells.iter().filter_map(|cell| cell.parse().ok()).collect();
        read[read.len() - 1] - read[0]
    };
    assert_eq!(
        (change("hbmw_bytes"), change("mbmw_bytes")),
        (host, media),
        "{}",
        ended.stderr
    );
    let report = guest.run("flashproof report /data/injected --json").stdout;
    let report: Value = serde_json::from_str(&report).unwrap();
    let waf = &report["reports"][0]["device_waf"][0];
    assert_eq!(
        (&waf["host_bytes"], &waf["media_bytes"]),
        (&json!(host), &json!(media))
    );
    assert_eq!(waf["waf"], json!(media as f64 / host as f64));
    let text = guest.run("flashproof report /data/injected").stdout;
    assert!(
        text.contains(&format!(
            ": {:.2} (FDP statistics",
            media as f64 / host as f64
        )),
        "{text}"
    );
}

/// Contents of the drive outside its partition, which no test may change.
fn pattern() -> Vec<u8> {
    let mut image = b"outside!".repeat(DRIVE_BYTES as usize / 8);
    // A partition table as the kernel reads it: one entry, in blocks of the drive.
    let blocks = |bytes: u64| u32::try_from(bytes / 4096).unwrap().to_le_bytes();
    image[446..512].fill(0);
    image[450] = 0x83;
    image[454..458].copy_from_slice(&blocks(PARTITION.start));
    image[458..462].copy_from_slice(&blocks(PARTITION.end - PARTITION.start));
    image[510..512].copy_from_slice(&[0x55, 0xaa]);
    image[PARTITION.start as usize..PARTITION.end as usize].fill(0);
    image
}

fn partition(machine: &Machine) {
    machine.bench.write("part.img", pattern());
}

fn assert_untouched_outside(machine: &Machine) {
    let before = pattern();
    let after = fs::read(machine.bench.path("part.img")).unwrap();
    let start = PARTITION.start as usize;
    let end = PARTITION.end as usize;
    assert!(
        before[..start] == after[..start] && before[end..] == after[end..],
        "written outside of the partition"
    );
    assert!(
        after[start..end].iter().any(|byte| *byte != 0),
        "nothing was written"
    );
    // The tests of `guest::inside` wrote the last block of the partition.
    assert!(after[end - 4096..end].iter().all(|byte| *byte == 0xa5));
}
