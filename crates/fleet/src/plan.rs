//! The plan: the drive of each task, fixed by the first start, and the number of concurrent tasks.

use crate::campaign::{CampaignConfig, CampaignStep, PlannedDrive};
use crate::inventory::{DriveHost, DriveState, Inventory, InventoryDrive, host_text};
use crate::journal::LOCK;
use crate::{FILE_BYTES_MAX, failed};
use report::table::Table;
use results::files::{self, Instructions, Links, ReplaceTarget};
use results::format::{count, quoted, span};
use serde::{Deserialize, Serialize};
use session::clock::now_unix_ms;
use session::failure::Failure;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

pub const PLAN: &str = "plan.json";

/// Version of the format, increased when a field changes its meaning.
const PLAN_VERSION: u32 = 1;

pub(crate) const RESULTS: &str = "out";

const CANCELLED: &str = "cancelled";

/// Content of the plan file, fixed by the first start. Task N is `drives[N]`.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct PlanFile {
    format_version: u32,
    /// Distinguishes campaigns of the same name in the scheduler's jobs.
    id: String,
    /// Names and command lines of the steps, in order.
    steps: Vec<(String, Vec<String>)>,
    drives: Vec<PlannedDrive>,
}

#[derive(Debug, Clone)]
pub struct CampaignPlan {
    pub dir: PathBuf,
    /// Empty until the first start.
    pub id: String,
    pub campaign: CampaignConfig,
    pub drives: Vec<PlannedDrive>,
    /// Matching drives that are left out because they are in use; empty after the start.
    pub in_use: Vec<InventoryDrive>,
}

impl CampaignPlan {
    /// Reads the campaign in `dir`, with the drives fixed at its start, or the drives that a start would fix now.
    /// Changes nothing. Errors: a mistake in campaign or inventories; steps that differ from those of the start.
    pub fn read(
        dir: &Path,
        check: &dyn Fn(&[String]) -> Result<(), String>,
    ) -> Result<Self, Failure> {
        let campaign = CampaignConfig::read(dir, check)?;
        let plan = match read_plan_file(dir)? {
            Some(plan_file) => Self::resumed(dir, campaign, plan_file)?,
            None => {
                let (drives, in_use) = campaign.select(&Inventory::read_all(dir)?)?;
                Self {
                    dir: dir.to_owned(),
                    id: String::new(),
                    campaign,
                    drives,
                    in_use,
                }
            }
        };
        plan.check_together()?;
        Ok(plan)
    }

    /// Checks that all tasks can run at once if a step begins on all drives together.
    fn check_together(&self) -> Result<(), Failure> {
        let Some(step) = self
            .campaign
            .steps
            .iter()
            .find(|step| step.together_sec.is_some())
        else {
            return Ok(());
        };
        let shares = self.shares();
        let at_once: u64 = shares.values().map(|share| u64::from(share.at_once)).sum();
        if at_once == self.drives.len() as u64
            && shares.values().all(|share| share.waits_for.is_empty())
        {
            return Ok(());
        }
        Err(Failure::usage(format!(
            "cannot begin the step {} together on {} - the limits let only {at_once} run at once, and the others would \
             wait for ever - raise per_host, total and at_once of the domains, or choose fewer drives",
            step.name,
            count(self.drives.len() as u64, "drive")
        )))
    }

    /// Fixes the drives and steps on disk, unless an earlier start did.
    pub fn start(self) -> Result<Self, Failure> {
        if !self.id.is_empty() {
            return Ok(self);
        }
        let plan_file = PlanFile {
            format_version: PLAN_VERSION,
            id: format!("{:x}-{:x}", now_unix_ms(), std::process::id()),
            steps: step_commands(&self.campaign),
            drives: self.drives,
        };
        let path = self.dir.join(PLAN);
        let text = serde_json::to_string_pretty(&plan_file).map_err(Failure::environment)? + "\n";
        // If the file exists, another start came first: use its drives.
        if let Err(error) = files::replace(&path, text.as_bytes(), ReplaceTarget::NewFile)
            && error.kind() != ErrorKind::AlreadyExists
        {
            let advice = "put the campaign on a disk that all hosts can write";
            return Err(failed(
                format!("cannot write {}", path.display()),
                &error,
                advice,
            ));
        }
        Self::resumed(
            &self.dir,
            self.campaign,
            read_plan_file(&self.dir)?.ok_or_else(|| {
                Failure::environment(format!(
                    "cannot read {} - it was removed during the start - start again",
                    path.display()
                ))
            })?,
        )
    }

    fn resumed(dir: &Path, campaign: CampaignConfig, plan_file: PlanFile) -> Result<Self, Failure> {
        let commands = step_commands(&campaign);
        let changed_step = plan_file
            .steps
            .iter()
            .zip(&commands)
            .find(|(then, now)| then != now)
            .map(|((name, _), _)| name.clone());
        let changed_step = changed_step.or_else(|| {
            (plan_file.steps.len() != commands.len()).then(|| "their number".to_owned())
        });
        if let Some(what) = changed_step {
            return Err(Failure::usage(format!(
                "cannot resume the campaign in {} - its steps have changed since it began ({what}), and results of \
                 different steps cannot be compared - restore the steps, or begin a campaign in another directory",
                dir.display()
            )));
        }
        Ok(Self {
            dir: dir.to_owned(),
            id: plan_file.id,
            campaign,
            drives: plan_file.drives,
            in_use: Vec::new(),
        })
    }

    pub fn task_dir(&self, index: usize) -> PathBuf {
        self.dir.join("tasks").join(format!("{index:04}"))
    }

    pub fn results_dir(&self, index: usize, step: &str) -> PathBuf {
        self.task_dir(index).join(step).join(RESULTS)
    }

    /// File whose existence tells all tasks to end.
    pub(crate) fn cancel_mark(&self) -> PathBuf {
        self.dir.join(CANCELLED)
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancel_mark().exists()
    }

    pub fn by_host(&self) -> BTreeMap<DriveHost, Vec<usize>> {
        let mut hosts: BTreeMap<DriveHost, Vec<usize>> = BTreeMap::new();
        for (index, drive) in self.drives.iter().enumerate() {
            hosts.entry(drive.host.clone()).or_default().push(index);
        }
        hosts
    }

    /// Divides the limits among the hosts.
    pub fn shares(&self) -> BTreeMap<DriveHost, Share> {
        let CampaignConfig {
            limits, domains, ..
        } = &self.campaign;
        let mut shares = BTreeMap::new();
        for (host, tasks) in self.by_host() {
            let task_count = u32::try_from(tasks.len()).unwrap_or(u32::MAX);
            let share = Share {
                at_once: limits.per_host.min(task_count),
                waits_for: Vec::new(),
            };
            shares.insert(host, share);
        }
        for domain in domains {
            divide(&mut shares, domain.at_once, |host| {
                host.as_ref()
                    .is_some_and(|name| domain.hosts.contains(name))
            });
        }
        if let Some(total) = limits.total {
            // Simulated drives have no host: they are one array with its own limit.
            divide(&mut shares, total, |_| true);
        }
        shares
    }

    /// The plan for people: the drives of each host, how many run at once, and for how long.
    pub fn text(&self) -> String {
        let tasks = self.by_host();
        let shares = self.shares();
        let drive_sec: u64 = self
            .campaign
            .steps
            .iter()
            .map(|step| u64::from(step.limit_sec))
            .sum();
        let mut table = Table::new("")
            .text(["HOST"])
            .numbers(["DRIVES", "AT ONCE"])
            .text(["STARTS", "AT MOST"]);
        let mut ends_sec: BTreeMap<&DriveHost, u64> = BTreeMap::new();
        for (host, share) in &shares {
            let tasks = tasks.get(host).map_or(0, Vec::len);
            let begin_sec = share
                .waits_for
                .iter()
                .filter_map(|before| ends_sec.get(before))
                .max()
                .copied()
                .unwrap_or(0);
            let duration_sec = (tasks as u64).div_ceil(u64::from(share.at_once)) * drive_sec;
            ends_sec.insert(host, begin_sec + duration_sec);
            let predecessors: Vec<_> = share.waits_for.iter().map(host_text).collect();
            let starts = if predecessors.is_empty() {
                "now".to_owned()
            } else {
                format!("after {}", predecessors.join(", "))
            };
            table.row([
                host_text(host).to_owned(),
                tasks.to_string(),
                share.at_once.to_string(),
                starts,
                span(duration_sec),
            ]);
        }
        let mut text = format!(
            "campaign {}: {} on {}\n\n",
            self.campaign.name,
            count(self.drives.len() as u64, "drive"),
            count(tasks.len() as u64, "host")
        );
        for CampaignStep {
            name,
            words,
            limit_sec,
            ..
        } in &self.campaign.steps
        {
            let _ = writeln!(
                text,
                "  {name:<12} flashproof {}   at most {}",
                words.join(" "),
                span(u64::from(*limit_sec))
            );
        }
        let _ = writeln!(
            text,
            "\n{table}\nthe whole campaign: at most {}",
            span(ends_sec.values().max().copied().unwrap_or(0))
        );
        let unconfirmed = self.drives.iter().map(|planned| &planned.drive);
        let unconfirmed: Vec<_> = unconfirmed
            .filter(|drive| {
                drive.state == DriveState::HasData && !self.campaign.erase.contains(&drive.id)
            })
            .map(|drive| quoted(&drive.id))
            .collect();
        if !unconfirmed.is_empty() {
            let _ = writeln!(
                text,
                "\n{} with data and without consent; steps that erase will be refused. If all this data may be erased, \
                 write:\n\
                 [consent]\nerase = [{}]",
                count(unconfirmed.len() as u64, "drive"),
                unconfirmed.join(", ")
            );
        }
        for drive in &self.in_use {
            let why = drive.why.as_deref().unwrap_or("no reason given");
            let _ = writeln!(text, "left out: {} is in use: {why}", drive.id);
        }
        let unknown = self
            .campaign
            .erase
            .iter()
            .filter(|id| self.drives.iter().all(|planned| planned.drive.id != **id));
        for id in unknown {
            let _ = writeln!(
                text,
                "[consent] lists {}, which is no drive of this campaign",
                quoted(id)
            );
        }
        text
    }

    /// The lock of `fleet run`: concurrent starts submit one after the other.
    pub fn lock(&self) -> Result<File, Failure> {
        let locked = files::open_to_append(&self.dir.join(LOCK), files::SHARED).and_then(|file| {
            rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive)?;
            Ok(file)
        });
        locked.map_err(|error| {
            let advice = "put the campaign on a file system with locks";
            failed(
                format!("cannot lock the campaign {}", self.dir.display()),
                &error,
                advice,
            )
        })
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Share {
    pub at_once: u32,
    /// Hosts whose tasks must end before the tasks of this host begin.
    pub waits_for: Vec<DriveHost>,
}

/// Lowers the shares of the hosts for which `is_member` is true, until at most `limit` tasks run at once. If there are
/// more hosts than `limit`, the hosts form `limit` queues, and the hosts of a queue run one after the other.
fn divide(
    shares: &mut BTreeMap<DriveHost, Share>,
    limit: u32,
    is_member: impl Fn(&DriveHost) -> bool,
) {
    let hosts: Vec<DriveHost> = shares
        .keys()
        .filter(|host| is_member(host))
        .cloned()
        .collect();
    let lanes = (limit as usize).min(hosts.len());
    if lanes == 0 {
        return;
    }
    let mut sum: u64 = hosts
        .iter()
        .map(|host| u64::from(shares[host].at_once))
        .sum();
    while sum > u64::from(limit) {
        let largest = hosts.iter().max_by_key(|host| shares[*host].at_once);
        let Some(share) = largest
            .and_then(|host| shares.get_mut(host))
            .filter(|share| share.at_once > 1)
        else {
            break;
        };
        share.at_once -= 1;
        sum -= 1;
    }
    for (before, behind) in hosts.iter().zip(&hosts[lanes..]) {
        if let Some(share) = shares
            .get_mut(behind)
            .filter(|share| !share.waits_for.contains(before))
        {
            share.waits_for.push(before.clone());
        }
    }
}

fn step_commands(campaign: &CampaignConfig) -> Vec<(String, Vec<String>)> {
    campaign
        .steps
        .iter()
        .map(|step| (step.name.clone(), step.words.clone()))
        .collect()
}

/// The plan in `dir`; `None` before the start.
fn read_plan_file(dir: &Path) -> Result<Option<PlanFile>, Failure> {
    let path = dir.join(PLAN);
    let bytes =
        match files::read_instructions(&path, Links::Refused, Instructions::Data, FILE_BYTES_MAX) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            bytes => bytes.map_err(|error| {
                failed(
                    format!("cannot read the plan {}", path.display()),
                    &error,
                    "check the file",
                )
            })?,
        };
    let why = match serde_json::from_slice::<PlanFile>(&bytes) {
        Ok(plan_file) if plan_file.format_version == PLAN_VERSION => return Ok(Some(plan_file)),
        Ok(plan_file) => format!(
            "its format version is {}, but this flashproof reads version {PLAN_VERSION}",
            plan_file.format_version
        ),
        Err(error) => error.to_string(),
    };
    Err(Failure::environment(format!(
        "{}: {why} - restore it from a backup, or begin the campaign in another directory",
        path.display()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use results::assert_contains;

    fn shares(hosts: &[(&str, u32)]) -> BTreeMap<DriveHost, Share> {
        hosts
            .iter()
            .map(|&(name, at_once): &(&str, u32)| {
                (
                    Some(name.to_owned()),
                    Share {
                        at_once,
                        waits_for: Vec::new(),
                    },
                )
            })
            .collect()
    }

    #[test]
    fn a_limit_is_divided_among_hosts_and_never_exceeded() {
        let mut some = shares(&[("a", 4), ("b", 4), ("c", 1)]);
        divide(&mut some, 6, |_| true);
        let found = some.values().map(|share| share.at_once).collect::<Vec<_>>();
        assert_eq!(found, [3, 2, 1]);
        assert!(some.values().all(|share| share.waits_for.is_empty()));
        let mut more = shares(&[("a", 2), ("b", 2), ("c", 2), ("d", 2), ("e", 2)]);
        divide(&mut more, 2, |host| host_text(host) != "e");
        let lanes: Vec<Vec<&str>> = more
            .values()
            .map(|share| share.waits_for.iter().map(host_text).collect())
            .collect();
        assert_eq!(lanes, [vec![], vec![], vec!["a"], vec!["b"], vec![]]);
        let found = more.values().map(|share| share.at_once).collect::<Vec<_>>();
        assert_eq!(found, [1, 1, 1, 1, 2]);
    }

    fn campaign(drives: u32, text: &str) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        Inventory::simulated("sim:", drives)
            .unwrap()
            .write(dir.path())
            .unwrap();
        std::fs::write(
            dir.path().join("campaign.toml"),
            format!("name = \"x\"\n{text}"),
        )
        .unwrap();
        dir
    }

    fn read(dir: &Path) -> Result<CampaignPlan, String> {
        CampaignPlan::read(dir, &|_| Ok(())).map_err(|failure| failure.message)
    }

    const STEP: &str =
        "[[step]]\nname = \"a\"\nrun = \"certify {drive} --out {out}\"\nlimit = \"1h\"\n";

    #[test]
    fn the_first_start_fixes_drives_and_steps_for_every_later_one() {
        let dir = campaign(2, STEP);
        let one = read(dir.path()).unwrap();
        let other = read(dir.path()).unwrap();
        let one = one.start().unwrap();
        Inventory::simulated("sim:", 3)
            .unwrap()
            .write(dir.path())
            .unwrap();
        assert_eq!(
            other.start().unwrap().id,
            one.id,
            "a second start at the same time"
        );
        assert_eq!(read(dir.path()).unwrap().drives, one.drives);
        std::fs::write(
            dir.path().join("campaign.toml"),
            format!("name = \"x\"\n{STEP}{}", STEP.replace("\"a\"", "\"b\"")),
        )
        .unwrap();
        assert_contains!(
            read(dir.path()).unwrap_err(),
            "changed since it began (their number)"
        );
    }

    #[test]
    fn a_step_of_all_drives_needs_room_for_all_of_them() {
        let step = format!("{STEP}together = \"9s\"\n");
        for (limits, is_room) in [
            ("[limits]\nper_host = 3\n", true),
            ("[limits]\nper_host = 2\n", false),
            ("[limits]\nper_host = 3\ntotal = 2\n", false),
        ] {
            let plan = read(campaign(3, &format!("{step}{limits}")).path());
            assert_eq!(
                plan.as_ref()
                    .err()
                    .is_none_or(|why| !why.contains("would wait for ever")),
                is_room,
                "{limits}"
            );
        }
        let domain = "[[domain]]\nname = \"rack\"\nhosts = [\"n1\", \"n2\"]\nat_once = 1\n";
        let mut plan = read(campaign(2, &format!("{STEP}{domain}")).path()).unwrap();
        plan.drives
            .iter_mut()
            .zip(["n1", "n2"])
            .for_each(|(drive, host)| drive.host = Some(host.to_owned()));
        assert_eq!(
            plan.shares()[&Some("n2".to_owned())].waits_for,
            [Some("n1".to_owned())]
        );
        // Two tasks may run at once, but one host waits for the other.
        plan.campaign.steps[0].together_sec = Some(9);
        assert!(plan.check_together().is_err());
    }
}
