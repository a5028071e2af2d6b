//! Simulated populations of drives under a common load. Shares no code with the detector.
//!
//! A latency is a product of factors: drive, host, load curve, temperature over the day, garbage collection in phases
//! of minutes, slowly changing noise, noise of each window, a rare stall, and the fault that the detector must find.

use conclusions::population::{Labels, LatencyWindow};

/// Time of a fault.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum When {
    Always,
    /// Slow for a tenth of the time, in random bursts of ten minutes on average.
    AtTimes,
    /// Slow from the tenth hour on.
    FromHour10,
}

#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) drives: usize,
    pub(crate) drives_of_host: usize,
    /// Standard deviation of the logarithm of latency, from drive to drive.
    pub(crate) drive_spread: f64,
    /// Standard deviation of the logarithm of latency, from host to host.
    pub(crate) host_spread: f64,
    /// True if the spread between drives has Student's distribution of 5 degrees of freedom; false: normal.
    pub(crate) heavy_tails: bool,
    /// Strength of noise and garbage collection; 0: none.
    pub(crate) noise: f64,
    pub(crate) seconds: u32,
    pub(crate) window_s: u32,
    pub(crate) missing: f64,
    /// Number of slow drives, each in a different host.
    pub(crate) slow_drives: usize,
    pub(crate) slow_hosts: usize,
    pub(crate) factor: f64,
    pub(crate) when: When,
}

impl Plan {
    /// 200 healthy drives in 20 hosts for a day.
    pub(crate) fn healthy() -> Self {
        Self {
            drives: 200,
            drives_of_host: 10,
            drive_spread: 0.03,
            host_spread: 0.015,
            heavy_tails: false,
            noise: 1.0,
            seconds: 86_400,
            window_s: 10,
            missing: 0.01,
            slow_drives: 0,
            slow_hosts: 0,
            factor: 1.0,
            when: When::Always,
        }
    }
}

pub(crate) struct Population {
    pub(crate) labels: Vec<Labels>,
    pub(crate) windows: Vec<Vec<LatencyWindow>>,
    pub(crate) slow_drives: Vec<usize>,
    pub(crate) slow_hosts: Vec<String>,
}

/// SplitMix64 (Steele, Lea and Flood 2014).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Uniform in (0, 1).
    pub(crate) fn uniform(&mut self) -> f64 {
        ((self.next() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }

    /// Standard normal, by Box and Muller.
    pub(crate) fn normal(&mut self) -> f64 {
        (-2.0 * self.uniform().ln()).sqrt() * (std::f64::consts::TAU * self.uniform()).cos()
    }

    /// Student's distribution with 5 degrees of freedom, scaled to a variance of 1.
    fn student5(&mut self) -> f64 {
        let squares: f64 = (0..5).map(|_| self.normal().powi(2)).sum();
        self.normal() / (squares / 5.0).sqrt() * (3.0_f64 / 5.0).sqrt()
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.uniform() * limit as f64) as usize
    }
}

pub(crate) fn draw(plan: &Plan, seed: u64) -> Population {
    let mut random = Random(seed.wrapping_mul(0xD134_2543_DE82_EF95) ^ 0x5DEE_CE66);
    let hosts = plan.drives.div_ceil(plan.drives_of_host);
    let mut order: Vec<usize> = (0..hosts).collect();
    for at in (1..hosts).rev() {
        order.swap(at, random.below(at + 1));
    }
    let slow_hosts: Vec<usize> = order.iter().rev().take(plan.slow_hosts).copied().collect();
    let slow_drives: Vec<usize> = order[..plan.slow_drives.min(hosts)]
        .iter()
        .map(|host| {
            let first = host * plan.drives_of_host;
            first + random.below(plan.drives_of_host.min(plan.drives - first))
        })
        .collect();
    let host_levels: Vec<f64> = (0..hosts)
        .map(|_| plan.host_spread * random.normal())
        .collect();
    let mut labels = Vec::new();
    let mut windows = Vec::new();
    for drive in 0..plan.drives {
        let host = drive / plan.drives_of_host;
        labels.push(Labels {
            drive: format!("S{drive:04}"),
            model: "A".into(),
            firmware: "1.0".into(),
            host: format!("h{host:02}"),
            slot: format!("{}", drive % plan.drives_of_host),
            campaign: String::new(),
        });
        let level = if plan.heavy_tails {
            random.student5()
        } else {
            random.normal()
        };
        let level = host_levels[host] + plan.drive_spread * level;
        let is_slow = slow_drives.contains(&drive) || slow_hosts.contains(&host);
        let fault = if is_slow { plan.factor.ln() } else { 0.0 };
        let mut own = Random(random.next());
        windows.push(series(plan, level, fault, &mut own));
    }
    let mut slow_drives = slow_drives;
    slow_drives.sort_unstable();
    Population {
        labels,
        windows,
        slow_drives,
        slow_hosts: slow_hosts
            .iter()
            .map(|host| format!("h{host:02}"))
            .collect(),
    }
}

fn series(plan: &Plan, level: f64, fault: f64, random: &mut Random) -> Vec<LatencyWindow> {
    let step = f64::from(plan.window_s);
    let heat = 0.06 * (1.0 + 0.3 * plan.noise * random.normal());
    // Garbage collection: on for about 5 minutes, off for about 25; the intensity depends on the drive.
    let collection = 1.5_f64.ln() * (0.15 * random.normal()).exp();
    let off_s = 1_500.0 * (0.1 * random.normal()).exp();
    let mut is_collecting = random.uniform() < 1.0 / 6.0;
    let mut is_burst = false;
    let mut slow_noise = random.normal();
    let keep = (-step / 300.0).exp();
    let mut windows = Vec::new();
    for at in 0..plan.seconds / plan.window_s {
        let start_s = f64::from(at) * step;
        let day = std::f64::consts::TAU * start_s / 86_400.0;
        // The planned load is the same for all drives: a curve over the day, and another level every hour.
        let hour = ((start_s / 3_600.0) as u64).wrapping_mul(0x9E37_79B9) >> 4 & 0xFF;
        let planned = 20_000.0 * (1.0 + 0.3 * day.sin()) * (0.8 + 0.4 * hour as f64 / 255.0);
        let load = planned * (1.0 + 0.01 * plan.noise * random.normal());

        slow_noise = keep * slow_noise + (1.0 - keep * keep).sqrt() * random.normal();
        let leaves = if is_collecting {
            step / 300.0
        } else {
            step / off_s
        };
        if random.uniform() < leaves {
            is_collecting = !is_collecting;
        }
        let leaves = if is_burst {
            step / 600.0
        } else {
            step / 5_400.0
        };
        if random.uniform() < leaves {
            is_burst = !is_burst;
        }
        let is_faulty = match plan.when {
            When::Always => true,
            When::AtTimes => is_burst,
            When::FromHour10 => start_s >= 36_000.0,
        };
        let collecting = if is_collecting {
            plan.noise * collection
        } else {
            0.0
        };
        let stall = if random.uniform() < 0.001 * plan.noise {
            10_f64.ln()
        } else {
            0.0
        };
        let common = level + heat * (day - 1.0).sin() + if is_faulty { fault } else { 0.0 };
        let common = common + plan.noise * 0.04 * slow_noise - (1.0 - load / 60_000.0).ln();
        let mut latency = |usual_ns: f64, extra: f64, noise: f64| {
            usual_ns * (common + extra + plan.noise * noise * random.normal()).exp()
        };
        let window = LatencyWindow {
            start_s,
            load,
            mean_ns: latency(90_000.0, collecting + stall, 0.03),
            p50_ns: latency(80_000.0, 0.7 * collecting, 0.02),
            p99_ns: latency(400_000.0, 1.8 * collecting + 0.5 * stall, 0.10),
        };
        if random.uniform() >= plan.missing {
            windows.push(window);
        }
    }
    windows
}
