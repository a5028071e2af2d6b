//! What a drive's firmware does with placement handles, found from outside: by streams and by what the drive counts.
//!
//! The one idea: after data of one handle was deallocated, its superblocks are empty if nothing else is in them, and
//! writing that data again costs no move at all. What is moved then is the data of others, and that it is moved a second
//! time tells mixing from collecting others along. A stream alone on the drive that overwrites in order empties one superblock after the other; what is
//! moved then was collected too early. In each case a drive that does what handles promise moves nothing, so
//! there is a known answer and no model of the drive.
//!
//! [`Probed`] is all that is asked of a drive: simulated here, a real one elsewhere.

use ftl::Ftl;
use results::waf::{Bytes, WentBack};
use serde::Serialize;
use sys::random::Random;

/// Share of what is written that may be moved before firmware is accused: open superblocks, metadata.
const TOLERANCE: f64 = 0.02;
/// Percent of the drive for the hot stream, and for all cold ones together. The rest is never written.
const HOT_PCT: u64 = 45;
const COLD_PCT: u64 = 50;
/// Passes over the hot range after which every superblock was used, up to 80 % over-provisioning.
const PASSES: u32 = 4;
/// Of so many random writes one goes to a cold stream.
const COLD_EVERY: u64 = 5;

/// A drive as the probe knows it. Positions and lengths are in commands of one size.
pub trait Probed {
    /// Why it did not do what it was asked, or went back in what it counted.
    type Error: From<WentBack>;

    /// Commands that it has room for.
    fn commands(&self) -> u64;

    /// Writes one under a handle, from 0.
    fn write(&mut self, command: u64, handle: u16) -> Result<(), Self::Error>;

    /// Deallocates some.
    fn deallocate(&mut self, first: u64, commands: u64) -> Result<(), Self::Error>;

    /// What it counted so far.
    fn counters(&mut self) -> Result<Bytes, Self::Error>;
}

/// A simulated drive.
pub struct Simulated {
    ftl: Ftl,
    units: u32,
}

impl Simulated {
    /// `ftl`, written in commands of `bytes`, at least a unit.
    pub fn new(ftl: Ftl, bytes: u32) -> Self {
        let units = (bytes / ftl.spec().unit_bytes).max(1);
        Self { ftl, units }
    }
}

impl Probed for Simulated {
    type Error = WentBack;

    fn commands(&self) -> u64 {
        self.ftl.units() / u64::from(self.units)
    }

    fn write(&mut self, command: u64, handle: u16) -> Result<(), Self::Error> {
        self.ftl.write(command * u64::from(self.units), self.units, handle);
        Ok(())
    }

    fn deallocate(&mut self, first: u64, commands: u64) -> Result<(), Self::Error> {
        (first..first + commands).for_each(|command| self.ftl.deallocate(command * u64::from(self.units), self.units));
        Ok(())
    }

    fn counters(&mut self) -> Result<Bytes, Self::Error> {
        Ok(self.ftl.counters())
    }
}

/// What was written, and what it cost.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Phase {
    /// The streams.
    pub streams: &'static str,
    /// Their handles.
    pub handles: &'static str,
    /// Bytes of the host.
    pub host_bytes: u64,
    /// Write amplification factor.
    pub waf: f64,
    /// What a drive that isolates has here; none where that depends on the drive.
    pub isolated_waf: Option<f64>,
}

/// What firmware does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Behaviour {
    /// Valid data of other handles lies in the superblocks of one.
    MixesHandles,
    /// What is overwritten under one handle moves the data of others.
    MovesOthers,
    /// Superblocks of a sequential stream are collected before the stream is through with them.
    CollectsSequentialEarly,
}

impl Behaviour {
    /// In a sentence.
    pub fn sentence(self) -> &'static str {
        match self {
            Self::MixesHandles => {
                "mixes others' valid data into garbage collection: data of cold handles lay in the superblocks of the hot one"
            }
            Self::MovesOthers => {
                "moves the data of idle handles: superblocks of theirs are collected along with those of a handle that is written"
            }
            Self::CollectsSequentialEarly => {
                "reclaims long sequential streams early: superblocks that the stream would soon have emptied are moved first"
            }
        }
    }
}

/// What the probe found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Probe {
    /// What was run, in this order.
    pub phases: Vec<Phase>,
    /// What firmware does that breaks what handles promise; empty: its handles isolate.
    pub found: Vec<Behaviour>,
}

/// Runs the streams on a drive of so many handles, at least 2. Everything on it is overwritten.
///
/// Errors: those of the drive.
pub fn probe<D: Probed>(drive: &mut D, handles: u16, seed: u64) -> Result<Probe, D::Error> {
    let all = drive.commands();
    let (hot, cold_streams) = (all * HOT_PCT / 100, u64::from(handles - 1).min(2));
    let cold = all * COLD_PCT / 100 / cold_streams;
    let mut streams = Streams { drive, random: Random::new(seed), hot, cold, cold_streams, phases: Vec::new() };

    // First, as nothing else is on the drive that could be moved. Several passes, until all of the flash is in use.
    streams.drive.deallocate(0, all)?;
    for _ in 0..PASSES {
        streams.in_order()?;
    }
    let early = streams.measure("a long one in order, nothing else", "one", Some(1.0), Streams::in_order)?;
    streams.fill(false)?;
    streams.random(all, false)?;
    streams.measure("one hot, cold ones beside it, random", "one for all", None, |it| it.random(all, false))?;
    streams.drive.deallocate(0, all)?;
    streams.fill(true)?;
    streams.random(all, true)?;
    streams.measure("the same", "one each", None, |it| it.random(all, true))?;
    let again = |it: &mut Streams<'_, D>| {
        it.drive.deallocate(0, it.hot)?;
        it.in_order()
    };
    let mixed = streams.measure("the hot one deallocated and written in order", "one each", Some(1.0), again)?;
    let moves = streams.measure("once more", "one each", Some(1.0), again)?;
    streams.measure("that one in order beside a random cold one", "one each", None, Streams::in_order_beside_random)?;
    let found = [
        (mixed > moves + TOLERANCE, Behaviour::MixesHandles),
        (moves > 1.0 + TOLERANCE, Behaviour::MovesOthers),
        (early > 1.0 + TOLERANCE, Behaviour::CollectsSequentialEarly),
    ];
    let found = found.into_iter().filter(|(is, _)| *is).map(|(_, behaviour)| behaviour).collect();
    Ok(Probe { phases: streams.phases, found })
}

/// One hot stream from the start of the drive, cold ones behind it.
struct Streams<'a, D> {
    drive: &'a mut D,
    random: Random,
    hot: u64,
    cold: u64,
    cold_streams: u64,
    phases: Vec<Phase>,
}

impl<D: Probed> Streams<'_, D> {
    /// Runs a phase and keeps what it cost.
    fn measure(
        &mut self,
        streams: &'static str,
        handles: &'static str,
        isolated_waf: Option<f64>,
        run: impl FnOnce(&mut Self) -> Result<(), D::Error>,
    ) -> Result<f64, D::Error> {
        let before = self.drive.counters()?;
        run(self)?;
        let counted = self.drive.counters()?.since(before)?;
        let waf = counted.waf().unwrap_or(0.0);
        self.phases.push(Phase { streams, handles, host_bytes: counted.host, waf, isolated_waf });
        Ok(waf)
    }

    /// Everything once, the streams beside each other.
    fn fill(&mut self, apart: bool) -> Result<(), D::Error> {
        for at in 0..self.hot.max(self.cold) {
            if at < self.hot {
                self.drive.write(at, 0)?;
            }
            for stream in 0..if at < self.cold { self.cold_streams } else { 0 } {
                self.cold(stream, at, apart)?;
            }
        }
        Ok(())
    }

    fn cold(&mut self, stream: u64, at: u64, apart: bool) -> Result<(), D::Error> {
        let handle = if apart { stream as u16 + 1 } else { 0 };
        self.drive.write(self.hot + stream * self.cold + at, handle)
    }

    /// So many random writes, most of them hot.
    fn random(&mut self, writes: u64, apart: bool) -> Result<(), D::Error> {
        for write in 0..writes {
            if write % COLD_EVERY == 0 {
                let at = self.random.below(self.cold);
                self.cold(write / COLD_EVERY % self.cold_streams, at, apart)?;
            } else {
                let at = self.random.below(self.hot);
                self.drive.write(at, 0)?;
            }
        }
        Ok(())
    }

    fn in_order(&mut self) -> Result<(), D::Error> {
        (0..self.hot).try_for_each(|at| self.drive.write(at, 0))
    }

    fn in_order_beside_random(&mut self) -> Result<(), D::Error> {
        for at in 0..self.hot {
            self.drive.write(at, 0)?;
            let random = self.random.below(self.cold);
            self.cold(0, random, true)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ftl::{Append, Firmware, Isolation, Spec};

    fn probed(change: impl FnOnce(&mut Spec)) -> Probe {
        let mut spec = Spec {
            unit_bytes: 32 << 10,
            superblock_bytes: 1 << 20,
            over_provisioning: 0.1,
            handles: 3,
            append: Append::PerHandle,
            isolation: Isolation::Persistently,
            ..Spec::of(512 << 20)
        };
        change(&mut spec);
        let mut drive = Simulated::new(Ftl::new(&spec, 5).unwrap(), 128 << 10);
        let probe = probe(&mut drive, spec.handles, 9).unwrap();
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
            for phase in probe.phases.iter().filter(|phase| phase.isolated_waf.is_some()) {
                assert!(phase.waf < 1.0 + TOLERANCE / 2.0, "{phase:#?}");
            }
        }
    }

    #[test]
    fn each_thing_that_firmware_does_is_found_by_its_name() {
        let clean = Firmware::default();
        assert_eq!(found(Firmware { mixes_handles: true, ..clean }), [Behaviour::MixesHandles]);
        assert!(found(Firmware { collects_all_handles: true, ..clean }).contains(&Behaviour::MovesOthers));
        assert_eq!(found(Firmware { collects_sequential_early: true, ..clean }), [Behaviour::CollectsSequentialEarly]);
    }

    #[test]
    fn handles_that_are_isolated_initially_only_are_found_to_mix() {
        let probe = probed(|spec| (spec.append, spec.isolation) = (Append::Separate, Isolation::Initially));
        assert_eq!(probe.found, [Behaviour::MixesHandles], "{probe:#?}");
    }
}
