//! A campaign without a scheduler: tasks on this machine, as many at once as its limits allow.

use crate::journal::StepState;
use crate::plan::Plan;
use crate::task::{is_cancelled, last_line, read_journal};
use crate::{ask_to_end, host_name, own_command};
use results::units::count;
use session::console;
use session::failure::Failure;
use session::signals::Ending;
use std::process::Child;
use std::time::Duration;

/// Time between two looks at the tasks.
const TICK: Duration = Duration::from_millis(100);

/// Output of a task, in its directory.
const LOG: &str = "task.log";

/// Runs the tasks `wanted`, and waits for them, or until a signal.
///
/// Errors: a drive is on another host; a task cannot be started.
pub fn run(plan: &Plan, mut wanted: Vec<usize>) -> Result<(), Failure> {
    let here = host_name();
    let elsewhere = plan.drives.iter().filter_map(|drive| drive.host.name()).find(|host| *host != here);
    if let Some(host) = elsewhere {
        return Err(Failure::usage(format!(
            "running the campaign in {} on this machine ({here}) - it has drives of {host} - add [slurm] to run it on \
             several hosts, or hosts = [\"{here}\"] under [drives]",
            plan.dir.display()
        )));
    }
    let at_once = plan.shares().values().map(|share| share.at_once).max().unwrap_or(1) as usize;
    let ending = Ending::listen("the tasks were killed; they go on when the campaign is run again".to_owned())?;
    wanted.reverse();
    let all = wanted.len();
    let (mut running, mut done): (Vec<(usize, Child)>, usize) = (Vec::new(), 0);
    while !wanted.is_empty() || !running.is_empty() {
        let is_over = ending.came().is_some() || is_cancelled(plan);
        while running.len() < at_once && !is_over {
            let Some(index) = wanted.pop() else { break };
            running.push((index, start(plan, index)?));
        }
        if is_over {
            wanted.clear();
        }
        let mut at = 0;
        while at < running.len() {
            let (index, child) = &mut running[at];
            let ended = child.try_wait().map_err(|error| {
                Failure::environment(format!("waiting for a task - {error} - run the campaign again"))
            })?;
            match ended {
                Some(_) => {
                    done += 1;
                    console::note(&format!("[{done}/{all}] {}", outcome_of(plan, *index)?));
                    running.remove(at);
                }
                None => at += 1,
            }
        }
        if running.is_empty() {
            continue;
        }
        if is_over {
            std::thread::sleep(TICK);
        } else if ending.wait(TICK).is_some() {
            console::notice(&format!("ending {}", count(running.len() as u64, "task")));
            running.iter().for_each(|(_, child)| ask_to_end(child.id()));
        }
    }
    Ok(())
}

/// Starts a task in a process of its own, which ends with this one.
fn start(plan: &Plan, index: usize) -> Result<Child, Failure> {
    let dir = plan.task_dir(index);
    let started = || {
        std::fs::create_dir_all(&dir)?;
        own_command(&dir.join(LOG))?.args(["fleet", "task"]).arg(&plan.dir).arg(index.to_string()).spawn()
    };
    started().map_err(|error: std::io::Error| {
        let advice = sys::remedy(&error, "run the campaign again");
        Failure::environment(format!("starting the task in {} - {error} - {advice}", dir.display()))
    })
}

/// The last step with an event, and its result.
fn outcome_of(plan: &Plan, index: usize) -> Result<String, Failure> {
    let journal = read_journal(&plan.task_dir(index))?;
    let id = &plan.drives[index].drive.id;
    let Some(last) = journal.entries.last() else {
        let why = last_line(&plan.task_dir(index).join(LOG)).unwrap_or_else(|| "it printed nothing".to_owned());
        return Ok(format!("{id}: nothing was run: {why}"));
    };
    let text = match journal.state(&last.step) {
        StepState::Ended(ended) => ended.sentence,
        StepState::Stopped(why) => format!("stopped: {why}"),
        StepState::Refused(why) => format!("could not be run: {why}"),
        StepState::Skipped(why) => format!("not run: {why}"),
        StepState::Waiting | StepState::Begun(..) => "killed".to_owned(),
    };
    Ok(format!("{id} {}: {text}", last.step))
}
