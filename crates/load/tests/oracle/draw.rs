//! Random drives, loads and slices. A seed identifies a draw.

use super::oracle::limits;
use load::rate::Rate;
use load::schedule::{Poisson, Schedule};
use results::cell::Arrivals;
use std::collections::BTreeMap;
use std::sync::Arc;
use sys::random::Random;

pub(crate) const SEC: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;

#[derive(Debug, Clone)]
pub(crate) struct Draw {
    pub(crate) drives: Vec<Drive>,
    pub(crate) streams: Vec<StreamDraw>,
    pub(crate) lanes: Vec<LaneDraw>,
    /// Slots of each limit of operations in flight.
    pub(crate) limits: Vec<u32>,
    pub(crate) sla: &'static str,
    pub(crate) interval_sec: u64,
    pub(crate) slice_sec: u64,
    pub(crate) duration_sec: u64,
    pub(crate) hang_sec: u64,
    /// Time of a signal that ends the run.
    pub(crate) signal_ns: Option<u64>,
    /// Times in which the program under test has no CPU, from and to.
    pub(crate) away_ns: Vec<(u64, u64)>,
}

#[derive(Debug, Clone)]
pub(crate) enum Drive {
    /// A drive of the simulator, by its description.
    Queue(String),
    /// A drive that serves all operations in parallel, each in `base_ns` or in its time in `others` (`None`: never).
    Listed {
        base_ns: u64,
        others: BTreeMap<(usize, usize), Option<u64>>,
    },
}

#[derive(Debug, Clone)]
pub(crate) struct StreamDraw {
    pub(crate) judged: bool,
    /// Operations a second over all devices; 0: a closed loop.
    pub(crate) per_sec: u64,
    /// Maximum lateness of the stream's operations, if the stream is not judged.
    pub(crate) late_ns: Option<u64>,
    /// Limits of the stream, instead of the draw's limits.
    pub(crate) own: Option<OwnLimits>,
}

#[derive(Debug, Clone)]
pub(crate) struct OwnLimits {
    /// A threshold of the draw with the stream's own share; `None`: no latency limit.
    pub(crate) sla: Option<String>,
    pub(crate) least_iops: Option<f64>,
}

#[derive(Debug, Clone)]
pub(crate) struct LaneDraw {
    pub(crate) stream: usize,
    /// The devices to which the lane's operations go, in turn.
    pub(crate) devices: Vec<usize>,
    pub(crate) limit: usize,
    pub(crate) arrivals: LaneArrivals,
    pub(crate) until_ns: u64,
}

#[derive(Debug, Clone)]
pub(crate) enum LaneArrivals {
    /// Every `stride`-th instant, from the `first`, of a sequence with `per_sec` instants per second.
    Even {
        per_sec: u64,
        first: u64,
        stride: u64,
        phase: u32,
    },
    Poisson {
        per_sec: u64,
        seed: u64,
    },
    Listed(Arc<[u64]>),
    Closed {
        depth: u32,
        think_ns: u64,
    },
}

impl LaneDraw {
    pub(crate) fn device(&self, index: usize) -> usize {
        self.devices[index % self.devices.len()]
    }

    /// The instants before `end_ns` at which operations are due; none for a closed loop, which waits only for slots.
    pub(crate) fn instants(&self, end_ns: u64) -> Vec<u64> {
        let all: Box<dyn Iterator<Item = u64>> = match &self.arrivals {
            LaneArrivals::Even {
                per_sec,
                first,
                stride,
                phase,
            } => {
                let per_sec = u128::from(*per_sec);
                let first = u128::from(*first);
                let stride = u128::from(*stride);
                let phase = u128::from(*phase);
                Box::new(
                    (0..)
                        .map(move |k| {
                            ((first + stride * k) * 65_536 + phase) * 1_000_000_000
                                / (per_sec * 65_536)
                        })
                        .map(|ns| ns as u64),
                )
            }
            LaneArrivals::Poisson { per_sec, seed } => {
                let mut schedule = poisson(*per_sec, *seed);
                Box::new(std::iter::from_fn(move || schedule.next_ns()))
            }
            LaneArrivals::Listed(instants) => Box::new(instants.iter().copied()),
            LaneArrivals::Closed { .. } => Box::new(std::iter::empty()),
        };
        all.take_while(|at_ns| *at_ns < end_ns.min(self.until_ns))
            .collect()
    }
}

pub(crate) fn poisson(per_sec: u64, seed: u64) -> Schedule {
    Schedule::Poisson(Poisson::new(Rate::per_sec(per_sec), Random::new(seed)).unwrap())
}

pub(crate) struct Dice(Random);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Random::for_part(seed, 77))
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.0.below(n) == 0
    }

    fn within(&mut self, low: u64, high: u64) -> u64 {
        low + self.0.below(high - low + 1)
    }

    /// A number from `low` to `high`; each order of magnitude is equally likely.
    fn scaled(&mut self, low: u64, high: u64) -> u64 {
        let power = (high as f64 / low as f64).ln() * self.0.unit();
        ((low as f64 * power.exp()) as u64).clamp(low, high)
    }

    fn pick<T: Clone>(&mut self, items: &[T]) -> T {
        items[self.0.below(items.len() as u64) as usize].clone()
    }
}

const SLAS: &str = "5%>1ms,1%>8ms,0.1%>64ms 0.1%>64ms 10%>1ms 1%>20ms 50%>500ms 100%>1s 20%>2ms,2%>200ms \
                    100%>3600s 100%>3600s";

impl Draw {
    /// When the operations of a stream are due, over all its lanes.
    pub(crate) fn arrivals_of(&self, stream: usize) -> Arrivals {
        let of_lane = |lane: &LaneDraw| match lane.arrivals {
            LaneArrivals::Even { .. } => Arrivals::Even,
            LaneArrivals::Poisson { .. } => Arrivals::Random,
            LaneArrivals::Listed(_) => Arrivals::Given,
            LaneArrivals::Closed { .. } => Arrivals::Unknown,
        };
        let all: Vec<_> = self
            .lanes
            .iter()
            .filter(|lane| lane.stream == stream)
            .map(of_lane)
            .collect();
        let kinds = [Arrivals::Given, Arrivals::Random, Arrivals::Even];
        kinds
            .into_iter()
            .find(|kind| all.contains(kind))
            .unwrap_or_default()
    }

    /// A load on drives of the simulator.
    pub(crate) fn of_queues(seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let mut draw = Self::bare(&mut dice);
        let devices = dice.pick(&[1, 1, 2, 2, 3]);
        let shared = dice.one_in(2);
        let slots = |dice: &mut Dice| dice.pick(&[1, 2, 4, 16, 64, 256, 1024]);
        let common = slots(&mut dice);
        for stream in 0..dice.pick(&[1, 1, 2, 3]) {
            let stream_draw = draw.stream(&mut dice, stream > 0);
            let in_turn = devices > 1 && dice.one_in(4);
            let of_lanes: Vec<Vec<usize>> = if in_turn {
                vec![(0..devices).collect()]
            } else {
                (0..devices).map(|device| vec![device]).collect()
            };
            let until_ns = if dice.one_in(5) {
                dice.within(1, draw.duration_sec * 1_000) * MS
            } else {
                u64::MAX
            };
            let lanes = of_lanes.len() as u64;
            for (first, of_lane) in (0..).zip(of_lanes) {
                let limit = match draw.limits.len() {
                    1.. if shared => 0,
                    known => {
                        draw.limits
                            .push(if shared { common } else { slots(&mut dice) });
                        known
                    }
                };
                let arrivals = draw.arrivals(&mut dice, stream_draw.per_sec, first, lanes);
                draw.lanes.push(LaneDraw {
                    stream,
                    devices: of_lane,
                    limit,
                    arrivals,
                    until_ns,
                });
            }
            draw.streams.push(stream_draw);
        }
        let per_device = draw
            .streams
            .iter()
            .map(|stream| stream.per_sec)
            .sum::<u64>()
            / devices as u64;
        draw.drives = (0..devices)
            .map(|_| Drive::Queue(draw.queue(&mut dice, per_device.max(20))))
            .collect();
        draw
    }

    /// A load at the edge of a rule: as many slow, late or missing operations, or as long a silence, as the rule
    /// allows; or one operation or one nanosecond more.
    pub(crate) fn of_edges(seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let mut draw = Self::bare(&mut dice);
        let devices = dice.pick(&[1, 1, 2]);
        let mut others = vec![BTreeMap::new(); devices];
        for stream in 0..dice.pick(&[1, 1, 2]) {
            let mut stream_draw = draw.stream(&mut dice, stream > 0);
            if stream_draw.per_sec > 0 {
                stream_draw.per_sec = dice.pick(&[10, 500, 1_000, 2_000]);
            }
            for (device, others) in others.iter_mut().enumerate() {
                let per_sec = stream_draw.per_sec;
                let arrivals = match per_sec {
                    0 => LaneArrivals::Closed {
                        depth: 1,
                        think_ns: 5 * MS,
                    },
                    _ => LaneArrivals::Even {
                        per_sec,
                        first: device as u64,
                        stride: devices as u64,
                        phase: 40_503,
                    },
                };
                let limit = draw.limits.len();
                draw.limits.push(20_000);
                draw.lanes.push(LaneDraw {
                    stream,
                    devices: vec![device],
                    limit,
                    arrivals,
                    until_ns: u64::MAX,
                });
                draw.edge(&mut dice, &stream_draw, others);
            }
            draw.streams.push(stream_draw);
        }
        draw.drives = others
            .into_iter()
            .map(|others| Drive::Listed {
                base_ns: 100_000,
                others,
            })
            .collect();
        draw
    }

    /// A load of which just as many operations as a limit allows, or one more, are slow around the border of two slices.
    pub(crate) fn of_borders(seed: u64) -> Self {
        let mut dice = Dice::new(seed ^ 0x00ff_00ff);
        let mut draw = Self::bare(&mut dice);
        let slices = dice.within(2, 3);
        draw.slice_sec = draw.interval_sec * dice.pick(&[2, 2, 4, 3]);
        draw.duration_sec = draw.slice_sec * slices + dice.within(0, 2);
        let per_sec = dice.pick(&[700, 1_000, 2_000]);
        let arrivals = LaneArrivals::Even {
            per_sec,
            first: 0,
            stride: 1,
            phase: 40_503,
        };
        let lane = LaneDraw {
            stream: 0,
            devices: vec![0],
            limit: 0,
            arrivals,
            until_ns: u64::MAX,
        };
        let (share_ppb, threshold_ns) = dice.pick(&limits(draw.sla));
        let scheduled = per_sec * draw.slice_sec;
        let count = (scheduled * share_ppb).div_ceil(1_000_000_000) + dice.within(0, 1);
        let border = dice.within(1, slices - 1) * scheduled;
        let before = dice.within(0, count - 1).min(scheduled / 2);
        let slow = border - before..border - before + count - 1;
        let others = slow
            .map(|index| ((0, index as usize), Some(threshold_ns.min(50 * SEC))))
            .collect();
        draw.drives = vec![Drive::Listed {
            base_ns: 100_000,
            others,
        }];
        draw.limits = vec![1_000_000];
        draw.streams = vec![StreamDraw {
            judged: true,
            per_sec,
            late_ns: None,
            own: None,
        }];
        draw.lanes = vec![lane];
        draw
    }

    /// A drive that does nearly all of the load, all of it, or a little more; most streams have no limits.
    pub(crate) fn of_caps(seed: u64) -> Self {
        let mut dice = Dice::new(seed ^ 0x0ff0_0ff0);
        let mut draw = Self::bare(&mut dice);
        draw.interval_sec = 1;
        draw.slice_sec = dice.within(3, 10);
        draw.duration_sec = draw.slice_sec * dice.within(1, 2);
        let per_sec = dice.pick(&[300, 1_000, 3_000]);
        let service_us = 1_000_000 * dice.within(970, 1_100) / (1_000 * per_sec);
        let jitter_pct = dice.pick(&[0, 20]);
        draw.drives = vec![Drive::Queue(format!(
            "sim:channels=1+read-us={service_us}+jitter-pct={jitter_pct}"
        ))];
        draw.limits = vec![100_000];
        for stream in 0..2 {
            let (judged, per_sec) = if stream == 0 {
                (true, 10)
            } else {
                (dice.one_in(3), per_sec)
            };
            let arrivals = draw.arrivals(&mut dice, per_sec, 0, 1);
            draw.streams.push(StreamDraw {
                judged,
                per_sec,
                late_ns: None,
                own: None,
            });
            draw.lanes.push(LaneDraw {
                stream,
                devices: vec![0],
                limit: 0,
                arrivals,
                until_ns: u64::MAX,
            });
        }
        draw
    }

    /// The same load on the same drives, by a program that at times has no CPU.
    pub(crate) fn with_absences(mut self, seed: u64) -> Self {
        let mut dice = Dice::new(!seed);
        let mut from_ns = 0;
        for _ in 0..dice.within(1, 3) {
            let at_ns = self.instant(&mut dice).max(from_ns + 1);
            let length_ns = dice.scaled(MS, 3_500 * MS);
            self.away_ns.push((at_ns, at_ns + length_ns));
            from_ns = at_ns + length_ns;
        }
        self
    }

    /// The same load; some of its streams have limits of their own.
    pub(crate) fn with_own_limits(mut self, seed: u64) -> Self {
        let mut dice = Dice::new(seed ^ 0x0f0f);
        let devices = self.drives.len() as u64;
        for stream in &mut self.streams {
            if dice.one_in(3) {
                continue;
            }
            let (share_ppb, threshold_ns) = dice.pick(&limits(self.sla));
            let share_pct = dice.pick(&[1, 10, 50, 100, (share_ppb / 10_000_000).max(1)]);
            let sla = (!dice.one_in(3)).then(|| format!("{share_pct}%>{}ms", threshold_ns / MS));
            // The offered rate, or about the rate that a closed loop reaches.
            let usual = if stream.per_sec == 0 {
                200 * devices
            } else {
                stream.per_sec
            };
            let least_iops =
                (!dice.one_in(3)).then(|| usual as f64 * dice.within(80, 105) as f64 / 100.0);
            stream.own = Some(OwnLimits { sla, least_iops });
            stream.judged = true;
        }
        self
    }

    fn bare(dice: &mut Dice) -> Self {
        let interval_sec = dice.pick(&[1, 1, 1, 2, 3]);
        let duration_sec = dice.within(1, 14);
        let slice_sec = dice.within(1, 5) * interval_sec;
        // A run that is shorter than a slice has one slice, of whole intervals.
        let slice_sec = if slice_sec <= duration_sec {
            slice_sec
        } else {
            (duration_sec / interval_sec).max(1) * interval_sec
        };
        let signal_ns = dice
            .one_in(8)
            .then(|| dice.within(1, duration_sec * 1_000) * MS);
        Self {
            drives: Vec::new(),
            streams: Vec::new(),
            lanes: Vec::new(),
            limits: Vec::new(),
            sla: dice.pick(&SLAS.split(' ').collect::<Vec<_>>()),
            interval_sec,
            slice_sec,
            duration_sec,
            hang_sec: dice.pick(&[2, 5, 30, 60]),
            signal_ns,
            away_ns: Vec::new(),
        }
    }

    fn stream(&self, dice: &mut Dice, may_be_unjudged: bool) -> StreamDraw {
        let judged = !(may_be_unjudged && dice.one_in(2));
        let per_sec = if dice.one_in(4) {
            0
        } else {
            dice.scaled(2, 20_000 / self.duration_sec)
        };
        let late_ns = (!judged && dice.one_in(2)).then(|| dice.scaled(10 * MS, 3 * SEC));
        StreamDraw {
            judged,
            per_sec,
            late_ns,
            own: None,
        }
    }

    fn arrivals(&self, dice: &mut Dice, per_sec: u64, first: u64, lanes: u64) -> LaneArrivals {
        let own = (per_sec / lanes).max(1);
        let from_ns = dice.within(0, self.duration_sec * 500) * MS;
        let duration_ns = self.duration_sec * SEC;
        match dice.within(0, 5) {
            _ if per_sec == 0 => LaneArrivals::Closed {
                depth: dice.pick(&[1, 2, 8]),
                think_ns: dice.scaled(2 * MS, 50 * MS),
            },
            0 => LaneArrivals::Poisson {
                per_sec: own,
                seed: dice.within(0, 1 << 40),
            },
            // A sequence that starts late.
            1 => LaneArrivals::Listed(
                (0..)
                    .map(|k| from_ns + k * SEC / own)
                    .take_while(|ns| *ns < duration_ns)
                    .collect(),
            ),
            // All operations of a second are due at once, at the start of the second or sometimes near its end.
            2 => {
                let within_ns = dice.pick(&[0, 0, 999 * MS, SEC - 1]);
                let bursts = (0..self.duration_sec)
                    .flat_map(|sec| (0..own).map(move |_| sec * SEC + within_ns));
                LaneArrivals::Listed(bursts.collect())
            }
            _ => LaneArrivals::Even {
                per_sec,
                first,
                stride: lanes,
                phase: dice.within(0, 65_535) as u32,
            },
        }
    }

    /// An instant of the run, often near the end of a slice or of the run.
    fn instant(&self, dice: &mut Dice) -> u64 {
        let end_ns = self.duration_sec * SEC;
        let slice_ns = self.slice_sec * SEC;
        let near = |dice: &mut Dice, at_ns: u64| {
            (at_ns + dice.within(0, 500 * MS)).saturating_sub(dice.scaled(1, SEC + SEC / 2))
        };
        match dice.within(0, 2) {
            0 => dice.within(0, end_ns),
            1 => near(dice, end_ns),
            _ => {
                let slice = dice.within(1, (end_ns / slice_ns).max(1));
                near(dice, slice * slice_ns)
            }
        }
    }

    /// The description of a drive under a load of about `per_sec` operations per second.
    fn queue(&self, dice: &mut Dice, per_sec: u64) -> String {
        let at_s = self.instant(dice) as f64 / 1e9;
        let kind = dice.within(0, 9);
        let fault = match kind {
            0 | 1 => String::new(),
            2 => format!("+stall-at-s={at_s}+stall-ms={}", dice.scaled(1, 8_000)),
            3 => {
                let every_ms = dice.scaled(200, 5_000);
                format!(
                    "+stall-every-s={}+stall-ms={}",
                    every_ms as f64 / 1e3,
                    dice.scaled(1, every_ms - 1)
                )
            }
            4 => format!("+stall-at-s={at_s}+stall-ms=100000000"),
            5 => format!(
                "+slow-after-s={at_s}+slow-factor={}",
                dice.scaled(2, 20_000)
            ),
            6 if dice.one_in(3) => "+error-rate=0.0005".to_owned(),
            7 if dice.one_in(3) => format!("+gone-at-s={at_s}"),
            _ => String::new(),
        };
        // Service time of a single channel, for a load near saturation.
        let saturated_us = 1_000_000 * dice.within(80, 130) / (100 * per_sec);
        let (channels, read_us) = match dice.within(0, 3) {
            0 => (1, saturated_us.max(1)),
            1 => (dice.pick(&[1, 2, 8, 1_000]), dice.scaled(100, 1_500_000)),
            _ => (32, dice.within(20, 900)),
        };
        format!(
            "sim:channels={channels}+read-us={read_us}+jitter-pct={}{fault}",
            dice.pick(&[0, 20])
        )
    }

    /// Makes as many operations of the last lane slow, late or missing that a rule just holds, or is just broken.
    fn edge(
        &self,
        dice: &mut Dice,
        stream: &StreamDraw,
        others: &mut BTreeMap<(usize, usize), Option<u64>>,
    ) {
        let lane = self.lanes.len() - 1;
        let end_ns = self.duration_sec * SEC;
        let slice_ns = self.slice_sec * SEC;
        let instants = match self.lanes[lane].arrivals {
            LaneArrivals::Closed { think_ns, .. } => (0..end_ns / (think_ns + 100_000))
                .map(|k| (k + 1) * think_ns)
                .collect(),
            _ => self.lanes[lane].instants(end_ns),
        };
        // A slice, or the remainder.
        let slice = dice.within(0, end_ns.div_ceil(slice_ns) - 1);
        let slice_end_ns = ((slice + 1) * slice_ns).min(end_ns);
        let mut own: Vec<_> = (0..instants.len())
            .filter(|index| instants[*index] / slice_ns == slice)
            .collect();
        let scheduled = own.len() as u64;
        let (count, service_ns): (u64, Box<dyn Fn(u64) -> u64>) =
            match (dice.within(0, 3), stream.late_ns) {
                (0, _) if stream.per_sec > 0 => {
                    // Operations complete just in time, or just too late.
                    let beyond_ns = dice.within(0, 1);
                    (
                        (scheduled / 1_000).max(1),
                        Box::new(move |at_ns| slice_end_ns + SEC + beyond_ns - at_ns),
                    )
                }
                (1 | 2, Some(late_ns)) => {
                    let beyond_ns = dice.within(0, 1);
                    (scheduled / 1_000, Box::new(move |_| late_ns + beyond_ns))
                }
                _ => {
                    let (share_ppb, threshold_ns) = dice.pick(&limits(self.sla));
                    let threshold_ns = threshold_ns.min(50 * SEC);
                    // A closed loop gets the longest silence that passes, or 1 ns more. Other loads get as many slow
                    // operations as pass, or one more.
                    if stream.per_sec == 0 && dice.one_in(2) {
                        let silent_ns =
                            u128::from(slice_ns) * u128::from(share_ppb) / 1_000_000_000;
                        let silent_ns =
                            (silent_ns as u64).max(threshold_ns + 1) + dice.within(0, 1);
                        (0, Box::new(move |_| silent_ns - 1))
                    } else {
                        let count = (u128::from(scheduled) * u128::from(share_ppb))
                            .div_ceil(1_000_000_000) as u64;
                        let below_ns = dice.within(0, 1);
                        (
                            count.saturating_sub(1),
                            Box::new(move |_| threshold_ns - below_ns),
                        )
                    }
                }
            };
        for _ in 0..count + dice.within(0, 1) {
            if own.is_empty() {
                break;
            }
            let index = own.swap_remove(dice.0.below(own.len() as u64) as usize);
            others.insert((lane, index), Some(service_ns(instants[index])));
        }
        if dice.one_in(12) && !own.is_empty() {
            others.insert((lane, dice.pick(&own)), None);
        }
    }
}
