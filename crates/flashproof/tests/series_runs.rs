//! A series whose record or runs were changed: every command that opens the series reports and rejects the change.

use crate::support::words;
use crate::{select, support};

use conclusions::series::Series;
use results::run_dir;
use std::fs;
use std::path::{Path, PathBuf};
use support::{Bench, Ended};

const SERIES: &str = "series";

const SCREENING: [&str; 10] = [
    "certify",
    "sim:seed=1",
    "sim:seed=2",
    "--out",
    SERIES,
    "--load",
    "0.05",
    "--duration",
    "1m",
    "--quiet",
];

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let from = entry.path();
        let to = to.join(entry.file_name());
        if from.is_dir() {
            copy(&from, &to)
        } else {
            fs::copy(&from, &to).map(drop).unwrap()
        }
    }
}

/// Replaces the directory of a step by a copy of `run`.
fn replace(step: PathBuf, run: &Path) {
    fs::remove_dir_all(&step).unwrap();
    copy(run, &step);
}

fn edit(dir: &Path, change: impl FnOnce(&mut Series)) {
    let mut series = Series::read(dir).unwrap().unwrap();
    change(&mut series);
    series.write(dir).unwrap();
}

/// Output from the line that begins with `begin`: the answer and its details.
fn answer<'a>(ended: &'a Ended, begin: &str) -> &'a str {
    let output = &ended.stdout;
    let at = output.find(&format!("\n{begin}"));
    at.map_or_else(|| panic!("{begin}\n{output}"), |at| &output[at..])
}

/// Asserts that every command calls the series in `dir` invalid, and says `why`.
#[track_caller]
fn is_invalid(bench: &Bench, command: &[&str], dir: &str, why: &str) {
    let report = bench.flashproof(&["report", dir]).expect(4);
    assert!(
        answer(&report, "INVALID").contains(why),
        "{why}\n{}",
        report.stdout
    );
    let json = bench
        .flashproof(&["report", dir, "--json"])
        .expect(4)
        .json();
    let conclusion = &json["reports"][0]["series"]["conclusion"];
    assert!(
        conclusion["sentence"].as_str().unwrap().contains(why),
        "{conclusion}"
    );
    let status = bench.flashproof(&["report", "status", dir]).expect(4);
    assert!(status.stdout.contains(why), "{}", status.stdout);
    let compared = bench
        .flashproof(&["report", "compare", dir, "--json"])
        .expect(4)
        .json();
    let candidate = &compared["candidates"][0];
    assert_eq!(
        (&candidate["outcome"], &candidate["damaged"]),
        (&"invalid".into(), &true.into()),
        "{candidate}"
    );
    assert!(
        candidate["load"]["why_not"].is_string(),
        "no load is held: {candidate}"
    );
    if command[0] != "baseline" {
        select::write_profile(bench, &select::profile(select::PAPER));
        let selected = bench.flashproof(&[
            "size",
            "select",
            "--profile",
            "profile.json",
            "--candidate",
            dir,
        ]);
        let selected = selected.expect(4);
        assert!(selected.stderr.contains(why), "{}", selected.stderr);
    }
    let again: Vec<&str> = command
        .iter()
        .map(|word| if *word == SERIES { dir } else { *word })
        .collect();
    bench.flashproof(&again).expect_error(
        4,
        &[
            "cannot use the series in ",
            why,
            "or start a new series with --fresh",
        ],
    );
}

#[test]
fn a_certification_with_replaced_deleted_or_edited_runs_is_invalid() {
    let bench = Bench::new();
    bench.flashproof(&SCREENING).expect(0);
    let other_drives = SCREENING.map(|word| match word {
        "sim:seed=1" => "sim:seed=3",
        SERIES => "other",
        word => word,
    });
    bench.flashproof(&other_drives).expect(0);
    let config = "device-names: sim:seed=1\ntest-duration-sec: 60\nread-reqs-per-sec: 20\nwrite-reqs-per-sec: 10\n";
    bench
        .start_as("light.conf", "light", config, &["--quiet"])
        .end()
        .expect(0);
    let attack = |name: &str, change: &dyn Fn(&Path), why: &str| {
        copy(&bench.path(SERIES), &bench.path(name));
        change(&bench.path(name));
        is_invalid(&bench, &SCREENING, name, why);
    };
    let said = |what: &str| format!("series.json says that {what}");
    let light = said("read-reqs-per-sec was 100, but the run says 20");
    attack(
        "replaced",
        &|dir| replace(dir.join("stage-1"), &bench.path("light")),
        &format!("stage 1: {light}"),
    );
    attack(
        "swapped",
        &|dir: &Path| {
            fs::rename(dir.join("stage-1"), dir.join("x")).unwrap();
            fs::rename(dir.join("stage-2"), dir.join("stage-1")).unwrap();
            fs::rename(dir.join("x"), dir.join("stage-2")).unwrap();
        },
        &said("the load was 0.05x, but the run says 0.1x"),
    );
    let stage_of_other = |dir: &Path| replace(dir.join("stage-1"), &bench.path("other/stage-1"));
    attack(
        "drive",
        &stage_of_other,
        &said("the drive was serial sim:seed=1, but the run says sim:seed=3"),
    );
    attack(
        "deleted",
        &|dir| fs::remove_dir_all(dir.join("stage-2")).unwrap(),
        "stage 2: there is no run to judge",
    );
    let lax = |dir: &Path| edit(dir, |series| series.terms[1].1 = "6%>1ms".into());
    attack_terms(
        &bench,
        "lax",
        lax,
        &said("the limits were 6%>1ms, but the run says 5%>1ms,1%>8ms,0.1%>64ms"),
    );
    let longer = |dir: &Path| edit(dir, |series| series.steps[0].duration_sec = 86_400);
    attack(
        "longer",
        &longer,
        &said("the duration was 24 h, but the run says 60 s"),
    );
    attack(
        "manifest",
        &|dir: &Path| {
            let path = dir.join("stage-1/manifest.json");
            fs::write(
                &path,
                fs::read_to_string(&path)
                    .unwrap()
                    .replace("\"seed\":", "\"seed\": "),
            )
            .unwrap();
        },
        "stage-1/manifest.json - its bytes have the checksum ",
    );
    // The run of another load, with the manifest of a stage, whose checksum is correct.
    attack(
        "disguised",
        &|dir: &Path| {
            let own = run_dir::manifest(&dir.join("stage-1")).unwrap();
            replace(dir.join("stage-1"), &bench.path("light"));
            run_dir::write_json(&dir.join("stage-1"), run_dir::MANIFEST, &own).unwrap();
        },
        "stage 1: its run is damaged: manifest.json is too long",
    );
    attack(
        "hlog",
        &|dir: &Path| {
            let path = dir.join("stage-3/service.hlog");
            let text = fs::read_to_string(&path).unwrap();
            fs::write(&path, text.replacen("reads", "raeds", 1)).unwrap();
        },
        "stage 3: its run is damaged: service.hlog is changed",
    );
    attack(
        "words",
        &|dir| {
            edit(dir, |series: &mut Series| {
                let conclusion = series.conclusion.as_mut().unwrap();
                conclusion.sentence = conclusion.sentence.replace("0.05x", "30x");
            })
        },
        &said("30x passed, but stage 1 had 0.05x"),
    );
    // The untouched series is still a pass, and a new series can be started beside a changed one.
    bench
        .flashproof(&SCREENING)
        .expect(0)
        .shows(&["passed the screening for 0.05x"]);
    let fresh = SCREENING.map(|word| if word == SERIES { "deleted" } else { word });
    bench
        .flashproof(&[&fresh[..], &["--fresh"]].concat())
        .expect(0);
    bench.flashproof(&["report", "deleted.2"]).expect(0);
}

/// Like the other attacks, but the command with the original limits must name the edited limits.
fn attack_terms(bench: &Bench, name: &str, change: impl Fn(&Path), why: &str) {
    copy(&bench.path(SERIES), &bench.path(name));
    change(&bench.path(name));
    let report = bench.flashproof(&["report", name]).expect(4);
    assert!(
        answer(&report, "INVALID").contains(why),
        "{why}\n{}",
        report.stdout
    );
    let again = SCREENING.map(|word| if word == SERIES { name } else { word });
    bench
        .flashproof(&again)
        .expect_error(2, &["limits was \"6%>1ms\""]);
    bench
        .flashproof(&[&again[..], &["--sla", "6%>1ms"]].concat())
        .expect_error(4, &[why]);
}

#[test]
fn a_certification_with_a_replaced_stage_is_not_resumed() {
    let bench = Bench::new();
    let slow = words("certify sim:read-us=1500 --out series --load 0.05 --duration 1m --quiet");
    bench.flashproof(&slow).expect(1);
    // The failed stage becomes a pass, and the series unfinished.
    let config = "device-names: sim:read-us=1500\ntest-duration-sec: 60\nread-reqs-per-sec: 100\n";
    bench
        .start_as(
            "light.conf",
            "light",
            config,
            &["--quiet", "--sla", "99%>10ms"],
        )
        .end()
        .expect(0);
    replace(bench.path("series/stage-1"), &bench.path("light"));
    edit(&bench.path(SERIES), |series| {
        series.conclusion = None;
        series.steps[0].outcome = Some(results::judge::Outcome::Pass);
    });
    let why = "series.json says that write-reqs-per-sec was 50, but the run says 0";
    bench
        .flashproof(&slow)
        .expect_error(4, &["cannot use the series in series - stage 1: ", why]);
    let report = bench.flashproof(&["report", SERIES]).expect(4);
    assert!(report.stdout.contains(why), "{}", report.stdout);
}

#[test]
fn a_rating_with_a_replaced_run_or_an_edited_conclusion_is_invalid() {
    let bench = Bench::new();
    let rate = words("rate sim:channels=1 --out series --slice 12s --from 2 --up-to 4 --quiet");
    bench.flashproof(&rate).expect(0);
    let series = Series::read(&bench.path(SERIES)).unwrap().unwrap();
    let first = &series.steps[0];
    let last = series.steps.last().unwrap();
    copy(&bench.path(SERIES), &bench.path("replaced"));
    replace(
        bench.path("replaced").join(&last.dir),
        &bench.path(SERIES).join(&first.dir),
    );
    let why = format!(
        "{}: series.json says that the load was {}x, but the run says 2x",
        last.name, last.multiple
    );
    is_invalid(&bench, &rate, "replaced", &why);
    copy(&bench.path(SERIES), &bench.path("words"));
    edit(&bench.path("words"), |series| {
        let conclusion = series.conclusion.as_mut().unwrap();
        conclusion.sentence = conclusion
            .sentence
            .replace("the rating is", "the rating is 99x and");
        conclusion.sentence = conclusion
            .sentence
            .replace("the rating is at least", "the rating is 99x and at least");
    });
    let report = bench.flashproof(&["report", "words"]).expect(4);
    assert!(
        report
            .stdout
            .contains("series.json says that the rating is 99x, but its steps say "),
        "{}",
        report.stdout
    );
}

#[test]
fn a_baseline_with_replaced_runs_or_edited_results_is_invalid() {
    let bench = Bench::new();
    let drive = "sim:channels=4+read-us=2000+write-us=1000";
    let baseline = [
        "baseline",
        drive,
        "--out",
        SERIES,
        "--duration",
        "70s",
        "--quiet",
    ];
    bench.flashproof(&baseline).expect(0);
    let series = Series::read(&bench.path(SERIES)).unwrap().unwrap();
    let is_depth = |step: &&conclusions::series::Step| step.details["part"] == "depth";
    let depths: Vec<_> = series.steps.iter().filter(is_depth).collect();
    copy(&bench.path(SERIES), &bench.path("swapped"));
    replace(
        bench.path("swapped").join(&depths[0].dir),
        &bench.path(SERIES).join(&depths[1].dir),
    );
    let why = format!(
        "{}: series.json says that the job was --rw=",
        depths[0].name
    );
    let report = bench.flashproof(&["report", "swapped"]).expect(4);
    assert!(
        answer(&report, "INVALID").contains(&why),
        "{why}\n{}",
        report.stdout
    );
    bench
        .flashproof(&["rate", "predict", "swapped"])
        .expect_error(4, &["cannot use the series in swapped - ", &why]);
    copy(&bench.path(SERIES), &bench.path("faster"));
    edit(&bench.path("faster"), |series| {
        let at = series
            .steps
            .iter()
            .position(|step| step.details["part"] == "depth")
            .unwrap();
        let reads = &mut series.steps[at].details["reads"];
        reads["ops"] = (reads["ops"].as_u64().unwrap() * 2).into();
    });
    let again = baseline.map(|word| if word == SERIES { "faster" } else { word });
    bench
        .flashproof(&again)
        .expect_error(4, &["series.json says that the drive completed "]);
    bench.flashproof(&["report", SERIES]).expect(0);
}
