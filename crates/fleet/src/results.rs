//! The results of a campaign as one document: verdicts, ratings, and each drive's latencies beside those of its peers.

use crate::campaign::{CampaignConfig, CampaignStep};
use crate::plan::CampaignPlan;
use crate::select::PlannedDrive;
use crate::status::CampaignStatus;
use crate::task_status::{StepState, TaskStatus, TaskStepStatus};
use conclusions::population::{DriveLatencies, Labels, examine};
use conclusions::rejudge::{rejudge_in, run_dir_of};
use conclusions::series::{REPORT, Series};
use device::guard::PREPARATION;
use report::campaign::{CAMPAIGN_FORMAT_VERSION, Campaign, CampaignDrive, Quantity, StepResult};
use results::finding::Severity;
use results::format::{count, shell_quoted};
use results::parallel::in_parallel;
use results::run_dir::{self, DirKind, dir_kind};
use session::failure::Failure;
use session::runner::{cpus, tool};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The document of the campaign in `status`. The drives of the other campaigns `peers` serve as further peers.
/// `anonymous` replaces names of drives and hosts by pseudonyms. Errors: no step of a peer has the compared command.
/// Unreadable journals and results become remarks.
pub fn read(
    plan: &CampaignPlan,
    status: &CampaignStatus,
    peers: &[CampaignPlan],
    anonymous: bool,
) -> Result<Campaign, Failure> {
    let mut campaign = overview(plan, status);
    let drives = 0..campaign.drives.len();
    // Compares only the last step that measured over half of the drives: write histories differ between steps.
    let steps = plan.campaign.steps.iter().rev();
    let mut with_runs = steps.map(|step| (step, compared_runs(plan, status, &step.name)));
    let compared = with_runs.find(|(_, runs)| runs.iter().flatten().count() * 2 > drives.len());
    let mut latencies = vec![DriveLatencies::default(); drives.len()];
    if let Some((step, runs)) = &compared {
        latencies = measure(plan, runs, &mut campaign.remarks);
        for (run, drive) in runs.iter().zip(&mut campaign.drives) {
            let manifest = run.as_ref().and_then(|run| run_dir::manifest(run).ok());
            drive.compared_unix_ms = manifest.as_ref().map(|run| run.started_unix_ms);
            let findings = manifest.iter().flat_map(|run| &run.findings);
            let mut warnings = findings.filter(|of| of.level == Severity::Warning);
            drive.not_prepared = warnings.any(|of| of.check == PREPARATION);
        }
        let own = |drive| labels(drive, &plan.campaign.name);
        let mut labels: Vec<_> = campaign.drives.iter().map(own).collect();
        for peer in peers {
            let remarks = &mut campaign.remarks;
            let added = add_peers(step, peer, &mut labels, &mut latencies, remarks)?;
            campaign.peers.push(added);
        }
        let windows: Vec<_> = latencies.iter().map(|drive| &*drive.windows).collect();
        campaign.examination = examine(&labels, &windows, drives.len());
        latencies.truncate(drives.len());
    }
    let ratings = drives.map(|index| rating(plan, status, index)).collect();
    let p50_us = latencies.iter().map(|drive| Some(drive.p50_ns? / 1e3));
    let p99_us = latencies.iter().map(|drive| Some(drive.p99_ns? / 1e3));
    let of = &campaign.drives;
    let quantities = [
        Quantity::new("rating", "x", true, ratings, of),
        Quantity::new("median latency", "us", false, p50_us.collect(), of),
        Quantity::new("99th percentile", "us", false, p99_us.collect(), of),
    ];
    campaign.quantities = quantities.into_iter().flatten().collect();
    campaign.compared_step = compared.map(|(step, _)| step.name.clone());
    campaign.anonymous = anonymous;
    if anonymous {
        campaign = pseudonymous(&campaign, plan)?;
    }
    Ok(campaign)
}

/// The document of the campaign without measured values: its drives are not compared.
fn overview(plan: &CampaignPlan, status: &CampaignStatus) -> Campaign {
    let tasks = plan.drives.iter().zip(&status.tasks);
    let together = status.together.iter();
    let together = together
        .map(|(step, result)| format!("{step}, all drives together: {}", result.text().trim_end()));
    let steps = plan.campaign.steps.iter();
    Campaign {
        format_version: CAMPAIGN_FORMAT_VERSION,
        made_by: tool(),
        name: plan.campaign.name.clone(),
        steps: steps.clone().map(|step| step.name.clone()).collect(),
        commands: steps.map(|step| shell_line(&step.words)).collect(),
        began_and_last_unix_ms: status.began_and_last_unix_ms,
        drives: tasks
            .map(|(planned, task)| drive(plan, planned, task))
            .collect(),
        remarks: status.faults.iter().cloned().chain(together).collect(),
        ..Campaign::default()
    }
}

/// Adds the drives of `peer` that ran the command of `step`; returns the name of `peer` and the number of these drives.
/// A drive of the campaign is not its own peer. Errors: no step of `peer` has this command.
fn add_peers(
    step: &CampaignStep,
    peer: &CampaignPlan,
    labels: &mut Vec<Labels>,
    latencies: &mut Vec<DriveLatencies>,
    remarks: &mut Vec<String>,
) -> Result<(String, usize), Failure> {
    let CampaignConfig { name, steps, .. } = &peer.campaign;
    let Some(same) = steps.iter().find(|other| other.words == step.words) else {
        let others: Vec<_> = steps.iter().map(|step| shell_line(&step.words)).collect();
        return Err(Failure::usage(format!(
            "cannot compare with the campaign {name} in {} - its drives ran \"{}\", and the compared drives ran \"{}\" - give \
             campaigns with the same command",
            peer.dir.display(),
            others.join("\", \""),
            shell_line(&step.words)
        )));
    };
    let status = CampaignStatus::read(peer);
    let mut unreadable = Vec::new();
    let runs = compared_runs(peer, &status, &same.name);
    let measured = measure(peer, &runs, &mut unreadable);
    if !unreadable.is_empty() {
        let drives = count(unreadable.len() as u64, "drive");
        remarks.push(format!("no latencies of {drives} of the campaign {name}"));
    }
    let before = labels.len();
    let tasks = peer.drives.iter().zip(&status.tasks);
    for ((planned, task), measured) in tasks.zip(measured) {
        let is_known = labels.iter().any(|known| known.drive == planned.drive.id);
        if !measured.windows.is_empty() && !is_known {
            let drive = drive(peer, planned, task);
            labels.push(self::labels(&drive, &peer.dir.to_string_lossy()));
            latencies.push(measured);
        }
    }
    Ok((name.clone(), labels.len() - before))
}

/// For each drive, the run of the step `name` that is compared; `None` without a result.
fn compared_runs(plan: &CampaignPlan, status: &CampaignStatus, name: &str) -> Vec<Option<PathBuf>> {
    let drives = 0..plan.drives.len();
    drives
        .map(|index| compared_run(&result(plan, status, index, name)?))
        .collect()
}

/// Results of a step, if the step ended with a verdict on this drive or with a measurement.
fn result(
    plan: &CampaignPlan,
    status: &CampaignStatus,
    index: usize,
    step: &str,
) -> Option<PathBuf> {
    let state = status.tasks[index]
        .steps
        .iter()
        .find(|other| other.step == step)?
        .now;
    is_result(state).then(|| plan.results_dir(index, step))
}

fn is_result(state: StepState) -> bool {
    state.is_good() || state == StepState::Fail
}

/// A command line, quoted for a shell.
fn shell_line(words: &[String]) -> String {
    let words = words.iter().map(|word| shell_quoted(word));
    words.collect::<Vec<_>>().join(" ")
}

fn drive(plan: &CampaignPlan, planned: &PlannedDrive, task: &TaskStatus) -> CampaignDrive {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let ran_on = task.steps.iter().rev().find_map(|step| step.host.clone());
    CampaignDrive {
        drive: planned.drive.id.clone(),
        model: text(&planned.drive.model),
        firmware: text(&planned.drive.firmware),
        host: planned.host.clone().or(ran_on).unwrap_or_default(),
        slot: text(&planned.drive.slot),
        link: text(&planned.drive.link),
        results: task
            .steps
            .iter()
            .map(|step: &TaskStepStatus| {
                let page = plan.results_dir(task.index, &step.step).join(REPORT);
                let report = page.is_file().then(|| {
                    page.strip_prefix(&plan.dir)
                        .map(|path| path.display().to_string())
                        .ok()
                });
                StepResult {
                    state: step.now.text().to_owned(),
                    outcome: step.outcome,
                    sentence: if step.now == StepState::Running {
                        String::new()
                    } else {
                        step.note.clone()
                    },
                    report: report.flatten(),
                    last_unix_ms: step.last_unix_ms,
                }
            })
            .collect(),
        compared_unix_ms: None,
        not_prepared: false,
    }
}

/// Slots are grouped by label across hosts: slots with the same label are often of the same kind.
fn labels(drive: &CampaignDrive, campaign: &str) -> Labels {
    let CampaignDrive {
        drive,
        model,
        firmware,
        host,
        slot,
        ..
    } = drive.clone();
    Labels {
        drive,
        model,
        firmware,
        host,
        slot,
        campaign: campaign.to_owned(),
    }
}

fn rating(plan: &CampaignPlan, status: &CampaignStatus, index: usize) -> Option<f64> {
    plan.campaign
        .steps
        .iter()
        .rev()
        .find_map(|step: &CampaignStep| {
            let dir = result(plan, status, index, &step.name)?;
            let mut series = Series::read(&dir).ok()??;
            rejudge_in(&dir, &mut series);
            series.conclusion?.rating
        })
}

/// The run in `dir` whose load is the same for all drives: the run itself, or the first run of a series.
fn compared_run(dir: &Path) -> Option<PathBuf> {
    match dir_kind(dir).ok()? {
        DirKind::Run => Some(dir.to_owned()),
        DirKind::Series => {
            let series = Series::read(dir).ok()??;
            let run = series
                .steps
                .first()
                .and_then(|step| run_dir_of(dir, step).ok());
            run.filter(|run| run_dir::manifest(run).is_ok())
        }
    }
}

/// Latencies of all drives in their compared `runs`, read on all CPUs.
fn measure(
    plan: &CampaignPlan,
    runs: &[Option<PathBuf>],
    remarks: &mut Vec<String>,
) -> Vec<DriveLatencies> {
    let next_index = AtomicUsize::new(0);
    let numbers = || std::iter::repeat_with(|| next_index.fetch_add(1, Ordering::Relaxed));
    let mut indexed: Vec<_> = in_parallel(0..cpus(), |_| {
        numbers()
            .map_while(|index: usize| Some((index, runs.get(index)?)))
            .map(|(index, run)| match run {
                Some(run) => (index, DriveLatencies::read(run)),
                None => (index, Ok(DriveLatencies::default())),
            })
            .collect::<Vec<_>>()
    })
    .into_iter()
    .flatten()
    .collect();
    indexed.sort_by_key(|(index, _)| *index);
    let mut latencies = Vec::new();
    for (index, result) in indexed {
        latencies.push(result.unwrap_or_else(|why| {
            remarks.push(format!(
                "no latencies of {}: {why}",
                plan.drives[index].drive.id
            ));
            DriveLatencies::default()
        }));
    }
    latencies
}

/// The same document with pseudonyms in the order of the plan, so that a drive has the same pseudonym in every report.
fn pseudonymous(campaign: &Campaign, plan: &CampaignPlan) -> Result<Campaign, Failure> {
    let mut names: Vec<(String, String)> =
        vec![(plan.dir.display().to_string(), "campaign".to_owned())];
    let mut hosts: Vec<&str> = Vec::new();
    for (index, (planned, drive)) in plan.drives.iter().zip(&campaign.drives).enumerate() {
        let planned_drive = &planned.drive;
        // The same path can exist on several hosts, so a common word replaces it.
        names.push((planned_drive.path.clone(), "device".to_owned()));
        let identifiers = [
            Some(&planned_drive.id),
            planned_drive.serial.as_ref(),
            planned_drive.wwid.as_ref(),
        ]
        .into_iter()
        .flatten();
        let identifiers = identifiers.filter(|name| **name != planned_drive.path);
        names.extend(identifiers.map(|name| (name.clone(), format!("drive-{:04}", index + 1))));
        for host in [Some(drive.host.as_str()), planned.host.as_deref()]
            .into_iter()
            .flatten()
        {
            // The first label of an IP address is a bare number that may occur anywhere: replace the whole address.
            let is_name = |label: &&str| !label.bytes().all(|byte| byte.is_ascii_digit());
            let host = host.split('.').next().filter(is_name).unwrap_or(host);
            if !host.is_empty() && !hosts.contains(&host) {
                hosts.push(host);
            }
        }
    }
    names.extend(
        hosts
            .iter()
            .enumerate()
            .map(|(index, host)| ((*host).to_owned(), format!("{HOST}{:03}", index + 1))),
    );
    // The longest first, because a name may be part of another.
    names.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
    let mut value = serde_json::to_value(campaign).map_err(Failure::environment)?;
    replace(&mut value, &names);
    let mut anonymous: Campaign = serde_json::from_value(value).map_err(Failure::environment)?;
    // Commands may contain other names, such as those of files and servers.
    anonymous.commands.clear();
    // The name of a drive without a serial number is its path.
    anonymous
        .drives
        .iter_mut()
        .enumerate()
        .for_each(|(index, drive)| drive.drive = format!("drive-{:04}", index + 1));
    Ok(anonymous)
}

/// Replaces names in all texts of a document; paths of reports are removed.
fn replace(value: &mut serde_json::Value, names: &[(String, String)]) {
    use serde_json::Value;
    match value {
        Value::String(text) => *text = replaced(text, names),
        Value::Array(values) => values.iter_mut().for_each(|value| replace(value, names)),
        Value::Object(fields) => fields
            .iter_mut()
            .for_each(|(key, value)| match key.as_str() {
                "report" => *value = Value::Null,
                _ => replace(value, names),
            }),
        _ => {}
    }
}

const HOST: &str = "host-";

/// Length of the domain at the beginning of `text`: `.example.org`.
fn domain_length(text: &str) -> usize {
    let mut rest = text;
    while let Some(label) = rest.strip_prefix('.') {
        let length = label
            .find(|c: char| !c.is_ascii_alphanumeric() && c != '-')
            .unwrap_or(label.len());
        if length == 0 {
            break;
        }
        rest = &label[length..];
    }
    text.len() - rest.len()
}

/// Replaces names, the longest first, unless they are part of a longer word. One pass, so that no pseudonym is
/// replaced. A domain after a host name is removed.
fn replaced(text: &str, names: &[(String, String)]) -> String {
    let is_part = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    let mut result = String::new();
    let mut rest = text;
    let mut last = None;
    while let Some(next) = rest.chars().next() {
        let found = names.iter().find(|(name, _)| {
            let after = rest
                .strip_prefix(name.as_str())
                .filter(|_| !name.is_empty());
            after.is_some_and(|after| !is_part(last) && !is_part(after.chars().next()))
        });
        let (length, replacement) = match found {
            Some((name, by)) if by.starts_with(HOST) => {
                (name.len() + domain_length(&rest[name.len()..]), by.as_str())
            }
            Some((name, by)) => (name.len(), by.as_str()),
            None => (next.len_utf8(), &rest[..next.len_utf8()]),
        };
        result.push_str(replacement);
        last = rest[..length].chars().next_back();
        rest = &rest[length..];
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pseudonyms_replace_only_whole_words_and_are_not_replaced_themselves() {
        let names = [("n10", "host-2"), ("n1", "0001"), ("0001", "drive-0001")];
        let names = names.map(|(name, by)| (name.to_owned(), by.to_owned()));
        let found = replaced("n1 and n10, on n1:/dev/x an1", &names);
        assert_eq!(found, "0001 and host-2, on 0001:/dev/x an1");
        assert_eq!(replaced("0001 10001", &names), "drive-0001 10001");
        let found = replaced("on n10.lab.example.org. Then", &names);
        assert_eq!(found, "on host-2. Then");
    }

    #[test]
    fn only_verdicts_on_the_drive_count_as_results() {
        use StepState::{
            Done, Fail, Failed, Invalid, Lost, Measured, Pass, Refused, Running, Stopped,
        };
        let counting = [Done, Measured, Pass, Fail];
        for now in counting
            .into_iter()
            .chain([Running, Invalid, Failed, Stopped, Refused, Lost])
        {
            assert_eq!(is_result(now), counting.contains(&now), "{now:?}");
        }
    }
}
