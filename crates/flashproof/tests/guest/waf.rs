//! Write amplification of tenants on a controller that counts the writes to its media.

use super::machine::{DRIVE_BYTES, FDP, Machine};
use serde_json::json;

/// Two tenants that write the drive full in 10 s.
const TENANTS: &str = "printf '%s\\n' '[defaults]' 'record-bytes = 4096' 'fill-pct = 40' 'keys = \"sequential\"' 'reads-per-sec = 50' \
     'writes-per-sec = 3200' '[[tenant]]' 'name = \"a\"' 'write-block = \"64KiB\"' '[[tenant]]' 'name = \"b\"' \
     'write-block = \"128KiB\"' >/tmp/t.toml";

#[test]
#[ignore = "a guest of its own: make soak"]
fn tenants_with_handles_are_measured_by_the_drives_own_counters() {
    let Some(machine) = Machine::new(FDP) else {
        return;
    };
    let mut guest = machine.boot();
    guest.ask(TENANTS);
    let refused = guest
        .run("flashproof waf measure /tmp/t.toml --device $DATA0")
        .expect(3);
    assert!(
        refused.stderr.contains("it has no log with media writes"),
        "{}",
        refused.stderr
    );
    let refused = guest
        .run("flashproof waf measure /tmp/t.toml --device $FDP0 --arrange dedicated")
        .expect(2);
    assert!(
        refused.stderr.contains("it needs a drive for each tenant"),
        "{}",
        refused.stderr
    );

    let refused = guest
        .run("flashproof waf measure /tmp/t.toml --device $FDP0")
        .expect(2);
    assert!(
        refused
            .stderr
            .contains("give --erase with the serial number"),
        "{}",
        refused.stderr
    );

    // A signal ends the measurement after some seconds. waf prints the results up to the signal.
    guest.start(
        "waf",
        "flashproof waf measure /tmp/t.toml --device $FDP0 --erase FDP0 --arrange fdp --out /data/waf --json \
         --predict sim:ftl+capacity=256MiB+unit=32KiB+superblock=1MiB+handles=2+append=per-handle & echo $! >/tmp/pid; wait $!",
    );
    guest.wait_until("grep -qs ^0, /data/waf/fdp/telemetry.csv");
    // The drive fills the rest of a reclaim unit at once, through a handle that no tenant has.
    guest.ask("nvme fdp update $FDP0 --pids=7");
    guest.wait_until("grep -qs ^5, /data/waf/fdp/telemetry.csv");
    guest.ask("kill -TERM $(cat /tmp/pid)");
    let told = guest
        .end("waf")
        .expect_stderr(4, &["discarding all 268 MB of"])
        .json();
    assert!(
        told["remarks"].to_string().contains("ended by SIGTERM"),
        "{}",
        told["remarks"]
    );
    let fdp = &told["arrangements"][0];
    assert_eq!(
        (
            &fdp["arrangement"],
            &fdp["counted"]["drives"][0]["logical_bytes"]
        ),
        (&json!("fdp"), &json!(DRIVE_BYTES))
    );
    let predicted = &told["arrangements"][1];
    assert_eq!(
        predicted["arrangement"],
        json!("fdp, predicted"),
        "{told:#}"
    );
    assert!(
        predicted["waf"].as_f64().is_some_and(|waf| waf >= 1.0),
        "{predicted:#}"
    );
    let octiles = fdp["counted"]["drives"][0]["octiles"].as_array().unwrap();
    assert!(octiles.len() >= 2, "{fdp:#}");
    let [host, media] = ["host", "media"].map(|counter| {
        let octiles = octiles
            .iter()
            .map(|octile| octile[counter].as_u64().unwrap());
        octiles.sum::<u64>()
    });
    // The 16 MiB of the reclaim unit, and up to 5 % of the host's bytes: QEMU counts a write that fills a unit twice.
    let added = media - host;
    assert!(
        (16 << 20..(16 << 20) + host / 20).contains(&added),
        "{added} beside {host}: {fdp:#}"
    );
    let tenants = fdp["timed"]["latencies"].as_array().unwrap();
    assert_eq!(tenants.len(), 4, "reads and writes of two: {fdp:#}");
    guest
        .run("flashproof report /data/waf/fdp")
        .shows(&["a/writes"]);
}
