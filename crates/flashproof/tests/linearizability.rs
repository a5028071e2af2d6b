//! Histories of Aerospike's Go client on two nodes that are killed, stopped and cut off from each other. porcupine
//! (scripts/linearizability) checks them: linearizable keys, the age of plain reads, no loss of acknowledged writes.
//!
//! `FLASHPROOF_PAIR_EVENTS` sets the number of random events, and `FLASHPROOF_PAIR_SEED` their seed, as in `make soak`.

use crate::support::{FLASHPROOF, Running, info, skip, statistic_of};
use crate::takeover::kill_9;
use crate::two_nodes::{Pair, stands_still, until};
use serde_json::Value;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread;
use std::time::Duration;
use sys::random::Random;

/// Timeout of the check of a long history.
const CHECK_MAX: Duration = Duration::from_secs(1800);

/// Time of load without a fault, before and after each event.
const CALM: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Kill(usize),
    KillBoth,
    Pause(usize),
    Split,
    /// The node ends by SIGTERM.
    End(usize),
    /// Writes to the node's drive fail.
    Fail(usize),
}

#[derive(Debug, Clone, Copy)]
struct Event {
    what: What,
    lasts: Duration,
}

impl Event {
    fn new(what: What, lasts_ms: u64) -> Self {
        Self {
            what,
            lasts: Duration::from_millis(lasts_ms),
        }
    }

    /// A random event, shorter or longer than a lease (2 s), a takeover from a dead (1 s) or a silent node (3 s).
    fn draw(random: &mut Random, may_split: bool) -> Self {
        let node = random.below(2) as usize;
        match random.below(2 + u64::from(may_split)) {
            0 => Self::new(What::Kill(node), random.below(4000)),
            1 => Self::new(What::Pause(node), 200 + random.below(5800)),
            _ => Self::new(What::Split, 200 + random.below(5800)),
        }
    }
}

/// A program that scripts/linearizability-setup builds.
pub(crate) fn program(name: &str) -> Option<PathBuf> {
    let target = Path::new(FLASHPROOF).parent()?.parent()?;
    if target.join(name).exists() {
        return Some(target.join(name));
    }
    let why = [name, "linearizability"]
        .map(|name| std::fs::read_to_string(target.join(format!("{name}.missing"))));
    let why = why.into_iter().find_map(Result::ok);
    skip(
        why.unwrap_or("run scripts/linearizability-setup".into())
            .trim(),
    )
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| {
        text.parse()
            .unwrap_or_else(|error| panic!("{name}={text}: {error}"))
    })
}

/// True if both nodes have all records: then each node is the replica of some partitions.
fn is_whole(addresses: [SocketAddr; 2]) -> bool {
    addresses.into_iter().all(|at| {
        let partitions = info(at, "replicas");
        let replicas = partitions
            .trim_end()
            .trim_end_matches(';')
            .rsplit(',')
            .next()
            .unwrap_or_default();
        let of = |name| statistic_of(at, "statistics", name);
        replicas.contains(|bits| !"A=".contains(bits))
            && of("cluster_size") == 2
            && of("migrate_partitions_remaining") == 0
    })
}

struct Loaded {
    pair: Pair,
    nodes: [Option<Running>; 2],
    load: Running,
}

impl Loaded {
    fn start(pair: Pair, program: &Path, more: &[&str]) -> Option<Self> {
        let nodes = pair.start_both()?.map(Some);
        let mut command = pair.bench.command(program);
        let hosts = pair.addresses.map(|at| at.to_string()).join(",");
        command
            .args(["-nodes", &hosts, "-out", "."])
            .args(more)
            .stdin(Stdio::piped());
        until("both are paired", || is_whole(pair.addresses));
        let mut load = Running::start(command);
        load.wait_to_hear("ready");
        thread::sleep(CALM);
        Some(Self { pair, nodes, load })
    }

    fn node(&self, node: usize) -> &Running {
        self.nodes[node].as_ref().expect("it runs")
    }

    fn cause(&mut self, event: Event) {
        let Event { what, lasts } = event;
        // In these events, the second node may lose contact with the first, so its plain reads may be old.
        let is_silent = matches!(what, What::Split | What::Pause(1));
        self.load.tell(&format!(
            "{} {what:?} of {lasts:?}",
            if is_silent { "silent" } else { "event" }
        ));
        match what {
            What::Kill(_) | What::KillBoth => {
                let killed: Vec<_> = (0..2)
                    .filter(|node| what == What::KillBoth || what == What::Kill(*node))
                    .collect();
                killed
                    .iter()
                    .for_each(|node| kill_9(self.nodes[*node].take()));
                thread::sleep(lasts);
                killed
                    .iter()
                    .for_each(|node| self.nodes[*node] = self.pair.start(*node));
            }
            What::Pause(node) => {
                self.node(node).signal("STOP");
                until("it stands still", || stands_still(self.node(node).pid()));
                thread::sleep(lasts);
                self.node(node).signal("CONT");
            }
            What::End(node) | What::Fail(node) => {
                let running = self.nodes[node].take().expect("it runs");
                if let What::End(_) = what {
                    running.terminate();
                } else {
                    self.pair.set_device(node, "setro");
                    running.end().expect(3);
                }
                thread::sleep(lasts);
                if let What::Fail(_) = what {
                    self.pair.set_device(node, "setrw");
                }
                self.nodes[node] = self.pair.start(node);
            }
            What::Split => {
                self.pair.join("down");
                thread::sleep(lasts);
                self.pair.join("up");
            }
        }
        // A node that was cut off learns of the takeover with a delay.
        thread::sleep(CALM);
        until(&format!("both have all records after {event:?}"), || {
            is_whole(self.pair.addresses)
        });
        self.load.tell("whole");
        thread::sleep(CALM);
    }

    fn end(mut self) -> Value {
        self.load.tell("end");
        let ended = self.load.end_within(CHECK_MAX).expect(0);
        self.nodes
            .into_iter()
            .flatten()
            .for_each(Running::terminate);
        let summary = ended.json();
        keys(&summary, "events")
            .iter()
            .for_each(|event| println!("{event}"));
        let counts = [
            "illegal_keys",
            "undecided_keys",
            "undone_keys",
            "lost",
            "lost_as_documented",
            "different",
        ];
        let counts = counts
            .map(|name| format!("{name}: {}", keys(&summary, name).len()))
            .join(", ");
        let numbers = summary
            .as_object()
            .unwrap()
            .iter()
            .filter(|(_, value)| value.is_number());
        let numbers = numbers
            .map(|(name, value)| format!("{name}: {value}"))
            .collect::<Vec<_>>()
            .join(", ");
        println!("{}{numbers}, {counts}", ended.stderr);
        for key in ["illegal_keys", "lost"]
            .into_iter()
            .flat_map(|name| keys(&summary, name))
            .take(2)
        {
            let name = format!("key-{key}.txt");
            if self.pair.bench.exists(&name) {
                println!("{name}:\n{}", self.pair.bench.text(&name));
            }
        }
        summary
    }
}

fn keys<'a>(summary: &'a Value, name: &str) -> &'a [Value] {
    summary[name].as_array().map_or(&[], Vec::as_slice)
}

#[test]
fn each_keys_history_is_linearizable_when_nodes_are_killed_paused_or_cut_off() {
    let Some(program) = program("linearizability") else {
        return;
    };
    let settings = ["", "", "commit-to-device true\n filesize 128M"];
    let separable = Pair::separable(settings);
    let may_split = separable.is_some();
    let drawn = number("FLASHPROOF_PAIR_EVENTS");
    let seed = number("FLASHPROOF_PAIR_SEED").unwrap_or_else(|| u64::from(std::process::id()));
    let mut random = Random::new(seed);
    let events: Vec<_> = match drawn {
        Some(events) => (0..events)
            .map(|_| Event::draw(&mut random, may_split))
            .collect(),
        None => {
            let split = may_split.then_some(Event::new(What::Split, 4000));
            [
                Event::new(What::Kill(0), 1500),
                Event::new(What::Pause(1), 4000),
            ]
            .into_iter()
            .chain(split)
            .collect()
        }
    };
    println!("FLASHPROOF_PAIR_SEED={seed}: {events:?}");
    let pair = separable.unwrap_or_else(|| Pair::new(settings));
    let rate: &[&str] = if drawn.is_some() {
        &["-measure", "10s"]
    } else {
        &["-rate-max", "2000"]
    };
    let Some(mut loaded) = Loaded::start(pair, &program, rate) else {
        return;
    };
    for event in &events {
        loaded.cause(*event);
    }
    let summary = loaded.end();
    let numbers = ["operations", "old_reads"].map(|name| summary[name].as_u64());
    let wrong = [
        "illegal_keys",
        "undecided_keys",
        "lost",
        "undone_keys",
        "different",
    ]
    .map(|name| keys(&summary, name));
    assert_eq!(
        (&summary["linearizable"], numbers[1], wrong),
        (&true.into(), Some(0), [&[][..]; 5]),
        "seed {seed}"
    );
    assert!(
        summary["keys"].as_u64() >= Some(500) && numbers[0] > Some(1000 * events.len() as u64),
        "{summary}"
    );
    // During each event some writes succeeded, and during each long event some were refused or had an unknown result.
    let seen = keys(&summary, "events")
        .iter()
        .zip(&events)
        .filter(|(seen, event)| {
            let failed = ["writes_refused", "writes_unknown"]
                .map(|name| seen[name].as_u64().unwrap())
                .iter()
                .sum::<u64>();
            let is_long = event.lasts > Duration::from_secs(3);
            seen["writes_acknowledged"].as_u64() > Some(0) && (failed > 0 || !is_long)
        });
    assert_eq!(seen.count(), events.len(), "{summary}");
}

#[test]
fn each_keys_history_is_linearizable_when_drives_fail_and_nodes_end_in_turn() {
    let Some(program) = program("linearizability") else {
        return;
    };
    let Some(pair) = Pair::failing(["", "", "commit-to-device true"]) else {
        return;
    };
    let Some(mut loaded) = Loaded::start(pair, &program, &["-rate-max", "2000"]) else {
        return;
    };
    for what in [What::Fail(0), What::End(0), What::Fail(1), What::End(1)] {
        loaded.cause(Event::new(what, 500));
    }
    let summary = loaded.end();
    let wrong = [
        "illegal_keys",
        "undecided_keys",
        "lost",
        "undone_keys",
        "different",
    ]
    .map(|name| keys(&summary, name));
    assert_eq!(
        (&summary["linearizable"], wrong),
        (&true.into(), [&[][..]; 5]),
        "{summary}"
    );
}

#[test]
fn with_master_only_acknowledgement_only_writes_around_an_event_are_lost() {
    let Some(program) = program("linearizability") else {
        return;
    };
    let settings = [
        "",
        "write-commit-level-override master",
        "commit-to-device true",
    ];
    let Some(pair) = Pair::separable(settings) else {
        return;
    };
    let Some(mut loaded) = Loaded::start(pair, &program, &["-rate-max", "1000", "-may-lose"])
    else {
        return;
    };
    for event in [
        Event::new(What::Kill(1), 1500),
        Event::new(What::Split, 4000),
    ] {
        loaded.cause(event);
    }
    let summary = loaded.end();
    assert_eq!(
        (&summary["linearizable"], keys(&summary, "lost")),
        (&true.into(), &[][..]),
        "{summary}"
    );
    assert!(
        !keys(&summary, "lost_as_documented").is_empty(),
        "{summary}"
    );
}

#[test]
fn the_check_finds_unflushed_writes_lost_by_killing_both_nodes() {
    let Some(program) = program("linearizability") else {
        return;
    };
    let pair = Pair::new(["", "", "flush-max-ms 0"]);
    let Some(mut loaded) = Loaded::start(pair, &program, &["-rate-max", "1000", "-measure", "1s"])
    else {
        return;
    };
    loaded.cause(Event::new(What::KillBoth, 0));
    let summary = loaded.end();
    assert_eq!(summary["linearizable"], false, "{summary}");
    assert!(
        !keys(&summary, "lost").is_empty() && !keys(&summary, "illegal_keys").is_empty(),
        "{summary}"
    );
}

#[test]
fn the_check_finds_faults_in_invented_histories() {
    let Some(program) = program("linearizability-tests") else {
        return;
    };
    Running::start(crate::support::Bench::new().command(program))
        .end()
        .expect_stdout(0, &["PASS"]);
}
