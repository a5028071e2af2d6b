//! Checks docs/sizing.md: each command is run, in the order of the page, and must print the output on the page.
//!
//! In a block of `console`, a line that begins with `$ ` is a command. The lines after it are its output, including
//! errors; `[...]` stands for any omitted lines. To renew the outputs: `UPDATE_DOCS=1 cargo test -p flashproof --test
//! flashproof sizing_doc`. Omitted lines stay omitted.

use crate::support::{Bench, project};

const LEFT_OUT: &str = "[...]";

#[test]
fn every_command_in_docs_sizing_md_prints_the_output_on_the_page() {
    let bench = Bench::new();
    bench.link_examples();
    let path = project().join("docs/sizing.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let mut renewed = String::new();
    let mut commands = 0;
    let mut wrong = Vec::new();
    let mut lines = page.lines().peekable();
    let mut in_console = false;
    while let Some(line) = lines.next() {
        renewed += &format!("{line}\n");
        match line {
            "```console" => in_console = true,
            "```" => in_console = false,
            _ if in_console && line.starts_with("$ ") => {
                let mut said = Vec::new();
                while let Some(line) =
                    lines.next_if(|line| !line.starts_with("$ ") && *line != "```")
                {
                    said.push(line);
                }
                let printed = run(&bench, &line[2..]);
                commands += 1;
                if matches(&said, &printed) {
                    renewed += &said
                        .iter()
                        .map(|line| format!("{line}\n"))
                        .collect::<String>()
                } else {
                    wrong.push(format!("{line}\n{}", printed.join("\n")));
                    renewed += &anew(&said, &printed);
                }
            }
            _ => {}
        }
    }
    assert!(
        commands >= 5,
        "only {commands} commands were found in the page"
    );
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, renewed).unwrap();
        return;
    }
    assert!(
        wrong.is_empty(),
        "docs/sizing.md is out of date: UPDATE_DOCS=1 cargo test -p flashproof --test flashproof sizing_doc - look at the \
         difference\n\n{}",
        wrong.join("\n\n")
    );
}

/// Output of a command, without trailing blanks and times of the wall clock.
fn run(bench: &Bench, command: &str) -> Vec<String> {
    let shell = bench.shell(&format!("{command} 2>&1")).output().unwrap();
    String::from_utf8_lossy(&shell.stdout)
        .lines()
        .map(|line| line.trim_end().to_owned())
        .collect()
}

/// True if the lines match the output; `[...]` stands for any number of lines.
fn matches(said: &[&str], printed: &[String]) -> bool {
    match said {
        [] => printed.is_empty(),
        [LEFT_OUT, rest @ ..] => (0..=printed.len()).any(|skip| matches(rest, &printed[skip..])),
        [line, rest @ ..] => {
            printed
                .first()
                .is_some_and(|first| first == line.trim_end())
                && matches(rest, &printed[1..])
        }
    }
}

/// The new output, with omitted lines at the same place as before if the neighbouring lines still exist.
fn anew(said: &[&str], printed: &[String]) -> String {
    let place = said.iter().position(|line| *line == LEFT_OUT);
    let kept = place.and_then(|place| {
        let find = |line: Option<&&str>| {
            line.and_then(|line| {
                printed
                    .iter()
                    .position(|printed| printed == line.trim_end())
            })
        };
        let begin = if place == 0 {
            0
        } else {
            find(said.get(place - 1))? + 1
        };
        let end = if place + 1 == said.len() {
            printed.len()
        } else {
            find(said.get(place + 1))?
        };
        let before = printed.get(..begin)?;
        let after = printed.get(end..)?;
        Some([before, &[LEFT_OUT.to_owned()], after].concat())
    });
    kept.unwrap_or_else(|| printed.to_vec())
        .iter()
        .map(|line| format!("{line}\n"))
        .collect()
}

#[test]
fn an_ellipsis_in_a_documented_output_matches_any_lines() {
    let printed = ["a", "b", "c", "d"].map(str::to_owned);
    assert!(matches(&["a", LEFT_OUT, "d"], &printed) && matches(&[LEFT_OUT], &printed));
    assert!(
        !matches(&["a", LEFT_OUT, "c"], &printed)
            && !matches(&["a"], &printed)
            && !matches(&[], &printed)
    );
    assert_eq!(anew(&["x", "a", LEFT_OUT, "d"], &printed), "a\n[...]\nd\n");
}
