use super::*;
use results::assert_ends_with;

fn read(text: impl AsRef<[u8]>) -> (Vec<BlockRequest>, TraceText) {
    let mut requests = Vec::new();
    let facts = TraceText::read(text.as_ref(), &mut |request| requests.push(request)).unwrap();
    (requests, facts)
}

/// A request in one line: device, operation, flags, first sector + sectors, queue and device time in us, task.
fn short(request: &BlockRequest) -> String {
    let BlockRequest {
        op,
        sector,
        sectors,
        flags: Flags {
            sync, fua, meta, ..
        },
        task,
        device,
        ..
    } = request;
    let flags: String = [(*sync, 'S'), (*fua, 'F'), (*meta, 'M')]
        .iter()
        .filter(|(is, _)| *is)
        .map(|(_, c)| *c)
        .collect();
    let us = |ns: Option<u64>| ns.map_or("-".to_owned(), |ns| (ns / 1_000).to_string());
    let queue = us(request.queue_ns());
    let device_us = us(request.device_ns());
    format!(
        "{device} {op:?} {flags} {sector}+{sectors} {queue} {device_us} {}:{}",
        task.comm(),
        task.pid
    )
}

fn shorts(text: impl AsRef<[u8]>) -> Vec<String> {
    read(text).0.iter().map(short).collect()
}

#[test]
fn the_lines_of_all_kernel_versions_are_parsed() {
    // Linux 6.10 and later print the priority. The last variant has no bytes. Linux 4.x prints four flags, later five.
    for (issue, complete) in [
        (
            "7,2 RS 8704 () 1293793 + 17 be,0,4 [asd]",
            "7,2 RS () 1293793 + 17 be,0,4 [0]",
        ),
        (
            "7,2 RS 8704 () 1293793 + 17 none,0,0 [asd]",
            "7,2 RS () 1293793 + 17 none,0,0 [0]",
        ),
        (
            "7,2 RS 8704 () 1293793 + 17 [asd]",
            "7,2 RS () 1293793 + 17 [0]",
        ),
        ("7,2 RS () 1293793 + 17 [asd]", "7,2 RS () 1293793 + 17 [0]"),
    ] {
        for (head, tail) in [
            (
                "    asd-17665   [001] .....  10.000001: ",
                "   ftl-24883   [001] ..s1.  10.000091: ",
            ),
            (
                "    asd-17665   [001] ....  10.000001: ",
                "   <idle>-0   [001] d.h1  10.000091: ",
            ),
            (
                "    asd-17665   (  17600) [001] .....  10.000001: ",
                "   <...>-24883  (-------) [001] ..s..  10.000091: ",
            ),
            (
                "    asd-17665 [001]  10.000001000: ",
                "   <idle>-0     [001]  10.000091000: ",
            ),
            (
                "asd 17665 [001]  10.000001: block:",
                "swapper     0 [000]  10.000091: block:",
            ),
            (
                "asd 17600/17665 [001]  10.000001: block:",
                "swapper     0/0 [000]  10.000091: block:",
            ),
        ] {
            let text =
                format!("{head}block_rq_issue: {issue}\n{tail}block_rq_complete: {complete}\n");
            let found = shorts(&text);
            assert_eq!(found, ["7:2 Read S 1293793+17 - 90 asd:17665"], "{text}");
        }
    }
}

#[test]
fn bios_insertions_and_requeues_are_read() {
    let text = "# tracer: nop
  fio-9 [000] ..... 1.000001: block_bio_queue: 8,0 WFSM 100 + 8 [fio]
  fio-9 [000] ..... 1.000002: block_getrq: 8,0 WFSM 100 + 8 [fio]
  fio-9 [000] ..... 1.000003: block_rq_insert: 8,0 WFSM 4096 () 100 + 8 be,0,4 [fio]
  kworker/0:1H-5 [000] ..... 1.000004: block_rq_issue: 8,0 WFSM 4096 () 100 + 8 be,0,4 [kworker/0:1H]
  kworker/0:1H-5 [000] ..... 1.000005: block_rq_requeue: 8,0 WFSM () 100 + 8 be,0,4 [0]
  kworker/0:1H-5 [000] ..... 1.000011: block_rq_issue: 8,0 WFSM 4096 () 100 + 8 be,0,4 [kworker/0:1H]
  <idle>-0 [000] ..s.. 1.000014: block_rq_complete: 8,0 WFSM () 100 + 8 be,0,4 [0]
  smartd-3 [000] ..... 1.000020: block_rq_issue: 8,0 N 512 (a1 08 2e 00 01 00 00 00 00 00 ec 00) 0 + 0 none,0,0 [smartd]
  <idle>-0 [000] ..s.. 1.000025: block_rq_complete: 8,0 N () 18446744073709551615 + 0 none,0,0 [0]
  x-3 [000] ..... 1.000030: sched_switch: prev_comm=x ==> next_comm=y
";
    let (requests, facts) = read(text);
    let requests: Vec<_> = requests.iter().map(short).collect();
    assert_eq!(
        requests,
        [
            "8:0 Write SFM 100+8 10 3 fio:9",
            "8:0 Other  0+0 - 5 smartd:3"
        ]
    );
    assert_eq!((facts.lines, facts.unread_lines), (11, 1), "{facts:?}");
    assert!(facts.first_unread.unwrap().1.contains("sched_switch"));
}

#[test]
fn the_output_of_blkparse_is_parsed() {
    let text = "  7,2    1        1     0.000000000 17665  Q  RS 1293793 + 17 [asd]
  7,2    1        2     0.000001000 17665  G  RS 1293793 + 17 [asd]
  7,2    1        3     0.000004000 17665  D  RS 1293793 + 17 [asd]
  7,2    1        4     0.000010000     0  C  RS 1293793 + 17 [0]
  7,2    1        5     0.000011000    43  D  FN [kworker/1:1H]
CPU0 (7,2):
 Reads Queued:           1,        8KiB\t Writes Queued:           0,        0KiB
";
    assert_eq!(
        shorts(text),
        [
            "7:2 Read S 1293793+17 4 6 asd:17665",
            "7:2 Flush  0+0 - - kworker/1:1H:43"
        ]
    );
}

#[test]
fn tables_are_parsed_by_their_headings_even_if_process_names_contain_blanks() {
    let iosnoop = "Tracing block I/O. Ctrl-C to end.
COMM         PID    TYPE DEV      BLOCK        BYTES     LATms
Web Content  1893   RS   7,2      1293793      8704       0.39
supervise    1809   W    202,1    17039968     0         1.320
";
    let (requests, facts) = read(iosnoop);
    let seen: Vec<_> = requests.iter().map(short).collect();
    assert_eq!(
        seen,
        [
            "7:2 Read S 1293793+17 - 390 Web Content:1893",
            "202:1 Write  17039968+0 - 1320 supervise:1809"
        ]
    );
    assert_eq!(facts.without_size, 1);
    assert_eq!(facts.without_time, 2);
    assert_eq!(facts.unread_lines, 1);

    let recent = "STARTs         COMM             PID    TYPE DEV      BLOCK        BYTES     LATms
2812.076883    asd.0.0.15-1126  1126   RS   7,2      +            0          0.23
2812.078219    asd.0.0.15-1126  1126   RS   7,2      +            0          0.20
";
    let (requests, facts) = read(recent);
    let found = short(&requests[0]);
    assert_eq!(found, "7:2 Read S 0+0 - 230 asd.0.0.15-1126:1126");
    assert_eq!(requests.len(), 2);
    assert_eq!(requests[1].issued_ns, 2_812_078_219_000);
    assert_eq!(facts.without_size, 2);
    assert_eq!(facts.without_time, 0);
    assert_eq!(facts.unread_lines, 0);

    let with_times = "STARTs          ENDs            COMM         PID    TYPE DEV      BLOCK        BYTES     LATms
5982800.302061  5982800.302679  supervise    1809   W    202,1    17039600     4096       0.62
";
    let (requests, facts) = read(with_times);
    assert_eq!(requests[0].issued_ns, 5_982_800_302_061_000);
    assert_eq!(facts.without_time, 0);

    let own = "STARTs COMM PID TYPE DEV BLOCK BYTES QUEms LATms
1.500000 a b 7 D 7,2 8 1048576 0.020 -
# lost events: 12
";
    let (requests, facts) = read(own);
    assert_eq!(short(&requests[0]), "7:2 Discard  8+2048 20 - a b:7");
    assert_eq!(requests[0].requested_ns(), 1_499_980_000);
    assert_eq!(facts.lost, 12);
}

#[test]
fn a_process_with_the_name_of_an_event_is_not_parsed_as_an_event() {
    let text = b"block_rq_issue: 1,1 R 512 () 7 + 1-17 [000] ..... 1.000001: block_rq_issue: 8,0 R 4096 () 64 + 8 be,0,4 [x: block_] y]\n";
    assert_eq!(shorts(text), ["8:0 Read  64+8 - - x: block_] y:17"]);
}

#[test]
fn lost_events_are_counted_in_the_format_of_every_tracer() {
    let event = " a-1 [000] .... 1.000001: block_rq_issue: 8,0 R 4096 () 64 + 8 [a]\n";
    for (line, lost) in [
        ("CPU:1 [LOST 532 EVENTS]", 532),
        ("CPU:3 [LOST EVENTS]", 1),
        ("# entries-in-buffer/entries-written: 100/175   #P:2", 75),
        ("# entries-in-buffer/entries-written: 100/100   #P:2", 0),
        ("# lost events: 3", 3),
        ("# tracer: nop", 0),
    ] {
        assert_eq!(read(format!("{line}\n{event}")).1.lost, lost, "{line}");
    }
}

#[test]
fn unreadable_lines_of_any_kind_are_skipped_in_bounded_memory() {
    let event = " a-1 [000] .... 1.000001: block_rq_issue: 8,0 R 4096 () 64 + 8 [a]\n";
    let long = [
        b"block_rq_issue: ".repeat(1 << 16),
        event.trim_end().repeat(1 << 12).into_bytes(),
    ]
    .concat();
    let zeros = vec![0; 100_000];
    for junk in [
        &long[..],
        &zeros,
        b"\xff\xfe\x00: block_rq_issue: ",
        b"-: block_rq_issue: 8,0 R",
        b"7,2 1 1",
    ] {
        let (requests, facts) = read([junk, b"\n", event.as_bytes()].concat());
        assert_eq!(
            (requests.len(), facts.lines, facts.unread_lines),
            (1, 2, 1),
            "{:?}",
            &junk[..junk.len().min(30)]
        );
        assert!(facts.first_unread.unwrap().1.len() < 1_000);
    }
    // Lines with a number that is too large, or with a word in the place of a number.
    for body in [
        "8,0 R 4096 () 99999999999999999999 + 8 [a]",
        "8,0 R 4096 () 64 + 4294967296 [a]",
        "8,99999999999 R 4096 () 64 + 8 [a]",
        "8,0 r+w 4096 () 64 + 8 [a]",
        "8,0 R 4096 ( 64 + 8 [a]",
        "8,0 R 4096 () 64 - 8 [a]",
        "",
    ] {
        let text = format!(" a-1 [000] .... 1.000001: block_rq_issue: {body}\n{event}");
        assert_eq!(read(&text).0.len(), 1, "{text}");
    }
    let end = u64::MAX;
    let text = format!(" a-1 [000] .... 1.000001: block_rq_issue: 8,0 R 4096 () {end} + 8 [a]\n");
    assert_eq!(
        read(text).0[0].sector,
        end,
        "the end of it is beyond the largest number, and no more than that"
    );
}

#[test]
fn a_text_without_a_trace_is_refused_and_its_first_line_shown() {
    let refused = |text: &str| {
        TraceText::read(text.as_bytes(), &mut |_| ())
            .unwrap_err()
            .to_string()
    };
    assert_ends_with!(refused(""), "(the text is empty)");
    assert!(
        refused("\n\nHello \u{1b}[1m\nyou\n").ends_with("line 3: \"Hello \\u001b[1m\""),
        "{}",
        refused("Hello")
    );
}

#[test]
fn a_new_device_on_every_line_is_counted_and_not_kept() {
    let heading = "STARTs COMM PID TYPE DEV BLOCK BYTES LATms\n";
    let rows = (0..1_000).fold(heading.to_owned(), |text, minor| {
        text + &format!("1.5 a 1 RS 8,{minor} 8 4096 0.5\n")
    });
    let events = (0..1_000).fold(String::new(), |text, minor| {
        text + &format!("a-1 [000] ..... 1.5: block_rq_issue: 9,{minor} RS 4096 () 8 + 8 [a]\n")
    });
    for text in [rows, events] {
        let mut devices = HashSet::new();
        let facts = TraceText::read(text.as_bytes(), &mut |request| {
            _ = devices.insert(request.device)
        })
        .unwrap();
        assert_eq!(devices.len(), 256);
        assert_eq!(facts.of_further_devices, 744);
        assert_eq!(facts.unread_lines, 0);
    }
}

#[test]
fn requests_without_completion_are_sorted_by_device_and_sector() {
    let (requests, _) = read(
        (0..32)
            .rev()
            .map(|device: u32| {
                format!(
                    "  a-1 [000] ..... 1.000001: block_rq_issue: 8,{device} R 4096 () 8 + 8 [a]\n"
                )
            })
            .collect::<String>(),
    );
    let devices: Vec<_> = requests
        .iter()
        .map(|request| request.device.minor)
        .collect();
    assert_eq!(devices, (0..32).collect::<Vec<_>>());
}
