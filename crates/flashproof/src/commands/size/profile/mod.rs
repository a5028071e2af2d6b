//! `flashproof size profile`: derives a load profile of a live cluster from its logs, and writes test configurations.
//! Also `flashproof size align` and `flashproof size select`.

pub mod options;
mod page;

use crate::commands::size::profile::options::{Instant, SizeArgs};
use act::options::Test;
use jiff::Timestamp;
use jiff::civil::{Date, Time};
use jiff::tz::TimeZone;
use load::factor::Factor;
use results::files;
use results::format::in_one_line;
use session::console;
use session::failure::Failure;
use session::user_file::{check_page, write_file, write_page};
use sizing::configuration::{
    ConfigurationError, TestConfiguration, TestOptions, busiest_node, configurations,
    requested_node,
};
use sizing::info::{self, InfoReplies};
use sizing::profile::Profile;
use sizing::profile::derive::{id, profile};
use sizing::profile::sources::{NamespaceFacts, ProfileOptions, ProfileSources};
use sizing::server_log::{self, ServerLog, Start};
use sizing::source::InputFile;
use sizing::{iostat, pasted};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Exit code if the numbers of a profile contradict each other.
const IN_DOUBT: u8 = 4;

const PROFILE: &str = "profile.json";

pub fn run(args: &SizeArgs) -> Result<ExitCode, Failure> {
    args.html.as_deref().map(check_page).transpose()?;
    let sources = read(args)?;
    let profile =
        profile(&sources, &profile_request(args, &sources.logs)).map_err(Failure::usage)?;
    let test_options = TestOptions {
        device: args.device.clone(),
        duration_sec: args.duration,
        factor: args.scale,
    };
    let requested = args.node.as_deref();
    let requested = requested.map(|node| requested_node(&profile, node));
    let node = requested.transpose().map_err(Failure::usage)?;
    let node = node.or_else(|| busiest_node(&profile)).unwrap_or_default();
    let configured = configurations(&profile, node, &test_options);
    let json = crate::output::json(&profile)?;
    let balances = profile.doubts().is_empty();
    if args.json {
        console::result(&json)?;
    } else {
        let configurations = configured.as_deref().unwrap_or_default();
        console::page(&page::page(&profile, configurations))?;
    }
    let configurations = match configured {
        // The profile's doubts name the reason.
        Err(ConfigurationError::RecordsUnknown { .. }) if !balances => Vec::new(),
        configured => configured.map_err(Failure::usage)?,
    };
    let is_accepted = balances || args.accept_unbalanced;
    let accepted = if is_accepted {
        &configurations[..]
    } else {
        &[]
    };
    if let Some(dir) = &args.out {
        write(dir, args.force, &json, accepted)?;
    }
    if let Some(path) = &args.html {
        write_page(path, &page::html(&profile, &configurations))?;
    }
    if let Some(dir) = &args.out {
        print_next_steps(args, &profile, node, dir, &configurations, is_accepted);
    }
    Ok(if balances {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(IN_DOUBT)
    })
}

/// Writes the profile and the configurations, or nothing.
fn write(
    dir: &Path,
    force: bool,
    json: &str,
    configurations: &[TestConfiguration],
) -> Result<(), Failure> {
    let new_dirs = files::create_dirs(dir).map_err(|error| {
        Failure::environment(format!(
            "cannot write {} - {error} - give --out another folder",
            dir.display()
        ))
    })?;
    let texts = configurations
        .iter()
        .map(|one| (file_name(&one.namespace), one.text.as_str()));
    let texts: Vec<_> = std::iter::once((PROFILE.to_owned(), json))
        .chain(texts)
        .collect();
    let write = |name: &str, text| write_file("load profile", &dir.join(name), text, force);
    let checked = texts.iter().try_for_each(|(name, _)| write(name, None));
    checked.inspect_err(|_| new_dirs.remove())?;
    texts
        .iter()
        .try_for_each(|(name, text)| write(name, Some(*text)))
}

/// File name for a namespace. Namespaces contain no slash, but a log may come from anywhere.
fn file_name(namespace: &str) -> String {
    let name = namespace.replace(
        |c: char| !c.is_ascii_alphanumeric() && !"-_.".contains(c),
        "_",
    );
    format!("{}.conf", name.trim_start_matches('.'))
}

fn print_next_steps(
    args: &SizeArgs,
    profile: &Profile,
    node: &str,
    dir: &Path,
    configurations: &[TestConfiguration],
    is_accepted: bool,
) {
    let dir = dir.display();
    let missing = match (configurations, is_accepted) {
        ([], _) => Some(
            "the log has no reads, writes and sizes of records - turn the storage histograms on",
        ),
        (_, false) => {
            Some("the profile does not balance - resolve the doubts, or give --accept-unbalanced")
        }
        _ => None,
    };
    if let Some(why) = missing {
        console::warning(&format!(
            "{dir}/{PROFILE} is written, but no configuration: {why}"
        ));
        return;
    }
    let mut files = Vec::new();
    let mut index_files = Vec::new();
    for one in configurations {
        let file = format!("{dir}/{}", file_name(&one.namespace));
        match one.test {
            Test::Storage => files.push(file),
            Test::Index => index_files.push(file),
        }
    }
    let node_option = if profile.nodes.len() > 1 {
        format!(" --node {node}")
    } else {
        String::new()
    };
    let device = if args.device.is_none() {
        "set device-names to your drive, then: "
    } else {
        ""
    };
    // Alignment needs the cluster's own load. A configuration at another scale does not fit the target.
    let align = files.first().filter(|_| args.scale == Factor::ONE);
    let align = align
        .map(|file| format!("flashproof size align {file} --target {dir}/{PROFILE}{node_option}"));
    let together_hint = if files.len() > 1 {
        " (several at once, if they share a drive)"
    } else {
        ""
    };
    let storage = (!files.is_empty())
        .then(|| format!("flashproof storage {}{together_hint}", files.join(" ")));
    let index = index_files
        .iter()
        .map(|file| format!("flashproof index {file}"));
    let commands: Vec<String> = align.into_iter().chain(storage).chain(index).collect();
    console::notice(&format!(
        "written: {dir}/{PROFILE}, {} (one drive of {node} each) - {device}{}",
        [&files[..], &index_files].concat().join(", "),
        commands.join(", and: "),
    ));
}

/// Command that reads a log from standard input.
const PIPED: &str = "flashproof size profile --log -";
const PIPED_IOSTAT: &str = "flashproof size profile --log LOG --iostat -";

#[derive(Debug, Default)]
struct Files {
    logs: Vec<PathBuf>,
    iostats: Vec<(Option<String>, PathBuf)>,
    /// Replies of servers: files, or folders of them.
    replies: Vec<PathBuf>,
    configurations: Vec<ConfigurationFile>,
}

/// A server's configuration file, with its contents.
#[derive(Debug)]
struct ConfigurationFile {
    path: PathBuf,
    contents: Start,
    /// True for a backup or a copy by its name, such as aerospike.conf.bak: used only if its node has no other file.
    is_spare: bool,
}

fn read(args: &SizeArgs) -> Result<ProfileSources, Failure> {
    let mut files = Files {
        logs: args.log.clone(),
        ..Files::default()
    };
    for path in &args.info {
        files.take_info(path)?;
    }
    files
        .iostats
        .extend(args.iostat.iter().map(|path: &PathBuf| {
            let (node, file) = iostat::of_node(path);
            (node, file.to_owned())
        }));
    for dir in &args.dirs {
        files.take_folder(dir)?;
    }
    if files.logs.is_empty() {
        let why = "no server log is given - give a folder of \"flashproof size collect\", or the servers' logs by --log";
        return Err(Failure::usage(why));
    }
    let mut sources = ProfileSources {
        tool: session::runner::tool(),
        ..ProfileSources::default()
    };
    let paths = files
        .logs
        .iter()
        .chain(files.iostats.iter().map(|(_, path)| path))
        .chain(&files.replies)
        .chain(files.configurations.iter().map(|file| &file.path));
    sources.names = paths.map(|path| path.display().to_string()).collect();
    let log_sources = files
        .logs
        .iter()
        .map(|path| InputFile::open(path, PIPED))
        .collect::<Result<Vec<_>, _>>();
    let log_sources = log_sources.map_err(Failure::usage)?;
    sources.logs = if files.logs.iter().any(|path| pasted::is_pasted(path)) {
        vec![pasted::read(log_sources).map_err(Failure::usage)?]
    } else {
        server_log::read(log_sources).map_err(Failure::usage)?
    };
    let nodes: Vec<String> = sources.logs.iter().map(id).collect();
    for (node, path) in &files.iostats {
        let node = node_of(node.as_deref(), path, &nodes)?;
        let day = sources
            .logs
            .iter()
            .find(|log| id(log) == node)
            .and_then(|log| log.span);
        let date = day.map(|(_, last)| last.to_zoned(TimeZone::UTC).date());
        let source = InputFile::open(path, PIPED_IOSTAT).map_err(Failure::usage)?;
        let iostat_report = iostat::read(source, date).map_err(Failure::usage)?;
        if sources
            .iostats
            .insert(node.clone(), iostat_report)
            .is_some()
        {
            return Err(Failure::usage(format!(
                "cannot use {} - it is a second iostat output of node {node} - give only the output of the time to \
                 analyse, by --log and --iostat instead of a folder",
                path.display()
            )));
        }
    }
    for path in &files.replies {
        // A folder may have configuration files instead of replies.
        let mut in_folder = files.configurations.iter();
        let has_configuration = in_folder.any(|file| file.path.starts_with(path));
        let replies = read_replies(path, has_configuration)?;
        sources
            .facts
            .extend(facts(replies, path, &sources.logs, &nodes)?);
    }
    add_configurations(files.configurations, &nodes, &mut sources.logs)?;
    if let Some(given_facts) = given_block_sizes(args) {
        for namespace in sources.logs.iter().flat_map(ServerLog::namespaces) {
            sources
                .facts
                .entry((String::new(), namespace.clone()))
                .or_default();
            let of_namespace = sources
                .facts
                .iter_mut()
                .filter(|((_, of), _)| *of == namespace);
            of_namespace
                .for_each(|(_, known)| *known = given_facts.clone().or(std::mem::take(known)));
        }
    }
    Ok(sources)
}

/// Part of the name of a configuration file, also of a copy: aerospike.conf.bak, aerospike.conf (1).
const CONFIGURATION: &str = ".conf";

/// The files of a folder, by name.
fn files_of(dir: &Path) -> Result<Vec<PathBuf>, Failure> {
    let paths = std::fs::read_dir(dir).and_then(|entries| {
        let paths = entries.map(|entry| Ok(entry?.path()));
        paths.collect::<std::io::Result<Vec<_>>>()
    });
    let mut paths = paths.map_err(|error| {
        Failure::usage(format!(
            "cannot read the folder {} - {error} - give a folder of \"flashproof size collect\", or files by \
             --log, --iostat and --info",
            dir.display()
        ))
    })?;
    paths.retain(|path| path.is_file());
    paths.sort();
    Ok(paths)
}

/// The name of the file `path` in lower case.
fn lower_case_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().to_ascii_lowercase()
}

impl Files {
    /// Adds a file or a folder of --info.
    fn take_info(&mut self, path: &Path) -> Result<(), Failure> {
        if path.is_dir() {
            for file in files_of(path)? {
                if lower_case_name(&file).contains(CONFIGURATION) {
                    self.take_configuration(&file, is_spare(&file));
                }
            }
        }
        if !self.take_configuration(path, false) {
            self.replies.push(path.to_owned());
        }
        Ok(())
    }

    /// Adds `path` and returns true if it is a server's configuration file. A configuration of a test has no namespaces.
    fn take_configuration(&mut self, path: &Path, is_spare: bool) -> bool {
        let configuration = configuration(path);
        let is_one = configuration.is_some();
        self.configurations
            .extend(configuration.map(|contents| ConfigurationFile {
                path: path.to_owned(),
                contents,
                is_spare,
            }));
        is_one
    }

    /// Adds each file of a folder by the kind that its name shows.
    fn take_folder(&mut self, dir: &Path) -> Result<(), Failure> {
        for path in files_of(dir)? {
            let name = lower_case_name(&path);
            match name {
                _ if name.contains(info::FILE_ENDING) => self.take_info(&path)?,
                _ if name.contains("iostat") => self.iostats.push((None, path)),
                _ if name.contains(".log") => self.logs.push(path),
                _ if name.contains(CONFIGURATION) => {
                    self.take_configuration(&path, is_spare(&path));
                }
                _ => {}
            }
        }
        if self.logs.is_empty() {
            return Err(Failure::usage(format!(
                "{} holds no server log (a file name with .log) - record sizes are only in the log: copy the log of \
                 each node, and give it by --log",
                dir.display()
            )));
        }
        Ok(())
    }
}

/// Node of a file: the given node, the node whose id starts the file's name, or the only node.
fn node_of(node: Option<&str>, path: &Path, nodes: &[String]) -> Result<String, Failure> {
    match (node, nodes) {
        (Some(node), _) => {
            let known = nodes.iter().find(|id| id.eq_ignore_ascii_case(node));
            Ok(known.map_or(node, String::as_str).to_owned())
        }
        (None, _) => node_by_name(path, nodes)
            .map(|n| nodes[n].clone())
            .ok_or_else(|| {
                Failure::usage(format!(
                    "cannot assign {0} to a node - the logs are of {1} - give --iostat NODE={0}",
                    path.display(),
                    nodes.join(", "),
                ))
            }),
    }
}

/// Index of the node whose id starts the name of the file `path`, or of the only node.
fn node_by_name(path: &Path, nodes: &[String]) -> Option<usize> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let name = name.to_ascii_uppercase();
    nodes
        .iter()
        .position(|id| nodes.len() == 1 || name.starts_with(id.as_str()))
}

/// The server's configuration in the file `path`. `None`: a file of another kind, or an unreadable file.
fn configuration(path: &Path) -> Option<Start> {
    let file = path.is_file().then(|| InputFile::open(path, PIPED).ok());
    let read = file.flatten().map(server_log::read_configuration);
    read.and_then(Result::ok).flatten()
}

/// True if the name of a configuration file goes on after `.conf`.
fn is_spare(path: &Path) -> bool {
    !info::has_ending(Path::new(&lower_case_name(path)), CONFIGURATION)
}

/// Adds the configuration of each node to its log. Errors: a node has two files with different values.
fn add_configurations(
    mut files: Vec<ConfigurationFile>,
    nodes: &[String],
    logs: &mut [ServerLog],
) -> Result<(), Failure> {
    let mut used = BTreeMap::<usize, ConfigurationFile>::new();
    files.sort_by_key(|file| file.is_spare);
    for mut file in files {
        let Some(node) = node_of_configuration(&mut file, nodes, logs) else {
            continue;
        };
        match used.get_mut(&node) {
            None => {
                used.insert(node, file);
            }
            Some(known) => add_second(known, file, &nodes[node])?,
        }
    }
    for (node, file) in used {
        logs[node].add_configuration(file.contents);
    }
    Ok(())
}

/// Adds a second configuration `file` of `node` to the `known` one. A spare file beside another file is left out.
fn add_second(
    known: &mut ConfigurationFile,
    file: ConfigurationFile,
    node: &str,
) -> Result<(), Failure> {
    let path = file.path.display();
    let known_path = known.contents.origin.clone();
    if file.is_spare && !known.is_spare {
        console::warning(&format!(
            "{path} is left out: the configuration of node {node} is {known_path} - to use {path}, name it by --info, and \
             the log by --log instead of a folder"
        ));
        return Ok(());
    }
    known.contents.add_file(file.contents).map_err(|namespace| {
        Failure::usage(format!(
            "cannot use {path} - for namespace {} of node {node}, {known_path} has other values - give only the file that \
             the server uses, by --log and --info instead of a folder",
            in_one_line(&namespace)
        ))
    })
}

/// Index of the node that `file` configures; the namespaces that its log lacks are removed. `None`, with a warning: no
/// log is of its node, or has one of its namespaces.
fn node_of_configuration(
    file: &mut ConfigurationFile,
    nodes: &[String],
    logs: &[ServerLog],
) -> Option<usize> {
    let path = file.path.display();
    let Some(node) = node_by_name(&file.path, nodes) else {
        console::warning(&format!(
            "{path} is left out: its name does not show its node - begin the name with the id of the node ({})",
            nodes.join(", ")
        ));
        return None;
    };
    let configuration = &mut file.contents.configuration;
    let configured = Vec::from_iter(configuration.keys().map(String::as_str)).join(", ");
    let logged = logs[node].namespaces();
    configuration.retain(|namespace, _| logged.contains(namespace));
    if configuration.is_empty() {
        console::warning(&format!(
            "{path} is not used: it configures {}, but the log has {} - give the configuration of the log's node",
            in_one_line(&configured),
            Vec::from_iter(logged).join(", ")
        ));
        return None;
    }
    Some(node)
}

/// The replies in the file or folder `path`. A folder that `has_configuration` may have no replies.
fn read_replies(path: &Path, has_configuration: bool) -> Result<Vec<InfoReplies>, Failure> {
    let read_result = if path.is_dir() {
        info::read_folder(path)
    } else {
        info::read_file(path).map(|replies| vec![replies])
    };
    let replies = read_result.map_err(|error| {
        Failure::usage(format!(
            "cannot read {} - {error} - give a NODE.info file, or a folder of them",
            path.display()
        ))
    })?;
    let is_empty = replies.iter().all(|replies| replies.namespaces.is_empty());
    if is_empty && !has_configuration {
        return Err(Failure::usage(format!(
            "{} has no replies about a namespace - write a file with the name of a request, a tab and the reply in one \
             line: printf 'namespace/NS\\t%s\\n' \"$(asinfo -v namespace/NS)\" > NODE.info, or give a folder of \
             \"flashproof size collect\", or the server's aerospike.conf",
            path.display()
        )));
    }
    Ok(if is_empty { Vec::new() } else { replies })
}

/// Configuration of each namespace, from the `replies` in `path`. Replies without a node name belong to the only node.
fn facts(
    mut replies: Vec<InfoReplies>,
    path: &Path,
    logs: &[ServerLog],
    nodes: &[String],
) -> Result<BTreeMap<(String, String), NamespaceFacts>, Failure> {
    let of_logs: BTreeSet<String> = logs.iter().flat_map(ServerLog::namespaces).collect();
    for replies in &mut replies {
        name_namespace(replies, path, &of_logs)?;
    }
    Ok(replies
        .iter()
        .flat_map(|replies: &InfoReplies| {
            let node = match &replies.node_id {
                Some(id) if nodes.contains(id) => id.clone(),
                // Logs of old server versions do not name the node.
                _ if nodes.len() == 1 && (replies.node_id.is_none() || !is_id(&nodes[0])) => {
                    String::new()
                }
                _ => {
                    console::warning(&format!(
                        "{} is left out: it belongs to node {}, which has no log",
                        path.display(),
                        replies.name()
                    ));
                    return Vec::new();
                }
            };
            let facts = replies.namespaces.iter().map(|(name, namespace)| {
                (name.clone(), NamespaceFacts::from_node(replies, namespace))
            });
            facts
                .map(|(name, facts)| ((node.clone(), name), facts))
                .collect::<Vec<_>>()
        })
        .collect())
}

/// Gives a pasted reply without its request to the only namespace `of_logs`, and warns if all replies are about other
/// namespaces.
fn name_namespace(
    replies: &mut InfoReplies,
    path: &Path,
    of_logs: &BTreeSet<String>,
) -> Result<(), Failure> {
    let logged = Vec::from_iter(of_logs.iter().map(String::as_str)).join(", ");
    if let Some(unnamed) = replies.namespaces.remove("") {
        let Some(only) = of_logs.first().filter(|_| of_logs.len() == 1) else {
            return Err(Failure::usage(format!(
                "cannot assign a reply in {} to a namespace - the logs have {logged} - write the request and a tab \
                 before the reply: namespace/NS<TAB>REPLY",
                path.display()
            )));
        };
        replies.namespaces.entry(only.clone()).or_insert(unnamed);
    }
    let is_logged = |name: &String| of_logs.contains(name);
    if !of_logs.is_empty() && !replies.namespaces.keys().any(is_logged) {
        let others = Vec::from_iter(replies.namespaces.keys().map(String::as_str)).join(", ");
        console::warning(&format!(
            "the replies in {} are not used: they are about {}, but the logs have {logged}",
            path.display(),
            in_one_line(&others)
        ));
    }
    Ok(())
}

/// True if a node is named by its id, false if by its log.
fn is_id(node: &str) -> bool {
    node.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn given_block_sizes(args: &SizeArgs) -> Option<NamespaceFacts> {
    let write_block_bytes = args.write_block_size;
    let flush_bytes = args.flush_size;
    (write_block_bytes.is_some() || flush_bytes.is_some()).then(|| NamespaceFacts {
        origin: "the command line".to_owned(),
        write_block_bytes,
        flush_bytes,
        ..NamespaceFacts::default()
    })
}

/// Options of the profile; times of day get the dates of the logs.
fn profile_request(args: &SizeArgs, logs: &[ServerLog]) -> ProfileOptions {
    let last = logs
        .iter()
        .filter_map(|log| log.span)
        .map(|(_, last)| last)
        .max();
    let first = logs
        .iter()
        .filter_map(|log| log.span)
        .map(|(first, _)| first)
        .min();
    let from = args.from.and_then(|from| timestamp_of(from, last, first));
    let to = args
        .to
        .and_then(|to| timestamp_of(to, last, from.or(first)));
    ProfileOptions {
        namespaces: args.namespace.clone(),
        from,
        to,
        at_least_sec: args.at_least,
        drives: args
            .drive
            .iter()
            .map(|(drive, device)| (device.clone(), drive.clone()))
            .collect(),
        iostat_zone: args.iostat_zone,
    }
}

fn timestamp_of(
    instant: Instant,
    last: Option<Timestamp>,
    earliest: Option<Timestamp>,
) -> Option<Timestamp> {
    let time = match instant {
        Instant::At(at) => return Some(at),
        Instant::Of(time) => time,
    };
    // A time of day means the log's last day. If the log ends before that time, the day before is meant.
    let day = last?.to_zoned(TimeZone::UTC).date();
    let today = timestamp_on(day, time);
    let yesterday = day.yesterday().ok().and_then(|day| timestamp_on(day, time));
    let is_meant = |at: &Timestamp| today > last && earliest.is_some_and(|after| *at >= after);
    yesterday.filter(is_meant).or(today)
}

fn timestamp_on(day: Date, time: Time) -> Option<Timestamp> {
    let zoned = day.to_datetime(time).to_zoned(TimeZone::UTC).ok()?;
    Some(zoned.timestamp())
}
