//! Devices and files that the kernel serves to others: as namespaces of NVMe over Fabrics, and as LIO
//! backstores (iSCSI, Fibre Channel, vhost).
//!
//! The NVMe target opens a device without claiming it, LIO's fileio does so too, and no process has it open:
//! configfs alone tells. Programs that serve a device themselves (nbd-server, qemu-nbd, ublk) have it open, and
//! are found as every process is. Sources: `drivers/nvme/target/`, `drivers/target/target_core_*.c`.

use super::refusal::{Findings, Reason};
use super::subject::Subject;
use crate::discover::{DevNum, Roots, SysDir};
use crate::observe::controller_names;
use std::path::Path;

/// Something that is exported.
struct Export {
    source: Source,
    what: String,
    /// How to end it.
    end: String,
}

/// What an export is made of, as configfs tells it.
#[derive(Default)]
struct Source {
    /// Paths to it.
    paths: Vec<String>,
    /// Its number, where the driver tells.
    number: Option<DevNum>,
    /// Path to an NVMe controller, all of whose namespaces it is.
    controller: Option<String>,
}

/// Finds what of `subject` is exported.
pub(super) fn check(subject: &Subject, roots: &Roots, findings: &mut Findings) {
    let config = SysDir::new(roots.sys.join("kernel/config"));
    for (module, place) in [("nvmet", config.child("nvmet")), ("target_core_mod", config.child("target"))] {
        if roots.sys.join("module").join(module).is_dir() && !place.path().is_dir() {
            let place = place.path().display();
            findings
                .note(format!("what {module} exports could not be looked at: {place} is not there (mount configfs)"));
        }
    }
    for Export { source, what, end } in namespaces(&config).into_iter().chain(backstores(&config)) {
        if let Some(which) = source.find(subject, roots) {
            findings.refuse(Reason::Exported { which, what, end });
        }
    }
}

impl Source {
    /// How to speak of what it has of `subject`.
    fn find(&self, subject: &Subject, roots: &Roots) -> Option<String> {
        let by_number = self.number.and_then(|number| subject.node(number));
        let by_controller = || {
            let name = Path::new(self.controller.as_ref()?).file_name()?.to_str()?;
            let is_below = |path: &Path| controller_names(path).iter().any(|controller| controller == name);
            subject.nodes().iter().find(|node| is_below(node.dir.path()))
        };
        let by_path = || self.paths.iter().find_map(|path| subject.find_path(path, roots));
        by_number.or_else(by_controller).map(|node| node.which.clone()).or_else(by_path)
    }
}

/// What the NVMe target serves: namespaces, and controllers that are passed through as a whole.
fn namespaces(config: &SysDir) -> Vec<Export> {
    let subsystems = config.child("nvmet").child("subsystems");
    let mut exports = Vec::new();
    for nqn in subsystems.children() {
        let subsystem = subsystems.child(&nqn);
        let mut add = |what: String, dir: SysDir, source: Source| {
            if dir.flag("enable") == Some(true) {
                let end = format!("disable that (`echo 0 > {}`)", dir.path().join("enable").display());
                exports.push(Export { source, what: format!("{what} of NVMe-oF subsystem {nqn}"), end });
            }
        };
        for nsid in subsystem.child("namespaces").children() {
            let dir = subsystem.child("namespaces").child(&nsid);
            let source = Source { paths: dir.text("device_path").into_iter().collect(), ..Source::default() };
            add(format!("namespace {nsid}"), dir, source);
        }
        let dir = subsystem.child("passthru");
        let source = Source { controller: dir.text("device_path"), ..Source::default() };
        add("the passed-through controller".to_owned(), dir, source);
    }
    exports
}

/// LIO backstores that are in operation. What one is made of stands in `info`, and in `udev_path` if the tool
/// that made it wrote that.
fn backstores(config: &SysDir) -> Vec<Export> {
    let core = config.child("target").child("core");
    let mut exports = Vec::new();
    for plugin in core.children() {
        for name in core.child(&plugin).children() {
            let dir = core.child(&plugin).child(&name);
            if dir.flag("enable") != Some(true) {
                continue;
            }
            let info = dir.text("info").unwrap_or_default();
            let behind = |label: &str| info.split_once(label)?.1.split_whitespace().next().map(str::to_owned);
            let number = || DevNum::parse(&format!("{}:{}", behind("Major:")?, behind("Minor:")?));
            let paths = [dir.text("udev_path"), behind("UDEV PATH:"), behind("File:")].into_iter().flatten().collect();
            exports.push(Export {
                source: Source { paths, number: number(), controller: None },
                what: format!("LIO backstore {plugin}/{name}"),
                end: "delete that (`targetcli`, /backstores)".to_owned(),
            });
        }
    }
    exports
}
