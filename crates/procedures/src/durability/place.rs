//! The target: a device, or a directory with files of its own that survive the cut.

use super::OWN_DIR;
use crate::check::OwnDir;
use device::discover::{DevNum, DeviceFacts, Roots, discover, disks_beneath};
use device::observe::nvme::Controller;
use device::target::Target;
use engine::sim::SIM_PREFIX;
use results::durability::examine::find_session;
use results::durability::judge::Claims;
use results::durability::session::{Lane, Mode, PowerCounts, SessionId};
use results::units::{printable, quoted};
use session::failure::Failure;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use sys::buffer::{Buf, Pool};
use sys::op::{Op, OpKind, Outcome};

/// Part at the beginning of the target where a session is looked for.
const SESSION_BYTES: usize = 1 << 20;

/// Target of the writes.
pub(super) struct Place {
    pub path: String,
    /// Directory of the files; `None` for a device.
    pub dir: Option<PathBuf>,
    /// The disk, if it is known and the only one.
    pub disk: Option<DeviceFacts>,
    /// Machine and target: the witness finds a session by it.
    pub subject: String,
}

impl Place {
    pub(super) fn of(path: &str) -> Result<Self, Failure> {
        let cannot = |why: String| Failure::environment(format!("cannot check {} - {why}", quoted(path)));
        if path.starts_with(SIM_PREFIX) {
            return Err(Failure::usage(
                "cannot check the durability of a simulated drive - it stores no data - name a device or a directory",
            ));
        }
        let metadata = fs::metadata(path).map_err(|error| match error.kind() {
            ErrorKind::NotFound => cannot("there is no such directory or device; check the name".into()),
            _ => cannot(error.to_string()),
        })?;
        if metadata.is_file() {
            return Err(cannot("it is a file; name its directory, the check makes files of its own there".into()));
        }
        let (dir, disk, identity) = if metadata.is_dir() {
            let disks = disks_beneath(DevNum::of_stat(metadata.dev()), &Roots::default());
            // Several disks differ in their claims.
            let disk = <[DeviceFacts; 1]>::try_from(disks).ok().map(|[disk]| disk);
            (Some(Path::new(path).join(OWN_DIR)), disk, None)
        } else {
            let facts = discover(path, &Roots::default()).map_err(|error| cannot(error.to_string()))?;
            let identity = facts.identity().filter(|_| facts.loop_backing.is_none());
            (None, Some(facts), identity)
        };
        // The kernel's name of a device can change with a restart; its links stay.
        let absolute = if dir.is_some() { fs::canonicalize(path) } else { std::path::absolute(path) };
        let absolute = || absolute.map(|path| path.to_string_lossy().into_owned());
        let target = identity.map_or_else(absolute, Ok).map_err(|error| cannot(error.to_string()))?;
        let machine = ["/etc/machine-id", "/proc/sys/kernel/hostname"].into_iter();
        let machine = machine.filter_map(|file| fs::read_to_string(file).ok()).map(|text| text.trim().to_owned());
        let machine = machine.into_iter().find(|name| !name.is_empty()).unwrap_or_default();
        let subject = printable(&format!("{machine}: {target}")).into_owned();
        Ok(Self { path: path.to_owned(), dir, disk, subject })
    }

    /// Identity of the disk, and of a directory where its file system is mounted; that of a loop device's file may change
    /// with the next mount.
    pub(super) fn disk_identity(&self) -> Option<String> {
        let disk = self.disk.as_ref().filter(|disk| disk.loop_backing.is_none());
        let disk = disk.and_then(|disk| disk.identity().or_else(|| disk.kernel_name.clone()));
        let mounted = self.dir.as_ref().and_then(|_| mount_point(Path::new(&self.path)));
        let parts: Vec<_> = disk.into_iter().chain(mounted.map(|at| format!("mounted at {}", at.display()))).collect();
        (!parts.is_empty()).then(|| printable(&parts.join(", ")).into_owned())
    }

    /// Device or file of the lanes at offsets.
    pub(super) fn target_path(&self) -> String {
        match &self.dir {
            Some(dir) => dir.join("data").to_string_lossy().into_owned(),
            None => self.path.clone(),
        }
    }

    /// Opens the device or file to read; `None` if there is no such file.
    pub(super) fn to_read(&self) -> Result<Option<Target>, Failure> {
        let path = self.target_path();
        match fs::symlink_metadata(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound && self.dir.is_some() => Ok(None),
            Ok(metadata) if self.dir.is_some() && !metadata.is_file() => {
                Err(Failure::environment(format!("cannot read {path} - it is no regular file - remove it")))
            }
            _ => match Target::read_only(&path, 0) {
                Ok(target) => Ok(Some(target)),
                // A cut can leave an empty file.
                Err(_) if self.dir.is_some() && fs::metadata(&path).is_ok_and(|file| file.len() == 0) => Ok(None),
                Err(error) => Err(Failure::environment(error)),
            },
        }
    }

    /// The session on the target, if one is there.
    pub(super) fn session(&self) -> Result<Option<SessionId>, Failure> {
        let Some(target) = self.to_read()? else { return Ok(None) };
        let len = SESSION_BYTES.min(target.size_bytes() as usize) / 4096 * 4096;
        let (mut buf, step) = (one_buffer(len)?, 4096);
        // Piece by piece: a sector that cannot be read hides no other.
        let mut at = 0;
        while at < len {
            let outcome;
            (outcome, buf) = read(&target, at as u64, step, buf);
            if matches!(outcome, Outcome::Done)
                && let Some(id) = find_session(&buf[..step])
            {
                return Ok(Some(id));
            }
            at += step;
        }
        Ok(None)
    }

    /// Names of all files below the directory that these lanes use.
    pub(super) fn file_names(lanes: &[Lane]) -> Vec<String> {
        let of_lane = |(number, lane): (usize, &Lane)| -> Vec<String> {
            let slots = 0..if lane.mode == Mode::Rename { u64::from(lane.slots) } else { 0 };
            let names = slots.map(move |slot| file_name(number as u32, slot));
            names.chain((lane.mode == Mode::Rename).then(|| new_file_name(number as u32))).collect()
        };
        let of_lanes = lanes.iter().enumerate().flat_map(of_lane);
        std::iter::once("data".to_owned()).chain(of_lanes).collect()
    }

    pub(super) fn claims(&self) -> Claims {
        let disk = self.disk.clone().unwrap_or_default();
        Claims { write_cache: disk.write_cache, fua: disk.fua, atomic_write_bytes: disk.atomic_write_bytes }
    }

    /// Counters of an NVMe drive that answers this user.
    pub(super) fn power(&self) -> Option<PowerCounts> {
        let number = self.disk.as_ref()?.disk_number()?;
        let smart = Controller::find(Path::new("/"), (number.major, number.minor))?.smart().ok()?;
        let short = |counter: u128| u64::try_from(counter).unwrap_or(u64::MAX);
        Some(PowerCounts { cycles: short(smart.power_cycles), unsafe_shutdowns: short(smart.unsafe_shutdowns) })
    }

    /// Removes directory and files. Returns false if there are none.
    pub(super) fn remove(&self) -> Result<bool, Failure> {
        match &self.dir {
            Some(dir) if dir.exists() => {
                OwnDir::make(Path::new(&self.path), OWN_DIR, [].into_iter(), 0)
                    .map_err(|why| Failure::environment(format!("cannot remove {} - {why}", dir.display())))?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }
}

/// Directory at which the file system of `path` is mounted.
fn mount_point(path: &Path) -> Option<PathBuf> {
    let mut at = fs::canonicalize(path).ok()?;
    let device = fs::metadata(&at).ok()?.dev();
    while let Some(above) = at.parent().filter(|above| fs::metadata(above).is_ok_and(|above| above.dev() == device)) {
        at = above.to_owned();
    }
    Some(at)
}

pub(super) fn file_name(lane: u32, slot: u64) -> String {
    format!("rename-{lane}-{slot}")
}

/// Name of a file before its rename.
pub(super) fn new_file_name(lane: u32) -> String {
    format!("rename-{lane}-new")
}

/// A page-aligned buffer.
pub(super) fn one_buffer(len: usize) -> Result<Buf, Failure> {
    let buf = Pool::new(len).ok().and_then(|mut pool| pool.cut(len));
    buf.ok_or_else(|| Failure::environment(format!("cannot get {len} bytes of memory for a buffer")))
}

/// Reads `len` bytes at `offset` into `buf`.
pub(super) fn read(target: &Target, offset: u64, len: usize, buf: Buf) -> (Outcome, Buf) {
    let mut op = Op::new(OpKind::Read, offset, len as u32, buf);
    let outcome = sys::call::carry_out(target.fd(), 0, &mut op);
    (outcome, op.buf)
}
