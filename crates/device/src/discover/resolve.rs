//! Resolves a path to the device or file that it names.
//!
//! Symbolic links are followed by `stat`. The one special case is an NVMe character device (`/dev/ng0n1`): it gives
//! access to a disk that has a block device too, so the rules for the disk apply to it.

use super::{DevNum, DiscoverError, PLACEHOLDER, Roots};
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The object that a path names.
#[derive(Debug, Clone)]
pub(crate) enum Resolved {
    Block {
        number: DevNum,
        /// The node to open: the path as given, or the block device's own if that was a character device.
        node: PathBuf,
    },
    File {
        metadata: Metadata,
    },
}

impl Resolved {
    /// Identity of a file: `major:minor:inode`.
    pub(crate) fn file_identity(&self) -> Option<String> {
        match self {
            Self::Block { .. } => None,
            Self::File { metadata } => Some(format!("{}:{}", DevNum::of_stat(metadata.dev()), metadata.ino())),
        }
    }
}

/// Resolves `path`.
pub(crate) fn resolve(path: &Path, roots: &Roots) -> Result<Resolved, DiscoverError> {
    let metadata = fs::metadata(path).map_err(|source| why_not(path, source))?;
    let kind = metadata.file_type();
    let number = DevNum::of_stat(metadata.rdev());
    if kind.is_block_device() {
        return Ok(Resolved::Block { number, node: path.to_path_buf() });
    }
    if kind.is_file() {
        return Ok(Resolved::File { metadata });
    }
    if kind.is_char_device()
        && let Some(name) = block_name_of_generic(number, roots)
        && let Some(number) = number_of(&name, roots)
    {
        return Ok(Resolved::Block { number, node: Path::new("/dev").join(name) });
    }
    Err(DiscoverError::NotADevice { what: name_of_kind(kind) })
}

/// Why nothing can be found at `path`.
fn why_not(path: &Path, source: io::Error) -> DiscoverError {
    if source.kind() == io::ErrorKind::NotFound {
        if path.ends_with(PLACEHOLDER) {
            return DiscoverError::Placeholder;
        }
        if let Ok(target) = fs::read_link(path) {
            return DiscoverError::DanglingLink { target };
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        if let Some(folder) = folder.filter(|folder| !folder.exists()) {
            return DiscoverError::NoFolder { folder: folder.to_owned() };
        }
    }
    DiscoverError::io("look it up", source)
}

/// Name of the block device (`nvme0n1`) to which the NVMe character device `number` (`ng0n1`) is the
/// other door.
pub(crate) fn block_name_of_generic(number: DevNum, roots: &Roots) -> Option<String> {
    let link = fs::canonicalize(roots.sys.join("dev/char").join(number.to_string())).ok()?;
    let rest = link.file_name()?.to_str()?.strip_prefix("ng")?;
    rest.starts_with(|c: char| c.is_ascii_digit()).then(|| format!("nvme{rest}"))
}

/// Number of the NVMe character device (`ng0n1`) beside the block device `name` (`nvme0n1`).
pub(crate) fn generic_of_block(name: &str, roots: &Roots) -> Option<DevNum> {
    let generic = format!("ng{}", name.strip_prefix("nvme")?);
    DevNum::parse(&fs::read_to_string(roots.sys.join("class/nvme-generic").join(generic).join("dev")).ok()?)
}

/// Number of the block device called `name`.
fn number_of(name: &str, roots: &Roots) -> Option<DevNum> {
    DevNum::parse(&fs::read_to_string(roots.sys.join("class/block").join(name).join("dev")).ok()?)
}

fn name_of_kind(kind: fs::FileType) -> &'static str {
    if kind.is_dir() {
        "a directory"
    } else if kind.is_char_device() {
        "a character device"
    } else if kind.is_fifo() {
        "a pipe"
    } else if kind.is_socket() {
        "a socket"
    } else {
        "something else"
    }
}
