//! Tests with an NVMe controller of QEMU: its logs, its byte counters, and its removal.

use super::machine::{DRIVE_BYTES, Guest};
use serde_json::{Value, json};

/// Counters of a drive: FDP statistics and OCP's log in bytes, SMART's in its units of 512,000 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Counters {
    pub(super) host_bytes: u128,
    media_bytes: u128,
    ocp_bytes: u128,
    smart_units: u128,
}

impl Counters {
    /// Reads the counters by nvme-cli, independently of flashproof.
    pub(super) fn read(guest: &mut Guest) -> Self {
        let mut at = |page: u8, specific: u8, offset: usize| {
            let script = format!(
                "nvme get-log $FDP0 --log-id={page} --lsi={specific} --log-len=512 --raw-binary | xxd -p | tr -d '\\n'"
            );
            let digits = guest.ask(&script);
            let digits = &digits[offset * 2..offset * 2 + 32];
            u128::from_str_radix(digits, 16).unwrap().swap_bytes()
        };
        // The FDP logs are those of endurance group 1, the only one.
        Self {
            host_bytes: at(0x22, 1, 0),
            media_bytes: at(0x22, 1, 16),
            ocp_bytes: at(0xC0, 0, 0),
            smart_units: at(2, 0, 48),
        }
    }
}

/// Command that writes a storage test to /tmp/c: few operations per second, because the processor is emulated.
fn load(seconds: u32) -> String {
    format!(
        "printf '%s\\n' device-names:$FDP0 test-duration-sec:{seconds} report-interval-sec:1 read-reqs-per-sec:200 \
         write-reqs-per-sec:100 large-block-op-kbytes:64 >/tmp/c"
    )
}

pub(super) fn parsed(guest: &mut Guest, script: &str) -> Value {
    serde_json::from_str(&guest.ask(script)).unwrap_or_else(|error| panic!("{script}: {error}"))
}

/// A column of a run's telemetry.csv, by the end of its name.
pub(super) fn column(table: &str, name: &str) -> Vec<String> {
    let mut lines = table
        .lines()
        .map(|line| line.split(',').collect::<Vec<_>>());
    let head = lines.next().unwrap();
    let at = head
        .iter()
        .position(|column| column.ends_with(name))
        .unwrap_or_else(|| panic!("{name} in {head:?}"));
    lines.map(|cells| cells[at].to_owned()).collect()
}

/// The doctor lists a new controller, and the controller's byte counters match those of flashproof.
pub(super) fn is_shown(guest: &mut Guest) {
    let devices = parsed(guest, "flashproof doctor --json");
    let known = |serial: &str| {
        let mut devices = devices["devices"].as_array().unwrap().iter();
        devices
            .find(|device| device["facts"]["serial"] == serial)
            .unwrap_or_else(|| panic!("{serial} in {devices:?}"))
            .clone()
    };
    let drive = known("FDP0");
    let mounted = known("DATA0");
    assert_eq!(
        (&drive["safe"], &drive["erase_name"]),
        (&json!("yes"), &json!("FDP0"))
    );
    assert_eq!(mounted["safe"], "no");
    assert_eq!(
        mounted["refused_because"][0],
        "it is mounted at /data; unmount it, or name another device"
    );
    let facts = &drive["facts"];
    let shown = [
        "model",
        "size_bytes",
        "logical_sector_bytes",
        "nsid",
        "max_write_streams",
    ];
    let expected = [
        json!("QEMU NVMe Ctrl"),
        json!(DRIVE_BYTES),
        json!(512),
        json!(1),
        json!(8),
    ];
    assert_eq!(shown.map(|fact| facts[fact].clone()), expected);

    // Findings about this drive: a note on its kind, and a warning that it is unprepared. `prep` removes the warning.
    let unprepared = |guest: &mut Guest| {
        let findings = parsed(guest, "flashproof doctor $FDP0 --json");
        let findings = findings["findings"].as_array().unwrap().clone();
        let level = |check: &str| {
            findings
                .iter()
                .find(|finding| finding["check"] == check)
                .map(|it| it["level"].clone())
        };
        assert_eq!(
            level("device-kind"),
            Some(json!("note")),
            "a virtual disk: {findings:?}"
        );
        level("preparation")
    };
    assert_eq!(unprepared(guest), Some(json!("warning")));
    let new = Counters::read(guest);
    assert_eq!((new.host_bytes, new.media_bytes, new.ocp_bytes), (0, 0, 0));
    guest.ask("flashproof prep $FDP0 --erase FDP0 --skip-zero --samples 100 --quiet");
    assert_eq!(unprepared(guest), Some(json!("ok")));
    let full = Counters::read(guest);
    assert_eq!(
        (full.host_bytes, full.ocp_bytes),
        (DRIVE_BYTES.into(), DRIVE_BYTES.into()),
        "each byte is written once"
    );
    assert_eq!(full.smart_units, u128::from(DRIVE_BYTES.div_ceil(512_000)));

    let told = guest.ask(&format!(
        "{}; flashproof storage /tmp/c --out /data/run --sla '99%>10s' --quiet",
        load(4)
    ));
    assert!(told.starts_with("PASS"), "{told}");
    let verdict = parsed(guest, "cat /data/run/verdict.json");
    let streams = verdict["streams"].as_array().unwrap();
    let writes = streams
        .iter()
        .find(|stream| stream["name"] == "large-block-writes")
        .unwrap();
    let bytes_written = u128::from(writes["ops"].as_u64().unwrap()) * (64 << 10);
    assert!(bytes_written > 0);
    let ran = Counters::read(guest);
    assert_eq!(ran.host_bytes - full.host_bytes, bytes_written);
    assert_eq!(ran.ocp_bytes - full.ocp_bytes, bytes_written);
    let table = guest.ask("cat /data/run/telemetry.csv");
    assert_eq!(
        column(&table, ".ocp.physical_media_units_written_bytes")[0],
        full.ocp_bytes.to_string()
    );
    assert_eq!(
        column(&table, ".smart.data_units_written")[0],
        full.smart_units.to_string()
    );
    // QEMU counts a write twice on the media if it fills the rest of a reclaim unit, so the media can have more bytes.
    assert!(ran.media_bytes >= ran.host_bytes, "{ran:?}");
}

/// A removed drive ends the run, and is named.
pub(super) fn is_taken_away(guest: &mut Guest) {
    guest.ask(&format!("rm -rf /data/run; {}", load(60)));
    guest.start(
        "gone",
        "flashproof storage /tmp/c --out /data/run --sla '99%>10s'",
    );
    guest.wait_until("grep -qs ^2, /data/run/telemetry.csv");
    let path = guest.ask("echo $FDP0").trim().to_owned();
    guest.qmp.command("device_del", json!({ "id": "fdp0" }));
    let ended = guest.end("gone").expect(1);
    for part in [
        &format!("FAIL: {path} is gone\nDo: "),
        "  screening, partial",
        "I/O errors",
        "run directory: /data/run",
    ] {
        assert!(ended.stdout.contains(part), "{part} in {}", ended.stdout);
    }
    assert!(!ended.stderr.contains("error:"), "{}", ended.stderr);

    // The run directory records the cause of the end, and a report works without the drive.
    let verdict = parsed(guest, "cat /data/run/verdict.json");
    assert_eq!(
        verdict["end"],
        json!({ "how": "device-gone", "device": path })
    );
    assert!(verdict["ran_sec"].as_f64().unwrap() < 60.0);
    guest
        .run("flashproof report /data/run")
        .expect_stdout(1, &[&format!("FAIL: {path} is gone\n")]);
    assert!(!guest.ask("flashproof doctor").contains("FDP0"));
}

/// Steps of a campaign that erase the drive with the serial number FDP0; the first is run.
pub(super) fn is_in_a_campaign(guest: &mut Guest) {
    let step = |name: &str| {
        format!(
            "[[step]]\nname = \"{name}\"\nlimit = \"5m\"\nrun = \"fio --name=w --filename={{drive}} --rw=randwrite --bs=64k \
             --direct=1 --rate_iops=20 --runtime=2 --time_based --out {{out}}\"\n"
        )
    };
    let campaign = format!(
        "name = \"swap\"\n{}{}[drives]\nserials = [\"FDP0\"]\n[consent]\nerase = [\"FDP0\"]\n",
        step("first"),
        step("second")
    );
    guest.ask("mkdir -p /data/lab && flashproof fleet inventory --out /data/lab --quiet");
    guest.ask(&format!(
        "cat >/data/lab/campaign.toml <<'END'\n{campaign}END\n"
    ));
    guest.ask("flashproof fleet task /data/lab 0 --step first");
}

/// Another drive replaces the removed FDP0: nothing is written to the other drive.
pub(super) fn is_replaced(guest: &mut Guest) {
    let file = json!({ "driver": "file", "filename": "spare.img" });
    guest.qmp.command(
        "blockdev-add",
        json!({ "driver": "raw", "node-name": "spare", "file": file }),
    );
    guest.qmp.command(
        "device_add",
        json!({ "driver": "nvme", "id": "swap0", "serial": "SWAP0", "drive": "spare" }),
    );
    let path = guest.ask("echo $FDP0").trim().to_owned();
    guest.wait_until(&format!("[ -e {path} ]"));
    guest.run("flashproof fleet run /data/lab").expect(3);
    let status = guest
        .run("flashproof fleet status /data/lab")
        .expect(3)
        .stdout;
    let why =
        format!("refused: the drive is not on this host: {path} is now SWAP0; put the drive back");
    assert!(status.contains(&why), "{status}");
    let units = guest
        .ask(&format!("nvme get-log {path} --log-id=2 --log-len=512 --raw-binary | tail -c +49 | head -c 16 | xxd -p"));
    assert_eq!(
        units.trim(),
        "0".repeat(32),
        "something was written to the other drive"
    );
    let first = parsed(guest, "cat /data/lab/tasks/0000/first/out/verdict.json");
    assert_eq!(first["end"]["how"], "completed", "{first}");
}
