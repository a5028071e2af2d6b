//! Random stories. In each, two nodes get writes, kills, restarts, network cuts, delayed messages, new devices and
//! damage. In the end the nodes are connected again. Then both nodes must have the same records, and for each key the
//! last acknowledged write or a later write.
//!
//! A node that is not paired may lose records that only it had. From then on, a story demands only the writes that at
//! least one node still has. If the operator clears one of two nodes that wait for each other, even such writes may be
//! lost.
//!
//! `PAIR_SEEDS` is the number of stories; `PAIR_SEED` selects a single story.

use super::*;

const MS: u64 = 1_000_000;

impl Story {
    fn write(&mut self, at: usize) {
        let key = self.below(KEYS / NAMESPACES * self.namespaces[at]);
        let version = self.number();
        let core = core_of(key);
        let is_linked = self.running[at].as_ref().is_some_and(|of| of.linked[core]);
        let Some(running) = &self.running[at] else {
            return;
        };
        if running.pair.role(&self.cluster[at], key as u16, true) != Some(0) {
            return;
        }
        if running.pair.must_wait(running.pair.word()) {
            return running.pair.begin_use();
        }
        let is_copied = match running.pair.mode() {
            PairMode::Paired if !is_linked => return,
            PairMode::Paired => true,
            _ => {
                let current = running.pair.comparison();
                let sends = running.comparisons[core].is_some_and(|(of, ..)| Some(of) == current);
                if sends && !is_linked {
                    running.pair.compare_again();
                }
                sends && is_linked
            }
        };
        let record = Record {
            version,
            write: version,
        };
        self.devices[at].put(key, record);
        if is_copied {
            self.copy(
                at,
                Copied {
                    core,
                    key,
                    record,
                    is_write: true,
                },
            )
        } else {
            self.acknowledge(key, record.write)
        }
    }

    /// A linearizable read: it must find the last acknowledged write, or a later write that is never undone.
    fn read(&mut self, at: usize) {
        let key = self.below(KEYS / NAMESPACES * self.namespaces[at]);
        let Some(running) = &self.running[at] else {
            return;
        };
        if running.pair.role(&self.cluster[at], key as u16, true) != Some(0) {
            return;
        }
        if running.pair.mode() == PairMode::Ahead && running.pair.must_wait(running.pair.word()) {
            return running.pair.begin_use();
        }
        let is_expired = !running.pair.has_lease(self.now_ns);
        let is_unsure =
            running.unsure.contains(&key) || running.waiting.values().any(|of| of.key == key);
        if is_unsure
            || running.pair.mode() == PairMode::Paired
                && (is_expired || !running.linked[core_of(key)])
        {
            return;
        }
        let known = self.devices[at].get(key).write;
        let acknowledged = self.acknowledged.get(&key).copied().unwrap_or(0);
        assert!(
            known >= acknowledged,
            "node {at} answers {known} for key {key}, {acknowledged} was acknowledged"
        );
        if known > 0 {
            self.acknowledged.insert(key, known);
        }
        *self.counts.entry("read").or_default() += 1;
    }

    /// A random step without a fault.
    fn step(&mut self) {
        self.now_ns += 20 * MS;
        let at = self.below(2);
        let core = self.below(CORES);
        match self.below(15) {
            0 => self.connect(at, core),
            1 => self.ping(at, core),
            2 => self.look(at),
            3 => self.record(at),
            11 => self.copy_again(at),
            12 => self.haunt(),
            4..6 => self.compare(at, core),
            6..9 => self.deliver(at, core),
            9..11 => self.deliver_answer(at, core),
            13 => self.read(at),
            _ => self.write(at),
        }
        let at = self.below(2);
        let core = self.below(CORES);
        self.tell_word(at, core);
    }

    fn fault(&mut self) {
        let at = self.below(2);
        let core = self.below(CORES);
        match self.below(12) {
            0 => self.kill(at),
            11 => self.leave(at),
            10 => self.damage(at),
            8 => self.add_namespace(at),
            9 => self.replace_device(at),
            1..3 if self.running[at].is_none() => self.start(at),
            3 => self.lose(at, core),
            4 => {
                (self.is_cut, self.healed_ns) = (!self.is_cut, self.now_ns);
                let lost = self.is_cut;
                (0..2)
                    .filter(|_| lost)
                    .for_each(|at| (0..CORES).for_each(|core| self.lose(at, core)));
            }
            // Nothing is sent for 5 s. Both nodes check for a takeover once per second.
            5 => (0..5).for_each(|_| {
                self.now_ns += SECOND_NS;
                (0..2).for_each(|at| self.look(at));
            }),
            _ => self.now_ns += MS,
        }
    }

    /// A node ends in an orderly way. The process ends at a later kill.
    fn leave(&mut self, at: usize) {
        let left = self.running[at]
            .as_ref()
            .and_then(|running| running.pair.leave());
        *self.counts.entry("left").or_default() += u64::from(left.is_some());
    }

    /// Adds the second namespace to a node, and restarts it; not while a node is behind, see `docs/serve.md`.
    fn add_namespace(&mut self, at: usize) {
        let is_behind = self
            .devices
            .iter()
            .any(|of| of.recorded.is_some_and(|of| of.mode == PairMode::Behind))
            || self.modes().contains(&Some(PairMode::Behind))
            || self
                .running
                .iter()
                .flatten()
                .any(|of| of.recording == Some(PairMode::Behind));
        if self.namespaces[at] == NAMESPACES || is_behind && self.namespaces[1 - at] != NAMESPACES {
            return;
        }
        self.kill(at);
        (self.namespaces[at], self.devices[at].sets[1]) = (NAMESPACES, self.number());
        *self.counts.entry("namespaces").or_default() += 1;
    }

    /// Kills a node that is about to lose records. `None`: this loss is not allowed; true: the other node has all
    /// acknowledged records.
    fn begin_loss(&mut self, at: usize) -> Option<bool> {
        let is_known = self.devices[1 - at]
            .recorded
            .is_some_and(|of| of.mode == PairMode::Paired);
        let is_safe = self.modes() == [Some(PairMode::Paired); 2] && is_known;
        if self.namespaces != [NAMESPACES; 2] || !is_safe && self.losses == 0 {
            return None;
        }
        self.losses -= usize::from(!is_safe);
        self.may_wait = true;
        self.kill(at);
        self.check_left();
        Some(is_safe)
    }

    /// Replaces the devices of a namespace of a node. The first namespace has the record of the mode.
    fn replace_device(&mut self, at: usize) {
        let Some(is_safe) = self.begin_loss(at) else {
            return;
        };
        let namespace = self.below(NAMESPACES);
        let set = self.number();
        let device = &mut self.devices[at];
        device
            .records
            .retain(|key, _| namespace_of(*key) != namespace);
        device
            .before
            .retain(|key, _| namespace_of(*key) != namespace);
        (device.sets[namespace], device.lost[namespace]) = (set, [0; CORES]);
        if namespace == 0 {
            device.recorded = None;
        }
        self.end_loss(is_safe, "replaced");
    }

    /// Damages a node's store: it loses the newest versions of records, perhaps also the marks with the mode.
    fn damage(&mut self, at: usize) {
        let Some(is_safe) = self.begin_loss(at) else {
            return;
        };
        let namespace = self.below(NAMESPACES);
        let core = self.below(CORES);
        for key in (0..KEYS).filter(|key| namespace_of(*key) == namespace && core_of(*key) == core)
        {
            let what = self.below(3);
            let Device {
                records, before, ..
            } = &mut self.devices[at];
            match before.remove(&key) {
                _ if what == 0 => {}
                Some(before) if what == 1 => _ = records.insert(key, before),
                _ => _ = records.remove(&key),
            }
        }
        let are_marks_lost = self.below(3) == 0;
        let device = &mut self.devices[at];
        device.lost[namespace][core] += 1;
        if are_marks_lost && (namespace, core) == (0, 0) {
            device.recorded = Some(ModeRecord::LOST);
        }
        self.end_loss(is_safe, "damaged");
    }

    fn end_loss(&mut self, is_safe: bool, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
        if !is_safe {
            self.forget();
        }
    }

    /// The newest write of a key that any node still has.
    fn left(&self, key: usize) -> u64 {
        self.devices
            .iter()
            .map(|device| device.get(key).write)
            .max()
            .unwrap_or(0)
    }

    /// Drops the demand for acknowledged writes that no node has any more.
    fn forget(&mut self) {
        let left: Vec<_> = (0..KEYS).map(|key| self.left(key)).collect();
        self.acknowledged
            .iter_mut()
            .for_each(|(key, write)| *write = left[*key].min(*write));
    }

    fn check_left(&self) {
        for (key, write) in &self.acknowledged {
            assert!(
                self.left(*key) >= *write,
                "write {write} of key {key} was acknowledged, but is lost: {:?}",
                self.devices
            );
        }
    }

    /// Clears the devices of one of two nodes that wait for each other. False: no node has all records.
    fn resolve(&mut self, modes: [PairMode; 2]) -> bool {
        assert!(
            std::mem::take(&mut self.may_wait),
            "nodes in modes {modes:?} wait for each other"
        );
        self.check_left();
        *self.counts.entry("waited").or_default() += 1;
        let behind = modes.iter().position(|mode| *mode == PairMode::Behind);
        if behind.is_some()
            && modes
                .iter()
                .all(|mode| matches!(mode, PairMode::Behind | PairMode::Fresh))
        {
            return false;
        }
        let at = behind.unwrap_or(self.below(2));
        self.kill(at);
        let sets = [self.number(), self.number()];
        self.devices[at] = Device {
            sets,
            ..Device::default()
        };
        self.forget();
        self.start(at);
        true
    }

    /// The modes of both nodes, if they wait for each other for ever.
    fn stuck(&self) -> Option<[PairMode; 2]> {
        let [Some(first), Some(second)] = &self.running else {
            return None;
        };
        let modes = [first.pair.mode(), second.pair.mode()];
        let has_none = modes.contains(&PairMode::Behind)
            && modes
                .iter()
                .all(|of| matches!(of, PairMode::Behind | PairMode::Fresh));
        let is_stuck = first.pair.is_stuck(modes[1]) && second.pair.is_stuck(modes[0]) || has_none;
        is_stuck.then_some(modes)
    }

    fn modes(&self) -> [Option<PairMode>; 2] {
        self.running
            .each_ref()
            .map(|of| of.as_ref().map(|of| of.pair.mode()))
    }

    fn tell(&mut self) {
        let both = [Some(PairMode::Paired); 2];
        let steps = 100 + self.below(3_000);
        let rarity = 5 + self.below(100);
        let mut is_quiet = self.below(4) > 0;
        for _ in 0..steps {
            // Most stories have no faults before the nodes are paired.
            is_quiet &= self.modes() != both;
            if is_quiet {
                self.step();
                continue;
            }
            match self.below(rarity) {
                0 => self.fault(),
                _ => self.step(),
            }
            if self.modes() == both {
                *self.counts.entry("paired").or_default() += 1;
            }
        }
        (self.is_cut, self.healed_ns) = (false, self.now_ns);
        (0..2).for_each(|at| {
            if self.namespaces[at] < self.namespaces[1 - at] {
                self.add_namespace(at);
            }
            if self.modes()[at] == Some(PairMode::Leaving) {
                self.kill(at);
            }
            if self.running[at].is_none() {
                self.start(at)
            }
        });
        if self.settle() {
            self.restore();
        }
    }

    /// Restores the devices of a node from a copy that is older than the last pairing.
    fn restore(&mut self) {
        let at = self.below(2);
        self.kill(at);
        let copy = self.devices[at].clone();
        self.start(at);
        let is_paired = self.settle();
        (0..200).for_each(|_| self.step());
        let of = |device: &Device| {
            device
                .recorded
                .map_or((PairMode::Fresh, 0), |of| (of.mode, of.pairings))
        };
        let (mode, copied) = of(&copy);
        let (_, newest) = of(&self.devices[at]);
        let (other_mode, _) = of(&self.devices[1 - at]);
        let are_paired = is_paired
            && matches!(mode, PairMode::Paired | PairMode::AheadUnused)
            && other_mode == PairMode::Paired
            && self.modes() == [Some(PairMode::Paired); 2];
        if !are_paired || copied == newest {
            return;
        }
        self.kill(at);
        self.devices[at] = copy;
        // At random, the other node restarts before the restored node starts.
        if self.below(2) == 0 {
            self.kill(1 - at);
            self.start(1 - at);
        }
        self.start(at);
        *self.counts.entry("restored").or_default() += u64::from(self.settle());
    }

    /// Continues without faults until both nodes have all records. Returns false if no node has all records.
    fn settle(&mut self) -> bool {
        let both = [Some(PairMode::Paired); 2];
        let mut stuck = None;
        for at in 0..100_000 {
            self.now_ns += MS;
            self.step();
            if at % 1_000 == 0 {
                let before = std::mem::replace(&mut stuck, self.stuck());
                if let Some(modes) = stuck.filter(|_| stuck == before)
                    && !self.resolve(modes)
                {
                    return false;
                }
            }
            if self.modes() == both
                && self
                    .running
                    .iter()
                    .flatten()
                    .all(|of| of.waiting.is_empty() && of.unsure.is_empty())
                && self.ghosts.is_empty()
            {
                break;
            }
        }
        assert_eq!(
            self.modes(),
            both,
            "the nodes are not paired in the end, with {:?}",
            self.devices
        );
        assert_eq!(
            self.devices[0].records, self.devices[1].records,
            "the nodes have different records"
        );
        let [Some(first), Some(second)] = &self.running else {
            panic!("both run")
        };
        assert_eq!(
            first.pair.pairings(),
            second.pair.pairings(),
            "both count the same pairings"
        );
        self.check_left();
        true
    }
}

#[test]
fn no_acknowledged_write_is_lost_however_nodes_fail_and_links_break() {
    let number = |name: &str| {
        std::env::var(name)
            .ok()
            .map(|text| text.parse::<u64>().unwrap())
    };
    let seeds = match number("PAIR_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("PAIR_SEEDS").unwrap_or(2_000),
    };
    let mut counts = BTreeMap::new();
    for seed in seeds {
        let mut story = Story::new(seed);
        (0..2).for_each(|at| story.start(at));
        let told = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| story.tell()));
        if let Err(panic) = told {
            println!("PAIR_SEED={seed}");
            std::panic::resume_unwind(panic);
        }
        story
            .counts
            .iter()
            .for_each(|(name, count)| *counts.entry(*name).or_insert(0) += count);
    }
    println!("{counts:?}");
    assert!(
        counts.values().all(|count| *count > 0) && counts.len() == 10,
        "an event never occurred: {counts:?}"
    );
}
