//! `flashproof check durability`: a drive loses its power during writes; some drives keep all acknowledged writes,
//! others lie. Here only the drive loses its power; `guest/durability.rs` cuts the power of a whole machine.

use crate::support;
use crate::support::words;

use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{MetadataExt, symlink};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};
use support::{Attached, Bench, CachedDrive, LoopDevice, Running, Undo, tool};
use sys::random::Random;

/// Number of power cuts for each kind of drive.
const CUTS: u64 = 2;
/// Seed of the random times of the cuts.
const SEED: u64 = 1;

/// Size of a drive, enough for all lanes and a file system.
const DRIVE_BYTES: u64 = 160 << 20;

fn variable(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |number| {
        number
            .parse()
            .unwrap_or_else(|_| panic!("{name} is no number"))
    })
}

/// Starts a witness with the file `sessions`. Also returns its address.
pub(crate) fn witness(bench: &Bench, address: &str) -> (Running, String) {
    let mut witness = Running::start(bench.prepare(&[
        "check", "witness", "--listen", address, "--file", "sessions",
    ]));
    witness.wait_to_hear("listening on ");
    let said = witness.said();
    let address = said
        .split("listening on ")
        .nth(1)
        .and_then(|rest| rest.split(';').next())
        .unwrap()
        .to_owned();
    (witness, address)
}

/// Number of acknowledged writes, from the last progress line of the witness's file. 0 without such a line.
pub(crate) fn acknowledged(bench: &Bench) -> u64 {
    let text = fs::read_to_string(bench.path("sessions")).unwrap_or_default();
    let upto = text
        .lines()
        .rev()
        .find_map(|line| line.split_once("\"upto\":[")?.1.split_once(']'));
    upto.map_or(0, |(numbers, _)| {
        numbers
            .split(',')
            .filter_map(|number| number.parse::<u64>().ok())
            .sum()
    })
}

pub(crate) fn secret(said: &str) -> String {
    said.split("secret ")
        .nth(1)
        .and_then(|rest| rest.split(':').next())
        .unwrap_or_else(|| panic!("{said}"))
        .to_owned()
}

/// Runs a session on a drive with the defect `lie`, cuts its power, and examines the data. `None`: a tool is missing.
fn cut(lie: &str, in_directory: bool, modes: &[&str], number: u64, seed: u64) -> Option<Value> {
    let mut random = Random::for_part(seed, number);
    let bench = Bench::new();
    fs::File::create(bench.path("image"))
        .unwrap()
        .set_len(DRIVE_BYTES)
        .unwrap();
    if in_directory {
        tool("mkfs.ext4", &["-q", "-F", bench.path("image").to_str()?])?;
        fs::create_dir(bench.path("fs")).unwrap();
    }
    let (_witness, address) = witness(&bench, "127.0.0.1:0");
    let target = if in_directory { "fs" } else { "drive" };
    // A symbolic link keeps the name of the drive, although the number of the loop device changes.
    let attach = |drive: &CachedDrive| {
        let attached = Attached::new(&bench, drive)?;
        let _ = fs::remove_file(bench.path("drive"));
        symlink(&attached.device, bench.path("drive")).unwrap();
        let mounted = if in_directory {
            tool("mount", &[&attached.device, bench.path("fs").to_str()?])?;
            Some(Undo::with(
                "umount",
                &["--lazy", bench.path("fs").to_str()?],
            ))
        } else {
            None
        };
        Some((mounted, attached))
    };

    let mut drive = CachedDrive::start(&bench, "image", lie)?;
    let mut attached = attach(&drive)?;
    let device = attached.1.device.clone();
    let command = ["check", "durability", target, "--witness", &address];
    let mut arguments = command.to_vec();
    arguments.extend(modes.iter().flat_map(|mode| ["--mode", mode]));
    if !in_directory {
        arguments.extend(["--erase", &device]);
    }
    let mut tester = Running::start(bench.prepare(&arguments));
    tester.wait_until("many writes are acknowledged", || {
        acknowledged(&bench) > 150
    });
    let secret = secret(&tester.said());
    thread::sleep(Duration::from_millis(random.below(1500)));
    attached.1.cut(&mut drive);
    tester
        .end()
        .expect(1)
        .says(&["reconnect it, then run the same command with --drive-cut"]);
    drop((attached, drive));

    let drive = CachedDrive::start(&bench, "image", "none")?;
    let attached = attach(&drive)?;
    let again = [&command[..], &["--drive-cut", "--json"]].concat();
    let mut ended = bench.flashproof(&again);
    if lie == "unsafe" && ended.code == Some(3) {
        // The drive may have lost everything.
        ended.says(&["its secret is not on the drive", "--secret SECRET", "--new"]);
        ended = bench.flashproof(&[&again[..], &["--secret", &secret]].concat());
    }
    let json = ended.json();
    assert_eq!(json["exit_code"].as_i64(), ended.code.map(i64::from));
    drop(attached);
    Some(json)
}

/// Outcome of a mode, and the number of its acknowledged writes that are lost, stale, torn or foreign.
pub(crate) fn of_mode(json: &Value, mode: &str) -> (String, u64) {
    let result = json["modes"]
        .as_array()
        .unwrap()
        .iter()
        .find(|result| result["mode"] == mode)
        .unwrap();
    let gone = ["lost", "stale", "torn", "foreign"]
        .iter()
        .map(|kind| result[*kind].as_u64().unwrap())
        .sum();
    (result["outcome"].as_str().unwrap().to_owned(), gone)
}

/// Cuts the power of drives: FLASHPROOF_DURABILITY_CUTS times, at times drawn with FLASHPROOF_DURABILITY_SEED.
fn cuts(lie: &str, in_directory: bool, modes: &[&str], check: impl Fn(&Value)) {
    let seed = variable("FLASHPROOF_DURABILITY_SEED", SEED);
    for number in 0..variable("FLASHPROOF_DURABILITY_CUTS", CUTS) {
        let Some(json) = cut(lie, in_directory, modes, number, seed) else {
            return;
        };
        eprintln!(
            "{lie}, cut {number} of FLASHPROOF_DURABILITY_SEED={seed}: {}",
            json["sentence"]
        );
        check(&json);
    }
}

fn is_durable(json: &Value) {
    assert_eq!(json["outcome"], "pass", "{json:#}");
    assert!(
        json["sentence"]
            .as_str()
            .unwrap()
            .ends_with("so the cut rests on the user's word"),
        "{json:#}"
    );
    let modes = json["modes"].as_array().unwrap();
    assert!(!modes.is_empty(), "{json:#}");
    for result in modes {
        let gone = of_mode(json, result["mode"].as_str().unwrap()).1;
        assert_eq!(
            (gone, &result["checked"]),
            (0, &result["intact"]),
            "{json:#}"
        );
    }
}

fn is_lost(json: &Value) {
    assert_eq!(json["outcome"], "fail", "{json:#}");
    assert!(
        json["sentence"]
            .as_str()
            .unwrap()
            .starts_with("acknowledged writes are gone: "),
        "{json:#}"
    );
}

#[test]
fn a_drive_that_keeps_flushed_data_passes_after_every_power_cut() {
    cuts("writeback", false, &["fdatasync", "fsync"], is_durable);
}

#[test]
fn a_drive_that_ignores_flushes_fails_with_lost_writes_of_fdatasync_and_of_dsync() {
    cuts("unsafe", false, &["fdatasync", "dsync"], |json| {
        is_lost(json);
        assert!(
            of_mode(json, "fdatasync").1 > 0 && of_mode(json, "dsync").1 > 0,
            "{json:#}"
        );
    });
}

#[test]
fn a_directory_on_a_drive_that_keeps_flushed_data_passes_after_every_power_cut() {
    cuts("none", true, &["fsync", "rename"], is_durable);
}

#[test]
fn a_directory_on_a_drive_that_ignores_flushes_fails_with_lost_writes() {
    cuts("unsafe", true, &["fsync", "rename"], |json| {
        is_lost(json);
        assert!(
            of_mode(json, "fsync").1 > 0 && of_mode(json, "rename").1 > 0,
            "{json:#}"
        );
    });
}

#[test]
fn a_drive_that_loses_part_of_a_flush_is_found_by_later_writes_that_it_kept() {
    cuts("part", false, &["fdatasync"], |json| {
        is_lost(json);
        let result = &json["modes"][0];
        assert!(
            result["reordered"].as_u64().unwrap() > 0 && result["torn"].as_u64().unwrap() > 0,
            "{json:#}"
        );
    });
}

#[test]
fn a_stopped_tester_and_a_drive_error_do_not_count_as_power_cuts() {
    let bench = Bench::new();
    let Some(device) = LoopDevice::new(&bench, DRIVE_BYTES, &["--direct-io=on"]) else {
        return;
    };
    let (mut witness, address) = witness(&bench, "127.0.0.1:0");
    let command = ["check", "durability", &device.name, "--witness", &address];
    let begin = || {
        let arguments = [
            &command[..],
            &[
                "--mode",
                "fdatasync",
                "--mode",
                "dsync",
                "--erase",
                &device.name,
            ],
        ]
        .concat();
        let mut tester = Running::start(bench.prepare(&arguments));
        tester.wait_to_hear("cut the power at any time");
        tester
    };
    // JSON, because the text wraps the sentence.
    let is_invalid = |why: &[&str]| {
        let json = bench
            .flashproof(&[&command[..], &["--drive-cut", "--json"]].concat())
            .expect(4)
            .json();
        let sentence = json["sentence"].as_str().unwrap();
        assert!(
            json["outcome"] == "invalid" && why.iter().all(|part| sentence.contains(part)),
            "{json:#}"
        );
    };

    let tester = begin();
    tester.signal("STOP");
    witness.wait_to_hear("sent nothing more");
    tester.signal("KILL");
    drop(tester);
    is_invalid(&["the command stopped without reporting a failed write"]);
    // Only the session's connection timed out. The query at the start of the command had been answered before.
    assert_eq!(
        witness.said().matches("no whole line within").count(),
        1,
        "{}",
        witness.said()
    );

    let tester = begin();
    tool("blockdev", &["--setro", &device.name]).unwrap();
    let ended = tester.end().expect(1);
    tool("blockdev", &["--setrw", &device.name]).unwrap();
    ended.says(&[
        "Operation not permitted",
        "does not count as a power cut, even with --drive-cut",
    ]);
    is_invalid(&[
        "ended before any cut (lane ",
        "failed: Operation not permitted",
    ]);
}

#[test]
fn without_a_power_cut_the_result_is_invalid_and_the_files_are_removed() {
    let Some(bench) = Bench::on_disk() else {
        return;
    };
    fs::create_dir(bench.path("data")).unwrap();
    let (witness, address) = witness(&bench, "127.0.0.1:0");
    let command = [
        "check",
        "durability",
        "data",
        "--witness",
        &address,
        "--mode",
        "fdatasync",
        "--mode",
        "rename",
    ];
    // While the first tester runs, a second tester is refused.
    let mut tester = Running::start(bench.prepare(&command));
    tester.wait_until("writes are acknowledged", || acknowledged(&bench) > 50);
    bench.flashproof(&command).expect(3).says(&["still writes"]);
    tester
        .end_by("INT")
        .expect(4)
        .says(&["the writes ended (SIGINT)"]);
    assert!(
        bench.exists("data/flashproof-durability/data"),
        "the files stay"
    );

    // A witness that does not know the session.
    let (_other, elsewhere) = self::witness(&Bench::new(), "127.0.0.1:0");
    let ended = bench
        .flashproof(&["check", "durability", "data", "--witness", &elsewhere])
        .expect(4);
    ended.says(&["does not know the session"]);

    // A killed witness has lost none of the writes that it confirmed.
    drop(witness);
    let (witness, _) = self::witness(&bench, &address);
    bench
        .flashproof(&command)
        .expect(4)
        .shows(&["the writes had ended before any cut (SIGINT)"]);
    assert!(
        !bench.exists("data/flashproof-durability"),
        "examined: the files go"
    );

    // The tester ends when its witness ends.
    let mut tester = Running::start(bench.prepare(&command));
    tester.wait_to_hear(" writes to data");
    drop(witness);
    tester
        .end()
        .expect(3)
        .says(&[format!("the witness {address} failed (")]);
    let (mut witness, _) = self::witness(&bench, &address);
    let ended = bench.flashproof(&command).expect(4);
    ended.shows(&["ended before any cut (the witness ended, which also ended"]);

    // After a kill, the kernel closes the connection. A power cut would leave the connection open.
    let mut tester = Running::start(bench.prepare(&command));
    tester.wait_to_hear(" writes to data");
    tester.signal("KILL");
    // If a reply was not read, the kernel resets the connection instead.
    witness.wait_to_hear(" ended: ");
    let ended = bench.flashproof(&command).expect(4);
    let why = ["the command closed", "Connection reset"]
        .map(|why| format!("ended before any cut ({why}"));
    assert!(
        why.iter().any(|why| ended.stdout.contains(why)),
        "{}",
        ended.stdout
    );
    for (arguments, why) in [
        (
            &["check", "durability", "sim:", "--witness", &address][..],
            "stores no data",
        ),
        (&["check", "durability", "data"], "no witness is named"),
        (
            &["check", "durability", "--witness", &address],
            "no path is given",
        ),
        (
            &["check", "witness", "--listen", "127.0.0.1:0"],
            "needs an address and a file",
        ),
        (
            &["check", "etcd", "sim:", "--drive-cut"],
            "only check durability",
        ),
        (
            &[
                "check",
                "durability",
                "data",
                "--witness",
                &address,
                "--mode",
                "fsnyc",
            ],
            "is not a mode",
        ),
        (
            &[
                "check",
                "durability",
                "data",
                "--witness",
                &address,
                "--file",
                "x",
            ],
            "has no effect",
        ),
    ] {
        let ended = bench.flashproof(arguments).expect(2);
        assert!(
            ended.stderr.contains(why),
            "{arguments:?}: {}",
            ended.stderr
        );
    }
}

#[test]
fn a_witness_survives_invalid_messages() {
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
    let ask = b"{\"ask\":{\"format_version\":2,\"subject\":\"x\",\"found\":null}}\n";
    assert_eq!(sent(ask), "{\"record\":null}\n");
    // Idle connections, also after one byte, do not block a tester. A line of 1 GiB is not read to its end.
    let mut idle: Vec<_> = (0..200)
        .map(|_| TcpStream::connect(&address).unwrap())
        .collect();
    idle[150..]
        .iter_mut()
        .for_each(|stream| stream.write_all(b"{").unwrap());
    let began = Instant::now();
    assert_eq!(sent(ask), "{\"record\":null}\n");
    assert!(
        began.elapsed() < Duration::from_secs(2),
        "{:?}",
        began.elapsed()
    );
    let mut long = TcpStream::connect(&address).unwrap();
    let written = (0..1024)
        .take_while(|_| long.write_all(&[b'x'; 1 << 20]).is_ok())
        .count();
    assert!(written < 64, "{written} MiB of a line were taken");
    drop(idle);
    assert_eq!(bench.text("sessions"), "flashproof witness 1\n");
}

#[test]
fn a_witness_writes_only_to_a_regular_file_of_a_witness() {
    let bench = Bench::new();
    bench.write("other", "precious");
    bench.write("torn", "flashproof wit");
    symlink("planted", bench.path("dangling")).unwrap();
    symlink("other", bench.path("link")).unwrap();
    assert!(
        Command::new("mkfifo")
            .arg(bench.path("fifo"))
            .status()
            .unwrap()
            .success()
    );
    let open = |file| {
        bench
            .flashproof(&[
                "check",
                "witness",
                "--listen",
                "127.0.0.1:0",
                "--file",
                file,
            ])
            .expect(3)
    };
    for (file, why) in [
        ("other", "it is not a witness's file"),
        (
            "dangling",
            "it is a symbolic link, and only regular files are written; name a regular file",
        ),
        (
            "link",
            "it is a symbolic link, and only regular files are written; name a regular file",
        ),
        (
            "fifo",
            "it is a pipe, and only regular files are written; name a regular file",
        ),
        ("none/sessions", "its directory cannot be written"),
    ] {
        open(file).says(&[why]);
    }
    assert!(!bench.exists("planted") && !bench.exists("none"));
    assert_eq!(bench.text("other"), "precious");
    let mut witness =
        Running::start(bench.prepare(&words("check witness --listen 127.0.0.1:0 --file torn")));
    witness.wait_to_hear("listening on ");
    assert_eq!(bench.text("torn"), "flashproof witness 1\n");
    assert_eq!(
        fs::metadata(bench.path("torn")).unwrap().mode() & 0o777,
        0o600
    );
}

/// Sends lines to a witness, and returns a reply to each.
struct Peer(BufReader<TcpStream>);

impl Peer {
    fn new(address: &str) -> Self {
        Self(BufReader::new(TcpStream::connect(address).unwrap()))
    }

    fn ask(&mut self, line: &str) -> String {
        self.0
            .get_mut()
            .write_all(format!("{line}\n").as_bytes())
            .unwrap();
        let mut reply = String::new();
        self.0.read_line(&mut reply).unwrap();
        reply
    }
}

fn begin(id: u128, lanes: usize) -> String {
    let lane =
        json!({"mode": "fua", "write_bytes": 4096, "slots": 1024, "at": 0, "scattered": false});
    json!({"begin": {
        "format_version": 2, "id": format!("{id:032x}"), "subject": "m: /d", "path": "/d", "disk": null, "tool": "t",
        "started_unix_ms": 1, "boot_id": "b", "power": null, "lanes": vec![lane; lanes],
    }})
    .to_string()
}

fn durable(id: u128, upto: &[u64]) -> String {
    json!({"durable": {"session": format!("{id:032x}"), "phase": 0, "upto": upto}}).to_string()
}

#[test]
fn only_the_holder_of_the_secret_can_close_a_session() {
    let Some(bench) = Bench::on_disk() else {
        return;
    };
    fs::create_dir(bench.path("data")).unwrap();
    let (_witness, address) = witness(&bench, "127.0.0.1:0");
    let command = [
        "check",
        "durability",
        "data",
        "--witness",
        &address,
        "--mode",
        "fdatasync",
    ];
    let mut tester = Running::start(bench.prepare(&command));
    tester.wait_until("writes are acknowledged", || acknowledged(&bench) > 50);
    let said = tester.end_by("INT").expect(4).stderr;
    let id = said
        .split("session ")
        .nth(1)
        .unwrap()
        .split(' ')
        .next()
        .unwrap();
    for secret in [json!(null), json!(id), json!(format!("{:032x}", 1))] {
        let judged = json!({"judged": {"session": id, "sentence": "all there", "secret": secret}})
            .to_string();
        assert!(
            Peer::new(&address)
                .ask(&judged)
                .contains("only the secret of a session permits closing"),
            "{judged}"
        );
    }
    assert!(!bench.text("sessions").contains("judged"));

    // Even if the drive lost everything, the witness has the session. An examination needs the session's secret.
    fs::write(bench.path("data/flashproof-durability/data"), "").unwrap();
    bench
        .flashproof(&command)
        .expect(3)
        .says(&["its secret is not on the drive", &format!("session {id} ")]);
    let of_other = format!("{:032x}", 1);
    let other = [&command[..], &["--secret", &of_other]].concat();
    bench
        .flashproof(&other)
        .expect(3)
        .says(&["--secret gives the secret of another session"]);
    let secret = secret(&said);
    let mine = [&command[..], &["--secret", &secret]].concat();
    bench
        .flashproof(&mine)
        .expect(1)
        .shows(&["acknowledged writes are gone"]);
    let text = bench.text("sessions");
    assert!(
        text.contains("\"judged\"") && !text.contains(&secret),
        "{text}"
    );
    bench
        .flashproof(&mine)
        .expect(2)
        .says(&["was already examined: acknowledged writes are gone"]);
}

#[test]
fn the_file_of_a_witness_has_a_size_limit_and_sessions_without_writes_are_dropped() {
    let bench = Bench::new();
    let (witness, address) = self::witness(&bench, "127.0.0.1:0");
    let mut tester = Peer::new(&address);
    assert_eq!(tester.ask(&begin(1, 1)), "\"kept\"\n");
    assert_eq!(tester.ask(&durable(1, &[5])), "\"kept\"\n");
    let before = bench.text("sessions");
    let alive = json!({"alive": {"session": format!("{:032x}", 1)}}).to_string();
    (0..100).for_each(|_| assert_eq!(tester.ask(&alive), "\"kept\"\n"));
    assert!(tester.ask(&durable(1, &[5])).contains("makes no progress"));
    assert!(
        bench.text("sessions").starts_with(&before)
            && bench.text("sessions").len() < before.len() + 200
    );

    // Sessions without writes replace each other, but never a session with writes.
    for id in 2..1200 {
        assert_eq!(Peer::new(&address).ask(&begin(id, 1)), "\"kept\"\n", "{id}");
    }
    // With each progress message the file grows. At its limit of 64 MiB, it is shortened.
    let mut writer = Peer::new(&address);
    assert_eq!(writer.ask(&begin(5000, 64)), "\"kept\"\n");
    let mut longest = 0;
    let mut last = 0;
    for hundred in 0..700 {
        let upto = (1..=100).map(|one| (1 << 47) + hundred * 100 + one);
        let lines: String = upto.map(|upto| durable(5000, &[upto; 64]) + "\n").collect();
        writer.0.get_mut().write_all(lines.as_bytes()).unwrap();
        for _ in 0..100 {
            let mut reply = String::new();
            writer.0.read_line(&mut reply).unwrap();
            assert_eq!(reply, "\"kept\"\n");
        }
        last = (1 << 47) + hundred * 100 + 100;
        longest = longest.max(fs::metadata(bench.path("sessions")).unwrap().len());
    }
    assert!(
        (60 << 20..(64 << 20) + 100_000).contains(&longest),
        "{longest}"
    );
    let length = fs::metadata(bench.path("sessions")).unwrap().len();
    assert!(length < longest / 2, "the file became short: {length}");
    drop(witness);
    let (_witness, address) = self::witness(&bench, "127.0.0.1:0");
    for (id, upto) in [(1, 5), (5000, last)] {
        let ask =
            json!({"ask": {"format_version": 2, "subject": "", "found": format!("{id:032x}")}})
                .to_string();
        let reply = Peer::new(&address).ask(&ask);
        assert!(reply.contains(&format!("\"upto\":[{upto}")), "{reply}");
    }
}
