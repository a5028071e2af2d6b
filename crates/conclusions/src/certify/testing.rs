//! Verdicts and series for tests.

use super::{Claim, stages};
use crate::series::{DriveIdentity, Series, SeriesPurpose};
use results::judge::{
    End, GapSummary, Outcome, Reason, ReasonCode, Sla, StreamTotals, VERDICT_FORMAT_VERSION,
    Verdict, WorstShare,
};

pub(super) fn total(name: &str, errors: u64) -> StreamTotals {
    StreamTotals {
        name: name.into(),
        judged: true,
        offered_iops: 100.0,
        achieved_iops: 100.0,
        ops: 1_000,
        bytes: 0,
        errors,
        overtime: 0,
        unissued: 0,
        lost: 0,
    }
}

/// A verdict in which the largest share of operations over 1 ms is `share`.
pub(crate) fn verdict(outcome: Outcome, end: End, share: f64) -> Verdict {
    Verdict {
        failures: Vec::new(),
        wrong_data: Vec::new(),
        unmeasured: Vec::new(),
        workloads: Vec::new(),
        format_version: VERDICT_FORMAT_VERSION,
        tested: results::judge::TestedObject::default(),
        outcome,
        class: results::judge::VerdictClass::Screening,
        partial: !end.is_complete(),
        end,
        reasons: vec![Reason::new(ReasonCode::Unknown, "the first reason")],
        missed: Vec::new(),
        notes: Vec::new(),
        records_read: None,
        decided_by: Some(WorstShare {
            stream: "reads".into(),
            device: Some("x".into()),
            slice: 9,
            from_sec: None,
            length_sec: 3_600,
            with_rest: false,
            first_slice: None,
            threshold_ns: 1_000_000,
            over: (share * 10_000.0) as u64,
            scheduled: 10_000,
            cut: false,
            share,
            share_max: 0.05,
        }),
        worst: Vec::new(),
        sla: Sla::default().to_string(),
        thresholds_ns: Sla::default().thresholds_ns().to_vec(),
        slice_sec: 3_600,
        duration_sec: 86_400,
        ran_sec: 86_400.0,
        groups: Vec::new(),
        undone: Vec::new(),
        insufficient: Vec::new(),
        streams: vec![total("reads", 0)],
        cpu_wait_share: None,
        gaps: GapSummary {
            count: 0,
            limit_ns: 0,
            over: 0,
            max_ns: 0,
        },
        blame: Vec::new(),
    }
}

pub(crate) fn drive(name: &str, serial: Option<&str>) -> DriveIdentity {
    DriveIdentity {
        name: name.into(),
        model: Some("M".into()),
        serial: serial.map(str::to_owned),
        size_bytes: 960_197_124_096,
        simulated: false,
    }
}

pub(crate) fn series(devices: usize) -> Series {
    Series {
        devices: (0..devices)
            .map(|n| drive(&format!("/dev/nvme{n}n1"), Some(&format!("S{n}"))))
            .collect(),
        terms: vec![
            ("load".into(), "30x".into()),
            ("limits".into(), Sla::default().to_string()),
        ],
        ..crate::testing::series(
            SeriesPurpose::Certify,
            &[],
            stages(30.0, devices, 0, 86_400),
        )
    }
}

pub(super) fn claim() -> Claim {
    Claim {
        multiple: "30".into(),
        config: None,
        sla: Sla::default(),
        slice_sec: 3_600,
        stage_sec: 86_400,
        simulated: false,
        files: false,
        virtual_kinds: Vec::new(),
        unprepared: Vec::new(),
        as_act: false,
    }
}
