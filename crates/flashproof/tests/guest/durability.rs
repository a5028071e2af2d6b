//! Durability of a whole machine that loses its power, with an NVMe drive whose cache is nbdkit's memory.
//!
//! QEMU's NVMe controller ignores FUA. A drive that keeps all flushed data therefore lies only about FUA: ext4 then
//! loses its last commit, and a rename with it. With `write-cache=off`, QEMU sends FUA with each write.
//!
//! The guest has no network. Its connections to the witness go over serial ports.

use super::machine::Machine;
use crate::durability::{acknowledged, of_mode, secret, witness};
use crate::support::{CachedDrive, tool};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};
use sys::random::Random;

/// Timeout for the first writes, only against hanging.
const PATIENCE: Duration = Duration::from_secs(120);

/// Silence after which the witness assumes that the tester lost its power.
const SILENCE: Duration = Duration::from_secs(20);

const DEVICES: &str = "-chardev socket,id=first,path=first,server=on,wait=off -device virtserialport,chardev=first \
     -chardev socket,id=second,path=second,server=on,wait=off -device virtserialport,chardev=second \
     -chardev socket,id=third,path=third,server=on,wait=off -device virtserialport,chardev=third";

/// Script of a TCP server in the guest, which forwards each connection to a separate serial port.
const RELAY: &str = r#"ifconfig lo up
cat >/tmp/relay <<'END'
#!/bin/sh
for port in 2 3 4; do mkdir /tmp/port$port 2>/dev/null && break; done
exec 3<>/dev/vport0p$port
cat <&3 &
cat >&3
END
chmod 755 /tmp/relay
nc -ll -p 7070 -e /tmp/relay >/dev/null 2>&1 &
until grep -q :1B9E /proc/net/tcp /proc/net/tcp6; do sleep 0.1; done"#;

/// Connects a serial port to the witness when the first bytes arrive. The connection stays open, as after a power cut.
fn relay(port: &Path, address: &str) {
    let mut guest = UnixStream::connect(port).unwrap();
    let address = address.to_owned();
    thread::spawn(move || {
        let mut bytes = [0; 4096];
        let mut witness: Option<TcpStream> = None;
        while let Ok(read @ 1..) = guest.read(&mut bytes) {
            let to_witness = witness.get_or_insert_with(|| {
                let stream = TcpStream::connect(&address).unwrap();
                let mut from = stream.try_clone().unwrap();
                let mut to = guest.try_clone().unwrap();
                thread::spawn(move || std::io::copy(&mut from, &mut to));
                stream
            });
            if to_witness.write_all(&bytes[..read]).is_err() {
                break;
            }
        }
        thread::sleep(SILENCE);
    });
}

struct Cut<'a> {
    /// Defect of the drive, see `data/durability/drive.py`.
    lie: &'a str,
    /// QEMU's write-cache, `on` or `off`. `denied`: on, but Linux is told that the drive has no cache.
    write_cache: &'a str,
    in_directory: bool,
    modes: &'a [&'a str],
}

/// Cuts a machine's power during writes. Returns the examination after the restart. `None`: a tool is missing.
fn cut(cut: &Cut<'_>, seed: u64) -> Option<Value> {
    let Cut {
        lie,
        write_cache,
        in_directory,
        modes,
    } = *cut;
    let qemu_cache = if write_cache == "off" { "off" } else { "on" };
    let drive = format!("-device nvme,serial=CACHED0,drive=cached,write-cache={qemu_cache}");
    let machine = Machine::new(&format!("{drive} {DEVICES}"))?;
    let image = machine.bench.path("cached.img");
    if in_directory {
        tool("mkfs.ext4", &["-q", "-F", image.to_str()?])?;
    }
    let (mut witness, address) = witness(&machine.bench, "127.0.0.1:0");
    let (target, mount) = if in_directory {
        ("/mnt", "mkdir -p /mnt; mount -t ext4 $CACHED0 /mnt")
    } else {
        ("$CACHED0", "true")
    };
    let command = format!("flashproof check durability {target} --witness 127.0.0.1:7070");
    let boot = |is_again: bool| {
        let mut guest = machine.boot();
        ["first", "second", "third"]
            .iter()
            .for_each(|port| relay(&machine.bench.path(port), &address));
        guest.ask(RELAY);
        if in_directory && is_again {
            guest
                .run(&format!("mkdir -p /mnt; {command}"))
                .expect_stderr(3, &["mount the file system"]);
        }
        guest.ask(mount);
        if write_cache == "denied" {
            guest.ask("echo 'write through' >/sys/block/${CACHED0#/dev/}/queue/write_cache");
        }
        guest
    };

    let drive = CachedDrive::start(&machine.bench, "cached.img", lie)?;
    let mut guest = boot(false);
    let modes: String = modes.iter().map(|mode| format!(" --mode {mode}")).collect();
    let erase = if in_directory { "" } else { " --erase CACHED0" };
    guest.start("write", &format!("{command}{modes}{erase}"));
    let started = Instant::now();
    while acknowledged(&machine.bench) <= 300 {
        let said = guest.ask("cat /tmp/write.err; cat /tmp/write.code 2>/dev/null || true");
        assert!(
            !said.contains("error:") && started.elapsed() < PATIENCE,
            "{said}\n{}",
            witness.said()
        );
        thread::sleep(Duration::from_millis(200));
    }
    thread::sleep(Duration::from_millis(Random::new(seed).below(1500)));
    let secret = secret(&guest.ask("cat /tmp/write.err"));
    guest.power_cut();
    drop(drive);
    witness.wait_to_hear("sent nothing more");

    let _drive = CachedDrive::start(&machine.bench, "cached.img", "none")?;
    // The user gives the secret, in case the drive lost everything.
    let ended = boot(true).run(&format!("{command} --json --secret {secret}"));
    let json = ended.json();
    eprintln!("{lie}, write cache {write_cache}: {}", json["sentence"]);
    assert_eq!(json["exit_code"].as_i64(), ended.code.map(i64::from));
    Some(json)
}

/// Power cuts of a machine. FLASHPROOF_DURABILITY_GUEST_CUTS sets their number.
fn cuts(of: &Cut<'_>, check: impl Fn(&Value)) {
    let cuts =
        std::env::var("FLASHPROOF_DURABILITY_GUEST_CUTS").map_or(1, |cuts| cuts.parse().unwrap());
    for seed in 0..cuts {
        let Some(json) = cut(of, seed) else { return };
        check(&json);
    }
}

#[test]
#[ignore = "a guest of its own: make soak"]
fn a_machine_whose_drive_keeps_flushed_data_passes_after_a_power_cut() {
    let modes = ["fdatasync", "dsync", "fsync"];
    cuts(
        &Cut {
            lie: "none",
            write_cache: "on",
            in_directory: true,
            modes: &modes,
        },
        |json| {
            assert_eq!(json["outcome"], "pass", "{json:#}");
            assert_eq!(
                (&json["claims"]["write_cache"], &json["claims"]["fua"]),
                (&"write back".into(), &true.into())
            );
            modes.iter().for_each(|mode| {
                assert_eq!(of_mode(json, mode), ("pass".to_owned(), 0), "{json:#}")
            });
        },
    );
}

#[test]
#[ignore = "a guest of its own: make soak"]
fn a_machine_whose_controller_ignores_fua_fails_in_that_mode_after_a_power_cut() {
    cuts(
        &Cut {
            lie: "none",
            write_cache: "on",
            in_directory: true,
            modes: &["fua"],
        },
        |json| {
            let (outcome, gone) = of_mode(json, "fua");
            assert!(
                outcome == "fail" && gone > 0 && json["outcome"] == "fail",
                "{json:#}"
            );
        },
    );
}

#[test]
#[ignore = "a guest of its own: make soak"]
fn a_machine_whose_drive_keeps_every_write_passes_in_all_modes_after_a_power_cut() {
    cuts(
        &Cut {
            lie: "none",
            write_cache: "off",
            in_directory: true,
            modes: &[],
        },
        |json| {
            let modes = json["modes"].as_array().unwrap();
            assert_eq!(modes.len(), 5, "{json:#}");
            modes.iter().for_each(|mode| {
                assert_eq!(
                    of_mode(json, mode["mode"].as_str().unwrap()).1,
                    0,
                    "{json:#}"
                )
            });
            // In a slow guest, no mode may have enough writes for a judgement.
            let is_untested = json["sentence"]
                .as_str()
                .unwrap()
                .starts_with("no mode had 20 ");
            assert!(json["outcome"] == "pass" || is_untested, "{json:#}");
        },
    );
}

#[test]
#[ignore = "a guest of its own: make soak"]
fn a_machine_whose_drive_hides_its_cache_fails_after_a_power_cut() {
    cuts(
        &Cut {
            lie: "none",
            write_cache: "denied",
            in_directory: false,
            modes: &["fdatasync"],
        },
        |json| {
            assert!(
                json["outcome"] == "fail" && of_mode(json, "fdatasync").1 > 0,
                "{json:#}"
            );
            assert!(
                json["remarks"]
                    .to_string()
                    .contains("claims to have no volatile cache"),
                "{json:#}"
            );
        },
    );
}

#[test]
#[ignore = "by hand: shows why docs/durability.md sends those who doubt FUA to a directory"]
fn on_a_whole_device_linux_flushes_after_each_write_with_fua() {
    cuts(
        &Cut {
            lie: "none",
            write_cache: "on",
            in_directory: false,
            modes: &["fua"],
        },
        |json| {
            assert_eq!(json["outcome"], "pass", "{json:#}");
        },
    );
}
