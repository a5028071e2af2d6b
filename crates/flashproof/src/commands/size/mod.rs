//! `flashproof size profile`: a load profile of a live cluster from its logs, and test configurations.

mod input;
mod page;

use crate::args::SizeArgs;
use load::factor::Factor;
use session::console;
use session::failure::Failure;
use session::output_file::{check_page, write_file, write_page};
use sizing::configuration::{Configuration, Test, busiest_node, configurations};
use sizing::profile::Profile;
use sizing::profile::derive::profile;
use std::path::Path;
use std::process::ExitCode;

/// Exit code of a profile that does not balance: it is no statement about the drives.
const IN_DOUBT: u8 = 4;

/// Name of the profile in the folder.
const PROFILE: &str = "profile.json";

/// Derives the profile, shows it, and writes the files.
pub fn run(args: &SizeArgs) -> Result<ExitCode, Failure> {
    if let Some(path) = &args.html {
        check_page(path)?;
    }
    let sources = input::read(args)?;
    let profile = profile(&sources, &input::wanted(args, &sources.logs)).map_err(Failure::usage)?;
    let test = Test { device: args.device.clone(), duration_sec: args.duration, factor: args.scale };
    let node = args.node.as_deref().or_else(|| busiest_node(&profile)).unwrap_or_default();
    let configured = configurations(&profile, node, &test);
    let json = serde_json::to_string_pretty(&profile).map_err(Failure::environment)? + "\n";
    let balances = profile.doubts().is_empty();
    console::result(&if args.json {
        json.clone()
    } else {
        page::page(&profile, configured.as_deref().unwrap_or_default())
    })?;
    if let Some(path) = &args.html {
        write_page(path, &page::html(&profile, configured.as_deref().unwrap_or_default()))?;
    }
    let configurations = configured.map_err(Failure::usage)?;
    if let Some(dir) = &args.out {
        let wanted = if balances || args.accept_unbalanced { &configurations[..] } else { &[] };
        write(dir, args.force, &json, wanted)?;
        say_what_next(args, &profile, node, dir, wanted);
    }
    Ok(if balances { ExitCode::SUCCESS } else { ExitCode::from(IN_DOUBT) })
}

/// Writes the profile and the configurations, or nothing.
fn write(dir: &Path, force: bool, json: &str, configurations: &[Configuration]) -> Result<(), Failure> {
    let cannot = |path: &Path, error: &dyn std::fmt::Display| {
        Failure::environment(format!("cannot write {} - {error} - give --out another folder", path.display()))
    };
    std::fs::create_dir_all(dir).map_err(|error| cannot(dir, &error))?;
    let texts = configurations.iter().map(|one| (file_name(&one.namespace), one.text.as_str()));
    let texts: Vec<_> = std::iter::once((PROFILE.to_owned(), json)).chain(texts).collect();
    let write = |name: &str, text| write_file("load profile", &dir.join(name), text, force);
    texts.iter().try_for_each(|(name, _)| write(name, None))?;
    texts.iter().try_for_each(|(name, text)| write(name, Some(*text)))
}

/// File name for a namespace. Namespaces contain no slash, but a log may come from anywhere.
fn file_name(namespace: &str) -> String {
    let safe = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' };
    format!("{}.conf", namespace.chars().map(safe).collect::<String>().trim_start_matches('.'))
}

fn say_what_next(args: &SizeArgs, profile: &Profile, node: &str, dir: &Path, written: &[Configuration]) {
    let dir = dir.display();
    if written.is_empty() {
        console::warning(&format!(
            "{dir}/{PROFILE} is written, and no configuration: the profile does not balance - mend what is in doubt, or \
             give --accept-unbalanced"
        ));
        return;
    }
    let files: Vec<String> = written.iter().map(|one| format!("{dir}/{}", file_name(&one.namespace))).collect();
    let of_node = if profile.nodes.len() > 1 { format!(" --node {node}") } else { String::new() };
    let device = if args.device.is_none() { "put your drive into it, then: " } else { "" };
    // Alignment needs the cluster's own load; the target of a multiple differs.
    let align = match args.scale == Factor::ONE {
        true => format!("flashproof size align {} --target {dir}/{PROFILE}{of_node}, and: ", files[0]),
        false => String::new(),
    };
    let together = if files.len() > 1 { " (several at once, if they share a drive)" } else { "" };
    console::notice(&format!(
        "written: {dir}/{PROFILE}, {} (one drive of {node} each) - {device}{align}flashproof storage {}{together}",
        files.join(", "),
        files.join(" "),
    ));
}
