//! NVMe passthrough as the engine of an ordinary load: long operations, and the kernel's page cache.

use super::drive::parsed;
use super::machine::Guest;
use serde_json::Value;

fn drive(guest: &mut Guest<'_>) -> Value {
    let devices = parsed(guest, "flashproof doctor --json");
    let mut devices = devices["devices"].as_array().unwrap().iter();
    devices
        .find(|one| one["facts"]["serial"] == "FDP0")
        .unwrap()
        .clone()
}

pub(super) fn splits_and_leaves_no_stale_page(guest: &mut Guest<'_>) {
    let before = drive(guest);
    let facts = &before["facts"];
    assert_eq!(facts["transport"], "nvme-pcie", "{facts:#}");
    assert!(
        facts["queue_requests_max"].as_u64() > Some(1)
            && facts["hardware_queues"].as_u64() > Some(0),
        "{facts:#}"
    );

    // Operations of 2 MiB are four commands each. Meanwhile, another program reads the drive through the page cache.
    guest.ask(
        "rm -rf /data/run; printf '%s\\n' device-names:$FDP0 test-duration-sec:4 report-interval-sec:1 engine:passthrough read-reqs-per-sec:40 \
         write-reqs-per-sec:4000 large-block-op-kbytes:2048 >/tmp/c",
    );
    guest.start(
        "run",
        "flashproof storage /tmp/c --out /data/run --erase FDP0 --sla '99%>10s' --quiet",
    );
    guest.wait_until("grep -qs ^0, /data/run/telemetry.csv");
    guest.ask("sleep 120 <$FDP0 >/dev/null 2>&1 &");
    let read = "dd if=$FDP0 bs=1M count=64 2>/dev/null";
    guest.ask(&format!("{read} >/dev/null"));
    // No operation failed. PASS and INVALID are accepted, because the speed of an emulated drive depends on the host.
    let told = guest.end("run");
    assert!(matches!(told.code, Some(0 | 4)), "{}", told.stdout);
    let sum = format!("{read} | md5sum");
    let cached = guest.ask(&sum);
    assert_eq!(
        cached,
        guest.ask(&format!("echo 3 >/proc/sys/vm/drop_caches; {sum}"))
    );
    let verdict = parsed(guest, "cat /data/run/verdict.json");
    let mut streams = verdict["streams"].as_array().unwrap().iter();
    let writes = streams
        .find(|stream| stream["name"] == "large-block-writes")
        .unwrap();
    let bytes_written = writes["ops"].as_u64().unwrap() * (2 << 20);
    let host = |drive: &Value| drive["fdp"]["statistics"]["host"].as_u64().unwrap();
    assert!(bytes_written > 0);
    assert_eq!(host(&drive(guest)) - host(&before), bytes_written);
    guest.ask("killall sleep");

    // The same engine for fio's jobs, by the name of the character device.
    let page = parsed(
        guest,
        "rm -rf /data/run; flashproof fio --name=a --filename=/dev/ng${FDP0#/dev/nvme} --ioengine=io_uring_cmd --rw=randread \
         --bs=4k --size=4m --iodepth=8 --runtime=60 --out=/data/run --no-trace --quiet --output-format=json",
    );
    assert_eq!(page["jobs"][0]["read"]["total_ios"], 1_024);
    assert!(
        guest
            .ask("cat /data/run/manifest.json")
            .contains("character_devices")
    );
}
