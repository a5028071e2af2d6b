//! Which stages a certification has.
//!
//! Source: ACT's README, "Process for certifying": test 1 (N times the load, one device), test 2
//! (twice that), tests 3 and 4 (the same on all devices).

use crate::series::{Rule, State, Step};
use serde_json::Value;

/// What the stages follow from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outline {
    /// The load that is to be certified, a multiple of 1x.
    pub multiple: f64,
    /// Number of devices, at least 1.
    pub devices: usize,
    /// The device that is tested alone first, its number.
    pub single: usize,
    /// Length of a stage, seconds.
    pub stage_sec: u64,
}

impl Outline {
    /// The stages, in their order: two, or four with several devices.
    pub fn stages(&self) -> Vec<Step> {
        let alone = vec![self.single];
        let all: Vec<usize> = (0..self.devices).collect();
        let groups = if self.devices > 1 { vec![alone, all] } else { vec![alone] };
        let loads = [(1.0, Rule::Limits), (2.0, Rule::Completes)];
        let of_groups =
            groups.into_iter().flat_map(|devices| loads.map(|(times, rule)| (devices.clone(), times, rule)));
        of_groups
            .enumerate()
            .map(|(index, (devices, times, rule))| self.stage(index + 1, devices, times, rule))
            .collect()
    }

    fn stage(&self, number: usize, devices: Vec<usize>, times: f64, rule: Rule) -> Step {
        Step {
            name: format!("stage {number}"),
            dir: format!("stage-{number}"),
            multiple: self.multiple * times,
            devices,
            duration_sec: self.stage_sec,
            rule,
            state: State::Planned,
            outcome: None,
            reason: String::new(),
            attempts: 0,
            began_unix_ms: None,
            ended_unix_ms: None,
            details: Value::Null,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTLINE: Outline = Outline { multiple: 30.0, devices: 1, single: 0, stage_sec: 86_400 };

    fn shape(outline: Outline) -> Vec<(String, f64, Vec<usize>, Rule)> {
        outline.stages().into_iter().map(|step| (step.name, step.multiple, step.devices, step.rule)).collect()
    }

    #[test]
    fn one_device_has_two_stages_the_second_at_twice_the_load() {
        let expected =
            [("stage 1".into(), 30.0, vec![0], Rule::Limits), ("stage 2".into(), 60.0, vec![0], Rule::Completes)];
        assert_eq!(shape(OUTLINE), expected);
        assert!(OUTLINE.stages().iter().all(|step| step.duration_sec == 86_400 && step.state == State::Planned));
    }

    #[test]
    fn several_devices_are_tested_together_after_one_of_them_alone() {
        let stages = shape(Outline { devices: 3, single: 1, ..OUTLINE });
        let devices: Vec<_> = stages.iter().map(|(.., devices, _)| devices.clone()).collect();
        assert_eq!(devices, [vec![1], vec![1], vec![0, 1, 2], vec![0, 1, 2]]);
        let multiples: Vec<_> = stages.iter().map(|(_, multiple, ..)| *multiple).collect();
        assert_eq!(multiples, [30.0, 60.0, 30.0, 60.0]);
    }

    #[test]
    fn stages_have_directories_of_their_own() {
        let dirs: Vec<_> = Outline { devices: 2, ..OUTLINE }.stages().into_iter().map(|step| step.dir).collect();
        assert_eq!(dirs, ["stage-1", "stage-2", "stage-3", "stage-4"]);
    }
}
