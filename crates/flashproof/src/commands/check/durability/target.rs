//! The device or directory under test.

use super::{OWN_DIR, file_name, new_file_name, one_buffer, perform};
use crate::commands::check::site::{OwnDir, cannot_check, directory_or_device};
use conclusions::durability::examine::find_session;
use conclusions::durability::judge::Claims;
use conclusions::durability::session::{
    DurabilityMethod, PowerCounts, Secret, SessionId, WriteLane,
};
use device::discover::{DeviceFacts, DeviceNumber, discover, disks_beneath};
use device::observe::nvme::Controller;
use device::target::Target;
use engine::sim::SIM_PREFIX;
use results::files::Dir;
use results::format::printable;
use session::failure::Failure;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use sys::op::{OpKind, WriteSync};

/// Bytes at the beginning of the target that are searched for a session.
const SESSION_BYTES: u64 = 1 << 20;

pub(super) struct DurabilityTarget {
    pub path: String,
    /// Directory of the files; `None` for a device.
    pub dir: Option<PathBuf>,
    /// `None` if the disk is unknown, or if there are several.
    pub disk: Option<DeviceFacts>,
    /// Machine and target, by which the witness finds a session.
    pub subject: String,
}

impl DurabilityTarget {
    pub(super) fn from_path(path: &str) -> Result<Self, Failure> {
        let cannot = |why| cannot_check(path, why);
        if path.starts_with(SIM_PREFIX) {
            return Err(Failure::usage(
                "cannot check the durability of a simulated drive - it stores no data - name a device or a directory",
            ));
        }
        let metadata = directory_or_device(path).map_err(cannot)?;
        let (dir, disk, identity) = if metadata.is_dir() {
            // If others can change the parent directory, `Dir::open` keeps the directory of an earlier session open
            // until the program ends, so that nobody can replace this directory. A missing directory is no error.
            let _ = Dir::open(Path::new(path)).and_then(|dir| dir.open_dir(OWN_DIR.as_ref()));
            let disks = disks_beneath(DeviceNumber::of_stat(metadata.dev()), Path::new("/"));
            // Several disks may make different claims about write cache and FUA, so none is named.
            let disk = <[DeviceFacts; 1]>::try_from(disks).ok().map(|[disk]| disk);
            (Some(Path::new(path).join(OWN_DIR)), disk, None)
        } else {
            let facts =
                discover(path, Path::new("/")).map_err(|error| cannot(error.to_string()))?;
            let identity = facts.identity().filter(|_| facts.loop_backing.is_none());
            (None, Some(facts), identity)
        };
        // A restart can change the kernel's name of a device, but not its links.
        let absolute = if dir.is_some() {
            fs::canonicalize(path)
        } else {
            std::path::absolute(path)
        };
        let absolute = || absolute.map(|path| path.to_string_lossy().into_owned());
        let target = identity
            .map_or_else(absolute, Ok)
            .map_err(|error| cannot(error.to_string()))?;
        let machine = ["/etc/machine-id", "/proc/sys/kernel/hostname"].into_iter();
        let machine = machine
            .filter_map(|file| fs::read_to_string(file).ok())
            .map(|text| text.trim().to_owned());
        let machine = machine
            .into_iter()
            .find(|name| !name.is_empty())
            .unwrap_or_default();
        let subject = printable(&format!("{machine}: {target}")).into_owned();
        Ok(Self {
            path: path.to_owned(),
            dir,
            disk,
            subject,
        })
    }

    /// Identity of the disk, and the mount point. Loop devices are left out: their number may change at the next mount.
    pub(super) fn disk_identity(&self) -> Option<String> {
        let disk = self
            .disk
            .as_ref()
            .filter(|disk| disk.loop_backing.is_none());
        let disk = disk.and_then(|disk| disk.identity().or_else(|| disk.kernel_name.clone()));
        let mount_dir = self
            .dir
            .as_ref()
            .and_then(|_| mount_point(Path::new(&self.path)));
        let parts: Vec<_> = disk
            .into_iter()
            .chain(mount_dir.map(|at| format!("mounted at {}", at.display())))
            .collect();
        (!parts.is_empty()).then(|| printable(&parts.join(", ")).into_owned())
    }

    /// Device, or in a directory the data file of all lanes except those of the mode rename.
    pub(super) fn target_path(&self) -> String {
        match &self.dir {
            Some(dir) => dir.join("data").to_string_lossy().into_owned(),
            None => self.path.clone(),
        }
    }

    /// Opens the device or file for reading; `None` if there is no such file.
    pub(super) fn to_read(&self) -> Result<Option<Target>, Failure> {
        let path = self.target_path();
        match fs::symlink_metadata(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound && self.dir.is_some() => Ok(None),
            Ok(metadata) if self.dir.is_some() && !metadata.is_file() => Err(Failure::environment(
                format!("cannot read {path} - it is not a regular file - remove it"),
            )),
            _ => match Target::read_only(&path, 0) {
                Ok(target) => Ok(Some(target)),
                // A power cut can leave an empty file.
                Err(_)
                    if self.dir.is_some()
                        && fs::metadata(&path).is_ok_and(|file| file.len() == 0) =>
                {
                    Ok(None)
                }
                Err(error) => Err(Failure::environment(error)),
            },
        }
    }

    pub(super) fn session(&self) -> Result<Option<(SessionId, Option<Secret>)>, Failure> {
        let Some(target) = self.to_read()? else {
            return Ok(None);
        };
        let len = SESSION_BYTES.min(target.size_bytes()) / 4096 * 4096;
        let mut buf = one_buffer(4096)?;
        // Reads of 4 KiB each, so that an unreadable sector does not hide the others.
        Ok((0..len).step_by(4096).find_map(|offset| {
            let outcome = perform(target.fd(), OpKind::Read, offset, &mut buf, WriteSync::No);
            outcome.is_done().then(|| find_session(&buf))?
        }))
    }

    /// Names of all files that these lanes use in the directory.
    pub(super) fn file_names(lanes: &[WriteLane]) -> Vec<String> {
        let rename_lanes = (0_u32..)
            .zip(lanes)
            .filter(|(_, lane)| lane.mode == DurabilityMethod::Rename);
        let rename_files = rename_lanes.flat_map(|(number, lane)| {
            (0..u64::from(lane.slots))
                .map(move |slot| file_name(number, slot))
                .chain([new_file_name(number)])
        });
        std::iter::once("data".to_owned())
            .chain(rename_files)
            .collect()
    }

    pub(super) fn claims(&self) -> Claims {
        let disk = self.disk.clone().unwrap_or_default();
        Claims {
            write_cache: disk.write_cache,
            fua: disk.fua,
            atomic_write_bytes: disk.atomic_write_bytes,
        }
    }

    /// Directory of the disk in sysfs, which disappears with the disk; `None` if the disk is unknown or not the only
    /// one.
    pub(super) fn sysfs_dir(&self) -> Option<PathBuf> {
        let number = self.disk.as_ref()?.disk_number()?;
        Some(PathBuf::from(format!("/sys/dev/block/{number}"))).filter(|dir| dir.exists())
    }

    /// Power-cycle counters of an NVMe drive, if this user may read them.
    pub(super) fn power(&self) -> Option<PowerCounts> {
        let number = self.disk.as_ref()?.disk_number()?;
        let smart = Controller::find(Path::new("/"), number)?.smart().ok()?;
        let short = |counter: u128| u64::try_from(counter).unwrap_or(u64::MAX);
        Some(PowerCounts {
            cycles: short(smart.power_cycles),
            unsafe_shutdowns: short(smart.unsafe_shutdowns),
        })
    }

    /// Removes directory and files. Returns false if there are none.
    pub(super) fn remove(&self) -> Result<bool, Failure> {
        match &self.dir {
            Some(dir) if dir.exists() => {
                OwnDir::make(Path::new(&self.path), OWN_DIR, &[], 0).map_err(|why| {
                    Failure::environment(format!("cannot remove {} - {why}", dir.display()))
                })?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }
}

fn mount_point(path: &Path) -> Option<PathBuf> {
    let mut mount_dir = fs::canonicalize(path).ok()?;
    let device = fs::metadata(&mount_dir).ok()?.dev();
    while let Some(above) = mount_dir
        .parent()
        .filter(|above| fs::metadata(above).is_ok_and(|above| above.dev() == device))
    {
        mount_dir = above.to_owned();
    }
    Some(mount_dir)
}
