//! Maps tenants to drives, ranges and placement handles.

use crate::{SpaceSize, Tenant, TenantSpace, Tenants};
use engine::sim::{Flash, FtlDrive};
use ftl::Spec;
use load::choice::{Choice, Engine, choice};
use load::workload::CannotRun;
use results::format::{Grouped, quoted};
use std::ops::Range;
use std::str::FromStr;

choice! {
    /// How tenants share the flash.
    #[derive(serde::Serialize)]
    #[serde(rename_all = "lowercase")]
    Arrangement {
        /// A drive for each tenant, with a part of the flash in proportion to the tenant's space.
        #[default]
        Dedicated = "dedicated",
        /// A single drive without handles.
        Shared = "shared",
        /// A single drive with a placement handle per tenant, or with the handles that the tenants name.
        Fdp = "fdp",
    }
}

impl Arrangement {
    pub const ALL: [Self; 3] = [Self::Dedicated, Self::Shared, Self::Fdp];
}

impl FromStr for Arrangement {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::from_word(text).ok_or_else(|| {
            format!(
                "unknown arrangement {} - give dedicated, shared or fdp",
                quoted(text)
            )
        })
    }
}

#[derive(Debug, Clone)]
pub struct ArrangedDrive {
    /// A tenant's name, or `all`.
    pub name: String,
    pub drive: FtlDrive,
}

#[derive(Debug, Clone)]
pub struct Placed<'a> {
    pub tenant: &'a Tenant,
    pub drive: usize,
    pub range: Range<u64>,
    /// Handles of client writes and of defragmentation's writes, from 0.
    pub handles: [u16; 2],
}

#[derive(Debug, Clone)]
pub struct TenantLayout<'a> {
    /// At least one drive.
    pub drives: Vec<ArrangedDrive>,
    /// All tenants, also read-only ones: their data occupies the drive.
    pub tenants: Vec<Placed<'a>>,
}

impl<'a> TenantLayout<'a> {
    /// Errors: the tenants do not fit, or there are too few handles.
    pub fn new(
        arrangement: Arrangement,
        tenants: &'a Tenants,
        drive: &FtlDrive,
    ) -> Result<Self, CannotRun> {
        let spec = &drive.spec;
        check_writes(tenants)?;
        let mut placed = Vec::new();
        for (number, range) in tenants.layout("the drive", true, spec.logical_bytes)? {
            let tenant = &tenants.tenants[number];
            for (quantity, bytes) in [
                ("write block", tenant.write_block_bytes.into()),
                ("offset", range.start),
            ] {
                if !bytes.is_multiple_of(u64::from(spec.unit_bytes)) {
                    return Err(tenant.cannot(format_args!(
                        "its {quantity} of {} bytes is not a multiple of the drive's mapping unit of {} bytes, so parts of units \
                         would be written - choose a smaller unit (unit=) or another {quantity}",
                        Grouped(bytes),
                        Grouped(spec.unit_bytes.into())
                    )));
                }
            }
            placed.push((tenant, range));
        }
        Ok(match arrangement {
            Arrangement::Shared => {
                let mut drive = drive.clone();
                drive.spec.handles = 1;
                let handles = vec![[0; 2]; placed.len()];
                Self::on_one_drive(drive, placed, handles)
            }
            Arrangement::Fdp => {
                let handles = handles(tenants, spec.handles)?;
                Self::on_one_drive(drive.clone(), placed, handles)
            }
            Arrangement::Dedicated => {
                let total_bytes: u64 = placed
                    .iter()
                    .map(|(_, range)| range.end - range.start)
                    .sum();
                let mut layout = Self {
                    drives: Vec::new(),
                    tenants: Vec::new(),
                };
                for (number, (tenant, range)) in placed.into_iter().enumerate() {
                    let bytes = range.end - range.start;
                    layout.drives.push(ArrangedDrive {
                        name: tenant.name.clone(),
                        drive: part_of(drive, bytes, total_bytes),
                    });
                    layout.tenants.push(Placed {
                        tenant,
                        drive: number,
                        range: 0..bytes,
                        handles: [0; 2],
                    });
                }
                layout
            }
        })
    }

    fn on_one_drive(
        drive: FtlDrive,
        tenants: Vec<(&'a Tenant, Range<u64>)>,
        handles: Vec<[u16; 2]>,
    ) -> Self {
        Self {
            drives: vec![ArrangedDrive {
                name: "all".to_owned(),
                drive,
            }],
            tenants: tenants
                .into_iter()
                .zip(handles)
                .map(|((tenant, range), handles)| Placed {
                    tenant,
                    drive: 0,
                    range,
                    handles,
                })
                .collect(),
        }
    }

    /// The tenants as a configuration file would describe them, each with its drive, space and handles.
    pub fn tenants(&self) -> Tenants {
        Tenants {
            tenants: self
                .tenants
                .iter()
                .map(|placed: &Placed<'a>| {
                    let drive = &self.drives[placed.drive];
                    // A drive with one handle needs no placement.
                    let handle = |handle: u16| (drive.drive.spec.handles > 1).then_some(handle + 1);
                    Tenant {
                        device: Some(drive.name.clone()),
                        space: TenantSpace {
                            size: SpaceSize::Bytes(placed.range.end - placed.range.start),
                            at: Some(placed.range.start),
                        },
                        placement: handle(placed.handles[0]),
                        defrag_placement: handle(placed.handles[1]),
                        ..placed.tenant.clone()
                    }
                })
                .collect(),
            duration_sec: 1,
            seed: None,
            engine: Engine::Auto,
        }
    }

    pub fn unit_bytes(&self) -> u32 {
        self.drives[0].drive.spec.unit_bytes
    }
}

/// Refuses tenants if none of them writes.
pub fn check_writes(tenants: &Tenants) -> Result<(), CannotRun> {
    let why = "no tenant writes, so there is no write amplification - give a tenant writes-per-sec, or a mix with updates";
    let is_written = tenants
        .tenants
        .iter()
        .any(|tenant| !tenant.writes.is_zero());
    if is_written {
        Ok(())
    } else {
        Err(CannotRun(why.to_owned()))
    }
}

/// `tenants` with the placement handles that the file names. If it names none, each writing tenant gets a handle.
/// Errors: the drive has fewer handles than needed.
pub fn with_handles(tenants: &Tenants, drive_handles: u16) -> Result<Tenants, CannotRun> {
    let mut tenants = tenants.clone();
    let handles = handles(&tenants, drive_handles)?;
    for (tenant, [clients, defrag]) in tenants.tenants.iter_mut().zip(handles) {
        (tenant.placement, tenant.defrag_placement) = (Some(clients + 1), Some(defrag + 1));
    }
    Ok(tenants)
}

/// Handles of each tenant's client writes and defragmentation writes, from 0.
fn handles(tenants: &Tenants, drive_handles: u16) -> Result<Vec<[u16; 2]>, CannotRun> {
    let is_named = tenants
        .tenants
        .iter()
        .any(|one| one.placement.or(one.defrag_placement).is_some());
    // The file counts handles from 1. A tenant without a handle gets the first, as does a write without a handle.
    let from_1 = |placement: Option<u16>| placement.unwrap_or(1).max(1) - 1;
    let writers = tenants
        .tenants
        .iter()
        .filter(|tenant| !tenant.writes.is_zero())
        .count();
    let mut next_handle = 0..;
    let mut handles = Vec::new();
    for tenant in &tenants.tenants {
        handles.push(if is_named {
            [
                from_1(tenant.placement),
                from_1(tenant.defrag_placement.or(tenant.placement)),
            ]
        } else if tenant.writes.is_zero() {
            // A read-only tenant gets the handle after those of the writers, or shares the last handle.
            [writers.min(usize::from(drive_handles).saturating_sub(1)) as u16; 2]
        } else {
            [next_handle.next().unwrap_or(0); 2]
        });
    }
    match handles.iter().flatten().max() {
        Some(highest) if *highest >= drive_handles => {
            let remedy = if is_named {
                "name lower handles in the file, or give the drive more handles (handles=)"
            } else {
                "give the drive a handle for each tenant (handles=), name shared handles in the file, or leave fdp out of --arrange"
            };
            let needed = u32::from(*highest) + 1;
            Err(CannotRun(format!(
                "arrangement fdp needs {needed} placement handles - the drive has {drive_handles} - {remedy}"
            )))
        }
        _ => Ok(handles),
    }
}

/// The fraction `bytes` / `total_bytes` of `drive` as a separate drive, with this fraction of the flash, dies and write
/// buffer. Superblocks are smaller in the same proportion.
fn part_of(drive: &FtlDrive, bytes: u64, total_bytes: u64) -> FtlDrive {
    let FtlDrive { spec, flash, .. } = drive;
    let part = u128::from(bytes);
    let whole = u128::from(total_bytes);
    let scaled = |amount: u64| (u128::from(amount) * part / whole) as u64;
    let unit = u64::from(spec.unit_bytes);
    let stripe = u64::from(flash.program_bytes());
    let dies = scaled(flash.dies_total().into()).max(1) as u32;
    let (channels, dies) = if dies < flash.dies {
        (1, dies)
    } else {
        (dies / flash.dies, flash.dies)
    };
    FtlDrive {
        spec: Spec {
            logical_bytes: (scaled(spec.logical_bytes) / unit * unit).max(bytes),
            superblock_bytes: (scaled(spec.superblock_bytes) / stripe * stripe)
                .max(stripe.max(2 * unit)),
            handles: 1,
            ..spec.clone()
        },
        flash: Flash {
            channels,
            dies,
            // Room for two stripes: a partly filled stripe can wait while the drive programs the other.
            buffer_bytes: (scaled(flash.buffer_bytes) / stripe * stripe).max(2 * stripe),
            ..flash.clone()
        },
        ..drive.clone()
    }
}
