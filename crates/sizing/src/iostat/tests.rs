use super::*;
use jiff::civil::DateTime;
use results::{assert_any_contains, assert_contains};
use std::io::Cursor;

fn read_text(text: impl AsRef<[u8]>) -> Result<Iostat, IostatError> {
    read_near(text, None)
}

fn read_near(text: impl AsRef<[u8]>, near: Option<Date>) -> Result<Iostat, IostatError> {
    let bytes = Box::new(Cursor::new(text.as_ref().to_vec()));
    super::read(
        InputFile::new("io.txt", bytes, "flashproof size profile --iostat -").unwrap(),
        near,
    )
}

fn captured(name: &str) -> Iostat {
    let path = format!("{}/tests/data/{name}.zst", env!("CARGO_MANIFEST_DIR"));
    super::read(InputFile::open(path.as_ref(), "").unwrap(), None).unwrap()
}

fn at(text: &str) -> Option<DateTime> {
    Some(text.parse().unwrap())
}

const NEW: &str = "Device            r/s     rkB/s   rrqm/s  %rrqm r_await rareq-sz     w/s     wkB/s   wrqm/s  %wrqm w_await \
                   wareq-sz     d/s     dkB/s   drqm/s  %drqm d_await dareq-sz     f/s f_await  aqu-sz  %util\n";

fn new_row(device: &str, r_s: &str) -> String {
    format!(
        "{device}   {r_s}  44835.60     0.00   0.00    0.43    18.38  219.80  14067.20     0.00   0.00    1.14    64.00    \
         1.50      0.00     0.00   0.00    0.00     0.00  21.80    0.71    1.44  41.16\n"
    )
}

fn device(
    name: &str,
    numbers: [f64; 4],
    flushes_per_sec: Option<f64>,
    discards_per_sec: Option<f64>,
) -> DeviceRates {
    DeviceRates {
        device: name.to_owned(),
        io: numbers.into(),
        flushes_per_sec,
        discards_per_sec,
    }
}

#[test]
fn captured_text_and_json_of_the_same_minutes_agree() {
    for (version, reports, begin) in [
        ("ce-4.9.0.37", 36, "2026-11-20T23:13:05"),
        ("ce-8.0.0.15", 48, "2026-11-20T23:02:35"),
    ] {
        let text = captured(&format!("{version}/iostat-x.txt"));
        let json = captured(&format!("{version}/iostat-x.json"));
        assert_eq!(text.reports.len(), reports, "{:?}", text.remarks);
        for (a, b) in text.reports.iter().zip(&json.reports) {
            // Two runs of iostat side by side wrote the two outputs.
            let text = &a.devices[0];
            let json = &b.devices[0];
            assert!((text.io.reads_per_sec / json.io.reads_per_sec - 1.0).abs() < 0.02);
            assert!(text.flushes_per_sec.is_some() && json.flushes_per_sec.is_some());
            assert_eq!(a.timestamp, b.timestamp);
        }
        assert_eq!(text.reports[0].timestamp, at(begin));
        assert_eq!(text.remarks.len(), 1, "{:?}", text.remarks);
        assert_contains!(text.remarks[0], "the first report is used");
    }
    let first = &captured("ce-8.0.0.15/iostat-x.json").reports[0].devices[0];
    assert_eq!(
        *first,
        device(
            "loop2",
            [2439.6, 219.8, 44835.6, 14067.2],
            Some(219.8),
            Some(0.0)
        )
    );
}

#[test]
fn tables_of_the_sizing_paper_are_read_with_their_spaces_collapsed() {
    let paper = include_str!("../../tests/data/iostat-paper.txt");
    let iostat = read_text(paper).unwrap();
    let of = |report: usize| {
        let devices = &iostat.reports[report].devices;
        devices
            .iter()
            .find(|device| device.device == "nvme0n1")
            .unwrap()
            .clone()
    };
    assert_eq!(iostat.reports.len(), 4);
    assert_eq!(
        of(0),
        device(
            "nvme0n1",
            [11806.0, 1547.5, 344_970.25, 198_080.0],
            None,
            None
        )
    );
    assert_eq!(of(2).io.writes_per_sec, 1702.0);
    assert_eq!(iostat.reports[0].devices.len(), 6);
    // Two rows of the same device under one header are two reports.
    let pasted = "Device:         rrqm/s   wrqm/s     r/s     w/s    rkB/s    wkB/s avgrq-sz avgqu-sz   await r_await w_await  svctm  %util\n\
                  nvme0n1      0.00     0.00 11806.00 1547.50 344970.25 198080.00    81.33     5.45    0.42    0.46    0.05   0.03  41.35\n\
                  nvme0n1           0.00     0.00 12172.50 1702.00 388503.50 217856.00    87.41     2.71    0.24    0.26    0.06   0.05  75.75\n";
    assert_eq!(read_text(pasted).unwrap().reports.len(), 2);
}

#[test]
fn sectors_megabytes_human_sizes_and_decimal_commas_are_converted_to_kib() {
    let of = |text: &str| read_text(text).unwrap().reports[0].devices[0].clone();
    let expected = device("sda", [100.5, 50.0, 2048.0, 1024.0], None, None);
    for text in [
        "Device: rrqm/s wrqm/s r/s w/s rsec/s wsec/s avgrq-sz %util\n/dev/sda 0.00 0.00 100.50 50.00 4096.00 2048.00 8.00 1.00\n",
        "Device r/s w/s rMB/s wMB/s %util\nsda 100.50 50.00 2.00 1.00 3.00\n",
        "Device r/s rkB/s %rrqm w/s wkB/s %util\nsda 100.50 2.0M 0.00 50.00 1024.0k 3.00\n",
        "Périphérique r/s rkB/s rareq-sz w/s wkB/s %util\nsda 100,50 2048,00 3,00 50,00 1024,00 3,00\n",
        "     r/s     rkB/s   rareq-sz Device\n  100.50     2.0M     3.0k sda\n\n     w/s     wkB/s   wareq-sz Device\n  50.00     1.0M     3.0k sda\n\n",
        "Device r/s w/s rkB/s wkB/s %util\nsda\n    100.50 50.00 2048.00 1024.00 3.00\n",
    ] {
        assert_eq!(of(text), expected, "{text}");
    }
    let of_new = of(&[NEW, &new_row("nvme0n1", "2439.60")].concat());
    assert_eq!(
        of_new,
        device(
            "nvme0n1",
            [2439.6, 219.8, 44835.6, 14067.2],
            Some(21.8),
            Some(1.5)
        )
    );
}

#[test]
fn times_are_read_as_numbers_and_with_english_names_of_months() {
    for (banner, line, near, expected) in [
        ("11/20/26", "11/20/26 23:02:35", None, "2026-11-20T23:02:35"),
        (
            "11/20/2026",
            "11/20/2026 11:02:35 PM",
            None,
            "2026-11-20T23:02:35",
        ),
        (
            "11/20/2026",
            "11/20/2026 12:02:35 AM",
            None,
            "2026-11-20T00:02:35",
        ),
        ("20/11/26", "20/11/26 23:02:35", None, "2026-11-20T23:02:35"),
        (
            "20.11.2026",
            "20.11.2026 23:02:35",
            None,
            "2026-11-20T23:02:35",
        ),
        (
            "2026-11-20",
            "2026-11-20T23:02:35+0100",
            None,
            "2026-11-20T23:02:35",
        ),
        (
            "2026年11月20日",
            "2026年11月20日 23時02分35秒",
            None,
            "2026-11-20T23:02:35",
        ),
        ("20.11.26", "20.11.26 23.02.35", None, "2026-11-20T23:02:35"),
        (
            "20-11-2026",
            "20-11-2026 11.02.35 PM",
            None,
            "2026-11-20T23:02:35",
        ),
        (
            "Friday, November 20, 2026",
            "Friday, November 20, 2026 11:02:35 PM HKT",
            None,
            "2026-11-20T23:02:35",
        ),
        (
            "04/03/26",
            "Fri 03 Apr 2026 11:02:35 p.m. UTC",
            Some("2026-04-03"),
            "2026-04-03T23:02:35",
        ),
        (
            "20/11/26",
            "Fri Nov 20 23:02:35 UTC 2026",
            None,
            "2026-11-20T23:02:35",
        ),
        ("Nov 20 2026", "Time: 23:02:35", None, "2026-11-20T23:02:35"),
        ("11/20/2026", "Time: 23:02:35", None, "2026-11-20T23:02:35"),
        ("04/03/26", "04/03/26 23:02:35", None, "2026-04-03T23:02:35"),
        (
            "04/03/26",
            "04/03/26 23:02:35",
            Some("2026-03-05"),
            "2026-03-04T23:02:35",
        ),
    ] {
        let text = format!(
            "Linux 5.4 (host) \t{banner} \t_x86_64_\t(2 CPU)\n\n{line}\n{NEW}{}",
            new_row("sda", "1.00")
        );
        let text = format!("{text}\n{line}\n{NEW}{}", new_row("sda", "2.00"));
        let iostat = read_near(&text, near.map(|near| near.parse().unwrap())).unwrap();
        assert_eq!(
            iostat.reports.last().unwrap().timestamp,
            at(expected),
            "{line}: {:?}",
            iostat.remarks
        );
        let unclear = iostat
            .remarks
            .iter()
            .any(|remark| remark.contains("can be read in two ways"));
        assert_eq!(
            unclear,
            banner == "04/03/26" && near.is_none(),
            "{:?}",
            iostat.remarks
        );
    }
    // A time that could be read wrongly is not read.
    for line in [
        "20/11/2026 11:02:35 μμ",
        "20.11.26 11:02:35.MD CET",
        "20-11-26 సా.11.02.35 IST",
        "mar. 24 août 2026 23:02:35 CEST",
        "fös 20.nóv 2026 23:02:35",
        "20. nov. 2026 kl. 23.02 +0100",
    ] {
        let report = format!("{line}\n{NEW}{}\n", new_row("sda", "1.00"));
        let iostat = read_text(report.repeat(2)).unwrap();
        assert_eq!(iostat.reports[1].timestamp, None, "{line}");
        let why = format!("cannot be read (such as \"{line}\"), so all of them are used");
        assert_contains!(iostat.remarks.join("\n"), &why, "S_TIME_FORMAT=ISO");
    }
    let at_a_prompt = read_text(format!("{}\n$ uptime -p\n", intervals())).unwrap();
    assert_any_contains!(at_a_prompt.remarks, "reports have no time");
    // Times without dates: the date advances at midnight.
    let report = |time: &str| format!("Time: {time}\n{NEW}{}\n", new_row("sda", "1.00"));
    let text = format!(
        "Linux 3.10 (h) \t11/20/2026 \tx\n{}{}{}",
        report("23:59:40"),
        report("23:59:50"),
        report("00:00:00")
    );
    assert_eq!(
        read_text(text).unwrap().reports[2].timestamp,
        at("2026-11-21T00:00:00")
    );
}

#[test]
fn the_numbers_show_if_the_first_report_covers_the_time_since_boot() {
    let banner = "Linux 5.4 (host) \t11/20/26 \t_x86_64_\t(2 CPU)\n\n";
    let run = |rates: &[&str]| {
        let reports = rates
            .iter()
            .map(|rate| format!("{NEW}{}\n", new_row("sda", rate)));
        let text = reports.fold(banner.to_owned(), |text, report| text + &report);
        read_text([text, "\n".to_owned()].concat()).unwrap()
    };
    for (rates, left, remark) in [
        (
            &["10.37", "11.50", "12.00"][..],
            2,
            "its numbers show that it covers the time since boot",
        ),
        (
            &["10.30", "11.50", "12.00"],
            3,
            "its numbers show that it covers an interval",
        ),
        (
            &["10.30", "11.53", "12.07", "14.01", "15.99"],
            4,
            "without iostat -y it covers the time since boot",
        ),
        // iostat --dec=0 and --dec=1.
        (
            &["12", "2440", "2197"],
            2,
            "without iostat -y it covers the time since boot",
        ),
        (
            &["12.3", "2439.6", "2196.8"],
            2,
            "without iostat -y it covers the time since boot",
        ),
    ] {
        let iostat = run(rates);
        assert_eq!(iostat.reports.len(), left, "{rates:?}");
        assert!(
            iostat.remarks.join("\n").contains(remark),
            "{:?}",
            iostat.remarks
        );
    }
    let alone = read_text([banner, NEW, &new_row("sda", "10.30")].concat())
        .unwrap_err()
        .to_string();
    assert_contains!(alone, "may cover the time since boot", "iostat -xty 10");
    // Without a banner, the text may begin in the middle of a run.
    for (rates, left, remark) in [
        (
            &["10.30", "11.53", "12.07", "14.01", "15.99"][..],
            5,
            "does not begin with iostat's line",
        ),
        (&["1.37"], 1, "does not begin with iostat's line"),
        (
            &["10.37", "11.50", "12.00"],
            2,
            "its numbers show that it covers the time since boot",
        ),
    ] {
        let reports = rates
            .iter()
            .map(|rate| format!("{NEW}{}\n", new_row("sda", rate)));
        let iostat = read_text(reports.collect::<String>()).unwrap();
        assert_eq!(iostat.reports.len(), left, "{rates:?}");
        assert_contains!(iostat.remarks.join("\n"), remark);
    }
}

/// Reports of a run of iostat -y of 10 s.
fn intervals() -> String {
    ["10.30", "11.50", "12.00"]
        .map(|rate| format!("{NEW}{}\n", new_row("sda", rate)))
        .concat()
}

#[test]
fn a_banner_is_found_behind_a_byte_order_mark_or_a_prompt_and_before_a_date_without_tabs() {
    let since_boot = format!("{NEW}{}\n", new_row("sda", "10.37"));
    for banner in [
        "\u{feff}Linux 6.1 (host) \t11/20/26\t_x86_64_\t(2 CPU)",
        "[root@db1 ~]# iostat -xt 10 | tee io.txt Linux 6.1 (db1) \t11/20/26 \t_x86_64_\t(2 CPU)",
        "Linux 2.6.18-194.el5 (host1) 11/20/26      _x86_64_        (2 CPU)",
        "Linux 2.6.18-194.el5 (host1) \t11/20/26",
    ] {
        let text = format!("{banner}\n\nTime: 23:02:35\n{since_boot}{}", intervals());
        let iostat = read_text(text).unwrap();
        assert_eq!(iostat.reports.len(), 3, "{banner}: {:?}", iostat.remarks);
        let text = format!("{banner}\n\nTime: 23:02:35\n{}", intervals());
        let iostat = read_text(text).unwrap();
        assert_eq!(
            iostat.reports[0].timestamp,
            at("2026-11-20T23:02:35"),
            "{banner}"
        );
    }
}

#[test]
fn colours_of_a_terminal_are_skipped() {
    let row = new_row("sda", "10.30");
    let coloured: String = row
        .split_inclusive(' ')
        .map(|word| format!("\x1b[34;22m{word}\x1b[0m\x1b[K"))
        .collect();
    let read = |row: &str| {
        read_text([NEW, row].concat()).unwrap().reports[0]
            .devices
            .clone()
    };
    assert_eq!(read(&coloured), read(&row));
}

#[test]
fn the_tables_of_discards_and_flushes_are_part_of_the_report() {
    let text = "     r/s     rkB/s   rareq-sz Device\n  100.50     2.0M     3.0k sda\n\n     w/s     wkB/s   wareq-sz Device\n  \
                50.00     1.0M     3.0k sda\n\n     d/s     dkB/s   drqm/s  %drqm d_await dareq-sz Device\n    2.00 0.0k 0.00 \
                0.0% 0.00 0.0k sda\n\n     f/s f_await  aqu-sz  %util Device\n   25.00 0.40 0.1 4.0% sda\n";
    let iostat = read_text(text).unwrap();
    assert_eq!(iostat.reports.len(), 1);
    assert_eq!(
        iostat.reports[0].devices,
        [device(
            "sda",
            [100.5, 50.0, 2048.0, 1024.0],
            Some(25.0),
            Some(2.0)
        )]
    );
}

#[test]
fn without_a_flush_column_flushes_are_recognised_by_the_mean_size_of_writes() {
    for (writes, write_kib, with_data) in [
        (200.0, Some(128.0), 100.0),
        (100.0, Some(128.0), 100.0),
        // Some other program writes smaller blocks.
        (150.0, Some(128.0), 150.0),
        (200.0, None, 200.0),
    ] {
        let text =
            format!("Device r/s w/s rkB/s wkB/s %util\nsda 1.00 {writes} 4.00 12800.00 3.00\n");
        let iostat = read_text(text).unwrap();
        let reports: Vec<_> = iostat.reports.iter().collect();
        let means = crate::profile::sources::mean_of(&reports, &["sda"]);
        assert_eq!(means.io(write_kib).writes_per_sec, with_data, "{writes}");
        assert_eq!(
            means.flushes_remark(write_kib).is_some(),
            writes != with_data,
            "{writes}"
        );
    }
}

#[test]
fn a_prefix_in_front_of_each_line_is_no_device() {
    let text: String = intervals()
        .lines()
        .map(|line| format!("> {line}\n"))
        .collect();
    let iostat = read_text(text).unwrap();
    assert_eq!(iostat.reports[0].devices[0].device, "sda");
}

#[test]
fn cpu_blocks_idle_devices_truncated_rows_and_other_tables_are_skipped() {
    let cpu = "avg-cpu:  %user   %nice %system %iowait  %steal   %idle\n          34.43   25.03   13.09    3.95    0.17   23.33\n\n";
    let text = format!(
        "{cpu}{NEW}{}{}\n{cpu}{NEW}{}\n{cpu}{NEW}sda 1.0 2.0\n",
        new_row("sda", "1.00"),
        new_row("sda1", "2.00"),
        new_row("sdb", "3.00")
    );
    let iostat = read_text(text).unwrap();
    assert_eq!(
        iostat
            .reports
            .iter()
            .map(|report| report.devices.len())
            .collect::<Vec<_>>(),
        [2, 1]
    );
    assert_contains!(iostat.remarks.join("\n"), "1 line that cannot be read");
}

#[test]
fn json_is_read_if_truncated_or_on_one_line_or_with_decimal_commas_or_after_a_prompt() {
    let path = format!(
        "{}/tests/data/ce-8.0.0.15/iostat-x.json.zst",
        env!("CARGO_MANIFEST_DIR")
    );
    let mut text = String::new();
    let file = std::fs::File::open(path).unwrap();
    results::act_log::Input::new(file)
        .unwrap()
        .read_to_string(&mut text)
        .unwrap();
    let whole = read_text(&text).unwrap();
    for cut in [5000, 10_001, 20_007] {
        let cut_off = read_text(&text[..cut]).unwrap();
        let a = cut_off.reports;
        let b = &whole.reports;
        assert!(
            a.len() >= cut / 600
                && a.iter()
                    .zip(b)
                    .all(|(a, b)| a.timestamp == b.timestamp && a.devices == b.devices)
        );
        assert_any_contains!(cut_off.remarks, "iostat was killed");
    }
    let untimed = read_text(text.replace("11/20/26 ", "fös 20.nóv 2026 ")).unwrap();
    assert_any_contains!(untimed.remarks, "such as \"fös 20.nóv 2026 23:0");
    let compact: String = text.lines().map(str::trim).collect();
    let commas = text.replace(".60,", ",60,");
    assert!(serde_json::from_str::<serde_json::Value>(&commas).is_err());
    let behind_a_prompt = format!("[root@db1 ~]# iostat -xty 10 -o JSON\n\n{text}");
    for text in [compact, commas, behind_a_prompt] {
        let again = read_text(text).unwrap();
        assert!(
            again
                .reports
                .iter()
                .zip(&whole.reports)
                .all(|(a, b)| a.devices == b.devices)
        );
        assert_eq!(again.reports.len(), whole.reports.len());
    }
}

#[test]
fn a_file_that_is_not_iostat_s_is_refused_with_its_beginning() {
    for (text, found) in [
        (
            "",
            "it has no table of iostat -x: expected a line like \"Device r/s rkB/s ... w/s wkB/s\", or JSON, found nothing",
        ),
        ("{\"a\": 1}", "this JSON is not iostat's"),
        ("\u{1}\u{2}", "found first \"\\u0001"),
    ] {
        let error = read_text(text).unwrap_err().to_string();
        assert_contains!(error, "reading io.txt - ", found);
    }
    for (text, why) in [
        (
            "Device tps kB_read/s kB_wrtn/s kB_read kB_wrtn\nsda 1.0 2.0 3.0 4 5\n",
            "iostat without -x",
        ),
        (
            "Device:  tps  Blk_read/s  Blk_wrtn/s  Blk_read  Blk_wrtn\nvda 1.53 26.23 21.17 14 11\n",
            "busybox",
        ),
        (
            "Device tps kB/s rqm/s await areq-sz aqu-sz %util\nsda 8.59 279.22 1.75 12.00 32.51 0.10 0.46\n",
            "iostat -s",
        ),
        (
            "r/s w/s kr/s kw/s wait actv wsvc_t asvc_t %w %b device\n0.3 1.3 10.2 20.8 0.0 0.0 0.1 3.4 0 0 c0t0d0\n",
            "another",
        ),
        ("          ada0\nKB/t tps MB/s\n16.0 3 0.05\n", "another"),
        (
            "{\"sysstat\": {\"hosts\": [{\"statistics\": [{\"disk\": [{\"disk_device\": \"sda\", \"tps\": 8.59, \
             \"kB_read/s\": 2.0}]}]}]}}",
            "iostat without -x",
        ),
    ] {
        let error = read_text(text).unwrap_err().to_string();
        assert!(
            error.contains(why) && error.contains("record the output during the load: iostat -xty"),
            "{error}"
        );
    }
    let without = "Device tps kB_read/s kB_wrtn/s kB_read kB_wrtn\nsda 1.0 2.0 3.0 4 5\n";
    let some = read_text(format!("{without}\n{NEW}{}", new_row("sda", "1.00"))).unwrap();
    assert_contains!(
        some.remarks.join("\n"),
        "1 table without separate reads and writes"
    );
}

#[test]
fn the_number_of_devices_of_an_endless_report_is_limited() {
    let rows = (0..200_000).fold(String::new(), |text, i| {
        text + &new_row(&format!("sd{i}"), "1.00")
    });
    let iostat = read_text([NEW, &rows].concat()).unwrap();
    assert_eq!(iostat.reports.len(), 1);
    assert_eq!(iostat.reports[0].devices.len(), 4096);
    assert_contains!(
        iostat.remarks.join("\n"),
        "195,904 rows beyond the 4096 devices"
    );
}
