//! The rules, applied to the log of single operations: simple, slow, and without code of the recorder or the judge.
//!
//! The rules apply to each stream, device and slice. An operation belongs to the slice in which it was due, even if
//! that slice is joined with another slice.
//!
//! 1. Lost: issued, and not completed when the drain ends. One lost operation fails the run.
//! 2. Not carried out (streams with a rate): more than one and more than 0.1 % of the operations are not completed 1 s
//!    after the end of the slice. If the stream or the run ends within the slice, its end counts instead.
//!    In complete slices of under 1,000 s with at least four report intervals, also: the backlog grew. The backlog is the
//!    number of operations due and not completed, at the beginning of the slice and at the end of each interval. Its
//!    minimum in the last quarter exceeds its maximum in the first half by more than one operation and 0.1 %, and for
//!    random arrivals in addition by more than three times the square root of the operations due. Not for streams with
//!    given instants, and only if the stream had operations on the device in every interval.
//! 3. Late (streams with a limit of lateness): more than 0.1 % completed later than this limit.
//! 4. Silence (judged closed loops): for longer than the loosest limit, a device has operations in flight and completes
//!    none. All such times together are at least that limit's share of the slice.
//! 5. Below its rate (streams with a minimum rate): fewer operations per second succeeded in a stretch (a slice, or
//!    two joined slices), on all devices together.
//!
//! A run that would pass, but has fewer than four report intervals in a slice and ends with a backlog of more than one
//! operation and 0.1 %, is too short.
//!
//! For each judged stream, the share of slow operations must stay below each limit, on each device and over all
//! devices. For shares and silences, windows from the middle of a slice to the middle of the next are judged, too, if
//! the halves of slices are whole report intervals and both halves of the window are complete. For shares, such a
//! window needs 3,000 operations and 90 % of the mean number in a complete slice; for silences, 90 % of a slice's time.

use super::draw::{Draw, Drive, LaneArrivals, LaneDraw, SEC};
use super::log::{Log, Logged};
use results::cell::Arrivals;
use std::collections::{BTreeMap, BTreeSet};

/// Minimum operations of an incomplete last slice that is judged twice: joined with the slice before, and alone.
const ALONE_MIN: u64 = 3_000;

/// The rule that a backlog must not grow through a slice.
pub(crate) const GREW: &str = "grew";
/// The rule on silences, in a window between slices.
pub(crate) const SILENT_BETWEEN: &str = "silent-between";

#[derive(Debug, Clone, Copy)]
pub(crate) struct Fate {
    lane: usize,
    stream: usize,
    device: usize,
    slice: usize,
    scheduled_ns: u64,
    issued_ns: Option<u64>,
    back_ns: Option<u64>,
    failed: bool,
    /// End of the operation's stream, or of the run.
    end_ns: u64,
}

impl Fate {
    fn took_ns(&self) -> u64 {
        self.back_ns
            .map_or(u64::MAX, |back_ns| back_ns - self.scheduled_ns)
    }

    fn is_over(&self, threshold_ns: u64) -> bool {
        self.failed || self.took_ns() >= threshold_ns
    }
}

/// Facts about a run that the rules need.
pub(crate) struct Ran<'a> {
    pub(crate) draw: &'a Draw,
    pub(crate) log: &'a Log,
    /// End of the run: operations due from then on do not count.
    pub(crate) stop_ns: u64,
    /// True if the run ended before its planned end.
    pub(crate) is_stopped: bool,
    /// True if the run ended because a drive disconnected.
    pub(crate) is_gone: bool,
}

/// A stream on a device, or on all devices.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) stream: usize,
    pub(crate) device: Option<usize>,
    /// By slice: operations due, and how many of them were over each threshold.
    pub(crate) slices: Vec<(u64, Vec<u64>)>,
}

/// A rule that a stream broke on a device.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Broken {
    pub(crate) rule: &'static str,
    pub(crate) stream: usize,
    pub(crate) device: usize,
    /// The first slice of the stretch, from 0.
    pub(crate) slice: usize,
    /// Operations, or nanoseconds of silence.
    pub(crate) count: u64,
    pub(crate) scheduled: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) outcome: &'static str,
    /// Reason codes that prevent a pass.
    pub(crate) codes: BTreeSet<&'static str>,
    pub(crate) groups: Vec<Group>,
    pub(crate) broken: BTreeSet<Broken>,
    /// By stream: numbers of operations that were done, failed, never issued, lost, and done after the end.
    pub(crate) totals: Vec<[u64; 5]>,
    /// By device: operations that never completed.
    pub(crate) lost: BTreeMap<usize, u64>,
    /// True if the run ended at the start of a slice.
    pub(crate) ends_on_border: bool,
    pub(crate) complaints: Vec<String>,
    /// The codes that the rules leave open: a slice that was cut short could have passed or failed.
    pub(crate) open: BTreeSet<&'static str>,
}

/// Slices that are judged together.
struct Stretch {
    first: usize,
    last: usize,
    is_cut: bool,
}

/// A window from the middle of one slice to the middle of the next, in which shares and silences are judged, too.
#[derive(Clone, Copy)]
struct Between {
    from_ns: u64,
    to_ns: u64,
}

impl Between {
    fn includes(&self, scheduled_ns: u64) -> bool {
        (self.from_ns..self.to_ns).contains(&scheduled_ns)
    }
}

/// Shares in parts per billion and thresholds of an SLA, by ascending threshold.
pub(crate) fn limits(sla: &str) -> Vec<(u64, u64)> {
    sla.split(',')
        .map(|text: &str| {
            let (share, threshold) = text.split_once("%>").unwrap();
            let share_ppb = (share.parse::<f64>().unwrap() * 1e7).round() as u64;
            let threshold_ns = match threshold.strip_suffix("ms") {
                Some(ms) => ms.parse::<u64>().unwrap() * 1_000_000,
                None => threshold.strip_suffix('s').unwrap().parse::<u64>().unwrap() * SEC,
            };
            (share_ppb, threshold_ns)
        })
        .collect()
}

/// Limits of a stream: its own, or those of the draw.
fn limits_of(draw: &Draw, stream: usize) -> Vec<(u64, u64)> {
    match &draw.streams[stream].own {
        Some(own) => own.sla.as_deref().map(limits).unwrap_or_default(),
        None => limits(draw.sla),
    }
}

fn is_share(part: u64, whole: u64, share_ppb: u64) -> bool {
    whole > 0 && u128::from(part) * 1_000_000_000 >= u128::from(whole) * u128::from(share_ppb)
}

impl Ran<'_> {
    pub(crate) fn judge(&self) -> Found {
        let fates = self.fates();
        let mut found = Found {
            complaints: self.complaints(&fates),
            ends_on_border: self.stop_ns.is_multiple_of(self.draw.slice_sec * SEC),
            ..Found::default()
        };
        for stream in 0..self.draw.streams.len() {
            let of_stream: Vec<_> = fates
                .iter()
                .filter(|fate| fate.stream == stream)
                .copied()
                .collect();
            let count = |is: &dyn Fn(&Fate) -> bool| {
                of_stream.iter().filter(|fate| is(fate)).count() as u64
            };
            let is_done = |fate: &Fate| fate.back_ns.is_some() && !fate.failed;
            found.totals.push([
                count(&is_done),
                count(&|fate| fate.failed),
                count(&|fate| fate.issued_ns.is_none()),
                count(&|fate| fate.issued_ns.is_some() && fate.back_ns.is_none()),
                count(&|fate| is_done(fate) && fate.back_ns > Some(fate.end_ns)),
            ]);
            for device in 0..self.draw.drives.len() {
                let on_device: Vec<_> = of_stream
                    .iter()
                    .filter(|fate| fate.device == device)
                    .copied()
                    .collect();
                self.judge_load(stream, device, &on_device, &mut found);
                self.judge_silence(stream, device, &on_device, &mut found);
                self.judge_growth(stream, device, &on_device, &mut found);
                if self.draw.streams[stream].judged {
                    self.judge_shares(stream, Some(device), &on_device, &mut found);
                }
            }
            self.judge_rate(stream, &of_stream, &mut found);
            if self.draw.streams[stream].judged && self.draw.drives.len() > 1 {
                self.judge_shares(stream, None, &of_stream, &mut found);
            }
        }
        self.decide(&fates, &mut found);
        found
    }

    fn decide(&self, fates: &[Fate], found: &mut Found) {
        let total = |place: usize| found.totals.iter().map(|of| of[place]).sum::<u64>();
        let rule = |broken: &Broken| match broken.rule {
            GREW => "not-carried-out",
            SILENT_BETWEEN => "silence",
            rule => rule,
        };
        let broken: Vec<_> = found.broken.iter().map(rule).collect();
        let rules = [
            ("io-error", total(1) > 0),
            ("lost", total(3) > 0),
            ("device-gone", self.is_gone),
        ];
        found
            .codes
            .extend(rules.iter().filter(|(_, is)| *is).map(|(code, _)| *code));
        let is_broken = !found.codes.is_empty();
        found.codes.extend(broken);
        let judged = found
            .groups
            .iter()
            .flat_map(|group| &group.slices)
            .map(|(scheduled, _)| scheduled)
            .sum::<u64>();
        if judged == 0 {
            found.codes.insert("nothing-judged");
        }
        let is_failed = [
            "not-carried-out",
            "late",
            "silence",
            "below-rate",
            "over-limit",
        ]
        .iter()
        .any(|code| found.codes.contains(code));
        found.outcome = if is_broken {
            "fail"
        } else if judged == 0 {
            "invalid"
        } else if is_failed {
            "fail"
        } else if self.is_stopped {
            "invalid"
        } else if self.draw.sla == "100%>3600s"
            && self.draw.streams.iter().all(|it| it.own.is_none())
        {
            "measured"
        } else if self.is_too_short(fates) {
            "invalid"
        } else {
            "pass"
        };
        if found.outcome == "invalid" && !self.is_stopped && judged > 0 {
            found.codes.insert("too-short");
        }
        if self.is_stopped && !self.is_gone {
            found.codes.insert("stopped");
        }
    }

    fn fates(&self) -> Vec<Fate> {
        let mut by_name: BTreeMap<_, _> = self
            .log
            .ops
            .iter()
            .map(|op| ((op.lane, op.index), op))
            .collect();
        let mut fates = Vec::new();
        for (number, lane) in self.draw.lanes.iter().enumerate() {
            for (index, scheduled_ns) in lane.instants(self.stop_ns + 1).into_iter().enumerate() {
                let op = by_name.remove(&(number, index));
                // An operation issued at the instant of the end was due before the end.
                if scheduled_ns < self.stop_ns || op.is_some() {
                    fates.push(self.fate(number, lane.device(index), scheduled_ns, op));
                }
            }
        }
        // An operation of a closed loop is due when it is issued.
        for op in by_name.into_values().filter(|op| self.is_closed(op.lane)) {
            fates.push(self.fate(op.lane, op.device, op.issued_ns, Some(op)));
        }
        fates
    }

    fn fate(&self, lane: usize, device: usize, scheduled_ns: u64, op: Option<&Logged>) -> Fate {
        let LaneDraw {
            stream, until_ns, ..
        } = self.draw.lanes[lane];
        let slice = self.slice(scheduled_ns.min(self.stop_ns.saturating_sub(1)));
        let issued_ns = op.map(|op| op.issued_ns);
        let back_ns = op.and_then(|op| op.back_ns);
        let failed = op.is_some_and(|op| op.failed);
        let end_ns = until_ns.min(self.stop_ns);
        Fate {
            lane,
            stream,
            device,
            slice,
            scheduled_ns,
            issued_ns,
            back_ns,
            failed,
            end_ns,
        }
    }

    fn is_closed(&self, lane: usize) -> bool {
        matches!(self.draw.lanes[lane].arrivals, LaneArrivals::Closed { .. })
    }

    fn slice(&self, at_ns: u64) -> usize {
        (at_ns / (self.draw.slice_sec * SEC)) as usize
    }

    fn end_of(&self, slice: usize) -> u64 {
        (slice as u64 + 1) * self.draw.slice_sec * SEC
    }

    fn stretches(&self, fates: &[Fate]) -> Vec<Stretch> {
        let complete = self.slice(self.stop_ns);
        let rest = fates.iter().filter(|fate| fate.slice == complete).count() as u64;
        let stretch = |first, last, is_cut| Stretch {
            first,
            last,
            is_cut,
        };
        let mut stretches: Vec<_> = (0..complete)
            .map(|slice| stretch(slice, slice, false))
            .collect();
        match rest {
            _ if self.stop_ns == self.end_of(complete) - self.draw.slice_sec * SEC => {}
            _ if self.is_stopped => stretches.push(stretch(complete, complete, true)),
            _ if complete == 0 => stretches.push(stretch(0, 0, false)),
            _ => {
                stretches.push(stretch(complete - 1, complete, false));
                if rest >= ALONE_MIN {
                    stretches.push(stretch(complete, complete, false));
                }
            }
        }
        stretches
    }

    fn betweens(&self) -> Vec<Between> {
        let half_ns = self.draw.slice_sec * SEC / 2;
        let windows = (0..).map(|slice| Between {
            from_ns: (2 * slice + 1) * half_ns,
            to_ns: (2 * slice + 3) * half_ns,
        });
        let has_halves = (self.draw.slice_sec / self.draw.interval_sec).is_multiple_of(2);
        windows
            .take_while(|window| has_halves && window.to_ns <= self.stop_ns)
            .collect()
    }

    /// Rules 1 to 3.
    fn judge_load(&self, stream: usize, device: usize, fates: &[Fate], found: &mut Found) {
        let lost = fates
            .iter()
            .filter(|fate| fate.issued_ns.is_some() && fate.back_ns.is_none())
            .count() as u64;
        if lost > 0 {
            *found.lost.entry(device).or_default() += lost;
        }
        let drawn = &self.draw.streams[stream];
        for Stretch {
            first,
            last,
            is_cut,
        } in self.stretches(fates)
        {
            let of: Vec<_> = fates
                .iter()
                .filter(|fate| (first..=last).contains(&fate.slice))
                .collect();
            let scheduled = of.len() as u64;
            let mut breaks = |rule, count, scheduled| {
                found.broken.insert(Broken {
                    rule,
                    stream,
                    device,
                    slice: first,
                    count,
                    scheduled,
                });
            };
            if is_cut {
                continue;
            }
            let missing = of
                .iter()
                .filter(|fate: &&&Fate| {
                    let deadline_ns = self.end_of(fate.slice).min(fate.end_ns) + SEC;
                    // A failed operation fails the run anyway, whenever it came back.
                    !fate.failed && fate.back_ns.is_none_or(|back_ns| back_ns > deadline_ns)
                })
                .count() as u64;
            if drawn.per_sec > 0 && missing > 1 && missing * 1_000 > scheduled {
                breaks("not-carried-out", missing, scheduled);
            }
            if let Some(late_ns) = drawn.late_ns {
                let late = of
                    .iter()
                    .filter(|fate: &&&Fate| {
                        fate.back_ns.is_some() && !fate.failed && fate.took_ns() > late_ns
                    })
                    .count() as u64;
                if late * 1_000 > scheduled {
                    breaks("late", late, scheduled);
                }
            }
        }
    }

    /// Rule 4.
    fn judge_silence(&self, stream: usize, device: usize, fates: &[Fate], found: &mut Found) {
        let drawn = &self.draw.streams[stream];
        let loosest = limits_of(self.draw, stream).last().copied();
        let Some((share_ppb, _)) = loosest.filter(|_| drawn.judged && drawn.per_sec == 0) else {
            return;
        };
        let silences = self.silences(stream, device);
        let slice_ns = self.draw.slice_sec * SEC;
        let stretches = self
            .stretches(fates)
            .into_iter()
            .filter(|stretch| !stretch.is_cut);
        let of_stretch = |Stretch { first, last, .. }: Stretch| {
            (
                self.end_of(first) - slice_ns,
                self.end_of(last).min(self.stop_ns),
                "silence",
            )
        };
        let of_between = |Between { from_ns, to_ns }: Between| (from_ns, to_ns, SILENT_BETWEEN);
        for (from_ns, to_ns, rule) in stretches
            .map(of_stretch)
            .chain(self.betweens().into_iter().map(of_between))
        {
            let inside =
                |(begin, end): &(u64, u64)| (*end).min(to_ns).saturating_sub((*begin).max(from_ns));
            let silent_ns = silences.iter().map(inside).sum::<u64>();
            let limits_of = |is_own: bool| {
                let lanes = self.draw.lanes.iter().filter(|lane: &&LaneDraw| {
                    (lane.stream == stream && lane.devices.contains(&device)) == is_own
                });
                lanes.map(|lane| lane.limit).collect::<Vec<_>>()
            };
            if silent_ns > 0
                && limits_of(false)
                    .iter()
                    .any(|limit| limits_of(true).contains(limit))
            {
                // The stream may have waited for the slots of another stream or device for a whole report interval.
                // Such an interval does not count as time of the stream.
                found.open.insert("silence");
            } else if is_share(silent_ns, to_ns - from_ns, share_ppb) {
                let slice = (from_ns / slice_ns) as usize;
                let scheduled = to_ns - from_ns;
                found.broken.insert(Broken {
                    rule,
                    stream,
                    device,
                    slice,
                    count: silent_ns,
                    scheduled,
                });
            }
        }
    }

    /// Operations due before `at_ns` and not completed before it: the run loop reads the clock before it takes completions.
    fn backlog(fates: &[Fate], at_ns: u64) -> u64 {
        let is_due = |fate: &&Fate| fate.scheduled_ns < at_ns && fate.scheduled_ns < fate.end_ns;
        let is_open = |fate: &&Fate| fate.back_ns.is_none_or(|back_ns| back_ns >= at_ns);
        fates.iter().filter(is_due).filter(is_open).count() as u64
    }

    /// Rule 2 for the backlog of a stream on a device.
    fn judge_growth(&self, stream: usize, device: usize, fates: &[Fate], found: &mut Found) {
        let draw = self.draw;
        let arrivals = draw.arrivals_of(stream);
        let interval_ns = draw.interval_sec * SEC;
        let count = draw.slice_sec / draw.interval_sec;
        if draw.streams[stream].per_sec == 0
            || arrivals == Arrivals::Given
            || draw.slice_sec >= 1_000
            || count < 4
        {
            return;
        }
        for slice in 0..self.slice(self.stop_ns) {
            let begin_ns = self.end_of(slice) - draw.slice_sec * SEC;
            let ends: Vec<_> = (0..=count).map(|k| begin_ns + k * interval_ns).collect();
            let backlogs: Vec<_> = ends
                .iter()
                .map(|at_ns| Self::backlog(fates, *at_ns))
                .collect();
            let is_active = |k: usize| {
                backlogs[k] > 0
                    || fates.iter().any(|fate: &Fate| {
                        fate.back_ns
                            .is_some_and(|ns| ns > ends[k - 1] && ns <= ends[k])
                    })
            };
            if !(1..=count as usize).all(is_active) {
                continue;
            }
            let of = |is: &dyn Fn(u64) -> bool| {
                (0..=count)
                    .filter(|k| is(*k))
                    .map(|k| backlogs[k as usize])
                    .collect::<Vec<_>>()
            };
            let early = of(&|k| 2 * k <= count).into_iter().max().unwrap();
            let late = of(&|k| 4 * k > 3 * count).into_iter().min().unwrap();
            let scheduled = fates.iter().filter(|fate| fate.slice == slice).count() as u64;
            let by_chance = if arrivals == Arrivals::Even {
                0.0
            } else {
                3.0 * (scheduled as f64).sqrt()
            };
            if late as f64 - early as f64 > f64::max(1.0, scheduled as f64 / 1_000.0) + by_chance {
                found.broken.insert(Broken {
                    rule: GREW,
                    stream,
                    device,
                    slice,
                    count: late - early,
                    scheduled,
                });
            }
        }
    }

    /// True if a run that would pass ends with too large a backlog, and is too short to show whether the backlog grows.
    fn is_too_short(&self, fates: &[Fate]) -> bool {
        let draw = self.draw;
        let pairs = || {
            (0..draw.streams.len())
                .flat_map(|stream| (0..draw.drives.len()).map(move |device| (stream, device)))
        };
        draw.slice_sec / draw.interval_sec < 4
            && pairs().any(|(stream, device): (usize, usize)| {
                let of: Vec<_> = fates
                    .iter()
                    .filter(|fate| (fate.stream, fate.device) == (stream, device))
                    .copied()
                    .collect();
                let backlog = Self::backlog(&of, self.stop_ns);
                draw.streams[stream].per_sec > 0 && backlog > 1 && backlog * 1_000 > of.len() as u64
            })
    }

    /// Rule 5.
    fn judge_rate(&self, stream: usize, fates: &[Fate], found: &mut Found) {
        let Some(least) = self.draw.streams[stream]
            .own
            .as_ref()
            .and_then(|own| own.least_iops)
        else {
            return;
        };
        for Stretch { first, last, .. } in self
            .stretches(fates)
            .into_iter()
            .filter(|stretch| !stretch.is_cut)
        {
            let is_done = |fate: &&Fate| {
                (first..=last).contains(&fate.slice) && fate.back_ns.is_some() && !fate.failed
            };
            let is_first_of_closed = first == 0 && self.draw.streams[stream].per_sec == 0;
            let ahead = if is_first_of_closed {
                fates
                    .iter()
                    .filter(|fate: &&Fate| {
                        // In its first slice, a closed loop has one operation too many for each operation that completes after the
                        // end of the stream.
                        !fate.failed && fate.back_ns.is_some_and(|back_ns| back_ns > fate.end_ns)
                    })
                    .count()
            } else {
                0
            };
            let done = fates.iter().filter(is_done).count()
                - ahead.min(fates.iter().filter(is_done).count());
            let from_ns = self.end_of(first) - self.draw.slice_sec * SEC;
            if (done as f64 * 1e9 / (self.end_of(last).min(self.stop_ns) - from_ns) as f64) < least
            {
                let broken = Broken {
                    rule: "below-rate",
                    stream,
                    device: 0,
                    slice: first,
                    count: done as u64,
                    scheduled: 0,
                };
                found.broken.insert(broken);
            }
        }
    }

    fn judge_shares(
        &self,
        stream: usize,
        device: Option<usize>,
        fates: &[Fate],
        found: &mut Found,
    ) {
        let limits = limits(self.draw.sla);
        let own = limits_of(self.draw, stream);
        let count = |first, last| -> (u64, Vec<u64>) {
            let of: Vec<_> = fates
                .iter()
                .filter(|fate| (first..=last).contains(&fate.slice))
                .collect();
            (
                of.len() as u64,
                limits
                    .iter()
                    .map(|(_, threshold_ns): &(u64, u64)| {
                        of.iter().filter(|fate| fate.is_over(*threshold_ns)).count() as u64
                    })
                    .collect(),
            )
        };
        for Stretch {
            first,
            last,
            is_cut,
        } in self.stretches(fates)
        {
            let (scheduled, over) = count(first, last);
            // Failed operations have no latency, so latency limits do not count them.
            let failed = fates
                .iter()
                .filter(|fate| (first..=last).contains(&fate.slice) && fate.failed)
                .count() as u64;
            let exceeded = |scheduled: u64| {
                let over = |threshold_ns: u64| {
                    limits
                        .iter()
                        .zip(&over)
                        .find(|((_, known_ns), _)| *known_ns == threshold_ns)
                        .map_or(0, |(_, over)| *over - failed)
                };
                own.iter().any(|(share_ppb, threshold_ns)| {
                    is_share(over(*threshold_ns), scheduled, *share_ppb)
                })
            };
            if !is_cut && exceeded(scheduled) {
                found.codes.insert("over-limit");
            }
            // The rest of a cut slice could have been fast. The number of operations of the whole slice is an estimate.
            let per_sec = self.draw.streams[stream].per_sec;
            if is_cut && per_sec > 0 {
                let whole = scheduled + per_sec * (self.draw.slice_sec + 1) + 2;
                match (exceeded(whole), exceeded(scheduled)) {
                    (true, _) => drop(found.codes.insert("over-limit")),
                    (false, true) => drop(found.open.insert("over-limit")),
                    (false, false) => {}
                }
            }
        }
        let complete: Vec<u64> = (0..self.slice(self.stop_ns))
            .map(|slice| count(slice, slice).0)
            .collect();
        for window in self.betweens() {
            let of: Vec<_> = fates
                .iter()
                .filter(|fate| window.includes(fate.scheduled_ns))
                .collect();
            let scheduled = of.len() as u64;
            let is_enough = scheduled >= ALONE_MIN
                && scheduled * 10 * complete.len() as u64 >= 9 * complete.iter().sum::<u64>();
            let over = |threshold_ns: u64| {
                of.iter().filter(|fate| fate.is_over(threshold_ns)).count() as u64
            };
            if is_enough
                && own.iter().any(|(share_ppb, threshold_ns)| {
                    is_share(over(*threshold_ns), scheduled, *share_ppb)
                })
            {
                found.codes.insert("over-limit");
            }
        }
        let slices = (0..=self.slice(self.stop_ns.saturating_sub(1)))
            .map(|slice| count(slice, slice))
            .collect();
        found.groups.push(Group {
            stream,
            device,
            slices,
        });
    }

    /// Times in which a stream had operations in flight on a device, and the device completed no operation of any
    /// stream for longer than the loosest limit.
    fn silences(&self, stream: usize, device: usize) -> Vec<(u64, u64)> {
        let (_, longest_ns) = *limits(self.draw.sla).last().unwrap();
        let mut events: Vec<(u64, bool, bool)> = Vec::new();
        for op in self.log.ops.iter().filter(|op| op.device == device) {
            let is_own = self.draw.lanes[op.lane].stream == stream;
            events.push((op.issued_ns, false, is_own));
            events.extend(op.back_ns.map(|back_ns| (back_ns, true, is_own)));
        }
        // At the same instant, completions come before issues.
        events.sort_unstable_by_key(|(at_ns, is_back, _)| (*at_ns, !is_back));
        let mut out = 0_i64;
        let mut since_ns = 0;
        let mut silences = Vec::new();
        for (at_ns, is_back, is_own) in events {
            if is_back && out > 0 {
                silences.push((since_ns, at_ns));
            }
            if is_back || out == 0 {
                since_ns = at_ns;
            }
            out = if !is_own {
                out
            } else if is_back {
                out - 1
            } else {
                out + 1
            };
        }
        if out > 0 {
            silences.push((since_ns, self.log.ended_ns.max(since_ns)));
        }
        silences.retain(|(begin_ns, end_ns)| end_ns - begin_ns > longest_ns);
        silences
    }

    /// Forbidden behaviour of the run loop: issuing operations that are not due, too early or too late; leaving an
    /// operation waiting although a slot is free; ending the drain too early.
    fn complaints(&self, fates: &[Fate]) -> Vec<String> {
        let mut complaints = Vec::new();
        let open = self
            .log
            .ops
            .iter()
            .filter(|op| !self.is_closed(op.lane))
            .count();
        if fates
            .iter()
            .filter(|fate| fate.issued_ns.is_some() && !self.is_closed(fate.lane))
            .count()
            != open
        {
            complaints.push("an operation was issued that was not wanted".to_owned());
        }
        // After a drive disconnected, waiting operations are not issued, not even after the end of their stream.
        let goes_away = self
            .draw
            .drives
            .iter()
            .any(|drive| matches!(drive, Drive::Queue(spec) if spec.contains("gone-at-s")));
        for fate in fates {
            let last_ns = fate.end_ns + SEC;
            if fate
                .issued_ns
                .is_some_and(|issued_ns| issued_ns < fate.scheduled_ns || issued_ns > last_ns)
            {
                complaints.push(format!("{fate:?} was issued at the wrong time"));
            }
            if fate.issued_ns.is_none() && !goes_away && self.draw.away_ns.is_empty() {
                let limit = self.draw.lanes[fate.lane].limit;
                let under_limit = self
                    .log
                    .ops
                    .iter()
                    .filter(|op| self.draw.lanes[op.lane].limit == limit);
                let is_out = |op: &&Logged| {
                    op.issued_ns <= last_ns && op.back_ns.is_none_or(|back_ns| back_ns >= last_ns)
                };
                if (under_limit.filter(is_out).count() as u64) < self.draw.limits[limit].into() {
                    complaints.push(format!("{fate:?} was not issued although a slot was free"));
                }
            }
            if fate.issued_ns.is_some() && fate.back_ns.is_none() {
                let of_device = || self.log.ops.iter().filter(|op| op.device == fate.device);
                let heard_ns = of_device()
                    .filter_map(|op| op.back_ns)
                    .max()
                    .max(fate.issued_ns)
                    .unwrap_or(0);
                if self.log.ended_ns < heard_ns.min(self.log.ended_ns) + self.draw.hang_sec * SEC {
                    // An operation issued while others are in flight does not restart the wait of `hang_sec`.
                    let first_ns = of_device()
                        .filter(|op| op.back_ns.is_none())
                        .map(|op| op.issued_ns)
                        .min();
                    let since_ns = of_device()
                        .filter_map(|op| op.back_ns)
                        .max()
                        .max(first_ns)
                        .unwrap_or(0);
                    if self.log.ended_ns < since_ns + self.draw.hang_sec * SEC {
                        complaints.push(format!("{fate:?} was given up at {}", self.log.ended_ns));
                    }
                }
            }
            if complaints.len() > 3 {
                break;
            }
        }
        complaints
    }
}
