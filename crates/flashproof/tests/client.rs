//! `flashproof engine client`: transactions on a database.

use crate::support;
use std::net::{TcpListener, TcpStream};
use support::info_server::{CREDENTIAL_OF_ADMIN, InfoServer, Mode, OF_8_0, tls as server_tls, tls_file};
use support::{Bench, OUT, serve};

const CONFIG: &str = "service {\n service-threads 1\n}\nnetwork {\n service {\n port 0\n }\n}\n\
                      namespace test {\n storage-engine device {\n file records\n filesize 16M\n }\n}\n";

#[test]
fn help_is_a_long_option_because_h_is_the_host() {
    let bench = Bench::new();
    let help = bench.flashproof(&["engine", "client", "--help"]).expect(0).stdout;
    for said in ["-h, --host", "-z, --connections", "-g, --rate", "RU,95", "--verify"] {
        assert!(help.contains(said), "{said}: {help}");
    }
}

#[test]
fn what_cannot_be_is_refused_with_what_to_do() {
    let bench = Bench::new();
    for (options, said) in [
        (&["-o", "S:8", "--verify"][..], "cannot verify values of S:8"),
        (&["-w", "RU,101"], "RU,95"),
        (&["-o", "X"], "B:N"),
        (&["-n", "a;b"], "without"),
        (&["-h", "db1:port"], "a port is a number from 1 to 65535"),
        (&["-k", "0"], "1.."),
    ] {
        let all: Vec<&str> =
            std::iter::once("engine").chain(std::iter::once("client")).chain(options.iter().copied()).collect();
        bench.flashproof(&all).expect_error(2, &[said]);
    }
    // Nobody listens on the port of a client, and nobody else is given it.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let port = client.local_addr().unwrap().port().to_string();
    bench.flashproof(&["engine", "client", "-p", &port]).expect_error(3, &["no seed answered", "refused"]);
}

#[test]
fn records_that_were_inserted_otherwise_are_not_verified_and_it_is_said_what_they_are() {
    let bench = Bench::new();
    let Some((running, port)) = serve(&bench, CONFIG) else { return };
    let port = port.to_string();
    let client = ["engine", "client", "-p", &port, "-k", "50", "-z", "2", "-T", "20000", "--sla", "99%>10s"];
    bench.flashproof(&[&client[..], &["-o", "B:100", "-w", "I", "--out", "inserted"]].concat()).expect(0);
    let verify = ["-w", "RU,95", "--verify", "--duration", "1s", "--out", OUT];
    for other in [&["-o", "B:200"][..], &["-o", "S:100"], &["-o", "B:100", "-b", "2"]] {
        let said = ["that of key 0 has 1 bin of B:100", "give -b 1 -o B:100"];
        bench.flashproof(&[&client[..], &verify, other].concat()).expect_error(2, &said);
    }
    bench.flashproof(&[&client[..], &verify, &["-o", "B:100"]].concat()).expect(0);
    running.signal("TERM");
    running.end().expect(0);
}

#[test]
fn a_login_is_that_of_a_collection_and_a_server_without_security_takes_any_user() {
    let login = Mode::Login("admin".to_owned(), CREDENTIAL_OF_ADMIN.to_owned());
    let (bench, server) = (Bench::new(), InfoServer::start_as(login));
    bench.write("password", "wrong\n");
    let host = server.host();
    let client = ["engine", "client", "-h", &host, "-k", "50", "-o", "B:100", "-w", "I"];
    bench
        .flashproof(&client)
        .expect_error(3, &["the server wants a login: \"ERROR:80:not authenticated\" - give --user"]);
    let user = [&client[..], &["--user", "admin", "--password-file", "password"]].concat();
    bench.flashproof(&user).expect_error(3, &[&host, "user admin cannot log in - the password is wrong (code 65)"]);
    bench.flashproof(&[&user[..], &["--auth", "external"]].concat()).expect_error(2, &["give --tls"]);
    bench.write("password", "admin\n");
    bench.flashproof(&user).expect_error(3, &["cannot use namespace \"test\"", "it has \"test\""]);
    assert_eq!(server.logins(), 2);
    let authorities = tls_file("ca.pem").into_os_string().into_string().unwrap();
    let tls = [&user[..], &["--tls", "--tls-cafile", &authorities, "--tls-name", "other.test"]].concat();
    let server = InfoServer::start_with(OF_8_0, Mode::Plain, Some(server_tls(false)));
    let host = server.host();
    let tls: Vec<_> = tls.into_iter().map(|word| if word.starts_with("127.") { host.as_str() } else { word }).collect();
    bench.flashproof(&tls).expect_error(3, &["cannot begin TLS with other.test - invalid peer certificate"]);
    let Some((running, port)) = serve(&bench, CONFIG) else { return };
    let host = format!("localhost:{port}");
    let open: Vec<_> = user.iter().map(|word| if word.starts_with("127.") { host.as_str() } else { word }).collect();
    bench.flashproof(&[&open[..], &["--sla", "99%>10s", "-T", "20000", "--out", OUT]].concat()).expect(0);
    running.signal("TERM");
    running.end().expect(0);
}
