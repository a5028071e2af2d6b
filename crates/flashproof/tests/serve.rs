//! The record server: its devices, its configuration, its end. Other tests cover the clients' view.

use crate::support::{self, Bench, Ended, LoopDevice, Running, serve, serve_as};
use std::net::TcpListener;
use std::thread;
use std::time::Duration;
use sys::random::Random;

/// A namespace in a file, on any port.
fn config(more: &str) -> String {
    format!(
        "service {{\n service-threads 2\n}}\nnetwork {{\n service {{\n address 127.0.0.1\n port 0\n }}\n}}\n\
         namespace test {{\n storage-engine device {{\n file records\n filesize 16M\n {more}\n }}\n}}\n"
    )
}

const SMALL: &str = "write-block-size 32K\n commit-to-device true";

/// Asserts that no server starts with the configuration `config`, because of one error, which has all `parts`.
#[track_caller]
fn refused(bench: &Bench, config: &str, parts: &[&str]) -> Ended {
    bench.write("serve.conf", config);
    bench
        .flashproof(&["engine", "serve", "serve.conf"])
        .expect_error(3, parts)
}

const SECOND_HEADER: usize = (8 << 20) - 4096;

/// Result and value of a write of `value`, or of a read.
fn ask(port: u16, key: u64, value: Option<&[u8]>) -> (u8, Vec<u8>) {
    let answer = support::ask(("127.0.0.1", port), key, value);
    (answer.result, answer.value)
}

#[test]
fn records_survive_a_signal_and_a_kill_and_other_commands_refuse_their_file() {
    let bench = Bench::new();
    let Some((running, port)) = serve(&bench, &config(SMALL)) else {
        return;
    };
    for key in 0..100 {
        assert_eq!(ask(port, key, Some(&[key as u8; 300])).0, 0);
    }
    running
        .end_by("TERM")
        .expect_stderr(0, &["finished clean shutdown"]);

    let Some((running, port)) = serve(&bench, &config(SMALL)) else {
        return;
    };
    assert!(
        running.said().contains("service ready: 100 records"),
        "{}",
        running.said()
    );
    let how = format!("; Ctrl-C or \"kill {}\" ends it\n", running.pid());
    assert!(running.said().contains(&how), "{}", running.said());
    assert_eq!(ask(port, 99, None), (0, vec![99; 300]));
    assert_eq!(ask(port, 100, Some(b"committed")).0, 0);
    assert_eq!(running.end_by("KILL").signal, Some(9));

    let Some((running, port)) = serve(&bench, &config(SMALL)) else {
        return;
    };
    assert_eq!(
        (ask(port, 100, None), ask(port, 0, None)),
        ((0, b"committed".to_vec()), (0, vec![0; 300]))
    );
    running.end_by("INT").expect(0);

    let before = bench.read("records");
    let other = bench
        .storage("device-names: records\nfile-size-mbytes: 16\ntest-duration-sec: 1\nwrite-reqs-per-sec: 10\n", &[]);
    other.expect_error(
        3,
        &["records of namespace \"test\", written by `flashproof engine serve`"],
    );
    let expected = "records written with other settings: write-block-size is \"32768\" on the device and \"65536\" in the settings";
    refused(&bench, &config("write-block-size 64K"), &[expected]);
    refused(
        &bench,
        &config(SMALL).replace("16M", "20M"),
        &["it holds records and has 16777216 bytes"],
    );
    assert!(before == bench.read("records"), "nothing was written");
}

#[test]
fn a_server_that_ignores_sigint_prints_the_kill_command_that_ends_the_server() {
    let bench = Bench::new();
    bench.write("serve.conf", config(SMALL));
    let mut running =
        Running::start(bench.shell("trap '' INT; exec flashproof engine serve serve.conf"));
    running.wait_to_hear(" ends it\n");
    let said = running.said();
    assert!(
        said.contains(&format!("; \"kill {}\" ends it\n", running.pid())),
        "{said}"
    );
    running.signal("INT");
    let ended = running.end_by("TERM").expect(0);
    assert!(
        !ended.stderr.contains("SIGINT") && ended.stderr.contains("finished clean shutdown"),
        "{}",
        ended.stderr
    );
}

#[test]
fn existing_data_needs_consent_and_a_damaged_store_is_not_written() {
    let bench = Bench::new();
    bench.write_victim("records", 16);
    let before = bench.read("records");
    refused(&bench, &config(SMALL), &["records", "--erase"]);
    let mut damaged = b"flashproof store".to_vec();
    damaged.resize(16 << 20, 7);
    bench.write("damaged", &damaged);
    refused(
        &bench,
        &config(SMALL).replace("file records", "file damaged"),
        &["damaged header", "first copy the device"],
    );
    assert!(before == bench.read("records") && damaged == bench.read("damaged"));
    bench.write("records", []);
    refused(
        &bench,
        &config(SMALL).replace("16M", "8M"),
        &["8 write blocks for each of 2 cores"],
    );
}

#[test]
fn a_store_with_flipped_bits_opens_only_with_accept_losses_and_later_starts_report_losses() {
    let bench = Bench::new();
    let Some((running, port)) = serve(&bench, &config(SMALL)) else {
        return;
    };
    let value = |key: u64, write: u8| [&key.to_be_bytes()[..], &[write; 300]].concat();
    for (write, key) in (1..=2).flat_map(|write| (0..1_000).map(move |key| (write, key))) {
        assert_eq!(ask(port, key, Some(&value(key, write))).0, 0);
    }
    running.terminate();

    let mut random = Random::new(7);
    let mut bytes = bench.read("records");
    // The part of the file with write blocks, most of which are written.
    let blocks = 8 << 20..11 << 20;
    for _ in 0..40 {
        bytes[blocks.start + random.below(blocks.len() as u64) as usize] ^= 1 << random.below(8);
    }
    bench.write("records", &bytes);
    let expected = [
        "cannot open namespace test - ",
        "may be missing or outdated",
        "start with --accept-losses",
    ];
    let refused = refused(&bench, &config(SMALL), &expected);
    assert!(
        refused.stderr.contains("records: write block "),
        "the blocks are named: {}",
        refused.stderr
    );
    assert!(
        bench.read("records")[blocks.clone()] == bytes[blocks.clone()],
        "damaged blocks are unchanged"
    );

    let Some((running, address)) =
        serve_as(&bench, "serve.conf", &config(SMALL), &["--accept-losses"])
    else {
        return;
    };
    let said = support::statistic(address, "lost_records_max");
    let lost = (0..1_000)
        .filter(|key| ask(address.port(), *key, None) != (0, value(*key, 2)))
        .count() as u64;
    println!("{lost} records are lost, but {said} were reported");
    assert!(
        (1..=said).contains(&lost),
        "{lost} records are lost, but {said} were reported"
    );
    assert!(
        running.said().contains("losses were accepted: "),
        "{}",
        running.said()
    );
    // Within 3 s, the server moves the readable records.
    let whole = |key: &u64| ask(address.port(), *key, None).0 == 0;
    let key = (0..1_000).find(whole).unwrap();
    thread::sleep(Duration::from_secs(3));
    running.terminate();
    let Some((running, port)) = serve(&bench, &config(SMALL)) else {
        return;
    };
    assert_eq!(
        support::statistic(("127.0.0.1", port), "lost_records_max"),
        said,
        "the losses are still reported"
    );
    assert_eq!(ask(port, key, None).0, 0);
    running.terminate();
}

#[test]
fn a_port_in_use_and_configuration_mistakes_are_reported() {
    let bench = Bench::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let taken = config(SMALL).replace("port 0", &format!("port {port}"));
    refused(
        &bench,
        &taken,
        &[&format!("cannot listen on 127.0.0.1:{port}")],
    );
    assert!(!bench.exists("records"), "no file was created");
    bench.write("serve.conf", config("write-block-size 3\n nonsense 1"));
    bench
        .flashproof(&["engine", "serve", "serve.conf"])
        .expect_stderr(2, &["line 14", "nonsense"]);
    bench.write("serve.conf", config(SMALL));
    bench
        .line("engine serve serve.conf --dry-run")
        .expect_stdout(
            0,
            &["namespace test: write blocks of 32768 bytes on records"],
        );
    bench
        .flashproof(&["engine", "serve", "absent.conf"])
        .expect_error(2, &["cannot read \"absent.conf\""]);
    let heartbeat = "heartbeat {\n mesh-seed-address-port 10.0.0.1 3000\n }\n service {\n address";
    bench.write(
        "other.conf",
        config(SMALL).replace("service {\n address", heartbeat),
    );
    for line in [
        "engine serve other.conf",
        "engine serve other.conf --dry-run",
    ] {
        let own = "line 6: no mesh-seed-address-port line has 127.0.0.1 0";
        bench.line(line).expect_error(2, &[own]);
    }
}

#[test]
fn a_server_on_all_addresses_answers_at_the_address_that_clients_get() {
    let bench = Bench::new();
    let any = config(SMALL).replace("address 127.0.0.1", "address any");
    let Some((running, address)) = serve_as(&bench, "serve.conf", &any, &[]) else {
        return;
    };
    let service = support::info(address, "service-clear-std");
    assert_eq!(service.trim(), format!("service-clear-std\t{address}"));
    assert_eq!(support::ask(address, 1, Some(b"value")).result, 0);
    running.terminate();
}

fn serve_with(bench: &Bench, config: &str, more: &[&str]) -> Option<(Running, u16)> {
    let (running, address) = serve_as(bench, "serve.conf", config, more)?;
    Some((running, address.port()))
}

fn serve_once(bench: &Bench, config: &str, more: &[&str]) -> Option<()> {
    serve_with(bench, config, more)?.0.terminate();
    Some(())
}

#[test]
fn formatting_clears_foreign_signatures_but_not_the_data_between_them() {
    const SIZE: usize = 16 << 20;
    let bench = Bench::new();
    bench.write_victim("records", SIZE >> 20);
    let mut content = bench.read("records");
    // Signatures of a RAID array and of a partition table, at offsets that the store's header does not overwrite.
    content[4096..4104].copy_from_slice(&[0xfc, 0x4e, 0x2b, 0xa9, 1, 0, 0, 0]);
    content[SIZE - 512..SIZE - 504].copy_from_slice(b"EFI PART");
    bench.write("records", &content);
    refused(
        &bench,
        &config(SMALL),
        &["backup of a GPT partition table", "RAID"],
    );
    assert!(content == bench.read("records"), "nothing was written");
    if serve_once(&bench, &config(SMALL), &["--erase", "records"]).is_none() {
        return;
    }
    let formatted = bench.read("records");
    let begin = 8 << 20;
    let tail = SIZE - (4 << 20);
    assert!(formatted.starts_with(b"flashproof store"));
    // The marks of two cores follow the header. The first block of the second core is at the start of the tail.
    assert!(formatted[4096..4104] != content[4096..4104]);
    let cleared = formatted[20 << 10..SECOND_HEADER]
        .iter()
        .chain(&formatted[begin..begin + 512]);
    assert!(cleared.chain(&formatted[tail..]).all(|byte| *byte == 0));
    assert!(
        formatted[SECOND_HEADER..begin] == formatted[..4096],
        "the second header"
    );
    assert!(
        formatted[begin + 4096..tail] == content[begin + 4096..tail],
        "the data in between is unchanged"
    );
    // The next start needs no consent.
    serve_once(&bench, &config(SMALL), &[]).unwrap();
}

#[test]
fn foreign_data_after_a_header_needs_consent() {
    const HEADER_BYTES: usize = 8 << 20;
    let bench = Bench::new();
    if serve_once(&bench, &config(SMALL), &[]).is_none() {
        return;
    }
    let mut content = bench.read("records");
    content[HEADER_BYTES..HEADER_BYTES + (2 << 20)].fill(b'x');
    bench.write("records", &content);
    let said = ["records of namespace \"test\"", "data in ", "--erase"];
    refused(&bench, &config(SMALL), &said);
    assert!(content == bench.read("records"), "nothing was written");
    serve_once(&bench, &config(SMALL), &["--erase", "records"]).unwrap();
}

#[test]
fn all_devices_are_checked_before_one_is_formatted() {
    let bench = Bench::new();
    let other = Bench::new();
    let Some(first) = LoopDevice::new(&bench, 16 << 20, &[]) else {
        return;
    };
    let Some(second) = LoopDevice::new(&other, 9 << 20, &[]) else {
        return;
    };
    let both = format!("device {}\n device {}", first.name, second.name);
    bench.write(
        "serve.conf",
        config("").replace("file records\n filesize 16M", &both),
    );
    let said = [
        &format!("cannot open {}", second.name)[..],
        "8 write blocks for each of 2 cores",
    ];
    bench
        .flashproof(&[
            "engine",
            "serve",
            "serve.conf",
            "--erase",
            &format!("{},{}", first.name, second.name),
        ])
        .expect_error(3, &said);
    assert!(
        first.content().iter().all(|byte| *byte == 0),
        "the first was not formatted"
    );
}

#[test]
fn devices_that_were_not_formatted_together_are_refused() {
    let bench = Bench::new();
    let both = config(SMALL).replace("file records", "file first\n file second");
    if serve_once(&bench, &both, &[]).is_none() {
        return;
    }
    let old = bench.read("second");
    bench.write("first", []);
    bench.write("second", []);
    serve_once(&bench, &both, &[]).unwrap();
    let new = bench.read("second");
    bench.write("second", &old);
    let said = [
        "first and second were not formatted together",
        "they belong to the sets",
    ];
    refused(&bench, &both, &said);
    assert!(old == bench.read("second"), "nothing was written");
    bench.write("second", new);
    serve_once(&bench, &both, &[]).unwrap();
}

#[test]
fn a_lost_header_is_restored_from_its_copy_and_without_both_nothing_is_written() {
    let bench = Bench::new();
    let Some((running, port)) = serve(&bench, &config(SMALL)) else {
        return;
    };
    for key in 0..100 {
        assert_eq!(ask(port, key, Some(&[key as u8; 300])).0, 0);
    }
    running.terminate();
    for lost in [0..1 << 20, SECOND_HEADER..8 << 20] {
        let mut content = bench.read("records");
        content[lost.clone()].fill(0);
        bench.write("records", &content);
        let (running, port) = serve(&bench, &config(SMALL)).unwrap();
        let warning = format!(
            "records: damaged header: the copy at byte {} is overwritten",
            lost.start
        );
        let said = running.said();
        assert!(
            said.contains(&warning) && said.contains("service ready: 100 records"),
            "{said}"
        );
        assert_eq!(ask(port, 99, None), (0, vec![99; 300]));
        running.terminate();
        let restored = bench.read("records");
        assert!(
            restored[..4096] == restored[SECOND_HEADER..8 << 20]
                && restored.starts_with(b"flashproof store")
        );
    }
    let mut content = bench.read("records");
    let header = content[..4096].to_vec();
    content[..8 << 20].fill(0);
    bench.write("records", &content);
    let said = [
        "damaged header",
        "still there",
        "first copy the device",
        "its records are lost, unless the other node",
    ];
    refused(&bench, &config(SMALL), &said);
    assert!(content == bench.read("records"), "nothing was written");
    // Another command recognises the store by the second header.
    content[SECOND_HEADER..8 << 20].copy_from_slice(&header);
    bench.write("records", &content);
    let storage = "device-names: records\nfile-size-mbytes: 16\ntest-duration-sec: 1\nwrite-reqs-per-sec: 10\n";
    bench.storage(storage, &[]).expect_error(
        3,
        &["records of namespace \"test\", written by `flashproof engine serve`"],
    );
}

#[test]
fn a_device_with_an_older_state_is_refused_but_not_after_a_crash_during_the_start() {
    let bench = Bench::new();
    let both = config(SMALL).replace("file records", "file first\n file second");
    let Some((running, port)) = serve_with(&bench, &both, &[]) else {
        return;
    };
    let write = |port, value: u8| {
        (0..200).for_each(|key| assert_eq!(ask(port, key, Some(&[value; 300])).0, 0))
    };
    write(port, 1);
    running.terminate();
    let old = bench.read("second");
    let (running, port) = serve_with(&bench, &both, &[]).unwrap();
    write(port, 2);
    running.terminate();
    let new = [bench.read("first"), bench.read("second")];

    bench.write("second", &old);
    let said = [
        "second has an older state than first",
        "number 1,",
        "start 2 reached",
        "state of the same shutdown",
    ];
    let ended = refused(&bench, &both, &said);
    assert!(
        ended.stderr.contains("or start with --accept-losses"),
        "{}",
        ended.stderr
    );
    assert!(
        old == bench.read("second") && new[0] == bench.read("first"),
        "nothing was written"
    );
    // With a second node, --accept-losses is refused: the older records could replace newer records of the other node.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let seeds = [port, 1].map(|port| format!("mesh-seed-address-port 127.0.0.1 {port}\n"));
    let nodes = format!(
        "heartbeat {{\n mode mesh\n {} }}\n}}\nnamespace",
        seeds.concat()
    );
    bench.write(
        "pair.conf",
        both.replace("port 0", &format!("port {port}"))
            .replace("}\nnamespace", &nodes),
    );
    let ended = bench
        .line("engine serve pair.conf --accept-losses")
        .expect_error(3, &said[..2]);
    assert!(!ended.stderr.contains("accept-losses"), "{}", ended.stderr);

    let (running, port) = serve_with(&bench, &both, &["--accept-losses"]).unwrap();
    assert!(
        running
            .said()
            .contains("second has an older state than first"),
        "{}",
        running.said()
    );
    let values: Vec<_> = (0..200).map(|key| ask(port, key, None).1).collect();
    assert!(
        [1, 2]
            .iter()
            .all(|value| values.contains(&vec![*value; 300])),
        "old and new records"
    );
    running.terminate();
    serve_once(&bench, &both, &[]).unwrap();

    // Devices with the state of the same stop are accepted, also after kills at any time during a start.
    bench.write("first", &new[0]);
    bench.write("second", &new[1]);
    for round in 0..20 {
        bench.write("serve.conf", &both);
        let running = Running::start(bench.shell("exec flashproof engine serve serve.conf"));
        thread::sleep(Duration::from_millis(round * 15));
        running.end_by("KILL");
    }
    let (running, port) = serve_with(&bench, &both, &[]).unwrap();
    assert_eq!(ask(port, 7, None), (0, vec![2; 300]));
    running.terminate();
}

#[test]
fn a_block_device_is_formatted_and_opened_again() {
    let bench = Bench::new();
    let Some(device) = LoopDevice::new(&bench, 32 << 20, &[]) else {
        return;
    };
    device.put(4096, b"somebody's");
    let on = config(SMALL).replace(
        "file records\n filesize 16M",
        &format!("device {}", device.name),
    );
    refused(&bench, &on, &[&device.name, "--erase"]);
    let Some((running, port)) = serve_with(&bench, &on, &["--erase", &device.name]) else {
        return;
    };
    assert_eq!(ask(port, 1, Some(b"on a device")).0, 0);
    running.end_by("KILL");
    let (running, port) = serve(&bench, &on).unwrap();
    assert_eq!(ask(port, 1, None), (0, b"on a device".to_vec()));
    running.terminate();
}

/// Times that each serving thread of process `pid` went to sleep.
fn sleeps(pid: u32) -> Vec<u64> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task"))
        .unwrap()
        .map(|task| task.unwrap().path());
    let read =
        |path: &std::path::Path, name: &str| std::fs::read_to_string(path.join(name)).unwrap();
    let shards = tasks.filter(|task| read(task, "comm").starts_with("shard-"));
    shards
        .map(|task: std::path::PathBuf| {
            let status = read(&task, "status");
            let count = status
                .split_once("\nvoluntary_ctxt_switches:")
                .unwrap()
                .1
                .split_whitespace()
                .next();
            count.unwrap().parse().unwrap()
        })
        .collect()
}

#[test]
fn requests_wake_only_the_core_of_their_connection() {
    let bench = Bench::new();
    let Some((running, port)) = serve(&bench, &config("")) else {
        return;
    };
    let port_text = port.to_string();
    let client = [
        "engine", "client", "-p", &port_text, "-k", "1000", "-o", "B:100", "-z", "1", "-T",
        "20000", "-w",
    ];
    let load = |words: &[&str]| bench.flashproof(&[&client[..], words].concat());
    load(&["I", "--out", "insert"]).expect(0);
    let before = sleeps(running.pid());
    load(&[
        "RU,90",
        "--duration",
        "2s",
        "--sla",
        "99%>10s",
        "--out",
        "update",
    ])
    .expect(0);
    let slept: Vec<_> = sleeps(running.pid())
        .iter()
        .zip(&before)
        .map(|(now, before)| now - before)
        .collect();
    let count = |name| support::statistic(("127.0.0.1", port), name);
    let requests = count("client_read_success") + count("client_write_success") - 1000;
    // The only data connection requests records of both cores. Statistics and buffers wake the other core 50 times/s.
    assert!(
        slept.len() == 2 && *slept.iter().min().unwrap() < 200 + requests / 20,
        "{slept:?} of {requests}"
    );
    running.end_by("TERM").expect(0);
}
