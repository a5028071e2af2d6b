//! Detects from outside how a drive's firmware treats placement handles: by write streams and the drive's counters.
//!
//! The one idea: after the data of a handle is deallocated, the handle's superblocks are empty, if no other data shares
//! them. Writing the handle's data again then moves nothing; any moved data belongs to other handles. If the next
//! rewrite also moves data, each pass moves other handles' data, and mixing cannot be detected. A stream that is alone
//! on the drive and overwrites in order empties one superblock after the other; any data moved then was collected too
//! early. In each case a drive that isolates handles moves nothing: this result is known without a model of the drive.
//!
//! [`Probed`] is the interface to a drive: a simulated one here, a real one elsewhere. The drive's count of host bytes
//! has to match the bytes written; otherwise another program wrote too. A drive that counts in large units shows a
//! small difference. This difference is ignored, and bounds the error of the drive's media count.

use ftl::Ftl;
use results::units::bytes;
use results::written::{Bytes, WentBack};
use serde::Serialize;
use std::convert::Infallible;
use sys::random::Random;
use thiserror::Error;

/// Fraction of the written bytes that a drive may move, in addition to one superblock, before its firmware is blamed.
/// The allowance covers metadata and open superblocks.
const TOLERANCE: f64 = 0.02;
/// Maximum relative difference of the drive's host count from the bytes written.
const OFF_MAX: f64 = 0.02;
/// Percent of the drive for the hot stream, and for all cold ones together. The rest is never written.
const HOT_PCT: u64 = 45;
const COLD_PCT: u64 = 50;
/// Passes over the hot range after which all superblocks were used, for up to 80 % over-provisioning.
const PASSES: u32 = 4;
/// Of this many random writes, one goes to a cold stream.
const COLD_EVERY: u64 = 5;
/// Drive fills that a probe writes. The hot range is written in order: [`PASSES`] times, once measured, twice after it
/// was deallocated, and once beside as many random cold writes. The sum also has two fills of both ranges, and four
/// drive fills of random writes.
pub const DRIVE_FILLS: f64 = ((PASSES as u64 + 7) * HOT_PCT + 2 * COLD_PCT + 4 * 100) as f64 / 100.0;

/// A drive as the probe sees it. Positions and lengths are in commands, all of the same size.
pub trait Probed {
    /// Error of the drive.
    type Error;

    /// Capacity of the drive in commands.
    fn commands(&self) -> u64;

    fn command_bytes(&self) -> u32;

    /// Bytes that are erased together: a superblock or a reclaim unit.
    fn superblock_bytes(&self) -> u64;

    /// Writes a command under a handle; handles count from 0.
    fn write(&mut self, command: u64, handle: u16) -> Result<(), Self::Error>;

    fn deallocate(&mut self, first_command: u64, commands: u64) -> Result<(), Self::Error>;

    /// The drive's counters of written bytes.
    fn counters(&mut self) -> Result<Bytes, Self::Error>;
}

pub struct Simulated {
    ftl: Ftl,
    units: u32,
}

impl Simulated {
    /// A drive with `ftl`, written in commands of `bytes`, or of one mapping unit if a unit is larger.
    pub fn new(ftl: Ftl, bytes: u32) -> Self {
        let units = (bytes / ftl.spec().unit_bytes).max(1);
        Self { ftl, units }
    }
}

impl Probed for Simulated {
    type Error = Infallible;

    fn commands(&self) -> u64 {
        self.ftl.units() / u64::from(self.units)
    }

    fn command_bytes(&self) -> u32 {
        self.units * self.ftl.spec().unit_bytes
    }

    fn superblock_bytes(&self) -> u64 {
        self.ftl.spec().superblock_bytes
    }

    fn write(&mut self, command: u64, handle: u16) -> Result<(), Self::Error> {
        self.ftl.write(command * u64::from(self.units), self.units, handle);
        Ok(())
    }

    fn deallocate(&mut self, first_command: u64, commands: u64) -> Result<(), Self::Error> {
        (first_command..first_command + commands)
            .for_each(|command| self.ftl.deallocate(command * u64::from(self.units), self.units));
        Ok(())
    }

    fn counters(&mut self) -> Result<Bytes, Self::Error> {
        Ok(self.ftl.counters())
    }
}

/// Streams of one phase of the probe, and the bytes that the drive counted.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Phase {
    pub streams: &'static str,
    /// Placement handles of the streams.
    pub handles: &'static str,
    pub written_bytes: u64,
    /// Counters of the drive during the phase.
    pub counted: Bytes,
    /// Write amplification factor.
    pub waf: f64,
    /// Maximum WAF of an isolating drive in this phase: 1, plus a tolerance, one superblock, and the error of the
    /// drive's counters. `None` if the maximum depends on the drive.
    pub isolated_waf_max: Option<f64>,
}

impl Phase {
    /// Relative difference of the drive's host count from the bytes written.
    fn off(&self) -> f64 {
        self.counted.host.abs_diff(self.written_bytes) as f64 / self.written_bytes.max(1) as f64
    }

    /// Excess over `waf`, the WAF of another phase, beyond the tolerance.
    fn excess_over(&self, waf: f64) -> f64 {
        self.waf - waf - (self.isolated_waf_max.unwrap_or(f64::INFINITY) - 1.0)
    }
}

/// A firmware behaviour that breaks isolation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Behaviour {
    /// Valid data of other handles shares a handle's superblocks.
    MixesHandles,
    /// Overwriting one handle's data moves the data of others.
    MovesOthers,
    /// Superblocks of a sequential stream are collected before the stream has overwritten them.
    CollectsSequentialEarly,
}

impl Behaviour {
    /// All behaviours that a probe can find.
    pub const ALL: [Self; 3] = [Self::MixesHandles, Self::MovesOthers, Self::CollectsSequentialEarly];

    pub fn sentence(self) -> &'static str {
        match self {
            Self::MixesHandles => {
                "mixes handles in garbage collection: valid data of cold handles was in the superblocks of the hot handle"
            }
            Self::MovesOthers => {
                "moves the data of idle handles each time another handle is written: garbage collection takes the idle \
                 handles' superblocks too, or moves their data into the written handle's superblocks again"
            }
            Self::CollectsSequentialEarly => {
                "reclaims long sequential streams too early: garbage collection moves data that the stream would soon overwrite"
            }
        }
    }
}

/// Result of the probe.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Probe {
    /// Phases, in the order in which they ran.
    pub phases: Vec<Phase>,
    /// Behaviours found; empty if the handles isolate.
    pub found: Vec<Behaviour>,
    /// Behaviours excluded.
    pub not_found: Vec<Behaviour>,
}

impl Probe {
    /// Behaviours not tested because the probe ended early, or hidden by another behaviour that was found.
    pub fn unknown(&self) -> impl Iterator<Item = Behaviour> {
        Behaviour::ALL.into_iter().filter(|one| !self.found.contains(one) && !self.not_found.contains(one))
    }

    fn record_finding(&mut self, behaviour: Behaviour, is_found: bool) {
        if is_found { &mut self.found } else { &mut self.not_found }.push(behaviour);
    }
}

/// Why a probe ended early.
#[derive(Debug, Error)]
pub enum ProbeError<E> {
    /// The drive refused an operation.
    #[error("{0}")]
    Drive(E),
    #[error("{0}")]
    WentBack(#[from] WentBack),
    /// The drive's count of host bytes does not match the bytes written.
    #[error(
        "{} were written, but the drive counted {} written by hosts: {}",
        bytes(*written as f64), bytes(*counted as f64),
        if counted > written { "another program writes to the drive, or to a namespace that shares its counters" } else { "its counter lags or misses writes" }
    )]
    OtherCount {
        written: u64,
        /// Bytes that the drive counted.
        counted: u64,
    },
}

/// Runs the streams on a drive with `handles` handles, at least 2. Overwrites the whole drive. If the probe ends early,
/// the behaviours found until then are returned.
pub fn probe<D: Probed>(drive: &mut D, handles: u16, seed: u64) -> (Probe, Result<(), ProbeError<D::Error>>) {
    let total_commands = drive.commands();
    let (hot_commands, cold_streams) = (total_commands * HOT_PCT / 100, u64::from(handles - 1).min(2));
    let cold_commands = total_commands * COLD_PCT / 100 / cold_streams;
    let (random, probe) = (Random::new(seed), Probe::default());
    let mut streams = Streams { drive, random, hot_commands, cold_commands, cold_streams, written_commands: 0, probe };
    let result = streams.run(total_commands);
    (streams.probe, result)
}

/// A hot stream at the start of the drive, and cold streams behind it.
struct Streams<'a, D> {
    drive: &'a mut D,
    random: Random,
    hot_commands: u64,
    cold_commands: u64,
    cold_streams: u64,
    written_commands: u64,
    probe: Probe,
}

impl<D: Probed> Streams<'_, D> {
    /// Runs all phases.
    fn run(&mut self, total_commands: u64) -> Result<(), ProbeError<D::Error>> {
        // This phase comes first, while the drive holds nothing else that could be moved. Several passes bring all of
        // the flash into use.
        self.deallocate(total_commands)?;
        for _ in 0..PASSES {
            self.in_order()?;
        }
        let early = self.measure("one sequential stream, nothing else", "one", true, Self::in_order)?;
        self.probe.record_finding(Behaviour::CollectsSequentialEarly, early.excess_over(1.0) > 0.0);
        self.fill(false)?;
        self.random(total_commands, false)?;
        self.measure("a hot stream beside cold streams, all random", "one for all", false, |it| {
            it.random(total_commands, false)
        })?;
        self.deallocate(total_commands)?;
        self.fill(true)?;
        self.random(total_commands, true)?;
        self.measure("a hot stream beside cold streams, all random", "one each", false, |it| {
            it.random(total_commands, true)
        })?;
        let rewrite_hot = |it: &mut Self| {
            it.deallocate(it.hot_commands)?;
            it.in_order()
        };
        let mixed = self.measure("the hot stream, deallocated and rewritten", "one each", true, rewrite_hot)?;
        let moves = self.measure("the hot stream, deallocated and rewritten again", "one each", true, rewrite_hot)?;
        let moves_others = moves.excess_over(1.0) > 0.0;
        self.probe.record_finding(Behaviour::MovesOthers, moves_others);
        // If data is moved on each pass, mixing cannot be detected: data of other handles may be moved in both cases.
        if !moves_others {
            self.probe.record_finding(Behaviour::MixesHandles, mixed.excess_over(moves.waf + moves.off()) > 0.0);
        }
        self.measure("the hot stream in order, a cold stream random", "one each", false, Self::in_order_beside_random)?;
        Ok(())
    }

    /// Runs a phase and records its WAF. `is_known`: true if an isolating drive certainly moves nothing in this phase.
    fn measure(
        &mut self,
        streams: &'static str,
        handles: &'static str,
        is_known: bool,
        run_phase: impl FnOnce(&mut Self) -> Result<(), ProbeError<D::Error>>,
    ) -> Result<Phase, ProbeError<D::Error>> {
        let (counters_before, written_before) =
            (self.drive.counters().map_err(ProbeError::Drive)?, self.written_commands);
        run_phase(self)?;
        let counted = self.drive.counters().map_err(ProbeError::Drive)?.since(counters_before)?;
        let written_bytes = (self.written_commands - written_before) * u64::from(self.drive.command_bytes());
        let waf = counted.waf().unwrap_or(0.0);
        let mut phase = Phase { streams, handles, written_bytes, counted, waf, isolated_waf_max: None };
        if phase.off() > OFF_MAX {
            return Err(ProbeError::OtherCount { written: written_bytes, counted: counted.host });
        }
        let superblock = self.drive.superblock_bytes() as f64 / written_bytes.max(1) as f64;
        phase.isolated_waf_max = is_known.then(|| 1.0 + TOLERANCE + superblock + phase.off());
        self.probe.phases.push(phase.clone());
        Ok(phase)
    }

    fn write(&mut self, command: u64, handle: u16) -> Result<(), ProbeError<D::Error>> {
        self.written_commands += 1;
        self.drive.write(command, handle).map_err(ProbeError::Drive)
    }

    /// Deallocates this many commands from the start of the drive.
    fn deallocate(&mut self, commands: u64) -> Result<(), ProbeError<D::Error>> {
        self.drive.deallocate(0, commands).map_err(ProbeError::Drive)
    }

    /// Writes everything once, all streams interleaved.
    fn fill(&mut self, is_separated: bool) -> Result<(), ProbeError<D::Error>> {
        for index in 0..self.hot_commands.max(self.cold_commands) {
            if index < self.hot_commands {
                self.write(index, 0)?;
            }
            for stream in 0..if index < self.cold_commands { self.cold_streams } else { 0 } {
                self.cold(stream, index, is_separated)?;
            }
        }
        Ok(())
    }

    fn cold(&mut self, stream: u64, index: u64, is_separated: bool) -> Result<(), ProbeError<D::Error>> {
        let handle = if is_separated { stream as u16 + 1 } else { 0 };
        self.write(self.hot_commands + stream * self.cold_commands + index, handle)
    }

    /// Issues this many random writes, most of them hot.
    fn random(&mut self, writes: u64, is_separated: bool) -> Result<(), ProbeError<D::Error>> {
        for write in 0..writes {
            if write % COLD_EVERY == 0 {
                let at = self.random.below(self.cold_commands);
                self.cold(write / COLD_EVERY % self.cold_streams, at, is_separated)?;
            } else {
                let at = self.random.below(self.hot_commands);
                self.write(at, 0)?;
            }
        }
        Ok(())
    }

    fn in_order(&mut self) -> Result<(), ProbeError<D::Error>> {
        (0..self.hot_commands).try_for_each(|at| self.write(at, 0))
    }

    fn in_order_beside_random(&mut self) -> Result<(), ProbeError<D::Error>> {
        for at in 0..self.hot_commands {
            self.write(at, 0)?;
            let random = self.random.below(self.cold_commands);
            self.cold(0, random, true)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ftl::{Append, Firmware, Isolation, Spec, Victim};

    /// A drive of this size that isolates its three handles.
    fn isolating(bytes: u64) -> Spec {
        Spec {
            unit_bytes: 32 << 10,
            superblock_bytes: 1 << 20,
            over_provisioning: 0.1,
            handles: 3,
            append: Append::PerHandle,
            isolation: Isolation::Persistently,
            ..Spec::of(bytes)
        }
    }

    fn probed(change: impl FnOnce(&mut Spec)) -> Probe {
        let mut spec = isolating(512 << 20);
        change(&mut spec);
        let mut drive = Simulated::new(Ftl::new(&spec, 5).unwrap(), 128 << 10);
        let (probe, ended) = probe(&mut drive, spec.handles, 9);
        ended.unwrap();
        drive.ftl.check().unwrap();
        probe
    }

    fn found(firmware: Firmware) -> Vec<Behaviour> {
        let probe = probed(|spec| spec.firmware = firmware);
        println!("{:?}", probe.phases.iter().map(|phase| (phase.streams, phase.waf)).collect::<Vec<_>>());
        probe.found
    }

    #[test]
    fn a_drive_whose_handles_isolate_moves_nothing_where_nothing_need_be_moved() {
        for handles in [2, 3, 8] {
            let probe = probed(|spec| spec.handles = handles);
            assert_eq!(probe.found, [], "{probe:#?}");
            for phase in probe.phases.iter().filter(|phase| phase.isolated_waf_max.is_some()) {
                assert!(phase.waf < 1.0 + TOLERANCE / 2.0, "{phase:#?}");
            }
        }
    }

    #[test]
    fn each_thing_that_firmware_does_is_found_by_its_name() {
        let clean = Firmware::default();
        assert_eq!(found(Firmware { mixes_handles: true, ..clean }), [Behaviour::MixesHandles]);
        assert_eq!(found(Firmware { collects_all_handles: true, ..clean }), [Behaviour::MovesOthers]);
        assert_eq!(found(Firmware { collects_sequential_early: true, ..clean }), [Behaviour::CollectsSequentialEarly]);
    }

    #[test]
    fn handles_that_are_isolated_initially_only_are_found_to_mix() {
        let probe = probed(|spec| (spec.append, spec.isolation) = (Append::Separate, Isolation::Initially));
        assert_eq!(probe.found, [Behaviour::MixesHandles], "{probe:#?}");
    }

    #[test]
    fn where_others_are_moved_at_each_turn_nothing_is_said_of_mixing() {
        let one_append_point = |spec: &mut Spec| (spec.append, spec.isolation) = (Append::Shared, Isolation::Initially);
        let at_random = |spec: &mut Spec| spec.victim = Victim::Choices(2);
        for (mixes, probe) in [(true, probed(one_append_point)), (false, probed(at_random))] {
            assert_eq!(probe.found, [Behaviour::MovesOthers], "mixes: {mixes}: {probe:#?}");
            assert_eq!(probe.unknown().collect::<Vec<_>>(), [Behaviour::MixesHandles]);
        }
    }
    /// A drive that shows altered counters, and fails after a number of writes. `shown` gets the number of the reading.
    struct Odd<F> {
        drive: Simulated,
        readings: u32,
        shown: F,
        writes_left: u64,
    }

    impl<F: Fn(u32, Bytes) -> Bytes> Probed for Odd<F> {
        type Error = &'static str;

        fn commands(&self) -> u64 {
            self.drive.commands()
        }

        fn command_bytes(&self) -> u32 {
            self.drive.command_bytes()
        }

        fn superblock_bytes(&self) -> u64 {
            0
        }

        fn write(&mut self, command: u64, handle: u16) -> Result<(), Self::Error> {
            self.writes_left = self.writes_left.checked_sub(1).ok_or("worn out")?;
            let Ok(()) = self.drive.write(command, handle);
            Ok(())
        }

        fn deallocate(&mut self, first: u64, commands: u64) -> Result<(), Self::Error> {
            let Ok(()) = self.drive.deallocate(first, commands);
            Ok(())
        }

        fn counters(&mut self) -> Result<Bytes, Self::Error> {
            let Ok(bytes) = self.drive.counters();
            self.readings += 1;
            Ok((self.shown)(self.readings, bytes))
        }
    }

    /// Result for an isolating drive that shows `shown` instead of its own counters.
    fn odd(writes_left: u64, shown: impl Fn(u32, Bytes) -> Bytes) -> (Probe, Option<String>) {
        let spec = isolating(128 << 20);
        let drive = Simulated::new(Ftl::new(&spec, 5).unwrap(), 128 << 10);
        let (probe, ended) = probe(&mut Odd { drive, readings: 0, shown, writes_left }, 3, 9);
        (probe, ended.err().map(|ended| ended.to_string()))
    }

    #[test]
    fn another_writer_and_a_counter_that_goes_back_end_it_and_what_was_found_is_told() {
        let written_by_another = |after: u32, more: u64| {
            odd(u64::MAX, |reading, of| Bytes { host: of.host + if reading > after { more } else { 0 }, ..of })
        };
        let (probe, ended) = written_by_another(2, 1 << 20);
        assert_eq!((ended, probe.phases.len()), (None, 6), "another writer before a phase does no harm");
        let (probe, ended) = written_by_another(3, 3 << 20);
        let said = "134 MB were written, but the drive counted 137 MB written by hosts: another program writes";
        assert!(ended.as_ref().is_some_and(|why| why.starts_with(said)), "{ended:?}");
        assert_eq!((probe.phases.len(), &probe.not_found[..]), (1, &[Behaviour::CollectsSequentialEarly][..]));
        assert_eq!(probe.unknown().collect::<Vec<_>>(), [Behaviour::MixesHandles, Behaviour::MovesOthers]);
        let (_, ended) = odd(u64::MAX, |reading, bytes| if reading == 2 { Bytes::default() } else { bytes });
        assert!(ended.as_ref().is_some_and(|why| why.contains("went back from")), "{ended:?}");
        let (probe, ended) = odd(3000, |_, bytes| bytes);
        assert_eq!((probe.phases.len(), ended.as_deref()), (1, Some("worn out")));
    }

    #[test]
    fn counters_in_large_steps_accuse_nobody() {
        let step = 1536 << 10;
        let mut highest: f64 = 0.0;
        for shift in (0..6).map(|sixth| sixth * step / 6) {
            let shown = |_, bytes: Bytes| Bytes {
                host: bytes.host / step * step,
                media: (bytes.media + shift) / step * step,
                ..bytes
            };
            let (probe, ended) = odd(u64::MAX, shown);
            assert_eq!((ended, &probe.found[..]), (None, &[][..]), "{:#?}", probe.phases);
            let known = probe.phases.iter().filter(|phase| phase.isolated_waf_max.is_some());
            highest = known.map(|phase| phase.waf).fold(highest, f64::max);
        }
        assert!(highest > 1.0 + TOLERANCE, "a WAF of {highest} would have been blamed");
    }

    #[test]
    fn what_will_be_written_is_known_before() {
        for handles in [2, 3, 8] {
            let spec = Spec { handles, ..isolating(512 << 20) };
            let drive = Simulated::new(Ftl::new(&spec, 5).unwrap(), 128 << 10);
            let mut drive = Odd { drive, readings: 0, shown: |_, bytes| bytes, writes_left: u64::MAX };
            assert!(probe(&mut drive, handles, 1).1.is_ok());
            let fills = (u64::MAX - drive.writes_left) as f64 / drive.commands() as f64;
            assert!((DRIVE_FILLS - fills).abs() < 0.01 && fills > 9.0, "{fills}");
        }
    }
}
