//! The folder of a collection: one file per node, written during the collection, plus logs and iostat's output. The
//! name of a file gives its kind: `NODE.info`, or it contains `.log` or `iostat`.

use super::build;
use super::put_back::{self, Lock};
use results::files::{self, Links};
use session::failure::Failure;
use sizing::info::{FILE_ENDING, header_text, sample_text};
use sizing::iostat::of_node;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use store::nodes::Node;

/// A folder created by this collection.
pub struct Folder {
    pub dir: PathBuf,
    _lock: Lock,
}

/// Checks that a collection can go to `dir`: the directory is missing or empty.
pub fn check(dir: &Path) -> Result<(), Failure> {
    if is_to_be_put_back(dir) {
        return Err(Failure::usage(format!(
            "cannot collect into {0} - a collection there was cut off before it put its settings back - first: \
             flashproof size restore {0}",
            dir.display()
        )));
    }
    match fs::read_dir(dir).map(|mut entries| entries.next().is_some()) {
        Ok(false) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Ok(true) => Err(Failure::usage(format!(
            "cannot collect into {} - something is in it - give another --out",
            dir.display()
        ))),
        Err(error) => {
            Err(Failure::usage(format!("cannot collect into {} - {error} - give another --out", dir.display())))
        }
    }
}

/// True if a collection in `dir` was killed, or is running.
fn is_to_be_put_back(dir: &Path) -> bool {
    dir.join(put_back::FILE).symlink_metadata().is_ok()
}

/// Folders next to `dir` whose collections were killed before they restored the settings.
pub fn cut_off_beside(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(files::dir_of(dir)).into_iter().flatten().flatten();
    let mut cut_off: Vec<_> = entries
        .map(|entry| dir.with_file_name(entry.file_name()))
        // A running collection holds the lock.
        .filter(|path| path != dir && is_to_be_put_back(path) && Lock::take(path).is_ok())
        .collect();
    cut_off.sort();
    cut_off
}

impl Folder {
    pub fn create(dir: PathBuf) -> Result<Self, Failure> {
        check(&dir)?;
        if !dir.is_dir() {
            fs::create_dir_all(&dir).map_err(|error| failed(&dir, &error))?;
        }
        let lock = Lock::take(&dir)?;
        Ok(Self { dir, _lock: lock })
    }

    /// Creates the file of a node, with the replies queried once.
    pub fn begin(&self, node: &Node, once: &[(String, String)]) -> Result<NodeFile, Failure> {
        let path = self.dir.join(format!("{}{FILE_ENDING}", node.id));
        let file =
            OpenOptions::new().append(true).create_new(true).open(&path).map_err(|error| failed(&path, &error))?;
        let tool = concat!("flashproof ", env!("CARGO_PKG_VERSION"), " cluster collect");
        let header = header_text(tool, &node.host.to_string(), &node.id, build(node));
        let mut this = NodeFile { path, file, samples: 0 };
        let mut text = header;
        once.iter().for_each(|(name, value)| text.extend([name, "\t", value, "\n"]));
        this.write(&text)?;
        Ok(this)
    }

    /// Copies logs and iostat's output into the folder; compressed files stay compressed.
    pub fn copy(&self, logs: &[PathBuf], iostat: &[PathBuf]) -> Result<(), Failure> {
        logs.iter().try_for_each(|path| copy("", path, Content::Log, &self.dir))?;
        iostat.iter().try_for_each(|path| {
            let (node, path) = of_node(path);
            copy(&node.map(|node| format!("{node}-")).unwrap_or_default(), path, Content::Iostat, &self.dir)
        })
    }
}

/// Kind of a copied file.
#[derive(Clone, Copy)]
enum Content {
    Log,
    Iostat,
}

impl Content {
    /// Name of the copied file, which must show its kind.
    fn name(self, name: &str) -> String {
        let lower = name.to_ascii_lowercase();
        let is_other = lower.contains(FILE_ENDING);
        match self {
            Self::Log if is_other || lower.contains("iostat") => "aerospike.log".to_owned(),
            Self::Log if lower.contains(".log") => name.to_owned(),
            Self::Log => format!("{name}.log"),
            Self::Iostat if is_other => "iostat".to_owned(),
            Self::Iostat if lower.contains("iostat") => name.to_owned(),
            Self::Iostat => format!("iostat-{name}"),
        }
    }
}

/// Checks that `paths` can be read, as far as possible in advance.
pub fn readable<'a>(paths: impl Iterator<Item = &'a Path>) -> Result<(), Failure> {
    let opened = paths
        .filter(|path| path.as_os_str() != "-")
        .map(|path| open(path).map(drop).map_err(|failure| failure.message));
    session::failure::all(opened, Failure::usage).map(drop)
}

fn open(path: &Path) -> Result<File, Failure> {
    files::open(path, Links::Followed)
        .map_err(|error| Failure::usage(format!("cannot read {} - {error} - check the path", path.display())))
}

/// Copies one file up to its current length: a log grows.
fn copy(node: &str, path: &Path, content: Content, dir: &Path) -> Result<(), Failure> {
    let is_stdin = path.as_os_str() == "-";
    let name = path.file_name().filter(|_| !is_stdin).unwrap_or("stdin".as_ref());
    let name = format!("{node}{}", content.name(&name.to_string_lossy()));
    let (mut to, mut target) = (dir.join(&name), None);
    // Logs of different nodes can have the same name. A number goes between the stem and the extension.
    let (stem, ending) = name.split_at(name.find('.').unwrap_or(name.len()));
    for number in 2.. {
        match OpenOptions::new().write(true).create_new(true).open(&to) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                to = dir.join(format!("{stem}-{number}{ending}"))
            }
            opened => {
                target = Some(opened.map_err(|error| failed(&to, &error))?);
                break;
            }
        }
    }
    let Some(mut target) = target else { return Ok(()) };
    let copied = if is_stdin {
        io::copy(&mut io::stdin().lock(), &mut target)
    } else {
        let source = open(path)?;
        source.metadata().and_then(|metadata| io::copy(&mut source.take(metadata.len()), &mut target))
    };
    copied
        .map(drop)
        .map_err(|error| Failure::environment(format!("cannot copy {} to {} - {error}", path.display(), to.display())))
}

/// Replies of one node.
pub struct NodeFile {
    path: PathBuf,
    file: File,
    pub samples: u64,
}

impl NodeFile {
    /// Adds a sample in one write, so that a kill leaves it whole or absent.
    pub fn sample(&mut self, at: SystemTime, replies: &[(String, String)]) -> Result<(), Failure> {
        self.write(&sample_text(at, replies))?;
        self.samples += 1;
        Ok(())
    }

    fn write(&mut self, text: &str) -> Result<(), Failure> {
        self.file.write_all(text.as_bytes()).map_err(|error| failed(&self.path, &error))
    }
}

fn failed(path: &Path, error: &io::Error) -> Failure {
    Failure::environment(format!(
        "cannot write to {} - {error} - give --out a folder that you may write to, with room on its disk",
        path.display()
    ))
}
