//! QEMU's control connection (QMP): JSON, one line for each message.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;

pub(super) struct Qmp {
    stream: BufReader<UnixStream>,
}

impl Qmp {
    pub(super) fn new(stream: UnixStream) -> Self {
        let mut this = Self {
            stream: BufReader::new(stream),
        };
        this.message();
        this.command("qmp_capabilities", json!({}));
        this
    }

    /// Carries out one command and returns its answer; QEMU's refusal fails the test.
    pub(super) fn command(&mut self, name: &str, arguments: Value) -> Value {
        let line = json!({ "execute": name, "arguments": arguments });
        writeln!(self.stream.get_mut(), "{line}").unwrap();
        loop {
            let mut message = self.message();
            assert!(
                message.get("error").is_none(),
                "QEMU refuses {line}: {message}"
            );
            if let Some(answer) = message.get_mut("return") {
                return answer.take();
            }
        }
    }

    fn message(&mut self) -> Value {
        let mut line = String::new();
        self.stream
            .read_line(&mut line)
            .expect("QEMU answers in time");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("QEMU says {line:?}: {error}"))
    }
}
