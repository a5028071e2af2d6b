//! Answer of a check: the conclusion from criteria and runs, in one word and in sentences.

use super::criteria::{Criterion, LimitStatus};
use super::evaluation::JudgedCriterion;
use super::{CheckResult, Sustained};
use results::format::{self, span};
use results::judge::{Headline, Outcome};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Answer to the question of a check, the best first.
#[derive(
    Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[schemars(rename = "Answer")]
pub enum CheckAnswer {
    #[serde(rename = "good enough")]
    GoodEnough,
    /// Every deciding limit was held, but perhaps only during a burst, or with too few operations.
    #[serde(rename = "within the limits, but tested too briefly")]
    TooBrief,
    /// No limit decides.
    #[serde(rename = "no published limit")]
    NoLimit,
    /// The runs say nothing about the disk.
    #[default]
    #[serde(rename = "cannot tell")]
    CannotTell,
    #[serde(rename = "not good enough")]
    NotGoodEnough,
}

impl CheckAnswer {
    /// Sort key of lists: failed checks come first, then the others from the best answer to the worst.
    pub fn rank(self) -> (bool, Self) {
        (self != Self::NotGoodEnough, self)
    }
}

/// Words for texts. JSON keeps the words of earlier versions.
impl fmt::Display for CheckAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::GoodEnough => "limits held",
            Self::TooBrief => "limits held, but tested too briefly",
            Self::NoLimit => "no published limit",
            Self::CannotTell => "not judged",
            Self::NotGoodEnough => "failed",
        })
    }
}

impl CheckResult {
    /// The result with outcome, answer and sentence. The worst outcome decides; limits that were held too briefly count
    /// as measured, not as passed. `why_invalid`: why the measurements say nothing about the disk.
    pub fn concluded(mut self, why_invalid: Option<String>) -> Self {
        let worst = self
            .runs
            .iter()
            .map(|run| run.outcome)
            .chain(self.criteria.iter().map(|judged| judged.outcome));
        self.outcome = worst.max().unwrap_or(Outcome::Invalid);
        if why_invalid.is_some() {
            self.outcome = Outcome::Invalid;
        }
        if self.outcome == Outcome::Pass
            && (self.limited().next().is_none() || !self.too_brief().is_empty())
        {
            self.outcome = Outcome::Measured;
        }
        self.answer = self.answer_of_outcome();
        self.sentence = why_invalid.unwrap_or_else(|| self.decisive());
        self
    }

    pub(super) fn answer_of_outcome(&self) -> CheckAnswer {
        match self.outcome {
            Outcome::Pass => CheckAnswer::GoodEnough,
            Outcome::Measured if self.limited().next().is_some() => CheckAnswer::TooBrief,
            Outcome::Measured => CheckAnswer::NoLimit,
            Outcome::Invalid => CheckAnswer::CannotTell,
            Outcome::Fail => CheckAnswer::NotGoodEnough,
        }
    }

    /// The answer in one sentence that begins with the name of the check, and the next step.
    pub fn headline(&self) -> Headline {
        let sentence = format!("{}: {}", self.name, self.sentence);
        Headline::new(&sentence, self.action().as_deref())
    }

    /// The sentence in full, if the headline does not say all of it.
    pub fn details(&self) -> Option<&str> {
        self.headline().unless_said(&self.sentence)
    }

    /// `sentence` with the answer. Sentences about limits that were held, and about values without a limit, contain the answer.
    pub fn with_answer(&self, sentence: &str) -> String {
        match self.answer {
            CheckAnswer::NotGoodEnough | CheckAnswer::CannotTell => {
                format!("{}: {sentence}", self.answer)
            }
            _ => sentence.to_owned(),
        }
    }

    fn action(&self) -> Option<String> {
        if let Some(look) = &self.look {
            return Some(look.next.clone());
        }
        let is_busy = self.runs.iter().any(|run| run.is_host_busy);
        let action = match self.answer {
            CheckAnswer::GoodEnough | CheckAnswer::NoLimit => return None,
            CheckAnswer::TooBrief => {
                let time = for_option(self.needed_time()?);
                return Some(format!("for a PASS, repeat the check with --for {time}"));
            }
            CheckAnswer::CannotTell if is_busy => {
                "stop other programs on this host, then check again"
            }
            CheckAnswer::CannotTell => "remove this cause, then check again",
            CheckAnswer::NotGoodEnough => {
                "find the cause in the report of the run (flashproof report DIRECTORY/RUN), or test another disk"
            }
        };
        Some(action.to_owned())
    }

    pub fn seconds(&self) -> f64 {
        self.runs.iter().map(|run| run.seconds).sum()
    }

    /// Why the check was too brief: each reason with the number of seconds that would suffice. For bytes, the number
    /// follows from the measured rate; for operations, ten times the tested time is a rough guess.
    fn too_brief(&self) -> Vec<(String, f64)> {
        let seconds = self.seconds();
        let written = self.runs.iter().map(|run| run.bytes_written).sum::<u64>();
        let Sustained {
            seconds: least_sec,
            bytes_written: least_bytes,
            ..
        } = self.sustained;
        let mut reasons = Vec::new();
        let is_burst_over = self.limited().all(|judged| judged.behind_burst);
        if !is_burst_over && seconds.round() < least_sec as f64 {
            let tested = span(seconds.round() as u64);
            let least = span(least_sec);
            reasons.push((format!("{tested} of {least}"), least_sec as f64));
        }
        if !is_burst_over && written < least_bytes {
            let tested = format::bytes(written as f64);
            let least = format::bytes(least_bytes as f64);
            let needed_sec = seconds * least_bytes as f64 / written.max(1) as f64;
            reasons.push((format!("{tested} of {least} written"), needed_sec));
        }
        for judged in self
            .limited()
            .filter(|judged| judged.outcome == Outcome::Measured)
        {
            let Criterion { run, .. } = &judged.criterion;
            let text = format!(
                "too few operations for {} in {run}",
                judged.criterion.metric_and_stream()
            );
            reasons.push((text, seconds * 10.0));
        }
        reasons
    }

    /// Value of `--for` with which the check is long enough; `None` if the check was not too brief.
    pub fn needed_time(&self) -> Option<u64> {
        let longest_sec = self
            .too_brief()
            .into_iter()
            .map(|(_, seconds)| seconds)
            .reduce(f64::max)?;
        // A check runs for a week at most.
        (self.answer == CheckAnswer::TooBrief).then(|| (longest_sec.ceil() as u64).min(7 * 86_400))
    }

    /// The highest tier whose limits were held, and the worst criterion of the next tier, if there is one.
    pub fn met_tier(&self) -> Option<(&str, Option<&JudgedCriterion>)> {
        let (mut met, higher) = self
            .tiers
            .split_first()
            .filter(|_| self.answer <= CheckAnswer::TooBrief)?;
        for tier in higher {
            let of_tier = self
                .criteria
                .iter()
                .filter(|judged| judged.criterion.only_shown_as().as_ref() == Some(tier));
            match worst(
                of_tier.filter(|judged| judged.figure.is_none() || judged.is_beyond_shown_limit()),
            ) {
                Some(missed) => return Some((met, Some(missed))),
                None => met = tier,
            }
        }
        Some((met, None))
    }

    /// The criterion nearest to its deciding limit, otherwise the first criterion with a limit, otherwise the first
    /// criterion. `None` if a run failed or was invalid, but none of its criteria.
    pub fn decisive_criterion(&self) -> Option<&JudgedCriterion> {
        match self.outcome {
            Outcome::Fail | Outcome::Invalid => self
                .nearest()
                .filter(|judged| judged.outcome == self.outcome),
            Outcome::Pass | Outcome::Measured => self
                .nearest()
                .or_else(|| {
                    self.criteria
                        .iter()
                        .find(|judged| judged.criterion.limit.is_some())
                })
                .or(self.criteria.first()),
        }
    }

    /// The criterion that came nearest to its limit, among the deciding criteria with the worst outcome and the
    /// criteria of the highest tier that was held.
    fn nearest(&self) -> Option<&JudgedCriterion> {
        let outcome = self.limited().map(|judged| judged.outcome).max()?;
        let met = self.met_tier().map(|(met, _)| met);
        worst(self.criteria.iter().filter(|judged| {
            let is_worst = judged.outcome == outcome && judged.criterion.deciding_limit().is_some();
            is_worst || met.is_some() && judged.criterion.only_shown_as().as_deref() == met
        }))
    }

    fn limited(&self) -> impl Iterator<Item = &JudgedCriterion> {
        self.criteria
            .iter()
            .filter(|judged| judged.criterion.deciding_limit().is_some())
    }

    fn decisive(&self) -> String {
        let runs = self.runs.iter().filter(|run| run.outcome == self.outcome);
        let mut run = runs.map(|run| format!("run {}: {}", run.name, run.reason));
        // The figure covers the whole run. If the figure of a failed criterion is within its limit, a slice decided,
        // and the reason of the run names this slice.
        let nearest = self
            .nearest()
            .filter(|judged: &&JudgedCriterion| {
                judged.outcome == self.outcome
                    && (self.outcome != Outcome::Fail || judged.fraction_of_limit() >= 1.0)
            })
            .map(JudgedCriterion::sentence);
        match self.answer {
            // A run can fail although no criterion failed: operations failed or were lost, or a device was silent.
            CheckAnswer::NotGoodEnough => nearest.or_else(|| run.next()),
            CheckAnswer::CannotTell => run.next().or(nearest),
            CheckAnswer::GoodEnough => self.met_limits(""),
            CheckAnswer::TooBrief => self.held_briefly(),
            CheckAnswer::NoLimit => self.values(),
        }
        .unwrap_or_else(|| "nothing was measured".to_owned())
    }

    /// `duration`: ` for 60 s (too brief: ...)` if the test was too brief, otherwise empty.
    fn met_limits(&self, duration: &str) -> Option<String> {
        let nearest = self.nearest().map(JudgedCriterion::sentence);
        match self.met_tier() {
            None => Some(format!("limits held{duration}; {}", nearest?)),
            Some((tier, None)) => Some(format!("limits held for {tier}{duration}; {}", nearest?)),
            Some((tier, Some(missed))) => Some(format!(
                "limits held for {tier}{duration}, not for {}: {}",
                missed.criterion.tier.as_ref()?,
                missed.sentence()
            )),
        }
    }

    fn held_briefly(&self) -> Option<String> {
        let (reasons, _): (Vec<_>, Vec<_>) = self.too_brief().into_iter().unzip();
        let tested = span(self.seconds().round() as u64);
        let reasons = reasons.join(", ");
        self.met_limits(&format!(" for {tested} (too brief: {reasons})"))
    }

    /// The first values of a check without limits.
    fn values(&self) -> Option<String> {
        let values: Vec<_> = self
            .criteria
            .iter()
            .take(3)
            .map(|judged: &JudgedCriterion| {
                let Criterion { run, .. } = &judged.criterion;
                format!(
                    "{} in {run} {}",
                    judged.criterion.metric_and_stream(),
                    judged.figure_text()
                )
            })
            .collect();
        let more = if self.criteria.len() > values.len() {
            "; the table has all values"
        } else {
            ""
        };
        (!values.is_empty()).then(|| {
            format!(
                "no published limit; your values: {}{more}",
                values.join(", ")
            )
        })
    }
}

impl JudgedCriterion {
    pub fn sentence(&self) -> String {
        let Criterion {
            run,
            standing,
            tier,
            ..
        } = &self.criterion;
        let limit = self
            .criterion
            .limit_text()
            .map(|limit| match (tier, standing) {
                (Some(tier), _) => format!(", {tier} needs {limit}"),
                (None, Some(LimitStatus::Recommended)) => format!(", the maker recommends {limit}"),
                (None, Some(status)) if !status.decides() => {
                    format!(", the limit is {limit} ({status})")
                }
                (None, _) => format!(", it must be {limit}"),
            });
        format!(
            "{} in {run} was {}{}",
            self.criterion.metric_and_stream(),
            self.figure_text(),
            limit.unwrap_or_default()
        )
    }
}

fn worst<'j>(judged: impl Iterator<Item = &'j JudgedCriterion>) -> Option<&'j JudgedCriterion> {
    judged.max_by(|a, b| a.fraction_of_limit().total_cmp(&b.fraction_of_limit()))
}

/// A time as the value of `--for`, rounded up: `90s`, `40m`, `24h`.
pub fn for_option(sec: u64) -> String {
    match sec {
        0..120 => format!("{sec}s"),
        120..36_000 => format!("{}m", sec.div_ceil(60)),
        _ => format!("{}h", sec.div_ceil(3_600)),
    }
}
