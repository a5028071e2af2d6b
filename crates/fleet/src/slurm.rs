//! Slurm: submits an array of tasks for each host, and reads the queue.
//!
//! A task runs all steps of its drive, so the array's limit of concurrent tasks holds for all steps. Hosts that share a
//! limit wait for each other by job dependencies. All jobs of a campaign have the same name, and the queue is the
//! record of submissions: a start that was killed between two submissions loses nothing. The comment of a job holds the
//! number of its first task and its host.

use crate::campaign::Slurm;
use crate::inventory::{DriveHost, INVENTORY_DIR, host_text};
use crate::journal::create_own_dir;
use crate::plan::CampaignPlan;
use crate::task::LOG;
use results::files;
use results::format::{date, quoted};
use session::clock::now_unix_ms;
use session::console;
use session::failure::Failure;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Tasks in one array: Slurm's default of `MaxArraySize` is 1001, and indices must be below that.
const ARRAY_TASKS_MAX: usize = 1_000;

/// Seconds from the signal to the time limit, in which a run drains, judges and syncs.
const GRACE_SEC: u32 = 120;

/// Maximum number of times that a job is requeued after its task was stopped or killed.
const REQUEUES_MAX: u32 = 20;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuedTask {
    pub index: usize,
    /// Slurm's name of the task: number of the array, index in the array: `123_4`.
    pub job: String,
    /// Host of the array, or `any`.
    pub host: String,
    /// `PENDING`, `RUNNING`, `COMPLETING`...
    pub state: String,
    pub node_or_reason: String,
}

fn name(plan: &CampaignPlan) -> String {
    format!("flashproof-{}-{}", plan.campaign.name, plan.id)
}

pub fn queue(plan: &CampaignPlan) -> Result<Vec<QueuedTask>, Failure> {
    let format = "%K|%F|%T|%N|%r|%k";
    let text = command(
        "squeue",
        &[
            "-h",
            "-r",
            "-a",
            &format!("--name={}", name(plan)),
            "-o",
            format,
        ],
        None,
    )?;
    Ok(text.lines().filter_map(queued).collect())
}

/// A line of squeue: index, job, state, node, reason, comment.
fn queued(line: &str) -> Option<QueuedTask> {
    let mut fields = line.splitn(6, '|');
    let mut next = || fields.next().map(str::trim);
    let index = next()?;
    let job = next()?;
    let state = next()?;
    let node = next()?;
    let reason = next()?;
    let comment = next()?;
    let (first, host) = comment.split_once(' ')?;
    Some(QueuedTask {
        index: first
            .parse::<usize>()
            .ok()?
            .checked_add(index.parse().ok()?)?,
        job: format!("{job}_{index}"),
        host: host.to_owned(),
        state: state.to_owned(),
        node_or_reason: if node.is_empty() {
            reason.to_owned()
        } else {
            node.to_owned()
        },
    })
}

/// Submits the tasks for which `is_requested` is true, none of which is in the queue, as one or more arrays per host.
/// Returns the number of tasks.
pub fn submit(
    plan: &CampaignPlan,
    slurm: &Slurm,
    is_requested: &dyn Fn(usize) -> bool,
) -> Result<usize, Failure> {
    let shares = plan.shares();
    let mut submitted = 0;
    // Jobs of each host, including those in the queue.
    let mut jobs: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for task in queue(plan)? {
        let array = task.job.split('_').next().unwrap_or_default();
        jobs.entry(task.host).or_default().insert(array.to_owned());
    }
    for (host, tasks) in &plan.by_host() {
        let share = &shares[host];
        for chunk in chunks(tasks) {
            let indices: Vec<usize> = chunk
                .iter()
                .copied()
                .filter(|index| is_requested(*index))
                .collect();
            if indices.is_empty() {
                continue;
            }
            // Slurm limits concurrent tasks within one job only. Therefore the array waits for the jobs of the hosts in
            // `waits_for`, and for the other jobs of its own host.
            let earlier_jobs = share
                .waits_for
                .iter()
                .chain([host])
                .filter_map(|host| jobs.get(host_text(host)))
                .flatten();
            let earlier_jobs: Vec<&str> = earlier_jobs.map(String::as_str).collect();
            log(plan, &indices, "submitting the task to Slurm")?;
            let submission = array(plan, slurm, host, &indices, share.at_once, &earlier_jobs);
            let job = submission.inspect_err(|failure| {
                // Errors of the log are ignored, because `failure` is returned.
                let _ = log(plan, &indices, &failure.message);
            })?;
            submitted += indices.len();
            jobs.entry(host_text(host).to_owned())
                .or_default()
                .insert(job);
        }
    }
    Ok(submitted)
}

/// Appends a line to the log of each task. Slurm appends the output of the task's job to the same file.
fn log(plan: &CampaignPlan, indices: &[usize], text: &str) -> Result<(), Failure> {
    indices.iter().try_for_each(|index| {
        let dir = plan.task_dir(*index);
        let line = format!("{} {text}\n", date(now_unix_ms()));
        let written = create_own_dir(&dir)
            .and_then(|()| files::open_to_append(&dir.join(LOG), files::SHARED))
            .and_then(|mut file| file.write_all(line.as_bytes()));
        let advice = "put the campaign on a disk that all hosts can write";
        written.map_err(|error| {
            let tried = format!("cannot write the log of the task in {}", dir.display());
            crate::failed(tried, &error, advice)
        })
    })
}

/// Groups tasks by array: an array holds the indices from one multiple of its size to the next.
fn chunks(tasks: &[usize]) -> impl Iterator<Item = &[usize]> {
    tasks.chunk_by(|a, b| a / ARRAY_TASKS_MAX == b / ARRAY_TASKS_MAX)
}

/// Submits one array that waits for the jobs `earlier_jobs`. Returns the job number.
fn array(
    plan: &CampaignPlan,
    slurm: &Slurm,
    host: &DriveHost,
    indices: &[usize],
    at_once: u32,
    earlier_jobs: &[&str],
) -> Result<String, Failure> {
    let first = indices[0] / ARRAY_TASKS_MAX * ARRAY_TASKS_MAX;
    let offsets: Vec<String> = indices
        .iter()
        .map(|index| (index - first).to_string())
        .collect();
    let grace_sec = slurm.grace_sec.unwrap_or(GRACE_SEC);
    let limits = plan
        .campaign
        .steps
        .iter()
        .map(|step| u64::from(step.limit_sec));
    // The unit of Slurm's time limit is a minute, and Slurm sends the signal up to a minute early (sbatch(1)).
    let minutes = (limits.sum::<u64>() + u64::from(grace_sec)).div_ceil(60) + 1;
    // A percent sign begins a replacement symbol of Slurm's file names: %3a is the array index with three digits.
    let tasks = plan
        .task_dir(first)
        .with_file_name("")
        .display()
        .to_string();
    let output = format!(
        "{}{}%3a/{LOG}",
        tasks.replace('%', "%%"),
        first / ARRAY_TASKS_MAX
    );
    let mut args = vec![
        "--parsable".to_owned(),
        format!("--job-name={}", name(plan)),
        format!("--comment={first} {}", host_text(host)),
        format!("--array={}%{at_once}", offsets.join(",")),
        format!("--time={minutes}"),
        format!("--signal=B:TERM@{grace_sec}"),
        "--requeue".to_owned(),
        "--open-mode=append".to_owned(),
        format!("--output={output}"),
        format!("--chdir={}", plan.dir.display()),
    ];
    args.extend(host.as_ref().map(|host| format!("--nodelist={host}")));
    args.extend(slurm.gres.as_ref().map(|gres| format!("--gres={gres}")));
    args.extend(
        (!earlier_jobs.is_empty())
            .then(|| format!("--dependency=afterany:{}", earlier_jobs.join(":"))),
    );
    args.extend(slurm.options.iter().cloned());
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let stdout = command("sbatch", &args, Some(&script(plan, slurm, first)?))?;
    // With several clusters, the cluster's name follows the job number.
    Ok(stdout
        .trim()
        .split(';')
        .next()
        .unwrap_or_default()
        .to_owned())
}

/// The job script: runs the task, passes on the scheduler's signal, and requests a requeue after a stop or a kill.
fn script(plan: &CampaignPlan, slurm: &Slurm, first: usize) -> Result<String, Failure> {
    let executable = std::env::current_exe().map_err(Failure::environment)?;
    let program = slurm
        .program
        .clone()
        .unwrap_or_else(|| executable.display().to_string());
    let words = [
        ("@FIRST@", first.to_string()),
        ("@REQUEUES@", REQUEUES_MAX.to_string()),
        ("@PROGRAM@", console::shell_quoted(&program)),
        (
            "@DIR@",
            console::shell_quoted(&plan.dir.display().to_string()),
        ),
    ];
    Ok(words
        .iter()
        .fold(include_str!("job.sh").to_owned(), |text, (word, value)| {
            text.replace(word, value)
        }))
}

/// Removes the waiting tasks from the queue. Running tasks end by themselves if they can see the cancellation mark;
/// without the mark (`is_marked`), Slurm ends them, too.
pub fn cancel(plan: &CampaignPlan, is_marked: bool) -> Result<(), Failure> {
    let name = format!("--name={}", name(plan));
    let waiting = is_marked.then_some("--state=PENDING");
    let args: Vec<&str> = waiting.into_iter().chain([name.as_str()]).collect();
    command("scancel", &args, None).map(drop)
}

/// Takes the inventory of every node that is up, by one job. Returns the nodes that are down.
pub fn inventory(dir: &Path, options: &[String]) -> Result<Vec<String>, Failure> {
    let nodes = command("sinfo", &["-h", "-N", "-o", "%N %T"], None)?;
    let mut up_nodes = Vec::new();
    let mut down_nodes = Vec::new();
    for line in nodes.lines() {
        let Some((node, state)) = line.trim().split_once(' ') else {
            continue;
        };
        let list = if ["idle", "mixed", "allocated"].contains(&state) {
            &mut up_nodes
        } else {
            &mut down_nodes
        };
        if !list.iter().any(|other| other == node) {
            list.push(node.to_owned());
        }
    }
    if up_nodes.is_empty() {
        return Err(Failure::environment(format!(
            "cannot take inventories - no node of Slurm is up ({}) - \"sinfo -R\" shows the reasons",
            down_nodes.join(", ")
        )));
    }
    let executable = std::env::current_exe().map_err(Failure::environment)?;
    let nodes = up_nodes.join(",");
    let executable = executable.display().to_string();
    let out = dir.display().to_string();
    let number = format!("--nodes={}", up_nodes.len());
    let list = format!("--nodelist={nodes}");
    let mut args = vec![
        "--immediate=300",
        "--ntasks-per-node=1",
        &number,
        &list,
        "--job-name=flashproof-inventory",
    ];
    args.extend(options.iter().map(String::as_str));
    args.extend([&executable, "fleet", "inventory", "--quiet", "--out", &out]);
    console::note(&format!(
        "taking the inventories of {} into {}",
        nodes,
        dir.join(INVENTORY_DIR).display()
    ));
    command("srun", &args, None)?;
    Ok(down_nodes)
}

/// Runs one of Slurm's programs with `input`. Returns its standard output.
fn command(program: &str, args: &[&str], input: Option<&str>) -> Result<String, Failure> {
    let output = output(program, args, input).map_err(|error| {
        let advice = "install Slurm's client programs, or remove [slurm] from the campaign to run it on this machine";
        Failure::environment(format!("cannot run {program} - {error} - {advice}"))
    })?;
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stderr);
        let message = message
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty())
            .collect::<Vec<_>>()
            .join("; ");
        return Err(Failure::environment(format!(
            "cannot run {program} - it failed ({}) with the message {} - check the controller with \"scontrol ping\", \
             then run the same command again",
            output.status,
            quoted(&message)
        )));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn output(program: &str, args: &[&str], input: Option<&str>) -> std::io::Result<Output> {
    let stdin = if input.is_some() {
        Stdio::piped()
    } else {
        Stdio::null()
    };
    let mut child = Command::new(program)
        .args(args)
        .stdin(stdin)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    if let (Some(text), Some(mut stdin)) = (input, child.stdin.take()) {
        stdin.write_all(text.as_bytes())?;
    }
    child.wait_with_output()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slurms_queue_is_parsed_by_job_comments_and_lines_of_other_jobs_are_skipped() {
        let task = |index, state: &str, place: &str, host: &str| QueuedTask {
            index,
            job: format!("12_{}", index % 1000),
            host: host.to_owned(),
            state: state.to_owned(),
            node_or_reason: place.to_owned(),
        };
        let found = queued("7|12|RUNNING|n3|None|1000 n3");
        assert_eq!(found, Some(task(1007, "RUNNING", "n3", "n3")));
        let found = queued("0|12|PENDING||Dependency|0 any");
        assert_eq!(found, Some(task(0, "PENDING", "Dependency", "any")));
        for foreign in [
            "",
            "x|1|RUNNING|n3|None|0 n3",
            "7|1|RUNNING|n3|None|(null)",
            "7|RUNNING",
            "99999999999999999999|1|R||x|0 a",
        ] {
            assert_eq!(queued(foreign), None, "{foreign}");
        }
    }

    #[test]
    fn array_indices_stay_below_the_limit_of_slurm() {
        let tasks: Vec<usize> = vec![3, 999, 1000, 2500];
        let found = chunks(&tasks).collect::<Vec<_>>();
        assert_eq!(found, [&[3, 999][..], &[1000], &[2500]]);
    }
}
