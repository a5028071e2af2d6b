//! `flashproof serve`, started and listening.

use super::{Bench, Running, skip};
use std::thread;
use std::time::{Duration, Instant};

/// Longest time until it listens.
const PATIENCE: Duration = Duration::from_secs(60);

/// Starts a server with the configuration `config`; gives its port. `None`, said aloud: there is no io_uring here.
pub fn serve(bench: &Bench, config: &str) -> Option<(Running, u16)> {
    bench.write("serve.conf", config);
    let running = Running::start(bench.prepare(&["serve", "serve.conf"]));
    let begin = Instant::now();
    loop {
        let said = running.said();
        let port = said.split_once("listening on 127.0.0.1:").and_then(|(_, rest)| rest.split_once(';'));
        if let Some(port) = port.and_then(|(port, _)| port.parse().ok()) {
            return Some((running, port));
        }
        if said.contains("cannot make a ring") {
            return skip(&said);
        }
        assert!(begin.elapsed() < PATIENCE, "{said}");
        thread::sleep(Duration::from_millis(5));
    }
}
