//! Finds slow drives of a population and their common causes: see the [module](super).

use super::outliers::{self, Centers, Outlier, SCORES, Scores, VALUES_MIN, lower_median};
use super::{
    ComparedDrives, Examination, FACTOR_MIN, FALSE_ALARMS, Labels, LatencyMetric, LatencyWindow,
    PopulationLevel, ScoreExtent, SlowEvidence, SlowGroup, Undecided, UndecidedReason,
};
use std::collections::BTreeMap;

/// Maximum probability of a false alarm per drive; this limit binds in populations below 20 drives.
const FALSE_ALARMS_PER_DRIVE: f64 = 0.0005;

/// Share of the allowed false-alarm probability that the drives get; firmwares, hosts and slots share the rest equally.
const FOR_DRIVES: f64 = 0.5;

/// Drives with fewer windows than this fraction of the typical number are undecided: their scores spread too much.
const WINDOWS_MIN: f64 = 0.4;

/// Share of slow drives in a group above which the slowness is common to the group.
const COMMON: f64 = 0.75;

/// A model is undecided if only slowdowns above this factor can be detected.
const FACTOR_WANTED: f64 = 2.0;

/// Slowness is lasting if at least this fraction of the drive's slow windows lies in the final period of its run.
const LASTING: f64 = 0.8;

/// Examines the first `judged` drives, model by model. The drives after them, of other campaigns, are only peers.
/// `windows` has the windows of each drive, in the order of `drives`.
pub fn examine(drives: &[Labels], windows: &[&[LatencyWindow]], judged: usize) -> Examination {
    let mut models: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (at, labels) in drives.iter().enumerate() {
        models.entry(&labels.model).or_default().push(at);
    }
    models.retain(|_, members| members[0] < judged);
    let mut examination = Examination {
        factors: vec![None; drives.len()],
        ..Examination::default()
    };
    for (name, members) in models {
        if members.len() < VALUES_MIN {
            let reason = UndecidedReason::FewDrives {
                drives: members.len(),
            };
            examination.undecided.push(Undecided {
                model: name.to_owned(),
                of: None,
                reason,
            });
            continue;
        }
        let centers = Centers::from_drives(members.iter().map(|at| windows[*at]));
        let members = members
            .into_iter()
            .map(|drive: usize| {
                let scores = Scores::from_residuals(&centers.residuals(windows[drive]));
                Member {
                    drive,
                    labels: &drives[drive],
                    windows: windows[drive],
                    scores,
                    shift: [0.0; SCORES],
                    weight: [1.0; ScoreExtent::ALL.len()],
                }
            })
            .collect();
        let mut model = ModelExamination {
            name,
            centers,
            members,
            examination: &mut examination,
        };
        model.exclude_undecided();
        if model.members.len() < VALUES_MIN {
            model.undecided(
                None,
                UndecidedReason::FewDrives {
                    drives: model.members.len(),
                },
            );
            continue;
        }
        model.factors();
        model.campaigns(judged);
        model.firmwares();
        model.groups(PopulationLevel::Host);
        model.groups(PopulationLevel::Slot);
        model.drives();
    }
    examination.keep_judged(judged, drives);
    examination
}

impl Examination {
    /// Removes the findings about drives that are only peers.
    fn keep_judged(&mut self, judged: usize, drives: &[Labels]) {
        self.factors.truncate(judged);
        for slow in &mut self.slow {
            slow.drives.retain(|drive| *drive < judged);
        }
        self.slow.retain(|slow| !slow.drives.is_empty());
        self.undecided.retain(|Undecided { model, of, .. }| {
            let mut judged = drives[..judged].iter().filter(|of| of.model == *model);
            of.as_ref()
                .is_none_or(|(level, name)| judged.any(|of| level.label_in(of) == name))
        });
    }
}

struct ModelExamination<'a> {
    name: &'a str,
    centers: Centers,
    members: Vec<Member<'a>>,
    examination: &'a mut Examination,
}

struct Member<'a> {
    /// Index in the population.
    drive: usize,
    labels: &'a Labels,
    windows: &'a [LatencyWindow],
    scores: Scores,
    /// For each score: slowness that groups of the drive explain. It is subtracted from the score.
    shift: [f64; SCORES],
    /// For each extent, a factor on the drive's distance from the median. Below 1 if the level of the drive's campaign
    /// is estimated from few drives.
    weight: [f64; ScoreExtent::ALL.len()],
}

/// Two labels and the members that have them.
type PeerGroup = ((String, String), Vec<usize>);

struct Best {
    score: usize,
    outlier: Outlier,
}

/// Replaces `best` if the candidate has a smaller p-value, unless its slowdown is too small to be reported.
fn keep_smaller_p(best: &mut Option<Best>, score: usize, candidate: Outlier) {
    if candidate.excess >= FACTOR_MIN.ln()
        && best
            .as_ref()
            .is_none_or(|best| candidate.p < best.outlier.p)
    {
        *best = Some(Best {
            score,
            outlier: candidate,
        });
    }
}

impl ModelExamination<'_> {
    /// Excludes drives with too few windows, relative to the median number of windows.
    fn exclude_undecided(&mut self) {
        let typical = lower_median(
            self.members
                .iter()
                .map(|member| member.scores.windows as f64),
        );
        let excluded: Vec<_> = self
            .members
            .extract_if(.., |Member { scores, .. }: &mut Member<'_>| {
                (scores.windows as f64) < WINDOWS_MIN * typical || scores.scores[0].is_nan()
            })
            .collect();
        for Member { labels, scores, .. } in excluded.into_iter().rev() {
            let Scores {
                windows,
                without_peers: alone,
                invalid,
                ..
            } = scores;
            let reason = UndecidedReason::FewWindows {
                windows,
                typical: typical as usize,
                alone,
                invalid,
            };
            self.undecided(Some((PopulationLevel::Drive, labels.drive.clone())), reason);
        }
    }

    fn undecided(&mut self, subject: Option<(PopulationLevel, String)>, reason: UndecidedReason) {
        self.examination.undecided.push(Undecided {
            model: self.name.to_owned(),
            of: subject,
            reason,
        });
    }

    /// Records the slowness of each drive over the whole run.
    fn factors(&mut self) {
        for member in &self.members {
            self.examination.factors[member.drive] = Some(member.scores.scores[0].exp());
        }
    }

    /// Allowed probability of a false alarm in one score, among all drives or among all groups of a level.
    fn alpha(&self, level: PopulationLevel) -> f64 {
        let share = if level == PopulationLevel::Drive {
            FOR_DRIVES
        } else {
            (1.0 - FOR_DRIVES) / 3.0
        };
        FALSE_ALARMS.min(FALSE_ALARMS_PER_DRIVE * self.members.len() as f64) * share / SCORES as f64
    }

    /// A score of a member, without the slowness that groups explain.
    fn value(&self, member: usize, score: usize) -> f64 {
        self.members[member].scores.scores[score] - self.members[member].shift[score]
    }

    fn median(&self, members: &[usize], score: usize) -> f64 {
        lower_median(members.iter().map(|member| self.value(*member, score)))
    }

    fn is_common(&self, members: &[usize], score: usize, excess: f64) -> bool {
        let middle = self.median(members, score) - excess / 2.0;
        let slow = members
            .iter()
            .filter(|member| self.value(**member, score) > middle)
            .count();
        excess >= FACTOR_MIN.ln() && slow as f64 > COMMON * members.len() as f64
    }

    fn by_label(&self, label: impl Fn(&Labels) -> (&str, &str)) -> Vec<PeerGroup> {
        let mut groups: BTreeMap<(&str, &str), Vec<usize>> = BTreeMap::new();
        for (index, member) in self.members.iter().enumerate() {
            groups.entry(label(member.labels)).or_default().push(index);
        }
        groups
            .into_iter()
            .map(|((a, b), members)| ((a.to_owned(), b.to_owned()), members))
            .collect()
    }

    /// Subtracts from the scores how much slower the drive's campaign is than its peers, the drives of other campaigns.
    fn campaigns(&mut self, judged: usize) {
        let is_peer = |member: &usize| self.members[*member].drive >= judged;
        let peers: Vec<usize> = (0..self.members.len()).filter(is_peer).collect();
        if peers.is_empty() {
            return;
        }
        let usual: [f64; SCORES] = std::array::from_fn(|score| self.median(&peers, score));
        for ((name, _), members) in self.by_label(|labels| (&labels.campaign, "")) {
            let is_judged = !peers.contains(&members[0]);
            let mut shift: [f64; SCORES] =
                std::array::from_fn(|score| self.median(&members, score) - usual[score]);
            let size = members.len() as f64;
            let mut weight = [1.0; ScoreExtent::ALL.len()];
            if is_judged {
                weight = [(1.0 - 1.0 / size.max(2.0)).sqrt(); ScoreExtent::ALL.len()];
                let part = |member: &&usize| (self.value(**member, 0) - usual[0]) / shift[0];
                let common = members.iter().filter(|member| part(member) > 0.5).count();
                if shift[0].abs() >= FACTOR_MIN.ln() && common as f64 > COMMON * size {
                    let factor = shift[0].exp();
                    let peers = peers.len();
                    let reason = UndecidedReason::OtherCampaign { factor, peers };
                    self.undecided(Some((PopulationLevel::Campaign, name)), reason);
                } else {
                    weight[ScoreExtent::Whole as usize] = 1.0;
                }
                // Nothing is subtracted for a fast campaign: a drive must also be slow among all peers.
                shift = shift.map(|shift| shift.max(0.0));
            } else if members.len() < VALUES_MIN {
                continue;
            }
            for member in members {
                self.members[member].shift = shift;
                self.members[member].weight = weight;
            }
        }
    }

    /// Examines firmwares: compares the medians of the hosts that have the firmware with those of all other hosts.
    fn firmwares(&mut self) {
        let mut firmwares = self.by_label(|labels| (&labels.firmware, ""));
        firmwares.retain(|((name, _), _)| !name.is_empty());
        let firmware_count = firmwares.len();
        if firmware_count < 2 {
            return;
        }
        // A drive with an unknown host counts as a separate host.
        let hosts = self.by_label(|labels| {
            (
                &labels.firmware,
                if labels.host.is_empty() {
                    &labels.drive
                } else {
                    &labels.host
                },
            )
        });
        let mut slow = Vec::new();
        // A firmware with a single drive is examined as a drive.
        for ((name, _), members) in firmwares
            .into_iter()
            .filter(|(_, members)| members.len() > 1)
        {
            let mut best = None;
            let mut few_groups = None;
            for score in 0..SCORES {
                let mut own_medians = Vec::new();
                let mut other_medians = Vec::new();
                for ((firmware, _), members) in &hosts {
                    let median = self.median(members, score);
                    if firmware.is_empty() || !median.is_finite() {
                        continue;
                    }
                    if *firmware == name {
                        own_medians.push(median);
                    } else {
                        other_medians.push(median);
                    }
                }
                if own_medians.is_empty() || other_medians.is_empty() {
                    continue;
                }
                let excess = lower_median(own_medians.iter().copied())
                    - lower_median(other_medians.iter().copied());
                if excess < FACTOR_MIN.ln() {
                    continue;
                }
                let p =
                    outliers::difference_p(&own_medians, &other_medians) * firmware_count as f64;
                if p <= self.alpha(PopulationLevel::Firmware) {
                    keep_smaller_p(
                        &mut best,
                        score,
                        Outlier {
                            index: 0,
                            excess,
                            p,
                            peers: other_medians.len(),
                        },
                    );
                } else if score == 0
                    && self.is_common(&members, score, excess)
                    && own_medians
                        .iter()
                        .all(|own| other_medians.iter().all(|other| own > other))
                {
                    few_groups = Some(UndecidedReason::FewGroups {
                        factor: excess.exp(),
                        groups: own_medians.len() + other_medians.len(),
                    });
                }
            }
            match (best, few_groups) {
                (Some(best), _) if self.is_common(&members, best.score, best.outlier.excess) => {
                    slow.push((name, members, best))
                }
                (_, Some(few)) => self.undecided(Some((PopulationLevel::Firmware, name)), few),
                _ => {}
            }
        }
        self.blame(PopulationLevel::Firmware, slow);
    }

    /// Examines hosts or slots: compares their medians with each other.
    fn groups(&mut self, level: PopulationLevel) {
        let mut groups = self.by_label(|labels| (level.label_in(labels), ""));
        // A host with a single drive is examined as a drive, because the two cannot be distinguished.
        groups.retain(|((name, _), members)| !name.is_empty() && members.len() > 1);
        let mut best: Vec<Option<Best>> = groups.iter().map(|_| None).collect();
        let mut separate = None;
        for score in 0..SCORES {
            let medians: Vec<f64> = groups
                .iter()
                .map(|(_, members)| self.median(members, score))
                .collect();
            if medians.iter().any(|median| median.is_nan()) {
                continue;
            }
            if score == 0 {
                separate = self.slowest_if_separate(&groups, &medians);
            }
            for outlier in outliers::above(&medians, self.alpha(level)) {
                keep_smaller_p(&mut best[outlier.index], score, outlier);
            }
        }
        if let (Some((at, reason)), true) = (separate, best.iter().all(Option::is_none)) {
            self.undecided(Some((level, groups[at].0.0.clone())), reason);
        }
        let slow = groups.into_iter().zip(best);
        let slow = slow.filter_map(|(((name, _), members), best)| Some((name, members, best?)));
        // A group is blamed only if more than 75 % of its members are slow, by its most significant score.
        let slow = slow
            .filter(|(_, members, best)| self.is_common(members, best.score, best.outlier.excess))
            .collect();
        self.blame(level, slow);
    }

    /// The slowest group, if a gap separates the group from the next slowest group.
    fn slowest_if_separate(
        &self,
        groups: &[PeerGroup],
        medians: &[f64],
    ) -> Option<(usize, UndecidedReason)> {
        let mut order: Vec<usize> = (0..groups.len()).collect();
        order.sort_by(|a, b| medians[*b].total_cmp(&medians[*a]));
        let slowest = *order.first()?;
        let next = *order.get(1)?;
        let gap = medians[slowest] - medians[next];
        let reason = UndecidedReason::FewGroups {
            factor: gap.exp(),
            groups: groups.len(),
        };
        self.is_common(&groups[slowest].1, 0, gap)
            .then_some((slowest, reason))
    }

    fn drives(&mut self) {
        let mut best: Vec<Option<Best>> = self.members.iter().map(|_| None).collect();
        let mut detectable = f64::INFINITY;
        for score in 0..SCORES {
            let known_members =
                (0..self.members.len()).filter(|member| self.value(*member, score).is_finite());
            let known_members: Vec<usize> = known_members.collect();
            if known_members.is_empty() {
                continue;
            }
            let center = self.median(&known_members, score);
            let extent = score % ScoreExtent::ALL.len();
            let weight = |member: usize| self.members[member].weight[extent];
            let values = known_members.iter();
            let values = values.map(|member| (*member, self.value(*member, score)));
            let values = values.map(|(of, value)| value - (1.0 - weight(of)) * (value - center));
            let values: Vec<f64> = values.collect();
            let outliers = outliers::above(&values, self.alpha(PopulationLevel::Drive));
            if extent == ScoreExtent::Whole as usize {
                let is_slow = |at: &usize| outliers.iter().any(|outlier| outlier.index == *at);
                let rest: Vec<f64> = (0..values.len())
                    .filter(|at| !is_slow(at))
                    .map(|at| values[at])
                    .collect();
                let threshold = outliers::threshold(&rest, self.alpha(PopulationLevel::Drive));
                detectable = detectable.min((threshold / weight(0)).exp());
            }
            for mut outlier in outliers {
                outlier.excess /= weight(known_members[outlier.index]);
                keep_smaller_p(&mut best[known_members[outlier.index]], score, outlier);
            }
        }
        let model = self.name.to_owned();
        let drives = self.members.len();
        let detectable = detectable.max(FACTOR_MIN);
        self.examination.compared.push(ComparedDrives {
            model,
            drives,
            detectable,
        });
        if detectable > FACTOR_WANTED {
            self.undecided(
                None,
                UndecidedReason::Insensitive {
                    factor: detectable,
                    drives,
                },
            );
        }
        let slow = self.members.iter().zip(best).enumerate();
        let slow = slow.filter_map(|(index, (member, best))| {
            Some((member.labels.drive.clone(), vec![index], best?))
        });
        let slow = slow.collect();
        self.blame(PopulationLevel::Drive, slow);
    }

    /// Reports the slow groups of a level, and subtracts their slowness from the scores of their members.
    fn blame(&mut self, level: PopulationLevel, mut slow: Vec<(String, Vec<usize>, Best)>) {
        slow.sort_by(|a, b| a.2.outlier.p.total_cmp(&b.2.outlier.p));
        let blamed_members: Vec<usize> = slow
            .iter()
            .flat_map(|slow| slow.1.iter().copied())
            .collect();
        let normal = self.members_except(&blamed_members);
        for (name, members, best) in slow {
            // If all drives are blamed (two firmwares, by different scores), a group's peers are all drives outside it.
            let rest = if normal.is_empty() {
                self.members_except(&members)
            } else {
                normal.clone()
            };
            let evidence = self.evidence(&members, &rest, &best);
            let or = self.other_causes(level, &members);
            let drives = members
                .iter()
                .map(|member| self.members[*member].drive)
                .collect();
            self.examination.slow.push(SlowGroup {
                model: self.name.to_owned(),
                level,
                name,
                drives,
                or,
                evidence,
            });
            let shift: [f64; SCORES] = std::array::from_fn(|score| {
                self.median(&members, score) - self.median(&rest, score)
            });
            for member in members {
                for (shifted, shift) in self.members[member].shift.iter_mut().zip(shift) {
                    *shifted += shift;
                }
            }
        }
    }

    fn members_except(&self, excluded: &[usize]) -> Vec<usize> {
        (0..self.members.len())
            .filter(|member| !excluded.contains(member))
            .collect()
    }

    /// Labels of other levels that exactly these members have. For a single drive, only labels of a level whose labels
    /// are usually shared: if every drive has a slot of its own, the slot explains nothing.
    fn other_causes(
        &self,
        level: PopulationLevel,
        members: &[usize],
    ) -> Vec<(PopulationLevel, String)> {
        let label =
            |level: PopulationLevel, member: usize| level.label_in(self.members[member].labels);
        let causes = [
            PopulationLevel::Firmware,
            PopulationLevel::Host,
            PopulationLevel::Slot,
            PopulationLevel::Drive,
        ]
        .into_iter()
        .filter(|other: &PopulationLevel| {
            let name = label(*other, members[0]);
            let having = (0..self.members.len()).filter(|member| label(*other, *member) == name);
            *other != level
                && !name.is_empty()
                && having.eq(members.iter().copied())
                && (members.len() > 1 || self.is_shared(*other))
        });
        causes
            .map(|cause| (cause, label(cause, members[0]).to_owned()))
            .collect()
    }

    /// True if, on average, at least two drives share a label of this level.
    fn is_shared(&self, level: PopulationLevel) -> bool {
        let groups = self.by_label(|labels| (level.label_in(labels), ""));
        2 * groups.len() <= self.members.len()
    }

    /// Evidence for the slowness of `members`, relative to `rest`. For several members, the medians of their values.
    fn evidence(&self, members: &[usize], rest: &[usize], best: &Best) -> SlowEvidence {
        let metric = best.score / ScoreExtent::ALL.len();
        // Index of the metric's score over the whole run.
        let whole_run_score = metric * ScoreExtent::ALL.len();
        let shift_of = |member: &Member<'_>| member.shift[whole_run_score];
        let peers = || rest.iter().map(|member| &self.members[*member]);
        let low = lower_median(peers().map(|peer| peer.scores.band[metric][0] - shift_of(peer)));
        let high = lower_median(peers().map(|peer| peer.scores.band[metric][1] - shift_of(peer)));
        let halfway = self.median(rest, whole_run_score) + best.outlier.excess / 2.0;
        let mut outside_shares = Vec::new();
        let mut since_times = Vec::new();
        let mut lasting = 0;
        for member in members.iter().map(|member| &self.members[*member]) {
            let explained_shift = shift_of(member);
            let mut windows = self.centers.residuals(member.windows).windows;
            windows.sort_by(|a, b| a.0.total_cmp(&b.0));
            let values: Vec<f64> = windows
                .iter()
                .map(|window| window.1[metric] - explained_shift)
                .collect();
            let windows_above = values.iter().filter(|value| **value > high).count();
            outside_shares.push(windows_above as f64 / windows.len() as f64);
            // The final period of the run with the largest surplus of slow windows over normal windows.
            let slow: Vec<bool> = values.iter().map(|value| *value > halfway).collect();
            let mut balance = 0_i64;
            let mut balance_max = 0;
            let mut slow_from = windows.len();
            for (at, slow) in slow.iter().enumerate().rev() {
                balance += if *slow { 1 } else { -1 };
                if balance >= balance_max {
                    (balance_max, slow_from) = (balance, at);
                }
            }
            let count = |windows: &[bool]| windows.iter().filter(|slow| **slow).count() as f64;
            let is_lasting = count(&slow[slow_from..]) >= LASTING * count(&slow).max(1.0);
            lasting += usize::from(is_lasting);
            let first = if is_lasting {
                Some(slow_from)
            } else {
                slow.iter().position(|slow| *slow)
            };
            since_times.extend(
                first
                    .and_then(|first| windows.get(first))
                    .map(|window| window.0),
            );
        }
        since_times.sort_by(f64::total_cmp);
        SlowEvidence {
            metric: LatencyMetric::ALL[metric],
            extent: ScoreExtent::ALL[best.score % ScoreExtent::ALL.len()],
            factor: best.outlier.excess.exp(),
            peers: best.outlier.peers,
            p_value: (best.outlier.p * SCORES as f64).min(1.0),
            band: [low.exp(), high.exp()],
            outside: lower_median(outside_shares),
            since_s: since_times
                .get(since_times.len() / 2)
                .copied()
                .unwrap_or(0.0),
            lasting: 2 * lasting > members.len(),
        }
    }
}
