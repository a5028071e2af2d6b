//! `flashproof storage` and `flashproof index`: one ACT test from its configuration to its verdict. This module also
//! replays a trace (`--replay`), and runs several record stores on one drive (`storage tenants`). Both are recorded and
//! judged like a test.
//!
//! Under the name `act_storage` or `act_index`, flashproof can replace that program in a script: it prints the same
//! log, has the same pacing and exit codes, and writes only requested files.

use crate::args::{StorageArgs, TestArgs};
use crate::commands::done;
use crate::configuration::{pace_as_act, read_tenants, read_test, read_trace};
use crate::record::record;
use act::ActWorkload;
use act::dialect::line_of;
use act::options::Test;
use act::staged::BaseLoad;
use engine::DeviceName;
use load::replay::{Replay, Trace, TraceBuilder};
use report::table::Table;
use results::units;
use session::failure::Failure;
use session::runner::NamedWorkload;
use session::{CompatMode, console, devices};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tenants::{StoreGeometry, Tenant, TenantLoad, Tenants};

pub fn run(test: Test, args: &TestArgs, compat_mode: CompatMode) -> Result<ExitCode, Failure> {
    let devices = devices::parsed(&args.device)?;
    let mut pages = Vec::new();
    let mut workloads = Vec::new();
    for (path, name) in args.configs.iter().zip(names(&args.configs)) {
        let (mut text, mut config) = read_test(test, path)?;
        if args.as_act
            || (compat_mode == CompatMode::Act && line_of(text.as_bytes(), "arrival").is_none())
        {
            pace_as_act(path, text.as_bytes(), &mut config)?;
        }
        if !devices.is_empty() {
            let base = BaseLoad::of_config(config, &devices).map_err(Failure::usages)?;
            (text, config) = (base.to_text(), base.config().clone());
        }
        config.test_duration_sec = args.duration.unwrap_or(config.test_duration_sec);
        let workload = ActWorkload::of(config).map_err(Failure::usages)?;
        let title = if name.is_empty() {
            String::new()
        } else {
            format!("{name}:\n")
        };
        pages.push(format!("{title}{}", workload.blocks()));
        workloads.push(NamedWorkload::new(name, workload, text));
    }
    if args.dry_run {
        pages.iter().try_for_each(|page| console::result(page))?;
        return Ok(ExitCode::SUCCESS);
    }
    if compat_mode == CompatMode::Act && workloads.len() > 1 {
        return Err(Failure::usage(format!(
            "cannot run {} configurations - act_{name} takes only one, as ACT's program does - use flashproof {name}",
            workloads.len(),
            name = test.name()
        )));
    }
    record(
        test.name(),
        args.record.out.as_deref(),
        args.request(workloads),
        compat_mode,
    )
}

/// Names to distinguish several configurations in the names of files and streams: the configurations' file names
/// without extension, with a number if two are equal. A single configuration has an empty name.
fn names(configs: &[PathBuf]) -> Vec<String> {
    if let [_] = configs {
        return vec![String::new()];
    }
    let stems: Vec<String> = configs.iter().map(|path| plain_stem(path)).collect();
    let mut names = Vec::new();
    for (place, stem) in stems.iter().enumerate() {
        let earlier = stems[..place].iter().filter(|earlier| *earlier == stem);
        names.push(match earlier.count() {
            0 => stem.clone(),
            earlier => format!("{stem}~{}", earlier + 1),
        });
    }
    names
}

/// The file name without extension and without characters that are special to a shell.
fn plain_stem(path: &Path) -> String {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    stem.replace(
        |c: char| !c.is_ascii_alphanumeric() && !matches!(c, '.' | '-' | '_'),
        "_",
    )
}

/// Reads and replays the trace.
pub fn replay(args: &StorageArgs) -> Result<ExitCode, Failure> {
    let options = &args.replay;
    let name = options.replay.as_deref().unwrap_or_default();
    let names = devices::parsed(&args.test.device)?;
    let trace = trace(name, options.speed)?;
    check_devices(name, &trace, &args.test.device)?;
    if trace.left_out > 0 {
        console::warning(&format!(
            "{name}: {} are left out, because a replay cannot repeat their type, such as passthrough or write zeroes",
            units::count(trace.left_out, "operation")
        ));
    }
    let workload =
        Replay::new(trace, names, options.repeat, options.fit).map_err(Failure::usage)?;
    let text = format!("trace: {name}\n{}", workload.describe());
    if args.test.dry_run {
        return done(&text);
    }
    console::note(text.trim_end());
    record(
        "replay",
        args.test.record.out.as_deref(),
        args.test.request(NamedWorkload::alone(workload, text)),
        CompatMode::Native,
    )
}

fn trace(name: &str, speed: load::factor::Factor) -> Result<Trace, Failure> {
    let mut builder = TraceBuilder::default();
    let mut failed = None;
    read_trace(name, &mut |request| {
        if failed.is_none() {
            failed = builder.add(&request).err();
        }
    })?;
    let trace = failed.map_or_else(|| builder.build(speed), Err);
    trace.map_err(|error| Failure::usage(format!("cannot replay {name} - {error}")))
}

/// Checks that each device of the trace has a target.
fn check_devices(name: &str, trace: &Trace, device_names: &[String]) -> Result<(), Failure> {
    let trace_devices = trace.devices();
    if let Some((_, twice)) = device_names
        .iter()
        .enumerate()
        .find(|(at, device)| device_names[..*at].contains(device))
    {
        return Err(Failure::usage(format!(
            "cannot replay {name} - --device {twice} is given twice - give each device once"
        )));
    }
    if trace_devices.len() == device_names.len() {
        return Ok(());
    }
    let mut device_texts = Vec::new();
    for device in &trace_devices {
        let streams = trace.streams_on(*device);
        let operations = streams.iter().map(|(_, group)| group.at_ns.len() as u64);
        device_texts.push(format!(
            "{} ({})",
            device.traced(),
            units::count(operations.sum(), "operation")
        ));
    }
    Err(Failure::usage(format!(
        "cannot replay {name} - the trace has {}: {}; --device names {} - give one --device for each, in this order, or \
         replay only the lines of one (grep)",
        units::count(trace_devices.len() as u64, "device"),
        device_texts.join(", "),
        device_names.len()
    )))
}

/// Assumed number of write blocks of a space of unknown size. The results hardly depend on it.
const BLOCKS_ASSUMED: u64 = 1_000_000;

/// Reads the file, and runs it.
pub fn tenants(args: &TestArgs) -> Result<ExitCode, Failure> {
    let (mut tenants, text) = read_tenants(&args.configs[0])?;
    tenants.duration_sec = args.duration.unwrap_or(tenants.duration_sec);
    let default_device = devices::parsed(&args.device)?.pop();
    let page = describe(&tenants, default_device.as_ref())?;
    if args.dry_run {
        return done(&page);
    }
    console::note(page.trim_end());
    let loads = TenantLoad::all(tenants, default_device.as_ref()).map_err(Failure::usage)?;
    let workloads = loads.into_iter().map(|load| {
        let name = load.tenant().name.clone();
        NamedWorkload::new(name, load, text.clone())
    });
    record(
        "tenants",
        args.record.out.as_deref(),
        args.request(workloads.collect()),
        CompatMode::Native,
    )
}

/// Table of the tenants' loads, and the effect of their fill.
///
/// Errors: a store that would be invalid on every device.
fn describe(tenants: &Tenants, default_device: Option<&DeviceName>) -> Result<String, Failure> {
    let mut table = Table::new("").text(["tenant", "on"]).numbers([
        "write block",
        "reads/s",
        "writes/s",
        "client blocks/s",
        "defrag blocks/s",
        "MB/s written",
        "engine WA",
        "fill",
        "at most",
    ]);
    let mut has_uneven_keys = false;
    for (tenant_index, tenant) in tenants.tenants.iter().enumerate() {
        let steady = StoreGeometry::of(tenant, blocks(tenants, tenant_index, default_device)?)
            .map_err(Failure::usage)?;
        steady.check_fill(tenant).map_err(Failure::usage)?;
        let client = tenant.client_blocks().per_sec_f64();
        let waf = steady.engine_wa();
        let device_name = tenant
            .device
            .as_deref()
            .or(default_device.map(DeviceName::as_str))
            .unwrap_or("-");
        has_uneven_keys |= tenant.keys != load::keys::Keys::Uniform;
        table.row([
            tenant.name.clone(),
            units::printable(device_name).into_owned(),
            format!("{} KiB", tenant.write_block_bytes >> 10),
            units::number(tenant.reads.per_sec_f64()),
            units::number(tenant.writes.per_sec_f64()),
            units::number(client),
            units::number(client * (waf - 1.0)),
            units::number(client * waf * f64::from(tenant.write_block_bytes) / 1e6),
            units::number(waf),
            units::percent(tenant.fill),
            units::percent(steady.fill_max),
        ]);
    }
    let mut text = format!("{table}\n");
    text += "\"engine WA\": bytes that the store writes for each byte of its clients. \"at most\": the fill at which \
             uniform updates run out of blocks.\n";
    if has_uneven_keys {
        text += "Both numbers assume uniform keys. For other keys, a run computes and shows the numbers when \
                 it begins.\n";
    }
    text += "A run begins as if the spaces had been in use for a long time.\n";
    Ok(text)
}

/// Number of write blocks in a tenant's space. The number is assumed if only an opened device would show the space's
/// size.
///
/// Errors: the space does not exist, or overlaps another tenant's space.
fn blocks(
    tenants: &Tenants,
    tenant_index: usize,
    default_device: Option<&DeviceName>,
) -> Result<u64, Failure> {
    let tenant: &Tenant = &tenants.tenants[tenant_index];
    let own_device: Option<DeviceName> = tenant.device.as_ref().and_then(|name| name.parse().ok());
    let device = own_device.as_ref().or(default_device);
    let Some((device, drive)) = device.and_then(|device| Some((device, device.drive()?))) else {
        return Ok(BLOCKS_ASSUMED);
    };
    let layout = tenants.layout(
        device.as_str(),
        Some(device) == default_device,
        drive.capacity_bytes,
    );
    let range = layout
        .map_err(Failure::usage)?
        .into_iter()
        .find(|(own, _)| *own == tenant_index)
        .map(|(_, range)| range);
    Ok(range.map_or(BLOCKS_ASSUMED, |range| {
        (range.end - range.start) / u64::from(tenant.write_block_bytes)
    }))
}
