//! `flashproof size collect`, against servers that repeat recorded replies of real servers, and servers that misbehave.

use crate::support::info_server::{
    CREDENTIAL_OF_ADMIN, InfoServer, Mode, OF_4_9, OF_8_0, tls, tls_file,
};
use crate::support::words;
use crate::support::{Bench, Ended, Running};
use sizing::info::{self, Build, InfoReplies};
use std::fs;
use std::net::TcpListener;
use std::time::Duration;

const DIR: &str = "folder";
const PUT_BACK: &str = "folder/put-back.json";
const NODE: &str = "32C901000000FC02";

/// Arguments of a collection of two samples into [`DIR`].
fn arguments<'a>(host: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let all = [
        "size",
        "collect",
        "--host",
        host,
        "--duration",
        "1",
        "--every",
        "1",
        "--out",
        DIR,
        "--timeout",
        "5",
    ];
    // An option must not be given twice.
    let mut all: Vec<_> = all.to_vec();
    for option in ["--duration", "--timeout", "--out"] {
        if more.contains(&option) {
            let at = all.iter().position(|argument| *argument == option).unwrap();
            all.drain(at..at + 2);
        }
    }
    all.extend(more);
    all
}

fn collect(bench: &Bench, server: &InfoServer, more: &[&str]) -> Ended {
    bench.flashproof(&arguments(&server.host(), more))
}

/// Starts a collection of 10 minutes that changes settings, and waits for its first sample.
fn sampling(bench: &Bench, server: &InfoServer, more: &[&str]) -> Running {
    let all = [&["--enable", "--duration", "600"], more].concat();
    let mut running = Running::start(bench.prepare(&arguments(&server.host(), &all)));
    running.wait_until("samples", || server.samples() >= 1);
    running
}

fn nodes(bench: &Bench) -> Vec<InfoReplies> {
    info::read_folder(&bench.path(DIR)).unwrap()
}

/// All replies to `name` in the file of [`NODE`].
fn sampled(bench: &Bench, name: &str) -> Vec<String> {
    let text = fs::read_to_string(bench.path(DIR).join(format!("{NODE}.info"))).unwrap();
    let replies = text.lines().filter_map(|line| line.split_once('\t'));
    replies
        .filter(|(of, _)| *of == name)
        .map(|(_, value)| value.to_owned())
        .collect()
}

#[test]
fn without_enable_no_setting_changes_and_all_replies_are_recorded() {
    for (replies, build) in [(OF_8_0, "8.0.0.15"), (OF_4_9, "4.9.0.37")] {
        let bench = Bench::new();
        let server = InfoServer::start(replies);
        let ended = collect(&bench, &server, &[]).expect(0);
        let on_node = format!(
            "would be changed by --enable, on node {NODE} ({}): ",
            server.host()
        );
        for change in [
            "enable-benchmarks-storage of namespace test: false -> true",
            "drv_ssd of log sink 0 (/opt/capture/run/",
        ] {
            ended.says(&[format!("{on_node}{change}")]);
        }
        assert!(
            !server.asked().iter().any(|name| name.contains("set")),
            "{:?}",
            server.asked()
        );
        assert_eq!(server.settings(), (false, "INFO".to_owned()));
        let [node] = &nodes(&bench)[..] else {
            panic!("one node")
        };
        assert_eq!((node.name(), node.build), (NODE, Build::parse(build)));
        assert_eq!(node.host, Some(server.host()));
        let test = &node.namespaces["test"];
        assert_eq!(
            (test.replication_factor(), test.devices[0].name.as_str()),
            (Some(1), "/dev/loop2")
        );
        let [first, second] = &sampled(&bench, "namespace/test")[..] else {
            panic!("two samples")
        };
        let writes = |reply: &str| {
            reply
                .split_once("[0].writes=")?
                .1
                .split(';')
                .next()?
                .parse::<u64>()
                .ok()
        };
        assert!(
            writes(second) > writes(first) && writes(first) > Some(0),
            "{first} {second}"
        );
        assert_eq!(sampled(&bench, "statistics").len(), 2);
        let logs = &sampled(&bench, "logs")[0];
        let log = logs
            .strip_prefix("0:")
            .and_then(|logs| logs.split(';').next())
            .unwrap();
        assert!(log.ends_with("/aerospike.log"), "{logs}");
        ended.shows(&[format!(
            "  scp 127.0.0.1:{log} folder/{NODE}-aerospike.log\n"
        )]);
        assert!(
            ended
                .stdout
                .ends_with("next: flashproof size profile folder\n"),
            "{}",
            ended.stdout
        );
        assert!(!bench.exists(PUT_BACK));
    }
}

#[test]
fn with_enable_settings_are_on_during_sampling_and_restored_afterwards() {
    let bench = Bench::new();
    let server = InfoServer::start(OF_8_0);
    collect(&bench, &server, &["--enable"]).expect(0);
    let asked = server.asked().clone();
    let at = |name: &str| {
        asked
            .iter()
            .position(|asked| asked == name)
            .unwrap_or_else(|| panic!("{name} in {asked:?}"))
    };
    let benchmarks = "set-config:context=namespace;id=test;enable-benchmarks-storage";
    let on = at(&format!("{benchmarks}=true"));
    let off = at(&format!("{benchmarks}=false"));
    let detail = at("log-set:id=0;drv_ssd=detail");
    let info = at("log-set:id=0;drv_ssd=info");
    let samples: Vec<_> = (0..asked.len())
        .filter(|index| asked[*index] == "namespace/test")
        .collect();
    assert!(
        on.max(detail) < samples[0] && samples[1] < off.min(info),
        "{asked:?}"
    );
    assert_eq!(server.settings(), (false, "INFO".to_owned()));
    assert!(!bench.exists(PUT_BACK));
    let samples = sampled(&bench, "namespace/test");
    let is_on = samples
        .iter()
        .all(|sample| sample.contains("enable-benchmarks-storage=true"));
    assert!(is_on && !samples.is_empty(), "the state during sampling");
}

#[test]
fn collect_changes_only_the_selected_namespace_by_the_command_of_server_version_8_1() {
    let bench = Bench::new();
    let server = InfoServer::start(OF_8_0);
    let config = "storage-engine=device;storage-engine.device[0]=/dev/a;storage-engine.enable-benchmarks-storage=true";
    server.set("build", "8.1.2.0");
    server.set("namespaces", "bar;test");
    server.set("get-config:context=namespace;namespace=test", config);
    collect(&bench, &server, &["--enable", "--namespace", "test"]).expect(0);
    let asked = server.asked().clone();
    let set = "set-config:context=namespace;namespace=test;enable-benchmarks-storage";
    assert!(
        asked.contains(&format!("{set}=true")) && asked.contains(&format!("{set}=false")),
        "{asked:?}"
    );
    assert!(!asked.iter().any(|name| name.contains("bar")), "{asked:?}");
    assert_eq!(server.settings(), (false, "INFO".to_owned()));
    assert_eq!(nodes(&bench)[0].build, Build::parse("8.1.2.0"));
}

#[test]
fn settings_that_were_on_before_stay_on() {
    let bench = Bench::new();
    let server = InfoServer::start(OF_4_9);
    server.set_settings(true, "DETAIL");
    let ended = collect(&bench, &server, &["--enable"]).expect(0);
    ended.says(&["enable-benchmarks-storage of namespace test is true already"]);
    assert_eq!(server.settings(), (true, "DETAIL".to_owned()));
    assert!(!server.asked().iter().any(|name| name.contains("set")));
}

#[test]
fn a_signal_ends_the_sampling_and_settings_are_restored() {
    for signal in ["INT", "TERM", "HUP"] {
        let bench = Bench::new();
        let server = InfoServer::start(OF_8_0);
        let running = sampling(&bench, &server, &[]);
        assert_eq!(server.settings(), (true, "DETAIL".to_owned()));
        assert!(bench.exists(PUT_BACK));
        let ended = running.end_by(signal).expect(4);
        assert_eq!(
            server.settings(),
            (false, "INFO".to_owned()),
            "{signal}: {}",
            ended.stderr
        );
        assert!(!bench.exists(PUT_BACK));
        assert_eq!(nodes(&bench).len(), 1);
    }
}

#[test]
fn restore_undoes_the_changes_of_a_killed_collection() {
    let bench = Bench::new();
    let server = InfoServer::start(OF_8_0);
    let running = sampling(&bench, &server, &[]);
    // While the collection runs, `size restore` is refused.
    let ended = bench.flashproof(&["size", "restore", DIR]);
    ended.expect_error(
        3,
        &["cannot use the folder folder - a collection is running there"],
    );
    let killed = running.end_by("KILL");
    assert_eq!(killed.code, None, "{}", killed.stderr);
    assert_eq!(server.settings(), (true, "DETAIL".to_owned()));
    // A collection into that folder is refused. A collection into another folder warns.
    let killed = "cannot collect into folder - a collection there was killed";
    collect(&bench, &server, &[]).expect_error(2, &[killed, "flashproof size restore folder"]);
    let ended = collect(&bench, &server, &["--out", "other"]).expect(0);
    assert!(
        ended.warnings()[0].starts_with("the collection in folder was killed"),
        "{}",
        ended.stderr
    );
    let ended = bench.flashproof(&["size", "restore", DIR]).expect(0);
    ended.says(&["enable-benchmarks-storage of namespace test: true -> false"]);
    assert_eq!(server.settings(), (false, "INFO".to_owned()));
    assert!(!bench.exists(PUT_BACK));
    bench
        .flashproof(&["size", "restore", DIR])
        .expect(0)
        .says(&["nothing to restore"]);
    assert!(!sampled(&bench, "namespace/test").is_empty());
}

#[test]
fn settings_that_another_user_changed_meanwhile_are_kept() {
    let bench = Bench::new();
    let server = InfoServer::start(OF_8_0);
    let running = sampling(&bench, &server, &[]);
    server.set_settings(true, "WARNING");
    let ended = running.end_by("INT").expect(4);
    assert_eq!(server.settings(), (false, "WARNING".to_owned()));
    ended.says(&[
        "is warning: another user changed this setting after the collection set detail; before the \
                 collection, the value was info",
    ]);
}

#[test]
fn of_two_simultaneous_collections_only_the_first_restores() {
    let bench = Bench::new();
    let server = InfoServer::start(OF_8_0);
    let first = sampling(&bench, &server, &[]);
    let host = server.host();
    let second = arguments(&host, &["--enable", "--duration", "600", "--out", "second"]);
    let mut second = Running::start(bench.prepare(&second));
    second.wait_to_hear(
        "drv_ssd of log sink 0 (/opt/capture/run/8.0/aerospike.log) is detail already",
    );
    second.wait_to_hear("sampling 1 node");
    first.end_by("INT").expect(4);
    assert_eq!(server.settings(), (false, "INFO".to_owned()));
    let ended = second.end_by("INT").expect(4);
    assert_eq!(server.settings(), (false, "INFO".to_owned()));
    // After the first collection restored the setting, the server's log lacks data for the second collection.
    ended.says(&["was detail at the start and is info now"]);
}

#[test]
fn a_node_unreachable_at_the_restoration_is_retried() {
    let bench = Bench::new();
    let server = InfoServer::start(OF_8_0);
    let mut running = sampling(&bench, &server, &[]);
    server.set_away(true);
    running.signal("TERM");
    running.wait_to_hear("warning: settings of node");
    server.set_away(false);
    running.end().expect(4);
    assert_eq!(server.settings(), (false, "INFO".to_owned()));
}

#[test]
fn an_unresponsive_node_does_not_prevent_the_restoration_of_others() {
    let bench = Bench::new();
    let good = InfoServer::start(OF_8_0);
    let bad = InfoServer::start(OF_8_0);
    // The bad node is sorted first.
    bad.set("node", "AA1");
    let hosts = format!("{},{}", good.host(), bad.host());
    let long = words("--enable --duration 600 --every 600 --timeout 600");
    let collect = [
        &["size", "collect", "--host", &hosts, "--out", DIR],
        &long[..],
    ]
    .concat();
    let mut running = Running::start(bench.prepare(&collect));
    running.wait_until("samples", || bad.samples() >= 1 && good.samples() >= 1);
    bad.set_mode(Mode::Stall(0));
    running.signal("TERM");
    running.wait_until("the other is put back", || !good.settings().0);
    running.wait_until("it is crossed out", || !bench.text(PUT_BACK).contains(NODE));
    // SIGINT, because a second SIGTERM soon after the first counts as a repetition by the scheduler.
    running.end_by("INT").expect(4);
    bad.set_mode(Mode::Plain);
    bench.flashproof(&["size", "restore", DIR]).expect(0);
    assert_eq!(
        (bad.settings(), bench.exists(PUT_BACK)),
        ((false, "INFO".to_owned()), false)
    );
}

#[test]
fn settings_that_cannot_be_restored_are_printed_as_commands_and_kept_for_restore() {
    let bench = Bench::new();
    let server = InfoServer::start(OF_8_0);
    let port = server.address.port();
    let running = sampling(&bench, &server, &["--retry", "1"]);
    server.set_away(true);
    let ended = running.end_by("INT").expect(3);
    let type_this = format!(
        "run: asinfo -h 127.0.0.1 -p {port} -v 'set-config:context=namespace;id=test;enable-benchmarks-storage=false'; \
         asinfo -h 127.0.0.1 -p {port} -v 'log-set:id=0;drv_ssd=info'"
    );
    assert!(ended.errors()[0].ends_with(&type_this), "{}", ended.stderr);
    assert!(
        ended.errors()[1].contains("to restore them: flashproof size restore folder"),
        "{}",
        ended.stderr
    );
    ended.shows(&["next: flashproof size profile folder"]);
    assert_eq!(server.settings(), (true, "DETAIL".to_owned()));
    server.set_away(false);
    bench.flashproof(&["size", "restore", DIR]).expect(0);
    assert_eq!(server.settings(), (false, "INFO".to_owned()));
}

#[test]
fn a_server_that_refuses_changes_keeps_its_settings() {
    let bench = Bench::new();
    let server = InfoServer::start_as(Mode::RefuseSettings("ERROR:81:role violation"));
    let why = "cannot change enable-benchmarks-storage of namespace test on node";
    let parts = [why, "\"ERROR:81:role violation\"", "sys-admin"];
    collect(&bench, &server, &["--enable"]).expect_error(3, &parts);
    assert!(!bench.exists(PUT_BACK));
    assert_eq!(server.samples(), 0);
    // If one setting cannot be changed, the settings changed before are restored.
    let bench = Bench::new();
    let server = InfoServer::start(OF_8_0);
    server.set("log/0", "misc:INFO;drv_ssd:DETAIL");
    let second = InfoServer::start_as(Mode::RefuseSettings("FAIL"));
    second.set("node", "CC1");
    let hosts = format!("{},{}", server.host(), second.host());
    bench
        .flashproof(&arguments(&hosts, &["--enable"]))
        .expect(3);
    assert_eq!(
        (server.settings(), second.settings()),
        ((false, "INFO".to_owned()), (false, "INFO".to_owned()))
    );
    assert!(
        server
            .asked()
            .iter()
            .any(|name| name.ends_with("enable-benchmarks-storage=true"))
    );
}

#[test]
fn every_node_is_queried_once_however_peer_lists_overlap() {
    let servers: Vec<_> = (0..3).map(|_| InfoServer::start(OF_8_0)).collect();
    let entry = |index: usize| format!("[NODE{index},,[{}]]", servers[index].host());
    let all = format!("1,3000,[{},{},{}]", entry(0), entry(1), entry(2));
    for (index, server) in servers.iter().enumerate() {
        server.set("node", &format!("NODE{index}"));
        // The peer lists also contain the nodes themselves.
        server.set("peers-clear-std", &all);
    }
    let bench = Bench::new();
    collect(&bench, &servers[1], &[]).expect(0);
    assert_eq!(
        nodes(&bench)
            .iter()
            .map(InfoReplies::name)
            .collect::<Vec<_>>(),
        ["NODE0", "NODE1", "NODE2"]
    );
    assert!(servers.iter().all(|server| server.samples() == 2));
    let bench = Bench::new();
    collect(&bench, &servers[1], &["--one-node"]).expect(0);
    assert_eq!(nodes(&bench).len(), 1);
}

#[test]
fn peers_of_old_servers_and_alternate_addresses_are_found() {
    let old = InfoServer::start(OF_4_9);
    let other = InfoServer::start(OF_4_9);
    other.set("node", "CC1");
    old.set("peers-clear-std", "ERROR:4:unrecognized command");
    old.set("services", &other.host());
    let bench = Bench::new();
    collect(&bench, &old, &[]).expect(0);
    assert_eq!(nodes(&bench).len(), 2);
    let bench = Bench::new();
    old.set(
        "peers-clear-alt",
        &format!("1,3000,[[CC1,,[{}]]]", other.host()),
    );
    old.set("services", "");
    collect(&bench, &old, &["--services-alternate"]).expect(0);
    assert_eq!(nodes(&bench).len(), 2);
}

#[test]
fn an_unreachable_peer_makes_a_collection_incomplete() {
    let bench = Bench::new();
    let server = InfoServer::start(OF_8_0);
    // A port on which nothing listens.
    let gone = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    server.set(
        "peers-clear-std",
        &format!("1,3000,[[DD4,,[{gone}]],[EE5,,]]"),
    );
    let ended = collect(&bench, &server, &[]).expect(3);
    let warnings = ended.warnings();
    let why = format!("which other nodes report - {gone}: cannot connect - ");
    assert!(
        warnings[0].starts_with(&format!("cannot ask node DD4, {why}")),
        "{warnings:?}"
    );
    assert!(
        ended.errors()[0].starts_with("the collection is incomplete - "),
        "{}",
        ended.stderr
    );
    assert_eq!(nodes(&bench).len(), 1, "the existing files are kept");
    let bench = Bench::new();
    collect(&bench, &server, &["--one-node"]).expect(0);
    // A node of --host that cannot be reached is an error even with --one-node.
    let bench = Bench::new();
    let hosts = format!("{},{gone}", server.host());
    bench
        .flashproof(&arguments(&hosts, &["--one-node"]))
        .expect(3);
    assert_eq!(nodes(&bench).len(), 1);
}

#[test]
fn invalid_replies_are_reported_with_the_bytes_received() {
    let long = "expected a reply of at most 16,777,216 bytes, found a reply of 140,737,488,355,328";
    let other = "expected a line that begins with \"node\", found \"foo\\u0009bar\"";
    for (mode, parts) in [
        (
            Mode::Garbage(b"HTTP/1.1 400 Bad Request\r\n\r\n"),
            &["found 48 54 54 50 2f 31 2e 31 (\"HTTP/1.1\")"][..],
        ),
        (Mode::Garbage(b"\x02\x01\x80\0\0\0\0\0"), &[long]),
        (Mode::Garbage(b"\x02\x01\0\0\0\0\0\x08foo\tbar\n"), &[other]),
        (
            Mode::Garbage(b"\x02\x01\0\0\0\0\0\0"),
            &["expected a node id such as BB9020011AC4202, found \"nothing\""],
        ),
        (
            Mode::Garbage(b"\x02\x01\0\0\0\0\0\x0enode\t../../x\n\n"),
            &["found \"../../X\""],
        ),
        (
            Mode::Every("ERROR:4:bad"),
            &["expected a node id", "found \"ERROR:4:bad\""],
        ),
        (Mode::Every("FAIL"), &["found \"FAIL\""]),
        (Mode::Every("x\x1b[2J\0"), &["found \"X\\u001b[2J\\u0000\""]),
        (Mode::Every(""), &["found \"\""]),
        (
            Mode::Close(0),
            &["the server closed the connection after 0 bytes"],
        ),
        (
            Mode::Close(12),
            &["the server closed the connection after 4 bytes"],
        ),
    ] {
        let bench = Bench::new();
        let server = InfoServer::start_as(mode.clone());
        let ended = collect(&bench, &server, &[]);
        assert!(
            ended
                .errors()
                .iter()
                .any(|error| error.contains(&server.host())),
            "{mode:?}: {}",
            ended.stderr
        );
        ended.expect_error(3, parts);
        assert!(!bench.exists(DIR), "no folder is left");
    }
}

#[test]
fn a_server_that_stalls_or_drips_bytes_does_not_delay_others() {
    for mode in [
        Mode::Stall(0),
        Mode::Stall(20),
        Mode::Drip(Duration::from_millis(200)),
    ] {
        let bench = Bench::new();
        let server = InfoServer::start_as(mode);
        let ended = collect(&bench, &server, &["--timeout", "1"]);
        ended.expect_error(3, &["incomplete reply - timed out after 1 s - received "]);
    }
    // One node stalls during sampling: sampling of the other node continues, and the settings of both are restored.
    let bench = Bench::new();
    let good = InfoServer::start(OF_8_0);
    let bad = InfoServer::start(OF_8_0);
    bad.set("node", "CC1");
    let hosts = format!("{},{}", good.host(), bad.host());
    let arguments = arguments(
        &hosts,
        &words("--enable --duration 600 --timeout 1 --retry 60"),
    );
    let mut running = Running::start(bench.prepare(&arguments));
    running.wait_until("samples", || bad.samples() >= 1 && good.samples() >= 1);
    bad.set_mode(Mode::Stall(100));
    running.wait_to_hear("warning: no sample of node CC1");
    let before = good.samples();
    running.wait_until("more of the other", || good.samples() > before);
    bad.set_mode(Mode::Plain);
    running.wait_to_hear(&format!("node CC1 ({}) answers again", bad.host()));
    running.end_by("INT").expect(4);
    assert_eq!((good.settings().0, bad.settings().0), (false, false));
}

#[test]
fn a_lost_connection_is_reopened_with_the_session_token_and_wrong_logins_are_refused() {
    let login = Mode::Login("admin".to_owned(), CREDENTIAL_OF_ADMIN.to_owned());
    let bench = Bench::new();
    let server = InfoServer::start_as(login);
    bench.write("password", "admin\n");
    let user = ["--user", "admin", "--password-file", "password"];
    collect(&bench, &server, &[&user[..], &["--enable"]].concat()).expect(0);
    // Two logins: for the samples, and for the restoration.
    assert_eq!((server.logins(), server.settings().0), (2, false));
    // A lost connection is opened again with the token of the session.
    let bench = Bench::new();
    bench.write("password", "admin\n");
    let host = server.host();
    let mut running = Running::start(bench.prepare(&arguments(
        &host,
        &[&user[..], &["--duration", "600"]].concat(),
    )));
    server.asked().clear();
    running.wait_until("samples", || server.samples() >= 1);
    server.set_away(true);
    running.wait_to_hear("warning: no sample of node");
    server.set_away(false);
    running.wait_to_hear("answers again");
    running.end_by("INT").expect(4);
    assert_eq!(server.logins(), 3);
    let bench = Bench::new();
    let ended = collect(&bench, &server, &[]);
    ended.expect_error(
        3,
        &["the server wants a login: \"ERROR:80:not authenticated\" - give --user"],
    );
    bench.write("password", "wrong\n");
    let ended = collect(&bench, &server, &user);
    ended.expect_error(
        3,
        &["user admin cannot log in - the password is wrong (code 65)"],
    );
    let ended = collect(
        &bench,
        &server,
        &["--user", "nobody", "--password-file", "password"],
    );
    ended.expect_error(3, &["user nobody cannot log in - no such user (code 60)"]);
    bench.write("password", "");
    collect(&bench, &server, &user).expect_error(2, &["there is no password in password"]);
    // The password comes from the environment. Without a terminal, a prompt is impossible.
    let host = server.host();
    let mut command = bench.prepare(&arguments(&host, &["--user", "admin"]));
    command.env("FLASHPROOF_PASSWORD", "admin");
    Running::start(command).end().expect(0);
    // A server without security takes any user.
    let bench = Bench::new();
    let server = InfoServer::start(OF_8_0);
    bench.write("password", "admin");
    collect(&bench, &server, &user).expect(0);
    let bench = Bench::new();
    let ended = collect(
        &bench,
        &server,
        &words("--user a --password-file password --auth external"),
    );
    ended.expect_error(
        2,
        &[
            "--auth external sends the password in clear text",
            "give --tls",
        ],
    );
}

#[test]
fn over_tls_the_nodes_certificate_is_checked_and_the_clients_certificate_is_sent() {
    let file = |name: &str| tls_file(name).into_os_string().into_string().unwrap();
    let authorities = file("ca.pem");
    let certificate = file("client.pem");
    let key = file("client.key");
    let server = InfoServer::start_with(OF_8_0, Mode::Plain, Some(tls(false)));
    server.set("peers-tls-std", "0,4333,[]");
    let with = ["--tls", "--tls-cafile", &authorities];
    let named = [&with[..], &["--tls-name", "node.test"]].concat();
    let bench = Bench::new();
    collect(&bench, &server, &[&named[..], &["--enable"]].concat()).expect(0);
    assert_eq!(server.settings(), (false, "INFO".to_owned()));
    let bench = Bench::new();
    let wrong = [&with[..], &["--tls-name", "other.test"]].concat();
    collect(&bench, &server, &wrong).expect_error(
        3,
        &[
            "cannot begin TLS with other.test - invalid peer certificate",
            "--tls-name",
        ],
    );
    // The given CA did not sign the node's certificate.
    let ended = collect(
        &bench,
        &server,
        &[
            "--tls",
            "--tls-cafile",
            &certificate,
            "--tls-name",
            "node.test",
        ],
    );
    ended.expect_error(
        3,
        &["cannot begin TLS with node.test - invalid peer certificate"],
    );
    collect(&bench, &server, &["--timeout", "1"]).expect(3);
    let plain = InfoServer::start(OF_8_0);
    collect(&bench, &plain, &[&named[..], &["--timeout", "1"]].concat()).expect(3);
    let strict = InfoServer::start_with(OF_8_0, Mode::Plain, Some(tls(true)));
    strict.set("peers-tls-std", "0,4333,[]");
    collect(&bench, &strict, &named).expect(3);
    let shown = [
        &named[..],
        &["--tls-certfile", &certificate, "--tls-keyfile", &key],
    ]
    .concat();
    collect(&bench, &strict, &shown).expect(0);
    // The reply with the peers gives the TLS name of each peer.
    let bench = Bench::new();
    let peer = InfoServer::start_with(OF_8_0, Mode::Plain, Some(tls(false)));
    peer.set("node", "CC1");
    peer.set("peers-tls-std", "0,4333,[]");
    server.set(
        "peers-tls-std",
        &format!("0,4333,[[CC1,node.test,[{}]]]", peer.host()),
    );
    collect(&bench, &server, &named).expect(0);
    assert_eq!(nodes(&bench).len(), 2);
    let bench = Bench::new();
    for (name, content) in [("empty.pem", ""), ("text.pem", "no certificate")] {
        bench.write(name, content);
        let ended = collect(&bench, &server, &["--tls", "--tls-cafile", name]);
        assert!(
            ended
                .expect(2)
                .stderr
                .contains("-----BEGIN CERTIFICATE-----")
        );
    }
}

#[test]
fn logs_and_iostat_outputs_are_copied_unchanged_into_the_folder() {
    let bench = Bench::new();
    let server = InfoServer::start(OF_8_0);
    fs::create_dir_all(bench.path("a")).unwrap();
    bench.write("aerospike.log", "one");
    bench.write("a/aerospike.log", b"\x1f\x8b\x08");
    bench.write("x.txt", "Linux");
    bench.write("messages", "two");
    let files = words("--log aerospike.log a/aerospike.log messages --iostat x.txt");
    collect(&bench, &server, &files).expect(0);
    let alone = [&["size", "collect", "--out", "alone"], &files[..]].concat();
    let ended = bench.flashproof(&alone).expect(0);
    assert_eq!(ended.stdout, "next: flashproof size profile alone\n");
    for dir in [DIR, "alone"] {
        assert_eq!(bench.read(&format!("{dir}/aerospike.log")), b"one");
        assert_eq!(
            bench.read(&format!("{dir}/aerospike-2.log")),
            b"\x1f\x8b\x08"
        );
        assert_eq!(bench.read(&format!("{dir}/messages.log")), b"two");
        assert_eq!(bench.read(&format!("{dir}/iostat-x.txt")), b"Linux");
    }
    let mut piped = bench.prepare(&["size", "collect", "--out", "piped", "--log", "-"]);
    piped.stdin(fs::File::open(bench.path("messages")).unwrap());
    Running::start(piped).end().expect(0);
    assert_eq!(bench.read("piped/stdin.log"), b"two");
    let ended = bench
        .flashproof(&words("size collect --log none.log /dev/zero --out x"))
        .expect(2);
    assert_eq!(ended.errors().len(), 2, "{}", ended.stderr);
    assert!(!bench.exists("x"));
    bench
        .flashproof(&alone)
        .expect_error(2, &["cannot collect into alone - the folder is not empty"]);
}

#[test]
fn size_profile_of_several_nodes_needs_only_the_folder_that_collect_wrote() {
    let captured = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../sizing/tests/data/ce-4.9.0.37/"
    );
    let [log, iostat] =
        ["aerospike.log.zst", "iostat-x.txt.zst"].map(|name| format!("{captured}{name}"));
    let bench = Bench::new();
    let server = InfoServer::start(OF_4_9);
    let other = InfoServer::start(OF_4_9);
    other.set("node", "CC1");
    let hosts = format!("{},{}", server.host(), other.host());
    let of_node = format!("{NODE}={iostat}");
    let more = ["--log", &log, "--iostat", &of_node];
    bench.flashproof(&arguments(&hosts, &more)).expect(0);
    assert!(bench.exists(&format!("{DIR}/{NODE}-iostat-x.txt.zst")));
    // Two files of the same name, on a path with a "=". The copies have separate names, with the node if one is given.
    fs::create_dir_all(bench.path("run=3")).unwrap();
    fs::copy(&iostat, bench.path("run=3/x.txt.zst")).unwrap();
    let twice = format!("{NODE}=run=3/x.txt.zst");
    let collect = [
        "size",
        "collect",
        "--out",
        "not/there",
        "--iostat",
        &twice,
        &twice,
        "run=3/x.txt.zst",
    ];
    bench.flashproof(&collect).expect(0);
    for name in [
        &format!("{NODE}-iostat-x.txt.zst"),
        &format!("{NODE}-iostat-x-2.txt.zst"),
        "iostat-x.txt.zst",
    ] {
        assert!(bench.exists(&format!("not/there/{name}")), "{name}");
    }
    let ended = bench
        .flashproof(&[
            "size",
            "profile",
            "--log",
            &log,
            "--iostat",
            "run=3/x.txt.zst",
        ])
        .expect(0);
    ended.shows(&["iostat's r/s"]);
    let ended = bench.flashproof(&["size", "profile", DIR]).expect(0);
    ended.shows(&["iostat's r/s"]);
    ended.shows(&[format!("node {NODE} (server 4.9.0.37)")]);
    // The block sizes come from the recorded info replies.
    ended.shows(&["from the configuration of node"]);
}

#[test]
fn invalid_options_of_collect_are_refused_before_any_connection() {
    let bench = Bench::new();
    let collect = |more: &[&str]| bench.flashproof(&[&["size", "collect"], more].concat());
    collect(&[]).expect_error(2, &["no source to collect from - give --host HOST:PORT"]);
    collect(&["--host", "a", "--every", "20", "--duration", "10"])
        .expect_error(2, &["cannot compute rates from one sample"]);
    for wrong in ["a:0", "[::1", "a b", ""] {
        collect(&["--host", wrong]).expect(2);
    }
    collect(&["--enable"]).expect(2);
    bench
        .flashproof(&["size", "restore", "none"])
        .expect_error(2, &["it is not a folder"]);
    bench.write("put-back.json", "[{]");
    bench.line("size restore .").expect_error(
        3,
        &["cannot read the settings to restore from ./put-back.json"],
    );
    let server = InfoServer::start(OF_8_0);
    let host = server.host();
    collect(&["--host", &host, "--namespace", "none"]).expect_error(
        2,
        &["no node has the namespace \"none\" - the nodes have \"test\""],
    );
}

#[test]
fn print_commands_match_the_servers_version_or_cover_all_versions() {
    let bench = Bench::new();
    let server = InfoServer::start(OF_4_9);
    let host = server.host();
    let port = server.address.port();
    let ended = bench
        .flashproof(&["size", "collect", "--print-commands", "--host", &host])
        .expect(0);
    for line in [
        format!(
            "asadm -h 127.0.0.1 -p {port} --enable -e \"manage config namespace test storage-engine param enable-benchmarks-storage to true\"\n"
        ),
        format!("asinfo -h 127.0.0.1 -p {port} -v 'log-set:id=0;drv_ssd=detail'\n"),
        format!("asinfo -h 127.0.0.1 -p {port} -v 'log-set:id=0;drv_ssd=info'\n"),
        "iostat -x -t 10 61 > $NODE-iostat.txt &\n".to_owned(),
        format!("scp 127.0.0.1:/opt/capture/run/4.9/aerospike.log {NODE}-aerospike.log\n"),
    ] {
        assert!(ended.stdout.contains(&line), "{line} in\n{}", ended.stdout);
    }
    assert!(!server.asked().iter().any(|name| name.contains("set")));
    let ended = bench
        .flashproof(&["size", "collect", "--print-commands"])
        .expect(0);
    ended.shows(&[
        "asinfo -v 'set-config:context=namespace;id=NS;enable-benchmarks-storage=true'\n",
        "asinfo -v 'set-config:context=namespace;namespace=NS;enable-benchmarks-storage=true'\n",
        "asinfo -v 'set-config:context=service;storage-benchmarks=false'\n",
    ]);
    let named = ["--print-commands", "--enable", "--namespace", "a,b"];
    let ended = bench
        .flashproof(&[&["size", "collect"], &named[..]].concat())
        .expect(0);
    ended.shows(&[
        "# LOG is the path of the log (asinfo -v logs).\n",
        "asinfo -v 'set-config:context=namespace;id=b;enable-benchmarks-storage=true'\n",
        "printf '%s\\t%s\\n' namespace/a \"$(asinfo -v namespace/a)\"\n",
    ]);
    assert!(!ended.stdout.contains("NS"), "{}", ended.stdout);
    bench
        .flashproof(&["size", "collect", "--namespace", "a"])
        .expect_stderr(2, &["--host <HOST:PORT>|--print-commands"]);
    // File names from a server are quoted for the shell, whatever they contain.
    server.set("logs", "0:/var/log/$(reboot) a'b.log");
    let ended = bench
        .flashproof(&["size", "collect", "--print-commands", "--host", &host])
        .expect(0);
    ended.shows(&[r"scp '127.0.0.1:/var/log/$(reboot) a'\''b.log'"]);
}

#[test]
fn a_full_disk_ends_a_collection_and_settings_are_restored() {
    let bench = Bench::new();
    let server = InfoServer::start(OF_8_0);
    let Some(_disk) = crate::support::small_disk(&bench, "disk", 64) else {
        return;
    };
    let ended = collect(
        &bench,
        &server,
        &["--enable", "--duration", "600", "--out", "disk/folder"],
    )
    .expect(3);
    ended.says(&["No space left on device"]);
    assert_eq!(server.settings(), (false, "INFO".to_owned()));
}
