//! `flashproof storage tenants`: record stores that share a drive, with a verdict for each.

use crate::commands::storage::options::TestArgs;
use crate::configuration::read_tenants;
use crate::output::done;
use crate::record::record;
use engine::DeviceName;
use report::table::Table;
use results::format;
use session::failure::Failure;
use session::runner::NamedWorkload;
use session::{CompatMode, console, devices};
use std::process::ExitCode;
use tenants::{StoreGeometry, Tenant, TenantLoad, Tenants};

/// Assumed number of write blocks of a space of unknown size. The results hardly depend on it.
const BLOCKS_ASSUMED: u64 = 1_000_000;

pub fn run(args: &TestArgs) -> Result<ExitCode, Failure> {
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
        &args.form,
        args.request(workloads.collect()),
        CompatMode::Native,
    )
}

/// Table of the tenants' loads, and the effect of their fill. Errors: a store that would be invalid on every device.
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
        let steady = StoreGeometry::new(tenant, blocks(tenants, tenant_index, default_device)?)
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
            format::printable(device_name).into_owned(),
            format!("{} KiB", tenant.write_block_bytes >> 10),
            format::number(tenant.reads.per_sec_f64()),
            format::number(tenant.writes.per_sec_f64()),
            format::number(client),
            format::number(client * (waf - 1.0)),
            format::number(client * waf * f64::from(tenant.write_block_bytes) / 1e6),
            format::number(waf),
            format::percent(tenant.fill),
            format::percent(steady.fill_max),
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
/// size. Errors: the space does not exist, or overlaps another tenant's space.
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
