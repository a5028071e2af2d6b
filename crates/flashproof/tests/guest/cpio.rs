//! The guest's root directory as the kernel unpacks it at boot: an archive of cpio's "newc" format. Source: the
//! kernel's Documentation/driver-api/early-userspace/buffer-format.rst.

use std::collections::BTreeSet;
use std::path::Path;

const DIRECTORY: u32 = 0o040755;
const PROGRAM: u32 = 0o100755;

#[derive(Default)]
pub(super) struct Archive {
    bytes: Vec<u8>,
    directories: BTreeSet<String>,
    entries: u32,
}

impl Archive {
    /// Adds a directory and its parents.
    pub(super) fn directory(&mut self, path: &str) {
        if let Some((parent, _)) = path.rsplit_once('/') {
            self.directory(parent);
        }
        if self.directories.insert(path.to_owned()) {
            self.entry(path, DIRECTORY, b"");
        }
    }

    pub(super) fn program(&mut self, path: &str, content: &[u8]) {
        if let Some((directory, _)) = path.rsplit_once('/') {
            self.directory(directory);
        }
        self.entry(path, PROGRAM, content);
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, b"");
        self.bytes
    }

    fn entry(&mut self, path: &str, mode: u32, content: &[u8]) {
        self.entries += 1;
        let size = u32::try_from(content.len()).expect("a small file");
        let name_size = path.len() as u32 + 1;
        // inode, mode, uid, gid, links, mtime, size, device (2), device of a node (2), name, checksum
        let fields = [
            self.entries,
            mode,
            0,
            0,
            1,
            0,
            size,
            0,
            0,
            0,
            0,
            name_size,
            0,
        ];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes
                .extend_from_slice(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend_from_slice(path.as_bytes());
        self.bytes.push(0);
        self.align();
        self.bytes.extend_from_slice(content);
        self.align();
    }

    fn align(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

/// A path of this system as it is written in an archive: without the first slash.
pub(super) fn name(path: &Path) -> &str {
    path.to_str()
        .expect("a readable path")
        .trim_start_matches('/')
}
