//! The campaign file that `fleet init` writes.

use crate::inventory::{DriveState, Inventory};
use results::units::quoted;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// A commented campaign file for the drives of `inventories`.
pub fn text(dir: &Path, inventories: &[(PathBuf, Inventory)], slurm: bool) -> String {
    let drives = || inventories.iter().flat_map(|(_, inventory)| &inventory.drives);
    let simulated = drives().all(super::inventory::Drive::is_simulated);
    let models: BTreeSet<&str> = drives().filter_map(|drive| drive.model.as_deref()).collect();
    let firmwares: BTreeSet<&str> = drives().filter_map(|drive| drive.firmware.as_deref()).collect();
    let list = |of: &BTreeSet<&str>| of.iter().map(|text| quoted(text)).collect::<Vec<_>>().join(", ");
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let name: String = dir.file_name().unwrap_or_default().to_string_lossy().chars().map(plain).take(40).collect();
    let name = if name.is_empty() { "campaign".to_owned() } else { name };
    let mut text = format!(
        "# A flashproof campaign: docs/fleet.md has all keys. Check it with \"flashproof fleet plan\".\n\
         name = \"{name}\"\n\
         \n\
         # All conditions must hold; remove those that you do not need.\n\
         [drives]\n"
    );
    let mut conditions = |key: &str, values: &BTreeSet<&str>| {
        if !values.is_empty() && !simulated {
            let _ = writeln!(text, "{key} = [{}]", list(values));
        }
    };
    conditions("models", &models);
    conditions("firmwares", &firmwares);
    text.push_str(
        "# hosts = [\"n1\", \"n2\"]\n\
         # serials = [\"S64ANX0T402\"]\n\
         # count = 50\n\
         # in_use = true        # also mounted drives: only for steps that read\n\
         \n\
         # Each step is a command of flashproof; {drive} is the drive, {out} the directory for its results. It runs when\n\
         # the step before it succeeded; after = [\"doctor\"] names others, after = [] none.\n",
    );
    let real = [
        ("doctor", "doctor {drive}", "10m"),
        ("prep", "prep {drive}", "24h"),
        ("certify", "certify {drive} --load 30 --out {out}", "60h"),
    ];
    let tried = [("certify", "certify {drive} --load 1 --duration 10m --out {out}", "10m")];
    for (name, run, limit) in if simulated { &tried[..] } else { &real[..] } {
        let _ = write!(text, "[[step]]\nname = \"{name}\"\nrun = \"{run}\"\nlimit = \"{limit}\"\n\n");
    }
    text.push_str("# Tasks at once. Several on one host share its CPUs and its power.\n[limits]\nper_host = ");
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let _ = writeln!(text, "{}", if simulated { cpus } else { 1 });
    text.push_str(
        "# total = 40\n\
         \n\
         # [[domain]]            # hosts that share power or cooling\n\
         # name = \"rack 1\"\n\
         # hosts = [\"n1\", \"n2\"]\n\
         # at_once = 4\n",
    );
    let with_data: Vec<_> =
        drives().filter(|drive| drive.state == DriveState::HasData).map(|drive| quoted(&drive.id)).collect();
    if !simulated {
        text.push_str("\n# ALL data of these drives is erased. The guard on the host still refuses drives that are in use.\n[consent]\n");
        let _ = match with_data.is_empty() {
            true => writeln!(text, "erase = []"),
            false => writeln!(text, "erase = []\n# Drives with data: {}", with_data.join(", ")),
        };
    }
    if slurm {
        text.push_str(
            "\n[slurm]\n\
             gres = \"flash:1\"       # the resource of a drive on your nodes; remove it if there is none\n\
             options = []           # of sbatch: [\"--partition=qualify\", \"--account=lab\"]\n\
             # program = \"/usr/bin/flashproof\"    # on the nodes, if not the path of this one\n\
             # grace_sec = 120      # from the signal to the time limit\n",
        );
    }
    text
}
