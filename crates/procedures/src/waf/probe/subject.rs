//! Requirements of the probe on a real drive: a whole NVMe namespace with at least two placement handles, on a drive
//! that counts media writes. Checked before anything is opened for writing.

use device::discover::{DeviceFacts, Kind};
use device::observe::nvme::fdp::{Configuration, Fdp, Isolation, PlacementHandle};
use device::observe::nvme::{Controller, CountedBy};
use results::units::{bytes, count, in_one_line, printable};
use session::failure::Failure;
use std::path::Path;
use sys::op::Placement;

/// One hot stream and two cold ones.
const HANDLES_MAX: usize = 3;

/// Minimum size of the namespace in reclaim units: the hot stream then fills and invalidates four.
const RECLAIM_UNITS_MIN: u64 = 9;

/// A namespace that can be probed.
pub(super) struct Subject {
    pub facts: DeviceFacts,
    pub controller: Controller,
    /// Log page of the counters.
    pub counted_by: CountedBy,
    /// Placements of the probe's handles, and the handles that they stand for.
    pub handles: Vec<(Placement, PlacementHandle)>,
    /// FDP configuration.
    pub configuration: Configuration,
}

impl Subject {
    /// The namespace of `facts`. Errors: why it cannot be probed, and what to do.
    pub(super) fn of(facts: DeviceFacts) -> Result<Self, Failure> {
        let cannot = |why: &str| format!("cannot probe {} - {why}", in_one_line(&facts.path));
        let refused = |why: &str| Failure::environment(cannot(why));
        if let Some(part) = &facts.partition {
            return Err(Failure::usage(cannot(&format!(
                "it is a partition, and the rest of the namespace would be flash that the firmware need not collect, or data \
                 of others that it moves: only the whole shows what it does - name /dev/{}",
                part.disk
            ))));
        }
        if facts.kind != Kind::WholeDisk || !facts.is_nvme() {
            return Err(Failure::usage(cannot(
                "it is no NVMe drive, and what is to be seen is what a firmware does with placement handles - name one with \
                 FDP (`flashproof doctor`), or a simulated drive: sim:ftl+handles=3",
            )));
        }
        if facts.max_discard_bytes.unwrap_or(0) == 0 {
            return Err(refused("it takes no deallocation, with which each part of the probe begins - name another"));
        }
        let fdp = Fdp::of(Path::new("/"), &facts).map_err(|why| refused(&format!("{why} - run as root")))?;
        let fdp = fdp.ok_or_else(|| refused("it has no FDP, so no write names a handle - name a drive that has"))?;
        let number = facts.number.ok_or_else(|| refused("the kernel tells no number of it - is it still there?"))?;
        let controller = Controller::find(Path::new("/"), (number.major, number.minor))
            .ok_or_else(|| refused("its controller cannot be opened - run as root"))?;
        let handles = distinct(&fdp.placement);
        let configuration = match (handles.len(), fdp.configuration()) {
            (0, _) => {
                let why = fdp.hindrance().map_or_else(
                    || format!("not known is {} - run as root", fdp.unknown.join(", ")),
                    |why| format!("{why} - `flashproof waf setup DEVICE` prints the commands that change it"),
                );
                return Err(refused(&why));
            }
            (1, _) => {
                return Err(refused(
                    "its namespace may write by 1 placement handle, and what is to be seen is whether one keeps its data from \
                     another's - create it with 2 or more (`flashproof waf setup DEVICE`)",
                ));
            }
            (_, None) => return Err(refused("it does not tell its FDP configuration - run as root")),
            (_, Some(configuration)) => configuration.clone(),
        };
        let room = facts.size_bytes.checked_div(configuration.reclaim_unit_bytes).unwrap_or(u64::MAX);
        if room < RECLAIM_UNITS_MIN {
            return Err(refused(&format!(
                "its namespace of {} holds {} of {}, and streams that fill few of them show nothing - create it with room for \
                 {RECLAIM_UNITS_MIN} or more",
                bytes(facts.size_bytes as f64),
                count(room, "reclaim unit"),
                bytes(configuration.reclaim_unit_bytes as f64)
            )));
        }
        match controller.counted() {
            Ok(Some((_, counted_by))) => Ok(Self { facts, controller, counted_by, handles, configuration }),
            Ok(None) => Err(refused(
                "no log of it counts the bytes that its media take (FDP statistics, OCP's SMART log), of which alone the \
                 result is made - look for newer firmware",
            )),
            Err(error) => Err(refused(&format!("its counters cannot be read: {error} - run as root"))),
        }
    }

    /// Description of the namespace, a line each.
    pub(super) fn about(&self) -> Vec<String> {
        let DeviceFacts { path, model, serial, firmware, size_bytes, .. } = &self.facts;
        let known = |what: &Option<String>| what.as_deref().map_or("unknown".to_owned(), |it| printable(it).into());
        let [model, serial, firmware] = [model, serial, firmware].map(known);
        let handles: Vec<_> = self.handles.iter().map(|(_, handle)| self.handle(handle)).collect();
        vec![
            format!(
                "{}: {model}, serial {serial}, firmware {firmware}, {}",
                in_one_line(path),
                bytes(*size_bytes as f64)
            ),
            format!(
                "reclaim unit handles {}; reclaim units of {}",
                handles.join(", "),
                bytes(self.configuration.reclaim_unit_bytes as f64)
            ),
        ]
    }

    /// True if the drive may move data of one of the handles together with data of others.
    pub(super) fn may_mix(&self) -> bool {
        self.handles.iter().any(|(_, handle)| self.isolation(handle) == Isolation::Initially)
    }

    fn isolation(&self, handle: &PlacementHandle) -> Isolation {
        let isolation = self.configuration.handles.get(usize::from(handle.reclaim_unit_handle));
        isolation.copied().unwrap_or(Isolation::Unknown)
    }

    fn handle(&self, handle: &PlacementHandle) -> String {
        let number = handle.reclaim_unit_handle;
        match self.isolation(handle) {
            Isolation::Initially => format!("{number} (initially isolated)"),
            Isolation::Persistently => format!("{number} (persistently isolated)"),
            Isolation::Unknown => number.to_string(),
        }
    }
}

/// First list entries with different reclaim unit handles: the list repeats each handle for every further reclaim
/// group.
fn distinct(list: &[PlacementHandle]) -> Vec<(Placement, PlacementHandle)> {
    let mut found: Vec<(Placement, PlacementHandle)> = Vec::new();
    for (place, handle) in (1..).zip(list) {
        if found.iter().all(|(_, other)| other.reclaim_unit_handle != handle.reclaim_unit_handle) {
            found.push((Placement(place), *handle));
        }
    }
    found.truncate(HANDLES_MAX);
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use device::discover::{Roots, discover};

    #[test]
    fn a_handle_is_taken_once_whatever_the_number_of_reclaim_groups() {
        let handle = |placement_id, reclaim_unit_handle| PlacementHandle {
            placement_id,
            reclaim_unit_handle,
            reclaim_unit_blocks_left: 0,
        };
        let list = [handle(0, 4), handle(0x100, 4), handle(1, 6), handle(2, 5), handle(3, 7)];
        let places: Vec<_> = distinct(&list).iter().map(|(place, it)| (place.0, it.reclaim_unit_handle)).collect();
        assert_eq!(places, [(1, 4), (3, 6), (4, 5)]);
    }

    #[test]
    fn a_file_is_no_drive() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let facts = discover(file.path().to_str().unwrap(), &Roots::default()).unwrap();
        let why = Subject::of(facts).err().unwrap().message;
        assert!(why.starts_with("cannot probe /") && why.contains("it is no NVMe drive"), "{why}");
    }
}
