//! `flashproof waf`: write amplification, modelled and measured; and the commands that set placement handles up.

mod drive;
mod experiment;
pub mod measure;
pub mod options;
pub mod request;

use crate::commands::waf::options::{
    OnDriveArgs, Waf, WafMeasureArgs, WafModelArgs, WafPrepArgs, WafSetupArgs,
};
use crate::configuration::read_tenants;
use crate::output::{done, show};
use crate::preparation::RandomWrites;
use device::discover;
use device::observe::nvme::fdp::{Fdp, FdpConfiguration, FdpState};
use device::observe::nvme::{Controller, Namespaces, NvmeNamespace};
use experiment::preparations;
use report::waf::WafReport;
use request::WafRequest;
use results::format::{self, bytes, count};
use results::waf::OCTILES_PER_FILL;
use session::console;
use session::failure::Failure;
use session::user_file::{check_page, write_page};
use std::path::Path;
use std::process::ExitCode;

pub fn run(command: &Waf) -> Result<ExitCode, Failure> {
    match command {
        Waf::Model(args) => model(args),
        Waf::Measure(args) => measure(args),
        Waf::Prep(args) => prep(args),
        Waf::Setup(args) => setup(args),
    }
}

/// Predicts the write amplification of a file's tenants on a simulated drive.
fn model(args: &WafModelArgs) -> Result<ExitCode, Failure> {
    let report = question(&args.on_drive)?.predict(&args.model)?;
    show_report(&args.on_drive, report, Ok(0))
}

/// Measures the write amplification of a file's tenants on a real drive, with a prediction next to it if requested.
fn measure(args: &WafMeasureArgs) -> Result<ExitCode, Failure> {
    let (report, result) = question(&args.on_drive)?.measure(&args.measurement)?;
    if report.arrangements.is_empty() {
        return result.map(ExitCode::from);
    }
    // Results before an early end are shown.
    show_report(&args.on_drive, report, result)
}

/// Compares preparations for random writes on a simulated drive.
fn prep(args: &WafPrepArgs) -> Result<ExitCode, Failure> {
    let random_writes = RandomWrites {
        over_provisioning: args.over_provisioning.0,
        block_bytes: args.block,
        cache_bytes: None,
    };
    args.form.html.as_deref().map(check_page).transpose()?;
    let comparison = preparations(&args.device, &random_writes, args.seed)?;
    show(
        &args.form,
        &comparison,
        || comparison.html(),
        || comparison.markdown(),
        || comparison.text(),
    )?;
    Ok(ExitCode::SUCCESS)
}

/// The request for the tenants of a file. Errors: a tenant has its own device, but the arrangement chooses the drives.
fn question(args: &OnDriveArgs) -> Result<WafRequest, Failure> {
    let (tenants, text) = read_tenants(&args.tenants)?;
    if let Some(tenant) = tenants
        .tenants
        .iter()
        .find(|tenant| tenant.device.is_some())
    {
        return Err(Failure::usage(format!(
            "cannot use the device of tenant {} - the arrangement assigns tenants to drives - remove the tenant's \
             \"device\", and name the drive by --device",
            format::quoted(&tenant.name)
        )));
    }
    args.html.as_deref().map(check_page).transpose()?;
    Ok(WafRequest {
        tenants,
        file: args.tenants.display().to_string(),
        text,
        arrange: args.arrange.clone(),
        fills_max: args.max_fills.into(),
        seed: args.seed,
        rating: args.rated,
    })
}

/// Prints `report` and writes its page. Returns the exit code in `result`, or 4 if an arrangement was never steady.
fn show_report(
    args: &OnDriveArgs,
    mut report: WafReport,
    result: Result<u8, Failure>,
) -> Result<ExitCode, Failure> {
    report.remarks.extend(report.about_latencies());
    // If one output fails, the other is still written.
    let print_result = if args.json {
        console::result(&crate::output::json(&report)?)
    } else {
        console::page(&report.text())
    };
    if let Some(path) = &args.html {
        write_page(path, &report.html())?;
    }
    print_result?;
    let code = result?;
    let not_steady: Vec<_> = report
        .arrangements
        .iter()
        .filter(|one| one.waf.is_none())
        .collect();
    for arranged in &not_steady {
        console::warning(&format!(
            "{} did not become steady within {} drive fills, and has no result - allow more (--max-fills, --duration)",
            arranged.arrangement,
            format::number(arranged.counted.completed_octiles() as f64 / OCTILES_PER_FILL as f64)
        ));
    }
    Ok(ExitCode::from(if not_steady.is_empty() || code != 0 {
        code
    } else {
        4
    }))
}

fn setup(args: &WafSetupArgs) -> Result<ExitCode, Failure> {
    let device = args.device.as_str();
    let page = setup_page(device).map_err(|why| {
        Failure::environment(format!(
            "cannot print commands to give {device} placement handles - {why}"
        ))
    })?;
    done(&page)
}

/// The page with the commands for `device`. Errors: why there is none.
fn setup_page(device: &str) -> Result<String, String> {
    let facts = discover::discover(device, Path::new("/")).map_err(|error| error.to_string())?;
    let fdp = Fdp::read(Path::new("/"), &facts).map_err(|why| format!("{why} - run as root"))?;
    let fdp = fdp.ok_or(
        "it is not an NVMe drive with FDP - name a drive for which `flashproof doctor` shows FDP",
    )?;
    let controller = facts
        .disk_number()
        .and_then(|number| Controller::find(Path::new("/"), number));
    let controller = controller.ok_or("its controller cannot be opened - run as root")?;
    let nsid = controller
        .nsid()
        .ok_or("sysfs does not show the number of the namespace - is sysfs mounted?")?;
    let namespaces = controller
        .namespaces()
        .map_err(|error| format!("{error} - run as root"))?;
    let path = format!("/dev/{}", controller.name());
    commands(&path, nsid, &fdp, &namespaces)
}

/// The page with the commands. Errors: why the drive cannot get placement handles.
fn commands(
    controller: &str,
    nsid: u32,
    fdp: &Fdp,
    namespaces: &Namespaces,
) -> Result<String, String> {
    let group = fdp.endurance_group;
    if fdp.why_no_handles().is_none() {
        return Ok(match fdp.unknown.first() {
            Some(unknown) => return Err(format!("cannot query {unknown} - run as root")),
            None => format!(
                "Nothing to do: FDP is on in endurance group {group}, and namespace {nsid} has {}.\n",
                count(fdp.placement.len() as u64, "placement handle")
            ),
        });
    }
    if !namespaces.can_manage {
        return Err(
            "the drive has no Namespace Management (OACS bit 3), and a namespace gets its handles at its creation - \
             look for a tool or firmware of the manufacturer; on QEMU's drives, set fdp.ruhs"
                .to_owned(),
        );
    }
    let configuration = fdp.configuration().or_else(|| best(&fdp.configurations));
    let configuration = configuration
        .ok_or("the drive has no valid FDP configuration - look for newer firmware")?;
    let handles = (configuration.handles.len() as u32).min(configuration.placement_handles_max);
    // While FDP is off, all namespaces of the group must be deleted; otherwise only the namespace that gets handles.
    let is_on = fdp.state != FdpState::Off;
    let deleted_namespaces: Vec<&NvmeNamespace> = namespaces
        .list
        .iter()
        .filter(|one| {
            if is_on {
                one.nsid == nsid
            } else {
                one.endurance_group == group
            }
        })
        .collect();
    if deleted_namespaces.is_empty() || deleted_namespaces.iter().any(|one| one.block_bytes == 0) {
        return Err(format!(
            "the drive does not report the size of namespace {nsid} - see `nvme id-ns`"
        ));
    }
    let count_text = count(deleted_namespaces.len() as u64, "namespace");
    let deleted_bytes = bytes(
        deleted_namespaces
            .iter()
            .map(|one| one.size_bytes())
            .sum::<u64>() as f64,
    );
    let deleted: String = deleted_namespaces
        .iter()
        .map(|one| delete(controller, one))
        .collect();
    let mut on_command = String::new();
    let mut off_command = String::new();
    if !is_on {
        let FdpConfiguration {
            index,
            reclaim_unit_bytes,
            ..
        } = configuration;
        let unit = bytes(*reclaim_unit_bytes as f64);
        let feature = format!("nvme fdp feature {controller} --endgrp-id={group}");
        on_command = format!(
            "# Turns FDP on in endurance group {group}: {handles} handles, reclaim unit {unit}. Erases nothing more.\n\
             {feature} --enable-conf-idx={index}\n\n"
        );
        off_command = format!("{feature} --disable\n\n");
    }
    let first = deleted_namespaces
        .iter()
        .position(|one| one.nsid == nsid)
        .unwrap_or(0);
    let list = (0..handles)
        .map(|handle| handle.to_string())
        .collect::<Vec<_>>()
        .join(",");
    let handle_options = format!(" --nphndls={handles} --phndls={list}");
    let mut create_with_handles = String::new();
    let mut create_again = String::new();
    for (at, one) in deleted_namespaces.iter().enumerate() {
        let options = if at == first { &*handle_options } else { "" };
        let id = namespaces.controller_id;
        create_with_handles += &create(controller, id, group, one, options);
        create_again += &create(controller, id, group, one, "");
    }
    Ok(format!(
        "# These commands ERASE {count_text} of {controller}, {deleted_bytes}: all that is on them.\n\
         # flashproof runs none of them. They need root and nvme-cli 2.8 or later (2.5 has no --endg-id).\n\
         # The drive must not be mounted or in use: `flashproof doctor` shows its users.\n\n\
         {deleted}{on_command}{create_with_handles}\
         # Show the result:\nnvme ns-rescan {controller}\nflashproof doctor\n\n\
         # Undo it all, which ERASES the same namespaces again:\n{deleted}{off_command}{create_again}nvme ns-rescan {controller}\n"
    ))
}

/// The valid configuration with the most handles; of several, the configuration with the smallest reclaim unit.
fn best(configurations: &[FdpConfiguration]) -> Option<&FdpConfiguration> {
    let valid = configurations
        .iter()
        .filter(|one| one.valid && !one.handles.is_empty());
    valid.max_by_key(|one| (one.handles.len(), std::cmp::Reverse(one.reclaim_unit_bytes)))
}

fn delete(controller: &str, namespace: &NvmeNamespace) -> String {
    format!(
        "# ERASES all of namespace {}, {}:\nnvme delete-ns {controller} --namespace-id={}\n\n",
        namespace.nsid,
        bytes(namespace.size_bytes() as f64),
        namespace.nsid
    )
}

fn create(
    controller: &str,
    id: u16,
    group: u16,
    namespace: &NvmeNamespace,
    options: &str,
) -> String {
    let NvmeNamespace {
        nsid,
        size_blocks,
        capacity_blocks,
        format,
        ..
    } = namespace;
    format!(
        "nvme create-ns {controller} --nsze={size_blocks} --ncap={capacity_blocks} --flbas={format} --endg-id={group}{options}\n\
         # If the command above prints another number than {nsid}, use that number here:\n\
         nvme attach-ns {controller} --namespace-id={nsid} --controllers={id:#x}\n\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use device::observe::nvme::fdp::{Isolation, PlacementHandle};

    fn configuration(
        index: u8,
        handles: usize,
        reclaim_unit_bytes: u64,
        valid: bool,
    ) -> FdpConfiguration {
        FdpConfiguration {
            index,
            valid,
            reclaim_unit_bytes,
            reclaim_groups: 1,
            handles: vec![Isolation::Initially; handles],
            placement_handles_max: 128,
            namespaces_max: 16,
        }
    }

    fn off() -> Fdp {
        let configurations = vec![
            configuration(0, 4, 1 << 30, true),
            configuration(1, 8, 6 << 30, true),
            configuration(2, 8, 1 << 30, true),
            configuration(3, 64, 1 << 30, false),
        ];
        Fdp {
            endurance_group: 1,
            state: FdpState::Off,
            configurations,
            ..Fdp::default()
        }
    }

    fn namespaces(can_manage: bool) -> Namespaces {
        let one = |nsid, endurance_group| NvmeNamespace {
            nsid,
            size_blocks: 1000 * u64::from(nsid),
            capacity_blocks: 900,
            format: 1,
            block_bytes: 4096,
            metadata_bytes: 0,
            endurance_group,
        };
        Namespaces {
            controller_id: 0x41,
            can_manage,
            list: vec![one(1, 1), one(2, 1), one(3, 2)],
        }
    }

    fn lines(page: &str) -> Vec<&str> {
        page.lines()
            .filter(|line| line.starts_with("nvme "))
            .collect()
    }

    #[test]
    fn turning_fdp_on_erases_the_whole_group_and_the_page_shows_how_to_undo_it() {
        let page = commands("/dev/nvme7", 2, &off(), &namespaces(true)).unwrap();
        let delete = [
            "nvme delete-ns /dev/nvme7 --namespace-id=1",
            "nvme delete-ns /dev/nvme7 --namespace-id=2",
        ];
        let create = |nsid: u32, handles: &str| {
            let size = 1000 * nsid;
            [
                format!(
                    "nvme create-ns /dev/nvme7 --nsze={size} --ncap=900 --flbas=1 --endg-id=1{handles}"
                ),
                format!("nvme attach-ns /dev/nvme7 --namespace-id={nsid} --controllers=0x41"),
            ]
        };
        let mut expected: Vec<String> = delete.map(str::to_owned).to_vec();
        expected.push("nvme fdp feature /dev/nvme7 --endgrp-id=1 --enable-conf-idx=2".to_owned());
        expected.extend(create(1, ""));
        expected.extend(create(2, " --nphndls=8 --phndls=0,1,2,3,4,5,6,7"));
        expected.push("nvme ns-rescan /dev/nvme7".to_owned());
        expected.extend(delete.map(str::to_owned));
        expected.push("nvme fdp feature /dev/nvme7 --endgrp-id=1 --disable".to_owned());
        expected.extend(create(1, "").into_iter().chain(create(2, "")));
        expected.push("nvme ns-rescan /dev/nvme7".to_owned());
        assert_eq!(lines(&page), expected);
        assert!(
            page.starts_with(
                "# These commands ERASE 2 namespaces of /dev/nvme7, 12.3 MB: all that is on them."
            ),
            "{page}"
        );
    }

    #[test]
    fn if_fdp_is_on_only_the_namespace_without_handles_is_deleted() {
        let on = Fdp {
            state: FdpState::On(0),
            ..off()
        };
        let page = commands("/dev/nvme7", 2, &on, &namespaces(true)).unwrap();
        let lines = lines(&page);
        assert_eq!(lines[0], "nvme delete-ns /dev/nvme7 --namespace-id=2");
        assert!(
            lines[1].ends_with(" --nphndls=4 --phndls=0,1,2,3"),
            "{page}"
        );
        assert!(
            !page.contains("fdp feature") && !page.contains("namespace-id=1\n"),
            "{page}"
        );
    }

    #[test]
    fn waf_setup_says_that_fdp_is_already_on_or_why_fdp_is_impossible() {
        let handle = PlacementHandle {
            placement_id: 0,
            reclaim_unit_handle: 0,
            reclaim_unit_blocks_left: 1,
        };
        let done = Fdp {
            state: FdpState::On(0),
            placement: vec![handle],
            ..off()
        };
        let page = commands("/dev/nvme7", 2, &done, &namespaces(true)).unwrap();
        assert!(
            page.starts_with("Nothing to do") && page.contains("1 placement handle"),
            "{page}"
        );
        let why = |fdp: &Fdp, namespaces| commands("/dev/nvme7", 2, fdp, &namespaces).unwrap_err();
        assert!(why(&off(), namespaces(false)).contains("OACS"));
        let invalid = Fdp {
            configurations: vec![configuration(0, 8, 1, false)],
            ..off()
        };
        assert!(why(&invalid, namespaces(true)).contains("no valid FDP configuration"));
        let unknown = Fdp {
            state: FdpState::On(0),
            unknown: vec!["the list: no permission".to_owned()],
            ..off()
        };
        assert!(why(&unknown, namespaces(true)).contains("no permission"));
        assert!(
            why(
                &off(),
                Namespaces {
                    list: Vec::new(),
                    ..namespaces(true)
                }
            )
            .contains("size of namespace 2")
        );
    }
}
