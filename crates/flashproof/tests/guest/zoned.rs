//! A zoned namespace: fio's `zonemode=zbd` by io_uring, system calls and NVMe commands, and zones that another program
//! resets.

use super::drive::parsed;
use super::machine::{Guest, Machine};
use crate::support::MIB;
use serde_json::Value;

/// 64 zones of 4 MiB with 3 MiB that can be written, 4 of them open and 5 active at most.
const ZONED: &str = "-device nvme,id=zoned0,serial=ZONED0 -device nvme-ns,drive=zoned,bus=zoned0,zoned=on,zoned.zone_size=4M,\
     zoned.zone_capacity=3M,zoned.max_open=4,zoned.max_active=5";

/// Runs `flashproof fio` with `options` in the guest, asserts that nothing failed, and returns the job.
fn job(guest: &mut Guest, options: &str) -> Value {
    let line = format!(
        "rm -rf /data/run; flashproof fio --name=a --filename=$ZONED0 --erase ZONED0 --direct=1 --zonemode=zbd --runtime=300 {options} \
         --out=/data/run --no-trace --quiet --output-format=json"
    );
    let page = parsed(guest, &line);
    assert_eq!(page["jobs"][0]["error"], 0, "{options}: {page:#}");
    page["jobs"][0].clone()
}

/// Operations of a kind.
fn ops(job: &Value, kind: &str) -> u64 {
    job[kind]["total_ios"].as_u64().unwrap()
}

/// Bytes before the write pointers of all zones, by nvme-cli.
fn written(guest: &mut Guest) -> u64 {
    let report = parsed(guest, "nvme zns report-zones $ZONED0 -o json -d 64");
    let zones = report["zone_list"].as_array().unwrap();
    assert_eq!(zones.len(), 64);
    let of = |zone: &Value, name: &str| zone[name].as_u64().unwrap();
    // A full zone has no write pointer.
    let blocks =
        |zone: &Value| if zone["state"] == "FULL" { of(zone, "cap") } else { of(zone, "wp") - of(zone, "slba") };
    zones.iter().map(|zone| blocks(zone) * 512).sum()
}

#[test]
#[ignore = "a guest of its own: make soak"]
fn zones_are_written_at_their_write_pointers_and_a_zone_that_another_program_resets_is_named() {
    let Some(machine) = Machine::new(ZONED) else { return };
    let mut guest = machine.boot();
    if guest.run("[ -r /sys/block/${ZONED0#/dev/}/queue/nr_zones ]").code != Some(0) {
        return crate::support::skip("the guest's kernel knows no zones").unwrap_or(());
    }
    // Writes each zone once, then again after a reset of each.
    let wrote = job(&mut guest, "--rw=write --bs=256k --iodepth=4 --size=8z --zonesize=4m");
    assert_eq!((ops(&wrote, "write"), ops(&wrote, "trim")), (96, 0));
    assert_eq!(written(&mut guest), 24 * MIB);
    let wrote = job(&mut guest, "--rw=write --bs=256k --ioengine=psync --size=32m");
    assert_eq!((ops(&wrote, "write"), ops(&wrote, "trim"), &wrote["zone_resets"]), (96, 8, &8.into()));
    let read = job(&mut guest, "--rw=read --bs=256k --iodepth=4 --size=64m");
    assert_eq!(ops(&read, "read"), 96, "only the written zones");

    // Writes random zones, four at once, by several jobs. Then a job writes all zones again, past the block layer.
    for engine in ["io_uring", "libaio", "io_uring_cmd"] {
        let options = format!(
            "--rw=randwrite --bs=64k --iodepth=4 --numjobs=2 --group_reporting --size=48m --io_size=40m --ioengine={engine}"
        );
        let wrote = job(&mut guest, &options);
        assert_eq!(ops(&wrote, "write"), 80 * MIB / (64 << 10), "{engine}");
        assert!(ops(&wrote, "trim") > 0 && written(&mut guest) <= 36 * MIB, "{engine}");
    }
    let verified =
        job(&mut guest, "--rw=randwrite --bs=64k --iodepth=4 --size=32m --verify=crc32c --ioengine=io_uring_cmd");
    assert_eq!((ops(&verified, "write"), ops(&verified, "read"), ops(&verified, "trim")), (384, 384, 8));
    assert_eq!(
        (&verified["verify"]["verified_bytes"], &verified["verify"]["not_read_bytes"]),
        (&(24 * MIB).into(), &0.into())
    );
    let trimmed = job(&mut guest, "--rw=trim --bs=4m --size=64m");
    assert_eq!((ops(&trimmed, "trim"), written(&mut guest)), (16, 0));

    // Without zonemode nothing is written. The same holds if other zones use up the active zones of the device.
    let line = "flashproof fio --name=a --filename=$ZONED0 --erase ZONED0 --direct=1 --rw=write --bs=64k --runtime=60 --no-trace --out=/data/run";
    for line in [line, "flashproof prep $ZONED0 --erase ZONED0"] {
        guest.run(&format!("rm -rf /data/run; {line}")).expect_stderr(3, &["it is a zoned device"]);
    }
    for zone in 10..15 {
        guest.ask(&format!(
            "dd if=/dev/zero of=$ZONED0 bs=64k count=1 seek={} oflag=direct conv=notrunc 2>&1",
            zone * 64
        ));
    }
    guest.run(&format!("rm -rf /data/run; {line} --zonemode=zbd --size=32m")).expect_stderr(
        2,
        &["0 zones in the job's range and 5 outside of it are open or half full, but at most 5 zones can be"],
    );
    guest.ask("nvme zns reset-zone $ZONED0 -a");

    // Another program moves the write pointers of all zones.
    guest.start("run", &format!("rm -rf /data/run; {line} --zonemode=zbd --rate_iops=100 --time_based"));
    guest.wait_until("grep -qs ^1, /data/run/telemetry.csv");
    guest.ask("nvme zns reset-zone $ZONED0 -a");
    guest.end("run").expect_stderr(1, &["the zone's write pointer is elsewhere: another program wrote to the zone"]);
}
