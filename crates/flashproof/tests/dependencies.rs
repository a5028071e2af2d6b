//! Dependencies of flashproof: licences that permit distribution, no library twice, no newer Rust than declared.

use crate::support::project;
use serde_json::Value;
use std::collections::BTreeMap;
use std::process::Command;

/// Allowed licences. Each library must offer an alternative whose licences (joined by AND) are all in this list.
const LICENCES: &str = "MIT, Apache-2.0, Apache-2.0 WITH LLVM-exception, ISC, BSD-2-Clause, BSD-3-Clause, 0BSD, Zlib, \
                        Unlicense, Unicode-3.0";

/// Libraries in two versions, because different dependencies need them.
const TWICE: [&str; 3] = ["crypto-common", "getrandom", "syn"];

/// Libraries that cargo never builds here, but lists, because the list covers the features of all platforms.
const OF_OTHER_PLATFORMS: [&str; 1] = ["tiny-keccak"];

/// All packages for this platform, or why they cannot be listed.
fn packages() -> Result<Vec<Value>, String> {
    let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let output = Command::new(env!("CARGO"))
        .current_dir(project())
        .args([
            "metadata",
            "--format-version",
            "1",
            "--locked",
            "--offline",
            "--filter-platform",
            &platform,
        ])
        .output()
        .map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr)
            .trim()
            .replace('\n', "; "));
    }
    let metadata: Value =
        serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())?;
    let used: Vec<&str> = metadata["resolve"]["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|node| node["id"].as_str())
        .collect();
    let all = metadata["packages"].as_array().unwrap().iter();
    let is_built =
        |package: &&Value| !OF_OTHER_PLATFORMS.contains(&package["name"].as_str().unwrap());
    let is_used = |package: &&Value| used.contains(&package["id"].as_str().unwrap());
    Ok(all.filter(is_used).filter(is_built).cloned().collect())
}

/// True if one alternative of `licence` is allowed. `licence` is an SPDX expression, or has the older form `A/B`.
fn is_allowed(licence: &str) -> bool {
    let has = |licence: &str| LICENCES.split(", ").any(|allowed| allowed == licence);
    match licence.split_once(") AND ") {
        Some((choices, further)) => {
            is_allowed(choices.trim_start_matches('(')) && is_allowed(further)
        }
        None => licence
            .replace('/', " OR ")
            .split(" OR ")
            .any(|choice: &str| {
                choice
                    .split(" AND ")
                    .all(|part| has(part.trim_matches(['(', ')', ' '])))
            }),
    }
}

#[test]
fn a_licence_expression_is_allowed_if_each_and_part_has_an_allowed_or_choice() {
    for allowed in [
        "MIT",
        "GPL-3.0 OR MIT",
        "Unlicense/MIT",
        "Apache-2.0 AND ISC",
        "(MIT OR Apache-2.0) AND Unicode-3.0",
    ] {
        assert!(is_allowed(allowed), "{allowed}");
    }
    for refused in [
        "GPL-3.0",
        "Apache-2.0 AND GPL-3.0",
        "(MIT OR Apache-2.0) AND GPL-3.0",
        "",
    ] {
        assert!(!is_allowed(refused), "{refused}");
    }
}

#[test]
fn dependencies_have_allowed_licences_one_version_and_no_newer_rust() {
    let packages = match packages() {
        Ok(packages) => packages,
        Err(why) => {
            return println!("skipped: the dependencies cannot be listed without a network: {why}");
        }
    };
    assert!(packages.len() > 50, "{} packages", packages.len());
    let text = |package: &Value, of: &str| package[of].as_str().unwrap_or_default().to_owned();
    // Only major and minor version are compared: no library needs a patch release.
    let version = |text: &str| {
        text.split('.')
            .take(2)
            .filter_map(|part| part.parse().ok())
            .collect::<Vec<u32>>()
    };
    let ours = packages
        .iter()
        .find(|package| package["name"] == "flashproof")
        .unwrap();
    let least = version(&text(ours, "rust_version"));
    let mut versions: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for package in &packages {
        let name = text(package, "name");
        let licence = text(package, "license");
        let rust = version(&text(package, "rust_version"));
        assert!(is_allowed(&licence), "{name} has the licence {licence:?}");
        assert!(
            rust <= least,
            "{name} needs Rust {rust:?}, and Cargo.toml says {least:?}"
        );
        versions
            .entry(name)
            .or_default()
            .push(text(package, "version"));
    }
    let twice: Vec<&String> = versions
        .iter()
        .filter(|(_, all)| all.len() > 1)
        .map(|(name, _)| name)
        .collect();
    assert_eq!(twice, TWICE, "{versions:?}");
}
