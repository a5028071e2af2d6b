//! Tests on a hanging device: a loop device whose file is on a frozen file system. Needs root.

use super::*;
use results::assert_any_contains;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// The device. Removed when this value is dropped.
struct Device {
    dir: tempfile::TempDir,
    name: Option<String>,
    is_mounted: bool,
    /// Thaws the file system if this process is killed. Otherwise processes that wait for the device could never end.
    watchdog: Option<Child>,
}

impl Device {
    fn new() -> Option<Self> {
        let mut device = Self {
            dir: tempfile::tempdir().unwrap(),
            name: None,
            is_mounted: false,
            watchdog: None,
        };
        let image = device.dir.path().join("image").to_str().unwrap().to_owned();
        let of_size = |path: &str| File::create(path).unwrap().set_len(64 << 20).unwrap();
        std::fs::create_dir(device.mount()).unwrap();
        of_size(&image);
        let mount = device.mount().to_str().unwrap().to_owned();
        tool("mkfs.ext4", &["-q", "-F", &image])?;
        tool("mount", &["-o", "loop", &image, &mount])?;
        device.is_mounted = true;
        let file = format!("{mount}/device");
        of_size(&file);
        device.name = Some(
            tool("losetup", &["--find", "--show", &file])?
                .trim()
                .to_owned(),
        );
        Some(device)
    }

    fn mount(&self) -> PathBuf {
        self.dir.path().join("mount")
    }

    /// From now on, writes to the device do not complete.
    fn freeze(&mut self) -> Option<String> {
        let mount = self.mount();
        let name = self.name.as_ref()?;
        println!(
            "freezes {0}; by hand: fsfreeze --unfreeze {0}, losetup --detach {name}",
            mount.display()
        );
        let script = "sleep 60; fsfreeze --unfreeze $0; losetup --detach $1; umount --lazy $0";
        let mut watchdog = Command::new("sh");
        watchdog
            .args(["-c", script])
            .arg(&mount)
            .arg(name)
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        // The watchdog has its own process group, because Ctrl-C ends the test's group.
        self.watchdog = Some(
            watchdog
                .stderr(Stdio::null())
                .process_group(0)
                .spawn()
                .ok()?,
        );
        tool("fsfreeze", &["--freeze", mount.to_str()?])
    }

    fn thaw(&mut self) {
        let _ = Command::new("fsfreeze")
            .arg("--unfreeze")
            .arg(self.mount())
            .output();
        if let Some(mut watchdog) = self.watchdog.take() {
            let _ = Command::new("kill")
                .args(["--", &format!("-{}", watchdog.id())])
                .output();
            let _ = watchdog.wait();
        }
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        self.thaw();
        if let Some(name) = &self.name {
            let _ = Command::new("losetup").args(["--detach", name]).output();
        }
        if self.is_mounted {
            let _ = Command::new("umount")
                .arg("--lazy")
                .arg(self.mount())
                .output();
        }
    }
}

/// Output of a program. Prints a message and returns `None` if the program fails or cannot run.
fn tool(name: &str, arguments: &[&str]) -> Option<String> {
    match Command::new(name).args(arguments).output() {
        Ok(output) if output.status.success() => {
            Some(String::from_utf8_lossy(&output.stdout).into_owned())
        }
        Ok(output) => {
            println!(
                "skipped: {name} {arguments:?}: {}",
                String::from_utf8_lossy(&output.stderr).trim()
            );
            None
        }
        Err(error) => {
            println!("skipped: {name}: {error}");
            None
        }
    }
}

#[test]
fn requests_to_a_hung_device_time_out_and_the_server_can_still_end() {
    let Some(mut device) = Device::new() else {
        return;
    };
    let name = device.name.clone().unwrap();
    let listener = listener();
    let port = listener.local_addr().unwrap().port();
    let storage = format!("device {name}\n commit-to-device true\n write-block-size 256K");
    let limits = ClientLimits {
        flush_ms: 2_500,
        ..ClientLimits::default()
    };
    let cluster = Cluster::new(vec![ClusterNode::new("127.0.0.1", port)], 0);
    let request = WriteRequest {
        uses_whole_device: true,
        ..WriteRequest::new(name, "test")
    };
    let dir = tempfile::tempdir().unwrap();
    let Some(bench) = Bench::storing(dir, &storage, request, listener, 1, limits, cluster) else {
        return;
    };
    let mut client = bench.client();
    assert_eq!(client.ask(&put(1, b"x")).0, 0);
    if device.freeze().is_none() {
        return;
    }
    assert_eq!(client.ask(&put(2, b"y")).0, 9, "it may have been written");
    // Requests that need no device are still answered.
    assert_eq!(client.ask(&get(1)).0, 0);
    let lines = bench.lines.clone();
    let begin = Instant::now();
    bench.stop();
    assert!(begin.elapsed() < LIMIT, "{:?}", begin.elapsed());
    let lines = lines.lock().unwrap();
    assert_any_contains!(
        lines,
        "were not written within 2.5 s - the device fails or hangs"
    );
}

#[test]
fn a_node_with_a_hung_device_gives_up_its_partitions_before_it_ends() {
    let Some(mut device) = Device::new() else {
        return;
    };
    let name = device.name.clone().unwrap();
    let listeners = [listener(), listener()];
    let nodes = listeners
        .each_ref()
        .map(|of| ClusterNode::new("127.0.0.1", of.local_addr().unwrap().port()))
        .to_vec();
    let cluster = |own| Cluster::new(nodes.clone(), own);
    let [first, second] = listeners;
    let storage = format!("device {name}\n flush-max-ms 0\n write-block-size 256K");
    let request = WriteRequest {
        uses_whole_device: true,
        ..WriteRequest::new(name, "test")
    };
    let dir = tempfile::tempdir().unwrap();
    let Some(a) = Bench::storing(
        dir,
        &storage,
        request,
        first,
        2,
        ClientLimits::default(),
        cluster(0),
    ) else {
        return;
    };
    let b = Bench::on(second, 1, ClientLimits::default(), cluster(1)).unwrap();
    [&a, &b]
        .iter()
        .for_each(|of| of.until("paired", |of| of.has_said("paired with")));
    let key = (0..)
        .find(|key| cluster(0).has(crate::partition(&digest_of(*key)), 0))
        .unwrap();
    assert_eq!(a.client().ask(&put(key, b"x")).0, 0);
    let mut idle_client = a.client();
    if device.freeze().is_none() {
        return;
    }
    let ending = std::thread::spawn(move || a.stop());
    b.until("it takes over", |of| {
        of.has_said("this node answers all requests until")
    });
    let mut client = b.client();
    b.until("it writes", |_| client.ask(&put(key, b"y")).0 == 0);
    assert!(!ending.is_finished(), "the buffers are not written yet");
    let found = idle_client.0.read(&mut [0; 1]).unwrap();
    assert_eq!(found, 0, "its clients are sent away");
    device.thaw();
    ending.join().unwrap();
}
