//! `flashproof storage tenants FILE`: record stores that share a drive, each recorded and judged like any other load.

use crate::args::TenantsArgs;
use engine::DeviceName;
use load::workload::tenants::{Steady, Tenant, TenantLoad, Tenants};
use procedures::configuration::read_tenants;
use report::table::Table;
use results::units;
use session::Manner;
use session::console;
use session::devices;
use session::failure::Failure;
use session::record::record;
use session::runner::Named;
use std::process::ExitCode;

/// Assumed blocks of a space of unknown size; the results hardly depend on it.
const BLOCKS_ASSUMED: u64 = 1_000_000;

/// Reads the file, and runs it.
pub fn run(args: &TenantsArgs) -> Result<ExitCode, Failure> {
    let (mut tenants, text) = read_tenants(&args.test.configs[0])?;
    tenants.duration_sec = args.test.duration.unwrap_or(tenants.duration_sec);
    let default = devices::parsed(&args.test.device)?.pop();
    let page = describe(&tenants, default.as_ref())?;
    if args.test.dry_run {
        console::result(&page)?;
        return Ok(ExitCode::SUCCESS);
    }
    console::note(page.trim_end());
    let loads = TenantLoad::all(tenants, default.as_ref()).map_err(Failure::usage)?;
    let named =
        loads.into_iter().map(|workload| Named { name: workload.tenant().name.clone(), workload, text: text.clone() });
    record("tenants", args.test.record.out.as_deref(), args.test.request(named.collect()), Manner::Own)
}

/// Table of the tenants' loads, and the effect of their fill.
///
/// Errors: a store that is invalid on any device.
fn describe(tenants: &Tenants, default: Option<&DeviceName>) -> Result<String, Failure> {
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
    let mut uneven = false;
    for (place, tenant) in tenants.tenants.iter().enumerate() {
        let steady = Steady::of(tenant, blocks(tenants, place, default)?).map_err(Failure::usage)?;
        steady.check_fill(tenant).map_err(Failure::usage)?;
        let (client, waf) = (tenant.client_blocks().per_sec_f64(), steady.engine_wa());
        let on = tenant.device.as_deref().or(default.map(DeviceName::as_str)).unwrap_or("-");
        uneven |= tenant.keys != load::keys::Keys::Uniform;
        table.row([
            tenant.name.clone(),
            units::printable(on).into_owned(),
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
    text += "Engine WA: what the store writes for each byte of its clients. At most: the fill at which uniform updates run out of blocks.\n";
    if uneven {
        text += "Both are those of uniform keys; what other keys make of them shows when the store is modelled, at the start of a run.\n";
    }
    text += "The spaces count as in use for long when the run begins.\n";
    Ok(text)
}

/// Write blocks of a tenant, if its space is known without opening a device.
///
/// Errors: the space does not exist, or overlaps another tenant's.
fn blocks(tenants: &Tenants, place: usize, default: Option<&DeviceName>) -> Result<u64, Failure> {
    let tenant: &Tenant = &tenants.tenants[place];
    let own: Option<DeviceName> = tenant.device.as_ref().and_then(|name| name.parse().ok());
    let device = own.as_ref().or(default);
    let Some((device, drive)) = device.and_then(|device| Some((device, device.drive()?))) else {
        return Ok(BLOCKS_ASSUMED);
    };
    let layout = tenants.layout(device.as_str(), Some(device) == default, drive.capacity_bytes);
    let range = layout.map_err(Failure::usage)?.into_iter().find(|(own, _)| *own == place).map(|(_, range)| range);
    Ok(range.map_or(BLOCKS_ASSUMED, |range| (range.end - range.start) / u64::from(tenant.write_block_bytes)))
}
