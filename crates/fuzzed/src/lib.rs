//! Parsers, the properties that must hold for any input, and the examples that inputs are mutated from.
//!
//! ```text
//! coverage guidance, nightly Rust   fuzz/fuzz_targets/NAME.rs -> Target::property
//! mutated examples, stable Rust     fuzzed NAME SECONDS       -> Target::examples -> Target::property
//! ```
//!
//! Each property lies beside the tests of its crate, which try it, too. `fuzz/lines` has lines that the examples lack,
//! `fuzz/dict` pieces that parsers stumble over, in the format of libFuzzer. fuzz/README.md has the commands.

pub mod mutate;

#[path = "../../load/tests/common/config_property.rs"]
mod config_property;
#[path = "../../store/tests/common/device_property.rs"]
mod device_property;
#[path = "../../load/tests/common/fio_property.rs"]
mod fio_property;
#[path = "../../sizing/tests/common/info_property.rs"]
mod info_property;
#[path = "../../results/tests/common/log_property.rs"]
mod log_property;
#[path = "../../store/tests/common/replies_property.rs"]
mod replies_property;
#[path = "../../sizing/tests/common/server_property.rs"]
mod server_property;
#[path = "../../store/tests/common/wire_property.rs"]
mod wire_property;

use results::act_log::Input;
use std::fs;
use std::io::{self, Read};
use std::path::Path;

/// A parser that is fuzzed.
pub struct Target {
    pub name: &'static str,
    /// Plural of a valid input.
    pub valid: &'static str,
    /// Panics if something that must hold of an input does not. Returns true for a valid input.
    pub property: fn(&[u8]) -> bool,
    /// Valid inputs, which are mutated.
    pub examples: fn() -> io::Result<Vec<Vec<u8>>>,
}

pub const TARGETS: [Target; 8] = [ACT_CONFIG, ACT_LOG, DEVICE, FIO_JOBS, INFO_REPLIES, REPLIES, SERVER_LOG, WIRE];

/// Configurations of today and of every old ACT.
pub const ACT_CONFIG: Target = Target {
    name: "act_config",
    valid: "valid configurations of some ACT",
    property: config_property::assert_parser_property,
    examples: || {
        let mut paths = Vec::new();
        for directory in ["act-storage", "act-index", "act-old", "sizing-paper"] {
            for entry in fs::read_dir(path("load/tests/data").join(directory))? {
                paths.push(entry?.path());
            }
        }
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "conf"));
        // The same seed has to find the same files.
        paths.sort();
        paths.iter().map(fs::read).collect()
    },
};

/// Logs that ACT wrote, compressed or not.
pub const ACT_LOG: Target = Target {
    name: "act_log",
    valid: "logs to their end",
    property: log_property::assert_log_property,
    examples: || {
        // The oldest version last.
        let names = ["act-storage-two-devices", "act-storage-interval2", "act-index-us", "act5-storage", "act4"];
        names.iter().map(|name| read(&format!("results/tests/data/{name}.log"))).collect()
    },
};

/// Begins of a record store's blocks, with their own checksums or right ones.
pub const DEVICE: Target = Target {
    name: "device",
    valid: "devices with records",
    property: device_property::assert_device_property,
    examples: || Ok(device_property::examples()),
};

/// Job files and command lines of fio.
pub const FIO_JOBS: Target = Target {
    name: "fio_jobs",
    valid: "jobs that could run",
    property: fio_property::assert_fio_property,
    examples: || Ok(vec![read("load/tests/data/fio/mix.fio")?]),
};

/// Files of replies of the info protocol.
pub const INFO_REPLIES: Target = Target {
    name: "info_replies",
    valid: "replies with a device",
    property: info_property::assert_info_property,
    examples: || {
        let mut files = Vec::new();
        for server in ["ce-4.9.0.37", "ce-8.0.0.15"] {
            let mut bytes = unpacked(&format!("sizing/tests/data/info/{server}.info.gz"))?;
            // Two samples of each are enough, and leave time for more inputs.
            let times = bytes.windows(3).enumerate().filter(|(_, bytes)| bytes == b"\n# ").map(|(at, _)| at + 1);
            let end = times.take(3).last().unwrap_or(bytes.len());
            bytes.truncate(end);
            files.push(bytes);
        }
        Ok(files)
    },
};

/// Replies of servers to transactions, queries and logins.
pub const REPLIES: Target = Target {
    name: "replies",
    valid: "replies",
    property: replies_property::assert_replies_property,
    examples: || Ok(replies_property::examples()),
};

/// Logs of servers, output of iostat, and tables of asloglatency.
pub const SERVER_LOG: Target = Target {
    name: "server_log",
    valid: "logs or outputs of tools",
    property: server_property::assert_server_property,
    examples: || {
        /// Bytes taken of a longer example.
        const BYTES: usize = 30_000;
        let mut examples = Vec::new();
        for name in ["formats-old.log", "iostat-paper.txt", "../../../../examples/paper/cluster.txt"] {
            examples.push(read(&format!("sizing/tests/data/{name}"))?);
        }
        examples.push(read("sizing/tests/data/ce-8.0.0.15/asloglatency/ns-read.txt")?);
        for name in [
            "ce-4.9.0.37/aerospike.log",
            "ce-8.0.0.15/aerospike.log",
            "ce-8.0.0.15/iostat-x.txt",
            "ce-8.0.0.15/iostat-x.json",
        ] {
            let text = unpacked(&format!("sizing/tests/data/{name}.zst"))?;
            // The begin of a server's log is its configuration, and behind it are its ticks.
            let begin = text.len().saturating_sub(BYTES) / 2;
            examples.push(text[..text.len().min(BYTES)].to_vec());
            examples.push(text[begin..text.len().min(begin + BYTES)].to_vec());
        }
        Ok(examples)
    },
};

/// Frames of clients, and configurations of the server, which begin as no frame does.
pub const WIRE: Target = Target {
    name: "wire",
    valid: "messages or configurations",
    property: |bytes| wire_property::assert_wire_property(bytes) | wire_property::assert_configuration_property(bytes),
    examples: || {
        let mut files = Vec::new();
        for line in read_text("store/tests/data/messages.txt")?.lines() {
            files.extend(line.split_once(" > ").map(|(_, hex)| bytes_of(hex)));
        }
        for line in read_text("store/tests/data/info-requests.txt")?.lines() {
            let body = line.replace("\\n", "\n").into_bytes();
            files.push([&[2, 1], &(body.len() as u64).to_be_bytes()[2..], &body].concat());
        }
        files.extend([read("store/tests/data/two-namespaces.conf")?, read("../examples/serve.conf")?]);
        Ok(files)
    },
};

fn bytes_of(hex: &str) -> Vec<u8> {
    let digits = hex.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap_or_default());
    digits.map(|digits| u8::from_str_radix(digits, 16).unwrap_or_default()).collect()
}

/// Path of `name`, which is relative to the folder of all crates.
fn path(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name)
}

fn read(name: &str) -> io::Result<Vec<u8>> {
    fs::read(path(name))
}

fn read_text(name: &str) -> io::Result<String> {
    fs::read_to_string(path(name))
}

fn unpacked(name: &str) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    Input::new(&read(name)?[..])?.read_to_end(&mut bytes)?;
    Ok(bytes)
}
