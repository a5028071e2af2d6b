//! The safety guard: devices in use are always refused, devices with data need consent, read-only loads need none.

use crate::support;

use std::any::Any;
use std::fs::OpenOptions;
use std::process::Command;
use support::{Bench, Ended, LAX, LoopDevice, MIB, OUT, Running, Undo, tool};

/// A loop device and its bench.
struct Case {
    // The device comes first: fields are dropped in this order.
    device: LoopDevice,
    bench: Bench,
    /// Bytes at the start of the device that the kernel may write on its own.
    kernels_bytes: usize,
}

impl Case {
    fn new() -> Option<Self> {
        Self::on(Bench::new())
    }

    fn on(bench: Bench) -> Option<Self> {
        Some(Self {
            device: LoopDevice::new(&bench, 32 * MIB, &[])?,
            bench,
            kernels_bytes: 0,
        })
    }

    /// A case with a file system to which the kernel writes nothing by itself after mount and sync.
    fn with_file_system() -> Option<Self> {
        let case = Self::new()?;
        // mkfs writes everything here. Otherwise, the kernel would write tables and bitmaps after the mount.
        let whole = "lazy_itable_init=0,lazy_journal_init=0";
        let initialised = "^uninit_bg,^metadata_csum";
        tool(
            "mkfs.ext4",
            &[
                "-q",
                "-F",
                "-O",
                initialised,
                "-E",
                whole,
                &case.device.name,
            ],
        )?;
        Some(case)
    }

    /// Contents of the device, without the part that the kernel may write.
    fn content(&self) -> Vec<u8> {
        self.device.content().split_off(self.kernels_bytes)
    }

    /// Mounts `device`, which has the case's file system. Returns the mount point.
    fn mount(&self, device: &str) -> Option<(String, Undo)> {
        let at = self.bench.path("mount").to_str().unwrap().to_owned();
        std::fs::create_dir(&at).unwrap();
        tool("mount", &[device, &at])?;
        let unmount = Undo::with("umount", &[&at]);
        tool("sync", &["--file-system", &at]);
        Some((at, unmount))
    }

    fn load(&self, seconds: u32, writes: bool) -> String {
        let writes = if writes {
            "write-reqs-per-sec: 100\n"
        } else {
            ""
        };
        let device = &self.device.name;
        format!(
            "device-names: {device}\ntest-duration-sec: {seconds}\nread-reqs-per-sec: 100\n{writes}"
        )
    }

    /// Asserts that a writing load with these options is refused, and that nothing was written.
    #[track_caller]
    fn refused(&self, options: &[&str], why: &str) {
        let before = self.content();
        let start = format!("refusing to write to {} - ", self.device.name);
        let ended = self.bench.storage(&self.load(1, true), options);
        ended.expect_error(3, &[&start, why]);
        assert!(before == self.content(), "{why}: the device was written to");
        assert!(!self.bench.exists(OUT), "{why}");
    }

    /// Asserts that a writing load with these options runs and changes the device.
    #[track_caller]
    fn runs(&self, options: &[&str]) {
        let before = self.content();
        self.bench
            .storage(&self.load(1, true), &[options, &LAX].concat())
            .expect(0);
        assert!(before != self.content());
    }

    fn run_with(&self, variables: &[(&str, &str)]) -> Ended {
        self.bench.write("test.conf", self.load(1, true));
        let mut command =
            self.bench
                .prepare(&["storage", "test.conf", "--out", OUT, LAX[0], LAX[1]]);
        command.envs(variables.iter().copied());
        Running::start(command).end()
    }

    /// Starts a run beside other runs, and waits until it issues operations.
    fn start(&self, name: &str, options: &[&str]) -> Running {
        let load = self.load(20, true);
        let mut running = self.bench.start_as(
            &format!("{name}.conf"),
            name,
            &load,
            &[options, &LAX].concat(),
        );
        running.wait_for_interval(&self.bench, name);
        running
    }
}

/// A use of a device, the device's case, and a part of the refusal. A tuple is dropped in its order: the use ends first.
type InUse = (Box<dyn Any>, Case, String);

fn mounted() -> Option<InUse> {
    let case = Case::with_file_system()?;
    let (at, unmount) = case.mount(&case.device.name)?;
    Some((Box::new(unmount), case, format!("it is mounted at {at}")))
}

fn mounted_through_another_loop_device() -> Option<InUse> {
    let case = Case::with_file_system()?;
    let image = case.device.image.to_str().unwrap();
    let other = tool("losetup", &["--find", "--show", image])?;
    let detach = Undo::with("losetup", &["--detach", &other]);
    let (_, unmount) = case.mount(&other)?;
    let holder = other.trim_start_matches("/dev/");
    let why = format!("is held by the loop device {holder}");
    Some((Box::new((unmount, detach)), case, why))
}

fn swapped_to() -> Option<InUse> {
    // The image is on a disk, because the kernel may swap to the device at any time (DAMON does so without memory
    // pressure). Pages of an image in memory would be swapped to themselves, and the kernel would wait forever.
    let mut case = Case::on(Bench::on_disk()?)?;
    case.kernels_bytes = MIB as usize;
    let name = case.device.name.as_str();
    tool("mkswap", &[name, "1024"])?;
    tool("swapon", &[name])?;
    let off = Undo::with("swapoff", &[name]);
    let why = format!("(`swapoff {name}`)");
    Some((Box::new(off), case, why))
}

fn open_in_another_process() -> Option<InUse> {
    let case = Case::new()?;
    let mut options = OpenOptions::new();
    let open = options.read(true).write(true).open(&case.device.name);
    let mut sleep = Command::new("sleep");
    sleep.arg("60").stdin(open.unwrap());
    let stranger = Running::start(sleep);
    let why = format!("it is open in process {} (sleep)", stranger.pid());
    Some((Box::new(stranger), case, why))
}

#[test]
fn a_device_in_use_is_refused_even_with_erase_and_shared() {
    let uses = [
        mounted,
        mounted_through_another_loop_device,
        swapped_to,
        open_in_another_process,
    ];
    for in_use in uses.into_iter().filter_map(|begin| begin()) {
        let (_, case, why) = &in_use;
        case.refused(&["--erase", &case.device.name, "--shared"], why);
    }
}

/// Commands that keep a series in a directory, with options that make it short.
const SERIES: [&[&str]; 3] = [
    &[
        "certify",
        "--load",
        "0.05",
        "--duration",
        "2",
        "--slice",
        "1",
        "--no-prep",
    ],
    &[
        "rate",
        "--from",
        "0.01",
        "--up-to",
        "0.02",
        "--slice",
        "12",
        "--no-prep",
    ],
    &["baseline", "--duration", "67s", "--no-prep"],
];

#[test]
fn a_refused_series_leaves_no_files_and_does_not_fix_the_settings() {
    let Some(case) = Case::with_file_system() else {
        return;
    };
    let name = case.device.name.as_str();
    let series = |command: &[&str], more: &[&str]| {
        let line = [
            command,
            &[name, "--out", OUT, "--quiet", "--sla", "99%>10s"]
                [..if command[0] == "baseline" { 4 } else { 6 }],
            more,
        ];
        case.bench.flashproof(&line.concat())
    };
    for command in SERIES {
        series(command, &[]).expect_error(
            3,
            &[
                &format!("refusing to write to {name} - "),
                "ext4",
                "--erase",
            ],
        );
        assert!(!case.bench.exists(OUT), "{command:?}");
    }
    {
        let Some((at, _unmount)) = case.mount(name) else {
            return;
        };
        for command in SERIES {
            series(command, &["--erase", name])
                .expect_error(3, &[&format!("it is mounted at {at}")]);
            assert!(!case.bench.exists(OUT), "{command:?}");
        }
    }
    // The refused attempt does not fix the settings of the series.
    let [certify, ..] = SERIES;
    let longer: Vec<&str> = certify
        .iter()
        .map(|&word| if word == "2" { "3" } else { word })
        .collect();
    series(&longer, &["--erase", name]).expect_judged();
    assert!(case.bench.exists(&format!("{OUT}/series.json")));
}

#[test]
fn a_second_run_is_refused_until_the_first_ends() {
    let Some(case) = Case::new() else { return };
    let first = case.start("first", &[]);
    let who = format!(
        "another run of flashproof uses it (process {}), exclusively; wait until that run ends",
        first.pid()
    );
    // The device changes under the first run, so its content is not compared here.
    for options in [&[][..], &["--shared"]] {
        case.bench
            .storage(&case.load(1, true), options)
            .expect_error(3, &[&who]);
        assert!(!case.bench.exists(OUT));
    }
    first.end_by("INT");
    case.runs(&[]);
}

#[test]
fn runs_with_shared_run_together_and_exclude_runs_without_it() {
    let Some(case) = Case::new() else { return };
    let first = case.start("first", &["--shared"]);
    let second = case.start("second", &["--shared"]);
    let ended = case.bench.storage(&case.load(1, true), &[]);
    ended.expect_error(
        3,
        &[
            "another run of flashproof uses it",
            "with --shared; wait until that run ends, or start this run with --shared, too",
        ],
    );
    for running in [first, second] {
        let ended = running.end_by("INT").expect(4);
        assert!(ended.errors().is_empty(), "{}", ended.stderr);
    }
}

#[test]
fn erasing_a_file_system_needs_the_exact_name_of_the_device() {
    let Some(case) = Case::with_file_system() else {
        return;
    };
    let name = case.device.name.as_str();
    let part = &name[..name.len() - 1];
    for options in [&[][..], &["--shared"], &["--erase", part]] {
        case.refused(options, "an ext4 file system");
    }
    case.runs(&["--erase", name]);
}

#[test]
fn data_of_an_earlier_run_needs_no_consent() {
    let Some(case) = Case::new() else { return };
    case.runs(&[]);
    std::fs::remove_dir_all(case.bench.path(OUT)).unwrap();
    case.runs(&[]);
    // Without the record in the state directory, the origin of the data is unknown.
    for dir in [OUT, "state"] {
        std::fs::remove_dir_all(case.bench.path(dir)).unwrap();
    }
    case.refused(&[], "data of no known format in ");
}

#[test]
fn the_variable_flashproof_erase_gives_consent_for_the_devices_that_it_names() {
    let Some(case) = Case::with_file_system() else {
        return;
    };
    let name = case.device.name.clone();
    let run = |variable: &str| case.run_with(&[("FLASHPROOF_ERASE", variable)]);
    run("/dev/null").expect_error(3, &["it would be erased"]);
    let ended = run(&format!("/dev/null {name}")).expect(0);
    assert!(
        ended
            .stderr
            .contains(&format!("{name}: erasing an ext4 file system, UUID ")),
        "{}",
        ended.stderr
    );
}

#[test]
fn the_variable_flashproof_only_limits_writes_to_the_devices_that_it_names() {
    let Some(case) = Case::with_file_system() else {
        return;
    };
    let name = case.device.name.clone();
    let run = |only: &str| case.run_with(&[("FLASHPROOF_ERASE", &name), ("FLASHPROOF_ONLY", only)]);
    let before = case.device.content();
    for other in ["/dev/null", "S1234", ""] {
        run(other).expect_error(
            3,
            &[&format!(
                "it is {name}, and FLASHPROOF_ONLY allows writes only to {other}"
            )],
        );
    }
    assert!(before == case.device.content(), "the device was written to");
    run(&format!("S1234 {name}")).expect(0);
}

#[test]
fn consent_for_an_unused_device_causes_a_warning() {
    let bench = Bench::new();
    let config = "device-names: file\nfile-size-mbytes: 2\ntest-duration-sec: 1\nwrite-reqs-per-sec: 10\nread-reqs-per-sec: 10\n";
    let ended = bench
        .storage(config, &[&["--erase", "/dev/null"], &LAX[..]].concat())
        .expect(0);
    let warning = "/dev/null is named for erasure, but is not a device of this configuration: the name is ignored";
    assert!(ended.warnings().contains(&warning), "{}", ended.stderr);
}

#[test]
fn a_read_only_load_needs_no_consent_and_changes_nothing() {
    let Some(case) = Case::with_file_system() else {
        return;
    };
    let before = case.device.content();
    case.bench.storage(&case.load(1, false), &LAX).expect(0);
    assert!(before == case.device.content(), "the device was written to");
    assert!(
        !case.bench.exists("state"),
        "there is no record, because nothing was written"
    );
    assert_eq!(support::totals(&case.bench.run(), "reads"), (100, 0, 0));
}
