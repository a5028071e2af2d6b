//! `flashproof client`: transactions on a database.

use crate::support;
use std::net::TcpListener;
use support::Bench;

#[test]
fn help_is_a_long_option_because_h_is_the_host() {
    let bench = Bench::new();
    let help = bench.flashproof(&["client", "--help"]).expect(0).stdout;
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
        (&["-h", "db1:port"], "its port is none"),
        (&["-k", "0"], "1.."),
    ] {
        let all: Vec<&str> = std::iter::once("client").chain(options.iter().copied()).collect();
        bench.flashproof(&all).expect_error(2, &[said]);
    }
    // A port that was free a moment ago.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    bench.flashproof(&["client", "-p", &port]).expect_error(3, &["no seed answered", "refused"]);
}
