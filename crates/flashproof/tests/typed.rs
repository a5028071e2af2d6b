//! Runs each command line of README and docs/ that can run here, page by page and in order, in an empty directory with
//! the project's examples. Names of devices and nodes are replaced by names that do not exist, and the command must be
//! refused only for this reason. docs/sizing.md has its own test, which compares the output.

use crate::support::{Bench, project};
use std::path::PathBuf;

/// Commands that cannot run here: they need other files of the reader, a server in the background, or a terminal.
const NOT_HERE: [&str; 19] = [
    "fleet inventory --out /shared/lab --slurm",
    "check witness --listen",
    "--peers ",
    "/var/tmp/run-1",
    "cluster.conf --target",
    "flashproof-results/rate-S64ANX0T402",
    "serve.log",
    "trace.txt.gz",
    "ops.txt",
    "size config   ",
    "report status flashproof-results/certify-*",
    "serve.conf &",
    "engine client -k",
    "engine bench --loopback",
    "--tls-cafile ca.pem",
    "/usr/share/doc/flashproof",
    "report status flashproof-results/demo",
    "report status flashproof-results/storage-*",
    "report status flashproof-results/check-2026",
];

/// Commands of several pages, with their exit codes. They take seconds of CPU time, so each runs once, and its results are copied.
const SHARED: [(&str, i32); 2] = [
    (
        "flashproof storage examples/demo.conf --out flashproof-results/demo",
        1,
    ),
    ("flashproof certify", 0),
];

/// Commands that take minutes in a test build. Other lines on the pages have the same options.
const LONG: [&str; 5] = [
    "flashproof rate ",
    "flashproof baseline sim:",
    "engine bench",
    "storage tenants",
    "waf model",
];

#[test]
fn every_documented_command_that_can_run_here_has_the_expected_exit_code() {
    let project = project();
    let mut pages: Vec<PathBuf> = std::fs::read_dir(project.join("docs"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    pages.retain(|page| {
        page.extension().is_some_and(|ext| ext == "md") && !page.ends_with("sizing.md")
    });
    pages.push(project.join("README.md"));
    pages.sort();
    let shared = SHARED.map(|(command, code)| {
        let bench = Bench::new();
        bench.link_examples();
        assert_eq!(typed(&bench, command).0, code);
        (command, bench)
    });
    let mut run = 0;
    let mut wrong = Vec::new();
    for page in pages {
        let bench = Bench::new();
        bench.link_examples();
        let text = std::fs::read_to_string(&page).unwrap();
        let mut is_fenced = false;
        for (number, line) in (1..).zip(text.lines()) {
            is_fenced ^= line.starts_with("```");
            let Some(command) = command_of(line, is_fenced) else {
                continue;
            };
            let is_long =
                LONG.iter().any(|long| command.contains(long)) && !command.contains("--dry-run");
            let is_ours = ["/dev/", "127.0.0.", "/not/here/"]
                .iter()
                .all(|foreign| !command.contains(foreign));
            let is_left_out = command.contains("--parquet") && !cfg!(feature = "export");
            if is_left_out || NOT_HERE.iter().any(|part| line.contains(part)) || is_ours && is_long
            {
                continue;
            }
            run += 1;
            let (ended, said) = typed(&bench, &with_copies(&command, &shared));
            // A missing device gives exit code 3. Commands that only show or write a file need no device.
            let expected = if is_ours {
                [0, 1].contains(&ended)
            } else {
                [0, 1, 3].contains(&ended)
            };
            if !expected {
                let page = page.file_name().unwrap_or_default().to_string_lossy();
                wrong.push(format!(
                    "{page}:{number}: {command}\nended with {ended}:\n{said}"
                ));
            }
        }
        for entry in std::fs::read_dir(bench.path("")).unwrap() {
            // Results are in one directory. Other files in the working directory must be named by a command.
            let name = entry.unwrap().file_name().into_string().unwrap();
            let is_named = [".conf", ".data", ".fio", ".iolog", ".json", ".toml"]
                .iter()
                .any(|end| name.ends_with(end));
            if !is_named && !["examples", "flashproof-results", "state"].contains(&name.as_str()) {
                wrong.push(format!(
                    "{}: its commands leave {name} in the working directory",
                    page.display()
                ));
            }
        }
    }
    assert!(run >= 60, "only {run} commands were found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The command of an indented or fenced line, without the remark after it, and with names of devices and nodes that do
/// not exist here.
fn command_of(line: &str, is_fenced: bool) -> Option<String> {
    let line = line
        .strip_prefix("    ")
        .or(is_fenced.then_some(line))?
        .trim_start();
    let line = line.strip_prefix("$ ").unwrap_or(line);
    if !["flashproof ", "printf ", "(cat "]
        .iter()
        .any(|start| line.starts_with(start))
    {
        return None;
    }
    let end = [line.find("   "), line.find(" #")]
        .into_iter()
        .flatten()
        .min()
        .unwrap_or(line.len());
    Some(
        line[..end]
            .trim_end()
            .replace("/dev/nvme", "/dev/not-here-")
            .replace("192.0.2.", "127.0.0."),
    )
    .map(|line| {
        ["/var/lib/", "/mnt/"]
            .iter()
            .fold(line, |line, dir| line.replace(dir, "/not/here/"))
    })
}

/// `command`, which copies results if it begins with one of the `shared` commands, each with the directory in which it ran.
fn with_copies(command: &str, shared: &[(&str, Bench)]) -> String {
    let first = command.split(" && ").next().unwrap_or(command);
    let Some((_, bench)) = shared.iter().find(|(of, _)| *of == first) else {
        return command.to_owned();
    };
    let results = bench.path("flashproof-results");
    let copy = format!("cp -rT {} flashproof-results", results.display());
    command.replacen(first, &copy, 1)
}

fn typed(bench: &Bench, command: &str) -> (i32, String) {
    let shell = bench.shell(command).output().unwrap();
    (
        shell.status.code().unwrap_or(-1),
        String::from_utf8_lossy(&shell.stderr).into_owned(),
    )
}

#[test]
fn a_documented_command_ends_where_its_comment_begins() {
    let of = |line| command_of(line, false).unwrap_or_default();
    assert_eq!(
        of("    flashproof doctor /dev/nvme1n1    # what will spoil it"),
        "flashproof doctor /dev/not-here-1n1"
    );
    assert_eq!(
        of("    $ flashproof rate sim: --slice 2m   the same in seconds"),
        "flashproof rate sim: --slice 2m"
    );
    assert_eq!(of("flashproof says"), "");
    let fenced = command_of("$ flashproof doctor", true).unwrap_or_default();
    assert_eq!(fenced, "flashproof doctor");
}
