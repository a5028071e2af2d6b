//! The difference between the clocks of two nodes, measured with their heartbeats. The difference matters, because a
//! record expires by the clock of the node that reads it. A node reads the time of day once, at its start, and then
//! counts with its monotonic clock.

use crate::NamespaceSettings;
use std::sync::atomic::{AtomicI64, Ordering};

/// Maximum round trip of a heartbeat that is used, ns. The error of a sample is at most half of its round trip.
const ROUND_TRIP_NS_MAX: u64 = 100_000_000;

/// Minimum skew for a warning in the log, and minimum change of the skew for another warning, us.
const WARNING_US: i64 = 1_000_000;

/// Skew above which writes are refused, as by the real server (`SKEW_STOP_SEC` of its `nsup.c`), ms.
const STOP_MS: u64 = 40_000;

/// True if a namespace accepts no writes because of the skew. As in the real server, `nsup-period 0` turns this off.
pub(crate) fn stops_writes(skew_ms: u64, namespace: &NamespaceSettings) -> bool {
    skew_ms > STOP_MS && namespace.nsup_period_sec > 0
}

/// Clock skew, us: time of the other node minus time of this node. `us`: the last sample; `warned_us`: in the last
/// warning, 0 if none.
#[derive(Debug, Default)]
pub(super) struct ClockSkew {
    us: AtomicI64,
    warned_us: AtomicI64,
}

impl ClockSkew {
    pub(super) fn ms(&self) -> u64 {
        self.us.load(Ordering::Relaxed).unsigned_abs() / 1_000
    }

    /// Forgets the skew when the link is lost.
    pub(super) fn reset(&self) {
        self.us.store(0, Ordering::Relaxed);
        self.warned_us.store(0, Ordering::Relaxed);
    }

    /// Takes the answer to a heartbeat: the times of both nodes since 1970. Returns a text for the log if the skew
    /// became large, changed, or ended, and true if the text is a warning.
    pub(super) fn measure(
        &self,
        peer_ns: u64,
        own_ns: u64,
        round_trip_ns: u64,
    ) -> Option<(bool, String)> {
        if round_trip_ns > ROUND_TRIP_NS_MAX {
            return None;
        }
        let us = (peer_ns as i64).wrapping_sub((own_ns - round_trip_ns / 2) as i64) / 1_000;
        self.us.store(us, Ordering::Relaxed);
        let warned_us = self.warned_us.load(Ordering::Relaxed);
        let is_new = us.abs() >= WARNING_US && us.saturating_sub(warned_us).abs() >= WARNING_US;
        // The end is below half of the warning threshold: otherwise a skew near the threshold would cause both messages
        // again and again.
        let is_over = warned_us != 0 && us.abs() < WARNING_US / 2;
        if !is_new && !is_over {
            return None;
        }
        self.warned_us
            .store(if is_new { us } else { 0 }, Ordering::Relaxed);
        let difference = format!(
            "is {:.3} s {}",
            us.unsigned_abs() as f64 / 1e6,
            if us < 0 { "behind" } else { "ahead" }
        );
        let effect = if self.ms() > STOP_MS {
            "writes to namespaces with an nsup-period get code 22"
        } else {
            "records with a time to live expire too early or too late on a node"
        };
        let remedy =
            "correct the clocks of both hosts (NTP), then restart the node whose clock was wrong";
        Some((
            is_new,
            if is_new {
                format!("{difference} - {effect} - {remedy}")
            } else {
                difference
            },
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    #[test]
    fn a_skew_is_reported_when_it_becomes_large_changes_or_ends() {
        let skew = ClockSkew::default();
        let now_ns = 1_800_000_000 * SECOND_NS;
        let measure = |ahead_ms: i64| {
            skew.measure(now_ns.wrapping_add_signed(ahead_ms * 1_000_000), now_ns, 0)
        };
        let begin = |report: Option<(bool, String)>| {
            report.map(|(warns, text)| (warns, text.split(" - ").next().unwrap().to_owned()))
        };
        for (ahead_ms, report) in [
            (999, None),
            (1_000, Some((true, "is 1.000 s ahead"))),
            (999, None),
            (1_999, None),
            (2_000, Some((true, "is 2.000 s ahead"))),
            (-2_000, Some((true, "is 2.000 s behind"))),
            (-500, None),
            (-499, Some((false, "is 0.499 s behind"))),
            (-499, None),
        ] {
            assert_eq!(
                begin(measure(ahead_ms)),
                report.map(|(warns, text)| (warns, text.to_owned())),
                "{ahead_ms}"
            );
            assert_eq!(skew.ms(), ahead_ms.unsigned_abs());
        }
        assert!(measure(-40_000).unwrap().1.contains("expire too early"));
        assert!(measure(-41_000).unwrap().1.contains("get code 22"));
        skew.reset();
        assert_eq!(skew.ms(), 0);
        assert!(
            measure(-41_000).is_some(),
            "the warning comes again after a new link"
        );
    }

    #[test]
    fn half_of_the_round_trip_is_subtracted_and_long_round_trips_are_ignored() {
        let skew = ClockSkew::default();
        let now_ns = 1_800_000_000 * SECOND_NS;
        let found = skew.measure(now_ns - ROUND_TRIP_NS_MAX / 2, now_ns, ROUND_TRIP_NS_MAX);
        assert_eq!(found, None);
        assert_eq!(skew.ms(), 0);
        assert_eq!(skew.measure(now_ns, now_ns, ROUND_TRIP_NS_MAX), None);
        assert_eq!(skew.ms(), 50);
        let found = skew.measure(now_ns + SECOND_NS, now_ns, ROUND_TRIP_NS_MAX + 1);
        assert_eq!(found, None);
        assert_eq!(skew.ms(), 50);
        for forged in [0, 1 << 63, u64::MAX] {
            skew.measure(forged, now_ns, 0);
            assert!(skew.ms() > 40_000);
        }
    }

    #[test]
    fn a_large_clock_skew_stops_writes_only_in_namespaces_with_expiration() {
        let mut namespace = NamespaceSettings::new("test");
        assert!(stops_writes(STOP_MS + 1, &namespace) && !stops_writes(STOP_MS, &namespace));
        namespace.nsup_period_sec = 0;
        assert!(!stops_writes(u64::MAX, &namespace));
    }
}
