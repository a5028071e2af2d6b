//! Terminals that are narrow, and terminals that are closed in the middle of a run.

use crate::support;
use crate::support::words;

use conclusions::series::Series;
use results::judge::End;
use rustix::fs::OFlags;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use support::info_server::{CREDENTIAL_OF_ADMIN, InfoServer, Mode};
use support::{Bench, Killed, OUT, skip};

/// A pseudoterminal: `window` is the side of a terminal window or a connection, `inside` the side of the programs.
struct Terminal {
    window: File,
    inside: File,
}

impl Terminal {
    fn open(columns: u16) -> Option<Self> {
        let open = || -> rustix::io::Result<(File, String)> {
            let window = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
            grantpt(&window)?;
            unlockpt(&window)?;
            let name = ptsname(&window, Vec::new())?.to_string_lossy().into_owned();
            Ok((File::from(window), name))
        };
        let (window, name) = open()
            .map_err(|error| skip::<()>(&format!("no terminal can be had: {error}")))
            .ok()?;
        // Opened with O_NOCTTY, so that it does not become the controlling terminal of the test.
        let inside = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(0o400)
            .open(name)
            .unwrap();
        let size = Winsize {
            ws_row: 25,
            ws_col: columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&inside, size).unwrap();
        Some(Self { window, inside })
    }

    /// Starts `command` in a session that has this terminal, as a login shell does.
    fn run(&self, command: &Command) -> Option<Killed> {
        let mut session = Command::new("setsid");
        session
            .arg("--ctty")
            .arg(command.get_program())
            .args(command.get_args());
        session.current_dir(command.get_current_dir().unwrap());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => session.env(name, value),
                None => session.env_remove(name),
            };
        }
        let end = || Stdio::from(self.inside.try_clone().unwrap());
        match session.stdin(end()).stdout(end()).stderr(end()).spawn() {
            Ok(child) => Some(Killed(child)),
            Err(error) => skip(&format!("setsid: {error}")),
        }
    }
}

fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(
            started.elapsed() < Duration::from_secs(60),
            "not until {what}"
        );
        thread::sleep(Duration::from_millis(10));
    }
}

fn intervals(run: &Path) -> usize {
    std::fs::read_to_string(run.join("telemetry.csv"))
        .map_or(0, |text| text.lines().count().saturating_sub(1))
}

/// A run of `seconds` in real time that only reads a file.
fn command(bench: &Bench, seconds: u32) -> Command {
    File::create(bench.path("file"))
        .unwrap()
        .set_len(16 << 20)
        .unwrap();
    let config =
        format!("device-names: file\ntest-duration-sec: {seconds}\nread-reqs-per-sec: 100\n");
    bench.write("test.conf", config);
    bench.prepare(&["storage", "test.conf", "--out", OUT, "--sla", "99%>10s"])
}

#[test]
fn a_run_completes_although_its_terminal_is_closed() {
    let bench = Bench::new();
    let Some(terminal) = Terminal::open(80) else {
        return;
    };
    let Some(mut child) = terminal.run(&command(&bench, 6)) else {
        return;
    };
    wait_for("its first interval", || intervals(&bench.path(OUT)) > 0);
    // Closing the last descriptor of the window causes SIGHUP, and EIO for writes.
    drop(terminal);
    let gone_after = intervals(&bench.path(OUT));
    assert!(gone_after < 6, "the terminal went away in the middle");
    let status = child.0.wait().unwrap();
    assert_eq!(status.code(), Some(0), "{status}");
    let run = bench.run();
    assert_eq!(
        (run.verdict.end.clone(), run.intervals, run.agrees()),
        (End::Completed, 6, Some(true))
    );
}

#[test]
fn a_password_is_read_without_echo_and_echo_is_restored() {
    for (typed, code) in [
        (&b"adnim\x7f\x7f\x7fmin\r"[..], 0),
        (b"adm\x03", 2),
        (b"\x04", 2),
    ] {
        let bench = Bench::new();
        let server =
            InfoServer::start_as(Mode::Login("me".to_owned(), CREDENTIAL_OF_ADMIN.to_owned()));
        let Some(terminal) = Terminal::open(80) else {
            return;
        };
        let host = server.host();
        let options = [
            "--host",
            &host,
            "--user",
            "me",
            "--duration",
            "1",
            "--every",
            "1",
            "--out",
            OUT,
        ];
        let command = bench.prepare(&[&["size", "collect"], &options[..]].concat());
        let Some(mut child) = terminal.run(&command) else {
            return;
        };
        let mut shown = String::new();
        wait_for("the question", || {
            shown += &read_so_far(&terminal);
            shown.contains("password of me: ") && !echoes(&terminal)
        });
        (&terminal.window).write_all(typed).unwrap();
        let mut ended = None;
        wait_for("its end", || {
            ended = child.0.try_wait().unwrap();
            ended.is_some()
        });
        shown += &read_so_far(&terminal);
        assert_eq!(
            ended.and_then(|status| status.code()),
            Some(code),
            "{shown}"
        );
        assert!(echoes(&terminal), "the terminal echoes input again");
        assert!(!shown.contains("adm") && !shown.contains("adn"), "{shown}");
    }
}

/// Text shown by a terminal since the last call.
fn read_so_far(terminal: &Terminal) -> String {
    rustix::fs::fcntl_setfl(&terminal.window, OFlags::NONBLOCK).unwrap();
    let mut bytes = [0; 4096];
    let mut all = Vec::new();
    while let Ok(length @ 1..) = (&terminal.window).read(&mut bytes) {
        all.extend_from_slice(&bytes[..length]);
    }
    String::from_utf8_lossy(&all).into_owned()
}

fn echoes(terminal: &Terminal) -> bool {
    tcgetattr(&terminal.inside)
        .unwrap()
        .local_modes
        .contains(LocalModes::ECHO)
}

#[test]
fn a_run_completes_although_its_terminal_is_blocked() {
    let bench = Bench::new();
    let Some(terminal) = Terminal::open(80) else {
        return;
    };
    // Like Ctrl-S or a broken connection, this blocks writes to the terminal.
    rustix::termios::tcflow(&terminal.inside, rustix::termios::Action::OOff).unwrap();
    let Some(_child) = terminal.run(&command(&bench, 3)) else {
        return;
    };
    wait_for("its verdict", || bench.exists("run/verdict.json"));
    assert_eq!(bench.run().agrees(), Some(true));
}

#[test]
fn a_series_completes_although_its_terminal_is_blocked() {
    let bench = Bench::new();
    let Some(terminal) = Terminal::open(80) else {
        return;
    };
    rustix::termios::tcflow(&terminal.inside, rustix::termios::Action::OOff).unwrap();
    let command = bench.prepare(&words("certify --out series --load 0.1 --duration 60s"));
    let Some(_child) = terminal.run(&command) else {
        return;
    };
    wait_for("its conclusion", || {
        Series::read(&bench.path("series"))
            .ok()
            .flatten()
            .is_some_and(|series| series.conclusion.is_some())
    });
    wait_for("its report", || bench.exists("series/report.html"));
}

/// All output of `command` on a terminal of 80 columns, and its exit code.
fn shown(command: &Command) -> Option<(String, Option<i32>)> {
    let terminal = Terminal::open(80)?;
    let mut child = terminal.run(command)?;
    let Terminal { mut window, inside } = terminal;
    drop(inside);
    let mut text = Vec::new();
    // After the last program has closed the terminal, reads fail with EIO.
    let _ = window.read_to_end(&mut text);
    let text = String::from_utf8_lossy(&text).into_owned();
    Some((text, child.0.wait().unwrap().code()))
}

#[test]
fn output_after_progress_begins_on_a_new_line() {
    let bench = Bench::new();
    let command = bench.prepare(&words("certify --out series --load 0.1 --duration 60s"));
    let Some((text, code)) = shown(&command) else {
        return;
    };
    assert_eq!(code, Some(0));
    for stage in ["stage 1 of 2: PASS", "stage 2 of 2: PASS"] {
        let starts = ["\n", "\r\x1b[K"].map(|start| format!("{start}{stage}"));
        assert!(starts.iter().any(|start| text.contains(start)), "{text:?}");
    }
}

#[test]
fn a_baseline_on_a_terminal_shows_each_result_once_in_the_table_at_the_end() {
    let bench = Bench::new();
    let Some((text, code)) =
        shown(&bench.prepare(&words("baseline sim:channels=2+read-us=2000 --duration 2m")))
    else {
        return;
    };
    assert_eq!(code, Some(0), "{text}");
    let (before, table) = text.split_once("MEASURED").unwrap();
    assert!(table.contains("IOPS"), "{table}");
    assert!(
        before.contains("reads at depth 4 (") && !before.contains("reads per second"),
        "{before}"
    );
    assert!(!before.contains("run directory: "), "{before}");
}

#[test]
fn a_page_fits_the_terminal_and_has_colours_unless_no_color_is_set() {
    let bench = Bench::new();
    let config = "device-names: sim:stall-at-s=2+stall-ms=500\ntest-duration-sec: 5\nread-reqs-per-sec: 1000\n";
    bench.write("test.conf", config);
    for (no_color, said) in [
        ("", "\x1b[1;31mFAIL\x1b[0m: too slow: "),
        ("1", "FAIL: too slow: "),
    ] {
        let Some(terminal) = Terminal::open(60) else {
            return;
        };
        let mut command = bench.prepare(&[
            "storage",
            "test.conf",
            "--quiet",
            "--out",
            &format!("run{no_color}"),
        ]);
        command.env("NO_COLOR", no_color);
        let Some(mut child) = terminal.run(&command) else {
            return;
        };
        assert_eq!(child.0.wait().unwrap().code(), Some(1));
        let page = read_so_far(&terminal);
        assert!(page.starts_with(said), "{page:?}");
        // Lines with a command are not wrapped, so that the command can be pasted.
        let (steps, sentences): (Vec<_>, Vec<_>) =
            page.lines().partition(|line| line.starts_with("Do: "));
        let is_command = steps.iter().all(|step| step.contains("(flashproof rate)"));
        assert!(steps.len() == 1 && is_command, "{page}");
        let mut lengths = sentences
            .iter()
            .map(|line| line.replace(said, "").trim_end().chars().count());
        assert!(lengths.all(|length| length < 60), "{page}");
        assert!(page.lines().count() > 3, "the sentences are longer: {page}");
    }
}

#[test]
fn a_table_is_wrapped_on_a_terminal_and_never_in_a_pipe() {
    let bench = Bench::new();
    for (out, seed) in [("a", 1), ("b", 2)] {
        let config = format!(
            "device-names: sim:name=a-long-name+stall-at-s=2+stall-ms=500\n\
             test-duration-sec: 60\nread-reqs-per-sec: 1000\nseed: {seed}\n"
        );
        let run = bench.start_as(&format!("{out}.conf"), out, &config, &["--quiet"]);
        run.end().expect(1);
    }
    let arguments = ["report", "compare", "a", "b"];
    let mut command = bench.prepare(&arguments);
    command.env("NO_COLOR", "1");
    let Some((page, code)) = shown(&command) else {
        return;
    };
    assert_eq!(code, Some(0), "{page}");
    let table: Vec<&str> = page
        .lines()
        .skip_while(|line| !line.starts_with("result"))
        .collect();
    assert!(
        table
            .iter()
            .all(|line| line.trim_end().chars().count() < 80),
        "{page}"
    );
    assert!(page.contains("sim:name=a-long-name"), "{page}");
    let piped = bench.flashproof(&arguments).expect(0).stdout;
    let devices = piped
        .lines()
        .find(|line| line.starts_with("devices"))
        .unwrap();
    assert_eq!(
        devices
            .matches("sim:name=a-long-name+stall-at-s=2+stall-ms=500")
            .count(),
        2
    );
}

#[test]
fn progress_fits_a_narrow_terminal_and_has_no_carriage_returns_in_a_file() {
    let bench = Bench::new();
    let Some(mut terminal) = Terminal::open(40) else {
        return;
    };
    let Some(mut child) = terminal.run(&command(&bench, 2)) else {
        return;
    };
    // A busy host makes the run invalid.
    assert!(matches!(child.0.wait().unwrap().code(), Some(0 | 4)));
    let mut text = vec![0; 1 << 16];
    let length = terminal.window.read(&mut text).unwrap();
    let text = String::from_utf8_lossy(&text[..length]).into_owned();
    let drawn: Vec<&str> = text
        .split('\r')
        .filter(|line| line.contains("\x1b[K"))
        .collect();
    assert!(!drawn.is_empty(), "{text:?}");
    for line in drawn {
        let line = line.trim_end().trim_end_matches("\x1b[K");
        assert!(
            line.chars().count() < 40 && line.contains(" left"),
            "{line:?}"
        );
    }
    std::fs::remove_dir_all(bench.path(OUT)).unwrap();
    let ended = bench
        .flashproof(&["storage", "test.conf", "--out", OUT, "--sla", "99%>10s"])
        .expect_judged();
    assert!(
        ended.stderr.contains(" left\n") && !ended.stderr.contains('\r'),
        "{:?}",
        ended.stderr
    );
}
