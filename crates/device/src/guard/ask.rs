//! Consent to an erasure: by names on the command line or in the environment, or by typing the name.
//!
//! The guard asks once for each device with data. Before the first question, all devices of the run have passed the
//! checks that no consent overrides. The caller supplies a closure that asks the question, so that tests and other
//! front ends can answer.
//!
//! Not every name stays with the drive: `/dev/nvme1n1` is the drive that the kernel happened to find second. The serial
//! number, the world-wide name and udev's links for them (`/dev/disk/by-id/`) are the same after a reboot and on
//! another port.

use super::evidence::Evidence;
use super::refusal::{RefusalReason, list};
use crate::discover::{DeviceFacts, Disk, Resolved, SysDir, disks, file_identity, resolve};
use results::format;
use std::io::{self, BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::{fmt, fs};

#[derive(Debug)]
pub struct Question<'a> {
    /// The name as given, which the user must type.
    pub name: &'a str,
    pub facts: &'a DeviceFacts,
    /// Data found on the device: at least one item.
    pub evidence: &'a [Evidence],
}

impl fmt::Display for Question<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let facts = self.facts;
        let identifiers = [
            facts.model.clone(),
            facts
                .serial
                .as_ref()
                .map(|serial| format!("serial {serial}")),
            facts.wwid.as_ref().map(|wwid| format!("wwid {wwid}")),
        ];
        let identifiers_text: String = identifiers
            .into_iter()
            .flatten()
            .map(|text| format!("{text}, "))
            .collect();
        writeln!(
            f,
            "{} ({identifiers_text}{}) holds: {}",
            self.name,
            format::bytes(facts.size_bytes as f64),
            list(self.evidence)
        )?;
        write!(
            f,
            "This test ERASES it. To continue, type its name, {}: ",
            self.name
        )
    }
}

/// Returns the typed answer; `None` if nobody answers.
pub type Asker<'a> = dyn FnMut(&Question<'_>) -> Option<String> + 'a;

/// Consent to erasures in one run: names given in advance, and a way to ask.
#[derive(Default)]
pub struct EraseAnswers<'a> {
    device_names: Vec<String>,
    asker: Option<Box<Asker<'a>>>,
}

impl<'a> EraseAnswers<'a> {
    /// Consents to the erasure of the devices with these names: paths, serial numbers, world-wide names.
    pub fn named(names: impl IntoIterator<Item = String>) -> Self {
        Self {
            device_names: names.into_iter().collect(),
            asker: None,
        }
    }

    #[must_use]
    pub fn or_ask(mut self, asker: impl FnMut(&Question<'_>) -> Option<String> + 'a) -> Self {
        self.asker = Some(Box::new(asker));
        self
    }

    pub(super) fn can_ask(&self) -> bool {
        self.asker.is_some()
    }

    /// Decides on the erasure. If the drive has a lasting name, a path given in advance is not enough, because the path
    /// may lead to another drive after a reboot. A path typed as the answer is enough: the question shows the drive.
    pub(super) fn decide(
        &mut self,
        question: &Question<'_>,
        root: &Path,
    ) -> Result<(), RefusalReason> {
        let names = DeviceNames::from_facts(question.facts, root);
        let needs_lasting = names.unique_lasting_name().is_some();
        let device_name = question.name;
        let erase_name = names.lasting_erase_name(device_name);
        let pass_advice =
            format!("pass `--erase {erase_name}` or set FLASHPROOF_ERASE={erase_name}");
        let why = match names.unique_lasting_name() {
            Some(LastingName {
                description: what, ..
            }) => {
                format!("{what}; {device_name} may be another drive after a reboot")
            }
            None => "exactly as you gave the device".to_owned(),
        };
        let mut advice = format!("{pass_advice} ({why})");
        for name in &self.device_names {
            match names.matches(name) {
                NameMatch::Lasting => return Ok(()),
                NameMatch::Path if !needs_lasting => return Ok(()),
                NameMatch::Path => {
                    advice = format!(
                        "{pass_advice} ({why}, so `{name}` is not enough to erase the data on it)"
                    )
                }
                NameMatch::Ambiguous(others) => {
                    advice = format!("{pass_advice}; `{name}` names {} too", others.join(" and "))
                }
                NameMatch::Other => {}
            }
        }
        let typed = self.asker.as_mut().and_then(|ask| ask(question));
        match typed
            .as_deref()
            .map(str::trim)
            .filter(|typed| !typed.is_empty())
        {
            Some(typed) if matches!(names.matches(typed), NameMatch::Path | NameMatch::Lasting) => {
                return Ok(());
            }
            Some(typed) => advice = format!("type exactly `{device_name}` (`{typed}` was typed)"),
            None => {}
        }
        Err(RefusalReason::NotConfirmed {
            evidence: question.evidence.to_vec(),
            advice,
        })
    }
}

/// Names in the `--erase` options and in the value of `FLASHPROOF_ERASE`, separated by commas or white space.
pub fn erase_names(options: &[String], variable: Option<&str>) -> Vec<String> {
    let all = options.iter().map(String::as_str).chain(variable);
    all.flat_map(|text| text.split([',', ' ', '\t', '\n']))
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect()
}

/// Question on standard error, answer from standard input. `None` if either is not a terminal.
pub fn ask_on_terminal(question: &Question<'_>) -> Option<String> {
    let input = io::stdin();
    let mut output = io::stderr();
    if !input.is_terminal() || !output.is_terminal() {
        return None;
    }
    write!(output, "{question}")
        .and_then(|()| output.flush())
        .ok()?;
    let mut typed = String::new();
    input.lock().read_line(&mut typed).ok()?;
    Some(typed)
}

/// Directories below /dev whose links stay the same after a reboot: udev names them by identifiers of the drive or of
/// its contents.
const LASTING_LINKS: [&str; 3] = ["disk/by-id", "disk/by-uuid", "disk/by-partuuid"];

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NameMatch {
    /// Not a name of this device.
    Other,
    /// A path that leads to the device now.
    Path,
    /// A name that stays with the device.
    Lasting,
    /// A name that the device shares with these drives.
    Ambiguous(Vec<String>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LastingName {
    /// The name as the user types it, without spaces.
    pub(super) text: String,
    /// Kind of this name, as messages call it: `its serial number`, `its world-wide name`...
    pub(super) description: &'static str,
    other_devices: Vec<String>,
}

#[derive(Debug)]
pub(super) struct DeviceNames<'a> {
    facts: &'a DeviceFacts,
    root: &'a Path,
    lasting: Vec<LastingName>,
}

impl<'a> DeviceNames<'a> {
    pub(super) fn from_facts(facts: &'a DeviceFacts, root: &'a Path) -> Self {
        Self {
            lasting: lasting_names(facts, root),
            facts,
            root,
        }
    }

    /// First lasting name that no other device has. If there is one, consent in advance needs a lasting name.
    pub(super) fn unique_lasting_name(&self) -> Option<&LastingName> {
        self.lasting
            .iter()
            .find(|name| name.other_devices.is_empty())
    }

    /// The lasting name, or `device_name` (the name on the command line) if there is none.
    pub(super) fn lasting_erase_name<'b>(&'b self, device_name: &'b str) -> &'b str {
        self.unique_lasting_name()
            .map_or(device_name, |name| &name.text)
    }

    pub(super) fn matches(&self, name: &str) -> NameMatch {
        if let Some(lasting) = self
            .lasting
            .iter()
            .find(|lasting| lasting.text == typed(name))
        {
            return if lasting.other_devices.is_empty() {
                NameMatch::Lasting
            } else {
                NameMatch::Ambiguous(lasting.other_devices.clone())
            };
        }
        let by_id = self.root.join("dev").join(LASTING_LINKS[0]).join(name);
        let is_id = !name.contains('/') && self.leads_here(&by_id);
        let path = if is_id { by_id } else { PathBuf::from(name) };
        if name != self.facts.path && !self.leads_here(&path) {
            NameMatch::Other
        } else if self.is_lasting(&path) {
            NameMatch::Lasting
        } else {
            NameMatch::Path
        }
    }

    fn leads_here(&self, path: &Path) -> bool {
        match resolve(path, self.root) {
            Ok(Resolved::Block { number, .. }) => Some(number) == self.facts.number,
            Ok(Resolved::File { metadata }) => {
                self.facts.file_identity == Some(file_identity(&metadata))
            }
            Err(_) => false,
        }
    }

    /// True if `path` leads to the same device after a reboot.
    fn is_lasting(&self, path: &Path) -> bool {
        let is_in = |dir: &str| path.parent() == Some(&self.root.join("dev").join(dir));
        let kernel_name = self.facts.kernel_name.as_deref().unwrap_or_default();
        LASTING_LINKS.into_iter().any(is_in)
            || (kernel_name.starts_with("dm-") && is_in("mapper"))
            || (kernel_name.starts_with("md") && is_in("md"))
    }
}

/// `name` with `_` for spaces, because spaces separate names. udev replaces spaces in the same way.
fn typed(name: &str) -> String {
    name.split_whitespace().collect::<Vec<_>>().join("_")
}

/// Lasting names of the device of `facts`, beginning with the serial number, which is on the drive's label.
fn lasting_names(facts: &DeviceFacts, root: &Path) -> Vec<LastingName> {
    let disk = facts
        .disk_number()
        .and_then(|number| SysDir::of_block(root, number))
        .and_then(Disk::at);
    let part = facts
        .partition
        .as_ref()
        .map(|part| format!("-part{}", part.index))
        .unwrap_or_default();
    let mut names = Vec::new();
    if let Some(disk) = &disk {
        let mut others = disks(root);
        others.retain(|other| other.number != disk.number && !other.is_same_drive(disk));
        if let Some(serial) = facts.serial.as_deref().map(typed) {
            names.push(LastingName {
                text: format!("{serial}{part}"),
                description: "its serial number",
                other_devices: nodes_named(&serial, &others, |other| &other.serial),
            });
        }
        if let Some(wwid) = facts.wwid.as_deref().map(typed) {
            names.push(LastingName {
                text: format!("{wwid}{part}"),
                description: "its world-wide name",
                other_devices: nodes_named(&wwid, &others, |other| &other.wwid),
            });
        }
    }
    let mapped = facts
        .dm_uuid
        .as_ref()
        .and(disk.as_ref())
        .and_then(|disk| disk.dir.child("dm").text("name"));
    let mapped = mapped
        .map(|name| root.join("dev/mapper").join(name))
        .filter(|path| path.exists());
    names.extend(mapped.map(|path| LastingName {
        text: path.display().to_string(),
        description: "its device-mapper name",
        other_devices: Vec::new(),
    }));
    names.extend(by_id_link(facts, root).map(|path| LastingName {
        text: path.display().to_string(),
        description: "its link in /dev/disk/by-id",
        other_devices: Vec::new(),
    }));
    names
}

fn nodes_named(
    name: &str,
    disks: &[Disk],
    identifier: fn(&Disk) -> &Option<String>,
) -> Vec<String> {
    disks
        .iter()
        .filter(|disk| identifier(disk).as_deref().map(typed).as_deref() == Some(name))
        .map(|disk| disk.dir.node())
        .collect()
}

/// The link in /dev/disk/by-id that leads to the device; the first in the order of names, if there are several.
fn by_id_link(facts: &DeviceFacts, root: &Path) -> Option<PathBuf> {
    let number = facts.number?;
    let links = fs::read_dir(root.join("dev").join(LASTING_LINKS[0]))
        .ok()?
        .flatten()
        .map(|entry| entry.path());
    let leads_here = |path: &PathBuf| matches!(resolve(path, root), Ok(Resolved::Block { number: other, .. }) if other == number);
    links.filter(leads_here).min()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discover::tests::fake_nvme;
    use crate::discover::{DeviceNumber, Kind, discover_block_for_tests, unknown_facts};
    use crate::fake_tree::FakeTree;

    fn decide(mut answers: EraseAnswers<'_>) -> Result<(), String> {
        let facts = DeviceFacts {
            model: Some("ACME Fast".into()),
            size_bytes: 960_197_124_096,
            ..unknown_facts("/dev/x", Kind::RegularFile)
        };
        let evidence = [Evidence::PartitionTable {
            name: "a GPT partition table",
            partitions: Some(3),
        }];
        let question = Question {
            name: "/dev/x",
            facts: &facts,
            evidence: &evidence,
        };
        assert_eq!(
            question.to_string(),
            "/dev/x (ACME Fast, 960 GB) holds: a GPT partition table with 3 partitions\n\
             This test ERASES it. To continue, type its name, /dev/x: "
        );
        answers
            .decide(&question, Path::new("/"))
            .map_err(|reason| reason.to_string())
    }

    #[test]
    fn only_the_exact_name_allows_an_erasure() {
        assert!(decide(EraseAnswers::named(["/dev/x".to_owned()])).is_ok());
        assert!(decide(EraseAnswers::default().or_ask(|_| Some("/dev/x\n".into()))).is_ok());
        for wrong in ["/dev/", "/dev/x1", "x", "yes", "*", "/dev/*"] {
            let named = decide(EraseAnswers::named([wrong.to_owned()])).unwrap_err();
            let pass = "pass `--erase /dev/x` or set FLASHPROOF_ERASE=/dev/x (exactly as you gave the device)";
            assert!(named.ends_with(pass), "{named}");
            let typed = decide(EraseAnswers::default().or_ask(|_| Some(wrong.into()))).unwrap_err();
            assert!(
                typed.ends_with(&format!("type exactly `/dev/x` (`{wrong}` was typed)")),
                "{typed}"
            );
        }
    }

    #[test]
    fn a_missing_or_empty_answer_is_no_consent() {
        for answer in [None, Some(""), Some("\n")] {
            let text =
                decide(EraseAnswers::default().or_ask(|_| answer.map(str::to_owned))).unwrap_err();
            let begin = "a GPT partition table with 3 partitions; all data on it would be erased: to allow this, pass";
            assert!(text.starts_with(begin), "{text}");
        }
    }

    #[test]
    fn a_device_named_in_advance_is_not_asked_about() {
        assert!(
            decide(EraseAnswers::named(["/dev/x".to_owned()]).or_ask(|_| panic!("asked"))).is_ok()
        );
    }

    #[test]
    fn erase_names_are_read_from_the_options_and_from_the_variable() {
        let names = erase_names(
            &["/dev/a".into(), "/dev/b,/dev/c".into()],
            Some(" /dev/d /dev/e,"),
        );
        assert_eq!(names, ["/dev/a", "/dev/b", "/dev/c", "/dev/d", "/dev/e"]);
        assert!(erase_names(&[], None).is_empty());
    }

    #[test]
    fn the_lasting_name_of_a_partition_ends_in_its_partition_number() {
        let tree = FakeTree::with_files(&[]);
        fake_nvme(&tree);
        let root = tree.root();
        for (minor, names, others) in [
            (0, ["S123", "eui.0025385b21404321"], ["S123-part2", "S12"]),
            (
                2,
                ["S123-part2", "eui.0025385b21404321-part2"],
                ["S123", "S123-part1"],
            ),
        ] {
            let facts = discover_block_for_tests(DeviceNumber { major: 259, minor }, root);
            let of = DeviceNames::from_facts(&facts, root);
            assert_eq!(of.unique_lasting_name().unwrap().text, names[0]);
            names
                .iter()
                .for_each(|name| assert_eq!(of.matches(name), NameMatch::Lasting, "{name}"));
            others
                .iter()
                .for_each(|name| assert_eq!(of.matches(name), NameMatch::Other, "{name}"));
        }
    }

    #[test]
    fn the_lasting_name_of_a_volume_is_its_link_in_dev_mapper() {
        let tree = FakeTree::with_files(&[("dev/mapper/vg-data", "")]);
        let root = tree.root();
        tree.write_all(
            "sys/devices/dm-3",
            &[
                ("dev", "252:3"),
                ("dm/name", "vg-data"),
                ("dm/uuid", "LVM-x"),
            ],
        );
        tree.block("252:3", "sys/devices/dm-3");
        let facts = discover_block_for_tests(
            DeviceNumber {
                major: 252,
                minor: 3,
            },
            root,
        );
        let of = DeviceNames::from_facts(&facts, root);
        let name = root.join("dev/mapper/vg-data").display().to_string();
        let found = of.unique_lasting_name().map(|lasting| &lasting.text);
        assert_eq!(found, Some(&name));
        assert_eq!(of.matches(&name), NameMatch::Lasting);
        assert_eq!(of.matches("/dev/dm-3"), NameMatch::Other);
    }
}
