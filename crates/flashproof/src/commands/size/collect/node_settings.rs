//! Temporary changes of node settings, and their restoration. Also the folder of a collection: one file per node,
//! written during the collection, plus logs and iostat's output. The name of a file gives its kind: `NODE.info`, or a
//! name with `.log` or `iostat`.
//!
//! ```text
//! changes -> put-back.json in the folder, on disk -> set -> ... -> restore -> remove the file
//! ```
//!
//! put-back.json is written before any change, so the settings to restore are known however the program ends. A setting
//! is restored only if it still has the collection's value: a later change by a user is intentional, and must stay. Of
//! two simultaneous collections, the second finds the settings on, changes none, and restores none.

use super::{build, shell_quoted};
use results::files::{self, Instructions, Links, ReplaceTarget};
use results::format::{in_one_line, quoted, span};
use results::parallel::in_parallel;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use session::console;
use session::failure::Failure;
use session::signals::EndSignals;
use sizing::info::settings::{ServerSetting, SettingChange};
use sizing::info::{Build, FILE_ENDING, header_text, is_refusal, sample_text};
use sizing::iostat::of_node;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};
use store::nodes::{Access, DEFAULT_PORT, DiscoveredNode, HostPort};

pub const RESTORE_FILE: &str = "put-back.json";

const FILE_BYTES_MAX: u64 = 16 << 20;

/// Interval between attempts to reach a node.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Settings to restore. Their file exists while there is a setting to restore.
pub struct SettingsToRestore {
    path: PathBuf,
    nodes: Vec<NodeChanges>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeChanges {
    node: String,
    host: String,
    tls_name: String,
    build: Option<String>,
    changes: Vec<SettingChange>,
}

impl NodeChanges {
    pub fn new(node: &DiscoveredNode, changes: Vec<SettingChange>) -> Self {
        Self {
            node: node.id.clone(),
            host: node.host.to_string(),
            tls_name: node.tls_name.clone(),
            build: Some(node.build.clone()),
            changes,
        }
    }

    fn build(&self) -> Option<Build> {
        Build::parse(self.build.as_deref()?)
    }

    fn commands(&self) -> impl Iterator<Item = String> {
        self.changes.iter().map(|change| {
            asinfo(
                &self.host,
                &change.setting.command(&change.was, self.build()),
            )
        })
    }
}

pub fn asinfo(host: &str, command: &str) -> String {
    let host = HostPort::parse(host, DEFAULT_PORT).unwrap_or_else(|_| HostPort {
        name: host.to_owned(),
        port: DEFAULT_PORT,
    });
    format!(
        "asinfo -h {} -p {} -v {}",
        shell_quoted(&host.name),
        host.port,
        shell_quoted(command)
    )
}

impl SettingsToRestore {
    /// Records the planned changes in `dir`. Must be called before any change.
    pub fn begin(dir: &Path, nodes: Vec<NodeChanges>) -> Result<Self, Failure> {
        let this = Self {
            path: dir.join(RESTORE_FILE),
            nodes,
        };
        this.save().map_err(Failure::environment)?;
        Ok(this)
    }

    /// Settings noted in `dir` by an earlier collection; `None` if there are none to restore.
    pub fn read(dir: &Path) -> Result<Option<Self>, Failure> {
        let path = dir.join(RESTORE_FILE);
        let read =
            files::read_instructions(&path, Links::Refused, Instructions::Data, FILE_BYTES_MAX);
        let nodes = match read {
            Ok(bytes) => {
                serde_json::from_slice(&bytes).map_err(|error| in_one_line(&error.to_string()))
            }
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => Err(error.to_string()),
        };
        let nodes = nodes.map_err(|why| {
            Failure::environment(format!(
                "cannot read the settings to restore from {} - {why} - compare the file with the nodes' settings, and \
                 restore them by hand",
                path.display()
            ))
        })?;
        Ok(Some(Self { path, nodes }))
    }

    /// Makes the changes. Errors: a node refused; then the changes made so far remain to be restored.
    pub fn change<'a>(
        &self,
        nodes: impl Iterator<Item = &'a mut DiscoveredNode>,
        access: &Access,
        end_signals: &EndSignals,
    ) -> Result<(), String> {
        for node in nodes {
            let Some(node_changes) = self.nodes.iter().find(|planned| planned.node == node.id)
            else {
                continue;
            };
            for change in &node_changes.changes {
                if end_signals.received().is_some() {
                    return Ok(());
                }
                set(node, &change.setting, &change.to, access).map_err(|error| {
                    format!("cannot change {} on node {node} - {error}", change.setting)
                })?;
            }
        }
        Ok(())
    }

    /// Restores all settings, on all nodes in parallel, and retries unreachable nodes for `retry_time`.
    /// Errors: the settings not restored, and the commands to restore them.
    pub fn restore(self, access: &Access, retry_time: Duration) -> Result<(), Failure> {
        let nodes = self.nodes.clone();
        let remaining = Mutex::new(self);
        let results = in_parallel(nodes, |planned| {
            restore_with_retries(&planned, access, retry_time)
                .map_err(|error| (planned.node.clone(), error))?;
            let mut remaining = remaining.lock().unwrap_or_else(PoisonError::into_inner);
            remaining.nodes.retain(|node| *node != planned);
            if let Err(error) = remaining.save() {
                console::warning(&error);
            }
            Ok(())
        });
        let errors: Vec<_> = results.into_iter().filter_map(Result::err).collect();
        let remaining = remaining
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        if remaining.nodes.is_empty() {
            Ok(())
        } else {
            Err(remaining.failure(&errors, access))
        }
    }

    fn failure(&self, errors: &[(String, String)], access: &Access) -> Failure {
        let mut lines = Vec::new();
        for (node_changes, (node, error)) in self.nodes.iter().zip(errors) {
            let commands: Vec<_> = node_changes.commands().collect();
            lines.push(format!(
                "settings of node {node} ({}) were not restored - {error} - run: {}",
                node_changes.host,
                commands.join("; ")
            ));
        }
        let dir = shell_quoted(&files::dir_of(&self.path).display().to_string());
        let options = match (&access.login, &access.tls) {
            (None, None) => "",
            _ => " (with the options for user and TLS)",
        };
        lines.push(format!(
            "settings not yet restored are recorded in {} - to restore them: flashproof size restore {dir}{options}",
            self.path.display()
        ));
        Failure::environment(lines.join("\n"))
    }

    fn save(&self) -> Result<(), String> {
        let text = || serde_json::to_vec_pretty(&self.nodes).map_err(io::Error::other);
        let result = if self.nodes.is_empty() {
            files::remove_file(&self.path)
        } else {
            text().and_then(|text| {
                files::replace(&self.path, &text, ReplaceTarget::Own("\"changes\""))
            })
        };
        result.map_err(|error| {
            format!(
                "cannot record the settings to restore in {} - {error}",
                self.path.display()
            )
        })
    }
}

/// Restores the settings of one node, with retries for `retry_time` while the node does not answer.
fn restore_with_retries(
    node_changes: &NodeChanges,
    access: &Access,
    retry_time: Duration,
) -> Result<(), String> {
    let began = Instant::now();
    let mut has_warned = false;
    loop {
        let error = match restore_node(node_changes, access) {
            Ok(()) => return Ok(()),
            Err(error) if began.elapsed() >= retry_time => return Err(error),
            Err(error) => error,
        };
        if !std::mem::replace(&mut has_warned, true) {
            console::warning(&format!(
                "settings of node {} are not restored yet - {error} - retrying for {}",
                node_changes.node,
                span(retry_time.as_secs())
            ));
        }
        // A first signal does not end the sleep, because it may have started the restoration. A second signal ends the
        // program.
        thread::sleep(RETRY_INTERVAL);
    }
}

/// Restores the settings of one node, and checks them.
fn restore_node(node_changes: &NodeChanges, access: &Access) -> Result<(), String> {
    let host = HostPort::parse(&node_changes.host, DEFAULT_PORT)?;
    // A new connection: the previous connection may have caused the error.
    let mut node = DiscoveredNode::known(
        node_changes.node.clone(),
        host,
        node_changes.tls_name.clone(),
        node_changes.build.clone().unwrap_or_default(),
    );
    for change in &node_changes.changes {
        let current = value(&mut node, &change.setting, access)?;
        if current == change.to {
            set(&mut node, &change.setting, &change.was, access)?;
            let restored = value(&mut node, &change.setting, access)?;
            if restored != change.was {
                return Err(format!(
                    "{} is {restored} after it was set to {}",
                    change.setting, change.was
                ));
            }
            console::note(&format!(
                "restored on node {node}: {}: {current} -> {restored}",
                change.setting
            ));
        } else if current != change.was {
            console::warning(&format!(
                "left unchanged on node {node}: {} is {current}: another user changed this setting after the \
                 collection set {}; before the collection, the value was {}",
                change.setting, change.to, change.was
            ));
        }
    }
    Ok(())
}

pub fn value(
    node: &mut DiscoveredNode,
    setting: &ServerSetting,
    access: &Access,
) -> Result<String, String> {
    let query = setting.query(build(node));
    let reply = node
        .ask(std::slice::from_ref(&query), access)?
        .pop()
        .flatten();
    let reply = reply.ok_or_else(|| format!("the node does not answer {}", quoted(&query)))?;
    if is_refusal(&reply) {
        return Err(format!(
            "the node answers {} with {}",
            quoted(&query),
            quoted(&reply)
        ));
    }
    setting
        .value(&reply)
        .ok_or_else(|| format!("the node's answer to {} has no {setting}", quoted(&query)))
}

fn set(
    node: &mut DiscoveredNode,
    setting: &ServerSetting,
    value: &str,
    access: &Access,
) -> Result<(), String> {
    let command = setting.command(value, build(node));
    let reply = node
        .ask(std::slice::from_ref(&command), access)?
        .pop()
        .flatten();
    match reply.as_deref() {
        Some(ok) if ok.eq_ignore_ascii_case("ok") => Ok(()),
        reply => Err(format!(
            "the node answers {} with {}; expected \"ok\" (the user needs the privilege sys-admin)",
            quoted(&command),
            quoted(reply.unwrap_or("nothing"))
        )),
    }
}

/// Locks a folder until the file is dropped. Errors: a collection is running there, or locking failed.
pub fn lock(dir: &Path) -> Result<File, Failure> {
    let locked = File::open(dir).and_then(|file| {
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        Ok(file)
    });
    locked.map_err(|error| {
        let why = if error.kind() == ErrorKind::WouldBlock {
            "a collection is running there, and restores the settings itself - wait for its end, or end it by Ctrl-C"
                .to_owned()
        } else {
            error.to_string()
        };
        Failure::environment(format!("cannot use the folder {} - {why}", dir.display()))
    })
}

/// A folder created by this collection.
pub struct Folder {
    pub dir: PathBuf,
    _lock: File,
}

/// Checks that `dir` is missing or empty, so that a collection can use it.
pub fn check(dir: &Path) -> Result<(), Failure> {
    if has_settings_to_restore(dir) {
        return Err(Failure::usage(format!(
            "cannot collect into {0} - a collection there was killed before it restored the nodes' settings - first \
             run: flashproof size restore {0}",
            dir.display()
        )));
    }
    let why = match fs::read_dir(dir).map(|mut entries| entries.next().is_some()) {
        Ok(false) => return Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Ok(true) => "the folder is not empty".to_owned(),
        Err(error) => error.to_string(),
    };
    Err(Failure::usage(format!(
        "cannot collect into {} - {why} - give another --out",
        dir.display()
    )))
}

/// True if a collection in `dir` was killed, or is running.
fn has_settings_to_restore(dir: &Path) -> bool {
    dir.join(RESTORE_FILE).symlink_metadata().is_ok()
}

/// Folders next to `dir` whose collections were killed before they restored the settings.
pub fn killed_collections_beside(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(files::dir_of(dir))
        .into_iter()
        .flatten()
        .flatten();
    let mut killed: Vec<_> = entries
        .map(|entry| dir.with_file_name(entry.file_name()))
        // A running collection holds the lock.
        .filter(|path| path != dir && has_settings_to_restore(path) && lock(path).is_ok())
        .collect();
    killed.sort();
    killed
}

impl Folder {
    pub fn create(dir: PathBuf) -> Result<Self, Failure> {
        check(&dir)?;
        files::create_dirs(&dir).map_err(|error| failed(&dir, &error))?;
        Ok(Self {
            _lock: lock(&dir)?,
            dir,
        })
    }

    /// Creates the file of a node, with the replies queried once.
    pub fn begin(
        &self,
        node: &DiscoveredNode,
        once_replies: &[(String, String)],
    ) -> Result<NodeFile, Failure> {
        let path = self.dir.join(format!("{}{FILE_ENDING}", node.id));
        let file =
            files::create_new(&path, files::SHARED).map_err(|error| failed(&path, &error))?;
        let tool = concat!("flashproof ", env!("CARGO_PKG_VERSION"), " cluster collect");
        let mut text = header_text(tool, &node.host.to_string(), &node.id, build(node));
        let mut node_file = NodeFile {
            path,
            file,
            samples: 0,
        };
        once_replies
            .iter()
            .for_each(|(name, value)| text.extend([name, "\t", value, "\n"]));
        node_file.write(&text)?;
        Ok(node_file)
    }

    /// Copies logs and iostat's output into the folder; compressed files stay compressed.
    pub fn copy(&self, logs: &[PathBuf], iostat: &[PathBuf]) -> Result<(), Failure> {
        logs.iter()
            .try_for_each(|path| copy("", path, FileContent::Log, &self.dir))?;
        iostat.iter().try_for_each(|path| {
            let (node, path) = of_node(path);
            copy(
                &node.map(|node| format!("{node}-")).unwrap_or_default(),
                path,
                FileContent::Iostat,
                &self.dir,
            )
        })
    }
}

#[derive(Clone, Copy)]
enum FileContent {
    Log,
    Iostat,
}

impl FileContent {
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

/// Checks that `paths` can be opened for reading.
pub fn readable<'a>(paths: impl Iterator<Item = &'a Path>) -> Result<(), Failure> {
    let opened = paths
        .filter(|path| path.as_os_str() != "-")
        .map(|path| open(path).map(drop).map_err(|failure| failure.message));
    session::failure::collect_all(opened, Failure::usage).map(drop)
}

fn open(path: &Path) -> Result<File, Failure> {
    files::open(path, Links::Followed).map_err(|error| {
        Failure::usage(format!(
            "cannot read {} - {error} - check the path",
            path.display()
        ))
    })
}

/// Copies one file up to its current length: a log can grow during the copy.
fn copy(node: &str, path: &Path, content: FileContent, dir: &Path) -> Result<(), Failure> {
    let is_stdin = path.as_os_str() == "-";
    let name = path
        .file_name()
        .filter(|_| !is_stdin)
        .unwrap_or("stdin".as_ref());
    let name = format!("{node}{}", content.name(&name.to_string_lossy()));
    // Logs of different nodes can have the same name. A number goes between the stem and the extension.
    let (stem, ending) = name.split_at(name.find('.').unwrap_or(name.len()));
    let mut target_path = dir.join(&name);
    let mut number = 1;
    let mut target = loop {
        match files::create_new(&target_path, files::SHARED) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => number += 1,
            opened => break opened.map_err(|error| failed(&target_path, &error))?,
        }
        target_path = dir.join(format!("{stem}-{number}{ending}"));
    };
    let result = if is_stdin {
        io::copy(&mut io::stdin().lock(), &mut target)
    } else {
        let source = open(path)?;
        source
            .metadata()
            .and_then(|metadata| io::copy(&mut source.take(metadata.len()), &mut target))
    };
    result.map(drop).map_err(|error| {
        Failure::environment(format!(
            "cannot copy {} to {} - {error}",
            path.display(),
            target_path.display()
        ))
    })
}

pub struct NodeFile {
    path: PathBuf,
    file: File,
    pub samples: u64,
}

impl NodeFile {
    /// Adds a sample in one write, so that a kill leaves it whole or absent.
    pub fn sample(
        &mut self,
        time: SystemTime,
        replies: &[(String, String)],
    ) -> Result<(), Failure> {
        self.write(&sample_text(time, replies))?;
        self.samples += 1;
        Ok(())
    }

    fn write(&mut self, text: &str) -> Result<(), Failure> {
        self.file
            .write_all(text.as_bytes())
            .map_err(|error| failed(&self.path, &error))
    }
}

fn failed(path: &Path, error: &io::Error) -> Failure {
    Failure::environment(format!(
        "cannot write to {} - {error} - give --out a writable folder on a disk with free space",
        path.display()
    ))
}
