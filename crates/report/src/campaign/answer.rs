//! The answer of a campaign: the state of each drive, and what to do.

use super::{Campaign, CampaignDrive, StepResult};
use crate::head::Head;
use crate::table::{Cell, Table};
use crate::words::{OutcomeLabel, counts_text};
use conclusions::grouped;
use conclusions::population::{PopulationLevel, SlowGroup, Undecided, UndecidedReason};
use results::format::{count, date_to_minute, first_names, number, span_about};
use results::judge::{HEADLINE_CHARS_MAX, Headline, Outcome};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of undecided comparisons in the head.
const UNDECIDED_SHOWN: usize = 5;

const REPLACE: &str =
    "replace the bad drives below, worst first, or test them again with less load";
const EXCHANGE: &str = "exchange a slow drive with a good one, if possible of another host, and repeat: if the slowness moves with the drive, the drive is the cause";
const REPEAT: &str = "repeat the steps without a verdict: flashproof fleet run DIR --failed";
const WAIT: &str = "wait for the open steps: flashproof fleet status DIR";
const EXCHANGE_GROUPS: &str = "exchange drives between the groups, or add groups, then repeat";

/// The state of a drive after a campaign, the worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum DriveFinding {
    Failed,
    PassedButSlow,
    Slow,
    NoVerdict,
    Open,
    Measured,
    Good,
}

results::display!(DriveFinding {
    Failed => "failed",
    PassedButSlow => "passed but slow",
    Slow => "slow",
    NoVerdict => "without a verdict",
    Open => "not finished",
    Measured => "measured",
    Good => "good",
});

impl DriveFinding {
    /// The word before the sentence, its colour, and what to do.
    fn answer(self) -> (&'static str, Option<Outcome>, Option<&'static str>) {
        match self {
            Self::Failed => ("FAIL", Some(Outcome::Fail), Some(REPLACE)),
            Self::PassedButSlow | Self::Slow => ("SLOW", Some(Outcome::Fail), Some(EXCHANGE)),
            Self::NoVerdict => ("INVALID", Some(Outcome::Invalid), Some(REPEAT)),
            Self::Open => ("UNFINISHED", None, Some(WAIT)),
            Self::Measured => ("MEASURED", Some(Outcome::Measured), None),
            Self::Good => ("PASS", Some(Outcome::Pass), None),
        }
    }
}

impl Campaign {
    pub(super) fn finding(&self, index: usize) -> DriveFinding {
        let results = &self.drives[index].results;
        let has = |outcome| results.iter().any(|result| result.outcome == Some(outcome));
        let mut slow = self.examination.slow.iter();
        let is_slow = slow.any(|slow| slow.drives.contains(&index));
        if has(Outcome::Fail) {
            DriveFinding::Failed
        } else if is_slow && has(Outcome::Pass) {
            DriveFinding::PassedButSlow
        } else if is_slow {
            DriveFinding::Slow
        } else if results.iter().any(StepResult::is_open) {
            DriveFinding::Open
        } else if !results.iter().all(StepResult::is_good) {
            DriveFinding::NoVerdict
        } else if has(Outcome::Measured) && !has(Outcome::Pass) {
            DriveFinding::Measured
        } else {
            DriveFinding::Good
        }
    }

    /// Mean latency of a drive relative to its peers; `None` if it was not compared.
    pub(super) fn factor(&self, index: usize) -> Option<f64> {
        *self.examination.factors.get(index)?
    }

    /// Indexes of all drives, the worst first.
    pub(super) fn worst_first(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.drives.len()).collect();
        let percent = |factor: f64| (factor * 100.0).round() as u64;
        let slowness = |index| Reverse(self.factor(index).map(percent));
        order.sort_by_cached_key(|index| (self.finding(*index), slowness(*index)));
        order
    }

    fn worst(&self) -> DriveFinding {
        let findings = (0..self.drives.len()).map(|index| self.finding(index));
        findings.min().unwrap_or(DriveFinding::Good)
    }

    /// The box with the answer, and the facts.
    pub(crate) fn head(&self) -> Head {
        let (word, look, action) = self.worst().answer();
        let mut undecided = self.undecided();
        let is_few = |of: &Undecided| matches!(of.reason, UndecidedReason::FewGroups { .. });
        let action = action.or(undecided.any(is_few).then_some(EXCHANGE_GROUPS));
        let headline = Headline::new(&self.sentence(), action);
        let title = format!("Campaign {}", self.name);
        let mut head = Head::labelled(title, word, look, headline);
        head.details = self.details();
        self.add_facts(&mut head);
        head
    }

    /// `24 drives: 21 good, 1 failed, 2 passed but slow`, then slow groups, then undecided comparisons.
    fn sentence(&self) -> String {
        let mut counts: BTreeMap<DriveFinding, usize> = BTreeMap::new();
        for index in 0..self.drives.len() {
            *counts.entry(self.finding(index)).or_default() += 1;
        }
        let good = counts.remove_entry(&DriveFinding::Good);
        let counts = good.into_iter().chain(counts);
        let counts: Vec<_> = counts
            .map(|(finding, count)| format!("{count} {finding}"))
            .collect();
        let slow = self.slow_groups();
        let slow = slow.map(|SlowGroup { level, name, .. }| format!("; {level} {name} is slow"));
        let undecided = self.undecided();
        let undecided = undecided.map(|of| format!("; {}", self.short(of)));
        let mut sentence = count(self.drives.len() as u64, "drive") + ": " + &counts.join(", ");
        for clause in slow.chain(undecided) {
            if (sentence.clone() + &clause).chars().count() <= HEADLINE_CHARS_MAX {
                sentence += &clause;
            }
        }
        sentence
    }

    /// Comparisons without a result. A drive without a complete run is left out, because its own result says why.
    fn undecided(&self) -> impl Iterator<Item = &Undecided> {
        let drive_index = |name: &str| self.drives.iter().position(|drive| drive.drive == name);
        let is_explained = move |of: &Undecided| match &of.of {
            Some((PopulationLevel::Drive, name)) => {
                drive_index(name).is_some_and(|index| self.finding(index) < DriveFinding::Measured)
            }
            _ => false,
        };
        let undecided = self.examination.undecided.iter();
        undecided.filter(move |of| !is_explained(of))
    }

    fn short(&self, undecided: &Undecided) -> String {
        let of_model = |drive: &&CampaignDrive| drive.model == undecided.model;
        let in_group = |drive: &&CampaignDrive| match &undecided.of {
            Some((level, name)) => drive.label(*level) == name,
            None => true,
        };
        let drives = || self.drives.iter().filter(of_model);
        undecided.short(drives().filter(in_group).count(), drives().count())
    }

    /// Sentences: undecided comparisons, drives that were not prepared, and a remark if no drive is slow.
    fn details(&self) -> Vec<String> {
        let undecided: Vec<&Undecided> = self.undecided().collect();
        let shown = undecided.iter().take(UNDECIDED_SHOWN);
        let mut details: Vec<String> = shown.map(ToString::to_string).collect();
        if undecided.len() > UNDECIDED_SHOWN {
            let more = (undecided.len() - UNDECIDED_SHOWN) as u64;
            let more = count(more, "other comparison");
            details.push(format!("{more} cannot be decided"));
        }
        details.extend(self.not_prepared());
        if let Some(step) = &self.compared_step
            && self.examination.slow.is_empty()
            && !self.examination.compared.is_empty()
        {
            let none = "no drive is slow among its peers in the step";
            details.push(format!("{none} {step}"));
        }
        let is_over = self.worst() != DriveFinding::Open;
        if self.compared_step.is_none() && is_over {
            details.push("no step has latencies to compare".to_owned());
        }
        details
    }

    /// The drives that the doctor calls not prepared, the fastest first.
    fn not_prepared(&self) -> Option<String> {
        let mut drives = self.worst_first();
        drives.retain(|index| self.drives[*index].not_prepared);
        let named = drives.iter().rev().take(UNDECIDED_SHOWN).map(|index| {
            let factor = self.factor(*index).map_or("?".to_owned(), factor_text);
            format!("{} ({factor} times its peers)", self.drives[*index].drive)
        });
        let named = named.collect::<Vec<_>>().join(", ");
        let count = count(drives.len() as u64, "drive");
        let remark = format!("{count} not prepared, so perhaps faster than in use: {named}");
        (!drives.is_empty()).then_some(remark)
    }

    fn add_facts(&self, head: &mut Head) {
        let hosts: BTreeSet<&str> = self.drives.iter().map(|drive| &*drive.host).collect();
        let hosts = count(hosts.len() as u64, "host");
        let drives = count(self.drives.len() as u64, "drive");
        head.fact("Drives", format!("{drives} on {hosts}"));
        for (campaign, drives) in &self.peers {
            let drives = count(*drives as u64, "drive");
            head.fact("Peers", format!("{drives} of the campaign {campaign}"));
        }
        for (at, step) in self.steps.iter().enumerate() {
            let states = self.drives.iter().map(|drive| &drive.results[at].state);
            head.fact(&format!("Step {step}"), counts_text(states));
        }
        if let Some([began, last]) = self.began_and_last_unix_ms {
            let length = span_about(last.saturating_sub(began) as f64 / 1e3);
            let began = date_to_minute(began);
            head.fact("Began", format!("{began}, lasted {length}"));
        }
    }

    /// Groups of drives that are slow as a whole.
    fn slow_groups(&self) -> impl Iterator<Item = &SlowGroup> {
        let slow = self.examination.slow.iter();
        slow.filter(|slow| slow.level != PopulationLevel::Drive)
    }

    /// The slowness of a drive itself, not of its group.
    fn slowness(&self, index: usize) -> Option<&SlowGroup> {
        let mut slow = self.examination.slow.iter();
        slow.find(|slow| slow.level == PopulationLevel::Drive && slow.drives.contains(&index))
    }

    /// Why a drive is bad; empty if it is not, or if its group explains it.
    pub(super) fn reason(&self, index: usize) -> String {
        let results = self.steps.iter().zip(&self.drives[index].results);
        let results = results.filter(|(_, result)| result.is_bad());
        let results = results.map(|(step, of)| format!("{step} {}: {}", of.state, of.sentence));
        let slow = self.slowness(index).map(slowness_text);
        results.chain(slow).collect::<Vec<_>>().join("; ")
    }

    /// Slow groups, then drives that failed, are slow or have no verdict, the worst first. With `base` (path of the
    /// campaign's directory, for links), each drive has a row that links to its report. Without `base`, drives with the
    /// same reason share a row. `cut` shortens reasons.
    pub(super) fn bad_drives(&self, base: Option<&str>, cut: fn(&str) -> String) -> Table {
        let groups = self.slow_groups().map(group_row);
        let bad = self.bad_drives_worst_first().map(|(index, reason)| {
            let alone = base.map(|_| index);
            ((self.finding(index), reason, alone), index)
        });
        let drives = grouped(bad)
            .into_iter()
            .map(|((finding, reason, _), indexes)| {
                let drives = indexes.iter().map(|index| &self.drives[*index]);
                let places: BTreeSet<String> = drives.clone().map(CampaignDrive::place).collect();
                let drive = match indexes[..] {
                    [index] => self.drive_cell(index, base),
                    _ => first_names(drives.map(|drive| drive.drive.clone())).into(),
                };
                let place = first_names(places).into();
                [drive, place, finding_cell(finding), cut(&reason).into()]
            });
        Table::new("")
            .text(["drive", "where", "result", "reason"])
            .rows(groups)
            .rows(drives)
    }

    fn bad_drives_worst_first(&self) -> impl Iterator<Item = (usize, String)> {
        let order = self.worst_first().into_iter();
        let reasons = order.map(|index| (index, self.reason(index)));
        reasons.filter(|(_, reason)| !reason.is_empty())
    }

    /// The drive's name, with a link to the report of its last step that has one.
    fn drive_cell(&self, index: usize, base: Option<&str>) -> Cell {
        let CampaignDrive { drive, results, .. } = &self.drives[index];
        let report = results
            .iter()
            .rev()
            .find_map(|result| result.report.as_ref());
        match base.zip(report) {
            Some((base, report)) => Cell::file(drive, format!("{base}{report}")),
            None => drive.into(),
        }
    }

    /// The drives with their results and values, the worst first.
    pub(super) fn drive_table(&self, base: Option<&str>, rows_max: usize) -> Table {
        let order = self.worst_first();
        let rows = order.into_iter().take(rows_max);
        let rows = rows.map(|index| self.drive_row(index, base));
        self.drive_columns().rows(rows)
    }

    /// The drives to pull, the worst first: where each is, why it is bad, and since when.
    pub fn table(&self) -> Table {
        let rows = self.bad_drives_worst_first().map(|(index, reason)| {
            let of = &self.drives[index];
            let since = self.bad_since_unix_ms(index).map(date_to_minute);
            let since = since.unwrap_or_default();
            [&of.host, &of.slot, &of.drive, &reason, &since].map(Cell::from)
        });
        Table::new("")
            .text(["host", "slot", "serial", "reason", "since"])
            .rows(rows)
    }

    /// When the drive ended its first bad step, or became slow.
    fn bad_since_unix_ms(&self, index: usize) -> Option<u64> {
        let drive = &self.drives[index];
        match drive.results.iter().find(|result| result.is_bad()) {
            Some(result) => result.last_unix_ms,
            None => {
                let since_s = self.slowness(index)?.evidence.since_s;
                Some(
                    drive
                        .compared_unix_ms?
                        .saturating_add((since_s * 1e3) as u64),
                )
            }
        }
    }

    fn drive_columns(&self) -> Table {
        let quantities = self.quantities.iter();
        let quantities = quantities.map(|quantity| format!("{}, {}", quantity.name, quantity.unit));
        Table::new("")
            .text(["drive", "model", "firmware", "host", "slot", "result"])
            .text(self.steps.iter().cloned())
            .numbers(["times peers"])
            .numbers(quantities)
    }

    fn drive_row(&self, index: usize, base: Option<&str>) -> Vec<Cell> {
        let drive = &self.drives[index];
        let labels = [&drive.model, &drive.firmware, &drive.host, &drive.slot].map(Cell::from);
        let states = drive.results.iter().map(state_cell);
        let known = |value: Option<String>| value.map_or_else(|| Cell::missing("-"), Cell::from);
        let factor = known(self.factor(index).map(factor_text));
        let values = self.quantities.iter();
        let values = values.map(|quantity| known(quantity.values[index].map(number)));
        std::iter::once(self.drive_cell(index, base))
            .chain(labels)
            .chain([finding_cell(self.finding(index))])
            .chain(states)
            .chain([factor])
            .chain(values)
            .collect()
    }
}

impl CampaignDrive {
    /// `node4, slot 5, firmware F2`, as far as known.
    fn place(&self) -> String {
        let labels = [
            ("", &self.host),
            ("slot ", &self.slot),
            ("firmware ", &self.firmware),
        ];
        let known = labels.into_iter().filter(|(_, label)| !label.is_empty());
        let known = known.map(|(name, label)| format!("{name}{label}"));
        known.collect::<Vec<_>>().join(", ")
    }

    fn label(&self, level: PopulationLevel) -> &str {
        match level {
            // All drives of the document are of one campaign, and only this campaign can be undecided.
            PopulationLevel::Campaign => "",
            PopulationLevel::Firmware => &self.firmware,
            PopulationLevel::Host => &self.host,
            PopulationLevel::Slot => &self.slot,
            PopulationLevel::Drive => &self.drive,
        }
    }
}

fn finding_cell(finding: DriveFinding) -> Cell {
    let (_, look, _) = finding.answer();
    let text = finding.to_string();
    Cell::outcome(OutcomeLabel { text, look })
}

fn state_cell(result: &StepResult) -> Cell {
    let text = result.state.clone();
    match result.outcome {
        None => text.into(),
        look => Cell::outcome(OutcomeLabel { text, look }),
    }
}

pub(super) fn factor_text(factor: f64) -> String {
    format!("{factor:.2}")
}

fn slowness_text(slow: &SlowGroup) -> String {
    format!("{}{}", slow.evidence.short(), slow.other_causes())
}

fn group_row(slow: &SlowGroup) -> [Cell; 4] {
    [
        count(slow.drives.len() as u64, "drive").into(),
        format!("{} {}", slow.level, slow.name).into(),
        finding_cell(DriveFinding::Slow),
        slowness_text(slow).into(),
    ]
}
