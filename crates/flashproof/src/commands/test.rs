//! `flashproof storage` and `flashproof index`: one ACT test from its configuration to its verdict.
//!
//! Called `act_storage` or `act_index`, it replaces that program in a script: its log on standard output, its pacing,
//! its exit codes, and no files that were not requested.

use crate::args::TestArgs;
use load::workload::act::ActWorkload;
use load::workload::act::dialect::line_of;
use load::workload::act::options::Test;
use load::workload::act::staged::Base;
use procedures::configuration::{pace_as_act, read_test};
use session::Manner;
use session::console;
use session::devices;
use session::failure::Failure;
use session::record::record;
use session::runner::Named;
use std::path::PathBuf;
use std::process::ExitCode;

pub fn run(test: Test, args: &TestArgs, manner: Manner) -> Result<ExitCode, Failure> {
    let devices = devices::parsed(&args.device)?;
    let mut workloads = Vec::new();
    for (path, name) in args.configs.iter().zip(names(&args.configs)) {
        let (mut text, mut config) = read_test(test, path)?;
        if args.as_act || (manner == Manner::Act && line_of(text.as_bytes(), "arrival").is_none()) {
            pace_as_act(path, text.as_bytes(), &mut config)?;
        }
        if !devices.is_empty() {
            let base = Base::of_config(config, &devices).map_err(Failure::usages)?;
            (text, config) = (base.to_text(), base.config().clone());
        }
        config.test_duration_sec = args.duration.unwrap_or(config.test_duration_sec);
        let workload = ActWorkload::of(config).map_err(Failure::usages)?;
        workloads.push(Named { name, workload, text });
    }
    if args.dry_run {
        for Named { name, workload, .. } in &workloads {
            let title = if name.is_empty() { String::new() } else { format!("{name}:\n") };
            console::result(&format!("{title}{}", workload.blocks()))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    if manner == Manner::Act && workloads.len() > 1 {
        return Err(Failure::usage(format!(
            "cannot run {} configurations - act_{} takes one, as ACT's does - use flashproof {}",
            workloads.len(),
            test.name(),
            test.name()
        )));
    }
    record(test.name(), args.record.out.as_deref(), args.request(workloads), manner)
}

/// Names that distinguish several configurations: their file names without extension, with a number if two are equal;
/// empty for a single one. They become parts of file names and stream names.
fn names(configs: &[PathBuf]) -> Vec<String> {
    if let [_] = configs {
        return vec![String::new()];
    }
    let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_') { c } else { '_' };
    let stem = |path: &PathBuf| path.file_stem().unwrap_or_default().to_string_lossy().chars().map(plain).collect();
    let stems: Vec<String> = configs.iter().map(stem).collect();
    let name = |(place, stem): (usize, &String)| match stems[..place].iter().filter(|earlier| *earlier == stem).count()
    {
        0 => stem.clone(),
        earlier => format!("{stem}~{}", earlier + 1),
    };
    stems.iter().enumerate().map(name).collect()
}
