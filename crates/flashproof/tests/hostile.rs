//! Every command that writes, in a directory where others made links, pipes, device nodes and files under the names
//! that flashproof uses. Nothing of others is changed, nothing hangs, and refused commands leave no files.

use crate::durability::witness;
use crate::hostile_users::CHECK;
use crate::support;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use support::{Bench, Ended, FLASHPROOF, Running, in_parallel, project, serve, tool};

/// Timeout of one command in seconds: a command that waits for a pipe or a lock ends with exit code 124.
const PATIENCE: &str = "15";

/// A drive that is small enough for a test.
const FTL: &str = "sim:ftl+capacity=1GiB+op=14.5%+unit=32KiB+superblock=1MiB+reserve=1+append=per-handle\
                   +isolation=persistently+handles=4";

struct Case {
    /// A line for bash. `$FTL` is a simulated drive, `$PROJECT` the project's directory.
    line: &'static str,
    /// Names that the command uses. If `is_quick`, the names that a run in a clean directory creates are added.
    names: &'static [&'static str],
    is_quick: bool,
    /// Beginnings of names that get no obstacle. A comment in the case gives the reason.
    except: &'static [&'static str],
}

const fn quick(line: &'static str) -> Case {
    Case {
        line,
        names: &[],
        is_quick: true,
        except: &[],
    }
}

const CASES: &[Case] = &[
    quick("flashproof storage test.conf --out run --quiet"),
    quick(
        "flashproof storage --replay $PROJECT/crates/flashproof/tests/data/trace/ce-8.0.0.15-1s.txt.zst --device sim: \
         --out run --quiet",
    ),
    quick("flashproof index test.conf --out run --quiet"),
    quick(
        "flashproof storage tenants tenants.toml --device sim:capacity=8GiB --duration 1 --out run --quiet",
    ),
    quick("exec -a act_storage flashproof test.conf --out run"),
    quick("exec -a act_index flashproof test.conf --out run"),
    quick(
        "flashproof fio --name=a --filename=sim: --rw=randread --bs=4k --runtime=1 --time_based --rate_iops=100 --out=run \
         --output=out.txt --write_bw_log=log --write_lat_log=log --log_avg_msec=500 --write_iolog=iolog",
    ),
    Case {
        line: "flashproof fio --name=a --filename=data --rw=write --bs=4k --size=64k --verify=crc32c --verify_dump=1 \
               --verify_state_save=1 --direct=0 --out=run",
        names: &["data"],
        is_quick: true,
        except: &[],
    },
    quick("flashproof certify sim: --load 1 --duration 1m --out series --quiet"),
    Case {
        line: "flashproof rate sim: --out series --quiet",
        names: &[
            "series",
            "series/series.json",
            "series/01-1x",
            "series/01-1x/act.log",
        ],
        is_quick: false,
        except: &[],
    },
    Case {
        line: "flashproof baseline sim: --duration 69s --out series --quiet",
        names: &[
            "series",
            "series/series.json",
            "series/001-saturation-round-1",
        ],
        is_quick: false,
        except: &[],
    },
    Case {
        line: "truncate -s 1M blank; flashproof prep blank",
        names: &[],
        is_quick: true,
        // The line itself creates this file.
        except: &["blank"],
    },
    quick("flashproof check etcd sim: --for 2s --out out --html page.html"),
    Case {
        line: "flashproof check witness --listen 127.0.0.1:0 --file sessions",
        names: &["sessions"],
        is_quick: false,
        except: &[],
    },
    quick(
        "flashproof size profile $PROJECT/examples/cluster --out out --html page.html --device sim:",
    ),
    quick("flashproof size config --device sim: --load 1 --out new.conf"),
    quick(
        "flashproof size align sizing.conf --target r/s=11788.5,w/s=1548,rkB/s=340545,wkB/s=198144 --device sim: \
         --out new.conf",
    ),
    Case {
        line: "flashproof size align sizing.conf --target r/s=11788.5,w/s=1548,rkB/s=340545,wkB/s=198144 --device sim: \
               --burst 60 --out new.conf --out-dir bursts",
        names: &[
            "new.conf",
            "bursts",
            "bursts/burst-1",
            "bursts/burst-1/act.log",
        ],
        is_quick: false,
        except: &[],
    },
    quick(
        "flashproof waf model waf.toml --device $FTL --no-latency --arrange shared --html page.html",
    ),
    quick(
        "flashproof trace --from $PROJECT/crates/flashproof/tests/data/trace/ce-4.9.0.37-1s.txt.gz --csv sizes.csv",
    ),
    quick("flashproof report done --html page.html"),
    quick("flashproof report compare done done-b --html page.html"),
    #[cfg(feature = "export")]
    quick("flashproof report done --parquet data"),
    quick(
        "flashproof engine bench sim:capacity=1GiB --rows 1k -k 10 -g 100 --duration 1 --warm-up 1 --out run \
         --json table.json",
    ),
    Case {
        line: "flashproof engine bench --size 64MiB --rows 1k -k 10 -g 100 --duration 1 --warm-up 1 --out run",
        names: &["run", "run/store", "run/1k", "run/1k/insert"],
        is_quick: false,
        except: &[],
    },
    Case {
        line: "flashproof engine serve serve.conf",
        names: &["records"],
        is_quick: false,
        except: &[],
    },
    quick("flashproof fleet inventory --out lab-b --simulated sim:channels=4 --count 1 --quiet"),
    quick("flashproof fleet init lab"),
    Case {
        line: "flashproof fleet run campaign --quiet",
        names: &["campaign/.lock", "campaign/tasks/0000/.lock"],
        is_quick: true,
        // Results of an interrupted attempt are moved aside, and the log is appended to.
        except: &["campaign/tasks/0000/one", "campaign/tasks/0000/task.log"],
    },
    quick("flashproof help --man man"),
    quick("FLASHPROOF_METRICS_FILE=metrics.prom flashproof storage test.conf --out run --quiet"),
];

const CLIENT: &[Case] = &[quick(
    "flashproof engine client -p $SERVER -k 10 -g 100 -w RU,50 --duration 1 --out run --quiet",
)];

const SERVE: &str = "service {\n service-threads 1\n}\nnetwork {\n service {\n port 0\n }\n}\n\
                     namespace test {\n storage-engine device {\n file records\n filesize 16M\n }\n}\n";

/// Commands that refuse directories in memory.
const DISK_CASES: &[Case] = &[
    Case {
        line: "flashproof check ./mine.toml disk --out out",
        names: &[
            "disk/flashproof-check",
            "disk/flashproof-check/.lock",
            "disk/flashproof-check/log",
        ],
        is_quick: false,
        except: &[],
    },
    Case {
        line: "flashproof check durability disk --witness $SERVER",
        names: &[
            "disk/flashproof-durability",
            "disk/flashproof-durability/.lock",
            "disk/flashproof-durability/data",
        ],
        is_quick: false,
        except: &[],
    },
];

/// An object that another user created under a name that flashproof uses.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Obstacle {
    Link,
    Dangling,
    Pipe,
    Node,
    File,
}

const OBSTACLES: [Obstacle; 5] = [
    Obstacle::Link,
    Obstacle::Dangling,
    Obstacle::Pipe,
    Obstacle::Node,
    Obstacle::File,
];

/// A file of another user, and the missing target of a dangling link.
const VICTIM: &str = "victim-of-links";
const ABSENT: &str = "absent-target";

impl Obstacle {
    /// Makes the object at `path` below `dir`; false if this user cannot.
    fn make(self, dir: &Path, path: &Path) -> bool {
        let at = dir.join(path);
        fs::create_dir_all(at.parent().unwrap()).unwrap();
        let word = at.to_str().unwrap();
        match self {
            Self::Link => symlink(dir.join(VICTIM), &at).is_ok(),
            Self::Dangling => symlink(dir.join(ABSENT), &at).is_ok(),
            Self::Pipe => tool("mkfifo", &[word]).is_some(),
            Self::Node => tool("mknod", &[word, "c", "1", "3"]).is_some(),
            Self::File => fs::write(&at, "of somebody else\n").is_ok(),
        }
    }
}

/// Properties of an object that must not change: type and mode, owner, inode, device number, content or link target.
#[derive(Debug, Clone, PartialEq, Eq)]
struct FileState {
    mode: u32,
    owner: (u32, u32),
    inode: u64,
    device: u64,
    content: Vec<u8>,
}

/// The objects below `dir`, by relative path. Content is read of regular files only.
fn tree(dir: &Path) -> BTreeMap<PathBuf, FileState> {
    let mut objects = BTreeMap::new();
    let mut pending = vec![dir.to_owned()];
    while let Some(parent) = pending.pop() {
        for entry in fs::read_dir(&parent).unwrap().map(Result::unwrap) {
            let path = entry.path();
            let metadata = entry.metadata().unwrap();
            let content = match metadata.file_type() {
                kind if kind.is_file() => fs::read(&path).unwrap(),
                kind if kind.is_symlink() => fs::read_link(&path)
                    .unwrap()
                    .as_os_str()
                    .as_bytes()
                    .to_owned(),
                _ => Vec::new(),
            };
            let device = if metadata.file_type().is_char_device() {
                metadata.rdev()
            } else {
                0
            };
            let object = FileState {
                mode: metadata.mode(),
                owner: (metadata.uid(), metadata.gid()),
                inode: metadata.ino(),
                device,
                content,
            };
            objects.insert(path.strip_prefix(dir).unwrap().to_owned(), object);
            if metadata.is_dir() {
                pending.push(path);
            }
        }
    }
    objects
}

/// Directories that each begin as a copy of `base`, in which commands run.
struct CopiedBench {
    bench: Bench,
    /// Address of a witness, or port of a server: `$SERVER` in a line.
    server: String,
    count: AtomicUsize,
}

impl CopiedBench {
    fn new(bench: Bench, server: String) -> Self {
        fs::create_dir(bench.path("base")).unwrap();
        let load = "device-names: sim:\ntest-duration-sec: 1\nread-reqs-per-sec: 100\nwrite-reqs-per-sec: 50\n";
        bench.write("base/test.conf", load);
        bench.write("base/wrong.conf", load.replace("read-reqs", "reed-reqs"));
        bench.write(
            "base/missing.conf",
            load.replace("sim:", "/dev/there-is-none"),
        );
        bench.write("base/mine.toml", CHECK);
        bench.write("base/serve.conf", SERVE);
        for (from, name) in [
            ("examples/tenants/ycsb-a-four.toml", "tenants.toml"),
            ("examples/tenants/micron-2024-op14.toml", "waf.toml"),
            ("examples/sizing-paper.conf", "sizing.conf"),
        ] {
            bench.write(
                format!("base/{name}").as_str(),
                fs::read(project().join(from)).unwrap(),
            );
        }
        bench.write(format!("base/{VICTIM}").as_str(), "precious");
        fs::create_dir(bench.path("base/disk")).unwrap();
        let this = Self {
            bench,
            server,
            count: AtomicUsize::new(0),
        };
        let base = this.bench.path("base");
        for line in [
            "flashproof storage test.conf --out done --quiet",
            "flashproof storage test.conf --out done-b --quiet",
            "flashproof fleet inventory --out lab --simulated sim:channels=4 --count 1 --quiet",
            "flashproof fleet inventory --out campaign --simulated sim:channels=4 --count 1 --quiet",
        ] {
            this.run(&base, line).expect(0);
        }
        let step = "name = \"x\"\n[[step]]\nname = \"one\"\nrun = \"storage $DIR/test.conf --device {drive} --out {out}\"\n\
                    limit = \"1m\"\n";
        this.bench.write(
            "base/campaign/campaign.toml",
            step.replace("$DIR", base.to_str().unwrap()),
        );
        this
    }

    fn dir(&self) -> PathBuf {
        let dir = self.bench.path(format!(
            "copy-{}",
            self.count.fetch_add(1, Ordering::Relaxed)
        ));
        tool(
            "cp",
            &[
                "-a",
                self.bench.path("base").to_str().unwrap(),
                dir.to_str().unwrap(),
            ],
        )
        .unwrap();
        dir
    }

    fn run(&self, dir: &Path, line: &str) -> Ended {
        let line = match line.split_once("flashproof ") {
            Some((before, rest)) if !before.contains("exec") => {
                format!("{before}exec flashproof {rest}")
            }
            _ => line.to_owned(),
        };
        let ours = Path::new(FLASHPROOF).parent().unwrap().display();
        let mut command = self.bench.command("timeout");
        command
            .args(["--kill-after=1", PATIENCE, "bash", "-c", &line])
            .current_dir(dir);
        command.env("PATH", format!("{ours}:/usr/sbin:/usr/bin:/sbin:/bin"));
        command
            .env("FTL", FTL)
            .env("SERVER", &self.server)
            .env("PROJECT", project())
            .env("FLASHPROOF_STATE", dir.join("state"));
        Running::start(command).end()
    }

    fn names(&self, case: &Case) -> Vec<PathBuf> {
        let mut names: Vec<PathBuf> = case.names.iter().map(PathBuf::from).collect();
        if case.is_quick {
            let dir = self.dir();
            let before = tree(&dir);
            let ended = self.run(&dir, case.line);
            assert!(
                matches!(ended.code, Some(0 | 1 | 4)),
                "{}: {}{}",
                case.line,
                ended.stdout,
                ended.stderr
            );
            names.extend(
                tree(&dir)
                    .into_keys()
                    .filter(|path| !before.contains_key(path)),
            );
            fs::remove_dir_all(dir).unwrap();
        }
        // The name of a device's record contains the inode number of the file, which differs in each copy.
        names.retain(|name| !name.to_string_lossy().starts_with("state/devices/file_"));
        names.retain(|name| {
            !case
                .except
                .iter()
                .any(|beginning| name.starts_with(beginning))
        });
        names.sort();
        names.dedup();
        names
    }

    /// Faults of the command of `case` if `obstacle` is at `name`.
    fn wrong(&self, case: &Case, name: &Path, obstacle: Obstacle) -> Vec<String> {
        let dir = self.dir();
        if !obstacle.make(&dir, name) {
            fs::remove_dir_all(dir).unwrap();
            return Vec::new();
        }
        let before = tree(&dir);
        let ended = self.run(&dir, case.line);
        let said = format!("{}{}", ended.stdout, ended.stderr);
        let mut wrong = differences(&before, &tree(&dir), &said);
        if said.contains("cannot make a ring") {
            // Without io_uring, the record engine refuses before it looks at any name.
            fs::remove_dir_all(dir).unwrap();
            return wrong;
        }
        if dir.join(ABSENT).exists() {
            wrong.push("the link's target was created".to_owned());
        }
        // A command that does not need the name, or tries again later, succeeds with a warning.
        let is_refused = matches!(ended.code, Some(2 | 3 | 255))
            || said.contains("warning: ")
            || name.ends_with(".lock");
        let mut named = name.ancestors().filter(|part| *part != "");
        if !is_refused || !named.any(|part| said.contains(part.to_str().unwrap())) {
            wrong.push(format!(
                "exit code {:?}, and the message is `{}`",
                ended.code,
                said.trim()
            ));
        }
        fs::remove_dir_all(dir).unwrap();
        let prefix = format!("{}, with {obstacle:?} at {}: ", case.line, name.display());
        wrong
            .into_iter()
            .map(|text| format!("{prefix}{text}"))
            .collect()
    }
}

/// Objects that were changed or removed, and new objects that the output `said` does not name.
fn differences(
    before: &BTreeMap<PathBuf, FileState>,
    after: &BTreeMap<PathBuf, FileState>,
    said: &str,
) -> Vec<String> {
    let changed = before
        .iter()
        .filter(|(path, object)| after.get(*path) != Some(*object));
    let changed = changed.map(|(path, _)| format!("{} was changed or removed", path.display()));
    let is_named = |path: &Path| {
        path.ancestors()
            .any(|part| part != "" && said.contains(part.to_str().unwrap()))
    };
    let new = after
        .keys()
        .filter(|path| !before.contains_key(*path) && !is_named(path));
    changed
        .chain(new.map(|path| format!("{} was left", path.display())))
        .collect()
}

/// Plants `obstacles_each` obstacles under each name that each case uses.
fn walk(benches: &CopiedBench, cases: &[Case], obstacles_each: usize) {
    let wrong = Mutex::new(Vec::new());
    let can_make_nodes = tool(
        "mknod",
        &[benches.bench.path("node").to_str().unwrap(), "c", "1", "3"],
    )
    .is_some();
    in_parallel(
        &cases.iter().enumerate().collect::<Vec<_>>(),
        |(case_number, case)| {
            let (listed, below): (Vec<_>, Vec<_>) =
                benches.names(case).into_iter().partition(|name| {
                    name.components().count() == 1
                        || case.names.iter().any(|listed| Path::new(listed) == name)
                });
            // Below a directory of results, only some names are tried, each with one obstacle.
            let some = below
                .iter()
                .step_by(below.len().div_ceil(OBSTACLES.len()).max(1));
            let planted = listed
                .iter()
                .map(|name| (name, obstacles_each))
                .chain(some.map(|name| (name, 1)));
            for (number, (name, count)) in planted.enumerate() {
                let obstacles = OBSTACLES
                    .iter()
                    .cycle()
                    .skip(case_number + number)
                    .take(count);
                for obstacle in obstacles.filter(|one| can_make_nodes || **one != Obstacle::Node) {
                    wrong
                        .lock()
                        .unwrap()
                        .extend(benches.wrong(case, name, *obstacle));
                }
            }
        },
    );
    let wrong = wrong.into_inner().unwrap();
    assert!(
        wrong.is_empty(),
        "{} cases:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn foreign_files_at_output_paths_are_not_changed() {
    walk(&CopiedBench::new(Bench::new(), String::new()), CASES, 2);
}

#[test]
#[ignore = "a minute: make soak"]
fn every_kind_of_foreign_file_at_every_output_path_is_not_changed() {
    walk(
        &CopiedBench::new(Bench::new(), String::new()),
        CASES,
        OBSTACLES.len(),
    );
}

#[test]
fn a_client_does_not_change_foreign_files() {
    let server = Bench::new();
    let Some((_running, port)) = serve(&server, SERVE) else {
        return;
    };
    walk(&CopiedBench::new(Bench::new(), port.to_string()), CLIENT, 2);
}

#[test]
fn a_check_does_not_change_foreign_files_in_its_directory() {
    let Some(bench) = Bench::on_disk() else {
        return;
    };
    let (_witness, address) = witness(&bench, "127.0.0.1:0");
    walk(
        &CopiedBench::new(bench, address),
        DISK_CASES,
        OBSTACLES.len(),
    );
}

/// Commands that are refused, each with its exit code.
const REFUSED: &[(i32, &str)] = &[
    (2, "flashproof storage wrong.conf --out a/b/run"),
    (3, "flashproof storage missing.conf --out a/b/run"),
    (
        2,
        "flashproof storage test.conf --out a/b/run --sla nonsense",
    ),
    (3, "flashproof storage test.conf --out victim-of-links/run"),
    (
        3,
        "flashproof storage test.conf --out /proc/there-is-none/run",
    ),
    (2, "flashproof index wrong.conf --out a/b/run"),
    (
        2,
        "flashproof storage tenants test.conf --device sim: --out a/b/run",
    ),
    (
        255,
        "exec -a act_storage flashproof missing.conf --out a/b/run",
    ),
    (
        2,
        "flashproof fio --out=a/b/run --output=new --name=a --filename=sim: --rw=read --name=b --rw=nonsense",
    ),
    (
        3,
        "flashproof fio --out=a/b/run --name=a --filename=/dev/there-is-none --rw=read --write_iolog=new",
    ),
    (
        3,
        "flashproof fio --out=a/b/run --name=a --filename=victim-of-links --rw=write --size=64k --write_bw_log=new",
    ),
    (3, "flashproof certify /dev/there-is-none --out a/b/series"),
    (2, "flashproof certify sim: --load 0 --out a/b/series"),
    (3, "flashproof rate /dev/there-is-none --out a/b/series"),
    (2, "flashproof baseline sim: --duration 1s --out a/b/series"),
    (2, "flashproof check nonsense sim: --out a/b/out"),
    (
        3,
        "flashproof check etcd there-is-none --out a/b/out --html new.html",
    ),
    (3, "flashproof check durability disk --witness 127.0.0.1:1"),
    (
        3,
        "flashproof check witness --listen 127.0.0.1:0 --file victim-of-links",
    ),
    (3, "flashproof prep victim-of-links"),
    (
        2,
        "flashproof size profile $PROJECT/examples/cluster --out a/b/out --html victim-of-links",
    ),
    (
        3,
        "flashproof size profile $PROJECT/examples/cluster --out victim-of-links/out --html new.html",
    ),
    (
        2,
        "flashproof size profile there-is-none --out a/b/out --html new.html",
    ),
    (
        2,
        "flashproof size config --device sim: --load 0 --out new.conf",
    ),
    (
        2,
        "flashproof size config --device sim: --load 1 --out victim-of-links",
    ),
    (
        2,
        "flashproof size align wrong.conf --target r/s=1 --device sim: --out new.conf --out-dir a/b",
    ),
    (
        2,
        "flashproof waf model test.conf --device $FTL --html new.html",
    ),
    (2, "flashproof trace --from victim-of-links --csv new.csv"),
    (3, "flashproof report done there-is-none --html new.html"),
    (
        3,
        "flashproof report compare done there-is-none --html new.html",
    ),
    (
        2,
        "flashproof engine bench sim:capacity=1GiB --rows 1k --out a/b/run --json victim-of-links",
    ),
    (
        3,
        "flashproof engine bench /dev/there-is-none --rows 1k --out a/b/run --json new.json",
    ),
    (2, "flashproof engine serve test.conf"),
    (3, "flashproof engine client -p 1 --out a/b/run"),
    (
        2,
        "flashproof fleet inventory --simulated sim:nonsense=1 --out a/b/lab",
    ),
    (2, "flashproof fleet init there-is-none"),
    (2, "flashproof fleet run lab"),
    (3, "flashproof help --man victim-of-links"),
    (
        2,
        "FLASHPROOF_METRICS_FILE=victim-of-links flashproof storage test.conf --out a/b/run",
    ),
];

#[test]
fn a_refused_command_leaves_all_files_as_they_were() {
    let benches = CopiedBench::new(Bench::new(), String::new());
    let wrong = Mutex::new(Vec::new());
    in_parallel(REFUSED, |(code, line)| {
        let dir = benches.dir();
        let before = tree(&dir);
        let ended = benches.run(&dir, line);
        let mut found = differences(&before, &tree(&dir), "");
        if ended.code != Some(*code) || ended.stderr.is_empty() {
            found.push(format!(
                "exit code {:?}, and the message is `{}`",
                ended.code,
                ended.stderr.trim()
            ));
        }
        wrong
            .lock()
            .unwrap()
            .extend(found.into_iter().map(|text| format!("{line}: {text}")));
        fs::remove_dir_all(dir).unwrap();
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(
        wrong.is_empty(),
        "{} cases:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn results_may_be_written_through_the_users_own_symbolic_links_to_directories() {
    let benches = CopiedBench::new(Bench::new(), String::new());
    let dir = benches.dir();
    fs::create_dir_all(dir.join("real/results")).unwrap();
    symlink("real", dir.join("parent")).unwrap();
    symlink("real/results", dir.join("results")).unwrap();
    for out in ["parent/run", "results/run", "parent/a/b"] {
        benches
            .run(
                &dir,
                &format!("flashproof storage test.conf --out {out} --quiet"),
            )
            .expect(0);
        assert!(dir.join(out).join("verdict.json").is_file(), "{out}");
    }
    assert!(dir.join("real/results/run").is_dir() && dir.join("results").is_symlink());
    // The directory of the run may be a link, too, if the directory behind it is empty.
    fs::create_dir(dir.join("real/empty")).unwrap();
    symlink("real/empty", dir.join("linked")).unwrap();
    benches
        .run(&dir, "flashproof storage test.conf --out linked --quiet")
        .expect(0);
    assert!(dir.join("real/empty/verdict.json").is_file());
}
