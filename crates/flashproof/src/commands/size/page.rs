//! A profile on the screen: loads, what reached the drives, what had to balance.

use report::table::Table;
use results::units;
use sizing::configuration::Configuration;
use sizing::drive_io::{DriveIo, NAMES};
use sizing::profile::blocks::kib;
use sizing::profile::counters::mean_bytes;
use sizing::profile::{Check, DeviceLoad, DriveTarget, Profile};

/// Columns of a terminal.
const COLUMNS: usize = 100;

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
    let mut rest = &profile.loads[..];
    while let [first, ..] = rest {
        let same = |load: &&DeviceLoad| (&load.node, &load.namespace) == (&first.node, &first.namespace);
        let count = rest.iter().take_while(same).count();
        let node = if profile.nodes.len() > 1 { format!(" on {}", first.node) } else { String::new() };
        let of_namespace: Vec<&DeviceLoad> = rest[..count].iter().collect();
        text += &units::wrapped(&format!("{}{node}: {}", first.namespace, told(&of_namespace)), "  ", COLUMNS);
        rest = &rest[count..];
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

/// Details of a namespace that the columns lack: sizes, clients' rates, parts of the counts.
fn told(loads: &[&DeviceLoad]) -> String {
    let Some(first) = loads.first() else { return String::new() };
    let sum = |of: fn(&DeviceLoad) -> f64| loads.iter().map(|load| of(load)).sum::<f64>();
    let (reads, writes) = (sum(|load| load.reads_per_sec), sum(|load| load.writes_per_sec));
    let mut sentences = Vec::new();
    for (what, rate, sizes) in [
        ("A read from the device is", reads, &first.read_sizes_pct_over),
        ("A record written is", writes, &first.write_sizes_pct_over),
    ] {
        if rate > 0.0 {
            let (lower, upper) = mean_bytes(sizes);
            let [lower, upper] = [lower, upper].map(units::bytes);
            sentences
                .push(format!("{what} {lower} to {upper} on average, by the edges of the buckets of its histogram."));
        }
    }
    sentences.push(format!("A large block is {}: {}.", kib(first.large_block_bytes), first.origin.large_block));
    if let (Some(asked), Some(written)) = (first.client_reads_per_sec, first.client_writes_per_sec) {
        sentences.push(format!(
            "Clients asked for {} reads/s and {} writes/s. {}{}",
            rate(asked),
            rate(written),
            read_before_update(reads, asked, written),
            replicated(writes, written, first.replication_factor),
        ));
    }
    if first.commit_to_device {
        sentences.push(
            "Each record is written by itself (commit-to-device); block writes are defragmentation's.".to_owned(),
        );
    } else if let Some(defrag) = loads.iter().map(|load| load.defrag_writes_per_sec).sum::<Option<f64>>() {
        sentences.push(format!("Of the block writes {} a second are defragmentation's.", rate(defrag)));
    }
    if let Some(partial) =
        loads.iter().map(|load| load.partial_flushes_per_sec).sum::<Option<f64>>().filter(|n| *n >= 0.05)
    {
        sentences.push(format!("{} flushes a second were of blocks not full.", rate(partial)));
    }
    sentences.join(" ")
}

/// Explains the part of the device's reads that writes cause.
fn read_before_update(reads: f64, asked: f64, written: f64) -> String {
    let both = asked + written;
    match reads {
        // Counters of reads that are in step within a percent need no explanation.
        _ if reads <= asked * 1.01 => {
            format!(
                "{} of the reads were answered from a cache. ",
                units::percent_whole(1.0 - (reads / asked).min(1.0))
            )
        }
        _ if reads <= both * 1.01 => format!(
            "The device did {} reads/s more: writes read their record first unless they replace it. If all do, {} of both \
             were answered from a cache. ",
            rate(reads - asked),
            units::percent_whole(1.0 - (reads / both).min(1.0))
        ),
        _ => format!(
            "The device did {} reads/s more than both together: replicas, batches, scans and migrations read, too. ",
            rate(reads - both)
        ),
    }
}

/// Explains the part of the written records that are copies.
fn replicated(writes: f64, written: f64, factor: Option<u64>) -> String {
    let factor = factor.map(|factor| format!(" (replication factor {factor})")).unwrap_or_default();
    match writes / written {
        times if !times.is_finite() => String::new(),
        times if (times - 1.0).abs() <= 0.01 => format!("Records are written once on this node{factor}."),
        times => format!("Records written are {times:.2} times that, by replicas and migrations{factor}."),
    }
}

fn drives(profile: &Profile, configurations: &[Configuration]) -> Table {
    let mut table = Table::new("").text(["drive", "by"]).numbers(NAMES);
    let several = profile.nodes.len() > 1;
    let mut row = |drive: String, by: &str, io: &DriveIo| {
        table.row([drive, by.to_owned()].into_iter().chain(io.numbers().map(rate)));
    };
    for DriveTarget { node, drive, predicted, iostat, .. } in &profile.drives {
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
