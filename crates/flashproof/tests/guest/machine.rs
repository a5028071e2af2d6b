//! A virtual machine: disks that survive a power cut, boot, commands inside, and the power cut itself. At most two
//! machines run at once. A machine is killed when its [`Guest`] is dropped.

use super::agent::{Agent, INIT};
use super::cpio::{Archive, name};
use super::qmp::Qmp;
use crate::support::{Bench, Ended, FLASHPROOF, Killed, skip, tool};
use serde_json::json;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Condvar, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Timeout of a boot, and of an answer of QEMU; only against hanging.
const BOOT_PATIENCE: Duration = Duration::from_secs(300);
/// Timeout of a command in the guest, for example a whole certification.
const COMMAND_PATIENCE: Duration = Duration::from_secs(600);

const PATH: &str = "/usr/sbin:/usr/bin:/sbin:/bin";

const GUESTS: usize = 2;

/// The drive under test: one namespace of 256 MiB, with reclaim units of 16 MiB and 8 handles.
pub(super) const FDP: &str = "-device nvme-subsys,id=subsys0,nqn=subsys0,fdp=on,fdp.runs=16M,fdp.nrg=1,fdp.nruh=8 \
     -device nvme,id=fdp0,serial=FDP0,subsys=subsys0,ocp=on \
     -device nvme-ns,drive=fdp,nsid=1,bus=fdp0,logical_block_size=512,fdp.ruhs=0-7";
/// Size of every drive, except the one at /data and `drive=small`.
pub(super) const DRIVE_BYTES: u64 = 256 << 20;
/// A small drive for tests that fill it many times: 96 MiB, with reclaim units of 8 MiB.
pub(super) const SMALL_FDP: &str = "-device nvme-subsys,id=subsys0,nqn=subsys0,fdp=on,fdp.runs=8M,fdp.nrg=1,fdp.nruh=8 \
     -device nvme,id=fdp0,serial=FDP0,subsys=subsys0,ocp=on \
     -device nvme-ns,drive=small,nsid=1,bus=fdp0,logical_block_size=512,fdp.ruhs=0-7";
const SMALL_BYTES: u64 = 96 << 20;

/// A machine that is off: its disks, its kernel and its root directory.
pub(super) struct Machine {
    pub(super) bench: Bench,
    parts: PathBuf,
    devices: String,
    drives: Vec<String>,
}

impl Machine {
    /// A machine with the drives that `devices` describes to QEMU. Each `drive=NAME` gets its own image. The image of
    /// `drive=locked` is read-only; a running [`crate::support::CachedDrive`] serves the image of `drive=cached`.
    /// `None`, with a message, without QEMU or a kernel.
    pub(super) fn new(devices: &str) -> Option<Self> {
        // target/guest, which scripts/guest-setup creates.
        let target = Path::new(FLASHPROOF).parent()?.parent()?;
        let parts = target.join("guest");
        if !parts.join("qemu").exists() {
            let why = fs::read_to_string(target.join("guest.missing"))
                .unwrap_or("run scripts/guest-setup".into());
            return skip(&format!(
                "no guest with an emulated NVMe drive: {}",
                why.trim()
            ));
        }
        let bench = Bench::new();
        bench.write("initrd", initrd(&parts)?);
        let drives: Vec<String> = devices
            .split([' ', ','])
            .filter_map(|part| part.strip_prefix("drive="))
            .map(str::to_owned)
            .collect();
        let bytes = |drive: &str| {
            if drive == "small" {
                SMALL_BYTES
            } else {
                DRIVE_BYTES
            }
        };
        let images = drives.iter().map(|drive| (drive.as_str(), bytes(drive)));
        for (image, bytes) in images.chain([("data", 64 << 20)]) {
            File::create(bench.path(format!("{image}.img")))
                .unwrap()
                .set_len(bytes)
                .unwrap();
        }
        // After a power cut, the journal restores the file system. Without a journal, any file could be lost.
        tool(
            "mkfs.ext4",
            &[
                "-q",
                "-F",
                "-E",
                "nodiscard",
                bench.path("data.img").to_str()?,
            ],
        )?;
        Some(Self {
            bench,
            parts,
            devices: devices.to_owned(),
            drives,
        })
    }

    /// Boots the machine, with its data disk at /data.
    pub(super) fn boot(&self) -> Guest<'_> {
        let slot = Slot::wait();
        let path = |name: &str| self.bench.path(name).to_str().unwrap().to_owned();
        let started = Instant::now();
        for socket in ["agent", "qmp"] {
            let _ = fs::remove_file(self.bench.path(socket));
        }
        let disk = |id: &str, cache: &str| {
            format!(
                "file={},id={id},format=raw,if=none,{cache}",
                path(&format!("{id}.img"))
            )
        };
        let mut qemu = Command::new(self.parts.join("qemu"));
        qemu.args(["-M", "pc", "-accel", "tcg,thread=multi", "-cpu", "qemu64", "-smp", "2", "-m", "512"])
            .args(["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"])
            .args(["-serial", &format!("file:{}", path("console"))])
            .args(["-kernel", self.parts.join("vmlinuz").to_str().unwrap(), "-initrd", &path("initrd")])
            .args([
                "-append",
                "console=ttyS0 quiet panic=-1 mitigations=off nokaslr tsc=reliable no_timer_check random.trust_cpu=on",
            ])
            .args(["-device", "virtio-serial-pci", "-device", "virtserialport,chardev=agent"])
            .args(["-chardev", &format!("socket,id=agent,path={},server=on,wait=off", path("agent"))])
            .args(["-qmp", &format!("unix:{},server=on,wait=off", path("qmp"))])
            .current_dir(self.bench.path(""))
            .args(self.drives.iter().flat_map(|drive| {
                if drive == "cached" {
                    let socket = "file=nbd+unix:///?socket=cached.img.nbd";
                    return ["-drive".to_owned(), format!("{socket},id=cached,format=raw,if=none,cache=none")];
                }
                let options = if drive == "locked" { "readonly=on" } else { "cache=unsafe,discard=unmap" };
                ["-drive".to_owned(), disk(drive, options)]
            }))
            .args(self.devices.split_whitespace())
            // QEMU keeps no written data, so a kill of QEMU is a power cut.
            .args(["-drive", &disk("data", "cache=writethrough")])
            .args(["-device", "nvme,serial=DATA0,drive=data"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(self.bench.path("qemu.log")).unwrap());
        let qemu = Killed(qemu.spawn().expect("QEMU can be started"));
        let connect = |name: &str| loop {
            match UnixStream::connect(self.bench.path(name)) {
                Ok(stream) => {
                    stream.set_read_timeout(Some(BOOT_PATIENCE)).unwrap();
                    return stream;
                }
                Err(error) if started.elapsed() > BOOT_PATIENCE => {
                    panic!("{name}: {error}\n{}", self.said())
                }
                Err(_) => thread::sleep(Duration::from_millis(20)),
            }
        };
        let mut agent = Agent::new(connect("agent"))
            .unwrap_or_else(|error| panic!("no boot: {error}\n{}", self.said()));
        agent.wait_at_most(COMMAND_PATIENCE);
        let mut guest = Guest {
            agent,
            qmp: Qmp::new(connect("qmp")),
            _qemu: qemu,
            machine: self,
            _slot: slot,
        };
        guest
            .run("mkdir -p /data && mount -t ext4 $DATA0 /data")
            .expect(0);
        guest
    }

    /// Output of QEMU and the guest's kernel.
    fn said(&self) -> String {
        let read = |name| {
            String::from_utf8_lossy(&fs::read(self.bench.path(name)).unwrap_or_default())
                .into_owned()
        };
        format!("QEMU: {}\nconsole: {}", read("qemu.log"), read("console"))
    }
}

pub(super) struct Guest<'a> {
    agent: Agent,
    pub(super) qmp: Qmp,
    _qemu: Killed,
    machine: &'a Machine,
    _slot: Slot,
}

impl Guest<'_> {
    pub(super) fn run(&mut self, script: &str) -> Ended {
        let ended = self.agent.run(script);
        ended.unwrap_or_else(|error| panic!("{script}: {error}\n{}", self.machine.said()))
    }

    /// Runs a script that must succeed, and returns its output.
    pub(super) fn ask(&mut self, script: &str) -> String {
        self.run(script).expect(0).stdout
    }

    /// Starts a script in the background. [`Self::end`] finds it by `name`.
    pub(super) fn start(&mut self, name: &str, script: &str) {
        let result = format!("echo $? >/tmp/{name}.tmp; mv /tmp/{name}.tmp /tmp/{name}.code");
        self.ask(&format!(
            "{{ ({script}) >/tmp/{name}.out 2>/tmp/{name}.err; {result}; }} >/dev/null 2>&1 &"
        ));
    }

    pub(super) fn end(&mut self, name: &str) -> Ended {
        self.wait_until(&format!("[ -e /tmp/{name}.code ]"));
        self.run(&format!(
            "cat /tmp/{name}.out; cat /tmp/{name}.err >&2; exit $(cat /tmp/{name}.code)"
        ))
    }

    pub(super) fn wait_until(&mut self, condition: &str) {
        self.ask(&format!("until {condition}; do sleep 0.1; done"));
    }

    /// Copies the disk of /data as a power cut at this moment would leave it. The machine is paused during the copy.
    pub(super) fn data_now(&mut self, copy: &Path) {
        self.qmp.command("stop", json!({}));
        fs::copy(self.machine.bench.path("data.img"), copy).unwrap();
        self.qmp.command("cont", json!({}));
    }

    /// Cuts the power: QEMU is killed.
    pub(super) fn power_cut(self) {}
}

/// Copies a directory out of an image of the data disk, after a replay of the journal as at the next mount.
pub(super) fn copy_out(image: &Path, directory: &str, to: &Path) {
    let image = image.to_str().unwrap();
    // Exit code 1: something was repaired, for example by a replay of the journal.
    let output = Command::new("e2fsck")
        .args(["-f", "-y", image])
        .env("PATH", PATH)
        .output()
        .unwrap();
    assert!(
        matches!(output.status.code(), Some(0 | 1)),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
    // debugfs creates a directory of the same name in the directory that it is given.
    let within = tempfile::tempdir_in(to.parent().unwrap()).unwrap();
    let command = format!("rdump {directory} {}", within.path().to_str().unwrap());
    tool("debugfs", &["-R", &command, image]).expect("debugfs reads the image");
    fs::rename(within.path().join(directory.trim_start_matches('/')), to).unwrap();
}

/// The guest's root directory, packed: flashproof, this test program as `tests`, nvme-cli, their libraries, and
/// busybox; `None`, with a message, without nvme-cli or binutils.
fn initrd(parts: &Path) -> Option<&'static [u8]> {
    static PACKED: OnceLock<Option<Vec<u8>>> = OnceLock::new();
    PACKED.get_or_init(|| pack(parts)).as_deref()
}

fn pack(parts: &Path) -> Option<Vec<u8>> {
    let nvme = tool(
        "sh",
        &[
            "-c",
            "command -v nvme || { echo there is no nvme-cli >&2; exit 1; }",
        ],
    )?;
    let tests = std::env::current_exe().unwrap();
    let mut archive = Archive::default();
    for directory in ["bin", "dev", "proc", "sys", "tmp"] {
        archive.directory(directory);
    }
    archive.program("init", INIT.as_bytes());
    archive.program("bin/busybox", &fs::read(parts.join("busybox")).unwrap());
    let mut libraries = BTreeSet::new();
    for (place, program) in [
        ("bin/flashproof", FLASHPROOF),
        ("bin/tests", tests.to_str()?),
        ("bin/nvme", &nvme),
    ] {
        let stripped = tempfile::NamedTempFile::new().unwrap();
        tool("strip", &["-o", stripped.path().to_str()?, program])?;
        archive.program(place, &fs::read(stripped.path()).unwrap());
        let found = tool("ldd", &[program])?;
        libraries.extend(
            found
                .split_whitespace()
                .filter(|word| word.starts_with('/'))
                .map(str::to_owned),
        );
    }
    for library in libraries {
        archive.program(name(Path::new(&library)), &fs::read(&library).unwrap());
    }
    Some(archive.finish())
}

/// Permission to run one of the [`GUESTS`] guests.
struct Slot;

static FREE: (Mutex<usize>, Condvar) = (Mutex::new(GUESTS), Condvar::new());

impl Slot {
    fn wait() -> Self {
        let free = FREE.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut free = FREE
            .1
            .wait_while(free, |free| *free == 0)
            .unwrap_or_else(PoisonError::into_inner);
        *free -= 1;
        Self
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        *FREE.0.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        FREE.1.notify_one();
    }
}
