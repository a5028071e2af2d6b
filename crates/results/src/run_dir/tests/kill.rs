//! A run whose process is killed.

use super::*;
use std::env;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

const DIR_VARIABLE: &str = "FLASHPROOF_TEST_KILLED_RUN_DIR";

/// Not a test: the test below starts this run in another process and kills it.
#[test]
#[ignore = "run by the test below"]
fn helper_process_writes_a_run_until_it_is_killed() {
    let Some(dir) = env::var_os(DIR_VARIABLE) else {
        return;
    };
    let manifest = manifest(1, 100_000, 1);
    let mut writer = begin(Path::new(&dir), &manifest);
    let mut judge = manifest.judge();
    for index in 0.. {
        write_one(&mut writer, &mut judge, &manifest, index);
        println!("\nsynced {index}");
    }
}

#[test]
fn a_killed_run_keeps_every_interval_that_was_synced() {
    let program = env::current_exe().unwrap();
    for reports in [1, 2, 11, 23] {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path().join("run");
        let mut child = Command::new(&program)
            .args([
                "--exact",
                "run_dir::tests::kill::helper_process_writes_a_run_until_it_is_killed",
                "--ignored",
                "--nocapture",
            ])
            .env(DIR_VARIABLE, &dir)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap())
            .lines()
            .map_while(Result::ok);
        let synced = lines
            .filter(|line| line.starts_with("synced "))
            .take(reports)
            .count();
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(synced, reports);
        let run = read(&dir).unwrap();
        assert!(
            run.intervals >= reports as u64,
            "{} of {reports}",
            run.intervals
        );
        assert!(!run.is_complete());
        assert_eq!(run.verdict.streams[0].ops, ops_of_reads(&run));
    }
}

/// Number of reads in the recorded intervals, computed again.
fn ops_of_reads(run: &Run) -> u64 {
    (0..run.intervals)
        .map(|index| interval(&run.manifest, index).cells[0].counts.ops)
        .sum()
}
