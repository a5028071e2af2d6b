//! A profile on the screen: loads, what reached the drives, what had to balance.

use report::table::Table;
use results::units;
use sizing::configuration::Configuration;
use sizing::profile::blocks::kib;
use sizing::profile::counters::mean_bytes;
use sizing::profile::{Check, DeviceLoad, DriveIo, DriveTarget, Profile};

/// Columns of a terminal.
const COLUMNS: usize = 100;

/// All of it.
pub fn page(profile: &Profile, configurations: &[Configuration]) -> String {
    let mut text = String::new();
    for node in &profile.nodes {
        let build = node.build.as_deref().map(|build| format!(" (server {build})")).unwrap_or_default();
        let window = node.window;
        text += &format!(
            "node {}{build}, {} to {} ({})\n",
            node.id,
            window.from,
            window.to,
            units::span_of(window.seconds())
        );
    }
    text += &format!("\nLoad on each device, a second\n\n{}", loads(profile));
    for load in &profile.loads {
        text += &units::wrapped(&told(load), "  ", COLUMNS);
    }
    text += &format!("\nWhat reached each drive, all namespaces together\n\n{}", drives(profile, configurations));
    if profile.checks.is_empty() {
        text += "\nNothing could be compared: there is one source for each number.\n";
    } else {
        text += &format!("\nWhat has to balance\n\n{}", checks(profile));
    }
    let remarks = profile.remarks.iter().chain(configurations.iter().flat_map(|one| &one.remarks)).cloned().collect();
    for (title, sentences) in [("IN DOUBT, not to be used as it is:", profile.doubts()), ("Remarks:", remarks)] {
        if !sentences.is_empty() {
            text += &format!("\n{title}\n");
            sentences.iter().for_each(|sentence| text += &units::wrapped(sentence, "  ", COLUMNS));
        }
    }
    text
}

fn loads(profile: &Profile) -> Table {
    let several = profile.nodes.len() > 1;
    let mut table = Table::new("")
        .text(["namespace", "device"].into_iter().chain(several.then_some("node")))
        .numbers(["reads", "writes", "block", "block reads", "block writes", "direct frees"]);
    for load in &profile.loads {
        let node = several.then(|| load.node.clone());
        let names = [load.namespace.clone(), load.device.clone()].into_iter().chain(node);
        table.row(names.chain([
            rate(load.reads_per_sec),
            rate(load.writes_per_sec),
            kib(load.large_block_bytes),
            rate(load.large_block_reads_per_sec),
            rate(load.large_block_writes_per_sec),
            load.direct_frees_per_sec.map_or_else(|| "-".to_owned(), rate),
        ]));
    }
    table
}

/// What the columns do not say of a load: sizes, what clients asked for, what is in the counts.
fn told(load: &DeviceLoad) -> String {
    let DeviceLoad { namespace, device, .. } = load;
    let size = |sizes: &[f64]| {
        let (lower, upper) = mean_bytes(sizes);
        format!("{} to {}", units::bytes(lower), units::bytes(upper))
    };
    let mut text = format!("{namespace} {device}:");
    if load.reads_per_sec > 0.0 {
        text += &format!(" a read is {} on average,", size(&load.read_sizes_pct_over));
    }
    if load.writes_per_sec > 0.0 {
        text += &format!(" a record written {},", size(&load.write_sizes_pct_over));
    }
    text += &format!(" by the edges of their buckets; block size: {}.", load.origin.large_block);
    if let (Some(reads), Some(writes)) = (load.client_reads_per_sec, load.client_writes_per_sec) {
        text += &format!(
            " Clients asked for {} reads/s and {} writes/s of the namespace on this node; records written beyond these \
             are replicas and migrations, and writes read their record first unless they replace it.",
            rate(reads),
            rate(writes)
        );
    }
    if let Some(factor) = load.replication_factor {
        text += &format!(" Replication factor {factor}.");
    }
    if load.commit_to_device {
        text += " Each record is written by itself (commit-to-device); block writes are defragmentation's.";
    } else if let Some(defrag) = load.defrag_writes_per_sec {
        text += &format!(" Of the block writes {} a second are defragmentation's.", rate(defrag));
    }
    if let Some(partial) = load.partial_flushes_per_sec.filter(|partial| *partial > 0.0) {
        text += &format!(" {} flushes a second were of blocks not full.", rate(partial));
    }
    text
}

fn drives(profile: &Profile, configurations: &[Configuration]) -> Table {
    let mut table = Table::new("").text(["drive", "by"]).numbers(["r/s", "w/s", "rkB/s", "wkB/s"]);
    let several = profile.nodes.len() > 1;
    let mut row = |drive: String, by: &str, io: &DriveIo| {
        let numbers = [io.reads_per_sec, io.writes_per_sec, io.read_kib_per_sec, io.written_kib_per_sec].map(rate);
        table.row([drive, by.to_owned()].into_iter().chain(numbers));
    };
    for DriveTarget { node, drive, predicted, iostat } in &profile.drives {
        let name = if several { format!("{drive} ({node})") } else { drive.clone() };
        row(name.clone(), "the server's counters", predicted);
        if let Some(seen) = iostat {
            row(name, "iostat, without flushes", seen);
        }
    }
    for Configuration { namespace, asks, .. } in configurations {
        row(String::new(), &format!("{namespace}.conf"), asks);
    }
    table
}

fn checks(profile: &Profile) -> Table {
    let several = profile.nodes.len() > 1;
    let mut table = Table::new("")
        .text(["where", "what", "against"])
        .numbers(["found", "should be", "off, %", "allowed"])
        .text([""]);
    for check in &profile.checks {
        let Check { node, place, what, against, found, least, most, allowed_pct, .. } = check;
        let range = if least == most { rate(*least) } else { format!("{} to {}", rate(*least), rate(*most)) };
        let off = format!("{:+.2}", check.residue_pct());
        let word = if check.holds() { "ok" } else { "DOES NOT BALANCE" };
        table.row([
            if several { format!("{place} ({node})") } else { place.clone() },
            what.clone(),
            against.clone(),
            rate(*found),
            range,
            off,
            format!("{allowed_pct:.1}"),
            word.to_owned(),
        ]);
    }
    table
}

/// A number a second: whole from 1,000 on.
fn rate(value: f64) -> String {
    if value.abs() >= 1000.0 { units::number(value.round()) } else { format!("{value:.1}") }
}
