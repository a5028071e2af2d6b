//! Simulates two nodes around real [`NodePair`]s, with their devices, cores, links, copies and comparisons. The module
//! [`stories`] chooses the events.

use super::*;
use crate::server::ClusterNode;
use std::collections::{BTreeMap, VecDeque};
use sys::random::Random;

mod stories;

const CORES: usize = 2;
const KEYS: usize = 8;
const NAMESPACES: usize = 2;

#[derive(Debug, Clone, Copy)]
enum Message {
    /// Greeting and send time. An answer has the send time of the answered message.
    Hello(Greeting, u64),
    /// A ping or pong: process, mode, and send time as in `Hello`.
    Word(u64, ModeVersion, u64),
    /// The number identifies the answer.
    Image {
        key: usize,
        record: Record,
        number: u64,
    },
    Done {
        number: u64,
        is_ok: bool,
    },
    ComparedAll {
        comparison: u16,
        core: usize,
    },
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Record {
    version: u64,
    /// Number of the client's write, greater than the number of any earlier write of the key; 0: a tombstone.
    write: u64,
}

/// Contents of a node's devices. A crash during the recording of the mode leaves either the old or the new record.
#[derive(Debug, Default, Clone)]
struct Device {
    recorded: Option<ModeRecord>,
    records: BTreeMap<usize, Record>,
    /// The previous versions of the records, which damage brings back.
    before: BTreeMap<usize, Record>,
    /// For each namespace: its set, and the number of blocks that each core lost.
    sets: [u64; NAMESPACES],
    lost: [[u64; CORES]; NAMESPACES],
}

impl Device {
    fn get(&self, key: usize) -> Record {
        self.records.get(&key).copied().unwrap_or_default()
    }

    fn put(&mut self, key: usize, record: Record) {
        let before = self.records.insert(key, record);
        before.and_then(|before| self.before.insert(key, before));
    }

    /// `namespaces`: number of namespaces in the configuration.
    fn found(&self, namespaces: usize) -> DeviceContents {
        let lost = self.lost.as_flattened();
        DeviceContents {
            recorded: self.recorded,
            devices: DeviceIdentity {
                device_sets: self.sets[..namespaces]
                    .iter()
                    .fold(0, |sets, set| sets ^ set),
                lost_blocks: lost.iter().sum(),
            },
            replicated: (1 << namespaces) - 1,
            nonempty: (0..namespaces)
                .filter(|namespace: &usize| {
                    self.records
                        .iter()
                        .any(|(key, record)| namespace_of(*key) == *namespace && record.write > 0)
                })
                .fold(0, |bits, namespace| bits | 1 << namespace),
        }
    }
}

/// A record sent to the other node, without an answer yet: a client's write, or a record that the node may lack.
#[derive(Debug, Clone, Copy)]
struct Copied {
    core: usize,
    key: usize,
    record: Record,
    is_write: bool,
}

struct Running {
    pair: NodePair,
    process: u64,
    recording: Option<PairMode>,
    waiting: BTreeMap<u64, Copied>,
    /// For each core: the comparison, the next key, and true if the comparison is over.
    comparisons: [Option<(RecordComparison, usize, bool)>; CORES],
    /// Cores whose link the other node has answered.
    linked: [bool; CORES],
    told: [ModeVersion; CORES],
    /// Keys of which the other node may lack a write.
    unsure: Vec<usize>,
}

struct Story {
    random: Random,
    cluster: [Cluster; 2],
    now_ns: u64,
    devices: [Device; 2],
    /// Number of namespaces in the configuration of each node.
    namespaces: [usize; 2],
    /// Number of losses that are still allowed while the other node does not have all records.
    losses: usize,
    /// True if the nodes may wait for each other in the end, because records were lost.
    may_wait: bool,
    running: [Option<Running>; 2],
    /// Messages of each core of each node to the other node; `None` while the link is down.
    links: [[Option<VecDeque<Message>>; CORES]; 2],
    /// Late messages on broken connections: receiver, its process, and its mode changes at the greeting.
    ghosts: Vec<(usize, u64, u16, Message)>,
    /// Number of mode changes of each node when the node was greeted on a link of the other node.
    greeted: [[u16; CORES]; 2],
    answers: [[VecDeque<Message>; CORES]; 2],
    is_cut: bool,
    healed_ns: u64,
    died_ns: [u64; 2],
    numbers: u64,
    acknowledged: BTreeMap<usize, u64>,
    counts: BTreeMap<&'static str, u64>,
}

fn core_of(key: usize) -> usize {
    key % CORES
}

fn namespace_of(key: usize) -> usize {
    key / (KEYS / NAMESPACES)
}

impl Story {
    fn new(seed: u64) -> Self {
        let nodes = [3000, 3001]
            .map(|port| ClusterNode::new("127.0.0.1", port))
            .to_vec();
        let none = || [const { None }; CORES];
        let mut random = Random::new(seed);
        Self {
            namespaces: [1 + random.below(NAMESPACES as u64) as usize; 2],
            losses: random.below(3) as usize / 2,
            may_wait: false,
            random,
            cluster: [0, 1].map(|own| Cluster::new(nodes.clone(), own)),
            now_ns: 10 * SECOND_NS,
            devices: [[1, 2], [3, 4]].map(|sets| Device {
                sets,
                ..Device::default()
            }),
            running: [None, None],
            links: [none(), none()],
            ghosts: Vec::new(),
            greeted: Default::default(),
            answers: Default::default(),
            is_cut: false,
            healed_ns: 0,
            died_ns: [0; 2],
            numbers: 0,
            acknowledged: BTreeMap::new(),
            counts: BTreeMap::new(),
        }
    }

    fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    fn below(&mut self, end: usize) -> usize {
        self.random.below(end as u64) as usize
    }

    fn start(&mut self, at: usize) {
        let pair = NodePair::new(&self.cluster[at], true, CORES);
        pair.started(self.devices[at].found(self.namespaces[at]));
        let process = self.number();
        self.running[at] = Some(Running {
            told: [pair.reported_mode(); CORES],
            pair,
            process,
            recording: None,
            waiting: BTreeMap::new(),
            comparisons: [None; CORES],
            unsure: Vec::new(),
            linked: [false; CORES],
        });
    }

    fn kill(&mut self, at: usize) {
        let Some(running) = self.running[at].take() else {
            return;
        };
        self.died_ns[at] = self.now_ns;
        if let Some(mode) = running.recording.filter(|_| self.random.below(2) == 0) {
            self.devices[at].recorded = Some(running.pair.record_of(mode));
        }
        for core in 0..CORES {
            self.lose(at, core);
            self.lose(1 - at, core);
        }
    }

    /// Breaks a link of node `at`. Messages under way are lost.
    fn lose(&mut self, at: usize, core: usize) {
        let to = 1 - at;
        let lost = self.links[at][core].take().unwrap_or_default();
        if let Some(receiver) = &self.running[to] {
            let images = lost
                .into_iter()
                .filter(|message| matches!(message, Message::Image { .. }));
            let greeted = self.greeted[to][core];
            self.ghosts
                .extend(images.map(|message| (to, receiver.process, greeted, message)));
        }
        self.answers[at][core].clear();
        let Some(running) = &mut self.running[at] else {
            return;
        };
        running.linked[core] = false;
        if running.comparisons[core].take().is_some() {
            running.pair.compare_again();
        }
        let lost: Vec<_> = running
            .waiting
            .iter()
            .filter(|(_, of)| of.core == core)
            .map(|(number, _)| *number)
            .collect();
        for number in lost {
            self.on_done(at, number, false);
        }
    }

    fn connect(&mut self, at: usize, core: usize) {
        // Nodes with different configurations refuse each other.
        let answers = self.running[1 - at].is_some()
            && !self.is_cut
            && self.namespaces[0] == self.namespaces[1];
        let (Some(running), true) = (&self.running[at], answers) else {
            return;
        };
        if self.links[at][core].is_none() {
            let hello = Message::Hello(running.pair.greeting(running.process), self.now_ns);
            self.links[at][core] = Some(VecDeque::from([hello]));
        }
    }

    fn copy(&mut self, at: usize, copied: Copied) {
        let number = self.number();
        let Copied {
            core, key, record, ..
        } = copied;
        let (Some(link), Some(running)) = (&mut self.links[at][core], &mut self.running[at]) else {
            return;
        };
        link.push_back(Message::Image {
            key,
            record,
            number,
        });
        running.waiting.insert(number, copied);
    }

    fn on_done(&mut self, at: usize, number: u64, is_ok: bool) {
        let Some(running) = &mut self.running[at] else {
            return;
        };
        let Some(copied) = running.waiting.remove(&number) else {
            return;
        };
        let word = running.pair.word();
        let is_ahead = matches!(word.mode, PairMode::Ahead | PairMode::Handing);
        let answers_itself =
            word.mode == PairMode::Handing || is_ahead && !running.pair.must_wait(word);
        if !is_ok && is_ahead {
            running.pair.compare_again();
        }
        if !is_ok && !is_ahead {
            running.unsure.push(copied.key);
        }
        if copied.is_write && (is_ok || answers_itself) {
            self.acknowledge(copied.key, copied.record.write);
        }
    }

    fn acknowledge(&mut self, key: usize, write: u64) {
        let known = self.acknowledged.entry(key).or_default();
        *known = write.max(*known);
        *self.counts.entry("acknowledged").or_default() += 1;
    }

    fn record(&mut self, at: usize) {
        let Some(running) = &mut self.running[at] else {
            return;
        };
        match running.recording.take() {
            Some(mode) => {
                self.devices[at].recorded = Some(running.pair.record_of(mode));
                running.pair.end_record(Some(mode));
            }
            None => running.recording = running.pair.begin_record(),
        }
    }

    /// Sends again a record whose last write the other node may lack.
    fn copy_again(&mut self, at: usize) {
        let Some(running) = &mut self.running[at] else {
            return;
        };
        if running.pair.mode() != PairMode::Paired {
            return running.unsure.clear();
        }
        let Some(key) = running.unsure.pop() else {
            return;
        };
        if running.linked[core_of(key)] {
            self.copy_record(at, key)
        } else {
            running.unsure.push(key)
        }
    }

    /// Copies a record or tombstone. A greater version of the other node, never acknowledged, leads to a new version.
    fn copy_record(&mut self, at: usize, key: usize) {
        let own = self.devices[at].get(key);
        let other = self.devices[1 - at].get(key);
        if own.version.max(other.version) > 0 {
            let version = if other.version > own.version {
                self.number()
            } else {
                own.version
            };
            let record = Record { version, ..own };
            self.devices[at].put(key, record);
            self.copy(
                at,
                Copied {
                    core: core_of(key),
                    key,
                    record,
                    is_write: false,
                },
            );
        }
    }

    fn compare(&mut self, at: usize, core: usize) {
        let Some(running) = self.running[at].as_mut().filter(|of| of.linked[core]) else {
            return;
        };
        if running.pair.mode() == PairMode::Handing {
            if running.waiting.values().all(|of| of.core != core) {
                running.pair.drained(running.pair.word().changes, core);
            }
            return;
        }
        let Some(of) = running.pair.comparison() else {
            return running.comparisons[core] = None;
        };
        let step = &mut running.comparisons[core];
        let (_, next, is_over) = match step {
            Some(known) if known.0 == of => known,
            _ => step.insert((of, core, false)),
        };
        let key = *next;
        let waits = running
            .waiting
            .values()
            .any(|of| of.core == core && !of.is_write);
        if key < KEYS {
            *next += CORES;
            if of.is_sender {
                self.copy_record(at, key);
            }
        } else if !waits && !std::mem::replace(is_over, true) {
            running.pair.compared(of, core);
            if let (false, Some(link)) = (of.is_sender, &mut self.links[at][core]) {
                link.push_back(Message::ComparedAll {
                    comparison: of.changes,
                    core,
                });
            }
        }
    }

    fn deliver(&mut self, from: usize, core: usize) {
        let to = 1 - from;
        let (Some(link), Some(receiver)) = (&mut self.links[from][core], &self.running[to]) else {
            return;
        };
        let Some(message) = link.pop_front() else {
            return;
        };
        let mut answer = Vec::new();
        if !matches!(message, Message::Hello(..)) && receiver.pair.is_past(self.greeted[to][core]) {
            return self.lose(from, core);
        }
        match message {
            Message::Hello(greeting, sent_ns) => {
                receiver.pair.on_greeting(greeting, self.now_ns);
                self.greeted[to][core] = receiver.pair.word().changes;
                answer.push(Message::Hello(
                    receiver.pair.greeting(receiver.process),
                    sent_ns,
                ));
            }
            Message::Word(process, word, sent_ns) => {
                receiver.pair.on_mode_reported(process, word, self.now_ns);
                answer.push(Message::Word(
                    receiver.process,
                    receiver.pair.reported_mode(),
                    sent_ns,
                ));
            }
            Message::Image {
                key,
                record,
                number,
            } => {
                let is_ok = self.take(to, key, record);
                answer.push(Message::Done { number, is_ok });
            }
            Message::ComparedAll { comparison, core } => {
                receiver.pair.other_compared(comparison, core, CORES);
            }
            Message::Done { .. } => unreachable!("an answer"),
        }
        self.answers[from][core].extend(answer);
    }

    fn take(&mut self, to: usize, key: usize, record: Record) -> bool {
        let Some(receiver) = &self.running[to] else {
            return false;
        };
        let is_ok = match receiver.pair.mode() {
            PairMode::Behind => receiver.pair.is_recorded(),
            PairMode::Paired | PairMode::Leaving => true,
            _ => false,
        };
        let is_ok = is_ok && self.devices[to].get(key).version <= record.version;
        if is_ok {
            self.devices[to].put(key, record);
        }
        is_ok
    }

    fn haunt(&mut self) {
        // Only one call in 20 delivers a message of `ghosts`, so that many of these messages arrive very late.
        if self.ghosts.is_empty() || self.below(20) > 0 {
            return;
        }
        let which = self.below(self.ghosts.len());
        let (to, process, greeted, message) = self.ghosts.swap_remove(which);
        let is_taken = self.running[to]
            .as_ref()
            .is_some_and(|of| of.process == process && !of.pair.is_past(greeted));
        if let (true, Message::Image { key, record, .. }) = (is_taken, message) {
            self.take(to, key, record);
        }
    }

    fn deliver_answer(&mut self, at: usize, core: usize) {
        let Some(message) = self.answers[at][core].pop_front() else {
            return;
        };
        let Some(running) = &mut self.running[at] else {
            return;
        };
        running.linked[core] = true;
        match message {
            Message::Hello(greeting, sent_ns) => {
                running.pair.on_greeting(greeting, self.now_ns);
                running
                    .pair
                    .answered(greeting.process, greeting.mode_version, sent_ns);
            }
            Message::Word(process, word, sent_ns) => {
                running.pair.on_mode_reported(process, word, self.now_ns);
                running.pair.answered(process, word, sent_ns);
            }
            Message::Done { number, is_ok } => self.on_done(at, number, is_ok),
            _ => unreachable!("no answer"),
        }
    }

    fn ping(&mut self, at: usize, core: usize) {
        let Some(running) = self.running[at].as_ref().filter(|of| of.linked[core]) else {
            return;
        };
        let Some(link) = &mut self.links[at][core] else {
            return;
        };
        link.push_back(Message::Word(
            running.process,
            running.pair.reported_mode(),
            self.now_ns,
        ));
    }

    /// Makes a core report a new mode, if there is one.
    fn tell_word(&mut self, at: usize, core: usize) {
        let Some(running) = &mut self.running[at] else {
            return;
        };
        let word = running.pair.reported_mode();
        if std::mem::replace(&mut running.told[core], word) != word {
            self.ping(at, core);
        }
    }

    fn look(&mut self, at: usize) {
        let is_refused = self.running[1 - at].is_none() && !self.is_cut;
        let since_ns = is_refused.then(|| self.died_ns[1 - at].max(self.healed_ns));
        let Some(running) = &self.running[at] else {
            return;
        };
        if running.pair.check_takeover(self.now_ns, since_ns).is_some() {
            *self.counts.entry("taken over").or_default() += 1;
        }
    }
}
