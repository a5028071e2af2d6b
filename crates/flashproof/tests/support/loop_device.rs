//! A loop device on a file of the bench.

use super::{Bench, skip, tool};
use device::discover::DeviceNumber;
use device::observe::diskstats::{self, Counters};
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

/// A loop device; detached when dropped.
pub struct LoopDevice {
    pub name: String,
    pub image: PathBuf,
}

impl LoopDevice {
    /// Sets a limit of the device's queue, a file of sysfs.
    pub fn set_queue(&self, limit: &str, value: &str) -> Setting {
        let path = format!(
            "/sys/block/{}/queue/{limit}",
            self.name.trim_start_matches("/dev/")
        );
        let before = fs::read_to_string(&path).unwrap();
        fs::write(&path, value).unwrap();
        Setting { path, before }
    }

    /// A device of `size_bytes` zeros. `options` go to losetup. `None`, with a message, without root.
    pub fn new(bench: &Bench, size_bytes: u64, options: &[&str]) -> Option<Self> {
        Self::on(bench.path("image"), size_bytes, options)
    }

    /// As [`Self::new`], with the file `image`.
    pub fn on(image: PathBuf, size_bytes: u64, options: &[&str]) -> Option<Self> {
        if fs::metadata("/proc/self").unwrap().uid() != 0 {
            return skip("a loop device needs root");
        }
        File::create(&image).unwrap().set_len(size_bytes).unwrap();
        let arguments = [options, &["--find", "--show", image.to_str().unwrap()]].concat();
        // Another program may take the free device between the search and its use.
        let name = (0..3).find_map(|_| tool("losetup", &arguments))?;
        Some(Self { name, image })
    }

    pub fn content(&self) -> Vec<u8> {
        fs::read(&self.name).unwrap()
    }

    /// Writes bytes to the device, and flushes them from the page cache.
    pub fn put(&self, at: u64, bytes: &[u8]) {
        let device = OpenOptions::new().write(true).open(&self.name).unwrap();
        device.write_all_at(bytes, at).unwrap();
        device.sync_all().unwrap();
    }

    pub fn number(&self) -> DeviceNumber {
        let number = fs::metadata(&self.name).unwrap().rdev();
        DeviceNumber::of_stat(number)
    }

    pub fn counters(&self) -> Counters {
        let number = self.number();
        let disks = diskstats::read(Path::new("/")).unwrap();
        disks
            .into_iter()
            .find(|disk| disk.device == number)
            .expect("its line in diskstats")
            .counters
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        tool("losetup", &["--detach", &self.name]);
    }
}

/// A changed limit of a queue, restored when dropped: a queue keeps its limits when its loop device is detached.
pub struct Setting {
    path: String,
    before: String,
}

impl Drop for Setting {
    fn drop(&mut self) {
        let _ = fs::write(&self.path, &self.before);
    }
}
