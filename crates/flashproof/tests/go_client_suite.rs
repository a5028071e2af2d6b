//! The test suite of Aerospike's own Go client on `flashproof engine serve`, part of `make soak`.
//! scripts/linearizability/unsupported-specs.txt lists the specs that must fail, under the unsupported feature that
//! each spec needs. All other specs must pass.

use crate::linearizability::program;
use crate::support::{Bench, project, serve};
use serde_json::Value;
use std::collections::BTreeSet;
use std::process::Stdio;

const CONFIG: &str = "service {\n service-threads 2\n}\n\
                      network {\n service {\n address 127.0.0.1\n port 0\n }\n}\n\
                      namespace test {\n storage-engine device {\n file records\n filesize 1G\n \
                      write-block-size 1M\n }\n}\n";

/// Names of a spec's containers and of the spec, in one line.
fn name(spec: &Value) -> String {
    let containers = spec["ContainerHierarchyTexts"]
        .as_array()
        .into_iter()
        .flatten();
    let parts: Vec<_> = containers
        .chain([&spec["LeafNodeText"]])
        .filter_map(Value::as_str)
        .collect();
    parts
        .join(" / ")
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
}

#[test]
#[ignore = "takes minutes: part of make soak"]
fn only_specs_of_unsupported_features_fail() {
    let Some(program) = program("go-client-suite") else {
        return;
    };
    let bench = Bench::new();
    let Some((running, port)) = serve(&bench, CONFIG) else {
        return;
    };
    let report = bench.path("report.json");
    let mut command = bench.command(&program);
    // Without a seed, the order of the specs is random. Some specs have timeouts, so each spec has a second attempt.
    command.args([
        "-p",
        &port.to_string(),
        "-ginkgo.seed=1",
        "-ginkgo.flake-attempts=2",
    ]);
    // The client's own idle timeouts expire early on a busy host.
    command.args([
        "-ginkgo.skip",
        "Idle Timeout Is Used",
        "-ginkgo.json-report",
        report.to_str().unwrap(),
    ]);
    command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .unwrap();
    running.terminate();
    let report: Value = serde_json::from_slice(&bench.read("report.json")).unwrap();
    let specs = report[0]["SpecReports"].as_array().unwrap();
    let of = |states: &[&str]| -> BTreeSet<String> {
        let specs = specs.iter().filter(|spec| spec["LeafNodeType"] == "It");
        specs
            .filter(|spec| states.iter().any(|state| spec["State"] == *state))
            .map(name)
            .collect()
    };
    let failed = of(&["failed", "panicked", "timedout", "interrupted", "aborted"]);
    let passed = of(&["passed"]);
    let list =
        std::fs::read_to_string(project().join("scripts/linearizability/unsupported-specs.txt"))
            .unwrap();
    let listed: BTreeSet<_> = list
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .collect();
    println!(
        "{} specs pass, {} specs fail, {} are listed",
        passed.len(),
        failed.len(),
        listed.len()
    );
    let unlisted: Vec<_> = failed
        .iter()
        .filter(|name| !listed.contains(&name[..]))
        .collect();
    // Of several specs with the same name, one may pass and another fail.
    let outdated: Vec<_> = listed
        .iter()
        .filter(|name| passed.contains(**name) && !failed.contains(**name))
        .collect();
    assert!(
        unlisted.is_empty(),
        "these specs fail and are not listed as unsupported: {unlisted:#?}"
    );
    assert!(
        outdated.is_empty(),
        "these specs are listed as unsupported and pass: {outdated:#?}"
    );
    assert!(passed.len() > 200, "the suite did not run to its end");
}
