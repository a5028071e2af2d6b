//! A tree of files in place of /proc, /sys and /dev, for tests.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

pub(crate) struct FakeTree(TempDir);

impl FakeTree {
    pub(crate) fn with_files(files: &[(&str, &str)]) -> Self {
        let tree = Self(tempfile::tempdir().unwrap());
        tree.write_all("", files);
        tree
    }

    pub(crate) fn root(&self) -> &Path {
        self.0.path()
    }

    /// `name` need not exist.
    pub(crate) fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.root().join(name)
    }

    pub(crate) fn dir(&self, name: impl AsRef<Path>) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(&path).unwrap();
        path
    }

    /// Creates the parent directory.
    fn placed(&self, name: impl AsRef<Path>) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        path
    }

    pub(crate) fn write(&self, name: impl AsRef<Path>, text: &str) -> PathBuf {
        let path = self.placed(name);
        fs::write(&path, text).unwrap();
        path
    }

    pub(crate) fn write_all(&self, dir: impl AsRef<Path>, files: &[(&str, &str)]) {
        files
            .iter()
            .for_each(|(name, text)| _ = self.write(dir.as_ref().join(name), text));
    }

    pub(crate) fn link(&self, name: impl AsRef<Path>, to: impl AsRef<Path>) {
        symlink(self.path(to), self.placed(name)).unwrap();
    }

    /// `place`: the device's directory in sysfs.
    pub(crate) fn block(&self, number: &str, place: &str) {
        self.link(Path::new("sys/dev/block").join(number), self.dir(place));
    }

    pub(crate) fn remove(&self, name: &str) {
        let path = self.path(name);
        if path.is_dir() {
            fs::remove_dir_all(path).unwrap()
        } else {
            fs::remove_file(path).unwrap()
        }
    }
}
