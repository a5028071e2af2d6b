//! Finds devices that share bytes with a target: its disk and partitions, the other paths to its drive, and the devices
//! below.
//!
//! ```text
//!     devices built on the target: always refused (in_use)
//!   the target, its disk or its partitions  =  the same on another path to the drive (same wwid)
//!   below: slaves of dm and md, the file or device behind a loop device; for each of them the line above applies, too
//! ```
//!
//! The search ends at a file: its file system and the disks below may be in use. [`super::in_use`] searches these
//! devices for users.

use crate::discover::{
    Backing, DeviceNumber, DiscoverError, Disk, LoopDevice, Resolved, SysDir, disks,
    generic_of_block, known_block, loops,
};
use std::fs::{self, Metadata};
use std::ops::Range;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use sys::users::is_on_overlay;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Relation {
    Itself,
    /// The same bytes, reached through another device.
    OtherPath,
    /// A partition, or the whole disk, of the target or of another path.
    Part,
    /// The target is built on this device, or on a part of it.
    Beneath,
}

#[derive(Debug)]
pub(super) struct OverlappingDevice {
    pub(super) number: DeviceNumber,
    /// Description: `it`, `its partition /dev/sda1`, `the disk /dev/sda that it lies on`.
    pub(super) description: String,
    pub(super) dir: SysDir,
    pub(super) relation: Relation,
    /// Devices built directly on this device through which the target reaches it; they are not foreign holders.
    path_to_target: Vec<SysDir>,
}

#[derive(Debug)]
struct FilePart {
    device: DeviceNumber,
    inode: u64,
    /// Time of creation, which overlayfs shows unchanged; `None` if unknown.
    created: Option<SystemTime>,
    bytes: Range<u64>,
    description: String,
    /// True if the target uses all `bytes`. False below dm and md, where most of the bytes can belong to other volumes.
    is_exact: bool,
}

impl FilePart {
    fn overlaps(&self, other: &Self) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
            && meet(&self.bytes, &other.bytes)
            && (self.is_exact || other.is_exact)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Overlap {
    Bytes,
    Drive,
}

#[derive(Debug)]
pub(super) struct TargetPart {
    /// See [`OverlappingDevice::description`].
    pub(super) description: String,
    /// True if processes that only read count as users. False below the target, because daemons that manage the paths
    /// of a drive keep them open for reading.
    pub(super) readers_count: bool,
}

/// All devices and files that share bytes with the target.
#[derive(Debug, Default)]
pub(super) struct TargetDevices {
    /// Block devices; the target is the first, unless it is a file.
    pub(super) nodes: Vec<OverlappingDevice>,
    /// NVMe character devices that give access to disks in `nodes`.
    generics: Vec<(DeviceNumber, String)>,
    /// The target itself if it is a file, or files below it.
    files: Vec<FilePart>,
    /// Loop devices that are the target or below it; they do not count as users of their backing files.
    own_loops: Vec<DeviceNumber>,
}

struct BlockDevices<'a> {
    root: &'a Path,
    disks: Vec<Disk>,
    loops: Vec<LoopDevice>,
}

impl TargetDevices {
    pub(super) fn from_resolved(resolved: &Resolved, root: &Path) -> Result<Self, DiscoverError> {
        match resolved {
            Resolved::Block { number, .. } => Self::of_device(*number, root),
            Resolved::File { metadata } => Ok(Self::of_file(metadata)),
        }
    }

    /// Errors: sysfs lacks the device.
    pub(super) fn of_device(number: DeviceNumber, root: &Path) -> Result<Self, DiscoverError> {
        let dir = known_block(number, root)?;
        let machine = BlockDevices {
            root,
            disks: disks(root),
            loops: loops(root),
        };
        let mut devices = Self::default();
        devices.add(&machine, number, &dir, None, true);
        Ok(devices)
    }

    pub(super) fn of_file(metadata: &Metadata) -> Self {
        let file = FilePart {
            device: DeviceNumber::of_stat(metadata.dev()),
            inode: metadata.ino(),
            created: metadata.created().ok(),
            bytes: 0..u64::MAX,
            description: "it".to_owned(),
            is_exact: true,
        };
        Self {
            files: vec![file],
            ..Self::default()
        }
    }

    /// Adds a device with everything that shares bytes with it. `upper_disk`: the disk directly above the device, in
    /// the direction of the target; `None` for the target. `is_exact`: true if the target covers the whole device.
    fn add(
        &mut self,
        machine: &BlockDevices<'_>,
        number: DeviceNumber,
        dir: &SysDir,
        upper_disk: Option<&SysDir>,
        is_exact: bool,
    ) {
        if let Some(known_node) = self.nodes.iter_mut().find(|node| node.number == number) {
            return known_node.path_to_target.extend(upper_disk.cloned());
        }
        let is_partition = dir.text("partition").is_some();
        let disk = dir.disk();
        let bytes = bytes_of(dir, is_partition);
        let is_target = upper_disk.is_none();
        let (itself_relation, part_relation) = if is_target {
            (Relation::Itself, Relation::Part)
        } else {
            (Relation::Beneath, Relation::Beneath)
        };
        let description = if is_target {
            "it".to_owned()
        } else {
            format!("{} beneath it", dir.node())
        };
        self.push(Some(number), dir, description, itself_relation);
        self.nodes
            .iter_mut()
            .rev()
            .take(1)
            .for_each(|node| node.path_to_target.extend(upper_disk.cloned()));
        if is_partition {
            let place = if is_target {
                "that it lies on"
            } else {
                "beneath it"
            };
            let description = format!("the disk {} {place}", disk.node());
            self.push(disk.dev(), &disk, description, part_relation);
        }
        let possessive = if is_target { "its" } else { "the" };
        let beneath = if is_target { "" } else { " beneath it" };
        for partition in dir.partitions() {
            let description = format!("{possessive} partition {}{beneath}", partition.node());
            self.push(partition.dev(), &partition, description, part_relation);
        }
        self.add_generic(machine, &disk, possessive);
        self.add_other_paths(machine, &disk, is_partition.then_some(&bytes), is_target);
        let backing_name = if is_target {
            "its backing file"
        } else {
            "the file beneath it,"
        };
        self.add_backing(machine, &disk, bytes, is_exact, backing_name);
        for number in disk.below("slaves").filter_map(|slave| slave.dev()) {
            if let Some(dir) = SysDir::of_block(machine.root, number) {
                self.add(machine, number, &dir, Some(&disk), false);
            }
        }
    }

    fn push(
        &mut self,
        number: Option<DeviceNumber>,
        dir: &SysDir,
        description: String,
        relation: Relation,
    ) {
        let Some(number) =
            number.filter(|number| self.nodes.iter().all(|node| node.number != *number))
        else {
            return;
        };
        self.nodes.push(OverlappingDevice {
            number,
            description,
            dir: dir.clone(),
            relation,
            path_to_target: Vec::new(),
        });
    }

    fn add_generic(&mut self, machine: &BlockDevices<'_>, disk: &SysDir, possessive: &str) {
        let generic = generic_of_block(&disk.name(), machine.root);
        self.generics
            .extend(generic.map(|number| (number, format!("{possessive} NVMe character device"))));
    }

    /// Adds the other paths to the drive: for a partition with the range `bytes`, whole disks and overlapping
    /// partitions.
    fn add_other_paths(
        &mut self,
        machine: &BlockDevices<'_>,
        disk: &SysDir,
        bytes: Option<&Range<u64>>,
        is_target: bool,
    ) {
        let Some(this_disk) = Disk::at(disk.clone()) else {
            return;
        };
        let (same_relation, part_relation) = if is_target {
            (Relation::OtherPath, Relation::Part)
        } else {
            (Relation::Beneath, Relation::Beneath)
        };
        let other_disks = machine
            .disks
            .iter()
            .filter(|other| other.number != this_disk.number && other.is_same_drive(&this_disk));
        for other_disk in other_disks {
            let name = other_disk.dir.node();
            let description = format!("{name}, another path to the same drive,");
            let relation = if bytes.is_none() {
                same_relation
            } else {
                part_relation
            };
            self.push(
                Some(other_disk.number),
                &other_disk.dir,
                description,
                relation,
            );
            for partition in other_disk.dir.partitions() {
                let other_bytes = bytes_of(&partition, true);
                if bytes.is_none_or(|bytes| meet(bytes, &other_bytes)) {
                    let description =
                        format!("{} on another path to the same drive", partition.node());
                    let relation = if bytes == Some(&other_bytes) {
                        same_relation
                    } else {
                        part_relation
                    };
                    self.push(partition.dev(), &partition, description, relation);
                }
            }
            self.add_generic(machine, &other_disk.dir, &format!("{name}'s"));
        }
    }

    /// If `disk` is a loop device, adds the file or device that holds the range `bytes` of the disk.
    fn add_backing(
        &mut self,
        machine: &BlockDevices<'_>,
        disk: &SysDir,
        bytes: Range<u64>,
        is_exact: bool,
        possessive: &str,
    ) {
        let Some(loop_device) = machine
            .loops
            .iter()
            .find(|of| Some(of.number) == disk.dev())
        else {
            return;
        };
        self.own_loops.push(loop_device.number);
        match loop_device.backing {
            Backing::File { device, inode } => {
                let start = loop_device.bytes.start.saturating_add(bytes.start);
                let end = loop_device
                    .bytes
                    .start
                    .saturating_add(bytes.end)
                    .min(loop_device.bytes.end);
                let description = format!("{possessive} {}", loop_device.path);
                let created = fs::metadata(&loop_device.path)
                    .ok()
                    .filter(|metadata| metadata.ino() == inode);
                let created = created.and_then(|metadata| metadata.created().ok());
                self.files.push(FilePart {
                    device,
                    inode,
                    created,
                    bytes: start..end,
                    description,
                    is_exact,
                });
            }
            Backing::Device(number) => {
                if let Some(dir) = SysDir::of_block(machine.root, number) {
                    self.add(machine, number, &dir, Some(disk), false);
                }
            }
            Backing::Unknown => {}
        }
    }

    /// The device nodes through which the target is accessed: its own, and those of the other paths to its drive.
    pub(super) fn access_nodes(&self) -> impl Iterator<Item = &OverlappingDevice> {
        self.nodes
            .iter()
            .filter(|node| matches!(node.relation, Relation::Itself | Relation::OtherPath))
    }

    pub(super) fn find_at(&self, path: &Path) -> Option<TargetPart> {
        let metadata = fs::metadata(path).ok()?;
        self.find(&metadata).or_else(|| {
            let description = self.file_below(&metadata, path)?.description.clone();
            Some(TargetPart {
                description,
                readers_count: true,
            })
        })
    }

    /// The file of the target that overlayfs shows at `path`. Overlayfs changes the device number, but keeps the lower
    /// 32 bits of the inode number, and the time of creation.
    fn file_below(&self, metadata: &Metadata, path: &Path) -> Option<&FilePart> {
        let created = metadata.created().ok().filter(|_| metadata.is_file());
        self.files
            .iter()
            .find(|file: &&FilePart| {
                file.inode as u32 == metadata.ino() as u32
                    && file.created.is_some()
                    && file.created == created
            })
            .filter(|_| is_on_overlay(path).unwrap_or(false))
    }

    pub(super) fn find(&self, metadata: &Metadata) -> Option<TargetPart> {
        let number = DeviceNumber::of_stat(metadata.rdev());
        let kind = metadata.file_type();
        if kind.is_block_device() {
            let node = self.node(number)?;
            return Some(TargetPart {
                description: node.description.clone(),
                readers_count: node.relation != Relation::Beneath,
            });
        }
        let description = if kind.is_char_device() {
            self.generics
                .iter()
                .find(|(generic, _)| *generic == number)?
                .1
                .clone()
        } else {
            self.file(
                DeviceNumber::of_stat(metadata.dev()),
                metadata.ino(),
                &(0..u64::MAX),
            )?
            .to_owned()
        };
        Some(TargetPart {
            description,
            readers_count: true,
        })
    }

    /// Description of the device or file at `path`, if it shares bytes with the target. A device without a node is
    /// matched by its kernel name.
    pub(super) fn find_path(&self, path: &str, root: &Path) -> Option<String> {
        if !path.starts_with('/') {
            return None;
        }
        match fs::metadata(path) {
            Ok(metadata) => self.find(&metadata).map(|found| found.description),
            Err(_) => {
                let name = path.strip_prefix("/dev/")?.replace('/', "!");
                let number = SysDir::of_name(&name, root).dev()?;
                self.node(number).map(|node| node.description.clone())
            }
        }
    }

    /// Description of the part of the target on which `loop_device` is built; `None` for the target's own loop devices.
    pub(super) fn find_behind(&self, loop_device: &LoopDevice, root: &Path) -> Option<String> {
        if self.own_loops.contains(&loop_device.number) {
            return None;
        }
        match loop_device.backing {
            Backing::File { device, inode } => self
                .file(device, inode, &loop_device.bytes)
                .map(str::to_owned),
            Backing::Device(number) => self.node(number).map(|node| node.description.clone()),
            Backing::Unknown => self.find_path(&loop_device.path, root),
        }
    }

    /// `None` if the device shares no bytes with the target.
    pub(super) fn node(&self, number: DeviceNumber) -> Option<&OverlappingDevice> {
        self.nodes.iter().find(|node| node.number == number)
    }

    fn file(&self, device: DeviceNumber, inode: u64, bytes: &Range<u64>) -> Option<&str> {
        self.files
            .iter()
            .find(|file: &&FilePart| {
                (file.device, file.inode) == (device, inode) && meet(&file.bytes, bytes)
            })
            .map(|file| file.description.as_str())
    }

    /// `None` if the targets have no bytes in common.
    pub(super) fn overlaps(&self, other: &Self) -> Option<Overlap> {
        self.overlap_with_target_of(other)
            .or_else(|| other.overlap_with_target_of(self))
            .or_else(|| {
                self.files
                    .iter()
                    .any(|one| other.files.iter().any(|two| one.overlaps(two)))
                    .then_some(Overlap::Bytes)
            })
    }

    /// How the target of `other` overlaps the devices that share bytes with this target.
    fn overlap_with_target_of(&self, other: &Self) -> Option<Overlap> {
        let target = other.nodes.first()?;
        match self.node(target.number)?.relation {
            Relation::OtherPath => Some(Overlap::Drive),
            Relation::Itself | Relation::Part | Relation::Beneath => Some(Overlap::Bytes),
        }
    }
}

impl OverlappingDevice {
    pub(super) fn path(&self, root: &Path) -> PathBuf {
        root.join("dev").join(self.dir.node_name())
    }

    /// Directories of the devices built on this device. Left out: devices that lead to the target, and devices to which
    /// a volume manager or RAID gives other bytes than to the target.
    pub(super) fn holders(&self) -> impl Iterator<Item = SysDir> {
        self.dir.below("holders").filter(|holder| {
            !self
                .path_to_target
                .iter()
                .any(|way| way.name() == holder.name() || lie_apart(way, holder))
        })
    }
}

/// True for two devices whose manager gives them different bytes: volumes of one LVM group, kpartx partitions, arrays
/// of one md container.
fn lie_apart(one: &SysDir, two: &SysDir) -> bool {
    let uuid = |dir: &SysDir| dir.child("dm").text("uuid").unwrap_or_default();
    let one_uuid = uuid(one);
    let two_uuid = uuid(two);
    let one_group = volume_group(&one_uuid);
    let is_partition = |uuid: &str| uuid.starts_with("part") && uuid.contains('-');
    let is_array = |dir: &SysDir| dir.child("md").path().is_dir();
    (one_group.is_some() && one_group == volume_group(&two_uuid))
        || (is_partition(&one_uuid) && is_partition(&two_uuid))
        || (is_array(one) && is_array(two))
}

/// The volume group in a device-mapper UUID of LVM: `LVM-`, and 32 characters that identify the group.
fn volume_group(uuid: &str) -> Option<&str> {
    uuid.get(..4 + 32).filter(|group| group.starts_with("LVM-"))
}

fn bytes_of(dir: &SysDir, is_partition: bool) -> Range<u64> {
    let start = if is_partition {
        dir.sectors("start").unwrap_or(0)
    } else {
        0
    };
    start..start.saturating_add(dir.sectors("size").unwrap_or(u64::MAX))
}

fn meet(one: &Range<u64>, two: &Range<u64>) -> bool {
    one.start < two.end && two.start < one.end
}
