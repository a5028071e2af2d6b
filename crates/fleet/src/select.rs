//! `[drives]` of the campaign file: which drives of the inventories a campaign tests.

use crate::inventory::{DriveHost, DriveState, Inventory, InventoryDrive};
use results::format::{first_names, quoted};
use serde::{Deserialize, Serialize};
use session::failure::Failure;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Conditions for the drives of a campaign: all must hold; an empty condition always holds.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Select {
    pub models: Vec<String>,
    pub firmwares: Vec<String>,
    pub hosts: Vec<String>,
    pub serials: Vec<String>,
    /// Maximum number of drives, taken in the order of hosts and paths.
    pub count: Option<usize>,
    /// Also selects drives that are mounted, held or open, for steps that only read.
    pub in_use: bool,
    /// Allows a drive in several inventories: storage that several hosts share and test together.
    pub shared: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedDrive {
    pub host: DriveHost,
    #[serde(flatten)]
    pub drive: InventoryDrive,
}

/// A list of values, of which a drive must have one.
struct Condition<'a> {
    key: &'static str,
    values: &'a [String],
    has_value: fn(&DriveHost, &InventoryDrive, &String) -> bool,
}

impl Condition<'_> {
    fn holds(&self, host: &DriveHost, drive: &InventoryDrive) -> bool {
        let mut values = self.values.iter();
        values.len() == 0 || values.any(|value| (self.has_value)(host, drive, value))
    }

    /// The values that no drive has, as a sentence; `None` if there are none.
    fn unknown_values(&self, inventories: &[(PathBuf, Inventory)]) -> Option<String> {
        let mut unknown = self.values.iter().collect::<Vec<_>>();
        for (_, Inventory { host, drives, .. }) in inventories {
            unknown.retain(|value| {
                !drives
                    .iter()
                    .any(|drive| (self.has_value)(host, drive, value))
            });
        }
        let names = unknown.iter().map(|value| quoted(value));
        (!unknown.is_empty()).then(|| {
            format!(
                "[drives] {} lists {}, but no drive in the inventories matches",
                self.key,
                first_names(names)
            )
        })
    }
}

impl Select {
    fn conditions(&self) -> [Condition<'_>; 4] {
        [
            Condition {
                key: "models",
                values: &self.models,
                has_value: |_, drive, value| drive.model.as_ref() == Some(value),
            },
            Condition {
                key: "firmwares",
                values: &self.firmwares,
                has_value: |_, drive, value| drive.firmware.as_ref() == Some(value),
            },
            Condition {
                key: "hosts",
                values: &self.hosts,
                has_value: |host, _, value| host.as_ref() == Some(value),
            },
            Condition {
                key: "serials",
                values: &self.serials,
                has_value: |_, drive, value| {
                    drive.serial.as_ref() == Some(value) || drive.id == *value
                },
            },
        ]
    }

    /// A sentence for each list with values that no drive has. A misspelt value leaves out its drive, while the other
    /// values still match.
    pub fn unknown_values(&self, inventories: &[(PathBuf, Inventory)]) -> Vec<String> {
        let conditions = self.conditions();
        conditions
            .iter()
            .filter_map(|condition| condition.unknown_values(inventories))
            .collect()
    }

    /// Returns the drives of the campaign, and the matching drives that are left out because they are in use. Errors:
    /// no drive is left, or a drive is in two inventories.
    pub fn choose(
        &self,
        inventories: &[(PathBuf, Inventory)],
    ) -> Result<(Vec<PlannedDrive>, Vec<InventoryDrive>), Failure> {
        let conditions = self.conditions();
        let mut chosen = Vec::new();
        let mut in_use = Vec::new();
        let mut path_by_name: BTreeMap<String, &Path> = BTreeMap::new();
        for (path, inventory) in inventories {
            let matching = inventory.drives.iter().filter(|drive| {
                conditions
                    .iter()
                    .all(|condition| condition.holds(&inventory.host, drive))
            });
            for drive in matching {
                // A path identifies a drive on one host only.
                let host = inventory
                    .host
                    .as_deref()
                    .filter(|_| drive.id == drive.path)
                    .unwrap_or_default();
                let names = [Some(&drive.id), drive.serial.as_ref(), drive.wwid.as_ref()]
                    .into_iter()
                    .flatten();
                let names: BTreeSet<String> = names.map(|name| format!("{host} {name}")).collect();
                let first = names
                    .into_iter()
                    .filter_map(|name| path_by_name.insert(name, path))
                    .next();
                if let Some(first) = first.filter(|_| !self.shared) {
                    return Err(Failure::usage(format!(
                        "the drive {} is in two inventories, {} and {} - two tasks would test one drive - delete it \
                         from one inventory, or name hosts under [drives]",
                        quoted(&drive.id),
                        first.display(),
                        path.display()
                    )));
                }
                match drive.state {
                    DriveState::InUse if !self.in_use => in_use.push(drive.clone()),
                    _ => chosen.push(PlannedDrive {
                        host: inventory.host.clone(),
                        drive: drive.clone(),
                    }),
                }
            }
        }
        if chosen.is_empty() {
            return Err(self.no_drive(inventories, in_use.len()));
        }
        chosen.truncate(self.count.unwrap_or(usize::MAX));
        Ok((chosen, in_use))
    }

    /// The reasons why no drive is left; `in_use`: number of matching drives that are in use.
    fn no_drive(&self, inventories: &[(PathBuf, Inventory)], in_use: usize) -> Failure {
        let mut reasons = self.unknown_values(inventories);
        if in_use > 0 {
            reasons.push(format!(
                "all drives that match [drives] ({in_use}) are in use"
            ));
        }
        if reasons.is_empty() {
            reasons.push("no drive in the inventories matches all conditions of [drives]".into());
        }
        Failure::usage(format!(
            "cannot choose the drives of the campaign - {} - \"flashproof fleet inventory\" shows the drives of a host, \
             and why a drive is not free",
            reasons.join("; ")
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use results::assert_contains;

    fn drive(
        id: &str,
        serial: Option<&str>,
        wwid: Option<&str>,
        state: DriveState,
    ) -> InventoryDrive {
        InventoryDrive {
            id: id.to_owned(),
            path: "/dev/x".to_owned(),
            serial: serial.map(str::to_owned),
            wwid: wwid.map(str::to_owned),
            size_bytes: 1,
            state,
            ..InventoryDrive::default()
        }
    }

    fn of_host(host: &str, drives: Vec<InventoryDrive>) -> (PathBuf, Inventory) {
        let inventory = Inventory {
            format_version: 1,
            host: Some(host.to_owned()),
            taken_unix_ms: 0,
            drives,
        };
        (PathBuf::from("i"), inventory)
    }

    /// Drives of two hosts: A is free, B in use, C has data.
    fn some() -> [(PathBuf, Inventory); 2] {
        let a = drive("A", Some("A"), None, DriveState::Free);
        let b = drive("B", Some("B"), None, DriveState::InUse);
        let c = drive("C", Some("C"), None, DriveState::HasData);
        [of_host("n1", vec![a, b]), of_host("n2", vec![c])]
    }

    fn select(settings: &str) -> Select {
        toml::from_str(settings).unwrap()
    }

    fn joined<'a>(drives: impl Iterator<Item = &'a InventoryDrive>) -> String {
        drives
            .map(|drive| drive.id.as_str())
            .collect::<Vec<_>>()
            .join(" ")
    }

    /// The chosen drives and those in use, or the error.
    fn choose(settings: &str, inventories: &[(PathBuf, Inventory)]) -> Result<String, String> {
        let found = select(settings).choose(inventories);
        let (chosen, in_use) = found.map_err(|failure| failure.message)?;
        let chosen = joined(chosen.iter().map(|planned| &planned.drive));
        Ok(format!("{chosen}, in use {}", joined(in_use.iter())))
    }

    #[test]
    fn a_drive_is_chosen_once_and_only_if_it_matches_and_is_free() {
        for (settings, is) in [
            ("", "A C, in use B"),
            ("in_use = true", "A B C, in use "),
            ("count = 1", "A, in use B"),
            ("serials = [\"C\"]", "C, in use "),
            ("hosts = [\"n1\"]", "A, in use B"),
        ] {
            assert_eq!(choose(settings, &some()).unwrap(), is, "{settings}");
        }
        // The same drive under other names, seen by two hosts. A path alone identifies a drive on one host only.
        let first = drive("S1", Some("S1"), Some("eui.1"), DriveState::Free);
        for other in [
            drive("eui.1", Some("other"), Some("eui.1"), DriveState::Free),
            drive("eui.2", Some("S1"), None, DriveState::Free),
        ] {
            let hosts = [
                of_host("n1", vec![first.clone()]),
                of_host("n2", vec![other]),
            ];
            assert_contains!(
                choose("", &hosts).unwrap_err(),
                "two tasks would test one drive"
            );
        }
        let path = drive("/dev/x", None, None, DriveState::Free);
        let hosts = [of_host("n1", vec![path.clone()]), of_host("n2", vec![path])];
        assert_eq!(choose("", &hosts).unwrap(), "/dev/x /dev/x, in use ");
    }

    #[test]
    fn a_listed_value_that_no_drive_has_is_named_whether_or_not_other_values_match() {
        let typo = "[drives] serials lists \"c\", but no drive in the inventories matches";
        for (settings, unknown, error) in [
            ("serials = [\"A\", \"c\"]", typo, ""),
            ("serials = [\"c\"]", typo, typo),
            (
                "hosts = [\"n2\", \"n3\"]\nmodels = [\"M\"]",
                "[drives] models lists \"M\", but no drive in the inventories matches; [drives] hosts lists \"n3\", \
                 but no drive in the inventories matches",
                "[drives] models lists \"M\"",
            ),
            (
                "hosts = [\"n2\"]\nserials = [\"A\"]",
                "",
                "no drive in the inventories matches all conditions of [drives]",
            ),
            (
                "serials = [\"B\"]",
                "",
                "all drives that match [drives] (1) are in use",
            ),
        ] {
            let found = select(settings).unknown_values(&some()).join("; ");
            assert_eq!(found, unknown, "{settings}");
            let why = choose(settings, &some()).err().unwrap_or_default();
            assert_contains!(why, error);
        }
    }
}
