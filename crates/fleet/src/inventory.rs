//! The drives of a host: their identity, location and availability.

use crate::{FILE_BYTES_MAX, failed};
use device::discover;
use device::doctor::{Attachment, read_smart};
use device::guard::{EraseSafety, Guard, GuardReport};
use engine::DeviceName;
use report::table::Table;
use results::files::{self, Instructions, Links, ReplaceTarget};
use results::format::{self, in_one_line, quoted};
use serde::{Deserialize, Serialize};
use session::clock::now_unix_ms;
use session::failure::Failure;
use std::path::{Path, PathBuf};

/// Version of the format, increased when a field changes its meaning.
pub const INVENTORY_VERSION: u32 = 1;

pub const INVENTORY_DIR: &str = "inventory";

/// Name of the host of a drive; `None` for a simulated drive, which every host has.
pub type DriveHost = Option<String>;

pub fn host_text(host: &DriveHost) -> &str {
    host.as_deref().unwrap_or("any")
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Inventory {
    pub format_version: u32,
    pub host: DriveHost,
    pub taken_unix_ms: u64,
    pub drives: Vec<InventoryDrive>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename = "Drive")]
pub struct InventoryDrive {
    /// Permanent name of the drive: the serial number; the world-wide name if several drives share the serial number;
    /// the path of a device that has neither.
    pub id: String,
    /// Path on its host, or `sim:...`.
    pub path: String,
    pub model: Option<String>,
    pub serial: Option<String>,
    pub wwid: Option<String>,
    pub firmware: Option<String>,
    pub size_bytes: u64,
    /// Label of the slot, or the PCI address.
    pub slot: Option<String>,
    /// PCIe link: `16 GT/s x4`.
    pub link: Option<String>,
    pub numa_node: Option<u32>,
    /// Endurance used, percent, by the drive's SMART log.
    pub wear_percent: Option<u8>,
    pub state: DriveState,
    /// Why the drive is not free, one phrase.
    pub why: Option<String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DriveState {
    /// The drive is not in use, and holds no data.
    #[default]
    Free,
    /// Not in use, but holds data: erased only with consent.
    HasData,
    /// Mounted, held, or open.
    InUse,
}

impl DriveState {
    fn text(self) -> &'static str {
        match self {
            Self::Free => "free",
            Self::HasData => "has data",
            Self::InUse => "in use",
        }
    }
}

impl InventoryDrive {
    pub fn is_simulated(&self) -> bool {
        self.path
            .parse()
            .is_ok_and(|name: DeviceName| name.drive().is_some())
    }

    /// `/dev/nvme0n1 (S64ANX0T402)`.
    pub(crate) fn full_name(&self) -> String {
        if self.id == self.path {
            self.path.clone()
        } else {
            format!("{} ({})", self.path, self.id)
        }
    }

    fn from_report(guard_report: GuardReport) -> Option<Self> {
        let facts = guard_report.facts?;
        let Attachment { slot, link } = Attachment::read(&guard_report.path, Path::new("/"));
        let wear_percent = read_smart(Path::new("/"), &facts)
            .ok()
            .map(|smart| smart.percentage_used);
        let (state, why) = match &guard_report.safety {
            EraseSafety::Yes => (DriveState::Free, None),
            EraseSafety::Asks(evidence) => (
                DriveState::HasData,
                evidence.first().map(ToString::to_string),
            ),
            EraseSafety::No(reasons) => {
                (DriveState::InUse, reasons.first().map(ToString::to_string))
            }
        };
        Some(Self {
            id: guard_report.erase_name,
            path: guard_report.path,
            model: facts.model.map(|model| model.trim().to_owned()),
            serial: facts.serial,
            wwid: facts.wwid,
            firmware: facts.firmware,
            size_bytes: facts.size_bytes,
            slot,
            link,
            numa_node: facts.numa_node,
            wear_percent,
            state,
            why,
        })
    }
}

impl Inventory {
    /// The drives of this host. Reads only; takes about a second.
    pub fn of_this_host() -> Self {
        let (disks, _) = discover::list(Path::new("/"));
        let paths: Vec<String> = disks.into_iter().map(|listed| listed.disk).collect();
        let drives = Guard::new(None)
            .examine_devices(&paths)
            .into_iter()
            .filter_map(InventoryDrive::from_report)
            .collect();
        Self::new(Some(crate::host_name()), drives)
    }

    /// `count` simulated drives described by `spec`, each with its own seed and serial number.
    pub fn simulated(spec: &str, count: u32) -> Result<Self, Failure> {
        let joint = if spec.ends_with(':') { "" } else { "+" };
        let mut drives = Vec::new();
        for number in 1..=count {
            let path = format!("{spec}{joint}seed={number}");
            let name: DeviceName = path.parse().map_err(|error| cannot_simulate(spec, error))?;
            let Some(drive) = name.drive() else {
                let why =
                    "it does not begin with sim: - give sim: or sim:channels=4, see docs/method.md";
                return Err(cannot_simulate(spec, why));
            };
            drives.push(InventoryDrive {
                id: format!("SIM{number:05}"),
                size_bytes: drive.capacity_bytes,
                path,
                model: Some("simulated".to_owned()),
                serial: Some(format!("SIM{number:05}")),
                ..InventoryDrive::default()
            });
        }
        Ok(Self::new(None, drives))
    }

    fn new(host: DriveHost, drives: Vec<InventoryDrive>) -> Self {
        Self {
            format_version: INVENTORY_VERSION,
            host,
            taken_unix_ms: now_unix_ms(),
            drives,
        }
    }

    /// Errors: not a regular file, too large, malformed (with the line), of another version, or a bad drive.
    pub fn read(path: &Path) -> Result<Self, Failure> {
        let shown = path.display();
        let remedy = "create it again with \"flashproof fleet inventory\"";
        let bytes =
            files::read_instructions(path, Links::Refused, Instructions::Data, FILE_BYTES_MAX)
                .map_err(|error| {
                    Failure::environment(format!(
                        "cannot read the inventory {shown} - {error} - {remedy}"
                    ))
                })?;
        let bad = |why: String| Failure::usage(format!("{shown}: {why} - {remedy}"));
        let inventory: Self =
            serde_json::from_slice(&bytes).map_err(|error| bad(in_one_line(&error.to_string())))?;
        if inventory.format_version != INVENTORY_VERSION {
            return Err(bad(format!(
                "its format version is {}, but this flashproof reads version {INVENTORY_VERSION}",
                inventory.format_version
            )));
        }
        if let Some(drive) = inventory
            .drives
            .iter()
            .find(|drive| inventory.host.is_none() && !drive.is_simulated())
        {
            return Err(bad(format!(
                "it names no host, but {} is a real device",
                quoted(&drive.path)
            )));
        }
        let is_plain = |text: &str| !text.is_empty() && !text.contains(format::is_unprintable);
        let names = inventory
            .drives
            .iter()
            .flat_map(|drive| [&drive.id, &drive.path])
            .chain(&inventory.host);
        if let Some(name) = names.into_iter().find(|name| !is_plain(name)) {
            return Err(bad(format!(
                "{} is not a valid name of a host or a drive",
                quoted(name)
            )));
        }
        Ok(inventory)
    }

    /// All inventories of the campaign in `dir`, by file name.
    pub fn read_all(dir: &Path) -> Result<Vec<(PathBuf, Self)>, Failure> {
        let folder = dir.join(INVENTORY_DIR);
        let advice = "create inventories with \"flashproof fleet inventory --out DIR\"";
        let mut paths = std::fs::read_dir(&folder)
            .and_then(|entries| {
                entries
                    .map(|entry| Ok(entry?.path()))
                    .collect::<std::io::Result<Vec<_>>>()
            })
            .map_err(|error| {
                Failure::usage(format!(
                    "cannot list the inventories in {} - {error} - {advice}",
                    folder.display()
                ))
            })?;
        paths.retain(|path| {
            path.extension()
                .is_some_and(|extension| extension == "json")
        });
        if paths.is_empty() {
            return Err(Failure::usage(format!(
                "{} has no inventory (*.json) - {advice}",
                folder.display()
            )));
        }
        paths.sort();
        paths
            .into_iter()
            .map(|path| Self::read(&path).map(|inventory| (path, inventory)))
            .collect()
    }

    /// Writes `DIR/inventory/HOST.json`, or `simulated.json`; replaces an older inventory. Returns the path.
    pub fn write(&self, dir: &Path) -> Result<PathBuf, Failure> {
        let folder = dir.join(INVENTORY_DIR);
        let name = self
            .host
            .as_deref()
            .unwrap_or("simulated")
            .replace('/', "-");
        let path = folder.join(format!("{name}.json"));
        let result = files::create_dirs(&folder).and_then(|_| {
            let text = serde_json::to_string_pretty(self).map_err(std::io::Error::other)? + "\n";
            files::replace(
                &path,
                text.as_bytes(),
                ReplaceTarget::Own("\"taken_unix_ms\""),
            )
        });
        result.map_err(|error| {
            let tried = format!("cannot write the inventory {}", path.display());
            failed(tried, &error, "give another directory with --out")
        })?;
        Ok(path)
    }

    pub fn table(inventories: &[Self]) -> String {
        let headings = [
            "HOST", "DEVICE", "SIZE", "MODEL", "SERIAL", "FIRMWARE", "SLOT", "LINK", "NUMA",
            "WEAR", "STATE", "WHY",
        ];
        let text = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
        let drives = inventories
            .iter()
            .flat_map(|inventory| inventory.drives.iter().map(move |drive| (inventory, drive)));
        Table::new("")
            .text(headings)
            .rows(drives.map(|(inventory, drive): (&Self, &InventoryDrive)| {
                [
                    host_text(&inventory.host).to_owned(),
                    drive.path.clone(),
                    format::bytes(drive.size_bytes as f64),
                    text(&drive.model),
                    drive.serial.clone().unwrap_or_else(|| drive.id.clone()),
                    text(&drive.firmware),
                    text(&drive.slot),
                    text(&drive.link),
                    drive
                        .numa_node
                        .map_or("-".to_owned(), |node| node.to_string()),
                    drive
                        .wear_percent
                        .map_or("-".to_owned(), |percent| format!("{percent} %")),
                    drive.state.text().to_owned(),
                    // `why` may end with advice after its last semicolon, which the table leaves out.
                    drive
                        .why
                        .as_deref()
                        .map_or("", |why| why.rsplit_once("; ").map_or(why, |(why, _)| why))
                        .to_owned(),
                ]
            }))
            .to_string()
    }
}

fn cannot_simulate(spec: &str, why: impl std::fmt::Display) -> Failure {
    Failure::usage(format!(
        "cannot simulate the drives {} - {why}",
        quoted(spec)
    ))
}
