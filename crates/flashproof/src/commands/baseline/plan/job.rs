//! A job of a baseline, as fio takes it.

use super::size;
use conclusions::baseline::JobPurpose;
use fio::{GivenOption, JobSection};
use load::choice::with_defaults;

/// Minimum rate that is divided among clones, operations per second.
const RATE_DIVIDED_MIN: u64 = 1_000;

with_defaults! {
    /// A fio job, without the device.
    #[derive(Debug, Clone, PartialEq)]
    pub struct Job {
        /// For messages and reports: `reads at depth 32`.
        pub name: String = String::new(),
        pub part: JobPurpose = JobPurpose::Saturation,
        pub random: bool = true,
        pub read_pct: u32 = 0,
        /// Sizes of reads and of writes, bytes.
        pub bytes: [u64; 2] = [4096; 2],
        pub depth: u32 = 1,
        /// Clones of the job, each with this depth and rate.
        pub numjobs: u32 = 1,
        /// Reads and writes per second; `None`: unlimited.
        pub rates: Option<[u64; 2]> = None,
        /// True if operations of a rate arrive by a Poisson process instead of evenly.
        pub poisson: bool = false,
        pub round: u32 = 0,
        /// Maximum measured time, seconds.
        pub seconds: u64 = 1,
        pub ramp_ms: u64 = 0,
        /// Length of a round, seconds. The test of steadiness compares rounds.
        pub round_sec: u64 = 1,
        /// Position in the plan: part, and index in it. Drives that work at the same time have the same position.
        pub position: (usize, usize) = (0, 0),
    }
}

impl Job {
    /// For reads and for writes: true if the job issues them.
    pub fn does(&self) -> [bool; 2] {
        [self.read_pct > 0, self.read_pct < 100]
    }

    /// The same work divided among up to `threads` clones, a power of two, with at least two operations in flight each.
    /// Low rates are not divided: one thread is enough, and fractions of operations would be lost.
    pub(super) fn among(self, threads: u32) -> Self {
        let is_low = self.rates.is_some_and(|rates| {
            rates
                .iter()
                .zip(self.does())
                .any(|(rate, does)| does && *rate < RATE_DIVIDED_MIN)
        });
        let numjobs = if is_low {
            1
        } else {
            threads.min(self.depth / 2).max(1)
        };
        let rates = self
            .rates
            .map(|rates| rates.map(|rate| (rate / u64::from(numjobs)).max(1)));
        Self {
            depth: self.depth / numjobs,
            numjobs,
            rates,
            ..self
        }
    }

    fn options(&self) -> Vec<(&'static str, String)> {
        let random = if self.random { "rand" } else { "" };
        let rw = match (self.does(), self.random) {
            ([true, false], _) => format!("{random}read"),
            ([false, _], _) => format!("{random}write"),
            (_, true) => "randrw".to_owned(),
            (_, false) => "rw".to_owned(),
        };
        let is_mixed = self.does() == [true, true];
        let per_direction = |values: [String; 2]| match self.does() {
            [true, true] if values[0] != values[1] => values.join(","),
            [true, _] => values[0].clone(),
            _ => values[1].clone(),
        };
        let mut options = vec![("rw", rw)];
        if is_mixed && self.rates.is_none() {
            options.push(("rwmixread", self.read_pct.to_string()));
        }
        options.push(("bs", per_direction(self.bytes.map(size))));
        options.push(("iodepth", self.depth.to_string()));
        if self.numjobs > 1 {
            options.push(("numjobs", self.numjobs.to_string()));
            options.push(("group_reporting", "1".to_owned()));
            // Jobs of another drive that run at the same time are in another group.
            options.push(("new_group", "1".to_owned()));
        }
        if let Some(rates) = self.rates {
            let rates = rates.map(|rate| rate.to_string());
            // A single number would apply to both reads and writes.
            options.push((
                "rate_iops",
                if is_mixed {
                    rates.join(",")
                } else {
                    per_direction(rates)
                },
            ));
        }
        if self.poisson {
            options.push(("rate_process", "poisson".to_owned()));
        }
        options.extend([
            ("ioengine", "io_uring".to_owned()),
            ("direct", "1".to_owned()),
        ]);
        if self.random {
            options.push(("norandommap", "1".to_owned()));
        }
        options.extend([
            ("randrepeat", "0".to_owned()),
            ("refill_buffers", "1".to_owned()),
        ]);
        if self.ramp_ms > 0 {
            let ramp_time = match self.ramp_ms {
                ms if ms.is_multiple_of(1_000) => (ms / 1_000).to_string(),
                ms => format!("{ms}ms"),
            };
            options.push(("ramp_time", ramp_time));
        }
        options.extend([
            ("time_based", "1".to_owned()),
            ("runtime", self.seconds.to_string()),
        ]);
        options
    }

    pub fn line(&self) -> String {
        let words: Vec<_> = self
            .options()
            .iter()
            .map(|(name, value)| format!("--{name}={value}"))
            .collect();
        words.join(" ")
    }

    pub fn section(&self, name: &str, device: &str) -> JobSection {
        // A colon would separate file names, so colons are escaped, except in the prefix of a simulated drive.
        let (prefix, rest) = match device.strip_prefix(engine::sim::SIM_PREFIX) {
            Some(rest) => (engine::sim::SIM_PREFIX, rest),
            None => ("", device),
        };
        let filename = format!("{prefix}{}", rest.replace(':', "\\:"));
        let options = self.options().into_iter().chain([("filename", filename)]);
        let to_option =
            |(name, value): (&str, String)| GivenOption::new(name, value, "the baseline's job");
        JobSection {
            name: name.to_owned(),
            options: options.map(to_option).collect(),
        }
    }
}
