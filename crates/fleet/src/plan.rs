//! The plan: drives and steps, fixed by the first start, and the number of concurrent tasks. A start reads the campaign
//! file and writes the plan file. Tasks, status, report and export read the plan file, so that they work even if the
//! campaign file no longer parses. Of the campaign file, tasks read only the erase consents.

use crate::campaign::{CAMPAIGN, CampaignConfig, CampaignStep, Slurm, is_name, name_commands};
use crate::inventory::{DriveHost, DriveState, Inventory, InventoryDrive, host_text};
use crate::journal::LOCK;
use crate::select::PlannedDrive;
use crate::{FILE_BYTES_MAX, failed};
use report::table::Table;
use results::files::{self, Instructions, Links, ReplaceTarget};
use results::format::{count, first_names, in_one_line, quoted, span};
use serde::{Deserialize, Serialize};
use session::clock::now_unix_ms;
use session::console;
use session::failure::Failure;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

pub const PLAN: &str = "plan.json";

/// Version of the format, increased when a field changes its meaning.
const PLAN_VERSION: u32 = 2;

pub(crate) const RESULTS: &str = "out";

const CANCELLED: &str = "cancelled";

/// Content of the plan file. Task N is `drives[N]`. Version 1 has only the names and arguments of steps, as arrays.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct PlanFile {
    format_version: u32,
    /// Distinguishes campaigns of the same name in the scheduler's jobs.
    id: String,
    #[serde(default)]
    name: String,
    /// True if Slurm runs the tasks.
    #[serde(default)]
    slurm: bool,
    /// Identifiers of the drives that the last start had consent to erase.
    #[serde(default)]
    erase: Vec<String>,
    steps: Vec<CampaignStep>,
    drives: Vec<PlannedDrive>,
}

impl PlanFile {
    fn is_whole(&self) -> bool {
        let is_old = self.format_version < PLAN_VERSION;
        let is_step = |step: &CampaignStep| is_name(&step.name) && (is_old || step.limit_sec > 0);
        (is_old || is_name(&self.name)) && self.steps.iter().all(is_step)
    }
}

#[derive(Debug, Clone)]
pub struct CampaignPlan {
    pub dir: PathBuf,
    /// Empty until the first start.
    pub id: String,
    /// In a recorded plan, limits, domains and options of Slurm are the defaults: only a start needs them.
    pub campaign: CampaignConfig,
    pub drives: Vec<PlannedDrive>,
    /// Matching drives that are left out because they are in use; empty after the start.
    pub in_use: Vec<InventoryDrive>,
    /// Why name, limits and scheduler of a recorded plan of version 1 are unknown.
    pub unknown_settings: Option<String>,
}

/// True if `dir` holds a campaign, perhaps without its campaign file.
pub fn is_campaign(dir: &Path) -> bool {
    dir.join(CAMPAIGN).is_file() || dir.join(PLAN).is_file()
}

impl CampaignPlan {
    /// Reads what a start would run in `dir`: the campaign file, with the drives of the first start, or the drives that
    /// a start would fix now. Changes nothing. Errors: a mistake in campaign or inventories; steps that differ from
    /// those of the first start.
    pub fn read(
        dir: &Path,
        check: &dyn Fn(&[String]) -> Result<(), String>,
    ) -> Result<Self, Failure> {
        let campaign = CampaignConfig::read(dir, check)?;
        let plan = match read_plan_file(dir)? {
            Some(plan_file) => Self::resumed(dir, campaign, plan_file)?,
            None => {
                let inventories = Inventory::read_all(dir)?;
                let (drives, in_use) = campaign.drives.choose(&inventories)?;
                for why in campaign.drives.unknown_values(&inventories) {
                    console::warning_once(&format!(
                        "{why} - correct or remove the value, or add the missing inventory"
                    ));
                }
                Self {
                    dir: dir.to_owned(),
                    id: String::new(),
                    campaign,
                    drives,
                    in_use,
                    unknown_settings: None,
                }
            }
        };
        plan.check_together()?;
        Ok(plan)
    }

    /// Reads what the last start in `dir` fixed, even if the campaign file is broken or missing. Before the first
    /// start: the same as [`Self::read`].
    pub fn recorded(
        dir: &Path,
        check: &dyn Fn(&[String]) -> Result<(), String>,
    ) -> Result<Self, Failure> {
        let Some(plan_file) = read_plan_file(dir)? else {
            return Self::read(dir, check);
        };
        let mut campaign = CampaignConfig {
            name: plan_file.name.clone(),
            steps: plan_file.steps.clone(),
            erase: plan_file.erase.clone(),
            slurm: plan_file.slurm.then(Slurm::default),
            ..CampaignConfig::default()
        };
        let mut unknown_settings = None;
        if plan_file.format_version < PLAN_VERSION {
            let file = CampaignConfig::read(dir, &|_| Ok(()));
            match file.and_then(|file| Self::resumed(dir, file, plan_file.clone())) {
                Ok(plan) => return Ok(plan),
                Err(failure) => unknown_settings = Some(failure.message),
            }
            let name = dir.file_name().unwrap_or_default();
            campaign.name = name.to_string_lossy().into_owned();
        }
        Ok(Self {
            unknown_settings,
            ..Self::resumed(dir, campaign, plan_file)?
        })
    }

    /// The plan for commands that act on its tasks. Errors: unknown settings; steps that run other programs, in a file
    /// that others can change.
    pub fn for_tasks(self) -> Result<Self, Failure> {
        if let Some(why) = &self.unknown_settings {
            return Err(Failure::usage(format!(
                "cannot run or cancel tasks - {PLAN} has format 1, without limits - restore {CAMPAIGN}: {why}"
            )));
        }
        let path = self.dir.join(PLAN);
        if !self.id.is_empty() && name_commands(&self.campaign.steps) {
            files::open_instructions(&path, Links::Refused, Instructions::Commands)
                .map_err(|error| cannot_read(&path, &error))?;
        }
        Ok(self)
    }

    /// True if the last start had consent to erase the drive `id`, and the campaign file still has this consent.
    pub(crate) fn may_erase(&self, id: &String) -> bool {
        self.campaign.erase.contains(id)
            && CampaignConfig::read(&self.dir, &|_| Ok(()))
                .inspect_err(|failure| console::warning(&failure.message))
                .is_ok_and(|now| now.erase.contains(id))
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
             wait forever - raise per_host, total and at_once of the domains, or choose fewer drives",
            step.name,
            count(self.drives.len() as u64, "drive")
        )))
    }

    /// Records the plan. The first start fixes drives, and the commands of the steps; each start records limits and
    /// consents.
    pub fn start(mut self) -> Result<Self, Failure> {
        let mut target = ReplaceTarget::Own("\"format_version\"");
        if self.id.is_empty() {
            self.id = format!("{:x}-{:x}", now_unix_ms(), std::process::id());
            target = ReplaceTarget::NewFile;
        }
        let plan_file = PlanFile {
            format_version: PLAN_VERSION,
            id: self.id.clone(),
            name: self.campaign.name.clone(),
            slurm: self.campaign.slurm.is_some(),
            erase: self.campaign.erase.clone(),
            steps: self.campaign.steps.clone(),
            drives: self.drives.clone(),
        };
        let path = self.dir.join(PLAN);
        let text = serde_json::to_string_pretty(&plan_file).map_err(Failure::environment)? + "\n";
        let Err(error) = files::replace(&path, text.as_bytes(), target) else {
            return Ok(self);
        };
        if target != ReplaceTarget::NewFile || error.kind() != ErrorKind::AlreadyExists {
            let advice = "put the campaign on a disk that all hosts can write";
            return Err(failed(
                format!("cannot write {}", path.display()),
                &error,
                advice,
            ));
        }
        // Another start came first: use its drives.
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
        let mut steps = plan_file.steps.iter().zip(&campaign.steps);
        let step = steps.find(|(then, now)| (&then.name, &then.words) != (&now.name, &now.words));
        let changed = if plan_file.steps.len() != campaign.steps.len() {
            Some("the number of its steps".to_owned())
        } else if plan_file.format_version == PLAN_VERSION && plan_file.name != campaign.name {
            // Slurm's queue is searched for tasks of this name.
            Some(format!("its name {}", quoted(&plan_file.name)))
        } else {
            step.map(|(then, _)| format!("its step {}", then.name))
        };
        if let Some(what) = changed {
            return Err(Failure::usage(format!(
                "cannot resume the campaign in {} - {what} has changed since it began, and results of different \
                 campaigns cannot be compared - undo this change in {CAMPAIGN}, or begin a campaign in another directory",
                dir.display()
            )));
        }
        Ok(Self {
            dir: dir.to_owned(),
            id: plan_file.id,
            campaign,
            drives: plan_file.drives,
            in_use: Vec::new(),
            unknown_settings: None,
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
            // Host `None` has all simulated drives. Slurm runs them as one array, so they get a share like a host.
            divide(&mut shares, total, |_| true);
        }
        shares
    }

    /// The plan as text: the drives of each host, how many run at once, and for how long.
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
            .filter(|drive| self.lacks_consent(drive))
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
                "[consent] lists {}, but the campaign has no such drive",
                quoted(id)
            );
        }
        text
    }

    /// The drives of `tasks` that steps with erase consent erase, in one line. Simulated drives and drives that the guard
    /// will refuse are left out; `None` if no drive is left.
    pub fn erased_text(&self, tasks: &[usize]) -> Option<String> {
        let drives = tasks.iter().map(|index| &self.drives[*index].drive);
        let erased = drives.filter(|drive| {
            !drive.is_simulated() && drive.state != DriveState::InUse && !self.lacks_consent(drive)
        });
        let names: Vec<_> = erased.map(InventoryDrive::full_name).collect();
        let drives = count(names.len() as u64, "drive");
        (!names.is_empty()).then(|| format!("ERASES {drives}: {}", first_names(names)))
    }

    fn lacks_consent(&self, drive: &InventoryDrive) -> bool {
        drive.state == DriveState::HasData && !self.campaign.erase.contains(&drive.id)
    }

    /// The lock of `fleet run`: concurrent starts submit one after the other.
    pub fn lock(&self) -> Result<File, Failure> {
        let cannot = |error: io::Error, advice| {
            let attempt = format!("cannot lock the campaign {}", self.dir.display());
            failed(attempt, &error, advice)
        };
        let file = files::open_to_append(&self.dir.join(LOCK), files::SHARED).map_err(|error| {
            let advice = "check the permissions and the free space of this directory";
            cannot(error, advice)
        })?;
        rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive).map_err(|error| {
            let advice = "put the campaign on a file system with locks";
            cannot(error.into(), advice)
        })?;
        Ok(file)
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

fn cannot_read(path: &Path, error: &io::Error) -> Failure {
    let attempt = format!("cannot read the plan {}", path.display());
    failed(attempt, error, "check the file")
}

/// The plan in `dir`; `None` before the start.
fn read_plan_file(dir: &Path) -> Result<Option<PlanFile>, Failure> {
    let path = dir.join(PLAN);
    let bytes =
        match files::read_instructions(&path, Links::Refused, Instructions::Data, FILE_BYTES_MAX) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            bytes => bytes.map_err(|error| cannot_read(&path, &error))?,
        };
    let why = match serde_json::from_slice::<PlanFile>(&bytes) {
        Ok(plan_file) if plan_file.format_version > PLAN_VERSION => format!(
            "its format version is {}, but this flashproof reads version {PLAN_VERSION}",
            plan_file.format_version
        ),
        Ok(plan_file) if plan_file.is_whole() => return Ok(Some(plan_file)),
        Ok(_) => "a name or a time limit is missing".to_owned(),
        Err(error) => in_one_line(&error.to_string()),
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
    fn the_first_start_of_a_campaign_fixes_drives_and_steps_for_later_starts() {
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
            "the number of its steps has changed since it began"
        );
    }

    #[test]
    fn a_drive_is_erased_only_with_the_consent_of_the_last_start_and_of_the_campaign_file() {
        let dir = campaign(2, STEP);
        let write = |text: &str| {
            std::fs::write(dir.path().join(CAMPAIGN), format!("name = \"x\"\n{text}")).unwrap();
        };
        let consent = |ids: &str| format!("{STEP}[consent]\nerase = [{ids}]\n");
        let may_erase = || {
            let plan = CampaignPlan::recorded(dir.path(), &|_| Ok(())).unwrap();
            ["SIM00001", "SIM00002"].map(|id| plan.may_erase(&id.to_owned()))
        };
        write(&consent("\"SIM00001\""));
        read(dir.path()).unwrap().start().unwrap();
        assert_eq!(may_erase(), [true, false]);
        write(&consent("\"SIM00001\", \"SIM00002\""));
        assert_eq!(may_erase(), [true, false], "consent after the start");
        read(dir.path()).unwrap().start().unwrap();
        assert_eq!(may_erase(), [true, true]);
        write(&consent("\"SIM00002\""));
        assert_eq!(may_erase(), [false, true], "a withdrawn consent");
        write("steps = 2\n");
        assert_eq!(may_erase(), [false, false], "a file that cannot be read");
    }

    #[test]
    fn the_line_of_erased_drives_has_only_real_drives_that_the_guard_may_release() {
        let consent = format!("{STEP}[consent]\nerase = [\"SIM00003\"]\n");
        let mut plan = read(campaign(8, &consent).path()).unwrap();
        let erased = |plan: &CampaignPlan| plan.erased_text(&[0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(erased(&plan), None, "simulated drives");
        for planned in &mut plan.drives {
            planned.drive.path = format!("/dev/{}", planned.drive.id);
        }
        plan.drives[1].drive.state = DriveState::HasData;
        plan.drives[2].drive.state = DriveState::HasData;
        plan.drives[3].drive.state = DriveState::InUse;
        let name = |number| format!("/dev/SIM0000{number} (SIM0000{number})");
        let names = [1, 3, 5, 6].map(name).join(", ");
        let line = format!("ERASES 6 drives: {names} and 2 more");
        assert_eq!(erased(&plan), Some(line));
        assert_eq!(plan.erased_text(&[1, 3]), None);
    }

    #[test]
    fn a_plan_without_a_valid_name_or_limit_is_refused() {
        let dir = campaign(1, STEP);
        read(dir.path()).unwrap().start().unwrap();
        let path = dir.path().join(PLAN);
        let text = std::fs::read_to_string(&path).unwrap();
        for (from, to, why) in [
            (
                "\"limit_sec\": 3600",
                "\"limit_sec\": 0",
                "a name or a time limit is missing",
            ),
            (
                "\"name\": \"a\"",
                "\"name\": \"../a\"",
                "a name or a time limit is missing",
            ),
            (
                "\"name\": \"x\"",
                "\"nam\": \"x\"",
                "a name or a time limit is missing",
            ),
            (
                "\"format_version\": 2",
                "\"format_version\": 3",
                "its format version is 3",
            ),
        ] {
            assert!(text.contains(from), "{text}");
            std::fs::write(&path, text.replacen(from, to, 1)).unwrap();
            assert_contains!(read(dir.path()).unwrap_err(), why);
        }
    }

    #[test]
    fn a_step_on_all_drives_together_needs_limits_that_let_all_run_at_once() {
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
                    .is_none_or(|why| !why.contains("would wait forever")),
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
