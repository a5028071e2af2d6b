//! A loop device for one test, removed with its file when dropped.

use crate::discover::DeviceNumber;
use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::PathBuf;
use std::process::Command;
use sys::buffer::Pool;

pub(crate) struct LoopDevice {
    path: PathBuf,
    _file: tempfile::NamedTempFile,
}

impl LoopDevice {
    /// Creates a loop device of `bytes`; `None`, with a message, on failure.
    pub(crate) fn make(bytes: u64) -> Option<Self> {
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        file.as_file().set_len(bytes).expect("a sparse file");
        let made = Command::new("losetup")
            .args(["-f", "--show"])
            .arg(file.path())
            .output();
        match made {
            Ok(output) if output.status.success() => {
                let path = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
                // If udev runs, wait until it has finished with the new device.
                let _ = Command::new("udevadm")
                    .args(["settle", "--timeout=10"])
                    .output();
                Some(Self { path, _file: file })
            }
            Ok(output) => skip(String::from_utf8_lossy(&output.stderr).trim()),
            Err(error) => skip(&error.to_string()),
        }
    }

    pub(crate) fn number(&self) -> DeviceNumber {
        let rdev = std::fs::metadata(&self.path)
            .expect("the device is there")
            .rdev();
        DeviceNumber::of_stat(rdev)
    }

    pub(crate) fn name(&self) -> String {
        self.path
            .file_name()
            .expect("a device has a name")
            .to_string_lossy()
            .into_owned()
    }

    /// Performs direct reads `(offset, bytes)` of at most 64 KiB, so that each read is one request.
    pub(crate) fn read_direct(&self, reads: impl IntoIterator<Item = (u64, usize)>) {
        let device = File::options()
            .read(true)
            .custom_flags(libc::O_DIRECT)
            .open(&self.path)
            .expect("the device opens");
        let mut buffer = Pool::new(1 << 16).and_then(|mut pool| {
            pool.cut(1 << 16)
                .ok_or(std::io::ErrorKind::OutOfMemory.into())
        });
        let buffer = buffer.as_mut().expect("64 KiB of memory");
        for (offset, bytes) in reads {
            device
                .read_exact_at(&mut buffer[..bytes], offset)
                .expect("the read succeeds");
        }
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("-d").arg(&self.path).status();
    }
}

fn skip<T>(reason: &str) -> Option<T> {
    eprintln!("skipped: a loop device needs root and losetup: {reason}");
    None
}
