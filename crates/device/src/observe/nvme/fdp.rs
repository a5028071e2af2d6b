//! Flexible Data Placement, as reported by a drive: NVM Express Base Specification 2.1, 3.2.4 and 8.1.10.
//!
//! ```text
//! Identify Controller  CTRATT bit 19 -> has FDP          Log page 20h -> available configurations
//! Identify Namespace   ENDGID        -> endurance group  Feature 1Dh  -> enabled configuration, if any
//! I/O Management Receive -> PlacementHandles of the namespace
//! Log page 21h -> users of handles                       Log page 22h -> bytes written in the group
//! ```
//! A write names an index into the namespace's placement list. flashproof counts from 1, as the kernel's write streams
//! do; the drive counts from 0. All commands are queries that change nothing.

use super::{Controller, IDENTIFY_BYTES, NvmeNamespace, QueryError, little_endian};
use crate::discover::DeviceFacts;
use results::bytes_written::WrittenBytes;
use results::format;
use serde::Serialize;
use std::fmt;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use sys::nvme::{Query, namespace_id, query_bytes, send_query};

/// Maximum length of a log that is read; longer than the log of any real drive.
const LOG_BYTES_MAX: usize = 1 << 16;

/// FDP facts of a drive that concern one namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Fdp {
    /// Endurance group of the namespace, to which all other fields belong.
    pub endurance_group: u16,
    pub state: FdpState,
    /// Available configurations of the endurance group.
    pub configurations: Vec<FdpConfiguration>,
    /// User of each reclaim unit handle of the group.
    pub handle_users: Vec<HandleUser>,
    /// Placement list of the namespace; empty if the namespace has none, or if FDP is off.
    pub placement: Vec<PlacementHandle>,
    /// Bytes written over the drive's life in the endurance group.
    pub statistics: Option<WrittenBytes>,
    /// Facts that could not be read, each with the reason.
    pub unknown: Vec<String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FdpState {
    /// Not reported by the drive.
    #[default]
    Unknown,
    Off,
    /// The configuration with this number is enabled.
    On(u8),
}

impl FdpState {
    fn parse(result: u32) -> Self {
        if result & 1 != 0 {
            Self::On((result >> 8) as u8)
        } else {
            Self::Off
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FdpConfiguration {
    pub index: u8,
    /// True if the drive accepts this configuration now.
    pub valid: bool,
    pub reclaim_unit_bytes: u64,
    pub reclaim_groups: u32,
    /// Isolation type of each reclaim unit handle.
    pub handles: Vec<Isolation>,
    /// Maximum length of a namespace's placement list.
    pub placement_handles_max: u32,
    pub namespaces_max: u32,
}

/// Treatment of a handle's data by garbage collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Isolation {
    /// Garbage collection may mix the data with data of other handles.
    Initially,
    /// Garbage collection keeps the data of the handle together.
    Persistently,
    /// Value of a later specification.
    Unknown,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum HandleUser {
    Unused,
    /// A namespace with the handle in its placement list.
    Host,
    /// Namespaces without a placement list.
    Controller,
    /// Value of a later specification.
    Unknown,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct PlacementHandle {
    /// Placement identifier that a write command carries.
    pub placement_id: u16,
    pub reclaim_unit_handle: u16,
    /// Blocks that still fit into the current reclaim unit of the handle.
    pub reclaim_unit_blocks_left: u64,
}

impl Fdp {
    /// `None` without NVMe or FDP. Errors: the controller or the namespace cannot be opened, or refuses a query.
    pub fn read(root: &Path, facts: &DeviceFacts) -> Result<Option<Self>, String> {
        let Some((number, disk)) = facts
            .disk_number()
            .zip(facts.disk_name())
            .filter(|_| facts.is_nvme())
        else {
            return Ok(None);
        };
        let Some(controller) = Controller::find(root, number) else {
            return Err("its controller cannot be opened".to_owned());
        };
        let node = File::open(root.join("dev").join(disk)).map_err(|error| error.to_string())?;
        controller.fdp(&node).map_err(|error| error.to_string())
    }

    /// Returns the value in `result`. On an error, notes that `item` is unknown, and returns the default value.
    fn known<T: Default>(&mut self, item: &str, result: Result<T, QueryError>) -> T {
        result.unwrap_or_else(|error| {
            self.unknown.push(format!("{item}: {error}"));
            T::default()
        })
    }

    pub fn configuration(&self) -> Option<&FdpConfiguration> {
        self.configurations
            .iter()
            .find(|one| self.state == FdpState::On(one.index))
    }

    /// Why writes to the namespace cannot name a placement handle; `None` if writes can, or if that is unknown.
    pub fn why_no_handles(&self) -> Option<&'static str> {
        match self.state {
            FdpState::Off => Some("the drive has FDP, but FDP is off"),
            FdpState::On(_) if self.placement.is_empty() && self.unknown.is_empty() => {
                Some("FDP is on, but the namespace was created without placement handles")
            }
            _ => None,
        }
    }
}

/// Plain text, one line each: current and available configurations, the namespace's handles, and bytes written.
impl fmt::Display for Fdp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = |bytes: u64| format::bytes(bytes as f64);
        let group = self.endurance_group;
        match self.state {
            FdpState::On(index) => {
                writeln!(f, "on in endurance group {group}, configuration {index}")?
            }
            FdpState::Off => writeln!(
                f,
                "off in endurance group {group}; available configurations:"
            )?,
            FdpState::Unknown => writeln!(
                f,
                "unknown state in endurance group {group}; available configurations:"
            )?,
        }
        let is_shown = |one: &&FdpConfiguration| match self.state {
            FdpState::On(on) => on == one.index,
            FdpState::Off | FdpState::Unknown => true,
        };
        for configuration in self.configurations.iter().filter(is_shown) {
            let FdpConfiguration {
                index,
                handles,
                reclaim_unit_bytes,
                reclaim_groups,
                ..
            } = configuration;
            let count_of = |kind| handles.iter().filter(|handle| **handle == kind).count();
            let initially = count_of(Isolation::Initially);
            let persistently = count_of(Isolation::Persistently);
            writeln!(
                f,
                "configuration {index}: {} ({initially} initially, {persistently} persistently isolated), reclaim unit {}, {}",
                format::count(handles.len() as u64, "reclaim unit handle"),
                bytes(*reclaim_unit_bytes),
                format::count((*reclaim_groups).into(), "reclaim group"),
            )?;
        }
        if !self.placement.is_empty() {
            let handles: Vec<_> = self
                .placement
                .iter()
                .map(|handle| handle.reclaim_unit_handle.to_string())
                .collect();
            let count = format::count(handles.len() as u64, "placement handle");
            writeln!(
                f,
                "its namespace may use {count}: reclaim unit handles {}",
                handles.join(", ")
            )?;
        } else if let Some(hindrance) = self.why_no_handles() {
            writeln!(
                f,
                "{hindrance}: writes cannot name a handle (`flashproof waf setup DEVICE` prints how to change this)"
            )?;
        }
        if let Some(totals) = self.statistics {
            let waf = totals
                .waf()
                .map(|waf| format!(", device WAF {waf:.2}"))
                .unwrap_or_default();
            let host = bytes(totals.host);
            let media = bytes(totals.media);
            let erased = bytes(totals.erased);
            writeln!(
                f,
                "over the drive's life, hosts wrote {host}; the drive wrote {media} to the media and erased {erased}{waf}"
            )?;
        }
        self.unknown
            .iter()
            .try_for_each(|what| writeln!(f, "could not be read: {what}"))
    }
}

impl Controller {
    /// FDP facts of the namespace at `node`; `Ok(None)` without FDP. Errors: a mandatory query was refused.
    pub fn fdp(&self, node: &File) -> Result<Option<Fdp>, QueryError> {
        let Some(endurance_group) = self.endurance_group()? else {
            return Ok(None);
        };
        let mut fdp = Fdp {
            endurance_group,
            ..Fdp::default()
        };
        let fd = self.file.as_fd();
        let group = endurance_group;
        let page = log(fd, Query::FdpConfigurations(group), 16, |head| {
            little_endian::<4>(head, 4)
        });
        fdp.configurations =
            fdp.known("its configurations", page.map(|page| configurations(&page)));
        let feature = send_query(fd, Query::FdpFeature(group), &mut []);
        fdp.state = fdp.known("the FDP state", feature.map(FdpState::parse));
        if matches!(fdp.state, FdpState::On(_)) {
            let page = log(fd, Query::FdpUsage(group), 8, |head| {
                8 + 8 * little_endian::<2>(head, 0)
            });
            fdp.handle_users = fdp.known(
                "the users of its handles",
                page.map(|page| handle_users(&page)),
            );
            let nsid = namespace_id(node.as_fd()).map_err(QueryError::Io);
            let list = nsid.and_then(|nsid| placement_list(node, nsid));
            fdp.placement = fdp.known("the placement list of the namespace", list);
            fdp.statistics = fdp.known("the FDP statistics", self.fdp_statistics());
        }
        Ok(Some(fdp))
    }

    /// `None` without FDP. The drive is queried only once.
    fn endurance_group(&self) -> Result<Option<u16>, QueryError> {
        if let Some(group) = self.group.get() {
            return Ok(*group);
        }
        let has_fdp = is_supported(self.file.as_fd())?;
        let group = match self.nsid.filter(|_| has_fdp) {
            None => None,
            Some(nsid) => {
                let identify =
                    query_bytes(self.file.as_fd(), Query::Namespace(nsid), IDENTIFY_BYTES)?;
                Some(NvmeNamespace::parse(nsid, &identify).endurance_group)
                    .filter(|group| *group != 0)
            }
        };
        Ok(*self.group.get_or_init(|| group))
    }

    /// Bytes written in the endurance group of the namespace; `Ok(None)` without FDP. Errors: the drive or the kernel
    /// refused a query, as the drive does if FDP is off ([`QueryError::Status`]).
    pub fn fdp_statistics(&self) -> Result<Option<WrittenBytes>, QueryError> {
        let Some(group) = self.endurance_group()? else {
            return Ok(None);
        };
        query_bytes(self.file.as_fd(), Query::FdpStatistics(group), 64)
            .map(|page| Some(statistics(&page)))
    }
}

/// True if the drive supports FDP, enabled or not.
pub(crate) fn is_supported(fd: BorrowedFd<'_>) -> Result<bool, QueryError> {
    /// Bit of `CTRATT`.
    const HAS_FDP: u128 = 1 << 19;
    let controller = query_bytes(fd, Query::Controller, IDENTIFY_BYTES)?;
    Ok(little_endian::<4>(&controller, 96) & HAS_FDP != 0)
}

/// Reads the first `head_bytes` of an answer, computes its total length with `len`, and reads the whole answer.
fn log(
    fd: BorrowedFd<'_>,
    query: Query,
    head_bytes: usize,
    len: impl Fn(&[u8]) -> u128,
) -> Result<Vec<u8>, QueryError> {
    let head = query_bytes(fd, query, head_bytes)?;
    let log_bytes = usize::try_from(len(&head))
        .unwrap_or(usize::MAX)
        .clamp(head_bytes, LOG_BYTES_MAX);
    query_bytes(fd, query, log_bytes.next_multiple_of(4))
}

pub(crate) fn placement_list(node: &File, nsid: u32) -> Result<Vec<PlacementHandle>, QueryError> {
    // A drive may refuse a request for more bytes than its list has; QEMU does ("Data SGL Length Invalid").
    let answer = log(node.as_fd(), Query::ReclaimUnitHandles(nsid), 16, |head| {
        16 + 32 * little_endian::<2>(head, 14)
    })?;
    Ok(placement_handles(&answer))
}

/// Parses log page 20h.
pub fn configurations(page: &[u8]) -> Vec<FdpConfiguration> {
    let isolation = |kind: u8| match kind {
        1 => Isolation::Initially,
        2 => Isolation::Persistently,
        _ => Isolation::Unknown,
    };
    let count = little_endian::<2>(page, 0) as usize + 1;
    let mut rest = page.get(16..).unwrap_or_default();
    let mut parsed = Vec::new();
    while parsed.len() < count.min(256) {
        let len = little_endian::<2>(rest, 0) as usize;
        let Some(descriptor) = rest.get(..len).filter(|_| len >= 64) else {
            break;
        };
        let handles = descriptor[64..]
            .chunks_exact(4)
            .take(little_endian::<2>(descriptor, 8) as usize);
        parsed.push(FdpConfiguration {
            index: parsed.len() as u8,
            valid: descriptor[2] & 0x80 != 0,
            reclaim_unit_bytes: little_endian::<8>(descriptor, 16) as u64,
            reclaim_groups: little_endian::<4>(descriptor, 4) as u32,
            handles: handles.map(|handle| isolation(handle[0])).collect(),
            // The field is zero-based.
            placement_handles_max: little_endian::<2>(descriptor, 10) as u32 + 1,
            namespaces_max: little_endian::<4>(descriptor, 12) as u32,
        });
        rest = &rest[len..];
    }
    parsed
}

/// Parses log page 21h.
pub fn handle_users(page: &[u8]) -> Vec<HandleUser> {
    const USERS: [HandleUser; 3] = [HandleUser::Unused, HandleUser::Host, HandleUser::Controller];
    let entries = page
        .get(8..)
        .unwrap_or_default()
        .chunks_exact(8)
        .take(little_endian::<2>(page, 0) as usize);
    entries
        .map(|entry| {
            USERS
                .get(usize::from(entry[0] & 0x7))
                .copied()
                .unwrap_or(HandleUser::Unknown)
        })
        .collect()
}

/// Parses the answer to I/O Management Receive.
pub fn placement_handles(answer: &[u8]) -> Vec<PlacementHandle> {
    let entries = answer
        .get(16..)
        .unwrap_or_default()
        .chunks_exact(32)
        .take(little_endian::<2>(answer, 14) as usize);
    let handle = |entry: &[u8]| PlacementHandle {
        placement_id: little_endian::<2>(entry, 0) as u16,
        reclaim_unit_handle: little_endian::<2>(entry, 2) as u16,
        reclaim_unit_blocks_left: little_endian::<8>(entry, 8) as u64,
    };
    entries.map(handle).collect()
}

/// Parses log page 22h. Counters have 16 bytes, of which 8 are enough for any real value.
pub fn statistics(page: &[u8]) -> WrittenBytes {
    let counter = |at| u64::try_from(little_endian::<16>(page, at)).unwrap_or(u64::MAX);
    WrittenBytes {
        host: counter(0),
        media: counter(16),
        erased: counter(32),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use results::{assert_contains, assert_starts_with};

    /// Log pages 20h and 21h and the placement list of an emulated drive (QEMU 10.0) with eight handles, reclaim units
    /// of 16 MiB and one namespace, which has all eight handles.
    const CONFIGURATIONS: &[u8] = include_bytes!("../../../tests/data/nvme-fdp-20h.bin");
    const USERS: &[u8] = include_bytes!("../../../tests/data/nvme-fdp-21h.bin");
    const HANDLES: &[u8] = include_bytes!("../../../tests/data/nvme-fdp-ruhs.bin");

    #[test]
    fn the_recorded_pages_of_a_drive_are_parsed() {
        let expected = FdpConfiguration {
            index: 0,
            valid: true,
            reclaim_unit_bytes: 16 << 20,
            reclaim_groups: 1,
            handles: vec![Isolation::Initially; 8],
            placement_handles_max: 128,
            namespaces_max: 256,
        };
        assert_eq!(configurations(CONFIGURATIONS), [expected]);
        assert_eq!(handle_users(USERS), [HandleUser::Host; 8]);
        let handles = placement_handles(HANDLES);
        // The recorded answer ends within the eighth entry, which is therefore dropped.
        assert_eq!(handles.len(), 7);
        let third = PlacementHandle {
            placement_id: 2,
            reclaim_unit_handle: 2,
            reclaim_unit_blocks_left: 32768,
        };
        assert_eq!(handles[2], third);
    }

    #[test]
    fn the_state_of_fdp_is_described_in_words() {
        let on = Fdp {
            endurance_group: 1,
            state: FdpState::On(0),
            configurations: configurations(CONFIGURATIONS),
            placement: placement_handles(HANDLES)[..2].to_vec(),
            statistics: Some(WrittenBytes {
                host: 4 << 30,
                media: 6 << 30,
                erased: 1 << 30,
            }),
            ..Fdp::default()
        };
        let text = on.to_string();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[0], "on in endurance group 1, configuration 0");
        let handles = "8 reclaim unit handles (8 initially, 0 persistently isolated)";
        assert_eq!(
            lines[1],
            format!("configuration 0: {handles}, reclaim unit 16.8 MB, 1 reclaim group")
        );
        assert_eq!(
            lines[2],
            "its namespace may use 2 placement handles: reclaim unit handles 0, 1"
        );
        assert!(lines[3].contains("device WAF 1.50"), "{text}");
        assert_eq!((lines.len(), on.why_no_handles()), (4, None));
        let without = Fdp {
            placement: Vec::new(),
            ..on.clone()
        };
        assert_contains!(
            without,
            "the namespace was created without placement handles"
        );
        let off = Fdp {
            state: FdpState::Off,
            statistics: None,
            ..without
        };
        assert_starts_with!(
            off,
            "off in endurance group 1; available configurations:\nconfiguration 0:"
        );
        let found = off.why_no_handles();
        assert_eq!(found, Some("the drive has FDP, but FDP is off"));
        let unknown = Fdp {
            state: FdpState::Unknown,
            unknown: vec!["the FDP state: refused".to_owned()],
            ..off
        };
        let text = unknown.to_string();
        assert!(
            text.starts_with("unknown state in")
                && text.contains("could not be read: the FDP state: refused"),
            "{text}"
        );
        let found = unknown.why_no_handles();
        assert_eq!(found, None, "no advice to erase the drive");
    }

    #[test]
    fn several_configurations_in_one_page_are_parsed() {
        let mut page = vec![0; 16];
        page[0] = 1; // two configurations: the field is zero-based
        for (handles, kind) in [(2_u8, 1_u8), (3, 2)] {
            let mut one = vec![0; 64 + 4 * usize::from(handles) + 8];
            (one[0], one[8], one[16]) = (one.len() as u8, handles, 0x40);
            one[64..64 + 4 * usize::from(handles)]
                .chunks_exact_mut(4)
                .for_each(|handle| handle[0] = kind);
            page.extend(one);
        }
        let found = configurations(&page);
        assert_eq!(
            found
                .iter()
                .map(|one| (one.index, one.handles.len()))
                .collect::<Vec<_>>(),
            [(0, 2), (1, 3)]
        );
        assert_eq!(found[1].handles, [Isolation::Persistently; 3]);
        assert!(!found[0].valid);
    }

    #[test]
    fn truncated_or_inconsistent_pages_give_only_their_complete_entries() {
        for len in 0..CONFIGURATIONS.len() {
            let mut page = CONFIGURATIONS[..len].to_vec();
            page.iter_mut().take(2).for_each(|byte| *byte = 0xff);
            assert!(configurations(&page).is_empty(), "{len}");
        }
        let mut short = CONFIGURATIONS.to_vec();
        short[16] = 0; // a configuration of no length
        assert!(configurations(&short).is_empty());
        let full = [0xff; 64];
        assert!(handle_users(&full).len() == 7 && placement_handles(&full).len() == 1);
        assert!(
            configurations(&full).is_empty()
                && placement_handles(&[]).is_empty()
                && handle_users(&[1]).is_empty()
        );
    }

    #[test]
    fn counters_are_read_at_their_offsets_and_saturate_at_64_bits() {
        let mut page = [0; 64];
        page[0] = 1;
        page[17] = 1;
        page[39] = 1;
        let found = statistics(&page);
        assert_eq!(
            found,
            WrittenBytes {
                host: 1,
                media: 256,
                erased: 1 << 56
            }
        );
        page[8] = 1;
        assert_eq!(statistics(&page).host, u64::MAX);
        assert_eq!(statistics(&[]).host, 0);
    }
}
