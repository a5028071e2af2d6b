//! A real drive to measure tenants on. The drive must count media writes, which is checked before the first write.

use device::discover::{DeviceFacts, discover};
use device::observe::nvme::fdp::Fdp;
use device::observe::nvme::{Controller, CounterSource};
use report::document::Pair;
use results::bytes_written::WrittenBytes;
use results::format::{bytes, count, in_one_line, printable, span_about};
use results::waf::OCTILES_PER_FILL;
use serde_json::Value;
use session::failure::Failure;
use std::path::Path;
use tenants::waf::{Arrangement, check_writes, with_handles};
use tenants::{StoreModel, Tenants};

/// Minimum seconds of a drive fill: counters are polled once a second, and each eighth must be distinguishable.
const FILL_SEC_MIN: f64 = OCTILES_PER_FILL as f64;

pub(super) struct MeasuredDrive {
    pub(super) facts: DeviceFacts,
    controller: Controller,
    counted_by: CounterSource,
    /// FDP state of the drive, or why it is unknown.
    fdp: Result<Option<Fdp>, String>,
    /// Bytes of all tenants' spaces, and bytes per second that the tenants write.
    spaces_bytes: u64,
    bytes_per_sec: f64,
}

impl MeasuredDrive {
    /// The drive at `path` for `tenants`. Errors: why it is unsuitable, and what to do.
    pub(super) fn from_path(path: &str, tenants: &Tenants) -> Result<Self, Failure> {
        let facts = discover(path, Path::new("/"))
            .map_err(|error| cannot_measure(path, &error.to_string()))?;
        if !facts.is_nvme() {
            return Err(cannot_measure(
                path,
                "it is not an NVMe drive, and other drives do not report media writes - name an NVMe drive, or a \
                 simulated drive: sim:ftl+...",
            ));
        }
        if facts.max_discard_bytes.unwrap_or(0) == 0 {
            return Err(cannot_measure(
                path,
                "it does not support discard (TRIM, deallocate), but every arrangement begins with a discard of the \
                 whole device - name another drive",
            ));
        }
        let gone = "the drive has no device number in the kernel - check that it is still there";
        let number = facts.number.ok_or_else(|| cannot_measure(path, gone))?;
        let controller = Controller::find(Path::new("/"), number)
            .ok_or_else(|| cannot_measure(path, "its controller cannot be opened - run as root"))?;
        let no_log = "it has no log with media writes (FDP statistics, OCP's SMART log); SMART has only host writes - \
                      look for newer firmware, or name another drive";
        let counters = controller.lifetime_bytes().map_err(|error| {
            let why = format!("its counters cannot be read: {error} - run as root");
            cannot_measure(path, &why)
        })?;
        let (_, counted_by) = counters.ok_or_else(|| cannot_measure(path, no_log))?;
        check_writes(tenants).map_err(Failure::usage)?;
        // Refuse impossible stores before anything is erased.
        let mut spaces_bytes = 0;
        let mut bytes_per_sec = 0.0;
        for (tenant_index, range) in tenants
            .layout(path, true, facts.size_bytes)
            .map_err(Failure::usage)?
        {
            let tenant = &tenants.tenants[tenant_index];
            let space_bytes = range.end - range.start;
            let block = u64::from(tenant.write_block_bytes);
            let host = StoreModel::new(tenant, space_bytes / block, 1).map_err(Failure::usage)?;
            spaces_bytes += space_bytes;
            bytes_per_sec +=
                tenant.client_blocks().per_sec_f64() * block as f64 * host.expected_engine_wa();
        }
        let fdp = Fdp::read(Path::new("/"), &facts);
        Ok(Self {
            facts,
            controller,
            counted_by,
            fdp,
            spaces_bytes,
            bytes_per_sec,
        })
    }

    /// True if `manifest_facts`, from a run's manifest, describe the same namespace.
    pub(super) fn is_same(&self, manifest_facts: &Value) -> bool {
        let own_facts = serde_json::to_value(&self.facts).unwrap_or_default();
        ["wwid", "serial", "nsid", "partition"]
            .iter()
            .all(|fact| manifest_facts[fact] == own_facts[fact])
    }

    /// Refuses a different device at the same path.
    pub(super) fn check_same(
        &self,
        opened_identity: Option<&str>,
        size_bytes: u64,
    ) -> Result<(), Failure> {
        let why = if opened_identity.is_none()
            || opened_identity != self.facts.identity().as_deref()
        {
            "another drive took its place - start again".to_owned()
        } else if size_bytes != self.facts.size_bytes {
            format!(
                "only {} of its {} are prepared for use (prep --use-pct), but a drive fill needs all of it - prepare \
                 it again, to 100 %",
                bytes(size_bytes as f64),
                bytes(self.facts.size_bytes as f64)
            )
        } else {
            return Ok(());
        };
        Err(cannot_measure(
            &self.facts.path,
            &format!("{why}; nothing was erased"),
        ))
    }

    pub(super) fn remarks(&self) -> Vec<String> {
        let mut remarks = vec![
            format!(
                "measured on {} in its present state, at the rates of the file: another drive, another fill or another \
                 rate gives another result",
                self.facts.path
            ),
            "all data on the drive are erased, also those of a preparation; `flashproof prep --restart` prepares it \
             for a test"
                .to_owned(),
        ];
        if let Some(part) = &self.facts.partition {
            remarks.push(format!(
                "the device is a partition, and the rest of /dev/{} affects the result: free space there acts as \
                 over-provisioning, and the drive's garbage collection also moves the data there",
                part.disk
            ));
        }
        remarks
    }

    /// Lifetime counters of the drive. Errors: the drive no longer reports these counters.
    pub(super) fn read_counters(&self) -> Result<WrittenBytes, String> {
        match self.controller.lifetime_bytes() {
            Ok(Some((bytes, by))) if by == self.counted_by => Ok(bytes),
            Ok(_) => Err(format!(
                "it no longer reports the counters of {}",
                self.counted_by
            )),
            Err(error) => Err(format!("its counters cannot be read: {error}")),
        }
    }

    /// `tenants` in an arrangement on this drive. Errors: why the arrangement is impossible.
    pub(super) fn arranged(
        &self,
        arrangement: Arrangement,
        tenants: &Tenants,
    ) -> Result<Tenants, String> {
        match arrangement {
            Arrangement::Dedicated => {
                Err("it needs a drive for each tenant, and this is a single drive - \"flashproof waf model --device \
                     sim:ftl+...\" predicts this arrangement"
                    .to_owned())
            }
            Arrangement::Shared => {
                let mut tenants = tenants.clone();
                tenants.tenants.iter_mut().for_each(|one| (one.placement, one.defrag_placement) = (None, None));
                Ok(tenants)
            }
            Arrangement::Fdp => match &self.fdp {
                Err(why) => Err(format!("its FDP state is unknown: {why} - run as root")),
                Ok(None) => Err("it has no FDP - name a drive with FDP".to_owned()),
                Ok(Some(fdp)) => match (fdp.why_no_handles(), fdp.placement.len()) {
                    (Some(why), _) => Err(format!(
                        "{why} - `flashproof waf setup {}` prints the commands that change it",
                        self.facts.path
                    )),
                    (None, 0) => Err(format!("cannot query {} - run as root", fdp.unknown.join(", "))),
                    (None, handles) => {
                        let handles = u16::try_from(handles).unwrap_or(u16::MAX);
                        with_handles(tenants, handles).map_err(|error| error.to_string())
                    }
                },
            },
        }
    }

    /// Reclaim units erased, if the drive counts them.
    pub(super) fn erases(&self, counted: WrittenBytes) -> Option<u64> {
        let fdp = self.fdp.as_ref().ok()?.as_ref()?;
        let unit = fdp.configuration()?.reclaim_unit_bytes;
        (self.counted_by == CounterSource::FdpStatistics)
            .then(|| counted.erased.checked_div(unit))?
    }

    /// Expected duration. Errors: the tenants write too fast to be measured.
    pub(super) fn pace(&self, fills_max: usize) -> Result<Pace, Failure> {
        let fill_sec = self.facts.size_bytes as f64 / self.bytes_per_sec;
        if fill_sec < FILL_SEC_MIN {
            return Err(Failure::usage(format!(
                "cannot measure each eighth of a drive fill on {} - at the file's rates a drive fill ({}) takes only \
                 {fill_sec:.1} s, but the drive's counters are read once per second - lower the rates, so that a drive \
                 fill takes {FILL_SEC_MIN} s or more",
                self.facts.path,
                bytes(self.facts.size_bytes as f64)
            )));
        }
        // 10 % and 60 s more than expected, because a stream may write slightly less than its rate.
        let seconds_max = (fill_sec * fills_max as f64 * 1.1 + 60.0).min(u32::MAX.into()) as u32;
        Ok(Pace {
            fill_sec,
            fills_max,
            seconds_max,
        })
    }

    pub(super) fn about(&self) -> Vec<Pair> {
        let start = "stores in long use; before each arrangement the whole device is deallocated, and the tenants' \
                     spaces are written once from end to end; no block is deallocated later";
        vec![
            Pair::new("drive", describe_drive(&self.facts)),
            Pair::new("counted by", self.counted_by.to_string()),
            Pair::new("start", start.to_owned()),
        ]
    }
}

pub(super) struct Pace {
    fill_sec: f64,
    fills_max: usize,
    /// Time that is enough for the maximum number of drive fills, seconds.
    pub seconds_max: u32,
}

impl Pace {
    pub(super) fn describe(
        &self,
        drive: &MeasuredDrive,
        arrangements: usize,
        duration_sec: Option<u32>,
    ) -> String {
        let Self {
            fill_sec,
            fills_max,
            ..
        } = self;
        let max_sec = fill_sec * *fills_max as f64;
        let bound_sec = duration_sec.map_or(max_sec, |duration| max_sec.min(f64::from(duration)));
        format!(
            "{}: for each of {}, {} are written once at full speed, then at {}/s: a drive fill in {}. The steady state \
             takes at least five fills, {}; an arrangement ends after {} at the latest",
            drive.facts.path,
            count(arrangements as u64, "arrangement"),
            bytes(drive.spaces_bytes as f64),
            bytes(drive.bytes_per_sec),
            span_about(*fill_sec),
            span_about(fill_sec * 5.0),
            span_about(bound_sec)
        )
    }
}

fn cannot_measure(path: &str, why: &str) -> Failure {
    Failure::environment(format!(
        "cannot measure write amplification on {path} - {why}"
    ))
}

fn describe_drive(
    DeviceFacts {
        path,
        model,
        serial,
        firmware,
        size_bytes,
        ..
    }: &DeviceFacts,
) -> String {
    let model = printable(model.as_deref().unwrap_or("unknown"));
    let serial = printable(serial.as_deref().unwrap_or("unknown"));
    let firmware = printable(firmware.as_deref().unwrap_or("unknown"));
    let path = in_one_line(path);
    let size = bytes(*size_bytes as f64);
    format!("{path}: {model}, serial {serial}, firmware {firmware}, {size}")
}
