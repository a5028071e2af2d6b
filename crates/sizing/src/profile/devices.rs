//! Finds the devices of a node: which namespace is on which device, and which drive a device is on.

use super::sources::NodeSources;
use super::{DeviceLoad, LoadOrigin, LoadWindow};
use crate::server_log::{DriveLine, ServerLog, are_in_memory};
use device::discover::disk_name_of_partition;
use results::format::{first_names, in_one_line};
use std::collections::{BTreeMap, BTreeSet};

/// Suffix of a namespace that stands for the shadow devices of another namespace.
pub(super) const SHADOW: &str = "-shadow";
/// Origin of the reads of a shadow device. Recorded profiles have this text, too.
pub(super) const SHADOW_IS_NOT_READ: &str = "a shadow device is not read";

/// Stands for the namespace of drive lines that name none: those of server versions 3.8 and older.
pub const NOT_LOGGED: &str = "(not logged)";

/// Namespace and device in a drive line of the log.
pub(super) type NamespaceDevice = (String, String);

impl ServerLog {
    /// The namespaces that are on devices, according to the log. In old versions, drv_ssd lines name no namespace.
    pub fn namespaces(&self) -> BTreeSet<String> {
        let lines = self
            .drives
            .keys()
            .map(|(namespace, _)| namespace.as_str())
            .filter(|name| !name.is_empty());
        let sized = self.histograms.keys().filter_map(|name| {
            let name = name.strip_prefix('{')?;
            name.strip_suffix("}-device-read-size")
                .or_else(|| name.strip_suffix("}-device-write-size"))
        });
        lines.chain(sized).map(str::to_owned).collect()
    }

    /// True if the load of drive lines without a namespace belongs to [`NOT_LOGGED`], and not to an only namespace.
    pub(super) fn has_nameless_drives(&self) -> bool {
        self.namespaces().len() != 1
            && self
                .drives
                .keys()
                .any(|(namespace, _)| namespace.is_empty())
    }

    /// True if the storage histograms of `namespace` are on: the server dumps those of reads and of writes together.
    pub(super) fn has_sizes(&self, namespace: &str) -> bool {
        ["read", "write"].iter().any(|what| {
            self.histograms
                .contains_key(&format!("{{{namespace}}}-device-{what}-size"))
        })
    }
}

/// Links by a label or an id of a partition or its contents, which do not show the drive.
const LINKS_TO_PARTITIONS: [&str; 4] = ["label", "partlabel", "partuuid", "uuid"];

/// The drive of a device, by the names that the kernel and udev give to partitions: `/dev/nvme0n1p2` is on `nvme0n1`.
pub fn drive_of(device: &str) -> String {
    let disk = if is_on_unknown_drive(device) {
        device
    } else {
        disk_name_of_partition(device)
    };
    disk.strip_prefix("/dev/").unwrap_or(disk).to_owned()
}

/// True for a file, and for a link by label or UUID.
fn is_on_unknown_drive(device: &str) -> bool {
    let link = device.strip_prefix("/dev/disk/by-");
    let is_link_to_partition = link
        .and_then(|link| link.split_once('/'))
        .is_some_and(|(kind, _)| LINKS_TO_PARTITIONS.contains(&kind));
    is_link_to_partition || device.contains('/') && !device.starts_with("/dev/")
}

/// True if a volume manager chose the name, so that several such volumes may share a drive.
fn is_volume(device: &str) -> bool {
    ["/dev/mapper/", "/dev/dm-"]
        .iter()
        .any(|prefix| device.starts_with(prefix))
}

impl NodeSources<'_> {
    pub(super) fn drive(&self, device: &str) -> String {
        self.options
            .drives
            .get(device)
            .cloned()
            .unwrap_or_else(|| drive_of(device))
    }

    /// A remark if several of `devices` do not show their drives: each counts as a drive.
    pub(super) fn unknown_drives<'a>(
        &self,
        devices: impl Iterator<Item = &'a String>,
    ) -> Option<String> {
        let unknown: BTreeMap<String, String> = devices
            .filter(|device| !self.options.drives.contains_key(*device))
            .filter(|device| device.starts_with('/'))
            .filter(|device| is_on_unknown_drive(device) || is_volume(device))
            .map(|device| (self.drive(device), in_one_line(device)))
            .collect();
        let first = unknown.values().next().filter(|_| unknown.len() > 1)?;
        Some(format!(
            "node {}: the names {} do not show the drive: each counts as a drive of its own - if they share a drive, \
             name this drive for each of them, such as --drive nvme0n1={first}",
            self.id,
            first_names(unknown.values().cloned())
        ))
    }

    /// Namespaces and their devices, each with the key of its drive lines.
    pub(super) fn devices(
        &self,
        stored: &BTreeSet<String>,
        remarks: &mut Vec<String>,
    ) -> BTreeMap<(String, String), NamespaceDevice> {
        let only_namespace = stored.first().filter(|_| stored.len() == 1);
        let id = &self.id;
        let mut devices = BTreeMap::new();
        for (key, lines) in &self.log.drives {
            let (logged, name) = key;
            // A line without a namespace belongs to the only namespace.
            let namespace = if logged.is_empty() {
                only_namespace
            } else {
                Some(logged)
            };
            if namespace.is_none() {
                remarks.push(format!(
                    "node {id}: the lines of {name} name no namespace (as in server versions 3.8 and older): their load \
                     is that of all namespaces on the device"
                ));
            }
            let namespace = namespace.map_or(NOT_LOGGED, String::as_str);
            let device = if are_in_memory(lines) {
                self.backing(namespace, name, lines, remarks)
            } else {
                Some(name.clone())
            };
            devices.extend(device.map(|device| ((namespace.to_owned(), device), key.clone())));
        }
        devices
    }

    /// True if `namespace` has drive lines, but none of them is of one of the `devices`: its records are only in memory,
    /// and its load may change within the window.
    pub(super) fn has_no_device(
        &self,
        namespace: &str,
        devices: &BTreeMap<(String, String), NamespaceDevice>,
    ) -> bool {
        self.log.drives.keys().any(|(of, _)| of == namespace)
            && !devices.keys().any(|(of, _)| of == namespace)
    }

    /// The device behind a `stripe` of an engine that keeps records in memory: stripe-1 is written to the second device
    /// of the configuration. `None`: the stripe has no device.
    fn backing(
        &self,
        namespace: &str,
        stripe: &str,
        lines: &[DriveLine],
        remarks: &mut Vec<String>,
    ) -> Option<String> {
        let id = &self.id;
        let index = stripe
            .rsplit('-')
            .next()
            .and_then(|index| index.split('.').next()?.parse::<usize>().ok());
        let facts = self.facts(
            namespace,
            self.log
                .span
                .map(|(from, to)| LoadWindow { from, to })
                .unwrap_or_default(),
        );
        if let Some(device) = facts.devices.get(index.unwrap_or(0)) {
            return Some(device.clone());
        }
        let written: Vec<&str> = self.written_devices(namespace).collect();
        let stripes = self
            .log
            .drives
            .iter()
            .filter(|((of, _), lines)| of == namespace && are_in_memory(lines))
            .count();
        match written[..] {
            [only] if stripes == 1 => return Some(only.to_owned()),
            [] if !lines
                .iter()
                .any(|line| line.write_q.is_some() || has_partial_writes(line)) =>
            {
                remarks.push(format!(
                    "node {id}, {{{namespace}}} {stripe}: the records are in memory, and no source names the device to \
                     which they are written: without a device there is no I/O"
                ));
                return None;
            }
            _ => {}
        }
        remarks.push(format!(
            "node {id}, {{{namespace}}} {stripe}: the records are in memory and on a device, but no source says on which - \
             give the log with the server's start, the server's configuration by --info, or --drive NAME={stripe}"
        ));
        Some(stripe.to_owned())
    }

    /// Devices with a histogram of writes: `{test}-/dev/sdb-write`.
    fn written_devices(&self, namespace: &str) -> impl Iterator<Item = &str> {
        let prefix = format!("{{{namespace}}}-/");
        let names = self
            .log
            .histograms
            .keys()
            .filter(move |name| name.starts_with(&prefix));
        let devices = names.filter_map(|name| name.split_once("}-")?.1.strip_suffix("-write"));
        devices.filter(|device| !device.ends_with(SHADOW))
    }

    /// The load on the shadow of `load`'s device, as a separate namespace: each block is written, nothing is read.
    pub(super) fn shadow(
        &self,
        load: &DeviceLoad,
        window: LoadWindow,
        remarks: &mut Vec<String>,
    ) -> Option<DeviceLoad> {
        let (
            DeviceLoad {
                namespace, device, ..
            },
            id,
        ) = (load, &self.id);
        let shadow = match self.facts(namespace, window).shadows.remove(device) {
            Some(shadow) => shadow,
            None if self.log.drives.iter().any(
                |((of, name), lines): (&NamespaceDevice, &Vec<DriveLine>)| {
                    name == device
                        && (of == namespace || of.is_empty())
                        && lines.iter().any(|it| it.shadow_write_q.is_some())
                },
            ) =>
            {
                remarks.push(format!(
                    "node {id}, {{{namespace}}} {device}: has a shadow device, but no source names it - give the log \
                     with the \
                     server's start, or the server's configuration by --info"
                ));
                format!("shadow of {device}")
            }
            None => return None,
        };
        let as_there = format!("as on {device}, because this device is its shadow");
        Some(DeviceLoad {
            namespace: format!("{namespace}{SHADOW}"),
            drive: self.drive(&shadow),
            device: shadow,
            reads_per_sec: 0.0,
            read_sizes_pct_over: Vec::new(),
            client_reads_per_sec: None,
            client_writes_per_sec: None,
            large_block_reads_per_sec: 0.0,
            tomb_raider_reads_per_sec: 0.0,
            direct_frees_per_sec: None,
            origin: LoadOrigin {
                reads: SHADOW_IS_NOT_READ.to_owned(),
                writes: as_there.clone(),
                large_block_reads: SHADOW_IS_NOT_READ.to_owned(),
                large_block_writes: as_there.clone(),
                direct_frees: as_there,
                ..load.origin.clone()
            },
            ..load.clone()
        })
    }
}

fn has_partial_writes(line: &DriveLine) -> bool {
    line.detail
        .is_some_and(|detail| detail.partial_writes.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_drive_of_a_partition_follows_from_its_name() {
        for (device, drive) in [
            ("/dev/nvme0n1", "nvme0n1"),
            ("/dev/nvme10n1p12", "nvme10n1"),
            ("/dev/sdb", "sdb"),
            ("/dev/sdab3", "sdab"),
            ("/dev/xvdc1", "xvdc"),
            ("/dev/loop2", "loop2"),
            ("/dev/loop2p1", "loop2"),
            ("/dev/md0", "md0"),
            ("/dev/dm-3", "dm-3"),
            ("/dev/mmcblk0p2", "mmcblk0"),
            ("sdb1", "sdb"),
            (
                "/dev/disk/by-id/nvme-SAMSUNG_S64ANX-part2",
                "disk/by-id/nvme-SAMSUNG_S64ANX",
            ),
            (
                "/dev/disk/by-path/pci-0000:5e:00.0-nvme-1-part1",
                "disk/by-path/pci-0000:5e:00.0-nvme-1",
            ),
            ("/dev/mapper/mpatha-part1", "mapper/mpatha"),
            ("/dev/mapper/mpatha1", "mapper/mpatha1"),
            // The user chose these names: part2 may be on another drive than part1.
            (
                "/dev/disk/by-partlabel/data-part2",
                "disk/by-partlabel/data-part2",
            ),
            ("/opt/aerospike/data/ns1p2", "/opt/aerospike/data/ns1p2"),
            (
                "/opt/aerospike/data/test.dat",
                "/opt/aerospike/data/test.dat",
            ),
        ] {
            assert_eq!(drive_of(device), drive);
        }
    }
}
