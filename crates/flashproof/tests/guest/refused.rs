//! Unsupported features are refused with a reason, and nothing is written.

use super::drive::{Counters, parsed};
use super::machine::Guest;
use super::placement::{STREAMS, run, tenants};

/// A drive without FDP that fails every write.
pub(super) const LOCKED: &str = "-device nvme,serial=LOCKED0,drive=locked";

/// A storage test of `device` in /tmp/c, by NVMe commands.
fn passthrough(device: &str) -> String {
    format!(
        "printf '%s\\n' device-names:{device} test-duration-sec:1 report-interval-sec:1 read-reqs-per-sec:50 \
         write-reqs-per-sec:50 large-block-op-kbytes:64 engine:passthrough >/tmp/c"
    )
}

fn storage(serial: &str) -> String {
    format!(
        "flashproof storage /tmp/c --erase {serial} --out /data/{serial} --sla '99%>10s' --no-trace --quiet"
    )
}

pub(super) fn nothing_is_written(guest: &mut Guest) {
    let new = Counters::read(guest);

    let hidden = format!(": >/tmp/empty; mount --bind /tmp/empty {STREAMS}");
    let shown = format!("umount {STREAMS}");
    let no_ring = "echo 2 >/proc/sys/kernel/io_uring_disabled";
    let ring = "echo 0 >/proc/sys/kernel/io_uring_disabled";
    let both = format!("{ring}; {shown}");
    let generic = "/dev/ng${FDP0#/dev/nvme}";
    let other = "/dev/ng${LOCKED0#/dev/nvme}";
    let gone = format!("mv {generic} /tmp/generic");
    let back = format!("mv /tmp/generic {generic}");
    let one = |place| tenants(100, 1, &[("32KiB", place, place)]);
    let two = tenants(100, 1, &[("32KiB", 1, 2)]);
    // The second tenant has no placement.
    let mixed = tenants(100, 1, &[("32KiB", 1, 1), ("64KiB", 1, 1)])
        + "sed -i '/name = .64KiB/,$ {/placement/d}' /tmp/t; ";
    let on_fdp = run("refused");
    let on_locked = on_fdp.replace("FDP0", "LOCKED0");

    // Setup, command, expected output, cleanup.
    type Case<'a> = (String, &'a str, &'a [&'a str], &'a str);
    let cases: [Case<'_>; 12] = [
        (
            one(9),
            &on_fdp,
            &[
                "placement handle 9 of",
                "its placement list has handles 1 to 8 - use lower handles",
            ],
            ":",
        ),
        (
            one(1),
            &on_locked,
            &[
                "its namespace has no placement list: the drive has no FDP",
                "waf setup DEVICE",
            ],
            ":",
        ),
        // The setup hides write streams, as in a kernel before 6.16, and forbids io_uring.
        (
            format!("{}{hidden}; {no_ring}", one(1)),
            &on_fdp,
            &["cannot send NVMe commands through io_uring (needed "],
            &both,
        ),
        (
            format!("{two}{no_ring}"),
            &on_fdp,
            &["(F_SET_RW_HINT), and a device has only one"],
            ":",
        ),
        (
            mixed,
            &on_fdp,
            &["would also apply to the writes without a handle"],
            ":",
        ),
        (
            one(6),
            &on_fdp,
            &["hint of the inode (F_SET_RW_HINT), at most 5"],
            ring,
        ),
        (
            format!("{}; {gone}", passthrough("$FDP0")),
            &storage("FDP0"),
            &["its character device has no node /dev/ng", "mknod /dev/ng"],
            ":",
        ),
        (
            format!("cp -a {other} {generic}"),
            &storage("FDP0"),
            &[
                "is not its character device: the kernel says",
                "remove the node",
            ],
            &back,
        ),
        (
            "blockdev --setro $FDP0".to_owned(),
            &storage("FDP0"),
            &["it is read-only", "blockdev --setrw"],
            ":",
        ),
        (
            one(1),
            &on_fdp,
            &["it is read-only (the device says so)"],
            ":",
        ),
        (
            ":".to_owned(),
            "flashproof prep $FDP0 --erase FDP0 --quiet",
            &["it is read-only"],
            "blockdev --setrw $FDP0",
        ),
        (
            ":".to_owned(),
            "flashproof waf setup $LOCKED0",
            &["it is not an NVMe drive with FDP"],
            ":",
        ),
    ];
    for (before, command, says, after) in cases {
        guest.ask(&before);
        let refused = guest.run(command).expect(3);
        assert!(
            says.iter().all(|words| refused.stderr.contains(words)),
            "{says:?} in {}",
            refused.stderr
        );
        guest.ask(after);
    }
    assert_eq!(Counters::read(guest), new, "something was written");

    // If the drive fails a command that it supports, the run is not refused, but fails with the drive's own status.
    guest.ask(&passthrough("$LOCKED0"));
    guest
        .run(&storage("LOCKED0"))
        .expect_stderr(1, &["NVMe status Write Fault (type 0x2, code 0x80)"]);

    // The drive has handles: nothing to set up. The setup is not tested: QEMU's drives with FDP always have handles.
    let how = guest.ask("flashproof waf setup $FDP0");
    assert!(
        how.starts_with("Nothing to do: FDP is on in endurance group 1"),
        "{how}"
    );
    // A check works without io_uring, as in most containers, and reports the cost.
    let check = "printf '%s\\n' 'database = \"mine\"' 'question = \"Is it good?\"' '[sustained]' 'seconds = 1' 'written = \"0\"' \
                 'why = \"It is short.\"' '[[run]]' 'name = \"reads\"' 'seconds = 1' \"jobs = '''\" '[reads]' 'ioengine=libaio' \
                 'iodepth=4' 'direct=1' 'rw=randread' 'bs=4k' 'filename=data' 'size=4m' \"'''\" '[[run.criterion]]' \
                 'stream = \"reads-reads\"' 'metric = \"p99\"' 'says = \"mine\"' >/tmp/check.toml; ";
    let checked = guest
        .run(&format!(
            "{check}{no_ring}; flashproof check /tmp/check.toml $FDP0 --erase FDP0"
        ))
        .expect(0);
    assert!(
        checked
            .stderr
            .contains("using Linux AIO instead of io_uring, at a higher CPU cost"),
        "{}",
        checked.stderr
    );
    assert!(
        checked.stdout.contains("no published limit; your values: "),
        "{}",
        checked.stdout
    );
    guest.ask(ring);

    // Nothing is left behind: the same drive now takes a valid load.
    guest.ask(&format!(
        "{}{}",
        tenants(100, 1, &[("32KiB", 8, 8)]),
        run("works")
    ));
    assert!(parsed(guest, "cat /data/works/verdict.json")["outcome"] == "pass");
}
