//! `campaign.toml`: which drives, which steps, how many at once, and which drives may be erased.

use crate::inventory::{DriveState, Inventory, InventoryDrive};
use crate::select::Select;
use results::files::{self, Instructions, Links};
use results::format::{self, quoted, seconds};
use serde::{Deserialize, Serialize};
use session::failure::Failure;
use session::runner::cpus;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::path::{Path, PathBuf};
use toml::Spanned;

pub const CAMPAIGN: &str = "campaign.toml";

/// Sanity limit for a campaign file, bytes: consents of 10,000 drives take a tenth of it.
const CAMPAIGN_BYTES_MAX: u64 = 4 << 20;

/// Maximum time limit of a step, seconds: a month.
const LIMIT_SEC_MAX: u32 = 31 * 86_400;

#[derive(Debug, Clone, Default)]
pub struct CampaignConfig {
    pub name: String,
    /// Steps in the order in which they run.
    pub steps: Vec<CampaignStep>,
    pub drives: Select,
    pub limits: CampaignLimits,
    pub domains: Vec<Domain>,
    /// Identifiers of drives that may be erased.
    pub erase: Vec<String>,
    /// `None`: tasks run on this machine.
    pub slurm: Option<Slurm>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CampaignStep {
    pub name: String,
    pub words: Vec<String>,
    /// 0 if unknown.
    pub limit_sec: u32,
    /// Steps that must have succeeded before this step.
    pub after: Vec<String>,
    /// All drives begin this step at the same instant, this many seconds after the last drive is ready.
    pub together_sec: Option<u32>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CampaignLimits {
    pub per_host: u32,
    pub total: Option<u32>,
}

impl Default for CampaignLimits {
    fn default() -> Self {
        Self {
            per_host: 1,
            total: None,
        }
    }
}

/// Hosts that share power or cooling.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Domain {
    pub name: String,
    pub hosts: Vec<String>,
    /// Maximum number of concurrent tasks on these hosts.
    pub at_once: u32,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Slurm {
    /// Slurm GRES that stands for one drive: `flash:1`.
    pub gres: Option<String>,
    /// Further options of sbatch: `--partition=qualify`.
    pub options: Vec<String>,
    /// Path of flashproof on the nodes; default: the path of this program.
    pub program: Option<String>,
    /// Seconds between the signal and the time limit.
    pub grace_sec: Option<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CampaignFile {
    name: Spanned<String>,
    #[serde(default)]
    drives: Select,
    #[serde(default)]
    step: Vec<Spanned<StepEntry>>,
    limits: Option<Spanned<CampaignLimits>>,
    #[serde(default)]
    domain: Vec<Spanned<Domain>>,
    #[serde(default)]
    consent: Consent,
    slurm: Option<Slurm>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StepEntry {
    name: String,
    run: String,
    limit: String,
    after: Option<Vec<String>>,
    together: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Consent {
    erase: Vec<Spanned<String>>,
}

/// The text of a campaign file, for messages that name a line.
struct CampaignText<'a> {
    path: &'a Path,
    text: &'a str,
}

impl CampaignText<'_> {
    fn mistake(&self, location: Range<usize>, why: impl std::fmt::Display) -> Failure {
        let before = self.text.get(..location.start).unwrap_or_default();
        Failure::usage(format!(
            "{}:{}: {why}",
            self.path.display(),
            before.matches('\n').count() + 1
        ))
    }
}

impl CampaignConfig {
    /// Reads `DIR/campaign.toml`. `check` parses the command line of a step as the step's process will.
    pub fn read(
        dir: &Path,
        check: &dyn Fn(&[String]) -> Result<(), String>,
    ) -> Result<Self, Failure> {
        let path = dir.join(CAMPAIGN);
        let bytes = files::read_instructions(
            &path,
            Links::Followed,
            Instructions::Data,
            CAMPAIGN_BYTES_MAX,
        )
        .map_err(|error| cannot_read(&path, error))?;
        let text = String::from_utf8(bytes).map_err(|_| cannot_read(&path, not_utf8()))?;
        let campaign = Self::parse(&path, &text, check)?;
        if name_commands(&campaign.steps) {
            files::open_instructions(&path, Links::Followed, Instructions::Commands)
                .map_err(|error| cannot_read(&path, error))?;
        }
        Ok(campaign)
    }

    fn parse(
        path: &Path,
        text: &str,
        check: &dyn Fn(&[String]) -> Result<(), String>,
    ) -> Result<Self, Failure> {
        let source = CampaignText { path, text };
        let campaign_file: CampaignFile = toml::from_str(text).map_err(|error| {
            source.mistake(
                error.span().unwrap_or(0..0),
                format::in_one_line(error.message()),
            )
        })?;
        if !is_name(campaign_file.name.get_ref()) {
            return Err(source.mistake(campaign_file.name.span(), NAME_RULE));
        }
        if campaign_file.drives.count == Some(0) {
            return Err(source.mistake(
                0..0,
                "count = 0 under [drives] chooses no drive - give 1 or more",
            ));
        }
        let is_none = |limits: &CampaignLimits| limits.per_host == 0 || limits.total == Some(0);
        if let Some(none) = campaign_file
            .limits
            .as_ref()
            .filter(|limits| is_none(limits.get_ref()))
        {
            return Err(source.mistake(
                none.span(),
                "a limit of 0 lets nothing run - give 1 or more",
            ));
        }
        if let Some(none) = campaign_file
            .domain
            .iter()
            .find(|domain| domain.get_ref().at_once == 0)
        {
            return Err(
                source.mistake(none.span(), "at_once = 0 lets nothing run - give 1 or more")
            );
        }
        let mut erase: Vec<String> = Vec::new();
        for id in campaign_file.consent.erase {
            if erase.contains(id.get_ref()) {
                let why = format!(
                    "{} is listed twice - list each drive once",
                    quoted(id.get_ref())
                );
                return Err(source.mistake(id.span(), why));
            }
            erase.push(id.into_inner());
        }
        let steps = steps(&source, campaign_file.step, check)?;
        if let Some(not_together) = steps
            .iter()
            .find(|step| campaign_file.drives.shared && step.together_sec.is_none())
        {
            let why =
                "shared = true needs one test of all hosts - add together = \"20s\" to the step";
            return Err(source.mistake(0..0, format!("step {}: {why}", not_together.name)));
        }
        Ok(Self {
            name: campaign_file.name.into_inner(),
            steps,
            drives: campaign_file.drives,
            limits: campaign_file
                .limits
                .map(Spanned::into_inner)
                .unwrap_or_default(),
            domains: campaign_file
                .domain
                .into_iter()
                .map(Spanned::into_inner)
                .collect(),
            erase,
            slurm: campaign_file.slurm,
        })
    }
}

/// True if an option of a step names another program to run: fio's `--trigger`.
pub(crate) fn name_commands(steps: &[CampaignStep]) -> bool {
    let mut words = steps.iter().flat_map(|step| &step.words);
    words.any(|word| word.starts_with("--trigger"))
}

fn not_utf8() -> io::Error {
    io::Error::new(ErrorKind::InvalidData, "it is not UTF-8 text")
}

fn cannot_read(path: &Path, error: io::Error) -> Failure {
    let advice = match error.kind() {
        // `fleet init` would replace a campaign that is only refused because others can change it.
        ErrorKind::PermissionDenied => "correct the owner and the mode of the file",
        _ => "\"flashproof fleet init\" writes a campaign file",
    };
    Failure::usage(format!(
        "cannot read the campaign {} - {error} - {advice}",
        path.display()
    ))
}

const NAME_RULE: &str = "give a name of 1 to 40 letters, digits, - or _";

pub(crate) fn is_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    (1..=40).contains(&name.len()) && name.chars().all(plain)
}

fn steps(
    source: &CampaignText<'_>,
    entries: Vec<Spanned<StepEntry>>,
    check: &dyn Fn(&[String]) -> Result<(), String>,
) -> Result<Vec<CampaignStep>, Failure> {
    if entries.is_empty() {
        return Err(source.mistake(
            0..0,
            "the campaign has no step - add a [[step]] with name, run and limit",
        ));
    }
    let mut steps: Vec<(Range<usize>, CampaignStep)> = Vec::new();
    for step in entries {
        let location = step.span();
        let StepEntry {
            name,
            run,
            limit,
            after,
            together,
        } = step.into_inner();
        if !is_name(&name) {
            return Err(source.mistake(location, format!("step {}: {NAME_RULE}", quoted(&name))));
        }
        if steps.iter().any(|(_, other)| other.name == name) {
            return Err(source.mistake(
                location,
                format!("two steps have the name {name} - give each step its own name"),
            ));
        }
        let bad = |why: String| source.mistake(location.clone(), format!("step {name}: {why}"));
        let words = shlex::split(&run)
            .ok_or_else(|| bad("\"run\" has an unclosed quotation mark".to_owned()))?;
        // A step with `together` may omit the drive, because clients of a database need none.
        if together.is_none() && !words.iter().any(|word| word.contains(DRIVE)) {
            return Err(bad(format!(
                "\"run\" names no drive - write {DRIVE} where the drive belongs"
            )));
        }
        let Some(command) = words.first() else {
            return Err(bad(
                "\"run\" is empty - write a command of flashproof, such as certify".to_owned(),
            ));
        };
        if words
            .iter()
            .any(|word| word == "--erase" || word.starts_with("--erase="))
        {
            return Err(bad(
                "\"run\" has --erase - list the drive under [consent] instead, by its serial number".to_owned()
            ));
        }
        if RECORDING.contains(&command.as_str()) && !words.iter().any(|word| word.contains(OUT)) {
            return Err(bad(format!("\"run\" keeps no results - add --out {OUT}")));
        }
        let example: Vec<String> = words
            .iter()
            .map(|word| {
                word.replace(DRIVE, "sim:")
                    .replace(OUT, "tasks/example/out")
            })
            .collect();
        check(&example).map_err(|why| {
            bad(format!(
                "flashproof refuses \"run\" - {}",
                format::in_one_line(&why)
            ))
        })?;
        let limit_sec =
            seconds(&limit).map_err(|why| bad(format!("limit {}: {why}", quoted(&limit))))?;
        if limit_sec > LIMIT_SEC_MAX {
            return Err(bad(format!(
                "limit {} is longer than a month",
                quoted(&limit)
            )));
        }
        let together_sec = together
            .map(|text: String| {
                seconds(&text).map_err(|why| bad(format!("together {}: {why}", quoted(&text))))
            })
            .transpose()?;
        let after = after.unwrap_or_else(|| {
            steps
                .last()
                .map(|(_, before)| before.name.clone())
                .into_iter()
                .collect()
        });
        steps.push((
            location,
            CampaignStep {
                name,
                words,
                limit_sec,
                after,
                together_sec,
            },
        ));
    }
    in_order(source, steps)
}

/// Placeholder of the drive's path.
pub const DRIVE: &str = "{drive}";

/// Placeholder of the directory for the results of the step.
pub const OUT: &str = "{out}";

/// Commands whose results are a run or a series.
const RECORDING: [&str; 7] = [
    "storage", "index", "fio", "certify", "rate", "baseline", "check",
];

/// Puts each step behind the steps that its `after` names; otherwise keeps the order of the file.
fn in_order(
    source: &CampaignText<'_>,
    mut steps: Vec<(Range<usize>, CampaignStep)>,
) -> Result<Vec<CampaignStep>, Failure> {
    let names: Vec<String> = steps.iter().map(|(_, step)| step.name.clone()).collect();
    for (at, step) in &steps {
        if let Some(unknown) = step.after.iter().find(|after| !names.contains(after)) {
            let why = format!(
                "step {}: \"after\" names {}, but there is no such step - the steps are {}",
                step.name,
                quoted(unknown),
                names.join(", ")
            );
            return Err(source.mistake(at.clone(), why));
        }
    }
    let mut ordered: Vec<CampaignStep> = Vec::new();
    while !steps.is_empty() {
        let ready = steps.iter().position(|(_, step)| {
            step.after
                .iter()
                .all(|after| ordered.iter().any(|done| done.name == *after))
        });
        match ready {
            Some(ready) => ordered.push(steps.remove(ready).1),
            None => {
                let circle: Vec<_> = steps.iter().map(|(_, step)| step.name.as_str()).collect();
                let why = format!(
                    "the steps {} wait for one another - remove an \"after\"",
                    circle.join(", ")
                );
                return Err(source.mistake(steps[0].0.clone(), why));
            }
        }
    }
    Ok(ordered)
}

/// The commented campaign file that `fleet init` writes, for the drives of `inventories`.
pub fn template(dir: &Path, inventories: &[(PathBuf, Inventory)], slurm: bool) -> String {
    let drives: Vec<&InventoryDrive> = inventories
        .iter()
        .flat_map(|(_, inventory)| &inventory.drives)
        .collect();
    let simulated = drives.iter().all(|drive| drive.is_simulated());
    let models: BTreeSet<&str> = drives
        .iter()
        .filter_map(|drive| drive.model.as_deref())
        .collect();
    let firmwares: BTreeSet<&str> = drives
        .iter()
        .filter_map(|drive| drive.firmware.as_deref())
        .collect();
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let name: String = dir
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .chars()
        .map(plain)
        .take(40)
        .collect();
    let name = if name.is_empty() {
        "campaign".to_owned()
    } else {
        name
    };
    let mut conditions = String::new();
    let mut steps = String::new();
    for (key, values) in [("models", &models), ("firmwares", &firmwares)] {
        if !values.is_empty() && !simulated {
            let values: Vec<_> = values.iter().map(|value| quoted(value)).collect();
            let _ = writeln!(conditions, "{key} = [{}]", values.join(", "));
        }
    }
    let real_steps = [
        ("doctor", "doctor {drive}", "10m"),
        ("prep", "prep {drive}", "24h"),
        ("certify", "certify {drive} --load 30 --out {out}", "60h"),
    ];
    let simulated_steps = [(
        "certify",
        "certify {drive} --load 1 --duration 10m --out {out}",
        "10m",
    )];
    for (name, run, limit) in if simulated {
        &simulated_steps[..]
    } else {
        &real_steps[..]
    } {
        let _ = write!(
            steps,
            "[[step]]\nname = \"{name}\"\nrun = \"{run}\"\nlimit = \"{limit}\"\n\n"
        );
    }
    let with_data: Vec<_> = drives
        .iter()
        .filter(|drive| drive.state == DriveState::HasData)
        .map(|drive| quoted(&drive.id))
        .collect();
    let mut consent = String::new();
    if !simulated {
        consent.push_str("\n# ALL data of these drives is erased. The guard on the host still refuses drives that are in use.\n[consent]\nerase = []\n");
        if !with_data.is_empty() {
            let _ = writeln!(consent, "# Drives with data: {}", with_data.join(", "));
        }
    }
    let words = [
        ("@NAME@", name),
        ("@STEPS@", steps),
        ("@PER_HOST@", if simulated { cpus() } else { 1 }.to_string()),
        (
            "@SLURM@",
            if slurm {
                include_str!("slurm.toml")
            } else {
                ""
            }
            .to_owned(),
        ),
        ("@CONDITIONS@", conditions),
        ("@CONSENT@", consent),
    ];
    words.iter().fold(
        include_str!("campaign.toml").to_owned(),
        |text, (word, value)| text.replace(word, value),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<CampaignConfig, String> {
        CampaignConfig::parse(Path::new("c.toml"), text, &|words: &[String]| {
            if words[0] == "certify" {
                Ok(())
            } else {
                Err("unknown".to_owned())
            }
        })
        .map_err(|failure| failure.message)
    }

    const STEP: &str =
        "[[step]]\nname = \"a\"\nrun = \"certify {drive} --out {out}\"\nlimit = \"1h\"\n";

    #[test]
    fn a_refused_campaign_file_is_not_to_be_replaced() {
        for (kind, advice) in [
            (
                ErrorKind::NotFound,
                "\"flashproof fleet init\" writes a campaign file",
            ),
            (
                ErrorKind::PermissionDenied,
                "correct the owner and the mode of the file",
            ),
        ] {
            let failure = cannot_read(Path::new("c.toml"), kind.into());
            assert!(failure.message.ends_with(advice), "{}", failure.message);
        }
    }

    #[test]
    fn steps_run_after_the_steps_that_they_name() {
        let step = |name: &str, after: &str| STEP.replace("\"a\"", &format!("\"{name}\"")) + after;
        let names = |text: &str| {
            parse(text).map(|campaign| {
                campaign
                    .steps
                    .into_iter()
                    .map(|step| step.name)
                    .collect::<Vec<_>>()
                    .concat()
            })
        };
        let text = format!(
            "name = \"x\"\n{}{}{}",
            step("c", "after = [\"b\"]\n"),
            step("a", "after = []\n"),
            step("b", "")
        );
        assert_eq!(names(&text).unwrap(), "abc");
        let circle = format!(
            "name = \"x\"\n{}{}",
            step("a", "after = [\"b\"]\n"),
            step("b", "")
        );
        assert_eq!(
            names(&circle).unwrap_err(),
            "c.toml:2: the steps a, b wait for one another - remove an \"after\""
        );
    }

    #[test]
    fn every_mistake_has_its_line_and_a_remedy() {
        let of = |rest: &str| format!("name = \"x\"\n{rest}");
        let with = |from: &str, to: &str| of(&STEP.replace(from, to));
        for (text, message) in [
            (
                "name = \"x\"\n",
                "c.toml:1: the campaign has no step - add a [[step]] with name, run and limit",
            ),
            (
                "name = \"a b\"\n",
                "c.toml:1: give a name of 1 to 40 letters, digits, - or _",
            ),
            ("name = \"x\"\nsped = 3\n", "c.toml:2: unknown field `sped`"),
            (
                &of(&STEP.repeat(2)),
                "c.toml:6: two steps have the name a - give each",
            ),
            (
                &with("{drive}", "x"),
                "c.toml:2: step a: \"run\" names no drive - write {drive}",
            ),
            (
                &with("certify", "rm"),
                "c.toml:2: step a: flashproof refuses \"run\" - unknown",
            ),
            (
                &with("1h", "1y"),
                "c.toml:2: step a: limit \"1y\": not a time span",
            ),
            (
                &with("certify", "'certify"),
                "c.toml:2: step a: \"run\" has an unclosed quotation mark",
            ),
            (
                &(of(STEP) + "after = [\"q\"]\n"),
                "c.toml:2: step a: \"after\" names \"q\", but there is no such step - the steps",
            ),
            (
                &(of(STEP) + "[consent]\nerase = [\"S\",\n\"S\"]\n"),
                "c.toml:8: \"S\" is listed twice",
            ),
            (
                &(of(STEP) + "[limits]\nper_host = 0\n"),
                "c.toml:6: a limit of 0 lets nothing run",
            ),
            (
                &with("--out", "--erase=S --out"),
                "c.toml:2: step a: \"run\" has --erase - list the drive under [consent]",
            ),
            (
                &with("1h", "800h"),
                "c.toml:2: step a: limit \"800h\" is longer",
            ),
            (
                &of(&format!("[drives]\nshared = true\n{STEP}")),
                "c.toml:1: step a: shared = true needs one test of all hosts - add",
            ),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.starts_with(message), "{error}\nis not\n{message}");
        }
    }
}
