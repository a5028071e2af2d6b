//! Random scenarios: a power cut at any moment, on a drive with a volatile cache. The drive keeps acknowledged writes,
//! or lies about flushes.

use super::examine::stamp;
use super::examine::{SlotContent, SlotCounts, examine};
use super::session::{DurabilityMethod, SECTOR_BYTES, SessionId, WriteLane};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::convert::Infallible;

const SECTOR: usize = SECTOR_BYTES as usize;
const SESSION: SessionId = SessionId(0x5e55);

#[derive(Debug, Clone, Copy, PartialEq)]
enum Lie {
    None,
    /// Flushes do nothing.
    Flush,
    /// Writes with FUA stay in the cache.
    Fua,
    /// A flush writes a part of the cache to the medium and drops the rest.
    PartOfFlush,
    /// Neither flushes nor FUA have an effect.
    All,
}

struct Draw(u64);

impl Draw {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

/// A drive: its medium, and the sectors in its cache, in the order of their writes.
struct Drive {
    medium: Vec<u8>,
    cache: Vec<(usize, Vec<u8>)>,
    lie: Lie,
}

impl Drive {
    fn write(&mut self, at: u64, bytes: &[u8], fua: bool) {
        let sectors = (at as usize..).step_by(SECTOR).zip(bytes.chunks(SECTOR));
        for (at, sector) in sectors {
            if fua && !matches!(self.lie, Lie::Fua | Lie::All) {
                // Older data of the sector must not reach the medium later.
                self.cache.retain(|(of, _)| *of != at);
                self.medium[at..at + SECTOR].copy_from_slice(sector);
            } else {
                self.cache.push((at, sector.to_vec()));
            }
        }
    }

    fn flush(&mut self, draw: &mut Draw) {
        let keeps = |draw: &mut Draw| match self.lie {
            Lie::None | Lie::Fua => true,
            Lie::Flush | Lie::All => false,
            Lie::PartOfFlush => draw.below(4) > 0,
        };
        for (at, sector) in std::mem::take(&mut self.cache) {
            match (keeps(draw), self.lie) {
                (true, _) => self.medium[at..at + SECTOR].copy_from_slice(&sector),
                (false, Lie::PartOfFlush) => {}
                (false, _) => self.cache.push((at, sector)),
            }
        }
    }

    /// Cuts the power. Some sectors of the cache have reached the medium.
    fn cut(&mut self, draw: &mut Draw) {
        for (at, sector) in std::mem::take(&mut self.cache) {
            if draw.below(3) == 0 {
                self.medium[at..at + SECTOR].copy_from_slice(&sector);
            }
        }
    }
}

struct Scenario {
    drive: Drive,
    lanes: Vec<WriteLane>,
    /// Written bytes by lane and sequence.
    writes: BTreeMap<(usize, u64), Vec<u8>>,
    /// For each lane: last write that the witness knows as acknowledged.
    acknowledged: Vec<u64>,
    /// For each lane: last write whose flush returned.
    flushed: Vec<u64>,
}

fn run_scenario(seed: u64, lie: Lie, steps: u32) -> Scenario {
    let mut draw = Draw(seed);
    let modes = [
        DurabilityMethod::Fdatasync,
        DurabilityMethod::Fua,
        DurabilityMethod::Dsync,
        DurabilityMethod::Fsync,
    ];
    let mut at = 0;
    let lanes: Vec<_> = modes
        .map(|mode| {
            let slots = 4 << draw.below(3);
            let sectors = 1 + draw.below(5) as u32;
            let scattered = draw.below(2) == 0;
            let lane = WriteLane {
                mode,
                write_bytes: sectors * SECTOR_BYTES,
                slots,
                at,
                scattered,
            };
            at += lane.bytes();
            lane
        })
        .into();
    let mut drive = Drive {
        medium: vec![0; at as usize],
        cache: Vec::new(),
        lie,
    };
    let mut writes = BTreeMap::new();
    let mut issued = vec![0_u64; lanes.len()];
    let mut acknowledged = vec![0_u64; lanes.len()];
    let mut flushed = acknowledged.clone();
    for _ in 0..steps {
        let number = draw.below(lanes.len() as u64) as usize;
        let lane = &lanes[number];
        if issued[number] > flushed[number] {
            continue;
        }
        let batch = if lane.mode == DurabilityMethod::Fua {
            1
        } else {
            1 + draw.below(3)
        };
        for _ in 0..batch {
            if issued[number] >= acknowledged[number] + lane.window() {
                break;
            }
            issued[number] += 1;
            let sequence = issued[number];
            let mut bytes: Vec<_> = (0..lane.write_bytes)
                .map(|_| draw.below(256) as u8)
                .collect();
            let slot = lane.slot(sequence);
            stamp(&mut bytes, SESSION, number as u32, lane, slot, sequence);
            drive.write(
                lane.offset(slot),
                &bytes,
                lane.mode == DurabilityMethod::Fua,
            );
            writes.insert((number, sequence), bytes);
        }
        // In 5 % of the cases the power cut hits the flush. Otherwise the acknowledgement can still get lost.
        if draw.below(20) > 0 {
            if lane.mode != DurabilityMethod::Fua {
                drive.flush(&mut draw);
            }
            flushed[number] = issued[number];
            if draw.below(8) > 0 {
                acknowledged[number] = issued[number];
            }
        }
    }
    drive.cut(&mut draw);
    Scenario {
        drive,
        lanes,
        writes,
        acknowledged,
        flushed,
    }
}

impl Scenario {
    fn slot(&self, lane: &WriteLane, slot: u64) -> &[u8] {
        &self.drive.medium[lane.offset(slot) as usize..][..lane.write_bytes as usize]
    }

    fn counts(&self, number: usize) -> SlotCounts {
        let lane = &self.lanes[number];
        let Ok(counts) = examine(
            SESSION,
            number as u32,
            lane,
            self.acknowledged[number],
            |slot, pass: &mut dyn FnMut(SlotContent<'_>)| {
                pass(SlotContent::Bytes(self.slot(lane, slot)));
                Ok::<_, Infallible>(())
            },
        );
        counts
    }

    /// Number of lost writes up to `upto`. A write is lost if a sector of it is neither there nor overwritten later.
    /// Computed independently of the code under test.
    fn gone(&self, number: usize, upto: u64) -> u64 {
        let lane = &self.lanes[number];
        let slots = u64::from(lane.slots);
        let last_of_slots = (upto + 1).saturating_sub(slots).max(1)..=upto;
        last_of_slots
            .filter(|last: &u64| {
                let there = self.slot(lane, lane.slot(*last));
                let later = || self.writes.range((number, *last)..=(number, u64::MAX));
                let same_slot = |sequence: u64| (sequence - last).is_multiple_of(slots);
                let is_there = |range: std::ops::Range<usize>| {
                    later().any(|((_, sequence), bytes)| {
                        same_slot(*sequence) && bytes[range.clone()] == there[range.clone()]
                    })
                };
                !(0..there.len())
                    .step_by(SECTOR)
                    .all(|at| is_there(at..at + SECTOR))
            })
            .count() as u64
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(700))]

    #[test]
    fn every_lost_write_of_a_lying_drive_is_found_and_no_honest_drive_is_reported(
        seed: u64,
        steps in 1_u32..300,
        lie in prop::sample::select(vec![Lie::None, Lie::Flush, Lie::Fua, Lie::PartOfFlush, Lie::All]),
    ) {
        let story = run_scenario(seed, lie, steps);
        for number in 0..story.lanes.len() {
            let counts = story.counts(number);
            let [told, all] = [&story.acknowledged, &story.flushed].map(|upto| story.gone(number, upto[number]));
            // A torn write can show that it had been flushed, even if the witness never received the acknowledgement.
            prop_assert!((told..=told + all).contains(&counts.failed_writes()), "lane {}: {:?}, {} and {}", number, counts, told, all);
            prop_assert_eq!(counts.checked, counts.intact + counts.failed_writes());
            prop_assert!(counts.reordered <= counts.failed_writes() && counts.reach <= story.acknowledged[number]);
            if lie == Lie::None {
                prop_assert_eq!(counts.failed_writes(), 0);
            }
            if lie == Lie::Fua && story.lanes[number].mode != DurabilityMethod::Fua {
                prop_assert_eq!(counts.failed_writes(), 0, "a mode that flushes keeps its writes");
            }
        }
    }
}

#[test]
fn each_kind_of_lying_drive_loses_writes_in_many_scenarios() {
    for lie in [Lie::Flush, Lie::Fua, Lie::PartOfFlush, Lie::All] {
        let loses = |seed: &u64| {
            (0..4).any(|number| run_scenario(*seed, lie, 200).counts(number).failed_writes() > 0)
        };
        // Flushes of other lanes usually save the writes that FUA did not save.
        assert!((0..200).filter(loses).count() > 20, "{lie:?}");
    }
}

/// Examines a lane in which the slot of write 20 has this content; 28 is the next write of that slot.
fn one_slot(acknowledged: u64, content: &[u64]) -> SlotCounts {
    let lane = WriteLane {
        mode: DurabilityMethod::Fdatasync,
        write_bytes: 2 * SECTOR_BYTES,
        slots: 8,
        at: 0,
        scattered: false,
    };
    let Ok(counts) = examine(
        SESSION,
        0,
        &lane,
        acknowledged,
        |slot, pass: &mut dyn FnMut(SlotContent<'_>)| {
            // All other slots are correct.
            let last = (0..=acknowledged)
                .rev()
                .find(|last| lane.slot(*last) == slot)
                .unwrap();
            let of = if last == 20 { content } else { &[last, last] };
            let mut bytes = Vec::new();
            for (sector, sequence) in of.iter().enumerate() {
                let mut write = vec![0; 2 * SECTOR];
                stamp(&mut write, SESSION, 0, &lane, slot, *sequence);
                bytes.extend_from_slice(&write[sector * SECTOR..][..SECTOR]);
            }
            pass(if content.is_empty() && last == 20 {
                SlotContent::Missing
            } else {
                SlotContent::Bytes(&bytes)
            });
            Ok::<_, Infallible>(())
        },
    );
    counts
}

#[test]
fn each_kind_of_damage_is_counted_under_its_name() {
    let of = |content: &[u64]| one_slot(24, content);
    let whole = SlotCounts {
        checked: 8,
        intact: 8,
        ..SlotCounts::default()
    };
    let gone = SlotCounts {
        checked: 8,
        intact: 7,
        reordered: 1,
        reach: 5,
        ..SlotCounts::default()
    };
    assert_eq!(of(&[20, 20]), whole);
    assert_eq!(
        of(&[28, 28]),
        SlotCounts {
            unacknowledged: 1,
            ..whole
        }
    );
    assert_eq!(
        of(&[28, 20]),
        SlotCounts {
            unacknowledged_torn: 1,
            ..whole
        }
    );
    assert_eq!(of(&[20, 12]), SlotCounts { torn: 1, ..gone });
    assert_eq!(of(&[28, 12]), SlotCounts { torn: 1, ..gone });
    assert_eq!(of(&[12, 12]), SlotCounts { stale: 1, ..gone });
    assert_eq!(of(&[12, 4]), SlotCounts { stale: 1, ..gone });
    assert_eq!(of(&[0, 0]), SlotCounts { lost: 1, ..gone });
    assert_eq!(of(&[]), SlotCounts { lost: 1, ..gone });
    // Counts of a lane with torn writes (`is_torn`), after all writes up to `there` reached the medium.
    let damaged = |is_torn: fn(u64) -> bool, there: u64| {
        let lane = WriteLane {
            mode: DurabilityMethod::Fdatasync,
            write_bytes: SECTOR_BYTES,
            slots: 32,
            at: 0,
            scattered: false,
        };
        let Ok(counts) = examine(
            SESSION,
            0,
            &lane,
            32,
            |slot, pass: &mut dyn FnMut(SlotContent<'_>)| {
                let next = if slot == 0 { 64 } else { 32 + slot };
                let mut sector = vec![0; SECTOR];
                stamp(
                    &mut sector,
                    SESSION,
                    0,
                    &lane,
                    slot,
                    if next <= there { next } else { next - 32 },
                );
                pass(if is_torn(next) {
                    SlotContent::Unreadable
                } else {
                    SlotContent::Bytes(&sector)
                });
                Ok::<_, Infallible>(())
            },
        );
        (counts.torn, counts.unacknowledged_torn)
    };
    assert_eq!(damaged(|next| (33..37).contains(&next), 32), (0, 4));
    assert_eq!(damaged(|next| (33..43).contains(&next), 32), (6, 4));
    assert_eq!(damaged(|next| next == 37, 40), (0, 1));
    assert_eq!(damaged(|next| next == 36, 40), (1, 0));
    // The next write was too far ahead to be in flight.
    assert_eq!(one_slot(20, &[28, 20]).unacknowledged_torn, 0);
    assert_eq!(
        one_slot(20, &[12, 12]),
        SlotCounts {
            stale: 1,
            reordered: 0,
            reach: 1,
            ..gone
        }
    );
}
