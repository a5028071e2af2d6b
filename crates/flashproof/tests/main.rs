//! Tests of the binary as a user sees it, by theme. One program has all tests, because linking takes seconds.

#![allow(clippy::disallowed_methods, reason = "tests make files of their own")]

mod act_names;
mod agreement;
mod align;
mod bad_arguments;
mod bad_config;
mod bad_devices;
mod baseline;
mod blame;
mod certify;
mod check;
mod circle;
mod client;
mod cluster;
mod compare;
mod config;
mod damage;
mod dependencies;
mod doctor;
mod durability;
mod endings;
mod export;
mod failing_devices;
mod fio;
mod fio_examples;
mod fio_files;
mod fio_jobs;
mod fio_test_jobs;
mod fio_verify;
mod fleet;
mod fleet_faults;
mod fleet_reasons;
mod fleet_records;
mod full_disk;
mod go_client_suite;
mod guard;
mod guest;
mod histograms;
mod hostile;
mod hostile_users;
mod index;
mod latency;
mod linearizability;
mod listing;
mod loglatency;
mod metrics;
mod outputs;
mod predict;
mod prep;
mod rate;
mod real;
mod replay;
mod select;
mod series_runs;
mod serve;
mod serve_clients;
mod serve_kills;
mod simulated;
mod simulated_ftl;
mod size;
mod sizing_doc;
mod sleep;
mod status;
mod support;
mod takeover;
mod tenants;
mod terminal;
mod together;
mod trace;
mod tracing;
mod transactions;
mod two_nodes;
mod typed;
mod verdict;
mod waf;

#[test]
fn every_file_of_tests_is_part_of_this_program() {
    let here = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    for entry in std::fs::read_dir(here).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if let Some(name) = name.strip_suffix(".rs").filter(|name| *name != "main") {
            assert!(
                include_str!("main.rs").contains(&format!("\nmod {name};\n")),
                "{name}.rs is not run: name it in main.rs"
            );
        }
    }
}
