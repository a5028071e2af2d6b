//! Number of drives of one model that a cluster's load needs, and the limit that decides.
//!
//! ```text
//! Profile ------demand-------> I/O and data of each node's drives         \
//!                                                                        need -> drives a node, deciding limit
//! a run, a rating --Supply-> sustained I/O and capacity of one drive    /
//! ```
//!
//! The main idea: a drive that sustained certain rates of reads, writes, bytes read and bytes written, all at once and
//! within the limits, sustains any load that is lower in all four. So the largest of the four ratios of load to drive
//! gives the number of drives. If the drive ran exactly this load, or a multiple of it, all four ratios agree and the
//! number of drives is measured. Otherwise the number is an estimate, and rather too high than too low if the I/O sizes
//! are between the measured sizes.

use crate::align::RequestedLoad;
use crate::drive_io::DriveIo;
use crate::profile::Profile;
use act::ActConfig;
use act::scale::LOAD_1X;
use serde::Serialize;
use std::collections::BTreeMap;

/// Assumed smallest I/O of a drive, bytes.
const MIN_IO_BYTES: u32 = 512;
const DAY_SEC: f64 = 86_400.0;
const DAYS_PER_YEAR: f64 = 365.0;

/// Default tolerance of an alignment, as a fraction: the rates of an aligned load are no more accurate.
const ALIGNED: f64 = 0.02;

/// Two loads count as the same mix if the largest of their four ratios is at most this many times the smallest.
const SAME_MIX: f64 = 1.05;

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ClusterDemand {
    pub nodes: Vec<NodeDemand>,
    /// Number of drives with shadow devices only, which `nodes` does not contain: usually network volumes.
    pub shadows: usize,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NodeDemand {
    pub node: String,
    /// Current I/O of each drive of the node.
    pub drives: Vec<DriveIo>,
    /// Bytes of records on all drives of the node; `None` if unknown for any drive.
    pub used_bytes: Option<u64>,
}

impl NodeDemand {
    fn io(&self) -> DriveIo {
        self.drives.iter().copied().sum()
    }
}

impl ClusterDemand {
    pub fn from_profile(profile: &Profile) -> Self {
        let mut nodes: BTreeMap<&str, Vec<DriveIo>> = BTreeMap::new();
        let (data, shadows): (Vec<_>, Vec<_>) = profile.drives.iter().partition(|drive| {
            let mut loads = profile.loads_on(drive).peekable();
            loads.peek().is_none() || loads.any(|load| !load.is_shadow())
        });
        for drive in data {
            nodes.entry(&drive.node).or_default().push(drive.io());
        }
        let nodes = nodes.into_iter().map(|(node, drives)| NodeDemand {
            node: node.to_owned(),
            drives,
            used_bytes: used_bytes(profile, node),
        });
        Self {
            nodes: nodes.collect(),
            shadows: shadows.len(),
        }
    }

    pub fn drives(&self) -> usize {
        self.nodes.iter().map(|node| node.drives.len()).sum()
    }

    /// Mean I/O of a drive.
    fn mean(&self) -> DriveIo {
        let count = self.drives().max(1) as f64;
        self.nodes
            .iter()
            .map(NodeDemand::io)
            .sum::<DriveIo>()
            .map(|n| n / count)
    }
}

/// Bytes of all records on the drives of `node`; `None` if they are unknown.
fn used_bytes(profile: &Profile, node: &str) -> Option<u64> {
    let drives = profile.drives.iter().filter(|drive| drive.node == node);
    let loads = drives.flat_map(|drive| profile.loads_on(drive));
    let used: Option<u64> = loads
        .filter(|load| !load.is_shadow())
        .map(|load| load.used_bytes)
        .sum();
    used.filter(|bytes| *bytes > 0)
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Supply {
    /// I/O that the drive sustained within the limits, all four rates at once.
    pub io: DriveIo,
    pub capacity_bytes: Option<f64>,
    /// Endurance: total bytes that may be written to the drive.
    pub rated_bytes: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct SizingTerms {
    /// The load as a multiple of the current load.
    pub scale: f64,
    /// The data as a multiple of the current amount.
    pub data_scale: f64,
    /// Maximum filled fraction of a drive's capacity.
    pub fill: f64,
    /// Years for which a drive must last.
    pub years: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum BindingLimit {
    Reads,
    Writes,
    ReadBandwidth,
    WriteBandwidth,
    Capacity,
    /// Bytes written until the drive is worn out.
    Wear,
}

impl BindingLimit {
    /// The limits of a load, in the order of its numbers.
    const OF_LOAD: [Self; 4] = [
        Self::Reads,
        Self::Writes,
        Self::ReadBandwidth,
        Self::WriteBandwidth,
    ];

    /// Fraction of a drive that is ignored when rounding up. A load is known only to within the tolerance of alignment;
    /// for capacity and wear only rounding errors are ignored.
    fn slack(self) -> f64 {
        if Self::OF_LOAD.contains(&self) {
            ALIGNED
        } else {
            1e-9
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Reads => "reads",
            Self::Writes => "writes",
            Self::ReadBandwidth => "read bandwidth",
            Self::WriteBandwidth => "write bandwidth",
            Self::Capacity => "capacity",
            Self::Wear => "wear",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Need {
    /// Drives on each node: the number that the most demanding node needs.
    pub per_node: u64,
    /// Drives on all nodes together, with `per_node` on each.
    pub in_all: u64,
    /// Number of drives that the most demanding node needs, before rounding up.
    pub exact: f64,
    pub limit: BindingLimit,
}

/// Number of drives for a load. `None`: a required rate is 0 on the drive, so that no number suffices, or there is no
/// load.
pub fn need(demand: &ClusterDemand, supply: &Supply, terms: &SizingTerms) -> Option<Need> {
    // Rounding keeps infinity, which is handled below.
    let whole = |(exact, limit): (f64, BindingLimit)| {
        ((exact - limit.slack()).ceil().max(1.0), exact, limit)
    };
    let each = demand
        .nodes
        .iter()
        .flat_map(|node| shares(node, supply, terms))
        .map(whole);
    let (drives, exact, limit) =
        each.max_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)))?;
    let per_node = drives as u64;
    let nodes = demand.nodes.len() as u64;
    drives.is_finite().then(|| Need {
        per_node,
        in_all: per_node.saturating_mul(nodes),
        exact,
        limit,
    })
}

/// Drives that a node needs by each limit. Unknown limits are left out.
fn shares(node: &NodeDemand, supply: &Supply, terms: &SizingTerms) -> Vec<(f64, BindingLimit)> {
    let needed = node.io().numbers();
    let supplied = supply.io.numbers();
    let load = (0..4).filter(|n| needed[*n] > 0.0).map(|n| {
        let drives = if supplied[n] > 0.0 {
            needed[n] * terms.scale / supplied[n]
        } else {
            f64::INFINITY
        };
        (drives, BindingLimit::OF_LOAD[n])
    });
    let room = supply
        .capacity_bytes
        .map(|bytes| bytes * terms.fill)
        .zip(node.used_bytes);
    let room = room.map(|(room, used)| {
        (
            used as f64 * terms.data_scale / room,
            BindingLimit::Capacity,
        )
    });
    let written = needed[3] * 1024.0 * terms.scale * DAY_SEC * DAYS_PER_YEAR * terms.years;
    let wear = supply
        .rated_bytes
        .filter(|_| written > 0.0)
        .map(|rated| (written / rated, BindingLimit::Wear));
    load.chain(room).chain(wear).collect()
}

/// The load that the drive sustains, as a multiple of the load of the cluster's busiest drive; `None` without load.
pub fn times_the_busiest(demand: &ClusterDemand, supply: &Supply) -> Option<f64> {
    let supplied = supply.io.numbers();
    demand
        .nodes
        .iter()
        .flat_map(|node| &node.drives)
        .filter_map(|io: &DriveIo| {
            let asked = io.numbers();
            (0..4)
                .filter(|n| asked[*n] > 0.0)
                .map(|n| supplied[n] / asked[n])
                .min_by(f64::total_cmp)
        })
        .min_by(f64::total_cmp)
}

/// I/O that a drive with a published rating of `x` sustained: records of 1.5 KiB, two reads per write.
pub fn published(x: f64) -> DriveIo {
    let [reads, writes] = LOAD_1X.map(|(_, per_sec)| per_sec as u32);
    let config = ActConfig {
        device_names: "sim:".parse().into_iter().collect(),
        test_duration_sec: 1,
        read_reqs_per_sec: reads,
        write_reqs_per_sec: writes,
        ..ActConfig::default()
    };
    let load = RequestedLoad::from_config(&config, MIN_IO_BYTES)
        .map(|load| load.io())
        .unwrap_or_default();
    load.map(|n| n * x)
}

/// True if the drive's measured I/O is this cluster's load, or a multiple of it: all four numbers have the same ratio.
pub fn is_same_mix(demand: &ClusterDemand, measured: &DriveIo) -> bool {
    let mean = demand.mean().numbers();
    let measured_numbers = measured.numbers();
    if (0..4).any(|n| (mean[n] > 0.0) != (measured_numbers[n] > 0.0)) {
        return false;
    }
    let times = (0..4)
        .filter(|n| mean[*n] > 0.0)
        .map(|n| measured_numbers[n] / mean[n]);
    let (least, most) = times.fold((f64::INFINITY, 0.0_f64), |(least, most), x| {
        (least.min(x), most.max(x))
    });
    most <= least * SAME_MIX
}

#[cfg(test)]
mod tests;
