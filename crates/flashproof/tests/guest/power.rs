//! Power cuts: recorded data survives, and a series resumes after the reboot.

use super::machine::{FDP, Machine, SMALL_FDP, copy_out};
use conclusions::series::{Series, SeriesStepState};
use results::run_dir;
use std::fs;
use std::path::Path;
use sys::random::Random;

const CUTS: u64 = 5;
/// Seed of the random times of the cuts.
const SEED: u64 = 1;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |number| {
        number
            .parse()
            .unwrap_or_else(|_| panic!("{name} is no number"))
    })
}

/// FLASHPROOF_POWER_CUTS sets the number of cuts, FLASHPROOF_POWER_SEED the seed of their times.
#[test]
#[ignore = "a guest of its own: make soak"]
fn after_a_power_cut_a_run_is_readable_and_lacks_at_most_one_interval() {
    let Some(machine) = Machine::new(FDP) else {
        return;
    };
    let cuts = number("FLASHPROOF_POWER_CUTS", CUTS);
    let seed = number("FLASHPROOF_POWER_SEED", SEED);
    eprintln!("{cuts} power cuts, FLASHPROOF_POWER_SEED={seed}");
    let mut random = Random::new(seed);
    let mut guest = machine.boot();
    guest.ask(
        "printf '%s\\n' device-names:$FDP0 test-duration-sec:3600 report-interval-sec:1 read-reqs-per-sec:100 >/tmp/c",
    );
    guest.start(
        "run",
        "flashproof storage /tmp/c --out /data/run --sla '99%>10s'",
    );
    guest.wait_until("grep -qs ^0, /data/run/telemetry.csv");
    let image = machine.bench.path("cut.img");
    // Number of complete lines that flashproof has written, whether or not they are on the disk.
    let moment = |random: &mut Random| {
        format!(
            "sleep 0.{:03}; grep -c ^[0-9] /data/run/telemetry.csv",
            random.below(1000)
        )
    };
    for cut in 1..cuts {
        let written = guest.ask(&moment(&mut random));
        guest.data_now(&image);
        check(
            &machine,
            &image,
            &written,
            &format!("cut {cut}, FLASHPROOF_POWER_SEED={seed}"),
        );
    }
    let written = guest.ask(&moment(&mut random));
    guest.power_cut();
    check(
        &machine,
        &machine.bench.path("data.img"),
        &written,
        &format!("QEMU killed, FLASHPROOF_POWER_SEED={seed}"),
    );
}

/// Checks what the power cut `which` left of a run that had written `written` intervals.
fn check(machine: &Machine, image: &Path, written: &str, which: &str) {
    let dir = machine.bench.path("found");
    copy_out(image, "/run", &dir);
    let run = run_dir::read(&dir).unwrap_or_else(|error| panic!("{which}: {error}"));
    assert!(
        run.written.is_none() && run.damage.is_empty(),
        "{which}: {:?}",
        run.damage
    );
    let written: u64 = written.trim().parse().unwrap();
    assert!(
        run.intervals + 1 >= written,
        "{which}: {} intervals of {written}",
        run.intervals
    );
    // Exit code 4 (INVALID), because the end of the run was not recorded.
    machine.bench.flashproof(&["report", "found"]).expect(4);
    fs::remove_dir_all(&dir).unwrap();
}

#[test]
#[ignore = "a guest of its own: make soak"]
fn after_a_power_cut_certify_resumes_with_the_interrupted_stage() {
    let Some(machine) = Machine::new(SMALL_FDP) else {
        return;
    };
    let certify = "FLASHPROOF_STATE=/data/state flashproof certify $FDP0 --erase FDP0 --load 0.05 --duration 3s \
                   --sla '99%>10s' --out /data/series";
    let mut guest = machine.boot();
    guest.start("certify", certify);
    guest.wait_until("grep -qs ^0, /data/series/stage-2/telemetry.csv");
    let first = guest.ask("md5sum /data/series/stage-1/*");
    guest.power_cut();

    let mut guest = machine.boot();
    let ended = guest.run(certify).expect(0);
    let said = |words: &str| ended.stderr.contains(words);
    assert!(
        said("stage 2 did not complete (its program was killed, or the machine stopped)"),
        "{}",
        ended.stderr
    );
    assert!(
        !said("stage 1 of 2") && !said("preparing first"),
        "{}",
        ended.stderr
    );
    assert!(
        ended.stdout.contains("stage 2 was begun 2 times"),
        "{}",
        ended.stdout
    );
    assert_eq!(
        guest.ask("md5sum /data/series/stage-1/*"),
        first,
        "a finished stage is not run again"
    );
    guest.ask("umount /data");
    guest.power_cut();

    let dir = machine.bench.path("series");
    copy_out(&machine.bench.path("data.img"), "/series", &dir);
    let steps = Series::read(&dir)
        .unwrap()
        .expect("there is a series")
        .steps;
    let steps: Vec<_> = steps
        .iter()
        .map(|step| (step.state, step.attempts, step.dir.as_str()))
        .collect();
    assert_eq!(
        steps,
        [
            (SeriesStepState::Done, 1, "stage-1"),
            (SeriesStepState::Done, 2, "stage-2.2")
        ]
    );
    // The stage that the power cut interrupted has no written verdict.
    assert_eq!(run_dir::read(&dir.join("stage-2")).unwrap().written, None);
}
