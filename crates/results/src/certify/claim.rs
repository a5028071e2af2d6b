//! What may be said of a series: certification or screening, and for which load.
//!
//! All words that depend on it come from here, so that nothing calls certified what is not. ACT's
//! README: six hours give a good idea, 24 hours certify. A drive fresh out of the box is never
//! certified, nor is a simulated one, a file, or a device that is only called one (loop, zram).

use crate::judge::Sla;
use crate::units::span;

/// Least length of a stage that certifies, seconds. Source: ACT's README, "Process for certifying".
pub const STAGE_SEC: u64 = 86_400;

/// Length of the slices of which the worst decides, seconds. Source: ACT's README: "in any one-hour period".
const SLICE_SEC: u64 = 3_600;

/// What a series claims to test, as far as words depend on it.
#[derive(Debug, Clone, PartialEq)]
pub struct Claim {
    /// The multiple, as the user gave it: `30`.
    pub multiple: String,
    /// Name of the configuration whose load is multiplied; `None` for ACT's own load of 1x.
    pub config: Option<String>,
    /// The limits.
    pub sla: Sla,
    /// Length of a slice of its runs, seconds: whole report intervals.
    pub slice_sec: u64,
    /// Length of a stage, seconds.
    pub stage_sec: u64,
    /// Whether the drives are simulated.
    pub simulated: bool,
    /// Whether files are tested instead of devices.
    pub files: bool,
    /// Devices that are no drives, each a phrase: `/dev/loop3 is a loop device, which is a file`.
    pub virtual_kinds: Vec<String>,
    /// Devices that are not on record as prepared and are tested all the same.
    pub unprepared: Vec<String>,
    /// Whether operations start as ACT starts them.
    pub as_act: bool,
}

impl Claim {
    /// What keeps it from being a certification, each a phrase; empty for one.
    pub fn shortfalls(&self) -> Vec<String> {
        let mut shortfalls = Vec::new();
        if self.simulated {
            shortfalls.push("the drives are simulated".to_owned());
        }
        if self.files {
            shortfalls.push("files are tested, not devices".to_owned());
        }
        shortfalls.extend(self.virtual_kinds.iter().cloned());
        if self.stage_sec < STAGE_SEC {
            shortfalls.push(format!("a stage lasts {}, not {}", span(self.stage_sec), span(STAGE_SEC)));
        }
        if !self.unprepared.is_empty() {
            shortfalls.push(format!("NOT PREPARED: {}", self.unprepared.join(", ")));
        }
        shortfalls
    }

    /// Whether all of it would make a certification.
    pub fn is_certification(&self) -> bool {
        self.shortfalls().is_empty()
    }

    /// `certification` or `screening`.
    pub fn noun(&self) -> &'static str {
        if self.is_certification() { "certification" } else { "screening" }
    }

    /// The load: `30x`, or `30 times my.conf`.
    pub fn load(&self) -> String {
        match &self.config {
            None => format!("{}x", self.multiple),
            Some(config) => format!("{} times {config}", self.multiple),
        }
    }

    /// Load and, where they are not ACT's, limits and slices.
    pub fn subject(&self) -> String {
        let limits = match self.sla == Sla::default() {
            true => String::new(),
            false => format!(" within limits of its own ({})", self.sla),
        };
        // A slice as long as the stage is all that a short stage has.
        let is_usual = self.slice_sec == SLICE_SEC || self.slice_sec.min(SLICE_SEC) >= self.stage_sec;
        let slices = if is_usual { String::new() } else { format!(" in slices of {}", span(self.slice_sec)) };
        format!("{}{limits}{slices}", self.load())
    }

    /// Whether it is judged as ACT judges.
    fn is_judged_as_acts(&self) -> bool {
        self.sla == Sla::default() && self.slice_sec == SLICE_SEC
    }

    /// The beginning of the sentence after a pass.
    pub fn passed(&self) -> String {
        match self.is_certification() {
            true => format!("certified for {}", self.subject()),
            false => format!("passed the screening for {}", self.subject()),
        }
    }

    /// The beginning of the sentence after a failure.
    pub fn failed(&self) -> String {
        match self.is_certification() {
            true => format!("not certified for {}", self.subject()),
            false => format!("failed the screening for {}", self.subject()),
        }
    }

    /// The beginning of the sentence when it cannot be told.
    pub fn undecided(&self) -> String {
        format!("the {} for {} is undecided", self.noun(), self.subject())
    }

    /// Whether a pass may be laid beside published ratings: those are of ACT's load, pacing and limits,
    /// for a day.
    pub fn is_comparable(&self) -> bool {
        self.is_certification() && self.as_act && self.config.is_none() && self.is_judged_as_acts()
    }

    /// What a reader must know of it, each one sentence.
    pub fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        let shortfalls = self.shortfalls();
        if !shortfalls.is_empty() {
            let day = span(STAGE_SEC);
            remarks.push(format!(
                "this is a screening, because {}; what counts is {day} a stage on real, prepared devices",
                shortfalls.join(", and ")
            ));
        }
        if !self.unprepared.is_empty() {
            remarks.push(format!(
                "NOT PREPARED: nothing on record says that {} was written full before, and an empty drive is faster than \
                 it will be in use",
                self.unprepared.join(", ")
            ));
        }
        if let Some(config) = &self.config {
            remarks.push(format!(
                "the load of 1x is that of {config}, not ACT's of 2,000 reads and 1,000 writes a second"
            ));
        }
        if !self.as_act {
            remarks.push(
                "not comparable with published ratings: operations were paced evenly, ACT starts them in bursts \
                 (--as-act)"
                    .to_owned(),
            );
        }
        remarks
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::claim;
    use super::*;

    #[test]
    fn a_day_a_stage_on_prepared_devices_certifies() {
        let claim = claim();
        assert!(claim.is_certification());
        assert_eq!(claim.passed(), "certified for 30x");
        assert_eq!(claim.failed(), "not certified for 30x");
    }

    #[test]
    fn whatever_falls_short_is_named_a_screening_and_never_certified() {
        for short in [
            Claim { stage_sec: STAGE_SEC - 1, ..claim() },
            Claim { simulated: true, ..claim() },
            Claim { files: true, ..claim() },
            Claim { virtual_kinds: vec!["/dev/loop3 is a loop device, which is a file".into()], ..claim() },
            Claim { unprepared: vec!["/dev/x".into()], ..claim() },
        ] {
            let words = [short.passed(), short.failed(), short.undecided(), short.remarks().join(" ")].join(" ");
            assert!(!words.contains("certif"), "{words}");
            assert!(words.contains("passed the screening for 30x") && words.contains("this is a screening"), "{words}");
        }
    }

    #[test]
    fn a_load_and_limits_of_its_own_are_named() {
        let own = Claim { config: Some("my.conf".into()), ..claim() };
        assert_eq!(own.passed(), "certified for 30 times my.conf");
        let lax = Claim { sla: "10%>1ms".parse().unwrap(), ..claim() };
        assert_eq!(lax.passed(), "certified for 30x within limits of its own (10%>1ms)");
        let long = Claim { slice_sec: 86_400, ..claim() };
        assert_eq!(long.passed(), "certified for 30x in slices of 24 h", "an average over a day hides an hour");
        assert_eq!(Claim { stage_sec: 60, ..claim() }.passed(), "passed the screening for 30x");
    }

    #[test]
    fn only_acts_load_pacing_and_limits_for_a_day_are_comparable() {
        assert!(!claim().is_comparable(), "paced evenly");
        assert!(Claim { as_act: true, ..claim() }.is_comparable());
        assert!(!Claim { as_act: true, config: Some("my.conf".into()), ..claim() }.is_comparable());
        assert!(!Claim { as_act: true, stage_sec: 21_600, ..claim() }.is_comparable());
        assert!(!Claim { as_act: true, slice_sec: 86_400, ..claim() }.is_comparable());
        assert!(!Claim { as_act: true, virtual_kinds: vec!["/dev/zram1 is memory".into()], ..claim() }.is_comparable());
        assert!(!Claim { as_act: true, sla: "6%>1ms".parse().unwrap(), ..claim() }.is_comparable());
    }
}
