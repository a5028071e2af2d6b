//! The server as a user sees it: its devices, its configuration, its end. What clients see is tested beside it.

use crate::support::{Bench, serve};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;
use store::ops::{self, Entry, operation, particle};
use store::wire::message::{self, Header, field, info1, info2};
use store::wire::{Kind, frame};

/// A namespace in a file, on any port.
fn config(more: &str) -> String {
    format!(
        "service {{\n service-threads 2\n}}\nnetwork {{\n service {{\n address 127.0.0.1\n port 0\n }}\n}}\n\
         namespace test {{\n storage-engine device {{\n file records\n filesize 16M\n {more}\n }}\n}}\n"
    )
}

const SMALL: &str = "write-block-size 32K\n commit-to-device true";

/// Result and value of a write of `value`, or of a read.
fn ask(port: u16, key: u64, value: Option<&[u8]>) -> (u8, Vec<u8>) {
    let mut out = Vec::new();
    let begin = frame::begin(&mut out, Kind::Message);
    let info = if value.is_some() { [0, info2::WRITE, 0, 0] } else { [info1::READ | info1::GET_ALL, 0, 0, 0] };
    let digest = store::digest(b"", particle::INTEGER, &key.to_be_bytes());
    Header { info, fields: 2, ops: value.is_some().into(), ..Header::default() }.put(&mut out);
    message::put_field(&mut out, field::NAMESPACE, b"test");
    message::put_field(&mut out, field::DIGEST, &digest);
    if let Some(value) = value {
        ops::put(&mut out, &Entry { operation: operation::WRITE, particle: particle::BLOB, name: b"b", value });
    }
    frame::end(&mut out, begin);
    let mut socket = TcpStream::connect(("127.0.0.1", port)).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    socket.write_all(&out).unwrap();
    let mut header = [0; frame::HEADER_BYTES];
    socket.read_exact(&mut header).unwrap();
    let mut body = vec![0; frame::header(header, 1 << 20).unwrap().1];
    socket.read_exact(&mut body).unwrap();
    let mut rest = &body[..];
    let header = Header::take(&mut rest).unwrap();
    (header.result, ops::entries(rest).next().map_or(Vec::new(), |op| op.value.to_vec()))
}

#[test]
fn records_outlive_a_signal_and_a_kill_and_no_other_command_takes_their_file() {
    let bench = Bench::new();
    let Some((running, port)) = serve(&bench, &config(SMALL)) else { return };
    for key in 0..100 {
        assert_eq!(ask(port, key, Some(&[key as u8; 300])).0, 0);
    }
    running.signal("TERM");
    let ended = running.end().expect(0);
    assert!(ended.stderr.contains("finished clean shutdown"), "{}", ended.stderr);

    let Some((running, port)) = serve(&bench, &config(SMALL)) else { return };
    assert!(running.said().contains("service ready: 100 records"), "{}", running.said());
    assert_eq!(ask(port, 99, None), (0, vec![99; 300]));
    assert_eq!(ask(port, 100, Some(b"committed")).0, 0);
    running.signal("KILL");
    assert_eq!(running.end().signal, Some(9));

    let Some((running, port)) = serve(&bench, &config(SMALL)) else { return };
    assert_eq!((ask(port, 100, None), ask(port, 0, None)), ((0, b"committed".to_vec()), (0, vec![0; 300])));
    running.signal("INT");
    running.end().expect(0);

    let before = bench.read("records");
    let other = bench
        .storage("device-names: records\nfile-size-mbytes: 16\ntest-duration-sec: 1\nwrite-reqs-per-sec: 10\n", &[]);
    other.expect_error(3, &["records of flashproof serve, of namespace \"test\""]);
    bench.write("serve.conf", config("write-block-size 64K"));
    let wanted =
        ["records that were written by other settings: write-block-size is \"32768\" there and \"65536\" here"];
    bench.flashproof(&["serve", "serve.conf"]).expect_error(3, &wanted);
    bench.write("serve.conf", config(SMALL).replace("16M", "20M"));
    bench.flashproof(&["serve", "serve.conf"]).expect_error(3, &["it has records and 16777216 bytes"]);
    assert!(before == bench.read("records"), "nothing was written");
}

#[test]
fn what_is_on_a_device_is_asked_for_and_a_damaged_store_is_not_written() {
    let bench = Bench::new();
    bench.write_victim("records", 16);
    let before = bench.read("records");
    bench.write("serve.conf", config(SMALL));
    bench.flashproof(&["serve", "serve.conf"]).expect_error(3, &["records", "--erase"]);
    let mut damaged = b"flashproof store".to_vec();
    damaged.resize(16 << 20, 7);
    bench.write("damaged", &damaged);
    bench.write("serve.conf", config(SMALL).replace("file records", "file damaged"));
    bench.flashproof(&["serve", "serve.conf"]).expect_error(3, &["whose checksum is wrong"]);
    assert!(before == bench.read("records") && damaged == bench.read("damaged"));
    bench.write("serve.conf", config(SMALL).replace("16M", "8M"));
    bench.write("records", []);
    bench.flashproof(&["serve", "serve.conf"]).expect_error(3, &["8 write blocks for each of 2 cores"]);
}

#[test]
fn a_port_in_use_and_a_configuration_with_mistakes_are_said() {
    let bench = Bench::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    bench.write("serve.conf", config(SMALL).replace("port 0", &format!("port {port}")));
    bench.flashproof(&["serve", "serve.conf"]).expect_error(3, &[&format!("cannot listen on 127.0.0.1:{port}")]);
    assert!(!bench.exists("records"), "nothing was made");
    bench.write("serve.conf", config("write-block-size 3\n nonsense 1"));
    let ended = bench.flashproof(&["serve", "serve.conf"]).expect(2);
    assert!(ended.stderr.contains("line 14") && ended.stderr.contains("nonsense"), "{}", ended.stderr);
    bench.write("serve.conf", config(SMALL));
    let ended = bench.flashproof(&["serve", "serve.conf", "--dry-run"]).expect(0);
    assert!(ended.stdout.contains("namespace test: write blocks of 32768 bytes on records"), "{}", ended.stdout);
    bench.flashproof(&["serve", "absent.conf"]).expect_error(2, &["cannot read \"absent.conf\""]);
}
