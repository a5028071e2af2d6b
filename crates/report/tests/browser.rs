//! Pages in a real browser: every chart is drawn, no script fails, nothing is fetched, and a page fits on a phone and
//! on paper.

use crate::support::{SHORT, Shape, write_baseline, write_run, write_series};
use conclusions::series::SeriesPurpose;
use report::comparison::{CandidateDir, OperatorData, compare};
use report::document::Document;
use results::judge::Outcome;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Mutex;

/// Programs that are tried: all start a browser of Chromium's family.
const BROWSERS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];

/// Runs one browser at a time: on a small machine two at once are slower than two in turn.
static ONE: Mutex<()> = Mutex::new(());

/// The browser to test with; `None`, with a message, if there is none.
fn browser() -> Option<&'static str> {
    let found = BROWSERS.iter().find(|name: &&&str| {
        Command::new(name)
            .arg("--version")
            .output()
            .is_ok_and(|out| out.status.success())
    });
    if found.is_none() {
        let test = std::thread::current().name().unwrap_or("test").to_owned();
        let _ = writeln!(
            io::stderr(),
            "{test} skipped: there is no {} in PATH",
            BROWSERS.join(" or ")
        );
    }
    found.copied()
}

/// Opens `page` in `browser` with a separate profile, until the scripts of the page have nothing left to do.
fn open(browser: &str, page: &Path, arguments: &[&str]) -> Output {
    let profile = tempfile::tempdir().unwrap();
    let output = Command::new(browser)
        .args([
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
        ])
        .args([
            "--disable-background-networking",
            "--enable-logging=stderr",
            "--virtual-time-budget=60000",
        ])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .args(arguments)
        .arg(format!("file://{}", page.display()))
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

/// The value of an attribute that the page's script sets.
fn attribute<'a>(dom: &'a str, name: &str) -> &'a str {
    let start = dom
        .find(&format!("{name}=\""))
        .unwrap_or_else(|| panic!("no {name}"))
        + name.len()
        + 2;
    dom[start..].split('"').next().unwrap()
}

/// Checks what must hold for every page. Returns the number of charts of the page.
fn check(browser: &str, page: &Path) -> usize {
    let output = open(browser, page, &["--dump-dom"]);
    let dom = String::from_utf8_lossy(&output.stdout);
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(
        attribute(&dom, "data-errors"),
        "0",
        "{}",
        dom.get(..600).unwrap_or_default()
    );
    assert!(!log.contains("CONSOLE"), "nothing on the console: {log}");
    let expected: usize = attribute(&dom, "data-charts-expected").parse().unwrap();
    assert_eq!(attribute(&dom, "data-charts-drawn"), expected.to_string());
    // Counted in the page, not by its script: every chart has axes.
    assert_eq!(
        dom.matches("<path class=\"axis\"").count(),
        expected,
        "charts in the page"
    );
    assert!(
        !dom.contains("data-hacked"),
        "text from a file ran as a script"
    );
    println!(
        "{expected} charts drawn {} ms after opening",
        attribute(&dom, "data-drawn-after-ms")
    );
    expected
}

/// Number of pixels by which the page is wider than a frame as wide as a small phone.
fn overflow_px(browser: &str, page: &Path) -> i64 {
    let script = "
        const overflow = inside.document.documentElement.scrollWidth - inside.innerWidth;
        return `${inside.innerWidth} ${overflow}`;";
    let seen = beside(browser, page, 360, script);
    let (width, overflow) = seen.split_once(' ').unwrap();
    assert_eq!(width, "360");
    overflow.parse().unwrap()
}

/// Shows the page in a frame of `width` pixels, and runs `script` outside the frame. In `script`, `inside` is the
/// window of the page. Returns the result of `script`.
fn beside(browser: &str, page: &Path, width: u32, script: &str) -> String {
    let frame = page.with_extension("beside.html");
    let html = format!(
        "<body><iframe src=\"{}\" width={width} height=700></iframe><script>\n\
         const frame = document.querySelector('iframe');\n\
         const look = () => {{\n\
         const inside = frame.contentWindow; const body = inside.document.body;\n\
         if (!body || !body.dataset.drawnAfterMs) return setTimeout(look, 100);\n\
         document.body.dataset.result = (() => {{ {script} }})(); }};\n\
         look();</script>",
        page.display()
    );
    fs::write(&frame, html).unwrap();
    let output = open(
        browser,
        &frame,
        &["--dump-dom", "--allow-file-access-from-files"],
    );
    attribute(&String::from_utf8_lossy(&output.stdout), "data-result").to_owned()
}

fn beside_short_run(script: &str) -> Option<String> {
    let browser = browser()?;
    let _one = ONE.lock();
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("run");
    write_run(&run, SHORT);
    let (page, _) = write_page(dir.path(), "page.html", &[run]);
    Some(beside(browser, &page, 900, script))
}

fn write_page(dir: &Path, name: &str, of: &[PathBuf]) -> (PathBuf, usize) {
    let html = Document::read(of).unwrap().html();
    let page = dir.join(name);
    fs::write(&page, &html).unwrap();
    (page, html.len())
}

#[test]
fn a_run_is_drawn_whole_and_fits_a_phone_and_paper() {
    let Some(browser) = browser() else { return };
    let _one = ONE.lock();
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("run");
    write_run(
        &run,
        Shape {
            devices: &["/dev/loop0", crate::support::HOSTILE],
            slow_every: 7,
            ..SHORT
        },
    );
    let (page, _) = write_page(dir.path(), "page.html", &[run]);
    assert!(check(browser, &page) >= 15);
    let overflow = overflow_px(browser, &page);
    assert!(overflow <= 0, "{overflow} px wider than a phone");
    let pdf = dir.path().join("page.pdf");
    open(
        browser,
        &page,
        &[&format!("--print-to-pdf={}", pdf.display())],
    );
    assert!(fs::read(&pdf).unwrap().starts_with(b"%PDF"), "it prints");
}

#[test]
fn a_chart_shows_values_zooms_with_its_neighbours_and_hides_lines() {
    // The pointer goes to the middle; drags from a third to two thirds along x; double clicks; hides the first line.
    let script = "
        const plot = inside.document.querySelector('[id*=percentiles-service-reads]');
        const svg = plot.querySelector('svg'), box = svg.getBoundingClientRect();
        svg.setPointerCapture = () => {};
        const at = (type, part) => svg.dispatchEvent(new inside.PointerEvent(type, {pointerType: 'mouse', button: 0,
            bubbles: true, clientX: box.left + box.width * part, clientY: box.top + box.height / 2}));
        const last = (of = svg) => [...of.querySelectorAll('text')].filter((text) => text.getAttribute('text-anchor') === 'middle')
            .map((text) => text.textContent).filter((text) => /^[0-9.]+$/.test(text)).join(' ');
        const lines = () => svg.querySelectorAll('path.line').length;
        const seen = [];
        at('pointermove', .5);
        seen.push(plot.querySelector('.tip').innerText.replace(/\\s+/g, ' '));
        seen.push(last());
        at('pointerdown', .34); at('pointermove', .5); at('pointerup', .66);
        const other = inside.document.querySelector('[id*=throughput] svg');
        seen.push(last(), last(other), inside.location.hash);
        svg.dispatchEvent(new inside.MouseEvent('dblclick', {bubbles: true}));
        seen.push(last(), lines());
        plot.querySelector('.legend button').click();
        seen.push(lines());
        return seen.join(' | ');";
    let Some(seen) = beside_short_run(script) else {
        return;
    };
    let seen: Vec<&str> = seen.split(" | ").collect();
    let [tip, all, zoomed, other, moment, again, lines, fewer] = seen[..] else {
        panic!("{seen:?}")
    };
    assert!(
        tip.starts_with("30 s p50: 0.09472 ms p90: ") && tip.contains(" max: "),
        "{tip}"
    );
    assert_eq!(
        (all, again),
        ("0 10 20 30 40 50 60", all),
        "a double click goes back"
    );
    assert_eq!(other, zoomed, "charts over time are zoomed together");
    assert!(moment.starts_with("#t="), "{moment}");
    let zoomed: Vec<u32> = zoomed
        .split(' ')
        .map(|tick| tick.parse().unwrap())
        .collect();
    assert!(
        zoomed.len() > 3 && zoomed[0] >= 15 && zoomed[zoomed.len() - 1] <= 45,
        "{zoomed:?}"
    );
    assert_eq!(
        lines.parse::<u32>().unwrap(),
        fewer.parse::<u32>().unwrap() + 1,
        "a hidden line is gone"
    );
}

#[test]
fn a_link_with_a_time_range_shows_this_range_in_all_charts_over_time() {
    // Opens the page at 10 to 20 s, then after the end of the run, where there is nothing to zoom to.
    let script = "
        const svg = inside.document.querySelector('[id*=percentiles-service-reads] > svg');
        const ticks = () => [...svg.querySelectorAll('text')].filter((text) => text.getAttribute('text-anchor') === 'middle')
            .map((text) => Number(text.textContent)).filter((tick) => tick >= 0);
        const range = (hash) => {
            inside.location.hash = hash;
            inside.dispatchEvent(new inside.Event('hashchange'));
            return `${Math.min(...ticks())} to ${Math.max(...ticks())}`;
        };
        return ['#t=10-20', '#t=7000-8000', '#t=20-10', '#t=1..2-3', '#t=all'].map(range).join();";
    let Some(seen) = beside_short_run(script) else {
        return;
    };
    assert_eq!(seen, "10 to 20,0 to 60,0 to 60,0 to 60,0 to 60");
}

#[test]
fn compared_runs_share_charts_and_a_link_with_a_time_range_zooms_those_over_time() {
    let Some(browser) = browser() else { return };
    let _one = ONE.lock();
    let dir = tempfile::tempdir().unwrap();
    let dirs = ["a", "b"].map(|name| dir.path().join(name));
    write_run(&dirs[0], SHORT);
    let twice_as_long = Shape {
        intervals: 120,
        slow_every: 7,
        ..SHORT
    };
    write_run(&dirs[1], twice_as_long);
    let candidates = dirs.map(|dir| CandidateDir { name: None, dir });
    let comparison = compare(&candidates, &OperatorData::default(), &[]).unwrap();
    let page = dir.path().join("page.html");
    fs::write(&page, comparison.html("flashproof")).unwrap();
    assert_eq!(check(browser, &page), 3);
    let overflow = overflow_px(browser, &page);
    assert!(overflow <= 0, "{overflow} px wider than a phone");
    // The colours of both lines in each chart, then the ends of both axes of time.
    let script = "
        const charts = ['percentiles', 'p99-9-over-time', 'rate-over-time']
            .map((id) => inside.document.querySelector(`[id*=${id}] > svg`));
        const colours = charts.map((svg) => [...svg.querySelectorAll('path.line')].map((line) => line.getAttribute('stroke')).join());
        inside.location.hash = '#t=10-20';
        inside.dispatchEvent(new inside.Event('hashchange'));
        const ends = charts.slice(1).map((svg) => Math.max(...[...svg.querySelectorAll('text')]
            .filter((text) => text.getAttribute('text-anchor') === 'middle').map((text) => Number(text.textContent) || 0)));
        return `${new Set(colours).size} ${colours[0]} ${ends}`;";
    assert_eq!(
        beside(browser, &page, 900, script),
        "1 #0072b2,#d55e00 20,20"
    );
}

#[test]
fn no_title_of_an_axis_is_longer_than_its_chart() {
    let script = "
        const titles = [...inside.document.querySelectorAll('.plot > svg > text[transform]')];
        const cut = titles.filter((title) => title.getBBox().width > title.ownerSVGElement.clientHeight - 20);
        return `${titles.length} titles; cut: ${cut.map((title) => title.textContent).join()}`;";
    let Some(seen) = beside_short_run(script) else {
        return;
    };
    let (count, cut) = seen.split_once(" titles; cut: ").unwrap();
    assert!(
        count.parse::<u32>().unwrap() > 12 && cut.is_empty(),
        "{seen}"
    );
}

#[test]
fn labelled_points_of_a_chart_show_their_names() {
    let script = "
        const page = inside.document, plot = page.createElement('div'), again = page.createElement('script');
        Object.assign(plot, {id: 'strip', className: 'plot tall'});
        page.querySelector('main').append(plot);
        const line = {name: 'bad drives', colour: 1, dash: 0, joined: false, symbols: true, named: true,
          x: [1, 1.02, 1.1], y: [4120, 3900, 96], labels: ['worst', 'second', 'third']};
        const chart = {id: 'strip', limits: [], marks: [], lines: [line], x: {title: '', ticks: [[1, 'model']]},
          y: {title: '', log: true}};
        page.getElementById('charts').textContent = JSON.stringify([chart]);
        again.textContent = [...page.scripts].at(-1).textContent;
        page.body.append(again);
        return [...plot.querySelectorAll('text.name')].map((name) => name.textContent).sort().join();";
    let Some(seen) = beside_short_run(script) else {
        return;
    };
    assert_eq!(seen, "second,third,worst");
}

#[test]
fn names_of_limits_are_drawn_between_the_axis_and_the_edge_of_the_chart() {
    let script = "
        const plot = inside.document.querySelector('[id*=percentiles-service-reads] > svg');
        const right = (of) => Math.round(of.getBoundingClientRect().right);
        const axis = right(plot.querySelector('path.axis'));
        const names = [...plot.querySelectorAll('text.limit')];
        const over = names.filter((name) => name.getBoundingClientRect().left < axis || right(name) > right(plot));
        return `${names.length} names; over: ${over.map((name) => name.textContent).join()}`;";
    let Some(seen) = beside_short_run(script) else {
        return;
    };
    assert_eq!(seen, "3 names; over: ");
}

#[test]
fn the_page_of_a_day_has_at_most_one_megabyte() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("run");
    write_run(
        &run,
        Shape {
            intervals: 8_640,
            interval_sec: 10,
            slow_every: 50,
            ..SHORT
        },
    );
    let (page, bytes) = write_page(dir.path(), "day.html", &[run]);
    assert!(bytes <= 1_000_000, "{bytes} bytes");
    let Some(browser) = browser() else { return };
    let _one = ONE.lock();
    println!("{:.1} MB", bytes as f64 / 1e6);
    check(browser, &page);
}

#[test]
fn a_series_and_the_undamaged_part_of_damaged_runs_are_drawn() {
    let Some(browser) = browser() else { return };
    let _one = ONE.lock();
    let dir = tempfile::tempdir().unwrap();
    let certify = dir.path().join("certify");
    let rate = dir.path().join("rate");
    let damaged = dir.path().join("damaged");
    let stages = [
        ("stage 1", 1.0, Outcome::Pass, Some(SHORT)),
        ("stage 2", 2.0, Outcome::Fail, None),
    ];
    write_series(&certify, SeriesPurpose::Certify, &stages);
    let slow = Shape {
        slow_every: 2,
        ..SHORT
    };
    let steps = [
        ("10x", 10.0, Outcome::Pass, Some(SHORT)),
        ("20x", 20.0, Outcome::Fail, Some(slow)),
    ];
    write_series(&rate, SeriesPurpose::Rate, &steps);
    write_run(
        &damaged,
        Shape {
            telemetry: false,
            ..SHORT
        },
    );
    fs::write(damaged.join("service.hlog"), "nothing of the kind\n").unwrap();
    fs::remove_file(damaged.join("verdict.json")).unwrap();
    let (page, _) = write_page(dir.path(), "all.html", &[certify, rate, damaged]);
    let charts = check(browser, &page);
    assert!(charts >= 20, "{charts}");
    let html = fs::read_to_string(&page).unwrap();
    for words in [
        "it held 20x",
        "this run is incomplete",
        "service.hlog could only be read up to about 0 s",
    ] {
        assert!(html.contains(words), "{words}");
    }
}

#[test]
fn the_curves_of_a_baseline_are_drawn_with_their_depths_and_fit_a_phone() {
    let Some(browser) = browser() else { return };
    let _one = ONE.lock();
    let dir = tempfile::tempdir().unwrap();
    let baseline = dir.path().join("baseline");
    write_baseline(
        &baseline,
        &[("/dev/nvme0n1", 1.0), (crate::support::HOSTILE, 0.7)],
    );
    let (page, _) = write_page(dir.path(), "page.html", &[baseline]);
    assert!(check(browser, &page) >= 12);
    let overflow = overflow_px(browser, &page);
    assert!(overflow <= 0, "{overflow} px wider than a phone");
    // Each depth has a tick. Depths double from tick to tick, so the ticks are evenly spaced. Two marks: the knees.
    let script = "
        const svg = inside.document.querySelector('[id*=depth-iops] svg');
        const texts = [...svg.querySelectorAll('text')].filter((text) => text.getAttribute('text-anchor') === 'middle');
        const ticks = texts.filter((text) => /^[0-9]+$/.test(text.textContent));
        const apart = ticks.slice(1).map((tick, at) => tick.getAttribute('x') - ticks[at].getAttribute('x'));
        const even = Math.max(...apart) - Math.min(...apart) < 1;
        return `${ticks.map((tick) => tick.textContent).join(' ')} | ${even} | ${svg.querySelectorAll('.mark').length}`;";
    assert_eq!(
        beside(browser, &page, 900, script),
        "1 2 4 8 16 32 64 128 256 | true | 2"
    );
}
