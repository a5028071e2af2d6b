//! `flashproof engine client`: transactions on a database.

use crate::support;
use results::format::Grouped;
use results::judge::{RecordsRead, Refused};
use results::run_dir;
use std::net::{TcpListener, TcpStream};
use support::info_server::{
    CREDENTIAL_OF_ADMIN, InfoServer, Mode, OF_8_0, tls as server_tls, tls_file,
};
use support::{Bench, OUT, Running, TlsFront, serve, statistic, totals};

const CONFIG: &str = "service {\n service-threads 1\n}\nnetwork {\n service {\n port 0\n }\n}\n\
                      namespace test {\n storage-engine device {\n file records\n filesize 16M\n }\n}\n";

#[test]
fn the_short_option_h_is_the_host_so_help_has_only_a_long_option() {
    let bench = Bench::new();
    let help = bench.line("engine client --help").expect(0);
    help.shows(&[
        "-h, --host",
        "-z, --connections",
        "-g, --rate",
        "RU,95",
        "--verify",
        "--batch-read-size",
    ]);
    help.shows(&["prefer-rack"]);
}

#[test]
fn invalid_options_of_the_client_are_refused_with_advice() {
    let bench = Bench::new();
    for (options, said) in [
        (
            &["-o", "S:8", "--verify"][..],
            "cannot verify values of S:8",
        ),
        (&["-w", "RU,101"], "RU,95"),
        (&["-o", "X"], "B:N"),
        (&["-n", "a;b"], "none of them"),
        (
            &["-h", "db1:port"],
            "the port must be a number from 1 to 65535",
        ),
        (&["-k", "0"], "1.."),
    ] {
        bench
            .flashproof(&[&["engine", "client"], options].concat())
            .expect_error(2, &[said]);
    }
    // Nothing listens on the local port of a connected client, and the kernel gives this port to no other program.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let port = client.local_addr().unwrap().port().to_string();
    bench
        .flashproof(&["engine", "client", "-p", &port])
        .expect_error(3, &["no seed answered", "refused"]);
}

#[test]
fn verify_names_the_options_with_which_the_records_were_inserted() {
    let bench = Bench::new();
    let Some((running, port)) = serve(&bench, CONFIG) else {
        return;
    };
    let port = port.to_string();
    let client = [
        "engine", "client", "-p", &port, "-k", "50", "-z", "2", "-T", "20000", "--sla", "99%>10s",
    ];
    bench
        .flashproof(
            &[
                &client[..],
                &["-o", "B:100", "-w", "I", "--out", "inserted"],
            ]
            .concat(),
        )
        .expect(0);
    let verify = ["-w", "RU,95", "--verify", "--duration", "1s", "--out", OUT];
    for other in [
        &["-o", "B:200"][..],
        &["-o", "S:100"],
        &["-o", "B:100", "-b", "2"],
    ] {
        let said = [
            "the record of key 0 has 1 bin of B:100",
            "give -b 1 -o B:100",
        ];
        bench
            .flashproof(&[&client[..], &verify, other].concat())
            .expect_error(2, &said);
    }
    bench
        .flashproof(&[&client[..], &verify, &["-o", "B:100"]].concat())
        .expect(0);
    running.end_by("TERM").expect(0);
}

#[test]
fn wrong_logins_and_certificates_are_refused_and_a_server_without_security_accepts_any_user() {
    let login = Mode::Login("admin".to_owned(), CREDENTIAL_OF_ADMIN.to_owned());
    let bench = Bench::new();
    let server = InfoServer::start_as(login);
    bench.write("password", "wrong\n");
    let host = server.host();
    let client = [
        "engine", "client", "-h", &host, "-k", "50", "-o", "B:100", "-w", "I",
    ];
    let expected = "the server wants a login: \"ERROR:80:not authenticated\" - give --user";
    bench.flashproof(&client).expect_error(3, &[expected]);
    let user = [
        &client[..],
        &["--user", "admin", "--password-file", "password"],
    ]
    .concat();
    bench.flashproof(&user).expect_error(
        3,
        &[
            &host,
            "user admin cannot log in - the password is wrong (code 65)",
        ],
    );
    bench
        .flashproof(&[&user[..], &["--auth", "external"]].concat())
        .expect_error(2, &["give --tls"]);
    bench.write("password", "admin\n");
    bench.flashproof(&user).expect_error(
        3,
        &[
            "cannot use namespace \"test\"",
            "only these namespaces: \"test\"",
        ],
    );
    assert_eq!(server.logins(), 2);
    let authorities = tls_file("ca.pem").into_os_string().into_string().unwrap();
    let tls = [
        &user[..],
        &[
            "--tls",
            "--tls-cafile",
            &authorities,
            "--tls-name",
            "other.test",
        ],
    ]
    .concat();
    let server = InfoServer::start_with(OF_8_0, Mode::Plain, Some(server_tls(false)));
    let host = server.host();
    let tls: Vec<_> = tls
        .into_iter()
        .map(|word| {
            if word.starts_with("127.") {
                host.as_str()
            } else {
                word
            }
        })
        .collect();
    bench.flashproof(&tls).expect_error(
        3,
        &["cannot begin TLS with other.test - invalid peer certificate"],
    );
    let Some((running, port)) = serve(&bench, CONFIG) else {
        return;
    };
    let host = format!("localhost:{port}");
    let open: Vec<_> = user
        .iter()
        .map(|word| {
            if word.starts_with("127.") {
                host.as_str()
            } else {
                word
            }
        })
        .collect();
    bench
        .flashproof(
            &[
                &open[..],
                &["--sla", "99%>10s", "-T", "20000", "--out", OUT],
            ]
            .concat(),
        )
        .expect(0);
    running.end_by("TERM").expect(0);
}

#[test]
fn verify_counts_the_records_that_a_killed_server_lost_as_old_or_missing() {
    let bench = Bench::new();
    // The server writes a buffer only when it is full. A fixed port lets the client reconnect after a restart.
    let port = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let config = CONFIG.replace("port 0", &format!("address 127.0.0.1\n port {port}"));
    let config = config.replace("filesize 16M", "filesize 16M\n flush-max-ms 0");
    let Some((mut server, _)) = serve(&bench, &config) else {
        return;
    };
    let address = format!("127.0.0.1:{port}");
    let port = port.to_string();
    let start = || serve(&bench, &config).expect("it was there before").0;
    let restart = |server: Running| {
        assert_eq!(server.end_by("KILL").signal, Some(9));
        start()
    };
    let client = [
        "engine", "client", "-p", &port, "-k", "200", "-o", "B:100", "-z", "4", "-T", "20000",
    ];
    let client =
        |more: &[&str]| bench.prepare(&[&client[..], &["--sla", "99%>3600s"], more].concat());
    // 200 records fit in a write block. Therefore they stay in memory until a clean shutdown.
    Running::start(client(&["-w", "I", "--out", "first"]))
        .end()
        .expect(0);
    server.end_by("TERM").expect(0);
    server = start();

    // The writes before the kill also fit into one write block, so they are only in memory.
    let load = [
        "-w",
        "RU,50",
        "-g",
        "400",
        "--verify",
        "--duration",
        "3600",
        "--max-errors",
        "1000000000",
        "--quiet",
    ];
    let mut load = Running::start(client(&[&load[..], &["--out", OUT]].concat()));
    load.wait_until("it has written", || {
        statistic(&address, "client_write_success") >= 150
    });
    server = restart(server);
    load.wait_until("it has read", || {
        statistic(&address, "client_read_success") >= 100
    });
    let ended = load.end_by("INT");
    let run = bench.run();
    let RecordsRead {
        records,
        refused: Some(refused),
    } = run.verdict.records_read.unwrap()
    else {
        panic!()
    };
    let Refused {
        old,
        missing,
        foreign,
        torn,
    } = refused;
    let (reads, failed, _) = totals(&run, "reads");
    assert!((1..=200).contains(&old) && failed >= old, "{refused:?}");
    assert_eq!(
        (missing, foreign, torn),
        (0, 0, 0),
        "{:?}",
        run.verdict.failures
    );
    assert!(
        records >= reads && records <= reads + failed,
        "{failed} of {reads} failed, {records} were read"
    );
    let said = format!(
        " read and verified: {} old, 0 missing, 0 foreign, 0 torn",
        Grouped(old)
    );
    ended.shows(&[&said]);
    assert!(
        run.verdict.wrong_data[0].contains("although write"),
        "{:?}",
        run.verdict.wrong_data
    );
    let json = bench
        .flashproof(&["report", OUT, "--json"])
        .expect(1)
        .json();
    assert_eq!(
        json["reports"][0]["result"]["records_read"]["refused"]["old"], old,
        "{json}"
    );

    // Another run inserts records, which the restart of the server then loses.
    server.end_by("TERM").expect(0);
    server = start();
    Running::start(client(&["-w", "I", "-S", "1000", "--out", "second"]))
        .end()
        .expect(0);
    server = restart(server);
    let reads = [
        "-w",
        "RU,100",
        "-S",
        "1000",
        "--verify",
        "--duration",
        "1s",
        "--max-errors",
        "1000000000",
    ];
    let ended = Running::start(client(&[&reads[..], &["--out", "gone"]].concat()))
        .end()
        .expect(1);
    ended.shows(&[
        "missing: no such record; this run has not written it",
        "0 records read and verified: 0 old, ",
    ]);
    let gone = run_dir::read(&bench.path("gone"))
        .unwrap()
        .verdict
        .records_read
        .unwrap();
    assert!(
        gone.records == 0 && (1..=200).contains(&gone.refused.unwrap().missing),
        "{gone:?}"
    );
    server.end_by("TERM").expect(0);
}

#[test]
fn each_record_of_a_batch_read_is_counted_and_verified() {
    let bench = Bench::new();
    let Some((running, port)) = serve(&bench, CONFIG) else {
        return;
    };
    let port = port.to_string();
    let client = [
        "engine", "client", "-p", &port, "-k", "300", "-o", "B:100", "-z", "4", "-T", "20000",
        "--sla", "99%>10s",
    ];
    bench
        .flashproof(
            &[
                &client[..],
                &["-w", "I", "--batch-read-size", "16", "--out", "inserted"],
            ]
            .concat(),
        )
        .expect(0);
    for verify in [&["--verify"][..], &[]] {
        let out = if verify.is_empty() { OUT } else { "verified" };
        let load = [
            "-w",
            "RU,95",
            "--batch-read-size",
            "16",
            "--threads",
            "2",
            "--duration",
            "1s",
            "--out",
            out,
        ];
        let ended = bench
            .flashproof(&[&client[..], &load, verify].concat())
            .expect(0);
        let read = if verify.is_empty() {
            " records read\n"
        } else {
            ": 0 old, 0 missing, 0 foreign, 0 torn"
        };
        ended.shows(&[read]);
    }
    let run = bench.run();
    let (reads, failed, _) = totals(&run, "reads");
    assert_eq!(
        (run.verdict.records_read, failed),
        (
            Some(RecordsRead {
                records: 16 * reads,
                refused: None
            }),
            0
        )
    );
    let totals = run
        .verdict
        .streams
        .iter()
        .find(|stream| stream.name == "reads")
        .unwrap();
    assert_eq!(totals.bytes, 16 * 100 * reads);
    running.end_by("TERM").expect(0);
}

#[test]
fn prefer_rack_needs_rack_id_and_a_rack_that_no_node_reports_causes_a_warning() {
    let bench = Bench::new();
    let prefer = ["engine", "client", "--replica", "prefer-rack"];
    assert!(
        bench
            .flashproof(&prefer)
            .expect(2)
            .stderr
            .contains("--rack-id")
    );
    let Some((running, port)) = serve(&bench, CONFIG) else {
        return;
    };
    let port = port.to_string();
    let load = [
        "--rack-id",
        "3",
        "-p",
        &port,
        "-k",
        "50",
        "-o",
        "B:100",
        "-w",
        "I",
        "--sla",
        "99%>10s",
        "-T",
        "20000",
    ];
    let ended = bench
        .flashproof(&[&prefer[..], &load, &["--out", OUT]].concat())
        .expect(0);
    let said = "no node reports rack 3: reads go to the masters (-D shows the racks)";
    assert_eq!(ended.warnings(), [said]);
    running.end_by("TERM").expect(0);
}

#[test]
fn a_load_runs_over_tls_with_a_client_certificate_and_a_login_on_each_connection() {
    let bench = Bench::new();
    let Some((running, port)) = serve(&bench, CONFIG) else {
        return;
    };
    let front = TlsFront::before(([127, 0, 0, 1], port).into());
    bench.write("password", "admin\n");
    let file = |name| tls_file(name).into_os_string().into_string().unwrap();
    let host = front.address.to_string();
    let authorities = file("ca.pem");
    let certificate = file("client.pem");
    let key = file("client.key");
    let load = [
        "-k", "200", "-o", "B:5000", "-z", "4", "-T", "20000", "--sla", "99%>10s",
    ];
    let access = [
        "-h",
        &host,
        "--user",
        "admin",
        "--password-file",
        "password",
        "--tls",
        "--tls-cafile",
        &authorities,
    ];
    let access = [&access[..], &["--tls-name", "node.test"]].concat();
    let client = [&["engine", "client"][..], &load, &access].concat();
    let refused = ["no seed answered", &host, "check host, port, login and TLS"];
    bench
        .flashproof(&[&client[..], &["-w", "I"]].concat())
        .expect_error(3, &refused);
    let client = [
        &client[..],
        &["--tls-certfile", &certificate, "--tls-keyfile", &key],
    ]
    .concat();
    bench
        .flashproof(&[&client[..], &["-w", "I", "--out", "inserted"]].concat())
        .expect(0);
    // One connection for queries, and four for transactions.
    assert_eq!((front.logins(), front.used()), (5, 5));
    let verify = [
        "-w",
        "RU,80",
        "--verify",
        "--batch-read-size",
        "8",
        "--duration",
        "1s",
        "--out",
        OUT,
    ];
    bench.flashproof(&[&client[..], &verify].concat()).expect(0);
    let read = bench.run().verdict.records_read.unwrap();
    assert!(
        read.records > 0 && read.refused == Some(Refused::default()),
        "{read:?}"
    );
    bench.write("password", "wrong\n");
    bench.flashproof(&client).expect_error(
        3,
        &["user admin cannot log in - the password is wrong (code 65)"],
    );
    running.end_by("TERM").expect(0);
}
