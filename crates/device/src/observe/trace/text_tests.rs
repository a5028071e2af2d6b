use super::*;
use results::assert_contains;

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
    let device_us = us(request.device_ns);
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
  smartd-3 [000] ..... 1.000020: block_rq_issue: 8,0 N 512 () 0 + 0 none,0,0 [smartd]
  <idle>-0 [000] ..s.. 1.000025: block_rq_complete: 8,0 N () 18446744073709551615 + 0 none,0,0 [0]
  smartd-3 [000] d..1 1.000030: block_rq_issue: 8,0 R 512 (85 08 0e 00) 0 + 0 [smartd]
  <idle>-0 [000] ..s1 1.000036: block_rq_complete: 8,0 R (85 08 0e 00) 18446744073709551615 + 0 [0]
  x-3 [000] ..... 1.000030: sched_switch: prev_comm=x ==> next_comm=y
";
    let (requests, facts) = read(text);
    let requests: Vec<_> = requests.iter().map(short).collect();
    assert_eq!(
        requests,
        [
            "8:0 Write SFM 100+8 10 3 fio:9",
            "8:0 Other  0+0 - 5 smartd:3",
            "8:0 Other  0+0 - 6 smartd:3"
        ]
    );
    assert_eq!((facts.lines, facts.unread_lines), (13, 1), "{facts:?}");
    assert_eq!(facts.without_size, 0, "passthrough has no size");
    assert!(facts.first_unread.unwrap().1.contains("sched_switch"));
}

#[test]
fn the_output_of_blkparse_is_parsed() {
    for (text, expected) in [
        (
            "  7,2    1        1     0.000000000 17665  Q  RS 1293793 + 17 [asd]
  7,2    1        2     0.000001000 17665  G  RS 1293793 + 17 [asd]
  7,2    1        3     0.000004000 17665  D  RS 1293793 + 17 [asd]
  7,2    1        4     0.000010000     0  C  RS 1293793 + 17 [0]
  7,2    1        5     0.000011000    43  D  FN [kworker/1:1H]
  7,2    1        6     0.000018000     0  C  FN 0 [0]
CPU0 (7,2):
 Reads Queued:           1,        8KiB\t Writes Queued:           0,        0KiB
",
            &[
                "7:2 Read S 1293793+17 4 6 asd:17665",
                "7:2 Flush  0+0 - 7 kworker/1:1H:43",
            ][..],
        ),
        // A trace can begin with an issue. Its time is 0, and known.
        (
            "  8,0    1        1     0.000000000    77  D   R 0 + 8 [a + b]
  8,0    1        2     0.000452000     0  C   R 0 + 8 [0]
",
            &["8:0 Read  0+8 - 452 a + b:77"],
        ),
        // A device without FUA: the completion behind the flush has no sectors. With -t, a time follows.
        (
            "  8,0    0        1     0.000001000   219  Q FWFS 64 + 8 [jbd2]
  8,0    0        2     0.000004000     0  D  WS 64 + 8 [swapper]
  8,0    0        3     0.000100000     0  C  WS 64 + 8 [0]
  8,0    0        4     0.000510000     0  C  WS 64 [0]
  8,0    0        5     0.000600000   219  Q FWFS 72 + 8 [jbd2]
  8,0    0        6     0.000610000     0  D  WS 72 + 8 (     10000) [swapper]
  8,0    0        7     0.000620000     0  C  WS 72 + 8 (     10000) [0]
  8,0    0        8     0.000630000     0  C  WS 72 (     20000) [0]
",
            &[
                "8:0 Write S 64+8 3 506 jbd2:219",
                "8:0 Write S 72+8 10 20 jbd2:219",
            ],
        ),
        // A device without requests.
        (
            "  9,127  0        1     0.012106000   397  Q  WS 160 + 8 [jbd2]
  9,127  0        2     0.015645000   281  C  WS 160 + 8 [0]
  9,127  0        3     0.015746000   397  Q FWFS 168 + 8 [jbd2]
  9,127  0        4     0.020969000   281  C WFS 168 + 8 [0]
",
            &[
                "9:127 Write S 160+8 - 3539 jbd2:397",
                "9:127 Write SF 168+8 - 5223 jbd2:397",
            ],
        ),
        // Passthrough commands. Newer kernels do not record the bytes of the command.
        (
            "  8,16   1        1     0.000001000  4184  I   R 36 (12 00 00 00 24 00 ..) [ata_id]
  8,16   1        2     0.000002000  4184  D   R 36 (12 00 00 00 24 00 ..) [ata_id]
  8,16   1        3     0.000016000    13  C   R (12 00 00 00 24 00 ..) [0]
  8,16   1        4     0.000020000  4184  D   R 512 [ata_id]
  8,16   1        5     0.000025000    13  C   R [0]
  8,16   1        6     0.000030000  4184  D   N 0 [ata_id]
",
            &[
                "8:16 Other  0+0 - 14 ata_id:4184",
                "8:16 Other  0+0 - 5 ata_id:4184",
                "8:16 Other  0+0 - - ata_id:4184",
            ],
        ),
        (
            "8,32\t0\t1\t9.000000000\t161\tD\tRM\t2062\t+\t2\t[a]\n8,32\t2\t2\t9.000597000\t0\tC\tRM\t2062\t+\t2\t[0]\n",
            &["8:32 Read M 2062+2 - 597 a:161"],
        ),
    ] {
        let (requests, facts) = read(text);
        let found: Vec<_> = requests.iter().map(short).collect();
        assert_eq!(found, expected, "{text}");
        assert_eq!((facts.without_time, facts.without_size), (0, 0), "{text}");
    }
}

#[test]
fn a_failed_request_has_the_error_of_its_completion() {
    let issue = " a-1 [000] .... 1.000001: block_rq_issue: 8,0 R 4096 () 64 + 8 [a]\n";
    // blkparse prints the error as a number of 16 bits without a sign.
    for (complete, error) in [
        (
            " a-1 [000] .... 1.000002: block_rq_complete: 8,0 R () 64 + 8 [0]",
            0,
        ),
        (
            " a-1 [000] .... 1.000002: block_rq_complete: 8,0 R () 64 + 8 [-5]",
            -5,
        ),
        (" 8,0  1  2  1.000002000  0  C  R 64 + 8 [65531]", -5),
    ] {
        assert_eq!(read(format!("{issue}{complete}\n")).0[0].error, error);
    }
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
    assert_eq!(requests[1].issued_ns, Some(2_812_078_219_000));
    assert_eq!(facts.without_size, 2);
    assert_eq!(facts.without_time, 0);
    assert_eq!(facts.unread_lines, 0);

    let with_times = "STARTs          ENDs            COMM         PID    TYPE DEV      BLOCK        BYTES     LATms
5982800.302061  5982800.302679  supervise    1809   W    202,1    17039600     4096       0.62
";
    let (requests, facts) = read(with_times);
    assert_eq!(requests[0].issued_ns, Some(5_982_800_302_061_000));
    assert_eq!(facts.without_time, 0);

    let own = "STARTs COMM PID TYPE DEV BLOCK BYTES QUEms LATms
1.500000 a b 7 D 7,2 8 1048576 0.020 -
0.000000 CPU 0/KVM 7 R 7,2 8 4096 - 0.100
- a 7 R 7,2 8 4096 - 0.100
# lost events: 12
";
    let (requests, facts) = read(own);
    assert_eq!(short(&requests[0]), "7:2 Discard  8+2048 20 - a b:7");
    assert_eq!(requests[0].requested_ns(), Some(1_499_980_000));
    assert_eq!(requests[1].requested_ns(), Some(0));
    assert_eq!(requests[2].requested_ns(), None);
    assert_eq!((facts.lost, facts.without_time), (12, 1));
}

#[test]
fn a_process_with_the_name_of_an_event_is_not_parsed_as_an_event() {
    let text = b"block_rq_issue: 1,1 R 512 () 7 + 1-17 [000] ..... 1.000001: block_rq_issue: 8,0 R 4096 () 64 + 8 be,0,4 [x: block_] y]\n";
    assert_eq!(shorts(text), ["8:0 Read  64+8 - - x: block_] y:17"]);
    let of_qemu =
        "CPU 0/KVM-17 [000] ..... 1.000001: block_rq_issue: 8,0 R 4096 () 64 + 8 [CPU 0/KVM]\n";
    assert_eq!(shorts(of_qemu), ["8:0 Read  64+8 - - CPU 0/KVM:17"]);
}

#[test]
fn lost_events_are_counted_in_the_format_of_every_tracer() {
    let event = " a-1 [000] .... 1.000001: block_rq_issue: 8,0 R 4096 () 64 + 8 [a]\n";
    for (line, lost) in [
        ("CPU:1 [LOST 532 EVENTS]", 532),
        ("CPU:3 [LOST EVENTS]", 1),
        ("CPU:3 [1534 EVENTS DROPPED]", 1_534),
        ("CPU:3 [EVENTS DROPPED]", 1),
        ("Skips: 3 forward (12,345 -  45.2%)", 12_345),
        ("Skips: 0 forward (0 -   0.0%)", 0),
        ("You have     1234 ( 12.3%) dropped events", 1_234),
        ("# entries-in-buffer/entries-written: 100/175   #P:2", 75),
        ("# entries-in-buffer/entries-written: 100/100   #P:2", 0),
        ("# lost events: 3", 3),
        ("# tracer: nop", 0),
    ] {
        let facts = read(format!("{line}\n{event}")).1;
        assert_eq!((facts.lost, facts.unread_lines), (lost, 0), "{line}");
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
    for (text, reason) in [
        ("", "the text is empty"),
        (
            "# tracer: nop\n#\n",
            "none of its 2 lines is an event of a block request - enable block_rq_issue",
        ),
        ("\n\nHello \u{1b}[1m\nyou\n", "line 3: \"Hello \\u001b[1m\""),
        (
            "a-1 [000] .... 1.0: block_rq_complete: 8,0 R () 64 + 8 [0]\n",
            "also record block_rq_issue",
        ),
        (
            "fio version 3 iolog\n2 Nvme1n1 add\n",
            "replay it with flashproof fio --name=replay --read_iolog=FILE",
        ),
        (
            "TIME(s)  COMM  PID  DISK  T SECTOR  BYTES  LAT(ms)\n0.0  a  1  sdb  W 8  4096  3.21\n",
            "it is the output of biosnoop",
        ),
    ] {
        assert_contains!(refused(text), reason);
    }
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
