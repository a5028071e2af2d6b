//! `flashproof check durability`: a drive loses its power during writes. Some drives keep all acknowledged writes,
//! others lie.
//!
//! Here only the drive loses its power; `guest/durability.rs` cuts the power of a whole machine.

use crate::support;

use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::symlink;
use std::thread;
use std::time::Duration;
use support::{Attached, Bench, CachedDrive, Running, Undo, tool};
use sys::random::Random;

/// Number of power cuts for each kind of drive.
const CUTS: u64 = 5;
/// Seed of the random moments of the cuts.
const SEED: u64 = 1;

/// Size of a drive, enough for all lanes and a file system.
const DRIVE_BYTES: u64 = 160 << 20;

/// The environment variable `name` as a number, or `default`.
fn variable(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |number| number.parse().unwrap_or_else(|_| panic!("{name} is no number")))
}

/// Starts a witness with the file `sessions`. Also returns its address.
pub(crate) fn witness(bench: &Bench, address: &str) -> (Running, String) {
    let mut witness = Running::start(bench.prepare(&["check", "witness", "--listen", address, "--file", "sessions"]));
    witness.wait_to_hear("listening on ");
    let said = witness.said();
    let address = said.split("listening on ").nth(1).and_then(|rest| rest.split(';').next()).unwrap().to_owned();
    (witness, address)
}

/// Number of acknowledged writes, from the last line of the witness's file with this number; 0 if there is no such
/// line.
pub(crate) fn acknowledged(bench: &Bench) -> u64 {
    let text = fs::read_to_string(bench.path("sessions")).unwrap_or_default();
    let upto = text.lines().rev().find_map(|line| line.split_once("\"upto\":[")?.1.split_once(']'));
    upto.map_or(0, |(numbers, _)| numbers.split(',').filter_map(|number| number.parse::<u64>().ok()).sum())
}

/// Runs a session on a drive with the defect `lie`, cuts the drive's power, and examines the data. `None`: cannot be
/// tested here.
fn cut(lie: &str, in_directory: bool, modes: &[&str], number: u64, seed: u64) -> Option<Value> {
    let mut random = Random::for_part(seed, number);
    let bench = Bench::new();
    fs::File::create(bench.path("image")).unwrap().set_len(DRIVE_BYTES).unwrap();
    if in_directory {
        tool("mkfs.ext4", &["-q", "-F", bench.path("image").to_str()?])?;
        fs::create_dir(bench.path("fs")).unwrap();
    }
    let (mut witness, address) = witness(&bench, "127.0.0.1:0");
    let target = if in_directory { "fs" } else { "drive" };
    // A link gives the drive the same name, whatever the number of the loop device is.
    let attach = |drive: &CachedDrive| {
        let attached = Attached::new(&bench, drive)?;
        let _ = fs::remove_file(bench.path("drive"));
        symlink(&attached.device, bench.path("drive")).unwrap();
        let mounted = match in_directory {
            true => {
                tool("mount", &[&attached.device, bench.path("fs").to_str()?])?;
                Some(Undo::with("umount", &["--lazy", bench.path("fs").to_str()?]))
            }
            false => None,
        };
        Some((mounted, attached))
    };

    let mut drive = CachedDrive::start(&bench, "image", lie)?;
    let attached = attach(&drive)?;
    let device = attached.1.device.clone();
    let command = ["check", "durability", target, "--witness", &address];
    let mut arguments = command.to_vec();
    arguments.extend(modes.iter().flat_map(|mode| ["--mode", mode]));
    if !in_directory {
        arguments.extend(["--erase", &device]);
    }
    let mut tester = Running::start(bench.prepare(&arguments));
    tester.wait_until("many writes are acknowledged", || acknowledged(&bench) > 150);
    thread::sleep(Duration::from_millis(random.below(1500)));
    // In some cases the tester stops, too, as if the whole machine had lost its power.
    if number.is_multiple_of(CUTS) {
        tester.signal("STOP");
        drive.cut();
        witness.wait_to_hear("sent nothing more");
        tester.signal("KILL");
    } else {
        drive.cut();
        tester.end().expect(1).says(&["--drive-cut"]);
    }
    drop((attached, drive));

    let drive = CachedDrive::start(&bench, "image", "none")?;
    let attached = attach(&drive)?;
    let ended = bench.flashproof(&[&command[..], &["--drive-cut", "--json"]].concat());
    let json = ended.json();
    assert_eq!(json["exit_code"].as_i64(), ended.code.map(i64::from));
    drop(attached);
    Some(json)
}

/// Outcome of a mode, and the number of its acknowledged writes that are gone.
pub(crate) fn of_mode(json: &Value, mode: &str) -> (String, u64) {
    let result = json["modes"].as_array().unwrap().iter().find(|result| result["mode"] == mode).unwrap();
    let gone = ["lost", "stale", "torn", "foreign"].iter().map(|kind| result[*kind].as_u64().unwrap()).sum();
    (result["outcome"].as_str().unwrap().to_owned(), gone)
}

/// Cuts the power of drives with the defect `lie`. FLASHPROOF_DURABILITY_CUTS sets the number of cuts, and
/// FLASHPROOF_DURABILITY_SEED their moments.
fn cuts(lie: &str, in_directory: bool, modes: &[&str], check: impl Fn(&Value)) {
    let seed = variable("FLASHPROOF_DURABILITY_SEED", SEED);
    for number in 0..variable("FLASHPROOF_DURABILITY_CUTS", CUTS) {
        let Some(json) = cut(lie, in_directory, modes, number, seed) else { return };
        eprintln!("{lie}, cut {number} of FLASHPROOF_DURABILITY_SEED={seed}: {}", json["sentence"]);
        check(&json);
    }
}

fn is_held(json: &Value) {
    assert_eq!(json["outcome"], "pass", "{json:#}");
    let modes = json["modes"].as_array().unwrap();
    assert!(!modes.is_empty(), "{json:#}");
    for result in modes {
        let gone = of_mode(json, result["mode"].as_str().unwrap()).1;
        assert_eq!((gone, &result["checked"]), (0, &result["intact"]), "{json:#}");
    }
}

fn is_lost(json: &Value) {
    assert_eq!(json["outcome"], "fail", "{json:#}");
    assert!(json["sentence"].as_str().unwrap().starts_with("acknowledged writes are gone: "), "{json:#}");
}

#[test]
fn a_drive_that_keeps_what_it_flushed_is_never_reported() {
    cuts("writeback", false, &["fdatasync", "fsync"], is_held);
}

#[test]
fn a_drive_that_ignores_flushes_is_found_in_every_mode() {
    cuts("unsafe", false, &["fdatasync", "dsync"], |json| {
        is_lost(json);
        assert!(of_mode(json, "fdatasync").1 > 0 && of_mode(json, "dsync").1 > 0, "{json:#}");
    });
}

#[test]
fn a_directory_on_a_drive_that_keeps_what_it_flushed_is_never_reported() {
    cuts("none", true, &["fsync", "rename"], is_held);
}

#[test]
fn a_directory_on_a_drive_that_ignores_flushes_is_found() {
    cuts("unsafe", true, &["fsync", "rename"], |json| {
        is_lost(json);
        assert!(of_mode(json, "fsync").1 > 0 && of_mode(json, "rename").1 > 0, "{json:#}");
    });
}

#[test]
fn a_drive_that_forgets_a_part_of_a_flush_is_found_by_the_later_writes_that_it_kept() {
    cuts("part", false, &["fdatasync"], |json| {
        is_lost(json);
        let result = &json["modes"][0];
        assert!(result["reordered"].as_u64().unwrap() > 0 && result["torn"].as_u64().unwrap() > 0, "{json:#}");
    });
}

#[test]
fn without_a_cut_nothing_is_told_and_the_files_go() {
    let Some(bench) = Bench::on_disk() else { return };
    fs::create_dir(bench.path("data")).unwrap();
    let (witness, address) = witness(&bench, "127.0.0.1:0");
    let command = ["check", "durability", "data", "--witness", &address, "--mode", "fdatasync", "--mode", "rename"];
    // While the first tester runs, a second tester is refused.
    let mut tester = Running::start(bench.prepare(&command));
    tester.wait_until("writes are acknowledged", || acknowledged(&bench) > 50);
    bench.flashproof(&command).expect(3).says(&["still writes"]);
    tester.end_by("INT").expect(4).says(&["the writes ended (SIGINT)"]);
    assert!(bench.exists("data/flashproof-durability/data"), "the files stay");

    // A witness that does not know the session.
    let (_other, elsewhere) = self::witness(&Bench::new(), "127.0.0.1:0");
    let ended = bench.flashproof(&["check", "durability", "data", "--witness", &elsewhere]).expect(4);
    ended.says(&["does not know the session"]);

    // A killed witness has lost none of the writes that it confirmed.
    drop(witness);
    let (witness, _) = self::witness(&bench, &address);
    bench.flashproof(&command).expect(4).shows(&["cannot tell: the writes had ended before any cut (SIGINT)"]);
    assert!(!bench.exists("data/flashproof-durability"), "examined: the files go");

    // The tester ends when its witness ends.
    let mut tester = Running::start(bench.prepare(&command));
    tester.wait_to_hear(" writes to data");
    drop(witness);
    tester.end().expect(3).says(&[format!("the witness {address} failed (")]);
    let (mut witness, _) = self::witness(&bench, &address);
    let ended = bench.flashproof(&command).expect(4);
    ended.shows(&["ended before any cut (the witness ended, which also ended"]);

    // After a kill, the kernel closes the connection: the witness sees an end without a power cut.
    let mut tester = Running::start(bench.prepare(&command));
    tester.wait_to_hear(" writes to data");
    tester.signal("KILL");
    // If a reply was not read, the kernel resets the connection instead.
    witness.wait_to_hear(" ended: ");
    let ended = bench.flashproof(&command).expect(4);
    let why = ["the command closed", "Connection reset"].map(|why| format!("ended before any cut ({why}"));
    assert!(why.iter().any(|why| ended.stdout.contains(why)), "{}", ended.stdout);
    for (arguments, why) in [
        (&["check", "durability", "sim:", "--witness", &address][..], "stores no data"),
        (&["check", "durability", "data"], "no witness is named"),
        (&["check", "durability", "--witness", &address], "no path is given"),
        (&["check", "witness", "--listen", "127.0.0.1:0"], "needs an address and a file"),
        (&["check", "etcd", "sim:", "--drive-cut"], "only check durability"),
        (&["check", "durability", "data", "--witness", &address, "--mode", "fsnyc"], "is not a mode"),
        (&["check", "durability", "data", "--witness", &address, "--file", "x"], "has no effect"),
    ] {
        let ended = bench.flashproof(arguments).expect(2);
        assert!(ended.stderr.contains(why), "{arguments:?}: {}", ended.stderr);
    }
}

#[test]
fn a_witness_goes_on_whatever_it_is_sent() {
    let bench = Bench::new();
    let (_witness, address) = witness(&bench, "127.0.0.1:0");
    let sent = |bytes: &[u8]| {
        let mut stream = TcpStream::connect(&address).unwrap();
        // The witness may close before all is sent.
        let _ = stream.write_all(bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut answer = Vec::new();
        let _ = stream.take(1 << 20).read_to_end(&mut answer);
        String::from_utf8(answer).unwrap()
    };
    let garbage: [&[u8]; 7] = [
        b"",
        b"\n",
        b"GET / HTTP/1.1\r\n\r\n",
        &[0xff; 100_000],
        b"{\"end\":{\"session\":\"00000000000000000000000000000001\",\"why\":\"x\",\"failed\":true}}\n",
        &b"[".repeat(15_000),
        b"{\"ask\":{\"format_version\":1,\"subject\":\"x\",\"found\":null,\"more\":1}}\n",
    ];
    garbage.iter().for_each(|bytes| drop(sent(bytes)));
    // Idle connections and a slow one do not block other clients.
    let idle: Vec<_> = (0..60).map(|_| TcpStream::connect(&address).unwrap()).collect();
    let ask = b"{\"ask\":{\"format_version\":1,\"subject\":\"x\",\"found\":null}}\n";
    assert_eq!(sent(ask), "{\"record\":null}\n");
    let mut more: Vec<_> = (0..20).map(|_| TcpStream::connect(&address).unwrap()).collect();
    let mut line = String::new();
    let read = BufReader::new(more.pop().unwrap()).read_line(&mut line);
    assert!(matches!(read, Ok(0) | Err(_)), "closed, because too many are open: {line:?}");
    drop((idle, more));
    assert_eq!(bench.text("sessions"), "flashproof witness 1\n");
    bench.write("other", "precious");
    let ended = bench.flashproof(&["check", "witness", "--listen", "127.0.0.1:0", "--file", "other"]).expect(3);
    ended.says(&["it is not a witness's file"]);
    assert_eq!(bench.text("other"), "precious");
}
