//! Fixture of the tests on real devices: a loop device, removed at the end.

use super::super::*;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::time::Duration;

use crate::discover::DeviceNumber;
use std::os::unix::fs::{FileExt, MetadataExt, symlink};
use std::path::Path;
use std::process::{Command, Output};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tempfile::TempDir;

/// Size of the loop devices: large enough for ext4, and for random samples between the ends.
pub(super) const SIZE: u64 = 32 << 20;

/// `None` if the command is not installed.
pub(super) fn run(command: &str, arguments: &[&str]) -> Option<Output> {
    Command::new(command)
        .args(arguments)
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .output()
        .ok()
}

/// As [`run`]; `None` and a message if the command failed.
pub(super) fn succeed(command: &str, arguments: &[&str]) -> Option<String> {
    let line = format!("{command} {}", arguments.join(" "));
    match run(command, arguments) {
        Some(output) if output.status.success() => {
            Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
        }
        Some(output) => skip(&format!(
            "{line}: {}",
            String::from_utf8_lossy(&output.stderr)
                .trim()
                .replace('\n', " ")
        )),
        None => skip(&format!("{command} is not installed")),
    }
}

/// Writes to stderr directly, because the test harness captures the output of passing tests.
pub(super) fn skip<T>(why: &str) -> Option<T> {
    let test = std::thread::current().name().unwrap_or("test").to_owned();
    let _ = writeln!(io::stderr(), "{test} skipped: {why}");
    None
}

/// A loop device, and a guard with records of its own.
pub(super) struct Bench {
    pub(super) device: String,
    pub(super) dir: TempDir,
}

impl Bench {
    /// `None` without root or losetup.
    pub(super) fn new(options: &[&str]) -> Option<Self> {
        if sys::open::effective_user() != 0 {
            return skip("a loop device needs root");
        }
        let dir = tempfile::tempdir().unwrap();
        let image = dir.path().join("image");
        File::create(&image).unwrap().set_len(SIZE).unwrap();
        let image = image.to_str().unwrap();
        let device = attach(&[options, &[image]].concat())?;
        Some(Self { device, dir })
    }

    /// Attaches a loop device to `path`. Returns its name and its cleanup.
    pub(super) fn attach(&self, path: &str, options: &[&str]) -> Option<(String, Undo<'static>)> {
        let device = attach(&[options, &[path]].concat())?;
        Some((
            device.clone(),
            Undo("losetup", vec!["--detach".into(), device]),
        ))
    }

    pub(super) fn mount(&self, device: &str) -> Option<(String, Undo<'static>)> {
        succeed("mkfs.ext4", &["-q", "-F", device])?;
        let at = self.path("mount");
        fs::create_dir(&at).unwrap();
        succeed("mount", &[device, &at])?;
        Some((at.clone(), Undo("umount", vec!["--lazy".into(), at])))
    }

    pub(super) fn guard(&self) -> Guard {
        Guard {
            watch_time: Duration::from_millis(200),
            // Commands of concurrent tests (losetup) open every loop device for a moment.
            settle: Duration::from_secs(1),
            ..Guard::new(Some(self.dir.path().join("state")))
        }
    }

    pub(super) fn request(&self) -> WriteRequest {
        WriteRequest::new(&self.device, "test")
    }

    pub(super) fn shared(&self) -> WriteRequest {
        WriteRequest {
            shared: true,
            ..self.request()
        }
    }

    /// Consent for the device, from a guard that cannot ask a question.
    pub(super) fn consent(&self, request: &WriteRequest) -> Result<WriteConsent, String> {
        let answer = self
            .guard()
            .consent(std::slice::from_ref(request), &mut EraseAnswers::default());
        answer
            .map(|mut consents| consents.remove(0))
            .map_err(|refused| refused.to_string())
    }

    pub(super) fn refusal(&self) -> String {
        let text = self.consent(&self.request()).expect_err("must be refused");
        assert!(
            text.starts_with(&format!("refusing to write to {} - ", self.device)),
            "{text}"
        );
        assert!(!text.contains('\n'), "one line: {text}");
        text
    }

    /// Asserts that `requests` are refused because `name` has bytes in common with the bench's device.
    pub(super) fn assert_shares_bytes(&self, requests: &[WriteRequest], name: &str) {
        let text = self
            .guard()
            .consent(requests, &mut EraseAnswers::default())
            .unwrap_err()
            .to_string();
        let shares = format!("{name} - it has bytes in common with {}", self.device);
        assert!(text.contains(&shares), "{text}");
    }

    /// Asserts that the device is refused. In the message, `why` must follow the device's name.
    pub(super) fn assert_refused(&self, why: &str) {
        let text = self.refusal();
        assert!(
            text.contains(&format!("{} - {why}", self.device)),
            "expected `{why}`, got `{text}`"
        );
    }

    /// Writes bytes to the device and flushes the page cache.
    pub(super) fn put(&self, at: u64, bytes: &[u8]) {
        let device = OpenOptions::new().write(true).open(&self.device).unwrap();
        device.write_all_at(bytes, at).unwrap();
        device.sync_all().unwrap();
    }

    pub(super) fn content(&self) -> Vec<u8> {
        fs::read(&self.device).unwrap()
    }

    /// Adds a partition to the device. Returns its kernel name, a node for it, and the cleanup.
    pub(super) fn with_partition(&self) -> Option<(String, String, Undo<'static>)> {
        succeed("addpart", &[&self.device, "1", "2048", "32768"])?;
        let undo = Undo("delpart", vec![self.device.clone(), "1".into()]);
        let name = format!("{}p1", self.device.trim_start_matches("/dev/"));
        let numbers = fs::read_to_string(format!("/sys/class/block/{name}/dev")).unwrap();
        let (major, minor) = numbers.trim().split_once(':').unwrap();
        let node = self.path("partition");
        succeed("mknod", &[&node, "b", major, minor])?;
        Some((name, node, undo))
    }

    /// Adds a loop device to a fake /sys and /dev as the drive `name` with these attributes, see
    /// [`Self::guard_of_posed`].
    pub(super) fn pose(&self, device: &str, name: &str, attributes: &[(&str, &str)]) {
        let sys = self.dir.path().join("sys");
        let dev = self.dir.path().join("dev");
        let number = DeviceNumber::of_stat(fs::metadata(device).unwrap().rdev()).to_string();
        let real = fs::canonicalize(format!("/sys/dev/block/{number}")).unwrap();
        let dir = sys.join("devices").join(name);
        let size = (SIZE / 512).to_string();
        for (attribute, text) in [("dev", number.as_str()), ("size", &size)]
            .iter()
            .chain(attributes)
        {
            let path = dir.join(attribute);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        for (link, to) in [
            (sys.join("dev/block").join(&number), dir.clone()),
            (sys.join("block").join(name), dir.clone()),
            (dir.join("stat"), real.join("stat")),
            (dir.join("diskseq"), real.join("diskseq")),
            (dev.join(name), device.into()),
        ] {
            fs::create_dir_all(link.parent().unwrap()).unwrap();
            symlink(to, link).unwrap();
        }
    }

    pub(super) fn guard_of_posed(&self) -> Guard {
        let root = self.dir.path().to_owned();
        symlink("/proc", root.join("proc")).unwrap();
        Guard {
            root,
            ..self.guard()
        }
    }

    pub(super) fn path(&self, name: &str) -> String {
        self.dir.path().join(name).to_str().unwrap().to_owned()
    }
}

/// A lock against concurrent attachments of loop devices by tests of this program. Two concurrent searches for a free
/// loop device find the same device, and the slower losetup keeps the device open for a while.
pub(super) fn no_attachment() -> MutexGuard<'static, ()> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

fn attach(arguments: &[&str]) -> Option<String> {
    let _turn = no_attachment();
    succeed("losetup", &[&["--find", "--show"], arguments].concat())
}

impl Drop for Bench {
    fn drop(&mut self) {
        run("losetup", &["--detach", &self.device]);
    }
}

/// Runs a cleanup command when dropped.
pub(super) struct Undo<'a>(pub(super) &'a str, pub(super) Vec<String>);

impl Drop for Undo<'_> {
    fn drop(&mut self) {
        run(
            self.0,
            &self.1.iter().map(String::as_str).collect::<Vec<_>>(),
        );
    }
}

pub(super) fn write_through(consent: WriteConsent, at: u64, bytes: &[u8]) {
    let target = crate::target::Target::writable(consent);
    let file = File::from(target.fd().try_clone_to_owned().unwrap());
    let mut buf = sys::buffer::Pool::new(bytes.len())
        .unwrap()
        .cut(bytes.len())
        .unwrap();
    buf.copy_from_slice(bytes);
    assert_eq!(file.write_at(&buf, at).unwrap(), bytes.len());
    assert!(target.is_writable());
}

pub(super) fn exists(path: &str) -> bool {
    Path::new(path).exists()
}
