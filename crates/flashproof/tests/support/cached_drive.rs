//! A drive with a volatile cache, which is the memory of nbdkit. A kill loses the unflushed data, as a power cut does.

use super::{Bench, project, skip, tool};
use std::fs::{self, File};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(30);

/// A drive that serves a socket until its power is cut.
pub struct CachedDrive {
    pub socket: PathBuf,
    nbdkit: Child,
}

impl CachedDrive {
    /// A drive over `bench/IMAGE` with the defect `lie`, see `data/durability/drive.py`. Two more values select
    /// nbdkit's own cache: `writeback` keeps flushed data, `unsafe` ignores flushes. `None`, with a message, without
    /// nbdkit.
    pub fn start(bench: &Bench, image: &str, lie: &str) -> Option<Self> {
        let socket = bench.path(format!("{image}.nbd"));
        let image = bench.path(image);
        let image = image.to_str().unwrap();
        let plugin = project().join("crates/flashproof/tests/data/durability/drive.py");
        let arguments = match lie {
            "writeback" | "unsafe" => ["--filter=cache", "file", image]
                .map(str::to_owned)
                .into_iter()
                .collect::<Vec<_>>(),
            _ => vec![
                "python".into(),
                plugin.to_str().unwrap().into(),
                format!("file={image}"),
                format!("log={image}.log"),
            ],
        };
        let option = if lie == "writeback" || lie == "unsafe" {
            "cache"
        } else {
            "lie"
        };
        tool(
            "nbdkit",
            &[&arguments[usize::from(option == "cache")], "--version"],
        )?;
        let _ = fs::remove_file(&socket);
        let mut nbdkit = Command::new("nbdkit");
        nbdkit
            .args(["--foreground", "--unix", socket.to_str().unwrap()])
            .args(arguments)
            .arg(format!("{option}={lie}"));
        nbdkit
            .env("TMPDIR", bench.path(""))
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        nbdkit.stderr(File::create(bench.path("nbdkit.log")).unwrap());
        let drive = Self {
            socket,
            nbdkit: nbdkit.spawn().unwrap(),
        };
        wait_until("nbdkit listens", || {
            UnixStream::connect(&drive.socket).is_ok()
        });
        Some(drive)
    }

    pub fn cut(&mut self) {
        let _ = self.nbdkit.kill();
        let _ = self.nbdkit.wait();
    }
}

impl Drop for CachedDrive {
    fn drop(&mut self) {
        self.cut();
    }
}

/// A drive as a block device of this machine: a loop device on a file of FUSE.
pub struct Attached {
    pub device: String,
    mount: PathBuf,
    nbdfuse: Child,
}

impl Attached {
    /// `None`, with a message, without FUSE, loop devices or root.
    pub fn new(bench: &Bench, drive: &CachedDrive) -> Option<Self> {
        let mount = bench.path("nbd");
        fs::create_dir_all(&mount).unwrap();
        tool("nbdfuse", &["--version"])?;
        if !fs::exists("/dev/fuse").unwrap() {
            return skip("there is no /dev/fuse");
        }
        let file = mount.join("disk");
        let uri = format!("nbd+unix:///?socket={}", drive.socket.display());
        let mut nbdfuse = Command::new("nbdfuse");
        // A single connection: the drive does not promise that several connections see the same data.
        nbdfuse.args(["-C", "1", file.to_str().unwrap(), &uri]);
        let child = nbdfuse
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut attached = Self {
            device: String::new(),
            mount,
            nbdfuse: child,
        };
        wait_until("nbdfuse has mounted", || file.exists());
        let arguments = ["--find", "--show", "--direct-io=on", file.to_str().unwrap()];
        attached.device = (0..3).find_map(|_| tool("losetup", &arguments))?;
        Some(attached)
    }
}

impl Attached {
    /// Cuts the drive's power. nbdfuse ends first, because it may answer with EINVAL or abort when nbdkit is gone.
    pub fn cut(&mut self, drive: &mut CachedDrive) {
        let _ = self.nbdfuse.kill();
        let _ = self.nbdfuse.wait();
        drive.cut();
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        if !self.device.is_empty() {
            tool("losetup", &["--detach", &self.device]);
        }
        let _ = self.nbdfuse.kill();
        let _ = self.nbdfuse.wait();
        tool("umount", &["--lazy", self.mount.to_str().unwrap()]);
    }
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < PATIENCE, "not until {what}");
        thread::sleep(Duration::from_millis(10));
    }
}
