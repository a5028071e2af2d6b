//! Probes a real controller's firmware for its treatment of placement handles.

use super::machine::{Machine, SMALL_BYTES, SMALL_FDP};
use serde_json::{Value, json};

#[test]
#[ignore = "a guest of its own: make soak"]
fn the_probe_of_a_drive_that_moves_nothing_finds_nothing_and_counts_what_the_drive_counts() {
    let Some(machine) = Machine::new(SMALL_FDP) else { return };
    let mut guest = machine.boot();
    guest.run("flashproof waf probe $DATA0").expect_stderr(3, &["it has no FDP"]);
    let probe = "flashproof waf probe $FDP0 --erase FDP0";
    let ended = guest.run(&format!("{probe} --out /tmp/probe.json")).expect(0);
    assert!(ended.stderr.contains("writes 1 GB in total, 9.95 times its size"), "{}", ended.stderr);
    assert!(ended.stdout.contains("serial FDP0") && ended.stdout.contains("  isolates: "), "{}", ended.stdout);

    let found: Value = serde_json::from_str(&guest.ask("cat /tmp/probe.json")).unwrap();
    assert_eq!(found["drive"]["facts"]["size_bytes"], json!(SMALL_BYTES));
    assert_eq!(found["drive"]["counted_by"], json!("fdp-statistics"));
    assert_eq!((&found["found"], &found["ended_early"]), (&json!([]), &Value::Null));
    let phases = found["phases"].as_array().unwrap();
    assert_eq!(phases.len(), 6);
    for phase in phases {
        assert_eq!(phase["counted"]["host"], phase["written_bytes"], "{phase}");
        // The drive writes extra bytes when a write crosses into the next reclaim unit: a few percent in so short a
        // phase.
        assert!((1.0..1.1).contains(&phase["waf"].as_f64().unwrap()), "{phase}");
    }

    guest.run(&format!("{probe} --out /tmp/probe.json")).expect_stderr(2, &["it is there already"]);
    // A signal in the middle of the probe, once the drive has been written to.
    let written = "nvme fdp stats $FDP0 --endgrp-id=1 | head -n 1";
    let broken_off = guest.run(&format!(
        "before=$({written}); {probe} & until [ \"$({written})\" != \"$before\" ]; do :; done; kill -TERM $!; wait $!"
    ));
    let broken_off = broken_off.expect(4);
    assert!(!broken_off.stdout.contains("  isolates: "), "{}", broken_off.stdout);
}
