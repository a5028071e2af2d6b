//! A profile on the screen and as a page: loads, I/O that reached the drives, checks of the balance.

use act::options::Test;
use report::bars::Bars;
use report::head::Head;
use report::table::Table;
use results::format;
use results::judge::{Headline, Outcome};
use session::runner::tool;
use sizing::configuration::TestConfiguration;
use sizing::drive_io::{DriveIo, NAMES};
use sizing::profile::counters::{kib, mean_bytes};
use sizing::profile::{DeviceLoad, DriveTarget, Profile, ProfileCheck, ProfiledNode, Unconfirmed};

/// Word for a number that has only one source.
const NOT_CONFIRMED: &str = "not confirmed";

pub fn page(profile: &Profile, configurations: &[TestConfiguration]) -> String {
    let mut text = head(profile).text() + "\n";
    text.extend(nodes(profile).into_iter().map(|node| node + "\n"));
    text += &format!("\nLoad on each device, per second\n\n{}", loads(profile));
    namespaces(profile)
        .iter()
        .for_each(|told| text += &format!("  {told}\n"));
    text += &format!(
        "\n{}, all namespaces together\n\n{}",
        reached_title(profile),
        drives(profile, configurations)
    );
    text += &format!("\nBalance of the sources\n\n{}", checks(profile));
    let remarks = remarks(profile, configurations);
    if !remarks.is_empty() {
        text += "\nRemarks:\n";
        remarks
            .iter()
            .for_each(|remark| text += &format!("  {remark}\n"));
    }
    text
}

/// The profile as an HTML page: balance, sizes, the resulting load, then all numbers.
pub fn html(profile: &Profile, configurations: &[TestConfiguration]) -> String {
    let mut page = head(profile).page();
    page.list(&nodes(profile));
    page.add(&[balance(profile)]);
    page.heading("Sizes");
    page.add(&profile.loads.iter().flat_map(sizes).collect::<Vec<_>>());
    page.heading("The resulting load");
    page.add(&reached(profile, configurations));
    page.list(&namespaces(profile));
    page.heading("In numbers");
    for (title, mut table) in [
        ("Load on each device, per second", loads(profile)),
        (
            &format!("{}, all namespaces together", reached_title(profile)),
            drives(profile, configurations),
        ),
        ("Balance of the sources", checks(profile)),
    ] {
        table.title = title.to_owned();
        page.add(&[table]);
    }
    page.list(&remarks(profile, configurations));
    for TestConfiguration {
        namespace, text, ..
    } in configurations
    {
        page.heading(&format!("{namespace}.conf"));
        page.file(text);
    }
    page.html(&tool())
}

/// The load of the busiest drive, or the first doubt.
fn head(profile: &Profile) -> Head {
    let drives = format::count(profile.drives.len() as u64, "drive");
    let title = format!("Load of {drives}");
    let doubts = profile.doubts();
    if let Some(doubt) = doubts.first() {
        let action = "do not use the profile as it is; resolve the doubts";
        let headline = Headline::new(doubt, Some(action));
        let mut head = Head::new(title, Outcome::Invalid, headline);
        head.details = doubts;
        return head;
    }
    let drives_io = profile.drives.iter().map(DriveTarget::io);
    let busiest = drives_io.max_by(|a, b| operations(a).total_cmp(&operations(b)));
    let io = busiest.unwrap_or_default();
    let sentence = format!(
        "the busiest drive of {} does {} reads/s and {} writes/s ({}/s and {}/s)",
        profile.drives.len(),
        rate(io.reads_per_sec),
        rate(io.writes_per_sec),
        format::bytes(io.read_kib_per_sec * 1024.0),
        format::bytes(io.written_kib_per_sec * 1024.0)
    );
    let headline = Headline::new(&sentence, None);
    Head::new(title, Outcome::Measured, headline)
}

fn operations(io: &DriveIo) -> f64 {
    io.reads_per_sec + io.writes_per_sec
}

/// Title of the I/O of drives: without iostat, no source shows which I/O reached them.
fn reached_title(profile: &Profile) -> &'static str {
    match profile
        .drives
        .iter()
        .filter(|drive| drive.iostat.is_some())
        .count()
    {
        count if count == profile.drives.len() => "I/O that reached each drive",
        0 => "I/O of each drive, not confirmed by iostat",
        _ => "I/O of each drive",
    }
}

/// Deviation of each check, against its tolerance.
fn balance(profile: &Profile) -> Bars {
    let mut bars = Bars::new(
        "Balance of the sources",
        "Difference between two sources of one number. The dashed line is the allowed difference; bars are cut off at \
         twice this difference.",
    );
    for check in &profile.checks {
        let difference_pct = check.residue_pct();
        let allowed_pct = check.allowed_pct;
        let name = format!("{}: {} against {}", check.place, check.what, check.against);
        bars.against(
            name,
            difference_pct.abs(),
            allowed_pct,
            format!("{difference_pct:+.2} % of {allowed_pct:.1} %"),
            !check.holds(),
        );
    }
    bars
}

fn sizes(load: &DeviceLoad) -> Vec<Bars> {
    vec![
        size_bars("Reads", load, &load.read_sizes_pct_over),
        size_bars("Writes", load, &load.write_sizes_pct_over),
    ]
}

/// A histogram of sizes. `pct_over`: percent of the records over each size, from 1 byte on in powers of two.
fn size_bars(kind: &str, load: &DeviceLoad, pct_over: &[f64]) -> Bars {
    let title = format!("{kind} of {} on {}", load.namespace, load.device);
    let mut bars = Bars::new(title, "Percent of the records, by size.");
    for (bucket, share) in pct_over
        .windows(2)
        .map(|pair| pair[0] - pair[1])
        .chain(pct_over.last().copied())
        .enumerate()
    {
        if share > 0.0 {
            bars.bar(
                format!("{} to {}", power_of_two(bucket), power_of_two(bucket + 1)),
                Some(share),
                format::percent(share / 100.0),
            );
        }
    }
    bars
}

/// The size of 2^`exponent` bytes.
fn power_of_two(exponent: usize) -> String {
    if exponent < 10 {
        format!("{} B", 1 << exponent)
    } else {
        kib(1 << exponent.min(62))
    }
}

/// I/O of each drive, according to the server, to iostat, and to the configuration of a test.
fn reached(profile: &Profile, configurations: &[TestConfiguration]) -> Vec<Bars> {
    let rows = reached_rows(profile, configurations);
    let bars = NAMES.iter().enumerate().map(|(index, number)| {
        let mut bars = Bars::new(*number, "");
        for (drive, by, io) in &rows {
            let value = io.numbers()[index];
            bars.bar(
                format!("{drive} {by}").trim_start(),
                Some(value),
                rate(value),
            );
        }
        bars
    });
    bars.collect()
}

fn nodes(profile: &Profile) -> Vec<String> {
    profile
        .nodes
        .iter()
        .map(|node: &ProfiledNode| {
            let build = node
                .build
                .as_deref()
                .map(|build| format!(" (server {build})"))
                .unwrap_or_default();
            let window = node.window;
            format!(
                "node {}{build}, {} to {} ({})",
                node.id,
                window.from,
                window.to,
                format::span_of(window.seconds())
            )
        })
        .collect()
}

/// Sentences about each namespace of a node: numbers that have no column.
fn namespaces(profile: &Profile) -> Vec<String> {
    let same = |a: &DeviceLoad, b: &DeviceLoad| (&a.node, &a.namespace) == (&b.node, &b.namespace);
    profile
        .loads
        .chunk_by(same)
        .map(|loads: &[DeviceLoad]| {
            let node = if profile.nodes.len() > 1 {
                format!(" on {}", loads[0].node)
            } else {
                String::new()
            };
            format!(
                "{}{node}: {}",
                loads[0].namespace,
                load_details(&loads.iter().collect::<Vec<_>>())
            )
        })
        .collect()
}

fn remarks(profile: &Profile, configurations: &[TestConfiguration]) -> Vec<String> {
    profile
        .remarks
        .iter()
        .chain(configurations.iter().flat_map(|one| &one.remarks))
        .cloned()
        .collect()
}

fn loads(profile: &Profile) -> Table {
    let has_several_nodes = profile.nodes.len() > 1;
    let mut table = Table::new("")
        .text(
            ["namespace", "device"]
                .into_iter()
                .chain(has_several_nodes.then_some("node")),
        )
        .numbers([
            "reads",
            "writes",
            "block",
            "block reads",
            "block writes",
            "direct frees",
        ]);
    for load in &profile.loads {
        let node = has_several_nodes.then(|| load.node.clone());
        let names = [load.namespace.clone(), load.device.clone()]
            .into_iter()
            .chain(node);
        table.row(
            names.chain([
                record_rate(load, load.reads_per_sec),
                record_rate(load, load.writes_per_sec),
                kib(load.large_block_bytes),
                rate(load.large_block_reads_per_sec),
                rate(load.large_block_writes_per_sec),
                load.direct_frees_per_sec
                    .map_or_else(|| "-".to_owned(), rate),
            ]),
        );
    }
    table
}

/// A rate of records; `-` if the records are unknown.
fn record_rate(load: &DeviceLoad, per_sec: f64) -> String {
    if load.is_records_unknown && per_sec == 0.0 {
        "-".to_owned()
    } else {
        rate(per_sec)
    }
}

/// Details of a namespace that have no column: sizes, clients' rates, parts of the counts.
fn load_details(loads: &[&DeviceLoad]) -> String {
    let Some(first) = loads.first() else {
        return String::new();
    };
    let sum =
        |value_of: fn(&DeviceLoad) -> f64| loads.iter().map(|load| value_of(load)).sum::<f64>();
    let reads = sum(|load| load.reads_per_sec);
    let writes = sum(|load| load.writes_per_sec);
    let mut sentences = Vec::new();
    for (subject, rate, sizes) in [
        (
            "A read from the device is",
            reads,
            &first.read_sizes_pct_over,
        ),
        ("A record written is", writes, &first.write_sizes_pct_over),
    ] {
        if rate > 0.0 && !sizes.is_empty() {
            let (lower, upper) = mean_bytes(sizes);
            let lower = format::bytes(lower);
            let upper = format::bytes(upper);
            sentences.push(format!(
                "{subject} {lower} to {upper} on average, by the bucket edges of its histogram."
            ));
        }
    }
    sentences.push(format!(
        "A large block is {}: {}.",
        kib(first.large_block_bytes),
        first.origin.large_block
    ));
    if let (Some(client_reads), Some(client_writes)) =
        (first.client_reads_per_sec, first.client_writes_per_sec)
    {
        sentences.push(format!(
            "Clients sent {} reads/s and {} writes/s. {}{}",
            rate(client_reads),
            rate(client_writes),
            if first.is_memory {
                String::new()
            } else {
                read_before_update(reads, client_reads, client_writes)
            },
            if first.is_records_unknown {
                String::new()
            } else {
                replicated(writes, client_writes, first.replication_factor)
            },
        ));
    }
    if first.is_memory {
        let memory = "The records are in memory (storage-engine memory): the device is written to, but not read, except by \
                      a cold start.";
        sentences.push(memory.to_owned());
    }
    let tomb_raider = sum(|load| load.tomb_raider_reads_per_sec);
    if tomb_raider > 0.0 {
        sentences.push(format!(
            "The tomb raider reads {} blocks per second.",
            rate(tomb_raider)
        ));
    }
    if first.commit_to_device {
        sentences.push(
            "Each record is written separately (commit-to-device); only defragmentation writes blocks.".to_owned(),
        );
    } else if let Some(defrag) = loads
        .iter()
        .map(|load| load.defrag_writes_per_sec)
        .sum::<Option<f64>>()
    {
        sentences.push(format!(
            "Defragmentation causes {} block writes per second.",
            rate(defrag)
        ));
    }
    if let Some(partial) = loads
        .iter()
        .map(|load| load.partial_flushes_per_sec)
        .sum::<Option<f64>>()
        .filter(|n| *n >= 0.05)
    {
        sentences.push(format!(
            "{} flushes per second wrote blocks that were not full.",
            rate(partial)
        ));
    }
    sentences.join(" ")
}

/// Explains how many of the device's reads are caused by writes.
fn read_before_update(reads: f64, client_reads: f64, client_writes: f64) -> String {
    let client_ops = client_reads + client_writes;
    match reads {
        // Differences up to a percent need no explanation.
        _ if reads <= client_reads * 1.01 => {
            format!(
                "{} of the reads were answered from a cache. ",
                format::percent_whole(1.0 - (reads / client_reads).min(1.0))
            )
        }
        _ if reads <= client_ops * 1.01 => format!(
            "The device did {} reads/s more than the clients: a write reads its record first, unless it replaces the \
             record. If all writes read first, {} of all reads were answered from a cache. ",
            rate(reads - client_reads),
            format::percent_whole(1.0 - (reads / client_ops).min(1.0))
        ),
        _ => format!(
            "The device did {} reads/s more than clients' reads and writes together: replicas, batches, scans and \
             migrations also read. ",
            rate(reads - client_ops)
        ),
    }
}

/// Explains how many of the written records are copies.
fn replicated(writes: f64, client_writes: f64, factor: Option<u64>) -> String {
    let factor = factor
        .map(|factor| format!(" (replication factor {factor})"))
        .unwrap_or_default();
    match writes / client_writes {
        times if !times.is_finite() => String::new(),
        times if (times - 1.0).abs() <= 0.01 => {
            format!("Records are written once on this node{factor}.")
        }
        times => {
            format!(
                "The node writes {times:.2} times its clients' records, due to replicas and migrations{factor}."
            )
        }
    }
}

fn drives(profile: &Profile, configurations: &[TestConfiguration]) -> Table {
    let rows = reached_rows(profile, configurations);
    let rows = rows
        .into_iter()
        .map(|(drive, by, io)| [drive, by].into_iter().chain(io.numbers().map(rate)));
    Table::new("")
        .text(["drive", "by"])
        .numbers(NAMES)
        .rows(rows)
}

/// I/O of each drive, with the source of the numbers.
fn reached_rows(
    profile: &Profile,
    configurations: &[TestConfiguration],
) -> Vec<(String, String, DriveIo)> {
    let has_several_nodes = profile.nodes.len() > 1;
    let mut rows = Vec::new();
    for target in &profile.drives {
        let DriveTarget {
            node,
            drive,
            predicted,
            iostat,
            ..
        } = target;
        let by = match profile
            .loads_on(target)
            .find(|load| load.is_records_unknown)
        {
            Some(load) if load.reads_per_sec > 0.0 => {
                "the server's counters, without sizes of records"
            }
            Some(_) => "the server's counters, without reads of records",
            None => "the server's counters",
        };
        let name = if has_several_nodes {
            format!("{drive} ({node})")
        } else {
            drive.clone()
        };
        rows.push((name.clone(), by.to_owned(), *predicted));
        rows.extend(iostat.map(|seen| (name, "iostat, without flushes".to_owned(), seen)));
    }
    for TestConfiguration {
        test,
        namespace,
        requested_io,
        ..
    } in configurations
    {
        let place = if *test == Test::Index {
            "index device"
        } else {
            ""
        };
        rows.push((place.to_owned(), format!("{namespace}.conf"), *requested_io));
    }
    rows
}

fn checks(profile: &Profile) -> Table {
    let has_several_nodes = profile.nodes.len() > 1;
    let mut table = Table::new("")
        .text(["where", "what", "against"])
        .numbers(["found", "should be", "off, %", "allowed"])
        .text([""]);
    for check in &profile.checks {
        let ProfileCheck {
            node,
            place,
            what,
            against,
            found,
            least,
            most,
            allowed_pct,
            ..
        } = check;
        let range = if least == most {
            rate(*least)
        } else {
            format!("{} to {}", rate(*least), rate(*most))
        };
        let difference = format!("{:+.2}", check.residue_pct());
        let word = if check.holds() {
            "ok"
        } else {
            "DOES NOT BALANCE"
        };
        table.row([
            if has_several_nodes {
                format!("{place} ({node})")
            } else {
                place.clone()
            },
            what.clone(),
            against.clone(),
            rate(*found),
            range,
            difference,
            format!("{allowed_pct:.1}"),
            word.to_owned(),
        ]);
    }
    for Unconfirmed {
        node,
        drive,
        what,
        value,
    } in &profile.unconfirmed
    {
        let place = if has_several_nodes {
            format!("{drive} ({node})")
        } else {
            drive.clone()
        };
        let against = if profile.drives.iter().any(|it| it.iostat.is_some()) {
            "no iostat of this drive"
        } else {
            "no iostat"
        };
        let known = [place, what.clone(), against.to_owned(), rate(*value)];
        // Without a second number there is no deviation.
        table.row(
            known
                .into_iter()
                .chain(["-", "-", "-", NOT_CONFIRMED].map(str::to_owned)),
        );
    }
    table
}

/// A rate per second: without decimals from 1,000 on.
fn rate(value: f64) -> String {
    if value.abs() >= 1000.0 {
        format::number(value.round())
    } else {
        format!("{value:.1}")
    }
}
