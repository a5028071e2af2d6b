//! `flashproof size collect`: samples all nodes for some time. Meanwhile, the settings that a sizing needs are turned
//! on.

use super::node_settings::{self, Folder, NodeChanges, NodeFile, SettingsToRestore};
use super::{access, build, retry, shell_quoted};
use crate::commands::size::collect::options::CollectArgs;
use crate::output::done;
use results::format::{count, quoted, span};
use results::parallel::in_parallel;
use session::console;
use session::failure::Failure;
use session::run_directory::default_dir;
use session::signals::EndSignals;
use sizing::info::logs;
use sizing::info::settings::{
    NodeSettings, ServerSetting, SettingChange, once_names, sample_names,
};
use sizing::iostat::of_node;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime};
use store::nodes::{self, Access, DiscoveredNode, DiscoveredNodes, PeersQuery};

pub struct SampledNode {
    pub node: DiscoveredNode,
    /// The requested namespaces that the node has.
    pub namespaces: Vec<String>,
    /// Log sinks of the node, with their files.
    pub logs: Vec<(u32, String)>,
    once_replies: Vec<(String, String)>,
    /// Relevant settings: current value, and required value.
    settings: Vec<(ServerSetting, Option<String>, &'static str)>,
    pub changes: Vec<SettingChange>,
    missed_samples: u64,
    /// True if the node did not answer the last query.
    is_away: bool,
}

pub fn collect(args: &CollectArgs) -> Result<ExitCode, Failure> {
    if args.host.is_empty() && args.log.is_empty() && args.iostat.is_empty() {
        return Err(Failure::usage(
            "no source to collect from - give --host HOST:PORT of a node, or --log and --iostat with files copied from \
             nodes (see flashproof size collect --help)",
        ));
    }
    if args.every > args.window {
        let every = span(args.every.into());
        let window = span(args.window.into());
        return Err(Failure::usage(format!(
            "cannot compute rates from one sample every {every} in {window} - give --every less than --duration"
        )));
    }
    let iostats = args.iostat.iter().map(|path| of_node(path).1);
    node_settings::readable(args.log.iter().map(PathBuf::as_path).chain(iostats))?;
    let dir = args.out.clone().unwrap_or_else(|| default_dir("cluster"));
    node_settings::check(&dir)?;
    for killed_dir in node_settings::killed_collections_beside(&dir) {
        console::warning(&format!(
            "the collection in {0} was killed before it restored the nodes' settings - run: flashproof size restore \
             {0}",
            killed_dir.display()
        ));
    }
    if args.host.is_empty() {
        let folder = Folder::create(dir)?;
        folder.copy(&args.log, &args.iostat)?;
        return done(&format!(
            "next: flashproof size profile {}\n",
            shell_quoted(&folder.dir.display().to_string())
        ));
    }
    let access = access(&args.nodes)?;
    let restore_hint = format!(
        "if settings were changed, restore them: flashproof size restore {}",
        dir.display()
    );
    let end_signals = EndSignals::listen(restore_hint)?;
    let (sampled_nodes, missing) = look(args, &access)?;
    let folder = Folder::create(dir)?;
    let files = sampled_nodes
        .iter()
        .map(|watched| folder.begin(&watched.node, &watched.once_replies));
    let files = files.collect::<Result<Vec<_>, _>>()?;
    show(&sampled_nodes, args);
    let mut collection = Collection {
        args,
        access,
        end_signals,
        sampled_nodes,
        files,
    };
    let sample_result = collection.with_settings(&folder.dir);
    // The collected files are listed even if a setting could not be restored.
    let copy_result = folder.copy(&args.log, &args.iostat);
    if collection.files.iter().any(|file| file.samples > 0) {
        console::result(&collection.summary(&folder.dir))?;
    }
    sample_result.and(copy_result)?;
    collection.end(&missing)
}

/// Finds the nodes and queries their configuration. Also returns an error for each missing node.
pub fn look(
    args: &CollectArgs,
    access: &Access,
) -> Result<(Vec<SampledNode>, Vec<String>), Failure> {
    let query = PeersQuery {
        uses_tls: args.nodes.access.tls,
        uses_alternate: args.services_alternate,
    };
    let DiscoveredNodes { nodes, mut missing } =
        nodes::find_nodes(&args.host, Some(query).filter(|_| !args.one_node), access);
    if nodes.is_empty() {
        let missing = missing.join("\n");
        return Err(Failure::environment(format!(
            "{missing} - check --host, and that this machine can connect"
        )));
    }
    let known: Vec<String> = nodes
        .iter()
        .flat_map(|node| node.namespaces.clone())
        .collect();
    for namespace in &args.namespace {
        if !known.contains(namespace) {
            let mut known: Vec<_> = known.iter().map(|name| quoted(name)).collect();
            known.sort();
            known.dedup();
            return Err(Failure::usage(format!(
                "no node has the namespace {} - the nodes have {} - check --namespace",
                quoted(namespace),
                known.join(", ")
            )));
        }
    }
    let mut sampled_nodes = Vec::new();
    for result in in_parallel(nodes, |node| {
        SampledNode::look(node, &args.namespace, access)
    }) {
        match result {
            Ok(node) => sampled_nodes.push(node),
            Err(error) => missing.push(error),
        }
    }
    if sampled_nodes.is_empty() {
        return Err(Failure::environment(missing.join("\n")));
    }
    missing.iter().for_each(|missing| console::warning(missing));
    Ok((sampled_nodes, missing))
}

impl SampledNode {
    fn look(
        mut node: DiscoveredNode,
        requested: &[String],
        access: &Access,
    ) -> Result<Self, String> {
        let is_requested = |name: &&String| requested.is_empty() || requested.contains(name);
        let namespaces: Vec<String> = node
            .namespaces
            .iter()
            .filter(is_requested)
            .cloned()
            .collect();
        let sinks = query_settings(&mut node, vec!["logs".to_owned()], access)?;
        let sinks: Vec<_> = sinks.iter().flat_map(|(_, value)| logs(value)).collect();
        let names = once_names(
            build(&node),
            &namespaces,
            sinks.iter().map(|(sink, _)| *sink),
        );
        let mut once_replies = query_settings(&mut node, names, access)?;
        once_replies.insert(0, ("namespaces".to_owned(), node.namespaces.join(";")));
        let mut sampled_node = Self {
            node,
            namespaces,
            logs: sinks,
            once_replies,
            settings: vec![],
            changes: vec![],
            missed_samples: 0,
            is_away: false,
        };
        let current = sampled_node.current();
        (sampled_node.settings, sampled_node.changes) = (current.settings(), current.changes());
        Ok(sampled_node)
    }

    fn current(&self) -> NodeSettings<'_> {
        let mut namespaces = Vec::new();
        for namespace in &self.namespaces {
            let name = sizing::info::settings::get_config(build(&self.node), namespace);
            namespaces.push((namespace.as_str(), self.once_reply(&name)));
        }
        NodeSettings {
            namespaces,
            service: self.once_reply("get-config:context=service"),
            sinks: self
                .logs
                .iter()
                .map(|(sink, file)| {
                    let level = self.once_reply(&format!("log/{sink}"));
                    (*sink, file.as_str(), level)
                })
                .collect(),
        }
    }

    /// The reply to `name`, empty if it was not queried.
    fn once_reply(&self, name: &str) -> &str {
        self.once_replies
            .iter()
            .find(|(asked, _)| asked == name)
            .map_or("", |(_, value)| value.as_str())
    }

    /// Takes a sample. Prints one note when the node stops answering, and one when it answers again.
    fn sample(&mut self, file: &mut NodeFile, access: &Access) -> Result<(), Failure> {
        let time = SystemTime::now();
        match self
            .node
            .replies(sample_names(build(&self.node), &self.namespaces), access)
        {
            Ok(replies) => {
                if std::mem::take(&mut self.is_away) {
                    console::note(&format!("node {} answers again", self.node));
                }
                file.sample(time, &replies)
            }
            Err(error) => {
                self.missed_samples += 1;
                if !std::mem::replace(&mut self.is_away, true) {
                    console::warning(&format!(
                        "no sample of node {} - {error} - trying again",
                        self.node
                    ));
                }
                Ok(())
            }
        }
    }
}

fn query_settings(
    node: &mut DiscoveredNode,
    names: Vec<String>,
    access: &Access,
) -> Result<Vec<(String, String)>, String> {
    node.replies(names, access)
        .map_err(|error| format!("cannot query the configuration of node {node} - {error}"))
}

/// Prints the planned changes, or the changes that --enable would make.
fn show(sampled_nodes: &[SampledNode], args: &CollectArgs) {
    for node in sampled_nodes {
        for change in &node.changes {
            let action = if args.enable {
                "changing, to be restored at the end"
            } else {
                "would be changed by --enable"
            };
            console::notice(&format!("{action}, on node {}: {change}", node.node));
        }
        for (setting, _, _) in node.settings.iter().filter(|(_, now, _)| now.is_none()) {
            console::warning(&format!(
                "node {} does not report {setting}; the setting is left unchanged",
                node.node
            ));
        }
        for (setting, _, now) in node
            .settings
            .iter()
            .filter(|(_, now, requested)| now.as_deref() == Some(requested))
        {
            console::note(&format!(
                "left unchanged, on node {}: {setting} is {now} already",
                node.node
            ));
        }
    }
}

struct Collection<'a> {
    args: &'a CollectArgs,
    access: Access,
    end_signals: EndSignals,
    sampled_nodes: Vec<SampledNode>,
    files: Vec<NodeFile>,
}

impl Collection<'_> {
    /// Changes the settings if requested, samples, and restores the settings in any case.
    fn with_settings(&mut self, dir: &Path) -> Result<(), Failure> {
        let planned = self
            .sampled_nodes
            .iter()
            .filter(|node| !node.changes.is_empty());
        let planned: Vec<_> = planned
            .map(|node| NodeChanges::new(&node.node, node.changes.clone()))
            .collect();
        if !self.args.enable || planned.is_empty() {
            return self.sample_and_check();
        }
        let settings_to_restore = SettingsToRestore::begin(dir, planned)?;
        let nodes = self
            .sampled_nodes
            .iter_mut()
            .map(|watched| &mut watched.node);
        let change_result = settings_to_restore
            .change(nodes, &self.access, &self.end_signals)
            .map_err(Failure::environment);
        let sample_result = change_result.and_then(|()| self.sample_and_check());
        let restore_result = settings_to_restore.restore(&self.access, retry(&self.args.nodes));
        match (sample_result, restore_result) {
            (Err(mut worked), Err(back)) => {
                worked.message = format!("{}\n{}", worked.message, back.message);
                Err(worked)
            }
            (worked, back) => worked.and(back),
        }
    }

    /// Samples, then warns about settings that another user changed meanwhile: data is then missing in the logs.
    fn sample_and_check(&mut self) -> Result<(), Failure> {
        let result = self.sample();
        in_parallel(
            self.sampled_nodes
                .iter_mut()
                .filter(|watched| !watched.is_away),
            |watched| {
                let was_on = watched
                    .settings
                    .iter()
                    .filter(|(_, now, requested)| now.as_deref() == Some(requested));
                for (setting, _, requested) in was_on {
                    if let Ok(now) = node_settings::value(&mut watched.node, setting, &self.access)
                        && now != *requested
                    {
                        console::warning(&format!(
                            "on node {}: {setting} was {requested} at the start and is {now} now - another user changed this \
                         setting, so the log lacks data for part of the time",
                            watched.node
                        ));
                    }
                }
            },
        );
        result
    }

    fn sample(&mut self) -> Result<(), Failure> {
        let window = Duration::from_secs(self.args.window.into());
        let every = Duration::from_secs(self.args.every.into());
        let began = Instant::now();
        console::note(&format!(
            "sampling {} every {} for {}; Ctrl-C ends it",
            count(self.sampled_nodes.len() as u64, "node"),
            span(every.as_secs()),
            span(window.as_secs())
        ));
        for index in 1.. {
            if self.end_signals.received().is_some() {
                break;
            }
            let pairs = self.sampled_nodes.iter_mut().zip(&mut self.files);
            let sampled = in_parallel(pairs, |(watched, file)| watched.sample(file, &self.access));
            sampled.into_iter().collect::<Result<(), _>>()?;
            let next = every * index;
            if next > window
                || self
                    .end_signals
                    .wait((began + next).saturating_duration_since(Instant::now()))
                    .is_some()
            {
                break;
            }
        }
        Ok(())
    }

    fn summary(&self, dir: &Path) -> String {
        let mut text = format!(
            "{}: {}\n",
            dir.display(),
            count(self.sampled_nodes.len() as u64, "node")
        );
        for (node, file) in self.sampled_nodes.iter().zip(&self.files) {
            let build = build(&node.node)
                .map(|build| build.to_string())
                .unwrap_or_default();
            let names = if node.namespaces.is_empty() {
                "no namespace"
            } else {
                &node.namespaces.join(", ")
            };
            let samples = count(file.samples, "sample");
            let _ = writeln!(text, "  {}  build {build}, {names}: {samples}", node.node);
        }
        let off = self
            .sampled_nodes
            .iter()
            .filter(|node| !self.args.enable && !node.changes.is_empty());
        let off = off
            .map(|node| node.node.id.as_str())
            .collect::<Vec<_>>()
            .join(", ");
        if !off.is_empty() {
            let _ = writeln!(
                text,
                "The logs of {off} lack data that a sizing needs: --enable turns this data on."
            );
        }
        if self.args.log.is_empty() {
            text +=
                "Record sizes are only in the logs. Copy the logs of this time into the folder:\n";
            for node in &self.sampled_nodes {
                for (_, file) in &node.logs {
                    let _ = writeln!(text, "  {}", fetch(&node.node, file, dir));
                }
            }
        }
        let _ = writeln!(
            text,
            "next: flashproof size profile {}",
            shell_quoted(&dir.display().to_string())
        );
        text
    }

    /// Reports what is missing. Returns the exit code.
    fn end(&self, missing: &[String]) -> Result<ExitCode, Failure> {
        let mut errors = Vec::new();
        if !missing.is_empty() {
            errors.push(format!(
                "the collection is incomplete - {} could not be queried (see the warnings) - part of the load is \
                 missing{}",
                count(missing.len() as u64, "node"),
                if self.args.one_node { "" } else { "; --one-node queries only the nodes of --host" }
            ));
        }
        for (node, file) in self.sampled_nodes.iter().zip(&self.files) {
            if file.samples < 2 && self.end_signals.received().is_none() {
                errors.push(format!(
                    "node {} gave {}, too few for a rate",
                    node.node,
                    count(file.samples, "sample")
                ));
            } else if node.missed_samples > 0 {
                console::warning(&format!(
                    "node {} did not answer {}",
                    node.node,
                    count(node.missed_samples, "time")
                ));
            }
        }
        match (errors.is_empty(), self.end_signals.received()) {
            (false, _) => Err(Failure::environment(errors.join("\n"))),
            (true, Some(_)) => Ok(EndSignals::exit_code()),
            (true, None) => Ok(ExitCode::SUCCESS),
        }
    }
}

/// Command that fetches a log file of a node.
pub fn fetch(node: &DiscoveredNode, file: &str, folder: &Path) -> String {
    let host = if node.host.name.contains(':') {
        format!("[{}]", node.host.name)
    } else {
        node.host.name.clone()
    };
    let name = Path::new(file)
        .file_name()
        .map_or_else(|| "log".into(), |name| name.to_string_lossy());
    let target = folder.join(format!("{}-{name}", node.id));
    if file.starts_with('/') {
        format!(
            "scp {} {}",
            shell_quoted(&format!("{host}:{file}")),
            shell_quoted(&target.display().to_string())
        )
    } else {
        // The log goes to the server's standard error: to systemd, or to the log of a container.
        format!(
            "(on {host}: the log goes to {}, see journalctl -u aerospike or docker logs)",
            quoted(file)
        )
    }
}
