//! `flashproof storage` and `flashproof index`: one ACT test from its configuration to its verdict. A trace
//! (`replay`) and record stores that share a drive (`tenants`) are recorded and judged like a test.
//!
//! Under the name `act_storage` or `act_index`, flashproof can replace that program in a script: it prints the same
//! log, has the same pacing and exit codes, and writes only requested files.

pub mod options;
pub mod replay;
pub mod tenants;

use crate::commands::storage::options::TestArgs;
use crate::configuration::{pace_as_act, read_test};
use crate::record::record;
use act::ActWorkload;
use act::dialect::line_of;
use act::options::Test;
use act::staged::BaseLoad;
use session::failure::Failure;
use session::runner::NamedWorkload;
use session::{CompatMode, console, devices};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub fn run(test: Test, args: &TestArgs, compat_mode: CompatMode) -> Result<ExitCode, Failure> {
    let devices = devices::parsed(&args.device)?;
    let mut pages = Vec::new();
    let mut workloads = Vec::new();
    for (path, name) in args.configs.iter().zip(names(&args.configs)) {
        let (mut text, mut config) = read_test(test, path)?;
        if args.as_act
            || (compat_mode == CompatMode::Act && line_of(text.as_bytes(), "arrival").is_none())
        {
            pace_as_act(path, text.as_bytes(), &mut config)?;
        }
        if !devices.is_empty() {
            let base = BaseLoad::of_config(config, &devices).map_err(Failure::usages)?;
            (text, config) = (base.to_text(), base.config().clone());
        }
        devices::refuse_patterns(&config.device_names)?;
        config.test_duration_sec = args.duration.unwrap_or(config.test_duration_sec);
        let workload = ActWorkload::from_config(config).map_err(Failure::usages)?;
        let title = if name.is_empty() {
            String::new()
        } else {
            format!("{name}:\n")
        };
        pages.push(format!("{title}{}", workload.blocks()));
        workloads.push(NamedWorkload::new(name, workload, text));
    }
    if args.dry_run {
        devices::note_only_reads(workloads.iter().any(|named| named.workload.writes()));
        pages.iter().try_for_each(|page| console::result(page))?;
        return Ok(ExitCode::SUCCESS);
    }
    if compat_mode == CompatMode::Act && workloads.len() > 1 {
        return Err(Failure::usage(format!(
            "cannot run {} configurations - act_{name} takes only one, as ACT's program does - use flashproof {name}",
            workloads.len(),
            name = test.name()
        )));
    }
    record(
        test.name(),
        args.record.out.as_deref(),
        &args.form,
        args.request(workloads),
        compat_mode,
    )
}

/// Names to distinguish several configurations in the names of files and streams: the configurations' file names
/// without extension, with a number if two are equal. A single configuration has an empty name.
fn names(configs: &[PathBuf]) -> Vec<String> {
    if let [_] = configs {
        return vec![String::new()];
    }
    let stems: Vec<String> = configs.iter().map(|path| plain_stem(path)).collect();
    let mut names = Vec::new();
    for (place, stem) in stems.iter().enumerate() {
        let earlier = stems[..place].iter().filter(|earlier| *earlier == stem);
        names.push(match earlier.count() {
            0 => stem.clone(),
            earlier => format!("{stem}~{}", earlier + 1),
        });
    }
    names
}

/// The file name without extension and without characters that are special to a shell.
fn plain_stem(path: &Path) -> String {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    stem.replace(
        |c: char| !c.is_ascii_alphanumeric() && !matches!(c, '.' | '-' | '_'),
        "_",
    )
}
