//! Mechanisms for the placement handles of writes, and checks that they are available.
//!
//! | carried by | by engine | needs | handles of a device |
//! |---|---|---|---|
//! | a write stream of io_uring | `uring` | Linux 6.16 (`queue/max_write_streams`), FDP on | as many as the kernel has streams |
//! | an NVMe directive | `passthrough` | Linux 6.1, root, FDP on | those of the placement list |
//! | `F_SET_RW_HINT` | `threads` | Linux 6.16, FDP on | one: all writes share the inode's hint |
//!
//! A load with handles is refused here, before anything is written, if its device has none of these mechanisms. As a
//! last guard, the engine refuses each write whose handle cannot be carried (`EOPNOTSUPP`).

use crate::failure::{Failure, collect_all};
use device::nvme_generic::NvmeGeneric;
use device::target::Target;
use std::collections::BTreeSet;
use std::sync::Arc;
use sys::op::Placement;

/// Largest write hint of the kernel (`RWH_WRITE_LIFE_EXTREME`).
const HINT_MAX: u16 = 5;

/// For each device, the placement of each kind of write (`None`: no handle). Devices beyond the end have no placements.
pub(crate) type PlacementKinds = [Vec<Option<Placement>>];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlacementMechanism {
    Streams,
    /// NVMe's data placement directive, in each command.
    Directives,
    /// The write hint of the inode.
    Hint,
}

results::display!(PlacementMechanism {
    Streams => "write streams of io_uring",
    Directives => "NVMe data placement directives",
    Hint => "F_SET_RW_HINT, one for each device",
});

/// True if the requested handles need passthrough: the kernel has too few write streams for a device.
pub(crate) fn needs_passthrough(placements: &PlacementKinds, targets: &[Arc<Target>]) -> bool {
    placement_requests(placements, targets).any(|request| {
        let target = request.target;
        target.write_streams() < last(&request.placement_handles) && target.facts().is_nvme()
    })
}

pub(crate) fn by_streams(
    placements: &PlacementKinds,
    targets: &[Arc<Target>],
) -> Result<Option<PlacementMechanism>, Failure> {
    mechanism(placements, targets, |request| {
        let streams = request.target.write_streams();
        if last(&request.placement_handles) <= streams {
            return Ok(PlacementMechanism::Streams);
        }
        Err(why_no_streams(
            request.target.facts().max_write_streams,
            streams,
        ))
    })
}

/// Checks that each namespace in `generics` has enough placement handles.
pub(crate) fn by_directives(
    placements: &PlacementKinds,
    targets: &[Arc<Target>],
    generics: &[Arc<NvmeGeneric>],
) -> Result<Option<PlacementMechanism>, Failure> {
    mechanism(placements, targets, |request| {
        let handles = targets
            .iter()
            .zip(generics)
            .find(|(other, _)| Arc::ptr_eq(other, request.target))
            .map_or(0, |(_, generic)| generic.namespace().placement_ids.len());
        if usize::from(last(&request.placement_handles)) <= handles {
            return Ok(PlacementMechanism::Directives);
        }
        Err(match handles {
            0 => "its namespace has no placement list: the drive has no FDP, FDP is off, or the namespace was created \
                  without handles - `flashproof doctor` shows the cause, `flashproof waf setup DEVICE` prints the commands \
                  that create handles"
                .to_owned(),
            _ => format!(
                "its placement list has handles 1 to {handles} - use lower handles, or a namespace with more handles"
            ),
        })
    })
}

/// Sets the write hint of each device. A device can have only one write hint.
pub(crate) fn by_hint(
    placements: &PlacementKinds,
    targets: &[Arc<Target>],
) -> Result<Option<PlacementMechanism>, Failure> {
    mechanism(placements, targets, |request| {
        let target = request.target;
        let handle = last(&request.placement_handles);
        let streams = target.write_streams();
        Err(if handle > streams {
            why_no_streams(target.facts().max_write_streams, streams)
        } else if request.placement_handles.len() > 1 {
            "without io_uring, a placement handle is a write hint of the inode (F_SET_RW_HINT), and a device has only one - \
             set engine: uring or engine: passthrough"
                .to_owned()
        } else if request.has_others {
            "without io_uring, a placement handle is a write hint of the inode (F_SET_RW_HINT), and would also apply to the \
             writes without a handle - give all writes this handle, or set engine: uring or engine: passthrough"
                .to_owned()
        } else if handle > HINT_MAX {
            format!(
                "without io_uring, a placement handle is a write hint of the inode (F_SET_RW_HINT), at most {HINT_MAX} - set \
                 engine: uring"
            )
        } else {
            let set = target.set_write_hint(handle);
            return set
                .map(|()| PlacementMechanism::Hint)
                .map_err(|error| format!("F_SET_RW_HINT failed ({error}) - set engine: uring"));
        })
    })
}

struct PlacementRequest<'a> {
    target: &'a Arc<Target>,
    placement_handles: BTreeSet<u16>,
    has_others: bool,
}

fn placement_requests<'a>(
    placements: &'a PlacementKinds,
    targets: &'a [Arc<Target>],
) -> impl Iterator<Item = PlacementRequest<'a>> {
    let requests = targets
        .iter()
        .zip(placements)
        .map(|(target, kinds)| PlacementRequest {
            target,
            placement_handles: kinds.iter().flatten().map(|place| place.0).collect(),
            has_others: kinds.contains(&None),
        });
    requests.filter(|request| !request.placement_handles.is_empty())
}

fn last(placement_handles: &BTreeSet<u16>) -> u16 {
    placement_handles.last().copied().unwrap_or(0)
}

/// The placement mechanism that `check` finds for each device with placements. Errors: for each device without the
/// mechanism, the reason.
fn mechanism(
    placements: &PlacementKinds,
    targets: &[Arc<Target>],
    check: impl Fn(&PlacementRequest<'_>) -> Result<PlacementMechanism, String>,
) -> Result<Option<PlacementMechanism>, Failure> {
    let checked = placement_requests(placements, targets)
        .map(|request| check(&request).map_err(|why| request.refusal(&why)));
    collect_all(checked, Failure::environment).map(|found: Vec<_>| found.first().copied())
}

impl PlacementRequest<'_> {
    fn refusal(&self, why: &str) -> String {
        let handles: Vec<_> = self.placement_handles.iter().map(u16::to_string).collect();
        let plural = if handles.len() == 1 { "" } else { "s" };
        format!(
            "cannot use placement handle{plural} {} of {} - {why}; nothing was written",
            handles.join(", "),
            self.target.name()
        )
    }
}

fn why_no_streams(max_write_streams: Option<u16>, streams: u16) -> String {
    match max_write_streams {
        None => "this kernel has no write streams (queue/max_write_streams) - use Linux 6.16 or newer, or set engine: \
             passthrough"
            .to_owned(),
        Some(0) => {
            "the kernel has no write streams for this drive: it has no FDP, FDP is off, or the namespace was created \
             without handles - `flashproof doctor` shows the cause, `flashproof waf setup DEVICE` prints the commands \
             that create handles"
                .to_owned()
        }
        Some(_) => {
            format!(
                "the drive has write streams 1 to {streams} (queue/max_write_streams) - use lower handles, or create the \
                 namespace with more handles"
            )
        }
    }
}
