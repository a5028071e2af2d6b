//! Eight nodes of Slurm on this machine, with two `flash` resources each, shared by the tests of one process. The
//! kernel kills a daemon when its parent thread ends. Therefore, a thread that lives as long as the process starts all
//! daemons.

use super::{skip, tool};
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

const PATIENCE: Duration = Duration::from_secs(60);

/// The controller saves a change after 6 s at most: 5 s after the save before, checked each second (Slurm's
/// src/slurmctld/state_save.c).
const SAVED_WITHIN: Duration = Duration::from_secs(7);

const NODES: usize = 8;

pub struct Slurm {
    dir: PathBuf,
    /// Commands for the thread that starts daemons.
    starter: Mutex<mpsc::Sender<(Command, mpsc::Sender<Child>)>>,
    daemons: Mutex<Vec<(String, Child)>>,
}

impl Slurm {
    /// Waits until no other test uses the cluster, because some tests kill the controller.
    pub fn turn() -> MutexGuard<'static, ()> {
        static TURN: Mutex<()> = Mutex::new(());
        TURN.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The cluster, started by the first caller. `None`, with a message, without root or Slurm.
    pub fn cluster() -> Option<&'static Self> {
        static CLUSTER: OnceLock<Option<Slurm>> = OnceLock::new();
        CLUSTER.get_or_init(Self::start).as_ref()
    }

    fn start() -> Option<Self> {
        if fs::metadata("/proc/self").unwrap().uid() != 0 {
            return skip("a cluster of Slurm needs root");
        }
        for program in ["slurmctld", "slurmd", "munged"] {
            tool(program, &["-V"])?;
        }
        let dir =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("slurm-{}", std::process::id()));
        for other in fs::read_dir(env!("CARGO_TARGET_TMPDIR")).unwrap().flatten() {
            let name = other.file_name().into_string().unwrap_or_default();
            let pid = name.strip_prefix("slurm-");
            if pid.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
                let _ = fs::remove_dir_all(other.path());
            }
        }
        ["", "state", "run", "log", "spool"]
            .iter()
            .for_each(|name| fs::create_dir_all(dir.join(name)).unwrap());
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)).unwrap();
        let (sender, receiver) = mpsc::channel::<(Command, mpsc::Sender<Child>)>();
        thread::spawn(move || {
            for (mut command, answer) in receiver {
                answer.send(command.spawn().unwrap()).unwrap();
            }
        });
        let this = Self {
            dir,
            starter: Mutex::new(sender),
            daemons: Mutex::default(),
        };
        this.configure();
        this.munge();
        this.controller();
        (1..=NODES).for_each(|node| this.node(&format!("n{node}")));
        this.until("all nodes are idle", || {
            this.run("sinfo", &["-h", "-t", "idle", "-o", "%D"]).trim() == "8"
        });
        Some(this)
    }

    fn configure(&self) {
        let host = fs::read_to_string("/proc/sys/kernel/hostname")
            .unwrap()
            .trim()
            .to_owned();
        // All sockets are open at the same time, so that no two have the same port.
        let listeners: Vec<TcpListener> = (0..=NODES)
            .map(|_| TcpListener::bind("127.0.0.1:0").unwrap())
            .collect();
        let ports: Vec<u16> = listeners
            .iter()
            .map(|socket| socket.local_addr().unwrap().port())
            .collect();
        let dir = self.dir.display();
        let mut text = format!(
            "ClusterName=test\nSlurmctldHost={host}(127.0.0.1)\nSlurmUser=root\nAuthType=auth/munge\n\
             AuthInfo=socket={dir}/munge.socket\nProctrackType=proctrack/pgid\nTaskPlugin=task/none\n\
             SelectType=select/cons_tres\nSelectTypeParameters=CR_Core\nStateSaveLocation={dir}/state\n\
             SlurmdSpoolDir={dir}/spool/%n\nSlurmctldPidFile={dir}/run/controller.pid\nSlurmdPidFile={dir}/run/%n.pid\n\
             SlurmctldLogFile={dir}/log/controller.log\nSlurmdLogFile={dir}/log/%n.log\nReturnToService=2\n\
             MpiDefault=none\nJobAcctGatherType=jobacct_gather/none\nAccountingStorageType=accounting_storage/none\n\
             SlurmctldPort={}\nSlurmdTimeout=10\nKillWait=5\nGresTypes=flash\nPreemptType=preempt/partition_prio\n\
             PreemptMode=REQUEUE\nSchedulerParameters=sched_interval=1,batch_sched_delay=1,sched_min_interval=100000\n",
            ports[NODES]
        );
        let mut resources = String::new();
        for node in 1..=NODES {
            text += &format!(
                "NodeName=n{node} NodeHostname={host} NodeAddr=127.0.0.1 Port={} CPUs=2 RealMemory=1000 Gres=flash:2 State=UNKNOWN\n",
                ports[node - 1]
            );
            resources += &format!("NodeName=n{node} Name=flash Count=2\n");
        }
        text += "PartitionName=main Nodes=n[1-8] Default=YES MaxTime=INFINITE State=UP PriorityTier=1\n\
                 PartitionName=urgent Nodes=n[1-8] MaxTime=INFINITE State=UP PriorityTier=10\n";
        fs::write(self.conf(), text).unwrap();
        fs::write(self.dir.join("gres.conf"), resources).unwrap();
    }

    fn munge(&self) {
        let file = |name: &str| self.dir.join(name).display().to_string();
        fs::write(file("munge.key"), [0x5a; 128]).unwrap();
        fs::set_permissions(file("munge.key"), fs::Permissions::from_mode(0o600)).unwrap();
        let mut command = Command::new("munged");
        command
            .args(["--foreground", "--force", "--num-threads=2"])
            .args([
                format!("--socket={}", file("munge.socket")),
                format!("--key-file={}", file("munge.key")),
                format!("--pid-file={}", file("munge.pid")),
                format!("--log-file={}", file("log/munge.log")),
                format!("--seed-file={}", file("munge.seed")),
            ]);
        self.daemon("munge", command);
        self.until("munge listens", || self.dir.join("munge.socket").exists());
    }

    pub fn controller(&self) {
        let mut command = Command::new("slurmctld");
        command.arg("-D").arg("-f").arg(self.conf());
        self.daemon("controller", command);
        self.until("the controller answers", || {
            tool_with("scontrol", &["ping"], &self.conf()).contains(" is UP")
        });
    }

    pub fn node(&self, name: &str) {
        let mut command = Command::new("slurmd");
        command
            .arg("-D")
            .arg("-f")
            .arg(self.conf())
            .args(["-N", name]);
        self.daemon(name, command);
    }

    fn daemon(&self, name: &str, mut command: Command) {
        let log = fs::File::create(self.dir.join(format!("log/{name}.out"))).unwrap();
        command
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .env("SLURM_CONF", self.conf());
        sys::process::kill_with_parent(&mut command);
        let (answer, answered) = mpsc::channel();
        self.starter
            .lock()
            .unwrap()
            .send((command, answer))
            .unwrap();
        self.daemons
            .lock()
            .unwrap()
            .push((name.to_owned(), answered.recv().unwrap()));
    }

    /// Kills the daemon `name`, such as `controller` or `n3`. Waits until the controller has saved its jobs: the next
    /// controller would otherwise start a job twice, or not know it.
    pub fn kill(&self, name: &str) {
        if name == "controller" {
            let called = SystemTime::now();
            let jobs = self.dir.join("state/job_state");
            self.until("the controller has saved its jobs", || {
                let saved = fs::metadata(&jobs).and_then(|file| file.modified());
                saved.is_ok_and(|at| at > called)
                    || called.elapsed().is_ok_and(|age| age > SAVED_WITHIN)
            });
        }
        let mut daemons = self.daemons.lock().unwrap();
        let at = daemons
            .iter()
            .rposition(|(other, _)| other == name)
            .unwrap();
        let (_, mut child) = daemons.remove(at);
        child.kill().unwrap();
        child.wait().unwrap();
    }

    pub fn conf(&self) -> PathBuf {
        self.dir.join("slurm.conf")
    }

    pub fn run(&self, program: &str, arguments: &[&str]) -> String {
        tool_with(program, arguments, &self.conf())
    }

    /// Starts the requeued jobs called `name` now, which Slurm would delay by two minutes.
    pub fn hurry(&self, name: &str) {
        for job in self
            .run("squeue", &["-h", "-r", "-t", "PD", "-o", "%i %j %r"])
            .lines()
        {
            if let [id, job, reason] = job.split_whitespace().collect::<Vec<_>>()[..]
                && job.contains(name)
                && reason == "BeginTime"
            {
                self.run(
                    "scontrol",
                    &["update", &format!("jobid={id}"), "starttime=now"],
                );
            }
        }
    }

    pub fn until(&self, what: &str, mut is_so: impl FnMut() -> bool) {
        let began = Instant::now();
        while !is_so() {
            assert!(
                began.elapsed() < PATIENCE,
                "not until {what}\n{}",
                self.state()
            );
            thread::sleep(Duration::from_millis(100));
        }
    }

    /// Nodes and queue, as text for messages.
    pub fn state(&self) -> String {
        self.run("sinfo", &["-N", "-l"]) + &self.run("squeue", &["-r", "-l"])
    }
}

/// Output of `program`; empty if it failed.
fn tool_with(program: &str, arguments: &[&str], conf: &Path) -> String {
    let output = Command::new(program)
        .args(arguments)
        .env("SLURM_CONF", conf)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}
