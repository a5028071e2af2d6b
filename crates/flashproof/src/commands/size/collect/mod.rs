//! `flashproof size collect`: collects data about a live cluster's load into a folder, for a sizing anywhere.
//!
//! ```text
//! --host -> nodes, found through their peers          store::nodes
//!        -> settings that a sizing needs, changed     node_settings.rs
//!        -> samples, a file per node                  run.rs
//!        -> settings restored, also after a signal    node_settings.rs
//! ```
//!
//! `sizing::info` interprets the replies; this module opens no device.

mod node_settings;
pub mod options;
mod run;

use crate::commands::size::collect::options::{CollectArgs, NodeArgs, RestoreArgs};
use crate::output::done;
use node_settings::{SettingsToRestore, asinfo};
use run::{SampledNode, fetch};
use session::console::{self, shell_quoted};
use session::failure::Failure;
use session::signals::EndSignals;
use sizing::info::Build;
use sizing::info::settings::{DETAIL, ServerSetting, SettingChange};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;
use store::nodes::{Access, DiscoveredNode};

/// Collects, or prints the commands to do so by hand.
pub fn collect(args: &CollectArgs) -> Result<ExitCode, Failure> {
    if args.print_commands {
        print(args)
    } else {
        run::collect(args)
    }
}

/// Restores the settings that a killed collection had changed.
pub fn restore(args: &RestoreArgs) -> Result<ExitCode, Failure> {
    let dir = args.dir.display();
    if !args.dir.is_dir() {
        return Err(Failure::usage(format!(
            "cannot restore settings from {dir} - it is not a folder - give the folder of the collection"
        )));
    }
    let lock = node_settings::lock(&args.dir)?;
    let Some(settings_to_restore) = SettingsToRestore::read(&args.dir)? else {
        console::note(&format!(
            "nothing to restore: there is no {} in {dir}",
            node_settings::RESTORE_FILE
        ));
        return Ok(ExitCode::SUCCESS);
    };
    let access = access(&args.nodes)?;
    let _end_signals = EndSignals::listen(format!(
        "settings not yet restored are recorded in {dir} - to restore them: flashproof size restore {dir}"
    ))?;
    settings_to_restore.restore(&access, retry(&args.nodes))?;
    drop(lock);
    console::note("all settings are restored");
    Ok(ExitCode::SUCCESS)
}

fn access(args: &NodeArgs) -> Result<Access, Failure> {
    Ok(Access {
        timeout: Duration::from_secs(args.timeout.into()),
        ..crate::access::access(&args.access)?
    })
}

fn retry(args: &NodeArgs) -> Duration {
    Duration::from_secs(args.retry.into())
}

fn build(node: &DiscoveredNode) -> Option<Build> {
    Build::parse(&node.build)
}

/// Prints the commands: for the current settings of the nodes, or in general form without `--host`.
fn print(args: &CollectArgs) -> Result<ExitCode, Failure> {
    let text = if args.host.is_empty() {
        general(args)
    } else {
        let (sampled_nodes, _) = run::look(args, &access(&args.nodes)?)?;
        of_nodes(&sampled_nodes, args)
    };
    done(&text)
}

fn of_nodes(sampled_nodes: &[SampledNode], args: &CollectArgs) -> String {
    // asadm sets all nodes alike. If their settings differed, each node needs its own commands to restore them.
    let are_alike = sampled_nodes
        .iter()
        .all(|node| node.changes == sampled_nodes[0].changes);
    let mut text = String::new();
    if sampled_nodes.iter().all(|node| node.changes.is_empty()) {
        text += "# 1. All settings that a sizing needs are on already.\n";
    } else {
        text += "# 1. Turn on the settings that a sizing needs, by asadm on all nodes:\n";
        text += &asadm_commands(sampled_nodes, |change| &change.to);
        text += "#    or by asinfo on each node:\n";
        text += &asinfo_commands(sampled_nodes, |change| &change.to);
    }
    text += &meanwhile(args, &sampled_nodes[0].namespaces);
    text += "# 3. Fetch the logs, and the files of step 2:\n";
    for node in sampled_nodes {
        for (_, file) in &node.logs {
            let _ = writeln!(text, "{}", fetch(&node.node, file, Path::new("")));
        }
    }
    if sampled_nodes.iter().any(|node| !node.changes.is_empty()) {
        text += "# 4. Restore the settings";
        if are_alike {
            text += ", by asadm on all nodes:\n";
            text += &asadm_commands(sampled_nodes, |change| &change.was);
            text += "#    or by asinfo on each node:\n";
        } else {
            text += " (the nodes' settings differ, so by asinfo on each node):\n";
        }
        text += &asinfo_commands(sampled_nodes, |change| &change.was);
    }
    text + NEXT
}

/// Commands that set all nodes alike. `value_of` selects the old or the new value of a change.
fn asadm_commands(sampled_nodes: &[SampledNode], value_of: fn(&SettingChange) -> &str) -> String {
    let seed = &sampled_nodes[0].node.host;
    let changes = sampled_nodes.iter().flat_map(|node| &node.changes);
    let commands: BTreeSet<_> = changes
        .map(|change| change.setting.asadm_command(value_of(change)))
        .collect();
    let mut text = String::new();
    for command in &commands {
        let _ = writeln!(
            text,
            "asadm -h {} -p {} --enable -e {}",
            shell_quoted(&seed.name),
            seed.port,
            quotes(command)
        );
    }
    text
}

/// Commands for each node separately. `value_of` selects the old or the new value of a change.
fn asinfo_commands(sampled_nodes: &[SampledNode], value_of: fn(&SettingChange) -> &str) -> String {
    let mut text = String::new();
    for node in sampled_nodes {
        for change in &node.changes {
            let command = change.setting.command(value_of(change), build(&node.node));
            let _ = writeln!(text, "{}", asinfo(&node.node.host.to_string(), &command));
        }
    }
    text
}

/// Commands in general form, for any cluster.
fn general(args: &CollectArgs) -> String {
    let mut namespaces = args.namespace.clone();
    let mut text = "# LOG is the path of the log (asinfo -v logs).\n".to_owned();
    if namespaces.is_empty() {
        text = "# NS is each namespace on devices, LOG the path of the log (asinfo -v logs).\n"
            .to_owned();
        namespaces.push("NS".to_owned());
    }
    text += "# drv-mem is only for namespaces with storage-engine memory and a device (server 7.0 and later).\n";
    text += "# 1. Turn on the settings that a sizing needs, by asadm on all nodes:\n";
    text += &general_commands(&namespaces, "true", DETAIL);
    text += &meanwhile(args, &namespaces);
    text += "# 3. Fetch the log of each node, and the files of step 2:\nscp HOST:LOG HOST-aerospike.log\n";
    text += "# 4. Restore the usual settings:\n";
    text += &general_commands(&namespaces, "false", "info");
    text + NEXT
}

/// Commands that turn histograms on or off, and set the level of the log.
fn general_commands(namespaces: &[String], benchmarks: &str, level: &str) -> String {
    let of_namespaces = namespaces.iter().cloned();
    let of_namespaces = of_namespaces.map(|namespace| ServerSetting::Benchmarks { namespace });
    let of_log = [false, true].map(|is_memory| ServerSetting::LogLevel {
        sink: 0,
        file: "LOG".to_owned(),
        is_memory,
    });
    let by_asadm = of_namespaces
        .clone()
        .map(|setting| setting.asadm_command(benchmarks));
    let mut text = String::new();
    let levels_by_asadm = of_log.iter().map(|setting| setting.asadm_command(level));
    for command in by_asadm.chain(levels_by_asadm) {
        let _ = writeln!(text, "asadm --enable -e {}", quotes(&command));
    }
    text += "#    or by asinfo on each node; before 8.1, and from 8.1 on:\n";
    let builds = [Build::new([8, 0, 0, 0]), Build::new([8, 1, 0, 0])];
    let by_asinfo = of_namespaces
        .flat_map(|setting| builds.map(|build| setting.command(benchmarks, Some(build))));
    let levels_by_asinfo = of_log.iter().map(|setting| setting.command(level, None));
    for command in by_asinfo.chain(levels_by_asinfo) {
        let _ = writeln!(text, "asinfo -v {}", shell_quoted(&command));
    }
    let old = ServerSetting::OldBenchmarks.command(benchmarks, None);
    let _ = writeln!(
        text,
        "#    before 3.9, instead of the setting of a namespace:\nasinfo -v {}",
        shell_quoted(&old)
    );
    text
}

/// Commands to run on each node while the load is typical.
fn meanwhile(args: &CollectArgs, namespaces: &[String]) -> String {
    let every = args.every;
    let times = args.window / args.every.max(1) + 1;
    let mut text = format!(
        "# 2. On each node, while the load is typical, until Ctrl-C:\n\
         NODE=$(asinfo -v node)\n\
         LC_ALL=C S_TIME_FORMAT=ISO iostat -x -t {every} {times} > $NODE-iostat.txt &\n\
         #    (or its JSON: LC_ALL=C iostat -x -t -o JSON {every} {times} > $NODE-iostat.json &)\n\
         while sleep {every}; do\n  date -u '+# %Y%m%dT%H%M%SZ'\n"
    );
    let names = ["node", "build"].map(str::to_owned).into_iter();
    for name in names.chain(
        namespaces
            .iter()
            .map(|namespace| format!("namespace/{namespace}")),
    ) {
        let name = shell_quoted(&name);
        let _ = writeln!(text, "  printf '%s\\t%s\\n' {name} \"$(asinfo -v {name})\"");
    }
    text + "done > $NODE.info\n"
}

const NEXT: &str =
    "# 5. Derive the load, in the folder with all of these files:\nflashproof size profile .\n";

/// Quotes a word: double quotes if it contains nothing special to a shell, else single quotes.
fn quotes(word: &str) -> String {
    if word.contains(['"', '$', '`', '\\', '!', '\'']) {
        shell_quoted(word)
    } else {
        format!("\"{word}\"")
    }
}
